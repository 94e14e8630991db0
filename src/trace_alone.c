/*
 * trace_alone.c - traces of what was decoded without a wane_model: public records, checked, into the writer that recorders use. Refuses
 * what a reader of traces would refuse.
 */
#include "trace_alone.h"

#include "core/bytes.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/memory.h"
#include "table/trace_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct wane_tracer {
    struct wane__trace_writer *writer;
    int vocab_size;
};

void wane_recorder_options_init(wane_recorder_options *options) {
    *options = (wane_recorder_options){
        .size = sizeof *options,
        .queue_bytes = (size_t)32 << 20,
        .file_bytes = (size_t)256 << 20,
        .file_seconds = 3600,
        .sync_seconds = 1,
        .hold_bytes = (size_t)128 << 20,
    };
}

static int check_origin(const wane_origin *of, wane_error *error) {
    if (strlen(of->model) != 32 || strlen(of->tokenizer) != 32 || of->vocab_size < 1)
        return wane__fail(
            error, WANE_EINVAL,
            "A trace says of which model and tokenizer it is: two digests of 32 hex digits, and the "
            "vocabulary's size.");
    const char *wrong = !wane__is_digest(of->model)       ? of->model
                        : !wane__is_digest(of->tokenizer) ? of->tokenizer
                                                          : NULL;
    if (wrong != NULL)
        return wane__fail(error, WANE_EINVAL, "A digest is 32 hex digits in small letters, not \"%s\".",
                          wrong);
    return WANE_OK;
}

int wane__recorder_check(const wane_recorder_options *o, wane_error *error) {
    if (o == NULL || o->size != sizeof *o)
        return wane__fail(error, WANE_EINVAL,
                          "The recorder's options were not set up by wane_recorder_options_init.");
    if (o->folder == NULL || o->folder[0] == '\0')
        return wane__fail(error, WANE_EINVAL, "A recorder needs a folder for its files.");
    if (o->files < 0)
        return wane__fail(error, WANE_EINVAL, "files is %d; it must be 0 (all are kept) or more.", o->files);
    if (!(o->file_seconds >= 0) || !(o->sync_seconds >= 0))
        return wane__fail(error, WANE_EINVAL, "file_seconds and sync_seconds must be 0 or more.");
    return WANE_OK;
}

struct wane__trace_write_options wane__recorder_writes(const wane_recorder_options *o) {
    return (struct wane__trace_write_options){.folder = o->folder,
                                              .plain = o->plain,
                                              .queue_bytes = o->queue_bytes,
                                              .file_bytes = o->file_bytes,
                                              .file_seconds = o->file_seconds,
                                              .files = o->files,
                                              .sync_seconds = o->sync_seconds,
                                              .redact_path = o->redact_file,
                                              .hold_bytes = o->hold_bytes};
}

