/*
 * build_table.c - the last steps of a build: what of the picks, places and continuations goes into the file. Owns the arrays that
 * the file's writer reads; sees to it that the file stays within its bound.
 */
#include "table/build_internal.h"

#include "core/clock.h"
#include "core/error.h"
#include "core/memory.h"

#include <math.h>
#include <string.h>

enum { PAGE = 4096 };

/* Continuations get up to a quarter of the file, the most useful entries first. */
static int bound_chains(struct wane__build *build, uint64_t tokens, wane_error *error) {
    uint64_t wanted = 0;
    for (uint32_t i = 0; i < build->picks; i++) wanted += build->chain[i].count;
    if (wanted <= tokens) return WANE_OK;
    uint32_t *order = wane__alloc((size_t)build->picks * sizeof *order);
    if (order == NULL) return wane__fail(error, WANE_ENOMEM, "No memory to order %u entries.", build->picks);
    for (uint32_t i = 0; i < build->picks; i++) order[i] = i;
    /* Shell's sort: qsort has no place for the picks. */
    for (uint32_t gap = build->picks / 2; gap > 0; gap = gap == 2 ? 1 : (uint32_t)((double)gap / 2.2))
        for (uint32_t i = gap; i < build->picks; i++) {
            uint32_t moved = order[i], j = i;
            for (; j >= gap && wane__pick_worse(&build->pick[order[j - gap]], &build->pick[moved]); j -= gap)
                order[j] = order[j - gap];
            order[j] = moved;
        }
    for (uint32_t i = 0; i < build->picks; i++) {
        struct wane__chain *chain = &build->chain[order[i]];
        if (chain->count > tokens) chain->count = tokens >= 2 ? (uint32_t)tokens : 0;
        tokens -= chain->count;
    }
    wane__free(order);
    return WANE_OK;
}

static int make_content(struct wane__build *build, struct wane__slmt_content *content, wane_error *error) {
    const wane_table_build_options *set = &build->options.set;
    uint32_t runs = 0;
    for (uint32_t i = 0; i < build->picks; i++) runs += build->chain[i].count > 0;
    wane__free(build->out_entry);
    wane__free(build->out_position);
    wane__free(build->out_continuation);
    build->out_entry = wane__alloc((size_t)build->picks * sizeof *build->out_entry);
    build->out_position = wane__alloc((size_t)build->positions * sizeof *build->out_position);
    build->out_continuation = wane__alloc((size_t)runs * sizeof *build->out_continuation);
    if (build->out_entry == NULL || build->out_position == NULL || build->out_continuation == NULL)
        return wane__fail(error, WANE_ENOMEM, "No memory for a table of %u entries.", build->picks);
    runs = 0;
    build->report.continuation_tokens = 0;
    for (uint32_t i = 0; i < build->picks; i++) {
        build->out_entry[i] = build->pick[i].entry;
        const struct wane__chain *chain = &build->chain[i];
        if (chain->count == 0) continue;
        float acceptance = chain->examples > 0 ? (float)(chain->expected / chain->examples) : NAN;
        build->out_continuation[runs++] =
            (struct wane__slmt_continuation){.entry = i,
                                             .count = (uint16_t)chain->count,
                                             .acceptance = acceptance,
                                             .token = build->follow + chain->first};
        build->report.continuation_tokens += chain->count;
    }
    for (uint32_t i = 0; i < build->positions; i++) build->out_position[i] = build->position[i].position;
    *content = (struct wane__slmt_content){.origin = build->options.origin,
                                           .built_at = set->built_at,
                                           .window = set->window,
                                           .depth = set->depth,
                                           .min_stability = set->min_stability,
                                           .min_share = set->min_share,
                                           .entry = build->out_entry,
                                           .entry_count = build->picks,
                                           .position = build->out_position,
                                           .position_count = build->positions,
                                           .continuation = build->out_continuation,
                                           .continuation_count = runs,
                                           .phrases = build->phrases,
                                           .phrases_size = build->phrases_size};
    build->report.entries = build->picks;
    build->report.positions = build->positions;
    build->report.continuations = runs;
    return wane__slmt_measure(content, &build->report.bytes, error);
}

