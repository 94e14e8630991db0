/*
 * json.c - strict reading of a request body, and writing of replies straight into a buffer.
 *
 * Reading is jansson's, with what it would let pass refused here. Writing builds no tree: a delta goes out for every
 * token, and a tree for each would be the larger part of its cost.
 */
#include "server/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

json_t *wane__json_parse(const char *bytes, size_t size, struct wane__problem *problem) {
    if (size == 0) {
        wane__problem(problem, WANE__PROBLEM_INVALID, NULL, "the body is empty; it must be a JSON object");
        return NULL;
    }
    json_error_t error;
    json_t *root = json_loadb(bytes, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (root == NULL) {
        wane__problem(problem, WANE__PROBLEM_INVALID, NULL,
                      "the body is not valid JSON: line %d, column %d, byte %d: %s", error.line, error.column,
                      error.position, error.text);
        return NULL;
    }
    if (!json_is_object(root)) {
        char shown[80];
        wane__problem(problem, WANE__PROBLEM_INVALID, NULL, "the body must be a JSON object, not %s",
                      wane__json_show(root, shown, sizeof shown));
        json_decref(root);
        return NULL;
    }
    return root;
}

/* A string's first characters in quotes; never cuts a character. */
static void show_string(const json_t *value, char *out, size_t capacity) {
    const char *text = json_string_value(value);
    size_t size = json_string_length(value), room = capacity > 48 ? 40 : 8, used = 0;
    while (used < size && used < room) {
        int step = wane__json_utf8(text + used, size - used);
        if (step == 0 || used + (size_t)step > room) break;
        used += (size_t)step;
    }
    snprintf(out, capacity, "\"%.*s%s\"", (int)used, text, used < size ? "…" : "");
}

const char *wane__json_show(const json_t *value, char *out, size_t capacity) {
    switch (value ? json_typeof(value) : JSON_NULL) {
    case JSON_OBJECT: snprintf(out, capacity, "an object"); break;
    case JSON_ARRAY: snprintf(out, capacity, "an array of %zu", json_array_size(value)); break;
    case JSON_STRING: show_string(value, out, capacity); break;
    case JSON_INTEGER: snprintf(out, capacity, "%lld", (long long)json_integer_value(value)); break;
    case JSON_REAL: snprintf(out, capacity, "%g", json_real_value(value)); break;
    case JSON_TRUE: snprintf(out, capacity, "true"); break;
    case JSON_FALSE: snprintf(out, capacity, "false"); break;
    case JSON_NULL: snprintf(out, capacity, "null"); break;
    }
    return out;
}

int wane__json_utf8(const char *text, size_t size) {
    const unsigned char *c = (const unsigned char *)text;
    if (size == 0) return 0;
    if (c[0] < 0x80) return 1;
    int length = c[0] >= 0xf0 ? 4 : c[0] >= 0xe0 ? 3 : 2;
    if (c[0] < 0xc2 || c[0] > 0xf4 || size < (size_t)length) return 0;
    for (int i = 1; i < length; i++) {
        if ((c[i] & 0xc0) != 0x80) return 0;
    }
    /* Overlong forms, surrogates and what lies beyond U+10FFFF show in the second byte. */
    if (c[0] == 0xe0 && c[1] < 0xa0) return 0;
    if (c[0] == 0xed && c[1] > 0x9f) return 0;
    if (c[0] == 0xf0 && c[1] < 0x90) return 0;
    if (c[0] == 0xf4 && c[1] > 0x8f) return 0;
    return length;
}

static void put_escape(struct wane__buf *out, unsigned char c) {
    switch (c) {
    case '"': wane__buf_append(out, "\\\"", 2); break;
    case '\\': wane__buf_append(out, "\\\\", 2); break;
    case '\n': wane__buf_append(out, "\\n", 2); break;
    case '\r': wane__buf_append(out, "\\r", 2); break;
    case '\t': wane__buf_append(out, "\\t", 2); break;
    default: wane__buf_format(out, "\\u%04x", c); break;
    }
}

void wane__json_string(struct wane__buf *out, const char *text, size_t size) {
    wane__buf_append(out, "\"", 1);
    size_t plain = 0; /* start of the run that needs no change */
    for (size_t i = 0; i < size;) {
        unsigned char c = (unsigned char)text[i];
        int step = wane__json_utf8(text + i, size - i);
        if (step > 0 && c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) {
            i += (size_t)step;
            continue;
        }
        wane__buf_append(out, text + plain, i - plain);
        if (step == 0) {
            wane__buf_append(out, "\xef\xbf\xbd", 3);
        } else {
            put_escape(out, c);
        }
        plain = ++i;
    }
    wane__buf_append(out, text + plain, size - plain);
    wane__buf_append(out, "\"", 1);
}

void wane__json_number(struct wane__buf *out, double value) {
    wane__buf_format(out, "%.9g", isfinite(value) ? value : -9999.0);
}
