/*
 * gate_alone.h - what the handles of wane/parts.h hold of a gate, and a row's look as a reply takes it, with or without a model.
 */
#ifndef WANE_GATE_ALONE_H
#define WANE_GATE_ALONE_H

#include "gate/arbiter.h"
#include "gate/gate.h"
#include "sample/sample.h"

struct wane_gate {
    struct wane__gate *gate;
};

struct wane_doubt {
    struct wane__doubt doubt;
};

/*
 * Look at the row that was drawn from last. A few candidates mostly tell the pattern: what the others can add to the sum moves no
 * gap into another bin; where it could, more are asked for. `scale`: the temperature's inverse. False: the row holds nothing to look at.
 */
bool wane__gate_look_at_row(struct wane__sampler *sampler, struct wane__source *source, double scale,
                            struct wane__gate_view *view);
/* A verdict in public words; what is not the verdict's stays as it is. */
void wane__verdict_tell(const struct wane__verdict *verdict, wane_gate_token *token);

#endif
