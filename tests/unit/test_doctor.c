/*
 * test_doctor.c - what the doctor makes of facts: each fault of a machine and of a server is said once, with the worst level it
 * deserves and a next step; and what the program's readers of HTTP and metrics take.
 */
#include "cli.h"
#include "doctor.h"
#include "http_get.h"
#include "metrics_text.h"
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

/* The program's own; the files under test need no more of it. */
double now_ms(void) {
    return 0;
}

#define GB UINT64_C(1000000000)

static wane_machine healthy(void) {
    return (wane_machine){.features = "avx2 fma avx512f",
                          .kernels = "libggml-cpu-zen4.so",
                          .cpus = 8,
                          .allowed = 8,
                          .cores = 4,
                          .quota = NAN,
                          .mhz = 3000,
                          .mhz_most = 4000,
                          .governor = "performance",
                          .load = {0.1, 0.1, 0.1},
                          .memory = 16 * GB,
                          .memory_free = 12 * GB,
                          .group_memory = WANE_UNLIMITED,
                          .group_used = GB,
                          .shared = GB,
                          .shared_free = GB,
                          .lock_most = WANE_UNLIMITED,
                          .files_most = 1024,
                          .space_most = WANE_UNLIMITED,
                          .date_ms = INT64_C(1800000000000),
                          .monotonic = true,
                          .synchronised = 1};
}

static const struct doctor_wish usual = {.connections = 256,
                                         .model_bytes = 4 * GB,
                                         .kernel = "avx512-vnni",
                                         .built_ms = INT64_C(1790000000000)};

/* All lines of a machine; the level of the one that is called `name`. */
static enum check_level level_of(const wane_machine *m, const struct doctor_wish *wish, const char *name) {
    struct checkup c = {0};
    enum check_level level = CHECK_SKIPPED;
    doctor_cpu(&c, m, wish);
    doctor_threads(&c, m, wish);
    doctor_memory(&c, m, wish);
    doctor_clock(&c, m, wish);
    doctor_load(&c, m);
    assert_int_equal(c.count, 5);
    for (int i = 0; i < c.count; i++) {
        if (strcmp(c.list[i].name, name) == 0) level = c.list[i].level;
        assert_true(c.list[i].level < CHECK_WARNING || c.list[i].next[0] != '\0'); /* a fault has a remedy */
        assert_null(strchr(c.list[i].text, '\n'));
    }
    checkup_free(&c);
    return level;
}

static void test_healthy(void **state) {
    (void)state;
    static const char *const names[] = {"CPU_FEATURES", "THREADS", "MEMORY_LIMITS", "CLOCK", "LOAD"};
    wane_machine m = healthy();
    for (int i = 0; i < 5; i++) assert_int_equal(level_of(&m, &usual, names[i]), CHECK_PASSED);
    /* Nothing known is no fault, but for what must be known. */
    wane_machine blind = {.cpus = -1,
                          .allowed = -1,
                          .cores = 1,
                          .quota = NAN,
                          .mhz = NAN,
                          .busy = NAN,
                          .steal = NAN,
                          .load = {NAN, NAN, NAN},
                          .memory = WANE_UNKNOWN,
                          .memory_free = WANE_UNKNOWN,
                          .group_memory = WANE_UNKNOWN,
                          .lock_most = WANE_UNKNOWN,
                          .files_most = WANE_UNKNOWN,
                          .space_most = WANE_UNKNOWN,
                          .shared_free = WANE_UNKNOWN,
                          .group_used = WANE_UNKNOWN,
                          .date_ms = INT64_C(1800000000000),
                          .monotonic = true,
                          .synchronised = -1};
    for (int i = 0; i < 5; i++) assert_int_equal(level_of(&blind, &usual, names[i]), CHECK_PASSED);
}

#define FAULT(name, level, ...)                          \
    do {                                                 \
        wane_machine m = healthy();                      \
        struct doctor_wish w = usual;                    \
        __VA_ARGS__;                                     \
        assert_int_equal(level_of(&m, &w, name), level); \
    } while (0)

