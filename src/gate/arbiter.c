/* arbiter.c - one branch and a flag for each token; see arbiter.h. Owns nothing; refuses to know what a vote is. */
#include "gate/arbiter.h"

#include "gate/dtg.h"

#include <limits.h>

void wane__doubt_begin(struct wane__doubt *doubt, const wane_quality *quality, const wane_sampling *sampling,
                       double entropy, int documents) {
    float temperature = sampling->temperature;
    bool hot = quality->forced_every > 0 && temperature > quality->forced_above;
    *doubt = (struct wane__doubt){
        .on = (quality->answers > 1 || quality->doubt_votes > 0) && temperature > 0,
        .tau = wane__gate_tau(quality, entropy, documents),
        .entropy = entropy,
        .documents = documents,
        .budget = quality->answers > 1 ? quality->doubt_budget : INT_MAX, /* nothing to wake */
        .allowance = quality->doubt_allowance,
        .revival_after = quality->revival_after,
        .revival_top = quality->revival_top,
        .forced_every = hot ? quality->forced_every : 0,
        .hot_scale = hot ? 1 / (double)temperature : 1,
        .first_reject = -1,
        .woke_at = -1,
    };
}

bool wane__doubt_forced(const struct wane__doubt *doubt, int index) {
    return doubt->forced_every > 0 && (index + 1) % doubt->forced_every == 0;
}

/* A token that passed takes the usual doubt off. Where an answer would fork is forgotten with the last of it. */
static void settle(struct wane__doubt *doubt) {
    doubt->level -= doubt->allowance;
    if (doubt->level > 0 || doubt->allowance == 0) return;
    doubt->level = 0;
    doubt->first_reject = -1;
}

void wane__doubt_judge(struct wane__doubt *doubt, const struct wane__gate *gate,
                       const struct wane__gate_view *view, int index, struct wane__verdict *verdict) {
    if (doubt->allowance < 0) doubt->allowance = gate->made.allowance;
    *verdict = (struct wane__verdict){.judged = true, .tau = doubt->tau, .view = *view};
    verdict->forced = wane__doubt_forced(doubt, index);
    verdict->revival = doubt->revival_after > 0 && index >= doubt->revival_after &&
                       view->share[0] < (double)doubt->revival_top;
    if (!verdict->forced && !verdict->revival)
        verdict->lut = wane__gate_lut_find(&gate->lut, view->pattern, &verdict->odds);
    if (!verdict->lut) verdict->odds = wane__gate_run(&gate->net, view->pattern);
    verdict->reject = !(verdict->odds >= doubt->tau);
    if (!verdict->reject) {
        if (!doubt->wakes) settle(doubt);
        return;
    }
    verdict->reason = verdict->forced    ? WANE_WAKE_FORCED
                      : verdict->revival ? WANE_WAKE_REVIVAL
                                         : WANE_WAKE_DOUBT;
    doubt->rejects++;
    if (doubt->wakes) return;
    if (!(doubt->level > 0)) doubt->first_reject = index;
    doubt->level += 1 - doubt->allowance;
    if (!(doubt->level > (float)doubt->budget)) return;
    doubt->wakes = verdict->woke = true;
    doubt->woke_at = index;
    doubt->woke_by = verdict->reason;
}
