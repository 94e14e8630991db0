/*
 * head.h - the certified head: exact candidates of a hidden row without the dense matrix.
 *
 * Works on plain arrays and two functions, knows no engine. Files of this room:
 *
 *     sketch.c     the sketch: building, its file, opening it mapped
 *     scan*.c      the kernels: plain, AVX2, AVX-512 VNNI, NEON; chosen at run time, equal integers
 *     certified.c  bounds, levels, the bar, exact rescoring; answers the questions of a wane__source
 *     dense.c      the dense row as a source (what there was before)
 *
 *     hidden rows ─► rotate, int8 ─► scan level 1, all rows at once ─► bar ─► level 2 ─► rescore ─► best
 *
 * Everything a source answers is exact, with the failure probability that `k` stands for; what cannot be
 * answered cheaply is computed densely, by rescoring all V rows, and counted by reason.
 */
#ifndef WANE_HEAD_HEAD_H
#define WANE_HEAD_HEAD_H

#include "sample/sample.h"
#include "wane.h"

/* The widest hidden row. */
enum { WANE__HEAD_MOST_D = 16384 };

/* The head's weights as the sketch and the certificate see them. */
struct wane__head_weights {
    int vocab_size; /* V */
    int d;
    /* Rows first … first + count - 1 as floats, count × d. Thread-safe. */
    int (*rows)(void *user, int first, int count, float *out);
    /* The dense head's very floats for chosen tokens of one hidden row. Thread-safe. */
    int (*rescore)(void *user, const float *hidden, const int32_t *ids, int count, float *logits);
    /*
     * The same in two steps, for many calls on one row: `prepare` once (it quantises the row) into memory of the
     * caller's, `prepared_size` bytes aligned to 64; `rescore_prepared` as often as wanted and from any thread.
     * 0 and NULL where there is only `rescore`, which prepares anew in every call.
     */
    size_t prepared_size;
    int (*prepare)(void *user, const float *hidden, void *prepared);
    int (*rescore_prepared)(void *user, const void *prepared, const int32_t *ids, int count, float *logits);
    /*
     * The hidden row as the dense head's products see it: rounded as the engine rounds it before them (Q8_0 and
     * other types have products of 8 bits), as floats again; `prepared` is what `prepare` made of it, or NULL where
     * there is no such step. Bounds then hold for that very row. NULL: not
     * known; bounds allow for a rounding to 8 bits in blocks of 256, which costs some survivors.
     */
    int (*seen)(void *user, const float *hidden, const void *prepared, float *out);
    void *user;
};

/* What is known of hidden rows: for the basis and the bias. NULL fields: a plain rotation, mean 0. */
struct wane__head_statistics {
    const float *mean;       /* d     */
    const float *covariance; /* d × d */
    int64_t rows;            /* that they were taken from */
};

/* Build a sketch file: written under a temporary name, synced, renamed. `digest` names the model. */
int wane__sketch_build(const char *path, const struct wane__head_weights *weights,
                       const struct wane__head_statistics *statistics, const char *digest, int threads,
                       wane_progress_fn progress, void *progress_user, wane_error *error);

struct wane__sketch_facts {
    char digest[33];
    int vocab_size, d, padded;
    double bits_level1, bits_level2; /* a weight */
    uint64_t bytes;
    int64_t statistics_rows;
};

struct wane__head;

/*
 * Open a sketch for these weights. WANE_ENOENT, or WANE_EFORMAT when it is damaged, of another version or for
 * another digest: then build it again. `rows_most`: hidden rows in one scan. `k`: sigmas, INFINITY: dense.
 */
int wane__head_open(const char *path, const struct wane__head_weights *weights, const char *digest, float k,
                    int threads, int rows_most, struct wane__head **head, wane_error *error);
void wane__head_free(struct wane__head *head);
void wane__head_get_facts(const struct wane__head *head, struct wane__sketch_facts *facts);
/* Write its sketch to another file, under a temporary name first. */
int wane__head_save(const struct wane__head *head, const char *path, wane_error *error);
/* Use the kernels of that name; WANE_EUNSUPPORTED where the processor lacks them. For measuring: the best are taken anyway. */
int wane__head_use_kernel(struct wane__head *head, const char *name);
const char *wane__head_kernel(const struct wane__head *head); /* "avx2", "avx512-vnni", "neon", "plain" */

/* A scan comes soon, or none does: its threads wake up, or go to sleep. Any thread may say so. */
void wane__head_wake(struct wane__head *head);
void wane__head_rest(struct wane__head *head);

/* Look at hidden rows (rows × d) in one pass over the sketch. `hidden` must outlive the questions. */
int wane__head_scan(struct wane__head *head, const float *hidden, int rows);
/* Row `row` of the last scan, as a source for the sampler; until the next scan. */
struct wane__source *wane__head_source(struct wane__head *head, int row);
/* V dense logits of that row, computed by rescoring; for the shadow check and for whoever needs them all. */
int wane__head_dense(struct wane__head *head, int row, const float **logits);

/* Counters, never falling. */
struct wane__head_counts {
    uint64_t rows, questions;
    uint64_t survivors1, survivors2, rescored; /* after level 1, after level 2, exactly computed */
    uint64_t dense_many, dense_sum; /* dense because too many survived; for a whole-vocabulary sum */
};
void wane__head_get_counts(const struct wane__head *head, struct wane__head_counts *counts);

#endif
