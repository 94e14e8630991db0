/*
 * rows.c - which head a batch gets, its rows as sources, and the shadow check.
 *
 * Certified rows are promised to be the dense head's, so they are used only where the self-check at load saw rescoring
 * give the dense head's bits: for a batch of one row always (else there is no head here at all), for several rows where
 * the batch of four was exact too. What the self-check cannot see, other widths, is the shadow check's business: now and
 * then the engine's own head runs as well, and its token is the one that counts.
 */
#include "rows.h"

#include "core/error.h"
#include "core/rng.h"

#include <math.h>
#include <string.h>

void wane__rows_init(struct wane__rows *rows, struct wane__engine *engine) {
    *rows = (struct wane__rows){.engine = engine, .mode = WANE_HEAD_DENSE, .scan_most = 1};
    rows->state.reason = rows->state.path = rows->state.kernel = "";
    pthread_mutex_init(&rows->lock, NULL);
}

void wane__rows_close(struct wane__rows *rows) {
    wane__head_free(rows->head);
    rows->head = NULL;
    pthread_mutex_destroy(&rows->lock);
}

void wane__rows_set_shadow(struct wane__rows *rows, double share) {
    rows->shadow_below = share >= 1 ? UINT64_MAX : share > 0 ? (uint64_t)ldexp(share, 64) : 0;
}

bool wane__rows_certified(const struct wane__rows *rows) {
    return rows->head != NULL && rows->mode == WANE_HEAD_CERTIFIED && !rows->off;
}

/* ------------------------------------------------------------------- decode */

/* Between body and head: does the dense head run? The engine keeps a copy of the rows. */
static bool on_hidden(void *user, const float *hidden, int first, int count, int d) {
    const struct wane__rows *rows = user;
    (void)hidden;
    (void)first;
    (void)count;
    (void)d;
    return rows->checked;
}

/* Every so many-th decode by a hash of its number: no pattern in the traffic can hide from it, and a test can repeat it. */
static bool check_is_due(struct wane__rows *rows) {
    return rows->shadow_below > 0 && wane__mix64(rows->calls) <= rows->shadow_below;
}

int wane__rows_decode(struct wane__rows *rows, const struct wane__item *items, int count, wane_error *error) {
    struct wane__engine *engine = rows->engine;
    rows->wanted = 0;
    for (int i = 0; i < count; i++) rows->wanted += items[i].wanted;
    rows->scanned = rows->behind = 0;
    rows->checked = false;
    rows->origin = WANE__ORIGIN_DENSE;
    if (rows->mode == WANE_HEAD_NONE) {
        rows->origin = WANE__ORIGIN_NONE;
    } else if (wane__rows_certified(rows) && (rows->wanted <= 1 || engine->facts.rescoring_exact_batch)) {
        rows->origin = WANE__ORIGIN_CERTIFIED;
        rows->calls += rows->wanted > 0;
        rows->checked = rows->wanted > 0 && check_is_due(rows);
    }
    /* Without a hook the graph runs in one piece. */
    engine->ops->set_hook(engine, rows->origin != WANE__ORIGIN_DENSE ? on_hidden : NULL, rows);
    return engine->ops->decode(engine, items, count, error);
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

static void count_dense(struct wane__rows *rows) {
    bool width = wane__rows_certified(rows);
    pthread_mutex_lock(&rows->lock);
    if (width)
        rows->state.dense_batch++;
    else
        rows->state.dense_off++;
    pthread_mutex_unlock(&rows->lock);
}

int wane__rows_get(struct wane__rows *rows, int row, struct wane__row *out, wane_error *error) {
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
    count_dense(rows);
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
    struct wane__log *log = rows->engine->log;
    int token;
    bool diverged = true;
    if (status != WANE_OK)
        wane__log(log, WANE_LOG_ERROR,
                  "head: the certified draw failed (%s) where the dense one gave token %d",
                  wane_strerror(status), dense->token);
    else if (certified->token != dense->token)
        wane__log(log, WANE_LOG_ERROR, "head: divergence: certified token %d, dense token %d",
                  certified->token, dense->token);
    else if (!same_candidates(rows, certified, dense))
        wane__log(log, WANE_LOG_ERROR, "head: divergence: token %d from other candidates than the dense ones",
                  dense->token);
    else if (!same_logits(rows, row, view, &token))
        wane__log(log, WANE_LOG_ERROR,
                  "head: divergence: the rescored logit of token %d is not the dense one", token);
    else
        diverged = false;
    rows->divergences += diverged;
    bool off = !rows->off && rows->divergences >= WANE__DIVERGENCES_MOST;
    pthread_mutex_lock(&rows->lock);
    rows->state.shadow_checks++;
    rows->state.divergences += diverged;
    if (off) rows->state.reason = "switched off after divergences from the dense head";
    pthread_mutex_unlock(&rows->lock);
    if (!off) return;
    rows->off = true;
    wane__log(log, WANE_LOG_ERROR,
              "head: switched off after %d divergences; the dense head runs from here on",
              WANE__DIVERGENCES_MOST);
}

void wane__rows_settle(struct wane__rows *rows) {
    struct wane__head_counts counts = {0};
    if (rows->head != NULL) wane__head_get_counts(rows->head, &counts);
    pthread_mutex_lock(&rows->lock);
    wane_head_state *state = &rows->state;
    state->certified = wane__rows_certified(rows);
    state->rows = counts.rows;
    state->questions = counts.questions;
    state->survivors1 = counts.survivors1;
    state->survivors2 = counts.survivors2;
    state->rescored = counts.rescored;
    state->dense_many = counts.dense_many;
    state->dense_sum = counts.dense_sum;
    pthread_mutex_unlock(&rows->lock);
}
