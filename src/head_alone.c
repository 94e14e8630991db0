/*
 * head_alone.c - the public certified head on plain arrays: checks what comes in, and hands it to src/head/.
 */
#include "calibrate.h"
#include "core/error.h"
#include "core/memory.h"
#include "head/head.h"
#include "head/weights.h"
#include "sample/entropy.h"

#include <math.h>
#include <string.h>

/* Rows that a mean and a covariance are taken for, when nobody says. */
enum { USUAL_ROWS = 4096 };

struct wane_head {
    struct wane__head *head;
    wane_head_matrix matrix;
    const uint8_t *row; /* the first one; NULL: the caller has functions for them */
    size_t row_bytes;
    int rows_most;
    bool built;
};

void wane_head_options_init(wane_head_options *options) {
    *options =
        (wane_head_options){.size = sizeof *options, .digest = "", .sigmas = 6, .threads = 1, .rows_most = 1};
}

void wane_head_matrix_init(wane_head_matrix *matrix) {
    *matrix = (wane_head_matrix){.size = sizeof *matrix};
}

/* ------------------------------------------------------------------ weights */

size_t wane_weights_row_bytes(int type, int d) {
    return wane__weights_row(type, d);
}

static const float *take(const wane_head *head, int row, int first, int count, float *room) {
    return wane__weights_take(head->matrix.type, head->row + (size_t)row * head->row_bytes, first, count,
                              room);
}

static int chunk_of(int d, int first) {
    return d - first < WANE__WEIGHTS_CHUNK ? d - first : WANE__WEIGHTS_CHUNK;
}

static int own_rows(void *user, int first, int count, float *out) {
    const wane_head *head = user;
    float room[WANE__WEIGHTS_CHUNK];
    int d = head->matrix.d;
    for (int row = first; row < first + count; row++)
        for (int at = 0; at < d; at += WANE__WEIGHTS_CHUNK) {
            int some = chunk_of(d, at);
            memcpy(out, take(head, row, at, some, room), (size_t)some * sizeof *out);
            out += some;
        }
    return WANE_OK;
}

static float own_logit(const wane_head *head, int row, const float *hidden) {
    float room[WANE__WEIGHTS_CHUNK];
    double sum[4] = {0};
    int d = head->matrix.d;
    for (int at = 0; at < d; at += WANE__WEIGHTS_CHUNK) {
        int count = chunk_of(d, at), j = 0;
        const float *w = take(head, row, at, count, room), *h = hidden + at;
        for (; j + 4 <= count; j += 4)
            for (int k = 0; k < 4; k++) sum[k] += (double)w[j + k] * (double)h[j + k];
        for (; j < count; j++) sum[0] += (double)w[j] * (double)h[j];
    }
    return (float)((sum[0] + sum[2]) + (sum[1] + sum[3]));
}

static int own_rescore(void *user, const float *hidden, const int32_t *ids, int count, float *logits) {
    for (int i = 0; i < count; i++) logits[i] = own_logit(user, ids[i], hidden);
    return WANE_OK;
}

static int own_seen(void *user, const float *hidden, const void *prepared, float *out) {
    (void)prepared;
    const wane_head *head = user;
    memcpy(out, hidden, (size_t)head->matrix.d * sizeof *out);
    return WANE_OK;
}

static int given_rows(void *user, int first, int count, float *out) {
    const wane_head_matrix *m = &((const wane_head *)user)->matrix;
    return m->rows(m->user, first, count, out);
}

static int given_rescore(void *user, const float *hidden, const int32_t *ids, int count, float *logits) {
    const wane_head_matrix *m = &((const wane_head *)user)->matrix;
    return m->rescore(m->user, hidden, ids, count, logits);
}

static struct wane__head_weights weights_of(wane_head *head) {
    bool own = head->row != NULL;
    return (struct wane__head_weights){.vocab_size = head->matrix.vocab_size,
                                       .d = head->matrix.d,
                                       .rows = own ? own_rows : given_rows,
                                       .rescore = own ? own_rescore : given_rescore,
                                       .seen = own ? own_seen : NULL,
                                       .user = head};
}

/* ------------------------------------------------------------------ opening */

