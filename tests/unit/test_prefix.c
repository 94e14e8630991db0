/* The choice of a slot: longest start, least recently used, copies, and never across tenants. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/prefix.h"

static int32_t counting[100]; /* 0, 1, 2, … */
static int32_t fork_at_40[100];

static int set_up(void **state) {
    (void)state;
    for (int i = 0; i < 100; i++) {
        counting[i] = i;
        fork_at_40[i] = i < 40 ? i : 1000 + i;
    }
    return 0;
}

static void expect(struct wane__prefix_choice got, int slot, int from, int keep) {
    assert_int_equal(got.slot, slot);
    assert_int_equal(got.keep, keep);
    if (keep > 0) assert_int_equal(got.from, from);
}

static void test_empty_slots_first(void **state) {
    (void)state;
    struct wane__prefix_slot slots[] = {{fork_at_40 + 50, 50, "a", false, 7},
                                        {NULL, 0, NULL, false, 0},
                                        {fork_at_40 + 60, 40, "a", false, 3}};
    expect(wane__prefix_choose(slots, 3, counting, 50, "a", true), 1, 1, 0);
    slots[1].busy = true;
    expect(wane__prefix_choose(slots, 3, counting, 50, "a", true), 2, 2, 0); /* least recently used */
    slots[0].busy = slots[2].busy = true;
    assert_int_equal(wane__prefix_choose(slots, 3, counting, 50, "a", true).slot, -1);
}

static void test_longest_start_in_place(void **state) {
    (void)state;
    struct wane__prefix_slot slots[] = {{fork_at_40, 60, "a", false, 1},
                                        {counting, 60, "a", false, 2},
                                        {NULL, 0, NULL, false, 0}};
    expect(wane__prefix_choose(slots, 3, counting, 100, "a", true), 1, 1, 60);
    /* The last prompt token is computed again, also when all is known. */
    expect(wane__prefix_choose(slots, 3, counting, 60, "a", true), 1, 1, 59);
    expect(wane__prefix_choose(slots, 3, counting, 1, "a", true), 2, 2, 0);
}

static void test_a_long_conversation_is_not_overwritten_for_little(void **state) {
    (void)state;
    struct wane__prefix_slot slots[] = {{counting, 100, "a", false, 1}, {NULL, 0, NULL, false, 0}};
    int32_t other[60];
    for (int i = 0; i < 60; i++) other[i] = i < 3 ? i : 500 + i;
    expect(wane__prefix_choose(slots, 2, other, 60, "a", true), 1, 1, 0);
    /* What is worth keeping is copied; where that cannot be, in place. */
    expect(wane__prefix_choose(slots, 2, fork_at_40, 100, "a", true), 1, 0, 40);
    expect(wane__prefix_choose(slots, 2, fork_at_40, 100, "a", false), 0, 0, 40);
    slots[1].busy = true; /* nothing else is free */
    expect(wane__prefix_choose(slots, 2, other, 60, "a", true), 0, 0, 3);
}

static void test_copy_from_a_busy_slot(void **state) {
    (void)state;
    struct wane__prefix_slot slots[] = {{counting, 80, "a", true, 5},
                                        {fork_at_40, 70, "a", false, 2},
                                        {fork_at_40 + 50, 20, "a", false, 1}};
    expect(wane__prefix_choose(slots, 3, counting, 90, "a", true), 2, 0, 80);
    expect(wane__prefix_choose(slots, 3, counting, 90, "a", false), 1, 1, 40);
    slots[0].count = 50; /* 10 more are not worth a copy */
    expect(wane__prefix_choose(slots, 3, counting, 90, "a", true), 1, 1, 40);
}

static void test_never_across_tenants(void **state) {
    (void)state;
    struct wane__prefix_slot slots[] = {{counting, 80, "a", true, 5}, {counting, 70, "a", false, 2}};
    expect(wane__prefix_choose(slots, 2, counting, 90, "b", true), 1, 1, 0);
    expect(wane__prefix_choose(slots, 2, counting, 90, "", true), 1, 1, 0);
    expect(wane__prefix_choose(slots, 2, counting, 90, "aa", true), 1, 1, 0);
    expect(wane__prefix_choose(slots, 2, counting, 90, "a", true), 1, 1, 70);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty_slots_first),
        cmocka_unit_test(test_longest_start_in_place),
        cmocka_unit_test(test_a_long_conversation_is_not_overwritten_for_little),
        cmocka_unit_test(test_copy_from_a_busy_slot),
        cmocka_unit_test(test_never_across_tenants),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
