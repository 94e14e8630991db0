/* The scheduler at work: order of events, batching, windows, queues, prefix reuse, seeds, fairness. */
#include "test_scheduler_rig.h"

#include <math.h>

static int32_t hello_tokens[] = {'H', 'e', 'l', 'l', 'o', '.', 257};
static int32_t slow_tokens[] = {'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 257};
enum { MARCH = 60 }; /* 0.6 s: long enough that a stall of this machine does not spoil a test */
static int32_t march_tokens[MARCH];
static const struct wane__script_reply replies[] = {
    {.match = "greet", .tokens = hello_tokens, .count = 7, .fail_at = -1},
    {.match = "slow", .tokens = slow_tokens, .count = 11, .fail_at = -1, .delay_ms = 10},
    {.match = "crawl", .tokens = slow_tokens, .count = 11, .fail_at = -1, .delay_ms = 300},
    {.match = "march", .tokens = march_tokens, .count = MARCH, .fail_at = -1, .delay_ms = 10},
};
static const struct wane__script plain = {.replies = replies, .reply_count = 4};

static struct outcome outcome, other, alone[8]; /* large, so not on the stack */

/* ------------------------------------------------------------------- one reply */

static void test_one_reply(void **state) {
    (void)state;
    struct rig rig = rig_up(plain, quick_options());
    wane_generation g = greedy(0);
    wane_ticket *t = send(&rig, "please greet", &g);
    read_all(t, &outcome);
    assert_int_equal(outcome.code, WANE_OK);
    assert_string_equal(outcome.text, "Hello.");
    assert_int_equal(outcome.texts, 6);
    assert_int_equal(outcome.prompt_tokens, 12);
    assert_int_equal(outcome.reply_tokens, 7);
    assert_int_equal(outcome.finish, WANE_FINISH_END);
    assert_true(outcome.queue_ms >= 0 && outcome.prompt_ms > 0 && outcome.reply_ms > 0);
    wane_event event;
    bool ended = false;
    assert_int_equal(wane_ticket_next(t, 0, &event, &ended, NULL), WANE_EINVAL);
    assert_true(ended);
    wane_ticket_cancel(t); /* too late, harmless */
    wane_ticket_free(t);

    wane_scheduler_state s = rig_state(&rig);
    assert_int_equal(s.completed, 1);
    assert_int_equal(s.prompt_tokens, 12);
    assert_int_equal(s.reply_tokens, 7);
    assert_int_equal(s.engine_rows, 7);
    assert_int_equal(s.engine_calls, 7);
    assert_true(s.busy_seconds >= s.engine_seconds && s.engine_seconds > 0);
    rig_down(&rig);
}

static void test_a_wait_that_runs_out_loses_nothing(void **state) {
    (void)state;
    struct rig rig = rig_up(plain, quick_options());
    wane_generation g = greedy(0);
    wane_ticket *t = send(&rig, "crawl", &g);
    wane_event event;
    bool ended = true;
    double before = wane__now();
    assert_int_equal(wane_ticket_next(t, 20, &event, &ended, NULL), WANE_ETIMEOUT);
    assert_false(ended);
    assert_true(wane__now() - before >= 0.019);
    assert_int_equal(wane_ticket_next(t, 10000, &event, &ended, NULL), WANE_OK);
    assert_int_equal(event.kind, WANE_EVENT_START);
    wane_ticket_free(t);
    rig_down(&rig);
}

static void test_stops_and_logprobs(void **state) {
    (void)state;
    struct rig rig = rig_up(plain, quick_options());
    wane_generation g = greedy(0);
    const char *stops[] = {"llo"};
    g.stops = stops;
    g.stop_count = 1;
    ask(&rig, "greet", &g, &outcome);
    assert_int_equal(outcome.finish, WANE_FINISH_STOP);
    assert_string_equal(outcome.text, "He");
    assert_string_equal(outcome.stop, "llo");

    g.stop_count = 0;
    g.sampling.top_logprobs = 3;
    wane_ticket *t = send(&rig, "greet", &g);
    wane_event event;
    bool ended = false;
    assert_int_equal(wane_ticket_next(t, 5000, &event, &ended, NULL), WANE_OK);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(wane_ticket_next(t, 5000, &event, &ended, NULL), WANE_OK);
        assert_int_equal(event.token, hello_tokens[i]);
        assert_true(event.has_logprob && event.logprob < 0);
        assert_int_equal(event.top_count, 3);
        assert_int_equal(event.top[0].token, hello_tokens[i]);
        assert_true(event.top[0].logprob >= event.top[1].logprob);
    }
    wane_ticket_free(t);
    rig_down(&rig);
}

