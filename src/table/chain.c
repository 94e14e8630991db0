/*
 * chain.c - see chain.h. Owns nothing: takes the table for the length of a proposal. Refuses to allocate, and to propose
 * what less than half of the samples drew.
 */
#include "table/chain.h"

#include "table/lookup.h"

#include <math.h>
#include <string.h>

static const float least_agreement = 0.5f; /* of a single token                                */
static const float least_chance = 0.1f;    /* that all tokens so far are drawn: behind it, none */
static const float most_chance = 0.99f;    /* nothing is certain                               */

/* A proposal under way: the context's last tokens, and what is proposed behind them. */
struct proposal {
    const struct wane__slmt *table;
    const struct wane__phrases *phrases;
    int32_t text[WANE__TEN + WANE__DRAFT_MOST];
    int lead, have; /* tokens of the context: those in `text`, and all of them */
    int count, most;
    float *chance;
};

/* Each token's chance, so that of `count` tokens in a row the expected share is drawn before the first one that is not. */
static float chance_for(float share, int count) {
    float low = 0, high = most_chance;
    for (int round = 0; round < 12; round++) {
        float chance = (low + high) / 2, expected = 0;
        for (int i = 0; i < count; i++) expected = chance * (1 + expected);
        if (expected < share * (float)count)
            low = chance;
        else
            high = chance;
    }
    return high;
}

static void add(struct proposal *p, int32_t token, float chance) {
    p->text[p->lead + p->count] = token;
    p->chance[p->count++] = chance < most_chance ? chance : most_chance;
}

/* NaN where nobody knows. */
static float share_of(const struct proposal *p, const int32_t *run, int count, float acceptance) {
    if (p->phrases == NULL) return acceptance;
    int known = p->lead + p->count, last = known < WANE__TEN ? known : WANE__TEN;
    return wane__phrases_expect(p->phrases, p->text + known - last, last, run, count);
}

/* What the table says of a slot's window. False: nothing that would be believed. */
static bool follow(struct proposal *p, const struct wane__slmt_slot *slot) {
    struct wane__candidate top[WANE__SLMT_DEPTH];
    int count = 0;
    float acceptance = NAN, agreement = (float)slot->agreement / 65535.0f;
    const int32_t *run = (const int32_t *)wane__slmt_continuation(p->table, (uint32_t)(slot - p->table->slot),
                                                                  &count, &acceptance);
    if (run != NULL && count > 0) {
        float share = share_of(p, run, count, acceptance);
        float chance = isnan(share) ? agreement : chance_for(share, count);
        for (int i = 0; i < count && p->count < p->most; i++) add(p, run[i], chance);
        return true;
    }
    if (agreement < least_agreement || wane__slmt_top(slot, top) < 1) return false;
    add(p, top[0].token, agreement);
    return true;
}

int wane__table_follow(const struct wane__slmt *table, const struct wane__phrases *phrases, uint64_t tenant,
                       const int32_t *end, int have, int32_t *out, int most, float *chance) {
    struct proposal p = {.table = table, .phrases = phrases, .have = have, .most = most, .chance = chance};
    if (p.most > WANE__DRAFT_MOST) p.most = WANE__DRAFT_MOST;
    p.lead = have < WANE__TEN ? have : WANE__TEN;
    memcpy(p.text, end - p.lead, (size_t)p.lead * sizeof *p.text);
    float all = 1;
    while (p.count < p.most && all >= least_chance) {
        struct wane__slmt_key key;
        int before = p.count;
        if (!wane__slmt_key(tenant, (int)p.table->header->window, p.text + p.lead + before, have + before,
                            &key))
            break;
        const struct wane__slmt_slot *slot = wane__slmt_find(p.table, key);
        if (slot == NULL || !follow(&p, slot)) break;
        for (int i = before; i < p.count; i++) all *= chance[i];
    }
    memcpy(out, p.text + p.lead, (size_t)p.count * sizeof *out);
    return p.count;
}

static int propose(void *user, const int32_t *end, int have, int32_t *out, int most, float *chance) {
    const struct wane__table_chain *chain = user;
    const struct wane__slmt *table = wane__table_take(chain->table);
    if (table == NULL) return 0;
    int count =
        wane__table_follow(table, wane__table_phrases(table), chain->tenant, end, have, out, most, chance);
    wane__table_give(table);
    return count;
}

void wane__table_chain_init(struct wane__table_chain *chain, struct wane__table *table, uint64_t tenant) {
    *chain = (struct wane__table_chain){.table = table, .tenant = tenant, .as = {propose, chain}};
}
