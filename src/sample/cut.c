/*
 * cut.c - bounds of the two sums of a draw from a prefix of its candidates. See cut.h.
 *
 * Written with w for a weight at temperature 1 and v = w^scale for one at the temperature, both 1 for the best:
 *
 *     mass of top-p     M  in  [Σ w of the prefix, that + (k - n) · last w], or what the head says of the vocabulary
 *     end of the cut    c  by top-p: the first with Σ w >= p · M; by min-p: known once the prefix passes it; by top-k
 *     mass of the rest  S  in  [Σ v up to the least c, Σ v up to the greatest]
 *
 * Where the greatest c lies behind the prefix, the v that lie there are bounded by the w that top-p leaves for them:
 * below temperature 1, v = w · w^(scale - 1), and w is at most the last one's.
 */
#include "sample/cut.h"

#include <math.h>

/*
 * Sums in another order differ by less: 4,096 additions lose at most 5e-13, and the logarithm of a sum, which may
 * be near 1e5 at the coldest, loses 2e-11.
 */
#define MARGIN 1e-9

/* The prefix, and the first places in it at which the sum of w reaches p·M for the least and the greatest M. */
struct ends {
    double sum;    /* Σ w */
    double most;   /* p · the greatest M */
    int low, high; /* lengths; -1: not within the prefix */
};

static struct ends find_ends(const struct wane__cut *cut, const struct wane__candidate *list, int count) {
    struct ends e = {.low = -1, .high = -1, .most = cut->whole.high};
    double sum = 0;
    for (int i = 0; i < count; i++) sum += wane__weigh(list, i, 1);
    e.sum = sum;
    if (!(cut->top_p < 1)) return e;
    struct wane__mass mass = cut->whole;
    if (cut->top_k > 0)
        mass = (struct wane__mass){sum, sum + (cut->top_k - count) * wane__weigh(list, count - 1, 1)};
    if (mass.low < sum) mass.low = sum;
    double least = cut->top_p * mass.low * (1 - MARGIN);
    e.most = cut->top_p * mass.high * (1 + MARGIN);
    sum = 0;
    for (int i = 0; i < count && e.high < 0; i++) {
        sum += wane__weigh(list, i, 1);
        if (e.low < 0 && sum >= least) e.low = i + 1;
        if (sum >= e.most) e.high = i + 1;
    }
    return e;
}

/* What candidates behind the prefix can add to S at most. */
static double behind(const struct wane__cut *cut, const struct wane__candidate *list, int count,
                     const struct ends *ends, double sum) {
    double w = wane__weigh(list, count - 1, 1), v = wane__weigh(list, count - 1, cut->scale), most = INFINITY;
    if (cut->scaled.high < INFINITY) most = cut->scaled.high - sum;
    if (cut->top_k > 0) most = fmin(most, (cut->top_k - count) * v);
    if (cut->scale >= 1 && w > 0) most = fmin(most, (fmax(ends->most - ends->sum, 0) + w) * (v / w));
    return fmax(most, 0);
}

/* The first index at which the sum of v exceeds `target`; count: none. */
static int find_first(const struct wane__cut *cut, const struct wane__candidate *list, int count,
                      double target) {
    double sum = 0;
    for (int i = 0; i < count; i++) {
        sum += wane__weigh(list, i, cut->scale);
        if (sum > target) return i;
    }
    return count;
}

bool wane__cut_decides(const struct wane__cut *cut, const struct wane__candidate *list, int count,
                       int *chosen, int *support) {
    struct wane__mass rest = {0, INFINITY};
    if (cut->top_k > 0 && count > cut->top_k) count = cut->top_k;
    if (count < 1) return false;
    int low = count, high = -1;
    if (cut->open) {
        rest = cut->scaled;
    } else {
        struct ends ends = find_ends(cut, list, count);
        if (ends.low > 0) low = ends.low;
        high = ends.high;
        for (int i = 1; i < count; i++) {
            if (!(list[i].logit < cut->lowest)) continue;
            if (low > i) low = i;
            if (high < 0 || high > i) high = i;
            break;
        }
        double sum = 0;
        for (int i = 0; i < (high > 0 ? high : count); i++) {
            sum += wane__weigh(list, i, cut->scale);
            if (i + 1 == low) rest.low = sum;
        }
        rest.high = high > 0 ? sum : sum + behind(cut, list, count, &ends, sum);
    }
    if (!(rest.high < INFINITY)) return false;
    int first = find_first(cut, list, count, cut->u * rest.low * (1 - MARGIN));
    if (first == count || find_first(cut, list, count, cut->u * rest.high * (1 + MARGIN)) != first)
        return false;
    *chosen = first;
    *support = low > first ? low : first + 1;
    return true;
}
