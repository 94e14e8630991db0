/*
 * test_model_governor.c - a model with a governor, on the scripted engine: each state draws as a request at its temperature would, with
 * drafts and without, in sessions and in the scheduler; what is not known steers nothing; loops end replies; blocks that disagree
 * have their token drawn twice.
 */
#include "test_scheduler_rig.h"

#include "governor/profile.h"
#include "origin.h"
#include "sample/entropy.h"

#include <math.h>
#include <unistd.h>

enum { MOST = 300 };

static char path[] = "/tmp/wane-governor-XXXXXX";

/* Signals by the number of rows that were asked for: the same for the same reply, one reply at a time. */
struct scripted {
    const wane_signals *list;
    int count, asked;
};

static void scripted_look(void *user, int row, wane_signals *out) {
    struct scripted *s = user;
    (void)row;
    *out = s->list[s->asked++ % s->count];
}

static int warnings;

static void count_warning(void *user, int level, const char *line) {
    (void)user;
    if (level == WANE_LOG_WARN && strstr(line, "governor is off") != NULL) warnings++;
}

static wane_model *make_model(struct wane__script script) {
    struct wane__engine *engine = NULL;
    wane_model *model = NULL;
    script.attention.layers = 4;
    assert_int_equal(wane__script_load(&script, NULL, &engine, NULL), WANE_OK);
    assert_int_equal(wane__model_wrap(engine, count_warning, NULL, &model, NULL), WANE_OK);
    warnings = 0;
    return model;
}

static wane_profile profile_for(wane_model *model, int signal) {
    wane_profile p;
    wane_profile_init(&p);
    struct wane__trace_origin origin;
    assert_int_equal(wane__model_origin(model, &origin, NULL), WANE_OK);
    memcpy(p.model, origin.model, sizeof p.model);
    p.signal = signal;
    p.layer = signal == WANE_SIGNAL_KURTOSIS ? 1 : -1;
    p.peak = 6;
    p.low = 2;
    p.jerk = 50;
    return p;
}

static void give(wane_model *model, const wane_profile *p) {
    wane_error error = {0};
    if (wane_profile_save(p, path, &error) != WANE_OK) fail_msg("%s", error.text);
    if (wane_model_set_profile(model, path, &error) != WANE_OK) fail_msg("%s", error.text);
}

static wane_quality quality_of(void) {
    wane_quality q;
    wane_quality_init(&q);
    q.mode = WANE_MODE_WANE;
    q.answers = 1;
    q.dialogue_slope = 0;
    q.fuse = WANE_FUSE_OFF;
    q.governor = true;
    return q;
}

static wane_generation generation_of(const wane_quality *quality, int tokens) {
    wane_generation g;
    wane_generation_init(&g);
    g.sampling.temperature = 1.4f;
    g.sampling.top_p = 0.7f;
    g.sampling.seeded = true;
    g.sampling.seed = 5;
    g.max_tokens = tokens;
    g.quality = quality;
    g.ignore_end = true;
    return g;
}

struct reply {
    int32_t token[MOST];
    int count;
    wane_event end;
    char text[4096];
    size_t size;
};

static void say(wane_model *model, const char *prompt, const wane_generation *g, struct reply *reply) {
    wane_session *session;
    wane_event event;
    wane_error error = {0};
    int32_t tokens[100];
    int count = 0;
    for (; prompt[count] != '\0'; count++) tokens[count] = (unsigned char)prompt[count];
    *reply = (struct reply){0};
    assert_int_equal(wane_session_new(model, &session, &error), WANE_OK);
    if (wane_session_start(session, tokens, (size_t)count, g, &error) != WANE_OK) fail_msg("%s", error.text);
    do {
        if (wane_session_next(session, &event, &error) != WANE_OK) fail_msg("%s", error.text);
        if (event.kind == WANE_EVENT_TEXT) reply->token[reply->count++] = event.token;
        memcpy(reply->text + reply->size, event.text, event.text_size);
        reply->size += event.text_size;
    } while (event.kind == WANE_EVENT_TEXT);
    reply->end = event;
    reply->end.text = NULL;
    wane_session_free(session);
}

static void expect_same(const struct reply *a, const struct reply *b) {
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->token, b->token, (size_t)a->count * sizeof *a->token);
}

static wane_governor_state state_of(wane_model *model) {
    wane_governor_state state;
    wane_model_get_governor_state(model, &state);
    return state;
}

/* -------------------------------------------------------------------- states */

static const wane_signals low = {.kurtosis = 1}, middle = {.kurtosis = 4}, high = {.kurtosis = 9},
                          unknown = {.kurtosis = NAN};

