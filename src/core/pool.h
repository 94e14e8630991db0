/*
 * pool.h - a few threads that wait for one job at a time, cut into parts.
 *
 *     wane__pool_run(pool, work, user, parts)      caller and workers take parts until none is left
 *
 * One thread runs jobs on a pool; it takes part itself and never waits for a worker that has not begun, so that
 * a busy machine costs no more than doing everything alone. Workers sleep between jobs. After a job they look
 * for the next one for some microseconds, because a head's jobs come in close succession, and then sleep.
 * Running allocates nothing.
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

#endif