/* -------------------------------------------------------------------- refusals */

static void expect_refusal(struct rig *rig, const int32_t *tokens, size_t count, const wane_generation *g,
                           int code, const char *word) {
    wane_error error = {0};
    wane_ticket *t = (wane_ticket *)1;
    assert_int_equal(wane_scheduler_submit(rig->scheduler, tokens, count, g, &t, &error), code);
    assert_null(t);
    if (strstr(error.text, word) == NULL) fail_msg("'%s' does not say '%s'", error.text, word);
}

static void test_refusals(void **state) {
    (void)state;
    struct rig rig = rig_up(plain, quick_options());
    wane_generation g = greedy(0), bad = greedy(0);
    static int32_t long_prompt[5120];
    for (int i = 0; i < 5120; i++) long_prompt[i] = 'x';
    int32_t negative[] = {'a', -1}, large[] = {384};
    expect_refusal(&rig, long_prompt, 0, &g, WANE_EINVAL, "empty");
    expect_refusal(&rig, NULL, 3, &g, WANE_EINVAL, "empty");
    expect_refusal(&rig, negative, 2, &g, WANE_EINVAL, "-1");
    expect_refusal(&rig, large, 1, &g, WANE_EINVAL, "384");
    expect_refusal(&rig, long_prompt, 5, NULL, WANE_EINVAL, "generation");
    bad.sampling.top_p = -1;
    expect_refusal(&rig, long_prompt, 5, &bad, WANE_EINVAL, "top_p");
    expect_refusal(&rig, long_prompt, 512, &g, WANE_ECONTEXT, "512 tokens; the context holds 512");
    expect_refusal(&rig, long_prompt, 5120, &g, WANE_ECONTEXT, "5120 tokens; the context holds 512");
    assert_int_equal(rig_state(&rig).refused, 8);
    assert_int_equal(rig_state(&rig).accepted, 0);

    /* All but one place taken: one token, and it says why it ends. */
    wane_ticket *t;
    assert_int_equal(wane_scheduler_submit(rig.scheduler, long_prompt, 511, &g, &t, NULL), WANE_OK);
    finish(t, &outcome);
    assert_int_equal(outcome.reply_tokens, 1);
    assert_int_equal(outcome.finish, WANE_FINISH_CONTEXT);
    rig_down(&rig);
}

static void test_options(void **state) {
    (void)state;
    struct rig rig = rig_up(plain, quick_options());
    wane_scheduler *second;
    wane_error error;
    assert_int_equal(wane_scheduler_new(rig.model, NULL, &second, &error), WANE_EBUSY);
    wane_scheduler_options o = quick_options();
    o.prompt_chunk = 0;
    assert_int_equal(wane_scheduler_new(rig.model, &o, &second, &error), WANE_EINVAL);
    assert_non_null(strstr(error.text, "prompt_chunk"));
    memset(&o, 0, sizeof o);
    assert_int_equal(wane_scheduler_new(rig.model, &o, &second, &error), WANE_EINVAL);
    /* After it is freed, another one may stand there. */
    wane_scheduler_free(rig.scheduler);
    assert_int_equal(wane_scheduler_new(rig.model, NULL, &rig.scheduler, &error), WANE_OK);
    rig_down(&rig);
}

/* -------------------------------------------------------------------- batching */

static const char *const questions[] = {"What is one?", "Name two things.",
                                        "Three",        "and a somewhat longer fourth one",
                                        "fifth",        "sixth of them",
                                        "number seven", "eight!"};

