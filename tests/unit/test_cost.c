/* test_cost.c - what tokens cost: the arithmetic by hand, rates from each source, and sources from which nothing follows. */
#include "cost.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static bool near(double a, double b) {
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

/* 10,000 tokens at 50 a second are 200 s; half of the time idle, 400 s are paid. */
static void test_arithmetic(void **state) {
    (void)state;
    struct cost_rate rate = {.tokens_per_second = 50, .utilisation = 0.5};
    struct cost_prices prices = {
        .machine_hour = 0.9, .watts = 90, .kilowatt_hour = 0.3, .gigabyte = 0.1, .bytes_per_token = 250};
    struct cost_sum sum;
    cost_of(&rate, &prices, &sum);
    assert_true(near(sum.seconds, 400));
    assert_true(near(sum.machine, 0.1));
    assert_true(near(sum.kilowatt_hours, 0.01) && near(sum.power, 0.003));
    assert_true(near(sum.gigabytes, 0.0025) && near(sum.network, 0.00025));
    assert_true(near(sum.all, 0.10325));
    prices = (struct cost_prices){.machine_hour = 3.6};
    rate.utilisation = 1;
    cost_of(&rate, &prices, &sum);
    assert_true(near(sum.all, 0.2) && sum.power <= 0 && sum.network <= 0);
}

static const char layer[] =
    "{\"bench\":\"layer\",\"streams\":[{\"streams\":1,\"modes\":[{\"mode\":\"off\",\"qps\":1},{\"mode\":"
    "\"wane\",\"qps\":0.5}]},"
    "{\"streams\":8,\"modes\":[{\"mode\":\"off\",\"qps\":4},{\"mode\":\"wane\",\"qps\":3}]},"
    "{\"streams\":4,\"modes\":[{\"mode\":\"off\",\"qps\":2},{\"mode\":\"wane\",\"qps\":2}]}],"
    "\"modes\":[{\"mode\":\"off\",\"requests\":10,\"tokens\":640},{\"mode\":\"wane\",\"requests\":10,"
    "\"tokens\":600}]}";

static const char *bench(struct cost_rates *rates, const char *text, const char *name, int streams) {
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    *rates = (struct cost_rates){.count = 0};
    const char *fault = cost_from_bench(rates, json, name, streams);
    json_decref(json);
    return fault;
}

static void test_layer(void **state) {
    (void)state;
    struct cost_rates r;
    assert_null(bench(&r, layer, NULL, 0)); /* the widest, wherever it stands */
    assert_int_equal(r.count, 2);
    assert_string_equal(r.list[0].mode, "off");
    assert_true(near(r.list[0].tokens_per_second, 4 * 64) && near(r.list[1].tokens_per_second, 3 * 60));
    assert_null(bench(&r, layer, NULL, 1));
    assert_true(near(r.list[1].tokens_per_second, 0.5 * 60));
    assert_non_null(bench(&r, layer, NULL, 2));
    assert_non_null(bench(&r, layer, "mine", 0));
}

static void test_protocol(void **state) {
    (void)state;
    struct cost_rates r;
    static const char text[] = "{\"bench\":\"protocol\",\"mode\":\"legacy\",\"requests\":10,\"streams\":4,"
                               "\"metrics\":{\"tokens_per_second\":80.5}}";
    assert_null(bench(&r, text, NULL, 0));
    assert_string_equal(r.list[0].mode, "legacy");
    assert_true(near(r.list[0].tokens_per_second, 80.5));
    assert_null(bench(&r, text, "mine", 0));
    assert_string_equal(r.list[0].mode, "mine");
}

static void test_metrics(void **state) {
    (void)state;
    struct cost_rates r = {.count = 0};
    assert_null(cost_from_metrics(
        &r,
        "wane_reply_tokens_total 1100\nwane_spare_tokens_total 100\nwane_busy_seconds_total 20\n"
        "wane_uptime_seconds 80\n",
        NULL));
    assert_string_equal(r.list[0].mode, "live");
    assert_true(near(r.list[0].tokens_per_second, 50) && near(r.list[0].utilisation, 0.25));
    assert_null(cost_from_metrics(
        &r, "wane_reply_tokens_total 10\nwane_busy_seconds_total 2\nwane_uptime_seconds 1.9\n", "x"));
    assert_true(near(r.list[1].utilisation, 1)); /* two clocks, read one after the other */
    assert_string_equal(r.list[1].mode, "x");
    static const char *const bad[] = {
        "", "wane_reply_tokens_total 0\nwane_busy_seconds_total 0\nwane_uptime_seconds 5\n",
        "wane_reply_tokens_total 5\nwane_busy_seconds_total 1\n",
        "wane_reply_tokens_total NaN\nwane_busy_seconds_total 1\nwane_uptime_seconds 1\n",
        ("wane_reply_tokens_total 5\nwane_spare_tokens_total 5\n"
         "wane_busy_seconds_total 1\nwane_uptime_seconds 1\n")};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_non_null(cost_from_metrics(&r, bad[i], NULL));
        assert_int_equal(r.count, 2);
    }
}

static void test_no_results(void **state) {
    (void)state;
    struct cost_rates r;
    static const char *const bad[] = {
        "{}",
        "{\"bench\":\"decode\"}",
        "{\"bench\":\"layer\"}",
        "{\"bench\":\"layer\",\"streams\":[{}]}",
        "{\"bench\":\"layer\",\"streams\":[{\"streams\":1,\"modes\":[{\"mode\":\"off\"}]}]}",
        "{\"bench\":\"layer\",\"streams\":[{\"streams\":1,\"modes\":[{\"mode\":\"off\",\"qps\":1}]}],"
        "\"modes\":[{\"mode\":\"off\","
        "\"requests\":0,\"tokens\":1}]}",
        "{\"bench\":\"protocol\",\"mode\":\"off\"}",
        "{\"bench\":\"protocol\",\"metrics\":{\"tokens_per_second\":-1}}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_non_null(bench(&r, bad[i], NULL, 0));
    r = (struct cost_rates){.count = COST_RATES_MOST};
    assert_non_null(
        cost_from_metrics(&r, "wane_reply_tokens_total 5\nwane_busy_seconds_total 1\nwane_uptime_seconds 1\n",
                          NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arithmetic), cmocka_unit_test(test_layer),      cmocka_unit_test(test_protocol),
        cmocka_unit_test(test_metrics),    cmocka_unit_test(test_no_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
