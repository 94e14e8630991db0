/*
 * test_record.c - recording on the scripted engine: what a session and a scheduler draw is what the trace says, and recording
 * changes nothing of it. Kinds and NFC stand here, too.
 */
#include "unit/trace_rig.h"

#include "core/memory.h"
#include "model.h"
#include "record.h"

#define END 257

static const int32_t hello[] = {'H', 'e', 'l', 'l', 'o', END};
static const struct wane__script_reply replies[] = {
    {.match = "Hi", .tokens = hello, .count = 6, .fail_at = -1},
    {.match = "Fail", .tokens = hello, .count = 6, .fail_at = 3},
    /* Slow enough that it can be given up before it ends. */
    {.match = "talk", .tokens = hello, .count = 6, .fail_at = -1, .delay_ms = 5}};

static wane_model *make_model(bool linear) {
    static struct wane__log silent;
    struct wane__script script = {.replies = replies, .reply_count = 3, .sequences = 2, .linear = linear};
    struct wane__engine *engine = NULL;
    wane_model *model = NULL;
    wane__log_init(&silent, NULL, NULL);
    assert_int_equal(wane__script_load(&script, &silent, &engine, NULL), WANE_OK);
    assert_int_equal(wane__model_wrap(engine, NULL, NULL, &model, NULL), WANE_OK);
    return model;
}

static wane_recorder *record(wane_model *model, const struct rig_folder *folder, bool all) {
    wane_recorder_options options;
    wane_recorder *recorder = NULL;
    wane_error error = {0};
    wane_recorder_options_init(&options);
    options.folder = folder->path;
    options.all_logits = all;
    if (wane_recorder_open(model, &options, &recorder, &error) != WANE_OK) fail_msg("%s", error.text);
    return recorder;
}

static wane_tokens prompt_of(wane_model *model, const char *text) {
    wane_tokens tokens = {0};
    wane_message message = {"user", text, strlen(text)};
    assert_int_equal(wane_chat_tokenize(model, &message, 1, &tokens, NULL), WANE_OK);
    return tokens;
}

/* Decode to the end; the ids, the end token not among them. */
static int run(wane_session *session, const wane_tokens *prompt, const wane_generation *g, int32_t *ids) {
    int count = 0;
    wane_event event;
    wane_error error = {0};
    if (wane_session_start(session, prompt->id, prompt->count, g, &error) != WANE_OK)
        fail_msg("%s", error.text);
    for (int code; (code = wane_session_next(session, &event, &error)) == WANE_OK;) {
        if (event.kind == WANE_EVENT_END) return count;
        ids[count++] = event.token;
    }
    return -1;
}

/* Read a folder of one request; tokens into `out`. */
static int read_tokens(const struct rig_folder *folder, wane_model *model, struct wane__trace_token *out,
                       int most, struct wane__trace_end *end, int32_t *prompt, float *all) {
    struct wane__trace_origin origin;
    struct wane__trace_reader *reader = NULL;
    struct wane__trace_record record;
    wane_error error = {0};
    assert_int_equal(wane__model_origin(model, &origin, &error), WANE_OK);
    struct wane__trace_read_options options = {.expected = &origin, .want_all = all != NULL};
    const char *paths[] = {folder->path};
    int count = 0;
    assert_int_equal(wane__trace_read_open(paths, 1, &options, &reader, &error), WANE_OK);
    while (wane__trace_read_next(reader, &record, &error) == WANE_OK && record.type != WANE__TRACE_DONE) {
        if (record.type == WANE__TRACE_REQUEST)
            memcpy(prompt, record.request->prompt, record.request->prompt_count * sizeof *prompt);
        if (record.type == WANE__TRACE_END) *end = *record.end;
        if (record.type != WANE__TRACE_TOKEN) continue;
        assert_true(count < most);
        if (all != NULL) memcpy(all, record.all, 384 * sizeof *all);
        out[count++] = *record.token;
    }
    assert_string_equal(error.text, "");
    wane__trace_read_close(reader);
    return count;
}

