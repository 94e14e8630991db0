/*
 * pool.h - a few threads that wait for one job at a time, cut into parts.
 *
 *     wane__pool_run(pool, work, user, parts)      caller and workers take parts until none is left
 *
 * One thread runs jobs on a pool; it takes part itself and never waits for a worker that has not begun, so that
 * a busy machine costs no more than doing everything alone. Workers sleep between jobs. A head's jobs come in close
 * succession, and waking a thread takes about as long as such a job: so after a job, or once they are woken for one
 * to come, they look out for it for a fifth of a millisecond, unless they are told to rest. Running allocates nothing.
 */
#ifndef WANE_CORE_POOL_H
#define WANE_CORE_POOL_H

#include "wane.h"

struct wane__pool;

/* `threads` counts the caller: 1 makes no thread at all. WANE_ENOMEM when a thread cannot be had. */
int wane__pool_new(int threads, struct wane__pool **pool);
/* Not while a job runs. */
void wane__pool_free(struct wane__pool *pool);
int wane__pool_threads(const struct wane__pool *pool);
/*
 * Call work(user, part) once for each part 0 … parts - 1, in any order, on any of the threads; returns when all
 * have returned. What they wrote is visible to the caller.
 */
void wane__pool_run(struct wane__pool *pool, void (*work)(void *user, int part), void *user, int parts);
/* A job comes soon. Costs nothing when the workers are awake. */
void wane__pool_wake(struct wane__pool *pool);
/* No job comes soon: leave the processors to others. */
void wane__pool_rest(struct wane__pool *pool);
/* Workers that sleep just now. */
int wane__pool_asleep(struct wane__pool *pool);

#endif
