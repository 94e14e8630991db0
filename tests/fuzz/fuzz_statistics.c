/* fuzz_statistics.c - any bytes as recorded statistics, with and without a sum that fits them. */
#include "core/memory.h"
#include "statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(const uint8_t *data, size_t size) {
    struct wane__moments moments;
    wane_error error = {0};
    int d = size > 13 ? data[12] : 4; /* mostly the width that the file names */
    char digest[33] = "";
    if (size >= 56) memcpy(digest, data + 24, 32);
    int code = wane__statistics_parse(data, size, "fuzz", digest, d, &moments, &error);
    if ((code == WANE_OK) != (moments.mean != NULL)) abort();
    if (code != WANE_OK && error.text[0] == '\0') abort();
    for (int i = 0; code == WANE_OK && i < d * d; i++)
        if (!isfinite(moments.covariance[i]) || (i < d && !isfinite(moments.mean[i]))) abort();
    wane__moments_free(&moments);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    look(data, size);
    if (size < 64 || size > 1 << 20) return 0;
    uint8_t *copy = malloc(size);
    if (copy == NULL) return 0;
    memcpy(copy, data, size);
    uint64_t check = XXH3_64bits(copy, size - 8);
    memcpy(copy + size - 8, &check, sizeof check);
    look(copy, size);
    free(copy);
    return 0;
}
