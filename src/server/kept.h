/*
 * kept.h - replies that may still be rated: who got them, and, where that was asked for, what was said and what else might have been.
 *
 * In memory only: bounded in number, bytes and time; the oldest go first. Any thread.
 */
#ifndef WANE_SERVER_KEPT_H
#define WANE_SERVER_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WANE__KEPT_OTHERS = 2 };

struct wane__kept; /* all of them */

/* Strings; NULL: not kept. */
struct wane__kept_reply {
    const char *id, *tenant;
    const char *prompt, *reply;
    const char *other[WANE__KEPT_OTHERS]; /* the first one first; NULL behind the last */
    int ratings;                          /* that it had before */
    int ab_side;                          /* as in an exchange  */
};

struct wane__kept_state {
    uint64_t replies, bytes, evicted; /* evicted: for want of room, before their time */
};

/* At most so many replies and bytes, for so many seconds. NULL: no memory. */
struct wane__kept *wane__kept_new(size_t replies_most, size_t bytes_most, double seconds);
void wane__kept_free(struct wane__kept *kept);
/* Copies. False: no memory, or larger than all there is room for. */
bool wane__kept_add(struct wane__kept *kept, const struct wane__kept_reply *reply, double now);
/*
 * A copy of the reply of that id, if this tenant got it, and it is not too old: wane__free it. Counts a rating. NULL: there is none, and
 * nothing says why; *full when it has had `ratings_most` already.
 */
struct wane__kept_reply *wane__kept_take(struct wane__kept *kept, const char *id, const char *tenant,
                                         int ratings_most, double now, bool *full);
void wane__kept_get_state(struct wane__kept *kept, struct wane__kept_state *state);

#endif
