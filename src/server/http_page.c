/*
 * http_page.c - the live page: its files from the program itself, and at "/" the page for browsers or a list of routes for the rest.
 *
 * The page may load nothing from elsewhere, and nothing inline: the policy says so, and the browser holds it to that. Files are named
 * without their version, so that each is asked for again and answered with 304 while it is the same.
 */
#include "server/http.h"
#include "server/page.h"

#include <string.h>

static const char policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
                             "connect-src 'self'; base-uri 'none'; "
                             "form-action 'none'; frame-ancestors 'none'";

const struct wane__page_file *wane__page_find(const char *name) {
    for (const struct wane__page_file *file = wane__page_files; file->name != NULL; file++)
        if (strcmp(file->name, name) == 0) return file;
    return NULL;
}

bool wane__page_unchanged(const char *header, const char *etag) {
    if (header == NULL) return false;
    size_t size = strlen(etag);
    while (*header != '\0') {
        header += strspn(header, " \t,");
        if (*header == '*') return true;
        if (strncmp(header, "W/", 2) == 0) header += 2;
        const char *end = header + strcspn(header, ",");
        size_t given = (size_t)(end - header);
        while (given > 0 && (header[given - 1] == ' ' || header[given - 1] == '\t')) given--;
        if (given == size && memcmp(header, etag, size) == 0) return true;
        header = end;
    }
    return false;
}

bool wane__page_wants_html(const char *header) {
    return header != NULL && strstr(header, "text/html") != NULL;
}

static enum MHD_Result send_file(struct wane__exchange *exchange, const struct wane__page_file *file) {
    bool same = wane__page_unchanged(wane__http_header(exchange, "if-none-match"), file->etag);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(same ? 0 : file->size, (void *)(uintptr_t)file->bytes,
                                        MHD_RESPMEM_PERSISTENT);
    if (response == NULL) return MHD_NO;
    if (!same) MHD_add_response_header(response, "content-type", file->type);
    MHD_add_response_header(response, "etag", file->etag);
    MHD_add_response_header(response, "cache-control", "no-cache");
    MHD_add_response_header(response, "vary", "accept");
    MHD_add_response_header(response, "content-security-policy", policy);
    MHD_add_response_header(response, "x-content-type-options", "nosniff");
    MHD_add_response_header(response, "referrer-policy", "no-referrer");
    MHD_add_response_header(response, "cross-origin-opener-policy", "same-origin");
    MHD_add_response_header(response, "cross-origin-resource-policy", "same-origin");
    return wane__http_queue(exchange, same ? MHD_HTTP_NOT_MODIFIED : MHD_HTTP_OK, response);
}

enum MHD_Result wane__http_page_file(struct wane__exchange *exchange) {
    const struct wane__page_file *file = wane__page_find(exchange->rest);
    if (file != NULL) return send_file(exchange, file);
    if (strncmp(exchange->rest, "uplot.", 6) == 0)
        wane__problem(&exchange->problem, WANE__PROBLEM_NO_ROUTE, NULL,
                      "this build has no charts: there was no npm to fetch them with; run scripts/page, and "
                      "build again");
    else
        wane__problem(&exchange->problem, WANE__PROBLEM_NO_ROUTE, NULL, "the page has no file %.60s",
                      exchange->rest);
    return wane__http_refuse(exchange);
}

static enum MHD_Result send_list(struct wane__exchange *exchange) {
    struct wane__buf *out = &exchange->out;
    wane__buf_format(out, "wane %s serves %s.\n\n", wane_version(),
                     wane_model_get_facts(exchange->server->model)->name);
    wane__buf_text(out, "GET  /                         in a browser: the live page\n"
                        "POST /v1/messages              as Anthropic's Messages API\n"
                        "POST /v1/messages/count_tokens\n"
                        "POST /v1/chat/completions      as OpenAI's Chat Completions API\n"
                        "POST /v1/completions\n"
                        "GET  /v1/models\n"
                        "POST /v1/wane/feedback         say what a reply was worth\n"
                        "GET  /v1/wane/ab               with the governor and without it\n"
                        "POST /v1/wane/table/reload     read the table's file anew\n"
                        "GET  /v1/wane/alerts           what is wrong now, and whom it was told\n"
                        "POST /v1/wane/alerts/arm       switch on what switched itself off\n"
                        "GET  /v1/wane/rollout          how far features are; POST: a step\n"
                        "GET  /v1/wane/state            numbers of the last 15 minutes\n"
                        "GET  /v1/wane/events           the same as they come\n"
                        "GET  /health  /ready  /metrics\n\n"
                        "docs/api.md describes fields, errors and streams.\n");
    return wane__http_send(exchange, MHD_HTTP_OK, "text/plain; charset=utf-8");
}

enum MHD_Result wane__http_page(struct wane__exchange *exchange) {
    const struct wane__page_file *file = wane__page_find("index.html");
    bool wanted = wane__page_wants_html(wane__http_header(exchange, "accept"));
    return wanted && file != NULL ? send_file(exchange, file) : send_list(exchange);
}
