/*
 * wane/rollout.h - features by request, by a breaker, and by stages: what of wane a reply is decoded with, and how a feature is
 * brought to more and more requests. docs/rollout.md explains it. Included by wane.h.
 */
#ifndef WANE_ROLLOUT_H
#define WANE_ROLLOUT_H

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- features */

/*
 * What can be left out of a reply. HEAD, TABLE, DRAFT and MEMO are shortcuts: without them the tokens are the same (but for a
 * table that is read as WANE_TABLE_ARGMAX). GATE and GOVERNOR are parts of mode WANE: without the gate all of a request's answers
 * are voted on, without the governor there is neither steering nor a second draw, but the fuse.
 */
enum {
    WANE_FEATURE_HEAD = 0,
    WANE_FEATURE_TABLE,
    WANE_FEATURE_DRAFT,
    WANE_FEATURE_MEMO,
    WANE_FEATURE_GATE,
    WANE_FEATURE_GOVERNOR,
    WANE_FEATURES
};

#define WANE_FEATURES_ALL ((1u << WANE_FEATURES) - 1)

/* "head", "table", "draft", "memo", "gate", "governor"; "?" for no feature. Static storage. */
WANE_API const char *wane_feature_name(int feature);
/* The feature of that name, or -1. */
WANE_API int wane_feature_from(const char *name);
/* "head,table" as bits 1 << WANE_FEATURE_…; "" is none, "all" is all. WANE_EINVAL names what is no feature. */
WANE_API int wane_features_from(const char *list, unsigned *features, wane_error *error);

/*
 * Switch features off, or on again, for all replies, whatever they ask for: what a breaker does. Bits 1 << WANE_FEATURE_…; others stay as
 * they are. HEAD, TABLE, DRAFT and MEMO are left out from the next token on, GATE and GOVERNOR by replies that begin afterwards.
 * Thread-safe, also while replies run. Returns the bits that were off before.
 */
WANE_API unsigned wane_model_switch_off(wane_model *model, unsigned features);
WANE_API unsigned wane_model_switch_on(wane_model *model, unsigned features);
WANE_API unsigned wane_model_switched_off(const wane_model *model);

/* ------------------------------------------------------------------ rollout */

/* What a person, or a breaker, may do to a feature's rollout. */
enum {
    WANE_ROLLOUT_START = 0, /* from the first stage, whatever was before                             */
    WANE_ROLLOUT_ADVANCE,   /* to the next stage, now, whatever the bars say                         */
    WANE_ROLLOUT_BACK,      /* to the stage before; it waits before it is tried again                */
    WANE_ROLLOUT_ABORT,     /* off for everybody, until it is started again                          */
    WANE_ROLLOUT_ACTIONS
};
/* "start", "advance", "back", "abort"; "?" for none. Static storage. */
WANE_API const char *wane_rollout_action_name(int action);
WANE_API int wane_rollout_action_from(const char *name);

/* A plan as settings say it. A file of a plan's own says more: docs/rollout.md. */
struct wane_rollout_wish {
    size_t size;
    unsigned features;           /* 1 << WANE_FEATURE_…, at least one                                  */
    double share;                /* of requests, in the first stage; 0: there is no such stage; 0.01   */
    const double *users;         /* of users, in the stages behind it, rising; NULL: 0.05 and 0.25     */
    size_t user_count;           /* at most 8                                                          */
    const char *const *lines;    /* of business, in the stage behind those; NULL: there is no such one */
    size_t line_count;           /* at most 8                                                          */
    double hold;                 /* seconds in each stage, 0 to 31,536,000; default 3600               */
    uint64_t requests;           /* with the feature, in each stage, at least; default 1000            */
    double hit_rate, divergence; /* bars; NAN: none; 0.85 and 1e-5                                     */
    double consistency;          /* the same; default NAN                                              */
    double consistency_drop;     /* the same; default 0.1                                              */
    double wait;                 /* seconds after a step back; default 3600                            */
    bool manual;                 /* no step forward by itself; steps back are taken all the same       */
};

WANE_API void wane_rollout_wish_init(wane_rollout_wish *wish);

/*
 * Write the rollout's file: the plan, with nothing begun. `plan`: the text of a plan, or NULL for one by `wish`. Where there is a file
 * already, features whose stages and bars stay the same keep their place; with `anew` none does. WANE_EFORMAT says what is wrong
 * in the plan. *json (may be NULL) receives the state, as wane_rollout_read gives it; free() it.
 */
WANE_API int wane_rollout_plan(const char *path, const char *plan, size_t plan_size,
                               const wane_rollout_wish *wish, bool anew, char **json, wane_error *error);
/* The file's state as JSON, which docs/rollout.md describes; free() it. A server may be using it. */
WANE_API int wane_rollout_read(const char *path, char **json, wane_error *error);
/*
 * Do WANE_ROLLOUT_… to one feature, or with -1 to all of the plan that it can be done to. A server that uses the file obeys within a
 * second or two. WANE_EINVAL says why it cannot be done.
 */
WANE_API int wane_rollout_do(const char *path, int action, int feature, char **json, wane_error *error);

#ifdef __cplusplus
}
#endif

#endif
