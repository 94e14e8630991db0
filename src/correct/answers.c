/* answers.c - reads values out of answers, measures how far answers are from each other, and decides. See answers.h. */
#include "correct/answers.h"

#include "core/error.h"
#include "core/memory.h"
#include "core/pattern.h"
#include "correct/distance.h"

#include <limits.h>
#include <string.h>
#include <unicode/uregex.h>
#include <unicode/ustring.h>
#include <unicode/utext.h>

enum {
    VALUE_MOST = 256,     /* bytes of a value */
    PATTERN_MOST = 1000,  /* bytes of a pattern */
    MATCH_STEPS = 1000,   /* ICU's unit of work in a search: about a millisecond each */
    MATCH_TEXT = 1 << 20, /* bytes at an answer's end that are looked at */
};

struct wane__value_pattern {
    URegularExpression *expression;
};

/* ---------------------------------------------------------------- values */

void wane__value_pattern_free(struct wane__value_pattern *pattern) {
    if (pattern == NULL) return;
    if (pattern->expression != NULL) uregex_close(pattern->expression);
    wane__free(pattern);
}

static int compile(const char *text, URegularExpression **out, wane_error *error) {
    UErrorCode status = U_ZERO_ERROR;
    struct wane__pattern_fault fault = {0};
    size_t size = strlen(text);
    if (size == 0 || size > PATTERN_MOST)
        return wane__fail(error, WANE_EINVAL,
                          "The pattern of a final value has %zu bytes; it must have 1 to %d.", size,
                          PATTERN_MOST);
    int code = wane__pattern_open(text, size, 0, MATCH_STEPS, out, &fault);
    if (code != WANE_OK)
        return wane__fail(error, code, "The pattern of a final value is wrong near its character %d: %s.",
                          fault.offset, fault.why);
    if (uregex_groupCount(*out, &status) < 1)
        return wane__fail(error, WANE_EINVAL,
                          "The pattern of a final value has no group: put the value in ( and ).");
    return WANE_OK;
}

