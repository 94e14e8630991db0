/*
 * test_rows.c - which head a batch gets, and that nobody can tell from the tokens: rows, layer, sessions and scheduler on
 * the scripted engine with a linear head.
 */
#include "test_scheduler_rig.h"

#include <sys/stat.h>
#include <unistd.h>

enum { TOKENS = 40, MOST = 20 };

static char folder[] = "/tmp/wane-rows-XXXXXX";

static struct wane__script linear(int sequences) {
    return (struct wane__script){.linear = true, .context = 512, .sequences = sequences, .batch = 256};
}

static wane_model *model_of(struct wane__script script, double shadow) {
    struct wane__engine *engine;
    wane_model *model;
    wane_error error = {0};
    wane_model_options options;
    wane_model_options_init(&options);
    options.head = WANE_HEAD_CERTIFIED;
    options.head_folder = folder;
    options.shadow = shadow;
    options.head_always = true;
    assert_int_equal(wane__script_load(&script, NULL, &engine, &error), WANE_OK);
    assert_int_equal(wane__model_wrap(engine, NULL, NULL, &model, &error), WANE_OK);
    snprintf(model->digest, sizeof model->digest, "00112233445566778899aabbccddeeff");
    assert_int_equal(wane__model_head_open(model, &options, &error), WANE_OK);
    return model;
}

static wane_head_state state_of(wane_model *model) {
    wane_head_state state;
    wane_model_get_head_state(model, &state);
    return state;
}

static wane_generation generation_of(float temperature, int top_k, uint64_t seed) {
    wane_generation g;
    wane_generation_init(&g);
    g.sampling.temperature = temperature;
    g.sampling.top_k = top_k;
    g.sampling.seeded = true;
    g.sampling.seed = seed;
    g.max_tokens = TOKENS;
    g.ignore_end = true;
    return g;
}

/* `count` replies at once; ids is count × TOKENS. The bits of `without` are requests that are without the certified head. */
static void mixed_replies(wane_model *model, int count, float temperature, int top_k, unsigned without,
                          int32_t *ids) {
    wane_scheduler_options options = quick_options();
    wane_scheduler *scheduler;
    wane_ticket *ticket[MOST];
    wane_error error = {0};
    options.window_ms = 5000;
    options.max_batch_requests = count;
    assert_int_equal(wane_scheduler_new(model, &options, &scheduler, &error), WANE_OK);
    for (int i = 0; i < count; i++) {
        int32_t prompt[] = {'p', 'r', 'o', 'm', 'p', 't', 'a' + i};
        wane_generation g = generation_of(temperature, top_k, 77 + (uint64_t)i);
        g.without = (without >> i & 1) != 0 ? 1u << WANE_FEATURE_HEAD : 0;
        assert_int_equal(wane_scheduler_submit(scheduler, prompt, 7, &g, &ticket[i], &error), WANE_OK);
    }
    for (int i = 0; i < count; i++) {
        for (int have = 0;;) {
            wane_event event;
            bool ended;
            assert_int_equal(wane_ticket_next(ticket[i], 20000, &event, &ended, &error), WANE_OK);
            if (event.kind == WANE_EVENT_END) break;
            if (event.kind == WANE_EVENT_TEXT) ids[i * TOKENS + have++] = event.token;
        }
        wane_ticket_free(ticket[i]);
    }
    wane_scheduler_free(scheduler);
}

static void replies(wane_model *model, int count, float temperature, int top_k, int32_t *ids) {
    mixed_replies(model, count, temperature, top_k, 0, ids);
}

static void one_reply(wane_model *model, float temperature, int32_t *ids) {
    wane_session *session;
    wane_error error = {0};
    wane_event event;
    int32_t prompt[] = {'h', 'i'};
    wane_generation g = generation_of(temperature, 0, 5);
    assert_int_equal(wane_session_new(model, &session, &error), WANE_OK);
    assert_int_equal(wane_session_start(session, prompt, 2, &g, &error), WANE_OK);
    for (int i = 0; i < TOKENS; i++) {
        assert_int_equal(wane_session_next(session, &event, &error), WANE_OK);
        ids[i] = event.token;
    }
    wane_session_free(session);
}

static void set_head(wane_model *model, int head) {
    wane_error error = {0};
    assert_int_equal(wane_model_set_head(model, head, &error), WANE_OK);
}

