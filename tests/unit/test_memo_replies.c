/*
 * test_memo_replies.c - replies that the memo knows, in sessions and in the scheduler, on the scripted engine: the same events as
 * without, and the engine is asked only for what was not answered before.
 */
#include "test_scheduler_rig.h"

#include "table/memo_internal.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

static const int32_t tea[] = {'a', ' ', 'c', 'u', 'p', ' ', 'o', 'f', ' ', 't',
                              'e', 'a', ' ', 'i', 's', ' ', 'h', 'o', 't', 257};
static const struct wane__script_reply replies[] = {
    {.match = "tea", .tokens = tea, .count = 20, .fail_at = -1},
    {.match = "fail", .tokens = tea, .count = 20, .fail_at = 10},
};

static struct rig memo_rig(int sequences, bool drafts) {
    struct rig rig = {0};
    wane_error error = {0};
    wane_scheduler_options options = quick_options();
    struct wane__script script = {.replies = replies, .reply_count = 2, .sequences = sequences, .batch = 32};
    assert_int_equal(wane__script_load(&script, NULL, &rig.engine, &error), WANE_OK);
    assert_int_equal(wane__model_wrap(rig.engine, NULL, NULL, &rig.model, &error), WANE_OK);
    assert_int_equal(wane_model_set_memo(rig.model, 1 << 20, NULL, &error), WANE_OK);
    if (drafts) assert_int_equal(wane_model_set_draft(rig.model, WANE_DRAFT_ALWAYS, &error), WANE_OK);
    assert_int_equal(wane_scheduler_new(rig.model, &options, &rig.scheduler, &error), WANE_OK);
    return rig;
}

static wane_memo_state memo_of(const struct rig *rig) {
    wane_memo_state state;
    wane_model_get_memo_state(rig->model, &state);
    return state;
}

static void assert_same(const struct outcome *a, const struct outcome *b) {
    assert_int_equal(a->code, b->code);
    assert_string_equal(a->text, b->text);
    assert_int_equal(a->texts, b->texts);
    assert_int_equal(a->starts, b->starts);
    assert_int_equal(a->finish, b->finish);
    assert_string_equal(a->stop, b->stop);
    assert_int_equal(a->prompt_tokens, b->prompt_tokens);
    assert_int_equal(a->reply_tokens, b->reply_tokens);
}

/* `without` the memo, then the first answer, then the repetition: all the same; the engine's decodes of the last. */
static uint64_t thrice(struct rig *rig, const char *prompt, wane_generation g, struct outcome *again) {
    static struct outcome without, first;
    g.no_memo = true;
    ask(rig, prompt, &g, &without);
    g.no_memo = false;
    ask(rig, prompt, &g, &first);
    uint64_t before = rig_counts(rig).decodes;
    wane_scheduler_state was = rig_state(rig);
    ask(rig, prompt, &g, again);
    wane_scheduler_state is = rig_state(rig);
    assert_same(&without, &first);
    assert_same(&first, again);
    assert_int_equal(is.reply_tokens - was.reply_tokens, again->reply_tokens);
    assert_int_equal(is.prompt_tokens - was.prompt_tokens, again->prompt_tokens);
    return rig_counts(rig).decodes - before;
}

static void test_repeated(void **unused) {
    (void)unused;
    static struct outcome again;
    static const char *stops[] = {"of t"};
    wane_bias bias = {'e', -2};
    for (int drafts = 0; drafts < 2; drafts++) {
        struct rig rig = memo_rig(2, drafts);
        for (int kind = 0; kind < 8; kind++) {
            wane_generation g = greedy(200);
            wane_sampling *s = &g.sampling;
            const char *prompt = kind < 3 ? "some tea" : "in the language";
            if (kind == 1) g.stops = stops, g.stop_count = 1;
            if (kind == 2) g.ignore_end = true;
            if (kind >= 3) s->seeded = true, s->seed = 5;
            if (kind == 3) s->temperature = 1, s->top_k = 0, s->top_p = 1, s->min_p = 0;
            if (kind == 4) s->temperature = 0.7f, s->repeat_penalty = 1.3f, s->penalty_window = -1;
            if (kind == 5) s->presence_penalty = 3, s->frequency_penalty = 0.5f;
            if (kind == 6) s->temperature = 2, s->bias = &bias, s->bias_count = 1;
            if (kind == 7) g.max_tokens = 0; /* to the context's end */
            wane_memo_state was = memo_of(&rig);
            assert_int_equal(thrice(&rig, prompt, g, &again), 0);
            wane_memo_state is = memo_of(&rig);
            assert_int_equal(is.hits - was.hits + is.misses - was.misses, 2 * again.reply_tokens);
            assert_true(is.hits - was.hits >= (uint64_t)again.reply_tokens);
            assert_true(again.code == WANE_OK && again.reply_tokens >= 10);
        }
        rig_down(&rig);
    }
}

