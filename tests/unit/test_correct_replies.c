/*
 * test_correct_replies.c - corrections in a token's way, on the scripted engine: sessions and the scheduler, beside the table, the
 * memo, the shadow check and a recorder; and the public functions. That drafts change nothing stands in test_ahead.c.
 */
#include "unit/trace_rig.h"

#include "test_scheduler_rig.h"

#include "model_table.h"
#include "record.h"

#include <sys/stat.h>
#include <unistd.h>

enum { MOST = 300, REPLY = 120 };

static char folder[] = "/tmp/wane-correct-XXXXXX", path[64];
static const int32_t tea[] = {'t', 'h', 'e', ' ', 't', 'e', 'a', ' ', 'm', 'u', 's', 't', ' ',
                              'n', 'o', 't', ' ', 'b', 'e', ' ', 'c', 'o', 'l', 'd', '.', 257};
static const struct wane__script_reply replies[] = {
    {.match = "tea", .tokens = tea, .count = 26, .fail_at = -1}};

static int make(void **unused) {
    (void)unused;
    bool fine = mkdtemp(folder) != NULL;
    snprintf(path, sizeof path, "%s/r.json", folder);
    return !fine;
}

static int sweep(void **unused) {
    (void)unused;
    char sketch[200];
    snprintf(sketch, sizeof sketch, "%s/00112233445566778899aabbccddeeff-2.sketch", folder);
    unlink(sketch);
    unlink(path);
    return rmdir(folder);
}

static wane_model *model_of(bool linear, double shadow) {
    struct wane__script script = {
        .replies = replies, .reply_count = 1, .linear = linear, .context = MOST, .sequences = 4, .batch = 64};
    struct wane__engine *engine;
    wane_model *model;
    wane_error error = {0};
    wane_model_options options;
    wane_model_options_init(&options);
    options.head_folder = folder;
    options.head_always = true;
    options.shadow = shadow;
    assert_int_equal(wane__script_load(&script, NULL, &engine, &error), WANE_OK);
    assert_int_equal(wane__model_wrap(engine, NULL, NULL, &model, &error), WANE_OK);
    snprintf(model->digest, sizeof model->digest, "00112233445566778899aabbccddeeff");
    if (linear) assert_int_equal(wane__model_head_open(model, &options, &error), WANE_OK);
    return model;
}

static void give_rules(wane_model *model, const char *text) {
    wane_error error = {0};
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    if (wane_model_set_rules(model, path, &error) != WANE_OK) fail_msg("%s", error.text);
}

static wane_correction_state state_of(wane_model *model) {
    wane_correction_state state;
    wane_model_get_correction_state(model, &state);
    return state;
}

struct said {
    int count;
    char text[MOST * 4];
    size_t size;
    float logprob[MOST];
};

static struct said say(wane_model *model, const char *prompt, const wane_generation *g) {
    int32_t token[64];
    struct said said = {0};
    wane_session *session;
    wane_error error = {0};
    wane_event event;
    for (size_t i = 0; i < strlen(prompt); i++) token[i] = (unsigned char)prompt[i];
    assert_int_equal(wane_session_new(model, &session, &error), WANE_OK);
    if (wane_session_start(session, token, strlen(prompt), g, &error) != WANE_OK) fail_msg("%s", error.text);
    int code;
    while ((code = wane_session_next(session, &event, &error)) == WANE_OK && event.kind == WANE_EVENT_TEXT) {
        memcpy(said.text + said.size, event.text != NULL ? event.text : "", event.text_size);
        said.size += event.text_size;
        said.logprob[said.count++] = event.has_logprob ? event.logprob : 0;
    }
    if (code != WANE_OK) fail_msg("%s", error.text);
    wane_session_free(session);
    return said;
}

static wane_generation drawn(float temperature, const wane_quality *quality) {
    wane_generation g = greedy(REPLY);
    g.sampling.temperature = temperature;
    g.sampling.top_k = 0;
    g.sampling.top_p = 1;
    g.sampling.min_p = 0;
    g.sampling.seeded = true;
    g.sampling.seed = 3;
    g.quality = quality;
    g.ignore_end = true;
    return g;
}

