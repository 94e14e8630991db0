/*
 * test_rollout.c - rollouts by a script of moments and counts: every step, every bar, restarts, clocks that jump, sides that stay; and
 * the file under two servers and a terminal.
 */
#include "core/error.h"
#include "core/fraction.h"
#include "core/memory.h"
#include "ops/rollout_file.h"
#include "ops/rollout_live.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these before it */
#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/wane-rollout-XXXXXX";
static char path[100];

static const char usual[] = "{\"hold\":100,\"requests\":50,\"wait\":200,\"window\":1000,"
                            "\"features\":{\"table\":{},\"gate\":{\"bars\":{\"hit_rate\":null}}}}";

enum { TABLE = WANE_FEATURE_TABLE, GATE = WANE_FEATURE_GATE, HEAD = WANE_FEATURE_HEAD };

static struct wane__rollout_book book; /* large */

static void parse(const char *text) {
    wane_error error = {0};
    if (wane__rollout_parse(text, strlen(text), &book, &error) != WANE_OK) fail_msg("%s", error.text);
}

static void refuses(const char *text, const char *word) {
    wane_error error = {0};
    assert_int_equal(wane__rollout_parse(text, strlen(text), &book, &error), WANE_EFORMAT);
    if (strstr(error.text, word) == NULL) fail_msg("%s: %s", text, error.text);
}

/* A clock of a test's own. */
static int64_t date;
static const struct wane__evidence none[WANE_FEATURES];

static unsigned turn(double seconds, double really) {
    date += (int64_t)(1000 * seconds);
    const struct wane__moment moment = {date, really};
    return wane__rollout_turn(&book, none, &moment);
}

static void begin(const char *text) {
    date = INT64_C(1790000000000);
    parse(text);
    turn(0, 0);
}

static void act(int action, int feature) {
    unsigned changed;
    wane_error error = {0};
    assert_int_equal(wane__rollout_act(&book, action, feature, date, &changed, &error), WANE_OK);
}

static void cannot(int action, int feature, const char *word) {
    unsigned changed;
    wane_error error = {0};
    assert_int_equal(wane__rollout_act(&book, action, feature, date, &changed, &error), WANE_EINVAL);
    assert_int_equal(changed, 0);
    assert_non_null(strstr(error.text, word));
}

static struct wane__progress *of(int feature) {
    return &book.state.feature[feature];
}

static void is_at(int feature, enum wane__phase phase, int stage) {
    assert_int_equal(of(feature)->phase, phase);
    assert_int_equal(of(feature)->stage, stage);
}

static void see(int feature, uint64_t requests, uint64_t tries, uint64_t hits) {
    const struct wane__evidence more = {.requests = {0, requests}, .tries = tries, .hits = hits};
    wane__evidence_add(&of(feature)->seen, &more);
}

/* Enough of everything. */
static void thrive(int feature) {
    see(feature, 60, 10000, 9000);
}

/* ------------------------------------------------------------------ sides */

/* These never change: users would change sides. */
static void test_hash(void **unused) {
    (void)unused;
    static const struct {
        int feature;
        const char *salt;
        struct wane__subject subject;
        bool request;
        double fraction;
    } vectors[] = {
#include "../vectors/rollout_sides.inc"
    };
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        double x = wane__rollout_fraction(vectors[i].feature, vectors[i].salt, &vectors[i].subject,
                                          vectors[i].request);
        if (x != vectors[i].fraction) fail_msg("vector %zu: %.17g", i, x);
    }
}

static void test_shares(void **unused) {
    (void)unused;
    static const double shares[] = {0.01, 0.05, 0.25, 0.5};
    for (size_t s = 0; s < sizeof shares / sizeof *shares; s++) {
        for (int feature = 0; feature < WANE_FEATURES; feature++) {
            int on = 0;
            for (int i = 0; i < 100000; i++) {
                char name[32];
                snprintf(name, sizeof name, "user-%d", i);
                const struct wane__subject subject = {.user = name, .request = "r"};
                on += wane__rollout_fraction(feature, "", &subject, false) < shares[s];
            }
            double expected = 100000 * shares[s], spread = sqrt(expected * (1 - shares[s]));
            assert_true(fabs(on - expected) < 4.5 * spread);
        }
    }
}

/* Two features' groups have nothing to do with each other, nor have two salts'. */
static void test_shares_are_apart(void **unused) {
    (void)unused;
    int both = 0, salted = 0;
    for (int i = 0; i < 100000; i++) {
        char name[32];
        snprintf(name, sizeof name, "user-%d", i);
        const struct wane__subject subject = {.user = name};
        bool on = wane__rollout_fraction(TABLE, "", &subject, false) < 0.1;
        both += on && wane__rollout_fraction(HEAD, "", &subject, false) < 0.1;
        salted += on && wane__rollout_fraction(TABLE, "again", &subject, false) < 0.1;
    }
    assert_true(abs(both - 1000) < 150 && abs(salted - 1000) < 150);
}

static void test_who_it_is(void **unused) {
    (void)unused;
    const struct wane__subject user = {"u", "k", NULL, "r"}, key = {"", "k", NULL, "r"},
                               nobody = {NULL, "", NULL, "r"}, named_as_key = {"k", NULL, NULL, "r"};
    double of_user = wane__rollout_fraction(TABLE, "", &user, false);
    double of_key = wane__rollout_fraction(TABLE, "", &key, false);
    double of_nobody = wane__rollout_fraction(TABLE, "", &nobody, false);
    assert_true(of_user != of_key && of_key != of_nobody);
    assert_true(wane__rollout_fraction(TABLE, "", &named_as_key, false) != of_key);
    assert_true(of_nobody ==
                wane__rollout_fraction(TABLE, "", &user, true)); /* by request, for want of a name */
    char name[2 * WANE__NAME_BYTES];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    const struct wane__subject longest = {.user = name};
    double x = wane__rollout_fraction(TABLE, "", &longest, false);
    assert_true(x >= 0 && x < 1);
}

