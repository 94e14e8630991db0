/*
 * rules_parse.c - reads a file of rules: JSON, patterns, words. Owns the sentences that say what is wrong in it, and where. Refuses
 * what it does not know: a field with a slip in its name would otherwise be a rule that does nothing.
 */
#include "correct/rules_internal.h"

#include "core/error.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/pattern.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unicode/ustring.h>
#include <unicode/utf8.h>
#include <xxhash.h>

/* Of one match, in units of core/pattern.h. */
enum { TIME_MOST = 10 };

struct reading {
    const char *file;
    const struct wane__rules_tokenizer *tokenizer;
    struct wane__rules *rules;
    XXH3_state_t *digest;
    wane_tokens tokens; /* scratch */
    wane_error *error;
    int index; /* of the rule */
    const char *name;
};

/* What is wrong with the rule under way. */
#define WRONG(r, format, ...)                                                                             \
    wane__fail((r)->error, WANE_EFORMAT, "%.200s: rule %d \"%.60s\": " format, (r)->file, (r)->index + 1, \
               (r)->name, __VA_ARGS__)

static int no_memory(struct reading *r) {
    return wane__fail(r->error, WANE_ENOMEM, "No memory for the rules of %.200s.", r->file);
}

static void digest_number(struct reading *r, uint64_t number) {
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(number >> 8 * i);
    XXH3_128bits_update(r->digest, bytes, sizeof bytes);
}

static void digest_text(struct reading *r, const char *text, size_t size) {
    digest_number(r, size);
    XXH3_128bits_update(r->digest, text, size);
}

/* ------------------------------------------------------------------ patterns */

static int read_pattern(struct reading *r, const json_t *pattern, struct wane__rule *rule) {
    if (!json_is_string(pattern)) return WRONG(r, "%s", "it has no \"pattern\", which must be a string.");
    const char *text = json_string_value(pattern);
    size_t size = json_string_length(pattern);
    struct wane__pattern_fault fault = {0};
    if (size == 0 || size > WANE__RULES_PATTERN)
        return WRONG(r, "its pattern has %zu bytes; it must have 1 to %d.", size, WANE__RULES_PATTERN);
    int status = wane__pattern_open(text, size, 0, TIME_MOST, &rule->pattern, &fault);
    if (status == WANE_ENOMEM) return no_memory(r);
    if (status != WANE_OK)
        return WRONG(r,
                     "its pattern is wrong at line %d, character %d (%s); docs/correction.md says what may "
                     "stand there.",
                     fault.line, fault.offset, fault.why);
    digest_text(r, text, size);
    return WANE_OK;
}

static int read_scope(struct reading *r, const json_t *scope, struct wane__rule *rule) {
    const char *text = scope == NULL ? "reply" : json_is_string(scope) ? json_string_value(scope) : "";
    rule->context = strcmp(text, "context") == 0;
    if (!rule->context && strcmp(text, "reply") != 0)
        return WRONG(r, "%s", "its \"scope\" must be \"reply\" or \"context\".");
    if (rule->context) r->rules->see_prompt = true;
    digest_text(r, text, strlen(text));
    return WANE_OK;
}

/* -------------------------------------------------------------------- tokens */

static int add_pair(struct reading *r, int32_t token) {
    struct wane__rules *rules = r->rules;
    if (rules->pairs == rules->capacity) {
        int more = rules->capacity > 0 ? 2 * rules->capacity : 64;
        void *block = wane__resize(rules->pair, (size_t)more, sizeof *rules->pair);
        if (block == NULL) return no_memory(r);
        rules->pair = block;
        rules->capacity = more;
    }
    rules->pair[rules->pairs++] = (struct wane__rule_pair){token, r->index};
    return WANE_OK;
}

static bool is_blank(const char *text, int size) {
    for (int i = 0; i < size; i++)
        if (text[i] != ' ') return false;
    return true;
}

/* Characters that are no blanks; -1: the text is not made of whole ones. */
static int characters(const char *text, int size) {
    int at = 0, count = 0;
    while (at < size) {
        UChar32 c;
        U8_NEXT((const uint8_t *)text, at, size, c);
        if (c < 0) return -1;
        count += c != ' ';
    }
    return count;
}

/*
 * May the first token of a word be held for it? Only if it is more than half of the word: what is less (a part of a character,
 * a blank, "per" of "permitted", 可 of 可以) begins very many others.
 */
