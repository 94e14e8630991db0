/*
 * bench_report.c - `wane bench report RESULTS… -o report.html`: what the benches' JSON says, as one page that needs nothing else.
 *
 * Owns which figure of which bench goes into which chart, and the command that made it. Refuses a file that is no result, and leaves out
 * what a result does not have; nothing is computed that a reader could not compute from the figures.
 */
#include "file_out.h"
#include "json_of.h"
#include "report.h"
#include "text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RESULTS_MOST = 200 };

static const char style[] =
    ":root{--ink:#1d2025;--paper:#fbfaf7;--muted:#5b6068;--line:#e5e1d9;--p0:#2a6cab;--p1:#d98b4a;--p2:#"
    "8fb0a8}"
    "@media(prefers-color-scheme:dark){:root{--ink:#e9e6e0;--paper:#15171b;--muted:#a4a8b0;--line:#2d3139;"
    "--p0:#74acdf;--p1:#c97f42;--p2:#6f9c92}}"
    "body{font:16px/1.55 ui-sans-serif,system-ui,sans-serif;color:var(--ink);background:var(--paper);"
    "max-width:800px;margin:0 auto;padding:48px 20px}"
    "h1{font-size:2.1rem;letter-spacing:-.02em;line-height:1.15;margin:0 0 8px}h2{font-size:1.1rem;margin:0}"
    "p{margin:0}.lead,figcaption p{color:var(--muted)}figure{margin:44px 0 0;break-inside:avoid}"
    "svg{width:100%;height:auto;display:block;margin:10px 0 4px}svg text{font:13px "
    "ui-sans-serif,system-ui,sans-serif;"
    "fill:var(--ink)}svg .l{text-anchor:end}svg .n{fill:var(--muted)}.p0{fill:var(--p0);background:var(--p0)}"
    ".p1{fill:var(--p1);background:var(--p1)}.p2{fill:var(--p2);background:var(--p2)}"
    ".m{stroke:var(--ink);stroke-width:2;background:var(--ink)}.b{stroke:var(--muted);stroke-dasharray:3 3}"
    ".key{font-size:13px;color:var(--muted)}.key span{margin-right:16px}.key "
    "i{display:inline-block;width:14px;"
    "height:10px;margin-right:6px}.key i.m{width:2px;height:14px;vertical-align:-2px}"
    ".command{font-size:13px;margin-top:6px;overflow-wrap:anywhere}code{font-family:ui-monospace,monospace}"
    "table{border-collapse:collapse;width:100%;font-size:14px;margin-top:10px}th,td{text-align:left;padding:"
    "5px 10px "
    "5px 0;border-bottom:1px solid var(--line)}td.n{text-align:right;font-variant-numeric:tabular-nums}"
    "@media "
    "print{body{padding:0;max-width:none}.p0,.p1,.p2{print-color-adjust:exact;-webkit-print-color-adjust:"
    "exact}}";

struct report {
    json_t *result[RESULTS_MOST];
    const char *path[RESULTS_MOST];
    int count;
    FILE *out;
};

static bool is(const json_t *result, const char *bench) {
    return strcmp(json_text_of(result, "bench"), bench) == 0;
}

static struct report_chart chart_of(const char *title, const char *says, const char *unit,
                                    const char *command) {
    struct report_chart chart = {.title = title, .says = says, .unit = unit, .parts = 1, .base = NAN};
    snprintf(chart.command, sizeof chart.command, "%s", command);
    return chart;
}

