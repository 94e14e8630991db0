/*
 * http_live.c - GET /v1/wane/state and /v1/wane/events: what the dashboard shows. docs/events.md specifies both.
 *
 * Owns the thread that reads the counters once a second, and its readers' streams. Off the way of a token: it takes the locks that
 * /metrics takes, 60 times a minute, and nothing else. Refuses more than so many viewers; a slow one loses samples, never a reply's time.
 */
#include "core/clock.h"
#include "core/error.h"
#include "core/os.h"
#include "model.h"
#include "server/http.h"
#include "server/http_rollout.h"
#include "server/json.h"
#include "server/live.h"

#include <signal.h>
#include <string.h>

#define EVERY_SECONDS 1.0

/* ----------------------------------------------------------------- sampling */

static void read_scheduler(struct wane_server *server, double now[WANE__LIVE_FIELDS]) {
    wane_scheduler_state s;
    wane_scheduler_get_state(server->scheduler, &s);
    now[WANE__LIVE_SLOTS_BUSY] = s.slots_busy;
    now[WANE__LIVE_QUEUED] = s.queued;
    now[WANE__LIVE_KV_HELD] = (double)s.kv_held;
    now[WANE__LIVE_KV_CELLS] = (double)s.kv_cells;
    now[WANE__LIVE_ACCEPTED] = (double)s.accepted;
    now[WANE__LIVE_REFUSED] = (double)s.refused;
    now[WANE__LIVE_COMPLETED] = (double)s.completed;
    now[WANE__LIVE_CANCELLED] = (double)s.cancelled;
    now[WANE__LIVE_FAILED] = (double)(s.failed + s.timed_out);
    now[WANE__LIVE_PROMPT_TOKENS] = (double)s.prompt_tokens;
    now[WANE__LIVE_REUSED_TOKENS] = (double)s.reused_tokens;
    now[WANE__LIVE_REPLY_TOKENS] = (double)s.reply_tokens;
    now[WANE__LIVE_ENGINE_CALLS] = (double)s.engine_calls;
    now[WANE__LIVE_ENGINE_ROWS] = (double)s.engine_rows;
    now[WANE__LIVE_ENGINE_MS] = 1e3 * s.engine_seconds;
    now[WANE__LIVE_VOTES_CHANGED] = (double)s.votes_changed;
}

static void read_shortcuts(wane_model *model, double now[WANE__LIVE_FIELDS]) {
    wane_head_state h;
    wane_draft_state d;
    wane_table_state t;
    wane_memo_state m;
    wane_model_get_head_state(model, &h);
    wane_model_get_draft_state(model, &d);
    wane_model_get_table_state(model, &t);
    wane_model_get_memo_state(model, &m);
    now[WANE__LIVE_HEAD_ROWS] = (double)h.rows;
    now[WANE__LIVE_HEAD_SURVIVORS1] = (double)h.survivors1;
    now[WANE__LIVE_HEAD_SURVIVORS2] = (double)h.survivors2;
    now[WANE__LIVE_HEAD_COMPUTED] = (double)h.rescored;
    now[WANE__LIVE_HEAD_DENSE] =
        (double)(h.dense_many + h.dense_sum + h.dense_batch + h.dense_off + h.dense_pace + h.dense_whole);
    for (int i = 0; i < WANE_WATCHED; i++) {
        wane_divergence_state watched;
        wane_model_get_divergences(model, i, &watched);
        now[WANE__LIVE_COMPARED] += (double)watched.checks;
        now[WANE__LIVE_DIVERGENCES] += (double)watched.divergences;
    }
    for (int i = 0; i < WANE_DRAFT_SOURCES; i++) {
        now[WANE__LIVE_DRAFT_PROPOSED] += (double)d.proposed[i];
        now[WANE__LIVE_DRAFT_ACCEPTED] += (double)d.accepted[i];
    }
    now[WANE__LIVE_TABLE_STRICT] = (double)t.strict;
    now[WANE__LIVE_TABLE_RANK] = (double)t.rank;
    now[WANE__LIVE_TABLE_MISS] = (double)t.miss;
    now[WANE__LIVE_TABLE_ABSENT] = (double)t.absent;
    now[WANE__LIVE_MEMO_HITS] = (double)m.hits;
}

static void read_quality(wane_model *model, double now[WANE__LIVE_FIELDS]) {
    wane_gate_state g;
    wane_governor_state v;
    wane_model_get_gate_state(model, &g);
    wane_model_get_governor_state(model, &v);
    now[WANE__LIVE_GATE_JUDGED] = (double)g.judged;
    now[WANE__LIVE_GATE_REJECTED] = (double)g.rejects;
    now[WANE__LIVE_WAKE_DOUBT] = (double)g.wakes[WANE_WAKE_DOUBT];
    now[WANE__LIVE_WAKE_REVIVAL] = (double)g.wakes[WANE_WAKE_REVIVAL];
    now[WANE__LIVE_WAKE_FORCED] = (double)g.wakes[WANE_WAKE_FORCED];
    now[WANE__LIVE_WAKE_ALWAYS] = (double)g.wakes[WANE_WAKE_ALWAYS];
    for (int i = 0; i < WANE_STATES; i++) now[WANE__LIVE_STATE_NORMAL + i] = (double)v.tokens[i];
    for (int i = 0; i < WANE_FUSES; i++) now[WANE__LIVE_FUSED] += (double)v.fused[i];
}

