/*
 * model_memo.c - a model and its memo: digests of requests, the two places in a token's way, the public functions.
 *
 * Owns what a digest is made of: everything in a request that changes which token is drawn from a row. Refuses to answer where a
 * repetition would not be one: no seed, logprobs, a table that takes part in the choice, a governor at work, a fuse that looks at the row, no head.
 */
#include "model_memo.h"

#include "core/clock.h"
#include "core/count.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/rng.h"
#include "layer.h"
#include "model.h"
#include "model_table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

/* -------------------------------------------------------------------- digests */

/* Field by field: a struct's gaps hold anything. */
static void add_whole(XXH3_state_t *state, uint64_t value) {
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(value >> 8 * i);
    XXH3_128bits_update(state, bytes, sizeof bytes);
}

static void add_real(XXH3_state_t *state, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    add_whole(state, bits);
}

/* Whatever corrections and the gate are told to do. In mode OFF they do nothing, whatever they are told. */
static void add_quality(XXH3_state_t *state, const wane_quality *q) {
    if (q == NULL || q->mode == WANE_MODE_OFF) return;
    const int whole[] = {q->mode,          q->clamp,        q->dialogue_scale, q->token_vote,
                         q->rules,         q->answers,      q->documents,      q->doubt_budget,
                         q->revival_after, q->forced_every, q->breaker_wakes,  q->breaker_seconds,
                         q->doubt_votes};
    const float real[] = {q->dialogue_slope,      q->dialogue_floor, q->hold,        q->odds_base,
                          q->odds_entropy,        q->odds_documents, q->revival_top, q->forced_above,
                          q->breaker_temperature, q->doubt_allowance};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) add_whole(state, (uint32_t)whole[i]);
    for (size_t i = 0; i < sizeof real / sizeof *real; i++) add_real(state, real[i]);
}

void wane__recall_init(struct wane__recall *recall, const wane_generation *generation) {
    const wane_sampling *s = &generation->sampling;
    bool greedy = s->temperature == 0;
    *recall = (struct wane__recall){.indexed = !greedy, .asked = -1};
    recall->able = !generation->no_memo && s->top_logprobs < 0 && (greedy || s->seeded);
    XXH3_state_t *state = recall->able ? XXH3_createState() : NULL;
    if (state == NULL) recall->able = false;
    if (!recall->able) return;
    XXH3_128bits_reset(state);
    add_real(state, s->temperature);
    add_whole(state, (uint64_t)s->top_k);
    add_real(state, s->top_p);
    add_real(state, s->min_p);
    add_real(state, s->repeat_penalty);
    add_real(state, s->presence_penalty);
    add_real(state, s->frequency_penalty);
    add_whole(state, (uint64_t)(int64_t)s->penalty_window);
    add_whole(state, greedy ? 0 : s->seed);
    add_whole(state, s->bias_count);
    for (size_t i = 0; i < s->bias_count; i++) {
        add_whole(state, (uint32_t)s->bias[i].token);
        add_real(state, s->bias[i].bias);
    }
    add_quality(state, generation->quality);
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    recall->digest = (struct wane__context_name){.low = hash.low64, .high = hash.high64};
}

/* ------------------------------------------------------------ in a token's way */

void wane__recall_begin(struct wane__reply *reply, struct wane__model_memo *memo, const char *tenant) {
    struct wane__recall *recall = &reply->recall;
    const struct wane__rows *rows = reply->rows;
    recall->memo = NULL;
    if (memo == NULL || !recall->able || rows->mode == WANE_HEAD_NONE) return;
    if (!wane__reply_has(reply, WANE_FEATURE_MEMO)) return;
    if (rows->table != NULL && rows->table->argmax) return;
    if (reply->tap != NULL) return;    /* a trace wants every token's candidates */
    if (reply->governor.every) return; /* it wants every row's signals */
    int number = wane__memo_tenant(memo->memo, tenant);
    if (number < 0) return;
    recall->tenant = (uint32_t)number;
    recall->memo = memo;
    if (reply->correction.rules == NULL) return;
    /* Rules look at the reply alone: where it began counts, and that is told by the index. */
    uint64_t digest[2];
    wane__rules_digest(reply->correction.rules, digest);
    recall->digest = wane__memo_cross(recall->digest, (struct wane__context_name){digest[0], digest[1]});
    recall->indexed = true;
}

static struct wane__memo_key key_of(const struct wane__reply *reply) {
    const struct wane__recall *recall = &reply->recall;
    struct wane__context_name digest = recall->digest;
    if (recall->indexed) digest.low ^= wane__mix64((uint64_t)reply->reply_count + 1);
    return (struct wane__memo_key){.name = wane__memo_cross(reply->before, digest),
                                   .length = (uint32_t)reply->context.count,
                                   .tenant = recall->tenant};
}

