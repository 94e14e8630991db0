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
    uint64_t reloads, failures; /* of reloading */
    /* Tokens, since the model was loaded. */
    uint64_t strict, rank; /* hits, by grade                                */
    uint64_t miss;         /* the context is in the table, but does not fit */
    uint64_t absent;       /* it is not                                     */
    uint64_t source[5];    /* records found, by WANE_TABLE_…                */
    uint64_t taken;        /* tokens that WANE_TABLE_ARGMAX took            */
} wane_table_state;

/* Thread-safe. */
WANE_API void wane_model_get_table_state(wane_model *model, wane_table_state *state);

#ifdef __cplusplus
}
#endif

#endif
