/*
 * test_gate_train.c - training where the truth is known: the net's order is nearly the best there can be, its odds are those of the
 * traffic, and the same lesson gives the same bits. Then from traces: which positions a vote says something about, and a gate's file.
 */
#include "unit/gate_rig.h"
#include "unit/trace_rig.h"

#include "gate/train.h"

#include <math.h>

/* ------------------------------------------------------------- known odds */

/* A row with one token that stands out more or less, and what follows falling off. */
static uint32_t made_pattern(uint64_t seed, uint64_t i) {
    struct wane__candidate list[WANE__GATE_OVER];
    double lead = 8 * wane__random_unit(seed, 4 * i), fall = 0.2 + 1.5 * wane__random_unit(seed, 4 * i + 1);
    struct wane__gate_view view;
    for (int k = 0; k < WANE__GATE_OVER; k++)
        list[k] = (struct wane__candidate){k, (float)(k == 0 ? lead : -fall * k)};
    wane__gate_look(list, WANE__GATE_OVER, true, 1, &view);
    return view.pattern;
}

static double true_odds(uint32_t pattern, double level) {
    double first = wane__gate_bin_of(pattern, 0), second = wane__gate_bin_of(pattern, 1);
    return level + 0.35 * (first - 28) - 0.12 * (second - 24) + (first > 30 && second < 22 ? 0.6 : 0);
}

struct counts {
    uint32_t seen, kept;
};

/* Positions first … first + count - 1 of the made-up traffic, as tallies. */
static size_t made_tally(uint64_t seed, uint64_t first, size_t count, double level,
                         struct wane__gate_tally **out) {
    struct counts *all = calloc(WANE__GATE_PATTERNS, sizeof *all);
    size_t n = 0;
    for (uint64_t i = first; i < first + count; i++) {
        uint32_t p = made_pattern(seed, i);
        all[p].seen++;
        all[p].kept += wane__random_unit(seed + 1, i) < wane__gate_promise(true_odds(p, level));
    }
    *out = calloc(count, sizeof **out);
    for (uint32_t p = 0; p < WANE__GATE_PATTERNS; p++)
        if (all[p].seen > 0) (*out)[n++] = (struct wane__gate_tally){p, all[p].seen, all[p].kept};
    free(all);
    return n;
}

/* AUC of the true odds. */
static double best_auc(const struct wane__gate_tally *t, size_t count, double level) {
    double pairs = 0, kept = 0, lost = 0;
    for (size_t i = 0; i < count; i++) {
        kept += t[i].kept;
        lost += t[i].seen - t[i].kept;
        for (size_t j = 0; j < count; j++) {
            double a = true_odds(t[i].pattern, level), b = true_odds(t[j].pattern, level);
            double share = a > b ? 1 : a < b ? 0 : 0.5;
            pairs += share * (double)t[i].kept * (double)(t[j].seen - t[j].kept);
        }
    }
    return pairs / (kept * lost);
}

static void check_lesson(size_t count, double level, double auc_gap, double ece_most) {
    struct wane__gate_tally *learn, *check, *held;
    static struct wane__gate_net net, again;
    struct wane__gate_lesson lesson = {.seed = 3};
    wane_error error = {0};
    lesson.learn_count = made_tally(9, 0, count, level, &learn);
    lesson.check_count = made_tally(9, count, count / 4, level, &check);
    size_t held_count = made_tally(9, 2 * count, 40000, level, &held);
    lesson.learn = learn;
    lesson.check = check;
    if (wane__gate_train(&lesson, &net, NULL, &error) != WANE_OK) fail_msg("%s", error.text);
    double auc = wane__gate_auc(&net, held, held_count), best = best_auc(held, held_count, level);
    double ece = wane__gate_ece(&net, held, held_count);
    if (!(auc > best - auc_gap && auc < best + 0.005)) fail_msg("AUC %.4f, the best is %.4f", auc, best);
    if (!(ece < ece_most)) fail_msg("ECE %.4f", ece);
    assert_int_equal(wane__gate_train(&lesson, &again, NULL, &error), WANE_OK);
    assert_memory_equal(&net, &again, sizeof net);
    lesson.seed = 4;
    assert_int_equal(wane__gate_train(&lesson, &again, NULL, &error), WANE_OK);
    assert_memory_not_equal(&net, &again, sizeof net);
    free(learn);
    free(check);
    free(held);
}

static void test_known(void **state) {
    (void)state;
    check_lesson(20000, 0, 0.01, 0.02);
}

/* One position in a hundred is lost: no weights, and the odds are right all the same. */
static void test_rare(void **state) {
    (void)state;
    check_lesson(40000, 2.2, 0.03, 0.01);
}

static void test_few(void **state) {
    (void)state;
    check_lesson(1500, 0, 0.03, 0.06);
}