static void test_reach(void **unused) {
    (void)unused;
    parse("{\"features\":{\"table\":{\"stages\":[{\"share\":0.2},{\"users\":0.1},{\"lines\":[\"a\",\"b\"]},"
          "{\"users\":0.3},{\"all\":true}]}}}");
    int on[5] = {0};
    for (int i = 0; i < 2000; i++) {
        char name[32], id[32];
        snprintf(name, sizeof name, "user-%d", i);
        snprintf(id, sizeof id, "req-%d", i);
        const struct wane__subject subject = {name, NULL, i % 4 == 0 ? "b" : "c", id};
        bool before = false;
        for (int stage = 0; stage < 5; stage++) {
            bool has = wane__rollout_reaches(&book.plan, TABLE, stage, &subject);
            /* Who has it keeps it, from the shares of users on. */
            if (stage >= 2) assert_true(has || !before);
            before = has;
            on[stage] += has;
        }
        assert_false(wane__rollout_reaches(&book.plan, TABLE, -1, &subject));
    }
    assert_true(on[0] > 320 && on[0] < 480);
    assert_true(on[1] > 140 && on[1] < 260);
    assert_true(on[2] > 580 && on[2] < 720);
    assert_true(on[3] > on[2] && on[3] < 1100);
    assert_int_equal(on[4], 2000);
}

/* ------------------------------------------------------------------ steps */

static void test_whole_way(void **unused) {
    (void)unused;
    begin(usual);
    is_at(TABLE, WANE__PHASE_PLANNED, -1);
    turn(1000, 1000);
    is_at(TABLE, WANE__PHASE_PLANNED, -1);
    cannot(WANE_ROLLOUT_ADVANCE, TABLE, "not started");
    cannot(WANE_ROLLOUT_BACK, TABLE, "nobody");
    cannot(WANE_ROLLOUT_START, HEAD, "does not name");
    act(WANE_ROLLOUT_START, TABLE);
    is_at(TABLE, WANE__PHASE_RUNNING, 0);
    is_at(GATE, WANE__PHASE_PLANNED, -1);
    cannot(WANE_ROLLOUT_START, TABLE, "already");
    for (int stage = 0; stage < 4; stage++) {
        is_at(TABLE, WANE__PHASE_RUNNING, stage);
        assert_int_equal(of(TABLE)->held, 0);
        thrive(TABLE);
        assert_int_equal(turn(99, 99), 0); /* not long enough */
        is_at(TABLE, WANE__PHASE_RUNNING, stage);
        assert_int_equal(turn(1.5, 1.5), 1u << TABLE);
    }
    is_at(TABLE, WANE__PHASE_DONE, 3);
    assert_int_equal(of(TABLE)->forward, 5);
    cannot(WANE_ROLLOUT_ADVANCE, TABLE, "done");
    act(WANE_ROLLOUT_ABORT, TABLE);
    is_at(TABLE, WANE__PHASE_ABORTED, -1);
    cannot(WANE_ROLLOUT_ABORT, TABLE, "already");
    cannot(WANE_ROLLOUT_ADVANCE, TABLE, "start it anew");
    turn(100000, 100000);
    is_at(TABLE, WANE__PHASE_ABORTED, -1);
    act(WANE_ROLLOUT_START, TABLE);
    is_at(TABLE, WANE__PHASE_RUNNING, 0);
    assert_int_equal(of(TABLE)->backward, 1);
}

static void waits_for(int feature, const char *word) {
    char why[200];
    wane__rollout_waits(&book, feature, why, sizeof why);
    if (strstr(why, word) == NULL || (word[0] == '\0' && why[0] != '\0')) fail_msg("\"%s\": %s", word, why);
}

static void test_what_it_waits_for(void **unused) {
    (void)unused;
    begin(usual);
    act(WANE_ROLLOUT_START, TABLE);
    waits_for(TABLE, "0 of 100 s");
    turn(150, 150);
    is_at(TABLE, WANE__PHASE_RUNNING, 0);
    waits_for(TABLE, "0 of 50 requests");
    see(TABLE, 50, 0, 0);
    waits_for(TABLE, "hit_rate is not known");
    see(TABLE, 0, 100, 84);
    waits_for(TABLE, "hit_rate is 0.84");
    see(TABLE, 0, 10, 10);
    waits_for(TABLE, ""); /* under EXACT a table's divergence is not compared, and not waited for */
    book.state.compared = 1u << TABLE;
    waits_for(TABLE, "divergence is not known");
    of(TABLE)->seen.checks = 10;
    waits_for(TABLE, "");
    assert_int_equal(turn(1, 1), 1u << TABLE);
    is_at(TABLE, WANE__PHASE_RUNNING, 1);
}

/* Without a bar for hits, time and requests are all. */
static void test_no_bar(void **unused) {
    (void)unused;
    begin(usual);
    act(WANE_ROLLOUT_START, GATE);
    see(GATE, 60, 1000, 1);
    assert_int_equal(turn(101, 101), 1u << GATE);
    is_at(GATE, WANE__PHASE_RUNNING, 1);
}

