/*
 * os.h - what operating systems do differently, in one place: Linux and macOS. The rest of the library is written for
 * both. (The program sees nothing of the library but wane.h; its own differences are in src/cli/os.h.)
 */
#ifndef WANE_CORE_OS_H
#define WANE_CORE_OS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Cores that this process may keep busy, at least 1. Two threads of one core count once. Linux: no more than the
 * affinity mask and the control group's quota allow. macOS: the fast cores, where there are slow ones, too.
 */
int wane__os_cores(void);

/* What the system says of this process; what it does not say is 0. */
struct wane__os_usage {
    double cpu_seconds;
    unsigned long long resident_bytes;
    unsigned long long open_files, most_files;
};
void wane__os_usage(struct wane__os_usage *usage);
/* Bytes that a file's or folder's disk still has for this user; false where there is no such place. */
bool wane__os_disk_free(const char *path, unsigned long long *bytes);

/* Random bytes from the system, at most 256 of them; false with errno set when it gives none. */
bool wane__os_random(void *bytes, size_t size);

/* A condition variable whose waits end by wane__now, not by the date; destroyed with pthread_cond_destroy. */
void wane__os_cond_init(pthread_cond_t *cond);
/*
 * Wait until `until` (seconds of wane__now, finite) at the latest, with `lock` held as for pthread_cond_wait. 0 or
 * ETIMEDOUT; may return early without a reason. Only for variables from wane__os_cond_init.
 */
int wane__os_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, double until);

/*
 * Bytes of stack that a thread should ask for; 0: what the system gives is enough. glibc gives as much as the main
 * thread has, usually 8 MiB; others give a fraction of one, less than templates and nested JSON may take.
 */
size_t wane__os_thread_stack(void);
/* pthread_create with that stack. 0 or an error number. */
int wane__os_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

/* A TCP socket that does not block and that programs started from here do not inherit; -1 with errno set. */
int wane__os_socket(int family);
/* Has the other end of a connection closed its side, or is the connection broken? Takes nothing from the socket. */
bool wane__os_peer_gone(int fd);

#endif
