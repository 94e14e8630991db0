/*
 * alert_hook.c - owns the queue and its thread. The lock is held for a few instructions; sending holds nothing. Refuses to let anybody
 * wait who raises an alert.
 */
#include "ops/alert_hook.h"

#include "core/clock.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/os.h"
#include "core/rng.h"

#include <math.h>
#include <signal.h>
#include <string.h>

struct wane__hook {
    struct wane__hook_options options;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    struct wane__hook_message ring[WANE__HOOK_QUEUE];
    int first, count;
    double due;     /* of the first one's next attempt */
    bool in_flight; /* the first one is being sent: it is not given up for others */
    struct wane__hook_counts counts;
    uint64_t chances;
    atomic_bool ending;
    bool closed;
    double until; /* what waits may go out */
    pthread_t thread;
    bool running;
};

double wane__hook_delay(double first, double most, int attempt, double chance) {
    double whole = first * ldexp(1, attempt > 30 ? 30 : attempt - 1);
    if (!(whole < most)) whole = most;
    return whole * (0.5 + 0.5 * chance);
}

bool wane__hook_is_ending(const struct wane__hook *hook) {
    return atomic_load_explicit(&hook->ending, memory_order_relaxed);
}

const char *wane__hook_name(const struct wane__hook *hook) {
    return hook->options.name;
}

/* ----------------------------------------------------------------------- queue */

static struct wane__hook_message *at(struct wane__hook *hook, int i) {
    return &hook->ring[(hook->first + i) % WANE__HOOK_QUEUE];
}

static void forget(struct wane__hook_message *message) {
    wane__free(message->body);
    *message = (struct wane__hook_message){0};
}

/* Under the lock. The oldest that is not on its way. */
static void drop_oldest(struct wane__hook *hook) {
    int which = hook->in_flight ? 1 : 0;
    forget(at(hook, which));
    if (which == 1) *at(hook, 1) = *at(hook, 0); /* the one on its way moves up */
    hook->first = (hook->first + 1) % WANE__HOOK_QUEUE;
    hook->count--;
    hook->counts.dropped++;
}

void wane__hook_push(struct wane__hook *hook, const struct wane__alert_change *change, char *body,
                     size_t body_size) {
    pthread_mutex_lock(&hook->lock);
    if (body == NULL || hook->closed) {
        hook->counts.dropped++;
        pthread_mutex_unlock(&hook->lock);
        wane__free(body);
        return;
    }
    if (hook->count == WANE__HOOK_QUEUE) drop_oldest(hook);
    *at(hook, hook->count) =
        (struct wane__hook_message){.change = *change, .body = body, .body_size = body_size};
    if (hook->count++ == 0) hook->due = 0;
    pthread_cond_signal(&hook->woken);
    pthread_mutex_unlock(&hook->lock);
}

/* ------------------------------------------------------------------------ send */

static void say(struct wane__hook *hook, const struct wane__hook_message *m, enum wane__hook_result result,
                const char *why, double delay) {
    const char *name = wane__alert_name(m->change.alert);
    if (result == WANE__HOOK_LATER)
        wane__log(hook->options.log, WANE_LOG_WARN, "alert %s: the %s did not take it (%s); again in %.1f s",
                  name, hook->options.name, why, delay);
    if (result == WANE__HOOK_NEVER)
        wane__log(hook->options.log, WANE_LOG_ERROR,
                  "alert %s: the %s did not take it (%s); given up after %d of %d "
                  "attempts",
                  name, hook->options.name, why, m->attempt, hook->options.attempts);
}

/* Under the lock: the first message is done with, or goes out again later. */
static void settle(struct wane__hook *hook, enum wane__hook_result result, double now, double delay) {
    hook->in_flight = false;
    if (result == WANE__HOOK_LATER) {
        hook->due = now + delay;
        hook->counts.retried++;
        return;
    }
    if (result == WANE__HOOK_DELIVERED)
        hook->counts.delivered++;
    else
        hook->counts.failed++;
    forget(at(hook, 0));
    hook->first = (hook->first + 1) % WANE__HOOK_QUEUE;
    hook->count--;
    hook->due = 0;
}

