/*
 * model_gate.c - the gate's stage in a token's way, and a model's gate and breaker as the public functions have them. The stage
 * stands behind the draw, because the draw has asked for most of the candidates that it looks at; it depends on the row alone.
 *
 * Owns the gate. Refuses to look at more candidates than it takes to know the pattern.
 */
#include "model_gate.h"

#include "core/clock.h"
#include "core/count.h"
#include "core/error.h"
#include "core/memory.h"
#include "gate/dtg.h"
#include "gate_alone.h"
#include "layer.h"
#include "model.h"
#include "origin.h"
#include "shipped.h"

#include <stdio.h>
#include <string.h>

enum { TOKEN_BYTES_MOST = 4096 };

/* ------------------------------------------------------------------ a reply */

static bool mode_is(const wane_generation *g, int mode) {
    return g->quality != NULL && g->quality->mode == mode;
}

const wane_generation *wane__model_gate_admit(struct wane__model_gate *gate, const wane_generation *given,
                                              wane_generation *cooler) {
    if (gate == NULL || gate->breaker == NULL ||
        (!mode_is(given, WANE_MODE_WANE) && !mode_is(given, WANE_MODE_LEGACY)))
        return given;
    if (!wane__breaker_is_out(gate->breaker, wane__now()) ||
        !(given->sampling.temperature > gate->breaker_temperature))
        return given;
    *cooler = *given;
    cooler->sampling.temperature = gate->breaker_temperature;
    return cooler;
}

/* The prompt as text, for its documents; control tokens have none. */
static int count_documents(struct wane__reply *reply, int *documents, wane_error *error) {
    struct wane__engine *engine = reply->engine;
    struct wane__buf text = {0};
    char bytes[TOKEN_BYTES_MOST];
    for (int i = 0; i < reply->prompt_count; i++) {
        int size = engine->ops->token_bytes(engine, reply->context.id[i], false, bytes, sizeof bytes);
        if (size > 0) wane__buf_append(&text, bytes, (size_t)size);
    }
    *documents = text.size > 0 ? wane__gate_documents(text.data, text.size) : 0;
    bool failed = text.failed;
    wane__buf_free(&text);
    return failed ? wane__fail(error, WANE_ENOMEM, "No memory for a prompt's text.") : WANE_OK;
}

int wane__model_gate_begin(struct wane__reply *reply, const wane_generation *generation, wane_error *error) {
    const struct wane__model_gate *gate = reply->rows->gate;
    double entropy;
    int documents = 0;
    reply->gate = (struct wane__doubt){.first_reject = -1, .woke_at = -1};
    if (gate == NULL || !mode_is(generation, WANE_MODE_WANE)) return WANE_OK;
    int status = wane__gate_entropy(reply->context.id, (size_t)reply->prompt_count, &entropy, error);
    if (status == WANE_OK) status = count_documents(reply, &documents, error);
    if (status == WANE_OK)
        wane__doubt_begin(&reply->gate, generation->quality, &generation->sampling, entropy, documents);
    /* Tau is the prompt's, and known all the same. */
    if (gate->gate == NULL || !wane__reply_has(reply, WANE_FEATURE_GATE)) reply->gate.on = false;
    return status;
}

/* ------------------------------------------------------------------ the stage */

static struct wane__source *source_of(struct wane__reply *reply) {
    return reply->row.checked ? &reply->row.dense.source : reply->row.source;
}

static void note(struct wane__model_gate *gate, const struct wane__verdict *v) {
    wane__count(&gate->judged);
    if (v->revival) wane__count(&gate->revival);
    if (v->forced) wane__count(&gate->forced);
    if (!v->revival && !v->forced) wane__count(&gate->lookups);
    if (v->lut) wane__count(&gate->lut_hits);
    if (!v->reject) return;
    wane__count(&gate->rejects);
    wane__count(&gate->rejects_by[v->reason]);
    if (!v->woke) return;
    wane__count(&gate->wakes[v->reason]);
    if (gate->breaker == NULL) return;
    wane__step_leave(); /* whoever is told may well allocate: a log line, a webhook */
    wane__breaker_wake(gate->breaker, wane__now());
    wane__step_enter();
}

/* The verdict is the row's alone, whatever was drawn, so that this is one draw from the sharper distribution, and no second chance. */
static int vote_more(struct wane__reply *reply, wane_error *error) {
    struct wane__model_gate *gate = reply->rows->gate;
    struct wane__step *step = &reply->step;
    struct wane__choice choice = {.token = -1};
    int status =
        wane__correction_draw_again(&reply->correction, reply->sampler, source_of(reply),
                                    (uint64_t)step->index, reply->quality.doubt_votes, &choice, error);
    if (status != WANE_OK) return status;
    wane__count(&gate->revoted);
    if (choice.token != step->choice.token) {
        wane__count(&gate->revoted_changed);
        step->changed = true;
        step->is_end = reply->engine->ops->is_end(reply->engine, choice.token);
    }
    step->choice = choice;
    return WANE_OK;
}

