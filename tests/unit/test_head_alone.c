/* test_head_alone.c - the public head on plain arrays: answers of brute force, and words for what is wrong. */
#include "core/rng.h"
#include "wane.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { V = 6000, D = 96, SAMPLE = 300, ROWS = 3 };

static float weights[V * D], sample[SAMPLE * D];
static char path[64];
static uint64_t state = 1;

static float gaussian(void) {
    double u = wane__random_unit(5, state++) + 0x1p-54;
    return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * wane__random_unit(5, state++)));
}

static void make_hidden(float *hidden) {
    for (int j = 0; j < D; j++) hidden[j] = 1 + 3 * gaussian() / sqrtf(1 + (float)j / 4);
}

static float product(const float *hidden, int32_t id) {
    double sum = 0;
    for (int j = 0; j < D; j++) sum += (double)weights[id * D + j] * (double)hidden[j];
    return (float)sum;
}

static int rows(void *user, int first, int count, float *out) {
    (void)user;
    memcpy(out, weights + first * D, (size_t)count * D * sizeof *out);
    return WANE_OK;
}

static int rescore(void *user, const float *hidden, const int32_t *ids, int count, float *logits) {
    (void)user;
    for (int i = 0; i < count; i++) logits[i] = product(hidden, ids[i]);
    return WANE_OK;
}

static int set_up(void **unused) {
    (void)unused;
    for (int i = 0; i < V * D; i++) weights[i] = gaussian() / 4;
    for (int i = 0; i < SAMPLE; i++) make_hidden(sample + i * D);
    snprintf(path, sizeof path, "/tmp/wane-alone-%d.sketch", (int)getpid());
    return 0;
}

static int tear_down(void **unused) {
    (void)unused;
    return unlink(path);
}

static void defaults(wane_head_options *options, wane_head_matrix *matrix) {
    wane_head_matrix_init(matrix);
    matrix->vocab_size = V;
    matrix->d = D;
    matrix->weights = weights;
    wane_head_options_init(options);
    options->path = path;
    options->rebuild = true;
    options->rows_most = ROWS;
    options->sample = sample;
    options->sample_rows = SAMPLE;
}

static wane_head *open_head(const wane_head_options *options, const wane_head_matrix *matrix) {
    wane_head *head;
    wane_error error = {0};
    if (wane_head_open(options, matrix, &head, &error) != WANE_OK) fail_msg("%s", error.text);
    return head;
}

static void check_row(wane_head *head, const float *hidden, int row) {
    wane_candidate best[20];
    wane_error error = {0};
    int32_t ids[2] = {0, V - 1}, expected = 0;
    float logits[2];
    double low, high, exact, sum = 0;
    int found;
    for (int32_t id = 0; id < V; id++) {
        if (product(hidden, id) > product(hidden, expected)) expected = id;
        sum += exp((double)product(hidden, id));
    }
    assert_int_equal(wane_head_best(head, row, 20, best, &found, &error), WANE_OK);
    assert_int_equal(found, 20);
    assert_int_equal(best[0].token, expected);
    for (int i = 0; i < 20; i++) {
        assert_true(fabsf(best[i].logit - product(hidden, best[i].token)) < 1e-5f);
        assert_true(i == 0 || best[i].logit <= best[i - 1].logit);
    }
    int better = 0;
    for (int32_t id = 0; id < V; id++) better += product(hidden, id) > best[19].logit + 1e-5f;
    assert_true(better <= 19);
    assert_int_equal(wane_head_logits(head, row, ids, 2, logits, &error), WANE_OK);
    assert_true(fabsf(logits[1] - product(hidden, V - 1)) < 1e-5f);
    assert_int_equal(wane_head_log_sum(head, row, 1, false, &low, &high, &error), WANE_OK);
    assert_int_equal(wane_head_log_sum(head, row, 1, true, &exact, &exact, &error), WANE_OK);
    assert_true(low <= log(sum) + 1e-6 && log(sum) <= high + 1e-6);
    assert_true(fabs(exact - log(sum)) < 1e-5);
}

static void check_head(wane_head *head) {
    float hidden[ROWS * D];
    wane_error error = {0};
    for (int round = 0; round < 10; round++) {
        for (int r = 0; r < ROWS; r++) make_hidden(hidden + r * D);
        assert_int_equal(wane_head_scan(head, hidden, ROWS, &error), WANE_OK);
        for (int r = 0; r < ROWS; r++) check_row(head, hidden + r * D, r);
    }
}

