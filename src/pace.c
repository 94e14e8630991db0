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
    *pace = (struct wane__pace){.length = FIRST_REST};
}

void wane__pace_begin(struct wane__pace *pace) {
    pace->rest = 0;
}

static int width_of(int rows) {
    return rows < WANE__PACE_ROWS ? rows : WANE__PACE_ROWS;
}

static double mean(double old, double value, double share) {
    return old > 0 ? old + share * (value - old) : value;
}

enum wane__pace_choice wane__pace_choose(struct wane__pace *pace, int rows) {
    if (pace->always || rows < 1) return WANE__PACE_CERTIFIED;
    int width = width_of(rows);
    if (pace->measured[width] < MEASUREMENTS) return WANE__PACE_MEASURE;
    if (pace->rest > 0) {
        if (--pace->rest == 0) pace->tried = 0;
        return WANE__PACE_DENSE;
    }
    double dense = pace->head[width] / width + pace->dense_draw;
    if (pace->tried < PATIENCE || pace->certified < SHARE * dense) {
        if (pace->tried >= LONG) pace->length = FIRST_REST;
        return WANE__PACE_CERTIFIED;
    }
    pace->rest = pace->length;
    pace->length = pace->length < LONGEST_REST ? 2 * pace->length : LONGEST_REST;
    pace->certified = 0;
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
    pace->certified = mean(pace->certified, seconds, 1.0 / 8);
    if (pace->tried < LONG) pace->tried++;
}