int wane__model_gate_stage(struct wane__reply *reply, wane_error *error) {
    struct wane__model_gate *gate = reply->rows->gate;
    struct wane__step *step = &reply->step;
    struct wane__gate_view view;
    bool forced = wane__doubt_forced(&reply->gate, step->index);
    if (step->slmt_used && !forced) {
        wane__count(&gate->table_passed);
        return WANE_OK;
    }
    struct wane__source *source = source_of(reply);
    if (source == NULL) return WANE_OK; /* a body without a head, for measuring */
    if (!wane__gate_look_at_row(reply->sampler, source, forced ? reply->gate.hot_scale : 1, &view))
        return WANE_OK;
    wane__doubt_judge(&reply->gate, gate->gate, &view, step->index, &step->verdict);
    note(gate, &step->verdict);
    bool again = step->verdict.reject && !step->slmt_used && reply->quality.doubt_votes > 0 &&
                 reply->correction.mode == WANE_MODE_WANE;
    return again ? vote_more(reply, error) : WANE_OK;
}

/* ------------------------------------------------------------- a model's gate */

void wane__model_gate_close(struct wane__model_gate *gate) {
    wane__gate_free(gate->gate);
    wane__free(gate->path);
    wane__breaker_free(gate->breaker);
    gate->gate = NULL;
    gate->path = NULL;
    gate->breaker = NULL;
}

static int open_gate(wane_model *model, const char *path, struct wane__gate **gate, char **kept,
                     wane_error *error) {
    struct wane__trace_origin origin;
    char found[2048];
    int status = wane__model_origin(model, &origin, error);
    if (status != WANE_OK) return status;
    if (path == NULL) {
        char file[64];
        snprintf(file, sizeof file, "gates/%s.gate", origin.model);
        if (!wane__shipped(file, found, sizeof found))
            return wane__fail(
                error, WANE_ENOENT,
                "No gate ships for this model (%s). \"wane train gate\" makes one from traces with votes.",
                origin.model);
        path = found;
    }
    status = wane__gate_read(path, gate, error);
    if (status != WANE_OK) return status;
    const struct wane__gate_made *made = &(*gate)->made;
    if (strcmp(made->model, origin.model) != 0 || strcmp(made->tokenizer, origin.tokenizer) != 0)
        status = wane__fail(
            error, WANE_EUNSUPPORTED,
            "The gate %.300s is of another model (%s; this one is %s): its odds would mean nothing.", path,
            made->model, origin.model);
    if (status == WANE_OK && (*kept = wane__copy_string(path)) == NULL)
        status = wane__fail(error, WANE_ENOMEM, "No memory for a gate.");
    if (status != WANE_OK) {
        wane__gate_free(*gate);
        *gate = NULL;
    }
    return status;
}

static void exchange(wane_model *model, struct wane__gate *gate, char *path) {
    wane__gate_free(model->gate.gate);
    wane__free(model->gate.path);
    model->gate.gate = gate;
    model->gate.path = path;
}

int wane_model_set_gate(wane_model *model, const char *path, wane_error *error) {
    struct wane__gate *gate = NULL;
    char *kept = NULL;
    int status = wane__model_take(model, error);
    if (status != WANE_OK) return status;
    status = open_gate(model, path, &gate, &kept, error);
    if (status == WANE_OK) exchange(model, gate, kept);
    wane__model_give(model);
    return status;
}

int wane_model_drop_gate(wane_model *model, wane_error *error) {
    int status = wane__model_take(model, error);
    if (status != WANE_OK) return status;
    exchange(model, NULL, NULL);
    wane__model_give(model);
    return WANE_OK;
}

int wane_model_set_breaker(wane_model *model, const wane_quality *quality, wane_breaker_fn alert, void *user,
                           wane_error *error) {
    struct wane__breaker *breaker = NULL;
    int status = wane_quality_check(quality, error);
    if (status == WANE_OK) status = wane__model_take(model, error);
    if (status != WANE_OK) return status;
    status =
        wane__breaker_new(quality->breaker_wakes, quality->breaker_seconds, alert, user, &breaker, error);
    if (status == WANE_OK) {
        wane__breaker_free(model->gate.breaker);
        model->gate.breaker = breaker;
        model->gate.breaker_temperature = quality->breaker_temperature;
    }
    wane__model_give(model);
    return status;
}

void wane_model_note_wake(wane_model *model, int wake) {
    if (wake > WANE_WAKE_NONE && wake < WANE_WAKES) wane__count(&model->gate.wakes[wake]);
}

static uint64_t read_count(atomic_ullong *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void wane_model_get_gate_state(wane_model *model, wane_gate_state *state) {
    struct wane__model_gate *g = &model->gate;
    *state = (wane_gate_state){.given = g->gate != NULL};
    if (g->gate != NULL) {
        state->patterns = g->gate->lut.count;
        snprintf(state->path, sizeof state->path, "%s", g->path);
    }
    state->judged = read_count(&g->judged);
    state->lookups = read_count(&g->lookups);
    state->lut_hits = read_count(&g->lut_hits);
    state->table_passed = read_count(&g->table_passed);
    state->revival = read_count(&g->revival);
    state->forced = read_count(&g->forced);
    state->rejects = read_count(&g->rejects);
    state->revoted = read_count(&g->revoted);
    state->revoted_changed = read_count(&g->revoted_changed);
    for (int i = 0; i < WANE_WAKES; i++) {
        state->rejects_by[i] = read_count(&g->rejects_by[i]);
        state->wakes[i] = read_count(&g->wakes[i]);
    }
    if (g->breaker == NULL) return;
    double now = wane__now();
    state->breaker_out = wane__breaker_is_out(g->breaker, now);
    state->breaker_trips = wane__breaker_trips(g->breaker);
    state->breaker_recent = wane__breaker_recent(g->breaker, now);
}
