/* file_out.c - owns a file until it stands in its place. Refuses to say anything to people: callers know what it is. */
#include "file_out.h"

#include "text.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

void file_begin(struct file_out *out, const char *path) {
    out->path = path;
    out->fresh = text_format("%s.%ld", path, (long)getpid());
    out->file = fopen(out->fresh, "we");
}

bool file_end(struct file_out *out, bool good) {
    good = good && out->file != NULL && ferror(out->file) == 0 && fflush(out->file) == 0 &&
           fsync(fileno(out->file)) == 0;
    int why = errno;
    if (out->file != NULL && fclose(out->file) != 0 && good) {
        why = errno;
        good = false;
    }
    if (good && rename(out->fresh, out->path) != 0) {
        why = errno;
        good = false;
    }
    if (!good) unlink(out->fresh);
    free(out->fresh);
    errno = why;
    return good;
}
