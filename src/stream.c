/*
 * stream.c - owns the text between the tokenizer's bytes and the caller: it reassembles characters and
 * finds stop strings. It refuses to give out anything that is not whole UTF-8 or that may be part of a stop.
 *
 * Decoding comes first, matching second. A stop string that is valid UTF-8 begins and ends at a character's
 * border, so matching whole decoded characters finds the same places as matching raw bytes would, and holding
 * back from the first byte of a possible match never cuts a character. Every byte of text advances each
 * stop string's own automaton by one step: linear time, whatever the text looks like, and never more held
 * than the longest stop string.
 */
#include "stream.h"

#include "core/error.h"
#include "core/memory.h"

#include <stdint.h>
#include <string.h>

static const char replacement[3] = {'\xEF', '\xBF', '\xBD'}; /* U+FFFD */

/* ------------------------------------------------------------------- UTF-8 */

/* Bytes of the character that `lead` begins; 0 if none may begin so. C0, C1 and F5 … FF never may. */
static int character_length(unsigned char lead) {
    if (lead < 0x80) return 1;
    if (lead < 0xC2) return 0;
    if (lead < 0xE0) return 2;
    if (lead < 0xF0) return 3;
    return lead < 0xF5 ? 4 : 0;
}

/*
 * May `byte` be the one at `index` (1 …) of a character that begins with `lead`? The second byte's range
 * excludes overlong forms, surrogates and what lies beyond U+10FFFF (Unicode, table 3-7), which makes the
 * part accepted so far a "maximal subpart": exactly one U+FFFD stands for it when the character breaks off.
 */
static bool continues(unsigned char lead, int index, unsigned char byte) {
    unsigned char low = 0x80, high = 0xBF;
    if (index == 1) {
        if (lead == 0xE0) low = 0xA0;
        if (lead == 0xED) high = 0x9F;
        if (lead == 0xF0) low = 0x90;
        if (lead == 0xF4) high = 0x8F;
    }
    return byte >= low && byte <= high;
}

static bool is_utf8(const char *text, size_t size) {
    for (size_t i = 0; i < size;) {
        unsigned char lead = (unsigned char)text[i];
        int length = character_length(lead);
        if (length == 0 || (size_t)length > size - i) return false;
        for (int j = 1; j < length; j++)
            if (!continues(lead, j, (unsigned char)text[i + (size_t)j])) return false;
        i += (size_t)length;
    }
    return true;
}

/* ------------------------------------------------------------ stop strings */

static bool stop_init(struct wane__stream_stop *stop, const char *text) {
    stop->length = strlen(text);
    stop->text = wane__copy_bytes(text, stop->length);
    stop->border = wane__alloc_zero(stop->length + 1, sizeof *stop->border);
    if (stop->text == NULL || stop->border == NULL) return false;
    size_t have = 0;
    for (size_t i = 1; i < stop->length; i++) {
        while (have > 0 && text[i] != text[have]) have = stop->border[have];
        if (text[i] == text[have]) have++;
        stop->border[i + 1] = have;
    }
    return true;
}

/* Advance by one byte; true when the stop string is complete (it then goes on as its own border). */
static bool stop_advance(struct wane__stream_stop *stop, char byte) {
    while (stop->matched > 0 && stop->text[stop->matched] != byte)
        stop->matched = stop->border[stop->matched];
    if (stop->text[stop->matched] == byte) stop->matched++;
    if (stop->matched < stop->length) return false;
    stop->matched = stop->border[stop->matched];
    return true;
}

/* Where the earliest match that is under way begins; `seen` when there is none. */
static size_t earliest_start(const struct wane__stream *stream) {
    size_t longest = 0;
    for (size_t i = 0; i < stream->stop_count; i++)
        if (stream->stops[i].matched > longest) longest = stream->stops[i].matched;
    return stream->seen - longest;
}

/* Advance all stop strings by the byte that was just added to the text. True when the winner is known. */
static bool match_byte(struct wane__stream *stream, char byte) {
    stream->seen++;
    for (size_t i = 0; i < stream->stop_count; i++) {
        if (!stop_advance(&stream->stops[i], byte)) continue;
        size_t start = stream->seen - stream->stops[i].length;
        bool better =
            start < stream->best_start ||
            (start == stream->best_start && stream->stops[i].length > stream->stops[stream->best].length);
        if (better) {
            stream->best = i;
            stream->best_start = start;
        }
    }
    /*
     * A match under way that begins at the winner's place belongs to a longer stop string: wait for it too.
     */
    return stream->best_start != SIZE_MAX && earliest_start(stream) > stream->best_start;
}

/* Add one decoded character to the text; true when the reply ends here. */
static bool add_character(struct wane__stream *stream, const char *bytes, size_t size) {
    wane__buf_append(&stream->pending, bytes, size);
    if (stream->stop_count == 0) {
        stream->seen += size;
        return false;
    }
    /* To the character's end, also when its first byte decides: `seen` must count what pending holds. */
    bool decided = false;
    for (size_t i = 0; i < size; i++) decided |= match_byte(stream, bytes[i]);
    return decided;
}

