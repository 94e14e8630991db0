/*
 * test_model_table.c - a model with a table, from the session down: what counts as which hit, that no hit changes a token
 * unless it was asked for, and what is refused. On the scripted engine, whose logits are known: the favoured token's, and
 * one less for each step of distance in id.
 */
#include "test_scheduler_rig.h"

#include "model_table.h"
#include "sample/order.h"
#include "unit/gate_rig.h"

#include <math.h>
#include <unistd.h>

enum { STEPS = 8, MOST = 64 };

static const char prompt[] = "abc";
static const int32_t reply[STEPS] = {'p', 'g', 'q', 'h', 'r', 'i', 's', 'j'};
static const struct wane__script_reply fixed[] = {
    {.match = "abc", .tokens = reply, .count = STEPS, .fail_at = -1}};
static char folder[] = "/tmp/wane-model-table-XXXXXX", path[64];

static wane_model *model_of(const struct wane__script_reply *replies) {
    struct wane__script script = {.replies = replies, .reply_count = 1};
    struct wane__engine *engine;
    wane_model *model;
    wane_error error = {0};
    assert_int_equal(wane__script_load(&script, NULL, &engine, &error), WANE_OK);
    assert_int_equal(wane__model_wrap(engine, NULL, NULL, &model, &error), WANE_OK);
    return model;
}

/* The five best when `favoured` is. */
static void peak(int32_t favoured, float shift, struct wane__candidate top[5]) {
    static const int32_t away[5] = {0, -1, 1, -2, 2};
    for (int i = 0; i < 5; i++)
        top[i] = (struct wane__candidate){favoured + away[i], 10 - (float)abs(away[i]) + shift};
}

static int compare_entries(const void *left, const void *right) {
    uint64_t a = ((const struct wane__slmt_entry *)left)->key.window,
             b = ((const struct wane__slmt_entry *)right)->key.window;
    return a < b ? -1 : a > b;
}

/* A table of the fixed reply's contexts, for a tenant; `top` says what is stored at a step. */
static void write_table(wane_model *model, const char *tenant,
                        void (*top)(int step, struct wane__candidate *)) {
    int32_t token[3 + STEPS] = {'a', 'b', 'c'};
    struct wane__slmt_entry entry[STEPS];
    struct wane__slmt_content content = {.window = 3, .depth = 5, .entry = entry, .entry_count = STEPS};
    wane_error error = {0};
    memcpy(token + 3, reply, sizeof reply);
    for (int i = 0; i < STEPS; i++) {
        entry[i] = (struct wane__slmt_entry){
            .key = {wane__context_window(wane__context_tenant(tenant), token + 3 + i, 3), 0},
            .seen = 2,
            .top_count = 5};
        top(i, entry[i].top);
    }
    qsort(entry, STEPS, sizeof *entry, compare_entries);
    assert_int_equal(wane__model_origin(model, &content.origin, &error), WANE_OK);
    if (wane__slmt_write(path, &content, &error) != WANE_OK) fail_msg("%s", error.text);
}

static void right(int step, struct wane__candidate *top) {
    peak(reply[step], 0, top);
}
static void nearly(int step, struct wane__candidate *top) {
    peak(reply[step], step % 2 ? 0.9e-4f : 2e-4f, top);
}
static void wrong(int step, struct wane__candidate *top) {
    peak(reply[step] + 20, 0, top);
}
static void biased(int step, struct wane__candidate *top) { /* as they are when the bias below is at work */
    peak(reply[step], 0, top);
    top[0].logit -= 8;
    for (int i = 1; i < 5; i++) top[i - 1] = top[i];
    top[4] = (struct wane__candidate){reply[step] - 3, 7};
}

static wane_table_use use_of(int meaning) {
    wane_table_use use;
    wane_table_use_init(&use);
    use.path = path;
    use.meaning = meaning;
    use.poll_ms = 0;
    return use;
}

static void give_table(wane_model *model, int meaning) {
    wane_table_use use = use_of(meaning);
    wane_error error = {0};
    if (wane_model_set_table(model, &use, &error) != WANE_OK) fail_msg("%s", error.text);
}

