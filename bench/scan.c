/*
 * scan.c - what the certified head costs, on real hidden rows and a real head.
 *
 *     bench_scan folder [rows of statistics [threads [sigmas [plan]]]]
 *
 * The folder is one that tests/engine/dump_hidden.c filled. The head is held as 8-bit numbers in blocks of 32
 * with a scale each, and the dense head is the product of every row with the hidden row rounded likewise: what
 * Q8_0 is in the engine, so that times compare. A plan is "dims:bits:kept,dims:bits:kept": level 1's groups, 0
 * dims for all the rest, 0 kept for all of them.
 *
 * Prints: reading alone and each kernel (GB/s of level 1), then milliseconds and survivors for questions, and for draws beside the dense head's.
 */
#include "core/clock.h"
#include "head/certified.h"
#include "sample/order.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 32, MOST_TESTS = 400 };

struct block8 {
    float scale;
    int8_t q[BLOCK];
};

struct bench {
    int vocab, d, blocks, threads;
    struct block8 *rows;
    float *tests;
    int test_count;
    struct wane__head_weights weights;
    struct wane__pool *pool;
    float *out;
    const struct block8 *hidden;
};

static void *must(void *memory) {
    if (memory == NULL) {
        perror("bench");
        exit(1);
    }
    return memory;
}

static float *read_floats(const char *folder, const char *name, long *count) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = must(fopen(path, "rb"));
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    float *x = must(malloc((size_t)size + 1));
    if (fread(x, 1, (size_t)size, file) != (size_t)size) exit(1);
    fclose(file);
    *count = size / (long)sizeof *x;
    return x;
}

static void round_row(const float *x, int d, struct block8 *out) {
    for (int b = 0; b * BLOCK < d; b++) {
        float most = 0;
        for (int i = 0; i < BLOCK; i++) most = fmaxf(most, fabsf(x[b * BLOCK + i]));
        out[b].scale = most / 127;
        for (int i = 0; i < BLOCK; i++)
            out[b].q[i] = (int8_t)lrintf(most > 0 ? x[b * BLOCK + i] / out[b].scale : 0);
    }
}

