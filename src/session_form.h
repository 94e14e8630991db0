/*
 * session_form.h - a session's file as bytes: checked, and taken apart without being copied. docs/session.md specifies it.
 *
 *     head 224 │ settings │ conversation, JSON │ tokens, 4 each │ the engine's state │ XXH3-64 of all before
 */
#ifndef WANE_SESSION_FORM_H
#define WANE_SESSION_FORM_H

#include "wane.h"

#define WANE__SESSION_VERSION 1
#define WANE__SESSION_HEAD    224
#define WANE__SESSION_TAIL    8
/* Longest of the parts that are text. */
#define WANE__SESSION_SETTINGS_MOST 4096
#define WANE__SESSION_TALK_MOST     ((uint64_t)256 << 20)
#define WANE__SESSION_TOKENS_MOST   (1 << 24)

/* Points into the file's bytes, but for what is in `file`. */
struct wane__session_bytes {
    wane_session_file file;
    const unsigned char *tokens; /* 4 bytes each */
    const unsigned char *state;
};

/* Of the head's fields, their places and sizes: a file with another one is of another wane. */
uint64_t wane__session_layout(void);
/* The head of a file; `settings` and the sizes are taken from what `file` says, `talk` is the conversation's size. */
void wane__session_put_head(const wane_session_file *file, size_t talk, unsigned char *head);
/* WANE_EFORMAT in words. Afterwards wane_session_file_free(&out->file). `name` is for the sentence. */
int wane__session_parse(const char *name, const void *bytes, size_t size, struct wane__session_bytes *out,
                        wane_error *error);

#endif
