/* distance.c - the edit distance of two token lists, 64 cells a step; owns its scratch for one call. See distance.h. */
#include "correct/distance.h"

#include "core/memory.h"

#include <stdbool.h>
#include <stdlib.h>

/* A token of the pattern and where it stands: sorted, so that all places of one token lie together. */
struct place {
    int32_t token;
    uint32_t at;
};

struct column {
    uint64_t *plus, *minus; /* vertical differences +1 and -1 */
    uint64_t *equal;        /* places of the text's token in the pattern; all zero between two tokens */
    size_t words;
    unsigned last; /* bit of the last row, in the last word */
};

static int by_token(const void *a, const void *b) {
    const struct place *x = a, *y = b;
    if (x->token != y->token) return x->token < y->token ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static size_t first_of(const struct place *places, size_t count, int32_t token) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (places[middle].token < token)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* One word of the next column; `carry`: the horizontal difference that enters above it. Returns the one that leaves below `bit`. */
static int advance(struct column *column, size_t w, int carry, unsigned bit) {
    uint64_t plus = column->plus[w], minus = column->minus[w], equal = column->equal[w];
    uint64_t vertical = equal | minus;
    equal |= carry < 0;
    uint64_t horizontal = (((equal & plus) + plus) ^ plus) | equal;
    uint64_t up = minus | ~(horizontal | plus), down = plus & horizontal;
    int out = (int)((up >> bit) & 1) - (int)((down >> bit) & 1);
    up = up << 1 | (carry > 0);
    down = down << 1 | (carry < 0);
    column->plus[w] = down | ~(vertical | up);
    column->minus[w] = up & vertical;
    return out;
}

/* Bits of the column where the pattern has `token`: set, or cleared again. */
static void mark(struct column *column, const struct place *places, size_t count, int32_t token, bool on) {
    for (size_t i = first_of(places, count, token); i < count && places[i].token == token; i++) {
        uint64_t *word = &column->equal[places[i].at / 64], bit = (uint64_t)1 << places[i].at % 64;
        *word = on ? *word | bit : *word & ~bit;
    }
}

static int64_t run(struct column *column, const struct place *places, size_t count, const int32_t *text,
                   size_t text_count) {
    int64_t distance = (int64_t)count;
    for (size_t w = 0; w < column->words; w++) column->plus[w] = ~(uint64_t)0;
    for (size_t i = 0; i < text_count; i++) {
        int carry = 1; /* the first row of the table counts up */
        mark(column, places, count, text[i], true);
        for (size_t w = 0; w < column->words; w++)
            carry = advance(column, w, carry, w + 1 == column->words ? column->last : 63);
        mark(column, places, count, text[i], false);
        distance += carry;
    }
    return distance;
}

int64_t wane__token_distance(const int32_t *a, size_t a_count, const int32_t *b, size_t b_count) {
    while (a_count > 0 && b_count > 0 && a[0] == b[0]) a++, a_count--, b++, b_count--;
    while (a_count > 0 && b_count > 0 && a[a_count - 1] == b[b_count - 1]) a_count--, b_count--;
    if (a_count == 0 || b_count == 0) return (int64_t)(a_count + b_count);
    struct column column = {.words = (a_count + 63) / 64, .last = (unsigned)((a_count - 1) % 64)};
    struct place *places = wane__alloc_zero(a_count, sizeof *places);
    uint64_t *bits = wane__alloc_zero(3 * column.words, sizeof *bits);
    int64_t distance = -1;
    if (places != NULL && bits != NULL) {
        for (size_t i = 0; i < a_count; i++) places[i] = (struct place){a[i], (uint32_t)i};
        qsort(places, a_count, sizeof *places, by_token);
        column.plus = bits;
        column.minus = bits + column.words;
        column.equal = bits + 2 * column.words;
        distance = run(&column, places, a_count, b, b_count);
    }
    wane__free(places);
    wane__free(bits);
    return distance;
}