/* Same tokens alone or beside others, greedy and seeded. */
static void test_alone_or_beside_others(void **state) {
    (void)state;
    for (int seeded = 0; seeded < 2; seeded++) {
        wane_generation g = greedy(40);
        if (seeded) g.sampling.temperature = 1.2f, g.sampling.seeded = true, g.sampling.top_k = 0;
        wane_scheduler_options o = quick_options();
        struct rig rig = rig_up(plain, o);
        for (uint64_t i = 0; i < 8; i++) {
            g.sampling.seed = i;
            ask(&rig, questions[i], &g, &alone[i]);
        }
        rig_down(&rig);

        o.window_ms = 1000; /* the first four are one batch: company ends the wait */
        rig = rig_up(plain, o);
        wane_ticket *t[8];
        double before = wane__now();
        for (uint64_t i = 0; i < 8; i++) {
            g.sampling.seed = i;
            t[i] = send(&rig, questions[i], &g);
        }
        for (int i = 0; i < 8; i++) {
            finish(t[i], &outcome);
            assert_int_equal(outcome.code, WANE_OK);
            assert_int_equal(outcome.reply_tokens, 40);
            assert_string_equal(outcome.text, alone[i].text);
        }
        assert_true(wane__now() - before < 0.9 * slack());
        wane_scheduler_state s = rig_state(&rig);
        assert_int_equal(s.engine_rows, 320);
        assert_true(s.engine_calls < 120); /* 320 alone */
        rig_down(&rig);
    }
}

static void test_window(void **state) {
    (void)state;
    wane_scheduler_options o = quick_options();
    o.window_ms = 300;
    struct rig rig = rig_up(plain, o);
    wane_generation g = greedy(0);
    wane_ticket *t = send(&rig, "march", &g); /* idle: waits */
    WAIT_FOR(&rig, now.slots_busy == 1);
    ask(&rig, "greet", &g, &other); /* another runs: does not */
    assert_true(other.queue_ms < 150);
    finish(t, &outcome);
    assert_true(outcome.queue_ms >= 299);
    rig_down(&rig);
}

static void test_a_long_prompt_does_not_stop_others(void **state) {
    (void)state;
    wane_scheduler_options o = quick_options();
    o.prompt_chunk = 4;
    struct rig rig = rig_up(plain, o);
    static char text[401];
    memset(text, 'y', 400);
    wane_generation g = greedy(0), one = greedy(1);
    wane_ticket *talker = send(&rig, "march", &g);
    wane_event event;
    bool ended;
    assert_int_equal(wane_ticket_next(talker, 5000, &event, &ended, NULL), WANE_OK);
    wane_ticket *reader = send(&rig, text, &one);
    finish(talker, &outcome);
    assert_int_equal(outcome.code, WANE_OK);
    /* 400 tokens by 4s are more calls than the talker had to go: it had a token in each of them. */
    finish(reader, &other);
    assert_int_equal(other.reply_tokens, 1);
    assert_true(other.prompt_ms > 150);
    assert_int_equal(rig_counts(&rig).largest_batch, 64);
    wane_scheduler_state s = rig_state(&rig);
    assert_true(s.engine_calls >= MARCH);
    rig_down(&rig);
}

/* A prompt of 400 tokens beside one reply: by the chunk, by sixteens, by forties. */
static void test_a_prompts_part(void **state) {
    (void)state;
    static const struct {
        int share, largest;
    } cases[] = {{0, 64}, {4, 17}, {40, 41}}; /* with the row of the reply */
    static char text[401];
    memset(text, 'y', 400);
    for (int c = 0; c < 3; c++) {
        wane_scheduler_options o = quick_options();
        o.prompt_share = cases[c].share;
        struct wane__script script = plain;
        script.context = 4096;
        struct rig rig = rig_up(script, o);
        wane_generation endless = greedy(0), one = greedy(1);
        wane_ticket *talker = send(&rig, questions[0], &endless);
        wane_event event;
        bool ended;
        assert_int_equal(wane_ticket_next(talker, 5000, &event, &ended, NULL), WANE_OK);
        assert_int_equal(wane_ticket_next(talker, 5000, &event, &ended, NULL), WANE_OK);
        ask(&rig, text, &one, &outcome);
        assert_int_equal(outcome.code, WANE_OK);
        assert_int_equal(rig_counts(&rig).largest_batch, cases[c].largest);
        wane_ticket_free(talker);
        rig_down(&rig);
    }
}

