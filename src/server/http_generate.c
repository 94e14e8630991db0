/*
 * http_generate.c - from a body to a ticket, and from a ticket to a whole reply.
 *
 * Everything that can be refused is refused before the first byte of a reply, so that it can be a status; only then
 * does a stream begin. What goes wrong later on a stream is an event.
 */
#include "core/clock.h"
#include "model.h"
#include "server/http.h"
#include "server/http_rollout.h"
#include "server/route.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

/* Between two looks at the client's socket while nothing comes: how long a departed client can hold a sequence. */
#define LOOK_MS 25u

static bool read_deadline(struct wane__exchange *exchange) {
    const char *text = wane__http_header(exchange, "x-claude-timeout");
    if (text == NULL) return true;
    unsigned long long ms = 0;
    size_t digits = strspn(text, "0123456789");
    if (digits > 0 && digits <= 10 && text[digits] == '\0') sscanf(text, "%llu", &ms);
    if (ms >= 1 && ms <= UINT32_MAX) {
        exchange->call.generation.deadline_ms = (uint32_t)ms;
        return true;
    }
    return wane__problem(&exchange->problem, WANE__PROBLEM_INVALID, "X-Claude-Timeout",
                         "X-Claude-Timeout: \"%.40s\" is not allowed; it must be milliseconds from 1 to %u",
                         text, UINT32_MAX);
}

/* What a trace files it under, where the body does not say. */
static bool read_kind(struct wane__exchange *exchange) {
    struct wane__call *call = &exchange->call;
    const char *text = wane__http_header(exchange, "wane-kind");
    if (text == NULL || call->kind >= 0) return true;
    call->kind = wane_kind_from(text);
    if (call->kind >= 0) return true;
    return wane__problem(&exchange->problem, WANE__PROBLEM_INVALID, "wane-kind",
                         "wane-kind: \"%.40s\" is not allowed; it must be single, multi, code or summary",
                         text);
}

/* Guessed only where somebody will read it. */
static int kind_of(const struct wane__exchange *exchange) {
    const struct wane__call *call = &exchange->call;
    if (call->kind >= 0) return call->kind;
    if (exchange->server->model->rows.recorder == NULL) return WANE_KIND_SINGLE;
    if (call->api != WANE__API_TEXT) return wane_kind_guess(call->messages, call->message_count);
    wane_message prompt = {"user", call->prompt, call->prompt_size};
    return wane_kind_guess(&prompt, call->prompt != NULL);
}

static void make_reply_id(struct wane__exchange *exchange, const char *prefix) {
    unsigned char bytes[12];
    char hex[2 * sizeof bytes + 1];
    randombytes_buf(bytes, sizeof bytes);
    sodium_bin2hex(hex, sizeof hex, bytes, sizeof bytes);
    snprintf(exchange->reply_id, sizeof exchange->reply_id, "%s%s", prefix, hex);
    exchange->created = time(NULL);
}

static void choose_dialect(struct wane__exchange *exchange) {
    if (exchange->call.api == WANE__API_CHAT) {
        exchange->dialect = &wane__chat_dialect;
        make_reply_id(exchange, "chatcmpl-");
    } else if (exchange->call.api == WANE__API_TEXT) {
        exchange->dialect = &wane__text_dialect;
        make_reply_id(exchange, "cmpl-");
    } else {
        exchange->dialect = &wane__anthropic_dialect;
        make_reply_id(exchange, "msg_");
    }
}

static bool parse(struct wane__exchange *exchange, wane_tokens *tokens) {
    struct wane_server *server = exchange->server;
    struct wane__call *call = &exchange->call;
    exchange->has_call = true;
    bool fine = wane__call_parse(call, exchange->route->api, exchange->body.data, exchange->body.size,
                                 &server->defaults, &exchange->problem);
    wane__buf_free(&exchange->body);
    if (fine)
        fine = wane__route_check_model(exchange, call->model, exchange->shape) && read_deadline(exchange) &&
               read_kind(exchange) && wane__http_quality(exchange) && wane__http_prepare(exchange) &&
               wane__http_trace(exchange);
    if (fine) wane__metrics_policy(&server->metrics, &call->ssp, exchange->prepare, &exchange->prepared);
    if (fine && call->dropped_blocks > 0) wane__metrics_dropped(&server->metrics, call->dropped_blocks);
    return fine && wane__call_tokenize(call, server->model, tokens, &exchange->problem);
}

