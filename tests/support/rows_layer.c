/*
 * rows_layer.c - what wane's own layer makes of rows of logits that another engine computed: `rows_layer FILE [GATE|-] [PROFILE|-] [NAME=VALUE…]`.
 *
 * FILE holds, as little-endian 32-bit numbers: the vocabulary's size, the tokens of the prompt, the rows, the token that ends a turn; the prompt; then
 * each row's logits: row n is the one that token n of the reply is drawn from. GATE and PROFILE may be of any model: they are made this one's.
 * NAMEs: temperature, top_k, top_p, min_p, seed; mode, fuse, fallback, governor, doubt_votes, answers, rules; max_tokens (else as many as there are rows).
 *
 * Prints each token's verdict as a line of JSON, then the tokens of the reply, why it ended, and what its reader got then.
 */
#include "core/error.h"
#include "core/memory.h"
#include "engine/engine.h"
#include "gate/gate.h"
#include "model.h"
#include "origin.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 4096 };

struct rows_engine {
    struct wane__engine base; /* first */
    int prompt, rows;
    float *logits;  /* rows × V                          */
    float *scratch; /* the current row: writable         */
    int length;     /* tokens that the sequence holds    */
};

static void fail(const char *what) {
    fprintf(stderr, "rows_layer: %s\n", what);
    exit(1);
}

static struct rows_engine *self(struct wane__engine *engine) {
    return (struct rows_engine *)(void *)engine;
}

/* ---------------------------------------------------------------- the engine */

static void rows_free(struct wane__engine *engine) {
    free(self(engine)->logits);
    free(self(engine)->scratch);
    free(self(engine));
}

static int rows_tokenize(struct wane__engine *engine, const char *text, size_t size, unsigned flags,
                         wane_tokens *out, wane_error *error) {
    (void)engine, (void)text, (void)size, (void)flags, (void)out;
    return wane__fail(error, WANE_EUNSUPPORTED, "rows have no tokenizer");
}

static int rows_token_bytes(struct wane__engine *engine, int32_t token, bool control, char *buffer,
                            size_t capacity) {
    (void)engine, (void)control;
    return snprintf(buffer, capacity, "%d ", token);
}

static bool rows_is_end(struct wane__engine *engine, int32_t token) {
    return token == engine->facts.eos;
}

static int rows_decode(struct wane__engine *engine, const struct wane__item *items, int count,
                       wane_error *error) {
    struct rows_engine *r = self(engine);
    size_t width = (size_t)engine->facts.vocab_size;
    for (int i = 0; i < count; i++) {
        if (items[i].pos != r->length) return wane__fail(error, WANE_EINVAL, "rows: a gap");
        r->length++;
        int row = items[i].pos + 1 - r->prompt;
        if (!items[i].wanted) continue;
        if (row < 0 || row >= r->rows || i + 1 < count)
            return wane__fail(error, WANE_EENGINE, "rows: there is no row %d", row);
        memcpy(r->scratch, r->logits + (size_t)row * width, width * sizeof *r->scratch);
    }
    return WANE_OK;
}

static float *rows_logits(struct wane__engine *engine, int row) {
    return row == 0 ? self(engine)->scratch : NULL;
}

static const float *rows_hidden(struct wane__engine *engine, int row) {
    (void)engine, (void)row;
    return NULL;
}

static void rows_set_hook(struct wane__engine *engine, wane__hidden_fn hook, void *user) {
    (void)engine, (void)hook, (void)user;
}

static int rows_truncate(struct wane__engine *engine, int seq, int keep) {
    (void)seq;
    self(engine)->length = keep;
    return keep;
}

static int rows_copy(struct wane__engine *engine, int from, int to, int keep) {
    (void)engine, (void)from, (void)to, (void)keep;
    return 0;
}

static void rows_interrupt(struct wane__engine *engine, bool on) {
    (void)engine, (void)on;
}

