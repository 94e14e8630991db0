/*
 * keys.h - who may use the server: a file of names, tenants, keys and rights; keys are held as hashes only.
 *
 *     # name   tenant   key                     what it has
 *     ada      physics  a-long-random-string
 *     build    ci       blake2b:64 hex digits               (BLAKE2b-256 of the key)
 *     ops      staff    another-long-string     admin       (may exchange what all use: the table)
 *     ward     clinic   one-more-long-string    domain=medical mode=wane
 */
#ifndef WANE_SERVER_KEYS_H
#define WANE_SERVER_KEYS_H

#include "core/log.h"
#include "wane.h"

struct wane__keys;

struct wane__key { /* strings live as long as the keys */
    const char *name;
    const char *tenant;
    const char *domain; /* NULL: none                 */
    int mode;           /* WANE_MODE_…; -1: none      */
    bool admin;         /* may do what concerns everybody: reload the table */
};

/* Parse a key file's text. Faults name the line: WANE_EFORMAT; a file without a key is one too. */
int wane__keys_parse(const char *text, size_t size, struct wane__keys **keys, wane_error *error);
/* Read a file; a warning goes to `log` when others than its owner may read it. */
int wane__keys_load(const char *path, struct wane__log *log, struct wane__keys **keys, wane_error *error);
void wane__keys_free(struct wane__keys *keys);
/* A domain that a key has and `known` does not; NULL: none. */
const char *wane__keys_unknown_domain(const struct wane__keys *keys,
                                      bool (*known)(void *user, const char *name), void *user);
/* The modes that keys have: 1 << WANE_MODE_… for each. */
unsigned wane__keys_modes(const struct wane__keys *keys);
size_t wane__keys_count(const struct wane__keys *keys);

/*
 * The entry of a presented key, or false. Takes the same time whether and wherever it matches: every entry's hash is
 * compared, each in constant time.
 */
bool wane__keys_find(const struct wane__keys *keys, const char *presented, size_t size,
                     struct wane__key *found);

#endif
