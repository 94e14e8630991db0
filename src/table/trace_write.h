/*
 * trace_write.h - records on their way to files, by a thread of their own behind a bounded queue.
 *
 *     decoding threads ── memcpy ──► inbox │ swap under the lock │ outbox ──► text ──► [hold, redact] ──► file
 *
 * A caller never waits: when the queue is full its record is dropped, whole, and counted, and the file says how many are
 * missing where. About every second what was written is on the disk: a kill -9 loses no more than that.
 *
 * With redaction a request's records are held until it has ended, because a secret may come in pieces: then prompt and
 * reply are searched as one text. Tokens that a match touches are replaced in the prompt (WANE__TRACE_REDACTED); their
 * records, and those that name one of them among the last tokens before them, are left out; names of contexts after the
 * first of them are of the redacted tokens. A request that lost a record on the way, or whose records outgrow `hold_bytes`,
 * is dropped whole: what cannot be searched is not written.
 */
#ifndef WANE_TABLE_TRACE_WRITE_H
#define WANE_TABLE_TRACE_WRITE_H

#include "core/log.h"
#include "table/trace.h"

struct wane__trace_write_options {
    const char *folder;      /* made when it is not there, for its owner alone */
    bool plain;              /* .jsonl instead of .jsonl.zst */
    size_t queue_bytes;      /* of both its halves; 0: 32 MiB */
    size_t file_bytes;       /* a file with so many is followed by a new one; 0: 256 MiB */
    double file_seconds;     /* the same by age; 0: 3600 */
    int files;               /* so many are kept, the newest; 0: all */
    double sync_seconds;     /* 0: 1 */
    double retry_seconds;    /* that the disk is let be after a failure; 0: 5 */
    const char *redact_path; /* of a list of patterns; NULL: no redaction */
    size_t hold_bytes;       /* 0: 128 MiB */
    /* The bytes of a token, for redaction, as wane_token_bytes. Called from the writer's thread. */
    int (*token_bytes)(void *user, int32_t token, char *buffer, size_t capacity);
    void *user;
    struct wane__log *log;        /* NULL: silent; must outlive the writer */
    void (*on_batch)(void *user); /* for tests: called by the thread before it takes the inbox; NULL: none */
    void *on_batch_user;
};

struct wane__trace_writer;

/* Reads the patterns, makes the folder and the first file: what is wrong shows here. */
int wane__trace_write_open(const struct wane__trace_write_options *options,
                           const struct wane__trace_origin *origin, struct wane__trace_writer **writer,
                           wane_error *error);
/* Everything queued is written and synced. Nobody may use it any more. */
void wane__trace_write_close(struct wane__trace_writer *writer);

/*
 * Queue a record: copied, nothing is allocated, nobody is waited for. Any thread; records of one request in order. False:
 * dropped. `all`: NULL, or as many logits as the vocabulary has.
 */
bool wane__trace_write_request(struct wane__trace_writer *writer, const struct wane__trace_request *request);
bool wane__trace_write_token(struct wane__trace_writer *writer, const struct wane__trace_token *token,
                             const float *all);
bool wane__trace_write_end(struct wane__trace_writer *writer, const struct wane__trace_end *end);
/* A vote's outcome; it names requests, and nothing of what they say, so that redaction lets it pass at once. */
bool wane__trace_write_vote(struct wane__trace_writer *writer, const struct wane__trace_vote *vote);

/* Wait until what was queued before is written and synced. */
void wane__trace_write_flush(struct wane__trace_writer *writer);

/* A moment's picture. Counters never fall. Thread-safe. */
void wane__trace_write_get_state(struct wane__trace_writer *writer, wane_recorder_state *state);

#endif
