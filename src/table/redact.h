/*
 * redact.h - which parts of a text must not be recorded: a list of patterns.
 *
 * A file holds one POSIX extended regular expression a line; blank lines and lines that begin with # are passed over. They
 * are matched byte by byte, whatever the locale; "." and lists of what not to match do not match line ends, ^ and $ match
 * at each line's. Patterns that match nothing at all ("x*" does) are refused: they would match everywhere.
 */
#ifndef WANE_TABLE_REDACT_H
#define WANE_TABLE_REDACT_H

#include "wane.h"

#define WANE__REDACT_PATTERNS 1000
#define WANE__REDACT_PATTERN  4096

struct wane__redact;

/* Faults name the line: WANE_EFORMAT. A list without a pattern is one, too: it would seem to protect. */
int wane__redact_parse(const char *text, size_t size, struct wane__redact **redact, wane_error *error);
int wane__redact_load(const char *path, struct wane__redact **redact, wane_error *error);
void wane__redact_free(struct wane__redact *redact);

/* Call `found` for each match, in no order; matches may overlap. `text` is terminated; zeros in it are changed to ones. */
void wane__redact_find(const struct wane__redact *redact, char *text, size_t size,
                       void (*found)(void *user, size_t from, size_t to), void *user);

#endif
