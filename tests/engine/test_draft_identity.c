/*
 * test_draft_identity.c - drafts change no token: a real model, text that repeats, three samplers, short and long contexts.
 *
 *     WANE_TEST_MODEL=model.gguf [WANE_TEST_THREADS=1] test_draft_identity
 *
 * 77, skipped, without the variable. Through the public interface, as programs use it: sessions with and without drafts, then
 * four sequences in a scheduler. Every reply is drafted as often as anything is proposed (WANE_DRAFT_ALWAYS), so that wrong
 * drafts are verified as well as right ones.
 *
 * Each sampler meets some prompts, and every prompt is somebody's: short, long, alone and beside others. More tokens prove nothing more.
 */
#include "engine_replies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PROMPTS = 4, TOKENS = 26, TOGETHER = 24, ROWS = 4, LONG = 4 };

static const char *const prompts[PROMPTS] = {
    "Write this list again:\n- apples, 3\n- pears, 4\n- plums, 5\n- figs, 6\n- apples, 7\n- pears, 8\n",
    "Count: one apple, two apples, three apples, four apples, and go on to twenty apples.",
    "Print again: def add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return a - b\n\ndef mul(a, b):\n",
    "Tell me how to plant a small herb garden on a balcony.",
};

static const struct {
    const char *name;
    float temperature, top_p, min_p, penalty;
    int top_k;
} samplers[] = {
    {"greedy", 0, 1, 0, 1, 40},
    {"default", 0.8f, 0.95f, 0.05f, 1, 40},
    {"full, penalised", 0.6f, 0.95f, 0, 1.05f, 0},
};
enum { SAMPLERS = sizeof samplers / sizeof *samplers };

static char folder[] = "/tmp/wane-drafts-XXXXXX";

static wane_draft_state state_of(wane_model *model) {
    wane_draft_state state;
    wane_model_get_draft_state(model, &state);
    return state;
}

static uint64_t sum(const uint64_t *values) {
    uint64_t all = 0;
    for (int i = 0; i < WANE_DRAFT_SOURCES; i++) all += values[i];
    return all;
}

static void generation_of(int sampler, int row, wane_generation *g) {
    wane_generation_init(g);
    g->sampling.temperature = samplers[sampler].temperature;
    g->sampling.top_k = samplers[sampler].top_k;
    g->sampling.top_p = samplers[sampler].top_p;
    g->sampling.min_p = samplers[sampler].min_p;
    g->sampling.repeat_penalty = samplers[sampler].penalty;
    g->sampling.seeded = true;
    g->sampling.seed = 1000 + (uint64_t)row;
    g->ignore_end = true;
    g->max_tokens = TOKENS;
}

/* `times`: the prompt over and over, for a long context. */
static void tokens_of(wane_model *model, int prompt, int times, wane_tokens *out) {
    char text[4096] = "";
    for (int i = 0; i < times; i++) strncat(text, prompts[prompt], sizeof text - strlen(text) - 1);
    chat_tokens(model, text, out);
}

static void set_draft(wane_model *model, int draft) {
    wane_error error = {0};
    CHECK(wane_model_set_draft(model, draft, &error) == WANE_OK, "%s", error.text);
}

static void alone(wane_model *model, int draft, int sampler, int prompt, int times, int32_t *ids) {
    wane_tokens tokens = {0};
    wane_generation generation;
    tokens_of(model, prompt, times, &tokens);
    generation_of(sampler, prompt, &generation);
    set_draft(model, draft);
    reply_alone(model, &tokens, &generation, ids, TOKENS);
    wane_tokens_free(&tokens);
}

static void together(wane_model *model, int draft, int sampler, int32_t ids[ROWS][TOGETHER]) {
    wane_scheduler_options options;
    wane_tokens tokens[ROWS] = {{0}};
    wane_generation generation[ROWS];
    wane_scheduler_options_init(&options);
    options.practice_ms = 500;
    set_draft(model, draft);
    for (int row = 0; row < ROWS; row++) {
        tokens_of(model, row, 1, &tokens[row]);
        generation_of(sampler, row, &generation[row]);
        generation[row].max_tokens = TOGETHER;
    }
    replies_together(model, &options, tokens, generation, ROWS, ids[0], TOGETHER);
    for (int row = 0; row < ROWS; row++) wane_tokens_free(&tokens[row]);
}

