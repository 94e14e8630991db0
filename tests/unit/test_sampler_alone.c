/*
 * test_sampler_alone.c - a sampler without a model (wane/sampler.h) over the rows of an engine gives what a model on that engine gives: tokens,
 * verdicts, states, corrections, the fuse. A draw that is not taken has not been there. What is wrong is refused in words.
 */
#include "unit/gate_rig.h"
#include "unit/trace_rig.h"

#include "engine/engine.h"
#include "model.h"
#include "origin.h"

#include <math.h>
#include <unistd.h>

enum { MOST = 160, LOOP = 150 };

static char folder[] = "/tmp/wane-sampler-XXXXXX", gate_path[64], profile_path[64], rules_path[64];
static const char prompt_text[] = "loop: tell me of the sea and of the ships. Doc 1";
static int32_t loop[LOOP];
static struct wane__script_reply looping;

/* Kind 0 says a loop; the others always have the same logits, sure of something or not, each kind its own. */
static struct wane__script script_of(unsigned kind) {
    static float logits[384];
    for (int i = 0; i < 384; i++)
        logits[i] = (float)(wane__random_unit(kind, (uint64_t)i) * 6) + (i == 97 ? (float)(kind % 5) : 0);
    looping = (struct wane__script_reply){.match = "loop:", .tokens = loop, .count = LOOP, .fail_at = -1};
    if (kind > 0) looping.logits = logits;
    return (struct wane__script){.peak = 9, .sequences = 2, .replies = &looping, .reply_count = 1};
}

static wane_model *make_model(unsigned kind) {
    struct wane__script script = script_of(kind);
    struct wane__engine *engine = NULL;
    wane_model *model = NULL;
    wane_error error = {0};
    assert_int_equal(wane__script_load(&script, NULL, &engine, NULL), WANE_OK);
    assert_int_equal(wane__model_wrap(engine, NULL, NULL, &model, NULL), WANE_OK);
    if (wane_model_set_gate(model, gate_path, &error) != WANE_OK) fail_msg("%s", error.text);
    if (wane_model_set_profile(model, profile_path, &error) != WANE_OK) fail_msg("%s", error.text);
    if (wane_model_set_rules(model, rules_path, &error) != WANE_OK) fail_msg("%s", error.text);
    return model;
}

static int prompt_of(int32_t *tokens) {
    int count = (int)strlen(prompt_text);
    for (int i = 0; i < count; i++) tokens[i] = (unsigned char)prompt_text[i];
    return count;
}

/* Files of the scripted model: a gate that doubts where the first gap is small, a profile that steers by the margin, a rule. */
static int make_files(void **unused) {
    (void)unused;
    static struct wane__gate_net net;
    struct wane__script script = script_of(0);
    struct wane__engine *engine = NULL;
    struct wane__trace_origin origin;
    wane_model *model = NULL;
    wane_profile profile;
    assert_non_null(mkdtemp(folder));
    snprintf(gate_path, sizeof gate_path, "%s/g", folder);
    snprintf(profile_path, sizeof profile_path, "%s/p.json", folder);
    snprintf(rules_path, sizeof rules_path, "%s/r.json", folder);
    for (int i = 0; i < LOOP; i++) loop[i] = "abcdefg"[i % 7];
    assert_int_equal(wane__script_load(&script, NULL, &engine, NULL), WANE_OK);
    assert_int_equal(wane__model_wrap(engine, NULL, NULL, &model, NULL), WANE_OK);
    assert_int_equal(wane__model_origin(model, &origin, NULL), WANE_OK);
    struct wane__gate_made made = gate_made(origin.model, origin.tokenizer);
    gate_line(&net, 0, 0.05f);
    struct wane__gate *gate = gate_of(&made, &net, NULL, 0);
    assert_int_equal(wane__gate_write(gate, gate_path, NULL), WANE_OK);
    wane__gate_free(gate);
    wane_profile_init(&profile);
    profile.signal = WANE_SIGNAL_MARGIN;
    profile.sign = 1;
    profile.peak = 1.5f;
    profile.low = 0.1f;
    snprintf(profile.model, sizeof profile.model, "%s", origin.model);
    assert_int_equal(wane_profile_save(&profile, profile_path, NULL), WANE_OK);
    FILE *file = fopen(rules_path, "w");
    assert_non_null(file);
    fputs("[{\"name\": \"few\", \"pattern\": \"[^a]$\", \"words\": [\"a\"]}]", file);
    fclose(file);
    wane_model_free(model);
    return 0;
}

