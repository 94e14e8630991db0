/*
 * table.h - the public interface to tables: contexts that were seen before, and what came after them. Part of wane.h.
 *
 * docs/slmt.md specifies the files.
 */
#ifndef WANE_TABLE_H
#define WANE_TABLE_H

#include "../wane.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------- a table's file */

/*
 * An opened table: its own copy in memory, checked from end to end; what happens to the file afterwards does not matter to
 * it. Any number of threads may read one.
 */
typedef struct wane_table wane_table;

/*
 * `model` (NULL: any) is the loaded model that it must be of: WANE_EUNSUPPORTED if it is of another model or tokenizer.
 * `key` (NULL: signatures are not asked for) is a file with a public key: WANE_EAUTH unless `path`.sig is its signature
 * of the very bytes that are used. WANE_EFORMAT: cut, damaged, of another version, or no table at all.
 */
WANE_API int wane_table_open(const char *path, wane_model *model, const char *key, wane_table **table,
                             wane_error *error);
WANE_API void wane_table_free(wane_table *table);

typedef struct wane_table_facts {
    char digest[65]; /* BLAKE2b, 256 bits, of the file, in hex                         */
    bool verified;   /* by the key that was asked for                                  */
    uint64_t bytes;  /* of the file                                                    */
    int version;
    char model[33];     /* digest of the model's file, as wane_model_digest               */
    char tokenizer[33]; /* digest of the tokens' bytes                                    */
    int vocab_size;
    int64_t built_at; /* seconds since 1970; 0: not said                                */
    int window, depth;
    float min_stability, min_share;
    uint32_t entries;      /* contexts                                                    */
    uint32_t long_entries; /* of them, of 4,096 tokens and more: named by ten tokens too  */
    uint32_t positions, continuations, continuation_tokens;
    uint64_t phrases_bytes;               /* of the phrase classifier; 0: none                          */
    uint64_t entry_bytes, position_bytes; /* of the file                                  */
    uint64_t seen;                        /* samples behind all entries                                 */
} wane_table_facts;

WANE_API void wane_table_get_facts(const wane_table *table, wane_table_facts *facts);

#define WANE_TABLE_TOP 5

typedef struct wane_table_row {
    uint64_t window; /* the name of the last tokens, see docs/slmt.md     */
    uint32_t ten;    /* of the last ten; 0 below 4,096 tokens of context  */
    uint32_t seen, positions;
    double stability, agreement, mass;
    unsigned kinds; /* bit 0 single, 1 multi, 2 code, 3 summary           */
    int top_count;
    wane_candidate top[WANE_TABLE_TOP];
    int continuation_count;
    const int32_t *continuation; /* the tokens that mostly follow; lives as long as the table */
    float acceptance;            /* NaN: not known */
} wane_table_row;

/* The entries that were seen most, most often first, equals in the order of the file. Returns how many there are. */
WANE_API int wane_table_hottest(const wane_table *table, int count, wane_table_row *rows);

/* How a record was found; a word for each in wane_table_source. */
enum { WANE_TABLE_NOTHING = 0, WANE_TABLE_CONTEXT, WANE_TABLE_INDEX, WANE_TABLE_BETWEEN, WANE_TABLE_MEAN };
WANE_API const char *wane_table_source(int source);

typedef struct wane_table_answer {
    int source; /* WANE_TABLE_… */
    int top_count;
    wane_candidate top[WANE_TABLE_TOP];
} wane_table_answer;

/*
 * What was recorded for a context of `count` tokens, as the token with index `index` of a reply to `tenant` (NULL: "").
 * False: nothing. Costs the names of the whole context; a model does this token by token.
 */
WANE_API bool wane_table_lookup(const wane_table *table, const char *tenant, const int32_t *tokens,
                                size_t count, int index, wane_table_answer *answer);

/* ------------------------------------------------------------------ signatures */