struct said {
    int count;
    int32_t token[MOST];
    float logprob[MOST];
};

static struct said say_to(wane_model *model, const char *text, const wane_generation *generation) {
    int32_t token[16];
    struct said said = {0};
    for (size_t i = 0; i < strlen(text); i++) token[i] = text[i];
    wane_session *session;
    wane_error error = {0};
    wane_event event;
    assert_int_equal(wane_session_new(model, &session, &error), WANE_OK);
    if (wane_session_start(session, token, strlen(text), generation, &error) != WANE_OK)
        fail_msg("%s", error.text);
    while (wane_session_next(session, &event, &error) == WANE_OK && event.kind == WANE_EVENT_TEXT) {
        said.token[said.count] = event.token;
        said.logprob[said.count++] = event.has_logprob ? event.logprob : 0;
    }
    wane_session_free(session);
    return said;
}

static struct said say(wane_model *model, const wane_generation *generation) {
    return say_to(model, prompt, generation);
}

static wane_table_state state_of(wane_model *model) {
    wane_table_state state;
    wane_model_get_table_state(model, &state);
    return state;
}

static wane_generation drawn(int count) {
    wane_generation generation = greedy(count);
    generation.sampling.temperature = 2;
    generation.sampling.top_k = 0;
    generation.sampling.top_p = 1;
    generation.sampling.min_p = 0;
    generation.sampling.seeded = true;
    generation.sampling.seed = 7;
    generation.ignore_end = true;
    return generation;
}

static void test_strict_hits(void **unused) {
    (void)unused;
    wane_model *model = model_of(fixed);
    wane_generation generation = greedy(STEPS);
    assert_false(state_of(model).given);
    struct said plain = say(model, &generation);
    write_table(model, "", right);
    give_table(model, WANE_TABLE_EXACT);
    struct said with = say(model, &generation);
    assert_int_equal(with.count, STEPS);
    assert_memory_equal(with.token, plain.token, sizeof plain.token);
    wane_table_state state = state_of(model);
    assert_true(state.given && state.on && state.entries == STEPS);
    assert_int_equal(state.strict, STEPS);
    assert_int_equal(state.rank + state.miss + state.absent + state.taken, 0);
    assert_int_equal(state.source[WANE_TABLE_MEAN], STEPS);
    wane_model_free(model);
}

static void test_tolerance_and_misses(void **unused) {
    (void)unused;
    wane_model *model = model_of(fixed);
    wane_generation generation = greedy(STEPS);
    write_table(model, "", nearly);
    give_table(model, WANE_TABLE_EXACT);
    say(model, &generation);
    /* The other half is no rank hit either: this engine's five best carry 93 %. */
    assert_int_equal(state_of(model).strict, STEPS / 2);
    assert_int_equal(state_of(model).miss, STEPS / 2);
    write_table(model, "", wrong);
    assert_int_equal(wane_model_reload_table(model, NULL), WANE_OK);
    struct said said = say(model, &generation);
    assert_memory_equal(said.token, reply, sizeof reply);
    assert_int_equal(state_of(model).miss, STEPS / 2 + STEPS);
    wane_model_free(model);
}

/* One context a step: the same five tokens, a logit off: where they carry 95 %, that is enough. */
static void test_rank_hits(void **unused) {
    (void)unused;
    static float logits[384];
    static const struct wane__script_reply own[] = {
        {.match = "abc", .tokens = reply, .count = STEPS, .fail_at = -1, .logits = logits}};
    logits['p'] = 12;
    logits['q'] = 8;
    wane_model *model = model_of(own);
    struct wane__slmt_entry entry = {.seen = 1, .top_count = 2, .top = {{'p', 13}, {'q', 8.5f}}};
    struct wane__slmt_content content = {.window = 3, .depth = 5, .entry = &entry, .entry_count = 1};
    const int32_t token[3] = {'a', 'b', 'c'};
    wane_generation generation = greedy(1);
    wane_error error = {0};
    entry.key.window = wane__context_window(wane__context_tenant(""), token + 3, 3);
    assert_int_equal(wane__model_origin(model, &content.origin, &error), WANE_OK);
    assert_int_equal(wane__slmt_write(path, &content, &error), WANE_OK);
    give_table(model, WANE_TABLE_EXACT);
    say(model, &generation);
    assert_int_equal(state_of(model).rank, 1);
    logits['q'] = 11; /* 27 % now: two tokens carry it, in this order */
    say(model, &generation);
    assert_int_equal(state_of(model).rank, 2);
    logits['q'] = 12.5f; /* the other way round */
    say(model, &generation);
    assert_int_equal(state_of(model).rank, 2);
    assert_int_equal(state_of(model).miss, 1);
    wane_model_free(model);
}

