/* fit_internal.h - what the files of the fit share: sorted tokens, and intervals from replicates. */
#ifndef WANE_GOVERNOR_FIT_INTERNAL_H
#define WANE_GOVERNOR_FIT_INTERNAL_H

#include "governor/fit.h"

/* A labelled token at its rank. */
struct wane__fit_seat {
    float x; /* sign · value */
    int32_t at, block;
    bool right;
    bool last; /* of those with this value */
};

/* Is the token labelled, and in this part? */
bool wane__fit_takes(const struct wane__fit_text *text, size_t at, int part);
/* Labelled tokens with finite values, ascending; wane__free them. `missing` may be NULL. False: no memory. */
bool wane__fit_sort(const struct wane__fit_text *text, const float *value, int sign, int part,
                    struct wane__fit_seat **out, size_t *count, size_t *missing);
/* Low and high from replicates, which are sorted; NAN among them are left out, and too many of them leave no interval. */
void wane__fit_interval(double *replicate, size_t count, struct wane__fit_share *share);

#endif