static wane_quality mode(int which) {
    wane_quality quality;
    wane_quality_init(&quality);
    quality.fuse = WANE_FUSE_OFF; /* loops of a scripted language are its own affair */
    quality.mode = which;
    return quality;
}

/* OFF is no quality at all, also beside rules, and counts nothing. */
static void test_off(void **unused) {
    (void)unused;
    for (int linear = 0; linear < 2; linear++) {
        wane_model *model = model_of(linear, 0);
        give_rules(model, "[{\"name\":\"a\",\"pattern\":\"$\",\"tokens\":[101,116,32,97]}]");
        wane_quality off = mode(WANE_MODE_OFF), wane = mode(WANE_MODE_WANE);
        off.clamp = 1, off.hold = 0;
        for (int kind = 0; kind < 4; kind++) {
            wane_generation g = drawn(kind == 0 ? 0 : 2, NULL);
            if (kind == 2) g.sampling.top_k = 7;
            if (kind == 3) g.sampling.top_logprobs = 3;
            struct said plain = say(model, "words", &g);
            g.quality = &off;
            struct said same = say(model, "words", &g);
            assert_memory_equal(&plain, &same, sizeof plain);
            assert_int_equal(state_of(model).tokens, 0);
            g.quality = &wane;
            struct said other = say(model, "words", &g);
            assert_true(memcmp(plain.text, other.text, plain.size) != 0);
            wane_model_free(model);
            model = model_of(linear, 0);
            give_rules(model, "[{\"name\":\"a\",\"pattern\":\"$\",\"tokens\":[101,116,32,97]}]");
        }
        wane_model_free(model);
    }
}

/* Sessions and the scheduler draw the same, alone and in company; each part is counted. */
static void test_counts(void **unused) {
    (void)unused;
    static struct outcome out[3];
    for (int which = WANE_MODE_LEGACY; which <= WANE_MODE_WANE; which++)
        for (int linear = 0; linear < 2; linear++) {
            wane_model *model = model_of(linear, 0);
            wane_quality quality = mode(which);
            quality.clamp = 3;
            quality.dialogue_scale = 2;
            give_rules(model, "[{\"name\":\"a\",\"pattern\":\"[a-m]$\",\"tokens\":[101,116,32,97,111,104]}]");
            assert_int_equal(state_of(model).rules_loaded, 1);
            assert_int_equal(strlen(state_of(model).rules_digest), 32);
            wane_generation g = drawn(3, &quality);
            struct said alone = say(model, "words", &g);
            wane_correction_state s = state_of(model);
            assert_int_equal(s.tokens, REPLY);
            const wane_correction_part *part[] = {&s.clamp, &s.dialogue, &s.vote, &s.rules};
            for (int i = 0; i < 4; i++) {
                assert_int_equal(part[i]->ran, REPLY);
                assert_true(part[i]->changed > 0 && part[i]->changed < REPLY);
                assert_true(part[i]->changed <= s.changed);
            }
            assert_true(s.held >= s.rules.changed && s.held < REPLY && s.failures == 0);
            if (which == WANE_MODE_WANE) assert_int_equal(s.draws, REPLY);
            if (which == WANE_MODE_LEGACY) assert_true(s.draws > 3 * REPLY && s.draws < 5 * REPLY);
            struct rig rig = {.engine = model->engine, .model = model};
            wane_scheduler_options options = quick_options();
            assert_int_equal(wane_scheduler_new(model, &options, &rig.scheduler, NULL), WANE_OK);
            wane_ticket *ticket[3];
            for (int i = 0; i < 3; i++) ticket[i] = send(&rig, "words", &g);
            for (int i = 0; i < 3; i++) {
                finish(ticket[i], &out[i]);
                assert_int_equal(out[i].size, alone.size);
                assert_memory_equal(out[i].text, alone.text, alone.size);
            }
            rig_down(&rig); /* frees the model */
        }
}

