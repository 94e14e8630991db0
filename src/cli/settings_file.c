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
#include <stdlib.h>
#include <string.h>

static const char domain_mark[] = "domain.";
/* Names: inih cuts a section's at 49 bytes, mark and all, in silence; so none may come near. */
enum { DOMAINS_MOST = 64, DOMAIN_NAME_MOST = 40 };
enum { FILE_MOST = 1 << 20 }; /* bytes; a settings file is a page or two */

struct reading {
    struct settings *settings, *into; /* the file's; those of the section */
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

/* The settings of [domain.NAME], made when it is seen first; NULL with a complaint. */
static struct settings *domain_of(struct reading *reading, const char *name) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    struct settings *all = reading->settings;
    for (size_t i = 0; i < all->domain_count; i++)
        if (strcmp(all->domains[i].name, name) == 0) return all->domains[i].own;
    size_t size = strlen(name);
    if (size == 0 || size > DOMAIN_NAME_MOST || strspn(name, allowed) != size ||
        all->domain_count == DOMAINS_MOST) {
        reading->failed = true;
        settings_complain(reading->complaint,
                          "%s:%d: [domain.%.70s]: a domain's name has 1 to %d of a-z A-Z 0-9 - _ . and there "
                          "are at most %d",
                          reading->name, reading->line, name, DOMAIN_NAME_MOST, DOMAINS_MOST);
        return NULL;
    }
    struct settings_domain *domains = text_alloc((all->domain_count + 1) * sizeof *domains);
    if (all->domain_count > 0) memcpy(domains, all->domains, all->domain_count * sizeof *domains);
    free(all->domains);
    all->domains = domains;
    struct settings_domain *made = &domains[all->domain_count++];
    made->name = text_copy(name);
    made->own = text_alloc(sizeof *made->own);
    settings_init(made->own);
    made->own->file = all->file != NULL ? text_copy(all->file) : NULL;
    return made->own;
}

/* A domain is made by the line that names it: it may have nothing of its own, and inih tells of sections with values only. */
static bool see_domain(struct reading *reading, const char *line, size_t length) {
    size_t before = sizeof domain_mark; /* the bracket, and the mark */
    const char *end = memchr(line, ']', length);
    if (line[0] != '[' || end == NULL || (size_t)(end - line) < before ||
        memcmp(line + 1, domain_mark, before - 1) != 0)
        return true;
    char *name = text_copy_part(line + before, (size_t)(end - line) - before);
    bool good = domain_of(reading, name) != NULL;
    free(name);
    if (!good) reading->failed_at = reading->line;
    return good;
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
    if (!see_domain(reading, begin, length)) return NULL;
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
            !settings_append_line(reading->into, reading->last, value, reading->line, reading->complaint);
        return !reading->failed;
    }
    char key[128];
    struct settings *settings = reading->settings;
    reading->last = -1;
    if (strncmp(section, domain_mark, sizeof domain_mark - 1) == 0) {
        settings = domain_of(reading, section + sizeof domain_mark - 1);
        if (settings == NULL) return 0;
        snprintf(key, sizeof key, "quality.%s", name);
    } else {
        snprintf(key, sizeof key, "%s%s%s", section, section[0] != '\0' ? "." : "", name);
    }
    reading->into = settings;
    for (int id = 0; id < SETTING_COUNT && reading->last < 0; id++)
        if (settings_table[id].key != NULL && strcmp(settings_table[id].key, key) == 0) reading->last = id;
    if (reading->last < 0) return unknown_key(reading, key);
    if (settings != reading->settings && !setting_is_domains(reading->last)) {
        reading->failed = true;
        return settings_complain(reading->complaint,
                                 "%s:%d: %.60s belongs to the model, not to a domain; put it under [quality]",
                                 reading->name, reading->line, name);
    }
    reading->failed =
        !settings_set(settings, reading->last, value, FROM_FILE, reading->line, reading->complaint);
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
