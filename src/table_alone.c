/*
 * table_alone.c - the public handle of a table's file, without a model that uses it: what it holds, single lookups, keys
 * and signatures.
 */
#include "table_alone.h"

#include "core/error.h"
#include "core/memory.h"
#include "table/chain.h"
#include "table/grade.h"
#include "table/lookup.h"
#include "table/sign.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct wane_table {
    struct wane__slmt slmt;
    int32_t *tokens;               /* of the continuations, as public ones */
    struct wane__phrases *phrases; /* NULL: it has no classifier           */
};

_Static_assert(sizeof(wane_candidate) == sizeof(struct wane__candidate), "one layout");

/* ----------------------------------------------------------------- contexts */

void wane_context_begin(wane_context *context, const char *tenant) {
    uint64_t whose = wane__context_tenant(tenant != NULL ? tenant : "");
    struct wane__context_name name = wane__context_begin(whose);
    *context = (wane_context){.tenant = whose, .low = name.low, .high = name.high};
}

void wane_context_add(wane_context *context, const int32_t *tokens, size_t count) {
    struct wane__context_name name = {.low = context->low, .high = context->high};
    for (size_t i = 0; i < count; i++) name = wane__context_add(name, tokens[i]);
    context->low = name.low;
    context->high = name.high;
    size_t had = context->count < WANE__TEN ? (size_t)context->count : WANE__TEN;
    size_t fresh = count < WANE__TEN ? count : WANE__TEN;
    size_t kept = had + fresh > WANE__TEN ? WANE__TEN - fresh : had;
    memmove(context->last, context->last + had - kept, kept * sizeof *tokens);
    if (fresh > 0) memcpy(context->last + kept, tokens + count - fresh, fresh * sizeof *tokens);
    context->count += (int64_t)count;
}

static int known(const wane_context *context) {
    return context->count < WANE__TEN ? (int)context->count : WANE__TEN;
}

/* As lookups count tokens: so many that a long context counts as long. */
static int counted(const wane_context *context) {
    return context->count < INT32_MAX / 2 ? (int)context->count : INT32_MAX / 2;
}

/* ------------------------------------------------------------------- opening */

static int copy_tokens(wane_table *table, wane_error *error) {
    uint32_t count = table->slmt.header->tokens;
    table->tokens = wane__alloc_zero(count, sizeof *table->tokens);
    if (table->tokens == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for %u tokens.", count);
    for (uint32_t i = 0; i < count; i++) table->tokens[i] = (int32_t)table->slmt.token[i];
    return WANE_OK;
}

/* Without a classifier that can be used, drafts are as sure as the builder expects. */
static void load_phrases(wane_table *table) {
    const struct wane__slmt *slmt = &table->slmt;
    size_t size = slmt->header->section[WANE__SLMT_PHRASES].size;
    if (size > 0 && wane__phrases_load(slmt->phrases, size, &table->phrases, NULL) != WANE_OK)
        table->phrases = NULL;
}

int wane__table_open_at(const char *path, const struct wane__trace_origin *of, const char *key,
                        wane_table **table, wane_error *error) {
    unsigned char bytes[WANE__SIGN_PUBLIC];
    *table = NULL;
    wane__clear(error);
    if (path == NULL || path[0] == '\0') return wane__fail(error, WANE_EINVAL, "No table was named.");
    int status = key != NULL ? wane__sign_read_public(key, bytes, error) : WANE_OK;
    if (status != WANE_OK) return status;
    wane_table *made = wane__alloc_zero(1, sizeof *made);
    if (made == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a table.");
    status = wane__slmt_open(path, of, key != NULL ? bytes : NULL, &made->slmt, error);
    if (status == WANE_OK) status = copy_tokens(made, error);
    if (status != WANE_OK) {
        wane_table_free(made);
        return status;
    }
    load_phrases(made);
    *table = made;
    return WANE_OK;
}

static int check_origin(const char *path, const wane_table *table, const wane_origin *of, wane_error *error) {
    const struct wane__slmt_header *h = table->slmt.header;
    if (of->vocab_size > 0 && h->vocab_size != (uint32_t)of->vocab_size)
        return wane__fail(error, WANE_EUNSUPPORTED, "%s is of a model with %u tokens, not with %d.", path,
                          h->vocab_size, of->vocab_size);
    if (of->tokenizer[0] != '\0' && strncmp(h->tokenizer, of->tokenizer, sizeof h->tokenizer) != 0)
        return wane__fail(error, WANE_EUNSUPPORTED, "%s is of another tokenizer (%.32s; this one is %.32s).",
                          path, h->tokenizer, of->tokenizer);
    if (of->model[0] != '\0' && strncmp(h->model, of->model, sizeof h->model) != 0)
        return wane__fail(error, WANE_EUNSUPPORTED, "%s is of another model (%.32s; this one is %.32s).",
                          path, h->model, of->model);
    return WANE_OK;
}

int wane_table_open_of(const char *path, const wane_origin *of, const char *key, wane_table **table,
                       wane_error *error) {
    int status = wane__table_open_at(path, NULL, key, table, error);
    if (status == WANE_OK && *table != NULL && of != NULL) status = check_origin(path, *table, of, error);
    if (status != WANE_OK) {
        wane_table_free(*table);
        *table = NULL;
    }
    return status;
}

void wane_table_free(wane_table *table) {
    if (table == NULL) return;
    wane__slmt_close(&table->slmt);
    wane__free(table->tokens);
    wane__phrases_free(table->phrases);
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

bool wane_table_find(const wane_table *table, const wane_context *context, int index,
                     wane_table_answer *answer) {
    struct wane__slmt_key key;
    struct wane__slmt_hit hit;
    *answer = (wane_table_answer){0};
    if (index < 0) return false;
    if (!wane__slmt_key(context->tenant, (int)table->slmt.header->window, context->last + known(context),
                        counted(context), &key))
        return false;
    if (!wane__slmt_lookup(&table->slmt, key, (uint32_t)index, (uint32_t)context->low, &hit)) return false;
    answer->source = (int)hit.source;
    answer->top_count = hit.top_count;
    for (int i = 0; i < hit.top_count; i++)
        answer->top[i] = (wane_candidate){hit.top[i].token, hit.top[i].logit};
    return true;
}

bool wane_table_lookup(const wane_table *table, const char *tenant, const int32_t *tokens, size_t count,
                       int index, wane_table_answer *answer) {
    wane_context context;
    *answer = (wane_table_answer){0};
    if (index < 0 || count > INT32_MAX) return false;
    wane_context_begin(&context, tenant);
    wane_context_add(&context, tokens, count);
    return wane_table_find(table, &context, index, answer);
}

int wane_table_draft(const wane_table *table, const wane_context *context, int most, int32_t *tokens,
                     float *chances) {
    if (most < 1) return 0;
    return wane__table_follow(&table->slmt, table->phrases, context->tenant, context->last + known(context),
                              counted(context), tokens, most, chances);
}

int wane_table_grade(const wane_table_answer *answer, const wane_candidate *current, int count, double low,
                     double high, float tolerance, double share) {
    const struct wane__grade_rule rule = {.tolerance = tolerance, .share = share};
    return (int)wane__grade((const struct wane__candidate *)(const void *)answer->top, answer->top_count,
                            (const struct wane__candidate *)(const void *)current, count, low, high, &rule);
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
