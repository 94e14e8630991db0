/*
 * distance.h - how far two token lists are from each other: insertions, removals and exchanges of single tokens (Levenshtein).
 *
 * A column of the table is kept as bits, 64 rows a word (Myers 1999, doi 10.1145/316542.316550; for any length, Hyyrö 2003):
 * two answers of 4,096 tokens take a quarter of a million steps instead of 17 million.
 */
#ifndef WANE_CORRECT_DISTANCE_H
#define WANE_CORRECT_DISTANCE_H

#include <stddef.h>
#include <stdint.h>

/* 0 … max(a_count, b_count); -1: no memory. */
int64_t wane__token_distance(const int32_t *a, size_t a_count, const int32_t *b, size_t b_count);

#endif
