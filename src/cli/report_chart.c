/*
 * report_chart.c - a chart of a report as SVG: bars with their numbers beside them, so that it reads in print and without colours.
 *
 * Knows shapes, not benches. Nothing that came from a file is written but as text.
 */
#include "report.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

enum { WIDE = REPORT_WIDE, LEFT = REPORT_LEFT, RIGHT = REPORT_RIGHT, THICK = 15, GAP = 12 };

void report_text(FILE *out, const char *text) {
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '&': fputs("&amp;", out); break;
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '"': fputs("&quot;", out); break;
        default:
            if ((unsigned char)*text >= ' ') fputc(*text, out);
        }
    }
}

void report_begin(FILE *out, const char *title, const char *says, int high) {
    fputs("<figure><figcaption><h2>", out);
    report_text(out, title);
    fputs("</h2><p>", out);
    report_text(out, says);
    fputs("</p></figcaption>\n", out);
    fprintf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDE, high);
    report_text(out, title);
    fputs("\">", out);
}

void report_end(FILE *out, const char *command) {
    fputs("</p><p class=\"command\"><code>", out);
    report_text(out, command);
    fputs("</code></p></figure>\n", out);
}

struct report_bar *report_bar(struct report_chart *chart, const char *format, ...) {
    if (chart->bars == REPORT_BARS) return NULL;
    struct report_bar *bar = &chart->bar[chart->bars++];
    *bar = (struct report_bar){.value = {NAN, NAN, NAN}, .mark = NAN};
    va_list list;
    va_start(list, format);
    vsnprintf(bar->label, sizeof bar->label, format, list);
    va_end(list);
    return bar;
}

/* NAN: it has none. */
static double sum_of(const struct report_chart *chart, const struct report_bar *bar) {
    double sum = NAN;
    for (int p = 0; p < chart->parts; p++)
        if (!isnan(bar->value[p])) sum = (isnan(sum) ? 0 : sum) + (bar->value[p] > 0 ? bar->value[p] : 0);
    return sum;
}

static double most_of(const struct report_chart *chart) {
    double most = isnan(chart->base) ? 0 : chart->base;
    for (int i = 0; i < chart->bars; i++) {
        const struct report_bar *bar = &chart->bar[i];
        if (chart->stacked) most = fmax(most, sum_of(chart, bar));
        for (int p = 0; p < chart->parts && !chart->stacked; p++)
            if (bar->value[p] > most) most = bar->value[p];
        if (bar->mark > most) most = bar->mark;
    }
    return most > 0 ? most : 1;
}

static double at(double value, double most) {
    return LEFT + (WIDE - LEFT - RIGHT) * (value > 0 ? value : 0) / most;
}

void report_number(FILE *out, double x, double y, double value, const char *unit) {
    if (isnan(value)) {
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"n\">none</text>", x, y);
        return;
    }
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"n\">%.*f", x, y,
            fabs(value) >= 100  ? 0
            : fabs(value) >= 10 ? 1
                                : 2,
            value);
    report_text(out, unit);
    fputs("</text>", out);
}

/* One bar, or its parts below each other; returns how high that is. */
static int put_bar(FILE *out, const struct report_chart *chart, const struct report_bar *bar, int y,
                   double most) {
    int rows = chart->stacked ? 1 : chart->parts, high = rows * THICK;
    double x = LEFT;
    fprintf(out, "<text x=\"%d\" y=\"%.1f\" class=\"l\">", LEFT - 12, y + high / 2.0 + 4);
    report_text(out, bar->label);
    fputs("</text>", out);
    for (int p = 0; p < chart->parts; p++) {
        double value = bar->value[p] > 0 ? bar->value[p] : 0;
        double from = chart->stacked ? x : LEFT,
               to = chart->stacked ? x + at(value, most) - LEFT : at(value, most);
        int top = chart->stacked ? y : y + p * THICK;
        fprintf(out, "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" class=\"p%d\"/>", from, top + 1,
                to - from, THICK - 2, p);
        if (!chart->stacked)
            report_number(out, fmax(to, isnan(bar->mark) ? to : at(bar->mark, most)) + 6, top + THICK - 3.5,
                          bar->value[p], chart->unit);
        x = to;
    }
    if (chart->stacked) report_number(out, x + 6, y + THICK - 3.5, sum_of(chart, bar), chart->unit);
    if (!isnan(bar->mark))
        fprintf(out, "<path d=\"M%.1f %dv%d\" class=\"m\"/>", at(bar->mark, most), y - 3, high + 6);
    return high;
}

void report_draw(FILE *out, const struct report_chart *chart) {
    if (chart->bars == 0) return;
    int rows = chart->stacked ? 1 : chart->parts, high = chart->bars * (rows * THICK + GAP) + GAP;
    double most = most_of(chart);
    report_begin(out, chart->title, chart->says, high);
    if (!isnan(chart->base))
        fprintf(out, "<path d=\"M%.1f 0v%d\" class=\"b\"/>", at(chart->base, most), high);
    for (int i = 0, y = GAP; i < chart->bars; i++) y += put_bar(out, chart, &chart->bar[i], y, most) + GAP;
    fputs("</svg>\n<p class=\"key\">", out);
    for (int p = 0; p < chart->parts && chart->parts > 1; p++) {
        fprintf(out, "<span><i class=\"p%d\"></i>", p);
        report_text(out, chart->part[p]);
        fputs("</span> ", out);
    }
    for (int i = 0; i < chart->bars; i++)
        if (!isnan(chart->bar[i].mark)) {
            fputs("<span><i class=\"m\"></i>the limit: a head that costs nothing</span>", out);
            break;
        }
    report_end(out, chart->command);
}