static bool may_hold(const struct reading *r, int32_t token, const char *word, size_t word_size) {
    char text[WANE__RULES_WORD + 8];
    int size = r->tokenizer->token_bytes(r->tokenizer->user, token, text, sizeof text);
    return size > 0 && 2 * characters(text, size) > characters(word, (int)word_size);
}

/* One way to write a word; `held`: it has a token that can be held. */
static int add_spelling(struct reading *r, const char *text, size_t size, bool *held) {
    r->tokens.count = 0;
    int status = r->tokenizer->tokenize(r->tokenizer->user, text, size, &r->tokens, r->error);
    if (status != WANE_OK) return status;
    if (r->tokens.count == 0 || !may_hold(r, r->tokens.id[0], text, size)) return WANE_OK;
    *held = true;
    return add_pair(r, r->tokens.id[0]);
}

static int add_word(struct reading *r, const json_t *value) {
    char spaced[WANE__RULES_WORD + 1];
    if (!json_is_string(value)) return WRONG(r, "%s", "its \"words\" must be strings.");
    const char *word = json_string_value(value);
    size_t size = json_string_length(value);
    if (size == 0 || size > WANE__RULES_WORD || is_blank(word, (int)size))
        return WRONG(r, "the word \"%.100s\" must have 1 to %d bytes, not only blanks.", word,
                     WANE__RULES_WORD);
    bool held = false;
    spaced[0] = ' ';
    memcpy(spaced + 1, word, size);
    int status = add_spelling(r, word, size, &held);
    if (status == WANE_OK && word[0] != ' ') status = add_spelling(r, spaced, size + 1, &held);
    if (status != WANE_OK || held) return status;
    struct wane__rules *rules = r->rules;
    if (rules->left++ > 0) return WANE_OK;
    rules->left_rule = r->index;
    rules->left_word = wane__copy_string(word);
    return rules->left_word != NULL ? WANE_OK : no_memory(r);
}

static int add_token(struct reading *r, const json_t *value) {
    json_int_t token = json_is_integer(value) ? json_integer_value(value) : -1;
    if (token < 0 || token >= r->tokenizer->vocab_size)
        return WRONG(r, "its \"tokens\" must be whole numbers from 0 to %d.", r->tokenizer->vocab_size - 1);
    return add_pair(r, (int32_t)token);
}

static int read_list(struct reading *r, const json_t *list, const char *field,
                     int (*add)(struct reading *, const json_t *)) {
    if (list == NULL) return WANE_OK;
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count == 0 || count > WANE__RULES_WORDS)
        return WRONG(r, "its \"%s\" must be a list of 1 to %d.", field, WANE__RULES_WORDS);
    int status = WANE_OK;
    for (size_t i = 0; i < count && status == WANE_OK; i++) status = add(r, json_array_get(list, i));
    return status;
}

/* --------------------------------------------------------------------- rules */

static int check_fields(struct reading *r, json_t *object) {
    static const char *const known[] = {"name", "pattern", "words", "tokens", "scope", "note"};
    const char *field;
    json_t *value;
    json_object_foreach(object, field, value) {
        bool found = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++) found |= strcmp(field, known[i]) == 0;
        if (!found)
            return WRONG(
                r, "it has a field \"%.60s\"; the fields are name, pattern, words, tokens, scope, note.",
                field);
    }
    if (json_object_get(object, "words") == NULL && json_object_get(object, "tokens") == NULL)
        return WRONG(r, "%s", "it holds nothing: give it \"words\" or \"tokens\".");
    const json_t *note = json_object_get(object, "note");
    if (note != NULL && !json_is_string(note)) return WRONG(r, "%s", "its \"note\" must be a string.");
    return WANE_OK;
}

static int read_name(struct reading *r, const json_t *object, struct wane__rule *rule) {
    const json_t *name = json_object_get(object, "name");
    size_t size = json_is_string(name) ? json_string_length(name) : 0;
    if (size == 0 || size > WANE__RULES_WORD)
        return WRONG(r, "its \"name\" must be a string of 1 to %d bytes.", WANE__RULES_WORD);
    r->name = json_string_value(name);
    for (int i = 0; i < r->index; i++)
        if (strcmp(r->rules->rule[i].name, r->name) == 0)
            return WRONG(r, "rule %d has the same name.", i + 1);
    rule->name = wane__copy_string(r->name);
    return rule->name != NULL ? WANE_OK : no_memory(r);
}

