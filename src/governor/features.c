/*
 * features.c - hashed n-grams; see features.h. Each n-gram's hash is folded from code points by integers alone; values are square
 * roots and quotients, so that lists do not depend on the machine.
 */
#include "governor/features.h"

#include "core/error.h"
#include "core/memory.h"
#include "core/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/uscript.h>
#include <unicode/ustring.h>

enum {
    /* NFC and folding make at most 6 units of 4 bytes. */
    UNITS_MOST = 2 * WANE__FEATURES_TEXT_MOST + 16,
    PIECE_LEAST = 3, /* of a word, blanks at its ends included */
    PIECE_MOST = 5,
    WORD_MOST = 40, /* characters of a word that are looked at */
    GRAMS = 3       /* of characters in scripts without blanks */
};

/* What an n-gram is: part of its hash, and how much it counts. */
enum kind { WORD = 1, PAIR, PIECE, GRAM };
static const float weight_of_piece = 0.4f, weight_of_pair = 0.7f;
static const float weight_of_gram[GRAMS] = {1.2f, 1.0f, 0.5f};

struct counted {
    uint32_t bucket;
    float weight;
};

struct listing {
    struct counted *at;
    size_t count, room;
    uint64_t seed;
    uint32_t mask;
    bool failed;
};

/* ------------------------------------------------------------------- text */

struct scratch {
    UChar one[UNITS_MOST], two[UNITS_MOST];
    char bytes[WANE__FEATURES_TEXT_MOST + 8];
    uint32_t point[UNITS_MOST];
};

/* The beginning and the end of a long text. A character that is cut there counts as U+FFFD. */
static size_t shorten(const char *text, size_t size, char *out) {
    size_t half = WANE__FEATURES_TEXT_MOST / 2;
    if (size <= WANE__FEATURES_TEXT_MOST) {
        if (size > 0) memcpy(out, text, size);
        return size;
    }
    memcpy(out, text, half);
    out[half] = ' ';
    memcpy(out + half + 1, text + size - half, half);
    return 2 * half + 1;
}

/* In `s->one` afterwards; the number of units, or -1. */
static int32_t normalise(struct scratch *s, size_t size) {
    UErrorCode status = U_ZERO_ERROR;
    int32_t units = 0;
    const UNormalizer2 *nfc = unorm2_getNFCInstance(&status);
    u_strFromUTF8WithSub(s->one, UNITS_MOST, &units, s->bytes, (int32_t)size, 0xfffd, NULL, &status);
    units = unorm2_normalize(nfc, s->one, units, s->two, UNITS_MOST, &status);
    units = u_strFoldCase(s->one, UNITS_MOST, s->two, units, U_FOLD_CASE_DEFAULT, &status);
    units = unorm2_normalize(nfc, s->one, units, s->two, UNITS_MOST, &status);
    if (U_FAILURE(status)) return -1;
    memcpy(s->one, s->two, (size_t)units * sizeof *s->one);
    return units;
}

static bool without_blanks(UChar32 c) {
    UErrorCode status = U_ZERO_ERROR;
    UScriptCode script = uscript_getScript(c, &status);
    return script == USCRIPT_HAN || script == USCRIPT_HIRAGANA || script == USCRIPT_KATAKANA ||
           script == USCRIPT_THAI || script == USCRIPT_LAO || script == USCRIPT_KHMER ||
           script == USCRIPT_MYANMAR;
}

static bool in_word(UChar32 c) {
    return u_isalnum(c) || (U_GET_GC_MASK(c) & U_GC_M_MASK) != 0;
}

/* No lone surrogates: the text was UTF-8. Code points with one blank for whatever lies between words; their number. */
static size_t plain_points(struct scratch *s, int32_t units) {
    size_t count = 0;
    for (int32_t i = 0; i < units;) {
        UChar32 c = s->one[i++];
        if (c >= 0xd800 && c < 0xdc00 && i < units)
            c = 0x10000 + ((c - 0xd800) << 10) + (s->one[i++] - 0xdc00);
        if (u_isdigit(c)) c = '0';
        if (in_word(c))
            s->point[count++] = (uint32_t)c;
        else if (count > 0 && s->point[count - 1] != ' ')
            s->point[count++] = ' ';
    }
    return count;
}

/* ------------------------------------------------------------------- n-grams */

static void put(struct listing *l, uint64_t hash, enum kind kind, float weight) {
    if (l->count == l->room) {
        size_t room = l->room > 0 ? 2 * l->room : 1024;
        struct counted *more = wane__resize(l->at, room, sizeof *more);
        if (more == NULL) {
            l->failed = true;
            return;
        }
        l->at = more;
        l->room = room;
    }
    uint64_t mixed = wane__mix64(hash ^ wane__mix64(l->seed + (uint64_t)kind));
    l->at[l->count++] = (struct counted){(uint32_t)(mixed >> 32) & l->mask, weight};
}