static void test_session(void **state) {
    (void)state;
    for (int linear = 0; linear < 2; linear++) {
        struct rig_folder folder;
        rig_folder_make(&folder);
        wane_model *model = make_model(linear);
        wane_tokens prompt = prompt_of(model, "Hi");
        wane_recorder *recorder = record(model, &folder, true);
        wane_session *session = NULL;
        int32_t ids[16], seen[64];
        float all[384];
        wane_generation g;
        wane_generation_init(&g);
        g.sampling.temperature = 0;
        g.id = "first";
        g.kind = WANE_KIND_CODE;
        g.tenant = "ada";
        assert_int_equal(wane_session_new(model, &session, NULL), WANE_OK);
        assert_int_equal(run(session, &prompt, &g, ids), 5);
        wane_recorder_flush(recorder);
        struct wane__trace_token t[16];
        struct wane__trace_end end;
        int count = read_tokens(&folder, model, t, 16, &end, seen, all);
        assert_int_equal(count, 6); /* the token that ended the turn was drawn, too */
        assert_memory_equal(seen, prompt.id, prompt.count * sizeof *seen);
        struct wane__context_name name = wane__context_begin(wane__context_tenant("ada"));
        for (size_t i = 0; i < prompt.count; i++) name = wane__context_add(name, prompt.id[i]);
        for (int i = 0; i < count; i++) {
            assert_string_equal(t[i].request, "first");
            assert_int_equal(t[i].kind, WANE__KIND_CODE);
            assert_int_equal(t[i].token, hello[i]);
            assert_int_equal(t[i].top[0].token, hello[i]); /* greedy */
            assert_int_equal(t[i].top_count, 64);
            assert_int_equal(t[i].index, i);
            assert_int_equal(t[i].position, (int)prompt.count + i);
            assert_true(t[i].before.low == name.low && t[i].before.high == name.high);
            assert_true(t[i].tenant == wane__context_tenant("ada"));
            for (int k = 0; k < t[i].last_count; k++) {
                int at = t[i].position - t[i].last_count + k;
                assert_int_equal(t[i].last[k],
                                 at < (int)prompt.count ? prompt.id[at] : hello[at - (int)prompt.count]);
            }
            name = wane__context_add(name, hello[i]);
        }
        /* The last row's logits: the candidates are the best of them, and the sum is theirs. */
        double sum = 0;
        for (int i = 0; i < 384; i++) sum += exp((double)all[i] - (double)t[5].top[0].logit);
        assert_true(fabs(log(sum) + (double)t[5].top[0].logit - (double)t[5].log_sum) < 0.011);
        for (int i = 0; i < 64; i++) assert_true(all[t[5].top[i].token] == t[5].top[i].logit);
        assert_string_equal(end.finish, "end");
        assert_int_equal(end.tokens, 6);
        wane_session_free(session);
        wane_recorder_close(recorder);
        wane_tokens_free(&prompt);
        wane_model_free(model);
        rig_folder_remove(&folder);
    }
}

/* Drawn with everything that a request can ask for: the ids are those without a recorder. */
static void test_recording_changes_nothing(void **state) {
    (void)state;
    for (int linear = 0; linear < 2; linear++) {
        for (int setting = 0; setting < 4; setting++) {
            wane_bias bias = {'x', 3};
            int32_t ids[2][60];
            int count[2];
            struct rig_folder folder;
            rig_folder_make(&folder);
            for (int with = 0; with < 2; with++) {
                wane_model *model = make_model(linear);
                wane_tokens prompt = prompt_of(model, "anything else");
                wane_recorder *recorder = with ? record(model, &folder, false) : NULL;
                wane_session *session = NULL;
                wane_generation g;
                wane_generation_init(&g);
                g.max_tokens = 50;
                g.sampling.seeded = true;
                g.sampling.seed = 11;
                g.sampling.temperature = 1.5f;
                if (setting > 0) g.sampling.top_k = 0;
                if (setting > 1) g.sampling.min_p = 0;
                if (setting > 2) {
                    g.sampling.repeat_penalty = 1.3f;
                    g.sampling.bias = &bias;
                    g.sampling.bias_count = 1;
                    g.sampling.top_logprobs = 3;
                }
                assert_int_equal(wane_session_new(model, &session, NULL), WANE_OK);
                count[with] = run(session, &prompt, &g, ids[with]);
                wane_session_free(session);
                wane_recorder_close(recorder);
                wane_tokens_free(&prompt);
                wane_model_free(model);
            }
            assert_true(count[0] > 10);
            assert_int_equal(count[0], count[1]);
            assert_memory_equal(ids[0], ids[1], (size_t)count[0] * sizeof **ids);
            struct rig_seen seen = rig_read(folder.path, NULL);
            assert_true(seen.errors == 0 && seen.tokens >= count[0] && seen.requests == 1 && seen.ends == 1);
            rig_folder_remove(&folder);
        }
    }
}

