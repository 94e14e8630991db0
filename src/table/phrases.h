/*
 * phrases.h - the phrase classifier: how much of a learned continuation a reply will follow, judged by what stands before it.
 *
 * Two layers over hashed n-grams of the context and of the continuation: the sum of 12 rows of a table of 4,096 × 32, cut at
 * zero, then one output between 0 and 1: the expected share of the continuation's tokens that are accepted. 512 KiB.
 */
#ifndef WANE_TABLE_PHRASES_H
#define WANE_TABLE_PHRASES_H

#include "table/context.h"
#include "wane.h"

enum { WANE__PHRASES_BUCKETS = 4096, WANE__PHRASES_HIDDEN = 32, WANE__PHRASES_FEATURES = 12 };

/* One place where a continuation could have been proposed. */
struct wane__phrases_example {
    uint64_t hash;  /* order and choice of examples depend on it alone */
    uint32_t owner; /* of the caller */
    float share;    /* of the continuation's tokens that the reply followed */
    uint16_t feature[WANE__PHRASES_FEATURES];
    bool whole; /* it followed all of it */
    bool held;  /* not for training: its request measures the result */
};

struct wane__phrases;

/* What stands for a context and a continuation: `last` as in a trace's record, the nearest one last. */
void wane__phrases_features(const int32_t *last, int last_count, const int32_t *follow, int count,
                            uint16_t feature[WANE__PHRASES_FEATURES]);
/*
 * Train on the examples that are not held. Sorts them. The same examples give the same weights, bit for bit. `progress` may
 * be NULL.
 */
int wane__phrases_train(struct wane__phrases_example *example, size_t count, struct wane__phrases **phrases,
                        wane_progress_fn progress, void *progress_user, wane_error *error);
void wane__phrases_free(struct wane__phrases *phrases);
/* 0 … 1 */
float wane__phrases_score(const struct wane__phrases *phrases,
                          const uint16_t feature[WANE__PHRASES_FEATURES]);
/* The same from the tokens. */
float wane__phrases_expect(const struct wane__phrases *phrases, const int32_t *last, int last_count,
                           const int32_t *follow, int count);
/*
 * How often an example that was followed to its end scores above one that was not, among the held (or all); NaN where one of
 * the two kinds is missing. `scored`: examples that took part; may be NULL.
 */
double wane__phrases_auc(const struct wane__phrases *phrases, const struct wane__phrases_example *example,
                         size_t count, bool held_only, size_t *scored);

/* The section of a table's file; docs/table.md has its layout. wane__free it. */
int wane__phrases_save(const struct wane__phrases *phrases, uint8_t **bytes, size_t *size, wane_error *error);
/* WANE_EFORMAT when the bytes are not such a section, down to each weight. Nothing of `bytes` is kept. */
int wane__phrases_load(const void *bytes, size_t size, struct wane__phrases **phrases, wane_error *error);

#endif