static void test_exact_changes_nothing(void **unused) {
    (void)unused;
    wane_model *model = model_of(fixed);
    write_table(model, "", right);
    for (uint64_t seed = 0; seed < 50; seed++) {
        wane_generation generation = drawn(STEPS);
        generation.sampling.seed = seed;
        generation.sampling.top_logprobs = seed % 2 ? 3 : -1;
        wane_table_use none = use_of(0);
        none.path = NULL;
        assert_int_equal(wane_model_set_table(model, &none, NULL), WANE_OK);
        struct said plain = say(model, &generation);
        give_table(model, WANE_TABLE_EXACT);
        struct said with = say(model, &generation);
        assert_memory_equal(&plain, &with, sizeof plain);
    }
    wane_model_free(model);
}

static void test_argmax_takes_the_first(void **unused) {
    (void)unused;
    wane_model *model = model_of(fixed);
    write_table(model, "", right);
    give_table(model, WANE_TABLE_ARGMAX);
    uint64_t strict = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        wane_generation generation = drawn(STEPS);
        generation.sampling.seed = seed;
        generation.sampling.top_logprobs = 0;
        struct said said = say(model, &generation);
        assert_memory_equal(said.token, reply,
                            sizeof reply); /* each first token leads into the next context */
        for (int i = 0; i < STEPS; i++)    /* the logprob is the taken token's, not the drawn one's */
            assert_true(fabsf(said.logprob[i] - said.logprob[0]) < 0.05f && said.logprob[i] < -0.7f &&
                        said.logprob[i] > -0.9f);
        strict += STEPS;
    }
    assert_int_equal(state_of(model).strict, strict);
    assert_true(state_of(model).taken > strict / 8 && state_of(model).taken < strict);
    wane_model_free(model);
}

/* A reply without the table is the plain one, also where the table would take part in the choice. */
static void test_without(void **unused) {
    (void)unused;
    wane_model *model = model_of(fixed);
    write_table(model, "", right);
    for (uint64_t seed = 0; seed < 6; seed++) {
        wane_generation generation = drawn(STEPS);
        generation.sampling.seed = seed;
        wane_table_use none = use_of(0);
        none.path = NULL;
        assert_int_equal(wane_model_set_table(model, &none, NULL), WANE_OK);
        struct said plain = say(model, &generation);
        give_table(model, WANE_TABLE_ARGMAX);
        generation.without = 1u << WANE_FEATURE_TABLE;
        struct said without = say(model, &generation);
        assert_memory_equal(&plain, &without, sizeof plain);
        generation.without = 0;
        wane_model_switch_off(model, 1u << WANE_FEATURE_TABLE);
        struct said switched = say(model, &generation);
        assert_memory_equal(&plain, &switched, sizeof plain);
        assert_int_equal(state_of(model).strict + state_of(model).miss + state_of(model).absent, 0);
        wane_model_switch_on(model, 1u << WANE_FEATURE_TABLE);
        say(model, &generation);
        assert_int_equal(state_of(model).strict, STEPS);
    }
    wane_model_free(model);
}

