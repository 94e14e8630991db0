/* pace.c - running means of what both heads cost, and the turns between them. See pace.h. */
#include "pace.h"

enum {
    PATIENCE = 4, /* decodes before a verdict */
    FIRST_REST = 16,
    LONGEST_REST = 1024,
    LONG = 64,        /* decodes in a row that paid: the next rest is a short one */
    MEASUREMENTS = 2, /* of the dense head: the first one reads the weights from the disk */
};

/* Certified must be this much cheaper: its own measuring and a wrong verdict cost something, too. */
#define SHARE 0.97

void wane__pace_init(struct wane__pace *pace) {
    *pace = (struct wane__pace){0};
    for (int i = 0; i < WANE__PACE_KINDS; i++) pace->turn[i].length = FIRST_REST;
}

void wane__pace_begin(struct wane__pace *pace) {
    for (int i = 0; i < WANE__PACE_KINDS; i++) pace->turn[i].rest = 0;
}

static int width_of(int rows) {
    return rows < WANE__PACE_ROWS ? rows : WANE__PACE_ROWS;
}

static struct wane__pace_turn *turn_of(struct wane__pace *pace, int rows) {
    return &pace->turn[rows == 1 ? 0 : rows <= 8 ? 1 : 2];
}

static double mean(double old, double value, double share) {
    return old > 0 ? old + share * (value - old) : value;
}

/*
 * The dense head's time for so many rows, from this width or, above a few rows, from the nearest within a factor of two: a row
 * costs much the same there. 0: not known.
 */
static double head_of(const struct wane__pace *pace, int width) {
    if (pace->measured[width] >= MEASUREMENTS) return pace->head[width];
    for (int away = 1; width >= 4 && away <= width; away++) {
        int low = width - away, high = width + away;
        if (2 * low >= width && pace->measured[low] >= MEASUREMENTS) return pace->head[low] * width / low;
        if (high <= WANE__PACE_ROWS && high <= 2 * width && pace->measured[high] >= MEASUREMENTS)
            return pace->head[high] * width / high;
    }
    return 0;
}

enum wane__pace_choice wane__pace_choose(struct wane__pace *pace, int rows) {
    if (pace->always || rows < 1) return WANE__PACE_CERTIFIED;
    int width = width_of(rows);
    double head = head_of(pace, width);
    if (!(head > 0)) return WANE__PACE_MEASURE;
    struct wane__pace_turn *turn = turn_of(pace, rows);
    if (turn->rest > 0) {
        if (--turn->rest == 0) turn->tried = 0;
        return WANE__PACE_DENSE;
    }
    double dense = head / width + pace->dense_draw;
    if (turn->tried < PATIENCE || turn->certified < SHARE * dense) {
        if (turn->tried >= LONG) turn->length = FIRST_REST;
        return WANE__PACE_CERTIFIED;
    }
    turn->rest = turn->length;
    turn->length = turn->length < LONGEST_REST ? 2 * turn->length : LONGEST_REST;
    turn->certified = 0;
    return WANE__PACE_DENSE;
}

void wane__pace_note_head(struct wane__pace *pace, int rows, double seconds) {
    int width = width_of(rows);
    if (rows < 1) return;
    pace->measured[width]++;
    double old = pace->head[width];
    /* What disturbs a measurement makes it longer: a shorter one is nearer to the truth. */
    pace->head[width] = old <= 0 || seconds < old ? seconds : mean(old, seconds, 1.0 / 16);
}

void wane__pace_note_draws(struct wane__pace *pace, bool certified, int rows, double seconds) {
    if (rows < 1) return;
    seconds /= rows;
    if (!certified) {
        pace->dense_draw = mean(pace->dense_draw, seconds, 1.0 / 8);
        return;
    }
    struct wane__pace_turn *turn = turn_of(pace, rows);
    turn->certified = mean(turn->certified, seconds, 1.0 / 8);
    if (turn->tried < LONG) turn->tried++;
}
