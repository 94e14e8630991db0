/*
 * row_template.h - the kernels' text. row.c includes it once for each processor family, with
 *
 *     FAMILY   the family's name, at the end of each function's name
 *     TARGET   the attribute that lets the compiler use the family's instructions
 *
 * Every function must carry TARGET itself: a compiler may split vectors that its target lacks before it
 * inlines. There is no include guard for that reason. What must not move: the number of lanes and the order
 * in which they are added. They are part of the result.
 */
#define NAME_OF(name, family) name##_##family
#define NAME_IN(name, family) NAME_OF(name, family)
#define NAME(name)            NAME_IN(name, FAMILY)

/* ------------------------------------------------------------- block maxima */

/* m = the larger of m and x, lane by lane; NaN in x leaves m and marks `bad`. */
TARGET static inline void NAME(max_into)(v8f *m, v8i *bad, const float *from) {
    v8f x;
    memcpy(&x, from, sizeof x);
    v8i larger = x > *m;
    *m = (v8f)(((v8i)x & larger) | ((v8i)*m & ~larger));
    *bad |= x != x; /* NOLINT(misc-redundant-expression): true for NaN, and only for it */
}

TARGET static inline float NAME(run_max)(const float *x, int count, v8i *bad) {
    float low = -INFINITY;
    v8f m0 = {low, low, low, low, low, low, low, low}, m1 = m0;
    int i = 0;
    for (; i + 16 <= count; i += 16) {
        NAME(max_into)(&m0, bad, x + i);
        NAME(max_into)(&m1, bad, x + i + 8);
    }
    if (i < count) {
        float rest[16];
        for (int j = 0; j < 16; j++) rest[j] = i + j < count ? x[i + j] : low;
        NAME(max_into)(&m0, bad, rest);
        NAME(max_into)(&m1, bad, rest + 8);
    }
    for (int j = 0; j < 8; j++) {
        float larger = m0[j] > m1[j] ? m0[j] : m1[j];
        low = larger > low ? larger : low;
    }
    return low;
}

TARGET static bool NAME(block_max)(const float *x, int count, int block, float *out) {
    v8i bad = {0};
    for (int from = 0, b = 0; from < count; from += block, b++)
        out[b] = NAME(run_max)(x + from, count - from < block ? count - from : block, &bad);
    int32_t any = 0;
    for (int j = 0; j < 8; j++) any |= bad[j];
    return any == 0;
}

/* ------------------------------------------------------ sums of exponentials */

/* sum += exp(scale · (x - max)) for four floats; the scalar twin is wane__exp_weight. */
TARGET static inline void NAME(exp_into)(v4d *sum, const float *from, double max, double scale) {
    v4f four;
    memcpy(&four, from, sizeof four);
    v4d x = (__builtin_convertvector(four, v4d) - max) * scale;
    v4l gone = x < (v4d){WANE__EXP_LOW, WANE__EXP_LOW, WANE__EXP_LOW, WANE__EXP_LOW};
    v4d shifted = x * WANE__EXP_LOG2E + WANE__EXP_MAGIC;
    v4d n = shifted - WANE__EXP_MAGIC;
    v4d r = x - n * WANE__EXP_LN2_HIGH - n * WANE__EXP_LN2_LOW;
    v4d power = (v4d)(((v4u)shifted << 52) + UINT64_C(0x3ff0000000000000));
    v4d value = WANE__EXP_SERIES(r) * power;
    *sum += (v4d)((v4l)value & ~gone);
}

TARGET static double NAME(exp_sum)(const float *x, int count, double max, double scale) {
    v4d s0 = {0}, s1 = {0};
    int i = 0;
    for (; i + 8 <= count; i += 8) {
        NAME(exp_into)(&s0, x + i, max, scale);
        NAME(exp_into)(&s1, x + i + 4, max, scale);
    }
    if (i < count) {
        float rest[8];
        for (int j = 0; j < 8; j++) rest[j] = i + j < count ? x[i + j] : -INFINITY;
        NAME(exp_into)(&s0, rest, max, scale);
        NAME(exp_into)(&s1, rest + 4, max, scale);
    }
    v4d s = s0 + s1;
    return (s[0] + s[1]) + (s[2] + s[3]);
}

static const struct wane__row_kernels FAMILY = {.name = QUOTE(FAMILY),
                                                .block_max = NAME(block_max),
                                                .exp_sum = NAME(exp_sum)};

#undef NAME
#undef NAME_IN
#undef NAME_OF
#undef FAMILY
#undef TARGET
