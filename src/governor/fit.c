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

static double area(const struct wane__fit_seat *seat, size_t count) {
    struct wane__area area = {0};
    for (size_t i = 0; i < count; i++) {
        wane__area_add(&area, seat[i].right, !seat[i].right);
        if (seat[i].last) wane__area_part(&area);
    }
    return wane__area_of(&area);
}

/* Replicates that go through the tokens side by side: one walk for all of them, and a loop that compilers vectorise. */
enum { LANES = 8 };

struct lanes {
    double won[LANES], rights[LANES], wrongs[LANES]; /* as in struct wane__area */
    double of_score[2][LANES];                       /* wrong and right ones of the score under way */
};

static void part_lanes(struct lanes *l) {
    for (int i = 0; i < LANES; i++) {
        l->won[i] += l->of_score[1][i] * (l->wrongs[i] + 0.5 * l->of_score[0][i]);
        l->rights[i] += l->of_score[1][i];
        l->wrongs[i] += l->of_score[0][i];
        l->of_score[0][i] = l->of_score[1][i] = 0;
    }
}

/* A score that only one token has, as most do: nothing is kept for others. */
static void add_alone(struct lanes *l, const double *weight, bool right) {
    if (right)
        for (int i = 0; i < LANES; i++) {
            l->won[i] += weight[i] * l->wrongs[i];
            l->rights[i] += weight[i];
        }
    else
        for (int i = 0; i < LANES; i++) l->wrongs[i] += weight[i];
}

/* `times`: of each block, in each lane. */
static void lane_areas(const struct wane__fit_seat *seat, size_t count, const double (*times)[LANES],
                       double *out, size_t lanes) {
    struct lanes l = {0};
    bool first = true;
    for (size_t s = 0; s < count; first = seat[s++].last) {
        const double *weight = times[seat[s].block];
        if (first && seat[s].last) {
            add_alone(&l, weight, seat[s].right);
            continue;
        }
        double *sum = l.of_score[seat[s].right];
        for (int i = 0; i < LANES; i++) sum[i] += weight[i];
        if (seat[s].last) part_lanes(&l);
    }
    for (size_t i = 0; i < lanes; i++) {
        struct wane__area done = {.won = l.won[i], .rights = l.rights[i], .wrongs = l.wrongs[i]};
        out[i] = wane__area_of(&done);
    }
}

/* The area in each replicate. False: no memory. */
static bool areas(const struct wane__fit_seat *seat, size_t count, const struct wane__fit_draws *draws,
                  double *out) {
    size_t replicates = (size_t)draws->replicates, blocks = (size_t)draws->blocks;
    double(*times)[LANES] = wane__alloc_zero(blocks + 1, sizeof *times);
    if (times == NULL) return false;
    for (size_t first = 0; first < replicates; first += LANES) {
        size_t lanes = replicates - first < LANES ? replicates - first : LANES;
        for (size_t i = 0; i < lanes; i++)
            for (size_t b = 0; b < blocks; b++) times[b][i] = draws->times[(first + i) * blocks + b];
        lane_areas(seat, count, (const double(*)[LANES])times, out + first, lanes);
    }
    wane__free(times);
    return true;
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
        out->auc.value = area(seat, count);
        if (replicates > 0) fine = areas(seat, count, draws, replicate);
        if (replicates > 0 && fine && !isnan(out->auc.value))
            wane__fit_interval(replicate, replicates, &out->auc);
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
    double *replicate = wane__alloc_zero(2 * (replicates + 1), sizeof *replicate);
    bool fine = replicate != NULL && wane__fit_sort(text, a, sign_a, part, &seat[0], &count[0], NULL) &&
                wane__fit_sort(text, b, sign_b, part, &seat[1], &count[1], NULL) &&
                areas(seat[0], count[0], draws, replicate) &&
                areas(seat[1], count[1], draws, replicate + replicates);
    *out = (struct wane__fit_share){(double)NAN, (double)NAN, (double)NAN};
    if (fine) {
        out->value = area(seat[0], count[0]) - area(seat[1], count[1]);
        for (size_t r = 0; r < replicates; r++) replicate[r] -= replicate[replicates + r];
        if (!isnan(out->value)) wane__fit_interval(replicate, replicates, out);
    }
    wane__free(seat[0]);
    wane__free(seat[1]);
    wane__free(replicate);
    return fine;
}
