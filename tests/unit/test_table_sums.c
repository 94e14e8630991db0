/* test_table_sums.c - the external sort and the running sums, against what one gets by the long way. */
#include "table_rig.h"

#include <math.h>

/* -------------------------------------------------------------------- sort */

enum { RECORDS = 30000 };

static size_t record_at(uint32_t i, uint8_t bytes[64]) {
    uint64_t bits = wane__random_bits(5, i);
    size_t size = 8 + bits % 50;
    memset(bytes, 0, 64);
    wane__put_big(bytes, bits >> 58, 8); /* 64 different beginnings: many ties */
    for (size_t k = 8; k < size; k++) bytes[k] = (uint8_t)(wane__random_bits(bits, k) & 3);
    return size;
}

static int by_bytes(const void *a, const void *b) {
    uint8_t x[64], y[64];
    size_t x_size = record_at(*(const uint32_t *)a, x), y_size = record_at(*(const uint32_t *)b, y);
    int order = memcmp(x, y, x_size < y_size ? x_size : y_size);
    return order != 0 ? order : (x_size > y_size) - (x_size < y_size);
}

static void check_stream(struct wane__sorter *sorter, const uint32_t *order) {
    const uint8_t *bytes;
    size_t size;
    uint8_t want[64];
    for (int i = 0; i < RECORDS; i++) {
        assert_int_equal(wane__sorter_next(sorter, &bytes, &size, NULL), 1);
        assert_int_equal(record_at(order[i], want), size);
        assert_memory_equal(bytes, want, size);
    }
    assert_int_equal(wane__sorter_next(sorter, &bytes, &size, NULL), 0);
    assert_int_equal(wane__sorter_next(sorter, &bytes, &size, NULL), 0);
}

/* In memory and spilled alike, and again after going back. */
static void test_sort(void **state) {
    (void)state;
    uint32_t *order = rig_shuffle(RECORDS, 1);
    qsort(order, RECORDS, sizeof *order, by_bytes);
    for (int memory = 1; memory <= 8; memory *= 8) {
        struct wane__sorter *sorter;
        uint8_t bytes[64];
        assert_int_equal(wane__sorter_new(NULL, (size_t)memory << 20, &sorter, NULL), WANE_OK);
        for (uint32_t i = 0; i < RECORDS; i++) {
            size_t size = record_at(i, bytes);
            assert_int_equal(wane__sorter_add(sorter, bytes, size, NULL), WANE_OK);
        }
        assert_int_equal(wane__sorter_finish(sorter, NULL), WANE_OK);
        assert_int_equal(wane__sorter_spilled(sorter) > 0, memory == 1);
        check_stream(sorter, order);
        assert_int_equal(wane__sorter_rewind(sorter, NULL), WANE_OK);
        check_stream(sorter, order);
        wane__sorter_free(sorter);
    }
    wane__free(order);
}

/* More runs than files may be open at once. */
static void test_sort_many_runs(void **state) {
    (void)state;
    struct wane__sorter *sorter;
    uint8_t bytes[4096] = {0};
    enum { COUNT = 70000 };
    assert_int_equal(wane__sorter_new(NULL, 1 << 20, &sorter, NULL), WANE_OK);
    for (uint32_t i = 0; i < COUNT; i++) {
        wane__put_big(bytes, (uint64_t)i * 7919 % COUNT, 8);
        assert_int_equal(wane__sorter_add(sorter, bytes, 4096, NULL), WANE_OK);
    }
    assert_int_equal(wane__sorter_finish(sorter, NULL), WANE_OK);
    assert_true(wane__sorter_spilled(sorter) > 256);
    for (uint32_t i = 0; i < COUNT; i++) {
        const uint8_t *got;
        size_t size;
        assert_int_equal(wane__sorter_next(sorter, &got, &size, NULL), 1);
        assert_int_equal(wane__get_big(got, 8), i);
    }
    wane__sorter_free(sorter);
}

