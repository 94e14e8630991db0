/*
 * breaker.c - owns the times of the last wakes, one more of them than are allowed: that is all both questions need. Refuses to read a
 * clock.
 */
#include "gate/breaker.h"

#include "core/error.h"
#include "core/memory.h"

#include <pthread.h>

struct wane__breaker {
    int wakes;
    double seconds;
    wane_breaker_fn alert;
    void *user;
    pthread_mutex_t lock;
    double *when; /* a ring of wakes + 1 */
    int next, count;
    double now; /* the latest that was said */
    bool out;
    uint64_t trips;
};

int wane__breaker_new(int wakes, double seconds, wane_breaker_fn alert, void *user,
                      struct wane__breaker **breaker, wane_error *error) {
    struct wane__breaker *b = wane__alloc_zero(1, sizeof *b);
    *breaker = NULL;
    if (b != NULL) b->when = wane__alloc_zero((size_t)wakes + 1, sizeof *b->when);
    if (b == NULL || b->when == NULL) {
        wane__free(b);
        return wane__fail(error, WANE_ENOMEM, "No memory for a breaker of %d wakes.", wakes);
    }
    b->wakes = wakes;
    b->seconds = seconds;
    b->alert = alert;
    b->user = user;
    pthread_mutex_init(&b->lock, NULL);
    *breaker = b;
    return WANE_OK;
}

void wane__breaker_free(struct wane__breaker *breaker) {
    if (breaker == NULL) return;
    pthread_mutex_destroy(&breaker->lock);
    wane__free(breaker->when);
    wane__free(breaker);
}

/* Under the lock: how many lie in the window. The ring is in order of time, so that they are its last ones. */
static int recent(const struct wane__breaker *b) {
    int low = 0, high = b->count, room = b->wakes + 1;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (b->now - b->when[(b->next + room - 1 - middle) % room] < b->seconds)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Under the lock: did it change? */
static bool settle(struct wane__breaker *b, double now, int *count) {
    if (now > b->now) b->now = now;
    *count = recent(b);
    bool out = b->out ? *count > b->wakes / 2 : *count > b->wakes;
    if (b->wakes == 0) out = false;
    bool changed = out != b->out;
    b->out = out;
    b->trips += changed && out;
    return changed;
}

void wane__breaker_wake(struct wane__breaker *b, double now) {
    int before, count;
    pthread_mutex_lock(&b->lock);
    bool changed = settle(b, now, &before); /* it may have been quiet for long */
    b->when[b->next] = b->now;
    b->next = (b->next + 1) % (b->wakes + 1);
    if (b->count <= b->wakes) b->count++;
    bool again = settle(b, now, &count), out = b->out;
    pthread_mutex_unlock(&b->lock);
    if (b->alert == NULL) return;
    if (changed) b->alert(b->user, false, before, b->seconds);
    if (again) b->alert(b->user, out, count, b->seconds);
}

bool wane__breaker_is_out(struct wane__breaker *b, double now) {
    int count;
    if (b == NULL) return false;
    pthread_mutex_lock(&b->lock);
    bool changed = settle(b, now, &count), out = b->out;
    pthread_mutex_unlock(&b->lock);
    if (changed && b->alert != NULL) b->alert(b->user, out, count, b->seconds);
    return out;
}

int wane__breaker_recent(struct wane__breaker *b, double now) {
    pthread_mutex_lock(&b->lock);
    if (now > b->now) b->now = now;
    int count = recent(b);
    pthread_mutex_unlock(&b->lock);
    return count;
}

uint64_t wane__breaker_trips(struct wane__breaker *b) {
    pthread_mutex_lock(&b->lock);
    uint64_t trips = b->trips;
    pthread_mutex_unlock(&b->lock);
    return trips;
}
