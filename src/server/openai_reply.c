/*
 * openai_reply.c - writes replies as the Chat Completions and the older Completions API do.
 *
 * A streamed and a whole reply are made of the same parts: head, one choice, usage. Logprobs are written token by token
 * into `lists`, which a stream empties into each chunk and a whole reply once at the end.
 */
#include "server/http.h"
#include "server/json.h"

#include <string.h>

#define MAX_TOKEN_BYTES 1024

static bool is_chat(const struct wane__exchange *x) {
    return x->call.api == WANE__API_CHAT;
}

static const char *finish_reason(wane_finish finish) {
    if (finish == WANE_FINISH_FUSE)
        return "content_filter"; /* what clients know of a reply that was not let go on */
    return finish == WANE_FINISH_LENGTH || finish == WANE_FINISH_CONTEXT ? "length" : "stop";
}

/* {"id":…,"choices":[ - the same for each chunk, so written once. */
static void make_head(struct wane__exchange *x, const char *object) {
    const char *name = wane_model_get_facts(x->server->model)->name;
    wane__buf_clear(&x->head);
    wane__buf_format(&x->head, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", x->reply_id,
                     object, (long long)x->created);
    wane__json_string(&x->head, name, strlen(name));
    wane__buf_format(&x->head, ",\"system_fingerprint\":\"%s\",\"choices\":[", x->server->fingerprint);
}

static void put_head(struct wane__exchange *x) {
    wane__buf_append(&x->out, x->head.data, x->head.size);
}

static void put_usage(struct wane__exchange *x) {
    wane__buf_format(&x->out,
                     "\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d,"
                     "\"prompt_tokens_details\":{\"cached_tokens\":%d}}",
                     x->prompt_tokens, x->reply_tokens, x->prompt_tokens + x->reply_tokens, x->reused_tokens);
}

/* ---------------------------------------------------------------- logprobs */

struct token_text {
    char bytes[MAX_TOKEN_BYTES];
    size_t size;
    bool is_control; /* `bytes` is its name, not text */
    bool is_text;    /* whole characters */
};

static void read_token(const struct wane__exchange *x, int32_t token, struct token_text *text) {
    int size = wane_token_bytes(x->server->model, token, false, text->bytes, sizeof text->bytes);
    text->is_control = size == 0;
    if (size == 0) size = wane_token_bytes(x->server->model, token, true, text->bytes, sizeof text->bytes);
    text->size = size > 0 ? (size_t)size : 0;
    size_t at = 0;
    for (int step; at < text->size && (step = wane__json_utf8(text->bytes + at, text->size - at)) > 0;) {
        at += (size_t)step;
    }
    text->is_text = at == text->size;
}

/* A token that is part of a character is written as its bytes, \xe2\x82, since no string can hold it. */
static void put_token(const struct token_text *text, const char *mark, struct wane__buf *out) {
    if (text->is_text) {
        wane__json_string(out, text->bytes, text->size);
        return;
    }
    wane__buf_format(out, "\"%s", mark);
    for (size_t i = 0; i < text->size; i++) wane__buf_format(out, "\\\\x%02x", (unsigned char)text->bytes[i]);
    wane__buf_text(out, "\"");
}

static void put_comma(struct wane__buf *out) {
    if (out->size > 0) wane__buf_text(out, ",");
}

/* {"token":…,"logprob":…,"bytes":[…] - left open. */
static void put_chat_token(const struct wane__exchange *x, int32_t token, float logprob,
                           struct wane__buf *out) {
    struct token_text text;
    read_token(x, token, &text);
    wane__buf_text(out, "{\"token\":");
    put_token(&text, "", out);
    wane__buf_text(out, ",\"logprob\":");
    wane__json_number(out, logprob);
    if (text.is_control) {
        wane__buf_text(out, ",\"bytes\":null");
        return;
    }
    wane__buf_text(out, ",\"bytes\":[");
    for (size_t i = 0; i < text.size; i++) {
        wane__buf_format(out, i ? ",%u" : "%u", (unsigned)(unsigned char)text.bytes[i]);
    }
    wane__buf_text(out, "]");
}

