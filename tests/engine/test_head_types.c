/*
 * test_head_types.c - heads of every type that the engine has a product for, tied and separate: the certified head's tokens
 * are the dense head's, in one row and in four, and no layout of the engine's keeps the certified head away.
 *
 *     WANE_TEST_MODEL=model.gguf [WANE_TEST_THREADS=1] [WANE_TEST_TYPES=all] test_head_types
 *
 * 77, skipped, without the variable. The models are made here: the tokenizer of that model, random weights, two narrow
 * layers, and a head of the type in question. Every token is computed by both heads (shadow = 1), logits and all.
 */
#include "engine_check.h"
#include "wane.h"

#include <ggml.h>
#include <gguf.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { D = 512, FF = 512, HEADS = 8, LAYERS = 2, TOKENS = 24, ROWS = 4 };

/* Rows of the head as spread as those of trained models: the best logits stand out, but not by far. */
#define HEAD_SPREAD 0.12f

static char folder[64];

struct head_case {
    enum ggml_type type;
    bool tied, often; /* often: in every run of the suite */
    float scale;      /* of the logits; 0: none */
};

static const struct head_case cases[] = {
    {GGML_TYPE_F16, false, true, 0},    {GGML_TYPE_BF16, false, true, 0},
    {GGML_TYPE_Q4_0, false, true, 0},   {GGML_TYPE_Q4_1, false, true, 0},
    {GGML_TYPE_Q5_0, false, true, 0},   {GGML_TYPE_Q8_0, true, true, 0},
    {GGML_TYPE_Q4_K, false, true, 0},   {GGML_TYPE_Q5_K, false, true, 0},
    {GGML_TYPE_Q6_K, true, true, 0},    {GGML_TYPE_F32, false, false, 0},
    {GGML_TYPE_F16, true, false, 0},    {GGML_TYPE_BF16, true, false, 0},
    {GGML_TYPE_Q4_0, true, true, 0},    {GGML_TYPE_Q8_0, false, true, 1.7f},
    {GGML_TYPE_Q4_K, true, true, 8},    {GGML_TYPE_Q4_1, true, false, 0},
    {GGML_TYPE_Q5_0, true, false, 0},   {GGML_TYPE_Q5_1, false, false, 0},
    {GGML_TYPE_Q5_1, true, false, 0},   {GGML_TYPE_Q8_0, false, false, 0},
    {GGML_TYPE_Q2_K, false, false, 0},  {GGML_TYPE_Q3_K, false, false, 0},
    {GGML_TYPE_Q4_K, true, false, 0},   {GGML_TYPE_Q5_K, true, false, 0},
    {GGML_TYPE_Q6_K, false, false, 0},  {GGML_TYPE_IQ4_NL, false, false, 0},
    {GGML_TYPE_IQ4_NL, true, false, 0}, {GGML_TYPE_IQ4_XS, false, false, 0},
    {GGML_TYPE_MXFP4, false, false, 0},
};

/* ------------------------------------------------------------------ a model */

static uint64_t random_state;

static float normal(void) { /* Irwin-Hall of four is near enough */
    float sum = 0;
    for (int i = 0; i < 4; i++) {
        random_state = random_state * 6364136223846793005u + 1442695040888963407u;
        sum += (float)(random_state >> 40) * 0x1p-24f;
    }
    return (sum - 2) * 1.7320508f;
}

struct maker {
    struct gguf_context *out;
    struct ggml_context *tensors;
};

static void add(struct maker *m, const char *name, enum ggml_type type, int columns, int rows, float spread) {
    struct ggml_tensor *t = rows > 1 ? ggml_new_tensor_2d(m->tensors, type, columns, rows)
                                     : ggml_new_tensor_1d(m->tensors, type, columns);
    ggml_set_name(t, name);
    size_t count = (size_t)columns * (size_t)rows;
    float *x = malloc(count * sizeof *x);
    for (size_t i = 0; i < count; i++) x[i] = spread > 0 ? spread * normal() : 1;
    if (type == GGML_TYPE_F32)
        memcpy(t->data, x, count * sizeof *x);
    else
        ggml_quantize_chunk(type, x, t->data, 0, rows, columns, NULL);
    free(x);
    gguf_add_tensor(m->out, t);
}

