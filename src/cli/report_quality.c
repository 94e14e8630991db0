/*
 * report_quality.c - the part of a report that is not about time: right answers in the three modes, the gate's trade-off, what tokens cost.
 *
 * Reads what bench/quality.py leaves in report.json and what `wane cost --json` prints. Draws intervals wherever the result has them: a figure
 * without one says more than was seen.
 */
#include "json_of.h"
#include "report.h"

#include <math.h>
#include <string.h>

bool report_is_quality(const json_t *result) {
    return json_is_object(json_object_get(result, "modes_report")) && json_text_of(result, "set")[0] != '\0';
}

bool report_is_cost(const json_t *result) {
    return json_is_object(json_object_get(result, "prices")) &&
           json_is_array(json_object_get(result, "modes"));
}

static void put_command(char *command, size_t size, const json_t *r) {
    snprintf(command, size,
             "bench/quality.py run FOLDER --set %s --data FILE.gz --model %s --items %.0f --budgets …; "
             "FOLDER/report.json",
             json_text_of(r, "set"), json_text_of(r, "model"), json_number_of(r, "compared"));
}

/* ------------------------------------------------------------------ right answers */

/* A bar for `m`: its interval, and the point of this name, in percent. NULL: the chart is full. */
static struct report_span *add_span(struct report_spans *spans, const char *label, const json_t *m,
                                    const char *point) {
    struct report_span *span = report_span(spans, "%s", label);
    if (span == NULL) return NULL;
    span->from = 100 * json_number_of(m, "low");
    span->to = 100 * json_number_of(m, "high");
    span->point[0] = 100 * json_number_of(m, point);
    return span;
}

static void draw_accuracy(FILE *out, const json_t *r) {
    char title[200];
    const char *mode;
    json_t *m;
    struct report_spans spans = {.says = "Share of right answers in each mode, with its 95 % interval "
                                         "(Wilson): what another sample of questions would do.",
                                 .unit = " %",
                                 .base = NAN};
    snprintf(title, sizeof title, "%s, %s: are the answers right?", json_text_of(r, "model"),
             json_text_of(r, "set"));
    spans.title = title;
    put_command(spans.command, sizeof spans.command, r);
    json_object_foreach(json_object_get(r, "modes_report"), mode, m) {
        struct report_span *span = add_span(&spans, mode, m, "accuracy");
        if (span == NULL) break;
        snprintf(span->note, sizeof span->note, "%.0f of %.0f: %.1f %%", json_number_of(m, "right"),
                 json_number_of(m, "requests"), span->point[0]);
    }
    report_draw_spans(out, &spans);
}

static void draw_differences(FILE *out, const json_t *r) {
    const char *name;
    json_t *d;
    struct report_spans spans = {
        .title = "The same, question by question",
        .says = "Difference of two modes in points of right answers, with its 95 % interval (bootstrap over "
                "questions). An interval that holds zero shows neither mode to be better.",
        .unit = "",
        .base = 0};
    put_command(spans.command, sizeof spans.command, r);
    json_object_foreach(json_object_get(r, "differences"), name, d) {
        struct report_span *span = add_span(&spans, name, d, "difference");
        if (span == NULL) break;
        snprintf(span->note, sizeof span->note, "%+.1f, p %.2f", span->point[0], json_number_of(d, "p"));
    }
    report_draw_spans(out, &spans);
}

static void add_point(struct report_curve *curve, const json_t *m, int look, const char *label) {
    if (curve->points == REPORT_BARS) return;
    struct report_point point = {.x = json_number_of(m, "cost"),
                                 .y = 100 * json_number_of(m, "accuracy"),
                                 .low = 100 * json_number_of(m, "low"),
                                 .high = 100 * json_number_of(m, "high"),
                                 .look = look};
    if (isnan(point.x) || isnan(point.y)) return;
    snprintf(point.label, sizeof point.label, "%s", label);
    curve->point[curve->points++] = point;
}