/* One sight, all the time: as a request at that state's temperature; corrections and all. */
static void test_each_state(void **unused) {
    (void)unused;
    static const wane_signals turning[] = {{.kurtosis = 4}, {.kurtosis = 100}};
    const struct {
        const wane_signals *list;
        int count, state;
        float temperature, top_p;
    } cases[] = {
        {&low, 1, WANE_STATE_EXPLORE, 0.85f, 0.7f}, {&middle, 1, WANE_STATE_NORMAL, 1.4f, 0.7f},
        {&high, 1, WANE_STATE_LOCKED, 0.3f, 1},     {&unknown, 1, WANE_STATE_NORMAL, 1.1f, 0.7f},
        {turning, 2, WANE_STATE_PROTECT, 0.5f, 1},
    };
    for (int corrected = 0; corrected < 2; corrected++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            wane_model *model = make_model((struct wane__script){.sequences = 1, .linear = corrected != 0});
            struct scripted scripted = {cases[i].list, cases[i].count, 0};
            static struct reply governed, plain;
            wane_quality q = quality_of();
            wane_profile p = profile_for(model, WANE_SIGNAL_KURTOSIS);
            p.temp_fallback = 1.1f;
            if (cases[i].count == 2) p.peak = 1000; /* nothing but the turn */
            q.clamp = q.clamp * corrected;
            q.token_vote = corrected != 0;
            q.dialogue_slope = 0.2f * (float)corrected; /* a governed temperature is not the dialogue's */
            model->governor.look = scripted_look;
            model->governor.look_user = &scripted;
            give(model, &p);
            wane_generation g = generation_of(&q, 60);
            say(model, "in the language", &g, &governed);
            wane_governor_state state = state_of(model);
            bool turns = cases[i].count == 2; /* three rows make no third difference */
            assert_int_equal(state.tokens[cases[i].state], turns ? 57 : 60);
            assert_int_equal(state.missing, i == 3 ? 60 : 0);
            assert_int_equal(state.dropped, 0);
            q.governor = false;
            g.sampling.temperature = cases[i].temperature;
            g.sampling.top_p = cases[i].top_p;
            if (i != 1) q.dialogue_slope = 0;
            say(model, "in the language", &g, &plain);
            if (!turns) expect_same(&governed, &plain);
            assert_int_equal(state_of(model).tokens[cases[i].state], turns ? 57 : 60);
            wane_model_free(model);
        }
}

/* A lock is for its tokens and no others. */
static void test_lock_holds(void **unused) {
    (void)unused;
    wane_model *model = make_model((struct wane__script){.sequences = 1});
    static const wane_signals list[] = {
        {.kurtosis = 4}, {.kurtosis = 4}, {.kurtosis = 9}, {.kurtosis = 4}, {.kurtosis = 1},
        {.kurtosis = 4}, {.kurtosis = 4}, {.kurtosis = 4}, {.kurtosis = 4}, {.kurtosis = 4},
    };
    struct scripted scripted = {list, 10, 0};
    static struct reply governed, plain, best;
    wane_quality q = quality_of();
    wane_profile p = profile_for(model, WANE_SIGNAL_KURTOSIS);
    p.jerk = 0;
    p.locked_temperature = 0;
    model->governor.look = scripted_look;
    model->governor.look_user = &scripted;
    give(model, &p);
    wane_generation g = generation_of(&q, 40);
    say(model, "locked", &g, &governed);
    assert_int_equal(state_of(model).tokens[WANE_STATE_LOCKED], 12);
    assert_int_equal(state_of(model).commands, 4);
    q.governor = false;
    g.max_tokens = 2;
    say(model, "locked", &g, &plain);
    assert_memory_equal(plain.token, governed.token, 2 * sizeof(int32_t));
    char prompt[100] = "locked";
    for (int at = 2, size = 6; at < 40; at++) { /* tokens 2, 3, 4 of each ten are the best ones */
        for (size = 6; size < 6 + at; size++) prompt[size] = (char)governed.token[size - 6];
        prompt[size] = '\0';
        if (at % 10 < 2 || at % 10 > 4) continue;
        g.max_tokens = 1;
        g.sampling.temperature = 0;
        say(model, prompt, &g, &best);
        assert_int_equal(best.token[0], governed.token[at]);
    }
    wane_model_free(model);
}