static void add_layer(struct maker *m, int layer) {
    static const struct {
        const char *name;
        int columns, rows;
        float spread;
    } part[] = {
        {"attn_norm", D, 1, 0},     {"attn_q", D, D, 0.06f},      {"attn_k", D, D, 0.06f},
        {"attn_v", D, D, 0.06f},    {"attn_output", D, D, 0.06f}, {"ffn_norm", D, 1, 0},
        {"ffn_gate", D, FF, 0.06f}, {"ffn_up", D, FF, 0.06f},     {"ffn_down", FF, D, 0.06f},
    };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.%s.weight", layer, part[i].name);
        add(m, name, part[i].rows > 1 ? GGML_TYPE_Q8_0 : GGML_TYPE_F32, part[i].columns, part[i].rows,
            part[i].spread);
    }
}

/* Granite is a llama whose logits are divided by a number. */
static void set_shape(struct gguf_context *out, float scale, int vocab) {
    const char *kind = scale > 0 ? "granite" : "llama";
    const struct {
        const char *name;
        uint32_t value;
    } part[] = {{"embedding_length", D},
                {"block_count", LAYERS},
                {"feed_forward_length", FF},
                {"attention.head_count", HEADS},
                {"attention.head_count_kv", HEADS},
                {"rope.dimension_count", D / HEADS},
                {"context_length", 512},
                {"vocab_size", (uint32_t)vocab}};
    char key[64];
    gguf_set_val_str(out, "general.architecture", kind);
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        snprintf(key, sizeof key, "%s.%s", kind, part[i].name);
        gguf_set_val_u32(out, key, part[i].value);
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", kind);
    gguf_set_val_f32(out, key, 1e-5f);
    if (scale > 0) gguf_set_val_f32(out, "granite.logit_scale", scale);
}

static bool make_model(const char *tokenizer, const struct head_case *c, const char *path) {
    struct gguf_context *from =
        gguf_init_from_file(tokenizer, (struct gguf_init_params){.no_alloc = true, .ctx = NULL});
    if (from == NULL) return false;
    int64_t key = gguf_find_key(from, "tokenizer.ggml.tokens");
    int vocab = key >= 0 ? (int)gguf_get_arr_n(from, key) : 0;
    size_t room = (size_t)vocab * D * 8 + (64u << 20);
    struct maker m = {.out = gguf_init_empty(),
                      .tensors = ggml_init((struct ggml_init_params){.mem_size = room})};
    random_state = 12345 + (uint64_t)c->type;
    gguf_set_kv(m.out, from);
    set_shape(m.out, c->scale, vocab);
    add(&m, "token_embd.weight", c->tied ? c->type : GGML_TYPE_Q8_0, D, vocab, HEAD_SPREAD);
    add(&m, "output_norm.weight", GGML_TYPE_F32, D, 1, 0);
    if (!c->tied) add(&m, "output.weight", c->type, D, vocab, HEAD_SPREAD);
    for (int layer = 0; layer < LAYERS; layer++) add_layer(&m, layer);
    bool written = gguf_write_to_file(m.out, path, false);
    gguf_free(m.out);
    gguf_free(from);
    ggml_free(m.tensors);
    return written;
}

/* ---------------------------------------------------------------- its tokens */

