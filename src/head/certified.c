/*
 * certified.c - the certified head: scans, the bar, survivors, exact rescoring, answers.
 *
 *     seeds     the rows with the best estimates, computed exactly: they set the bar, the count-th best of them
 *     level 1   rows whose upper bound reaches the bar (equal is enough: it may win by its smaller id)
 *     level 2   those again, with 4 bits
 *     exact     what is left
 *
 * What becomes known of a row stays known until the next scan, so that a growing question costs only what is
 * new. When a quarter of the rows cannot be ruled out, or hidden holds NaN, all are computed, and the dense
 * source answers. Nothing here allocates after opening.
 */
#include "head/certified.h"

#include "core/error.h"
#include "core/file.h"
#include "core/memory.h"
#include "head/multiply.h"
#include "sample/order.h"

#include <math.h>
#include <string.h>

enum {
    FEW = 48,           /* rows that are computed exactly at once: level 2 would cost as much */
    FEW_SEEDS = 8,      /* computed without refining others */
    SEEDS_REFINED = 12, /* for each one wanted */
    TRIED = 1024,       /* survivors refined to see how many will be left */
    SHARED = 128,       /* rows from which on the pool pays */
    PIECE = 64,         /* rows in a part */
    DENSE_PIECE = 1024,
    TOO_MANY = 1, /* a status: too many rows are left */
};

static struct wane__head_row *row_of(struct wane__source *source) {
    return (struct wane__head_row *)(void *)source;
}

/* ------------------------------------------------------------------------- exactly */

struct rescoring {
    struct wane__head_row *row;
    int count;
    int piece;
    _Atomic int status;
};

static void rescore_part(void *user, int part) {
    struct rescoring *r = user;
    struct wane__head *head = r->row->head;
    int from = part * r->piece, n = r->count - from < r->piece ? r->count - from : r->piece;
    const struct wane__head_weights *w = &head->weights;
    int status =
        r->row->prepared != NULL
            ? w->rescore_prepared(w->user, r->row->prepared, head->list + from, n, head->values + from)
            : w->rescore(w->user, r->row->hidden, head->list + from, n, head->values + from);
    if (status != WANE_OK) r->status = status;
}

static int rescore_list(struct wane__head_row *row, int count, int piece) {
    struct rescoring r = {.row = row, .count = count, .piece = count <= SHARED ? count : piece};
    if (count == 0) return WANE_OK;
    wane__pool_run(row->head->pool, rescore_part, &r, (count + r.piece - 1) / r.piece);
    return r.status;
}

/* Compute head->list exactly and note what comes out. The list must not name a row that is known. */
static int compute(struct wane__head_row *row, int count) {
    struct wane__head *head = row->head;
    int status = rescore_list(row, count, PIECE);
    if (status != WANE_OK) return status;
    head->counts.rescored += (uint64_t)count;
    row->work += count;
    for (int i = 0; i < count; i++) {
        int32_t id = head->list[i];
        float logit = head->values[i];
        uint8_t *state = wane__state(row, id);
        if (logit != logit) return WANE_EENGINE;
        *wane__estimate(row, id) = logit;
        *wane__half(row, id) = 0;
        *state = (uint8_t)((*state & WANE__LEFT_OUT) | WANE__KNOWN_EXACT);
        row->exact[row->exact_count++] = (struct wane__candidate){id, logit};
    }
    return WANE_OK;
}

int wane__head_make_dense(struct wane__head_row *row, uint64_t *counter) {
    struct wane__head *head = row->head;
    if (row->dense) return WANE_OK;
    int vocab = head->weights.vocab_size;
    for (int i = 0; i < vocab; i++) head->list[i] = i;
    int status = rescore_list(row, vocab, DENSE_PIECE);
    if (status != WANE_OK) return status;
    memcpy(row->logits, head->values, (size_t)vocab * sizeof *head->values);
    wane__dense_source_init(&row->all, row->logits, vocab);
    row->dense = true;
    if (counter != NULL) ++*counter;
    head->counts.rescored += (uint64_t)vocab;
    return WANE_OK;
}

/* ------------------------------------------------------------------------- level 2 */

