/* fuzz_page.c - If-None-Match and Accept, as clients write them: whatever the bytes, no read past their end, and a tag is found where it stands. */
#include "server/page.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *header = malloc(size + 1);
    if (header == NULL) return 0;
    memcpy(header, data, size);
    header[size] = '\0';
    wane__page_wants_html(header);
    bool same = wane__page_unchanged(header, "\"0123abc\"");
    if (same && strstr(header, "\"0123abc\"") == NULL && strchr(header, '*') == NULL) abort();
    free(header);
    return 0;
}
