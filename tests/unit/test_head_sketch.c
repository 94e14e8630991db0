/*
 * test_head_sketch.c - the sketch's file (damage of every kind is found, bytes do not depend on threads), the
 * kernels (all give the plain one's bits), and the errors of its estimates (as Gaussian as the theorem says).
 */
#include "unit/head_rig.h"

static void fill_gaussian(struct rig *rig) {
    for (size_t i = 0; i < (size_t)rig->vocab * (size_t)rig->d; i++)
        rig->w[i] = gaussian() / sqrtf((float)rig->d);
}

/* ------------------------------------------------------------------------- file */

static unsigned char *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    unsigned char *bytes = malloc(*size);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

static void write_file(const char *path, const unsigned char *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

static void expect_open(struct rig *rig, const char *digest, int expected) {
    struct wane__head *head;
    wane_error error = {0};
    int status = wane__head_open(rig->path, &rig->weights, digest, 6, 1, 1, &head, &error);
    assert_int_equal(status, expected);
    if (expected != WANE_OK) {
        assert_null(head);
        assert_int_equal(error.code, expected);
        assert_true(strlen(error.text) > 20);
    }
    wane__head_free(head);
}

static void test_damage_is_found(void **unused) {
    struct rig rig;
    size_t size;
    (void)unused;
    rig_init(&rig, 1000, 300);
    fill_gaussian(&rig);
    rig_learn(&rig, 400);
    expect_open(&rig, "digest", WANE_ENOENT);
    rig_build(&rig, 1);
    expect_open(&rig, "digest", WANE_OK);
    expect_open(&rig, "other", WANE_EFORMAT);
    expect_open(&rig, "dig", WANE_EFORMAT);
    unsigned char *bytes = read_file(rig.path, &size);
    struct wane__sketch_header header;
    memcpy(&header, bytes, sizeof header);
    /* Every byte of the header, then some of each section and the last bytes of each. */
    for (size_t at = 0; at < sizeof header; at++) {
        bytes[at] ^= 0x41;
        write_file(rig.path, bytes, size);
        expect_open(&rig, "digest", WANE_EFORMAT);
        bytes[at] ^= 0x41;
    }
    for (int s = 0; s < 3; s++)
        for (int i = 0; i < 10; i++) {
            size_t at = header.section[s].offset + (size_t)(unit() * (double)header.section[s].size);
            if (i == 0) at = header.section[s].offset + header.section[s].size - 1;
            bytes[at] ^= 1;
            write_file(rig.path, bytes, size);
            expect_open(&rig, "digest", WANE_EFORMAT);
            bytes[at] ^= 1;
        }
    static const size_t lengths[] = {0, 1, 100, 4095, 4096, 5000};
    for (int i = 0; i < 6; i++) {
        write_file(rig.path, bytes, lengths[i]);
        expect_open(&rig, "digest", WANE_EFORMAT);
    }
    write_file(rig.path, bytes, size - 1);
    expect_open(&rig, "digest", WANE_EFORMAT);
    unsigned char *longer = calloc(1, size + 4096);
    memcpy(longer, bytes, size);
    write_file(rig.path, longer, size + 4096);
    expect_open(&rig, "digest", WANE_EFORMAT);
    write_file(rig.path, bytes, size);
    expect_open(&rig, "digest", WANE_OK);
    rig.weights.vocab_size--;
    expect_open(&rig, "digest", WANE_EFORMAT);
    free(longer);
    free(bytes);
    rig_free(&rig);
}

static void test_bytes_do_not_depend_on_threads(void **unused) {
    struct rig rig;
    size_t size, other;
    (void)unused;
    rig_init(&rig, SANITIZED ? 1003 : 5003, SANITIZED ? 130 : 270);
    fill_gaussian(&rig);
    rig_learn(&rig, SANITIZED ? 150 : 300);
    rig_build(&rig, 1);
    unsigned char *first = read_file(rig.path, &size);
    for (int threads = 2; threads <= 5; threads++) {
        rig_build(&rig, threads);
        unsigned char *bytes = read_file(rig.path, &other);
        assert_int_equal(other, size);
        assert_memory_equal(bytes, first, size);
        free(bytes);
    }
    free(first);
    rig_free(&rig);
}

static bool stop(void *user, const char *what, double share) {
    int *calls = user;
    assert_non_null(what);
    assert_true(share >= 0 && share <= 1);
    return ++*calls < 3;
}

static void test_building_can_be_stopped(void **unused) {
    struct rig rig;
    wane_error error;
    int calls = 0;
    (void)unused;
    rig_init(&rig, 20000, 16);
    fill_gaussian(&rig);
    assert_int_equal(wane__sketch_build(rig.path, &rig.weights, NULL, "digest", 1, stop, &calls, &error),
                     WANE_ECANCELLED);
    assert_int_equal(calls, 3);
    assert_int_equal(access(rig.path, F_OK), -1);
    assert_int_equal(wane__sketch_build("/nowhere/at/all", &rig.weights, NULL, "digest", 1, NULL, NULL,
                                        &error),
                     WANE_EIO);
    rig_free(&rig);
}

/* ---------------------------------------------------------------------- kernels */

static void compare_kernels(struct rig *rig, const struct wane__sketch_plan *plan) {
    enum { ROWS = 3 };
    wane_error error;
    struct wane__head *head;
    assert_int_equal(wane__sketch_build_plan(rig->path, &rig->weights, &rig->statistics, plan, "digest", 1,
                                             NULL, NULL, &error),
                     WANE_OK);
    head = rig_open(rig, 6, 1, ROWS);
    float *hidden = malloc(ROWS * (size_t)rig->d * sizeof *hidden);
    for (int r = 0; r < ROWS; r++) rig_draw_hidden(rig, hidden + (size_t)r * (size_t)rig->d);
    size_t blocks = head->sketch.shape.blocks, bytes = blocks * sizeof(struct wane__scan_block);
    struct wane__scan_block *expected = malloc(ROWS * bytes);
    float *upper = malloc(blocks * sizeof *upper);
    for (int k = 0; wane__scan_kernels_at(k) != NULL; k++) {
        head->kernels = wane__scan_kernels_at(k);
        assert_int_equal(wane__head_scan(head, hidden, ROWS), WANE_OK);
        for (int r = 0; r < ROWS; r++) {
            const struct wane__scan_query *query = &head->row[r].query;
            if (k == 0) memcpy(expected + (size_t)r * blocks, query->known, bytes);
            assert_memory_equal(query->known, expected + (size_t)r * blocks, bytes);
        }
        if (k == 0) memcpy(upper, head->row[1].query.block_upper, blocks * sizeof *upper);
        assert_memory_equal(head->row[1].query.block_upper, upper, blocks * sizeof *upper);
    }
    free(upper);
    free(hidden);
    free(expected);
    wane__head_free(head);
}

static void test_kernels_agree(void **unused) {
    static const struct {
        int vocab, d;
        struct wane__sketch_plan plan;
    } cases[] = {
        {1, 5, {1, {{0, 1, 0}}}},
        {33, 64, {1, {{0, 2, 0}}}},
        {777, 129, {2, {{64, 4, 0}, {0, 1, 0}}}},
        {1001, 320, {3, {{64, 3, 0}, {100, 2, 0}, {0, 1, 64}}}},
        {95, 4100, {2, {{1, 4, 0}, {0, 1, 0}}}}, /* more columns than sums of 16 bits hold */
        {70, 2200, {1, {{0, 4, 0}}}},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rig rig;
        rig_init(&rig, cases[i].vocab, cases[i].d);
        fill_gaussian(&rig);
        compare_kernels(&rig, &cases[i].plan);
        rig_free(&rig);
    }
}

/* The largest sums that there can be: every bit set, every number of the query at its end. */
static void test_kernels_at_their_limits(void **unused) {
    enum { DIMS = 8192 };
    static uint8_t nibbles[DIMS / 2];
    static int8_t fine[DIMS];
    (void)unused;
    for (int kind = 0; kind < 3; kind++) {
        for (int i = 0; i < DIMS / 2; i++) nibbles[i] = kind == 2 ? (uint8_t)below(256) : 255;
        for (int i = 0; i < DIMS; i++)
            fine[i] = (int8_t)(kind == 2 ? below(255) - 127 : kind == 1 ? -127 : 127);
        for (int dims = 64; dims <= DIMS; dims += 64) {
            int32_t expected = wane__scan_plain.fine(nibbles, fine, dims);
            for (int k = 1; wane__scan_kernels_at(k) != NULL; k++)
                assert_int_equal(wane__scan_kernels_at(k)->fine(nibbles, fine, dims), expected);
        }
    }
    struct wane__sketch sketch = {.header = {.groups = 1, .vocab_size = 32, .d = DIMS}};
    sketch.header.group[0] = (struct wane__sketch_group){.real = DIMS, .dims = DIMS, .kept = DIMS, .bits = 1};
    wane__sketch_shape_of(&sketch.header, &sketch.shape);
    uint8_t *block = malloc(sketch.shape.block_bytes), *tables = malloc(DIMS * 8);
    struct wane__scan_block known;
    float upper, estimate;
    memset(block, 0, sketch.shape.meta_bytes);
    memset(block + sketch.shape.meta_bytes, 255, sketch.shape.block_bytes - sketch.shape.meta_bytes);
    memset(tables, 4 * WANE__SCAN_MOST, DIMS * 8);
    sketch.level1 = block;
    struct wane__scan_query query = {.sigmas = 6,
                                     .known = &known,
                                     .block_upper = &upper,
                                     .block_estimate = &estimate};
    query.group[0] = (struct wane__scan_group){.columns = DIMS / 8, .planes = 1, .tables = tables, .step = 1};
    for (int k = 0; wane__scan_kernels_at(k) != NULL; k++) {
        wane__scan_kernels_at(k)->scan(&sketch, 0, 1, &query, 1);
        for (int r = 0; r < 32; r++) assert_true(known.estimate[r] == (float)(WANE__SCAN_MOST * DIMS));
    }
    free(block);
    free(tables);
}

/* ----------------------------------------------------------------------- errors */

struct histogram {
    int64_t count, beyond[8]; /* sigmas */
    double sum, square, most;
};

static void add_errors(struct rig *rig, struct wane__head *head, int level, struct histogram *h) {
    const struct wane__head_row *row = &head->row[0];
    if (level == 2) {
        for (int32_t id = 0; id < rig->vocab; id++) head->list[id] = id;
        wane__head_refine(&head->row[0], rig->vocab);
    }
    for (int32_t id = 0; id < rig->vocab; id++) {
        double sigma = ((double)*wane__half(row, id) - (double)row->query.slack) / 6;
        double z = ((double)*wane__estimate(row, id) - (double)rig->logits[id]) / sigma;
        h->count++;
        h->sum += z;
        h->square += z * z;
        h->most = fabs(z) > h->most ? fabs(z) : h->most;
        for (int s = 1; s < 8; s++) h->beyond[s] += fabs(z) > s;
    }
}

/* 12 million errors of either level: no tail beyond a Gaussian's, nothing beyond 6 sigmas. */
static void test_errors_are_gaussian(void **unused) {
    struct histogram h[3] = {{0}};
    (void)unused;
    for (int learned = 0; learned < 2; learned++) {
        struct rig rig;
        rig_init(&rig, 20000, 128);
        fill_gaussian(&rig);
        if (learned) rig_learn(&rig, 600);
        rig_build(&rig, 2);
        struct wane__head *head = rig_open(&rig, 6, 2, 1);
        for (int i = 0; i < (EMULATED ? 10 : SANITIZED ? 30 : 300); i++) {
            rig_draw_hidden(&rig, rig.hidden);
            rig_set_hidden(&rig);
            assert_int_equal(wane__head_scan(head, rig.hidden, 1), WANE_OK);
            for (int level = 1; level <= 2; level++) add_errors(&rig, head, level, &h[level]);
        }
        wane__head_free(head);
        rig_free(&rig);
    }
    static const double tails[8] = {1, 0.3173, 0.0455, 0.0027, 6.33e-5, 5.73e-7, 1.97e-9, 0};
    for (int level = 1; level <= 2; level++) {
        const struct histogram *one = &h[level];
        double n = (double)one->count;
        print_message(
            "level %d: %lld errors, mean %.4f, deviation %.4f, most %.2f; beyond 1 to 6: %.4f %.4f %.5f "
            "%.2e %.2e %.2e\n",
            level, (long long)one->count, one->sum / n, sqrt(one->square / n), one->most,
            (double)one->beyond[1] / n, (double)one->beyond[2] / n, (double)one->beyond[3] / n,
            (double)one->beyond[4] / n, (double)one->beyond[5] / n, (double)one->beyond[6] / n);
        assert_true(SANITIZED || one->count >= 10000000);
        assert_true(sqrt(one->square / n) < 1.02);
        /* Errors of one row against many hidden rows go together: half again, and a few, are allowed for. */
        for (int s = 2; s <= 5; s++) assert_true((double)one->beyond[s] < 1.5 * tails[s] * n + 5);
        assert_int_equal(one->beyond[6], 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damage_is_found),         cmocka_unit_test(test_bytes_do_not_depend_on_threads),
        cmocka_unit_test(test_building_can_be_stopped), cmocka_unit_test(test_kernels_agree),
        cmocka_unit_test(test_kernels_at_their_limits), cmocka_unit_test(test_errors_are_gaussian),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
