/* repeat.c - questions that come again, and how alike their answers are; see repeat.h. Owns its scratch for one call. */
#include "ops/repeat.h"

#include "core/memory.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

struct reader {
    const char *at, *end;
};

static bool is_word(unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_rest(unsigned char c) { /* of a character */
    return (c & 0xc0) == 0x80;
}

/* The next unit's name; false at the end. Bytes that are no UTF-8 do no harm: each stray one goes with what is before it. */
static bool next_unit(struct reader *r, uint64_t *unit) {
    while (r->at < r->end && (unsigned char)*r->at < 0x80 && !is_word((unsigned char)*r->at)) r->at++;
    if (r->at == r->end) return false;
    const char *begin = r->at;
    if ((unsigned char)*begin >= 0x80) {
        do r->at++;
        while (r->at < r->end && is_rest((unsigned char)*r->at));
        *unit = XXH3_64bits(begin, (size_t)(r->at - begin));
        return true;
    }
    char lower[64];
    uint64_t name = 0;
    while (r->at < r->end && is_word((unsigned char)*r->at)) {
        size_t size = 0;
        for (; size < sizeof lower && r->at < r->end && is_word((unsigned char)*r->at); size++, r->at++)
            lower[size] = (char)(*r->at >= 'A' && *r->at <= 'Z' ? *r->at + 32 : *r->at);
        name = XXH3_64bits_withSeed(lower, size, name);
    }
    *unit = name;
    return true;
}

/* At least one unit, and all the same. */
static bool same_units(const wane_message *a, const wane_message *b) {
    struct reader x = {a->content, a->content + a->content_size},
                  y = {b->content, b->content + b->content_size};
    uint64_t u, v;
    for (bool any = false;; any = true) {
        bool more = next_unit(&x, &u), as_many = next_unit(&y, &v);
        if (!more || !as_many) return any && more == as_many;
        if (u != v) return false;
    }
}

static bool is_of(const wane_message *message, const char *role) {
    return strcmp(message->role, role) == 0;
}

const wane_message *wane__repeat_find(const wane_message *messages, size_t count) {
    if (count < 3 || !is_of(&messages[count - 1], "user")) return NULL;
    for (size_t i = count - 2; i > 0; i--)
        if (is_of(&messages[i], "assistant") && is_of(&messages[i - 1], "user") &&
            same_units(&messages[i - 1], &messages[count - 1]))
            return &messages[i];
    return NULL;
}

static int units_of(const char *text, size_t size, uint64_t units[WANE__REPEAT_UNITS]) {
    struct reader r = {text, text + (size < WANE__REPEAT_BYTES ? size : WANE__REPEAT_BYTES)};
    int count = 0;
    while (count < WANE__REPEAT_UNITS && next_unit(&r, &units[count])) count++;
    return count;
}

/* One row of the table of edit distances after the other. */
static int distance_of(const uint64_t *a, int a_count, const uint64_t *b, int b_count, int *row) {
    for (int j = 0; j <= b_count; j++) row[j] = j;
    for (int i = 1; i <= a_count; i++) {
        int corner = row[0];
        row[0] = i;
        for (int j = 1; j <= b_count; j++) {
            int change = corner + (a[i - 1] != b[j - 1]),
                less = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            corner = row[j];
            row[j] = change < less ? change : less;
        }
    }
    return row[b_count];
}

double wane__repeat_score(const char *a, size_t a_size, const char *b, size_t b_size) {
    struct scratch {
        uint64_t a[WANE__REPEAT_UNITS], b[WANE__REPEAT_UNITS];
        int row[WANE__REPEAT_UNITS + 1];
    } *s = wane__alloc(sizeof *s);
    if (s == NULL) return (double)NAN;
    int a_count = units_of(a, a_size, s->a), b_count = units_of(b, b_size, s->b);
    int most = a_count > b_count ? a_count : b_count;
    double score = most == 0 ? 1 : 1 - (double)distance_of(s->a, a_count, s->b, b_count, s->row) / most;
    wane__free(s);
    return score;
}