/* A quality that the caller changes, or frees, when the reply has begun is the reply's no more. */
static void test_copied(void **unused) {
    (void)unused;
    wane_model *model = model_of(false, 0);
    wane_quality quality = mode(WANE_MODE_WANE);
    wane_generation g = drawn(2, &quality);
    struct said first = say(model, "w", &g), second = {0};
    wane_session *session;
    wane_event event;
    int32_t token = 'w';
    char pattern[] = "answer: (.*)";
    quality.final_value = pattern;
    assert_int_equal(wane_session_new(model, &session, NULL), WANE_OK);
    assert_int_equal(wane_session_start(session, &token, 1, &g, NULL), WANE_OK);
    memset(&quality, 0xff, sizeof quality);
    while (wane_session_next(session, &event, NULL) == WANE_OK && event.kind == WANE_EVENT_TEXT) {
        memcpy(second.text + second.size, event.text, event.text_size);
        second.size += event.text_size;
    }
    wane_session_free(session);
    assert_memory_equal(first.text, second.text, first.size);
    wane_model_free(model);
}

/* A greedy reply: the held token gives way to the best one that is not, where the text before says so and nowhere else. */
static void test_greedy_rule(void **unused) {
    (void)unused;
    for (int which = WANE_MODE_LEGACY; which <= WANE_MODE_WANE; which++) {
        wane_model *model = model_of(false, 0);
        wane_quality quality = mode(which);
        wane_generation g = greedy(40);
        g.quality = &quality;
        give_rules(model, "[{\"name\":\"a\",\"pattern\":\"must not be $\",\"tokens\":[99]}]");
        struct said said = say(model, "tea", &g);
        /* Beside 'c' (99) the engine likes 'b' and 'd' alike: the smaller id. From there it goes on as written. */
        assert_string_equal(said.text, "the tea must not be bold.");
        wane_correction_state s = state_of(model);
        assert_true(s.held == 1 && s.rules.changed == 1 && s.changed == 1 && s.rules.ran == s.tokens &&
                    s.draws == 0);
        quality.rules = false;
        said = say(model, "tea", &g);
        assert_string_equal(said.text, "the tea must not be cold.");
        quality.rules = true;
        quality.hold = 1;
        said = say(model, "tea", &g);
        assert_string_equal(said.text, "the tea must not be cold.");
        quality.hold = 0.05f;
        give_rules(model, "[{\"name\":\"a\",\"pattern\":\"tea the tea must not be "
                          "$\",\"tokens\":[99],\"scope\":\"context\"}]");
        said = say(model, "tea ", &g);
        assert_string_equal(said.text, "he tea must not be cold."); /* the script goes on behind "tea" */
        give_rules(model, "[{\"name\":\"a\",\"pattern\":\"^tea the tea must not be "
                          "$\",\"tokens\":[99],\"scope\":\"context\"}]");
        said = say(model, "tea", &g);
        assert_string_equal(said.text, "the tea must not be cold.");
        give_rules(model, "[{\"name\":\"a\",\"pattern\":\"^teathe tea must not be "
                          "$\",\"tokens\":[99],\"scope\":\"context\"}]");
        said = say(model, "tea", &g);
        assert_string_equal(said.text, "the tea must not be bold.");
        wane_model_free(model);
    }
}

/* Every token that could be drawn is held: nothing is changed, and that is counted. */
static void test_powerless(void **unused) {
    (void)unused;
    wane_model *model = model_of(false, 0);
    wane_quality quality = mode(WANE_MODE_WANE);
    static char text[4000];
    int at = sprintf(text, "[");
    for (int rule = 0; rule < 2; rule++) {
        at += sprintf(text + at, "%s{\"name\":\"%d\",\"pattern\":\"$\",\"tokens\":[", rule ? "," : "", rule);
        for (int i = 0; i < 192; i++) at += sprintf(text + at, "%s%d", i ? "," : "", 192 * rule + i);
        at += sprintf(text + at, "]}");
    }
    sprintf(text + at, "]");
    give_rules(model, text);
    for (int hot = 0; hot < 2; hot++) {
        wane_generation g = drawn((float)hot, NULL);
        struct said plain = say(model, "words", &g);
        wane_quality only = quality;
        only.clamp = 0, only.token_vote = false, only.dialogue_slope = 0;
        g.quality = &only;
        g.sampling.top_k = 100;
        struct said other = say(model, "words", &g);
        if (!hot) assert_memory_equal(plain.text, other.text, plain.size);
        assert_int_equal(state_of(model).powerless, (uint64_t)REPLY * (uint64_t)(hot + 1));
        assert_int_equal(state_of(model).held, 0);
    }
    wane_model_free(model);
}