/* Make a pair of Ed25519 keys: `path`, for its owner only, and `path`.pub. Never writes over a file: WANE_EINVAL. */
WANE_API int wane_table_key_new(const char *path, wane_error *error);
/* Sign a table with a secret key: writes `path`.sig. WANE_EAUTH when others can read the key. */
WANE_API int wane_table_sign(const char *key, const char *path, wane_error *error);

/* ------------------------------------------------------------- a model's table */

/* What a strict hit does to the token. EXACT: nothing. ARGMAX: the first stored token is taken, whatever the sampler. */
enum { WANE_TABLE_EXACT = 0, WANE_TABLE_ARGMAX = 1 };

typedef struct wane_table_use {
    size_t size;
    const char *path; /* NULL: no table from now on                                           */
    const char *key;  /* file with a public key; NULL: unsigned tables are taken              */
    int meaning;      /* WANE_TABLE_EXACT (default) or WANE_TABLE_ARGMAX                      */
    float tolerance;  /* of a logit, for a strict hit; default 1e-4                           */
    float share;      /* of the probability that must agree for a rank hit; default 0.95      */
    int poll_ms;      /* how often the file is looked at, to reload it; default 1000; 0: never */
} wane_table_use;

WANE_API void wane_table_use_init(wane_table_use *use);
/*
 * Give a model a table; what wane_table_open refuses is refused here. WANE_EBUSY while a session or a scheduler stands
 * on the model. Later changes of the file are taken in while it runs.
 */
WANE_API int wane_model_set_table(wane_model *model, const wane_table_use *use, wane_error *error);
/*
 * Read the file anew, at once. WANE_ENOENT when the model has no table. Another failure leaves the table in use, or turns
 * it off when it was its own file that was damaged; the sentence says which. Thread-safe.
 */
WANE_API int wane_model_reload_table(wane_model *model, wane_error *error);

typedef struct wane_table_state {
    bool given;       /* the model was given a table                        */
    bool on;          /* and it is in use                                   */
    bool verified;    /* its signature is                                   */
    char reason[500]; /* why it is off, or why the last reload failed; ""   */
    char digest[65];  /* "" while it is off                                 */
    uint32_t entries, positions, continuations;
    uint64_t bytes;
    bool diverged;              /* it is off because it did (wane/alerts.h) */
    uint64_t reloads, failures; /* of reloading                             */
    uint64_t failed_in_row;     /* failures since a table was last taken in */
    /* Tokens, since the model was loaded. */
    uint64_t strict, rank; /* hits, by grade                                */
    uint64_t miss;         /* the context is in the table, but does not fit */
    uint64_t absent;       /* it is not                                     */
    uint64_t source[5];    /* records found, by WANE_TABLE_…                */
    uint64_t taken;        /* tokens that WANE_TABLE_ARGMAX took            */
    /* Tokens for which it was no help, and their way from the lookup on: corrections, draw, gate. */
    uint64_t fallbacks;
    double fallback_seconds;     /* of all of them                           */
    double fallback_quantile[3]; /* seconds: 0.5, 0.9, 0.99 of the last five to ten minutes; 0: none */
} wane_table_state;

/* Thread-safe. */
WANE_API void wane_model_get_table_state(wane_model *model, wane_table_state *state);

/* ---------------------------------------------------------------- building */

/* Requests by the names that traces give them; sorted, each once. Made by wane_table_newest. */
typedef struct wane_table_requests {
    char (*name)[65];
    size_t count;
} wane_table_requests;
WANE_API void wane_table_requests_free(wane_table_requests *requests);

/*
 * How a table is made of traces. docs/table.md defines every term. The same records and settings give the same bytes,
 * whatever their order, the bound on memory, and the number of partial builds.
 */
