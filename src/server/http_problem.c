/*
 * http_problem.c - the one table from a problem to a status and to each API's names for it.
 *
 * Owns no state. Clients switch on the status and on `type`, so a row here is a promise; docs/api.md lists them.
 */
#include "server/http_problem.h"

#include "server/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct wording {
    int status;
    const char *anthropic_type;
    const char *openai_type;
    const char *openai_code; /* NULL: null */
};

static const struct wording wordings[WANE__PROBLEM_KINDS] = {
    [WANE__PROBLEM_NONE] = {500, "api_error", "server_error", NULL},
    [WANE__PROBLEM_INVALID] = {400, "invalid_request_error", "invalid_request_error", NULL},
    [WANE__PROBLEM_CONTEXT] = {400, "invalid_request_error", "invalid_request_error",
                               "context_length_exceeded"},
    [WANE__PROBLEM_AUTH] = {401, "authentication_error", "invalid_request_error", "invalid_api_key"},
    [WANE__PROBLEM_RIGHT] = {403, "permission_error", "invalid_request_error", "admin_key_needed"},
    [WANE__PROBLEM_NO_ROUTE] = {404, "not_found_error", "invalid_request_error", "unknown_url"},
    [WANE__PROBLEM_NO_MODEL] = {404, "not_found_error", "invalid_request_error", "model_not_found"},
    [WANE__PROBLEM_NO_REPLY] = {404, "not_found_error", "invalid_request_error", "reply_not_found"},
    [WANE__PROBLEM_METHOD] = {405, "invalid_request_error", "invalid_request_error", "method_not_supported"},
    [WANE__PROBLEM_SLOW] = {408, "timeout_error", "invalid_request_error", "request_timeout"},
    [WANE__PROBLEM_TOO_LARGE] = {413, "request_too_large", "invalid_request_error", "request_too_large"},
    [WANE__PROBLEM_BUSY] = {429, "rate_limit_error", "rate_limit_error", "rate_limit_exceeded"},
    [WANE__PROBLEM_ENGINE] = {500, "api_error", "server_error", NULL},
    [WANE__PROBLEM_STOPPING] = {503, "overloaded_error", "server_error", "server_stopping"},
    [WANE__PROBLEM_FULL] = {503, "overloaded_error", "server_error", "too_many_connections"},
    [WANE__PROBLEM_AUDIT] = {503, "overloaded_error", "server_error", "audit_unavailable"},
    [WANE__PROBLEM_DEADLINE] = {504, "timeout_error", "server_error", "deadline_exceeded"},
};

bool wane__problem(struct wane__problem *problem, enum wane__problem_kind kind, const char *param,
                   const char *format, ...) {
    problem->kind = kind;
    snprintf(problem->param, sizeof problem->param, "%s", param ? param : "");
    va_list args;
    va_start(args, format);
    vsnprintf(problem->text, sizeof problem->text, format, args);
    va_end(args);
    return false;
}

void wane__problem_from(struct wane__problem *problem, const wane_error *error) {
    enum wane__problem_kind kind = WANE__PROBLEM_ENGINE;
    switch (error->code) {
    case WANE_EINVAL:
    case WANE_EFORMAT:
    case WANE_EUNSUPPORTED: kind = WANE__PROBLEM_INVALID; break;
    case WANE_ECONTEXT: kind = WANE__PROBLEM_CONTEXT; break;
    case WANE_EBUSY: kind = WANE__PROBLEM_BUSY; break;
    case WANE_ETIMEOUT: kind = WANE__PROBLEM_DEADLINE; break;
    case WANE_ESHUTDOWN: kind = WANE__PROBLEM_STOPPING; break;
    case WANE_EAUTH: kind = WANE__PROBLEM_AUTH; break;
    default: break;
    }
    if (error->text[0] != '\0') {
        wane__problem(problem, kind, NULL, "%s", error->text);
    } else {
        wane__problem(problem, kind, NULL, "the request failed (%s)", wane_strerror(error->code));
    }
}

int wane__problem_status(const struct wane__problem *problem) {
    return wordings[problem->kind].status;
}

const char *wane__problem_name(const struct wane__problem *problem) {
    static const char *const names[WANE__PROBLEM_KINDS] = {"none",    "invalid",  "context",   "auth",
                                                           "right",   "no_route", "no_model",  "no_reply",
                                                           "method",  "slow",     "too_large", "busy",
                                                           "engine",  "stopping", "full",      "audit",
                                                           "deadline"};
    return names[problem->kind];
}

static void put_string_or_null(struct wane__buf *out, const char *text) {
    if (text == NULL || text[0] == '\0') {
        wane__buf_text(out, "null");
    } else {
        wane__json_string(out, text, strlen(text));
    }
}

void wane__problem_body(const struct wane__problem *problem, enum wane__shape shape, const char *request_id,
                        struct wane__buf *out) {
    const struct wording *words = &wordings[problem->kind];
    if (shape == WANE__SHAPE_ANTHROPIC) {
        wane__buf_format(out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":",
                         words->anthropic_type);
        wane__json_string(out, problem->text, strlen(problem->text));
        wane__buf_text(out, "},\"request_id\":");
        put_string_or_null(out, request_id);
        wane__buf_text(out, "}");
        return;
    }
    wane__buf_text(out, "{\"error\":{\"message\":");
    wane__json_string(out, problem->text, strlen(problem->text));
    wane__buf_format(out, ",\"type\":\"%s\",\"param\":", words->openai_type);
    put_string_or_null(out, problem->param);
    wane__buf_text(out, ",\"code\":");
    put_string_or_null(out, words->openai_code);
    wane__buf_text(out, "}}");
}
