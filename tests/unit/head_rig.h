/* head_rig.h - a head of floats for tests: weights, exact logits in double, sketches in a folder of their own. */
#ifndef WANE_TESTS_HEAD_RIG_H
#define WANE_TESTS_HEAD_RIG_H

#include "core/memory.h"
#include "core/rng.h"
#include "head/certified.h"
#include "head/row.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Sanitizers make everything ten times slower: fewer rounds of the same then. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(WANE_TESTS_EMULATED)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif
#if defined(WANE_TESTS_EMULATED)
enum { EMULATED = 1 };
#else
enum { EMULATED = 0 };
#endif

static uint64_t rig_state = 1;

static inline double unit(void) {
    return wane__random_unit(11, rig_state++);
}

static inline int below(int limit) {
    return (int)(unit() * limit);
}

static inline float gaussian(void) {
    double u = unit() + 0x1p-54;
    return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * unit()));
}

struct rig {
    int vocab, d;
    float *w;      /* vocab × d */
    float *hidden; /* one row */
    float *logits; /* of it, exactly as rescore gives them */
    atomic_long rescored;
    struct wane__head_weights weights;
    float *mean, *covariance;
    struct wane__head_statistics statistics;
    char path[64];
};

static inline int rig_rows(void *user, int first, int count, float *out) {
    const struct rig *rig = user;
    memcpy(out, rig->w + (size_t)first * (size_t)rig->d, (size_t)count * (size_t)rig->d * sizeof *out);
    return WANE_OK;
}

static inline float rig_logit(const struct rig *rig, const float *hidden, int32_t id) {
    double sum = 0;
    for (int i = 0; i < rig->d; i++)
        sum += (double)rig->w[(size_t)id * (size_t)rig->d + (size_t)i] * (double)hidden[i];
    return (float)sum;
}

static inline int rig_rescore(void *user, const float *hidden, const int32_t *ids, int count, float *logits) {
    struct rig *rig = user;
    for (int i = 0; i < count; i++) logits[i] = rig_logit(rig, hidden, ids[i]);
    atomic_fetch_add(&rig->rescored, count);
    return WANE_OK;
}

static inline int rig_seen(void *user, const float *hidden, const void *prepared, float *out) {
    (void)prepared;
    const struct rig *rig = user;
    memcpy(out, hidden, (size_t)rig->d * sizeof *out);
    return WANE_OK;
}

static inline void rig_init(struct rig *rig, int vocab, int d) {
    memset(rig, 0, sizeof *rig);
    rig->vocab = vocab;
    rig->d = d;
    rig->w = calloc((size_t)vocab * (size_t)d, sizeof *rig->w);
    rig->hidden = calloc((size_t)d, sizeof *rig->hidden);
    rig->logits = calloc((size_t)vocab, sizeof *rig->logits);
    rig->weights = (struct wane__head_weights){
        .vocab_size = vocab, .d = d, .rows = rig_rows, .rescore = rig_rescore, .seen = rig_seen, .user = rig};
    snprintf(rig->path, sizeof rig->path, "/tmp/wane-head-%d.sketch", (int)getpid());
}

static inline void rig_free(struct rig *rig) {
    unlink(rig->path);
    free(rig->w);
    free(rig->hidden);
    free(rig->logits);
    free(rig->mean);
    free(rig->covariance);
}

/* Hidden rows: a mean and a falling spectrum in the coordinates themselves. */
static inline void rig_draw_hidden(const struct rig *rig, float *hidden) {
    for (int i = 0; i < rig->d; i++)
        hidden[i] = 0.5f * (float)(i % 5) + 3 * gaussian() / sqrtf(1 + 0.2f * (float)i);
}

static inline void rig_set_hidden(struct rig *rig) {
    for (int32_t id = 0; id < rig->vocab; id++) rig->logits[id] = rig_logit(rig, rig->hidden, id);
}

/* Mean and covariance of `count` drawn rows. */
static inline void rig_learn(struct rig *rig, int count) {
    size_t d = (size_t)rig->d;
    float *rows = malloc((size_t)count * d * sizeof *rows);
    rig->mean = calloc(d, sizeof *rig->mean);
    rig->covariance = calloc(d * d, sizeof *rig->covariance);
    for (int r = 0; r < count; r++) {
        float *row = rows + (size_t)r * d;
        rig_draw_hidden(rig, row);
        for (size_t i = 0; i < d; i++) rig->mean[i] += row[i] / (float)count;
    }
    for (int r = 0; r < count; r++) {
        const float *row = rows + (size_t)r * d;
        for (size_t i = 0; i < d; i++)
            for (size_t j = 0; j < d; j++)
                rig->covariance[i * d + j] +=
                    (row[i] - rig->mean[i]) * (row[j] - rig->mean[j]) / (float)count;
    }
    free(rows);
    rig->statistics = (struct wane__head_statistics){rig->mean, rig->covariance, count};
}

static inline void rig_build(struct rig *rig, int threads) {
    wane_error error = {0};
    int status =
        wane__sketch_build(rig->path, &rig->weights, &rig->statistics, "digest", threads, NULL, NULL, &error);
    if (status != WANE_OK) fail_msg("%s", error.text);
}

static inline struct wane__head *rig_open(struct rig *rig, float k, int threads, int rows) {
    struct wane__head *head;
    wane_error error = {0};
    int status = wane__head_open(rig->path, &rig->weights, "digest", k, threads, rows, &head, &error);
    if (status != WANE_OK) fail_msg("%s", error.text);
    return head;
}

#endif
