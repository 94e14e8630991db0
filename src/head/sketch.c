/*
 * sketch.c - building a sketch: the head's mean row and second moments, the map, then both codes of every row.
 *
 * Work is cut into parts that do not depend on the number of threads, and sums over rows are added in a fixed
 * order, so that the same weights and statistics give the same bytes. Codes need no scale, so rows are visited
 * once; scales are written when all of them are known. NaN and infinity among the weights are refused.
 */
#include "head/sketch.h"

#include "core/error.h"
#include "core/memory.h"
#include "head/multiply.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum {
    PART = 1024,    /* rows in a part; a multiple of 32 */
    STRIP = 128,    /* rows mapped at once: they and their images stay in the cache; a multiple of 32 */
    SUMS = 64,      /* parts of the mean row's sum */
    SAMPLE = 8192,  /* rows that the second moments are taken from */
    LEVEL2_MID = 8, /* of the 4-bit code */
    SMALL = 65536,  /* tokens of a small vocabulary */
};

/* What a row's code of level 1 has to do with its coordinates; per row and group. */
struct fit {
    float length2, product, code2; /* |y|², q·y, |q|² */
};

struct build {
    const struct wane__head_weights *weights;
    struct wane__sketch_header header;
    struct wane__sketch_shape shape;
    struct wane__rotation rotation[WANE__SKETCH_GROUPS];
    struct wane__pool *pool;
    float *map;    /* the section: mean, mean row, T in panels */
    float *panels; /* of P; NULL: the identity */
    double *sums;  /* SUMS × d */
    float *sample; /* rows by columns, and the other way round */
    int sampled, sample_step;
    double *moments;
    uint8_t *level1, *level2;
    struct fit *fits;
    double *longest; /* of each part */
    int first_part;  /* of the run under way */
    atomic_int status;
    wane_progress_fn progress;
    void *progress_user;
};

/* Fixed step sizes against the root mean square: the best for Gaussian numbers (Max 1960). */
static const float steps[5] = {0, 1, 0.9957f, 0.5860f, 0.3352f};

void wane__sketch_plan_for(int vocab_size, int d, bool statistics, struct wane__sketch_plan *plan) {
    *plan = (struct wane__sketch_plan){.groups = 1};
    plan->group[0].bits = 2;
    if (!statistics) return; /* energy is everywhere: two bits of all */
    plan->group[0].bits = 1;
    if (d < 256) return;
    /*
     * Measured in docs/head.md: a second bit of 128 coordinates pays for its bytes, further ones hardly; but of a
     * small vocabulary a larger share survives, and the scan is the smaller part.
     */
    plan->groups = 2;
    plan->group[0].real = 128;
    plan->group[0].bits = 2;
    plan->group[1].bits = 1;
    if (vocab_size > SMALL || d < 512) return;
    plan->groups = 3;
    plan->group[0].bits = 3;
    plan->group[1].real = 256;
    plan->group[1].bits = 2;
    plan->group[2].bits = 1;
}

static void fail(struct build *b, int status) {
    int none = WANE_OK;
    atomic_compare_exchange_strong(&b->status, &none, status);
}

/* Run parts in turns, so that progress can be told, and the caller can stop. */
static int run(struct build *b, void (*work)(void *, int), int parts, const char *what, double from,
               double to) {
    int turn = 8 * wane__pool_threads(b->pool);
    for (int at = 0; at < parts; at += turn) {
        b->first_part = at;
        wane__pool_run(b->pool, work, b, parts - at < turn ? parts - at : turn);
        if (atomic_load(&b->status) != WANE_OK) return atomic_load(&b->status);
        int done = at + turn < parts ? at + turn : parts;
        if (b->progress != NULL && !b->progress(b->progress_user, what, from + (to - from) * done / parts))
            return WANE_ECANCELLED;
    }
    return WANE_OK;
}

/* ----------------------------------------------------------------- second moments */

