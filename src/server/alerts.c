/*
 * alerts.c - owns the board, the hooks and the thread that looks. Refuses to be on the way of a token: it reads counters that others keep,
 * and what switches a feature off has done so before anybody is told.
 */
#include "server/alerts.h"

#include "core/clock.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/os.h"
#include "model.h"
#include "ops/alert_send.h"
#include "ops/watchdog.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What waits in the hooks when the server stops gets so long. */
#define LAST_WORDS_SECONDS 2.0
#define RETRY_SECONDS_MOST 60.0

_Static_assert(WANE__ALERT_MEMO - WANE__ALERT_HEAD == WANE_WATCHED_MEMO,
               "one alert for each thing that is watched");

struct wane__alerts {
    struct wane_server *server;
    struct wane__board *board;
    struct wane__post *post;
    struct wane__alert_command command, breaker;
    struct wane__hook *hook[WANE__ALERT_HOOKS]; /* URL, command, breaker's command */
    uint64_t reload_failures;
    char instance[24], host[256];

    pthread_mutex_t looking; /* one at a time; guards what was seen */
    uint64_t trips, stuck_calls, divergences[WANE_WATCHED];
    bool off[WANE_WATCHED];

    pthread_t thread;
    bool running;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    bool ending;
    double tick;
};

void wane_alert_options_init(wane_alert_options *options) {
    *options = (wane_alert_options){
        .size = sizeof *options, .attempts = 6, .timeout_ms = 10000, .retry_ms = 1000, .reload_failures = 3};
}

struct wane__board *wane__server_board(struct wane_server *server) {
    return server->alerts != NULL ? server->alerts->board : NULL;
}

/* ------------------------------------------------------------------------ look */

static void look_at_breaker(struct wane__alerts *a) {
    wane_gate_state gate;
    wane_model_get_gate_state(a->server->model, &gate);
    if (gate.breaker_trips > a->trips) {
        a->trips = gate.breaker_trips;
        atomic_store(&a->breaker.wakes, gate.breaker_recent);
        wane__board_break(a->board, WANE__ALERT_GATE_BREAKER, "gate",
                          "breaker out: %d votes woke in %d s; temperatures are capped until it is quiet",
                          gate.breaker_recent, a->server->quality.breaker_seconds);
    }
    struct wane__alert_view view;
    wane__board_view(a->board, WANE__ALERT_GATE_BREAKER, &view);
    if (gate.breaker_out || !view.raised) return;
    atomic_store(&a->breaker.wakes, gate.breaker_recent);
    wane__board_clear(a->board, WANE__ALERT_GATE_BREAKER, "breaker in again: %d votes woke in %d s",
                      gate.breaker_recent, a->server->quality.breaker_seconds);
}

static void look_at_divergences(struct wane__alerts *a) {
    for (int i = 0; i < WANE_WATCHED; i++) {
        enum wane__alert alert = (enum wane__alert)(WANE__ALERT_HEAD + i);
        const char *name = wane_watched_name(i);
        wane_divergence_state d;
        wane_model_get_divergences(a->server->model, i, &d);
        bool broke = d.off && !a->off[i], fresh = d.divergences > a->divergences[i];
        a->off[i] = d.off;
        a->divergences[i] = d.divergences;
        if (fresh && d.since == 0) /* between two looks it diverged and was armed */
            wane__board_raise(a->board, alert, "the %s diverged from the plain path", name);
        if (broke)
            wane__board_break(
                a->board, alert, name,
                "the %s switched itself off after %llu divergence%s from the plain path; the last one: %s",
                name, (unsigned long long)d.since, d.since == 1 ? "" : "s", d.last);
        else if (d.since == 0)
            wane__board_clear(a->board, alert, "the %s is armed again", name);
        else if (!d.off && d.limit > 0)
            wane__board_raise(
                a->board, alert,
                "the %s diverged from the plain path (%llu of %llu times that switch it off): %s", name,
                (unsigned long long)d.since, (unsigned long long)d.limit, d.last);
        else if (!d.off)
            wane__board_raise(a->board, alert,
                              "the %s diverged from the plain path (%llu times; nothing switches it off): %s",
                              name, (unsigned long long)d.since, d.last);
    }
}

static void look_at_table(struct wane__alerts *a) {
    wane_table_state table;
    wane_model_get_table_state(a->server->model, &table);
    bool lost = !table.on && !table.diverged;
    if (table.failed_in_row == 0)
        wane__board_clear(a->board, WANE__ALERT_RELOAD, "a table was taken in, digest %.16s", table.digest);
    else if (table.failed_in_row >= a->reload_failures || lost)
        wane__board_raise(a->board, WANE__ALERT_RELOAD,
                          "the table's file could not be taken in, %llu times in a row: %s",
                          (unsigned long long)table.failed_in_row, table.reason);
}

