/*
 * alert_hook.h - one place where changes are told: a bounded queue, a thread of its own, and retries that end.
 *
 *     push ─► queue ─► thread ─► send ─► delivered
 *      (never waits)              ├─► later: again after first × 2^n, half of it by chance, at most `most`; `attempts` in all
 *                                 └─► never: given up, as after the last attempt
 *
 * A full queue gives up its oldest message: what is now counts more than what was. Messages go out one after the other, in order.
 */
#ifndef WANE_OPS_ALERT_HOOK_H
#define WANE_OPS_ALERT_HOOK_H

#include "ops/alert_board.h"

#include <stdatomic.h>

#define WANE__HOOK_QUEUE 64

enum wane__hook_result { WANE__HOOK_DELIVERED = 0, WANE__HOOK_LATER, WANE__HOOK_NEVER };

struct wane__hook_message {
    struct wane__alert_change change;
    char *body; /* JSON */
    size_t body_size;
    int attempt; /* 1, 2, … */
};

struct wane__hook;
/*
 * Deliver it, or say in `why` (200 bytes) why not. May take as long as its own time limit says; look at wane__hook_is_ending
 * and come back soon where that is true.
 */
typedef enum wane__hook_result (*wane__hook_fn)(void *user, const struct wane__hook *hook,
                                                const struct wane__hook_message *message, char why[200]);

struct wane__hook_options {
    const char *name; /* for the log and the metrics; not copied: a literal */
    wane__hook_fn send;
    void *user;
    int attempts;
    double first, most; /* seconds before the second attempt; between two at most */
    uint64_t seed;      /* of the chance in it */
    bool no_thread;     /* wane__hook_step is called by the caller: for tests */
    struct wane__log *log;
};

struct wane__hook_counts {
    uint64_t delivered, failed, dropped,
        retried; /* messages; messages given up; pushed out; attempts after the first */
    int waiting;
};

int wane__hook_new(const struct wane__hook_options *options, struct wane__hook **hook, wane_error *error);
/* Give what waits up to `grace` seconds, then give it up. NULL is fine. */
void wane__hook_free(struct wane__hook *hook, double grace);
/* Takes over `body`, also when there is no memory for it. Never waits for a send. */
void wane__hook_push(struct wane__hook *hook, const struct wane__alert_change *change, char *body,
                     size_t body_size);
bool wane__hook_is_ending(const struct wane__hook *hook);
/* Do what is due; returns when to come again, INFINITY: when something is pushed. */
double wane__hook_step(struct wane__hook *hook, double now);
void wane__hook_count(struct wane__hook *hook, struct wane__hook_counts *counts);
const char *wane__hook_name(const struct wane__hook *hook);

/* Before attempt `attempt` + 1; `chance` is uniform in [0, 1). */
double wane__hook_delay(double first, double most, int attempt, double chance);

#endif