static void sum_rows(void *user, int part) {
    struct build *b = user;
    size_t d = (size_t)b->header.d;
    part += b->first_part;
    int vocab = b->header.vocab_size;
    int from = (int)((int64_t)vocab * part / SUMS), to = (int)((int64_t)vocab * (part + 1) / SUMS);
    double *sum = b->sums + (size_t)part * d;
    float *rows = wane__alloc(STRIP * d * sizeof *rows);
    if (rows == NULL) {
        fail(b, WANE_ENOMEM);
        return;
    }
    for (int at = from; at < to; at += STRIP) {
        int n = to - at < STRIP ? to - at : STRIP;
        int status = b->weights->rows(b->weights->user, at, n, rows);
        if (status != WANE_OK) {
            fail(b, status);
            break;
        }
        for (int r = 0; r < n; r++)
            for (size_t i = 0; i < d; i++) sum[i] += (double)rows[(size_t)r * d + i];
    }
    wane__free(rows);
}

static int find_mean_row(struct build *b) {
    size_t d = (size_t)b->header.d;
    b->sums = wane__alloc_zero(SUMS * d, sizeof *b->sums);
    if (b->sums == NULL) return WANE_ENOMEM;
    int status = run(b, sum_rows, SUMS, "head: mean", 0, 0.1);
    if (status != WANE_OK) return status;
    float *mean = b->map + d;
    for (size_t i = 0; i < d; i++) {
        double sum = 0;
        for (size_t part = 0; part < SUMS; part++) sum += b->sums[part * d + i];
        mean[i] = (float)(sum / b->header.vocab_size);
        if (!isfinite(mean[i])) return WANE_EINVAL;
    }
    return WANE_OK;
}

/* Sixteen rows of the moments: the sample's columns times the sample. */
static void sum_moments(void *user, int part) {
    struct build *b = user;
    int d = b->header.d, wide = (d + 15) / 16 * 16, first = 16 * (part + b->first_part);
    const float *columns = b->sample, *panels = b->sample + (size_t)wide * (size_t)b->sampled;
    float *out = wane__alloc(16 * (size_t)wide * sizeof *out);
    if (out == NULL) {
        fail(b, WANE_ENOMEM);
        return;
    }
    wane__multiply(columns + (size_t)first * (size_t)b->sampled, (size_t)b->sampled, 16, panels, wide,
                   b->sampled, out, (size_t)wide);
    for (int r = 0; r < 16 && first + r < d; r++)
        for (int c = 0; c < d; c++)
            b->moments[(size_t)(first + r) * (size_t)d + (size_t)c] =
                (double)out[(size_t)r * (size_t)wide + (size_t)c] / b->sampled;
    wane__free(out);
}

static int take_sample(struct build *b) {
    size_t d = (size_t)b->header.d, wide = (d + 15) / 16 * 16, count = (size_t)b->sampled;
    const float *mean = b->map + d;
    float *columns = b->sample, *panels = b->sample + wide * count;
    float *row = wane__alloc(d * sizeof *row);
    if (row == NULL) return WANE_ENOMEM;
    int status = WANE_OK;
    for (size_t r = 0; r < count && status == WANE_OK; r++) {
        status = b->weights->rows(b->weights->user, (int)r * b->sample_step, 1, row);
        for (size_t i = 0; i < d && status == WANE_OK; i++) {
            float x = row[i] - mean[i];
            columns[i * count + r] = x;
            panels[(i / 16 * count + r) * 16 + i % 16] = x;
        }
    }
    wane__free(row);
    return status;
}

