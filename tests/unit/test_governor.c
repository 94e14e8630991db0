/*
 * test_governor.c - the state machine replays recorded signals into the states that another program worked out; commands wait for their
 * tokens, and late ones are known as such; the fuse fires in loops, when they are long enough, and in nothing else.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/rng.h"
#include "governor/governor.h"

#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------- replays */

struct replay {
    const wane_signals *signals;
    int count, signal, sign;
    float peak, low, spread, jerk;
    int locked_tokens;
    float fallback, stability;
    const char *states;
};

#include "vectors/governor_states.inc"

static wane_profile profile_of(const struct replay *r) {
    wane_profile p;
    wane_profile_init(&p);
    p.signal = r->signal;
    p.sign = r->sign;
    p.peak = r->peak;
    p.low = r->low;
    p.spread = r->spread;
    p.jerk = r->jerk;
    p.locked_tokens = r->locked_tokens;
    p.temp_fallback = r->fallback;
    return p;
}

/* What a token in that state is drawn with. */
static void expect_heat(const struct wane__command *c, char state, const struct replay *r) {
    if (state == 'N') {
        assert_null(c);
        return;
    }
    assert_non_null(c);
    float t = state == 'L' ? 0.3f : state == 'E' ? 0.85f : state == 'P' ? 0.5f : r->fallback;
    assert_true(c->temperature == t);
    assert_int_equal(c->top_p_off, state == 'L' || state == 'P');
}

static void test_replays(void **unused) {
    (void)unused;
    static const char letters[WANE_STATES] = {'N', 'L', 'E', 'P'};
    for (size_t i = 0; i < sizeof replays / sizeof *replays; i++) {
        const struct replay *r = &replays[i];
        struct wane__machine machine;
        struct wane__steering steering = {0};
        wane_profile p = profile_of(r);
        /* The profile's stability and the request's are one. */
        p.stability = i % 2 == 0 ? r->stability : 1;
        wane__machine_init(&machine, &p, i % 2 == 0 ? 1 : r->stability);
        assert_int_equal(strlen(r->states), r->count);
        for (int at = 0; at < r->count; at++) {
            struct wane__command c = wane__machine_step(&machine, at, &r->signals[at]);
            char state = r->states[at];
            if (letters[machine.state] != (state == 'f' ? 'N' : state))
                fail_msg("replay %zu, token %d: %c, not %c", i, at, letters[machine.state], state);
            assert_true(wane__steering_take(&steering, &c, at));
            expect_heat(wane__steering_at(&steering, at), state, r);
        }
    }
}

/* A profile without a signal leads nowhere. */
static void test_no_signal(void **unused) {
    (void)unused;
    struct wane__machine machine;
    wane_profile p;
    wane_profile_init(&p);
    wane__machine_init(&machine, &p, 1);
    const wane_signals signals = {9, 0.01f, 0.1f, 9, 1};
    for (int i = 0; i < 5; i++) assert_int_equal(wane__machine_step(&machine, i, &signals).count, 0);
    assert_int_equal(machine.state, WANE_STATE_NORMAL);
}

/* A token without a row takes along what was known. */
static void test_skip(void **unused) {
    (void)unused;
    struct wane__machine machine;
    wane_profile p;
    wane_profile_init(&p);
    p.signal = WANE_SIGNAL_MARGIN;
    p.peak = 5;
    p.jerk = 1;
    wane__machine_init(&machine, &p, 1);
    const wane_signals high = {.margin = 6}, zero = {.margin = 0};
    wane__machine_step(&machine, 0, &high);
    assert_int_equal(machine.state, WANE_STATE_LOCKED);
    wane__machine_skip(&machine);
    assert_int_equal(machine.state, WANE_STATE_NORMAL);
    for (int i = 2; i < 5; i++) { /* three values are no third difference yet */
        wane__machine_step(&machine, i, i == 3 ? &high : &zero);
        assert_int_not_equal(machine.state, WANE_STATE_PROTECT);
    }
    wane__machine_step(&machine, 5, &high);
    assert_int_equal(machine.state, WANE_STATE_PROTECT);
}

static void test_commands(void **unused) {
    (void)unused;
    struct wane__steering steering = {0};
    const struct wane__command none = {.from = 0}, lock = {5, 3, WANE_STATE_LOCKED, 0.3f, true},
                               turn = {6, 1, WANE_STATE_PROTECT, 0.5f, true};
    assert_true(wane__steering_take(&steering, &none, 100)); /* says nothing: nothing is lost */
    assert_true(wane__steering_take(&steering, &lock, 5));
    assert_null(wane__steering_at(&steering, 4));
    for (int i = 5; i < 8; i++) assert_int_equal(wane__steering_at(&steering, i)->state, WANE_STATE_LOCKED);
    assert_null(wane__steering_at(&steering, 8));
    assert_true(wane__steering_take(&steering, &lock, 7)); /* in part */
    assert_false(wane__steering_take(&steering, &turn, 7));
    assert_int_equal(wane__steering_at(&steering, 7)->state,
                     WANE_STATE_LOCKED); /* a late one changes nothing */
    assert_false(wane__steering_take(&steering, &lock, 8));
    assert_true(wane__steering_take(&steering, &turn, 6));
    assert_null(wane__steering_at(&steering, 7));
}