/* Tokens that are known are not waited for, and those behind them come from the body: the same as at one go. */
static void test_longer(void **unused) {
    (void)unused;
    static struct outcome fresh, first, longer, longest;
    for (int drafts = 0; drafts < 2; drafts++)
        for (int hot = 0; hot < 2; hot++) {
            struct rig rig = memo_rig(2, drafts);
            wane_generation g = greedy(40);
            g.sampling.temperature = (float)hot;
            g.sampling.seeded = true;
            g.no_memo = true;
            g.max_tokens = 300;
            ask(&rig, "words upon words", &g, &fresh);
            g.no_memo = false;
            g.max_tokens = 40;
            ask(&rig, "words upon words", &g, &first);
            assert_memory_equal(first.text, fresh.text, first.size);
            uint64_t hits = memo_of(&rig).hits;
            g.max_tokens = 120;
            ask(&rig, "words upon words", &g, &longer);
            assert_int_equal(memo_of(&rig).hits - hits, 40);
            assert_memory_equal(longer.text, fresh.text, longer.size);
            assert_int_equal(longer.reply_tokens, 120);
            g.max_tokens = 300;
            ask(&rig, "words upon words", &g, &longest);
            assert_int_equal(memo_of(&rig).hits - hits, 40 + 120);
            assert_same(&longest, &fresh);
            /* And what the engine holds is sound: the next turn of the conversation is the same as without. */
            rig_down(&rig);
        }
}

static void test_not_repeated(void **unused) {
    (void)unused;
    static struct outcome out;
    struct rig rig = memo_rig(1, false);
    wane_generation g = greedy(10);
    for (int kind = 0; kind < 3; kind++) {
        g = greedy(10);
        if (kind == 0) g.sampling.temperature = 1; /* no seed */
        if (kind == 1) g.sampling.top_logprobs = 2;
        if (kind == 2) g.no_memo = true;
        for (int i = 0; i < 2; i++) ask(&rig, "hello", &g, &out);
        assert_int_equal(memo_of(&rig).hits + memo_of(&rig).misses, 0);
    }
    rig_down(&rig);
}

static void change_quality(wane_quality *q, int field) {
    int *whole[] = {&q->clamp,           &q->dialogue_scale, &q->answers,      &q->documents,
                    &q->doubt_budget,    &q->revival_after,  &q->forced_every, &q->breaker_wakes,
                    &q->breaker_seconds, &q->doubt_votes};
    float *real[] = {&q->dialogue_slope,      &q->dialogue_floor, &q->hold,        &q->odds_base,
                     &q->odds_entropy,        &q->odds_documents, &q->revival_top, &q->forced_above,
                     &q->breaker_temperature, &q->doubt_allowance};
    if (field < 10) *whole[field] += 1;
    if (field >= 10 && field < 20) *real[field - 10] = nextafterf(*real[field - 10], 2);
    if (field == 20) q->mode = WANE_MODE_LEGACY;
    if (field == 21) q->token_vote = false;
    if (field == 22) q->rules = false;
}

