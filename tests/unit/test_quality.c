/* test_quality.c - the settings that may change an answer: each field's range, named when it is left; the defaults are in it. */
#include "wane.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct field {
    const char *name;
    size_t offset;
    bool real;
    double low, high;
};

#define FIELD(name, real, low, high) \
    { #name, offsetof(wane_quality, name), real, low, high }

static const struct field fields[] = {
    FIELD(mode, false, 0, 2),
    FIELD(clamp, false, 0, 256),
    FIELD(dialogue_slope, true, 0, 1),
    FIELD(dialogue_scale, false, 1, 1 << 24),
    FIELD(dialogue_floor, true, 0, 1),
    FIELD(hold, true, 0, 1),
    FIELD(answers, false, 1, 3),
    FIELD(odds_base, true, -10, 10),
    FIELD(odds_entropy, true, 0, 10),
    FIELD(odds_documents, true, 0, 10),
    FIELD(documents, false, 0, 1 << 20),
    FIELD(doubt_budget, false, 0, 1 << 24),
    FIELD(doubt_allowance, true, -1, 1),
    FIELD(doubt_votes, false, 0, 8),
    FIELD(revival_after, false, 0, 1 << 24),
    FIELD(revival_top, true, 0, 1),
    FIELD(forced_above, true, 0, 100),
    FIELD(forced_every, false, 0, 1 << 24),
    FIELD(breaker_wakes, false, 0, 1 << 24),
    FIELD(breaker_seconds, false, 1, 86400),
    FIELD(breaker_temperature, true, 0, 100),
    FIELD(profile, false, 0, WANE_PROFILES_MOST),
    FIELD(stability, true, 0.01, 100),
    FIELD(fuse, false, 0, 2),
    FIELD(fuse_window, false, 2, 64),
    FIELD(fuse_limit, true, 0, 10),
    FIELD(fallback, false, 0, 2),
    FIELD(consistency, true, 0, 1),
};

static void put(wane_quality *quality, const struct field *field, double value) {
    char *at = (char *)quality + field->offset;
    float real = (float)value;
    int whole = (int)value;
    if (field->real)
        memcpy(at, &real, sizeof real);
    else
        memcpy(at, &whole, sizeof whole);
}

static void expect_refused(const struct field *field, double value) {
    wane_quality quality;
    wane_error error = {0};
    wane_quality_init(&quality);
    put(&quality, field, value);
    assert_int_equal(wane_quality_check(&quality, &error), WANE_EINVAL);
    assert_memory_equal(error.text, field->name, strlen(field->name));
    assert_non_null(strstr(error.text, "between"));
}

static void test_ranges(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const struct field *field = &fields[i];
        const double good[] = {field->low, field->high};
        for (int k = 0; k < 2; k++) {
            wane_quality quality;
            wane_quality_init(&quality);
            put(&quality, field, good[k]);
            assert_int_equal(wane_quality_check(&quality, NULL), WANE_OK);
        }
        double step = field->real ? 0.001 : 1;
        expect_refused(field, field->low - step);
        expect_refused(field, field->high + step);
        if (!field->real) continue;
        expect_refused(field, (double)NAN);
        expect_refused(field, (double)INFINITY);
        expect_refused(field, -(double)INFINITY);
    }
}

static void test_the_rest(void **unused) {
    (void)unused;
    wane_quality quality;
    wane_error error = {0};
    wane_quality_init(&quality);
    assert_int_equal(quality.mode, WANE_MODE_OFF);
    assert_int_equal(wane_quality_check(&quality, &error), WANE_OK);
    quality.answers = 2;
    assert_int_equal(wane_quality_check(&quality, &error), WANE_EINVAL);
    assert_non_null(strstr(error.text, "outvote"));
    wane_quality_init(&quality);
    quality.size--;
    assert_int_equal(wane_quality_check(&quality, &error), WANE_EINVAL);
    assert_int_equal(wane_quality_check(NULL, &error), WANE_EINVAL);
}

/* A request is refused for its quality's sake, and for what it holds back. */
static void test_of_a_request(void **unused) {
    (void)unused;
    wane_generation generation;
    wane_quality quality;
    wane_error error = {0};
    wane_generation_init(&generation);
    assert_null(generation.quality);
    wane_quality_init(&quality);
    generation.quality = &quality;
    assert_int_equal(wane_generation_check(&generation, 100, &error), WANE_OK);
    quality.hold = 1.5f;
    assert_int_equal(wane_generation_check(&generation, 100, &error), WANE_EINVAL);
    assert_non_null(strstr(error.text, "hold is 1.5"));
    quality.hold = 0.5f;
    generation.hold = 2;
    assert_int_equal(wane_generation_check(&generation, 100, &error), WANE_EINVAL);
    assert_non_null(strstr(error.text, "WANE_HOLD"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_the_rest),
        cmocka_unit_test(test_of_a_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
