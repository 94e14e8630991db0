/*
 * test_sample.c - the sampler against sampling in its plainest form (sample_reference.h): the same support
 * and the same token for the same random number, for thousands of settings and rows of every nasty kind; its
 * logprobs, its refusals, and its promise not to allocate in a step.
 */
#include "unit/sample_reference.h"

#include "core/memory.h"
#include "head/row.h"
#include "sample/cut.h"
#include "sample/exp.h"
#include "sample/order.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static uint64_t state = 1;

static double unit(void) {
    return wane__random_unit(7, state++);
}

static int below(int limit) {
    return (int)(unit() * limit);
}

static float gaussian(void) {
    double u = unit() + 0x1p-54;
    return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * unit()));
}

static float pick(const float *values, int count) {
    return values[below(count)];
}

enum { KINDS = 8 };

static void fill_row(float *row, int vocab, int kind) {
    for (int i = 0; i < vocab; i++) {
        switch (kind) {
        case 0: row[i] = 3 * gaussian(); break;
        case 1: row[i] = (float)below(6) - 3; break;                          /* ties everywhere */
        case 2: row[i] = 1.5f; break;                                         /* flat            */
        case 3: row[i] = 1e-4f * gaussian(); break;                           /* near flat       */
        case 4: row[i] = gaussian() + (below(50) == 0 ? 15.0f : 0.0f); break; /* spikes          */
        case 5: row[i] = below(3) == 0 ? -INFINITY : gaussian(); break;
        case 6: row[i] = below(2) == 0 ? 0.0f : -0.0f; break; /* equal zeros     */
        default: row[i] = 30 * gaussian(); break;             /* one wins        */
        }
    }
}

static void fill_settings(wane_sampling *s, int vocab, wane_bias *bias) {
    static const float top_p[] = {0, 0.1f, 0.5f, 0.9f, 0.95f, 0.99f, 0.9999f, 1, 1, 1};
    static const float min_p[] = {0, 0, 0, 0.01f, 0.05f, 0.5f, 1};
    static const float temperature[] = {0, 1e-6f, 0.01f, 0.3f, 0.8f, 1, 1, 1.7f, 5, 100};
    static const int top_k[] = {0, 0, 0, 1, 2, 5, 40, 64, 65, 100, 1000, 100000};
    wane__sampling_defaults(s);
    s->temperature = pick(temperature, 10);
    s->top_k = top_k[below(12)];
    s->top_p = pick(top_p, 10);
    s->min_p = pick(min_p, 7);
    s->seeded = true;
    s->seed = state;
    if (below(2)) {
        s->repeat_penalty = 0.5f + (float)unit();
        s->presence_penalty = below(2) ? (float)unit() * 2 - 1 : 0;
        s->frequency_penalty = below(2) ? (float)unit() * 2 - 1 : 0;
        s->penalty_window = below(5) == 0 ? -1 : below(80);
    }
    if (below(2)) {
        s->bias_count = (size_t)below(12);
        for (size_t i = 0; i < s->bias_count; i++) {
            float value = below(4) == 0 ? -INFINITY : 4 * gaussian() + (below(6) == 0 ? 40.0f : 0.0f);
            bias[i] = (wane_bias){below(vocab), value};
            /* Named twice, a token gets the sum of both, which rounds otherwise than one after the other. */
            for (size_t j = 0; j < i; j++)
                if (bias[j].token == bias[i].token) bias[i].bias = 0;
        }
        s->bias = bias;
    }
}

/* The list must be the reference's, or its beginning. */
static void check_list(const struct wane__choice *choice, const struct reference *r) {
    assert_true(choice->candidate_count <= r->count && choice->candidate_count > 0);
    if (choice->complete) assert_int_equal(choice->candidate_count, r->count);
    for (int i = 0; i < choice->candidate_count; i++) {
        assert_int_equal(choice->candidates[i].token, r->list[i].token);
        assert_true(choice->candidates[i].logit == r->list[i].logit);
    }
}

