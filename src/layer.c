/*
 * layer.c - the way of a token: from a decoded row to a token and its text, in one short string of stages.
 *
 * Owns the state of one reply. Refuses to know where rows come from (sessions and the scheduler decode)
 * and where text goes. No stage reaches back, and none allocates: wane__reply_init reserved it all.
 */
#include "layer.h"

#include "core/clock.h"
#include "core/count.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/tokens.h"
#include "model_gate.h"
#include "model_governor.h"
#include "model_table.h"
#include "record.h"
#include "view.h"

#include <math.h>
#include <string.h>

enum { TOKEN_BYTES_MAX = 4096 };

int wane__reply_init(struct wane__reply *reply, struct wane__rows *rows, const int32_t *tokens, size_t count,
                     const wane_generation *generation, wane_error *error) {
    struct wane__engine *engine = rows->engine;
    wane_generation cooler;
    generation = wane__model_gate_admit(rows->gate, generation, &cooler);
    *reply = (struct wane__reply){.engine = engine, .rows = rows, .ignore_end = generation->ignore_end};
    reply->no_draft = generation->no_draft;
    reply->without = generation->without;
    reply->viewing = generation->view;
    reply->whole = generation->sampling.top_logprobs >= 0;
    int room = engine->facts.context;
    if (count == 0) return wane__fail(error, WANE_EINVAL, "The prompt is empty: give at least one token.");
    if (count >= (size_t)room)
        return wane__fail(
            error, WANE_ECONTEXT,
            "The prompt has %zu tokens; the context holds %d, and one is needed for the reply. Shorten "
            "the prompt or load the model with a larger context.",
            count, room);
    int left = room - (int)count;
    reply->limit_is_context = generation->max_tokens == 0 || generation->max_tokens > left;
    reply->limit = reply->limit_is_context ? left : generation->max_tokens;
    wane_quality_init(&reply->quality);
    if (generation->quality != NULL) reply->quality = *generation->quality;
    reply->quality.final_value = NULL;
    reply->mode = (enum wane__mode)reply->quality.mode;
    int result = wane__sampler_new(&generation->sampling, engine->facts.vocab_size, &reply->sampler, error);
    if (result == WANE_OK)
        result = wane__stream_init(&reply->stream, generation->stops, generation->stop_count, error);
    if (result == WANE_OK && !wane__tokens_reserve(&reply->context, count + (size_t)reply->limit + 1))
        result = wane__fail(error, WANE_ENOMEM, "No memory for a context of %d tokens.", room);
    if (result != WANE_OK) {
        wane__reply_free(reply);
        return result;
    }
    memcpy(reply->context.id, tokens, count * sizeof *tokens);
    reply->context.count = count;
    reply->prompt_count = (int)count;
    wane__recall_init(&reply->recall, generation);
    wane__correct_begin(reply, &reply->quality, &generation->sampling);
    reply->tenant = wane__context_tenant(generation->tenant != NULL ? generation->tenant : "");
    reply->before = wane__context_begin(reply->tenant);
    for (size_t i = 0; i < count; i++) {
        wane__sampler_accept(reply->sampler, tokens[i]);
        reply->before = wane__context_add(reply->before, tokens[i]);
    }
    result = wane__model_gate_begin(reply, generation, error);
    wane__model_governor_begin(reply, generation);
    if (result == WANE_OK && rows->recorder != NULL) result = wane__tap_open(reply, generation, error);
    if (result != WANE_OK) wane__reply_free(reply);
    return result;
}

void wane__reply_free(struct wane__reply *reply) {
    wane__tap_close(reply->tap);
    wane__sampler_free(reply->sampler);
    wane__stream_free(&reply->stream);
    wane__buf_free(&reply->tail);
    wane_tokens_free(&reply->context);
    *reply = (struct wane__reply){0};
}

static void open_step(struct wane__reply *reply) {
    reply->step = (struct wane__step){
        .context = reply->context.id,
        .context_count = (int)reply->context.count,
        .position = (int)reply->context.count,
        .index = reply->reply_count,
        .mode = reply->mode,
        .signals = {NAN, NAN, NAN, NAN, NAN},
    };
}

/* Head: where this row's candidates come from. */
static int stage_head(struct wane__reply *reply, int row, wane_error *error) {
    int result = wane__rows_get(reply->rows, row, &reply->row, error);
    if (result != WANE_OK) return result;
    reply->step.hidden = reply->row.hidden;
    reply->step.origin = reply->row.origin;
    reply->step.source = reply->row.source;
    return WANE_OK;
}

