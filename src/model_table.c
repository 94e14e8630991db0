/*
 * model_table.c - a model and its table: the stage in a token's way, and the public functions.
 *
 * Owns the holder. Refuses to decide anything that is not certain: a hit is a hit only when the numbers leave no doubt.
 */
#include "model_table.h"

#include "core/clock.h"
#include "core/count.h"
#include "core/error.h"
#include "core/memory.h"
#include "layer.h"
#include "model.h"
#include "table/sign.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

/* ---------------------------------------------------------------------- stage */

/* Loose bounds first, closer ones only where the loose ones leave it open; the exact sum of a dense row is one step. */
static bool ranks(struct wane__reply *reply, const struct wane__slmt_hit *hit,
                  const struct wane__candidate *now, int found, double share) {
    struct wane__source *source = reply->step.source;
    if (!wane__grade_may_rank(hit->top, hit->top_count, now, found, share)) return false;
    for (int closely = 0; closely < 2; closely++) {
        double low = NAN, high = NAN;
        if (wane__sampler_log_sum(reply->sampler, source, closely != 0, &low, &high, NULL) != WANE_OK)
            return false;
        if (wane__grade_rank(hit->top, hit->top_count, now, found, low, high, share)) return true;
        if (source->log_sum_bounds == NULL || !(low < high)) return false;
    }
    return false;
}

/* The row's best candidates as the draw will see them. */
struct now {
    struct wane__candidate top[WANE__SLMT_DEPTH];
    int count;
};

static enum wane__grade grade(struct wane__reply *reply, const struct wane__slmt_hit *hit,
                              const struct wane__grade_rule *rule, struct now *now) {
    if (wane__sampler_best(reply->sampler, reply->step.source, WANE__SLMT_DEPTH, now->top, &now->count,
                           NULL) != WANE_OK)
        now->count = 0;
    if (now->count == 0) return WANE__GRADE_MISS;
    if (wane__grade_strict(hit->top, hit->top_count, now->top, now->count, rule->tolerance))
        return WANE__GRADE_STRICT;
    return ranks(reply, hit, now->top, now->count, rule->share) ? WANE__GRADE_RANK : WANE__GRADE_MISS;
}

static void look_up(struct wane__reply *reply, const struct wane__slmt *slmt, struct wane__slmt_hit *hit) {
    const struct wane__step *step = &reply->step;
    struct wane__slmt_key key;
    bool known = wane__slmt_key(reply->tenant, (int)slmt->header->window, step->context + step->context_count,
                                step->context_count, &key);
    hit->source = WANE__SLMT_NOTHING;
    if (known) wane__slmt_lookup(slmt, key, (uint32_t)step->index, (uint32_t)reply->before.low, hit);
    if (hit->source != WANE__SLMT_NOTHING) wane__account_table(&reply->account, slmt->digest);
}

/* ---------------------------------------------------------------- divergences */

/* How much less likely than the row's best another token is. False: that is not known. */
static bool compare(struct wane__source *source, const struct wane__candidate *best, int32_t token,
                    float *less) {
    float logit;
    *less = 0;
    if (best->token == token) return true;
    if (source->fetch(source, &token, 1, &logit) != WANE_OK) return false;
    *less = best->logit - logit;
    return true;
}

/*
 * What was recorded in this very context must be what the model says in it: a record headed by a token that the model would
 * not take is wrong, whatever else fits. So must be a hit of any kind, where the dense head ran as well. Processors change what the
 * model says, and a record does not know them: then nothing is judged.
 */
static void judge(struct wane__reply *reply, const struct wane__slmt *slmt, const struct wane__slmt_hit *hit,
                  const struct now *now) {
    struct wane__model_table *table = reply->rows->table;
    struct wane__divergence *watch = &reply->rows->watch[WANE_WATCHED_TABLE];
    struct wane__step *step = &reply->step;
    bool whole = hit->source == WANE__SLMT_CONTEXT, checked = reply->row.checked && step->slmt_used;
    struct wane__source *source = checked ? &reply->row.dense.source : step->source;
    struct wane__candidate best = now->top[0];
    int found = now->count;
    float less;
    if ((!whole && !checked) || found == 0 || !wane__sampler_is_plain(reply->sampler)) return;
    if (checked && wane__sampler_best(reply->sampler, source, 1, &best, &found, NULL) != WANE_OK) return;
    if (!compare(source, &best, hit->top[0].token, &less)) return;
    step->looked |= 1u << WANE_WATCHED_TABLE;
    if (!(less > WANE__CLEARLY_LESS)) {
        wane__divergence_same(watch);
        return;
    }
    step->parted |= 1u << WANE_WATCHED_TABLE;
    pthread_mutex_lock(&table->lock);
    memcpy(table->diverged, slmt->digest, sizeof table->diverged);
    pthread_mutex_unlock(&table->lock);
    wane__divergence_found(
        watch, reply->engine->log,
        "the table %.16s says token %d first as token %d of a reply (a record found by %s); "
        "the model says token %d, ahead by %.3g",
        slmt->digest, hit->top[0].token, step->index, wane_table_source((int)hit->source), best.token,
        (double)less);
}

