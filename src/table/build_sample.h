/*
 * build_sample.h - one record of a trace as the builder sorts it: bytes that compare in the order that the builder wants.
 *
 *     0   window    8, big-endian       the key …
 *     8   ten       4, big-endian
 *     12  index     4, big-endian       … the place: relative position, and what stood before
 *     16  place     8, big-endian
 *     24  hash      8, big-endian       of the record: an order that has nothing to do with arrival
 *     32  request   8, little-endian from here on
 *     40  tenant    8
 *     48  token     4
 *     52  kind, last_count, top_count, carriers
 *     56  log_sum   4
 *     60  last, 4 each │ tokens of top, 4 each │ logits of top, 4 each
 *
 * Samples of one key stand together, those of one place in it, too. What it says is checked when it is read.
 */
#ifndef WANE_TABLE_BUILD_SAMPLE_H
#define WANE_TABLE_BUILD_SAMPLE_H

#include "core/bytes.h"
#include "table/slmt.h"

#define WANE__SAMPLE_MOST (60 + 4 * WANE__TEN + 8 * WANE__TRACE_TOP)

struct wane__sample {
    struct wane__slmt_key key;
    uint32_t index;
    uint64_t place; /* low half of the name of all that stood before */
    uint64_t hash, request, tenant;
    int32_t token;
    enum wane__kind kind;
    int last_count, top_count;
    int carriers; /* best candidates that carry 95 % of the probability; 0: more than five */
    float log_sum;
    int32_t last[WANE__TEN]; /* the nearest one last in the first last_count */
    struct wane__candidate top[WANE__TRACE_TOP];
};

/* Why a record is of no use to a table. */
enum wane__sample_fate {
    WANE__SAMPLE_GOOD,
    WANE__SAMPLE_CHANGED, /* a correction had a hand in it */
    WANE__SAMPLE_SHORT,   /* fewer tokens stand before it than a window has */
    WANE__SAMPLE_EMPTY,   /* no finite candidates */
    WANE__SAMPLE_FATES
};

/*
 * From a record of a trace. `fate` says whether `sample` was filled. WANE_EFORMAT when it names tokens outside the
 * vocabulary, or candidates that are not best first.
 */
int wane__sample_from(const struct wane__trace_token *record, int window, int vocab_size,
                      struct wane__sample *sample, enum wane__sample_fate *fate, wane_error *error);
/* The bytes; their number is returned. Sets sample->hash. */
size_t wane__sample_encode(struct wane__sample *sample, uint8_t bytes[WANE__SAMPLE_MOST]);
/* WANE_EFORMAT when the bytes are no sample. `name` says where they are from. */
int wane__sample_decode(const uint8_t *bytes, size_t size, int vocab_size, const char *name,
                        struct wane__sample *sample, wane_error *error);

/* Of encoded bytes, without decoding them. */
uint64_t wane__sample_hash(const uint8_t *bytes);
enum wane__kind wane__sample_kind(const uint8_t *bytes);

#endif