static void test_by_hand(void **unused) {
    (void)unused;
    begin("{\"auto\":false,\"hold\":0,\"requests\":0,\"wait\":10,\"features\":{\"table\":{},\"head\":{}}}");
    act(WANE_ROLLOUT_START, -1);
    is_at(TABLE, WANE__PHASE_RUNNING, 0);
    is_at(HEAD, WANE__PHASE_RUNNING, 0);
    thrive(TABLE);
    assert_int_equal(turn(1000, 1000), 0);
    waits_for(TABLE, "by hand");
    act(WANE_ROLLOUT_ADVANCE, TABLE); /* whatever the bars say */
    is_at(TABLE, WANE__PHASE_RUNNING, 1);
    assert_int_equal(of(TABLE)->seen.tries, 0);
    see(TABLE, 60, 1000, 100);
    assert_int_equal(turn(1, 1), 1u << TABLE); /* back by itself all the same */
    is_at(TABLE, WANE__PHASE_BACK, 0);
    turn(1000, 1000);
    is_at(TABLE, WANE__PHASE_BACK, 0);
    act(WANE_ROLLOUT_ADVANCE, TABLE);
    is_at(TABLE, WANE__PHASE_RUNNING, 1);
    act(WANE_ROLLOUT_BACK, TABLE);
    is_at(TABLE, WANE__PHASE_BACK, 0);
    act(WANE_ROLLOUT_BACK, TABLE);
    is_at(TABLE, WANE__PHASE_BACK, -1);
    cannot(WANE_ROLLOUT_BACK, TABLE, "nobody");
    assert_int_equal(of(TABLE)->backs, 1); /* a person's steps are no failures */
}

static void test_back_and_again(void **unused) {
    (void)unused;
    begin(usual);
    act(WANE_ROLLOUT_START, TABLE);
    act(WANE_ROLLOUT_ADVANCE, TABLE);
    act(WANE_ROLLOUT_ADVANCE, TABLE);
    is_at(TABLE, WANE__PHASE_RUNNING, 2);
    see(TABLE, 60, 1000, 600);
    assert_int_equal(turn(1, 1), 1u << TABLE);
    is_at(TABLE, WANE__PHASE_BACK, 1);
    assert_non_null(strstr(of(TABLE)->why, "hit_rate is 0.6"));
    assert_int_equal(turn(199, 199), 0);
    waits_for(TABLE, "199 of 200 s");
    assert_int_equal(turn(2, 2), 1u << TABLE); /* tried again, one stage lower */
    is_at(TABLE, WANE__PHASE_RUNNING, 1);
    thrive(TABLE);
    assert_int_equal(turn(101, 101), 1u << TABLE);
    is_at(TABLE, WANE__PHASE_RUNNING, 2);
    /* While it waits, it can step back further. */
    see(TABLE, 60, 1000, 600);
    turn(1, 1);
    is_at(TABLE, WANE__PHASE_BACK, 1);
    see(TABLE, 60, 1000, 600);
    turn(1, 1);
    /* That was the third time. */
    is_at(TABLE, WANE__PHASE_ABORTED, -1);
    assert_non_null(strstr(of(TABLE)->why, "step back 3 of 3"));
    act(WANE_ROLLOUT_START, TABLE);
    assert_int_equal(of(TABLE)->backs, 0);
    see(TABLE, 60, 1000, 600);
    turn(1, 1);
    is_at(TABLE, WANE__PHASE_BACK, -1); /* from the first stage: nobody has it */
    turn(201, 201);
    is_at(TABLE, WANE__PHASE_RUNNING, 0);
}

/* A rollout that is done goes on being watched. */
static void test_back_when_done(void **unused) {
    (void)unused;
    begin("{\"hold\":0,\"requests\":0,\"backs\":0,\"features\":{\"table\":{\"stages\":[{\"all\":true}]}}}");
    act(WANE_ROLLOUT_START, TABLE);
    thrive(TABLE);
    turn(1, 1);
    is_at(TABLE, WANE__PHASE_DONE, 0);
    see(TABLE, 60, 1000, 500);
    turn(1, 1);
    is_at(TABLE, WANE__PHASE_BACK, -1);
}

/* What is recent counts by itself: a long good time does not hide a fault that has just begun. */
static void test_recent(void **unused) {
    (void)unused;
    begin(usual);
    act(WANE_ROLLOUT_START, TABLE);
    see(TABLE, 10, 1000000, 990000);
    struct wane__evidence recent[WANE_FEATURES] = {[WANE_FEATURE_TABLE] = {.tries = 1000, .hits = 700}};
    const struct wane__moment moment = {date + 1000, 1};
    assert_int_equal(wane__rollout_turn(&book, recent, &moment), 1u << TABLE);
    is_at(TABLE, WANE__PHASE_BACK, -1);
}

static void test_break(void **unused) {
    (void)unused;
    begin(usual);
    assert_false(wane__rollout_step_back(&book, TABLE, date, "a breaker"));
    assert_false(wane__rollout_step_back(&book, HEAD, date, "a breaker"));
    act(WANE_ROLLOUT_START, TABLE);
    act(WANE_ROLLOUT_ADVANCE, TABLE);
    assert_true(wane__rollout_step_back(&book, TABLE, date,
                                        "a br\xc3\xa9"
                                        "aker\nfired"));
    is_at(TABLE, WANE__PHASE_BACK, 0);
    assert_string_equal(of(TABLE)->why, "a br??aker fired"); /* it goes into headers and logs */
}

/* ------------------------------------------------------------------ bars */

static struct wane__measure measure(enum wane__bar bar, const struct wane__evidence *seen) {
    return wane__rollout_measure(&book.plan.feature[TABLE], bar, seen, true);
}