static void drain(wane_ticket *ticket) {
    wane_event event;
    for (bool ended = false; !ended;) wane_ticket_next(ticket, 10000, &event, &ended, NULL);
}

/* Two at once, one that fails, one that is cancelled: each ends in the trace as it ended. */
static void test_scheduler(void **state) {
    (void)state;
    struct rig_folder folder;
    rig_folder_make(&folder);
    wane_model *model = make_model(false);
    wane_tokens good = prompt_of(model, "Hi"), bad = prompt_of(model, "Fail"),
                long_one = prompt_of(model, "talk");
    wane_recorder *recorder = record(model, &folder, false);
    wane_scheduler *scheduler = NULL;
    assert_int_equal(wane_scheduler_new(model, NULL, &scheduler, NULL), WANE_OK);
    wane_recorder *second = NULL;
    wane_recorder_options options;
    wane_recorder_options_init(&options);
    options.folder = folder.path;
    assert_int_equal(wane_recorder_open(model, &options, &second, NULL), WANE_EBUSY);
    wane_generation g;
    wane_generation_init(&g);
    g.sampling.temperature = 0;
    wane_ticket *t[3];
    g.id = "a";
    assert_int_equal(wane_scheduler_submit(scheduler, good.id, good.count, &g, &t[0], NULL), WANE_OK);
    g.id = "b";
    assert_int_equal(wane_scheduler_submit(scheduler, bad.id, bad.count, &g, &t[1], NULL), WANE_OK);
    drain(t[0]);
    drain(t[1]);
    g.id = "c";
    g.ignore_end = true;
    assert_int_equal(wane_scheduler_submit(scheduler, long_one.id, long_one.count, &g, &t[2], NULL), WANE_OK);
    wane_event event;
    do assert_int_equal(wane_ticket_next(t[2], 10000, &event, NULL, NULL), WANE_OK);
    while (event.kind != WANE_EVENT_TEXT);
    wane_ticket_cancel(t[2]);
    drain(t[2]);
    for (int i = 0; i < 3; i++) wane_ticket_free(t[i]);
    wane_scheduler_free(scheduler);
    wane_recorder_close(recorder);
    char *text = rig_text(&folder);
    assert_non_null(strstr(text, "\"id\":\"a\",\"finish\":\"end\",\"tokens\":6"));
    assert_non_null(strstr(text, "\"id\":\"b\",\"finish\":\"failed\",\"tokens\":3"));
    assert_non_null(strstr(text, "\"id\":\"c\",\"finish\":\"cancelled\""));
    wane__free(text);
    struct rig_seen seen = rig_read(folder.path, NULL);
    assert_true(seen.errors == 0 && seen.requests == 3 && seen.ends == 3);
    wane_tokens_free(&good);
    wane_tokens_free(&bad);
    wane_tokens_free(&long_one);
    wane_model_free(model);
    rig_folder_remove(&folder);
}

