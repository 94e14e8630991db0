/* metrics_text.h - numbers out of Prometheus text: by name, and by what labels must say. */
#ifndef WANE_CLI_METRICS_TEXT_H
#define WANE_CLI_METRICS_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The sum of all samples called `name` whose labels hold each of `labels`: NULL, or "route=\"/v1/messages\"" with commas between; NAN where there
 * is none, or one of them is no number.
 */
double metrics_value(const char *text, const char *name, const char *labels);
/*
 * The value of a label of the first sample called `name`, without escapes, into `out`; false where there is none.
 */
bool metrics_label(const char *text, const char *name, const char *label, char *out, size_t size);
/*
 * The values of a label in all samples called `name` that are above 0, with commas between, into `out`, cut where there is no more room;
 * false where there is none.
 */
bool metrics_which(const char *text, const char *name, const char *label, char *out, size_t size);
/* Does every line that is neither empty nor a comment have a name and a number? */
bool metrics_good(const char *text);

#endif
