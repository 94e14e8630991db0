/* test_pace.c - the turns between the heads, on costs that the test makes up: no clock is read. */
#include "pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct costs {
    double head, dense_draw, certified;
};

/* Decode `count` times; how often certified, and what it all cost against the dense head alone. */
static int decode(struct wane__pace *pace, int rows, const struct costs *c, int count, double *extra) {
    int certified = 0;
    for (int i = 0; i < count; i++) {
        enum wane__pace_choice choice = wane__pace_choose(pace, rows);
        double dense = c->head + rows * c->dense_draw, cost = dense;
        if (choice == WANE__PACE_MEASURE) wane__pace_note_head(pace, rows, c->head);
        if (choice == WANE__PACE_CERTIFIED) cost = rows * c->certified;
        wane__pace_note_draws(pace, choice == WANE__PACE_CERTIFIED, rows,
                              choice == WANE__PACE_CERTIFIED ? cost : rows * c->dense_draw);
        certified += choice == WANE__PACE_CERTIFIED;
        *extra += cost - dense;
    }
    return certified;
}

static void test_stays_where_it_pays(void **unused) {
    struct wane__pace pace;
    struct costs c = {6, 0.5, 1};
    double extra = 0;
    (void)unused;
    wane__pace_init(&pace);
    assert_int_equal(decode(&pace, 1, &c, 500, &extra), 498); /* two to measure */
    c = (struct costs){8, 0.5, 1};                            /* another width is measured anew */
    assert_int_equal(decode(&pace, 4, &c, 500, &extra), 498);
    assert_true(extra < 0);
}

static void test_backs_off_where_it_does_not(void **unused) {
    struct wane__pace pace;
    struct costs flat = {6, 0.5, 8};
    double extra = 0;
    (void)unused;
    wane__pace_init(&pace);
    decode(&pace, 1, &flat, 2000, &extra);
    assert_true(extra > 0 && extra < 0.02 * 2000 * 6.5);
    /* It tries again, rarely; and it is back as soon as it pays. */
    int tries = decode(&pace, 1, &flat, 4000, &extra);
    assert_true(tries > 0 && tries < 60);
    struct costs good = {6, 0.5, 1};
    decode(&pace, 1, &good, 1100, &extra);
    assert_int_equal(decode(&pace, 1, &good, 100, &extra), 100);
}

static void test_another_reply_is_tried_at_once(void **unused) {
    struct wane__pace pace;
    struct costs flat = {6, 0.5, 8}, good = {6, 0.5, 1};
    double extra = 0;
    (void)unused;
    wane__pace_init(&pace);
    decode(&pace, 1, &flat, 1000, &extra);
    wane__pace_begin(&pace);
    assert_true(decode(&pace, 1, &good, 100, &extra) >= 99);
}

static void test_always(void **unused) {
    struct wane__pace pace;
    struct costs flat = {6, 0.5, 80};
    double extra = 0;
    (void)unused;
    wane__pace_init(&pace);
    pace.always = true;
    assert_int_equal(decode(&pace, 1, &flat, 100, &extra), 100);
    assert_int_equal(decode(&pace, 200, &flat, 100, &extra), 100);
    pace.always = false;
    decode(&pace, 200, &flat, 100, &extra); /* wider than the table */
    assert_int_equal(wane__pace_choose(&pace, 0), WANE__PACE_CERTIFIED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stays_where_it_pays),
        cmocka_unit_test(test_backs_off_where_it_does_not),
        cmocka_unit_test(test_another_reply_is_tried_at_once),
        cmocka_unit_test(test_always),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
