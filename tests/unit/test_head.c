/*
 * test_head.c - the certified head against brute force: the same candidates, ties and all, for heads and rows
 * of every nasty kind; fetch, sums, counts, NaN; nothing is allocated in a question.
 */
#include "unit/head_rig.h"

enum { KINDS = 9 };

static void fill_head(struct rig *rig, int kind) {
    size_t d = (size_t)rig->d;
    for (int32_t id = 0; id < rig->vocab; id++) {
        float *row = rig->w + (size_t)id * d, size = 1;
        if (kind == 1) size = below(100) == 0 ? 0 : 1; /* zero rows */
        if (kind == 2) size = id % 97 == 0 ? 1000 : 1; /* huge ones */
        if (kind == 3) size = 1e-4f;                   /* near-flat logits */
        if (kind == 4) size = expf(2 * gaussian());    /* lengths of all kinds */
        for (size_t i = 0; i < d; i++) {
            row[i] = size * gaussian() / sqrtf((float)d);
            if (kind == 5 && id > 0) row[i] = rig->w[(size_t)below(id < 50 ? id : 50) * d + i]; /* mixed up */
            if (kind == 8) row[i] = i == (size_t)id % d ? size : 0; /* one number each: ties */
        }
        if (kind == 6 && id >= 20)
            memcpy(row, rig->w + (size_t)(id % 20) * d, d * sizeof *row); /* duplicates */
        if (kind == 7) memset(row, 0, d * sizeof *row);
    }
}

static void compare_best(struct rig *rig, struct wane__source *source, int count, const int32_t *skip,
                         int skips) {
    struct wane__candidate *got = malloc(((size_t)count + 1) * sizeof *got),
                           *expected = malloc(((size_t)count + 1) * sizeof *expected);
    struct wane__dense_source dense;
    int found, wanted;
    wane__dense_source_init(&dense, rig->logits, rig->vocab);
    assert_int_equal(dense.source.best(&dense.source, count, skip, skips, expected, &wanted), WANE_OK);
    wane__step_enter();
    int status = source->best(source, count, skip, skips, got, &found);
    wane__step_leave();
    assert_int_equal(status, WANE_OK);
    assert_int_equal(found, wanted);
    for (int i = 0; i < found; i++) {
        assert_int_equal(got[i].token, expected[i].token);
        assert_true(got[i].logit == expected[i].logit);
    }
    free(got);
    free(expected);
}

static int draw_skips(const struct rig *rig, int32_t *skip) {
    int skips = 0, most = below(3) == 0 ? 0 : below(30);
    for (int32_t id = below(5); id < rig->vocab && skips < most; id += 1 + below(below(2) ? 5 : rig->vocab))
        skip[skips++] = id;
    /* The best ones too: those matter. */
    if (skips > 0 && below(2)) {
        int32_t best = 0;
        for (int32_t id = 1; id < rig->vocab; id++)
            if (rig->logits[id] > rig->logits[best]) best = id;
        int at = 0;
        while (at < skips && skip[at] < best) at++;
        if (at == skips || skip[at] != best) {
            memmove(skip + at + 1, skip + at, (size_t)(skips - at) * sizeof *skip);
            skip[at] = best;
            skips++;
        }
    }
    return skips;
}

static void question(struct rig *rig, struct wane__head *head) {
    static const int counts[] = {1, 1, 2, 40, 64, 65, 256, 1000};
    int32_t skip[40];
    rig_draw_hidden(rig, rig->hidden);
    rig_set_hidden(rig);
    wane__step_enter();
    assert_int_equal(wane__head_scan(head, rig->hidden, 1), WANE_OK);
    wane__step_leave();
    struct wane__source *source = wane__head_source(head, 0);
    for (int i = 0; i < 5; i++) {
        int skips = draw_skips(rig, skip), count = counts[below(8)];
        compare_best(rig, source, count < rig->vocab ? count : rig->vocab, skip, skips);
        int32_t ids[3] = {below(rig->vocab), below(rig->vocab), 0};
        float logits[3];
        ids[2] = ids[0];
        assert_int_equal(source->fetch(source, ids, 3, logits), WANE_OK);
        for (int j = 0; j < 3; j++) assert_true(logits[j] == rig->logits[ids[j]]);
        if (i == 3 && below(4) == 0) { /* after a sum everything is known; questions go on */
            struct wane__dense_source dense;
            double sum, expected;
            wane__dense_source_init(&dense, rig->logits, rig->vocab);
            assert_int_equal(dense.source.log_sum(&dense.source, 1, skip, skips, &expected), WANE_OK);
            assert_int_equal(source->log_sum(source, 1, skip, skips, &sum), WANE_OK);
            assert_true(sum == expected || fabs(sum - expected) < 1e-12 * fabs(expected));
        }
    }
}

static void test_against_brute_force(void **unused) {
    static const struct {
        int vocab, d;
    } sizes[] = {{1, 1}, {5, 3}, {31, 64}, {33, 100}, {1000, 70}, {4097, 300}, {20000, 320}};
    (void)unused;
    for (int kind = 0; kind < KINDS; kind++)
        for (int size = 0; size < (EMULATED ? 4 : SANITIZED ? 5 : 7); size++)
            for (int learned = 0; learned < 2; learned++) {
                struct rig rig;
                rig_init(&rig, sizes[size].vocab, sizes[size].d);
                fill_head(&rig, kind);
                if (learned) rig_learn(&rig, size < 6 ? 400 : 800);
                rig_build(&rig, 2);
                struct wane__head *head = rig_open(&rig, 6, 1 + size % 3, 1);
                for (int i = 0; i < (size == 6 ? 6 : 20); i++) question(&rig, head);
                wane__head_free(head);
                rig_free(&rig);
            }
}

