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

/* docs/slmt.md has these; they were computed by another implementation (Python with xxhash and zlib). */
static void test_vectors(void **state) {
    (void)state;
    uint64_t none = wane__context_tenant(""), ada = wane__context_tenant("ada");
    assert_true(none == 0x2d06800538d394c2u && ada == 0x691d4463952c802fu);
    assert_true(wane__context_tenant("team/\xc3\xbc") == 0xe6112802459df048u);

    int32_t token[1000];
    const int32_t high = 128000, ten[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 128000};
    for (int i = 0; i < 1000; i++) token[i] = i;
    assert_true(wane__context_window(none, token + 4, 3) == 0x6a584b8f7a4b9b21u);
    assert_true(wane__context_window(ada, token + 4, 3) == 0x922460091e5fed8cu);
    assert_true(wane__context_window(none, &high + 1, 1) == 0xf31d03bfc9b9f2feu);
    assert_true(wane__context_window(none, token + 10, 10) == 0xc2de05b0d60f421fu);

    assert_int_equal(wane__context_ten(token + 10), 0x8def7902u);
    assert_int_equal(wane__context_ten(ten + 10), 0x5b31dcc5u);

    const struct {
        uint64_t tenant;
        int from, count;
        struct wane__context_name name;
    } whole[] = {
        {none, 0, 0, {0x59b0ed710b28abeeu, 0x4f3da31932ec307du}},
        {none, 1, 3, {0x82bf93bdc4bee7cfu, 0xe8563082f4403705u}},
        {ada, 0, 0, {0xa95ac18f4b64dfdfu, 0x197b6e84c3f39b3fu}},
        {ada, 1, 3, {0x9b051e0f48fa6f80u, 0x0662a6a485adee24u}},
        {none, 0, 1000, {0x526db3f8e8621ad0u, 0x1b235e76a2ca7840u}},
    };
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        assert_true(same(name_of(whole[i].tenant, token + whole[i].from, whole[i].count), whole[i].name));
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
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_tenants_never_meet),
        cmocka_unit_test(test_window_holds_its_tokens_only),
        cmocka_unit_test(test_whole_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
