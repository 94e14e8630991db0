/*
 * diversity.h - texts as lists of words, and what is counted of them: loops, different n-grams, BLEU. Pure.
 */
#ifndef WANE_GOVERNOR_DIVERSITY_H
#define WANE_GOVERNOR_DIVERSITY_H

#include "wane.h"

enum { WANE__LOOP_TIMES = 3, WANE__LOOP_WORDS = 24, WANE__LOOP_PERIOD = 80 };

/* Words by their hashes; all zero at first. */
struct wane__words {
    uint64_t *list;
    size_t count;
};

/* False: no memory. */
bool wane__words_of(const char *text, size_t size, struct wane__words *words);
void wane__words_free(struct wane__words *words);
/* The period of a loop, 0: none. */
int wane__words_loop(const struct wane__words *words);
/* Different n-grams and all of them, in these texts together. False: no memory. */
bool wane__words_distinct(const struct wane__words *texts, size_t count, int n, size_t *different,
                          size_t *all);

#endif