/* What is compared is what the processors leave. */
static void test_processors_come_first(void **unused) {
    (void)unused;
    wane_model *model = model_of(fixed);
    wane_bias bias[STEPS];
    wane_generation generation = greedy(1);
    for (int i = 0; i < STEPS; i++) bias[i] = (wane_bias){reply[i], -8};
    write_table(model, "", biased);
    give_table(model, WANE_TABLE_EXACT);
    say(model, &generation);
    assert_int_equal(state_of(model).strict, 0);
    generation.sampling.bias = bias;
    generation.sampling.bias_count = 1; /* only the first token's */
    say(model, &generation);
    assert_int_equal(state_of(model).strict, 1);
    wane_model_free(model);
}

static void test_tenants(void **unused) {
    (void)unused;
    wane_model *model = model_of(fixed);
    write_table(model, "ada", right);
    give_table(model, WANE_TABLE_EXACT);
    wane_generation generation = greedy(STEPS);
    say(model, &generation);
    generation.tenant = "bob";
    say(model, &generation);
    assert_int_equal(state_of(model).absent, 2 * STEPS);
    generation.tenant = "ada";
    say(model, &generation);
    assert_int_equal(state_of(model).strict, STEPS);
    wane_model_free(model);
}

/* The gate lets tokens pass in contexts that the table knows, without a look; those that are due for a forced check it looks at. */
static void test_gate_passes_hits(void **unused) {
    (void)unused;
    static struct wane__gate_net net;
    struct wane__trace_origin origin;
    wane_model *model = model_of(fixed);
    wane_quality quality;
    wane_gate_state gate_state;
    char gate_path[80];
    wane_error error = {0};
    assert_int_equal(wane__model_origin(model, &origin, &error), WANE_OK);
    struct wane__gate_made made = gate_made(origin.model, origin.tokenizer);
    struct wane__gate *gate = gate_of(&made, &net, NULL, 0);
    snprintf(gate_path, sizeof gate_path, "%s/x.gate", folder);
    assert_int_equal(wane__gate_write(gate, gate_path, &error), WANE_OK);
    wane__gate_free(gate);
    assert_int_equal(wane_model_set_gate(model, gate_path, &error), WANE_OK);
    write_table(model, "", right);
    give_table(model, WANE_TABLE_EXACT);
    wane_quality_init(&quality);
    quality.fuse = WANE_FUSE_OFF; /* loops of a scripted language are its own affair */
    quality.mode = WANE_MODE_WANE;
    for (uint64_t seed = 0; seed < 50; seed++) {
        wane_generation generation = drawn(STEPS);
        generation.sampling.seed = seed;
        generation.quality = &quality;
        quality.forced_every = seed % 2 ? 1 : 0;
        say(model, &generation);
    }
    wane_table_state state = state_of(model);
    wane_model_get_gate_state(model, &gate_state);
    uint64_t hits = state.strict + state.rank, all = 50 * STEPS;
    assert_true(hits > 50 && hits < all);
    assert_true(gate_state.forced == all / 2 && gate_state.judged > all / 2);
    assert_int_equal(gate_state.judged + gate_state.table_passed, all);
    assert_true(gate_state.table_passed > hits / 4 && gate_state.table_passed < hits);
    unlink(gate_path);
    wane_model_free(model);
}

static void test_turned_off(void **unused) {
    (void)unused;
    wane_model *model = model_of(fixed);
    wane_generation generation = greedy(STEPS);
    wane_error error = {0};
    write_table(model, "", right);
    give_table(model, WANE_TABLE_EXACT);
    assert_int_equal(truncate(path, 5000), 0);
    assert_int_equal(wane_model_reload_table(model, &error), WANE_EFORMAT);
    assert_non_null(strstr(error.text, "turned off"));
    struct said said = say(model, &generation);
    assert_memory_equal(said.token, reply, sizeof reply);
    wane_table_state state = state_of(model);
    assert_true(state.given && !state.on && state.strict == 0 && state.absent == 0);
    write_table(model, "", right);
    assert_int_equal(wane_model_reload_table(model, &error), WANE_OK);
    say(model, &generation);
    assert_int_equal(state_of(model).strict, STEPS);
    wane_model_free(model);
}

