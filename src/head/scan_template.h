/*
 * scan_template.h - what all kernels share: from integer sums to estimates and bounds, and the walk over blocks.
 *
 * A file of kernels defines TARGET (the attribute for its instructions) and
 *
 *     static void add_columns(const uint8_t *columns, const uint8_t *low, const uint8_t *high, int count,
 *                             int32_t *sums)
 *
 *     static void roots(float *x)
 *     static float largest(const float *x)
 *
 * which add to sums[32] what the tables say of `count` columns, take the square roots of x[32], and find the
 * largest of them, and then includes this. No include guard: each family compiles its own.
 */

/* sums → estimate and variance of one group, added up. */
TARGET static inline void finish_group(const struct wane__scan_group *group, const uint8_t *meta,
                                       const int32_t *sums, float *estimate, float *variance,
                                       float *rounding) {
    uint16_t scales[WANE__SKETCH_ROWS];
    const uint8_t *ratios = meta + sizeof scales;
    memcpy(scales, meta, sizeof scales);
    float step = group->step, offset = group->offset, low = group->ratio_low, ratio_step = group->ratio_step;
    float error_row = group->error_row, error_query = group->error_query;
    uint32_t base = (uint32_t)(group->exponent + 127) << 23;
    uint32_t bits[WANE__SKETCH_ROWS];
    float scale[WANE__SKETCH_ROWS];
    for (int r = 0; r < WANE__SKETCH_ROWS; r++) bits[r] = base + ((uint32_t)scales[r] << 12);
    memcpy(scale, bits, sizeof scale);
    for (int r = 0; r < WANE__SKETCH_ROWS; r++) {
        float part = scale[r] * (step * ((float)sums[r] + offset));
        float ratio = low + ratio_step * (float)ratios[r];
        estimate[r] += part;
        rounding[r] += fabsf(part);
        variance[r] += scale[r] * scale[r] * (ratio * ratio * error_row + error_query);
    }
}

TARGET static void finish_block(const struct wane__sketch *sketch, const uint8_t *block, size_t index,
                                const struct wane__scan_query *query,
                                int32_t sums[WANE__SKETCH_GROUPS][WANE__SKETCH_ROWS]) {
    float estimate[WANE__SKETCH_ROWS], variance[WANE__SKETCH_ROWS] = {0}, rounding[WANE__SKETCH_ROWS] = {0};
    float constant = query->constant, sigmas = query->sigmas, slack = query->slack;
    memcpy(estimate, block, sizeof estimate);
    for (int r = 0; r < WANE__SKETCH_ROWS; r++) estimate[r] += constant;
    for (int g = 0; g < sketch->header.groups; g++)
        finish_group(&query->group[g], block + WANE__SKETCH_ROWS * (size_t)(4 + 3 * g), sums[g], estimate,
                     variance, rounding);
    float half[WANE__SKETCH_ROWS], upper[WANE__SKETCH_ROWS];
    roots(variance);
    for (int r = 0; r < WANE__SKETCH_ROWS; r++)
        half[r] = sigmas * variance[r] + rounding[r] * WANE__SCALE_ERROR + slack;
    for (int r = 0; r < WANE__SKETCH_ROWS; r++) upper[r] = estimate[r] + half[r];
    struct wane__scan_block *known = &query->known[index];
    memcpy(known->estimate, estimate, sizeof estimate);
    memcpy(known->half, half, sizeof half);
    memset(known->state, 0, sizeof known->state);
    query->block_upper[index] = largest(upper);
    query->block_estimate[index] = largest(estimate);
}

TARGET static void scan_blocks(const struct wane__sketch *sketch, size_t from, size_t to,
                               const struct wane__scan_query *queries, int count) {
    size_t size = sketch->shape.block_bytes;
    for (size_t index = from; index < to; index++) {
        const uint8_t *block = sketch->level1 + index * size;
        if (index + 2 < to)
            for (size_t at = 0; at < size; at += 64) __builtin_prefetch(block + 2 * size + at);
        for (int q = 0; q < count; q++) {
            int32_t sums[WANE__SKETCH_GROUPS][WANE__SKETCH_ROWS];
            if (index + 4 < to)
                for (size_t at = 0; at < sizeof *queries[q].known; at += 64)
                    __builtin_prefetch((const char *)&queries[q].known[index + 4] + at, 1);
            const uint8_t *columns = block + sketch->shape.meta_bytes;
            for (int g = 0; g < sketch->header.groups; g++) {
                const struct wane__scan_group *group = &queries[q].group[g];
                const uint8_t *high = group->tables + (size_t)group->columns * 32;
                for (int r = 0; r < WANE__SKETCH_ROWS; r++) sums[g][r] = 0;
                for (int plane = 0; plane < group->planes; plane++) {
                    if (plane > 0)
                        for (int r = 0; r < WANE__SKETCH_ROWS; r++) sums[g][r] *= 2;
                    add_columns(columns, group->tables, high, group->columns, sums[g]);
                    columns += (size_t)group->columns * WANE__SKETCH_ROWS;
                }
            }
            finish_block(sketch, block, index, &queries[q], sums);
        }
    }
}
