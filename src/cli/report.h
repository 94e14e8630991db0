/* report.h - `wane bench report`: one page of results; and what its files share. */
#ifndef WANE_CLI_REPORT_H
#define WANE_CLI_REPORT_H

#include "cli.h"

#include <jansson.h>
#include <stdio.h>

enum {
    REPORT_BARS = 64,
    REPORT_PARTS = 3,
    REPORT_POINTS = 4,
    REPORT_WIDE = 760, /* of a drawing, in its own units; LEFT is for labels, RIGHT for numbers */
    REPORT_LEFT = 280,
    REPORT_RIGHT = 90,
    REPORT_RESULTS = 200
};

/* What was read. */
struct report {
    json_t *result[REPORT_RESULTS];
    const char *path[REPORT_RESULTS];
    int count;
    FILE *out;
};

/* A row of a chart: up to three parts, side by side as bars of their own, or one behind the other in one bar. */
struct report_bar {
    char label[120];
    double value[REPORT_PARTS];
    double mark; /* a limit, drawn as a line; NAN: none */
};

struct report_chart {
    const char *title, *says, *unit;
    const char *part[REPORT_PARTS];
    int parts;
    bool stacked; /* the parts add up */
    double base;  /* a line: where nothing is gained; NAN: none */
    struct report_bar bar[REPORT_BARS];
    int bars;
    char command[400];
};

/* A row with an extent: a step of a waterfall, a distribution, an interval. */
struct report_span {
    char label[120];
    double from, to;
    double point[REPORT_POINTS]; /* marks within it; NAN: none */
    int look;                    /* 0..2: colours; -1: a heading, nothing is drawn */
    char note[60];               /* behind it */
};

struct report_spans {
    const char *title, *says, *unit;
    const char *key[REPORT_PARTS]; /* what the colours mean; NULL: nothing */
    const char *marks;             /* what the points mean; NULL: there are none */
    bool steps;                    /* thick, each beginning where the one before ended */
    double base;                   /* a line; NAN: none */
    struct report_span span[REPORT_BARS];
    int spans;
    char command[400];
};

/* Two figures against each other. */
struct report_point {
    char label[40];
    double x, y, low, high; /* the interval of y; NAN: none */
    int look;               /* 0: on the curve; 1, 2: by itself, for comparison */
};

struct report_curve {
    const char *title, *says, *x, *y;
    const char *key[REPORT_PARTS];
    struct report_point point[REPORT_BARS];
    int points;
    char command[400];
};

/* A chart and its command as a figure with SVG; one without anything to draw is nothing. */
void report_draw(FILE *out, const struct report_chart *chart);
void report_draw_spans(FILE *out, const struct report_spans *spans);
void report_draw_curve(FILE *out, const struct report_curve *curve);
/* Text that is no markup. */
void report_text(FILE *out, const char *text);
/* What stands above a drawing of that height, and below it. */
void report_begin(FILE *out, const char *title, const char *says, int high);
void report_end(FILE *out, const char *command);
/* A number as long as its size asks for, and its unit. */
void report_number(FILE *out, double x, double y, double value, const char *unit);

/* A new row, or NULL where a chart is full. */
struct report_bar *report_bar(struct report_chart *chart, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
struct report_span *report_span(struct report_spans *spans, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Figures of right answers and of prices: results of bench/quality.py and of `wane cost --json`. */
bool report_is_quality(const json_t *result);
bool report_is_cost(const json_t *result);
void report_quality(const struct report *report);
void report_cost(const struct report *report);

/* `wane bench report RESULTS… -o FILE`: an exit code, after a complaint. */
int bench_report(const struct settings *settings);

#endif