static void say_stuck(const wane_scheduler_state *state, char *out, size_t room) {
    snprintf(out, room,
             "one engine call with %d sequence%s has run for %.1f s and has not returned; calls like it "
             "return within "
             "%.1f s at most",
             state->call_sequences, state->call_sequences == 1 ? "" : "s", state->call_seconds,
             state->call_bound);
}

static void look_at_engine(struct wane__alerts *a) {
    wane_scheduler_state state;
    char why[300];
    wane_scheduler_get_state(a->server->scheduler, &state);
    if (state.stuck) {
        say_stuck(&state, why, sizeof why);
        wane__board_raise(a->board, WANE__ALERT_STUCK, "%s", why);
    } else {
        if (state.stuck_calls > a->stuck_calls) /* somebody else looked while it was */
            wane__board_raise(a->board, WANE__ALERT_STUCK,
                              "an engine call took longer than the watchdog allows");
        wane__board_clear(a->board, WANE__ALERT_STUCK, "the engine call returned");
    }
    a->stuck_calls = state.stuck_calls;
}

static void look_at_audit(struct wane__alerts *a) {
    char why[400];
    if (wane__server_audit_fine(a->server, why, sizeof why)) {
        wane__board_clear(a->board, WANE__ALERT_AUDIT, "the audit log is written again");
    } else {
        wane__board_raise(a->board, WANE__ALERT_AUDIT, "the audit log cannot be written: %s", why);
    }
}

void wane__alerts_look(struct wane_server *server) {
    struct wane__alerts *a = server->alerts;
    if (a == NULL) return;
    pthread_mutex_lock(&a->looking);
    look_at_breaker(a);
    look_at_divergences(a);
    look_at_table(a);
    look_at_engine(a);
    look_at_audit(a);
    pthread_mutex_unlock(&a->looking);
}

bool wane__alerts_unready(struct wane_server *server, char *why, size_t room) {
    wane_scheduler_state state;
    wane_scheduler_get_state(server->scheduler, &state);
    if (state.stuck) say_stuck(&state, why, room);
    return state.stuck;
}

