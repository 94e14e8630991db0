/*
 * diagnose.h - a reply looked at token by token: what the model's row said, what the table said, what was taken; and what the engine
 * holds at its end. Two of them side by side show where two runs part: `wane diagnose`. Part of wane.h.
 */
#ifndef WANE_DIAGNOSE_H
#define WANE_DIAGNOSE_H

#include "../wane.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WANE_LOOK_BEST 64

/* One token. Pointers are good during the call. */
typedef struct wane_look {
    int index; /* in the reply */
    int32_t token;
    bool drafted;
    int best_count;             /* 0: the token was repeated without a row */
    const wane_candidate *best; /* the row's best before any processor, best first, exact */
    /* The table. */
    int table_source;    /* WANE_TABLE_…: how a record was found; NOTHING: none, or no table */
    int table_grade;     /* 0 it does not fit, 1 rank, 2 strict */
    int32_t table_first; /* the first stored token */
    bool table_took;     /* it stands in the place of the drawn one */
    bool changed;        /* a correction had a hand in it */
    bool steered;        /* the governor had; in this state */
    int state;
    bool certified; /* the row came from the certified head */
} wane_look;

/* Return false to stop (WANE_ECANCELLED). */
typedef bool (*wane_look_fn)(void *user, const wane_look *look);

/* What the engine holds behind a reply, and how. Strings live as long as the model. */
typedef struct wane_look_end {
    int prompt_tokens, reused_tokens, reply_tokens;
    wane_finish finish;
    int held; /* tokens in the engine's cache */
    const char *kv_type_k, *kv_type_v;
    const char *settings; /* others that change floats, in words */
    uint64_t state_bytes,
        state_hash; /* of the sequence's state, as a session's file has it; 0: it cannot be given */
} wane_look_end;

/* Answer `tokens` in a session, as wane_session_start and wane_session_next do, and show each token. */
WANE_API int wane_session_look(wane_session *session, const int32_t *tokens, size_t count,
                               const wane_generation *generation, wane_look_fn give, void *user,
                               wane_look_end *end, wane_error *error);

#ifdef __cplusplus
}
#endif

#endif
