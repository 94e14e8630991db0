/* The vote over answers in the scheduler: what a reader gets, who decodes what, and every way in which it can be cut short. */
#include "test_scheduler_rig.h"

#include "gate_rig.h"
#include "origin.h"
#include "vote.h"

#include <time.h>
#include <unistd.h>

enum { V = 384, LENGTH = 24 };

/* Letters of like chances: another seed, another answer. */
static float even[V];
static int32_t march_tokens[60];
static struct wane__script_reply replies[] = {
    {.match = "", .tokens = march_tokens, .count = 0, .fail_at = -1, .logits = even},
    {.match = "slow", .tokens = march_tokens, .count = 0, .fail_at = -1, .logits = even, .delay_ms = 10},
    {.match = "break", .tokens = march_tokens, .count = 0, .fail_at = 9, .logits = even},
    {.match = "fixed", .tokens = march_tokens, .count = 60, .fail_at = -1},
};
static const struct wane__script script = {.replies = replies, .reply_count = 4, .sequences = 4};
static struct outcome outcome, other, alone[WANE__ANSWERS];

static int set_up(void **state) {
    (void)state;
    for (int i = 0; i < V; i++) even[i] = i >= 'a' && i <= 'd' ? 5 : -20;
    for (int i = 0; i < 60; i++) march_tokens[i] = 'a' + i % 26;
    return 0;
}

static wane_quality legacy(void) {
    wane_quality quality;
    wane_quality_init(&quality);
    quality.fuse = WANE_FUSE_OFF; /* loops of a scripted language are its own affair */
    quality.mode = WANE_MODE_LEGACY;
    quality.token_vote = false; /* tokens as without: so that answers can be foreseen */
    quality.rules = false;
    quality.dialogue_slope = 0;
    quality.clamp = 0;
    return quality;
}

/* The same in mode wane; a model without a gate votes always there, too. */
static wane_quality in_wane(void) {
    wane_quality quality = legacy();
    quality.mode = WANE_MODE_WANE;
    return quality;
}

static wane_generation seeded(const wane_quality *quality, uint64_t seed, int hold) {
    wane_generation g = greedy(LENGTH);
    g.sampling.temperature = 1;
    g.sampling.min_p = 0;
    g.sampling.seed = seed;
    g.sampling.seeded = true;
    g.quality = quality;
    g.hold = hold;
    return g;
}

/* What the three answers are by themselves, and who should win. */
static int foresee(const struct rig *rig, const char *prompt, wane_generation g) {
    struct wane__answer answers[WANE__ANSWERS];
    static int32_t tokens[WANE__ANSWERS][LENGTH];
    uint64_t seed = g.sampling.seed;
    g.quality = NULL;
    g.hold = WANE_HOLD_NOTE;
    for (int i = 0; i < WANE__ANSWERS; i++) {
        g.sampling.seed = i == 0 ? seed : wane__vote_seed(seed, i);
        ask(rig, prompt, &g, &alone[i]);
        assert_int_equal(alone[i].code, WANE_OK);
        for (size_t t = 0; t < alone[i].size; t++) tokens[i][t] = (unsigned char)alone[i].text[t];
        answers[i] = (struct wane__answer){.state = WANE__ANSWER_WHOLE,
                                           .tokens = tokens[i],
                                           .count = alone[i].size,
                                           .text = alone[i].text,
                                           .size = alone[i].size};
    }
    assert_string_not_equal(alone[0].text, alone[1].text);
    assert_string_not_equal(alone[1].text, alone[2].text);
    return wane__answers_decide(answers, NULL).chosen;
}