static void test_bars(void **unused) {
    (void)unused;
    parse("{\"features\":{\"table\":{\"bars\":{\"consistency\":0.8}}}}");
    struct wane__evidence e = {0};
    for (int b = 0; b < WANE__BARS; b++) {
        assert_int_equal(measure((enum wane__bar)b, &e).verdict, WANE__BAR_UNKNOWN);
        assert_true(isnan(measure((enum wane__bar)b, &e).value));
    }
    /* 8 of 10 may be chance, 800 of 1,000 cannot. Bounds: Wilson, z = 3, worked out by hand. */
    e.tries = 10, e.hits = 8;
    assert_int_equal(measure(WANE__BAR_HIT_RATE, &e).verdict, WANE__BAR_SHORT);
    e.tries = 1000, e.hits = 800;
    struct wane__measure m = measure(WANE__BAR_HIT_RATE, &e);
    assert_int_equal(m.verdict, WANE__BAR_BROKEN);
    assert_true(fabs(m.low - 0.759452) < 1e-5 && fabs(m.high - 0.835196) < 1e-5);
    e.hits = 850;
    assert_int_equal(measure(WANE__BAR_HIT_RATE, &e).verdict, WANE__BAR_HOLDS);
    /* One divergence: in 1,000 checks it is too much, in 100,000 it may be chance, in 200,000 it is within the bar. */
    e.checks = 1000, e.divergences = 1;
    assert_int_equal(measure(WANE__BAR_DIVERGENCE, &e).verdict, WANE__BAR_BROKEN);
    e.checks = 99000;
    assert_int_equal(measure(WANE__BAR_DIVERGENCE, &e).verdict, WANE__BAR_SHORT);
    e.checks = 200000;
    assert_int_equal(measure(WANE__BAR_DIVERGENCE, &e).verdict, WANE__BAR_HOLDS);
    e.checks = 5, e.divergences = 0;
    assert_int_equal(measure(WANE__BAR_DIVERGENCE, &e).verdict, WANE__BAR_HOLDS);
    assert_int_equal(
        wane__rollout_measure(&book.plan.feature[TABLE], WANE__BAR_DIVERGENCE, &e, false).verdict,
        WANE__BAR_NONE);
}

static void add_scores(struct wane__evidence *e, int side, int count, double score, double swing) {
    for (int i = 0; i < count; i++) {
        double s = score + (i % 2 == 0 ? swing : -swing);
        e->repeats[side]++;
        e->score[side] += s;
        e->square[side] += s * s;
    }
}

static void test_consistency(void **unused) {
    (void)unused;
    parse("{\"features\":{\"table\":{\"bars\":{\"consistency\":0.8}}}}");
    struct wane__evidence e = {0};
    add_scores(&e, 1, 19, 0.1, 0);
    assert_int_equal(measure(WANE__BAR_CONSISTENCY, &e).verdict, WANE__BAR_UNKNOWN); /* too few */
    add_scores(&e, 1, 1, 0.1, 0);
    assert_int_equal(measure(WANE__BAR_CONSISTENCY, &e).verdict, WANE__BAR_BROKEN);
    e = (struct wane__evidence){0};
    add_scores(&e, 1, 20, 0.75, 0.2); /* three standard errors are 0.14 */
    struct wane__measure m = measure(WANE__BAR_CONSISTENCY, &e);
    assert_int_equal(m.verdict, WANE__BAR_SHORT);
    assert_true(fabs(m.value - 0.75) < 1e-12 && m.high > 0.8 && m.high < 0.9);
    /* Against the other side. */
    assert_int_equal(measure(WANE__BAR_DROP, &e).verdict, WANE__BAR_UNKNOWN);
    add_scores(&e, 0, 400, 0.8, 0.1);
    m = measure(WANE__BAR_DROP, &e);
    assert_true(fabs(m.value - 0.05) < 1e-12);
    assert_int_equal(m.verdict, WANE__BAR_HOLDS);
    e = (struct wane__evidence){0};
    add_scores(&e, 1, 400, 0.6, 0.1);
    add_scores(&e, 0, 400, 0.8, 0.1);
    assert_int_equal(measure(WANE__BAR_DROP, &e).verdict, WANE__BAR_BROKEN);
}

/* ------------------------------------------------------------------ clocks */

static void test_clock_jumps(void **unused) {
    (void)unused;
    begin(usual);
    act(WANE_ROLLOUT_START, TABLE);
    thrive(TABLE);
    turn(10, 10);
    assert_int_equal(of(TABLE)->held, 10);
    turn(3600, 10); /* forward by an hour: ten seconds have passed */
    assert_int_equal(of(TABLE)->held, 20);
    turn(-7200, 10); /* back by two: nothing is known to have passed */
    assert_int_equal(of(TABLE)->held, 20);
    turn(10, 10); /* and from there on as ever, though the step's date lies ahead */
    assert_int_equal(of(TABLE)->held, 30);
    turn(5, 10); /* the date is the slower one */
    assert_int_equal(of(TABLE)->held, 35);
    turn(1e9, 0);
    assert_int_equal(of(TABLE)->held, 35);
    is_at(TABLE, WANE__PHASE_RUNNING, 0);
    date = -5; /* a clock before 1970 */
    turn(0, 10);
    assert_int_equal(of(TABLE)->held, 35);
    turn(5, 10);
    turn(10, 10);
    assert_true(of(TABLE)->held <= 45);
}

/* Time before a step does not count for the stage behind it. */
static void test_time_of_a_stage(void **unused) {
    (void)unused;
    begin(usual);
    act(WANE_ROLLOUT_START, TABLE);
    turn(50, 50);
    date += 8000;
    act(WANE_ROLLOUT_ADVANCE, TABLE);
    turn(2, 10);
    assert_int_equal(of(TABLE)->held, 2);
}

/* ------------------------------------------------------------------ texts */

