/*
 * http_rollout.c - see http_rollout.h. Owns the thread that takes turns; refuses to let a request wait for a file, and to count one that
 * was not accepted.
 */
#include "server/http_rollout.h"

#include "core/clock.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/os.h"
#include "model.h"
#include "model_table.h"
#include "ops/repeat.h"
#include "ops/rollout_live.h"
#include "server/alerts.h"
#include "server/json.h"
#include "server/json_fields.h"
#include "server/route.h"

#include <math.h>
#include <signal.h>
#include <string.h>

#define TURN_SECONDS 1.0

struct wane__server_rollout {
    struct wane__rollout *rollout;
    struct wane_server *server;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ends;
    bool running, ending;
};

/* ------------------------------------------------------------------ what was seen */

static uint64_t less(uint64_t all, uint64_t some) {
    return all > some ? all - some : 0;
}

/* Tries and hits are of requests that have the feature: nobody else looks anything up. docs/rollout.md defines them. */
static void count_hits(wane_model *model, struct wane__rollout_counts counts[WANE_FEATURES]) {
    wane_head_state head;
    wane_table_state table;
    wane_draft_state draft;
    wane_memo_state memo;
    wane_gate_state gate;
    wane_governor_state governor;
    wane_model_get_head_state(model, &head);
    wane_model_get_table_state(model, &table);
    wane_model_get_draft_state(model, &draft);
    wane_model_get_memo_state(model, &memo);
    wane_model_get_gate_state(model, &gate);
    wane_model_get_governor_state(model, &governor);
    counts[WANE_FEATURE_HEAD].hits = less(head.questions, head.dense_many + head.dense_sum);
    counts[WANE_FEATURE_HEAD].tries = head.questions;
    counts[WANE_FEATURE_TABLE].hits = table.strict + table.rank;
    counts[WANE_FEATURE_TABLE].tries = table.strict + table.rank + table.miss + table.absent;
    for (int i = 0; i < WANE_DRAFT_SOURCES; i++) {
        counts[WANE_FEATURE_DRAFT].hits += draft.accepted[i];
        counts[WANE_FEATURE_DRAFT].tries += draft.proposed[i];
    }
    counts[WANE_FEATURE_MEMO].hits = memo.hits;
    counts[WANE_FEATURE_MEMO].tries = memo.hits + memo.misses;
    counts[WANE_FEATURE_GATE].hits = gate.lut_hits;
    counts[WANE_FEATURE_GATE].tries = gate.lookups;
    uint64_t tokens = 0;
    for (int i = 0; i < WANE_STATES; i++) tokens += governor.tokens[i];
    counts[WANE_FEATURE_GOVERNOR].hits = less(tokens, governor.missing);
    counts[WANE_FEATURE_GOVERNOR].tries = tokens;
}

/* Returns the features whose divergence can be seen at all. */
static unsigned count_divergences(wane_model *model, struct wane__rollout_counts counts[WANE_FEATURES]) {
    static const int watched[] = {[WANE_WATCHED_HEAD] = WANE_FEATURE_HEAD,
                                  [WANE_WATCHED_TABLE] = WANE_FEATURE_TABLE,
                                  [WANE_WATCHED_DRAFT] = WANE_FEATURE_DRAFT,
                                  [WANE_WATCHED_MEMO] = WANE_FEATURE_MEMO};
    wane_table_state table;
    unsigned compared = 0;
    for (int i = 0; i < WANE_WATCHED; i++) {
        wane_divergence_state d;
        wane_model_get_divergences(model, i, &d);
        counts[watched[i]].checks = d.checks;
        counts[watched[i]].divergences = d.divergences;
        if (i == WANE_WATCHED_TABLE || model->rows.shadow_below > 0) compared |= 1u << watched[i];
    }
    /* Under ARGMAX each strict hit's token is compared with the one that was drawn, too; under EXACT a table changes nothing. */
    wane_model_get_table_state(model, &table);
    if (model->rows.table != NULL && model->rows.table->argmax) {
        counts[WANE_FEATURE_TABLE].checks += table.strict;
        counts[WANE_FEATURE_TABLE].divergences += table.taken;
    }
    return compared;
}

static void look(struct wane__server_rollout *own) {
    struct wane__rollout_counts counts[WANE_FEATURES] = {0};
    count_hits(own->server->model, counts);
    wane__rollout_feed(own->rollout, counts, count_divergences(own->server->model, counts));
}

