/*
 * trace_file.h - the files that a trace goes to, one after the other. One thread uses it.
 *
 *     FOLDER/trace-20261129T231500.250Z-4711-0001.jsonl.zst      time, process, number: names sort by age, whatever the clock did
 *
 * Each begins with the origin. What is written becomes a compressed frame of its own at each sync, so that a file which
 * nobody closed is whole up to its last sync.
 */
#ifndef WANE_TABLE_TRACE_FILE_H
#define WANE_TABLE_TRACE_FILE_H

#include "core/buf.h"
#include "table/trace.h"

#include <zstd.h>

struct wane__trace_file {
    char *folder;
    bool plain;
    size_t bytes_most;
    double seconds_most;
    int files_most; /* 0: all */
    struct wane__trace_origin origin;

    int fd; /* -1: none is open */
    struct wane__buf path;
    double opened;
    size_t bytes;  /* of the file so far */
    size_t synced; /* of these, on the disk: all that stays when one more cannot be written */
    bool dirty;    /* written and not synced */
    unsigned number;
    uint64_t files, total_bytes; /* ever; files that something was synced in */
    ZSTD_CCtx *compressor;
    struct wane__buf packed;
};

/* Makes the folder when it is not there. The first file is made by the first write. */
int wane__trace_file_init(struct wane__trace_file *file, const char *folder, bool plain, wane_error *error);
/* Syncs and closes. */
int wane__trace_file_close(struct wane__trace_file *file, wane_error *error);
void wane__trace_file_free(struct wane__trace_file *file);

/* Append whole lines; makes a file where none is open. After a failure the file ends behind
 * its last sync (or is gone, where it had none) and is closed, and the next write begins another. */
int wane__trace_file_write(struct wane__trace_file *file, const char *text, size_t size, wane_error *error);
/* On the disk: frame, bytes, file. */
int wane__trace_file_sync(struct wane__trace_file *file, wane_error *error);
/* Is the file large or old enough to be followed by another? */
bool wane__trace_file_is_full(const struct wane__trace_file *file);

#endif
