/*
 * rows.c - which head a batch gets, its rows as sources, and the shadow check.
 *
 * Certified rows are promised to be the dense head's, so they are used only where the self-check at load saw rescoring
 * give the dense head's bits: for a batch of one row always (else there is no head here at all), for several rows where
 * the batch of four was exact too. What the self-check cannot see, other widths, is the shadow check's business: now and
 * then the engine's own head runs as well, and its token is the one that counts.
 */
#include "rows.h"

#include "core/clock.h"
#include "core/error.h"
#include "core/rng.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

void wane__rows_init(struct wane__rows *rows, struct wane__engine *engine) {
    *rows = (struct wane__rows){.engine = engine, .mode = WANE_HEAD_DENSE, .scan_most = 1};
    rows->state.reason = rows->state.path = rows->state.kernel = "";
    wane__pace_init(&rows->pace);
    wane__divergences_init(rows->watch);
    pthread_mutex_init(&rows->lock, NULL);
}

void wane__rows_close(struct wane__rows *rows) {
    wane__head_free(rows->head);
    rows->head = NULL;
    wane__divergences_close(rows->watch);
    pthread_mutex_destroy(&rows->lock);
}

void wane__rows_set_shadow(struct wane__rows *rows, double share) {
    rows->shadow_below = share >= 1 ? UINT64_MAX : share > 0 ? (uint64_t)ldexp(share, 64) : 0;
}

bool wane__rows_certified(const struct wane__rows *rows) {
    return rows->head != NULL && rows->mode == WANE_HEAD_CERTIFIED &&
           !wane__divergence_is_off(&rows->watch[WANE_WATCHED_HEAD]) &&
           !wane__rows_lack(rows, WANE_FEATURE_HEAD);
}

/* ------------------------------------------------------------------- decode */

/* Between body and head: does the dense head run? The engine keeps a copy of the rows. */
static bool on_hidden(void *user, const float *hidden, int first, int count, int d) {
    struct wane__rows *rows = user;
    (void)hidden;
    (void)first;
    (void)count;
    (void)d;
    /* In several pieces the body goes on in between: then there is nothing to be learnt. */
    rows->timed = rows->timed && rows->head_began <= 0;
    rows->head_began = wane__now();
    if (rows->origin == WANE__ORIGIN_CERTIFIED) wane__head_wake(rows->head);
    return rows->checked || rows->origin == WANE__ORIGIN_DENSE;
}

/* Every so many-th decode by a hash of its number: no pattern in the traffic can hide from it, and a test can repeat it. */
static bool check_is_due(struct wane__rows *rows) {
    return rows->shadow_below > 0 && wane__mix64(rows->calls) <= rows->shadow_below;
}

/* What the last decode's draws took, unless both heads had a part in it. */
static void settle_pace(struct wane__rows *rows) {
    if (rows->spent > 0 && !rows->checked && rows->origin != WANE__ORIGIN_NONE)
        wane__pace_note_draws(&rows->pace, rows->origin == WANE__ORIGIN_CERTIFIED, rows->wanted, rows->spent);
    rows->spent = 0;
}

static void count_dense(struct wane__rows *rows, uint64_t *counter) {
    pthread_mutex_lock(&rows->lock);
    *counter += (uint64_t)rows->wanted;
    pthread_mutex_unlock(&rows->lock);
}

/* Which head the next batch gets; `whole` of its rows will be read from end to end, `dense` of them must not be certified. */
static void choose_head(struct wane__rows *rows, int whole, int dense) {
    rows->checked = rows->timed = rows->unusual = false;
    rows->origin = WANE__ORIGIN_DENSE;
    if (rows->mode == WANE_HEAD_NONE) {
        rows->origin = WANE__ORIGIN_NONE;
    } else if (!wane__rows_certified(rows)) {
        count_dense(rows, &rows->state.dense_off);
    } else if (dense > 0) {
        count_dense(rows, &rows->state.dense_without);
    } else if (rows->wanted > 1 && !rows->engine->facts.rescoring_exact_batch) {
        count_dense(rows, &rows->state.dense_batch);
    } else if (rows->wanted > 0 && 2 * whole > rows->wanted) {
        rows->timed = true;
        count_dense(rows, &rows->state.dense_whole);
    } else {
        enum wane__pace_choice choice = wane__pace_choose(&rows->pace, rows->wanted);
        rows->calls += rows->wanted > 0;
        rows->checked = choice != WANE__PACE_DENSE && rows->wanted > 0 && check_is_due(rows);
        rows->timed = rows->checked || choice == WANE__PACE_MEASURE;
        rows->unusual = rows->timed;
        if (choice == WANE__PACE_CERTIFIED || rows->checked)
            rows->origin = WANE__ORIGIN_CERTIFIED;
        else
            count_dense(rows, &rows->state.dense_pace);
    }
}

