/*
 * memo.c - the memo in memory; see memo.h. Owns its entries. Refuses to grow, and to know what a digest is made of.
 */
#include "core/error.h"
#include "core/memory.h"
#include "core/rng.h"
#include "table/memo_internal.h"

#include <string.h>

int wane__memo_new(uint64_t bytes, struct wane__memo **memo, wane_error *error) {
    *memo = NULL;
    if (bytes < WANE__MEMO_LEAST || bytes > WANE__MEMO_MOST)
        return wane__fail(error, WANE_EINVAL, "The memo's size is %llu bytes; it must be %d to %llu.",
                          (unsigned long long)bytes, WANE__MEMO_LEAST, (unsigned long long)WANE__MEMO_MOST);
    uint64_t most = bytes / WANE__MEMO_ENTRY_BYTES;
    struct wane__memo *made = wane__alloc_zero(1, sizeof *made);
    if (made == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a memo.");
    made->most = most < WANE__MEMO_NONE ? (uint32_t)most : WANE__MEMO_NONE - 1;
    /* One or two entries a bucket: 40 bytes for an entry, at most 4 for its share of the buckets. */
    made->buckets = 1;
    while (made->buckets <= made->most / 2) made->buckets *= 2;
    made->newest = made->oldest = made->cursor = WANE__MEMO_NONE;
    made->entry = wane__alloc_zero(made->most, sizeof *made->entry);
    made->bucket = wane__alloc(made->buckets * sizeof *made->bucket);
    if (made->entry == NULL || made->bucket == NULL) {
        wane__memo_free(made);
        return wane__fail(error, WANE_ENOMEM, "No memory for a memo of %llu bytes.",
                          (unsigned long long)bytes);
    }
    memset(made->bucket, 0xff, made->buckets * sizeof *made->bucket);
    *memo = made;
    return WANE_OK;
}

void wane__memo_free(struct wane__memo *memo) {
    if (memo == NULL) return;
    for (uint32_t i = 0; i < memo->tenants; i++) wane__free(memo->tenant[i]);
    wane__free(memo->entry);
    wane__free(memo->bucket);
    wane__free(memo);
}

int wane__memo_tenant(struct wane__memo *memo, const char *name) {
    for (uint32_t i = 0; i < memo->tenants; i++)
        if (strcmp(memo->tenant[i], name) == 0) return (int)i;
    if (memo->tenants == WANE__MEMO_TENANTS || strlen(name) > WANE__MEMO_TENANT_MOST) return -1;
    char *copy = wane__copy_string(name);
    if (copy == NULL) return -1;
    memo->tenant[memo->tenants] = copy;
    return (int)memo->tenants++;
}

struct wane__context_name wane__memo_cross(struct wane__context_name context,
                                           struct wane__context_name digest) {
    uint64_t low = wane__mix64(context.low ^ digest.low), high = wane__mix64(context.high + digest.high);
    return (struct wane__context_name){.low = low, .high = high ^ (low << 32 | low >> 32)};
}

/* ---------------------------------------------------------------------- lists */

static uint32_t *bucket_of(const struct wane__memo *memo, const struct wane__memo_key *key) {
    return &memo->bucket[wane__mix64(key->name.low) & (memo->buckets - 1)];
}

static bool same(const struct wane__memo_key *a, const struct wane__memo_key *b) {
    return a->name.low == b->name.low && a->name.high == b->name.high && a->length == b->length &&
           a->tenant == b->tenant;
}

static uint32_t find(const struct wane__memo *memo, const struct wane__memo_key *key) {
    uint32_t at = *bucket_of(memo, key);
    while (at != WANE__MEMO_NONE && !same(&memo->entry[at].key, key)) at = memo->entry[at].chain;
    return at;
}

static void take_out(struct wane__memo *memo, uint32_t at) {
    const struct wane__memo_entry *e = &memo->entry[at];
    if (memo->cursor == at) memo->cursor = e->newer; /* it goes away, or to the end, where it is met again */
    if (e->newer != WANE__MEMO_NONE)
        memo->entry[e->newer].older = e->older;
    else
        memo->newest = e->older;
    if (e->older != WANE__MEMO_NONE)
        memo->entry[e->older].newer = e->newer;
    else
        memo->oldest = e->newer;
}

static void put_first(struct wane__memo *memo, uint32_t at) {
    struct wane__memo_entry *e = &memo->entry[at];
    e->newer = WANE__MEMO_NONE;
    e->older = memo->newest;
    if (memo->newest != WANE__MEMO_NONE)
        memo->entry[memo->newest].newer = at;
    else
        memo->oldest = at;
    memo->newest = at;
}

static uint32_t evict(struct wane__memo *memo) {
    uint32_t at = memo->oldest, *link = bucket_of(memo, &memo->entry[at].key);
    take_out(memo, at);
    while (*link != at) link = &memo->entry[*link].chain;
    *link = memo->entry[at].chain;
    memo->evictions++;
    return at;
}

/* ------------------------------------------------------------------------ use */

int32_t wane__memo_find(struct wane__memo *memo, const struct wane__memo_key *key, bool touch) {
    uint32_t at = find(memo, key);
    if (at == WANE__MEMO_NONE) return -1;
    if (touch && memo->newest != at) {
        take_out(memo, at);
        put_first(memo, at);
    }
    return memo->entry[at].token;
}

void wane__memo_add(struct wane__memo *memo, const struct wane__memo_key *key, int32_t token) {
    if (find(memo, key) != WANE__MEMO_NONE) return;
    uint32_t at = memo->count < memo->most ? memo->count++ : evict(memo), *bucket = bucket_of(memo, key);
    struct wane__memo_entry *e = &memo->entry[at];
    e->key = *key;
    e->token = token;
    e->chain = *bucket;
    *bucket = at;
    put_first(memo, at);
    memo->changes++;
}

void wane__memo_correct(struct wane__memo *memo, const struct wane__memo_key *key, int32_t token) {
    uint32_t at = find(memo, key);
    if (at == WANE__MEMO_NONE) return;
    memo->entry[at].token = token;
    memo->changes++;
}

uint64_t wane__memo_changes(const struct wane__memo *memo) {
    return memo->changes;
}

void wane__memo_count(const struct wane__memo *memo, struct wane__memo_counts *counts) {
    *counts = (struct wane__memo_counts){
        .entries = memo->count,
        .most = memo->most,
        .bytes = memo->most * (uint64_t)sizeof *memo->entry + memo->buckets * (uint64_t)sizeof *memo->bucket,
        .evictions = memo->evictions,
    };
}
