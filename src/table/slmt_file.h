/*
 * slmt_file.h - the bytes of a table's file; docs/slmt.md explains them.
 *
 *     0        header, one page
 *     4096     entries        64 bytes a slot, sorted, each at its place or just behind it
 *     …        positions      32 bytes a record
 *     …        continuations  16 bytes a record
 *     …        tokens         4 bytes each: what positions and continuations name
 *     …        phrases        as the phrase classifier writes them
 *
 * Each section begins on a page and is checked with the zeros behind it, so that no byte of a file is unguarded.
 */
#ifndef WANE_TABLE_SLMT_FILE_H
#define WANE_TABLE_SLMT_FILE_H

#include "core/rng.h"
#include "table/slmt.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "A table's file is little-endian, and so is every machine that this was written for."
#endif

#define WANE__SLMT_MAGIC "WANESLMT"
#define WANE__SLMT_PAGE  4096u
/* The names of src/table/context.c; another way of naming gets another number. */
#define WANE__SLMT_HASH 1u

enum {
    WANE__SLMT_ENTRIES,
    WANE__SLMT_POSITIONS,
    WANE__SLMT_CONTINUATIONS,
    WANE__SLMT_TOKENS,
    WANE__SLMT_PHRASES,
    WANE__SLMT_SECTIONS
};

struct wane__slmt_section {
    uint32_t kind;   /* its number above */
    uint32_t record; /* bytes of a record */
    uint64_t offset, size;
    uint64_t check; /* XXH3-64 of its bytes and of the zeros up to the next page */
};

struct wane__slmt_header {
    char magic[8];
    uint32_t version, header_size;
    uint32_t hash, sections;
    uint64_t file_size;
    char model[32], tokenizer[32];
    uint32_t vocab_size, trace_version;
    int64_t built_at;
    uint32_t window, depth;
    float min_stability, min_share;
    uint32_t entries, range; /* how many there are; places that keys are spread over */
    uint32_t slots;          /* range, what was pushed behind it, and one that is empty */
    uint32_t positions, continuations, tokens;
    uint32_t reserved[6]; /* 0 */
    struct wane__slmt_section section[WANE__SLMT_SECTIONS];
    uint8_t zeros[WANE__SLMT_PAGE - 176 - sizeof(struct wane__slmt_section) * WANE__SLMT_SECTIONS - 8];
    uint64_t check; /* XXH3-64 of all before it */
};
_Static_assert(sizeof(struct wane__slmt_header) == WANE__SLMT_PAGE, "the header is a page");
_Static_assert(sizeof(struct wane__slmt_section) == 32, "a section's row is 32 bytes");

/* One cache line. `shape` 0: the slot is empty, and all of it is zero. */
struct wane__slmt_slot {
    uint64_t window;
    uint32_t ten;
    uint32_t seen;
    float logit[WANE__SLMT_DEPTH];
    uint32_t position;        /* its first */
    uint16_t positions;       /* how many  */
    uint16_t stability;       /* -1 … 1 as 0 … 65535 */
    uint16_t agreement, mass; /* 0 … 1 as 0 … 65535  */
    uint8_t token[3 * WANE__SLMT_DEPTH];
    uint8_t shape; /* bits 0-2: how many candidates; bits 3-6: kinds */
};
_Static_assert(sizeof(struct wane__slmt_slot) == 64, "a slot is a cache line");

/*
 * `tokens`: either five numbers of 3 bits, the lowest first, each a candidate of the entry, 7 for none; or, with bit 31,
 * bits 28-30 how many and bits 0-27 where they begin among the section of tokens.
 */
struct wane__slmt_record {
    uint32_t index, context, tokens;
    float logit[WANE__SLMT_DEPTH];
};
_Static_assert(sizeof(struct wane__slmt_record) == 32, "a position is 32 bytes");
#define WANE__SLMT_OWN       0x80000000u
#define WANE__SLMT_REFERENCE 3 /* bits */
#define WANE__SLMT_NONE      7u
#define WANE__SLMT_OWN_BITS  28

struct wane__slmt_run {
    uint32_t slot;  /* of its entry */
    uint32_t first; /* of its tokens */
    uint32_t count;
    float acceptance; /* NaN: none */
};
_Static_assert(sizeof(struct wane__slmt_run) == 16, "a continuation is 16 bytes");

/* Most of each: what the fields above can count, and what a machine should be asked to hold. */
#define WANE__SLMT_ENTRIES_MOST   (UINT32_C(1) << 24)
#define WANE__SLMT_POSITIONS_MOST (UINT32_C(1) << 26)
#define WANE__SLMT_TOKENS_MOST    (UINT32_C(1) << WANE__SLMT_OWN_BITS)
#define WANE__SLMT_PHRASES_MOST   (UINT64_C(1) << 26)
#define WANE__SLMT_VOCAB_MOST     (1 << 24)
#define WANE__SLMT_AT_ONE_MOST    UINT16_MAX /* positions of one entry */

/* Where a key belongs. Windows are hashes already; those of long contexts would crowd where their windows are equal. */
static inline uint64_t wane__slmt_spread(struct wane__slmt_key key) {
    return key.ten == 0 ? key.window : wane__mix64(key.window + key.ten);
}

static inline uint32_t wane__slmt_place(uint64_t spread, uint32_t range) {
    return (uint32_t)((spread >> 32) * range >> 32);
}

/* Three keys in five places: the walk from a key's place to the key is less than one slot long. */
static inline uint32_t wane__slmt_range(uint32_t entries) {
    return entries + 2 * entries / 3 + 1;
}

static inline int32_t wane__slmt_token(const uint8_t *token) {
    return (int32_t)((uint32_t)token[0] | (uint32_t)token[1] << 8 | (uint32_t)token[2] << 16);
}

static inline uint64_t wane__slmt_page_up(uint64_t size) {
    return (size + WANE__SLMT_PAGE - 1) / WANE__SLMT_PAGE * WANE__SLMT_PAGE;
}

/* Compute all checks of a whole file in memory whose section table lies within it. */
void wane__slmt_seal(void *file);

#endif
