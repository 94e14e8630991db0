/*
 * http_quality.c - which quality settings a request gets, and what a reply says of its vote.
 *
 *     domain    of the request (field or header), else of its key, else the server's own settings
 *               (an SSP's domain, where the server has one of that name, stands between request and key)
 *     mode      of the request, where the server allows requests to ask for it; else of its key, else the domain's;
 *               an SSP asks for mode WANE, and is applied to the settings last
 *     hold      of the request; a reply that is not streamed is always held: there is nothing to follow
 *
 * Refuses, before anything is queued, what the server does not know or allow, and says what it does.
 */
#include "core/error.h"
#include "core/memory.h"
#include "server/http.h"
#include "server/json.h"
#include "vote.h"

#include <stdio.h>
#include <string.h>

enum { DOMAINS_MOST = 64 };

/* ------------------------------------------------------------------------ the server's */

static const struct wane__domain *find_domain(const struct wane_server *server, const char *name) {
    for (size_t i = 0; i < server->domain_count; i++)
        if (strcmp(server->domains[i].name, name) == 0) return &server->domains[i];
    return NULL;
}

static bool knows_domain(void *server, const char *name) {
    return find_domain(server, name) != NULL;
}

static int copy_quality(const wane_quality *from, wane_quality *to, wane_error *error) {
    if (from == NULL) {
        wane_quality_init(to);
        return WANE_OK;
    }
    int code = wane_quality_check(from, error);
    if (code == WANE_OK) code = wane__vote_check(from, error);
    if (code != WANE_OK) return code;
    *to = *from;
    to->final_value = wane__copy_string(from->final_value);
    if (to->final_value == NULL && from->final_value != NULL)
        return wane__fail(error, WANE_ENOMEM, "no memory for the server");
    return WANE_OK;
}

static int add_domain(struct wane_server *server, const wane_domain *domain, wane_error *error) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    size_t size = domain->name != NULL ? strlen(domain->name) : 0;
    if (size == 0 || size > 64 || strspn(domain->name, allowed) != size)
        return wane__fail(error, WANE_EINVAL,
                          "domain: \"%.80s\" is not a name; it must have 1 to 64 of a-z A-Z 0-9 - _ .",
                          size > 0 ? domain->name : "");
    if (find_domain(server, domain->name) != NULL)
        return wane__fail(error, WANE_EINVAL, "domain: there are two called \"%s\"", domain->name);
    struct wane__domain *made = &server->domains[server->domain_count];
    made->name = wane__copy_string(domain->name);
    if (made->name == NULL) return wane__fail(error, WANE_ENOMEM, "no memory for the server");
    server->domain_count++;
    wane_error detail = {0};
    int code = copy_quality(domain->quality, &made->quality, &detail);
    return code == WANE_OK ? code : wane__fail(error, code, "domain %s: %s", domain->name, detail.text);
}

int wane__server_set_quality(struct wane_server *server, const wane_server_options *options,
                             wane_error *error) {
    server->request_modes = options->request_modes;
    int code = copy_quality(options->quality, &server->quality, error);
    if (code != WANE_OK || options->domain_count == 0) return code;
    if (options->domain_count > DOMAINS_MOST)
        return wane__fail(error, WANE_EINVAL, "there are %zu domains; at most %d are allowed",
                          options->domain_count, DOMAINS_MOST);
    server->domains = wane__alloc_zero(options->domain_count, sizeof *server->domains);
    if (server->domains == NULL) return wane__fail(error, WANE_ENOMEM, "no memory for the server");
    for (size_t i = 0; i < options->domain_count && code == WANE_OK; i++)
        code = add_domain(server, &options->domains[i], error);
    return code;
}

int wane__server_check_keys(struct wane_server *server, const char *file, wane_error *error) {
    const char *unknown = wane__keys_unknown_domain(server->keys, knows_domain, server);
    if (unknown == NULL) return WANE_OK;
    return wane__fail(error, WANE_EINVAL,
                      "the key file %s names the domain \"%s\", and there is no such domain", file, unknown);
}

static bool votes(const wane_quality *quality, unsigned modes) {
    bool some = quality->mode != WANE_MODE_OFF || (modes & ~(1u << WANE_MODE_OFF)) != 0;
    return some && quality->answers > 1;
}

bool wane__server_may_vote(const struct wane_server *server) {
    unsigned asked = server->request_modes | wane__keys_modes(server->keys);
    bool may = votes(&server->quality, asked);
    for (size_t i = 0; i < server->domain_count; i++) may = may || votes(&server->domains[i].quality, asked);
    return may;
}

void wane__server_free_quality(struct wane_server *server) {
    wane__free((char *)(uintptr_t)server->quality.final_value);
    for (size_t i = 0; i < server->domain_count; i++) {
        wane__free(server->domains[i].name);
        wane__free((char *)(uintptr_t)server->domains[i].quality.final_value);
    }
    wane__free(server->domains);
}

