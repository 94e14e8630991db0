/*
 * table_build.c - `wane table build` and `wane table merge`, also as the program slmt_builder: from traces to a table, or
 * to one number after another of what a setting does (--sweep).
 */
#include "table_build.h"
#include "file_out.h"
#include "text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void table_options_from(const struct settings *settings, wane_table_build_options *options) {
    wane_table_build_options_init(options);
    options->output = setting_text(settings, SET_OUTPUT);
    options->partial = setting_on(settings, SET_PARTIAL);
    options->vocab_size = setting_int(settings, SET_VOCAB_SIZE);
    options->window = setting_int(settings, SET_TABLE_WINDOW);
    options->depth = setting_int(settings, SET_DEPTH);
    options->samples = (uint64_t)settings->value[SET_SAMPLES].integer;
    options->min_stability = setting_float(settings, SET_MIN_STABILITY);
    options->min_share = setting_float(settings, SET_MIN_SHARE);
    options->min_seen = setting_int(settings, SET_MIN_SEEN);
    options->follow = setting_float(settings, SET_FOLLOW);
    options->max_entries = setting_int(settings, SET_MAX_ENTRIES);
    options->phrases = setting_on(settings, SET_PHRASES);
    options->built_at = setting_on(settings, SET_STAMP) ? (int64_t)time(NULL) : 0;
    options->memory = (size_t)settings->value[SET_BUILD_MEMORY].integer;
    options->temporary = setting_text(settings, SET_TEMPORARY);
    options->progress = progress_goes_on;
}

/* The model whose traces these must be, where one was named. */
static int expect(const struct settings *settings, wane_model **model, wane_table_build_options *options) {
    wane_error error = {0};
    int given = options->vocab_size;
    if (settings->value[SET_MODEL].source != FROM_OPTION) return EXIT_FINE;
    struct model_wish wish = {.vocab_only = true};
    int code = model_open(settings, &wish, model);
    if (code != EXIT_FINE) return code;
    if (wane_table_build_options_of(options, *model, &error) != WANE_OK) return cli_fail_wane(&error);
    if (given > 0 && given != options->vocab_size)
        return cli_fail(EXIT_USAGE, "--vocab-size is %d, but %s has %d tokens", given,
                        wane_model_get_facts(*model)->name, options->vocab_size);
    return EXIT_FINE;
}

/* -------------------------------------------------------------------- the report */