static int find_moments(struct build *b) {
    size_t d = (size_t)b->header.d, wide = (d + 15) / 16 * 16;
    int vocab = b->header.vocab_size;
    b->sample_step = vocab > SAMPLE ? vocab / SAMPLE : 1;
    b->sampled = vocab / b->sample_step;
    b->sample = wane__alloc_zero(2 * wide * (size_t)b->sampled, sizeof *b->sample);
    b->moments = wane__alloc(d * d * sizeof *b->moments);
    if (b->sample == NULL || b->moments == NULL) return WANE_ENOMEM;
    int status = take_sample(b);
    if (status == WANE_OK) status = run(b, sum_moments, (int)(wide / 16), "head: moments", 0.1, 0.15);
    wane__free(b->sample);
    b->sample = NULL;
    return status;
}

/* ---------------------------------------------------------------------- the map */

/* P's row j and T's row j are coordinate j; here they find their padded places. */
static void place_maps(struct build *b, const float *t, const float *p) {
    size_t d = (size_t)b->header.d, j = 0, at = 0;
    float *forward = b->map + 2 * d;
    memset(forward, 0, d * (size_t)b->shape.padded * sizeof *forward);
    for (int g = 0; g < b->header.groups; g++) {
        for (size_t x = 0; x < (size_t)b->header.group[g].real; x++, j++) {
            size_t column = at + x;
            size_t to = column / WANE__PANEL * WANE__PANEL * d + column % WANE__PANEL;
            for (size_t i = 0; i < d; i++, to += WANE__PANEL) {
                b->panels[to] = p[j * d + i];
                forward[to] = t[j * d + i];
            }
        }
        at += (size_t)b->header.group[g].dims;
    }
}

static int find_map(struct build *b, const struct wane__head_statistics *statistics) {
    size_t d = (size_t)b->header.d;
    int status = find_moments(b);
    if (status != WANE_OK) return status;
    b->panels = wane__alloc_zero(wane__panels_size(b->shape.padded, b->header.d), sizeof *b->panels);
    float *t = wane__alloc(2 * d * d * sizeof *t), *p = t + d * d;
    if (b->panels == NULL || t == NULL) {
        wane__free(t);
        return WANE_ENOMEM;
    }
    bool fine = wane__basis_balance(b->header.d, statistics->covariance, statistics->rows, b->moments, t, p);
    if (fine) place_maps(b, t, p);
    wane__free(t);
    return fine ? WANE_OK : WANE_EINVAL;
}

/* ------------------------------------------------------------------------- codes */

/* Level 1 of one group of one row: bits into the block, what was fitted into `fit`. */
static void code_level1(const struct wane__sketch_group *group, const float *y, uint8_t *columns, int row,
                        struct fit *fit) {
    int bits = group->bits, levels = 1 << bits, plane_bytes = group->kept / 8 * WANE__SKETCH_ROWS;
    double length2 = 0, product = 0, code2 = 0;
    for (int i = 0; i < group->dims; i++) length2 += (double)y[i] * (double)y[i];
    float step = steps[bits] * sqrtf((float)(length2 / group->dims)), inverse = step > 0 ? 1 / step : 0;
    for (int i = 0; i < group->kept; i += 8) {
        uint8_t planes[4] = {0};
        for (int j = 0; j < 8; j++) {
            int code = (int)floorf(y[i + j] * inverse) + levels / 2;
            code = code < 0 ? 0 : code >= levels ? levels - 1 : code;
            float q = (float)code - 0.5f * (float)(levels - 1);
            product += (double)(q * y[i + j]);
            code2 += (double)(q * q);
            for (int p = 0; p < bits; p++)
                planes[p] = (uint8_t)(planes[p] | ((code >> (bits - 1 - p) & 1) << j));
        }
        for (int p = 0; p < bits; p++) columns[p * plane_bytes + i / 8 * WANE__SKETCH_ROWS + row] = planes[p];
    }
    *fit = (struct fit){(float)length2, (float)product, (float)code2};
}