/* ---------------------------------------------------------------------- fuse */

static struct wane__fuse fuse_of(int rule) {
    struct wane__fuse fuse;
    wane_quality q;
    wane_quality_init(&q);
    q.mode = WANE_MODE_WANE;
    q.fuse = rule;
    wane__fuse_init(&fuse, &q);
    return fuse;
}

/* Tokens at which it fires, of entropies that do not vary; -1: at none. */
static int fires_at(struct wane__fuse *fuse, const int32_t *tokens, int count) {
    for (int i = 0; i < count; i++) {
        wane__fuse_see(fuse, 0.01);
        if (wane__fuse_take(fuse, tokens, i + 1)) return i + 1;
    }
    return -1;
}

enum { MOST = 700 };

/* A loop of any length, behind a beginning of any length: as soon as it has gone round often and long enough. */
static void test_loops(void **unused) {
    (void)unused;
    int32_t tokens[MOST];
    for (int period = 1; period <= 140; period += period < 40 ? 1 : 9) {
        for (int before = 0; before < 100; before += 33) {
            struct wane__fuse fuse = fuse_of(WANE_FUSE_LOOP);
            for (int i = 0; i < MOST; i++) tokens[i] = i < before ? 1000 + i : (i - before) % period;
            int needed = 3 * period > 96 ? 3 * period : 96;
            int expected = period <= WANE__FUSE_PERIOD ? before + needed : -1;
            assert_int_equal(fires_at(&fuse, tokens, MOST), expected);
            if (expected > 0) assert_int_equal(fuse.period, period);
        }
    }
}

/* Lists, tables and refrains: what repeats is broken by what does not before it is long enough. */
static void test_no_loops(void **unused) {
    (void)unused;
    int32_t tokens[MOST];
    for (int every = 2; every < 96; every += 7) { /* one token in so many counts up */
        struct wane__fuse fuse = fuse_of(WANE_FUSE_LOOP);
        for (int i = 0; i < MOST; i++) tokens[i] = i % every == 0 ? 1000 + i : i % every;
        assert_int_equal(fires_at(&fuse, tokens, MOST), -1);
    }
    for (int stretch = 10; stretch < 96; stretch += 17) { /* a row of the same, now and then */
        struct wane__fuse fuse = fuse_of(WANE_FUSE_LOOP);
        for (int i = 0; i < MOST; i++) tokens[i] = i % 100 < stretch ? 7 : 1000 + i;
        assert_int_equal(fires_at(&fuse, tokens, MOST), -1);
    }
    struct wane__fuse fuse = fuse_of(WANE_FUSE_LOOP); /* a refrain of 60, four times, a verse in between */
    for (int i = 0; i < MOST; i++) tokens[i] = i % 150 < 60 ? i % 150 : 1000 + i;
    assert_int_equal(fires_at(&fuse, tokens, MOST), -1);
}

/* The entropies' standard deviation, as the formula has it; one that is not known begins the window anew. */
static void test_spread(void **unused) {
    (void)unused;
    struct wane__fuse fuse = fuse_of(WANE_FUSE_PLAIN);
    const double entropy[] = {0.5, 0.25, 1, 0.75, 2, 0.125, 3, 3, 3, 3, 3, NAN, 1, 1, 1, 1, 1.01};
    int32_t token = 1;
    for (int i = 0; i < 17; i++) {
        double mean = 0, square = 0;
        wane__fuse_see(&fuse, entropy[i]);
        for (int k = 0; k < 5 && i >= 4; k++) mean += entropy[i - k] / 5;
        for (int k = 0; k < 5 && i >= 4; k++) square += (entropy[i - k] - mean) * (entropy[i - k] - mean) / 5;
        if (i < 4 || isnan(mean)) {
            assert_true(isnan(fuse.spread));
        } else {
            assert_true(fabs(fuse.spread - sqrt(square)) < 1e-12);
        }
        assert_int_equal(wane__fuse_take(&fuse, &token, 1), i == 10 || i == 16);
    }
    /* Without end: the ring stays a ring. */
    for (int i = 0; i < 1000; i++) wane__fuse_see(&fuse, i < 998 ? 1 : 2);
    assert_true(fabs(fuse.spread - sqrt(0.24)) < 1e-12);
    fuse = fuse_of(WANE_FUSE_OFF);
    int32_t tokens[MOST] = {0};
    assert_int_equal(fires_at(&fuse, tokens, MOST), -1);
    wane_quality q;
    wane_quality_init(&q); /* in mode OFF whatever it says */
    wane__fuse_init(&fuse, &q);
    assert_int_equal(fuse.rule, WANE_FUSE_OFF);
}

