/*
 * fuzz_stream.c - any bytes, any cuts, any stop strings: text stays valid UTF-8, and equals what a single
 * push gives.
 *
 *     byte 0: number of stop strings (0 … 3); then each as a length byte and its bytes; then pairs of a
 *     length byte and so many bytes: the tokens
 */
#include "stream.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool fine) {
    if (!fine) abort();
}

/* Every delta must be text by itself: decoding it again changes nothing. */
static void require_text(const char *text, size_t size) {
    struct wane__stream again;
    const char *out;
    size_t out_size;
    require(wane__stream_init(&again, NULL, 0, NULL) == WANE_OK);
    require(!wane__stream_push(&again, text, size, &out, &out_size));
    require(out_size == size && memcmp(out, text, size) == 0);
    wane__stream_flush(&again, &out, &out_size);
    require(out_size == 0);
    wane__stream_free(&again);
}

/* The next string of at most `most` bytes: its length byte, then itself. */
static size_t next(const uint8_t **data, size_t *left, size_t most, const char **bytes) {
    size_t length = 0;
    if (*left > 0) {
        length = **data % (most + 1);
        ++*data;
        --*left;
    }
    if (length > *left) length = *left;
    *bytes = (const char *)*data;
    *data += length;
    *left -= length;
    return length;
}

static void collect(struct wane__buf *joined, const char *text, size_t size) {
    require_text(text, size);
    require(wane__buf_append(joined, text, size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    char stop_text[3][20];
    const char *stops[3], *bytes, *text;
    size_t stop_count = data[0] % 4, text_size;
    data++, size--;
    for (size_t i = 0; i < stop_count; i++) {
        size_t length = next(&data, &size, 19, &bytes);
        memcpy(stop_text[i], bytes, length);
        stop_text[i][length] = '\0';
        stops[i] = stop_text[i];
    }
    struct wane__stream cut, whole;
    if (wane__stream_init(&cut, stops, stop_count, NULL) != WANE_OK) return 0;
    require(wane__stream_init(&whole, stops, stop_count, NULL) == WANE_OK);
    struct wane__buf all = {0}, first = {0}, second = {0};
    bool stopped = false;
    while (size > 0) {
        size_t length = next(&data, &size, 40, &bytes);
        wane__buf_append(&all, bytes, length);
        if (!stopped) {
            stopped = wane__stream_push(&cut, bytes, length, &text, &text_size);
            collect(&first, text, text_size);
            require(cut.pending.size <= cut.longest_stop);
        }
    }
    if (!stopped) {
        wane__stream_flush(&cut, &text, &text_size);
        collect(&first, text, text_size);
    }
    if (!wane__stream_push(&whole, all.data, all.size, &text, &text_size)) {
        collect(&second, text, text_size);
        wane__stream_flush(&whole, &text, &text_size);
    }
    collect(&second, text, text_size);
    require(first.size == second.size &&
            (first.size == 0 || memcmp(first.data, second.data, first.size) == 0));
    require((cut.stopped_by == NULL) == (whole.stopped_by == NULL));
    require(cut.stopped_by == NULL || strcmp(cut.stopped_by, whole.stopped_by) == 0);
    wane__stream_free(&cut);
    wane__stream_free(&whole);
    wane__buf_free(&all);
    wane__buf_free(&first);
    wane__buf_free(&second);
    return 0;
}
