/*
 * dense.c - the dense head's row as a source of candidates.
 *
 * It owns nothing and allocates nothing: it reads the row as often as a question needs and answers into the
 * caller's memory. It refuses rows that hold NaN.
 *
 * A few best tokens: the row is cut into at most 1,024 blocks and read once for their maxima. The k-th
 * largest maximum bounds the k-th best logit from below, so that about k blocks are read again, in scalar
 * code. Many: a radix selection finds the key of the k-th best in three readings, the winners are copied and
 * sorted in place. All of them: copied and sorted. So the worst case is linear in V, ties and flat rows
 * included.
 */
#include "head/row.h"
#include "sample/order.h"

#include <math.h>

enum {
    MOST_BLOCKS = 1024,
    SHORTEST_BLOCK = 64,
    FEW = 64,    /* up to here candidates are kept sorted by insertion */
    BINS = 2048, /* 11 bits of a key */
};

/* The tokens that a question leaves out, walked in step with an ascending scan. */
struct skips {
    const int32_t *token;
    int count, at;
};

static struct skips skips_from(const int32_t *skip, int count, int32_t first) {
    int low = 0, high = count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (skip[middle] < first)
            low = middle + 1;
        else
            high = middle;
    }
    return (struct skips){skip, count, low};
}

/* Is `token` left out? Ask in ascending order. */
static inline bool skipped(struct skips *skips, int32_t token) {
    while (skips->at < skips->count && skips->token[skips->at] < token) skips->at++;
    return skips->at < skips->count && skips->token[skips->at] == token;
}

/* The next run of tokens that are not left out, from `*from` on; false at the end of the vocabulary. */
static bool next_run(struct skips *skips, int vocab_size, int *from, int *to) {
    while (skipped(skips, *from)) ++*from;
    *to = skips->at < skips->count && skips->token[skips->at] < vocab_size ? skips->token[skips->at]
                                                                           : vocab_size;
    return *from < *to;
}

/* --------------------------------------------------------------- a few best */

struct blocks {
    int size, count;
    float max[MOST_BLOCKS];
};

static bool measure_blocks(const struct wane__dense_source *dense, const int32_t *skip, int skips,
                           struct blocks *blocks) {
    int vocab = dense->source.vocab_size;
    int size = (vocab + MOST_BLOCKS - 1) / MOST_BLOCKS;
    blocks->size = size > SHORTEST_BLOCK ? size : SHORTEST_BLOCK;
    blocks->count = (vocab + blocks->size - 1) / blocks->size;
    if (!dense->kernels->block_max(dense->logits, vocab, blocks->size, blocks->max)) return false;
    /* A block that holds a token to be left out is measured again without it. */
    for (int i = 0; i < skips;) {
        int block = skip[i] / blocks->size, from = block * blocks->size;
        int to = from + blocks->size < vocab ? from + blocks->size : vocab;
        float max = -INFINITY;
        for (int32_t t = from; t < to; t++) {
            if (i < skips && skip[i] == t)
                i++;
            else if (dense->logits[t] > max)
                max = dense->logits[t];
        }
        blocks->max[block] = max;
    }
    return true;
}

/* Insert into a list that holds `*have` of at most `count`, best first. */
static inline void insert(struct wane__candidate *out, int count, int *have, struct wane__candidate one) {
    if (*have == count) {
        if (!wane__better(one, out[count - 1])) return;
        --*have;
    }
    int at = (*have)++;
    for (; at > 0 && wane__better(one, out[at - 1]); at--) out[at] = out[at - 1];
    out[at] = one;
}

/* The `count`-th largest of the blocks' maxima; -INFINITY when there are fewer blocks. */
static float bar_of(const struct blocks *blocks, int count) {
    struct wane__candidate best[FEW];
    int have = 0;
    if (count > blocks->count) return -INFINITY;
    for (int b = 0; b < blocks->count; b++)
        insert(best, count, &have, (struct wane__candidate){b, blocks->max[b]});
    return best[count - 1].logit;
}

static int best_few(const struct wane__dense_source *dense, int count, const int32_t *skip, int skips,
                    struct wane__candidate *out, int *found) {
    struct blocks blocks;
    *found = 0;
    if (!measure_blocks(dense, skip, skips, &blocks)) return WANE_EENGINE;
    float bar = bar_of(&blocks, count);
    int vocab = dense->source.vocab_size;
    for (int b = 0; b < blocks.count; b++) {
        if (blocks.max[b] < bar) continue;
        int from = b * blocks.size, to = from + blocks.size < vocab ? from + blocks.size : vocab;
        struct skips left_out = skips_from(skip, skips, from);
        for (int32_t t = from; t < to; t++) {
            float logit = dense->logits[t];
            if (logit < bar || skipped(&left_out, t)) continue;
            insert(out, count, found, (struct wane__candidate){t, logit});
            if (*found == count && out[count - 1].logit > bar) bar = out[count - 1].logit;
        }
    }
    return WANE_OK;
}

/* ---------------------------------------------------------------- many best */

/*
 * How many tokens have each value of (key >> shift) & (BINS - 1), among those whose higher bits are `prefix`.
 */
