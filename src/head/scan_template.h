/*
 * scan_template.h - what all kernels share: from integer sums to estimates and bounds, and the walk over blocks.
 *
 * A file of kernels defines TARGET (the attribute for its instructions), LANES (floats in a register) and
 *
 *     static void add_columns(const uint8_t *columns, const uint8_t *low, const uint8_t *high, int count,
 *                             int32_t *sums)
 *
 *     ROOTS(x), LARGER(x, y), SMALLER(x, y)     of vectors of floats
 *     BYTES(p), HALVES(p)                       LANES unsigned bytes, or 16-bit numbers, as a vector of integers
 *
 * The first adds to sums[32] what the tables say of `count` columns. Then it includes this. No include guard: each
 * family compiles its own.
 */

typedef float vf __attribute__((vector_size(4 * LANES), aligned(4)));
typedef int32_t vi __attribute__((vector_size(4 * LANES), aligned(4)));
typedef uint32_t vu __attribute__((vector_size(4 * LANES), aligned(4)));

/* x where the mask is set, else y. */
#define CHOOSE(mask, x, y) ((vf)(((mask) & (vi)(x)) | (~(mask) & (vi)(y))))

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
            vi sum;
            memcpy(&sum, &sums[g][r], sizeof sum);
            vf scale = (vf)((HALVES(meta + 2 * r) << 12) + ((group->exponent + 127) << 23));
            vf part = scale * (group->step * (__builtin_convertvector(sum, vf) + group->offset));
            vf ratio =
                group->ratio_low +
                group->ratio_step * __builtin_convertvector(BYTES(meta + 2 * WANE__SKETCH_ROWS + r), vf);
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

/*
 * e to each x in [-40, 60], good to 3e-6; smaller ones would have squares that the processor is slow with. A power of
 * two, and a polynomial over ± half a step of it (its series).
 */
#define EXPONENTIAL(result, argument)                                            \
    do {                                                                         \
        vf x_ = (argument);                                                      \
        x_ = LARGER(x_, (vf){0} - 40.0f);                                        \
        x_ = SMALLER(x_, (vf){0} + 60.0f);                                       \
        vf shifted_ = x_ * 0x1.715476p0f + 0x1.8p23f, n_ = shifted_ - 0x1.8p23f; \
        vf power_ = (vf)(((vu)shifted_ << 23) + 0x3f800000u);                    \
        vf y_ = x_ - n_ * 0x1.62e4p-1f - n_ * 0x1.7f7d1cp-20f;                   \
        vf series_ = 0x1.555556p-5f + y_ * 0x1.111112p-7f;                       \
        series_ = 0.5f + y_ * (0x1.555556p-3f + y_ * series_);                   \
        (result) = (1.0f + y_ * (1.0f + y_ * series_)) * power_;                 \
    } while (0)

struct sum_lanes {
    vf mass, deviation, square, border, bounded, upper, beyond;
};

/*
 * An estimate's error is Gaussian with deviation z, in nats: e^(x - z²/2) is right on average, with the variance of a
 * lognormal, e^(z²) - 1 times its square.
 */
TARGET static inline void sum_lanes_of(const struct wane__scan_block *known, int r,
                                       const struct wane__scan_sum *how, struct sum_lanes *sums) {
    vf estimate, half, mass, spread;
    memcpy(&estimate, known->estimate + r, sizeof estimate);
    memcpy(&half, known->half + r, sizeof half);
    vi state = BYTES(known->state + r);
    vf z = half * (how->scale / how->sigmas), z2 = z * z, x = how->scale * (estimate - how->reference);
    vf most = x + how->scale * half, low = (vf){0} - 1e30f;
    vi use = state < WANE__KNOWN_EXACT, wild = use & (z2 > WANE__SCAN_WILD), fine = use & ~wild;
    vi border = fine & (state == WANE__KNOWN_LEVEL1) & (estimate + half >= how->border);
    EXPONENTIAL(mass, CHOOSE(wild, most, x - 0.5f * z2));
    EXPONENTIAL(spread, CHOOSE(wild, (vf){0}, z2));
    spread = (vf)(fine & (vi)(mass * mass * LARGER(spread - 1.0f, z2)));
    sums->mass += (vf)(fine & (vi)mass);
    sums->bounded += (vf)(wild & (vi)mass);
    sums->border += (vf)(border & (vi)mass);
    sums->square += spread;
    sums->deviation += ROOTS(spread);
    vf upper = CHOOSE(fine, most, low), beyond = CHOOSE(wild, most, low);
    sums->upper = LARGER(sums->upper, upper);
    sums->beyond = LARGER(sums->beyond, beyond);
}

static double add_up(const vf *lanes) {
    double sum = 0;
    for (int i = 0; i < LANES; i++) sum += (double)(*lanes)[i];
    return sum;
}

/* Blocks that are summed in single precision: few enough that nothing is lost but a share of 1e-5. */
enum { RUN = 64 };

TARGET static void sum_run(const struct wane__scan_query *query, size_t from, size_t to,
                           const struct wane__scan_sum *how, struct wane__scan_sums *sums) {
    struct sum_lanes lanes = {0};
    lanes.upper = lanes.beyond = (vf){0} - 1e30f;
    for (size_t b = from; b < to; b++) {
        float upper = how->scale * (query->block_upper[b] - how->reference);
        if (upper < how->far)
            sums->bounded += WANE__SKETCH_ROWS * exp((double)upper);
        else
            for (int r = 0; r < WANE__SKETCH_ROWS; r += LANES) sum_lanes_of(&query->known[b], r, how, &lanes);
    }
    sums->mass += add_up(&lanes.mass);
    sums->bounded += add_up(&lanes.bounded);
    sums->border += add_up(&lanes.border);
    sums->square += add_up(&lanes.square);
    sums->deviation += add_up(&lanes.deviation);
    for (int i = 0; i < LANES; i++) {
        if ((double)lanes.upper[i] > sums->upper) sums->upper = (double)lanes.upper[i];
        if (lanes.beyond[i] > 60) sums->bounded = (double)INFINITY;
    }
}

TARGET static void sum_blocks(const struct wane__scan_query *query, size_t from, size_t to,
                              const struct wane__scan_sum *how, struct wane__scan_sums *sums) {
    for (; from < to; from += RUN) sum_run(query, from, from + RUN < to ? from + RUN : to, how, sums);
}