/* A request from a trace, run again as it says: the same tokens, though nobody gave a seed. */
static void test_runs_again(void **state) {
    (void)state;
    struct rig_folder folder;
    rig_folder_make(&folder);
    wane_model *model = make_model(false);
    wane_tokens prompt = prompt_of(model, "again");
    wane_recorder *recorder = record(model, &folder, false);
    wane_session *session = NULL;
    wane_generation g;
    wane_generation_init(&g);
    g.max_tokens = 40;
    g.sampling.temperature = 5;
    int32_t first[64], again[64];
    assert_int_equal(wane_session_new(model, &session, NULL), WANE_OK);
    int count = run(session, &prompt, &g, first);
    wane_session_free(session);
    wane_recorder_close(recorder);
    struct wane__trace_reader *reader = NULL;
    struct wane__trace_record record = {0};
    struct wane__trace_read_options options = {0};
    const char *paths[] = {folder.path};
    assert_int_equal(wane__trace_read_open(paths, 1, &options, &reader, NULL), WANE_OK);
    while (record.type != WANE__TRACE_REQUEST)
        assert_int_equal(wane__trace_read_next(reader, &record, NULL), WANE_OK);
    const struct wane__trace_request *r = record.request;
    wane_tokens same = {(int32_t *)(uintptr_t)r->prompt, r->prompt_count, r->prompt_count};
    wane_generation_init(&g);
    g.sampling = r->sampling;
    g.max_tokens = r->max_tokens;
    assert_int_equal(wane_session_new(model, &session, NULL), WANE_OK);
    assert_int_equal(run(session, &same, &g, again), count);
    assert_memory_equal(first, again, (size_t)count * sizeof *first);
    wane_session_free(session);
    wane__trace_read_close(reader);
    wane_tokens_free(&prompt);
    wane_model_free(model);
    rig_folder_remove(&folder);
}

/* A reply that is one of several, and what was chosen: with redaction, too. */
static void test_votes(void **state) {
    (void)state;
    for (int redact = 0; redact < 2; redact++) {
        struct rig_folder folder;
        char list[100];
        rig_folder_make(&folder);
        snprintf(list, sizeof list, "%s.list", folder.path);
        rig_save(list, "sk-[a-z]+\n", 10);
        wane_model *model = make_model(false);
        wane_tokens prompt = prompt_of(model, "Hi");
        wane_recorder_options options;
        wane_recorder *recorder = NULL;
        wane_recorder_options_init(&options);
        options.folder = folder.path;
        options.redact_file = redact ? list : NULL;
        assert_int_equal(wane_recorder_open(model, &options, &recorder, NULL), WANE_OK);
        for (int answer = 0; answer < 3; answer++) {
            struct wane__reply reply;
            struct wane__item items[64];
            wane_generation g;
            wane_event event;
            wane_generation_init(&g);
            g.max_tokens = 1;
            assert_int_equal(wane__reply_init(&reply, &model->rows, prompt.id, prompt.count, &g, NULL),
                             WANE_OK);
            wane__tap_vote(reply.tap, answer == 0 ? wane__tap_name(reply.tap) : "first", answer);
            for (size_t i = 0; i < prompt.count; i++)
                items[i] = (struct wane__item){.token = prompt.id[i],
                                               .pos = (int32_t)i,
                                               .wanted = i + 1 == prompt.count};
            model->engine->ops->truncate(model->engine, 0, 0);
            assert_int_equal(wane__rows_decode(&model->rows, items, (int)prompt.count, NULL), WANE_OK);
            assert_int_equal(wane__layer_step(&reply, 0, &event, NULL), WANE_OK);
            wane__tap_vote(reply.tap, "too late", 1); /* its request is written */
            wane__reply_end(&reply, &event);
            wane__reply_free(&reply);
        }
        wane__record_vote(recorder, "first", 2);
        wane__record_vote(NULL, "first", 2);
        wane__tap_vote(NULL, "first", 2);
        assert_string_equal(wane__tap_name(NULL), "");
        wane_recorder_close(recorder);
        char *text = rig_text(&folder), own[200];
        const char *id = strstr(text, "\"id\":\"") + 6;
        snprintf(own, sizeof own, "\"vote\":{\"of\":\"%.*s\",\"answer\":0}", (int)strcspn(id, "\""), id);
        assert_non_null(strstr(text, own));
        assert_non_null(strstr(text, "\"vote\":{\"of\":\"first\",\"answer\":2}"));
        assert_non_null(strstr(text, "{\"type\":\"vote\",\"of\":\"first\",\"chosen\":2}\n"));
        assert_null(strstr(text, "too late"));
        wane__free(text);
        struct rig_seen seen = rig_read(folder.path, NULL);
        assert_true(seen.errors == 0 && seen.requests == 3 && seen.tokens == 3 && seen.ends == 3);
        const char *paths[] = {folder.path};
        wane_trace_stats stats;
        assert_int_equal(wane_trace_count(paths, 1, true, NULL, NULL, NULL, &stats, NULL), WANE_OK);
        assert_true(stats.votes == 1 && stats.bad_lines == 0);
        wane_tokens_free(&prompt);
        wane_model_free(model);
        unlink(list);
        rig_folder_remove(&folder);
    }
}

