/*
 * holder.c - owns the snapshot in use and the thread that watches its file.
 *
 * Two locks: `loading` lets one reload run at a time and is held while a file is read; `swap` guards the pointer, the
 * counts and the state, and is held for a few instructions. Counts of snapshots are atomic, so that giving one back
 * needs no lock and no holder.
 */
#include "table/holder.h"

#include "core/clock.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/os.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct snapshot {
    struct wane__slmt slmt;
    struct wane__phrases *phrases; /* NULL: none */
    atomic_uint holders;
};

/* What a look at the disk compares. */
struct sight {
    bool table_there, signature_there;
    struct wane__slmt_identity table, signature;
};

struct wane__table {
    char *path, *signature_path;
    struct wane__trace_origin origin;
    unsigned char key[32];
    bool any_origin, signed_only;
    struct wane__log *log;
    int poll_ms;

    pthread_mutex_t loading;
    struct sight seen; /* when a load was last tried */

    pthread_mutex_t swap;
    struct snapshot *current; /* NULL: off */
    struct wane__table_state state;

    pthread_t watcher;
    bool watching;
    pthread_cond_t woken;
    bool ending;
};

/* ------------------------------------------------------------------- snapshots */

static void give(struct snapshot *snapshot) {
    if (atomic_fetch_sub_explicit(&snapshot->holders, 1, memory_order_acq_rel) != 1) return;
    wane__slmt_close(&snapshot->slmt);
    wane__phrases_free(snapshot->phrases);
    wane__free(snapshot);
}

static const struct snapshot *snapshot_of(const struct wane__slmt *taken) {
    return (const struct snapshot *)(const void *)((const char *)taken - offsetof(struct snapshot, slmt));
}

const struct wane__slmt *wane__table_take(struct wane__table *table) {
    pthread_mutex_lock(&table->swap);
    struct snapshot *snapshot = table->current;
    if (snapshot != NULL) atomic_fetch_add_explicit(&snapshot->holders, 1, memory_order_relaxed);
    pthread_mutex_unlock(&table->swap);
    return snapshot == NULL ? NULL : &snapshot->slmt;
}

void wane__table_give(const struct wane__slmt *taken) {
    if (taken == NULL) return;
    give((struct snapshot *)(uintptr_t)snapshot_of(taken));
}

const struct wane__phrases *wane__table_phrases(const struct wane__slmt *taken) {
    return snapshot_of(taken)->phrases;
}

/* A classifier that cannot be used costs good guesses, nothing else. */
static void open_phrases(const struct wane__table *table, struct snapshot *made) {
    const struct wane__slmt *slmt = &made->slmt;
    wane_error error = {0};
    size_t size = (size_t)slmt->header->section[WANE__SLMT_PHRASES].size;
    if (size > 0 && wane__phrases_load(slmt->phrases, size, &made->phrases, &error) != WANE_OK)
        wane__log(table->log, WANE_LOG_WARN, "table: %s", error.text);
}