static int run_of(const uint32_t *first, int count, uint64_t *end) {
    int fd = wane__sort_temporary(NULL, NULL);
    struct wane__run_writer writer;
    uint8_t bytes[8];
    assert_true(fd >= 0);
    assert_int_equal(wane__run_writer_open(&writer, fd, NULL), WANE_OK);
    for (int i = 0; i < count; i++) {
        wane__put_big(bytes, first[i], 8);
        assert_int_equal(wane__run_writer_add(&writer, bytes, 8, NULL), WANE_OK);
    }
    assert_int_equal(wane__run_writer_flush(&writer, NULL), WANE_OK);
    *end = writer.written;
    wane__run_writer_close(&writer);
    return fd;
}

/* Runs from outside: taken as they are, refused when out of order, cut or too short. */
static void test_foreign_runs(void **state) {
    (void)state;
    const uint32_t good[4] = {1, 3, 3, 9}, bad[4] = {1, 3, 2, 9};
    for (int way = 0; way < 4; way++) {
        struct wane__sorter *sorter;
        wane_error error = {0};
        uint64_t end;
        assert_int_equal(wane__sorter_new(NULL, 1 << 20, &sorter, NULL), WANE_OK);
        int fd = run_of(way == 1 ? bad : good, 4, &end);
        if (way == 2) end -= 1;  /* within a record */
        if (way == 3) end += 10; /* past the file's end */
        assert_int_equal(wane__sorter_add_run(sorter, fd, "the run", 0, end, NULL), WANE_OK);
        uint8_t bytes[8];
        wane__put_big(bytes, 2, 8);
        assert_int_equal(wane__sorter_add(sorter, bytes, 8, NULL), WANE_OK);
        int status = wane__sorter_finish(sorter, &error), count = 0;
        const uint8_t *got;
        size_t size;
        while (status >= 0 && (status = wane__sorter_next(sorter, &got, &size, &error)) == 1) count++;
        assert_int_equal(status, way == 0 ? 0 : WANE_EFORMAT);
        if (way == 0) assert_int_equal(count, 5);
        wane__sorter_free(sorter);
    }
}

/* -------------------------------------------------------------------- sums */

static void sample_of(const struct wane__trace_token *t, struct wane__sample *sample) {
    enum wane__sample_fate fate;
    uint8_t bytes[WANE__SAMPLE_MOST];
    assert_int_equal(wane__sample_from(t, 3, 1 << 20, sample, &fate, NULL), WANE_OK);
    assert_int_equal(fate, WANE__SAMPLE_GOOD);
    wane__sample_encode(sample, bytes);
}

static double logit_of(const struct wane__sample *s, int32_t token, double other) {
    for (int i = 0; i < s->top_count; i++)
        if (s->top[i].token == token) return (double)s->top[i].logit;
    return other;
}

static double cosine(const struct wane__sample *a, const struct wane__sample *b) {
    double dot = 0, aa = 0, bb = 0;
    for (int i = 0; i < a->top_count; i++) {
        dot += (double)a->top[i].logit * logit_of(b, a->top[i].token, 0);
        aa += (double)a->top[i].logit * (double)a->top[i].logit;
    }
    for (int i = 0; i < b->top_count; i++) bb += (double)b->top[i].logit * (double)b->top[i].logit;
    return aa > 0 && bb > 0 ? dot / sqrt(aa * bb) : 0;
}

/* Samples that share some candidates, not all. */
static void make_samples(struct wane__sample *sample, int count, double noise, uint64_t seed) {
    for (int n = 0; n < count; n++) {
        struct wane__trace_token t = {.last_count = 3, .tenant = 1, .log_sum = NAN, .index = n};
        snprintf(t.request, sizeof t.request, "%d", n);
        t.top_count = 3 + (int)(wane__random_bits(seed, (uint64_t)n) % 60);
        for (int i = 0; i < t.top_count; i++) {
            t.top[i].token = i * 3 + (wane__random_unit(seed + 1, (uint64_t)(n * 64 + i)) < noise);
            t.top[i].logit =
                (float)(15 - 0.3 * i + 0.2 * noise * wane__random_unit(seed, (uint64_t)(n * 64 + i)));
        }
        t.token = t.top[wane__random_unit(seed + 2, (uint64_t)n) < 0.7 ? 0 : 1].token;
        sample_of(&t, &sample[n]);
    }
}

