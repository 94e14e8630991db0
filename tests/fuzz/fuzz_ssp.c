/*
 * fuzz_ssp.c - any bytes as a system text: an instruction is refused in words, or its settings stay in their ranges and it can be
 * written and read again.
 */
#include "wane.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_taken(const wane_ssp *ssp) {
    char text[WANE_SSP_TEXT];
    wane_quality quality;
    wane_ssp again;
    size_t rest;
    wane_quality_init(&quality);
    wane_ssp_apply(ssp, &quality);
    if (wane_quality_check(&quality, NULL) != WANE_OK) abort();
    wane_ssp_write(ssp, text);
    if (wane_ssp_read(text, strlen(text), &again, &rest, NULL) != WANE_OK || rest != strlen(text)) abort();
    if (memcmp(again.value, ssp->value, sizeof again.value) != 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    wane_ssp ssp, behind;
    wane_error error = {0};
    size_t rest, none;
    int code = wane_ssp_read((const char *)data, size, &ssp, &rest, &error);
    if ((code == WANE_OK) != (error.text[0] == '\0') || rest > size) abort();
    if (code != WANE_OK && (ssp.given || rest != 0)) abort();
    if (!ssp.given) {
        if (rest != 0) abort();
        return 0;
    }
    check_taken(&ssp);
    /* What is left holds no other one in the same place. */
    if (wane_ssp_read((const char *)data + rest, size - rest, &behind, &none, NULL) == WANE_OK &&
        behind.given)
        abort();
    return 0;
}
