/*
 * model_memo.h - a model's memo, and a reply's view of it: what its tokens depend on besides the context.
 *
 *     reply ─► recall ──known─► wane__layer_repeat: the token walks on without a row
 *                │ not known, or to be looked at (the shadow check)
 *                └─► body, head, draw ─► compare ─► remember
 *
 * Belongs to the decoding thread; the counters may be read from any.
 */
#ifndef WANE_MODEL_MEMO_H
#define WANE_MODEL_MEMO_H

#include "table/memo.h"

#include <pthread.h>
#include <stdatomic.h>

struct wane__reply;
struct wane__log;

/*
 * The file while the memo is in use: the decoding thread takes a picture in pieces, a thread of the saver's hashes, writes and
 * syncs it. Belongs to the decoding thread, but for the atomics and, while `running`, the picture.
 */
struct wane__memo_saver {
    unsigned seconds; /* from one picture to the next; 0: none */
    double due;       /* when the next one may begin           */
    bool taking;      /* a picture is under way                */
    bool running;     /* the thread was started and not joined */
    pthread_t thread;
    struct wane__buf picture;
    uint64_t pictured, kept; /* changes of the memo: in the picture, on the disk */
    struct wane__log *log;
    atomic_bool written, failed;
    atomic_ullong saves, failures;
};

struct wane__model_memo {
    struct wane__memo *memo;
    char *path;   /* NULL: none */
    char *origin; /* whose floats; for the file */
    int vocab_size;
    uint64_t taken; /* tokens asked for to be repeated, for the share that is looked at */
    atomic_ullong entries, bytes, hits, misses, evictions;
    struct wane__memo_saver saver;
};

/* One reply's. */
struct wane__recall {
    struct wane__model_memo *memo; /* NULL: not for this reply */
    struct wane__context_name digest;
    uint32_t tenant;
    int asked;        /* index of the token that is drawn in spite of what the memo says; -1: none is */
    int32_t expected; /* and what that is */
    bool able;        /* the request may be repeated: greedy or seeded, no logprobs, not against its wish */
    bool indexed;     /* the draw depends on the token's index in the reply: it is no greedy one */
};

/* What the request's tokens depend on. Any thread. */
void wane__recall_init(struct wane__recall *recall, const wane_generation *generation);
/* The reply begins on the decoding thread; not within a step. `memo` may be NULL. */
void wane__recall_begin(struct wane__reply *reply, struct wane__model_memo *memo, const char *tenant);
/* The next token, -1: not known. With `take` it is counted: the reply will walk on with it. */
int32_t wane__recall_next(struct wane__reply *reply, bool take);
/* step.choice.token was drawn. Allocates nothing. */
void wane__recall_keep(struct wane__reply *reply);

/*
 * memo_saver.c. Do what is due, at most `entries` entries' work; outside of steps, on the decoding thread. `memo` may be NULL. `due` says
 * when to come again, by wane__now: INFINITY when nothing is to be written, 0 for at once.
 */
void wane__memo_saver_tick(struct wane__model_memo *memo, uint64_t entries);
double wane__memo_saver_due(const struct wane__model_memo *memo);
/* Give up a picture under way; wait for one that is being written. */
void wane__memo_saver_end(struct wane__model_memo *memo);
/* Entries in one turn of decoding: about a tenth of a millisecond. */
#define WANE__MEMO_SAVER_TURN 2048

void wane__model_memo_free(struct wane__model_memo *memo);

#endif
