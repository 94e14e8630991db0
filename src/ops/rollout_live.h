/*
 * rollout_live.h - a rollout in use by a server: sides of requests, what was seen, and the file in step with both.
 *
 *     request ─► wane__rollout_take: its side ─► without these features
 *     counters ─► wane__rollout_feed ─► evidence ─┐
 *     answers ─► wane__rollout_repeat ────────────┤
 *                                                 ▼   once a second
 *     file ◄─ lock, read, judge, write ─── wane__rollout_tick          a breaker ─► wane__rollout_break: at once
 *
 * Several servers may use one file: each adds what it has seen, and obeys what the others wrote. All functions are thread-safe; only tick,
 * order and close touch the file, and none but these waits for a disk. What cannot be written is in force all the same, and said.
 */
#ifndef WANE_OPS_ROLLOUT_LIVE_H
#define WANE_OPS_ROLLOUT_LIVE_H

#include "core/log.h"
#include "ops/rollout.h"

struct wane__rollout;

/* WANE_ENOENT when there is no file and `wish` names no feature; else one is made by it. `log` must outlive the rollout. */
int wane__rollout_open(const char *path, const wane_rollout_wish *wish, struct wane__log *log,
                       struct wane__rollout **rollout, wane_error *error);
/* Writes what was seen since it was last written. NULL is fine. */
void wane__rollout_close(struct wane__rollout *rollout);

/* Who wants to hear of steps, an audit or an alert. Called without locks, from the thread that took the step. Set before it is shared. */
typedef void (*wane__rollout_heard)(void *user, int feature, bool forward, const char *why);
void wane__rollout_listen(struct wane__rollout *rollout, wane__rollout_heard heard, void *user);

#define WANE__ROLLOUT_HEADER 320

/* What a request is told. */
struct wane__rollout_side {
    unsigned listed, on; /* bits: in the plan; of these, it has them. The rest is to be decoded without. */
    char header[WANE__ROLLOUT_HEADER]; /* "table=on;stage=2, head=off;stage=1" */
};

/* The side of a request that is about to be decoded. `off`: features that a breaker has switched off. */
void wane__rollout_take(struct wane__rollout *rollout, const struct wane__subject *subject, unsigned off,
                        struct wane__rollout_side *side);
/* It is decoded; `counted`: features that mean something to it. */
void wane__rollout_count(struct wane__rollout *rollout, const struct wane__rollout_side *side,
                         unsigned counted);
/* A question was repeated, and the answers are alike so much, 0 … 1. */
void wane__rollout_repeat(struct wane__rollout *rollout, const struct wane__rollout_side *side, double score);

/* A feature's counters since the server began; they never fall. */
struct wane__rollout_counts {
    uint64_t tries, hits, checks, divergences;
};
/* By feature. `compared`: bits of those whose divergence can be seen. */
void wane__rollout_feed(struct wane__rollout *rollout, const struct wane__rollout_counts *counts,
                        unsigned compared);

/* A turn: once a second. `date` is wane__date_ms, `now` wane__now. */
void wane__rollout_tick(struct wane__rollout *rollout, int64_t date, double now);
/* A breaker fired: one step back at once, `why` in a few words. False: the plan does not name it, or nobody has it. */
bool wane__rollout_break(struct wane__rollout *rollout, int feature, const char *why);
/* A person's wish. `kept` (may be NULL): it is in the file, too; else it is only in force here, and `error` says why. */
int wane__rollout_order(struct wane__rollout *rollout, int action, int feature, bool *kept,
                        wane_error *error);

/* What wane_rollout_read gives, of this moment; NULL without memory; wane__free. */
char *wane__rollout_show(struct wane__rollout *rollout);

/* For metrics. */
struct wane__rollout_figures {
    unsigned listed;
    enum wane__phase phase[WANE_FEATURES];
    int stage[WANE_FEATURES], stages[WANE_FEATURES]; /* 0: nobody; so many are planned */
    enum wane__stage_kind kind[WANE_FEATURES]; /* whose requests have it in its stage, if any have … */
    double share[WANE_FEATURES];               /* … and of requests or users, how many of them       */
    uint64_t forward[WANE_FEATURES], backward[WANE_FEATURES];
    uint64_t requests[WANE_FEATURES][2];                                     /* since this server began */
    double value[WANE_FEATURES][WANE__BARS], bar[WANE_FEATURES][WANE__BARS]; /* NAN: not known; none */
    uint64_t failures; /* times that the file could not be kept */
    bool kept;         /* what is in force is in the file       */
};
void wane__rollout_get_figures(struct wane__rollout *rollout, struct wane__rollout_figures *figures);

#endif
