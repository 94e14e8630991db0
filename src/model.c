/*
 * model.c - the public model handle: loads an engine, keeps its log, hands it to one user at a time.
 *
 * Owns the engine. Refuses to decode: that is for sessions and the scheduler, which take the model by
 * setting `taken`.
 */
#include "model.h"

#include "core/error.h"
#include "core/memory.h"
#include "model_probe.h"
#include "model_table.h"
#include "sketch_place.h"

#include <stdio.h>
#include <string.h>

void wane_model_options_init(wane_model_options *options) {
    *options = (wane_model_options){
        .size = sizeof *options,
        .sequences = 1,
        .batch = 512,
        .gpu_layers = -1,
        .repack = -1,
        .kv_type_k = "f16",
        .kv_type_v = "f16",
        .flash_attention = -1,
        .head = WANE_HEAD_CERTIFIED,
        .head_sigmas = 6,
        .shadow = 0.001,
        .draft = WANE_DRAFT_AUTO,
        .draft_most = WANE__DRAFT_MOST,
    };
}

/* Ranges are the engine's to check: it knows what it can do. */
static int check_options(const wane_model_options *o, wane_error *error) {
    if (o == NULL || o->size != sizeof *o)
        return wane__fail(error, WANE_EINVAL,
                          "The model options were not set up by wane_model_options_init.");
    if (o->path == NULL || o->path[0] == '\0')
        return wane__fail(error, WANE_EINVAL, "No model file was named.");
    return WANE_OK;
}

static wane_model *new_model(wane_log_fn log, void *log_user) {
    wane_model *model = wane__alloc_zero(1, sizeof *model);
    if (model == NULL) return NULL;
    wane__log_init(&model->log, log, log_user);
    pthread_mutex_init(&model->digest_lock, NULL);
    atomic_init(&model->taken, false);
    wane__model_governor_init(&model->governor, &model->log);
    return model;
}

/* What changes the floats of a body and how it is called, in words: a memo's file is only for the same. */
static void note_settings(wane_model *model, const wane_model_options *o) {
    const wane_model_facts *facts = &model->engine->facts;
    snprintf(model->kv_type_k, sizeof model->kv_type_k, "%s", o->kv_type_k != NULL ? o->kv_type_k : "");
    snprintf(model->kv_type_v, sizeof model->kv_type_v, "%s", o->kv_type_v != NULL ? o->kv_type_v : "");
    snprintf(model->settings, sizeof model->settings,
             "batch %d, layers on a GPU %d, keys %s, values %s, flash attention %d, repack %d, context %d, "
             "sequences %d, threads %d, head %s",
             model->engine->batch, o->gpu_layers, o->kv_type_k != NULL ? o->kv_type_k : "",
             o->kv_type_v != NULL ? o->kv_type_v : "", o->flash_attention, o->repack, facts->context,
             facts->sequences, facts->threads, facts->head_buffer);
}

