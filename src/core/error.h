/* error.h - how internal functions say what went wrong: one call that fills the caller's buffer. */
#ifndef WANE_CORE_ERROR_H
#define WANE_CORE_ERROR_H

#include "wane.h"

/* Fill `error` (may be NULL) with a sentence and return `code`, so that `return wane__fail(…)` reads well. */
int wane__fail(wane_error *error, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
void wane__clear(wane_error *error);

#endif
