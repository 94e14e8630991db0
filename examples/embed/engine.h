/*
 * engine.h - a small engine of one's own, to put wane_head into: a body that turns a token into a hidden row, and an LM
 * head in a format of its own, 8 bits a weight and a scale a row. Nothing here knows of wane.
 *
 * Its weights are made up from a seed, so its words mean nothing; what it asks of a head is what any engine asks.
 */
#ifndef ENGINE_H
#define ENGINE_H

#include <stdint.h>

enum {
    V = 65536,
    D = 512,
    POSITIONS = 64
}; /* tokens, the width of a hidden row, what attention looks back on */

struct engine {
    int8_t *head; /* V x D */
    float *scale; /* V     */
    float *body;  /* six D x D: query, key, value, output of attention; in and out of the feed-forward */
    float *keys, *values;
    uint64_t seed;
    int position;
};

struct candidate {
    int token;
    float logit;
};

int engine_new(struct engine *engine, uint64_t seed); /* 0, or -1 without memory */
void engine_free(struct engine *engine);
/* Decode one token behind those before it; `hidden` (D floats) is what the head gets. */
void engine_step(struct engine *engine, int token, float *hidden);
/* One logit. The dense head and wane both call this, so that both round alike. */
float engine_logit(const struct engine *engine, const float *hidden, int token);
/* The engine's own head: all V logits, and of these the `count` best, best first, the smaller token among equals. */
void engine_dense(const struct engine *engine, const float *hidden, float *logits, struct candidate *best,
                  int count);
/* A token drawn from candidates at temperature 1; the engine's own random numbers. */
int engine_draw(struct engine *engine, const struct candidate *best, int count);
double engine_clock(void); /* milliseconds */

#endif
