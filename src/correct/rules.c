/*
 * rules.c - a compiled set of rules at work: which candidates does the text hold down? Refuses to search where nothing hangs on it:
 * a pattern is tried only for a candidate that its rule names, and once a token.
 */
#include "correct/rules_internal.h"

#include "core/memory.h"

void wane__rules_free(struct wane__rules *rules) {
    if (rules == NULL) return;
    for (int i = 0; i < rules->count; i++) {
        if (rules->rule[i].pattern != NULL) uregex_close(rules->rule[i].pattern);
        wane__free(rules->rule[i].name);
    }
    wane__free(rules->rule);
    wane__free(rules->pair);
    wane__free(rules->left_word);
    wane__free(rules);
}

int wane__rules_count(const struct wane__rules *rules) {
    return rules->count;
}

const char *wane__rules_name(const struct wane__rules *rules, int index) {
    return rules->rule[index].name;
}

int wane__rules_pairs(const struct wane__rules *rules) {
    return rules->pairs;
}

bool wane__rules_see_prompt(const struct wane__rules *rules) {
    return rules->see_prompt;
}

void wane__rules_digest(const struct wane__rules *rules, uint64_t digest[2]) {
    digest[0] = rules->digest[0];
    digest[1] = rules->digest[1];
}

int wane__rules_words_left(const struct wane__rules *rules, const char **word, const char **rule) {
    if (rules->left > 0) {
        *word = rules->left_word;
        *rule = rules->rule[rules->left_rule].name;
    }
    return rules->left;
}

/* The first pair of this token, or of the next larger one. */
static int find(const struct wane__rules *rules, int32_t token) {
    int low = 0, high = rules->pairs;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (rules->pair[middle].token < token)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool wane__rules_names(const struct wane__rules *rules, int32_t token) {
    int at = find(rules, token);
    return at < rules->pairs && rules->pair[at].token == token;
}

static void forget(struct wane__rules *rules) {
    for (int i = 0; i < rules->count; i++) rules->rule[i].matched = -1;
    rules->units[0] = rules->units[1] = -1;
}

static bool try_rule(struct wane__rules *rules, struct wane__rule *rule, const struct wane__recent *recent,
                     int *failures) {
    if (rule->matched >= 0) return rule->matched > 0;
    UErrorCode status = U_ZERO_ERROR;
    int which = rule->context;
    if (rules->units[which] < 0)
        rules->units[which] = wane__recent_window(recent, !rule->context, rules->window[which]);
    uregex_setText(rule->pattern, rules->window[which], rules->units[which], &status);
    bool found = uregex_find(rule->pattern, 0, &status);
    if (U_FAILURE(status)) ++*failures;
    rule->matched = found && U_SUCCESS(status);
    return rule->matched > 0;
}

void wane__rules_hold(struct wane__rules *rules, const struct wane__recent *recent,
                      const struct wane__candidate *list, int count, bool *held, int *failures) {
    forget(rules);
    for (int i = 0; i < count; i++) {
        held[i] = false;
        for (int at = find(rules, list[i].token);
             at < rules->pairs && rules->pair[at].token == list[i].token && !held[i]; at++)
            held[i] = try_rule(rules, &rules->rule[rules->pair[at].rule], recent, failures);
    }
}

bool wane__rules_match(struct wane__rules *rules, int index, const struct wane__recent *recent) {
    int failures = 0;
    forget(rules);
    return try_rule(rules, &rules->rule[index], recent, &failures);
}
