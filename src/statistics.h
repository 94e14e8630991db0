/*
 * statistics.h - mean and covariance of a model's hidden rows in a file, so that a sketch can be made for the traffic that it
 * will serve.
 *
 *     at  0  "wanestat"                        at 56  mean: d floats
 *         8  version 1, 32 bits                    then   the covariance's upper half, row by row: d (d + 1) / 2 floats
 *        12  d, 32 bits                            then   XXH3-64 of all that stands before
 *        16  rows, 64 bits
 *        24  the model's digest, 32 digits
 *
 * All of it little-endian.
 */
#ifndef WANE_STATISTICS_H
#define WANE_STATISTICS_H

#include "calibrate.h"

int wane__statistics_write(const char *path, const char *digest, int d, const struct wane__moments *moments,
                           wane_error *error);
/* Those of this model. WANE_EFORMAT with the reason for a file of another model, a damaged one, or no such file at all. */
int wane__statistics_read(const char *path, const char *digest, int d, struct wane__moments *moments,
                          wane_error *error);
/* The same from memory, for whoever has read it. `name` is for the error. */
int wane__statistics_parse(const void *bytes, size_t size, const char *name, const char *digest, int d,
                           struct wane__moments *moments, wane_error *error);

#endif
