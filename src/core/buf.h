/* buf.h - the one growable byte buffer. Start from {0}; a failed append latches `failed` and is harmless. */
#ifndef WANE_CORE_BUF_H
#define WANE_CORE_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct wane__buf {
    char *data; /* always terminated once something was appended; NULL before */
    size_t size, capacity;
    bool failed;
};

bool wane__buf_reserve(struct wane__buf *buf, size_t more);
bool wane__buf_append(struct wane__buf *buf, const void *bytes, size_t size);
bool wane__buf_text(struct wane__buf *buf, const char *text);
bool wane__buf_format(struct wane__buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void wane__buf_clear(struct wane__buf *buf);              /* keeps the memory */
void wane__buf_drop(struct wane__buf *buf, size_t front); /* forget the first bytes */
void wane__buf_free(struct wane__buf *buf);

#endif
