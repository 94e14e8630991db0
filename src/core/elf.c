/* elf.c - reads outside files and a loader's output: every offset is held against the size before it is followed. */
#include "core/elf.h"

#include <stdint.h>
#include <string.h>

enum { HEADER = 64, ENTRY = 56, INTERPRETER = 3 };

static uint64_t number(const unsigned char *at, int bytes) {
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) value = value << 8 | at[i];
    return value;
}

bool wane__elf_loader(const void *bytes, size_t size, char *out, size_t room) {
    const unsigned char *file = bytes;
    /* 64 bits, little-endian: what wane is built for. */
    if (size < HEADER || memcmp(file, "\177ELF\002\001", 6) != 0) return false;
    uint64_t at = number(file + 32, 8), each = number(file + 54, 2), count = number(file + 56, 2);
    if (each < ENTRY) return false;
    for (uint64_t i = 0; i < count; i++, at += each) {
        if (at > size || size - at < ENTRY) return false;
        const unsigned char *entry = file + at;
        if (number(entry, 4) != INTERPRETER) continue;
        uint64_t from = number(entry + 8, 8), length = number(entry + 32, 8);
        if (length < 2 || length > room || from > size || size - from < length) return false;
        memcpy(out, file + from, (size_t)length);
        return out[length - 1] == '\0' && strlen(out) == length - 1 && out[0] == '/';
    }
    return false;
}

/* "libllama.so", "libllama.so.0", "libllama.v0.4.0.so" */
static bool is_llama(const char *name, size_t size) {
    static const char begin[] = "libllama.";
    return size >= sizeof begin - 1 && memcmp(name, begin, sizeof begin - 1) == 0;
}

bool wane__elf_find_llama(const char *list, size_t size, char *out, size_t room) {
    const char *end = list + size;
    while (list < end) {
        const char *line_end = memchr(list, '\n', (size_t)(end - list));
        if (line_end == NULL) line_end = end;
        const char *name = list;
        while (name < line_end && (*name == ' ' || *name == '\t')) name++;
        list = line_end < end ? line_end + 1 : end;
        if (!is_llama(name, (size_t)(line_end - name))) continue;
        const char *path = memchr(name, '>', (size_t)(line_end - name));
        if (path == NULL || line_end - path < 3 || path[1] != ' ' || path[2] != '/') continue;
        path += 2;
        const char *stop = line_end;
        for (const char *c = path; c + 1 < line_end; c++)
            if (c[0] == ' ' && c[1] == '(') stop = c;
        if ((size_t)(stop - path) >= room) return false;
        memcpy(out, path, (size_t)(stop - path));
        out[stop - path] = '\0';
        return true;
    }
    return false;
}
