/*
 * features.h - a text as a short list of hashed n-grams, of whatever language: what the linear models of this room see of it.
 *
 *     text ─► UTF-16, NFC, case folded, digits as 0 ─► words, pairs of words, pieces of words; for scripts without blanks
 *     characters, pairs and triples of them ─► (bucket, √times · weight of its kind), divided by the list's length
 *
 * The same text gives the same list on every machine. Owns the list; refuses nothing: what is not UTF-8 counts as U+FFFD.
 */
#ifndef WANE_GOVERNOR_FEATURES_H
#define WANE_GOVERNOR_FEATURES_H

#include "wane.h"

/* Bytes of a text that are looked at. Of a longer one: so many at its beginning and at its end, half of each. */
enum { WANE__FEATURES_TEXT_MOST = 8192, WANE__FEATURES_BITS_MOST = 22 };

struct wane__feature {
    uint32_t bucket;
    float value;
};

struct wane__features {
    struct wane__feature *at; /* ascending buckets, each once */
    size_t count, room;
};

/*
 * Add a text's list to `features` (start from {0}) as one part: buckets below 1 << `bits`, chosen by hash and `seed`, so that the same
 * word in two parts has two buckets. Each part has length 1, or is empty.
 */
int wane__features_add(struct wane__features *features, const char *text, size_t size, uint64_t seed,
                       unsigned bits, wane_error *error);
void wane__features_free(struct wane__features *features);

#endif
