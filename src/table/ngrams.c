/*
 * ngrams.c - the ring and its chains; see ngrams.h. Owns copies of tokens; refuses to know whose they are.
 *
 * Positions count from 1 and are never reused before 2^32 tokens; a chain's link is good while its position is younger than
 * the ring's oldest, and links only lead to older ones, so that a walk ends. A wrong link cannot do harm: every match is
 * compared token by token.
 */
#include "table/ngrams.h"

#include "core/memory.h"
#include "core/rng.h"

#include <string.h>

enum { SHORT = 2, LONG = 4, WALK_SHORT = 24, WALK_LONG = 48 };
static const int lengths[2] = {SHORT, LONG};

bool wane__ngrams_init(struct wane__ngrams *g, uint32_t tokens) {
    *g = (struct wane__ngrams){.capacity = 64};
    while (g->capacity < tokens) g->capacity *= 2;
    g->heads = g->capacity < 128 ? 64 : g->capacity / 2;
    size_t ring = g->capacity, heads = g->heads;
    g->block = wane__alloc_zero(3 * ring + 2 * heads + ring / sizeof(uint32_t), sizeof(uint32_t));
    if (g->block == NULL) return false;
    uint32_t *at = g->block;
    g->top[0] = at, g->top[1] = at + heads;
    g->before[0] = at + 2 * heads, g->before[1] = at + 2 * heads + ring;
    g->token = (int32_t *)(at + 2 * heads + 2 * ring);
    g->mark = (uint8_t *)(at + 2 * heads + 3 * ring);
    return true;
}

void wane__ngrams_free(struct wane__ngrams *g) {
    wane__free(g->block);
    *g = (struct wane__ngrams){0};
}

void wane__ngrams_clear(struct wane__ngrams *g) {
    memset(g->top[0], 0, 2 * (size_t)g->heads * sizeof(uint32_t));
    g->count = 0;
}

static uint32_t hash_of(const struct wane__ngrams *g, const int32_t *end, int length) {
    uint64_t hash = (uint64_t)length;
    for (int i = 1; i <= length; i++) hash = hash * 0x9e3779b97f4a7c15u + (uint32_t)end[-i];
    return (uint32_t)(wane__mix64(hash) & (g->heads - 1));
}

/* The last tokens in order, up to LONG of them, into `last`; returns how many precede the border. */
static int last_tokens(const struct wane__ngrams *g, int32_t last[LONG]) {
    int have = 0;
    while (have < LONG && (uint32_t)have < g->count) {
        int32_t token = wane__ngrams_at(g, g->count - (uint32_t)have);
        if (token == WANE__NGRAMS_BORDER) break;
        last[LONG - 1 - have] = token;
        have++;
    }
    return have;
}

void wane__ngrams_add(struct wane__ngrams *g, int32_t token) {
    if (g->count == UINT32_MAX / 2) { /* no position is ever used twice */
        g->evicted += g->capacity;
        wane__ngrams_clear(g);
    }
    g->count++;
    if (g->count >= g->capacity) g->evicted++;
    g->token[g->count & (g->capacity - 1)] = token;
    g->mark[g->count & (g->capacity - 1)] = 0;
    int32_t last[LONG];
    int have = last_tokens(g, last);
    uint32_t next = g->count + 1; /* where what follows will stand */
    for (int kind = 0; kind < 2; kind++) {
        uint32_t *link = &g->before[kind][next & (g->capacity - 1)];
        *link = 0;
        if (have < lengths[kind]) continue;
        uint32_t *top = &g->top[kind][hash_of(g, last + LONG, lengths[kind])];
        *link = *top;
        *top = next;
    }
}

void wane__ngrams_mark(struct wane__ngrams *g, uint32_t position) {
    if (wane__ngrams_at(g, position) >= 0) g->mark[position & (g->capacity - 1)] = 1;
}

bool wane__ngrams_marked(const struct wane__ngrams *g, uint32_t position) {
    return wane__ngrams_at(g, position) >= 0 && g->mark[position & (g->capacity - 1)] != 0;
}

int wane__ngrams_common(const struct wane__ngrams *g, uint32_t position, const int32_t *end, int have) {
    int length = 0, most = have < WANE__MATCH_MOST ? have : WANE__MATCH_MOST;
    while (length < most && end[-1 - length] >= 0 &&
           wane__ngrams_at(g, position - 1 - (uint32_t)length) == end[-1 - length])
        length++;
    return length;
}

static void walk(const struct wane__ngrams *g, int kind, int steps, const int32_t *end, int have,
                 struct wane__match *best) {
    uint32_t at = g->top[kind][hash_of(g, end, lengths[kind])];
    for (int i = 0; i < steps && at != 0 && g->count + 1 - at < g->capacity; i++) {
        if (at <= g->count) { /* something follows it */
            int length = wane__ngrams_common(g, at, end, have);
            if (length >= lengths[kind] && length > best->length) *best = (struct wane__match){at, length};
            if (best->length == WANE__MATCH_MOST) return;
        }
        uint32_t older = g->before[kind][at & (g->capacity - 1)];
        if (older >= at) return;
        at = older;
    }
}

struct wane__match wane__ngrams_find(const struct wane__ngrams *g, const int32_t *end, int have) {
    struct wane__match best = {0, 0};
    if (have >= LONG) walk(g, 1, WALK_LONG, end, have, &best);
    if (best.length == 0 && have >= SHORT) walk(g, 0, WALK_SHORT, end, have, &best);
    return best;
}