/* `rows` replies in one batch each step. */
static void decode(wane_model *model, int rows, float temperature, int top_k) {
    wane_scheduler_options options;
    wane_scheduler *scheduler = NULL;
    wane_ticket *ticket[ROWS] = {0};
    wane_error error = {0};
    wane_scheduler_options_init(&options);
    options.max_batch_requests = ROWS;
    options.window_ms = rows > 1 ? 5000 : 0; /* all of them in one batch */
    int rc = wane_scheduler_new(model, &options, &scheduler, &error);
    CHECK(rc == WANE_OK, "%s", error.text);
    if (rc != WANE_OK) return;
    for (int row = 0; row < rows; row++) {
        const int32_t prompt[3] = {1, 100 + row, 7 * row + 2000};
        wane_generation g;
        wane_generation_init(&g);
        g.sampling.temperature = temperature;
        g.sampling.top_k = top_k;
        g.sampling.top_p = 0.95f;
        g.sampling.seeded = true;
        g.sampling.seed = (uint64_t)row;
        g.ignore_end = true;
        g.max_tokens = TOKENS;
        rc = wane_scheduler_submit(scheduler, prompt, 3, &g, &ticket[row], &error);
        CHECK(rc == WANE_OK, "%s", error.text);
    }
    for (int row = 0; row < rows; row++) {
        bool ended = ticket[row] == NULL;
        while (!ended) {
            wane_event event;
            rc = wane_ticket_next(ticket[row], 120000, &event, &ended, &error);
            CHECK(rc == WANE_OK, "%s", error.text);
            if (rc != WANE_OK) break;
        }
        wane_ticket_free(ticket[row]);
    }
    wane_scheduler_free(scheduler);
}

static void test_case(const char *tokenizer, const struct head_case *c, int threads) {
    char path[96];
    wane_error error = {0};
    wane_model_options options;
    wane_model *model = NULL;
    const char *name = ggml_type_name(c->type);
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    CHECK(make_model(tokenizer, c, path), "%s", name);
    wane_model_options_init(&options);
    options.path = path;
    options.sequences = ROWS;
    options.context = 256;
    options.threads = threads;
    options.head_folder = folder;
    options.head_always = true;
    options.shadow = 1;
    int rc = wane_model_load(&options, &model, &error);
    CHECK(rc == WANE_OK, "%s: %s", name, error.text);
    if (rc == WANE_OK) {
        const wane_model_facts *facts = wane_model_get_facts(model);
        wane_head_state state;
        wane_model_get_head_state(model, &state);
        CHECK(strcmp(facts->head_type, name) == 0, "a head of %s, not %s", facts->head_type, name);
        CHECK(facts->head_tied == c->tied, "%s", name);
        CHECK(state.certified, "%s in %s: %s", name, facts->head_buffer, state.reason);
        decode(model, 1, 0, 40);
        decode(model, 1, 0.8f, 0);
        if (facts->rescoring_exact_batch) decode(model, ROWS, 0.8f, 40);
        wane_model_get_head_state(model, &state);
        int most = TOKENS * (facts->rescoring_exact_batch ? 2 + ROWS : 2);
        CHECK(state.shadow_checks >= (uint64_t)(most - 8) && state.divergences == 0,
              "%s: %llu checks, %llu divergences", name, (unsigned long long)state.shadow_checks,
              (unsigned long long)state.divergences);
        printf("%-7s %-8s %s in %-12s %3llu tokens checked, %llu divergent; batches %s\n", name,
               c->tied ? "tied" : "separate", c->scale > 0 ? "scaled" : "      ", facts->head_buffer,
               (unsigned long long)state.shadow_checks, (unsigned long long)state.divergences,
               facts->rescoring_exact_batch ? "too" : "dense");
        unlink(state.path);
    }
    wane_model_free(model);
    unlink(path);
}

int main(void) {
    const char *tokenizer = getenv("WANE_TEST_MODEL"), *threads = getenv("WANE_TEST_THREADS");
    if (tokenizer == NULL || tokenizer[0] == '\0') {
        printf("WANE_TEST_MODEL is not set: skipped\n");
        return 77;
    }
    bool all = getenv("WANE_TEST_TYPES") != NULL;
    /* A hundred megabytes a model: in memory where there is a place for that. */
    snprintf(folder, sizeof folder, "%s/wane-types-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (mkdtemp(folder) == NULL) return 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (all || cases[i].often) test_case(tokenizer, &cases[i], threads != NULL ? atoi(threads) : 0);
    rmdir(folder);
    printf("%d failures\n", failures);
    return failures > 0;
}
