/*
 * wane/audit.h - why an answer came out as it did, for somebody who must be shown: an append-only log in an SQLite file, each record
 * chained by hash to the one before it. A server writes it (wane_server_options.audit); whoever may read the file reads and checks it.
 *
 * docs/audit.md has the file's form, the chain's formula, and what is guaranteed and what is not.
 */
#ifndef WANE_AUDIT_H
#define WANE_AUDIT_H

#include "../wane.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- a server's */

/* When records cannot be written: go on serving, and count what is missing; or take no new requests until they can. */
enum { WANE_AUDIT_SERVE = 0, WANE_AUDIT_STOP = 1 };

struct wane_audit_options {
    size_t size;
    const char *path;     /* of the log; made where there is none                                */
    const char *key_file; /* 64 hex digits that key the chain; NULL: anybody can compute it      */
    int failure;          /* WANE_AUDIT_SERVE (default) or WANE_AUDIT_STOP                       */
    bool text;            /* keep prompts and replies, up to 64 KiB of each; default false       */
};

WANE_API void wane_audit_options_init(wane_audit_options *options);

/* ---------------------------------------------------------------- a record */

/* In the order in which they are hashed. Those marked J are JSON. What does not apply is NONE. */
enum {
    WANE_AUDIT_SEQ = 0,  /* 1, 2, 3, …                                                               */
    WANE_AUDIT_AT,       /* ms since 1970, UTC: of the request's end                                 */
    WANE_AUDIT_EVENT,    /* request, or: open, start, stop, close, gap, table, breaker, rollout, …   */
    WANE_AUDIT_REQUEST,  /* request id, as in the header and the server's log                        */
    WANE_AUDIT_REPLY,    /* the reply's id, as the API gave it                                       */
    WANE_AUDIT_KEY,      /* name of the key, never the key                                           */
    WANE_AUDIT_TENANT,   /*                                                                          */
    WANE_AUDIT_API,      /* messages, chat, completions                                              */
    WANE_AUDIT_MODE,     /* off, legacy, wane                                                        */
    WANE_AUDIT_POLICY,   /* J: domain, SSP, governor                                                 */
    WANE_AUDIT_FEATURES, /* J: what was on for it, or which side of a rollout it was on              */
    WANE_AUDIT_FINISH,   /* end, stop, length, context, fuse; cancelled, timeout, shutdown, failed, refused */
    WANE_AUDIT_STATUS,   /* HTTP; 499: the client left                                               */
    WANE_AUDIT_PROMPT_TOKENS, /*                                                                          */
    WANE_AUDIT_REUSED_TOKENS, /* of these, kept from an earlier request                                   */
    WANE_AUDIT_REPLY_TOKENS,  /*                                                                          */
    WANE_AUDIT_MS,            /* from submission to the end                                               */
    WANE_AUDIT_TABLE,         /* digest of the table that it was looked up in                             */
    WANE_AUDIT_SLMT_USED,     /* tokens whose context is in the table, and whose entry fits               */
    WANE_AUDIT_SLMT_SOURCE,   /* J: what the table said, by source                                        */
    WANE_AUDIT_SLMT_TAKEN,    /* tokens that are the table's and not the sampler's                        */
    WANE_AUDIT_ORIGIN,        /* J: tokens by where they came from                                        */
    WANE_AUDIT_WAKES,         /* J: by reason                                                             */
    WANE_AUDIT_STATES,        /* J: tokens by the governor's state                                        */
    WANE_AUDIT_FUSE,          /* the rule that ended it                                                   */
    WANE_AUDIT_FALLBACK,      /* what its reader got then                                                 */
    WANE_AUDIT_VOTE,          /* J: answers, and which one stood                                          */
    WANE_AUDIT_SHADOW,        /* rows that were also computed densely                                     */
    WANE_AUDIT_DIVERGENCES,   /* of these, not the same                                                   */
    WANE_AUDIT_LOST,          /* gap: so many records are missing here; NONE: nobody knows how many       */
    WANE_AUDIT_DETAIL,        /* J: what an event says; why a request was refused or failed               */
    WANE_AUDIT_PROMPT,        /* only where texts are kept                                                */
    WANE_AUDIT_TEXT,          /* of the reply                                                             */
    WANE_AUDIT_FIELDS
};

enum { WANE_AUDIT_NONE = 0, WANE_AUDIT_NUMBER, WANE_AUDIT_STRING };

typedef struct wane_audit_value {
    int type; /* WANE_AUDIT_NONE, … */
    int64_t number;
    const char *text; /* terminated; UTF-8 where a server wrote it */
    size_t size;
} wane_audit_value;

typedef struct wane_audit_record {
    wane_audit_value field[WANE_AUDIT_FIELDS];
    char before[65], hash[65]; /* hex: of the record before, of this one */
} wane_audit_record;

/* As the file's column is called; NULL outside 0 … WANE_AUDIT_FIELDS - 1. Static storage. */
WANE_API const char *wane_audit_field_name(int field);
/* Is its text JSON? */
WANE_API bool wane_audit_field_is_json(int field);

/* ---------------------------------------------------------------- reading */

typedef struct wane_audit_filter {
    size_t size;
    int64_t after;       /* records with larger numbers only; default 0                           */
    int64_t only;        /* this number only; 0: any                                              */
    int64_t since;       /* ms since 1970; default INT64_MIN                                      */
    const char *request; /* of this request or reply id; NULL: any. So below.                     */
    const char *key, *event;
    const char *table; /* the digest begins with it */
    int64_t last;      /* at most so many, the newest of those that fit; 0: all                 */
} wane_audit_filter;

