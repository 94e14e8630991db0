/*
 * table_alone.c - the public handle of a table's file, without a model that uses it: what it holds, single lookups, keys
 * and signatures.
 */
#include "core/error.h"
#include "core/memory.h"
#include "model.h"
#include "model_table.h"
#include "table/sign.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct wane_table {
    struct wane__slmt slmt;
    int32_t *tokens; /* of the continuations, as public ones */
};

static int copy_tokens(wane_table *table, wane_error *error) {
    uint32_t count = table->slmt.header->tokens;
    table->tokens = wane__alloc_zero(count, sizeof *table->tokens);
    if (table->tokens == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for %u tokens.", count);
    for (uint32_t i = 0; i < count; i++) table->tokens[i] = (int32_t)table->slmt.token[i];
    return WANE_OK;
}

int wane_table_open(const char *path, wane_model *model, const char *key, wane_table **table,
                    wane_error *error) {
    unsigned char bytes[WANE__SIGN_PUBLIC];
    struct wane__trace_origin origin;
    *table = NULL;
    wane__clear(error);
    if (path == NULL || path[0] == '\0') return wane__fail(error, WANE_EINVAL, "No table was named.");
    int status = key != NULL ? wane__sign_read_public(key, bytes, error) : WANE_OK;
    if (status == WANE_OK && model != NULL) status = wane__model_origin(model, &origin, error);
    if (status != WANE_OK) return status;
    wane_table *made = wane__alloc_zero(1, sizeof *made);
    if (made == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a table.");
    status =
        wane__slmt_open(path, model != NULL ? &origin : NULL, key != NULL ? bytes : NULL, &made->slmt, error);
    if (status == WANE_OK) status = copy_tokens(made, error);
    if (status != WANE_OK) {
        wane_table_free(made);
        return status;
    }
    *table = made;
    return WANE_OK;
}

void wane_table_free(wane_table *table) {
    if (table == NULL) return;
    wane__slmt_close(&table->slmt);
    wane__free(table->tokens);
    wane__free(table);
}

void wane_table_get_facts(const wane_table *table, wane_table_facts *facts) {
    const struct wane__slmt_header *h = table->slmt.header;
    *facts = (wane_table_facts){
        .verified = table->slmt.verified,
        .bytes = table->slmt.size,
        .version = (int)h->version,
        .vocab_size = (int)h->vocab_size,
        .built_at = h->built_at,
        .window = (int)h->window,
        .depth = (int)h->depth,
        .min_stability = h->min_stability,
        .min_share = h->min_share,
        .entries = h->entries,
        .positions = h->positions,
        .continuations = h->continuations,
        .phrases_bytes = h->section[WANE__SLMT_PHRASES].size,
        .entry_bytes = h->section[WANE__SLMT_ENTRIES].size,
        .position_bytes = h->section[WANE__SLMT_POSITIONS].size,
    };
    memcpy(facts->digest, table->slmt.digest, sizeof facts->digest);
    memcpy(facts->model, h->model, sizeof h->model);
    memcpy(facts->tokenizer, h->tokenizer, sizeof h->tokenizer);
    for (uint32_t i = 0; i < h->continuations; i++) facts->continuation_tokens += table->slmt.run[i].count;
    for (uint32_t i = 0; i < table->slmt.slots; i++) {
        const struct wane__slmt_slot *slot = &table->slmt.slot[i];
        if (slot->shape == 0) continue;
        facts->seen += slot->seen;
        if (slot->ten != 0) facts->long_entries++;
    }
}

/* -------------------------------------------------------------------- hottest */

static void fill_row(const wane_table *table, uint32_t at, wane_table_row *row) {
    const struct wane__slmt_slot *slot = &table->slmt.slot[at];
    struct wane__candidate top[WANE__SLMT_DEPTH];
    *row = (wane_table_row){
        .window = slot->window,
        .ten = slot->ten,
        .seen = slot->seen,
        .positions = slot->positions,
        .stability = slot->stability / 65535.0 * 2 - 1,
        .agreement = slot->agreement / 65535.0,
        .mass = slot->mass / 65535.0,
        .kinds = slot->shape >> 3 & 15u,
        .top_count = wane__slmt_top(slot, top),
        .acceptance = NAN,
    };
    for (int i = 0; i < row->top_count; i++) row->top[i] = (wane_candidate){top[i].token, top[i].logit};
    const uint32_t *token =
        wane__slmt_continuation(&table->slmt, at, &row->continuation_count, &row->acceptance);
    if (token != NULL) row->continuation = table->tokens + (token - table->slmt.token);
}

/* A short list, kept sorted: seen most first, equals as they come. */
int wane_table_hottest(const wane_table *table, int count, wane_table_row *rows) {
    int have = 0;
    for (uint32_t i = 0; i < table->slmt.slots && count > 0; i++) {
        const struct wane__slmt_slot *slot = &table->slmt.slot[i];
        if (slot->shape == 0 || (have == count && rows[have - 1].seen >= slot->seen)) continue;
        int at = have < count ? have++ : have - 1;
        for (; at > 0 && rows[at - 1].seen < slot->seen; at--) rows[at] = rows[at - 1];
        fill_row(table, i, &rows[at]);
    }
    return have;
}

/* --------------------------------------------------------------------- lookup */

const char *wane_table_source(int source) {
    static const char *const words[] = {"nothing", "context", "index", "between", "mean"};
    return source >= 0 && source < WANE__SLMT_SOURCES ? words[source] : "?";
}

bool wane_table_lookup(const wane_table *table, const char *tenant, const int32_t *tokens, size_t count,
                       int index, wane_table_answer *answer) {
    uint64_t whose = wane__context_tenant(tenant != NULL ? tenant : "");
    struct wane__context_name name = wane__context_begin(whose);
    struct wane__slmt_key key;
    struct wane__slmt_hit hit;
    *answer = (wane_table_answer){0};
    if (index < 0 || count > INT32_MAX) return false;
    if (!wane__slmt_key(whose, (int)table->slmt.header->window, tokens + count, (int)count, &key))
        return false;
    for (size_t i = 0; i < count; i++) name = wane__context_add(name, tokens[i]);
    if (!wane__slmt_lookup(&table->slmt, key, (uint32_t)index, (uint32_t)name.low, &hit)) return false;
    answer->source = (int)hit.source;
    answer->top_count = hit.top_count;
    for (int i = 0; i < hit.top_count; i++)
        answer->top[i] = (wane_candidate){hit.top[i].token, hit.top[i].logit};
    return true;
}

/* ------------------------------------------------------------------ signatures */

int wane_table_key_new(const char *path, wane_error *error) {
    wane__clear(error);
    if (path == NULL || path[0] == '\0')
        return wane__fail(error, WANE_EINVAL, "No file was named for the key.");
    return wane__sign_new(path, error);
}

int wane_table_sign(const char *key, const char *path, wane_error *error) {
    wane__clear(error);
    if (key == NULL || path == NULL)
        return wane__fail(error, WANE_EINVAL, "A key and a table must be named.");
    return wane__sign_file(key, path, error);
}
