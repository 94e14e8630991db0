/*
 * test_head_sample.c - draws from the certified head are the dense head's draws, token by token, for settings of
 * all kinds; and the normaliser lies between its bounds.
 */
#include "unit/head_rig.h"

#include "sample/order.h"

static void fill_head(struct rig *rig, int kind) {
    size_t d = (size_t)rig->d;
    for (int32_t id = 0; id < rig->vocab; id++) {
        float *row = rig->w + (size_t)id * d, size = kind == 1 ? 0.02f : kind == 2 ? 6 : 2.5f;
        for (size_t i = 0; i < d; i++) row[i] = size * gaussian() / sqrtf((float)d);
        if (kind == 3 && id >= 300) /* families: rows that resemble each other, and so do their errors */
            for (size_t i = 0; i < d; i++) row[i] = 0.9f * rig->w[(size_t)(id % 300) * d + i] + 0.3f * row[i];
    }
}

static void fill_settings(wane_sampling *s, int vocab, wane_bias *bias) {
    static const float top_p[] = {1, 1, 1, 0.5f, 0.9f, 0.95f, 0.99f};
    static const float temperature[] = {0, 0.3f, 0.7f, 1, 1, 1.3f, 3};
    wane__sampling_defaults(s);
    s->top_k = below(3) == 0 ? 40 : 0;
    s->top_p = top_p[below(7)];
    s->min_p = below(3) == 0 ? 0.02f : 0;
    s->temperature = temperature[below(7)];
    s->seeded = true;
    s->seed = rig_state;
    if (below(2)) {
        s->repeat_penalty = 1 + (float)unit();
        s->frequency_penalty = (float)unit();
        s->penalty_window = below(80);
    }
    if (below(2)) {
        s->bias_count = 5;
        for (int i = 0; i < 5; i++)
            bias[i] =
                (wane_bias){(vocab / 5) * i + below(vocab / 5), below(4) == 0 ? -INFINITY : 3 * gaussian()};
        s->bias = bias;
    }
}

/* The token that two sources give for the same settings and context. */
static void compare_draws(struct rig *rig, struct wane__head *head, const wane_sampling *s) {
    struct wane__sampler *sampler;
    struct wane__choice choice;
    struct wane__dense_source dense;
    wane_error error = {0};
    int32_t token;
    assert_int_equal(wane__sampler_new(s, rig->vocab, &sampler, &error), WANE_OK);
    for (int i = 0; i < 60; i++) wane__sampler_accept(sampler, below(rig->vocab));
    wane__dense_source_init(&dense, rig->logits, rig->vocab);
    for (uint64_t index = 0; index < 4; index++) {
        assert_int_equal(wane__sampler_draw(sampler, &dense.source, index, &choice, &error), WANE_OK);
        token = choice.token;
        int support = choice.complete ? choice.candidate_count : 0;
        assert_int_equal(wane__head_scan(head, rig->hidden, 1), WANE_OK);
        wane__step_enter();
        int status = wane__sampler_draw(sampler, wane__head_source(head, 0), index, &choice, &error);
        wane__step_leave();
        if (status != WANE_OK) fail_msg("%s", error.text);
        assert_int_equal(choice.token, token);
        if (support > 0 && choice.complete) assert_int_equal(choice.candidate_count, support);
        wane__sampler_accept(sampler, token);
    }
    wane__sampler_free(sampler);
}

static void test_draws_equal_the_dense_ones(void **unused) {
    struct wane__head_counts counts;
    (void)unused;
    for (int kind = 0; kind < 4; kind++) {
        struct rig rig;
        wane_sampling s;
        wane_bias bias[5];
        rig_init(&rig, SANITIZED ? 3000 : 12000, 128);
        fill_head(&rig, kind);
        rig_learn(&rig, 600);
        rig_build(&rig, 2);
        struct wane__head *head = rig_open(&rig, 6, 2, 1);
        for (int round = 0; round < (SANITIZED ? 8 : 120); round++) {
            rig_draw_hidden(&rig, rig.hidden);
            rig_set_hidden(&rig);
            fill_settings(&s, rig.vocab, bias);
            compare_draws(&rig, head, &s);
        }
        wane__head_get_counts(head, &counts);
        print_message("kind %d: %llu rows, %llu dense for many, %llu dense for a sum\n", kind,
                      (unsigned long long)counts.rows, (unsigned long long)counts.dense_many,
                      (unsigned long long)counts.dense_sum);
        wane__head_free(head);
        rig_free(&rig);
    }
}

static void check_bounds(struct rig *rig, struct wane__head *head, float scale, double *widest) {
    struct wane__candidate best[64];
    struct wane__dense_source dense;
    double exact, low, high;
    int found;
    wane__dense_source_init(&dense, rig->logits, rig->vocab);
    assert_int_equal(dense.source.log_sum(&dense.source, scale, NULL, 0, &exact), WANE_OK);
    assert_int_equal(wane__head_scan(head, rig->hidden, 1), WANE_OK);
    struct wane__source *source = wane__head_source(head, 0);
    if (below(4)) assert_int_equal(source->best(source, 1 + below(64), NULL, 0, best, &found), WANE_OK);
    assert_int_equal(source->log_sum_bounds(source, scale, NULL, 0, false, &low, &high), WANE_OK);
    assert_true(low <= exact && exact <= high);
    assert_int_equal(source->log_sum_bounds(source, scale, NULL, 0, true, &low, &high), WANE_OK);
    assert_true(low <= exact && exact <= high);
    if (high - low > *widest) *widest = high - low;
}

static void test_sums_lie_between_bounds(void **unused) {
    static const float scales[] = {0.2f, 0.5f, 1, 1, 1.4f, 3, 20};
    (void)unused;
    for (int kind = 0; kind < 4; kind++)
        for (int learned = 0; learned < 2; learned++) {
            struct rig rig;
            double widest[7] = {0};
            rig_init(&rig, SANITIZED ? 2000 : 8000, 320);
            fill_head(&rig, kind);
            if (learned) rig_learn(&rig, SANITIZED ? 330 : 800);
            rig_build(&rig, 2);
            struct wane__head *head = rig_open(&rig, 6, 1, 1);
            for (int round = 0; round < (SANITIZED ? 3 : 40); round++) {
                rig_draw_hidden(&rig, rig.hidden);
                rig_set_hidden(&rig);
                for (int i = 0; i < 7; i++) check_bounds(&rig, head, scales[i], &widest[i]);
            }
            print_message("kind %d, %s: widest at scale 1: %.3f\n", kind, learned ? "learned" : "plain",
                          widest[3]);
            wane__head_free(head);
            rig_free(&rig);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draws_equal_the_dense_ones),
        cmocka_unit_test(test_sums_lie_between_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
