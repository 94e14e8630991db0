/*
 * scheduler.c - the public side of the scheduler: making it, submitting, cancelling, stopping, looking at it.
 *
 * Owns the queue. Refuses, on the caller's thread and before anything is queued, whatever can be known to be
 * wrong, so that what reaches the engine thread can only fail in the engine.
 */
#include "server/scheduler_internal.h"

#include "core/clock.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/os.h"
#include "core/tokens.h"
#include "draft_practice.h"

#include <limits.h>
#include <math.h>
#include <signal.h>
#include <string.h>

/* ------------------------------------------------------------- making, freeing */

void wane_scheduler_options_init(wane_scheduler_options *options) {
    *options = (wane_scheduler_options){
        .size = sizeof *options,
        .queue = 64,
        .window_ms = 5,
        .max_batch_requests = 32,
        .prompt_chunk = 128,
        .prompt_share = 4,
        .watchdog_ms = 10000,
    };
}

static int check_range(const char *name, int value, int low, int high, wane_error *error) {
    if (value >= low && value <= high) return WANE_OK;
    return wane__fail(error, WANE_EINVAL, "The scheduler option %s is %d; it must be %d to %d.", name, value,
                      low, high);
}

static int read_options(const wane_scheduler_options *given, wane_scheduler_options *out, wane_error *error) {
    wane_scheduler_options_init(out);
    if (given == NULL) return WANE_OK;
    if (given->size != sizeof *given)
        return wane__fail(error, WANE_EINVAL,
                          "The scheduler options were not set up by wane_scheduler_options_init.");
    *out = *given;
    int rc = check_range("queue", out->queue, 0, 1000000, error);
    if (rc == WANE_OK) rc = check_range("window_ms", out->window_ms, 0, 10000, error);
    if (rc == WANE_OK)
        rc = check_range("max_batch_requests", out->max_batch_requests, 1, WANE__MAX_SLOTS, error);
    if (rc == WANE_OK) rc = check_range("practice_ms", out->practice_ms, 0, 600000, error);
    if (rc == WANE_OK) rc = check_range("prompt_chunk", out->prompt_chunk, 1, 1000000, error);
    if (rc == WANE_OK) rc = check_range("prompt_share", out->prompt_share, 0, 1000000, error);
    if (rc == WANE_OK) rc = check_range("watchdog_ms", out->watchdog_ms, 0, 86400000, error);
    return rc;
}

static void scheduler_release(wane_scheduler *s) {
    for (int i = 0; i < s->slot_count; i++) {
        wane__ahead_free(&s->slot[i].ahead);
        wane_tokens_free(&s->slot[i].cache);
        wane__free(s->slot[i].tenant);
    }
    wane__free(s->items);
    wane__log_close(&s->log);
    pthread_cond_destroy(&s->work);
    pthread_cond_destroy(&s->idle);
    pthread_mutex_destroy(&s->lock);
    wane__free(s);
}

static wane_scheduler *scheduler_alloc(wane_model *model, const wane_scheduler_options *options) {
    wane_scheduler *s = wane__alloc_zero(1, sizeof *s);
    if (s == NULL) return NULL;
    s->model = model;
    s->engine = model->engine;
    s->options = *options;
    s->slot_count = model->engine->facts.sequences;
    wane__watchdog_init(&s->watchdog, 1e-3 * options->watchdog_ms);
    s->cutoff = INFINITY;
    for (int i = 0; i < s->slot_count; i++) s->slot[i].seq = i;
    wane__log_init(&s->log, options->log, options->log_user);
    pthread_mutex_init(&s->lock, NULL);
    wane__os_cond_init(&s->work);
    wane__os_cond_init(&s->idle);
    s->items = wane__alloc_zero((size_t)s->engine->batch, sizeof *s->items);
    if (s->items != NULL) return s;
    scheduler_release(s);
    return NULL;
}

