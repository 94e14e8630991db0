/* file_out.h - a file that is there whole or not at all: written under another name, synced, then renamed. */
#ifndef WANE_CLI_FILE_OUT_H
#define WANE_CLI_FILE_OUT_H

#include <stdbool.h>
#include <stdio.h>

struct file_out {
    FILE *file; /* NULL: it cannot be made */
    const char *path;
    char *fresh; /* owned */
};

/* `path` must outlive it. Each is followed by file_end, also where there is no file. */
void file_begin(struct file_out *out, const char *path);
/* Put it in its place; with `good` false, or where that fails, nothing of it stays, and errno says why. */
bool file_end(struct file_out *out, bool good);

#endif
