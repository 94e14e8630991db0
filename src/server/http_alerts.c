/*
 * http_alerts.c - GET /v1/wane/alerts, POST /v1/wane/alerts/arm, and what /metrics says of alerts. Owns nothing; refuses to name more of a
 * hook than where it leads.
 */
#include "ops/alert_hook.h"
#include "server/alerts.h"
#include "server/json.h"
#include "server/route.h"

#include <stdio.h>
#include <string.h>

static void put_text(struct wane__buf *out, const char *name, const char *text) {
    wane__buf_format(out, "\"%s\":", name);
    wane__json_string(out, text, strlen(text));
}

static void put_alert(struct wane__board *board, enum wane__alert alert, struct wane__buf *out) {
    struct wane__alert_view view;
    char raised[32], changed[32];
    wane__board_view(board, alert, &view);
    wane__alert_date(view.raised_at, raised);
    wane__alert_date(view.changed_at, changed);
    wane__buf_format(out, "{\"name\":\"%s\",\"raised\":%s,\"count\":%llu,", wane__alert_name(alert),
                     view.raised ? "true" : "false", (unsigned long long)view.count);
    wane__buf_format(out, view.raised_at > 0 ? "\"raised_at\":\"%s\"," : "\"raised_at\":null,", raised);
    wane__buf_format(out, view.changed_at > 0 ? "\"changed_at\":\"%s\"," : "\"changed_at\":null,", changed);
    put_text(out, "reason", view.reason);
    wane__buf_text(out, "}");
}

static void put_feature(struct wane_server *server, int watched, struct wane__buf *out) {
    wane_divergence_state d;
    wane_model_get_divergences(server->model, watched, &d);
    wane__buf_format(out,
                     "{\"name\":\"%s\",\"off\":%s,\"checks\":%llu,\"divergences\":%llu,\"since_armed\":%llu,"
                     "\"limit\":%llu,",
                     wane_watched_name(watched), d.off ? "true" : "false", (unsigned long long)d.checks,
                     (unsigned long long)d.divergences, (unsigned long long)d.since,
                     (unsigned long long)d.limit);
    put_text(out, "last", d.last);
    wane__buf_text(out, "}");
}

static void put_hooks(struct wane_server *server, struct wane__buf *out) {
    bool first = true;
    for (int i = 0; i < WANE__ALERT_HOOKS; i++) {
        const char *target;
        struct wane__hook_counts c;
        struct wane__hook *hook = wane__alerts_hook(server, i, &target);
        if (hook == NULL) continue;
        wane__hook_count(hook, &c);
        wane__buf_format(out, "%s{\"hook\":\"%s\",", first ? "" : ",", wane__hook_name(hook));
        put_text(out, "target", target);
        wane__buf_format(
            out, ",\"waiting\":%d,\"delivered\":%llu,\"retried\":%llu,\"failed\":%llu,\"dropped\":%llu}",
            c.waiting, (unsigned long long)c.delivered, (unsigned long long)c.retried,
            (unsigned long long)c.failed, (unsigned long long)c.dropped);
        first = false;
    }
}

static enum MHD_Result answer(struct wane__exchange *exchange) {
    struct wane_server *server = exchange->server;
    struct wane__board *board = wane__server_board(server);
    struct wane__buf *out = &exchange->out;
    wane__alerts_look(server);
    wane__buf_text(out, "{\"alerts\":[");
    for (int i = 0; i < WANE__ALERTS; i++) {
        if (i > 0) wane__buf_text(out, ",");
        put_alert(board, (enum wane__alert)i, out);
    }
    wane__buf_text(out, "],\"features\":[");
    for (int i = 0; i < WANE_WATCHED; i++) {
        if (i > 0) wane__buf_text(out, ",");
        put_feature(server, i, out);
    }
    wane__buf_text(out, "],\"hooks\":[");
    put_hooks(server, out);
    wane__buf_text(out, "]}");
    return wane__http_send(exchange, MHD_HTTP_OK, "application/json");
}

enum MHD_Result wane__http_alerts(struct wane__exchange *exchange) {
    return answer(exchange);
}

