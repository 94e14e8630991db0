/*
 * profile.c - a governor's thresholds in a file: one table of fields, walked by the parser, the writer and the check.
 *
 * Owns the names. Refuses what it does not know: a threshold with a slip in its name would be one that silently does nothing.
 */
#include "governor/profile.h"

#include "core/error.h"
#include "core/file.h"
#include "core/memory.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 1, MOST_LAYER = 1023 };

/* TEXT: a char array. NUMBER: a float. COUNT: an int. SIGNAL: an int with names. */
enum kind { TEXT, NUMBER, COUNT, SIGNAL };
/* What null stands for, in fields that may be null. */
enum nothing { NEVER_NULL, NULL_NAN, NULL_ABOVE, NULL_BELOW, NULL_NONE };

struct field {
    const char *name;
    enum kind kind;
    enum nothing nothing;
    bool evidence; /* stands in the object "evidence" */
    size_t at, room;
    double low, high;
};

#define AT(member) offsetof(wane_profile, member), sizeof((wane_profile *)0)->member
#define WIDE       1e30

/* In the order of the file. */
static const struct field fields[] = {
    {"model", TEXT, NEVER_NULL, false, AT(model), 0, 0},
    {"domain", TEXT, NEVER_NULL, false, AT(domain), 0, 0},
    {"signal", SIGNAL, NEVER_NULL, false, AT(signal), 0, WANE_SIGNALS - 1},
    {"layer", COUNT, NULL_NONE, false, AT(layer), -1, MOST_LAYER},
    {"sign", COUNT, NEVER_NULL, false, AT(sign), -1, 1},
    {"peak_kurtosis", NUMBER, NULL_ABOVE, false, AT(peak), -WIDE, WIDE},
    {"low_kurtosis", NUMBER, NULL_BELOW, false, AT(low), -WIDE, WIDE},
    {"spread_most", NUMBER, NEVER_NULL, false, AT(spread), 0, WIDE},
    {"jerk_threshold", NUMBER, NEVER_NULL, false, AT(jerk), 0, WIDE},
    {"locked_temperature", NUMBER, NEVER_NULL, false, AT(locked_temperature), 0, 100},
    {"locked_tokens", COUNT, NEVER_NULL, false, AT(locked_tokens), 1, 1024},
    {"explore_temperature", NUMBER, NEVER_NULL, false, AT(explore_temperature), 0, 100},
    {"protect_temperature", NUMBER, NEVER_NULL, false, AT(protect_temperature), 0, 100},
    {"temp_fallback", NUMBER, NEVER_NULL, false, AT(temp_fallback), 0, 100},
    {"stability", NUMBER, NEVER_NULL, false, AT(stability), 0.01, 100},
    {"samples", COUNT, NEVER_NULL, true, AT(samples), 0, 2147483647},
    {"auc", NUMBER, NULL_NAN, true, AT(auc), 0, 1},
    {"auc_low", NUMBER, NULL_NAN, true, AT(auc_low), 0, 1},
    {"auc_high", NUMBER, NULL_NAN, true, AT(auc_high), 0, 1},
    {"command", TEXT, NEVER_NULL, true, AT(command), 0, 0},
};
enum { FIELDS = (int)(sizeof fields / sizeof *fields) };

static const char *const states[WANE_STATES] = {"normal", "locked", "explore", "protect"};
static const char *const signals[WANE_SIGNALS] = {"none", "kurtosis", "entropy", "margin"};

const char *wane_state_name(int state) {
    return state >= 0 && state < WANE_STATES ? states[state] : "?";
}

const char *wane_signal_name(int signal) {
    return signal >= 0 && signal < WANE_SIGNALS ? signals[signal] : "?";
}

int wane_signal_from(const char *name) {
    for (int i = 0; i < WANE_SIGNALS; i++)
        if (strcmp(signals[i], name) == 0) return i;
    return -1;
}

void wane_profile_init(wane_profile *profile) {
    *profile = (wane_profile){.size = sizeof *profile,
                              .signal = WANE_SIGNAL_NONE,
                              .layer = -1,
                              .sign = 1,
                              .peak = INFINITY,
                              .low = -INFINITY,
                              .locked_temperature = 0.3f,
                              .explore_temperature = 0.85f,
                              .protect_temperature = 0.5f,
                              .locked_tokens = 3,
                              .stability = 1,
                              .auc = NAN,
                              .auc_low = NAN,
                              .auc_high = NAN};
}

