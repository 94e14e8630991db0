/* text.h - memory and words for the program: allocation that ends the program, likeness of words, UTF-8. */
#ifndef WANE_CLI_TEXT_H
#define WANE_CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Never NULL: without memory the program says so and ends with exit code 1. */
void *text_alloc(size_t size); /* zeroed */
void *text_grow(void *old, size_t size);
char *text_copy(const char *text);
char *text_copy_part(const char *text, size_t size);
char *text_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* How many letters must change, be left out, put in or swapped to make `a` into `b`; capped at 99. */
int text_distance(const char *a, const char *b);

/* Keeps the candidate that is most like `wanted`; start from {.wanted = …}. */
struct nearest {
    const char *wanted;
    const char *found; /* NULL while nothing is like it */
    int distance;
};
void nearest_offer(struct nearest *nearest, const char *candidate);

/* Bytes before the first that is not UTF-8; `size` if all are. */
size_t text_utf8_prefix(const char *text, size_t size);

#endif
