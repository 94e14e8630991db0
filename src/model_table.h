/*
 * model_table.h - the table of a model: which file, what its lookups counted, what a hit means.
 *
 * Stands between the head and the sampler on a token's way (layer.c): looks the context up, compares what was stored with
 * what the model says now, and counts. Under the meaning `exact` nothing else happens to the token.
 */
#ifndef WANE_MODEL_TABLE_H
#define WANE_MODEL_TABLE_H

#include "core/quantiles.h"
#include "origin.h"
#include "table/grade.h"
#include "table/holder.h"
#include "table/lookup.h"

#include <stdatomic.h>

struct wane__reply;

struct wane__model_table {
    struct wane__table *holder;
    bool argmax;
    struct wane__grade_rule rule;
    /* Written by the decoding thread only. */
    atomic_ullong grade[3]; /* by enum wane__grade; misses are of contexts that are in the table */
    atomic_ullong absent, taken;
    atomic_ullong source[WANE__SLMT_SOURCES];
    pthread_mutex_t lock;
    char diverged[65];               /* digest of the table that last did; under the lock */
    struct wane__quantiles fallback; /* seconds of tokens that are no hits, behind their lookup */
};

/* Close it; NULL is fine. */
void wane__model_table_free(struct wane__model_table *table);

/* The stage: fills the step's slmt_… . What keeps it from knowing is a miss, never an error. Allocates nothing. */
void wane__table_stage(struct wane__reply *reply);
/* When the stage was done, in seconds, for a token that is no hit of a table that there is; else 0. And when its way ends. */
double wane__table_missed(const struct wane__reply *reply);
void wane__table_fell_back(const struct wane__reply *reply, double missed, double now);
/*
 * After the draw: under ARGMAX a strict hit's first token takes the place of the drawn one, but not where corrections are at
 * work: what they took away must not come back.
 */
void wane__table_take_first(struct wane__reply *reply, struct wane__source *source);

#endif