static void refine_one(struct wane__head_row *row, int32_t id) {
    const struct wane__sketch *sketch = &row->head->sketch;
    const struct wane__scan_query *query = &row->query;
    const uint8_t *record = sketch->level2 + (size_t)id * sketch->shape.record_bytes;
    const uint8_t *nibbles = record + sketch->shape.record_head;
    float head[1 + 2 * WANE__SKETCH_GROUPS], variance = 0;
    memcpy(head, record, 4 + 8 * (size_t)sketch->header.groups);
    float estimate = head[0] + query->constant;
    for (int g = 0; g < sketch->header.groups; g++) {
        const struct wane__scan_group *group = &query->group[g];
        float scale = head[1 + 2 * g], length = head[2 + 2 * g];
        int32_t sum = row->head->kernels->fine(nibbles, group->fine, group->dims);
        estimate += scale * (group->fine_step * ((float)sum + group->fine_offset));
        variance += length * length * group->fine_error_row + scale * scale * group->fine_error_query;
        nibbles += group->dims / 2;
    }
    float half = query->sigmas * sqrtf(variance) + query->slack;
    *wane__state(row, id) |= WANE__KNOWN_LEVEL2;
    if (!(half < *wane__half(row, id))) return;
    *wane__estimate(row, id) = estimate;
    *wane__half(row, id) = half;
}

struct refining {
    struct wane__head_row *row;
    int count;
};

static void refine_part(void *user, int part) {
    const struct refining *r = user;
    const struct wane__sketch *sketch = &r->row->head->sketch;
    const int32_t *list = r->row->head->list;
    int from = part * PIECE, to = from + PIECE < r->count ? from + PIECE : r->count;
    for (int i = from; i < to; i++) {
        if (i + 8 < r->count) { /* records lie far apart: ask for one some way ahead */
            const uint8_t *ahead = sketch->level2 + (size_t)list[i + 8] * sketch->shape.record_bytes;
            for (size_t at = 0; at < sketch->shape.record_bytes; at += 64) __builtin_prefetch(ahead + at);
        }
        if (!(*wane__state(r->row, list[i]) & WANE__KNOWN_LEVEL2)) refine_one(r->row, list[i]);
    }
}

void wane__head_refine(struct wane__head_row *row, int count) {
    struct refining r = {row, count};
    int fresh = 0;
    for (int i = 0; i < count; i++) fresh += !(*wane__state(row, row->head->list[i]) & WANE__KNOWN_LEVEL2);
    row->work += fresh / 2;
    wane__pool_run(row->head->pool, refine_part, &r, (count + PIECE - 1) / PIECE);
}

/* ----------------------------------------------------------------------- selection */

/* The `count`-th largest of x (count >= 1, x is reordered); -INFINITY when there are fewer. */
static float nth_largest(float *x, int n, int count) {
    if (count > n) return -INFINITY;
    int low = 0, high = n - 1, want = count - 1;
    while (low < high) {
        float pivot = x[low + (high - low) / 2];
        int i = low, j = high;
        while (i <= j) {
            while (x[i] > pivot) i++;
            while (x[j] < pivot) j--;
            if (i > j) break;
            float keep = x[i];
            x[i++] = x[j];
            x[j--] = keep;
        }
        if (want <= j)
            high = j;
        else if (want >= i)
            low = i;
        else
            break;
    }
    return x[want];
}

/* The count-th best logit among the rows that are known exactly and not left out. */
static float find_bar(struct wane__head_row *row, int count) {
    float *x = row->head->values;
    int n = 0;
    for (int i = 0; i < row->exact_count; i++)
        if (!(*wane__state(row, row->exact[i].token) & WANE__LEFT_OUT)) x[n++] = row->exact[i].logit;
    return nth_largest(x, n, count);
}

/* Rows of one block with an estimate of at least `least` that are not known yet, onto the list. */
static int add_seeds(struct wane__head_row *row, int32_t block, float least, int have) {
    const struct wane__scan_block *known = &row->query.known[block];
    int32_t first = block * WANE__SKETCH_ROWS, left = row->source.vocab_size - first;
    for (int r = 0; r < WANE__SKETCH_ROWS && r < left; r++)
        if (known->estimate[r] >= least && known->state[r] < WANE__KNOWN_EXACT)
            row->head->list[have++] = first + r;
    return have;
}

/*
 * About `count` rows with the best estimates, onto the list. The count-th best of the blocks' best estimates is
 * no better than the count-th best estimate, so that the rows which reach it are at least as many, and rarely
 * many more.
 */