static void test_one_kind(void **state) {
    (void)state;
    static struct wane__gate_net net;
    struct wane__gate_tally tally = {5, 100, 100};
    struct wane__gate_lesson lesson = {.learn = &tally, .learn_count = 1};
    wane_error error = {0};
    assert_int_equal(wane__gate_train(&lesson, &net, NULL, &error), WANE_EINVAL);
    tally.kept = 0;
    assert_int_equal(wane__gate_train(&lesson, &net, NULL, &error), WANE_EINVAL);
    lesson.learn_count = 0;
    assert_int_equal(wane__gate_train(&lesson, &net, NULL, &error), WANE_EINVAL);
    assert_true(isnan(wane__gate_auc(&net, &tally, 1)) && isnan(wane__gate_ece(&net, NULL, 0)));
}

static void test_measures(void **state) {
    (void)state;
    static struct wane__gate_net net;
    gate_line(&net, -3, 0.1f); /* odds: bin / 10 - 3 */
    struct wane__gate_tally order[] = {{10u << 15, 4, 0}, {20u << 15, 10, 5}, {31u << 15, 6, 6}};
    /* 11 kept, 9 lost: 6 · 9 right, 5 · 4 right, 5 · 5 halves */
    assert_true(fabs(wane__gate_auc(&net, order, 3) - (54 + 20 + 12.5) / 99) < 1e-12);
    struct wane__gate_tally fair[] = {{30u << 15, 1000, 500}}, unfair[] = {{30u << 15, 1000, 300}};
    assert_true(wane__gate_ece(&net, fair, 1) < 1e-6);
    assert_true(fabs(wane__gate_ece(&net, unfair, 1) - 0.2) < 1e-6);
}

static bool stop(void *user, const char *what, double share) {
    (void)user;
    (void)what;
    return share < 0.01;
}

static void test_stopped(void **state) {
    (void)state;
    static struct wane__gate_net net;
    struct wane__gate_tally tally[] = {{5, 100, 50}, {900, 100, 60}};
    struct wane__gate_lesson lesson = {.learn = tally, .learn_count = 2, .progress = stop};
    assert_int_equal(wane__gate_train(&lesson, &net, NULL, NULL), WANE_ECANCELLED);
}

/* -------------------------------------------------------------- from traces */

struct script {
    const char *id;
    const char *of; /* NULL: no vote */
    int answer;
    int start;         /* position of its first token */
    const char *reply; /* a letter a token; a blank: its record is missing */
    float temperature;
};

static void put_answer(struct wane__buf *out, const struct script *s) {
    static const int32_t prompt[] = {1, 2, 3};
    struct wane__trace_request r = {.prompt = prompt, .prompt_count = 3, .max_tokens = 9};
    wane__sampling_defaults(&r.sampling);
    r.sampling.temperature = s->temperature;
    snprintf(r.request, sizeof r.request, "%s", s->id);
    if (s->of != NULL) snprintf(r.vote_of, sizeof r.vote_of, "%s", s->of);
    r.vote_answer = s->answer;
    wane__trace_put_request(out, &r);
    for (int i = 0; s->reply[i] != '\0'; i++) {
        struct wane__trace_token t = rig_token(s->id, s->start, i, (uint64_t)(i + 1));
        t.token = s->reply[i];
        if (s->reply[i] != ' ') wane__trace_put_token(out, &t, NULL, 0);
    }
}

static void put_vote(struct wane__buf *out, const char *of, int chosen) {
    struct wane__trace_vote vote = {.chosen = chosen};
    snprintf(vote.of, sizeof vote.of, "%s", of);
    wane__trace_put_vote(out, &vote);
}

static int train(const char *path, const char *output, wane_gate_report *report, wane_error *error) {
    wane_gate_train_options options;
    wane_gate_train_options_init(&options);
    options.traces = &path;
    options.trace_count = 1;
    options.output = output;
    options.note = "of a test";
    return wane_gate_train(&options, report, error);
}

/* Positions and kept ones of one vote; -1: it was of no use. */
static void check_vote(const struct script *answers, int count, int votes, int chosen, int positions,
                       int kept) {
    struct rig_folder folder;
    struct wane__buf text = {0};
    wane_gate_report report;
    wane_error error = {0};
    char path[400];
    rig_folder_make(&folder);
    wane__trace_put_origin(&text, &rig_origin, 0);
    for (int i = 0; i < count; i++) put_answer(&text, &answers[i]);
    for (int i = 0; i < votes; i++) put_vote(&text, answers[0].id, chosen);
    snprintf(path, sizeof path, "%s/a.jsonl", folder.path);
    rig_save(path, text.data, text.size);
    int status = train(folder.path, NULL, &report, &error);
    assert_true(status == WANE_OK || status == WANE_EINVAL); /* one vote is not enough to learn from */
    assert_int_equal(report.votes, votes > 0);
    assert_int_equal(report.unusable, positions < 0 ? 1 : 0);
    assert_int_equal(report.positions + report.held_positions, positions < 0 ? 0 : positions);
    assert_int_equal(report.kept + report.held_kept, kept);
    wane__buf_free(&text);
    rig_folder_remove(&folder);
}

