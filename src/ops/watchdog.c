/* watchdog.c - medians of calls, and the age of the one that runs. Owns no thread, no clock, no lock. Refuses to believe in a gap. */
#include "ops/watchdog.h"

#include <string.h>

/* Looks within the floor. */
#define LOOKS      8
#define TICK_MOST  0.25
#define TICK_LEAST 0.01

static double within(double value, double low, double high) {
    return value < low ? low : value > high ? high : value;
}

void wane__watchdog_init(struct wane__watchdog *w, double floor_seconds) {
    *w = (struct wane__watchdog){.floor = floor_seconds > 0 ? floor_seconds : 0};
    w->tick_most = 4 * wane__watchdog_tick(w);
}

double wane__watchdog_tick(const struct wane__watchdog *w) {
    return w->floor > 0 ? within(w->floor / LOOKS, TICK_LEAST, TICK_MOST) : TICK_MOST;
}

static void learn(struct wane__medians *m, double value) {
    double sorted[WANE__WATCHDOG_SEEN];
    m->seen[m->next] = value > 0 ? value : 0;
    m->next = (m->next + 1) % WANE__WATCHDOG_SEEN;
    if (m->count < WANE__WATCHDOG_SEEN) m->count++;
    memcpy(sorted, m->seen, sizeof sorted);
    for (int i = 1; i < m->count;
         i++) { /* 31 numbers, nearly in order from call to call or not: some 200 steps */
        double moved = sorted[i];
        int at = i;
        for (; at > 0 && sorted[at - 1] > moved; at--) sorted[at] = sorted[at - 1];
        sorted[at] = moved;
    }
    m->median = sorted[m->count / 2];
}

void wane__watchdog_begin(struct wane__watchdog *w, double now, int prompt_items) {
    w->running = true;
    w->stuck = false;
    w->prompt_items = prompt_items > 0 ? prompt_items : 0;
    w->started = w->looked = now;
    w->age = 0;
}

void wane__watchdog_end(struct wane__watchdog *w, double now, bool whole) {
    double took = now - w->started;
    bool was = w->running;
    w->running = w->stuck = false;
    w->age = 0;
    if (!was || !whole || w->floor <= 0) return;
    if (w->prompt_items == 0)
        learn(&w->call, took);
    else
        learn(&w->item, (took - w->call.median) / w->prompt_items);
}

double wane__watchdog_bound(const struct wane__watchdog *w) {
    if (w->call.count < WANE__WATCHDOG_KNOWN) return 6 * w->floor + w->prompt_items * w->floor / 20;
    /* A prompt's tokens go together, and take no longer each than a call with a single one. */
    double item = w->item.count >= WANE__WATCHDOG_KNOWN ? w->item.median : w->call.median;
    double learned = WANE__WATCHDOG_FACTOR * (w->call.median + w->prompt_items * item);
    return learned > w->floor ? learned : w->floor;
}

bool wane__watchdog_look(struct wane__watchdog *w, double now) {
    if (!w->running || w->floor <= 0) return false;
    if (now > w->looked) {
        w->age += within(now - w->looked, 0, w->tick_most);
        w->looked = now;
    }
    bool stuck = w->age > wane__watchdog_bound(w);
    w->trips += stuck && !w->stuck;
    w->stuck = stuck;
    return stuck;
}