static int check(const wane_head_options *o, const wane_head_matrix *m, wane_error *error) {
    if (o == NULL || m == NULL || o->size != sizeof *o || m->size != sizeof *m)
        return wane__fail(error, WANE_EINVAL,
                          "The head's options or its matrix were not set up by their _init.");
    if (m->vocab_size < 1 || m->d < 1 || m->d > WANE__HEAD_MOST_D)
        return wane__fail(error, WANE_EINVAL, "A head of %d × %d has no sketch; d must be 1 to %d.",
                          m->vocab_size, m->d, WANE__HEAD_MOST_D);
    if (m->weights == NULL && m->packed == NULL && (m->rows == NULL || m->rescore == NULL))
        return wane__fail(error, WANE_EINVAL, "The head's matrix needs weights, or both rows and rescore.");
    if (m->weights == NULL && m->packed != NULL && wane__weights_row(m->type, m->d) == 0)
        return wane__fail(error, WANE_EINVAL,
                          "Rows of %d weights cannot be of type %d: there is no such type, or they are not "
                          "whole blocks of it.",
                          m->d, m->type);
    if (o->rebuild && o->found)
        return wane__fail(error, WANE_EINVAL, "A sketch cannot both be found and be built again.");
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

static void take_matrix(wane_head *head, const wane_head_matrix *matrix) {
    head->matrix = *matrix;
    head->row = matrix->packed;
    if (matrix->weights != NULL) {
        head->row = (const uint8_t *)(const void *)matrix->weights;
        head->matrix.type = WANE_WEIGHTS_F32;
    }
    head->row_bytes = wane__weights_row(head->matrix.type, matrix->d);
}

static int use_kernel(const wane_head_options *o, wane_head *head, wane_error *error) {
    if (o->kernel == NULL || wane__head_use_kernel(head->head, o->kernel) == WANE_OK) return WANE_OK;
    return wane__fail(error, WANE_EUNSUPPORTED, "There is no kernel \"%.40s\" on this processor.", o->kernel);
}

int wane_head_open(const wane_head_options *options, const wane_head_matrix *matrix, wane_head **head,
                   wane_error *error) {
    wane__clear(error);
    *head = NULL;
    int result = check(options, matrix, error);
    if (result != WANE_OK) return result;
    wane_head *made = wane__alloc_zero(1, sizeof *made);
    if (made == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a head.");
    take_matrix(made, matrix);
    made->rows_most = options->rows_most;
    struct wane__head_weights weights = weights_of(made);
    result = options->rebuild ? WANE_ENOENT : open_sketch(options, &weights, made, error);
    if (!options->found && (result == WANE_ENOENT || result == WANE_EFORMAT)) {
        wane__clear(error);
        made->built = true;
        result = build(options, &weights, error);
        if (result == WANE_OK) result = open_sketch(options, &weights, made, error);
    }
    if (result == WANE_OK) result = use_kernel(options, made, error);
    if (result != WANE_OK) {
        wane_head_free(made);
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
    for (size_t i = 0; i < (size_t)rows * (size_t)head->matrix.d; i++)
        if (!isfinite(hidden[i]))
            return wane__fail(error, WANE_EENGINE, "Hidden row %zu holds NaN or infinity at place %zu.",
                              i / (size_t)head->matrix.d, i % (size_t)head->matrix.d);
    int result = wane__head_scan(head->head, hidden, rows);
    return result == WANE_OK ? result
                             : wane__fail(error, result, "The scan failed (%s).", wane_strerror(result));
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

/* The best ones exactly, the others between bounds: those of all together would be as wide as the best one's estimate. */
static int bound_sum(struct wane__source *source, float scale, double *low, double *high) {
    enum { BEST = 64 };
    struct wane__candidate list[BEST];
    int32_t token[BEST];
    int count = 0;
    int status = source->best(source, BEST, NULL, 0, list, &count);
    if (status != WANE_OK) return status;
    for (int i = 0; i < count; i++) {
        int at = i;
        for (; at > 0 && token[at - 1] > list[i].token; at--) token[at] = token[at - 1];
        token[at] = list[i].token;
    }
    status = source->log_sum_bounds(source, scale, token, count, true, low, high);
    if (status != WANE_OK) return status;
    double top = (double)list[0].logit * (double)scale, known = 0;
    for (int i = 0; i < count; i++) known += exp((double)list[i].logit * (double)scale - top);
    *low = top + log(known + exp(*low - top));
    *high = top + log(known + exp(*high - top));
    return WANE_OK;
}

int wane_head_log_sum(wane_head *head, int row, float scale, bool exactly, double *low, double *high,
                      wane_error *error) {
    struct wane__source *source = source_of(head, row, error);
    if (source == NULL) return WANE_EINVAL;
    if (!(scale > 0) || isinf(scale))
        return wane__fail(error, WANE_EINVAL, "scale is %g; it must be above 0.", (double)scale);
    if (!exactly) return answered(bound_sum(source, scale, low, high), error);
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

int wane_head_signals(wane_head *head, int row, wane_signals *signals, wane_error *error) {
    struct wane__entropy entropy;
    *signals = (wane_signals){NAN, NAN, NAN, NAN, NAN};
    struct wane__source *source = source_of(head, row, error);
    if (source == NULL) return WANE_EINVAL;
    int result = wane__source_entropy(source, &entropy);
    if (result != WANE_OK) return answered(result, error);
    signals->entropy = (float)entropy.value;
    signals->margin = (float)entropy.margin;
    return WANE_OK;
}

/* -------------------------------------------------------------------- facts */

void wane_head_get_facts(const wane_head *head, wane_head_facts *facts) {
    struct wane__sketch_facts f;
    wane__head_get_facts(head->head, &f);
    *facts = (wane_head_facts){.vocab_size = f.vocab_size,
                               .d = f.d,
                               .kernel = wane__head_kernel(head->head),
                               .bits_level1 = f.bits_level1,
                               .bits_level2 = f.bits_level2,
                               .bytes = f.bytes,
                               .statistics_rows = f.statistics_rows,
                               .built = head->built};
    memcpy(facts->digest, f.digest, sizeof facts->digest);
}

int wane_head_save(const wane_head *head, const char *path, wane_error *error) {
    wane__clear(error);
    if (path == NULL || path[0] == '\0')
        return wane__fail(error, WANE_EINVAL, "No file was named for the sketch.");
    return wane__head_save(head->head, path, error);
}
