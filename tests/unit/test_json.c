/* test_json.c - strict reading, strings that are always JSON, and errors in both APIs' shapes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void test_refused(void **state) {
    (void)state;
    static const char *const bodies[] = {
        "",
        "{",
        "nul",
        "7",
        "\"x\"",
        "[1]",
        "null",
        "{\"a\":1,\"a\":2}",
        "{\"a\":\"\\u0000\"}",
        "{\"a\":\"\\ud800\"}",
        "{\"a\":\"\\udc00\\ud800\"}",
        "{\"a\":NaN}",
        "{\"a\":1e999}",
        "{\"a\":-1e999}",
        "{\"a\":99999999999999999999}",
        "{\"a\":\"\xff\"}",
        "{\"a\":\"\xed\xa0\x80\"}",
        "{\"a\":01}",
        "{\"a\":1,}",
        "{a:1}",
        "{} {}",
        "\xef\xbb\xbf{}",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        struct wane__problem problem = {0};
        json_t *root = wane__json_parse(bodies[i], strlen(bodies[i]), &problem);
        if (root != NULL) fail_msg("accepted: %s", bodies[i]);
        assert_int_equal(wane__problem_status(&problem), 400);
        assert_true(problem.text[0] != '\0');
    }
}

static void test_deep_nesting(void **state) {
    (void)state;
    size_t depth = 100000;
    char *body = malloc(depth);
    memset(body, '[', depth);
    struct wane__problem problem = {0};
    assert_null(wane__json_parse(body, depth, &problem));
    assert_non_null(strstr(problem.text, "depth"));
    free(body);
}

/* Write, read again, compare. */
static void round_trip(const char *text, size_t size, const char *expected) {
    struct wane__buf out = {0};
    wane__json_string(&out, text, size);
    json_t *read = json_loadb(out.data, out.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    assert_non_null(read);
    assert_int_equal(json_string_length(read), strlen(expected));
    assert_string_equal(json_string_value(read), expected);
    json_decref(read);
    wane__buf_free(&out);
}

static void test_strings(void **state) {
    (void)state;
    static const char *const same[] = {"",    "plain",    "a\"b\\c/d", "\n\r\t\b\f\x01\x1f\x7f",
                                       "é€𝄞", "</script>"};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) round_trip(same[i], strlen(same[i]), same[i]);
    round_trip("a\xff"
               "b",
               3,
               "a\xef\xbf\xbd"
               "b");
    round_trip("\xe2\x82", 2, "\xef\xbf\xbd\xef\xbf\xbd");
    round_trip("\xc0\xaf", 2, "\xef\xbf\xbd\xef\xbf\xbd");
    round_trip("\xed\xa0\x80!", 4, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd!");
    struct wane__buf out = {0};
    wane__json_string(&out, "a\0b", 3);
    assert_string_equal(out.data, "\"a\\u0000b\"");
    wane__buf_free(&out);
}

/* Every sequence of one to three bytes: the length is right by the standard's table. */
static void test_utf8(void **state) {
    (void)state;
    for (unsigned i = 0; i < 1u << 16; i++) {
        char pair[2] = {(char)(i >> 8), (char)(i & 0xff)};
        unsigned first = i >> 8, second = i & 0xff;
        int expected = first < 0x80 ? 1 : first >= 0xc2 && first <= 0xdf && (second & 0xc0) == 0x80 ? 2 : 0;
        assert_int_equal(wane__json_utf8(pair, 2), expected);
    }
    assert_int_equal(wane__json_utf8("\xe0\x9f\x80", 3), 0);
    assert_int_equal(wane__json_utf8("\xe0\xa0\x80", 3), 3);
    assert_int_equal(wane__json_utf8("\xed\x9f\xbf", 3), 3);
    assert_int_equal(wane__json_utf8("\xf0\x8f\xbf\xbf", 4), 0);
    assert_int_equal(wane__json_utf8("\xf4\x8f\xbf\xbf", 4), 4);
    assert_int_equal(wane__json_utf8("\xf4\x90\x80\x80", 4), 0);
    assert_int_equal(wane__json_utf8("\xf0\x9d\x84", 3), 0);
    assert_int_equal(wane__json_utf8("", 0), 0);
}

static void test_numbers(void **state) {
    (void)state;
    struct wane__buf out = {0};
    wane__json_number(&out, -0.25);
    wane__buf_text(&out, " ");
    wane__json_number(&out, -INFINITY);
    wane__buf_text(&out, " ");
    wane__json_number(&out, NAN);
    assert_string_equal(out.data, "-0.25 -9999 -9999");
    wane__buf_free(&out);
}

static void test_show(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"\"true\"", "\"true\""},
        {"-1", "-1"},
        {"1e6", "1e+06"},
        {"null", "null"},
        {"{}", "an object"},
        {"[1,2]", "an array of 2"},
        {"false", "false"},
        {"\"0123456789012345678901234567890123456789012345\"",
         "\"0123456789012345678901234567890123456789…\""},
        {"\"012345678901234567890123456789012345678é\"", "\"012345678901234567890123456789012345678…\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char shown[80];
        json_t *value = json_loads(cases[i][0], JSON_DECODE_ANY, NULL);
        assert_string_equal(wane__json_show(value, shown, sizeof shown), cases[i][1]);
        json_decref(value);
    }
}

static void test_problem_bodies(void **state) {
    (void)state;
    struct wane__problem problem;
    struct wane__buf out = {0};
    assert_false(wane__problem(&problem, WANE__PROBLEM_INVALID, "top_p", "top_p: \"%s\"", "x\n"));
    wane__problem_body(&problem, WANE__SHAPE_ANTHROPIC, "req_1", &out);
    assert_string_equal(out.data,
                        "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":"
                        "\"top_p: \\\"x\\n\\\"\"},\"request_id\":\"req_1\"}");
    wane__buf_clear(&out);
    wane__problem_body(&problem, WANE__SHAPE_OPENAI, "req_1", &out);
    assert_string_equal(out.data,
                        "{\"error\":{\"message\":\"top_p: \\\"x\\n\\\"\",\"type\":\"invalid_request_error\","
                        "\"param\":\"top_p\",\"code\":null}}");
    wane__buf_free(&out);
}

static void test_problem_statuses(void **state) {
    (void)state;
    static const int cases[][2] = {
        {WANE_EINVAL, 400},    {WANE_ECONTEXT, 400}, {WANE_EUNSUPPORTED, 400}, {WANE_EAUTH, 401},
        {WANE_EBUSY, 429},     {WANE_EENGINE, 500},  {WANE_ENOMEM, 500},       {WANE_EINTERNAL, 500},
        {WANE_ESHUTDOWN, 503}, {WANE_ETIMEOUT, 504},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct wane__problem problem;
        wane_error error = {.code = cases[i][0]};
        wane__problem_from(&problem, &error);
        assert_int_equal(wane__problem_status(&problem), cases[i][1]);
        assert_non_null(strstr(problem.text, wane_strerror(cases[i][0])));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),        cmocka_unit_test(test_deep_nesting),
        cmocka_unit_test(test_strings),        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_numbers),        cmocka_unit_test(test_show),
        cmocka_unit_test(test_problem_bodies), cmocka_unit_test(test_problem_statuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
