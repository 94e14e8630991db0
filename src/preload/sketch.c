/*
 * sketch.c - models by their files, and a model's sketch.
 *
 * The sketch is the one that every command of wane uses: under the digest of the model's file, in the cache folder. Where there is
 * none, `wane head build` makes it in a process of its own, with wane's own engine: the host's memory, threads and
 * log stay its own, and a fault there is none here. The thread that decodes waits for it, once a model.
 */
#include "preload/preload.h"

#include "core/error.h"
#include "core/memory.h"
#include "sketch_place.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ------------------------------------------------------------------- models */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct wane__under_model *models;

void wane__under_models_reset_lock(void) {
    pthread_mutex_init(&lock, NULL);
    for (struct wane__under_model *m = models; m != NULL; m = m->next) pthread_mutex_init(&m->lock, NULL);
}

static struct wane__under_model *find(const struct llama_model *model) {
    struct wane__under_model *m = models;
    while (m != NULL && m->model != model) m = m->next;
    return m;
}

/* "models/gemma3-270m.gguf" → "gemma3-270m" */
static void name_of(const char *path, char *name, size_t size) {
    const char *slash = strrchr(path, '/');
    snprintf(name, size, "%s", slash != NULL ? slash + 1 : path[0] != '\0' ? path : "a model");
    char *dot = strrchr(name, '.');
    if (dot != NULL && dot != name) *dot = '\0';
}

static struct wane__under_model *add(struct llama_model *model, const char *path) {
    struct wane__under_model *m = find(model);
    if (m == NULL) {
        m = wane__alloc_zero(1, sizeof *m);
        if (m == NULL) return NULL;
        pthread_mutex_init(&m->lock, NULL);
        m->model = model;
        m->next = models;
        models = m;
    }
    if (path != NULL && strlen(path) < sizeof m->path) {
        /* The host may go to another folder before we look. */
        char *whole = realpath(path, NULL);
        if (whole != NULL && strlen(whole) < sizeof m->path) snprintf(m->path, sizeof m->path, "%s", whole);
        free(whole);
        name_of(path, m->name, sizeof m->name);
    } else {
        name_of("", m->name, sizeof m->name);
    }
    return m;
}

void wane__under_model_add(struct llama_model *model, const char *path) {
    if (model == NULL) return;
    pthread_mutex_lock(&lock);
    add(model, path);
    pthread_mutex_unlock(&lock);
}

void wane__under_model_drop(struct llama_model *model) {
    pthread_mutex_lock(&lock);
    struct wane__under_model **at = &models;
    while (*at != NULL && (*at)->model != model) at = &(*at)->next;
    struct wane__under_model *m = *at;
    if (m != NULL) *at = m->next;
    pthread_mutex_unlock(&lock);
    if (m == NULL) return;
    pthread_mutex_destroy(&m->lock);
    wane__free(m);
}

struct wane__under_model *wane__under_model_of(struct llama_model *model) {
    pthread_mutex_lock(&lock);
    struct wane__under_model *m = find(model);
    if (m == NULL) m = add(model, NULL);
    pthread_mutex_unlock(&lock);
    return m;
}

/* ----------------------------------------------------------------- building */

/* The environment without what would put us under the builder too; NULL without memory. */
static char **plain_environment(void) {
    static const char *const left_out[] = {"LD_PRELOAD=", "DYLD_INSERT_LIBRARIES=", "WANE_"};
    static const char *const kept[] = {"WANE_CACHE=", "WANE_BACKENDS="};
    size_t count = 0, have = 0;
    while (environ != NULL && environ[count] != NULL) count++;
    char **list = wane__alloc_zero(count + 1, sizeof *list);
    for (size_t i = 0; i < count && list != NULL; i++) {
        bool take = true;
        for (size_t j = 0; j < sizeof left_out / sizeof *left_out; j++)
            take = take && strncmp(environ[i], left_out[j], strlen(left_out[j])) != 0;
        for (size_t j = 0; j < sizeof kept / sizeof *kept; j++)
            take = take || strncmp(environ[i], kept[j], strlen(kept[j])) == 0;
        if (take) list[have++] = environ[i];
    }
    return list;
}

