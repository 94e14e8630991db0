/*
 * scan_plain.c - the kernels in plain C, for any processor, and the choice among all of them at run time.
 */
#include "head/scan.h"

#include <math.h>
#include <string.h>

#define TARGET

static void add_columns(const uint8_t *columns, const uint8_t *low, const uint8_t *high, int count,
                        int32_t *sums) {
    for (int c = 0; c < count; c++)
        for (int r = 0; r < WANE__SKETCH_ROWS; r++) {
            uint8_t byte = columns[c * WANE__SKETCH_ROWS + r];
            sums[r] += low[c * 32 + (byte & 15)] + high[c * 32 + (byte >> 4)];
        }
}

#define LANES 4

#define ROOTS(x)      ((vf){sqrtf((x)[0]), sqrtf((x)[1]), sqrtf((x)[2]), sqrtf((x)[3])})
#define LARGER(x, y)  CHOOSE((x) > (y), x, y)
#define SMALLER(x, y) CHOOSE((x) < (y), x, y)
#define BYTES(p)      ((vi){(p)[0], (p)[1], (p)[2], (p)[3]})

static inline int32_t half_at(const uint8_t *p) {
    uint16_t x;
    memcpy(&x, p, sizeof x);
    return x;
}
#define HALVES(p) ((vi){half_at(p), half_at((p) + 2), half_at((p) + 4), half_at((p) + 6)})

#include "head/scan_template.h"

static int32_t fine(const uint8_t *nibbles, const int8_t *query, int dims) {
    int32_t sum = 0;
    for (int i = 0; i < dims; i += 64)
        for (int j = 0; j < 32; j++) {
            int byte = nibbles[i / 2 + j];
            sum += (byte & 15) * query[i + j] + (byte >> 4) * query[i + 32 + j];
        }
    return sum;
}

const struct wane__scan_kernels wane__scan_plain = {"plain", scan_blocks, fine, sum_blocks};

const struct wane__scan_kernels *wane__scan_kernels_at(int index) {
    if (index == 0) return &wane__scan_plain;
#if defined(__x86_64__) && defined(__GNUC__)
    if (index == 1 && __builtin_cpu_supports("avx2")) return &wane__scan_avx2;
    if (index == 2 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512vnni"))
        return &wane__scan_avx512;
#elif defined(__aarch64__)
    if (index == 1) return &wane__scan_neon;
#endif
    return NULL;
}

const struct wane__scan_kernels *wane__scan_kernels(void) {
    const struct wane__scan_kernels *best = &wane__scan_plain;
    for (int i = 1; wane__scan_kernels_at(i) != NULL; i++) best = wane__scan_kernels_at(i);
    return best;
}
