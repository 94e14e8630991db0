/*
 * test_table_chain.c - a table as a source of drafts, on the scripted engine: what was recorded in one conversation is drafted
 * in another, the tokens are those without a table, and a table that is wrong costs nothing but time.
 */
#include "test_scheduler_rig.h"

#include "model_table.h"
#include "table/chain.h"
#include "unit/trace_rig.h"

#include <math.h>

enum { LENGTH = 60, MOST = 100 };

static int32_t reply[LENGTH];
static const struct wane__script_reply replies[] = {
    {.match = "say it", .tokens = reply, .count = LENGTH, .fail_at = -1}};

static int make(void **unused) {
    (void)unused;
    for (int i = 0; i < LENGTH; i++) reply[i] = 120 + i * 37 % 101; /* nothing in it repeats */
    return 0;
}

static wane_model *model_of(int draft) {
    struct wane__script script = {.replies = replies, .reply_count = 1, .context = 400, .batch = 128};
    struct wane__engine *engine;
    wane_model *model;
    wane_model_options options;
    wane_error error = {0};
    wane_model_options_init(&options);
    options.draft = draft;
    assert_int_equal(wane__script_load(&script, NULL, &engine, &error), WANE_OK);
    assert_int_equal(wane__model_wrap(engine, NULL, NULL, &model, &error), WANE_OK);
    assert_int_equal(wane__drafts_open(&model->drafts, &options, &error), WANE_OK);
    return model;
}

static int say(wane_model *model, const char *text, const char *tenant, int32_t *out) {
    int32_t token[64];
    int count = 0;
    size_t size = strlen(text);
    wane_session *session;
    wane_error error = {0};
    wane_event event;
    wane_generation generation = greedy(LENGTH);
    generation.tenant = tenant;
    for (size_t i = 0; i < size; i++) token[i] = (unsigned char)text[i];
    assert_int_equal(wane_session_new(model, &session, &error), WANE_OK);
    if (wane_session_start(session, token, size, &generation, &error) != WANE_OK) fail_msg("%s", error.text);
    while (wane_session_next(session, &event, &error) == WANE_OK && event.kind == WANE_EVENT_TEXT)
        out[count++] = event.token;
    wane_session_free(session);
    return count;
}

static void give_table(wane_model *model, const char *path) {
    wane_table_use use;
    wane_error error = {0};
    wane_table_use_init(&use);
    use.path = path;
    use.poll_ms = 0;
    if (wane_model_set_table(model, &use, &error) != WANE_OK) fail_msg("%s", error.text);
}

static wane_draft_state state_of(wane_model *model) {
    wane_draft_state state;
    wane_model_get_draft_state(model, &state);
    return state;
}

/* Two conversations that end alike, recorded, as a table. */
static void record(const struct rig_folder *folder, const char *path, bool phrases) {
    wane_model *model = model_of(WANE_DRAFT_OFF);
    wane_recorder_options options;
    wane_recorder *recorder;
    wane_error error = {0};
    int32_t said[MOST];
    wane_recorder_options_init(&options);
    options.folder = folder->path;
    assert_int_equal(wane_recorder_open(model, &options, &recorder, &error), WANE_OK);
    say(model, "one: say it", "ada", said);
    say(model, "another one: say it", "ada", said);
    wane_recorder_close(recorder);
    wane_model_free(model);
    const char *logs[] = {folder->path};
    wane_table_build_options build;
    wane_table_build_options_init(&build);
    build.logs = logs;
    build.log_count = 1;
    build.output = path;
    build.phrases = phrases;
    if (wane_table_build(&build, NULL, &error) != WANE_OK) fail_msg("%s", error.text);
}

static void test_what_was_recorded_is_drafted(void **unused) {
    (void)unused;
    for (int phrases = 0; phrases < 2; phrases++) {
        struct rig_folder folder;
        char path[300];
        int32_t off[MOST] = {0}, on[MOST] = {0};
        rig_folder_make(&folder);
        snprintf(path, sizeof path, "%s/T.slmt", folder.path);
        record(&folder, path, phrases != 0);
        wane_model *without = model_of(WANE_DRAFT_ALWAYS), *with = model_of(WANE_DRAFT_ALWAYS);
        give_table(with, path);
        assert_int_equal(say(without, "a third conversation: say it", "ada", off), LENGTH);
        assert_int_equal(say(with, "a third conversation: say it", "ada", on), LENGTH);
        assert_memory_equal(off, on, sizeof off);
        wane_draft_state state = state_of(with);
        assert_true(state.accepted[WANE__DRAFT_TABLE] > LENGTH / 2);
        assert_int_equal(state.differing, 0);
        assert_int_equal(state_of(without).accepted[WANE__DRAFT_TABLE], 0);
        /* Nothing of it reaches another tenant. */
        uint64_t before = state.proposed[WANE__DRAFT_TABLE];
        say(with, "a third conversation: say it", "bob", on);
        assert_int_equal(state_of(with).proposed[WANE__DRAFT_TABLE], before);
        wane_model_free(without);
        wane_model_free(with);
        rig_folder_remove(&folder);
    }
}

/* -------------------------------------------------------------------- made-up tables */

static int compare_entries(const void *left, const void *right) {
    uint64_t a = ((const struct wane__slmt_entry *)left)->key.window,
             b = ((const struct wane__slmt_entry *)right)->key.window;
    return a < b ? -1 : a > b;
}

