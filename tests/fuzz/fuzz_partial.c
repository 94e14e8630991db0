/*
 * fuzz_partial.c - any bytes as the file of a partial build: as they are, and with checks that fit, so that what lies behind them
 * is reached. What is taken must make a table.
 */
#include "core/memory.h"
#include "table/build.h"
#include "table/build_sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD = 256 };

static void build_of(const char *path) {
    struct wane__partial_head head;
    struct wane__build *build = NULL;
    wane_error error = {0};
    if (wane__partial_head(path, &head, &error) != WANE_OK) {
        if (error.text[0] == '\0') abort();
        return;
    }
    struct wane__build_options options = {.origin = head.origin};
    wane_table_build_options_init(&options.set);
    options.set.window = head.window;
    options.set.samples = head.samples < 1000 ? head.samples : 0;
    options.set.memory = (size_t)128 << 20;
    options.set.max_entries = 100;
    options.set.phrases = true;
    if (wane__build_new(&options, &build, &error) != WANE_OK) abort();
    int status = wane__build_read_partial(build, path, &error);
    if (status == WANE_OK) {
        struct wane__slmt_content content;
        unsigned char *image = NULL;
        size_t image_size;
        status = wane__build_table(build, &content, NULL, &error);
        /* Only the order of the samples is left to be found while they are read again. */
        if (status != WANE_OK && status != WANE_EFORMAT) abort();
        if (status == WANE_OK && wane__slmt_build(&content, &image, &image_size, &error) != WANE_OK) abort();
        wane__free(image);
    } else if (error.text[0] == '\0') {
        abort();
    }
    wane__build_free(build);
}

static void put_file(const char *path, const uint8_t *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(bytes, 1, size, file) != size || fclose(file) != 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/wane-fuzz-partial-%d", (int)getpid());
    put_file(path, data, size);
    build_of(path);
    if (size >= HEAD && size < 1 << 16) {
        uint8_t *sealed = malloc(size);
        if (sealed == NULL) abort();
        memcpy(sealed, data, size);
        uint64_t count = 0;
        for (size_t at = HEAD; at + 2 <= size; at += 2 + (size_t)wane__get(sealed + at, 2)) count++;
        wane__put(sealed + 104, count, 8);
        wane__put(sealed + 176, count, 8);
        wane__put(sealed + 184, size - HEAD, 8);
        wane__put(sealed + 192, XXH3_64bits(sealed + HEAD, size - HEAD), 8);
        wane__put(sealed + 200, XXH3_64bits(sealed, 200), 8);
        put_file(path, sealed, size);
        build_of(path);
        free(sealed);
    }
    unlink(path);
    return 0;
}
