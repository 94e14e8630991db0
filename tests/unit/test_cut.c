/*
 * test_cut.c - what a prefix decides is what the whole list decides, for bounds of all widths; and it does decide.
 */
#include "core/rng.h"
#include "sample/cut.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MOST = 400 };

static uint64_t state = 1;

static double unit(void) {
    return wane__random_unit(23, state++);
}

static int below(int limit) {
    return (int)(unit() * limit);
}

static int best_first(const void *left, const void *right) {
    const struct wane__candidate *a = left, *b = right;
    return a->logit > b->logit ? -1 : a->logit < b->logit;
}

static void fill(struct wane__candidate *list, int count, double spread) {
    for (int i = 0; i < count; i++)
        list[i] = (struct wane__candidate){i, (float)(spread * (unit() + unit() - 1))};
    if (below(3) == 0) list[0].logit += 8;
    qsort(list, (size_t)count, sizeof *list, best_first);
}

static double weigh(const struct wane__candidate *list, int i, double scale) {
    return exp(((double)list[i].logit - (double)list[0].logit) * scale);
}

static double sum_of(const struct wane__candidate *list, int count, double scale) {
    double sum = 0;
    for (int i = 0; i < count; i++) sum += weigh(list, i, scale);
    return sum;
}

/* The whole list's draw. `support` is what the cuts leave; false when a border is too close to call in doubles. */
static bool draw(const struct wane__cut *cut, const struct wane__candidate *list, int count, int *chosen,
                 int *support) {
    int end = cut->top_k > 0 && cut->top_k < count ? cut->top_k : count;
    double mass = sum_of(list, end, 1), sum = 0;
    if (cut->top_p < 1)
        for (int i = 0; i < end; i++) {
            sum += weigh(list, i, 1);
            if (fabs(sum / mass - cut->top_p) < 1e-9) return false;
            if (sum >= cut->top_p * mass) end = i + 1;
        }
    while (end > 1 && list[end - 1].logit < cut->lowest) end--;
    *support = end;
    mass = sum_of(list, end, cut->scale);
    sum = 0;
    for (*chosen = 0; *chosen < end - 1; ++*chosen) {
        sum += weigh(list, *chosen, cut->scale);
        if (fabs(sum / mass - cut->u) < 1e-8) return false;
        if (sum > cut->u * mass) break;
    }
    return true;
}

static struct wane__cut draw_cut(const struct wane__candidate *list, int count) {
    static const double shares[] = {1, 1, 0.3, 0.9, 0.95, 0.999}, scales[] = {0.3, 0.8, 1, 1, 1.25, 4};
    double width = below(3) == 0 ? 0 : pow(10, -4 * unit()), a = width * unit(), b = width * unit();
    struct wane__cut cut = {.top_k = below(2) ? 1 + below(count) : 0,
                            .top_p = shares[below(6)],
                            .lowest = -INFINITY,
                            .scale = scales[below(6)],
                            .u = unit(),
                            .whole = {0, INFINITY},
                            .scaled = {0, INFINITY}};
    if (below(3) == 0) cut.lowest = list[0].logit - (float)(3 * unit());
    cut.open = cut.top_k == 0 && !(cut.top_p < 1) && isinf(cut.lowest);
    if (below(4) > 0) {
        double whole = sum_of(list, count, 1), scaled = sum_of(list, count, cut.scale);
        cut.whole = (struct wane__mass){whole * (1 - a), whole * (1 + b)};
        cut.scaled = (struct wane__mass){scaled * (1 - b), scaled * (1 + a)};
    }
    return cut;
}

static void test_prefix_decides_as_the_whole(void **unused) {
    static struct wane__candidate list[MOST];
    int decided = 0, asked = 0;
    (void)unused;
    for (int round = 0; round < 60000; round++) {
        int count = 2 + below(MOST - 2), chosen, support, expected, all;
        fill(list, count, 12 * unit());
        struct wane__cut cut = draw_cut(list, count);
        if (!draw(&cut, list, count, &expected, &all)) continue;
        int prefix = 1 + below(below(2) ? 8 : count);
        if (prefix > count) prefix = count;
        asked++;
        if (!wane__cut_decides(&cut, list, prefix, &chosen, &support)) continue;
        decided++;
        assert_int_equal(chosen, expected);
        assert_true(support > chosen && support <= all);
    }
    print_message("%d of %d decided\n", decided, asked);
    assert_true(decided > asked / 4);
}

/* What any prefix must decide: a token with nearly all the mass, and nothing that is known of the rest but its last logit. */
static void test_one_wins(void **unused) {
    struct wane__candidate list[4] = {{7, 30}, {3, 2}, {5, 1}, {9, 0}};
    struct wane__cut cut = {.top_k = 40, .top_p = 0.95, .lowest = -INFINITY, .scale = 1.25, .u = 0.999};
    int chosen, support;
    (void)unused;
    cut.whole = cut.scaled = (struct wane__mass){0, INFINITY};
    assert_true(wane__cut_decides(&cut, list, 2, &chosen, &support));
    assert_int_equal(chosen, 0);
    cut.top_k = 0; /* then the rest may be anything */
    assert_false(wane__cut_decides(&cut, list, 4, &chosen, &support));
    cut.whole.high = 1.04;
    assert_true(wane__cut_decides(&cut, list, 4, &chosen, &support));
    cut.whole.high = 1.06;
    cut.scale = 1;
    cut.u = 0.99999;
    assert_false(wane__cut_decides(&cut, list, 4, &chosen, &support));
    assert_false(wane__cut_decides(&cut, list, 0, &chosen, &support));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefix_decides_as_the_whole),
        cmocka_unit_test(test_one_wins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
