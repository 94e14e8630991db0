/* test_context.c - the names of contexts: fixed values, since files depend on them, and what must tell two apart. */
#include "table/context.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct wane__context_name name_of(uint64_t tenant, const int32_t *token, int count) {
    struct wane__context_name name = wane__context_begin(tenant);
    for (int i = 0; i < count; i++) name = wane__context_add(name, token[i]);
    return name;
}

static int same(struct wane__context_name a, struct wane__context_name b) {
    return a.low == b.low && a.high == b.high;
}

/* The same bytes were given to an independent implementation, zlib. */
static void test_ten(void **state) {
    (void)state;
    const int32_t token[11] = {99, 0, 1, 2, 3, 4, 5, 6, 7, 8, 128000};
    assert_int_equal(wane__context_ten(token + 11), 0x5b31dcc5u);
}

static void test_tenants_never_meet(void **state) {
    (void)state;
    const int32_t token[4] = {5, 6, 7, 8};
    uint64_t a = wane__context_tenant("a"), b = wane__context_tenant("b"), none = wane__context_tenant("");
    assert_true(a != b && a != none && b != none);
    assert_true(wane__context_window(a, token + 4, 3) != wane__context_window(b, token + 4, 3));
    assert_false(same(name_of(a, token, 4), name_of(b, token, 4)));
}

static void test_window_holds_its_tokens_only(void **state) {
    (void)state;
    const int32_t one[5] = {1, 2, 5, 6, 7}, other[5] = {9, 9, 5, 6, 7};
    assert_true(wane__context_window(1, one + 5, 3) == wane__context_window(1, other + 5, 3));
    assert_true(wane__context_window(1, one + 5, 4) != wane__context_window(1, other + 5, 4));
    assert_true(wane__context_window(1, one + 5, 2) != wane__context_window(1, one + 5, 3));
}

/* Every change of one token, every swap of neighbours, every shorter and longer context has a name of its own. */
static void test_whole_context(void **state) {
    (void)state;
    enum { COUNT = 64 };
    int32_t token[COUNT];
    for (int i = 0; i < COUNT; i++) token[i] = i * 7919 % 50000;
    struct wane__context_name seen[4 * COUNT];
    int count = 0;
    for (int i = 0; i <= COUNT; i++) seen[count++] = name_of(3, token, i);
    for (int i = 0; i < COUNT; i++) {
        token[i] ^= 1;
        seen[count++] = name_of(3, token, COUNT);
        token[i] ^= 1;
        if (i + 1 == COUNT) break;
        int32_t kept = token[i];
        token[i] = token[i + 1];
        token[i + 1] = kept;
        seen[count++] = name_of(3, token, COUNT);
        token[i + 1] = token[i];
        token[i] = kept;
    }
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++) assert_true(seen[i].low != seen[j].low && seen[i].high != seen[j].high);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ten),
        cmocka_unit_test(test_tenants_never_meet),
        cmocka_unit_test(test_window_holds_its_tokens_only),
        cmocka_unit_test(test_whole_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
