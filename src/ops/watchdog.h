/*
 * watchdog.h - does an engine call take so long that it will not come back?
 *
 *     bound = the greater of   floor                                            (--watchdog-ms)
 *                              20 × (median call + prompt items × median item)  what calls have taken so far
 *     before five calls are known:  6 × floor + prompt items × floor ÷ 20
 *
 * The age of a call is what was *seen* of it: each look adds the time since the last look, but never more than `tick_most`. So a process that
 * was stopped (a debugger, SIGSTOP), a machine that slept and one whose clock was set do not make a call old: the monotonic clock does not
 * run while a machine sleeps, and a gap between two looks counts as one tick at most. Somebody must look often, several times within
 * the floor; who looks seldom sees a call grow old more slowly, never faster.
 *
 * Pure: times are the caller's, by a clock that does not go back; so is the lock.
 */
#ifndef WANE_OPS_WATCHDOG_H
#define WANE_OPS_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>

#define WANE__WATCHDOG_SEEN   31 /* calls that a median is taken of */
#define WANE__WATCHDOG_KNOWN  5
#define WANE__WATCHDOG_FACTOR 20.0

struct wane__medians {
    double seen[WANE__WATCHDOG_SEEN];
    int count, next;
    double median; /* of them, kept up to date */
};

struct wane__watchdog {
    double floor; /* seconds; 0: it is off */
    double tick_most;
    struct wane__medians call, item; /* seconds: of calls without prompts; of a prompt's items beyond that */
    bool running, stuck;
    int prompt_items;
    double started, looked, age;
    uint64_t trips;
};

void wane__watchdog_init(struct wane__watchdog *w, double floor_seconds);
/* How often to look, in seconds. */
double wane__watchdog_tick(const struct wane__watchdog *w);
/* A call begins: `prompt_items` of its tokens give no row. */
void wane__watchdog_begin(struct wane__watchdog *w, double now, int prompt_items);
/* It came back; `whole`: in good order, so that its time says something. */
void wane__watchdog_end(struct wane__watchdog *w, double now, bool whole);
/* Look. True: a call runs that is older than its bound. */
bool wane__watchdog_look(struct wane__watchdog *w, double now);
double wane__watchdog_bound(const struct wane__watchdog *w);

#endif
