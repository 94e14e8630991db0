/*
 * governor_alone.c - one reply's governor without a model: signals of plain rows, the state machine and the fuse behind public handles, and
 * what corrections make of probabilities. Refuses to guess where the numbers contradict one another.
 */
#include "governor_alone.h"
#include "core/error.h"
#include "core/memory.h"
#include "correct/correct.h"
#include "correct/vote.h"
#include "sample/entropy.h"
#include "sample/exp.h"

#include <math.h>
#include <string.h>

static const wane_signals unknown = {NAN, NAN, NAN, NAN, NAN};

/* ---------------------------------------------------------------------- rows */

int wane_row_best(const float *logits, int vocab_size, int count, wane_candidate *out, int *found,
                  double *log_sum, wane_error *error) {
    struct wane__dense_source dense;
    wane__clear(error);
    *found = 0;
    if (logits == NULL || vocab_size < 1 || count < 1)
        return wane__fail(error, WANE_EINVAL, "%d best of %d logits were asked for.", count, vocab_size);
    wane__dense_source_init(&dense, logits, vocab_size);
    struct wane__source *source = &dense.source;
    int most = count < vocab_size ? count : vocab_size;
    int status = source->best(source, most, NULL, 0, (struct wane__candidate *)(void *)out, found);
    if (status == WANE_OK && log_sum != NULL) status = source->log_sum(source, 1, NULL, 0, log_sum);
    if (status == WANE_OK && !(out[0].logit > -INFINITY && out[0].logit < INFINITY)) status = WANE_EENGINE;
    if (status != WANE_OK)
        return wane__fail(error, status, "The row of logits holds NaN, or nothing that can be drawn.");
    return WANE_OK;
}

int wane_row_signals(const float *logits, int vocab_size, wane_signals *signals, wane_error *error) {
    struct wane__dense_source dense;
    struct wane__entropy entropy;
    wane__clear(error);
    *signals = unknown;
    if (logits == NULL || vocab_size < 1)
        return wane__fail(error, WANE_EINVAL, "A row of %d logits has no signals.", vocab_size);
    wane__dense_source_init(&dense, logits, vocab_size);
    int status = wane__source_entropy(&dense.source, &entropy);
    if (status != WANE_OK)
        return wane__fail(error, status, "The row of logits holds NaN, or nothing that can be drawn.");
    signals->entropy = (float)entropy.value;
    signals->margin = (float)entropy.margin;
    return WANE_OK;
}

/* With p of what is known and r of the rest: the rest is one token after another as likely as the last, or all tokens alike. */
int wane_best_signals(const wane_candidate *best, int count, int vocab_size, double log_sum,
                      wane_signals *signals, double *low, double *high, wane_error *error) {
    enum { SLACK_PARTS = 1000000 }; /* a log-sum may come from floats */
    double known = 0, part = 0, last = 0;
    wane__clear(error);
    *signals = unknown;
    if (best == NULL || count < 2 || count > vocab_size || !isfinite(log_sum))
        return wane__fail(
            error, WANE_EINVAL,
            "%d candidates of %d tokens and a log-sum of %g have no signals; it must be 2 candidates "
            "or more and a number.",
            count, vocab_size, log_sum);
    for (int i = 0; i < count; i++) {
        if (!(best[i].logit < INFINITY) || (i > 0 && !(best[i].logit <= best[i - 1].logit)))
            return wane__fail(error, WANE_EINVAL, "The candidates are not best first at place %d.", i);
        last = exp((double)best[i].logit - log_sum);
        known += last;
        if (last > 0) part -= last * ((double)best[i].logit - log_sum);
    }
    if (!(known <= 1 + 1.0 / SLACK_PARTS * 10))
        return wane__fail(error, WANE_EINVAL,
                          "The candidates weigh %g times what the log-sum says of all tokens.", known);
    double rest = known < 1 ? 1 - known : 0, others = vocab_size - count;
    double least = rest > 0 && last > 0 ? -rest * log(last) : 0;
    double most = rest > 0 && others > 0 ? -rest * log(rest / others) : least;
    if (others <= 0 || most < least) most = least = others > 0 ? most : 0;
    signals->entropy = (float)(part + 0.5 * (least + most));
    signals->margin = best[0].logit - best[1].logit;
    if (low != NULL) *low = part + least;
    if (high != NULL) *high = part + most;
    return WANE_OK;
}

