/*
 * rollout.h - how a feature is brought to more and more requests, and taken back: stages, whose request has it, and the steps.
 *
 *     planned ─start─► running, stage 1 ─► running, stage 2 ─► … ─► done
 *                         ▲   │ a bar breaks                        │
 *                         │   ▼                                     │
 *                       back, at the stage before ◄─────────────────┘        aborted: off for everybody
 *
 * Pure: what is here looks at no clock, file or model. The same plan, state, evidence and moments give the same steps, so that
 * tests replay them. Whose request has a feature depends on the plan, the stage and the request alone: it is the same on every replica
 * and after every restart. docs/rollout.md has the rules, the hash and the statistics.
 */
#ifndef WANE_OPS_ROLLOUT_H
#define WANE_OPS_ROLLOUT_H

#include "wane.h"

#define WANE__STAGES_MOST 16
#define WANE__LINES_MOST  8
#define WANE__LINE_BYTES  64 /* with the zero */
#define WANE__SALT_BYTES  65
/* Answers that were compared on a side before its consistency counts. */
#define WANE__REPEATS_LEAST 20
/* Standard deviations of all bounds: bars are looked at every second, so that 2 would fire by chance. */
#define WANE__ROLLOUT_SIGMAS 3.0

enum wane__stage_kind { WANE__STAGE_SHARE, WANE__STAGE_USERS, WANE__STAGE_LINES, WANE__STAGE_ALL };

struct wane__stage {
    enum wane__stage_kind kind;
    double share; /* of requests, of users: above 0, at most 1 */
    int line_count;
    char line[WANE__LINES_MOST][WANE__LINE_BYTES];
    double hold;       /* seconds */
    uint64_t requests; /* with the feature */
};

enum wane__bar {
    WANE__BAR_HIT_RATE,
    WANE__BAR_DIVERGENCE,
    WANE__BAR_CONSISTENCY,
    WANE__BAR_DROP,
    WANE__BARS
};
extern const char *const wane__bar_names[WANE__BARS];

struct wane__plan_feature {
    int stage_count; /* 0: it is not in the plan, and all requests have it */
    struct wane__stage stage[WANE__STAGES_MOST];
    double bar[WANE__BARS]; /* NAN: none */
};

struct wane__plan {
    bool automatic; /* steps forward are taken when their time has come */
    double wait;    /* seconds after a step back                        */
    double window;  /* seconds: what is recent                          */
    int backs;      /* so many steps back abort it; 0: none do          */
    char salt[WANE__SALT_BYTES];
    struct wane__plan_feature feature[WANE_FEATURES];
};

/* What was seen. Sides: 0 without the feature, 1 with it. */
struct wane__evidence {
    uint64_t requests[2];
    uint64_t tries, hits, checks, divergences; /* with it */
    uint64_t repeats[2];                       /* answers to a question that was repeated */
    double score[2], square[2];                /* sums of their scores, and of the scores' squares */
};
void wane__evidence_add(struct wane__evidence *sum, const struct wane__evidence *more);

enum wane__phase {
    WANE__PHASE_PLANNED,
    WANE__PHASE_RUNNING,
    WANE__PHASE_BACK,
    WANE__PHASE_DONE,
    WANE__PHASE_ABORTED,
    WANE__PHASES
};
extern const char *const wane__phase_names[WANE__PHASES];

struct wane__progress {
    enum wane__phase phase;
    int stage;                  /* whose reach it has, from 0; -1: nobody has it */
    double held;                /* seconds in this stage; BACK: waited           */
    struct wane__evidence seen; /* in this stage                                 */
    uint64_t forward, backward; /* steps, ever                                   */
    int backs;                  /* steps back since it was started               */
    int64_t at;                 /* date of the last step, ms                     */
    char why[200];              /* of the last step                              */
};

struct wane__rollout_state {
    uint64_t revision;
    int64_t seen_at;   /* date of the last turn that was kept, ms; 0: none */
    unsigned compared; /* 1 << WANE_FEATURE_…: their divergence can be seen */
    struct wane__progress feature[WANE_FEATURES];
};

/* What a rollout's file holds. */
struct wane__rollout_book {
    struct wane__plan plan;
    struct wane__rollout_state state;
};

/* ------------------------------------------------------------------ whose request has it */

/* NULL or "": not known. `request`: its id, which is random. */
struct wane__subject {
    const char *user, *key, *line, *request;
};

/* Where a request, or its user, stands: 0 ≤ x < 1. */
double wane__rollout_fraction(int feature, const char *salt, const struct wane__subject *subject,
                              bool request);
bool wane__rollout_reaches(const struct wane__plan *plan, int feature, int stage,
                           const struct wane__subject *subject);
/* The bits 1 << WANE_FEATURE_… that the plan names, and of these the ones that this request has. */
unsigned wane__rollout_listed(const struct wane__plan *plan);
unsigned wane__rollout_side(const struct wane__rollout_book *book, const struct wane__subject *subject);

/* ------------------------------------------------------------------ bars */

enum wane__verdict_kind {
    WANE__BAR_NONE,    /* there is no such bar, or nothing that it could be held against */
    WANE__BAR_UNKNOWN, /* nothing, or too little, was seen   */
    WANE__BAR_HOLDS,
    WANE__BAR_SHORT, /* it does not hold, which may be chance */
    WANE__BAR_BROKEN /* it does not hold, beyond chance       */
};

struct wane__measure {
    double value, low, high; /* NAN: not known */
    enum wane__verdict_kind verdict;
};

/* `compared`: divergences of the feature can be seen. */
struct wane__measure wane__rollout_measure(const struct wane__plan_feature *plan, enum wane__bar bar,
                                           const struct wane__evidence *seen, bool compared);

/* ------------------------------------------------------------------ steps */

struct wane__moment {
    int64_t date; /* ms */
    double
        passed; /* seconds that have really passed since this process's last turn that was kept; 0: it has had none */
};

/*
 * Time passes, bars are looked at, stages change. `recent`: what was seen lately, by feature. Returns the bits of features whose stage or
 * phase changed.
 */
unsigned wane__rollout_turn(struct wane__rollout_book *book, const struct wane__evidence *recent,
                            const struct wane__moment *moment);
/* A person's WANE_ROLLOUT_…; feature -1: all to which it can be done. */
int wane__rollout_act(struct wane__rollout_book *book, int action, int feature, int64_t date,
                      unsigned *changed, wane_error *error);
/* One step back at once, `why` in a few words. False: nobody had it. */
bool wane__rollout_step_back(struct wane__rollout_book *book, int feature, int64_t date, const char *why);
/* Why it does not step forward by itself now, in words; "" when it would. */
void wane__rollout_waits(const struct wane__rollout_book *book, int feature, char *out, size_t size);

/* ------------------------------------------------------------------ texts: rollout_plan.c, rollout_text.c */

/* A plan's or a file's text. WANE_EFORMAT says what is wrong and where. A plan alone has nothing begun. */
int wane__rollout_parse(const char *text, size_t size, struct wane__rollout_book *book, wane_error *error);
/* A plan by settings. WANE_EINVAL. */
int wane__rollout_wish(const wane_rollout_wish *wish, struct wane__plan *plan, wane_error *error);
/* Keep the progress of features whose stages and bars are the same. */
void wane__rollout_keep(const struct wane__rollout_book *before, struct wane__rollout_book *book);
/* The file's text, and what people and programs are shown; NULL without memory; wane__free. */
char *wane__rollout_text(const struct wane__rollout_book *book);
char *wane__rollout_shown(const struct wane__rollout_book *book);

#endif
