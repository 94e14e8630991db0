/*
 * audit_write.c - the queue of notes, the thread that writes them, and what happens when it cannot.
 *
 *     put ─► [note][note][gap: 3][note] ─► taken all at once ─► batch ── transaction ──► file
 *                                                                 └─ failed: kept, tried again
 *
 * Owns the file; only the writer's thread touches it once the log is open. A batch that could not be written stays until it is, while the
 * queue behind it fills. A note that does not fit any more is dropped, and a gap note stands where it would have stood.
 */
#include "core/clock.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/os.h"
#include "ops/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How often `tick` is called, and how long a close tries. */
#define TICK_SECONDS  0.5
#define CLOSE_SECONDS 2.0

struct wane__audit {
    struct wane__audit_write_options options;
    struct wane__audit_key key;
    char *path;

    pthread_mutex_t lock;
    pthread_cond_t work, settled;
    struct wane__audit_note *first, *last; /* the queue */
    struct wane__audit_note *gap;          /* the queue's last note, where that is a gap */
    uint64_t waiting;                      /* notes of queue and batch that are no gaps */
    uint64_t under_way;                    /* admitted, and not put yet */
    size_t bytes;                          /* of their texts */
    struct wane__audit_count count;
    struct wane__audit_state state;
    uint64_t tried; /* rounds of the writer, for flush */
    bool ending, ended;
    void (*tick)(void *user); /* NULL: none */
    void *tick_user;

    /* The writer's. */
    struct wane__audit_file *file;  /* NULL: to be opened */
    struct wane__audit_note *batch; /* taken, and not yet written */
    struct wane__audit_note *start; /* the session's first record, until the file is open */
    struct wane__audit_count left;  /* by whoever wrote before */
    pthread_t thread;
    bool started; /* the thread is there */
};

/* ------------------------------------------------------------------- the queue */

static size_t size_of(const struct wane__audit_note *note) {
    return sizeof *note + note->text.capacity;
}

/* Under the lock. */
static void enqueue(struct wane__audit *a, struct wane__audit_note *note) {
    note->next = NULL;
    if (a->last != NULL)
        a->last->next = note;
    else
        a->first = note;
    a->last = note;
    a->gap = NULL;
}

/* Under the lock: one more is missing here. Without memory for a note, the state alone says so until there is. */
static void lose(struct wane__audit *a, const char *why) {
    a->state.dropped++;
    if (a->gap == NULL) {
        struct wane__audit_note *gap = wane__audit_note_new("gap");
        if (gap == NULL) return;
        gap->is_gap = true;
        wane__audit_note_number(gap, WANE_AUDIT_LOST, 0);
        wane__audit_note_number(gap, WANE_AUDIT_AT, wane__date_ms());
        wane__audit_note_format(gap, WANE_AUDIT_DETAIL, "{\"why\":\"%s\"}", why);
        enqueue(a, gap);
        a->gap = gap;
    }
    a->gap->field[WANE_AUDIT_LOST].number++;
}

/* Under the lock. */
static bool is_full(const struct wane__audit *a, uint64_t more) {
    return a->waiting + more >= (uint64_t)a->options.notes_most || a->bytes >= a->options.bytes_most;
}

/* Under the lock. */
static void take_in(struct wane__audit *a, struct wane__audit_note *note, bool must) {
    if (note == NULL || note->text.failed) {
        lose(a, "there was no memory");
        wane__audit_note_free(note);
    } else if (!must && is_full(a, 0)) {
        lose(a, a->state.ok ? "the queue was full" : "the file could not be written");
        wane__audit_note_free(note);
    } else {
        enqueue(a, note);
        a->waiting++;
        a->bytes += size_of(note);
    }
    pthread_cond_signal(&a->work);
}

/* Under the lock. */
static void owe(struct wane__audit *a) {
    a->count.owed++;
    wane__audit_count_write(&a->count);
}

bool wane__audit_is_strict(const struct wane__audit *a) {
    return a->options.failure == WANE_AUDIT_STOP;
}

