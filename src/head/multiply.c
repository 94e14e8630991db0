/*
 * multiply.c - four rows by sixteen columns at a time in registers, for each processor family. Owns nothing.
 */
#include "head/multiply.h"

typedef float v8f __attribute__((vector_size(32), aligned(4), may_alias));
typedef float v16f __attribute__((vector_size(64), aligned(4), may_alias));

/*
 * The text of the kernels; `vector` has `lanes`, and `height` rows of 16 / lanes of them stay in registers. Vectors are loaded and
 * stored as such, and loops are unrolled: copied by bytes, or indexed, the sums would live on the stack.
 */
#define KERNEL(name, target, vector, lanes, height)                                                     \
    target static void name(const float *a, size_t stride, const float *panel, int inner, float *out,   \
                            size_t out_stride) {                                                        \
        enum { ACROSS = WANE__PANEL / (lanes) };                                                        \
        vector sum[height][ACROSS] = {{{0}}};                                                           \
        for (int i = 0; i < inner; i++) {                                                               \
            const vector *b = (const vector *)(const void *)(panel + (size_t)i * WANE__PANEL);          \
            UNROLLED                                                                                    \
            for (int r = 0; r < (height); r++) {                                                        \
                UNROLLED                                                                                \
                for (int v = 0; v < ACROSS; v++) sum[r][v] += a[(size_t)r * stride + (size_t)i] * b[v]; \
            }                                                                                           \
        }                                                                                               \
        UNROLLED                                                                                        \
        for (int r = 0; r < (height); r++) {                                                            \
            UNROLLED                                                                                    \
            for (int v = 0; v < ACROSS; v++)                                                            \
                ((vector *)(void *)(out + (size_t)r * out_stride))[v] = sum[r][v];                      \
        }                                                                                               \
    }
#define UNROLLED _Pragma("GCC unroll 4")

#define PLAIN
KERNEL(four_plain, PLAIN, v8f, 8, 4)
KERNEL(one_plain, PLAIN, v8f, 8, 1)
#if defined(__x86_64__) && defined(__GNUC__)
KERNEL(four_avx2, __attribute__((target("avx2"))), v8f, 8, 4)
KERNEL(one_avx2, __attribute__((target("avx2"))), v8f, 8, 1)
KERNEL(four_avx512, __attribute__((target("avx512f"))), v16f, 16, 4)
KERNEL(one_avx512, __attribute__((target("avx512f"))), v16f, 16, 1)
#endif

struct kernels {
    void (*four)(const float *, size_t, const float *, int, float *, size_t);
    void (*one)(const float *, size_t, const float *, int, float *, size_t);
};

static struct kernels choose(void) {
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512f")) return (struct kernels){four_avx512, one_avx512};
    if (__builtin_cpu_supports("avx2")) return (struct kernels){four_avx2, one_avx2};
#endif
    return (struct kernels){four_plain, one_plain};
}

void wane__multiply(const float *a, size_t a_stride, int rows, const float *panels, int columns, int inner,
                    float *out, size_t out_stride) {
    struct kernels use = choose();
    for (int c = 0; c < columns; c += WANE__PANEL) {
        const float *panel = panels + (size_t)c * (size_t)inner;
        int r = 0;
        for (; r + 4 <= rows; r += 4)
            use.four(a + (size_t)r * a_stride, a_stride, panel, inner, out + (size_t)r * out_stride + c,
                     out_stride);
        for (; r < rows; r++)
            use.one(a + (size_t)r * a_stride, a_stride, panel, inner, out + (size_t)r * out_stride + c,
                    out_stride);
    }
}