#define T 0.8f

static void test_positions(void **state) {
    (void)state;
    /* They part at the third token; the first answer has the chosen one's token there, or not. */
    struct script part[] = {{"a", "a", 0, 3, "xyqr", T},
                            {"b", "a", 1, 3, "xyqs", T},
                            {"c", "a", 2, 3, "xyzs", T}};
    check_vote(part, 3, 1, 0, 3, 3);
    check_vote(part, 3, 1, 1, 3, 3);
    check_vote(part, 3, 1, 2, 3, 2);
    /* They never part; one that was cut short has nothing to say behind its end. */
    struct script same[] = {{"a", "a", 0, 3, "xyz", T},
                            {"b", "a", 1, 3, "xyz", T},
                            {"c", "a", 2, 3, "xyzw", T}};
    check_vote(same, 3, 1, 2, 3, 3);
    /* The request itself did not say that it is answer 0: others named it. */
    struct script plain[] = {{"a", NULL, 0, 3, "xy", T},
                             {"b", "a", 1, 3, "xq", T},
                             {"c", "a", 2, 3, "xq", T}};
    check_vote(plain, 3, 1, 1, 2, 1);
    /* The others forked at the third token: what stands before was not sampled by them. */
    struct script fork[] = {{"a", "a", 0, 3, "xyzwv", T},
                            {"b", "a", 1, 5, "zwq", T},
                            {"c", "a", 2, 5, "zwv", T}};
    check_vote(fork, 3, 1, 1, 3, 2);
    /* A record was withheld: nothing can be said from there on. */
    struct script hole[] = {{"a", "a", 0, 3, "xy zw", T},
                            {"b", "a", 1, 3, "xyzzw", T},
                            {"c", "a", 2, 3, "xyzzq", T}};
    check_vote(hole, 3, 1, 0, 2, 2);
}

static void test_useless_votes(void **state) {
    (void)state;
    struct script whole[] = {{"a", "a", 0, 3, "xy", T}, {"b", "a", 1, 3, "xy", T}, {"c", "a", 2, 3, "xz", T}};
    struct script greedy[] = {{"a", "a", 0, 3, "xy", 0},
                              {"b", "a", 1, 3, "xy", 0},
                              {"c", "a", 2, 3, "xy", 0}};
    struct script twice[] = {{"a", "a", 0, 3, "xy", T}, {"b", "a", 1, 3, "xy", T}, {"c", "a", 1, 3, "xz", T}};
    struct script again[] = {{"a", "a", 0, 3, "xy", T},
                             {"b", "a", 1, 3, "xy", T},
                             {"c", "a", 2, 3, "xy", T},
                             {"c", "a", 2, 3, "xy", T}};
    struct script empty[] = {{"a", "a", 0, 3, "xy", T}, {"b", "a", 1, 3, "", T}, {"c", "a", 2, 3, "xy", T}};
    struct script chain[] = {{"a", "a", 0, 3, "xy", T}, {"b", "a", 1, 3, "xy", T}, {"c", "b", 2, 3, "xy", T}};
    check_vote(whole, 2, 1, 0, -1, 0); /* one is missing */
    check_vote(whole, 3, 2, 0, -1, 0); /* chosen twice */
    check_vote(whole, 3, 0, 0, 0, 0);  /* nothing was chosen: no vote at all */
    check_vote(greedy, 3, 1, 0, -1, 0);
    check_vote(twice, 3, 1, 0, -1, 0);
    check_vote(again, 4, 1, 0, -1, 0);
    check_vote(empty, 3, 1, 0, -1, 0);
    check_vote(chain, 3, 1, 0, -1, 0);
}

