/*
 * memo_saver.c - the memo's file while the memo is in use: a picture in pieces, then a thread that puts it on the disk.
 *
 *     turn ─► piece ─► turn ─► piece ─► … complete ─► [thread: checksum, temporary file, sync, rename]
 *
 * Owns when a picture is taken. Refuses to let decoding wait: neither for the disk, nor for more than a piece; nor to write what
 * is on the disk already.
 */
#include "core/clock.h"
#include "core/count.h"
#include "core/log.h"
#include "core/os.h"
#include "model_memo.h"

#include <math.h>
#include <signal.h>

/* Nobody else has the picture until `written` is set. */
static void *write_picture(void *user) {
    struct wane__model_memo *memo = user;
    struct wane__memo_saver *saver = &memo->saver;
    wane_error error = {0};
    wane__memo_picture_seal(&saver->picture);
    bool failed = wane__memo_picture_write(&saver->picture, memo->path, &error) != WANE_OK;
    if (failed)
        wane__log(saver->log, WANE_LOG_WARN, "%s It will be tried again in %u s.", error.text,
                  saver->seconds);
    wane__count(failed ? &saver->failures : &saver->saves);
    atomic_store(&saver->failed, failed);
    atomic_store(&saver->written, true);
    return NULL;
}

static void hand_over(struct wane__model_memo *memo) {
    struct wane__memo_saver *saver = &memo->saver;
    sigset_t all, before;
    saver->taking = false;
    atomic_store(&saver->written, false);
    sigfillset(&all); /* signals are the program's business */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    saver->running = wane__os_thread_start(&saver->thread, write_picture, memo) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (saver->running) return;
    wane__log(saver->log, WANE_LOG_WARN, "The memo could not be written: no thread could be started.");
    wane__buf_free(&saver->picture);
}

static void take_back(struct wane__memo_saver *saver) {
    pthread_join(saver->thread, NULL);
    saver->running = false;
    wane__buf_free(&saver->picture);
    if (!atomic_load(&saver->failed)) saver->kept = saver->pictured;
}

static void begin(struct wane__model_memo *memo, double now) {
    struct wane__memo_saver *saver = &memo->saver;
    wane_error error = {0};
    saver->due = now + saver->seconds;
    if (saver->running) return; /* the disk is slow: later */
    saver->pictured = wane__memo_changes(memo->memo);
    saver->taking = wane__memo_picture_begin(memo->memo, memo->origin, memo->vocab_size, &saver->picture,
                                             &error) == WANE_OK;
    if (saver->taking) return;
    wane__log(saver->log, WANE_LOG_WARN, "%s It will be tried again in %u s.", error.text, saver->seconds);
    wane__buf_free(&saver->picture);
}

double wane__memo_saver_due(const struct wane__model_memo *memo) {
    if (memo == NULL || memo->path == NULL || memo->saver.seconds == 0) return INFINITY;
    if (memo->saver.taking) return 0;
    bool behind = wane__memo_changes(memo->memo) != memo->saver.kept;
    return behind ? memo->saver.due : INFINITY;
}

void wane__memo_saver_tick(struct wane__model_memo *memo, uint64_t entries) {
    if (memo == NULL) return;
    struct wane__memo_saver *saver = &memo->saver;
    if (saver->running && atomic_load(&saver->written)) take_back(saver);
    double due = wane__memo_saver_due(memo);
    if (isinf(due)) return;
    double now = wane__now();
    if (!saver->taking && now >= due) begin(memo, now);
    if (saver->taking && wane__memo_picture_go_on(memo->memo, &saver->picture, entries)) hand_over(memo);
}

void wane__memo_saver_end(struct wane__model_memo *memo) {
    struct wane__memo_saver *saver = &memo->saver;
    if (saver->taking) wane__memo_picture_drop(memo->memo, &saver->picture);
    saver->taking = false;
    if (saver->running) take_back(saver);
}