/* One entry a context of the reply, whose first token is the right one or another; the first one may have a continuation. */
static void write_table(wane_model *model, const char *path, bool right, float agreement,
                        const int32_t *follow, uint16_t count, float acceptance) {
    int32_t text[3 + LENGTH] = {' ', 'i', 't'};
    struct wane__slmt_entry entry[LENGTH];
    struct wane__slmt_continuation run = {.count = count, .acceptance = acceptance, .token = follow};
    struct wane__slmt_content content = {
        .window = 3, .depth = 5, .entry = entry, .entry_count = LENGTH, .continuation = &run};
    wane_error error = {0};
    memcpy(text + 3, reply, sizeof reply);
    for (int i = 0; i < LENGTH; i++)
        entry[i] =
            (struct wane__slmt_entry){.key = {wane__context_window(wane__context_tenant(""), text + 3 + i, 3),
                                              0},
                                      .seen = 2,
                                      .agreement = agreement,
                                      .top_count = 1,
                                      .top = {{right ? reply[i] : reply[i] + 1, 10}}};
    uint64_t first = entry[0].key.window;
    qsort(entry, LENGTH, sizeof *entry, compare_entries);
    while (entry[run.entry].key.window != first) run.entry++;
    content.continuation_count = count > 0;
    assert_int_equal(wane__model_origin(model, &content.origin, &error), WANE_OK);
    if (wane__slmt_write(path, &content, &error) != WANE_OK) fail_msg("%s", error.text);
}

static void test_chances(void **unused) {
    (void)unused;
    struct rig_folder folder;
    char path[300];
    const int32_t text[] = {'x', ' ', 'i', 't'};
    int32_t out[WANE__DRAFT_MOST];
    float chance[WANE__DRAFT_MOST];
    struct wane__table_chain chain;
    rig_folder_make(&folder);
    snprintf(path, sizeof path, "%s/T.slmt", folder.path);
    wane_model *model = model_of(WANE_DRAFT_ALWAYS);
    write_table(model, path, true, 0.9f, reply, 4, 0.5f);
    give_table(model, path);
    wane__table_chain_init(&chain, model->rows.table->holder, wane__context_tenant(""));
    /* A continuation as sure as it is expected to be, then chained lookups. */
    int count = chain.as.propose(chain.as.user, text + 4, 4, out, WANE__DRAFT_MOST, chance);
    assert_true(count > 6);
    assert_memory_equal(out, reply, (size_t)count * sizeof *out);
    float expected = 0;
    for (int i = 0; i < 4; i++) expected = chance[0] * (1 + expected);
    assert_true(fabsf(expected - 2) < 0.01f && chance[3] == chance[0]);
    assert_true(fabsf(chance[4] - 0.9f) < 1e-3f);
    assert_int_equal(chain.as.propose(chain.as.user, text + 4, 4, out, 3, chance), 3);
    assert_int_equal(chain.as.propose(chain.as.user, text + 4, 2, out, 3, chance),
                     0); /* shorter than a window */
    assert_int_equal(chain.as.propose(chain.as.user, text + 3, 3, out, 3, chance),
                     0); /* not in the table      */
    /* Nobody knows how well it is followed: as sure as the samples agree. And where they do not, nothing. */
    write_table(model, path, true, 0.4f, reply, 4, NAN);
    assert_int_equal(wane_model_reload_table(model, NULL), WANE_OK);
    assert_int_equal(chain.as.propose(chain.as.user, text + 4, 4, out, WANE__DRAFT_MOST, chance), 4);
    assert_true(fabsf(chance[0] - 0.4f) < 1e-3f);
    write_table(model, path, true, 1, NULL, 0, NAN);
    assert_int_equal(wane_model_reload_table(model, NULL), WANE_OK);
    assert_int_equal(chain.as.propose(chain.as.user, text + 4, 4, out, WANE__DRAFT_MOST, chance),
                     WANE__DRAFT_MOST);
    assert_true(chance[0] < 1);
    wane_model_free(model);
    rig_folder_remove(&folder);
}

static void test_a_wrong_table_changes_nothing(void **unused) {
    (void)unused;
    struct rig_folder folder;
    char path[300];
    int32_t wrong[WANE__SLMT_CONTINUATION_MOST], off[MOST] = {0}, on[MOST] = {0};
    rig_folder_make(&folder);
    snprintf(path, sizeof path, "%s/T.slmt", folder.path);
    wane_model *without = model_of(WANE_DRAFT_OFF), *with = model_of(WANE_DRAFT_ALWAYS);
    for (int i = 0; i < WANE__SLMT_CONTINUATION_MOST; i++) wrong[i] = i < 3 ? reply[i] : 'z';
    write_table(with, path, false, 1, wrong, WANE__SLMT_CONTINUATION_MOST, 1);
    give_table(with, path);
    assert_int_equal(say(without, "please say it", "", off), LENGTH);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(say(with, "please say it", "", on), LENGTH);
        assert_memory_equal(off, on, sizeof off);
    }
    wane_draft_state state = state_of(with);
    assert_true(state.proposed[WANE__DRAFT_TABLE] > state.accepted[WANE__DRAFT_TABLE]);
    assert_true(state.failures == 0 && state.differing == 0);
    wane_model_free(without);
    wane_model_free(with);
    rig_folder_remove(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_was_recorded_is_drafted),
                                       cmocka_unit_test(test_chances),
                                       cmocka_unit_test(test_a_wrong_table_changes_nothing)};
    return cmocka_run_group_tests(tests, make, NULL);
}
