/*
 * draft.h - what may come next, proposed from what was seen before: the running text, earlier replies of the same tenant, a
 * table. Proposals are guesses; whoever verifies them decides (src/ahead.h).
 *
 *     text ────► longest match ─┐
 *          ────► the copy's way ┼─► the one worth most ─► tokens, each with the chance that it is drawn
 *     pool ────► longest match ─┤
 *     table ───► chain ─────────┘
 *
 * The copy's way: who copies a list and changes a name is back in the list after it, so that a long copy that broke is
 * looked for where it would go on, before any two tokens match again. And who puts one token in another's place once will do
 * it again: what was swapped is swapped in later copies, too. Where a copy broke once, it is likely to break when it is
 * copied in turn: such places are marked, and have chances of their own.
 *
 * Chances are learned while the reply runs, by source and by the length of the match, and all of them together by how often
 * proposals are wrong in this reply: each token that is drawn judges the proposal that stood, whether it was verified or not. So
 * a text that repeats nothing costs nothing to try again on. A reply begins with what the tenant's last ones showed, weighing
 * so little that a few tokens of another sort undo it.
 */
#ifndef WANE_TABLE_DRAFT_H
#define WANE_TABLE_DRAFT_H

#include "table/ngrams.h"

#include <stddef.h>

/* Tokens in a draft; with the token before them one block of 48. Wider ones gain nothing more. */
#define WANE__DRAFT_MOST 47

enum wane__draft_source {
    WANE__DRAFT_TEXT,  /* prompt and reply so far        */
    WANE__DRAFT_WAY,   /* the same, where a copy broke   */
    WANE__DRAFT_POOL,  /* earlier replies of this tenant */
    WANE__DRAFT_TABLE, /* a table's chain                */
    WANE__DRAFT_SOURCES
};
extern const char *const wane__draft_source_names[WANE__DRAFT_SOURCES];

#define WANE__DRAFT_SWAPS 8

/* How long a match is, in classes of like chances. */
enum {
    WANE__MATCH_CLASSES = 10,
    WANE__CLASS_MARKED = WANE__MATCH_CLASSES,
    WANE__CLASS_SWAPPED,
    WANE__CLASSES
};
int wane__match_class(int length);

/*
 * A table as a source (chain.h): propose up to `most` tokens after the `have` that end at `end`; returns how many. chance[i]:
 * that token i is drawn, given that all before it were; 0 … 1. Called in a step: it allocates nothing.
 */
struct wane__draft_chain {
    int (*propose)(void *user, const int32_t *end, int have, int32_t *out, int most, float *chance);
    void *user;
};

/* Proposed, and how sure. */
struct wane__draft {
    enum wane__draft_source source;
    int count;         /* 0: nothing */
    int length;        /* of the match */
    uint32_t position; /* of the first token, in the text */
    int32_t token[WANE__DRAFT_MOST];
    uint8_t class[WANE__DRAFT_MOST];
    float chance[WANE__DRAFT_MOST]; /* that this one is drawn, given that all before it were */
};

/* How proposals fared. */
struct wane__draft_habits {
    float tried[WANE__DRAFT_SOURCES][WANE__CLASSES], right[WANE__DRAFT_SOURCES][WANE__CLASSES];
    float missed, expected; /* misses so far, and what the classes alone let expect */
};

/* One reply's. */
struct wane__drafter {
    struct wane__ngrams text;
    const struct wane__ngrams *pool;       /* NULL: none */
    const struct wane__draft_chain *chain; /* NULL: none */
    struct wane__draft_habits before, now; /* of earlier replies, scaled down; of this one */
    struct wane__draft draft;              /* what stands */
    int at;                                /* tokens of it that were drawn since */
    uint32_t way;                          /* where the copy goes on; 0: there is none           */
    int copied, run, since;                /* tokens copied; without a surprise; drawn since it broke */
    struct {
        int32_t from, to;
    } swap[WANE__DRAFT_SWAPS]; /* one token in another's place; from = to: none */
    int swaps;                 /* so far: the oldest is overwritten             */
    uint32_t broke;            /* where the copy broke with the last token; 0: it did not */
    int32_t broke_to;          /* the token that came instead                   */
};

/* Takes the memory for texts of up to `tokens`. False without memory. */
bool wane__drafter_init(struct wane__drafter *drafter, uint32_t tokens);
void wane__drafter_free(struct wane__drafter *drafter);
/*
 * Another reply: nothing of the last one stays. `tenant`'s pool and `chain`, which may be NULL, must outlive the reply;
 * the tenant's habits are copied.
 */
struct wane__pool_tenant;
void wane__drafter_begin(struct wane__drafter *drafter, const int32_t *tokens, size_t count,
                         const struct wane__pool_tenant *tenant, const struct wane__draft_chain *chain);
/* A token was drawn. True when it is the one that stood next in the draft. */
bool wane__drafter_add(struct wane__drafter *drafter, int32_t token);
/*
 * What may follow the `have` tokens that end at `end`: at most `most`. Goes on with what stands of the last draft when a
 * whole one of it is left. Returns its count; drafter->draft.token[drafter->at …] are the tokens.
 */
int wane__drafter_propose(struct wane__drafter *drafter, const int32_t *end, int have, int most);

/* ------------------------------------------------------------------- the pool */

/*
 * Replies of earlier requests, and how proposals fared in them, apart for each tenant. Bounded: so many tenants, so many tokens of each; the oldest tokens
 * of a tenant and the tenants unused for longest are given up, and counted.
 */
#define WANE__POOL_TENANTS 16
#define WANE__POOL_TOKENS  32768u

struct wane__pool_tenant {
    char *name; /* NULL: free */
    struct wane__ngrams ngrams;
    struct wane__draft_habits habits;
    uint64_t used; /* stamp */
    int users;     /* replies that read it now: it stays while there are any */
};

struct wane__draft_pool {
    struct wane__pool_tenant tenant[WANE__POOL_TENANTS];
    uint64_t stamp;
    uint64_t evicted; /* tokens */
};

void wane__draft_pool_free(struct wane__draft_pool *pool);
/* A tenant's own, made when it is new; NULL when there is no place or no memory. Give it back with _leave. */
struct wane__pool_tenant *wane__draft_pool_enter(struct wane__draft_pool *pool, const char *tenant);
/* `tokens` (may be none) are what its reply was, `habits` (NULL: none) how proposals fared: remembered for the next. */
void wane__draft_pool_leave(struct wane__draft_pool *pool, struct wane__pool_tenant *tenant,
                            const int32_t *tokens, size_t count, const struct wane__draft_habits *habits);
/* Tokens held and given up so far, and the bytes taken. */
struct wane__pool_counts {
    uint64_t tokens, evicted, bytes;
};
void wane__draft_pool_count(const struct wane__draft_pool *pool, struct wane__pool_counts *counts);

#endif