static int compare_once(const float *row, int vocab, const wane_sampling *s, const int32_t *context,
                        int count, int draws, struct wane__candidate *list) {
    struct wane__sampler *sampler;
    struct wane__dense_source dense;
    struct wane__choice choice;
    wane_error error;
    int compared = 0;
    assert_int_equal(wane__sampler_new(s, vocab, &sampler, &error), WANE_OK);
    wane__dense_source_init(&dense, row, vocab);
    for (int i = 0; i < count; i++) wane__sampler_accept(sampler, context[i]);
    for (int draw = 0; draw < draws; draw++) {
        double u = wane__random_unit(s->seed, (uint64_t)draw);
        struct reference r = reference_draw(s, row, vocab, context, count, u, list);
        wane__step_enter();
        int status = wane__sampler_draw(sampler, &dense.source, (uint64_t)draw, &choice, &error);
        wane__step_leave();
        if (r.count == 0) {
            assert_int_not_equal(status, WANE_OK);
            break;
        }
        assert_int_equal(status, WANE_OK);
        if (r.close) continue;
        check_list(&choice, &r);
        assert_int_equal(choice.token, r.list[r.chosen].token);
        compared++;
    }
    wane__sampler_free(sampler);
    return compared;
}

/* What the cuts leave of the `most` best, from all of them: as cut_list has it, and with a word on how close a sum came to top-p's share. */
static int cut_whole(const struct wane__candidate *list, int count, const wane_sampling *s, bool *close) {
    double mass = 0, sum = 0;
    int kept = count;
    *close = false;
    for (int i = 0; i < count; i++) mass += wane__weigh(list, i, 1);
    if (s->top_p < 1)
        for (kept = 0; kept < count;) {
            sum += wane__weigh(list, kept++, 1);
            *close = *close || fabs(sum - (double)s->top_p * mass) < 1e-9 * mass;
            if (sum >= (double)s->top_p * mass) break;
        }
    float lowest = s->min_p > 0 ? list[0].logit + (float)log((double)s->min_p) : -INFINITY;
    while (kept > 1 && list[kept - 1].logit < lowest) kept--;
    if (s->min_p > 0)
        for (int i = 0; i < count; i++) *close = *close || fabsf(list[i].logit - lowest) < 1e-4f;
    return kept;
}

/* A pool is the same as if all of the `most` best had been looked at, though it mostly looks at a few; and it does not allocate. */
static void test_pools(void **unused) {
    static float row[1000];
    static struct wane__candidate all[1000];
    static const int mosts[] = {1, 3, 8, 9, 40, 50, 256};
    wane_sampling s;
    wane_bias bias[12];
    int compared = 0, shorter = 0;
    (void)unused;
    for (int round = 0; round < 4000; round++) {
        int vocab = 1 + below(1000), most = mosts[below(7)], found = 0;
        struct wane__sampler *sampler, *plain;
        struct wane__dense_source dense;
        struct wane__pool pool;
        struct wane__choice choice;
        wane_error error;
        bool close, again = below(2);
        fill_row(row, vocab, below(KINDS));
        fill_settings(&s, vocab, bias);
        if (again) s.top_k = 0;
        assert_int_equal(wane__sampler_new(&s, vocab, &sampler, &error), WANE_OK);
        assert_int_equal(wane__sampler_new(&s, vocab, &plain, &error), WANE_OK);
        wane__dense_source_init(&dense, row, vocab);
        for (int i = 0; i < 20; i++) {
            int32_t token = below(vocab);
            wane__sampler_accept(sampler, token);
            wane__sampler_accept(plain, token);
        }
        wane__step_enter();
        int status = again ? wane__sampler_choose(sampler, &dense.source, 1, &choice, &error) : WANE_OK;
        if (status == WANE_OK)
            status = wane__sampler_pool(sampler, &dense.source, most, again, &pool, &error);
        wane__step_leave();
        int whole = s.top_k > 0 && s.top_k < most ? s.top_k : most;
        if (status == WANE_OK &&
            wane__sampler_best_drawn(plain, &dense.source, whole, all, &found, NULL) == WANE_OK &&
            found > 0) {
            int support = cut_whole(all, found, &s, &close);
            assert_true(pool.support <= pool.count && pool.count <= whole);
            for (int i = 0; i < pool.count; i++)
                assert_true(pool.list[i].token == all[i].token && pool.list[i].logit == all[i].logit);
            if (!close) assert_int_equal(pool.support, support);
            compared += !close;
            shorter += pool.count < found;
        }
        wane__sampler_free(sampler);
        wane__sampler_free(plain);
    }
    print_message("%d pools compared, %d of them from fewer candidates than there are\n", compared, shorter);
    assert_true(compared > 2000 && shorter > 500);
}

