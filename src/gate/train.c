/*
 * train.c - Adam over all tallies at once, stopped by others, then two numbers that calibrate. Owns its scratch; refuses lessons in
 * which every vote came out alike.
 *
 *     loss = Σ cross-entropy of each position + smooth · Σ (weight - the next bin's)² + ridge · Σ weight²
 *
 * Neighbouring bins mean nearly the same, so that a bin that was seen twice learns from those beside it. Rare rejections need no
 * weights of their own: odds must be those of the traffic, and the output begins at the odds of all positions together.
 */
#include "gate/train.h"

#include "core/error.h"
#include "core/figures.h"
#include "core/memory.h"
#include "core/rng.h"
#include "sample/exp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    INPUTS = WANE__GATE_GAPS * WANE__GATE_BINS,
    HIDDEN = WANE__GATE_HIDDEN,
    WEIGHTS = INPUTS * HIDDEN + HIDDEN + HIDDEN + 1,
    EPOCHS_MOST = 2000,
    EPOCHS_BLIND = 400, /* without anything to check by */
    PATIENCE = 150,     /* epochs without a better check */
    ECE_BINS = 15,
    LEAST_OF_A_KIND = 10 /* to calibrate by */
};
static const double rate = 0.005, smooth = 30, ridge = 0.3;
static const double ln10 = 2.302585092994046;

struct weights {
    double in[INPUTS][HIDDEN];
    double bias[HIDDEN];
    double out[HIDDEN];
    double out_bias;
};
_Static_assert(sizeof(struct weights) == WEIGHTS * sizeof(double), "weights stand one behind the other");

struct training {
    struct weights now, best, slope, mean, square; /* mean and square: Adam's */
    double decay1, decay2;                         /* its powers */
};

double wane__gate_promise(double odds) {
    return wane__logistic(odds * ln10);
}

/* ------------------------------------------------------------------- the net */

static double forward(const struct weights *w, uint32_t pattern, double hidden[HIDDEN]) {
    const double *row[WANE__GATE_GAPS];
    double odds = w->out_bias;
    for (int g = 0; g < WANE__GATE_GAPS; g++)
        row[g] = w->in[(uint32_t)(g * WANE__GATE_BINS) + wane__gate_bin_of(pattern, g)];
    for (int h = 0; h < HIDDEN; h++) {
        double sum = w->bias[h] + row[0][h] + row[1][h] + row[2][h] + row[3][h];
        hidden[h] = sum > 0 ? sum : 0;
        odds += w->out[h] * hidden[h];
    }
    return odds;
}

static void add_slope(const struct weights *w, const struct wane__gate_tally *t, struct weights *slope) {
    double hidden[HIDDEN], *row[WANE__GATE_GAPS];
    double odds = forward(w, t->pattern, hidden);
    double wrong = ln10 * (wane__logistic(odds * ln10) * (double)t->seen - (double)t->kept);
    for (int g = 0; g < WANE__GATE_GAPS; g++)
        row[g] = slope->in[(uint32_t)(g * WANE__GATE_BINS) + wane__gate_bin_of(t->pattern, g)];
    slope->out_bias += wrong;
    for (int h = 0; h < HIDDEN; h++) {
        slope->out[h] += wrong * hidden[h];
        if (!(hidden[h] > 0)) continue;
        double through = wrong * w->out[h];
        slope->bias[h] += through;
        for (int g = 0; g < WANE__GATE_GAPS; g++) row[g][h] += through;
    }
}

static void add_penalties(const struct weights *w, struct weights *slope) {
    for (int i = 0; i < INPUTS; i++) {
        bool first = i % WANE__GATE_BINS == 0, last = i % WANE__GATE_BINS == WANE__GATE_BINS - 1;
        for (int h = 0; h < HIDDEN; h++) {
            double here = w->in[i][h], pull = 2 * ridge * here;
            if (!first) pull += 2 * smooth * (here - w->in[i - 1][h]);
            if (!last) pull += 2 * smooth * (here - w->in[i + 1][h]);
            slope->in[i][h] += pull;
        }
    }
    for (int h = 0; h < HIDDEN; h++) slope->out[h] += 2 * ridge * w->out[h];
}

/* ------------------------------------------------------------------- training */

