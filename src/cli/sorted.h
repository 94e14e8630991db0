/* sorted.h - numbers in order, and what stands at a share of them. */
#ifndef WANE_CLI_SORTED_H
#define WANE_CLI_SORTED_H

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

static inline int sorted_compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline void sort_numbers(double *values, size_t count) {
    if (count > 0) qsort(values, count, sizeof *values, sorted_compare);
}

/* The share `p` of sorted values, of which there is one at least, is at most this. */
static inline double sorted_quantile(const double *sorted, size_t count, double p) {
    size_t at = (size_t)ceil(p * (double)count);
    return sorted[at > 0 ? at - 1 : 0];
}

#endif
