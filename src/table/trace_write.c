/*
 * trace_write.c - the queue and the writer's thread.
 *
 * Owns two blocks of memory of the same size: callers copy records into one while the thread writes the other. The lock is
 * held for a copy or a swap, never for text, compression or a file. Records in a block, each padded to 8 bytes:
 *
 *     request   [mark][struct wane__trace_request][bias list][prompt][stop strings, each with its zero]
 *     token     [mark][size_t: logits][struct wane__trace_token, without unused candidates][logits]
 *     end       [mark][struct wane__trace_end]
 *     vote      [mark][struct wane__trace_vote]
 *
 * What became of a record is counted when it is known: written once it is synced, dropped where it was lost.
 */
#include "table/trace_write.h"

#include "core/bytes.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/os.h"
#include "table/trace_hold.h"

#include <math.h>
#include <signal.h>
#include <string.h>

/* The thread lets records gather for so long, rather than wake for each. */
#define GATHER_SECONDS 0.1
/* Text goes to the file in portions. */
#define PORTION ((size_t)1 << 20)

struct wane__trace_writer {
    struct wane__trace_write_options options;
    size_t half, reserve; /* bytes of a block; of these, for ends and votes only */

    /* Under `lock`. */
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    char *inbox;
    size_t inbox_size;
    bool stopping, urgent;
    uint64_t flush_wanted, flush_done;
    wane_recorder_state state;

    /* The thread's. */
    pthread_t thread;
    char *outbox;
    struct wane__trace_file file;
    struct wane__trace_hold *hold; /* NULL: no redaction */
    struct wane__buf text;
    wane_recorder_state fresh; /* records written since the last sync, other counts since they were shown */
    uint64_t noted_requests, noted_tokens; /* drops that the text tells of  */
    uint64_t told_requests, told_tokens;   /* that the files do: it is synced */
    double sync_at, retry_at;              /* INFINITY: nothing to sync; 0: the disk is fine */
};

/* ----------------------------------------------------------- callers' side */

struct part {
    const void *bytes;
    size_t size;
};

static void count_drop(wane_recorder_state *state, enum wane__trace_type type) {
    state->dropped_requests += type == WANE__TRACE_REQUEST;
    state->dropped_tokens += type == WANE__TRACE_TOKEN;
}

static bool append(struct wane__trace_writer *w, enum wane__trace_type type, const struct part *parts,
                   int count) {
    struct wane__trace_mark mark = {.type = type, .size = sizeof mark};
    for (int i = 0; i < count; i++) mark.size += parts[i].size;
    bool small = type == WANE__TRACE_END || type == WANE__TRACE_VOTE;
    size_t size = wane__padded(mark.size), limit = w->half - (small ? 0 : w->reserve);
    pthread_mutex_lock(&w->lock);
    bool fits = size <= limit && w->inbox_size <= limit - size;
    if (fits) {
        char *at = w->inbox + w->inbox_size;
        memcpy(at, &mark, sizeof mark);
        at += sizeof mark;
        for (int i = 0; i < count; i++) {
            if (parts[i].size > 0) memcpy(at, parts[i].bytes, parts[i].size);
            at += parts[i].size;
        }
        bool wake = w->inbox_size == 0;
        w->inbox_size += size;
        if (!w->urgent && w->inbox_size > w->half / 2) w->urgent = wake = true;
        if (wake) pthread_cond_signal(&w->work);
    } else {
        count_drop(&w->state, type);
    }
    pthread_mutex_unlock(&w->lock);
    return fits;
}

bool wane__trace_write_request(struct wane__trace_writer *w, const struct wane__trace_request *r) {
    struct part parts[3 + WANE__TRACE_STOPS] = {
        {r, sizeof *r},
        {r->sampling.bias, r->sampling.bias_count * sizeof *r->sampling.bias},
        {r->prompt, r->prompt_count * sizeof *r->prompt},
    };
    for (int i = 0; i < r->stop_count; i++)
        parts[3 + i] = (struct part){r->stops[i], strlen(r->stops[i]) + 1};
    return append(w, WANE__TRACE_REQUEST, parts, 3 + r->stop_count);
}