void wane_vote_closed(const double *p, int count, double *out) {
    wane__vote_closed(p, count, out);
}

float wane_dialogue_temperature(const wane_quality *quality, float temperature, int context) {
    return wane__dialogue_temperature(quality, temperature, context);
}

/* ------------------------------------------------------------------ governor */

void wane__governor_alone_begin(struct wane_governor *g, const wane_profile *profile,
                                const wane_quality *quality, float temperature) {
    *g = (struct wane_governor){.fallback = quality->fallback};
    wane__fuse_init(&g->fuse, quality);
    g->steers = profile != NULL && profile->signal != WANE_SIGNAL_NONE && quality->governor &&
                quality->mode == WANE_MODE_WANE && temperature > 0;
    if (g->steers) wane__machine_init(&g->machine, profile, quality->stability);
}

int wane_governor_new(const wane_profile *profile, const wane_quality *quality, float temperature,
                      wane_governor **governor, wane_error *error) {
    wane__clear(error);
    *governor = NULL;
    int status = wane_quality_check(quality, error);
    if (status == WANE_OK && profile != NULL) status = wane_profile_check(profile, error);
    if (status != WANE_OK) return status;
    wane_governor *made = wane__alloc_zero(1, sizeof *made);
    if (made == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a reply's governor.");
    wane__governor_alone_begin(made, profile, quality, temperature);
    *governor = made;
    return WANE_OK;
}

void wane_governor_free(wane_governor *governor) {
    wane__free(governor);
}

static void step(wane_governor *g, const wane_signals *signals) {
    struct wane__command command = wane__machine_step(&g->machine, g->taken, signals);
    wane__steering_take(&g->steering, &command, g->taken);
}

void wane_governor_see(wane_governor *g, const wane_signals *signals, wane_steer *steer) {
    wane__fuse_see(&g->fuse, signals != NULL ? (double)signals->entropy : (double)NAN);
    if (g->steers && signals != NULL) {
        step(g, signals);
    } else if (g->steers) {
        if (wane__steering_at(&g->steering, g->taken) != NULL) g->steering.command.count = 0;
        wane__machine_skip(&g->machine);
    }
    if (steer == NULL) return;
    const struct wane__command *command = g->steers ? wane__steering_at(&g->steering, g->taken) : NULL;
    *steer = (wane_steer){.steered = g->steers,
                          .state = g->steers ? g->machine.state : WANE_STATE_NORMAL,
                          .temperature = command != NULL ? command->temperature : NAN,
                          .top_p_off = command != NULL && command->top_p_off,
                          .known = g->steers && signals != NULL &&
                                   !isnan(wane__machine_value(&g->machine, signals)),
                          .wants_entropy = g->fuse.wants,
                          .spread = (float)g->fuse.spread};
}

bool wane_governor_take(wane_governor *g, int32_t token) {
    if (g->tails == 2 * WANE__TAIL) {
        memmove(g->tail, g->tail + WANE__TAIL, WANE__TAIL * sizeof *g->tail);
        g->tails = WANE__TAIL;
    }
    g->tail[g->tails++] = token;
    g->taken++;
    return wane__fuse_take(&g->fuse, g->tail, g->tails);
}

int wane_governor_fallback(const wane_governor *governor, bool begun, char out[300]) {
    _Static_assert(WANE__FALLBACK_BYTES == 300, "the room that the header names");
    return wane__fallback_text(&governor->fuse, governor->fallback, begun, out);
}
