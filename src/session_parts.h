/* session_parts.h - a session seen by what keeps it in a file: session_file.c. */
#ifndef WANE_SESSION_PARTS_H
#define WANE_SESSION_PARTS_H

#include "model.h"

/* Point into the session; good until it is used again. */
struct wane__session_parts {
    wane_model *model;
    const wane_tokens *tokens; /* of the conversation, as far as it is known */
    int held;                  /* of them, in the engine                     */
};

struct wane__reply;
/* The reply under way, or the last one. */
const struct wane__reply *wane__session_reply(const wane_session *session);
/* A reply under way ends. */
void wane__session_rest(wane_session *session, struct wane__session_parts *parts);
/* The engine's sequence holds these tokens now; none: nothing is known of it. */
int wane__session_holds(wane_session *session, const int32_t *tokens, int count, wane_error *error);

#endif
