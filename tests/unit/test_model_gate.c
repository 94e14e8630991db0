/*
 * test_model_gate.c - a model with a gate, on the scripted engine: verdicts are those of the row as a trace records it, tokens stay what
 * they were, doubt is spent where it should be and nowhere else, the breaker cools what comes after.
 */
#include "unit/gate_rig.h"
#include "unit/trace_rig.h"

#include "model.h"
#include "origin.h"

#include <math.h>

enum { MOST = 128 };

static char folder[] = "/tmp/wane-model-gate-XXXXXX", path[64];

static wane_model *make_model(bool linear) {
    struct wane__script script = {.sequences = 2, .linear = linear};
    struct wane__engine *engine = NULL;
    wane_model *model = NULL;
    assert_int_equal(wane__script_load(&script, NULL, &engine, NULL), WANE_OK);
    assert_int_equal(wane__model_wrap(engine, NULL, NULL, &model, NULL), WANE_OK);
    return model;
}

/* A gate of this model: odds are at_zero + slope · bin of the first gap; every other pattern of one gap is in the LUT. */
static void write_gate(wane_model *model, float at_zero, float slope) {
    static struct wane__gate_net net;
    struct wane__trace_origin origin;
    assert_int_equal(wane__model_origin(model, &origin, NULL), WANE_OK);
    struct wane__gate_made made = gate_made(origin.model, origin.tokenizer);
    static uint32_t pattern[4096];
    gate_line(&net, at_zero, slope);
    struct wane__gate *gate = gate_of(&made, &net, pattern, gate_patterns(pattern, 4096, 1));
    assert_int_equal(wane__gate_write(gate, path, NULL), WANE_OK);
    wane__gate_free(gate);
}

static void give_gate(wane_model *model, float at_zero, float slope) {
    wane_error error = {0};
    write_gate(model, at_zero, slope);
    if (wane_model_set_gate(model, path, &error) != WANE_OK) fail_msg("%s", error.text);
}

static wane_quality quality_of(int mode) {
    wane_quality q;
    wane_quality_init(&q);
    q.fuse = WANE_FUSE_OFF; /* loops of a scripted language are its own affair */
    q.mode = mode;
    q.clamp = 0; /* single tokens are not what this is about */
    q.dialogue_slope = 0;
    q.token_vote = q.rules = false;
    q.doubt_votes = 0;
    return q;
}

static wane_generation generation_of(const wane_quality *quality, int tokens) {
    wane_generation g;
    wane_generation_init(&g);
    g.sampling.seeded = true;
    g.sampling.seed = 5;
    g.max_tokens = tokens;
    g.quality = quality;
    g.ignore_end = true;
    return g;
}

static const int32_t prompt[] = {'a', 'b', 'c', 'a', 'b', 'd', '\n', 'D', 'o', 'c', ' ', '1'};
enum { PROMPT = sizeof prompt / sizeof *prompt };

static wane_gate_state state_of(wane_model *model) {
    wane_gate_state state;
    wane_model_get_gate_state(model, &state);
    return state;
}

struct told {
    int count;
    wane_gate_token token[MOST];
    wane_gate_explanation end;
};

static bool take(void *user, const wane_gate_token *token) {
    struct told *told = user;
    assert_true(told->count < MOST);
    told->token[told->count++] = *token;
    return true;
}

static void explain(wane_model *model, const wane_generation *g, struct told *told) {
    wane_error error = {0};
    told->count = 0;
    if (wane_gate_explain(model, prompt, PROMPT, g, take, told, &told->end, &error) != WANE_OK)
        fail_msg("%s", error.text);
}

static int say(wane_model *model, const wane_generation *g, int32_t *ids) {
    wane_session *session;
    wane_event event;
    wane_error error = {0};
    int count = 0;
    assert_int_equal(wane_session_new(model, &session, &error), WANE_OK);
    if (wane_session_start(session, prompt, PROMPT, g, &error) != WANE_OK) fail_msg("%s", error.text);
    while (wane_session_next(session, &event, &error) == WANE_OK && event.kind == WANE_EVENT_TEXT)
        ids[count++] = event.token;
    wane_session_free(session);
    return count;
}

