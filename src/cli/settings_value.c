/*
 * settings_value.c - from the text of a value to the value, and complaints that say where it came from.
 *
 * Owns the memory of the values. Refuses what is outside a setting's range, text after a number, and
 * infinities; a value that was refused leaves the setting as it was.
 */
#include "settings_internal.h"
#include "text.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool settings_complain(struct complaint *complaint, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(complaint->text, sizeof complaint->text, format, arguments);
    va_end(arguments);
    return false;
}

void settings_init(struct settings *settings) {
    *settings = (struct settings){0};
    struct complaint ignored;
    for (int id = 0; id < SETTING_COUNT; id++)
        if (settings_table[id].fallback != NULL)
            settings_set(settings, id, settings_table[id].fallback, FROM_DEFAULT, 0, &ignored);
}

static void clear_value(struct setting_value *value) {
    free(value->text);
    for (size_t i = 0; i < value->list_count; i++) free(value->list[i]);
    free(value->list);
    *value = (struct setting_value){0};
}

void settings_free(struct settings *settings) {
    for (int id = 0; id < SETTING_COUNT; id++) clear_value(&settings->value[id]);
    for (size_t i = 0; i < settings->domain_count; i++) {
        free(settings->domains[i].name);
        settings_free(settings->domains[i].own);
        free(settings->domains[i].own);
    }
    free(settings->domains);
    free(settings->file);
    free(settings->operands);
    *settings = (struct settings){0};
}

bool setting_is_domains(int id) {
    const char *key = settings_table[id].key;
    /* A model has one set of rules, one gate and one breaker. */
    return key != NULL && strncmp(key, "quality.", 8) == 0 && id != SET_RULES && id != SET_GATE &&
           id != SET_AB_GOVERNOR && strncmp(key, "quality.breaker_", 16) != 0;
}

const char *settings_source_name(enum setting_source source) {
    static const char *const names[] = {"default", "file", "environment", "option"};
    return names[source];
}

static void where(const struct settings *settings, int id, enum setting_source source, int line, char *out,
                  size_t size) {
    const struct setting *setting = &settings_table[id];
    if (source == FROM_OPTION)
        snprintf(out, size, "--%s", setting->option);
    else if (source == FROM_ENVIRONMENT)
        snprintf(out, size, "%s", setting->environment);
    else if (source == FROM_FILE)
        snprintf(out, size, "%s:%d", settings->file != NULL ? settings->file : "the settings file", line);
    else
        snprintf(out, size, "default");
}

void settings_where(const struct settings *settings, int id, char *out, size_t size) {
    const struct setting_value *value = &settings->value[id];
    if (value->source == FROM_OPTION && settings_table[id].type == TYPE_SWITCH && !value->on)
        snprintf(out, size, "--no-%s", settings_table[id].option);
    else
        where(settings, id, value->source, value->line, out, size);
}

/* "f16, f32 or bf16" */
static void join_choices(const char *choices, char *out, size_t size) {
    size_t used = 0;
    for (const char *at = choices; *at != '\0' && used < size;) {
        size_t length = strcspn(at, " ");
        const char *rest = at + length + (at[length] == ' ');
        const char *link = at == choices ? "" : *rest == '\0' ? " or " : ", ";
        int wrote = snprintf(out + used, size - used, "%s%.*s", link, (int)length, at);
        used += wrote > 0 ? (size_t)wrote : 0;
        at = rest;
    }
}

void settings_range(const struct setting *setting, char *out, size_t size) {
    switch (setting->type) {
    case TYPE_SWITCH: snprintf(out, size, "on or off"); break;
    case TYPE_INTEGER: snprintf(out, size, "%.0f to %.0f", setting->least, setting->most); break;
    case TYPE_REAL: snprintf(out, size, "%g to %g", setting->least, setting->most); break;
    case TYPE_BYTES: snprintf(out, size, "%.0f to %.0f bytes", setting->least, setting->most); break;
    case TYPE_SEED: snprintf(out, size, "random, or 0 to 18446744073709551615"); break;
    case TYPE_CHOICE: join_choices(setting->choices, out, size); break;
    case TYPE_TEXTS: snprintf(out, size, "text, up to %.0f times", setting->most); break;
    case TYPE_FILES: snprintf(out, size, "a path, up to %.0f times", setting->most); break;
    case TYPE_FILE: snprintf(out, size, "a path"); break;
    case TYPE_WORD:
    case TYPE_TEXT: snprintf(out, size, "text"); break;
    }
}

/* "temperature is "9" (from --temperature); it takes 0 to 5" */
static bool refuse(const struct settings *settings, int id, const char *text, enum setting_source source,
                   int line, struct complaint *complaint) {
    char from[300], range[200];
    where(settings, id, source, line, from, sizeof from);
    settings_range(&settings_table[id], range, sizeof range);
    const char *shape = settings_table[id].type == TYPE_INTEGER ? "a whole number from "
                        : settings_table[id].type == TYPE_REAL  ? "a number from "
                                                                : "";
    return settings_complain(complaint, "%s is \"%.100s\" (from %s); it takes %s%s",
                             settings_table[id].option, text, from, shape, range);
}

static bool word_among(const char *choices, const char *word) {
    size_t length = strlen(word);
    for (const char *at = choices; *at != '\0';) {
        size_t here = strcspn(at, " ");
        if (here == length && memcmp(at, word, length) == 0) return true;
        at += here + (at[here] == ' ');
    }
    return false;
}

