/* xray.h - `wane run --xray`: a reply whose tokens are tinted by how they were decided, as on the live page. */
#ifndef WANE_CLI_XRAY_H
#define WANE_CLI_XRAY_H

#include "talk.h"

struct xray {
    int colours; /* 0: letters in brackets; 16 or 256 */
    int by;      /* of the mark that stands last; -1: none */
    bool doubted, woke;
    bool ends_line; /* the text so far does */
    unsigned count[WANE_BYS];
    unsigned doubts;
};

/* What standard output shows: colours only on a terminal that has them, and where NO_COLOR is not set. */
void xray_begin(struct xray *xray);
/* A talk_sink; `user` is the struct xray. */
bool xray_event(void *user, const wane_event *event);
/* The legend, with how many tokens each tint stands for. */
void xray_end(struct xray *xray);

#endif