static void add_chat_logprob(struct wane__exchange *x, const wane_event *event) {
    struct wane__buf *out = &x->lists[0];
    put_comma(out);
    put_chat_token(x, event->token, event->logprob, out);
    wane__buf_text(out, ",\"top_logprobs\":[");
    for (int i = 0; i < event->top_count; i++) {
        if (i > 0) wane__buf_text(out, ",");
        put_chat_token(x, event->top[i].token, event->top[i].logprob, out);
        wane__buf_text(out, "}");
    }
    wane__buf_text(out, "]}");
}

static void put_pair(const struct wane__exchange *x, int32_t token, float logprob, bool first,
                     struct wane__buf *out) {
    struct token_text text;
    read_token(x, token, &text);
    if (!first) wane__buf_text(out, ",");
    put_token(&text, "bytes:", out);
    wane__buf_text(out, ":");
    wane__json_number(out, logprob);
}

/* The older form: four lists side by side. */
static void add_text_logprob(struct wane__exchange *x, const wane_event *event) {
    struct token_text text;
    read_token(x, event->token, &text);
    for (int i = 0; i < 4; i++) put_comma(&x->lists[i]);
    put_token(&text, "bytes:", &x->lists[0]);
    wane__json_number(&x->lists[1], event->logprob);
    bool has_own = false;
    wane__buf_text(&x->lists[2], "{");
    for (int i = 0; i < event->top_count; i++) {
        put_pair(x, event->top[i].token, event->top[i].logprob, i == 0, &x->lists[2]);
        has_own = has_own || event->top[i].token == event->token;
    }
    if (!has_own) put_pair(x, event->token, event->logprob, event->top_count == 0, &x->lists[2]);
    wane__buf_text(&x->lists[2], "}");
    wane__buf_format(&x->lists[3], "%zu", x->text_offset);
    for (size_t i = 0; i < text.size && !text.is_control; i++) {
        x->text_offset += ((unsigned char)text.bytes[i] & 0xc0) != 0x80; /* a character's first byte */
    }
}

static void add_logprob(struct wane__exchange *x, const wane_event *event) {
    if (!x->call.wants_logprobs || !event->has_logprob || event->token < 0) return;
    if (is_chat(x)) {
        add_chat_logprob(x, event);
    } else {
        add_text_logprob(x, event);
    }
}

static void put_list(struct wane__exchange *x, const char *name, struct wane__buf *list) {
    wane__buf_format(&x->out, "\"%s\":[", name);
    wane__buf_append(&x->out, list->data, list->size);
    wane__buf_text(&x->out, "]");
    wane__buf_clear(list);
}

/* "logprobs":… and empties the lists; null where none were asked for or this piece of text has no token. */
static void put_logprobs(struct wane__exchange *x, bool streamed) {
    bool none = !x->call.wants_logprobs || (streamed && x->lists[0].size == 0);
    if (none) {
        wane__buf_text(&x->out, ",\"logprobs\":null");
        return;
    }
    wane__buf_text(&x->out, ",\"logprobs\":{");
    if (is_chat(x)) {
        put_list(x, "content", &x->lists[0]);
        wane__buf_text(&x->out, ",\"refusal\":null}");
        return;
    }
    static const char *const names[4] = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};
    for (int i = 0; i < 4; i++) {
        if (i > 0) wane__buf_text(&x->out, ",");
        put_list(x, names[i], &x->lists[i]);
    }
    wane__buf_text(&x->out, "}");
}

/* ----------------------------------------------------------------- streams */

/* The end of each chunk's object; OpenAI sends a null usage on all but the last when usage was asked for. */
static void end_chunk(struct wane__exchange *x, const wane_event *event) {
    wane__buf_text(&x->out, x->call.include_usage ? "],\"usage\":null" : "]");
    if (event != NULL && event->kind == WANE_EVENT_END)
        wane__http_put_wane(x, event, &x->out);
    else
        wane__http_put_token(x, event, &x->out);
    wane__buf_text(&x->out, "}\n\n");
}

