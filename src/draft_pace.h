/*
 * draft_pace.h - how many tokens to draft: what a block of so many rows costs, measured as blocks run, against the tokens
 * that it can be expected to give.
 *
 *     expected tokens   1 + p1 + p1·p2 + p1·p2·p3 + …        of one sequence; the others in the batch give one each
 *     cost              seconds of a call with so many rows   body, head and draws together
 *
 * Engines have widths that they like: on CPUs, a block of 12 may cost less than one of 9. So a few widths are tried, not all,
 * and each is known by its own measurements. What is not known yet is taken from
 * the nearest that is, by the way that practice took (draft_practice.h), or a guess. Nothing but time
 * depends on the clock.
 *
 * Chances are estimates, and text that nearly repeats itself deceives them. So there is an account, in tokens' time: a block is charged with
 * what it took more than a call without it and credited with what its tokens would have taken; each token without a
 * draft pays in a hundredth. While the debt is above its limit there are no drafts. So drafts lose about 1 % in the long run, whatever
 * the text is.
 */
#ifndef WANE_DRAFT_PACE_H
#define WANE_DRAFT_PACE_H

#include "wane.h"

/* Rows in one call for which costs are kept; a block is never wider. */
enum { WANE__BLOCK_MOST = WANE_DRAFT_BLOCK_MOST };

struct wane__draft_pace {
    double body[WANE__BLOCK_MOST +
                1]; /* the same without heads and draws, from practice; 0: not known, as all are then */
    double cost[WANE__BLOCK_MOST + 1]; /* seconds of a call with so many rows; 0: not known */
    uint32_t when[WANE__BLOCK_MOST + 1];
    uint32_t notes; /* measurements so far */
    double debt;    /* tokens' time that drafts took more than they gave; negative: they gave more */
};

/* A call with `rows` rows, and nothing else in it, took so long. */
void wane__draft_pace_note(struct wane__draft_pace *pace, int rows, double seconds);
/*
 * From practice: seconds[n] is what a call with n rows took but for heads and draws, 0 where nobody knows; seconds[1] must be known. Widths that no call
 * has had yet are judged by it.
 */
void wane__draft_pace_expect(struct wane__draft_pace *pace, const double seconds[WANE__BLOCK_MOST + 1]);
/* A block beside `others` rows is over: of its `drafted` tokens, so many were drawn. */
void wane__draft_pace_settle(struct wane__draft_pace *pace, int others, int drafted, int drawn);
/* A token was drawn without a draft. */
void wane__draft_pace_single(struct wane__draft_pace *pace);
/* What such a call is expected to take; 0: nothing is known at all. */
double wane__draft_pace_cost(const struct wane__draft_pace *pace, int rows);
/*
 * How many of `most` drafted tokens to verify, where token i is drawn with chance[i] once all before it were and `others` rows
 * are in the call anyway. 0: none pays.
 */
int wane__draft_pace_choose(const struct wane__draft_pace *pace, int others, int most, const float *chance);

#endif
