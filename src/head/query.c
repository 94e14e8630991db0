/*
 * query.c - a hidden row as the kernels want it: rotated within groups, rounded to integers of 5 bits for the
 * tables of level 1 and of 8 bits for level 2, and with the variances that bound what the rounding and the
 * codes leave out.
 */
#include "head/certified.h"

#include <math.h>
#include <string.h>

/* Round y to -most … most; returns the squared length of what is lost. */
static double round_to(const float *y, int n, int most, int8_t *out, float *step, int *sum) {
    float largest = 0;
    double lost = 0;
    for (int i = 0; i < n; i++) largest = fabsf(y[i]) > largest ? fabsf(y[i]) : largest;
    *step = largest / (float)most;
    float inverse = *step > 0 ? 1 / *step : 0;
    *sum = 0;
    for (int i = 0; i < n; i++) {
        int q = (int)lrintf(y[i] * inverse);
        q = q > most ? most : q < -most ? -most : q;
        out[i] = (int8_t)q;
        *sum += q;
        double e = (double)(y[i] - *step * (float)q);
        lost += e * e;
    }
    return lost;
}

/* What 4 numbers add up to at the bits of 0 … 15, less the sum of the negative ones, twice; returns that. */
static int fill_table(const int8_t q[4], uint8_t table[32]) {
    int negative = 0;
    for (int j = 0; j < 4; j++) negative += q[j] < 0 ? q[j] : 0;
    table[0] = (uint8_t)-negative;
    for (int j = 0; j < 4; j++)
        for (int v = 0; v < 1 << j; v++) table[(1 << j) + v] = (uint8_t)(table[v] + q[j]);
    memcpy(table + 16, table, 16);
    return negative;
}

static void prepare_group(const struct wane__sketch_group *shape, struct wane__scan_group *group,
                          const float *y, uint8_t *tables, int8_t *fine) {
    int8_t coarse[WANE__SKETCH_MOST_D] = {0};
    int sum, negative = 0, levels = 1 << shape->bits;
    double length2 = 0, freedom = shape->dims - 1;
    for (int i = 0; i < shape->dims; i++) length2 += (double)y[i] * (double)y[i];
    double lost = round_to(y, shape->kept, WANE__SCAN_MOST, coarse, &group->step, &sum);
    group->columns = shape->kept / 8;
    group->planes = shape->bits;
    group->tables = tables;
    for (int c = 0; c < group->columns; c++) {
        negative += fill_table(coarse + 8 * c, tables + 32 * (size_t)c);
        negative += fill_table(coarse + 8 * c + 4, tables + 32 * (size_t)(group->columns + c));
    }
    group->offset = (float)(levels - 1) * ((float)negative - 0.5f * (float)sum);
    double longest = (double)shape->longest_code;
    group->error_row = (float)(length2 / freedom);
    group->error_query = (float)(longest * longest * lost / freedom);
    group->ratio_low = shape->ratio_low;
    group->ratio_step = shape->ratio_step;
    group->exponent = shape->exponent;
    lost = round_to(y, shape->dims, 127, fine, &group->fine_step, &sum);
    group->fine = fine;
    group->dims = shape->dims;
    group->fine_offset = -7.5f * (float)sum;
    group->fine_error_row = group->error_row;
    /* No code is longer than n numbers of 7.5. */
    group->fine_error_query = (float)(56.25 * shape->dims * lost / freedom);
}

/* Standard deviation of a coordinate that a rounding to 8 bits in blocks of 256 would cause. */
static double rounding_of(const float *hidden, int d) {
    double sum = 0;
    for (int from = 0; from < d; from += 256) {
        int to = from + 256 < d ? from + 256 : d;
        float most = 0; /* not by fmax on doubles: gcc 12 fails on that loop when it compiles for ARM */
        for (int i = from; i < to; i++) most = fabsf(hidden[i]) > most ? fabsf(hidden[i]) : most;
        double largest = (double)most;
        sum += largest * largest * (to - from) / (127.0 * 127 * 12);
    }
    return sqrt(sum / d);
}

void wane__query_constant(const struct wane__head *head, struct wane__head_row *row, float *seen) {
    const struct wane__sketch *sketch = &head->sketch;
    double constant = 0, length2 = 0, mean2 = 0, rounding = 0;
    if (head->weights.seen == NULL) rounding = (double)head->sigmas * rounding_of(seen, sketch->header.d);
    for (int i = 0; i < sketch->header.d; i++) {
        double mean = (double)sketch->mean[i], x = (double)seen[i];
        constant += (x - mean) * (double)sketch->mean_row[i];
        length2 += x * x;
        mean2 += mean * mean;
        seen[i] = (float)(x - mean);
    }
    row->query.constant = (float)constant;
    row->query.sigmas = head->sigmas;
    /*
     * What floats lose: in the bias, in the sums here, and in the engine's own sum. A product of two rows is
     * off by a few units in the last place of |w|·|h|.
     */
    row->query.slack =
        (float)(sketch->header.longest_row * (rounding + 4e-7 * (sqrt(length2) + 2 * sqrt(mean2))));
}

void wane__query_prepare(const struct wane__head *head, struct wane__head_row *row, float *mapped,
                         float *scratch) {
    const struct wane__sketch *sketch = &head->sketch;
    uint8_t *tables = row->tables;
    int8_t *fine = row->fine;
    for (int g = 0; g < sketch->header.groups; g++) {
        const struct wane__sketch_group *shape = &sketch->header.group[g];
        wane__rotate(&sketch->rotation[g], mapped, scratch);
        prepare_group(shape, &row->query.group[g], mapped, tables, fine);
        mapped += shape->dims;
        fine += shape->dims;
        tables += (size_t)shape->kept * 8;
    }
}
