/* requests.h - a set of requests by their names: those that a build leaves out, those that a replay runs. */
#ifndef WANE_TABLE_REQUESTS_H
#define WANE_TABLE_REQUESTS_H

#include "wane.h"

/* Into the order that wane__requests_has wants; each name once. */
void wane__requests_sort(wane_table_requests *requests);
/* NULL: an empty set. */
bool wane__requests_has(const wane_table_requests *requests, const char *name);

#endif
