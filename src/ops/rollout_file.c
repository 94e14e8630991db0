/*
 * rollout_file.c - a rollout's file, and the public functions that change it without a server.
 *
 * Owns nothing between two calls. Refuses to write what it could not read: a damaged file stays as it is, for people to look at.
 */
#include "ops/rollout_file.h"

#include "core/clock.h"
#include "core/error.h"
#include "core/file.h"
#include "core/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define FILE_MOST ((size_t)1 << 20)
#define WAIT_MS   5000 /* for whoever stands at a terminal */

static const char what[] = "the rollout's file";

int wane__rollout_lock(const char *path, int wait_ms, int *lock, wane_error *error) {
    char name[4200];
    *lock = -1;
    if (snprintf(name, sizeof name, "%s.lock", path) >= (int)sizeof name)
        return wane__fail(error, WANE_EINVAL, "The path of %s is too long.", what);
    int fd = open(name, O_RDONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644);
    if (fd < 0) return wane__fail(error, WANE_EIO, "Cannot lock %s %s: %s.", what, name, strerror(errno));
    double until = wane__now() + wait_ms / 1e3;
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        int why = errno;
        if (why == EINTR) continue;
        if (why == EWOULDBLOCK && wane__now() < until) {
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
            continue;
        }
        close(fd);
        if (why == EWOULDBLOCK)
            return wane__fail(error, WANE_EBUSY, "Another program is changing %s %s; try again.", what, path);
        return wane__fail(error, WANE_EIO, "Cannot lock %s %s: %s.", what, name, strerror(why));
    }
    *lock = fd;
    return WANE_OK;
}

void wane__rollout_unlock(int lock) {
    if (lock >= 0) close(lock); /* and with it the lock */
}

int wane__rollout_load(const char *path, struct wane__rollout_book *book, wane_error *error) {
    char *text = NULL;
    size_t size = 0;
    wane_error detail = {0};
    int status = wane__file_read(path, what, FILE_MOST, &text, &size, error);
    if (status != WANE_OK) return status;
    status = wane__rollout_parse(text, size, book, &detail);
    wane__free(text);
    return status == WANE_OK ? status : wane__fail(error, status, "%.300s: %.180s", path, detail.text);
}

int wane__rollout_store(const char *path, struct wane__rollout_book *book, wane_error *error) {
    book->state.revision++;
    char *text = wane__rollout_text(book);
    int status = text != NULL ? wane__file_write(path, what, text, strlen(text), 0644, error)
                              : wane__fail(error, WANE_ENOMEM, "No memory to write %s.", what);
    wane__free(text);
    if (status != WANE_OK) book->state.revision--;
    return status;
}

uint64_t wane__rollout_print(const char *path) {
    struct stat s;
    if (stat(path, &s) != 0) return 0;
#ifdef __APPLE__
    const struct timespec when = s.st_mtimespec;
#else
    const struct timespec when = s.st_mtim;
#endif
    const uint64_t facts[] = {(uint64_t)s.st_ino, (uint64_t)s.st_dev, (uint64_t)s.st_size,
                              (uint64_t)when.tv_sec, (uint64_t)when.tv_nsec};
    return XXH3_64bits(facts, sizeof facts) | 1;
}

/* ------------------------------------------------------------------ public */

/* The shown text, in memory that free() takes. */
static int show(const struct wane__rollout_book *book, char **json, wane_error *error) {
    if (json == NULL) return WANE_OK;
    char *text = wane__rollout_shown(book);
    *json = text != NULL ? strdup(text) : NULL;
    wane__free(text);
    return *json != NULL ? WANE_OK : wane__fail(error, WANE_ENOMEM, "No memory to show a rollout.");
}

static int make_book(const char *plan, size_t size, const wane_rollout_wish *wish,
                     struct wane__rollout_book *book, wane_error *error) {
    if (plan != NULL) return wane__rollout_parse(plan, size, book, error);
    int status = wane__rollout_wish(wish, &book->plan, error);
    memset(&book->state, 0, sizeof book->state);
    for (int i = 0; i < WANE_FEATURES; i++) book->state.feature[i].stage = -1;
    return status;
}

static int replace(const char *path, struct wane__rollout_book *book, bool anew, char **json,
                   wane_error *error) {
    struct wane__rollout_book *before = wane__alloc_zero(1, sizeof *before);
    int lock = -1;
    if (before == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a rollout.");
    int status = wane__rollout_lock(path, WAIT_MS, &lock, error);
    if (status == WANE_OK) {
        status = wane__rollout_load(path, before, error);
        if (status == WANE_OK && !anew) wane__rollout_keep(before, book);
        if (status == WANE_OK && anew) book->state.revision = before->state.revision;
        bool none = status == WANE_ENOENT || (status == WANE_EFORMAT && anew);
        if (status == WANE_OK || none) status = wane__rollout_store(path, book, error);
    }
    wane__rollout_unlock(lock);
    wane__free(before);
    return status == WANE_OK ? show(book, json, error) : status;
}

int wane_rollout_plan(const char *path, const char *plan, size_t plan_size, const wane_rollout_wish *wish,
                      bool anew, char **json, wane_error *error) {
    wane__clear(error);
    if (json != NULL) *json = NULL;
    struct wane__rollout_book *book = wane__alloc_zero(1, sizeof *book);
    if (book == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a rollout.");
    int status = make_book(plan, plan_size, wish, book, error);
    if (status == WANE_OK) status = replace(path, book, anew, json, error);
    wane__free(book);
    return status;
}

int wane_rollout_read(const char *path, char **json, wane_error *error) {
    wane__clear(error);
    *json = NULL;
    struct wane__rollout_book *book = wane__alloc_zero(1, sizeof *book);
    if (book == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a rollout.");
    int status = wane__rollout_load(path, book, error);
    if (status == WANE_OK) status = show(book, json, error);
    wane__free(book);
    return status;
}

int wane_rollout_do(const char *path, int action, int feature, char **json, wane_error *error) {
    wane__clear(error);
    if (json != NULL) *json = NULL;
    unsigned changed = 0;
    int lock = -1;
    struct wane__rollout_book *book = wane__alloc_zero(1, sizeof *book);
    if (book == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a rollout.");
    int status = wane__rollout_lock(path, WAIT_MS, &lock, error);
    if (status == WANE_OK) status = wane__rollout_load(path, book, error);
    if (status == WANE_OK)
        status = wane__rollout_act(book, action, feature, wane__date_ms(), &changed, error);
    if (status == WANE_OK) status = wane__rollout_store(path, book, error);
    wane__rollout_unlock(lock);
    if (status == WANE_OK) status = show(book, json, error);
    wane__free(book);
    return status;
}
