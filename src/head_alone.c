/*
 * head_alone.c - the public certified head on plain arrays: checks what comes in, and hands it to src/head/.
 */
#include "calibrate.h"
#include "core/error.h"
#include "core/memory.h"
#include "head/head.h"

#include <math.h>
#include <string.h>

/* Rows that a mean and a covariance are taken for, when nobody says. */
enum { USUAL_ROWS = 4096 };

struct wane_head {
    struct wane__head *head;
    wane_head_matrix matrix;
    int rows_most;
};

void wane_head_options_init(wane_head_options *options) {
    *options =
        (wane_head_options){.size = sizeof *options, .digest = "", .sigmas = 6, .threads = 1, .rows_most = 1};
}

void wane_head_matrix_init(wane_head_matrix *matrix) {
    *matrix = (wane_head_matrix){.size = sizeof *matrix};
}

/* ------------------------------------------------------------------ weights */

static int float_rows(void *user, int first, int count, float *out) {
    const wane_head_matrix *m = user;
    memcpy(out, m->weights + (size_t)first * (size_t)m->d, (size_t)count * (size_t)m->d * sizeof *out);
    return WANE_OK;
}

static int float_rescore(void *user, const float *hidden, const int32_t *ids, int count, float *logits) {
    const wane_head_matrix *m = user;
    for (int i = 0; i < count; i++) {
        const float *row = m->weights + (size_t)ids[i] * (size_t)m->d;
        double sum[4] = {0};
        int j = 0;
        for (; j + 4 <= m->d; j += 4)
            for (int k = 0; k < 4; k++) sum[k] += (double)row[j + k] * (double)hidden[j + k];
        for (; j < m->d; j++) sum[0] += (double)row[j] * (double)hidden[j];
        logits[i] = (float)((sum[0] + sum[2]) + (sum[1] + sum[3]));
    }
    return WANE_OK;
}

static int float_seen(void *user, const float *hidden, const void *prepared, float *out) {
    (void)prepared;
    const wane_head_matrix *m = user;
    memcpy(out, hidden, (size_t)m->d * sizeof *out);
    return WANE_OK;
}

static int given_rows(void *user, int first, int count, float *out) {
    const wane_head_matrix *m = user;
    return m->rows(m->user, first, count, out);
}

static int given_rescore(void *user, const float *hidden, const int32_t *ids, int count, float *logits) {
    const wane_head_matrix *m = user;
    return m->rescore(m->user, hidden, ids, count, logits);
}

static struct wane__head_weights weights_of(wane_head_matrix *matrix) {
    bool floats = matrix->weights != NULL;
    return (struct wane__head_weights){.vocab_size = matrix->vocab_size,
                                       .d = matrix->d,
                                       .rows = floats ? float_rows : given_rows,
                                       .rescore = floats ? float_rescore : given_rescore,
                                       .seen = floats ? float_seen : NULL,
                                       .user = matrix};
}

/* ------------------------------------------------------------------ opening */

static int check(const wane_head_options *o, const wane_head_matrix *m, wane_error *error) {
    if (o == NULL || m == NULL || o->size != sizeof *o || m->size != sizeof *m)
        return wane__fail(error, WANE_EINVAL,
                          "The head's options or its matrix were not set up by their _init.");
    if (m->vocab_size < 1 || m->d < 1 || m->d > WANE__HEAD_MOST_D)
        return wane__fail(error, WANE_EINVAL, "A head of %d × %d has no sketch; d must be 1 to %d.",
                          m->vocab_size, m->d, WANE__HEAD_MOST_D);
    if (m->weights == NULL && (m->rows == NULL || m->rescore == NULL))
        return wane__fail(error, WANE_EINVAL, "The head's matrix needs weights, or both rows and rescore.");
    if (o->path == NULL || o->digest == NULL || strlen(o->digest) > 32)
        return wane__fail(error, WANE_EINVAL, "A head needs a path, and a digest of at most 32 characters.");
    if (o->sample_rows < 0 || (o->sample != NULL && o->sample_rows < 4) ||
        (o->mean == NULL) != (o->covariance == NULL))
        return wane__fail(error, WANE_EINVAL,
                          "A sample of hidden rows needs 4 rows or more; a mean needs a covariance.");
    if (!(o->sigmas >= 3 && o->sigmas <= 12))
        return wane__fail(error, WANE_EINVAL, "sigmas is %g; it must be 3 to 12.", (double)o->sigmas);
    return WANE_OK;
}

static int build(const wane_head_options *o, const struct wane__head_weights *weights, wane_error *error) {
    struct wane__moments moments = {.mean = NULL};
    struct wane__head_statistics statistics = {o->mean, o->covariance,
                                               o->sample_rows > 0 ? o->sample_rows : USUAL_ROWS};
    int result = WANE_OK;
    if (o->mean == NULL && o->sample != NULL) {
        result = wane__moments_of(o->sample, (size_t)o->sample_rows, (size_t)weights->d, &moments, error);
        statistics = (struct wane__head_statistics){moments.mean, moments.covariance, moments.rows};
    }
    if (result == WANE_OK)
        result = wane__sketch_build(o->path, weights, statistics.mean != NULL ? &statistics : NULL, o->digest,
                                    o->threads, o->progress, o->progress_user, error);
    wane__moments_free(&moments);
    return result;
}

