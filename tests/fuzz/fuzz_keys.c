/* fuzz_keys.c - any bytes as a key file; what was accepted is searched with pieces of the same bytes. */
#include "server/keys.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct wane__keys *keys = NULL;
    wane_error error = {0};
    int code = wane__keys_parse((const char *)data, size, &keys, &error);
    if ((code == WANE_OK) != (keys != NULL)) abort();
    if (code != WANE_OK && error.text[0] == '\0') abort();
    if (keys != NULL) {
        struct wane__key found;
        if (wane__keys_count(keys) == 0) abort();
        for (size_t at = 0; at < size && at < 64; at++) {
            if (wane__keys_find(keys, (const char *)data + at, size - at, &found) && found.name[0] == '\0')
                abort();
        }
        if (wane__keys_find(keys, "", 0, &found)) abort();
    }
    wane__keys_free(keys);
    return 0;
}
