/* test_diagnose.c - made-up runs: each layer alone is found, and the first one is named; what has no common ground is not compared. */
#include "diagnose.h"
#include "text.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The library is not needed for a comparison. */
enum { PROMPT = 4, REPLY = 3 };

/* A prompt 1 2 3 4 and a reply 10 11 12; the best of position i are 10 + i and its neighbours. */
static struct side make(void) {
    struct side s = {.count = REPLY, .vocab_size = 100};
    s.options = text_copy("");
    s.prompt.id = malloc(PROMPT * sizeof *s.prompt.id);
    s.prompt.count = s.prompt.capacity = PROMPT;
    for (int i = 0; i < PROMPT; i++) s.prompt.id[i] = i + 1;
    s.seen = text_alloc(REPLY * sizeof *s.seen);
    for (int i = 0; i < REPLY; i++) {
        s.seen[i].look = (wane_look){.index = i, .token = 10 + i, .best_count = 3};
        for (int j = 0; j < 3; j++) s.seen[i].best[j] = (wane_candidate){10 + i + j, 5.0f - (float)j};
    }
    s.end = (wane_look_end){.held = PROMPT + REPLY - 1,
                            .kv_type_k = "f16",
                            .kv_type_v = "f16",
                            .settings = "x",
                            .state_bytes = 100,
                            .state_hash = 7};
    return s;
}

static struct parting compare(void (*change)(struct side *), double tolerance) {
    struct side a = make(), b = make();
    struct parting p;
    if (change != NULL) change(&b);
    diagnose_compare(&a, &b, tolerance, &p);
    struct parting back;
    diagnose_compare(&b, &a, tolerance, &back); /* who is called a makes no difference */
    assert_int_equal(p.first, back.first);
    for (int i = 0; i < LAYERS; i++) assert_int_equal(p.state[i], back.state[i]);
    side_free(&a);
    side_free(&b);
    return p;
}

static void test_same(void **state) {
    (void)state;
    struct parting p = compare(NULL, 0);
    assert_int_equal(p.first, LAYER_NONE);
    for (int i = 0; i < LAYERS; i++) assert_int_equal(p.state[i], LAYER_SAME);
    assert_int_equal(p.positions, REPLY);
    assert_string_equal(layer_id_name(p.first), "none");
}

static void other_prompt(struct side *s) {
    s->prompt.id[2] = 50;
    s->seen[1].look.token = 99;
}
static void shorter_prompt(struct side *s) {
    s->prompt.count--;
}

static void test_tokens(void **state) {
    (void)state;
    struct parting p = compare(other_prompt, 0);
    assert_int_equal(p.first, LAYER_TOKENS);
    assert_int_equal(p.token_at, 2);
    assert_int_equal(p.token_a, 3);
    assert_int_equal(p.token_b, 50);
    assert_int_equal(p.state[LAYER_LOGITS], LAYER_UNKNOWN);
    assert_int_equal(p.state[LAYER_CHOICE], LAYER_UNKNOWN);
    p = compare(shorter_prompt, 0);
    assert_int_equal(p.token_at, 3);
    assert_int_equal(p.token_b, -1);
}

static void other_logit(struct side *s) {
    s->seen[1].best[2].logit += 0.25f;
    s->seen[2].best[1].logit -= 0.125f;
}
static void stranger(struct side *s) {
    s->seen[0].best[2].token = 77;
}
static void not_a_number(struct side *s) {
    s->seen[0].best[0].logit = NAN;
}
static void unseen(struct side *s) {
    for (int i = 0; i < REPLY; i++) s->seen[i].look.best_count = 0;
}

static void test_logits(void **state) {
    (void)state;
    struct parting p = compare(other_logit, 0);
    assert_int_equal(p.first, LAYER_LOGITS);
    assert_true(fabs(p.difference - 0.25) < 1e-6);
    assert_int_equal(p.logit_at, 1);
    assert_int_equal(p.logit_token, 13);
    assert_int_equal(compare(other_logit, 0.3).first, LAYER_NONE);
    assert_int_equal(compare(other_logit, 0.2).first, LAYER_LOGITS);
    p = compare(stranger, 0);
    assert_int_equal(p.first, LAYER_LOGITS);
    assert_int_equal(p.strangers, 2);
    assert_int_equal(compare(not_a_number, 100).first, LAYER_LOGITS);
    assert_int_equal(compare(unseen, 0).state[LAYER_LOGITS], LAYER_UNKNOWN);
    assert_int_equal(compare(unseen, 0).first, LAYER_NONE);
}

static void other_choice(struct side *s) {
    s->seen[1].look.token = 12;
    s->seen[2].best[0].logit = 100; /* of another context: does not count */
}
static void ends_early(struct side *s) {
    s->count = 2;
    s->end.held--;
}

static void test_choice(void **state) {
    (void)state;
    struct parting p = compare(other_choice, 0);
    assert_int_equal(p.first, LAYER_CHOICE);
    assert_int_equal(p.choice_at, 1);
    assert_int_equal(p.choice_a, 11);
    assert_int_equal(p.choice_b, 12);
    assert_int_equal(p.positions, 2); /* the row of the first other token is still of one context */
    assert_false(p.best_part);
    p = compare(ends_early, 0);
    assert_int_equal(p.first, LAYER_CHOICE);
    assert_int_equal(p.choice_b, -1);
    assert_int_equal(p.state[LAYER_KV], LAYER_PARTED);
    assert_true(p.kv_length);
}

static void other_types(struct side *s) {
    s->end.kv_type_v = "q8_0";
}
static void other_settings(struct side *s) {
    s->end.settings = "y";
}
static void other_bytes(struct side *s) {
    s->end.state_bytes = 90;
}
static void other_content(struct side *s) {
    s->end.state_hash = 8;
}
static void no_state(struct side *s) {
    s->end.state_bytes = s->end.state_hash = 0;
}

static void test_kv(void **state) {
    (void)state;
    assert_true(compare(other_types, 0).kv_types);
    assert_true(compare(other_settings, 0).kv_settings);
    assert_true(compare(other_bytes, 0).kv_bytes);
    assert_true(compare(other_content, 0).kv_content);
    assert_int_equal(compare(other_content, 0).first, LAYER_KV);
    assert_int_equal(compare(no_state, 0).first, LAYER_NONE); /* what cannot be told is no difference */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same),   cmocka_unit_test(test_tokens), cmocka_unit_test(test_logits),
        cmocka_unit_test(test_choice), cmocka_unit_test(test_kv),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