/* Three answers that are drawn, with records whose candidates say how sure the draw is. */
static void put_drawn(struct wane__buf *out, uint64_t n) {
    static const int32_t prompt[] = {1, 2, 3};
    for (int answer = 0; answer < 3; answer++) {
        struct wane__trace_request r = {.prompt = prompt, .prompt_count = 3, .vote_answer = answer};
        wane__sampling_defaults(&r.sampling);
        snprintf(r.request, sizeof r.request, "r%d-%d", (int)n, answer);
        snprintf(r.vote_of, sizeof r.vote_of, "r%d-0", (int)n);
        wane__trace_put_request(out, &r);
        for (int i = 0; i < 12; i++) {
            struct wane__trace_token t = rig_token(r.request, 3, i, 1);
            double lead = 8 * wane__random_unit(n, (uint64_t)i), w[64], sum = 0;
            double u = wane__random_unit(n * 3 + (uint64_t)answer, 1000 + (uint64_t)i);
            t.top_count = 64;
            for (int k = 0; k < 64; k++) {
                t.top[k] = (struct wane__candidate){k, (float)(k == 0 ? lead : -0.5 * k)};
                sum += w[k] = exp((double)t.top[k].logit);
            }
            for (t.token = 0, u *= sum; t.token < 63 && u >= w[t.token]; t.token++) u -= w[t.token];
            wane__trace_put_token(out, &t, NULL, 0);
        }
    }
    struct wane__trace_vote vote = {.chosen = (int)(wane__random_bits(n, 5000) % 3)};
    snprintf(vote.of, sizeof vote.of, "r%d-0", (int)n);
    wane__trace_put_vote(out, &vote);
}

static void test_file(void **state) {
    (void)state;
    struct rig_folder folder;
    struct wane__buf text = {0};
    wane_gate_report report;
    wane_gate_facts facts;
    wane_error error = {0};
    char path[400], gate[400], again[400];
    rig_folder_make(&folder);
    wane__trace_put_origin(&text, &rig_origin, 0);
    for (uint64_t n = 0; n < 400; n++) put_drawn(&text, n);
    snprintf(path, sizeof path, "%s/a.jsonl", folder.path);
    snprintf(gate, sizeof gate, "%s/x.gate", folder.path);
    snprintf(again, sizeof again, "%s/y.gate", folder.path);
    rig_save(path, text.data, text.size);
    if (train(path, gate, &report, &error) != WANE_OK) fail_msg("%s", error.text);
    assert_int_equal(report.votes, 400);
    assert_int_equal(report.records, 400 * 36);
    assert_true(report.held_votes > 50 && report.held_votes < 110);
    assert_true(report.auc > 0.7 && report.ece < 0.1 && report.coverage > 0.9);
    assert_true(report.kept < report.positions && report.held_kept < report.held_positions);
    assert_int_equal(train(path, again, NULL, &error), WANE_OK);
    size_t size, other_size;
    char *one = rig_load(gate, &size), *two = rig_load(again, &other_size);
    assert_int_equal(size, other_size);
    assert_int_equal(size, report.bytes);
    assert_memory_equal(one, two, size);
    free(one);
    free(two);
    assert_int_equal(wane_gate_get_facts(gate, &facts, &error), WANE_OK);
    assert_string_equal(facts.model, rig_origin.model);
    assert_string_equal(facts.note, "of a test");
    assert_true(facts.allowance > 0 && facts.allowance < 1 && facts.allowance == (float)report.allowance);
    assert_true(facts.auc == report.auc && facts.patterns == report.patterns && facts.votes == 400);
    wane__buf_free(&text);
    rig_folder_remove(&folder);
}

static void test_refused(void **state) {
    (void)state;
    struct rig_folder folder;
    struct wane__buf text = {0};
    wane_gate_train_options options;
    wane_error error = {0};
    char path[400];
    const char *traces = path;
    rig_folder_make(&folder);
    wane__trace_put_origin(&text, &rig_origin, 0);
    snprintf(path, sizeof path, "%s/a.jsonl", folder.path);
    rig_save(path, text.data, text.size);
    wane_gate_train_options_init(&options);
    assert_int_equal(wane_gate_train(&options, NULL, &error), WANE_EINVAL);
    options.traces = &traces;
    options.trace_count = 1;
    assert_int_equal(wane_gate_train(&options, NULL, &error), WANE_EINVAL); /* no vote at all */
    memset(options.model, 'a', 32);
    memset(options.tokenizer, 'a', 32);
    options.vocab_size = 7;
    assert_int_equal(wane_gate_train(&options, NULL, &error), WANE_EINVAL);
    if (strstr(error.text, "recorded from the model") == NULL) fail_msg("%s", error.text);
    options.model[0] = '\0';
    rig_save(path, "{}\n", 3);
    assert_int_equal(wane_gate_train(&options, NULL, &error), WANE_EFORMAT);
    rig_folder_remove(&folder);
    assert_int_equal(wane_gate_train(&options, NULL, &error), WANE_ENOENT);
    options.size = 1;
    assert_int_equal(wane_gate_train(&options, NULL, &error), WANE_EINVAL);
    wane__buf_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known),     cmocka_unit_test(test_rare),
        cmocka_unit_test(test_few),       cmocka_unit_test(test_one_kind),
        cmocka_unit_test(test_measures),  cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_positions), cmocka_unit_test(test_useless_votes),
        cmocka_unit_test(test_file),      cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
