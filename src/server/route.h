/* route.h - the table of paths: who may ask what, in which API's shape, and who answers. */
#ifndef WANE_SERVER_ROUTE_H
#define WANE_SERVER_ROUTE_H

#include "server/http.h"

struct wane__route {
    const char *path;  /* exact; a final '*' stands for the rest of the path, which is not empty */
    const char *allow; /* methods, as the Allow header lists them                                */
    bool needs_key;
    bool either_shape; /* both APIs have it: the request's headers decide                        */
    enum wane__shape shape;
    enum wane__api api; /* 0: it does not generate                                               */
    enum MHD_Result (*answer)(struct wane__exchange *exchange);
};

/*
 * Find the route of a path and check the method: fills `route`, `rest` and `shape`, and on a wrong path or method
 * `problem`. The route is then the last of the table, which stands for all unknown paths.
 */
void wane__route_find(struct wane__exchange *exchange, const char *path, const char *method);
int wane__route_index(const struct wane__route *route);

/* Does the loaded model answer to this name? `name` NULL: the request had none. Fills `problem` if not. */
bool wane__route_check_model(struct wane__exchange *exchange, const char *name, enum wane__shape shape);

/* May its key do what an operator does? Fills `problem` if not. */
bool wane__route_check_admin(struct wane__exchange *exchange);

#endif