static void test_against_reference(void **unused) {
    static const int vocabs[] = {1, 2, 7, 63, 64, 65, 130, 300, 1000, 5000, 9000};
    static float row[9000];
    static struct wane__candidate list[9000];
    wane_sampling s;
    wane_bias bias[12];
    int32_t context[100];
    int compared = 0;
    (void)unused;
    for (int round = 0; round < 3000; round++) {
        int vocab = vocabs[below(round % 40 == 0 ? 11 : 9)], count = below(100);
        fill_row(row, vocab, below(KINDS));
        fill_settings(&s, vocab, bias);
        for (int i = 0; i < count; i++) context[i] = below(below(2) ? vocab : vocab < 20 ? vocab : 20);
        compared += compare_once(row, vocab, &s, context, count, 3, list);
    }
    assert_true(compared > 6500);
}

/* A flat row over a large vocabulary, where everything must be fetched. */
static void test_large_flat_rows(void **unused) {
    enum { V = 262144 };
    float *row = malloc(V * sizeof *row);
    struct wane__candidate *list = malloc(V * sizeof *list);
    wane_sampling s;
    (void)unused;
    wane__sampling_defaults(&s);
    s.seeded = true;
    s.top_k = 0;
    s.min_p = 0;
    for (int kind = 2; kind <= 3; kind++) {
        fill_row(row, V, kind);
        s.top_p = 0.99f;
        s.temperature = 1;
        assert_int_equal(compare_once(row, V, &s, NULL, 0, 1, list), 1);
        s.top_p = 1;
        assert_int_equal(compare_once(row, V, &s, NULL, 0, 2, list), 2);
        s.top_k = 200000;
        assert_int_equal(compare_once(row, V, &s, NULL, 0, 1, list), 1);
        s.top_k = 0;
    }
    free(row);
    free(list);
}

/* ------------------------------------------------------------- distribution */

static void check_chi_square(const wane_sampling *s, const float *row, int vocab, const int32_t *context,
                             int count) {
    enum { DRAWS = 20000 };
    static int seen[400];
    static struct wane__candidate list[400];
    struct wane__sampler *sampler;
    struct wane__dense_source dense;
    struct wane__choice choice;
    memset(seen, 0, sizeof seen);
    assert_int_equal(wane__sampler_new(s, vocab, &sampler, NULL), WANE_OK);
    for (int i = 0; i < count; i++) wane__sampler_accept(sampler, context[i]);
    wane__dense_source_init(&dense, row, vocab);
    for (int i = 0; i < DRAWS; i++) {
        assert_int_equal(wane__sampler_draw(sampler, &dense.source, (uint64_t)i, &choice, NULL), WANE_OK);
        seen[choice.token]++;
    }
    struct reference r = reference_draw(s, row, vocab, context, count, 0.5, list);
    double scale = (double)(1 / s->temperature), chi = 0, rest = 0, rest_seen = 0;
    long double mass = 0;
    int bins = 0, inside = 0;
    for (int i = 0; i < r.count; i++) mass += reference_weight(&r, i, scale);
    for (int i = 0; i < r.count; i++) {
        double expected = (double)(reference_weight(&r, i, scale) / mass) * (double)DRAWS;
        inside += seen[r.list[i].token];
        if (expected < 10) { /* too few for the statistic: one common bin */
            rest += expected;
            rest_seen += seen[r.list[i].token];
            continue;
        }
        double difference = seen[r.list[i].token] - expected;
        chi += difference * difference / expected;
        bins++;
    }
    if (rest >= 10) {
        chi += (rest_seen - rest) * (rest_seen - rest) / rest;
        bins++;
    }
    assert_int_equal(inside, DRAWS); /* nothing outside the support */
    /* Mean bins - 1, variance twice that: five standard deviations. */
    assert_true(chi < bins - 1 + 5 * sqrt(2.0 * bins));
    wane__sampler_free(sampler);
}

