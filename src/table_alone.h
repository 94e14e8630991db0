/* table_alone.h - opening a table's public handle, for whoever knows whose it must be. */
#ifndef WANE_TABLE_ALONE_H
#define WANE_TABLE_ALONE_H

#include "table/trace.h"

/* As wane_table_open; `of` NULL: of any model. */
int wane__table_open_at(const char *path, const struct wane__trace_origin *of, const char *key,
                        wane_table **table, wane_error *error);

#endif