/* ---------------------------------------------------------------- kinds, NFC */

static int guess(const char *last) {
    wane_message one = {"user", last, strlen(last)};
    return wane_kind_guess(&one, 1);
}

static void test_kinds(void **state) {
    (void)state;
    assert_int_equal(guess("Why is the sky blue?"), WANE_KIND_SINGLE);
    assert_int_equal(guess("From them on it rains; return soon."), WANE_KIND_SINGLE);
    assert_int_equal(guess("Fix:\n```\nx\n```"), WANE_KIND_CODE);
    assert_int_equal(guess("def f(x):\n    return (x)\nWhat is wrong?"), WANE_KIND_CODE);
    assert_int_equal(guess("int main(void) {\n  puts(\"a\");\n}"), WANE_KIND_CODE);
    assert_int_equal(guess("Please SUMMARISE this: it rained."), WANE_KIND_SUMMARY);
    char text[7001];
    memset(text, 'a', 7000);
    text[7000] = '\0';
    assert_int_equal(guess(text), WANE_KIND_SUMMARY);
    wane_message talk[] = {{"system", "Be brief.", 9},
                           {"user", "Hi", 2},
                           {"assistant", "Hello", 5},
                           {"user", "So?", 3}};
    assert_int_equal(wane_kind_guess(talk, 4), WANE_KIND_MULTI);
    assert_int_equal(wane_kind_guess(talk, 3), WANE_KIND_SINGLE);
    assert_int_equal(wane_kind_guess(NULL, 0), WANE_KIND_SINGLE);
    for (int kind = 0; kind < 4; kind++) assert_int_equal(wane_kind_from(wane_kind_name(kind)), kind);
    assert_int_equal(wane_kind_from("Code"), -1);
}

static void test_nfc(void **state) {
    (void)state;
    static const struct {
        const char *from, *to;
    } cases[] = {{"", ""},
                 {"plain", "plain"},
                 {"e\xcc\x81", "\xc3\xa9"},
                 {"\xef\xac\x81", "\xef\xac\x81"},                         /* a ligature is no composition */
                 {"\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab", "\xed\x95\x9c"}, /* 한 */
                 {"\xf0\x9d\x85\x9e",
                  "\xf0\x9d\x85\x97\xf0\x9d\x85\xa5"}}; /* composition is excluded: it grows */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *out = NULL;
        size_t size = 99;
        assert_int_equal(wane_text_nfc(cases[i].from, strlen(cases[i].from), &out, &size, NULL), WANE_OK);
        assert_int_equal(size, strlen(cases[i].to));
        assert_memory_equal(out, cases[i].to, size);
        free(out);
    }
    char *out = NULL;
    size_t size = 0;
    wane_error error = {0};
    assert_int_equal(wane_text_nfc("\xff", 1, &out, &size, &error), WANE_EFORMAT);
    assert_null(out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_session),    cmocka_unit_test(test_recording_changes_nothing),
        cmocka_unit_test(test_scheduler),  cmocka_unit_test(test_votes),
        cmocka_unit_test(test_runs_again), cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_nfc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
