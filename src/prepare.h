/* prepare.h - the steps of text preparation, each for a stretch without code fences; prepare.c strings them together. */
#ifndef WANE_PREPARE_STEPS_H
#define WANE_PREPARE_STEPS_H

#include "core/buf.h"
#include "wane.h"

/* The character at `*at`, which moves behind it; negative for what is none. */
int32_t wane__prepare_char(const char **at, const char *end);

struct UBreakIterator; /* ICU's */

/* What a step knows beside the stretch. */
struct wane__prepare {
    uint64_t changes; /* of this step, so far                                              */
    int sentences;    /* of the whole text: none is marked where there is only one         */
    int marked;       /* sentences that have their mark already                            */
    struct UBreakIterator
        *breaks; /* of sentences: opened once, since that takes a millisecond; NULL: not yet */
};

void wane__prepare_close(struct wane__prepare *prepare);

/* Append the prepared stretch to `out`, whose `failed` tells of missing memory. The stretch is UTF-8. */
typedef int wane__prepare_step(struct wane__prepare *prepare, const char *text, size_t size,
                               struct wane__buf *out, wane_error *error);

wane__prepare_step wane__prepare_invisible, wane__prepare_nfc, wane__prepare_tables, wane__prepare_nouns;
wane__prepare_step wane__prepare_unmark, wane__prepare_count, wane__prepare_mark; /* segments, in three */

#endif