/* Each field of the settings makes another request of it; what cannot matter to a greedy one does not. */
static void test_what_counts(void **unused) {
    (void)unused;
    struct wane__recall base, other;
    wane_bias bias[2] = {{1, 2}, {3, 4}}, moved[2] = {{1, 2}, {4, 4}}, more[2] = {{1, 2}, {3, 5}};
    wane_generation start = greedy(10);
    start.sampling.temperature = 0.5f;
    start.sampling.seeded = true;
    start.sampling.bias = bias;
    start.sampling.bias_count = 2;
    wane__recall_init(&base, &start);
    assert_true(base.able && base.indexed);
    wane_quality base_quality;
    wane_quality_init(&base_quality);
    start.quality = &base_quality; /* off: as if there were none */
    wane__recall_init(&other, &start);
    assert_memory_equal(&other.digest, &base.digest, sizeof base.digest);
    base_quality.mode = WANE_MODE_WANE;
    wane__recall_init(&base, &start);
    assert_true(other.digest.low != base.digest.low);
    for (int field = 0; field < 12 + 23; field++) {
        wane_generation g = start;
        wane_quality q = base_quality;
        wane_sampling *s = &g.sampling;
        switch (field) {
        case 0: s->temperature = nextafterf(0.5f, 1); break;
        case 1: s->top_k++; break;
        case 2: s->top_p = nextafterf(s->top_p, 0); break;
        case 3: s->min_p = nextafterf(s->min_p, 0); break;
        case 4: s->repeat_penalty = 1.1f; break;
        case 5: s->presence_penalty = 1; break;
        case 6: s->frequency_penalty = 1; break;
        case 7: s->penalty_window = -1; break;
        case 8: s->seed++; break;
        case 9: s->bias_count = 1; break;
        case 10: s->bias = moved; break;
        case 11: s->bias = more; break;
        default: change_quality(&q, field - 12), g.quality = &q; break;
        }
        wane__recall_init(&other, &g);
        assert_true(other.able);
        assert_true(other.digest.low != base.digest.low && other.digest.high != base.digest.high);
    }
    wane_generation g = start;
    g.max_tokens = 99, g.tenant = "x", g.no_draft = true, g.deadline_ms = 1;
    wane__recall_init(&other, &g);
    assert_memory_equal(&other.digest, &base.digest, sizeof base.digest);
    start.sampling.temperature = 0;
    wane__recall_init(&base, &start);
    start.sampling.seed = 1234;
    wane__recall_init(&other, &start);
    assert_memory_equal(&other.digest, &base.digest, sizeof base.digest);
    start.sampling.seeded = false;
    wane__recall_init(&other, &start);
    assert_true(other.able && !other.indexed);
    assert_memory_equal(&other.digest, &base.digest, sizeof base.digest);
}

/* Greedy replies share whatever their seed, and go on from what was a reply and is now a prompt; seeded ones do not. */
static void test_shared(void **unused) {
    (void)unused;
    static struct outcome first, second;
    char prompt[100];
    for (int hot = 0; hot < 2; hot++) {
        struct rig rig = memo_rig(1, false);
        wane_generation g = greedy(30);
        g.sampling.temperature = (float)hot;
        g.sampling.seeded = true;
        ask(&rig, "hello", &g, &first);
        g.sampling.seed = 77;
        ask(&rig, "hello", &g, &second);
        assert_int_equal(memo_of(&rig).hits, hot ? 0 : 30);
        snprintf(prompt, sizeof prompt, "hello%.10s", first.text);
        g.sampling.seed = 0;
        g.max_tokens = 20;
        uint64_t hits = memo_of(&rig).hits;
        ask(&rig, prompt, &g, &second);
        assert_int_equal(memo_of(&rig).hits - hits, hot ? 0 : 20);
        if (!hot) assert_string_equal(second.text, first.text + 10);
        rig_down(&rig);
    }
}

static void test_tenants(void **unused) {
    (void)unused;
    static struct outcome out;
    struct rig rig = memo_rig(2, false);
    wane_generation g = greedy(10);
    g.tenant = "a";
    ask(&rig, "a secret", &g, &out);
    g.tenant = "b";
    ask(&rig, "a secret", &g, &out);
    g.tenant = NULL;
    ask(&rig, "a secret", &g, &out);
    assert_int_equal(memo_of(&rig).hits, 0);
    assert_int_equal(memo_of(&rig).misses, 30);
    g.tenant = "a";
    ask(&rig, "a secret", &g, &out);
    assert_int_equal(memo_of(&rig).hits, 10);
    rig_down(&rig);
}