static void test_machine_faults(void **state) {
    (void)state;
    FAULT("CPU_FEATURES", CHECK_WARNING, snprintf(m.features, sizeof m.features, "sse3 avx"));
    FAULT("CPU_FEATURES", CHECK_WARNING, w.kernel = "plain");
    FAULT("CPU_FEATURES", CHECK_WARNING, snprintf(m.kernels, sizeof m.kernels, "libggml-cpu-haswell.so"));
    FAULT("CPU_FEATURES", CHECK_PASSED, snprintf(m.features, sizeof m.features, "asimd"));
    FAULT("THREADS", CHECK_CRITICAL, w.threads = 9);
    FAULT("THREADS", CHECK_WARNING, w.threads = 8);
    FAULT("THREADS", CHECK_CRITICAL, w.threads = 4, m.quota = 1.5);
    FAULT("THREADS", CHECK_PASSED, w.threads = 2, m.quota = 1.5);
    FAULT("MEMORY_LIMITS", CHECK_CRITICAL, m.group_memory = 4 * GB);
    FAULT("MEMORY_LIMITS", CHECK_CRITICAL, m.space_most = 5 * GB);
    FAULT("MEMORY_LIMITS", CHECK_WARNING, m.memory_free = 4 * GB);
    FAULT("MEMORY_LIMITS", CHECK_WARNING, w.lock = true, m.lock_most = 65536);
    FAULT("MEMORY_LIMITS", CHECK_PASSED, m.lock_most = 65536);
    FAULT("MEMORY_LIMITS", CHECK_WARNING, m.files_most = 256);
    FAULT("CLOCK", CHECK_CRITICAL, m.monotonic = false);
    FAULT("CLOCK", CHECK_CRITICAL, m.date_ms = 86400000);
    FAULT("CLOCK", CHECK_CRITICAL, m.date_ms = w.built_ms - 1);
    FAULT("CLOCK", CHECK_WARNING, m.synchronised = 0);
    FAULT("LOAD", CHECK_WARNING, m.busy = 3);
    FAULT("LOAD", CHECK_WARNING, m.busy = NAN, m.load[0] = 5);
    FAULT("LOAD", CHECK_WARNING, m.steal = 0.1);
    FAULT("LOAD", CHECK_WARNING, snprintf(m.governor, sizeof m.governor, "powersave"));
}

static void test_codes(void **state) {
    (void)state;
    struct checkup c = {0};
    assert_int_equal(checkup_code(&c), 0);
    checkup_add(&c, "A", CHECK_SKIPPED, NULL, "x");
    checkup_add(&c, "B", CHECK_PASSED, NULL, "two\nlines %d", 2);
    assert_int_equal(checkup_code(&c), 0);
    assert_string_equal(c.list[1].text, "two lines 2");
    checkup_add(&c, "C", CHECK_WARNING, "do", "x");
    assert_int_equal(checkup_code(&c), 1);
    checkup_add(&c, "D", CHECK_CRITICAL, "do", "x");
    checkup_add(&c, "E", CHECK_WARNING, "do", "x");
    assert_int_equal(checkup_code(&c), 2);
    json_t *list = checkup_json(&c);
    assert_int_equal(json_array_size(list), 5);
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 3), "level")), "CRITICAL");
    json_decref(list);
    checkup_free(&c);
}

static enum check_level server_level(int ready, const char *metrics) {
    struct checkup c = {0};
    doctor_metrics(&c, "http://x", ready, "{}", metrics);
    assert_int_equal(c.count, 1);
    enum check_level level = c.list[0].level;
    assert_true(level < CHECK_WARNING || c.list[0].next[0] != '\0');
    checkup_free(&c);
    return level;
}

static void test_server(void **state) {
    (void)state;
    assert_int_equal(server_level(200, "wane_shadow_checks_total 5\noutput_divergence_count 0\n"),
                     CHECK_PASSED);
    assert_int_equal(server_level(503, "wane_shadow_checks_total 5\n"), CHECK_CRITICAL);
    assert_int_equal(server_level(200, "wane_engine_stuck 1\n"), CHECK_CRITICAL);
    assert_int_equal(server_level(200, "wane_shadow_checks_total 1e6\noutput_divergence_count 9\n"),
                     CHECK_WARNING);
    assert_int_equal(server_level(200, "wane_shadow_checks_total 1e6\noutput_divergence_count 11\n"),
                     CHECK_CRITICAL);
    assert_int_equal(server_level(200, "wane_table_reload_failures_total 1\n"), CHECK_WARNING);
    assert_int_equal(server_level(200, "wane_breaker_out 1\n"), CHECK_WARNING);
    assert_int_equal(server_level(200, "some_rate NaN\n"), CHECK_WARNING);
    assert_int_equal(server_level(200, "wane_feature_broken{feature=\"head\"} 0\n"), CHECK_PASSED);
    assert_int_equal(server_level(200, "wane_feature_broken{feature=\"table\"} 1\n"), CHECK_CRITICAL);
    assert_int_equal(server_level(200, "wane_alert{name=\"x\"} 1\n"), CHECK_WARNING);
}

