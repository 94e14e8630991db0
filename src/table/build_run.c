/*
 * build_run.c - sorted records in a file, written and read through one buffer. Owns the buffers, not the files; refuses sizes
 * that a file does not hold.
 */
#include "table/build_sort.h"

#include "core/buf.h"
#include "core/error.h"
#include "core/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Small enough to be still in a near cache when it is written. */
enum { WRITE_BUFFER = 256 << 10 };

int wane__sort_temporary(const char *folder, wane_error *error) {
    if (folder == NULL) folder = getenv("TMPDIR");
    if (folder == NULL || folder[0] == '\0') folder = "/tmp";
    struct wane__buf name = {0};
    if (!wane__buf_format(&name, "%s/wane-sort.XXXXXX", folder)) {
        wane__buf_free(&name);
        return wane__fail(error, WANE_ENOMEM, "No memory for a file name.");
    }
    int fd = mkstemp(name.data);
    if (fd >= 0)
        unlink(name.data); /* gone with the process, however that ends */
    else
        fd = wane__fail(error, WANE_EIO, "Cannot make a temporary file in %s: %s. Name another folder.",
                        folder, strerror(errno));
    wane__buf_free(&name);
    return fd;
}

/* -------------------------------------------------------------------- writing */

int wane__run_writer_open(struct wane__run_writer *writer, int fd, wane_error *error) {
    *writer = (struct wane__run_writer){.fd = fd, .capacity = WRITE_BUFFER};
    writer->buffer = wane__alloc(WRITE_BUFFER);
    return writer->buffer != NULL ? WANE_OK : wane__fail(error, WANE_ENOMEM, "No memory to write records.");
}

int wane__run_writer_flush(struct wane__run_writer *writer, wane_error *error) {
    for (size_t at = 0; at < writer->used;) {
        ssize_t n = write(writer->fd, writer->buffer + at, writer->used - at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return wane__fail(error, WANE_EIO, "Cannot write records of the table's build: %s.",
                              n < 0 ? strerror(errno) : "the disk takes no more");
        at += (size_t)n;
    }
    writer->used = 0;
    return WANE_OK;
}

int wane__run_writer_add(struct wane__run_writer *writer, const void *bytes, size_t size, wane_error *error) {
    if (size + 2 > writer->capacity - writer->used) {
        int status = wane__run_writer_flush(writer, error);
        if (status != WANE_OK) return status;
    }
    uint8_t *to = writer->buffer + writer->used;
    to[0] = (uint8_t)(size & 255);
    to[1] = (uint8_t)(size >> 8);
    memcpy(to + 2, bytes, size);
    writer->used += size + 2;
    writer->written += size + 2;
    return WANE_OK;
}

void wane__run_writer_close(struct wane__run_writer *writer) {
    wane__free(writer->buffer);
    writer->buffer = NULL;
}

/* -------------------------------------------------------------------- reading */

int wane__run_reader_open(struct wane__run_reader *reader, int fd, const char *name, uint64_t from,
                          uint64_t end, size_t buffer, wane_error *error) {
    if (buffer < WANE__SORT_MOST + 2) buffer = WANE__SORT_MOST + 2;
    *reader = (struct wane__run_reader){
        .fd = fd, .name = name, .from = from, .at = from, .end = end, .capacity = buffer};
    reader->buffer = wane__alloc(buffer);
    return reader->buffer != NULL ? WANE_OK : wane__fail(error, WANE_ENOMEM, "No memory to read records.");
}

void wane__run_reader_rewind(struct wane__run_reader *reader) {
    reader->at = reader->from;
    reader->first = reader->filled = 0;
}

void wane__run_reader_close(struct wane__run_reader *reader) {
    wane__free(reader->buffer);
    reader->buffer = NULL;
}

static int fill(struct wane__run_reader *reader, wane_error *error) {
    memmove(reader->buffer, reader->buffer + reader->first, reader->filled - reader->first);
    reader->filled -= reader->first;
    reader->first = 0;
    while (reader->at < reader->end && reader->filled < reader->capacity) {
        size_t want = reader->capacity - reader->filled;
        if (want > reader->end - reader->at) want = (size_t)(reader->end - reader->at);
        ssize_t n = pread(reader->fd, reader->buffer + reader->filled, want, (off_t)reader->at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return wane__fail(error, WANE_EIO, "Cannot read %s: %s.", reader->name, strerror(errno));
        if (n == 0) return wane__fail(error, WANE_EFORMAT, "%s is cut short.", reader->name);
        reader->filled += (size_t)n;
        reader->at += (uint64_t)n;
    }
    return WANE_OK;
}

int wane__run_reader_next(struct wane__run_reader *reader, const uint8_t **bytes, size_t *size,
                          wane_error *error) {
    size_t there = reader->filled - reader->first, need = 2;
    for (int part = 0; part < 2; part++) {
        if (there < need) {
            int status = fill(reader, error);
            if (status != WANE_OK) return status;
            there = reader->filled - reader->first;
            if (there == 0 && part == 0) return 0;
            if (there < need)
                return wane__fail(error, WANE_EFORMAT, "%s ends within a record.", reader->name);
        }
        const uint8_t *at = reader->buffer + reader->first;
        if (part == 0) need = 2 + ((size_t)at[0] | (size_t)at[1] << 8);
        if (need - 2 < WANE__SORT_LEAST)
            return wane__fail(error, WANE_EFORMAT, "%s holds a record of %zu bytes; none is that short.",
                              reader->name, need - 2);
    }
    *bytes = reader->buffer + reader->first + 2;
    *size = need - 2;
    reader->first += need;
    return 1;
}
