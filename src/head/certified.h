/*
 * certified.h - what the certificate's files share: one hidden row under question, and the head it belongs to.
 * Only src/head includes it.
 *
 *     query.c           a hidden row as the kernels want it: mapped, rotated, in integers, with its errors
 *     certified.c       open, scan, the bar, survivors, exact rescoring
 *     certified_sum.c   bounds of the normaliser
 */
#ifndef WANE_HEAD_CERTIFIED_H
#define WANE_HEAD_CERTIFIED_H

#include "head/scan.h"

/* Hidden rows in one scan, at most. */
enum { WANE__HEAD_MOST_ROWS = 64 };

struct wane__head_row {
    struct wane__source source; /* first */
    struct wane__head *head;
    const float *hidden;
    void *prepared; /* hidden, for rescoring; NULL: weights have no such step */
    struct wane__scan_query query;
    uint8_t *tables;
    int8_t *fine;
    struct wane__candidate *exact; /* rows computed so far, in no order */
    int exact_count;
    int status; /* of the scan */
    int work;   /* since the scan: rows computed exactly, and half of those refined */
    float bar;  /* no row that is not known exactly has a larger logit */
    bool dense; /* logits[] holds all of them, exactly */
    float *logits;
    struct wane__dense_source all;
};

struct wane__head {
    struct wane__sketch sketch;
    struct wane__head_weights weights;
    const struct wane__scan_kernels *kernels;
    struct wane__pool *pool;
    float sigmas;
    int rows_most, rows;
    struct wane__head_row *row;
    struct wane__head_counts counts;
    /* Scratch of one question or scan. */
    float *seen, *mapped;           /* rows_most × d, × padded */
    float *rotating;                /* padded */
    int32_t *list;                  /* V */
    float *values;                  /* V */
    struct wane__candidate *picked; /* V */
    void *block;                    /* all of these */
};

/* `seen`, a hidden row as the products see it, loses the mean; what is the same for all rows of the head. */
void wane__query_constant(const struct wane__head *head, struct wane__head_row *row, float *seen);
/* Coordinates (destroyed) → tables, integers, errors. scratch: padded floats. */
void wane__query_prepare(const struct wane__head *head, struct wane__head_row *row, float *mapped,
                         float *scratch);

/* What is known of row `id` of the head. */
static inline float *wane__estimate(const struct wane__head_row *row, int32_t id) {
    return &row->query.known[id / WANE__SKETCH_ROWS].estimate[id % WANE__SKETCH_ROWS];
}
static inline float *wane__half(const struct wane__head_row *row, int32_t id) {
    return &row->query.known[id / WANE__SKETCH_ROWS].half[id % WANE__SKETCH_ROWS];
}
static inline uint8_t *wane__state(const struct wane__head_row *row, int32_t id) {
    return &row->query.known[id / WANE__SKETCH_ROWS].state[id % WANE__SKETCH_ROWS];
}

/*
 * May `more` rows be computed, or twice as many refined, before all of them are as cheap? Level 2 reads about half as
 * many bytes as the head itself, and both read them out of order.
 */
static inline bool wane__head_affords(const struct wane__head_row *row, int64_t more) {
    return row->work + more <= row->source.vocab_size / 4;
}
/* Refine head->list[0 … count - 1] by level 2. */
void wane__head_refine(struct wane__head_row *row, int count);
/* Compute all logits, if they are not there yet. */
int wane__head_make_dense(struct wane__head_row *row, uint64_t *counter);
int wane__head_log_sum_bounds(struct wane__source *source, float scale, const int32_t *skip, int skips,
                              bool closely, double *low, double *high);
int wane__head_log_sum_guess(struct wane__source *source, float scale, const int32_t *skip, int skips,
                             double *out);

#endif