/* As JSON, under a temporary name until it is whole. */
static int write_report(const char *path, json_t *report) {
    struct file_out out;
    file_begin(&out, path);
    bool good = out.file != NULL &&
                json_dumpf(report, out.file, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0 &&
                fputc('\n', out.file) != EOF;
    return file_end(&out, good)
               ? EXIT_FINE
               : cli_fail(EXIT_FAILED, "cannot write the report %s: %s", path, strerror(errno));
}

static int show_report(const struct settings *settings, const wane_table_report *report,
                       const wane_model *model) {
    const char *path = setting_text(settings, SET_REPORT);
    json_t *json = report_json(report, model);
    int code = path != NULL ? write_report(path, json) : EXIT_FINE;
    if (setting_on(settings, SET_JSON)) {
        out_json(json, false);
        return code;
    }
    json_decref(json);
    if (setting_on(settings, SET_PARTIAL)) {
        uint64_t all = report->records - report->changed - report->too_short - report->empty;
        out_format("%s: %" PRIu64 " records, %" PRIu64
                   " of them of use; wane table merge makes tables of such files\n",
                   setting_text(settings, SET_OUTPUT), report->records, all);
    } else {
        report_print(report, model);
    }
    return code;
}

static int build_one(const struct settings *settings, const wane_table_build_options *options,
                     const wane_model *model) {
    wane_table_report *report = text_alloc(sizeof *report);
    wane_error error = {0};
    int status = wane_table_build(options, report, &error);
    progress_clear();
    int code = status == WANE_OK ? show_report(settings, report, model) : cli_fail_wane(&error);
    free(report);
    return code;
}

/* -------------------------------------------------------------------- sweeps */

/* The steps of each sweep; what is asked for otherwise stays as the settings say. */
static const struct sweep {
    const char *name;
    int count;
    double value[8];
} sweeps[] = {
    {"window", 8, {1, 2, 3, 4, 5, 6, 8, 10}},
    {"depth", 5, {1, 2, 3, 4, 5}},
    {"stability", 8, {0.5, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999}},
    {"entries", 8, {1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000}},
};

static void set_step(wane_table_build_options *options, const char *name, double value) {
    if (strcmp(name, "window") == 0) options->window = (int)value;
    if (strcmp(name, "depth") == 0) options->depth = (int)value;
    if (strcmp(name, "stability") == 0) options->min_stability = (float)value;
    if (strcmp(name, "entries") == 0) options->max_entries = (int)value;
}

static json_t *step_json(const char *name, double value, const wane_table_report *r) {
    wane_table_hits h = report_total(r);
    return json_pack("{s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", name,
                     value, "records", (json_int_t)h.records, "contexts", (json_int_t)r->contexts, "stable",
                     (json_int_t)r->stable, "suited", (json_int_t)r->suited, "entries",
                     (json_int_t)r->entries, "positions", (json_int_t)r->positions, "continuations",
                     (json_int_t)r->continuations, "window_hits", (json_int_t)h.window, "right",
                     (json_int_t)h.right, "rank", (json_int_t)h.rank, "strict", (json_int_t)h.strict,
                     "same_hash", (json_int_t)r->same_hash, "other_best", (json_int_t)r->other_best, "bytes",
                     (json_int_t)r->bytes);
}

static void print_step(const char *name, double value, const wane_table_report *r, bool first) {
    wane_table_hits h = report_total(r);
    if (first)
        out_format("%-9s %9s %9s %9s %8s %8s %8s %8s %9s %9s %9s\n", name, "contexts", "stable", "entries",
                   "window", "right", "rank", "strict", "same hash", "other best", "MB");
    out_format("%-9g %9" PRIu64 " %9" PRIu64 " %9" PRIu32 " %8.2f %8.2f %8.2f %8.2f %9" PRIu64
               " %8.2f %% %9.2f\n",
               value, r->contexts, r->stable, r->entries, report_percent(h.window, h.records),
               report_percent(h.right, h.records), report_percent(h.rank, h.records),
               report_percent(h.strict, h.records), r->same_hash, report_percent(r->other_best, h.records),
               (double)r->bytes / 1e6);
    out_flush();
}

static int sweep(const struct settings *settings, const wane_table_build_options *given) {
    const char *name = setting_text(settings, SET_SWEEP);
    const struct sweep *steps = sweeps;
    while (strcmp(steps->name, name) != 0) steps++;
    wane_table_report *report = text_alloc(sizeof *report);
    json_t *list = json_array();
    int code = EXIT_FINE;
    for (int i = 0; i < steps->count && code == EXIT_FINE; i++) {
        wane_table_build_options options = *given;
        wane_error error = {0};
        options.output = NULL;
        options.partial = false;
        set_step(&options, name, steps->value[i]);
        if (wane_table_build(&options, report, &error) != WANE_OK) {
            code = cli_fail_wane(&error);
            break;
        }
        progress_clear();
        json_array_append_new(list, step_json(name, steps->value[i], report));
        if (!setting_on(settings, SET_JSON)) print_step(name, steps->value[i], report, i == 0);
    }
    free(report);
    const char *path = setting_text(settings, SET_REPORT);
    if (code == EXIT_FINE && path != NULL) code = write_report(path, list);
    if (code == EXIT_FINE && setting_on(settings, SET_JSON))
        out_json(list, false);
    else
        json_decref(list);
    return code;
}

/* -------------------------------------------------------------------- */

static int run(const struct settings *settings, wane_table_build_options *options) {
    wane_model *model = NULL;
    interrupt_catch();
    int code = expect(settings, &model, options);
    if (code == EXIT_FINE)
        code = setting_text(settings, SET_SWEEP) != NULL ? sweep(settings, options)
                                                         : build_one(settings, options, model);
    progress_clear();
    wane_model_free(model);
    return code;
}

const char **table_logs(const struct settings *settings, size_t first, size_t *count) {
    const struct setting_value *named = &settings->value[SET_LOG_FILE];
    *count = named->list_count + settings->operand_count - first;
    if (*count == 0) return NULL;
    const char **logs = text_alloc(*count * sizeof *logs);
    for (size_t i = 0; i < named->list_count; i++) logs[i] = named->list[i];
    for (size_t i = first; i < settings->operand_count; i++)
        logs[named->list_count + i - first] = settings->operands[i];
    return logs;
}

static int usage_of_build(const struct settings *settings, const wane_table_build_options *options,
                          size_t count) {
    if (count == 0)
        return cli_usage("table", "wane table build needs traces: --log-file FILE, or a folder of them");
    if (options->output == NULL && setting_text(settings, SET_SWEEP) == NULL &&
        !setting_on(settings, SET_PARTIAL) && setting_text(settings, SET_REPORT) == NULL)
        return cli_usage(
            "table", "wane table build needs --output FILE; --report FILE alone tells what it would hold");
    if (options->partial && options->output == NULL)
        return cli_usage("table", "wane table build --partial needs --output FILE");
    return EXIT_FINE;
}

int table_build(const struct settings *settings, size_t first) {
    wane_table_build_options options;
    size_t count;
    table_options_from(settings, &options);
    const char **logs = table_logs(settings, first, &count);
    options.logs = logs;
    options.log_count = (int)count;
    int code = usage_of_build(settings, &options, count);
    bool far = setting_text(settings, SET_RAY) != NULL;
    if (code == EXIT_FINE && far) code = table_build_ray(settings, first);
    if (code == EXIT_FINE && !far) code = run(settings, &options);
    free(logs);
    return code;
}

int table_merge(const struct settings *settings, size_t first) {
    wane_table_build_options options;
    table_options_from(settings, &options);
    const char *name = setting_text(settings, SET_SWEEP);
    if (settings->operand_count == first)
        return cli_usage("table",
                         "wane table merge needs partial builds: wane table build --partial makes them");
    if (settings->value[SET_LOG_FILE].list_count > 0)
        return cli_usage("table", "wane table merge takes partial builds, no traces");
    if (name != NULL && strcmp(name, "window") == 0)
        return cli_usage("table", "partial builds have one window; sweep it with wane table build");
    if (options.output == NULL && name == NULL && setting_text(settings, SET_REPORT) == NULL)
        return cli_usage("table", "wane table merge needs --output FILE");
    options.partials = (const char *const *)&settings->operands[first];
    options.partial_count = (int)(settings->operand_count - first);
    return run(settings, &options);
}
