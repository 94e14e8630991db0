/* trace_rig.h - records made of numbers, folders that go away, and files as bytes, for the tests of traces. */
#ifndef WANE_TESTS_TRACE_RIG_H
#define WANE_TESTS_TRACE_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/rng.h"
#include "table/trace_read.h"
#include "table/trace_text.h"
#include "table/trace_write.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#define RIG_VOCAB 50000

static const struct wane__trace_origin rig_origin = {
    .version = 1,
    .model = "00112233445566778899aabbccddeeff",
    .tokenizer = "ffeeddccbbaa99887766554433221100",
    .vocab_size = RIG_VOCAB,
};

struct rig_folder {
    char path[64];
};

static inline void rig_folder_make(struct rig_folder *f) {
    snprintf(f->path, sizeof f->path, "/tmp/wane-trace-XXXXXX");
    assert_non_null(mkdtemp(f->path));
}

/* The n-th file of a folder in order of name, from 0; false: there are no more. */
static inline bool rig_file(const struct rig_folder *f, int n, char out[400]) {
    struct dirent **list = NULL;
    int count = scandir(f->path, &list, NULL, alphasort), at = 0;
    bool found = false;
    for (int i = 0; i < count; i++) {
        if (list[i]->d_name[0] != '.' && at++ == n) {
            snprintf(out, 400, "%s/%s", f->path, list[i]->d_name);
            found = true;
        }
        free(list[i]);
    }
    free(list);
    return found;
}

static inline int rig_count(const struct rig_folder *f) {
    char path[400];
    int n = 0;
    while (rig_file(f, n, path)) n++;
    return n;
}

static inline void rig_folder_remove(struct rig_folder *f) {
    char path[400];
    while (rig_file(f, 0, path)) unlink(path);
    rmdir(f->path);
}