static int open_sketch(const wane_head_options *o, const struct wane__head_weights *weights, wane_head *head,
                       wane_error *error) {
    return wane__head_open(o->path, weights, o->digest, o->sigmas, o->threads, o->rows_most, &head->head,
                           error);
}

int wane_head_open(const wane_head_options *options, const wane_head_matrix *matrix, wane_head **head,
                   wane_error *error) {
    wane__clear(error);
    *head = NULL;
    int result = check(options, matrix, error);
    if (result != WANE_OK) return result;
    wane_head *made = wane__alloc_zero(1, sizeof *made);
    if (made == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a head.");
    made->matrix = *matrix;
    made->rows_most = options->rows_most;
    struct wane__head_weights weights = weights_of(&made->matrix);
    result = options->rebuild ? WANE_ENOENT : open_sketch(options, &weights, made, error);
    if (result == WANE_ENOENT || result == WANE_EFORMAT) {
        wane__clear(error);
        result = build(options, &weights, error);
        if (result == WANE_OK) result = open_sketch(options, &weights, made, error);
    }
    if (result != WANE_OK) {
        wane__free(made);
        return result;
    }
    *head = made;
    return WANE_OK;
}

void wane_head_free(wane_head *head) {
    if (head == NULL) return;
    wane__head_free(head->head);
    wane__free(head);
}

/* ---------------------------------------------------------------- questions */

int wane_head_scan(wane_head *head, const float *hidden, int rows, wane_error *error) {
    wane__clear(error);
    if (rows < 1 || rows > head->rows_most)
        return wane__fail(error, WANE_EINVAL, "%d hidden rows in a scan; this head takes 1 to %d.", rows,
                          head->rows_most);
    int result = wane__head_scan(head->head, hidden, rows);
    return result == WANE_OK ? result
                             : wane__fail(error, result, "The scan failed (%s): does a hidden row hold NaN?",
                                          wane_strerror(result));
}

static struct wane__source *source_of(wane_head *head, int row, wane_error *error) {
    wane__clear(error);
    struct wane__source *source = wane__head_source(head->head, row);
    if (source == NULL) wane__fail(error, WANE_EINVAL, "The last scan has no row %d.", row);
    return source;
}

static int answered(int result, wane_error *error) {
    return result == WANE_OK
               ? result
               : wane__fail(error, result, "The head has no answer (%s).", wane_strerror(result));
}

int wane_head_best(wane_head *head, int row, int count, wane_candidate *out, int *found, wane_error *error) {
    _Static_assert(sizeof(wane_candidate) == sizeof(struct wane__candidate), "one layout");
    *found = 0;
    struct wane__source *source = source_of(head, row, error);
    if (source == NULL) return WANE_EINVAL;
    if (count < 1) return wane__fail(error, WANE_EINVAL, "%d best tokens were asked for.", count);
    if (count > head->matrix.vocab_size) count = head->matrix.vocab_size;
    return answered(source->best(source, count, NULL, 0, (struct wane__candidate *)(void *)out, found),
                    error);
}

int wane_head_logits(wane_head *head, int row, const int32_t *ids, int count, float *logits,
                     wane_error *error) {
    struct wane__source *source = source_of(head, row, error);
    if (source == NULL) return WANE_EINVAL;
    for (int i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= head->matrix.vocab_size)
            return wane__fail(error, WANE_EINVAL, "There is no token %d; the head has %d.", ids[i],
                              head->matrix.vocab_size);
    return answered(source->fetch(source, ids, count, logits), error);
}

int wane_head_log_sum(wane_head *head, int row, float scale, bool exactly, double *low, double *high,
                      wane_error *error) {
    struct wane__source *source = source_of(head, row, error);
    if (source == NULL) return WANE_EINVAL;
    if (!(scale > 0) || isinf(scale))
        return wane__fail(error, WANE_EINVAL, "scale is %g; it must be above 0.", (double)scale);
    if (!exactly) return answered(source->log_sum_bounds(source, scale, NULL, 0, true, low, high), error);
    int result = source->log_sum(source, scale, NULL, 0, low);
    *high = *low;
    return answered(result, error);
}

void wane_head_get_work(const wane_head *head, wane_head_work *work) {
    struct wane__head_counts c;
    wane__head_get_counts(head->head, &c);
    *work = (wane_head_work){.rows = c.rows,
                             .questions = c.questions,
                             .survivors1 = c.survivors1,
                             .survivors2 = c.survivors2,
                             .rescored = c.rescored,
                             .dense = c.dense_many + c.dense_sum};
}
