/* grade.c - strict and rank hits; see grade.h. Refuses to guess: what the numbers leave open is a miss. */
#include "table/grade.h"

#include <math.h>

bool wane__grade_strict(const struct wane__candidate *stored, int stored_count,
                        const struct wane__candidate *current, int current_count, float tolerance) {
    if (stored_count < 1 || current_count < stored_count) return false;
    for (int i = 0; i < stored_count; i++) {
        /* Written so that NaN, and an infinity on both sides, fail. */
        if (stored[i].token != current[i].token || !(fabsf(stored[i].logit - current[i].logit) <= tolerance))
            return false;
    }
    return true;
}

/* Stored tokens that stand where the current ones do, from the best on. */
static int matching(const struct wane__candidate *stored, int stored_count,
                    const struct wane__candidate *current, int current_count) {
    int most = stored_count < current_count ? stored_count : current_count, n = 0;
    if (most > WANE__SLMT_DEPTH) most = WANE__SLMT_DEPTH;
    while (n < most && stored[n].token == current[n].token) n++;
    return n;
}

/* The fewest of the best tokens, five at most, that carry the share of a sum; 0: five do not. */
static int carriers(const struct wane__candidate *current, int count, double log_sum, double share) {
    double sum = 0;
    for (int n = 0; n < count && n < WANE__SLMT_DEPTH; n++) {
        sum += exp((double)current[n].logit - log_sum);
        if (sum >= share) return n + 1;
    }
    return 0; /* NaN ends here too */
}

bool wane__grade_rank(const struct wane__candidate *stored, int stored_count,
                      const struct wane__candidate *current, int current_count, double low, double high,
                      double share) {
    if (!isfinite(low) || !isfinite(high) || !(low <= high)) return false;
    int least = carriers(current, current_count, low, share),
        most = carriers(current, current_count, high, share);
    if (least == 0 || least != most) return false;
    return matching(stored, stored_count, current, current_count) >= most;
}

bool wane__grade_may_rank(const struct wane__candidate *stored, int stored_count,
                          const struct wane__candidate *current, int current_count, double share) {
    int same = matching(stored, stored_count, current, current_count);
    if (same == 0) return false;
    double sum = 0, matched = 0;
    for (int i = 0; i < current_count && i < WANE__SLMT_DEPTH; i++) {
        sum += exp((double)current[i].logit - (double)current[0].logit);
        if (i < same) matched = sum;
    }
    return matched >= share * sum; /* the whole sum is no smaller; false for NaN */
}

enum wane__grade wane__grade(const struct wane__candidate *stored, int stored_count,
                             const struct wane__candidate *current, int current_count, double low,
                             double high, const struct wane__grade_rule *rule) {
    if (wane__grade_strict(stored, stored_count, current, current_count, rule->tolerance))
        return WANE__GRADE_STRICT;
    if (wane__grade_rank(stored, stored_count, current, current_count, low, high, rule->share))
        return WANE__GRADE_RANK;
    return WANE__GRADE_MISS;
}