static void test_what_a_reader_gets(void **state) {
    (void)state;
    struct rig rig = rig_up(script, quick_options());
    wane_quality quality = legacy();
    int wins[WANE__ANSWERS] = {0};
    for (uint64_t seed = 1; seed <= 12; seed++) {
        wane_generation g = seeded(&quality, seed, WANE_HOLD_NOTE);
        int chosen = foresee(&rig, "tell", g);
        wins[chosen]++;
        ask(&rig, "tell", &g, &outcome);
        assert_int_equal(outcome.code, WANE_OK);
        assert_string_equal(outcome.text, alone[0].text);
        assert_int_equal(outcome.answers, 3);
        assert_int_equal(outcome.chosen, chosen);
        assert_int_equal(outcome.forked_at, 0);
        assert_int_equal(outcome.reply_tokens, LENGTH);
        assert_int_equal(outcome.spare_tokens, 2 * LENGTH);
        assert_int_equal(outcome.has_chosen_text, chosen != 0);
        assert_string_equal(outcome.chosen_text, chosen != 0 ? alone[chosen].text : "");

        g.hold = WANE_HOLD_VOTE;
        ask(&rig, "tell", &g, &other);
        assert_int_equal(other.code, WANE_OK);
        assert_string_equal(other.text, alone[chosen].text);
        assert_int_equal(other.texts, LENGTH);
        assert_int_equal(other.starts, 1);
        assert_int_equal(other.chosen, chosen);
        assert_false(other.has_chosen_text);
        assert_int_equal(other.finish, WANE_FINISH_LENGTH);
    }
    assert_true(wins[0] > 0 && wins[1] > 0 && wins[2] > 0); /* else the test shows little */
    wane_scheduler_state s = rig_state(&rig);
    assert_int_equal(s.votes, 24);
    assert_int_equal(s.votes_changed, 2 * (wins[1] + wins[2]));
    assert_int_equal(s.accepted, 12 * 5);
    assert_int_equal(s.spare_tokens, 24 * 2 * LENGTH);
    rig_down(&rig);
}

/* With fewer slots than answers they come one after another, and say the same. */
static void test_few_slots(void **state) {
    (void)state;
    for (int slots = 1; slots <= 3; slots++) {
        struct wane__script few = script;
        few.sequences = slots;
        struct rig rig = rig_up(few, quick_options());
        wane_quality quality = legacy();
        wane_generation g = seeded(&quality, 5, WANE_HOLD_VOTE);
        int chosen = foresee(&rig, "tell", g);
        wane_ticket *ticket[4];
        for (int i = 0; i < 4; i++) ticket[i] = send(&rig, "tell", &g);
        for (int i = 0; i < 4; i++) {
            finish(ticket[i], &outcome);
            assert_int_equal(outcome.code, WANE_OK);
            assert_string_equal(outcome.text, alone[chosen].text);
        }
        rig_down(&rig);
    }
}

/* Ask for so many times, where requests share nothing: of each the prompt is computed once. */
static void ask_long(const struct rig *rig, const wane_quality *quality, int times) {
    wane_generation g = seeded(quality, 3, WANE_HOLD_NOTE);
    char prompt[301];
    memset(prompt, 'x', 300);
    prompt[300] = '\0';
    for (int again = 1; again <= times; again++) {
        ask(rig, prompt, &g, &outcome);
        assert_int_equal(outcome.code, WANE_OK);
        assert_int_equal(outcome.answers, 3);
        /* 300 of the prompt; of each other answer its last token again; each token but the last of an answer. */
        assert_int_equal(rig_counts(rig).items, again * (300 + 2 + 3 * (LENGTH - 1)));
        assert_int_equal(rig_state(rig).kv_held, 0);
    }
}

/* The prompt is computed once, also where requests share nothing else, and nothing of it stays behind. */
static void test_answers_share_the_prompt(void **state) {
    (void)state;
    wane_scheduler_options options = quick_options();
    options.no_prefix_reuse = true;
    struct rig rig = rig_up(script, options);
    wane_quality quality = legacy();
    ask_long(&rig, &quality, 1);
    rig_down(&rig);
}

/* ----------------------------------------------------- behind the first answer */