/* Both heads ran: draw from each with the same random number, compare, and keep the dense one's. */
static int draw_checked(struct wane__reply *reply, int row, struct wane__corrected *did, wane_error *error) {
    struct wane__step *step = &reply->step;
    struct wane__choice certified = {.token = -1};
    wane_error ignored = {0};
    uint64_t before = reply->rows->divergences;
    int status = wane__model_governor_draw(reply, step->source, &certified, did, &ignored);
    if (status == WANE_OK) wane__rows_remember(reply->rows, &certified);
    int result = wane__model_governor_draw(reply, &reply->row.dense.source, &step->choice, did, error);
    if (result != WANE_OK) return result;
    wane__rows_judge(reply->rows, row, &reply->row, status, &certified, &step->choice);
    step->looked |= 1u << WANE_WATCHED_HEAD;
    if (reply->rows->divergences != before) step->parted |= 1u << WANE_WATCHED_HEAD;
    reply->account.checked++;
    reply->account.divergences += reply->rows->divergences != before;
    step->origin = WANE__ORIGIN_DENSE;
    return WANE_OK;
}

/* Processors, corrections and sampler: one token, its logprobs. */
static int stage_sample(struct wane__reply *reply, int row, wane_error *error) {
    struct wane__step *step = &reply->step;
    struct wane__corrected did = {0};
    int result = WANE_OK;
    if (step->source == NULL) /* no head: a body being measured, for which any token will do */
        step->choice = (struct wane__choice){.token = reply->context.id[reply->prompt_count - 1]};
    else if (reply->row.checked)
        result = draw_checked(reply, row, &did, error);
    else
        result = wane__model_governor_draw(reply, step->source, &step->choice, &did, error);
    if (result != WANE_OK) return result;
    if (step->source != NULL) wane__correct_count(reply, &did);
    if (step->source != NULL && reply->governor.on) wane__model_governor_count(reply);
    int32_t drawn = step->choice.token;
    wane__table_take_first(reply, step->source);
    reply->account.taken += step->choice.token != drawn;
    step->source = NULL; /* it lives no longer than the row */
    step->is_end = reply->engine->ops->is_end(reply->engine, step->choice.token);
    return WANE_OK;
}

/* The token joins the context, unless it ends the turn; limits are looked at once, here. */
static int stage_accept(struct wane__reply *reply, wane_error *error) {
    struct wane__step *step = &reply->step;
    reply->reply_count++;
    if (step->is_end && !reply->ignore_end) {
        step->finish = WANE_FINISH_END;
        return WANE_OK;
    }
    wane__sampler_accept(reply->sampler, step->choice.token);
    if (!wane__tokens_add(&reply->context, step->choice.token))
        return wane__fail(error, WANE_ENOMEM, "No memory for another token.");
    reply->before = wane__context_add(reply->before, step->choice.token);
    bool ends = reply->governor.on && wane__model_governor_ends(reply);
    if (reply->reply_count >= reply->limit)
        step->finish = reply->limit_is_context ? WANE_FINISH_CONTEXT : WANE_FINISH_LENGTH;
    else if (ends)
        step->finish = WANE_FINISH_FUSE;
    return WANE_OK;
}

/* Text: whole characters, nothing of a stop string. A stop string outranks the limits. */
static int stage_text(struct wane__reply *reply, wane_event *event, wane_error *error) {
    struct wane__step *step = &reply->step;
    if (step->finish == WANE_FINISH_END) return WANE_OK;
    char bytes[TOKEN_BYTES_MAX];
    int size = reply->engine->ops->token_bytes(reply->engine, step->choice.token, false, bytes, sizeof bytes);
    if (size < 0) return wane__fail(error, WANE_EENGINE, "Token %d has no text.", step->choice.token);
    if (wane__stream_push(&reply->stream, bytes, (size_t)size, &event->text, &event->text_size))
        step->finish = WANE_FINISH_STOP;
    wane__correct_see(reply, bytes, (size_t)size);
    event->kind = WANE_EVENT_TEXT;
    event->token = step->choice.token;
    event->has_logprob = step->choice.has_logprob;
    event->logprob = step->choice.logprob;
    event->top = step->choice.top;
    event->top_count = step->choice.top_count;
    event->reply_tokens = reply->reply_count;
    if (reply->viewing) event->view = &reply->sight.view;
    return WANE_OK;
}

