/*
 * answers.h - the vote over three answers: which of them stands, as soon as that is known.
 *
 *     a value's pattern is given:  the value that two answers have; the first of them with it
 *     else, or no two have one:    the answer closest to the others, by edit distance over tokens; of equals the first
 *
 * The distance of two answers is divided by the longer one's length. With three answers, the sums of distances order them as the
 * opposite sides of a triangle: the one wins that has no part in the greatest distance. When two answers are equal to the end,
 * no third one can be closer to both than they are to each other, so that the vote is over.
 *
 * Owns patterns. Refuses to know where answers come from.
 */
#ifndef WANE_CORRECT_ANSWERS_H
#define WANE_CORRECT_ANSWERS_H

#include "wane.h"

#include <stddef.h>
#include <stdint.h>

enum { WANE__ANSWERS = 3 };

enum wane__answer_state {
    WANE__ANSWER_OPEN,  /* still being written */
    WANE__ANSWER_WHOLE, /* its last token is there */
    WANE__ANSWER_GONE   /* it failed, or ran out of time: it has no part in the vote */
};

struct wane__answer {
    enum wane__answer_state state;
    const int32_t *tokens; /* from where the answers part */
    size_t count;
    const char *text; /* whole; UTF-8 */
    size_t size;
    double reward; /* how well it is likely to be liked; only for wane__answers_decide_by */
};

struct wane__value_pattern; /* compiled; read from any thread by one at a time */

/*
 * An ICU regular expression with at least one group: the first is the value, and the last match in an answer counts. WANE_EINVAL says
 * what is wrong with it and where.
 */
int wane__value_pattern_new(const char *pattern, struct wane__value_pattern **made, wane_error *error);
void wane__value_pattern_free(struct wane__value_pattern *pattern);
/*
 * An answer's value, for comparing, into `out`: without blanks around it; a number without a currency sign before it, without commas between its
 * digits and without zeros or a point at the end of its fraction. False when there is none, or it is longer than `capacity` - 1 bytes.
 */
bool wane__value_of(struct wane__value_pattern *pattern, const char *text, size_t size, char *out,
                    size_t capacity);

/* What the vote says, with all that is known; `pattern` may be NULL. */
struct wane__vote_result {
    int chosen;      /* -1: not decided yet */
    bool by_value;   /* two had the same value */
    bool by_default; /* fewer than two other answers came to their end: the first stands, or what there is */
    bool by_reward;  /* rewards made the difference */
};
struct wane__vote_result wane__answers_decide(const struct wane__answer answers[WANE__ANSWERS],
                                              struct wane__value_pattern *pattern);
/*
 * The same with rewards. Where three whole answers do not agree: TIE: of those that are equally close to the others the one with the
 * greatest reward; BEST: the one with the greatest reward. Of equals the first.
 */
enum wane__rewarded { WANE__REWARDED_NOT, WANE__REWARDED_TIE, WANE__REWARDED_BEST };
struct wane__vote_result wane__answers_decide_by(const struct wane__answer answers[WANE__ANSWERS],
                                                 struct wane__value_pattern *pattern,
                                                 enum wane__rewarded rewarded);

#endif
