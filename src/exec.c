/*
 * exec.c - looks at a program before wane goes under it.
 *
 * What a program loads is its loader's affair: search paths, caches, variables. So the loader is asked, by its option --list,
 * which runs nothing of the program. The library that it names is then opened in a shell's process with libwane-preload in it,
 * which compares it and prints a line (src/preload/probe.c); so a library that crashes or hangs about is no matter here.
 */
#include "wane/exec.h"
#include "core/elf.h"
#include "core/error.h"
#include "core/memory.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#ifdef __APPLE__
#define SUFFIX "dylib"
#else
#define SUFFIX "so"
#endif

/* Bytes of a program's file that are read for its loader's name, of what a child prints, and read at once. */
enum { HEAD = 1 << 16, ANSWER = 1 << 16, PIECE = 1 << 20 };

/* ------------------------------------------------------------------- library */

int wane_exec_library(char *path, size_t size, wane_error *error) {
    wane__clear(error);
    Dl_info info;
    int (*here)(char *, size_t, wane_error *) = wane_exec_library;
    void *address;
    memcpy(&address, &here, sizeof address); /* ISO C has no cast from a function's pointer */
    const char *file = dladdr(address, &info) != 0 && info.dli_fname != NULL ? info.dli_fname : "";
    char *whole = realpath(file, NULL);
    const char *slash = whole != NULL ? strrchr(whole, '/') : NULL;
    int folder = slash != NULL ? (int)(slash - whole) : 0, found = 0;
    static const char *const places[] = {"/wane", ""};
    for (size_t i = 0; i < 2 && slash != NULL && !found; i++) {
        int length = snprintf(path, size, "%.*s%s/libwane-preload." SUFFIX, folder, whole, places[i]);
        found = length > 0 && (size_t)length < size && access(path, R_OK) == 0;
    }
    int result =
        found ? WANE_OK
              : wane__fail(error, WANE_ENOENT, "There is no libwane-preload." SUFFIX " in %.*s/wane or %.*s.",
                           folder, whole != NULL ? whole : "", folder, whole != NULL ? whole : "");
    free(whole);
    return result;
}

/* ------------------------------------------------------------------- program */

static bool can_run(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static int find_program(const char *name, char *out, size_t room, wane_error *error) {
    if (strchr(name, '/') != NULL) {
        if (access(name, F_OK) != 0) return wane__fail(error, WANE_ENOENT, "There is no program %s.", name);
        if (!can_run(name))
            return wane__fail(error, WANE_EIO, "%s cannot be started: it is no program.", name);
        return snprintf(out, room, "%s", name) < (int)room ? WANE_OK : WANE_ENOENT;
    }
    const char *path = getenv("PATH");
    while (path != NULL && *path != '\0') {
        size_t length = strcspn(path, ":");
        int written = snprintf(out, room, "%.*s%s%s", (int)length, path, length > 0 ? "/" : "", name);
        if (written > 0 && (size_t)written < room && can_run(out)) return WANE_OK;
        path += length + (path[length] == ':');
    }
    return wane__fail(error, WANE_ENOENT, "There is no program %s in the folders of PATH.", name);
}

/* ------------------------------------------------------------------- children */

static size_t read_all(int fd, char *out, size_t room) {
    size_t have = 0;
    for (ssize_t got; have < room; have += (size_t)got) {
        got = read(fd, out + have, room - have);
        if (got < 0 && errno == EINTR)
            got = 0;
        else if (got <= 0)
            break;
    }
    return have;
}

/* Run a program and take what it prints; `out` is terminated. False: it could not be run, or failed. */
static bool ask(char *const arguments[], char *const environment[], char *out, size_t room) {
    int ends[2], status = -1;
    pid_t child;
    posix_spawn_file_actions_t actions;
    if (pipe(ends) != 0) return false;
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    bool ran = posix_spawn(&child, arguments[0], &actions, NULL, arguments, environment) == 0;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    size_t size = ran ? read_all(ends[0], out, room - 1) : 0;
    out[size] = '\0';
    close(ends[0]);
    while (ran && waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    return ran && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---------------------------------------------------------------------- looks */

/* Is llama.cpp linked into it? Its messages name this function. */
static bool holds_llama(const char *path, char *bytes) {
    static const char sign[] = "llama_init_from_model";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool found = false;
    size_t kept = 0;
    bool program =
        fd >= 0 && pread(fd, bytes, 4, 0) == 4 && memcmp(bytes, "\177ELF", 4) == 0; /* not a script */
    for (size_t got; program && !found && (got = read_all(fd, bytes + kept, PIECE - kept)) > 0;) {
        size_t have = kept + got;
        found = memmem(bytes, have, sign, sizeof sign - 1) != NULL;
        kept = have < sizeof sign ? have : sizeof sign;
        memmove(bytes, bytes + have - kept, kept);
    }
    if (fd >= 0) close(fd);
    return found;
}

static bool names_library(const char *program, char *bytes, char *library, size_t room) {
    char loader[4096], list[] = "--list";
    int fd = open(program, O_RDONLY | O_CLOEXEC);
    size_t size = fd >= 0 ? read_all(fd, bytes, HEAD) : 0;
    if (fd >= 0) close(fd);
    if (!wane__elf_loader(bytes, size, loader, sizeof loader)) return false;
    char *path = wane__copy_string(program);
    char *const arguments[] = {loader, list, path, NULL};
    bool found = path != NULL && ask(arguments, environ, bytes, ANSWER) &&
                 wane__elf_find_llama(bytes, strlen(bytes), library, room);
    wane__free(path);
    return found;
}

/* The environment with two more; only the arrays are ours. */
static char **environment_with(char *first, char *second) {
    size_t count = 0, have = 0;
    while (environ != NULL && environ[count] != NULL) count++;
    char **list = wane__alloc_zero(count + 3, sizeof *list);
    if (list == NULL) return NULL;
    list[have++] = first;
    list[have++] = second;
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], WANE_EXEC_PRELOAD "=", sizeof WANE_EXEC_PRELOAD) != 0 &&
            strncmp(environ[i], "WANE_EXEC_", 10) != 0)
            list[have++] = environ[i];
    return list;
}