/* The decode that follows on known tokens fails: after them, in words, and alone. */
static void test_failure(void **unused) {
    (void)unused;
    static struct outcome out, other;
    struct rig rig = memo_rig(2, false);
    wane_generation g = greedy(8), long_one = greedy(200);
    ask(&rig, "will fail", &g, &out);
    assert_int_equal(out.code, WANE_OK);
    wane_ticket *beside = send(&rig, "something else", &long_one);
    g.max_tokens = 30;
    ask(&rig, "will fail", &g, &out);
    assert_int_equal(out.code, WANE_EENGINE);
    assert_int_equal(out.texts, 10);
    assert_non_null(strstr(out.error.text, "after 10 tokens"));
    assert_true(memo_of(&rig).hits >= 8);
    finish(beside, &other);
    assert_int_equal(other.code, WANE_OK);
    ask(&rig, "will fail", &g, &out);
    assert_int_equal(out.texts, 10);
    rig_down(&rig);
}

/* Two at once with the same request, and one who gives up in between; nothing else changes for anybody. */
static void test_company(void **unused) {
    (void)unused;
    static struct outcome alone, out[2];
    for (int drafts = 0; drafts < 2; drafts++) {
        struct rig rig = memo_rig(3, drafts);
        wane_generation g = greedy(350);
        g.no_memo = true;
        ask(&rig, "the same for both", &g, &alone);
        g.no_memo = false;
        for (int round = 0; round < 4; round++) {
            wane_ticket *ticket[3];
            for (int i = 0; i < 3; i++) ticket[i] = send(&rig, "the same for both", &g);
            wane_event event;
            bool ended;
            for (int i = 0; i < 5 * round; i++)
                assert_int_equal(wane_ticket_next(ticket[2], 20000, &event, &ended, NULL), WANE_OK);
            wane_ticket_cancel(ticket[2]);
            for (int i = 0; i < 2; i++) {
                finish(ticket[i], &out[i]);
                assert_same(&out[i], &alone);
            }
            wane_ticket_free(ticket[2]);
        }
        assert_true(memo_of(&rig).hits > 2 * 3 * 350);
        rig_down(&rig);
    }
}

/* A reader who does not read: its known reply waits, and others are answered. */
static void test_slow_reader(void **unused) {
    (void)unused;
    static struct outcome first, other, slow;
    struct rig rig = memo_rig(2, false);
    wane_generation g = greedy(450), few = greedy(20);
    ask(&rig, "long", &g, &first);
    wane_ticket *ticket = send(&rig, "long", &g);
    for (int i = 0; i < 3; i++) ask(&rig, "other", &few, &other);
    assert_int_equal(other.reply_tokens, 20);
    finish(ticket, &slow);
    assert_same(&slow, &first);
    rig_down(&rig);
}

/* ------------------------------------------------------------------- sessions */

static int by_session(wane_model *model, const char *prompt, const wane_generation *g, char *text) {
    wane_session *session;
    wane_error error = {0};
    wane_event event = {0};
    int32_t tokens[100];
    size_t count = strlen(prompt), size = 0;
    for (size_t i = 0; i < count; i++) tokens[i] = (unsigned char)prompt[i];
    assert_int_equal(wane_session_new(model, &session, &error), WANE_OK);
    int code = wane_session_start(session, tokens, count, g, &error);
    while (code == WANE_OK && event.kind != WANE_EVENT_END) {
        code = wane_session_next(session, &event, &error);
        if (code != WANE_OK) break;
        memcpy(text + size, event.text != NULL ? event.text : "", event.text_size);
        size += event.text_size;
    }
    text[size] = '\0';
    wane_session_free(session);
    return code;
}

