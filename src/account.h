/*
 * account.h - what one reply took and went through, token by token, for whoever writes it down at its end. Metrics have the sums of all replies.
 *
 * Filled by the layer on the decoding thread: a few additions a token, no allocation.
 */
#ifndef WANE_ACCOUNT_H
#define WANE_ACCOUNT_H

#include "wane.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { WANE__ACCOUNT_ORIGINS = 4, WANE__ACCOUNT_SOURCES = 5 };

struct wane__account {
    uint32_t origin[WANE__ACCOUNT_ORIGINS]; /* tokens, by enum wane__origin                   */
    uint32_t drafted;                       /* of them: proposed ahead                        */
    uint32_t source[WANE__ACCOUNT_SOURCES]; /* what a table said, by enum wane__slmt_source   */
    uint32_t used, strict;                  /* tokens whose entry fits; of them: strictly     */
    uint32_t taken;                         /* the table's token took the place of the drawn one */
    uint32_t rejects, wakes[WANE_WAKES];    /* by the gate; of the vote, by reason            */
    uint32_t states[WANE_STATES];           /* tokens, by the governor's state                */
    uint32_t changed;                       /* a correction had a hand in the token           */
    uint32_t checked, divergences;          /* rows that both heads computed; that differed   */
    char table[65];                         /* digest of the table that knew a context first; "" */
    bool tables;                            /* later on it was another one                    */
};

/* A table knows a context of this reply. */
static inline void wane__account_table(struct wane__account *a, const char digest[65]) {
    if (a->table[0] == '\0')
        memcpy(a->table, digest, sizeof a->table);
    else if (!a->tables)
        a->tables = memcmp(a->table, digest, sizeof a->table) != 0;
}

/* What another answer to the same request took is the request's, too. */
static inline void wane__account_add(struct wane__account *to, const struct wane__account *from) {
    for (int i = 0; i < WANE__ACCOUNT_ORIGINS; i++) to->origin[i] += from->origin[i];
    for (int i = 0; i < WANE__ACCOUNT_SOURCES; i++) to->source[i] += from->source[i];
    for (int i = 0; i < WANE_WAKES; i++) to->wakes[i] += from->wakes[i];
    for (int i = 0; i < WANE_STATES; i++) to->states[i] += from->states[i];
    to->drafted += from->drafted;
    to->used += from->used;
    to->strict += from->strict;
    to->taken += from->taken;
    to->rejects += from->rejects;
    to->changed += from->changed;
    to->checked += from->checked;
    to->divergences += from->divergences;
    to->tables = to->tables || from->tables;
    if (from->table[0] != '\0') wane__account_table(to, from->table);
}

#endif
