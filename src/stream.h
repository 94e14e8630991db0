/*
 * stream.h - from token bytes to text that may be sent: whole UTF-8 characters, no part of a stop string.
 *
 * Bytes go in as tokens give them; what comes out is always valid UTF-8 (an invalid byte becomes U+FFFD,
 * as a whole-reply decoder would do it), never holds a part of a stop string, and joined together
 * equals the reply. Text that could become a stop string is held until it cannot, or until the end.
 *
 *     bytes ─► open character (at most 3 bytes) ─► pending (less than the longest stop) ─► ready ─► caller
 *
 * Stop strings are matched on the bytes of the decoded text, that is, on what a reader would see.
 */
#ifndef WANE_STREAM_H
#define WANE_STREAM_H

#include "core/buf.h"
#include "wane.h"

/*
 * A push of at most so many bytes allocates nothing; a longer one may grow the buffers (outside of a step).
 */
enum { WANE__STREAM_PUSH = 4096 };

/* One stop string and how much of it the text ends with (Knuth, Morris, Pratt). */
struct wane__stream_stop {
    char *text;
    size_t length;
    size_t matched; /* the longest prefix of `text` that the text so far ends with */
    size_t *border; /* border[n]: the longest proper prefix of the first n bytes that is also their end */
};

struct wane__stream {
    struct wane__buf pending; /* decoded text not yet given out: a possible stop string       */
    struct wane__buf ready;   /* what the last call gave out                                  */
    struct wane__stream_stop *stops;
    size_t stop_count;
    size_t longest_stop;
    const char *stopped_by; /* the stop string that ended the reply, or NULL                */
    unsigned char open[4];  /* the bytes of a character that is not complete                */
    int open_count;
    int open_need;     /* bytes that it has when complete                              */
    size_t seen;       /* bytes of decoded text so far; pending holds the last of them */
    size_t best;       /* stop string completed while an earlier or longer one was still possible, … */
    size_t best_start; /* … and where it begins; SIZE_MAX: none                        */
};

/*
 * Copies the stop strings. WANE_EINVAL when one is empty or not UTF-8. All memory for pushes of up to
 * WANE__STREAM_PUSH bytes is taken here. On an error there is nothing to free.
 */
int wane__stream_init(struct wane__stream *stream, const char *const *stops, size_t stop_count,
                      wane_error *error);
/* Also frees a zeroed stream. */
void wane__stream_free(struct wane__stream *stream);
/*
 * Add a token's bytes. `text`/`size` point to what may be sent now (inside the stream, until the next call;
 * never NULL). Returns true when a stop string was completed: `stopped_by` names it, text before it was given
 * out, what follows it is dropped, and so is whatever is pushed later. With several, the one that begins
 * first wins, then the longer: a completed one therefore waits while an earlier or longer one can still
 * complete, so that the answer does not depend on how the text was cut into tokens.
 */
bool wane__stream_push(struct wane__stream *stream, const char *bytes, size_t count, const char **text,
                       size_t *size);
/*
 * The reply is over: give out all that was held (an open character as U+FFFD). Returns true, with
 * `stopped_by` set and the text ending before it, when a completed stop string had been waiting for an
 * earlier or longer one: the reply did end by that stop string. Also true after a push that was.
 */
bool wane__stream_flush(struct wane__stream *stream, const char **text, size_t *size);

#endif
