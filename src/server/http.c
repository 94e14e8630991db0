/*
 * http.c - between libmicrohttpd and the routes: collects a body, checks size and key before reading it, sends replies.
 *
 * A request that is refused early still has its body read, and thrown away, so that the next request on the connection
 * finds its place; only a body that is far too large ends the connection. Every reply carries its request's id.
 */
#include "server/http.h"

#include "core/clock.h"
#include "core/memory.h"
#include "core/os.h"
#include "server/route.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Idle time, in seconds, after which a connection is closed: between requests, and with a client that takes nothing. */
#define IDLE_SECONDS 60u
/* A body must be complete after so many seconds: a byte a minute would else hold its thread for ever. */
#define BODY_SECONDS 120.0
/* So much beyond the limit is read and thrown away; more ends the connection. */
#define DISCARD_BYTES ((size_t)64 << 20)

const char *wane__http_header(const struct wane__exchange *exchange, const char *name) {
    return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

void wane__http_pause_timeout(const struct wane__exchange *exchange) {
    MHD_set_connection_option(exchange->connection, MHD_CONNECTION_OPTION_TIMEOUT, 0u);
}

/* From no timeout to one: this is what resets MHD's idle clock, which else counts the wait as the client's silence. */
void wane__http_resume_timeout(const struct wane__exchange *exchange) {
    MHD_set_connection_option(exchange->connection, MHD_CONNECTION_OPTION_TIMEOUT, IDLE_SECONDS);
}

bool wane__http_is_gone(const struct wane__exchange *exchange) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info == NULL) return true;
    return wane__os_peer_gone(info->connect_fd);
}

/* ----------------------------------------------------------------- replies */

static void add_headers(const struct wane__exchange *exchange, struct MHD_Response *response,
                        const char *type) {
    MHD_add_response_header(response, "content-type", type);
    MHD_add_response_header(response, "cache-control", "no-store");
    MHD_add_response_header(response, "request-id", exchange->request_id);
    MHD_add_response_header(response, "x-request-id", exchange->request_id);
    if (exchange->domain_note[0] != '\0')
        MHD_add_response_header(response, "wane-domain-mismatch", exchange->domain_note);
    if (exchange->side.header[0] != '\0')
        MHD_add_response_header(response, "wane-rollout", exchange->side.header);
    if (wane__http_ab_side(exchange) != NULL)
        MHD_add_response_header(response, "wane-governor-side", wane__http_ab_side(exchange));
}

enum MHD_Result wane__http_queue(struct wane__exchange *exchange, int status, struct MHD_Response *response) {
    exchange->status = status;
    enum MHD_Result result = MHD_queue_response(exchange->connection, (unsigned)status, response);
    MHD_destroy_response(response); /* our hold on it; the connection has its own */
    return result;
}

static struct MHD_Response *make_response(struct wane__exchange *exchange, const char *type) {
    if (exchange->out.failed) return NULL;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(exchange->out.size, exchange->out.data, MHD_RESPMEM_MUST_COPY);
    if (response != NULL) add_headers(exchange, response, type);
    return response;
}

enum MHD_Result wane__http_send(struct wane__exchange *exchange, int status, const char *type) {
    struct MHD_Response *response = make_response(exchange, type);
    return response ? wane__http_queue(exchange, status, response) : MHD_NO;
}

enum MHD_Result wane__http_refuse(struct wane__exchange *exchange) {
    const struct wane__problem *problem = &exchange->problem;
    wane__buf_clear(&exchange->out);
    wane__problem_body(problem, exchange->shape, exchange->request_id, &exchange->out);
    struct MHD_Response *response = make_response(exchange, "application/json");
    if (response == NULL) return MHD_NO;
    if (problem->kind == WANE__PROBLEM_METHOD) {
        MHD_add_response_header(response, "allow", exchange->route->allow);
    } else if (problem->kind == WANE__PROBLEM_AUTH) {
        MHD_add_response_header(response, "www-authenticate", "Bearer");
    } else if (problem->kind == WANE__PROBLEM_FULL) {
        MHD_add_response_header(response, "connection", "close");
        MHD_add_response_header(response, "retry-after", "1");
    } else if (problem->kind == WANE__PROBLEM_BUSY) {
        wane_scheduler_state state;
        char seconds[16];
        wane_scheduler_get_state(exchange->server->scheduler, &state);
        snprintf(seconds, sizeof seconds, "%u",
                 wane__metrics_retry_after(&exchange->server->metrics, &state));
        MHD_add_response_header(response, "retry-after", seconds);
    }
    return wane__http_queue(exchange, wane__problem_status(problem), response);
}

