/* os.c - the differences between Linux and macOS; owns nothing. What is known of neither falls back to plain POSIX. */
#include "core/os.h"

#include "core/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#if defined(__linux__)
#include <sched.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

/* -------------------------------------------------------------------- cores */

#ifndef __APPLE__
static int cores_online(void) {
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 && online < 4096 ? (int)online : 1;
}
#endif

#if defined(__linux__)

/* Is `cpu` the first of its siblings that we may run on? Two threads of one core share its arithmetic. */
static bool first_sibling(int cpu, const cpu_set_t *mine) {
    char path[96], text[256];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    FILE *f = fopen(path, "re");
    if (f == NULL) return true; /* nothing known: count it */
    bool read = fgets(text, sizeof text, f) != NULL;
    fclose(f);
    if (!read) return true;
    for (char *c = text; *c >= '0' && *c <= '9';) { /* "0-1" or "0,8" */
        long low = strtol(c, &c, 10), high = low;
        if (*c == '-') high = strtol(c + 1, &c, 10);
        for (long i = low; i <= high && i < cpu; i++) {
            if (i >= 0 && i < CPU_SETSIZE && CPU_ISSET((size_t)i, mine)) return false;
        }
        if (*c == ',') c++;
    }
    return true;
}

/* Whole CPUs that the control group's quota is worth, rounded up; 0: no quota. */
static int quota(void) {
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
    long long share = 0, period = 0;
    if (f != NULL) {
        if (fscanf(f, "%lld %lld", &share, &period) != 2) share = 0;
        fclose(f);
    }
    if (share <= 0 || period <= 0) return 0;
    long long cpus = (share + period - 1) / period;
    return cpus > CPU_SETSIZE ? CPU_SETSIZE : (int)cpus;
}

int wane__os_cores(void) {
    cpu_set_t mine;
    CPU_ZERO(&mine);
    int cores = 0;
    if (sched_getaffinity(0, sizeof mine, &mine) == 0) {
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
            if (CPU_ISSET((size_t)cpu, &mine) && first_sibling(cpu, &mine)) cores++;
        }
    } else {
        cores = cores_online(); /* more CPUs than the set can name */
    }
    int limit = quota();
    if (limit > 0 && cores > limit) cores = limit;
    return cores > 0 ? cores : 1;
}

#elif defined(__APPLE__)

int wane__os_cores(void) {
    /* Level 0 is the fast cores; Macs without levels do not have that name. */
    static const char *const names[] = {"hw.perflevel0.physicalcpu", "hw.physicalcpu"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int cores = 0;
        size_t size = sizeof cores;
        if (sysctlbyname(names[i], &cores, &size, NULL, 0) == 0 && cores > 0) return cores;
    }
    return 1;
}

#else

int wane__os_cores(void) {
    return cores_online();
}

#endif

/* ------------------------------------------------------------------- random */

bool wane__os_random(void *bytes, size_t size) {
    return getentropy(bytes, size) == 0;
}

/* ------------------------------------------------------- threads and waiting */

static struct timespec timespec_of(double seconds) {
    double whole = floor(seconds);
    return (struct timespec){.tv_sec = (time_t)whole, .tv_nsec = (long)((seconds - whole) * 1e9)};
}

#ifdef __APPLE__

/* No choice of clock here, but waits that are given a duration. */
void wane__os_cond_init(pthread_cond_t *cond) {
    pthread_cond_init(cond, NULL);
}

int wane__os_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, double until) {
    double left = until - wane__now();
    struct timespec most = timespec_of(left > 1e-9 ? left : 1e-9); /* no time at all could mean for ever */
    if (most.tv_sec == 0 && most.tv_nsec == 0) most.tv_nsec = 1;
    return pthread_cond_timedwait_relative_np(cond, lock, &most);
}

#else

void wane__os_cond_init(pthread_cond_t *cond) {
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

int wane__os_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, double until) {
    struct timespec at = timespec_of(until);
    return pthread_cond_timedwait(cond, lock, &at);
}

#endif

size_t wane__os_thread_stack(void) {
#ifdef __GLIBC__
    return 0;
#else
    return (size_t)8 << 20;
#endif
}

int wane__os_thread_start(pthread_t *thread, void *(*run)(void *), void *argument) {
    size_t stack = wane__os_thread_stack();
    if (stack == 0) return pthread_create(thread, NULL, run, argument);
    pthread_attr_t attr;
    int rc = pthread_attr_init(&attr);
    if (rc != 0) return rc;
    rc = pthread_attr_setstacksize(&attr, stack);
    if (rc == 0) rc = pthread_create(thread, &attr, run, argument);
    pthread_attr_destroy(&attr);
    return rc;
}

/* ------------------------------------------------------------------ sockets */

#if defined(SOCK_CLOEXEC) && defined(SOCK_NONBLOCK)

int wane__os_socket(int family) {
    return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

#else

int wane__os_socket(int family) {
    int fd = socket(family, SOCK_STREAM, 0);
    if (fd < 0) return -1;
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0)
        return fd;
    int kept = errno;
    close(fd);
    errno = kept;
    return -1;
}

#endif

#ifdef POLLRDHUP

bool wane__os_peer_gone(int fd) {
    struct pollfd poller = {.fd = fd, .events = POLLRDHUP};
    return poll(&poller, 1, 0) > 0 && (poller.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

#else

/* macOS says POLLHUP for a side that is closed. Where a system does not: an end shows once all before it was read. */
bool wane__os_peer_gone(int fd) {
    struct pollfd poller = {.fd = fd, .events = POLLIN | POLLHUP};
    if (poll(&poller, 1, 0) <= 0) return false;
    if ((poller.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) return true;
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

#endif

/* -------------------------------------------------------------------- usage */

static unsigned long long count_files(void) {
#if defined(__linux__)
    DIR *folder = opendir("/proc/self/fd");
#else
    DIR *folder = opendir("/dev/fd");
#endif
    unsigned long long count = 0;
    if (folder == NULL) return 0;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) count += entry->d_name[0] != '.';
    closedir(folder);
    return count > 0 ? count - 1 : 0; /* the folder itself was open */
}

static unsigned long long resident(void) {
#if defined(__linux__)
    unsigned long long size = 0, pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f == NULL) return 0;
    if (fscanf(f, "%llu %llu", &size, &pages) != 2) pages = 0;
    fclose(f);
    long page = sysconf(_SC_PAGESIZE);
    return page > 0 ? pages * (unsigned long long)page : 0;
#else
    return 0;
#endif
}

void wane__os_usage(struct wane__os_usage *usage) {
    struct rusage used;
    struct rlimit limit;
    *usage = (struct wane__os_usage){.resident_bytes = resident(), .open_files = count_files()};
    if (getrusage(RUSAGE_SELF, &used) == 0)
        usage->cpu_seconds = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                             1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        usage->most_files = (unsigned long long)limit.rlim_cur;
}

bool wane__os_disk_free(const char *path, unsigned long long *bytes) {
    struct statvfs status;
    char folder[4096];
    size_t size = strlen(path);
    if (size >= sizeof folder) return false;
    memcpy(folder, path, size + 1);
    /* A file that is to be written may not be there yet: its folder is. */
    while (statvfs(folder, &status) != 0) {
        char *slash = strrchr(folder, '/');
        if (slash == NULL && strcmp(folder, ".") == 0) return false;
        if (slash == folder && folder[1] == '\0') return false;
        if (slash == NULL)
            memcpy(folder, ".", 2);
        else
            slash[slash == folder] = '\0';
    }
    *bytes = (unsigned long long)status.f_bavail * (unsigned long long)status.f_frsize;
    return true;
}