/* Whoever asks arms another table than the one that diverged. */
static bool is_armed(struct wane__divergence *watch, struct wane__model_table *table) {
    if (!wane__divergence_is_off(watch)) return true;
    const struct wane__slmt *slmt = wane__table_take(table->holder);
    if (slmt == NULL) return false;
    pthread_mutex_lock(&table->lock);
    bool other = strcmp(table->diverged, slmt->digest) != 0;
    if (other) wane__divergence_arm(watch);
    pthread_mutex_unlock(&table->lock);
    wane__table_give(slmt);
    return other;
}

void wane__table_stage(struct wane__reply *reply) {
    struct wane__model_table *table = reply->rows->table;
    struct wane__step *step = &reply->step;
    struct wane__slmt_hit hit;
    if (table == NULL || step->source == NULL || !wane__reply_has(reply, WANE_FEATURE_TABLE)) return;
    if (!is_armed(&reply->rows->watch[WANE_WATCHED_TABLE], table)) return;
    const struct wane__slmt *slmt = wane__table_take(table->holder);
    if (slmt == NULL) return;
    look_up(reply, slmt, &hit);
    step->slmt_source = hit.source;
    wane__count(&table->source[hit.source]);
    if (hit.source == WANE__SLMT_NOTHING) {
        wane__count(&table->absent);
    } else {
        struct now now;
        step->slmt_grade = grade(reply, &hit, &table->rule, &now);
        step->slmt_used = step->slmt_grade != WANE__GRADE_MISS;
        step->slmt_first = hit.top[0].token;
        wane__count(&table->grade[step->slmt_grade]);
        judge(reply, slmt, &hit, &now);
    }
    wane__table_give(slmt);
}

double wane__table_missed(const struct wane__reply *reply) {
    if (reply->rows->table == NULL || reply->step.source == NULL || reply->step.slmt_used) return 0;
    return wane__now();
}

void wane__table_fell_back(const struct wane__reply *reply, double missed, double now) {
    if (missed > 0) wane__quantiles_add(&reply->rows->table->fallback, now, now - missed);
}

void wane__table_take_first(struct wane__reply *reply, struct wane__source *source) {
    struct wane__model_table *table = reply->rows->table;
    struct wane__step *step = &reply->step;
    struct wane__choice *choice = &step->choice;
    if (table == NULL || !table->argmax || step->slmt_grade != WANE__GRADE_STRICT ||
        choice->token == step->slmt_first)
        return;
    if (reply->correction.mode != WANE_MODE_OFF) return; /* a correction has the last word */
    if (choice->has_logprob) {
        const int32_t both[2] = {choice->token, step->slmt_first};
        float logit[2];
        if (source->fetch(source, both, 2, logit) != WANE_OK) return;
        choice->logprob += logit[1] - logit[0];
    }
    choice->token = step->slmt_first;
    step->slmt_took = true;
    wane__count(&table->taken);
}

/* ------------------------------------------------------------- a model's table */

void wane_table_use_init(wane_table_use *use) {
    *use = (wane_table_use){.size = sizeof *use,
                            .tolerance = WANE__GRADE_TOLERANCE,
                            .share = (float)WANE__GRADE_SHARE,
                            .poll_ms = 1000};
}

void wane__model_table_free(struct wane__model_table *table) {
    if (table == NULL) return;
    wane__table_free(table->holder);
    pthread_mutex_destroy(&table->lock);
    wane__free(table);
}

static int check_use(const wane_table_use *use, wane_error *error) {
    if (use->size != sizeof *use)
        return wane__fail(error, WANE_EINVAL, "The use of a table was not set up by wane_table_use_init.");
    if (use->meaning != WANE_TABLE_EXACT && use->meaning != WANE_TABLE_ARGMAX)
        return wane__fail(error, WANE_EINVAL,
                          "meaning is %d; it must be WANE_TABLE_EXACT or WANE_TABLE_ARGMAX.", use->meaning);
    if (!(use->tolerance >= 0 && use->tolerance <= 1))
        return wane__fail(error, WANE_EINVAL, "tolerance is %g; it must be 0 to 1.", (double)use->tolerance);
    if (!(use->share > 0 && use->share <= 1))
        return wane__fail(error, WANE_EINVAL, "share is %g; it must be above 0 and at most 1.",
                          (double)use->share);
    if (use->poll_ms < 0)
        return wane__fail(error, WANE_EINVAL, "poll_ms is %d; it must not be negative.", use->poll_ms);
    return WANE_OK;
}

