/*
 * test_protocol.c - figures of made-up runs by hand, a state that was cut anywhere, limits, and intervals: a difference that is there
 * is found, one that is not is not, and nothing depends on anything but the numbers.
 */
#include "protocol.h"
#include "text.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 100 };

static bool near(double a, double b) {
    return fabs(a - b) <= 1e-9 * fmax(1, fmax(fabs(a), fabs(b)));
}

/* Request i took i + 1 ms to its first token and (i + 1) / 10 ms for each of the 10 behind it. */
static struct protocol_run make(void) {
    struct protocol_run run = {
        .count = COUNT, .streams = 4, .cpus = 2, .seconds = 10, .cpu_seconds = 15, .engine_seconds = 8};
    run.sample = text_alloc(COUNT * sizeof *run.sample);
    for (int i = 0; i < COUNT; i++)
        run.sample[i] = (struct protocol_sample){i + 1, (i + 1) / 10.0, 2 * (i + 1), 11, true};
    run.done = COUNT;
    return run;
}

static void test_figures(void **state) {
    (void)state;
    struct protocol_run run = make();
    double f[PROTOCOL_FIGURES];
    protocol_figures(&run, f);
    assert_true(near(f[TTFT_P50], 50) && near(f[TTFT_P90], 90) && near(f[TTFT_P99], 99));
    assert_true(near(f[TPOT_P50], 5) && near(f[TPOT_P99], 9.9));
    assert_true(near(f[TOKENS_PER_SECOND], 110) && near(f[REQUESTS_PER_SECOND], 10));
    assert_true(near(f[CPU_SHARE], 0.75) && near(f[ENGINE_SHARE], 0.8));
    assert_true(near(f[SLOT_SHARE], 10.1 / 10 / 4));
    assert_true(isnan(f[LONG_TPOT_P50]));
    double gaps[4] = {4, 1, 3, 2};
    run.gap_ms = gaps;
    run.gaps = 4;
    for (int i = 0; i < COUNT; i += 2) run.sample[i].done = false;
    protocol_figures(&run, f);
    assert_true(near(f[LONG_TPOT_P50], 2) && near(f[LONG_TPOT_P99], 4));
    assert_true(near(f[TTFT_P50], 50)); /* of 2, 4, … 100 */
    struct protocol_run none = {.count = 0};
    protocol_figures(&none, f);
    for (int i = 0; i < PROTOCOL_FIGURES; i++) assert_true(isnan(f[i]));
    free(run.sample);
}

/* ---- state ----------------------------------------------------------------------------------------------------------------- */

static json_t *head_of(int streams) {
    return json_pack("{s:i, s:s, s:i}", "protocol", 1, "mode", "off", "streams", streams);
}

/* A state of two legs: six requests in the first, 6 s long, four in the second, 8 s. */
static char *state_text(const struct protocol_run *run) {
    json_t *head = head_of(4);
    char *first = json_dumps(head, JSON_COMPACT), *all = text_format("%s\n", first);
    for (int i = 0; i < 10; i++) {
        int leg = i < 6 ? 1 : 2;
        char *line = protocol_state_line(run, i, leg, leg == 1 ? i + 1 : 2 * (i - 5), 1, 0.5);
        char *longer = text_format("%s%s", all, line);
        free(all);
        free(line);
        all = longer;
    }
    free(first);
    json_decref(head);
    return all;
}

static bool read_state(struct protocol_run *run, const char *text, size_t length, size_t *size, int streams,
                       char why[300]) {
    json_t *head = head_of(streams);
    *run = (struct protocol_run){.count = COUNT, .streams = 4, .cpus = 2};
    run->sample = text_alloc(COUNT * sizeof *run->sample);
    bool good = protocol_read_state(run, head, text, length, size, why);
    json_decref(head);
    return good;
}

