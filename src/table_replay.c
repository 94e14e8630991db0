/*
 * table_replay.c - recorded requests run again, without a table and with it: are the tokens the same, what was hit, what time
 * was saved.
 *
 *     traces ─► requests ─┬─► first pass, no table:   tokens, time
 *                         └─► second pass, the table: tokens, time, hits, drafts ─► compared with the first
 *
 * Owns the session of each pass and the tokens of the first. Refuses to let one pass profit from the other: what drafts have
 * learned is forgotten between them, and one request runs beforehand that counts nowhere.
 */
#include "core/clock.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/tokens.h"
#include "model.h"
#include "model_table.h"
#include "origin.h"
#include "table/requests.h"
#include "table/trace_read.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct replay {
    wane_model *model;
    const wane_table_replay_options *options;
    wane_table_replay_report *report;
    struct wane__trace_reader *reader;
    wane_session *session;
    int pass;             /* 0: without the table */
    wane_tokens said;     /* in the first pass, one reply behind the other */
    size_t *end;          /* of each of them */
    size_t replies, room; /* in the first pass */
    size_t at;            /* in this one */
    wane_tokens reply;    /* under way */
    int every;            /* tokens, until progress is told again */
};

void wane_table_replay_options_init(wane_table_replay_options *options) {
    *options = (wane_table_replay_options){.size = sizeof *options};
}

/* ------------------------------------------------------------------ one request */

static bool is_redacted(const struct wane__trace_request *request) {
    for (size_t i = 0; i < request->prompt_count; i++)
        if (request->prompt[i] < 0) return true;
    for (int i = 0; i < request->stop_count; i++)
        if (request->stops[i][0] == '\0') return true;
    return false;
}

/* The name behind a trace's hash; NULL: nobody said it. */
static const char *tenant_of(const wane_table_replay_options *options, uint64_t tenant) {
    if (wane__context_tenant("") == tenant) return "";
    for (int i = 0; i < options->tenant_count; i++)
        if (wane__context_tenant(options->tenants[i]) == tenant) return options->tenants[i];
    return NULL;
}

static bool goes_on(struct replay *r) {
    if (r->options->progress == NULL) return true;
    double share = (r->pass + wane__trace_read_share(r->reader)) / 2;
    return r->options->progress(r->options->progress_user,
                                r->pass == 0 ? "without the table" : "with the table", share);
}

/* Another session's cache is empty. */
static int open_session(struct replay *r, wane_error *error) {
    wane_session_free(r->session);
    r->session = NULL;
    return wane_session_new(r->model, &r->session, error);
}

/* Its reply into r->reply. */
static int run(struct replay *r, const struct wane__trace_request *request, double *ms, wane_error *error) {
    wane_generation g;
    wane_generation_init(&g);
    g.sampling = request->sampling;
    g.max_tokens = request->max_tokens;
    g.ignore_end = request->ignore_end;
    g.stops = request->stops;
    g.stop_count = (size_t)request->stop_count;
    g.tenant = tenant_of(r->options, request->tenant);
    g.kind = (int)request->kind;
    r->reply.count = 0;
    int fresh = r->options->alone ? open_session(r, error) : WANE_OK;
    if (fresh != WANE_OK) return fresh;
    double began = wane__now();
    int status = wane_session_start(r->session, request->prompt, request->prompt_count, &g, error);
    wane_event event = {0};
    while (status == WANE_OK && event.kind != WANE_EVENT_END) {
        status = wane_session_next(r->session, &event, error);
        if (status != WANE_OK || event.kind != WANE_EVENT_TEXT) continue;
        if (!wane__tokens_add(&r->reply, event.token))
            return wane__fail(error, WANE_ENOMEM, "No memory for another token.");
        if (++r->every % 16 == 0 && !goes_on(r)) return wane__fail(error, WANE_ECANCELLED, "Stopped.");
    }
    *ms = 1e3 * (wane__now() - began);
    return status;
}

