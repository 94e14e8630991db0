/* report.h - `wane bench report`: one page of results; and what its two files share. */
#ifndef WANE_CLI_REPORT_H
#define WANE_CLI_REPORT_H

#include "cli.h"

#include <stdio.h>

enum { REPORT_BARS = 64, REPORT_PARTS = 3 };

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

/* A chart and its command as a figure with SVG; one without bars is nothing. */
void report_draw(FILE *out, const struct report_chart *chart);
/* Text that is no markup. */
void report_text(FILE *out, const char *text);

/* `wane bench report RESULTS… -o FILE`: an exit code, after a complaint. */
int bench_report(const struct settings *settings);

#endif