typedef struct wane_table_build_options {
    size_t size;
    const char *const *logs; /* trace files, or folders of them                                        */
    int log_count;
    const char *const *partials; /* what partial builds wrote; with them no logs                         */
    int partial_count;
    const char *output; /* the table; NULL: nothing is written, the report alone is wanted          */
    bool partial;       /* write a partial build instead of a table                                 */
    int vocab_size;     /* that the traces must have; 0: any                                        */
    char model[33];     /* digests that the traces must have, 32 hex digits; "": any              */
    char tokenizer[33];
    int window;          /* tokens that name a context, 1..10; default 3                             */
    int depth;           /* candidates of an entry, 1..5; default 5                                  */
    uint64_t samples;    /* records of one kind that are used at most; 0 (default): all              */
    float min_stability; /* mean pairwise cosine of a stable context, -1..1; default 0.999           */
    float min_share;     /* share of its samples that must agree, 0..1; default 0.95                 */
    int min_seen;        /* times that a context must have been seen, 1..1000000; default 2          */
    float follow;        /* share of the replies that a continuation must be true of, 0.01..1; default 0.5 */
    int max_entries;     /* 1..16000000; default 50000                                               */
    bool phrases;        /* learn how well continuations are followed                                */
    int64_t built_at;    /* goes into the file, seconds since 1970; default 0: the same bytes always */
    size_t memory;       /* bytes that building may take, at least 128 MiB; default 512 MiB          */
    const wane_table_requests
        *held_out;             /* their records are left out; NULL: none                            */
    const char *temporary;     /* folder for what memory does not hold; NULL: TMPDIR or /tmp               */
    wane_progress_fn progress; /* NULL: none */
    void *progress_user;
} wane_table_build_options;

WANE_API void wane_table_build_options_init(wane_table_build_options *options);
/* The traces must be of this model: sets `vocab_size`, `model`, `tokenizer`. Reads the model's file the first time. */
WANE_API int wane_table_build_options_of(wane_table_build_options *options, wane_model *model,
                                         wane_error *error);

enum { WANE_TABLE_KINDS = 4, WANE_TABLE_BANDS = 8, WANE_TABLE_HOTTEST = 20, WANE_TABLE_DEPTH = 5 };

/* What the table would have done for the records it was built from, had it been built without their request. */
typedef struct wane_table_hits {
    uint64_t records; /* that were used                                                             */
    uint64_t window;  /* their context is in the table                                              */
    uint64_t right;   /* … and its first token, by what was drawn, is the one that was drawn        */
    uint64_t rank;    /* … and the tokens that carry 95 % of the probability are the first stored   */
    uint64_t strict;  /* the place is, and its logits are the same within 1e-4                      */
} wane_table_hits;

typedef struct wane_table_hot {
    int32_t last[10]; /* the context's last tokens, `last_count` of them */
    int last_count;
    int32_t next; /* what was drawn most */
    uint32_t seen, next_seen;
    float stability;
    bool in_table;
} wane_table_hot;

typedef struct wane_table_report {
    char model[33], tokenizer[33];
    int vocab_size, window;
    uint64_t records;                        /* token records that were read                       */
    uint64_t changed, too_short, empty;      /* left out: a correction changed them; too few tokens
                                                  before them; no finite candidates                  */
    uint64_t kinds[WANE_TABLE_KINDS];        /* single, multi, code, summary: read                 */
    uint64_t used[WANE_TABLE_KINDS];         /* … and used                                         */
    uint64_t held_out;                       /* … because their request was to be left out         */
    uint64_t cut_files;                      /* traces that end in the middle of a line            */
    uint64_t contexts, once;                 /* different keys; of them, seen once                 */
    uint64_t places;                         /* different whole contexts                           */
    uint64_t same_hash;                      /* records whose window is not the first of its key   */
    uint64_t other_best;                     /* records whose best candidate is not their key's    */
    uint64_t band[WANE_TABLE_BANDS];         /* keys seen more than once, by stability             */
    uint64_t band_records[WANE_TABLE_BANDS]; /* … and their records                                */
    uint64_t stable;                         /* keys that are stable                               */
    uint64_t suited;                         /* keys that could be entries                         */
    uint32_t entries, positions, continuations;
    uint64_t continuation_tokens;
    uint64_t bytes; /* of the table                                       */
    wane_table_hits hits[WANE_TABLE_KINDS];
    wane_table_hot hottest[WANE_TABLE_HOTTEST];
    int hottest_count;
    uint64_t phrase_examples, phrase_held; /* learned from; held back                            */
    double phrase_auc;                     /* among those held back; NaN: none                   */
    uint64_t spilled;                      /* sorted runs that went to temporary files           */
    double seconds;
} wane_table_report;

