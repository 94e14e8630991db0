/*
 * fuzz_prepare.c - any bytes as a text, the first one as the steps: refused because it is not UTF-8, or prepared so that it still is,
 * and so that doing it again changes nothing.
 */
#include "wane.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *out = NULL, *twice = NULL;
    size_t out_size, twice_size;
    wane_prepared did = {0}, again = {0};
    wane_error error = {0};
    if (size < 1 || size > 4096) return 0;
    unsigned steps = data[0] & WANE_PREPARE_ALL;
    int code = wane_text_prepare((const char *)data + 1, size - 1, steps, &out, &out_size, &did, &error);
    if ((code == WANE_OK) != (out != NULL) || (code == WANE_OK) != (error.text[0] == '\0')) abort();
    if (out == NULL) return 0;
    if (wane_text_prepare(out, out_size, steps, &twice, &twice_size, &again, &error) != WANE_OK) abort();
    if (twice_size != out_size || memcmp(twice, out, out_size) != 0) abort();
    if (steps == 0 && (out_size != size - 1 || memcmp(out, data + 1, out_size) != 0)) abort();
    free(out);
    free(twice);
    return 0;
}
