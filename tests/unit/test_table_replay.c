/*
 * test_table_replay.c - recorded requests run again on the scripted engine, without a table and with it: what is counted, what
 * is left out, and that a reply that differs is told.
 */
#include "test_scheduler_rig.h"

#include "model_table.h"
#include "table/requests.h"
#include "unit/trace_rig.h"

enum { LENGTH = 30 };

static int32_t reply[LENGTH];
static const struct wane__script_reply replies[] = {
    {.match = "say it", .tokens = reply, .count = LENGTH, .fail_at = -1}};
static struct rig_folder folder;
static char path[300];

static wane_model *model_of(int context) {
    struct wane__script script = {.replies = replies, .reply_count = 1, .context = context, .batch = 128};
    struct wane__engine *engine;
    wane_model *model;
    wane_model_options options;
    wane_error error = {0};
    wane_model_options_init(&options);
    options.draft = WANE_DRAFT_ALWAYS;
    assert_int_equal(wane__script_load(&script, NULL, &engine, &error), WANE_OK);
    assert_int_equal(wane__model_wrap(engine, NULL, NULL, &model, &error), WANE_OK);
    assert_int_equal(wane__drafts_open(&model->drafts, &options, &error), WANE_OK);
    return model;
}

static void say(wane_session *session, const char *text, const char *tenant, float temperature, int kind) {
    int32_t token[80];
    size_t size = strlen(text);
    wane_error error = {0};
    wane_event event = {0};
    wane_generation generation = greedy(LENGTH);
    generation.tenant = tenant;
    generation.kind = kind;
    generation.sampling.temperature = temperature;
    generation.sampling.seeded = true;
    generation.sampling.seed = 7;
    for (size_t i = 0; i < size; i++) token[i] = (unsigned char)text[i];
    if (wane_session_start(session, token, size, &generation, &error) != WANE_OK) fail_msg("%s", error.text);
    while (event.kind != WANE_EVENT_END)
        assert_int_equal(wane_session_next(session, &event, &error), WANE_OK);
}

/* Four requests of "", one of them warm, one of ada, one that holds a secret; and a table of them. */
static int make(void **unused) {
    (void)unused;
    wane_recorder_options options;
    wane_recorder *recorder;
    wane_session *session;
    wane_error error = {0};
    char patterns[300];
    for (int i = 0; i < LENGTH; i++) reply[i] = 120 + i * 37 % 101;
    rig_folder_make(&folder);
    snprintf(path, sizeof path, "%s/T.slmt", folder.path);
    snprintf(patterns, sizeof patterns, "%s/patterns", folder.path);
    FILE *file = fopen(patterns, "w");
    fputs("secret\n", file);
    fclose(file);
    wane_model *model = model_of(400);
    wane_recorder_options_init(&options);
    options.folder = folder.path;
    options.redact_file = patterns;
    assert_int_equal(wane_recorder_open(model, &options, &recorder, &error), WANE_OK);
    assert_int_equal(wane_session_new(model, &session, &error), WANE_OK);
    say(session, "one: say it", NULL, 0, WANE_KIND_SINGLE);
    say(session, "another one, a longer one: say it", NULL, 0, WANE_KIND_SINGLE);
    say(session, "one: say it", NULL, 0, WANE_KIND_CODE);
    say(session, "warm: say it", NULL, 1.5f, WANE_KIND_MULTI);
    say(session, "ada's: say it", "ada", 0, WANE_KIND_SINGLE);
    say(session, "the secret: say it", NULL, 0, WANE_KIND_SINGLE);
    wane_session_free(session);
    wane_recorder_close(recorder);
    wane_model_free(model);
    const char *logs[] = {folder.path};
    wane_table_build_options build;
    wane_table_build_options_init(&build);
    build.logs = logs;
    build.log_count = 1;
    build.output = path;
    if (wane_table_build(&build, NULL, &error) != WANE_OK) fail_msg("%s", error.text);
    return 0;
}

static int sweep(void **unused) {
    (void)unused;
    rig_folder_remove(&folder);
    return 0;
}

static const char *logs[1];
static wane_table_use use;

static wane_table_replay_options options_of(void) {
    wane_table_replay_options options;
    wane_table_replay_options_init(&options);
    wane_table_use_init(&use);
    use.path = path;
    logs[0] = folder.path;
    options.logs = logs;
    options.log_count = 1;
    options.use = &use;
    return options;
}

static wane_table_replay_report replay(wane_model *model, const wane_table_replay_options *options) {
    wane_table_replay_report report;
    wane_error error = {0};
    if (wane_table_replay(model, options, &report, &error) != WANE_OK) fail_msg("%s", error.text);
    return report;
}

