/*
 * scan_neon.c - the kernels for 64-bit ARM: a column is two registers of 16 rows, a lookup one table instruction.
 */
#if defined(__aarch64__)

#include "head/scan.h"

#include <arm_neon.h>
#include <math.h>
#include <string.h>

#define TARGET

enum { MOST_COLUMNS = 512 }; /* two of them are at most 240, in 16 bits */

static inline void add_half(int32_t *sums, uint16x8_t low, uint16x8_t high) {
    uint16x4_t part[4] = {vget_low_u16(low), vget_high_u16(low), vget_low_u16(high), vget_high_u16(high)};
    for (int i = 0; i < 4; i++)
        vst1q_s32(sums + 4 * i,
                  vaddq_s32(vld1q_s32(sums + 4 * i), vreinterpretq_s32_u32(vmovl_u16(part[i]))));
}

/* What the tables say of half a column. */
static inline uint8x16_t look_up(const uint8_t *columns, const uint8_t *low, const uint8_t *high, int column,
                                 int half) {
    uint8x16_t x = vld1q_u8(columns + (size_t)column * 32 + 16 * half);
    uint8x16_t a = vqtbl1q_u8(vld1q_u8(low + (size_t)column * 32), vandq_u8(x, vdupq_n_u8(15)));
    return vaddq_u8(a, vqtbl1q_u8(vld1q_u8(high + (size_t)column * 32), vshrq_n_u8(x, 4)));
}

static inline void add_columns(const uint8_t *columns, const uint8_t *low, const uint8_t *high, int count,
                               int32_t *sums) {
    for (int from = 0; from < count; from += MOST_COLUMNS) {
        int to = from + MOST_COLUMNS < count ? from + MOST_COLUMNS : count;
        uint16x8_t sum[4] = {vdupq_n_u16(0), vdupq_n_u16(0), vdupq_n_u16(0), vdupq_n_u16(0)};
        for (int c = from; c < to; c += 2) { /* a group has a multiple of 8 columns */
            for (int h = 0; h < 2; h++) {
                uint8x16_t both =
                    vaddq_u8(look_up(columns, low, high, c, h), look_up(columns, low, high, c + 1, h));
                sum[2 * h] = vaddw_u8(sum[2 * h], vget_low_u8(both));
                sum[2 * h + 1] = vaddw_high_u8(sum[2 * h + 1], both);
            }
        }
        add_half(sums, sum[0], sum[1]);
        add_half(sums + 16, sum[2], sum[3]);
    }
}

#define LANES         4
#define ROOTS(x)      ((vf)vsqrtq_f32((float32x4_t)(x)))
#define LARGER(x, y)  ((vf)vmaxq_f32((float32x4_t)(x), (float32x4_t)(y)))
#define SMALLER(x, y) ((vf)vminq_f32((float32x4_t)(x), (float32x4_t)(y)))
#define BYTES(p)      ((vi){(p)[0], (p)[1], (p)[2], (p)[3]})
#define HALVES(p)     ((vi)vmovl_u16(vld1_u16((const uint16_t *)(const void *)(p))))

#include "head/scan_template.h"

static int32_t fine(const uint8_t *nibbles, const int8_t *query, int dims) {
    const uint8x16_t nibble = vdupq_n_u8(15);
    int32x4_t sum = vdupq_n_s32(0);
    for (int i = 0; i < dims; i += 64)
        for (int h = 0; h < 2; h++) {
            uint8x16_t x = vld1q_u8(nibbles + i / 2 + 16 * h);
            int8x16_t a = vreinterpretq_s8_u8(vandq_u8(x, nibble)), b = vreinterpretq_s8_u8(vshrq_n_u8(x, 4));
            int8x16_t q0 = vld1q_s8(query + i + 16 * h), q1 = vld1q_s8(query + i + 32 + 16 * h);
            int16x8_t low =
                vmlal_s8(vmull_s8(vget_low_s8(a), vget_low_s8(q0)), vget_low_s8(b), vget_low_s8(q1));
            int16x8_t high = vmlal_high_s8(vmull_high_s8(a, q0), b, q1);
            sum = vpadalq_s16(vpadalq_s16(sum, low), high);
        }
    return vaddvq_s32(sum);
}

const struct wane__scan_kernels wane__scan_neon = {"neon", scan_blocks, fine, sum_blocks};

#else
typedef int wane__scan_neon_is_not_here;
#endif
