/*
 * route.c - owns the table of paths, and answers the short ones: models, health, ready, metrics.
 *
 * HEAD is GET without the body, which MHD leaves out. OPTIONS is not answered: no page from elsewhere has business here.
 */
#include "server/route.h"

#include "model.h"
#include "server/alerts.h"
#include "server/http_rollout.h"
#include "server/json.h"

#include <stdio.h>
#include <string.h>

static enum MHD_Result answer_models(struct wane__exchange *exchange);
static enum MHD_Result answer_model(struct wane__exchange *exchange);
static enum MHD_Result answer_health(struct wane__exchange *exchange);
static enum MHD_Result answer_ready(struct wane__exchange *exchange);
static enum MHD_Result answer_metrics(struct wane__exchange *exchange);
static enum MHD_Result answer_reload(struct wane__exchange *exchange);
static enum MHD_Result answer_rollout(struct wane__exchange *exchange);

#define ANTHROPIC WANE__SHAPE_ANTHROPIC
#define OPENAI    WANE__SHAPE_OPENAI

static const struct wane__route routes[] = {
    {"/v1/messages", "POST", true, false, ANTHROPIC, WANE__API_MESSAGES, wane__http_generate},
    {"/v1/messages/count_tokens", "POST", true, false, ANTHROPIC, WANE__API_COUNT, wane__http_generate},
    {"/v1/chat/completions", "POST", true, false, OPENAI, WANE__API_CHAT, wane__http_generate},
    {"/v1/completions", "POST", true, false, OPENAI, WANE__API_TEXT, wane__http_generate},
    {"/v1/models", "GET, HEAD", true, true, OPENAI, 0, answer_models},
    {"/v1/models/*", "GET, HEAD", true, true, OPENAI, 0, answer_model},
    {"/health", "GET, HEAD", false, true, OPENAI, 0, answer_health},
    {"/ready", "GET, HEAD", false, true, OPENAI, 0, answer_ready},
    {"/metrics", "GET, HEAD", true, true, OPENAI, 0, answer_metrics},
    {"/v1/wane/feedback", "POST", true, true, OPENAI, 0, wane__http_feedback},
    {"/v1/wane/ab", "GET, HEAD", true, true, OPENAI, 0, wane__http_ab},
    {"/v1/wane/table/reload", "POST", true, true, OPENAI, 0, answer_reload},
    {"/v1/wane/alerts", "GET, HEAD", true, true, OPENAI, 0, wane__http_alerts},
    {"/v1/wane/alerts/arm", "POST", true, true, OPENAI, 0, wane__http_arm},
    {"/v1/wane/rollout", "GET, HEAD, POST", true, true, OPENAI, 0, answer_rollout},
    {"/v1/wane/state", "GET, HEAD", true, true, OPENAI, 0, wane__http_live_state},
    {"/v1/wane/events", "GET, HEAD", true, true, OPENAI, 0, wane__http_live_events},
    {"/page/*", "GET, HEAD", false, true, OPENAI, 0, wane__http_page_file},
    {"/", "GET, HEAD", false, true, OPENAI, 0, wane__http_page},
    {"other", "", false, true, OPENAI, 0, NULL},
};

#define ROUTES ((int)(sizeof routes / sizeof routes[0]))
_Static_assert(sizeof routes / sizeof routes[0] <= WANE__METRIC_ROUTES,
               "the metrics have a row for each route");

int wane__route_index(const struct wane__route *route) {
    return (int)(route - routes);
}

static bool matches(const struct wane__route *route, const char *path, const char **rest) {
    size_t size = strlen(route->path);
    if (route->path[size - 1] != '*') return strcmp(route->path, path) == 0;
    *rest = path + size - 1;
    return strncmp(route->path, path, size - 1) == 0 && **rest != '\0';
}

static bool allows(const struct wane__route *route, const char *method) {
    if (strcmp(method, "POST") == 0) return strstr(route->allow, "POST") != NULL;
    bool reads = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    return reads && strcmp(route->allow, "POST") != 0;
}

void wane__route_find(struct wane__exchange *exchange, const char *path, const char *method) {
    const char *rest = NULL;
    int i = 0;
    while (i < ROUTES - 1 && !matches(&routes[i], path, &rest)) i++;
    const struct wane__route *route = &routes[i];
    exchange->route = route;
    exchange->posts = strcmp(method, "POST") == 0;
    exchange->shape = route->shape;
    /* Every client of Anthropic's API names its version. */
    if (route->either_shape && wane__http_header(exchange, "anthropic-version") != NULL)
        exchange->shape = ANTHROPIC;
    if (i == ROUTES - 1) {
        wane__problem(&exchange->problem, WANE__PROBLEM_NO_ROUTE, NULL,
                      "there is no %.100s here; docs/api.md lists the routes", path);
        return;
    }
    exchange->rest = rest; /* into MHD's copy of the path; only used before the reply */
    if (!allows(route, method)) {
        wane__problem(&exchange->problem, WANE__PROBLEM_METHOD, NULL, "%.20s is not allowed for %s; use %s",
                      method, route->path, route->allow);
    }
}