static int remove_files(void **unused) {
    (void)unused;
    unlink(gate_path);
    unlink(profile_path);
    unlink(rules_path);
    rmdir(folder);
    return 0;
}

/* ---------------------------------------------------------- the model's reply */

struct said {
    int32_t token[MOST];
    wane_gate_token verdict[MOST];
    int count, verdicts;
    wane_finish finish;
    char fallback[400];
    int fallback_size;
};

static bool hear(void *user, const wane_gate_token *token) {
    struct said *said = user;
    said->verdict[said->verdicts++] = *token;
    return true;
}

static void say(wane_model *model, const wane_generation *g, struct said *said) {
    int32_t tokens[sizeof prompt_text];
    int count = prompt_of(tokens);
    wane_gate_explanation end;
    wane_session *session;
    wane_event event;
    wane_error error = {0};
    memset(said, 0, sizeof *said);
    assert_int_equal(wane_session_new(model, &session, &error), WANE_OK);
    if (wane_session_start(session, tokens, (size_t)count, g, &error) != WANE_OK) fail_msg("%s", error.text);
    while (wane_session_next(session, &event, &error) == WANE_OK && event.kind == WANE_EVENT_TEXT)
        said->token[said->count++] = event.token;
    said->finish = event.finish;
    if (event.finish == WANE_FINISH_FUSE) {
        said->fallback_size = (int)event.text_size;
        memcpy(said->fallback, event.text, event.text_size);
    }
    wane_session_free(session);
    if (wane_gate_explain(model, tokens, (size_t)count, g, hear, said, &end, &error) != WANE_OK)
        fail_msg("%s", error.text);
}

/* ----------------------------------------------------------- the sampler's one */

static int bytes_of(void *user, int32_t token, char *buffer, size_t capacity) {
    (void)user;
    (void)capacity;
    if (token > 255) return 0;
    buffer[0] = (char)token;
    return 1;
}

static int tokens_of(void *user, const char *text, size_t size, int32_t *out, int capacity) {
    (void)user;
    assert_true((int)size <= capacity);
    for (size_t i = 0; i < size; i++) out[i] = (unsigned char)text[i];
    return (int)size;
}

/* An engine's rows, one by one. */
struct rows {
    struct wane__engine *engine;
    int count;
};

static const float *row_after(struct rows *rows, const int32_t *tokens, int count) {
    for (; rows->count < count; rows->count++) {
        const struct wane__item item = {.token = tokens[rows->count],
                                        .pos = rows->count,
                                        .wanted = rows->count + 1 == count};
        wane_error error = {0};
        if (rows->engine->ops->decode(rows->engine, &item, 1, &error) != WANE_OK) fail_msg("%s", error.text);
    }
    return rows->engine->ops->logits(rows->engine, 0);
}

struct parts {
    wane_gate *gate;
    wane_rules *rules;
    wane_profile profile;
};

static void open_parts(struct parts *parts) {
    wane_error error = {0};
    if (wane_gate_open(gate_path, &parts->gate, &error) != WANE_OK) fail_msg("%s", error.text);
    if (wane_rules_open(rules_path, 384, tokens_of, bytes_of, NULL, &parts->rules, &error) != WANE_OK)
        fail_msg("%s", error.text);
    if (wane_profile_load(profile_path, &parts->profile, &error) != WANE_OK) fail_msg("%s", error.text);
}

static void close_parts(struct parts *parts) {
    wane_gate_free(parts->gate);
    wane_rules_free(parts->rules);
}

static wane_sampler *make_sampler(const struct parts *parts, const wane_generation *g, const int32_t *tokens,
                                  int count) {
    wane_sampler_options options;
    wane_sampler *sampler = NULL;
    wane_error error = {0};
    wane_sampler_options_init(&options);
    options.vocab_size = 384;
    options.sampling = g->sampling;
    options.quality = g->quality;
    options.gate = parts->gate;
    options.profile = &parts->profile;
    options.rules = parts->rules;
    options.prompt = tokens;
    options.prompt_count = (size_t)count;
    options.text = prompt_text;
    options.text_size = strlen(prompt_text);
    if (wane_sampler_new(&options, &sampler, &error) != WANE_OK) fail_msg("%s", error.text);
    return sampler;
}

static void expect_verdict(const wane_gate_token *a, const wane_gate_token *b) {
    assert_int_equal(a->index, b->index);
    assert_int_equal(a->judged, b->judged);
    assert_int_equal(a->reject, b->reject);
    assert_int_equal(a->lut, b->lut);
    assert_int_equal(a->forced, b->forced);
    assert_int_equal(a->revival, b->revival);
    assert_int_equal(a->woke, b->woke);
    assert_int_equal(a->reason, b->reason);
    if (!(a->odds == b->odds && (!a->judged || a->tau == b->tau)))
        fail_msg("token %d: odds %g and %g, tau %g and %g", a->index, (double)a->odds, (double)b->odds,
                 (double)a->tau, (double)b->tau);
}

