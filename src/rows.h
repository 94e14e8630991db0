/*
 * rows.h - the rows of a decoded batch as sources of candidates: from the certified head, or from the dense one.
 *
 *     decode ─► body ─► hook ─┬─► [the graph ends]  rows ─► scan ─► certified source
 *                             └─► dense head ──────────────────────► dense source
 *
 * One a model; whoever stands on the model (a session, a scheduler's engine thread) decodes through it. It decides for
 * each batch which head runs, and which tokens are computed both ways (the shadow check). Counters may be read from any
 * thread, everything else belongs to the one that decodes.
 */
#ifndef WANE_ROWS_H
#define WANE_ROWS_H

#include "divergence.h"
#include "engine/engine.h"
#include "head/head.h"
#include "model_correct.h"
#include "pace.h"
#include "sample/sample.h"

#include <pthread.h>
#include <stdatomic.h>

/* How a token came about; one word for metrics, audit and the token view. */
enum wane__origin {
    WANE__ORIGIN_DENSE = 0,
    WANE__ORIGIN_CERTIFIED = 1,
    WANE__ORIGIN_NONE = 2,
    WANE__ORIGIN_MEMO = 3 /* repeated: there was no row */
};

/* So many candidates are compared in a shadow check. */
#define WANE__CHECKED_MOST 64

struct wane__model_gate;
struct wane__model_governor;
struct wane__model_probe;
struct wane__model_table;
struct wane__reward;
struct wane_recorder; /* record.h */

struct wane__rows {
    struct wane__engine *engine;
    struct wane_recorder *recorder; /* of what is decoded; NULL: none */
    struct wane__head *head;        /* NULL: there is none */
    int mode;                       /* WANE_HEAD_…, as asked for */
    int scan_most;                  /* rows in one scan */
    bool keep; /* the next decode's hidden rows will be looked at by others; they set it for each one */
    atomic_uint switched_off; /* 1 << WANE_FEATURE_… for each that no reply has; from any thread */
    uint64_t shadow_below;    /* a hash below it: check */
    uint64_t calls;           /* decodes, for that hash */
    struct wane__pace pace;
    struct wane__model_table *table; /* model_table.h; NULL: none */
    struct wane__model_correct correct;
    struct wane__model_gate *gate;         /* model_gate.h; of the model, never NULL on one */
    struct wane__model_governor *governor; /* model_governor.h; likewise */
    struct wane__model_probe *probe;       /* model_probe.h; NULL: none. Exchanged under the lock. */
    const struct wane__reward *reward;     /* reward.h; the same */

    /* The last decode. */
    enum wane__origin origin;
    bool checked;        /* both heads ran */
    bool timed;          /* the dense head is */
    bool unusual;        /* it ran to be timed or compared: what the decode took says nothing of others */
    double head_began;   /* then: when; 0: not yet */
    double spent;        /* seconds on its rows so far */
    int items;           /* that it had */
    int wanted, taken;   /* its rows; of them, asked for */
    int scanned, behind; /* rows scanned … behind - 1 are in the head's scan */
    struct wane__candidate seen[WANE__CHECKED_MOST];

    /* What others see. */
    pthread_mutex_t lock;
    wane_head_state state;
    struct wane__divergence watch[WANE_WATCHED]; /* of the head, and of what stands on its rows */
    uint64_t divergences;                        /* of the head; the decoding thread's copy */
};

/* A row as the layer takes it. */
struct wane__row {
    struct wane__source *source; /* NULL when there is no head at all */
    const float *hidden;         /* NULL: unknown */
    enum wane__origin origin;
    bool checked; /* `dense` holds the engine's own row, to compare with */
    struct wane__dense_source dense;
};

/* Is the feature switched off for all replies? */
static inline bool wane__rows_lack(const struct wane__rows *rows, int feature) {
    return (atomic_load_explicit(&rows->switched_off, memory_order_relaxed) & 1u << feature) != 0;
}

void wane__rows_init(struct wane__rows *rows, struct wane__engine *engine);
void wane__rows_close(struct wane__rows *rows);
/* The share of decodes to check, 0 … 1. */
void wane__rows_set_shadow(struct wane__rows *rows, double share);
/* Will the next row be certified? */
bool wane__rows_certified(const struct wane__rows *rows);

/* The engine's decode, with the head that this batch gets. */
int wane__rows_decode(struct wane__rows *rows, const struct wane__item *items, int count, wane_error *error);
/*
 * Row `row` of the last decode; its source is good until the next decode, or the next call if rows are not asked for in
 * ascending order. WANE_EENGINE when the row holds NaN.
 */
int wane__rows_get(struct wane__rows *rows, int row, struct wane__row *out, wane_error *error);
/*
 * Decode items of which nothing counts but the rows' prints: `prints` has room for one a wanted item. The caller truncates the
 * sequences afterwards. There is no head where hidden rows will do.
 */
int wane__rows_rehearse(struct wane__rows *rows, const struct wane__item *items, int count, uint64_t *prints,
                        wane_error *error);
/* A name for all bits that a row's logits come from; of the last decode, with `keep` set for it. */
uint64_t wane__rows_print(struct wane__rows *rows, int row);
/* So many seconds went into a row of the last decode, its source's work included: what wane__pace judges by. */
void wane__rows_spent(struct wane__rows *rows, double seconds);
/*
 * The shadow check's verdict on one token: `certified` (`status` is how its draw went) against `dense`, and the row's
 * logits bit for bit. Remembers what the certified draw saw with wane__rows_remember, before the sampler is used again.
 */
void wane__rows_remember(struct wane__rows *rows, const struct wane__choice *certified);
void wane__rows_judge(struct wane__rows *rows, int row, struct wane__row *view, int status,
                      const struct wane__choice *certified, const struct wane__choice *dense);
/* Show the counters to other threads. */
void wane__rows_settle(struct wane__rows *rows);

#endif