/* ------------------------------------------------------------------ turns */

static void *take_turns(void *user) {
    struct wane__server_rollout *own = user;
    pthread_mutex_lock(&own->lock);
    while (!own->ending) {
        pthread_mutex_unlock(&own->lock);
        look(own);
        wane__rollout_tick(own->rollout, wane__date_ms(), wane__now());
        double until = wane__now() + TURN_SECONDS;
        pthread_mutex_lock(&own->lock);
        while (!own->ending && wane__now() < until) wane__os_cond_wait(&own->ends, &own->lock, until);
    }
    pthread_mutex_unlock(&own->lock);
    return NULL;
}

/* Signals are the program's business. */
static int start_thread(struct wane__server_rollout *own, wane_error *error) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    own->running = wane__os_thread_start(&own->thread, take_turns, own) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return own->running ? WANE_OK
                        : wane__fail(error, WANE_ENOMEM, "the rollout's thread could not be started");
}

/* From the thread that took the step. */
static void on_step(void *user, int feature, bool forward, const char *why) {
    struct wane__server_rollout *own = user;
    struct wane__board *board = wane__server_board(own->server);
    wane__server_audit_step(own->server, wane_feature_name(feature), forward, why);
    if (forward)
        wane__board_clear(board, WANE__ALERT_ROLLOUT, "the rollout of the %s went forward: %s",
                          wane_feature_name(feature), why);
    else
        wane__board_raise(board, WANE__ALERT_ROLLOUT, "the rollout of the %s stepped back: %s",
                          wane_feature_name(feature), why);
}

int wane__server_open_rollout(struct wane_server *server, const wane_server_options *options,
                              wane_error *error) {
    if (options->rollout == NULL) return WANE_OK;
    struct wane__server_rollout *own = wane__alloc_zero(1, sizeof *own);
    if (own == NULL) return wane__fail(error, WANE_ENOMEM, "no memory for the server");
    own->server = server;
    pthread_mutex_init(&own->lock, NULL);
    wane__os_cond_init(&own->ends);
    server->rollout = own;
    int code =
        wane__rollout_open(options->rollout, options->rollout_wish, &server->log, &own->rollout, error);
    if (code != WANE_OK) return code;
    wane__rollout_listen(own->rollout, on_step, own);
    return start_thread(own, error);
}

void wane__server_close_rollout(struct wane_server *server) {
    struct wane__server_rollout *own = server->rollout;
    if (own == NULL) return;
    server->rollout = NULL;
    if (own->running) {
        pthread_mutex_lock(&own->lock);
        own->ending = true;
        pthread_cond_signal(&own->ends);
        pthread_mutex_unlock(&own->lock);
        pthread_join(own->thread, NULL);
        look(own);
    }
    wane__rollout_close(own->rollout);
    pthread_cond_destroy(&own->ends);
    pthread_mutex_destroy(&own->lock);
    wane__free(own);
}

bool wane__server_rollout_break(struct wane_server *server, int feature, const char *why) {
    return server->rollout != NULL && wane__rollout_break(server->rollout->rollout, feature, why);
}

/* ------------------------------------------------------------------ a request */

/* Features that mean something to it: gate and governor are parts of mode WANE. */
static unsigned counted(const struct wane__exchange *exchange) {
    const wane_quality *quality = exchange->call.generation.quality;
    bool wane = quality != NULL && quality->mode == WANE_MODE_WANE;
    return wane ? WANE_FEATURES_ALL
                : WANE_FEATURES_ALL & ~(1u << WANE_FEATURE_GATE | 1u << WANE_FEATURE_GOVERNOR);
}

void wane__http_rollout_take(struct wane__exchange *exchange) {
    struct wane_server *server = exchange->server;
    struct wane__call *call = &exchange->call;
    const char *line = call->line != NULL ? call->line : wane__http_header(exchange, "wane-line");
    const struct wane__subject subject = {call->user, exchange->key.name, line, exchange->request_id};
    struct wane__rollout_side *side = &exchange->side;
    call->generation.without = call->without;
    if (server->rollout == NULL) return;
    wane__rollout_take(server->rollout->rollout, &subject, wane__model_lacks(server->model), side);
    call->generation.without |= side->listed & ~side->on;
}

