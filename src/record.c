/*
 * record.c - owns the recorder of a model and the taps of its replies. Refuses to hold up a decode: what cannot be recorded
 * at once is dropped and counted by the writer.
 */
#include "record.h"

#include "core/clock.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/os.h"
#include "model.h"
#include "trace_alone.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

struct wane_recorder {
    wane_model *model;
    struct wane__trace_writer *writer;
    bool all_logits;
    uint64_t nonce; /* of made-up names */
    atomic_uint_fast64_t made_up;
};

struct wane__tap {
    struct wane_recorder *recorder;
    struct wane__trace_request request;
    struct wane__buf lists; /* the request's bias list and stop strings */
    wane_bias *bias;
    bool begun, ended;
    double created;
    struct wane__trace_token token; /* the last; who and where stays */
    size_t named;                   /* tokens that token.before stands for */
    int drawn;
    int32_t *every; /* 0 … V - 1, to ask for all logits; NULL: not wanted */
    float *all;
};

/* ----------------------------------------------------------------- recorder */

static int text_of_token(void *user, int32_t token, char *buffer, size_t capacity) {
    return wane_token_bytes(user, token, false, buffer, capacity);
}

static int open_recorder(wane_model *model, const wane_recorder_options *options, struct wane_recorder *r,
                         wane_error *error) {
    struct wane__trace_origin origin;
    struct wane__trace_write_options write = wane__recorder_writes(options);
    write.token_bytes = text_of_token;
    write.user = model;
    write.log = &model->log;
    if (!wane__os_random(&r->nonce, sizeof r->nonce))
        return wane__fail(error, WANE_EIO, "The system gave no random number.");
    int code = wane__model_origin(model, &origin, error);
    return code == WANE_OK ? wane__trace_write_open(&write, &origin, &r->writer, error) : code;
}

int wane_recorder_open(wane_model *model, const wane_recorder_options *options, wane_recorder **recorder,
                       wane_error *error) {
    wane__clear(error);
    *recorder = NULL;
    int code = wane__recorder_check(options, error);
    if (code != WANE_OK) return code;
    if (model->rows.recorder != NULL)
        return wane__fail(error, WANE_EBUSY, "The model is being recorded already.");
    if (atomic_exchange(&model->taken, true))
        return wane__fail(error, WANE_EBUSY,
                          "A session or a scheduler stands on the model; free that first.");
    struct wane_recorder *made = wane__alloc_zero(1, sizeof *made);
    if (made == NULL) {
        code = wane__fail(error, WANE_ENOMEM, "No memory for a recorder.");
    } else {
        made->model = model;
        made->all_logits = options->all_logits;
        atomic_init(&made->made_up, 0);
        code = open_recorder(model, options, made, error);
    }
    if (code == WANE_OK)
        model->rows.recorder = *recorder = made;
    else
        wane__free(made);
    wane__model_give(model);
    return code;
}

void wane_recorder_close(wane_recorder *recorder) {
    if (recorder == NULL) return;
    recorder->model->rows.recorder = NULL;
    wane__trace_write_close(recorder->writer);
    wane__free(recorder);
}

void wane_recorder_flush(wane_recorder *recorder) {
    wane__trace_write_flush(recorder->writer);
}

void wane_recorder_get_state(wane_recorder *recorder, wane_recorder_state *state) {
    wane__trace_write_get_state(recorder->writer, state);
}

/* ---------------------------------------------------------------------- tap */

static void name_request(struct wane_recorder *recorder, const char *id, char out[WANE__TRACE_ID_MOST + 1]) {
    if (id != NULL && id[0] != '\0')
        snprintf(out, WANE__TRACE_ID_MOST + 1, "%s", id);
    else
        snprintf(out, WANE__TRACE_ID_MOST + 1, "%016llx-%llu", (unsigned long long)recorder->nonce,
                 (unsigned long long)atomic_fetch_add(&recorder->made_up, 1) + 1);
}

/* What the request points to is the caller's only until the reply has begun. */
static bool copy_lists(struct wane__tap *tap, const wane_generation *generation) {
    const wane_sampling *s = &generation->sampling;
    size_t offset[WANE__TRACE_STOPS];
    if (s->bias_count > 0) {
        tap->bias = wane__alloc_zero(s->bias_count, sizeof *tap->bias);
        if (tap->bias == NULL) return false;
        memcpy(tap->bias, s->bias, s->bias_count * sizeof *tap->bias);
    }
    tap->request.sampling.bias = tap->bias;
    tap->request.stop_count = (int)generation->stop_count;
    for (size_t i = 0; i < generation->stop_count; i++) {
        offset[i] = tap->lists.size;
        if (!wane__buf_append(&tap->lists, generation->stops[i], strlen(generation->stops[i]) + 1))
            return false;
    }
    for (size_t i = 0; i < generation->stop_count; i++) tap->request.stops[i] = tap->lists.data + offset[i];
    return true;
}

static bool prepare_all(struct wane__tap *tap, int vocab_size) {
    tap->every = wane__alloc_zero((size_t)vocab_size, sizeof *tap->every);
    tap->all = wane__alloc_zero((size_t)vocab_size, sizeof *tap->all);
    if (tap->every == NULL || tap->all == NULL) return false;
    for (int i = 0; i < vocab_size; i++) tap->every[i] = i;
    return true;
}

