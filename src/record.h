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
/*
 * The reply is one of the answers to a request that are voted on: the request's name (its own, for answer 0), and which of them. Said
 * before its first token is drawn; nothing afterwards. NULL is fine.
 */
void wane__tap_vote(struct wane__tap *tap, const char *of, int answer);
/* The name under which it is recorded; "" for NULL. Lives as long as the tap. */
const char *wane__tap_name(const struct wane__tap *tap);
/* A vote's outcome, for the recorder of a model: which of the answers to the request named `of` was chosen. NULL is fine. Any thread. */
void wane__record_vote(struct wane_recorder *recorder, const char *of, int chosen);
/* By `finish`, or by an error code. Only the first call counts. */
void wane__tap_end(struct wane__tap *tap, wane_finish finish, int code);

#endif
