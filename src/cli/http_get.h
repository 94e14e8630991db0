/* http_get.h - one page from a server of this kind: plain HTTP/1.1, a bound on size and time, nothing else. */
#ifndef WANE_CLI_HTTP_GET_H
#define WANE_CLI_HTTP_GET_H

#include <stdbool.h>
#include <stddef.h>

struct http_page {
    int status;
    char *body; /* terminated; free it */
    size_t size;
    char why[300]; /* why there is none */
};

/*
 * Get `url` followed by `path` ("http://127.0.0.1:8080" and "/ready"), with `key` as a bearer's, unless NULL. False with `why`: no such
 * URL, no connection within `timeout_ms`, no HTTP, more than 16 MiB.
 */
bool http_get(const char *url, const char *path, const char *key, int timeout_ms, struct http_page *page);

/* The same with a body that is posted; NULL: it is a GET. */
bool http_ask(const char *url, const char *path, const char *key, const char *body, int timeout_ms,
              struct http_page *page);

/* Take an answer's bytes apart: status and body, also one in chunks. `bytes` is terminated, and written over. */
bool http_read(char *bytes, size_t size, struct http_page *page);

#endif
