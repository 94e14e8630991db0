/* table_build.h - building tables: what `wane table` hands over to these files. Each returns an exit code. */
#ifndef WANE_CLI_TABLE_BUILD_H
#define WANE_CLI_TABLE_BUILD_H

#include "cli.h"

/* `first`: the first operand that names a file. */
int table_build(const struct settings *settings, size_t first);
int table_merge(const struct settings *settings, size_t first);
/* table_ray.c. Returns only when it could not begin. */
int table_build_ray(const struct settings *settings, size_t first);

/* What the settings say of building; the paths stay the settings'. */
void table_options_from(const struct settings *settings, wane_table_build_options *options);
/* What the settings say of a table in use; the paths stay the settings'. */
void table_use_from(const struct settings *settings, wane_table_use *use);
/* The traces that --log-file and the operands name, to be freed with free(); NULL when there are none. */
const char **table_logs(const struct settings *settings, size_t first, size_t *count);
/* table_replay.c */
int table_replay(const struct settings *settings, size_t first);

/* table_report.c. `model` gives tokens their text; NULL: numbers. */
json_t *report_json(const wane_table_report *report, const wane_model *model);
void report_print(const wane_table_report *report, const wane_model *model);
/* Share in percent; 0 of nothing. */
double report_percent(uint64_t part, uint64_t whole);
/* All kinds together. */
wane_table_hits report_total(const wane_table_report *report);

#endif
