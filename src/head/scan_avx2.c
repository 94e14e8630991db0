/*
 * scan_avx2.c - the kernels with 256-bit registers: a column of 32 rows is one load, a lookup one shuffle.
 *
 * Bytes are summed in 16 bits without unpacking: one register sums pairs of bytes as they are, another the upper
 * byte of each pair; the difference is the lower ones' sum. 256 such pairs of at most 240 fit.
 */
#if defined(__x86_64__) && defined(__GNUC__)

#include "head/scan.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

#define TARGET __attribute__((target("avx2")))

enum { MOST_COLUMNS = 512 };

/* 16 sums of 16 bits each, for the even and the odd rows, onto 32 of 32 bits. */
TARGET static inline void add_sums(__m256i pairs, __m256i upper, int32_t *sums) {
    __m256i even = _mm256_sub_epi16(pairs, _mm256_slli_epi16(upper, 8)), zero = _mm256_setzero_si256();
    __m256i low = _mm256_unpacklo_epi16(even, upper), high = _mm256_unpackhi_epi16(even, upper);
    __m256i part[4] = {_mm256_unpacklo_epi16(low, zero), _mm256_unpackhi_epi16(low, zero),
                       _mm256_unpacklo_epi16(high, zero), _mm256_unpackhi_epi16(high, zero)};
    /* A part has 4 rows of the first 16 and 4 of the others; whole registers are stored, as they are read. */
    __m256i rows[4] = {_mm256_permute2x128_si256(part[0], part[1], 0x20),
                       _mm256_permute2x128_si256(part[2], part[3], 0x20),
                       _mm256_permute2x128_si256(part[0], part[1], 0x31),
                       _mm256_permute2x128_si256(part[2], part[3], 0x31)};
    for (int i = 0; i < 4; i++) {
        __m256i *to = (__m256i *)(void *)(sums + 8 * i);
        _mm256_storeu_si256(to, _mm256_add_epi32(_mm256_loadu_si256(to), rows[i]));
    }
}

/* What the tables say of one column. */
TARGET static inline __m256i look_up(const uint8_t *column, const uint8_t *low, const uint8_t *high) {
    const __m256i nibble = _mm256_set1_epi8(15);
    __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)column);
    __m256i table0 = _mm256_loadu_si256((const __m256i *)(const void *)low);
    __m256i table1 = _mm256_loadu_si256((const __m256i *)(const void *)high);
    __m256i a = _mm256_shuffle_epi8(table0, _mm256_and_si256(x, nibble));
    __m256i b = _mm256_shuffle_epi8(table1, _mm256_and_si256(_mm256_srli_epi16(x, 4), nibble));
    return _mm256_add_epi8(a, b);
}

TARGET static inline void add_columns(const uint8_t *columns, const uint8_t *low, const uint8_t *high,
                                      int count, int32_t *sums) {
    for (; count > 0; count -= MOST_COLUMNS) {
        const uint8_t *end = columns + 32 * (size_t)(count < MOST_COLUMNS ? count : MOST_COLUMNS);
        __m256i pairs = _mm256_setzero_si256(), upper = pairs;
        for (; columns < end;
             columns += 128, low += 128, high += 128) { /* a group has a multiple of 8 columns */
            __m256i a =
                _mm256_add_epi8(look_up(columns, low, high), look_up(columns + 32, low + 32, high + 32));
            __m256i b = _mm256_add_epi8(look_up(columns + 64, low + 64, high + 64),
                                        look_up(columns + 96, low + 96, high + 96));
            pairs = _mm256_add_epi16(pairs, _mm256_add_epi16(a, b));
            upper =
                _mm256_add_epi16(upper, _mm256_add_epi16(_mm256_srli_epi16(a, 8), _mm256_srli_epi16(b, 8)));
        }
        add_sums(pairs, upper, sums);
    }
}

#define LANES         8
#define ROOTS(x)      ((vf)_mm256_sqrt_ps((__m256)(x)))
#define LARGER(x, y)  ((vf)_mm256_max_ps((__m256)(x), (__m256)(y)))
#define SMALLER(x, y) ((vf)_mm256_min_ps((__m256)(x), (__m256)(y)))
#define BYTES(p)      ((vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(p))))
#define HALVES(p)     ((vi)_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(p))))

#include "head/scan_template.h"

/* Products of a nibble and a byte, summed in pairs, stay below 3,810 in 16 bits; four of them are added there. */
TARGET static int32_t fine(const uint8_t *nibbles, const int8_t *query, int dims) {
    const __m256i nibble = _mm256_set1_epi8(15), one = _mm256_set1_epi16(1);
    __m256i sum = _mm256_setzero_si256();
    for (int i = 0; i < dims; i += 64) {
        __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)(nibbles + i / 2));
        __m256i q0 = _mm256_loadu_si256((const __m256i *)(const void *)(query + i));
        __m256i q1 = _mm256_loadu_si256((const __m256i *)(const void *)(query + i + 32));
        __m256i a = _mm256_maddubs_epi16(_mm256_and_si256(x, nibble), q0);
        __m256i b = _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(x, 4), nibble), q1);
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_add_epi16(a, b), one));
    }
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
    return _mm_cvtsi128_si32(s);
}

const struct wane__scan_kernels wane__scan_avx2 = {"avx2", scan_blocks, fine, sum_blocks};

#else
/* Not this architecture: the file is empty, and ISO C wants a declaration. */
typedef int wane__scan_avx2_is_not_here;
#endif
