/*
 * repeat.h - is a question that was asked before in the same dialogue answered as before?
 *
 *     user: Q    assistant: A    user: …    assistant: …    user: Q    assistant: B        score: how much B is like A
 *
 * Texts are lists of units: a run of ASCII letters and digits, in lower case, is one, and so is each other character from U+0080 on; all
 * other characters part units and are none. Two questions are the same when their units are, and there is at least one. The score is
 * 1 - d / n: d is the edit distance of the answers' first WANE__REPEAT_UNITS units, n the number of units of the longer one; 1 where
 * both have none. docs/rollout.md says what is made of it.
 */
#ifndef WANE_OPS_REPEAT_H
#define WANE_OPS_REPEAT_H

#include "wane.h"

#define WANE__REPEAT_UNITS 512
/* Bytes of an answer that are looked at, at most. */
#define WANE__REPEAT_BYTES 16384

/*
 * The answer that was given to the last message's question when it was asked before, the latest one; NULL: it was not, or the last
 * message is not a user's. Lives in `messages`.
 */
const wane_message *wane__repeat_find(const wane_message *messages, size_t count);
/* How much two answers are alike, 0 … 1; NAN without memory. */
double wane__repeat_score(const char *a, size_t a_size, const char *b, size_t b_size);

#endif
