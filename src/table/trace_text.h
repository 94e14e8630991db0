/*
 * trace_text.h - one record as a line of a trace, and a line as a record. docs/trace.md specifies both directions.
 *
 * What is written has one canonical layout: fields in a fixed order, no blanks, floats as the shortest decimal that gives
 * the very float. A token's line in that layout is read by hand, at memory's pace; anything else by a JSON parser. Both
 * give the same record, or refuse alike.
 */
#ifndef WANE_TABLE_TRACE_TEXT_H
#define WANE_TABLE_TRACE_TEXT_H

#include "core/buf.h"
#include "table/trace_read.h"

/* Append a line, its end included. Without memory `out` says so. */
void wane__trace_put_origin(struct wane__buf *out, const struct wane__trace_origin *origin, int64_t time_ms);
void wane__trace_put_request(struct wane__buf *out, const struct wane__trace_request *request);
/* `all`: NULL, or `all_count` logits. */
void wane__trace_put_token(struct wane__buf *out, const struct wane__trace_token *token, const float *all,
                           int all_count);
void wane__trace_put_end(struct wane__buf *out, const struct wane__trace_end *end);
void wane__trace_put_dropped(struct wane__buf *out, const struct wane__trace_dropped *dropped);
void wane__trace_put_vote(struct wane__buf *out, const struct wane__trace_vote *vote);

/* The shortest decimal of a finite float, into `out`; returns its length. At most WANE__TRACE_FLOAT bytes, not terminated. */
#define WANE__TRACE_FLOAT 24
/* Milliseconds of a reply: thirty years. */
#define WANE__TRACE_MS_MOST 1e12
int wane__trace_float(float value, char *out);

/* Where a line's arrays go; kept from line to line, freed at the end. Start from {0}. */
struct wane__trace_scratch {
    struct wane__trace_origin origin;
    struct wane__trace_token token;
    struct wane__trace_request request;
    struct wane__trace_end end;
    struct wane__trace_dropped dropped;
    struct wane__trace_vote vote;
    int32_t *prompt;
    size_t prompt_room;
    wane_bias *bias;
    struct wane__buf stops; /* their text, each with its zero */
    float *all;
    int all_room;
};
void wane__trace_scratch_free(struct wane__trace_scratch *scratch);

/*
 * Read a line of `size` bytes, without its end; line[size] must be readable and 0. Sets type and the member it names (as
 * pointers into scratch). `vocab_size` bounds tokens. WANE_EFORMAT says what is wrong, without file and line.
 */
int wane__trace_parse(const char *line, size_t size, int vocab_size, bool want_all, bool slow,
                      struct wane__trace_scratch *scratch, struct wane__trace_record *record,
                      wane_error *error);

/* trace_fast.c: a token's line in the canonical layout, up to "all"; false: it is not one, or it is wrong. */
bool wane__trace_parse_token(const char *line, size_t size, struct wane__trace_token *token);
/* What must hold of a token, however it was read. */
int wane__trace_check_token(const struct wane__trace_token *token, int vocab_size, wane_error *error);

#endif
