/*
 * grade.h - how well what a table stored fits what the model says now. Pure functions.
 *
 *     strict   the stored logits are the current ones, token by token, within a tolerance
 *     rank     the current tokens that carry a share of the probability, five at most, are the stored ones in the stored
 *              order: what a sampler that cuts the rest off draws from
 *     miss     anything else, and anything that is not certain
 */
#ifndef WANE_TABLE_GRADE_H
#define WANE_TABLE_GRADE_H

#include "table/slmt.h"

enum wane__grade { WANE__GRADE_MISS = 0, WANE__GRADE_RANK = 1, WANE__GRADE_STRICT = 2 };

struct wane__grade_rule {
    float tolerance; /* of a logit, for strict */
    double share;    /* of the probability, for rank */
};
#define WANE__GRADE_TOLERANCE 1e-4f
#define WANE__GRADE_SHARE     0.95

/* Both lists best first. Fewer current than stored candidates are no strict hit; NaN never is. */
bool wane__grade_strict(const struct wane__candidate *stored, int stored_count,
                        const struct wane__candidate *current, int current_count, float tolerance);
/*
 * `current`: the best of all tokens, at least five where there are as many, with exact logits; the logarithm of the sum of
 * all exponentials lies within low … high. False where the bounds leave open how many tokens carry the share.
 */
bool wane__grade_rank(const struct wane__candidate *stored, int stored_count,
                      const struct wane__candidate *current, int current_count, double low, double high,
                      double share);
/* Could a sum make it a rank hit? When not, none needs to be taken. */
bool wane__grade_may_rank(const struct wane__candidate *stored, int stored_count,
                          const struct wane__candidate *current, int current_count, double share);
enum wane__grade wane__grade(const struct wane__candidate *stored, int stored_count,
                             const struct wane__candidate *current, int current_count, double low,
                             double high, const struct wane__grade_rule *rule);

#endif