/* Nobody's tokens wait for answers that are only noted: a call has one of a request's rows; for who waits for all, all of them. */
static void test_a_reader_who_follows_has_others_behind(void **state) {
    (void)state;
    struct rig rig = rig_up(script, quick_options());
    wane_quality quality = legacy();
    for (int mode = WANE_MODE_LEGACY; mode <= WANE_MODE_WANE; mode++) {
        quality.mode = mode;
        for (int hold = WANE_HOLD_NOTE; hold <= WANE_HOLD_VOTE; hold++) {
            wane_generation g = seeded(&quality, 3, hold);
            int chosen = foresee(&rig, "tell", g);
            uint64_t before = rig_state(&rig).engine_calls;
            ask(&rig, "tell", &g, &outcome);
            uint64_t calls = rig_state(&rig).engine_calls - before;
            assert_int_equal(outcome.code, WANE_OK);
            assert_int_equal(outcome.chosen, chosen);
            bool apart = mode == WANE_MODE_WANE && hold == WANE_HOLD_NOTE;
            if (apart) /* each one's first call takes its last shared token in */
                assert_int_equal(calls, 3 * LENGTH);
            else
                assert_in_range(calls, LENGTH, LENGTH + 2);
        }
    }
    rig_down(&rig);
}

/* The third is written only where the second does not decide it. */
static void test_the_third_is_written_on_demand(void **state) {
    (void)state;
    struct rig rig = rig_up(script, quick_options());
    wane_quality quality = in_wane();
    quality.final_value = "^(.)";
    int spared = 0, written = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        wane_generation g = seeded(&quality, seed, WANE_HOLD_NOTE);
        foresee(&rig, "tell", g);
        bool agree = alone[0].text[0] == alone[1].text[0];
        ask(&rig, "tell", &g, &outcome);
        assert_int_equal(outcome.code, WANE_OK);
        assert_string_equal(outcome.text, alone[0].text);
        assert_int_equal(outcome.spare_tokens, agree ? LENGTH : 2 * LENGTH);
        *(agree ? &spared : &written) += 1;
    }
    assert_true(spared > 0 && written > 0);
    rig_down(&rig);
}

/* So it is for answers that come behind, however many slots there are. */
static void test_answers_behind_share_the_prompt(void **state) {
    (void)state;
    for (int slots = 1; slots <= 4; slots++) {
        struct wane__script few = script;
        few.sequences = slots;
        wane_scheduler_options options = quick_options();
        options.no_prefix_reuse = true;
        struct rig rig = rig_up(few, options);
        wane_quality quality = in_wane();
        ask_long(&rig, &quality, 2);
        rig_down(&rig);
    }
}

/* Whenever the client goes, or its time is over, all of it ends, and nothing of it stays behind. */
static void test_answers_behind_are_cut_short(void **state) {
    (void)state;
    wane_quality quality = in_wane();
    for (int wait = 0; wait < 150; wait += 11) {
        struct wane__script few = script;
        few.sequences = 1 + wait % 3;
        wane_scheduler_options options = quick_options();
        options.no_prefix_reuse = true;
        struct rig rig = rig_up(few, options);
        wane_generation g = seeded(&quality, (uint64_t)wait, WANE_HOLD_NOTE);
        g.max_tokens = 4;
        wane_ticket *t = send(&rig, "slow", &g);
        sleep_ms(wait);
        wane_ticket_free(t);
        WAIT_FOR(&rig, now.slots_busy == 0 && now.completed + now.cancelled == 1 && now.kv_held == 0);
        g.deadline_ms = (uint32_t)(20 + wait);
        ask(&rig, "slow", &g, &outcome);
        if (outcome.code == WANE_OK) /* its own answer stands */
            assert_true(outcome.answers == 3 && outcome.texts == 4);
        else
            assert_int_equal(outcome.code, WANE_ETIMEOUT);
        WAIT_FOR(&rig, now.slots_busy == 0 && now.kv_held == 0);
        rig_down(&rig);
    }
}