/* ------------------------------------------------------------------- refused */

static void test_refused(void **state) {
    (void)state;
    wane_model *model = make_model(false);
    wane_session *session;
    wane_error error = {0};
    wane_quality q = quality_of(WANE_MODE_WANE);
    wane_generation g = generation_of(&q, 4);
    wane_gate_explanation end;
    assert_int_equal(wane_gate_explain(model, prompt, PROMPT, &g, NULL, NULL, &end, &error), WANE_ENOENT);
    unlink(path);
    assert_int_equal(wane_model_set_gate(model, path, &error), WANE_ENOENT);
    assert_int_equal(wane_model_set_gate(model, NULL, &error), WANE_ENOENT); /* none ships for it */
    assert_non_null(strstr(error.text, "wane train gate"));
    give_gate(model, 5, 0);
    rig_save(path, "WANEGATE", 8);
    assert_int_equal(wane_model_set_gate(model, path, &error), WANE_EFORMAT);
    static struct wane__gate_net net;
    struct wane__gate_made made = gate_made(rig_origin.model, rig_origin.tokenizer);
    struct wane__gate *other = gate_of(&made, &net, NULL, 0);
    assert_int_equal(wane__gate_write(other, path, NULL), WANE_OK);
    wane__gate_free(other);
    assert_int_equal(wane_model_set_gate(model, path, &error), WANE_EUNSUPPORTED);
    assert_non_null(strstr(error.text, "another model"));
    assert_true(state_of(model).given); /* the one before stays */
    assert_int_equal(wane_session_new(model, &session, &error), WANE_OK);
    assert_int_equal(wane_model_set_gate(model, path, &error), WANE_EBUSY);
    assert_int_equal(wane_model_drop_gate(model, &error), WANE_EBUSY);
    assert_int_equal(wane_model_set_breaker(model, &q, NULL, NULL, &error), WANE_EBUSY);
    assert_int_equal(wane_gate_explain(model, prompt, PROMPT, &g, NULL, NULL, &end, &error), WANE_EBUSY);
    wane_session_free(session);
    q.mode = WANE_MODE_LEGACY;
    assert_int_equal(wane_gate_explain(model, prompt, PROMPT, &g, NULL, NULL, &end, &error), WANE_EINVAL);
    q.mode = WANE_MODE_WANE;
    assert_int_equal(wane_gate_explain(model, prompt, 0, &g, NULL, NULL, &end, &error), WANE_EINVAL);
    assert_int_equal(wane_model_drop_gate(model, &error), WANE_OK);
    assert_false(state_of(model).given);
    wane_model_free(model);
}

/* ------------------------------------------------------------------- verdicts */

/* tau is the prompt's: three of its tokens come twice, and it holds one document. */
static void test_tau(void **state) {
    (void)state;
    wane_model *model = make_model(false);
    wane_quality q = quality_of(WANE_MODE_WANE);
    wane_generation g = generation_of(&q, 3);
    struct told told;
    q.documents = 0;
    give_gate(model, 5, 0);
    explain(model, &g, &told);
    assert_int_equal(told.end.documents, 1);
    assert_true(fabs(told.end.entropy - (log2(12) - 6.0 / 12)) < 1e-9);
    assert_true(fabs((double)told.end.tau - (0.62 + 0.18 * log2(1 + told.end.entropy) + 0.15)) < 1e-5);
    assert_true(told.token[0].tau == told.end.tau);
    assert_int_equal(told.end.prompt_tokens, PROMPT);
    assert_int_equal(told.end.reply_tokens, 3);
    assert_int_equal(told.end.finish, WANE_FINISH_LENGTH);
    wane_model_free(model);
}