/* Break off the open character. */
static bool close_character(struct wane__stream *stream) {
    if (stream->open_count == 0) return false;
    stream->open_count = 0;
    return add_character(stream, replacement, sizeof replacement);
}

static bool add_byte(struct wane__stream *stream, unsigned char byte) {
    if (stream->open_count > 0) {
        if (continues(stream->open[0], stream->open_count, byte)) {
            stream->open[stream->open_count++] = byte;
            if (stream->open_count < stream->open_need) return false;
            stream->open_count = 0;
            return add_character(stream, (const char *)stream->open, (size_t)stream->open_need);
        }
        if (close_character(stream)) return true;
    }
    int length = character_length(byte);
    if (length == 0) return add_character(stream, replacement, sizeof replacement);
    if (length == 1) return add_character(stream, (const char *)&byte, 1);
    stream->open[0] = byte;
    stream->open_count = 1;
    stream->open_need = length;
    return false;
}

/*
 * Move the text before position `until` from pending to ready. (Less is pending only after a lack of memory.)
 */
static void release(struct wane__stream *stream, size_t until, const char **text, size_t *size) {
    size_t held = stream->seen - until;
    size_t front = stream->pending.size > held ? stream->pending.size - held : 0;
    wane__buf_append(&stream->ready, stream->pending.data, front);
    wane__buf_drop(&stream->pending, front);
    *text = stream->ready.data;
    *size = stream->ready.size;
}

static void end_by_stop(struct wane__stream *stream, const char **text, size_t *size) {
    stream->stopped_by = stream->stops[stream->best].text;
    release(stream, stream->best_start, text, size);
    wane__buf_clear(&stream->pending);
    stream->open_count = 0;
}

/* ------------------------------------------------------------------ public */

int wane__stream_init(struct wane__stream *stream, const char *const *stops, size_t stop_count,
                      wane_error *error) {
    *stream = (struct wane__stream){.best_start = SIZE_MAX};
    for (size_t i = 0; i < stop_count; i++) {
        if (stops[i] == NULL || stops[i][0] == '\0')
            return wane__fail(error, WANE_EINVAL, "Stop string %zu is empty; leave it out instead.", i + 1);
        if (!is_utf8(stops[i], strlen(stops[i])))
            return wane__fail(error, WANE_EINVAL, "Stop string %zu is not valid UTF-8.", i + 1);
    }
    if (stop_count > 0) {
        stream->stops = wane__alloc_zero(stop_count, sizeof *stream->stops);
        if (stream->stops == NULL) goto err;
    }
    for (size_t i = 0; i < stop_count; i++) {
        stream->stop_count = i + 1;
        if (!stop_init(&stream->stops[i], stops[i])) goto err;
        if (stream->stops[i].length > stream->longest_stop) stream->longest_stop = stream->stops[i].length;
    }
    /* Each byte of a push may become a U+FFFD of three bytes, after what is held and an open character. */
    size_t room = 3 * ((size_t)WANE__STREAM_PUSH + 1) + stream->longest_stop;
    if (!wane__buf_reserve(&stream->pending, room) || !wane__buf_reserve(&stream->ready, room)) goto err;
    return WANE_OK;
err:
    wane__stream_free(stream);
    return wane__fail(error, WANE_ENOMEM, "No memory for %zu stop strings.", stop_count);
}

void wane__stream_free(struct wane__stream *stream) {
    for (size_t i = 0; stream->stops != NULL && i < stream->stop_count; i++) {
        wane__free(stream->stops[i].text);
        wane__free(stream->stops[i].border);
    }
    wane__free(stream->stops);
    wane__buf_free(&stream->pending);
    wane__buf_free(&stream->ready);
    *stream = (struct wane__stream){.best_start = SIZE_MAX};
}

bool wane__stream_push(struct wane__stream *stream, const char *bytes, size_t count, const char **text,
                       size_t *size) {
    wane__buf_clear(&stream->ready);
    *text = stream->ready.data;
    *size = 0;
    if (stream->stopped_by != NULL) return true;
    for (size_t i = 0; i < count; i++) {
        if (add_byte(stream, (unsigned char)bytes[i])) {
            end_by_stop(stream, text, size);
            return true;
        }
    }
    release(stream, earliest_start(stream), text, size);
    return false;
}

bool wane__stream_flush(struct wane__stream *stream, const char **text, size_t *size) {
    wane__buf_clear(&stream->ready);
    *text = stream->ready.data;
    *size = 0;
    if (stream->stopped_by != NULL) return true;
    close_character(stream);
    if (stream->best_start != SIZE_MAX) {
        end_by_stop(stream, text, size);
        return true;
    }
    release(stream, stream->seen, text, size);
    for (size_t i = 0; i < stream->stop_count; i++) stream->stops[i].matched = 0;
    return false;
}
