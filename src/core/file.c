/*
 * file.c - whole files. Owns no path: what is written appears under its name only when it is complete and on the disk.
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

static bool write_all(int fd, const void *bytes, size_t size) {
    for (const char *at = bytes; size > 0;) {
        ssize_t n = write(fd, at, size < 1u << 30 ? size : 1u << 30);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

/* The rename itself must survive a power cut. Folders that cannot be synced are no failure. */
static void sync_folder(const char *path) {
    char folder[4096];
    const char *slash = strrchr(path, '/');
    size_t size = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    if (size >= sizeof folder) return;
    memcpy(folder, path, size);
    folder[size] = '\0';
    int fd = open(size > 0 ? folder : ".", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

int wane__file_replace(const char *path, const char *what, const struct wane__file_part *parts, int count,
                       unsigned mode, wane_error *error) {
    size_t room = strlen(path) + 16;
    char *fresh = wane__alloc(room);
    if (fresh == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a file name.");
    snprintf(fresh, room, "%s.XXXXXX", path);
    int fd = mkstemp(fresh), status = WANE_OK;
    bool good = fd >= 0;
    for (int i = 0; i < count && good; i++) good = write_all(fd, parts[i].bytes, parts[i].size);
    good = good && fchmod(fd, (mode_t)mode) == 0 && fsync(fd) == 0;
    int why = errno;
    if (fd >= 0 && close(fd) != 0 && good) {
        good = false;
        why = errno;
    }
    if (good && rename(fresh, path) != 0) {
        good = false;
        why = errno;
    }
    if (!good) {
        status = wane__fail(error, WANE_EIO, "Cannot write %s %s: %s.", what, path, strerror(why));
        if (fd >= 0) unlink(fresh);
    } else {
        sync_folder(path);
    }
    wane__free(fresh);
    return status;
}

static int read_open(int fd, const char *path, const char *what, size_t most, char **bytes, size_t *size,
                     wane_error *error) {
    struct stat facts;
    if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode))
        return wane__fail(error, WANE_EFORMAT, "%s %s is no plain file.", what, path);
    if (facts.st_size < 0 || (uint64_t)facts.st_size > most)
        return wane__fail(error, WANE_EFORMAT, "%s %s is larger than %zu bytes.", what, path, most);
    size_t room = (size_t)facts.st_size, got = 0;
    char *made = wane__alloc(room + 1);
    if (made == NULL) return wane__fail(error, WANE_ENOMEM, "No memory to read %s.", path);
    while (got < room) {
        ssize_t n = read(fd, made + got, room - got);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            int why = errno;
            wane__free(made);
            return wane__fail(error, WANE_EIO, "Cannot read %s %s: %s.", what, path, strerror(why));
        }
        if (n == 0) break; /* it became shorter */
        got += (size_t)n;
    }
    made[got] = '\0';
    *bytes = made;
    *size = got;
    return WANE_OK;
}

int wane__file_read(const char *path, const char *what, size_t most, char **bytes, size_t *size,
                    wane_error *error) {
    *bytes = NULL;
    *size = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return wane__fail(error, errno == ENOENT ? WANE_ENOENT : WANE_EIO, "Cannot open %s %s: %s.", what,
                          path, strerror(errno));
    int status = read_open(fd, path, what, most, bytes, size, error);
    close(fd);
    return status;
}
