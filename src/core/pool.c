/*
 * pool.c - the thread pool: one ticket that all threads take parts from, one lock for going to sleep.
 *
 * A ticket is the job's number in the upper half and the next part in the lower: a worker that wakes late finds
 * another number there and takes nothing. The job's fields are read under the lock, the parts are taken without.
 */
#include "core/pool.h"

#include "core/clock.h"
#include "core/memory.h"
#include "core/os.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Looks at a flag between two looks at the clock. */
enum { LOOKS = 64, MOST_THREADS = 256 };

/* Seconds of looking out before sleeping. */
#define PATIENCE 2e-4

struct job {
    void (*work)(void *user, int part);
    void *user;
    uint32_t number, parts;
};

struct wane__pool {
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    struct job job; /* under the lock */
    int sleeping;   /* workers, under the lock */
    uint32_t calls; /* to wake up, under the lock */
    bool waiting;   /* the caller sleeps, under the lock */
    atomic_bool closing;
    atomic_bool resting;
    _Atomic uint32_t number; /* of the newest job */
    _Atomic uint64_t ticket;
    _Atomic uint32_t finished; /* parts of the newest job */
    int workers;
    pthread_t worker[];
};

static inline void rest(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

static bool take(struct wane__pool *pool, const struct job *job, uint32_t *part) {
    uint64_t ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
    do {
        if (ticket >> 32 != job->number || (uint32_t)ticket >= job->parts) return false;
    } while (!atomic_compare_exchange_weak_explicit(&pool->ticket, &ticket, ticket + 1, memory_order_acq_rel,
                                                    memory_order_acquire));
    *part = (uint32_t)ticket;
    return true;
}

/* Take parts until none is left. */
static void help(struct wane__pool *pool, const struct job *job) {
    for (uint32_t part; take(pool, job, &part);) {
        job->work(job->user, (int)part);
        if (atomic_fetch_add_explicit(&pool->finished, 1, memory_order_acq_rel) + 1 < job->parts) continue;
        pthread_mutex_lock(&pool->lock);
        if (pool->waiting) pthread_cond_signal(&pool->done);
        pthread_mutex_unlock(&pool->lock);
    }
}

static bool news(struct wane__pool *pool, uint32_t seen) {
    return atomic_load_explicit(&pool->number, memory_order_acquire) != seen || atomic_load(&pool->closing);
}

/* Until there is a job, or for as long as there may be one soon. */
static void look_out(struct wane__pool *pool, uint32_t seen) {
    double until = wane__now() + PATIENCE;
    while (!atomic_load_explicit(&pool->resting, memory_order_relaxed) && wane__now() < until)
        for (int i = 0; i < LOOKS; i++) {
            if (news(pool, seen)) return;
            rest();
        }
}

static void *run_worker(void *argument) {
    struct wane__pool *pool = argument;
    for (uint32_t seen = 0;;) {
        look_out(pool, seen);
        pthread_mutex_lock(&pool->lock);
        uint32_t calls = pool->calls;
        pool->sleeping++;
        while (!news(pool, seen) && pool->calls == calls) pthread_cond_wait(&pool->wake, &pool->lock);
        pool->sleeping--;
        struct job job = pool->job;
        pthread_mutex_unlock(&pool->lock);
        if (atomic_load(&pool->closing)) return NULL;
        if (job.number == seen) continue; /* woken for a job to come */
        seen = job.number;
        help(pool, &job);
    }
}

void wane__pool_wake(struct wane__pool *pool) {
    if (pool->workers == 0) return;
    atomic_store(&pool->resting, false);
    pthread_mutex_lock(&pool->lock);
    bool wake = pool->sleeping > 0;
    pool->calls++;
    pthread_mutex_unlock(&pool->lock);
    if (wake) pthread_cond_broadcast(&pool->wake);
}

void wane__pool_rest(struct wane__pool *pool) {
    atomic_store(&pool->resting, true);
}

int wane__pool_asleep(struct wane__pool *pool) {
    pthread_mutex_lock(&pool->lock);
    int asleep = pool->sleeping;
    pthread_mutex_unlock(&pool->lock);
    return asleep;
}

int wane__pool_new(int threads, struct wane__pool **pool) {
    *pool = NULL;
    if (threads < 1) threads = 1;
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    struct wane__pool *made = wane__alloc_zero(1, sizeof *made + (size_t)threads * sizeof made->worker[0]);
    if (made == NULL) return WANE_ENOMEM;
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->wake, NULL);
    pthread_cond_init(&made->done, NULL);
    while (made->workers < threads - 1) {
        if (wane__os_thread_start(&made->worker[made->workers], run_worker, made) != 0) {
            wane__pool_free(made);
            return WANE_ENOMEM;
        }
        made->workers++;
    }
    *pool = made;
    return WANE_OK;
}

void wane__pool_free(struct wane__pool *pool) {
    if (pool == NULL) return;
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->closing, true);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->workers; i++) pthread_join(pool->worker[i], NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_cond_destroy(&pool->done);
    pthread_mutex_destroy(&pool->lock);
    wane__free(pool);
}

int wane__pool_threads(const struct wane__pool *pool) {
    return pool->workers + 1;
}

static bool all_finished(struct wane__pool *pool, uint32_t parts) {
    return atomic_load_explicit(&pool->finished, memory_order_acquire) == parts;
}

void wane__pool_run(struct wane__pool *pool, void (*work)(void *user, int part), void *user, int parts) {
    if (pool->workers == 0 || parts <= 1) {
        for (int part = 0; part < parts; part++) work(user, part);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->resting, false);
    struct job job = {work, user, pool->job.number + 1, (uint32_t)parts};
    pool->job = job;
    atomic_store(&pool->finished, 0);
    atomic_store(&pool->ticket, (uint64_t)job.number << 32);
    atomic_store(&pool->number, job.number);
    bool wake = pool->sleeping > 0;
    pthread_mutex_unlock(&pool->lock);
    if (wake) pthread_cond_broadcast(&pool->wake);
    help(pool, &job);
    for (int i = 0; i < 10 * LOOKS && !all_finished(pool, job.parts); i++) rest();
    if (all_finished(pool, job.parts)) return;
    pthread_mutex_lock(&pool->lock);
    pool->waiting = true;
    while (!all_finished(pool, job.parts)) pthread_cond_wait(&pool->done, &pool->lock);
    pool->waiting = false;
    pthread_mutex_unlock(&pool->lock);
}
