/*
 * sse.c - the stream of one reply: events as they come, a ping into silence, an error as the last word.
 *
 * MHD asks for bytes on the connection's own thread; it blocks here until there are some. The first bytes are there
 * before the prompt is read, so headers leave at once. What has piled up goes out together.
 */
#include "core/clock.h"
#include "server/http.h"

#include <string.h>

/* Gather no more than this into one write: enough for any event but a long held text. */
#define GATHER_BYTES ((size_t)8 << 10)

static void take(struct wane__exchange *exchange, const wane_event *event) {
    if (event->kind == WANE_EVENT_TEXT) exchange->dialect->delta(exchange, event);
    if (event->kind != WANE_EVENT_END) return;
    if (event->text_size > 0) exchange->dialect->delta(exchange, event);
    exchange->dialect->close(exchange, event);
    exchange->over = true;
}

/* Put at least one byte into `out`. False: the client left. */
static bool fill(struct wane__exchange *exchange) {
    double start = wane__now();
    double ping_ms = exchange->server->ping_ms;
    while (!exchange->over && exchange->out.size < GATHER_BYTES) {
        wane_event event = {0};
        double left = ping_ms - 1000 * (wane__now() - start);
        uint32_t wait_ms = exchange->out.size > 0 || left <= 0 ? 0 : (uint32_t)left + 1;
        switch (wane__http_wait(exchange, wait_ms, &event)) {
        case WANE__WAIT_EVENT: take(exchange, &event); break;
        case WANE__WAIT_GONE: return false;
        case WANE__WAIT_FAILED:
            exchange->dialect->fail(exchange);
            exchange->over = true;
            break;
        case WANE__WAIT_SILENT:
            if (exchange->out.size > 0) return true;
            wane__buf_text(&exchange->out, exchange->dialect->ping);
            return true;
        }
    }
    return true;
}

static ssize_t read_stream(void *user, uint64_t position, char *buffer, size_t capacity) {
    struct wane__exchange *exchange = user;
    (void)position;
    if (exchange->sent == exchange->out.size && exchange->over) return MHD_CONTENT_READER_END_OF_STREAM;
    return wane__http_hand_out(exchange, fill, MHD_CONTENT_READER_END_WITH_ERROR, buffer, capacity);
}

enum MHD_Result wane__sse_start(struct wane__exchange *exchange) {
    exchange->dialect->open(exchange);
    return wane__http_stream(exchange, read_stream);
}
