/*
 * build_keys.c - one walk over the samples in the order of their keys: sums, stability, which keys are worth an entry.
 *
 *     key ┬ place ┬ sample        Samples of a place saw the same whole context, those of a key the same last tokens.
 *         │       └ sample
 *         └ place ─ sample
 *
 * Owns the sums of the key and of the place that it stands at, and the heap of the most useful keys. What was seen once is
 * passed on without being summed.
 */
#include "table/build_internal.h"

#include "core/error.h"
#include "core/memory.h"
#include "sample/exp.h"

#include <stdlib.h>
#include <string.h>

static const float bands[WANE_TABLE_BANDS] = {-1, 0.5f, 0.9f, 0.99f, 0.995f, 0.999f, 0.9999f, 0.99999f};

const float *wane_table_bands(void) {
    return bands;
}

int wane__key_compare(struct wane__slmt_key a, struct wane__slmt_key b) {
    if (a.window != b.window) return a.window < b.window ? -1 : 1;
    return (a.ten > b.ten) - (a.ten < b.ten);
}

bool wane__pick_worse(const struct wane__pick *a, const struct wane__pick *b) {
    if (a->uses != b->uses) return a->uses < b->uses;
    return wane__key_compare(a->entry.key, b->entry.key) > 0;
}

/* -------------------------------------------------------------------- places in their file */

void wane__place_encode(const struct wane__place *place, uint8_t bytes[WANE__PLACE_BYTES]) {
    memset(bytes, 0, WANE__PLACE_BYTES);
    wane__put_big(bytes, place->key.window, 8);
    wane__put_big(bytes + 8, place->key.ten, 4);
    wane__put_big(bytes + 12, place->index, 4);
    wane__put_big(bytes + 16, place->place, 8);
    wane__put(bytes + 24, place->seen, 4);
    bytes[28] = place->stable;
    bytes[29] = (uint8_t)place->top_count;
    for (int i = 0; i < place->top_count; i++) {
        wane__put(bytes + 30 + 8 * i, (uint32_t)place->top[i].token, 4);
        wane__put_float(bytes + 34 + 8 * i, place->top[i].logit);
    }
}

void wane__place_decode(const uint8_t bytes[WANE__PLACE_BYTES], struct wane__place *place) {
    place->key.window = wane__get_big(bytes, 8);
    place->key.ten = (uint32_t)wane__get_big(bytes + 8, 4);
    place->index = (uint32_t)wane__get_big(bytes + 12, 4);
    place->place = wane__get_big(bytes + 16, 8);
    place->seen = (uint32_t)wane__get(bytes + 24, 4);
    place->stable = bytes[28];
    place->top_count = bytes[29] < WANE__SLMT_DEPTH ? bytes[29] : WANE__SLMT_DEPTH;
    for (int i = 0; i < place->top_count; i++) {
        place->top[i].token = (int32_t)(uint32_t)wane__get(bytes + 30 + 8 * i, 4);
        place->top[i].logit = wane__get_float(bytes + 34 + 8 * i);
    }
}

/* -------------------------------------------------------------------- the walk */

/* One context whose samples are being summed: a key, or a place of it. */
struct group {
    struct wane__sums *sums;
    uint32_t seen;
    struct wane__sample first;
};

struct walk {
    struct wane__build *build;
    struct wane__run_writer places;
    struct group key, place;
    struct wane__place held; /* the key's first place, until a second sample shows that it is of use */
    bool holds;
    uint64_t place_stable; /* samples of this key in places that are stable by themselves */
    uint8_t kinds;
    wane_error *error;
};

/* The first sample waits: most contexts are seen once and need no sums. */
static int group_add(struct group *group, const struct wane__sample *sample, wane_error *error) {
    int status = WANE_OK;
    if (group->seen == 0) {
        group->first = *sample;
    } else {
        if (group->seen == 1) {
            wane__sums_clear(group->sums);
            status = wane__sums_add(group->sums, &group->first, error);
        }
        if (status == WANE_OK) status = wane__sums_add(group->sums, sample, error);
    }
    group->seen++;
    return status;
}

static bool is_stable(const struct wane__build *build, const struct wane__summary *summary, uint32_t need) {
    const wane_table_build_options *set = &build->options.set;
    return summary->seen >= need && (float)summary->stability >= set->min_stability &&
           (float)summary->share >= set->min_share;
}

static int write_place(struct walk *walk, const struct wane__place *place) {
    uint8_t bytes[WANE__PLACE_BYTES];
    wane__place_encode(place, bytes);
    return wane__run_writer_add(&walk->places, bytes, sizeof bytes, walk->error);
}