bool wane__route_check_model(struct wane__exchange *exchange, const char *name, enum wane__shape shape) {
    const char *loaded = wane_model_get_facts(exchange->server->model)->name;
    if (name == NULL || name[0] == '\0' || strcmp(name, "default") == 0 || strcmp(name, loaded) == 0)
        return true;
    /* Clients of Anthropic's API have its models' names built in; they mean "the model there". */
    if (shape == ANTHROPIC && strncmp(name, "claude", 6) == 0) return true;
    return wane__problem(&exchange->problem, WANE__PROBLEM_NO_MODEL, "model",
                         "model: \"%.100s\" is not loaded here; the loaded model is \"%.100s\"", name,
                         loaded);
}

/* ------------------------------------------------------------------ models */

/* One object that both APIs' clients can read: each takes the fields it knows. */
static void put_model(struct wane__exchange *exchange) {
    const wane_model_facts *facts = wane_model_get_facts(exchange->server->model);
    struct wane__buf *out = &exchange->out;
    struct tm utc;
    char date[32] = "1970-01-01T00:00:00Z";
    if (gmtime_r(&exchange->server->created, &utc) != NULL)
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    wane__buf_text(out, "{\"id\":");
    wane__json_string(out, facts->name, strlen(facts->name));
    wane__buf_format(out, ",\"object\":\"model\",\"type\":\"model\",\"created\":%lld,\"created_at\":\"%s\"",
                     (long long)exchange->server->created, date);
    wane__buf_text(out, ",\"owned_by\":\"wane\",\"display_name\":");
    const char *shown = facts->description && facts->description[0] ? facts->description : facts->name;
    wane__json_string(out, shown, strlen(shown));
    wane__buf_format(
        out, ",\"lifecycle\":\"active\",\"context_length\":%d,\"max_input_tokens\":%d,\"max_tokens\":%d}",
        facts->context, facts->context - 1, facts->context);
}

static enum MHD_Result answer_models(struct wane__exchange *exchange) {
    struct wane__buf *out = &exchange->out;
    const char *name = wane_model_get_facts(exchange->server->model)->name;
    wane__buf_text(out, "{\"object\":\"list\",\"data\":[");
    put_model(exchange);
    wane__buf_text(out, "],\"has_more\":false,\"first_id\":");
    wane__json_string(out, name, strlen(name));
    wane__buf_text(out, ",\"last_id\":");
    wane__json_string(out, name, strlen(name));
    wane__buf_text(out, "}");
    return wane__http_send(exchange, MHD_HTTP_OK, "application/json");
}

static enum MHD_Result answer_model(struct wane__exchange *exchange) {
    if (!wane__route_check_model(exchange, exchange->rest, exchange->shape))
        return wane__http_refuse(exchange);
    put_model(exchange);
    return wane__http_send(exchange, MHD_HTTP_OK, "application/json");
}

/* ------------------------------------------------------------------- state */

/* The process lives: no lock of the scheduler's is taken. */
static enum MHD_Result answer_health(struct wane__exchange *exchange) {
    wane__buf_text(&exchange->out, "{\"status\":\"ok\"}");
    return wane__http_send(exchange, MHD_HTTP_OK, "application/json");
}

static enum MHD_Result answer_ready(struct wane__exchange *exchange) {
    wane_scheduler_state state;
    char why[300] = "";
    bool ready = !wane__alerts_unready(exchange->server, why, sizeof why);
    wane_scheduler_get_state(exchange->server->scheduler, &state);
    if (wane__server_audit_stops(exchange->server)) {
        snprintf(why, sizeof why, "the audit log cannot be written");
        ready = false;
    }
    if (state.stopping || atomic_load(&exchange->server->stopping)) {
        snprintf(why, sizeof why, "the server is stopping");
        ready = false;
    }
    if (ready) {
        wane__buf_text(&exchange->out, "{\"ready\":true}");
        return wane__http_send(exchange, MHD_HTTP_OK, "application/json");
    }
    wane__buf_format(&exchange->out, "{\"ready\":false,\"reason\":\"%s\"}", why);
    return wane__http_send(exchange, MHD_HTTP_SERVICE_UNAVAILABLE, "application/json");
}

