/* The vote over answers, without a scheduler: distances, values, and when it is decided. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "correct/answers.h"
#include "correct/distance.h"

#include <stdio.h>
#include <string.h>

/* ---------------------------------------------------------------- distance */

enum { LONGEST = 300 };

static int64_t by_table(const int32_t *a, size_t n, const int32_t *b, size_t m) {
    static int64_t row[2][LONGEST + 1];
    for (size_t j = 0; j <= m; j++) row[0][j] = (int64_t)j;
    for (size_t i = 1; i <= n; i++) {
        int64_t *now = row[i % 2], *before = row[(i + 1) % 2];
        now[0] = (int64_t)i;
        for (size_t j = 1; j <= m; j++) {
            int64_t best = before[j - 1] + (a[i - 1] != b[j - 1]);
            if (before[j] + 1 < best) best = before[j] + 1;
            if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
            now[j] = best;
        }
    }
    return row[n % 2][m];
}

static uint64_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static void test_distance_equals_the_table(void **state) {
    (void)state;
    uint64_t random = 1;
    int32_t a[LONGEST], b[LONGEST];
    for (int round = 0; round < 3000; round++) {
        size_t n = next_random(&random) % (round % 3 == 0 ? LONGEST : 140),
               m = next_random(&random) % LONGEST;
        uint64_t kinds = 1 + next_random(&random) % 40;
        for (size_t i = 0; i < n; i++) a[i] = (int32_t)(next_random(&random) % kinds) - 5;
        for (size_t i = 0; i < m; i++) b[i] = (int32_t)(next_random(&random) % kinds) - 5;
        /* Half of them are copies with a few changes, as answers are. */
        for (size_t i = 0; round % 2 == 0 && i < n && i < m; i++)
            if (next_random(&random) % 16 != 0) b[i] = a[i];
        int64_t expected = by_table(a, n, b, m);
        assert_int_equal(wane__token_distance(a, n, b, m), expected);
        assert_int_equal(wane__token_distance(b, m, a, n), expected);
    }
}

static void test_distance_at_the_edges_of_words(void **state) {
    (void)state;
    int32_t a[LONGEST], b[LONGEST];
    for (size_t n = 0; n <= 200; n++) {
        for (size_t i = 0; i < n; i++) a[i] = (int32_t)(i * 7 % 11), b[i] = (int32_t)(i * 5 % 11);
        assert_int_equal(wane__token_distance(a, n, b, n), by_table(a, n, b, n));
        assert_int_equal(wane__token_distance(a, n, a, n), 0);
        assert_int_equal(wane__token_distance(a, n, NULL, 0), n);
        assert_int_equal(wane__token_distance(NULL, 0, a, n), n);
    }
}

/* ------------------------------------------------------------------ values */

static void check_value(const char *pattern, const char *text, const char *value) {
    struct wane__value_pattern *compiled = NULL;
    wane_error error = {0};
    char out[64] = "";
    assert_int_equal(wane__value_pattern_new(pattern, &compiled, &error), WANE_OK);
    bool found = wane__value_of(compiled, text, strlen(text), out, sizeof out);
    if (found != (value != NULL)) fail_msg("'%s': found %d '%s'", text, found, out);
    if (found) assert_string_equal(out, value);
    wane__value_pattern_free(compiled);
}

static void test_values(void **state) {
    (void)state;
    const char *number = "####\\s*([^\\n]+)";
    check_value(number, "so\n#### 72", "72");
    check_value(number, "so\n#### 1,200.50 \n", "1200.5");
    check_value(number, "so\n#### $3.00\n", "3");
    check_value(number, "so\n#### -3.0", "-3");
    check_value(number, "#### 1\n#### 2", "2");
    check_value(number, "#### 1 200", "1 200"); /* not a number: as it stands */
    check_value(number, "#### a, b", "a, b");
    check_value(number, "#### 1,2,", "1,2,");
    check_value(number, "nothing", NULL);
    check_value(number, "", NULL);
    check_value("答案是(\\d+)", "所以答案是42。", "42");
    check_value("(a)|b", "a b", "a"); /* a match in which the group has no part says nothing */
    check_value("x(.*)", "x", NULL);
    check_value("(.+)", "a value that is longer than the sixty-three bytes it may have here, by far", NULL);
}

static void expect_refusal(const char *pattern, const char *word) {
    struct wane__value_pattern *compiled = NULL;
    wane_error error = {0};
    assert_int_equal(wane__value_pattern_new(pattern, &compiled, &error), WANE_EINVAL);
    assert_null(compiled);
    if (strstr(error.text, word) == NULL) fail_msg("'%s' does not say '%s'", error.text, word);
}

static void test_wrong_patterns(void **state) {
    (void)state;
    char long_one[1200];
    memset(long_one, '(', sizeof long_one);
    long_one[sizeof long_one - 1] = '\0';
    expect_refusal("", "0 bytes");
    expect_refusal(long_one, "1199 bytes");
    expect_refusal("abc", "no group");
    expect_refusal("a(b", "character");
    expect_refusal("(\xff", "");
}

