/* tune_plot.h - a signal against accuracy, drawn. */
#ifndef WANE_CLI_TUNE_PLOT_H
#define WANE_CLI_TUNE_PLOT_H

#include "cli.h"

/* Write the plot as SVG to a file, under a temporary name until it is whole. Returns an exit code, after a complaint. */
int tune_plot(const char *path, const wane_tune_report *report, const char *model);

#endif