static enum MHD_Result answer_metrics(struct wane__exchange *exchange) {
    struct wane_server *server = exchange->server;
    const char *names[ROUTES];
    wane_scheduler_state state;
    for (int i = 0; i < ROUTES; i++) names[i] = routes[i].path;
    wane_scheduler_get_state(server->scheduler, &state);
    state.stopping = state.stopping || atomic_load(&server->stopping);
    wane_head_state head;
    wane_draft_state drafts;
    wane_model_get_head_state(server->model, &head);
    wane_model_get_draft_state(server->model, &drafts);
    for (int i = 0; i < WANE_WATCHED; i++) { /* dashboards know one count, of all features */
        wane_divergence_state diverged;
        wane_model_get_divergences(server->model, i, &diverged);
        if (i != WANE_WATCHED_HEAD) head.divergences += diverged.divergences;
    }
    wane_table_state table;
    wane_model_get_table_state(server->model, &table);
    wane__metrics_write(&server->metrics, names, ROUTES, wane_model_get_facts(server->model), &state, &head,
                        &drafts, &exchange->out);
    wane__metrics_write_table(&table, wane_model_get_facts(server->model)->name, &exchange->out);
    wane_recorder *recorder = server->model->rows.recorder;
    wane_recorder_state trace;
    if (recorder != NULL) wane_recorder_get_state(recorder, &trace);
    wane__metrics_write_trace(recorder != NULL ? &trace : NULL, &exchange->out);
    wane_memo_state memo;
    wane_model_get_memo_state(server->model, &memo);
    wane__metrics_write_memo(&memo, &exchange->out);
    wane_gate_state gate;
    wane_correction_state corrections;
    wane_model_get_gate_state(server->model, &gate);
    wane_model_get_correction_state(server->model, &corrections);
    wane__metrics_write_gate(&gate, wane_model_get_facts(server->model)->name, &exchange->out);
    wane__metrics_write_corrections(&corrections, &exchange->out);
    wane_governor_state governor;
    wane_model_get_governor_state(server->model, &governor);
    wane__metrics_write_governor(&governor, &exchange->out);
    wane__metrics_write_process(&server->metrics, server->disks, server->disk_count, &exchange->out);
    wane__metrics_write_log(server, &exchange->out);
    wane__metrics_write_cache(&state, &exchange->out);
    wane__metrics_write_policy(&server->metrics, &exchange->out);
    wane__http_domain_metrics(server, &exchange->out);
    wane__http_feedback_metrics(server, &exchange->out);
    wane__http_alert_metrics(server, &exchange->out);
    wane__http_rollout_metrics(server, &exchange->out);
    wane__http_audit_metrics(server, &exchange->out);
    wane__http_ab_metrics(server, &exchange->out);
    return wane__http_send(exchange, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8");
}

bool wane__route_check_admin(struct wane__exchange *exchange) {
    const struct wane__key *key = &exchange->key;
    if (key->admin) return true;
    if (exchange->server->keys == NULL)
        return wane__problem(
            &exchange->problem, WANE__PROBLEM_RIGHT, NULL,
            "this server is open to others and has no keys, so nobody may do this here; start it with "
            "--key-file and a key with the right admin, or send it SIGHUP");
    return wane__problem(
        &exchange->problem, WANE__PROBLEM_RIGHT, NULL,
        "the key of \"%.64s\" may not do this: it takes a key whose line in the key file ends in "
        "the word admin",
        key->name);
}

/* Whatever the body says: there is one table, and one thing to do with it. */
static enum MHD_Result answer_reload(struct wane__exchange *exchange) {
    struct wane__buf *out = &exchange->out;
    wane_table_state table;
    wane_error error = {0};
    if (!wane__route_check_admin(exchange)) return wane__http_refuse(exchange);
    int code = wane_model_reload_table(exchange->server->model, &error);
    if (code == WANE_ENOENT) {
        wane_model_get_table_state(exchange->server->model, &table);
        if (!table.given) {
            wane__problem(&exchange->problem, WANE__PROBLEM_INVALID, NULL,
                          "%s Start the server with --table.", error.text);
            return wane__http_refuse(exchange);
        }
    }
    if (code != WANE_OK) {
        wane__problem(&exchange->problem, WANE__PROBLEM_ENGINE, NULL, "%s", error.text);
        return wane__http_refuse(exchange);
    }
    wane_model_get_table_state(exchange->server->model, &table);
    wane__buf_format(out,
                     "{\"on\":%s,\"digest\":\"%s\",\"verified\":%s,\"entries\":%u,\"positions\":%u,"
                     "\"continuations\":%u,\"bytes\":%llu}",
                     table.on ? "true" : "false", table.digest, table.verified ? "true" : "false",
                     table.entries, table.positions, table.continuations, (unsigned long long)table.bytes);
    return wane__http_send(exchange, MHD_HTTP_OK, "application/json");
}

static enum MHD_Result answer_rollout(struct wane__exchange *exchange) {
    return exchange->posts ? wane__http_rollout_order(exchange) : wane__http_rollout(exchange);
}