double wane__hook_step(struct wane__hook *hook, double now) {
    const struct wane__hook_options *o = &hook->options;
    char why[200] = "";
    pthread_mutex_lock(&hook->lock);
    if (hook->count == 0 || hook->due > now) {
        double due = hook->count == 0 ? (double)INFINITY : hook->due;
        pthread_mutex_unlock(&hook->lock);
        return due;
    }
    at(hook, 0)->attempt++;
    hook->in_flight = true;
    struct wane__hook_message message = *at(hook, 0); /* its body stays: nobody frees what is in flight */
    pthread_mutex_unlock(&hook->lock);

    enum wane__hook_result result = o->send(o->user, hook, &message, why);
    double delay = 0;
    if (result == WANE__HOOK_LATER && message.attempt >= o->attempts) result = WANE__HOOK_NEVER;
    if (result == WANE__HOOK_LATER)
        delay =
            wane__hook_delay(o->first, o->most, message.attempt, wane__random_unit(o->seed, ++hook->chances));
    if (result != WANE__HOOK_DELIVERED) say(hook, &message, result, why, delay);

    pthread_mutex_lock(&hook->lock);
    if (!o->no_thread) now = wane__now(); /* sending took its time */
    settle(hook, result, now, delay);
    double due = hook->count == 0 ? (double)INFINITY : hook->due;
    pthread_mutex_unlock(&hook->lock);
    return due;
}

static void *run(void *argument) {
    struct wane__hook *hook = argument;
    for (;;) {
        double due = wane__hook_step(hook, wane__now());
        pthread_mutex_lock(&hook->lock);
        double now = wane__now();
        bool over = hook->closed && (hook->count == 0 || now >= hook->until || due > hook->until);
        if (over) {
            pthread_mutex_unlock(&hook->lock);
            return NULL;
        }
        if (hook->count == 0)
            pthread_cond_wait(&hook->woken, &hook->lock);
        else if (hook->due > now)
            wane__os_cond_wait(&hook->woken, &hook->lock, hook->due);
        pthread_mutex_unlock(&hook->lock);
    }
}

/* ------------------------------------------------------------------ new, free */

static int start_thread(struct wane__hook *hook, wane_error *error) {
    sigset_t all, before;
    sigfillset(&all); /* signals are the program's business */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = wane__os_thread_start(&hook->thread, run, hook);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    hook->running = failed == 0;
    return failed == 0 ? WANE_OK
                       : wane__fail(error, WANE_ENOMEM, "No thread for the alerts' %s.", hook->options.name);
}

int wane__hook_new(const struct wane__hook_options *options, struct wane__hook **hook, wane_error *error) {
    struct wane__hook *made = wane__alloc_zero(1, sizeof *made);
    *hook = NULL;
    if (made == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for the alerts' %s.", options->name);
    made->options = *options;
    pthread_mutex_init(&made->lock, NULL);
    wane__os_cond_init(&made->woken);
    int status = options->no_thread ? WANE_OK : start_thread(made, error);
    if (status != WANE_OK) {
        wane__hook_free(made, 0);
        return status;
    }
    *hook = made;
    return WANE_OK;
}

void wane__hook_free(struct wane__hook *hook, double grace) {
    if (hook == NULL) return;
    if (hook->running) {
        pthread_mutex_lock(&hook->lock);
        hook->closed = true;
        hook->until = wane__now() + grace;
        pthread_cond_signal(&hook->woken);
        bool busy = hook->count > 0;
        pthread_mutex_unlock(&hook->lock);
        /* What is on its way may end; a send that takes longer is told to. */
        for (double until = hook->until; busy && wane__now() < until;) {
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
            pthread_mutex_lock(&hook->lock);
            busy = hook->count > 0 && hook->due <= until;
            pthread_mutex_unlock(&hook->lock);
        }
        atomic_store(&hook->ending, true);
        pthread_mutex_lock(&hook->lock);
        pthread_cond_signal(&hook->woken);
        pthread_mutex_unlock(&hook->lock);
        pthread_join(hook->thread, NULL);
    }
    while (hook->count > 0) {
        forget(at(hook, 0));
        hook->first = (hook->first + 1) % WANE__HOOK_QUEUE;
        hook->count--;
    }
    pthread_cond_destroy(&hook->woken);
    pthread_mutex_destroy(&hook->lock);
    wane__free(hook);
}

void wane__hook_count(struct wane__hook *hook, struct wane__hook_counts *counts) {
    pthread_mutex_lock(&hook->lock);
    *counts = hook->counts;
    counts->waiting = hook->count;
    pthread_mutex_unlock(&hook->lock);
}