static void test_refused(void **unused) {
    (void)unused;
    wane_model *model = model_of(fixed);
    wane_session *session;
    wane_table_use use = use_of(0);
    wane_error error = {0};
    assert_int_equal(wane_model_reload_table(model, &error), WANE_ENOENT);
    unlink(path);
    assert_int_equal(wane_model_set_table(model, &use, &error), WANE_ENOENT);
    write_table(model, "", right);
    assert_int_equal(wane_session_new(model, &session, &error), WANE_OK);
    assert_int_equal(wane_model_set_table(model, &use, &error), WANE_EBUSY);
    wane_session_free(session);
    use.key = "/nonexistent.pub";
    assert_int_equal(wane_model_set_table(model, &use, &error), WANE_ENOENT);
    use.key = NULL;
    use.meaning = 2;
    assert_int_equal(wane_model_set_table(model, &use, &error), WANE_EINVAL);
    use = use_of(0);
    use.tolerance = NAN;
    assert_int_equal(wane_model_set_table(model, &use, &error), WANE_EINVAL);
    use = use_of(0);
    use.share = 0;
    assert_int_equal(wane_model_set_table(model, &use, &error), WANE_EINVAL);
    use = use_of(0);
    use.poll_ms = -1;
    assert_int_equal(wane_model_set_table(model, &use, &error), WANE_EINVAL);
    /* Other tokens, another tokenizer. */
    const char *const pieces[] = {"x"};
    struct wane__script script = {.replies = fixed, .reply_count = 1, .pieces = pieces, .piece_count = 1};
    struct wane__engine *engine;
    wane_model *other;
    assert_int_equal(wane__script_load(&script, NULL, &engine, &error), WANE_OK);
    assert_int_equal(wane__model_wrap(engine, NULL, NULL, &other, &error), WANE_OK);
    use = use_of(0);
    assert_int_equal(wane_model_set_table(other, &use, &error), WANE_EUNSUPPORTED);
    assert_non_null(strstr(error.text, "another tokenizer"));
    wane_model_free(other);
    wane_model_free(model);
}

/* A table of the fixed reply's contexts, each recorded whole; its entries are of no use. */
static void write_whole(wane_model *model, void (*top)(int step, struct wane__candidate *)) {
    int32_t token[3 + STEPS] = {'a', 'b', 'c'};
    struct wane__slmt_entry entry[STEPS];
    struct wane__slmt_position position[STEPS];
    struct wane__slmt_content content = {.window = 3,
                                         .depth = 5,
                                         .entry = entry,
                                         .entry_count = STEPS,
                                         .position = position,
                                         .position_count = STEPS};
    wane_error error = {0};
    memcpy(token + 3, reply, sizeof reply);
    for (int i = 0; i < STEPS; i++) {
        uint64_t tenant = wane__context_tenant("");
        entry[i] = (struct wane__slmt_entry){.key = {wane__context_window(tenant, token + 3 + i, 3), 0},
                                             .seen = (uint32_t)i,
                                             .top_count = 5};
        wrong(i, entry[i].top);
    }
    qsort(entry, STEPS, sizeof *entry, compare_entries);
    for (uint32_t e = 0; e < STEPS; e++) {
        struct wane__context_name name = wane__context_begin(wane__context_tenant(""));
        uint32_t step = entry[e].seen;
        for (uint32_t i = 0; i < 3 + step; i++) name = wane__context_add(name, token[i]);
        position[e] = (struct wane__slmt_position){.entry = e,
                                                   .index = step,
                                                   .context = (uint32_t)name.low,
                                                   .top_count = 5};
        top((int)step, position[e].top);
    }
    assert_int_equal(wane__model_origin(model, &content.origin, &error), WANE_OK);
    if (wane__slmt_write(path, &content, &error) != WANE_OK) fail_msg("%s", error.text);
}