static int close_place(struct walk *walk) {
    struct group *group = &walk->place;
    const wane_table_build_options *set = &walk->build->options.set;
    if (group->seen == 0) return WANE_OK;
    const struct wane__sample *s = &group->first;
    struct wane__place place = {.key = s->key, .index = s->index, .place = s->place, .seen = group->seen};
    place.top_count = s->top_count < set->depth ? s->top_count : set->depth;
    memcpy(place.top, s->top, sizeof place.top);
    place.stable = set->min_seen <= 1;
    if (group->seen > 1) {
        struct wane__summary summary;
        wane__sums_finish(group->sums, (double)set->min_stability, 1, &summary);
        place.stable = is_stable(walk->build, &summary, (uint32_t)set->min_seen);
    }
    if (place.stable) walk->place_stable += group->seen;
    walk->build->report.places++;
    group->seen = 0;
    if (walk->key.seen == 1 && !place.stable) {
        walk->held = place;
        walk->holds = true;
        return WANE_OK;
    }
    return write_place(walk, &place);
}

static int emit_reply(struct walk *walk, const struct wane__sample *sample, bool keyed) {
    uint8_t bytes[WANE__REPLY_MOST];
    size_t size = wane__reply_encode(sample, keyed, bytes);
    return wane__sorter_add(walk->build->replies, bytes, size, walk->error);
}

/* -------------------------------------------------------------------- picking */

static void pick_down(struct wane__pick *heap, uint32_t count) {
    for (uint32_t at = 0;;) {
        uint32_t worst = at;
        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++)
            if (wane__pick_worse(&heap[child], &heap[worst])) worst = child;
        if (worst == at) return;
        struct wane__pick moved = heap[at];
        heap[at] = heap[worst];
        heap[worst] = moved;
        at = worst;
    }
}

