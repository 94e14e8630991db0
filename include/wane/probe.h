/*
 * wane/probe.h - looking at a model's attention: the layers that can be looked at, and what each of them says of every token of a
 * text. docs/probe.md has the formulas, what is not known when, and what it costs. Part of wane.h.
 */
#ifndef WANE_PROBE_H
#define WANE_PROBE_H

#include "../wane.h"
#include "governor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Layers that can be probed at once. */
#define WANE_PROBE_LAYERS 64

/* How many layers a model has; 0 where none of them can be probed (recurrent state). */
WANE_API int wane_model_layers(const wane_model *model);

/* What is known of a layer's attention. */
typedef struct wane_layer_facts {
    bool probed;          /* it can be                                                        */
    char reason[160];     /* why not; "" otherwise                                            */
    int heads, key_heads; /* queries, and the keys that they share                            */
    int head_size;        /* floats                                                           */
    int window; /* tokens that a query looks back, itself included; 0: all of them; -1: not known yet (long texts show it) */
} wane_layer_facts;
/* WANE_EINVAL: there is no such layer. */
WANE_API int wane_model_layer(const wane_model *model, int layer, wane_layer_facts *facts, wane_error *error);

/* One token of a text, and what the model made of the context that ends with it. Good during the call. */
typedef struct wane_probe_token {
    int index;     /* in the text, from 0                                                        */
    int32_t token; /* the text's own                                                             */
    int32_t next;  /* the text's next one; -1: it is the last                                    */
    int32_t best;  /* what the model takes to be next                                            */
    float best_share, next_share; /* their probabilities at temperature 1; NAN for no next token */
    float entropy, margin;        /* as in wane_signals                                          */
    int layer_count;
    const int *layers;           /* that were probed                                              */
    const wane_signals *signals; /* of each of them; entropy and margin are the same in all       */
} wane_probe_token;
/* False: stop. */
typedef bool (*wane_probe_fn)(void *user, const wane_probe_token *token);

/*
 * Run a text through the model (teacher forcing: each token is the text's, whatever the model would have said) with `layers`
 * probed (ascending, each once), and give each token in order. layers NULL: all that can be probed, WANE_PROBE_LAYERS at most. WANE_ECONTEXT: the text is longer than
 * the context; cut it up. WANE_EUNSUPPORTED: a layer cannot be probed; says which and why. WANE_EBUSY while a session or a
 * scheduler stands on the model. WANE_ECANCELLED: `give` said so. The model's own probe, where it has one, is there again afterwards.
 */
WANE_API int wane_probe_text(wane_model *model, const int32_t *tokens, size_t count, const int *layers,
                             int layer_count, wane_probe_fn give, void *user, wane_error *error);

/* A moment's picture of the probe that a model carries. Counters never fall while it does. */
typedef struct wane_probe_state {
    bool on;
    int layer;        /* the first one probed; -1: none                                  */
    uint64_t keys;    /* tokens whose keys were kept                                     */
    uint64_t rows;    /* signals given                                                   */
    uint64_t missing; /* asked for where keys were missing, or the engine showed no rows */
    uint64_t few;     /* asked for where there were too few keys to say anything         */
    uint64_t bytes;   /* memory                                                          */
    double seconds;   /* of work on keys and signals; the engine's stops are not in it   */
} wane_probe_state;
/* Thread-safe. */
WANE_API void wane_model_get_probe_state(wane_model *model, wane_probe_state *state);

#ifdef __cplusplus
}
#endif

#endif
