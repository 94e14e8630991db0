/* test_quantiles.c - quantiles of times: against a sorted list, across windows, and with what is no time. */
#include "core/quantiles.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Over seven powers of ten: never below the true quantile, at most an eighth above. */
static void test_close_to_the_true_ones(void **state) {
    (void)state;
    static struct wane__quantiles q;
    static double times[5000];
    memset(&q, 0, sizeof q);
    uint64_t seed = 1;
    for (int i = 0; i < 5000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        times[i] = pow(10, -6 + 7 * (double)(seed >> 11) / 9007199254740992.0);
        wane__quantiles_add(&q, 1000, times[i]);
    }
    qsort(times, 5000, sizeof *times, ascending);
    for (double share = 0.01; share < 1; share += 0.01) {
        double truth = times[(int)ceil(share * 5000 - 1e-6) - 1],
               found = wane__quantiles_get(&q, 1000, share);
        assert_true(found >= truth && found <= truth * 1.125 * (1 + 1e-12));
    }
    assert_int_equal(atomic_load(&q.count), 5000);
}

/* Five to ten minutes are remembered; what is older is gone, whether or not something came since. Reading changes nothing. */
static void test_windows(void **state) {
    (void)state;
    static struct wane__quantiles q;
    memset(&q, 0, sizeof q);
    assert_true(wane__quantiles_get(&q, 0, 0.5) == 0);
    wane__quantiles_add(&q, 10, 1);
    assert_true(wane__quantiles_get(&q, 10, 0.99) >= 1);
    assert_true(wane__quantiles_get(&q, 599, 0.99) >= 1);
    assert_true(wane__quantiles_get(&q, 601, 0.99) == 0);
    assert_true(wane__quantiles_get(&q, 599, 0.99) >= 1);
    wane__quantiles_add(&q, 310, 0.001);
    assert_true(wane__quantiles_get(&q, 310, 0.99) >= 1);
    wane__quantiles_add(&q, 610, 0.001); /* takes the first one's place */
    assert_true(wane__quantiles_get(&q, 610, 0.99) < 0.01);
    wane__quantiles_add(&q, 1e6, 0.001);
    assert_int_equal(atomic_load(&q.count), 4);
    assert_int_equal(atomic_load(&q.nanoseconds), 1003000000);
}

static void test_what_is_no_time(void **state) {
    (void)state;
    static struct wane__quantiles q;
    memset(&q, 0, sizeof q);
    wane__quantiles_add(&q, 1, -1);
    wane__quantiles_add(&q, 1, (double)NAN);
    wane__quantiles_add(&q, 1, (double)INFINITY);
    wane__quantiles_add(&q, (double)NAN, 1);
    assert_int_equal(atomic_load(&q.count), 0);
    wane__quantiles_add(&q, 1, 0);
    wane__quantiles_add(&q, 1, 1e-30);
    assert_true(wane__quantiles_get(&q, 1, 1) < 1e-7);
    wane__quantiles_add(&q, 1, 1e9); /* beyond the last step: in it */
    assert_true(isfinite(wane__quantiles_get(&q, 1, 1)) && wane__quantiles_get(&q, 1, 1) >= 64);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_close_to_the_true_ones),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_what_is_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