/* A reader who does not read holds nobody up, and nobody's processor. */
static void test_answers_behind_a_slow_reader(void **state) {
    (void)state;
    struct wane__script long_one = script;
    long_one.context = 2 * WANE__TICKET_BACKLOG;
    struct rig rig = rig_up(long_one, quick_options());
    wane_quality quality = in_wane();
    wane_generation g = seeded(&quality, 3, WANE_HOLD_NOTE);
    g.max_tokens = WANE__TICKET_BACKLOG + 50;
    wane_ticket *t = send(&rig, "tell", &g);
    WAIT_FOR(&rig, now.reply_tokens >= WANE__TICKET_BACKLOG - 1);
    sleep_ms(50);
    /* Of the process, by all its threads: one that asks over and over uses all of the time. */
    clock_t before = clock();
    sleep_ms(400);
    assert_true((double)(clock() - before) < 0.2 * CLOCKS_PER_SEC);
    assert_true(rig_state(&rig).reply_tokens <= WANE__TICKET_BACKLOG + 2);
    finish(t, &outcome);
    assert_int_equal(outcome.code, WANE_OK);
    assert_int_equal(outcome.reply_tokens, g.max_tokens);
    rig_down(&rig);
}

static void test_no_vote(void **state) {
    (void)state;
    struct rig rig = rig_up(script, quick_options());
    wane_quality quality = legacy();
    wane_generation g = seeded(&quality, 1, WANE_HOLD_VOTE);
    quality.answers = 1;
    ask(&rig, "tell", &g, &outcome);
    assert_true(outcome.code == WANE_OK && outcome.answers == 0 && outcome.texts == LENGTH);
    quality.answers = 3;
    quality.mode = WANE_MODE_OFF;
    ask(&rig, "tell", &g, &outcome);
    assert_true(outcome.code == WANE_OK && outcome.answers == 0);
    quality.mode = WANE_MODE_WANE; /* without chance every answer is the first */
    g.sampling.temperature = 0;
    ask(&rig, "tell", &g, &other);
    assert_true(other.code == WANE_OK && other.answers == 0 && other.texts == LENGTH);
    assert_int_equal(rig_state(&rig).votes, 0);
    g.sampling.temperature = 1; /* and without a gate all of them are in doubt */
    ask(&rig, "tell", &g, &other);
    assert_true(other.code == WANE_OK && other.answers == 3);
    assert_int_equal(rig_state(&rig).votes, 1);
    quality.answers = 2;
    wane_ticket *t;
    assert_int_equal(try_send(&rig, "tell", &g, &t), WANE_EINVAL);
    quality.answers = 3;
    quality.final_value = "(";
    assert_int_equal(try_send(&rig, "tell", &g, &t), WANE_EINVAL);
    rig_down(&rig);
}

/* Equal answers: the vote is over when two of them are, and a third is not waited for. */
static void test_equal_answers_end_it(void **state) {
    (void)state;
    struct wane__script two = script;
    two.sequences = 2; /* so that the third has not begun */
    struct rig rig = rig_up(two, quick_options());
    wane_quality quality = legacy();
    wane_generation g = seeded(&quality, 1, WANE_HOLD_VOTE);
    g.sampling.temperature = 0;
    ask(&rig, "fixed", &g, &outcome);
    assert_int_equal(outcome.code, WANE_OK);
    assert_int_equal(outcome.answers, 3);
    assert_int_equal(outcome.chosen, 0);
    assert_true(outcome.spare_tokens <= LENGTH + 2);
    rig_down(&rig);
}

static void test_a_value_decides(void **state) {
    (void)state;
    struct rig rig = rig_up(script, quick_options());
    wane_quality quality = legacy();
    quality.final_value = "^(.)";
    bool seen = false;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        wane_generation g = seeded(&quality, seed, WANE_HOLD_VOTE);
        foresee(&rig, "tell", g);
        char a = alone[0].text[0], b = alone[1].text[0], c = alone[2].text[0];
        int expected = a == b || a == c ? 0 : b == c ? 1 : -1;
        ask(&rig, "tell", &g, &outcome);
        assert_int_equal(outcome.by_value, expected >= 0);
        if (expected >= 0) assert_int_equal(outcome.chosen, expected);
        seen = seen || expected == 1;
    }
    assert_true(seen);
    rig_down(&rig);
}

/* ------------------------------------------------------------- where it parts */

/* Letters whose best two are clearly apart at temperature 1, and less so at 2. */
static float uneven[V];
static struct wane__script_reply uneven_reply = {
    .match = "", .tokens = march_tokens, .count = 0, .fail_at = -1, .logits = uneven};