static void test_floats_and_functions(void **unused) {
    wane_head_options options;
    wane_head_matrix matrix;
    wane_head_work work;
    (void)unused;
    defaults(&options, &matrix);
    wane_head *head = open_head(&options, &matrix);
    check_head(head);
    wane_head_get_work(head, &work);
    assert_int_equal(work.rows, 10 * ROWS);
    assert_true(work.questions > 0 && work.rescored > 0);
    wane_head_free(head);
    matrix.weights = NULL;
    matrix.rows = rows;
    matrix.rescore = rescore;
    options.rebuild = false; /* the file that is there */
    head = open_head(&options, &matrix);
    check_head(head);
    wane_head_free(head);
    options.digest = "of others"; /* built anew, without knowledge of hidden rows */
    options.sample = NULL;
    head = open_head(&options, &matrix);
    check_head(head);
    wane_head_free(head);
    wane_head_free(NULL);
}

static void test_mean_and_covariance(void **unused) {
    static float mean[D], covariance[D * D];
    wane_head_options options;
    wane_head_matrix matrix;
    (void)unused;
    defaults(&options, &matrix);
    for (int r = 0; r < SAMPLE; r++)
        for (int i = 0; i < D; i++) mean[i] += sample[r * D + i] / SAMPLE;
    for (int r = 0; r < SAMPLE; r++)
        for (int i = 0; i < D; i++)
            for (int j = 0; j < D; j++)
                covariance[i * D + j] +=
                    (sample[r * D + i] - mean[i]) * (sample[r * D + j] - mean[j]) / SAMPLE;
    options.sample = NULL;
    options.mean = mean;
    options.covariance = covariance;
    wane_head *head = open_head(&options, &matrix);
    check_head(head);
    wane_head_free(head);
}

/* Packed weights that are the floats rounded: 16 bits, and blocks of 8. */
static void pack(int type, uint8_t *out) {
    for (int i = 0; i < V * D; i += 32) {
        if (type == WANE_WEIGHTS_BF16) {
            for (int j = 0; j < 32; j++) memcpy(out + 2 * (i + j), (const uint8_t *)&weights[i + j] + 2, 2);
            continue;
        }
        uint8_t *block = out + i / 32 * 34;
        block[0] = 0;
        block[1] = 0x20; /* a half: 2^-7 */
        for (int j = 0; j < 32; j++) {
            float q = rintf(weights[i + j] * 128);
            block[2 + j] = (uint8_t)(int8_t)fmaxf(fminf(q, 127), -127);
        }
    }
}

static void unpack(int type, const uint8_t *in) {
    for (int i = 0; i < V * D; i++) {
        const uint8_t *block = in + i / 32 * 34;
        float value = (float)(int8_t)block[2 + i % 32] / 128;
        if (type == WANE_WEIGHTS_BF16) memcpy((uint8_t *)&value + 2, in + 2 * i, 2), memset(&value, 0, 2);
        weights[i] = value;
    }
}

/* Heads on packed weights answer as brute force on what they stand for; their sketch can be kept, found and refused. */
static void test_packed(void **unused) {
    static uint8_t packed[V * D * 2];
    static float before[V * D];
    (void)unused;
    memcpy(before, weights, sizeof before);
    for (int type = WANE_WEIGHTS_BF16; type <= WANE_WEIGHTS_Q8_0; type++) {
        wane_head_options options;
        wane_head_matrix matrix;
        defaults(&options, &matrix);
        pack(type, packed);
        unpack(type, packed);
        matrix.weights = NULL;
        matrix.packed = packed;
        matrix.type = type;
        wane_head *head = open_head(&options, &matrix);
        check_head(head);
        wane_head_free(head);
        memcpy(weights, before, sizeof before);
    }
}

static void test_kept_and_found(void **unused) {
    char other[80];
    wane_head_options options;
    wane_head_matrix matrix;
    wane_head_facts facts;
    wane_error error = {0};
    (void)unused;
    defaults(&options, &matrix);
    options.digest = "mine";
    options.kernel = "plain";
    wane_head *head = open_head(&options, &matrix);
    wane_head_get_facts(head, &facts);
    assert_true(facts.built && facts.vocab_size == V && facts.d == D && facts.statistics_rows == SAMPLE);
    assert_string_equal(facts.kernel, "plain");
    assert_string_equal(facts.digest, "mine");
    snprintf(other, sizeof other, "%s.other", path);
    assert_int_equal(wane_head_save(head, other, &error), WANE_OK);
    assert_int_equal(wane_head_save(head, "", &error), WANE_EINVAL);
    wane_head_free(head);
    options.rebuild = false;
    options.found = true;
    options.path = other;
    options.kernel = NULL;
    head = open_head(&options, &matrix);
    wane_head_get_facts(head, &facts);
    assert_true(!facts.built && facts.bytes > 0);
    check_head(head);
    wane_head_free(head);
    options.digest = "another's";
    assert_int_equal(wane_head_open(&options, &matrix, &head, &error), WANE_EFORMAT);
    unlink(other);
    assert_int_equal(wane_head_open(&options, &matrix, &head, &error), WANE_ENOENT);
    options.found = false;
    options.kernel = "abacus";
    assert_int_equal(wane_head_open(&options, &matrix, &head, &error), WANE_EUNSUPPORTED);
    assert_null(head);
    assert_non_null(strstr(error.text, "abacus"));
    unlink(other);
}

