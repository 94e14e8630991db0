/*
 * session.c - one sequence on a model, in the caller's own loop and thread.
 *
 * Owns sequence 0 of the engine while it lives: no scheduler can stand on the same model. What the next
 * context shares with the last one is kept in the engine and not computed again.
 *
 *     context:  [ kept ......... | new prompt tokens | reply tokens ... last ]
 *     engine:   [ in_engine tokens .................................. ]   the last one is fed by `next`
 *
 * With a draft (ahead.h), what is fed has drafted tokens behind it, and several rows come of it: each `next` takes one, until
 * one was not as drafted; the engine then forgets the rest.
 */
#include "core/clock.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/tokens.h"
#include "layer.h"
#include "model.h"
#include "session_parts.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

struct wane_session {
    wane_model *model;
    struct wane__reply reply;
    struct wane__item *items; /* one engine batch */
    wane_tokens in_engine;    /* the tokens that the engine's sequence holds */
    atomic_bool interrupted;
    bool started, ended;
    int row, rows; /* the next row to take, of so many; the first is that of the context's last token */
    int call_rows;
    bool timed; /* this call is nothing but decoding: its time says what its rows cost */
    double spent;
    struct wane__ahead ahead;
    int reused;
    double started_at, first_at;
    double tau;     /* the gate's threshold, 0 until it is set */
    uint64_t flags; /* WANE_SFCL_… */
};

int wane_session_new(wane_model *model, wane_session **session, wane_error *error) {
    *session = NULL;
    if (wane__model_take(model, error) != WANE_OK) return WANE_EBUSY;
    wane_session *made = wane__alloc_zero(1, sizeof *made);
    struct wane__item *items = wane__alloc_zero((size_t)model->engine->batch, sizeof *items);
    if (made == NULL || items == NULL) {
        wane__free(made);
        wane__free(items);
        wane__model_give(model);
        return wane__fail(error, WANE_ENOMEM, "No memory for a session.");
    }
    made->model = model;
    made->items = items;
    atomic_init(&made->interrupted, false);
    *session = made;
    return WANE_OK;
}

void wane_session_free(wane_session *session) {
    if (session == NULL) return;
    struct wane__engine *engine = session->model->engine;
    engine->ops->truncate(engine, 0, 0);
    engine->ops->interrupt(engine, false);
    engine->ops->set_hook(engine, NULL, NULL);
    wane__ahead_free(&session->ahead);
    wane__reply_free(&session->reply);
    wane_tokens_free(&session->in_engine);
    wane__free(session->items);
    wane__model_give(session->model);
    wane__free(session);
}

void wane_session_interrupt(wane_session *session) {
    atomic_store(&session->interrupted, true);
    session->model->engine->ops->interrupt(session->model->engine, true);
}

static void clear_interrupt(wane_session *session) {
    atomic_store(&session->interrupted, false);
    session->model->engine->ops->interrupt(session->model->engine, false);
}

/* Rows that are left are not taken: the engine forgets what was fed for them. */
static void drop_rows(wane_session *session) {
    int left = session->rows - session->row - 1;
    if (left > 0) {
        session->in_engine.count -= (size_t)left;
        int keep = (int)session->in_engine.count;
        session->in_engine.count =
            (size_t)session->model->engine->ops->truncate(session->model->engine, 0, keep);
    }
    wane__ahead_drop(&session->ahead, false);
    session->row = session->rows = 0;
}

static int interrupted(wane_session *session, wane_error *error) {
    drop_rows(session);
    clear_interrupt(session);
    session->ended = true;
    return wane__fail(error, WANE_ECANCELLED, "The reply was interrupted.");
}

/* After a failed decode the engine's sequence may hold part of the batch: back to what is known. */
static void resync(wane_session *session) {
    struct wane__engine *engine = session->model->engine;
    int kept = engine->ops->truncate(engine, 0, (int)session->in_engine.count);
    session->in_engine.count = (size_t)kept;
}

static struct wane__item item_of(const wane_session *session, int32_t token, size_t pos, bool wanted) {
    return (struct wane__item){.token = token,
                               .pos = (int32_t)pos,
                               .seq = 0,
                               .wanted = wanted,
                               .whole = session->reply.whole,
                               .dense = (session->reply.without & 1u << WANE_FEATURE_HEAD) != 0};
}