void wane__http_rollout_count(struct wane__exchange *exchange) {
    struct wane__server_rollout *own = exchange->server->rollout;
    /* Who declines a feature says nothing of it. */
    if (own != NULL)
        wane__rollout_count(own->rollout, &exchange->side, counted(exchange) & ~exchange->call.without);
}

/* ------------------------------------------------------------------ questions that come again */

void wane__http_repeat_begin(struct wane__exchange *exchange) {
    const struct wane__call *call = &exchange->call;
    const wane_message *before = wane__repeat_find(call->messages, call->message_count);
    if (before == NULL) return;
    size_t size = before->content_size < WANE__REPEAT_BYTES ? before->content_size : WANE__REPEAT_BYTES;
    exchange->repeats = wane__buf_append(&exchange->earlier, before->content, size);
}

void wane__http_repeat_see(struct wane__exchange *exchange, const wane_event *event) {
    struct wane__buf *again = &exchange->again;
    if (!exchange->repeats) return;
    if (again->size < WANE__REPEAT_BYTES) wane__buf_append(again, event->text, event->text_size);
    if (event->kind != WANE_EVENT_END) return;
    if (event->chosen_text != NULL) {
        wane__buf_clear(again);
        wane__buf_append(again, event->chosen_text, event->chosen_size);
    }
    exchange->repeats = false;
    const char *said = again->data != NULL ? again->data : "", *earlier = exchange->earlier.data;
    double score = again->failed ? (double)NAN
                                 : wane__repeat_score(earlier != NULL ? earlier : "", exchange->earlier.size,
                                                      said, again->size);
    wane__buf_free(again);
    wane__buf_free(&exchange->earlier);
    if (isnan(score)) return;
    const struct wane__rollout_side *side = &exchange->side;
    wane__metrics_repeat(&exchange->server->metrics, (side->listed & ~side->on) == 0, score);
    if (exchange->server->rollout != NULL)
        wane__rollout_repeat(exchange->server->rollout->rollout, side, score);
}

/* ------------------------------------------------------------------ the route */

static enum MHD_Result refuse_without(struct wane__exchange *exchange) {
    wane__problem(&exchange->problem, WANE__PROBLEM_NO_ROUTE, NULL,
                  "this server has no rollout; start it with --rollout FILE");
    return wane__http_refuse(exchange);
}

static enum MHD_Result send_state(struct wane__exchange *exchange, bool kept, const char *why) {
    char *text = wane__rollout_show(exchange->server->rollout->rollout);
    if (text == NULL) {
        wane__problem(&exchange->problem, WANE__PROBLEM_ENGINE, NULL, "no memory for the rollout's state");
        return wane__http_refuse(exchange);
    }
    size_t size = strlen(text); /* an object: what is to be added goes before its last brace */
    wane__buf_append(&exchange->out, text, size - 1);
    wane__free(text);
    wane__buf_format(&exchange->out, ",\"kept\":%s", kept ? "true" : "false");
    if (why[0] != '\0') {
        wane__buf_text(&exchange->out, ",\"trouble\":");
        wane__json_string(&exchange->out, why, strlen(why));
    }
    wane__buf_text(&exchange->out, "}");
    return wane__http_send(exchange, MHD_HTTP_OK, "application/json");
}

enum MHD_Result wane__http_rollout(struct wane__exchange *exchange) {
    struct wane__rollout_figures figures;
    if (exchange->server->rollout == NULL) return refuse_without(exchange);
    if (!wane__route_check_admin(exchange)) return wane__http_refuse(exchange);
    look(exchange->server->rollout);
    wane__rollout_get_figures(exchange->server->rollout->rollout, &figures);
    return send_state(exchange, figures.kept, "");
}

/* -1 for all; WANE_FEATURES: it is wrong, and `problem` says so. */
static int read_feature(struct wane__exchange *exchange, const json_t *value) {
    char shown[80];
    if (value == NULL || json_is_null(value)) return -1;
    int feature = json_is_string(value) ? wane_feature_from(json_string_value(value)) : -1;
    if (feature >= 0) return feature;
    wane__problem(
        &exchange->problem, WANE__PROBLEM_INVALID, "feature",
        "feature: %s is not allowed; it must be head, table, draft, memo, gate or governor, or left out "
        "for all of the plan",
        wane__json_show(value, shown, sizeof shown));
    return WANE_FEATURES;
}