/* What the stage saw, though it asked for a few candidates only, is what the 64 of a trace say. */
static void test_as_recorded(void **state) {
    (void)state;
    for (int setting = 0; setting < 8; setting++) {
        struct rig_folder traces;
        struct told told;
        wane_recorder *recorder = NULL;
        wane_recorder_options options;
        wane_bias bias[2] = {{'e', 3}, {' ', -2}};
        wane_quality q = quality_of(WANE_MODE_WANE);
        wane_generation g = generation_of(&q, 60);
        wane_model *model = make_model(setting % 4 > 0);
        q.token_vote = setting >= 4; /* then a draw takes all, and so does the gate at first */
        g.sampling.top_k = 20;
        if (setting % 4 > 1) g.sampling.top_k = 0;
        if (setting % 4 > 2) {
            g.sampling.bias = bias;
            g.sampling.bias_count = 2;
            g.sampling.repeat_penalty = 1.2f;
        }
        rig_folder_make(&traces);
        give_gate(model, 0, 0.05f);
        wane_recorder_options_init(&options);
        options.folder = traces.path;
        assert_int_equal(wane_recorder_open(model, &options, &recorder, NULL), WANE_OK);
        explain(model, &g, &told);
        wane_recorder_close(recorder);
        assert_int_equal(told.count, 60);

        struct wane__trace_reader *reader = NULL;
        struct wane__trace_record record;
        struct wane__trace_read_options how = {0};
        const char *paths[] = {traces.path};
        int n = 0;
        assert_int_equal(wane__trace_read_open(paths, 1, &how, &reader, NULL), WANE_OK);
        while (wane__trace_read_next(reader, &record, NULL) == WANE_OK && record.type != WANE__TRACE_DONE) {
            if (record.type != WANE__TRACE_TOKEN) continue;
            struct wane__gate_view view;
            const wane_gate_token *t = &told.token[n++];
            assert_int_equal(t->token, record.token->token);
            assert_true(t->judged && !t->table && !t->forced && !t->revival);
            wane__gate_look(record.token->top, record.token->top_count, true, 1, &view);
            for (int gap = 0; gap < 4; gap++)
                assert_int_equal(t->bin[gap], (int)wane__gate_bin_of(view.pattern, gap));
            assert_true(fabs((double)t->odds - 0.05 * t->bin[0]) < 1e-5);
            assert_int_equal(t->reject, t->odds < t->tau);
        }
        assert_int_equal(n, 60);
        wane__trace_read_close(reader);
        wane_model_free(model);
        rig_folder_remove(&traces);
    }
}

/* With a gate and without one, the same tokens. */
static void test_changes_nothing(void **state) {
    (void)state;
    wane_model *model = make_model(true);
    wane_quality q = quality_of(WANE_MODE_WANE);
    for (uint64_t seed = 0; seed < 20; seed++) {
        int32_t with[MOST], without[MOST];
        wane_generation g = generation_of(&q, 40);
        g.sampling.seed = seed;
        g.sampling.temperature = seed % 2 ? 0.8f : 2;
        g.sampling.top_k = seed % 3 ? 40 : 0;
        if (seed % 5 == 0) g.sampling.repeat_penalty = 1.3f;
        give_gate(model, 0, 0.033f);
        assert_int_equal(say(model, &g, with), 40);
        assert_int_equal(wane_model_drop_gate(model, NULL), WANE_OK);
        assert_int_equal(say(model, &g, without), 40);
        assert_memory_equal(with, without, 40 * sizeof *with);
    }
    wane_gate_state s = state_of(model);
    assert_int_equal(s.judged, 20 * 40);
    assert_int_equal(s.judged, s.lookups + s.forced);
    assert_true(s.forced == 10 * 8 && s.rejects > 0);
    wane_model_free(model);
}

