/*
 * ahead.h - drafts verified: how many tokens go into a block, what of it is kept, and whether blocks may be used at all.
 *
 *     context  … t0 │ d1 d2 d3 d4       one block: the last token and four drafted ones, each with a row
 *     rows         r0 r1 r2 r3 r4
 *     draws        d1 d2 x              r0 and r1 drew what was drafted, r2 did not: d3, d4 and their rows are dropped, the
 *                                       engine forgets them, and x is the next token, as it would have been without a draft
 *
 * Every row is drawn by the same call with the same random number as without drafts, so the tokens are the same if the rows'
 * floats are. That is the engine's affair: it chooses kernels by the number of rows, by the cells that attention looks at, and
 * others may add in another order. So no block counts before its like was rehearsed: decoded once as a block
 * of its class, and once token by token; rows are compared bit for bit, and the single ones are the ones that are used. Where they
 * differ, blocks stay narrower, or there are none. A share of later blocks is rehearsed as well (the shadow check).
 *
 *     proof      of a class of widths (up to 4 rows, 16, 48), in a region of cells (up to 256, 512, 1,024, …), alone or in company
 */
#ifndef WANE_AHEAD_H
#define WANE_AHEAD_H

#include "draft_pace.h"
#include "layer.h"
#include "table/chain.h"

/* Regions of context length: up to 256 cells, 512, 1,024, … */
#define WANE__AHEAD_REGIONS 16
/* Rows that must have been equal before a region's blocks count. */
#define WANE__AHEAD_PROOF 8
/* After a block failed, so many tokens go without. */
#define WANE__AHEAD_HOLD 32

enum { WANE__AHEAD_CLASSES = 3 };

/* What is known of blocks in one region. Classes count from 1; 0: none. */
struct wane__proof {
    int proven;                        /* the widest class whose rows were equal       */
    int barred;                        /* the narrowest whose rows were not; 0: none   */
    int compared[WANE__AHEAD_CLASSES]; /* rows that were equal                         */
};

/* A model's. The state may be read from any thread, everything else is the decoding thread's. */
struct wane__drafts {
    struct wane__rows *rows;
    int mode;        /* WANE_DRAFT_… */
    int most;        /* tokens in a draft */
    bool impossible; /* whatever the mode is */
    bool touchy; /* a row's floats depend on its neighbours in the call: drafts only where there are none */
    struct wane__draft_pace pace;
    struct wane__draft_pool pool;
    struct wane__proof proof[2][WANE__AHEAD_REGIONS]; /* alone; with other rows in the call */
    uint64_t calls;                                   /* blocks, for the share that is rehearsed */
    pthread_mutex_t lock;
    wane_draft_state state;
};

void wane__drafts_init(struct wane__drafts *drafts, struct wane__rows *rows);
void wane__drafts_close(struct wane__drafts *drafts);
/* Forget earlier replies, what was proven and what was timed, as if nothing had been decoded. While nobody stands on it. */
void wane__drafts_forget(struct wane__drafts *drafts);
/* As the options say and the model allows. WANE_EINVAL for options out of range. */
int wane__drafts_open(struct wane__drafts *drafts, const wane_model_options *options, wane_error *error);

/* Could anything be drafted at all: by mode, engine and head? */
bool wane__drafts_wanted(const struct wane__drafts *drafts);
/* Rows of the block that is rehearsed for a class. */
int wane__ahead_rehearsed(int class);
/*
 * A block of the class was rehearsed outside of a reply, in the region up to 256 cells, alone: so many of its rows were equal, and
 * `same`: no other one was compared. Classes in ascending order.
 */
void wane__drafts_learn(struct wane__drafts *drafts, int class, int equal, bool same);
/* The widest block that is proven there; 1: none. */
int wane__drafts_widest(const struct wane__drafts *drafts);

/* One sequence's. Memory is kept from reply to reply; nothing else is. */
struct wane__ahead {
    struct wane__drafts *drafts; /* NULL: this reply is not drafted */
    struct wane__drafter drafter;
    bool ready; /* the drafter has its memory */
    struct wane__pool_tenant *tenant;
    struct wane__table_chain chain; /* of the model's table, while there is one */
    int hold;                       /* tokens to go without a draft */
    int count;                      /* drafted tokens of the block under way, 0: none */
    int at;                         /* of these, drawn */
    enum wane__draft_source source;
    int32_t token[WANE__DRAFT_MOST];
    int others;                 /* rows in the block's call that are not its own */
    int region, class, company; /* of the block, or of the one that was rehearsed */
    /* A rehearsed block: what each of its rows was, and how many single ones were compared with it. */
    uint64_t print[WANE__BLOCK_MOST];
    int prints, print_at, attended;
    bool differs;
};

/* A reply begins. Without memory it simply is not drafted. Not within a step. */
void wane__ahead_begin(struct wane__ahead *ahead, struct wane__drafts *drafts,
                       const struct wane__reply *reply, const char *tenant);
/* It is over; `reply` may be NULL when nothing of it is to be remembered. */
void wane__ahead_end(struct wane__ahead *ahead, const struct wane__reply *reply);
void wane__ahead_free(struct wane__ahead *ahead);

/*
 * How many tokens to draft for the next call, in which the reply's last token is the only one pending: 0 … room. They are
 * ahead->token. `others`: rows that are in the call anyway; `cells`: tokens that the engine holds, the pending one included. With
 * *rehearse set, the block is to be decoded by wane__ahead_rehearse first, alone, forgotten, and then the call made without it.
 */
int wane__ahead_plan(struct wane__ahead *ahead, const struct wane__reply *reply, int others, int room,
                     int cells, bool *rehearse);
/* Decode a block to compare with; whatever comes of it, truncate the sequence afterwards. */
int wane__ahead_rehearse(struct wane__ahead *ahead, const struct wane__item *items, int count,
                         wane_error *error);
/* The block was decoded: was it of the kind that was planned? If not, nothing of it counts: forget it, and plan again. */
bool wane__ahead_stands(const struct wane__ahead *ahead);
/* Are rows of the next call compared? Then the engine must show them: set rows->keep. */
static inline bool wane__ahead_compares(const struct wane__ahead *ahead) {
    return ahead->print_at < ahead->prints;
}
/* Row `row` of the call gave reply->step's token. True: it was drafted, and the block goes on with the next row. */
bool wane__ahead_take(struct wane__ahead *ahead, struct wane__reply *reply, int row);
/* A token came without a row. No block is under way; a rehearsed one will not be compared any more. */
void wane__ahead_see(struct wane__ahead *ahead, int32_t token);
/*
 * The block does not stand. The engine may have put it where there was room for one, far from where single tokens go, and would do so
 * again: the reply goes on without drafts for a while, so that it does go on.
 */
void wane__ahead_misplaced(struct wane__ahead *ahead);
/* The block is over before its last row, or could not be decoded: what is left of it does not count. */
void wane__ahead_drop(struct wane__ahead *ahead, bool failed);

#endif