static bool read_order(struct wane__exchange *exchange, int *action, int *feature) {
    static const char *const names[] = {"do", "feature", NULL};
    char shown[80];
    json_t *root = wane__json_parse(exchange->body.data != NULL ? exchange->body.data : "",
                                    exchange->body.size, &exchange->problem);
    if (root == NULL) return false;
    const json_t *wish = json_object_get(root, "do");
    *action = json_is_string(wish) ? wane_rollout_action_from(json_string_value(wish)) : -1;
    bool fine = wane__fields_only(root, "rollout", names, &exchange->problem);
    if (fine && *action < 0)
        fine =
            wane__problem(&exchange->problem, WANE__PROBLEM_INVALID, "do",
                          "do: %s is not allowed; it must be \"start\", \"advance\", \"back\" or \"abort\"",
                          wish != NULL ? wane__json_show(wish, shown, sizeof shown) : "nothing");
    *feature = fine ? read_feature(exchange, json_object_get(root, "feature")) : WANE_FEATURES;
    json_decref(root);
    return fine && *feature < WANE_FEATURES;
}

enum MHD_Result wane__http_rollout_order(struct wane__exchange *exchange) {
    int action, feature;
    bool kept = true;
    wane_error error = {0};
    if (exchange->server->rollout == NULL) return refuse_without(exchange);
    if (!wane__route_check_admin(exchange) || !read_order(exchange, &action, &feature))
        return wane__http_refuse(exchange);
    int code = wane__rollout_order(exchange->server->rollout->rollout, action, feature, &kept, &error);
    if (code != WANE_OK) {
        error.code = code;
        wane__problem_from(&exchange->problem, &error);
        return wane__http_refuse(exchange);
    }
    return send_state(exchange, kept, kept ? "" : error.text);
}

/* ------------------------------------------------------------------ metrics */

static void each(const struct wane__rollout_figures *f, struct wane__buf *out, const char *name,
                 const char *type, const char *help, const char *label, const char *const *values, int count,
                 double (*value)(const struct wane__rollout_figures *f, int feature, int which)) {
    wane__metric_head(out, name, type, help);
    for (int i = 0; i < WANE_FEATURES; i++) {
        if ((f->listed & 1u << i) == 0) continue;
        for (int j = 0; j < count; j++) {
            double number = value(f, i, j);
            if (isnan(number)) continue; /* not known, and no number stands for that */
            wane__buf_format(out, "%s{feature=\"%s\"", name, wane_feature_name(i));
            if (label != NULL) wane__buf_format(out, ",%s=\"%s\"", label, values[j]);
            wane__buf_format(out, "} %.9g\n", number);
        }
    }
}

static double stage_of(const struct wane__rollout_figures *f, int feature, int which) {
    (void)which;
    return f->stage[feature];
}

static double is_phase(const struct wane__rollout_figures *f, int feature, int which) {
    return (int)f->phase[feature] == which;
}

static double requests_of(const struct wane__rollout_figures *f, int feature, int side) {
    return (double)f->requests[feature][side];
}

static double steps_of(const struct wane__rollout_figures *f, int feature, int back) {
    return (double)(back ? f->backward[feature] : f->forward[feature]);
}

static double value_of(const struct wane__rollout_figures *f, int feature, int bar) {
    return f->value[feature][bar];
}

static double bar_of(const struct wane__rollout_figures *f, int feature, int bar) {
    return f->bar[feature][bar];
}

static void write_rollout(const struct wane__rollout_figures *f, struct wane__buf *out) {
    static const char gauge[] = "gauge", counter[] = "counter";
    static const char *const sides[] = {"off", "on"}, *const ways[] = {"forward", "back"};
    each(f, out, "wane_rollout_stage", gauge, "Stage whose reach a feature has; 0: nobody has it.", NULL,
         NULL, 1, stage_of);
    each(f, out, "wane_rollout_phase", gauge, "1 for the phase that a feature's rollout is in.", "phase",
         wane__phase_names, WANE__PHASES, is_phase);
    each(f, out, "wane_rollout_requests_total", counter, "Requests by the side that they were on.", "side",
         sides, 2, requests_of);
    each(f, out, "wane_rollout_steps_total", counter, "Steps of a feature's rollout, ever.", "direction",
         ways, 2, steps_of);
    each(f, out, "wane_rollout_bar", gauge, "What a stage's bar is held against, where it is known.", "bar",
         wane__bar_names, WANE__BARS, value_of);
    each(f, out, "wane_rollout_bar_limit", gauge, "The bar itself, where there is one.", "bar",
         wane__bar_names, WANE__BARS, bar_of);
    wane__metric_whole(out, "wane_rollout_kept", gauge, "1 while what is in force is in the rollout's file.",
                       f->kept);
    wane__metric_whole(out, "wane_rollout_save_failures_total", counter,
                       "Times that it could not be written there.", f->failures);
}