static int find_seeds(struct wane__head_row *row, int count) {
    struct wane__head *head = row->head;
    int blocks = (int)head->sketch.shape.blocks, vocab = row->source.vocab_size, found = 0, have = 0;
    struct wane__dense_source best;
    if (count <= blocks / 2) {
        wane__dense_source_init(&best, row->query.block_estimate, blocks);
        best.source.best(&best.source, count, NULL, 0, head->picked, &found);
        float least = found > 0 ? head->picked[found - 1].logit : -INFINITY;
        for (int i = 0; i < found; i++) have = add_seeds(row, head->picked[i].token, least, have);
        return have;
    }
    for (int32_t id = 0; id < vocab; id++) head->values[id] = *wane__estimate(row, id);
    wane__dense_source_init(&best, head->values, vocab);
    best.source.best(&best.source, count, NULL, 0, head->picked, &found);
    for (int i = 0; i < found; i++)
        if (*wane__state(row, head->picked[i].token) < WANE__KNOWN_EXACT)
            head->list[have++] = head->picked[i].token;
    return have;
}

/* Rows of one block that may reach the bar, onto the list. */
static int add_survivors(const struct wane__scan_block *known, int32_t first, float bar, int32_t *list,
                         int have) {
    uint8_t alive[WANE__SKETCH_ROWS];
    for (int r = 0; r < WANE__SKETCH_ROWS; r++)
        alive[r] =
            (uint8_t)((known->estimate[r] + known->half[r] >= bar) & (known->state[r] < WANE__KNOWN_EXACT));
    for (int r = 0; r < WANE__SKETCH_ROWS; r += 8) {
        uint64_t eight;
        memcpy(&eight, alive + r, sizeof eight);
        for (; eight != 0; eight &= eight - 1) list[have++] = first + r + __builtin_ctzll(eight) / 8;
    }
    return have;
}

/* Rows that may reach the bar, onto the list. Rows past the vocabulary's end are among them when all are. */
static int find_survivors(struct wane__head_row *row, float bar) {
    const struct wane__scan_query *query = &row->query;
    int32_t vocab = row->source.vocab_size, *list = row->head->list;
    int have = 0;
    for (size_t b = 0; b < row->head->sketch.shape.blocks; b++)
        if (query->block_upper[b] >= bar)
            have = add_survivors(&query->known[b], (int32_t)b * WANE__SKETCH_ROWS, bar, list, have);
    while (have > 0 && list[have - 1] >= vocab) have--;
    return have;
}

/* Of the list from `from` on, those that may still reach the bar; they move to the front. */
static int filter(struct wane__head_row *row, int from, int to, float bar) {
    int32_t *list = row->head->list;
    int have = 0;
    for (int i = from; i < to; i++) {
        int32_t id = list[i];
        if (*wane__estimate(row, id) + *wane__half(row, id) >= bar &&
            *wane__state(row, id) < WANE__KNOWN_EXACT)
            list[have++] = id;
    }
    return have;
}

/* --------------------------------------------------------------------------- best */

/* Bring the rows of the list with the `count` best estimates to its front; how many they are. */
static int bring_forward(struct wane__head_row *row, int listed, int count) {
    struct wane__head *head = row->head;
    for (int i = 0; i < listed; i++) head->values[i] = *wane__estimate(row, head->list[i]);
    float least = nth_largest(head->values, listed, count);
    int first = 0;
    for (int i = 0; i < listed; i++) {
        int32_t id = head->list[i];
        if (!(*wane__estimate(row, id) >= least)) continue;
        head->list[i] = head->list[first];
        head->list[first++] = id;
    }
    return first;
}

/*
 * The first bar. For one token the best few estimates will do. For more, their errors would leave it far below
 * where it belongs: so many more are refined, and the best of those computed.
 */
static int raise_bar(struct wane__head_row *row, int count, int skips, float *bar) {
    int wanted = count + skips, seeds;
    if (wanted < FEW_SEEDS) {
        seeds = find_seeds(row, wanted + FEW_SEEDS);
    } else {
        int wide = SEEDS_REFINED * wanted, cheap = (int)row->head->sketch.shape.blocks / 2;
        if (wide > cheap) wide = cheap > wanted ? cheap : wanted;
        seeds = find_seeds(row, wide);
        wane__head_refine(row, seeds);
        seeds = bring_forward(row, seeds, wanted);
    }
    int status = compute(row, seeds);
    *bar = find_bar(row, count);
    return status;
}