int wane__rows_decode(struct wane__rows *rows, const struct wane__item *items, int count, wane_error *error) {
    struct wane__engine *engine = rows->engine;
    settle_pace(rows);
    int whole = 0, dense = 0;
    rows->items = count;
    rows->wanted = 0;
    for (int i = 0; i < count; i++) {
        rows->wanted += items[i].wanted;
        whole += items[i].wanted && items[i].whole;
        dense += items[i].wanted && items[i].dense;
    }
    rows->scanned = rows->behind = rows->taken = 0;
    rows->head_began = 0;
    choose_head(rows, whole, dense);
    /* Without a hook the graph runs in one piece. */
    bool hooked = rows->origin != WANE__ORIGIN_DENSE || rows->timed || rows->keep;
    rows->keep = false;
    engine->ops->set_hook(engine, hooked ? on_hidden : NULL, rows);
    int status = engine->ops->decode(engine, items, count, error);
    if (status == WANE_OK && rows->timed && rows->head_began > 0)
        wane__pace_note_head(&rows->pace, rows->wanted, wane__now() - rows->head_began);
    return status;
}

void wane__rows_spent(struct wane__rows *rows, double seconds) {
    rows->spent += seconds;
}

/* ------------------------------------------------------------------ rehearsals */

/* Logits of several rows are those of one where the self-check saw it; else they have to be compared themselves. */
static bool prints_logits(const struct wane__rows *rows) {
    return !rows->engine->facts.rescoring_exact_batch;
}

static bool on_rehearsal(void *user, const float *hidden, int first, int count, int d) {
    (void)hidden;
    (void)first;
    (void)count;
    (void)d;
    return prints_logits(user);
}

uint64_t wane__rows_print(struct wane__rows *rows, int row) {
    const struct wane__engine *engine = rows->engine;
    const float *hidden = engine->ops->hidden(rows->engine, row);
    if (hidden != NULL && !prints_logits(rows))
        return XXH3_64bits(hidden, (size_t)engine->facts.embedding_size * sizeof *hidden);
    const float *logits = engine->ops->logits(rows->engine, row);
    return logits == NULL ? 0 : XXH3_64bits(logits, (size_t)engine->facts.vocab_size * sizeof *logits);
}

int wane__rows_rehearse(struct wane__rows *rows, const struct wane__item *items, int count, uint64_t *prints,
                        wane_error *error) {
    struct wane__engine *engine = rows->engine;
    settle_pace(rows);
    engine->ops->set_hook(engine, on_rehearsal, rows);
    int status = engine->ops->decode(engine, items, count, error);
    int row = 0;
    for (int i = 0; i < count && status == WANE_OK; i++) {
        if (items[i].wanted) prints[row] = wane__rows_print(rows, row);
        row += items[i].wanted;
    }
    rows->wanted = rows->scanned = rows->behind = rows->taken = 0;
    return status;
}

/* --------------------------------------------------------------------- rows */

/* The scan holds this row afterwards, and as many behind it as it takes. */
static int scan_from(struct wane__rows *rows, int row, wane_error *error) {
    if (row >= rows->scanned && row < rows->behind) return WANE_OK;
    int count = rows->wanted - row < rows->scan_most ? rows->wanted - row : rows->scan_most;
    const float *hidden = rows->engine->ops->hidden(rows->engine, row);
    int status = wane__head_scan(rows->head, hidden, count);
    if (status != WANE_OK)
        return wane__fail(error, status, "The head could not scan row %d (%s): does it hold NaN?", row,
                          wane_strerror(status));
    rows->scanned = row;
    rows->behind = row + count;
    return WANE_OK;
}

static int get_dense(struct wane__rows *rows, int row, struct wane__row *out, wane_error *error) {
    const float *logits = rows->engine->ops->logits(rows->engine, row);
    if (logits == NULL)
        return wane__fail(error, WANE_EINTERNAL, "The engine has no logits for row %d of the last batch.",
                          row);
    wane__dense_source_init(&out->dense, logits, rows->engine->facts.vocab_size);
    return WANE_OK;
}

