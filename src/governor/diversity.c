/*
 * diversity.c - counts words. Owns nothing between calls; refuses to know where texts come from.
 *
 * BLEU-4 is Papineni's and others' (2002): the geometric mean of four precisions, each n-gram counted at most as often as in the other
 * text that has it most often, times exp(1 - r/c) for a text that is shorter than the nearest other one. A precision of zero counts as half a match.
 */
#include "governor/diversity.h"

#include "core/error.h"
#include "core/figures.h"
#include "core/memory.h"
#include "core/pattern.h"
#include "core/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unicode/uchar.h>
#include <unicode/utext.h>
#include <unicode/utf8.h>
#include <xxhash.h>

enum { BLEU = 4, DRAWS = 10000, SEARCH_STEPS = 100 };

/* ---------------------------------------------------------------------- words */

static bool is_han(UChar32 c) {
    return c >= 0x3400 && c <= 0x9fff;
}

static bool is_of_word(UChar32 c) {
    int kind = u_charType(c);
    bool mark = kind == U_NON_SPACING_MARK || kind == U_ENCLOSING_MARK || kind == U_COMBINING_SPACING_MARK;
    return !is_han(c) &&
           (u_isalnum(c) || mark || kind == U_OTHER_NUMBER || kind == U_LETTER_NUMBER || c == '_');
}

bool wane__words_of(const char *text, size_t size, struct wane__words *words) {
    XXH3_state_t *state = XXH3_createState();
    *words =
        (struct wane__words){wane__alloc_zero(size + 1, sizeof *words->list), 0}; /* no word without a byte */
    if (words->list == NULL || state == NULL) {
        XXH3_freeState(state);
        wane__words_free(words);
        return false;
    }
    bool open = false;
    for (size_t at = 0; at < size;) {
        UChar32 c;
        U8_NEXT_OR_FFFD((const uint8_t *)text, at, size, c);
        c = u_tolower(c);
        bool inside = is_of_word(c);
        if (open && !inside) words->list[words->count++] = XXH3_64bits_digest(state);
        if (!open || !inside) XXH3_64bits_reset(state);
        open = inside;
        XXH3_64bits_update(state, &c, sizeof c);
        if (!inside && !u_isUWhiteSpace(c)) words->list[words->count++] = XXH3_64bits_digest(state);
    }
    if (open) words->list[words->count++] = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return true;
}

void wane__words_free(struct wane__words *words) {
    wane__free(words->list);
    *words = (struct wane__words){0};
}

int wane__words_loop(const struct wane__words *words) {
    for (int period = 1; period <= WANE__LOOP_PERIOD && (size_t)period * WANE__LOOP_TIMES <= words->count;
         period++) {
        int need = (WANE__LOOP_TIMES - 1) * period, run = 0;
        if (need < WANE__LOOP_WORDS - period) need = WANE__LOOP_WORDS - period;
        for (size_t at = (size_t)period; at < words->count; at++) {
            run = words->list[at] == words->list[at - (size_t)period] ? run + 1 : 0;
            if (run >= need) return period;
        }
    }
    return 0;
}

/* --------------------------------------------------------------------- n-grams */

