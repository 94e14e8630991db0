/*
 * report_plot.c - two more shapes of a report: rows with an extent (steps of a waterfall, distributions, intervals), and two figures
 * against each other. As in report_chart.c: numbers stand beside what is drawn, and nothing that came from a file is written but as text.
 */
#include "report.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

enum { WIDE = REPORT_WIDE, LEFT = REPORT_LEFT, ROW = 24, HEAD = 30, AXIS = 30, MOST_TICKS = 8 };

/* What the room between two numbers shows. */
struct scale {
    double low, high;
    double from, to; /* in the drawing */
};

static double at(const struct scale *scale, double value) {
    double width = scale->high - scale->low;
    return scale->from + (scale->to - scale->from) * (width > 0 ? (value - scale->low) / width : 0.5);
}

static void include(struct scale *scale, double value) {
    if (isnan(value)) return;
    if (!(value >= scale->low)) scale->low = value;
    if (!(value <= scale->high)) scale->high = value;
}

/* 1, 2 or 5 times a power of ten, so that there are about `count` of them. */
static double step_of(double width, int count) {
    if (!(width > 0)) return 1;
    double raw = width / count, ten = pow(10, floor(log10(raw))), part = raw / ten;
    return ten * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
}

static void put_tick(FILE *out, double value, double step) {
    int digits = step >= 1 ? 0 : step >= 0.1 ? 1 : step >= 0.01 ? 2 : 3;
    fprintf(out, "%.*f", digits, fabs(value) < step / 100 ? 0.0 : value);
}

/* Lines across at round numbers, which stand below. */
static void put_axis(FILE *out, const struct scale *scale, int high, const char *unit) {
    double step = step_of(scale->high - scale->low, 5), first = ceil(scale->low / step - 1e-9) * step;
    for (int i = 0; i < MOST_TICKS; i++) {
        double value = first + i * step;
        if (value > scale->high + step / 1000) break;
        fprintf(out,
                "<path d=\"M%.1f 0V%d\" class=\"g\"/><text x=\"%.1f\" y=\"%d\" class=\"n\" "
                "text-anchor=\"middle\">",
                at(scale, value), high - AXIS + 8, at(scale, value), high - 8);
        put_tick(out, value, step);
        report_text(out, unit);
        fputs("</text>", out);
    }
}

/* --------------------------------------------------------------------- rows */

struct report_span *report_span(struct report_spans *spans, const char *format, ...) {
    if (spans->spans == REPORT_BARS) return NULL;
    struct report_span *span = &spans->span[spans->spans++];
    *span = (struct report_span){.from = NAN, .to = NAN, .point = {NAN, NAN, NAN, NAN}};
    va_list list;
    va_start(list, format);
    vsnprintf(span->label, sizeof span->label, format, list);
    va_end(list);
    return span;
}

static void put_step(FILE *out, const struct scale *scale, const struct report_span *span, int y) {
    double left = at(scale, fmin(span->from, span->to)), right = at(scale, fmax(span->from, span->to));
    fprintf(out, "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" class=\"p%d\"/>", left, y + 3,
            fmax(right - left, 1), ROW - 8, span->look);
    fprintf(out, "<path d=\"M%.1f %dv%d\" class=\"b\"/>", at(scale, span->to), y + ROW - 5, 8);
}

static void put_extent(FILE *out, const struct scale *scale, const struct report_span *span, int y) {
    double middle = y + ROW / 2.0;
    fprintf(out, "<path d=\"M%.1f %.1fH%.1f\" class=\"s%d\"/>", at(scale, span->from), middle,
            fmax(at(scale, span->to), at(scale, span->from) + 1), span->look);
    for (int i = 0; i < REPORT_POINTS; i++) {
        if (isnan(span->point[i])) continue;
        if (i == 0)
            fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" class=\"p%d\"/>", at(scale, span->point[i]),
                    middle, span->look);
        else
            fprintf(out, "<path d=\"M%.1f %.1fv10\" class=\"s%d\"/>", at(scale, span->point[i]), middle - 5,
                    span->look);
    }
}

static void put_span(FILE *out, const struct report_spans *spans, const struct scale *scale,
                     const struct report_span *span, int y) {
    bool heading = span->look < 0;
    fprintf(out, "<text x=\"%d\" y=\"%d\"%s>", heading ? 0 : LEFT - 12, y + ROW / 2 + 5,
            heading ? " class=\"h\"" : " class=\"l\"");
    report_text(out, span->label);
    fputs("</text>", out);
    if (heading) return;
    double right = LEFT;
    if (!isnan(span->from) && !isnan(span->to)) {
        (spans->steps ? put_step : put_extent)(out, scale, span, y);
        right = at(scale, fmax(span->from, span->to));
    }
    fprintf(out, "<text x=\"%.1f\" y=\"%d\" class=\"n\">", right + 8, y + ROW / 2 + 4);
    report_text(out, isnan(span->from) ? "none" : span->note);
    fputs("</text>", out);
}

static void put_keys(FILE *out, const char *const *key, const char *prefix) {
    for (int i = 0; i < REPORT_PARTS; i++) {
        if (key[i] == NULL) continue;
        fprintf(out, "<span><i class=\"%s%d\"></i>", prefix, i);
        report_text(out, key[i]);
        fputs("</span> ", out);
    }
}

