/*
 * wane/diversity.h - what replies are like, counted in words: how alike they are, whether one goes round in a loop, whether it says what
 * it should; and intervals of such figures. `wane bench governor` is made of these. docs/tune.md has the definitions. Part of wane.h.
 *
 * A word is a run of letters, marks, digits and underscores, a single Han character, or a single sign; small letters throughout.
 */
#ifndef WANE_DIVERSITY_H
#define WANE_DIVERSITY_H

#include "../wane.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A figure and its 95 % interval; NAN: cannot be said. */
typedef struct wane_interval {
    double value, low, high;
} wane_interval;

enum { WANE_GRAMS = 3 };

typedef struct wane_diversity {
    double distinct
        [WANE_GRAMS]; /* share of different n-grams of words among those of all texts, n = 1, 2, 3; NAN: there are none */
    double
        self_bleu; /* BLEU-4 of each text against the others, mean; NAN: fewer than two texts               */
} wane_diversity;

/* Of texts that are UTF-8; other bytes count as U+FFFD. WANE_ENOMEM. */
WANE_API int wane_diversity_of(const char *const *texts, size_t count, wane_diversity *out,
                               wane_error *error);
/*
 * The period in words of a stretch that says the same three times over and is 24 words long or longer, at most 80; 0: there is none. Of
 * several the shortest. WANE_ENOMEM.
 */
WANE_API int wane_text_loop(const char *text, size_t size, int *period, wane_error *error);
/*
 * Is the pattern (ICU's regular expression, capitals and small letters alike) found in the first `characters` characters of a text? WANE_EINVAL
 * where the pattern cannot be read, in words.
 */
WANE_API int wane_text_finds(const char *pattern, const char *text, size_t size, int characters, bool *found,
                             wane_error *error);

/* Wilson's interval of a share. */
WANE_API wane_interval wane_share_interval(uint64_t right, uint64_t all);
/*
 * The mean of values, with percentiles of 10,000 draws with replacement; equal seeds give equal bounds. Of differences of paired values it is
 * the paired interval. Where all are equal there is nothing to draw from: values of shares (-1, 0, 1) that are all 0 get the exact
 * bound of the share that may differ; others no width. WANE_ENOMEM.
 */
WANE_API int wane_mean_interval(const double *values, size_t count, uint64_t seed, wane_interval *out,
                                wane_error *error);
/* McNemar's exact two-sided p of so many items right on one side only, were both sides equally good. */
WANE_API double wane_mcnemar(uint64_t better, uint64_t worse);

#ifdef __cplusplus
}
#endif

#endif
