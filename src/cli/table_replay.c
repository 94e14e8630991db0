/*
 * table_replay.c - `wane table replay`: the recorded requests once more, without a table and with it, and what that shows.
 */
#include "table_build.h"
#include "text.h"

#include <inttypes.h>
#include <stdlib.h>

static double share(uint64_t part, uint64_t whole) {
    return whole > 0 ? (double)part / (double)whole : 0;
}

static wane_table_replay_hits all_hits(const wane_table_replay_report *report) {
    wane_table_replay_hits all = {0};
    for (int i = 0; i < WANE_TABLE_KINDS; i++) {
        const wane_table_replay_hits *h = &report->hits[i];
        all.tokens += h->tokens;
        all.strict += h->strict;
        all.rank += h->rank;
        all.miss += h->miss;
        all.absent += h->absent;
    }
    return all;
}

/* -------------------------------------------------------------------- as JSON */

static json_t *hits_json(const wane_table_replay_hits *h) {
    return json_pack("{s:I, s:f, s:f, s:f, s:f}", "tokens", (json_int_t)h->tokens, "strict",
                     share(h->strict, h->tokens), "rank", share(h->rank, h->tokens), "miss",
                     share(h->miss, h->tokens), "absent", share(h->absent, h->tokens));
}

static json_t *drafts_json(const wane_table_replay_report *report) {
    json_t *all = json_object();
    for (int i = 0; i < WANE_DRAFT_SOURCES; i++)
        json_object_set_new(all, wane_draft_source_name(i),
                            json_pack("{s:I, s:I, s:f}", "proposed", (json_int_t)report->proposed[i],
                                      "accepted", (json_int_t)report->accepted[i], "acceptance",
                                      share(report->accepted[i], report->proposed[i])));
    return all;
}

static void print_json(const wane_table_replay_report *r) {
    wane_table_replay_hits all = all_hits(r);
    json_t *hits = json_object();
    for (int i = 0; i < WANE_TABLE_KINDS; i++)
        json_object_set_new(hits, wane_kind_name(i), hits_json(&r->hits[i]));
    json_object_set_new(hits, "all", hits_json(&all));
    out_json(json_pack("{s:f, s:I, s:I, s:s, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:{s:I, s:I, s:I}}",
                       "agreement", r->agreement, "requests", (json_int_t)r->requests, "divergent",
                       (json_int_t)r->divergent, "first_divergent", r->first_divergent, "tokens",
                       (json_int_t)r->tokens, "equal", (json_int_t)r->equal, "hit_rate", hits, "drafts",
                       drafts_json(r), "ms_without", json_ms(r->ms_without), "ms_with", json_ms(r->ms_with),
                       "ms_saved", json_ms(r->ms_without - r->ms_with), "left_out", "redacted",
                       (json_int_t)r->redacted, "other_tenants", (json_int_t)r->other_tenants, "too_long",
                       (json_int_t)r->too_long),
             false);
}

/* ------------------------------------------------------------------ for people */

static void print_hits(const char *name, const wane_table_replay_hits *h) {
    if (h->tokens == 0) return;
    out_format("%-8s %9" PRIu64 " %7.2f%% %7.2f%% %7.2f%% %7.2f%%\n", name, h->tokens,
               report_percent(h->strict, h->tokens), report_percent(h->rank, h->tokens),
               report_percent(h->miss, h->tokens), report_percent(h->absent, h->tokens));
}

static void print_report(const wane_table_replay_report *r) {
    wane_table_replay_hits all = all_hits(r);
    uint64_t out = r->redacted + r->other_tenants + r->too_long;
    out_format("%" PRIu64 " requests, %" PRIu64 " tokens: %.4f%% the same without the table and with it\n",
               r->requests, r->tokens, 100 * r->agreement);
    if (r->divergent > 0)
        out_format("%" PRIu64 " requests differ, the first is %s\n", r->divergent, r->first_divergent);
    if (out > 0)
        out_format("left out: %" PRIu64 " redacted, %" PRIu64 " of tenants that were not named, %" PRIu64
                   " too long\n",
                   r->redacted, r->other_tenants, r->too_long);
    out_format("\nkind        tokens   strict     rank     miss   absent\n");
    for (int i = 0; i < WANE_TABLE_KINDS; i++) print_hits(wane_kind_name(i), &r->hits[i]);
    print_hits("all", &all);
    out_format("\ndrafts    proposed accepted\n");
    for (int i = 0; i < WANE_DRAFT_SOURCES; i++)
        out_format("%-8s %9" PRIu64 " %7.2f%%\n", wane_draft_source_name(i), r->proposed[i],
                   report_percent(r->accepted[i], r->proposed[i]));
    out_format("\n%.0f ms without the table, %.0f ms with it: %.0f ms saved\n", r->ms_without, r->ms_with,
               r->ms_without - r->ms_with);
}

/* ----------------------------------------------------------------- the command */

static int replay(const struct settings *settings, wane_table_replay_options *options) {
    wane_model *model = NULL;
    wane_table_replay_report report;
    wane_error error = {0};
    interrupt_catch();
    int code =
        model_open(settings, &(struct model_wish){.sequences = 1, .decodes = true, .drafts = true}, &model);
    if (code != EXIT_FINE) return code;
    options->progress = progress_goes_on;
    int status = wane_table_replay(model, options, &report, &error);
    progress_clear();
    wane_model_free(model);
    if (status != WANE_OK) return cli_fail_wane(&error);
    if (setting_on(settings, SET_JSON))
        print_json(&report);
    else
        print_report(&report);
    return report.divergent > 0 ? EXIT_FAILED : EXIT_FINE;
}

int table_replay(const struct settings *settings, size_t first) {
    wane_table_replay_options options;
    wane_table_use use;
    size_t count;
    table_use_from(settings, &use);
    const char **logs = table_logs(settings, first, &count);
    if (count == 0)
        return cli_usage("table", "wane table replay needs traces: --log-file FILE, or a folder of them");
    wane_table_replay_options_init(&options);
    options.logs = logs;
    options.log_count = (int)count;
    options.use = &use;
    options.tenants = (const char *const *)settings->value[SET_TENANTS].list;
    options.tenant_count = (int)settings->value[SET_TENANTS].list_count;
    options.alone = !setting_on(settings, SET_PREFIX_REUSE);
    options.requests = (uint64_t)settings->value[SET_REQUESTS].integer;
    int code = use.path != NULL ? replay(settings, &options)
                                : cli_usage("table", "wane table replay needs --table FILE, a .slmt file");
    free(logs);
    return code;
}