/* -------------------------------------------------------------- the two passes */

static int keep(struct replay *r, wane_error *error) {
    if (r->replies == r->room) {
        size_t room = r->room * 2 + 64;
        size_t *end = wane__resize(r->end, room, sizeof *end);
        if (end == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for another reply.");
        r->end = end;
        r->room = room;
    }
    for (size_t i = 0; i < r->reply.count; i++)
        if (!wane__tokens_add(&r->said, r->reply.id[i]))
            return wane__fail(error, WANE_ENOMEM, "No memory for another reply.");
    r->end[r->replies++] = r->said.count;
    return WANE_OK;
}

static void compare(struct replay *r, const struct wane__trace_request *request) {
    wane_table_replay_report *report = r->report;
    size_t from = r->at > 0 ? r->end[r->at - 1] : 0, count = r->end[r->at] - from, equal = 0;
    size_t longer = count > r->reply.count ? count : r->reply.count;
    for (size_t i = 0; i < count && i < r->reply.count; i++) equal += r->said.id[from + i] == r->reply.id[i];
    report->requests++;
    report->tokens += longer;
    report->equal += equal;
    if (equal == longer) return;
    if (report->divergent++ == 0)
        memcpy(report->first_divergent, request->request, sizeof report->first_divergent);
}

static void count_hits(wane_table_replay_hits *hits, const wane_table_state *was,
                       const wane_table_state *is) {
    uint64_t strict = is->strict - was->strict, rank = is->rank - was->rank, miss = is->miss - was->miss,
             absent = is->absent - was->absent;
    hits->strict += strict;
    hits->rank += rank;
    hits->miss += miss;
    hits->absent += absent;
    hits->tokens += strict + rank + miss + absent;
}

/* A prompt that does not fit any more is left out in both passes. */
static int replay_one(struct replay *r, const struct wane__trace_request *request, wane_error *error) {
    wane_table_state was, is;
    double ms = 0;
    wane_model_get_table_state(r->model, &was);
    int status = run(r, request, &ms, error);
    if (status == WANE_ECONTEXT) {
        wane__clear(error);
        r->report->too_long += r->pass == 0;
        return WANE_OK;
    }
    if (status != WANE_OK) return status;
    if (r->pass == 0) {
        r->report->ms_without += ms;
        return keep(r, error);
    }
    if (r->at == r->replies)
        return wane__fail(error, WANE_EINVAL, "The traces changed while they were replayed.");
    wane_model_get_table_state(r->model, &is);
    count_hits(&r->report->hits[request->kind], &was, &is);
    r->report->ms_with += ms;
    compare(r, request);
    r->at++;
    return WANE_OK;
}

/* The next request to run; *request NULL: there is none. */
static int next(struct replay *r, const struct wane__trace_request **request, wane_error *error) {
    struct wane__trace_record record = {0};
    bool first = r->pass == 0;
    *request = NULL;
    for (;;) {
        int status = wane__trace_read_next(r->reader, &record, error);
        if (status != WANE_OK || record.type == WANE__TRACE_DONE) return status;
        if (record.type != WANE__TRACE_REQUEST) continue;
        if (r->options->only != NULL && !wane__requests_has(r->options->only, record.request->request))
            continue;
        bool redacted = is_redacted(record.request);
        bool known = tenant_of(r->options, record.request->tenant) != NULL;
        r->report->redacted += first && redacted;
        r->report->other_tenants += first && !redacted && !known;
        if (redacted || !known) continue;
        *request = record.request;
        return WANE_OK;
    }
}

static int open_pass(struct replay *r, int pass, wane_error *error) {
    struct wane__trace_origin origin;
    int status = wane__model_origin(r->model, &origin, error);
    if (status != WANE_OK) return status;
    struct wane__trace_read_options reading = {.expected = &origin};
    r->pass = pass;
    r->at = 0;
    status =
        wane__trace_read_open(r->options->logs, (size_t)r->options->log_count, &reading, &r->reader, error);
    return status == WANE_OK ? open_session(r, error) : status;
}

static void close_pass(struct replay *r) {
    bool stood = r->session != NULL;
    wane_session_free(r->session);
    wane__trace_read_close(r->reader);
    r->session = NULL;
    r->reader = NULL;
    if (stood) wane__drafts_forget(&r->model->drafts);
}

/* A machine's first request takes longer than others. */
static int warm_up(struct replay *r, wane_error *error) {
    const struct wane__trace_request *request;
    double ms;
    wane_table_replay_report ignored = {0}, *report = r->report;
    r->report = &ignored;
    int status = open_pass(r, 0, error);
    if (status == WANE_OK) status = next(r, &request, error);
    if (status == WANE_OK && request != NULL) status = run(r, request, &ms, error);
    if (status == WANE_ECONTEXT) status = WANE_OK;
    close_pass(r);
    r->report = report;
    return status;
}

static int run_pass(struct replay *r, int pass, wane_error *error) {
    uint64_t most = pass == 0 ? r->options->requests : r->replies;
    int status = open_pass(r, pass, error);
    while (status == WANE_OK) {
        const struct wane__trace_request *request;
        uint64_t done = pass == 0 ? r->replies : r->at;
        if ((most > 0 || pass == 1) && done >= most) break;
        status = next(r, &request, error);
        if (status != WANE_OK || request == NULL) break;
        if (!goes_on(r)) status = wane__fail(error, WANE_ECANCELLED, "Stopped.");
        if (status == WANE_OK) status = replay_one(r, request, error);
    }
    close_pass(r);
    return status;
}

/* ------------------------------------------------------------------- the whole */

static int both(struct replay *r, wane_error *error) {
    wane_table_use none;
    wane_draft_state before, after;
    wane_table_replay_report *report = r->report;
    wane_table_use_init(&none);
    /* A table that is refused is refused at once, not after the first pass. */
    int status = wane_model_set_table(r->model, r->options->use, error);
    if (status == WANE_OK) status = wane_model_set_table(r->model, &none, error);
    if (status == WANE_OK) status = warm_up(r, error);
    if (status == WANE_OK) status = run_pass(r, 0, error);
    if (status == WANE_OK && r->replies == 0)
        return wane__fail(
            error, WANE_EINVAL,
            "There is no request to replay in the traces: %llu are redacted, %llu of tenants that "
            "were not named, %llu too long.",
            (unsigned long long)report->redacted, (unsigned long long)report->other_tenants,
            (unsigned long long)report->too_long);
    if (status == WANE_OK) status = wane_model_set_table(r->model, r->options->use, error);
    if (status != WANE_OK) return status;
    wane_model_get_draft_state(r->model, &before);
    status = run_pass(r, 1, error);
    wane_model_get_draft_state(r->model, &after);
    for (int i = 0; i < WANE_DRAFT_SOURCES; i++) {
        report->proposed[i] = after.proposed[i] - before.proposed[i];
        report->accepted[i] = after.accepted[i] - before.accepted[i];
    }
    wane_model_set_table(r->model, &none, NULL);
    report->agreement = report->tokens > 0 ? (double)report->equal / (double)report->tokens : 1;
    if (status == WANE_OK && r->at != r->replies)
        status = wane__fail(error, WANE_EINVAL, "The traces changed while they were replayed.");
    return status;
}

int wane_table_replay(wane_model *model, const wane_table_replay_options *options,
                      wane_table_replay_report *report, wane_error *error) {
    wane__clear(error);
    *report = (wane_table_replay_report){.agreement = 1};
    if (options->size != sizeof *options)
        return wane__fail(error, WANE_EINVAL,
                          "The options of a replay were not set up by wane_table_replay_options_init.");
    if (options->use == NULL || options->use->path == NULL || options->log_count < 1)
        return wane__fail(error, WANE_EINVAL, "A replay needs a table, and traces.");
    if (model->rows.recorder != NULL)
        return wane__fail(error, WANE_EINVAL,
                          "The model is being recorded: a replay would be recorded, too.");
    struct replay r = {.model = model, .options = options, .report = report};
    int status = both(&r, error);
    wane__free(r.end);
    wane_tokens_free(&r.said);
    wane_tokens_free(&r.reply);
    return status;
}

/* -------------------------------------------------------------------- the newest */

struct dated {
    int64_t time_ms;
    uint64_t serial;
    char name[65];
};

static int newest_first(const void *a, const void *b) {
    const struct dated *x = a, *y = b;
    if (x->time_ms != y->time_ms) return x->time_ms > y->time_ms ? -1 : 1;
    return x->serial > y->serial ? -1 : 1;
}

/* Up to twice as many as are wanted; then only the newest stay. */
struct pile {
    struct dated *item;
    size_t count, room;
    uint64_t most, seen;
};

static bool pile_add(struct pile *pile, const struct wane__trace_request *request) {
    if (pile->item != NULL && pile->count == pile->room && pile->count >= 2 * pile->most) {
        qsort(pile->item, pile->count, sizeof *pile->item, newest_first);
        pile->count = (size_t)pile->most;
    }
    if (pile->count == pile->room) {
        size_t room = 2 * pile->room + 64;
        struct dated *more = wane__resize(pile->item, room, sizeof *more);
        if (more == NULL) return false;
        pile->item = more;
        pile->room = room;
    }
    struct dated *at = &pile->item[pile->count++];
    *at = (struct dated){.time_ms = request->time_ms, .serial = pile->seen++};
    memcpy(at->name, request->request, sizeof at->name);
    return true;
}

static int take_newest(struct pile *pile, wane_table_requests *requests, wane_error *error) {
    size_t count = (size_t)(pile->most < pile->seen / 2 ? pile->most : pile->seen / 2);
    if (count == 0)
        return wane__fail(
            error, WANE_EINVAL,
            "There are not two requests in the traces that could be run: one to build from, one to "
            "hold out.");
    qsort(pile->item, pile->count, sizeof *pile->item, newest_first);
    requests->name = wane__alloc_zero(count, sizeof *requests->name);
    if (requests->name == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for %zu names.", count);
    for (size_t i = 0; i < count; i++) memcpy(requests->name[i], pile->item[i].name, sizeof *requests->name);
    requests->count = count;
    wane__requests_sort(requests);
    return WANE_OK;
}

int wane_table_newest(wane_model *model, const wane_table_replay_options *options, uint64_t most,
                      wane_table_requests *requests, wane_error *error) {
    wane__clear(error);
    *requests = (wane_table_requests){0};
    wane_table_replay_report ignored = {0};
    struct wane__trace_origin origin;
    struct replay r = {.model = model, .options = options, .report = &ignored};
    struct pile pile = {.most = most < SIZE_MAX / 4 ? most : SIZE_MAX / 4};
    int status = wane__model_origin(model, &origin, error);
    struct wane__trace_read_options reading = {.expected = &origin};
    if (status == WANE_OK)
        status = wane__trace_read_open(options->logs, (size_t)options->log_count, &reading, &r.reader, error);
    while (status == WANE_OK) {
        const struct wane__trace_request *request;
        status = next(&r, &request, error);
        if (status != WANE_OK || request == NULL) break;
        if (!pile_add(&pile, request)) status = wane__fail(error, WANE_ENOMEM, "No memory for another name.");
        if (status == WANE_OK && pile.seen % 256 == 0 && !goes_on(&r))
            status = wane__fail(error, WANE_ECANCELLED, "Stopped.");
    }
    if (status == WANE_OK) status = take_newest(&pile, requests, error);
    wane__trace_read_close(r.reader);
    wane__free(pile.item);
    return status;
}
