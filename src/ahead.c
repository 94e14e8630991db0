/*
 * ahead.c - blocks planned, counted, rehearsed; see ahead.h.
 *
 * Owns what a model knows of its drafts. Refuses to decode anything that counts: sessions and the scheduler do, and tell.
 */
#include "ahead.h"

#include "core/error.h"
#include "core/memory.h"
#include "core/rng.h"
#include "model.h"

#include <string.h>

/* Tokens of one sequence's text that are indexed: in longer ones, the last so many. */
#define INDEXED_MOST 65536

/* ------------------------------------------------------------------ a model's */

void wane__drafts_init(struct wane__drafts *drafts, struct wane__rows *rows) {
    *drafts = (struct wane__drafts){.rows = rows, .mode = WANE_DRAFT_OFF};
    drafts->state.reason = "chosen";
    pthread_mutex_init(&drafts->lock, NULL);
}

void wane__drafts_close(struct wane__drafts *drafts) {
    wane__draft_pool_free(&drafts->pool);
    pthread_mutex_destroy(&drafts->lock);
}

static void set_mode(struct wane__drafts *drafts, int mode, const char *reason) {
    drafts->mode = mode;
    pthread_mutex_lock(&drafts->lock);
    drafts->state.on = mode != WANE_DRAFT_OFF;
    drafts->state.reason = reason;
    drafts->state.most = drafts->most;
    pthread_mutex_unlock(&drafts->lock);
}

int wane__drafts_open(struct wane__drafts *drafts, const wane_model_options *options, wane_error *error) {
    if (options->draft < WANE_DRAFT_AUTO || options->draft > WANE_DRAFT_ALWAYS)
        return wane__fail(error, WANE_EINVAL, "draft is %d; it must be one of WANE_DRAFT_….", options->draft);
    if (options->draft_most < 1 || options->draft_most > WANE__DRAFT_MOST)
        return wane__fail(error, WANE_EINVAL, "draft_most is %d; it must be 1 to %d.", options->draft_most,
                          WANE__DRAFT_MOST);
    struct wane__engine *engine = drafts->rows->engine;
    drafts->most = options->draft_most;
    drafts->impossible = engine->facts.recurrent;
    if (!drafts->impossible) {
        set_mode(drafts, options->draft, options->draft == WANE_DRAFT_OFF ? "chosen" : "");
        return WANE_OK;
    }
    set_mode(drafts, WANE_DRAFT_OFF, "the model is recurrent: it cannot forget single tokens");
    if (options->draft != WANE_DRAFT_OFF)
        wane__log(engine->log, WANE_LOG_INFO, "draft: off: %s", drafts->state.reason);
    return WANE_OK;
}

int wane_model_set_draft(wane_model *model, int draft, wane_error *error) {
    struct wane__drafts *drafts = &model->drafts;
    wane__clear(error);
    if (draft < WANE_DRAFT_AUTO || draft > WANE_DRAFT_ALWAYS)
        return wane__fail(error, WANE_EINVAL, "draft is %d; it must be one of WANE_DRAFT_….", draft);
    if (draft != WANE_DRAFT_OFF && drafts->impossible)
        return wane__fail(error, WANE_EUNSUPPORTED, "There are no drafts on this model: %s.",
                          drafts->state.reason);
    if (atomic_exchange(&model->taken, true))
        return wane__fail(error, WANE_EBUSY,
                          "The model already carries a session or a scheduler; free that first.");
    if (drafts->most == 0) drafts->most = WANE__DRAFT_MOST;
    if (!drafts->impossible) set_mode(drafts, draft, draft == WANE_DRAFT_OFF ? "chosen" : "");
    atomic_store(&model->taken, false);
    return WANE_OK;
}

void wane_model_get_draft_state(wane_model *model, wane_draft_state *state) {
    pthread_mutex_lock(&model->drafts.lock);
    *state = model->drafts.state;
    pthread_mutex_unlock(&model->drafts.lock);
}

const char *wane_draft_source_name(int source) {
    return source >= 0 && source < WANE__DRAFT_SOURCES ? wane__draft_source_names[source] : NULL;
}

static void settle_pool(struct wane__drafts *drafts) {
    struct wane__pool_counts counts;
    wane__draft_pool_count(&drafts->pool, &counts);
    pthread_mutex_lock(&drafts->lock);
    drafts->state.pool_tokens = counts.tokens;
    drafts->state.pool_evicted = counts.evicted;
    drafts->state.pool_bytes = counts.bytes;
    pthread_mutex_unlock(&drafts->lock);
}