static int open_use(wane_model *model, const wane_table_use *use, struct wane__model_table **table,
                    wane_error *error) {
    unsigned char key[WANE__SIGN_PUBLIC];
    struct wane__trace_origin origin;
    int status = use->key != NULL ? wane__sign_read_public(use->key, key, error) : WANE_OK;
    if (status == WANE_OK) status = wane__model_origin(model, &origin, error);
    if (status != WANE_OK) return status;
    struct wane__model_table *made = wane__alloc_zero(1, sizeof *made);
    if (made == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a table.");
    pthread_mutex_init(&made->lock, NULL);
    made->argmax = use->meaning == WANE_TABLE_ARGMAX;
    /* The share as people write it: 0.95, not the float nearest to it, which is a little less. */
    made->rule = (struct wane__grade_rule){use->tolerance, round((double)use->share * 1e6) / 1e6};
    const struct wane__table_options options = {.path = use->path,
                                                .origin = &origin,
                                                .key = use->key != NULL ? key : NULL,
                                                .poll_ms = use->poll_ms,
                                                .log = &model->log};
    status = wane__table_new(&options, &made->holder, error);
    if (status != WANE_OK) {
        wane__model_table_free(made);
        return status;
    }
    *table = made;
    return WANE_OK;
}

int wane_model_set_table(wane_model *model, const wane_table_use *use, wane_error *error) {
    struct wane__model_table *fresh = NULL;
    wane__clear(error);
    int status = check_use(use, error);
    if (status != WANE_OK) return status;
    if (wane__model_take(model, error) != WANE_OK) return WANE_EBUSY;
    if (use->path != NULL) status = open_use(model, use, &fresh, error);
    if (status == WANE_OK) {
        wane__model_table_free(model->rows.table);
        model->rows.table = fresh;
        wane__divergence_arm(&model->rows.watch[WANE_WATCHED_TABLE]);
    }
    wane__model_give(model);
    return status;
}

int wane_model_reload_table(wane_model *model, wane_error *error) {
    wane__clear(error);
    if (model->rows.table == NULL)
        return wane__fail(error, WANE_ENOENT,
                          "This model was given no table, so that there is none to reload.");
    return wane__table_reload(model->rows.table->holder, error);
}

/* A table that was switched off is not in use, whatever the holder has. */
static void describe_off(wane_model *model, wane_table_state *state) {
    struct wane__divergence *watch = &model->rows.watch[WANE_WATCHED_TABLE];
    wane_divergence_state diverged;
    if (is_armed(watch, model->rows.table)) return;
    wane__divergence_read(watch, &diverged);
    state->on = false;
    state->diverged = true;
    snprintf(
        state->reason, sizeof state->reason,
        "Switched off after %llu divergence%s; the last one: %s. Another table in its place switches it on.",
        (unsigned long long)diverged.since, diverged.since == 1 ? "" : "s", diverged.last);
}

static uint64_t read_count(atomic_ullong *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void wane_model_get_table_state(wane_model *model, wane_table_state *state) {
    *state = (wane_table_state){0};
    struct wane__model_table *table = model->rows.table;
    struct wane__table_state inner;
    if (table == NULL) return;
    wane__table_get_state(table->holder, &inner);
    state->given = true;
    state->on = inner.on;
    state->verified = inner.verified;
    memcpy(state->reason, inner.reason, sizeof state->reason);
    memcpy(state->digest, inner.digest, sizeof state->digest);
    state->entries = inner.entries;
    state->positions = inner.positions;
    state->continuations = inner.continuations;
    state->bytes = inner.bytes;
    state->reloads = inner.reloads;
    state->failures = inner.failures;
    state->failed_in_row = inner.failed_in_row;
    describe_off(model, state);
    state->strict = read_count(&table->grade[WANE__GRADE_STRICT]);
    state->rank = read_count(&table->grade[WANE__GRADE_RANK]);
    state->miss = read_count(&table->grade[WANE__GRADE_MISS]);
    state->absent = read_count(&table->absent);
    state->taken = read_count(&table->taken);
    for (int i = 0; i < WANE__SLMT_SOURCES; i++) state->source[i] = read_count(&table->source[i]);
    static const double shares[] = {0.5, 0.9, 0.99};
    state->fallbacks = read_count(&table->fallback.count);
    state->fallback_seconds = 1e-9 * (double)read_count(&table->fallback.nanoseconds);
    for (int i = 0; i < 3; i++)
        state->fallback_quantile[i] = wane__quantiles_get(&table->fallback, wane__now(), shares[i]);
}
