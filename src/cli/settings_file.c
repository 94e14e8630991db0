/*
 * settings_file.c - the settings file: [section], key = value, read by inih.
 *
 * inih gives names without line numbers, cuts lines at 200 bytes and stops at a NUL. So the reader that feeds it
 * counts the lines and refuses long ones and NULs; the handler then knows the line that it is called for.
 */
#include "settings_internal.h"
#include "text.h"

#include <ini.h>
#include <stdio.h>
#include <string.h>

enum { FILE_MOST = 1 << 20 }; /* bytes; a settings file is a page or two */

struct reading {
    struct settings *settings;
    struct complaint *complaint;
    const char *name, *text;
    size_t size, at;
    int line;
    bool indented; /* the line begins with a blank: it goes on with the value before */
    int last;      /* setting of the value before; -1: none */
    bool failed;
    int failed_at; /* line */
};

static bool fail_line(struct reading *reading, const char *what) {
    reading->failed = true;
    reading->failed_at = reading->line;
    return settings_complain(reading->complaint, "%s:%d: %s", reading->name, reading->line, what);
}

/* Like fgets, from memory. */
static char *read_line(char *out, int capacity, void *user) {
    struct reading *reading = user;
    if (reading->failed || reading->at >= reading->size) return NULL;
    const char *begin = reading->text + reading->at;
    size_t left = reading->size - reading->at;
    const char *end = memchr(begin, '\n', left);
    size_t length = end != NULL ? (size_t)(end - begin) + 1 : left;
    reading->at += length;
    reading->line++;
    reading->indented = begin[0] == ' ' || begin[0] == '\t';
    if (memchr(begin, '\0', length) != NULL) {
        fail_line(reading, "there is a NUL byte in this line");
        return NULL;
    }
    if (capacity < 3 || length > (size_t)capacity - 2) {
        fail_line(reading, "the line is too long; go on in the next one, which begins with a blank");
        return NULL;
    }
    memcpy(out, begin, length);
    out[length] = '\0';
    return out;
}

static bool unknown_key(struct reading *reading, const char *key) {
    struct nearest nearest = {.wanted = key};
    for (int id = 0; id < SETTING_COUNT; id++)
        if (settings_table[id].key != NULL) nearest_offer(&nearest, settings_table[id].key);
    reading->failed = true;
    return settings_complain(reading->complaint, "%s:%d: there is no setting %.100s%s%s%s", reading->name,
                             reading->line, key,
                             nearest.found != NULL ? "; did you mean " : "; \"wane config\" lists them",
                             nearest.found != NULL ? nearest.found : "", nearest.found != NULL ? "?" : "");
}

static int take_one(void *user, const char *section, const char *name, const char *value) {
    struct reading *reading = user;
    if (reading->failed) return 0;
    if (reading->indented && reading->last >= 0) {
        reading->failed =
            !settings_append_line(reading->settings, reading->last, value, reading->line, reading->complaint);
        return !reading->failed;
    }
    char key[128];
    snprintf(key, sizeof key, "%s%s%s", section, section[0] != '\0' ? "." : "", name);
    reading->last = -1;
    for (int id = 0; id < SETTING_COUNT && reading->last < 0; id++)
        if (settings_table[id].key != NULL && strcmp(settings_table[id].key, key) == 0) reading->last = id;
    if (reading->last < 0) return unknown_key(reading, key);
    reading->failed =
        !settings_set(reading->settings, reading->last, value, FROM_FILE, reading->line, reading->complaint);
    return !reading->failed;
}

static int take_value(void *user, const char *section, const char *name, const char *value) {
    struct reading *reading = user;
    bool before = reading->failed;
    int good = take_one(user, section, name, value);
    if (reading->failed && !before) reading->failed_at = reading->line;
    return good;
}

bool settings_read_text(struct settings *settings, const char *name, const char *text, size_t size,
                        struct complaint *complaint) {
    if (size > FILE_MOST) return settings_complain(complaint, "%s is larger than %d bytes", name, FILE_MOST);
    struct reading reading = {
        .settings = settings, .complaint = complaint, .name = name, .text = text, .size = size, .last = -1};
    int line = ini_parse_stream(read_line, &reading, take_value, &reading);
    /* inih names the first line that it could not read; what failed after it is not the first fault. */
    if (reading.failed && (line <= 0 || line >= reading.failed_at)) return false;
    if (line == 0) return true;
    if (line < 0) return settings_complain(complaint, "%s: no memory to read it", name);
    return settings_complain(complaint, "%s:%d: this is neither [section] nor key = value", name, line);
}