static struct wane__divergence *watch_of(const struct wane__reply *reply) {
    return &reply->rows->watch[WANE_WATCHED_MEMO];
}

/* A tenth of the share: all tokens that were skipped go through the body for it. */
static bool check_is_due(struct wane__model_memo *memo, const struct wane__rows *rows) {
    uint64_t below = rows->shadow_below == UINT64_MAX ? UINT64_MAX : rows->shadow_below / 10;
    return below > 0 && wane__mix64(++memo->taken) <= below;
}

int32_t wane__recall_next(struct wane__reply *reply, bool take) {
    struct wane__recall *recall = &reply->recall;
    struct wane__model_memo *memo = recall->memo;
    if (reply->governor.fuse.wants) return -1; /* a row is wanted */
    if (memo == NULL || wane__rows_lack(reply->rows, WANE_FEATURE_MEMO)) return -1;
    if (recall->asked == reply->reply_count || wane__divergence_is_off(watch_of(reply))) return -1;
    const struct wane__memo_key key = key_of(reply);
    int32_t token = wane__memo_find(memo->memo, &key, take);
    if (!take || token < 0) return token;
    if (check_is_due(memo, reply->rows)) {
        recall->asked = reply->reply_count;
        recall->expected = token;
        return -1;
    }
    wane__count(&memo->hits);
    return token;
}

/* By how much less likely than all that the draw chose from the row holds a token, at least; 0: it is one of them. */
static float distance_behind(struct wane__reply *reply, int32_t token) {
    enum { LOOKED_AT = 64 };
    const struct wane__choice *choice = &reply->step.choice;
    struct wane__source *source = reply->row.checked ? &reply->row.dense.source : reply->row.source;
    struct wane__candidate best[LOOKED_AT];
    int found = 0, at = 0;
    if (source == NULL ||
        wane__sampler_best_drawn(reply->sampler, source, LOOKED_AT, best, &found, NULL) != WANE_OK ||
        found == 0)
        return 0;
    while (at < found - 1 && best[at].token != token) at++;
    float last = best[0].logit;
    if (choice->candidate_count > 0 && choice->candidate_count <= found)
        last = fminf(last, best[choice->candidate_count - 1].logit);
    else if (choice->candidate_count > found)
        last = best[found - 1].logit;
    return last - best[at].logit;
}

/*
 * The body answered where the memo would have. Batches change floats, and so may tokens that lie close together: that is no
 * divergence, and the first answer stands. One is a token that the row leaves clearly behind all that it would have drawn from; then
 * the body's token stands, in the memo as well.
 */
static void judge(struct wane__reply *reply, const struct wane__memo_key *key) {
    struct wane__recall *recall = &reply->recall;
    struct wane__step *step = &reply->step;
    int32_t drawn = step->choice.token;
    float behind = drawn == recall->expected ? 0 : distance_behind(reply, recall->expected);
    step->looked |= 1u << WANE_WATCHED_MEMO;
    if (!(behind > WANE__CLEARLY_LESS)) {
        step->choice.token = recall->expected;
        step->is_end = reply->engine->ops->is_end(reply->engine, recall->expected);
        wane__divergence_same(watch_of(reply));
        return;
    }
    step->parted |= 1u << WANE_WATCHED_MEMO;
    wane__memo_correct(recall->memo->memo, key, drawn);
    wane__divergence_found(
        watch_of(reply), reply->engine->log,
        "the memo says token %d as token %d of a reply; the body draws %d, and holds the other "
        "to be less likely by %.3g",
        recall->expected, reply->reply_count, drawn, (double)behind);
}

static void settle(struct wane__model_memo *memo) {
    struct wane__memo_counts counts;
    wane__memo_count(memo->memo, &counts);
    atomic_store_explicit(&memo->entries, counts.entries, memory_order_relaxed);
    atomic_store_explicit(&memo->bytes, counts.bytes, memory_order_relaxed);
    atomic_store_explicit(&memo->evictions, counts.evictions, memory_order_relaxed);
}

void wane__recall_keep(struct wane__reply *reply) {
    struct wane__model_memo *memo = reply->recall.memo;
    if (memo == NULL || wane__rows_lack(reply->rows, WANE_FEATURE_MEMO)) return;
    const struct wane__memo_key key = key_of(reply);
    if (reply->recall.asked == reply->reply_count) {
        judge(reply, &key);
        return;
    }
    if (wane__divergence_is_off(watch_of(reply))) return;
    wane__memo_add(memo->memo, &key, reply->step.choice.token);
    wane__count(&memo->misses);
    settle(memo);
}