static int by_size(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Values of a signal over a reply, ascending. */
static void measure(wane_model *model, const char *prompt, const struct reply *reply, int signal,
                    float *value) {
    struct wane__item items[32];
    int size = (int)strlen(prompt), all = size + reply->count, n = 0;
    model->engine->ops->truncate(model->engine, 0, 0);
    for (int at = 0; at < all; at += 32) {
        int take = all - at < 32 ? all - at : 32;
        for (int i = 0; i < take; i++)
            items[i] = (struct wane__item){.token = at + i < size ? (unsigned char)prompt[at + i]
                                                                  : reply->token[at + i - size],
                                           .pos = at + i,
                                           .wanted = true};
        assert_int_equal(wane__rows_decode(&model->rows, items, take, NULL), WANE_OK);
        for (int i = 0; i < take; i++) {
            struct wane__row row;
            struct wane__entropy e;
            assert_int_equal(wane__rows_get(&model->rows, i, &row, NULL), WANE_OK);
            assert_int_equal(wane__source_entropy(row.source, &e), WANE_OK);
            if (at + i >= size) value[n++] = (float)(signal == WANE_SIGNAL_ENTROPY ? -e.value : e.margin);
        }
    }
    qsort(value, (size_t)n, sizeof *value, by_size);
    model->engine->ops->truncate(model->engine, 0, 0);
}

/* Entropy and margin need no probe; stability moves what they are compared with; drafts and the scheduler give the same tokens. */
static void test_by_entropy(void **unused) {
    (void)unused;
    static struct reply plain, drafted, unsteered;
    static struct outcome served;
    uint64_t explored[2];
    for (int signal = WANE_SIGNAL_ENTROPY; signal <= WANE_SIGNAL_MARGIN; signal++) {
        wane_quality q = quality_of();
        wane_generation g = generation_of(&q, 200);
        g.sampling.temperature = 0.9f;
        for (int draft = 0; draft < 2; draft++) {
            wane_model *model = make_model((struct wane__script){.sequences = 2, .linear = true, .peak = 6});
            wane_profile p = profile_for(model, signal);
            float value[MOST];
            p.sign = signal == WANE_SIGNAL_ENTROPY ? -1 : 1;
            q.governor = false;
            say(model, "words upon words upon words", &g, &unsteered);
            q.governor = true;
            measure(model, "words upon words upon words", &unsteered, signal, value);
            p.peak = value[180];
            p.low = value[60];
            p.jerk = 4 * (value[150] - value[50]);
            give(model, &p);
            assert_int_equal(wane_model_set_draft(model, draft ? WANE_DRAFT_ALWAYS : WANE_DRAFT_OFF, NULL),
                             WANE_OK);
            say(model, "words upon words upon words", &g, draft ? &drafted : &plain);
            wane_governor_state state = state_of(model);
            assert_true(state.on && state.given);
            assert_int_equal(state.tokens[0] + state.tokens[1] + state.tokens[2] + state.tokens[3], 200);
            for (int s = 0; s < WANE_STATES; s++)
                if (state.tokens[s] == 0) fail_msg("signal %d never led to %s", signal, wane_state_name(s));
            assert_int_equal(state.missing, 0);
            explored[0] = state.tokens[WANE_STATE_EXPLORE];
            q.stability = 3;
            say(model, "words upon words upon words", &g, &(struct reply){0});
            explored[1] = state_of(model).tokens[WANE_STATE_EXPLORE] - explored[0];
            assert_true(explored[1] < explored[0]);
            q.stability = 1;
            wane_draft_state drafts;
            wane_model_get_draft_state(model, &drafts);
            uint64_t proposed = 0;
            for (int i = 0; i < WANE_DRAFT_SOURCES; i++) proposed += drafts.proposed[i];
            assert_int_equal(proposed > 0, draft);
            wane_scheduler_options options = quick_options();
            struct rig rig = {.engine = model->engine, .model = model};
            assert_int_equal(wane_scheduler_new(model, &options, &rig.scheduler, NULL), WANE_OK);
            ask(&rig, "words upon words upon words", &g, &served);
            assert_memory_equal(served.text, plain.text, plain.size);
            rig_down(&rig);
        }
        expect_same(&plain, &drafted);
    }
}

/* ------------------------------------------------------------------- left alone */

/* No profile, one without a signal, a greedy request, mode OFF, `governor` off: as if there were none; said once, where it was asked for. */
static void test_left_alone(void **unused) {
    (void)unused;
    static struct reply plain, other;
    wane_model *model = make_model((struct wane__script){.sequences = 1});
    wane_quality q = quality_of();
    wane_generation g = generation_of(&q, 40);
    q.governor = false;
    say(model, "alone", &g, &plain);
    assert_int_equal(warnings, 0);
    q.governor = true;
    for (int i = 0; i < 3; i++) {
        say(model, "alone", &g, &other);
        expect_same(&plain, &other);
        assert_int_equal(warnings, 1);
    }
    wane_profile p = profile_for(model, WANE_SIGNAL_NONE);
    give(model, &p);
    assert_true(state_of(model).given && !state_of(model).on);
    for (int i = 0; i < 3; i++) {
        say(model, "alone", &g, &other);
        expect_same(&plain, &other);
        assert_int_equal(warnings, 2); /* another reason */
    }
    struct scripted scripted = {&low, 1, 0};
    model->governor.look = scripted_look;
    model->governor.look_user = &scripted;
    p = profile_for(model, WANE_SIGNAL_KURTOSIS);
    give(model, &p);
    q.mode = WANE_MODE_OFF;
    say(model, "alone", &g, &other);
    q.mode = WANE_MODE_LEGACY;
    say(model, "alone", &g, &other);
    q.mode = WANE_MODE_WANE;
    g.sampling.temperature = 0;
    say(model, "alone", &g, &other);
    wane_governor_state state = state_of(model);
    for (int s = 0; s < WANE_STATES; s++) assert_int_equal(state.tokens[s], 0);
    assert_int_equal(scripted.asked, 0);
    assert_int_equal(wane_model_drop_profile(model, NULL), WANE_OK);
    assert_false(state_of(model).given);
    assert_int_equal(warnings, 2);
    wane_model_free(model);
}

static void test_refused(void **unused) {
    (void)unused;
    wane_model *model = make_model((struct wane__script){.sequences = 1});
    wane_session *session;
    wane_error error = {0};
    wane_quality q = quality_of();
    wane_generation g = generation_of(&q, 4);
    wane_profile p = profile_for(model, WANE_SIGNAL_ENTROPY);
    assert_int_equal(wane_model_set_profile(model, NULL, &error), WANE_ENOENT);
    assert_non_null(strstr(error.text, "wane tune"));
    say(model, "x", &g, &(struct reply){0});
    assert_int_equal(warnings, 0); /* whoever asked was told */
    give(model, &p);
    assert_int_equal(wane_model_set_profile(model, "/nowhere/at/all", &error), WANE_ENOENT);
    p.model[0] = p.model[0] == '0' ? '1' : '0';
    assert_int_equal(wane_profile_save(&p, path, NULL), WANE_OK);
    assert_int_equal(wane_model_set_profile(model, path, &error), WANE_EUNSUPPORTED);
    assert_non_null(strstr(error.text, "another model"));
    p = profile_for(model, WANE_SIGNAL_KURTOSIS);
    p.layer = 999;
    assert_int_equal(wane_profile_save(&p, path, NULL), WANE_OK);
    assert_int_not_equal(wane_model_set_profile(model, path, &error), WANE_OK);
    assert_non_null(strstr(error.text, "layer 999"));
    assert_int_equal(state_of(model).profile.signal, WANE_SIGNAL_ENTROPY); /* the one before stays */
    assert_int_equal(wane_session_new(model, &session, &error), WANE_OK);
    assert_int_equal(wane_model_set_profile(model, path, &error), WANE_EBUSY);
    assert_int_equal(wane_model_drop_profile(model, &error), WANE_EBUSY);
    assert_int_equal(wane_model_set_consistency(model, true, &error), WANE_EBUSY);
    wane_session_free(session);
    wane_model_free(model);
}

/*
 * A profile by attention at a layer that locks and explores by turns, whatever the scripted attention looks like: the threshold between is searched.
 * What a state draws differs from what the others do.
 */
static wane_profile split_by_attention(wane_model *model, int layer, wane_generation g) {
    static struct reply ignored;
    wane_profile p = profile_for(model, WANE_SIGNAL_KURTOSIS);
    p.layer = layer;
    p.jerk = 0;
    p.locked_tokens = 1;
    p.locked_temperature = 0.1f;
    p.explore_temperature = 3;
    for (float at = 1.2f; at < 9; at += 0.1f) {
        p.peak = at + 0.01f;
        p.low = at - 0.01f;
        give(model, &p);
        wane_governor_state before = state_of(model);
        say(model, "a prompt that is long enough to be looked at", &g, &ignored);
        wane_governor_state now = state_of(model);
        if (now.tokens[WANE_STATE_LOCKED] - before.tokens[WANE_STATE_LOCKED] > 10 &&
            now.tokens[WANE_STATE_EXPLORE] - before.tokens[WANE_STATE_EXPLORE] > 10)
            return p;
    }
    fail_msg("layer %d has one state alone", layer);
    return p;
}

/* Domains with profiles of their own: each reply is steered by the one that its settings name; stability scales that one, too. */
static void test_several_profiles(void **unused) {
    (void)unused;
    static struct reply alone[3], beside[3], scaled;
    char extra[] = "/tmp/wane-governor-XXXXXX", more[] = "/tmp/wane-governor-XXXXXX";
    char *const paths[] = {path, extra, more};
    close(mkstemp(extra));
    close(mkstemp(more));
    for (int together = 0; together < 2; together++)
        for (int i = 0; i < 3; i++) { /* entropy, and attention at two layers */
            wane_model *model = make_model((struct wane__script){.sequences = 1, .linear = true, .peak = 6});
            wane_profile p[3];
            wane_quality q = quality_of();
            wane_generation g = generation_of(&q, 80);
            wane_error error = {0};
            g.sampling.top_p = 1; /* or the best token is left alone */
            g.sampling.min_p = 0;
            for (int k = 0; k < 3; k++) {
                p[k] = profile_for(model, WANE_SIGNAL_ENTROPY);
                p[k].jerk = 0;
                p[k].peak = -1;
                p[k].low = -3;
                p[k].sign = -1;
                if (k > 0)
                    p[k] = split_by_attention(model, 3 - k, g); /* 2, then 1: the probe has them in order */
                assert_int_equal(wane_profile_save(&p[k], paths[k], NULL), WANE_OK);
            }
            wane_governor_state were = state_of(model);
            if (!together) {
                give(model, &p[i]);
            } else {
                give(model, &p[0]);
                for (int k = 1, number = 0; k < 3; k++) {
                    if (wane_model_add_profile(model, paths[k], &number, &error) != WANE_OK)
                        fail_msg("%s", error.text);
                    assert_int_equal(number, k);
                }
                int again = 0;
                assert_int_equal(wane_model_add_profile(model, paths[1], &again, NULL), WANE_OK);
                assert_int_equal(again, 1);
                assert_int_equal(state_of(model).added, 2);
                q.profile = i;
            }
            say(model, "a prompt that is long enough to be looked at", &g, together ? &beside[i] : &alone[i]);
            wane_governor_state state = state_of(model);
            uint64_t normal = state.tokens[WANE_STATE_NORMAL] - were.tokens[WANE_STATE_NORMAL];
            assert_true(state.on && normal < 70);
            q.stability = 100;
            say(model, "a prompt that is long enough to be looked at", &g, &scaled);
            assert_true(state_of(model).tokens[WANE_STATE_NORMAL] - state.tokens[WANE_STATE_NORMAL] > normal);
            q.stability = 1;
            if (together) {
                assert_int_equal(wane_model_drop_profile(model, NULL), WANE_OK);
                assert_false(state_of(model).on);
                assert_int_equal(state_of(model).added, 0);
            }
            wane_model_free(model);
        }
    for (int i = 0; i < 3; i++) expect_same(&alone[i], &beside[i]);
    assert_int_not_equal(memcmp(alone[1].token, alone[2].token, sizeof(int32_t) * 80), 0);
    unlink(extra);
    unlink(more);
}

/* The probe itself: signals come, and steer. */
static void test_probed(void **unused) {
    (void)unused;
    static struct reply reply, drafted;
    for (int draft = 0; draft < 2; draft++) {
        wane_model *model = make_model((struct wane__script){.sequences = 1, .linear = true});
        wane_quality q = quality_of();
        wane_generation g = generation_of(&q, 150);
        wane_profile p = profile_for(model, WANE_SIGNAL_KURTOSIS);
        p.peak = 3.01f; /* nearly all of them are above or below */
        p.low = 3;
        p.jerk = 0;
        give(model, &p);
        q.consistency = 0.8f;
        assert_int_equal(wane_model_set_consistency(model, true, NULL), WANE_OK);
        assert_int_equal(wane_model_set_draft(model, draft ? WANE_DRAFT_ALWAYS : WANE_DRAFT_OFF, NULL),
                         WANE_OK);
        say(model, "a prompt that is long enough to be looked at", &g, draft ? &drafted : &reply);
        wane_governor_state state = state_of(model);
        assert_true(state.missing < 10);
        assert_true(state.tokens[WANE_STATE_LOCKED] + state.tokens[WANE_STATE_EXPLORE] > 10);
        assert_int_equal(state.judged, 150);
        assert_true(state.inconsistent > 0 && state.inconsistent < 150);
        assert_true(state.consistency && !isnan(state.last_consistency));
        wane_model_free(model);
    }
    expect_same(&reply, &drafted);
}

enum { CROWD = 14 };

/* Some tokens of it, then its reader has had enough. */
static void leave_early(wane_ticket *ticket, int tokens) {
    for (int got = 0; got < tokens;) {
        wane_event event;
        bool ended = false;
        assert_int_equal(wane_ticket_next(ticket, 20000, &event, &ended, NULL), WANE_OK);
        got += event.kind == WANE_EVENT_TEXT;
    }
    wane_ticket_cancel(ticket);
    wane_ticket_free(ticket);
}

/*
 * Several sequences are probed at once, some are cancelled in the middle and their slots taken by others, prompts share beginnings: each reply is
 * steered by its own keys alone, and is what it is without company.
 */
static void test_crowd(void **unused) {
    (void)unused;
    static struct reply alone[CROWD], unsteered;
    static struct outcome out;
    char prompt[CROWD][128];
    int differ = 0;
    for (int i = 0; i < CROWD; i++)
        snprintf(prompt[i], sizeof prompt[i], "%s number %d of a crowd %.*s",
                 i % 3 == 0 ? "the same beginning of a prompt for" : "prompt", i / 2, 3 * i,
                 "and some more of it that is longer each time");
    for (int draft = 0; draft < 2; draft++) {
        wane_model *model = make_model((struct wane__script){.sequences = 3, .linear = true, .peak = 6});
        wane_scheduler_options options = quick_options();
        struct rig rig = {.engine = model->engine, .model = model};
        wane_quality q = quality_of();
        wane_generation g = generation_of(&q, 60);
        wane_ticket *ticket[CROWD];
        g.sampling.top_p = 1;
        g.sampling.min_p = 0;
        wane_profile p = split_by_attention(model, 1, g);
        give(model, &p);
        q.consistency = 0.8f;
        assert_int_equal(wane_model_set_consistency(model, true, NULL), WANE_OK);
        assert_int_equal(wane_model_set_draft(model, draft ? WANE_DRAFT_ALWAYS : WANE_DRAFT_OFF, NULL),
                         WANE_OK);
        for (int i = 0; i < CROWD; i++) {
            g.sampling.seed = (uint64_t)i;
            say(model, prompt[i], &g, &alone[i]);
            q.governor = false;
            say(model, prompt[i], &g, &unsteered);
            q.governor = true;
            differ += memcmp(alone[i].token, unsteered.token, sizeof(int32_t) * 60) != 0;
        }
        assert_true(differ > CROWD / 2); /* what a sequence sees does matter */
        uint64_t missing = state_of(model).missing;
        assert_int_equal(wane_scheduler_new(model, &options, &rig.scheduler, NULL), WANE_OK);
        for (int i = 0; i < CROWD; i++) {
            g.sampling.seed = (uint64_t)i;
            ticket[i] = send(&rig, prompt[i], &g);
        }
        for (int i = 0; i < CROWD; i++) {
            if (i % 4 == 1) {
                leave_early(ticket[i], 7 + i);
                continue;
            }
            finish(ticket[i], &out);
            assert_int_equal(out.code, WANE_OK);
            assert_int_equal(out.texts, 60);
            if (memcmp(out.text, alone[i].text, alone[i].size) != 0)
                fail_msg("%s: with company \"%s\", alone \"%.*s\"", prompt[i], out.text, (int)alone[i].size,
                         alone[i].text);
        }
        assert_true(state_of(model).missing - missing <= missing); /* no key was lost on the way */
        rig_down(&rig);
    }
}

/* ------------------------------------------------------------------- consistency */

/* The more probable one of two draws stands: below the limit only, and the same again with the same seed. */
static void test_drawn_twice(void **unused) {
    (void)unused;
    static const wane_signals list[] = {{.consistency = 0.9f}, {.consistency = 0.5f}, {.consistency = NAN}};
    static struct reply plain, first, again, better;
    for (int corrected = 0; corrected < 2; corrected++) {
        wane_model *model = make_model((struct wane__script){.sequences = 1});
        struct scripted scripted = {list, 3, 0};
        wane_quality q = quality_of();
        q.governor = false;
        q.token_vote = corrected != 0;
        q.clamp *= corrected;
        wane_generation g = generation_of(&q, 60);
        g.sampling.temperature = 2;
        g.sampling.top_p = 1;
        say(model, "twice", &g, &plain);
        model->governor.look = scripted_look;
        model->governor.look_user = &scripted;
        say(model, "twice", &g, &again);
        expect_same(&plain, &again);
        assert_int_equal(scripted.asked, 0); /* nobody wants to know */
        q.consistency = 0.65f;
        say(model, "twice", &g, &first);
        wane_governor_state state = state_of(model);
        assert_int_equal(state.judged, 40);
        assert_int_equal(state.inconsistent, 20);
        assert_true(state.changed > 0 && state.changed < 20);
        assert_int_equal(first.token[0], plain.token[0]); /* its blocks agree */
        scripted.asked = 0;
        say(model, "twice", &g, &again);
        expect_same(&first, &again);
        g.sampling.temperature = 0; /* the best token is the best one twice */
        scripted.asked = 0;
        say(model, "twice", &g, &again);
        q.consistency = 0;
        say(model, "twice", &g, &better);
        expect_same(&again, &better);
        wane_model_free(model);
    }
}

/* ------------------------------------------------------------------------ fuse */

static int32_t looping[250], listing[250];
static const struct wane__script_reply scripts[] = {
    {.match = "loop", .tokens = looping, .count = 250, .fail_at = -1},
    {.match = "list", .tokens = listing, .count = 250, .fail_at = -1},
};

static struct wane__script fuse_script(void) {
    for (int i = 0; i < 250; i++) {
        looping[i] = i < 20 ? 'A' + i : "no, "[(i - 20) % 4];
        listing[i] = i % 8 == 0 ? 'a' + i / 8 % 26 : i % 8 == 1 ? 'A' + i / 200 : "no, yes "[i % 8];
    }
    return (struct wane__script){
        .replies = scripts, .reply_count = 2, .sequences = 3, .peak = 30, .linear = true};
}

static void test_fuse(void **unused) {
    (void)unused;
    static struct reply reply;
    for (int fallback = 0; fallback < WANE_FALLBACKS; fallback++)
        for (int draft = 0; draft < 2; draft++) {
            wane_model *model = make_model(fuse_script());
            wane_quality q = quality_of();
            wane_generation g = generation_of(&q, 250);
            q.governor = false;
            q.fuse = WANE_FUSE_LOOP;
            q.fallback = fallback;
            g.sampling.temperature = (float)(fallback % 2);
            assert_int_equal(wane_model_set_draft(model, draft ? WANE_DRAFT_ALWAYS : WANE_DRAFT_OFF, NULL),
                             WANE_OK);
            say(model, "loop", &g, &reply);
            assert_int_equal(reply.end.finish, WANE_FINISH_FUSE);
            assert_int_equal(reply.end.fuse, WANE_FUSE_LOOP);
            assert_int_equal(reply.end.fallback, fallback);
            assert_int_equal(reply.end.fuse_period, 4);
            assert_true(reply.end.fuse_spread < 0.03f);
            assert_int_equal(reply.count, 20 + 96);
            assert_int_equal(reply.end.reply_tokens, 20 + 96);
            const char *tail = reply.text + 20 + 96;
            if (fallback == WANE_FALLBACK_CONSERVATIVE) assert_memory_equal(tail, "\n\nI cannot", 10);
            if (fallback == WANE_FALLBACK_TRANSPARENT) assert_non_null(strstr(tail, "4 tokens"));
            assert_int_equal(reply.size > 20 + 96, fallback != WANE_FALLBACK_NONE);
            wane_governor_state state = state_of(model);
            assert_int_equal(state.fused[WANE_FUSE_LOOP], 1);
            assert_int_equal(state.fuse_tokens, 20 + 96);
            assert_int_equal(state.entropies, q.fuse_window); /* the last ones */
            assert_true(state.entropy_spread < 0.03f);
            say(model, "list", &g, &reply); /* a list is no loop */
            assert_int_equal(reply.end.finish, WANE_FINISH_LENGTH);
            assert_int_equal(reply.end.fuse, 0);
            uint64_t before = state_of(model).entropies;
            assert_int_equal(before, q.fuse_window); /* no row of a list is looked at */
            q.entropies = true;
            say(model, "list", &g, &reply);
            assert_int_equal(state_of(model).entropies - before, 250);
            q.entropies = false;
            q.fuse = WANE_FUSE_PLAIN; /* … which the plain rule cannot see */
            say(model, "list", &g, &reply);
            assert_int_equal(reply.end.finish, WANE_FINISH_FUSE);
            assert_int_equal(reply.count, 5);
            assert_int_equal(reply.end.fuse_period, 0);
            q.fuse_limit = 0; /* never below */
            say(model, "list", &g, &reply);
            assert_int_equal(reply.end.finish, WANE_FINISH_LENGTH);
            q.fuse_limit = 0.03f;
            q.mode = WANE_MODE_LEGACY;
            say(model, "loop", &g, &reply);
            assert_int_equal(reply.end.finish, WANE_FINISH_LENGTH);
            wane_model_free(model);
        }
}

/* A limit, a stop string and the model's own end at the same token outrank the fuse. */
/* A request without the governor is neither steered nor ended. */
static uint64_t steered(wane_model *model) {
    wane_governor_state state = state_of(model);
    uint64_t all = 0;
    for (int s = 0; s < WANE_STATES; s++) all += state.tokens[s];
    return all;
}

/* Without the governor, by request or by switch, nothing is steered; the fuse stays. */
static void test_without(void **unused) {
    (void)unused;
    static struct reply reply;
    wane_model *model = make_model(fuse_script());
    wane_profile p = profile_for(model, WANE_SIGNAL_ENTROPY);
    give(model, &p);
    wane_quality q = quality_of();
    wane_generation g = generation_of(&q, 250);
    q.fuse = WANE_FUSE_LOOP;
    for (int way = 0; way < 3; way++) {
        g.without = way == 1 ? 1u << WANE_FEATURE_GOVERNOR : 0;
        if (way == 2) wane_model_switch_off(model, 1u << WANE_FEATURE_GOVERNOR);
        uint64_t before = steered(model);
        say(model, "loop", &g, &reply);
        assert_int_equal(reply.end.finish, WANE_FINISH_FUSE);
        assert_int_equal(steered(model) > before, way == 0);
    }
    wane_model_free(model);
}

static void test_fuse_comes_last(void **unused) {
    (void)unused;
    static struct reply reply;
    static const char *stop[] = {"no, no, no, "};
    wane_model *model = make_model(fuse_script());
    wane_quality q = quality_of();
    wane_generation g = generation_of(&q, 116);
    q.fuse = WANE_FUSE_LOOP;
    g.sampling.temperature = 0;
    say(model, "loop", &g, &reply);
    assert_int_equal(reply.end.finish, WANE_FINISH_LENGTH);
    assert_int_equal(reply.size, 116);
    g.max_tokens = 0;
    g.stops = stop;
    g.stop_count = 1;
    say(model, "loop", &g, &reply);
    assert_int_equal(reply.end.finish, WANE_FINISH_STOP);
    assert_int_equal(reply.size, 20);
    wane_model_free(model);
}

static wane_memo_state memo_of(wane_model *model) {
    wane_memo_state state;
    wane_model_get_memo_state(model, &state);
    return state;
}

/*
 * A fuse and the memo: a reply that is repeated ends where it ended, with the same words, and comes from the memo until the fuse wants
 * entropies. In sessions and in the scheduler, with drafts and without; greedy and seeded.
 */
static void test_memo(void **unused) {
    (void)unused;
    static struct reply without, first, second;
    static struct outcome asked, again;
    for (int kind = 0; kind < 8; kind++) {
        bool loops = kind % 2 == 0, seeded = kind / 2 % 2, draft = kind / 4;
        const char *prompt = loops ? "loop" : "list";
        wane_model *model = make_model(fuse_script());
        wane_quality q = quality_of();
        wane_generation g = generation_of(&q, 200);
        wane_scheduler_options options = quick_options();
        struct rig rig = {.engine = model->engine, .model = model};
        q.governor = false;
        q.fuse = WANE_FUSE_LOOP;
        q.fallback = WANE_FALLBACK_TRANSPARENT; /* has the figures in it */
        if (!seeded) g.sampling.temperature = 0;
        assert_int_equal(wane_model_set_draft(model, draft ? WANE_DRAFT_ALWAYS : WANE_DRAFT_OFF, NULL),
                         WANE_OK);
        say(model, prompt, &g, &without);
        assert_int_equal(without.end.finish, loops ? WANE_FINISH_FUSE : WANE_FINISH_LENGTH);
        assert_int_equal(wane_model_set_memo(model, 1 << 20, NULL, NULL), WANE_OK);
        say(model, prompt, &g, &first);
        assert_int_equal(memo_of(model).hits, 0);
        say(model, prompt, &g, &second);
        assert_int_equal(memo_of(model).hits, loops ? 20 + 96 - q.fuse_window : 200);
        for (int i = 0; i < 2; i++) {
            const struct reply *one = i == 0 ? &first : &second;
            expect_same(&without, one);
            assert_string_equal(one->text, without.text);
            assert_int_equal(one->end.finish, without.end.finish);
            assert_int_equal(one->end.fuse_period, without.end.fuse_period);
            assert_true(one->end.fuse_spread == without.end.fuse_spread);
        }
        assert_int_equal(wane_scheduler_new(model, &options, &rig.scheduler, NULL), WANE_OK);
        uint64_t hits = memo_of(model).hits;
        ask(&rig, prompt, &g, &asked);
        ask(&rig, prompt, &g, &again);
        assert_int_equal(memo_of(model).hits - hits, 2 * (loops ? 20 + 96 - q.fuse_window : 200));
        assert_string_equal(asked.text, without.text);
        assert_string_equal(again.text, without.text);
        assert_int_equal(again.finish, without.end.finish);
        q.fuse = WANE_FUSE_OFF; /* the tokens are the same ones */
        hits = memo_of(model).hits;
        ask(&rig, prompt, &g, &asked);
        assert_int_equal(memo_of(model).hits - hits, loops ? 20 + 96 : 200);
        assert_memory_equal(asked.text, without.text, (size_t)without.count);
        rig_down(&rig);
    }
}

/* What looks at every row neither asks nor fills it. */
static void test_no_memo(void **unused) {
    (void)unused;
    static struct reply first, second;
    for (int kind = 0; kind < 4; kind++) {
        wane_model *model = make_model(fuse_script());
        struct scripted scripted = {&middle, 1, 0};
        wane_profile p = profile_for(model, WANE_SIGNAL_KURTOSIS);
        wane_quality q = quality_of();
        wane_generation g = generation_of(&q, 100);
        model->governor.look = scripted_look;
        model->governor.look_user = &scripted;
        give(model, &p);
        q.governor = kind == 0;
        if (kind == 1) q.fuse = WANE_FUSE_PLAIN;
        if (kind == 2) q.consistency = 0.5f;
        if (kind == 3) q.entropies = true;
        assert_int_equal(wane_model_set_memo(model, 1 << 20, NULL, NULL), WANE_OK);
        say(model, "in the language", &g, &first);
        say(model, "in the language", &g, &second);
        expect_same(&first, &second);
        assert_int_equal(memo_of(model).hits + memo_of(model).misses, 0);
        wane_model_free(model);
    }
}

/* Answers of a vote have a governor each; one that loops ends, and the vote goes on. */
static void test_votes(void **unused) {
    (void)unused;
    static struct outcome out, again;
    for (int times = 0; times < 2; times++) {
        wane_model *model = make_model(fuse_script());
        wane_quality q = quality_of();
        wane_generation g = generation_of(&q, 150);
        wane_scheduler_options options = quick_options();
        struct rig rig = {.engine = model->engine, .model = model};
        wane_profile p = profile_for(model, WANE_SIGNAL_ENTROPY);
        p.sign = -1;
        p.peak = -1;
        p.low = -2;
        give(model, &p);
        q.answers = 3;
        q.fuse = WANE_FUSE_LOOP;
        assert_int_equal(wane_scheduler_new(model, &options, &rig.scheduler, NULL), WANE_OK);
        g.hold = WANE_HOLD_VOTE;
        ask(&rig, "loop", &g, &out);
        assert_int_equal(out.answers, 3);
        assert_int_equal(out.finish, WANE_FINISH_FUSE);
        assert_non_null(strstr(out.text, "I cannot go on"));
        ask(&rig, "votes in the language", &g, &out);
        assert_int_equal(out.answers, 3);
        assert_int_equal(state_of(model).dropped, 0);
        if (times == 0) again = out;
        assert_string_equal(again.text, out.text);
        rig_down(&rig);
    }
}

int main(void) {
    int file = mkstemp(path);
    if (file < 0) return 1;
    close(file);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_state),
        cmocka_unit_test(test_lock_holds),
        cmocka_unit_test(test_by_entropy),
        cmocka_unit_test(test_left_alone),
        cmocka_unit_test(test_without),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_several_profiles),
        cmocka_unit_test(test_crowd),
        cmocka_unit_test(test_probed),
        cmocka_unit_test(test_drawn_twice),
        cmocka_unit_test(test_fuse),
        cmocka_unit_test(test_fuse_comes_last),
        cmocka_unit_test(test_memo),
        cmocka_unit_test(test_no_memo),
        cmocka_unit_test(test_votes),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
