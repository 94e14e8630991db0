/*
 * wane/feedback.h - what people think of replies: a pool of ratings in an SQLite file, and a reward model that is trained on it and
 * ranks the answers of a vote. docs/feedback.md has the endpoint, the file and the figures.
 *
 * A pool holds no prompt and no reply unless it is asked to.
 */
#ifndef WANE_FEEDBACK_H
#define WANE_FEEDBACK_H

#include "../wane.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- a server's */

struct wane_feedback_options {
    size_t size;
    const char *path;    /* of the pool; made where there is none                              */
    bool text;           /* keep prompt and reply of rated replies; default false              */
    uint64_t bytes_most; /* of the pool: the oldest ratings go; 1 MiB to 1 TiB, default 64 MiB  */
    int keep_seconds;    /* so long after its end a reply can be rated; 1..86400, default 3600 */
};

WANE_API void wane_feedback_options_init(wane_feedback_options *options);

/* ---------------------------------------------------------------- the pool */

typedef struct wane_feedback wane_feedback; /* thread-safe */

typedef struct wane_feedback_entry {
    int64_t id;               /* in the pool; append sets it                   */
    int64_t at;               /* ms since 1970; append sets it                 */
    const char *response;     /* as the API named the reply                    */
    const char *tenant, *key; /* who rated it; "" without keys             */
    const char *model;
    double rating;       /* -1 (bad) … 1 (good)                            */
    const char *comment; /* NULL: none                                     */
    const char *prompt;  /* NULL: not kept                                 */
    const char *reply;
} wane_feedback_entry;

/* WANE_EFORMAT: the file is something else. WANE_EIO, WANE_EBUSY. */
WANE_API int wane_feedback_open(const wane_feedback_options *options, wane_feedback **pool,
                                wane_error *error);
WANE_API void wane_feedback_close(wane_feedback *pool);
/*
 * Append. Takes at most about 0.1 s: WANE_EBUSY when the file is locked by another program or too many wait; WANE_EIO when the disk is
 * full or fails. A failure concerns this entry only.
 */
WANE_API int wane_feedback_append(wane_feedback *pool, wane_feedback_entry *entry, wane_error *error);

/* Return false to stop (WANE_ECANCELLED). */
typedef bool (*wane_feedback_fn)(void *user, const wane_feedback_entry *entry);
/* Read a pool's entries, oldest first; also while a server writes to it. */
WANE_API int wane_feedback_read(const char *path, wane_feedback_fn give, void *user, wane_error *error);

typedef struct wane_feedback_stats {
    uint64_t entries, responses; /* a reply may be rated again: the last rating counts below */
    uint64_t up, down, neutral;  /* responses                                                */
    uint64_t comments, texts;    /* entries that have them                                   */
    uint64_t bytes;              /* of the file                                              */
    int64_t first, last;         /* ms since 1970; 0: there is none                          */
    double mean;                 /* of the responses' ratings; NaN: there are none           */
} wane_feedback_stats;

WANE_API int wane_feedback_get_stats(const char *path, wane_feedback_stats *stats, wane_error *error);

/* ---------------------------------------------------------------- the reward model */

typedef struct wane_reward_train_options {
    size_t size;
    const char *const *pools; /* with texts in them */
    size_t pool_count;
    const char *output;        /* NULL: only the report                                        */
    uint64_t seed;             /* of the order of learning and of what is held out; default 1 */
    wane_progress_fn progress; /* NULL: none */
    void *progress_user;
} wane_reward_train_options;

typedef struct wane_reward_report {
    uint64_t entries;  /* that were read                                                     */
    uint64_t usable;   /* replies with text and a rating that is not 0                       */
    uint64_t up, down; /* of those                                                           */
    uint64_t learned, held, held_up;
    double auc, low,
        high; /* of the held-out ones: a liked reply has the higher score; 95 %; NaN: cannot be told */
    uint64_t bytes, weights;
    double seconds;
} wane_reward_report;

WANE_API void wane_reward_train_options_init(wane_reward_train_options *options);
/*
 * Logistic regression on the last rating of each reply; prompts have features of their own, so that an easy prompt does not make its
 * replies good. A fifth of the prompts is held out. The same pool and seed give the same bytes. WANE_EINVAL: too few ratings.
 */
WANE_API int wane_reward_train(const wane_reward_train_options *options, wane_reward_report *report,
                               wane_error *error);

/* When the reward model has a say in a vote in which no two answers agree. */
enum {
    WANE_REWARD_TIE = 0, /* where the closest answer is not the only one: the best liked of those */
    WANE_REWARD_BEST = 1 /* always: the best liked answer stands                                  */
};
/* Give the model a reward model. WANE_EBUSY while a session or a scheduler stands on it. On failure the one before stays. */
WANE_API int wane_model_set_reward(wane_model *model, const char *path, int choice, wane_error *error);
WANE_API int wane_model_drop_reward(wane_model *model, wane_error *error);

#ifdef __cplusplus
}
#endif

#endif
