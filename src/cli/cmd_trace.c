/*
 * cmd_trace.c - `wane trace`: what traces hold, their first records, and whether every line of them is right.
 */
#include "cli.h"
#include "text.h"

#include <string.h>

struct faults {
    bool json;
    json_t *list; /* of {file, line, fault} */
};

static const char *const *files_of(const struct settings *settings, size_t *count) {
    *count = settings->operand_count - 1;
    return (const char *const *)(settings->operands + 1);
}

static bool take_fault(void *user, const char *path, uint64_t line, const char *text) {
    struct faults *faults = user;
    (void)path;
    if (faults->list != NULL)
        json_array_append_new(faults->list, json_pack("{s:s, s:I, s:s}", "file", path, "line",
                                                      (json_int_t)line, "fault", text));
    if (!faults->json) cli_say("%s", text);
    return !interrupt_seen();
}

static json_t *by_kind(const uint64_t of[4]) {
    json_t *all = json_object();
    for (int kind = 0; kind < 4; kind++)
        json_object_set_new(all, wane_kind_name(kind), json_integer((json_int_t)of[kind]));
    return all;
}

static json_t *stats_json(const wane_trace_stats *s) {
    json_t *all = json_object();
    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {{"files", s->files},
                  {"lines", s->lines},
                  {"bytes", s->bytes},
                  {"requests", s->requests},
                  {"tokens", s->tokens},
                  {"ends", s->ends},
                  {"changed_tokens", s->changed},
                  {"windows", s->windows},
                  {"dropped_requests", s->dropped_requests},
                  {"dropped_tokens", s->dropped_tokens},
                  {"redacted_tokens", s->redacted_tokens},
                  {"withheld_tokens", s->withheld_tokens},
                  {"cut_tails", s->cut_tails},
                  {"bad_lines", s->bad_lines},
                  {"votes", s->votes}};
    json_object_set_new(all, "model", s->vocab_size > 0 && !s->mixed ? json_string(s->model) : json_null());
    json_object_set_new(all, "tokenizer",
                        s->vocab_size > 0 && !s->mixed ? json_string(s->tokenizer) : json_null());
    json_object_set_new(all, "mixed", json_boolean(s->mixed));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        json_object_set_new(all, counts[i].name, json_integer((json_int_t)counts[i].value));
    json_object_set_new(all, "requests_by_kind", by_kind(s->requests_of));
    json_object_set_new(all, "tokens_by_kind", by_kind(s->tokens_of));
    return all;
}

static void print_stats(const wane_trace_stats *s) {
    out_format("model      %s\ntokenizer  %s\n",
               s->mixed            ? "several"
               : s->vocab_size > 0 ? s->model
                                   : "none",
               s->mixed            ? "several"
               : s->vocab_size > 0 ? s->tokenizer
                                   : "none");
    out_format("files      %llu, with %llu lines, %.1f MB of text\n", (unsigned long long)s->files,
               (unsigned long long)s->lines, (double)s->bytes / 1e6);
    out_format("requests   %llu, of which %llu have ended\n", (unsigned long long)s->requests,
               (unsigned long long)s->ends);
    out_format("tokens     %llu, after about %llu different windows of 3\n", (unsigned long long)s->tokens,
               (unsigned long long)s->windows);
    for (int kind = 0; kind < 4; kind++)
        out_format("  %-8s %llu requests, %llu tokens\n", wane_kind_name(kind),
                   (unsigned long long)s->requests_of[kind], (unsigned long long)s->tokens_of[kind]);
    out_format("changed    %llu tokens by a correction\n", (unsigned long long)s->changed);
    out_format("dropped    %llu requests, %llu tokens\n", (unsigned long long)s->dropped_requests,
               (unsigned long long)s->dropped_tokens);
    out_format("redacted   %llu tokens; %llu token records withheld\n",
               (unsigned long long)s->redacted_tokens, (unsigned long long)s->withheld_tokens);
    out_format("votes      %llu\n", (unsigned long long)s->votes);
    out_format("cut tails  %llu\nbad lines  %llu\n", (unsigned long long)s->cut_tails,
               (unsigned long long)s->bad_lines);
}

static int count(const struct settings *settings, bool strictly, wane_trace_stats *stats,
                 struct faults *faults) {
    wane_error error = {0};
    size_t files;
    const char *const *paths = files_of(settings, &files);
    interrupt_catch();
    int result =
        wane_trace_count(paths, files, strictly, take_fault, progress_goes_on, faults, stats, &error);
    progress_clear();
    return result == WANE_OK ? EXIT_FINE : cli_fail_wane(&error);
}

static int show_stats(const struct settings *settings) {
    wane_trace_stats stats;
    struct faults faults = {0};
    int code = count(settings, false, &stats, &faults);
    if (code != EXIT_FINE) return code;
    if (setting_on(settings, SET_JSON))
        out_json(stats_json(&stats), false);
    else
        print_stats(&stats);
    return EXIT_FINE;
}

static int validate(const struct settings *settings) {
    wane_trace_stats stats;
    struct faults faults = {setting_on(settings, SET_JSON), json_array()};
    int code = count(settings, true, &stats, &faults);
    if (code == EXIT_FINE && faults.json) {
        out_json(json_pack("{s:b, s:I, s:I, s:I, s:I, s:O}", "valid", stats.bad_lines == 0, "files",
                           (json_int_t)stats.files, "lines", (json_int_t)stats.lines, "cut_tails",
                           (json_int_t)stats.cut_tails, "bad_lines", (json_int_t)stats.bad_lines, "faults",
                           faults.list),
                 false);
    } else if (code == EXIT_FINE) {
        out_format("%llu files, %llu lines: %llu wrong, %llu cut tails\n", (unsigned long long)stats.files,
                   (unsigned long long)stats.lines, (unsigned long long)stats.bad_lines,
                   (unsigned long long)stats.cut_tails);
    }
    json_decref(faults.list);
    return code == EXIT_FINE && stats.bad_lines > 0 ? EXIT_FAILED : code;
}

static bool print_line(void *user, const char *path, uint64_t line, const char *text, size_t size) {
    int64_t *left = user;
    (void)path;
    (void)line;
    return out_text(text, size) && out_text("\n", 1) && --*left > 0;
}

static int show_head(const struct settings *settings) {
    wane_error error = {0};
    size_t files;
    const char *const *paths = files_of(settings, &files);
    int64_t left = settings->value[SET_LINES].integer;
    int result = wane_trace_lines(paths, files, print_line, &left, &error);
    return result == WANE_OK ? EXIT_FINE : cli_fail_wane(&error);
}

int command_trace(struct settings *settings) {
    const char *what = settings->operand_count > 0 ? settings->operands[0] : NULL;
    if (what == NULL) return cli_usage("trace", "wane trace needs stats, head or validate");
    bool is_stats = strcmp(what, "stats") == 0, is_head = strcmp(what, "head") == 0;
    if (!is_stats && !is_head && strcmp(what, "validate") != 0)
        return cli_usage("trace", "wane trace knows stats, head and validate; got \"%.60s\"", what);
    if (settings->operand_count < 2)
        return cli_usage("trace", "wane trace %s needs a trace, or a folder of traces", what);
    return is_stats ? show_stats(settings) : is_head ? show_head(settings) : validate(settings);
}
