/*
 * pace.h - which head is the faster one just now: backs off from the certified head where it does not pay.
 *
 * A flat distribution leaves so many candidates that proving costs more than computing. What both heads cost a row,
 * scan, head and draw together, is measured as they run; where the certified one comes out dearer, the dense one runs
 * for a while, then the certified one is tried again: after 16 decodes, and after twice as many each time it fails. The
 * tokens are the same either way, so that nothing but time depends on the clock.
 */
#ifndef WANE_PACE_H
#define WANE_PACE_H

#include <stdbool.h>

enum { WANE__PACE_ROWS = 64 }; /* wider batches count as that wide */

enum wane__pace_choice {
    WANE__PACE_CERTIFIED,
    WANE__PACE_DENSE,   /* it is cheaper                                   */
    WANE__PACE_MEASURE, /* dense, because nobody knows yet what that costs */
};

/* One row, a few in one scan, or many: what pays for one kind says nothing of another. */
enum { WANE__PACE_KINDS = 3 };

struct wane__pace_turn {
    double certified; /* seconds a row, as a running mean; 0: not known */
    int tried;        /* decodes since the last turn to the certified head */
    int rest;         /* decodes until the next one */
    int length;
};

/* Seconds, as running means; 0: not known. */
struct wane__pace {
    bool always;                      /* certified, whatever it costs */
    double head[WANE__PACE_ROWS + 1]; /* the dense head of a batch of so many rows, all of them together */
    int measured[WANE__PACE_ROWS + 1];
    double dense_draw; /* a row */
    struct wane__pace_turn turn[WANE__PACE_KINDS];
};

void wane__pace_init(struct wane__pace *pace);
/* Another reply begins: it may be of another kind. */
void wane__pace_begin(struct wane__pace *pace);
/* For the next decode, of `rows` rows. */
enum wane__pace_choice wane__pace_choose(struct wane__pace *pace, int rows);
/* A decode's dense head took so long. */
void wane__pace_note_head(struct wane__pace *pace, int rows, double seconds);
/* A decode's draws took so long; `certified`: with the scan and all that they asked for. */
void wane__pace_note_draws(struct wane__pace *pace, bool certified, int rows, double seconds);

#endif
