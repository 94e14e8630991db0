/*
 * linear_train.c - training of linear models, and what their figures are worth. Owns its scratch; refuses lessons that say nothing.
 */
#include "core/error.h"
#include "core/figures.h"
#include "core/memory.h"
#include "core/rng.h"
#include "governor/linear.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EPOCHS = 30, FOLDS = 5, RESAMPLES = 1000, TIMID = 20 /* hundredths: the least threshold */ };
static const float rate = 10, rate_of_bias = 0.05f, often = 2;

struct table {
    float *weight;
    float *pace; /* of a bucket: what stands in many lessons says little of each */
    float bias[WANE__LINEAR_CLASSES];
};

static void learn(const struct wane__linear *model, struct table *t, const struct wane__lesson *lesson,
                  float now) {
    const struct wane__features *f = &lesson->features;
    size_t classes = (size_t)model->classes;
    double score[WANE__LINEAR_CLASSES], share[WANE__LINEAR_CLASSES];
    for (size_t c = 0; c < classes; c++) score[c] = (double)t->bias[c];
    for (size_t i = 0; i < f->count; i++) {
        const float *weight = t->weight + f->at[i].bucket * classes;
        for (size_t c = 0; c < classes; c++) score[c] += (double)(f->at[i].value * weight[c]);
    }
    wane__linear_shares(model, score, share);
    for (size_t c = 0; c < classes; c++) {
        float target = model->classes == 1 ? lesson->target : lesson->label == (int)c ? 1.0f : 0.0f;
        float wrong = (float)share[c] - target;
        t->bias[c] -= now * rate_of_bias * wrong;
        for (size_t i = 0; i < f->count; i++) {
            uint32_t bucket = f->at[i].bucket;
            t->weight[bucket * classes + c] -= now * t->pace[bucket] * wrong * f->at[i].value;
        }
    }
}

static void find_paces(struct table *t, size_t buckets, const struct wane__lesson *lesson, size_t count,
                       const bool *skip) {
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < lesson[i].features.count && (skip == NULL || !skip[i]); j++)
            t->pace[lesson[i].features.at[j].bucket] += 1;
    for (size_t b = 0; b < buckets; b++) t->pace[b] = often / (often + t->pace[b]);
}

/* To whole numbers of one byte; the greatest weight of a class becomes 127. */
static void round_off(struct wane__linear *model, const struct table *t) {
    size_t classes = (size_t)model->classes, buckets = (size_t)1 << model->bits;
    for (size_t c = 0; c < classes; c++) {
        float most = 0;
        for (size_t b = 0; b < buckets; b++) {
            float size = fabsf(t->weight[b * classes + c]);
            if (size > most) most = size;
        }
        model->bias[c] = t->bias[c];
        model->scale[c] = most / 127;
        for (size_t b = 0; b < buckets && most > 0; b++) {
            float scaled = t->weight[b * classes + c] / model->scale[c];
            model->weight[b * classes + c] = (int8_t)(scaled < 0 ? scaled - 0.5f : scaled + 0.5f);
        }
    }
}

struct place {
    uint64_t random;
    size_t lesson;
};

static int by_random(const void *a, const void *b) {
    const struct place *x = a, *y = b;
    if (x->random != y->random) return x->random < y->random ? -1 : 1;
    return (x->lesson > y->lesson) - (x->lesson < y->lesson);
}

int wane__linear_train(struct wane__linear *model, const struct wane__lesson *lesson, size_t count,
                       const bool *skip, wane_progress_fn progress, void *progress_user, wane_error *error) {
    size_t weights = (size_t)model->classes << model->bits;
    struct table t = {.weight = wane__alloc_zero(weights, sizeof *t.weight),
                      .pace = wane__alloc_zero((size_t)1 << model->bits, sizeof *t.pace)};
    struct place *order = wane__alloc_zero(count + 1, sizeof *order);
    int status = WANE_OK;
    if (model->weight == NULL) model->weight = wane__alloc_zero(weights, 1);
    if (t.weight == NULL || t.pace == NULL || order == NULL || model->weight == NULL)
        status = wane__fail(error, WANE_ENOMEM, "No memory to train a model of %zu weights.", weights);
    if (status == WANE_OK && t.pace != NULL) find_paces(&t, (size_t)1 << model->bits, lesson, count, skip);
    for (int epoch = 0; epoch < EPOCHS && status == WANE_OK && order != NULL; epoch++) {
        float now = rate * (float)(EPOCHS - epoch) / EPOCHS;
        if (progress != NULL && !progress(progress_user, "learning", (double)epoch / EPOCHS))
            status = wane__fail(error, WANE_ECANCELLED, "Training was stopped.");
        for (size_t i = 0; i < count; i++)
            order[i] = (struct place){wane__random_bits(model->seed, (uint64_t)epoch << 32 ^ (uint64_t)i), i};
        qsort(order, count, sizeof *order, by_random);
        for (size_t i = 0; i < count && status == WANE_OK; i++)
            if (skip == NULL || !skip[order[i].lesson]) learn(model, &t, &lesson[order[i].lesson], now);
    }
    if (status == WANE_OK) round_off(model, &t);
    wane__free(t.weight);
    wane__free(t.pace);
    wane__free(order);
    return status;
}

