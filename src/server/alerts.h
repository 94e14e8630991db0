/*
 * alerts.h - a server's board of alerts, the thread that looks at what it watches, and the hooks that are told.
 *
 *     model, scheduler ─► look (a thread, and whoever asks) ─► board ─► log, hooks: URL, command, the breaker's command
 *     audit, rollout ──────────────────────────────────────────┘  └──► what steps back when a feature breaks
 */
#ifndef WANE_SERVER_ALERTS_H
#define WANE_SERVER_ALERTS_H

#include "ops/alert_board.h"
#include "server/http.h"

struct wane__alerts;

/* Board and hooks; `options` may be NULL. Before the scheduler. */
int wane__server_open_alerts(struct wane_server *server, const wane_alert_options *options,
                             wane_error *error);
/* Begin to look; when the scheduler is there. */
int wane__server_watch(struct wane_server *server, wane_error *error);
/* No look any more: before anything goes that is looked at, or that steps back on a break. The board and the hooks stay. */
void wane__server_unwatch(struct wane_server *server);
/* When nobody raises alerts any more. What waits gets a moment to go out. */
void wane__server_close_alerts(struct wane_server *server);
/* For others who raise alerts, and who step back on a break. NULL before it is opened. */
struct wane__board *wane__server_board(struct wane_server *server);

/* See how things stand, now. Any thread. */
void wane__alerts_look(struct wane_server *server);
/* Why the server is not ready because of what is watched; false: it is not because of that. */
bool wane__alerts_unready(struct wane_server *server, char *why, size_t room);

/* http_alerts.c */
enum MHD_Result wane__http_alerts(struct wane__exchange *exchange);
enum MHD_Result wane__http_arm(struct wane__exchange *exchange);
void wane__http_alert_metrics(struct wane_server *server, struct wane__buf *out);

/* From within. */
#define WANE__ALERT_HOOKS 3
struct wane__hook;
/* NULL: there is none; `target` may be logged. */
struct wane__hook *wane__alerts_hook(struct wane_server *server, int which, const char **target);

#endif
