/*
 * trace_file.c - names, makes, writes, syncs and forgets files. Owns the compressor. Files are for their owner alone: 0600
 * in a folder of 0700. They stand under their own name from the start, not under a temporary one: a file that a kill left
 * behind is to be found and read. Refuses to leave half of what a disk did not take: a file ends behind its last sync, and
 * one that never had any goes; nor does an older file make room for one that is not safe yet.
 */
#include "table/trace_file.h"

#include "core/clock.h"
#include "core/error.h"
#include "core/memory.h"
#include "table/trace_text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LEVEL = 3 };

/* ------------------------------------------------------------------- folder */

int wane__trace_file_init(struct wane__trace_file *file, const char *folder, bool plain, wane_error *error) {
    *file = (struct wane__trace_file){.fd = -1, .plain = plain};
    struct stat status;
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return wane__fail(error, WANE_EIO, "Cannot make the folder %.300s for traces: %s.", folder,
                          strerror(errno));
    if (stat(folder, &status) != 0 || !S_ISDIR(status.st_mode))
        return wane__fail(error, WANE_EIO, "%.300s is no folder; traces need one.", folder);
    if (access(folder, W_OK | X_OK) != 0)
        return wane__fail(error, WANE_EIO, "Traces cannot be written to %.300s: %s.", folder,
                          strerror(errno));
    file->folder = wane__copy_string(folder);
    if (!plain) file->compressor = ZSTD_createCCtx();
    if (file->folder == NULL || (!plain && file->compressor == NULL)) {
        wane__trace_file_free(file);
        return wane__fail(error, WANE_ENOMEM, "No memory for traces.");
    }
    if (!plain) {
        ZSTD_CCtx_setParameter(file->compressor, ZSTD_c_compressionLevel, LEVEL);
        ZSTD_CCtx_setParameter(file->compressor, ZSTD_c_checksumFlag, 1);
    }
    return WANE_OK;
}

void wane__trace_file_free(struct wane__trace_file *file) {
    if (file->fd >= 0) close(file->fd);
    ZSTD_freeCCtx(file->compressor);
    wane__buf_free(&file->packed);
    wane__buf_free(&file->path);
    wane__free(file->folder);
    *file = (struct wane__trace_file){.fd = -1};
}

