/*
 * audit.h - the audit log from inside: notes on their way to the file, the chain, and the file.
 *
 *     server ── admit ──► counted as owed │ … the request … │ ── put ──► queue │ writer's thread: chain ─► one transaction ─► file
 *
 * Who puts a note never waits for a disk, only for a lock that is held for a few instructions. The queue is bounded: under SERVE
 * what does not fit is dropped and counted, and a gap record in its place says how many; under STOP nothing is admitted that might not fit.
 *
 * What kill -9 leaves is whole: a transaction is in the file or it is not. How many records it took is known when the log is opened again,
 * because what is owed is counted beside the file (audit_count.c) before a request begins.
 */
#ifndef WANE_OPS_AUDIT_H
#define WANE_OPS_AUDIT_H

#include "core/buf.h"
#include "core/log.h"
#include "wane.h"

#define WANE__AUDIT_HASH 32
#define WANE__AUDIT_KEY  32

/* ------------------------------------------------------------------- notes */

/* One record to be: its fields, and their texts one behind the other. */
struct wane__audit_note {
    struct wane__audit_note *next;
    struct {
        int type;
        int64_t number;
        size_t at, size;
    } field[WANE_AUDIT_FIELDS];
    struct wane__buf text; /* `failed`: there was no memory, and the note is not whole */
    bool is_gap;           /* takes no room of the queue's */
};