static void put_chunk(struct wane__exchange *x, const char *text, size_t size, const char *finish,
                      const wane_event *event) {
    wane__buf_text(&x->out, "data: ");
    put_head(x);
    wane__buf_text(&x->out, is_chat(x) ? "{\"index\":0,\"delta\":{" : "{\"index\":0,");
    if (!is_chat(x) || finish == NULL) {
        wane__buf_text(&x->out, is_chat(x) ? "\"content\":" : "\"text\":");
        wane__json_string(&x->out, size ? text : "", size);
    }
    if (is_chat(x)) wane__buf_text(&x->out, "}");
    put_logprobs(x, true);
    wane__buf_text(&x->out, ",\"finish_reason\":");
    if (finish != NULL) wane__buf_format(&x->out, "\"%s\"}", finish);
    if (finish == NULL) wane__buf_text(&x->out, "null}");
    end_chunk(x, event);
}

static void open_chat(struct wane__exchange *x) {
    make_head(x, "chat.completion.chunk");
    wane__buf_text(&x->out, "data: ");
    put_head(x);
    wane__buf_text(&x->out,
                   "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null},"
                   "\"logprobs\":null,\"finish_reason\":null}");
    end_chunk(x, NULL);
}

/* There is no first chunk in the older API: a comment makes the headers leave. */
static void open_text(struct wane__exchange *x) {
    make_head(x, "text_completion");
    wane__buf_text(&x->out, ": open\n\n");
}

static void put_delta(struct wane__exchange *x, const wane_event *event) {
    if (event->kind == WANE_EVENT_TEXT) add_logprob(x, event);
    const wane_event *seen = event->view != NULL ? event : NULL;
    if (event->text_size > 0 || x->lists[0].size > 0 || seen != NULL)
        put_chunk(x, event->text, event->text_size, NULL, seen);
}

static void close_stream(struct wane__exchange *x, const wane_event *end) {
    put_chunk(x, NULL, 0, finish_reason(end->finish), end);
    if (x->call.include_usage) {
        wane__buf_text(&x->out, "data: ");
        put_head(x);
        wane__buf_text(&x->out, "],");
        put_usage(x);
        wane__buf_text(&x->out, "}\n\n");
    }
    wane__buf_text(&x->out, "data: [DONE]\n\n");
}

static void fail_stream(struct wane__exchange *x) {
    wane__buf_text(&x->out, "data: ");
    wane__problem_body(&x->problem, WANE__SHAPE_OPENAI, x->request_id, &x->out);
    wane__buf_text(&x->out, "\n\n");
}

/* ----------------------------------------------------------- whole replies */

static void gather(struct wane__exchange *x, const wane_event *event) {
    wane__buf_append(&x->text, event->text, event->text_size);
    add_logprob(x, event);
}

static void put_whole(struct wane__exchange *x, const wane_event *end) {
    make_head(x, is_chat(x) ? "chat.completion" : "text_completion");
    put_head(x);
    wane__buf_text(&x->out, is_chat(x) ? "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":"
                                       : "{\"index\":0,\"text\":");
    wane__json_string(&x->out, x->text.size ? x->text.data : "", x->text.size);
    if (is_chat(x)) wane__buf_text(&x->out, ",\"refusal\":null}");
    put_logprobs(x, false);
    wane__buf_format(&x->out, ",\"finish_reason\":\"%s\"}],", finish_reason(end->finish));
    put_usage(x);
    wane__http_put_wane(x, end, &x->out);
    wane__buf_text(&x->out, "}");
}

const struct wane__dialect wane__chat_dialect = {
    .ping = ": ping\n\n",
    .open = open_chat,
    .delta = put_delta,
    .close = close_stream,
    .fail = fail_stream,
    .gather = gather,
    .whole = put_whole,
};

const struct wane__dialect wane__text_dialect = {
    .ping = ": ping\n\n",
    .open = open_text,
    .delta = put_delta,
    .close = close_stream,
    .fail = fail_stream,
    .gather = gather,
    .whole = put_whole,
};
