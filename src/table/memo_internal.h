/* memo_internal.h - a memo from inside, for memo.c and memo_file.c. */
#ifndef WANE_TABLE_MEMO_INTERNAL_H
#define WANE_TABLE_MEMO_INTERNAL_H

#include "table/memo.h"

#define WANE__MEMO_NONE UINT32_MAX

struct wane__memo_entry {
    struct wane__memo_key key;
    int32_t token;
    uint32_t chain;        /* the next one in the bucket           */
    uint32_t newer, older; /* by last use                          */
};

/* A picture under way. */
struct wane__memo_picture {
    uint64_t most, taken; /* entries */
    uint32_t tenants;     /* those that its head names */
};

struct wane__memo {
    struct wane__memo_entry *entry;
    uint32_t *bucket;
    uint32_t buckets; /* a power of two */
    uint32_t most, count;
    uint32_t newest, oldest;
    uint64_t evictions;
    uint64_t changes; /* tokens that were added, ever        */
    uint32_t cursor;  /* the next entry of a picture under way */
    struct wane__memo_picture picture;
    char *tenant[WANE__MEMO_TENANTS];
    uint32_t tenants;
};

#endif
