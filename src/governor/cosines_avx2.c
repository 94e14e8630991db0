/*
 * cosines_avx2.c - the kernels with 256-bit registers: a pair of coordinates of eight keys is one load, a product and its sum one
 * instruction.
 */
#if defined(__x86_64__) && defined(__GNUC__)

#include "governor/cosines.h"

#include <immintrin.h>
#include <string.h>

#define TARGET __attribute__((target("avx2")))
#include "governor/powers_template.h"

TARGET static inline __m256i pair_at(const int16_t *query) {
    int32_t both;
    memcpy(&both, query, sizeof both);
    return _mm256_set1_epi32(both);
}

TARGET static inline __m256i line_at(const int16_t *line) {
    return _mm256_loadu_si256((const __m256i *)(const void *)line);
}

/* Two blocks at a time, each with two sums, so that no addition waits for the one before. */
TARGET static void two(const int16_t *blocks, int pairs, const int16_t *query, int32_t *out) {
    const int16_t *other = blocks + 2 * WANE__KEYS_BLOCK * (size_t)pairs;
    __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
    int p = 0;
    for (; p + 1 < pairs; p += 2, blocks += 32, other += 32) {
        __m256i q0 = pair_at(query + 2 * p), q1 = pair_at(query + 2 * p + 2);
        a = _mm256_add_epi32(a, _mm256_madd_epi16(line_at(blocks), q0));
        b = _mm256_add_epi32(b, _mm256_madd_epi16(line_at(blocks + 16), q1));
        c = _mm256_add_epi32(c, _mm256_madd_epi16(line_at(other), q0));
        d = _mm256_add_epi32(d, _mm256_madd_epi16(line_at(other + 16), q1));
    }
    if (p < pairs) {
        a = _mm256_add_epi32(a, _mm256_madd_epi16(line_at(blocks), pair_at(query + 2 * p)));
        c = _mm256_add_epi32(c, _mm256_madd_epi16(line_at(other), pair_at(query + 2 * p)));
    }
    _mm256_storeu_si256((__m256i *)(void *)out, _mm256_add_epi32(a, b));
    _mm256_storeu_si256((__m256i *)(void *)(out + 8), _mm256_add_epi32(c, d));
}

TARGET static void dots(const int16_t *blocks, int count, int pairs, const int16_t *query, int32_t *out) {
    size_t size = 2 * WANE__KEYS_BLOCK * (size_t)pairs;
    for (; count > 1; count -= 2, blocks += 2 * size, out += 16) two(blocks, pairs, query, out);
    if (count == 0) return;
    __m256i sum = _mm256_setzero_si256();
    for (int p = 0; p < pairs; p++)
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(line_at(blocks + 16 * p), pair_at(query + 2 * p)));
    _mm256_storeu_si256((__m256i *)(void *)out, sum);
}

const struct wane__cosine_kernels wane__cosines_avx2 = {"avx2", dots, powers};

#endif