static void test_draws_follow_probabilities(void **unused) {
    static float row[400];
    const int32_t context[] = {3, 5, 5, 9, 300, 301};
    wane_bias bias[] = {{17, 6}, {399, 4}, {3, -INFINITY}};
    wane_sampling s;
    (void)unused;
    wane__sampling_defaults(&s);
    s.seeded = true;
    s.seed = 4711;
    fill_row(row, 400, 0);
    check_chi_square(&s, row, 400, NULL, 0);
    s.bias = bias;
    s.bias_count = 3;
    s.repeat_penalty = 1.3f;
    s.frequency_penalty = 0.2f;
    check_chi_square(&s, row, 400, context, 6);
    s.top_k = 0;
    s.top_p = 1;
    s.min_p = 0;
    s.temperature = 1.2f;
    check_chi_square(&s, row, 400, context, 6);
    fill_row(row, 400, 2);
    check_chi_square(&s, row, 400, NULL, 0);
}

/* ----------------------------------------------------------------- logprobs */

static void test_logprobs_use_the_whole_vocabulary(void **unused) {
    enum { V = 5003 };
    static float row[V];
    wane_bias bias[] = {{0, 50}};
    struct wane__dense_source dense;
    struct wane__choice choice;
    wane_sampling s;
    (void)unused;
    fill_row(row, V, 0);
    long double mass = 0;
    for (int i = 0; i < V; i++) mass += expl((long double)row[i]);
    double log_mass = (double)logl(mass);
    for (int variant = 0; variant < 8; variant++) {
        struct wane__sampler *sampler;
        wane__sampling_defaults(&s);
        s.top_logprobs = variant % 4 == 0 ? 0 : variant % 4 * 7 - 1;
        s.temperature = variant & 1 ? 0 : 1.4f;
        s.top_k = variant & 2 ? 3 : 0;
        s.top_p = variant & 4 ? 0.3f : 1;
        s.seeded = true;
        if (variant == 5) {
            s.bias = bias;
            s.bias_count = 1;
        }
        assert_int_equal(wane__sampler_new(&s, V, &sampler, NULL), WANE_OK);
        wane__dense_source_init(&dense, row, V);
        wane__step_enter();
        assert_int_equal(wane__sampler_draw(sampler, &dense.source, 3, &choice, NULL), WANE_OK);
        wane__step_leave();
        assert_true(choice.has_logprob);
        assert_int_equal(choice.top_count, s.top_logprobs);
        if (variant == 5) assert_int_equal(choice.token, 0);
        assert_true(fabs((double)choice.logprob - ((double)row[choice.token] - log_mass)) < 2e-6);
        for (int i = 0; i < choice.top_count; i++) {
            assert_true(fabs((double)choice.top[i].logprob - ((double)row[choice.top[i].token] - log_mass)) <
                        2e-6);
            if (i > 0) assert_true(choice.top[i].logprob <= choice.top[i - 1].logprob);
            int better = 0;
            for (int t = 0; t < V; t++) better += row[t] > row[choice.top[i].token];
            assert_int_equal(better, i);
        }
        wane__sampler_free(sampler);
    }
}

/* ---------------------------------------------------------------- promises */

