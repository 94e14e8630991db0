/*
 * trace.h - records of what was decoded, as the rooms of the table hand them to one another.
 *
 * A trace is JSONL, one record a line, optionally compressed with zstd; docs/trace.md specifies it. Each file stands alone:
 * its first line is the origin.
 *
 *     origin    which model, which tokenizer; refused when another one is expected
 *     request   what was asked: prompt tokens, sampling, stops; enough to run it again
 *     token     one a drawn token: its context, the best candidates
 *     end       how the reply ended
 *     vote      which of the answers to one request was chosen
 *     dropped   how many records are missing here, because the writer could not keep up
 *
 *     decoding ─► trace_write.h ─► trace_file.h, redact.h ─► files ─► trace_read.h ─► builder, statistics
 *                      └────────────── trace_text.h: one record as a line, and back ──────┘
 */
#ifndef WANE_TABLE_TRACE_H
#define WANE_TABLE_TRACE_H

#include "sample/sample.h"
#include "table/context.h"

#define WANE__TRACE_VERSION 1
#define WANE__TRACE_TOP     64
#define WANE__TRACE_ID_MOST 64
/* Stands in a prompt for a token that was redacted. */
#define WANE__TRACE_REDACTED (-1)
#define WANE__TRACE_STOPS    16

/* Where a trace comes from. Digests are 32 hexadecimal digits; the tokenizer's is of its tokens' bytes in order. */
struct wane__trace_origin {
    int version;
    char model[33], tokenizer[33];
    int vocab_size;
};

/* One drawn token. */
struct wane__trace_token {
    char request[WANE__TRACE_ID_MOST + 1];
    enum wane__kind kind;
    uint64_t tenant;                  /* wane__context_tenant of the key's name */
    struct wane__context_name before; /* of all tokens before it                */
    int position;                     /* of the token in the sequence: how many tokens stand before it */
    int index;                        /* of the token in the reply: its relative position              */
    int32_t last[WANE__TEN]; /* the tokens before it, the nearest one last in the array's first last_count */
    int last_count;
    int32_t token; /* that was drawn */
    bool changed;  /* a correction had a hand in it: not for the table */
    int state;     /* 1 + WANE_STATE_…, that a governor drew it in; 0: none did */
    float log_sum; /* log Σ exp(logit) over the vocabulary after the processors; NaN: unknown */
    int top_count; /* the best candidates after the processors, best first */
    struct wane__candidate top[WANE__TRACE_TOP];
};

/* What was asked. Arrays belong to whoever filled this. */
struct wane__trace_request {
    char request[WANE__TRACE_ID_MOST + 1];
    enum wane__kind kind;
    uint64_t tenant;
    int64_t time_ms;       /* since 1970 */
    const int32_t *prompt; /* WANE__TRACE_REDACTED among them where something was */
    size_t prompt_count;
    wane_sampling sampling; /* with the seed that was used, and the bias list */
    int max_tokens;         /* as asked for; 0: until the context is full */
    bool ignore_end;
    const char *stops[WANE__TRACE_STOPS]; /* "" for one that was redacted */
    int stop_count;
    int redacted; /* tokens of prompt and reply that were redacted: it cannot be run again exactly */
    /* One of several answers that were voted on: to which request, "" for none, and which of them, 0 the request's own. */
    char vote_of[WANE__TRACE_ID_MOST + 1];
    int vote_answer;
};

#define WANE__TRACE_ANSWERS 3

/* What was chosen. */
struct wane__trace_vote {
    char of[WANE__TRACE_ID_MOST + 1]; /* the request */
    int chosen;                       /* answer */
};

/* How it ended. */
struct wane__trace_end {
    char request[WANE__TRACE_ID_MOST + 1];
    char finish
        [16]; /* "end", "stop", "length", "context", "fuse", "cancelled", "timeout", "failed", "shutdown", "abandoned" */
    int tokens;   /* drawn, the one that ended the turn included */
    int redacted; /* token records that were left out by redaction */
    double ms;    /* from the request's coming to its end */
};

/* What could not be written between the line before and this one. */
struct wane__trace_dropped {
    uint64_t requests, tokens; /* records of these kinds; the ends' do not count */
};

/* "single", "multi", "code", "summary". */
const char *wane__kind_name(enum wane__kind kind);
/* False for another word. */
bool wane__kind_from(const char *name, size_t size, enum wane__kind *kind);

#endif