static void *watch(void *argument) {
    struct wane__alerts *a = argument;
    pthread_mutex_lock(&a->lock);
    while (!a->ending) {
        wane__os_cond_wait(&a->woken, &a->lock, wane__now() + a->tick);
        if (a->ending) break;
        pthread_mutex_unlock(&a->lock);
        wane__alerts_look(a->server);
        pthread_mutex_lock(&a->lock);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* ----------------------------------------------------------------------- hooks */

/* Under the board's lock: it makes the message and queues it. */
static void on_change(void *user, const struct wane__alert_change *change) {
    struct wane__alerts *a = user;
    const struct wane__alert_facts facts = {.host = a->host,
                                            .instance = a->instance,
                                            .model = wane_model_get_facts(a->server->model)->name,
                                            .version = wane_version(),
                                            .port = a->server->port};
    for (int i = 0; i < WANE__ALERT_HOOKS; i++) {
        struct wane__buf body = {0};
        bool breakers = a->hook[i] != NULL && i == 2;
        if (a->hook[i] == NULL || (breakers && change->alert != WANE__ALERT_GATE_BREAKER)) continue;
        if (!wane__alert_body(change, &facts, &body)) wane__buf_free(&body);
        wane__hook_push(a->hook[i], change, body.data, body.size);
    }
}

static int add_hook(struct wane__alerts *a, int which, const char *name, wane__hook_fn send, void *user,
                    const wane_alert_options *o, wane_error *error) {
    struct wane__hook_options options = {.name = name,
                                         .send = send,
                                         .user = user,
                                         .attempts = which == 2 ? 1 : o->attempts,
                                         .first = 1e-3 * o->retry_ms,
                                         .most = RETRY_SECONDS_MOST,
                                         .log = &a->server->log};
    if (!wane__os_random(&options.seed, sizeof options.seed)) options.seed = (uint64_t)wane__date_ms();
    if (options.most < options.first) options.most = options.first;
    return wane__hook_new(&options, &a->hook[which], error);
}

static int check_range(const char *name, int value, int least, int most, wane_error *error) {
    if (value >= least && value <= most) return WANE_OK;
    return wane__fail(error, WANE_EINVAL, "the alerts' %s: %d is not allowed; it must be %d to %d", name,
                      value, least, most);
}

static int check_options(const wane_alert_options *o, wane_error *error) {
    if (o->size != sizeof *o)
        return wane__fail(error, WANE_EINVAL, "the alerts' options were not initialised");
    int code = check_range("attempts", o->attempts, 1, 20, error);
    if (code == WANE_OK) code = check_range("timeout_ms", o->timeout_ms, 100, 600000, error);
    if (code == WANE_OK) code = check_range("retry_ms", o->retry_ms, 10, 600000, error);
    if (code == WANE_OK) code = check_range("reload_failures", o->reload_failures, 1, 1000, error);
    if (code == WANE_OK && o->secret_file != NULL && o->url == NULL)
        code =
            wane__fail(error, WANE_EINVAL, "a secret for alerts signs what is posted, and no URL was given");
    return code;
}

static int copy_command(struct wane__alert_command *to, const char *command, int timeout_ms, bool breaker,
                        wane_error *error) {
    to->command = wane__copy_string(command);
    to->timeout_ms = timeout_ms;
    to->breaker = breaker;
    return to->command != NULL ? WANE_OK
                               : wane__fail(error, WANE_ENOMEM, "no memory for the alerts' command");
}

static int open_hooks(struct wane__alerts *a, const wane_alert_options *o, wane_error *error) {
    int code = WANE_OK;
    if (o->url != NULL) {
        code = wane__post_new(o->url, o->secret_file, o->timeout_ms, &a->post, error);
        if (code == WANE_OK) code = add_hook(a, 0, "url", wane__post_send, a->post, o, error);
    }
    if (code == WANE_OK && o->command != NULL) {
        code = copy_command(&a->command, o->command, o->timeout_ms, false, error);
        if (code == WANE_OK) code = add_hook(a, 1, "command", wane__command_send, &a->command, o, error);
    }
    if (code == WANE_OK && o->breaker_command != NULL) {
        code = copy_command(&a->breaker, o->breaker_command, o->timeout_ms, true, error);
        if (code == WANE_OK)
            code = add_hook(a, 2, "breaker_command", wane__command_send, &a->breaker, o, error);
    }
    return code;
}

struct wane__hook *wane__alerts_hook(struct wane_server *server, int which, const char **target) {
    struct wane__alerts *a = server->alerts;
    *target = "";
    if (a == NULL || a->hook[which] == NULL) return NULL;
    *target = which == 0 ? wane__post_target(a->post) : "/bin/sh";
    return a->hook[which];
}

/* ----------------------------------------------------------------- open, close */

static int name_instance(struct wane__alerts *a, wane_error *error) {
    unsigned char bytes[8];
    if (!wane__os_random(bytes, sizeof bytes))
        return wane__fail(error, WANE_EIO, "the system gave no random number");
    for (size_t i = 0; i < sizeof bytes; i++) snprintf(a->instance + 2 * i, 3, "%02x", bytes[i]);
    if (gethostname(a->host, sizeof a->host) != 0) a->host[0] = '\0';
    a->host[sizeof a->host - 1] = '\0';
    return WANE_OK;
}

int wane__server_open_alerts(struct wane_server *server, const wane_alert_options *options,
                             wane_error *error) {
    wane_alert_options usual;
    wane_alert_options_init(&usual);
    if (options == NULL) options = &usual;
    int code = check_options(options, error);
    if (code != WANE_OK) return code;
    struct wane__alerts *a = wane__alloc_zero(1, sizeof *a);
    if (a == NULL) return wane__fail(error, WANE_ENOMEM, "no memory for alerts");
    a->server = server;
    a->reload_failures = (uint64_t)options->reload_failures;
    pthread_mutex_init(&a->looking, NULL);
    pthread_mutex_init(&a->lock, NULL);
    wane__os_cond_init(&a->woken);
    server->alerts = a;
    code = name_instance(a, error);
    if (code == WANE_OK) code = wane__board_new(&server->log, NULL, NULL, &a->board, error);
    if (code == WANE_OK) code = open_hooks(a, options, error);
    if (code == WANE_OK) wane__board_listen(a->board, on_change, a);
    return code; /* whoever frees the server closes them */
}

int wane__server_watch(struct wane_server *server, wane_error *error) {
    struct wane__alerts *a = server->alerts;
    sigset_t all, before;
    a->tick = wane_scheduler_watch_seconds(server->scheduler);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    a->running = wane__os_thread_start(&a->thread, watch, a) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return a->running ? WANE_OK : wane__fail(error, WANE_ENOMEM, "no thread to watch the server");
}

void wane__server_unwatch(struct wane_server *server) {
    struct wane__alerts *a = server->alerts;
    if (a == NULL || !a->running) return;
    pthread_mutex_lock(&a->lock);
    a->ending = true;
    pthread_cond_signal(&a->woken);
    pthread_mutex_unlock(&a->lock);
    pthread_join(a->thread, NULL);
    a->running = false;
}

void wane__server_close_alerts(struct wane_server *server) {
    struct wane__alerts *a = server->alerts;
    if (a == NULL) return;
    wane__server_unwatch(server);
    double until = wane__now() + LAST_WORDS_SECONDS;
    for (int i = 0; i < WANE__ALERT_HOOKS; i++) {
        double left = until - wane__now();
        wane__hook_free(a->hook[i], left > 0 ? left : 0);
    }
    wane__post_free(a->post);
    wane__free((char *)(uintptr_t)a->command.command);
    wane__free((char *)(uintptr_t)a->breaker.command);
    wane__board_free(a->board);
    pthread_cond_destroy(&a->woken);
    pthread_mutex_destroy(&a->lock);
    pthread_mutex_destroy(&a->looking);
    server->alerts = NULL;
    wane__free(a);
}