static void test_restart(void **unused) {
    (void)unused;
    begin(usual);
    act(WANE_ROLLOUT_START, TABLE);
    act(WANE_ROLLOUT_ADVANCE, TABLE);
    thrive(TABLE);
    add_scores(&of(TABLE)->seen, 1, 7, 0.3, 0.1);
    turn(60.25, 60.25);
    book.state.revision = 7;
    char *text = wane__rollout_text(&book);
    memset(&book, 0x55, sizeof book);
    parse(text);
    char *again = wane__rollout_text(&book);
    assert_string_equal(text, again);
    is_at(TABLE, WANE__PHASE_RUNNING, 1);
    assert_true(of(TABLE)->held == 60.25);
    assert_int_equal(of(TABLE)->seen.tries, 10000);
    turn(3600, 0); /* a process that has just begun knows nothing of the hour before */
    assert_true(of(TABLE)->held == 60.25);
    assert_int_equal(turn(40, 40), 1u << TABLE);
    is_at(TABLE, WANE__PHASE_RUNNING, 2);
    wane__free(text);
    wane__free(again);
}

static void test_refuses(void **unused) {
    (void)unused;
    refuses("", "JSON");
    refuses("[]", "object");
    refuses("{}", "features");
    refuses("{\"features\":{}}", "at least one");
    refuses("{\"features\":{\"heap\":{}}}", "features.heap");
    refuses("{\"features\":{\"head\":{}},\"bars\":1}", "bars: there is no such field");
    refuses("{\"features\":{\"head\":{}},\"hold\":-1}", "hold");
    refuses("{\"features\":{\"head\":{}},\"hold\":1e99}", "hold");
    refuses("{\"features\":{\"head\":{}},\"requests\":1.5}", "requests");
    refuses("{\"features\":{\"head\":{}},\"auto\":1}", "true or false");
    refuses("{\"features\":{\"head\":{}},\"salt\":\"a\\u0007\"}", "salt");
    refuses("{\"features\":{\"head\":{\"stages\":[]}}}", "1 to 16");
    refuses("{\"features\":{\"head\":{\"stages\":[{}]}}}", "stages[0]");
    refuses("{\"features\":{\"head\":{\"stages\":[{\"share\":0.1,\"all\":true}]}}}", "one of");
    refuses("{\"features\":{\"head\":{\"stages\":[{\"share\":0}]}}}", "share");
    refuses("{\"features\":{\"head\":{\"stages\":[{\"lines\":[]}]}}}", "lines");
    refuses("{\"features\":{\"head\":{\"stages\":[{\"lines\":[\"\"]}]}}}", "lines");
    refuses("{\"features\":{\"head\":{\"stages\":[{\"all\":false}]}}}", "all");
    refuses("{\"features\":{\"head\":{\"stages\":[{\"all\":true},{\"users\":0.5}]}}}", "all is the last");
    refuses("{\"features\":{\"head\":{\"stages\":[{\"users\":0.5},{\"users\":0.4}]}}}", "rise");
    refuses("{\"features\":{\"head\":{\"stages\":[{\"users\":0.5},{\"share\":0.9}]}}}", "come first");
    refuses("{\"features\":{\"head\":{\"bars\":{\"hitrate\":0.5}}}}", "hitrate");
    refuses("{\"features\":{\"head\":{\"bars\":{\"hit_rate\":2}}}}", "hit_rate");
    refuses("{\"wane_rollout\":2,\"plan\":{}}", "form");
    refuses("{\"features\":{\"head\":{},\"head\":{}}}", "JSON");
    static const char state[] =
        "{\"wane_rollout\":1,\"plan\":{\"features\":{\"head\":{}}},\"state\":{\"features\":{%s}}}";
    static const char *const states[][2] = {
        {"\"table\":{}", "a feature of the plan"},
        {"\"head\":{\"phase\":\"running\",\"stage\":0}", "goes with the phase"},
        {"\"head\":{\"phase\":\"running\",\"stage\":5}", "stage"},
        {"\"head\":{\"phase\":\"done\",\"stage\":1}", "goes with the phase"},
        {"\"head\":{\"phase\":\"back\",\"stage\":4}", "goes with the phase"},
        {"\"head\":{\"phase\":\"aborted\",\"stage\":1}", "goes with the phase"},
        {"\"head\":{\"phase\":\"walking\"}", "phase"},
        {"\"head\":{\"phase\":\"planned\",\"seen\":{\"tries\":1,\"hits\":2}}", "at most tries"},
        {"\"head\":{\"phase\":\"planned\",\"seen\":{\"checks\":1,\"divergences\":2}}", "at most checks"},
        {"\"head\":{\"phase\":\"planned\",\"seen\":{\"score_on\":2}}", "score_on"},
        {"\"head\":{\"phase\":\"planned\",\"why\":7}", "why"},
    };
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        char text[500];
        snprintf(text, sizeof text, state, states[i][0]);
        refuses(text, states[i][1]);
    }
}

static void test_another_plan(void **unused) {
    (void)unused;
    static struct wane__rollout_book before;
    begin(usual);
    act(WANE_ROLLOUT_START, -1);
    act(WANE_ROLLOUT_ADVANCE, -1);
    before = book;
    parse("{\"hold\":100,\"requests\":50,\"features\":{\"table\":{},\"gate\":{},\"draft\":{}}}");
    wane__rollout_keep(&before, &book);
    is_at(TABLE, WANE__PHASE_RUNNING, 1); /* its part of the plan is the same */
    is_at(GATE, WANE__PHASE_PLANNED, -1); /* it has a bar now */
    assert_int_equal(of(GATE)->forward, 2);
    is_at(WANE_FEATURE_DRAFT, WANE__PHASE_PLANNED, -1);
    parse("{\"hold\":100,\"requests\":50,\"salt\":\"x\",\"features\":{\"table\":{}}}");
    wane__rollout_keep(&before, &book);
    is_at(TABLE, WANE__PHASE_PLANNED, -1); /* others would be on its side */
}

