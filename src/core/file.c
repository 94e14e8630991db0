/*
 * file.c - whole files; see file.h. Refuses to know what is in them.
 */
#include "core/file.h"

#include "core/error.h"
#include "core/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool write_all(int fd, const char *bytes, size_t size) {
    while (size > 0) {
        ssize_t wrote = write(fd, bytes, size);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) return false;
        bytes += wrote;
        size -= (size_t)wrote;
    }
    return true;
}

static bool write_pieces(int fd, const struct wane__piece *pieces, int count) {
    for (int i = 0; i < count; i++)
        if (!write_all(fd, pieces[i].bytes, pieces[i].size)) return false;
    return fchmod(fd, 0644) == 0 && fsync(fd) == 0;
}

int wane__file_replace(const char *path, const struct wane__piece *pieces, int count, wane_error *error) {
    size_t room = strlen(path) + 16;
    char *fresh = wane__alloc(room);
    if (fresh == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a file name.");
    snprintf(fresh, room, "%s.XXXXXX", path);
    int fd = mkstemp(fresh);
    bool good = fd >= 0 && write_pieces(fd, pieces, count);
    int why = errno;
    if (fd >= 0 && close(fd) != 0 && good) {
        good = false;
        why = errno;
    }
    if (good && rename(fresh, path) != 0) {
        good = false;
        why = errno;
    }
    if (!good && fd >= 0) unlink(fresh);
    wane__free(fresh);
    return good ? WANE_OK : wane__fail(error, WANE_EIO, "Cannot write \"%s\": %s.", path, strerror(why));
}

static int read_open(int fd, const char *path, size_t most, void **bytes, size_t *size, wane_error *error) {
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return wane__fail(error, WANE_EIO, "\"%s\" is not a file that can be read.", path);
    if ((uint64_t)st.st_size > most)
        return wane__fail(error, WANE_EFORMAT, "\"%s\" is longer than what it should be: %zu bytes at most.",
                          path, most);
    size_t want = (size_t)st.st_size, have = 0;
    char *read_bytes = wane__alloc(want + 1);
    if (read_bytes == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for \"%s\".", path);
    while (have < want) {
        ssize_t got = read(fd, read_bytes + have, want - have);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            wane__free(read_bytes);
            return wane__fail(error, WANE_EIO, "Cannot read \"%s\": %s.", path, strerror(errno));
        }
        if (got == 0) break; /* it has just become shorter */
        have += (size_t)got;
    }
    read_bytes[have] = '\0';
    *bytes = read_bytes;
    *size = have;
    return WANE_OK;
}

int wane__file_read(const char *path, size_t most, void **bytes, size_t *size, wane_error *error) {
    *bytes = NULL;
    *size = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not make us wait */
    if (fd < 0)
        return wane__fail(error, errno == ENOENT || errno == ENOTDIR ? WANE_ENOENT : WANE_EIO,
                          "Cannot open \"%s\": %s.", path, strerror(errno));
    int result = read_open(fd, path, most, bytes, size, error);
    close(fd);
    return result;
}