/* A rig whose model has a gate: only the shares that a hot request draws from are in doubt, so every fifth token. */
static struct rig doubtful_rig(void) {
    static char path[64];
    struct wane__script few = {.replies = &uneven_reply, .reply_count = 1, .sequences = 4};
    struct rig rig = {0};
    struct wane__trace_origin origin;
    static struct wane__gate_net net;
    wane_error error = {0};
    for (int i = 0; i < V; i++) uneven[i] = -20;
    uneven['a'] = 6, uneven['b'] = 5, uneven['c'] = 4.5f, uneven['d'] = 4;
    assert_int_equal(wane__script_load(&few, NULL, &rig.engine, &error), WANE_OK);
    assert_int_equal(wane__model_wrap(rig.engine, NULL, NULL, &rig.model, &error), WANE_OK);
    assert_int_equal(wane__model_origin(rig.model, &origin, NULL), WANE_OK);
    struct wane__gate_made made = gate_made(origin.model, origin.tokenizer);
    uint32_t pattern = 1;
    gate_line(&net, -28.5f, 1);
    struct wane__gate *gate = gate_of(&made, &net, &pattern, 1);
    snprintf(path, sizeof path, "/tmp/wane-vote-%ld.gate", (long)getpid());
    assert_int_equal(wane__gate_write(gate, path, NULL), WANE_OK);
    wane__gate_free(gate);
    if (wane_model_set_gate(rig.model, path, &error) != WANE_OK) fail_msg("%s", error.text);
    unlink(path);
    wane_scheduler_options options = quick_options();
    options.drill = true;
    assert_int_equal(wane_scheduler_new(rig.model, &options, &rig.scheduler, &error), WANE_OK);
    return rig;
}

static wane_quality doubtful(int budget) {
    wane_quality quality = in_wane();
    quality.odds_base = 1;
    quality.odds_entropy = quality.odds_documents = 0;
    quality.doubt_budget = budget;
    return quality;
}

static wane_generation hot(const wane_quality *quality, uint64_t seed, int hold) {
    wane_generation g = seeded(quality, seed, hold);
    g.sampling.temperature = 2;
    return g;
}

/* The budget says when, the first doubt says where; all answers have what comes before in common, and nobody computed it again. */
static void test_answers_part_at_the_first_doubt(void **state) {
    (void)state;
    struct rig rig = doubtful_rig();
    bool another = false;
    for (int budget = 0; budget <= 2; budget++) {
        for (uint64_t seed = 1; seed <= 10; seed++) {
            wane_quality quality = doubtful(budget);
            wane_generation g = hot(&quality, seed, WANE_HOLD_NOTE), simple = hot(NULL, seed, WANE_HOLD_NOTE);
            uint64_t before = rig_counts(&rig).rows;
            ask(&rig, "tell", &g, &outcome);
            uint64_t rows = rig_counts(&rig).rows - before;
            ask(&rig, "tell", &simple, &other);
            assert_int_equal(outcome.code, WANE_OK);
            assert_string_equal(outcome.text, other.text);
            assert_int_equal(outcome.answers, 3);
            assert_int_equal(outcome.forked_at, 4);
            assert_int_equal(rows, 4 + 3 * (LENGTH - 4));
            assert_int_equal(outcome.spare_tokens, 2 * (LENGTH - 4));
            g.hold = WANE_HOLD_VOTE;
            ask(&rig, "tell", &g, &other);
            assert_string_equal(other.text, outcome.has_chosen_text ? outcome.chosen_text : outcome.text);
            assert_int_equal(other.texts, LENGTH);
            if (!outcome.has_chosen_text) continue;
            another = true;
            assert_memory_equal(outcome.chosen_text, outcome.text, 4);
        }
    }
    assert_true(another);
    wane_quality patient = doubtful(LENGTH);
    wane_generation g = hot(&patient, 1, WANE_HOLD_VOTE);
    ask(&rig, "tell", &g, &outcome);
    assert_true(outcome.code == WANE_OK && outcome.answers == 0 && outcome.texts == LENGTH);
    wane_gate_state gate;
    wane_model_get_gate_state(rig.model, &gate);
    assert_int_equal(gate.wakes[WANE_WAKE_FORCED], 60);
    assert_int_equal(gate.wakes[WANE_WAKE_WARM_UP], 1);
    assert_int_equal(gate.wakes[WANE_WAKE_ALWAYS], 0);
    rig_down(&rig);
}

