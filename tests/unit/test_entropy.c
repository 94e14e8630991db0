/*
 * test_entropy.c - the entropy and the margin of a row: of a dense row as the formula has it, of a certified one between its bounds, and
 * near; no row costs a dense product for it.
 */
#include "unit/head_rig.h"

#include "head/head.h"
#include "sample/entropy.h"

static double entropy_of(const float *logits, int count) {
    double best = -INFINITY, sum = 0, mean = 0;
    for (int i = 0; i < count; i++) best = fmax(best, (double)logits[i]);
    for (int i = 0; i < count; i++) sum += exp((double)logits[i] - best);
    for (int i = 0; i < count; i++) {
        double x = (double)logits[i] - best;
        if (x > -700) mean += x * exp(x) / sum;
    }
    return log(sum) - mean;
}

static void expect_dense(const float *logits, int count) {
    struct wane__dense_source dense;
    struct wane__entropy e;
    double expected = entropy_of(logits, count);
    wane__dense_source_init(&dense, logits, count);
    assert_int_equal(wane__source_entropy(&dense.source, &e), WANE_OK);
    if (!(fabs(e.value - expected) < 1e-5 * (1 + expected)))
        fail_msg("%.9g, not %.9g, of %d tokens", e.value, expected, count);
    assert_true(e.low == e.value && e.high == e.value);
    float first = -INFINITY, second = -INFINITY;
    for (int i = 0; i < count; i++) {
        if (logits[i] > first)
            second = first, first = logits[i];
        else if (logits[i] > second)
            second = logits[i];
    }
    if (count > 1) assert_true(e.margin == (double)first - (double)second);
}

static void test_dense(void **unused) {
    (void)unused;
    static float logits[50000];
    const int sizes[] = {1, 2, 3, 15, 16, 17, 18, 100, 5000, 50000};
    for (int round = 0; round < 8; round++) {
        for (int s = 0; s < 10; s++) {
            float width = (float[]){0, 0.1f, 1, 3, 8, 40, 1000, 2}[round];
            for (int i = 0; i < sizes[s]; i++) logits[i] = width * gaussian() + 7;
            if (round == 7)
                for (int i = 1; i < sizes[s]; i += 2) logits[i] = -INFINITY; /* forbidden by the model */
            expect_dense(logits, sizes[s]);
        }
    }
    for (int i = 0; i < 64; i++) logits[i] = 2; /* flat: the logarithm of its size */
    expect_dense(logits, 64);
}

static void test_refused(void **unused) {
    (void)unused;
    float logits[40];
    struct wane__dense_source dense;
    struct wane__entropy e;
    for (int kind = 0; kind < 3; kind++) {
        for (int i = 0; i < 40; i++) logits[i] = kind == 2 ? -INFINITY : 1;
        if (kind < 2) logits[7] = kind == 0 ? NAN : INFINITY;
        wane__dense_source_init(&dense, logits, 40);
        assert_int_equal(wane__source_entropy(&dense.source, &e), WANE_EENGINE);
    }
}

/* Over rows of every temper: the truth is between the bounds, the value is near it, and nothing is computed densely. */
static void test_certified(void **unused) {
    (void)unused;
    enum { VOCAB = 6000, WIDTH = 128 };
    struct rig rig;
    struct wane__head *head = NULL;
    wane_error error = {0};
    double worst = 0;
    rig_init(&rig, VOCAB, WIDTH);
    for (int i = 0; i < VOCAB * WIDTH; i++) rig.w[i] = gaussian();
    if (wane__sketch_build(rig.path, &rig.weights, NULL, "entropy", 1, NULL, NULL, &error) != WANE_OK)
        fail_msg("%s", error.text);
    assert_int_equal(wane__head_open(rig.path, &rig.weights, "entropy", 6, 1, 1, &head, &error), WANE_OK);
    for (int round = 0; round < (SANITIZED ? 10 : 60); round++) {
        struct wane__entropy e;
        float scale = 0.05f + 0.9f * (float)unit() * (float)unit();
        for (int i = 0; i < WIDTH; i++) rig.hidden[i] = scale * gaussian();
        rig_set_hidden(&rig);
        assert_int_equal(wane__head_scan(head, rig.hidden, 1), WANE_OK);
        struct wane__source *source = wane__head_source(head, 0);
        assert_int_equal(wane__source_entropy(source, &e), WANE_OK);
        double truth = entropy_of(rig.logits, VOCAB);
        if (!(e.low <= truth && truth <= e.high))
            fail_msg("round %d: %.6g is not in %.6g … %.6g", round, truth, e.low, e.high);
        assert_true(e.low <= e.value && e.value <= e.high);
        worst = fmax(worst, fabs(e.value - truth));
        if (getenv("WANE_TEST_VERBOSE") != NULL)
            printf("%.3f: %.4f, %.4f in %.4f .. %.4f\n", (double)scale, truth, e.value, e.low, e.high);
        /* Asking again says the same, and the best tokens are what they are. */
        struct wane__candidate best[2];
        int found;
        assert_int_equal(source->best(source, 2, NULL, 0, best, &found), WANE_OK);
        assert_true(e.margin == (double)best[0].logit - (double)best[1].logit);
    }
    struct wane__head_counts counts;
    wane__head_get_counts(head, &counts);
    assert_int_equal(counts.dense_sum, 0);
    if (!(worst < 0.3))
        fail_msg("off by %.3g nats", worst); /* 128 weights a row leave a sketch much to guess */
    wane__head_free(head);
    rig_free(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_certified),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