bool wane__trace_write_token(struct wane__trace_writer *w, const struct wane__trace_token *t,
                             const float *all) {
    size_t logits = all != NULL ? (size_t)w->file.origin.vocab_size : 0;
    struct part parts[] = {
        {&logits, sizeof logits},
        {t, WANE__TRACE_TOKEN_SIZE(t->top_count)},
        {all, logits * sizeof *all},
    };
    return append(w, WANE__TRACE_TOKEN, parts, 3);
}

bool wane__trace_write_end(struct wane__trace_writer *w, const struct wane__trace_end *end) {
    return append(w, WANE__TRACE_END, &(struct part){end, sizeof *end}, 1);
}

bool wane__trace_write_vote(struct wane__trace_writer *w, const struct wane__trace_vote *vote) {
    return append(w, WANE__TRACE_VOTE, &(struct part){vote, sizeof *vote}, 1);
}

void wane__trace_write_flush(struct wane__trace_writer *w) {
    pthread_mutex_lock(&w->lock);
    uint64_t wanted = ++w->flush_wanted;
    pthread_cond_signal(&w->work);
    while (w->flush_done < wanted) pthread_cond_wait(&w->done, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

void wane__trace_write_get_state(struct wane__trace_writer *w, wane_recorder_state *state) {
    pthread_mutex_lock(&w->lock);
    *state = w->state;
    state->waiting_bytes = w->inbox_size;
    pthread_mutex_unlock(&w->lock);
}

/* ------------------------------------------------------------ thread: files */

/* Show the counts of what was lost or left out; `synced`: of what was written, too. */
static void settle(struct wane__trace_writer *w, bool synced) {
    wane_recorder_state *to = &w->state, *from = &w->fresh;
    pthread_mutex_lock(&w->lock);
    if (synced) {
        to->requests += from->requests;
        to->tokens += from->tokens;
        to->ends += from->ends;
    }
    to->dropped_requests += from->dropped_requests;
    to->dropped_tokens += from->dropped_tokens;
    to->redacted_tokens += from->redacted_tokens;
    to->withheld_tokens += from->withheld_tokens;
    to->failures += from->failures;
    to->files = w->file.files;
    to->bytes = w->file.total_bytes;
    to->held_bytes = w->hold != NULL ? wane__trace_hold_bytes(w->hold) : 0;
    pthread_mutex_unlock(&w->lock);
    wane_recorder_state kept = synced ? (wane_recorder_state){0} : *from;
    *from = (wane_recorder_state){.requests = kept.requests, .tokens = kept.tokens, .ends = kept.ends};
}

/* What is not synced is lost, and with it what was said of earlier losses. */
static void lose(struct wane__trace_writer *w) {
    w->noted_requests = w->told_requests;
    w->noted_tokens = w->told_tokens;
    w->fresh.dropped_requests += w->fresh.requests;
    w->fresh.dropped_tokens += w->fresh.tokens;
    w->fresh.requests = w->fresh.tokens = w->fresh.ends = 0;
    w->sync_at = INFINITY;
    wane__buf_free(&w->text); /* also after a lack of memory */
}

/* The disk does not take it: what comes in the next seconds is lost, too. */
static void fail_writing(struct wane__trace_writer *w, const wane_error *error) {
    if (w->retry_at <= 0)
        wane__log(w->options.log, WANE_LOG_ERROR,
                  "trace: %s Records are dropped until it can be written again.", error->text);
    lose(w);
    w->fresh.failures++;
    w->retry_at = wane__now() + w->options.retry_seconds;
}

static void put_text(struct wane__trace_writer *w) {
    wane_error error = {0};
    struct wane__buf *text = &w->text;
    if (text->failed) {
        wane__fail(&error, WANE_ENOMEM, "There is no memory for records.");
        fail_writing(w, &error);
    } else if (text->size > 0 && wane__now() < w->retry_at) {
        lose(w);
    } else if (text->size > 0 &&
               wane__trace_file_write(&w->file, text->data, text->size, &error) != WANE_OK) {
        fail_writing(w, &error);
    } else if (text->size > 0) {
        wane__buf_clear(text);
        if (isinf(w->sync_at)) w->sync_at = wane__now() + w->options.sync_seconds;
    }
}

static void sync_file(struct wane__trace_writer *w) {
    wane_error error = {0};
    bool full = wane__trace_file_is_full(&w->file);
    int code = full ? wane__trace_file_close(&w->file, &error) : wane__trace_file_sync(&w->file, &error);
    if (code != WANE_OK) {
        fail_writing(w, &error);
        settle(w, false);
        return;
    }
    if (!isinf(w->sync_at)) { /* something was written */
        if (w->retry_at > 0)
            wane__log(w->options.log, WANE_LOG_INFO, "trace: it is written again; %llu records are missing.",
                      (unsigned long long)w->noted_requests + w->noted_tokens);
        w->retry_at = 0;
        w->told_requests = w->noted_requests;
        w->told_tokens = w->noted_tokens;
    }
    w->sync_at = INFINITY;
    settle(w, true);
}

/* What was lost since the files last told of it, told where it is missing. */
static void note_drops(struct wane__trace_writer *w) {
    pthread_mutex_lock(&w->lock);
    uint64_t requests = w->state.dropped_requests, tokens = w->state.dropped_tokens;
    pthread_mutex_unlock(&w->lock);
    if (requests == w->noted_requests && tokens == w->noted_tokens) return;
    if (wane__now() < w->retry_at) return;
    struct wane__trace_dropped dropped = {requests - w->noted_requests, tokens - w->noted_tokens};
    wane__trace_put_dropped(&w->text, &dropped);
    w->noted_requests = requests;
    w->noted_tokens = tokens;
}

/* ---------------------------------------------------------- thread: records */

static void write_record(struct wane__trace_writer *w, const struct wane__trace_mark *mark) {
    struct wane__trace_view view;
    wane__trace_view(mark, &view);
    if (mark->type == WANE__TRACE_REQUEST) {
        wane__trace_put_request(&w->text, &view.request);
        w->fresh.requests++;
    } else if (mark->type == WANE__TRACE_TOKEN) {
        wane__trace_put_token(&w->text, &view.token, view.all, (int)view.all_count);
        w->fresh.tokens++;
    } else if (mark->type == WANE__TRACE_VOTE) {
        wane__trace_put_vote(&w->text, &view.vote);
    } else {
        wane__trace_put_end(&w->text, &view.end);
        w->fresh.ends++;
    }
}

static void write_outbox(struct wane__trace_writer *w, size_t size) {
    for (size_t at = 0; at < size;) {
        const struct wane__trace_mark *mark = (const void *)(w->outbox + at);
        if (w->hold != NULL)
            wane__trace_hold_take(w->hold, mark, &w->text, &w->fresh);
        else
            write_record(w, mark);
        if (w->text.size >= PORTION || w->text.failed) put_text(w);
        at += wane__padded(mark->size);
    }
    put_text(w);
}

/* Under the lock: sleep until there is something to do. */
static void wait_for_work(struct wane__trace_writer *w) {
    while (!w->stopping && w->inbox_size == 0 && w->flush_wanted == w->flush_done) {
        if (isinf(w->sync_at))
            pthread_cond_wait(&w->work, &w->lock);
        else if (wane__now() < w->sync_at)
            wane__os_cond_wait(&w->work, &w->lock, w->sync_at);
        else
            return;
    }
    double until = wane__now() + GATHER_SECONDS;
    while (!w->stopping && !w->urgent && w->flush_wanted == w->flush_done && wane__now() < until)
        wane__os_cond_wait(&w->work, &w->lock, until);
}

static bool turn(struct wane__trace_writer *w) {
    pthread_mutex_lock(&w->lock);
    wait_for_work(w);
    if (w->options.on_batch != NULL) {
        pthread_mutex_unlock(&w->lock);
        w->options.on_batch(w->options.on_batch_user);
        pthread_mutex_lock(&w->lock);
    }
    char *block = w->inbox;
    size_t size = w->inbox_size;
    uint64_t flush = w->flush_wanted;
    bool stopping = w->stopping;
    w->inbox = w->outbox;
    w->inbox_size = 0;
    w->outbox = block;
    w->urgent = false;
    pthread_mutex_unlock(&w->lock);

    note_drops(w);
    write_outbox(w, size);
    if (stopping && w->hold != NULL) {
        wane__trace_hold_finish(w->hold, &w->text, &w->fresh);
        put_text(w);
    }
    settle(w, false);
    if (stopping) { /* what was dropped at the end is told, too */
        note_drops(w);
        put_text(w);
    }
    if (stopping || flush > w->flush_done || wane__now() >= w->sync_at) sync_file(w);
    pthread_mutex_lock(&w->lock);
    w->flush_done = flush;
    pthread_cond_broadcast(&w->done);
    pthread_mutex_unlock(&w->lock);
    return !stopping;
}

static void *run(void *writer) {
    struct wane__trace_writer *w = writer;
    while (turn(w)) {}
    wane_error error = {0};
    if (wane__trace_file_close(&w->file, &error) != WANE_OK)
        wane__log(w->options.log, WANE_LOG_ERROR, "trace: %s", error.text);
    return NULL;
}

/* ------------------------------------------------------------ open and close */

static void release(struct wane__trace_writer *w) {
    wane__trace_file_free(&w->file);
    wane__trace_hold_free(w->hold);
    wane__free(w->inbox);
    wane__free(w->outbox);
    wane__buf_free(&w->text);
    pthread_cond_destroy(&w->work);
    pthread_cond_destroy(&w->done);
    pthread_mutex_destroy(&w->lock);
    wane__free(w);
}

static void set_defaults(struct wane__trace_write_options *o) {
    if (o->queue_bytes == 0) o->queue_bytes = (size_t)32 << 20;
    if (o->queue_bytes < 16384) o->queue_bytes = 16384;
    if (o->file_bytes == 0) o->file_bytes = (size_t)256 << 20;
    if (!(o->file_seconds > 0)) o->file_seconds = 3600;
    if (!(o->sync_seconds > 0)) o->sync_seconds = 1;
    if (!(o->retry_seconds > 0)) o->retry_seconds = 5;
    if (o->hold_bytes == 0) o->hold_bytes = (size_t)128 << 20;
}

static int prepare(struct wane__trace_writer *w, const struct wane__trace_origin *origin, wane_error *error) {
    struct wane__trace_write_options *o = &w->options;
    int code = wane__trace_file_init(&w->file, o->folder, o->plain, error);
    if (code != WANE_OK) return code;
    w->file.bytes_most = o->file_bytes;
    w->file.seconds_most = o->file_seconds;
    w->file.files_most = o->files;
    w->file.origin = *origin;
    w->file.origin.version = WANE__TRACE_VERSION;
    if (o->redact_path != NULL)
        code = wane__trace_hold_new(o->redact_path, o->token_bytes, o->user, o->hold_bytes, &w->hold, error);
    if (code != WANE_OK) return code;
    w->half = o->queue_bytes / 2 & ~(size_t)7;
    w->reserve = w->half / 8 < 65536 ? w->half / 8 : 65536;
    w->inbox = wane__alloc(w->half);
    w->outbox = wane__alloc(w->half);
    if (w->inbox == NULL || w->outbox == NULL)
        return wane__fail(error, WANE_ENOMEM, "No memory for a queue of %zu bytes.", o->queue_bytes);
    return WANE_OK;
}

/* Signals are the program's business: none is delivered on this thread. */
static int start_thread(struct wane__trace_writer *w) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = wane__os_thread_start(&w->thread, run, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

int wane__trace_write_open(const struct wane__trace_write_options *options,
                           const struct wane__trace_origin *origin, struct wane__trace_writer **writer,
                           wane_error *error) {
    *writer = NULL;
    struct wane__trace_writer *w = wane__alloc_zero(1, sizeof *w);
    if (w == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a writer of traces.");
    w->options = *options;
    w->file.fd = -1;
    w->sync_at = INFINITY;
    set_defaults(&w->options);
    pthread_mutex_init(&w->lock, NULL);
    wane__os_cond_init(&w->work);
    pthread_cond_init(&w->done, NULL);
    int code = prepare(w, origin, error);
    w->options.folder = w->options.redact_path = NULL; /* the caller's need not stay */
    if (code == WANE_OK && start_thread(w) != 0)
        code = wane__fail(error, WANE_ENOMEM, "The writer's thread could not be started.");
    if (code != WANE_OK) {
        release(w);
        return code;
    }
    *writer = w;
    return WANE_OK;
}

void wane__trace_write_close(struct wane__trace_writer *w) {
    if (w == NULL) return;
    pthread_mutex_lock(&w->lock);
    w->stopping = true;
    pthread_cond_signal(&w->work);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    release(w);
}
