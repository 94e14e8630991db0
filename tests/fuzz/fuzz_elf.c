/* fuzz_elf.c - programs and loaders' lists: any bytes give a path that lies in them, or nothing. */
#include "core/elf.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool found, const char *path, const uint8_t *data, size_t size) {
    if (!found) return;
    size_t length = strlen(path);
    if (path[0] != '/' || length >= 256) abort();
    for (size_t i = 0; i + length <= size; i++)
        if (memcmp(data + i, path, length) == 0) return;
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[256];
    check(wane__elf_loader(data, size, path, sizeof path), path, data, size);
    check(wane__elf_find_llama((const char *)data, size, path, sizeof path), path, data, size);
    return 0;
}