static void begin(struct training *t, uint64_t seed, double base_odds) {
    for (int i = 0; i < INPUTS; i++)
        for (int h = 0; h < HIDDEN; h++)
            t->now.in[i][h] =
                (wane__random_unit(seed, (uint64_t)(i / WANE__GATE_BINS) * HIDDEN + (uint64_t)h) - 0.5) *
                    0.2 +
                (wane__random_unit(seed + 1, (uint64_t)i * HIDDEN + (uint64_t)h) - 0.5) * 0.02;
    for (int h = 0; h < HIDDEN; h++) {
        t->now.bias[h] = 0.1; /* most units live at first */
        t->now.out[h] = h % 2 == 0 ? 0.1 : -0.1;
    }
    t->now.out_bias = base_odds;
    t->decay1 = t->decay2 = 1;
}

static void step(struct training *t, double count) {
    double *w = (double *)&t->now, *mean = (double *)&t->mean, *square = (double *)&t->square;
    const double *slope = (const double *)&t->slope;
    t->decay1 *= 0.9;
    t->decay2 *= 0.999;
    for (int i = 0; i < WEIGHTS; i++) {
        double s = slope[i] / count;
        mean[i] = 0.9 * mean[i] + 0.1 * s;
        square[i] = 0.999 * square[i] + 0.001 * s * s;
        w[i] -= rate * (mean[i] / (1 - t->decay1)) / (sqrt(square[i] / (1 - t->decay2)) + 1e-9);
    }
}

