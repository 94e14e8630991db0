/*
 * test_look.c - a reply that is looked at has the tokens of one that is not; what is seen of each token is what the script says; a table
 * that took a token is named; and what the engine holds at the end.
 */
#include "test_scheduler_rig.h"

#include "model_table.h"
#include "table/context.h"
#include "table/slmt.h"

#include <math.h>
#include <unistd.h>

enum { STEPS = 8, MOST = 32 };

static const char prompt[] = "abc";
static const int32_t reply[STEPS] = {'p', 'g', 'q', 'h', 'r', 'i', 's', 'j'};
static const struct wane__script_reply fixed[] = {
    {.match = "abc", .tokens = reply, .count = STEPS, .fail_at = -1}};

struct view {
    int count;
    wane_look look[MOST];
    wane_candidate best[MOST][WANE_LOOK_BEST];
    wane_look_end end;
    int stop_at;
};

static bool take(void *user, const wane_look *look) {
    struct view *view = user;
    view->look[view->count] = *look;
    memcpy(view->best[view->count], look->best, (size_t)look->best_count * sizeof *look->best);
    return ++view->count != view->stop_at;
}

static wane_model *make(void) {
    struct wane__script script = {.replies = fixed, .reply_count = 1};
    struct wane__engine *engine;
    wane_model *model;
    assert_int_equal(wane__script_load(&script, NULL, &engine, NULL), WANE_OK);
    assert_int_equal(wane__model_wrap(engine, NULL, NULL, &model, NULL), WANE_OK);
    return model;
}

static int look(wane_model *model, const wane_generation *generation, struct view *view) {
    int32_t token[3] = {prompt[0], prompt[1], prompt[2]};
    wane_session *session;
    wane_error error = {0};
    assert_int_equal(wane_session_new(model, &session, &error), WANE_OK);
    int status = wane_session_look(session, token, 3, generation, take, view, &view->end, &error);
    assert_true(status == WANE_OK || error.text[0] != '\0');
    wane_session_free(session);
    return status;
}

static void test_seen(void **state) {
    (void)state;
    wane_model *model = make();
    wane_generation generation = greedy(0);
    struct view view = {0};
    assert_int_equal(look(model, &generation, &view), WANE_OK);
    assert_int_equal(view.count, STEPS + 1); /* the token that ends the turn is seen, too */
    for (int i = 0; i < STEPS; i++) {
        assert_int_equal(view.look[i].token, reply[i]);
        assert_int_equal(view.look[i].index, i);
        assert_int_equal(view.look[i].best_count, WANE_LOOK_BEST);
        assert_int_equal(view.best[i][0].token, reply[i]);
        assert_true(view.best[i][0].logit >= 10 && view.best[i][1].logit <= 9.0f);
        assert_false(view.look[i].table_took || view.look[i].changed || view.look[i].steered);
        assert_int_equal(view.look[i].table_source, WANE_TABLE_NOTHING);
    }
    assert_int_equal(view.end.finish, WANE_FINISH_END);
    assert_int_equal(view.end.prompt_tokens, 3);
    assert_int_equal(view.end.reply_tokens, STEPS + 1);
    assert_int_equal(view.end.held, 3 + STEPS);
    wane_model_free(model);
}

/* With draws, penalties and a bias: the same tokens as without a look. */
static void test_changes_nothing(void **state) {
    (void)state;
    wane_model *model = make();
    wane_generation generation = greedy(0);
    static const wane_bias bias = {'q', -3};
    int32_t token[3] = {prompt[0], prompt[1], prompt[2]}, plain[MOST];
    int count = 0;
    generation.sampling.temperature = 1.5f;
    generation.sampling.repeat_penalty = 1.3f;
    generation.sampling.bias = &bias;
    generation.sampling.bias_count = 1;
    generation.sampling.seeded = true;
    generation.sampling.seed = 4;
    generation.max_tokens = 20;
    generation.ignore_end = true;
    wane_session *session;
    wane_event event;
    assert_int_equal(wane_session_new(model, &session, NULL), WANE_OK);
    assert_int_equal(wane_session_start(session, token, 3, &generation, NULL), WANE_OK);
    while (wane_session_next(session, &event, NULL) == WANE_OK && event.kind == WANE_EVENT_TEXT)
        plain[count++] = event.token;
    wane_session_free(session);
    struct view view = {0};
    assert_int_equal(look(model, &generation, &view), WANE_OK);
    assert_int_equal(view.count, count);
    for (int i = 0; i < count; i++) assert_int_equal(view.look[i].token, plain[i]);
    assert_int_equal(view.end.finish, WANE_FINISH_LENGTH);
    wane_model_free(model);
}

static void test_stopped(void **state) {
    (void)state;
    wane_model *model = make();
    wane_generation generation = greedy(0);
    struct view view = {.stop_at = 2};
    assert_int_equal(look(model, &generation, &view), WANE_ECANCELLED);
    assert_int_equal(view.count, 2);
    wane_model_free(model);
}

static int by_window(const void *left, const void *right) {
    uint64_t a = ((const struct wane__slmt_entry *)left)->key.window,
             b = ((const struct wane__slmt_entry *)right)->key.window;
    return a < b ? -1 : a > b;
}

