/*
 * file.h - a file that is whole or not there: written beside its place, synced, then renamed into it.
 */
#ifndef WANE_CORE_FILE_H
#define WANE_CORE_FILE_H

#include "wane.h"

struct wane__piece {
    const void *bytes;
    size_t size;
};

/* Replace `path` with these pieces, one behind the other. WANE_EIO names the file; what was there before is then still there. */
int wane__file_replace(const char *path, const struct wane__piece *pieces, int count, wane_error *error);
/* The whole file, at most `most` bytes, to be freed. WANE_ENOENT, WANE_EIO, WANE_EFORMAT when it is longer. */
int wane__file_read(const char *path, size_t most, void **bytes, size_t *size, wane_error *error);

#endif
