/* clock.h - monotonic time, for durations and deadlines; wall-clock time is for dates only. */
#ifndef WANE_CORE_CLOCK_H
#define WANE_CORE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline double wane__now(void) { /* seconds, never goes back */
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline uint64_t wane__now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

static inline int64_t wane__date_ms(void) { /* since 1970, UTC */
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

#endif