static int32_t draw_one(const wane_sampling *s, const float *row, int vocab, uint64_t index) {
    struct wane__sampler *sampler;
    struct wane__dense_source dense;
    struct wane__choice choice;
    wane_error error;
    assert_int_equal(wane__sampler_new(s, vocab, &sampler, &error), WANE_OK);
    wane__dense_source_init(&dense, row, vocab);
    assert_int_equal(wane__sampler_draw(sampler, &dense.source, index, &choice, &error), WANE_OK);
    wane__sampler_free(sampler);
    return choice.token;
}

static void test_ties_and_limits(void **unused) {
    const float row[] = {1, 5, 5, 2, 5, -3};
    wane_bias lift[] = {{5, 100}}, sink[] = {{1, -INFINITY}};
    wane_sampling s;
    (void)unused;
    wane__sampling_defaults(&s);
    s.seeded = true;
    s.temperature = 0;
    assert_int_equal(draw_one(&s, row, 6, 0), 1);
    s.bias_count = 1;
    s.bias = lift; /* the least likely token */
    assert_int_equal(draw_one(&s, row, 6, 0), 5);
    s.bias = sink;
    assert_int_equal(draw_one(&s, row, 6, 0), 2);
    s.bias_count = 0;
    s.temperature = 1;
    s.top_k = 2; /* ties at rank k: the smaller ids */
    for (uint64_t i = 0; i < 200; i++) {
        int32_t token = draw_one(&s, row, 6, i);
        assert_true(token == 1 || token == 2);
    }
}

static void test_seed_and_index_alone_decide(void **unused) {
    static float row[1000];
    int32_t forward[50];
    struct wane__sampler *sampler;
    struct wane__dense_source dense;
    struct wane__choice choice;
    wane_sampling s;
    int same = 0;
    (void)unused;
    fill_row(row, 1000, 3);
    wane__sampling_defaults(&s);
    s.seeded = true;
    s.seed = 99;
    for (int i = 0; i < 50; i++) forward[i] = draw_one(&s, row, 1000, (uint64_t)i);
    assert_int_equal(wane__sampler_new(&s, 1000, &sampler, NULL), WANE_OK);
    assert_int_equal(wane__sampler_seed(sampler), 99);
    wane__dense_source_init(&dense, row, 1000);
    for (int i = 49; i >= 0; i--) {
        assert_int_equal(wane__sampler_draw(sampler, &dense.source, (uint64_t)i, &choice, NULL), WANE_OK);
        assert_int_equal(choice.token, forward[i]);
        if (i > 0 && forward[i] == forward[i - 1]) same++;
    }
    assert_true(same < 20);
    s.seeded = false;
    assert_int_equal(wane__sampler_reset(sampler, &s, NULL), WANE_OK);
    uint64_t first = wane__sampler_seed(sampler);
    assert_int_equal(wane__sampler_reset(sampler, &s, NULL), WANE_OK);
    assert_true(first != wane__sampler_seed(sampler));
    wane__sampler_free(sampler);
}

/* A used sampler must start a new request as a new one would. */
static void test_reset_forgets(void **unused) {
    static float row[300];
    struct wane__sampler *sampler;
    struct wane__dense_source dense;
    struct wane__choice choice;
    wane_sampling first, second;
    wane_bias bias[] = {{7, 90}, {8, -INFINITY}};
    (void)unused;
    fill_row(row, 300, 0);
    wane__sampling_defaults(&first);
    wane__sampling_defaults(&second);
    first.bias = bias;
    first.bias_count = 2;
    first.repeat_penalty = 1.5f;
    first.penalty_window = -1;
    second.seeded = true;
    assert_int_equal(wane__sampler_new(&first, 300, &sampler, NULL), WANE_OK);
    wane__dense_source_init(&dense, row, 300);
    wane__step_enter(); /* a window over everything grows, in a step too */
    for (int i = 0; i < 300; i++) wane__sampler_accept(sampler, i);
    wane__sampler_accept(sampler, -1);
    wane__sampler_accept(sampler, 300);
    assert_int_equal(wane__sampler_draw(sampler, &dense.source, 0, &choice, NULL), WANE_OK);
    wane__step_leave();
    assert_int_equal(choice.token, 7);
    for (uint64_t i = 0; i < 20; i++) {
        assert_int_equal(wane__sampler_reset(sampler, &second, NULL), WANE_OK);
        assert_int_equal(wane__sampler_draw(sampler, &dense.source, i, &choice, NULL), WANE_OK);
        assert_int_equal(choice.token, draw_one(&second, row, 300, i));
    }
    wane__sampler_free(sampler);
}

