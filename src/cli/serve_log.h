/*
 * serve_log.h - the log of a server: lines on standard error, from any thread.
 *
 * A line that cannot be written is lost, counted, and told of by the next one that can: neither a full disk nor a reader that stopped
 * reading holds up whoever has something to say.
 */
#ifndef WANE_CLI_SERVE_LOG_H
#define WANE_CLI_SERVE_LOG_H

#include "wane.h"

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct serve_log {
    int level; /* WANE_LOG_…: more talkative lines are left out */
    bool json;
    pthread_mutex_t lock;
    bool torn;   /* the last thing written is half a line                   */
    bool behind; /* the last line was lost: the next one is not waited for  */
    unsigned long long told;
    atomic_ullong lost;
};

/* `level`: one of error, warn, info, debug; anything else counts as info. */
void serve_log_begin(struct serve_log *log, const char *level, bool json);
/* Whatever its level. `extra` (may be NULL) is merged into a JSON line. */
void serve_log_write(struct serve_log *log, int level, const char *line, json_t *extra);
/* For people, as it is, with its line ends; counted as one line where it cannot be written. */
void serve_log_text(struct serve_log *log, const char *text);
/* A wane_log_fn; `log` is a struct serve_log. */
void serve_log_line(void *log, int level, const char *line);
void serve_log_info(struct serve_log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Lines that could not be written so far; `log` is a struct serve_log. */
uint64_t serve_log_lost(void *log);

#endif