static void compare(const char *what, int sampler, int prompt, const int32_t *off, const int32_t *on,
                    int count) {
    for (int i = 0; i < count; i++) {
        CHECK(off[i] == on[i] && off[i] >= 0, "%s, %s, prompt %d, token %d: %d without, %d with drafts", what,
              samplers[sampler].name, prompt, i, off[i], on[i]);
        if (off[i] != on[i]) return;
    }
}

static void report(wane_model *model, const char *what, bool wanted) {
    wane_draft_state state = state_of(model);
    printf("%s: %llu of %llu drafted tokens accepted in %llu blocks; %llu rehearsals, %llu differing\n", what,
           (unsigned long long)sum(state.accepted), (unsigned long long)sum(state.proposed),
           (unsigned long long)state.blocks, (unsigned long long)state.rehearsals,
           (unsigned long long)state.differing);
    CHECK(state.blocks > 0 || !wanted, "%s: nothing was drafted", what);
}

/* `each`: prompts that a sampler meets, other ones than its neighbour where they are fewer than all. */
static void test_sessions(wane_model *model, const char *what, int times, int each) {
    static int32_t off[TOKENS], on[TOKENS];
    for (int sampler = 0; sampler < SAMPLERS; sampler++) {
        for (int i = 0; i < each; i++) {
            int prompt = (sampler + i * PROMPTS / each) % PROMPTS;
            alone(model, WANE_DRAFT_OFF, sampler, prompt, times, off);
            alone(model, WANE_DRAFT_ALWAYS, sampler, prompt, times, on);
            compare(what, sampler, prompt, off, on, TOKENS);
            if (i > 0 || times > 1) continue; /* it differs from always in when, not in what */
            alone(model, WANE_DRAFT_AUTO, sampler, prompt, times, on);
            compare(what, sampler, prompt, off, on, TOKENS);
        }
    }
}

/* The first and the last sampler: greedy, and the one that asks most of a row. */
static void test_scheduler(wane_model *model) {
    static int32_t off[ROWS][TOGETHER], on[ROWS][TOGETHER];
    for (int sampler = 0; sampler < SAMPLERS; sampler += SAMPLERS - 1) {
        together(model, WANE_DRAFT_OFF, sampler, off);
        together(model, WANE_DRAFT_ALWAYS, sampler, on);
        for (int row = 0; row < ROWS; row++) compare("four rows", sampler, row, off[row], on[row], TOGETHER);
    }
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
    options.context = 1024;
    options.threads = threads != NULL ? atoi(threads) : 0;
    options.head_folder = folder;
    options.shadow = 0;
    wane_model *model = NULL;
    /* As it comes: where the engine's floats are equal, there are drafts; where not, none, and the tokens are the same. */
    if (load_model(&options, &model)) {
        test_sessions(model, "default", 1, 1);
        test_sessions(model, "default, long", LONG, 1);
        test_scheduler(model);
        report(model, "default", false);
        wane_model_free(model);
    }
    /* Keys in 8 bits: one kernel for every length, so that blocks, neighbours and prompts are all the same. */
    options.kv_type_k = "q8_0";
    options.repack = 0;
    if (load_model(&options, &model)) {
        test_sessions(model, "steady", 1, 2);
        test_sessions(model, "steady, long", LONG, 1);
        report(model, "steady", true);
        CHECK(state_of(model).differing == 0, "blocks differ from single tokens");
        test_scheduler(model);
        report(model, "steady, with a scheduler", true);
        char sketch[1200];
        wane_head_state head;
        wane_model_get_head_state(model, &head);
        snprintf(sketch, sizeof sketch, "%s", head.path);
        wane_model_free(model);
        if (sketch[0] != '\0') unlink(sketch);
    }
    rmdir(folder);
    printf("%d failures\n", failures);
    return failures > 0;
}