void report_draw_spans(FILE *out, const struct report_spans *spans) {
    struct scale scale = {NAN, NAN, LEFT, WIDE - 150};
    int rows = 0, high = AXIS, drawn = 0;
    if (spans->steps) include(&scale, 0);
    include(&scale, spans->base);
    for (int i = 0; i < spans->spans; i++) {
        const struct report_span *span = &spans->span[i];
        if (span->look >= 0) rows++;
        high += span->look < 0 ? HEAD : ROW;
        drawn += span->look >= 0 && !isnan(span->from);
        include(&scale, span->from);
        include(&scale, span->to);
    }
    if (rows == 0 || drawn == 0) return;
    if (!spans->steps) include(&scale, fmin(scale.low, 0)); /* lengths are compared: from nothing */
    report_begin(out, spans->title, spans->says, high);
    put_axis(out, &scale, high, spans->unit);
    if (!isnan(spans->base))
        fprintf(out, "<path d=\"M%.1f 0V%d\" class=\"b\"/>", at(&scale, spans->base), high - AXIS + 8);
    for (int i = 0, y = 0; i < spans->spans; i++) {
        int tall = spans->span[i].look < 0 ? HEAD : ROW;
        put_span(out, spans, &scale, &spans->span[i], y + tall - ROW);
        y += tall;
    }
    fputs("</svg>\n<p class=\"key\">", out);
    put_keys(out, spans->key, "p");
    if (spans->marks != NULL) report_text(out, spans->marks);
    report_end(out, spans->command);
}

/* -------------------------------------------------------------------- curve */

enum { CURVE_LEFT = 70, CURVE_RIGHT = 40, CURVE_HIGH = 330 };

static void put_point(FILE *out, const struct report_point *point, const struct scale *x,
                      const struct scale *y) {
    double px = at(x, point->x), py = at(y, point->y);
    if (!isnan(point->low) && !isnan(point->high))
        fprintf(out, "<path d=\"M%.1f %.1fV%.1fM%.1f %.1fh8M%.1f %.1fh8\" class=\"s%d\" opacity=\".55\"/>",
                px, at(y, point->low), at(y, point->high), px - 4, at(y, point->low), px - 4,
                at(y, point->high), point->look);
    fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5.5\" class=\"p%d\"/>", px, py, point->look);
    /* Below the curve, which mostly rises; what stands by itself, above its point. */
    bool left = px > WIDE - 150;
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", px + (left ? -10 : 10),
            point->look == 0 ? py + 20 : py - 10, left ? "end" : "start");
    report_text(out, point->label);
    fputs("</text>", out);
}

static void put_ticks_of_y(FILE *out, const struct scale *y) {
    double step = step_of(y->high - y->low, 4), first = ceil(y->low / step - 1e-9) * step;
    for (int i = 0; i < MOST_TICKS && first + i * step <= y->high + step / 1000; i++) {
        double py = at(y, first + i * step);
        fprintf(out, "<path d=\"M%d %.1fH%d\" class=\"g\"/><text x=\"%d\" y=\"%.1f\" class=\"l n\">",
                CURVE_LEFT, py, WIDE - CURVE_RIGHT, CURVE_LEFT - 8, py + 4);
        put_tick(out, first + i * step, step);
        fputs("</text>", out);
    }
}

static void put_line(FILE *out, const struct report_curve *curve, const struct scale *x,
                     const struct scale *y) {
    int on = 0;
    fputs("<path class=\"s0\" d=\"", out);
    for (int i = 0; i < curve->points; i++)
        if (curve->point[i].look == 0)
            fprintf(out, "%c%.1f %.1f", on++ > 0 ? 'L' : 'M', at(x, curve->point[i].x),
                    at(y, curve->point[i].y));
    fputs("\"/>", out);
}

void report_draw_curve(FILE *out, const struct report_curve *curve) {
    struct scale x = {NAN, NAN, CURVE_LEFT, WIDE - CURVE_RIGHT}, y = {NAN, NAN, CURVE_HIGH - 50, 24};
    if (curve->points == 0) return;
    for (int i = 0; i < curve->points; i++) {
        const struct report_point *point = &curve->point[i];
        include(&x, point->x);
        include(&y, point->y);
        include(&y, point->low);
        include(&y, point->high);
    }
    double room = (x.high - x.low) * 0.08 + 1e-6;
    x.low -= room;
    x.high += room;
    room = (y.high - y.low) * 0.08 + 1e-6;
    y.low -= room;
    y.high += room;
    report_begin(out, curve->title, curve->says, CURVE_HIGH);
    put_ticks_of_y(out, &y);
    put_axis(out, &x, CURVE_HIGH - 20, "");
    put_line(out, curve, &x, &y);
    for (int i = 0; i < curve->points; i++) put_point(out, &curve->point[i], &x, &y);
    fprintf(out, "<text x=\"%d\" y=\"%d\" class=\"l\">", WIDE - CURVE_RIGHT, CURVE_HIGH - 6);
    report_text(out, curve->x);
    fprintf(out, "</text><text x=\"%d\" y=\"14\">", 0);
    report_text(out, curve->y);
    fputs("</text></svg>\n<p class=\"key\">", out);
    put_keys(out, curve->key, "p");
    report_end(out, curve->command);
}
