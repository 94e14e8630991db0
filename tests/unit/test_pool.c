/* test_pool.c - every part exactly once, jobs in close succession and far apart, no allocation in a job. */
#include "core/pool.h"

#include "core/clock.h"
#include "core/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { PARTS = 200 };

struct sums {
    int64_t part[PARTS];
    int64_t add;
    atomic_int calls;
};

static void add_one(void *user, int part) {
    struct sums *sums = user;
    sums->part[part] += sums->add; /* a plain write: two threads on one part would be a race */
    atomic_fetch_add(&sums->calls, 1);
}

static void run_jobs(int threads, int jobs, bool pauses) {
    struct wane__pool *pool;
    static struct sums sums;
    int64_t expected[PARTS] = {0};
    int calls = 0;
    memset(&sums, 0, sizeof sums);
    assert_int_equal(wane__pool_new(threads, &pool), WANE_OK);
    assert_int_equal(wane__pool_threads(pool), threads < 1 ? 1 : threads);
    wane__step_enter();
    for (int job = 0; job < jobs; job++) {
        int parts = job % 7 == 0 ? job % 3 : job % PARTS + 1;
        sums.add = job;
        wane__pool_run(pool, add_one, &sums, parts);
        for (int i = 0; i < parts; i++) expected[i] += job;
        calls += parts;
        assert_int_equal(atomic_load(&sums.calls), calls);
        if (pauses && job % 10 == 0) usleep(300); /* long enough for all to sleep */
    }
    wane__step_leave();
    assert_memory_equal(sums.part, expected, sizeof expected);
    wane__pool_free(pool);
}

static void test_every_part_once(void **unused) {
    (void)unused;
    for (int threads = 0; threads <= 6; threads++) {
        run_jobs(threads, 2000, false);
        run_jobs(threads, 200, true);
    }
}

static void test_made_and_freed(void **unused) {
    (void)unused;
    wane__pool_free(NULL);
    for (int i = 0; i < 50; i++) run_jobs(3, i % 3, false);
}

static void wait_until_asleep(struct wane__pool *pool, int workers) {
    for (int i = 0; i < 20000 && wane__pool_asleep(pool) < workers; i++) usleep(1000);
    assert_int_equal(wane__pool_asleep(pool), workers);
}

/* Idle workers use no processor time, after a job, after a call that no job followed, and when told to rest. */
static void test_idle_sleeps(void **unused) {
    struct wane__pool *pool;
    static struct sums sums;
    (void)unused;
    assert_int_equal(wane__pool_new(4, &pool), WANE_OK);
    wait_until_asleep(pool, 3);
    for (int i = 0; i < 20; i++) {
        wane__pool_wake(pool);
        if (i % 2) wane__pool_run(pool, add_one, &sums, PARTS);
        if (i % 3) wane__pool_rest(pool);
        wait_until_asleep(pool, 3);
    }
    assert_int_equal(atomic_load(&sums.calls), 10 * PARTS);
    wane__pool_free(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_part_once),
        cmocka_unit_test(test_made_and_freed),
        cmocka_unit_test(test_idle_sleeps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
