/* log.h - a caller's log function with a level and a lock, so that it is never called twice at once. */
#ifndef WANE_CORE_LOG_H
#define WANE_CORE_LOG_H

#include "wane.h"

#include <pthread.h>

struct wane__log {
    wane_log_fn fn; /* NULL: silent */
    void *user;
    pthread_mutex_t lock;
};

void wane__log_init(struct wane__log *log, wane_log_fn fn, void *user);
void wane__log_close(struct wane__log *log);
/* One line, without a line end; cut at 1,000 bytes. `log` may be NULL. */
void wane__log(struct wane__log *log, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