/* ln x for x > 0, without a library call: ln 2 · exponent and 2 atanh((m - 1) / (m + 1)) of the rest. */
static double logarithm(double x) {
    int exponent;
    double m = frexp(x, &exponent);
    if (m < 0.7071067811865476) {
        m *= 2;
        exponent--;
    }
    double z = (m - 1) / (m + 1), square = z * z, sum = 0;
    for (int k = 17; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
    return (double)exponent * 0.6931471805599453 + 2 * z * sum;
}

/* Mean cross-entropy, nats. */
static double surprise(const struct weights *w, const struct wane__gate_tally *tally, size_t count) {
    double hidden[HIDDEN], sum = 0, all = 0;
    for (size_t i = 0; i < count; i++) {
        double p = wane__logistic(ln10 * forward(w, tally[i].pattern, hidden));
        double seen = tally[i].seen, kept = tally[i].kept;
        sum -= kept * logarithm(p + 1e-12) + (seen - kept) * logarithm(1 - p + 1e-12);
        all += seen;
    }
    return all > 0 ? sum / all : 0;
}

static void totals(const struct wane__gate_tally *tally, size_t count, double *seen, double *kept) {
    *seen = *kept = 0;
    for (size_t i = 0; i < count; i++) {
        *seen += tally[i].seen;
        *kept += tally[i].kept;
    }
}

static int run_epochs(struct training *t, const struct wane__gate_lesson *lesson, double count, int *epochs,
                      wane_error *error) {
    bool checked = lesson->check_count > 0;
    int most = checked ? EPOCHS_MOST : EPOCHS_BLIND, best_at = 0;
    double best = INFINITY;
    for (*epochs = 0; *epochs < most && *epochs - best_at < PATIENCE; ++*epochs) {
        if (*epochs % 10 == 0 && lesson->progress != NULL &&
            !lesson->progress(lesson->progress_user, "learning", (double)*epochs / most))
            return wane__fail(error, WANE_ECANCELLED, "Training was stopped.");
        double now = checked ? surprise(&t->now, lesson->check, lesson->check_count) : -(double)*epochs;
        if (now < best) {
            best = now;
            best_at = *epochs;
            t->best = t->now;
        }
        memset(&t->slope, 0, sizeof t->slope);
        for (size_t i = 0; i < lesson->learn_count; i++) add_slope(&t->now, &lesson->learn[i], &t->slope);
        add_penalties(&t->now, &t->slope);
        step(t, count);
    }
    return WANE_OK;
}

/* odds ← a · odds + b, by Newton's method on the check's cross-entropy: the level and the spread of the odds are the traffic's. */
static void calibrate(struct weights *w, const struct wane__gate_tally *tally, size_t count) {
    double seen, kept, a = 1, b = 0, hidden[HIDDEN];
    totals(tally, count, &seen, &kept);
    if (kept < LEAST_OF_A_KIND || seen - kept < LEAST_OF_A_KIND) return;
    for (int round = 0; round < 25; round++) {
        double ga = 0, gb = 0, haa = 1e-9, hab = 0, hbb = 1e-9;
        for (size_t i = 0; i < count; i++) {
            double x = forward(w, tally[i].pattern, hidden), n = tally[i].seen;
            double p = wane__logistic(ln10 * (a * x + b)), wrong = p * n - (double)tally[i].kept;
            double curve = ln10 * p * (1 - p) * n;
            ga += wrong * x;
            gb += wrong;
            haa += curve * x * x;
            hab += curve * x;
            hbb += curve;
        }
        double area = haa * hbb - hab * hab;
        if (!(area > 1e-12)) return;
        a -= (hbb * ga - hab * gb) / area;
        b -= (haa * gb - hab * ga) / area;
    }
    if (!(a > 0.25 && a < 4 && b > -3 && b < 3)) return; /* too few to say so much */
    for (int h = 0; h < HIDDEN; h++) w->out[h] *= a;
    w->out_bias = a * w->out_bias + b;
}

static void round_off(const struct weights *w, struct wane__gate_net *net) {
    for (int i = 0; i < INPUTS; i++)
        for (int h = 0; h < HIDDEN; h++) net->in[i][h] = (float)w->in[i][h];
    for (int h = 0; h < HIDDEN; h++) {
        net->bias[h] = (float)w->bias[h];
        net->out[h] = (float)w->out[h];
    }
    net->out_bias = (float)w->out_bias;
}

int wane__gate_train(const struct wane__gate_lesson *lesson, struct wane__gate_net *net, int *epochs,
                     wane_error *error) {
    double seen, kept;
    int took = 0;
    totals(lesson->learn, lesson->learn_count, &seen, &kept);
    if (kept < 1 || seen - kept < 1)
        return wane__fail(error, WANE_EINVAL,
                          "A gate learns what a vote leaves alone and what it does not; of %.0f positions it "
                          "left %.0f alone.",
                          seen, kept);
    struct training *t = wane__alloc_zero(1, sizeof *t);
    if (t == NULL) return wane__fail(error, WANE_ENOMEM, "No memory to train a gate.");
    begin(t, lesson->seed, logarithm(kept / (seen - kept)) / ln10);
    int status = run_epochs(t, lesson, seen, &took, error);
    if (status == WANE_OK) {
        calibrate(&t->best, lesson->check, lesson->check_count);
        round_off(&t->best, net);
    }
    if (epochs != NULL) *epochs = took;
    wane__free(t);
    return status;
}

/* -------------------------------------------------------------- how good it is */

struct scored {
    float odds;
    double seen, kept;
};

static int by_odds(const void *a, const void *b) {
    const struct scored *x = a, *y = b;
    if (x->odds < y->odds || x->odds > y->odds) return x->odds < y->odds ? -1 : 1;
    return (x->seen > y->seen) - (x->seen < y->seen);
}

static struct scored *score(const struct wane__gate_net *net, const struct wane__gate_tally *tally,
                            size_t count) {
    struct scored *list = wane__alloc((count + 1) * sizeof *list);
    if (list == NULL) return NULL;
    for (size_t i = 0; i < count; i++)
        list[i] = (struct scored){wane__gate_run(net, tally[i].pattern), tally[i].seen, tally[i].kept};
    qsort(list, count, sizeof *list, by_odds);
    return list;
}

double wane__gate_auc(const struct wane__gate_net *net, const struct wane__gate_tally *tally, size_t count) {
    struct scored *list = score(net, tally, count);
    if (list == NULL) return (double)NAN;
    struct wane__area area = {0};
    for (size_t i = 0; i < count; i++) {
        wane__area_add(&area, list[i].kept, list[i].seen - list[i].kept);
        if (i + 1 == count || list[i + 1].odds > list[i].odds) wane__area_part(&area);
    }
    wane__free(list);
    return wane__area_of(&area);
}

double wane__gate_ece(const struct wane__gate_net *net, const struct wane__gate_tally *tally, size_t count) {
    struct scored *list = score(net, tally, count);
    double gap[ECE_BINS] = {0}, all = 0, passed = 0, sum = 0;
    if (list == NULL) return (double)NAN;
    for (size_t i = 0; i < count; i++) all += list[i].seen;
    for (size_t i = 0; i < count; i++) {
        int bin = (int)(ECE_BINS * (passed + list[i].seen / 2) / all);
        gap[bin < ECE_BINS ? bin : ECE_BINS - 1] +=
            list[i].seen * wane__gate_promise((double)list[i].odds) - list[i].kept;
        passed += list[i].seen;
    }
    wane__free(list);
    for (int b = 0; b < ECE_BINS; b++) sum += fabs(gap[b]);
    return all > 0 ? sum / all : (double)NAN;
}
