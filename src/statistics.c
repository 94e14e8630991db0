/*
 * statistics.c - mean and covariance of hidden rows as a file; see statistics.h. Refuses what could not be moments of rows.
 */
#include "statistics.h"

#include "core/bytes.h"
#include "core/error.h"
#include "core/file.h"
#include "core/memory.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

enum { VERSION = 1, HEAD = 56, CHECK = 8, DIGEST = 32, MOST_D = 16384 };
static const char magic[8] = {'w', 'a', 'n', 'e', 's', 't', 'a', 't'};

static void put_float(unsigned char **out, float value) {
    wane__put_float(*out, value);
    *out += 4;
}

/* False when it is not a number. */
static bool take_float(const unsigned char **in, float *value) {
    *value = wane__get_float(*in);
    *in += 4;
    return isfinite(*value);
}

static size_t size_for(size_t d) {
    return HEAD + 4 * (d + d * (d + 1) / 2) + CHECK;
}

int wane__statistics_write(const char *path, const char *digest, int d, const struct wane__moments *moments,
                           wane_error *error) {
    size_t n = (size_t)d, size = size_for(n);
    unsigned char *bytes = wane__alloc_zero(1, size);
    if (bytes == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a covariance.");
    memcpy(bytes, magic, sizeof magic);
    wane__put(bytes + 8, VERSION, 4);
    wane__put(bytes + 12, (uint64_t)d, 4);
    wane__put(bytes + 16, (uint64_t)moments->rows, 8);
    memcpy(bytes + 24, digest, strnlen(digest, DIGEST));
    unsigned char *at = bytes + HEAD;
    for (size_t i = 0; i < n; i++) put_float(&at, moments->mean[i]);
    for (size_t i = 0; i < n; i++)
        for (size_t j = i; j < n; j++) put_float(&at, moments->covariance[i * n + j]);
    wane__put(at, XXH3_64bits(bytes, size - CHECK), CHECK);
    int result = wane__file_write(path, "the statistics", bytes, size, 0644, error);
    wane__free(bytes);
    return result;
}

/* NULL, or what is wrong. */
static const char *look_at(const unsigned char *bytes, size_t size, const char *digest, int d) {
    if (size < HEAD + CHECK || memcmp(bytes, magic, sizeof magic) != 0) return "it holds no statistics";
    if (wane__get(bytes + 8, 4) != VERSION) return "it is of another version";
    uint64_t own = wane__get(bytes + 12, 4), rows = wane__get(bytes + 16, 8);
    if (own < 1 || own > MOST_D || size != size_for((size_t)own)) return "it is not as long as it should be";
    if (wane__get(bytes + size - CHECK, CHECK) != XXH3_64bits(bytes, size - CHECK)) return "it is damaged";
    if (own != (uint64_t)d || strncmp((const char *)bytes + 24, digest, DIGEST) != 0)
        return "it was recorded with another model";
    if (rows < 4 || rows > INT64_MAX) return "it was taken from too few rows";
    return NULL;
}

static const char *take_moments(const unsigned char *in, size_t d, struct wane__moments *moments) {
    bool sound = true;
    for (size_t i = 0; i < d; i++) sound &= take_float(&in, &moments->mean[i]);
    for (size_t i = 0; i < d; i++)
        for (size_t j = i; j < d; j++) {
            sound &= take_float(&in, &moments->covariance[i * d + j]);
            moments->covariance[j * d + i] = moments->covariance[i * d + j];
            sound &= i != j || moments->covariance[i * d + i] >= 0;
        }
    return sound ? NULL : "its numbers are not those of a covariance";
}

int wane__statistics_parse(const void *bytes, size_t size, const char *name, const char *digest, int d,
                           struct wane__moments *moments, wane_error *error) {
    *moments = (struct wane__moments){0};
    const char *why = look_at(bytes, size, digest, d);
    if (why == NULL) {
        size_t n = (size_t)d;
        moments->mean = wane__alloc_zero(n, sizeof(float));
        moments->covariance = wane__alloc_zero(n * n, sizeof(float));
        moments->rows = (int64_t)wane__get((const unsigned char *)bytes + 16, 8);
        if (moments->mean == NULL || moments->covariance == NULL) {
            wane__moments_free(moments);
            return wane__fail(error, WANE_ENOMEM, "No memory for a covariance.");
        }
        why = take_moments((const unsigned char *)bytes + HEAD, n, moments);
    }
    if (why == NULL) return WANE_OK;
    wane__moments_free(moments);
    return wane__fail(error, WANE_EFORMAT,
                      "The statistics \"%.200s\" cannot be used: %s. Record them with: wane head statistics",
                      name, why);
}

int wane__statistics_read(const char *path, const char *digest, int d, struct wane__moments *moments,
                          wane_error *error) {
    char *bytes = NULL;
    size_t size = 0;
    *moments = (struct wane__moments){0};
    int result = wane__file_read(path, "The statistics", size_for((size_t)d) + 1, &bytes, &size, error);
    if (result == WANE_OK) result = wane__statistics_parse(bytes, size, path, digest, d, moments, error);
    wane__free(bytes);
    return result;
}