static int open_snapshot(const struct wane__table *table, struct snapshot **made, wane_error *error) {
    *made = wane__alloc_zero(1, sizeof **made);
    if (*made == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a table.");
    atomic_init(&(*made)->holders, 1);
    int status = wane__slmt_open(table->path, table->any_origin ? NULL : &table->origin,
                                 table->signed_only ? table->key : NULL, &(*made)->slmt, error);
    if (status == WANE_OK) {
        open_phrases(table, *made);
        return WANE_OK;
    }
    wane__free(*made);
    *made = NULL;
    return status;
}

/* ------------------------------------------------------------------------ swap */

static void see(const struct wane__table *table, struct sight *sight) {
    sight->table_there = wane__slmt_identify(table->path, &sight->table);
    sight->signature_there =
        table->signed_only && wane__slmt_identify(table->signature_path, &sight->signature);
    if (!sight->signature_there) sight->signature = (struct wane__slmt_identity){0};
}

static bool same_sight(const struct sight *a, const struct sight *b) {
    return a->table_there == b->table_there && a->signature_there == b->signature_there &&
           wane__slmt_unchanged(&a->table, &b->table) && wane__slmt_unchanged(&a->signature, &b->signature);
}

/* Under `swap`. */
static void describe(struct wane__table_state *state, const struct wane__slmt *slmt) {
    state->on = slmt != NULL;
    if (slmt == NULL) {
        state->entries = state->positions = state->continuations = 0;
        state->bytes = 0;
        state->digest[0] = '\0';
        state->verified = false;
        return;
    }
    state->verified = slmt->verified;
    memcpy(state->digest, slmt->digest, sizeof state->digest);
    state->entries = slmt->header->entries;
    state->positions = slmt->header->positions;
    state->continuations = slmt->header->continuations;
    state->bytes = slmt->size;
}

static void put_in(struct wane__table *table, struct snapshot *fresh) {
    pthread_mutex_lock(&table->swap);
    struct snapshot *old = table->current;
    table->current = fresh;
    describe(&table->state, &fresh->slmt);
    table->state.reason[0] = '\0';
    table->state.reloads++;
    table->state.failed_in_row = 0;
    pthread_mutex_unlock(&table->swap);
    if (old != NULL) give(old);
    wane__log(table->log, WANE_LOG_INFO, "table: %u entries, %u positions from %s, digest %.16s%s",
              fresh->slmt.header->entries, fresh->slmt.header->positions, table->path, fresh->slmt.digest,
              fresh->slmt.verified ? ", signature verified" : "");
}

/* Was the file written into that the table in use came from? `loading` is held, so that `current` stays. */
static bool own_file_damaged(const struct wane__table *table, const struct sight *now) {
    if (table->current == NULL || !now->table_there) return false;
    const struct wane__slmt_identity *own = &table->current->slmt.identity;
    return wane__slmt_same_file(own, &now->table) && !wane__slmt_unchanged(own, &now->table);
}

static void keep_out(struct wane__table *table, bool off, wane_error *error) {
    pthread_mutex_lock(&table->swap);
    struct snapshot *old = off ? table->current : NULL;
    bool was_on = table->current != NULL;
    if (off) table->current = NULL;
    const char *fate = off      ? "The table is turned off"
                       : was_on ? "The table that was loaded before stays in use"
                                : "The table is off";
    if (off) describe(&table->state, NULL);
    snprintf(table->state.reason, sizeof table->state.reason, "%s: %.440s", fate, error->text);
    table->state.failures++;
    table->state.failed_in_row++;
    snprintf(error->text, sizeof error->text, "%s", table->state.reason);
    pthread_mutex_unlock(&table->swap);
    if (old != NULL) give(old);
    wane__log(table->log, WANE_LOG_WARN, "table: %s", error->text);
}

/* `loading` is held. */
static int load(struct wane__table *table, wane_error *error) {
    struct snapshot *fresh;
    struct sight now;
    wane_error why = {0};
    see(table, &now);
    int status = open_snapshot(table, &fresh, &why);
    table->seen = now; /* looked at before it was read: a change during that is seen next time */
    if (status == WANE_OK) {
        put_in(table, fresh);
        return WANE_OK;
    }
    see(table, &now);
    keep_out(table, own_file_damaged(table, &now), &why);
    return wane__fail(error, status, "%s", why.text);
}

int wane__table_reload(struct wane__table *table, wane_error *error) {
    pthread_mutex_lock(&table->loading);
    int status = load(table, error);
    pthread_mutex_unlock(&table->loading);
    return status;
}

bool wane__table_look(struct wane__table *table) {
    struct sight now;
    pthread_mutex_lock(&table->loading);
    see(table, &now);
    /* A file that is gone for the moment says nothing: it is being replaced, or the table outlives it. */
    bool changed = now.table_there && !same_sight(&now, &table->seen);
    if (changed) load(table, NULL);
    pthread_mutex_unlock(&table->loading);
    return changed;
}

void wane__table_get_state(struct wane__table *table, struct wane__table_state *state) {
    pthread_mutex_lock(&table->swap);
    *state = table->state;
    pthread_mutex_unlock(&table->swap);
}

/* --------------------------------------------------------------------- watcher */

static void *watch(void *holder) {
    struct wane__table *table = holder;
    pthread_mutex_lock(&table->swap);
    while (!table->ending) {
        double until = wane__now() + table->poll_ms / 1e3;
        while (!table->ending && wane__now() < until) wane__os_cond_wait(&table->woken, &table->swap, until);
        if (table->ending) break;
        pthread_mutex_unlock(&table->swap);
        wane__table_look(table);
        pthread_mutex_lock(&table->swap);
    }
    pthread_mutex_unlock(&table->swap);
    return NULL;
}

static int copy_options(struct wane__table *table, const struct wane__table_options *options) {
    size_t size = strlen(options->path) + 5;
    table->path = wane__copy_string(options->path);
    table->signature_path = wane__alloc(size);
    if (table->path == NULL || table->signature_path == NULL) return WANE_ENOMEM;
    snprintf(table->signature_path, size, "%s.sig", options->path);
    table->any_origin = options->origin == NULL;
    if (options->origin != NULL) table->origin = *options->origin;
    table->signed_only = options->key != NULL;
    if (options->key != NULL) memcpy(table->key, options->key, sizeof table->key);
    table->log = options->log;
    table->poll_ms = options->poll_ms;
    return WANE_OK;
}

int wane__table_new(const struct wane__table_options *options, struct wane__table **table,
                    wane_error *error) {
    *table = NULL;
    struct wane__table *made = wane__alloc_zero(1, sizeof *made);
    if (made == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a table.");
    pthread_mutex_init(&made->loading, NULL);
    pthread_mutex_init(&made->swap, NULL);
    wane__os_cond_init(&made->woken);
    struct snapshot *first = NULL;
    int status = copy_options(made, options);
    if (status != WANE_OK) {
        wane__fail(error, status, "No memory for a table.");
    } else {
        see(made, &made->seen);
        status = open_snapshot(made, &first, error);
    }
    if (status == WANE_OK) {
        put_in(made, first);
        made->state.reloads = 0; /* nobody reads it yet */
        if (made->poll_ms > 0) {
            made->watching = wane__os_thread_start(&made->watcher, watch, made) == 0;
            if (!made->watching)
                status = wane__fail(error, WANE_ENOMEM, "No thread to watch the table's file.");
        }
    }
    if (status != WANE_OK) {
        wane__table_free(made);
        return status;
    }
    *table = made;
    return WANE_OK;
}

void wane__table_free(struct wane__table *table) {
    if (table == NULL) return;
    if (table->watching) {
        pthread_mutex_lock(&table->swap);
        table->ending = true;
        pthread_cond_broadcast(&table->woken);
        pthread_mutex_unlock(&table->swap);
        pthread_join(table->watcher, NULL);
    }
    if (table->current != NULL) give(table->current);
    pthread_cond_destroy(&table->woken);
    pthread_mutex_destroy(&table->swap);
    pthread_mutex_destroy(&table->loading);
    wane__free(table->path);
    wane__free(table->signature_path);
    wane__free(table);
}
