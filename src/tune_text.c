/* tune_text.c - reads labelled text. Refuses whatever it does not understand: a label that is off by one is worse than none. */
#include "tune_text.h"

#include "core/error.h"
#include "core/file.h"
#include "core/memory.h"

#include <jansson.h>
#include <stdint.h>
#include <string.h>

enum { FILE_MOST = 256 << 20 };

static int span_from(const json_t *json, size_t index, size_t size, size_t after,
                     struct wane__tune_span *span, wane_error *error) {
    json_t *from = json_object_get(json, "from"), *to = json_object_get(json, "to"),
           *right = json_object_get(json, "right");
    if (!json_is_integer(from) || !json_is_integer(to) || !json_is_boolean(right) ||
        json_object_size(json) != 3)
        return wane__fail(error, WANE_EFORMAT,
                          "Span %zu is not {\"from\": bytes, \"to\": bytes, \"right\": true or false}.",
                          index);
    json_int_t begin = json_integer_value(from), end = json_integer_value(to);
    if (begin < 0 || end <= begin || (uintmax_t)end > size)
        return wane__fail(error, WANE_EFORMAT,
                          "Span %zu is %lld to %lld; the text has %zu bytes, and from is before to.", index,
                          (long long)begin, (long long)end, size);
    if ((size_t)begin < after)
        return wane__fail(error, WANE_EFORMAT,
                          "Span %zu begins at byte %lld, before the end of the one before, %zu; spans stand "
                          "in order and apart.",
                          index, (long long)begin, after);
    *span = (struct wane__tune_span){(size_t)begin, (size_t)end, json_is_true(right)};
    return WANE_OK;
}

static int spans_from(const json_t *list, struct wane__tune_text *out, wane_error *error) {
    if (!json_is_array(list) || json_array_size(list) == 0)
        return wane__fail(error, WANE_EFORMAT,
                          "\"spans\" is not a list of spans; without labels, leave it out.");
    out->spans = json_array_size(list);
    out->span = wane__alloc_zero(out->spans, sizeof *out->span);
    if (out->span == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for %zu spans.", out->spans);
    size_t after = 0;
    for (size_t i = 0; i < out->spans; i++) {
        int status = span_from(json_array_get(list, i), i, out->size, after, &out->span[i], error);
        if (status != WANE_OK) return status;
        after = out->span[i].to;
    }
    return WANE_OK;
}

static int text_from(const json_t *json, struct wane__tune_text *out, wane_error *error) {
    json_t *text = json_object_get(json, "text"), *spans = json_object_get(json, "spans");
    if (!json_is_string(text) || json_string_length(text) == 0)
        return wane__fail(error, WANE_EFORMAT, "There is no \"text\", or it is empty.");
    if (json_object_size(json) != (spans != NULL ? 2u : 1u))
        return wane__fail(error, WANE_EFORMAT, "There is something else than \"text\" and \"spans\".");
    out->size = json_string_length(text);
    out->text = wane__copy_bytes(json_string_value(text), out->size);
    if (out->text == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a text.");
    return spans != NULL ? spans_from(spans, out, error) : WANE_OK;
}

static void free_text(struct wane__tune_text *text) {
    wane__free(text->text);
    wane__free(text->span);
    *text = (struct wane__tune_text){0};
}

int wane__tune_parse(const char *line, size_t size, struct wane__tune_text *out, wane_error *error) {
    json_error_t why;
    *out = (struct wane__tune_text){0};
    json_t *json = json_loadb(line, size, JSON_REJECT_DUPLICATES, &why);
    if (json == NULL) return wane__fail(error, WANE_EFORMAT, "This is not JSON: %.150s.", why.text);
    int status = json_is_object(json) ? text_from(json, out, error)
                                      : wane__fail(error, WANE_EFORMAT, "This is not an object.");
    json_decref(json);
    if (status != WANE_OK) free_text(out);
    return status;
}

static struct wane__tune_text *next_text(struct wane__tune_texts *texts) {
    if (texts->count == texts->room) {
        size_t room = texts->room > 0 ? 2 * texts->room : 32;
        struct wane__tune_text *more = wane__resize(texts->text, room, sizeof *more);
        if (more == NULL) return NULL;
        texts->text = more;
        texts->room = room;
    }
    texts->text[texts->count] = (struct wane__tune_text){0};
    return &texts->text[texts->count];
}

static bool blank(const char *line, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r') return false;
    return true;
}

static int read_lines(const char *path, const char *bytes, size_t size, struct wane__tune_texts *out,
                      wane_error *error) {
    size_t number = 1;
    for (size_t at = 0; at < size; number++) {
        const char *end = memchr(bytes + at, '\n', size - at);
        size_t length = (end != NULL ? (size_t)(end - bytes) : size) - at;
        if (!blank(bytes + at, length)) {
            struct wane__tune_text *text = next_text(out);
            wane_error why = {0};
            if (text == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for the texts of %s.", path);
            int status = wane__tune_parse(bytes + at, length, text, &why);
            if (status != WANE_OK) return wane__fail(error, status, "%s:%zu: %s", path, number, why.text);
            out->count++;
        }
        at += length + 1;
    }
    return WANE_OK;
}

static bool is_lines(const char *path) {
    size_t size = strlen(path);
    return size >= 6 && strcmp(path + size - 6, ".jsonl") == 0;
}

int wane__tune_read(const char *path, struct wane__tune_texts *out, wane_error *error) {
    char *bytes = NULL;
    size_t size = 0;
    int status = wane__file_read(path, "the text", FILE_MOST, &bytes, &size, error);
    if (status != WANE_OK) return status;
    if (is_lines(path)) {
        status = read_lines(path, bytes, size, out, error);
        wane__free(bytes);
    } else {
        struct wane__tune_text *text = size > 0 ? next_text(out) : NULL;
        if (text != NULL) {
            *text = (struct wane__tune_text){.text = bytes, .size = size};
            out->count++;
        } else {
            wane__free(bytes);
            if (size > 0) status = wane__fail(error, WANE_ENOMEM, "No memory for the text of %s.", path);
        }
    }
    if (status == WANE_OK && out->count == 0)
        status = wane__fail(error, WANE_EFORMAT, "%s holds no text.", path);
    return status;
}

void wane__tune_texts_free(struct wane__tune_texts *texts) {
    for (size_t i = 0; i < texts->count; i++) free_text(&texts->text[i]);
    wane__free(texts->text);
    *texts = (struct wane__tune_texts){0};
}
