/*
 * build.c - the build as a whole: reading, bounds on memory, the order of the steps. Owns everything of a build; refuses
 * settings out of their ranges and records of another model.
 *
 *     memory:  half for the sort of the samples │ a quarter for that of the replies │ the rest for what is fixed
 */
#include "table/build_internal.h"

#include "core/error.h"
#include "core/memory.h"
#include "core/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void wane_table_build_options_init(wane_table_build_options *options) {
    *options = (wane_table_build_options){.size = sizeof *options,
                                          .window = WANE__WINDOW,
                                          .depth = WANE__SLMT_DEPTH,
                                          .min_stability = 0.999f,
                                          .min_share = 0.95f,
                                          .min_seen = 2,
                                          .follow = 0.5f,
                                          .max_entries = 50000,
                                          .memory = (size_t)512 << 20};
}

/* -------------------------------------------------------------------- settings */

static int check_count(const char *name, double value, double least, double most, wane_error *error) {
    if (value >= least && value <= most) return WANE_OK;
    return wane__fail(error, WANE_EINVAL, "%s is %g; it takes %g to %g.", name, value, least, most);
}

static int check_settings(const wane_table_build_options *set, wane_error *error) {
    int status = check_count("The table's window", set->window, 1, WANE__WINDOW_MOST, error);
    if (status == WANE_OK) status = check_count("The table's depth", set->depth, 1, WANE__SLMT_DEPTH, error);
    if (status == WANE_OK)
        status = check_count("The least stability", (double)set->min_stability, -1, 1, error);
    if (status == WANE_OK) status = check_count("The least share", (double)set->min_share, 0, 1, error);
    if (status == WANE_OK) status = check_count("The least times seen", set->min_seen, 1, 1000000, error);
    if (status == WANE_OK) status = check_count("The share to follow", (double)set->follow, 0.01, 1, error);
    if (status == WANE_OK) status = check_count("Entries at most", set->max_entries, 1, 16000000, error);
    if (status != WANE_OK) return status;
    if (set->memory < WANE__BUILD_MEMORY_LEAST)
        return wane__fail(error, WANE_EINVAL,
                          "A table's build needs at least 128 MiB of memory; it got %zu bytes.", set->memory);
    /* An entry, its place in the index and the file, its positions and continuation: about so many bytes. */
    double fixed = (double)set->max_entries * 1600;
    double strata = (double)WANE__KINDS * 8 * ((double)set->samples + 1);
    if (fixed > (double)set->memory * 3 / 4 || strata > (double)set->memory / 8)
        return wane__fail(
            error, WANE_EINVAL,
            "%d entries and %llu samples of a kind need more than the %zu MiB of memory that the "
            "build may take. Raise that.",
            set->max_entries, (unsigned long long)set->samples, set->memory >> 20);
    return WANE_OK;
}

int wane__build_new(const struct wane__build_options *options, struct wane__build **out, wane_error *error) {
    *out = NULL;
    int status = check_settings(&options->set, error);
    if (status != WANE_OK) return status;
    int vocab = options->origin.vocab_size;
    if (vocab < 1 || vocab > 1 << 24)
        return wane__fail(error, WANE_EINVAL, "A table's vocabulary has 1 to 16777216 tokens, not %d.",
                          vocab);
    struct wane__build *build = wane__alloc_zero(1, sizeof *build);
    if (build == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a table's build.");
    build->options = *options;
    build->place_file = -1;
    build->memory = options->set.memory;
    build->strata.limit = options->set.samples;
    build->folder = wane__copy_string(options->set.temporary);
    if (options->set.temporary != NULL && build->folder == NULL)
        status = wane__fail(error, WANE_ENOMEM, "No memory for a table's build.");
    if (status == WANE_OK)
        status = wane__sorter_new(build->folder, build->memory / 2, &build->samples, error);
    wane_table_report *report = &build->report;
    memcpy(report->model, options->origin.model, sizeof report->model);
    memcpy(report->tokenizer, options->origin.tokenizer, sizeof report->tokenizer);
    report->vocab_size = vocab;
    report->window = options->set.window;
    report->phrase_auc = NAN;
    if (status != WANE_OK) {
        wane__build_free(build);
        return status;
    }
    *out = build;
    return WANE_OK;
}

void wane__build_free(struct wane__build *build) {
    if (build == NULL) return;
    wane__sorter_free(build->samples);
    wane__sorter_free(build->replies);
    wane__strata_free(&build->strata);
    for (int i = 0; i < build->name_count; i++) wane__free(build->names[i]);
    if (build->place_file >= 0) close(build->place_file);
    void *owned[] = {build->names,           build->folder,    build->pick,     build->index,
                     build->chain,           build->follow,    build->followed, build->position,
                     build->example,         build->out_entry, build->phrases,  build->out_position,
                     build->out_continuation};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) wane__free(owned[i]);
    wane__free(build);
}