/*
 * Many have survived level 1. Refine them, if that is worth while: of very many a first part tells. With the best of
 * them computed the bar rises again; then the rest.
 */
static int settle(struct wane__head_row *row, int survivors, int count, float bar) {
    struct wane__head *head = row->head;
    if (!wane__head_affords(row, survivors / 2) && survivors > 4 * TRIED) return TOO_MANY;
    if (survivors > 16 * TRIED) {
        int stride = survivors / TRIED, left = 0;
        for (int i = 0; i < TRIED; i++) { /* spread over the vocabulary */
            int32_t keep = head->list[i];
            head->list[i] = head->list[i * stride];
            head->list[i * stride] = keep;
        }
        wane__head_refine(row, TRIED);
        for (int i = 0; i < TRIED; i++)
            left += *wane__estimate(row, head->list[i]) + *wane__half(row, head->list[i]) >= bar;
        if (!wane__head_affords(row, (survivors - TRIED) / 2 + (int64_t)left * survivors / TRIED))
            return TOO_MANY;
    }
    wane__head_refine(row, survivors);
    survivors = filter(row, 0, survivors, bar);
    head->counts.survivors2 += (uint64_t)survivors;
    if (survivors > 2 * count + FEW) {
        int first = bring_forward(row, survivors, count);
        int status = compute(row, first);
        if (status != WANE_OK) return status;
        survivors = filter(row, first, survivors, find_bar(row, count));
    }
    return wane__head_affords(row, survivors) ? compute(row, survivors) : TOO_MANY;
}

/* An answer says of all other rows that they do not pass its bar; of those left out only if they are known. */
static void note_bar(struct wane__head_row *row, float bar, const int32_t *skip, int skips) {
    for (int i = 0; i < skips; i++)
        if (!(*wane__state(row, skip[i]) & WANE__KNOWN_EXACT)) return;
    if (bar < row->bar) row->bar = bar;
}

static int answer(struct wane__head_row *row, int count, const int32_t *skip, int skips,
                  struct wane__candidate *out, int *found) {
    struct wane__head *head = row->head;
    float bar = find_bar(row, count);
    int have = 0;
    for (int i = 0; i < row->exact_count; i++) {
        struct wane__candidate one = row->exact[i];
        if (one.logit >= bar && !(*wane__state(row, one.token) & WANE__LEFT_OUT)) head->picked[have++] = one;
    }
    wane__sort_candidates(head->picked, have);
    *found = have < count ? have : count;
    memcpy(out, head->picked, (size_t)*found * sizeof *out);
    note_bar(row, bar, skip, skips);
    return WANE_OK;
}

static int best_certified(struct wane__head_row *row, int count, const int32_t *skip, int skips,
                          struct wane__candidate *out, int *found) {
    struct wane__head *head = row->head;
    float bar;
    if (!wane__head_affords(row, (int64_t)count + skips)) return TOO_MANY;
    int status = raise_bar(row, count, skips, &bar);
    if (status != WANE_OK) return status;
    int survivors = find_survivors(row, bar);
    head->counts.survivors1 += (uint64_t)survivors;
    if (survivors > FEW) {
        status = settle(row, survivors, count, bar);
    } else {
        head->counts.survivors2 += (uint64_t)survivors;
        status = compute(row, survivors);
    }
    return status == WANE_OK ? answer(row, count, skip, skips, out, found) : status;
}

static int head_best(struct wane__source *source, int count, const int32_t *skip, int skips,
                     struct wane__candidate *out, int *found) {
    struct wane__head_row *row = row_of(source);
    int status = row->status;
    *found = 0;
    if (status != WANE_OK || count <= 0) return status;
    row->head->counts.questions++;
    if (!row->dense) {
        for (int i = 0; i < skips; i++) *wane__state(row, skip[i]) |= WANE__LEFT_OUT;
        status = best_certified(row, count, skip, skips, out, found);
        for (int i = 0; i < skips; i++) *wane__state(row, skip[i]) &= (uint8_t)~WANE__LEFT_OUT;
        if (status != TOO_MANY) return status;
        status = wane__head_make_dense(row, &row->head->counts.dense_many);
        if (status != WANE_OK) return status;
    }
    return row->all.source.best(&row->all.source, count, skip, skips, out, found);
}

