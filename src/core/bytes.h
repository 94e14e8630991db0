/*
 * bytes.h - numbers as bytes of a file, the same on every machine: little-endian, and big-endian where bytes are to be compared.
 */
#ifndef WANE_CORE_BYTES_H
#define WANE_CORE_BYTES_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline void wane__put(uint8_t *to, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) to[i] = (uint8_t)(value >> 8 * i);
}

static inline void wane__put_big(uint8_t *to, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) to[i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
}

static inline uint64_t wane__get(const uint8_t *from, int bytes) {
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) value = value << 8 | from[i];
    return value;
}

static inline uint64_t wane__get_big(const uint8_t *from, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value = value << 8 | from[i];
    return value;
}

/* The bits of a float, or of a double, little-endian. */
static inline void wane__put_float(uint8_t *to, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    wane__put(to, bits, 4);
}

static inline float wane__get_float(const uint8_t *from) {
    uint32_t bits = (uint32_t)wane__get(from, 4);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline void wane__put_double(uint8_t *to, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    wane__put(to, bits, 8);
}

static inline double wane__get_double(const uint8_t *from) {
    uint64_t bits = wane__get(from, 8);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A double between 0 and 1, or NAN: not known. */
static inline double wane__get_share(const uint8_t *from) {
    double value = wane__get_double(from);
    return value >= 0 && value <= 1 ? value : (double)NAN;
}

/* A size padded to 8 bytes, so that what comes behind is aligned. */
static inline size_t wane__padded(size_t size) {
    return (size + 7u) & ~(size_t)7u;
}

/* Are these the 32 hexadecimal digits, small letters, of a digest of 128 bits? */
static inline bool wane__is_digest(const void *text) {
    const unsigned char *at = text;
    for (int i = 0; i < 32; i++)
        if (!((at[i] >= '0' && at[i] <= '9') || (at[i] >= 'a' && at[i] <= 'f'))) return false;
    return true;
}

#endif
