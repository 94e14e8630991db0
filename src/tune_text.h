/* tune_text.h - labelled text: its form, read from outside. Knows no model. */
#ifndef WANE_TUNE_TEXT_H
#define WANE_TUNE_TEXT_H

#include "wane.h"

struct wane__tune_span { /* bytes from … to - 1 of the text */
    size_t from, to;
    bool right;
};

struct wane__tune_text {
    char *text;
    size_t size;
    struct wane__tune_span *span; /* ascending, none within another; NULL: the next token is the label */
    size_t spans;
};

struct wane__tune_texts { /* start from {0} */
    struct wane__tune_text *text;
    size_t count, room;
};

/*
 * One line of JSONL: {"text": …} or {"text": …, "spans": [{"from": 0, "to": 5, "right": true}]}. WANE_EFORMAT says what is wrong, for
 * a sentence that begins with where. Nothing is left to free on an error.
 */
int wane__tune_parse(const char *line, size_t size, struct wane__tune_text *out, wane_error *error);
/* A file: JSONL where its name ends in .jsonl, else one text. */
int wane__tune_read(const char *path, struct wane__tune_texts *out, wane_error *error);
void wane__tune_texts_free(struct wane__tune_texts *texts);

#endif
