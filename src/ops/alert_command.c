/*
 * alert_command.c - a change told to a command of the operator's. Owns the child while it runs, and its process group: when its time is over,
 * or the server ends, all of it is killed. Refuses to put anything of a message into the command's text: it stands in the environment.
 */
#include "ops/alert_send.h"

#include "core/clock.h"
#include "core/memory.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { OWN = 8 };

/* Names that are said here, and settings of alerts, which hold secrets: a child gets neither from us. */
static bool is_ours(const char *variable) {
    static const char *const names[] = {"WANE_BREAKER=", "WANE_BREAKER_RECENT="};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(variable, names[i], strlen(names[i])) == 0) return true;
    return strncmp(variable, "WANE_ALERT", 10) == 0;
}

/* The program's environment, and what is said here. NULL without memory. */
static char **environment_of(struct wane__buf text[OWN], int own) {
    size_t count = 0, used = 0;
    while (environ[count] != NULL) count++;
    char **all = wane__alloc_zero(count + (size_t)own + 1, sizeof *all);
    if (all == NULL) return NULL;
    for (size_t i = 0; i < count; i++)
        if (!is_ours(environ[i])) all[used++] = environ[i];
    for (int i = 0; i < own; i++) all[used++] = text[i].data;
    return all;
}

static int say(const struct wane__alert_command *command, const struct wane__hook_message *m,
               struct wane__buf text[OWN]) {
    const struct wane__alert_view *view = &m->change.view;
    int n = 0;
    wane__buf_format(&text[n++], "WANE_ALERT=%s", wane__alert_name(m->change.alert));
    wane__buf_format(&text[n++], "WANE_ALERT_STATE=%s", view->raised ? "raised" : "cleared");
    wane__buf_format(&text[n++], "WANE_ALERT_REASON=%s", view->reason);
    wane__buf_format(&text[n++], "WANE_ALERT_COUNT=%llu", (unsigned long long)view->count);
    wane__buf_format(&text[n++], "WANE_ALERT_JSON=%.*s", (int)m->body_size, m->body);
    if (!command->breaker) return n;
    wane__buf_format(&text[n++], "WANE_BREAKER=%s", view->raised ? "out" : "in");
    wane__buf_format(&text[n++], "WANE_BREAKER_RECENT=%d",
                     atomic_load((atomic_int *)(uintptr_t)&command->wakes));
    return n;
}

/* In a group of its own, with no signal blocked and none ignored that would matter to it. */
static int spawn(const struct wane__alert_command *command, char **environment, pid_t *child) {
    char *words[] = {(char *)(uintptr_t) "/bin/sh", (char *)(uintptr_t) "-c",
                     (char *)(uintptr_t)command->command, NULL};
    posix_spawnattr_t how;
    sigset_t none, usual;
    sigemptyset(&none);
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    sigaddset(&usual, SIGXFSZ);
    if (posix_spawnattr_init(&how) != 0) return ENOMEM;
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setsigdefault(&how, &usual);
    posix_spawnattr_setpgroup(&how, 0);
    int failed = posix_spawn(child, "/bin/sh", NULL, &how, words, environment);
    posix_spawnattr_destroy(&how);
    return failed;
}

/* Until it ends or its time is over. */
static enum wane__hook_result wait_for(pid_t child, const struct wane__hook *hook, int timeout_ms,
                                       char why[200]) {
    double until = wane__now() + 1e-3 * timeout_ms;
    int status = 0;
    for (;;) {
        pid_t got = waitpid(child, &status, WNOHANG);
        if (got == child || (got < 0 && errno != EINTR)) break;
        if (wane__now() >= until || wane__hook_is_ending(hook)) {
            kill(-child, SIGKILL);
            while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
            snprintf(why, 200, "it ran for longer than %d ms", timeout_ms);
            return WANE__HOOK_LATER;
        }
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return WANE__HOOK_DELIVERED;
    if (WIFSIGNALED(status))
        snprintf(why, 200, "it ended by signal %d", WTERMSIG(status));
    else
        snprintf(why, 200, "it exited with %d", WEXITSTATUS(status));
    return WANE__HOOK_LATER;
}

enum wane__hook_result wane__command_send(void *user, const struct wane__hook *hook,
                                          const struct wane__hook_message *message, char why[200]) {
    const struct wane__alert_command *command = user;
    struct wane__buf text[OWN] = {{0}};
    pid_t child = -1;
    enum wane__hook_result result = WANE__HOOK_LATER;
    int own = say(command, message, text);
    bool fine = true;
    for (int i = 0; i < own; i++) fine = fine && !text[i].failed;
    char **environment = fine ? environment_of(text, own) : NULL;
    int failed = environment == NULL ? ENOMEM : spawn(command, environment, &child);
    if (failed != 0)
        snprintf(why, 200, "it could not be started: %s", strerror(failed));
    else
        result = wait_for(child, hook, command->timeout_ms, why);
    wane__free(environment);
    for (int i = 0; i < own; i++) wane__buf_free(&text[i]);
    return result;
}