/* ------------------------------------------------------------------ fields */

static double number_of(const wane_profile *profile, const struct field *f) {
    const char *at = (const char *)profile + f->at;
    float real;
    int whole;
    if (f->kind == NUMBER) {
        memcpy(&real, at, sizeof real);
        return (double)real + 0.0;
    }
    memcpy(&whole, at, sizeof whole);
    return whole;
}

static void set_number(wane_profile *profile, const struct field *f, double value) {
    char *at = (char *)profile + f->at;
    if (f->kind == NUMBER) {
        float real = (float)value + 0.0f; /* -0 is 0: a file of ours would not keep its sign */
        memcpy(at, &real, sizeof real);
    } else {
        int whole = (int)value;
        memcpy(at, &whole, sizeof whole);
    }
}

static const char *text_of(const wane_profile *profile, const struct field *f) {
    return (const char *)profile + f->at;
}

/* The value that null is, where the field may be null. */
static bool is_nothing(const struct field *f, double value) {
    switch (f->nothing) {
    case NULL_NAN: return isnan(value);
    case NULL_ABOVE: return isinf(value) && value > 0;
    case NULL_BELOW: return isinf(value) && value < 0;
    case NULL_NONE: return value < 0;
    default: return false;
    }
}

static double nothing_of(const struct field *f) {
    switch (f->nothing) {
    case NULL_ABOVE: return INFINITY;
    case NULL_BELOW: return -INFINITY;
    case NULL_NONE: return -1;
    default: return NAN;
    }
}

/* ------------------------------------------------------------------- check */

static bool is_digest(const char *text) {
    return strlen(text) == 32 && strspn(text, "0123456789abcdef") == 32;
}

static int check_text(const wane_profile *profile, const struct field *f, wane_error *error) {
    const char *text = text_of(profile, f);
    if (memchr(text, '\0', f->room) == NULL)
        return wane__fail(error, WANE_EINVAL, "%s is longer than %zu bytes.", f->name, f->room - 1);
    json_t *string = json_string(text); /* NULL: it is no UTF-8 */
    if (string == NULL) return wane__fail(error, WANE_EINVAL, "%s is no UTF-8.", f->name);
    json_decref(string);
    return WANE_OK;
}

static int check_fields(const wane_profile *profile, wane_error *error) {
    for (int i = 0; i < FIELDS; i++) {
        const struct field *f = &fields[i];
        int status = f->kind == TEXT ? check_text(profile, f, error) : WANE_OK;
        if (status != WANE_OK) return status;
        if (f->kind == TEXT) continue;
        double value = number_of(profile, f);
        if (is_nothing(f, value) || (value >= f->low && value <= f->high)) continue; /* NaN is not */
        return wane__fail(error, WANE_EINVAL, "%s is %g; it must be between %g and %g.", f->name, value,
                          f->low, f->high);
    }
    return WANE_OK;
}

/* What one field alone cannot tell. */
static int check_whole(const wane_profile *p, wane_error *error) {
    if (!is_digest(p->model))
        return wane__fail(error, WANE_EINVAL,
                          "model is \"%.40s\"; it must be the model's digest, 32 of 0-9 a-f.", p->model);
    if (strspn(p->domain, "abcdefghijklmnopqrstuvwxyz0123456789_-") != strlen(p->domain))
        return wane__fail(error, WANE_EINVAL, "domain is \"%.40s\"; it takes a-z 0-9 _ - only.", p->domain);
    if (p->sign != 1 && p->sign != -1)
        return wane__fail(error, WANE_EINVAL, "sign is %d; it must be 1 or -1.", p->sign);
    if (p->signal == WANE_SIGNAL_KURTOSIS && p->layer < 0)
        return wane__fail(error, WANE_EINVAL, "layer is missing: kurtosis is taken at one.");
    if (p->signal != WANE_SIGNAL_KURTOSIS && p->layer >= 0)
        return wane__fail(error, WANE_EINVAL, "layer is %d; the signal \"%s\" has none: it must be null.",
                          p->layer, wane_signal_name(p->signal));
    if (!(p->low < p->peak))
        return wane__fail(error, WANE_EINVAL, "low_kurtosis is %g; it must be below peak_kurtosis (%g).",
                          (double)p->low, (double)p->peak);
    if (!isnan(p->auc_low) && !isnan(p->auc_high) && p->auc_low > p->auc_high)
        return wane__fail(error, WANE_EINVAL, "auc_low is %g; it must not be above auc_high (%g).",
                          (double)p->auc_low, (double)p->auc_high);
    return WANE_OK;
}

