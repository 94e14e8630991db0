/* settings_internal.h - what the files of the settings share among themselves. */
#ifndef WANE_CLI_SETTINGS_INTERNAL_H
#define WANE_CLI_SETTINGS_INTERNAL_H

#include "settings.h"

/* Write the complaint; always false, so that it can be returned. */
bool settings_complain(struct complaint *complaint, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A further line of a text that the file gave just before. False when the setting takes one line only. */
bool settings_append_line(struct settings *settings, int id, const char *text, int line,
                          struct complaint *complaint);

#endif
