/*
 * wane/view.h - how each token was decided: what the token view shows. Part of wane.h; include that.
 *
 *     generation.view = true;  …  event.view->top, wane_event_by(&event)
 *
 * What decided a token is one word, ordered by the work that it took: what was remembered, what was guessed and only checked, what a
 * table confirms, what the certificate left to be computed, and everything. docs/events.md has the same as JSON.
 */
#ifndef WANE_VIEW_H
#define WANE_VIEW_H

#include "../wane.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    WANE_BY_NOTHING = 0, /* there is no head: a body being measured                                    */
    WANE_BY_MEMO,        /* repeated from an earlier reply to the same context: no engine call         */
    WANE_BY_DRAFT,       /* proposed ahead, verified with others in one call, and accepted             */
    WANE_BY_TABLE,       /* a recorded context, and its tokens are the ones that count here            */
    WANE_BY_LEVEL1,      /* certified: level 1 of the sketch left few tokens to compute (48 at most)   */
    WANE_BY_LEVEL2,      /* certified: more were left, and level 2 ruled out all but few               */
    WANE_BY_EXACT,       /* certified: both levels left many, which were computed exactly              */
    WANE_BY_DENSE,       /* the whole head was computed                                                */
    WANE_BYS
};
/* "memo", "draft", "table", "level1", "level2", "exact", "dense"; "none" for WANE_BY_NOTHING; "?" otherwise. */
WANE_API const char *wane_by_name(int by);
/* One letter for the same: M D T 1 2 X F, and - for none. */
WANE_API char wane_by_letter(int by);

/* WANE_VIEW_TABLE_…: what the table said of the context. */
enum {
    WANE_VIEW_TABLE_NONE = 0, /* there is none, or the context is not in it */
    WANE_VIEW_TABLE_MISS,     /* it is there, and does not fit              */
    WANE_VIEW_TABLE_RANK,
    WANE_VIEW_TABLE_STRICT
};

enum { WANE_VIEW_TOP = 5 };

struct wane_view {
    int index; /* in the reply, from 0                                                       */
    int head;  /* WANE_BY_MEMO, or which head: LEVEL1 … DENSE, NOTHING                       */
    int table; /* WANE_VIEW_TABLE_…                                                          */
    int vocab_size;
    uint32_t survivors1, survivors2, rescored; /* tokens left after level 1, level 2; computed exactly   */
    bool checked;                              /* the shadow check computed it both ways                 */
    bool changed;                              /* a correction had a hand in it                          */
    bool redrawn;                              /* blocks disagreed, and a second draw stands             */
    bool judged;                               /* by the gate                                            */
    bool reject, woke;                         /* it rejected the token; and woke the vote over answers  */
    int reason;                                /* WANE_WAKE_… of a rejection                             */
    float odds, tau;                           /* LCH and the prompt's threshold; NaN where not judged   */
    int state;                                 /* WANE_STATE_… of the governor; -1: it does not steer    */
    float entropy;                             /* nats, where something asked for it; else NaN           */
    float layer_ms;                            /* head, gate and draw                                    */
    float ms;                                  /* since the token before; of the first one: NaN          */
    int top_count;                             /* 0 for a repeated token: there was no row               */
    struct {
        int32_t token;
        float logit; /* after bias and penalties                                */
        float share; /* probability at temperature 1 over the whole vocabulary, to a few hundredths */
    } top[WANE_VIEW_TOP];
};

/* What decided the token of a TEXT event with a view: WANE_BY_…. WANE_BY_NOTHING without one. */
WANE_API int wane_event_by(const wane_event *event);

#ifdef __cplusplus
}
#endif
#endif