/* A stop string that begins before the fork and ends behind it still ends the answer. */
static void test_stops_across_the_fork(void **state) {
    (void)state;
    struct rig rig = doubtful_rig();
    const char *stops[] = {"abc", "ba"};
    int across = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        wane_quality quality = doubtful(0);
        wane_generation g = hot(&quality, seed, WANE_HOLD_NOTE);
        g.stops = stops;
        g.stop_count = 2;
        ask(&rig, "tell", &g, &outcome);
        assert_int_equal(outcome.code, WANE_OK);
        for (int i = 0; i < 2; i++) {
            assert_null(strstr(outcome.text, stops[i]));
            assert_null(strstr(outcome.chosen_text, stops[i]));
        }
        across += outcome.has_chosen_text && strlen(outcome.chosen_text) <= 3;
    }
    assert_true(across > 0);
    rig_down(&rig);
}

/* Many requests at once, in all modes: each gets what it gets alone. */
static void test_a_crowd(void **state) {
    (void)state;
    enum { CROWD = 10000, WAVE = 40, KINDS = 6 };
    struct rig rig = doubtful_rig();
    wane_quality careful = doubtful(1), old = legacy();
    static struct outcome single[KINDS];
    wane_generation kind[KINDS];
    for (int i = 0; i < KINDS; i++) {
        const wane_quality *quality = i % 3 == 0 ? NULL : i % 3 == 1 ? &careful : &old;
        kind[i] = hot(quality, (uint64_t)i + 1, i < 3 ? WANE_HOLD_NOTE : WANE_HOLD_VOTE);
        kind[i].max_tokens = 8;
        ask(&rig, "tell", &kind[i], &single[i]);
    }
    for (int at = 0; at < CROWD; at += WAVE) {
        wane_ticket *ticket[WAVE];
        for (int i = 0; i < WAVE; i++) ticket[i] = send(&rig, "tell", &kind[(at + i) % KINDS]);
        for (int i = 0; i < WAVE; i++) {
            const struct outcome *expected = &single[(at + i) % KINDS];
            finish(ticket[i], &outcome);
            assert_int_equal(outcome.code, WANE_OK);
            assert_string_equal(outcome.text, expected->text);
            assert_int_equal(outcome.chosen, expected->chosen);
            assert_string_equal(outcome.chosen_text, expected->chosen_text);
        }
    }
    wane_scheduler_state s = rig_state(&rig);
    assert_int_equal(s.completed, CROWD + KINDS);
    rig_down(&rig);
}

/* -------------------------------------------------------------- cut short */

static void test_cancel_at_any_time(void **state) {
    (void)state;
    wane_quality quality = legacy();
    for (int slots = 1; slots <= 4; slots += 3) {
        for (int wait = 0; wait < 60; wait += 7) {
            struct wane__script few = script;
            few.sequences = slots;
            struct rig rig = rig_up(few, quick_options());
            wane_generation g = seeded(&quality, (uint64_t)wait, wait % 2 ? WANE_HOLD_VOTE : WANE_HOLD_NOTE);
            g.max_tokens = 4;
            wane_ticket *t = send(&rig, "slow", &g);
            sleep_ms(wait);
            wane_ticket_free(t);
            WAIT_FOR(&rig, now.slots_busy == 0 && now.completed + now.cancelled == 1);
            rig_down(&rig); /* checks that all adds up, and that the engine was used rightly */
        }
    }
}