/* ------------------------------------------------------------------------ a request's */

/* A field of the body outranks the header of the same meaning. */
static const char *wish_of(const struct wane__exchange *exchange, const char *field, const char *header) {
    return field != NULL ? field : wane__http_header(exchange, header);
}

static bool refuse(struct wane__exchange *exchange, const char *name, const char *text, const char *allowed) {
    return wane__problem(&exchange->problem, WANE__PROBLEM_INVALID, name,
                         "%s: \"%.60s\" is not allowed; it must be %s", name, text, allowed);
}

/* The domain that the SSP names, or the one that its text is of, where the server was told to take that. */
static void check_ssp(struct wane__exchange *exchange) {
    wane_ssp *ssp = &exchange->call.ssp;
    if (!ssp->given) return;
    const char *named = wane_ssp_value_name(WANE_SSP_DOMAIN, ssp->value[WANE_SSP_DOMAIN]);
    const char *taken = wane__http_domain(exchange, named);
    int value = taken != NULL ? wane_ssp_value_from(WANE_SSP_DOMAIN, taken) : 0;
    if (value > 0) ssp->value[WANE_SSP_DOMAIN] = value;
}

/* The server's own settings for the domain of the SSP outrank the key's, and stand for the table's row. */
static void follow_ssp(struct wane__exchange *exchange, const wane_quality **chosen) {
    wane_ssp *ssp = &exchange->call.ssp;
    const char *name = wane_ssp_value_name(WANE_SSP_DOMAIN, ssp->value[WANE_SSP_DOMAIN]);
    const struct wane__domain *domain = name != NULL ? find_domain(exchange->server, name) : NULL;
    if (domain == NULL) return;
    *chosen = &domain->quality;
    ssp->settled = true;
}

static bool read_domain(struct wane__exchange *exchange, const wane_quality **chosen) {
    const struct wane_server *server = exchange->server;
    const char *name = wish_of(exchange, exchange->call.domain, "wane-domain");
    if (name == NULL) {
        follow_ssp(exchange, chosen);
        return true;
    }
    const struct wane__domain *domain = find_domain(server, name);
    if (domain != NULL) {
        *chosen = &domain->quality;
        return true;
    }
    char list[400] = "left out: this server has no domains";
    size_t used = 0;
    for (size_t i = 0; i < server->domain_count && used < sizeof list; i++) {
        int wrote = snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "one of ",
                             server->domains[i].name);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
    return refuse(exchange, "wane_domain", name, list);
}

/* An SSP is carried out by mode WANE and by no other: where that is not to be had, it must not seem to be in force. */
static bool read_mode_of_ssp(struct wane__exchange *exchange, const char *name, int *mode) {
    if (name != NULL && wane_mode_from(name) != WANE_MODE_WANE)
        return wane__problem(
            &exchange->problem, WANE__PROBLEM_INVALID, "sfcl_mode",
            "sfcl_mode: \"%.60s\" contradicts the SSP, which is carried out in mode wane; leave "
            "one of them out",
            name);
    if (*mode != WANE_MODE_WANE && (exchange->server->request_modes & 1u << WANE_MODE_WANE) == 0)
        return wane__problem(
            &exchange->problem, WANE__PROBLEM_INVALID, "system",
            "system: SSP: it is carried out in mode wane, which this server lets no request "
            "choose; leave it out, or start the server with --request-modes wane or --mode wane");
    *mode = WANE_MODE_WANE;
    return true;
}

static bool read_mode(struct wane__exchange *exchange, int *mode) {
    const char *name = wish_of(exchange, exchange->call.mode, "wane-mode");
    if (name == NULL && !exchange->call.ssp.given) return true;
    int wanted = name != NULL ? wane_mode_from(name) : WANE_MODE_WANE;
    if (wanted < 0) return refuse(exchange, "sfcl_mode", name, "off, legacy or wane");
    if (exchange->call.ssp.given) return read_mode_of_ssp(exchange, name, mode);
    if (wanted != *mode && (exchange->server->request_modes & 1u << wanted) == 0) {
        char allowed[120] = "left out: this server lets no request choose its mode";
        size_t used = 0;
        for (int i = WANE_MODE_OFF; i <= WANE_MODE_WANE && used < sizeof allowed; i++) {
            if ((exchange->server->request_modes & 1u << i) == 0) continue;
            int wrote = snprintf(allowed + used, sizeof allowed - used, "%s%s", used > 0 ? " or " : "",
                                 wane_mode_name(i));
            used += wrote > 0 ? (size_t)wrote : 0;
        }
        return refuse(exchange, "sfcl_mode", name, allowed);
    }
    *mode = wanted;
    return true;
}

