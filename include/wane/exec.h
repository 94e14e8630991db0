/*
 * exec.h - what is known of a program before wane goes under it: which libllama it will load, and whether wane knows that one. The
 * public functions behind `wane exec`. Part of wane.h.
 */
#ifndef WANE_EXEC_H
#define WANE_EXEC_H

#include "../wane.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    WANE_EXEC_KNOWN = 0,   /* it will load a libllama that wane knows                              */
    WANE_EXEC_UNKNOWN = 1, /* it will load one that wane does not know; `reason` says why           */
    WANE_EXEC_LATER = 2,   /* it names none; it may load one later: a script, a program with plug-ins */
    WANE_EXEC_INSIDE = 3   /* llama.cpp is linked into it: there is nothing to stand between         */
};

/* The variable that names libraries to load before all others, with colons between them. */
#ifdef __APPLE__
#define WANE_EXEC_PRELOAD "DYLD_INSERT_LIBRARIES"
#else
#define WANE_EXEC_PRELOAD "LD_PRELOAD"
#endif

typedef struct wane_exec_look {
    int verdict;        /* WANE_EXEC_…                                         */
    char program[4096]; /* its file                                           */
    char library[4096]; /* the libllama that it will load; "": it names none   */
    char version[64];   /* of that                                            */
    char reason[500];
} wane_exec_look;

/*
 * Look at a program: a path, or a name that PATH leads to. Nothing of the program runs: its loader is asked what it would
 * load, and that library is looked at in a process of its own, with `preload` (wane_exec_library) in it. WANE_ENOENT: there is no
 * such program; WANE_EIO: it cannot be started or read.
 */
WANE_API int wane_exec_look_at(const char *program, const char *preload, wane_exec_look *look,
                               wane_error *error);
/* Where libwane-preload lies: beside libwane, or in the folder wane/ there. WANE_ENOENT with the places. */
WANE_API int wane_exec_library(char *path, size_t size, wane_error *error);

#ifdef __cplusplus
}
#endif

#endif
