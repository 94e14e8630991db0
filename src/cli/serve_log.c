/*
 * serve_log.c - owns standard error while a server runs: one line in one piece, whoever says it. Refuses to wait: a pipe that has no room
 * after a moment, or a disk that is full, costs the line and not the server.
 *
 *     line ─► lock ─► "N lines were lost", where any were ─► room? ─► write ─ all of it: told = lost
 *                                                             └─ no, or not all: lost + 1
 */
#include "serve_log.h"

#include "cli.h"
#include "text.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* That a reader may take to make room, unless it had its chance with the line before. */
enum { PATIENCE_MS = 100 };

static const char *const level_names[] = {"error", "warn", "info", "debug"};

void serve_log_begin(struct serve_log *log, const char *level, bool json) {
    *log = (struct serve_log){.level = WANE_LOG_INFO, .json = json};
    pthread_mutex_init(&log->lock, NULL);
    for (int i = 0; i <= WANE_LOG_DEBUG; i++)
        if (strcmp(level, level_names[i]) == 0) log->level = i;
}

static void stamp(char out[32]) {
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    size_t used = strftime(out, 32, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(out + used, 32 - used, ".%03ldZ", now.tv_nsec / 1000000);
}

/* A line with its end; free it. */
static char *line_text(const struct serve_log *log, int level, const char *line, json_t *extra) {
    char when[32];
    stamp(when);
    if (!log->json) return text_format("%s %-5s %s\n", when, level_names[level], line);
    json_t *all = json_pack("{s:s, s:s, s:o}", "time", when, "level", level_names[level], "message",
                            json_text(line, strlen(line)));
    if (extra != NULL) json_object_update(all, extra);
    char *text = json_dumps(all, JSON_COMPACT), *whole = text_format("%s\n", text != NULL ? text : "{}");
    free(text);
    json_decref(all);
    return whole;
}

/* Under the lock. A pipe that has room takes this much at once, so that writing does not wait. */
static bool put(struct serve_log *log, const char *text, size_t size) {
    size_t done = 0;
    while (done < size) {
        struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
        int ready = poll(&out, 1, log->behind ? 0 : PATIENCE_MS);
        if (ready < 0 && errno == EINTR) continue;
        if (ready == 0) break;
        size_t part = size - done < PIPE_BUF ? size - done : PIPE_BUF;
        ssize_t wrote = write(STDERR_FILENO, text + done, part);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) break;
        done += (size_t)wrote;
    }
    if (done > 0) log->torn = done < size;
    log->behind = done < size;
    return done == size;
}

/* Under the lock: what was lost before, in a line of its own; NULL: nothing. */
static char *loss_text(const struct serve_log *log) {
    unsigned long long lost = atomic_load(&log->lost) - log->told;
    char line[100];
    if (lost == 0) return NULL;
    snprintf(line, sizeof line, "log: %llu line%s could not be written here", lost, lost > 1 ? "s" : "");
    return line_text(log, WANE_LOG_WARN, line, NULL);
}

void serve_log_write(struct serve_log *log, int level, const char *line, json_t *extra) {
    if (level < 0) level = 0;
    if (level > WANE_LOG_DEBUG) level = WANE_LOG_DEBUG;
    char *text = line_text(log, level, line, extra);
    pthread_mutex_lock(&log->lock);
    progress_clear();
    char *before = loss_text(log);
    char *all = text_format("%s%s%s", log->torn ? "\n" : "", before != NULL ? before : "", text);
    if (put(log, all, strlen(all)))
        log->told = atomic_load(&log->lost);
    else
        atomic_fetch_add(&log->lost, 1);
    pthread_mutex_unlock(&log->lock);
    free(all);
    free(before);
    free(text);
}

void serve_log_text(struct serve_log *log, const char *text) {
    pthread_mutex_lock(&log->lock);
    progress_clear();
    if (!put(log, text, strlen(text))) atomic_fetch_add(&log->lost, 1);
    pthread_mutex_unlock(&log->lock);
}

void serve_log_line(void *user, int level, const char *line) {
    struct serve_log *log = user;
    if (level <= log->level) serve_log_write(log, level, line, NULL);
}

void serve_log_info(struct serve_log *log, const char *format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    serve_log_line(log, WANE_LOG_INFO, line);
}

uint64_t serve_log_lost(void *log) {
    return atomic_load(&((struct serve_log *)log)->lost);
}