/* More sequences than a call takes: all of them get on, prompts too. */
static void test_nobody_starves(void **state) {
    (void)state;
    for (int seats = 1; seats <= 2; seats++) {
        wane_scheduler_options o = quick_options();
        o.max_batch_requests = seats;
        struct wane__script script = plain;
        script.context = 4096;
        struct rig rig = rig_up(script, o);
        wane_generation endless = greedy(0), g = greedy(20);
        wane_ticket *t[3];
        for (int i = 0; i < 3; i++) t[i] = send(&rig, questions[i], &endless);
        ask(&rig, questions[3], &g, &outcome);
        assert_int_equal(outcome.code, WANE_OK);
        for (int i = 0; i < 3; i++) { /* and those three are still there, or got to their end */
            wane_event event;
            bool ended;
            assert_int_equal(wane_ticket_next(t[i], 5000, &event, &ended, NULL), WANE_OK);
            assert_int_equal(wane_ticket_next(t[i], 5000, &event, &ended, NULL), WANE_OK);
            wane_ticket_free(t[i]);
        }
        wane_scheduler_state s = rig_state(&rig);
        assert_true(s.engine_rows <= s.engine_calls * (uint64_t)seats);
        rig_down(&rig);
    }
}

/* ----------------------------------------------------------------- the queue */

static void test_queue_is_capped(void **state) {
    (void)state;
    struct wane__script script = plain;
    script.sequences = 1;
    wane_scheduler_options o = quick_options();
    o.queue = 2;
    struct rig rig = rig_up(script, o);
    wane_generation g = greedy(40);
    wane_ticket *t[20];
    int taken = 0;
    double before = wane__now();
    for (int i = 0; i < 20; i++) {
        int code = try_send(&rig, "march", &g, &t[taken]);
        if (code == WANE_OK)
            taken++;
        else
            assert_int_equal(code, WANE_EBUSY);
    }
    assert_true(wane__now() - before < 0.4 * slack()); /* at once */
    assert_int_equal(taken, 3);                        /* one runs, two wait */
    assert_int_equal(rig_state(&rig).refused, 17);
    WAIT_FOR(&rig, now.slots_busy == 1);
    assert_int_equal(rig_state(&rig).queued, 2);

    /* A cancelled one leaves the queue at once, and its place is free. */
    wane_ticket_cancel(t[1]);
    assert_int_equal(rig_state(&rig).queued, 1);
    read_all(t[1], &outcome);
    assert_int_equal(outcome.code, WANE_ECANCELLED);
    assert_int_equal(outcome.starts, 0);
    wane_ticket_free(t[1]);
    t[1] = send(&rig, "march", &g);
    for (int i = 0; i < 3; i++) {
        finish(t[i], &outcome);
        assert_int_equal(outcome.code, WANE_OK);
        assert_int_equal(outcome.texts, 40);
    }
    rig_down(&rig);
}

/* A burst that the free slots can take is never refused, however short the queue. */
static void test_free_slots_are_places(void **state) {
    (void)state;
    wane_scheduler_options o = quick_options();
    o.queue = 0;
    o.window_ms = 50;
    struct rig rig = rig_up(plain, o);
    wane_generation g = greedy(0);
    wane_ticket *t[4], *fifth;
    for (int i = 0; i < 4; i++) t[i] = send(&rig, "slow", &g);
    assert_int_equal(try_send(&rig, "slow", &g, &fifth), WANE_EBUSY);
    for (int i = 0; i < 4; i++) finish(t[i], &outcome);
    rig_down(&rig);
}

/* -------------------------------------------------------------- prefix reuse */

/* A conversation of three turns, beside the same one without reuse: the same text. */
static void converse(bool recurrent, bool reuse, struct outcome out[3]) {
    struct wane__script script = plain;
    script.recurrent = recurrent;
    wane_scheduler_options o = quick_options();
    o.no_prefix_reuse = !reuse;
    struct rig rig = rig_up(script, o);
    static char text[512];
    snprintf(text, sizeof text, "A first question of some length, so that it is worth keeping.");
    for (int turn = 0; turn < 3; turn++) {
        wane_generation g = greedy(20);
        ask(&rig, text, &g, &out[turn]);
        assert_int_equal(out[turn].code, WANE_OK);
        /* The third turn goes back and says something else: the middle is cut. */
        if (turn == 1)
            text[90] = '\0';
        else
            strcat(text, out[turn].text);
        strcat(text, " And then?");
    }
    wane_scheduler_state s = rig_state(&rig);
    assert_int_equal(s.reused_tokens, out[0].reused + out[1].reused + out[2].reused);
    rig_down(&rig);
}

