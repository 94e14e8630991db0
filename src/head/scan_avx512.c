/*
 * scan_avx512.c - the kernels with 512-bit registers: two columns a load; level 2 by VNNI's dot products.
 */
#if defined(__x86_64__) && defined(__GNUC__)

#include "head/scan.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

enum { MOST_COLUMNS = 1024 }; /* 256 sums of 16 bits, each of two columns, in either half */

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

/* What the tables say of two columns. */
TARGET static inline __m512i look_up(const uint8_t *columns, const uint8_t *low, const uint8_t *high) {
    const __m512i nibble = _mm512_set1_epi8(15);
    __m512i x = _mm512_loadu_si512(columns);
    __m512i a = _mm512_shuffle_epi8(_mm512_loadu_si512(low), _mm512_and_si512(x, nibble));
    __m512i b =
        _mm512_shuffle_epi8(_mm512_loadu_si512(high), _mm512_and_si512(_mm512_srli_epi16(x, 4), nibble));
    return _mm512_add_epi8(a, b);
}

TARGET static inline void add_columns(const uint8_t *columns, const uint8_t *low, const uint8_t *high,
                                      int count, int32_t *sums) {
    for (; count > 0; count -= MOST_COLUMNS) {
        const uint8_t *end = columns + 32 * (size_t)(count < MOST_COLUMNS ? count : MOST_COLUMNS);
        __m512i pairs = _mm512_setzero_si512(), upper = pairs;
        for (; columns < end;
             columns += 256, low += 256, high += 256) { /* a group has a multiple of 8 columns */
            __m512i a =
                _mm512_add_epi8(look_up(columns, low, high), look_up(columns + 64, low + 64, high + 64));
            __m512i b = _mm512_add_epi8(look_up(columns + 128, low + 128, high + 128),
                                        look_up(columns + 192, low + 192, high + 192));
            pairs = _mm512_add_epi16(pairs, _mm512_add_epi16(a, b));
            upper =
                _mm512_add_epi16(upper, _mm512_add_epi16(_mm512_srli_epi16(a, 8), _mm512_srli_epi16(b, 8)));
        }
        add_sums(pairs, upper, sums);
    }
}

#define LANES         16
#define ROOTS(x)      ((vf)_mm512_sqrt_ps((__m512)(x)))
#define LARGER(x, y)  ((vf)_mm512_max_ps((__m512)(x), (__m512)(y)))
#define SMALLER(x, y) ((vf)_mm512_min_ps((__m512)(x), (__m512)(y)))
#define BYTES(p)      ((vi)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(p))))
#define HALVES(p)     ((vi)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(p))))

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
