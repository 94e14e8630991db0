/*
 * trace_read.c - from files to lines to records. Owns the buffers and the decompressor; memory is bounded by the longest
 * line that is allowed. Refuses to guess: a wrong line is an error with its number, and the reader stands behind it.
 */
#include "table/trace_read.h"

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
#include <zstd.h>

enum { FIRST_ROOM = 1 << 20, INPUT_ROOM = 256 << 10 };

struct wane__trace_reader {
    struct wane__trace_read_options options;
    struct wane__trace_origin expected; /* version 0: none yet */
    bool expected_is_first;             /* it is that of the files before, nobody asked for it */
    char **path;
    size_t path_count, path_room, next_path;
    uint64_t size_before, size_now, size_all; /* of the files read, of what was read of this one, of all */
    struct wane__trace_read_counts counts;
    struct wane__trace_scratch scratch;

    /* The file. */
    int fd; /* -1: none */
    bool compressed, begun, ended;
    uint64_t line;
    bool has_origin;
    struct wane__trace_origin origin;

    /* Lines: begin … end in data; up to `looked` there is no line end. */
    char *data;
    size_t room, begin, end, looked;
    /* The compressed file's bytes. */
    ZSTD_DStream *stream;
    char *input;
    ZSTD_inBuffer in;
    bool in_frame; /* it was begun and is not complete */
};

/* ------------------------------------------------------------------- paths */

static bool add_path(struct wane__trace_reader *r, const char *path) {
    if (r->path_count == r->path_room) {
        size_t room = r->path_room ? 2 * r->path_room : 16;
        char **more = wane__resize(r->path, room, sizeof *more);
        if (more == NULL) return false;
        r->path = more;
        r->path_room = room;
    }
    char *copy = wane__copy_string(path);
    if (copy == NULL) return false;
    r->path[r->path_count++] = copy;
    struct stat status;
    if (stat(path, &status) == 0) r->size_all += (uint64_t)status.st_size;
    return true;
}