static int ascending(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static size_t grams_in(const struct wane__words *words, int n) {
    return words->count >= (size_t)n ? words->count - (size_t)n + 1 : 0;
}

static void add_grams(const struct wane__words *words, int n, uint64_t *out) {
    for (size_t i = 0; i < grams_in(words, n); i++)
        out[i] = XXH3_64bits(words->list + i, (size_t)n * sizeof *words->list);
}

bool wane__words_distinct(const struct wane__words *texts, size_t count, int n, size_t *different,
                          size_t *all) {
    *different = *all = 0;
    for (size_t i = 0; i < count; i++) *all += grams_in(&texts[i], n);
    if (*all == 0) return true;
    uint64_t *list = wane__alloc_zero(*all, sizeof *list), *at = list;
    if (list == NULL) return false;
    for (size_t i = 0; i < count; at += grams_in(&texts[i], n), i++) add_grams(&texts[i], n, at);
    qsort(list, *all, sizeof *list, ascending);
    for (size_t i = 0; i < *all; i++) *different += i == 0 || list[i] != list[i - 1];
    wane__free(list);
    return true;
}

/* Sorted n-grams of each text, n from 1 on. */
struct grams {
    uint64_t *list[BLEU];
    size_t count[BLEU], words;
};

static bool gather(const struct wane__words *words, struct grams *g) {
    bool fine = true;
    *g = (struct grams){.words = words->count};
    for (int n = 1; n <= BLEU; n++) {
        g->count[n - 1] = grams_in(words, n);
        g->list[n - 1] = wane__alloc_zero(g->count[n - 1] + 1, sizeof **g->list);
        fine = fine && g->list[n - 1] != NULL;
        if (g->list[n - 1] == NULL) continue;
        add_grams(words, n, g->list[n - 1]);
        qsort(g->list[n - 1], g->count[n - 1], sizeof **g->list, ascending);
    }
    return fine;
}

/* How often a sorted list holds it. */
static size_t times(const uint64_t *list, size_t count, uint64_t gram) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (list[middle] < gram)
            low = middle + 1;
        else
            high = middle;
    }
    for (high = low; high < count && list[high] == gram;) high++;
    return high - low;
}

/* Of text `own`'s n-grams, how many another has as well. */
static size_t matched(const struct grams *texts, size_t count, size_t own, int n) {
    const uint64_t *list = texts[own].list[n];
    size_t sum = 0;
    for (size_t i = 0, same; i < texts[own].count[n]; i += same) {
        size_t most = 0;
        for (same = 1; i + same < texts[own].count[n] && list[i + same] == list[i];) same++;
        for (size_t k = 0; k < count && most < same; k++) {
            size_t has = k != own ? times(texts[k].list[n], texts[k].count[n], list[i]) : 0;
            if (has > most) most = has;
        }
        sum += most < same ? most : same;
    }
    return sum;
}

/* The length of the other text that is nearest in length; of two the shorter. */
static size_t nearest_length(const struct grams *texts, size_t count, size_t own) {
    size_t best = 0, gap = SIZE_MAX, words = texts[own].words;
    for (size_t k = 0; k < count; k++) {
        size_t other = texts[k].words, off = other > words ? other - words : words - other;
        if (k == own || off > gap || (off == gap && other > best)) continue;
        gap = off;
        best = other;
    }
    return best;
}

static double bleu(const struct grams *texts, size_t count, size_t own) {
    double sum = 0, words = (double)texts[own].words;
    for (int n = 0; n < BLEU; n++) {
        if (texts[own].count[n] == 0) return 0;
        double hits = (double)matched(texts, count, own, n);
        sum += log((hits > 0.5 ? hits : 0.5) / (double)texts[own].count[n]) / BLEU;
    }
    double nearest = (double)nearest_length(texts, count, own);
    return exp(sum) * (words >= nearest ? 1 : exp(1 - nearest / words));
}

static bool self_bleu(const struct wane__words *texts, size_t count, double *out) {
    struct grams *grams = wane__alloc_zero(count, sizeof *grams);
    bool fine = grams != NULL;
    double sum = 0;
    for (size_t i = 0; i < count && fine; i++) fine = gather(&texts[i], &grams[i]);
    for (size_t i = 0; i < count && fine; i++) sum += bleu(grams, count, i);
    *out = sum / (double)count;
    for (size_t i = 0; i < count && grams != NULL; i++)
        for (int n = 0; n < BLEU; n++) wane__free(grams[i].list[n]);
    wane__free(grams);
    return fine;
}

/* ------------------------------------------------------------------- of texts */

static int no_memory(wane_error *error) {
    return wane__fail(error, WANE_ENOMEM, "No memory for the words of a text.");
}

