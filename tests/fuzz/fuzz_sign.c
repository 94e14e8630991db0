/* fuzz_sign.c - any text as a key or a signature file: refused, or exactly the bytes that it spells. */
#include "table/sign.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void one(const char *text, size_t size, const char *word, const size_t *field, int fields) {
    unsigned char out[8 + WANE__SIGN_BYTES + 1];
    size_t all = 0;
    for (int i = 0; i < fields; i++) all += field[i];
    memset(out, 0x5a, sizeof out);
    bool good = wane__sign_parse(text, size, word, field, fields, out);
    if (out[all] != 0x5a) abort();
    if (good && size < strlen(word) + 2 * all) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const size_t key[] = {WANE__SIGN_PUBLIC}, signature[] = {8, WANE__SIGN_BYTES};
    const char *text = (const char *)data;
    one(text, size, "wane-public-key-1", key, 1);
    one(text, size, "wane-secret-key-1", key, 1);
    one(text, size, "wane-signature-1", signature, 2);
    return 0;
}