static bool read_hold(struct wane__exchange *exchange) {
    wane_generation *generation = &exchange->call.generation;
    const char *text = wish_of(exchange, exchange->call.hold, "wane-hold");
    generation->hold = exchange->call.stream ? WANE_HOLD_NOTE : WANE_HOLD_VOTE;
    if (text == NULL) return true;
    bool vote = strcmp(text, "vote") == 0;
    if (!vote && strcmp(text, "note") != 0) return refuse(exchange, "wane_hold", text, "vote or note");
    generation->hold = vote ? WANE_HOLD_VOTE : WANE_HOLD_NOTE;
    return true;
}

bool wane__http_quality(struct wane__exchange *exchange) {
    const struct wane_server *server = exchange->server;
    const wane_quality *chosen = &server->quality;
    int mode = -1;
    if (exchange->key.domain != NULL) {
        const struct wane__domain *domain =
            find_domain(server, exchange->key.domain); /* it is: checked at start */
        if (domain != NULL) chosen = &domain->quality;
    }
    check_ssp(exchange);
    if (!read_domain(exchange, &chosen)) return false;
    exchange->quality = *chosen;
    mode = exchange->key.mode >= 0 ? exchange->key.mode : chosen->mode;
    if (!read_mode(exchange, &mode) || !read_hold(exchange)) return false;
    exchange->quality.mode = mode;
    wane_ssp_apply(&exchange->call.ssp, &exchange->quality);
    wane__http_ab_take(exchange);
    exchange->call.generation.quality = mode != WANE_MODE_OFF ? &exchange->quality : NULL;
    return true;
}

/* ------------------------------------------------------------------------ what a reply says */

/* Members of one object, by turns: what is to be said, by whom there is something to say. */
static void begin_member(struct wane__buf *out, int *count, const char *name) {
    wane__buf_format(out, "%s\"%s\":{", (*count)++ == 0 ? ",\"wane\":{" : ",", name);
}

static void put_vote(const wane_event *end, struct wane__buf *out, int *count) {
    if (end->answers == 0) return;
    begin_member(out, count, "vote");
    wane__buf_format(out, "\"answers\":%d,\"chosen\":%d,\"forked_at\":%d,\"by_value\":%s,\"spare_tokens\":%d",
                     end->answers, end->chosen, end->forked_at, end->by_value ? "true" : "false",
                     end->spare_tokens);
    if (end->chosen_text != NULL) {
        wane__buf_text(out, ",\"text\":");
        wane__json_string(out, end->chosen_text, end->chosen_size);
    }
    wane__buf_text(out, "}");
}

static void put_fuse(const wane_event *end, struct wane__buf *out, int *count) {
    if (end->finish != WANE_FINISH_FUSE) return;
    begin_member(out, count, "fuse");
    wane__buf_format(out, "\"rule\":\"%s\",\"fallback\":\"%s\",\"period\":", wane_fuse_name(end->fuse),
                     wane_fallback_name(end->fallback));
    wane__buf_format(out, end->fuse_period > 0 ? "%d" : "null", end->fuse_period);
    wane__buf_text(out, ",\"entropy_std\":");
    wane__json_number(out, end->fuse_spread);
    wane__buf_text(out, "}");
}

/* What was applied, and whether the domain's part of it came from the server's settings or from the table. */
static void put_ssp(const wane_ssp *ssp, struct wane__buf *out, int *count) {
    int pairs = 0;
    if (!ssp->given) return;
    begin_member(out, count, "ssp");
    for (int key = 0; key < WANE_SSP_KEYS; key++) {
        const char *value = wane_ssp_value_name(key, ssp->value[key]);
        if (value == NULL) continue;
        wane__buf_format(out, "%s\"%s\":\"%s\"", pairs++ > 0 ? "," : "", wane_ssp_key_name(key), value);
    }
    if (ssp->settled) wane__buf_text(out, ",\"settings\":\"server\"");
    wane__buf_text(out, "}");
}

static void put_prepared(const struct wane__exchange *exchange, struct wane__buf *out, int *count) {
    int steps = 0;
    if (exchange->prepare == 0) return;
    begin_member(out, count, "prepare");
    for (int i = 0; i < WANE_PREPARE_STEPS; i++) {
        if ((exchange->prepare & 1u << i) == 0) continue;
        wane__buf_format(out, "%s\"%s\":%llu", steps++ > 0 ? "," : "", wane_prepare_name(i),
                         (unsigned long long)exchange->prepared.changes[i]);
    }
    wane__buf_text(out, "}");
}

static void put_side(const struct wane__exchange *exchange, struct wane__buf *out, int *count) {
    const char *side = wane__http_ab_side(exchange);
    if (side == NULL) return;
    begin_member(out, count, "ab");
    wane__buf_format(out, "\"governor\":\"%s\"}", side);
}

void wane__http_put_wane(const struct wane__exchange *exchange, const wane_event *end,
                         struct wane__buf *out) {
    int count = 0;
    put_vote(end, out, &count);
    put_fuse(end, out, &count);
    put_ssp(&exchange->call.ssp, out, &count);
    put_prepared(exchange, out, &count);
    put_side(exchange, out, &count);
    if (count > 0) wane__buf_text(out, "}");
}
