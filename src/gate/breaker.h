/*
 * breaker.h - too many wakes in too short a time: the model, or whoever asks it, is not itself, and heat comes off until it is quiet.
 *
 *     more than `wakes` within `seconds` ─► out: told once ─► no more than half as many within them ─► in: told once
 *
 * The window slides; times are the caller's, in seconds of any clock that does not go back. Thread-safe.
 */
#ifndef WANE_GATE_BREAKER_H
#define WANE_GATE_BREAKER_H

#include "wane.h"

struct wane__breaker;

/* `wakes` 0: it never goes out. `alert` may be NULL; it is called without a lock, by whoever's call it was that changed it. */
int wane__breaker_new(int wakes, double seconds, wane_breaker_fn alert, void *user,
                      struct wane__breaker **breaker, wane_error *error);
void wane__breaker_free(struct wane__breaker *breaker);
/* A wake happened. Allocates nothing. */
void wane__breaker_wake(struct wane__breaker *breaker, double now);
/* Is it out? Asking is what notices that it has been quiet. NULL: no. */
bool wane__breaker_is_out(struct wane__breaker *breaker, double now);
/* Wakes within the window, counted up to one more than are too many; times that it went out. */
int wane__breaker_recent(struct wane__breaker *breaker, double now);
uint64_t wane__breaker_trips(struct wane__breaker *breaker);

#endif