static int read_rule(struct reading *r, json_t *object, struct wane__rule *rule) {
    if (!json_is_object(object)) return WRONG(r, "%s", "a rule must be an object.");
    int status = read_name(r, object, rule);
    if (status == WANE_OK) status = check_fields(r, object);
    if (status == WANE_OK) status = read_pattern(r, json_object_get(object, "pattern"), rule);
    if (status == WANE_OK) status = read_scope(r, json_object_get(object, "scope"), rule);
    if (status == WANE_OK) status = read_list(r, json_object_get(object, "words"), "words", add_word);
    if (status == WANE_OK) status = read_list(r, json_object_get(object, "tokens"), "tokens", add_token);
    return status;
}

static int compare_pairs(const void *left, const void *right) {
    const struct wane__rule_pair *a = left, *b = right;
    if (a->token != b->token) return a->token < b->token ? -1 : 1;
    return a->rule < b->rule ? -1 : a->rule > b->rule;
}

static void settle_pairs(struct reading *r) {
    struct wane__rules *rules = r->rules;
    int kept = 0;
    if (rules->pairs > 0) qsort(rules->pair, (size_t)rules->pairs, sizeof *rules->pair, compare_pairs);
    for (int i = 0; i < rules->pairs; i++)
        if (kept == 0 || compare_pairs(&rules->pair[kept - 1], &rules->pair[i]) != 0)
            rules->pair[kept++] = rules->pair[i];
    rules->pairs = kept;
    for (int i = 0; i < kept; i++) {
        digest_number(r, (uint32_t)rules->pair[i].token);
        digest_number(r, (uint32_t)rules->pair[i].rule);
    }
    XXH128_hash_t hash = XXH3_128bits_digest(r->digest);
    rules->digest[0] = hash.low64;
    rules->digest[1] = hash.high64;
}

static int read_rules(struct reading *r, json_t *list) {
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count > WANE__RULES_MOST)
        return wane__fail(r->error, WANE_EFORMAT, "%.200s: it must be a list of at most %d rules.", r->file,
                          WANE__RULES_MOST);
    r->rules->rule = wane__alloc_zero(count + 1, sizeof *r->rules->rule);
    if (r->rules->rule == NULL) return no_memory(r);
    int status = WANE_OK;
    for (size_t i = 0; i < count && status == WANE_OK; i++) {
        r->index = (int)i;
        r->name = "";
        r->rules->count = (int)i + 1;
        status = read_rule(r, json_array_get(list, i), &r->rules->rule[i]);
    }
    if (status == WANE_OK) settle_pairs(r);
    return status;
}

int wane__rules_parse(const char *name, const char *text, size_t size,
                      const struct wane__rules_tokenizer *tokenizer, struct wane__rules **rules,
                      wane_error *error) {
    struct reading r = {.file = name, .tokenizer = tokenizer, .error = error, .name = ""};
    json_error_t where;
    int status = WANE_OK;
    *rules = NULL;
    json_t *list = json_loadb(text, size, JSON_REJECT_DUPLICATES, &where);
    if (list == NULL)
        return wane__fail(error, WANE_EFORMAT, "%.200s: line %d, column %d: it is no JSON: %.150s.", name,
                          where.line, where.column, where.text);
    r.digest = XXH3_createState();
    r.rules = wane__alloc_zero(1, sizeof *r.rules);
    if (r.digest == NULL || r.rules == NULL) {
        status = no_memory(&r);
    } else {
        XXH3_128bits_reset(r.digest);
        status = read_rules(&r, list);
    }
    wane_tokens_free(&r.tokens);
    XXH3_freeState(r.digest);
    json_decref(list);
    if (status != WANE_OK) {
        wane__rules_free(r.rules);
        return status;
    }
    *rules = r.rules;
    return WANE_OK;
}

int wane__rules_load(const char *path, const struct wane__rules_tokenizer *tokenizer,
                     struct wane__rules **rules, wane_error *error) {
    char *text = NULL;
    size_t size = 0;
    *rules = NULL;
    int status = wane__file_read(path, "the rules", WANE__RULES_BYTES, &text, &size, error);
    if (status == WANE_OK) status = wane__rules_parse(path, text, size, tokenizer, rules, error);
    wane__free(text);
    return status;
}
