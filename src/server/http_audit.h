/*
 * http_audit.h - the server's side of the audit log: which record a request gets, and when. Nothing happens where the server has no log.
 *
 *     admit ─► begin ─► submitted ─► see … ─► done           each request to generate, on its own thread
 */
#ifndef WANE_SERVER_HTTP_AUDIT_H
#define WANE_SERVER_HTTP_AUDIT_H

#include "core/buf.h"
#include "ops/audit.h"
#include "server/ticket.h"

struct wane_server;
struct wane__exchange;

/* After the model was described, before the first request. */
int wane__server_open_audit(struct wane_server *server, const wane_audit_options *options, wane_error *error);
/* When the scheduler is gone, and with it every ticket. */
void wane__server_close_audit(struct wane_server *server);
/* A rollout took a step. */
void wane__server_audit_step(struct wane_server *server, const char *feature, bool forward, const char *why);
/* Are records being written? True without a log. `why` (may be NULL): the reason where they are not. */
bool wane__server_audit_fine(struct wane_server *server, char *why, size_t room);
/* … and are requests refused because they are not? */
bool wane__server_audit_stops(struct wane_server *server);

/* May it begin? False: `problem`. From here on it owes a record. */
bool wane__http_audit_admit(struct wane__exchange *exchange);
/* The call is parsed and still has its prompt. `watch` goes to the scheduler. */
void wane__http_audit_begin(struct wane__exchange *exchange, struct wane__watch *watch);
/* Whether the scheduler took it: then the ticket's end writes the record, and not this exchange's. */
void wane__http_audit_submitted(struct wane__exchange *exchange, bool accepted);
void wane__http_audit_see(struct wane__exchange *exchange, const wane_event *event);
/* The exchange is over, and its ticket is about to be freed. */
void wane__http_audit_done(struct wane__exchange *exchange, int status);

void wane__http_audit_metrics(struct wane_server *server, struct wane__buf *out);

#endif