/* {"feature": "table"}; -1: `problem`. */
static int read_feature(struct wane__exchange *exchange) {
    char shown[80];
    int found = -1;
    json_t *root = wane__json_parse(exchange->body.data != NULL ? exchange->body.data : "",
                                    exchange->body.size, &exchange->problem);
    if (root == NULL) return -1;
    const json_t *value = json_object_get(root, "feature");
    for (int i = 0; i < WANE_WATCHED && json_is_string(value); i++)
        if (strcmp(json_string_value(value), wane_watched_name(i)) == 0) found = i;
    if (found < 0)
        wane__problem(&exchange->problem, WANE__PROBLEM_INVALID, "feature",
                      "feature: %s is not allowed; it must be one of head, table, draft, memo",
                      value != NULL ? wane__json_show(value, shown, sizeof shown) : "nothing");
    else if (json_object_size(root) > 1) {
        wane__problem(&exchange->problem, WANE__PROBLEM_INVALID, NULL,
                      "only the field feature is known here");
        found = -1;
    }
    json_decref(root);
    return found;
}

enum MHD_Result wane__http_arm(struct wane__exchange *exchange) {
    if (!wane__route_check_admin(exchange)) return wane__http_refuse(exchange);
    int feature = read_feature(exchange);
    if (feature < 0) return wane__http_refuse(exchange);
    wane__alerts_look(exchange->server); /* what was found until now is told before it is forgotten */
    wane_model_arm(exchange->server->model, feature, NULL);
    return answer(exchange);
}

/* --------------------------------------------------------------------- metrics */

static void write_hooks(struct wane_server *server, struct wane__buf *out) {
    static const char *const names[] = {"delivered", "retried", "failed", "dropped"};
    wane__metric_head(
        out, "wane_alert_hooks_total", "counter",
        "Changes of alerts told, by hook and what became of them; retried: attempts after the first.");
    for (int i = 0; i < WANE__ALERT_HOOKS; i++) {
        const char *target;
        struct wane__hook_counts c;
        struct wane__hook *hook = wane__alerts_hook(server, i, &target);
        if (hook == NULL) continue;
        wane__hook_count(hook, &c);
        const uint64_t counts[] = {c.delivered, c.retried, c.failed, c.dropped};
        for (int k = 0; k < 4; k++)
            wane__buf_format(out, "wane_alert_hooks_total{hook=\"%s\",result=\"%s\"} %llu\n",
                             wane__hook_name(hook), names[k], (unsigned long long)counts[k]);
    }
}

static void write_divergences(struct wane_server *server, struct wane__buf *out) {
    wane_divergence_state d[WANE_WATCHED];
    for (int i = 0; i < WANE_WATCHED; i++) wane_model_get_divergences(server->model, i, &d[i]);
    wane__metric_head(out, "wane_divergence_checks_total", "counter",
                      "Times that a feature's result was compared with the plain path's.");
    for (int i = 0; i < WANE_WATCHED; i++)
        wane__buf_format(out, "wane_divergence_checks_total{feature=\"%s\"} %llu\n", wane_watched_name(i),
                         (unsigned long long)d[i].checks);
    wane__metric_head(out, "wane_divergences_total", "counter", "Of these, times that it was another.");
    for (int i = 0; i < WANE_WATCHED; i++)
        wane__buf_format(out, "wane_divergences_total{feature=\"%s\"} %llu\n", wane_watched_name(i),
                         (unsigned long long)d[i].divergences);
    wane__metric_head(out, "wane_feature_broken", "gauge", "1 while a feature is off because it diverged.");
    for (int i = 0; i < WANE_WATCHED; i++)
        wane__buf_format(out, "wane_feature_broken{feature=\"%s\"} %d\n", wane_watched_name(i), d[i].off);
}

void wane__http_alert_metrics(struct wane_server *server, struct wane__buf *out) {
    struct wane__board *board = wane__server_board(server);
    struct wane__alert_view view[WANE__ALERTS];
    wane__alerts_look(server);
    for (int i = 0; i < WANE__ALERTS; i++) wane__board_view(board, (enum wane__alert)i, &view[i]);
    wane__metric_head(out, "wane_alert", "gauge", "1 while an alert is raised, by its name.");
    for (int i = 0; i < WANE__ALERTS; i++)
        wane__buf_format(out, "wane_alert{name=\"%s\"} %d\n", wane__alert_name((enum wane__alert)i),
                         view[i].raised);
    wane__metric_head(out, "wane_alerts_total", "counter", "Times that an alert was raised, by its name.");
    for (int i = 0; i < WANE__ALERTS; i++)
        wane__buf_format(out, "wane_alerts_total{name=\"%s\"} %llu\n", wane__alert_name((enum wane__alert)i),
                         (unsigned long long)view[i].count);
    write_divergences(server, out);
    write_hooks(server, out);
}