static const struct wane__engine_ops rows_ops = {.name = "rows",
                                                 .free = rows_free,
                                                 .tokenize = rows_tokenize,
                                                 .token_bytes = rows_token_bytes,
                                                 .is_end = rows_is_end,
                                                 .decode = rows_decode,
                                                 .logits = rows_logits,
                                                 .hidden = rows_hidden,
                                                 .set_hook = rows_set_hook,
                                                 .truncate = rows_truncate,
                                                 .copy = rows_copy,
                                                 .interrupt = rows_interrupt};

static struct rows_engine *read_rows(const char *path, int32_t **prompt) {
    int32_t head[4];
    FILE *file = fopen(path, "rb");
    if (file == NULL || fread(head, sizeof *head, 4, file) != 4) fail("the file cannot be read");
    if (head[0] < 1 || head[1] < 1 || head[2] < 1 || head[1] + head[2] > MOST)
        fail("the file's sizes are wrong");
    struct rows_engine *r = wane__alloc_zero(1, sizeof *r);
    size_t width = (size_t)head[0], rows = (size_t)head[2];
    *prompt = malloc((size_t)head[1] * sizeof **prompt);
    r->logits = malloc(rows * width * sizeof *r->logits);
    r->scratch = malloc(width * sizeof *r->scratch);
    if (fread(*prompt, sizeof **prompt, (size_t)head[1], file) != (size_t)head[1] ||
        fread(r->logits, sizeof *r->logits, rows * width, file) != rows * width)
        fail("the file is cut");
    fclose(file);
    r->prompt = head[1];
    r->rows = head[2];
    r->base.ops = &rows_ops;
    r->base.batch = MOST;
    r->base.facts = (wane_model_facts){.name = "rows",
                                       .path = "",
                                       .architecture = "rows",
                                       .description = "rows",
                                       .engine = "rows",
                                       .template_kind = "none",
                                       .vocab_size = head[0],
                                       .embedding_size = 8,
                                       .layers = 1,
                                       .trained_context = MOST,
                                       .context = MOST,
                                       .sequences = 1,
                                       .threads = 1,
                                       .head_tensor = "",
                                       .head_type = "f32",
                                       .head_buffer = "CPU",
                                       .bos = -1,
                                       .eos = head[3],
                                       .eot = head[3]};
    return r;
}

/* ------------------------------------------------------------------ settings */

static void set(wane_generation *g, wane_quality *q, const char *word) {
    const char *value = strchr(word, '=');
    if (value++ == NULL) fail(word);
    size_t size = (size_t)(value - word);
    double number = strtod(value, NULL);
    const struct {
        const char *name;
        float *real;
        int *whole;
        bool *flag;
    } known[] = {{"temperature=", &g->sampling.temperature, NULL, NULL},
                 {"top_k=", NULL, &g->sampling.top_k, NULL},
                 {"top_p=", &g->sampling.top_p, NULL, NULL},
                 {"min_p=", &g->sampling.min_p, NULL, NULL},
                 {"mode=", NULL, &q->mode, NULL},
                 {"fuse=", NULL, &q->fuse, NULL},
                 {"fallback=", NULL, &q->fallback, NULL},
                 {"doubt_votes=", NULL, &q->doubt_votes, NULL},
                 {"answers=", NULL, &q->answers, NULL},
                 {"governor=", NULL, NULL, &q->governor},
                 {"rules=", NULL, NULL, &q->rules},
                 {"max_tokens=", NULL, &g->max_tokens, NULL}};
    if (strncmp(word, "seed=", size) == 0) {
        g->sampling.seed = strtoull(value, NULL, 10);
        return;
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strlen(known[i].name) != size || strncmp(word, known[i].name, size) != 0) continue;
        if (known[i].real != NULL) *known[i].real = (float)number;
        if (known[i].whole != NULL) *known[i].whole = (int)number;
        if (known[i].flag != NULL) *known[i].flag = number > 0;
        return;
    }
    fail(word);
}