WANE_API void wane_audit_filter_init(wane_audit_filter *filter);

/* Return false to stop (WANE_ECANCELLED). What the record points to is good until then. */
typedef bool (*wane_audit_fn)(void *user, const wane_audit_record *record);
/* Records in their order; also while a server writes. Nothing is verified. WANE_ENOENT, WANE_EFORMAT, WANE_EIO. */
WANE_API int wane_audit_read(const char *path, const wane_audit_filter *filter, wane_audit_fn give,
                             void *user, wane_error *error);

/* ---------------------------------------------------------------- checking */

enum {
    WANE_AUDIT_WHOLE = 0,
    WANE_AUDIT_CHANGED,   /* a record's hash is not that of its contents                         */
    WANE_AUDIT_MISSING,   /* numbers are skipped                                                 */
    WANE_AUDIT_REORDERED, /* a record stands in another's place                                  */
    WANE_AUDIT_REPLACED,  /* a record is not chained to the one before it, which is another one  */
    WANE_AUDIT_CUT,       /* there were records behind the last one                              */
    WANE_AUDIT_UNGUARDED, /* a trigger that keeps records from being changed was taken away      */
    WANE_AUDIT_DAMAGED,   /* SQLite cannot read on                                               */
    WANE_AUDIT_FAULTS
};

typedef struct wane_audit_check {
    size_t size;
    const char *const *paths; /* logs that follow each other, the oldest first  */
    size_t path_count;
    const char *key_file;      /* of a keyed chain; NULL: none                   */
    const char *head;          /* a hash that must be in there; NULL: none       */
    wane_progress_fn progress; /* NULL: none                                     */
    void *progress_user;
} wane_audit_check;

typedef struct wane_audit_verdict {
    int fault;             /* WANE_AUDIT_WHOLE, …                                           */
    int64_t record;        /* the first broken one's number; 0: none                        */
    size_t file;           /* which of the paths                                            */
    char what[400];        /* a sentence; "" where nothing is wrong                         */
    uint64_t records;      /* that are in order                                             */
    uint64_t requests;     /* of them                                                       */
    uint64_t gaps, lost;   /* gaps, and how many records they say are missing               */
    uint64_t gaps_unknown; /* gaps that do not know                                         */
    int64_t first, last;   /* numbers; 0: there is none                                     */
    int64_t since, until;  /* ms since 1970, of these two                                   */
    char before[65];       /* what the first one is chained to: zeros, or a head            */
    char head[65];         /* hash of the last one that is in order                         */
    bool keyed;
    bool ended; /* the last record says that no server writes here any more */
} wane_audit_verdict;

WANE_API void wane_audit_check_init(wane_audit_check *check);
/* WANE_OK with a verdict, good or bad. Errors: what is no audit log at all; WANE_EAUTH: another key, or none, where there must be one. */
WANE_API int wane_audit_verify(const wane_audit_check *check, wane_audit_verdict *verdict, wane_error *error);
/* "whole", "changed", …; "?" for another number. Static storage. */
WANE_API const char *wane_audit_fault_name(int fault);

/*
 * Close a log that no server uses (WANE_EBUSY) and begin the next one, which goes on with its numbers and its chain. A log that was
 * closed takes no more records. WANE_EINVAL: there is a file of the new name.
 */
WANE_API int wane_audit_rotate(const char *path, const char *next, const char *key_file, wane_error *error);

/* ---------------------------------------------------------------- writing */

/*
 * A log for who decodes without a server of wane's: the same file, written by the same thread of its own. Nobody who puts a record waits for a disk.
 * Thread-safe.
 */
typedef struct wane_auditor wane_auditor;

typedef struct wane_auditor_state {
    bool ok;                             /* records are being written                                     */
    char reason[500];                    /* why not; ""                                                   */
    uint64_t records, dropped, failures; /* on the disk, since it was opened; lost; writes that failed    */
    uint64_t waiting, bytes;             /* of the queue                                                  */
} wane_auditor_state;

/*
 * `start` and `table` (NULL: none): detail (JSON) and table of the start record. Errors as of a server that starts: the file, the key, a log that cannot be
 * made; WANE_EBUSY: another program has it.
 */
WANE_API int wane_auditor_open(const wane_audit_options *options, const char *start, const char *table,
                               wane_auditor **auditor, wane_error *error);
/* Write what waits and the stop record. */
WANE_API void wane_auditor_close(wane_auditor *auditor);
/* May a request begin? Each WANE_OK is followed by one wane_auditor_put. WANE_EIO: records cannot be written, and the log is to stop then. */
WANE_API int wane_auditor_admit(wane_auditor *auditor, wane_error *error);
/*
 * The record of a request that was admitted, or, with another event, of something that is none. WANE_AUDIT_SEQ is the log's; where WANE_AUDIT_AT or _EVENT is
 * NONE, it is now, and "request". Copies. WANE_EINVAL: a number where a text belongs, or the other way round; then an admitted request is counted as lost.
 */
WANE_API int wane_auditor_put(wane_auditor *auditor, const wane_audit_value field[WANE_AUDIT_FIELDS],
                              wane_error *error);
/* Wait until what was put is written, or failed to be. */
WANE_API void wane_auditor_flush(wane_auditor *auditor);
WANE_API void wane_auditor_get_state(wane_auditor *auditor, wane_auditor_state *state);

#ifdef __cplusplus
}
#endif

#endif