static void test_sessions(void **unused) {
    (void)unused;
    char folder[] = "/tmp/wane-memo-XXXXXX", path[64], fresh[600], text[600];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/m.memo", folder);
    wane_error error = {0};
    for (int drafts = 0; drafts < 2; drafts++) {
        struct rig rig = memo_rig(1, drafts);
        wane_scheduler_free(rig.scheduler);
        wane_generation g = greedy(200);
        g.no_memo = true;
        assert_int_equal(by_session(rig.model, "hello", &g, fresh), WANE_OK);
        g.no_memo = false;
        for (int most = 20; most <= 200; most += 60) {
            g.max_tokens = most;
            assert_int_equal(by_session(rig.model, "hello", &g, text), WANE_OK);
            assert_memory_equal(text, fresh, (size_t)most);
        }
        uint64_t before = rig_counts(&rig).decodes;
        assert_int_equal(by_session(rig.model, "hello", &g, text), WANE_OK);
        assert_int_equal(rig_counts(&rig).decodes, before);
        assert_string_equal(text, fresh);
        wane_model_free(rig.model);
    }
    /* From process to process. */
    for (int i = 0; i < 2; i++) {
        struct rig rig = memo_rig(1, false);
        wane_generation g = greedy(200);
        assert_int_equal(wane_model_set_memo(rig.model, 1 << 20, path, &error), WANE_EBUSY);
        assert_int_equal(wane_model_save_memo(rig.model, &error), WANE_EBUSY);
        wane_scheduler_free(rig.scheduler);
        assert_int_equal(wane_model_set_memo(rig.model, 100, path, &error), WANE_EINVAL);
        assert_int_equal(wane_model_set_memo(rig.model, 1 << 20, path, &error), WANE_OK);
        uint64_t before = rig_counts(&rig).decodes;
        assert_int_equal(by_session(rig.model, "hello", &g, text), WANE_OK);
        assert_string_equal(text, fresh);
        assert_true((rig_counts(&rig).decodes > before) == (i == 0));
        assert_int_equal(memo_of(&rig).entries, 200);
        assert_int_equal(wane_model_save_memo(rig.model, &error), WANE_OK);
        assert_int_equal(wane_model_set_memo(rig.model, 0, NULL, &error), WANE_OK);
        assert_false(memo_of(&rig).on);
        assert_int_equal(wane_model_save_memo(rig.model, &error), WANE_OK);
        if (i == 1) {
            snprintf(rig.model->settings, sizeof rig.model->settings, "batch 7");
            assert_int_equal(wane_model_set_memo(rig.model, 1 << 20, path, &error), WANE_EUNSUPPORTED);
            assert_false(memo_of(&rig).on);
        }
        wane_model_free(rig.model);
    }
    unlink(path);
    rmdir(folder);
}

/* ---------------------------------------------------------------- the shadow check */

static wane_divergence_state divergences_of(const struct rig *rig) {
    wane_divergence_state state;
    wane_model_get_divergences(rig->model, WANE_WATCHED_MEMO, &state);
    return state;
}

static wane_generation kind_of(int hot) {
    wane_generation g = greedy(60);
    g.sampling.temperature = (float)hot;
    g.sampling.seeded = true;
    g.ignore_end = true;
    return g;
}

/* Every token is computed as well, and is the same. */
static void test_looked_at(void **unused) {
    (void)unused;
    static struct outcome first, again;
    for (int drafts = 0; drafts < 2; drafts++)
        for (int hot = 0; hot < 2; hot++) {
            struct rig rig = memo_rig(2, drafts);
            wane_generation g = kind_of(hot);
            ask(&rig, "in the language", &g, &first);
            wane__rows_set_shadow(&rig.model->rows, 1);
            wane_memo_state was = memo_of(&rig);
            ask(&rig, "in the language", &g, &again);
            assert_same(&first, &again);
            assert_int_equal(memo_of(&rig).hits, was.hits);
            assert_int_equal(memo_of(&rig).misses, was.misses);
            assert_int_equal(divergences_of(&rig).checks, again.reply_tokens);
            assert_int_equal(divergences_of(&rig).divergences, 0);
            /* A share: the others are repeated. */
            wane__rows_set_shadow(&rig.model->rows, 0.9);
            for (int i = 0; i < 10; i++) {
                ask(&rig, "in the language", &g, &again);
                assert_same(&first, &again);
            }
            uint64_t looked = divergences_of(&rig).checks - (uint64_t)again.reply_tokens;
            assert_in_range(looked, 20, 110); /* a tenth of 0.9, of 600 */
            assert_int_equal(memo_of(&rig).hits - was.hits, 600 - looked);
            assert_int_equal(rig_counts(&rig).violations, 0);
            rig_down(&rig);
        }
}

