/*
 * report.c - what the library is told and what it says: environment, lines, counters, WANE_STATS; and what a fork means.
 *
 * Lines go to standard error in one write each, so that they do not mix with the host's. The last one is said when the
 * process ends in an orderly way, by whoever made contexts: not by a fork's child that made none.
 */
#include "preload/preload.h"

#include "core/file.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct wane__under_counts wane__under_counts;

/* ----------------------------------------------------------------- settings */

static struct wane__under_settings settings;
static pthread_once_t settings_once = PTHREAD_ONCE_INIT;

static bool is_on(const char *name, bool fallback) {
    const char *value = getenv(name);
    if (value == NULL || value[0] == '\0') return fallback;
    return strcmp(value, "0") != 0 && strcmp(value, "off") != 0;
}

static double number(const char *name, double least, double most, double fallback) {
    const char *value = getenv(name);
    if (value == NULL || value[0] == '\0') return fallback;
    char *end;
    double given = strtod(value, &end);
    if (end != value && *end == '\0' && given >= least && given <= most) return given;
    wane__under_say("%s is \"%.40s\"; it must be a number of %g to %g. %g is taken.", name, value, least,
                    most, fallback);
    return fallback;
}

static void text(const char *name, char *out, size_t size) {
    const char *value = getenv(name);
    int length = value != NULL ? snprintf(out, size, "%s", value) : 0;
    if (length < 0 || (size_t)length >= size) out[0] = '\0';
}

static void read_settings(void) {
    const char *head = getenv("WANE_HEAD"), *rows = getenv("WANE_EXEC_ROWS");
    settings.build = is_on("WANE_EXEC_BUILD", true);
    settings.head = WANE__UNDER_CERTIFIED;
    if (head != NULL && strcmp(head, "always") == 0) settings.head = WANE__UNDER_ALWAYS;
    if (head != NULL && strcmp(head, "dense") == 0) settings.head = WANE__UNDER_DENSE;
    settings.share_always = rows != NULL && strcmp(rows, "share") == 0;
    settings.sigmas = number("WANE_HEAD_SIGMAS", 3, 12, 6);
    settings.share = number("WANE_EXEC_SHARE", 1e-30, 0.5, 1e-9);
    settings.shadow = number("WANE_SHADOW", 0, 1, 0.01);
    text("WANE_STATS", settings.stats, sizeof settings.stats);
    text("WANE_EXEC_PROGRAM", settings.program, sizeof settings.program);
}

const struct wane__under_settings *wane__under_settings(void) {
    pthread_once(&settings_once, read_settings);
    return &settings;
}

/* --------------------------------------------------------------------- lines */

void wane__under_say(const char *format, ...) {
    char line[1200] = "wane: ";
    if (is_on("WANE_EXEC_QUIET", false)) return;
    size_t used = strlen(line);
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line + used, sizeof line - used - 1, format, arguments);
    va_end(arguments);
    if (length < 0) return;
    used = strlen(line);
    line[used++] = '\n';
    int kept = errno;
    if (write(STDERR_FILENO, line, used) < 0) errno = kept;
    errno = kept;
}

/* ------------------------------------------------------------------ counters */

