/* text.c - memory and words; see text.h. Knows nothing of wane, so that the fuzz target can link it alone. */
#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *require(void *memory) {
    if (memory != NULL) return memory;
    fputs("wane: no memory\n", stderr);
    exit(1);
}

void *text_alloc(size_t size) {
    return require(calloc(1, size > 0 ? size : 1));
}
void *text_grow(void *old, size_t size) {
    return require(realloc(old, size > 0 ? size : 1));
}
char *text_copy(const char *text) {
    return require(strdup(text));
}

char *text_copy_part(const char *text, size_t size) {
    char *copy = text_alloc(size + 1);
    memcpy(copy, text, size);
    return copy;
}

char *text_format(const char *format, ...) {
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    int size = vasprintf(&text, format, arguments);
    va_end(arguments);
    return require(size < 0 ? NULL : text);
}

static int least(int a, int b) {
    return a < b ? a : b;
}

int text_distance(const char *a, const char *b) {
    enum { LONGEST = 40 }; /* longer words are not names of ours */
    int n = (int)strnlen(a, LONGEST + 1), m = (int)strnlen(b, LONGEST + 1);
    if (n > LONGEST || m > LONGEST) return 99;
    int cost[LONGEST + 1][LONGEST + 1];
    for (int i = 0; i <= n; i++) cost[i][0] = i;
    for (int j = 0; j <= m; j++) cost[0][j] = j;
    for (int i = 1; i <= n; i++)
        for (int j = 1; j <= m; j++) {
            int best = least(cost[i - 1][j], cost[i][j - 1]) + 1;
            best = least(best, cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = least(best, cost[i - 2][j - 2] + 1);
            cost[i][j] = best;
        }
    return cost[n][m];
}

void nearest_offer(struct nearest *nearest, const char *candidate) {
    int distance = text_distance(nearest->wanted, candidate);
    /* Half the letters may differ: beyond that a hint confuses. */
    if (2 * distance > (int)strlen(candidate)) return;
    if (nearest->found == NULL || distance < nearest->distance) {
        nearest->found = candidate;
        nearest->distance = distance;
    }
}

/* Length of the UTF-8 character at `s`, 0 if there is none. */
static size_t character(const unsigned char *s, size_t left) {
    if (s[0] < 0x80) return 1;
    size_t need = s[0] >= 0xC2 && s[0] < 0xE0   ? 2
                  : s[0] >= 0xE0 && s[0] < 0xF0 ? 3
                  : s[0] >= 0xF0 && s[0] < 0xF5 ? 4
                                                : 0;
    if (need == 0 || left < need) return 0;
    for (size_t i = 1; i < need; i++)
        if ((s[i] & 0xC0) != 0x80) return 0;
    bool wrong = (s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) ||
                 (s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F);
    return wrong ? 0 : need;
}

size_t text_utf8_prefix(const char *text, size_t size) {
    size_t at = 0;
    while (at < size) {
        size_t length = character((const unsigned char *)text + at, size - at);
        if (length == 0) break;
        at += length;
    }
    return at;
}
