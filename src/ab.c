/*
 * ab.c - sums of two sides and what they say. Newcombe's interval of a difference of shares (1998, method 10) is made of both sides' Wilson
 * intervals; with few replies it does not promise what it cannot keep.
 */
#include "ab.h"

#include "governor/diversity.h"

#include <math.h>

const char *const wane__ab_names[WANE__AB_SIDES] = {"off", "on"};
const char *const wane__ab_figures[WANE__AB_FIGURES] = {"loops",      "fused",      "distinct-1",
                                                        "distinct-2", "distinct-3", "rating"};

static void add(struct wane__ab_sum *sum, double value) {
    sum->count++;
    sum->sum += value;
    sum->squares += value * value;
}

bool wane__ab_reply(struct wane__ab_side *side, const char *text, size_t size, int tokens, bool fused) {
    struct wane__words words;
    double distinct[WANE_GRAMS];
    bool fine = wane__words_of(text, size, &words);
    for (int n = 1; n <= WANE_GRAMS && fine; n++) {
        size_t different, all;
        fine = wane__words_distinct(&words, 1, n, &different, &all);
        distinct[n - 1] = fine && all > 0 ? (double)different / (double)all : (double)NAN;
    }
    if (fine) {
        side->replies++;
        side->tokens += (uint64_t)tokens;
        side->loops += wane__words_loop(&words) > 0;
        side->fused += fused;
        for (int n = 0; n < WANE_GRAMS; n++)
            if (!isnan(distinct[n])) add(&side->distinct[n], distinct[n]);
    }
    wane__words_free(&words);
    return fine;
}

static void add_sum(struct wane__ab_sum *sum, const struct wane__ab_sum *more) {
    sum->count += more->count;
    sum->sum += more->sum;
    sum->squares += more->squares;
}

void wane__ab_add(struct wane__ab_side *sum, const struct wane__ab_side *more) {
    sum->replies += more->replies;
    sum->tokens += more->tokens;
    sum->loops += more->loops;
    sum->fused += more->fused;
    for (int n = 0; n < WANE_GRAMS; n++) add_sum(&sum->distinct[n], &more->distinct[n]);
    sum->up += more->up;
    sum->down += more->down;
    sum->neutral += more->neutral;
    add_sum(&sum->rating, &more->rating);
}

void wane__ab_rating(struct wane__ab_side *side, double rating) {
    if (rating > 0)
        side->up++;
    else if (rating < 0)
        side->down++;
    else
        side->neutral++;
    add(&side->rating, rating);
}

static const struct wane__ab_sum *sum_of(const struct wane__ab_side *side, int figure) {
    return figure == WANE__AB_RATING ? &side->rating : &side->distinct[figure - WANE__AB_DISTINCT];
}

static bool is_share(int figure) {
    return figure < WANE__AB_DISTINCT;
}

/* Of the mean, squared. */
static double error_squared(const struct wane__ab_sum *s) {
    if (s->count < 2) return (double)NAN;
    double n = (double)s->count, mean = s->sum / n, off = s->squares / n - mean * mean;
    return (off > 0 ? off : 0) / (n - 1);
}

static wane_interval around(double value, double squared) {
    double half = 1.959963984540054 * sqrt(squared);
    return (wane_interval){value, value - half, value + half};
}

wane_interval wane__ab_figure(const struct wane__ab_side *side, int figure) {
    if (is_share(figure))
        return wane_share_interval(figure == WANE__AB_LOOPS ? side->loops : side->fused, side->replies);
    const struct wane__ab_sum *s = sum_of(side, figure);
    return around(s->count > 0 ? s->sum / (double)s->count : (double)NAN, error_squared(s));
}

wane_interval wane__ab_difference(const struct wane__ab_side sides[WANE__AB_SIDES], int figure) {
    wane_interval off = wane__ab_figure(&sides[WANE__AB_OFF], figure),
                  on = wane__ab_figure(&sides[WANE__AB_ON], figure);
    double gap = on.value - off.value;
    if (!is_share(figure))
        return around(gap, error_squared(sum_of(&sides[WANE__AB_OFF], figure)) +
                               error_squared(sum_of(&sides[WANE__AB_ON], figure)));
    return (wane_interval){gap, gap - hypot(on.value - on.low, off.high - off.value),
                           gap + hypot(on.high - on.value, off.value - off.low)};
}
