/*
 * profile.h - a governor's thresholds as text: the parser and the writer behind wane_profile_load and wane_profile_save.
 */
#ifndef WANE_GOVERNOR_PROFILE_H
#define WANE_GOVERNOR_PROFILE_H

#include "core/buf.h"
#include "wane.h"

/* A profile's file is at most so large. */
enum { WANE__PROFILE_BYTES = 64 << 10 };

/* `name` stands in the sentences: the file's. */
int wane__profile_parse(const char *name, const char *text, size_t size, wane_profile *profile,
                        wane_error *error);
/* Of a profile that wane_profile_check takes. WANE_ENOMEM. */
int wane__profile_write(const wane_profile *profile, struct wane__buf *out, wane_error *error);

#endif
