/*
 * http_trace.c - owns `wane-trace: 1`: a request that asks is told with each token how it was decided. docs/events.md specifies it,
 * docs/events.schema.json says the same to programs.
 *
 * Nothing is computed for a request that does not ask; what is asked for is written on the request's own thread.
 */
#include "server/http.h"
#include "server/json.h"

#include <math.h>
#include <string.h>

#define TOKEN_BYTES_MOST 1024

bool wane__http_trace(struct wane__exchange *exchange) {
    struct wane__call *call = &exchange->call;
    const char *text = wane__http_header(exchange, "wane-trace");
    bool wanted = call->trace;
    if (text != NULL && !wanted) {
        wanted = strcmp(text, "1") == 0;
        if (!wanted && strcmp(text, "0") != 0)
            return wane__problem(&exchange->problem, WANE__PROBLEM_INVALID, "wane-trace",
                                 "wane-trace: \"%.40s\" is not allowed; it must be 0 or 1", text);
    }
    call->generation.view = wanted && call->stream; /* a whole reply has no tokens to say it of */
    return true;
}

static void put_real(struct wane__buf *out, const char *name, double value, const char *format) {
    wane__buf_format(out, ",\"%s\":", name);
    if (isfinite(value))
        wane__buf_format(out, format, value); /* NOLINT: a literal of this file */
    else
        wane__buf_text(out, "null");
}

static void put_flag(struct wane__buf *out, const char *name, bool value) {
    wane__buf_format(out, ",\"%s\":%s", name, value ? "true" : "false");
}

/* `"id":…,"text":…`, and the bytes where they are not whole characters. A control token has its name. */
static void put_id(const wane_model *model, int32_t token, struct wane__buf *out) {
    char bytes[TOKEN_BYTES_MOST];
    int size = wane_token_bytes(model, token, true, bytes, sizeof bytes), at = 0;
    if (size < 0) size = 0;
    for (int step; at < size && (step = wane__json_utf8(bytes + at, (size_t)(size - at))) > 0;) at += step;
    wane__buf_format(out, "\"id\":%d,\"text\":", token);
    wane__json_string(out, bytes, (size_t)size);
    if (at == size) return;
    wane__buf_text(out, ",\"bytes\":[");
    for (int i = 0; i < size; i++)
        wane__buf_format(out, i > 0 ? ",%u" : "%u", (unsigned)(unsigned char)bytes[i]);
    wane__buf_text(out, "]");
}

static void put_gate(const wane_view *view, struct wane__buf *out) {
    if (!view->judged) {
        wane__buf_text(out, ",\"gate\":null");
        return;
    }
    wane__buf_format(out, ",\"gate\":{\"pass\":%s", view->reject ? "false" : "true");
    put_real(out, "lch", (double)view->odds, "%.4g");
    put_real(out, "tau", (double)view->tau, "%.4g");
    wane__buf_text(out, ",\"reason\":");
    wane__buf_format(out, view->reject ? "\"%s\"" : "null", wane_wake_name(view->reason));
    put_flag(out, "woke", view->woke);
    wane__buf_text(out, "}");
}

static void put_best(const wane_model *model, const wane_view *view, struct wane__buf *out) {
    wane__buf_text(out, ",\"top\":[");
    for (int i = 0; i < view->top_count; i++) {
        wane__buf_text(out, i > 0 ? ",{" : "{");
        put_id(model, view->top[i].token, out);
        put_real(out, "logit", (double)view->top[i].logit, "%.6g");
        put_real(out, "p", (double)view->top[i].share, "%.4g");
        wane__buf_text(out, "}");
    }
    wane__buf_text(out, "]");
}

void wane__http_put_token(const struct wane__exchange *exchange, const wane_event *event,
                          struct wane__buf *out) {
    static const char *const tables[] = {"null", "\"miss\"", "\"rank\"", "\"strict\""};
    const wane_model *model = exchange->server->model;
    const wane_view *view = event != NULL ? event->view : NULL;
    if (view == NULL) return;
    wane__buf_format(out, ",\"wane\":{\"token\":{\"index\":%d,", view->index);
    put_id(model, event->token, out);
    wane__buf_format(out, ",\"by\":\"%s\",\"head\":\"%s\",\"table\":%s", wane_by_name(wane_event_by(event)),
                     wane_by_name(view->head), tables[view->table]);
    put_flag(out, "drafted", event->drafted);
    put_flag(out, "checked", view->checked);
    put_flag(out, "changed", view->changed);
    put_flag(out, "redrawn", view->redrawn);
    wane__buf_format(out, ",\"vocabulary\":%d,\"survivors\":[%u,%u],\"computed\":%u", view->vocab_size,
                     view->survivors1, view->survivors2, view->rescored);
    put_gate(view, out);
    wane__buf_text(out, ",\"state\":");
    wane__buf_format(out, view->state >= 0 ? "\"%s\"" : "null", wane_state_name(view->state));
    put_real(out, "entropy", (double)view->entropy, "%.4g");
    put_real(out, "layer_ms", (double)view->layer_ms, "%.4g");
    put_real(out, "ms", (double)view->ms, "%.4g");
    put_best(model, view, out);
    wane__buf_text(out, "}}");
}
