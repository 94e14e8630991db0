/* certified.h - the engine's head, certified: what certified.c puts in the place of engine_dense(). */
#ifndef CERTIFIED_H
#define CERTIFIED_H

#include "engine.h"

#include <wane.h>

struct certified {
    const struct engine *engine;
    wane_head *head; /* NULL: off, and the engine's own head answers */
    float *logits;   /* V, for the engine's own head                 */
    wane_error error;
    unsigned answers, dense, checks, differ;
};

/* `hidden` (rows x D) are hidden rows of ordinary use; the sketch is kept in the file `path`. Never fails: off at worst. */
void certified_open(struct certified *c, const struct engine *engine, const char *path, const float *hidden,
                    int rows);
/* As engine_dense(). */
void certified_best(struct certified *c, const float *hidden, struct candidate *best, int count);
void certified_close(struct certified *c);

#endif