static bool parse_switch(const char *text, bool *on) {
    *on = word_among("on yes true 1", text);
    return *on || word_among("off no false 0", text);
}

static bool parse_integer(const struct setting *setting, const char *text, int64_t *out) {
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || errno != 0 || (text[0] != '-' && (text[0] < '0' || text[0] > '9'))) return false;
    if (setting->type == TYPE_BYTES && *end != '\0') {
        int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
        if (shift == 0 || number < 0 || number > (LLONG_MAX >> shift)) return false;
        number = number * (1LL << shift);
        end++;
    }
    *out = number;
    return *end == '\0' && (double)number >= setting->least && (double)number <= setting->most;
}

static bool parse_real(const struct setting *setting, const char *text, double *out) {
    if (text[strspn(text, "0123456789+-.eE")] != '\0') return false; /* no hexadecimal, inf or nan */
    char *end;
    *out = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*out) && *out >= setting->least && *out <= setting->most;
}

static bool parse_seed(const char *text, struct setting_value *value) {
    value->seeded = strcmp(text, "random") != 0;
    if (!value->seeded) return true;
    char *end;
    errno = 0;
    value->seed = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && errno == 0 && *end == '\0';
}

/* \n, \t and \\ as in C; any other backslash stays, so that "\frac" needs no care. */
static char *unescape(const char *text) {
    char *out = text_alloc(strlen(text) + 1), *to = out;
    for (; *text != '\0'; text++) {
        char next = text[0] == '\\' ? text[1] : '\0';
        bool escape = next == 'n' || next == 't' || next == '\\';
        *to++ = !escape ? text[0] : next == 'n' ? '\n' : next == 't' ? '\t' : '\\';
        text += escape;
    }
    return out;
}

static bool add_text(const struct setting *setting, const char *text, struct setting_value *value) {
    if (text[0] == '\0' || value->list_count >= (size_t)setting->most) return false;
    value->list = text_grow(value->list, (value->list_count + 1) * sizeof *value->list);
    value->list[value->list_count++] = setting->type == TYPE_TEXTS ? unescape(text) : text_copy(text);
    return true;
}

static bool parse(const struct setting *setting, const char *text, struct setting_value *value) {
    size_t size = strlen(text);
    switch (setting->type) {
    case TYPE_SWITCH: return parse_switch(text, &value->on);
    case TYPE_INTEGER:
    case TYPE_BYTES: return parse_integer(setting, text, &value->integer);
    case TYPE_REAL: return parse_real(setting, text, &value->real);
    case TYPE_SEED: return parse_seed(text, value);
    case TYPE_CHOICE: return word_among(setting->choices, text);
    case TYPE_TEXTS:
    case TYPE_FILES: return add_text(setting, text, value);
    case TYPE_TEXT:
    case TYPE_WORD:
    case TYPE_FILE: return (double)size >= setting->least && (double)size <= setting->most;
    }
    return false;
}

/* The texts of a list, as one text for people to look at: with a line each. */
static char *joined(const char *old, const char *text) {
    return old == NULL ? text_copy(text) : text_format("%s\n%s", old, text);
}

bool settings_set(struct settings *settings, int id, const char *text, enum setting_source source, int line,
                  struct complaint *complaint) {
    const struct setting *setting = &settings_table[id];
    struct setting_value *old = &settings->value[id];
    bool weaker = old->text != NULL && source < old->source;
    if (weaker && source == FROM_ENVIRONMENT) return true;
    struct setting_value made = {0};
    bool listed = setting->type == TYPE_TEXTS || setting->type == TYPE_FILES;
    bool joins = listed && old->text != NULL && old->source == source;
    if (joins) {
        if (!add_text(setting, text, old)) return refuse(settings, id, text, source, line, complaint);
        char *all = joined(old->text, text);
        free(old->text);
        old->text = all;
        return true;
    }
    if (source == FROM_FILE && old->source == FROM_FILE && old->text != NULL)
        return settings_complain(complaint, "%s:%d: %s stands in line %d already; remove one of them",
                                 settings->file, line, setting->key, old->line);
    if (!parse(setting, text, &made)) {
        clear_value(&made);
        return refuse(settings, id, text, source, line, complaint);
    }
    if (weaker) { /* the file is checked whole, also where an option is stronger */
        clear_value(&made);
        return true;
    }
    made.text = text_copy(text);
    made.source = source;
    made.line = line;
    clear_value(old);
    *old = made;
    return true;
}

bool settings_append_line(struct settings *settings, int id, const char *text, int line,
                          struct complaint *complaint) {
    struct setting_value *value = &settings->value[id];
    if (settings_table[id].type != TYPE_TEXT)
        return settings_complain(
            complaint, "%s:%d: the line begins with a blank, which goes on with %s; that takes one line only",
            settings->file, line, settings_table[id].key);
    if (value->source != FROM_FILE) return true;
    char *all = joined(value->text, text);
    if ((double)strlen(all) > settings_table[id].most) {
        free(all);
        return settings_complain(complaint, "%s:%d: %s is longer than %.0f bytes", settings->file, line,
                                 settings_table[id].key, settings_table[id].most);
    }
    free(value->text);
    value->text = all;
    return true;
}
