/*
 * fuzz_memo.c - any bytes as a memo's file: refused in words, or every entry within bounds.
 *
 *     byte 0: bit 0: put the right checksum at the end first, as somebody who makes a file up would; the rest is the file
 */
#include "core/memory.h"
#include "table/memo_internal.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    size_t length = size - 1;
    unsigned char *file = wane__alloc(length + 1);
    struct wane__memo *memo;
    wane_error error = {0};
    if (file == NULL || wane__memo_new(WANE__MEMO_LEAST, &memo, &error) != WANE_OK) abort();
    memcpy(file, data + 1, length);
    if (data[0] & 1 && length >= 8) {
        uint64_t sum = XXH3_64bits(file, length - 8);
        for (int i = 0; i < 8; i++) file[length - 8 + (size_t)i] = (unsigned char)(sum >> 8 * i);
    }
    int status = wane__memo_parse(memo, "input", file, length, "model 1", 384, &error);
    if (status != WANE_OK && (error.code != status || error.text[0] == '\0' || memo->count > 0)) abort();
    uint32_t seen = 0;
    for (uint32_t at = memo->oldest; at != WANE__MEMO_NONE; at = memo->entry[at].newer, seen++) {
        const struct wane__memo_entry *e = &memo->entry[at];
        if (e->token < 0 || e->token >= 384 || e->key.tenant >= memo->tenants) abort();
        if (wane__memo_find(memo, &e->key, false) != e->token) abort();
    }
    if (seen != memo->count) abort();
    wane__memo_free(memo);
    wane__free(file);
    return 0;
}