int wane_model_load(const wane_model_options *options, wane_model **model, wane_error *error) {
    *model = NULL;
    wane__clear(error);
    int result = check_options(options, error);
    if (result != WANE_OK) return result;
    wane_model *made = new_model(options->log, options->log_user);
    if (made == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a model.");
    result = wane__llama_load(options, &made->log, &made->engine, error);
    if (result == WANE_OK) {
        wane__rows_init(&made->rows, made->engine);
        made->rows.gate = &made->gate;
        made->rows.governor = &made->governor;
        made->rows.reward = &made->reward;
        wane__drafts_init(&made->drafts, &made->rows);
        result = wane__model_head_open(made, options, error);
        if (result == WANE_OK) result = wane__drafts_open(&made->drafts, options, error);
        note_settings(made, options);
    }
    if (result != WANE_OK) {
        wane_model_free(made);
        return result;
    }
    *model = made;
    return WANE_OK;
}

int wane__model_take(wane_model *model, wane_error *error) {
    wane__clear(error);
    if (!atomic_exchange(&model->taken, true)) return WANE_OK;
    return wane__fail(error, WANE_EBUSY,
                      "The model already carries a session or a scheduler; free that first.");
}

int wane__model_wrap(struct wane__engine *engine, wane_log_fn log, void *log_user, wane_model **model,
                     wane_error *error) {
    *model = new_model(log, log_user);
    if (*model == NULL) {
        engine->ops->free(engine);
        return wane__fail(error, WANE_ENOMEM, "No memory for a model.");
    }
    engine->log = &(*model)->log;
    (*model)->engine = engine;
    wane__rows_init(&(*model)->rows, engine);
    (*model)->rows.gate = &(*model)->gate;
    (*model)->rows.governor = &(*model)->governor;
    (*model)->rows.reward = &(*model)->reward;
    wane__drafts_init(&(*model)->drafts, &(*model)->rows);
    return WANE_OK;
}

void wane_model_free(wane_model *model) {
    if (model == NULL) return;
    wane__model_table_free(model->rows.table);
    wane__model_correct_free(&model->rows.correct);
    wane__model_memo_free(model->memo);
    wane__model_gate_close(&model->gate);
    wane__model_governor_close(&model->governor);
    wane__reward_close(&model->reward);
    if (model->engine != NULL) {
        wane__drafts_close(&model->drafts);
        wane__probe_close(model->rows.probe);
        wane__rows_close(&model->rows); /* the head reads the engine's weights */
        model->engine->ops->free(model->engine);
    }
    wane__free(model->sketch_path);
    wane__log_close(&model->log);
    pthread_mutex_destroy(&model->digest_lock);
    wane__free(model);
}

const wane_model_facts *wane_model_get_facts(const wane_model *model) {
    return &model->engine->facts;
}

const char *wane_engine_version(void) {
    return wane__llama_version();
}

/* ------------------------------------------------------------------ digest */

int wane_model_digest(wane_model *model, char hex[33], wane_error *error) {
    int result = WANE_OK;
    pthread_mutex_lock(&model->digest_lock);
    if (model->digest[0] == '\0') result = wane__file_digest(model->engine->facts.path, model->digest, error);
    memcpy(hex, model->digest, sizeof model->digest);
    pthread_mutex_unlock(&model->digest_lock);
    return result;
}

/* ------------------------------------------------------------------- text */

int wane_tokenize(const wane_model *model, const char *text, size_t text_size, unsigned flags,
                  wane_tokens *out, wane_error *error) {
    struct wane__engine *engine = model->engine;
    return engine->ops->tokenize(engine, text, text_size, flags, out, error);
}

int wane_token_bytes(const wane_model *model, int32_t token, bool control, char *buffer, size_t capacity) {
    struct wane__engine *engine = model->engine;
    if (token < 0 || token >= engine->facts.vocab_size) return WANE_EINVAL;
    return engine->ops->token_bytes(engine, token, control, buffer, capacity);
}

int wane_chat_tokenize(const wane_model *model, const wane_message *messages, size_t count, wane_tokens *out,
                       wane_error *error) {
    struct wane__engine *engine = model->engine;
    if (count == 0) return wane__fail(error, WANE_EINVAL, "The conversation is empty.");
    return engine->ops->chat(engine, messages, count, out, NULL, error);
}

int wane_chat_render(const wane_model *model, const wane_message *messages, size_t count, char **text,
                     wane_error *error) {
    *text = NULL;
    struct wane__engine *engine = model->engine;
    if (count == 0) return wane__fail(error, WANE_EINVAL, "The conversation is empty.");
    struct wane__buf buf = {0};
    int result = engine->ops->chat(engine, messages, count, NULL, &buf, error);
    if (result == WANE_OK && !wane__buf_append(&buf, "", 0))
        result = wane__fail(error, WANE_ENOMEM, "No memory.");
    if (result != WANE_OK) {
        wane__buf_free(&buf);
        return result;
    }
    *text = buf.data;
    return WANE_OK;
}

/* -------------------------------------------------------------- yardstick */

struct wane_reference {
    struct wane__engine *engine;
    void *inner;
};

int wane_reference_new(wane_model *model, int streams, wane_reference **reference, wane_error *error) {
    *reference = NULL;
    struct wane__engine *engine = model->engine;
    if (engine->ops->reference_new == NULL)
        return wane__fail(error, WANE_EUNSUPPORTED, "The engine %s has no loop of its own.",
                          engine->ops->name);
    if (streams < 1 || streams > 64)
        return wane__fail(error, WANE_EINVAL, "streams is %d; it must be 1 to 64.", streams);
    wane_reference *made = wane__alloc_zero(1, sizeof *made);
    if (made == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for the reference loop.");
    made->engine = engine;
    int result = engine->ops->reference_new(engine, streams, &made->inner, error);
    if (result != WANE_OK) {
        wane__free(made);
        return result;
    }
    *reference = made;
    return WANE_OK;
}

void wane_reference_free(wane_reference *reference) {
    if (reference == NULL) return;
    reference->engine->ops->reference_free(reference->inner);
    wane__free(reference);
}

int wane_reference_run(wane_reference *reference, const wane_tokens *prompts, int steps, int32_t *out,
                       double *ms, wane_error *error) {
    return reference->engine->ops->reference_run(reference->inner, prompts, steps, out, ms, error);
}
