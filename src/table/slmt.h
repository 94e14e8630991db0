/*
 * slmt.h - what a table holds, as the builder gives it and the lookup reads it. docs/slmt.md specifies the file.
 *
 *     key (tenant and last 3 tokens; from 4,096 tokens of context on the last ten as well)
 *       └─► entry: five best (token, logit), how often seen, how stable
 *             ├─► positions: the five as they were at one relative position, and in which context
 *             └─► continuation: the tokens that mostly follow
 */
#ifndef WANE_TABLE_SLMT_H
#define WANE_TABLE_SLMT_H

#include "sample/sample.h"
#include "table/context.h"
#include "table/trace.h"

#define WANE__SLMT_VERSION           1
#define WANE__SLMT_DEPTH             5 /* candidates of an entry, most and by default */
#define WANE__SLMT_CONTINUATION_MOST 64
/* Relative positions below this are taken as recorded; from here on, between the two nearest records. */
#define WANE__SLMT_INTERPOLATED 1024

/* Keys are ordered by window, then by ten; ten is 0 for contexts below WANE__LONG_CONTEXT. */
struct wane__slmt_key {
    uint64_t window;
    uint32_t ten;
};

struct wane__slmt_entry {
    struct wane__slmt_key key;
    uint32_t seen;     /* samples                                                     */
    float stability;   /* mean pairwise cosine of the logits seen                     */
    float agreement;   /* share of the samples whose drawn token is top[0]            */
    float mass;        /* mean share of the probability that `top` carries            */
    uint8_t kinds;     /* bit 1 << kind for each kind it was seen in                  */
    uint8_t top_count; /* 1 … WANE__SLMT_DEPTH                                        */
    struct wane__candidate top[WANE__SLMT_DEPTH]; /* best first, mean logits          */
};

/* The five as they were in one place. Ordered by entry, then index, then context. */
struct wane__slmt_position {
    uint32_t entry;
    uint32_t index;   /* relative position                                           */
    uint32_t context; /* low 32 bits of wane__context_name.low of what stood before  */
    uint8_t top_count;
    struct wane__candidate top[WANE__SLMT_DEPTH];
};

/* What mostly follows an entry's window. Ordered by entry. */
struct wane__slmt_continuation {
    uint32_t entry;
    uint16_t count;
    float
        acceptance; /* estimate of the share of these tokens that will be accepted, by the phrase classifier; NaN: none */
    const int32_t *token;
};

/* A whole table, to be written; arrays in the orders named above. */
struct wane__slmt_content {
    struct wane__trace_origin origin;
    int64_t built_at; /* seconds since 1970; 0 where reproducible bytes are wanted */
    int window, depth;
    float min_stability, min_share;
    const struct wane__slmt_entry *entry;
    uint32_t entry_count;
    const struct wane__slmt_position *position;
    uint32_t position_count;
    const struct wane__slmt_continuation *continuation;
    uint32_t continuation_count;
    const void *phrases; /* the phrase classifier's weights as its own room writes them; NULL: none */
    size_t phrases_size;
};

/*
 * Write a table: to a temporary name beside `path`, synced, renamed. The same content gives the same bytes.
 * WANE_EINVAL when an order or a bound named above is broken, in words. Candidates are best first as in sample/order.h,
 * their logits finite, their tokens different. An entry has at most 65,535 positions.
 */
int wane__slmt_write(const char *path, const struct wane__slmt_content *content, wane_error *error);
/* The same in memory; wane__free it. */
int wane__slmt_build(const struct wane__slmt_content *content, unsigned char **image, size_t *size,
                     wane_error *error);

/*
 * How large a file becomes: at most so many bytes (but for keys that are no hashes), whatever the tokens are. 50,000
 * entries alone take 5.4 MB, a position 32 bytes where its tokens are its entry's and up to 52 where they are not.
 */
uint64_t wane__slmt_size(uint64_t entries, uint64_t positions, uint64_t continuation_tokens);
/* Exactly, for this content. */
int wane__slmt_measure(const struct wane__slmt_content *content, uint64_t *size, wane_error *error);

#endif
