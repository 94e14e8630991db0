/* model.h - the public model handle, seen from inside: its engine, its log, and who holds it. */
#ifndef WANE_MODEL_H
#define WANE_MODEL_H

#include "core/log.h"
#include "engine/engine.h"

#include <stdatomic.h>

struct wane_model {
    struct wane__engine *engine;
    struct wane__log log;
    atomic_bool taken; /* a session or a scheduler stands on it */
    char digest[33];
    pthread_mutex_t digest_lock;
};

/* Wrap an engine (tests wrap the scripted one); the model owns it afterwards, also on failure. */
int wane__model_wrap(struct wane__engine *engine, wane_log_fn log, void *log_user, wane_model **model,
                     wane_error *error);

#endif