/* What this token adds to the reply's account. */
static void account(struct wane__reply *reply) {
    const struct wane__step *step = &reply->step;
    struct wane__account *a = &reply->account;
    a->origin[step->origin]++;
    a->source[step->slmt_source]++;
    a->checked += (step->looked & ~(1u << WANE_WATCHED_HEAD)) != 0;
    a->divergences += (step->parted & ~(1u << WANE_WATCHED_HEAD)) != 0;
    a->used += step->slmt_used;
    a->strict += step->slmt_grade == WANE__GRADE_STRICT;
    a->changed += step->changed;
    a->rejects += step->verdict.reject;
    if (step->verdict.woke) a->wakes[step->verdict.reason]++;
    if (step->steered) a->states[step->state]++;
}

int wane__layer_step(struct wane__reply *reply, int row, wane_event *event, wane_error *error) {
    *event = (wane_event){.token = -1};
    wane__step_enter();
    open_step(reply);
    if (!reply->drawn) wane__pace_begin(&reply->rows->pace);
    reply->drawn = true;
    if (reply->viewing) wane__view_open(reply);
    double began = wane__now();
    int result = stage_head(reply, row, error);
    if (result == WANE_OK) wane__table_stage(reply);
    double missed = result == WANE_OK ? wane__table_missed(reply) : 0;
    if (result == WANE_OK && reply->governor.on) wane__model_governor_stage(reply, row);
    if (result == WANE_OK) result = stage_sample(reply, row, error);
    if (result == WANE_OK && reply->gate.on) result = wane__model_gate_stage(reply, error);
    double done = wane__now();
    if (result == WANE_OK && reply->viewing) wane__view_token(reply, done - began);
    wane__rows_spent(reply->rows, done - began);
    wane__table_fell_back(reply, missed, done);
    if (result == WANE_OK && reply->tap != NULL) wane__tap_token(reply);
    if (result == WANE_OK) wane__recall_keep(reply);
    if (result == WANE_OK) account(reply);
    if (result == WANE_OK) result = stage_accept(reply, error);
    if (result == WANE_OK) result = stage_text(reply, event, error);
    wane__step_leave();
    wane__rows_settle(reply->rows);
    return result;
}

int wane__layer_repeat(struct wane__reply *reply, int32_t token, wane_event *event, wane_error *error) {
    struct wane__step *step = &reply->step;
    *event = (wane_event){.token = -1};
    wane__step_enter();
    open_step(reply);
    step->origin = WANE__ORIGIN_MEMO;
    step->choice.token = token;
    step->is_end = reply->engine->ops->is_end(reply->engine, token);
    reply->account.origin[WANE__ORIGIN_MEMO]++;
    if (reply->governor.on) wane__model_governor_skip(reply);
    if (reply->viewing) wane__view_repeat(reply);
    int result = stage_accept(reply, error);
    if (result == WANE_OK) result = stage_text(reply, event, error);
    wane__step_leave();
    return result;
}

/* Behind what was held comes what the fallback says. Without memory for it, the reply just ends. */
static void end_fused(struct wane__reply *reply, wane_event *event) {
    struct wane__model_governor *governor = reply->rows->governor;
    const struct wane__fuse *fuse = &reply->governor.fuse;
    char text[WANE__FALLBACK_BYTES];
    int size = wane__fallback_text(fuse, reply->governor.fallback, reply->reply_count > 0, text);
    event->fuse = fuse->rule;
    event->fallback = reply->governor.fallback;
    event->fuse_period = fuse->period;
    event->fuse_spread = (float)fuse->spread;
    wane__count(&governor->fused[fuse->rule]);
    wane__buf_clear(&reply->tail);
    wane__buf_append(&reply->tail, event->text, event->text_size);
    wane__buf_append(&reply->tail, text, (size_t)size);
    if (reply->tail.failed || reply->tail.size == 0) return;
    event->text = reply->tail.data;
    event->text_size = reply->tail.size;
}

void wane__reply_end(struct wane__reply *reply, wane_event *event) {
    *event = (wane_event){
        .kind = WANE_EVENT_END,
        .token = -1,
        .prompt_tokens = reply->prompt_count,
        .reply_tokens = reply->reply_count,
    };
    /* A completed stop string that waited for an earlier or longer one outranks the limits too. */
    if (wane__stream_flush(&reply->stream, &event->text, &event->text_size))
        reply->step.finish = WANE_FINISH_STOP;
    event->finish = reply->step.finish;
    if (event->finish == WANE_FINISH_FUSE) end_fused(reply, event);
    if (reply->tap != NULL) wane__tap_end(reply->tap, event->finish, WANE_OK);
    if (event->finish == WANE_FINISH_STOP) event->stop = reply->stream.stopped_by;
}
