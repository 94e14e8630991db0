/*
 * bench_report.c - `wane bench report RESULTS… -o report.html`: what the benches' JSON says, as one page that needs nothing else.
 *
 * Owns which figure of which bench goes into which chart, and the command that made it; report_quality.c has those that are no times.
 * Refuses a file that is no result, and leaves out what a result does not have; nothing is computed that a reader could not compute from
 * the figures.
 */
#include "file_out.h"
#include "json_of.h"
#include "report.h"
#include "text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The palette of the page in web/style.css, light and dark; on paper always light. */
static const char style[] =
    ":root{--ink:#1d2025;--paper:#fbfaf7;--muted:#5b6068;--line:#e5e1d9;--p0:#2a6cab;--p1:#d98b4a;--p2:#"
    "8fb0a8}"
    "@media screen and (prefers-color-scheme:dark){:root{color-scheme:dark;--ink:#e9e6e0;--paper:#15171b;"
    "--muted:#a4a8b0;--line:#2d3139;--p0:#74acdf;--p1:#c97f42;--p2:#6f9c92}}"
    "body{font:16px/1.55 ui-sans-serif,system-ui,sans-serif;color:var(--ink);background:var(--paper);"
    "max-width:800px;margin:0 auto;padding:48px 20px}"
    "h1{font-size:2.1rem;letter-spacing:-.02em;line-height:1.15;margin:0 0 8px}h2{font-size:1.1rem;margin:0}"
    "p{margin:0}.lead,figcaption p{color:var(--muted)}figure{margin:44px 0 0;break-inside:avoid}"
    "svg{width:100%;height:auto;display:block;margin:10px 0 4px}"
    "svg text{font:13px ui-sans-serif,system-ui,sans-serif;fill:var(--ink)}svg .h{font-weight:600}"
    "svg .l{text-anchor:end}svg .n{fill:var(--muted)}"
    ".p0{fill:var(--p0);background:var(--p0)}.p1{fill:var(--p1);background:var(--p1)}"
    ".p2{fill:var(--p2);background:var(--p2)}"
    ".s0,.s1,.s2{fill:none;stroke-width:3;stroke:var(--p0)}.s1{stroke:var(--p1)}.s2{stroke:var(--p2)}"
    ".g{stroke:var(--line)}.m{stroke:var(--ink);stroke-width:2;background:var(--ink)}"
    ".b{stroke:var(--muted);stroke-dasharray:3 3}"
    ".key{font-size:13px;color:var(--muted)}.key span{margin-right:16px}"
    ".key i{display:inline-block;width:14px;height:10px;margin-right:6px}"
    ".key i.m{width:2px;height:14px;vertical-align:-2px}"
    ".command{font-size:13px;margin-top:6px;overflow-wrap:anywhere}code{font-family:ui-monospace,monospace}"
    ".wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:14px;margin-top:10px}"
    "th,td{text-align:left;padding:5px 10px 5px 0;border-bottom:1px solid var(--line)}"
    "th.n,td.n{text-align:right;font-variant-numeric:tabular-nums}"
    "@media(max-width:560px){figure>svg{min-width:600px}figure{overflow-x:auto}}"
    "@media "
    "print{body{padding:0;max-width:none;font-size:12px;background:none}h1{font-size:22px}figure{margin-top:"
    "28px}"
    ".p0,.p1,.p2,.key i{print-color-adjust:exact;-webkit-print-color-adjust:exact}}";

static bool is(const json_t *result, const char *bench) {
    return strcmp(json_text_of(result, "bench"), bench) == 0;
}

static struct report_chart chart_of(const char *title, const char *says, const char *unit,
                                    const char *command) {
    struct report_chart chart = {.title = title, .says = says, .unit = unit, .parts = 1, .base = NAN};
    snprintf(chart.command, sizeof chart.command, "%s", command);
    return chart;
}

/* ------------------------------------------------------------------- charts */

static void draw_head(const struct report *report) {
    struct report_chart gain =
        chart_of("What the certified head gains",
                 "Time a token with the dense head, divided by the time with the certified one. The same "
                 "tokens come out.",
                 "×", "wane bench head --model MODEL --sampler SAMPLER --rows N --json");
    gain.base = 1;
    for (int i = 0; i < report->count; i++) {
        const json_t *r = report->result[i];
        if (!is(r, "head")) continue;
        struct report_bar *bar =
            report_bar(&gain, "%s, %s, %.0f row%s", json_text_of(r, "model"), json_text_of(r, "sampler"),
                       json_number_of(r, "rows"), json_number_of(r, "rows") > 1 ? "s" : "");
        if (bar == NULL) break;
        bar->value[0] = json_number_of(r, "gain");
        bar->mark = json_number_of(r, "limit");
    }
    report_draw(report->out, &gain);
}

