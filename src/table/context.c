/*
 * context.c - the names of contexts; see context.h. Refuses to know where tokens come from.
 */
#include "table/context.h"

#include "core/rng.h"

#include <string.h>
#include <xxhash.h>

/* Tokens as the file formats see them: little-endian, whatever the machine. */
static void put_tokens(const int32_t *token, int count, unsigned char *out) {
    for (int i = 0; i < count; i++) {
        uint32_t x = (uint32_t)token[i];
        for (int b = 0; b < 4; b++) out[4 * i + b] = (unsigned char)(x >> 8 * b);
    }
}

uint64_t wane__context_tenant(const char *name) {
    return XXH3_64bits(name, strlen(name));
}

struct wane__context_name wane__context_begin(uint64_t tenant) {
    return (struct wane__context_name){.low = wane__mix64(tenant), .high = wane__mix64(~tenant)};
}

struct wane__context_name wane__context_add(struct wane__context_name name, int32_t token) {
    uint64_t t = wane__mix64((uint64_t)(uint32_t)token + 1);
    /* Two chains that differ in how they fold the token in, each crossed with the other. */
    uint64_t low = wane__mix64(name.low ^ t), high = wane__mix64(name.high + t);
    return (struct wane__context_name){.low = low + (name.high << 1 | name.high >> 63), .high = high ^ low};
}

uint64_t wane__context_window(uint64_t tenant, const int32_t *end, int count) {
    unsigned char bytes[4 * WANE__WINDOW_MOST];
    put_tokens(end - count, count, bytes);
    return XXH3_64bits_withSeed(bytes, 4 * (size_t)count, tenant);
}

uint32_t wane__context_ten(const int32_t *end) {
    unsigned char bytes[4 * WANE__TEN];
    put_tokens(end - WANE__TEN, WANE__TEN, bytes);
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < sizeof bytes; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (0xedb88320u & (0u - (crc & 1)));
    }
    return ~crc;
}
