/* shipped.c - finds files that come with wane. Refuses to read them. */
#include "shipped.h"

#include "wane.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The folder that holds the library or program that this code is in, with a slash; empty: not known. */
static void own_folder(char *out, size_t room) {
    Dl_info info;
    void *address;
    bool (*own)(const char *, char *, size_t) = wane__shipped;
    memcpy(&address, &own, sizeof address); /* ISO C has no cast from a function's pointer */
    out[0] = '\0';
    if (dladdr(address, &info) == 0 || info.dli_fname == NULL) return;
    const char *slash = strrchr(info.dli_fname, '/');
    int size = slash != NULL ? (int)(slash + 1 - info.dli_fname) : 0;
    if (size > 0 && (size_t)size < room) snprintf(out, room, "%.*s", size, info.dli_fname);
}

bool wane__shipped(const char *file, char *out, size_t room) {
    char own[1000];
    own_folder(own, sizeof own);
    const char *folder[] = {own, own, WANE_SHARE_DIR, WANE_SOURCE_SHARE_DIR};
    static const char *const below[] = {WANE_SHARE_RELATIVE, "share", "",
                                        ""}; /* share: in a Python package */
    for (size_t i = 0; i < sizeof folder / sizeof *folder; i++) {
        if (folder[i][0] == '\0') continue;
        int size = snprintf(out, room, "%s%s/%s", folder[i], below[i], file);
        if (size > 0 && (size_t)size < room && access(out, R_OK) == 0) return true;
    }
    return false;
}

bool wane_shipped_file(const char *name, char *out, size_t room) {
    return wane__shipped(name, out, room);
}