static void name_tokens(struct wane__tap *tap, const wane_tokens *context) {
    while (tap->named < context->count)
        tap->token.before = wane__context_add(tap->token.before, context->id[tap->named++]);
}

int wane__tap_open(struct wane__reply *reply, const wane_generation *generation, wane_error *error) {
    struct wane_recorder *recorder = reply->rows->recorder;
    struct wane__tap *tap = wane__alloc_zero(1, sizeof *tap);
    if (tap == NULL) return wane__fail(error, WANE_ENOMEM, "No memory to record a reply.");
    reply->tap = tap;
    tap->recorder = recorder;
    tap->created = wane__now();
    struct wane__trace_request *r = &tap->request;
    name_request(recorder, generation->id, r->request);
    r->kind = (enum wane__kind)generation->kind;
    r->tenant = wane__context_tenant(generation->tenant != NULL ? generation->tenant : "");
    r->time_ms = wane__date_ms();
    r->sampling = generation->sampling;
    r->sampling.seed = wane__sampler_seed(reply->sampler);
    r->sampling.seeded = true;
    r->max_tokens = generation->max_tokens;
    r->ignore_end = generation->ignore_end;
    bool fine = copy_lists(tap, generation);
    if (fine && recorder->all_logits) {
        fine = prepare_all(tap, reply->engine->facts.vocab_size);
        reply->whole = true; /* the dense head is the shorter way to all of them */
    }
    if (!fine) return wane__fail(error, WANE_ENOMEM, "No memory to record a reply.");
    struct wane__trace_token *t = &tap->token;
    memcpy(t->request, r->request, sizeof t->request);
    t->kind = r->kind;
    t->tenant = r->tenant;
    t->before = wane__context_begin(r->tenant);
    name_tokens(tap, &reply->context);
    return WANE_OK;
}

void wane__tap_close(struct wane__tap *tap) {
    if (tap == NULL) return;
    wane__tap_end(tap, WANE_FINISH_NONE, WANE_OK);
    wane__buf_free(&tap->lists);
    wane__free(tap->bias);
    wane__free(tap->every);
    wane__free(tap->all);
    wane__free(tap);
}

static void begin(struct wane__reply *reply) {
    struct wane__tap *tap = reply->tap;
    tap->request.prompt = reply->context.id;
    tap->request.prompt_count = (size_t)reply->prompt_count;
    wane__trace_write_request(tap->recorder->writer, &tap->request);
    tap->begun = true;
}

void wane__tap_token(struct wane__reply *reply) {
    struct wane__tap *tap = reply->tap;
    struct wane__trace_token *t = &tap->token;
    const struct wane__step *step = &reply->step;
    struct wane__source *source = reply->row.checked ? &reply->row.dense.source : reply->row.source;
    if (!tap->begun) begin(reply);
    tap->drawn++;
    if (source == NULL) return; /* a body without a head, for measuring */
    name_tokens(tap, &reply->context);
    t->position = step->position;
    t->index = step->index;
    t->last_count = step->context_count < WANE__TEN ? step->context_count : WANE__TEN;
    memcpy(t->last, step->context + step->context_count - t->last_count,
           (size_t)t->last_count * sizeof *t->last);
    t->token = step->choice.token;
    t->changed = step->changed;
    t->state = step->steered ? step->state + 1 : 0;
    double log_sum = NAN;
    int status =
        wane__sampler_best_drawn(reply->sampler, source, WANE__TRACE_TOP, t->top, &t->top_count, &log_sum);
    if (status != WANE_OK || t->top_count == 0) return;
    t->log_sum = (float)log_sum;
    const float *all = NULL;
    if (tap->all != NULL && source->fetch(source, tap->every, source->vocab_size, tap->all) == WANE_OK)
        all = tap->all;
    wane__trace_write_token(tap->recorder->writer, t, all);
}

void wane__tap_vote(struct wane__tap *tap, const char *of, int answer) {
    if (tap == NULL || tap->begun) return;
    snprintf(tap->request.vote_of, sizeof tap->request.vote_of, "%s", of);
    tap->request.vote_answer = answer;
}

const char *wane__tap_name(const struct wane__tap *tap) {
    return tap != NULL ? tap->request.request : "";
}

void wane__record_vote(struct wane_recorder *recorder, const char *of, int chosen) {
    struct wane__trace_vote vote = {.chosen = chosen};
    if (recorder == NULL) return;
    snprintf(vote.of, sizeof vote.of, "%s", of);
    wane__trace_write_vote(recorder->writer, &vote);
}

static const char *word_for(wane_finish finish, int code) {
    static const char *const words[] = {"abandoned", "end", "stop", "length", "context", "fuse"};
    if (code == WANE_ECANCELLED) return "cancelled";
    if (code == WANE_ETIMEOUT) return "timeout";
    if (code == WANE_ESHUTDOWN) return "shutdown";
    if (code != WANE_OK) return "failed";
    return words[finish <= WANE_FINISH_FUSE ? finish : 0];
}

void wane__tap_end(struct wane__tap *tap, wane_finish finish, int code) {
    if (!tap->begun || tap->ended) return;
    tap->ended = true;
    struct wane__trace_end end = {.tokens = tap->drawn, .ms = 1e3 * (wane__now() - tap->created)};
    memcpy(end.request, tap->request.request, sizeof end.request);
    snprintf(end.finish, sizeof end.finish, "%s", word_for(finish, code));
    wane__trace_write_end(tap->recorder->writer, &end);
}
