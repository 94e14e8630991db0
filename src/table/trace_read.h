/*
 * trace_read.h - traces as a stream of records, from as many files as one likes, in bounded memory.
 *
 *     struct wane__trace_reader *r;
 *     if (wane__trace_read_open(paths, count, &options, &r, error) != WANE_OK) …
 *     struct wane__trace_record record;
 *     while ((rc = wane__trace_read_next(r, &record, error)) == WANE_OK && record.type != WANE__TRACE_DONE)
 *         if (record.type == WANE__TRACE_TOKEN) … record.token …
 *     wane__trace_read_close(r);
 *
 * Files are read in the order given; a folder stands for its trace files (*.jsonl, *.jsonl.zst) in the order of their
 * names. Whether a file is compressed is told by its first bytes. A file that ends in the middle of a line, or of a
 * compressed frame, was cut: what is whole in it is given, the cut is counted, and reading goes on with the next file.
 */
#ifndef WANE_TABLE_TRACE_READ_H
#define WANE_TABLE_TRACE_READ_H

#include "table/trace.h"

/* Longest line by default: one token's record with the logits of a vocabulary of 3 million. */
#define WANE__TRACE_LINE_MOST ((size_t)16 << 20)

enum wane__trace_type {
    WANE__TRACE_DONE = 0, /* there is no more */
    WANE__TRACE_ORIGIN,   /* a file begins */
    WANE__TRACE_REQUEST,
    WANE__TRACE_TOKEN,
    WANE__TRACE_END,
    WANE__TRACE_DROPPED,
    WANE__TRACE_VOTE,
    WANE__TRACE_OTHER /* of a kind that this version does not know, to be passed over */
};

/* One record; what it points to is good until the next call. The member that `type` names is set, no other. */
struct wane__trace_record {
    enum wane__trace_type type;
    const char *path; /* of its file */
    uint64_t line;    /* from 1 */
    const char *text; /* the line itself, without its end; terminated */
    size_t text_size;
    const struct wane__trace_origin *origin; /* of its file, for every record */
    const struct wane__trace_token *token;
    const float
        *all; /* of a token: all logits, vocab_size of them, before the processors; NULL: not recorded */
    const struct wane__trace_request *request;
    const struct wane__trace_end *end;
    const struct wane__trace_dropped *dropped;
    const struct wane__trace_vote *vote;
};

struct wane__trace_read_options { /* start from {0} */
    const struct wane__trace_origin
        *expected;    /* NULL: any, but the same in all files; version 0 in it: any */
    bool any_origin;  /* files may even differ from one another */
    bool want_all;    /* decode the logits of `all` */
    size_t line_most; /* 0: WANE__TRACE_LINE_MOST */
    bool slow;        /* for tests: never take the short way of the canonical layout */
};

struct wane__trace_reader;

/* WANE_ENOENT or WANE_EIO when a path cannot be listed; files are opened as their turn comes. */
int wane__trace_read_open(const char *const *paths, size_t count,
                          const struct wane__trace_read_options *options, struct wane__trace_reader **reader,
                          wane_error *error);
void wane__trace_read_close(struct wane__trace_reader *reader);

/*
 * The next record. Errors name file and line:
 *     WANE_EFORMAT   the line is wrong; the next call goes on behind it, or with the next file where the rest is unreadable
 *     WANE_EINVAL    the file is of another model or tokenizer; the next call goes on with the next file
 *     WANE_EIO, WANE_ENOENT   the file cannot be read; the next call goes on with the next file
 *     WANE_ENOMEM    nothing is lost but the line
 */
int wane__trace_read_next(struct wane__trace_reader *reader, struct wane__trace_record *record,
                          wane_error *error);

/* So far. */
struct wane__trace_read_counts {
    uint64_t files, lines, bytes; /* bytes: of lines, not of files */
    uint64_t cut_tails;           /* files that ended in the middle of something */
    uint64_t cut_bytes;           /* of the lines that were begun there, as far as they can be seen */
    uint64_t bad_lines;
};
const struct wane__trace_read_counts *wane__trace_read_get_counts(const struct wane__trace_reader *reader);
/* Of the record that was given last, and of all to come: how far the reader is, 0 … 1, by the files' sizes. */
double wane__trace_read_share(const struct wane__trace_reader *reader);
/* The file that was last read from, and the line of it that was last looked at; NULL before the first. */
const char *wane__trace_read_where(const struct wane__trace_reader *reader, uint64_t *line);

#endif
