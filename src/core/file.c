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

static int fail_to_write(const struct wane__file_fresh *fresh, int why, wane_error *error) {
    return wane__fail(error, WANE_EIO, "Cannot write %s %s: %s.", fresh->what, fresh->path, strerror(why));
}

int wane__file_begin(const char *path, const char *what, struct wane__file_fresh *fresh, wane_error *error) {
    size_t room = strlen(path) + 16;
    *fresh = (struct wane__file_fresh){.fd = -1, .name = wane__alloc(room), .path = path, .what = what};
    if (fresh->name == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a file name.");
    snprintf(fresh->name, room, "%s.XXXXXX", path);
    fresh->fd = mkstemp(fresh->name);
    if (fresh->fd >= 0) return WANE_OK;
    int status = fail_to_write(fresh, errno, error);
    wane__free(fresh->name);
    fresh->name = NULL;
    return status;
}

void wane__file_abandon(struct wane__file_fresh *fresh) {
    if (fresh->fd >= 0) close(fresh->fd);
    if (fresh->name != NULL) unlink(fresh->name);
    wane__free(fresh->name);
    *fresh = (struct wane__file_fresh){.fd = -1};
}

int wane__file_commit(struct wane__file_fresh *fresh, unsigned mode, wane_error *error) {
    bool good = fchmod(fresh->fd, (mode_t)mode) == 0 && fsync(fresh->fd) == 0;
    int why = errno, fd = fresh->fd;
    fresh->fd = -1;
    if (close(fd) != 0 && good) {
        good = false;
        why = errno;
    }
    if (good && rename(fresh->name, fresh->path) != 0) {
        good = false;
        why = errno;
    }
    if (!good) {
        int status = fail_to_write(fresh, why, error);
        wane__file_abandon(fresh);
        return status;
    }
    sync_folder(fresh->path);
    wane__free(fresh->name);
    *fresh = (struct wane__file_fresh){.fd = -1};
    return WANE_OK;
}

int wane__file_replace(const char *path, const char *what, const struct wane__file_part *parts, int count,
                       unsigned mode, wane_error *error) {
    struct wane__file_fresh fresh;
    int status = wane__file_begin(path, what, &fresh, error);
    if (status != WANE_OK) return status;
    for (int i = 0; i < count; i++) {
        if (write_all(fresh.fd, parts[i].bytes, parts[i].size)) continue;
        status = fail_to_write(&fresh, errno, error);
        wane__file_abandon(&fresh);
        return status;
    }
    return wane__file_commit(&fresh, mode, error);
}

int wane__file_write(const char *path, const char *what, const void *bytes, size_t size, unsigned mode,
                     wane_error *error) {
    const struct wane__file_part part = {bytes, size};
    return wane__file_replace(path, what, &part, 1, mode, error);
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
