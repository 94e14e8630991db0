/*
 * sketch.h - the sketch as its builder, its file and the scan see it. Only src/head includes it.
 *
 * Coordinates of a row: (row - mean row) through the map P, cut into groups, each padded to a multiple of 64
 * and rotated. Two codes of them, which do not depend on each other:
 *
 *     level 1   few bits, read for every row: blocks of 32 rows, so that one register holds a column
 *     level 2   4 bits, read for the rows that level 1 could not rule out: one record a row
 *
 * A code is a vector q of half-integers and a scale s with s·q ≈ y, chosen so that the error e = y - s·q is
 * orthogonal to y: then s·(q·g) is an unbiased estimate of y·g over random rotations, with an error of
 * |e|·|g| / √(n - 1) standard deviations.
 *
 *     block of level 1    bias[32] floats │ group 0: scale[32] 16-bit, ratio[32] 8-bit │ group 1 … │ padding
 *                         group 0: plane, column: 32 bytes │ … │ group 1: …     (highest plane first)
 *                         byte r of a column: 8 coordinates of row r, one bit each
 *     record of level 2   bias │ scale, |e| of each group, floats │ padding to 16 │ nibbles
 *                         byte j of each 32: coordinate j (low) and 32 + j (high) of 64
 */
#ifndef WANE_HEAD_SKETCH_H
#define WANE_HEAD_SKETCH_H

#include "core/pool.h"
#include "head/basis.h"
#include "head/head.h"

enum {
    WANE__SKETCH_GROUPS = 3,
    WANE__SKETCH_ROWS = 32,
    WANE__SKETCH_MOST_D = WANE__HEAD_MOST_D,
    WANE__SKETCH_DIGEST = 32,
};

struct wane__sketch_group {
    int32_t real;       /* coordinates */
    int32_t dims;       /* padded to a multiple of 64 */
    int32_t kept;       /* of them coded in level 1, a multiple of 64 */
    int32_t bits;       /* planes of level 1 */
    int32_t exponent;   /* of the least scale of level 1 */
    float ratio_low;    /* |e| / s of level 1 = ratio_low + ratio_step · its 8 bits, or less */
    float ratio_step;   /* */
    float longest_code; /* longest |q| of level 1 */
};

/* The first page of the file. All numbers little-endian; `check` is over the page with itself 0. */
struct wane__sketch_header {
    char magic[8];
    uint32_t version, header_size;
    uint64_t check;
    char digest[WANE__SKETCH_DIGEST];
    int32_t vocab_size, d, groups, has_map;
    int64_t statistics_rows;
    double longest_row; /* |w| */
    struct wane__sketch_group group[WANE__SKETCH_GROUPS];
    struct wane__sketch_section {
        uint64_t offset, size, check;
    } section[3]; /* map, level 1, level 2 */
    char reserved[128];
};

enum { WANE__SECTION_MAP, WANE__SECTION_LEVEL1, WANE__SECTION_LEVEL2 };

/* Sizes that follow from a header. */
struct wane__sketch_shape {
    int padded;  /* coordinates, all groups */
    int columns; /* of level 1, counting planes */
    size_t meta_bytes, block_bytes, blocks;
    size_t record_head, record_bytes;
    size_t map_bytes;
};
void wane__sketch_shape_of(const struct wane__sketch_header *header, struct wane__sketch_shape *shape);

struct wane__sketch {
    struct wane__sketch_header header;
    struct wane__sketch_shape shape;
    const float *mean;     /* d: of hidden rows                                   */
    const float *mean_row; /* d: of the head's rows                               */
    const float *map;      /* T in panels (multiply.h); NULL: the identity       */
    const uint8_t *level1, *level2;
    struct wane__rotation rotation[WANE__SKETCH_GROUPS];
    void *mapped; /* the file; NULL: not from a file */
    size_t mapped_size;
};

/* Which coordinates get how many bits in level 1. */
struct wane__sketch_plan {
    int groups;
    struct {
        int real; /* 0: all that are left */
        int bits;
        int kept; /* 0: all of them */
    } group[WANE__SKETCH_GROUPS];
};
/* What wane__sketch_build takes by itself. */
void wane__sketch_plan_for(int vocab_size, int d, bool statistics, struct wane__sketch_plan *plan);
int wane__sketch_build_plan(const char *path, const struct wane__head_weights *weights,
                            const struct wane__head_statistics *statistics,
                            const struct wane__sketch_plan *plan, const char *digest, int threads,
                            wane_progress_fn progress, void *progress_user, wane_error *error);

/* sketch_file.c. Writing fills in the checks. */
int wane__sketch_write(const char *path, struct wane__sketch_header *header, const void *const section[3],
                       wane_error *error);
int wane__sketch_open(const char *path, const char *digest, struct wane__sketch *sketch, wane_error *error);
void wane__sketch_close(struct wane__sketch *sketch);
bool wane__sketch_rotations(const struct wane__sketch_header *header,
                            struct wane__rotation rotation[WANE__SKETCH_GROUPS]);

/* A scale of level 1 in 16 bits: 5 of exponent above the group's least, 11 of mantissa. */
static inline float wane__scale_value(uint16_t code, int32_t exponent) {
    union {
        uint32_t bits;
        float value;
    } u = {.bits = ((uint32_t)(exponent + 127) << 23) + ((uint32_t)code << 12)};
    return u.value;
}
/* Half a unit in the last place of that. */
#define WANE__SCALE_ERROR 0x1p-12f

#endif