int wane_tracer_open(const wane_recorder_options *o, const wane_origin *of,
                     int (*token_bytes)(void *user, int32_t token, char *buffer, size_t capacity), void *user,
                     wane_tracer **tracer, wane_error *error) {
    struct wane__trace_origin origin = {.version = WANE__TRACE_VERSION};
    wane__clear(error);
    *tracer = NULL;
    if (o == NULL || of == NULL)
        return wane__fail(error, WANE_EINVAL, "A tracer needs options, and the origin of its traces.");
    int status = wane__recorder_check(o, error);
    if (status == WANE_OK) status = check_origin(of, error);
    if (status == WANE_OK && o->redact_file != NULL && token_bytes == NULL)
        status = wane__fail(
            error, WANE_EINVAL,
            "Redaction needs the tokens' texts: say where they come from, or leave redact_file out.");
    if (status != WANE_OK) return status;
    memcpy(origin.model, of->model, sizeof origin.model);
    memcpy(origin.tokenizer, of->tokenizer, sizeof origin.tokenizer);
    origin.vocab_size = of->vocab_size;
    struct wane__trace_write_options write = wane__recorder_writes(o);
    write.token_bytes = token_bytes;
    write.user = user;
    wane_tracer *made = wane__alloc_zero(1, sizeof *made);
    if (made == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a tracer.");
    made->vocab_size = of->vocab_size;
    status = wane__trace_write_open(&write, &origin, &made->writer, error);
    if (status != WANE_OK) {
        wane__free(made);
        return status;
    }
    *tracer = made;
    return WANE_OK;
}

void wane_tracer_close(wane_tracer *tracer) {
    if (tracer == NULL) return;
    wane__trace_write_close(tracer->writer);
    wane__free(tracer);
}

void wane_tracer_flush(wane_tracer *tracer) {
    wane__trace_write_flush(tracer->writer);
}

void wane_tracer_get_state(wane_tracer *tracer, wane_recorder_state *state) {
    wane__trace_write_get_state(tracer->writer, state);
}

/* ------------------------------------------------------------------- records */

/* A request's name, as JSON may hold it without a thought. */
static int take_id(const char *id, char out[WANE__TRACE_ID_MOST + 1], wane_error *error) {
    size_t size = id != NULL ? strnlen(id, WANE__TRACE_ID_MOST + 1) : 0;
    if (size < 1 || size > WANE__TRACE_ID_MOST)
        return wane__fail(error, WANE_EINVAL, "A request's name in a trace has 1 to %d bytes.",
                          WANE__TRACE_ID_MOST);
    for (size_t i = 0; i < size; i++)
        if (id[i] < '!' || id[i] > '~')
            return wane__fail(error, WANE_EINVAL,
                              "A request's name in a trace is of printable ASCII without blanks.");
    memcpy(out, id, size + 1);
    return WANE_OK;
}

static int dropped(wane_error *error) {
    return wane__fail(error, WANE_EBUSY, "The trace's queue is full: the record was dropped, and counted.");
}

static int check_kind(int kind, wane_error *error) {
    return kind >= 0 && kind < WANE__KINDS
               ? WANE_OK
               : wane__fail(error, WANE_EINVAL, "kind is %d; it must be one of WANE_KIND_…, 0 to 3.", kind);
}

void wane_trace_request_init(wane_trace_request *request) {
    *request = (wane_trace_request){.size = sizeof *request};
    wane__sampling_defaults(&request->sampling);
}

static int check_request(const wane_tracer *tracer, const wane_trace_request *r, wane_error *error) {
    if (r == NULL || r->size != sizeof *r)
        return wane__fail(error, WANE_EINVAL, "The request was not set up by wane_trace_request_init.");
    if (r->prompt_count > 0 && r->prompt == NULL)
        return wane__fail(error, WANE_EINVAL, "The request's prompt is missing.");
    for (size_t i = 0; i < r->prompt_count; i++)
        if (r->prompt[i] < 0 || r->prompt[i] >= tracer->vocab_size)
            return wane__fail(error, WANE_EINVAL, "The prompt holds token %d; the vocabulary has %d.",
                              r->prompt[i], tracer->vocab_size);
    if (r->max_tokens < 0 || r->time_ms < 0)
        return wane__fail(error, WANE_EINVAL, "max_tokens and time_ms must be 0 or more.");
    if (r->stop_count > WANE__TRACE_STOPS)
        return wane__fail(error, WANE_EINVAL, "There are %zu stop strings; at most %d are allowed.",
                          r->stop_count, WANE__TRACE_STOPS);
    for (size_t i = 0; i < r->stop_count; i++)
        if (r->stops[i] == NULL || strnlen(r->stops[i], 1025) > 1024)
            return wane__fail(error, WANE_EINVAL, "Stop string %zu is missing, or longer than 1024 bytes.",
                              i + 1);
    if (r->vote_of != NULL && (r->vote_answer < 0 || r->vote_answer >= WANE__TRACE_ANSWERS))
        return wane__fail(error, WANE_EINVAL, "vote_answer is %d; it must be 0 to %d.", r->vote_answer,
                          WANE__TRACE_ANSWERS - 1);
    int status = check_kind(r->kind, error);
    return status == WANE_OK ? wane__sampling_check(&r->sampling, tracer->vocab_size, error) : status;
}

int wane_tracer_request(wane_tracer *tracer, const wane_trace_request *r, wane_error *error) {
    struct wane__trace_request to = {0};
    wane__clear(error);
    int status = check_request(tracer, r, error);
    if (status == WANE_OK) status = take_id(r->id, to.request, error);
    if (status == WANE_OK && r->vote_of != NULL) status = take_id(r->vote_of, to.vote_of, error);
    if (status != WANE_OK) return status;
    to.kind = (enum wane__kind)r->kind;
    to.tenant = wane__context_tenant(r->tenant != NULL ? r->tenant : "");
    to.time_ms = r->time_ms > 0 ? r->time_ms : wane__date_ms();
    to.prompt = r->prompt;
    to.prompt_count = r->prompt_count;
    to.sampling = r->sampling;
    to.sampling.seeded = true;
    to.max_tokens = r->max_tokens;
    to.ignore_end = r->ignore_end;
    to.stop_count = (int)r->stop_count;
    for (size_t i = 0; i < r->stop_count; i++) to.stops[i] = r->stops[i];
    to.vote_answer = r->vote_answer;
    return wane__trace_write_request(tracer->writer, &to) ? WANE_OK : dropped(error);
}

void wane_trace_token_init(wane_trace_token *token) {
    *token = (wane_trace_token){.size = sizeof *token, .state = -1, .log_sum = NAN};
}

static int check_token(const wane_trace_token *t, wane_error *error) {
    if (t == NULL || t->size != sizeof *t || t->before == NULL)
        return wane__fail(error, WANE_EINVAL,
                          "The token was not set up by wane_trace_token_init, or has no context.");
    if (t->top == NULL || t->top_count < 1)
        return wane__fail(error, WANE_EINVAL,
                          "A token's record needs the candidates that it was drawn from.");
    if (t->index < 0 || t->token < 0 || t->before->count < 0 || t->before->count > INT32_MAX)
        return wane__fail(error, WANE_EINVAL, "index and token must be 0 or more.");
    if (t->state < -1 || t->state >= WANE_STATES)
        return wane__fail(error, WANE_EINVAL, "state is %d; it must be one of WANE_STATE_…, or -1.",
                          t->state);
    return check_kind(t->kind, error);
}

/* Candidates that cannot be drawn are none. */
static int take_top(const wane_trace_token *t, struct wane__trace_token *to, wane_error *error) {
    for (int i = 0; i < t->top_count && to->top_count < WANE__TRACE_TOP; i++) {
        if (isnan(t->top[i].logit) || t->top[i].token < 0 || t->top[i].logit >= INFINITY)
            return wane__fail(error, WANE_EINVAL, "Candidate %d of the token is none: token %d, logit %g.", i,
                              t->top[i].token, (double)t->top[i].logit);
        if (!isfinite(t->top[i].logit)) break;
        to->top[to->top_count++] = (struct wane__candidate){t->top[i].token, t->top[i].logit};
    }
    return WANE_OK;
}

int wane_tracer_token(wane_tracer *tracer, const wane_trace_token *t, wane_error *error) {
    struct wane__trace_token to = {0};
    wane__clear(error);
    int status = check_token(t, error);
    if (status == WANE_OK) status = take_id(t->id, to.request, error);
    if (status == WANE_OK) status = take_top(t, &to, error);
    if (status != WANE_OK) return status;
    const wane_context *c = t->before;
    to.kind = (enum wane__kind)t->kind;
    to.tenant = c->tenant;
    to.before = (struct wane__context_name){.low = c->low, .high = c->high};
    to.position = (int)c->count;
    to.index = t->index;
    to.last_count = c->count < WANE__TEN ? (int)c->count : WANE__TEN;
    memcpy(to.last, c->last, (size_t)to.last_count * sizeof *to.last);
    to.token = t->token;
    to.changed = t->changed;
    to.state = t->state + 1;
    to.log_sum = (float)t->log_sum;
    status = wane__trace_check_token(&to, tracer->vocab_size, error);
    if (status != WANE_OK) { /* the same words, of an argument */
        if (error != NULL) error->code = WANE_EINVAL;
        return WANE_EINVAL;
    }
    return wane__trace_write_token(tracer->writer, &to, NULL) ? WANE_OK : dropped(error);
}

int wane_tracer_end(wane_tracer *tracer, const char *id, const char *finish, int tokens, double ms,
                    wane_error *error) {
    static const char *const words[] = {"end",       "stop",    "length", "context",  "fuse",
                                        "cancelled", "timeout", "failed", "shutdown", "abandoned"};
    struct wane__trace_end end = {.tokens = tokens, .ms = ms};
    wane__clear(error);
    int status = take_id(id, end.request, error);
    if (status != WANE_OK) return status;
    if (tokens < 0 || !(ms >= 0 && ms <= WANE__TRACE_MS_MOST))
        return wane__fail(error, WANE_EINVAL, "tokens is %d and ms is %g; both must be 0 or more.", tokens,
                          ms);
    for (size_t i = 0; i < sizeof words / sizeof *words && finish != NULL; i++) {
        if (strcmp(words[i], finish) != 0) continue;
        snprintf(end.finish, sizeof end.finish, "%s", words[i]);
        return wane__trace_write_end(tracer->writer, &end) ? WANE_OK : dropped(error);
    }
    return wane__fail(error, WANE_EINVAL, "A reply does not end by \"%.40s\"; docs/trace.md has the words.",
                      finish != NULL ? finish : "");
}

int wane_tracer_vote(wane_tracer *tracer, const char *of, int chosen, wane_error *error) {
    struct wane__trace_vote vote = {.chosen = chosen};
    wane__clear(error);
    int status = take_id(of, vote.of, error);
    if (status != WANE_OK) return status;
    if (chosen < 0 || chosen >= WANE__TRACE_ANSWERS)
        return wane__fail(error, WANE_EINVAL, "chosen is %d; it must be 0 to %d.", chosen,
                          WANE__TRACE_ANSWERS - 1);
    return wane__trace_write_vote(tracer->writer, &vote) ? WANE_OK : dropped(error);
}
