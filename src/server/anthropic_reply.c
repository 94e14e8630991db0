/*
 * anthropic_reply.c - writes replies as the Messages API does.
 *
 *     message_start · content_block_start · ping · content_block_delta… · content_block_stop · message_delta · message_stop
 *
 * `input_tokens` is the whole prompt, equal to what count_tokens says. What wane kept from earlier requests stands in
 * the metrics: the cache fields of this API are about prices, and stay 0.
 */
#include "server/http.h"
#include "server/json.h"

#include <string.h>

static const char ping[] = "event: ping\ndata: {\"type\":\"ping\"}\n\n";

static const char *stop_reason(wane_finish finish) {
    switch (finish) {
    case WANE_FINISH_STOP: return "stop_sequence";
    case WANE_FINISH_LENGTH: return "max_tokens";
    case WANE_FINISH_CONTEXT: return "model_context_window_exceeded";
    case WANE_FINISH_FUSE: return "refusal"; /* what clients know of a reply that was not let go on */
    case WANE_FINISH_END:
    case WANE_FINISH_NONE: break;
    }
    return "end_turn";
}

static void put_usage(const struct wane__exchange *x, int output_tokens, struct wane__buf *out) {
    wane__buf_format(out,
                     "\"usage\":{\"input_tokens\":%d,\"cache_creation_input_tokens\":0,"
                     "\"cache_read_input_tokens\":0,\"output_tokens\":%d}",
                     x->prompt_tokens, output_tokens);
}

static void put_stop(const wane_event *end, struct wane__buf *out) {
    wane__buf_format(out, "\"stop_reason\":\"%s\",\"stop_sequence\":", stop_reason(end->finish));
    if (end->finish == WANE_FINISH_STOP && end->stop != NULL) {
        wane__json_string(out, end->stop, strlen(end->stop));
    } else {
        wane__buf_text(out, "null");
    }
}

static void put_message_head(const struct wane__exchange *x, struct wane__buf *out) {
    const char *name = wane_model_get_facts(x->server->model)->name;
    wane__buf_format(out,
                     "{\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", x->reply_id);
    wane__json_string(out, name, strlen(name));
    wane__buf_text(out, ",\"content\":[");
}

static void open_stream(struct wane__exchange *x) {
    wane__buf_text(&x->out, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":");
    put_message_head(x, &x->out);
    wane__buf_text(&x->out, "],\"stop_reason\":null,\"stop_sequence\":null,");
    put_usage(x, 0, &x->out);
    wane__buf_text(&x->out,
                   "}}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,"
                   "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n");
    wane__buf_text(&x->out, ping);
}

static void put_delta(struct wane__exchange *x, const wane_event *event) {
    if (event->text_size == 0 && event->view == NULL) return;
    wane__buf_text(&x->out, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,"
                            "\"delta\":{\"type\":\"text_delta\",\"text\":");
    wane__json_string(&x->out, event->text_size > 0 ? event->text : "", event->text_size);
    wane__buf_text(&x->out, "}");
    wane__http_put_token(x, event, &x->out);
    wane__buf_text(&x->out, "}\n\n");
}

static void close_stream(struct wane__exchange *x, const wane_event *end) {
    wane__buf_text(&x->out,
                   "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
                   "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{");
    put_stop(end, &x->out);
    wane__buf_text(&x->out, "},");
    put_usage(x, end->reply_tokens, &x->out);
    wane__http_put_wane(x, end, &x->out);
    wane__buf_text(&x->out, "}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
}

static void fail_stream(struct wane__exchange *x) {
    wane__buf_text(&x->out, "event: error\ndata: ");
    wane__problem_body(&x->problem, WANE__SHAPE_ANTHROPIC, x->request_id, &x->out);
    wane__buf_text(&x->out, "\n\n");
}

static void gather(struct wane__exchange *x, const wane_event *event) {
    wane__buf_append(&x->text, event->text, event->text_size);
}

static void put_whole(struct wane__exchange *x, const wane_event *end) {
    put_message_head(x, &x->out);
    if (x->text.size > 0) {
        wane__buf_text(&x->out, "{\"type\":\"text\",\"text\":");
        wane__json_string(&x->out, x->text.data, x->text.size);
        wane__buf_text(&x->out, "}");
    } else {
        wane__buf_text(&x->out, "{\"type\":\"text\",\"text\":\"\"}"); /* as the streamed reply has it */
    }
    wane__buf_text(&x->out, "],");
    put_stop(end, &x->out);
    wane__buf_text(&x->out, ",");
    put_usage(x, end->reply_tokens, &x->out);
    wane__http_put_wane(x, end, &x->out);
    wane__buf_text(&x->out, "}");
}

const struct wane__dialect wane__anthropic_dialect = {
    .ping = ping,
    .open = open_stream,
    .delta = put_delta,
    .close = close_stream,
    .fail = fail_stream,
    .gather = gather,
    .whole = put_whole,
};
