/* model.h - the public model handle, seen from inside: its engine, its log, and who holds it. */
#ifndef WANE_MODEL_H
#define WANE_MODEL_H

#include "ahead.h"
#include "core/log.h"
#include "model_gate.h"
#include "model_governor.h"
#include "model_memo.h"
#include "reward.h"
#include "rows.h"

#include <stdatomic.h>

struct wane_model {
    struct wane__engine *engine;
    struct wane__rows rows; /* what decodes on the engine, and the head */
    struct wane__drafts drafts;
    struct wane__model_memo *memo; /* NULL: none */
    struct wane__model_gate gate;
    struct wane__model_governor governor;
    struct wane__reward reward;        /* of answers that are voted on; without a model: none */
    char kv_type_k[17], kv_type_v[17]; /* of the engine's cache; "" for a scripted one */
    char settings[300];                /* of the engine, those that change floats; "" for a scripted one */
    char *sketch_path;                 /* NULL: none */
    char head_reason[500];             /* why it is dense */
    struct wane__log log;
    atomic_bool taken;              /* a session or a scheduler stands on it */
    char digest[33], tokenizer[33]; /* of the file's bytes, of all tokens' bytes; "" until somebody asked */
    pthread_mutex_t digest_lock;
};

/* Wrap an engine (tests wrap the scripted one); the model owns it afterwards, also on failure. */
int wane__model_wrap(struct wane__engine *engine, wane_log_fn log, void *log_user, wane_model **model,
                     wane_error *error);

/* 1 << WANE_FEATURE_… for each that no reply has: switched off by others, or by itself after divergences. Any thread. */
unsigned wane__model_lacks(const wane_model *model);

/*
 * For who changes a model, or stands on it: WANE_EBUSY while a session, a scheduler or another change does. Given back by
 * wane__model_give.
 */
int wane__model_take(wane_model *model, wane_error *error);
static inline void wane__model_give(wane_model *model) {
    atomic_store(&model->taken, false);
}

/*
 * Give the model its head (model_head.c): open its sketch, build it first where there is none. Whatever keeps it from
 * that is logged once, and leaves the dense head; only a progress function that says stop (WANE_ECANCELLED) or
 * options out of range fail.
 */
int wane__model_head_open(wane_model *model, const wane_model_options *options, wane_error *error);

#endif
