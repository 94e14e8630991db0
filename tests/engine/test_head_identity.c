/*
 * test_head_identity.c - the certified head gives the dense head's tokens: a real model, three samplers, one row and four.
 *
 *     WANE_TEST_MODEL=model.gguf [WANE_TEST_THREADS=1] test_head_identity
 *
 * 77, skipped, without the variable. About 3,000 tokens; bench/identity.py does the same with a hundred thousand. Through
 * the public interface, as programs use it, in a folder of sketches of its own.
 */
#include "engine_replies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PROMPTS = 4, TOKENS = 80, ROWS = 4 };

static const char *const prompts[PROMPTS] = {
    "Tell me how to plant a small herb garden on a balcony.",
    "Write a Python function that returns the n-th Fibonacci number, with a test.",
    "用三句话介绍一下长城。",
    "Give me a JSON object that describes a book: title, author, year, and three tags.",
};

static const struct {
    const char *name;
    float temperature, top_p, min_p;
    int top_k;
} samplers[] = {
    {"greedy", 0, 1, 0, 40},
    {"default", 0.8f, 0.95f, 0.05f, 40},
    {"full", 0.8f, 0.95f, 0, 0},
};
enum { SAMPLERS = sizeof samplers / sizeof *samplers };

static char folder[] = "/tmp/wane-sketches-XXXXXX";

static wane_head_state state_of(wane_model *model) {
    wane_head_state state;
    wane_model_get_head_state(model, &state);
    return state;
}

static void generation_of(int sampler, int row, wane_generation *g) {
    wane_generation_init(g);
    g->sampling.temperature = samplers[sampler].temperature;
    g->sampling.top_k = samplers[sampler].top_k;
    g->sampling.top_p = samplers[sampler].top_p;
    g->sampling.min_p = samplers[sampler].min_p;
    g->sampling.seeded = true;
    g->sampling.seed = 1000 + (uint64_t)row;
    g->ignore_end = true;
    g->max_tokens = TOKENS;
}

static void tokens_of(wane_model *model, int prompt, wane_tokens *out) {
    chat_tokens(model, prompts[prompt], out);
}

static void set_head(wane_model *model, int head) {
    wane_error error = {0};
    CHECK(wane_model_set_head(model, head, &error) == WANE_OK, "%s", error.text);
}

static void alone(wane_model *model, int head, int sampler, int prompt, int32_t *ids) {
    wane_tokens tokens = {0};
    wane_generation generation;
    tokens_of(model, prompt, &tokens);
    generation_of(sampler, prompt, &generation);
    set_head(model, head);
    reply_alone(model, &tokens, &generation, ids, TOKENS);
    wane_tokens_free(&tokens);
}

/* All start in one batch, so that both heads see the same batches. */
static void together(wane_model *model, int head, int sampler, int32_t ids[ROWS][TOKENS]) {
    wane_scheduler_options options;
    wane_tokens tokens[ROWS] = {{0}};
    wane_generation generation[ROWS];
    wane_scheduler_options_init(&options);
    options.max_batch_requests = ROWS;
    options.window_ms = 5000;
    set_head(model, head);
    for (int row = 0; row < ROWS; row++) {
        tokens_of(model, row, &tokens[row]);
        generation_of(sampler, row, &generation[row]);
    }
    replies_together(model, &options, tokens, generation, ROWS, ids[0], TOKENS);
    for (int row = 0; row < ROWS; row++) wane_tokens_free(&tokens[row]);
}

static void compare(const char *what, int sampler, int prompt, const int32_t *dense,
                    const int32_t *certified) {
    for (int i = 0; i < TOKENS; i++) {
        CHECK(dense[i] == certified[i] && dense[i] >= 0,
              "%s, %s, prompt %d, token %d: dense %d, certified %d", what, samplers[sampler].name, prompt, i,
              dense[i], certified[i]);
        if (dense[i] != certified[i]) return;
    }
}

