/* requests.c - a sorted list of names; see requests.h. Owns nothing but what wane_table_requests_free gives back. */
#include "table/requests.h"

#include "core/memory.h"

#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b) {
    return strcmp(a, b);
}

void wane__requests_sort(wane_table_requests *requests) {
    size_t kept = 0;
    if (requests->count == 0) return;
    qsort(requests->name, requests->count, sizeof *requests->name, by_name);
    for (size_t i = 1; i < requests->count; i++) {
        if (strcmp(requests->name[kept], requests->name[i]) == 0) continue;
        memmove(requests->name[++kept], requests->name[i], sizeof *requests->name);
    }
    requests->count = kept + 1;
}

bool wane__requests_has(const wane_table_requests *requests, const char *name) {
    if (requests == NULL || requests->count == 0) return false;
    return bsearch(name, requests->name, requests->count, sizeof *requests->name, by_name) != NULL;
}

void wane_table_requests_free(wane_table_requests *requests) {
    wane__free(requests->name);
    *requests = (wane_table_requests){0};
}