static void read_now(struct wane_server *server, double now[WANE__LIVE_FIELDS]) {
    memset(now, 0, WANE__LIVE_FIELDS * sizeof *now);
    read_scheduler(server, now);
    read_shortcuts(server->model, now);
    read_quality(server->model, now);
    wane__http_rollout_stages(server, now + WANE__LIVE_ROLLOUT);
    pthread_mutex_lock(&server->live->lock);
    now[WANE__LIVE_VIEWERS] = server->live->viewers;
    pthread_mutex_unlock(&server->live->lock);
}

/* Sleep until then; false: it is over. */
static bool sleep_until(struct wane__live *live, double until) {
    pthread_mutex_lock(&live->lock);
    while (!live->over && wane__now() < until) wane__os_cond_wait(&live->changed, &live->lock, until);
    bool goes_on = !live->over;
    pthread_mutex_unlock(&live->lock);
    return goes_on;
}

static void *sample(void *user) {
    struct wane_server *server = user;
    double now[WANE__LIVE_FIELDS], last = wane__now(), due = last;
    do {
        double at = wane__now();
        read_now(server, now);
        wane__live_add(server->live, wane__date_ms(), at - last, now);
        last = at;
        due = due + EVERY_SECONDS > at ? due + EVERY_SECONDS : at + EVERY_SECONDS;
    } while (sleep_until(server->live, due));
    return NULL;
}

int wane__http_live_start(struct wane_server *server, wane_error *error) {
    sigset_t all, before;
    server->live = wane__live_new();
    if (server->live == NULL) return wane__fail(error, WANE_ENOMEM, "no memory for the server");
    sigfillset(&all); /* signals are the program's business */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    server->live->running = wane__os_thread_start(&server->live->thread, sample, server) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!server->live->running) return wane__fail(error, WANE_EIO, "cannot start the thread that samples");
    return WANE_OK;
}

void wane__http_live_stop(struct wane_server *server) {
    struct wane__live *live = server->live;
    if (live == NULL || !live->running) return;
    wane__live_end(live);
    pthread_join(live->thread, NULL);
    live->running = false;
}

void wane__http_live_reply(struct wane_server *server, const wane_event *end) {
    double each = end->reply_tokens > 1 ? end->reply_ms / (end->reply_tokens - 1) : -1;
    wane__live_reply(server->live, end->queue_ms + end->prompt_ms, each);
}

/* -------------------------------------------------------------------- state */

static void put_text(struct wane__buf *out, const char *name, const char *text) {
    wane__buf_format(out, "\"%s\":", name);
    wane__json_string(out, text != NULL ? text : "", text != NULL ? strlen(text) : 0);
}

static void put_model(const wane_model_facts *facts, struct wane__buf *out) {
    wane__buf_text(out, "\"model\":{");
    put_text(out, "name", facts->name);
    wane__buf_text(out, ",");
    put_text(out, "description", facts->description);
    wane__buf_format(out,
                     ",\"parameters\":%llu,\"vocabulary\":%d,\"context\":%d,\"layers\":%d,\"threads\":%d},",
                     (unsigned long long)facts->parameters, facts->vocab_size, facts->context, facts->layers,
                     facts->threads);
}

static void put_part(struct wane__buf *out, const char *name, bool on, const char *reason) {
    wane__buf_format(out, "\"%s\":{\"on\":%s,", name, on ? "true" : "false");
    put_text(out, "reason", on ? "" : reason);
    wane__buf_text(out, "}");
}

static void put_parts(wane_model *model, struct wane__buf *out) {
    wane_head_state head;
    wane_draft_state drafts;
    wane_table_state table;
    wane_memo_state memo;
    wane_gate_state gate;
    wane_governor_state governor;
    wane_model_get_head_state(model, &head);
    wane_model_get_draft_state(model, &drafts);
    wane_model_get_table_state(model, &table);
    wane_model_get_memo_state(model, &memo);
    wane_model_get_gate_state(model, &gate);
    wane_model_get_governor_state(model, &governor);
    wane__buf_text(out, "\"parts\":{");
    put_part(out, "head", head.certified, head.reason);
    wane__buf_text(out, ",");
    put_part(out, "drafts", drafts.on, drafts.reason);
    wane__buf_text(out, ",");
    put_part(out, "table", table.on,
             table.given ? "it cannot be used; the log says why" : "--table names none");
    wane__buf_text(out, ",");
    put_part(out, "memo", memo.on, "--memo gives it no room");
    wane__buf_text(out, ",");
    put_part(out, "gate", gate.given, "the model has none; docs/gate.md says how one is trained");
    wane__buf_text(out, ",");
    put_part(out, "governor", governor.on,
             governor.given ? "its profile has no signal"
                            : "the model has no profile; docs/tune.md says how");
    wane__buf_text(out, "},");
}