static void expect_refusal(const wane_sampling *s, const float *row, int vocab, int code, const char *word) {
    struct wane__sampler *sampler;
    struct wane__dense_source dense;
    struct wane__choice choice;
    wane_error error = {0};
    assert_int_equal(wane__sampler_new(s, vocab, &sampler, &error), WANE_OK);
    wane__dense_source_init(&dense, row, vocab);
    assert_int_equal(wane__sampler_draw(sampler, &dense.source, 0, &choice, &error), code);
    assert_non_null(strstr(error.text, word));
    wane__sampler_free(sampler);
}

static void test_broken_rows(void **unused) {
    static float row[500];
    wane_bias all[] = {{0, -INFINITY}, {1, -INFINITY}}, on_bad[] = {{300, 1}};
    (void)unused;
    for (int variant = 0; variant < 6; variant++) {
        wane_sampling s;
        wane__sampling_defaults(&s);
        s.temperature = variant == 0 ? 0 : 1;
        s.top_k = variant == 1 ? 100 : variant == 2 ? 0 : 40;
        if (variant == 3) s.top_logprobs = 3;
        if (variant == 4) s.bias = on_bad, s.bias_count = 1;
        fill_row(row, 500, 0);
        row[300] = NAN;
        expect_refusal(&s, row, 500, WANE_EENGINE, "NaN");
        row[300] = INFINITY;
        expect_refusal(&s, row, 500, WANE_EENGINE, "+infinity");
        s.bias_count = 0;
        for (int i = 0; i < 500; i++) row[i] = -INFINITY;
        expect_refusal(&s, row, 500, WANE_EENGINE, "-infinity");
        fill_row(row, 2, 0);
        s.bias = all;
        s.bias_count = 2;
        expect_refusal(&s, row, 2, WANE_EINVAL, "forbids");
    }
}

static void expect_range(const char *field, void (*spoil)(wane_sampling *)) {
    wane_sampling s;
    wane_error error = {0};
    wane__sampling_defaults(&s);
    assert_int_equal(wane__sampling_check(&s, 100, &error), WANE_OK);
    spoil(&s);
    assert_int_equal(wane__sampling_check(&s, 100, &error), WANE_EINVAL);
    assert_non_null(strstr(error.text, field));
}

static wane_bias bad_bias[] = {{100, 1}}, nan_bias[] = {{1, NAN}}, infinite_bias[] = {{1, INFINITY}};

static void hot(wane_sampling *s) {
    s->temperature = 1e6f;
}
static void cold(wane_sampling *s) {
    s->temperature = -1;
}
static void no_temperature(wane_sampling *s) {
    s->temperature = NAN;
}
static void few(wane_sampling *s) {
    s->top_k = -1;
}
static void top_p_low(wane_sampling *s) {
    s->top_p = -1;
}
static void min_p_high(wane_sampling *s) {
    s->min_p = 1.5f;
}
static void repeat_zero(wane_sampling *s) {
    s->repeat_penalty = 0;
}
static void presence_nan(wane_sampling *s) {
    s->presence_penalty = NAN;
}
static void frequency_high(wane_sampling *s) {
    s->frequency_penalty = 1e9f;
}
static void window_low(wane_sampling *s) {
    s->penalty_window = -2;
}
static void logprobs_high(wane_sampling *s) {
    s->top_logprobs = 21;
}
static void bias_token(wane_sampling *s) {
    s->bias = bad_bias, s->bias_count = 1;
}
static void bias_nan(wane_sampling *s) {
    s->bias = nan_bias, s->bias_count = 1;
}
static void bias_infinite(wane_sampling *s) {
    s->bias = infinite_bias, s->bias_count = 1;
}
static void bias_many(wane_sampling *s) {
    s->bias = bad_bias, s->bias_count = 1025;
}