static void test_wish(void **unused) {
    (void)unused;
    static struct wane__plan plan;
    wane_rollout_wish wish;
    wane_error error = {0};
    wane_rollout_wish_init(&wish);
    assert_int_equal(wane__rollout_wish(&wish, &plan, &error), WANE_EINVAL);
    static const char *const lines[] = {"support", "sales"};
    static const double users[] = {0.1, 0.2, 0.4};
    wish.features = 1u << HEAD | 1u << WANE_FEATURE_DRAFT;
    wish.users = users;
    wish.user_count = 3;
    wish.lines = lines;
    wish.line_count = 2;
    assert_int_equal(wane__rollout_wish(&wish, &plan, &error), WANE_OK);
    assert_int_equal(wane__rollout_listed(&plan), wish.features);
    const struct wane__plan_feature *f = &plan.feature[HEAD];
    assert_int_equal(f->stage_count, 6);
    assert_int_equal(f->stage[0].kind, WANE__STAGE_SHARE);
    assert_true(f->stage[3].share == 0.4);
    assert_string_equal(f->stage[4].line[1], "sales");
    assert_int_equal(f->stage[5].kind, WANE__STAGE_ALL);
    assert_true(f->bar[WANE__BAR_HIT_RATE] == 0.85);
    assert_true(isnan(plan.feature[WANE_FEATURE_DRAFT].bar[WANE__BAR_HIT_RATE]));
    assert_true(plan.automatic && plan.wait == 3600);
    wish.user_count = 2;
    wish.users = (const double[]){0.4, 0.2};
    assert_int_equal(wane__rollout_wish(&wish, &plan, &error), WANE_EINVAL);
    assert_non_null(strstr(error.text, "rise"));
    wish.user_count = 0;
    wish.hold = -1;
    assert_int_equal(wane__rollout_wish(&wish, &plan, &error), WANE_EINVAL);
}

/* ------------------------------------------------------------------ the file */

static void write_plan(const char *text) {
    wane_error error = {0};
    if (wane_rollout_plan(path, text, strlen(text), NULL, true, NULL, &error) != WANE_OK)
        fail_msg("%s", error.text);
}

static void load(void) {
    wane_error error = {0};
    if (wane__rollout_load(path, &book, &error) != WANE_OK) fail_msg("%s", error.text);
}

static struct wane__rollout *open_live(void) {
    struct wane__rollout *r;
    wane_error error = {0};
    if (wane__rollout_open(path, NULL, NULL, &r, &error) != WANE_OK) fail_msg("%s", error.text);
    return r;
}

static const char quick[] =
    "{\"hold\":5,\"requests\":3,\"wait\":7,\"backs\":0,\"features\":{\"table\":{\"stages\":"
    "[{\"users\":0.5},{\"all\":true}]},\"head\":{}}}";

static void ask(struct wane__rollout *r, int count) {
    for (int i = 0; i < count; i++) {
        struct wane__rollout_side side;
        char name[20];
        snprintf(name, sizeof name, "u%d", i);
        const struct wane__subject subject = {.user = name, .request = "x"};
        wane__rollout_take(r, &subject, 0, &side);
        wane__rollout_count(r, &side, WANE_FEATURES_ALL);
    }
}

static void feed(struct wane__rollout *r, uint64_t tries, uint64_t hits) {
    const struct wane__rollout_counts counts[WANE_FEATURES] = {
        [WANE_FEATURE_TABLE] = {.tries = tries, .hits = hits}};
    wane__rollout_feed(r, counts, 0);
}

static struct wane__rollout_figures figures(struct wane__rollout *r) {
    struct wane__rollout_figures f;
    wane__rollout_get_figures(r, &f);
    return f;
}

static int heard_back;
static void on_step(void *user, int feature, bool forward, const char *why) {
    assert_int_equal(feature, TABLE);
    assert_true(why[0] != '\0');
    heard_back += !forward;
    ++*(int *)user;
}

/* By itself through its stages, with a clock of the test's; and a file that another process could go on with at each moment. */
static void test_live(void **unused) {
    (void)unused;
    int heard = 0;
    write_plan(quick);
    struct wane__rollout *r = open_live();
    wane__rollout_listen(r, on_step, &heard);
    int64_t when = INT64_C(1790000000000);
    double now = 1000;
    wane_error error = {0};
    bool kept = false;
    wane__rollout_tick(r, when, now);
    assert_int_equal(wane__rollout_order(r, WANE_ROLLOUT_START, TABLE, &kept, &error), WANE_OK);
    assert_true(kept);
    load();
    is_at(TABLE, WANE__PHASE_RUNNING, 0);
    ask(r, 40);
    feed(r, 1000, 990);
    struct wane__rollout_figures f = figures(r);
    assert_int_equal(f.stage[TABLE], 1);
    assert_int_equal(f.requests[TABLE][0] + f.requests[TABLE][1], 40);
    assert_true(f.requests[TABLE][1] > 8 && f.requests[TABLE][1] < 32);
    assert_int_equal(f.requests[HEAD][0], 40); /* planned: nobody has it */
    assert_true(f.value[TABLE][WANE__BAR_HIT_RATE] == 0.99);
    for (int i = 0; i < 40; i++) wane__rollout_tick(r, when += 1000, now += 1);
    f = figures(r);
    load();
    assert_true(of(TABLE)->stage >= 0);
    ask(r, 5);
    feed(r, 2000, 1980);
    for (int i = 0; i < 20; i++) wane__rollout_tick(r, when += 1000, now += 1);
    load();
    is_at(TABLE, WANE__PHASE_DONE, 1);
    assert_int_equal(heard, 3);
    feed(r, 3000, 2000); /* only 20 of the last thousand */
    wane__rollout_tick(r, when += 1000, now += 1);
    assert_int_equal(figures(r).phase[TABLE], WANE__PHASE_BACK);
    assert_int_equal(heard_back, 1);
    load();
    is_at(TABLE, WANE__PHASE_BACK, 0);
    wane__rollout_close(r);
}

