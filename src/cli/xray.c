/*
 * xray.c - `wane run --xray`; see xray.h. The tints are the page's: cool where work was skipped, none where little was done, warm where
 * all was. With 16 colours the same order in the terminal's own; without colours a letter in brackets wherever the kind changes:
 *
 *     [2]The sky is [X]a marvel [2?]of
 *
 * A question mark, or a line below: the gate doubted the token; an exclamation mark, or bold: it woke the vote.
 */
#include "xray.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tint {
    const char *many, *few; /* SGR parameters, for 256 and for 16 colours */
    const char *name;
};

static const struct tint tints[WANE_BYS] = {
    [WANE_BY_NOTHING] = {"0", "0", "no head"},
    [WANE_BY_MEMO] = {"38;5;16;48;5;117", "97;44", "remembered"},
    [WANE_BY_DRAFT] = {"38;5;16;48;5;153", "30;46", "drafted"},
    [WANE_BY_TABLE] = {"38;5;16;48;5;195", "36", "table"},
    [WANE_BY_LEVEL1] = {"0", "0", "level 1"},
    [WANE_BY_LEVEL2] = {"38;5;16;48;5;230", "33", "level 2"},
    [WANE_BY_EXACT] = {"38;5;16;48;5;222", "30;43", "exact"},
    [WANE_BY_DENSE] = {"38;5;16;48;5;209", "97;41", "full head"},
};

void xray_begin(struct xray *xray) {
    const char *kind = getenv("TERM"), *no = getenv("NO_COLOR"), *deep = getenv("COLORTERM");
    *xray = (struct xray){.by = -1, .ends_line = true};
    if (!isatty(STDOUT_FILENO) || kind == NULL || strcmp(kind, "dumb") == 0) return;
    if (no != NULL && no[0] != '\0') return;
    bool many = strstr(kind, "256color") != NULL || (deep != NULL && deep[0] != '\0');
    xray->colours = many ? 256 : 16;
}

static void put_mark(const struct xray *xray) {
    if (xray->colours == 0) {
        out_format("[%c%s]", wane_by_letter(xray->by), xray->woke ? "!" : xray->doubted ? "?" : "");
        return;
    }
    const struct tint *tint = &tints[xray->by];
    out_format("\033[0;%s%s%sm", xray->colours == 256 ? tint->many : tint->few, xray->doubted ? ";4" : "",
               xray->woke ? ";1" : "");
}

static void put_plain(const struct xray *xray) {
    if (xray->colours > 0) out_text("\033[0m", 4);
}

/* A tint ends with its line: a terminal would else fill the rest of it. */
static void put_text(const struct xray *xray, const char *text, size_t size) {
    while (size > 0) {
        const char *line = memchr(text, '\n', size);
        size_t part = line != NULL ? (size_t)(line - text) : size;
        out_text(text, part);
        text += part;
        size -= part;
        if (size == 0) return;
        put_plain(xray);
        out_text("\n", 1);
        text++;
        size--;
        if (xray->colours > 0 && size > 0) put_mark(xray);
    }
}

bool xray_event(void *user, const wane_event *event) {
    struct xray *xray = user;
    const wane_view *view = event->view;
    int by = view != NULL ? wane_event_by(event) : xray->by;
    bool doubted = view != NULL && view->reject, woke = view != NULL && view->woke;
    if (view != NULL) {
        xray->count[by]++;
        xray->doubts += doubted;
    }
    if (event->text_size == 0) return true;
    bool changed = by != xray->by || doubted != xray->doubted || woke != xray->woke;
    xray->by = by;
    xray->doubted = doubted;
    xray->woke = woke;
    if (by >= 0 && (changed || xray->colours > 0)) put_mark(xray);
    put_text(xray, event->text, event->text_size);
    put_plain(xray);
    xray->ends_line = event->text[event->text_size - 1] == '\n';
    return out_flush();
}

void xray_end(struct xray *xray) {
    if (!xray->ends_line) out_text("\n", 1);
    out_text("\n", 1);
    for (int by = WANE_BY_MEMO; by < WANE_BYS; by++) {
        xray->by = by;
        xray->doubted = xray->woke = false;
        if (xray->colours > 0) {
            put_mark(xray);
            out_format(" %c ", wane_by_letter(by));
            put_plain(xray);
        } else {
            put_mark(xray);
        }
        out_format(" %s %u%s", tints[by].name, xray->count[by], by + 1 < WANE_BYS ? "  " : "\n");
    }
    if (xray->doubts > 0)
        out_format("%s the gate doubted %u\n", xray->colours > 0 ? "\033[4mline\033[0m" : "[?]",
                   xray->doubts);
    out_flush();
}