/* It must be a shortcut, not only right. */
static void test_survivors_are_few(void **unused) {
    struct rig rig;
    (void)unused;
    rig_init(&rig, SANITIZED ? 8000 : 30000, 256);
    fill_head(&rig, 0);
    rig_learn(&rig, SANITIZED ? 600 : 2000);
    rig_build(&rig, 2);
    struct wane__head *head = rig_open(&rig, 6, 2, 1);
    atomic_store(&rig.rescored, 0);
    for (int i = 0; i < 50; i++) {
        rig_draw_hidden(&rig, rig.hidden);
        for (int j = 0; j < rig.d; j++) rig.hidden[j] += 4 * rig.w[(size_t)(77 * i) * 256 + (size_t)j];
        rig_set_hidden(&rig);
        assert_int_equal(wane__head_scan(head, rig.hidden, 1), WANE_OK);
        compare_best(&rig, wane__head_source(head, 0), 1, NULL, 0);
    }
    struct wane__head_counts counts;
    wane__head_get_counts(head, &counts);
    assert_int_equal(counts.rows, 50);
    assert_int_equal(counts.questions, 50);
    assert_int_equal(counts.dense_many + counts.dense_sum, 0);
    assert_true(atomic_load(&rig.rescored) < 50 * 1000);
    assert_int_equal(atomic_load(&rig.rescored), (long)counts.rescored);
    wane__head_free(head);
    rig_free(&rig);
}

/* Several rows in one scan answer as one each. */
static void test_many_rows(void **unused) {
    enum { ROWS = 7 };
    struct rig rig;
    (void)unused;
    rig_init(&rig, 3000, 200);
    fill_head(&rig, 0);
    rig_learn(&rig, 500);
    rig_build(&rig, 1);
    struct wane__head *head = rig_open(&rig, 6, 2, ROWS);
    float *hidden = malloc(ROWS * 200 * sizeof *hidden);
    for (int r = 0; r < ROWS; r++) rig_draw_hidden(&rig, hidden + 200 * r);
    for (int rows = 1; rows <= ROWS; rows += 3) {
        assert_int_equal(wane__head_scan(head, hidden, rows), WANE_OK);
        for (int r = rows - 1; r >= 0; r--) {
            memcpy(rig.hidden, hidden + 200 * r, 200 * sizeof *hidden);
            rig_set_hidden(&rig);
            compare_best(&rig, wane__head_source(head, r), 10, NULL, 0);
            const float *logits;
            assert_int_equal(wane__head_dense(head, r, &logits), WANE_OK);
            assert_memory_equal(logits, rig.logits, 3000 * sizeof *logits);
            compare_best(&rig, wane__head_source(head, r), 10, NULL, 0);
        }
        assert_null(wane__head_source(head, rows));
    }
    assert_int_equal(wane__head_scan(head, hidden, ROWS + 1), WANE_EINVAL);
    free(hidden);
    wane__head_free(head);
    rig_free(&rig);
}

static void test_nan_stays_visible(void **unused) {
    struct rig rig;
    struct wane__candidate best;
    int found;
    double sum;
    float logit;
    (void)unused;
    rig_init(&rig, 500, 64);
    fill_head(&rig, 0);
    rig_build(&rig, 1);
    struct wane__head *head = rig_open(&rig, 6, 1, 1);
    rig_draw_hidden(&rig, rig.hidden);
    rig.hidden[13] = NAN;
    assert_int_equal(wane__head_scan(head, rig.hidden, 1), WANE_OK);
    struct wane__source *source = wane__head_source(head, 0);
    assert_int_equal(source->best(source, 1, NULL, 0, &best, &found), WANE_EENGINE);
    assert_int_equal(source->fetch(source, &(int32_t){3}, 1, &logit), WANE_EENGINE);
    assert_int_equal(source->log_sum(source, 1, NULL, 0, &sum), WANE_EENGINE);
    wane__head_free(head);
    /* k = infinity is the dense head, and counted as such. */
    head = rig_open(&rig, INFINITY, 1, 1);
    rig.hidden[13] = 1;
    rig_set_hidden(&rig);
    assert_int_equal(wane__head_scan(head, rig.hidden, 1), WANE_OK);
    compare_best(&rig, wane__head_source(head, 0), 40, NULL, 0);
    struct wane__head_counts counts;
    wane__head_get_counts(head, &counts);
    assert_int_equal(counts.rescored, 500);
    wane__head_free(head);
    /* NaN among the weights: no sketch. */
    rig.w[700] = NAN;
    wane_error error;
    assert_int_equal(wane__sketch_build(rig.path, &rig.weights, NULL, "digest", 1, NULL, NULL, &error),
                     WANE_EINVAL);
    rig_free(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_brute_force),
        cmocka_unit_test(test_survivors_are_few),
        cmocka_unit_test(test_many_rows),
        cmocka_unit_test(test_nan_stays_visible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
