/*
 * model_correct.h - a model's rules and counters, and the stage of corrections in a token's way.
 *
 * The rules belong to the decoding thread; they change only while nobody stands on the model. Counters may be read from any.
 */
#ifndef WANE_MODEL_CORRECT_H
#define WANE_MODEL_CORRECT_H

#include "correct/correct.h"

#include <stdatomic.h>

struct wane__reply;

struct wane__model_correct {   /* zeroed is ready */
    struct wane__rules *rules; /* NULL: none */
    atomic_ullong tokens, changed, draws, held, powerless, failures;
    atomic_ullong part_ran[WANE__PARTS], part_changed[WANE__PARTS];
};

void wane__model_correct_free(struct wane__model_correct *correct);

/* A reply's corrections, when its context is known. Any thread: the rules are only pointed to. */
void wane__correct_begin(struct wane__reply *reply, const wane_quality *quality,
                         const wane_sampling *sampling);
/* The stage: draw from `source`, with what the reply's settings change. `did` is for wane__correct_count. */
int wane__correct_stage(struct wane__reply *reply, struct wane__source *source, struct wane__choice *choice,
                        struct wane__corrected *did, wane_error *error);
/* The token was used. */
void wane__correct_count(struct wane__reply *reply, const struct wane__corrected *did);
/* A token's text joined the reply. */
void wane__correct_see(struct wane__reply *reply, const char *bytes, size_t size);

#endif
