/*
 * tune_plot.c - the picture of a tuning: accuracy of held-out tokens against the signal, the curve that the other part of the text
 * gave, its bends, and the thresholds. One SVG that needs nothing else and follows light and dark; the sure side is on the right, whatever the
 * signal's sign.
 */
#include "tune_plot.h"

#include "file_out.h"
#include "text.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 760, HEIGHT = 470, LEFT = 64, RIGHT = 24, TOP = 92, BOTTOM = 84, CURVE_POINTS = 160 };

/* No variables: what shows pictures in other places than a browser knows classes, and not much more. */
static const char style[] =
    "<style>\n"
    "svg{color-scheme:light dark}\n"
    "text{font:13px system-ui,-apple-system,'Segoe UI',sans-serif;fill:#1c1c1c}\n"
    ".title{font-size:17px;font-weight:600}.dim{fill:#63635d}.end{text-anchor:end}.mid{text-anchor:middle}\n"
    ".paper{fill:#fdfdfb}.grid{stroke:#dededa}.axis{stroke:#63635d}\n"
    ".curve{fill:none;stroke:#1a5fb4;stroke-width:2.5}.bend{fill:#fdfdfb;stroke:#1a5fb4;stroke-width:2.5}\n"
    ".bar{stroke:#1c1c1c;stroke-width:1.2;opacity:.65}.dot{fill:#1c1c1c}\n"
    ".locked{fill:#2e7d4f}.explore{fill:#b3541e}.area{opacity:.1}\n"
    ".cut{stroke-width:1.6;stroke-dasharray:5 4}.cut.l{stroke:#2e7d4f}.cut.e{stroke:#b3541e}\n"
    "@media(prefers-color-scheme:dark){text,.dot{fill:#e8e6e1}.dim{fill:#a3a29b}.paper{fill:#171816}"
    ".grid{stroke:#35352f}.axis{stroke:#a3a29b}.curve{stroke:#84b6f4}.bend{fill:#171816;stroke:#84b6f4}"
    ".bar{stroke:#e8e6e1}.locked{fill:#6cc596}.explore{fill:#eb9c6c}.cut.l{stroke:#6cc596}.cut.e{stroke:#"
    "eb9c6c}"
    ".area{opacity:.16}}\n"
    "</style>\n";

struct plot {
    FILE *file;
    const wane_tune_report *report;
    const wane_tune_row *row;
    double from, to; /* of sign · value */
};

static void put_escaped(FILE *file, const char *text) {
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '&')
            fputs("&amp;", file);
        else if (c == '<')
            fputs("&lt;", file);
        else if (c == '>')
            fputs("&gt;", file);
        else if (c < ' ' || c == 0x7f)
            fputc(' ', file);
        else
            fputc(c, file);
    }
}