static struct wane__summary summarize(const struct wane__sample *sample, int count, const uint32_t *order,
                                      double least) {
    struct wane__sums *sums;
    struct wane__summary summary;
    assert_int_equal(wane__sums_new(&sums, NULL), WANE_OK);
    wane__sums_add(sums, &sample[count / 2], NULL); /* what was there before must not show */
    wane__sums_clear(sums);
    for (int i = 0; i < count; i++)
        assert_int_equal(wane__sums_add(sums, &sample[order != NULL ? order[i] : (uint32_t)i], NULL),
                         WANE_OK);
    wane__sums_finish(sums, least, WANE__SLMT_DEPTH, &summary);
    wane__sums_free(sums);
    return summary;
}

static void test_stability(void **state) {
    (void)state;
    static struct wane__sample sample[200];
    const double noises[4] = {0, 0.02, 0.3, 1};
    for (int n = 0; n < 4; n++) {
        int count = n == 1 ? 2 : 200;
        make_samples(sample, count, noises[n], (uint64_t)n);
        double pairs = 0, agree = 0, median = 0;
        for (int i = 0; i < count; i++) median += cosine(&sample[0], &sample[i]) / count;
        for (int i = 0; i < count; i++) {
            double mine = 0;
            for (int j = 0; j < count; j++)
                if (j != i) mine += cosine(&sample[i], &sample[j]);
            pairs += mine / count / (count - 1);
            agree += mine / (count - 1) >= median;
        }
        struct wane__summary s = summarize(sample, count, NULL, median);
        assert_int_equal(s.seen, count);
        assert_true(fabs(s.stability - pairs) < 1e-7);
        assert_true(fabs(s.share - agree / count) < 0.011);
    }
}

/* Means, agreement and probability by the long way. */
static void test_means(void **state) {
    (void)state;
    static struct wane__sample sample[100];
    make_samples(sample, 100, 0.2, 9);
    struct wane__summary s = summarize(sample, 100, NULL, 0.9);
    struct wane__candidate best[256];
    int count = 0;
    for (int32_t token = 0; token < 256; token++) {
        double sum = 0, listed = 0;
        for (int i = 0; i < 100; i++) {
            double last = (double)sample[i].top[sample[i].top_count - 1].logit;
            sum += logit_of(&sample[i], token, last);
            listed += logit_of(&sample[i], token, -1e9) > -1e9;
        }
        if (listed > 0) best[count++] = (struct wane__candidate){token, (float)(sum / 100)};
    }
    wane__sort_candidates(best, count);
    double drawn = 0, first = 0, mass = 0;
    for (int i = 0; i < 100; i++) {
        drawn += sample[i].token == best[0].token;
        first += sample[i].top[0].token == best[0].token;
        for (int k = 0; k < WANE__SLMT_DEPTH; k++)
            mass += exp(logit_of(&sample[i], best[k].token, -1e9) - (double)sample[i].log_sum) / 100;
    }
    assert_int_equal(s.top_count, WANE__SLMT_DEPTH);
    for (int k = 0; k < WANE__SLMT_DEPTH; k++) {
        assert_int_equal(s.top[k].token, best[k].token);
        assert_true(fabsf(s.top[k].logit - best[k].logit) < 1e-5f);
    }
    assert_int_equal(s.drawn[0], (int)drawn);
    assert_int_equal(s.first, (int)first);
    assert_true(fabs(s.mass - mass) < 1e-6);
}

/* The same bits in any order, also where not all samples are kept. */
static void test_order(void **state) {
    (void)state;
    enum { COUNT = 3 * WANE__SUMS_KEPT };
    struct wane__sample *sample = wane__alloc(COUNT * sizeof *sample);
    make_samples(sample, COUNT, 0.1, 3);
    double least = summarize(sample, COUNT, NULL, 0).stability;
    struct wane__summary first = summarize(sample, COUNT, NULL, least);
    assert_true(first.share > 0 && first.share < 1);
    for (uint64_t seed = 0; seed < 4; seed++) {
        uint32_t *order = rig_shuffle(COUNT, seed);
        struct wane__summary again = summarize(sample, COUNT, order, least);
        assert_true(again.stability == first.stability && again.share == first.share &&
                    again.mass == first.mass);
        assert_int_equal(again.next, first.next);
        assert_memory_equal(again.top, first.top, sizeof first.top);
        wane__free(order);
    }
    wane__free(sample);
}

