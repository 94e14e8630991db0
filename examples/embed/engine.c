/*
 * engine.c - the small engine: see engine.h. One layer of attention and a feed-forward in floats, then a norm whose gains
 * fall off, because hidden rows of real models lie in few directions too.
 */
#define _POSIX_C_SOURCE 200809L
#include "engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LANES = 16 };

static uint64_t next(uint64_t *seed) {
    uint64_t z = *seed += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Nearly normal, deviation 1: four uniform numbers in one. */
static float normal(uint64_t *seed) {
    uint64_t z = next(seed);
    unsigned sum = (unsigned)(z & 65535) + (unsigned)(z >> 16 & 65535) + (unsigned)(z >> 32 & 65535) +
                   (unsigned)(z >> 48);
    return ((float)sum - 131070) / 37837;
}

static float falling(int j) {
    return 1 / sqrtf(1 + (float)j / 8);
}

int engine_new(struct engine *engine, uint64_t seed) {
    *engine = (struct engine){.seed = seed};
    engine->head = malloc((size_t)V * D);
    engine->scale = malloc(V * sizeof(float));
    engine->body = malloc((size_t)6 * D * D * sizeof(float));
    engine->keys = malloc((size_t)POSITIONS * D * sizeof(float));
    engine->values = malloc((size_t)POSITIONS * D * sizeof(float));
    if (engine->head == NULL || engine->scale == NULL || engine->body == NULL || engine->keys == NULL ||
        engine->values == NULL) {
        engine_free(engine);
        return -1;
    }
    float shape[D];
    for (int j = 0; j < D; j++) shape[j] = 32 * falling(j);
    for (int i = 0; i < V; i++) {
        for (int j = 0; j < D; j++)
            engine->head[(size_t)i * D + (size_t)j] = (int8_t)lrintf(normal(&seed) * shape[j]);
        engine->scale[i] = (1 + normal(&seed) / 16) / 128;
    }
    for (size_t i = 0; i < (size_t)6 * D * D; i++)
        engine->body[i] = normal(&seed) * 0.0442f; /* 1 / sqrt(D) */
    return 0;
}

void engine_free(struct engine *engine) {
    free(engine->head);
    free(engine->scale);
    free(engine->body);
    free(engine->keys);
    free(engine->values);
    *engine = (struct engine){.head = NULL};
}

/* ---------------------------------------------------------------- the body */

static float sum_of(const float *sum) {
    float total = 0;
    for (int k = 0; k < LANES; k++) total += sum[k];
    return total;
}

static float dot(const float *a, const float *b) {
    float sum[LANES] = {0};
    for (int j = 0; j < D; j += LANES)
        for (int k = 0; k < LANES; k++) sum[k] += a[j + k] * b[j + k];
    return sum_of(sum);
}

static void times(const struct engine *engine, int matrix, const float *x, float *out) {
    const float *w = engine->body + (size_t)matrix * D * D;
    for (int i = 0; i < D; i++) out[i] = dot(w + (size_t)i * D, x);
}

static void normed(const float *x, float *out) {
    float length = sqrtf(dot(x, x) / D + 1e-6f);
    for (int j = 0; j < D; j++) out[j] = x[j] / length;
}

static void attend(struct engine *engine, const float *in, float *out) {
    int here = engine->position % POSITIONS,
        count = engine->position < POSITIONS ? engine->position + 1 : POSITIONS;
    float query[D], mixed[D] = {0}, weight[POSITIONS], sum = 0;
    times(engine, 0, in, query);
    times(engine, 1, in, engine->keys + (size_t)here * D);
    times(engine, 2, in, engine->values + (size_t)here * D);
    for (int p = 0; p < count; p++) sum += weight[p] = expf(dot(query, engine->keys + (size_t)p * D) / 64);
    for (int p = 0; p < count; p++)
        for (int j = 0; j < D; j++) mixed[j] += weight[p] / sum * engine->values[(size_t)p * D + (size_t)j];
    times(engine, 3, mixed, out);
    engine->position++;
}

void engine_step(struct engine *engine, int token, float *hidden) {
    uint64_t seed = (uint64_t)token + 1;
    float x[D], in[D], part[D], inner[D];
    for (int j = 0; j < D; j++) x[j] = normal(&seed); /* the token's embedding */
    normed(x, in);
    attend(engine, in, part);
    for (int j = 0; j < D; j++) x[j] += 2 * part[j];
    normed(x, in);
    times(engine, 4, in, inner);
    for (int j = 0; j < D; j++) inner[j] = inner[j] > 0 ? inner[j] : 0;
    times(engine, 5, inner, part);
    for (int j = 0; j < D; j++) x[j] += part[j];
    normed(x, hidden);
    for (int j = 0; j < D; j++) hidden[j] *= falling(j);
}

/* ---------------------------------------------------------------- the head */

float engine_logit(const struct engine *engine, const float *hidden, int token) {
    const int8_t *row = engine->head + (size_t)token * D;
    float sum[LANES] = {0};
    for (int j = 0; j < D; j += LANES)
        for (int k = 0; k < LANES; k++) sum[k] += hidden[j + k] * (float)row[j + k];
    return sum_of(sum) * engine->scale[token];
}

void engine_dense(const struct engine *engine, const float *hidden, float *logits, struct candidate *best,
                  int count) {
    int held = 0;
    for (int i = 0; i < V; i++) {
        logits[i] = engine_logit(engine, hidden, i);
        if (held == count && logits[i] <= best[held - 1].logit) continue;
        int at = held < count ? held++ : held - 1;
        for (; at > 0 && best[at - 1].logit < logits[i]; at--) best[at] = best[at - 1];
        best[at] = (struct candidate){i, logits[i]};
    }
}

int engine_draw(struct engine *engine, const struct candidate *best, int count) {
    double sum = 0, at = (double)(next(&engine->seed) >> 11) * 0x1p-53;
    for (int i = 0; i < count; i++) sum += exp((double)best[i].logit - (double)best[0].logit);
    at *= sum;
    for (int i = 0; i < count; i++)
        if ((at -= exp((double)best[i].logit - (double)best[0].logit)) < 0) return best[i].token;
    return best[0].token;
}

double engine_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}
