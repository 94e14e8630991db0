/*
 * slmt_read.h - a table's file, opened: its own copy in memory, checked from end to end.
 *
 * The bytes are copied once and then checked, verified and used where they lie: whatever happens to the file afterwards
 * (cut, overwritten, removed) reaches neither the process nor what was verified. No page of the file is mapped, so that
 * there is no SIGBUS to handle.
 */
#ifndef WANE_TABLE_SLMT_READ_H
#define WANE_TABLE_SLMT_READ_H

#include "table/slmt_file.h"

#include <sys/types.h>
#include <time.h>

/* Which file it was: what changes when somebody writes another or writes into this one. */
struct wane__slmt_identity {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec changed; /* its bytes; for files replaced within one tick, size and inode differ */
};

struct wane__slmt {
    const struct wane__slmt_header *header;
    const struct wane__slmt_slot *slot;
    const struct wane__slmt_record *record;
    const struct wane__slmt_run *run;
    const uint32_t *token;
    const unsigned char *phrases; /* the header's section says how many bytes */
    uint32_t range, slots;
    const unsigned char *bytes;
    size_t size;
    size_t mapped; /* bytes to unmap; 0: the caller's */
    bool verified; /* by the key that was asked for   */
    struct wane__slmt_identity identity;
    char digest[65]; /* BLAKE2b, 256 bits, of all bytes */
};

/*
 * Check `size` bytes, aligned to 8, and point into them; they must outlive the table. `expected` (NULL: any) is the model
 * that is loaded. WANE_EFORMAT: not a table, damaged, cut, of another version; WANE_EUNSUPPORTED: of another model or
 * tokenizer. The sentence begins with `name`.
 */
int wane__slmt_parse(const char *name, const void *bytes, size_t size,
                     const struct wane__trace_origin *expected, struct wane__slmt *table, wane_error *error);

/*
 * Read a file and check it. With a key (32 bytes, Ed25519), what lies in `path`.sig must be that key's signature of the
 * bytes that were read: WANE_EAUTH if not. Close it in any case but failure.
 */
int wane__slmt_open(const char *path, const struct wane__trace_origin *expected, const unsigned char *key,
                    struct wane__slmt *table, wane_error *error);
void wane__slmt_close(struct wane__slmt *table);

/* Of the file that has the name now; false when there is none. */
bool wane__slmt_identify(const char *path, struct wane__slmt_identity *identity);
bool wane__slmt_same_file(const struct wane__slmt_identity *a, const struct wane__slmt_identity *b);
bool wane__slmt_unchanged(const struct wane__slmt_identity *a, const struct wane__slmt_identity *b);

/* The candidates of a slot, or of a position of that slot, best first; returns how many. */
int wane__slmt_top(const struct wane__slmt_slot *slot, struct wane__candidate out[WANE__SLMT_DEPTH]);
int wane__slmt_top_at(const struct wane__slmt *table, const struct wane__slmt_slot *slot,
                      const struct wane__slmt_record *record, struct wane__candidate out[WANE__SLMT_DEPTH]);

#endif