static uint64_t fold(const uint32_t *point, size_t count) {
    uint64_t hash = count;
    for (size_t i = 0; i < count; i++) hash = wane__mix64(hash ^ point[i]);
    return hash;
}

static void put_pieces(struct listing *l, const uint32_t *word, size_t count) {
    uint32_t framed[WORD_MOST + 2] = {' '};
    memcpy(framed + 1, word, count * sizeof *word);
    framed[count + 1] = ' ';
    for (size_t n = PIECE_LEAST; n <= PIECE_MOST; n++)
        for (size_t i = 0; i + n <= count + 2; i++) put(l, fold(framed + i, n), PIECE, weight_of_piece);
}

static void put_grams(struct listing *l, const uint32_t *run, size_t count) {
    for (size_t i = 0; i < count; i++)
        for (size_t n = 1; n <= GRAMS && i + n <= count; n++)
            put(l, fold(run + i, n), GRAM, weight_of_gram[n - 1]);
}

static void put_all(struct listing *l, const uint32_t *point, size_t count) {
    uint64_t before = 0; /* the word before, 0: none */
    for (size_t i = 0; i < count;) {
        size_t from = i;
        if (point[i] == ' ') {
            i++;
            continue;
        }
        bool dense = without_blanks((UChar32)point[i]);
        while (i < count && point[i] != ' ' && without_blanks((UChar32)point[i]) == dense) i++;
        if (dense) {
            put_grams(l, point + from, i - from);
            before = 0;
            continue;
        }
        size_t size = i - from < WORD_MOST ? i - from : WORD_MOST;
        uint64_t word = fold(point + from, size);
        put(l, word, WORD, 1);
        if (before != 0) put(l, wane__mix64(before) ^ word, PAIR, weight_of_pair);
        put_pieces(l, point + from, size);
        before = word;
    }
}

/* ------------------------------------------------------------------- the list */

static int by_bucket(const void *a, const void *b) {
    const struct counted *x = a, *y = b;
    if (x->bucket != y->bucket) return x->bucket < y->bucket ? -1 : 1;
    return (x->weight < y->weight) - (x->weight > y->weight); /* two kinds in one bucket: in one order */
}

static int features_ascend(const void *a, const void *b) {
    const struct wane__feature *x = a, *y = b;
    return (x->bucket > y->bucket) - (x->bucket < y->bucket);
}

/* Equal buckets of two parts become one. */
static void join(struct wane__features *f) {
    size_t to = 0;
    qsort(f->at, f->count, sizeof *f->at, features_ascend);
    for (size_t i = 0; i < f->count; i++) {
        if (to > 0 && f->at[to - 1].bucket == f->at[i].bucket)
            f->at[to - 1].value += f->at[i].value;
        else
            f->at[to++] = f->at[i];
    }
    f->count = to;
}

static bool append(struct wane__features *f, struct listing *l) {
    size_t first = f->count;
    double square = 0;
    if (l->count == 0) return true;
    if (f->room < f->count + l->count) {
        struct wane__feature *more = wane__resize(f->at, f->count + l->count, sizeof *more);
        if (more == NULL) return false;
        f->at = more;
        f->room = f->count + l->count;
    }
    qsort(l->at, l->count, sizeof *l->at, by_bucket);
    for (size_t i = 0; i < l->count;) {
        size_t j = i;
        while (j < l->count && l->at[j].bucket == l->at[i].bucket) j++;
        float value = sqrtf((float)(j - i)) * l->at[i].weight;
        f->at[f->count++] = (struct wane__feature){l->at[i].bucket, value};
        square += (double)value * (double)value;
        i = j;
    }
    float length = (float)sqrt(square);
    for (size_t i = first; i < f->count; i++) f->at[i].value /= length;
    if (first > 0) join(f);
    return true;
}

int wane__features_add(struct wane__features *features, const char *text, size_t size, uint64_t seed,
                       unsigned bits, wane_error *error) {
    struct scratch *s = wane__alloc(sizeof *s);
    struct listing list = {.seed = seed, .mask = (uint32_t)((1u << bits) - 1)};
    int32_t units = -1;
    if (s != NULL) units = normalise(s, shorten(text, size, s->bytes));
    if (units >= 0) {
        put_all(&list, s->point, plain_points(s, units));
        if (!list.failed && !append(features, &list)) list.failed = true;
    }
    bool none = s == NULL || list.failed;
    wane__free(list.at);
    wane__free(s);
    if (none) return wane__fail(error, WANE_ENOMEM, "No memory to look at a text.");
    return units >= 0 ? WANE_OK : wane__fail(error, WANE_EINTERNAL, "ICU cannot normalise a text.");
}

void wane__features_free(struct wane__features *features) {
    wane__free(features->at);
    *features = (struct wane__features){0};
}
