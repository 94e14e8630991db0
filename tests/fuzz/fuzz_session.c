/*
 * fuzz_session.c - any bytes as a session's file: refused in words, or all of it within bounds; and any bytes as a state.
 *
 *     byte 0: bit 0: put the right checksum at the end first, as somebody who makes a file up would; bit 1: the right version and
 *     layout; the rest is the file
 */
#include "core/bytes.h"
#include "core/memory.h"
#include "engine/engine.h"
#include "session_form.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct wane__session_bytes *got, const unsigned char *bytes, size_t size) {
    const wane_session_file *f = &got->file;
    if (f->bytes != size || f->held > f->tokens || f->held < 0 || !(f->tau >= 0) || isinf(f->tau) ||
        (f->sfcl_flags & ~(uint64_t)WANE_SFCL_ALL) != 0 || strlen(f->model) != 32)
        abort();
    if (got->tokens < bytes || got->state != got->tokens + 4 * (size_t)f->tokens ||
        (size_t)(bytes + size - got->state) != f->state_bytes + WANE__SESSION_TAIL)
        abort();
    for (int i = 0; i < f->tokens; i++)
        if (wane__get(got->tokens + 4 * i, 4) >= (uint64_t)f->vocab_size) abort();
    for (size_t i = 0; i < f->message_count; i++)
        if (f->messages[i].role[0] == '\0' || f->messages[i].content[f->messages[i].content_size] != '\0')
            abort();
}

/* The scripted engine's own bytes: taken, or the sequence is empty. */
static void load_state(const struct wane__session_bytes *got) {
    struct wane__script script = {.context = 64, .sequences = 1};
    struct wane__engine *engine;
    struct wane__script_counts counts;
    wane_error error = {0};
    if (got->file.held < 1 || got->file.held > 64) return;
    if (wane__script_load(&script, NULL, &engine, &error) != WANE_OK) abort();
    int status =
        engine->ops->state_load(engine, 0, got->state, (size_t)got->file.state_bytes, got->file.held, &error);
    wane__script_get_counts(engine, &counts);
    if (counts.length[0] != (status == WANE_OK ? got->file.held : 0)) abort();
    engine->ops->free(engine);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    size_t length = size - 1;
    unsigned char *file = wane__alloc(length + 1);
    struct wane__session_bytes got;
    wane_error error = {0};
    if (file == NULL) abort();
    memcpy(file, data + 1, length);
    if ((data[0] & 2) != 0 && length >= WANE__SESSION_HEAD) {
        memcpy(file, "WANESESS", 8);
        wane__put(file + 8, WANE__SESSION_VERSION, 4);
        wane__put(file + 12, WANE__SESSION_HEAD, 4);
        wane__put(file + 16, wane__session_layout(), 8);
    }
    if ((data[0] & 1) != 0 && length >= 8) wane__put(file + length - 8, XXH3_64bits(file, length - 8), 8);
    int status = wane__session_parse("input", file, length, &got, &error);
    if (status == WANE_OK) {
        check(&got, file, length);
        load_state(&got);
    } else if (error.code != status || error.text[0] == '\0' || got.file.messages != NULL) {
        abort();
    }
    wane_session_file_free(&got.file);
    wane__free(file);
    return 0;
}