bool wane__audit_admit(struct wane__audit *a, wane_error *error) {
    bool strict = a->options.failure == WANE_AUDIT_STOP;
    char reason[sizeof a->state.reason];
    pthread_mutex_lock(&a->lock);
    bool full = is_full(a, a->under_way), fine = !strict || (a->state.ok && !full);
    if (fine) {
        a->under_way++;
        owe(a);
    }
    snprintf(reason, sizeof reason, "%s",
             a->state.ok ? "Records wait for the disk, and there is no room for another." : a->state.reason);
    pthread_mutex_unlock(&a->lock);
    if (fine) return true;
    wane__fail(
        error, WANE_EIO,
        "This server answers nothing that it cannot record, and its audit log is not being written. %.380s",
        reason);
    return false;
}

void wane__audit_put(struct wane__audit *a, struct wane__audit_note *note) {
    if (note != NULL && note->field[WANE_AUDIT_AT].type == WANE_AUDIT_NONE)
        wane__audit_note_number(note, WANE_AUDIT_AT, wane__date_ms());
    pthread_mutex_lock(&a->lock);
    if (a->under_way > 0) a->under_way--;
    take_in(a, note, a->options.failure == WANE_AUDIT_STOP); /* there was room when it was admitted */
    pthread_mutex_unlock(&a->lock);
}

void wane__audit_tell(struct wane__audit *a, struct wane__audit_note *note) {
    if (note != NULL) wane__audit_note_number(note, WANE_AUDIT_AT, wane__date_ms());
    pthread_mutex_lock(&a->lock);
    owe(a);
    take_in(a, note, false);
    pthread_mutex_unlock(&a->lock);
}

void wane__audit_get_state(struct wane__audit *a, struct wane__audit_state *state) {
    pthread_mutex_lock(&a->lock);
    *state = a->state;
    state->waiting = a->waiting;
    state->bytes = a->bytes;
    pthread_mutex_unlock(&a->lock);
}

/* ------------------------------------------------------------------- the writer */

static void note_failure(struct wane__audit *a, const wane_error *error) {
    pthread_mutex_lock(&a->lock);
    bool first = a->state.ok;
    a->state.ok = false;
    a->state.failures++;
    snprintf(a->state.reason, sizeof a->state.reason, "%s", error->text);
    pthread_mutex_unlock(&a->lock);
    if (first)
        wane__log(a->options.log, WANE_LOG_ERROR, "audit: %s %s", error->text,
                  a->options.failure == WANE_AUDIT_STOP ? "New requests are refused until it can be written."
                                                        : "Serving goes on; what cannot be kept is counted.");
}

/* The batch is on the disk. */
static void note_success(struct wane__audit *a) {
    uint64_t records = 0, own = 0;
    size_t bytes = 0;
    for (struct wane__audit_note *note = a->batch, *next; note != NULL; note = next) {
        next = note->next;
        records++;
        own += !note->is_gap;
        if (!note->is_gap) bytes += size_of(note);
        wane__audit_note_free(note);
    }
    a->batch = NULL;
    pthread_mutex_lock(&a->lock);
    bool again = !a->state.ok;
    a->state.ok = true;
    a->state.reason[0] = '\0';
    a->state.records += records;
    a->waiting -= own;
    a->bytes -= bytes;
    uint64_t dropped = a->state.dropped;
    pthread_mutex_unlock(&a->lock);
    if (again)
        wane__log(a->options.log, WANE_LOG_INFO,
                  "audit: records are being written again; %llu were dropped so far",
                  (unsigned long long)dropped);
}

/* What whoever wrote before did not write: known by the count beside the file, or not at all. */
static struct wane__audit_note *gap_before(struct wane__audit *a) {
    const char *last = a->file->last_event;
    if (strcmp(last, "stop") == 0 || strcmp(last, "open") == 0) return NULL;
    const struct wane__audit_count *left = &a->left;
    uint64_t records = 0, lost = 0;
    bool known = left->start > 0 && left->start <= (uint64_t)a->file->seq &&
                 wane__audit_file_tally(a->file, (int64_t)left->start, &records, &lost);
    uint64_t missing = known && left->owed > records + lost ? left->owed - records - lost : 0;
    if (known && missing == 0) return NULL;
    struct wane__audit_note *gap = wane__audit_note_new("gap");
    if (gap == NULL) return NULL;
    gap->is_gap = true;
    if (known) wane__audit_note_number(gap, WANE_AUDIT_LOST, (int64_t)missing);
    wane__audit_note_text(gap, WANE_AUDIT_DETAIL, "{\"why\":\"the server before ended without a stop\"}");
    return gap;
}