struct totals {
    int changed, held, again, rejects, steered[WANE_STATES];
};

/* Draw the reply from the rows of an engine of its own, with draws in between that are not taken, and compare. */
static void expect_same(const struct said *said, unsigned kind, const struct parts *parts,
                        const wane_generation *g, struct totals *totals) {
    struct wane__script script = script_of(kind);
    struct rows rows = {0};
    int32_t tokens[sizeof prompt_text + MOST];
    int prompt_count = prompt_of(tokens);
    float garbled[384] = {3};
    wane_error error = {0};
    wane_drawn drawn;
    bool ended = false;
    char fallback[300];
    assert_int_equal(wane__script_load(&script, NULL, &rows.engine, NULL), WANE_OK);
    wane_sampler *sampler = make_sampler(parts, g, tokens, prompt_count);
    for (int i = 0; i < said->count; i++) {
        const float *row = row_after(&rows, tokens, prompt_count + i);
        if (i % 3 == 1)
            assert_int_equal(wane_sampler_draw(sampler, garbled, false, NULL, &drawn, NULL), WANE_OK);
        if (wane_sampler_draw(sampler, row, false, NULL, &drawn, &error) != WANE_OK)
            fail_msg("%s", error.text);
        if (drawn.token != said->token[i]) fail_msg("token %d is %d, not %d", i, drawn.token, said->token[i]);
        if (i < said->verdicts) expect_verdict(&drawn.gate, &said->verdict[i]);
        totals->changed += drawn.changed;
        totals->held += drawn.held;
        totals->again += drawn.again;
        totals->rejects += drawn.gate.reject;
        if (drawn.steer.steered) totals->steered[drawn.steer.state]++;
        assert_false(ended);
        tokens[prompt_count + i] = drawn.token;
        ended = wane_sampler_take(sampler, drawn.token);
    }
    assert_int_equal(wane_sampler_get_count(sampler), said->count);
    assert_int_equal(ended, said->finish == WANE_FINISH_FUSE);
    int size = ended ? wane_sampler_fallback(sampler, true, fallback) : 0;
    assert_int_equal(size, said->fallback_size);
    assert_memory_equal(fallback, said->fallback, (size_t)size);
    wane_sampler_free(sampler);
    rows.engine->ops->free(rows.engine);
}

static wane_generation generation_of(const wane_quality *quality, uint64_t seed) {
    wane_generation g;
    wane_generation_init(&g);
    g.sampling.temperature = (float)(int)(seed % 4) * 0.45f;
    g.sampling.top_k = seed % 3 == 0 ? 0 : 40;
    g.sampling.top_p = seed % 5 == 0 ? 1 : 0.9f;
    g.sampling.repeat_penalty = seed % 2 == 0 ? 1.1f : 1;
    g.sampling.presence_penalty = seed % 7 == 0 ? 0.4f : 0;
    g.sampling.seeded = true;
    g.sampling.seed = seed;
    g.max_tokens = 60;
    g.quality = quality;
    g.ignore_end = true;
    return g;
}

/* Temperatures, penalties, steering, rules, votes over votes. */
static void test_as_a_model(void **unused) {
    (void)unused;
    static struct said said;
    struct parts parts;
    struct totals totals = {0};
    open_parts(&parts);
    for (uint64_t seed = 1; seed <= 40; seed++) {
        wane_quality q;
        wane_quality_init(&q);
        q.mode = WANE_MODE_WANE;
        q.governor = seed % 3 != 0;
        q.doubt_votes = (int)(seed % 4);
        q.answers = 1;
        q.clamp = seed % 2 == 0 ? 50 : 20;
        q.dialogue_scale = 16;
        q.fuse = seed % 4 == 1 ? WANE_FUSE_PLAIN : WANE_FUSE_LOOP;
        wane_generation g = generation_of(&q, seed);
        wane_model *model = make_model((unsigned)seed);
        say(model, &g, &said);
        wane_model_free(model);
        expect_same(&said, (unsigned)seed, &parts, &g, &totals);
    }
    assert_true(totals.changed > 100 && totals.held > 5 && totals.again > 50 && totals.rejects > 100);
    assert_true(totals.steered[WANE_STATE_NORMAL] > 20 && totals.steered[WANE_STATE_LOCKED] > 20);
    close_parts(&parts);
}

