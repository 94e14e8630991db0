/*
 * wane/correction.h - the corrections of single tokens: the model's rules, and what each part has done. Part of wane.h.
 *
 * Which parts work, and how, is in a request's wane_quality (wane/quality.h); docs/correction.md has the formulas, the proof that
 * LEGACY and WANE give the same distribution of tokens, and how to write rules.
 */
#ifndef WANE_CORRECTION_H
#define WANE_CORRECTION_H

#include "../wane.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Give the model a file of rules, compiled for its tokenizer; NULL: none. `path` without a slash or a dot is the name of a set that
 * ships, such as "prohibitions": looked for beside the installed library, then in the
 * source tree. WANE_ENOENT: there is no such file; WANE_EFORMAT names file, rule and place, and leaves the rules as they were;
 * WANE_EBUSY while a session or a scheduler stands on the model. Words that can hold nothing with this tokenizer are logged.
 */
WANE_API int wane_model_set_rules(wane_model *model, const char *path, wane_error *error);

typedef struct wane_correction_part {
    uint64_t ran;     /* tokens at which it was at work                                                   */
    uint64_t changed; /* of these: with it, the same random number gave another token than without it    */
} wane_correction_part;

/*
 * A moment's picture. Counters never fall. Each part is told from the ones before it, in this order: the clamp from the plain
 * draw, the dialogue's temperature from that, and so on.
 */
typedef struct wane_correction_state {
    uint64_t tokens;  /* drawn with at least one part at work                         */
    uint64_t changed; /* of these: some part changed the token                        */
    uint64_t draws;   /* random numbers that went into them: three and more a token in LEGACY, one in WANE */
    wane_correction_part clamp, dialogue, vote, rules;
    uint64_t held;         /* tokens whose distribution a rule changed                            */
    uint64_t powerless;    /* tokens of which all of the best 256 were held: nothing was changed  */
    uint64_t failures;     /* patterns that ran out of their time, and so did not match           */
    int rules_loaded;      /* rules that the model has                                            */
    char rules_digest[33]; /* of what decides what they hold; "" without rules                 */
} wane_correction_state;

/* Thread-safe. */
WANE_API void wane_model_get_correction_state(wane_model *model, wane_correction_state *state);

#ifdef __cplusplus
}
#endif

#endif