/* A pattern that could search for ever is cut short, and finds nothing. */
static void test_a_search_ends(void **state) {
    (void)state;
    struct wane__value_pattern *compiled = NULL;
    char text[4096], out[64];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = 'b';
    assert_int_equal(wane__value_pattern_new("((a+)+)c", &compiled, NULL), WANE_OK);
    assert_false(wane__value_of(compiled, text, sizeof text, out, sizeof out));
    wane__value_pattern_free(compiled);
}

/* ---------------------------------------------------------------- deciding */

static struct wane__answer answer_of(const char *text, enum wane__answer_state state) {
    static int32_t tokens[6][64];
    static int next;
    int32_t *row = tokens[next++ % 6];
    size_t size = strlen(text);
    for (size_t i = 0; i < size; i++) row[i] = (unsigned char)text[i];
    return (struct wane__answer){.state = state, .tokens = row, .count = size, .text = text, .size = size};
}

static struct wane__vote_result decide(const char *a, const char *b, const char *c, const char *states,
                                       struct wane__value_pattern *pattern) {
    const char *text[] = {a, b, c};
    struct wane__answer answers[WANE__ANSWERS];
    for (int i = 0; i < WANE__ANSWERS; i++) {
        enum wane__answer_state state = states[i] == 'w'   ? WANE__ANSWER_WHOLE
                                        : states[i] == 'o' ? WANE__ANSWER_OPEN
                                                           : WANE__ANSWER_GONE;
        answers[i] = answer_of(text[i], state);
    }
    return wane__answers_decide(answers, pattern);
}

static void test_the_closest_answer_wins(void **state) {
    (void)state;
    assert_int_equal(decide("abcd", "abce", "xyzw", "www", NULL).chosen, 0); /* of equals the first */
    assert_int_equal(decide("xyzw", "abcd", "abce", "www", NULL).chosen, 1);
    assert_int_equal(decide("abxx", "abcd", "xxcd", "www", NULL).chosen, 1); /* between the others */
    assert_int_equal(decide("xxcd", "abxx", "abcd", "www", NULL).chosen, 2);
    assert_int_equal(decide("", "", "", "www", NULL).chosen, 0);
}

static void test_a_vote_ends_early(void **state) {
    (void)state;
    assert_int_equal(decide("ab", "ab", "", "wwo", NULL).chosen, 0);
    assert_int_equal(decide("x", "ab", "ab", "oww", NULL).chosen, 1);
    assert_int_equal(decide("ab", "x", "ab", "wow", NULL).chosen, 0);
    assert_int_equal(decide("ab", "ab", "", "woo", NULL).chosen, -1); /* the second may go on */
    assert_int_equal(decide("ab", "ac", "", "wwo", NULL).chosen, -1);
    /* Early and late say the same: whatever the third answer becomes, two equal ones win. */
    const char *third[] = {"", "a", "ab", "abab", "completely other"};
    for (size_t i = 0; i < sizeof third / sizeof *third; i++) {
        assert_int_equal(decide("ab", "ab", third[i], "www", NULL).chosen, 0);
        assert_int_equal(decide("qq", third[i], third[i], "www", NULL).chosen, 1);
    }
}

static void test_answers_that_are_gone(void **state) {
    (void)state;
    struct wane__vote_result v = decide("ab", "", "", "wgg", NULL);
    assert_true(v.chosen == 0 && v.by_default);
    v = decide("ab", "cd", "", "wwg", NULL);
    assert_true(v.chosen == 0 && v.by_default);
    v = decide("", "cd", "", "gwg", NULL);
    assert_true(v.chosen == 1 && v.by_default);
    assert_int_equal(decide("", "", "", "ggg", NULL).chosen, -1);
    assert_int_equal(decide("ab", "cd", "", "wgo", NULL).chosen, -1);
    v = decide("ab", "cd", "cd", "gww", NULL);
    assert_true(v.chosen == 1 && !v.by_default);
}

static void test_values_outvote_closeness(void **state) {
    (void)state;
    struct wane__value_pattern *pattern = NULL;
    assert_int_equal(wane__value_pattern_new("=(\\d+)", &pattern, NULL), WANE_OK);
    struct wane__vote_result v = decide("aaaa=1", "aaab=2", "zzzzzzzz=2", "www", pattern);
    assert_true(v.chosen == 1 && v.by_value);
    v = decide("aaaa=1", "zz=2", "aaab=1", "wow", pattern);
    assert_true(v.chosen == 0 && v.by_value);
    v = decide("aaaa=1", "aaab=2", "zzzz=3", "www", pattern); /* no two: the closest */
    assert_true(v.chosen == 0 && !v.by_value);
    v = decide("aaaa", "aaab=2", "", "wwo", pattern);
    assert_int_equal(v.chosen, -1);
    wane__value_pattern_free(pattern);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distance_equals_the_table),
        cmocka_unit_test(test_distance_at_the_edges_of_words),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_wrong_patterns),
        cmocka_unit_test(test_a_search_ends),
        cmocka_unit_test(test_the_closest_answer_wins),
        cmocka_unit_test(test_a_vote_ends_early),
        cmocka_unit_test(test_answers_that_are_gone),
        cmocka_unit_test(test_values_outvote_closeness),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
