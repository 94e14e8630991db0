/* test_grade.c - strict and rank hits over everything that can stand on either side of their lines. */
#include "table/grade.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

static const struct wane__candidate five[5] = {{10, 8}, {11, 7}, {12, 6}, {13, 5}, {14, 4}};

static bool strict(const struct wane__candidate *stored, int count, const struct wane__candidate *current,
                   int others) {
    return wane__grade_strict(stored, count, current, others, WANE__GRADE_TOLERANCE);
}

static void test_strict(void **unused) {
    (void)unused;
    struct wane__candidate now[6];
    memcpy(now, five, sizeof five);
    now[5] = (struct wane__candidate){15, 3};
    assert_true(strict(five, 5, now, 5) && strict(five, 5, now, 6));
    assert_true(strict(five, 3, now, 6)); /* a table of depth 3 */
    assert_false(strict(five, 5, now, 4));
    assert_false(strict(five, 0, now, 5));
    assert_false(strict(five, 5, now, 0));
    for (int i = 0; i < 5; i++) {
        float kept = now[i].logit;
        now[i].logit = kept + 0.9e-4f;
        assert_true(strict(five, 5, now, 5));
        now[i].logit = kept - 1.5e-4f;
        assert_false(strict(five, 5, now, 5));
        now[i].logit = NAN;
        assert_false(strict(five, 5, now, 5));
        assert_false(strict(now, 5, five, 5));
        assert_false(strict(now, 5, now, 5));
        now[i].logit = INFINITY;
        assert_false(strict(now, 5, now, 5)); /* an overflow is no agreement */
        now[i].logit = kept;
        now[i].token += 100;
        assert_false(strict(five, 5, now, 5));
        now[i].token -= 100;
    }
    /* A tie the other way round: the logits agree, but another token is the best one. */
    const struct wane__candidate a[2] = {{1, 5}, {2, 5}}, b[2] = {{2, 5}, {1, 5}};
    assert_true(strict(a, 2, a, 2));
    assert_false(strict(a, 2, b, 2));
}

static double log_of(const struct wane__candidate *c, int count, double rest) {
    double sum = 0;
    for (int i = 0; i < count; i++) sum += exp((double)c[i].logit);
    return log(sum / (1 - rest));
}

static bool rank(const struct wane__candidate *stored, int count, const struct wane__candidate *now,
                 int others, double low, double high) {
    return wane__grade_rank(stored, count, now, others, low, high, WANE__GRADE_SHARE);
}

/* For each number of tokens that the share may take, each length of agreement and each length of the stored list. */
static void test_rank_counts(void **unused) {
    (void)unused;
    for (int carry = 1; carry <= 5; carry++) {
        struct wane__candidate now[5], stored[5];
        for (int i = 0; i < 5; i++)
            now[i] = (struct wane__candidate){20 + i, (float)(i < carry ? 10 : -10) - 0.001f * (float)i};
        double sum = log_of(now, 5, 0.001);
        for (int same = 0; same <= 5; same++)
            for (int length = 0; length <= 5; length++) {
                for (int i = 0; i < 5; i++)
                    stored[i] = (struct wane__candidate){i < same ? now[i].token : 90 + i, 1.0f - (float)i};
                bool hit = same >= carry && length >= carry;
                assert_true(rank(stored, length, now, 5, sum, sum) == hit);
                if (hit) assert_true(wane__grade_may_rank(stored, length, now, 5, WANE__GRADE_SHARE));
                if (same == 0 || length == 0)
                    assert_false(wane__grade_may_rank(stored, length, now, 5, WANE__GRADE_SHARE));
            }
        /* The same tokens, two of them swapped within what carries the share. */
        if (carry < 2) continue;
        memcpy(stored, now, sizeof now);
        stored[0] = now[1];
        stored[1] = now[0];
        assert_false(rank(stored, 5, now, 5, sum, sum));
    }
}