ssize_t wane__http_hand_out(struct wane__exchange *exchange, bool (*fill)(struct wane__exchange *exchange),
                            ssize_t end, char *buffer, size_t capacity) {
    if (exchange->sent == exchange->out.size) {
        wane__buf_clear(&exchange->out);
        exchange->sent = 0;
        wane__http_pause_timeout(exchange);
        bool there = fill(exchange);
        wane__http_resume_timeout(exchange);
        if (!there || exchange->out.failed) return end;
    }
    size_t left = exchange->out.size - exchange->sent;
    size_t size = left < capacity ? left : capacity;
    memcpy(buffer, exchange->out.data + exchange->sent, size);
    exchange->sent += size;
    return (ssize_t)size;
}

enum MHD_Result wane__http_stream(struct wane__exchange *exchange, MHD_ContentReaderCallback read) {
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, (size_t)16 << 10, read, exchange, NULL);
    if (response == NULL) return MHD_NO;
    add_headers(exchange, response, "text/event-stream; charset=utf-8");
    MHD_add_response_header(response, "x-accel-buffering", "no"); /* a proxy must not hold events back */
    return wane__http_queue(exchange, MHD_HTTP_OK, response);
}

/* ---------------------------------------------------------------- requests */

/* x-api-key, or Authorization: Bearer. */
static bool check_key(struct wane__exchange *exchange) {
    const struct wane__keys *keys = exchange->server->keys;
    exchange->key =
        (struct wane__key){.name = "", .tenant = "", .mode = -1, .admin = exchange->server->keyless_admin};
    if (keys == NULL || !exchange->route->needs_key) return true;
    const char *key = wane__http_header(exchange, "x-api-key");
    const char *authorization = wane__http_header(exchange, "authorization");
    if (key == NULL && authorization != NULL && strncasecmp(authorization, "Bearer ", 7) == 0) {
        key = authorization + 7;
        while (*key == ' ') key++;
    }
    if (key == NULL) {
        return wane__problem(&exchange->problem, WANE__PROBLEM_AUTH, NULL,
                             "no key: send it as x-api-key or as Authorization: Bearer");
    }
    if (wane__keys_find(keys, key, strlen(key), &exchange->key)) return true;
    return wane__problem(&exchange->problem, WANE__PROBLEM_AUTH, NULL, "this key is not known here");
}

static bool too_large(struct wane__exchange *exchange) {
    return wane__problem(&exchange->problem, WANE__PROBLEM_TOO_LARGE, NULL,
                         "the body is too large: at most %zu bytes are accepted", exchange->server->max_body);
}

/* A connection beyond the limit carries a mark; by now another may have closed. */
static bool check_connections(struct wane__exchange *exchange) {
    struct wane_server *server = exchange->server;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    bool marked = info != NULL && info->socket_context != NULL;
    bool state_route = !exchange->route->needs_key; /* health and ready must be heard most of all now */
    if (!marked || state_route || atomic_load(&server->connections) <= server->max_connections) return true;
    return wane__problem(&exchange->problem, WANE__PROBLEM_FULL, NULL,
                         "%d connections are open, which is the limit here; try again when one has closed",
                         server->max_connections);
}

void wane__http_connection(void *user, struct MHD_Connection *connection, void **mark,
                           enum MHD_ConnectionNotificationCode what) {
    (void)connection;
    struct wane_server *server = user;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        atomic_fetch_sub(&server->connections, 1);
    } else if (atomic_fetch_add(&server->connections, 1) >= server->max_connections) {
        *mark = server; /* any pointer but NULL */
    }
}

/* The declared size, 0 if there is none; MHD itself refuses what is not a number. */
static unsigned long long declared_size(const struct wane__exchange *exchange) {
    const char *text = wane__http_header(exchange, "content-length");
    return text ? strtoull(text, NULL, 10) : 0;
}

/* The headers are in. What is wrong already is kept for after the body, but for a body that is not worth reading. */
static enum MHD_Result begin(struct wane__exchange *exchange, const char *url, const char *method) {
    wane__route_find(exchange, url, method);
    size_t limit = exchange->server->max_body;
    unsigned long long size = declared_size(exchange);
    if (exchange->problem.kind == WANE__PROBLEM_NONE) check_key(exchange);
    if (exchange->problem.kind == WANE__PROBLEM_NONE) check_connections(exchange);
    if (exchange->problem.kind == WANE__PROBLEM_NONE && size > limit) too_large(exchange);
    bool hopeless = size > (unsigned long long)limit + DISCARD_BYTES;
    bool asks_first = size > limit && wane__http_header(exchange, "expect") != NULL;
    return hopeless || asks_first ? wane__http_refuse(exchange) : MHD_YES;
}