/* ------------------------------------------------------------------- neighbours */

/* Each token is also drawn from the engine's own head, corrected in the same way: nothing diverges, and each counts once. */
static void test_shadow_check(void **unused) {
    (void)unused;
    for (int which = WANE_MODE_LEGACY; which <= WANE_MODE_WANE; which++) {
        wane_model *model = model_of(true, 1);
        wane_quality quality = mode(which);
        quality.clamp = 4;
        give_rules(model, "[{\"name\":\"a\",\"pattern\":\"[a-m]$\",\"tokens\":[101,116,32,97,111,104]}]");
        wane_generation g = drawn(3, &quality);
        struct said checked = say(model, "words", &g);
        wane_head_state head;
        wane_model_get_head_state(model, &head);
        assert_int_equal(head.shadow_checks, REPLY);
        assert_int_equal(head.divergences, 0);
        assert_int_equal(state_of(model).tokens, REPLY);
        assert_true(state_of(model).rules.changed > 0);
        wane__rows_set_shadow(&model->rows, 0);
        struct said certified = say(model, "words", &g);
        assert_memory_equal(&checked, &certified, sizeof checked);
        assert_int_equal(wane_model_set_head(model, WANE_HEAD_DENSE, NULL), WANE_OK);
        struct said dense = say(model, "words", &g);
        assert_memory_equal(checked.text, dense.text, dense.size);
        wane_model_free(model);
    }
}

/* Under ARGMAX a strict hit's token would come back that a rule has just taken away. */
static void test_argmax_does_not_bypass(void **unused) {
    (void)unused;
    wane_model *model = model_of(false, 0);
    char table[64];
    snprintf(table, sizeof table, "%s/t.slmt", folder);
    struct wane__slmt_entry entry = {.seen = 2, .top_count = 3, .top = {{'t', 10}, {'s', 9}, {'u', 9}}};
    struct wane__slmt_content content = {.window = 3, .depth = 5, .entry = &entry, .entry_count = 1};
    const int32_t token[3] = {'t', 'e', 'a'};
    wane_error error = {0};
    entry.key.window = wane__context_window(wane__context_tenant(""), token + 3, 3);
    assert_int_equal(wane__model_origin(model, &content.origin, &error), WANE_OK);
    if (wane__slmt_write(table, &content, &error) != WANE_OK) fail_msg("%s", error.text);
    wane_table_use use;
    wane_table_use_init(&use);
    use.path = table;
    use.meaning = WANE_TABLE_ARGMAX;
    use.poll_ms = 0;
    if (wane_model_set_table(model, &use, &error) != WANE_OK) fail_msg("%s", error.text);
    give_rules(model, "[{\"name\":\"a\",\"pattern\":\"$\",\"tokens\":[116]}]");
    for (int which = WANE_MODE_OFF; which <= WANE_MODE_WANE; which++)
        for (int hot = 0; hot < 2; hot++) {
            wane_quality quality = mode(which);
            wane_generation g = drawn(hot ? 8 : 0, &quality);
            wane_table_state before, after;
            quality.hold = 0;
            g.max_tokens = 1;
            wane_model_get_table_state(model, &before);
            struct said said = say(model, "tea", &g);
            wane_model_get_table_state(model, &after);
            assert_int_equal(after.strict - before.strict, 1);
            assert_int_equal(said.text[0] == 't', which == WANE_MODE_OFF);
            if (which != WANE_MODE_OFF) assert_int_equal(after.taken, before.taken);
        }
    unlink(table);
    wane_model_free(model);
}