int wane__build_progress(struct wane__build *build, const char *what, double share, wane_error *error) {
    const wane_table_build_options *set = &build->options.set;
    if (set->progress == NULL || set->progress(set->progress_user, what, share)) return WANE_OK;
    return wane__fail(error, WANE_ECANCELLED, "The table's build was stopped.");
}

uint32_t wane__build_need(const struct wane__build *build) {
    return build->options.set.min_seen > 2 ? (uint32_t)build->options.set.min_seen : 2;
}

/* -------------------------------------------------------------------- reading */

static int add_record(struct wane__build *build, const struct wane__trace_token *record, wane_error *error) {
    struct wane__sample sample;
    enum wane__sample_fate fate;
    uint8_t bytes[WANE__SAMPLE_MOST];
    const struct wane__build_options *options = &build->options;
    int status =
        wane__sample_from(record, options->set.window, options->origin.vocab_size, &sample, &fate, error);
    if (status != WANE_OK) return status;
    build->records++;
    build->fates[fate]++;
    if ((unsigned)record->kind < WANE__KINDS) build->kinds[record->kind]++;
    if (fate != WANE__SAMPLE_GOOD) return WANE_OK;
    size_t size = wane__sample_encode(&sample, bytes);
    if (!wane__strata_add(&build->strata, sample.kind, sample.hash, &status))
        return status == WANE_OK ? WANE_OK
                                 : wane__fail(error, status, "No memory to choose samples by their kinds.");
    build->kept++;
    return wane__sorter_add(build->samples, bytes, size, error);
}

int wane__build_read(struct wane__build *build, const struct wane__build_source *source, wane_error *error) {
    struct wane__trace_token record = {0};
    for (uint64_t done = 0;; done++) {
        int status = WANE_OK;
        if (done % 1024 == 0) {
            double share = source->share != NULL ? source->share(source->user) : -1;
            status = wane__build_progress(build, "reading traces", share, error);
        }
        if (status == WANE_OK) {
            status = source->next(source->user, &record, error);
            if (status == 0) return WANE_OK;
        }
        if (status == 1) status = add_record(build, &record, error);
        if (status != WANE_OK) return status;
    }
}

/* -------------------------------------------------------------------- keys by hash */

int wane__build_index(struct wane__build *build, wane_error *error) {
    uint32_t slots = 16;
    while (slots < 2 * build->picks) slots *= 2;
    build->index = wane__alloc_zero(slots, sizeof *build->index);
    if (build->index == NULL)
        return wane__fail(error, WANE_ENOMEM, "No memory for %u entries.", build->picks);
    build->index_mask = slots - 1;
    for (uint32_t i = 0; i < build->picks; i++) {
        struct wane__slmt_key key = build->pick[i].entry.key;
        uint32_t at = (uint32_t)wane__mix64(key.window ^ key.ten) & build->index_mask;
        while (build->index[at].pick != 0) at = (at + 1) & build->index_mask;
        build->index[at] = (struct wane__pick_slot){key.window, key.ten, i + 1};
    }
    return WANE_OK;
}

const struct wane__pick *wane__build_find(const struct wane__build *build, struct wane__slmt_key key) {
    uint32_t at = (uint32_t)wane__mix64(key.window ^ key.ten) & build->index_mask;
    const struct wane__pick_slot *slot = &build->index[at];
    for (; slot->pick != 0; slot = &build->index[at]) {
        if (slot->window == key.window && slot->ten == key.ten) return &build->pick[slot->pick - 1];
        at = (at + 1) & build->index_mask;
    }
    return NULL;
}