static inline void rig_save(const char *path, const char *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static inline char *rig_load(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    bytes[*size] = '\0';
    fclose(file);
    return bytes;
}

/* All decompressed text of a folder's files. */
static inline char *rig_text(const struct rig_folder *f) {
    struct wane__buf text = {0};
    char path[400];
    for (int n = 0; rig_file(f, n, path); n++) {
        size_t size;
        char *bytes = rig_load(path, &size);
        if (strstr(path, ".zst") == NULL) {
            wane__buf_append(&text, bytes, size);
        } else {
            ZSTD_DStream *stream = ZSTD_createDStream();
            ZSTD_inBuffer in = {bytes, size, 0};
            char block[65536];
            for (bool more = true; more;) {
                ZSTD_outBuffer out = {block, sizeof block, 0};
                assert_false(ZSTD_isError(ZSTD_decompressStream(stream, &out, &in)));
                wane__buf_append(&text, block, out.pos);
                more = out.pos > 0 || in.pos < in.size;
            }
            ZSTD_freeDStream(stream);
        }
        free(bytes);
    }
    wane__buf_append(&text, "", 0);
    return text.data;
}

/* A float whose bits are anything finite, or an everyday logit. */
static inline float rig_float(uint64_t n) {
    uint64_t bits = wane__random_bits(77, n);
    float value;
    uint32_t low = (uint32_t)bits;
    memcpy(&value, &low, sizeof value);
    if (n % 4 == 0 && isfinite(value)) return value;
    return (float)(wane__random_unit(78, n) * 60 - 30);
}

static inline struct wane__trace_token rig_token(const char *id, int prompt, int index, uint64_t seed) {
    struct wane__trace_token t = {.kind = (enum wane__kind)(seed % WANE__KINDS), .tenant = wane__mix64(seed)};
    snprintf(t.request, sizeof t.request, "%s", id);
    t.before = (struct wane__context_name){wane__mix64(seed + 1), wane__mix64(seed + 2)};
    t.index = index;
    t.position = prompt + index;
    t.last_count = t.position < WANE__TEN ? t.position : WANE__TEN;
    for (int i = 0; i < t.last_count; i++)
        t.last[i] = (int32_t)(wane__random_bits(seed, (uint64_t)(50 + i)) % RIG_VOCAB);
    t.token = (int32_t)(wane__random_bits(seed, 3) % RIG_VOCAB);
    t.changed = seed % 5 == 0;
    t.state = (int)(seed % 7) % (WANE_STATES + 1);
    t.top_count = 1 + (int)(wane__random_bits(seed, 4) % WANE__TRACE_TOP);
    float logit = 25;
    for (int i = 0; i < t.top_count; i++) {
        logit -= (float)wane__random_unit(seed, (uint64_t)(1000 + i));
        t.top[i] =
            (struct wane__candidate){(int32_t)(wane__random_bits(seed, (uint64_t)(2000 + i)) % RIG_VOCAB),
                                     logit};
    }
    t.log_sum = seed % 3 == 0 ? NAN : rig_float(4 * seed + 1);
    return t;
}

static inline void rig_same_token(const struct wane__trace_token *a, const struct wane__trace_token *b) {
    assert_string_equal(a->request, b->request);
    assert_int_equal(a->kind, b->kind);
    assert_true(a->tenant == b->tenant && a->before.low == b->before.low && a->before.high == b->before.high);
    assert_int_equal(a->position, b->position);
    assert_int_equal(a->index, b->index);
    assert_int_equal(a->last_count, b->last_count);
    assert_memory_equal(a->last, b->last, (size_t)a->last_count * sizeof *a->last);
    assert_int_equal(a->token, b->token);
    assert_int_equal(a->changed, b->changed);
    assert_int_equal(a->state, b->state);
    assert_int_equal(a->top_count, b->top_count);
    assert_memory_equal(a->top, b->top, (size_t)a->top_count * sizeof *a->top);
    assert_true(isnan(a->log_sum) ? isnan(b->log_sum) != 0 : a->log_sum == b->log_sum);
}

/* What a reader saw from beginning to end. */
struct rig_seen {
    int origins, requests, tokens, ends, others, errors;
    uint64_t dropped_requests, dropped_tokens;
    int redacted, withheld;
    struct wane__trace_read_counts counts;
    char first_error[500];
    int first_code;
};

static inline struct rig_seen rig_read(const char *path, const struct wane__trace_read_options *options) {
    struct rig_seen seen = {0};
    struct wane__trace_read_options none = {0};
    struct wane__trace_reader *r = NULL;
    wane_error error = {0};
    int code = wane__trace_read_open(&path, 1, options ? options : &none, &r, &error);
    if (code != WANE_OK) {
        seen.errors = 1;
        seen.first_code = code;
        snprintf(seen.first_error, sizeof seen.first_error, "%s", error.text);
        return seen;
    }
    for (struct wane__trace_record record;;) {
        code = wane__trace_read_next(r, &record, &error);
        if (code != WANE_OK) {
            if (seen.errors++ == 0) {
                seen.first_code = code;
                snprintf(seen.first_error, sizeof seen.first_error, "%s", error.text);
            }
            assert_true(seen.errors < 100000);
            continue;
        }
        if (record.type == WANE__TRACE_DONE) break;
        seen.origins += record.type == WANE__TRACE_ORIGIN;
        seen.requests += record.type == WANE__TRACE_REQUEST;
        seen.tokens += record.type == WANE__TRACE_TOKEN;
        seen.ends += record.type == WANE__TRACE_END;
        seen.others += record.type == WANE__TRACE_OTHER;
        if (record.type == WANE__TRACE_DROPPED) {
            seen.dropped_requests += record.dropped->requests;
            seen.dropped_tokens += record.dropped->tokens;
        }
        if (record.type == WANE__TRACE_REQUEST) seen.redacted += record.request->redacted;
        if (record.type == WANE__TRACE_END) seen.withheld += record.end->redacted;
    }
    seen.counts = *wane__trace_read_get_counts(r);
    wane__trace_read_close(r);
    return seen;
}

#endif