/* Tokens that were not answered: found, not given out, put right; and after three the memo is off. */
static void test_divergence(void **unused) {
    (void)unused;
    static struct outcome first, again;
    for (int hot = 0; hot < 2; hot++) {
        struct rig rig = memo_rig(2, false);
        wane_generation g = kind_of(hot);
        ask(&rig, "in the language", &g, &first);
        struct wane__memo *memo = rig.model->memo->memo;
        for (uint32_t i = 0; i < memo->count; i++) memo->entry[i].token = (memo->entry[i].token + 100) % 250;
        wane__rows_set_shadow(&rig.model->rows, 1);
        ask(&rig, "in the language", &g, &again);
        assert_same(&first, &again);
        wane_divergence_state d = divergences_of(&rig);
        assert_true(d.off && d.divergences == 3 && d.checks == 3);
        uint64_t hits = memo_of(&rig).hits;
        ask(&rig, "in the language", &g, &again);
        assert_same(&first, &again);
        assert_int_equal(memo_of(&rig).hits, hits);
        /* Three are right now, the next three are not. */
        assert_int_equal(wane_model_arm(rig.model, WANE_WATCHED_MEMO, NULL), WANE_OK);
        ask(&rig, "in the language", &g, &again);
        assert_same(&first, &again);
        assert_int_equal(divergences_of(&rig).divergences, 6);
        assert_int_equal(divergences_of(&rig).checks, 3 + 6);
        rig_down(&rig);
    }
}

/* What other floats of another batch might have drawn is no divergence, and the first answer stands. */
static void test_first_answer_stands(void **unused) {
    (void)unused;
    static struct outcome first, again, third;
    struct rig rig = memo_rig(2, false);
    wane_generation g = greedy(1);
    ask(&rig, "some tea", &g, &first);
    struct wane__memo *memo = rig.model->memo->memo;
    memo->entry[0].token++; /* its logit is one less */
    wane__rows_set_shadow(&rig.model->rows, 1);
    ask(&rig, "some tea", &g, &again);
    assert_string_equal(first.text, "a");
    assert_string_equal(again.text, "b");
    assert_int_equal(divergences_of(&rig).checks, 1);
    assert_int_equal(divergences_of(&rig).divergences, 0);
    wane__rows_set_shadow(&rig.model->rows, 0);
    ask(&rig, "some tea", &g, &third);
    assert_string_equal(third.text, "b");
    rig_down(&rig);
}

/* Without the memo nothing is repeated, and nothing kept; switched off, the same for all. */
static void test_without(void **unused) {
    (void)unused;
    static struct outcome first, other;
    struct rig rig = memo_rig(1, true);
    wane_generation g = greedy(60);
    g.without = 1u << WANE_FEATURE_MEMO | 1u << WANE_FEATURE_DRAFT;
    ask(&rig, "in the language", &g, &first);
    assert_int_equal(memo_of(&rig).entries, 0);
    wane_draft_state drafts;
    wane_model_get_draft_state(rig.model, &drafts);
    assert_int_equal(drafts.blocks + drafts.rehearsals, 0);
    g.without = 0;
    ask(&rig, "in the language", &g, &other);
    assert_same(&first, &other);
    wane_memo_state was = memo_of(&rig);
    assert_true(was.entries > 0);
    wane_model_switch_off(rig.model, 1u << WANE_FEATURE_MEMO | 1u << WANE_FEATURE_DRAFT);
    ask(&rig, "in the language", &g, &other);
    assert_same(&first, &other);
    assert_int_equal(memo_of(&rig).hits, was.hits);
    wane_model_switch_on(rig.model, WANE_FEATURES_ALL);
    ask(&rig, "in the language", &g, &other);
    assert_same(&first, &other);
    assert_true(memo_of(&rig).hits > was.hits);
    rig_down(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_repeated),
        cmocka_unit_test(test_longer),
        cmocka_unit_test(test_not_repeated),
        cmocka_unit_test(test_what_counts),
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_tenants),
        cmocka_unit_test(test_failure),
        cmocka_unit_test(test_company),
        cmocka_unit_test(test_slow_reader),
        cmocka_unit_test(test_sessions),
        cmocka_unit_test(test_looked_at),
        cmocka_unit_test(test_divergence),
        cmocka_unit_test(test_first_answer_stands),
        cmocka_unit_test(test_without),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
