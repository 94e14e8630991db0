/*
 * http_rollout.h - the server's rollout: each request's side, the thread that judges, the route, the metrics; and answers to questions
 * that come again.
 */
#ifndef WANE_SERVER_HTTP_ROLLOUT_H
#define WANE_SERVER_HTTP_ROLLOUT_H

#include "server/http.h"

/* Open the file and begin to judge. Where the options name none, nothing happens here, nor in the functions below. */
int wane__server_open_rollout(struct wane_server *server, const wane_server_options *options,
                              wane_error *error);
/* Writes what was seen. While scheduler and model are still there. */
void wane__server_close_rollout(struct wane_server *server);
/* A breaker switched the feature off: its rollout steps back at once. `why` in a few words. Any thread. */
bool wane__server_rollout_break(struct wane_server *server, int feature, const char *why);

/* The parsed call's side, before it is submitted: the generation is decoded without what it does not have. */
void wane__http_rollout_take(struct wane__exchange *exchange);
/* It was accepted. */
void wane__http_rollout_count(struct wane__exchange *exchange);
/* The call still has its prompt: was its question asked before? Later, an event came. */
void wane__http_repeat_begin(struct wane__exchange *exchange);
void wane__http_repeat_see(struct wane__exchange *exchange, const wane_event *event);

/* GET: the state. POST {"do":"start|advance|back|abort","feature":"table"}: for an operator. */
enum MHD_Result wane__http_rollout(struct wane__exchange *exchange);
enum MHD_Result wane__http_rollout_order(struct wane__exchange *exchange);
void wane__http_rollout_metrics(struct wane_server *server, struct wane__buf *out);
/* For the dashboard: the stage of each feature, 0 where nobody has it or there is no plan for it; and what the metrics tell, as JSON. */
void wane__http_rollout_stages(struct wane_server *server, double stage[WANE_FEATURES]);
void wane__http_rollout_live(struct wane_server *server, struct wane__buf *out);

#endif
