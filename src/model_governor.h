/*
 * model_governor.h - a model and its governor: the profile, the stage before the draw, the fuse behind it, and what they counted.
 *
 *     row ─► signals: attention (model_probe.h), entropy, margin ─► state ─► command ─► sampler, corrections
 *              │                                                                          │
 *              └─► consistency below its limit: the token is drawn twice ◄────────────────┘
 *     token ─► fuse: does the reply go round in a loop?
 *
 * A row's signals steer the draw from that very row: they say how sure the model is of it. So a reply that is steered is a function of
 * its rows, whoever proposed its tokens; but tokens that come without a row have no signals, so that it neither asks nor fills the memo. One
 * that only the fuse LOOP watches takes tokens of the memo until the fuse wants entropies.
 */
#ifndef WANE_MODEL_GOVERNOR_H
#define WANE_MODEL_GOVERNOR_H

#include "governor/governor.h"

#include <stdatomic.h>

struct wane__reply;
struct wane__log;
struct wane__choice;
struct wane__source;
struct wane__corrected;
/* One profile, and its layer's place among those that are probed. */
struct wane__own_profile {
    wane_profile profile;
    char *path; /* NULL: there is none */
    int at;
};
struct wane__model_governor {
    /* Exchanged only while nothing stands on the model. The first one is the model's own, the rest were added. */
    struct wane__own_profile own[1 + WANE_PROFILES_MOST];
    int added;
    int consistency_at; /* which of the probed layers, where no profile says */
    bool consistency;   /* the probe looks at blocks' outputs */
    /* Where attention's signals of a row come from; NULL: the model's probe. For tests. */
    void (*look)(void *user, int row, wane_signals *out);
    void *look_user;
    struct wane__log *log;
    atomic_bool said, said_consistency; /* what is asked for and is not there: once */
    atomic_ullong tokens[WANE_STATES], missing, commands, dropped;
    atomic_ullong fused[WANE_FUSES], fuse_tokens, entropies, judged, inconsistent, changed;
    _Atomic float spread, last_consistency; /* of the last token that was looked at */
};

void wane__model_governor_init(struct wane__model_governor *governor, struct wane__log *log);
void wane__model_governor_close(struct wane__model_governor *governor);

/* For a reply whose gate and corrections have begun. Any thread. */
void wane__model_governor_begin(struct wane__reply *reply, const wane_generation *generation);
/* Before the draw, for a reply whose governor is on: fills the step's signals and state. Allocates nothing. */
void wane__model_governor_stage(struct wane__reply *reply, int row);
/*
 * The reply's draw from `source`: corrections, sampler and, where blocks disagree, a second draw with another random number, of which the
 * more probable token stands. (The second alone would be distributed as the first.)
 */
int wane__model_governor_draw(struct wane__reply *reply, struct wane__source *source,
                              struct wane__choice *choice, struct wane__corrected *did, wane_error *error);
/* The step's draw was one that counts. */
void wane__model_governor_count(struct wane__reply *reply);
/* The next token comes without a row. */
void wane__model_governor_skip(struct wane__reply *reply);
/* The token joined the context. True: the reply is to end here. */
bool wane__model_governor_ends(struct wane__reply *reply);

#endif
