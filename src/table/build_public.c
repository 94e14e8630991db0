/*
 * build_public.c - wane_table_build: traces or partial builds in, a table or a partial build out. Owns the readers; refuses traces
 * of another model, tokenizer or vocabulary before anything is written.
 */
#include "table/build_internal.h"
#include "table/requests.h"
#include "table/trace_read.h"

#include "core/clock.h"
#include "core/error.h"
#include "core/memory.h"

#include <string.h>

/* -------------------------------------------------------------------- whose traces they are */

static int check_origin(const wane_table_build_options *options, const struct wane__trace_origin *origin,
                        const char *path, wane_error *error) {
    if (options->vocab_size > 0 && origin->vocab_size != options->vocab_size)
        return wane__fail(error, WANE_EINVAL,
                          "%s is of a model with %d tokens, not with %d as was asked for.", path,
                          origin->vocab_size, options->vocab_size);
    if (options->model[0] != '\0' && strcmp(origin->model, options->model) != 0)
        return wane__fail(error, WANE_EINVAL,
                          "%s is of the model with digest %s, not of %s as was asked for.", path,
                          origin->model, options->model);
    if (options->tokenizer[0] != '\0' && strcmp(origin->tokenizer, options->tokenizer) != 0)
        return wane__fail(error, WANE_EINVAL,
                          "%s is of the tokenizer with digest %s, not of %s as was asked for.", path,
                          origin->tokenizer, options->tokenizer);
    return WANE_OK;
}

static int new_build(const wane_table_build_options *options, const struct wane__trace_origin *origin,
                     const char *path, struct wane__build **build, wane_error *error) {
    struct wane__build_options made = {.origin = *origin, .set = *options};
    int status = check_origin(options, origin, path, error);
    return status == WANE_OK ? wane__build_new(&made, build, error) : status;
}

/* -------------------------------------------------------------------- traces */

struct logs {
    struct wane__trace_reader *reader;
    struct wane__trace_origin origin;
    const wane_table_requests *held_out; /* NULL: none */
    uint64_t left_out;
};

/* The next record of a token; origins that differ are the reader's to refuse. */
static int next_token(void *user, struct wane__trace_token *token, wane_error *error) {
    struct logs *logs = user;
    for (;;) {
        struct wane__trace_record record;
        int status = wane__trace_read_next(logs->reader, &record, error);
        if (status != WANE_OK) return status;
        if (record.type == WANE__TRACE_DONE) return 0;
        if (record.type == WANE__TRACE_ORIGIN) logs->origin = *record.origin;
        if (record.type == WANE__TRACE_ORIGIN && token == NULL) return 1;
        if (record.type != WANE__TRACE_TOKEN || token == NULL) continue;
        if (wane__requests_has(logs->held_out, record.token->request)) {
            logs->left_out++;
            continue;
        }
        *token = *record.token;
        return 1;
    }
}

static double share_read(void *user) {
    const struct logs *logs = user;
    return wane__trace_read_share(logs->reader);
}

static int read_logs(const wane_table_build_options *options, struct wane__build **build,
                     wane_table_report *report, wane_error *error) {
    struct logs logs = {.held_out = options->held_out};
    struct wane__trace_read_options how = {0};
    int status = wane__trace_read_open(options->logs, (size_t)options->log_count, &how, &logs.reader, error);
    if (status != WANE_OK) return status;
    status = next_token(&logs, NULL, error);
    if (status == 0)
        status =
            wane__fail(error, WANE_EFORMAT, "There is no trace in %s: not even an origin.", options->logs[0]);
    if (status == 1) {
        const char *where = wane__trace_read_where(logs.reader, NULL);
        status = new_build(options, &logs.origin, where != NULL ? where : options->logs[0], build, error);
    }
    struct wane__build_source source = {.next = next_token, .share = share_read, .user = &logs};
    if (status == WANE_OK) status = wane__build_read(*build, &source, error);
    report->cut_files = wane__trace_read_get_counts(logs.reader)->cut_tails;
    report->held_out = logs.left_out;
    wane__trace_read_close(logs.reader);
    return status;
}

static int read_partials(const wane_table_build_options *options, struct wane__build **build,
                         wane_error *error) {
    struct wane__partial_head head = {0};
    wane_table_build_options set = *options;
    int status = wane__partial_head(options->partials[0], &head, error);
    if (status != WANE_OK) return status;
    set.window = head.window;
    set.samples = head.samples;
    status = new_build(&set, &head.origin, options->partials[0], build, error);
    for (int i = 0; i < options->partial_count && status == WANE_OK; i++)
        status = wane__build_read_partial(*build, options->partials[i], error);
    return status;
}

/* -------------------------------------------------------------------- */

static int finish(const wane_table_build_options *options, struct wane__build *build,
                  wane_table_report *report, wane_error *error) {
    if (options->partial) {
        int status = wane__build_partial(build, options->output, error);
        if (report != NULL) *report = build->report;
        return status;
    }
    struct wane__slmt_content content;
    int status = wane__build_table(build, &content, report, error);
    if (status == WANE_OK && options->output != NULL)
        status = wane__slmt_write(options->output, &content, error);
    return status;
}

int wane_table_build(const wane_table_build_options *options, wane_table_report *report, wane_error *error) {
    wane__clear(error);
    if (options == NULL || options->size != sizeof *options)
        return wane__fail(error, WANE_EINVAL,
                          "The table's options were not set up by wane_table_build_options_init.");
    if ((options->log_count > 0) == (options->partial_count > 0))
        return wane__fail(error, WANE_EINVAL,
                          "A table is built of traces or of partial builds: one of the two.");
    if (options->partial && options->output == NULL)
        return wane__fail(error, WANE_EINVAL, "A partial build needs the name of its file.");
    double begun = wane__now();
    struct wane__build *build = NULL;
    wane_table_report read = {0};
    int status = options->log_count > 0 ? read_logs(options, &build, &read, error)
                                        : read_partials(options, &build, error);
    if (status == WANE_OK && build != NULL) status = finish(options, build, report, error);
    if (status == WANE_OK && report != NULL) {
        report->cut_files = read.cut_files;
        report->held_out = read.held_out;
        report->seconds = wane__now() - begun;
    }
    wane__build_free(build);
    return status;
}
