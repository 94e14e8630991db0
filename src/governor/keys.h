/*
 * keys.h - the keys that one layer's attention looks at in one sequence, kept in step with what an engine's cache holds.
 *
 *     positions   0 … from - 1 │ from …………………… to - 1 │          known are those in the middle, the last `capacity` at most
 *
 * Positions say what happened: one that follows on is added; one before the end means that the rest was forgotten; one behind it, that
 * what lies between was decoded while nobody looked. Each key is normalised once, when it comes, so that a cosine is one dot
 * product. A key that holds NaN or infinity is not known, and neither are those before it.
 */
#ifndef WANE_GOVERNOR_KEYS_H
#define WANE_GOVERNOR_KEYS_H

#include "governor/cosines.h"

#include <stdbool.h>

/* The first positions of a sequence draw attention whatever they say (Xiao et al. 2023, arXiv 2309.17453): they are left out. */
enum { WANE__KEYS_SINKS = 4 };
/* With fewer keys kurtosis says nothing: of n numbers it is n - 2 + 1 / (n - 1) at most. */
enum { WANE__KEYS_LEAST = 16 };

/* Floats of a head; no model has wider ones by far. */
enum { WANE__KEYS_SIZE_MOST = 2048 };

struct wane__keys {
    int16_t *block;         /* [head][capacity / 8][pairs][8][2] */
    int heads, size, pairs; /* of keys; floats; half of them, rounded up */
    int capacity;           /* positions, a multiple of WANE__KEYS_CHUNK */
    int from, to;           /* known positions                           */
    uint32_t made; /* how often it was made from something else: rows decoded before are not of it any more */
};

/* Bytes for a ring of so many positions at least, and the capacity that it then has. */
size_t wane__keys_bytes(int heads, int size, int positions, int *capacity);
/* False: no memory, or heads that are too wide. */
bool wane__keys_open(struct wane__keys *keys, int heads, int size, int positions);
void wane__keys_close(struct wane__keys *keys);

/* The key of position `pos`: heads × size floats. */
void wane__keys_put(struct wane__keys *keys, int pos, const float *key);
/* The sequence was cut to its first `keep` tokens. */
void wane__keys_cut(struct wane__keys *keys, int keep);
/* It is the first `keep` tokens of another one of the same form now, or (from NULL) `keep` tokens of which nothing is known. */
void wane__keys_become(struct wane__keys *keys, const struct wane__keys *from, int keep);

/* Are all positions low … high known? */
static inline bool wane__keys_hold(const struct wane__keys *keys, int low, int high) {
    return low >= keys->from && high < keys->to;
}

/* heads × size floats as unit vectors of heads × 2 · pairs numbers; false: NaN or infinity among them, and then all are 0. */
bool wane__keys_units(const float *rows, int heads, int size, int16_t *units);

/*
 * What `heads` queries (as wane__keys_units gives them; heads a multiple of keys->heads, neighbours share a key) see of positions
 * low … high, all known: kurtosis and standard deviation of their cosines, means over queries. NAN where one query's cosines are
 * all equal. No allocation.
 */
void wane__keys_look(const struct wane__keys *keys, const int16_t *queries, int heads, int low, int high,
                     double *kurtosis, double *spread);

#endif
