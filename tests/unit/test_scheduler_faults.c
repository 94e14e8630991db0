/*
 * What goes wrong around a scheduler: clients that leave, engines that fail, deadlines, slow readers, stops, and
 * all of it at once. In each case the neighbours' replies must not change.
 */
#include "test_scheduler_rig.h"

#include "core/rng.h"

#ifdef __APPLE__
#include <malloc/malloc.h>
#else
#include <malloc.h>
#endif
#include <pthread.h>

static int32_t ten_tokens[] = {'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 257};
enum { MARCH = 60 }; /* 0.6 s: long enough that a stall of this machine does not spoil a test */
static int32_t march_tokens[MARCH];
static const struct wane__script_reply replies[] = {
    {.match = "slow", .tokens = ten_tokens, .count = 11, .fail_at = -1, .delay_ms = 10},
    {.match = "crawl", .tokens = ten_tokens, .count = 11, .fail_at = -1, .delay_ms = 3000},
    {.match = "fail5", .tokens = ten_tokens, .count = 11, .fail_at = 5},
    {.match = "fail0", .tokens = ten_tokens, .count = 11, .fail_at = 0},
    {.match = "neighbour", .tokens = ten_tokens, .count = 11, .fail_at = -1, .delay_ms = 2},
    {.match = "quick", .tokens = ten_tokens, .count = 11, .fail_at = -1},
    {.match = "march", .tokens = march_tokens, .count = MARCH, .fail_at = -1, .delay_ms = 10},
};
static const struct wane__script plain = {.replies = replies, .reply_count = 7};

static struct outcome outcome, other;

static wane_ticket *wait_for_start(wane_ticket *t) {
    wane_event event;
    bool ended;
    assert_int_equal(wane_ticket_next(t, 5000, &event, &ended, NULL), WANE_OK);
    assert_int_equal(event.kind, WANE_EVENT_START);
    return t;
}

static void expect_neighbour(wane_ticket *t) {
    finish(t, &outcome);
    assert_int_equal(outcome.code, WANE_OK);
    assert_string_equal(outcome.text, "abcdefghij");
    assert_int_equal(outcome.finish, WANE_FINISH_END);
}

/* ------------------------------------------------------------ clients that leave */

static void test_cancel_while_queued(void **state) {
    (void)state;
    struct wane__script script = plain;
    script.sequences = 1;
    struct rig rig = rig_up(script, quick_options());
    wane_generation g = greedy(0);
    wane_ticket *first = send(&rig, "slow", &g);
    WAIT_FOR(&rig, now.slots_busy == 1);
    wane_ticket *second = send(&rig, "slow", &g), *third = send(&rig, "neighbour", &g);
    wane_ticket_free(second);
    assert_int_equal(rig_state(&rig).queued, 1);
    assert_int_equal(rig_state(&rig).cancelled, 1);
    expect_neighbour(first);
    expect_neighbour(third);
    rig_down(&rig);
}

/* The sequence takes in what the running call holds of it, and nothing after. */
static void expect_gone_within_one_batch(struct rig *rig, wane_ticket *t, int seq, int chunk) {
    wane_ticket_cancel(t);
    int length = rig_counts(rig).length[seq];
    bool ended = false;
    wane_event event;
    wane_error error;
    while (!ended) wane_ticket_next(t, 1000, &event, &ended, &error);
    assert_int_equal(error.code, WANE_ECANCELLED);
    assert_int_equal(rig_state(rig).cancelled, 1);
    sleep_ms(30);
    assert_true(rig_counts(rig).length[seq] <= length + chunk);
}

static void test_cancel_in_prefill(void **state) {
    (void)state;
    struct wane__script script = plain;
    script.prompt_delay_ms = 1;
    wane_scheduler_options o = quick_options();
    o.prompt_chunk = 8;
    struct rig rig = rig_up(script, o);
    wane_generation g = greedy(0);
    static char text[301];
    memset(text, 'y', 300);
    wane_ticket *neighbour = wait_for_start(send(&rig, "neighbour", &g));
    wane_ticket *leaver = send(&rig, text, &g);
    WAIT_FOR(&rig, now.slots_busy == 2);
    expect_gone_within_one_batch(&rig, leaver, 1, 8);
    wane_ticket_free(leaver);
    finish(neighbour, &outcome); /* its START was read already */
    assert_string_equal(outcome.text, "abcdefghij");
    rig_down(&rig);
}

static void test_cancel_in_decode(void **state) {
    (void)state;
    struct rig rig = rig_up(plain, quick_options());
    wane_generation g = greedy(0);
    wane_ticket *neighbour = wait_for_start(send(&rig, "march", &g));
    wane_ticket *leaver = wait_for_start(send(&rig, "march", &g));
    expect_gone_within_one_batch(&rig, leaver, 1, 1);
    wane_ticket_cancel(leaver);
    wane_ticket_free(leaver);
    finish(neighbour, &outcome);
    assert_int_equal(outcome.code, WANE_OK);
    assert_int_equal(outcome.texts, MARCH);
    rig_down(&rig);
}

/* When nobody wants the running call any more, it does not run to its end. */
static void test_an_abandoned_call_is_cut_short(void **state) {
    (void)state;
    struct rig rig = rig_up(plain, quick_options());
    wane_generation g = greedy(0);
    wane_ticket *a = send(&rig, "crawl", &g), *b = send(&rig, "crawl", &g);
    WAIT_FOR(&rig, now.slots_busy == 2);
    sleep_ms(20);
    double before = wane__now();
    wane_ticket_free(a);
    wane_ticket_free(b);
    WAIT_FOR(&rig, now.slots_busy == 0);
    assert_true(wane__now() - before < 1.0 * slack());
    assert_true(rig_counts(&rig).interrupted >= 1);
    ask(&rig, "neighbour", &g, &outcome); /* and the interrupt does not reach the next one */
    assert_string_equal(outcome.text, "abcdefghij");
    rig_down(&rig);
}

static void test_ticket_freed_mid_decode(void **state) {
    (void)state;
    struct rig rig = rig_up(plain, quick_options());
    wane_generation g = greedy(0);
    for (int i = 0; i < 50; i++) {
        wane_ticket *t = send(&rig, "hm", &g);
        if (i % 2) wait_for_start(t);
        wane_ticket_free(t);
    }
    WAIT_FOR(&rig, now.slots_busy == 0 && now.queued == 0);
    assert_int_equal(rig_state(&rig).cancelled + rig_state(&rig).completed, 50);
    rig_down(&rig);
}

/* ------------------------------------------------------------ engines that fail */

static void expect_failure(wane_ticket *t, int texts) {
    double before = wane__now();
    finish(t, &outcome);
    assert_int_equal(outcome.code, WANE_EENGINE);
    assert_int_equal(outcome.texts, texts);
    assert_non_null(strstr(outcome.error.text, "as written"));
    assert_true(wane__now() - before < 1.0 * slack());
}

static void test_decode_fails(void **state) {
    (void)state;
    for (int recurrent = 0; recurrent < 2; recurrent++) {
        struct wane__script script = plain;
        script.recurrent = recurrent == 1;
        wane_scheduler_options o = quick_options();
        o.window_ms = 30; /* all in one call */
        struct rig rig = rig_up(script, o);
        wane_generation g = greedy(0);
        wane_ticket *a = send(&rig, "neighbour", &g), *bad = send(&rig, "fail5", &g);
        wane_ticket *worse = send(&rig, "fail0", &g), *b = send(&rig, "slow", &g);
        expect_failure(worse, 0);
        expect_failure(bad, 5);
        expect_neighbour(a);
        expect_neighbour(b);
        ask(&rig, "fail5", &g, &outcome); /* alone */
        assert_int_equal(outcome.code, WANE_EENGINE);
        assert_string_equal(outcome.text, "abcde");
        ask(&rig, "neighbour", &g, &outcome);
        assert_string_equal(outcome.text, "abcdefghij");
        assert_int_equal(rig_state(&rig).failed, 3);
        assert_int_equal(rig_state(&rig).completed, 3);
        rig_down(&rig);
    }
}

/* A failure in the middle of a long prompt beside others. */
static void test_decode_fails_in_recurrent_replay(void **state) {
    (void)state;
    struct wane__script script = plain;
    script.recurrent = true;
    script.batch = 16;
    wane_scheduler_options o = quick_options();
    o.window_ms = 30;
    struct rig rig = rig_up(script, o);
    wane_generation g = greedy(0);
    static char text[128];
    snprintf(text, sizeof text, "%070d fail5", 0);
    wane_ticket *bad = send(&rig, text, &g);
    snprintf(text, sizeof text, "%080d neighbour", 0);
    wane_ticket *a = send(&rig, text, &g), *b = send(&rig, "neighbour", &g), *c = send(&rig, "slow", &g);
    expect_failure(bad, 5);
    expect_neighbour(a);
    expect_neighbour(b);
    expect_neighbour(c);
    rig_down(&rig);
}

/* An engine with room for few tokens in all: its decode says WANE_EBUSY beyond. */
static const struct wane__engine_ops *script_ops;
static int room;

static int decode_in_little_room(struct wane__engine *engine, const struct wane__item *items, int count,
                                 wane_error *error) {
    struct wane__script_counts counts;
    wane__script_get_counts(engine, &counts);
    int used = count;
    for (int i = 0; i < engine->facts.sequences; i++) used += counts.length[i];
    if (used > room) {
        snprintf(error->text, sizeof error->text, "no room, as written");
        return error->code = WANE_EBUSY;
    }
    return script_ops->decode(engine, items, count, error);
}

static void test_no_room_for_tokens(void **state) {
    (void)state;
    struct wane__engine *engine;
    struct rig rig = {0};
    assert_int_equal(wane__script_load(&plain, NULL, &engine, NULL), WANE_OK);
    script_ops = engine->ops;
    struct wane__engine_ops ops = *script_ops;
    ops.decode = decode_in_little_room;
    room = 230;
    engine->ops = &ops;
    wane_scheduler_options o = quick_options();
    assert_int_equal(wane__model_wrap(engine, NULL, NULL, &rig.model, NULL), WANE_OK);
    rig.engine = engine;
    assert_int_equal(wane_scheduler_new(rig.model, &o, &rig.scheduler, NULL), WANE_OK);

    static char text[160];
    wane_generation g = greedy(0);
    /* What idle slots keep makes room for who needs it. */
    for (int i = 0; i < 5; i++) {
        snprintf(text, sizeof text, "%d%0100d neighbour", i, 0);
        ask(&rig, text, &g, &outcome);
        assert_int_equal(outcome.code, WANE_OK);
    }
    /* Two that do not fit together: the younger prompt is given up, the older reply goes on. */
    snprintf(text, sizeof text, "A%0110d march", 0);
    wane_ticket *old = wait_for_start(send(&rig, text, &g));
    text[0] = 'B';
    ask(&rig, text, &g, &other);
    assert_int_equal(other.code, WANE_EENGINE);
    assert_non_null(strstr(other.error.text, "no room"));
    finish(old, &outcome);
    assert_int_equal(outcome.code, WANE_OK);
    assert_int_equal(outcome.texts, MARCH);
    rig_down(&rig);
}

/* ------------------------------------------------------------------- deadlines */

static void test_deadlines(void **state) {
    (void)state;
    struct wane__script script = plain;
    script.sequences = 1;
    script.prompt_delay_ms = -200;
    struct rig rig = rig_up(script, quick_options());
    wane_generation g = greedy(0), soon = greedy(0);
    soon.deadline_ms = 40;

    wane_ticket *first = send(&rig, "slow", &g);
    ask(&rig, "slow", &soon, &other); /* in the queue */
    assert_int_equal(other.code, WANE_ETIMEOUT);
    assert_int_equal(other.starts, 0);
    expect_neighbour(first);

    static char text[461];
    memset(text, 'y', 460);
    ask(&rig, text, &soon, &other); /* in the prompt: it takes 92 ms */
    assert_int_equal(other.code, WANE_ETIMEOUT);
    assert_int_equal(other.starts, 0);

    soon.deadline_ms = 300;
    ask(&rig, "march", &soon, &other); /* in the reply */
    assert_int_equal(other.code, WANE_ETIMEOUT);
    assert_int_equal(other.starts, 1);
    assert_true(other.texts > 0 && other.texts < 31);
    assert_int_equal(rig_state(&rig).timed_out, 3);
    rig_down(&rig);

    wane_scheduler_options o = quick_options();
    o.max_ms = 40; /* the server's limit holds for those who set none, and for those who set a longer one */
    rig = rig_up(plain, o);
    g.deadline_ms = 100000;
    ask(&rig, "slow", &g, &other);
    assert_int_equal(other.code, WANE_ETIMEOUT);
    g.deadline_ms = 0;
    ask(&rig, "slow", &g, &other);
    assert_int_equal(other.code, WANE_ETIMEOUT);
    rig_down(&rig);
}

/* ---------------------------------------------------------------- slow readers */

static void test_slow_reader(void **state) {
    (void)state;
    struct wane__script script = plain;
    script.context = WANE__TICKET_BACKLOG + 1000;
    script.sequences = 2;
    struct rig rig = rig_up(script, quick_options());
    wane_generation g = greedy(0), soon = greedy(0);
    wane_ticket *sleeper = send(&rig, "?", &g);
    for (int i = 0; i < 5; i++) { /* others do not wait for it */
        ask(&rig, "neighbour", &g, &outcome);
        assert_int_equal(outcome.code, WANE_OK);
    }
    /* START and 4,095 tokens fill its inbox; five neighbours had 11 rows each. */
    WAIT_FOR(&rig, now.engine_rows == WANE__TICKET_BACKLOG - 1 + 55);
    sleep_ms(20);
    assert_int_equal(rig_state(&rig).slots_busy, 1);
    double busy = rig_state(&rig).busy_seconds;
    sleep_ms(100);
    assert_true(rig_state(&rig).busy_seconds - busy < 0.01 * slack()); /* nothing spins */
    assert_int_equal(rig_state(&rig).engine_rows, WANE__TICKET_BACKLOG - 1 + 55);
    ask(&rig, "neighbour", &g, &outcome);
    assert_string_equal(outcome.text, "abcdefghij");

    read_all(sleeper, &other); /* nothing was lost */
    assert_int_equal(other.code, WANE_OK);
    assert_int_equal(other.texts, script.context - 1);
    assert_int_equal(other.finish, WANE_FINISH_CONTEXT);
    wane_ticket_free(sleeper);

    soon.deadline_ms = 1500; /* a reader that never comes: its deadline is kept all the same */
    sleeper = send(&rig, "!", &soon);
    WAIT_FOR(&rig, now.timed_out == 1);
    assert_int_equal(rig_state(&rig).slots_busy, 0);
    wane_ticket_free(sleeper);
    rig_down(&rig);
}

/* ----------------------------------------------------------------------- stops */

static void test_stop_with_grace(void **state) {
    (void)state;
    struct wane__script script = plain;
    script.sequences = 1;
    struct rig rig = rig_up(script, quick_options());
    wane_generation g = greedy(0);
    wane_ticket *running = send(&rig, "slow", &g), *queued = send(&rig, "slow", &g), *late;
    double before = wane__now();
    wane_scheduler_stop(rig.scheduler, 10000);
    assert_true(wane__now() - before < 5 * slack());
    expect_neighbour(running);
    expect_neighbour(queued);
    assert_int_equal(try_send(&rig, "slow", &g, &late), WANE_ESHUTDOWN);
    assert_true(rig_state(&rig).stopping);
    rig_down(&rig);
}

static void test_stop_cuts(void **state) {
    (void)state;
    for (uint32_t grace = 0; grace <= 50; grace += 50) {
        struct wane__script script = plain;
        script.sequences = 1;
        struct rig rig = rig_up(script, quick_options());
        wane_generation g = greedy(0);
        wane_ticket *running = send(&rig, "crawl", &g), *queued = send(&rig, "slow", &g);
        WAIT_FOR(&rig, now.slots_busy == 1);
        double before = wane__now();
        wane_scheduler_stop(rig.scheduler, grace);
        double took = wane__now() - before;
        assert_true(took < 1.0 && took >= 1e-3 * grace - 1e-3);
        finish(running, &outcome);
        assert_int_equal(outcome.code, WANE_ESHUTDOWN);
        finish(queued, &outcome);
        assert_int_equal(outcome.code, WANE_ESHUTDOWN);
        assert_int_equal(rig_state(&rig).failed, 2);
        rig_down(&rig);
    }
}

static void test_stuck(void **state) {
    (void)state;
    wane_scheduler_options options = quick_options();
    options.watchdog_ms = 8;
    struct rig rig = rig_up(plain, options);
    wane_generation g = greedy(0);
    assert_false(rig_state(&rig).stuck);
    wane_ticket *t = send(&rig, "crawl", &g);
    WAIT_FOR(&rig, now.stuck);
    wane_ticket_free(t);
    WAIT_FOR(&rig, !now.stuck);
    rig_down(&rig);
}

/* ------------------------------------------------------------------- the storm */

enum { STORM_THREADS = 5, STORM_REQUESTS = 1000 };

struct stormer {
    const struct rig *rig;
    uint64_t seed;
    int accepted, refused, ends, errors;
    pthread_t thread;
};

static void storm_one(struct stormer *me, uint64_t dice) {
    static const char *const prompts[] = {"a short one", "a somewhat longer prompt of the storm",
                                          "fail5 of the storm", "quick", "x"};
    wane_generation g = greedy((int)(dice >> 8 & 15) + 1);
    g.sampling.temperature = 1;
    g.sampling.seeded = true;
    g.sampling.seed = dice;
    g.tenant = dice & 1 ? "one" : "two";
    if ((dice >> 12 & 31) == 0) g.deadline_ms = 1;
    wane_ticket *t;
    if (try_send(me->rig, prompts[(dice >> 20) % 5], &g, &t) != WANE_OK) {
        me->refused++;
        return;
    }
    me->accepted++;
    int patience = (dice >> 32 & 3) == 0 ? (int)(dice >> 40 & 7) : 1000; /* a quarter leaves early */
    bool ended = false;
    for (int i = 0; i < patience && !ended; i++) {
        wane_event event;
        int code = wane_ticket_next(t, 10000, &event, &ended, NULL);
        if (ended && code == WANE_OK) me->ends++;
        if (ended && code != WANE_OK) me->errors++;
    }
    if (!ended && dice >> 48 & 1) wane_ticket_cancel(t);
    wane_ticket_free(t);
}

static void *storm_thread(void *user) {
    struct stormer *me = user;
    for (uint64_t i = 0; i < STORM_REQUESTS / 2; i++) storm_one(me, wane__random_bits(me->seed, i));
    return NULL;
}

static void storm(const struct rig *rig, struct stormer *all, uint64_t round) {
    for (uint64_t i = 0; i < STORM_THREADS; i++) {
        all[i].rig = rig;
        all[i].seed = round * 100 + i;
        assert_int_equal(pthread_create(&all[i].thread, NULL, storm_thread, &all[i]), 0);
    }
    for (int i = 0; i < STORM_THREADS; i++) pthread_join(all[i].thread, NULL);
    WAIT_FOR(rig, now.slots_busy == 0 && now.queued == 0);
}

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define BYTES_ARE_EXACT
#endif
#endif
#if defined BYTES_ARE_EXACT || defined __SANITIZE_ADDRESS__
size_t __sanitizer_get_current_allocated_bytes(void);
/* What slots keep depends on the last requests; 4 contexts of 512 tokens are all it can be. */
enum { MEMORY_MORE = 4 * 512 * (int)sizeof(int32_t) + 4096 };
#else
/* And what the allocator keeps ready for each thread counts as in use, and grows for a while: 26 bytes a request are. */
enum { MEMORY_MORE = 65536 };
#endif

static size_t memory_in_use(void) {
#if defined BYTES_ARE_EXACT || defined __SANITIZE_ADDRESS__
    return __sanitizer_get_current_allocated_bytes();
#elif defined __APPLE__
    malloc_statistics_t all;
    malloc_zone_statistics(NULL, &all);
    return all.size_in_use;
#else
    return mallinfo2().uordblks;
#endif
}

/* 5,000 requests in two halves: everything adds up, and the second half needs no more memory than the first. */
static void test_storm(void **state) {
    (void)state;
    wane_scheduler_options o = quick_options();
    o.queue = 3;
    o.window_ms = 1;
    struct wane__script script = plain;
    script.prompt_delay_ms = -20;
    struct rig rig = rig_up(script, o);
    struct stormer all[STORM_THREADS] = {0};
    storm(&rig, all, 1);
    size_t before = memory_in_use();
    storm(&rig, all, 2);
    /* A slot is free a moment before the last request of it is given back. */
    WAIT_FOR(&rig, memory_in_use() <= before + MEMORY_MORE);

    uint64_t accepted = 0, refused = 0, ends = 0;
    for (int i = 0; i < STORM_THREADS; i++) {
        accepted += (uint64_t)all[i].accepted;
        refused += (uint64_t)all[i].refused;
        ends += (uint64_t)all[i].ends;
    }
    wane_scheduler_state s = rig_state(&rig);
    assert_int_equal(accepted + refused, STORM_THREADS * STORM_REQUESTS);
    assert_int_equal(s.accepted, accepted);
    assert_int_equal(s.refused, refused);
    assert_int_equal(s.accepted, s.completed + s.cancelled + s.failed + s.timed_out);
    assert_true(s.completed >= ends && s.cancelled > 0 && s.failed > 0);
    struct wane__script_counts counts = rig_counts(&rig);
    for (int i = 0; i < 4; i++) assert_int_equal(counts.length[i], rig.scheduler->slot[i].held);
    wane_generation g = greedy(0);
    ask(&rig, "neighbour", &g, &outcome);
    assert_string_equal(outcome.text, "abcdefghij");
    rig_down(&rig);
}

int main(void) {
    for (int i = 0; i < MARCH; i++) march_tokens[i] = 'm';
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cancel_while_queued),
        cmocka_unit_test(test_cancel_in_prefill),
        cmocka_unit_test(test_cancel_in_decode),
        cmocka_unit_test(test_an_abandoned_call_is_cut_short),
        cmocka_unit_test(test_ticket_freed_mid_decode),
        cmocka_unit_test(test_decode_fails),
        cmocka_unit_test(test_decode_fails_in_recurrent_replay),
        cmocka_unit_test(test_no_room_for_tokens),
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_slow_reader),
        cmocka_unit_test(test_stop_with_grace),
        cmocka_unit_test(test_stop_cuts),
        cmocka_unit_test(test_stuck),
        cmocka_unit_test(test_storm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
