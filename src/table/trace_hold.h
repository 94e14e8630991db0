/*
 * trace_hold.h - requests that wait for their end, to be searched for what must not be recorded. One thread uses it.
 */
#ifndef WANE_TABLE_TRACE_HOLD_H
#define WANE_TABLE_TRACE_HOLD_H

#include "table/redact.h"
#include "table/trace_file.h"
#include "table/trace_text.h"

/* How a record lies in the queue: see trace_write.c. */
struct wane__trace_mark {
    enum wane__trace_type type;
    size_t size; /* with the mark, without padding */
};

/* A token without its unused candidates. */
#define WANE__TRACE_TOKEN_SIZE(top_count) \
    (offsetof(struct wane__trace_token, top) + (size_t)(top_count) * sizeof(struct wane__candidate))

/* A record as it was given: what its type says, with pointers into the queue. */
struct wane__trace_view {
    struct wane__trace_request request;
    struct wane__trace_token token;
    const float *all;
    size_t all_count;
    struct wane__trace_end end;
    struct wane__trace_vote vote;
};
void wane__trace_view(const struct wane__trace_mark *mark, struct wane__trace_view *view);

struct wane__trace_hold;

int wane__trace_hold_new(const char *pattern_path,
                         int (*token_bytes)(void *user, int32_t token, char *buffer, size_t capacity),
                         void *user, size_t bytes_most, struct wane__trace_hold **hold, wane_error *error);
void wane__trace_hold_free(struct wane__trace_hold *hold);
/* Take a record; with an end, the request's lines go into `out`. Counts what was written, dropped, redacted, withheld. */
void wane__trace_hold_take(struct wane__trace_hold *hold, const struct wane__trace_mark *mark,
                           struct wane__buf *out, wane_recorder_state *counts);
/* No more will come: what is held goes out as it is, searched like the others. */
void wane__trace_hold_finish(struct wane__trace_hold *hold, struct wane__buf *out,
                             wane_recorder_state *counts);
size_t wane__trace_hold_bytes(const struct wane__trace_hold *hold);

#endif
