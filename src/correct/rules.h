/*
 * rules.h - rules that hold tokens down where a pattern matches what was written last: a file, compiled for one tokenizer.
 *
 *     file ─► JSON, checked ─► patterns (ICU), words ─► first tokens ─► sorted pairs (token, rule)
 *     candidates ─► named by some rule? ─► only then: the patterns of the rules that name them, on the recent text
 *
 * docs/correction.md specifies the file and how to write rules. A set belongs to the thread that decodes: patterns are matched
 * in scratch of its own.
 */
#ifndef WANE_CORRECT_RULES_H
#define WANE_CORRECT_RULES_H

#include "correct/recent.h"
#include "sample/sample.h"

/* Bounds of a file, and of what stands in it. */
#define WANE__RULES_BYTES   ((size_t)1 << 20)
#define WANE__RULES_MOST    256
#define WANE__RULES_WORDS   256  /* and tokens, of one rule */
#define WANE__RULES_PATTERN 2000 /* bytes                   */
#define WANE__RULES_WORD    100  /* bytes, of a word or a rule's name */

/* Whose tokens: what the set needs to know of a model. */
struct wane__rules_tokenizer {
    int (*tokenize)(void *user, const char *text, size_t size, wane_tokens *out, wane_error *error);
    int (*token_bytes)(void *user, int32_t token, char *buffer, size_t capacity); /* as wane_token_bytes */
    void *user;
    int vocab_size;
};

struct wane__rules;

/*
 * WANE_EFORMAT names the file, the rule and the place. `name` stands for the file in sentences. A word of which no token can be held
 * (see wane__rules_words_left) is no error.
 */
int wane__rules_parse(const char *name, const char *text, size_t size,
                      const struct wane__rules_tokenizer *tokenizer, struct wane__rules **rules,
                      wane_error *error);
int wane__rules_load(const char *path, const struct wane__rules_tokenizer *tokenizer,
                     struct wane__rules **rules, wane_error *error);
void wane__rules_free(struct wane__rules *rules);

int wane__rules_count(const struct wane__rules *rules);
const char *wane__rules_name(const struct wane__rules *rules, int index);
/* Pairs of token and rule. */
int wane__rules_pairs(const struct wane__rules *rules);
/* Does some rule look at the prompt, too? */
bool wane__rules_see_prompt(const struct wane__rules *rules);
/* A digest of all that decides what is held: patterns, scopes, tokens. */
void wane__rules_digest(const struct wane__rules *rules, uint64_t digest[2]);
/* Words that hold nothing, as their first token is half of them or less; the first such word and its rule through `word` and `rule`. */
int wane__rules_words_left(const struct wane__rules *rules, const char **word, const char **rule);

/* Does any rule name the token? */
bool wane__rules_names(const struct wane__rules *rules, int32_t token);
/*
 * Which of the candidates are held after this text: those of the rules whose patterns match. Each pattern is tried at most once, and
 * only if its rule names a candidate. A pattern that runs out of its time does not match; those are added to `failures`.
 */
void wane__rules_hold(struct wane__rules *rules, const struct wane__recent *recent,
                      const struct wane__candidate *list, int count, bool *held, int *failures);
/* Does this one rule match? For tests. */
bool wane__rules_match(struct wane__rules *rules, int index, const struct wane__recent *recent);

#endif
