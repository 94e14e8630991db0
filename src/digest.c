/* digest.c - names of models and tokenizers, by what is in them (XXH3, 128 bits). Owns nothing; no defence against forgery. */
#include "core/bytes.h"
#include "core/error.h"
#include "core/memory.h"
#include "wane.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

static void write_hex(const XXH3_state_t *state, char hex[33]) {
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    snprintf(hex, 33, "%016llx%016llx", (unsigned long long)hash.high64, (unsigned long long)hash.low64);
}

static int hash_file(FILE *file, XXH3_state_t *state, char *chunk, size_t chunk_size) {
    XXH3_128bits_reset(state);
    size_t got;
    while ((got = fread(chunk, 1, chunk_size, file)) > 0) XXH3_128bits_update(state, chunk, got);
    return ferror(file) ? WANE_EIO : WANE_OK;
}

int wane_file_digest(const char *path, char hex[33], wane_error *error) {
    enum { CHUNK = 1 << 20 };
    wane__clear(error);
    hex[0] = '\0';
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return wane__fail(error, errno == ENOENT ? WANE_ENOENT : WANE_EIO, "Cannot read %s: %s.", path,
                          strerror(errno));
    char *chunk = wane__alloc(CHUNK);
    XXH3_state_t *state = XXH3_createState();
    int result = WANE_ENOMEM;
    if (chunk != NULL && state != NULL) result = hash_file(file, state, chunk, CHUNK);
    if (result == WANE_OK)
        write_hex(state, hex);
    else
        wane__fail(error, result, "Cannot compute the digest of %s.", path);
    XXH3_freeState(state);
    wane__free(chunk);
    fclose(file);
    return result;
}

/* Each token as four bytes of length, little-endian, and its bytes. */
int wane_tokenizer_digest(const char *bytes, const int32_t *sizes, int count, char hex[33],
                          wane_error *error) {
    wane__clear(error);
    hex[0] = '\0';
    XXH3_state_t *state = XXH3_createState();
    if (state == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a digest.");
    XXH3_128bits_reset(state);
    int status = WANE_OK;
    for (int i = 0; i < count && status == WANE_OK; i++) {
        uint8_t length[4];
        if (sizes[i] < 0) {
            status =
                wane__fail(error, WANE_EINVAL, "Token %d has %d bytes; it must be 0 or more.", i, sizes[i]);
        } else {
            wane__put(length, (uint64_t)sizes[i], 4);
            XXH3_128bits_update(state, length, sizeof length);
            XXH3_128bits_update(state, bytes, (size_t)sizes[i]);
            bytes += sizes[i];
        }
    }
    if (status == WANE_OK) write_hex(state, hex);
    XXH3_freeState(state);
    return status;
}