/* The context's last token and drafted ones behind it. Whatever fails, the engine is as it was before. */
static int feed_block(wane_session *session, int drafted, bool rehearse, wane_error *error) {
    struct wane__engine *engine = session->model->engine;
    struct wane__ahead *ahead = &session->ahead;
    size_t from = session->in_engine.count;
    session->items[0] = item_of(session, session->reply.context.id[from], from, true);
    for (int i = 0; i < drafted; i++)
        session->items[1 + i] = item_of(session, ahead->token[i], from + 1 + (size_t)i, true);
    int result = rehearse ? wane__ahead_rehearse(ahead, session->items, 1 + drafted, error)
                          : wane__rows_decode(&session->model->rows, session->items, 1 + drafted, error);
    bool stands = rehearse || result != WANE_OK || wane__ahead_stands(ahead);
    if (!stands) result = WANE_EENGINE;
    if (rehearse || result != WANE_OK) {
        session->in_engine.count = (size_t)engine->ops->truncate(engine, 0, (int)from);
        if (!rehearse && !stands)
            wane__ahead_misplaced(ahead);
        else if (!rehearse)
            wane__ahead_drop(ahead, result != WANE_ECANCELLED);
        return result;
    }
    for (int i = 0; i <= drafted; i++) session->in_engine.id[from + (size_t)i] = session->items[i].token;
    session->in_engine.count = from + 1 + (size_t)drafted;
    session->rows = 1 + drafted;
    return WANE_OK;
}

/* Decode the last token with what is drafted behind it; rows 0 afterwards: nothing was, or it came to nothing. */
static int feed_ahead(wane_session *session, wane_error *error) {
    bool rehearse = false, last = session->in_engine.count + 1 == session->reply.context.count;
    int cells = (int)session->in_engine.count + 1;
    if (!last || session->reply.reply_count == 0) return WANE_OK;
    int drafted = wane__ahead_plan(&session->ahead, &session->reply, 0, session->model->engine->batch - 1,
                                   cells, &rehearse);
    int result = drafted > 0 ? feed_block(session, drafted, rehearse, error) : WANE_OK;
    if (result == WANE_ECANCELLED) return interrupted(session, error);
    session->timed = !rehearse && result == WANE_OK && !wane__ahead_compares(&session->ahead);
    wane__clear(error);
    return WANE_OK;
}

/* Feed context tokens from in_engine.count up to the end; the last one's row is wanted. */
static int feed(wane_session *session, wane_error *error) {
    struct wane__engine *engine = session->model->engine;
    const wane_tokens *context = &session->reply.context;
    session->row = session->rows = 0;
    session->timed = false;
    int ahead = feed_ahead(session, error);
    if (ahead != WANE_OK) return ahead;
    while (session->in_engine.count < context->count) {
        if (atomic_load(&session->interrupted)) return interrupted(session, error);
        size_t from = session->in_engine.count;
        size_t take = context->count - from;
        if (take > (size_t)engine->batch) take = (size_t)engine->batch;
        for (size_t i = 0; i < take; i++)
            session->items[i] =
                item_of(session, context->id[from + i], from + i, from + i + 1 == context->count);
        session->model->rows.keep = wane__ahead_compares(&session->ahead);
        int result = wane__rows_decode(&session->model->rows, session->items, (int)take, error);
        if (result != WANE_OK) {
            resync(session);
            session->ended = true;
            return result == WANE_ECANCELLED ? interrupted(session, error) : result;
        }
        memcpy(session->in_engine.id + from, context->id + from, take * sizeof *context->id);
        session->in_engine.count += take;
        session->rows = 1;
    }
    session->call_rows = session->rows;
    return WANE_OK;
}

static size_t common_prefix(const wane_tokens *a, const int32_t *b, size_t count) {
    size_t n = 0;
    while (n < a->count && n < count && a->id[n] == b[n]) n++;
    return n;
}

int wane_session_start(wane_session *session, const int32_t *tokens, size_t count,
                       const wane_generation *generation, wane_error *error) {
    struct wane__engine *engine = session->model->engine;
    wane__clear(error);
    session->started = false;
    session->ended = true;
    drop_rows(session);
    session->started_at = wane__now();
    int result = wane_generation_check(generation, engine->facts.vocab_size, error);
    if (result == WANE_OK) result = wane__tokens_check(tokens, count, engine->facts.vocab_size, error);
    if (result != WANE_OK) return result;
    struct wane__reply reply;
    result = wane__reply_init(&reply, &session->model->rows, tokens, count, generation, error);
    if (result != WANE_OK) return result;
    wane__ahead_end(&session->ahead, session->reply.engine != NULL ? &session->reply : NULL);
    wane__reply_free(&session->reply);
    session->reply = reply;
    wane__ahead_begin(&session->ahead, &session->model->drafts, &session->reply,
                      generation->tenant != NULL ? generation->tenant : "");
    size_t room = (size_t)engine->facts.context + 1;
    if (room > session->in_engine.count &&
        !wane__tokens_reserve(&session->in_engine, room - session->in_engine.count))
        return wane__fail(error, WANE_ENOMEM, "No memory for a context of %zu tokens.", room);
    size_t keep = common_prefix(&session->in_engine, tokens, count);
    if (keep == count) keep--; /* the last token's row is needed */
    session->in_engine.count = (size_t)engine->ops->truncate(engine, 0, (int)keep);
    session->reused = (int)session->in_engine.count;
    session->started = true;
    session->ended = false;
    wane__recall_begin(&session->reply, session->model->memo,
                       generation->tenant != NULL ? generation->tenant : "");
    if (wane__recall_next(&session->reply, false) < 0) result = feed(session, error);
    if (result != WANE_OK) session->started = false;
    session->first_at = wane__now();
    if (session->reply.mode == WANE__MODE_WANE) session->tau = session->reply.gate.tau;
    return result;
}

