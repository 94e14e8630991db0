/* test_statistics.c - moments of hidden rows through a file; and every way in which a file can be no good. */
#include "core/memory.h"
#include "statistics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <xxhash.h>

enum { D = 5, ROWS = 9, SIZE = 56 + 4 * (D + D * (D + 1) / 2) + 8 };
static const char digest[] = "0123456789abcdef0123456789abcdef";
static char path[] = "/tmp/wane-statistics-XXXXXX";

static void make(struct wane__moments *moments) {
    float row[ROWS * D];
    for (int i = 0; i < ROWS * D; i++) row[i] = sinf((float)(i * i));
    assert_int_equal(wane__moments_of(row, ROWS, D, moments, NULL), WANE_OK);
}

static size_t load(unsigned char bytes[SIZE + 1]) {
    FILE *file = fopen(path, "rb");
    size_t size = fread(bytes, 1, SIZE + 1, file);
    fclose(file);
    return size;
}

static int parse(const void *bytes, size_t size, const char *of, int d, wane_error *error) {
    struct wane__moments moments;
    int result = wane__statistics_parse(bytes, size, "x.stat", of, d, &moments, error);
    wane__moments_free(&moments);
    return result;
}

static void test_round_trip(void **state) {
    (void)state;
    struct wane__moments moments, again;
    make(&moments);
    assert_int_equal(wane__statistics_write(path, digest, D, &moments, NULL), WANE_OK);
    assert_int_equal(wane__statistics_read(path, digest, D, &again, NULL), WANE_OK);
    assert_memory_equal(moments.mean, again.mean, D * sizeof(float));
    assert_memory_equal(moments.covariance, again.covariance, D * D * sizeof(float));
    assert_int_equal(again.rows, ROWS);
    wane__moments_free(&moments);
    wane__moments_free(&again);
}

/* Cut at every byte, a bit changed in every byte, a byte too many, another model, another width, no file. */
static void test_refusals(void **state) {
    (void)state;
    unsigned char bytes[SIZE + 1];
    struct wane__moments moments;
    wane_error error;
    assert_int_equal(load(bytes), SIZE);
    for (size_t size = 0; size < SIZE; size++)
        assert_int_equal(parse(bytes, size, digest, D, NULL), WANE_EFORMAT);
    for (size_t i = 0; i < SIZE; i++) {
        bytes[i] ^= 4;
        assert_int_equal(parse(bytes, SIZE, digest, D, NULL), WANE_EFORMAT);
        bytes[i] ^= 4;
    }
    assert_int_equal(parse(bytes, SIZE + 1, digest, D, NULL), WANE_EFORMAT);
    assert_int_equal(parse(bytes, SIZE, "0123456789abcdef0123456789abcdee", D, &error), WANE_EFORMAT);
    assert_non_null(strstr(error.text, "another model"));
    assert_int_equal(parse(bytes, SIZE, digest, D + 1, NULL), WANE_EFORMAT);
    assert_int_equal(parse(bytes, SIZE, digest, D, NULL), WANE_OK);
    assert_int_equal(wane__statistics_read("/tmp/there/is/none", digest, D, &moments, NULL), WANE_ENOENT);
    assert_int_equal(wane__statistics_read("/tmp", digest, D, &moments, NULL), WANE_EFORMAT);
}

/* Well-formed, with numbers that no rows give. */
static void test_numbers(void **state) {
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    unsigned char bytes[SIZE + 1];
    const size_t mean = 56, diagonal = 56 + 4 * D;
    for (int kind = 0; kind < 4; kind++) {
        load(bytes);
        float value = kind < 3 ? bad[kind] : -1;
        memcpy(bytes + (kind == 3 ? diagonal : mean), &value, sizeof value);
        uint64_t check = XXH3_64bits(bytes, SIZE - 8);
        memcpy(bytes + SIZE - 8, &check, sizeof check); /* little-endian, as the machines that test are */
        assert_int_equal(parse(bytes, SIZE, digest, D, NULL), WANE_EFORMAT);
    }
}

static int prepare(void **state) {
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 || close(fd) != 0;
}

static int clean(void **state) {
    (void)state;
    return unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, prepare, clean);
}
