/* lookup.c - from a key to what was recorded. Owns nothing; relies on what slmt_read.c has checked. */
#include "table/lookup.h"

#include "sample/order.h"

bool wane__slmt_key(uint64_t tenant, int window, const int32_t *end, int count, struct wane__slmt_key *key) {
    if (count < window || window < 1 || window > WANE__WINDOW_MOST) return false;
    key->window = wane__context_window(tenant, end, window);
    key->ten = count >= WANE__LONG_CONTEXT ? wane__context_ten(end) : 0;
    return true;
}

const struct wane__slmt_slot *wane__slmt_find(const struct wane__slmt *table, struct wane__slmt_key key) {
    uint64_t spread = wane__slmt_spread(key);
    const struct wane__slmt_slot *slot = table->slot + wane__slmt_place(spread, table->range);
    __builtin_prefetch(slot + 1); /* every second key was pushed a slot further */
    for (;; slot++) {             /* the last slot is empty */
        if (slot->shape == 0) return NULL;
        if (slot->window == key.window && slot->ten == key.ten) return slot;
        if (wane__slmt_spread((struct wane__slmt_key){slot->window, slot->ten}) > spread) return NULL;
    }
}

/* ------------------------------------------------------------------- positions */

/* The first of the entry's positions that is not before (index, context). */
static uint32_t first_from(const struct wane__slmt_record *record, uint32_t count, uint32_t index,
                           uint32_t context) {
    uint32_t low = 0;
    while (low < count) {
        uint32_t middle = low + (count - low) / 2;
        const struct wane__slmt_record *r = &record[middle];
        if (r->index < index || (r->index == index && r->context < context))
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

/* Logits on the line through two positions, where both hold the same tokens; 0 where they do not. */
static int between(const struct wane__slmt *table, const struct wane__slmt_slot *slot,
                   const struct wane__slmt_record *low, const struct wane__slmt_record *high, uint32_t index,
                   struct wane__candidate out[WANE__SLMT_DEPTH]) {
    struct wane__candidate upper[WANE__SLMT_DEPTH];
    int count = wane__slmt_top_at(table, slot, low, out),
        others = wane__slmt_top_at(table, slot, high, upper);
    float share = (float)(index - low->index) / (float)(high->index - low->index);
    if (count != others) return 0;
    for (int i = 0; i < count; i++) {
        int k = 0;
        while (k < count && upper[k].token != out[i].token) k++;
        if (k == count) return 0;
        out[i].logit += share * (upper[k].logit - out[i].logit);
    }
    for (int i = 1; i < count; i++) { /* the order may change on the way from one to the other */
        struct wane__candidate moved = out[i];
        int at = i;
        for (; at > 0 && wane__better(moved, out[at - 1]); at--) out[at] = out[at - 1];
        out[at] = moved;
    }
    return count;
}

static bool alone(const struct wane__slmt_record *record, uint32_t count, uint32_t at) {
    return (at == 0 || record[at - 1].index != record[at].index) &&
           (at + 1 == count || record[at + 1].index != record[at].index);
}

static enum wane__slmt_source at_position(const struct wane__slmt *table, const struct wane__slmt_slot *slot,
                                          uint32_t index, uint32_t context, struct wane__slmt_hit *hit) {
    const struct wane__slmt_record *record = table->record + slot->position;
    uint32_t count = slot->positions, at = first_from(record, count, index, context);
    if (at < count && record[at].index == index && record[at].context == context) {
        hit->top_count = wane__slmt_top_at(table, slot, &record[at], hit->top);
        return WANE__SLMT_CONTEXT;
    }
    /* With another context at the same place `at` is behind it or at it, whichever the contexts' order says. */
    if (at > 0 && record[at - 1].index == index) at--;
    if (at < count && record[at].index == index) {
        if (!alone(record, count, at)) return WANE__SLMT_MEAN;
        hit->top_count = wane__slmt_top_at(table, slot, &record[at], hit->top);
        return WANE__SLMT_INDEX;
    }
    if (index < WANE__SLMT_INTERPOLATED || at == 0 || at == count) return WANE__SLMT_MEAN;
    if (!alone(record, count, at - 1) || !alone(record, count, at)) return WANE__SLMT_MEAN;
    hit->top_count = between(table, slot, &record[at - 1], &record[at], index, hit->top);
    return hit->top_count > 0 ? WANE__SLMT_BETWEEN : WANE__SLMT_MEAN;
}

bool wane__slmt_lookup(const struct wane__slmt *table, struct wane__slmt_key key, uint32_t index,
                       uint32_t context, struct wane__slmt_hit *hit) {
    const struct wane__slmt_slot *slot = wane__slmt_find(table, key);
    hit->source = WANE__SLMT_NOTHING;
    hit->top_count = 0;
    if (slot == NULL) return false;
    hit->slot = (uint32_t)(slot - table->slot);
    hit->source = slot->positions > 0 ? at_position(table, slot, index, context, hit) : WANE__SLMT_MEAN;
    if (hit->source == WANE__SLMT_MEAN) hit->top_count = wane__slmt_top(slot, hit->top);
    return true;
}

const uint32_t *wane__slmt_continuation(const struct wane__slmt *table, uint32_t slot, int *count,
                                        float *acceptance) {
    uint32_t low = 0, high = table->header->continuations;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (table->run[middle].slot < slot)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == table->header->continuations || table->run[low].slot != slot) return NULL;
    *count = (int)table->run[low].count;
    *acceptance = table->run[low].acceptance;
    return table->token + table->run[low].first;
}