/* One row: a token, perhaps the last of its block. */
static int take_row(wane_session *session, wane_event *event, wane_error *error) {
    int result = wane__layer_step(&session->reply, session->row, event, error);
    bool goes_on = result == WANE_OK && wane__ahead_take(&session->ahead, &session->reply, session->row);
    event->drafted = session->reply.step.drafted;
    if (session->reply.step.changed) session->flags |= WANE_SFCL_CHANGED;
    if (goes_on)
        session->row++;
    else
        drop_rows(session);
    return result;
}

/* A token that the memo knows: the engine is not asked, and catches up when it must be. False: it does not know it. */
static bool repeat(wane_session *session, wane_event *event, int *result, wane_error *error) {
    struct wane__reply *reply = &session->reply;
    int32_t token = session->rows == 0 ? wane__recall_next(reply, true) : -1;
    if (token < 0) return false;
    *result = wane__layer_repeat(reply, token, event, error);
    wane__ahead_see(&session->ahead, token);
    return true;
}

static void end_event(wane_session *session, wane_event *event) {
    wane__reply_end(&session->reply, event);
    event->reused_tokens = session->reused;
    event->prompt_ms = 1e3 * (session->first_at - session->started_at);
    event->reply_ms = 1e3 * (wane__now() - session->first_at);
    clear_interrupt(session); /* one that came too late to stop this reply must not stop the next */
    session->ended = true;
    session->started = false;
    wane__memo_saver_tick(session->model->memo, UINT64_MAX);
}

int wane_session_next(wane_session *session, wane_event *event, wane_error *error) {
    *event = (wane_event){.token = -1};
    wane__clear(error);
    if (!session->started)
        return wane__fail(error, WANE_EINVAL, "No reply is under way: call wane_session_start first.");
    if (session->reply.step.finish != WANE_FINISH_NONE) {
        end_event(session, event);
        return WANE_OK;
    }
    if (atomic_load(&session->interrupted)) {
        session->started = false;
        return interrupted(session, error);
    }
    double began = wane__now();
    int result = WANE_OK;
    bool repeated = repeat(session, event, &result, error);
    if (!repeated && session->rows == 0) {
        session->spent = 0;
        result = feed(session, error);
    }
    if (!repeated && result == WANE_OK) result = take_row(session, event, error);
    if (result != WANE_OK) {
        session->started = false;
        return result;
    }
    session->spent += wane__now() - began;
    if (!repeated && session->rows == 0 && session->timed && !session->model->rows.unusual)
        wane__draft_pace_note(&session->model->drafts.pace, session->call_rows, session->spent);
    if (event->kind == 0) end_event(session, event);
    return WANE_OK;
}

/* ------------------------------------------------------------- in a file and back */

double wane_session_tau(const wane_session *session) {
    return session->tau;
}

uint64_t wane_session_flags(const wane_session *session) {
    return session->flags;
}

int wane_session_set_tau(wane_session *session, double tau, wane_error *error) {
    if (!isfinite(tau) || tau < 0)
        return wane__fail(error, WANE_EINVAL, "A session's threshold is %g; it must be a number from 0 on.",
                          tau);
    session->tau = tau;
    return WANE_OK;
}

int wane_session_set_flags(wane_session *session, uint64_t flags, wane_error *error) {
    if ((flags & ~(uint64_t)WANE_SFCL_ALL) != 0)
        return wane__fail(error, WANE_EINVAL, "A session's flags are %llx; only the bits of %x are defined.",
                          (unsigned long long)flags, (unsigned)WANE_SFCL_ALL);
    session->flags = flags;
    return WANE_OK;
}

const struct wane__reply *wane__session_reply(const wane_session *session) {
    return &session->reply;
}

void wane__session_rest(wane_session *session, struct wane__session_parts *parts) {
    drop_rows(session);
    session->started = false;
    session->ended = true;
    const wane_tokens *context = &session->reply.context, *held = &session->in_engine;
    bool all = session->reply.engine != NULL && context->count >= held->count &&
               common_prefix(held, context->id, held->count) == held->count;
    *parts = (struct wane__session_parts){session->model, all ? context : held, (int)held->count};
}

int wane__session_holds(wane_session *session, const int32_t *tokens, int count, wane_error *error) {
    size_t more = count > 0 ? (size_t)count : 0;
    wane__ahead_end(&session->ahead, session->reply.engine != NULL ? &session->reply : NULL);
    wane__reply_free(&session->reply);
    session->reply = (struct wane__reply){0};
    session->in_engine.count = 0;
    if (!wane__tokens_reserve(&session->in_engine, more))
        return wane__fail(error, WANE_ENOMEM, "No memory for a context of %zu tokens.", more);
    if (more > 0) memcpy(session->in_engine.id, tokens, more * sizeof *tokens);
    session->in_engine.count = more;
    return WANE_OK;
}