static int head_fetch(struct wane__source *source, const int32_t *tokens, int count, float *logits) {
    struct wane__head_row *row = row_of(source);
    struct wane__head *head = row->head;
    if (row->status != WANE_OK) return row->status;
    head->counts.questions++;
    if (row->dense) return row->all.source.fetch(&row->all.source, tokens, count, logits);
    int missing = 0;
    for (int i = 0; i < count; i++) {
        if (tokens[i] < 0 || tokens[i] >= source->vocab_size) return WANE_EINVAL;
        uint8_t *state = wane__state(row, tokens[i]);
        if (*state >= WANE__KNOWN_EXACT) continue; /* known, or listed a moment ago */
        *state |= WANE__LEFT_OUT;
        head->list[missing++] = tokens[i];
    }
    int status = compute(row, missing);
    for (int i = 0; i < missing; i++) *wane__state(row, head->list[i]) &= (uint8_t)~WANE__LEFT_OUT;
    if (status != WANE_OK) return status;
    for (int i = 0; i < count; i++) logits[i] = *wane__estimate(row, tokens[i]);
    return WANE_OK;
}

static int head_log_sum(struct wane__source *source, float scale, const int32_t *skip, int skips,
                        double *out) {
    struct wane__head_row *row = row_of(source);
    if (row->status != WANE_OK) return row->status;
    row->head->counts.questions++;
    int status = wane__head_make_dense(row, &row->head->counts.dense_sum);
    return status == WANE_OK ? row->all.source.log_sum(&row->all.source, scale, skip, skips, out) : status;
}

/* --------------------------------------------------------------------------- scan */

struct scanning {
    struct wane__head *head;
    struct wane__scan_query *queries;
    int count, parts;
};

static void map_part(void *user, int part) {
    const struct scanning *s = user;
    const struct wane__head *head = s->head;
    int d = head->sketch.header.d, padded = head->sketch.shape.padded, panels = padded / WANE__PANEL;
    int from = panels * part / s->parts * WANE__PANEL, to = panels * (part + 1) / s->parts * WANE__PANEL;
    wane__multiply(head->seen, (size_t)d, s->count, head->sketch.map + (size_t)from * (size_t)d, to - from, d,
                   head->mapped + from, (size_t)padded);
}

static void scan_part(void *user, int part) {
    const struct scanning *s = user;
    size_t blocks = s->head->sketch.shape.blocks, parts = (size_t)s->parts;
    s->head->kernels->scan(&s->head->sketch, blocks * (size_t)part / parts,
                           blocks * ((size_t)part + 1) / parts, s->queries, s->count);
}

/* Without a map: the coordinates themselves, in their groups. */
static void place(const struct wane__head *head, const float *from, float *to) {
    memset(to, 0, (size_t)head->sketch.shape.padded * sizeof *to);
    for (int g = 0; g < head->sketch.header.groups; g++) {
        const struct wane__sketch_group *group = &head->sketch.header.group[g];
        memcpy(to, from, (size_t)group->real * sizeof *to);
        from += group->real;
        to += group->dims;
    }
}

/* Rows as the products see them; false for one that the sketch cannot bound. */
static bool look(struct wane__head *head, struct wane__head_row *row, float *seen) {
    int d = head->weights.d;
    if (row->status != WANE_OK) return false;
    if (head->weights.seen != NULL) {
        row->status = head->weights.seen(head->weights.user, row->hidden, row->prepared, seen);
        if (row->status != WANE_OK) return false;
    } else {
        memcpy(seen, row->hidden, (size_t)d * sizeof *seen);
    }
    double length2 = 0;
    for (int i = 0; i < d; i++) length2 += (double)seen[i] * (double)seen[i];
    return isfinite(length2) && length2 < 1e30 && isfinite(head->sigmas);
}

static void scan_rows(struct wane__head *head, int rows) {
    int d = head->weights.d, padded = head->sketch.shape.padded, threads = wane__pool_threads(head->pool);
    struct wane__scan_query queries[WANE__HEAD_MOST_ROWS];
    /* Parts are small: a worker that must wake first comes late. */
    struct scanning s = {.head = head, .queries = queries, .count = rows, .parts = threads > 1 ? 8 : 1};
    for (int r = 0; r < rows; r++)
        wane__query_constant(head, &head->row[r], head->seen + (size_t)r * (size_t)d);
    if (head->sketch.map != NULL) {
        wane__pool_run(head->pool, map_part, &s, s.parts);
    } else {
        for (int r = 0; r < rows; r++)
            place(head, head->seen + (size_t)r * (size_t)d, head->mapped + (size_t)r * (size_t)padded);
    }
    for (int r = 0; r < rows; r++) {
        wane__query_prepare(head, &head->row[r], head->mapped + (size_t)r * (size_t)padded, head->rotating);
        queries[r] = head->row[r].query;
    }
    s.parts = threads > 1 ? 12 * threads : 1;
    wane__pool_run(head->pool, scan_part, &s, s.parts);
}