/* A step of a waterfall, and how long it is in words; `change`: it is said with its sign. */
static void add_step(struct report_spans *spans, const char *label, double from, double to, int look,
                     bool change) {
    struct report_span *span = report_span(spans, "%s", label);
    if (span == NULL || isnan(from) || isnan(to)) return;
    span->from = from;
    span->to = to;
    span->look = look;
    snprintf(span->note, sizeof span->note, change ? "%+.2f ms" : "%.2f ms", to - from);
}

static void add_title(struct report_spans *spans, const json_t *r, const char *what) {
    struct report_span *span =
        report_span(spans, "%s, %s%s", json_text_of(r, "model"), json_text_of(r, "sampler"), what);
    if (span != NULL) span->look = -1;
}

/* What is saved looks otherwise than what is paid. */
static int look_of(double from, double to) {
    return to < from ? 2 : 1;
}

static void draw_waterfall(const struct report *report) {
    struct report_spans spans = {
        .title = "Where a token's time goes",
        .says = "Milliseconds of a token: the body, which nothing here changes; what a plain engine pays "
                "behind it; "
                "what of that is not paid, because it was proved not to matter or came with other tokens.",
        .unit = " ms",
        .key = {"paid in the end", "paid by a plain engine, or added", "saved"},
        .steps = true,
        .base = NAN,
        .command =
            "wane bench head --model MODEL --sampler SAMPLER --json; wane bench draft --model MODEL --json"};
    for (int i = 0; i < report->count; i++) {
        const json_t *r = report->result[i];
        if (is(r, "head") && !(json_number_of(r, "rows") > 1)) {
            double body = json_number_of(r, "body_ms"), dense = json_number_of(r, "dense_ms"),
                   wane = json_number_of(r, "wane_ms");
            add_title(&spans, r, "");
            add_step(&spans, "body", 0, body, 0, false);
            add_step(&spans, "full head, processors, draw", body, dense, 1, true);
            add_step(&spans, wane < dense ? "proved not to matter" : "the proof costs more", dense, wane,
                     look_of(dense, wane), true);
            add_step(&spans, "a token with wane", 0, wane, 0, false);
        } else if (is(r, "draft")) {
            double base = json_number_of(r, "base_ms"), head = json_number_of(r, "head_ms"),
                   wane = json_number_of(r, "wane_ms");
            add_title(&spans, r, ", text that repeats");
            add_step(&spans, "plain engine", 0, base, 1, false);
            add_step(&spans, "certified head", base, head, look_of(base, head), true);
            add_step(&spans, "drafts", head, wane, look_of(head, wane), true);
            add_step(&spans, "a token with wane", 0, wane, 0, false);
        }
    }
    report_draw_spans(report->out, &spans);
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
            report_bar(&chart, "%s, %s: all", json_text_of(r, "model"), json_text_of(r, "sampler"));
        if (bar != NULL) bar->value[0] = json_number_of(r, "gain");
        json_array_foreach(json_object_get(r, "by_prompt"), index, kind) {
            bar = report_bar(&chart, "%s: %s", json_text_of(r, "model"), json_text_of(kind, "kind"));
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
            is(r, "memo") ? report_bar(&chart, "%s, %s", json_text_of(r, "model"), json_text_of(r, "sampler"))
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
                report_bar(&chart, "%s, %.0f stream%s", json_text_of(r, "model"),
                           json_number_of(width, "streams"), json_number_of(width, "streams") > 1 ? "s" : "");
            if (bar == NULL) continue;
            bar->value[0] = json_number_of(width, "wane_tokens_per_second");
            bar->value[1] = json_number_of(width, "engine_tokens_per_second");
        }
    }
    report_draw(report->out, &chart);
}

/* The times between tokens of a mode, from its median to the longest of a hundred. */
static void add_times(struct report_spans *spans, const json_t *mode, double streams, int look) {
    static const char *const points[REPORT_POINTS] = {"itl_p50_ms", "itl_p90_ms", "itl_p95_ms", "itl_p99_ms"};
    struct report_span *span =
        report_span(spans, "%.0f stream%s, %s", streams, streams > 1 ? "s" : "", json_text_of(mode, "mode"));
    if (span == NULL) return;
    for (int p = 0; p < REPORT_POINTS; p++) span->point[p] = json_number_of(mode, points[p]);
    span->from = span->point[0];
    span->to = fmax(span->point[REPORT_POINTS - 1], span->from);
    span->look = look;
    snprintf(span->note, sizeof span->note, "%.1f to %.1f ms", span->from, span->to);
}

