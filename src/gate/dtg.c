/* dtg.c - entropy, documents, threshold; see dtg.h. Owns nothing; refuses to guess what a text means. */
#include "gate/dtg.h"

#include "core/error.h"
#include "core/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---------------------------------------------------------------- entropy */

static int by_token(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

int wane__gate_entropy(const int32_t *tokens, size_t count, double *bits, wane_error *error) {
    *bits = 0;
    if (count == 0) return WANE_OK;
    int32_t *sorted = wane__alloc(count * sizeof *sorted);
    if (sorted == NULL) return wane__fail(error, WANE_ENOMEM, "No memory to count a prompt's tokens.");
    memcpy(sorted, tokens, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_token);
    double sum = 0; /* Σ c log2 c */
    for (size_t i = 0, j = 0; i < count; i = j) {
        while (j < count && sorted[j] == sorted[i]) j++;
        sum += (double)(j - i) * log2((double)(j - i));
    }
    wane__free(sorted);
    double h = log2((double)count) - sum / (double)count;
    *bits = h > 0 ? h : 0; /* a last bit below, of equal tokens */
    return WANE_OK;
}

/* -------------------------------------------------------------- documents */

static const char *const words[] = {"document", "doc", "passage", "article", "source", "file", "snippet"};
static const char *const chinese[] = {"文档", "文件", "资料", "材料", "文章"};
static const char *const numerals[] = {"一", "二", "三", "四", "五", "六", "七", "八", "九", "十"};
enum { WORDS = sizeof words / sizeof *words };

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Length of the text if it stands here, else 0. */
static size_t stands(const char *at, const char *end, const char *text) {
    size_t size = strlen(text);
    return (size_t)(end - at) >= size && strncasecmp(at, text, size) == 0 ? size : 0;
}

static int count_tags(const char *text, const char *end) {
    int count[WORDS] = {0}, most = 0;
    for (const char *at = text; at < end && (at = memchr(at, '<', (size_t)(end - at))) != NULL; at++) {
        for (int w = 0; w < WORDS; w++) {
            size_t size = stands(at + 1, end, words[w]);
            const char *behind = at + 1 + size;
            if (size == 0 || behind >= end) continue;
            if (*behind == '>' || *behind == '\n' || is_blank(*behind)) count[w]++;
        }
    }
    for (int w = 0; w < WORDS; w++) most = count[w] > most ? count[w] : most;
    return most;
}

/* "Document 3", with marks before the word and between word and number. */
static bool is_heading(const char *at, const char *end) {
    size_t size = 0;
    while (at < end && (is_blank(*at) || strchr("#*[(<>-_", *at) != NULL)) at++;
    for (int w = 0; w < WORDS && size == 0; w++) {
        size = stands(at, end, words[w]);
        if (size > 0 && at + size < end && is_letter(at[size])) size = 0;
    }
    for (size_t w = 0; w < sizeof chinese / sizeof *chinese && size == 0; w++)
        size = stands(at, end, chinese[w]);
    if (size == 0) return false;
    at += size;
    while (at < end && (is_blank(*at) || *at == '#')) at++;
    if (at < end && is_digit(*at)) return true;
    for (size_t n = 0; n < sizeof numerals / sizeof *numerals; n++)
        if (stands(at, end, numerals[n]) > 0) return true;
    return false;
}

static bool is_separator(const char *at, const char *end) {
    while (at < end && is_blank(*at)) at++;
    while (end > at && is_blank(end[-1])) end--;
    if (end - at < 3 || strchr("-=*_~", *at) == NULL || *at == '\0') return false;
    for (const char *c = at; c < end; c++)
        if (*c != *at) return false;
    return true;
}

static bool is_empty(const char *at, const char *end) {
    while (at < end && is_blank(*at)) at++;
    return at == end;
}

int wane__gate_documents(const char *text, size_t size) {
    const char *end = text + size;
    int headings = 0, separators = 0, stretches = 0;
    bool filled = false, after_empty = true;
    for (const char *at = text; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (stop == NULL) stop = end;
        if (after_empty && is_separator(at, stop)) {
            separators++;
            stretches += filled;
            filled = false;
        } else {
            headings += is_heading(at, stop);
            after_empty = is_empty(at, stop);
            filled = filled || !after_empty;
        }
        at = stop + 1;
    }
    stretches = separators > 0 ? stretches + filled : 0;
    int tags = count_tags(text, end), most = headings > stretches ? headings : stretches;
    return tags > most ? tags : most;
}

/* -------------------------------------------------------------- threshold */

float wane__gate_tau(const wane_quality *quality, double entropy, int documents) {
    double tau = (double)quality->odds_base + (double)quality->odds_entropy * log2(1 + entropy);
    if (documents > quality->documents) tau += (double)quality->odds_documents;
    return (float)tau;
}