/* What the head says of a row without a product is near what the row says, and between the same bounds. */
static void test_signals(void **unused) {
    static float logits[V];
    float hidden[D];
    wane_head_options options;
    wane_head_matrix matrix;
    (void)unused;
    defaults(&options, &matrix);
    wane_head *head = open_head(&options, &matrix);
    for (int round = 0; round < 20; round++) {
        wane_signals guess, exact;
        wane_error error = {0};
        double low, high, sum;
        make_hidden(hidden);
        for (int32_t id = 0; id < V; id++) logits[id] = product(hidden, id);
        assert_int_equal(wane_head_scan(head, hidden, 1, &error), WANE_OK);
        assert_int_equal(wane_head_signals(head, 0, &guess, &error), WANE_OK);
        assert_int_equal(wane_row_signals(logits, V, &exact, &error), WANE_OK);
        assert_true(fabsf(guess.entropy - exact.entropy) < 0.2f &&
                    fabsf(guess.margin - exact.margin) < 1e-4f);
        assert_int_equal(wane_head_log_sum(head, 0, 1, false, &low, &high, &error), WANE_OK);
        assert_int_equal(wane_head_log_sum(head, 0, 1, true, &sum, &sum, &error), WANE_OK);
        assert_true(high - low < 2 && low <= sum + 1e-9 && sum <= high + 1e-9);
    }
    wane_head_free(head);
}

static void expect_refusal(const wane_head_options *options, const wane_head_matrix *matrix,
                           const char *word) {
    wane_head *head;
    wane_error error = {0};
    assert_int_equal(wane_head_open(options, matrix, &head, &error), WANE_EINVAL);
    assert_null(head);
    assert_non_null(strstr(error.text, word));
}

static void test_refusals(void **unused) {
    wane_head_options options;
    wane_head_matrix matrix;
    wane_error error = {0};
    wane_candidate best;
    float hidden[D] = {0}, logit;
    double low, high;
    int found;
    (void)unused;
    defaults(&options, &matrix);
    matrix.d = 0;
    expect_refusal(&options, &matrix, "6000");
    defaults(&options, &matrix);
    matrix.weights = NULL;
    expect_refusal(&options, &matrix, "rescore");
    matrix.packed = sample;
    matrix.type = WANE_WEIGHTS_Q6_K; /* of 256 */
    expect_refusal(&options, &matrix, "whole");
    matrix.type = WANE_WEIGHTS;
    expect_refusal(&options, &matrix, "no such type");
    defaults(&options, &matrix);
    options.found = true;
    expect_refusal(&options, &matrix, "found");
    defaults(&options, &matrix);
    options.sigmas = 2;
    expect_refusal(&options, &matrix, "sigmas");
    defaults(&options, &matrix);
    options.path = NULL;
    expect_refusal(&options, &matrix, "path");
    defaults(&options, &matrix);
    options.sample_rows = 1;
    expect_refusal(&options, &matrix, "4 rows");
    defaults(&options, &matrix);
    options.size = 1;
    expect_refusal(&options, &matrix, "_init");
    defaults(&options, &matrix);
    options.rows_most = 65;
    expect_refusal(&options, &matrix, "65");
    defaults(&options, &matrix);
    wane_head *head = open_head(&options, &matrix);
    assert_int_equal(wane_head_best(head, 0, 1, &best, &found, &error),
                     WANE_EINVAL); /* nothing was scanned */
    assert_int_equal(wane_head_scan(head, hidden, ROWS + 1, &error), WANE_EINVAL);
    assert_int_equal(wane_head_scan(head, hidden, 1, &error), WANE_OK);
    assert_int_equal(wane_head_best(head, 1, 1, &best, &found, &error), WANE_EINVAL);
    hidden[7] = NAN;
    assert_int_equal(wane_head_scan(head, hidden, 1, &error), WANE_EENGINE);
    assert_non_null(strstr(error.text, "place 7"));
    hidden[7] = 0;
    assert_int_equal(wane_head_scan(head, hidden, 1, &error), WANE_OK);
    assert_int_equal(wane_head_best(head, 0, 0, &best, &found, &error), WANE_EINVAL);
    assert_int_equal(wane_head_logits(head, 0, &(int32_t){V}, 1, &logit, &error), WANE_EINVAL);
    assert_int_equal(wane_head_log_sum(head, 0, 0, true, &low, &high, &error), WANE_EINVAL);
    wane_head_free(head);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floats_and_functions),
        cmocka_unit_test(test_mean_and_covariance),
        cmocka_unit_test(test_packed),
        cmocka_unit_test(test_kept_and_found),
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