/* Its modes at each number of streams. */
static void draw_layer(const struct report *report, const json_t *r) {
    char title[200];
    const json_t *width, *mode;
    size_t i, j;
    snprintf(title, sizeof title, "%s: time between tokens under off, legacy and wane",
             json_text_of(r, "model"));
    struct report_spans times = {
        .title = title,
        .says = "Of the same seeded requests, at so many streams at once.",
        .unit = " ms",
        .key = {"off", "legacy", "wane"},
        .marks = "The dot is the median; of 100 times 90, 95 and 99 are shorter than the strokes.",
        .base = NAN,
        .command = "wane bench layer --model MODEL --streams 1,4 --json"};
    struct report_chart vote =
        chart_of("What the vote over answers costs",
                 "Tokens that were decoded for each one that was given out.", "×", times.command);
    vote.base = 1;
    json_array_foreach(json_object_get(r, "streams"), i, width) {
        double streams = json_number_of(width, "streams");
        json_array_foreach(json_object_get(width, "modes"), j, mode) {
            add_times(&times, mode, streams, (int)(j % REPORT_PARTS));
            struct report_bar *bar = report_bar(&vote, "%.0f stream%s, %s", streams, streams > 1 ? "s" : "",
                                                json_text_of(mode, "mode"));
            if (bar != NULL) bar->value[0] = json_number_of(mode, "decoded_per_delivered");
        }
    }
    report_draw_spans(report->out, &times);
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
          "from</h2></figcaption><div "
          "class=\"wide\"><table><thead><tr><th>file</th><th>bench</th><th>model</th>"
          "<th class=\"n\">threads</th><th class=\"n\">rounds</th><th class=\"n\">load before</th><th "
          "class=\"n\">divergent</th></tr></thead><tbody>\n",
          out);
    for (int i = 0; i < report->count; i++) {
        static const char *const figures[] = {"threads", "rounds", "load", "divergent"};
        const json_t *r = report->result[i];
        fputs("<tr>", out);
        put_cell(out, report->path[i], false);
        put_cell(out,
                 report_is_quality(r) ? "quality"
                 : report_is_cost(r)  ? "cost"
                                      : json_text_of(r, "bench"),
                 false);
        put_cell(out, json_text_of(r, "model"), false);
        for (int f = 0; f < 4; f++) {
            char text[40] = "–";
            double value = json_number_of(r, figures[f]);
            if (!isnan(value)) snprintf(text, sizeof text, "%.4g", value);
            put_cell(out, text, true);
        }
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div></figure>\n", out);
}

static void put_page(const struct report *report) {
    FILE *out = report->out;
    const json_t *first = report->result[0]; /* of those that say what they were made with */
    for (int i = report->count - 1; i >= 0; i--)
        if (json_text_of(report->result[i], "engine")[0] != '\0') first = report->result[i];
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
    draw_waterfall(report);
    draw_drafts(report);
    draw_memo(report);
    draw_decode(report);
    for (int i = 0; i < report->count; i++)
        if (is(report->result[i], "layer")) draw_layer(report, report->result[i]);
    report_quality(report);
    report_cost(report);
    put_table(report);
    fputs("</main></body></html>\n", out);
}

static int read_results(const struct settings *settings, struct report *report) {
    static const char *const known[] = {"head", "draft", "memo", "decode", "layer"};
    for (size_t i = 1; i < settings->operand_count; i++) {
        const char *path = settings->operands[i];
        json_error_t fault;
        if (report->count == REPORT_RESULTS)
            return cli_fail(EXIT_FAILED, "there are more than %d results", REPORT_RESULTS);
        json_t *result = json_load_file(path, 0, &fault);
        if (result == NULL) return cli_fail(EXIT_FAILED, "%s is no result: %s", path, fault.text);
        report->path[report->count] = path;
        report->result[report->count++] = result;
        bool fits = report_is_quality(result) || report_is_cost(result);
        for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) fits = fits || is(result, known[k]);
        if (!fits)
            return cli_fail(EXIT_FAILED,
                            "%s is no result: it needs a member \"bench\" that is head, draft, memo, decode "
                            "or layer, as wane "
                            "bench --json prints it, or must be what wane cost --json prints or "
                            "bench/quality.py leaves in "
                            "report.json",
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
