/* fuzz_features.c - any bytes as a text: a list in order, of length 1 or empty, the same each time, below its number of buckets. */
#include "governor/features.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct wane__features once = {0}, again = {0};
    const char *text = (const char *)data;
    double square = 0;
    if (wane__features_add(&once, text, size, 1, 16, NULL) != WANE_OK) abort();
    if (wane__features_add(&again, text, size, 1, 16, NULL) != WANE_OK) abort();
    if (once.count != again.count) abort();
    if (once.count > 0 && memcmp(once.at, again.at, once.count * sizeof *once.at) != 0) abort();
    for (size_t i = 0; i < once.count; i++) {
        if (once.at[i].bucket >= 1u << 16 || !(once.at[i].value > 0)) abort();
        if (i > 0 && once.at[i].bucket <= once.at[i - 1].bucket) abort();
        square += (double)once.at[i].value * (double)once.at[i].value;
    }
    if (once.count > 0 && fabs(square - 1) > 1e-3) abort();
    /* A second part joins the first. */
    if (wane__features_add(&once, text, size, 2, 16, NULL) != WANE_OK) abort();
    for (size_t i = 1; i < once.count; i++)
        if (once.at[i].bucket <= once.at[i - 1].bucket) abort();
    wane__features_free(&once);
    wane__features_free(&again);
    return 0;
}
