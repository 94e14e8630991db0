/*
 * test_session_identity.c - a session in a file, on a real model: two turns in one go, and with a file and another load of the model in
 * between, give the same tokens; with the certified head, with and without drafts, short and long.
 *
 *     WANE_TEST_MODEL=model.gguf [WANE_TEST_THREADS=1] test_session_identity
 *
 * 77, skipped, without the variable.
 */
#include "engine_replies.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TURN = 40, LIVE = 0, KEPT = 1 };

static const char *const questions[2] = {
    "Write this list again:\n- apples, 3\n- pears, 4\n- plums, 5\n- figs, 6\n",
    "Now write the same list once more, and add cherries, 7.",
};
static char folder[] = "/tmp/wane-session-XXXXXX", path[64];

static wane_model *model_of(const wane_model_options *options) {
    wane_model *model = NULL;
    load_model(options, &model);
    return model;
}

/* One more turn of a raw conversation: what was said so far, the question's tokens, the reply's. */
static int turn(wane_model *model, wane_session *session, wane_tokens *all, int which, int times,
                float temperature) {
    wane_generation g;
    wane_error error = {0};
    wane_event event = {0};
    wane_generation_init(&g);
    g.sampling.temperature = temperature;
    g.sampling.seeded = true;
    g.sampling.seed = 5;
    g.ignore_end = true;
    g.max_tokens = TURN;
    for (int i = 0; i < times; i++) {
        wane_tokens more = {0};
        chat_tokens(model, questions[which], &more);
        for (size_t k = 0; k < more.count; k++) {
            all->id = realloc(all->id, (all->count + 1) * sizeof *all->id);
            all->id[all->count++] = more.id[k];
        }
        wane_tokens_free(&more);
    }
    int rc = wane_session_start(session, all->id, all->count, &g, &error);
    while (rc == WANE_OK && event.kind != WANE_EVENT_END) {
        rc = wane_session_next(session, &event, &error);
        if (rc != WANE_OK || event.kind != WANE_EVENT_TEXT) continue;
        all->id = realloc(all->id, (all->count + 1) * sizeof *all->id);
        all->id[all->count++] = event.token;
    }
    CHECK(rc == WANE_OK, "%s", error.text);
    return event.reused_tokens;
}

/* `way` KEPT: the second turn is another process's, as far as that can be had in one. */
static int converse(const wane_model_options *options, int way, int times, float temperature,
                    wane_tokens *all) {
    wane_session *session = NULL;
    wane_error error = {0};
    wane_model *model = model_of(options);
    CHECK(model != NULL && wane_session_new(model, &session, &error) == WANE_OK, "%s", error.text);
    turn(model, session, all, 0, times, temperature);
    if (way == KEPT) {
        CHECK(wane_session_save(session, path, NULL, 0, &error) == WANE_OK, "%s", error.text);
        wane_session_free(session);
        wane_model_free(model);
        model = model_of(options);
        wane_session_file file;
        CHECK(wane_session_new(model, &session, &error) == WANE_OK, "%s", error.text);
        CHECK(wane_session_load(session, path, &file, &error) == WANE_OK, "%s", error.text);
        CHECK(file.same_settings && file.held == (int)all->count - 1, "%d of %zu tokens", file.held,
              all->count);
        wane_session_file_free(&file);
    }
    int reused = turn(model, session, all, 1, 1, temperature);
    wane_head_state head;
    wane_model_get_head_state(model, &head);
    CHECK(head.certified, "the head is dense: %s", head.reason);
    wane_session_free(session);
    wane_model_free(model);
    return reused;
}

static void compare(const wane_model_options *options, const char *what, int times, float temperature) {
    wane_tokens live = {0}, kept = {0};
    int reused = converse(options, LIVE, times, temperature, &live);
    int again = converse(options, KEPT, times, temperature, &kept);
    size_t same = 0;
    while (same < live.count && same < kept.count && live.id[same] == kept.id[same]) same++;
    CHECK(live.count == kept.count && same == live.count, "%s: %zu and %zu tokens, the same up to %zu", what,
          live.count, kept.count, same);
    CHECK(reused == again && again > 0, "%s: %d tokens reused in one go, %d after loading", what, reused,
          again);
    printf("%s: %zu tokens the same, %d kept\n", what, same, again);
    free(live.id);
    free(kept.id);
}

/* What the engine cannot take is refused, and leaves an empty session. */
static void test_refusals(wane_model_options options) {
    wane_session *session = NULL;
    wane_error error = {0};
    wane_tokens all = {0};
    options.kv_type_k = "f16";
    wane_model *model = model_of(&options);
    CHECK(wane_session_new(model, &session, &error) == WANE_OK, "%s", error.text);
    CHECK(wane_session_load(session, path, NULL, &error) == WANE_EUNSUPPORTED, "%s", error.text);
    turn(model, session, &all, 0, 1, 0);
    wane_session_free(session);
    wane_model_free(model);
    free(all.id);
}

int main(void) {
    const char *model = getenv("WANE_TEST_MODEL"), *threads = getenv("WANE_TEST_THREADS");
    if (model == NULL || model[0] == '\0') {
        printf("WANE_TEST_MODEL is not set: skipped\n");
        return 77;
    }
    if (mkdtemp(folder) == NULL) return 1;
    snprintf(path, sizeof path, "%s/s", folder);
    wane_model_options options;
    wane_model_options_init(&options);
    options.path = model;
    options.context = 1024;
    options.threads = threads != NULL ? atoi(threads) : 0;
    options.head_always = true;
    options.shadow = 0;
    options.draft = WANE_DRAFT_OFF;
    compare(&options, "certified head, greedy", 1, 0);
    compare(&options, "certified head, seeded, long", 4, 0.8f);
    options.draft = WANE_DRAFT_ALWAYS;
    options.kv_type_k = "q8_0"; /* one kernel for every length: drafts stand */
    options.repack = 0;
    compare(&options, "drafts, greedy", 1, 0);
    compare(&options, "drafts, seeded, long", 4, 0.8f);
    test_refusals(options);
    unlink(path);
    rmdir(folder);
    printf("%d failures\n", failures);
    return failures > 0;
}
