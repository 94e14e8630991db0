/* weights.c - blocks of weights into floats; see weights.h. Owns nothing; refuses to guess at types that it does not know. */
#include "head/weights.h"

#include "core/bytes.h"

enum { SMALL = 32, LARGE = 256 };

static const struct {
    int weights;
    size_t bytes;
} block_of[WANE_WEIGHTS] = {
    [WANE_WEIGHTS_F32] = {1, 4},        [WANE_WEIGHTS_F16] = {1, 2},
    [WANE_WEIGHTS_BF16] = {1, 2},       [WANE_WEIGHTS_Q8_0] = {SMALL, 34},
    [WANE_WEIGHTS_Q4_0] = {SMALL, 18},  [WANE_WEIGHTS_Q4_1] = {SMALL, 20},
    [WANE_WEIGHTS_Q5_0] = {SMALL, 22},  [WANE_WEIGHTS_Q5_1] = {SMALL, 24},
    [WANE_WEIGHTS_Q4_K] = {LARGE, 144}, [WANE_WEIGHTS_Q5_K] = {LARGE, 176},
    [WANE_WEIGHTS_Q6_K] = {LARGE, 210},
};

int wane__weights_block(int type) {
    return type >= 0 && type < WANE_WEIGHTS ? block_of[type].weights : 0;
}

size_t wane__weights_bytes(int type) {
    return type >= 0 && type < WANE_WEIGHTS ? block_of[type].bytes : 0;
}

size_t wane__weights_row(int type, int d) {
    int block = wane__weights_block(type);
    return block > 0 && d > 0 && d % block == 0 ? (size_t)(d / block) * block_of[type].bytes : 0;
}

/* -------------------------------------------------------------- 16 bits */

static float from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* IEEE's half: 5 bits of exponent, 10 of mantissa. */
static float half_at(const uint8_t *at) {
    uint32_t half = (uint32_t)wane__get(at, 2), sign = (half & 0x8000u) << 16;
    uint32_t exponent = half >> 10 & 31u, mantissa = half & 1023u;
    if (exponent == 31) return from_bits(sign | 0x7f800000u | mantissa << 13);
    if (exponent > 0) return from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
    float small = (float)mantissa * 0x1p-24f; /* without a leading one */
    return sign != 0 ? -small : small;
}

static float bfloat_at(const uint8_t *at) {
    return from_bits((uint32_t)wane__get(at, 2) << 16);
}

/* -------------------------------------------------------- blocks of 32 */

static void take_q8_0(const uint8_t *b, float *out) {
    float scale = half_at(b);
    for (int i = 0; i < SMALL; i++) out[i] = scale * (float)(int8_t)b[2 + i];
}

/* Weight i of the first half is the low nibble of byte i, of the second half the high one; `fifth` has the fifth bits. */
static void take_nibbles(const uint8_t *nibble, uint32_t fifth, float scale, float least, int middle,
                         float *out) {
    for (int i = 0; i < SMALL / 2; i++) {
        int low = (nibble[i] & 15) | (int)(fifth >> i & 1) << 4;
        int high = nibble[i] >> 4 | (int)(fifth >> (i + 16) & 1) << 4;
        out[i] = scale * (float)(low - middle) + least;
        out[i + SMALL / 2] = scale * (float)(high - middle) + least;
    }
}

static void take_small(int type, const uint8_t *b, float *out) {
    if (type == WANE_WEIGHTS_Q8_0) take_q8_0(b, out);
    if (type == WANE_WEIGHTS_Q4_0) take_nibbles(b + 2, 0, half_at(b), 0, 8, out);
    if (type == WANE_WEIGHTS_Q4_1) take_nibbles(b + 4, 0, half_at(b), half_at(b + 2), 0, out);
    if (type == WANE_WEIGHTS_Q5_0) take_nibbles(b + 6, (uint32_t)wane__get(b + 2, 4), half_at(b), 0, 16, out);
    if (type == WANE_WEIGHTS_Q5_1)
        take_nibbles(b + 8, (uint32_t)wane__get(b + 4, 4), half_at(b), half_at(b + 2), 0, out);
}

/* ------------------------------------------------------- blocks of 256 */

/* Scale and least value of part `j` of eight: six bits each, packed into twelve bytes. */
static void scale_of(const uint8_t *s, int j, float *scale, float *least) {
    int a = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
    int b = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | s[j] >> 6 << 4;
    *scale = (float)a;
    *least = (float)b;
}

/* Eight parts of 32: two of them share 32 bytes, the low nibbles first. `fifth` (NULL: none) has a bit a part for each place. */
static void take_parts(const uint8_t *b, const uint8_t *fifth, const uint8_t *nibble, float *out) {
    float scale = half_at(b), least = half_at(b + 2);
    for (int j = 0; j < 8; j++) {
        float s, m;
        scale_of(b + 4, j, &s, &m);
        s *= scale;
        m *= least;
        for (int i = 0; i < SMALL; i++) {
            int q = nibble[j / 2 * SMALL + i] >> (j % 2 * 4) & 15;
            if (fifth != NULL) q |= (fifth[i] >> j & 1) << 4;
            out[j * SMALL + i] = s * (float)q - m;
        }
    }
}

/* Sixteen parts of 16 with scales of a byte: four bits in one place, two in another. */
static void take_q6_k(const uint8_t *b, float *out) {
    float scale = half_at(b + 208);
    for (int i = 0; i < LARGE; i++) {
        int half = i / 128, quarter = i % 128 / 32, at = i % 32;
        int low = b[half * 64 + quarter % 2 * 32 + at] >> quarter / 2 * 4 & 15;
        int high = b[128 + half * 32 + at] >> quarter * 2 & 3;
        out[i] = scale * (float)(int8_t)b[192 + i / 16] * (float)((low | high << 4) - 32);
    }
}

static void take_large(int type, const uint8_t *b, float *out) {
    if (type == WANE_WEIGHTS_Q4_K) take_parts(b, NULL, b + 16, out);
    if (type == WANE_WEIGHTS_Q5_K) take_parts(b, b + 16, b + 48, out);
    if (type == WANE_WEIGHTS_Q6_K) take_q6_k(b, out);
}

const float *wane__weights_take(int type, const void *row, int first, int count, float *room) {
    int block = block_of[type].weights;
    const uint8_t *at = (const uint8_t *)row + (size_t)(first / block) * block_of[type].bytes;
    if (type == WANE_WEIGHTS_F32) return (const float *)row + first;
    for (int i = 0; i < count; i += block, at += block_of[type].bytes) {
        if (type == WANE_WEIGHTS_F16)
            room[i] = half_at(at);
        else if (type == WANE_WEIGHTS_BF16)
            room[i] = bfloat_at(at);
        else if (block == SMALL)
            take_small(type, at, room + i);
        else
            take_large(type, at, room + i);
    }
    return room;
}
