/*
 * scan.h - reading the sketch: what a hidden row looks like to the kernels, and the kernels.
 *
 * A column of level 1 holds 8 coordinates of 32 rows, one bit each. For 4 coordinates the sum of the query's
 * numbers at the set bits has 16 possible values: a table of bytes that a shuffle looks up for all rows at once.
 * The numbers have 5 bits, so that four such sums, each less the sum of its negative numbers, fit a byte together
 * (4 · 60): next to one or two bits of a weight that rounding is nothing. Sums are integers, and what is made of them is done in one
 * order without fusing: all kernels give the same bits.
 */
#ifndef WANE_HEAD_SCAN_H
#define WANE_HEAD_SCAN_H

#include "head/sketch.h"

enum { WANE__SCAN_MOST = 15 }; /* largest number of the query at level 1 */

/* A hidden row against one group. */
struct wane__scan_group {
    int columns, planes;   /* of level 1 */
    const uint8_t *tables; /* columns × 32 for the low nibbles, then for the high ones; each 16 bytes twice */
    float step, offset;    /* estimate = s · step · (sum + offset) */
    float error_row;       /* a variance: s² · (ratio² · error_row + error_query) */
    float error_query;
    float ratio_low, ratio_step;
    int32_t exponent;
    /* Level 2 */
    const int8_t *fine;
    int dims;
    float fine_step, fine_offset, fine_error_row, fine_error_query;
};

/*
 * What is known of 32 rows of the head: logit = estimate ± half. All in one place, so that writing it is one
 * stream: the lines are rarely in the cache when a scan begins.
 */
struct wane__scan_block {
    float estimate[WANE__SKETCH_ROWS], half[WANE__SKETCH_ROWS];
    uint8_t state[WANE__SKETCH_ROWS]; /* a scan sets it to 0 */
    uint8_t padding[32];
};

/* How much is known of a row of the head; a flag beside it during a question. */
enum { WANE__KNOWN_LEVEL1 = 0, WANE__KNOWN_LEVEL2 = 1, WANE__KNOWN_EXACT = 2, WANE__LEFT_OUT = 4 };

/* A hidden row, and what it makes of the head's rows. */
struct wane__scan_query {
    struct wane__scan_group group[WANE__SKETCH_GROUPS];
    float constant; /* same for all rows */
    float sigmas, slack;
    struct wane__scan_block *known;
    float *block_upper;    /* largest estimate + half of 32 rows */
    float *block_estimate; /* largest estimate */
};

/* What a sum of exponentials asks of the rows that are not known exactly. */
struct wane__scan_sum {
    float scale, reference; /* exponentials are of scale · (logit - reference) */
    float sigmas;
    float far;    /* a block whose bound is below it, in nats, counts with its bound */
    float border; /* a row of level 1 that may reach it is counted apart */
};
/* And what comes out. v is the standard deviation of a row's exponential. */
struct wane__scan_sums {
    double mass;      /* Σ of expected exponentials */
    double deviation; /* Σ v */
    double square;    /* Σ v² */
    double border;    /* Σ of expected exponentials of rows that reach the border */
    double bounded;   /* Σ of bounds, where nothing is expected */
    double upper;     /* largest bound in nats, of the rows in `mass` */
};

struct wane__scan_kernels {
    const char *name;
    /* Level 1 of blocks from … to - 1 for `count` hidden rows. */
    void (*scan)(const struct wane__sketch *sketch, size_t from, size_t to,
                 const struct wane__scan_query *queries, int count);
    /* Σ nibble · fine over `dims` coordinates (a multiple of 64) of a record of level 2. */
    int32_t (*fine)(const uint8_t *nibbles, const int8_t *fine, int dims);
    /* Adds blocks from … to - 1 to `sums`; rows known exactly, or left out, are not among them. Good to 1e-5. */
    void (*sum)(const struct wane__scan_query *query, size_t from, size_t to,
                const struct wane__scan_sum *how, struct wane__scan_sums *sums);
};

/* Squared deviation, in nats, from which on an estimate says nothing: then only its bound counts. */
#define WANE__SCAN_WILD 4.0f

/* The best table for this processor, and table `index` (0: plain …) for tests; NULL past the last. */
const struct wane__scan_kernels *wane__scan_kernels(void);
const struct wane__scan_kernels *wane__scan_kernels_at(int index);

extern const struct wane__scan_kernels wane__scan_plain;
#if defined(__x86_64__) && defined(__GNUC__)
extern const struct wane__scan_kernels wane__scan_avx2, wane__scan_avx512;
#elif defined(__aarch64__)
extern const struct wane__scan_kernels wane__scan_neon;
#endif

#endif