static void put_text(const struct plot *p, double x, double y, const char *class, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
static void put_text(const struct plot *p, double x, double y, const char *class, const char *format, ...) {
    char line[500];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    fprintf(p->file, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, class);
    put_escaped(p->file, line);
    fputs("</text>\n", p->file);
}

static double place_x(const struct plot *p, double x) {
    double share = (x - p->from) / (p->to - p->from);
    return LEFT + (share < 0 ? 0 : share > 1 ? 1 : share) * (WIDTH - LEFT - RIGHT);
}

static double place_y(double accuracy) {
    return HEIGHT - BOTTOM - accuracy * (HEIGHT - TOP - BOTTOM);
}

static double curve_at(const wane_tune_report *r, double x) {
    return r->floor + (r->ceiling - r->floor) / (1 + exp(-(x - r->middle) / r->width));
}

static void set_range(struct plot *p) {
    const wane_tune_report *r = p->report;
    double from = INFINITY, to = -INFINITY;
    for (int i = 0; i < r->bins; i++) {
        from = fmin(from, r->bin[i].mean);
        to = fmax(to, r->bin[i].mean);
    }
    if (isfinite(r->peak)) to = fmax(to, r->peak);
    if (isfinite(r->low)) from = fmin(from, r->low);
    if (!(from < to)) {
        double middle = isfinite(from) ? from : 0;
        from = middle - 1;
        to = middle + 1;
    }
    double pad = 0.03 * (to - from);
    p->from = from - pad;
    p->to = to + pad;
}

/* 1, 2 or 5 times a power of ten, so that about `count` of them fit. */
static double nice_step(double range, int count) {
    double raw = range / count, power = pow(10, floor(log10(raw))), lead = raw / power;
    return power * (lead < 1.5 ? 1 : lead < 3.5 ? 2 : lead < 7.5 ? 5 : 10);
}

static void put_axes(const struct plot *p) {
    double bottom = place_y(0), right = WIDTH - RIGHT;
    for (int percent = 0; percent <= 100; percent += 20) {
        double y = place_y(percent / 100.0);
        fprintf(p->file, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"grid\"/>\n", LEFT, y,
                right, y);
        put_text(p, LEFT - 8, y + 4, "dim end", "%d %%", percent);
    }
    fprintf(p->file, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"axis\"/>\n", LEFT, bottom,
            right, bottom);
    double step = nice_step(p->to - p->from, 8);
    int first = (int)ceil(p->from / step), last = (int)floor(p->to / step);
    for (int at = first; at <= last; at++) {
        double tick = at * step;
        double x = place_x(p, tick), shown = p->row->sign * tick;
        if (fabs(shown) < step / 1000) shown = 0;
        fprintf(p->file, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"axis\"/>\n", x,
                bottom, x, bottom + 5);
        put_text(p, x, bottom + 19, "dim mid", "%.6g", shown);
    }
    put_text(p, LEFT - 8, TOP - 12, "dim", "right");
    char what[80];
    snprintf(what, sizeof what, p->row->layer >= 0 ? "%s at layer %d" : "%s%.0d", p->row->signal,
             p->row->layer >= 0 ? p->row->layer : 0);
    put_text(p, (LEFT + right) / 2, bottom + 38, "mid", "%s%s, %s to the right", what,
             strcmp(p->row->signal, "entropy") == 0 ? " in nats" : "",
             p->row->sign > 0 ? "rising" : "falling");
}

/* The stretch that a state takes, and its edge. */
static void put_state(const struct plot *p, bool locked) {
    double edge = place_x(p, locked ? p->report->peak : p->report->low);
    double from = locked ? edge : LEFT, to = locked ? WIDTH - RIGHT : edge, top = place_y(1),
           bottom = place_y(0);
    fprintf(p->file, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"area %s\"/>\n", from,
            top, fmax(to - from, 0), bottom - top, locked ? "locked" : "explore");
    fprintf(p->file, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"cut %s\"/>\n", edge,
            top - 6, edge, bottom, locked ? "l" : "e");
    double shown = p->row->sign * (locked ? p->report->peak : p->report->low);
    bool above = locked == (p->row->sign > 0);
    /* Names stand inside their stretch where it is wide enough. */
    bool inside = to - from > 150;
    put_text(p, locked == inside ? edge + 6 : edge - 6, locked ? top - 10 : top + 16,
             locked == inside ? (locked ? "locked" : "explore") : (locked ? "locked end" : "explore end"),
             "%s %s %.3g", locked ? "LOCKED" : "EXPLORE", above ? "above" : "below", shown);
}

static void put_curve(const struct plot *p) {
    const wane_tune_report *r = p->report;
    fputs("<path class=\"curve\" d=\"", p->file);
    for (int i = 0; i <= CURVE_POINTS; i++) {
        double x = p->from + (p->to - p->from) * i / CURVE_POINTS;
        fprintf(p->file, "%s%.1f %.1f", i == 0 ? "M" : " L", place_x(p, x), place_y(curve_at(r, x)));
    }
    fputs("\"/>\n", p->file);
    const double bend[] = {r->foot, r->knee};
    for (int i = 0; i < 2; i++)
        if (bend[i] >= p->from && bend[i] <= p->to)
            fprintf(p->file,
                    "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5.5\" class=\"bend\"><title>%s of the "
                    "curve</title></circle>\n",
                    place_x(p, bend[i]), place_y(curve_at(r, bend[i])), i == 0 ? "foot" : "knee");
}

static void put_bins(const struct plot *p) {
    for (int i = 0; i < p->report->bins; i++) {
        const wane_tune_bin *b = &p->report->bin[i];
        double x = place_x(p, b->mean);
        fprintf(p->file, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"bar\"/>\n", x,
                place_y(b->low), x, place_y(b->high));
        fprintf(p->file,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.2\" class=\"dot\"><title>%llu tokens, %.4g to %.4g: "
                "%.1f %% right"
                "</title></circle>\n",
                x, place_y(b->accuracy), (unsigned long long)b->tokens, p->row->sign * b->from,
                p->row->sign * b->to, 100 * b->accuracy);
    }
}

static void put_key(const struct plot *p) {
    double y = HEIGHT - 18, x = LEFT;
    fprintf(p->file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.2\" class=\"dot\"/>\n", x + 4, y - 4);
    put_text(p, x + 14, y, "dim", "held-out tokens, %llu in each, with 95 %%",
             (unsigned long long)(p->report->bins > 0 ? p->report->bin[0].tokens : 0));
    x += 290;
    fprintf(p->file, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"curve\"/>\n", x, y - 4,
            x + 22, y - 4);
    put_text(p, x + 30, y, "dim", "curve from the other part");
    x += 220;
    fprintf(p->file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" class=\"bend\"/>\n", x, y - 4);
    put_text(p, x + 12, y, "dim", "foot and knee");
}

static void put_all(const struct plot *p, const char *model) {
    const wane_tune_report *r = p->report;
    fprintf(p->file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
            "role=\"img\">\n<title>",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    put_escaped(p->file, model);
    fputs(": how often the next token is right, by signal</title>\n", p->file);
    fputs(style, p->file);
    fprintf(p->file, "<rect width=\"%d\" height=\"%d\" class=\"paper\"/>\n", WIDTH, HEIGHT);
    put_text(p, LEFT - 44, 30, "title", "%s%s%s: how often the next token is right", model,
             r->profile.domain[0] != '\0' ? ", " : "", r->profile.domain);
    put_text(p, LEFT - 44, 52, "dim", "%s", r->verdict);
    put_axes(p);
    if (r->profile.signal != WANE_SIGNAL_NONE) {
        put_state(p, true);
        put_state(p, false);
    }
    put_curve(p);
    put_bins(p);
    put_key(p);
    fputs("</svg>\n", p->file);
}

int tune_plot(const char *path, const wane_tune_report *report, const char *model) {
    struct file_out out;
    file_begin(&out, path);
    struct plot plot = {.file = out.file, .report = report, .row = &report->rows[report->best]};
    if (out.file != NULL) {
        set_range(&plot);
        put_all(&plot, model);
    }
    return file_end(&out, true)
               ? EXIT_FINE
               : cli_fail(EXIT_FAILED, "cannot write the plot %s: %s", path, strerror(errno));
}
