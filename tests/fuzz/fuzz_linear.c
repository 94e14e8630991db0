/*
 * fuzz_linear.c - any bytes as a linear model's file: refused in words, or a model whose scores are numbers and that is the same file
 * when it is written again.
 *
 *     byte 0: bit 0: put the right checksum at the end first, as somebody who makes a file up would;
 *             bit 1: it should be a reward model, else a classifier;
 *             bit 2: the rest ends before the weights: put as many behind it as its head asks for
 */
#include "core/bytes.h"
#include "core/memory.h"
#include "governor/linear.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD = 64, CLASS = 24, TAIL = 8 };

static void check(const struct wane__linear *model, const uint8_t *file, size_t size) {
    struct wane__features features = {0};
    double share[WANE__LINEAR_CLASSES];
    uint8_t *bytes = NULL;
    size_t again = 0;
    static const char text[] = "The court sees the patient. 法院 2026";
    if (wane__features_add(&features, text, sizeof text - 1, 1, model->bits, NULL) != WANE_OK) abort();
    int best = wane__linear_choose(model, &features, share);
    if (best < -1 || best >= model->classes) abort();
    for (int c = 0; c < model->classes; c++)
        if (!(share[c] >= 0 && share[c] <= 1)) abort();
    wane__features_free(&features);
    if (wane__linear_save(model, &bytes, &again, NULL) != WANE_OK || again != size) abort();
    /* Reserved bytes and unknown figures are not kept; all else is. */
    if (memcmp(bytes + HEAD, file + HEAD, size - HEAD - TAIL) != 0) abort();
    wane__free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    size_t length = size - 1, more = 0;
    int kind = (data[0] & 2) != 0 ? WANE__LINEAR_REWARD : WANE__LINEAR_DOMAINS;
    if ((data[0] & 4) != 0 && length >= HEAD && data[1 + 13] <= 8 && data[1 + 14] <= 12) {
        size_t whole = HEAD + (size_t)data[1 + 13] * CLASS + ((size_t)data[1 + 13] << data[1 + 14]) + TAIL;
        if (whole > length) more = whole - length;
    }
    uint8_t *file = calloc(length + more + 1, 1);
    struct wane__linear *model = NULL;
    wane_error error = {0};
    if (file == NULL) abort();
    if (length > 0) memcpy(file, data + 1, length);
    length += more;
    if ((data[0] & 1) != 0 && length >= TAIL)
        wane__put(file + length - TAIL, XXH3_64bits(file, length - TAIL), TAIL);
    int status = wane__linear_parse("input", kind, file, length, &model, &error);
    if ((status == WANE_OK) != (model != NULL)) abort();
    if (status != WANE_OK && (error.code != status || error.text[0] == '\0')) abort();
    if (model != NULL) check(model, file, length);
    wane__linear_free(model);
    free(file);
    return 0;
}
