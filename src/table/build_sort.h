/*
 * build_sort.h - sorting more records than memory holds.
 *
 * A record is up to 65,535 bytes; they are ordered as memcmp orders them, the shorter first where one begins the other. What
 * does not fit goes to a temporary file as a sorted run, and reading merges the runs. Which runs there were never shows:
 * the same records give the same stream, in whatever order and under whatever bound they were added.
 *
 *     wane__sorter_add … wane__sorter_finish ─► wane__sorter_next … (wane__sorter_rewind, again)
 */
#ifndef WANE_TABLE_BUILD_SORT_H
#define WANE_TABLE_BUILD_SORT_H

#include "wane.h"

#define WANE__SORT_MOST  65535u
#define WANE__SORT_LEAST 8u /* bytes of a record: what is compared first */

/* Records one behind the other in a file: two bytes of size (little-endian), then the record. */
struct wane__run_writer {
    int fd;
    uint8_t *buffer;
    size_t used, capacity;
    uint64_t written; /* bytes, those in the buffer too */
};
int wane__run_writer_open(struct wane__run_writer *writer, int fd,
                          wane_error *error); /* fd stays the caller's */
int wane__run_writer_add(struct wane__run_writer *writer, const void *bytes, size_t size, wane_error *error);
int wane__run_writer_flush(struct wane__run_writer *writer, wane_error *error);
void wane__run_writer_close(struct wane__run_writer *writer);

struct wane__run_reader {
    int fd;
    const char *name;       /* for errors; stays the caller's */
    uint64_t from, at, end; /* offsets in the file */
    uint8_t *buffer;
    size_t first, filled, capacity;
};
/* Reads [from, end) of `fd`, which stays the caller's. */
int wane__run_reader_open(struct wane__run_reader *reader, int fd, const char *name, uint64_t from,
                          uint64_t end, size_t buffer, wane_error *error);
/* 1 with the next record, valid until the next call; 0 at the end; negative. Sizes are checked, order is not. */
int wane__run_reader_next(struct wane__run_reader *reader, const uint8_t **bytes, size_t *size,
                          wane_error *error);
void wane__run_reader_rewind(struct wane__run_reader *reader);
void wane__run_reader_close(struct wane__run_reader *reader);

/* A nameless file in `folder` (NULL: where the system keeps temporary ones); its descriptor or a negative code. */
int wane__sort_temporary(const char *folder, wane_error *error);

struct wane__sorter;

/* `memory`: bytes that it may hold, at least 1 MiB. `folder` is copied. */
int wane__sorter_new(const char *folder, size_t memory, struct wane__sorter **sorter, wane_error *error);
void wane__sorter_free(struct wane__sorter *sorter);
int wane__sorter_add(struct wane__sorter *sorter, const void *bytes, size_t size, wane_error *error);
/*
 * Take a file's records that are sorted already: [from, end) of `fd`, which becomes the sorter's. Records out of order give
 * WANE_EFORMAT while they are read. `name` stays the caller's.
 */
int wane__sorter_add_run(struct wane__sorter *sorter, int fd, const char *name, uint64_t from, uint64_t end,
                         wane_error *error);
int wane__sorter_finish(struct wane__sorter *sorter, wane_error *error);
/* 1 with the next record, valid until the next call; 0 at the end; negative. */
int wane__sorter_next(struct wane__sorter *sorter, const uint8_t **bytes, size_t *size, wane_error *error);
int wane__sorter_rewind(struct wane__sorter *sorter, wane_error *error);
/* Runs that went to temporary files, and records added here. */
uint64_t wane__sorter_spilled(const struct wane__sorter *sorter);

#endif