/* 20 rows in a batch are more than a scan takes. */
static void test_same_tokens(void **unused) {
    (void)unused;
    static int32_t dense[MOST * TOKENS], certified[MOST * TOKENS];
    wane_model *model = model_of(linear(MOST), 0);
    assert_true(state_of(model).certified);
    assert_string_equal(state_of(model).reason, "");
    for (int count = 1; count <= MOST; count += 19) {
        for (int sampler = 0; sampler < 3; sampler++) {
            float temperature = sampler == 0 ? 0 : 1.5f;
            int top_k = sampler == 2 ? 0 : 40;
            set_head(model, WANE_HEAD_DENSE);
            replies(model, count, temperature, top_k, dense);
            uint64_t rows = state_of(model).rows;
            set_head(model, WANE_HEAD_CERTIFIED);
            replies(model, count, temperature, top_k, certified);
            assert_memory_equal(dense, certified, (size_t)count * TOKENS * sizeof *dense);
            assert_int_equal(state_of(model).rows - rows, count * TOKENS);
        }
    }
    set_head(model, WANE_HEAD_DENSE);
    one_reply(model, 1, dense);
    set_head(model, WANE_HEAD_CERTIFIED);
    one_reply(model, 1, certified);
    assert_memory_equal(dense, certified, TOKENS * sizeof *dense);
    assert_int_equal(state_of(model).shadow_checks, 0);
    wane_model_free(model);
}

/* Where several rows would not be exact, they are dense; one is certified. */
static void test_narrow(void **unused) {
    (void)unused;
    static int32_t ids[4 * TOKENS];
    struct wane__script script = linear(4);
    script.narrow = true;
    wane_model *model = model_of(script, 0);
    replies(model, 4, 0, 40, ids);
    wane_head_state state = state_of(model);
    assert_true(state.dense_batch >= 3 * TOKENS && state.dense_off == 0);
    one_reply(model, 0, ids);
    assert_int_equal(state_of(model).rows, state.rows + TOKENS);
    assert_int_equal(state_of(model).dense_batch, state.dense_batch);
    wane_model_free(model);
}

static void test_shadow(void **unused) {
    (void)unused;
    static int32_t dense[4 * TOKENS], checked[4 * TOKENS];
    wane_model *model = model_of(linear(4), 1);
    replies(model, 4, 1.5f, 40, checked);
    wane_head_state state = state_of(model);
    assert_int_equal(state.shadow_checks, 4 * TOKENS);
    assert_int_equal(state.divergences, 0);
    assert_true(state.certified);
    set_head(model, WANE_HEAD_DENSE);
    replies(model, 4, 1.5f, 40, dense);
    assert_memory_equal(dense, checked, sizeof dense);
    assert_int_equal(state_of(model).shadow_checks, 4 * TOKENS);
    wane_model_free(model);
    model = model_of(linear(4), 0.1);
    for (int i = 0; i < 20; i++) one_reply(model, 0, checked);
    state = state_of(model);
    assert_in_range(state.shadow_checks, 40, 130); /* 800 tokens */
    wane_model_free(model);
}

/* Wrong logits are found, the engine's own token is used, and after three the head is off. */
static void test_divergence(void **unused) {
    (void)unused;
    static int32_t dense[TOKENS], checked[TOKENS];
    struct wane__script script = linear(1);
    script.rescore_lies = true;
    wane_model *model = model_of(script, 1);
    one_reply(model, 0, checked);
    wane_head_state state = state_of(model);
    assert_int_equal(state.divergences, WANE__DIVERGENCES_MOST);
    assert_int_equal(state.shadow_checks, WANE__DIVERGENCES_MOST);
    assert_int_equal(state.dense_off, TOKENS - WANE__DIVERGENCES_MOST);
    assert_false(state.certified);
    assert_non_null(strstr(state.reason, "divergences"));
    assert_int_equal(wane__model_lacks(model), 1u << WANE_FEATURE_HEAD);
    assert_int_equal(wane_model_switched_off(model), 0); /* nobody else did */
    set_head(model, WANE_HEAD_CERTIFIED);                /* does not bring it back */
    assert_false(state_of(model).certified);
    assert_non_null(strstr(state_of(model).reason, "divergences"));
    set_head(model, WANE_HEAD_DENSE);
    one_reply(model, 0, dense);
    assert_memory_equal(dense, checked, sizeof dense);
    /* Somebody who knows better may arm it: it diverges again. */
    set_head(model, WANE_HEAD_CERTIFIED);
    assert_int_equal(wane_model_arm(model, WANE_WATCHED_HEAD, NULL), WANE_OK);
    assert_true(state_of(model).certified && state_of(model).reason[0] == '\0');
    one_reply(model, 0, checked);
    assert_memory_equal(dense, checked, sizeof dense);
    assert_int_equal(state_of(model).divergences, 2 * WANE__DIVERGENCES_MOST);
    assert_false(state_of(model).certified);
    wane_model_free(model);
}

static void expect_reason(struct wane__script script, const char *words) {
    int32_t ids[TOKENS];
    wane_error error = {0};
    wane_model *model = model_of(script, 1);
    assert_false(state_of(model).certified);
    if (strstr(state_of(model).reason, words) == NULL) fail_msg("%s", state_of(model).reason);
    assert_int_equal(wane_model_set_head(model, WANE_HEAD_CERTIFIED, &error), WANE_EUNSUPPORTED);
    one_reply(model, 0, ids);
    assert_int_equal(state_of(model).dense_off, TOKENS);
    wane_model_free(model);
}

