/*
 * rollout_file.h - a rollout's file: read, written, and locked while it is changed, so that a server and whoever stands at a terminal
 * may both change it.
 *
 *     lock FILE.lock ─► read FILE ─► change ─► write to a temporary name, sync, rename ─► unlock
 *
 * The lock is a file of its own, because FILE is another one after each write. Readers need no lock: they see the old one or the new one.
 */
#ifndef WANE_OPS_ROLLOUT_FILE_H
#define WANE_OPS_ROLLOUT_FILE_H

#include "ops/rollout.h"

/* WANE_EBUSY when others hold it longer than `wait_ms`; WANE_EIO. Give it back with wane__rollout_unlock. */
int wane__rollout_lock(const char *path, int wait_ms, int *lock, wane_error *error);
void wane__rollout_unlock(int lock);
/* WANE_ENOENT when there is no file. */
int wane__rollout_load(const char *path, struct wane__rollout_book *book, wane_error *error);
/* Under the lock. The state's revision is one more afterwards, in the file and in `book`; on failure neither changes. */
int wane__rollout_store(const char *path, struct wane__rollout_book *book, wane_error *error);
/* What tells one version of the file from the next without reading it; 0: there is none. */
uint64_t wane__rollout_print(const char *path);

#endif
