/*
 * scan_avx512.c - the kernels with 512-bit registers: two columns a load; level 2 by VNNI's dot products.
 */
#if defined(__x86_64__) && defined(__GNUC__)

#include "head/scan.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

enum { MOST_COLUMNS = 256 }; /* in each half */

/* As in scan_avx2.c; here each half of a register has columns of its own. */
TARGET static inline void add_sums(__m512i pairs, __m512i upper, int32_t *sums) {
    __m512i even = _mm512_sub_epi16(pairs, _mm512_slli_epi16(upper, 8));
    __m256i e0 = _mm512_castsi512_si256(even), e1 = _mm512_extracti64x4_epi64(even, 1);
    __m256i o0 = _mm512_castsi512_si256(upper), o1 = _mm512_extracti64x4_epi64(upper, 1);
    /* Rows 2i and 2i + 1 lie in the halves of a 32-bit lane. */
    __m512i evens = _mm512_add_epi32(_mm512_cvtepu16_epi32(e0), _mm512_cvtepu16_epi32(e1));
    __m512i odds = _mm512_add_epi32(_mm512_cvtepu16_epi32(o0), _mm512_cvtepu16_epi32(o1));
    const __m512i first = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i second = _mm512_set_epi32(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8);
    __m512i a = _mm512_permutex2var_epi32(evens, first, odds),
            b = _mm512_permutex2var_epi32(evens, second, odds);
    _mm512_storeu_si512(sums, _mm512_add_epi32(_mm512_loadu_si512(sums), a));
    _mm512_storeu_si512(sums + 16, _mm512_add_epi32(_mm512_loadu_si512(sums + 16), b));
}

TARGET static inline void add_columns(const uint8_t *columns, const uint8_t *low, const uint8_t *high,
                                      int count, int32_t *sums) {
    const __m512i nibble = _mm512_set1_epi8(15);
    for (int from = 0; from < count; from += 2 * MOST_COLUMNS) {
        int to = from + 2 * MOST_COLUMNS < count ? from + 2 * MOST_COLUMNS : count;
        __m512i pairs = _mm512_setzero_si512(), upper = pairs;
        for (int c = from; c < to; c += 2) { /* a group has a multiple of 8 columns */
            __m512i x = _mm512_loadu_si512(columns + (size_t)c * 32);
            __m512i a =
                _mm512_shuffle_epi8(_mm512_loadu_si512(low + (size_t)c * 32), _mm512_and_si512(x, nibble));
            __m512i b = _mm512_shuffle_epi8(_mm512_loadu_si512(high + (size_t)c * 32),
                                            _mm512_and_si512(_mm512_srli_epi16(x, 4), nibble));
            __m512i both = _mm512_add_epi8(a, b);
            pairs = _mm512_add_epi16(pairs, both);
            upper = _mm512_add_epi16(upper, _mm512_srli_epi16(both, 8));
        }
        add_sums(pairs, upper, sums);
    }
}

TARGET static inline void roots(float *x) {
    for (int r = 0; r < WANE__SKETCH_ROWS; r += 8)
        _mm256_storeu_ps(x + r, _mm256_sqrt_ps(_mm256_loadu_ps(x + r)));
}

TARGET static inline float largest(const float *x) {
    __m256 a = _mm256_max_ps(_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8));
    __m256 b = _mm256_max_ps(_mm256_loadu_ps(x + 16), _mm256_loadu_ps(x + 24));
    a = _mm256_max_ps(a, b);
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

#include "head/scan_template.h"

TARGET static int32_t fine(const uint8_t *nibbles, const int8_t *query, int dims) {
    const __m256i nibble = _mm256_set1_epi8(15);
    __m256i sum = _mm256_setzero_si256(), sum1 = sum;
    for (int i = 0; i < dims; i += 64) {
        __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)(nibbles + i / 2));
        __m256i q0 = _mm256_loadu_si256((const __m256i *)(const void *)(query + i));
        __m256i q1 = _mm256_loadu_si256((const __m256i *)(const void *)(query + i + 32));
        sum = _mm256_dpbusd_epi32(sum, _mm256_and_si256(x, nibble), q0);
        sum1 = _mm256_dpbusd_epi32(sum1, _mm256_and_si256(_mm256_srli_epi16(x, 4), nibble), q1);
    }
    sum = _mm256_add_epi32(sum, sum1);
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
    return _mm_cvtsi128_si32(s);
}

const struct wane__scan_kernels wane__scan_avx512 = {"avx512-vnni", scan_blocks, fine, sum_blocks};

#else
typedef int wane__scan_avx512_is_not_here;
#endif