/* Bytes of samples: back and forth; and nothing but samples is taken. */
static void test_bytes(void **state) {
    (void)state;
    struct wane__sample sample, again;
    make_samples(&sample, 1, 0.1, 3);
    uint8_t bytes[WANE__SAMPLE_MOST];
    size_t size = wane__sample_encode(&sample, bytes);
    assert_int_equal(wane__sample_decode(bytes, size, 1 << 20, "x", &again, NULL), WANE_OK);
    uint8_t more[WANE__SAMPLE_MOST];
    assert_int_equal(wane__sample_encode(&again, more), size);
    assert_memory_equal(bytes, more, size);
    assert_int_equal(wane__sample_decode(bytes, size, 4, "x", &again, NULL), WANE_EFORMAT);
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(wane__sample_decode(bytes, cut, 1 << 20, "x", &again, NULL), WANE_EFORMAT);
    for (int at = 52; at < 56; at++) {
        uint8_t kept = bytes[at];
        bytes[at] = 255;
        assert_int_equal(wane__sample_decode(bytes, size, 1 << 20, "x", &again, NULL), WANE_EFORMAT);
        bytes[at] = kept;
    }
}

/* What is of no use to a table, and what no trace may hold. */
static void test_fates(void **state) {
    (void)state;
    struct rig rig = {.vocab = 1000, .requests = 1, .length = 1, .templates = 1, .start = 5};
    size_t count;
    struct wane__trace_token *one = rig_make(&rig, &count), t;
    struct wane__sample s;
    enum wane__sample_fate fate;
    t = *one;
    t.changed = true;
    assert_int_equal(wane__sample_from(&t, 3, 1000, &s, &fate, NULL), WANE_OK);
    assert_int_equal(fate, WANE__SAMPLE_CHANGED);
    t = *one;
    assert_int_equal(wane__sample_from(&t, 6, 1000, &s, &fate, NULL), WANE_OK);
    assert_int_equal(fate, WANE__SAMPLE_SHORT);
    t.top[0].logit = NAN;
    assert_int_equal(wane__sample_from(&t, 3, 1000, &s, &fate, NULL), WANE_OK);
    assert_int_equal(fate, WANE__SAMPLE_EMPTY);
    t = *one;
    t.top[9].logit = -INFINITY; /* forbidden tokens end the list */
    assert_int_equal(wane__sample_from(&t, 3, 1000, &s, &fate, NULL), WANE_OK);
    assert_int_equal(s.top_count, 9);
    t = *one;
    assert_int_equal(wane__sample_from(&t, 3, 10, &s, &fate, NULL), WANE_EFORMAT);
    t.top[3] = t.top[1];
    assert_int_equal(wane__sample_from(&t, 3, 1000, &s, &fate, NULL), WANE_EFORMAT);
    /* Long contexts have the last ten in their name, others have not. */
    t = *one;
    t.last_count = WANE__TEN;
    t.position = WANE__LONG_CONTEXT - 1;
    assert_int_equal(wane__sample_from(&t, 3, 1000, &s, &fate, NULL), WANE_OK);
    assert_int_equal(s.key.ten, 0);
    t.position++;
    assert_int_equal(wane__sample_from(&t, 3, 1000, &s, &fate, NULL), WANE_OK);
    assert_int_equal(s.key.ten, wane__context_ten(t.last + WANE__TEN));
    wane__free(one);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sort),         cmocka_unit_test(test_sort_many_runs),
        cmocka_unit_test(test_foreign_runs), cmocka_unit_test(test_stability),
        cmocka_unit_test(test_means),        cmocka_unit_test(test_order),
        cmocka_unit_test(test_bytes),        cmocka_unit_test(test_fates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
