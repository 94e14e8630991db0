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

/* ---------------------------------------------------------------- building */

/*
 * How a table is made of traces. docs/table.md defines every term. The same records and settings give the same bytes,
 * whatever their order, the bound on memory, and the number of partial builds.
 */
typedef struct wane_table_options {
    size_t size;
    const char *const *logs; /* trace files, or folders of them                                        */
    int log_count;
    const char *const *partials; /* what partial builds wrote; with them no logs                         */
    int partial_count;
    const char *output; /* the table; NULL: nothing is written, the report alone is wanted          */
    bool partial;       /* write a partial build instead of a table                                 */
    int vocab_size;     /* that the traces must have; 0: any                                        */
    const char *model;  /* digests that the traces must have, 32 hex digits; NULL: any              */
    const char *tokenizer;
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
    const char *temporary;     /* folder for what memory does not hold; NULL: TMPDIR or /tmp               */
    wane_progress_fn progress; /* NULL: none */
    void *progress_user;
} wane_table_options;

WANE_API void wane_table_options_init(wane_table_options *options);

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
/* "single", "multi", "code" or "summary". Static storage. */
WANE_API const char *wane_table_kind(int kind);

/*
 * Build. WANE_EINVAL: a setting out of its range, or traces of another model, tokenizer or vocabulary than the first, or than
 * was asked for. WANE_EFORMAT: a trace or a partial build is damaged. `report` may be NULL; of a partial build it has the
 * numbers up to `used`.
 */
WANE_API int wane_table_build(const wane_table_options *options, wane_table_report *report,
                              wane_error *error);

/* ---- the end of building --------------------------------------------------------------------------------------- */

#ifdef __cplusplus
}
#endif

#endif
