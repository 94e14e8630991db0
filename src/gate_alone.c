/*
 * gate_alone.c - the public handle of a gate's file, without a model that it belongs to: what it says of itself, single looks, and one
 * reply's doubt for whoever has an engine of one's own. Refuses to judge where the candidates leave the answer open.
 */
#include "gate_alone.h"
#include "core/error.h"
#include "core/memory.h"
#include "gate/dtg.h"

#include <math.h>
#include <string.h>

_Static_assert(sizeof(wane_candidate) == sizeof(struct wane__candidate), "one layout");

const char *wane_wake_name(int wake) {
    static const char *const names[WANE_WAKES] = {"none", "doubt", "revival", "forced", "always", "warm_up"};
    return wake >= 0 && wake < WANE_WAKES ? names[wake] : "?";
}

/* -------------------------------------------------------------------- file */

int wane_gate_open(const char *path, wane_gate **gate, wane_error *error) {
    wane__clear(error);
    *gate = NULL;
    if (path == NULL || path[0] == '\0') return wane__fail(error, WANE_EINVAL, "No gate was named.");
    wane_gate *made = wane__alloc_zero(1, sizeof *made);
    if (made == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a gate.");
    int status = wane__gate_read(path, &made->gate, error);
    if (status != WANE_OK) {
        wane__free(made);
        return status;
    }
    *gate = made;
    return WANE_OK;
}

void wane_gate_free(wane_gate *gate) {
    if (gate == NULL) return;
    wane__gate_free(gate->gate);
    wane__free(gate);
}

static void describe(const struct wane__gate *gate, wane_gate_facts *facts) {
    const struct wane__gate_made *m = &gate->made;
    *facts = (wane_gate_facts){.vocab_size = m->vocab_size,
                               .patterns = gate->lut.count,
                               .seed = m->seed,
                               .votes = m->votes,
                               .positions = m->positions,
                               .kept = m->kept,
                               .tokens = m->tokens,
                               .auc = m->auc,
                               .ece = m->ece,
                               .coverage = m->coverage,
                               .allowance = m->allowance};
    memcpy(facts->model, m->model, sizeof facts->model);
    memcpy(facts->tokenizer, m->tokenizer, sizeof facts->tokenizer);
    memcpy(facts->note, m->note, sizeof facts->note);
}

void wane_gate_describe(const wane_gate *gate, wane_gate_facts *facts) {
    describe(gate->gate, facts);
}

int wane_gate_get_facts(const char *path, wane_gate_facts *facts, wane_error *error) {
    wane_gate *gate = NULL;
    *facts = (wane_gate_facts){0};
    int status = wane_gate_open(path, &gate, error);
    if (status != WANE_OK || gate == NULL) return status;
    wane_gate_describe(gate, facts);
    uint8_t *bytes = NULL;
    size_t size = 0;
    status = wane__gate_save(gate->gate, &bytes, &size, error);
    facts->bytes = size;
    wane__free(bytes);
    wane_gate_free(gate);
    return status;
}

/* -------------------------------------------------------------------- looks */

/* Candidates to ask for, and when these did not tell; a draw has mostly asked for as many. */
enum { FEW = 8, MORE = 24 };

bool wane__gate_look_at_row(struct wane__sampler *sampler, struct wane__source *source, double scale,
                            struct wane__gate_view *view) {
    struct wane__candidate list[WANE__GATE_OVER];
    for (int ask = FEW;; ask = ask < MORE ? MORE : WANE__GATE_OVER) {
        int found = 0;
        int status = wane__sampler_best_drawn(sampler, source, ask, list, &found, NULL);
        if (status != WANE_OK || found == 0) return false;
        if (wane__gate_look(list, found, found < ask, scale, view)) return true;
    }
}

static bool look(const wane_candidate *best, int count, bool all, double scale,
                 struct wane__gate_view *view) {
    return best != NULL && count > 0 &&
           wane__gate_look((const struct wane__candidate *)(const void *)best, count, all, scale, view);
}

bool wane_gate_odds(const wane_gate *gate, const wane_candidate *best, int count, bool all, float temperature,
                    float *odds, bool *seen) {
    struct wane__gate_view view;
    if (!(temperature > 0) || !look(best, count, all, 1 / (double)temperature, &view)) return false;
    bool found = wane__gate_lut_find(&gate->gate->lut, view.pattern, odds);
    if (!found) *odds = wane__gate_run(&gate->gate->net, view.pattern);
    if (seen != NULL) *seen = found;
    return true;
}

int wane_gate_look_at_prompt(const wane_quality *quality, const int32_t *tokens, size_t count,
                             const char *text, size_t text_size, wane_gate_prompt *prompt,
                             wane_error *error) {
    wane__clear(error);
    *prompt = (wane_gate_prompt){0};
    int status = wane_quality_check(quality, error);
    if (status == WANE_OK) status = wane__gate_entropy(tokens, count, &prompt->entropy, error);
    if (status != WANE_OK) return status;
    if (text != NULL && text_size > 0) prompt->documents = wane__gate_documents(text, text_size);
    prompt->tau = wane__gate_tau(quality, prompt->entropy, prompt->documents);
    return WANE_OK;
}

/* -------------------------------------------------------------------- doubt */

int wane_doubt_new(const wane_quality *quality, const wane_sampling *sampling, const wane_gate_prompt *prompt,
                   wane_doubt **doubt, wane_error *error) {
    wane__clear(error);
    *doubt = NULL;
    int status = wane_quality_check(quality, error);
    if (status == WANE_OK) status = wane__sampling_check(sampling, INT32_MAX, error);
    if (status != WANE_OK) return status;
    wane_doubt *made = wane__alloc_zero(1, sizeof *made);
    if (made == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a reply's doubt.");
    wane__doubt_begin(&made->doubt, quality, sampling, prompt->entropy, prompt->documents);
    made->doubt.on = made->doubt.on && quality->mode == WANE_MODE_WANE;
    *doubt = made;
    return WANE_OK;
}

void wane_doubt_free(wane_doubt *doubt) {
    wane__free(doubt);
}

void wane__verdict_tell(const struct wane__verdict *v, wane_gate_token *token) {
    token->judged = v->judged;
    token->reject = v->reject;
    token->lut = v->lut;
    token->revival = v->revival;
    token->forced = v->forced;
    token->woke = v->woke;
    token->reason = (int)v->reason;
    token->odds = v->odds;
    for (int i = 0; i < WANE__GATE_BEST; i++) token->share[i] = v->view.share[i];
    for (int i = 0; i < WANE__GATE_GAPS; i++) {
        token->gap[i] = v->view.share[i] - v->view.share[i + 1];
        token->bin[i] = (int)wane__gate_bin_of(v->view.pattern, i);
    }
}

void wane_doubt_judge(wane_doubt *doubt, const wane_gate *gate, const wane_candidate *best, int count,
                      bool all, bool in_table, int index, wane_gate_token *token) {
    struct wane__doubt *d = &doubt->doubt;
    struct wane__gate_view view;
    struct wane__verdict verdict = {0};
    bool forced = wane__doubt_forced(d, index);
    wane_gate_token told = {.index = index,
                            .token = -1,
                            .tau = d->tau,
                            .table = d->on && in_table && !forced};
    if (d->on && !told.table && look(best, count, all, forced ? d->hot_scale : 1, &view)) {
        wane__doubt_judge(d, gate->gate, &view, index, &verdict);
        wane__verdict_tell(&verdict, &told);
    }
    if (token != NULL) *token = told;
}

void wane_doubt_get(const wane_doubt *doubt, int *rejects, int *first_reject, int *woke_at) {
    *rejects = doubt->doubt.rejects;
    *first_reject = doubt->doubt.first_reject;
    *woke_at = doubt->doubt.woke_at;
}
