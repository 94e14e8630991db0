/*
 * arbiter.h - PASS or REJECT for each token, and the doubt that a reply may spend before a vote wakes.
 *
 * A token passes when its odds are at least tau, and is rejected otherwise: a rejection changes nothing but a count. Doubt is the count of
 * rejections beyond what is usual: each one adds 1, each judged token takes `allowance` off, and it never falls below 0 (the statistic of
 * a one-sided CUSUM: Page, Continuous inspection schemes, Biometrika 41, 1954). The rejection with which doubt last rose from 0 remembers
 * where it was, because other answers would fork there; the one with which doubt exceeds the budget wakes the vote. With an allowance
 * of 0 that is the count of all rejections, and the fork is at the first one.
 *
 * Two rules do not trust the cheap look. Revival: far into a reply, and where no token stands out, the net runs even where the LUT knows
 * the answer; its bits are the same, so that nothing but a count shows it. Forced checks: a hot request draws from flatter shares than
 * those that odds are taken of, so that every so manyth of its tokens is judged by the shares it is drawn from, whether a table
 * knows the context or not. A forced check that rejects spends doubt like any other; it does not wake by itself.
 */
#ifndef WANE_GATE_ARBITER_H
#define WANE_GATE_ARBITER_H

#include "gate/gate.h"

/* What a reply takes along of its request. */
struct wane__doubt {
    bool on; /* false: nothing is judged, at the cost of this one look */
    /* Set at the start. */
    float tau;
    double entropy; /* of the prompt's tokens, bits */
    int documents;  /* in the prompt */
    int budget, revival_after;
    float allowance; /* below 0 until the gate's own is known, for a quality that names none */
    float revival_top;
    int forced_every; /* 0: the request is not hot */
    double hot_scale; /* its temperature's inverse */
    /* So far. */
    int rejects;
    float level;      /* doubt */
    int first_reject; /* index in the reply of the rejection that doubt stands on: where a vote forks; -1: none */
    int woke_at;      /* of the one that woke the vote; -1: none */
    bool wakes;       /* the budget is spent; stays so */
    enum wane_wake woke_by; /* WANE_WAKE_NONE: nothing did */
};

/* One token's. */
struct wane__verdict {
    bool judged, reject;
    bool lut;              /* the pattern was seen in training, and its odds were looked up */
    bool revival, forced;  /* these rules were at work */
    bool woke;             /* this token did it */
    enum wane_wake reason; /* of a rejection; WANE_WAKE_NONE: it passed */
    float odds, tau;
    struct wane__gate_view view;
};

/*
 * For a new reply. A greedy request, or one with a single answer
 * and no doubt_votes, cannot be changed by anything that doubt leads to: off.
 */
void wane__doubt_begin(struct wane__doubt *doubt, const wane_quality *quality, const wane_sampling *sampling,
                       double entropy, int documents);
/* Is token `index` of the reply judged by the shares that it is drawn from? */
bool wane__doubt_forced(const struct wane__doubt *doubt, int index);
/* Judge token `index` of the reply by what its row looks like (at hot_scale, when it is forced). */
void wane__doubt_judge(struct wane__doubt *doubt, const struct wane__gate *gate,
                       const struct wane__gate_view *view, int index, struct wane__verdict *verdict);

#endif
