/*
 * rating.h - the body of a rating: which reply, how good, and why. Bytes alone: no server, no pool, no socket, so that tests and fuzzers
 * call it as the server does.
 */
#ifndef WANE_SERVER_RATING_H
#define WANE_SERVER_RATING_H

#include "server/http_problem.h"

#include <jansson.h>

enum { WANE__RATING_ID_MOST = 39, WANE__RATING_COMMENT_MOST = 4096 };

struct wane__rating {
    json_t *root; /* keeps the strings below alive */
    const char *id;
    const char *comment; /* NULL: none */
    double value;        /* -1 … 1 */
};

/* False: `problem` says field, value and what is allowed. Free it in both cases. */
bool wane__rating_parse(struct wane__rating *rating, const char *body, size_t size,
                        struct wane__problem *problem);
void wane__rating_free(struct wane__rating *rating);

#endif
