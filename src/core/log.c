/* log.c - formats a line and hands it to the caller's function under a lock; owns no file and no level filter. */
#include "core/log.h"

#include <stdarg.h>
#include <stdio.h>

void wane__log_init(struct wane__log *log, wane_log_fn fn, void *user) {
    log->fn = fn;
    log->user = user;
    pthread_mutex_init(&log->lock, NULL);
}

void wane__log_close(struct wane__log *log) {
    pthread_mutex_destroy(&log->lock);
}

void wane__log(struct wane__log *log, int level, const char *format, ...) {
    if (log == NULL || log->fn == NULL) return;
    char line[1001];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    pthread_mutex_lock(&log->lock);
    log->fn(log->user, level, line);
    pthread_mutex_unlock(&log->lock);
}
