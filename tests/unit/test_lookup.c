/* test_lookup.c - which record answers for a context: the same one, the only one at its place, between two, or the means. */
#include "unit/slmt_rig.h"

enum { ENTRY = 3 };

/* One entry of a table of five, with these positions: (index, context, shift of all logits). */
struct spot {
    uint32_t index, context;
    float shift;
    bool other; /* with a token that the entry does not have */
};

static struct wane__slmt_hit ask(const struct spot *spot, uint32_t count, uint32_t index, uint32_t context) {
    struct rig rig;
    struct wane__slmt table = {0};
    struct wane__slmt_hit hit;
    size_t size;
    rig_init(&rig, 5, count, 0);
    struct wane__slmt_entry *e = &rig.entry[ENTRY];
    e->top_count = 3;
    for (int i = 0; i < 3; i++) e->top[i] = (struct wane__candidate){100 + i, 10.0f - (float)i};
    for (uint32_t i = 0; i < count; i++) {
        struct wane__slmt_position *p = &rig.position[i];
        *p = (struct wane__slmt_position){.entry = ENTRY,
                                          .index = spot[i].index,
                                          .context = spot[i].context,
                                          .top_count = 3};
        for (int k = 0; k < 3; k++)
            p->top[k] = (struct wane__candidate){100 + k, 10.0f - (float)k + spot[i].shift};
        if (spot[i].other) p->top[2].token = 500;
    }
    unsigned char *image = rig_image(&rig, &size);
    rig_parse(image, size, &table);
    assert_true(wane__slmt_lookup(&table, e->key, index, context, &hit));
    assert_ptr_equal(&table.slot[hit.slot], wane__slmt_find(&table, e->key));
    assert_false(wane__slmt_lookup(&table, (struct wane__slmt_key){e->key.window, e->key.ten ^ 2}, index,
                                   context, &(struct wane__slmt_hit){0}));
    wane__free(image);
    rig_free(&rig);
    return hit;
}

static void expect(struct wane__slmt_hit hit, enum wane__slmt_source source, float first) {
    assert_int_equal(hit.source, source);
    assert_int_equal(hit.top_count, 3);
    assert_true(fabsf(hit.top[0].logit - first) < 1e-5f);
    assert_int_equal(hit.top[0].token, 100);
}

static void test_without_positions(void **unused) {
    (void)unused;
    expect(ask(NULL, 0, 0, 0), WANE__SLMT_MEAN, 10);
    expect(ask(NULL, 0, 5000, 7), WANE__SLMT_MEAN, 10);
}

static void test_the_same_context_comes_first(void **unused) {
    (void)unused;
    static const struct spot spot[] = {{5, 10, 1, false},
                                       {5, 20, 2, false},
                                       {5, 30, 3, false},
                                       {1500, 9, 4, false}};
    expect(ask(spot, 4, 5, 10), WANE__SLMT_CONTEXT, 11);
    expect(ask(spot, 4, 5, 20), WANE__SLMT_CONTEXT, 12);
    expect(ask(spot, 4, 5, 30), WANE__SLMT_CONTEXT, 13);
    expect(ask(spot, 4, 1500, 9), WANE__SLMT_CONTEXT, 14);
    /* Three at one place, and none of this context: which one is meant is open. */
    expect(ask(spot, 4, 5, 5), WANE__SLMT_MEAN, 10);
    expect(ask(spot, 4, 5, 25), WANE__SLMT_MEAN, 10);
    expect(ask(spot, 4, 5, 99), WANE__SLMT_MEAN, 10);
}

static void test_the_only_one_at_its_place(void **unused) {
    (void)unused;
    static const struct spot spot[] = {{4, 50, 1, false},
                                       {5, 50, 2, false},
                                       {6, 50, 3, false},
                                       {1023, 50, 4, false}};
    for (uint32_t context = 49; context <= 51; context++) { /* before, at and behind the record's */
        enum wane__slmt_source source = context == 50 ? WANE__SLMT_CONTEXT : WANE__SLMT_INDEX;
        expect(ask(spot, 4, 4, context), source, 11);
        expect(ask(spot, 4, 5, context), source, 12);
        expect(ask(spot, 4, 1023, context), source, 14);
    }
    expect(ask(spot, 4, 7, 50), WANE__SLMT_MEAN, 10); /* below 1,024 nothing is interpolated */
    expect(ask(spot, 4, 1022, 50), WANE__SLMT_MEAN, 10);
    expect(ask(spot, 4, 0, 50), WANE__SLMT_MEAN, 10);
}