/* The file is open for the first time: the gap and the start record go in front of all others. */
static int begin_session(struct wane__audit *a, wane_error *error) {
    if (strcmp(a->file->last_event, "close") == 0)
        return wane__fail(error, WANE_EINVAL,
                          "The audit log %s was closed, and goes on in another file, which its last record "
                          "names; give that one.",
                          a->path);
    struct wane__audit_note *gap = gap_before(a);
    a->start->next = a->batch;
    a->batch = a->start;
    if (gap != NULL) {
        gap->next = a->batch;
        a->batch = gap;
    }
    a->start = NULL;
    pthread_mutex_lock(&a->lock);
    a->waiting++;
    a->bytes += size_of(gap != NULL ? gap->next : a->batch);
    a->count.start = (uint64_t)a->file->seq + (gap != NULL ? 2 : 1);
    pthread_mutex_unlock(&a->lock);
    return WANE_OK;
}

/* `make`: at the start a log that is not there is made; later it was taken away, and that is a failure. */
static int open_file(struct wane__audit *a, bool make, wane_error *error) {
    int status = WANE_OK;
    if (a->count.fd < 0) {
        struct wane__audit_count fresh;
        status = wane__audit_count_open(a->path, &fresh, error);
        pthread_mutex_lock(&a->lock);
        if (status == WANE_OK) a->count.fd = fresh.fd;
        pthread_mutex_unlock(&a->lock);
        if (status == WANE_OK && a->start != NULL) a->left = fresh;
    }
    if (status == WANE_OK) status = wane__audit_file_open(a->path, &a->key, make, NULL, &a->file, error);
    if (status != WANE_OK) return status;
    sqlite3_busy_timeout(a->file->base, a->options.busy_ms);
    return a->start != NULL ? begin_session(a, error) : WANE_OK;
}

/* One transaction for the batch. After any failure the file is opened anew: whatever it was may be over. */
static bool write_batch(struct wane__audit *a) {
    wane_error error = {0};
    int status = a->file != NULL ? WANE_OK : open_file(a, false, &error);
    if (status == WANE_OK) status = wane__audit_file_append(a->file, a->batch, &error);
    if (status == WANE_OK) {
        note_success(a);
        return true;
    }
    wane__audit_file_close(a->file);
    a->file = NULL;
    note_failure(a, &error);
    return false;
}

/* Something that was tried, and must be tried again. */
static bool is_pending(const struct wane__audit *a) {
    return a->batch != NULL || a->start != NULL;
}

/* Under the lock: what there is to write. */
static void take_batch(struct wane__audit *a) {
    if (is_pending(a)) return;
    a->batch = a->first;
    a->first = a->last = a->gap = NULL;
}

/* Under the lock: sleep until there is something to write, and a moment longer for company; or until the next tick. */
static void wait_for_notes(struct wane__audit *a, double tick, double retry) {
    bool pending = is_pending(a);
    while (!a->ending && wane__now() < tick && (pending ? wane__now() < retry : a->first == NULL))
        wane__os_cond_wait(&a->work, &a->lock, pending && retry < tick ? retry : tick);
    double company = wane__now() + a->options.gather_ms / 1e3;
    while (!a->ending && !pending && a->first != NULL && wane__now() < company && !is_full(a, 0))
        wane__os_cond_wait(&a->work, &a->lock, company);
}