/* The name of the whole context grows with the reply: records of this very context answer, others' at the same place next. */
static void test_whole_contexts(void **unused) {
    (void)unused;
    wane_model *model = model_of(fixed);
    wane_generation generation = greedy(STEPS);
    write_whole(model, right);
    give_table(model, WANE_TABLE_EXACT);
    say(model, &generation);
    assert_int_equal(state_of(model).source[WANE_TABLE_CONTEXT], STEPS);
    assert_int_equal(state_of(model).strict, STEPS);
    say_to(model, "zabc", &generation); /* the same windows and places behind another beginning */
    assert_int_equal(state_of(model).source[WANE_TABLE_INDEX], STEPS);
    assert_int_equal(state_of(model).strict, 2 * STEPS);
    wane_model_free(model);
}

static void wrong_once(int step, struct wane__candidate *top) {
    peak(reply[step] + (step == 2 ? 20 : 0), 0, top);
}
static void wrong_elsewhere(int step, struct wane__candidate *top) {
    peak(reply[step] + (step == 3 ? 20 : 0), 0, top);
}
static void second_first(int step,
                         struct wane__candidate *top) { /* as floats of another batch might have it */
    right(step, top);
    if (step != 2) return;
    top[0].token = reply[step] - 1;
    top[1].token = reply[step];
}

static wane_divergence_state divergences_of(wane_model *model) {
    wane_divergence_state state;
    wane_model_get_divergences(model, WANE_WATCHED_TABLE, &state);
    return state;
}

/* A record of this very context that is not what the model says there: found, never used, and after three the table is off. */
static void test_divergence(void **unused) {
    (void)unused;
    for (int meaning = WANE_TABLE_EXACT; meaning <= WANE_TABLE_ARGMAX; meaning++) {
        wane_model *model = model_of(fixed);
        wane_generation generation = greedy(STEPS);
        write_whole(model, wrong_once);
        give_table(model, meaning);
        for (uint64_t i = 1; i <= 3; i++) {
            assert_true(state_of(model).on);
            struct said said = say(model, &generation);
            assert_memory_equal(said.token, reply, sizeof reply);
            assert_int_equal(divergences_of(model).divergences, i);
        }
        wane_divergence_state d = divergences_of(model);
        assert_true(d.off && d.since == 3 && d.limit == 3);
        assert_int_equal(d.checks, 2 * STEPS + 3); /* the third time nothing was looked up behind it */
        assert_non_null(strstr(d.last, "token 133 first"));
        assert_non_null(strstr(d.last, "the model says token 113"));
        wane_table_state off = state_of(model);
        assert_true(off.given && !off.on && off.diverged);
        assert_non_null(strstr(off.reason, "Switched off after 3 divergences"));
        struct said said = say(model, &generation);
        assert_memory_equal(said.token, reply, sizeof reply);
        assert_int_equal(state_of(model).source[WANE_TABLE_CONTEXT], off.source[WANE_TABLE_CONTEXT]);
        /* The same table again is the same table; another one is armed by being there. */
        assert_int_equal(wane_model_reload_table(model, NULL), WANE_OK);
        assert_false(state_of(model).on);
        write_whole(model, meaning == WANE_TABLE_EXACT ? right : wrong_elsewhere);
        assert_int_equal(wane_model_reload_table(model, NULL), WANE_OK);
        assert_true(state_of(model).on && !state_of(model).diverged);
        assert_int_equal(divergences_of(model).since, 0);
        say(model, &generation);
        assert_true(state_of(model).strict > off.strict);
        assert_int_equal(divergences_of(model).divergences, meaning == WANE_TABLE_EXACT ? 3 : 4);
        wane_model_free(model);
    }
}

static void test_divergence_by_hand(void **unused) {
    (void)unused;
    wane_model *model = model_of(fixed);
    wane_generation generation = greedy(STEPS);
    wane_error error = {0};
    write_whole(model, wrong_once);
    give_table(model, WANE_TABLE_EXACT);
    assert_int_equal(wane_model_set_divergence_limit(model, 1, &error), WANE_OK);
    say(model, &generation);
    assert_false(state_of(model).on);
    assert_int_equal(wane_model_arm(model, WANE_WATCHED, &error), WANE_EINVAL);
    assert_int_equal(wane_model_arm(model, WANE_WATCHED_TABLE, &error), WANE_OK);
    assert_true(state_of(model).on);
    say(model, &generation);
    assert_false(state_of(model).on);
    assert_int_equal(divergences_of(model).divergences, 2);
    give_table(model, WANE_TABLE_EXACT); /* given anew */
    assert_true(state_of(model).on);
    assert_int_equal(wane_model_set_divergence_limit(model, 0, &error), WANE_OK);
    for (int i = 0; i < 10; i++) say(model, &generation);
    assert_true(state_of(model).on);
    assert_int_equal(divergences_of(model).since, 10);
    assert_int_equal(wane_model_set_divergence_limit(model, 2000000, &error), WANE_EINVAL);
    wane_model_free(model);
}

