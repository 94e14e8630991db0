/*
 * keys.c - a ring of normalised keys, and what a query sees of it in one pass over them. Owns the ring's memory.
 *
 * Must not move: capacity is a multiple of a chunk, so that a chunk of positions never wraps in the middle.
 */
#include "governor/keys.h"

#include "core/memory.h"

#include <math.h>
#include <string.h>

size_t wane__keys_bytes(int heads, int size, int positions, int *capacity) {
    int chunks = positions / WANE__KEYS_CHUNK + (positions % WANE__KEYS_CHUNK != 0);
    *capacity = (chunks > 0 ? chunks : 1) * WANE__KEYS_CHUNK;
    return (size_t)*capacity * (size_t)heads * (size_t)((size + 1) / 2) * 2 * sizeof(int16_t);
}

bool wane__keys_open(struct wane__keys *keys, int heads, int size, int positions) {
    *keys = (struct wane__keys){.heads = heads, .size = size, .pairs = (size + 1) / 2};
    if (size > WANE__KEYS_SIZE_MOST) return false;
    size_t bytes = wane__keys_bytes(heads, size, positions, &keys->capacity);
    keys->block = wane__alloc_aligned(64, bytes);
    if (keys->block != NULL) memset(keys->block, 0, bytes);
    return keys->block != NULL;
}

void wane__keys_close(struct wane__keys *keys) {
    wane__free(keys->block);
    *keys = (struct wane__keys){0};
}

/* --------------------------------------------------------------------- units */

static bool unit(const float *row, int size, int pairs, int16_t *out) {
    double square = 0;
    for (int i = 0; i < size; i++) square += (double)row[i] * (double)row[i];
    memset(out, 0, (size_t)pairs * 2 * sizeof *out);
    if (!isfinite(square)) return false;
    float scale = square > 0 ? (float)(WANE__KEYS_ONE / sqrt(square)) : 0;
    for (int i = 0; i < size && isfinite(scale); i++) {
        float x = row[i] * scale;
        out[i] = (int16_t)(x < 0 ? x - 0.5f : x + 0.5f);
    }
    return isfinite(scale);
}

bool wane__keys_units(const float *rows, int heads, int size, int16_t *units) {
    int pairs = (size + 1) / 2;
    bool fine = true;
    for (int h = 0; h < heads; h++)
        fine =
            unit(rows + (size_t)h * (size_t)size, size, pairs, units + (size_t)h * 2 * (size_t)pairs) && fine;
    if (!fine) memset(units, 0, (size_t)heads * 2 * (size_t)pairs * sizeof *units);
    return fine;
}

/* ---------------------------------------------------------------------- ring */

static size_t head_numbers(const struct wane__keys *keys) {
    return (size_t)keys->capacity * 2 * (size_t)keys->pairs;
}

/* The block that holds a position, for one head. */
static int16_t *block_of(const struct wane__keys *keys, int head, int pos) {
    size_t at = (size_t)(pos % keys->capacity) / WANE__KEYS_BLOCK;
    return keys->block + (size_t)head * head_numbers(keys) + at * 2 * WANE__KEYS_BLOCK * (size_t)keys->pairs;
}

void wane__keys_cut(struct wane__keys *keys, int keep) {
    if (keep < keys->to) keys->to = keep;
    if (keys->from > keys->to) keys->from = keys->to;
}

void wane__keys_put(struct wane__keys *keys, int pos, const float *key) {
    int16_t units[WANE__KEYS_SIZE_MOST];
    wane__keys_cut(keys, pos);
    if (pos > keys->to) keys->from = keys->to = pos;
    bool fine = true;
    for (int h = 0; h < keys->heads; h++) {
        fine = unit(key + (size_t)h * (size_t)keys->size, keys->size, keys->pairs, units) && fine;
        int16_t *to = block_of(keys, h, pos) + 2 * (pos % WANE__KEYS_BLOCK);
        for (int p = 0; p < keys->pairs; p++, to += 2 * WANE__KEYS_BLOCK) {
            to[0] = units[2 * p];
            to[1] = units[2 * p + 1];
        }
    }
    keys->to = pos + 1;
    if (!fine) keys->from = keys->to;
    if (keys->to - keys->from > keys->capacity) keys->from = keys->to - keys->capacity;
}

void wane__keys_become(struct wane__keys *keys, const struct wane__keys *from, int keep) {
    keys->made++;
    keys->from = keys->to = keep;
    if (from == NULL || from->to < keep || from->from >= keep || from->capacity != keys->capacity) return;
    keys->from = from->from;
    int first = from->from / WANE__KEYS_BLOCK * WANE__KEYS_BLOCK;
    size_t bytes = (size_t)keys->pairs * 2 * WANE__KEYS_BLOCK * sizeof(int16_t);
    for (int h = 0; h < keys->heads; h++)
        for (int pos = first; pos < keep; pos += WANE__KEYS_BLOCK)
            memcpy(block_of(keys, h, pos), block_of(from, h, pos), bytes);
}

/* ---------------------------------------------------------------------- look */

/* Queries that go through a chunk together, so that its keys come from memory once. */
enum { TOGETHER = 16 };

/* `count` queries that share key head `head`, against positions low … high. */
static void look(const struct wane__keys *keys, int head, const int16_t *queries, int count, int low,
                 int high, struct wane__powers *all) {
    const struct wane__cosine_kernels *kernels = wane__cosine_kernels();
    int32_t dots[WANE__KEYS_CHUNK];
    memset(all, 0, (size_t)count * sizeof *all);
    for (int pos = low; pos <= high;) {
        int chunk = pos / WANE__KEYS_CHUNK * WANE__KEYS_CHUNK, end = chunk + WANE__KEYS_CHUNK;
        if (end > high + 1) end = high + 1;
        int first = pos / WANE__KEYS_BLOCK * WANE__KEYS_BLOCK;
        int blocks = (end - first + WANE__KEYS_BLOCK - 1) / WANE__KEYS_BLOCK;
        const int16_t *block = block_of(keys, head, first);
        for (int q = 0; q < count; q++) {
            struct wane__powers some;
            kernels->dots(block, blocks, keys->pairs, queries + (size_t)q * 2 * (size_t)keys->pairs, dots);
            kernels->powers(dots + (pos - first), end - pos, &some);
            wane__powers_add(&all[q], &some);
        }
        pos = end;
    }
}

void wane__keys_look(const struct wane__keys *keys, const int16_t *queries, int heads, int low, int high,
                     double *kurtosis, double *spread) {
    int shared = heads / keys->heads;
    *kurtosis = *spread = 0;
    for (int h = 0; h < heads;) {
        struct wane__powers all[TOGETHER];
        int some = shared - h % shared < TOGETHER ? shared - h % shared : TOGETHER;
        look(keys, h / shared, queries + (size_t)h * 2 * (size_t)keys->pairs, some, low, high, all);
        for (int i = 0; i < some; i++) {
            *kurtosis += wane__powers_kurtosis(&all[i]) / heads;
            *spread += wane__powers_spread(&all[i]) / heads;
        }
        h += some;
    }
}