static void test_state(void **state) {
    (void)state;
    struct protocol_run run = make(), back;
    char *text = state_text(&run), why[300] = "";
    size_t whole = strlen(text), size = 0;
    assert_true(read_state(&back, text, whole, &size, 4, why));
    assert_int_equal(size, whole);
    assert_int_equal(back.done, 10);
    assert_int_equal(protocol_legs(text, whole), 2);
    assert_true(near(back.seconds, 6 + 8) && near(back.cpu_seconds, 2) && near(back.engine_seconds, 1));
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(back.sample[i].done, i < 10);
        if (i < 10) assert_true(near(back.sample[i].tpot_ms, run.sample[i].tpot_ms));
    }
    free(back.sample);
    /* Cut anywhere behind the head: the lines that are whole count, and the file can go on behind them. */
    size_t head = strcspn(text, "\n") + 1;
    for (size_t cut = head; cut < whole; cut++) {
        assert_true(read_state(&back, text, cut, &size, 4, why));
        assert_true(size >= head && size <= cut && text[size - 1] == '\n');
        free(back.sample);
    }
    assert_true(read_state(&back, "", 0, &size, 4, why));
    assert_int_equal(size, 0);
    free(back.sample);
    assert_false(read_state(&back, text, whole, &size, 5, why));
    assert_non_null(strstr(why, "streams"));
    free(back.sample);
    static const char *const others[] = {"hello\n", "{}\n", "[1]\n", "\n", "no end"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        why[0] = '\0';
        assert_false(read_state(&back, others[i], strlen(others[i]), &size, 4, why));
        assert_true(why[0] != '\0');
        free(back.sample);
    }
    free(text);
    free(run.sample);
}

/* A line that says what cannot be is where the state ends. */
static void test_odd_lines(void **state) {
    (void)state;
    static const char *const lines[] = {
        "{}",
        "{\"n\":100,\"leg\":1,\"ttft_ms\":1,\"tpot_ms\":1,\"whole_ms\":1,\"tokens\":1,\"seconds\":1,"
        "\"cpu_seconds\":1,\"engine_seconds\":1}",
        "{\"n\":-1}",
        "{\"n\":1,\"leg\":1,\"ttft_ms\":-1,\"tpot_ms\":1,\"whole_ms\":1,\"tokens\":1,"
        "\"seconds\":1,\"cpu_seconds\":1,\"engine_seconds\":1}"};
    json_t *head = head_of(4);
    char *first = json_dumps(head, JSON_COMPACT), why[300];
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct protocol_run back;
        size_t size;
        char *text = text_format("%s\n%s\n", first, lines[i]);
        assert_true(read_state(&back, text, strlen(text), &size, 4, why));
        assert_int_equal(size, strlen(first) + 1);
        assert_int_equal(back.done, 0);
        free(back.sample);
        free(text);
    }
    free(first);
    json_decref(head);
}

/* ---- bar ---------------------------------------------------------------------------------------------------------------------- */

static bool bar_of(struct protocol_bar *bar, const char *text, char why[300]) {
    json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);
    bool good = protocol_read_bar(bar, json, why);
    json_decref(json);
    return good;
}

static void test_bar(void **state) {
    (void)state;
    struct protocol_bar bar;
    struct protocol_run run = make();
    double f[PROTOCOL_FIGURES];
    char why[300] = "";
    protocol_figures(&run, f);
    assert_true(bar_of(
        &bar,
        "{\"ttft_p99_ms\":99,\"tokens_per_second\":110,\"cpu_share\":{\"at_least\":0.5,\"at_most\":0.7},"
        "\"long_tpot_p99_ms\":5,\"tpot_p50_ms\":{\"at_most\":4}}",
        why));
    assert_int_equal(bar.count, 6);
    static const bool kept[6] = {true,  true,  true,
                                 false, false, false}; /* what was not measured keeps nothing */
    for (int i = 0; i < 6; i++) assert_int_equal(protocol_keeps(&bar.list[i], f), kept[i]);
    static const char *const bad[] = {
        "{}", "[]", "3", "{\"speed\":1}", "{\"ttft_p50_ms\":\"fast\"}", "{\"ttft_p50_ms\":{}}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        why[0] = '\0';
        assert_false(bar_of(&bar, bad[i], why));
        assert_true(why[0] != '\0');
    }
    for (int i = 0; i < PROTOCOL_FIGURES; i++) { /* every figure can be limited by its name */
        char text[80];
        snprintf(text, sizeof text, "{\"%s\":1}", protocol_figure_name(i));
        assert_true(bar_of(&bar, text, why));
        assert_int_equal(bar.list[0].figure, i);
    }
    free(run.sample);
}

/* ---- two results ------------------------------------------------------------------------------------------------------------ */

enum { MANY = 600 };

static double noise(uint64_t *seed) {
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*seed >> 40) / 16777216.0;
}