static void test_off(void **state) {
    (void)state;
    static const int modes[] = {WANE_MODE_OFF, WANE_MODE_LEGACY};
    wane_model *model = make_model(false);
    int32_t ids[MOST];
    give_gate(model, -9, 0);
    for (size_t i = 0; i < 2; i++) {
        wane_quality q = quality_of(modes[i]);
        wane_generation g = generation_of(&q, 5);
        say(model, &g, ids);
    }
    wane_quality q = quality_of(WANE_MODE_WANE);
    wane_generation g = generation_of(NULL, 5);
    say(model, &g, ids);
    g.quality = &q;
    g.sampling.temperature = 0;
    say(model, &g, ids);
    g.sampling.temperature = 0.8f;
    q.answers = 1;
    say(model, &g, ids);
    assert_int_equal(state_of(model).judged, 0);
    q.answers = 3;
    say(model, &g, ids);
    assert_int_equal(state_of(model).judged, 5);
    wane_model_free(model);
}

/* ---------------------------------------------------------------------- doubt */

static void test_doubt(void **state) {
    (void)state;
    wane_model *model = make_model(false);
    wane_quality q = quality_of(WANE_MODE_WANE);
    wane_generation g = generation_of(&q, 20);
    struct told told;
    give_gate(model, -9, 0); /* nothing passes */
    q.doubt_budget = 3;
    explain(model, &g, &told);
    assert_int_equal(told.end.rejects, 20);
    assert_int_equal(told.end.first_reject, 0);
    assert_int_equal(told.end.woke_at, 3);
    assert_int_equal(told.end.woke_by, WANE_WAKE_DOUBT);
    for (int i = 0; i < 20; i++) {
        assert_true(told.token[i].reject && told.token[i].reason == WANE_WAKE_DOUBT);
        assert_int_equal(told.token[i].woke, i == 3);
    }
    q.doubt_budget = 20;
    explain(model, &g, &told); /* spent to the last, and not beyond */
    assert_int_equal(told.end.woke_at, -1);
    q.odds_base = -9.5f;
    q.odds_entropy = 0;
    explain(model, &g, &told);
    assert_int_equal(told.end.rejects, 0);
    assert_int_equal(told.end.first_reject, -1);
    wane_gate_state s = state_of(model);
    assert_int_equal(s.rejects, 40);
    assert_int_equal(s.rejects_by[WANE_WAKE_DOUBT], 40);
    assert_int_equal(s.wakes[WANE_WAKE_DOUBT], 1);
    wane_model_note_wake(model, WANE_WAKE_WARM_UP);
    wane_model_note_wake(model, WANE_WAKE_ALWAYS);
    wane_model_note_wake(model, WANE_WAKE_NONE);
    wane_model_note_wake(model, 99);
    s = state_of(model);
    assert_true(s.wakes[WANE_WAKE_WARM_UP] == 1 && s.wakes[WANE_WAKE_ALWAYS] == 1 && s.wakes[0] == 0);
    wane_model_free(model);
}

/* Enough votes over votes make the best token of every one in doubt; one that passed stays as it was drawn. */
static void test_doubt_votes(void **state) {
    (void)state;
    wane_model *model = make_model(false);
    wane_quality q = quality_of(WANE_MODE_WANE);
    wane_generation g = generation_of(&q, 60);
    int32_t plain[MOST], surer[MOST];
    g.sampling.temperature = 1.5f;
    q.forced_every = 0;
    q.answers = 1; /* nobody votes over answers: doubt is good for this alone */
    q.token_vote = true;
    give_gate(model, 9, 0); /* everything passes */
    q.doubt_votes = 8;
    say(model, &g, surer);
    assert_int_equal(state_of(model).judged, 60);
    assert_int_equal(state_of(model).revoted, 0);
    q.doubt_votes = 0;
    say(model, &g, plain);
    assert_memory_equal(plain, surer, 60 * sizeof *plain);
    give_gate(model, -9, 0); /* nothing does */
    q.doubt_votes = 8;
    say(model, &g, surer);
    assert_memory_not_equal(plain, surer, 60 * sizeof *plain);
    wane_gate_state s = state_of(model);
    assert_int_equal(s.revoted, 60);
    assert_true(s.revoted_changed > 0 && s.revoted_changed < 60);
    for (int i = WANE_WAKE_NONE; i < WANE_WAKES; i++) assert_int_equal(s.wakes[i], 0);
    g.sampling.temperature = 0;
    say(model, &g, plain);
    assert_memory_equal(plain, surer, 60 * sizeof *plain);
    q.token_vote = false; /* nothing is corrected, so that nothing is voted on either */
    g.sampling.temperature = 1.5f;
    say(model, &g, plain);
    assert_int_equal(state_of(model).revoted, 60);
    wane_model_free(model);
}

