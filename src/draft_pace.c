/* draft_pace.c - running means of what blocks cost, and the draft's length from them. See draft_pace.h. */
#include "draft_pace.h"

#include <stddef.h>

/* Widths worth trying. */
static const int widths[] = {2, 3, 4, 6, 8, 12, 16, 24, 32, 40, 48};

/* A row more costs so much of the first: between this machine's two cores (0.4) and many (0.1). Only until it is known. */
#define SLOPE 0.3
/* A draft must be expected to give so much more, for what it costs to be wrong. */
#define LEAST_GAIN 1.12
/* A measurement that is so many notes old may be wrong by a fifth: widths that once were dear are tried again. */
#define OLD 800.0

/* The account, in tokens' time: drafts wait above this debt; more credit than this is not kept, so that what once was copied pays for no more. */
#define DEBT_MOST   8.0
#define CREDIT_MOST 32.0
#define INCOME      0.01

static double shape(int rows) {
    return 1 + SLOPE * (rows - 1);
}

void wane__draft_pace_note(struct wane__draft_pace *pace, int rows, double seconds) {
    if (rows < 1 || rows > WANE__BLOCK_MOST || !(seconds > 0)) return;
    double old = pace->cost[rows];
    /* What disturbs a measurement makes it longer: a shorter one is nearer to the truth. */
    double share = old <= 0 ? 1 : seconds < old ? 0.4 : 0.1;
    pace->cost[rows] = old + share * (seconds - old);
    pace->when[rows] = ++pace->notes;
}

/* What was measured, a little less as it grows old. */
static double known(const struct wane__draft_pace *pace, int rows) {
    double age = (double)(pace->notes - pace->when[rows]) / OLD;
    return pace->cost[rows] * (1 - 0.2 * (age < 1 ? age : 1));
}

void wane__draft_pace_expect(struct wane__draft_pace *pace, const double seconds[WANE__BLOCK_MOST + 1]) {
    double at[WANE__BLOCK_MOST + 1], wider = 0;
    if (!(seconds[1] > 0)) return;
    /* A narrower block takes no longer than a wider one: it could be that one. So what disturbed one measurement is mended by the next. */
    for (int rows = WANE__BLOCK_MOST; rows > 0; rows--) {
        at[rows] = seconds[rows];
        if (at[rows] > 0 && wider > 0 && at[rows] > wider) at[rows] = wider;
        if (at[rows] > 0) wider = at[rows];
    }
    for (int rows = 1, below = 1; rows <= WANE__BLOCK_MOST; rows++) {
        int above = rows;
        while (above <= WANE__BLOCK_MOST && !(at[above] > 0)) above++;
        pace->body[rows] = above > WANE__BLOCK_MOST ? at[below] * shape(rows) / shape(below)
                           : above == rows
                               ? at[rows]
                               : at[below] + (at[above] - at[below]) * (rows - below) / (above - below);
        if (above == rows) below = rows;
    }
}

/* What a width is expected to take where nothing else is known, in a unit of its own. */
static double prior(const struct wane__draft_pace *pace, int rows) {
    return pace->body[rows] > 0 ? pace->body[rows] : shape(rows);
}

double wane__draft_pace_cost(const struct wane__draft_pace *pace, int rows) {
    if (rows < 1) return 0;
    if (rows > WANE__BLOCK_MOST) rows = WANE__BLOCK_MOST;
    if (pace->cost[rows] > 0) return known(pace, rows);
    int below = rows, above = rows;
    while (below > 0 && pace->cost[below] <= 0) below--;
    while (above <= WANE__BLOCK_MOST && pace->cost[above] <= 0) above++;
    if (below > 0 && above <= WANE__BLOCK_MOST) {
        /* With practice, what it says, corrected as its neighbours are; without, between them. */
        double low = known(pace, below), high = known(pace, above),
               share = (double)(rows - below) / (above - below);
        if (!(pace->body[rows] > 0)) return low + (high - low) * share;
        low /= pace->body[below];
        high /= pace->body[above];
        return pace->body[rows] * (low + (high - low) * share);
    }
    int near = below > 0 ? below : above;
    if (near <= WANE__BLOCK_MOST) return known(pace, near) * prior(pace, rows) / prior(pace, near);
    return pace->body[rows];
}

void wane__draft_pace_settle(struct wane__draft_pace *pace, int others, int drafted, int drawn) {
    double alone = wane__draft_pace_cost(pace, others + 1);
    if (!(alone > 0)) return;
    pace->debt += wane__draft_pace_cost(pace, others + 1 + drafted) / alone - 1;
    pace->debt -= (double)drawn / (others + 1); /* the others' tokens would have come anyway */
    if (pace->debt < -CREDIT_MOST) pace->debt = -CREDIT_MOST;
}

void wane__draft_pace_single(struct wane__draft_pace *pace) {
    if (pace->debt > 0) pace->debt -= INCOME;
}

int wane__draft_pace_choose(const struct wane__draft_pace *pace, int others, int most, const float *chance) {
    double alone = wane__draft_pace_cost(pace, others + 1);
    if (!(alone > 0) || most < 1 || pace->debt > DEBT_MOST) return 0;
    double best = LEAST_GAIN * (others + 1) / alone, all = 1, tokens = others + 1;
    int chosen = 0, drafted = 0;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        int count = widths[i] - others - 1;
        if (count < 1) continue;
        if (count > most) break;
        for (; drafted < count; drafted++) tokens += all *= (double)chance[drafted];
        double rate = tokens / wane__draft_pace_cost(pace, widths[i]);
        if (rate <= best) continue;
        best = rate;
        chosen = count;
    }
    return chosen;
}
