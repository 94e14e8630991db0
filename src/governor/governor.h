/*
 * governor.h - one reply's governor: what is at work for it, and what it knows so far.
 */
#ifndef WANE_GOVERNOR_GOVERNOR_H
#define WANE_GOVERNOR_GOVERNOR_H

#include "governor/fuse.h"
#include "governor/state.h"

/* No pointer into itself: it may be copied. */
struct wane__governor {
    bool on;           /* some part of it is: its stage is walked            */
    bool steers;       /* a profile sets temperature and top-p               */
    int look_at;       /* which of the probe's layers                        */
    bool looks;        /* attention is looked at: kurtosis, consistency      */
    bool entropies;    /* of every row; else of those that the fuse wants    */
    bool every;        /* every row is looked at: no token may come without  */
    float hottest;     /* temperature that no command exceeds: the breaker's */
    float consistency; /* limit; 0: off */
    int fallback;      /* WANE_FALLBACK_… */
    struct wane__machine machine;
    struct wane__steering steering;
    struct wane__fuse fuse;
};

/*
 * What the reader gets where a fuse ended a reply, into `out`; `begun`: the reply has said something. Returns how many bytes it has, 0 where
 * the fallback says nothing.
 */
enum { WANE__FALLBACK_BYTES = 300 };
int wane__fallback_text(const struct wane__fuse *fuse, int fallback, bool begun,
                        char out[WANE__FALLBACK_BYTES]);

#endif