int wane__rows_get(struct wane__rows *rows, int row, struct wane__row *out, wane_error *error) {
    rows->taken = row + 1;
    out->source = NULL;
    out->checked = false;
    out->hidden = rows->engine->ops->hidden(rows->engine, row);
    out->origin = rows->origin;
    if (rows->origin == WANE__ORIGIN_NONE) return WANE_OK;
    int status = WANE_OK;
    /* An engine may find in the middle of a decode that it cannot show the rows: then its head has run. */
    if (rows->origin == WANE__ORIGIN_CERTIFIED && out->hidden != NULL) {
        status = scan_from(rows, row, error);
        if (status == WANE_OK) out->source = wane__head_source(rows->head, row - rows->scanned);
        if (status == WANE_OK && rows->checked) status = get_dense(rows, row, out, error);
        out->checked = rows->checked;
        return status;
    }
    out->origin = WANE__ORIGIN_DENSE;
    status = get_dense(rows, row, out, error);
    if (status != WANE_OK) return status;
    out->source = &out->dense.source;
    return WANE_OK;
}

/* -------------------------------------------------------------- shadow check */

void wane__rows_remember(struct wane__rows *rows, const struct wane__choice *certified) {
    int count = certified->candidate_count;
    if (count > WANE__CHECKED_MOST) count = WANE__CHECKED_MOST;
    if (count > 0) memcpy(rows->seen, certified->candidates, (size_t)count * sizeof *rows->seen);
}

/* Bit for bit: 0 and -0 are two results, and NaN equals itself. */
static bool same_bits(const float *a, const float *b) {
    uint32_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x == y;
}

static bool same_candidates(const struct wane__rows *rows, const struct wane__choice *certified,
                            const struct wane__choice *dense) {
    int count = certified->candidate_count < dense->candidate_count ? certified->candidate_count
                                                                    : dense->candidate_count;
    if (count > WANE__CHECKED_MOST) count = WANE__CHECKED_MOST;
    for (int i = 0; i < count; i++) {
        const struct wane__candidate *a = &rows->seen[i], *b = &dense->candidates[i];
        if (a->token != b->token || !same_bits(&a->logit, &b->logit)) return false;
    }
    return true;
}

/* Rescoring against the engine's own head, all of the vocabulary. */
static bool same_logits(struct wane__rows *rows, int row, const struct wane__row *view, int *token) {
    const float *rescored = NULL;
    *token = -1;
    if (wane__head_dense(rows->head, row - rows->scanned, &rescored) != WANE_OK) return false;
    int vocab = rows->engine->facts.vocab_size;
    for (int i = 0; i < vocab; i++) {
        if (same_bits(&rescored[i], &view->dense.logits[i])) continue;
        *token = i;
        return false;
    }
    return true;
}

void wane__rows_judge(struct wane__rows *rows, int row, struct wane__row *view, int status,
                      const struct wane__choice *certified, const struct wane__choice *dense) {
    struct wane__divergence *watch = &rows->watch[WANE_WATCHED_HEAD];
    struct wane__log *log = rows->engine->log;
    int token;
    bool same = false;
    if (status != WANE_OK)
        wane__divergence_found(watch, log, "the certified draw failed (%s) where the dense one gave token %d",
                               wane_strerror(status), dense->token);
    else if (certified->token != dense->token)
        wane__divergence_found(watch, log, "certified token %d, dense token %d", certified->token,
                               dense->token);
    else if (!same_candidates(rows, certified, dense))
        wane__divergence_found(watch, log, "token %d from other candidates than the dense ones",
                               dense->token);
    else if (!same_logits(rows, row, view, &token))
        wane__divergence_found(watch, log, "the rescored logit of token %d is not the dense one", token);
    else
        same = true;
    if (same) wane__divergence_same(watch);
    rows->divergences += !same;
    pthread_mutex_lock(&rows->lock);
    rows->state.shadow_checks++;
    rows->state.divergences += !same;
    pthread_mutex_unlock(&rows->lock);
}

void wane__rows_settle(struct wane__rows *rows) {
    struct wane__head_counts counts = {0};
    if (rows->head != NULL && rows->taken >= rows->wanted) wane__head_rest(rows->head);
    if (rows->head != NULL) wane__head_get_counts(rows->head, &counts);
    pthread_mutex_lock(&rows->lock);
    wane_head_state *state = &rows->state;
    state->certified =
        rows->head != NULL && rows->mode == WANE_HEAD_CERTIFIED; /* unless it is off: the reader looks */
    state->rows = counts.rows;
    state->questions = counts.questions;
    state->survivors1 = counts.survivors1;
    state->survivors2 = counts.survivors2;
    state->rescored = counts.rescored;
    state->dense_many = counts.dense_many;
    state->dense_sum = counts.dense_sum;
    pthread_mutex_unlock(&rows->lock);
}