static void test_reasons(void **unused) {
    (void)unused;
    struct wane__script script = linear(1);
    script.recurrent = true;
    expect_reason(script, "recurrent");
    script = linear(1);
    script.linear = false;
    expect_reason(script, "cannot be read back");
    char kept[sizeof folder];
    memcpy(kept, folder, sizeof folder);
    memcpy(folder, "/dev/null/x", 12);
    expect_reason(linear(1), "/dev/null/x");
    memcpy(folder, kept, sizeof folder);
}

static void test_no_head(void **unused) {
    (void)unused;
    int32_t ids[TOKENS];
    wane_model *model = model_of(linear(1), 0);
    set_head(model, WANE_HEAD_NONE);
    one_reply(model, 0, ids);
    for (int i = 0; i < TOKENS; i++) assert_int_equal(ids[i], 'i');
    assert_int_equal(state_of(model).rows, 0);
    wane_model_free(model);
}

static void test_options(void **unused) {
    (void)unused;
    struct wane__script script = linear(1);
    struct wane__engine *engine;
    wane_model *model;
    wane_error error = {0};
    wane_model_options options;
    assert_int_equal(wane__script_load(&script, NULL, &engine, &error), WANE_OK);
    assert_int_equal(wane__model_wrap(engine, NULL, NULL, &model, &error), WANE_OK);
    wane_model_options_init(&options);
    options.shadow = 1.5;
    assert_int_equal(wane__model_head_open(model, &options, &error), WANE_EINVAL);
    assert_non_null(strstr(error.text, "shadow"));
    wane_model_options_init(&options);
    options.head_sigmas = 1;
    assert_int_equal(wane__model_head_open(model, &options, &error), WANE_EINVAL);
    wane_model_options_init(&options);
    options.head = WANE_HEAD_NONE;
    assert_int_equal(wane__model_head_open(model, &options, &error), WANE_EINVAL);
    wane_model_free(model);
}

/* A request without the certified head has the engine's own rows, whoever is beside it; the tokens are the same. */
static void test_without(void **unused) {
    (void)unused;
    static int32_t with[4 * TOKENS], without[4 * TOKENS];
    wane_model *model = model_of(linear(4), 1);
    replies(model, 4, 1.5f, 40, with);
    wane_head_state before = state_of(model);
    assert_int_equal(before.dense_without, 0);
    for (unsigned who = 1; who < 16; who += 7) {
        mixed_replies(model, 4, 1.5f, 40, who, without);
        assert_memory_equal(with, without, sizeof with);
    }
    wane_head_state after = state_of(model);
    assert_int_equal(after.rows, before.rows);
    assert_int_equal(after.shadow_checks, before.shadow_checks);
    assert_int_equal(after.dense_without, 3 * 4 * TOKENS);
    assert_true(after.certified);
    wane_model_free(model);
}

/* A breaker's switch holds for all, from the next token on, and can be taken back. */
static void test_switched_off(void **unused) {
    (void)unused;
    static int32_t on[TOKENS], off[TOKENS];
    wane_model *model = model_of(linear(1), 0);
    one_reply(model, 1, on);
    uint64_t rows = state_of(model).rows;
    assert_int_equal(wane_model_switch_off(model, 1u << WANE_FEATURE_HEAD), 0);
    assert_int_equal(wane_model_switch_off(model, 1u << WANE_FEATURE_TABLE | 1u << 31),
                     1u << WANE_FEATURE_HEAD);
    assert_int_equal(wane_model_switched_off(model), 1u << WANE_FEATURE_HEAD | 1u << WANE_FEATURE_TABLE);
    one_reply(model, 1, off);
    assert_memory_equal(on, off, sizeof on);
    wane_head_state state = state_of(model);
    assert_int_equal(state.rows, rows);
    assert_int_equal(state.dense_off, TOKENS);
    assert_false(state.certified);
    assert_string_equal(state.reason, "switched off");
    wane_model_switch_on(model, 1u << WANE_FEATURE_HEAD);
    assert_int_equal(wane_model_switched_off(model), 1u << WANE_FEATURE_TABLE);
    one_reply(model, 1, off);
    assert_memory_equal(on, off, sizeof on);
    assert_int_equal(state_of(model).rows, rows + TOKENS);
    assert_true(state_of(model).certified);
    assert_string_equal(state_of(model).reason, "");
    wane_model_free(model);
}

static int make(void **unused) {
    (void)unused;
    return mkdtemp(folder) == NULL;
}

static int sweep(void **unused) {
    (void)unused;
    char path[200];
    snprintf(path, sizeof path, "%s/00112233445566778899aabbccddeeff-2.sketch", folder);
    unlink(path);
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_tokens),  cmocka_unit_test(test_narrow),
        cmocka_unit_test(test_shadow),       cmocka_unit_test(test_divergence),
        cmocka_unit_test(test_reasons),      cmocka_unit_test(test_no_head),
        cmocka_unit_test(test_options),      cmocka_unit_test(test_without),
        cmocka_unit_test(test_switched_off),
    };
    return cmocka_run_group_tests(tests, make, sweep);
}
