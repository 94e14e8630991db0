/* generation.c - what a request may ask for: defaults and range checks of the public wane_generation. */
#include "core/error.h"
#include "sample/sample.h"

#include <string.h>

enum { STOPS_MAX = 16, STOP_BYTES_MAX = 1024 };

void wane_generation_init(wane_generation *generation) {
    *generation = (wane_generation){.size = sizeof *generation};
    wane__sampling_defaults(&generation->sampling);
}

static int check_stops(const wane_generation *generation, wane_error *error) {
    if (generation->stop_count > STOPS_MAX)
        return wane__fail(error, WANE_EINVAL, "There are %zu stop strings; at most %d are allowed.",
                          generation->stop_count, STOPS_MAX);
    for (size_t i = 0; i < generation->stop_count; i++) {
        const char *stop = generation->stops[i];
        if (stop == NULL || stop[0] == '\0')
            return wane__fail(error, WANE_EINVAL, "Stop string %zu is empty; leave it out instead.", i + 1);
        if (strnlen(stop, STOP_BYTES_MAX + 1) > STOP_BYTES_MAX)
            return wane__fail(error, WANE_EINVAL, "Stop string %zu is longer than %d bytes.", i + 1,
                              STOP_BYTES_MAX);
    }
    return WANE_OK;
}

int wane_generation_check(const wane_generation *generation, int vocab_size, wane_error *error) {
    if (generation == NULL || generation->size != sizeof *generation)
        return wane__fail(error, WANE_EINVAL,
                          "The generation options were not set up by wane_generation_init.");
    if (generation->max_tokens < 0)
        return wane__fail(error, WANE_EINVAL, "max_tokens is %d; it must be 0 (no limit) or more.",
                          generation->max_tokens);
    if (generation->kind < 0 || generation->kind > 3)
        return wane__fail(error, WANE_EINVAL, "kind is %d; it must be one of WANE_KIND_…, 0 to 3.",
                          generation->kind);
    if (generation->hold != WANE_HOLD_NOTE && generation->hold != WANE_HOLD_VOTE)
        return wane__fail(error, WANE_EINVAL, "hold is %d; it must be one of WANE_HOLD_….", generation->hold);
    if ((generation->without & ~WANE_FEATURES_ALL) != 0)
        return wane__fail(error, WANE_EINVAL, "without is 0x%x; its bits are 1 << WANE_FEATURE_….",
                          generation->without);
    int result = check_stops(generation, error);
    if (result == WANE_OK && generation->quality != NULL)
        result = wane_quality_check(generation->quality, error);
    return result == WANE_OK ? wane__sampling_check(&generation->sampling, vocab_size, error) : result;
}
