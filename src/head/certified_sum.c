/*
 * certified_sum.c - the normaliser between two bounds, from what is known of the rows.
 *
 *     exact rows      their exponentials
 *     near rows       those that may carry weight: refined by level 2 first, if the caller takes the trouble
 *     far rows        estimates of level 1
 *
 * An estimate is off by a nearly Gaussian error of known size, so exp(estimate - z²/2), z its deviation times
 * the scale, is right on average, with the variance of a lognormal. The sum's error is bounded by
 *
 *     Bernstein   no single term exceeds the largest that a row not known exactly can have: the bar of the last
 *                 question, beyond which everything is known
 *     kinship     errors of rows that resemble each other go together: a share of the sum of all deviations. Two
 *                 rows at an angle of cosine c have 1-bit errors that correlate by about 0.29·c³ (the arcsine law);
 *                 the share stands for c = 0.41 among all rows that carry weight
 *     selection   a row is refined because its estimate is high: what is left at the border is too low
 *
 * The shares are set with room to spare, not derived: docs/head.md says what was measured against them, and tests hold
 * made-up heads against the bounds.
 */
#include "head/certified.h"
#include "sample/exp.h"

#include <math.h>
#include <string.h>

/* A near row: its estimate and this many deviations reach within so many nats of the best. */
#define NEAR_SIGMAS 2.0f
#define NEAR_NATS   8.0f
/* Blocks whose best bound lies further below the best are counted at that bound. */
#define FAR_NATS (-24.0f)
/* Of the sum of all deviations, squared. */
#define KINSHIP 0.02
/* Of the mass at the border between near and far. */
#define SELECTION 0.5
/* What the kernels' single precision loses: a share, and what they take for nothing (e^-40 a row). */
#define ROUNDING 2e-5
#define NOTHING  1e-11

enum { PARTS = 32 };

struct summing {
    struct wane__head_row *row;
    struct wane__scan_sum how;
    struct wane__scan_sums part[PARTS];
};

static void sum_part(void *user, int part) {
    struct summing *s = user;
    size_t blocks = s->row->head->sketch.shape.blocks;
    s->part[part] = (struct wane__scan_sums){.upper = -1e30};
    s->row->head->kernels->sum(&s->row->query, blocks * (size_t)part / PARTS,
                               blocks * ((size_t)part + 1) / PARTS, &s->how, &s->part[part]);
}

/* Rows that may carry weight and are known by level 1 only, onto the list. */
static int find_near(struct wane__head_row *row, float cut) {
    const struct wane__scan_query *query = &row->query;
    float share = NEAR_SIGMAS / query->sigmas;
    int have = 0, vocab = row->source.vocab_size;
    for (size_t b = 0; b < row->head->sketch.shape.blocks; b++) {
        if (query->block_upper[b] < cut) continue;
        const struct wane__scan_block *known = &query->known[b];
        int32_t first = (int32_t)b * WANE__SKETCH_ROWS;
        for (int r = 0; r < WANE__SKETCH_ROWS && first + r < vocab; r++)
            if (known->state[r] == WANE__KNOWN_LEVEL1 && known->estimate[r] + share * known->half[r] >= cut)
                row->head->list[have++] = first + r;
    }
    return have;
}

/* The best logit that is known; without one, the best estimate. */
static float find_reference(const struct wane__head_row *row) {
    float best = -INFINITY;
    for (int i = 0; i < row->exact_count; i++)
        if (!(*wane__state(row, row->exact[i].token) & WANE__LEFT_OUT) && row->exact[i].logit > best)
            best = row->exact[i].logit;
    if (best > -INFINITY) return best;
    for (size_t b = 0; b < row->head->sketch.shape.blocks; b++)
        if (row->query.block_estimate[b] > best) best = row->query.block_estimate[b];
    return best;
}

static double sum_exact(const struct wane__head_row *row, double scale, double reference) {
    double sum = 0;
    for (int i = 0; i < row->exact_count; i++) {
        if (*wane__state(row, row->exact[i].token) & WANE__LEFT_OUT) continue;
        double x = scale * ((double)row->exact[i].logit - reference);
        sum += x > 0 ? exp(x) : wane__exp_weight(x);
    }
    return sum;
}

/* Logarithms: the sum's two bounds, and what it is likely to be. */
struct answer {
    double low, high, guess;
};

static struct answer answer_of(const struct summing *s) {
    struct wane__scan_sums all = {.upper = -1e30};
    for (int part = 0; part < PARTS; part++) {
        const struct wane__scan_sums *one = &s->part[part];
        all.mass += one->mass;
        all.deviation += one->deviation;
        all.square += one->square;
        all.border += one->border;
        all.bounded += one->bounded;
        all.upper = fmax(all.upper, one->upper);
    }
    double scale = (double)s->how.scale, reference = (double)s->how.reference,
           k = (double)s->row->query.sigmas;
    double exact = sum_exact(s->row, scale, reference);
    double largest = exp(fmin(all.upper, scale * ((double)s->row->bar - reference)));
    double power = 0.5 * k * k + log(k + 1), jump = largest * power / 3;
    double chance = jump + sqrt(jump * jump + 2 * all.square * power) + k * sqrt(KINSHIP) * all.deviation;
    chance += ROUNDING * (all.mass + all.bounded) + NOTHING;
    double below = exact + fmax(all.mass - chance, 0);
    double above = exact + all.mass + chance + SELECTION * all.border + all.bounded;
    /* Sums in another order differ in their last bits. */
    return (struct answer){.low = scale * reference + log(below * (1 - 1e-12)),
                           .high = scale * reference + log(above * (1 + 1e-12)),
                           .guess = scale * reference + log(exact + all.mass + NOTHING)};
}

static int answer(struct wane__source *source, float scale, const int32_t *skip, int skips, bool closely,
                  struct answer *out) {
    struct wane__head_row *row = (struct wane__head_row *)(void *)source;
    if (row->status != WANE_OK || row->dense || !(scale > 0)) {
        int status = source->log_sum(source, scale, skip, skips, &out->low);
        out->guess = out->high = out->low;
        return status;
    }
    row->head->counts.questions++;
    for (int i = 0; i < skips; i++) *wane__state(row, skip[i]) |= WANE__LEFT_OUT;
    float reference = find_reference(row), cut = reference - NEAR_NATS / scale;
    struct summing s = {.row = row,
                        .how = {.scale = scale,
                                .reference = reference,
                                .sigmas = row->query.sigmas,
                                .far = FAR_NATS,
                                .border = closely ? cut : INFINITY}};
    int near = closely ? find_near(row, cut) : 0;
    /* Else the exact sum, which the caller will ask for then, is as cheap. */
    if (wane__head_affords(row, near / 2)) wane__head_refine(row, near);
    wane__pool_run(row->head->pool, sum_part, &s, PARTS);
    *out = answer_of(&s);
    for (int i = 0; i < skips; i++) *wane__state(row, skip[i]) &= (uint8_t)~WANE__LEFT_OUT;
    return WANE_OK;
}

int wane__head_log_sum_bounds(struct wane__source *source, float scale, const int32_t *skip, int skips,
                              bool closely, double *low, double *high) {
    struct answer all = {0};
    int status = answer(source, scale, skip, skips, closely, &all);
    *low = all.low;
    *high = all.high;
    return status;
}

int wane__head_log_sum_guess(struct wane__source *source, float scale, const int32_t *skip, int skips,
                             double *out) {
    struct answer all = {0};
    int status = answer(source, scale, skip, skips, false, &all);
    *out = all.guess;
    return status;
}
