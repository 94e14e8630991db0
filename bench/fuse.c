/*
 * fuse.c - texts that nobody should take for loops, run through the model as if it had written them: where would the fuse have ended them?
 * For bench/loops.py; by hand:
 *
 *     build/tests/bench_fuse MODEL THREADS < TEXTS     texts with a byte 0 behind each; a line of JSON for each
 *     build/tests/bench_fuse MODEL THREADS LAYER < TEXT   instead, a token a line: kurtosis, spread, entropy, margin, with tabs between,
 *                                                          for tests/vectors/governor.py
 *
 * "loop" and "plain" are the tokens at which each rule fires first, null for never; "stretch" is the longest stretch that repeats.
 */
#include "engine/engine.h"
#include "governor/governor.h"
#include "model.h"
#include "sample/entropy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 256 };

static char *read_all(size_t *size) {
    size_t room = 1 << 16;
    char *bytes = malloc(room + 1);
    for (*size = 0; bytes != NULL;) {
        size_t more = fread(bytes + *size, 1, room - *size, stdin);
        if (more == 0) break;
        *size += more;
        if (*size == room) bytes = realloc(bytes, (room *= 2) + 1);
    }
    if (bytes == NULL) exit(1);
    bytes[*size] = '\0';
    return bytes;
}

static void need(int status, const wane_error *error) {
    if (status == WANE_OK) return;
    fprintf(stderr, "%s\n", error->text);
    exit(1);
}

struct watch {
    struct wane__fuse fuse[2];
    int fired[2], stretch;
};

static void take(struct watch *w, double entropy, const int32_t *tokens, int count) {
    for (int rule = 0; rule < 2; rule++) {
        wane__fuse_see(&w->fuse[rule], entropy);
        if (wane__fuse_take(&w->fuse[rule], tokens, count) && w->fired[rule] == 0) w->fired[rule] = count;
    }
    for (int p = 1; p <= WANE__FUSE_PERIOD; p++) {
        int stretch = w->fuse[0].same[p - 1] + p;
        if (stretch >= 2 * p && stretch > w->stretch) w->stretch = stretch;
    }
}

static void put(const char *name, int at) {
    printf(at > 0 ? ", \"%s\": %d" : ", \"%s\": null", name, at);
}

/* Each token's row is that of the one before it; the first has none. */
static void walk(wane_model *model, const wane_tokens *tokens) {
    struct wane__engine *engine = model->engine;
    struct watch w = {.stretch = 0};
    wane_quality q;
    wane_error error = {0};
    wane_quality_init(&q);
    q.mode = WANE_MODE_WANE;
    for (int rule = 0; rule < 2; rule++) {
        q.fuse = rule == 0 ? WANE_FUSE_LOOP : WANE_FUSE_PLAIN;
        wane__fuse_init(&w.fuse[rule], &q);
    }
    engine->ops->truncate(engine, 0, 0);
    int count = (int)tokens->count < engine->facts.context ? (int)tokens->count : engine->facts.context;
    take(&w, NAN, tokens->id, 1);
    for (int at = 0; at < count; at += BATCH) {
        static struct wane__item items[BATCH];
        int n = count - at < BATCH ? count - at : BATCH;
        for (int i = 0; i < n; i++)
            items[i] = (struct wane__item){.token = tokens->id[at + i], .pos = at + i, .wanted = true};
        need(wane__rows_decode(&model->rows, items, n, &error), &error);
        for (int i = 0; i < n && at + i + 1 < count; i++) {
            struct wane__row row;
            struct wane__entropy entropy;
            need(wane__rows_get(&model->rows, i, &row, &error), &error);
            if (wane__source_entropy(row.source, &entropy) != WANE_OK) exit(1);
            take(&w, entropy.value, tokens->id, at + i + 2);
        }
    }
    printf("{\"tokens\": %d", count);
    put("loop", w.fired[0]);
    put("plain", w.fired[1]);
    printf(", \"stretch\": %d}\n", w.stretch);
    fflush(stdout);
}

static bool print_signals(void *user, const wane_probe_token *token) {
    const wane_signals *s = token->signals;
    (void)user;
    printf("%.6g\t%.6g\t%.6g\t%.6g\n", (double)s->kurtosis, (double)s->spread, (double)token->entropy,
           (double)token->margin);
    return true;
}

int main(int argc, char **argv) {
    wane_model_options options;
    wane_model *model;
    wane_error error = {0};
    if (argc < 3) return 1;
    wane_model_options_init(&options);
    options.path = argv[1];
    options.threads = atoi(argv[2]);
    options.head = WANE_HEAD_DENSE;
    options.draft = WANE_DRAFT_OFF;
    need(wane_model_load(&options, &model, &error), &error);
    size_t size;
    char *bytes = read_all(&size);
    for (char *text = bytes; text < bytes + size; text += strlen(text) + 1) {
        wane_tokens tokens = {0};
        int layer = argc > 3 ? atoi(argv[3]) : -1;
        need(wane_tokenize(model, text, strlen(text), WANE_TOKENIZE_SPECIAL, &tokens, &error), &error);
        if (layer >= 0)
            need(wane_probe_text(model, tokens.id, tokens.count, &layer, 1, print_signals, NULL, &error),
                 &error);
        else if (tokens.count > 0)
            walk(model, &tokens);
        wane_tokens_free(&tokens);
    }
    free(bytes);
    wane_model_free(model);
    return 0;
}
