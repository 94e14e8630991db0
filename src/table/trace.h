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
 */
#ifndef WANE_TABLE_TRACE_H
#define WANE_TABLE_TRACE_H

#include "sample/sample.h"
#include "table/context.h"

#define WANE__TRACE_VERSION 1
#define WANE__TRACE_TOP     64
#define WANE__TRACE_ID_MOST 64

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
    int top_count; /* the best candidates after the processors, best first */
    struct wane__candidate top[WANE__TRACE_TOP];
    float log_sum; /* of all exponentials; NaN: unknown */
};

#endif
