/*
 * prefix.h - which slot a new request takes, and what of an earlier one it keeps.
 *
 * A pure choice over what the slots hold; no engine, no lock. A slot's tokens are those that the engine holds
 * for its sequence. Tokens of another tenant do not exist as far as a request can tell.
 */
#ifndef WANE_SERVER_PREFIX_H
#define WANE_SERVER_PREFIX_H

#include <stdbool.h>
#include <stdint.h>

/* A shared start that is longer by no more than this is not worth a copy, or another's cache. */
#define WANE__PREFIX_GAIN 16

struct wane__prefix_slot {
    const int32_t *tokens;
    int count;
    const char *tenant; /* may be NULL when count is 0 */
    bool busy;
    uint64_t used; /* grows with each use; 0: empty */
};

struct wane__prefix_choice {
    int slot; /* a free one; -1 if there is none                               */
    int from; /* the slot whose tokens are kept; equal to `slot`: in its place */
    int keep; /* how many; 0: none                                             */
};

/*
 * At most count - 1 tokens are kept: the last one must be computed for its row. In place where that keeps
 * most of the slot, or where nothing else is free; by a copy into the least recently used slot where
 * another one, busy or not, has more; else the least recently used slot.
 */
struct wane__prefix_choice wane__prefix_choose(const struct wane__prefix_slot *slots, int slot_count,
                                               const int32_t *prompt, int count, const char *tenant,
                                               bool may_copy);

#endif
