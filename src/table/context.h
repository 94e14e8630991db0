/*
 * context.h - how a context is named: by its last tokens, by all of its tokens, and by whose it is.
 *
 * The one place for these hashes: the trace, the builder, the table's file, the memo and the drafts must agree on them.
 * They are part of the file formats: a change here needs a new version there.
 *
 *     tokens:    t0 t1 t2 … t(n-10) … t(n-3) t(n-2) t(n-1) │ tn is to be drawn
 *                                     └──── window ──────┘   named by wane__context_window
 *                           └───────── last ten ─────────┘   and, from 4,096 tokens on, by wane__context_ten
 *                └──────────────── all of it ────────────┘   named by wane__context_add, token by token
 *
 * Nothing recorded for one tenant may ever answer another, so that every name begins with the tenant's. The server chooses
 * the tenant (the key's name); without keys there is one tenant, "".
 */
#ifndef WANE_TABLE_CONTEXT_H
#define WANE_TABLE_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

/* Tokens of the short window by default, and most. */
#define WANE__WINDOW      3
#define WANE__WINDOW_MOST 10
/* From so many tokens of context on, an entry is named by the last ten tokens as well. */
#define WANE__LONG_CONTEXT 4096
#define WANE__TEN          10

/* What a request asks for; traces are stratified by it. */
enum wane__kind { WANE__KIND_SINGLE, WANE__KIND_MULTI, WANE__KIND_CODE, WANE__KIND_SUMMARY, WANE__KINDS };

/* 128 bits: enough that no two contexts of a lifetime share a name by accident. */
struct wane__context_name {
    uint64_t low, high;
};

/* The seed of a tenant: XXH3-64 of its name's bytes. */
uint64_t wane__context_tenant(const char *name);
/* Of no tokens yet. */
struct wane__context_name wane__context_begin(uint64_t tenant);
/* With one more token. */
struct wane__context_name wane__context_add(struct wane__context_name name, int32_t token);
/* Of the last `count` tokens, 1 … WANE__WINDOW_MOST, which end at `end`: XXH3-64, seeded with the tenant. */
uint64_t wane__context_window(uint64_t tenant, const int32_t *end, int count);
/* CRC32 (IEEE, reflected, as in zlib) of the last ten tokens, little-endian, which end at `end`. */
uint32_t wane__context_ten(const int32_t *end);

#endif
