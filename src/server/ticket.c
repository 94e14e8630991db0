/*
 * ticket.c - owns a request's event buffers and its lifetime; refuses to lose an event or to make the engine
 * thread wait for a reader. Lock order: a ticket's lock is never held while the scheduler's is taken.
 */
#include "server/ticket.h"

#include "core/bytes.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/os.h"
#include "record.h"
#include "server/scheduler_internal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ lifetime */

static wane_ticket *blank(const char *tenant, wane_error *error) {
    wane_ticket *t = wane__alloc_zero(1, sizeof *t);
    if (t != NULL) t->tenant = wane__copy_string(tenant != NULL ? tenant : "");
    if (t == NULL || t->tenant == NULL) {
        wane__free(t);
        wane__fail(error, WANE_ENOMEM, "No memory for a request.");
        return NULL;
    }
    t->deadline = INFINITY;
    atomic_init(&t->cancelled, false);
    atomic_init(&t->over, false);
    pthread_mutex_init(&t->lock, NULL);
    wane__os_cond_init(&t->changed);
    return t;
}

static void discard(wane_ticket *t) {
    if (t->first != NULL) wane__account_add(&t->first->reply.account, &t->reply.account);
    if (t->watch.ended != NULL) t->watch.ended(t->watch.user, &t->ended);
    wane__reply_free(&t->reply);
    if (t->first == NULL) wane__vote_free(t->vote);
    wane__buf_free(&t->inbox);
    wane__buf_free(&t->outbox);
    wane__free(t->tenant);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    wane__free(t);
}

int wane__ticket_new(struct wane_scheduler *scheduler, struct wane__rows *rows, const int32_t *tokens,
                     size_t count, const wane_generation *generation, wane_ticket **ticket,
                     wane_error *error) {
    wane_ticket *t = blank(generation->tenant, error);
    if (t == NULL) return WANE_ENOMEM;
    int rc = WANE_OK;
    if (wane__vote_possible(generation)) {
        rc = wane__vote_new(generation, &t->vote, error);
        if (rc == WANE_OK) generation = &t->vote->wish;
    }
    if (rc == WANE_OK) rc = wane__reply_init(&t->reply, rows, tokens, count, generation, error);
    if (rc != WANE_OK) {
        discard(t);
        return rc;
    }
    if (t->vote != NULL) wane__vote_begin(t->vote, &t->reply);
    t->scheduler = scheduler;
    atomic_init(&t->holders, 2);
    *ticket = t;
    return WANE_OK;
}

int wane__ticket_branch(wane_ticket *first, int answer, const struct wane__reply *reply, wane_ticket **ticket,
                        wane_error *error) {
    wane_ticket *t = blank(first->tenant, error);
    if (t == NULL) return WANE_ENOMEM;
    t->reply = *reply;
    t->scheduler = first->scheduler;
    t->serial = first->serial;
    t->submitted = first->submitted;
    t->deadline = first->deadline;
    t->started = true; /* nobody is told */
    t->vote = first->vote;
    t->first = first;
    t->answer = answer;
    atomic_init(&t->holders, 1);
    *ticket = t;
    return WANE_OK;
}

void wane__ticket_release(wane_ticket *t) {
    if (atomic_fetch_sub_explicit(&t->holders, 1, memory_order_acq_rel) == 1) discard(t);
}

/* -------------------------------------------------------------------- events */

/*
 * A record in a buffer, padded to 8 bytes so that the next one is aligned:
 *
 *     [wane_event, pointers unused][size of stop][top_count × wane_logprob][text][chosen text][others][stop, with its zero]
 */
struct record {
    wane_event event;
    size_t stop_size; /* 0: none; else with the zero */
};