/* One line: "known VERSION", or "unknown VERSION<tab>SENTENCE". */
static void judge(const char *preload, char *bytes, wane_exec_look *look) {
    char preloaded[4200], probe[4200], shell[] = "/bin/sh", option[] = "-c", nothing[] = ":";
    char *const arguments[] = {shell, option, nothing, NULL};
    snprintf(preloaded, sizeof preloaded, WANE_EXEC_PRELOAD "=%s", preload);
    snprintf(probe, sizeof probe, "WANE_EXEC_PROBE=%s", look->library);
    char **environment = environment_with(preloaded, probe);
    bool answered = environment != NULL && ask(arguments, environment, bytes, ANSWER);
    wane__free(environment);
    bytes[strcspn(bytes, "\n")] = '\0';
    look->verdict = WANE_EXEC_UNKNOWN;
    snprintf(look->reason, sizeof look->reason, "it could not be looked at");
    if (!answered) return;
    char *rest = strchr(bytes, ' ');
    if (rest == NULL) return;
    rest++;
    size_t length = strcspn(rest, "\t");
    snprintf(look->version, sizeof look->version, "%.*s", (int)(length < 63 ? length : 63), rest);
    if (strncmp(bytes, "known ", 6) == 0) {
        look->verdict = WANE_EXEC_KNOWN;
        look->reason[0] = '\0';
    } else if (rest[length] == '\t') {
        snprintf(look->reason, sizeof look->reason, "%.499s", rest + length + 1);
    }
}

int wane_exec_look_at(const char *program, const char *preload, wane_exec_look *look, wane_error *error) {
    wane__clear(error);
    memset(look, 0, sizeof *look);
    if (program == NULL || preload == NULL || program[0] == '\0' || strlen(preload) >= sizeof look->library)
        return wane__fail(error, WANE_EINVAL, "No program was named, or no library.");
    int result = find_program(program, look->program, sizeof look->program, error);
    if (result != WANE_OK) return result;
    char *bytes = wane__alloc(PIECE);
    if (bytes == NULL) return wane__fail(error, WANE_ENOMEM, "No memory to look at %s.", program);
    if (names_library(look->program, bytes, look->library, sizeof look->library))
        judge(preload, bytes, look);
    else
        look->verdict = holds_llama(look->program, bytes) ? WANE_EXEC_INSIDE : WANE_EXEC_LATER;
    wane__free(bytes);
    return WANE_OK;
}