static enum MHD_Result collect(struct wane__exchange *exchange, const char *bytes, size_t size) {
    size_t limit = exchange->server->max_body;
    exchange->received += size;
    if (exchange->received > limit + DISCARD_BYTES) return MHD_NO;
    if (wane__now() - exchange->started > BODY_SECONDS) return MHD_NO;
    if (exchange->problem.kind != WANE__PROBLEM_NONE) return MHD_YES;
    if (exchange->received > limit) {
        too_large(exchange);
        wane__buf_free(&exchange->body);
        return MHD_YES;
    }
    if (!wane__buf_append(&exchange->body, bytes, size)) {
        wane__problem(&exchange->problem, WANE__PROBLEM_ENGINE, NULL, "no memory for the body");
    }
    return MHD_YES;
}

static struct wane__exchange *make_exchange(struct wane_server *server, struct MHD_Connection *connection) {
    struct wane__exchange *exchange = wane__alloc_zero(1, sizeof *exchange);
    if (exchange == NULL) return NULL;
    unsigned char bytes[12];
    char hex[2 * sizeof bytes + 1];
    randombytes_buf(bytes, sizeof bytes);
    sodium_bin2hex(hex, sizeof hex, bytes, sizeof bytes);
    exchange->server = server;
    exchange->connection = connection;
    exchange->started = wane__now();
    snprintf(exchange->request_id, sizeof exchange->request_id, "req_%s", hex);
    return exchange;
}

enum MHD_Result wane__http_access(void *server, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **slot) {
    (void)version;
    struct wane__exchange *exchange = *slot;
    if (exchange == NULL) {
        exchange = make_exchange(server, connection);
        if (exchange == NULL) return MHD_NO;
        *slot = exchange;
        return begin(exchange, url, method);
    }
    if (*upload_size > 0) {
        size_t size = *upload_size;
        *upload_size = 0;
        return collect(exchange, upload, size);
    }
    if (exchange->status != 0) return MHD_YES; /* answered at its headers */
    if (exchange->problem.kind != WANE__PROBLEM_NONE) return wane__http_refuse(exchange);
    return exchange->route->answer(exchange);
}

/* What a client sent may stand in a problem's text: in the log it stays on its line. */
static void make_plain(char *text) {
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) *text = ' ';
    }
}

static void free_exchange(struct wane__exchange *exchange) {
    wane_ticket_free(exchange->ticket);
    wane__http_live_leave(exchange);
    if (exchange->has_call) wane__call_free(&exchange->call);
    wane__buf_free(&exchange->body);
    wane__buf_free(&exchange->asked);
    wane__buf_free(&exchange->said);
    wane__buf_free(&exchange->earlier);
    wane__buf_free(&exchange->again);
    wane__buf_free(&exchange->ab_text);
    wane__buf_free(&exchange->text);
    wane__buf_free(&exchange->head);
    wane__buf_free(&exchange->out);
    for (int i = 0; i < 4; i++) wane__buf_free(&exchange->lists[i]);
    wane__free(exchange);
}

void wane__http_completed(void *server, struct MHD_Connection *connection, void **slot,
                          enum MHD_RequestTerminationCode how) {
    (void)server;
    (void)connection;
    struct wane__exchange *exchange = *slot;
    if (exchange == NULL) return;
    *slot = NULL;
    struct wane_server *owner = exchange->server;
    bool left = exchange->gone || exchange->status == 0 || how != MHD_REQUEST_TERMINATED_COMPLETED_OK;
    int status = left ? 499 : exchange->status;
    if (left) wane__metrics_disconnect(&owner->metrics);
    wane__metrics_request(&owner->metrics, wane__route_index(exchange->route), status);
    make_plain(exchange->problem.text);
    bool quiet = exchange->route->api == 0 && status < 400;
    wane__log(&owner->log, quiet ? WANE_LOG_DEBUG : WANE_LOG_INFO,
              "%s %s %d key=%s prompt=%d reused=%d reply=%d %.0f ms%s%s", exchange->request_id,
              exchange->route->path, status,
              exchange->key.name && exchange->key.name[0] ? exchange->key.name : "-", exchange->prompt_tokens,
              exchange->reused_tokens, exchange->reply_tokens, 1000 * (wane__now() - exchange->started),
              exchange->problem.kind ? ": " : "", exchange->problem.text);
    bool had_ticket = exchange->ticket != NULL;
    wane__http_audit_done(exchange, status);
    free_exchange(exchange);
    if (had_ticket) atomic_fetch_sub(&owner->replies, 1);
}