/* What the memo repeats was corrected; other settings and other rules are other requests. */
static void test_memo(void **unused) {
    (void)unused;
    static const char *const rules[] = {
        "[{\"name\":\"a\",\"pattern\":\"[a-m]$\",\"tokens\":[101,116,32,97,111,104]}]",
        "[{\"name\":\"a\",\"pattern\":\"[a-m]$\",\"tokens\":[101,116,32,97,111,105]}]"};
    for (int hot = 0; hot < 2; hot++) {
        wane_model *model = model_of(false, 0);
        wane_memo_state before, after;
        struct said first[9];
        assert_int_equal(wane_model_set_memo(model, 1 << 20, NULL, NULL), WANE_OK);
        for (int again = 0; again < 2; again++)
            for (int kind = 0; kind < 9; kind++) {
                wane_quality quality = mode(kind < 7 ? WANE_MODE_WANE : WANE_MODE_LEGACY);
                wane_generation g = drawn((float)hot * 3, &quality);
                give_rules(model, rules[kind == 6]);
                if (kind == 0) g.quality = NULL;
                if (kind == 1) quality.clamp = 3;
                if (kind == 2) quality.dialogue_slope = 0.5f;
                if (kind == 3) quality.token_vote = false;
                if (kind == 4) quality.rules = false;
                if (kind == 5) quality.hold = 0.2f;
                if (kind == 8) quality.mode = WANE_MODE_OFF, g.quality = again ? NULL : &quality;
                if (kind == 8) g.sampling.seed = hot ? 4 : 3, g.sampling.top_k = 39;
                wane_model_get_memo_state(model, &before);
                struct said said = say(model, "words", &g);
                wane_model_get_memo_state(model, &after);
                if (again) {
                    assert_int_equal(after.hits - before.hits, REPLY);
                    assert_memory_equal(&said, &first[kind], sizeof said);
                } else {
                    assert_int_equal(after.hits, before.hits);
                    first[kind] = said;
                }
            }
        wane_model_free(model);
    }
}

/* Rules look at the reply: where it begins is part of the question, also for a greedy one, which else goes on from any context. */
static void test_memo_knows_where_a_reply_began(void **unused) {
    (void)unused;
    wane_model *model = model_of(false, 0);
    wane_quality quality = mode(WANE_MODE_WANE);
    wane_generation g = greedy(40);
    g.quality = &quality;
    assert_int_equal(wane_model_set_memo(model, 1 << 20, NULL, NULL), WANE_OK);
    give_rules(model, "[{\"name\":\"a\",\"pattern\":\"^the tea must not be $\",\"tokens\":[99]}]");
    struct said whole = say(model, "tea", &g), rest = say(model, "teathe ", &g);
    assert_string_equal(whole.text, "the tea must not be bold.");
    assert_string_equal(rest.text, "tea must not be cold.");
    /* A reply's beginning that was repeated is seen by the rules behind it. */
    g.max_tokens = 10;
    g.sampling.penalty_window = 63; /* another request */
    say(model, "tea", &g);
    g.max_tokens = 40;
    whole = say(model, "tea", &g);
    assert_string_equal(whole.text, "the tea must not be bold.");
    wane_model_free(model);
}

/* A trace says which tokens a correction had a hand in. */
static void test_trace(void **unused) {
    (void)unused;
    struct rig_folder traces;
    rig_folder_make(&traces);
    wane_model *model = model_of(false, 0);
    wane_recorder_options options;
    wane_recorder *recorder;
    wane_recorder_options_init(&options);
    options.folder = traces.path;
    assert_int_equal(wane_recorder_open(model, &options, &recorder, NULL), WANE_OK);
    wane_quality quality = mode(WANE_MODE_WANE);
    wane_generation g = drawn(2, NULL);
    say(model, "words", &g);
    g.quality = &quality;
    struct said said = say(model, "words", &g);
    assert_int_equal(said.count, REPLY);
    wane_recorder_close(recorder);
    const char *paths[] = {traces.path};
    wane_trace_stats stats;
    assert_int_equal(wane_trace_count(paths, 1, true, NULL, NULL, NULL, &stats, NULL), WANE_OK);
    assert_int_equal(stats.tokens, 2 * REPLY);
    assert_int_equal(stats.changed, state_of(model).changed);
    assert_true(stats.changed > 10 && stats.changed < REPLY);
    wane_model_free(model);
    rig_folder_remove(&traces);
}

