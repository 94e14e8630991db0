/*
 * fuzz_slmt.c - any bytes as a table: refused in words, or every lookup stays within them.
 *
 *     byte 0: bit 0: put right checksums first, as somebody who makes a file up would; the rest is the file. The first bytes
 *     of a file are mostly zeros, so the input may also be lines of 18 bytes, bit 1 of byte 0: an offset in units of 16
 *     (two bytes) and 16 bytes that stand there, in a file as long as the last line's page.
 */
#include "core/memory.h"
#include "table/lookup.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned char *from_lines(const uint8_t *data, size_t size, size_t *length) {
    *length = 0;
    for (size_t i = 0; i + 18 <= size; i += 18) {
        size_t end = 16 * ((size_t)data[i] | (size_t)data[i + 1] << 8) + 16;
        if (end > *length) *length = end;
    }
    *length = (size_t)wane__slmt_page_up(*length);
    unsigned char *file = wane__alloc_zero(*length, 1);
    if (file == NULL) abort();
    for (size_t i = 0; i + 18 <= size; i += 18)
        memcpy(file + 16 * ((size_t)data[i] | (size_t)data[i + 1] << 8), data + i + 2, 16);
    return file;
}

/* May the checksums be computed without reading outside? */
static bool can_seal(const unsigned char *file, size_t size) {
    const struct wane__slmt_header *h = (const void *)file;
    if (size < sizeof *h) return false;
    for (int i = 0; i < WANE__SLMT_SECTIONS; i++) {
        const struct wane__slmt_section *s = &h->section[i];
        if (s->offset > size || s->size > size || wane__slmt_page_up(s->size) > size - s->offset)
            return false;
    }
    return true;
}

static volatile float kept;

static void use(const struct wane__slmt *table) {
    float seen = 0;
    for (uint32_t i = 0; i < table->slots; i++) {
        const struct wane__slmt_slot *slot = &table->slot[i];
        struct wane__slmt_key key = {slot->window, slot->ten};
        struct wane__slmt_hit hit;
        static const uint32_t places[] = {0, 1, 7, 1023, 1024, 2000, UINT32_MAX};
        for (size_t p = 0; p < sizeof places / sizeof *places; p++)
            if (wane__slmt_lookup(table, key, places[p], 2, &hit)) {
                if (hit.top_count < 1 || hit.top_count > WANE__SLMT_DEPTH || hit.slot >= table->slots)
                    abort();
                for (int k = 0; k < hit.top_count; k++) seen += hit.top[k].logit;
                for (int k = 0; k < hit.top_count; k++)
                    if (hit.top[k].token < 0 || hit.top[k].token >= (int)table->header->vocab_size) abort();
            }
        key.window++;
        wane__slmt_lookup(table, key, 5, 5, &hit);
        int count = 0;
        float acceptance;
        const uint32_t *token = wane__slmt_continuation(table, i, &count, &acceptance);
        for (int k = 0; token != NULL && k < count; k++) seen += (float)token[k];
    }
    kept = seen; /* so that every read is made */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    size_t length = size - 1;
    unsigned char *file;
    if (data[0] & 2) {
        file = from_lines(data + 1, size - 1, &length);
    } else {
        file = wane__alloc(length); /* aligned, and exactly as long */
        if (file == NULL) abort();
        memcpy(file, data + 1, length);
    }
    if (data[0] & 1 && can_seal(file, length)) wane__slmt_seal(file);
    struct wane__slmt table = {0};
    wane_error error = {0};
    int status = wane__slmt_parse("input", file, length, NULL, &table, &error);
    if (status == WANE_OK)
        use(&table);
    else if (error.code != status || error.text[0] == '\0')
        abort();
    wane__free(file);
    return 0;
}
