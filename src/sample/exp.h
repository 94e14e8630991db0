/*
 * exp.h - e to the x in double, without a library call: the same bits on every machine, and simple enough
 * for the compiler to do several at once.
 *
 * x = n ln 2 + r with |r| <= ln 2 / 2; e^r by its series to degree 11 (remainder below 7e-15), then n into
 * the exponent's bits. Adding 1.5·2^52 rounds to an integer and leaves it in the low bits of the sum. Below
 * -700 the answer is 0: far under what one addition to a sum that holds 1 could notice.
 */
#ifndef WANE_SAMPLE_EXP_H
#define WANE_SAMPLE_EXP_H

#include <stdint.h>
#include <string.h>

#define WANE__EXP_LOW   (-700.0)
#define WANE__EXP_MAGIC 0x1.8p52
#define WANE__EXP_LOG2E 0x1.71547652b82fep0
/* ln 2 in two parts: n times the first is exact. */
#define WANE__EXP_LN2_HIGH 0x1.62e42fefap-1
#define WANE__EXP_LN2_LOW  0x1.cf79abc9e3b39p-40
/* Horner's scheme; works on a double and on a vector of them. */
/* clang-format off */
#define WANE__EXP_SERIES(r)                                                                                  \
    ((((((((((((r) * (1.0 / 39916800) + 1.0 / 3628800) * (r) + 1.0 / 362880) * (r) + 1.0 / 40320) * (r)      \
            + 1.0 / 5040) * (r) + 1.0 / 720) * (r) + 1.0 / 120) * (r) + 1.0 / 24) * (r) + 1.0 / 6) * (r)     \
       + 0.5) * (r) + 1.0) * (r) + 1.0)
/* clang-format on */

/* For x <= 0 (a weight against the best); NaN gives NaN. */
static inline double wane__exp_weight(double x) {
    if (x < WANE__EXP_LOW) return 0;
    double sum = x * WANE__EXP_LOG2E + WANE__EXP_MAGIC;
    double n = sum - WANE__EXP_MAGIC;
    double r = x - n * WANE__EXP_LN2_HIGH - n * WANE__EXP_LN2_LOW;
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    bits = (bits << 52) + UINT64_C(0x3ff0000000000000);
    double power;
    memcpy(&power, &bits, sizeof power);
    return WANE__EXP_SERIES(r) * power;
}

/* 1 / (1 + e^-x) */
static inline double wane__logistic(double x) {
    double e = wane__exp_weight(x < 0 ? x : -x);
    return x < 0 ? e / (1 + e) : 1 / (1 + e);
}

#endif