/* Lower bounds of the bands of stability: -1, 0.5, 0.9, 0.99, 0.995, 0.999, 0.9999, 0.99999. Static storage. */
WANE_API const float *wane_table_bands(void);

/*
 * Build. WANE_EINVAL: a setting out of its range, or traces of another model, tokenizer or vocabulary than the first, or than
 * was asked for. WANE_EFORMAT: a trace or a partial build is damaged. `report` may be NULL; of a partial build it has the
 * numbers up to `used`.
 */
WANE_API int wane_table_build(const wane_table_build_options *options, wane_table_report *report,
                              wane_error *error);

/* ------------------------------------------------------------------ replaying */

/*
 * Run recorded requests again, without a table and with it, and compare. Requests of which something was redacted are left
 * out, those of tenants that are not named too: a trace knows tenants by a hash alone.
 */
typedef struct wane_table_replay_options {
    size_t size;
    const char *const *logs; /* trace files, or folders of them; they must be of the model    */
    int log_count;
    const wane_table_use *use;  /* the table                                                     */
    const char *const *tenants; /* names beside ""                                               */
    int tenant_count;
    bool alone;                      /* each request begins with an empty cache: no prefix is reused  */
    uint64_t requests;               /* so many at most, the first ones; 0 (default): all             */
    const wane_table_requests *only; /* of the traces' requests these alone; NULL: all            */
    wane_progress_fn progress;       /* NULL: none */
    void *progress_user;
} wane_table_replay_options;

WANE_API void wane_table_replay_options_init(wane_table_replay_options *options);

typedef struct wane_table_replay_hits {
    uint64_t tokens, strict, rank, miss, absent; /* as in wane_table_state */
} wane_table_replay_hits;

typedef struct wane_table_replay_report {
    uint64_t requests;  /* that ran both ways                                                   */
    uint64_t divergent; /* of them, whose replies differ                                        */
    char first_divergent[65];
    uint64_t redacted, other_tenants, too_long; /* left out                                       */
    uint64_t tokens, equal;                     /* of the longer replies; in the same place equal */
    double agreement;                           /* equal / tokens; 1 without tokens               */
    wane_table_replay_hits hits[WANE_TABLE_KINDS];
    uint64_t proposed[4], accepted[4]; /* drafted tokens with the table, by wane_draft_source_name */
    double ms_without, ms_with;        /* from a request's start to its end, summed                */
} wane_table_replay_report;

/*
 * WANE_EBUSY while a session or a scheduler stands on the model; WANE_EINVAL when it has a recorder, when traces are of
 * another model, or when there is no request to run. Drafts are as the model has them; what they learned is forgotten before
 * either run. Afterwards the model has no table.
 */
WANE_API int wane_table_replay(wane_model *model, const wane_table_replay_options *options,
                               wane_table_replay_report *report, wane_error *error);

/*
 * The newest `most` requests that such a replay could run, but never more than half of those that there are: what a build leaves out
 * (`held_out`) and a replay is made with (`only`), so that a table is judged by what it was not built from. Of `options` the traces
 * and tenants are used. Newest: by the time of their coming, then by their order in the traces. WANE_EINVAL when there are not two.
 */
WANE_API int wane_table_newest(wane_model *model, const wane_table_replay_options *options, uint64_t most,
                               wane_table_requests *requests, wane_error *error);

/* ---- the end of building --------------------------------------------------------------------------------------- */

#ifdef __cplusplus
}
#endif

#endif