static int test_identity(wane_model *model) {
    static int32_t dense[ROWS][TOKENS], certified[ROWS][TOKENS];
    int tokens = 0;
    for (int sampler = 0; sampler < SAMPLERS; sampler++) {
        for (int prompt = 0; prompt < PROMPTS; prompt++) {
            alone(model, WANE_HEAD_DENSE, sampler, prompt, dense[0]);
            alone(model, WANE_HEAD_CERTIFIED, sampler, prompt, certified[0]);
            compare("one row", sampler, prompt, dense[0], certified[0]);
            tokens += TOKENS;
        }
        together(model, WANE_HEAD_DENSE, sampler, dense);
        together(model, WANE_HEAD_CERTIFIED, sampler, certified);
        for (int row = 0; row < ROWS; row++) compare("four rows", sampler, row, dense[row], certified[row]);
        tokens += ROWS * TOKENS;
    }
    wane_head_state state = state_of(model);
    CHECK(state.certified && state.rows >= (uint64_t)tokens, "%llu rows", (unsigned long long)state.rows);
    CHECK(state.dense_off >= (uint64_t)tokens && state.dense_batch == 0, "dense rows");
    CHECK(state.rescored < state.rows * (uint64_t)wane_model_get_facts(model)->vocab_size / 2, "no gain");
    printf("%d tokens: level 1 left %.0f rows a token, level 2 %.1f; %.1f computed exactly; dense: %llu too "
           "many, "
           "%llu sums\n",
           tokens, (double)state.survivors1 / (double)state.rows,
           (double)state.survivors2 / (double)state.rows, (double)state.rescored / (double)state.rows,
           (unsigned long long)state.dense_many, (unsigned long long)state.dense_sum);
    return tokens;
}

static void test_modes(wane_model *model) {
    wane_error error = {0};
    wane_session *session = NULL;
    CHECK(wane_model_set_head(model, 7, &error) == WANE_EINVAL, "7");
    CHECK(wane_session_new(model, &session, &error) == WANE_OK, "%s", error.text);
    CHECK(wane_model_set_head(model, WANE_HEAD_DENSE, &error) == WANE_EBUSY, "with a session");
    wane_session_free(session);
    int32_t ids[TOKENS];
    alone(model, WANE_HEAD_NONE, 0, 0, ids);
    for (int i = 1; i < TOKENS; i++) CHECK(ids[i] == ids[0], "without a head, token %d is %d", i, ids[i]);
    CHECK(!state_of(model).certified, "none");
}

/* Every token is checked while it is made. */
static void test_shadow(wane_model_options options) {
    wane_model *model = NULL;
    static int32_t ids[ROWS][TOKENS], same[TOKENS];
    options.shadow = 1;
    if (!load_model(&options, &model)) return;
    CHECK(!state_of(model).built, "built anew");
    alone(model, WANE_HEAD_CERTIFIED, 1, 0, ids[0]);
    alone(model, WANE_HEAD_DENSE, 1, 0, same);
    compare("checked", 1, 0, same, ids[0]);
    together(model, WANE_HEAD_CERTIFIED, 1, ids);
    wane_head_state state = state_of(model);
    CHECK(state.shadow_checks >= 5 * TOKENS && state.divergences == 0, "%llu checks, %llu divergences",
          (unsigned long long)state.shadow_checks, (unsigned long long)state.divergences);
    wane_model_free(model);
}

