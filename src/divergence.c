/*
 * divergence.c - owns the counts of divergences and the switch that they throw. Refuses to decide what a divergence is: that is for
 * whoever has both results.
 */
#include "divergence.h"

#include "core/count.h"
#include "core/error.h"
#include "model.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const names[WANE_WATCHED] = {"head", "table", "draft", "memo"};

const char *wane_watched_name(int watched) {
    return watched >= 0 && watched < WANE_WATCHED ? names[watched] : NULL;
}

void wane__divergences_init(struct wane__divergence *all) {
    for (int i = 0; i < WANE_WATCHED; i++) {
        memset(&all[i], 0, sizeof all[i]);
        all[i].name = names[i];
        atomic_init(&all[i].limit, WANE__DIVERGENCES_MOST);
        pthread_mutex_init(&all[i].lock, NULL);
    }
}

void wane__divergences_close(struct wane__divergence *all) {
    for (int i = 0; i < WANE_WATCHED; i++) pthread_mutex_destroy(&all[i].lock);
}

void wane__divergence_same(struct wane__divergence *d) {
    wane__count(&d->checks);
}

bool wane__divergence_found(struct wane__divergence *d, struct wane__log *log, const char *format, ...) {
    char what[sizeof d->last];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    wane__log(log, WANE_LOG_ERROR, "%s: divergence: %s", d->name, what);
    pthread_mutex_lock(&d->lock);
    memcpy(d->last, what, sizeof what);
    unsigned since = atomic_load(&d->since) + 1, limit = atomic_load(&d->limit);
    bool off = limit > 0 && since >= limit && !atomic_load(&d->off);
    atomic_store(&d->since, since);
    wane__count(&d->checks);
    wane__count(&d->count);
    if (off) atomic_store_explicit(&d->off, true, memory_order_release);
    pthread_mutex_unlock(&d->lock);
    if (off)
        wane__log(log, WANE_LOG_ERROR,
                  "%s: switched off: divergences since it was armed: %u; the plain path goes on without it",
                  d->name, since);
    return off;
}

void wane__divergence_arm(struct wane__divergence *d) {
    pthread_mutex_lock(&d->lock);
    atomic_store(&d->since, 0);
    atomic_store_explicit(&d->off, false, memory_order_release);
    d->last[0] = '\0';
    pthread_mutex_unlock(&d->lock);
}

void wane__divergence_read(struct wane__divergence *d, wane_divergence_state *state) {
    pthread_mutex_lock(&d->lock);
    *state = (wane_divergence_state){.off = atomic_load(&d->off),
                                     .checks = atomic_load(&d->checks),
                                     .divergences = atomic_load(&d->count),
                                     .since = atomic_load(&d->since),
                                     .limit = atomic_load(&d->limit)};
    memcpy(state->last, d->last, sizeof state->last);
    pthread_mutex_unlock(&d->lock);
}

/* ------------------------------------------------------------------ a model's */

int wane_model_set_divergence_limit(wane_model *model, unsigned limit, wane_error *error) {
    wane__clear(error);
    if (limit > WANE_DIVERGENCES_LIMIT_MOST)
        return wane__fail(error, WANE_EINVAL,
                          "The limit of divergences is %u; it must be 0 (nothing is switched off) to %d.",
                          limit, WANE_DIVERGENCES_LIMIT_MOST);
    for (int i = 0; i < WANE_WATCHED; i++) atomic_store(&model->rows.watch[i].limit, limit);
    return WANE_OK;
}

void wane_model_get_divergences(wane_model *model, int watched, wane_divergence_state *state) {
    *state = (wane_divergence_state){0};
    if (watched < 0 || watched >= WANE_WATCHED) return;
    if (watched ==
        WANE_WATCHED_TABLE) { /* another table than the one that diverged is armed by being there */
        wane_table_state table;
        wane_model_get_table_state(model, &table);
    }
    wane__divergence_read(&model->rows.watch[watched], state);
}

int wane_model_arm(wane_model *model, int watched, wane_error *error) {
    wane__clear(error);
    if (watched < 0 || watched >= WANE_WATCHED)
        return wane__fail(error, WANE_EINVAL,
                          "Nothing that is watched has the number %d; it must be 0 to %d.", watched,
                          WANE_WATCHED - 1);
    struct wane__divergence *d = &model->rows.watch[watched];
    bool was = wane__divergence_is_off(d);
    wane__divergence_arm(d);
    if (was) wane__log(&model->log, WANE_LOG_INFO, "%s: armed again, on request", d->name);
    return WANE_OK;
}