static bool ends_with(const char *name, const char *end) {
    size_t size = strlen(name), most = strlen(end);
    return size > most && strcmp(name + size - most, end) == 0;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_folder(struct wane__trace_reader *r, const char *folder, wane_error *error) {
    DIR *dir = opendir(folder);
    if (dir == NULL) return wane__fail(error, WANE_EIO, "Cannot list %.300s: %s.", folder, strerror(errno));
    size_t first = r->path_count;
    bool fine = true;
    for (struct dirent *entry; fine && (entry = readdir(dir)) != NULL;) {
        const char *name = entry->d_name;
        if (name[0] == '.' || !(ends_with(name, ".jsonl") || ends_with(name, ".jsonl.zst"))) continue;
        struct wane__buf path = {0};
        wane__buf_format(&path, "%s/%s", folder, name);
        fine = !path.failed && add_path(r, path.data);
        wane__buf_free(&path);
    }
    closedir(dir);
    if (!fine) return wane__fail(error, WANE_ENOMEM, "No memory for the list of files.");
    if (r->path_count == first)
        return wane__fail(error, WANE_ENOENT, "There is no trace (*.jsonl, *.jsonl.zst) in %.300s.", folder);
    qsort(r->path + first, r->path_count - first, sizeof *r->path, by_name);
    return WANE_OK;
}

static int add_paths(struct wane__trace_reader *r, const char *const *paths, size_t count,
                     wane_error *error) {
    for (size_t i = 0; i < count; i++) {
        struct stat status;
        int code = WANE_OK;
        if (stat(paths[i], &status) != 0)
            return wane__fail(error, errno == ENOENT ? WANE_ENOENT : WANE_EIO, "Cannot read %.300s: %s.",
                              paths[i], strerror(errno));
        if (S_ISDIR(status.st_mode))
            code = add_folder(r, paths[i], error);
        else if (!add_path(r, paths[i]))
            code = wane__fail(error, WANE_ENOMEM, "No memory for the list of files.");
        if (code != WANE_OK) return code;
    }
    return WANE_OK;
}

int wane__trace_read_open(const char *const *paths, size_t count,
                          const struct wane__trace_read_options *options, struct wane__trace_reader **reader,
                          wane_error *error) {
    *reader = NULL;
    struct wane__trace_reader *r = wane__alloc_zero(1, sizeof *r);
    if (r == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a reader.");
    r->fd = -1;
    r->options = *options;
    if (r->options.line_most == 0) r->options.line_most = WANE__TRACE_LINE_MOST;
    if (options->expected != NULL) r->expected = *options->expected;
    r->options.expected = NULL; /* the caller's need not stay */
    r->data = wane__alloc(FIRST_ROOM + 1);
    r->room = FIRST_ROOM;
    int code = r->data == NULL ? wane__fail(error, WANE_ENOMEM, "No memory for a reader.")
                               : add_paths(r, paths, count, error);
    if (code != WANE_OK) {
        wane__trace_read_close(r);
        return code;
    }
    *reader = r;
    return WANE_OK;
}

static void close_file(struct wane__trace_reader *r) {
    if (r->fd >= 0) close(r->fd);
    r->fd = -1;
    r->size_before += r->size_now;
    r->size_now = 0;
}

void wane__trace_read_close(struct wane__trace_reader *r) {
    if (r == NULL) return;
    close_file(r);
    for (size_t i = 0; i < r->path_count; i++) wane__free(r->path[i]);
    wane__free(r->path);
    wane__free(r->data);
    wane__free(r->input);
    ZSTD_freeDStream(r->stream);
    wane__trace_scratch_free(&r->scratch);
    wane__free(r);
}

/* ------------------------------------------------------------------- bytes */

static const char *path_of(const struct wane__trace_reader *r) {
    return r->path[r->next_path - 1];
}

static int open_file(struct wane__trace_reader *r, wane_error *error) {
    const char *path = r->path[r->next_path++];
    r->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (r->fd < 0)
        return wane__fail(error, errno == ENOENT ? WANE_ENOENT : WANE_EIO, "Cannot read %.300s: %s.", path,
                          strerror(errno));
    r->compressed = r->begun = r->ended = r->in_frame = r->has_origin = false;
    r->line = 0;
    r->begin = r->end = r->looked = 0;
    r->in = (ZSTD_inBuffer){0};
    r->counts.files++;
    return WANE_OK;
}

static ssize_t read_some(struct wane__trace_reader *r, char *out, size_t room) {
    ssize_t got;
    do got = read(r->fd, out, room);
    while (got < 0 && errno == EINTR);
    if (got > 0) r->size_now += (uint64_t)got;
    return got;
}

static int fail_reading(struct wane__trace_reader *r, wane_error *error) {
    int why = errno;
    close_file(r);
    return wane__fail(error, WANE_EIO, "Cannot read %.300s: %s.", path_of(r), strerror(why));
}

/* The first bytes say whether it is compressed: a frame, or one to be skipped. */
static bool looks_compressed(const char *bytes, size_t size) {
    const unsigned char *b = (const void *)bytes;
    if (size < 4) return false;
    return (b[0] == 0x28 && b[1] == 0xB5 && b[2] == 0x2F && b[3] == 0xFD) ||
           (b[0] >= 0x50 && b[0] <= 0x5F && b[1] == 0x2A && b[2] == 0x4D && b[3] == 0x18);
}

static int start_stream(struct wane__trace_reader *r, wane_error *error) {
    if (r->input == NULL) r->input = wane__alloc(INPUT_ROOM);
    if (r->stream == NULL) r->stream = ZSTD_createDStream();
    if (r->input == NULL || r->stream == NULL)
        return wane__fail(error, WANE_ENOMEM, "No memory to decompress %.300s.", path_of(r));
    ZSTD_initDStream(r->stream);
    r->compressed = true;
    return WANE_OK;
}

/* The file's beginning, which decides how the rest is read. */
static int begin_file(struct wane__trace_reader *r, wane_error *error) {
    r->begun = true;
    while (r->end < 4) { /* a pipe may give less at a time */
        ssize_t got = read_some(r, r->data + r->end, INPUT_ROOM - r->end);
        if (got < 0) return fail_reading(r, error);
        if (got == 0) break;
        r->end += (size_t)got;
    }
    static const unsigned char magic[4] = {0x28, 0xB5, 0x2F, 0xFD};
    bool cut_magic = r->end > 0 && r->end < 4 && memcmp(r->data, magic, r->end) == 0;
    if (!cut_magic && !looks_compressed(r->data, r->end)) return WANE_OK;
    int code = start_stream(r, error);
    if (code != WANE_OK) return code;
    memcpy(r->input, r->data, r->end);
    r->in = (ZSTD_inBuffer){r->input, r->end, 0};
    r->end = 0;
    return WANE_OK;
}

static int decompress(struct wane__trace_reader *r, wane_error *error) {
    size_t before = r->end;
    while (r->end == before && !r->ended) {
        if (r->in.pos == r->in.size) {
            ssize_t got = read_some(r, r->input, INPUT_ROOM);
            if (got < 0) return fail_reading(r, error);
            if (got == 0) {
                r->ended = true;
                break;
            }
            r->in = (ZSTD_inBuffer){r->input, (size_t)got, 0};
        }
        ZSTD_outBuffer out = {r->data, r->room, r->end};
        size_t left = ZSTD_decompressStream(r->stream, &out, &r->in);
        r->end = out.pos;
        if (ZSTD_isError(left)) {
            close_file(r);
            r->counts.bad_lines++;
            return wane__fail(error, WANE_EFORMAT, "%.300s:%llu: the compressed data is damaged (%s).",
                              path_of(r), (unsigned long long)r->line + 1, ZSTD_getErrorName(left));
        }
        r->in_frame = left != 0;
    }
    return WANE_OK;
}

/* More bytes behind `end`; `ended` when there are none. */
static int fill(struct wane__trace_reader *r, wane_error *error) {
    if (!r->begun) return begin_file(r, error);
    if (r->compressed) return decompress(r, error);
    ssize_t got = read_some(r, r->data + r->end, r->room - r->end);
    if (got < 0) return fail_reading(r, error);
    r->end += (size_t)got;
    r->ended = got == 0;
    return WANE_OK;
}

/* ------------------------------------------------------------------- lines */

/* Room behind `end`: move what is there to the front, or grow. False: the line is too long. */
static int make_room(struct wane__trace_reader *r, bool *too_long, wane_error *error) {
    if (r->begin > 0) {
        memmove(r->data, r->data + r->begin, r->end - r->begin);
        r->end -= r->begin;
        r->looked -= r->begin;
        r->begin = 0;
    }
    if (r->end < r->room) return WANE_OK;
    *too_long = r->room >= r->options.line_most;
    if (*too_long) return WANE_OK;
    size_t room = 2 * r->room < r->options.line_most ? 2 * r->room : r->options.line_most;
    char *more = wane__resize(r->data, room + 1, 1);
    if (more == NULL) {
        *too_long = true; /* the line is lost, no more */
        return wane__fail(error, WANE_ENOMEM, "%.300s:%llu: no memory for this line.", path_of(r),
                          (unsigned long long)r->line + 1);
    }
    r->data = more;
    r->room = room;
    return WANE_OK;
}

/* Read on to the end of a line that is too long, and forget it. */
static int pass_over(struct wane__trace_reader *r, wane_error *error) {
    r->line++;
    while (!r->ended) {
        r->begin = r->end = r->looked = 0;
        int code = fill(r, error);
        if (code != WANE_OK) return code;
        char *newline = memchr(r->data, '\n', r->end);
        if (newline == NULL) continue;
        r->begin = r->looked = (size_t)(newline - r->data) + 1;
        break;
    }
    r->counts.bad_lines++;
    return wane__fail(error, WANE_EFORMAT, "%.300s:%llu: a line of more than %zu bytes.", path_of(r),
                      (unsigned long long)r->line, r->options.line_most);
}

/* The next line, terminated; NULL at the file's end. `whole`: it has its line end. */
static int next_line(struct wane__trace_reader *r, char **line, size_t *size, bool *whole,
                     wane_error *error) {
    *line = NULL;
    for (;;) {
        char *newline = memchr(r->data + r->looked, '\n', r->end - r->looked);
        if (newline != NULL) {
            *line = r->data + r->begin;
            *size = (size_t)(newline - *line);
            *newline = '\0';
            r->begin = r->looked = r->begin + *size + 1;
            break;
        }
        r->looked = r->end;
        if (r->ended) {
            if (r->begin == r->end) return WANE_OK;
            *line = r->data + r->begin;
            *size = r->end - r->begin;
            r->data[r->end] = '\0';
            r->begin = r->end;
            *whole = false;
            r->line++;
            return WANE_OK;
        }
        bool too_long = false;
        int code = make_room(r, &too_long, error);
        if (too_long) {
            int passed = pass_over(r, code == WANE_OK ? error : NULL);
            return code == WANE_OK ? passed : code;
        }
        if (code == WANE_OK) code = fill(r, error);
        if (code != WANE_OK) return code;
    }
    *whole = true;
    r->line++;
    r->counts.lines++;
    r->counts.bytes += *size + 1;
    return WANE_OK;
}

/* ----------------------------------------------------------------- records */

static int check_origin(struct wane__trace_reader *r, const struct wane__trace_origin *o, wane_error *error) {
    const struct wane__trace_origin *e = &r->expected;
    if (o->version > WANE__TRACE_VERSION)
        return wane__fail(error, WANE_EFORMAT,
                          "%.200s: written in version %d of the format; this program reads up to %d.",
                          path_of(r), o->version, WANE__TRACE_VERSION);
    if (e->version == 0 || r->options.any_origin) {
        r->expected = *o;
        r->expected_is_first = true;
        return WANE_OK;
    }
    const char *whom = r->expected_is_first ? "that of the files before it" : "the one that is expected";
    if (strcmp(o->model, e->model) != 0)
        return wane__fail(error, WANE_EINVAL, "%.200s was recorded from the model %s, and not from %s, %s.",
                          path_of(r), o->model, e->model, whom);
    if (strcmp(o->tokenizer, e->tokenizer) != 0 || o->vocab_size != e->vocab_size)
        return wane__fail(
            error, WANE_EINVAL,
            "%.200s was recorded with the tokenizer %s of %d tokens, and not with %s of %d, %s.", path_of(r),
            o->tokenizer, o->vocab_size, e->tokenizer, e->vocab_size, whom);
    return WANE_OK;
}

static void note_cut(struct wane__trace_reader *r, size_t bytes) {
    r->counts.cut_tails++;
    r->counts.cut_bytes += bytes;
}

/* The file is at its end: was it cut between two lines? */
static void finish_file(struct wane__trace_reader *r) {
    if (r->in_frame || r->line == 0) note_cut(r, 0);
    close_file(r);
}

/* With file and line in front of what is wrong. */
static int fail_line(struct wane__trace_reader *r, const wane_error *why, wane_error *error) {
    r->counts.bad_lines++;
    return wane__fail(error, why->code, "%.200s:%llu: %.250s.", path_of(r), (unsigned long long)r->line,
                      why->text);
}

static bool is_blank(const char *line, size_t size) {
    return strspn(line, " \t\r") == size;
}

/* One line as a record. An unfinished line that is no record was cut, which is no error: `cut`. */
static int read_line(struct wane__trace_reader *r, const char *line, size_t size, bool whole, bool *cut,
                     struct wane__trace_record *record, wane_error *error) {
    wane_error why = {0};
    int code =
        wane__trace_parse(line, size, r->has_origin ? r->origin.vocab_size : INT32_MAX,
                          r->options.want_all && r->has_origin, r->options.slow, &r->scratch, record, &why);
    why.code = code;
    *cut = code == WANE_EFORMAT && !whole && (r->has_origin || line[0] == '{');
    if (*cut) return WANE_OK;
    if (code != WANE_OK) {
        if (r->has_origin) return fail_line(r, &why, error);
        code = fail_line(r, &why, error);
        close_file(r); /* nothing is known of what follows */
        return code;
    }
    if (record->type == WANE__TRACE_ORIGIN) {
        r->origin = r->scratch.origin;
        r->has_origin = true;
        code = check_origin(r, &r->origin, error);
        if (code != WANE_OK) close_file(r);
    } else if (!r->has_origin) {
        r->counts.bad_lines++;
        code = wane__fail(error, WANE_EFORMAT, "%.300s:%llu: this is no trace: its first line is no origin.",
                          path_of(r), (unsigned long long)r->line);
        close_file(r);
    }
    record->origin = &r->origin;
    record->path = path_of(r);
    record->line = r->line;
    record->text = line;
    record->text_size = size;
    return code;
}

int wane__trace_read_next(struct wane__trace_reader *r, struct wane__trace_record *record,
                          wane_error *error) {
    for (;;) {
        if (r->fd < 0) {
            record->type = WANE__TRACE_DONE;
            if (r->next_path == r->path_count) return WANE_OK;
            int code = open_file(r, error);
            if (code != WANE_OK) return code;
        }
        char *line = NULL;
        size_t size = 0;
        bool whole = true, cut = false;
        int code = next_line(r, &line, &size, &whole, error);
        if (code != WANE_OK) return code;
        if (line == NULL) {
            finish_file(r);
            continue;
        }
        if (is_blank(line, size)) continue;
        code = read_line(r, line, size, whole, &cut, record, error);
        if (!cut) return code;
        note_cut(r, size);
        close_file(r);
    }
}

const struct wane__trace_read_counts *wane__trace_read_get_counts(const struct wane__trace_reader *r) {
    return &r->counts;
}

double wane__trace_read_share(const struct wane__trace_reader *r) {
    double share = r->size_all > 0 ? (double)(r->size_before + r->size_now) / (double)r->size_all : 1;
    return share < 1 ? share : 1;
}

const char *wane__trace_read_where(const struct wane__trace_reader *r, uint64_t *line) {
    if (line != NULL) *line = r->line;
    return r->next_path > 0 ? path_of(r) : NULL;
}
