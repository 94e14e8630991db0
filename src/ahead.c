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
#include "model_table.h"

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

void wane__drafts_forget(struct wane__drafts *drafts) {
    wane__draft_pool_free(&drafts->pool);
    drafts->pace = (struct wane__draft_pace){0};
    memset(drafts->proof, 0, sizeof drafts->proof);
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
    /* With keys in 8 bits or bf16 one kernel serves every row (docs/draft.md); with others a reply that is ahead of its
     * neighbours leaves them other neighbours, and so other floats. */
    const char *keys = options->kv_type_k != NULL ? options->kv_type_k : "f16";
    drafts->touchy = strcmp(keys, "q8_0") != 0 && strcmp(keys, "bf16") != 0;
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
    if (wane__model_take(model, error) != WANE_OK) return WANE_EBUSY;
    if (drafts->most == 0) drafts->most = WANE__DRAFT_MOST;
    if (!drafts->impossible) set_mode(drafts, draft, draft == WANE_DRAFT_OFF ? "chosen" : "");
    wane__model_give(model);
    return WANE_OK;
}

void wane_model_get_draft_state(wane_model *model, wane_draft_state *state) {
    pthread_mutex_lock(&model->drafts.lock);
    *state = model->drafts.state;
    pthread_mutex_unlock(&model->drafts.lock);
    if (!wane__divergence_is_off(&model->rows.watch[WANE_WATCHED_DRAFT])) return;
    state->on = false;
    state->reason = "switched off after blocks that were not the same as single tokens";
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
    for (int i = 0; i <= WANE__BLOCK_MOST; i++) drafts->state.block_ms[i] = 1e3 * drafts->pace.cost[i];
    pthread_mutex_unlock(&drafts->lock);
}

/* -------------------------------------------------------------------- a reply */

static bool is_off(const struct wane__drafts *drafts) {
    return wane__divergence_is_off(&drafts->rows->watch[WANE_WATCHED_DRAFT]);
}

void wane__ahead_begin(struct wane__ahead *ahead, struct wane__drafts *drafts,
                       const struct wane__reply *reply, const char *tenant) {
    wane__ahead_end(ahead, NULL);
    if (drafts->mode == WANE_DRAFT_OFF || reply->no_draft || is_off(drafts) ||
        !wane__reply_has(reply, WANE_FEATURE_DRAFT))
        return;
    int context = drafts->rows->engine->facts.context;
    uint32_t tokens = context < INDEXED_MOST ? (uint32_t)context + 1 : INDEXED_MOST;
    if (!ahead->ready && !wane__drafter_init(&ahead->drafter, tokens)) return;
    ahead->ready = true;
    ahead->drafts = drafts;
    ahead->tenant = wane__draft_pool_enter(&drafts->pool, tenant);
    struct wane__model_table *table = wane__reply_has(reply, WANE_FEATURE_TABLE) ? drafts->rows->table : NULL;
    if (wane__divergence_is_off(&drafts->rows->watch[WANE_WATCHED_TABLE])) table = NULL;
    if (table != NULL) wane__table_chain_init(&ahead->chain, table->holder, reply->tenant);
    wane__drafter_begin(&ahead->drafter, reply->context.id, reply->context.count, ahead->tenant,
                        table != NULL ? &ahead->chain.as : NULL);
}

