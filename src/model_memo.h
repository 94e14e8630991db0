/*
 * model_memo.h - a model's memo, and a reply's view of it: what its tokens depend on besides the context.
 *
 *     reply ─► recall ──known─► wane__layer_repeat: the token walks on without a row
 *                │ not known
 *                └─► body, head, draw ─► remember
 *
 * Belongs to the decoding thread; the counters may be read from any.
 */
#ifndef WANE_MODEL_MEMO_H
#define WANE_MODEL_MEMO_H

#include "table/memo.h"

#include <stdatomic.h>

struct wane__reply;

struct wane__model_memo {
    struct wane__memo *memo;
    char *path;   /* NULL: none */
    char *origin; /* whose floats; for the file */
    atomic_ullong entries, bytes, hits, misses, evictions;
};

/* One reply's. */
struct wane__recall {
    struct wane__model_memo *memo; /* NULL: not for this reply */
    struct wane__context_name digest;
    uint32_t tenant;
    bool able;    /* the request may be repeated: greedy or seeded, no logprobs, not against its wish */
    bool indexed; /* the draw depends on the token's index in the reply: it is no greedy one */
};

/* What the request's tokens depend on. Any thread. */
void wane__recall_init(struct wane__recall *recall, const wane_generation *generation);
/* The reply begins on the decoding thread; not within a step. `memo` may be NULL. */
void wane__recall_begin(struct wane__reply *reply, struct wane__model_memo *memo, const char *tenant);
/* The next token, -1: not known. With `take` it is counted: the reply will walk on with it. */
int32_t wane__recall_next(struct wane__reply *reply, bool take);
/* step.choice.token was drawn. Allocates nothing. */
void wane__recall_keep(struct wane__reply *reply);

void wane__model_memo_free(struct wane__model_memo *memo);

#endif