static void test_ranges_are_named(void **unused) {
    (void)unused;
    expect_range("temperature is 1e+06", hot);
    expect_range("temperature is -1", cold);
    expect_range("temperature", no_temperature);
    expect_range("top_k is -1", few);
    expect_range("top_p is -1", top_p_low);
    expect_range("min_p is 1.5", min_p_high);
    expect_range("repeat_penalty", repeat_zero);
    expect_range("presence_penalty", presence_nan);
    expect_range("frequency_penalty", frequency_high);
    expect_range("penalty_window is -2", window_low);
    expect_range("top_logprobs is 21", logprobs_high);
    expect_range("token 100", bias_token);
    expect_range("bias", bias_nan);
    expect_range("bias", bias_infinite);
    expect_range("1025", bias_many);
}

/* ------------------------------------------------------ what is read and how */

struct counting_source {
    struct wane__source source;
    struct wane__dense_source dense;
    int best, largest, fetched, sums;
};

static int counting_best(struct wane__source *source, int count, const int32_t *skip, int skips,
                         struct wane__candidate *out, int *found) {
    struct counting_source *counting = (struct counting_source *)source;
    counting->best++;
    if (count > counting->largest) counting->largest = count;
    return counting->dense.source.best(&counting->dense.source, count, skip, skips, out, found);
}

static int counting_fetch(struct wane__source *source, const int32_t *tokens, int count, float *logits) {
    struct counting_source *counting = (struct counting_source *)source;
    counting->fetched += count;
    return counting->dense.source.fetch(&counting->dense.source, tokens, count, logits);
}

static int counting_log_sum(struct wane__source *source, float scale, const int32_t *skip, int skips,
                            double *out) {
    struct counting_source *counting = (struct counting_source *)source;
    counting->sums++;
    return counting->dense.source.log_sum(&counting->dense.source, scale, skip, skips, out);
}

static struct counting_source count_draw(const wane_sampling *s, const float *row, int vocab) {
    struct counting_source counting = {.source = {.vocab_size = vocab,
                                                  .best = counting_best,
                                                  .fetch = counting_fetch,
                                                  .log_sum = counting_log_sum}};
    struct wane__sampler *sampler;
    struct wane__choice choice;
    wane__dense_source_init(&counting.dense, row, vocab);
    assert_int_equal(wane__sampler_new(s, vocab, &sampler, NULL), WANE_OK);
    assert_int_equal(wane__sampler_draw(sampler, &counting.source, 0, &choice, NULL), WANE_OK);
    wane__sampler_free(sampler);
    return counting;
}

/* A certified head answers small questions cheaply: none may be larger than the draw needs. */
static void test_questions_stay_small(void **unused) {
    static float row[20000];
    wane_sampling s;
    (void)unused;
    fill_row(row, 20000, 0);
    row[5] = 25;
    wane__sampling_defaults(&s);
    s.seeded = true;
    struct counting_source c = count_draw(&s, row, 20000);
    assert_true(c.best == 1 && c.largest == 4 && c.fetched == 0 && c.sums == 0);
    s.temperature = 0;
    c = count_draw(&s, row, 20000);
    assert_true(c.best == 1 && c.largest == 1 && c.sums == 0);
    s.temperature = 1;
    s.top_k = 0;
    c = count_draw(&s, row, 20000);
    assert_true(c.best == 1 && c.largest == 4 && c.sums == 0 && c.fetched == 0);
    s.top_p = 1;
    c = count_draw(&s, row, 20000);
    assert_true(c.best == 1 && c.largest == 4 && c.sums == 0);
    s.min_p = 0;
    c = count_draw(&s, row, 20000);
    assert_true(c.best == 1 && c.sums == 1);
    s.top_p = 0.95f;
    c = count_draw(&s, row, 20000);
    assert_true(c.best == 1 && c.largest == 4 && c.sums == 1);
    /* Where the best few do not decide, top-k bounds the question. */
    fill_row(row, 20000, 2);
    wane__sampling_defaults(&s);
    s.seeded = true;
    c = count_draw(&s, row, 20000);
    assert_true(c.best == 3 && c.largest == 40 && c.sums == 0);
}