/* -------------------------------------------------------------------- a reply */

void wane__ahead_begin(struct wane__ahead *ahead, struct wane__drafts *drafts,
                       const struct wane__reply *reply, const char *tenant) {
    wane__ahead_end(ahead, NULL);
    if (drafts->mode == WANE_DRAFT_OFF || reply->no_draft) return;
    int context = drafts->rows->engine->facts.context;
    uint32_t tokens = context < INDEXED_MOST ? (uint32_t)context + 1 : INDEXED_MOST;
    if (!ahead->ready && !wane__drafter_init(&ahead->drafter, tokens)) return;
    ahead->ready = true;
    ahead->drafts = drafts;
    ahead->tenant = wane__draft_pool_enter(&drafts->pool, tenant);
    wane__drafter_begin(&ahead->drafter, reply->context.id, reply->context.count,
                        ahead->tenant != NULL ? &ahead->tenant->ngrams : NULL, drafts->chain);
}

void wane__ahead_end(struct wane__ahead *ahead, const struct wane__reply *reply) {
    struct wane__drafter drafter = ahead->drafter;
    bool ready = ahead->ready;
    if (ahead->drafts != NULL) {
        size_t from = reply != NULL ? (size_t)reply->prompt_count : 0;
        size_t count = reply != NULL && reply->context.count > from ? reply->context.count - from : 0;
        if (count > WANE__POOL_TOKENS / 4) count = WANE__POOL_TOKENS / 4;
        wane__draft_pool_leave(&ahead->drafts->pool, ahead->tenant,
                               count > 0 ? reply->context.id + from : NULL, count);
        settle_pool(ahead->drafts);
    }
    *ahead = (struct wane__ahead){.drafter = drafter, .ready = ready};
}

void wane__ahead_free(struct wane__ahead *ahead) {
    wane__ahead_end(ahead, NULL);
    if (ahead->ready) wane__drafter_free(&ahead->drafter);
    ahead->ready = false;
}

/* ------------------------------------------------------------------ planning */

static int region_of(int cells) {
    int region = 0;
    for (int most = 256; cells > most && region < WANE__AHEAD_REGIONS - 1; most *= 2) region++;
    return region;
}

/* Equal rows are only half of it: the head must give for several rows what it gives for one. */
static bool head_allows(const struct wane__rows *rows) {
    if (rows->mode == WANE_HEAD_NONE) return false;
    return rows->engine->facts.rescoring_exact_batch || !wane__rows_certified(rows);
}

int wane__ahead_plan(struct wane__ahead *ahead, const struct wane__reply *reply, int others, int room,
                     int cells, bool *rehearse) {
    struct wane__drafts *drafts = ahead->drafts;
    *rehearse = false;
    if (drafts == NULL) return 0;
    if (!wane__ahead_compares(ahead)) ahead->count = ahead->at = 0;
    struct wane__drafter *drafter = &ahead->drafter;
    const wane_tokens *context = &reply->context;
    /* Also where no block can follow: what is drawn judges what was proposed. */
    int count =
        wane__drafter_propose(drafter, context->id + context->count, (int)context->count, WANE__DRAFT_MOST);
    int left = reply->limit - reply->reply_count - 1, most = drafts->most;
    if (most > count) most = count;
    if (most > left) most = left;
    if (most > room) most = room;
    if (most > WANE__BLOCK_MOST - 1 - others) most = WANE__BLOCK_MOST - 1 - others;
    if (most < 1 || ahead->hold > 0 || wane__ahead_compares(ahead) || !head_allows(drafts->rows)) return 0;
    if (drafts->mode == WANE_DRAFT_AUTO)
        most = wane__draft_pace_choose(&drafts->pace, others, most, drafter->draft.chance);
    int region = region_of(cells + most);
    if (most < 1 || drafts->region[region] == WANE__REGION_OTHER) return 0;
    bool due = drafts->rows->shadow_below > 0 && wane__mix64(++drafts->calls) <= drafts->rows->shadow_below;
    *rehearse = due || drafts->region[region] == WANE__REGION_OPEN;
    ahead->region = region;
    ahead->source = drafter->draft.source;
    ahead->count = most;
    memcpy(ahead->token, drafter->draft.token, (size_t)most * sizeof *ahead->token);
    return most;
}

/* ----------------------------------------------------------------- rehearsals */