/* Level 2 of one group: nibbles, the scale and the error's length. */
static void code_level2(const float *y, int n, uint8_t *nibbles, float *scale, float *length) {
    double length2 = 0, product = 0, error2 = 0;
    for (int i = 0; i < n; i++) length2 += (double)y[i] * (double)y[i];
    float step = steps[4] * sqrtf((float)(length2 / n)), inverse = step > 0 ? 1 / step : 0;
    for (int i = 0; i < n; i += 64) {
        for (int j = 0; j < 64; j++) {
            int code = (int)floorf(y[i + j] * inverse) + LEVEL2_MID;
            code = code < 0 ? 0 : code > 15 ? 15 : code;
            product += (double)(((float)code - 7.5f) * y[i + j]);
            uint8_t *to = nibbles + i / 2 + j % 32;
            *to = (uint8_t)(j < 32 ? code : *to | code << 4);
        }
    }
    float s = product > 0 ? (float)(length2 / product) : 0;
    for (int i = 0; i < n; i++) {
        int nibble = nibbles[i / 64 * 32 + i % 32] >> (i % 64 < 32 ? 0 : 4) & 15;
        double e = (double)(y[i] - s * ((float)nibble - 7.5f));
        error2 += e * e;
    }
    *scale = s;
    *length = (float)(sqrt(error2) * (1 + 1e-6));
}

static bool code_row(struct build *b, int row, float *y, float *scratch) {
    int groups = b->header.groups, at = 0;
    uint8_t *block = b->level1 + (size_t)(row / WANE__SKETCH_ROWS) * b->shape.block_bytes;
    uint8_t *columns = block + b->shape.meta_bytes;
    uint8_t *record = b->level2 + (size_t)row * b->shape.record_bytes;
    float *head = (float *)(void *)record;
    for (int g = 0; g < groups; g++) {
        const struct wane__sketch_group *group = &b->header.group[g];
        struct fit *fit = &b->fits[(size_t)row * (size_t)groups + (size_t)g];
        wane__rotate(&b->rotation[g], y + at, scratch);
        code_level1(group, y + at, columns, row % WANE__SKETCH_ROWS, fit);
        if (!isfinite(fit->length2)) return false;
        code_level2(y + at, group->dims, record + b->shape.record_head + at / 2, &head[1 + 2 * g],
                    &head[2 + 2 * g]);
        columns += group->kept / 8 * WANE__SKETCH_ROWS * group->bits;
        at += group->dims;
    }
    return true;
}

/* Rows minus their mean, mapped: count × padded. Bias and length on the way. */
static void map_strip(struct build *b, int first, int count, float *rows, float *out, double *longest) {
    size_t d = (size_t)b->header.d, padded = (size_t)b->shape.padded;
    const float *mean = b->map, *mean_row = b->map + d;
    for (int r = 0; r < count; r++) {
        float *row = rows + (size_t)r * d;
        double bias = 0, length2 = 0;
        for (size_t i = 0; i < d; i++) {
            bias += (double)row[i] * (double)mean[i];
            length2 += (double)row[i] * (double)row[i];
            row[i] -= mean_row[i];
        }
        int id = first + r;
        float *biases =
            (float *)(void *)(b->level1 + (size_t)(id / WANE__SKETCH_ROWS) * b->shape.block_bytes);
        biases[id % WANE__SKETCH_ROWS] = (float)bias;
        memcpy(b->level2 + (size_t)id * b->shape.record_bytes, &biases[id % WANE__SKETCH_ROWS],
               sizeof *biases);
        if (length2 > *longest) *longest = length2;
    }
    if (b->panels != NULL) {
        wane__multiply(rows, d, count, b->panels, (int)padded, (int)d, out, padded);
        return;
    }
    memset(out, 0, (size_t)count * padded * sizeof *out);
    for (int r = 0; r < count; r++) {
        size_t j = 0, at = 0;
        for (int g = 0; g < b->header.groups; g++) {
            memcpy(out + (size_t)r * padded + at, rows + (size_t)r * d + j,
                   (size_t)b->header.group[g].real * sizeof *out);
            j += (size_t)b->header.group[g].real;
            at += (size_t)b->header.group[g].dims;
        }
    }
}

