/*
 * model_gate.h - a model and its gate: the stage behind the draw, what it counted, and the breaker.
 *
 *     request ─► admit: cooler while the breaker is out ─► begin: tau of the prompt ─► … row ─► table ─► draw ─► gate …
 *
 * Whoever runs votes reads `reply->gate`: `wakes` says that the doubt budget is spent, `first_reject` where other answers would fork. It
 * sets `reply->gate.on` false for answers that are not to be judged. Nothing here knows what a vote is.
 */
#ifndef WANE_MODEL_GATE_H
#define WANE_MODEL_GATE_H

#include "gate/arbiter.h"
#include "gate/breaker.h"
#include "gate/gate.h"

#include <stdatomic.h>

struct wane__reply;

struct wane__model_gate {
    struct wane__gate *gate; /* NULL: none. Exchanged only while nothing stands on the model. */
    char *path;
    struct wane__breaker *breaker; /* NULL: none */
    float breaker_temperature;
    atomic_ullong judged, lookups, lut_hits, table_passed, revival, forced, rejects, revoted, revoted_changed;
    atomic_ullong rejects_by[WANE_WAKES], wakes[WANE_WAKES];
};

void wane__model_gate_close(struct wane__model_gate *gate);

/* The request as it is let in: `given`, or `cooler`, a copy at a lower temperature. `gate` may be NULL. Any thread. */
const wane_generation *wane__model_gate_admit(struct wane__model_gate *gate, const wane_generation *given,
                                              wane_generation *cooler);
/* For a reply whose context is its prompt: on with its tau in mode WANE where there is a gate, else off. Any thread. */
int wane__model_gate_begin(struct wane__reply *reply, const wane_generation *generation, wane_error *error);
/*
 * The stage, for a reply whose gate is on, when its token is drawn and not yet accepted: fills the step's verdict. Tokens in contexts that the table knows pass without a look, unless
 * the token is due for a forced check. A row that cannot be looked at is not judged; that is the draw's to report. A token in doubt is
 * drawn again, by the same random number, from what the quality's doubt_votes make of its distribution. Allocates nothing.
 */
int wane__model_gate_stage(struct wane__reply *reply, wane_error *error);

#endif