/* Wait for it. A host that reaps all its children may have been quicker: then the file will tell. */
static bool ended_well(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return errno == ECHILD;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int run_builder(const char *program, const char *path, wane_error *error) {
    char name[] = "wane", head[] = "head", build[] = "build", model[] = "--model", json[] = "--json";
    char *where = wane__copy_string(path);
    char *const arguments[] = {name, head, build, json, model, where, NULL};
    char **environment = plain_environment();
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    pid_t child = 0;
    int failed = ENOMEM;
    sigemptyset(&none);
    if (where != NULL && environment != NULL && posix_spawn_file_actions_init(&actions) == 0) {
        for (int fd = 0; fd < 3; fd++)
            posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", fd == 0 ? 0 /* O_RDONLY */ : 1, 0);
        posix_spawnattr_init(&attributes);
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
        failed = posix_spawn(&child, program, &actions, &attributes, arguments, environment);
        posix_spawnattr_destroy(&attributes);
        posix_spawn_file_actions_destroy(&actions);
    }
    wane__free(environment);
    wane__free(where);
    if (failed != 0)
        return wane__fail(error, WANE_EIO, "its sketch could not be made: %s: %s", program, strerror(failed));
    if (ended_well(child)) return WANE_OK;
    return wane__fail(error, WANE_EENGINE,
                      "its sketch could not be made; \"wane head build --model %.300s\" says why", path);
}

static int build(struct wane__under_model *m, wane_error *error) {
    const struct wane__under_settings *s = wane__under_settings();
    if (!s->build)
        return wane__fail(error, WANE_ENOENT,
                          "there is no sketch of it yet; \"wane head build --model %.300s\" makes one",
                          m->path);
    if (s->program[0] == '\0')
        return wane__fail(error, WANE_ENOENT,
                          "there is no sketch of it yet, and nobody said where wane is (WANE_EXEC_PROGRAM)");
    wane__under_say("%s: making its sketch, once for this model; this takes some seconds", m->name);
    return run_builder(s->program, m->path, error);
}

/* ------------------------------------------------------------------ opening */

static int open_found(struct wane__under_model *m, const struct wane__head_weights *weights, int threads,
                      int rows, struct wane__head **head, wane_error *error) {
    char folder[1024], path[1200];
    if (m->path[0] == '\0')
        return wane__fail(error, WANE_ENOENT, "the file that it was loaded from is not known");
    int result = m->digest[0] != '\0' ? WANE_OK : wane__file_digest(m->path, m->digest, error);
    if (result != WANE_OK) return result;
    if (!wane__sketch_folder(NULL, folder, sizeof folder))
        return wane__fail(error, WANE_ENOENT, "no folder for its sketch is known (HOME is not set)");
    wane__sketch_path(folder, m->digest, path, sizeof path);
    float sigmas = (float)wane__under_settings()->sigmas;
    result = wane__head_open(path, weights, m->digest, sigmas, threads, rows, head, error);
    if ((result != WANE_ENOENT && result != WANE_EFORMAT) || m->tried) return result;
    m->tried = true;
    wane__clear(error);
    result = build(m, error);
    return result == WANE_OK ? wane__head_open(path, weights, m->digest, sigmas, threads, rows, head, error)
                             : result;
}

int wane__under_sketch_open(struct wane__under_model *m, const struct wane__head_weights *weights,
                            int threads, int rows, struct wane__head **head, wane_error *error) {
    /* The head's threads hear no signal: those are for the host. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pthread_mutex_lock(&m->lock);
    int result = WANE_ENOENT;
    if (m->reason[0] != '\0') {
        wane__fail(error, result, "%s", m->reason);
    } else {
        result = open_found(m, weights, threads, rows, head, error);
        if (result != WANE_OK && error != NULL) snprintf(m->reason, sizeof m->reason, "%.399s", error->text);
    }
    pthread_mutex_unlock(&m->lock);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return result;
}
