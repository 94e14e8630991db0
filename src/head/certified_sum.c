/*
 * certified_sum.c - the normaliser between two bounds, from what is known of the rows.
 *
 *     exact rows      their exponentials
 *     near rows       those that may carry weight: refined by level 2 first
 *     far rows        estimates of level 1
 *
 * An estimate is off by a nearly Gaussian error of known size, so exp(estimate - z²/2), z its deviation times
 * the scale, is right on average, with the variance of a lognormal. The sum's error is bounded by
 *
 *     Bernstein   no single term exceeds the largest that a row not known exactly can have: the bar of the last
 *                 question, beyond which everything is known
 *     kinship     errors of rows that resemble each other go together: a share of the sum of all deviations
 *     selection   a row is refined because its estimate is high: what is left at the border is too low
 *
 * The shares are set with room to spare, not derived: errors of different rows are taken for independent but for the
 * kinship term. docs/head.md says what is open; tests hold made-up heads against the bounds.
 */
#include "head/certified.h"
#include "sample/exp.h"

#include <math.h>
#include <string.h>

/* A near row: its estimate and this many deviations reach within so many nats of the best. */
#define NEAR_SIGMAS 2.0f
#define NEAR_NATS   8.0
/* Exponentials below this share of the best one's are counted at their bound. */
#define FAR_NATS (-30.0)
/* Squared deviation from which on an estimate says nothing: only its bound counts. */
#define WILD 4.0
/* Of the sum of all deviations, squared. */
#define KINSHIP 0.02
/* Of the mass at the border between near and far. */
#define SELECTION 0.5

enum { PARTS = 32 };

/* Sums of a part, all against the reference. */
struct sums {
    double known;             /* exact rows and estimates */
    double exact;             /* of it, exact rows */
    double deviation, square; /* Σ v, Σ v² */
    double border;            /* mass at the border */
    double wild;              /* bounds of rows without an estimate */
    double largest;           /* bound of the largest term that is not exact */
};

struct summing {
    struct wane__head_row *row;
    double scale, reference, cut;
    struct sums part[PARTS];
};

static void add_row(const struct summing *s, double estimate, double half, uint8_t state, struct sums *to) {
    double x = s->scale * (estimate - s->reference);
    if (state & WANE__KNOWN_EXACT) {
        double e = x > 0 ? exp(x) : wane__exp_weight(x);
        to->known += e;
        to->exact += e;
        return;
    }
    double sigma = half / (double)s->row->query.sigmas, z2 = s->scale * sigma * (s->scale * sigma);
    double most = estimate + half, bar = (double)s->row->bar;
    double upper = s->scale * ((most < bar ? most : bar) - s->reference);
    if (upper < FAR_NATS || z2 > WILD) {
        to->wild += exp(upper);
        return;
    }
    double shrink = wane__exp_weight(-0.5 * z2);
    double mass = (x > 0 ? exp(x) : wane__exp_weight(x)) * shrink;
    double square = mass * mass * (1 / (shrink * shrink) - 1);
    to->known += mass;
    to->square += square;
    to->deviation += sqrt(square);
    if (!(state & WANE__KNOWN_LEVEL2) && estimate + 2 * (double)NEAR_SIGMAS * sigma >= s->cut)
        to->border += mass;
    upper = exp(upper);
    if (upper > to->largest) to->largest = upper;
}

static void sum_part(void *user, int part) {
    struct summing *s = user;
    const struct wane__scan_query *query = &s->row->query;
    size_t blocks = s->row->head->sketch.shape.blocks;
    size_t from = blocks * (size_t)part / PARTS, to = blocks * ((size_t)part + 1) / PARTS;
    struct sums sums = {0};
    for (size_t b = from; b < to; b++) {
        double upper = s->scale * ((double)query->block_upper[b] - s->reference);
        if (upper < FAR_NATS) {
            sums.wild += WANE__SKETCH_ROWS * exp(upper);
            continue;
        }
        const struct wane__scan_block *known = &query->known[b];
        int first = (int)b * WANE__SKETCH_ROWS, left = s->row->source.vocab_size - first;
        for (int r = 0; r < WANE__SKETCH_ROWS && r < left; r++)
            if (!(known->state[r] & WANE__LEFT_OUT))
                add_row(s, (double)known->estimate[r], (double)known->half[r], known->state[r], &sums);
    }
    s->part[part] = sums;
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
static double find_reference(const struct wane__head_row *row) {
    float best = -INFINITY;
    for (int i = 0; i < row->exact_count; i++)
        if (!(*wane__state(row, row->exact[i].token) & WANE__LEFT_OUT) && row->exact[i].logit > best)
            best = row->exact[i].logit;
    if (best > -INFINITY) return (double)best;
    for (size_t b = 0; b < row->head->sketch.shape.blocks; b++)
        if (row->query.block_estimate[b] > best) best = row->query.block_estimate[b];
    return (double)best;
}

static void bounds_of(struct summing *s, double *low, double *high) {
    struct sums all = {0};
    for (int part = 0; part < PARTS; part++) {
        const struct sums *one = &s->part[part];
        all.known += one->known;
        all.exact += one->exact;
        all.deviation += one->deviation;
        all.square += one->square;
        all.border += one->border;
        all.wild += one->wild;
        all.largest = one->largest > all.largest ? one->largest : all.largest;
    }
    double k = (double)s->row->query.sigmas, power = 0.5 * k * k + log(k + 1);
    double jump = all.largest * power / 3;
    double chance = jump + sqrt(jump * jump + 2 * all.square * power) + k * sqrt(KINSHIP) * all.deviation;
    double below = all.known - chance, above = all.known + chance + SELECTION * all.border + all.wild;
    if (below < all.exact) below = all.exact;
    double base = s->scale * s->reference;
    /* Sums in another order differ in their last bits. */
    *low = base + log(below * (1 - 1e-12));
    *high = base + log(above * (1 + 1e-12));
}

int wane__head_log_sum_bounds(struct wane__source *source, float scale, const int32_t *skip, int skips,
                              double *low, double *high) {
    struct wane__head_row *row = (struct wane__head_row *)(void *)source;
    if (row->status != WANE_OK || row->dense || !(scale > 0)) {
        int status = source->log_sum(source, scale, skip, skips, low);
        *high = *low;
        return status;
    }
    row->head->counts.questions++;
    for (int i = 0; i < skips; i++) *wane__state(row, skip[i]) |= WANE__LEFT_OUT;
    struct summing s = {.row = row, .scale = (double)scale, .reference = find_reference(row)};
    s.cut = s.reference - NEAR_NATS / s.scale;
    int near = find_near(row, (float)s.cut);
    /* With more than that, level 2 costs as much as the exact sum, which the caller will ask for then. */
    if (near <= source->vocab_size / 4) wane__head_refine(row, near);
    wane__pool_run(row->head->pool, sum_part, &s, PARTS);
    bounds_of(&s, low, high);
    for (int i = 0; i < skips; i++) *wane__state(row, skip[i]) &= (uint8_t)~WANE__LEFT_OUT;
    return WANE_OK;
}
