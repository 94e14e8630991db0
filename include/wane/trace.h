/*
 * trace.h - the public interface to traces: what was decoded, recorded token by token. Part of wane.h.
 *
 * docs/trace.md specifies the files. Recording is off unless somebody asks for it, and costs nothing then.
 *
 *     wane_recorder_options o;  wane_recorder_options_init(&o);  o.folder = "traces";
 *     wane_recorder *r;         wane_recorder_open(model, &o, &r, NULL);
 *     … a session or a scheduler on the model: every reply is recorded …
 *     wane_recorder_close(r);   after it was freed
 */
#ifndef WANE_TRACE_H
#define WANE_TRACE_H

#include "../wane.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- recording */

typedef struct wane_recorder wane_recorder;

typedef struct wane_recorder_options {
    size_t size;
    const char *folder;      /* of the files; made, for its owner alone, when it is not there          */
    bool plain;              /* .jsonl; default: .jsonl.zst                                            */
    bool all_logits;         /* all V logits of each token as well: 4 · V bytes of queue for a token   */
    size_t queue_bytes;      /* what may wait for the writer; default 32 MiB; beyond it records drop   */
    size_t file_bytes;       /* a file with so many is followed by another; default 256 MiB            */
    double file_seconds;     /* the same by age; default 3600                                          */
    int files;               /* so many are kept, the newest; 0 (default): all                         */
    double sync_seconds;     /* what a kill can lose at most; default 1                                */
    const char *redact_file; /* patterns of what must not be recorded; NULL: none. See docs/trace.md    */
    size_t hold_bytes;       /* with patterns: of requests that have not ended; default 128 MiB        */
} wane_recorder_options;

WANE_API void wane_recorder_options_init(wane_recorder_options *options);

/*
 * From here on what is decoded on the model is recorded. WANE_EBUSY while a session or a scheduler stands on it, or when
 * it has a recorder. Reads the whole model file once, for its digest.
 */
WANE_API int wane_recorder_open(wane_model *model, const wane_recorder_options *options,
                                wane_recorder **recorder, wane_error *error);
/* Writes and syncs what waits. Sessions and schedulers that stood on the model must have been freed. */
WANE_API void wane_recorder_close(wane_recorder *recorder);
/* Wait until everything that was recorded so far is on the disk. Thread-safe. */
WANE_API void wane_recorder_flush(wane_recorder *recorder);

/* A moment's picture. Counters never fall. */
typedef struct wane_recorder_state {
    uint64_t requests, tokens, ends;           /* records on the disk                                  */
    uint64_t dropped_requests, dropped_tokens; /* for want of room, or of a disk that takes them       */
    uint64_t redacted_tokens;                  /* of prompts and replies                               */
    uint64_t withheld_tokens;                  /* token records that were left out by redaction        */
    uint64_t files, bytes, failures;           /* made; written; times that writing failed             */
    uint64_t waiting_bytes, held_bytes;        /* in the queue; of requests that have not ended        */
} wane_recorder_state;

/* Thread-safe. */
WANE_API void wane_recorder_get_state(wane_recorder *recorder, wane_recorder_state *state);

/* Kinds of requests: traces are stratified by them. */
enum { WANE_KIND_SINGLE = 0, WANE_KIND_MULTI = 1, WANE_KIND_CODE = 2, WANE_KIND_SUMMARY = 3 };

/* "single", "multi", "code", "summary"; "?" for another number. Static storage. */
WANE_API const char *wane_kind_name(int kind);
/* -1 for another word. */
WANE_API int wane_kind_from(const char *name);
/*
 * What a conversation asks for, guessed from its text: code where there is a code fence or the last user message reads
 * like code; summary where that asks for one, or is long; multi with more than one user message; else single.
 */
WANE_API int wane_kind_guess(const wane_message *messages, size_t count);

/* Append the NFC form of a text to a string that free() takes. WANE_EFORMAT when it is not UTF-8. */
WANE_API int wane_text_nfc(const char *text, size_t size, char **out, size_t *out_size, wane_error *error);

/* ------------------------------------------------------------------ reading */

/* A fault in a file. `line` is 0 where it is not of one line. Return false to stop (WANE_ECANCELLED). */
typedef bool (*wane_trace_fault_fn)(void *user, const char *path, uint64_t line, const char *text);

typedef struct wane_trace_stats {
    char model[33], tokenizer[33]; /* of the last file */
    int vocab_size;
    bool mixed; /* files are of several models or tokenizers */
    uint64_t files, lines, bytes;
    uint64_t requests, tokens, ends;
    uint64_t requests_of[4], tokens_of[4]; /* by WANE_KIND_…                                          */
    uint64_t changed;                      /* tokens that a correction had a hand in                  */
    uint64_t windows;                      /* different last three tokens, of a tenant: an estimate   */
    uint64_t dropped_requests, dropped_tokens;
    uint64_t redacted_tokens, withheld_tokens;
    uint64_t cut_tails; /* files that end in the middle of something: what a kill leaves */
    uint64_t bad_lines;
    uint64_t votes; /* over answers, with their outcome */
} wane_trace_stats;

/*
 * Read traces, files or folders of them, and count. Each file's first fault goes to `fault` (may be NULL), the others are
 * only counted; a file without an origin, or damaged, is left there. `strictly`: checks also what reading lets pass.
 */
WANE_API int wane_trace_count(const char *const *paths, size_t count, bool strictly,
                              wane_trace_fault_fn fault, wane_progress_fn progress, void *user,
                              wane_trace_stats *stats, wane_error *error);

/* A line of a trace as it stands in the file, without its end. Return false to stop, which is no error. */
typedef bool (*wane_trace_line_fn)(void *user, const char *path, uint64_t line, const char *text,
                                   size_t size);

/* Give the lines that are records, decompressed, in order. A wrong line is an error. */
WANE_API int wane_trace_lines(const char *const *paths, size_t count, wane_trace_line_fn give, void *user,
                              wane_error *error);

#ifdef __cplusplus
}
#endif

#endif
