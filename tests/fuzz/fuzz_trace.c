/*
 * fuzz_trace.c - any bytes as a trace, and each of its lines as a record: both ways of reading a line agree, what was
 * accepted is within its bounds and survives being written again, and a file is read to its end whatever is in it.
 */
#include "table/trace_read.h"
#include "table/trace_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)            \
    do {                           \
        if (!(condition)) abort(); \
    } while (0)

enum { VOCAB = 1000 };

static void check_same(const struct wane__trace_token *a, const struct wane__trace_token *b) {
    MUST(strcmp(a->request, b->request) == 0 && a->kind == b->kind && a->tenant == b->tenant);
    MUST(a->before.low == b->before.low && a->before.high == b->before.high && a->changed == b->changed);
    MUST(a->position == b->position && a->index == b->index && a->token == b->token);
    MUST(a->last_count == b->last_count && a->top_count == b->top_count);
    MUST(memcmp(a->last, b->last, (size_t)a->last_count * sizeof *a->last) == 0);
    MUST(memcmp(a->top, b->top, (size_t)a->top_count * sizeof *a->top) == 0);
    MUST(memcmp(&a->log_sum, &b->log_sum, sizeof a->log_sum) == 0 ||
         (isnan(a->log_sum) && isnan(b->log_sum)));
}

static void check_bounds(const struct wane__trace_token *t) {
    MUST(t->token >= 0 && t->token < VOCAB && t->top_count >= 1 && t->top_count <= WANE__TRACE_TOP);
    MUST(t->last_count >= 0 && t->last_count <= WANE__TEN && t->last_count <= t->position);
    for (int i = 0; i < t->top_count; i++) {
        MUST(t->top[i].token >= 0 && t->top[i].token < VOCAB && isfinite(t->top[i].logit));
        MUST(i == 0 || t->top[i].logit <= t->top[i - 1].logit);
    }
}

static void try_line(const char *line, size_t size) {
    struct wane__trace_scratch one = {0}, two = {0}, three = {0};
    struct wane__trace_record a = {0}, b = {0}, c = {0};
    wane_error error = {0};
    int fast = wane__trace_parse(line, size, VOCAB, true, false, &one, &a, &error);
    if (fast != WANE_OK) MUST(error.text[0] != '\0');
    int slow = wane__trace_parse(line, size, VOCAB, true, true, &two, &b, &error);
    MUST(fast == slow);
    if (fast == WANE_OK) MUST(a.type == b.type);
    struct wane__buf again = {0};
    if (fast == WANE_OK && a.type == WANE__TRACE_TOKEN) {
        check_same(a.token, b.token);
        check_bounds(a.token);
        wane__trace_put_token(&again, a.token, a.all, VOCAB);
    } else if (fast == WANE_OK && a.type == WANE__TRACE_REQUEST) {
        wane__trace_put_request(&again, a.request);
    } else if (fast == WANE_OK && a.type == WANE__TRACE_END) {
        wane__trace_put_end(&again, a.end);
    } else if (fast == WANE_OK && a.type == WANE__TRACE_VOTE) {
        MUST(a.vote->chosen >= 0 && a.vote->chosen < WANE__TRACE_ANSWERS);
        wane__trace_put_vote(&again, a.vote);
    }
    if (again.size > 0) {
        /* A finish is a word of ours; as any text it would need escapes, which it is not written with. */
        bool plain = a.type != WANE__TRACE_END || strpbrk(a.end->finish, "\"\\") == NULL;
        for (const char *s = a.type == WANE__TRACE_END ? a.end->finish : ""; *s != '\0'; s++)
            plain = plain && (unsigned char)*s >= 0x20;
        again.data[--again.size] = '\0';
        int code = wane__trace_parse(again.data, again.size, VOCAB, true, false, &three, &c, &error);
        MUST(!plain || (code == WANE_OK && c.type == a.type));
    }
    wane__buf_free(&again);
    wane__trace_scratch_free(&one);
    wane__trace_scratch_free(&two);
    wane__trace_scratch_free(&three);
}

static void try_file(const uint8_t *data, size_t size) {
    char path[] = "/tmp/wane-fuzz-XXXXXX";
    int fd = mkstemp(path);
    MUST(fd >= 0);
    bool written = write(fd, data, size) == (ssize_t)size;
    close(fd);
    struct wane__trace_reader *reader = NULL;
    struct wane__trace_read_options options = {.want_all = true, .line_most = (size_t)2 << 20};
    const char *paths[] = {path};
    wane_error error = {0};
    MUST(written && wane__trace_read_open(paths, 1, &options, &reader, &error) == WANE_OK);
    struct wane__trace_record record = {0};
    for (size_t calls = 0;; calls++) {
        int code = wane__trace_read_next(reader, &record, &error);
        if (code == WANE_OK && record.type == WANE__TRACE_DONE) break;
        MUST(calls < 50000000);
    }
    wane__trace_read_close(reader);
    unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *copy = malloc(size + 1);
    MUST(copy != NULL);
    if (size > 0) memcpy(copy, data, size);
    copy[size] = '\0';
    for (size_t at = 0; at < size;) {
        char *newline = memchr(copy + at, '\n', size - at);
        size_t length = newline != NULL ? (size_t)(newline - copy) - at : size - at;
        copy[at + length] = '\0';
        try_line(copy + at, length);
        at += length + 1;
    }
    free(copy);
    try_file(data, size);
    return 0;
}
