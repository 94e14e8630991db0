/* json.h - strict reading of a request body, and writing of replies straight into a buffer. */
#ifndef WANE_SERVER_JSON_H
#define WANE_SERVER_JSON_H

#include "server/http_problem.h"

#include <jansson.h>

/*
 * Parse a body that must be one JSON object; json_decref the result. NULL and a 400 in words for anything else:
 * cut or trailing text, nesting beyond jansson's 2,048, duplicate keys, NUL or lone surrogates in strings, bytes
 * that are not UTF-8, NaN, numbers that do not fit.
 */
json_t *wane__json_parse(const char *bytes, size_t size, struct wane__problem *problem);

/* A value as an error message shows it: `"true"`, `-1`, `null`, `an object`; cut to fit. Returns `out`. */
const char *wane__json_show(const json_t *value, char *out, size_t capacity);

/* Append a string literal. Invalid UTF-8 becomes U+FFFD, so that what is sent is always JSON. */
void wane__json_string(struct wane__buf *out, const char *text, size_t size);
/* Append a number; what JSON cannot hold becomes -9999, as OpenAI writes an impossible logprob. */
void wane__json_number(struct wane__buf *out, double value);

/* Length of the UTF-8 character at `text` (1..4), or 0 if it is not one within `size` bytes. */
int wane__json_utf8(const char *text, size_t size);

#endif
