/*
 * lookup.h - what a table says about a context: one or two cache lines, one more for a position.
 *
 *     key ─► slot ─┬─► the position recorded in this very context and place      WANE__SLMT_CONTEXT
 *                  ├─► below 1,024: the one position recorded in this place      WANE__SLMT_INDEX
 *                  ├─► from there on: between the two nearest positions          WANE__SLMT_BETWEEN
 *                  └─► else the entry's means                                    WANE__SLMT_MEAN
 */
#ifndef WANE_TABLE_LOOKUP_H
#define WANE_TABLE_LOOKUP_H

#include "table/slmt_read.h"

enum wane__slmt_source {
    WANE__SLMT_NOTHING = 0, /* the context is not in the table */
    WANE__SLMT_CONTEXT,
    WANE__SLMT_INDEX,
    WANE__SLMT_BETWEEN,
    WANE__SLMT_MEAN,
    WANE__SLMT_SOURCES
};

struct wane__slmt_hit {
    uint32_t slot; /* of the entry */
    enum wane__slmt_source source;
    int top_count;
    struct wane__candidate top[WANE__SLMT_DEPTH]; /* best first */
};

/*
 * The key of a context of `count` tokens that end at `end`, for a table with this window; false when the context is
 * shorter than the window: no table knows it.
 */
bool wane__slmt_key(uint64_t tenant, int window, const int32_t *end, int count, struct wane__slmt_key *key);
/* The slot of a key; NULL: not in the table. */
const struct wane__slmt_slot *wane__slmt_find(const struct wane__slmt *table, struct wane__slmt_key key);
/*
 * What was recorded for a key, at relative position `index`, in the context whose wane__context_name has these 32 low
 * bits. False, and source NOTHING, when there is no entry. Reads only; allocates nothing.
 */
bool wane__slmt_lookup(const struct wane__slmt *table, struct wane__slmt_key key, uint32_t index,
                       uint32_t context, struct wane__slmt_hit *hit);
/* What mostly follows a slot's window: the tokens (as many as `count` says), or NULL. */
const uint32_t *wane__slmt_continuation(const struct wane__slmt *table, uint32_t slot, int *count,
                                        float *acceptance);

#endif
