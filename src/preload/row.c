/*
 * row.c - a row of logits as it is handed back.
 *
 * A row of the last decode has its hidden row, and nothing in its place yet. When somebody reads it, the head finds what the
 * row must hold (samplers.c says what): those logits are libllama's own, bit for bit; all others are -infinity, and none of
 * them could have been chosen. A row that is read a second time is made whole: logprobs and grammars read twice. Whole rows are
 * computed by libllama's own product, row by row, so they are what its head would have written.
 */
#include "preload/preload.h"

#include "core/clock.h"

#include <math.h>
#include <string.h>

static int scan(struct wane__under *u, int row) {
    if (row >= u->scanned && row < u->scanned_end) return WANE_OK;
    int count = u->wanted - row < u->rows_most ? u->wanted - row : u->rows_most;
    u->scanned_end = 0;
    int status = wane__head_scan(u->certified, u->hidden + (size_t)row * (size_t)u->d, count);
    if (status != WANE_OK) return status;
    u->scanned = row;
    u->scanned_end = row + count;
    return WANE_OK;
}

/* What was found for a row. */
struct found {
    const float *whole; /* not NULL: all logits, and no list */
    int count;          /* on under->list, best first */
    float bar;          /* logits that are not on the list are no better than this */
};

static uint64_t dense_so_far(const struct wane__under *u) {
    struct wane__head_counts counts;
    wane__head_get_counts(u->certified, &counts);
    return counts.dense_many;
}

/* Grow the list of the best until it reaches as far down as the need says. */
static int select_list(struct wane__under *u, struct wane__source *source, const struct wane__need *need,
                       struct found *found) {
    int count = need->best;
    float limit = -INFINITY;
    for (;;) {
        uint64_t before = dense_so_far(u);
        int status = source->best(source, count, NULL, 0, u->list, &found->count);
        if (status != WANE_OK) return status;
        if (found->count < 1) return WANE_EENGINE;
        if (dense_so_far(u) != before) return WANE_EUNSUPPORTED; /* all of them are known now */
        if (need->distance > 0) limit = u->list[0].logit - (float)need->distance;
        found->bar = u->list[found->count - 1].logit;
        if (need->distance <= 0 || found->bar < limit || found->count < count) return WANE_OK;
        if (count >= WANE__NEED_BEST) return WANE_EUNSUPPORTED;
        count = 4 * count < WANE__NEED_BEST ? 4 * count : WANE__NEED_BEST;
    }
}

static int select_row(struct wane__under *u, int row, const struct wane__need *need, struct found *found) {
    int status = scan(u, row);
    *found = (struct found){.whole = NULL};
    if (status != WANE_OK) return status;
    struct wane__source *source = wane__head_source(u->certified, row - u->scanned);
    if (source == NULL) return WANE_EINTERNAL;
    status = need->whole ? WANE_EUNSUPPORTED : select_list(u, source, need, found);
    if (status == WANE_EUNSUPPORTED) return wane__head_dense(u->certified, row - u->scanned, &found->whole);
    for (int i = 0; i < need->named_count && status == WANE_OK; i++) {
        struct wane__candidate *one = &u->list[found->count];
        if (found->count == WANE__NEED_BEST + WANE__NEED_NAMED) return WANE_EINTERNAL;
        one->token = need->named[i]; /* it may be there already: then it is there twice */
        status = source->fetch(source, &one->token, 1, &one->logit);
        found->count++;
    }
    return status;
}

static void write_row(const struct wane__under *u, const struct found *found, float *logits) {
    size_t vocab = (size_t)u->vocab;
    if (found->whole != NULL) {
        memcpy(logits, found->whole, vocab * sizeof *logits);
        return;
    }
    for (size_t i = 0; i < vocab; i++) logits[i] = -INFINITY;
    for (int i = 0; i < found->count; i++) logits[u->list[i].token] = u->list[i].logit;
}

/* The head failed at this row, which has no logits of libllama's: its own product, row by row, needs no sketch. */
static void write_plainly(struct wane__under *u, int row, float *logits) {
    _Alignas(64) char prepared[WANE__GGML_MOST_PREPARED];
    bool fine =
        wane__ggml_head_prepare(&u->head, u->hidden + (size_t)row * (size_t)u->d, prepared) == WANE_OK;
    for (int32_t id = 0; id < u->vocab; id++)
        if (!fine || wane__ggml_head_prepared(&u->head, prepared, &id, 1, &logits[id]) != WANE_OK)
            logits[id] = -INFINITY;
}

static void make(struct wane__under *u, int row, float *logits, const struct wane__need *need, bool again) {
    struct found found;
    int status = select_row(u, row, need, &found);
    if (status == WANE_OK) {
        write_row(u, &found, logits);
    } else {
        wane__under_turn_off(u, "the head failed at a row (%s)", wane_strerror(status));
        write_plainly(u, row, logits);
    }
    bool whole = status != WANE_OK || found.whole != NULL;
    u->row[row].state = whole ? WANE__ROW_WHOLE : WANE__ROW_SOME;
    if (again) return; /* counted when it was read first */
    if (!whole)
        wane__count(&wane__under_counts.certified, 1);
    else
        wane__count(&wane__under_counts.dense[status != WANE_OK ? WANE__WHY_FAILED
                                              : need->whole     ? WANE__WHY_WHOLE
                                                                : WANE__WHY_MANY],
                    1);
}

void wane__row_read(struct wane__under *u, int row, float *logits, const struct wane__need *need,
                    bool counts) {
    static const struct wane__need all = {.whole = true};
    struct wane__under_row *r = &u->row[row];
    double began = wane__now();
    if (counts) r->reads++;
    if (r->state == WANE__ROW_RAW) {
        make(u, row, logits, need, false);
    } else if (r->state == WANE__ROW_SOME && (r->reads > 1 || need->whole)) {
        wane__count(&wane__under_counts.dense[WANE__WHY_AGAIN], 1);
        make(u, row, logits, &all, true);
    } else {
        return;
    }
    u->spent += wane__now() - began;
}

/* -------------------------------------------------------------------- check */

static bool same_bits(const float *a, const float *b) {
    uint32_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x == y;
}

/* No token that is not on the list may be better than the list's last one. */
static bool none_missing(const struct wane__under *u, const struct found *found, const float *dense,
                         int32_t *token) {
    int better = 0, listed = 0;
    for (int i = 0; i < u->vocab; i++) better += dense[i] > found->bar;
    for (int i = 0; i < found->count && u->list[i].logit > found->bar; i++) listed++;
    *token = -1;
    return better == listed;
}

bool wane__row_check(struct wane__under *u, int row, const float *dense, const struct wane__need *need,
                     int32_t *token, double *seconds) {
    struct found found;
    double began = wane__now();
    int status = select_row(u, row, need, &found);
    *seconds = wane__now() - began;
    *token = -1;
    if (status != WANE_OK) return false;
    for (int i = 0; found.whole != NULL && i < u->vocab; i++) {
        *token = i;
        if (!same_bits(&found.whole[i], &dense[i])) return false;
    }
    if (found.whole != NULL) return true;
    for (int i = 0; i < found.count; i++) {
        *token = u->list[i].token;
        if (!same_bits(&u->list[i].logit, &dense[*token])) return false;
    }
    /* Named tokens stand behind the list, and may be worse than its bar. */
    found.count -= need->named_count;
    return none_missing(u, &found, dense, token);
}
