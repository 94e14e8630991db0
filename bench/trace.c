/*
 * trace.c - how fast token records are written as text and read again, by hand: bench_trace [RECORDS]
 *
 * Full records (64 candidates), on one core, from a file that is in memory anyway: plain, through the JSON parser alone, and
 * compressed as the writer does it.
 */
#include "core/clock.h"
#include "core/rng.h"
#include "table/trace_file.h"
#include "table/trace_read.h"
#include "table/trace_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VOCAB = 151936 };

static struct wane__trace_token make_token(uint64_t n) {
    struct wane__trace_token t = {.request = "chatcmpl-0123456789abcdef01234567", .tenant = 5};
    t.before = (struct wane__context_name){wane__mix64(n), wane__mix64(~n)};
    t.position = 500 + (int)(n % 300);
    t.index = (int)(n % 300);
    t.last_count = WANE__TEN;
    for (int i = 0; i < WANE__TEN; i++) t.last[i] = (int32_t)(wane__random_bits(n, (uint64_t)i) % VOCAB);
    t.token = (int32_t)(wane__random_bits(n, 99) % VOCAB);
    t.top_count = WANE__TRACE_TOP;
    float logit = 25;
    for (int i = 0; i < t.top_count; i++) {
        logit -= (float)wane__random_unit(n, (uint64_t)(100 + i)) * 0.5f + 0.001f;
        t.top[i] =
            (struct wane__candidate){(int32_t)(wane__random_bits(n, (uint64_t)(200 + i)) % VOCAB), logit};
    }
    t.log_sum = 25.5f;
    return t;
}

static void read_back(const char *what, const char *path, bool slow, int records) {
    struct wane__trace_read_options options = {.slow = slow};
    struct wane__trace_reader *reader = NULL;
    struct wane__trace_record record;
    wane_error error = {0};
    double began = wane__now();
    int tokens = 0, code = wane__trace_read_open(&path, 1, &options, &reader, &error);
    while (code == WANE_OK) {
        code = wane__trace_read_next(reader, &record, &error);
        if (code != WANE_OK || record.type == WANE__TRACE_DONE) break;
        tokens += record.type == WANE__TRACE_TOKEN;
    }
    double seconds = wane__now() - began;
    if (code != WANE_OK || tokens != records) printf("%s: %d tokens, %s\n", what, tokens, error.text);
    const struct wane__trace_read_counts *counts = wane__trace_read_get_counts(reader);
    printf("%-22s %9.0f records/s  %6.0f MB/s of text\n", what, tokens / seconds,
           (double)counts->bytes / seconds / 1e6);
    wane__trace_read_close(reader);
}

/* The path of the one file made; its text is written in portions of a second's. */
static void write_file(const char *what, const char *folder, bool plain, int records, char path[400]) {
    struct wane__trace_file file;
    wane_error error = {0};
    if (wane__trace_file_init(&file, folder, plain, &error) != WANE_OK) exit(1);
    file.origin = (struct wane__trace_origin){.version = 1, .vocab_size = VOCAB};
    memset(file.origin.model, 'a', 32);
    memset(file.origin.tokenizer, 'b', 32);
    struct wane__buf text = {0};
    double began = wane__now();
    int code = WANE_OK;
    for (int n = 0; n < records && code == WANE_OK; n++) {
        struct wane__trace_token t = make_token((uint64_t)n);
        wane__trace_put_token(&text, &t, NULL, 0);
        if (n % 1000 != 999 && n != records - 1) continue;
        code = wane__trace_file_write(&file, text.data, text.size, &error);
        wane__buf_clear(&text);
    }
    snprintf(path, 400, "%s", file.path.data);
    if (code == WANE_OK) code = wane__trace_file_close(&file, &error);
    if (code != WANE_OK) printf("%s: %s\n", what, error.text);
    printf("%-22s %9.0f records/s, %.0f bytes each\n", what, records / (wane__now() - began),
           (double)file.total_bytes / records);
    wane__trace_file_free(&file);
    wane__buf_free(&text);
}

int main(int argc, char **argv) {
    int records = argc > 1 ? atoi(argv[1]) : 300000;
    char folder[] = "/tmp/wane-bench-XXXXXX", plain[400], packed[400];
    if (records < 1 || mkdtemp(folder) == NULL) return 1;
    write_file("write plain", folder, true, records, plain);
    write_file("write compressed", folder, false, records, packed);
    for (int round = 0; round < 2; round++) {
        read_back("read plain", plain, false, records);
        read_back("read compressed", packed, false, records);
    }
    read_back("read by the JSON parser", plain, true, records);
    unlink(plain);
    unlink(packed);
    rmdir(folder);
    return 0;
}
