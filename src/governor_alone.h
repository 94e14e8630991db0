/*
 * governor_alone.h - one reply's governor without a model, as the handles of wane/parts.h hold it.
 */
#ifndef WANE_GOVERNOR_ALONE_H
#define WANE_GOVERNOR_ALONE_H

#include "governor/governor.h"

/* Tokens that the fuse looks back on, the newest among them. */
enum { WANE__TAIL = WANE__FUSE_PERIOD + 1 };

/* No pointer into itself: it may be copied. */
struct wane_governor {
    struct wane__machine machine;
    struct wane__steering steering;
    struct wane__fuse fuse;
    bool steers;
    int fallback;
    int taken; /* tokens of the reply */
    int32_t tail[2 * WANE__TAIL];
    int tails;
};

/* Settings that were checked; as wane_governor_new has them. */
void wane__governor_alone_begin(struct wane_governor *governor, const wane_profile *profile,
                                const wane_quality *quality, float temperature);

#endif