static void write_switches(const struct wane_server *server, struct wane__buf *out) {
    unsigned off = wane__model_lacks(server->model);
    wane__metric_head(out, "wane_feature_switched_off", "gauge",
                      "1 while a feature is switched off for all requests.");
    for (int i = 0; i < WANE_FEATURES; i++)
        wane__buf_format(out, "wane_feature_switched_off{feature=\"%s\"} %d\n", wane_feature_name(i),
                         (off & 1u << i) != 0);
}

void wane__http_rollout_metrics(struct wane_server *server, struct wane__buf *out) {
    struct wane__rollout_figures figures;
    wane__metrics_write_repeats(&server->metrics, out);
    write_switches(server, out);
    if (server->rollout == NULL) return;
    look(server->rollout);
    wane__rollout_get_figures(server->rollout->rollout, &figures);
    write_rollout(&figures, out);
}

/* ------------------------------------------------------------------ the dashboard */

void wane__http_rollout_stages(struct wane_server *server, double stage[WANE_FEATURES]) {
    struct wane__rollout_figures figures;
    if (server->rollout == NULL) return;
    wane__rollout_get_figures(server->rollout->rollout, &figures);
    for (int i = 0; i < WANE_FEATURES; i++) stage[i] = figures.stage[i];
}

static void put_known(struct wane__buf *out, const char *name, double value) {
    wane__buf_format(out, "\"%s\":", name);
    if (isnan(value))
        wane__buf_text(out, "null");
    else
        wane__json_number(out, value);
}

static void put_bars(const struct wane__rollout_figures *f, int feature, struct wane__buf *out) {
    wane__buf_text(out, "\"bars\":{");
    for (int b = 0; b < WANE__BARS; b++) {
        wane__buf_format(out, "%s\"%s\":{", b > 0 ? "," : "", wane__bar_names[b]);
        put_known(out, "value", f->value[feature][b]);
        wane__buf_text(out, ",");
        put_known(out, "bar", f->bar[feature][b]);
        wane__buf_text(out, "}");
    }
    wane__buf_text(out, "}");
}

static void put_feature(const struct wane__rollout_figures *f, int i, struct wane__buf *out) {
    static const char *const kinds[] = {[WANE__STAGE_SHARE] = "requests",
                                        [WANE__STAGE_USERS] = "users",
                                        [WANE__STAGE_LINES] = "lines",
                                        [WANE__STAGE_ALL] = "all"};
    wane__buf_format(out, "\"%s\":{\"phase\":\"%s\",\"stage\":%d,\"stages\":%d,\"reach\":\"%s\",",
                     wane_feature_name(i), wane__phase_names[f->phase[i]], f->stage[i], f->stages[i],
                     f->stage[i] > 0 ? kinds[f->kind[i]] : "none");
    put_known(out, "share", f->stage[i] > 0 && f->share[i] > 0 ? f->share[i] : (double)NAN);
    wane__buf_format(out, ",\"requests_on\":%llu,\"requests_off\":%llu,",
                     (unsigned long long)f->requests[i][1], (unsigned long long)f->requests[i][0]);
    put_bars(f, i, out);
    wane__buf_text(out, "}");
}

/* No names of lines of business and no reasons: a key that may see the metrics may see this. */
void wane__http_rollout_live(struct wane_server *server, struct wane__buf *out) {
    struct wane__rollout_figures figures;
    int count = 0;
    if (server->rollout == NULL) {
        wane__buf_text(out, "null");
        return;
    }
    wane__rollout_get_figures(server->rollout->rollout, &figures);
    wane__buf_text(out, "{");
    for (int i = 0; i < WANE_FEATURES; i++) {
        if ((figures.listed & 1u << i) == 0) continue;
        if (count++ > 0) wane__buf_text(out, ",");
        put_feature(&figures, i, out);
    }
    wane__buf_text(out, "}");
}
