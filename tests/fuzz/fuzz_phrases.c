/*
 * fuzz_phrases.c - any bytes as the section of the phrase classifier: as they are, and repeated to its size with a check that
 * fits. What is taken must score between 0 and 1.
 */
#include "table/build_sample.h"
#include "table/phrases.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    HEAD = 32,
    WEIGHTS = (WANE__PHRASES_BUCKETS + 2) * WANE__PHRASES_HIDDEN + 1,
    FULL = HEAD + 4 * WEIGHTS
};

static void load(const uint8_t *bytes, size_t size) {
    struct wane__phrases *phrases = NULL;
    wane_error error = {0};
    int status = wane__phrases_load(bytes, size, &phrases, &error);
    if ((status == WANE_OK) != (phrases != NULL) || (status == WANE_OK) != (error.text[0] == '\0')) abort();
    if (phrases != NULL) {
        const int32_t last[3] = {1, 2, 3}, follow[2] = {4, 5};
        float score = wane__phrases_expect(phrases, last, 3, follow, 2);
        if (!(score >= 0 && score <= 1)) abort();
    }
    wane__phrases_free(phrases);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    load(data, size);
    if (size <= HEAD) return 0;
    uint8_t *full = malloc(FULL);
    if (full == NULL) abort();
    for (size_t i = 0; i < FULL; i++) full[i] = data[i < size ? i : HEAD + (i - HEAD) % (size - HEAD)];
    wane__put(full + 24, XXH3_64bits(full + HEAD, FULL - HEAD), 8);
    load(full, FULL);
    free(full);
    return 0;
}