/* Signals are the program's business: none is delivered on the engine thread, or on those that it starts. */
static int start_thread(wane_scheduler *s) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = wane__os_thread_start(&s->thread, wane__scheduler_run, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

int wane_scheduler_new(wane_model *model, const wane_scheduler_options *options, wane_scheduler **scheduler,
                       wane_error *error) {
    wane__clear(error);
    if (model == NULL || scheduler == NULL)
        return wane__fail(error, WANE_EINVAL, "The model or the place for the scheduler is NULL.");
    *scheduler = NULL;
    wane_scheduler_options checked;
    int rc = read_options(options, &checked, error);
    if (rc != WANE_OK) return rc;
    int sequences = model->engine->facts.sequences;
    if (sequences < 1 || sequences > WANE__MAX_SLOTS || model->engine->batch < 1)
        return wane__fail(error, WANE_EUNSUPPORTED,
                          "This model was loaded with %d sequences; a scheduler needs 1 to %d.", sequences,
                          WANE__MAX_SLOTS);
    if (wane__model_take(model, error) != WANE_OK) return WANE_EBUSY;
    wane_scheduler *s = scheduler_alloc(model, &checked);
    if (s == NULL) {
        wane__model_give(model);
        return wane__fail(error, WANE_ENOMEM, "No memory for a scheduler.");
    }
    if (checked.drill) wane__vote_drill(s);
    wane__drafts_practise(&model->drafts, 1e-3 * checked.practice_ms);
    if (start_thread(s) != 0) {
        scheduler_release(s);
        wane__model_give(model);
        return wane__fail(error, WANE_ENOMEM, "The engine thread could not be started.");
    }
    *scheduler = s;
    return WANE_OK;
}

void wane_scheduler_free(wane_scheduler *s) {
    if (s == NULL) return;
    wane_scheduler_stop(s, 0);
    pthread_join(s->thread, NULL);
    /* The next one to stand on this model finds it as it was after loading. */
    for (int i = 0; i < s->slot_count; i++) s->engine->ops->truncate(s->engine, i, 0);
    s->engine->ops->set_hook(s->engine, NULL, NULL);
    wane_model *model = s->model;
    scheduler_release(s);
    wane__model_give(model);
}

/* ------------------------------------------------------------------- the queue */

static void poke(wane_scheduler *s) {
    s->poked = true;
    pthread_cond_signal(&s->work);
}

static void enqueue(wane_scheduler *s, wane_ticket *t) {
    t->queued = true;
    t->serial = ++s->serial;
    if (s->last != NULL)
        s->last->next = t;
    else
        s->first = t;
    s->last = t;
    s->queued++;
    s->counts.accepted++;
}

void wane__scheduler_unlink(wane_scheduler *s, wane_ticket *t) {
    wane_ticket *before = NULL;
    for (wane_ticket *at = s->first; at != t; at = at->next) before = at;
    if (before != NULL)
        before->next = t->next;
    else
        s->first = t->next;
    if (s->last == t) s->last = before;
    t->next = NULL;
    t->queued = false;
    s->queued--;
}

/* ------------------------------------------------------------------ submitting */

static int check_request(const wane_scheduler *s, const int32_t *tokens, size_t count,
                         const wane_generation *generation, wane_error *error) {
    const wane_model_facts *facts = &s->engine->facts;
    if (generation == NULL) return wane__fail(error, WANE_EINVAL, "The generation options are NULL.");
    int rc = wane_generation_check(generation, facts->vocab_size, error);
    if (rc != WANE_OK) return rc;
    if (tokens == NULL || count == 0)
        return wane__fail(error, WANE_EINVAL, "The prompt is empty: give at least one token.");
    if (count >= (size_t)facts->context)
        return wane__fail(error, WANE_ECONTEXT,
                          "The prompt has %zu tokens; the context holds %d, and one is needed for the reply.",
                          count, facts->context);
    return wane__tokens_check(tokens, count, facts->vocab_size, error);
}

/* Under the lock: a place in the queue, before the work of making a ticket is done. Free slots are places too. */
static int reserve_place(wane_scheduler *s, wane_error *error) {
    if (s->stopping) return wane__fail(error, WANE_ESHUTDOWN, "The scheduler is stopping.");
    int waiting = s->queued + s->reserved - (s->slot_count - s->busy);
    if (waiting >= s->options.queue)
        return wane__fail(error, WANE_EBUSY,
                          "%d requests run and %d wait, which is all that may: try again later.", s->busy,
                          s->queued);
    s->reserved++;
    return WANE_OK;
}

static double deadline_of(const wane_scheduler *s, const wane_generation *generation, double now) {
    uint32_t ms = generation->deadline_ms;
    if (s->options.max_ms != 0 && (ms == 0 || s->options.max_ms < ms)) ms = s->options.max_ms;
    return ms == 0 ? INFINITY : now + 1e-3 * ms;
}

static int refuse(wane_scheduler *s, int code) {
    pthread_mutex_lock(&s->lock);
    s->counts.refused++;
    pthread_mutex_unlock(&s->lock);
    return code;
}

int wane_scheduler_submit(wane_scheduler *s, const int32_t *tokens, size_t count,
                          const wane_generation *generation, wane_ticket **ticket, wane_error *error) {
    return wane__scheduler_submit(s, tokens, count, generation, NULL, ticket, error);
}

int wane__scheduler_submit(wane_scheduler *s, const int32_t *tokens, size_t count,
                           const wane_generation *generation, const struct wane__watch *watch,
                           wane_ticket **ticket, wane_error *error) {
    wane__clear(error);
    if (s == NULL || ticket == NULL)
        return wane__fail(error, WANE_EINVAL, "The scheduler or the place for the ticket is NULL.");
    *ticket = NULL;
    double now = wane__now();
    int rc = check_request(s, tokens, count, generation, error);
    if (rc != WANE_OK) return refuse(s, rc);

    pthread_mutex_lock(&s->lock);
    rc = reserve_place(s, error);
    pthread_mutex_unlock(&s->lock);
    if (rc != WANE_OK) return refuse(s, rc);

    wane_ticket *t = NULL;
    rc = wane__ticket_new(s, &s->model->rows, tokens, count, generation, &t, error);
    pthread_mutex_lock(&s->lock);
    s->reserved--;
    if (rc == WANE_OK && s->stopping) rc = wane__fail(error, WANE_ESHUTDOWN, "The scheduler is stopping.");
    if (rc == WANE_OK) {
        t->submitted = now;
        t->deadline = deadline_of(s, generation, now);
        if (watch != NULL) t->watch = *watch;
        *ticket = t;
        enqueue(s, t);
        poke(s);
    }
    pthread_mutex_unlock(&s->lock);
    if (rc == WANE_OK) return WANE_OK;
    if (t != NULL) { /* nobody else knows it */
        wane__ticket_release(t);
        wane__ticket_release(t);
    }
    return refuse(s, rc);
}

/* ------------------------------------------------------------------ cancelling */

bool wane__scheduler_abandoned(const wane_scheduler *s) {
    for (int i = 0; i < s->call.members; i++) {
        if (!atomic_load_explicit(&s->call.member[i]->cancelled, memory_order_relaxed)) return false;
    }
    return s->call.members > 0;
}

/* Under the lock: cut the running call short. The engine thread takes the interrupt back afterwards. */
static void interrupt_call(wane_scheduler *s) {
    if (s->call.members == 0 || s->call.interrupted) return;
    s->call.interrupted = true;
    s->engine->ops->interrupt(s->engine, true);
}

void wane__scheduler_cancel(wane_scheduler *s, wane_ticket *t) {
    pthread_mutex_lock(&s->lock);
    atomic_store_explicit(&t->cancelled, true, memory_order_relaxed);
    bool waiting = t->queued;
    if (waiting) {
        wane__scheduler_unlink(s, t);
        wane__scheduler_count(&s->counts, WANE_ECANCELLED);
    } else if (wane__scheduler_abandoned(s)) {
        interrupt_call(s);
    }
    poke(s);
    pthread_mutex_unlock(&s->lock);
    if (waiting) wane__ticket_finish(t, NULL, WANE_ECANCELLED, "The request was cancelled while it waited.");
}

void wane__scheduler_wake(wane_scheduler *s) {
    pthread_mutex_lock(&s->lock);
    poke(s);
    pthread_mutex_unlock(&s->lock);
}

/* -------------------------------------------------------------------- stopping */

void wane_scheduler_stop(wane_scheduler *s, uint32_t grace_ms) {
    if (s == NULL) return;
    double cutoff = wane__now() + 1e-3 * grace_ms;
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    if (cutoff < s->cutoff) s->cutoff = cutoff;
    poke(s);
    while (!s->gone) {
        if (wane__now() < s->cutoff) {
            wane__os_cond_wait(&s->idle, &s->lock, s->cutoff);
        } else {
            interrupt_call(s);
            poke(s);
            pthread_cond_wait(&s->idle, &s->lock);
        }
    }
    pthread_mutex_unlock(&s->lock);
}

/* --------------------------------------------------------------------- looking */

double wane_scheduler_watch_seconds(const wane_scheduler *s) {
    return wane__watchdog_tick(&s->watchdog);
}

void wane_scheduler_get_state(wane_scheduler *s, wane_scheduler_state *state) {
    pthread_mutex_lock(&s->lock);
    *state = s->counts;
    state->slots = s->slot_count;
    state->slots_busy = s->busy;
    state->queued = s->queued;
    state->stopping = s->stopping;
    state->stuck = wane__watchdog_look(&s->watchdog, wane__now());
    state->stuck_calls = s->watchdog.trips;
    state->call_sequences = s->call.members;
    state->call_seconds = s->watchdog.age;
    state->call_bound = wane__watchdog_bound(&s->watchdog);
    pthread_mutex_unlock(&s->lock);
}