static uint64_t read_count(_Atomic uint64_t *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static const char *const why_names[WANE__WHYS] = {"off",  "learn", "whole", "again", "many",
                                                  "rows", "order", "batch", "pace",  "failed"};
static const char *const why_words[WANE__WHYS] = {"without a head",           "to look and compare",
                                                  "for the whole vocabulary", "read again",
                                                  "where much can matter",    "of many rows",
                                                  "of uncertain order",       "of several rows at once",
                                                  "where that was faster",    "where the head failed"};

struct gains {
    bool known;
    double head, decode;
};

/* What a token took without our head, over what it takes with it; of checked single rows. */
static struct gains gains_of(struct wane__under_counts *c) {
    double body = (double)read_count(&c->body), dense = (double)read_count(&c->head_dense);
    double ours = (double)read_count(&c->head_ours), copies = (double)read_count(&c->copies);
    double checked = (double)read_count(&c->checked);
    if (!(ours > 0) || !(dense > 0) || !(copies > 0)) return (struct gains){0};
    ours += checked * (double)read_count(&c->copy) / copies;
    return (struct gains){true, dense / ours, (body + dense) / (body + ours)};
}

static void say_end(struct wane__under_counts *c) {
    char reasons[400] = "", gain[200] = "";
    uint64_t dense = 0;
    size_t used = 0;
    for (int i = 0; i < WANE__WHYS; i++) {
        uint64_t n = read_count(&c->dense[i]);
        dense += n;
        if (n == 0 || used >= sizeof reasons - 80) continue;
        used += (size_t)snprintf(reasons + used, sizeof reasons - used, "%s%llu %s", used > 0 ? ", " : "",
                                 (unsigned long long)n, why_words[i]);
    }
    struct gains gains = gains_of(c);
    if (gains.known)
        snprintf(gain, sizeof gain, "; head %.1f times, decoding %.2f times as fast as dense", gains.head,
                 gains.decode);
    wane__under_say("%llu tokens, %llu by the certified head%s (%llu checked, %llu divergent)%s%s",
                    (unsigned long long)read_count(&c->rows), (unsigned long long)read_count(&c->certified),
                    gain, (unsigned long long)read_count(&c->checked),
                    (unsigned long long)read_count(&c->divergent), dense > 0 ? "; dense: " : "", reasons);
}

/* --------------------------------------------------------------------- JSON */

struct text {
    char bytes[4096];
    size_t size;
};

static void put(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(struct text *t, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(t->bytes + t->size, sizeof t->bytes - t->size, format, arguments);
    va_end(arguments);
    if (length > 0 && (size_t)length < sizeof t->bytes - t->size) t->size += (size_t)length;
}

static void put_string(struct text *t, const char *name, const char *value) {
    char safe[500];
    size_t used = 0;
    for (; *value != '\0' && used < sizeof safe - 2; value++) {
        if (*value == '"' || *value == '\\') safe[used++] = '\\';
        safe[used++] = (unsigned char)*value < 32 ? ' ' : *value;
    }
    safe[used] = '\0';
    put(t, "  \"%s\": \"%s\",\n", name, safe);
}

static void put_count(struct text *t, const char *name, _Atomic uint64_t *counter) {
    put(t, "  \"%s\": %llu,\n", name, (unsigned long long)read_count(counter));
}

void wane__under_write_stats(void) {
    const struct wane__under_settings *s = wane__under_settings();
    struct wane__under_counts *c = &wane__under_counts;
    struct text t = {.size = 0};
    if (s->stats[0] == '\0') return;
    const struct wane__library *library = wane__library_seen();
    put(&t, "{\n  \"version\": 1,\n  \"pid\": %ld,\n", (long)getpid());
    put_string(&t, "llama", library != NULL ? library->abi.version : "");
    put(&t, "  \"known\": %s,\n", library != NULL && library->known ? "true" : "false");
    put_string(&t, "reason", library != NULL ? library->reason : "");
    put_count(&t, "contexts", &c->contexts);
    put_count(&t, "contexts_open", &c->open);
    put_count(&t, "tokens", &c->rows);
    put_count(&t, "certified", &c->certified);
    put(&t, "  \"dense\": {");
    for (int i = 0; i < WANE__WHYS; i++)
        put(&t, "%s\"%s\": %llu", i > 0 ? ", " : "", why_names[i],
            (unsigned long long)read_count(&c->dense[i]));
    put(&t, "},\n");
    put_count(&t, "checked", &c->checked);
    put_count(&t, "divergent", &c->divergent);
    struct gains gains = gains_of(c);
    if (gains.known)
        put(&t, "  \"head_gain\": %.3f,\n  \"decode_gain\": %.3f\n}\n", gains.head, gains.decode);
    else
        put(&t, "  \"head_gain\": null,\n  \"decode_gain\": null\n}\n");
    wane_error error = {0};
    if (wane__file_write(s->stats, "the statistics", t.bytes, t.size, 0644, &error) != WANE_OK)
        wane__under_say("%s", error.text);
}

/* --------------------------------------------------------------------- forks */

static pthread_once_t forks_once = PTHREAD_ONCE_INIT;

static void on_child(void) {
    memset((void *)&wane__under_counts, 0, sizeof wane__under_counts);
    wane__samplers_reset_lock();
    wane__library_reset_lock();
    wane__under_forked();
}

static void watch(void) {
    pthread_atfork(NULL, NULL, on_child);
}

void wane__under_watch_forks(void) {
    pthread_once(&forks_once, watch);
}

__attribute__((destructor)) static void at_end(void) {
    struct wane__under_counts *c = &wane__under_counts;
    if (read_count(&c->contexts) == 0) return;
    if (read_count(&c->rows) > 0) say_end(c);
    wane__under_write_stats();
}