/* --------------------------------------------------------------- public functions */

static void log_line(void *user, int level, const char *line) {
    if (level == WANE_LOG_WARN) snprintf(user, 400, "%s", line);
}

static void test_set_rules(void **unused) {
    (void)unused;
    wane_model *model = model_of(false, 0);
    wane_session *session;
    wane_error error = {0};
    give_rules(model, "[{\"name\":\"a\",\"pattern\":\"$\",\"tokens\":[1]}]");
    wane_correction_state state = state_of(model);
    assert_int_equal(wane_model_set_rules(model, "/nonexistent/r.json", &error), WANE_ENOENT);
    assert_int_equal(wane_model_set_rules(model, "nonesuch", &error), WANE_ENOENT);
    assert_non_null(strstr(error.text, "nonesuch"));
    assert_int_equal(wane_model_set_rules(model, "", &error), WANE_EINVAL);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("[{\"name\":\"a\",\"pattern\":\"(\",\"tokens\":[1]}]", file);
    fclose(file);
    assert_int_equal(wane_model_set_rules(model, path, &error), WANE_EFORMAT);
    assert_non_null(strstr(error.text, path));
    assert_non_null(strstr(error.text, "rule 1 \"a\""));
    assert_int_equal(wane_session_new(model, &session, &error), WANE_OK);
    assert_int_equal(wane_model_set_rules(model, NULL, &error), WANE_EBUSY);
    wane_session_free(session);
    wane_correction_state now = state_of(model);
    assert_memory_equal(&now, &state, sizeof now); /* none of these took the rules away */
    assert_int_equal(wane_model_set_rules(model, NULL, &error), WANE_OK);
    assert_int_equal(state_of(model).rules_loaded, 0);
    assert_string_equal(state_of(model).rules_digest, "");
    wane_model_free(model);
}

/* The set that ships is found by its name; a tokenizer of bytes can hold hardly any of its words, and says so. */
static void test_shipped_by_name(void **unused) {
    (void)unused;
    char warning[400] = "";
    struct wane__script script = {.replies = NULL};
    struct wane__engine *engine;
    wane_model *model;
    wane_error error = {0};
    assert_int_equal(wane__script_load(&script, NULL, &engine, &error), WANE_OK);
    assert_int_equal(wane__model_wrap(engine, log_line, warning, &model, &error), WANE_OK);
    if (wane_model_set_rules(model, "prohibitions", &error) != WANE_OK) fail_msg("%s", error.text);
    assert_true(state_of(model).rules_loaded >= 8);
    assert_non_null(strstr(warning, "words hold nothing with this tokenizer"));
    assert_non_null(strstr(warning, "en-legal-permitted"));
    /* A folder of one's own comes first. */
    setenv("WANE_RULES", folder, 1);
    char own[80];
    snprintf(own, sizeof own, "%s/prohibitions.json", folder);
    FILE *file = fopen(own, "w");
    assert_non_null(file);
    fputs("[]", file);
    fclose(file);
    assert_int_equal(wane_model_set_rules(model, "prohibitions", &error), WANE_OK);
    assert_int_equal(state_of(model).rules_loaded, 0);
    unsetenv("WANE_RULES");
    unlink(own);
    wane_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_off),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_copied),
        cmocka_unit_test(test_greedy_rule),
        cmocka_unit_test(test_powerless),
        cmocka_unit_test(test_shadow_check),
        cmocka_unit_test(test_argmax_does_not_bypass),
        cmocka_unit_test(test_memo),
        cmocka_unit_test(test_memo_knows_where_a_reply_began),
        cmocka_unit_test(test_trace),
        cmocka_unit_test(test_set_rules),
        cmocka_unit_test(test_shipped_by_name),
    };
    return cmocka_run_group_tests(tests, make, sweep);
}
