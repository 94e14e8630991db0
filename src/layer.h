/*
 * layer.h - the way of a token: one reply's state, and the string of stages that each row walks.
 *
 *     hidden ─► head ─► processors ─► [table ─► governor ─► correction] ─► sampler ─► [gate] ─► text ─► [fuse]
 *
 * One `struct wane__step` travels from left to right; each stage reads it and adds to it. Sessions and the
 * scheduler's slots both own a `wane__reply` and call the same function for every decoded row.
 */
#ifndef WANE_LAYER_H
#define WANE_LAYER_H

#include "account.h"
#include "gate/arbiter.h"
#include "governor/governor.h"
#include "model_memo.h"
#include "rows.h"
#include "stream.h"
#include "table/context.h"
#include "table/grade.h"
#include "table/lookup.h"

/* Quality mode; `off` is the plain engine's output. */
enum wane__mode { WANE__MODE_OFF = 0, WANE__MODE_LEGACY = 1, WANE__MODE_WANE = 2 };

/* One token's record, filled from left to right. */
struct wane__step {
    const int32_t *context; /* prompt and reply so far */
    int context_count;
    int position; /* of the token to be drawn, in the sequence */
    int index;    /* of the token to be drawn, in the reply    */
    enum wane__mode mode;
    enum wane__origin origin;
    const float *hidden;         /* d floats, NULL when no hook is set        */
    struct wane__source *source; /* NULL when there is no head */
    struct wane__choice choice;
    bool slmt_used; /* the table has this context, and it fits */
    enum wane__grade slmt_grade;
    enum wane__slmt_source slmt_source;
    int32_t slmt_first;           /* the first stored token, where there is one */
    bool slmt_took;               /* it took the place of the drawn one */
    struct wane__verdict verdict; /* the gate's; not judged where there is none */
    wane_signals signals;         /* of the row; NAN what nobody asked for     */
    int state;                    /* WANE_STATE_…, where `steered`             */
    bool steered;                 /* a governor decided what it is drawn with  */
    bool redrawn;                 /* a second draw's token stands: blocks disagreed */
    bool changed;                 /* a correction had a hand in the token      */
    bool is_end;                  /* the token ends the turn                   */
    bool drafted;                 /* it was proposed ahead, and drawn          */
    unsigned looked, parted; /* shadow checks: 1 << WANE_WATCHED_… that were compared; that were another */
    wane_finish finish;      /* NONE while the reply goes on              */
};

struct wane__tap; /* record.h */

/* One reply under way. */
struct wane__reply {
    struct wane__engine *engine;
    struct wane__rows *rows; /* of the model; what was decoded last */
    struct wane__sampler *sampler;
    struct wane__stream stream;
    struct wane__correction correction;
    wane_tokens context; /* prompt, then each accepted token */
    int prompt_count;
    int reply_count;
    int limit; /* max_tokens, or what the context leaves */
    bool limit_is_context;
    bool ignore_end;
    bool whole;       /* reads all logits of its rows: logprobs */
    bool no_draft;    /* the request does not want any */
    unsigned without; /* 1 << WANE_FEATURE_… for each that the request is decoded without */
    bool viewing;     /* somebody watches: `sight` is kept */
    enum wane__mode mode;
    wane_quality quality;             /* the request's; final_value is the caller's, and NULL here */
    uint64_t tenant;                  /* whose: wane__context_tenant */
    struct wane__context_name before; /* of the context */
    struct wane__tap *tap;            /* records it; NULL: nobody does */
    struct wane__recall recall;       /* what was answered before */
    bool drawn;                       /* a token of it was */
    struct wane__doubt gate;          /* what it may doubt, and where it did first */
    struct wane__governor governor;   /* what steers it, and when it ends in a loop */
    struct wane__buf tail;            /* the end's text, where a fallback is behind it */
    struct wane__row row;             /* the current one */
    struct wane__step step;           /* of the last token */
    struct wane__account account;     /* of all so far     */
    struct {
        struct wane__head_counts before; /* the token that is being drawn */
        double last;                     /* when the one before was; 0: there was none */
        wane_view view;
    } sight; /* view.h */
};

/* Does this reply have the feature, by its request and by the model's switches? */
static inline bool wane__reply_has(const struct wane__reply *reply, int feature) {
    return (reply->without & 1u << feature) == 0 && !wane__rows_lack(reply->rows, feature);
}

/*
 * Make ready for a reply to `tokens`. WANE_ECONTEXT names both sizes when not one token fits. Reserves
 * the memory of the whole reply, so that no step allocates.
 */
int wane__reply_init(struct wane__reply *reply, struct wane__rows *rows, const int32_t *tokens, size_t count,
                     const wane_generation *generation, wane_error *error);
void wane__reply_free(struct wane__reply *reply);

/*
 * Walk one row of the last wane__rows_decode to its token and text; rows in ascending order. Fills `event` with TEXT, or leaves its kind 0 when the
 * token ended the turn. The token is added to the context (it is what the next decode needs, at position
 * context.count - 1) unless it ended the turn. `reply->step.finish` says whether the reply is over; if
 * so, call wane__reply_end once for the END event.
 */
int wane__layer_step(struct wane__reply *reply, int row, wane_event *event, wane_error *error);
/*
 * The same with a token that the memo gave, wane__recall_next's: no row and no draw, and everything after them. The engine does not
 * hold the context then: what is missing goes through the body before the next row.
 */
int wane__layer_repeat(struct wane__reply *reply, int32_t token, wane_event *event, wane_error *error);
/* Fill END: what was held back, why it ended, the counts. Times are the caller's to add. */
void wane__reply_end(struct wane__reply *reply, wane_event *event);

#endif
