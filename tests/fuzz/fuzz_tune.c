/* fuzz_tune.c - any bytes as a line of labelled text: refused in words, or spans that lie in the text, in order and apart. */
#include "core/memory.h"
#include "tune_text.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct wane__tune_text text;
    wane_error error = {0};
    int status = wane__tune_parse((const char *)data, size, &text, &error);
    if (status != WANE_OK) {
        if (error.text[0] == '\0' || text.text != NULL || text.span != NULL) abort();
        return 0;
    }
    if (text.size == 0 || (text.span == NULL) != (text.spans == 0)) abort();
    for (size_t i = 0, after = 0; i < text.spans; i++) {
        if (text.span[i].from < after || text.span[i].to <= text.span[i].from || text.span[i].to > text.size)
            abort();
        after = text.span[i].to;
    }
    wane__free(text.text);
    wane__free(text.span);
    return 0;
}
