/*
 * probe.c - what this library does in a process that was started only to look at a libllama: open it, compare it, print one line, end.
 * Nothing but `wane exec` sets the variable.
 */
#include "preload/preload.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *find(void *user, const char *name) {
    return dlsym(user, name);
}

__attribute__((constructor)) static void probe(void) {
    const char *path = getenv("WANE_EXEC_PROBE");
    if (path == NULL || path[0] == '\0') return;
    static struct wane__abi abi;
    wane_error error = {0};
    char line[700];
    void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    const char *why = handle == NULL ? dlerror() : NULL;
    bool known = handle != NULL && wane__abi_open(find, handle, &abi, &error) == WANE_OK;
    if (known)
        snprintf(line, sizeof line, "known %s\n", abi.version);
    else
        snprintf(line, sizeof line, "unknown %s\t%s\n", abi.version, why != NULL ? why : error.text);
    size_t size = strlen(line);
    _exit(write(STDOUT_FILENO, line, size) == (ssize_t)size ? 0 : 1);
}
