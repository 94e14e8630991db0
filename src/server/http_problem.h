/*
 * http_problem.h - what went wrong with a request, apart from how an API words it.
 *
 * Parsing and serving fill a `wane__problem`; only http_problem.c knows the status, the type names and the JSON
 * shape that each API gives it.
 */
#ifndef WANE_SERVER_HTTP_PROBLEM_H
#define WANE_SERVER_HTTP_PROBLEM_H

#include "core/buf.h"
#include "wane.h"

enum wane__shape { WANE__SHAPE_OPENAI = 0, WANE__SHAPE_ANTHROPIC = 1 };

enum wane__problem_kind {
    WANE__PROBLEM_NONE = 0,
    WANE__PROBLEM_INVALID,   /* 400: a field, its value, and what is allowed    */
    WANE__PROBLEM_CONTEXT,   /* 400: the prompt does not fit                    */
    WANE__PROBLEM_AUTH,      /* 401                                             */
    WANE__PROBLEM_RIGHT,     /* 403: the key is known, but may not do this      */
    WANE__PROBLEM_NO_ROUTE,  /* 404: no such path                               */
    WANE__PROBLEM_NO_MODEL,  /* 404: a model that is not loaded                 */
    WANE__PROBLEM_NO_REPLY,  /* 404: no reply that may be rated                 */
    WANE__PROBLEM_METHOD,    /* 405                                             */
    WANE__PROBLEM_SLOW,      /* 408: the body did not arrive in time            */
    WANE__PROBLEM_TOO_LARGE, /* 413                                             */
    WANE__PROBLEM_BUSY,      /* 429: the queue is full                          */
    WANE__PROBLEM_ENGINE,    /* 500                                             */
    WANE__PROBLEM_STOPPING,  /* 503                                             */
    WANE__PROBLEM_FULL,      /* 503: too many connections                       */
    WANE__PROBLEM_AUDIT,     /* 503: it could not be recorded                   */
    WANE__PROBLEM_DEADLINE,  /* 504: the request's or the server's time is over */
    WANE__PROBLEM_KINDS
};

struct wane__problem {
    enum wane__problem_kind kind;
    char param[96]; /* the field, "" if none */
    char text[600]; /* a sentence            */
};

/* Fill `problem` and return false, so that a parser's `return wane__problem(…)` reads well. `param` may be NULL. */
bool wane__problem(struct wane__problem *problem, enum wane__problem_kind kind, const char *param,
                   const char *format, ...) __attribute__((format(printf, 4, 5)));
/* From a library error; the text is kept. */
void wane__problem_from(struct wane__problem *problem, const wane_error *error);
int wane__problem_status(const struct wane__problem *problem);
/* One word for its kind, such as "invalid"; static storage. */
const char *wane__problem_name(const struct wane__problem *problem);
/* Append the JSON body in one API's shape. */
void wane__problem_body(const struct wane__problem *problem, enum wane__shape shape, const char *request_id,
                        struct wane__buf *out);

#endif
