/*
 * http_prepare.c - which steps of text preparation a request's texts go through, and that they go through them.
 *
 * Only what users wrote is prepared: a system's text is the operator's, an assistant's is the model's own and must come back to it
 * as it left. Refuses steps that the server does not let requests switch.
 */
#include "server/http.h"

#include "core/error.h"
#include "core/memory.h"

#include <stdio.h>
#include <string.h>

int wane__server_set_prepare(struct wane_server *server, const wane_server_options *options,
                             wane_error *error) {
    if ((options->prepare | options->request_prepare) & ~WANE_PREPARE_ALL)
        return wane__fail(error, WANE_EINVAL, "prepare: there is no such step of text preparation");
    server->prepare = options->prepare;
    server->request_prepare = options->request_prepare;
    return WANE_OK;
}

static const char *list_steps(unsigned steps, char *out, size_t room) {
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < WANE_PREPARE_STEPS && used < room; i++)
        if ((steps & 1u << i) != 0)
            used +=
                (size_t)snprintf(out + used, room - used, "%s%s", used > 0 ? ", " : "", wane_prepare_name(i));
    return out;
}

/* The request's wish, by field or else by header. */
static bool read_wish(struct wane__exchange *exchange, unsigned *steps) {
    const struct wane__call *call = &exchange->call;
    unsigned free_steps = exchange->server->request_prepare;
    const char *header = wane__http_header(exchange, "wane-prepare");
    char allowed[80];
    wane_error error = {0};
    if (call->says_prepare) {
        *steps = call->prepare;
    } else if (header == NULL) {
        return true;
    } else if (wane_prepare_from(header, steps, &error) != WANE_OK) {
        return wane__problem(&exchange->problem, WANE__PROBLEM_INVALID, "wane-prepare", "wane-prepare: %s",
                             error.text);
    }
    unsigned wrong = (*steps ^ exchange->server->prepare) & ~free_steps;
    if (wrong == 0) return true;
    int step = 0;
    while ((wrong & 1u << step) == 0) step++;
    return wane__problem(
        &exchange->problem, WANE__PROBLEM_INVALID, "wane_prepare",
        "wane_prepare: %s cannot be switched %s by a request; this server lets requests switch %s",
        wane_prepare_name(step), (*steps & 1u << step) != 0 ? "on" : "off",
        free_steps != 0 ? list_steps(free_steps, allowed, sizeof allowed) : "none");
}

static bool prepare_message(struct wane__exchange *exchange, size_t i) {
    struct wane__call *call = &exchange->call;
    const wane_message *message = &call->messages[i];
    wane_error error = {0};
    char *text;
    size_t size;
    int code = wane_text_prepare(message->content, message->content_size, exchange->prepare, &text, &size,
                                 &exchange->prepared, &error);
    if (code == WANE_OK && !wane__call_exchange_text(call, i, text, size)) {
        wane__free(text);
        code = wane__fail(&error, WANE_ENOMEM, "no memory for the prompt");
    }
    if (code == WANE_OK) return true;
    error.code = code;
    wane__problem_from(&exchange->problem, &error);
    return false;
}

bool wane__http_prepare(struct wane__exchange *exchange) {
    struct wane__call *call = &exchange->call;
    if (call->api == WANE__API_TEXT) return true; /* a text to be continued is nobody's message */
    unsigned steps = exchange->server->prepare;
    if (!read_wish(exchange, &steps)) return false;
    exchange->prepare = steps;
    for (size_t i = 0; i < call->message_count && steps != 0; i++)
        if (strcmp(call->messages[i].role, "user") == 0 && !prepare_message(exchange, i)) return false;
    return true;
}
