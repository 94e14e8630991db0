/*
 * make_traces.c - made-up traces, as many records as one likes, and what building a table of them costs.
 *
 *     build/tests/bench_make_traces write RECORDS FOLDER [FILES [SEED]]     FOLDER/NN.jsonl, 8 of them where it is not said
 *     build/tests/bench_make_traces build RECORDS [MIB [SEED]]              feeds the builder without files; prints records/s
 *
 * Requests of 256 tokens follow one of 4,000 templates (the first ones far more often than the last), with 3 % of tokens of their
 * own. Logits depend on the last three tokens, and a little on all of the context, so that some contexts are stable and others are
 * not. The same numbers always give the same traces.
 */
#include "core/clock.h"
#include "core/memory.h"
#include "core/rng.h"
#include "sample/order.h"
#include "table/build.h"
#include "table/trace_text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { VOCAB = 49152, LENGTH = 256, START = 10, TEMPLATES = 4000 };

struct maker {
    uint64_t seed, made, records;
    uint64_t request;
    uint64_t template;
    struct wane__context_name name;
    int32_t line[WANE__TEN];
    int at; /* tokens of the request so far */
};

static uint64_t pick_template(uint64_t seed, uint64_t request) {
    double u = wane__random_unit(seed, request);
    return (uint64_t)(TEMPLATES * u * u * u); /* the first eighth gets half of the requests */
}

static int32_t token_at(const struct maker *m) {
    uint64_t source = m->template * 1000003 + (uint64_t)m->at;
    if (wane__random_unit(m->seed + 1, m->request * 1024 + (uint64_t)m->at) < 0.03)
        source = m->request * 77777777 + (uint64_t)m->at;
    return (int32_t)(wane__mix64(source ^ m->seed << 40) % VOCAB);
}

static void logits(struct wane__trace_token *t) {
    uint64_t window = wane__context_window(t->tenant, t->last + t->last_count, 3);
    float noise = window % 4 == 0 ? 4.0f : 0.25f;
    int32_t first = (int32_t)(wane__mix64(window) % VOCAB);
    for (int i = 0; i < WANE__TRACE_TOP; i++) {
        uint64_t bits = wane__mix64(window + (uint64_t)i), own = wane__mix64(t->before.low + (uint64_t)i);
        t->top[i].token = (first + 97 * i) % VOCAB;
        /* Multiples of 1/64, so that they are short in the file. */
        float step = (float)(bits % 16) + noise * (float)(own % 16) / 4;
        t->top[i].logit = 24.0f - 0.25f * (float)i + floorf(step) / 64;
    }
    /* What is drawn is the best candidate. */
    for (int i = 1; i < WANE__TRACE_TOP; i++)
        if (t->top[i].token == t->token) t->top[i].token = t->top[0].token;
    t->top[0].token = t->token;
    t->top[0].logit = 27;
    for (int i = 1; i < WANE__TRACE_TOP; i++) {
        struct wane__candidate moved = t->top[i];
        int j = i;
        for (; j > 0 && wane__better(moved, t->top[j - 1]); j--) t->top[j] = t->top[j - 1];
        t->top[j] = moved;
    }
    t->top_count = WANE__TRACE_TOP;
}

/* As struct wane__build_source wants it. */
static int next(void *user, struct wane__trace_token *t, wane_error *error) {
    struct maker *m = user;
    (void)error;
    if (m->made == m->records) return 0;
    for (;;) {
        if (m->at == START + LENGTH) {
            m->request++;
            m->at = 0;
        }
        if (m->at == 0) {
            m->template = pick_template(m->seed, m->request);
            m->name = wane__context_begin(1);
        }
        int32_t token = token_at(m);
        bool drawn = m->at >= START;
        if (drawn) {
            *t =
                (struct wane__trace_token){.kind = (enum wane__kind)(m->template % WANE__KINDS), .tenant = 1};
            snprintf(t->request, sizeof t->request, "made-%llu", (unsigned long long)m->request);
            t->before = m->name;
            t->position = m->at;
            t->index = m->at - START;
            t->last_count = WANE__TEN;
            memcpy(t->last, m->line, sizeof t->last);
            t->token = token;
            t->log_sum = 28;
            logits(t);
        }
        m->name = wane__context_add(m->name, token);
        memmove(m->line, m->line + 1, (WANE__TEN - 1) * sizeof *m->line);
        m->line[WANE__TEN - 1] = token;
        m->at++;
        if (!drawn) continue;
        m->made++;
        return 1;
    }
}