/* No divergence: what lies as close as floats of two batches, what processors changed, what is no record of this context. */
static void test_no_divergence(void **unused) {
    (void)unused;
    wane_model *model = model_of(fixed);
    wane_generation generation = greedy(STEPS);
    const wane_bias bias = {reply[2], -8};
    write_whole(model, second_first);
    give_table(model, WANE_TABLE_EXACT);
    say(model, &generation);
    assert_int_equal(state_of(model).miss, 1);
    assert_int_equal(divergences_of(model).checks, STEPS);
    write_whole(model, wrong_once);
    assert_int_equal(wane_model_reload_table(model, NULL), WANE_OK);
    generation.sampling.bias = &bias;
    generation.sampling.bias_count = 1;
    say(model, &generation);
    generation = greedy(STEPS);
    say_to(model, "zabc", &generation);
    assert_int_equal(divergences_of(model).divergences, 0);
    assert_int_equal(divergences_of(model).checks, STEPS);
    write_table(model, "", wrong); /* means, of whatever contexts */
    assert_int_equal(wane_model_reload_table(model, NULL), WANE_OK);
    say(model, &generation);
    assert_int_equal(divergences_of(model).divergences, 0);
    wane_model_free(model);
}

/* On the certified head sums are known within bounds only: a rank hit is where the exact sums say so, and nowhere else. */
static void test_rank_hits_of_the_certified_head(void **unused) {
    (void)unused;
    enum { COUNT = 40 };
    wane_model_options options;
    struct wane__script script = {.linear = true, .context = 512, .batch = 256, .peak = 24};
    struct wane__engine *engine;
    wane_model *model;
    wane_session *session;
    wane_error error = {0};
    wane_event event;
    int32_t token[3 + COUNT] = {'a', 'b', 'c'};
    struct wane__candidate top[COUNT][5];
    double carried[COUNT];
    int hits = 0;
    wane_model_options_init(&options);
    options.head_folder = folder;
    options.head_always = true;
    options.shadow = 0;
    assert_int_equal(wane__script_load(&script, NULL, &engine, &error), WANE_OK);
    assert_int_equal(wane__model_wrap(engine, NULL, NULL, &model, &error), WANE_OK);
    snprintf(model->digest, sizeof model->digest, "00112233445566778899aabbccddeeff");
    assert_int_equal(wane__model_head_open(model, &options, &error), WANE_OK);
    wane_head_state head;
    wane_model_get_head_state(model, &head);
    assert_true(head.certified);
    /* The exact logprobs of each context's five best. */
    wane_generation generation = greedy(COUNT);
    generation.ignore_end = true;
    generation.sampling.top_logprobs = 5;
    assert_int_equal(wane_session_new(model, &session, &error), WANE_OK);
    assert_int_equal(wane_session_start(session, token, 3, &generation, &error), WANE_OK);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(wane_session_next(session, &event, &error), WANE_OK);
        token[3 + i] = event.token;
        carried[i] = 0;
        for (int k = 0; k < 5; k++) {
            top[i][k] = (struct wane__candidate){event.top[k].token, event.top[k].logprob};
            carried[i] += exp((double)event.top[k].logprob);
        }
    }
    wane_session_free(session);
    /* Each context by itself, in a table of its own: logprobs are logits but for a shift, so that nothing is strict. */
    generation.sampling.top_logprobs = -1;
    generation.max_tokens = 1;
    for (int i = 0; i < COUNT; i++) {
        struct wane__slmt_entry entry = {.seen = 1, .top_count = 5};
        struct wane__slmt_content content = {.window = 3, .depth = 5, .entry = &entry, .entry_count = 1};
        memcpy(entry.top, top[i], sizeof entry.top);
        entry.key.window = wane__context_window(wane__context_tenant(""), token + 3 + i, 3);
        assert_int_equal(wane__model_origin(model, &content.origin, &error), WANE_OK);
        assert_int_equal(wane__slmt_write(path, &content, &error), WANE_OK);
        give_table(model, WANE_TABLE_EXACT);
        assert_int_equal(wane_session_new(model, &session, &error), WANE_OK);
        assert_int_equal(wane_session_start(session, token, 3 + (size_t)i, &generation, &error), WANE_OK);
        assert_int_equal(wane_session_next(session, &event, &error), WANE_OK);
        wane_session_free(session);
        assert_int_equal(event.token, token[3 + i]);
        assert_int_equal(state_of(model).strict, 0);
        if (state_of(model).rank == 1) assert_true(carried[i] >= 0.95 - 1e-6);
        if (carried[i] < 0.95 - 1e-6) assert_int_equal(state_of(model).miss, 1);
        hits += (int)state_of(model).rank;
    }
    int possible = 0;
    for (int i = 0; i < COUNT; i++) possible += carried[i] >= 0.95;
    if (possible == 0 || hits < possible / 2 || hits > possible)
        fail_msg("%d hits where %d contexts carry the share", hits, possible);
    wane_model_free(model);
}