static struct protocol_series series_of(uint64_t seed, double ttft, double tpot, int count) {
    struct protocol_series s = {text_alloc((size_t)count * sizeof(double)),
                                text_alloc((size_t)count * sizeof(double)), count};
    for (int i = 0; i < count; i++) {
        s.ttft_ms[i] = ttft + 20 * noise(&seed);
        s.tpot_ms[i] = tpot + 2 * noise(&seed);
    }
    return s;
}

static void test_intervals(void **state) {
    (void)state;
    struct protocol_series a = series_of(1, 100, 10, MANY), b = series_of(2, 100, 10.5, MANY / 2);
    struct protocol_difference d[PROTOCOL_DIFFERENCES], again[PROTOCOL_DIFFERENCES],
        back[PROTOCOL_DIFFERENCES];
    protocol_compare(&a, &b, d);
    protocol_compare(&a, &b, again);
    protocol_compare(&b, &a, back);
    assert_memory_equal(d, again, sizeof d);
    for (int i = 0; i < PROTOCOL_DIFFERENCES; i++) {
        assert_true(d[i].low <= d[i].difference + 1e-12 && d[i].difference <= d[i].high + 1e-12);
        assert_true(d[i].ratio_low <= d[i].ratio_high);
        assert_true(near(d[i].difference, -back[i].difference));
        assert_int_equal(d[i].real, d[i].low > 0 || d[i].high < 0);
    }
    assert_string_equal(d[0].name, "ttft_p50_ms");
    assert_string_equal(d[7].name, "tpot_mean_ms");
    assert_false(d[0].real); /* the same, but for noise */
    assert_true(d[4].real && d[7].real);
    assert_true(d[7].low < 0.5 && d[7].high > 0.5); /* what was put in lies inside */
    protocol_series_free(&a);
    protocol_series_free(&b);
}

/* Of equal series, hardly more than the one interval in twenty that chance allows lies beside 0. */
static void test_false_alarms(void **state) {
    (void)state;
    int alarms = 0;
    for (uint64_t i = 0; i < 20; i++) {
        struct protocol_series a = series_of(10 + i, 50, 5, 150), b = series_of(1000 + i, 50, 5, 150);
        struct protocol_difference d[PROTOCOL_DIFFERENCES];
        protocol_compare(&a, &b, d);
        alarms += d[3].real + d[7].real;
        protocol_series_free(&a);
        protocol_series_free(&b);
    }
    assert_true(alarms <= 7);
}

static void test_series(void **state) {
    (void)state;
    struct protocol_series s;
    char why[300];
    static const char good[] = "{\"bench\":\"protocol\",\"samples\":{\"ttft_ms\":[1,2.5],\"tpot_ms\":[0,3]}}";
    static const char *const bad[] = {
        "{}",
        "[]",
        "{\"bench\":\"layer\",\"samples\":{\"ttft_ms\":[1,2],\"tpot_ms\":[1,2]}}",
        "{\"bench\":\"protocol\",\"samples\":{\"ttft_ms\":[1,2],\"tpot_ms\":[1]}}",
        "{\"bench\":\"protocol\",\"samples\":{\"ttft_ms\":[1],\"tpot_ms\":[1]}}",
        "{\"bench\":\"protocol\",\"samples\":{\"ttft_ms\":[1,-2],\"tpot_ms\":[1,2]}}",
        "{\"bench\":\"protocol\",\"samples\":{\"ttft_ms\":[1,\"a\"],\"tpot_ms\":[1,2]}}",
        "{\"bench\":\"protocol\"}"};
    json_t *json = json_loads(good, 0, NULL);
    assert_true(protocol_read_series(&s, json, why));
    assert_int_equal(s.count, 2);
    assert_true(near(s.ttft_ms[1], 2.5) && near(s.tpot_ms[1], 3));
    protocol_series_free(&s);
    json_decref(json);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json = json_loads(bad[i], 0, NULL);
        why[0] = '\0';
        assert_false(protocol_read_series(&s, json, why));
        assert_true(why[0] != '\0' && s.ttft_ms == NULL);
        json_decref(json);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figures), cmocka_unit_test(test_state),     cmocka_unit_test(test_odd_lines),
        cmocka_unit_test(test_bar),     cmocka_unit_test(test_intervals), cmocka_unit_test(test_false_alarms),
        cmocka_unit_test(test_series),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
