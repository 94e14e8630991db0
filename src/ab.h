/*
 * ab.h - two sides of live traffic, with the governor and without it: what their replies are like, and how they differ. Pure sums: what is
 * here knows no server.
 */
#ifndef WANE_AB_H
#define WANE_AB_H

#include "wane.h"

enum { WANE__AB_OFF = 0, WANE__AB_ON, WANE__AB_SIDES };
extern const char *const wane__ab_names[WANE__AB_SIDES];

/* Of a figure that each reply has. */
struct wane__ab_sum {
    uint64_t count;
    double sum, squares;
};

struct wane__ab_side {
    uint64_t replies, tokens, loops, fused;
    struct wane__ab_sum distinct[WANE_GRAMS]; /* of replies that have so many words */
    uint64_t up, down, neutral;               /* first ratings of replies           */
    struct wane__ab_sum rating;
};

/* A reply to its end. False: no memory; it is not counted. */
bool wane__ab_reply(struct wane__ab_side *side, const char *text, size_t size, int tokens, bool fused);
void wane__ab_add(struct wane__ab_side *sum, const struct wane__ab_side *more);
void wane__ab_rating(struct wane__ab_side *side, double rating);

/* What is compared. */
enum {
    WANE__AB_LOOPS,
    WANE__AB_FUSED,
    WANE__AB_DISTINCT,
    WANE__AB_RATING = WANE__AB_DISTINCT + WANE_GRAMS,
    WANE__AB_FIGURES
};
extern const char *const wane__ab_figures[WANE__AB_FIGURES];
/*
 * A side's figure with its 95 % interval: Wilson's for a share of replies, 1.96 standard errors for a mean. NAN where it cannot be
 * said: no reply; for a mean's interval, fewer than two.
 */
wane_interval wane__ab_figure(const struct wane__ab_side *side, int figure);
/* ON less OFF: Newcombe's interval for shares, Welch's for means. */
wane_interval wane__ab_difference(const struct wane__ab_side sides[WANE__AB_SIDES], int figure);

#endif