static void test_public_handle(void **unused) {
    (void)unused;
    wane_model *model = model_of(fixed);
    wane_table *table;
    wane_table_facts facts;
    wane_table_row rows[20];
    wane_table_answer answer;
    wane_error error = {0};
    const int32_t token[5] = {'a', 'b', 'c', 'p', 'g'};
    write_table(model, "", right);
    assert_int_equal(wane_table_open(path, model, NULL, &table, &error), WANE_OK);
    wane_table_get_facts(table, &facts);
    assert_true(facts.entries == STEPS && facts.window == 3 && facts.seen == 2 * STEPS && !facts.verified);
    assert_int_equal(wane_table_hottest(table, 20, rows), STEPS);
    assert_int_equal(wane_table_hottest(table, 3, rows), 3);
    assert_int_equal(wane_table_hottest(table, 0, rows), 0);
    assert_true(wane_table_lookup(table, NULL, token, 5, 2, &answer));
    assert_true(answer.top[0].token == reply[2] && answer.source == WANE_TABLE_MEAN && answer.top_count == 5);
    assert_false(wane_table_lookup(table, "ada", token, 5, 2, &answer));
    assert_false(wane_table_lookup(table, NULL, token, 2, 0, &answer));
    assert_false(wane_table_lookup(table, NULL, token, 5, -1, &answer));
    wane_table_free(table);
    wane_table_free(NULL);
    wane_model_free(model);
}

int main(void) {
    if (mkdtemp(folder) == NULL) return 1;
    snprintf(path, sizeof path, "%s/t.slmt", folder);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strict_hits),
        cmocka_unit_test(test_tolerance_and_misses),
        cmocka_unit_test(test_rank_hits),
        cmocka_unit_test(test_exact_changes_nothing),
        cmocka_unit_test(test_argmax_takes_the_first),
        cmocka_unit_test(test_without),
        cmocka_unit_test(test_processors_come_first),
        cmocka_unit_test(test_tenants),
        cmocka_unit_test(test_gate_passes_hits),
        cmocka_unit_test(test_turned_off),
        cmocka_unit_test(test_whole_contexts),
        cmocka_unit_test(test_divergence),
        cmocka_unit_test(test_divergence_by_hand),
        cmocka_unit_test(test_no_divergence),
        cmocka_unit_test(test_rank_hits_of_the_certified_head),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_public_handle),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char sketch[128];
    snprintf(sketch, sizeof sketch, "rm -rf %s", folder); /* the sketch's name is its own business */
    return system(sketch) == 0 ? failed : 1;
}