static void test_reuse_changes_nothing(void **state) {
    (void)state;
    static struct outcome with[3], without[3], recurrent[3];
    converse(false, true, with);
    converse(false, false, without);
    converse(true, true, recurrent);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(with[i].text, without[i].text);
        assert_string_equal(recurrent[i].text, without[i].text);
        assert_int_equal(without[i].reused, 0);
    }
    assert_int_equal(with[0].reused, 0);
    assert_int_equal(with[1].reused, 61 + 19); /* prompt and reply, but for its last token */
    assert_int_equal(with[2].reused, 90);
    assert_int_equal(recurrent[1].reused, 80); /* a whole sequence that goes on */
    assert_int_equal(recurrent[2].reused, 0);  /* cutting back is not possible */
}

static void test_same_prompt_again(void **state) {
    (void)state;
    struct rig rig = rig_up(plain, quick_options());
    wane_generation g = greedy(10);
    for (int i = 0; i < 3; i++) {
        ask(&rig, "the very same words", &g, &outcome);
        assert_int_equal(outcome.reused, i == 0 ? 0 : 18);
        if (i > 0) assert_string_equal(outcome.text, other.text);
        other = outcome;
    }
    rig_down(&rig);
}

/* What a busy neighbour holds is copied. */
static void test_copy_from_a_running_request(void **state) {
    (void)state;
    struct rig rig = rig_up(plain, quick_options());
    static const char common[] = "You are a helpful assistant and answer slowly: ";
    static char a[128], b[128];
    snprintf(a, sizeof a, "%scrawl", common);
    snprintf(b, sizeof b, "%sgreet", common);
    wane_generation g = greedy(0);
    wane_ticket *t = send(&rig, a, &g);
    wane_event event;
    bool ended;
    assert_int_equal(wane_ticket_next(t, 5000, &event, &ended, NULL), WANE_OK);
    wane_ticket *second = send(&rig, b, &g);
    wane_ticket_free(t);
    finish(second, &outcome);
    assert_string_equal(outcome.text, "Hello.");
    assert_int_equal(outcome.reused, strlen(common));
    rig_down(&rig);
}

static void test_tenants_share_nothing(void **state) {
    (void)state;
    struct rig rig = rig_up(plain, quick_options());
    static const char prompt[] = "a secret of considerable length that is the same for both";
    wane_generation a = greedy(5), b = greedy(5), none = greedy(5);
    a.tenant = "a";
    b.tenant = "b";
    for (int i = 0; i < 6; i++) {
        ask(&rig, prompt, i % 3 == 0 ? &a : i % 3 == 1 ? &b : &none, &outcome);
        assert_int_equal(outcome.reused, i < 3 ? 0 : (int)strlen(prompt) - 1);
    }
    /* Nor from a busy slot. */
    wane_generation c = greedy(0), d = greedy(5);
    c.tenant = "c";
    d.tenant = "d";
    wane_ticket *t = send(&rig, "a long shared beginning that would be worth a copy: crawl", &c);
    WAIT_FOR(&rig, now.slots_busy == 1);
    wane_ticket *second = send(&rig, "a long shared beginning that would be worth a copy: greet", &d);
    wane_ticket_free(t);
    finish(second, &outcome);
    assert_int_equal(outcome.reused, 0);
    rig_down(&rig);
}

int main(void) {
    for (int i = 0; i < MARCH; i++) march_tokens[i] = 'm';
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_reply),
        cmocka_unit_test(test_a_wait_that_runs_out_loses_nothing),
        cmocka_unit_test(test_stops_and_logprobs),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_alone_or_beside_others),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_a_long_prompt_does_not_stop_others),
        cmocka_unit_test(test_a_prompts_part),
        cmocka_unit_test(test_nobody_starves),
        cmocka_unit_test(test_queue_is_capped),
        cmocka_unit_test(test_free_slots_are_places),
        cmocka_unit_test(test_reuse_changes_nothing),
        cmocka_unit_test(test_same_prompt_again),
        cmocka_unit_test(test_copy_from_a_running_request),
        cmocka_unit_test(test_tenants_share_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
