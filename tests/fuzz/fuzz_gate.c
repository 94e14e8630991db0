/*
 * fuzz_gate.c - any bytes as a gate's file: refused in words, or a gate whose every pattern is found, with the net's odds, and that is
 * the same file when it is written again.
 *
 *     byte 0: bit 0: put the right checksum at the end first, as somebody who makes a file up would;
 *             bit 1: the rest ends before the net: put one of zeros behind it, and the checksum of its odds into the head
 */
#include "core/bytes.h"
#include "core/memory.h"
#include "gate/gate.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD = 192, NET = (int)sizeof(struct wane__gate_net), TAIL = 8 };

static void check(const struct wane__gate *gate, const uint8_t *file, size_t size) {
    uint8_t *bytes = NULL;
    size_t again = 0;
    uint32_t found = 0;
    for (uint32_t p = 0; p < WANE__GATE_PATTERNS && found < gate->lut.count; p++) {
        float odds = 0, own;
        if (!wane__gate_lut_find(&gate->lut, p, &odds)) continue;
        own = wane__gate_run(&gate->net, p);
        if (memcmp(&odds, &own, sizeof odds) != 0) abort();
        found++;
    }
    if (found != gate->lut.count || wane__gate_save(gate, &bytes, &again, NULL) != WANE_OK) abort();
    if (again != size) abort();
    /* Reserved bytes and unknown figures are not kept; all else is. */
    if (memcmp(bytes + HEAD, file + HEAD, size - HEAD - TAIL) != 0) abort();
    wane__free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    bool add_net = (data[0] & 2) != 0;
    size_t length = size - 1 + (add_net ? NET + TAIL : 0);
    uint8_t *file = calloc(length + 1, 1);
    struct wane__gate *gate = NULL;
    wane_error error = {0};
    if (file == NULL) abort();
    if (size > 1) memcpy(file, data + 1, size - 1);
    if (add_net && size > HEAD) {
        static const uint8_t zero[4];
        uint64_t count = wane__get(file + 104, 4), sum = XXH3_64bits("", 0);
        for (uint64_t i = 0; i < count && i < 100000; i++) sum = XXH3_64bits_withSeed(zero, sizeof zero, sum);
        wane__put(file + 120, sum, 8);
    }
    if ((data[0] & 1) != 0 && length >= TAIL)
        wane__put(file + length - TAIL, XXH3_64bits(file, length - TAIL), TAIL);
    int status = wane__gate_parse("input", file, length, &gate, &error);
    if ((status == WANE_OK) != (gate != NULL)) abort();
    if (status != WANE_OK && (error.code != status || error.text[0] == '\0')) abort();
    if (gate != NULL) check(gate, file, length);
    wane__gate_free(gate);
    free(file);
    return 0;
}