/* The same user is on the same side in two servers, and in one that was started again; a step reaches both. */
static void test_two_servers(void **unused) {
    (void)unused;
    write_plan(quick);
    wane_error error = {0};
    assert_int_equal(wane_rollout_do(path, WANE_ROLLOUT_START, TABLE, NULL, &error), WANE_OK);
    struct wane__rollout *a = open_live(), *b = open_live();
    int on = 0;
    for (int i = 0; i < 1000; i++) {
        struct wane__rollout_side x, y;
        char name[20];
        snprintf(name, sizeof name, "user %d", i);
        const struct wane__subject at_a = {.user = name, .request = "1"},
                                   at_b = {.user = name, .request = "2"};
        wane__rollout_take(a, &at_a, 0, &x);
        wane__rollout_take(b, &at_b, 0, &y);
        assert_int_equal(x.on, y.on);
        assert_string_equal(x.header, y.header);
        on += (x.on & 1u << TABLE) != 0;
        if (i == 500) {
            wane__rollout_close(b);
            b = open_live();
        }
    }
    assert_true(on > 420 && on < 580);
    /* What both have seen is added up, and time is counted once. */
    int64_t when = INT64_C(1790000000000);
    double now = 50;
    wane__rollout_tick(a, when, now);
    wane__rollout_tick(b, when, now);
    feed(a, 100, 90);
    feed(b, 300, 290);
    for (int i = 0; i < 24; i++) {
        when += 500;
        now += 0.5;
        wane__rollout_tick(i % 2 == 0 ? a : b, when, now);
    }
    load();
    assert_int_equal(of(TABLE)->seen.tries, 400);
    assert_int_equal(of(TABLE)->seen.hits, 380);
    assert_true(of(TABLE)->held > 5 && of(TABLE)->held <= 12.01);
    assert_int_equal(wane_rollout_do(path, WANE_ROLLOUT_ADVANCE, TABLE, NULL, &error), WANE_OK);
    wane__rollout_tick(a, when += 1000, now += 1);
    wane__rollout_tick(b, when, now);
    assert_int_equal(figures(a).stage[TABLE], 2);
    assert_int_equal(figures(b).stage[TABLE], 2);
    wane__rollout_close(a);
    wane__rollout_close(b);
}

/* A breaker is in force at once, and wins against what somebody else writes meanwhile. */
static void test_live_break(void **unused) {
    (void)unused;
    write_plan(quick);
    wane_error error = {0};
    wane_rollout_do(path, WANE_ROLLOUT_START, TABLE, NULL, &error);
    wane_rollout_do(path, WANE_ROLLOUT_ADVANCE, TABLE, NULL, &error);
    struct wane__rollout *r = open_live();
    assert_false(wane__rollout_break(r, HEAD, "not there"));
    assert_false(wane__rollout_break(r, -1, "no feature"));
    assert_true(wane__rollout_break(r, TABLE, "three divergences"));
    assert_int_equal(figures(r).stage[TABLE], 1);
    assert_false(figures(r).kept);
    wane_rollout_do(path, WANE_ROLLOUT_START, HEAD, NULL,
                    &error); /* another program, which knows nothing of it */
    wane__rollout_tick(r, INT64_C(1790000000000), 10);
    load();
    is_at(TABLE, WANE__PHASE_BACK, 0);
    is_at(HEAD, WANE__PHASE_RUNNING, 0);
    assert_string_equal(of(TABLE)->why, "three divergences");
    assert_true(figures(r).kept);
    struct wane__rollout_side side;
    const struct wane__subject subject = {.user = "x", .request = "y"};
    wane__rollout_take(r, &subject, 1u << TABLE, &side);
    assert_int_equal(side.on & 1u << TABLE, 0);
    assert_non_null(strstr(side.header, "table=off;stage=1;breaker"));
    wane__rollout_close(r);
}

/* A file that cannot be written, was damaged or taken away: what is in force stays in force, and is written when it can be. */
static void test_file_faults(void **unused) {
    (void)unused;
    write_plan(quick);
    wane_error error = {0};
    struct wane__rollout *r = open_live();
    wane__rollout_tick(r, INT64_C(1790000000000), 10);
    FILE *file = fopen(path, "w");
    fputs("{", file);
    fclose(file);
    bool kept = true;
    assert_int_equal(wane__rollout_order(r, WANE_ROLLOUT_START, TABLE, &kept, &error), WANE_OK);
    assert_false(kept);
    assert_non_null(strstr(error.text, "JSON"));
    wane__rollout_tick(r, INT64_C(1790000001000), 11);
    assert_int_equal(figures(r).phase[TABLE], WANE__PHASE_RUNNING);
    assert_true(figures(r).failures >= 2 && !figures(r).kept);
    char *text;
    size_t size;
    file = fopen(path, "r");
    assert_int_equal(fgetc(file), '{'); /* left for people to look at */
    assert_int_equal(fgetc(file), EOF);
    fclose(file);
    unlink(path);
    wane__rollout_tick(r, INT64_C(1790000002000), 12);
    assert_true(figures(r).kept);
    load();
    is_at(TABLE, WANE__PHASE_RUNNING, 0);
    /* The folder is gone: there is no place for a lock. */
    char away[120];
    snprintf(away, sizeof away, "%s.away", folder);
    assert_int_equal(rename(folder, away), 0);
    assert_true(wane__rollout_break(r, TABLE, "fired"));
    wane__rollout_tick(r, INT64_C(1790000003000), 13);
    assert_false(figures(r).kept);
    assert_int_equal(figures(r).stage[TABLE], 0);
    text = wane__rollout_show(r);
    assert_non_null(strstr(text, "\"phase\":\"back\""));
    wane__free(text);
    assert_int_equal(rename(away, folder), 0);
    wane__rollout_tick(r, INT64_C(1790000004000), 14);
    assert_true(figures(r).kept);
    (void)size;
    wane__rollout_close(r);
    load();
    is_at(TABLE, WANE__PHASE_BACK, -1);
}

