/*
 * certified.c - all that an engine needs to have its LM head certified by wane: its weights and its product, by two
 * callbacks; a question in place of the dense head; its own head whenever there is no answer; a check now and then.
 */
#include "certified.h"

#include <stdlib.h>
#include <string.h>

enum { CHECK_EVERY = 64, DIFFER_MOST = 3 }; /* answers; then the head stays off */

/* Rows as floats, for building the sketch. What the sketch gets wrong about them its bounds cover. */
static int rows(void *user, int first, int count, float *out) {
    const struct engine *engine = user;
    for (int i = first; i < first + count; i++)
        for (int j = 0; j < D; j++)
            *out++ = (float)engine->head[(size_t)i * D + (size_t)j] * engine->scale[i];
    return WANE_OK;
}

/* Exact logits of the few tokens that are left: by the very function that the dense head calls. */
static int rescore(void *user, const float *hidden, const int32_t *ids, int count, float *logits) {
    for (int i = 0; i < count; i++) logits[i] = engine_logit(user, hidden, ids[i]);
    return WANE_OK;
}

void certified_open(struct certified *c, const struct engine *engine, const char *path, const float *hidden,
                    int count) {
    *c = (struct certified){.engine = engine, .logits = malloc(V * sizeof(float))};
    wane_head_matrix matrix;
    wane_head_matrix_init(&matrix);
    matrix.vocab_size = V;
    matrix.d = D;
    matrix.rows = rows;
    matrix.rescore = rescore;
    matrix.user = (void *)engine;
    wane_head_options options;
    wane_head_options_init(&options);
    options.path = path;
    options.digest = "toy-65536x512-1"; /* a file of other weights is built again */
    options.sample = hidden;
    options.sample_rows = count;
    if (c->logits != NULL) wane_head_open(&options, &matrix, &c->head, &c->error);
}

/* The engine's own head, where wane has no answer or is to be checked. */
static void dense(struct certified *c, const float *hidden, struct candidate *best, int count) {
    engine_dense(c->engine, hidden, c->logits, best, count);
}

static void check(struct certified *c, const float *hidden, struct candidate *best, int count) {
    struct candidate own[64];
    if (count > 64) return;
    dense(c, hidden, own, count);
    c->checks++;
    if (memcmp(own, best, (size_t)count * sizeof *own) == 0) return;
    memcpy(best, own, (size_t)count * sizeof *own);
    if (++c->differ < DIFFER_MOST) return;
    wane_head_free(c->head);
    c->head = NULL;
}

void certified_best(struct certified *c, const float *hidden, struct candidate *best, int count) {
    int found = 0;
    c->answers++;
    if (c->head == NULL || wane_head_scan(c->head, hidden, 1, &c->error) != WANE_OK ||
        wane_head_best(c->head, 0, count, (wane_candidate *)best, &found, &c->error) != WANE_OK) {
        c->dense++;
        dense(c, hidden, best, count);
    } else if (c->answers % CHECK_EVERY == 0)
        check(c, hidden, best, count);
}

void certified_close(struct certified *c) {
    wane_head_free(c->head);
    free(c->logits);
}
