/*
 * terminal.c - what only a terminal gets: colours, the progress line, Ctrl-C.
 *
 * Colours follow NO_COLOR and TERM=dumb. The progress line is rewritten in place and gone before anything else is
 * said. Ctrl-C is noted in a flag that long work looks at; while a reply runs, the handler stops that reply.
 */
#include "cli.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool progress_there;
static double progress_begun, progress_last;

bool term_lively(void) {
    const char *kind = getenv("TERM");
    return isatty(STDERR_FILENO) && kind != NULL && strcmp(kind, "dumb") != 0;
}

static bool colours(void) {
    const char *no = getenv("NO_COLOR");
    return term_lively() && (no == NULL || no[0] == '\0');
}

const char *term_dim(void) {
    return colours() ? "\033[2m" : "";
}
const char *term_bold(void) {
    return colours() ? "\033[1m" : "";
}
const char *term_plain(void) {
    return colours() ? "\033[0m" : "";
}

void progress_show(const char *what, double share) {
    enum { WIDTH = 30 };
    if (!term_lively()) return;
    double now = now_ms();
    if (progress_begun == 0) progress_begun = now;
    /* What takes no time needs no line; a line is read ten times a second at most. */
    if (now - progress_begun < 150 || now - progress_last < 100) return;
    progress_last = now;
    progress_there = true;
    if (share < 0) {
        fprintf(stderr, "\r\033[K%s", what);
    } else {
        int done = (int)((share > 1 ? 1 : share) * (double)WIDTH);
        fprintf(stderr, "\r\033[K%s [%.*s%.*s] %3.0f %%", what, done, "##############################",
                WIDTH - done, "..............................", 100 * (share > 1 ? 1 : share));
    }
    fflush(stderr);
}

bool progress_goes_on(void *user, const char *what, double share) {
    (void)user;
    progress_show(what, share);
    return !interrupt_seen();
}

void progress_clear(void) {
    if (progress_there) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    progress_there = false;
    progress_begun = progress_last = 0;
}

static volatile sig_atomic_t interrupted;
static wane_session *volatile target;

static void on_interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
    if (target != NULL) wane_session_interrupt(target);
}

void interrupt_catch(void) {
    struct sigaction action = {.sa_handler = on_interrupt}; /* no SA_RESTART: a waiting read ends, too */
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

void interrupt_target(wane_session *session) {
    target = session;
}
bool interrupt_seen(void) {
    return interrupted != 0;
}
void interrupt_forget(void) {
    interrupted = 0;
}