/* NULL without memory. */
struct wane__audit_note *wane__audit_note_new(const char *event);
void wane__audit_note_free(struct wane__audit_note *note);
/* A field is set once. NULL leaves it NONE. */
void wane__audit_note_text(struct wane__audit_note *note, int field, const char *text);
void wane__audit_note_bytes(struct wane__audit_note *note, int field, const char *text, size_t size);
void wane__audit_note_format(struct wane__audit_note *note, int field, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void wane__audit_note_number(struct wane__audit_note *note, int field, int64_t number);
/* {"name":count, …} of what is not 0; NONE where all are. */
void wane__audit_note_counts(struct wane__audit_note *note, int field, const char *(*name)(int),
                             const uint32_t *counts, int count);

/* ------------------------------------------------------------------- the chain */

struct wane__audit_key {
    bool given;
    unsigned char bytes[WANE__AUDIT_KEY];
    char name[17]; /* of the key: tells keys apart and nothing else; "" without one */
};

/* `path` NULL: no key. WANE_EAUTH when others may read it, WANE_EFORMAT when it is no key. */
int wane__audit_key_read(const char *path, struct wane__audit_key *key, wane_error *error);
/* The hash of a record that is chained to `before`. */
void wane__audit_hash(const struct wane__audit_key *key, const unsigned char before[WANE__AUDIT_HASH],
                      const wane_audit_value field[WANE_AUDIT_FIELDS], unsigned char out[WANE__AUDIT_HASH]);

/* ------------------------------------------------------------------- what is owed */

/*
 * A file beside the log: one holder at a time, and how many records were promised since record `start`. Written before a request begins, so
 * that whoever comes after a kill knows what is missing.
 */
struct wane__audit_count {
    int fd;
    uint64_t start, owed;
};

/* WANE_EBUSY: another program has this log. What the last holder left is in `count`; 0 and 0 when that is not known. */
int wane__audit_count_open(const char *path, struct wane__audit_count *count, wane_error *error);
/* Write it down. False: it could not be. */
bool wane__audit_count_write(const struct wane__audit_count *count);
void wane__audit_count_close(struct wane__audit_count *count);

/* ------------------------------------------------------------------- the file */

struct sqlite3;
struct sqlite3_stmt;

struct wane__audit_file {
    struct sqlite3 *base;
    struct sqlite3_stmt *insert;
    char *path;
    const struct wane__audit_key *key;
    uint64_t device, inode;
    int64_t seq; /* of the last record */
    unsigned char head[WANE__AUDIT_HASH];
    char last_event[32];
};

/* What a new log goes on from. */
struct wane__audit_origin {
    int64_t seq;
    unsigned char head[WANE__AUDIT_HASH];
    const char *name; /* of the log before; NULL: there is none */
};

/*
 * Open for appending; its last record is checked. `make`: make it where there is none, as `origin` says (NULL: a first one). `key` must stay.
 * WANE_ENOENT; WANE_EFORMAT: no audit log, or damaged; WANE_EAUTH: another key; WANE_EINVAL: it was closed; WANE_EIO, WANE_EBUSY.
 */
int wane__audit_file_open(const char *path, const struct wane__audit_key *key, bool make,
                          const struct wane__audit_origin *origin, struct wane__audit_file **file,
                          wane_error *error);
void wane__audit_file_close(struct wane__audit_file *file);
/* Append notes (by `next`), all or none of them; their times are set where they are not. */
int wane__audit_file_append(struct wane__audit_file *file, struct wane__audit_note *notes, wane_error *error);
/* Records behind `start` other than gaps, and what gaps behind it say is lost. */
bool wane__audit_file_tally(struct wane__audit_file *file, int64_t start, uint64_t *records, uint64_t *lost);

/* A file's form: shared by those who write and those who read. Guard: the name of one that is missing, "" when all are there. */
int wane__audit_form_check(struct sqlite3 *base, const char *path, bool *fresh, char guard[64],
                           wane_error *error);
int wane__audit_form_make(struct sqlite3 *base, const char *path, wane_error *error);
/* Bounds for a file that anybody may have made. */
void wane__audit_form_defend(struct sqlite3 *base);
int wane__audit_form_failed(struct sqlite3 *base, const char *path, wane_error *error);
/*
 * Is it the key that this log was begun with? WANE_EAUTH if not: another one, none where there must be one, or one where there was none. The
 * first record says so, which is in the chain itself.
 */
int wane__audit_form_key(struct sqlite3 *base, const char *path, const struct wane__audit_key *key,
                         wane_error *error);
/* "SELECT seq, …, before, hash FROM audit", and a row of it. False: a field is of a type that no record has. */
extern const char wane__audit_select[];
bool wane__audit_row(struct sqlite3_stmt *row, wane_audit_value field[WANE_AUDIT_FIELDS],
                     unsigned char before[WANE__AUDIT_HASH], unsigned char hash[WANE__AUDIT_HASH]);

/* ------------------------------------------------------------------- the writer */

struct wane__audit_write_options {
    const char *path, *key_file;
    int failure;           /* WANE_AUDIT_SERVE, WANE_AUDIT_STOP */
    const char *start;     /* detail of the start record; NULL: none */
    const char *table;     /* its table; NULL: none */
    int notes_most;        /* that may wait; 0: 4096 */
    size_t bytes_most;     /* 0: 32 MiB */
    int gather_ms;         /* a note waits for company; 0: 100 */
    int retry_ms;          /* after a failure; 0: 1000 */
    int busy_ms;           /* that another program's lock is waited for; 0: 1000 */
    struct wane__log *log; /* NULL: silent; must outlive the writer */
};

struct wane__audit_state {
    bool ok;                             /* records are being written */
    char reason[500];                    /* why not; "" */
    uint64_t records, dropped, failures; /* on the disk, since start; lost; transactions that failed */
    uint64_t waiting, bytes;             /* of the queue */
};

struct wane__audit; /* thread-safe */

/*
 * Opens the file, writes what an earlier end left open (a gap) and the start record. What is wrong with the file or the key fails here, and so
 * does a log that is not there and cannot be made. One that is there and cannot be written now fails under STOP; under SERVE that is a
 * failure like later ones.
 */
int wane__audit_open(const struct wane__audit_write_options *options, struct wane__audit **audit,
                     wane_error *error);
/* Write what waits and the stop record; tries a moment, and says what could not be written. */
void wane__audit_close(struct wane__audit *audit);

/* Call this from the writer's thread about twice a second. */
void wane__audit_set_tick(struct wane__audit *audit, void (*tick)(void *user), void *user);
/* Is it STOP that was asked for? */
bool wane__audit_is_strict(const struct wane__audit *audit);
/* May a request begin? Each true is followed by one put or one drop. False: WANE_EIO, and why. */
bool wane__audit_admit(struct wane__audit *audit, wane_error *error);
/* Takes the note; of a request that was admitted. NULL: there was no memory for it. */
void wane__audit_put(struct wane__audit *audit, struct wane__audit_note *note);
/* Something that is no request; takes the note. */
void wane__audit_tell(struct wane__audit *audit, struct wane__audit_note *note);
void wane__audit_get_state(struct wane__audit *audit, struct wane__audit_state *state);
/* Wait until what was put before is written, or failed to be. For tests. */
void wane__audit_flush(struct wane__audit *audit);

#endif
