/* gate_page.h - what `wane gate explain` learned, kept until it is printed, and its page. */
#ifndef WANE_CLI_GATE_PAGE_H
#define WANE_CLI_GATE_PAGE_H

#include "cli.h"

struct gate_piece {
    wane_gate_token verdict;
    char *text; /* whole characters; those that tokens share stand with the last of them */
    size_t size;
};

struct gate_story {
    const char *model, *gate, *prompt;
    size_t prompt_size;
    struct gate_piece *piece;
    size_t count, room;
    wane_gate_explanation end;
};

/* "pass", "reject", "table", "unknown". */
const char *gate_word(const wane_gate_token *token);
/* A page that needs nothing else, for light and dark; to standard output. */
void gate_page(const struct gate_story *story);

#endif