int wane__ahead_rehearse(struct wane__ahead *ahead, const struct wane__item *items, int count,
                         wane_error *error) {
    struct wane__drafts *drafts = ahead->drafts;
    ahead->prints = ahead->print_at = ahead->at = 0;
    ahead->differs = false;
    int status = wane__rows_rehearse(drafts->rows, items, count, ahead->print, error);
    pthread_mutex_lock(&drafts->lock);
    drafts->state.rehearsals += status == WANE_OK;
    drafts->state.failures += status != WANE_OK && status != WANE_ECANCELLED;
    pthread_mutex_unlock(&drafts->lock);
    if (status == WANE_OK)
        ahead->prints = count;
    else
        ahead->hold = WANE__AHEAD_HOLD;
    if (status != WANE_OK) ahead->count = 0;
    return status;
}

/* What a rehearsal showed. */
static void conclude(struct wane__ahead *ahead) {
    struct wane__drafts *drafts = ahead->drafts;
    int region = ahead->region;
    ahead->prints = ahead->print_at = ahead->count = ahead->at = 0;
    if (!ahead->differs) {
        if (drafts->region[region] == WANE__REGION_OPEN && drafts->compared[region] >= WANE__AHEAD_PROOF)
            drafts->region[region] = WANE__REGION_EQUAL;
        return;
    }
    pthread_mutex_lock(&drafts->lock);
    drafts->state.differing++;
    pthread_mutex_unlock(&drafts->lock);
    if (drafts->region[region] == WANE__REGION_OTHER) return;
    enum wane__region was = drafts->region[region];
    drafts->region[region] = WANE__REGION_OTHER;
    wane__log(
        drafts->rows->engine->log, was == WANE__REGION_EQUAL ? WANE_LOG_ERROR : WANE_LOG_INFO,
        "draft: off from %d to %d tokens of context: the engine's floats for several tokens at once are not "
        "those for one; see docs/draft.md",
        region == 0 ? 0 : 256 << (region - 1), 256 << region);
}

/* A single row against the same one of the block; `token` is what it gave. */
static void compare(struct wane__ahead *ahead, int row, int32_t token) {
    bool same = wane__rows_print(ahead->drafts->rows, row) == ahead->print[ahead->print_at];
    if (same)
        ahead->drafts->compared[ahead->region]++;
    else
        ahead->differs = true;
    bool goes_on = same && ahead->print_at < ahead->count && ahead->token[ahead->print_at] == token;
    ahead->print_at++;
    struct wane__drafts *drafts = ahead->drafts;
    bool proven = drafts->region[ahead->region] == WANE__REGION_OPEN &&
                  drafts->compared[ahead->region] >= WANE__AHEAD_PROOF;
    if (!goes_on || proven || !wane__ahead_compares(ahead)) conclude(ahead);
}

/* --------------------------------------------------------------------- taking */

static void count_block(struct wane__ahead *ahead) {
    struct wane__drafts *drafts = ahead->drafts;
    pthread_mutex_lock(&drafts->lock);
    drafts->state.blocks++;
    drafts->state.proposed[ahead->source] += (uint64_t)ahead->count;
    drafts->state.accepted[ahead->source] += (uint64_t)ahead->at;
    pthread_mutex_unlock(&drafts->lock);
}

bool wane__ahead_take(struct wane__ahead *ahead, struct wane__reply *reply, int row) {
    if (ahead->drafts == NULL) return false;
    int32_t token = reply->step.choice.token;
    bool single = ahead->prints > 0;
    if (ahead->hold > 0) ahead->hold--;
    wane__drafter_add(&ahead->drafter, token);
    if (single) {
        compare(ahead, row, token);
        return false;
    }
    if (ahead->count == 0) return false;
    bool right = ahead->at < ahead->count && ahead->token[ahead->at] == token;
    reply->step.drafted = right;
    if (right) ahead->at++;
    bool goes_on = right && reply->step.finish == WANE_FINISH_NONE;
    if (!goes_on) wane__ahead_drop(ahead, false);
    return goes_on;
}

void wane__ahead_drop(struct wane__ahead *ahead, bool failed) {
    if (ahead->drafts == NULL || ahead->prints > 0) return;
    if (failed) {
        ahead->hold = WANE__AHEAD_HOLD;
        pthread_mutex_lock(&ahead->drafts->lock);
        ahead->drafts->state.failures++;
        pthread_mutex_unlock(&ahead->drafts->lock);
    } else if (ahead->count > 0) {
        count_block(ahead);
    }
    ahead->count = ahead->at = 0;
}
