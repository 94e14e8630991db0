/*
 * probe.c - what a probe costs: kernels by themselves, or replies of a model with a layer probed against the same without, by turns.
 * By hand:
 *
 *     build/tests/bench_probe                                              kernels: dot products, moments
 *     build/tests/bench_probe MODEL [LAYER [THREADS [PROMPT [REPLIES]]]]    a prompt of so many tokens; layer -1: the middle one
 *     BENCH_CONSISTENCY=1, BENCH_DENSE=1                                    block outputs as well; the dense head
 */
#include "core/clock.h"
#include "core/rng.h"
#include "governor/keys.h"
#include "model.h"
#include "model_probe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 200, TOKENS = 48 };

/* ----------------------------------------------------------------- kernels */

static void kernels(int heads, int key_heads, int size, int count) {
    struct wane__keys ring;
    float *row = malloc((size_t)(heads * size) * sizeof *row);
    int16_t *units = malloc((size_t)(heads * size) * sizeof *units);
    double kurtosis = 0, spread = 0, sum = 0;
    if (row == NULL || units == NULL || !wane__keys_open(&ring, key_heads, size, count)) exit(1);
    double began = wane__now();
    for (int p = 0; p < count; p++) {
        for (int i = 0; i < key_heads * size; i++)
            row[i] = (float)wane__random_unit(1, (uint64_t)(p * key_heads * size + i)) - 0.4f;
        wane__keys_put(&ring, p, row);
    }
    double filled = wane__now() - began;
    for (int i = 0; i < heads * size; i++) row[i] = (float)wane__random_unit(2, (uint64_t)i) - 0.4f;
    wane__keys_units(row, heads, size, units);
    began = wane__now();
    int rounds = 0;
    for (; wane__now() - began < 0.5; rounds++) {
        wane__keys_look(&ring, units, heads, 4, count - 1, &kurtosis, &spread);
        sum += kurtosis;
    }
    double each = (wane__now() - began) / rounds;
    printf(
        "%2d queries, %d keys of %3d, %5d tokens: %7.1f us a look (%.2f ns a cosine), %.2f us a key with its "
        "noise%s\n",
        heads, key_heads, size, count, 1e6 * each, 1e9 * each / heads / (count - 4), 1e6 * filled / count,
        isnan(sum) ? "!" : "");
    wane__keys_close(&ring);
    free(row);
    free(units);
}

/* ----------------------------------------------------------------- replies */

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct bench {
    wane_model *model;
    wane_tokens prompt;
    wane_generation g;
    wane_error error;
};

/* Milliseconds a token of one reply, the first one left out; each row's signals are asked for, as the governor's stage does. */
static double reply(struct bench *b, double *kurtosis) {
    wane_session *session = NULL;
    wane_event event;
    double began = 0;
    int count = 0;
    if (wane_session_new(b->model, &session, &b->error) != WANE_OK ||
        wane_session_start(session, b->prompt.id, b->prompt.count, &b->g, &b->error) != WANE_OK)
        return NAN;
    while (wane_session_next(session, &event, &b->error) == WANE_OK && event.kind == WANE_EVENT_TEXT) {
        wane_signals s = {0};
        if (count++ == 0) began = wane__now();
        if (b->model->rows.probe != NULL) wane__probe_signals(b->model->rows.probe, 0, 0, &s);
        *kurtosis += (double)s.kurtosis;
    }
    double ms = 1e3 * (wane__now() - began) / (count - 1);
    wane_session_free(session);
    return ms;
}

static int open_bench(struct bench *b, const char *path, int threads, int prompt) {
    static const char text[] = "Tell me about the tides, and why there are two a day. ";
    wane_model_options options;
    wane_model_options_init(&options);
    options.path = path;
    options.threads = threads;
    options.draft = WANE_DRAFT_OFF;
    if (getenv("BENCH_DENSE") != NULL) options.head = WANE_HEAD_DENSE;
    wane_generation_init(&b->g);
    b->g.sampling.seeded = b->g.ignore_end = true;
    b->g.max_tokens = TOKENS;
    int status = wane_model_load(&options, &b->model, &b->error);
    for (unsigned flags = WANE_TOKENIZE_SPECIAL; status == WANE_OK && (int)b->prompt.count < prompt;
         flags = 0)
        status = wane_tokenize(b->model, text, sizeof text - 1, flags, &b->prompt, &b->error);
    if (status == WANE_OK) b->prompt.count = (size_t)prompt;
    return status;
}

static int with_model(const char *path, int layer, int threads, int prompt, int replies) {
    static double ms[2][MOST], gap[MOST];
    struct bench b = {0};
    double kurtosis = 0, seconds = 0;
    wane_probe_state state = {0};
    int status = open_bench(&b, path, threads, prompt);
    if (status == WANE_OK && layer < 0) layer = wane_model_layers(b.model) / 2;
    for (int i = 0; i < 2 * replies && status == WANE_OK; i++) {
        int with = (i + i / 2) % 2; /* without, with, with, without, … */
        struct wane__probe_options o = {.layers = &layer,
                                        .layer_count = with,
                                        .consistency = getenv("BENCH_CONSISTENCY") != NULL};
        status = wane__model_probe_set(b.model, &o, &b.error);
        b.g.sampling.seed = (uint64_t)(i / 2);
        if (status == WANE_OK) ms[with][i / 2] = reply(&b, &kurtosis);
        wane_model_get_probe_state(b.model, &state);
        seconds += state.seconds;
    }
    if (status != WANE_OK) {
        fprintf(stderr, "%s\n", b.error.text);
        return 1;
    }
    for (int i = 0; i < replies; i++) gap[i] = ms[1][i] / ms[0][i] - 1;
    for (int with = 0; with < 2; with++) qsort(ms[with], (size_t)replies, sizeof **ms, by_size);
    qsort(gap, (size_t)replies, sizeof *gap, by_size);
    printf(
        "layer %d, %d tokens and %d more: ms a token without %.4f, with %.4f; pairwise %+.2f %% (quartiles "
        "%+.2f, %+.2f)\n",
        layer, prompt, TOKENS, ms[0][replies / 2], ms[1][replies / 2], 100 * gap[replies / 2],
        100 * gap[replies / 4], 100 * gap[3 * replies / 4]);
    printf("keys and signals themselves, prompt included: %.1f us a token decoded; %zu KiB; mean kurtosis "
           "%.2f\n",
           1e6 * seconds / replies / (prompt + TOKENS), (size_t)state.bytes / 1024,
           kurtosis / replies / TOKENS);
    wane_tokens_free(&b.prompt);
    wane_model_free(b.model);
    return 0;
}

static int number(int argc, char **argv, int at, int otherwise) {
    return argc > at ? atoi(argv[at]) : otherwise;
}

int main(int argc, char **argv) {
    static const int counts[] = {128, 1024, 4096};
    if (argc > 1) {
        int replies = number(argc, argv, 5, 30);
        return with_model(argv[1], number(argc, argv, 2, -1), number(argc, argv, 3, 0),
                          number(argc, argv, 4, 60), replies < 1 || replies > MOST ? MOST : replies);
    }
    printf("kernels: %s\n", wane__cosine_kernels()->name);
    for (int c = 0; c < 3; c++) {
        kernels(9, 3, 64, counts[c]);
        kernels(14, 2, 64, counts[c]);
        kernels(4, 1, 256, counts[c]);
        kernels(32, 8, 128, counts[c]);
    }
    return 0;
}