static void test_rank_never_without_the_share(void **unused) {
    (void)unused;
    assert_true(rank(five, 5, five, 5, log_of(five, 5, 0.04), log_of(five, 5, 0.04)));
    assert_false(rank(five, 5, five, 5, log_of(five, 5, 0.06), log_of(five, 5, 0.06)));
    assert_false(rank(five, 5, five, 5, 1e9, 1e9));
    assert_false(rank(five, 5, five, 0, 0, 0));
    /* Fewer than five are all there are: a vocabulary of two. */
    assert_true(rank(five, 5, five, 2, log_of(five, 2, 0), log_of(five, 2, 0)));
    assert_false(rank(five, 1, five, 2, log_of(five, 2, 0), log_of(five, 2, 0)));
}

/* Bounds between which the number of tokens changes leave it open; bounds between which it does not are fine. */
static void test_rank_bounds(void **unused) {
    (void)unused;
    const struct wane__candidate now[3] = {{1, 5}, {2, 2}, {3, -3}};
    double one = exp(5.0), share = WANE__GRADE_SHARE, border = log(one / share);
    assert_true(rank(now, 3, now, 3, border - 0.01, border - 0.001));  /* one token carries it  */
    assert_false(rank(now, 3, now, 3, border - 0.01, border + 0.01));  /* one, or two           */
    assert_true(rank(now, 3, now, 3, border + 0.001, border + 0.01));  /* two                   */
    assert_false(rank(now, 1, now, 3, border + 0.001, border + 0.01)); /* of which one is known */
    assert_true(rank(now, 1, now, 3, border - 0.01, border - 0.001));
    assert_false(rank(now, 3, now, 3, border - 0.001, border - 0.01)); /* no interval */
    static const double none[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        assert_false(rank(now, 3, now, 3, none[i], border));
        assert_false(rank(now, 3, now, 3, border - 0.01, none[i]));
        assert_false(rank(now, 3, now, 3, none[i], none[i]));
    }
    for (int i = 0; i < 3; i++) {
        struct wane__candidate bad[3];
        memcpy(bad, now, sizeof now);
        bad[i].logit = NAN;
        /* NaN before the share is reached is a miss; behind it, it is never looked at. */
        assert_true(rank(now, 3, bad, 3, border + 0.001, border + 0.01) == (i == 2));
        if (i == 0) assert_false(wane__grade_may_rank(now, 3, bad, 3, share));
    }
}

/* Equal logits have one order, by id: a stored list in that order is a hit, the other way round it is not. */
static void test_rank_ties(void **unused) {
    (void)unused;
    const struct wane__candidate now[2] = {{3, 4}, {8, 4}}, other[2] = {{8, 4}, {3, 4}};
    double sum = log_of(now, 2, 0.01);
    assert_true(rank(now, 2, now, 2, sum, sum));
    assert_false(rank(other, 2, now, 2, sum, sum));
}

static void test_grades(void **unused) {
    (void)unused;
    const struct wane__grade_rule rule = {WANE__GRADE_TOLERANCE, WANE__GRADE_SHARE};
    struct wane__candidate moved[5];
    double sum = log_of(five, 5, 0.01), far = log_of(five, 5, 0.5);
    memcpy(moved, five, sizeof five);
    for (int i = 0; i < 5; i++) moved[i].logit += 1;
    assert_int_equal(wane__grade(five, 5, five, 5, sum, sum, &rule), WANE__GRADE_STRICT);
    assert_int_equal(wane__grade(five, 5, five, 5, far, far, &rule), WANE__GRADE_STRICT);
    assert_int_equal(wane__grade(moved, 5, five, 5, sum, sum, &rule), WANE__GRADE_RANK);
    assert_int_equal(wane__grade(moved, 5, five, 5, far, far, &rule), WANE__GRADE_MISS);
    assert_int_equal(wane__grade(moved, 5, five, 5, sum - 1, sum + 1, &rule), WANE__GRADE_MISS);
    const struct wane__grade_rule loose = {2, 0.1};
    assert_int_equal(wane__grade(moved, 5, five, 5, far, far, &loose), WANE__GRADE_STRICT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strict),      cmocka_unit_test(test_rank_counts),
        cmocka_unit_test(test_rank_bounds), cmocka_unit_test(test_rank_never_without_the_share),
        cmocka_unit_test(test_rank_ties),   cmocka_unit_test(test_grades),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
