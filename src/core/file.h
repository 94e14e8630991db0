/* file.h - whole files: written so that a reader sees the old one or the new one, and read up to a bound. */
#ifndef WANE_CORE_FILE_H
#define WANE_CORE_FILE_H

#include "wane.h"

struct wane__file_part {
    const void *bytes;
    size_t size;
};

/*
 * Write the parts, one behind the other, to a temporary name beside `path`; sync, give it `mode`, rename, sync the folder.
 * `what` names the thing in the error: "Cannot write the table x.slmt: …". Nothing is left behind on failure.
 */
int wane__file_replace(const char *path, const char *what, const struct wane__file_part *parts, int count,
                       unsigned mode, wane_error *error);

/* The same of one part. */
int wane__file_write(const char *path, const char *what, const void *bytes, size_t size, unsigned mode,
                     wane_error *error);

/*
 * The same in three steps, for what is written piece by piece to `fd`. `path` and `what` must stay. After begin has succeeded, call commit
 * or abandon, once; commit abandons by itself when it fails.
 */
struct wane__file_fresh {
    int fd;
    char *name; /* the temporary one */
    const char *path, *what;
};
int wane__file_begin(const char *path, const char *what, struct wane__file_fresh *fresh, wane_error *error);
int wane__file_commit(struct wane__file_fresh *fresh, unsigned mode, wane_error *error);
void wane__file_abandon(struct wane__file_fresh *fresh);

/*
 * Read a small file whole, with a zero behind it that is not counted; wane__free it. WANE_ENOENT when it is not there,
 * WANE_EFORMAT when it is no plain file or larger than `most` bytes.
 */
int wane__file_read(const char *path, const char *what, size_t most, char **bytes, size_t *size,
                    wane_error *error);

#endif
