/*
 * memo.h - tokens that were drawn before, by everything that they depend on: bounded, the least lately used go first.
 *
 *     key     the name of the whole context (context.h), crossed with a digest of what else decides the draw
 *     entry   key, length of the context, tenant ──► token
 *
 * All memory is taken when a memo is made: nothing here allocates afterwards, but for a tenant's name when it is met for the
 * first time. The key begins with the tenant's hash already; the tenant itself is compared besides, by its name, so that no
 * collision of hashes can bring one's tokens to another. One thread at a time.
 *
 *     bucket ─► entry ─► entry          chains by key
 *     newest ◄► … ◄► oldest             all entries, by their last use
 */
#ifndef WANE_TABLE_MEMO_H
#define WANE_TABLE_MEMO_H

#include "core/buf.h"
#include "core/file.h"
#include "table/context.h"

/* Bytes that an entry takes, its share of the buckets included; and fewest and most of a memo. */
#define WANE__MEMO_ENTRY_BYTES 44
#define WANE__MEMO_LEAST       4096
#define WANE__MEMO_MOST        ((uint64_t)64 << 30)
/* Tenants with entries of their own; those that come later have no memo. A name has at most so many bytes. */
#define WANE__MEMO_TENANTS     4096
#define WANE__MEMO_TENANT_MOST 4096

/* What a token is found by. */
struct wane__memo_key {
    struct wane__context_name name; /* of the context, crossed with the digest */
    uint32_t length;                /* of the context, in tokens               */
    uint32_t tenant;                /* wane__memo_tenant's                     */
};

struct wane__memo;

/* WANE_EINVAL outside the bounds above. */
int wane__memo_new(uint64_t bytes, struct wane__memo **memo, wane_error *error);
void wane__memo_free(struct wane__memo *memo);

/* The number of a tenant, by its name; -1 when there is no room for another, or no memory. */
int wane__memo_tenant(struct wane__memo *memo, const char *name);

/* The name of a context under a digest. */
struct wane__context_name wane__memo_cross(struct wane__context_name context,
                                           struct wane__context_name digest);
/* The token; -1: not known. `touch`: it counts as used. */
int32_t wane__memo_find(struct wane__memo *memo, const struct wane__memo_key *key, bool touch);
/* Keep a token. What is known already stays as it is: the first answer is the one that is repeated. */
void wane__memo_add(struct wane__memo *memo, const struct wane__memo_key *key, int32_t token);
/* Another token in the place of one that turned out wrong; nothing where there is none. */
void wane__memo_correct(struct wane__memo *memo, const struct wane__memo_key *key, int32_t token);

struct wane__memo_counts {
    uint64_t entries, most, bytes, evictions;
};
void wane__memo_count(const struct wane__memo *memo, struct wane__memo_counts *counts);

/*
 * As a file, little-endian, by offset:
 *
 *      0   8  "WANEMEMO"        28   4  bytes of the origin
 *      8   4  version, 1        32   …  the origin: text that says whose floats these were
 *     12   4  tenants            …   …  tenants: 4 bytes of length, the name
 *     16   8  entries            …  36  entries, the least lately used first: low, high, length, tenant, token, 0 (8 8 4 4 4 8)
 *     24   4  vocabulary         …   8  XXH3-64 of all before
 */
int wane__memo_save(struct wane__memo *memo, const char *path, const char *origin, int vocab_size,
                    wane_error *error);
/*
 * The same bytes taken in pieces while the memo is in use: begin, go on until it says that it is complete, seal. Each entry is
 * taken whole, so that whatever is added, used or given up in between, all that the picture holds was answered. What came
 * after the beginning may be in it. One picture at a time; wane__memo_picture_drop ends one before its end. The buffer takes
 * its room at the beginning (WANE_ENOMEM), and more only when very many entries are used meanwhile. Sealing needs no memo: any thread.
 */
int wane__memo_picture_begin(struct wane__memo *memo, const char *origin, int vocab_size,
                             struct wane__buf *picture, wane_error *error);
bool wane__memo_picture_go_on(struct wane__memo *memo, struct wane__buf *picture, uint64_t entries);
void wane__memo_picture_drop(struct wane__memo *memo, struct wane__buf *picture);
void wane__memo_picture_seal(struct wane__buf *picture);
/* A sealed picture as a memo's file. */
int wane__memo_picture_write(const struct wane__buf *picture, const char *path, wane_error *error);

/* Rises with each token that is added. */
uint64_t wane__memo_changes(const struct wane__memo *memo);

/*
 * Add what a file's bytes hold to a new memo. WANE_EFORMAT: it is damaged, or of another version; WANE_EUNSUPPORTED: of another
 * origin. Then nothing was added. `name` is for the sentence.
 */
int wane__memo_parse(struct wane__memo *memo, const char *name, const void *bytes, size_t size,
                     const char *origin, int vocab_size, wane_error *error);
/* Read and parse; WANE_ENOENT when there is no such file. */
int wane__memo_load(struct wane__memo *memo, const char *path, const char *origin, int vocab_size,
                    wane_error *error);

#endif