static void code_part(void *user, int part) {
    struct build *b = user;
    part += b->first_part;
    size_t d = (size_t)b->header.d, padded = (size_t)b->shape.padded;
    int from = part * PART, to = from + PART < b->header.vocab_size ? from + PART : b->header.vocab_size;
    float *rows = wane__alloc((STRIP * d + (STRIP + 1) * padded) * sizeof *rows);
    if (rows == NULL) {
        fail(b, WANE_ENOMEM);
        return;
    }
    float *out = rows + STRIP * d, *scratch = out + STRIP * padded;
    for (int at = from; at < to; at += STRIP) {
        int n = to - at < STRIP ? to - at : STRIP;
        int status = b->weights->rows(b->weights->user, at, n, rows);
        if (status == WANE_OK) {
            map_strip(b, at, n, rows, out, &b->longest[part]);
            for (int r = 0; r < n && status == WANE_OK; r++)
                if (!code_row(b, at + r, out + (size_t)r * padded, scratch)) status = WANE_EINVAL;
        }
        if (status != WANE_OK) {
            fail(b, status);
            break;
        }
    }
    wane__free(rows);
}

/* ------------------------------------------------------------------------ scales */

static float scale_of(const struct fit *fit) {
    /*
     * Nearly orthogonal to its code: no unbiased scale is of use. A full code never is; of a rotated vector's
     * part it is as good as impossible.
     */
    float least = 1e-3f * sqrtf(fit->length2 * fit->code2);
    if (!(fit->product > least)) return sqrtf(fit->length2 / (fit->code2 > 0 ? fit->code2 : 1));
    return fit->length2 / fit->product;
}

static uint16_t scale_code(float scale, int32_t exponent) {
    union {
        float value;
        uint32_t bits;
    } u = {.value = scale};
    uint32_t base = (uint32_t)(exponent + 127) << 23;
    if (u.bits <= base) return 0;
    uint32_t code = (u.bits - base + 0x800) >> 12;
    return code > UINT16_MAX ? UINT16_MAX : (uint16_t)code;
}

/* |e| / s with the scale as it is stored. */
static double ratio_of(const struct fit *fit, float scale) {
    double s = (double)scale;
    double square = ((double)fit->length2 / s - 2 * (double)fit->product) / s + (double)fit->code2;
    /* Sums were rounded to floats: a part in ten million of what they cancel from. */
    square += 3e-7 * ((double)fit->length2 / (s * s) + (double)fit->code2);
    return square > 0 ? sqrt(square) : 0;
}

/* The group's exponent: its largest scale has the highest one of 32. */
static void find_exponent(const struct build *b, int g, struct wane__sketch_group *group) {
    size_t groups = (size_t)b->header.groups;
    float most = 0, longest = 0;
    for (size_t row = 0; row < (size_t)b->header.vocab_size; row++) {
        const struct fit *fit = &b->fits[row * groups + (size_t)g];
        float scale = scale_of(fit);
        if (scale > most) most = scale;
        if (fit->code2 > longest) longest = fit->code2;
    }
    int exponent = 0;
    if (most > 0) frexpf(most * (1 + WANE__SCALE_ERROR * 2), &exponent);
    group->exponent = exponent - 32 < -126 ? -126 : exponent - 32;
    group->longest_code = sqrtf(longest) * (1 + 1e-6f);
}

