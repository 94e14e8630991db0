/* certified_sum.c - bounds of the normaliser. */
#include "head/certified.h"

int wane__head_log_sum_bounds(struct wane__source *source, float scale, const int32_t *skip, int skips,
                              double *low, double *high) {
    int status = source->log_sum(source, scale, skip, skips, low);
    *high = *low;
    return status;
}