static void note_hottest(struct wane__build *build) {
    wane_table_report *report = &build->report;
    for (int i = 0; i < report->hottest_count; i++) {
        wane_table_hot *hot = &report->hottest[i];
        for (uint32_t k = 0; k < build->picks && !hot->in_table; k++) {
            const struct wane__pick *pick = &build->pick[k];
            const int32_t *end = pick->last + pick->last_count;
            int32_t length = pick->entry.key.ten != 0 ? WANE__TEN : report->window;
            hot->in_table = pick->entry.seen == hot->seen && length == hot->last_count &&
                            pick->next == hot->next &&
                            memcmp(end - length, hot->last, (size_t)length * sizeof *end) == 0;
        }
    }
}

void wane__build_count(struct wane__build *build) {
    wane_table_report *report = &build->report;
    report->records = build->records;
    report->changed = build->fates[WANE__SAMPLE_CHANGED];
    report->too_short = build->fates[WANE__SAMPLE_SHORT];
    report->empty = build->fates[WANE__SAMPLE_EMPTY];
    memcpy(report->kinds, build->kinds, sizeof report->kinds);
    report->spilled = wane__sorter_spilled(build->samples);
}

/* Positions get what entries, continuations and classifier leave of the file; they take 32 bytes each, or some more. */
static int fit_positions(struct wane__build *build, struct wane__slmt_content *content, wane_error *error) {
    uint64_t most = (uint64_t)WANE__BUILD_BYTES_AN_ENTRY * (uint64_t)build->options.set.max_entries,
             phrases = 0;
    if (build->options.set.phrases)
        phrases = (uint64_t)(WANE__PHRASES_BUCKETS + 3) * WANE__PHRASES_HIDDEN * 4 + 2 * PAGE;
    if (most < (uint64_t)1 << 20) most = (uint64_t)1 << 20; /* small tables need not be that small */
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < build->picks; i++) tokens += build->chain[i].count;
    uint64_t others = wane__slmt_size(build->picks, 0, tokens) + phrases;
    uint64_t room = others < most ? (most - others) / 32 : 0;
    build->positions_most = (uint32_t)(room < UINT32_MAX ? room : UINT32_MAX);
    for (;;) {
        int status = wane__build_positions(build, error);
        if (status == WANE_OK) status = make_content(build, content, error);
        uint64_t size = build->report.bytes + phrases;
        if (status != WANE_OK || size <= most || build->positions == 0) return status;
        uint64_t less = (size - most + PAGE) / 32 + 1;
        build->positions_most = less < build->positions ? build->positions - (uint32_t)less : 0;
    }
}

int wane__build_table(struct wane__build *build, struct wane__slmt_content *content,
                      wane_table_report *report, wane_error *error) {
    double begun = wane__now();
    int status = wane__sorter_finish(build->samples, error);
    if (status == WANE_OK)
        status = wane__sorter_new(build->folder, build->memory / 4, &build->replies, error);
    if (status == WANE_OK) status = wane__build_keys(build, error);
    wane__build_count(build);
    wane__sorter_free(build->samples); /* the rest needs what it held */
    build->samples = NULL;
    if (status == WANE_OK) status = wane__sorter_finish(build->replies, error);
    if (status == WANE_OK) status = wane__build_index(build, error);
    if (status == WANE_OK) status = wane__build_chains(build, error);
    uint64_t tokens = (uint64_t)WANE__BUILD_BYTES_AN_ENTRY * (uint64_t)build->options.set.max_entries / 16;
    if (status == WANE_OK) status = bound_chains(build, tokens, error);
    if (status == WANE_OK) status = fit_positions(build, content, error);
    if (status == WANE_OK) status = wane__build_replies(build, error);
    if (status == WANE_OK) status = make_content(build, content, error);
    if (status != WANE_OK) return status;
    note_hottest(build);
    build->report.spilled += wane__sorter_spilled(build->replies);
    build->report.seconds += wane__now() - begun;
    if (report != NULL) *report = build->report;
    return WANE_OK;
}
