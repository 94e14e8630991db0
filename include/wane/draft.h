/*
 * draft.h - the public interface to drafts: tokens proposed ahead of the body and verified in one block. Part of wane.h.
 *
 * A drafted token is kept only if the sampler, with the random number that belongs to that token, draws the same one, so that a
 * reply is the same with drafts and without. docs/draft.md says how, how fast, and for which engines that holds.
 */
#ifndef WANE_DRAFT_H
#define WANE_DRAFT_H

#include "../wane.h"

#ifdef __cplusplus
extern "C" {
#endif

/* AUTO: where they pay. ALWAYS: also where they do not, for measuring. OFF: never. */
enum { WANE_DRAFT_AUTO = 0, WANE_DRAFT_OFF = 1, WANE_DRAFT_ALWAYS = 2 };

/* Where drafts come from: see wane_draft_source_name. */
#define WANE_DRAFT_SOURCES 4
/* Tokens in a block, the one before the draft included. */
#define WANE_DRAFT_BLOCK_MOST 48

/* A moment's picture of drafts on a model. Strings live as long as the model. Counters never fall. */
typedef struct wane_draft_state {
    bool on;            /* replies may be drafted                                              */
    const char *reason; /* why not; "" otherwise                                               */
    int most;           /* tokens in a draft                                                   */
    uint64_t blocks;    /* verified                                                            */
    uint64_t proposed[WANE_DRAFT_SOURCES], accepted[WANE_DRAFT_SOURCES]; /* tokens, by source  */
    uint64_t rehearsals; /* blocks decoded once more, token by token, to compare every bit     */
    uint64_t differing;  /* of these, blocks whose floats were not those of single tokens      */
    uint64_t failures;   /* blocks that the engine could not decode: went on without           */
    double block_ms[WANE_DRAFT_BLOCK_MOST +
                    1]; /* what a call of so many rows takes, as measured so far; 0: not known */
    uint64_t pool_tokens, pool_evicted, pool_bytes; /* earlier replies: held, given up, memory */
} wane_draft_state;

/* Thread-safe. */
WANE_API void wane_model_get_draft_state(wane_model *model, wane_draft_state *state);
/*
 * Choose WANE_DRAFT_… from now on; WANE_EBUSY while a session or a scheduler stands on the model, WANE_EUNSUPPORTED where the
 * model cannot.
 */
WANE_API int wane_model_set_draft(wane_model *model, int draft, wane_error *error);
/* "text", "way", "pool", "table"; NULL outside 0 … WANE_DRAFT_SOURCES - 1. Static storage. */
WANE_API const char *wane_draft_source_name(int source);

#ifdef __cplusplus
}
#endif

#endif