static void test_no_file(void **unused) {
    (void)unused;
    struct wane__rollout *r;
    wane_error error = {0};
    wane_rollout_wish wish;
    char *json;
    unlink(path);
    wane_rollout_wish_init(&wish);
    assert_int_equal(wane__rollout_open(path, NULL, NULL, &r, &error), WANE_ENOENT);
    assert_int_equal(wane__rollout_open(path, &wish, NULL, &r, &error), WANE_ENOENT);
    assert_int_equal(wane_rollout_read(path, &json, &error), WANE_ENOENT);
    assert_int_equal(wane_rollout_do(path, WANE_ROLLOUT_START, -1, &json, &error), WANE_ENOENT);
    wish.features = 1u << TABLE;
    assert_int_equal(wane__rollout_open(path, &wish, NULL, &r, &error), WANE_OK);
    wane__rollout_close(r);
    assert_int_equal(wane_rollout_read(path, &json, &error), WANE_OK);
    assert_non_null(strstr(json, "\"planned\""));
    free(json);
}

/* Whoever takes steps at once: none is lost, and the file is whole at each moment. */
static void *step_often(void *user) {
    (void)user;
    wane_error error;
    for (int i = 0; i < 25; i++) {
        wane_rollout_do(path, WANE_ROLLOUT_ABORT, TABLE, NULL, &error);
        wane_rollout_do(path, WANE_ROLLOUT_START, TABLE, NULL, &error);
    }
    return NULL;
}

static void test_at_once(void **unused) {
    (void)unused;
    pthread_t thread[2];
    struct wane__rollout_book *seen = wane__alloc_zero(1, sizeof *seen);
    wane_error error = {0};
    write_plan(quick);
    wane_rollout_do(path, WANE_ROLLOUT_START, TABLE, NULL, &error);
    struct wane__rollout *r = open_live();
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&thread[i], NULL, step_often, NULL), 0);
    for (int i = 0; i < 30; i++) {
        wane__rollout_tick(r, INT64_C(1790000000000) + 1000 * i, 10 + i);
        ask(r, 3);
        if (wane__rollout_load(path, seen, &error) != WANE_OK) fail_msg("%s", error.text);
    }
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    wane__rollout_close(r);
    load();
    /* Each step was a change of its own: those that came too late were refused, and count nowhere. */
    assert_true(of(TABLE)->forward + of(TABLE)->backward <= 101);
    uint64_t apart = of(TABLE)->forward - of(TABLE)->backward;
    assert_true(apart <= 1);
    wane__free(seen);
}

static void test_names(void **unused) {
    (void)unused;
    unsigned features;
    wane_error error = {0};
    for (int i = 0; i < WANE_FEATURES; i++) assert_int_equal(wane_feature_from(wane_feature_name(i)), i);
    for (int i = 0; i < WANE_ROLLOUT_ACTIONS; i++)
        assert_int_equal(wane_rollout_action_from(wane_rollout_action_name(i)), i);
    assert_string_equal(wane_feature_name(WANE_FEATURES), "?");
    assert_string_equal(wane_rollout_action_name(-1), "?");
    assert_int_equal(wane_feature_from("heads"), -1);
    assert_int_equal(wane_rollout_action_from(NULL), -1);
    assert_int_equal(wane_features_from("", &features, &error), WANE_OK);
    assert_int_equal(features, 0);
    assert_int_equal(wane_features_from("all", &features, &error), WANE_OK);
    assert_int_equal(features, WANE_FEATURES_ALL);
    assert_int_equal(wane_features_from("head,gate", &features, &error), WANE_OK);
    assert_int_equal(features, 1u << HEAD | 1u << GATE);
    static const char *const wrong[] = {",", "head,", ",head", "head,,gate", "all,head", "Head"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(wane_features_from(wrong[i], &features, &error), WANE_EINVAL);
        assert_int_equal(features, 0);
    }
}

static int make_folder(void **unused) {
    (void)unused;
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(path, sizeof path, "%s/rollout.json", folder);
    return 0;
}

static int remove_folder(void **unused) {
    (void)unused;
    char lock[120];
    snprintf(lock, sizeof lock, "%s.lock", path);
    unlink(path);
    unlink(lock);
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),          cmocka_unit_test(test_hash),
        cmocka_unit_test(test_shares),         cmocka_unit_test(test_shares_are_apart),
        cmocka_unit_test(test_who_it_is),      cmocka_unit_test(test_reach),
        cmocka_unit_test(test_whole_way),      cmocka_unit_test(test_what_it_waits_for),
        cmocka_unit_test(test_no_bar),         cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_back_and_again), cmocka_unit_test(test_back_when_done),
        cmocka_unit_test(test_recent),         cmocka_unit_test(test_break),
        cmocka_unit_test(test_bars),           cmocka_unit_test(test_consistency),
        cmocka_unit_test(test_clock_jumps),    cmocka_unit_test(test_time_of_a_stage),
        cmocka_unit_test(test_restart),        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_another_plan),   cmocka_unit_test(test_wish),
        cmocka_unit_test(test_live),           cmocka_unit_test(test_two_servers),
        cmocka_unit_test(test_live_break),     cmocka_unit_test(test_file_faults),
        cmocka_unit_test(test_no_file),        cmocka_unit_test(test_at_once),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
