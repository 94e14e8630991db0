/* test_phrases.c - the phrase classifier learns what can be learned, the same each time, and believes no bytes. */
#include "table/phrases.h"

#include "core/memory.h"
#include "core/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 8000, TOKENS = 50 };

/* A continuation is followed after some tokens and not after others, but for some noise; or by chance alone. */
static struct wane__phrases_example *make(bool by_chance) {
    struct wane__phrases_example *all = wane__alloc_zero(COUNT, sizeof *all);
    for (uint32_t i = 0; i < COUNT; i++) {
        int32_t last[4], follow[6];
        for (int k = 0; k < 4; k++) last[k] = (int32_t)(wane__random_bits(1, i * 4 + (uint32_t)k) % TOKENS);
        int32_t phrase = (int32_t)(wane__random_bits(2, i) % 20);
        for (int k = 0; k < 6; k++) follow[k] = 100 + phrase * 6 + k;
        bool follows = (last[3] + phrase) % 3 == 0;
        if (by_chance || wane__random_unit(3, i) < 0.05) follows = wane__random_unit(4, i) < 0.5;
        all[i].hash = wane__mix64(i);
        all[i].owner = (uint32_t)phrase;
        all[i].whole = follows;
        all[i].share = follows ? 1.0f : (float)(wane__random_bits(5, i) % 5) / 6;
        all[i].held = wane__random_bits(6, i) % 5 == 0;
        wane__phrases_features(last, 4, follow, 6, all[i].feature);
    }
    return all;
}

static void test_learns(void **state) {
    (void)state;
    struct wane__phrases_example *all = make(false), *chance = make(true);
    struct wane__phrases *phrases, *again;
    size_t held;
    assert_int_equal(wane__phrases_train(all, COUNT, &phrases, NULL, NULL, NULL), WANE_OK);
    double auc = wane__phrases_auc(phrases, all, COUNT, true, &held);
    if (!(auc > 0.85)) fail_msg("AUC %g", auc);
    assert_true(held > COUNT / 6 && held < COUNT / 4);
    /* Another order of the same examples: the same weights. */
    struct wane__phrases_example moved = all[0];
    memmove(all, all + 1, (COUNT - 1) * sizeof *all);
    all[COUNT - 1] = moved;
    assert_int_equal(wane__phrases_train(all, COUNT, &again, NULL, NULL, NULL), WANE_OK);
    for (int i = 0; i < COUNT; i += 97)
        assert_true(wane__phrases_score(phrases, all[i].feature) ==
                    wane__phrases_score(again, all[i].feature));
    wane__phrases_free(phrases);
    wane__phrases_free(again);
    /* Where there is nothing to learn, the held back show it. */
    assert_int_equal(wane__phrases_train(chance, COUNT, &phrases, NULL, NULL, NULL), WANE_OK);
    auc = wane__phrases_auc(phrases, chance, COUNT, true, NULL);
    assert_true(auc > 0.43 && auc < 0.57);
    wane__phrases_free(phrases);
    wane__free(all);
    wane__free(chance);
}

/* By all pairs; equal scores count half. */
static void test_auc(void **state) {
    (void)state;
    struct wane__phrases_example *all = make(false);
    struct wane__phrases *phrases;
    assert_int_equal(wane__phrases_train(all, 300, &phrases, NULL, NULL, NULL), WANE_OK);
    double right = 0, pairs = 0;
    all[1] = all[0];
    all[1].whole = !all[0].whole;
    for (int i = 0; i < 300; i++)
        for (int j = 0; j < 300; j++) {
            if (!all[i].whole || all[j].whole) continue;
            float a = wane__phrases_score(phrases, all[i].feature),
                  b = wane__phrases_score(phrases, all[j].feature);
            right += a > b ? 1 : a < b ? 0 : 0.5;
            pairs++;
        }
    assert_true(fabs(wane__phrases_auc(phrases, all, 300, false, NULL) - right / pairs) < 1e-12);
    for (int i = 0; i < 300; i++) all[i].whole = true;
    assert_true(isnan(wane__phrases_auc(phrases, all, 300, false, NULL)));
    wane__phrases_free(phrases);
    wane__free(all);
}

static void test_bytes(void **state) {
    (void)state;
    struct wane__phrases_example *all = make(false);
    struct wane__phrases *phrases, *again;
    uint8_t *bytes;
    size_t size;
    assert_int_equal(wane__phrases_train(all, 500, &phrases, NULL, NULL, NULL), WANE_OK);
    assert_int_equal(wane__phrases_save(phrases, &bytes, &size, NULL), WANE_OK);
    assert_int_equal(wane__phrases_load(bytes, size, &again, NULL), WANE_OK);
    for (int i = 0; i < 500; i++)
        assert_true(wane__phrases_score(phrases, all[i].feature) ==
                    wane__phrases_score(again, all[i].feature));
    wane__phrases_free(again);
    wane_error error = {0};
    for (size_t at = 0; at < size; at += at < 40 ? 1 : 4999) {
        bytes[at] ^= 64;
        assert_int_equal(wane__phrases_load(bytes, size, &again, &error), WANE_EFORMAT);
        assert_null(again);
        bytes[at] ^= 64;
    }
    for (size_t cut = 0; cut < size; cut = cut * 3 + 1)
        assert_int_equal(wane__phrases_load(bytes, cut, &again, &error), WANE_EFORMAT);
    wane__free(bytes);
    wane__phrases_free(phrases);
    wane__free(all);
}

/* No context, no continuation, the longest of both. */
static void test_ends(void **state) {
    (void)state;
    struct wane__phrases_example *all = make(false);
    struct wane__phrases *phrases;
    int32_t tokens[64] = {0};
    assert_int_equal(wane__phrases_train(all, 0, &phrases, NULL, NULL, NULL), WANE_OK);
    for (int last = 0; last <= WANE__TEN; last += WANE__TEN)
        for (int follow = 0; follow <= 64; follow += 64) {
            float score = wane__phrases_expect(phrases, tokens, last, tokens, follow);
            assert_true(score > 0 && score < 1);
        }
    wane__phrases_free(phrases);
    wane__free(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_learns),
        cmocka_unit_test(test_auc),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