int wane_diversity_of(const char *const *texts, size_t count, wane_diversity *out, wane_error *error) {
    struct wane__words *words = wane__alloc_zero(count + 1, sizeof *words);
    bool fine = words != NULL;
    wane__clear(error);
    *out = (wane_diversity){.self_bleu = NAN};
    for (size_t i = 0; i < count && fine; i++) fine = wane__words_of(texts[i], strlen(texts[i]), &words[i]);
    for (int n = 1; n <= WANE_GRAMS && fine; n++) {
        size_t different, all;
        fine = wane__words_distinct(words, count, n, &different, &all);
        out->distinct[n - 1] = fine && all > 0 ? (double)different / (double)all : (double)NAN;
    }
    if (count > 1 && fine) fine = self_bleu(words, count, &out->self_bleu);
    for (size_t i = 0; i < count && words != NULL; i++) wane__words_free(&words[i]);
    wane__free(words);
    return fine ? WANE_OK : no_memory(error);
}

int wane_text_loop(const char *text, size_t size, int *period, wane_error *error) {
    struct wane__words words;
    wane__clear(error);
    *period = 0;
    if (!wane__words_of(text, size, &words)) return no_memory(error);
    *period = wane__words_loop(&words);
    wane__words_free(&words);
    return WANE_OK;
}

int wane_text_finds(const char *pattern, const char *text, size_t size, int characters, bool *found,
                    wane_error *error) {
    UErrorCode status = U_ZERO_ERROR;
    URegularExpression *expression = NULL;
    struct wane__pattern_fault fault = {0};
    size_t end = 0;
    wane__clear(error);
    *found = false;
    for (int i = 0; i < characters && end < size; i++) U8_FWD_1((const uint8_t *)text, end, size);
    int code = wane__pattern_open(pattern, strlen(pattern), UREGEX_CASE_INSENSITIVE, SEARCH_STEPS,
                                  &expression, &fault);
    if (code == WANE_ENOMEM) return no_memory(error);
    if (code != WANE_OK)
        return wane__fail(error, WANE_EINVAL, "The pattern \"%.100s\" is wrong near its character %d: %s.",
                          pattern, fault.offset, fault.why);
    UText *opened = utext_openUTF8(NULL, text, (int64_t)end, &status);
    uregex_setUText(expression, opened, &status);
    *found = uregex_find(expression, 0, &status) && U_SUCCESS(status);
    if (opened != NULL) utext_close(opened);
    uregex_close(expression);
    return WANE_OK; /* a search that took too long found nothing */
}

/* ------------------------------------------------------------------- intervals */

wane_interval wane_share_interval(uint64_t right, uint64_t all) {
    wane_interval out = {all > 0 ? (double)right / (double)all : (double)NAN, 0, 0};
    wane__share_interval((double)right, (double)all, &out.low, &out.high);
    return out;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int wane_mean_interval(const double *values, size_t count, uint64_t seed, wane_interval *out,
                       wane_error *error) {
    double sum = 0;
    bool flat = true;
    wane__clear(error);
    *out = (wane_interval){NAN, NAN, NAN};
    if (count == 0) return WANE_OK;
    for (size_t i = 0; i < count; i++) {
        sum += values[i];
        flat = flat && !(values[i] < values[0]) && !(values[i] > values[0]);
    }
    out->value = out->low = out->high = sum / (double)count;
    double bound = 1 - pow(0.025, 1 / (double)count);
    if (flat && fabs(values[0]) > 0) return WANE_OK;
    if (flat) {
        out->low = -bound;
        out->high = bound;
        return WANE_OK;
    }
    double *mean = wane__alloc_zero(DRAWS, sizeof *mean);
    if (mean == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for an interval.");
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
        for (size_t i = 0; i < count; i++) {
            size_t at = (size_t)(wane__random_unit(seed, draw * count + i) * (double)count);
            mean[draw] += values[at < count ? at : count - 1];
        }
        mean[draw] /= (double)count;
    }
    qsort(mean, DRAWS, sizeof *mean, by_size);
    out->low = mean[DRAWS / 40];
    out->high = mean[DRAWS - DRAWS / 40 - 1];
    wane__free(mean);
    return WANE_OK;
}

double wane_mcnemar(uint64_t better, uint64_t worse) {
    uint64_t all = better + worse, fewer = better < worse ? better : worse;
    double tail = 0, n = (double)all;
    for (uint64_t i = 0; i <= fewer; i++) {
        double k = (double)i;
        tail += exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) - n * log(2));
    }
    return fmin(1, 2 * tail);
}
