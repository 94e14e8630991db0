/* test_live.c - the ring of samples: differences, what is dropped, readers that are slow, and rows that programs can read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/live.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

static void add(struct wane__live *live, int64_t at, double tokens, double busy) {
    double now[WANE__LIVE_FIELDS] = {0};
    now[WANE__LIVE_SLOTS_BUSY] = busy;
    now[WANE__LIVE_REPLY_TOKENS] = tokens;
    wane__live_add(live, at, 1, now);
}

/* One value of a row, as a reader finds it: by the field's name. */
static double value(struct wane__live *live, uint64_t number, const char *name) {
    struct wane__buf fields = {0}, row = {0};
    wane__buf_text(&fields, "{");
    wane__live_put_fields(&fields);
    wane__buf_text(&fields, "}");
    json_t *head = json_loadb(fields.data, fields.size, 0, NULL);
    assert_non_null(head);
    assert_true(wane__live_row(live, number, &row));
    json_t *list = json_loadb(row.data, row.size, 0, NULL), *names = json_object_get(head, "fields");
    assert_non_null(list);
    assert_int_equal(json_array_size(list), json_array_size(names));
    double found = NAN;
    for (size_t i = 0; i < json_array_size(names); i++)
        if (strcmp(json_string_value(json_array_get(names, i)), name) == 0)
            found = json_number_value(json_array_get(list, i));
    json_decref(head);
    json_decref(list);
    wane__buf_free(&fields);
    wane__buf_free(&row);
    return found;
}

static void test_counters_become_differences(void **state) {
    (void)state;
    struct wane__live *live = wane__live_new();
    struct wane__buf none = {0};
    add(live, 1000, 70, 1);
    assert_false(wane__live_row(live, 1, &none)); /* nothing to differ from yet */
    assert_int_equal(none.size, 0);
    add(live, 2000, 75, 2);
    add(live, 3000, 75, 0);
    assert_true(value(live, 1, "reply_tokens") == 5 && value(live, 1, "slots_busy") == 2);
    assert_true(value(live, 1, "at_ms") == 2000 && value(live, 1, "seconds") == 1);
    assert_true(value(live, 2, "reply_tokens") == 0 && value(live, 2, "slots_busy") == 0);
    add(live, 4000, 3, 0); /* a counter that fell was made anew: no sample is negative */
    assert_true(value(live, 3, "reply_tokens") == 0);
    wane__live_free(live);
}

static void test_the_ring_keeps_the_newest(void **state) {
    (void)state;
    struct wane__live *live = wane__live_new();
    struct wane__buf out = {0};
    for (int i = 0; i <= WANE__LIVE_SAMPLES + 20; i++) add(live, i, 10.0 * i, 0);
    assert_false(wane__live_row(live, 20, &out));
    assert_true(value(live, 21, "at_ms") == 21);
    assert_true(value(live, WANE__LIVE_SAMPLES + 20, "reply_tokens") == 10);
    wane__buf_text(&out, "[");
    assert_int_equal(wane__live_rows(live, &out), WANE__LIVE_SAMPLES + 20);
    wane__buf_text(&out, "]");
    json_t *all = json_loadb(out.data, out.size, 0, NULL);
    assert_int_equal(json_array_size(all), WANE__LIVE_SAMPLES);
    json_decref(all);
    wane__buf_free(&out);
    wane__live_free(live);
}

static void test_times_fall_into_buckets(void **state) {
    (void)state;
    struct wane__live *live = wane__live_new();
    struct wane__buf row = {0};
    for (int i = 0; i + 1 < WANE__LIVE_BUCKETS; i++) {
        double low = WANE__LIVE_LEAST_MS * exp2((double)i / WANE__LIVE_PER_OCTAVE);
        assert_int_equal(wane__live_bucket(low * 1.01), i);
    }
    assert_int_equal(wane__live_bucket(0), 0);
    assert_int_equal(wane__live_bucket(NAN), 0);
    assert_int_equal(wane__live_bucket(INFINITY), WANE__LIVE_BUCKETS - 1);
    add(live, 1000, 0, 0);
    wane__live_reply(live, 1.0, -1); /* one token: there is no further one */
    wane__live_reply(live, 1.0, 0.5);
    wane__live_reply(live, NAN, 0.5);
    add(live, 2000, 0, 0);
    add(live, 3000, 0, 0);
    assert_true(wane__live_row(live, 1, &row));
    assert_non_null(strstr(row.data, ",[[8,2]],[[4,2]]]"));
    wane__buf_clear(&row);
    assert_true(wane__live_row(live, 2, &row));
    assert_non_null(strstr(row.data, ",[],[]]"));
    wane__buf_free(&row);
    wane__live_free(live);
}

static void test_slow_readers_lose_samples(void **state) {
    (void)state;
    struct wane__live *live = wane__live_new();
    uint64_t next = 0, dropped = 0;
    add(live, 0, 0, 0);
    assert_true(wane__live_enter(live, &next));
    assert_int_equal(next, 1);
    assert_int_equal(wane__live_wait(live, 0, &next, &dropped), 0);
    for (int i = 1; i <= WANE__LIVE_BEHIND_MOST + 1; i++) add(live, i, 0, 0);
    assert_int_equal(wane__live_wait(live, 0, &next, &dropped), 1); /* just not too slow */
    assert_int_equal(next, 1);
    assert_int_equal(dropped, 0);
    add(live, 99, 0, 0);
    assert_int_equal(wane__live_wait(live, 0, &next, &dropped), 1);
    assert_int_equal(next, WANE__LIVE_BEHIND_MOST + 2);
    assert_int_equal(dropped, WANE__LIVE_BEHIND_MOST + 1);
    assert_int_equal(live->dropped, dropped);
    wane__live_end(live);
    assert_int_equal(wane__live_wait(live, 60, &next, &dropped), -1);
    wane__live_leave(live);
    assert_int_equal(live->viewers, 0);
    wane__live_free(live);
}

static void test_so_many_readers(void **state) {
    (void)state;
    struct wane__live *live = wane__live_new();
    uint64_t next;
    for (int i = 0; i < WANE__LIVE_VIEWERS_MOST; i++) assert_true(wane__live_enter(live, &next));
    assert_false(wane__live_enter(live, &next));
    wane__live_leave(live);
    assert_true(wane__live_enter(live, &next));
    wane__live_end(live);
    wane__live_leave(live);
    assert_false(wane__live_enter(live, &next)); /* it is over */
    wane__live_free(live);
}

static void test_every_field_has_its_name(void **state) {
    (void)state;
    for (int i = 0; i < WANE__LIVE_FIELDS; i++) {
        assert_non_null(wane__live_name(i));
        for (int j = 0; j < i; j++) assert_string_not_equal(wane__live_name(i), wane__live_name(j));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counters_become_differences),
        cmocka_unit_test(test_the_ring_keeps_the_newest),
        cmocka_unit_test(test_times_fall_into_buckets),
        cmocka_unit_test(test_slow_readers_lose_samples),
        cmocka_unit_test(test_so_many_readers),
        cmocka_unit_test(test_every_field_has_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