static void test_fuse(void **unused) {
    (void)unused;
    static struct said said;
    struct parts parts;
    struct totals totals = {0};
    wane_model *model = make_model(0);
    open_parts(&parts);
    for (int fallback = 0; fallback < 3; fallback++) {
        wane_quality q;
        wane_quality_init(&q);
        q.mode = WANE_MODE_WANE;
        q.fuse = WANE_FUSE_LOOP;
        q.rules = false;
        q.fallback = fallback;
        wane_generation g = generation_of(&q, 4); /* greedy */
        g.max_tokens = MOST;
        say(model, &g, &said);
        assert_int_equal(said.finish, WANE_FINISH_FUSE);
        expect_same(&said, 0, &parts, &g, &totals);
    }
    close_parts(&parts);
    wane_model_free(model);
}

/* Mode off, or no quality at all: the plain sampler's draws, and nothing else. */
static void test_off(void **unused) {
    (void)unused;
    const int32_t tokens[] = {1, 2};
    float row[384];
    wane_drawn drawn;
    wane_error error = {0};
    wane_generation g = generation_of(NULL, 5);
    for (int i = 0; i < 384; i++) row[i] = (float)((i * 37) % 101) / 9;
    wane_sampler_options options;
    wane_sampler *sampler;
    wane_sampler_options_init(&options);
    options.vocab_size = 384;
    options.sampling = g.sampling;
    options.prompt = tokens;
    options.prompt_count = 2;
    if (wane_sampler_new(&options, &sampler, &error) != WANE_OK) fail_msg("%s", error.text);
    for (int i = 0; i < 30; i++) {
        assert_int_equal(wane_sampler_draw(sampler, row, false, NULL, &drawn, &error), WANE_OK);
        assert_false(drawn.changed || drawn.gate.judged || drawn.steer.steered || drawn.again);
        assert_false(wane_sampler_take(sampler, drawn.token));
    }
    wane_candidate best[64];
    double log_sum;
    int found;
    assert_int_equal(wane_sampler_best(sampler, 4, best, &found, &log_sum, &error), WANE_EINVAL);
    assert_int_equal(wane_sampler_draw(sampler, row, false, NULL, &drawn, &error), WANE_OK);
    assert_int_equal(wane_sampler_best(sampler, 4, best, &found, &log_sum, &error), WANE_OK);
    assert_int_equal(found, 4);
    assert_true(best[0].logit >= best[3].logit && log_sum > (double)best[0].logit);
    row[7] = NAN;
    assert_int_equal(wane_sampler_draw(sampler, row, false, NULL, &drawn, &error), WANE_EENGINE);
    wane_sampler_free(sampler);
}

static void refused(wane_sampler_options *options, const char *word) {
    wane_sampler *sampler;
    wane_error error = {0};
    assert_int_equal(wane_sampler_new(options, &sampler, &error), WANE_EINVAL);
    assert_null(sampler);
    if (strstr(error.text, word) == NULL) fail_msg("\"%s\" says nothing of \"%s\"", error.text, word);
}

static void test_refused(void **unused) {
    (void)unused;
    const int32_t tokens[] = {1, 400};
    wane_sampler_options options, whole;
    wane_rules *rules;
    wane_error error = {0};
    wane_sampler_options_init(&whole);
    whole.vocab_size = 384;
    whole.prompt = tokens;
    whole.prompt_count = 1;
    options = whole;
    options.size--;
    refused(&options, "wane_sampler_options_init");
    options = whole;
    options.vocab_size = 0;
    refused(&options, "vocab_size is 0");
    options = whole;
    options.prompt_count = 0;
    refused(&options, "prompt is empty");
    options = whole;
    options.prompt_count = 2;
    refused(&options, "Token 1 of the prompt is 400");
    options = whole;
    options.sampling.temperature = -1;
    refused(&options, "temperature is -1");
    assert_int_equal(wane_rules_open(rules_path, 90, tokens_of, bytes_of, NULL, &rules, &error),
                     WANE_EFORMAT);
    assert_null(rules);
    assert_int_equal(wane_rules_open("/no/such", 384, tokens_of, bytes_of, NULL, &rules, &error),
                     WANE_ENOENT);
    assert_int_equal(wane_rules_open(rules_path, 384, tokens_of, bytes_of, NULL, &rules, &error), WANE_OK);
    int left;
    assert_int_equal(wane_rules_get_count(rules, &left), 1);
    assert_int_equal(left, 0);
    wane_rules_free(rules);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_a_model),
        cmocka_unit_test(test_fuse),
        cmocka_unit_test(test_off),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