/* A hot request's fifth tokens are judged by the shares that they are drawn from, and only those. */
static void test_hot(void **state) {
    (void)state;
    wane_model *model = make_model(false);
    wane_quality q = quality_of(WANE_MODE_WANE);
    wane_generation g = generation_of(&q, 20);
    struct told told;
    g.sampling.temperature = 2;
    give_gate(model, 0, 0.05f);
    explain(model, &g, &told);
    for (int i = 0; i < 20; i++) {
        const wane_gate_token *t = &told.token[i];
        double scale = t->forced ? 0.5 : 1,
               sum = 0; /* this engine's logits fall by one a token on either side */
        for (int k = 1; k < 50; k++) sum += exp(-(double)((k + 1) / 2) * scale);
        assert_int_equal(t->forced, i % 5 == 4);
        /* A few candidates may have told the pattern: the others' shares are not known then. */
        assert_true(t->share[0] >= 1 / (1 + sum) - 1e-9 && t->share[0] < 1.2 / (1 + sum));
        assert_true(!t->forced || !t->lut);
    }
    assert_int_equal(state_of(model).forced, 4);
    wane_model_free(model);
}

/* -------------------------------------------------------------------- breaker */

static int alerts_out, alerts_in;

static void alert(void *user, bool out, int wakes, double seconds) {
    wane_gate_state state;
    alerts_out += out;
    alerts_in += !out;
    assert_true(wakes == 3 && seconds == 300);
    wane__free(wane__alloc(1));              /* as a log line would */
    wane_model_get_gate_state(user, &state); /* nothing is locked */
    assert_int_equal(state.breaker_out, out);
}

static void test_breaker(void **state) {
    (void)state;
    wane_model *model = make_model(true);
    wane_quality q = quality_of(WANE_MODE_WANE), off = quality_of(WANE_MODE_OFF);
    wane_generation g = generation_of(&q, 30);
    int32_t hot[MOST], warm[MOST], now[MOST];
    give_gate(model, -9, 0);
    q.doubt_budget = 0;
    q.breaker_wakes = 2;
    q.breaker_temperature = 0.9f;
    g.sampling.temperature = 0.9f;
    g.sampling.top_k = 0;
    g.sampling.top_p = 1;
    g.sampling.min_p = 0;
    say(model, &g, warm);
    g.sampling.temperature = 30;
    say(model, &g, hot);
    assert_memory_not_equal(hot, warm, 30 * sizeof *hot);
    assert_int_equal(wane_model_set_breaker(model, &q, alert, model, NULL), WANE_OK);
    for (int i = 0; i < 3; i++) {
        say(model, &g, now);
        assert_memory_equal(now, hot, 30 * sizeof *now);
        assert_int_equal(alerts_out, i == 2);
    }
    wane_gate_state s = state_of(model);
    assert_true(s.breaker_out && s.breaker_trips == 1 && s.breaker_recent == 3);
    say(model, &g, now);
    assert_memory_equal(now, warm, 30 * sizeof *now);
    g.quality = &off; /* the plain engine's output is nobody's to change */
    say(model, &g, now);
    assert_memory_equal(now, hot, 30 * sizeof *now);
    assert_true(alerts_out == 1 && alerts_in == 0);
    q.breaker_wakes = -1;
    assert_int_equal(wane_model_set_breaker(model, &q, alert, model, NULL), WANE_EINVAL);
    wane_model_free(model);
}

