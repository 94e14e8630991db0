/* script_attention.h - the scripted engine's probe: what of attention it shows, and to whom. Shared by script.c and script_attention.c. */
#ifndef WANE_ENGINE_SCRIPT_ATTENTION_H
#define WANE_ENGINE_SCRIPT_ATTENTION_H

#include "engine/engine.h"

struct wane__script_shown {
    struct wane__script_attention how;
    struct wane__probe probe; /* layer_count 0: none */
    int window[32];           /* of each layer, as layer_facts says it */
    int d;
    bool recurrent;
    float *rows[2];
};

/* Zeros in `how` become what they stand for. False: no memory. */
bool wane__script_shown_open(struct wane__script_shown *shown, const struct wane__script *script, int batch,
                             int d);
void wane__script_shown_close(struct wane__script_shown *shown);
int wane__script_shown_set(struct wane__script_shown *shown, const struct wane__probe *probe,
                           wane_error *error);
void wane__script_shown_facts(const struct wane__script_shown *shown, int layer,
                              struct wane__layer_facts *facts);
void wane__script_shown_batch(struct wane__script_shown *shown, const struct wane__item *items, int count);
static inline void wane__script_shown_moved(struct wane__script_shown *shown, int seq, int from, int keep) {
    if (shown->probe.layer_count > 0) shown->probe.calls->moved(shown->probe.user, seq, from, keep);
}

#endif