/* -------------------------------------------------------------- a model's memo */

void wane__model_memo_free(struct wane__model_memo *memo) {
    if (memo == NULL) return;
    wane__memo_saver_end(memo);
    wane__memo_free(memo->memo);
    wane__free(memo->path);
    wane__free(memo->origin);
    wane__free(memo);
}

/* Whose floats these are: the model's bytes, the engine, and the settings that change how it computes. */
static int origin_of(wane_model *model, char **origin, wane_error *error) {
    struct wane__trace_origin names;
    char text[600];
    int status = wane__model_origin(model, &names, error);
    if (status != WANE_OK) return status;
    snprintf(text, sizeof text, "model %.32s, engine %.80s, %.300s", names.model, model->engine->facts.engine,
             model->settings);
    *origin = wane__copy_string(text);
    return *origin != NULL ? WANE_OK : wane__fail(error, WANE_ENOMEM, "No memory for a memo.");
}

static int open_file(wane_model *model, struct wane__model_memo *made, const char *path, wane_error *error) {
    int status = origin_of(model, &made->origin, error);
    made->path = wane__copy_string(path);
    if (status == WANE_OK && made->path == NULL)
        status = wane__fail(error, WANE_ENOMEM, "No memory for a memo.");
    if (status != WANE_OK) return status;
    wane_error missing;
    status = wane__memo_load(made->memo, path, made->origin, model->engine->facts.vocab_size, &missing);
    if (status == WANE_ENOENT) return WANE_OK; /* it will be written */
    if (status != WANE_OK) return wane__fail(error, status, "%s", missing.text);
    return WANE_OK;
}

static int new_memo(wane_model *model, uint64_t bytes, const char *path, struct wane__model_memo **memo,
                    wane_error *error) {
    struct wane__model_memo *made = wane__alloc_zero(1, sizeof *made);
    if (made == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a memo.");
    made->vocab_size = model->engine->facts.vocab_size;
    made->saver.log = &model->log;
    int status = wane__memo_new(bytes, &made->memo, error);
    if (status == WANE_OK && path != NULL) status = open_file(model, made, path, error);
    if (status != WANE_OK) {
        wane__model_memo_free(made);
        return status;
    }
    settle(made);
    made->saver.kept = wane__memo_changes(made->memo); /* what came from the file is there */
    *memo = made;
    return WANE_OK;
}

int wane_model_set_memo(wane_model *model, uint64_t bytes, const char *path, wane_error *error) {
    struct wane__model_memo *fresh = NULL;
    int status = wane__model_take(model, error);
    if (status != WANE_OK) return status;
    if (bytes > 0) status = new_memo(model, bytes, path, &fresh, error);
    if (status == WANE_OK) {
        wane__model_memo_free(model->memo);
        model->memo = fresh;
    }
    wane__model_give(model);
    return status;
}

int wane_model_save_memo(wane_model *model, wane_error *error) {
    int status = wane__model_take(model, error);
    if (status != WANE_OK) return status;
    struct wane__model_memo *memo = model->memo;
    if (memo != NULL && memo->path != NULL) {
        wane__memo_saver_end(memo); /* an older picture must not come after this one */
        status = wane__memo_save(memo->memo, memo->path, memo->origin, memo->vocab_size, error);
        if (status == WANE_OK) memo->saver.kept = wane__memo_changes(memo->memo);
    }
    wane__model_give(model);
    return status;
}

int wane_model_set_memo_save(wane_model *model, unsigned seconds, wane_error *error) {
    int status = wane__model_take(model, error);
    if (status != WANE_OK) return status;
    if (seconds > WANE_MEMO_SAVE_MOST)
        status = wane__fail(error, WANE_EINVAL, "The memo cannot be saved every %u s: 0 to %d are allowed.",
                            seconds, WANE_MEMO_SAVE_MOST);
    else if (model->memo != NULL) {
        model->memo->saver.seconds = seconds;
        model->memo->saver.due = wane__now() + seconds;
    }
    wane__model_give(model);
    return status;
}

static uint64_t read_count(atomic_ullong *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void wane_model_get_memo_state(wane_model *model, wane_memo_state *state) {
    struct wane__model_memo *memo = model->memo;
    *state = (wane_memo_state){.on = memo != NULL};
    if (memo == NULL) return;
    state->entries = read_count(&memo->entries);
    state->bytes = read_count(&memo->bytes);
    state->hits = read_count(&memo->hits);
    state->misses = read_count(&memo->misses);
    state->evictions = read_count(&memo->evictions);
    state->saves = read_count(&memo->saver.saves);
    state->save_failures = read_count(&memo->saver.failures);
}