static void test_out_of_time(void **state) {
    (void)state;
    struct wane__script one = script;
    one.sequences = 1; /* the first answer is whole long before the others */
    struct rig rig = rig_up(one, quick_options());
    wane_quality quality = legacy();
    wane_generation g = seeded(&quality, 2, WANE_HOLD_VOTE);
    g.max_tokens = 10;
    g.deadline_ms = (uint32_t)(150 * slack());
    ask(&rig, "slow", &g, &outcome);
    if (outcome.code == WANE_OK) { /* its own answer stands */
        assert_int_equal(outcome.answers, 3);
        assert_int_equal(outcome.chosen, 0);
        assert_int_equal(outcome.texts, 10);
    } else { /* a slow machine: not even that */
        assert_int_equal(outcome.code, WANE_ETIMEOUT);
    }
    rig_down(&rig);
}

static void test_a_stop_gives_what_is_there(void **state) {
    (void)state;
    struct wane__script one = script;
    one.sequences = 1;
    struct rig rig = rig_up(one, quick_options());
    wane_quality quality = legacy();
    wane_generation g = seeded(&quality, 2, WANE_HOLD_NOTE);
    g.max_tokens = 8;
    wane_ticket *t = send(&rig, "slow", &g);
    WAIT_FOR(&rig, now.reply_tokens >= 9); /* the first is whole, and waits for the others */
    wane_scheduler_stop(rig.scheduler, 0);
    finish(t, &outcome);
    assert_int_equal(outcome.code, WANE_OK);
    assert_int_equal(outcome.texts, 8);
    assert_int_equal(outcome.answers, 3);
    rig_down(&rig);
}

static void test_a_failure_of_all(void **state) {
    (void)state;
    struct rig rig = rig_up(script, quick_options());
    wane_quality quality = legacy();
    for (int hold = WANE_HOLD_NOTE; hold <= WANE_HOLD_VOTE; hold++) {
        wane_generation g = seeded(&quality, 2, hold);
        ask(&rig, "break", &g, &outcome);
        assert_int_equal(outcome.code, WANE_EENGINE);
        WAIT_FOR(&rig, now.slots_busy == 0);
    }
    wane_generation g = seeded(&quality, 2, WANE_HOLD_NOTE);
    ask(&rig, "tell", &g, &outcome);
    assert_int_equal(outcome.code, WANE_OK);
    rig_down(&rig);
}

/* Votes and plain requests side by side: nobody's tokens change. */
static void test_company(void **state) {
    (void)state;
    struct rig rig = rig_up(script, quick_options());
    wane_quality quality = legacy();
    wane_generation voting = seeded(&quality, 9, WANE_HOLD_VOTE), simple = seeded(NULL, 11, WANE_HOLD_NOTE);
    int chosen = foresee(&rig, "tell", voting);
    ask(&rig, "say", &simple, &other);
    wane_ticket *t[12];
    for (int i = 0; i < 12; i++) t[i] = send(&rig, i % 2 ? "tell" : "say", i % 2 ? &voting : &simple);
    for (int i = 0; i < 12; i++) {
        finish(t[i], &outcome);
        assert_int_equal(outcome.code, WANE_OK);
        assert_string_equal(outcome.text, i % 2 ? alone[chosen].text : other.text);
    }
    rig_down(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_reader_gets),
        cmocka_unit_test(test_few_slots),
        cmocka_unit_test(test_answers_share_the_prompt),
        cmocka_unit_test(test_a_reader_who_follows_has_others_behind),
        cmocka_unit_test(test_the_third_is_written_on_demand),
        cmocka_unit_test(test_answers_behind_share_the_prompt),
        cmocka_unit_test(test_answers_behind_are_cut_short),
        cmocka_unit_test(test_answers_behind_a_slow_reader),
        cmocka_unit_test(test_no_vote),
        cmocka_unit_test(test_equal_answers_end_it),
        cmocka_unit_test(test_a_value_decides),
        cmocka_unit_test(test_answers_part_at_the_first_doubt),
        cmocka_unit_test(test_stops_across_the_fork),
        cmocka_unit_test(test_a_crowd),
        cmocka_unit_test(test_cancel_at_any_time),
        cmocka_unit_test(test_out_of_time),
        cmocka_unit_test(test_a_stop_gives_what_is_there),
        cmocka_unit_test(test_a_failure_of_all),
        cmocka_unit_test(test_company),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
