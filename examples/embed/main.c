/*
 * main.c - the small engine with its own head and with wane's, token by token in one run: are the answers the same, and
 * what is the gain?
 *
 *     cc -std=c17 -O3 -march=native examples/embed/{engine,certified,main}.c $(pkg-config --cflags --libs wane) -lm -o embed
 *     ./embed [SKETCH]
 *
 * Exit code 0: every answer of both heads was the same, bit for bit.
 */
#include "certified.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLE = 2000, TOKENS = 300, COUNT = 40 };

int main(int words, char **word) {
    struct engine engine;
    struct certified certified;
    float *sample = malloc((size_t)SAMPLE * D * sizeof *sample), *logits = malloc(V * sizeof *logits),
          hidden[D];
    if (engine_new(&engine, 1) != 0 || sample == NULL || logits == NULL) return 1;

    /* Hidden rows of ordinary use: whatever the engine computes for a text of its kind. */
    for (int i = 0; i < SAMPLE; i++) engine_step(&engine, i * 7919 % V, sample + (size_t)i * D);
    double begun = engine_clock();
    certified_open(&certified, &engine, words > 1 ? word[1] : "embed.sketch", sample, SAMPLE);
    if (certified.head == NULL) {
        fprintf(stderr, "embed: %s (%s)\n", certified.error.text, wane_strerror(certified.error.code));
        return 1;
    }
    printf("%d x %d weights; the sketch was ready after %.1f s\n", V, D, (engine_clock() - begun) / 1e3);

    double body = 0, own = 0, ours = 0;
    int differ = 0, token = 1;
    for (int i = 0; i < TOKENS; i++) {
        struct candidate a[COUNT], b[COUNT];
        double t0 = engine_clock();
        engine_step(&engine, token, hidden);
        double t1 = engine_clock();
        engine_dense(&engine, hidden, logits, a, COUNT);
        double t2 = engine_clock();
        certified_best(&certified, hidden, b, COUNT);
        body += t1 - t0;
        own += t2 - t1;
        ours += engine_clock() - t2;
        differ += memcmp(a, b, sizeof a) != 0;
        token = engine_draw(&engine, b, COUNT);
    }
    wane_head_work work = {.questions = 1};
    if (certified.head != NULL) wane_head_get_work(certified.head, &work);
    printf("%d tokens, the best %d of each: %d differ; checks %u, answers of the dense head %u\n", TOKENS,
           COUNT, differ, certified.checks, certified.dense);
    printf("computed exactly: %.0f of %d rows a token\n", (double)work.rescored / (double)work.questions, V);
    printf("milliseconds a token: body %.2f, its own head %.2f, certified %.2f: gain %.2f\n", body / TOKENS,
           own / TOKENS, ours / TOKENS, (body + own) / (body + ours));
    certified_close(&certified);
    engine_free(&engine);
    free(sample);
    free(logits);
    return differ != 0;
}