/* A loop whose entropies vary is none yet. */
static void test_both(void **unused) {
    (void)unused;
    struct wane__fuse fuse = fuse_of(WANE_FUSE_LOOP);
    int32_t tokens[MOST] = {0};
    for (int i = 0; i < 300; i++) {
        wane__fuse_see(&fuse, i % 2 == 0 ? 0.2 : 0.3);
        assert_false(wane__fuse_take(&fuse, tokens, i + 1));
    }
    assert_int_equal(fuse.period, 1);
    for (int i = 300; i < 305; i++) {
        wane__fuse_see(&fuse, 0.2);
        assert_int_equal(wane__fuse_take(&fuse, tokens, i + 1), i == 304);
    }
}

/* Pieces that are repeated for a while, changed, taken up again; entropies that lie still for a while, and now and then one that is not known. */
static void make_signal(uint64_t seed, int32_t *tokens, double *entropy) {
    uint64_t at = seed << 20;
    double level = 0;
    int still = 0;
    for (int i = 0; i < MOST;) {
        int period = 1 + (int)(wane__mix64(at++) % (seed % 3 == 0 ? 140 : 30));
        int length = (int)(wane__mix64(at++) % 400);
        for (int k = 0; k < length && i < MOST; k++, i++)
            tokens[i] = k < period || wane__mix64(at++) % 500 == 0 ? (int32_t)(wane__mix64(at++) % 50)
                                                                   : tokens[i - period];
    }
    for (int i = 0; i < MOST; i++) {
        if (still-- <= 0) {
            level = (double)(wane__mix64(at++) % 1000) / 500;
            still = (int)(wane__mix64(at++) % (seed % 2 == 0 ? 8 : 80));
        }
        entropy[i] = level + (double)(wane__mix64(at++) % 1000) / 1000 * 0.1;
        if (wane__mix64(at++) % 300 == 0) entropy[i] = NAN;
    }
}

/* Who gives the fuse only those entropies that it wants sees it fire at the same tokens, with the same figures, as who gives it all. */
static void test_wants(void **unused) {
    (void)unused;
    static const int windows[] = {2, 3, 5, 16, 63, 64};
    int32_t tokens[MOST];
    double entropy[MOST];
    int fired = 0, looked = 0, of = 0;
    for (uint64_t seed = 0; seed < 600; seed++) {
        wane_quality q;
        wane_quality_init(&q);
        q.mode = WANE_MODE_WANE;
        q.fuse = seed % 10 == 9 ? WANE_FUSE_PLAIN : WANE_FUSE_LOOP;
        q.fuse_window = windows[seed % 6];
        struct wane__fuse all, some;
        wane__fuse_init(&all, &q);
        some = all;
        make_signal(seed, tokens, entropy);
        for (int i = 0; i < MOST; i++) { /* and on, behind where it fired */
            bool wants = some.wants;
            wane__fuse_see(&all, entropy[i]);
            wane__fuse_see(&some, wants ? entropy[i] : NAN);
            bool fires = wane__fuse_take(&all, tokens, i + 1);
            assert_int_equal(wane__fuse_take(&some, tokens, i + 1), fires);
            if (fires) assert_true(some.period == all.period && some.spread == all.spread);
            fired += fires;
            if (q.fuse == WANE_FUSE_PLAIN ||
                q.fuse_window == 64) { /* a piece of 32 needs 64 more from the start */
                assert_true(wants);
            } else {
                looked += wants, of++;
            }
        }
    }
    assert_true(fired > 1000);
    assert_true(looked < of / 2);
}

static void test_fallback(void **unused) {
    (void)unused;
    char text[WANE__FALLBACK_BYTES];
    struct wane__fuse fuse = fuse_of(WANE_FUSE_LOOP);
    fuse.period = 12;
    fuse.spread = 0.0042;
    assert_int_equal(wane__fallback_text(&fuse, WANE_FALLBACK_NONE, true, text), 0);
    int size = wane__fallback_text(&fuse, WANE_FALLBACK_CONSERVATIVE, true, text);
    assert_int_equal(size, strlen(text));
    assert_memory_equal(text, "\n\nI cannot", 10);
    wane__fallback_text(&fuse, WANE_FALLBACK_CONSERVATIVE, false, text);
    assert_memory_equal(text, "I cannot", 8);
    size = wane__fallback_text(&fuse, WANE_FALLBACK_TRANSPARENT, true, text);
    assert_int_equal(size, strlen(text));
    assert_non_null(strstr(text, "12 tokens"));
    assert_non_null(strstr(text, "0.0042"));
    fuse.period = 0;
    wane__fallback_text(&fuse, WANE_FALLBACK_TRANSPARENT, true, text);
    assert_non_null(strstr(text, "last 5 tokens"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replays),  cmocka_unit_test(test_no_signal), cmocka_unit_test(test_skip),
        cmocka_unit_test(test_commands), cmocka_unit_test(test_loops),     cmocka_unit_test(test_no_loops),
        cmocka_unit_test(test_spread),   cmocka_unit_test(test_both),      cmocka_unit_test(test_wants),
        cmocka_unit_test(test_fallback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
