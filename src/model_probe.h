/*
 * model_probe.h - a model and its probe: what the attention of chosen layers says of a decoded row.
 *
 *     engine ── rows of Q and K after RoPE ──► keys: kept, normalised, one ring a sequence and layer
 *                                         └──► queries of wanted rows: kept until the next decode
 *     stage ── wane__probe_signals(row) ──► dot products, moments ──► kurtosis, spread, consistency
 *
 * Nothing is computed for a row that nobody asks for. Where keys are missing (the probe was set behind them, a session was loaded,
 * the ring is too short) a signal is NAN and counted, never an estimate.
 */
#ifndef WANE_MODEL_PROBE_H
#define WANE_MODEL_PROBE_H

#include "engine/engine.h"
#include "wane.h"

struct wane__model_probe;

struct wane__probe_options {
    const int *layers; /* ascending, each once */
    int layer_count;   /* 1 … WANE_PROBE_LAYERS */
    bool consistency;  /* block outputs as well: one more stop of the graph */
    int positions;     /* that a ring holds at least; 0: the context */
    int sequences;     /* 0 … sequences - 1 have rings; 0: all of them */
};
/* Memory that a model's rings may take at most; with less than a context of it, long contexts have no signals. */
#define WANE__PROBE_BYTES ((size_t)256 << 20)

/*
 * Make a probe on an engine and set it there, in place of any other: for somebody who holds the model, or knows that nobody stands
 * on it. WANE_EUNSUPPORTED names the layer and says why it cannot be probed.
 */
int wane__probe_open(struct wane__engine *engine, const struct wane__probe_options *options,
                     struct wane__model_probe **probe, wane_error *error);
/* Takes it off the engine if it is set there. NULL is fine. */
void wane__probe_close(struct wane__model_probe *probe);
/* Set it again after another one was. The rings are empty then. */
int wane__probe_set(struct wane__model_probe *probe, wane_error *error);

/*
 * The same for a model: model->rows.probe. Options with layer_count 0 take it away. Whoever calls holds the model (wane__model_take) or made it.
 */
struct wane_model;
int wane__model_probe_set(struct wane_model *model, const struct wane__probe_options *options,
                          wane_error *error);

/*
 * What layer number `at` of the options says of row `row` of the last decode: kurtosis, spread and consistency of `out`; entropy and
 * margin stay as they are. On the decoding thread, before the row's sequence changes. Allocates nothing. `probe` NULL: all NAN.
 */
void wane__probe_signals(struct wane__model_probe *probe, int at, int row, wane_signals *out);

void wane__probe_get_state(const struct wane__model_probe *probe, wane_probe_state *state);

#endif