void wane__ahead_end(struct wane__ahead *ahead, const struct wane__reply *reply) {
    struct wane__drafter drafter = ahead->drafter;
    bool ready = ahead->ready;
    if (ahead->drafts != NULL) {
        size_t from = reply != NULL ? (size_t)reply->prompt_count : 0;
        size_t count = reply != NULL && reply->context.count > from ? reply->context.count - from : 0;
        if (count > WANE__POOL_TOKENS / 4) count = WANE__POOL_TOKENS / 4;
        wane__draft_pool_leave(&ahead->drafts->pool, ahead->tenant,
                               count > 0 ? reply->context.id + from : NULL, count, &drafter.now);
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

/* The widest block of each class; kernels change at four rows, and at 64, which none reaches. */
static const int class_width[WANE__AHEAD_CLASSES + 1] = {1, 4, 16, WANE__BLOCK_MOST};

/* What is rehearsed for it: rows in fours and one that is left over, as kernels cut them, and no more than need be. */
static const int rehearsed_width[WANE__AHEAD_CLASSES + 1] = {1, 4, 9, 17};

static int class_of(int width) {
    int class = 0;
    while (class < WANE__AHEAD_CLASSES && width > class_width[class]) class ++;
    return class;
}

static int region_of(int cells) {
    int region = 0;
    for (int most = 256; cells > most && region < WANE__AHEAD_REGIONS - 1; most *= 2) region++;
    return region;
}

static int attended(const struct wane__drafts *drafts) {
    struct wane__engine *engine = drafts->rows->engine;
    return engine->ops->attended != NULL ? engine->ops->attended(engine) : 0;
}

/* Equal rows are only half of it: the head must give for several rows what it gives for one. */
static bool head_allows(const struct wane__rows *rows) {
    if (rows->mode == WANE_HEAD_NONE) return false;
    return rows->engine->facts.rescoring_exact_batch || !wane__rows_certified(rows);
}

static int least(int a, int b) {
    return a < b ? a : b;
}

/* Of `count` proposed tokens, how many could be verified at all; sets region and company. */
static int allowed(struct wane__ahead *ahead, const struct wane__reply *reply, int count, int others,
                   int room, int cells) {
    struct wane__drafts *drafts = ahead->drafts;
    if (ahead->hold > 0 || !head_allows(drafts->rows)) return 0;
    if (wane__rows_lack(drafts->rows, WANE_FEATURE_DRAFT)) return 0;
    /* What the table proposes is verified, but a table that is off has no say at all. */
    if (ahead->drafter.draft.source == WANE__DRAFT_TABLE && wane__rows_lack(drafts->rows, WANE_FEATURE_TABLE))
        return 0;
    if (others > 0 && drafts->touchy) return 0;
    int seen = attended(drafts);
    ahead->company = others > 0;
    ahead->region = region_of(seen > cells ? seen : cells);
    const struct wane__proof *proof = &drafts->proof[ahead->company][ahead->region];
    int most = least(count, drafts->most);
    most = least(most, reply->limit - reply->reply_count - 1);
    most = least(most, room);
    most = least(most, (256 << ahead->region) - cells); /* the next region is another matter */
    int widest = class_width[proof->barred > 0 ? proof->barred - 1 : WANE__AHEAD_CLASSES];
    return least(most, widest - 1 - others);
}

/* A block for a rehearsal has its class's width: what stands behind the draft does not matter. */
static int widen(struct wane__ahead *ahead, const struct wane__reply *reply, int room, int cells) {
    int width = least(rehearsed_width[ahead->class], room + 1);
    width = least(width, (256 << ahead->region) - cells + 1);
    width = least(width, ahead->drafts->rows->engine->facts.context - (int)reply->context.count);
    if (class_of(width) < ahead->class) return 0;
    ahead->count = least(ahead->count, width - 1);
    for (int i = ahead->count; i < width - 1; i++) ahead->token[i] = ahead->token[ahead->count - 1];
    return width - 1;
}

int wane__ahead_plan(struct wane__ahead *ahead, const struct wane__reply *reply, int others, int room,
                     int cells, bool *rehearse) {
    struct wane__drafts *drafts = ahead->drafts;
    *rehearse = false;
    if (drafts == NULL) return 0;
    struct wane__drafter *drafter = &ahead->drafter;
    const wane_tokens *context = &reply->context;
    /* Also where no block can follow: what is drawn judges what was proposed. */
    int count =
        wane__drafter_propose(drafter, context->id + context->count, (int)context->count, WANE__DRAFT_MOST);
    if (wane__ahead_compares(ahead)) return 0;
    ahead->count = ahead->at = 0;
    int most = count > 0 && !is_off(drafts) ? allowed(ahead, reply, count, others, room, cells) : 0;
    if (most > 0 && drafts->mode == WANE_DRAFT_AUTO)
        most = wane__draft_pace_choose(&drafts->pace, others, most, drafter->draft.chance);
    if (most < 1) return 0;
    ahead->others = others;
    ahead->source = drafter->draft.source;
    ahead->class = class_of(others + 1 + most);
    ahead->count = most;
    memcpy(ahead->token, drafter->draft.token, (size_t)most * sizeof *ahead->token);
    bool due = drafts->rows->shadow_below > 0 && wane__mix64(++drafts->calls) <= drafts->rows->shadow_below;
    *rehearse = due || ahead->class > drafts->proof[ahead->company][ahead->region].proven;
    if (!*rehearse) return most;
    int wide = widen(ahead, reply, room, cells);
    if (wide == 0) ahead->count = 0;
    *rehearse = wide > 0;
    return wide;
}

bool wane__ahead_stands(const struct wane__ahead *ahead) {
    if (ahead->drafts == NULL || ahead->count == 0) return true;
    int seen = attended(ahead->drafts);
    return seen == 0 || region_of(seen) == ahead->region;
}

/* ----------------------------------------------------------------- rehearsals */

/* Blocks of the class have other floats: none of that width, or wider, from now on. `was`: they had been equal. */
static void bar(struct wane__drafts *drafts, int company, int region, int class, bool was) {
    struct wane__proof *proof = &drafts->proof[company][region];
    pthread_mutex_lock(&drafts->lock);
    drafts->state.differing++;
    pthread_mutex_unlock(&drafts->lock);
    proof->barred = class;
    proof->proven = least(proof->proven, class - 1);
    wane__log(
        drafts->rows->engine->log, was ? WANE_LOG_ERROR : WANE_LOG_INFO,
        "draft: at most %d tokens at once from %d to %d tokens of context%s: for more, the engine's floats "
        "are not those of single tokens; see docs/draft.md",
        class_width[class - 1], region == 0 ? 0 : 128 << region, 256 << region,
        company ? " beside others" : "");
}

/* Would the rows that were equal so far prove a wider class than is proven? */
static bool proves(const struct wane__proof *proof, int class) {
    return class > proof->proven && proof->compared[class - 1] >= WANE__AHEAD_PROOF;
}

int wane__ahead_rehearsed(int class) {
    return rehearsed_width[class];
}

bool wane__drafts_wanted(const struct wane__drafts *drafts) {
    return drafts->mode != WANE_DRAFT_OFF && !is_off(drafts) && head_allows(drafts->rows);
}

int wane__drafts_widest(const struct wane__drafts *drafts) {
    return class_width[drafts->proof[0][0].proven];
}

void wane__drafts_learn(struct wane__drafts *drafts, int class, int equal, bool same) {
    struct wane__proof *proof = &drafts->proof[0][0];
    pthread_mutex_lock(&drafts->lock);
    drafts->state.rehearsals++;
    pthread_mutex_unlock(&drafts->lock);
    proof->compared[class - 1] += equal;
    if (!same)
        bar(drafts, 0, 0, class, class <= proof->proven);
    else if (proves(proof, class))
        proof->proven = class;
}

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
    ahead->attended = attended(drafts);
    if (status == WANE_OK)
        ahead->prints = count;
    else
        ahead->hold = WANE__AHEAD_HOLD;
    if (status != WANE_OK) ahead->count = 0;
    return status;
}

/* What a rehearsal showed; `same`: its last comparison did. Of a kind that was proven before, it is the shadow check. */
static void conclude(struct wane__ahead *ahead, bool same) {
    struct wane__drafts *drafts = ahead->drafts;
    struct wane__divergence *watch = &drafts->rows->watch[WANE_WATCHED_DRAFT];
    struct wane__proof *proof = &drafts->proof[ahead->company][ahead->region];
    bool was = ahead->class <= proof->proven;
    ahead->prints = ahead->print_at = ahead->count = ahead->at = 0;
    if (!ahead->differs) {
        if (was && same) wane__divergence_same(watch);
        if (proves(proof, ahead->class)) proof->proven = ahead->class;
        return;
    }
    bar(drafts, ahead->company, ahead->region, ahead->class, was);
    if (was)
        wane__divergence_found(
            watch, drafts->rows->engine->log,
            "a block of up to %d tokens was not the same bits as single tokens, where such "
            "blocks had been",
            class_width[ahead->class]);
}

/* A single row against the same one of the block; `token` is what it gave. */
static void compare(struct wane__ahead *ahead, int row, int32_t token) {
    struct wane__drafts *drafts = ahead->drafts;
    struct wane__proof *proof = &drafts->proof[ahead->company][ahead->region];
    bool alike = (drafts->rows->items > 1) == (ahead->company > 0) && attended(drafts) == ahead->attended;
    bool same = alike && wane__rows_print(drafts->rows, row) == ahead->print[ahead->print_at];
    ahead->differs = alike && !same;
    if (same) proof->compared[ahead->class - 1]++;
    bool goes_on = same && ahead->print_at < ahead->count && ahead->token[ahead->print_at] == token;
    ahead->print_at++;
    if (!goes_on || proves(proof, ahead->class) || !wane__ahead_compares(ahead)) conclude(ahead, same);
}

/* --------------------------------------------------------------------- taking */

static void count_block(struct wane__ahead *ahead) {
    struct wane__drafts *drafts = ahead->drafts;
    wane__draft_pace_settle(&drafts->pace, ahead->others, ahead->count, ahead->at);
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
    if (ahead->count == 0) {
        wane__draft_pace_single(&ahead->drafts->pace);
        return false;
    }
    bool right = ahead->at < ahead->count && ahead->token[ahead->at] == token;
    reply->step.drafted = right;
    if (right) ahead->at++;
    bool goes_on = right && reply->step.finish == WANE_FINISH_NONE;
    if (!goes_on) wane__ahead_drop(ahead, false);
    return goes_on;
}

void wane__ahead_see(struct wane__ahead *ahead, int32_t token) {
    if (ahead->drafts == NULL) return;
    wane__drafter_add(&ahead->drafter, token);
    ahead->prints = ahead->print_at = ahead->count = ahead->at = 0;
}

void wane__ahead_misplaced(struct wane__ahead *ahead) {
    if (ahead->drafts == NULL) return;
    ahead->hold = WANE__AHEAD_HOLD;
    ahead->count = ahead->at = 0;
}

void wane__ahead_drop(struct wane__ahead *ahead, bool failed) {
    if (ahead->drafts == NULL || ahead->prints > 0) return;
    if (failed) {
        ahead->hold = WANE__AHEAD_HOLD;
        pthread_mutex_lock(&ahead->drafts->lock);
        ahead->drafts->state.failures++;
        pthread_mutex_unlock(&ahead->drafts->lock);
    } else if (ahead->count > 0 && wane__ahead_stands(ahead)) {
        count_block(ahead);
    }
    ahead->count = ahead->at = 0;
}
