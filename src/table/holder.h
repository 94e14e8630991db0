/*
 * holder.h - the table in use, which can be exchanged while it is read.
 *
 *     readers:   take ─► look up ─► give back          the last one to give back frees what was exchanged meanwhile
 *     reload:    open and check beside it ─► swap
 *     watcher:   looks once in a while whether the file, or its signature, is another
 *
 * A file that is replaced by a bad one leaves the table that is in use: its own file was in order. A file that was written
 * into or cut takes the table with it: what was read from it is not what stands there any more, and the table is off
 * until a good file is there.
 */
#ifndef WANE_TABLE_HOLDER_H
#define WANE_TABLE_HOLDER_H

#include "core/log.h"
#include "table/phrases.h"
#include "table/slmt_read.h"

struct wane__table; /* thread-safe */

struct wane__table_options {
    const char *path;
    const struct wane__trace_origin *origin; /* of the loaded model; NULL: any */
    const unsigned char *key;                /* 32 bytes; NULL: signatures are not asked for */
    int poll_ms;                             /* how often the file is looked at; 0: never */
    struct wane__log *log;                   /* must outlive the holder; NULL: silent */
};

struct wane__table_state {
    bool on;
    bool verified;
    char reason[500]; /* why it is off, or why the last reload failed; "" */
    char digest[65];
    uint32_t entries, positions, continuations;
    uint64_t bytes;
    uint64_t reloads, failures; /* that put a table in; that did not */
    uint64_t failed_in_row;     /* since one did                     */
};

/* Opens the file: whatever is wrong with it fails here. */
int wane__table_new(const struct wane__table_options *options, struct wane__table **table, wane_error *error);
/* Ends the watcher. Snapshots that are still out stay good. */
void wane__table_free(struct wane__table *table);

/* The table as it is now, until it is given back; NULL while it is off. Allocates nothing. */
const struct wane__slmt *wane__table_take(struct wane__table *table);
void wane__table_give(const struct wane__slmt *taken);
/* The phrase classifier of a table that was taken; NULL: it has none. Good as long as the table is. */
const struct wane__phrases *wane__table_phrases(const struct wane__slmt *taken);

/* Read the file anew. On failure see above; the error says what became of the old one. */
int wane__table_reload(struct wane__table *table, wane_error *error);
/* The same, if the file or its signature changed since it was last looked at. True: it was tried. */
bool wane__table_look(struct wane__table *table);
void wane__table_get_state(struct wane__table *table, struct wane__table_state *state);

#endif
