/*
 * divergence.h - what is watched for parting from the plain path, and switched off by itself when it does.
 *
 *     looked at ─► the same                               counted
 *               └► another ─► counted, logged ─► `limit` of them since it was armed ─► off, until somebody arms it again
 *
 * One for each feature that has another way to the same token. Who finds a divergence has used the plain path's token already: nothing
 * of it reached a reply. Thread-safe; nothing here allocates.
 */
#ifndef WANE_DIVERGENCE_H
#define WANE_DIVERGENCE_H

#include "core/log.h"

#include <stdatomic.h>

/* So many are a fault by default: one may be a miss that is allowed, or a bit that fell over. */
#define WANE__DIVERGENCES_MOST 3
/*
 * A token that is by so much less likely than the best one (a difference of logits) was not drawn for floats that differ: batches change
 * logits by up to 1.2 (docs/draft.md), those of likely tokens by far less.
 */
#define WANE__CLEARLY_LESS 1.5f

struct wane__divergence {
    const char *name;
    atomic_ullong checks, count;
    atomic_uint since; /* divergences since it was armed */
    atomic_uint limit; /* 0: it is never switched off */
    atomic_bool off;
    pthread_mutex_t lock;
    char last[240]; /* the last one in words; under the lock */
};

/* All WANE_WATCHED of them; and what they need at the end. */
void wane__divergences_init(struct wane__divergence *all);
void wane__divergences_close(struct wane__divergence *all);

static inline bool wane__divergence_is_off(const struct wane__divergence *d) {
    return atomic_load_explicit(&d->off, memory_order_acquire);
}

/* It was looked at, and was the same. */
void wane__divergence_same(struct wane__divergence *d);
/* It was looked at, and was another: say how. True: that switched it off. */
bool wane__divergence_found(struct wane__divergence *d, struct wane__log *log, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* On again, and nothing is held against it. */
void wane__divergence_arm(struct wane__divergence *d);
void wane__divergence_read(struct wane__divergence *d, wane_divergence_state *state);

#endif
