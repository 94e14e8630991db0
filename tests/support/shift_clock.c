/*
 * shift_clock.c - a library to put before a program (LD_PRELOAD): the date is ahead or behind by what a file says, and jumps when the file
 * changes. WANE_SHIFT_CLOCK names the file: eight bytes, little-endian, milliseconds. Durations stay: the monotonic clock is nobody's to set.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SEEN __attribute__((visibility("default")))

static _Atomic int64_t *shift; /* NULL: the date is left alone */

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("WANE_SHIFT_CLOCK");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *page = mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (page != MAP_FAILED) shift = page;
}

SEEN int clock_gettime(clockid_t clock, struct timespec *out) {
    int code = (int)syscall(SYS_clock_gettime, clock, out);
    if (code != 0 || shift == NULL || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
        return code;
    int64_t ms = atomic_load(shift);
    out->tv_sec += (time_t)(ms / 1000);
    out->tv_nsec += (long)(ms % 1000) * 1000000;
    if (out->tv_nsec < 0) {
        out->tv_nsec += 1000000000;
        out->tv_sec--;
    } else if (out->tv_nsec >= 1000000000) {
        out->tv_nsec -= 1000000000;
        out->tv_sec++;
    }
    return 0;
}

SEEN int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return 0;
}

SEEN time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out != NULL) *out = now.tv_sec;
    return now.tv_sec;
}
