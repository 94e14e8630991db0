/* ssp.h - the parts of the structured system instruction that others in the library need beside wane/ssp.h. */
#ifndef WANE_GOVERNOR_SSP_H
#define WANE_GOVERNOR_SSP_H

#include "wane.h"

/* ` (did you mean legal?)` into `out` where a word is close to one of `names` (NULL-ended), else "". Returns `out`. */
char *wane__ssp_suggest(const char *word, size_t size, const char *const *names, char *out, size_t room);

#endif