static void write_scales(struct build *b, int g) {
    struct wane__sketch_group *group = &b->header.group[g];
    size_t groups = (size_t)b->header.groups, vocab = (size_t)b->header.vocab_size;
    double low = INFINITY, high = 0;
    find_exponent(b, g, group);
    for (int pass = 0; pass < 2; pass++) {
        for (size_t row = 0; row < vocab; row++) {
            const struct fit *fit = &b->fits[row * groups + (size_t)g];
            uint16_t code = scale_code(scale_of(fit), group->exponent);
            double ratio = ratio_of(fit, wane__scale_value(code, group->exponent));
            if (pass == 0) {
                low = ratio < low ? ratio : low;
                high = ratio > high ? ratio : high;
                continue;
            }
            uint8_t *meta = b->level1 + row / WANE__SKETCH_ROWS * b->shape.block_bytes +
                            WANE__SKETCH_ROWS * (4 + 3 * (size_t)g);
            size_t at = row % WANE__SKETCH_ROWS;
            memcpy(meta + 2 * at, &code, sizeof code);
            double steps_up = ceil((ratio - (double)group->ratio_low) / (double)group->ratio_step);
            meta[2 * WANE__SKETCH_ROWS + at] = (uint8_t)(steps_up < 0 ? 0 : steps_up > 255 ? 255 : steps_up);
        }
        group->ratio_low = (float)(low * (1 - 1e-6));
        group->ratio_step = (float)((high - low) / 254 + 1e-6 * high + 1e-30);
    }
}

/* Rows past the vocabulary's end in the last block: far below anything. */
static void fill_last_block(struct build *b) {
    int vocab = b->header.vocab_size;
    float *biases = (float *)(void *)(b->level1 + (b->shape.blocks - 1) * b->shape.block_bytes);
    for (int r = vocab % WANE__SKETCH_ROWS; r != 0 && r < WANE__SKETCH_ROWS; r++) biases[r] = -1e30f;
}

/* ------------------------------------------------------------------------- build */

static int prepare(struct build *b, const struct wane__sketch_plan *plan) {
    struct wane__sketch_header *header = &b->header;
    int left = header->d;
    header->groups = plan->groups;
    for (int g = 0; g < plan->groups; g++) {
        struct wane__sketch_group *group = &header->group[g];
        group->real = plan->group[g].real > 0 ? plan->group[g].real : left;
        group->dims = (group->real + 63) / 64 * 64;
        group->kept = plan->group[g].kept > 0 ? plan->group[g].kept : group->dims;
        group->bits = plan->group[g].bits;
        left -= group->real;
        if (group->real < 1 || group->bits < 1 || group->bits > 4 || group->kept > group->dims ||
            group->kept % 64 != 0)
            return WANE_EINVAL;
    }
    if (left != 0) return WANE_EINVAL;
    wane__sketch_shape_of(header, &b->shape);
    size_t rows = b->shape.blocks * WANE__SKETCH_ROWS;
    b->map = wane__alloc_zero(1, b->shape.map_bytes);
    b->level1 = wane__alloc_aligned(64, b->shape.blocks * b->shape.block_bytes);
    b->level2 = wane__alloc_aligned(64, rows * b->shape.record_bytes);
    b->fits = wane__alloc_zero(rows * (size_t)plan->groups, sizeof *b->fits);
    b->longest = wane__alloc_zero(rows / PART + 1, sizeof *b->longest);
    if (b->map == NULL || b->level1 == NULL || b->level2 == NULL || b->fits == NULL || b->longest == NULL ||
        !wane__sketch_rotations(header, b->rotation))
        return WANE_ENOMEM;
    memset(b->level1, 0, b->shape.blocks * b->shape.block_bytes);
    memset(b->level2, 0, rows * b->shape.record_bytes);
    return WANE_OK;
}