void wane__head_wake(struct wane__head *head) {
    wane__pool_wake(head->pool);
}

void wane__head_rest(struct wane__head *head) {
    wane__pool_rest(head->pool);
}

int wane__head_scan(struct wane__head *head, const float *hidden, int rows) {
    if (rows < 1 || rows > head->rows_most) return WANE_EINVAL;
    size_t d = (size_t)head->weights.d;
    bool fine = true;
    for (int r = 0; r < rows; r++) {
        struct wane__head_row *row = &head->row[r];
        row->hidden = hidden + (size_t)r * d;
        row->status = WANE_OK;
        row->dense = false;
        row->exact_count = 0;
        row->work = 0;
        row->bar = INFINITY;
        if (row->prepared != NULL)
            row->status = head->weights.prepare(head->weights.user, row->hidden, row->prepared);
        fine = look(head, row, head->seen + (size_t)r * d) && fine;
    }
    head->rows = rows;
    head->counts.rows += (uint64_t)rows;
    if (fine) {
        scan_rows(head, rows);
        return WANE_OK;
    }
    for (int r = 0; r < rows; r++) { /* rare: all of them densely, so that NaN stays what it is */
        struct wane__head_row *row = &head->row[r];
        if (row->status == WANE_OK) row->status = wane__head_make_dense(row, &head->counts.dense_many);
        if (row->status != WANE_OK) return row->status;
    }
    return WANE_OK;
}

struct wane__source *wane__head_source(struct wane__head *head, int row) {
    return row < 0 || row >= head->rows ? NULL : &head->row[row].source;
}

int wane__head_dense(struct wane__head *head, int row, const float **logits) {
    *logits = NULL;
    if (row < 0 || row >= head->rows) return WANE_EINVAL;
    int status = head->row[row].status;
    if (status == WANE_OK) status = wane__head_make_dense(&head->row[row], NULL);
    if (status == WANE_OK) *logits = head->row[row].logits;
    return status;
}

/* --------------------------------------------------------------------------- open */

