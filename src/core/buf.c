/* buf.c - the one growable byte buffer: doubling growth, overflow checks, a latch instead of half-written text. */
#include "core/buf.h"

#include "core/memory.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

bool wane__buf_reserve(struct wane__buf *buf, size_t more) {
    if (buf->failed) return false;
    if (more > SIZE_MAX / 2 - buf->size - 1) {
        buf->failed = true;
        return false;
    }
    size_t need = buf->size + more + 1;
    if (need <= buf->capacity) return true;
    size_t capacity = buf->capacity ? buf->capacity : 64;
    while (capacity < need) capacity *= 2;
    char *data = wane__resize(buf->data, capacity, 1);
    if (data == NULL) {
        buf->failed = true;
        return false;
    }
    buf->data = data;
    buf->capacity = capacity;
    buf->data[buf->size] = '\0';
    return true;
}

bool wane__buf_append(struct wane__buf *buf, const void *bytes, size_t size) {
    if (!wane__buf_reserve(buf, size)) return false;
    if (size > 0) memcpy(buf->data + buf->size, bytes, size);
    buf->size += size;
    buf->data[buf->size] = '\0';
    return true;
}

bool wane__buf_text(struct wane__buf *buf, const char *text) {
    return wane__buf_append(buf, text, strlen(text));
}

bool wane__buf_format(struct wane__buf *buf, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    bool fine = size >= 0 && wane__buf_reserve(buf, (size_t)size);
    if (fine) {
        vsnprintf(buf->data + buf->size, (size_t)size + 1, format, again);
        buf->size += (size_t)size;
    }
    va_end(again);
    return fine;
}

void wane__buf_clear(struct wane__buf *buf) {
    buf->size = 0;
    buf->failed = false;
    if (buf->data != NULL) buf->data[0] = '\0';
}

void wane__buf_drop(struct wane__buf *buf, size_t front) {
    if (front >= buf->size) {
        buf->size = 0;
    } else {
        memmove(buf->data, buf->data + front, buf->size - front);
        buf->size -= front;
    }
    if (buf->data != NULL) buf->data[buf->size] = '\0';
}

void wane__buf_free(struct wane__buf *buf) {
    wane__free(buf->data);
    *buf = (struct wane__buf){0};
}