static void test_alerts(void **state) {
    (void)state;
    static const struct {
        const char *answer;
        enum check_level level;
        const char *text;
    } cases[] = {
        {"{\"alerts\":[{\"name\":\"stuck_decode\",\"raised\":false,\"reason\":\"it "
         "moves\"},{\"name\":\"x\",\"raised\":false,\"reason\":\"\"}]}",
         CHECK_PASSED, "none of 2 is raised"},
        {"{\"alerts\":[{\"name\":\"table_reload\",\"raised\":true,\"reason\":\"cut\"}]}", CHECK_WARNING,
         "table_reload: cut"},
        {"{\"alerts\":[{\"name\":\"table_divergence\",\"raised\":true,\"reason\":\"token "
         "1\"},{\"name\":\"rollout_step_back\",\"raised\":true,"
         "\"reason\":\"back\"}]}",
         CHECK_CRITICAL, "table_divergence: token 1; rollout_step_back: back"},
        {"{\"alerts\":[{\"name\":3,\"raised\":true},null,[]]}", CHECK_PASSED, "none of 3 is raised"},
        {"{}", CHECK_SKIPPED, "does not say"},
        {"no JSON", CHECK_SKIPPED, "does not say"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct checkup checkup = {0};
        doctor_alerts(&checkup, cases[i].answer);
        assert_int_equal(checkup.count, 1);
        assert_int_equal(checkup.list[0].level, cases[i].level);
        assert_non_null(strstr(checkup.list[0].text, cases[i].text));
        checkup_free(&checkup);
    }
}

static void test_metrics_text(void **state) {
    (void)state;
    static const char text[] = "# HELP a_total what } it \"is\n# TYPE a_total counter\n"
                               "a_total{x=\"1\",y=\"a,b\"} 2\na_total{x=\"2\",y=\"q\\\"}\"} 3 "
                               "1700000000000\na_totals 9\nb 1e3\nc +Inf\nd NaN\n"
                               "broken{x=\"1\" 5\ne\n";
    assert_true(fabs(metrics_value(text, "a_total", NULL) - 5) < 1e-12);
    assert_true(fabs(metrics_value(text, "a_total", "x=\"2\"") - 3) < 1e-12);
    assert_true(fabs(metrics_value(text, "b", "") - 1000) < 1e-12);
    assert_true(isinf(metrics_value(text, "c", NULL)));
    assert_true(isnan(metrics_value(text, "d", NULL)));
    assert_true(isnan(metrics_value(text, "a", NULL)));
    assert_true(isnan(metrics_value(text, "a_total", "x=\"3\"")));
    assert_true(isnan(metrics_value(text, "broken", NULL)));
    char label[8];
    assert_true(metrics_label(text, "a_total", "y", label, sizeof label));
    assert_string_equal(label, "a,b");
    assert_true(metrics_label("i{n=\"long label's value\"} 1\n", "i", "n", label, sizeof label));
    assert_string_equal(label, "long la");
    assert_false(metrics_label(text, "a_total", "z", label, sizeof label));
    char which[12];
    static const char raised[] =
        "w{n=\"one\"} 0\nw{n=\"two\"} 1\nw{n=\"three\"} 2\nw{m=\"x\"} 1\nw{n=\"nan\"} NaN\n";
    assert_true(metrics_which(raised, "w", "n", which, sizeof which));
    assert_string_equal(which, "two, three");
    assert_true(metrics_which(raised, "w", "n", which, 8)); /* cut, and ended */
    assert_int_equal(strlen(which), 7);
    assert_false(metrics_which(raised, "w", "k", which, sizeof which));
    assert_false(metrics_good(text));
    assert_true(metrics_good("# HELP a\na 1\n\nb{c=\"d\"} 2.5\n"));
    assert_false(metrics_good("a NaN\n"));
}

/* A label's value with a comma in it is one label. */
static void test_metrics_commas(void **state) {
    (void)state;
    assert_true(isnan(metrics_value("a{x=\"1,y=2\"} 1\n", "a", "y=2")));
}

static bool reads(const char *answer, int status, const char *body) {
    char *bytes = text_copy(answer);
    struct http_page page = {0};
    bool good = http_read(bytes, strlen(bytes), &page);
    if (good && body != NULL) assert_string_equal(page.body, body);
    if (good) assert_int_equal(page.status, status);
    if (!good) assert_true(page.why[0] != '\0');
    free(bytes);
    return good;
}

static void test_http(void **state) {
    (void)state;
    assert_true(reads("HTTP/1.1 200 OK\r\nA: b\r\n\r\nhello", 200, "hello"));
    assert_true(reads("HTTP/1.0 503 No\r\n\r\n", 503, ""));
    assert_true(
        reads("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n",
              200, "abcde"));
    assert_false(reads("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab", 0, NULL));
    assert_false(
        reads("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nab", 0, NULL));
    assert_false(reads("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nab", 0, NULL));
    assert_false(reads("SSH-2.0-x\r\n\r\n", 0, NULL));
    assert_false(reads("HTTP/1.1 200 OK\r\n", 0, NULL));
    assert_false(reads("", 0, NULL));
    struct http_page page;
    static const char *const bad[] = {"https://x",        "http://",      "ftp://x",           "http://x:y/",
                                      "http://x:1234567", "http://x/a b", "http://127.0.0.1:1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(http_get(bad[i], "/", NULL, 1000, &page));
        assert_true(page.why[0] != '\0');
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_healthy),        cmocka_unit_test(test_machine_faults),
        cmocka_unit_test(test_codes),          cmocka_unit_test(test_server),
        cmocka_unit_test(test_alerts),         cmocka_unit_test(test_metrics_text),
        cmocka_unit_test(test_metrics_commas), cmocka_unit_test(test_http),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
