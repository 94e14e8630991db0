/*
 * audit_count.c - LOG-count, a few bytes beside an audit log: who holds it, and how many records are owed since it was opened.
 *
 *     "wane-owe" │ number of the start record, 8 bytes │ records promised since, 8 bytes          little-endian
 *
 * Written in place by one call, so that a killed process leaves the old bytes or the new ones. Not synced: what a power cut does to it is
 * said in docs/audit.md. Its lock (flock) keeps two servers out of one log, and goes with the process.
 */
#include "core/bytes.h"
#include "core/error.h"
#include "core/memory.h"
#include "ops/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { BYTES = 24 };
static const char magic[8] = {'w', 'a', 'n', 'e', '-', 'o', 'w', 'e'};

int wane__audit_count_open(const char *path, struct wane__audit_count *count, wane_error *error) {
    *count = (struct wane__audit_count){.fd = -1};
    size_t room = strlen(path) + 7;
    char *name = wane__alloc(room);
    uint8_t bytes[BYTES];
    if (name == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a file name.");
    snprintf(name, room, "%s-count", path);
    count->fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
    int status = WANE_OK;
    if (count->fd < 0)
        status = wane__fail(error, WANE_EIO, "Cannot open %s, which belongs to the audit log: %s.", name,
                            strerror(errno));
    else if (flock(count->fd, LOCK_EX | LOCK_NB) != 0)
        status = wane__fail(error, errno == EWOULDBLOCK ? WANE_EBUSY : WANE_EIO,
                            errno == EWOULDBLOCK ? "The audit log %s is in use by another server."
                                                 : "The audit log %s cannot be locked.",
                            path);
    else if (pread(count->fd, bytes, BYTES, 0) == BYTES && memcmp(bytes, magic, sizeof magic) == 0) {
        count->start = wane__get(bytes + 8, 8);
        count->owed = wane__get(bytes + 16, 8);
    }
    wane__free(name);
    if (status != WANE_OK) wane__audit_count_close(count);
    return status;
}

bool wane__audit_count_write(const struct wane__audit_count *count) {
    uint8_t bytes[BYTES];
    if (count->fd < 0) return false;
    memcpy(bytes, magic, sizeof magic);
    wane__put(bytes + 8, count->start, 8);
    wane__put(bytes + 16, count->owed, 8);
    return pwrite(count->fd, bytes, BYTES, 0) == BYTES;
}

void wane__audit_count_close(struct wane__audit_count *count) {
    if (count->fd >= 0) close(count->fd);
    count->fd = -1;
}