static void pick_add(struct wane__build *build, const struct wane__pick *pick) {
    struct wane__pick *heap = build->pick;
    build->report.suited++;
    if (build->picks == (uint32_t)build->options.set.max_entries) {
        if (!wane__pick_worse(&heap[0], pick)) return;
        heap[0] = *pick;
        pick_down(heap, build->picks);
        return;
    }
    uint32_t at = build->picks++;
    for (; at > 0 && wane__pick_worse(pick, &heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = *pick;
}

static void count_band(wane_table_report *report, const struct wane__summary *summary) {
    int band = 0;
    while (band + 1 < WANE_TABLE_BANDS && (float)summary->stability >= bands[band + 1]) band++;
    report->band[band]++;
    report->band_records[band] += summary->seen;
}

static void note_hot(struct walk *walk, const struct wane__summary *summary) {
    wane_table_report *report = &walk->build->report;
    int at = report->hottest_count;
    while (at > 0 && summary->seen > report->hottest[at - 1].seen) at--;
    if (at == WANE_TABLE_HOTTEST) return;
    if (report->hottest_count < WANE_TABLE_HOTTEST) report->hottest_count++;
    for (int i = report->hottest_count - 1; i > at; i--) report->hottest[i] = report->hottest[i - 1];
    const struct wane__sample *s = &walk->key.first;
    wane_table_hot *hot = &report->hottest[at];
    *hot = (wane_table_hot){.next = summary->next, .seen = summary->seen, .next_seen = summary->next_drawn};
    hot->stability = (float)summary->stability;
    hot->last_count = s->key.ten != 0 ? WANE__TEN : walk->build->options.set.window;
    memcpy(hot->last, s->last + s->last_count - hot->last_count, (size_t)hot->last_count * sizeof *hot->last);
}

/* A context seen once: the sample itself. Nothing is known of its stability. */
static void summarize_one(const struct wane__sample *s, int depth, struct wane__summary *summary) {
    *summary = (struct wane__summary){.seen = 1, .first = 1, .next = s->token, .next_drawn = 1};
    for (int i = 0; i < s->top_count && i < depth; i++) {
        double under = (double)s->top[i].logit - (double)s->log_sum;
        summary->top[i] = s->top[i];
        summary->drawn[i] = s->top[i].token == s->token;
        summary->mass += wane__exp_weight(under < 0 ? under : 0);
        summary->top_count = i + 1;
    }
    if (summary->mass > 1) summary->mass = 1;
}

static void make_pick(const struct walk *walk, const struct wane__summary *summary, struct wane__pick *pick) {
    const struct wane__sample *s = &walk->key.first;
    *pick = (struct wane__pick){.tenant = s->tenant, .last_count = s->last_count};
    memcpy(pick->last, s->last, sizeof pick->last);
    memcpy(pick->drawn, summary->drawn, sizeof pick->drawn);
    pick->next = summary->next;
    pick->next_drawn = summary->next_drawn;
    struct wane__slmt_entry *entry = &pick->entry;
    entry->key = s->key;
    entry->seen = summary->seen;
    entry->stability = (float)summary->stability;
    entry->agreement = (float)((double)summary->drawn[0] / summary->seen);
    entry->mass = (float)summary->mass;
    entry->kinds = walk->kinds;
    entry->top_count = (uint8_t)summary->top_count;
    memcpy(entry->top, summary->top, sizeof entry->top);
}

/* Is this key worth an entry, and how many of its records would it have answered? */
static int close_key(struct walk *walk) {
    struct group *group = &walk->key;
    struct wane__build *build = walk->build;
    const wane_table_build_options *set = &build->options.set;
    if (group->seen == 0) return WANE_OK;
    int status = close_place(walk);
    struct wane__summary summary;
    struct wane__pick pick;
    if (group->seen == 1) {
        build->report.once++;
        summarize_one(&group->first, set->depth, &summary);
    } else {
        wane__sums_finish(group->sums, (double)set->min_stability, set->depth, &summary);
        count_band(&build->report, &summary);
        build->report.other_best += summary.seen - summary.first;
    }
    build->report.contexts++;
    note_hot(walk, &summary);
    make_pick(walk, &summary, &pick);
    uint32_t need = wane__build_need(build);
    pick.stable = is_stable(build, &summary, need);
    build->report.stable += pick.stable;
    pick.uses = pick.stable ? summary.seen : walk->place_stable;
    bool leads = summary.seen >= need && (double)summary.next_drawn >= (double)set->follow * summary.seen;
    if (leads && summary.next_drawn > pick.uses) pick.uses = summary.next_drawn;
    if (pick.uses > 0) pick_add(build, &pick);
    if (status == WANE_OK && group->seen == 1) status = emit_reply(walk, &group->first, pick.uses > 0);
    walk->holds = false;
    walk->place_stable = 0;
    walk->kinds = 0;
    group->seen = 0;
    return status;
}

static int walk_sample(struct walk *walk, const struct wane__sample *s) {
    struct wane__build *build = walk->build;
    struct group *key = &walk->key, *place = &walk->place;
    int window = build->options.set.window, status = WANE_OK;
    if (key->seen > 0 && wane__key_compare(key->first.key, s->key) != 0)
        status = close_key(walk);
    else if (place->seen > 0 && (place->first.index != s->index || place->first.place != s->place))
        status = close_place(walk);
    if (status == WANE_OK && walk->holds) {
        status = write_place(walk, &walk->held);
        walk->holds = false;
    }
    if (status == WANE_OK && key->seen == 1) status = emit_reply(walk, &key->first, true);
    if (status == WANE_OK && key->seen >= 1) {
        const int32_t *end = s->last + s->last_count, *first = key->first.last + key->first.last_count;
        build->report.same_hash += s->tenant != key->first.tenant ||
                                   memcmp(end - window, first - window, (size_t)window * sizeof *end) != 0;
        status = emit_reply(walk, s, true);
    }
    build->report.used[s->kind]++;
    walk->kinds |= (uint8_t)(1u << s->kind);
    if (status == WANE_OK) status = group_add(key, s, walk->error);
    if (status == WANE_OK) status = group_add(place, s, walk->error);
    return status;
}

static int walk_all(struct walk *walk) {
    struct wane__build *build = walk->build;
    uint64_t bound[WANE__KINDS], done = 0;
    bool none[WANE__KINDS];
    wane__strata_bounds(&build->strata, bound, none);
    struct wane__sample sample;
    for (;;) {
        const uint8_t *bytes;
        size_t size;
        int status = wane__sorter_next(build->samples, &bytes, &size, walk->error);
        if (status == 0) return close_key(walk);
        if (status == 1)
            status = wane__sample_decode(bytes, size, build->options.origin.vocab_size,
                                         "The sort of the records", &sample, walk->error);
        if (status == WANE_OK && done++ % 4096 == 0)
            status = wane__build_progress(build, "comparing contexts", (double)done / (double)build->kept,
                                          walk->error);
        if (status != WANE_OK) return status;
        if (none[sample.kind] || sample.hash > bound[sample.kind]) continue;
        status = walk_sample(walk, &sample);
        if (status != WANE_OK) return status;
    }
}

/* -------------------------------------------------------------------- */

static int by_key(const void *a, const void *b) {
    const struct wane__pick *x = a, *y = b;
    return wane__key_compare(x->entry.key, y->entry.key);
}

int wane__build_keys(struct wane__build *build, wane_error *error) {
    struct walk *walk = wane__alloc_zero(1, sizeof *walk);
    build->pick = wane__alloc((size_t)build->options.set.max_entries * sizeof *build->pick);
    int status = WANE_OK;
    if (walk == NULL || build->pick == NULL) {
        wane__free(walk);
        return wane__fail(error, WANE_ENOMEM, "No memory for %d entries.", build->options.set.max_entries);
    }
    walk->build = build;
    walk->error = error;
    build->place_file = wane__sort_temporary(build->folder, error);
    if (build->place_file < 0) status = build->place_file;
    if (status == WANE_OK) status = wane__run_writer_open(&walk->places, build->place_file, error);
    if (status == WANE_OK) status = wane__sums_new(&walk->key.sums, error);
    if (status == WANE_OK) status = wane__sums_new(&walk->place.sums, error);
    if (status == WANE_OK) status = walk_all(walk);
    if (status == WANE_OK) status = wane__run_writer_flush(&walk->places, error);
    build->place_bytes = walk->places.written;
    wane__run_writer_close(&walk->places);
    wane__sums_free(walk->key.sums);
    wane__sums_free(walk->place.sums);
    wane__free(walk);
    if (status == WANE_OK) qsort(build->pick, build->picks, sizeof *build->pick, by_key);
    return status;
}
