/*
 * sketch_place.c - where a model's sketch lies.
 *
 * Its name is the model's digest and the revision of what it was made from, so that a changed model, text or format
 * never meets an old file.
 */
#include "sketch_place.h"

#include "core/error.h"
#include "core/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Of the calibration text and of how rows are taken from it. The file's own version is the head's business. */
#define REVISION 2

static int hash_file(FILE *file, XXH3_state_t *state, char *chunk, size_t chunk_size) {
    XXH3_128bits_reset(state);
    size_t got;
    while ((got = fread(chunk, 1, chunk_size, file)) > 0) XXH3_128bits_update(state, chunk, got);
    return ferror(file) ? WANE_EIO : WANE_OK;
}

int wane__file_digest(const char *path, char hex[33], wane_error *error) {
    enum { CHUNK = 1 << 20 };
    FILE *file = fopen(path, "rb");
    if (file == NULL) return wane__fail(error, WANE_EIO, "Cannot read %s: %s.", path, strerror(errno));
    char *chunk = wane__alloc(CHUNK);
    XXH3_state_t *state = XXH3_createState();
    int result = WANE_ENOMEM;
    if (chunk != NULL && state != NULL) result = hash_file(file, state, chunk, CHUNK);
    if (result == WANE_OK) {
        XXH128_hash_t hash = XXH3_128bits_digest(state);
        snprintf(hex, 33, "%016llx%016llx", (unsigned long long)hash.high64, (unsigned long long)hash.low64);
    } else {
        wane__fail(error, result, "Cannot compute the digest of %s.", path);
    }
    XXH3_freeState(state);
    wane__free(chunk);
    fclose(file);
    return result;
}

bool wane__sketch_folder(const char *given, char *out, size_t size) {
    const char *cache = getenv("WANE_CACHE"), *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = -1;
    if (given != NULL && given[0] != '\0')
        length = snprintf(out, size, "%s", given);
    else if (cache != NULL && cache[0] != '\0')
        length = snprintf(out, size, "%s/sketches", cache);
    else if (base != NULL && base[0] != '\0')
        length = snprintf(out, size, "%s/wane/sketches", base);
    else if (home != NULL && home[0] != '\0')
        length = snprintf(out, size, "%s/.cache/wane/sketches", home);
    return length > 0 && (size_t)length < size;
}

void wane__sketch_path(const char *folder, const char *digest, char *out, size_t size) {
    snprintf(out, size, "%s/%s-%d.sketch", folder, digest, REVISION);
}
