/* engine_check.h - a check that counts and goes on, for programs that run a real model. */
#ifndef WANE_TESTS_ENGINE_CHECK_H
#define WANE_TESTS_ENGINE_CHECK_H

#include <stdio.h>

static int failures;

#define CHECK(condition, ...)                                                       \
    do {                                                                            \
        if (!(condition)) {                                                         \
            failures++;                                                             \
            fprintf(stderr, "%s:%d: failed: %s: ", __FILE__, __LINE__, #condition); \
            fprintf(stderr, __VA_ARGS__);                                           \
            fprintf(stderr, "\n");                                                  \
        }                                                                           \
    } while (0)

#endif