/* ------------------------------------------------------------------- the threshold */

struct tried {
    int best, label;
    double share;
};

/* -1 for "none", which is no answer. */
static int domain_of(const struct wane__linear *model, int label) {
    return label >= 0 && strcmp(model->name[label], "none") == 0 ? -1 : label;
}

static void settle(struct wane__linear *model, const struct tried *tried, size_t count) {
    size_t most = 0;
    for (int step = TIMID; step < 100; step++) {
        size_t right = 0;
        for (size_t i = 0; i < count; i++)
            right += (tried[i].share * 100 >= step ? tried[i].best : -1) == tried[i].label;
        if (right < most) continue; /* of equals the greatest: rather nothing than something wrong */
        most = right;
        model->threshold = (float)step / 100;
    }
}

int wane__linear_find_threshold(struct wane__linear *model, const struct wane__lesson *lesson, size_t count,
                                wane_progress_fn progress, void *progress_user, wane_error *error) {
    bool *skip = wane__alloc_zero(count + 1, sizeof *skip);
    struct tried *tried = wane__alloc_zero(count + 1, sizeof *tried);
    int status = WANE_OK;
    if (skip == NULL || tried == NULL) status = wane__fail(error, WANE_ENOMEM, "No memory to train a model.");
    model->threshold = 0;
    for (int fold = 0; fold < FOLDS && status == WANE_OK && skip != NULL && tried != NULL; fold++) {
        for (size_t i = 0; i < count; i++)
            skip[i] = wane__random_bits(model->seed + 1, i) % FOLDS == (unsigned)fold;
        status = wane__linear_train(model, lesson, count, skip, progress, progress_user, error);
        for (size_t i = 0; i < count && status == WANE_OK; i++) {
            if (!skip[i]) continue;
            double share[WANE__LINEAR_CLASSES];
            tried[i].label = domain_of(model, lesson[i].label);
            tried[i].best = wane__linear_choose(model, &lesson[i].features, share);
            tried[i].share = tried[i].best >= 0 ? share[tried[i].best] : 0;
        }
    }
    if (status == WANE_OK && tried != NULL) settle(model, tried, count);
    wane__free(skip);
    wane__free(tried);
    return status;
}

/* ------------------------------------------------------------------- figures */

struct scored {
    double score;
    bool high;
    uint32_t times; /* in this sample */
};

static int by_score(const void *a, const void *b) {
    const struct scored *x = a, *y = b;
    return (x->score > y->score) - (x->score < y->score);
}

/* Over a list in order. */
static double area(const struct scored *list, size_t count) {
    struct wane__area area = {0};
    for (size_t i = 0; i < count; i++) {
        wane__area_add(&area, list[i].high ? list[i].times : 0, list[i].high ? 0 : list[i].times);
        if (i + 1 == count || list[i + 1].score > list[i].score) wane__area_part(&area);
    }
    return wane__area_of(&area);
}

static int doubles_ascend(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void resample(struct scored *list, size_t count, uint64_t seed, double *low, double *high) {
    double found[RESAMPLES];
    int n = 0;
    for (uint64_t round = 0; round < RESAMPLES; round++) {
        for (size_t i = 0; i < count; i++) list[i].times = 0;
        for (size_t i = 0; i < count; i++)
            list[(size_t)(wane__random_unit(seed, round << 32 ^ i) * (double)count)].times++;
        found[n] = area(list, count);
        if (!isnan(found[n])) n++;
    }
    if (n < RESAMPLES / 2) return;
    qsort(found, (size_t)n, sizeof *found, doubles_ascend);
    *low = found[n * 25 / 1000];
    *high = found[n * 975 / 1000 < n ? n * 975 / 1000 : n - 1];
}

bool wane__auc(const double *score, const bool *high_one, size_t count, uint64_t seed, double *auc,
               double *low, double *high) {
    *auc = *low = *high = (double)NAN;
    if (count == 0) return true;
    struct scored *list = wane__alloc(count * sizeof *list);
    if (list == NULL) return false;
    for (size_t i = 0; i < count; i++) list[i] = (struct scored){score[i], high_one[i], 1};
    qsort(list, count, sizeof *list, by_score);
    *auc = area(list, count);
    if (!isnan(*auc)) resample(list, count, seed, low, high);
    wane__free(list);
    return true;
}
