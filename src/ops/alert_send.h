/*
 * alert_send.h - the two ways in which a change leaves: a POST of its JSON to a URL, and a command.
 *
 * What goes out is the change and nothing else; what comes back is a status, and is not kept. Both come back within their time limit, and soon
 * where the hook is ending.
 */
#ifndef WANE_OPS_ALERT_SEND_H
#define WANE_OPS_ALERT_SEND_H

#include "ops/alert_hook.h"

#define WANE__ALERT_SECRET_MOST 4096

/* ------------------------------------------------------------------- a URL */

struct wane__post;
/*
 * `secret_file` may be NULL; its bytes, one line end behind them left out, sign what is posted: WANE_EAUTH when others can
 * read it, WANE_EFORMAT when it has fewer than 16 bytes. WANE_EINVAL for a URL that is not http or https, in words that do not repeat it.
 */
int wane__post_new(const char *url, const char *secret_file, int timeout_ms, struct wane__post **post,
                   wane_error *error);
void wane__post_free(struct wane__post *post);
/* Scheme, host and port: what may be logged. Paths, queries and passwords of such URLs are secrets. */
const char *wane__post_target(const struct wane__post *post);
enum wane__hook_result wane__post_send(void *post, const struct wane__hook *hook,
                                       const struct wane__hook_message *message, char why[200]);

/* What a status means: 2xx delivered; 408, 425, 429 and 5xx later; all others never, redirections too. */
enum wane__hook_result wane__post_verdict(long status);
/* "t=SECONDS,v1=HEX": HMAC-SHA-256 over "SECONDS.BODY". */
void wane__post_sign(const void *secret, size_t secret_size, int64_t seconds, const char *body,
                     size_t body_size, char out[112]);

/* --------------------------------------------------------------- a command */

struct wane__alert_command {
    const char *command; /* for /bin/sh -c; must outlive it */
    int timeout_ms;
    bool breaker; /* only the gate's breaker is told; WANE_BREAKER and WANE_BREAKER_RECENT say how it is */
    atomic_int wakes;
};
/* Done when it exits with 0. Killed, with all that it started in its group, when its time is over. */
enum wane__hook_result wane__command_send(void *command, const struct wane__hook *hook,
                                          const struct wane__hook_message *message, char why[200]);

#endif
