/*
 * bytes.h - numbers as bytes of a file, the same on every machine: little-endian, and big-endian where bytes are to be compared.
 */
#ifndef WANE_CORE_BYTES_H
#define WANE_CORE_BYTES_H

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

/* A float's bits, little-endian. */
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

#endif