static size_t round_up(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

/* Hand out the next piece of one block of memory; with base NULL only the size is counted. */
static void *carve(char *base, size_t *at, size_t bytes) {
    void *here = base != NULL ? base + *at : NULL;
    *at += round_up(bytes);
    return here;
}

static size_t lay_out(struct wane__head *head, char *base) {
    size_t at = 0, d = (size_t)head->weights.d;
    size_t padded = (size_t)head->sketch.shape.padded, blocks = head->sketch.shape.blocks;
    size_t rows = (size_t)head->rows_most, all = blocks * WANE__SKETCH_ROWS;
    head->seen = carve(base, &at, rows * d * sizeof(float));
    head->mapped = carve(base, &at, rows * padded * sizeof(float));
    head->rotating = carve(base, &at, padded * sizeof(float));
    head->list = carve(base, &at, (all + 1) * sizeof(int32_t));
    head->values = carve(base, &at, all * sizeof(float));
    head->picked = carve(base, &at, all * sizeof(struct wane__candidate));
    for (size_t r = 0; r < rows && head->row != NULL; r++) {
        struct wane__head_row *row = &head->row[r];
        row->query.known = carve(base, &at, blocks * sizeof(struct wane__scan_block));
        row->logits = carve(base, &at, all * sizeof(float));
        row->query.block_upper = carve(base, &at, blocks * sizeof(float));
        row->query.block_estimate = carve(base, &at, blocks * sizeof(float));
        row->tables = carve(base, &at, padded * 8);
        row->fine = carve(base, &at, padded);
        row->exact = carve(base, &at, all * sizeof(struct wane__candidate));
        row->prepared = carve(base, &at, head->weights.prepared_size);
        if (head->weights.prepare == NULL || head->weights.prepared_size == 0) row->prepared = NULL;
    }
    return at;
}

static int open_memory(struct wane__head *head, int threads, wane_error *error) {
    size_t rows = (size_t)head->rows_most;
    head->row = wane__alloc_zero(rows, sizeof *head->row);
    size_t bytes = lay_out(head, NULL);
    head->block = head->row != NULL ? wane__alloc_aligned(64, bytes) : NULL;
    if (head->block == NULL || wane__pool_new(threads, &head->pool) != WANE_OK)
        return wane__fail(error, WANE_ENOMEM, "No memory for the certified head (%zu bytes).", bytes);
    memset(head->block, 0, bytes); /* so that no page is first touched within a step */
    lay_out(head, head->block);
    for (size_t r = 0; r < rows; r++) {
        head->row[r].head = head;
        head->row[r].source = (struct wane__source){.vocab_size = head->weights.vocab_size,
                                                    .best = head_best,
                                                    .fetch = head_fetch,
                                                    .log_sum = head_log_sum,
                                                    .log_sum_bounds = wane__head_log_sum_bounds,
                                                    .log_sum_guess = wane__head_log_sum_guess};
    }
    return WANE_OK;
}

int wane__head_open(const char *path, const struct wane__head_weights *weights, const char *digest, float k,
                    int threads, int rows_most, struct wane__head **head, wane_error *error) {
    *head = NULL;
    if (!(k > 0) || rows_most < 1 || rows_most > WANE__HEAD_MOST_ROWS)
        return wane__fail(error, WANE_EINVAL, "A certified head needs k above 0 (%g) and 1 to %d rows (%d).",
                          (double)k, WANE__HEAD_MOST_ROWS, rows_most);
    struct wane__head *made = wane__alloc_zero(1, sizeof *made);
    if (made == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for the certified head.");
    made->weights = *weights;
    made->sigmas = k;
    made->rows_most = rows_most;
    made->kernels = wane__scan_kernels();
    int status = wane__sketch_open(path, digest, &made->sketch, error);
    if (status == WANE_OK &&
        (made->sketch.header.vocab_size != weights->vocab_size || made->sketch.header.d != weights->d))
        status = wane__fail(error, WANE_EFORMAT, "The head's sketch %s is of %d × %d, the head of %d × %d.",
                            path, made->sketch.header.vocab_size, made->sketch.header.d, weights->vocab_size,
                            weights->d);
    if (status == WANE_OK) status = open_memory(made, threads, error);
    if (status != WANE_OK) {
        wane__head_free(made);
        return status;
    }
    *head = made;
    return WANE_OK;
}

void wane__head_free(struct wane__head *head) {
    if (head == NULL) return;
    wane__pool_free(head->pool);
    wane__sketch_close(&head->sketch);
    wane__free(head->row);
    wane__free(head->block);
    wane__free(head);
}

void wane__head_get_facts(const struct wane__head *head, struct wane__sketch_facts *facts) {
    const struct wane__sketch *sketch = &head->sketch;
    double weights = (double)sketch->header.vocab_size * (double)sketch->header.d;
    *facts = (struct wane__sketch_facts){
        .vocab_size = sketch->header.vocab_size,
        .d = sketch->header.d,
        .padded = sketch->shape.padded,
        .bits_level1 = 8.0 * (double)sketch->header.section[WANE__SECTION_LEVEL1].size / weights,
        .bits_level2 = 8.0 * (double)sketch->header.section[WANE__SECTION_LEVEL2].size / weights,
        .bytes = sketch->mapped_size,
        .statistics_rows = sketch->header.statistics_rows,
    };
    memcpy(facts->digest, sketch->header.digest, sizeof sketch->header.digest);
}

int wane__head_save(const struct wane__head *head, const char *path, wane_error *error) {
    return wane__file_write(path, "the head's sketch to", head->sketch.mapped, head->sketch.mapped_size, 0644,
                            error);
}

int wane__head_use_kernel(struct wane__head *head, const char *name) {
    const struct wane__scan_kernels *kernels;
    for (int i = 0; (kernels = wane__scan_kernels_at(i)) != NULL; i++) {
        if (strcmp(kernels->name, name) != 0) continue;
        head->kernels = kernels;
        return WANE_OK;
    }
    return WANE_EUNSUPPORTED;
}

const char *wane__head_kernel(const struct wane__head *head) {
    return head->kernels->name;
}

void wane__head_get_counts(const struct wane__head *head, struct wane__head_counts *counts) {
    *counts = head->counts;
}
