/* page.h - the live page's files, as they were built in: the generated file defines them (cmake/embed.cmake). */
#ifndef WANE_SERVER_PAGE_H
#define WANE_SERVER_PAGE_H

#include <stdbool.h>
#include <stddef.h>

struct wane__page_file {
    const char *name; /* without a path; NULL ends the list */
    const char *type;
    const char *etag; /* of the bytes, with its quotes */
    const unsigned char *bytes;
    size_t size;
};
extern const struct wane__page_file wane__page_files[];

/* NULL: there is no such file. */
const struct wane__page_file *wane__page_find(const char *name);
/* Does an If-None-Match header name this tag? "*" does; W/ before a tag does not matter. */
bool wane__page_unchanged(const char *header, const char *etag);
/* Does an Accept header say that HTML is wanted, as browsers do? */
bool wane__page_wants_html(const char *header);

#endif