static void *write_notes(void *user) {
    struct wane__audit *a = user;
    double tick = wane__now(), retry = 0, give_up = 0;
    pthread_mutex_lock(&a->lock);
    for (;;) {
        wait_for_notes(a, tick, retry);
        bool ending = a->ending, ticks = !ending && a->tick != NULL && wane__now() >= tick;
        void (*call)(void *) = a->tick;
        void *with = a->tick_user;
        if (ending && give_up <= 0) give_up = wane__now() + CLOSE_SECONDS;
        pthread_mutex_unlock(&a->lock);
        if (ticks) call(with);
        if (wane__now() >= tick) tick = wane__now() + TICK_SECONDS;
        pthread_mutex_lock(&a->lock);
        take_batch(a);
        bool due = is_pending(a) && (ending || wane__now() >= retry);
        pthread_mutex_unlock(&a->lock);
        bool fine = !due || write_batch(a);
        if (!fine) retry = wane__now() + a->options.retry_ms / 1e3;
        pthread_mutex_lock(&a->lock);
        if (due) a->tried++;
        pthread_cond_broadcast(&a->settled);
        if (!ending) continue;
        if ((!is_pending(a) && a->first == NULL) || wane__now() >= give_up) break;
        if (!fine) wane__os_cond_wait(&a->work, &a->lock, wane__now() + 0.05);
    }
    a->ended = true;
    pthread_cond_broadcast(&a->settled);
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

void wane__audit_set_tick(struct wane__audit *a, void (*tick)(void *user), void *user) {
    pthread_mutex_lock(&a->lock);
    a->tick = tick;
    a->tick_user = user;
    pthread_mutex_unlock(&a->lock);
}

void wane__audit_flush(struct wane__audit *a) {
    pthread_mutex_lock(&a->lock);
    uint64_t from = a->tried; /* a round may be under way with what came before; the one after it has all */
    while (a->waiting > 0 && !a->ended && a->tried < from + 2) pthread_cond_wait(&a->settled, &a->lock);
    pthread_mutex_unlock(&a->lock);
}

/* ------------------------------------------------------------------- open and close */

static void set_defaults(struct wane__audit_write_options *o) {
    if (o->notes_most <= 0) o->notes_most = 4096;
    if (o->bytes_most == 0) o->bytes_most = (size_t)32 << 20;
    if (o->gather_ms <= 0) o->gather_ms = 100;
    if (o->retry_ms <= 0) o->retry_ms = 1000;
    if (o->busy_ms <= 0) o->busy_ms = 1000;
}

static struct wane__audit *make(const struct wane__audit_write_options *options) {
    struct wane__audit *a = wane__alloc_zero(1, sizeof *a);
    if (a == NULL) return NULL;
    a->options = *options;
    set_defaults(&a->options);
    a->path = wane__copy_string(options->path);
    a->count.fd = -1;
    a->state.ok = true;
    a->start = wane__audit_note_new("start");
    if (a->start != NULL) {
        wane__audit_note_text(a->start, WANE_AUDIT_DETAIL, options->start);
        if (options->table != NULL && options->table[0] != '\0')
            wane__audit_note_text(a->start, WANE_AUDIT_TABLE, options->table);
    }
    pthread_mutex_init(&a->lock, NULL);
    wane__os_cond_init(&a->work);
    wane__os_cond_init(&a->settled);
    return a;
}

static void discard(struct wane__audit *a) {
    for (struct wane__audit_note *note = a->batch, *next; note != NULL; note = next) {
        next = note->next;
        wane__audit_note_free(note);
    }
    for (struct wane__audit_note *note = a->first, *next; note != NULL; note = next) {
        next = note->next;
        wane__audit_note_free(note);
    }
    wane__audit_note_free(a->start);
    wane__audit_file_close(a->file);
    wane__audit_count_close(&a->count);
    pthread_cond_destroy(&a->work);
    pthread_cond_destroy(&a->settled);
    pthread_mutex_destroy(&a->lock);
    wane__free(a->path);
    sodium_memzero(&a->key, sizeof a->key);
    wane__free(a);
}

/* A log that is there, but cannot be used now, is a failure like a later one, unless nothing may go unrecorded. */
static int begin(struct wane__audit *a, wane_error *error) {
    wane_error detail = {0};
    struct stat facts;
    bool strict = a->options.failure == WANE_AUDIT_STOP, named = stat(a->path, &facts) == 0;
    if (named && !S_ISREG(facts.st_mode))
        return wane__fail(error, WANE_EFORMAT, "The audit log %s is no plain file.", a->path);
    bool there = named && facts.st_size > 0;
    int status = open_file(a, true, &detail);
    bool in_use = status == WANE_EBUSY && a->count.fd < 0;
    if (status == WANE_OK && !write_batch(a) && strict)
        return wane__fail(error, WANE_EIO, "%s", a->state.reason);
    if (status == WANE_OK) {
        wane__audit_count_write(&a->count);
        return WANE_OK;
    }
    if (strict || !there || in_use || (status != WANE_EIO && status != WANE_EBUSY))
        return wane__fail(error, status, "%s", detail.text);
    wane__audit_file_close(a->file);
    a->file = NULL;
    note_failure(a, &detail);
    return WANE_OK;
}

static int start_thread(struct wane__audit *a) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = wane__os_thread_start(&a->thread, write_notes, a);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    a->started = rc == 0;
    return rc;
}