static void test_sort(void **unused) {
    static struct wane__candidate sorted[3000], expected[3000];
    static float row[3000];
    (void)unused;
    for (int round = 0; round < 300; round++) {
        int count = below(round % 10 == 0 ? 3000 : 120);
        fill_row(row, count, round % KINDS);
        for (int i = 0; i < count; i++) sorted[i] = (struct wane__candidate){count - i, row[i]};
        memcpy(expected, sorted, (size_t)count * sizeof *sorted);
        qsort(expected, (size_t)count, sizeof *expected, reference_compare);
        wane__sort_candidates(sorted, count);
        for (int i = 0; i < count; i++) assert_int_equal(sorted[i].token, expected[i].token);
    }
}

static void test_kernels_agree(void **unused) {
    static float row[4000], out[2][70];
    (void)unused;
    for (int round = 0; round < 400; round++) {
        int count = 1 + below(4000), block = 64 + below(300);
        fill_row(row, count, round % KINDS);
        float max = -INFINITY;
        for (int i = 0; i < count; i++) max = row[i] > max ? row[i] : max;
        if (!isfinite(max)) continue;
        double plain = wane__row_kernels_at(0)->exp_sum(row, count, (double)max, 0.7);
        long double exact = 0;
        for (int i = 0; i < count; i++) exact += expl(((long double)row[i] - (long double)max) * 0.7L);
        assert_true(fabsl(((long double)plain - exact) / exact) < 1e-13L);
        assert_true(wane__row_kernels_at(0)->block_max(row, count, block, out[0]));
        for (int k = 1; wane__row_kernels_at(k) != NULL; k++) {
            const struct wane__row_kernels *kernels = wane__row_kernels_at(k);
            double other = kernels->exp_sum(row, count, (double)max, 0.7);
            assert_memory_equal(&plain, &other, sizeof plain);
            assert_true(kernels->block_max(row, count, block, out[1]));
            for (int b = 0; b * block < count; b++) assert_true(out[0][b] == out[1][b]);
        }
        row[below(count)] = round & 1 ? NAN : -NAN;
        for (int k = 0; wane__row_kernels_at(k) != NULL; k++)
            assert_false(wane__row_kernels_at(k)->block_max(row, count, block, out[1]));
    }
}

static void test_exponential(void **unused) {
    (void)unused;
    for (int i = 0; i < 100000; i++) {
        double x = -unit() * (i % 2 ? 1 : 690);
        long double exact = expl((long double)x);
        assert_true(fabsl(((long double)wane__exp_weight(x) - exact) / exact) < 1e-14L);
    }
    assert_true(wane__exp_weight(0) == 1);
    assert_true(wane__exp_weight(-INFINITY) == 0);
    assert_true(isnan(wane__exp_weight(NAN)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sort),
        cmocka_unit_test(test_exponential),
        cmocka_unit_test(test_kernels_agree),
        cmocka_unit_test(test_against_reference),
        cmocka_unit_test(test_pools),
        cmocka_unit_test(test_large_flat_rows),
        cmocka_unit_test(test_draws_follow_probabilities),
        cmocka_unit_test(test_logprobs_use_the_whole_vocabulary),
        cmocka_unit_test(test_ties_and_limits),
        cmocka_unit_test(test_seed_and_index_alone_decide),
        cmocka_unit_test(test_reset_forgets),
        cmocka_unit_test(test_broken_rows),
        cmocka_unit_test(test_ranges_are_named),
        cmocka_unit_test(test_questions_stay_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
