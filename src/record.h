/*
 * record.h - from a reply under way to records of a trace.
 *
 * A recorder stands on a model; each reply that begins on it gets a tap. The tap is made where the reply is (not on the
 * engine thread in a server), says what was asked when the first token is drawn, and how it ended when it ends. Without a
 * recorder a reply has no tap, and a token costs one comparison.
 */
#ifndef WANE_RECORD_H
#define WANE_RECORD_H

#include "layer.h"
#include "origin.h"
#include "table/trace_write.h"

struct wane__tap;

/* For a reply that is set up; `generation` is copied. */
int wane__tap_open(struct wane__reply *reply, const wane_generation *generation, wane_error *error);
/* Ends it as abandoned if it began and was not ended. NULL is fine. */
void wane__tap_close(struct wane__tap *tap);
/* The step's token was drawn, and not yet accepted; its row is still there. */
void wane__tap_token(struct wane__reply *reply);
/* By `finish`, or by an error code. Only the first call counts. */
void wane__tap_end(struct wane__tap *tap, wane_finish finish, int code);

#endif
