/*
 * session_file.h - the public interface to a session's file: a conversation is kept, and goes on later. Part of wane.h.
 *
 *     wane_session_save(s, "talk.session", messages, count, &error);                one process
 *     wane_session_load(s, "talk.session", &file, &error);                          another, the same model
 *     … file.messages, then one of the user's; wane_session_start as ever: what the file held is not computed again
 *     wane_session_file_free(&file);
 *
 * What follows after a load is what would have followed without: the engine's cache comes back bit for bit, and all else that
 * a token depends on is in the request. docs/session.md has the promise and specifies the bytes.
 */
#ifndef WANE_SESSION_FILE_H
#define WANE_SESSION_FILE_H

#include "../wane.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the quality layer noted of a session; other bits are zero, in files too. */
enum {
    WANE_SFCL_VOTED = 1,   /* a vote over answers was taken        */
    WANE_SFCL_BREAKER = 2, /* the breaker was out                  */
    WANE_SFCL_CHANGED = 4, /* a correction changed a token         */
    WANE_SFCL_LOADED = 8,  /* the session was loaded from a file   */
    WANE_SFCL_ALL = 15
};

/*
 * The gate's threshold of the session, set when its prompt was taken in, and those bits; both 0 until somebody sets them.
 * WANE_EINVAL: a threshold that is negative or no number, a bit that there is not. They go into the file and come back from it.
 */
WANE_API double wane_session_tau(const wane_session *session);
WANE_API uint64_t wane_session_flags(const wane_session *session);
WANE_API int wane_session_set_tau(wane_session *session, double tau, wane_error *error);
WANE_API int wane_session_set_flags(wane_session *session, uint64_t flags, wane_error *error);

/* What a file holds, but for tokens and the engine's state. Strings and messages belong to it. */
typedef struct wane_session_file {
    int version;
    char model[33];  /* digest of the model's file                                          */
    char engine[81]; /* its version                                                         */
    char kv_type_k[17], kv_type_v[17];
    char *settings;     /* other settings that change floats, in words                         */
    bool same_settings; /* after wane_session_load: they are the loading model's, so that nothing differs */
    int64_t saved_at;   /* seconds since 1970                                                  */
    double tau;
    uint64_t sfcl_flags;
    int vocab_size;
    int tokens; /* of the conversation; `held` of them are in the engine's state             */
    int held;
    uint64_t state_bytes, bytes; /* of the engine's state, of the file                       */
    wane_message *messages;
    size_t message_count;
} wane_session_file;

/*
 * Write a session with the conversation that it is of, whole or not at all, for its owner alone (0600). A reply under way ends
 * here; its tokens so far are kept. `messages` may be NULL with count 0. WANE_EUNSUPPORTED: the engine cannot give its state;
 * WANE_EINVAL: a role or content that is not UTF-8; WANE_EIO.
 */
WANE_API int wane_session_save(wane_session *session, const char *path, const wane_message *messages,
                               size_t count, wane_error *error);
/*
 * Bring a session to what a file holds; what it held before is gone, also when this fails after the file was checked. `file` (may be
 * NULL) receives what the file says: free it. WANE_ENOENT: there is none. WANE_EFORMAT: it is damaged, no session, or of another
 * version or layout. WANE_EUNSUPPORTED: of another model, engine or type of cache. WANE_ECONTEXT: it does not fit.
 */
WANE_API int wane_session_load(wane_session *session, const char *path, wane_session_file *file,
                               wane_error *error);
/* Look at a file without a model; it is checked as for loading, as far as that goes. */
WANE_API int wane_session_file_info(const char *path, wane_session_file *file, wane_error *error);
/* The same, and whether wane_session_load would take it for a session of `model`; its errors. Sets `same_settings`. */
WANE_API int wane_session_file_check(const char *path, wane_model *model, wane_session_file *file,
                                     wane_error *error);
WANE_API void wane_session_file_free(wane_session_file *file);

#ifdef __cplusplus
}
#endif

#endif
