/*
 * rng.h - random numbers that depend on (seed, index) only.
 *
 * A draw does not need the draws before it: the number for the token at index i is the same whether a
 * request runs alone, beside others, after an interruption, or with its tokens verified in a block.
 * Mixing: SplitMix64's finaliser (Steele, Lea, Flood 2014), applied to seed and index in turn.
 */
#ifndef WANE_CORE_RNG_H
#define WANE_CORE_RNG_H

#include <stdint.h>

static inline uint64_t wane__mix64(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline uint64_t wane__random_bits(uint64_t seed, uint64_t index) {
    return wane__mix64(wane__mix64(seed) ^ wane__mix64(index ^ 0x632be59bd9b4e019u));
}

/* Uniform in [0, 1), 53 bits. */
static inline double wane__random_unit(uint64_t seed, uint64_t index) {
    return (double)(wane__random_bits(seed, index) >> 11) * 0x1p-53;
}

#endif