int wane_profile_check(const wane_profile *profile, wane_error *error) {
    wane__clear(error);
    if (profile == NULL || profile->size != sizeof *profile)
        return wane__fail(error, WANE_EINVAL, "The profile was not set up by wane_profile_init.");
    int status = check_fields(profile, error);
    return status == WANE_OK ? check_whole(profile, error) : status;
}

/* ------------------------------------------------------------------- parse */

static int read_text(const struct field *f, const json_t *value, wane_profile *profile, wane_error *error) {
    size_t size = json_string_length(value);
    if (!json_is_string(value)) return wane__fail(error, WANE_EFORMAT, "\"%s\" must be a string.", f->name);
    if (size >= f->room || strlen(json_string_value(value)) != size)
        return wane__fail(error, WANE_EFORMAT, "\"%s\" must have at most %zu bytes, none of them zero.",
                          f->name, f->room - 1);
    memcpy((char *)profile + f->at, json_string_value(value), size + 1);
    return WANE_OK;
}

static int read_signal(const struct field *f, const json_t *value, wane_profile *profile, wane_error *error) {
    int signal = json_is_string(value) ? wane_signal_from(json_string_value(value)) : -1;
    if (signal < 0)
        return wane__fail(error, WANE_EFORMAT, "\"%s\" must be none, kurtosis, entropy or margin.", f->name);
    set_number(profile, f, signal);
    return WANE_OK;
}

static int read_field(const struct field *f, const json_t *value, wane_profile *profile, wane_error *error) {
    if (f->kind == TEXT) return read_text(f, value, profile, error);
    if (f->kind == SIGNAL) return read_signal(f, value, profile, error);
    if (json_is_null(value) && f->nothing != NEVER_NULL) {
        set_number(profile, f, nothing_of(f));
        return WANE_OK;
    }
    bool fits = f->kind == COUNT ? json_is_integer(value) : json_is_number(value);
    double real = json_number_value(value);
    if (!fits)
        return wane__fail(error, WANE_EFORMAT, "\"%s\" must be a %s%s.", f->name,
                          f->kind == COUNT ? "whole number" : "number",
                          f->nothing != NEVER_NULL ? " or null" : "");
    if (!(real >= f->low && real <= f->high))
        return wane__fail(error, WANE_EFORMAT, "\"%s\" is %g; it must be between %g and %g.", f->name, real,
                          f->low, f->high);
    set_number(profile, f, real);
    return WANE_OK;
}

/* The fields that belong into this object, each once, and no others. */
static int read_object(json_t *object, bool evidence, wane_profile *profile, wane_error *error) {
    const char *key;
    json_t *value;
    for (int i = 0; i < FIELDS; i++) {
        if (fields[i].evidence != evidence) continue;
        value = json_object_get(object, fields[i].name);
        if (value == NULL)
            return wane__fail(error, WANE_EFORMAT, "%s\"%s\" is missing.", evidence ? "in \"evidence\" " : "",
                              fields[i].name);
        int status = read_field(&fields[i], value, profile, error);
        if (status != WANE_OK) return status;
    }
    json_object_foreach(object, key, value) {
        bool known = !evidence && (strcmp(key, "wane_profile") == 0 || strcmp(key, "evidence") == 0);
        for (int i = 0; i < FIELDS && !known; i++)
            known = fields[i].evidence == evidence && strcmp(fields[i].name, key) == 0;
        if (!known)
            return wane__fail(error, WANE_EFORMAT, "%s\"%.60s\" is no field of a profile.",
                              evidence ? "in \"evidence\" " : "", key);
    }
    return WANE_OK;
}

