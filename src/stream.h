/*
 * stream.h - from token bytes to text that may be sent: whole UTF-8 characters, no part of a stop string.
 *
 * Bytes go in as tokens give them; what comes out is always valid UTF-8 (an invalid byte becomes U+FFFD,
 * as a whole-reply decoder would do it), never holds a part of a stop string, and joined together
 * equals the reply. Text that could become a stop string is held until it cannot, or until the end.
 */
#ifndef WANE_STREAM_H
#define WANE_STREAM_H

#include "core/buf.h"
#include "wane.h"

struct wane__stream {
    struct wane__buf pending; /* bytes not yet given out: an open character, or a possible stop string */
    struct wane__buf ready;   /* what the last call gave out */
    char **stops;
    size_t stop_count;
    size_t longest_stop;
    const char *stopped_by; /* the stop string that ended the reply, or NULL */
};

/* Copies the stop strings. */
int wane__stream_init(struct wane__stream *stream, const char *const *stops, size_t stop_count,
                      wane_error *error);
void wane__stream_free(struct wane__stream *stream);
/*
 * Add a token's bytes. `text`/`size` point to what may be sent now (inside the stream, until the next
 * call). Returns true when a stop string was completed: `stopped_by` names it, text before it was given
 * out, what follows it is dropped. With several, the one that begins first wins, then the longer.
 */
bool wane__stream_push(struct wane__stream *stream, const char *bytes, size_t count, const char **text,
                       size_t *size);
/* The reply is over without a stop string: give out all that was held (an open character as U+FFFD). */
void wane__stream_flush(struct wane__stream *stream, const char **text, size_t *size);

#endif
