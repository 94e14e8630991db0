/*
 * fuzz_profile.c - any bytes as a governor's profile: refused in words, or thresholds that are in their ranges, that a state machine
 * can walk with, and that are the same file when they are written again.
 */
#include "governor/profile.h"
#include "governor/state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const wane_profile *profile) {
    static const float values[] = {0, 1, -1e30f, 1e30f, 3, 2.5f, 4.2f, -7};
    struct wane__machine machine;
    wane__machine_init(&machine, profile, 1);
    for (int i = 0; i < 64; i++) {
        float value = i % 9 == 8 ? (float)NAN : values[i % 8];
        const wane_signals signals = {value, 0.05f, value, value, value};
        struct wane__command c = wane__machine_step(&machine, i, &signals);
        if (c.state < 0 || c.state >= WANE_STATES || c.count < 0 || c.count > 1024) abort();
        if (c.count > 0 && !(c.temperature >= 0 && c.temperature <= 100)) abort();
        if (machine.left < 0 || machine.left >= 1024) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    wane_profile profile, again;
    wane_error error = {0};
    struct wane__buf first = {0}, second = {0};
    int status = wane__profile_parse("input", (const char *)data, size, &profile, &error);
    if ((status == WANE_OK) != (error.text[0] == '\0')) abort();
    if (status != WANE_OK) return 0;
    if (wane_profile_check(&profile, NULL) != WANE_OK) abort();
    walk(&profile);
    if (wane__profile_write(&profile, &first, NULL) != WANE_OK) abort();
    if (wane__profile_parse("again", first.data, first.size, &again, &error) != WANE_OK) abort();
    if (wane__profile_write(&again, &second, NULL) != WANE_OK) abort();
    if (first.size != second.size || memcmp(first.data, second.data, first.size) != 0) abort();
    wane__buf_free(&first);
    wane__buf_free(&second);
    return 0;
}
