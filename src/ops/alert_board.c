/*
 * alert_board.c - owns the conditions' states. Refuses to call anybody who might wait: what is told goes to listeners that queue.
 */
#include "ops/alert_board.h"

#include "core/clock.h"
#include "core/error.h"
#include "core/memory.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[WANE__ALERTS] = {"gate_breaker",     "head_divergence", "table_divergence",
                                                "draft_divergence", "memo_divergence", "table_reload",
                                                "stuck_decode",     "audit_failing",   "rollout_step_back"};

struct wane__board {
    pthread_mutex_t lock;
    struct wane__log *log;
    int64_t (*date)(void *user);
    void *date_user;
    struct wane__alert_view view[WANE__ALERTS];
    uint64_t sequence;
    struct {
        wane__alert_fn fn;
        void *user;
    } listener[WANE__BOARD_LISTENERS];
    int listeners;
    wane__break_fn broke;
    void *broke_user;
};

const char *wane__alert_name(enum wane__alert alert) {
    return (unsigned)alert < WANE__ALERTS ? names[alert] : "?";
}

static int64_t clock_date(void *user) {
    (void)user;
    return wane__date_ms();
}

int wane__board_new(struct wane__log *log, int64_t (*date)(void *user), void *user,
                    struct wane__board **board, wane_error *error) {
    *board = wane__alloc_zero(1, sizeof **board);
    if (*board == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a board of alerts.");
    pthread_mutex_init(&(*board)->lock, NULL);
    (*board)->log = log;
    (*board)->date = date != NULL ? date : clock_date;
    (*board)->date_user = user;
    return WANE_OK;
}

void wane__board_free(struct wane__board *board) {
    if (board == NULL) return;
    pthread_mutex_destroy(&board->lock);
    wane__free(board);
}

bool wane__board_listen(struct wane__board *board, wane__alert_fn fn, void *user) {
    if (board->listeners == WANE__BOARD_LISTENERS) return false;
    board->listener[board->listeners].fn = fn;
    board->listener[board->listeners++].user = user;
    return true;
}

void wane__board_on_break(struct wane__board *board, wane__break_fn fn, void *user) {
    pthread_mutex_lock(&board->lock);
    board->broke = fn;
    board->broke_user = user;
    pthread_mutex_unlock(&board->lock);
}

/* ---------------------------------------------------------------------- reasons */

/* Bytes of the character that begins here, 0: it is none that may stand in a line of text. */
static size_t character(const unsigned char *at) {
    static const unsigned char least_second[] = {[0xe0 - 0xe0] = 0xa0, [0xf0 - 0xe0] = 0x90};
    static const unsigned char most_second[] = {[0xed - 0xe0] = 0x9f, [0xf4 - 0xe0] = 0x8f};
    unsigned char first = at[0];
    if (first < 0x80) return first >= 0x20 && first != 0x7f;
    size_t size = first >= 0xc2 && first <= 0xdf   ? 2
                  : first >= 0xe0 && first <= 0xef ? 3
                  : first >= 0xf0 && first <= 0xf4 ? 4
                                                   : 0;
    for (size_t i = 1; i < size; i++)
        if ((at[i] & 0xc0) != 0x80) return 0; /* the text's end is none either */
    if (size >= 3) {
        size_t which = first - 0xe0u;
        unsigned char low = which < sizeof least_second ? least_second[which] : 0;
        unsigned char high = which < sizeof most_second ? most_second[which] : 0;
        if (at[1] < low || (high != 0 && at[1] > high)) return 0;
    }
    return size;
}

/* Paths and other programs' words may be in it: whatever is no text becomes a question mark, and no character is cut. */
static void clean(const char *text, char *out, size_t room) {
    size_t used = 0;
    while (*text != '\0') {
        size_t size = character((const unsigned char *)text);
        if (used + (size > 0 ? size : 1) >= room) break;
        if (size == 0) {
            out[used++] = '?';
            text++;
            continue;
        }
        memcpy(out + used, text, size);
        used += size;
        text += size;
    }
    out[used] = '\0';
}

static void write_reason(char *out, size_t room, const char *format, va_list args) {
    char raw[1000];
    vsnprintf(raw, sizeof raw, format, args);
    clean(raw, out, room);
}

/* --------------------------------------------------------------------- changes */

/* Under the lock. */
static void tell(struct wane__board *board, enum wane__alert alert) {
    struct wane__alert_change change = {.alert = alert,
                                        .sequence = ++board->sequence,
                                        .view = board->view[alert]};
    wane__log(board->log, change.view.raised ? WANE_LOG_ERROR : WANE_LOG_INFO, "alert %s %s: %s",
              names[alert], change.view.raised ? "raised" : "cleared", change.view.reason);
    for (int i = 0; i < board->listeners; i++) board->listener[i].fn(board->listener[i].user, &change);
}

/* Under the lock. `anew`: also where it is raised already. */
static bool raise_one(struct wane__board *board, enum wane__alert alert, const char *reason, bool anew) {
    struct wane__alert_view *view = &board->view[alert];
    bool changed = !view->raised || anew;
    snprintf(view->reason, sizeof view->reason, "%s", reason);
    if (!changed) return false;
    view->raised = true;
    view->count++;
    view->raised_at = view->changed_at = board->date(board->date_user);
    tell(board, alert);
    return true;
}

bool wane__board_raise(struct wane__board *board, enum wane__alert alert, const char *format, ...) {
    char reason[sizeof board->view[0].reason];
    va_list args;
    if (board == NULL) return false;
    va_start(args, format);
    write_reason(reason, sizeof reason, format, args);
    va_end(args);
    pthread_mutex_lock(&board->lock);
    bool changed = raise_one(board, alert, reason, false);
    pthread_mutex_unlock(&board->lock);
    return changed;
}

bool wane__board_clear(struct wane__board *board, enum wane__alert alert, const char *format, ...) {
    char reason[sizeof board->view[0].reason];
    va_list args;
    if (board == NULL) return false;
    va_start(args, format);
    write_reason(reason, sizeof reason, format, args);
    va_end(args);
    pthread_mutex_lock(&board->lock);
    struct wane__alert_view *view = &board->view[alert];
    bool changed = view->raised;
    if (changed) {
        view->raised = false;
        view->changed_at = board->date(board->date_user);
        memcpy(view->reason, reason, sizeof view->reason);
        tell(board, alert);
    }
    pthread_mutex_unlock(&board->lock);
    return changed;
}

void wane__board_break(struct wane__board *board, enum wane__alert alert, const char *feature,
                       const char *format, ...) {
    char reason[sizeof board->view[0].reason];
    va_list args;
    if (board == NULL) return;
    va_start(args, format);
    write_reason(reason, sizeof reason, format, args);
    va_end(args);
    pthread_mutex_lock(&board->lock);
    raise_one(board, alert, reason, true);
    wane__break_fn broke = board->broke;
    void *user = board->broke_user;
    pthread_mutex_unlock(&board->lock);
    if (broke != NULL) broke(user, feature, reason);
}

void wane__board_view(struct wane__board *board, enum wane__alert alert, struct wane__alert_view *view) {
    *view = (struct wane__alert_view){0};
    if (board == NULL) return;
    pthread_mutex_lock(&board->lock);
    *view = board->view[alert];
    pthread_mutex_unlock(&board->lock);
}

/* ------------------------------------------------------------------------ JSON */

void wane__alert_date(int64_t ms, char out[32]) {
    time_t seconds = (time_t)(ms / 1000);
    struct tm utc;
    out[0] = '\0';
    if (ms <= 0 || gmtime_r(&seconds, &utc) == NULL) return;
    size_t used = strftime(out, 32, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(out + used, 32 - used, ".%03dZ", (int)(ms % 1000));
}

/* What came from outside the board may be no UTF-8. */
static json_t *text_of(const char *text) {
    char out[300];
    clean(text != NULL ? text : "", out, sizeof out);
    return json_string(out);
}

bool wane__alert_body(const struct wane__alert_change *change, const struct wane__alert_facts *facts,
                      struct wane__buf *out) {
    char at[32], since[32];
    const struct wane__alert_view *view = &change->view;
    wane__alert_date(view->changed_at, at);
    wane__alert_date(view->raised_at, since);
    json_t *all = json_pack("{s:s, s:I, s:s, s:s, s:s, s:I, s:s, s:s}", "schema", "wane.alert/1", "sequence",
                            (json_int_t)change->sequence, "name", wane__alert_name(change->alert), "state",
                            view->raised ? "raised" : "cleared", "reason", view->reason, "count",
                            (json_int_t)view->count, "at", at, "raised_at", since);
    bool fine = all != NULL && json_object_set_new(all, "instance", text_of(facts->instance)) == 0 &&
                json_object_set_new(all, "host", text_of(facts->host)) == 0 &&
                json_object_set_new(all, "port", json_integer(facts->port)) == 0 &&
                json_object_set_new(all, "model", text_of(facts->model)) == 0 &&
                json_object_set_new(all, "version", text_of(facts->version)) == 0;
    char *text = fine ? json_dumps(all, JSON_COMPACT) : NULL;
    fine = text != NULL && wane__buf_text(out, text);
    free(text);
    json_decref(all);
    return fine;
}
