/*
 * fit.c - ranks and blocks: the area under the curve of right against wrong, and what drawing blocks again makes of it.
 *
 * Percentile intervals of a bootstrap over blocks (Efron 1979; blocks: Künsch 1989), drawn within each part, so that one set of draws
 * serves both parts and all signals, and differences of two of them are paired.
 */
#include "governor/fit.h"

#include "core/figures.h"
#include "core/memory.h"
#include "core/rng.h"
#include "governor/fit_internal.h"

#include <math.h>
#include <stdlib.h>

/* ------------------------------------------------------------------ draws */

static size_t blocks_of(const struct wane__fit_text *text, int part, int32_t *list) {
    size_t n = 0;
    for (int b = 0; b < text->blocks; b++)
        if (text->part[b] == part) list[n++] = b;
    return n;
}

bool wane__fit_draw(const struct wane__fit_text *text, int replicates, uint64_t seed,
                    struct wane__fit_draws *draws) {
    size_t blocks = (size_t)text->blocks;
    *draws = (struct wane__fit_draws){.replicates = replicates, .blocks = text->blocks};
    int32_t *list = wane__alloc_zero(blocks + 1, sizeof *list);
    draws->times = wane__alloc_zero((size_t)replicates * blocks + 1, sizeof *draws->times);
    bool fine = list != NULL && draws->times != NULL;
    for (int part = WANE__FIT_LEARN; part <= WANE__FIT_HELD && fine; part++) {
        size_t n = blocks_of(text, part, list);
        for (size_t r = 0; r < (size_t)replicates; r++)
            for (size_t i = 0; i < n; i++) {
                double u = wane__random_unit(seed + (uint64_t)part, (uint64_t)(r * n + i));
                uint16_t *times = &draws->times[r * blocks + (size_t)list[(size_t)(u * (double)n)]];
                *times = (uint16_t)(*times + (*times < UINT16_MAX));
            }
    }
    wane__free(list);
    if (!fine) wane__fit_draws_free(draws);
    return fine;
}

void wane__fit_draws_free(struct wane__fit_draws *draws) {
    wane__free(draws->times);
    *draws = (struct wane__fit_draws){0};
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

void wane__fit_interval(double *replicate, size_t count, struct wane__fit_share *share) {
    size_t known = 0;
    for (size_t i = 0; i < count; i++)
        if (!isnan(replicate[i])) replicate[known++] = replicate[i];
    share->low = share->high = (double)NAN;
    /* Where many replicates have nothing to tell apart, the others are no picture of what could have been. */
    if (known < 40 || known < count - count / 20) return;
    qsort(replicate, known, sizeof *replicate, by_value);
    size_t tail = (size_t)(0.025 * (double)known);
    share->low = replicate[tail];
    share->high = replicate[known - 1 - tail];
}

/* ------------------------------------------------------------------- ranks */

static int by_rank(const void *a, const void *b) {
    const struct wane__fit_seat *x = a, *y = b;
    if (x->x != y->x) return x->x < y->x ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at; /* qsort is not stable: the same order everywhere */
}

bool wane__fit_takes(const struct wane__fit_text *text, size_t at, int part) {
    return text->label[at] != WANE__FIT_UNLABELLED &&
           (part == WANE__FIT_ALL || text->part[text->block[at]] == part);
}

bool wane__fit_sort(const struct wane__fit_text *text, const float *value, int sign, int part,
                    struct wane__fit_seat **out, size_t *count, size_t *missing) {
    struct wane__fit_seat *seat = wane__alloc_zero(text->count + 1, sizeof *seat);
    size_t n = 0, lost = 0;
    if (seat == NULL) return false;
    for (size_t i = 0; i < text->count; i++) {
        if (!wane__fit_takes(text, i, part)) continue;
        if (!isfinite(value[i])) {
            lost++;
            continue;
        }
        seat[n++] = (struct wane__fit_seat){(float)sign * value[i], (int32_t)i, text->block[i],
                                            text->label[i] == WANE__FIT_RIGHT, false};
    }
    qsort(seat, n, sizeof *seat, by_rank);
    for (size_t i = 0; i < n; i++) seat[i].last = i + 1 == n || seat[i].x != seat[i + 1].x;
    *out = seat;
    *count = n;
    if (missing != NULL) *missing = lost;
    return true;
}

/* `times`: of each block; NULL: once each. */
static double area(const struct wane__fit_seat *seat, size_t count, const uint16_t *times) {
    struct wane__area area = {0};
    for (size_t i = 0; i < count; i++) {
        double weight = times != NULL ? times[seat[i].block] : 1;
        wane__area_add(&area, seat[i].right ? weight : 0, seat[i].right ? 0 : weight);
        if (seat[i].last) wane__area_part(&area);
    }
    return wane__area_of(&area);
}

bool wane__fit_auc(const struct wane__fit_text *text, const float *value, int part,
                   const struct wane__fit_draws *draws, struct wane__fit_auc *out) {
    struct wane__fit_seat *seat = NULL;
    size_t count = 0, replicates = draws != NULL ? (size_t)draws->replicates : 0;
    *out = (struct wane__fit_auc){.auc = {(double)NAN, (double)NAN, (double)NAN}};
    double *replicate = wane__alloc_zero(replicates + 1, sizeof *replicate);
    bool fine = replicate != NULL && wane__fit_sort(text, value, 1, part, &seat, &count, &out->missing);
    if (fine) {
        for (size_t i = 0; i < count; i++) out->right += seat[i].right;
        out->wrong = count - out->right;
        out->auc.value = area(seat, count, NULL);
        for (size_t r = 0; r < replicates; r++)
            replicate[r] = area(seat, count, draws->times + r * (size_t)draws->blocks);
        if (replicates > 0 && !isnan(out->auc.value)) wane__fit_interval(replicate, replicates, &out->auc);
    }
    wane__free(seat);
    wane__free(replicate);
    return fine;
}

bool wane__fit_auc_difference(const struct wane__fit_text *text, const float *a, int sign_a, const float *b,
                              int sign_b, int part, const struct wane__fit_draws *draws,
                              struct wane__fit_share *out) {
    struct wane__fit_seat *seat[2] = {NULL, NULL};
    size_t count[2] = {0}, replicates = (size_t)draws->replicates;
    double *replicate = wane__alloc_zero(replicates + 1, sizeof *replicate);
    bool fine = replicate != NULL && wane__fit_sort(text, a, sign_a, part, &seat[0], &count[0], NULL) &&
                wane__fit_sort(text, b, sign_b, part, &seat[1], &count[1], NULL);
    *out = (struct wane__fit_share){(double)NAN, (double)NAN, (double)NAN};
    if (fine) {
        out->value = area(seat[0], count[0], NULL) - area(seat[1], count[1], NULL);
        for (size_t r = 0; r < replicates; r++) {
            const uint16_t *times = draws->times + r * (size_t)draws->blocks;
            replicate[r] = area(seat[0], count[0], times) - area(seat[1], count[1], times);
        }
        if (!isnan(out->value)) wane__fit_interval(replicate, replicates, out);
    }
    wane__free(seat[0]);
    wane__free(seat[1]);
    wane__free(replicate);
    return fine;
}
