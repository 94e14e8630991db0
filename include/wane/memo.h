/*
 * memo.h - the public interface to the memo: what was answered before is repeated without the body. Part of wane.h.
 *
 * A token is repeated only for the same whole context of the same tenant under everything else that its draw depended on, seed
 * included; requests that draw without a seed, or want logprobs, neither read nor write it. docs/memo.md has the promise.
 */
#ifndef WANE_MEMO_H
#define WANE_MEMO_H

#include "../wane.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Give the model a memo of so many bytes, all taken at once; 0: none, and what it held is gone. `path` (may be NULL): a file that it
 * begins with, where there is one, and that wane_model_save_memo writes. WANE_EFORMAT for a damaged file, WANE_EUNSUPPORTED for one
 * of another model or of settings that change floats; WANE_EBUSY while a session or a scheduler stands on the model.
 */
WANE_API int wane_model_set_memo(wane_model *model, uint64_t bytes, const char *path, wane_error *error);
/* Write the memo's file, whole or not at all; nothing to do without one. WANE_EBUSY as above. */
WANE_API int wane_model_save_memo(wane_model *model, wane_error *error);

/*
 * Write the memo's file while it is in use as well: every so many seconds, when something was added since; 0 (as without this call): only
 * wane_model_save_memo does. It costs decoding about a tenth of a millisecond in some of its turns, and for the while a copy of the
 * memo; the disk is another thread's. Failures go to the log and are tried again. Call it after wane_model_set_memo; nothing
 * without a file. WANE_EINVAL above the bound, WANE_EBUSY as above.
 */
#define WANE_MEMO_SAVE_MOST 86400
WANE_API int wane_model_set_memo_save(wane_model *model, unsigned seconds, wane_error *error);

/* A moment's picture. Counters never fall. Thread-safe. */
typedef struct wane_memo_state {
    bool on;
    uint64_t entries, bytes; /* tokens held; memory taken                        */
    uint64_t hits, misses;   /* tokens repeated; tokens drawn, and kept          */
    uint64_t evictions;      /* tokens given up for others                       */
    uint64_t saves;          /* times that the file was written while in use     */
    uint64_t save_failures;  /* times that it could not be                       */
} wane_memo_state;

WANE_API void wane_model_get_memo_state(wane_model *model, wane_memo_state *state);

#ifdef __cplusplus
}
#endif

#endif
