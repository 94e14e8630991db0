/*
 * test_os.c - what src/core/os.h promises on every system: cores, random bytes, waits that end by the monotonic clock,
 * stacks, sockets, and a peer that has gone.
 */
#include "core/clock.h"
#include "core/os.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static void test_cores(void **state) {
    (void)state;
    int cores = wane__os_cores();
    assert_true(cores >= 1 && cores <= sysconf(_SC_NPROCESSORS_CONF));
    assert_int_equal(wane__os_cores(), cores);
}

static void test_random(void **state) {
    (void)state;
    unsigned char one[256] = {0}, two[256] = {0};
    assert_true(wane__os_random(one, sizeof one));
    assert_true(wane__os_random(two, sizeof two));
    assert_memory_not_equal(one, two, sizeof one);
    assert_false(wane__os_random(one, sizeof one + 1)); /* more than it gives at once */
}

struct waiting {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool said;
};

static void waiting_init(struct waiting *w) {
    *w = (struct waiting){.said = false};
    pthread_mutex_init(&w->lock, NULL);
    wane__os_cond_init(&w->cond);
}

static void waiting_close(struct waiting *w) {
    pthread_cond_destroy(&w->cond);
    pthread_mutex_destroy(&w->lock);
}

static void test_wait_ends(void **state) {
    (void)state;
    struct waiting w;
    waiting_init(&w);
    pthread_mutex_lock(&w.lock);
    double now = wane__now();
    const double until[] = {now + 0.02, now, now - 5, 1.5, 0};
    for (size_t i = 0; i < sizeof until / sizeof *until; i++) {
        int rc = 0;
        while (rc == 0) rc = wane__os_cond_wait(&w.cond, &w.lock, until[i]);
        assert_int_equal(rc, ETIMEDOUT);
        assert_true(wane__now() >= until[i] - 1e-6); /* never before its time */
    }
    pthread_mutex_unlock(&w.lock);
    waiting_close(&w);
}

static void *say(void *user) {
    struct waiting *w = user;
    /* As deep as a template or a nested document may go; touched from its far end. */
    volatile char deep[3 << 20];
    for (size_t i = 0; i < sizeof deep; i += 4096) deep[i] = (char)i;
    pthread_mutex_lock(&w->lock);
    w->said = deep[4096] == (char)4096;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static void test_a_thread_wakes_another(void **state) {
    (void)state;
    struct waiting w;
    pthread_t thread;
    waiting_init(&w);
    pthread_mutex_lock(&w.lock);
    assert_int_equal(wane__os_thread_start(&thread, say, &w), 0);
    double until = wane__now() + 60;
    while (!w.said) assert_int_equal(wane__os_cond_wait(&w.cond, &w.lock, until), 0);
    pthread_mutex_unlock(&w.lock);
    assert_int_equal(pthread_join(thread, NULL), 0);
    waiting_close(&w);
}

static void test_socket(void **state) {
    (void)state;
    int fd = wane__os_socket(AF_INET);
    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    close(fd);
    assert_int_equal(wane__os_socket(-1), -1);
    assert_true(errno != 0);
}

static void test_peer_gone(void **state) {
    (void)state;
    /* How it goes: the whole connection, or only its sending side, as clients do that still read. */
    for (int half = 0; half < 2; half++) {
        int end[2];
        char text[8] = {0};
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, end), 0);
        assert_false(wane__os_peer_gone(end[0]));
        assert_int_equal(write(end[1], "more", 4), 4);
        assert_false(wane__os_peer_gone(end[0]));
        assert_int_equal(read(end[0], text, sizeof text), 4); /* asking took nothing */
        assert_memory_equal(text, "more", 4);
        if (half)
            assert_int_equal(shutdown(end[1], SHUT_WR), 0);
        else
            close(end[1]);
        assert_true(wane__os_peer_gone(end[0]));
        close(end[0]);
        if (half) close(end[1]);
    }
    assert_true(wane__os_peer_gone(1 << 20)); /* not open at all */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cores),     cmocka_unit_test(test_random),
        cmocka_unit_test(test_wait_ends), cmocka_unit_test(test_a_thread_wakes_another),
        cmocka_unit_test(test_socket),    cmocka_unit_test(test_peer_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
