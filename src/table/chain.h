/*
 * chain.h - a table as a source of drafts: what mostly follows a context, token by token, and how sure that is.
 *
 *     context ─► entry ─┬─► continuation: its tokens, as sure as the phrase classifier or the builder expects
 *                       └─► else its first token, as sure as the share of the samples that drew it
 *                              └─► the context with these tokens behind it ─► entry ─► …
 *
 * The chain ends where the table does not know the context, where samples disagree, or where nobody would believe in it.
 */
#ifndef WANE_TABLE_CHAIN_H
#define WANE_TABLE_CHAIN_H

#include "table/draft.h"
#include "table/holder.h"

struct wane__table_chain {
    struct wane__table *table;
    uint64_t tenant;
    struct wane__draft_chain
        as; /* for wane__drafter_begin; points back here: do not move it while it is used */
};

/*
 * The same without a holder, once: behind the `have` tokens of a context that end at `end`, of which the last ten or the window are enough where `have` says how
 * many there are. `phrases` NULL: none. Returns how many of `most` there are.
 */
int wane__table_follow(const struct wane__slmt *table, const struct wane__phrases *phrases, uint64_t tenant,
                       const int32_t *end, int have, int32_t *out, int most, float *chance);

/* `table` must outlive the chain; only what was recorded for `tenant` is proposed. */
void wane__table_chain_init(struct wane__table_chain *chain, struct wane__table *table, uint64_t tenant);

#endif
