/*
 * build.h - from records of traces to a table. docs/table.md has the definitions.
 *
 *     wane__build_new
 *       wane__build_read, wane__build_read_partial      any number of times, in any order
 *     wane__build_partial                               what was read, as one sorted file, or
 *     wane__build_table                                 what a table holds, ready to be written
 *     wane__build_free
 *
 * The same records give the same bytes: in any order, cut into any number of partial builds, under any bound on memory.
 */
#ifndef WANE_TABLE_BUILD_H
#define WANE_TABLE_BUILD_H

#include "table/slmt.h"

/* Where records come from. */
struct wane__build_source {
    int (*next)(void *user, struct wane__trace_token *record,
                wane_error *error); /* 1, 0 at the end, negative */
    double (*share)(void *user);    /* read so far, 0 … 1; NULL: not known */
    void *user;
};

/* The least that the fixed parts and the sort work with. */
#define WANE__BUILD_MEMORY_LEAST ((size_t)128 << 20)
/* Bytes of file for an entry that may be had: 12 MB for 50,000. */
#define WANE__BUILD_BYTES_AN_ENTRY 240

struct wane__build_options {
    struct wane__trace_origin origin;
    wane_table_build_options set; /* window … sweep are used; paths are not */
};

struct wane__build;

/* The origin's vocabulary and the settings' ranges are checked: WANE_EINVAL in words. Strings are copied. */
int wane__build_new(const struct wane__build_options *options, struct wane__build **build, wane_error *error);
void wane__build_free(struct wane__build *build);
int wane__build_read(struct wane__build *build, const struct wane__build_source *source, wane_error *error);
/* WANE_EFORMAT: damaged. WANE_EINVAL: of another model, tokenizer, window or bound on samples. */
int wane__build_read_partial(struct wane__build *build, const char *path, wane_error *error);
int wane__build_partial(struct wane__build *build, const char *path, wane_error *error);
/* `content` points into the build and lives as long. `report` may be NULL. */
int wane__build_table(struct wane__build *build, struct wane__slmt_content *content,
                      wane_table_report *report, wane_error *error);

/* Who a partial build is of, without reading its records. */
struct wane__partial_head {
    struct wane__trace_origin origin;
    int window;
    uint64_t samples; /* bound on those of a kind; 0: none */
    uint64_t records, fates[4], kinds[4];
    uint64_t kept; /* records in the file */
    uint64_t bytes, check;
};
int wane__partial_head(const char *path, struct wane__partial_head *head, wane_error *error);

#endif
