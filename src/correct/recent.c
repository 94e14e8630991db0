/* recent.c - keeps the end of a text in a fixed buffer, and reads it as characters. Refuses to keep more than patterns see. */
#include "correct/recent.h"

#include <string.h>
#include <unicode/utf16.h>
#include <unicode/utf8.h>

void wane__recent_add(struct wane__recent *recent, const char *bytes, size_t size, bool of_reply) {
    enum { ROOM = sizeof recent->text };
    if (size > WANE__RECENT_BYTES) {
        bytes += size - WANE__RECENT_BYTES;
        size = WANE__RECENT_BYTES;
    }
    int drop = recent->size + (int)size > ROOM ? recent->size - WANE__RECENT_BYTES : 0;
    if (drop > 0) {
        memmove(recent->text, recent->text + drop, (size_t)(recent->size - drop));
        recent->size -= drop;
        recent->reply = recent->reply > drop ? recent->reply - drop : 0;
    }
    if (size > 0) memcpy(recent->text + recent->size, bytes, size);
    recent->size += (int)size;
    if (!of_reply) recent->reply = recent->size;
}

/* Where the last character that is not complete yet begins; the size: there is none. */
static int complete(const uint8_t *text, int from, int size) {
    int at = size;
    while (at > from && size - at < 4) {
        uint8_t byte = text[--at];
        if (U8_IS_TRAIL(byte)) continue;
        return U8_IS_LEAD(byte) && at + 1 + U8_COUNT_TRAIL_BYTES(byte) > size ? at : size;
    }
    return size;
}

int wane__recent_window(const struct wane__recent *recent, bool reply_only, uint16_t *out) {
    const uint8_t *text = (const uint8_t *)recent->text;
    int from = reply_only ? recent->reply : 0, units = 0;
    const int end = complete(text, from, recent->size);
    int at = end;
    for (int i = 0; i < WANE__RECENT_CHARACTERS && at > from; i++) U8_BACK_1(text, from, at);
    while (at < end) {
        UChar32 c;
        U8_NEXT_OR_FFFD(text, at, end, c);
        U16_APPEND_UNSAFE(out, units, c);
    }
    return units;
}