/* A name that we gave: trace-….jsonl or trace-….jsonl.zst. */
static int is_ours(const struct dirent *entry) {
    const char *name = entry->d_name, *end = strstr(name, ".jsonl");
    return strncmp(name, "trace-", 6) == 0 && end != NULL &&
           (strcmp(end, ".jsonl") == 0 || strcmp(end, ".jsonl.zst") == 0);
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* The oldest go, until as many are left as may be; never the open one. */
static void prune(const struct wane__trace_file *file) {
    struct dirent **list = NULL;
    if (file->files_most <= 0) return;
    const char *own = file->path.data + strlen(file->folder) + 1;
    int count = scandir(file->folder, &list, is_ours, by_name);
    for (int i = 0; i < count; i++) {
        struct wane__buf path = {0};
        if (i < count - file->files_most && strcmp(list[i]->d_name, own) != 0 &&
            wane__buf_format(&path, "%s/%s", file->folder, list[i]->d_name))
            unlink(path.data);
        wane__buf_free(&path);
        free(list[i]); /* scandir's own */
    }
    free(list);
}

/* -------------------------------------------------------------------- bytes */

/* What was not synced is counted as lost: none of it stays. */
static void take_back(const struct wane__trace_file *file) {
    if (file->synced == 0)
        unlink(file->path.data);
    else if (ftruncate(file->fd, (off_t)file->synced) == 0)
        fsync(file->fd);
}

static int fail_file(struct wane__trace_file *file, const char *what, wane_error *error) {
    int why = errno;
    if (file->fd >= 0) {
        take_back(file);
        close(file->fd);
    }
    file->fd = -1;
    file->dirty = false;
    wane__buf_clear(&file->packed);
    if (file->compressor != NULL) ZSTD_CCtx_reset(file->compressor, ZSTD_reset_session_only);
    return wane__fail(error, WANE_EIO, "Cannot %s the trace %.300s: %s.", what,
                      file->path.data ? file->path.data : "", strerror(why));
}

static int write_all(struct wane__trace_file *file, const char *bytes, size_t size, wane_error *error) {
    while (size > 0) {
        ssize_t wrote = write(file->fd, bytes, size);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return fail_file(file, "write", error);
        bytes += wrote;
        size -= (size_t)wrote;
        file->bytes += (size_t)wrote;
        file->total_bytes += (uint64_t)wrote;
    }
    return WANE_OK;
}

/* Through the compressor; `last`: the frame ends here. */
static int pack(struct wane__trace_file *file, const char *text, size_t size, bool last, wane_error *error) {
    ZSTD_inBuffer in = {text, size, 0};
    struct wane__buf *out = &file->packed;
    size_t left;
    do {
        if (!wane__buf_reserve(out, ZSTD_CStreamOutSize())) {
            errno = ENOMEM;
            out->failed = false;
            return fail_file(file, "compress", error);
        }
        ZSTD_outBuffer room = {out->data, out->capacity - 1, out->size};
        left = ZSTD_compressStream2(file->compressor, &room, &in, last ? ZSTD_e_end : ZSTD_e_continue);
        out->size = room.pos;
        if (ZSTD_isError(left)) {
            errno = EIO;
            return fail_file(file, "compress", error);
        }
    } while (last ? left > 0 : in.pos < in.size);
    int code = write_all(file, out->data, out->size, error);
    if (code == WANE_OK) wane__buf_clear(out);
    return code;
}

static int put(struct wane__trace_file *file, const char *text, size_t size, wane_error *error) {
    file->dirty = true;
    return file->plain ? write_all(file, text, size, error) : pack(file, text, size, false, error);
}

static bool name_file(struct wane__trace_file *file, int64_t ms) {
    char date[32] = "19700101T000000";
    struct tm utc;
    time_t seconds = (time_t)(ms / 1000);
    if (gmtime_r(&seconds, &utc) != NULL) strftime(date, sizeof date, "%Y%m%dT%H%M%S", &utc);
    wane__buf_clear(&file->path);
    return wane__buf_format(&file->path, "%s/trace-%s.%03dZ-%ld-%04u.jsonl%s", file->folder, date,
                            (int)(ms % 1000), (long)getpid(), file->number, file->plain ? "" : ".zst");
}

/* The last of our names in the folder; NULL: there is none. */
static char *newest_name(const struct wane__trace_file *file) {
    struct dirent **list = NULL;
    int count = scandir(file->folder, &list, is_ours, by_name);
    char *newest = count > 0 ? wane__copy_string(list[count - 1]->d_name) : NULL;
    for (int i = 0; i < count; i++) free(list[i]); /* scandir's own */
    free(list);
    return newest;
}

/* The moment in a name of ours; 0: it has none that we would have given. */
static int64_t moment_of(const char *name) {
    struct tm t = {0};
    int ms = 0, end = 0;
    if (sscanf(name, "trace-%4d%2d%2dT%2d%2d%2d.%3dZ-%n", &t.tm_year, &t.tm_mon, &t.tm_mday, &t.tm_hour,
               &t.tm_min, &t.tm_sec, &ms, &end) != 7 ||
        end == 0 || t.tm_year < 1970 || t.tm_year > 9998)
        return 0;
    t.tm_year -= 1900;
    t.tm_mon -= 1;
    return (int64_t)timegm(&t) * 1000 + ms;
}

/*
 * Names sort by age, those of two writers in one moment too, and those from before the clock was set back: then they go on from the
 * newest. So what is oldest by name is, and goes first. `ms` is the date.
 */
static bool make_file(struct wane__trace_file *file, int64_t ms) {
    char *newest = newest_name(file);
    bool named = true;
    int64_t last = newest != NULL ? moment_of(newest) : 0;
    if (ms < last) ms = last;
    file->number++;
    for (int tries = 0; named; tries++) {
        named = name_file(file, ms);
        if (!named) break;
        const char *name = file->path.data + strlen(file->folder) + 1;
        if (newest != NULL && strcmp(name, newest) <= 0 && tries < 100) {
            ms++;
            continue;
        }
        file->fd = open(file->path.data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_APPEND, 0600);
        if (file->fd >= 0 || errno != EEXIST) break;
        file->number++;
    }
    wane__free(newest);
    return named;
}

static int open_file(struct wane__trace_file *file, wane_error *error) {
    int64_t ms = wane__date_ms();
    if (!make_file(file, ms)) {
        errno = ENOMEM;
        return fail_file(file, "name", error);
    }
    if (file->fd < 0) return fail_file(file, "make", error);
    file->opened = wane__now();
    file->bytes = file->synced = 0;
    struct wane__buf line = {0};
    wane__trace_put_origin(&line, &file->origin, ms);
    int code;
    if (line.failed) {
        errno = ENOMEM;
        code = fail_file(file, "begin", error);
    } else {
        code = put(file, line.data, line.size, error);
    }
    wane__buf_free(&line);
    return code;
}

/* A name is on the disk when its folder is. */
static void sync_folder(const struct wane__trace_file *file) {
    int fd = open(file->folder, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

int wane__trace_file_write(struct wane__trace_file *file, const char *text, size_t size, wane_error *error) {
    if (size == 0) return WANE_OK;
    if (file->fd < 0) {
        int code = open_file(file, error);
        if (code != WANE_OK) return code;
        sync_folder(file);
    }
    return put(file, text, size, error);
}

int wane__trace_file_sync(struct wane__trace_file *file, wane_error *error) {
    if (file->fd < 0 || !file->dirty) return WANE_OK;
    int code = file->plain ? WANE_OK : pack(file, NULL, 0, true, error);
    if (code != WANE_OK) return code;
    if (fsync(file->fd) != 0) return fail_file(file, "sync", error);
    file->dirty = false;
    bool first = file->synced == 0;
    file->synced = file->bytes;
    if (first) {
        file->files++;
        prune(file);
    }
    return WANE_OK;
}

int wane__trace_file_close(struct wane__trace_file *file, wane_error *error) {
    int code = wane__trace_file_sync(file, error);
    if (file->fd < 0) return code;
    int fd = file->fd;
    file->fd = -1;
    if (close(fd) != 0 && code == WANE_OK) code = fail_file(file, "close", error);
    return code;
}

bool wane__trace_file_is_full(const struct wane__trace_file *file) {
    if (file->fd < 0) return false;
    return file->bytes >= file->bytes_most || wane__now() - file->opened >= file->seconds_most;
}