/* A file of another model's, made this one's. */
static void give(wane_model *model, const char *gate_path, const char *profile_path) {
    struct wane__trace_origin origin;
    struct wane__gate *gate;
    wane_profile profile;
    wane_error error = {0};
    char path[] = "/tmp/wane-rows-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0 || wane__model_origin(model, &origin, &error) != WANE_OK) fail(error.text);
    close(fd);
    if (strcmp(gate_path, "-") != 0) {
        if (wane__gate_read(gate_path, &gate, &error) != WANE_OK) fail(error.text);
        memcpy(gate->made.model, origin.model, sizeof gate->made.model);
        memcpy(gate->made.tokenizer, origin.tokenizer, sizeof gate->made.tokenizer);
        if (wane__gate_write(gate, path, &error) != WANE_OK) fail(error.text);
        wane__gate_free(gate);
        if (wane_model_set_gate(model, path, &error) != WANE_OK) fail(error.text);
    }
    if (strcmp(profile_path, "-") != 0) {
        if (wane_profile_load(profile_path, &profile, &error) != WANE_OK) fail(error.text);
        memcpy(profile.model, origin.model, sizeof profile.model);
        if (wane_profile_save(&profile, path, &error) != WANE_OK ||
            wane_model_set_profile(model, path, &error) != WANE_OK)
            fail(error.text);
    }
    unlink(path);
}

/* ---------------------------------------------------------------------- run */

static bool show(void *user, const wane_gate_token *token) {
    (void)user;
    printf("{\"token\":%d,\"judged\":%s,\"reject\":%s,\"lut\":%s,\"woke\":%s,\"odds\":%.9g,\"tau\":%.9g}\n",
           token->token, token->judged ? "true" : "false", token->reject ? "true" : "false",
           token->lut ? "true" : "false", token->woke ? "true" : "false", (double)token->odds,
           (double)token->tau);
    return true;
}

static void say(wane_model *model, const int32_t *prompt, int count, const wane_generation *g) {
    static const char *const finishes[] = {"none", "end", "stop", "length", "context", "fuse"};
    wane_session *session;
    wane_event event;
    wane_error error = {0};
    json_t *tokens = json_array();
    if (wane_session_new(model, &session, &error) != WANE_OK ||
        wane_session_start(session, prompt, (size_t)count, g, &error) != WANE_OK)
        fail(error.text);
    int status;
    while ((status = wane_session_next(session, &event, &error)) == WANE_OK && event.kind == WANE_EVENT_TEXT)
        json_array_append_new(tokens, json_integer(event.token));
    if (status != WANE_OK) fail(error.text);
    json_t *all = json_pack("{s:o, s:s, s:o}", "tokens", tokens, "finish", finishes[event.finish], "text",
                            json_stringn(event.text, event.text_size));
    char *text = json_dumps(all, JSON_COMPACT);
    puts(text);
    free(text);
    json_decref(all);
    wane_session_free(session);
}

int main(int argc, char **argv) {
    wane_model *model = NULL;
    wane_error error = {0};
    wane_generation g;
    wane_quality q;
    wane_gate_explanation end;
    int32_t *prompt;
    if (argc < 4) fail("usage: rows_layer FILE GATE|- PROFILE|- [NAME=VALUE...]");
    struct rows_engine *rows = read_rows(argv[1], &prompt);
    int count = rows->prompt;
    wane_generation_init(&g);
    wane_quality_init(&q);
    g.sampling.seeded = true;
    g.max_tokens = rows->rows;
    g.no_draft = g.no_memo = true;
    g.quality = &q;
    for (int i = 4; i < argc; i++) set(&g, &q, argv[i]);
    if (wane__model_wrap(&rows->base, NULL, NULL, &model, &error) != WANE_OK) fail(error.text);
    give(model, argv[2], argv[3]);
    if (strcmp(argv[2], "-") != 0 && q.mode == WANE_MODE_WANE &&
        wane_gate_explain(model, prompt, (size_t)count, &g, show, NULL, &end, &error) != WANE_OK)
        fail(error.text);
    say(model, prompt, count, &g);
    wane_model_free(model);
    free(prompt);
    return 0;
}
