/*
 * ngrams.h - tokens in a ring, and where their last ones stood before: the longest earlier match, found by hash chains.
 *
 *     tokens    … the list of  names … the list of │ what now?
 *                           └─ next ─┘   └─ match ─┘
 *
 * Each token is appended once, in constant time; every pair and every group of four hangs in a chain from its newest place
 * to its oldest. A search walks a bounded piece of one chain and takes the longest match, the newest of equals. What is
 * older than the ring is forgotten, and counted. Memory is taken when it is made: nothing else allocates.
 */
#ifndef WANE_TABLE_NGRAMS_H
#define WANE_TABLE_NGRAMS_H

#include <stdbool.h>
#include <stdint.h>

/* Longer matches count as that long: nothing is surer. */
#define WANE__MATCH_MOST 64
/* Stands between texts: no match goes across it. */
#define WANE__NGRAMS_BORDER (-1)

struct wane__ngrams {
    int32_t *token;               /* ring of `capacity`, a power of two */
    uint8_t *mark;                /* the same, for whoever wants to mark tokens */
    uint32_t *before[2], *top[2]; /* chains of pairs and of fours: positions, 0: none */
    uint32_t capacity, heads;     /* heads: a power of two                            */
    uint32_t count;               /* tokens so far; the next one's position, from 1   */
    uint64_t evicted;             /* tokens that were pushed out of the ring          */
    void *block;
};

/* Where the tokens after a match begin, and how long it is; length 0: there is none. */
struct wane__match {
    uint32_t position;
    int length;
};

/* Room for at least `tokens`, 64 … 2^24. False without memory, and then there is nothing to free. */
bool wane__ngrams_init(struct wane__ngrams *ngrams, uint32_t tokens);
void wane__ngrams_free(struct wane__ngrams *ngrams);
/* Forget all tokens; what was evicted stays counted. */
void wane__ngrams_clear(struct wane__ngrams *ngrams);
void wane__ngrams_add(struct wane__ngrams *ngrams, int32_t token);
/* The longest match of the `have` tokens that end at `end`, of at least two tokens. `end` may be this ring's own end. */
struct wane__match wane__ngrams_find(const struct wane__ngrams *ngrams, const int32_t *end, int have);
/* How many of the tokens before `position` are those that end at `end`. */
int wane__ngrams_common(const struct wane__ngrams *ngrams, uint32_t position, const int32_t *end, int have);
/* Mark a token; is it marked? */
void wane__ngrams_mark(struct wane__ngrams *ngrams, uint32_t position);
bool wane__ngrams_marked(const struct wane__ngrams *ngrams, uint32_t position);
/* The token at a position; WANE__NGRAMS_BORDER when it is not there. */
static inline int32_t wane__ngrams_at(const struct wane__ngrams *ngrams, uint32_t position) {
    bool there = position - 1 < ngrams->count && ngrams->count - position < ngrams->capacity;
    return there ? ngrams->token[position & (ngrams->capacity - 1)] : WANE__NGRAMS_BORDER;
}

#endif