static bool record_append(struct wane__buf *buf, const wane_event *event) {
    static const char zeros[8] = {0};
    struct record head;
    memset(&head, 0, sizeof head);
    head.event = *event;
    head.stop_size = event->stop != NULL ? strlen(event->stop) + 1 : 0;
    size_t top_size = (size_t)event->top_count * sizeof *event->top;
    size_t view_size = event->view != NULL ? sizeof *event->view : 0;
    size_t size = sizeof head + view_size + top_size + event->text_size + event->chosen_size + head.stop_size;
    for (int i = 0; i < event->other_count; i++) size += event->other_size[i];
    if (!wane__buf_reserve(buf, wane__padded(size))) return false;
    wane__buf_append(buf, &head, sizeof head);
    wane__buf_append(buf, event->view, view_size);
    wane__buf_append(buf, event->top, top_size);
    wane__buf_append(buf, event->text, event->text_size);
    wane__buf_append(buf, event->chosen_text, event->chosen_size);
    for (int i = 0; i < event->other_count; i++) wane__buf_append(buf, event->other[i], event->other_size[i]);
    wane__buf_append(buf, event->stop, head.stop_size);
    wane__buf_append(buf, zeros, wane__padded(size) - size);
    return true;
}

/* The record at `at`, as an event that points into the buffer; returns where the next one starts. */
static size_t record_read(const struct wane__buf *buf, size_t at, wane_event *event) {
    struct record head;
    memcpy(&head, buf->data + at, sizeof head);
    *event = head.event;
    const char *body = buf->data + at + sizeof head;
    if (head.event.view != NULL) {
        event->view = (const void *)body;
        body += sizeof *event->view;
    }
    event->top = event->top_count > 0 ? (const void *)body : NULL;
    body += (size_t)event->top_count * sizeof *event->top;
    event->text = body;
    body += event->text_size;
    event->chosen_text = head.event.chosen_text != NULL ? body : NULL;
    body += event->chosen_size;
    for (int i = 0; i < event->other_count; i++) {
        event->other[i] = body;
        body += event->other_size[i];
    }
    event->stop = head.stop_size > 0 ? body : NULL;
    return wane__padded((size_t)(body - buf->data) + head.stop_size);
}

static bool post_locked(wane_ticket *t, const wane_event *event) {
    bool fine = record_append(&t->inbox, event);
    t->inbox.failed = false; /* nothing was half written: the error is reported, the rest stays readable */
    if (fine) t->inbox_events++;
    return fine;
}

bool wane__ticket_post(wane_ticket *t, const wane_event *event) {
    pthread_mutex_lock(&t->lock);
    bool fine = post_locked(t, event);
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->lock);
    return fine;
}

bool wane__event_keep(struct wane__buf *buf, const wane_event *event) {
    return record_append(buf, event);
}

bool wane__event_copy(struct wane__buf *to, const struct wane__buf *from, int events) {
    wane_event event;
    size_t at = 0;
    for (int i = 0; i < events && at < from->size; i++) at = record_read(from, at, &event);
    return at == 0 || wane__buf_append(to, from->data, at);
}

bool wane__ticket_post_kept(wane_ticket *t, const struct wane__buf *kept) {
    if (kept->size == 0) return true;
    int events = 0;
    wane_event event;
    for (size_t at = 0; at < kept->size; events++) at = record_read(kept, at, &event);
    pthread_mutex_lock(&t->lock);
    bool fine = wane__buf_append(&t->inbox, kept->data, kept->size);
    t->inbox.failed = false;
    if (fine) t->inbox_events += events;
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->lock);
    return fine;
}

bool wane__ticket_full(wane_ticket *t) {
    pthread_mutex_lock(&t->lock);
    bool full = t->inbox_events >= WANE__TICKET_BACKLOG;
    t->paused = full;
    pthread_mutex_unlock(&t->lock);
    return full;
}

void wane__ticket_times(const wane_ticket *t, wane_event *end) {
    end->reused_tokens = t->reused;
    end->queue_ms = 1e3 * (t->admitted - t->submitted);
    end->prompt_ms = 1e3 * (t->first_at - t->admitted);
    end->reply_ms = 1e3 * (wane__now() - t->first_at);
}

/* What the reply knows goes with it. */
static void note_end(wane_ticket *t, const wane_event *end, int code) {
    struct wane__ended *ended = &t->ended;
    *ended = (struct wane__ended){.code = code,
                                  .prompt_tokens = t->reply.prompt_count,
                                  .reused_tokens = t->reused,
                                  .reply_tokens = t->reply.reply_count,
                                  .ms = 1e3 * (wane__now() - t->submitted),
                                  .account = t->reply.account};
    if (end == NULL) return;
    ended->finish = end->finish;
    ended->reply_tokens = end->reply_tokens;
    ended->fuse = end->fuse;
    ended->fallback = end->fallback;
    ended->answers = end->answers;
    ended->chosen = end->chosen;
}

