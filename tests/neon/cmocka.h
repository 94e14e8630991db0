/*
 * cmocka.h - the few words of cmocka that the head's tests use, for a target on which there is no cmocka. Checks end the
 * program with status 1; only tests/neon/run sees this file.
 */
#ifndef WANE_TESTS_NEON_CMOCKA_H
#define WANE_TESTS_NEON_CMOCKA_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
};
#define cmocka_unit_test(function) \
    { #function, function }

#define shim_check(fine, what)                                                \
    do {                                                                      \
        if (!(fine)) {                                                        \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, what); \
            exit(1);                                                          \
        }                                                                     \
    } while (0)
#define assert_true(a)               shim_check(a, #a)
#define assert_false(a)              shim_check(!(a), "not " #a)
#define assert_null(a)               shim_check((a) == NULL, #a " is NULL")
#define assert_non_null(a)           shim_check((a) != NULL, #a " is not NULL")
#define assert_int_equal(a, b)       shim_check((long long)(a) == (long long)(b), #a " == " #b)
#define assert_int_not_equal(a, b)   shim_check((long long)(a) != (long long)(b), #a " != " #b)
#define assert_memory_equal(a, b, n) shim_check(memcmp((a), (b), (n)) == 0, #a " holds " #b)

#define print_message printf
#define fail_msg(...)                 \
    do {                              \
        fprintf(stderr, __VA_ARGS__); \
        exit(1);                      \
    } while (0)

static inline int shim_run(const struct CMUnitTest *tests, size_t count) {
    void *state = NULL;
    for (size_t i = 0; i < count; i++) {
        tests[i].run(&state);
        printf("ok  %s\n", tests[i].name);
        fflush(stdout);
    }
    return 0;
}
#define cmocka_run_group_tests(tests, setup, teardown) shim_run(tests, sizeof(tests) / sizeof *(tests))

#endif