static void put_settings(const struct wane_server *server, struct wane__buf *out) {
    const wane_sampling *s = &server->defaults.sampling;
    int count = 0;
    wane__buf_format(out, "\"mode\":\"%s\",\"request_modes\":[", wane_mode_name(server->quality.mode));
    for (int mode = WANE_MODE_OFF; mode <= WANE_MODE_WANE; mode++)
        if (mode == server->quality.mode || (server->request_modes & 1u << mode) != 0)
            wane__buf_format(out, "%s\"%s\"", count++ > 0 ? "," : "", wane_mode_name(mode));
    wane__buf_format(out,
                     "],\"defaults\":{\"temperature\":%g,\"top_k\":%d,\"top_p\":%g,\"min_p\":%g,"
                     "\"repeat_penalty\":%g,\"max_tokens\":%d},",
                     (double)s->temperature, s->top_k, (double)s->top_p, (double)s->min_p,
                     (double)s->repeat_penalty, server->defaults.max_tokens);
}

static void put_totals(struct wane_server *server, struct wane__buf *out) {
    double now[WANE__LIVE_FIELDS];
    read_now(server, now);
    wane__buf_text(out, "\"now\":{");
    for (int i = 0; i < WANE__LIVE_FIELDS; i++)
        wane__buf_format(out, "%s\"%s\":%.15g", i > 0 ? "," : "", wane__live_name(i), now[i]);
    wane__buf_text(out, "},");
}

/* `?samples=0` leaves the samples out. */
enum MHD_Result wane__http_live_state(struct wane__exchange *exchange) {
    struct wane_server *server = exchange->server;
    struct wane__live *live = server->live;
    struct wane__buf *out = &exchange->out;
    const char *samples = MHD_lookup_connection_value(exchange->connection, MHD_GET_ARGUMENT_KIND, "samples");
    wane_scheduler_state scheduler;
    wane_scheduler_get_state(server->scheduler, &scheduler);
    wane__buf_text(out, "{");
    put_text(out, "version", wane_version());
    wane__buf_text(out, ",");
    put_text(out, "engine", wane_engine_version());
    wane__buf_format(out, ",\"at_ms\":%lld,\"uptime_s\":%.0f,\"slots\":%d,", (long long)wane__date_ms(),
                     wane__now() - server->metrics.started, scheduler.slots);
    put_model(wane_model_get_facts(server->model), out);
    put_parts(server->model, out);
    put_settings(server, out);
    wane__buf_text(out, "\"rollout\":");
    wane__http_rollout_live(server, out);
    wane__buf_text(out, ",\"ab\":");
    wane__http_ab_live(server, out);
    wane__buf_text(out, ",");
    put_totals(server, out);
    wane__live_put_fields(out);
    pthread_mutex_lock(&live->lock);
    unsigned long long dropped = live->dropped;
    pthread_mutex_unlock(&live->lock);
    wane__buf_format(out, ",\"dropped\":%llu,\"samples\":[", dropped);
    if (samples == NULL || strcmp(samples, "0") != 0) wane__live_rows(live, out);
    wane__buf_text(out, "]}");
    return wane__http_send(exchange, MHD_HTTP_OK, "application/json");
}

/* ------------------------------------------------------------------- events */

/* Put the next sample, or a ping, into `out`. False: the viewer left, or the server stops. */
static bool fill(struct wane__exchange *exchange) {
    struct wane__viewer *viewer = &exchange->viewer;
    int there = wane__live_wait(exchange->server->live, 1e-3 * exchange->server->ping_ms, &viewer->next,
                                &viewer->dropped);
    if (there < 0 || wane__http_is_gone(exchange)) return false;
    if (there == 0) return wane__buf_text(&exchange->out, ": ping\n\n");
    wane__buf_format(&exchange->out,
                     "event: sample\ndata: {\"dropped\":%llu,\"row\":", (unsigned long long)viewer->dropped);
    wane__live_row(exchange->server->live, viewer->next++, &exchange->out);
    return wane__buf_text(&exchange->out, "}\n\n");
}

static ssize_t read_events(void *user, uint64_t position, char *buffer, size_t capacity) {
    (void)position;
    return wane__http_hand_out(user, fill, MHD_CONTENT_READER_END_OF_STREAM, buffer, capacity);
}

enum MHD_Result wane__http_live_events(struct wane__exchange *exchange) {
    struct wane__live *live = exchange->server->live;
    if (!wane__live_enter(live, &exchange->viewer.next)) {
        wane__problem(&exchange->problem, WANE__PROBLEM_FULL, NULL,
                      "%d viewers follow already, which is the limit here; try again when one has left",
                      WANE__LIVE_VIEWERS_MOST);
        return wane__http_refuse(exchange);
    }
    exchange->viewer.on = true;
    wane__buf_text(&exchange->out, "event: fields\ndata: {");
    wane__live_put_fields(&exchange->out);
    wane__buf_text(&exchange->out, "}\n\n");
    return wane__http_stream(exchange, read_events);
}

void wane__http_live_leave(struct wane__exchange *exchange) {
    if (exchange->viewer.on) wane__live_leave(exchange->server->live);
    exchange->viewer.on = false;
}