/* Entries of the reply's contexts, of which every second one stores another token. */
static void test_table(void **state) {
    (void)state;
    char path[] = "/tmp/wane-look-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    wane_model *model = make();
    static const int32_t away[5] = {0, -1, 1, -2, 2};
    int32_t token[3 + STEPS] = {'a', 'b', 'c'};
    struct wane__slmt_entry entry[STEPS];
    struct wane__slmt_content content = {.window = 3, .depth = 5, .entry = entry, .entry_count = STEPS};
    memcpy(token + 3, reply, sizeof reply);
    for (int i = 0; i < STEPS; i++) {
        entry[i] = (struct wane__slmt_entry){
            .key = {wane__context_window(wane__context_tenant(""), token + 3 + i, 3), 0},
            .seen = 2,
            .top_count = 5};
        for (int k = 0; k < 5; k++)
            entry[i].top[k] =
                (struct wane__candidate){reply[i] + (i % 2 ? 20 : 0) + away[k], 10 - (float)abs(away[k])};
    }
    qsort(entry, STEPS, sizeof *entry, by_window);
    wane_error error = {0};
    assert_int_equal(wane__model_origin(model, &content.origin, &error), WANE_OK);
    if (wane__slmt_write(path, &content, &error) != WANE_OK) fail_msg("%s", error.text);
    wane_table_use use;
    wane_table_use_init(&use);
    use.path = path;
    use.meaning = WANE_TABLE_ARGMAX;
    use.poll_ms = 0;
    assert_int_equal(wane_model_set_table(model, &use, &error), WANE_OK);
    struct view view = {0};
    wane_generation generation = greedy(0);
    assert_int_equal(look(model, &generation, &view), WANE_OK);
    for (int i = 0; i < STEPS; i++) {
        assert_int_not_equal(view.look[i].table_source, WANE_TABLE_NOTHING);
        assert_int_equal(view.look[i].table_grade, i % 2 ? 0 : 2);
        assert_int_equal(view.look[i].table_first, reply[i] + (i % 2 ? 20 : 0));
        assert_false(view.look[i].table_took); /* it says what was drawn anyway */
    }
    /* Drawn nearly at random, the first token is another than the stored one, which takes its place. */
    generation.sampling = (wane_sampling){
        .temperature = 8, .top_p = 1, .repeat_penalty = 1, .top_logprobs = -1, .seeded = true, .seed = 1};
    view = (struct view){0};
    generation.max_tokens = 12;
    assert_int_equal(look(model, &generation, &view), WANE_OK);
    for (int i = 0; i < view.count; i++)
        if (view.look[i].table_grade == 2) assert_int_equal(view.look[i].token, view.look[i].table_first);
    assert_true(view.look[0].table_took && view.look[0].token == 'p');
    wane_model_free(model);
    unlink(path);
}

/* A sketch that is there is taken, one that is not is not built; either head gives the same best candidates. */
static void test_found_head(void **state) {
    (void)state;
    char folder[] = "/tmp/wane-look-XXXXXX", sketch[200];
    assert_non_null(mkdtemp(folder));
    wane_generation generation = greedy(6);
    struct view view[3];
    for (int i = 0; i < 3; i++) { /* without one, building it, finding it */
        struct wane__script script = {.replies = fixed, .reply_count = 1, .linear = true};
        struct wane__engine *engine;
        wane_model *model;
        wane_model_options options;
        wane_head_state head;
        wane_model_options_init(&options);
        options.head_folder = folder;
        options.head_always = true;
        options.head_found = i != 1;
        options.shadow = 0;
        assert_int_equal(wane__script_load(&script, NULL, &engine, NULL), WANE_OK);
        assert_int_equal(wane__model_wrap(engine, NULL, NULL, &model, NULL), WANE_OK);
        snprintf(model->digest, sizeof model->digest, "00112233445566778899aabbccddeeff");
        assert_int_equal(wane__model_head_open(model, &options, NULL), WANE_OK);
        wane_model_get_head_state(model, &head);
        if (i == 0) assert_non_null(strstr(head.reason, "no sketch"));
        assert_int_equal(head.path[0] != '\0', i > 0);
        assert_int_equal(head.built, i == 1);
        view[i] = (struct view){0};
        assert_int_equal(look(model, &generation, &view[i]), WANE_OK);
        assert_int_equal(view[i].look[2].certified, i > 0);
        for (int k = 0; k < view[i].count; k++)
            for (int j = 0; j < WANE_LOOK_BEST; j++) {
                assert_int_equal(view[i].best[k][j].token, view[0].best[k][j].token);
                assert_memory_equal(&view[i].best[k][j].logit, &view[0].best[k][j].logit, sizeof(float));
            }
        wane_model_free(model);
    }
    snprintf(sketch, sizeof sketch, "%s/00112233445566778899aabbccddeeff-2.sketch", folder);
    assert_int_equal(unlink(sketch), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seen),  cmocka_unit_test(test_changes_nothing), cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_table), cmocka_unit_test(test_found_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