static bool submit(struct wane__exchange *exchange, const wane_tokens *tokens) {
    struct wane_server *server = exchange->server;
    wane_error error = {0};
    struct wane__watch watch;
    exchange->call.generation.tenant = exchange->key.tenant;
    exchange->call.generation.id = exchange->reply_id;
    exchange->call.generation.kind = kind_of(exchange);
    wane__http_rollout_take(exchange);
    wane__http_audit_begin(exchange, &watch);
    int code = wane__scheduler_submit(server->scheduler, tokens->id, tokens->count,
                                      &exchange->call.generation, &watch, &exchange->ticket, &error);
    wane__http_audit_submitted(exchange, code == WANE_OK);
    if (code == WANE_OK) {
        atomic_fetch_add(&server->replies, 1);
        wane__http_rollout_count(exchange);
        return true;
    }
    exchange->ticket = NULL;
    error.code = code;
    wane__problem_from(&exchange->problem, &error);
    return false;
}

void wane__http_note(struct wane__exchange *exchange, const wane_event *event) {
    if (event->kind != WANE_EVENT_TEXT) {
        exchange->prompt_tokens = event->prompt_tokens;
        exchange->reused_tokens = event->reused_tokens;
    }
    if (event->kind != WANE_EVENT_START) exchange->reply_tokens = event->reply_tokens;
    if (event->kind == WANE_EVENT_END) wane__metrics_reply(&exchange->server->metrics, event);
    if (event->kind == WANE_EVENT_END) wane__http_live_reply(exchange->server, event);
    wane__http_keep(exchange, event);
    wane__http_repeat_see(exchange, event);
    wane__http_audit_see(exchange, event);
    wane__http_ab_see(exchange, event);
}

enum wane__wait wane__http_wait(struct wane__exchange *exchange, uint32_t silence_ms, wane_event *event) {
    double start = wane__now();
    for (;;) {
        wane_error error = {0};
        bool ended = false;
        uint32_t wait_ms = silence_ms < LOOK_MS ? silence_ms : LOOK_MS;
        int code = wane_ticket_next(exchange->ticket, wait_ms, event, &ended, &error);
        if (code != WANE_OK && (code != WANE_ETIMEOUT || ended)) {
            error.code = code;
            wane__problem_from(&exchange->problem, &error);
            return WANE__WAIT_FAILED;
        }
        double now = wane__now();
        if (now - exchange->looked >= LOOK_MS / 1000.0) {
            exchange->looked = now;
            if (wane__http_is_gone(exchange)) {
                wane_ticket_cancel(exchange->ticket);
                exchange->gone = true;
                return WANE__WAIT_GONE;
            }
        }
        if (code == WANE_OK) {
            wane__http_note(exchange, event);
            return WANE__WAIT_EVENT;
        }
        if (silence_ms != UINT32_MAX && (now - start) * 1000 >= silence_ms) return WANE__WAIT_SILENT;
    }
}

/* The whole reply at once. */
static enum MHD_Result reply_whole(struct wane__exchange *exchange) {
    wane_event event = {0};
    enum wane__wait wait;
    do {
        wait = wane__http_wait(exchange, UINT32_MAX, &event);
        if (wait == WANE__WAIT_EVENT && event.kind == WANE_EVENT_TEXT)
            exchange->dialect->gather(exchange, &event);
    } while (wait == WANE__WAIT_EVENT && event.kind != WANE_EVENT_END);
    if (wait == WANE__WAIT_GONE) return MHD_NO;
    if (wait == WANE__WAIT_FAILED) return wane__http_refuse(exchange);
    wane__buf_append(&exchange->text, event.text, event.text_size);
    exchange->dialect->whole(exchange, &event);
    return wane__http_send(exchange, MHD_HTTP_OK, "application/json");
}

static enum MHD_Result reply_count(struct wane__exchange *exchange, size_t count) {
    wane__buf_format(&exchange->out, "{\"input_tokens\":%zu}", count);
    return wane__http_send(exchange, MHD_HTTP_OK, "application/json");
}

enum MHD_Result wane__http_generate(struct wane__exchange *exchange) {
    wane_tokens tokens = {0};
    enum MHD_Result result;
    if (exchange->route->api != WANE__API_COUNT && !wane__http_audit_admit(exchange))
        return wane__http_refuse(exchange);
    wane__http_pause_timeout(exchange); /* a long prompt takes its time already here */
    bool fine = parse(exchange, &tokens);
    size_t count = tokens.count;
    if (fine && exchange->call.api != WANE__API_COUNT) {
        exchange->prompt_tokens = (int)count;
        choose_dialect(exchange);
        fine = submit(exchange, &tokens);
    }
    wane_tokens_free(&tokens);
    if (fine) {
        wane__http_keep_prompt(exchange);
        if (exchange->call.api != WANE__API_COUNT) wane__http_repeat_begin(exchange);
    }
    if (exchange->has_call) wane__call_drop_prompt(&exchange->call);
    if (!fine) {
        result = wane__http_refuse(exchange);
    } else if (exchange->call.api == WANE__API_COUNT) {
        result = reply_count(exchange, count);
    } else {
        result = exchange->call.stream ? wane__sse_start(exchange) : reply_whole(exchange);
    }
    wane__http_resume_timeout(exchange);
    return result;
}
