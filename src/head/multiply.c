/*
 * multiply.c - four rows by sixteen columns at a time in registers, for each processor family. Owns nothing.
 */
#include "head/multiply.h"

#include <string.h>

typedef float v8f __attribute__((vector_size(32), aligned(4)));
typedef float v16f __attribute__((vector_size(64), aligned(4)));

/* The text of the kernels; `vector` has `lanes`, and four rows of 16 / lanes of them stay in registers. */
#define KERNEL(name, target, vector, lanes)                                                           \
    target static void name(const float *a, size_t stride, const float *panel, int inner, float *out, \
                            size_t out_stride) {                                                      \
        vector sum[4][WANE__PANEL / (lanes)] = {{{0}}};                                               \
        for (int i = 0; i < inner; i++) {                                                             \
            vector b[WANE__PANEL / (lanes)];                                                          \
            memcpy(b, panel + (size_t)i * WANE__PANEL, sizeof b);                                     \
            for (int r = 0; r < 4; r++)                                                               \
                for (int v = 0; v < WANE__PANEL / (lanes); v++)                                       \
                    sum[r][v] += a[(size_t)r * stride + (size_t)i] * b[v];                            \
        }                                                                                             \
        for (int r = 0; r < 4; r++) memcpy(out + (size_t)r * out_stride, sum[r], sizeof sum[r]);      \
    }

#define PLAIN
KERNEL(four_plain, PLAIN, v8f, 8)
#if defined(__x86_64__) && defined(__GNUC__)
KERNEL(four_avx2, __attribute__((target("avx2"))), v8f, 8)
KERNEL(four_avx512, __attribute__((target("avx512f"))), v16f, 16)
#endif

typedef void (*four_fn)(const float *, size_t, const float *, int, float *, size_t);

static four_fn choose(void) {
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512f")) return four_avx512;
    if (__builtin_cpu_supports("avx2")) return four_avx2;
#endif
    return four_plain;
}

static void one(const float *a, const float *panel, int inner, float *out) {
    float sum[WANE__PANEL] = {0};
    for (int i = 0; i < inner; i++)
        for (int c = 0; c < WANE__PANEL; c++) sum[c] += a[i] * panel[(size_t)i * WANE__PANEL + (size_t)c];
    memcpy(out, sum, sizeof sum);
}

void wane__multiply(const float *a, size_t a_stride, int rows, const float *panels, int columns, int inner,
                    float *out, size_t out_stride) {
    four_fn four = choose();
    for (int c = 0; c < columns; c += WANE__PANEL) {
        const float *panel = panels + (size_t)c * (size_t)inner;
        int r = 0;
        for (; r + 4 <= rows; r += 4)
            four(a + (size_t)r * a_stride, a_stride, panel, inner, out + (size_t)r * out_stride + c,
                 out_stride);
        for (; r < rows; r++) one(a + (size_t)r * a_stride, panel, inner, out + (size_t)r * out_stride + c);
    }
}