int wane__audit_open(const struct wane__audit_write_options *options, struct wane__audit **audit,
                     wane_error *error) {
    *audit = NULL;
    struct wane__audit *a = make(options);
    if (a == NULL || a->path == NULL || a->start == NULL || a->start->text.failed) {
        if (a != NULL) discard(a);
        return wane__fail(error, WANE_ENOMEM, "No memory for the audit log.");
    }
    int status = wane__audit_key_read(options->key_file, &a->key, error);
    if (status == WANE_OK) status = begin(a, error);
    a->options.start = a->options.table = a->options.path = a->options.key_file = NULL; /* the caller's */
    if (status == WANE_OK && start_thread(a) != 0)
        status = wane__fail(error, WANE_ENOMEM, "No thread for the audit log.");
    if (status == WANE_OK)
        *audit = a;
    else
        discard(a);
    return status;
}

void wane__audit_close(struct wane__audit *a) {
    if (a == NULL) return;
    struct wane__audit_note *stop = wane__audit_note_new("stop");
    if (stop != NULL) wane__audit_note_number(stop, WANE_AUDIT_AT, wane__date_ms());
    pthread_mutex_lock(&a->lock);
    owe(a);
    take_in(a, stop, true);
    a->ending = true;
    pthread_cond_broadcast(&a->work);
    pthread_mutex_unlock(&a->lock);
    if (a->started) pthread_join(a->thread, NULL);
    if (a->waiting > 0)
        wane__log(a->options.log, WANE_LOG_ERROR, "audit: %llu records could not be written: %s",
                  (unsigned long long)a->waiting, a->state.reason);
    discard(a);
}

/* ------------------------------------------------------------------- rotation */

static int close_log(struct wane__audit_file *file, const char *next, wane_error *error) {
    struct wane__audit_note *note = wane__audit_note_new("close");
    if (note == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a record.");
    wane__audit_note_format(note, WANE_AUDIT_DETAIL, "{\"next\":\"%.1000s\"}", next);
    int status = wane__audit_file_append(file, note, error);
    wane__audit_note_free(note);
    return status;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* The new file's place: nothing may be there, and something must be possible there, before the old log is closed for it. */
static int make_place(const char *next, wane_error *error) {
    int fd = open(next, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (fd >= 0) {
        close(fd);
        return WANE_OK;
    }
    if (errno == EEXIST)
        return wane__fail(error, WANE_EINVAL,
                          "There is a file %s already; a log begins in a file of its own.", next);
    return wane__fail(error, WANE_EIO, "Cannot make the audit log %s: %s.", next, strerror(errno));
}

/* Closed first: at no time could both take records. A closed one whose next one is missing is taken up where it ended. */
static int go_on(struct wane__audit_file *old, const struct wane__audit_key *key, const char *next,
                 wane_error *error) {
    struct wane__audit_file *fresh = NULL;
    int status = make_place(next, error);
    if (status != WANE_OK) return status;
    if (strcmp(old->last_event, "close") != 0) status = close_log(old, base_name(next), error);
    if (status == WANE_OK) {
        struct wane__audit_origin origin = {.seq = old->seq, .name = base_name(old->path)};
        memcpy(origin.head, old->head, sizeof origin.head);
        status = wane__audit_file_open(next, key, true, &origin, &fresh, error);
    }
    if (status != WANE_OK) unlink(next);
    wane__audit_file_close(fresh);
    return status;
}

int wane_audit_rotate(const char *path, const char *next, const char *key_file, wane_error *error) {
    struct wane__audit_count count = {.fd = -1};
    struct wane__audit_file *old = NULL;
    struct wane__audit_key key;
    wane__clear(error);
    const char *name = base_name(next);
    if (name[0] == '\0' || strpbrk(name, "\"\\") != NULL)
        return wane__fail(error, WANE_EINVAL,
                          "The new log needs a name without quotes and backslashes; got \"%.100s\".", next);
    int status = wane__audit_key_read(key_file, &key, error);
    if (status == WANE_OK) status = wane__audit_file_open(path, &key, false, NULL, &old, error);
    if (status == WANE_OK) status = wane__audit_count_open(path, &count, error);
    if (status == WANE_OK) status = go_on(old, &key, next, error);
    wane__audit_file_close(old);
    wane__audit_count_close(&count);
    sodium_memzero(&key, sizeof key);
    return status;
}