static bool count_bins(const struct wane__dense_source *dense, const int32_t *skip, int skips, int shift,
                       uint32_t prefix, int bins[BINS]) {
    struct skips left_out = {skip, skips, 0};
    memset(bins, 0, BINS * sizeof *bins);
    bool fine = true;
    for (int from = 0, to; next_run(&left_out, dense->source.vocab_size, &from, &to); from = to) {
        for (int t = from; t < to; t++) {
            float logit = dense->logits[t];
            uint32_t key = wane__rank_key(logit);
            fine &= !(logit != logit);
            if ((uint64_t)key >> (shift + 11) == prefix) bins[key >> shift & (BINS - 1)]++;
        }
    }
    return fine;
}

/*
 * The key of the `count`-th best, and how many of that very key belong to the best. 32 bits in three readings
 * of eleven: the last one begins with a bit that is known already.
 */
static int select_key(const struct wane__dense_source *dense, int count, const int32_t *skip, int skips,
                      uint32_t *key, int *of_key) {
    static const int shift[3] = {21, 10, 0};
    uint32_t prefix = 0; /* the key's bits above shift */
    for (int pass = 0; pass < 3; pass++) {
        int bins[BINS], bin = 0;
        if (pass == 2) {
            bin = (int)(prefix & 1) << 10;
            prefix >>= 1;
        }
        if (!count_bins(dense, skip, skips, shift[pass], prefix, bins)) return WANE_EENGINE;
        while (count > bins[bin]) count -= bins[bin++];
        prefix = prefix << 11 | (uint32_t)bin;
    }
    *key = prefix;
    *of_key = count;
    return WANE_OK;
}

static int best_many(const struct wane__dense_source *dense, int count, const int32_t *skip, int skips,
                     struct wane__candidate *out, int *found) {
    uint32_t key = UINT32_MAX;
    int of_key = count, status = WANE_OK, have = 0;
    *found = 0;
    /* Skipped tokens are in the vocabulary and differ (the contract), so this is what is left. */
    bool all = count >= dense->source.vocab_size - skips;
    if (!all) status = select_key(dense, count, skip, skips, &key, &of_key);
    if (status != WANE_OK) return status;
    struct skips left_out = {skip, skips, 0};
    for (int from = 0, to; next_run(&left_out, dense->source.vocab_size, &from, &to); from = to) {
        for (int32_t t = from; t < to && have < count; t++) {
            float logit = dense->logits[t];
            if (logit != logit) return WANE_EENGINE;
            uint32_t own = wane__rank_key(logit);
            if (own < key || (own == key && of_key-- > 0)) out[have++] = (struct wane__candidate){t, logit};
        }
    }
    wane__sort_candidates(out, have);
    *found = have;
    return WANE_OK;
}

/* ---------------------------------------------------------------- questions */

static int dense_best(struct wane__source *source, int count, const int32_t *skip, int skips,
                      struct wane__candidate *out, int *found) {
    const struct wane__dense_source *dense = (const struct wane__dense_source *)source;
    *found = 0;
    if (count <= 0) return WANE_OK;
    if (count <= FEW) return best_few(dense, count, skip, skips, out, found);
    return best_many(dense, count, skip, skips, out, found);
}

static int dense_fetch(struct wane__source *source, const int32_t *tokens, int count, float *logits) {
    const struct wane__dense_source *dense = (const struct wane__dense_source *)source;
    for (int i = 0; i < count; i++) {
        if (tokens[i] < 0 || tokens[i] >= source->vocab_size) return WANE_EINVAL;
        logits[i] = dense->logits[tokens[i]];
        if (logits[i] != logits[i]) return WANE_EENGINE;
    }
    return WANE_OK;
}

/* Two readings: the maximum, so that no exponential overflows, then the sum. */
static int dense_log_sum(struct wane__source *source, float scale, const int32_t *skip, int skips,
                         double *out) {
    const struct wane__dense_source *dense = (const struct wane__dense_source *)source;
    float max = -INFINITY;
    struct skips left_out = {skip, skips, 0};
    for (int from = 0, to; next_run(&left_out, source->vocab_size, &from, &to); from = to) {
        float run;
        if (!dense->kernels->block_max(dense->logits + from, to - from, to - from, &run)) return WANE_EENGINE;
        if (run > max) max = run;
    }
    *out = (double)max;
    if (isinf(max)) return WANE_OK;
    double sum = 0;
    left_out = (struct skips){skip, skips, 0};
    for (int from = 0, to; next_run(&left_out, source->vocab_size, &from, &to); from = to)
        sum += dense->kernels->exp_sum(dense->logits + from, to - from, (double)max, (double)scale);
    *out = (double)scale * (double)max + log(sum);
    return WANE_OK;
}

void wane__dense_source_init(struct wane__dense_source *dense, const float *logits, int vocab_size) {
    *dense = (struct wane__dense_source){
        .source = {.vocab_size = vocab_size,
                   .best = dense_best,
                   .fetch = dense_fetch,
                   .log_sum = dense_log_sum},
        .logits = logits,
        .kernels = wane__row_kernels(),
    };
}
