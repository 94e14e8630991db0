/*
 * build_internal.h - what the files of the builder share. The way of a record:
 *
 *     trace ─► sample ─► sort by key ─► build_keys.c     sums, stability; the most useful keys; places, to a file
 *                                         └─► sort by request ─► build_replies.c   continuations, hits, examples
 *                                                                  └─► build_table.c   what the file holds
 */
#ifndef WANE_TABLE_BUILD_INTERNAL_H
#define WANE_TABLE_BUILD_INTERNAL_H

#include "table/build.h"
#include "table/build_sort.h"
#include "table/build_sums.h"
#include "table/phrases.h"

/* -------------------------------------------------------------------- build_strata.c */

/* The least hashes of each kind: which records are used when there are more than are wanted. */
struct wane__strata {
    uint64_t limit;               /* 0: none */
    uint64_t *least[WANE__KINDS]; /* heaps of limit + 1, the largest first */
    size_t count[WANE__KINDS], room[WANE__KINDS];
};
/* False: so many smaller ones are there that this record cannot be used. WANE_ENOMEM is in *status. */
bool wane__strata_add(struct wane__strata *strata, enum wane__kind kind, uint64_t hash, int *status);
/* Records of a kind are used up to this hash. Equal hashes are used together or not at all. */
void wane__strata_bounds(const struct wane__strata *strata, uint64_t bound[WANE__KINDS],
                         bool none[WANE__KINDS]);
void wane__strata_free(struct wane__strata *strata);

/* -------------------------------------------------------------------- build_keys.c */

/* A key that may become an entry. */
struct wane__pick {
    struct wane__slmt_entry entry;
    uint64_t tenant;
    uint64_t uses; /* records that it could have answered, by its best reason to be there */
    int32_t last[WANE__TEN];
    int last_count;
    uint32_t drawn[WANE__SLMT_DEPTH];
    int32_t next;
    uint32_t next_drawn;
    bool stable;
};

/* Where a key's pick is: the key itself stands here, so that a search looks at no pick. */
struct wane__pick_slot {
    uint64_t window;
    uint32_t ten;
    uint32_t pick; /* 1 + its number; 0: free */
};

/* Fewer uses, or as many and the larger key. */
bool wane__pick_worse(const struct wane__pick *a, const struct wane__pick *b);
int wane__key_compare(struct wane__slmt_key a, struct wane__slmt_key b);

/* One place of one key, in the file of places. */
struct wane__place {
    struct wane__slmt_key key;
    uint32_t index;
    uint64_t place;
    uint32_t seen;
    bool stable;
    int top_count;
    struct wane__candidate top[WANE__SLMT_DEPTH];
};
#define WANE__PLACE_BYTES (8 + 4 + 4 + 8 + 4 + 2 + 8 * WANE__SLMT_DEPTH)
void wane__place_encode(const struct wane__place *place, uint8_t bytes[WANE__PLACE_BYTES]);
void wane__place_decode(const uint8_t bytes[WANE__PLACE_BYTES], struct wane__place *place);

/* -------------------------------------------------------------------- build_replies.c */

/* A record as a part of its reply. Without `keyed`, kind and token are all that is known. */
struct wane__reply {
    uint64_t request, hash;
    uint32_t index;
    enum wane__kind kind;
    int32_t token;
    bool keyed;
    struct wane__slmt_key key;
    uint64_t place;
    int carriers, top_count, last_count;
    struct wane__candidate top[WANE__SLMT_DEPTH];
    int32_t last[WANE__TEN];
};
#define WANE__REPLY_MOST (27 + 20 + 4 + 8 * WANE__SLMT_DEPTH + 4 * WANE__TEN)
size_t wane__reply_encode(const struct wane__sample *sample, bool keyed, uint8_t bytes[WANE__REPLY_MOST]);
void wane__reply_decode(const uint8_t *bytes, struct wane__reply *reply);

/* What an entry's window is followed by. */
struct wane__chain {
    uint32_t first, count; /* in tokens; count 0: none */
    uint32_t tried;        /* places where it could have been proposed */
    double expected;       /* Σ of what the classifier expects there */
    uint32_t examples;
};

struct wane__position_pick {
    struct wane__slmt_position position;
    uint64_t place;
    uint32_t seen;
};

/* -------------------------------------------------------------------- the build */

struct wane__build {
    struct wane__build_options options;
    char *folder;
    size_t memory;
    struct wane__strata strata;
    struct wane__sorter *samples, *replies;
    char **names; /* of partial builds */
    int name_count;
    uint64_t records, fates[WANE__SAMPLE_FATES], kinds[WANE__KINDS];
    uint64_t kept; /* in the sort */

    struct wane__pick *pick; /* a heap, the worst first; sorted by key in the end */
    uint32_t picks;
    struct wane__pick_slot *index; /* picks by key, open addressing */
    uint32_t index_mask;
    int place_file;
    uint64_t place_bytes;

    struct wane__chain *chain; /* one a pick */
    int32_t *follow;           /* their tokens */
    uint32_t *followed;        /* how often a reply followed so far, one a token */
    size_t follows;

    struct wane__position_pick *position;
    uint32_t positions, positions_most;

    struct wane__phrases_example *example;
    size_t examples, example_room;
    uint64_t example_bound; /* hashes up to it are taken */

    struct wane__slmt_entry *out_entry;
    struct wane__slmt_position *out_position;
    struct wane__slmt_continuation *out_continuation;
    uint8_t *phrases;
    size_t phrases_size;
    wane_table_report report;
};

/* WANE_OK, or WANE_ECANCELLED when the caller wants no more. */
int wane__build_progress(struct wane__build *build, const char *what, double share, wane_error *error);
const struct wane__pick *wane__build_find(const struct wane__build *build, struct wane__slmt_key key);
/* Once the picks are in order: so that they are found. */
int wane__build_index(struct wane__build *build, wane_error *error);
/* Times that a window must have been seen before it counts as compared: two at least. */
uint32_t wane__build_need(const struct wane__build *build);

/* What was read, into the report. */
void wane__build_count(struct wane__build *build);
int wane__build_keys(struct wane__build *build, wane_error *error);
int wane__build_positions(struct wane__build *build, wane_error *error);
/* Propose continuations, and hold them against the replies. */
int wane__build_chains(struct wane__build *build, wane_error *error);
int wane__build_replies(struct wane__build *build, wane_error *error);

#endif