static void test_between_two(void **unused) {
    (void)unused;
    static const struct spot spot[] = {
        {900, 1, 0, false}, {1100, 1, 4, false}, {1200, 1, 8, true}, {1300, 1, 8, true}, {1300, 2, 9, true}};
    expect(ask(spot, 5, 1024, 1), WANE__SLMT_BETWEEN, 10 + 4 * 124.0f / 200);
    expect(ask(spot, 5, 1099, 77), WANE__SLMT_BETWEEN, 10 + 4 * 199.0f / 200);
    expect(ask(spot, 5, 1100, 77), WANE__SLMT_INDEX, 14);
    expect(ask(spot, 5, 1100, 0), WANE__SLMT_INDEX, 14);
    expect(ask(spot, 5, 1023, 1), WANE__SLMT_MEAN, 10);
    expect(ask(spot, 5, 1150, 1), WANE__SLMT_MEAN, 10); /* their tokens are not the same   */
    expect(ask(spot, 5, 1250, 1), WANE__SLMT_MEAN, 10); /* the upper one is not the only one */
    expect(ask(spot, 5, 1400, 1), WANE__SLMT_MEAN, 10); /* behind the last: no extrapolation */
    expect(ask(spot + 1, 4, 1050, 1), WANE__SLMT_MEAN, 10);
}

/* On the way from one record to the other the order of two tokens changes: the result is best first. */
static void test_between_changes_order(void **unused) {
    (void)unused;
    struct rig rig;
    struct wane__slmt table = {0};
    struct wane__slmt_hit hit;
    size_t size;
    rig_init(&rig, 1, 2, 0);
    rig.entry[0].top_count = 2;
    rig.entry[0].top[0] = (struct wane__candidate){7, 4};
    rig.entry[0].top[1] = (struct wane__candidate){9, 3};
    for (int i = 0; i < 2; i++)
        rig.position[i] = (struct wane__slmt_position){.entry = 0,
                                                       .index = 2000 + 100 * (uint32_t)i,
                                                       .context = 1,
                                                       .top_count = 2};
    rig.position[0].top[0] = (struct wane__candidate){7, 4};
    rig.position[0].top[1] = (struct wane__candidate){9, 0};
    rig.position[1].top[0] = (struct wane__candidate){9, 4};
    rig.position[1].top[1] = (struct wane__candidate){7, 0};
    unsigned char *image = rig_image(&rig, &size);
    rig_parse(image, size, &table);
    for (uint32_t index = 2000; index <= 2100; index++) {
        assert_true(wane__slmt_lookup(&table, rig.entry[0].key, index, 5, &hit));
        float seven = 4 - 4 * (float)(index - 2000) / 100;
        assert_int_equal(hit.top[0].token, seven >= 2 ? 7 : 9);
        assert_true(hit.top[0].logit >= hit.top[1].logit);
        assert_true(fabsf(hit.top[0].logit - fmaxf(seven, 4 - seven)) < 1e-5f);
    }
    wane__free(image);
    rig_free(&rig);
}

static void test_keys(void **unused) {
    (void)unused;
    static int32_t token[5000];
    struct wane__slmt_key key;
    for (int i = 0; i < 5000; i++) token[i] = i;
    assert_false(wane__slmt_key(1, 3, token + 2, 2, &key));
    assert_false(wane__slmt_key(1, 0, token + 2, 2, &key));
    assert_false(wane__slmt_key(1, 11, token + 20, 20, &key));
    assert_true(wane__slmt_key(1, 3, token + 3, 3, &key));
    assert_true(key.window == wane__context_window(1, token + 3, 3) && key.ten == 0);
    assert_true(wane__slmt_key(1, 3, token + 4095, 4095, &key));
    assert_int_equal(key.ten, 0);
    assert_true(wane__slmt_key(1, 3, token + 4096, 4096, &key));
    assert_int_equal(key.ten, wane__context_ten(token + 4096));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_positions),         cmocka_unit_test(test_the_same_context_comes_first),
        cmocka_unit_test(test_the_only_one_at_its_place), cmocka_unit_test(test_between_two),
        cmocka_unit_test(test_between_changes_order),     cmocka_unit_test(test_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