static int build_all(struct build *b, const struct wane__head_statistics *statistics,
                     const struct wane__sketch_plan *plan) {
    int status = prepare(b, plan);
    if (status == WANE_OK && statistics != NULL && statistics->mean != NULL)
        memcpy(b->map, statistics->mean, (size_t)b->header.d * sizeof *b->map);
    for (int i = 0; i < b->header.d && status == WANE_OK; i++)
        if (!isfinite(b->map[i])) status = WANE_EINVAL;
    if (status == WANE_OK) status = find_mean_row(b);
    if (status == WANE_OK && b->header.has_map)
        status = statistics != NULL && statistics->covariance != NULL ? find_map(b, statistics) : WANE_EINVAL;
    int parts = (b->header.vocab_size + PART - 1) / PART;
    if (status == WANE_OK) status = run(b, code_part, parts, "head: sketch", 0.2, 0.95);
    if (status != WANE_OK) return status;
    double longest = 0;
    for (int part = 0; part < parts; part++)
        longest = b->longest[part] > longest ? b->longest[part] : longest;
    b->header.longest_row = sqrt(longest);
    for (int g = 0; g < b->header.groups; g++) write_scales(b, g);
    fill_last_block(b);
    return WANE_OK;
}

static void free_build(struct build *b) {
    wane__pool_free(b->pool);
    for (int g = 0; g < WANE__SKETCH_GROUPS; g++) wane__rotation_free(&b->rotation[g]);
    wane__free(b->map);
    wane__free(b->panels);
    wane__free(b->sums);
    wane__free(b->sample);
    wane__free(b->moments);
    wane__free(b->level1);
    wane__free(b->level2);
    wane__free(b->fits);
    wane__free(b->longest);
}

static int say(int status, const struct wane__head_weights *weights, wane_error *error) {
    switch (status) {
    case WANE_ENOMEM:
        return wane__fail(error, status, "No memory to build the sketch of a head of %d × %d.",
                          weights->vocab_size, weights->d);
    case WANE_EINVAL:
        return wane__fail(error, status,
                          "The head's weights or its statistics hold NaN or infinity, or make no "
                          "sense otherwise: no sketch of them.");
    case WANE_ECANCELLED: return wane__fail(error, status, "Building the head's sketch was stopped.");
    default: return wane__fail(error, status, "The head's rows cannot be read (%s).", wane_strerror(status));
    }
}

int wane__sketch_build_plan(const char *path, const struct wane__head_weights *weights,
                            const struct wane__head_statistics *statistics,
                            const struct wane__sketch_plan *plan, const char *digest, int threads,
                            wane_progress_fn progress, void *progress_user, wane_error *error) {
    if (weights->vocab_size < 1 || weights->d < 1 || weights->d > WANE__SKETCH_MOST_D)
        return wane__fail(error, WANE_EINVAL, "A head of %d × %d cannot be sketched.", weights->vocab_size,
                          weights->d);
    struct build b = {.weights = weights, .progress = progress, .progress_user = progress_user};
    bool mapped = statistics != NULL && statistics->covariance != NULL;
    b.header.vocab_size = weights->vocab_size;
    b.header.d = weights->d;
    b.header.has_map = mapped;
    b.header.statistics_rows = statistics != NULL ? statistics->rows : 0;
    for (size_t i = 0; i < sizeof b.header.digest && digest[i] != '\0'; i++) b.header.digest[i] = digest[i];
    int status = wane__pool_new(threads, &b.pool);
    if (status == WANE_OK) status = build_all(&b, statistics, plan);
    if (status != WANE_OK) {
        status = say(status, weights, error);
    } else {
        const void *const section[3] = {b.map, b.level1, b.level2};
        status = wane__sketch_write(path, &b.header, section, error);
    }
    free_build(&b);
    return status;
}

int wane__sketch_build(const char *path, const struct wane__head_weights *weights,
                       const struct wane__head_statistics *statistics, const char *digest, int threads,
                       wane_progress_fn progress, void *progress_user, wane_error *error) {
    struct wane__sketch_plan plan;
    wane__sketch_plan_for(weights->vocab_size, weights->d,
                          statistics != NULL && statistics->covariance != NULL, &plan);
    return wane__sketch_build_plan(path, weights, statistics, &plan, digest, threads, progress, progress_user,
                                   error);
}
