/*
 * pattern.h - a regular expression of ICU's that comes from outside: bounded in the time and memory of a search, and what is wrong with
 * one that cannot be read.
 */
#ifndef WANE_CORE_PATTERN_H
#define WANE_CORE_PATTERN_H

#include <stddef.h>
#include <stdint.h>
#include <unicode/uregex.h>

/* Bytes that backtracking may take. */
enum { WANE__PATTERN_STACK = 1 << 20 };

struct wane__pattern_fault {
    int line, offset; /* from 1; from 0; where they are not known, 1 and 0 */
    const char *why;  /* ICU's name of it, static */
};

/*
 * `flags` are ICU's. A search takes at most `steps` of ten thousand steps of its engine each, about a millisecond: the same on every machine.
 * WANE_EINVAL fills `fault`; WANE_ENOMEM. To be closed with uregex_close.
 */
int wane__pattern_open(const char *text, size_t size, uint32_t flags, int steps, URegularExpression **out,
                       struct wane__pattern_fault *fault);

#endif