static void unround(const struct block8 *from, int d, float *x) {
    for (int i = 0; i < d; i++) x[i] = from[i / BLOCK].scale * (float)from[i / BLOCK].q[i % BLOCK];
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx2")))
#endif
static float
product(const struct block8 *a, const struct block8 *b, int blocks) {
    float sum = 0;
    for (int i = 0; i < blocks; i++) {
        int32_t s = 0;
        for (int j = 0; j < BLOCK; j++) s += a[i].q[j] * b[i].q[j];
        sum += a[i].scale * b[i].scale * (float)s;
    }
    return sum;
}

static int rows(void *user, int first, int count, float *out) {
    const struct bench *b = user;
    for (int r = 0; r < count; r++)
        unround(b->rows + (size_t)(first + r) * (size_t)b->blocks, b->d, out + (size_t)r * (size_t)b->d);
    return WANE_OK;
}

static int prepare(void *user, const float *hidden, void *prepared) {
    const struct bench *b = user;
    round_row(hidden, b->d, prepared);
    return WANE_OK;
}

static int rescore_prepared(void *user, const void *prepared, const int32_t *ids, int count, float *logits) {
    const struct bench *b = user;
    for (int i = 0; i < count; i++) {
        if (i + 2 < count) {
            const char *ahead = (const char *)(b->rows + (size_t)ids[i + 2] * (size_t)b->blocks);
            for (size_t at = 0; at < (size_t)b->blocks * sizeof *b->rows; at += 64)
                __builtin_prefetch(ahead + at);
        }
        logits[i] = product(b->rows + (size_t)ids[i] * (size_t)b->blocks, prepared, b->blocks);
    }
    return WANE_OK;
}

static int rescore(void *user, const float *hidden, const int32_t *ids, int count, float *logits) {
    struct block8 prepared[WANE__SKETCH_MOST_D / BLOCK];
    prepare(user, hidden, prepared);
    return rescore_prepared(user, prepared, ids, count, logits);
}

static int seen(void *user, const float *hidden, const void *prepared, float *out) {
    (void)prepared;
    const struct bench *b = user;
    struct block8 rounded[WANE__SKETCH_MOST_D / BLOCK];
    round_row(hidden, b->d, rounded);
    unround(rounded, b->d, out);
    return WANE_OK;
}

/* ------------------------------------------------------------------ statistics */

static void learn(const float *x, long count, int d, float *mean, float *covariance) {
    double *sum = must(calloc((size_t)d, sizeof *sum));
    float *row = must(malloc((size_t)d * sizeof *row));
    for (long r = 0; r < count; r++)
        for (int i = 0; i < d; i++) sum[i] += (double)x[r * d + i] / (double)count;
    for (int i = 0; i < d; i++) mean[i] = (float)sum[i];
    memset(covariance, 0, (size_t)d * (size_t)d * sizeof *covariance);
    for (long r = 0; r < count; r++) {
        for (int i = 0; i < d; i++) row[i] = x[r * d + i] - mean[i];
        for (int i = 0; i < d; i++) {
            float *to = covariance + (size_t)i * (size_t)d, factor = row[i] / (float)count;
            for (int j = 0; j < d; j++) to[j] += factor * row[j];
        }
    }
    free(sum);
    free(row);
}

/* ------------------------------------------------------------------------ speed */

static int compare(const void *a, const void *b) {
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static double median(double *x, int n) {
    qsort(x, (size_t)n, sizeof *x, compare);
    return x[n / 2];
}

struct reading {
    const uint8_t *from;
    size_t size;
    int parts;
    uint64_t sum[256];
};

static void read_part(void *user, int part) {
    struct reading *r = user;
    const uint64_t *from =
        (const uint64_t *)(const void *)(r->from + r->size / 64 * (size_t)part / (size_t)r->parts * 64);
    const uint64_t *to =
        (const uint64_t *)(const void *)(r->from + r->size / 64 * (size_t)(part + 1) / (size_t)r->parts * 64);
    uint64_t sum[8] = {0};
    for (; from < to; from += 8)
        for (int i = 0; i < 8; i++) sum[i] ^= from[i];
    for (int i = 0; i < 8; i++) r->sum[part] ^= sum[i];
}

struct scanning {
    struct wane__head *head;
    const struct wane__scan_kernels *kernels;
    struct wane__scan_query queries[8];
    int count, parts;
};

static void scan_part(void *user, int part) {
    struct scanning *s = user;
    size_t blocks = s->head->sketch.shape.blocks;
    s->kernels->scan(&s->head->sketch, blocks * (size_t)part / (size_t)s->parts,
                     blocks * (size_t)(part + 1) / (size_t)s->parts, s->queries, s->count);
}

/* Something else between two readings, as the body is in real decoding: the caches hold other things then. */
static void forget(char *memory, size_t size) {
    for (size_t i = 0; i < size; i += 64) memory[i]++;
}

enum { ROUNDS = 31, OTHER = 512 << 20 };

static void speed_of_kernels(struct bench *b, struct wane__head *head, char *other) {
    double times[ROUNDS];
    size_t size = head->sketch.shape.blocks * head->sketch.shape.block_bytes;
    struct reading r = {.from = head->sketch.level1, .size = size, .parts = 8 * b->threads};
    for (int i = 0; i < ROUNDS; i++) {
        forget(other, OTHER);
        double from = wane__now();
        wane__pool_run(b->pool, read_part, &r, r.parts);
        times[i] = wane__now() - from;
    }
    double plain = median(times, ROUNDS);
    printf("reading %.1f MB: %.3f ms, %.1f GB/s\n", (double)size / 1e6, plain * 1e3,
           (double)size / plain / 1e9);
    for (int k = 0; wane__scan_kernels_at(k) != NULL; k++)
        for (int count = 1; count <= 4; count *= 4) {
            struct scanning s = {.head = head,
                                 .kernels = wane__scan_kernels_at(k),
                                 .count = count,
                                 .parts = 8 * b->threads};
            wane__head_scan(head, b->tests, count);
            for (int q = 0; q < count; q++) s.queries[q] = head->row[q].query;
            int rounds = k == 0 ? 5 : ROUNDS;
            for (int i = 0; i < rounds; i++) {
                forget(other, OTHER);
                double from = wane__now();
                wane__pool_run(b->pool, scan_part, &s, s.parts);
                times[i] = wane__now() - from;
            }
            double t = median(times, rounds);
            printf("  %-12s %d row%s: %.3f ms, %.1f GB/s, %.2f of reading\n", s.kernels->name, count,
                   count > 1 ? "s" : " ", t * 1e3, (double)size / t / 1e9, plain / t);
        }
}

static void dense_part(void *user, int part) {
    struct bench *b = user;
    int parts = 8 * b->threads;
    int from = (int)((int64_t)b->vocab * part / parts), to = (int)((int64_t)b->vocab * (part + 1) / parts);
    for (int i = from; i < to; i++)
        b->out[i] = product(b->rows + (size_t)i * (size_t)b->blocks, b->hidden, b->blocks);
}

static double speed_of_dense(struct bench *b, char *other) {
    double times[9];
    struct block8 hidden[WANE__SKETCH_MOST_D / BLOCK];
    for (int i = 0; i < 9; i++) {
        round_row(b->tests + (size_t)i * (size_t)b->d, b->d, hidden);
        b->hidden = hidden;
        forget(other, OTHER);
        double from = wane__now();
        wane__pool_run(b->pool, dense_part, b, 8 * b->threads);
        times[i] = wane__now() - from;
    }
    return median(times, 9);
}

/* -------------------------------------------------------------------- questions */

struct tally {
    double scan[MOST_TESTS], all[MOST_TESTS], survivors1[MOST_TESTS], survivors2[MOST_TESTS],
        exact[MOST_TESTS];
    int wrong, dense;
};

static void ask(struct bench *b, struct wane__head *head, int count, char *other, bool check) {
    static struct tally t;
    static struct wane__candidate got[4096], expected[4096];
    t.wrong = t.dense = 0;
    for (int i = 0; i < b->test_count; i++) {
        struct wane__head_counts before, after;
        const float *hidden = b->tests + (size_t)i * (size_t)b->d;
        int found, wanted;
        forget(other, OTHER);
        wane__head_get_counts(head, &before);
        double from = wane__now();
        wane__head_scan(head, hidden, 1);
        t.scan[i] = wane__now() - from;
        struct wane__source *source = wane__head_source(head, 0);
        source->best(source, count, NULL, 0, got, &found);
        t.all[i] = wane__now() - from;
        wane__head_get_counts(head, &after);
        t.survivors1[i] = (double)(after.survivors1 - before.survivors1);
        t.survivors2[i] = (double)(after.survivors2 - before.survivors2);
        t.exact[i] = (double)(after.rescored - before.rescored);
        t.dense += after.dense_many > before.dense_many;
        if (!check) continue;
        struct block8 rounded[WANE__SKETCH_MOST_D / BLOCK];
        round_row(hidden, b->d, rounded);
        b->hidden = rounded;
        wane__pool_run(b->pool, dense_part, b, 8 * b->threads);
        struct wane__dense_source dense;
        wane__dense_source_init(&dense, b->out, b->vocab);
        dense.source.best(&dense.source, count, NULL, 0, expected, &wanted);
        if (found != wanted || memcmp(got, expected, sizeof *got * (size_t)found) != 0) t.wrong++;
    }
    int n = b->test_count;
    double scan = median(t.scan, n), all = median(t.all, n), exact = median(t.exact, n);
    double s1 = median(t.survivors1, n), s2 = median(t.survivors2, n);
    printf("best(%d): %.3f ms (95 %%: %.3f), of it scan %.3f; survivors %.0f (95 %%: %.0f), after level 2 "
           "%.0f (%.0f), "
           "exact %.0f (%.0f); dense %d; wrong %d of %d\n",
           count, all * 1e3, t.all[n * 95 / 100] * 1e3, scan * 1e3, s1, t.survivors1[n * 95 / 100], s2,
           t.survivors2[n * 95 / 100], exact, t.exact[n * 95 / 100], t.dense, t.wrong, check ? n : 0);
}

/* One token with these settings, by both heads; what it costs and how often all rows were computed. */
static void draw(struct bench *b, struct wane__head *head, const char *name, const wane_sampling *settings,
                 char *other) {
    static double scan[MOST_TESTS], all[MOST_TESTS], dense[MOST_TESTS];
    struct wane__sampler *sampler;
    struct wane__choice choice;
    struct wane__head_counts before, after;
    wane_error error = {0};
    double sum = 0, dense_sum = 0;
    int wrong = 0, n = b->test_count;
    if (wane__sampler_new(settings, b->vocab, &sampler, &error) != WANE_OK) exit(1);
    wane__head_get_counts(head, &before);
    for (int i = 0; i < n; i++) {
        const float *hidden = b->tests + (size_t)i * (size_t)b->d;
        struct block8 rounded[WANE__SKETCH_MOST_D / BLOCK];
        forget(other, OTHER);
        double from = wane__now();
        wane__head_scan(head, hidden, 1);
        scan[i] = wane__now() - from;
        if (wane__sampler_draw(sampler, wane__head_source(head, 0), (uint64_t)i, &choice, &error) != WANE_OK)
            exit(1);
        sum += all[i] = wane__now() - from;
        wane__head_rest(head);
        int32_t token = choice.token;
        forget(other, OTHER);
        from = wane__now();
        round_row(hidden, b->d, rounded);
        b->hidden = rounded;
        wane__pool_run(b->pool, dense_part, b, 8 * b->threads);
        struct wane__dense_source row;
        wane__dense_source_init(&row, b->out, b->vocab);
        if (wane__sampler_draw(sampler, &row.source, (uint64_t)i, &choice, &error) != WANE_OK) exit(1);
        dense_sum += dense[i] = wane__now() - from;
        wane__pool_rest(b->pool);
        wrong += token != choice.token;
    }
    wane__head_get_counts(head, &after);
    printf("%s: mean %.3f ms, median %.3f (95 %%: %.3f), of it scan %.3f; dense head: mean %.3f, median "
           "%.3f; a row: "
           "survivors %.0f, exact %.0f, questions %.2f; dense %llu + %llu of %d; wrong %d\n",
           name, sum / n * 1e3, median(all, n) * 1e3, all[n * 95 / 100] * 1e3, median(scan, n) * 1e3,
           dense_sum / n * 1e3, median(dense, n) * 1e3, (double)(after.survivors1 - before.survivors1) / n,
           (double)(after.rescored - before.rescored) / n, (double)(after.questions - before.questions) / n,
           (unsigned long long)(after.dense_many - before.dense_many),
           (unsigned long long)(after.dense_sum - before.dense_sum), n, wrong);
    wane__sampler_free(sampler);
}

static void draws(struct bench *b, struct wane__head *head, char *other) {
    wane_sampling s;
    wane__sampling_defaults(&s);
    s.seeded = true;
    s.seed = 7;
    s.temperature = 0;
    draw(b, head, "greedy", &s, other);
    s.temperature = 0.8f;
    s.top_k = 40;
    s.top_p = 0.95f;
    s.min_p = 0.05f;
    draw(b, head, "default", &s, other);
    s.top_k = 0;
    s.min_p = 0;
    draw(b, head, "full", &s, other);
    s.top_p = 1;
    s.temperature = 1;
    draw(b, head, "open", &s, other);
}

static void parse_plan(const char *text, struct wane__sketch_plan *plan) {
    plan->groups = 0;
    for (char *at = (char *)text; *at != 0 && plan->groups < WANE__SKETCH_GROUPS; plan->groups++) {
        plan->group[plan->groups].real = (int)strtol(at, &at, 10);
        if (*at == ':') plan->group[plan->groups].bits = (int)strtol(at + 1, &at, 10);
        if (*at == ':') plan->group[plan->groups].kept = (int)strtol(at + 1, &at, 10);
        if (*at == ',') at++;
    }
}

static struct wane__head *build(struct bench *b, const char *folder, long statistics_rows, float sigmas,
                                const char *plan_text) {
    long count;
    float *calibration = read_floats(folder, "calibration.f32", &count);
    float *mean = must(malloc((size_t)b->d * sizeof *mean));
    float *covariance = must(malloc((size_t)b->d * (size_t)b->d * sizeof *covariance));
    count /= b->d;
    if (statistics_rows > count) statistics_rows = count;
    struct wane__head_statistics statistics = {mean, covariance, statistics_rows};
    if (statistics_rows > 0) learn(calibration, statistics_rows, b->d, mean, covariance);
    struct wane__sketch_plan plan;
    wane__sketch_plan_for(b->vocab, b->d, statistics_rows > 0, &plan);
    if (plan_text != NULL) parse_plan(plan_text, &plan);
    char path[4096];
    snprintf(path, sizeof path, "%s/bench-%d.sketch", folder, (int)getpid());
    wane_error error = {0};
    struct wane__head *head = NULL;
    double from = wane__now();
    if (wane__sketch_build_plan(path, &b->weights, statistics_rows > 0 ? &statistics : NULL, &plan, "bench",
                                b->threads, NULL, NULL, &error) != WANE_OK ||
        wane__head_open(path, &b->weights, "bench", sigmas, b->threads, 4, &head, &error) != WANE_OK) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
    unlink(path);
    struct wane__sketch_facts facts;
    wane__head_get_facts(head, &facts);
    printf("V %d, d %d, statistics of %ld rows; built and opened in %.2f s: %.1f MB, %.2f + %.2f bits a "
           "weight, %s\n",
           b->vocab, b->d, statistics_rows, wane__now() - from, (double)facts.bytes / 1e6, facts.bits_level1,
           facts.bits_level2, wane__head_kernel(head));
    free(calibration);
    free(mean);
    free(covariance);
    return head;
}

int main(int count, char **words) {
    if (count < 2) {
        fprintf(stderr, "usage: bench_scan folder [rows of statistics [threads [sigmas [plan]]]]\n");
        return 2;
    }
    struct bench b = {.threads = count > 3 ? atoi(words[3]) : 2};
    char path[4096];
    snprintf(path, sizeof path, "%s/size.txt", words[1]);
    FILE *file = must(fopen(path, "r"));
    if (fscanf(file, "%d %d", &b.vocab, &b.d) != 2 || b.d % BLOCK != 0) return 1;
    fclose(file);
    b.blocks = b.d / BLOCK;
    long floats;
    float *head_rows = read_floats(words[1], "head.f32", &floats);
    b.rows = must(malloc((size_t)b.vocab * (size_t)b.blocks * sizeof *b.rows));
    for (int i = 0; i < b.vocab; i++)
        round_row(head_rows + (size_t)i * (size_t)b.d, b.d, b.rows + (size_t)i * (size_t)b.blocks);
    free(head_rows);
    float *decoded = read_floats(words[1], "decode.f32", &floats);
    int have = (int)(floats / b.d);
    b.test_count = have < MOST_TESTS ? have : MOST_TESTS;
    b.tests = must(malloc((size_t)b.test_count * (size_t)b.d * sizeof *b.tests));
    for (int i = 0; i < b.test_count; i++)
        memcpy(b.tests + (size_t)i * (size_t)b.d,
               decoded + (size_t)i * (size_t)have / (size_t)b.test_count * (size_t)b.d,
               (size_t)b.d * sizeof *b.tests);
    free(decoded);
    b.out = must(malloc((size_t)b.vocab * sizeof *b.out));
    b.weights = (struct wane__head_weights){.vocab_size = b.vocab,
                                            .d = b.d,
                                            .rows = rows,
                                            .rescore = rescore,
                                            .prepared_size = (size_t)b.blocks * sizeof *b.rows,
                                            .prepare = prepare,
                                            .rescore_prepared = rescore_prepared,
                                            .seen = seen,
                                            .user = &b};
    if (wane__pool_new(b.threads, &b.pool) != WANE_OK) return 1;
    char *other = must(malloc(OTHER));
    struct wane__head *head = build(&b, words[1], count > 2 ? atol(words[2]) : 8000,
                                    count > 4 ? (float)atof(words[4]) : 6, count > 5 ? words[5] : NULL);
    speed_of_kernels(&b, head, other);
    printf("dense: %.3f ms\n", speed_of_dense(&b, other) * 1e3);
    ask(&b, head, 1, other, true);
    ask(&b, head, 40, other, true);
    draws(&b, head, other);
    wane__head_free(head);
    wane__pool_free(b.pool);
    return 0;
}