static struct wane__trace_origin origin(void) {
    struct wane__trace_origin made = {.version = WANE__TRACE_VERSION, .vocab_size = VOCAB};
    memset(made.model, '1', 32);
    memset(made.tokenizer, '2', 32);
    return made;
}

/* -------------------------------------------------------------------- */

static int write_traces(uint64_t records, const char *folder, int files, uint64_t seed) {
    struct maker maker = {.seed = seed, .records = records};
    struct wane__trace_token token;
    struct wane__trace_origin from = origin();
    if (mkdir(folder, 0755) != 0 && errno != EEXIST) return perror(folder), 1;
    for (int i = 0; i < files; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%02d.jsonl", folder, i);
        FILE *file = fopen(path, "wb");
        if (file == NULL) return perror(path), 1;
        struct wane__buf buf = {0};
        wane__trace_put_origin(&buf, &from, 0);
        uint64_t end = records * (uint64_t)(i + 1) / (uint64_t)files;
        while (maker.made < end && next(&maker, &token, NULL) == 1) {
            wane__trace_put_token(&buf, &token, NULL, 0);
            if (buf.size < 1 << 20) continue;
            if (fwrite(buf.data, 1, buf.size, file) != buf.size) return perror(path), 1;
            wane__buf_clear(&buf);
        }
        if (fwrite(buf.data, 1, buf.size, file) != buf.size || fclose(file) != 0) return perror(path), 1;
        wane__buf_free(&buf);
    }
    return 0;
}

static int build_table(uint64_t records, size_t memory, uint64_t seed) {
    struct maker maker = {.seed = seed, .records = records};
    struct wane__trace_token token;
    double begun = wane__now();
    while (next(&maker, &token, NULL) == 1) {}
    double making = wane__now() - begun;
    maker = (struct maker){.seed = seed, .records = records};
    struct wane__build_options options = {.origin = origin()};
    wane_table_build_options_init(&options.set);
    options.set.memory = memory;
    struct wane__build *build = NULL;
    struct wane__build_source source = {.next = next, .user = &maker};
    struct wane__slmt_content content;
    wane_table_report report;
    wane_error error = {0};
    begun = wane__now();
    int status = wane__build_new(&options, &build, &error);
    if (status == WANE_OK) status = wane__build_read(build, &source, &error);
    double read = wane__now() - begun - making;
    if (status == WANE_OK) status = wane__build_table(build, &content, &report, &error);
    double all = wane__now() - begun - making;
    wane__build_free(build);
    if (status != WANE_OK) return fprintf(stderr, "%s\n", error.text), 1;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%llu records, %zu MiB allowed: %.1f s (%.1f s to take them in; making them took another %.1f s)\n"
           "%.0f records/s on one core; %llu runs spilled; peak %ld MiB\n"
           "%u entries, %u positions, %u continuations, %.2f MB\n",
           (unsigned long long)records, memory >> 20, all, read, making, (double)records / all,
           (unsigned long long)report.spilled, usage.ru_maxrss / 1024, report.entries, report.positions,
           report.continuations, (double)report.bytes / 1e6);
    return 0;
}

int main(int argc, char **argv) {
    uint64_t records = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    uint64_t seed = argc > 5 ? strtoull(argv[5], NULL, 10) : 1;
    if (argc > 3 && records > 0 && strcmp(argv[1], "write") == 0) {
        int files = argc > 4 ? atoi(argv[4]) : 8;
        return write_traces(records, argv[3], files > 0 && files < 100 ? files : 8, seed);
    }
    if (argc > 2 && records > 0 && strcmp(argv[1], "build") == 0)
        return build_table(records, (size_t)(argc > 3 ? atoi(argv[3]) : 512) << 20,
                           argc > 4 ? strtoull(argv[4], NULL, 10) : 1);
    fprintf(stderr, "usage: %s write RECORDS FOLDER [FILES [SEED]] | build RECORDS [MIB [SEED]]\n", argv[0]);
    return 2;
}