/* A new bar, or NULL where a chart is full. */
static struct report_bar *bar_of(struct report_chart *chart, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static struct report_bar *bar_of(struct report_chart *chart, const char *format, ...) {
    if (chart->bars == REPORT_BARS) return NULL;
    struct report_bar *bar = &chart->bar[chart->bars++];
    *bar = (struct report_bar){.value = {NAN, NAN, NAN}, .mark = NAN};
    va_list list;
    va_start(list, format);
    vsnprintf(bar->label, sizeof bar->label, format, list);
    va_end(list);
    return bar;
}

/* ------------------------------------------------------------------- charts */

static void draw_head(const struct report *report) {
    struct report_chart gain =
        chart_of("What the certified head gains",
                 "Time a token with the dense head, divided by the time with the certified one. The same "
                 "tokens come out.",
                 "×", "wane bench head --model MODEL --sampler SAMPLER --rows N --json");
    struct report_chart time =
        chart_of("Where a token's time goes",
                 "Milliseconds of a token: the body, which nothing here changes, and what stands behind it.",
                 " ms", gain.command);
    gain.base = 1;
    time.stacked = true;
    time.parts = 2;
    time.part[0] = "body";
    time.part[1] = "head, processors, draw";
    for (int i = 0; i < report->count; i++) {
        const json_t *r = report->result[i];
        if (!is(r, "head")) continue;
        struct report_bar *bar =
            bar_of(&gain, "%s, %s, %.0f row%s", json_text_of(r, "model"), json_text_of(r, "sampler"),
                   json_number_of(r, "rows"), json_number_of(r, "rows") > 1 ? "s" : "");
        if (bar != NULL) {
            bar->value[0] = json_number_of(r, "gain");
            bar->mark = json_number_of(r, "limit");
        }
        double body = json_number_of(r, "body_ms");
        for (int way = 0; way < 2 && !isnan(body); way++) {
            bar = bar_of(&time, "%s, %s: %s", json_text_of(r, "model"), json_text_of(r, "sampler"),
                         way ? "certified" : "dense");
            if (bar == NULL) break;
            bar->value[0] = body;
            bar->value[1] = json_number_of(r, way ? "wane_ms" : "dense_ms") - body;
        }
    }
    report_draw(report->out, &gain);
    report_draw(report->out, &time);
}

static void draw_drafts(const struct report *report) {
    struct report_chart chart =
        chart_of("What drafts add, by kind of text",
                 "Time a token with the dense head and no drafts, divided by the time with all of wane.", "×",
                 "wane bench draft --model MODEL --sampler SAMPLER --json");
    chart.base = 1;
    for (int i = 0; i < report->count; i++) {
        const json_t *r = report->result[i], *kind;
        size_t index;
        if (!is(r, "draft")) continue;
        struct report_bar *bar =
            bar_of(&chart, "%s, %s: all", json_text_of(r, "model"), json_text_of(r, "sampler"));
        if (bar != NULL) bar->value[0] = json_number_of(r, "gain");
        json_array_foreach(json_object_get(r, "by_prompt"), index, kind) {
            bar = bar_of(&chart, "%s: %s", json_text_of(r, "model"), json_text_of(kind, "kind"));
            if (bar != NULL)
                bar->value[0] = json_number_of(kind, "base_ms") / json_number_of(kind, "wane_ms");
        }
    }
    report_draw(report->out, &chart);
}

static void draw_memo(const struct report *report) {
    struct report_chart chart =
        chart_of("What the memo saves on requests that come again",
                 "Time of a token, and of a whole request, without wane divided by the time with it.", "×",
                 "wane bench memo --model MODEL --json");
    chart.base = 1;
    chart.parts = 2;
    chart.part[0] = "a token";
    chart.part[1] = "a request";
    for (int i = 0; i < report->count; i++) {
        const json_t *r = report->result[i];
        struct report_bar *bar =
            is(r, "memo") ? bar_of(&chart, "%s, %s", json_text_of(r, "model"), json_text_of(r, "sampler"))
                          : NULL;
        if (bar == NULL) continue;
        bar->value[0] = json_number_of(r, "gain");
        bar->value[1] = json_number_of(r, "request_gain");
    }
    report_draw(report->out, &chart);
}

static void draw_decode(const struct report *report) {
    struct report_chart chart =
        chart_of("wane without its shortcuts, beside the engine's own loop",
                 "Tokens a second of the same prompts, greedily.", "/s",
                 "wane bench decode --model MODEL --head dense --streams both --json");
    chart.parts = 2;
    chart.part[0] = "wane";
    chart.part[1] = "the engine's own loop";
    for (int i = 0; i < report->count; i++) {
        const json_t *r = report->result[i], *width;
        size_t index;
        if (!is(r, "decode")) continue;
        json_array_foreach(json_object_get(r, "streams"), index, width) {
            struct report_bar *bar =
                bar_of(&chart, "%s, %.0f stream%s", json_text_of(r, "model"),
                       json_number_of(width, "streams"), json_number_of(width, "streams") > 1 ? "s" : "");
            if (bar == NULL) continue;
            bar->value[0] = json_number_of(width, "wane_tokens_per_second");
            bar->value[1] = json_number_of(width, "engine_tokens_per_second");
        }
    }
    report_draw(report->out, &chart);
}

/* One chart a result: its modes at each number of streams, by three percentiles. */
static void draw_layer(const struct report *report, const json_t *r) {
    char title[200];
    const json_t *width, *mode;
    size_t i, j;
    snprintf(title, sizeof title, "%s: time a token under off, legacy and wane", json_text_of(r, "model"));
    struct report_chart chart = chart_of(
        title, "Milliseconds between tokens of the same seeded requests: half, 95 and 99 of 100 are shorter.",
        " ms", "wane bench layer --model MODEL --json");
    struct report_chart vote =
        chart_of("What the vote over answers costs",
                 "Tokens that were decoded for each one that was given out.", "×", chart.command);
    chart.parts = 3;
    chart.part[0] = "median";
    chart.part[1] = "95 %";
    chart.part[2] = "99 %";
    vote.base = 1;
    json_array_foreach(json_object_get(r, "streams"), i, width) {
        json_array_foreach(json_object_get(width, "modes"), j, mode) {
            struct report_bar *bar =
                bar_of(&chart, "%.0f stream%s, %s", json_number_of(width, "streams"),
                       json_number_of(width, "streams") > 1 ? "s" : "", json_text_of(mode, "mode"));
            if (bar == NULL) break;
            bar->value[0] = json_number_of(mode, "tpot_p50_ms");
            bar->value[1] = json_number_of(mode, "tpot_p95_ms");
            bar->value[2] = json_number_of(mode, "tpot_p99_ms");
            bar = bar_of(&vote, "%.0f stream%s, %s", json_number_of(width, "streams"),
                         json_number_of(width, "streams") > 1 ? "s" : "", json_text_of(mode, "mode"));
            if (bar != NULL) bar->value[0] = json_number_of(mode, "decoded_per_delivered");
        }
    }
    report_draw(report->out, &chart);
    report_draw(report->out, &vote);
}

/* --------------------------------------------------------------------- page */

static void put_cell(FILE *out, const char *text, bool number) {
    fputs(number ? "<td class=\"n\">" : "<td>", out);
    report_text(out, text);
    fputs("</td>", out);
}

static void put_table(const struct report *report) {
    FILE *out = report->out;
    fputs("<figure><figcaption><h2>What this was made "
          "from</h2></figcaption><table><thead><tr><th>file</th><th>bench</th><th>model</th>"
          "<th>threads</th><th>rounds</th><th>load before</th><th>divergent</th></tr></thead><tbody>\n",
          out);
    for (int i = 0; i < report->count; i++) {
        static const char *const figures[] = {"threads", "rounds", "load", "divergent"};
        const json_t *r = report->result[i];
        fputs("<tr>", out);
        put_cell(out, report->path[i], false);
        put_cell(out, json_text_of(r, "bench"), false);
        put_cell(out, json_text_of(r, "model"), false);
        for (int f = 0; f < 4; f++) {
            char text[40] = "–";
            double value = json_number_of(r, figures[f]);
            if (!isnan(value)) snprintf(text, sizeof text, "%.4g", value);
            put_cell(out, text, true);
        }
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></figure>\n", out);
}

static void put_page(const struct report *report) {
    FILE *out = report->out;
    const json_t *first = report->result[0];
    fprintf(out,
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" "
            "content=\"width=device-width\">\n"
            "<title>wane: what it is worth</title>\n<style>%s</style></head>\n<body><header><h1>What wane is "
            "worth here</h1><p class=\"lead\">wane ",
            style);
    report_text(out, json_text_of(first, "wane"));
    fputs(" on llama.cpp ", out);
    report_text(out, json_text_of(first, "engine"));
    fputs(". Both sides of each figure were measured by turns in one run; medians. The command behind a "
          "chart stands below it.</p></header>\n<main>\n",
          out);
    draw_head(report);
    draw_drafts(report);
    draw_memo(report);
    draw_decode(report);
    for (int i = 0; i < report->count; i++)
        if (is(report->result[i], "layer")) draw_layer(report, report->result[i]);
    put_table(report);
    fputs("</main></body></html>\n", out);
}

static int read_results(const struct settings *settings, struct report *report) {
    static const char *const known[] = {"head", "draft", "memo", "decode", "layer"};
    for (size_t i = 1; i < settings->operand_count; i++) {
        const char *path = settings->operands[i];
        json_error_t fault;
        if (report->count == RESULTS_MOST)
            return cli_fail(EXIT_FAILED, "there are more than %d results", RESULTS_MOST);
        json_t *result = json_load_file(path, 0, &fault);
        if (result == NULL) return cli_fail(EXIT_FAILED, "%s is no result: %s", path, fault.text);
        report->path[report->count] = path;
        report->result[report->count++] = result;
        bool fits = false;
        for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) fits = fits || is(result, known[k]);
        if (!fits)
            return cli_fail(
                EXIT_FAILED,
                "%s is not what wane bench --json prints: it needs a member \"bench\" that is head, draft, "
                "memo, decode or layer",
                path);
    }
    return EXIT_FINE;
}

/* Under a temporary name until it is whole. */
static int write_page(struct report *report, const char *path) {
    struct file_out out;
    file_begin(&out, path);
    report->out = out.file;
    if (out.file != NULL) put_page(report);
    return file_end(&out, true) ? EXIT_FINE : cli_fail(EXIT_FAILED, "cannot write %s", path);
}

int bench_report(const struct settings *settings) {
    struct report report = {.count = 0};
    const char *path = setting_text(settings, SET_RESULT);
    if (settings->operand_count < 2 || path == NULL)
        return cli_usage("bench", "wane bench report needs results and a page: RESULTS... -o FILE");
    int code = read_results(settings, &report);
    if (code == EXIT_FINE) code = write_page(&report, path);
    if (code == EXIT_FINE) cli_say("%s: %d result%s", path, report.count, report.count > 1 ? "s" : "");
    for (int i = 0; i < report.count; i++) json_decref(report.result[i]);
    return code;
}