void wane__ticket_finish(wane_ticket *t, const wane_event *end, int code, const char *text) {
    if (t->reply.tap != NULL)
        wane__tap_end(t->reply.tap, WANE_FINISH_NONE, code); /* nothing new after an END */
    pthread_mutex_lock(&t->lock);
    if (end != NULL && !post_locked(t, end)) {
        code = WANE_ENOMEM;
        text = "No memory for the end of the reply.";
    }
    note_end(t, end, code);
    t->code = code;
    t->error.code = code;
    snprintf(t->error.text, sizeof t->error.text, "%s", text);
    atomic_store_explicit(&t->over, true, memory_order_release);
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->lock);
    /* `end` may point into the reply, so this comes last. The reader never looks at the reply. */
    wane__reply_free(&t->reply);
    memset(&t->reply, 0, sizeof t->reply);
    wane__ticket_release(t);
}

/* -------------------------------------------------------------- reader's side */

static int give_event(wane_ticket *t, wane_event *event, bool *ended) {
    t->cursor = record_read(&t->outbox, t->cursor, event);
    if (event->kind == WANE_EVENT_END) {
        t->given = true;
        if (ended != NULL) *ended = true;
    }
    return WANE_OK;
}

/* Under the lock: wait for an event or the end; false when the time is up. */
static bool wait_for_event(wane_ticket *t, uint32_t timeout_ms) {
    double until = wane__now() + 1e-3 * timeout_ms;
    while (t->inbox_events == 0 && !atomic_load_explicit(&t->over, memory_order_relaxed)) {
        if (wane__os_cond_wait(&t->changed, &t->lock, until) != ETIMEDOUT) continue;
        return t->inbox_events > 0 || atomic_load_explicit(&t->over, memory_order_relaxed);
    }
    return true;
}

/* Under the lock: what was used up becomes the inbox. Returns whether the scheduler waits for this. */
static bool take_inbox(wane_ticket *t) {
    struct wane__buf used = t->outbox;
    wane__buf_clear(&used);
    t->outbox = t->inbox;
    t->inbox = used;
    t->inbox_events = 0;
    t->cursor = 0;
    bool wake = t->paused;
    t->paused = false;
    return wake;
}

int wane_ticket_next(wane_ticket *t, uint32_t timeout_ms, wane_event *event, bool *ended, wane_error *error) {
    if (ended != NULL) *ended = false;
    wane__clear(error);
    if (t == NULL || event == NULL) return wane__fail(error, WANE_EINVAL, "The ticket or the event is NULL.");
    if (t->cursor < t->outbox.size) return give_event(t, event, ended);
    if (t->given) {
        if (ended != NULL) *ended = true;
        if (t->code != WANE_OK) return wane__fail(error, t->code, "%s", t->error.text);
        return wane__fail(error, WANE_EINVAL, "The end of this reply was given already.");
    }

    pthread_mutex_lock(&t->lock);
    if (!wait_for_event(t, timeout_ms)) {
        pthread_mutex_unlock(&t->lock);
        return wane__fail(error, WANE_ETIMEOUT, "There was no event within %u ms; the request goes on.",
                          timeout_ms);
    }
    if (t->inbox_events == 0) {
        pthread_mutex_unlock(&t->lock);
        t->given = true; /* `code` is fixed from here on, so it may be read without the lock */
        if (ended != NULL) *ended = true;
        return wane__fail(error, t->code, "%s", t->error.text);
    }
    bool wake = take_inbox(t);
    pthread_mutex_unlock(&t->lock);
    if (wake) wane__scheduler_wake(t->scheduler);
    return give_event(t, event, ended);
}

void wane_ticket_cancel(wane_ticket *t) {
    if (t == NULL) return;
    if (atomic_load_explicit(&t->over, memory_order_acquire)) return;
    wane__scheduler_cancel(t->scheduler, t);
}

void wane_ticket_free(wane_ticket *t) {
    if (t == NULL) return;
    wane_ticket_cancel(t);
    wane__ticket_release(t);
}
