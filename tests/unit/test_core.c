/*
 * test_core.c - buffers, tokens, errors, log, random numbers: the small things that all the rest stands on.
 */
#include "core/buf.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/rng.h"
#include "core/tokens.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* The sanitizers read these: asking for too much gives NULL, as without them, instead of a report. */
const char *__asan_default_options(void);
const char *__tsan_default_options(void);
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1";
}
const char *__tsan_default_options(void) {
    return "allocator_may_return_null=1";
}

static void test_buf(void **unused) {
    (void)unused;
    struct wane__buf buf = {0};
    for (int i = 0; i < 1000; i++) assert_true(wane__buf_format(&buf, "%d,", i));
    assert_int_equal(buf.size, strlen(buf.data));
    assert_memory_equal(buf.data, "0,1,2,", 6);
    wane__buf_drop(&buf, 4);
    assert_memory_equal(buf.data, "2,3,", 4);
    wane__buf_drop(&buf, buf.size + 9);
    assert_string_equal(buf.data, "");
    assert_true(wane__buf_append(&buf, "a\0b", 3));
    assert_int_equal(buf.size, 3);
    assert_true(wane__buf_append(&buf, NULL, 0));
    assert_false(wane__buf_reserve(&buf, SIZE_MAX - 1));
    assert_true(buf.failed);
    assert_false(wane__buf_text(&buf, "x")); /* latched, and what was there is there */
    assert_int_equal(buf.size, 3);
    wane__buf_clear(&buf);
    assert_true(wane__buf_text(&buf, "again"));
    wane__buf_free(&buf);
    wane__buf_free(&buf);
    assert_null(buf.data);
}

static void test_tokens(void **unused) {
    (void)unused;
    wane_tokens tokens = {0};
    for (int32_t i = 0; i < 5000; i++) assert_true(wane__tokens_add(&tokens, i));
    for (int32_t i = 0; i < 5000; i++) assert_int_equal(tokens.id[i], i);
    assert_false(wane__tokens_reserve(&tokens, SIZE_MAX));
    assert_int_equal(tokens.count, 5000);
    wane_tokens_free(&tokens);
    wane_tokens_free(&tokens);
    wane_tokens_free(NULL);
}

static void test_errors(void **unused) {
    (void)unused;
    wane_error error;
    char text[900];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    assert_int_equal(wane__fail(&error, WANE_EIO, "%s", text), WANE_EIO);
    assert_int_equal(strlen(error.text), sizeof error.text - 1);
    assert_int_equal(wane__fail(NULL, WANE_EBUSY, "no one listens"), WANE_EBUSY);
    wane__clear(&error);
    assert_int_equal(error.code, WANE_OK);
    wane__clear(NULL);
    for (int code = 0; code >= -15; code--) {
        assert_int_equal(strncmp(wane_strerror(code), "WANE_", 5), 0);
        assert_string_not_equal(wane_strerror(code), "WANE_E?");
        for (int before = 0; before > code; before--)
            assert_string_not_equal(wane_strerror(code), wane_strerror(before));
    }
    assert_string_equal(wane_strerror(-16), "WANE_E?");
    assert_string_equal(wane_strerror(1), "WANE_E?");
    assert_string_equal(wane_version(), WANE_VERSION);
}

static void keep_line(void *user, int level, const char *line) {
    (void)level;
    strncpy(user, line, 1999);
}

static void test_log(void **unused) {
    (void)unused;
    char line[2000] = "", text[1500];
    struct wane__log log;
    memset(text, 'y', sizeof text);
    text[sizeof text - 1] = '\0';
    wane__log_init(&log, keep_line, line);
    wane__log(&log, WANE_LOG_INFO, "%d of %s", 3, "four");
    assert_string_equal(line, "3 of four");
    wane__log(&log, WANE_LOG_INFO, "%s", text);
    assert_int_equal(strlen(line), 1000);
    wane__log(NULL, WANE_LOG_INFO, "nowhere");
    wane__log_close(&log);
}

static void test_memory(void **unused) {
    (void)unused;
    assert_null(wane__alloc_zero(SIZE_MAX / 2, 4));
    assert_null(wane__resize(NULL, SIZE_MAX / 2, 4));
    assert_null(wane__alloc_aligned(64, SIZE_MAX - 3));
    assert_null(wane__copy_string(NULL));
    assert_null(wane__copy_bytes("", SIZE_MAX));
    char *copy = wane__copy_bytes("a\0b", 3);
    assert_memory_equal(copy, "a\0b", 4);
    wane__free(copy);
    void *block = wane__alloc_aligned(64, 100);
    assert_int_equal((uintptr_t)block % 64, 0);
    wane__free(block);
    wane__free(NULL);
}

/* In a debug build an allocation inside a step ends the program at once; elsewhere nothing does. */
static void test_step_traps(void **unused) {
    (void)unused;
#ifdef WANE_DEBUG
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGILL, SIG_DFL);
        signal(SIGTRAP, SIG_DFL);
        wane__step_enter();
        wane__free(wane__alloc(1));
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
#endif
    wane__step_enter();
    wane__step_leave();
    void *block = wane__alloc(1);
    assert_non_null(block);
    wane__free(block);
}

static void test_random_numbers(void **unused) {
    (void)unused;
    double sum = 0, squares = 0, products = 0, last = 0;
    int bins[64] = {0};
    for (uint64_t i = 0; i < 64000; i++) {
        double u = wane__random_unit(12, i);
        assert_true(u >= 0 && u < 1);
        bins[(int)(u * 64)]++;
        sum += u;
        squares += u * u;
        products += u * last;
        last = u;
    }
    assert_true(sum / 64000 > 0.495 && sum / 64000 < 0.505);
    assert_true(squares / 64000 > 0.328 && squares / 64000 < 0.338);
    assert_true(products / 64000 > 0.245 && products / 64000 < 0.255); /* neighbours are independent */
    for (int i = 0; i < 64; i++) assert_true(bins[i] > 800 && bins[i] < 1200);
    /* A fixed number of the generator: a change would change every seeded reply. */
    assert_true(wane__random_bits(1, 2) == wane__random_bits(1, 2));
    assert_true(wane__random_bits(1, 2) != wane__random_bits(2, 1));
    assert_true(wane__mix64(0) == UINT64_C(0xe220a8397b1dcdaf)); /* SplitMix64's first output for seed 0 */
}

static void test_clock(void **unused) {
    (void)unused;
    double a = wane__now();
    uint64_t ms = wane__now_ms();
    assert_true(wane__now() >= a);
    assert_true(wane__now_ms() >= ms);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buf),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_log),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_step_traps),
        cmocka_unit_test(test_random_numbers),
        cmocka_unit_test(test_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