static int read_profile(json_t *root, wane_profile *profile, wane_error *error) {
    const json_t *version = json_object_get(root, "wane_profile");
    json_t *evidence = json_object_get(root, "evidence");
    if (!json_is_object(root)) return wane__fail(error, WANE_EFORMAT, "it must be an object.");
    if (!json_is_integer(version))
        return wane__fail(error, WANE_EFORMAT,
                          "it has no \"wane_profile\", the format's version: it is no "
                          "profile.");
    if (json_integer_value(version) != VERSION)
        return wane__fail(error, WANE_EFORMAT, "it is of version %lld; this wane reads version %d.",
                          (long long)json_integer_value(version), VERSION);
    if (!json_is_object(evidence)) return wane__fail(error, WANE_EFORMAT, "\"evidence\" must be an object.");
    int status = read_object(root, false, profile, error);
    if (status == WANE_OK) status = read_object(evidence, true, profile, error);
    if (status == WANE_OK) status = wane_profile_check(profile, error);
    return status;
}

int wane__profile_parse(const char *name, const char *text, size_t size, wane_profile *profile,
                        wane_error *error) {
    json_error_t where;
    wane_error detail = {0};
    wane_profile_init(profile);
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &where);
    if (root == NULL)
        return wane__fail(error, WANE_EFORMAT,
                          "The profile %.200s: line %d, column %d: it is no JSON: %.150s.", name, where.line,
                          where.column, where.text);
    int status = read_profile(root, profile, &detail);
    json_decref(root);
    if (status == WANE_OK) return WANE_OK;
    wane_profile_init(profile);
    return wane__fail(error, WANE_EFORMAT, "The profile %.200s: %s", name, detail.text);
}

int wane_profile_load(const char *path, wane_profile *profile, wane_error *error) {
    char *text = NULL;
    size_t size = 0;
    wane__clear(error);
    wane_profile_init(profile);
    if (path == NULL || path[0] == '\0') return wane__fail(error, WANE_EINVAL, "No profile was named.");
    int status = wane__file_read(path, "the profile", WANE__PROFILE_BYTES, &text, &size, error);
    if (status == WANE_OK) status = wane__profile_parse(path, text, size, profile, error);
    wane__free(text);
    return status;
}

/* ------------------------------------------------------------------- write */

/* The fewest digits that give the same float again. */
static void write_number(double value, struct wane__buf *out) {
    char digits[40];
    for (int precision = 1; precision <= 9; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtof(digits, NULL) == (float)value) break;
    }
    wane__buf_text(out, digits);
}

static bool write_string(const char *text, struct wane__buf *out) {
    json_t *string = json_string(text);
    char *dumped = string != NULL ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
    bool fine = dumped != NULL && wane__buf_text(out, dumped);
    free(dumped);
    json_decref(string);
    return fine;
}

static bool write_field(const wane_profile *profile, const struct field *f, struct wane__buf *out) {
    double value = f->kind != TEXT ? number_of(profile, f) : 0;
    wane__buf_format(out, "%s\"%s\": ", f->evidence ? "    " : "  ", f->name);
    if (f->kind == TEXT) return write_string(text_of(profile, f), out);
    if (f->kind == SIGNAL) return wane__buf_format(out, "\"%s\"", wane_signal_name(profile->signal));
    if (is_nothing(f, value)) return wane__buf_text(out, "null");
    if (f->kind == COUNT) return wane__buf_format(out, "%d", (int)value);
    write_number(value, out);
    return !out->failed;
}

int wane__profile_write(const wane_profile *profile, struct wane__buf *out, wane_error *error) {
    bool evidence = false, fine = true;
    wane__buf_format(out, "{\n  \"wane_profile\": %d", VERSION);
    for (int i = 0; i < FIELDS && fine; i++) {
        bool first = fields[i].evidence && !evidence;
        wane__buf_text(out, first ? ",\n  \"evidence\": {\n" : ",\n");
        evidence = fields[i].evidence;
        fine = write_field(profile, &fields[i], out);
    }
    wane__buf_text(out, "\n  }\n}\n");
    return fine && !out->failed ? WANE_OK : wane__fail(error, WANE_ENOMEM, "No memory for a profile.");
}

int wane_profile_save(const wane_profile *profile, const char *path, wane_error *error) {
    struct wane__buf text = {0};
    int status = wane_profile_check(profile, error);
    if (status == WANE_OK && (path == NULL || path[0] == '\0'))
        status = wane__fail(error, WANE_EINVAL, "No file was named for the profile.");
    if (status == WANE_OK) status = wane__profile_write(profile, &text, error);
    if (status == WANE_OK) status = wane__file_write(path, "the profile", text.data, text.size, 0644, error);
    wane__buf_free(&text);
    return status;
}
