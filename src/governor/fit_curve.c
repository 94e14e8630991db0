/*
 * fit_curve.c - accuracy against a signal: bins, and an S-curve through them.
 *
 * Four parameters by least squares over bins. For a given middle and width the best floor and ceiling are a linear problem with two
 * unknowns, so that only the other two are searched: over a grid of the signal's own quantiles, then ever finer around the best. No start to
 * choose, no step to tune, the same result every time.
 */
#include "core/figures.h"
#include "core/memory.h"
#include "governor/fit_internal.h"

#include <math.h>

enum { FIT_BINS = 128, MIDDLES = 41, WIDTHS = 17, ROUNDS = 8 };
static const double bend =
    1.3169578969248166; /* ln(2 + √3): where the logistic function's third derivative is 0 */

/* ------------------------------------------------------------------- bins */

static void wilson(struct wane__fit_bin *bin, double right) {
    bin->accuracy = right / (double)bin->count;
    wane__share_interval(right, (double)bin->count, &bin->low, &bin->high);
}

static int bins_of(const struct wane__fit_seat *seat, size_t count, struct wane__fit_bin *bin, int most) {
    int n = 0;
    for (size_t i = 0; i < count && n < most;) {
        /* What is left, shared evenly among the bins that are left; at least one token, and all of its equals. */
        size_t take = (count - i + (size_t)(most - n) - 1) / (size_t)(most - n), from = i;
        double sum = 0, right = 0;
        for (; i < count && (i < from + take || !seat[i - 1].last); i++) {
            sum += (double)seat[i].x;
            right += seat[i].right;
        }
        bin[n] = (struct wane__fit_bin){.from = (double)seat[from].x,
                                        .to = (double)seat[i - 1].x,
                                        .mean = sum / (double)(i - from),
                                        .count = i - from};
        wilson(&bin[n++], right);
    }
    return n;
}

int wane__fit_bins(const struct wane__fit_text *text, const float *value, int sign, int part,
                   struct wane__fit_bin *bin, int most) {
    struct wane__fit_seat *seat = NULL;
    size_t count = 0;
    if (!wane__fit_sort(text, value, sign, part, &seat, &count, NULL)) return -1;
    int n = bins_of(seat, count, bin, most);
    wane__free(seat);
    return n;
}

/* ------------------------------------------------------------------ the curve */

double wane__fit_accuracy(const struct wane__fit_curve *c, double x) {
    return c->floor + (c->ceiling - c->floor) / (1 + exp(-(x - c->middle) / c->width));
}

/* The weighted sum of squares that is left with the best floor and ceiling for this middle and width, which it sets. */
static double left_over(const struct wane__fit_bin *bin, int count, struct wane__fit_curve *c) {
    double weight = 0, st = 0, sy = 0, stt = 0, sty = 0;
    for (int i = 0; i < count; i++) {
        double w = (double)bin[i].count, t = 1 / (1 + exp(-(bin[i].mean - c->middle) / c->width));
        weight += w;
        st += w * t;
        sy += w * bin[i].accuracy;
        stt += w * t * t;
        sty += w * t * bin[i].accuracy;
    }
    double spread = weight * stt - st * st, mean = sy / weight;
    double slope = spread > 1e-9 * weight * weight ? (weight * sty - st * sy) / spread : 0;
    if (slope < 0) slope = 0;
    c->floor = mean - slope * st / weight;
    c->ceiling = c->floor + slope;
    /* A share: held at its ends, one end at a time, with the best slope for it. */
    if (c->floor < 0 && stt > 0) {
        c->floor = 0;
        c->ceiling = sty / stt;
    }
    if (c->ceiling > 1) {
        double suu = weight - 2 * st + stt; /* about 1, with u = 1 - t */
        double su = (weight - st) - (sy - sty);
        c->ceiling = 1;
        c->floor = suu > 0 ? 1 - su / suu : c->floor;
        if (c->floor < 0) c->floor = 0;
        if (c->floor > 1) c->floor = 1;
    }
    double left = 0;
    for (int i = 0; i < count; i++) {
        double off = bin[i].accuracy - wane__fit_accuracy(c, bin[i].mean);
        left += (double)bin[i].count * off * off;
    }
    return left;
}

/* Quantile of the tokens, from bins of equal count. */
static double quantile(const struct wane__fit_bin *bin, int count, double q) {
    double at = q * (count - 1);
    int i = (int)at;
    if (i + 1 >= count) return bin[count - 1].mean;
    return bin[i].mean + (at - i) * (bin[i + 1].mean - bin[i].mean);
}

static void search(const struct wane__fit_bin *bin, int count, struct wane__fit_curve *best) {
    double range = quantile(bin, count, 0.98) - quantile(bin, count, 0.02), least = INFINITY;
    if (!(range > 0)) range = bin[count - 1].mean - bin[0].mean;
    for (int m = 0; m < MIDDLES; m++)
        for (int w = 0; w < WIDTHS; w++) {
            struct wane__fit_curve c = {.middle = quantile(bin, count, (m + 0.5) / MIDDLES),
                                        .width = range * exp2(-7 + 0.5 * w)};
            double left = left_over(bin, count, &c);
            if (left >= least) continue;
            least = left;
            *best = c;
        }
    double step = range / 16, factor = 1.4;
    for (int round = 0; round < ROUNDS; round++, step /= 2, factor = sqrt(factor)) {
        struct wane__fit_curve from = *best;
        for (int m = -3; m <= 3; m++)
            for (int w = -3; w <= 3; w++) {
                struct wane__fit_curve c = {.middle = from.middle + step * m / 3.0,
                                            .width = from.width * pow(factor, w / 3.0)};
                double left = left_over(bin, count, &c);
                if (left >= least) continue;
                least = left;
                *best = c;
            }
    }
}

bool wane__fit_curve(const struct wane__fit_text *text, const float *value, int sign, int part,
                     struct wane__fit_curve *curve) {
    struct wane__fit_bin bin[FIT_BINS];
    int count = wane__fit_bins(text, value, sign, part, bin, FIT_BINS);
    if (count < 2) return false;
    *curve = (struct wane__fit_curve){.width = 1};
    search(bin, count, curve);
    curve->knee = curve->middle + bend * curve->width;
    curve->foot = curve->middle - bend * curve->width;
    return true;
}