static void draw_tradeoff(FILE *out, const json_t *r) {
    char label[40];
    const json_t *row, *modes = json_object_get(r, "modes_report");
    size_t i;
    struct report_curve curve = {
        .title = "What the gate trades",
        .says = "One point for each doubt budget of mode wane: how many tokens in doubt a reply may have "
                "before its answers are voted on. To the left is cheaper, up is more often right.",
        .x = "tokens decoded for each one delivered",
        .y = "right answers, %, with 95 % intervals",
        .key = {"wane, by doubt budget", "legacy: every answer is voted on", "off: none is"}};
    put_command(curve.command, sizeof curve.command, r);
    json_array_foreach(json_object_get(r, "curve"), i, row) {
        bool chosen = json_number_of(row, "budget") == json_number_of(r, "chosen_budget");
        snprintf(label, sizeof label, chosen ? "budget %.0f, chosen" : "budget %.0f",
                 json_number_of(row, "budget"));
        add_point(&curve, row, 0, label);
    }
    if (curve.points == 0) return;
    add_point(&curve, json_object_get(modes, "legacy"), 1, "legacy");
    add_point(&curve, json_object_get(modes, "off"), 2, "off");
    report_draw_curve(out, &curve);
}

void report_quality(const struct report *report) {
    for (int i = 0; i < report->count; i++) {
        const json_t *r = report->result[i];
        if (!report_is_quality(r)) continue;
        draw_accuracy(report->out, r);
        draw_differences(report->out, r);
        draw_tradeoff(report->out, r);
    }
}

/* ------------------------------------------------------------------ prices */

static void draw_cost(FILE *out, const json_t *r, const char *path) {
    static const char *const shares[REPORT_PARTS] = {"machine", "power", "network"};
    const json_t *mode, *prices = json_object_get(r, "prices");
    char says[300], unit[40], title[120];
    size_t i;
    struct report_chart chart = {.title = title,
                                 .says = says,
                                 .unit = unit,
                                 .parts = REPORT_PARTS,
                                 .stacked = true,
                                 .base = NAN,
                                 .part = {"machine", "power", "network"}};
    double tokens = json_number_of(r, "tokens"), scale = tokens > 0 ? 1e6 / tokens : (double)NAN;
    const char *name = strrchr(path, '/');
    snprintf(title, sizeof title, "What a million tokens cost: %.80s", name != NULL ? name + 1 : path);
    snprintf(unit, sizeof unit, " %.20s", json_text_of(r, "currency"));
    snprintf(
        says, sizeof says,
        "At %g an hour for the machine, %g W at %g a kilowatt-hour, and %g a gigabyte. Delivered tokens: "
        "what a vote decodes for other answers is in their price.",
        json_number_of(prices, "machine_hour"), json_number_of(prices, "watts"),
        json_number_of(prices, "kilowatt_hour"), json_number_of(prices, "gigabyte"));
    snprintf(
        chart.command, sizeof chart.command,
        "wane bench layer --model MODEL --streams N --json >layer.json; wane cost --machine-price %g --watts "
        "%g --power-price %g --network-price %g --json layer.json",
        json_number_of(prices, "machine_hour"), json_number_of(prices, "watts"),
        json_number_of(prices, "kilowatt_hour"), json_number_of(prices, "gigabyte"));
    json_array_foreach(json_object_get(r, "modes"), i, mode) {
        struct report_bar *bar = report_bar(&chart, "%s", json_text_of(mode, "mode"));
        if (bar == NULL) break;
        for (int p = 0; p < REPORT_PARTS; p++) {
            double value = scale * json_number_of(mode, shares[p]);
            bar->value[p] = isfinite(value) ? value : (double)NAN;
        }
    }
    report_draw(out, &chart);
}

void report_cost(const struct report *report) {
    for (int i = 0; i < report->count; i++)
        if (report_is_cost(report->result[i])) draw_cost(report->out, report->result[i], report->path[i]);
}