static void test_same_tokens(void **unused) {
    (void)unused;
    wane_model *model = model_of(400);
    wane_table_replay_options options = options_of();
    wane_table_replay_report report = replay(model, &options);
    assert_int_equal(report.requests, 4);
    assert_int_equal(report.divergent, 0);
    assert_true(report.agreement >= 1);
    assert_true(report.redacted == 1 && report.other_tenants == 1 && report.too_long == 0);
    assert_true(report.tokens > 3 * LENGTH && report.tokens == report.equal);
    assert_string_equal(report.first_divergent, "");
    const wane_table_replay_hits *single = &report.hits[WANE_KIND_SINGLE];
    assert_int_equal(single->tokens, 2 * LENGTH);
    assert_int_equal(single->strict + single->rank + single->miss + single->absent, single->tokens);
    assert_true(single->strict > LENGTH);
    assert_int_equal(report.hits[WANE_KIND_CODE].tokens, LENGTH);
    assert_int_equal(report.hits[WANE_KIND_SUMMARY].tokens, 0);
    assert_true(report.accepted[3] > LENGTH / 2); /* the table's */
    wane_table_state state;
    wane_model_get_table_state(model, &state);
    assert_false(state.given);
    /* The same again: nothing was left over that would count. */
    wane_table_replay_report second = replay(model, &options);
    assert_int_equal(second.accepted[3], report.accepted[3]);
    options.alone = true;
    assert_int_equal(replay(model, &options).equal, report.equal);
    static const char *const names[] = {"bob", "ada"};
    options.tenants = names;
    options.tenant_count = 2;
    options.requests = 5;
    report = replay(model, &options);
    assert_true(report.requests == 5 && report.other_tenants == 0);
    options.requests = 2;
    assert_int_equal(replay(model, &options).requests, 2);
    wane_model_free(model);
}

/* What argmax takes is not what is drawn at this temperature. */
static void test_a_reply_that_differs(void **unused) {
    (void)unused;
    wane_model *model = model_of(400);
    wane_table_replay_options options = options_of();
    use.meaning = WANE_TABLE_ARGMAX;
    use.tolerance = 1;
    wane_table_replay_report report = replay(model, &options);
    assert_int_equal(report.divergent, 1);
    assert_true(report.agreement < 1 && report.equal < report.tokens);
    assert_true(report.first_divergent[0] != '\0');
    wane_model_free(model);
}

/* The newest are held out of the build, and are what the replay runs. */
static void test_the_newest(void **unused) {
    (void)unused;
    wane_model *model = model_of(400);
    wane_table_replay_options options = options_of();
    wane_table_requests all, two, one, none = {0};
    wane_table_build_options build;
    wane_table_report *whole = calloc(1, sizeof *whole), *rest = calloc(1, sizeof *rest);
    wane_error error = {0};
    const char *ada[] = {"ada"};
    options.tenant_count = 0;
    assert_int_equal(wane_table_newest(model, &options, 1, &one, &error), WANE_OK);
    assert_int_equal(one.count, 1);
    assert_int_equal(wane_table_newest(model, &options, UINT64_MAX, &all, &error), WANE_OK);
    assert_int_equal(all.count, 2); /* of four that can be run */
    assert_true(wane__requests_has(&all, one.name[0]));
    options.tenants = ada;
    options.tenant_count = 1;
    assert_int_equal(wane_table_newest(model, &options, 2, &two, &error), WANE_OK);
    assert_int_equal(two.count, 2); /* ada's and the warm one */
    assert_true(strcmp(two.name[0], two.name[1]) < 0);
    assert_true(wane__requests_has(&two, one.name[0]));
    options.only = &two;
    assert_int_equal(replay(model, &options).requests, 2);
    options.only = &none;
    wane_table_replay_report report;
    assert_int_equal(wane_table_replay(model, &options, &report, &error), WANE_EINVAL);
    wane_table_build_options_init(&build);
    build.logs = logs;
    build.log_count = 1;
    assert_int_equal(wane_table_build(&build, whole, &error), WANE_OK);
    build.held_out = &two;
    assert_int_equal(wane_table_build(&build, rest, &error), WANE_OK);
    assert_int_equal(whole->held_out, 0);
    assert_true(rest->held_out > LENGTH);
    assert_int_equal(rest->records, whole->records - rest->held_out);
    assert_int_equal(rest->kinds[WANE_KIND_MULTI], 0); /* the warm one was the only one of its kind */
    assert_int_equal(whole->kinds[WANE_KIND_MULTI], rest->held_out - LENGTH);
    const char *missing[] = {"/nowhere/traces"};
    options.logs = missing;
    assert_int_equal(wane_table_newest(model, &options, 1, &none, &error), WANE_ENOENT);
    wane_table_requests_free(&all);
    wane_table_requests_free(&two);
    wane_table_requests_free(&one);
    free(whole);
    free(rest);
    wane_model_free(model);
}

static bool stop_at_once(void *user, const char *what, double share) {
    (void)user;
    (void)what;
    return share < 0;
}

static void test_refused(void **unused) {
    (void)unused;
    wane_table_replay_report report;
    wane_error error = {0};
    wane_session *session;
    wane_model *model = model_of(400), *small = model_of(12);
    wane_table_replay_options options = options_of();
    assert_int_equal(wane_session_new(model, &session, &error), WANE_OK);
    assert_int_equal(wane_table_replay(model, &options, &report, &error), WANE_EBUSY);
    wane_session_free(session);
    options.progress = stop_at_once;
    assert_int_equal(wane_table_replay(model, &options, &report, &error), WANE_ECANCELLED);
    options = options_of();
    report = replay(small, &options); /* one fits, its reply is cut short */
    assert_true(report.too_long == 2 && report.requests == 2 && report.divergent == 0);
    use.path = "/nonexistent.slmt";
    assert_int_equal(wane_table_replay(model, &options, &report, &error), WANE_ENOENT);
    use.path = NULL;
    assert_int_equal(wane_table_replay(model, &options, &report, &error), WANE_EINVAL);
    use.path = path;
    options.size = 0;
    assert_int_equal(wane_table_replay(model, &options, &report, &error), WANE_EINVAL);
    wane_model_free(model);
    wane_model_free(small);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_tokens),
                                       cmocka_unit_test(test_a_reply_that_differs),
                                       cmocka_unit_test(test_the_newest), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, make, sweep);
}