int wane__value_pattern_new(const char *text, struct wane__value_pattern **made, wane_error *error) {
    *made = NULL;
    struct wane__value_pattern *pattern = wane__alloc_zero(1, sizeof *pattern);
    if (pattern == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a pattern.");
    int code = compile(text, &pattern->expression, error);
    if (code == WANE_OK)
        *made = pattern;
    else
        wane__value_pattern_free(pattern);
    return code;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Is it a number, but for commas between digits? */
static bool is_number(const char *text, size_t size) {
    size_t digits = 0, points = 0;
    for (size_t i = 0; i < size; i++) {
        bool between = i > 0 && i + 1 < size && is_digit(text[i - 1]) && is_digit(text[i + 1]);
        if (is_digit(text[i]))
            digits++;
        else if (text[i] == '.')
            points++;
        else if (!(text[i] == ',' && between && points == 0) && !(i == 0 && text[i] == '-'))
            return false;
    }
    return digits > 0 && points <= 1;
}

/* In place; returns the new size. */
static size_t plain_value(char *text, size_t size) {
    size_t from = 0, to = 0;
    while (from < size && is_blank(text[from])) from++;
    while (size > from && is_blank(text[size - 1])) size--;
    size_t sign = from < size && text[from] == '$' ? 1 : 0;
    if (!is_number(text + from + sign, size - from - sign)) {
        memmove(text, text + from, size - from);
        return size - from;
    }
    for (size_t i = from + sign; i < size; i++)
        if (text[i] != ',') text[to++] = text[i];
    if (memchr(text, '.', to) != NULL) {
        while (text[to - 1] == '0') to--;
        if (text[to - 1] == '.') to--;
    }
    return to;
}

/* The first group of the last match, as bytes of `text`. */
static bool last_match(URegularExpression *expression, UText *text, int64_t *from, int64_t *to) {
    UErrorCode status = U_ZERO_ERROR;
    bool found = false;
    uregex_setUText(expression, text, &status);
    while (U_SUCCESS(status) && uregex_findNext(expression, &status)) {
        int64_t start = uregex_start64(expression, 1, &status), end = uregex_end64(expression, 1, &status);
        if (U_FAILURE(status) || start < 0) continue; /* the group took no part in this match */
        found = true;
        *from = start;
        *to = end;
    }
    return found && U_SUCCESS(status);
}

bool wane__value_of(struct wane__value_pattern *pattern, const char *text, size_t size, char *out,
                    size_t capacity) {
    UErrorCode status = U_ZERO_ERROR;
    if (size > MATCH_TEXT) {
        text += size - MATCH_TEXT;
        size = MATCH_TEXT;
    }
    UText *opened = utext_openUTF8(NULL, text, (int64_t)size, &status);
    if (U_FAILURE(status)) return false;
    int64_t from = 0, to = 0;
    bool found = last_match(pattern->expression, opened, &from, &to) && (size_t)(to - from) < capacity;
    utext_close(opened);
    if (!found) return false;
    memcpy(out, text + from, (size_t)(to - from));
    size_t length = plain_value(out, (size_t)(to - from));
    out[length] = '\0';
    return length > 0;
}

/* -------------------------------------------------------------- the vote */

static bool equal(const struct wane__answer *a, const struct wane__answer *b) {
    return a->count == b->count &&
           (a->count == 0 || memcmp(a->tokens, b->tokens, a->count * sizeof *a->tokens) == 0);
}

/* The first of two whole answers that have the same value, or are the same; -1: no two do. */
static int agreed(const struct wane__answer answers[WANE__ANSWERS], struct wane__value_pattern *pattern,
                  bool *by_value) {
    char value[WANE__ANSWERS][VALUE_MOST];
    bool has[WANE__ANSWERS] = {false};
    for (int i = 0; i < WANE__ANSWERS; i++)
        has[i] = pattern != NULL && answers[i].state == WANE__ANSWER_WHOLE &&
                 wane__value_of(pattern, answers[i].text, answers[i].size, value[i], VALUE_MOST);
    for (int i = 0; i < WANE__ANSWERS; i++) {
        for (int j = i + 1; j < WANE__ANSWERS; j++) {
            *by_value = has[i] && has[j] && strcmp(value[i], value[j]) == 0;
            if (*by_value) return i;
        }
    }
    for (int i = 0; i < WANE__ANSWERS; i++) {
        for (int j = i + 1; j < WANE__ANSWERS; j++) {
            bool whole = answers[i].state == WANE__ANSWER_WHOLE && answers[j].state == WANE__ANSWER_WHOLE;
            /* Neither has a value, or both the same: no two others can have one. */
            if (whole && equal(&answers[i], &answers[j])) return i;
        }
    }
    return -1;
}

static double apart(const struct wane__answer *a, const struct wane__answer *b) {
    size_t longer = a->count > b->count ? a->count : b->count;
    int64_t distance = longer > 0 ? wane__token_distance(a->tokens, a->count, b->tokens, b->count) : 0;
    if (distance < 0) return 1; /* no memory: as far as can be */
    return longer > 0 ? (double)distance / (double)longer : 0;
}

/* All three are whole: the one without a part in the greatest distance; of equals the first, or the one with the greatest reward. */
static int closest(const struct wane__answer answers[WANE__ANSWERS], enum wane__rewarded rewarded,
                   bool *by_reward) {
    double d01 = apart(&answers[0], &answers[1]), d02 = apart(&answers[0], &answers[2]),
           d12 = apart(&answers[1], &answers[2]);
    double sum[WANE__ANSWERS] = {d01 + d02, d01 + d12, d02 + d12};
    int best = 0, liked;
    for (int i = 1; i < WANE__ANSWERS; i++)
        if (sum[i] < sum[best]) best = i;
    if (rewarded == WANE__REWARDED_NOT) return best;
    liked = rewarded == WANE__REWARDED_BEST ? 0 : best;
    for (int i = liked + 1; i < WANE__ANSWERS; i++) {
        bool stands = rewarded == WANE__REWARDED_BEST || !(sum[i] > sum[best]);
        if (stands && answers[i].reward > answers[liked].reward) liked = i;
    }
    *by_reward = liked != best;
    return liked;
}

struct wane__vote_result wane__answers_decide(const struct wane__answer answers[WANE__ANSWERS],
                                              struct wane__value_pattern *pattern) {
    return wane__answers_decide_by(answers, pattern, WANE__REWARDED_NOT);
}

struct wane__vote_result wane__answers_decide_by(const struct wane__answer answers[WANE__ANSWERS],
                                                 struct wane__value_pattern *pattern,
                                                 enum wane__rewarded rewarded) {
    int whole = 0, open = 0, first = -1;
    for (int i = 0; i < WANE__ANSWERS; i++) {
        if (answers[i].state == WANE__ANSWER_WHOLE) whole++;
        if (answers[i].state == WANE__ANSWER_WHOLE && first < 0) first = i;
        if (answers[i].state == WANE__ANSWER_OPEN) open++;
    }
    struct wane__vote_result verdict = {.chosen = -1};
    if (whole >= 2) verdict.chosen = agreed(answers, pattern, &verdict.by_value);
    if (verdict.chosen >= 0 || open > 0) return verdict;
    if (whole == WANE__ANSWERS) {
        verdict.chosen = closest(answers, rewarded, &verdict.by_reward);
    } else {
        verdict.by_default = true;
        verdict.chosen = first; /* -1 when none came to its end */
    }
    return verdict;
}
