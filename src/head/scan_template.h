/*
 * scan_template.h - what all kernels share: from integer sums to estimates and bounds, and the walk over blocks.
 *
 * A file of kernels defines TARGET (the attribute for its instructions), LANES (floats in a register) and
 *
 *     static void add_columns(const uint8_t *columns, const uint8_t *low, const uint8_t *high, int count,
 *                             int32_t *sums)
 *
 *     ROOTS(x), LARGER(x, y)    square roots, and the larger ones, of vectors
 *
 * The first adds to sums[32] what the tables say of `count` columns. Then it includes this. No include guard: each
 * family compiles its own.
 */

typedef float vf __attribute__((vector_size(4 * LANES), aligned(4)));
typedef int32_t vi __attribute__((vector_size(4 * LANES), aligned(4)));
typedef uint32_t vu __attribute__((vector_size(4 * LANES), aligned(4)));
typedef uint16_t vh __attribute__((vector_size(2 * LANES), aligned(2)));
typedef uint8_t vb __attribute__((vector_size(LANES), aligned(1)));

/* From sums to what is known of the block's rows, a register of them at a time. */
TARGET static void finish_block(const struct wane__sketch *sketch, const uint8_t *block, size_t index,
                                const struct wane__scan_query *query,
                                int32_t sums[WANE__SKETCH_GROUPS][WANE__SKETCH_ROWS]) {
    struct wane__scan_block *known = &query->known[index];
    const vi magnitude = (vi){0} + 0x7fffffff;
    vf most_upper, most_estimate;
    for (int r = 0; r < WANE__SKETCH_ROWS; r += LANES) {
        vf estimate, variance = {0}, rounding = {0};
        memcpy(&estimate, block + 4 * r, sizeof estimate);
        estimate += query->constant;
        const uint8_t *meta = block + 4 * WANE__SKETCH_ROWS;
        for (int g = 0; g < sketch->header.groups; g++, meta += 3 * WANE__SKETCH_ROWS) {
            const struct wane__scan_group *group = &query->group[g];
            vh scales;
            vb ratios;
            vi sum;
            memcpy(&scales, meta + 2 * r, sizeof scales);
            memcpy(&ratios, meta + 2 * WANE__SKETCH_ROWS + r, sizeof ratios);
            memcpy(&sum, &sums[g][r], sizeof sum);
            vu bits = __builtin_convertvector(scales, vu) << 12;
            vf scale = (vf)(bits + ((uint32_t)(group->exponent + 127) << 23));
            vf part = scale * (group->step * (__builtin_convertvector(sum, vf) + group->offset));
            vf ratio = group->ratio_low + group->ratio_step * __builtin_convertvector(ratios, vf);
            estimate += part;
            rounding += (vf)((vi)part & magnitude);
            variance += scale * scale * (ratio * ratio * group->error_row + group->error_query);
        }
        vf half = query->sigmas * ROOTS(variance) + rounding * WANE__SCALE_ERROR + query->slack;
        vf upper = estimate + half;
        memcpy(&known->estimate[r], &estimate, sizeof estimate);
        memcpy(&known->half[r], &half, sizeof half);
        most_upper = r == 0 ? upper : LARGER(most_upper, upper);
        most_estimate = r == 0 ? estimate : LARGER(most_estimate, estimate);
    }
    memset(known->state, 0, sizeof known->state);
    float upper = most_upper[0], estimate = most_estimate[0];
    for (int i = 1; i < LANES; i++) {
        upper = most_upper[i] > upper ? most_upper[i] : upper;
        estimate = most_estimate[i] > estimate ? most_estimate[i] : estimate;
    }
    query->block_upper[index] = upper;
    query->block_estimate[index] = estimate;
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

/* e to each x in [-87, 60], good to 3e-6: a power of two, and a polynomial over ± half a step of it (its series). */
TARGET static inline void exponentials(float x[WANE__SKETCH_ROWS]) {
    float shifted[WANE__SKETCH_ROWS], power[WANE__SKETCH_ROWS];
    uint32_t bits[WANE__SKETCH_ROWS];
    for (int r = 0; r < WANE__SKETCH_ROWS; r++) {
        float y = x[r] < -87 ? -87 : x[r];
        x[r] = y > 60 ? 60 : y;
    }
    for (int r = 0; r < WANE__SKETCH_ROWS; r++) shifted[r] = x[r] * 0x1.715476p0f + 0x1.8p23f;
    memcpy(bits, shifted, sizeof bits);
    for (int r = 0; r < WANE__SKETCH_ROWS; r++) bits[r] = (bits[r] << 23) + 0x3f800000u;
    memcpy(power, bits, sizeof power);
    for (int r = 0; r < WANE__SKETCH_ROWS; r++) {
        float n = shifted[r] - 0x1.8p23f, y = x[r] - n * 0x1.62e4p-1f - n * 0x1.7f7d1cp-20f;
        float series =
            1 + y * (1 + y * (0.5f + y * (0x1.555556p-3f + y * (0x1.555556p-5f + y * 0x1.111112p-7f))));
        x[r] = series * power[r];
    }
}

/* Their sum in double: so that a block's small terms are not lost beside other blocks' large ones. */
TARGET static inline double add_up(const float x[WANE__SKETCH_ROWS]) {
    float part[8] = {0};
    for (int r = 0; r < WANE__SKETCH_ROWS; r += 8)
        for (int i = 0; i < 8; i++) part[i] += x[r + i];
    return ((double)part[0] + (double)part[4]) + ((double)part[1] + (double)part[5]) +
           (((double)part[2] + (double)part[6]) + ((double)part[3] + (double)part[7]));
}

TARGET static inline float largest_of(const float x[WANE__SKETCH_ROWS]) {
    float part[8];
    memcpy(part, x, sizeof part);
    for (int r = 8; r < WANE__SKETCH_ROWS; r += 8)
        for (int i = 0; i < 8; i++) part[i] = x[r + i] > part[i] ? x[r + i] : part[i];
    float most = part[0];
    for (int i = 1; i < 8; i++) most = part[i] > most ? part[i] : most;
    return most;
}

/*
 * An estimate's error is Gaussian with deviation z, in nats: e^(x - z²/2) is right on average, with the variance of a
 * lognormal, e^(z²) - 1 times its square.
 */
TARGET static void sum_block(const struct wane__scan_block *known, const struct wane__scan_sum *how,
                             struct wane__scan_sums *sums) {
    float mass[WANE__SKETCH_ROWS], spread[WANE__SKETCH_ROWS], use[WANE__SKETCH_ROWS], wild[WANE__SKETCH_ROWS],
        near[WANE__SKETCH_ROWS], upper[WANE__SKETCH_ROWS], beyond[WANE__SKETCH_ROWS];
    float scale = how->scale, share = scale / how->sigmas, low = -1e30f;
    for (int r = 0; r < WANE__SKETCH_ROWS; r++) {
        uint8_t state = known->state[r];
        use[r] = state < WANE__KNOWN_EXACT ? 1 : 0;
        near[r] = state == WANE__KNOWN_LEVEL1 ? 1 : 0;
    }
    for (int r = 0; r < WANE__SKETCH_ROWS; r++) {
        float half = known->half[r], z = share * half, z2 = z * z;
        float x = scale * (known->estimate[r] - how->reference), most = x + scale * half;
        bool far = z2 > WANE__SCAN_WILD;
        wild[r] = far ? use[r] : 0;
        mass[r] = far ? most : x - 0.5f * z2;
        spread[r] = far ? 0 : z2;
        near[r] = known->estimate[r] + half >= how->border ? near[r] : 0;
        upper[r] = use[r] > wild[r] ? most : low;
        beyond[r] = wild[r] > 0 ? most : low;
    }
    exponentials(mass);
    exponentials(spread);
    for (int r = 0; r < WANE__SKETCH_ROWS; r++) {
        wild[r] *= mass[r];
        mass[r] = use[r] * mass[r] - wild[r];
        near[r] *= mass[r];
        spread[r] = mass[r] * mass[r] * (spread[r] - 1);
    }
    sums->mass += add_up(mass);
    sums->bounded += add_up(wild);
    sums->border += add_up(near);
    sums->square += add_up(spread);
    for (int r = 0; r < WANE__SKETCH_ROWS; r += LANES) {
        vf x;
        memcpy(&x, spread + r, sizeof x);
        x = ROOTS(x);
        memcpy(spread + r, &x, sizeof x);
    }
    sums->deviation += add_up(spread);
    float most = largest_of(upper);
    if ((double)most > sums->upper) sums->upper = (double)most;
    if (largest_of(beyond) > 60) sums->bounded = (double)INFINITY;
}

TARGET static void sum_blocks(const struct wane__scan_query *query, size_t from, size_t to,
                              const struct wane__scan_sum *how, struct wane__scan_sums *sums) {
    for (size_t b = from; b < to; b++) {
        float upper = how->scale * (query->block_upper[b] - how->reference);
        if (upper < how->far)
            sums->bounded += WANE__SKETCH_ROWS * exp((double)upper);
        else
            sum_block(&query->known[b], how, sums);
    }
}