/* Requests beside one another: each has its own doubt, and each token is judged once. */
static void test_scheduler(void **state) {
    (void)state;
    wane_model *model = make_model(true);
    wane_scheduler *scheduler = NULL;
    wane_quality q[2] = {quality_of(WANE_MODE_WANE), quality_of(WANE_MODE_WANE)};
    wane_ticket *ticket[4];
    wane_error error = {0};
    give_gate(model, -9, 0);
    q[0].doubt_budget = 9;
    q[1].doubt_budget = 10;
    assert_int_equal(wane_scheduler_new(model, NULL, &scheduler, &error), WANE_OK);
    for (int i = 0; i < 4; i++) {
        wane_generation g = generation_of(&q[i % 2], 10);
        if (wane_scheduler_submit(scheduler, prompt, PROMPT, &g, &ticket[i], &error) != WANE_OK)
            fail_msg("%s", error.text);
    }
    for (int i = 0; i < 4; i++) {
        wane_event event;
        for (bool ended = false; !ended;)
            assert_int_equal(wane_ticket_next(ticket[i], 60000, &event, &ended, &error), WANE_OK);
        wane_ticket_free(ticket[i]);
    }
    wane_scheduler_free(scheduler);
    wane_gate_state s = state_of(model);
    assert_int_equal(s.judged, 40);
    assert_int_equal(s.wakes[WANE_WAKE_DOUBT], 2);
    wane_model_free(model);
}

/* A request without the gate is not judged, and then all its answers would be voted on; a switch does the same. */
static void test_without(void **state) {
    (void)state;
    int32_t with[8], without[8];
    wane_model *model = make_model(false);
    wane_quality q = quality_of(WANE_MODE_WANE);
    wane_generation g = generation_of(&q, 8);
    give_gate(model, 5, 0);
    assert_int_equal(say(model, &g, with), 8);
    uint64_t judged = state_of(model).judged;
    assert_int_equal(judged, 8);
    g.without = 1u << WANE_FEATURE_GATE;
    assert_int_equal(say(model, &g, without), 8);
    g.without = 0;
    wane_model_switch_off(model, 1u << WANE_FEATURE_GATE);
    assert_int_equal(say(model, &g, without), 8);
    assert_int_equal(state_of(model).judged, judged);
    assert_memory_equal(with, without, sizeof with);
    wane_model_switch_on(model, 1u << WANE_FEATURE_GATE);
    say(model, &g, with);
    assert_int_equal(state_of(model).judged, judged + 8);
    g.without = 1u << WANE_FEATURES;
    wane_error error = {0};
    assert_int_equal(wane_generation_check(&g, 384, &error), WANE_EINVAL);
    assert_non_null(strstr(error.text, "without"));
    wane_model_free(model);
}

static void test_names(void **state) {
    (void)state;
    for (int i = 0; i < WANE_WAKES; i++) assert_string_not_equal(wane_wake_name(i), "?");
    assert_string_equal(wane_wake_name(-1), "?");
    assert_string_equal(wane_wake_name(WANE_WAKES), "?");
}

int main(void) {
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/x.gate", folder);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),     cmocka_unit_test(test_tau),
        cmocka_unit_test(test_as_recorded), cmocka_unit_test(test_changes_nothing),
        cmocka_unit_test(test_off),         cmocka_unit_test(test_doubt),
        cmocka_unit_test(test_doubt_votes), cmocka_unit_test(test_hot),
        cmocka_unit_test(test_breaker),     cmocka_unit_test(test_scheduler),
        cmocka_unit_test(test_without),     cmocka_unit_test(test_names),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    rmdir(folder);
    return failed;
}
