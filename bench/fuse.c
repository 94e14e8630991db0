/*
 * fuse.c - texts that nobody should take for loops, run through the model as if it had written them: where would the fuse have ended them?
 * For bench/loops.py; by hand:
 *
 *     build/tests/bench_fuse MODEL THREADS < TEXTS     texts with a byte 0 behind each; a line of JSON for each
 *     build/tests/bench_fuse MODEL THREADS LAYER < TEXT   instead, a token a line: kurtosis, spread, entropy, margin, with tabs between,
 *                                                          for tests/vectors/governor.py
 *     build/tests/bench_fuse MODEL THREADS cost [REPLIES]      what the fuse costs: replies without it, with it, and with the entropy of
 *                                                          every row, by turns; BENCH_DENSE=1: the dense head
 *
 * "loop" and "plain" are the tokens at which each rule fires first, null for never; "stretch" is the longest stretch that repeats.
 */
#include "core/clock.h"
#include "engine/engine.h"
#include "governor/governor.h"
#include "model.h"
#include "sample/entropy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 256, WAYS = 3, REPLIES = 200, COST_TOKENS = 48 };

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

/* -------------------------------------------------------------------- what it costs */

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Milliseconds a token of one reply, the first one left out. */
static double timed_reply(wane_model *model, const wane_tokens *prompt, int way, uint64_t seed) {
    wane_generation g;
    wane_quality q;
    wane_session *session;
    wane_event event;
    wane_error error = {0};
    double began = 0;
    int count = 0;
    wane_quality_init(&q);
    q.mode = WANE_MODE_WANE;
    q.answers = 1;
    q.fuse = way == 0 ? WANE_FUSE_OFF : WANE_FUSE_LOOP;
    q.entropies = way == 2;
    wane_generation_init(&g);
    g.quality = &q;
    g.sampling.seeded = g.ignore_end = true;
    g.sampling.seed = seed;
    g.max_tokens = COST_TOKENS;
    need(wane_session_new(model, &session, &error), &error);
    need(wane_session_start(session, prompt->id, prompt->count, &g, &error), &error);
    do {
        need(wane_session_next(session, &event, &error), &error);
        if (count++ == 0) began = wane__now();
    } while (event.kind == WANE_EVENT_TEXT);
    double ms = 1e3 * (wane__now() - began) / (count - 2);
    wane_session_free(session);
    return ms;
}

static void cost(wane_model *model, int replies) {
    static const char text[] = "Tell me about the tides, and why there are two a day. ";
    static const char *const names[WAYS] = {"off", "loop", "loop, every entropy"};
    static double ms[WAYS][REPLIES], gap[REPLIES];
    wane_tokens prompt = {0};
    wane_error error = {0};
    need(wane_tokenize(model, text, sizeof text - 1, WANE_TOKENIZE_SPECIAL, &prompt, &error), &error);
    timed_reply(model, &prompt, 0, 0); /* warms up */
    for (int i = 0; i < replies; i++)
        for (int turn = 0; turn < WAYS; turn++)
            ms[(turn + i) % WAYS][i] = timed_reply(model, &prompt, (turn + i) % WAYS, (uint64_t)i);
    for (int way = WAYS - 1; way >= 0; way--) {
        for (int i = 0; i < replies; i++) gap[i] = ms[way][i] / ms[0][i] - 1;
        qsort(ms[way], (size_t)replies, sizeof **ms, by_size);
        qsort(gap, (size_t)replies, sizeof *gap, by_size);
        if (way == 0) break;
        printf("%-20s %.4f ms a token; pairwise %+.2f %% (quartiles %+.2f, %+.2f)\n", names[way],
               ms[way][replies / 2], 100 * gap[replies / 2], 100 * gap[replies / 4],
               100 * gap[3 * replies / 4]);
    }
    printf("%-20s %.4f ms a token\n", names[0], ms[0][replies / 2]);
    wane_tokens_free(&prompt);
}

int main(int argc, char **argv) {
    wane_model_options options;
    wane_model *model;
    wane_error error = {0};
    if (argc < 3) return 1;
    wane_model_options_init(&options);
    options.path = argv[1];
    options.threads = atoi(argv[2]);
    bool costs = argc > 3 && strcmp(argv[3], "cost") == 0;
    if (!costs || getenv("BENCH_DENSE") != NULL) options.head = WANE_HEAD_DENSE;
    options.draft = WANE_DRAFT_OFF;
    need(wane_model_load(&options, &model, &error), &error);
    if (costs) {
        int replies = argc > 4 ? atoi(argv[4]) : 30;
        cost(model, replies < 1 || replies > REPLIES ? REPLIES : replies);
        wane_model_free(model);
        return 0;
    }
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