/* Cut short, the file is made again; where none can be written, the dense head runs and says why. */
static void test_files(wane_model_options options) {
    wane_model *model = NULL;
    char path[1200];
    if (!load_model(&options, &model)) return;
    snprintf(path, sizeof path, "%s", state_of(model).path);
    wane_model_free(model);
    struct stat status;
    CHECK(stat(path, &status) == 0, "%s", path);
    CHECK(truncate(path, status.st_size / 2) == 0, "truncate");
    if (!load_model(&options, &model)) return;
    CHECK(state_of(model).certified && state_of(model).built, "not built anew");
    wane_model_free(model);
    unlink(path);
    options.head_folder = "/dev/null/sketches";
    if (!load_model(&options, &model)) return;
    wane_head_state state = state_of(model);
    CHECK(!state.certified && strstr(state.reason, "/dev/null/sketches") != NULL, "%s", state.reason);
    int32_t ids[TOKENS];
    alone(model, WANE_HEAD_DENSE, 0, 0, ids);
    CHECK(ids[TOKENS - 1] >= 0, "no reply");
    wane_error error = {0};
    CHECK(wane_model_set_head(model, WANE_HEAD_CERTIFIED, &error) == WANE_EUNSUPPORTED, "%s", error.text);
    wane_model_free(model);
}

/* A sketch from statistics of texts of one's own: few rows, so that the covariance is far from whole. */
static void test_statistics(wane_model_options options) {
    wane_model *model = NULL;
    wane_error error = {0};
    char file[64];
    wane_message message[PROMPTS];
    wane_conversation conversation[PROMPTS];
    int64_t rows = 0;
    static int32_t ids[TOKENS], same[TOKENS];
    snprintf(file, sizeof file, "%s/own.stat", folder);
    for (int i = 0; i < PROMPTS; i++) {
        message[i] = (wane_message){"user", prompts[i], strlen(prompts[i])};
        conversation[i] = (wane_conversation){&message[i], 1};
    }
    if (!load_model(&options, &model)) return;
    int rc = wane_model_write_statistics(model, conversation, PROMPTS, file, NULL, NULL, &rows, &error);
    CHECK(rc == WANE_OK && rows > 50 && rows < 500, "%lld rows; %s", (long long)rows, error.text);
    CHECK(wane_model_write_statistics(model, conversation, 0, file, NULL, NULL, NULL, &error) == WANE_EINVAL,
          "no texts");
    wane_model_free(model);
    model = NULL;
    options.head_statistics = file;
    options.head_rebuild = true;
    if (!load_model(&options, &model)) return;
    wane_head_state state = state_of(model);
    CHECK(state.certified && state.built && state.statistics_rows == rows, "%s", state.reason);
    alone(model, WANE_HEAD_DENSE, 2, 3, same);
    alone(model, WANE_HEAD_CERTIFIED, 2, 3, ids);
    compare("own statistics", 2, 3, same, ids);
    unlink(state.path);
    wane_model_free(model);
    model = NULL;
    CHECK(truncate(file, 100) == 0, "truncate");
    if (!load_model(&options, &model)) return;
    state = state_of(model);
    CHECK(!state.certified && strstr(state.reason, file) != NULL, "%s", state.reason);
    wane_model_free(model);
    unlink(file);
}

int main(void) {
    const char *path = getenv("WANE_TEST_MODEL"), *threads = getenv("WANE_TEST_THREADS");
    if (path == NULL || path[0] == '\0') {
        printf("WANE_TEST_MODEL is not set: skipped\n");
        return 77;
    }
    if (mkdtemp(folder) == NULL) return 1;
    wane_model_options options;
    wane_model_options_init(&options);
    options.path = path;
    options.sequences = ROWS;
    options.context = 512;
    options.threads = threads != NULL ? atoi(threads) : 0;
    options.head = WANE_HEAD_CERTIFIED;
    options.head_folder = folder;
    options.shadow = 0;
    options.head_always = true;
    wane_model *model = NULL;
    if (load_model(&options, &model)) {
        wane_head_state state = state_of(model);
        if (!state.certified && !wane_model_get_facts(model)->rescoring_exact) {
            printf("no certified head for this model: %s\n", state.reason);
        } else {
            CHECK(state.certified && state.built, "%s", state.reason);
            test_identity(model);
            test_modes(model);
            wane_model_free(model);
            model = NULL;
            test_shadow(options);
            test_statistics(options);
            test_files(options);
        }
        wane_model_free(model);
    }
    rmdir(folder);
    printf("%d failures\n", failures);
    return failures > 0;
}
