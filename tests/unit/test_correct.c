/*
 * test_correct.c - the corrections of single tokens: the vote's closed form against all triples, LEGACY against WANE against what
 * algebra says over millions of draws, each part against the plain sampler, and from the certified head as from the dense one.
 */
#include "unit/head_rig.h"
#include "unit/sample_reference.h"

#include "correct/correct.h"
#include "correct/vote.h"

/* ----------------------------------------------------------------- closed form */

/* As people would count it: all ordered triples. */
static void enumerate(const double *p, int count, double *out) {
    for (int i = 0; i < count; i++) out[i] = 0;
    for (int a = 0; a < count; a++)
        for (int b = 0; b < count; b++)
            for (int c = 0; c < count; c++) {
                int least = a < b ? a : b, winner = least < c ? least : c;
                if (b == c) winner = b;
                if (a == b || a == c) winner = a;
                out[winner] += p[a] * p[b] * p[c];
            }
}

static void fill_shares(double *p, int count, int kind) {
    double sum = 0;
    for (int i = 0; i < count; i++) {
        double u = unit();
        p[i] = kind == 0 ? u : kind == 1 ? 1 : kind == 2 ? pow(1e-6, u * i) : i < 2 ? 1 : 1e-12 * u;
        if (kind == 4) p[i] = i == 0 ? 1 : 0;
        sum += p[i];
    }
    for (int i = 0; i < count; i++) p[i] /= sum;
    for (int i = 1; i < count; i++) /* best first */
        for (int j = i; j > 0 && p[j] > p[j - 1]; j--) {
            double other = p[j];
            p[j] = p[j - 1];
            p[j - 1] = other;
        }
}

static void test_closed_form(void **unused) {
    (void)unused;
    double p[256], closed[256], counted[12];
    for (int count = 1; count <= 12; count++)
        for (int kind = 0; kind < 5; kind++)
            for (int round = 0; round < 20; round++) {
                fill_shares(p, count, kind);
                wane__vote_closed(p, count, closed);
                enumerate(p, count, counted);
                for (int i = 0; i < count; i++)
                    assert_true(fabs(closed[i] - counted[i]) <= 1e-14 * counted[i] + 1e-300);
            }
    for (int count = 1; count <= 256; count++)
        for (int kind = 0; kind < 5; kind++) {
            double sum = 0;
            fill_shares(p, count, kind);
            wane__vote_closed(p, count, closed);
            for (int i = 0; i < count; i++) {
                assert_true(closed[i] >= 0 && closed[i] <= 1 + 1e-15);
                sum += closed[i];
            }
            assert_true(fabs(sum - 1) < 1e-13);
        }
}

static void test_winner(void **unused) {
    (void)unused;
    assert_int_equal(wane__vote_winner(4, 4, 4), 4);
    assert_int_equal(wane__vote_winner(4, 1, 4), 4);
    assert_int_equal(wane__vote_winner(4, 4, 1), 4);
    assert_int_equal(wane__vote_winner(1, 4, 4), 4);
    assert_int_equal(wane__vote_winner(5, 3, 4), 3);
    assert_int_equal(wane__vote_winner(3, 4, 5), 3);
    assert_int_equal(wane__vote_winner(4, 5, 3), 3);
}

static void test_hold_on_shares(void **unused) {
    (void)unused;
    double p[3] = {0.5, 0.3, 0.2}, share = 0;
    bool held[3] = {true, false, true};
    assert_false(wane__vote_hold(p, held, 3, 0.7000001, -1, &share));
    assert_true(fabs(share - 0.7) < 1e-15 && p[0] >= 0.5 && p[0] <= 0.5);
    assert_true(wane__vote_hold(p, held, 3, 0.07, -1, &share));
    assert_true(fabs(p[0] - 0.05) < 1e-15 && fabs(p[1] - 0.93) < 1e-15 && fabs(p[2] - 0.02) < 1e-15);
    double alone[2] = {1, 0};
    bool first[2] = {true, false};
    assert_false(wane__vote_hold(alone, first, 1, 0.05, -1, &share));
    assert_true(wane__vote_hold(alone, first, 2, 0.05, 1, &share));
    assert_true(fabs(alone[0] - 0.05) < 1e-15 && fabs(alone[1] - 0.95) < 1e-15);
}

static void test_dialogue(void **unused) {
    (void)unused;
    wane_quality q;
    wane_quality_init(&q);
    assert_true(wane__dialogue_temperature(&q, 0.8f, 0) >= 0.8f);
    assert_true(fabsf(wane__dialogue_temperature(&q, 0.8f, 1024) - 0.8f * 0.9f) < 1e-6f);
    assert_true(fabsf(wane__dialogue_temperature(&q, 0.8f, 3 * 1024) - 0.8f * 0.8f) < 1e-6f);
    assert_true(fabsf(wane__dialogue_temperature(&q, 0.8f, 1 << 24) - 0.8f * 0.6f) < 1e-6f);
    q.dialogue_slope = 0;
    assert_true(wane__dialogue_temperature(&q, 0.8f, 1 << 24) >= 0.8f);
    q.dialogue_slope = 1, q.dialogue_floor = 0;
    assert_true(wane__dialogue_temperature(&q, 0.8f, 1 << 24) <= 0);
}

/* Three streams that share no number, whatever seeds people count up. */
static void test_numbers(void **unused) {
    (void)unused;
    static double seen[4 * 40 * 5];
    int count = 0;
    for (uint64_t seed = 0; seed < 40; seed++)
        for (uint64_t index = 0; index < 4; index++)
            for (int draw = WANE__DRAW_FIRST; draw <= WANE__DRAW_AGAIN; draw++) {
                double u = wane__correction_unit(seed, index, (enum wane__draw)draw);
                if (draw == WANE__DRAW_FIRST) assert_true(u == wane__random_unit(seed, index));
                for (int i = 0; i < count; i++) assert_true(u != seen[i]);
                seen[count++] = u;
            }
}

/* ----------------------------------------------------------------- draws */

static int no_tokens(void *user, const char *text, size_t size, wane_tokens *out, wane_error *error) {
    (void)user, (void)text, (void)size, (void)out, (void)error;
    return WANE_OK;
}

static int no_bytes(void *user, int32_t token, char *buffer, size_t capacity) {
    (void)user, (void)token, (void)buffer, (void)capacity;
    return 0;
}

/* Rules that hold these tokens, whatever was written; NULL: none. */
static struct wane__rules *rules_of(const char *tokens) {
    const struct wane__rules_tokenizer tokenizer = {no_tokens, no_bytes, NULL, 1 << 20};
    struct wane__rules *rules;
    wane_error error = {0};
    char text[300];
    if (tokens == NULL) return NULL;
    int size = snprintf(text, sizeof text, "[{\"name\":\"all\",\"pattern\":\"$\",\"tokens\":[%s]}]", tokens);
    if (wane__rules_parse("test", text, (size_t)size, &tokenizer, &rules, &error) != WANE_OK)
        fail_msg("%s", error.text);
    return rules;
}

struct scene {
    const char *what;
    int vocab;
    float logit[80];
    float temperature, top_p, min_p;
    int top_k, clamp;
    const char *hold;
    bool no_vote;
    int draws; /* thousands; 0: 60 */
};

static const struct scene scenes[] = {
    {"falling", 8, {3, 2.5f, 2, 1.5f, 1, 0, -1, -3}, 1, 1, 0, 0, 50, NULL, false, 1000},
    {"a million with a hold", 6, {2, 1.5f, 1, 0.5f, 0, -1}, 0.8f, 1, 0, 0, 50, "0,3", false, 1000},
    {"ties", 7, {1, 2, 2, 2, 1, 1, 0}, 1, 1, 0, 0, 50, NULL, false, 0},
    {"ties, held", 7, {1, 2, 2, 2, 1, 1, 0}, 1, 1, 0, 0, 50, "2,4,0", false, 0},
    {"all equal", 5, {0, 0, 0, 0, 0}, 1, 1, 0, 0, 50, "1", false, 0},
    {"one token", 1, {0}, 1, 1, 0, 0, 50, NULL, false, 0},
    {"two tokens", 2, {0, 0.7f}, 1, 1, 0, 0, 50, NULL, false, 0},
    {"two tokens, the better one held", 2, {0, 0.7f}, 1, 1, 0, 0, 50, "1", false, 0},
    {"three tokens", 3, {0, 0.7f, 0.2f}, 1.3f, 1, 0, 0, 50, NULL, false, 0},
    {"three tokens, two held", 3, {0, 0.7f, 0.2f}, 1.3f, 1, 0, 0, 50, "0,1", false, 0},
    {"three tokens, all held", 3, {0, 0.7f, 0.2f}, 1, 1, 0, 0, 50, "0,1,2", false, 0},
    {"held by less than the hold", 4, {5, 1, 0, -1}, 1, 1, 0, 0, 50, "2,3", false, 0},
    {"the held one has it all", 4, {9, 1, 0, -1}, 0.5f, 0.9f, 0, 0, 50, "0", false, 0},
    {"top-k 1, held", 4, {3, 2, 1, 0}, 1, 1, 0, 1, 50, "0,1", false, 0},
    {"top-p", 8, {3, 2.5f, 2, 1.5f, 1, 0, -1, -3}, 2, 0.8f, 0, 0, 50, "1", false, 0},
    {"min-p", 8, {3, 2.5f, 2, 1.5f, 1, 0, -1, -3}, 1.5f, 1, 0.2f, 0, 50, "0,2", false, 0},
    {"clamp 3", 8, {3, 2.5f, 2, 1.5f, 1, 0, -1, -3}, 2, 0.95f, 0.01f, 0, 3, "2", false, 0},
    {"cold", 6, {1, 0.9f, 0.8f, 0.7f, 0, -1}, 0.1f, 1, 0, 0, 50, "0", false, 0},
    {"no vote, a hold", 6, {2, 1.5f, 1, 0.5f, 0, -1}, 1, 1, 0, 0, 50, "0,3", true, 0},
    {"greedy", 4, {1, 3, 3, 0}, 0, 1, 0, 0, 50, NULL, false, 1},
    {"greedy, held", 4, {1, 3, 3, 0}, 0, 1, 0, 0, 50, "1", false, 1},
    {"greedy, both held", 4, {1, 3, 3, 0}, 0, 1, 0, 40, 50, "1,2", false, 1},
};
enum { SCENES = sizeof scenes / sizeof *scenes };

static wane_sampling sampling_of(const struct scene *s) {
    wane_sampling sampling;
    wane__sampling_defaults(&sampling);
    sampling.temperature = s->temperature;
    sampling.top_k = s->top_k;
    sampling.top_p = s->top_p;
    sampling.min_p = s->min_p;
    sampling.seeded = true;
    sampling.seed = 4711;
    return sampling;
}

static bool is_held(const struct scene *s, int32_t token) {
    for (const char *at = s->hold; at != NULL && *at != '\0'; at = strchr(at, ',') ? strchr(at, ',') + 1 : "")
        if (atoi(at) == token) return true;
    return false;
}

/* What algebra says, from the plainest sampler and all triples: the probability of each token, with `more` votes over the vote. */
static void expect(const struct scene *s, int more, double *out) {
    enum { MOST = 16 };
    struct wane__candidate list[80];
    double p[MOST], voted[MOST], in = 0, others = 0;
    wane_sampling sampling = sampling_of(s);
    if (s->clamp > 0 && (s->top_k == 0 || s->top_k > s->clamp)) sampling.top_k = s->clamp;
    struct reference r = reference_draw(&sampling, s->logit, s->vocab, NULL, 0, 0.5, list);
    double sum = 0;
    for (int i = 0; i < s->vocab; i++) out[i] = 0;
    for (int i = 0; i < r.count; i++)
        sum += p[i] = s->temperature <= 0 ? 1 : (double)reference_weight(&r, i, (double)(1 / s->temperature));
    for (int i = 0; i < r.count; i++) p[i] /= sum;
    enumerate(p, r.count, voted);
    if (s->no_vote) memcpy(voted, p, sizeof p);
    for (int i = 0; i < more; i++) {
        memcpy(p, voted, sizeof p);
        enumerate(p, r.count, voted);
    }
    for (int i = 0; i < r.count; i++) *(is_held(s, list[i].token) ? &in : &others) += voted[i];
    int best = -1; /* that is not held, of all */
    for (int i = 0; i < s->vocab; i++)
        if (!is_held(s, i) && (best < 0 || s->logit[i] > s->logit[best])) best = i;
    double hold = s->temperature <= 0 ? 0 : (double)0.05f;
    bool works = in > (double)0.05f && (others > 0 || best >= 0);
    for (int i = 0; i < r.count; i++) {
        bool held = is_held(s, list[i].token);
        out[list[i].token] = !works ? voted[i] : voted[i] * (held ? hold / in : (1 - hold) / others);
    }
    if (works && !(others > 0)) out[best] = 1 - hold;
}

/* Wilson and Hilferty: chi-square of so many degrees lies beyond five sigmas of a normal one. */
static bool unlikely(double chi, int degrees) {
    if (degrees < 1) return chi > 1e-3; /* one token has all but a part in a million */
    double part = 2.0 / (9 * degrees);
    return chi > degrees * pow(1 - part + 5 * sqrt(part), 3);
}

static double against(const int *seen, const double *p, int count, int draws, int *degrees) {
    double chi = 0, rest_seen = 0, rest = 0;
    int bins = 0;
    for (int i = 0; i < count; i++) {
        double want = p[i] * draws;
        if (want < 10) {
            rest += want;
            rest_seen += seen[i];
            continue;
        }
        chi += (seen[i] - want) * (seen[i] - want) / want;
        bins++;
    }
    if (rest > 1) {
        chi += (rest_seen - rest) * (rest_seen - rest) / rest;
        bins++;
    } else {
        assert_true(rest_seen < 12);
        if (rest <= 0) assert_true(rest_seen <= 0);
    }
    *degrees = bins - 1;
    return chi;
}

static double between(const int *a, const int *b, int count, int *degrees) {
    double chi = 0;
    *degrees = -1;
    for (int i = 0; i < count; i++) {
        if (a[i] + b[i] == 0) continue;
        chi += (double)(a[i] - b[i]) * (a[i] - b[i]) / (a[i] + b[i]);
        ++*degrees;
    }
    return chi;
}

static void draw_scene(const struct scene *s, int mode, int more, int draws, int *seen) {
    struct wane__rules *rules = rules_of(s->hold);
    struct wane__correction *c = malloc(sizeof *c);
    struct wane__sampler *sampler;
    struct wane__dense_source dense;
    struct wane__choice choice;
    struct wane__corrected did;
    wane_error error = {0};
    wane_quality q;
    wane_sampling sampling = sampling_of(s);
    wane_quality_init(&q);
    q.mode = mode;
    q.clamp = s->clamp;
    q.dialogue_slope = 0;
    q.token_vote = !s->no_vote;
    memset(seen, 0, (size_t)s->vocab * sizeof *seen);
    wane__dense_source_init(&dense, s->logit, s->vocab);
    assert_int_equal(wane__sampler_new(&sampling, s->vocab, &sampler, &error), WANE_OK);
    wane__correction_init(c, &q, &sampling, sampling.seed, 10, rules);
    c->more_votes = more;
    for (int i = 0; i < draws; i++) {
        int status =
            c->mode == WANE_MODE_OFF
                ? wane__sampler_draw(sampler, &dense.source, (uint64_t)i, &choice, &error)
                : wane__correction_draw(c, sampler, &dense.source, (uint64_t)i, &choice, &did, &error);
        if (status != WANE_OK) fail_msg("%s", error.text);
        seen[choice.token]++;
    }
    wane__sampler_free(sampler);
    wane__rules_free(rules);
    free(c);
}

static void test_legacy_is_wane_is_algebra(void **unused) {
    (void)unused;
    for (int i = 0; i < SCENES; i++) {
        const struct scene *s = &scenes[i];
        int draws = (s->draws > 0 ? s->draws : 60) * (SANITIZED ? 100 : 1000), degrees;
        int legacy[80], wane[80];
        double p[80];
        expect(s, 0, p);
        draw_scene(s, WANE_MODE_LEGACY, 0, draws, legacy);
        draw_scene(s, WANE_MODE_WANE, 0, draws, wane);
        double chi = against(legacy, p, s->vocab, draws, &degrees);
        if (unlikely(chi, degrees)) fail_msg("%s: legacy: %g with %d", s->what, chi, degrees);
        chi = against(wane, p, s->vocab, draws, &degrees);
        if (unlikely(chi, degrees)) fail_msg("%s: wane: %g with %d", s->what, chi, degrees);
        chi = between(legacy, wane, s->vocab, &degrees);
        if (unlikely(chi, degrees)) fail_msg("%s: both: %g with %d", s->what, chi, degrees);
    }
}

static void test_votes_over_votes(void **unused) {
    (void)unused;
    for (int i = 0; i < SCENES; i++)
        for (int more = 1; more <= 2; more++) {
            const struct scene *s = &scenes[i];
            int draws = SANITIZED ? 6000 : 60000, degrees, seen[80];
            double p[80];
            if (s->clamp == 0 && s->no_vote && s->hold == NULL) continue; /* nothing is corrected */
            expect(s, more, p);
            draw_scene(s, WANE_MODE_WANE, more, draws, seen);
            double chi = against(seen, p, s->vocab, draws, &degrees);
            if (unlikely(chi, degrees)) fail_msg("%s, %d more: %g with %d", s->what, more, chi, degrees);
        }
}

/* ---------------------------------------------------------- part by part */

struct pair {
    struct wane__sampler *plain, *sampler;
    struct wane__correction *c;
    struct wane__dense_source dense;
};

static void pair_up(struct pair *pair, const wane_sampling *plain, const wane_sampling *sampling,
                    const wane_quality *q, int context, struct wane__rules *rules, const float *row,
                    int vocab) {
    wane_error error = {0};
    pair->c = malloc(sizeof *pair->c);
    assert_int_equal(wane__sampler_new(plain, vocab, &pair->plain, &error), WANE_OK);
    assert_int_equal(wane__sampler_new(sampling, vocab, &pair->sampler, &error), WANE_OK);
    wane__correction_init(pair->c, q, sampling, sampling->seed, context, rules);
    wane__dense_source_init(&pair->dense, row, vocab);
}

static void pair_down(struct pair *pair) {
    wane__sampler_free(pair->plain);
    wane__sampler_free(pair->sampler);
    free(pair->c);
}

/* The plain sampler's choice and the corrected one, candidates and logprobs, for the same number. */
static void pair_draw(struct pair *pair, uint64_t index, struct wane__choice *plain,
                      struct wane__choice *corrected, struct wane__corrected *did) {
    wane_error error = {0};
    assert_int_equal(wane__sampler_draw(pair->plain, &pair->dense.source, index, plain, &error), WANE_OK);
    wane__step_enter();
    int status =
        wane__correction_draw(pair->c, pair->sampler, &pair->dense.source, index, corrected, did, &error);
    wane__step_leave();
    if (status != WANE_OK) fail_msg("%s", error.text);
}

static void some_row(float *row, int vocab) {
    int kind = below(4);
    for (int i = 0; i < vocab; i++)
        row[i] = kind == 0 ? (float)below(4) : kind == 1 ? 0.1f * gaussian() : (float)kind * gaussian();
}

static wane_quality only(int mode) {
    wane_quality q;
    wane_quality_init(&q);
    q.mode = mode;
    q.clamp = 0;
    q.dialogue_slope = 0;
    q.token_vote = false;
    return q;
}

static wane_sampling some_sampling(void) {
    static const float top_p[] = {1, 0.95f, 0.6f, 0}, min_p[] = {0, 0.05f, 0.3f};
    static const float temperature[] = {0.2f, 0.8f, 1, 2};
    wane_sampling s;
    wane__sampling_defaults(&s);
    s.top_k = below(3) == 0 ? 0 : 1 + below(60);
    s.top_p = top_p[below(4)];
    s.min_p = min_p[below(3)];
    s.temperature = temperature[below(4)];
    s.seeded = true;
    s.seed = rig_state;
    s.top_logprobs = below(3) - 1;
    return s;
}

/* A clamp is a top-k, a dialogue a temperature: both draw what the sampler draws with these, candidates and logprobs included. */
static void test_clamp_and_dialogue(void **unused) {
    (void)unused;
    enum { V = 500 };
    static float row[V];
    for (int round = 0; round < 400; round++) {
        wane_sampling s = some_sampling(), other = s;
        wane_quality q = only(round % 2 ? WANE_MODE_LEGACY : WANE_MODE_WANE);
        bool clamps = below(2);
        struct pair pair;
        if (clamps) {
            q.clamp = 1 + below(30);
            if (s.top_k == 0 || s.top_k > q.clamp) other.top_k = q.clamp;
        } else {
            q.dialogue_slope = 0.3f;
            q.dialogue_floor = 0.1f;
            q.dialogue_scale = 16;
            if (s.top_k == 0) s.top_k = other.top_k = 100;
            other.temperature = wane__dialogue_temperature(&q, s.temperature, 100);
            assert_true(other.temperature < s.temperature);
        }
        some_row(row, V);
        pair_up(&pair, &other, &s, &q, 100, NULL, row, V);
        if (clamps && other.top_k == s.top_k) assert_int_equal(pair.c->mode, WANE_MODE_OFF);
        for (uint64_t index = 0; index < 20 && pair.c->mode != WANE_MODE_OFF; index++) {
            struct wane__choice plain, corrected;
            struct wane__corrected did;
            pair_draw(&pair, index, &plain, &corrected, &did);
            assert_int_equal(plain.token, corrected.token);
            assert_true(plain.candidate_count <= corrected.candidate_count);
            for (int i = 0; i < plain.candidate_count; i++)
                assert_memory_equal(&plain.candidates[i], &corrected.candidates[i], sizeof *plain.candidates);
            assert_int_equal(plain.has_logprob, corrected.has_logprob);
            if (plain.has_logprob) assert_true(plain.logprob == corrected.logprob);
            /* And it is told from the draw without it. */
            struct wane__choice without;
            wane_error error = {0};
            assert_int_equal(wane__sampler_draw(pair.sampler, &pair.dense.source, index, &without, &error),
                             WANE_OK);
            enum wane__part part = clamps ? WANE__PART_CLAMP : WANE__PART_DIALOGUE;
            assert_true(did.ran[part]);
            assert_int_equal(did.changed[part], without.token != corrected.token);
            assert_int_equal(did.any, without.token != corrected.token);
        }
        pair_down(&pair);
    }
}

/* With all parts: the token is in the support, and what is said of the parts adds up. */
static void test_all_parts(void **unused) {
    (void)unused;
    enum { V = 500 };
    static float row[V];
    int changed[WANE__PARTS] = {0}, held = 0, drawn = 0, more = 0;
    struct wane__rules *rules = rules_of("0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24");
    for (int round = 0; round < 600; round++) {
        wane_sampling s = some_sampling();
        wane_quality q = only(round % 2 ? WANE_MODE_LEGACY : WANE_MODE_WANE);
        wane_bias bias[2] = {{7, 3}, {300, -INFINITY}};
        s.bias = bias;
        s.bias_count = 2;
        s.repeat_penalty = 1.2f;
        if (below(10) == 0) s.temperature = 0;
        q.clamp = 1 + below(60);
        q.dialogue_slope = 0.1f;
        q.token_vote = true;
        q.hold = below(2) ? 0.05f : 0;
        struct pair pair;
        some_row(row, V);
        for (int i = 0; i < 25; i++) row[i] += 1;
        pair_up(&pair, &s, &s, &q, 5000, rules, row, V);
        for (int i = 0; i < 30; i++) {
            int32_t token = below(V);
            wane__sampler_accept(pair.plain, token);
            wane__sampler_accept(pair.sampler, token);
        }
        for (uint64_t index = 0; index < 10; index++) {
            struct wane__choice plain, corrected;
            struct wane__corrected did;
            pair_draw(&pair, index, &plain, &corrected, &did);
            bool any = false;
            for (int i = 0; i < WANE__PARTS; i++) {
                if (!did.ran[i]) assert_false(did.changed[i]);
                changed[i] += did.changed[i];
                any = any || did.changed[i];
            }
            assert_int_equal(any, did.any);
            if (!did.any) assert_int_equal(plain.token, corrected.token);
            assert_true(corrected.token != 300);
            if (s.temperature <= 0) assert_true(did.draws == 0 && (!did.held || corrected.token >= 25));
            if (q.hold <= 0 && did.held) assert_true(corrected.token >= 25);
            if (q.mode == WANE_MODE_WANE) assert_true(did.draws <= 1);
            drawn += q.mode == WANE_MODE_LEGACY && s.temperature > 0;
            if (q.mode == WANE_MODE_LEGACY && s.temperature > 0) more += did.draws;
            held += did.held;
        }
        pair_down(&pair);
    }
    for (int i = 0; i < WANE__PARTS; i++) assert_true(changed[i] > 20);
    assert_true(held > 500 && more > 3 * drawn && more < 5 * drawn);
    wane__rules_free(rules);
}

/* Nothing to do is nothing done, so that the plain path is taken. */
static void test_off(void **unused) {
    (void)unused;
    struct wane__correction *c = malloc(sizeof *c);
    struct wane__rules *rules = rules_of("1");
    wane_sampling s;
    wane_quality q;
    wane__sampling_defaults(&s);
    wane_quality_init(&q);
    wane__correction_init(c, NULL, &s, 1, 5, rules);
    assert_int_equal(c->mode, WANE_MODE_OFF);
    wane__correction_init(c, &q, &s, 1, 5, rules);
    assert_int_equal(c->mode, WANE_MODE_OFF);
    for (int mode = WANE_MODE_LEGACY; mode <= WANE_MODE_WANE; mode++) {
        q = only(mode);
        wane__correction_init(c, &q, &s, 1, 5, NULL);
        assert_int_equal(c->mode, WANE_MODE_OFF);
        q.clamp = 40; /* no more than the request's top-k */
        wane__correction_init(c, &q, &s, 1, 5, NULL);
        assert_int_equal(c->mode, WANE_MODE_OFF);
        q.rules = false;
        wane__correction_init(c, &q, &s, 1, 5, rules);
        assert_int_equal(c->mode, WANE_MODE_OFF);
        wane_quality_init(&q);
        q.mode = mode;
        s.temperature = 0; /* clamp, dialogue and vote have no say in a greedy reply */
        wane__correction_init(c, &q, &s, 1, 5000, NULL);
        assert_int_equal(c->mode, WANE_MODE_OFF);
        wane__correction_init(c, &q, &s, 1, 5000, rules);
        assert_int_equal(c->mode, mode);
        s.temperature = 0.8f;
        wane__correction_init(c, &q, &s, 1, 5000, NULL);
        assert_int_equal(c->mode, mode);
    }
    wane__rules_free(rules);
    free(c);
}

/* A temperature that the dialogue takes all of is greedy, and so is the vote. */
static void test_dialogue_to_nothing(void **unused) {
    (void)unused;
    const float row[4] = {1, 2, 2, 0};
    struct wane__rules *rules = rules_of("1");
    for (int mode = WANE_MODE_LEGACY; mode <= WANE_MODE_WANE; mode++)
        for (int held = 0; held < 2; held++) {
            wane_sampling s;
            wane__sampling_defaults(&s);
            s.seeded = true;
            s.top_k = 0;
            wane_quality q = only(mode);
            q.token_vote = true;
            q.dialogue_slope = 1, q.dialogue_floor = 0, q.dialogue_scale = 10;
            struct pair pair;
            pair_up(&pair, &s, &s, &q, 100, held ? rules : NULL, row, 4);
            for (uint64_t index = 0; index < 50; index++) {
                struct wane__choice plain, corrected;
                struct wane__corrected did;
                pair_draw(&pair, index, &plain, &corrected, &did);
                assert_int_equal(corrected.token, held ? 2 : 1);
                assert_int_equal(did.changed[WANE__PART_DIALOGUE], plain.token != 1);
                assert_int_equal(did.changed[WANE__PART_RULES], held);
            }
            pair_down(&pair);
        }
    wane__rules_free(rules);
}

/* NaN, an overflow, a bias that forbids all: the plain draw's errors. */
static void test_refusals(void **unused) {
    (void)unused;
    float nan[3] = {1, NAN, 0}, over[3] = {1, INFINITY, 0}, none[3] = {-INFINITY, -INFINITY, -INFINITY};
    const float *rows[3] = {nan, over, none};
    for (int kind = 0; kind < 3; kind++)
        for (int mode = WANE_MODE_LEGACY; mode <= WANE_MODE_WANE; mode++)
            for (int top_k = 0; top_k < 3; top_k += 2) {
                struct wane__choice choice;
                struct wane__corrected did;
                struct pair pair;
                wane_error first = {0}, second = {0};
                wane_quality q = only(mode);
                wane_sampling s;
                wane__sampling_defaults(&s);
                s.top_k = top_k;
                q.token_vote = true;
                q.clamp = 2;
                pair_up(&pair, &s, &s, &q, 0, NULL, rows[kind], 3);
                int plain = wane__sampler_draw(pair.plain, &pair.dense.source, 0, &choice, &first);
                int code = wane__correction_draw(pair.c, pair.sampler, &pair.dense.source, 0, &choice, &did,
                                                 &second);
                assert_int_equal(plain, WANE_EENGINE);
                assert_int_equal(code, plain);
                assert_string_equal(first.text, second.text);
                pair_down(&pair);
            }
}

/* ------------------------------------------------------------------ the head */

static void test_from_the_certified_head(void **unused) {
    (void)unused;
    struct rig rig;
    struct wane__rules *rules = rules_of("1,2,3,4,5,6,7,8,9,10,11,12");
    rig_init(&rig, 6000, 128);
    for (size_t i = 0; i < (size_t)rig.vocab * 128; i++) rig.w[i] = 2.5f * gaussian() / sqrtf(128);
    rig_learn(&rig, 600);
    rig_build(&rig, 2);
    struct wane__head *head = rig_open(&rig, 6, 2, 1);
    int held = 0;
    for (int round = 0; round < (SANITIZED ? 20 : 150); round++) {
        wane_sampling s = some_sampling();
        wane_quality q;
        struct wane__choice choice;
        struct wane__corrected did, other;
        struct pair pair;
        wane_error error = {0};
        wane_bias bias[12];
        for (int i = 0; i < 12; i++) bias[i] = (wane_bias){i + 1, 6};
        s.bias = bias;
        s.bias_count = below(2) ? 12 : 0;
        if (below(4) == 0) s.temperature = 0;
        wane_quality_init(&q);
        q.mode = round % 2 ? WANE_MODE_LEGACY : WANE_MODE_WANE;
        rig_draw_hidden(&rig, rig.hidden);
        rig_set_hidden(&rig);
        pair_up(&pair, &s, &s, &q, 3000, rules, rig.logits, rig.vocab);
        assert_int_equal(wane__head_scan(head, rig.hidden, 1), WANE_OK);
        for (uint64_t index = 0; index < 4; index++) {
            assert_int_equal(wane__correction_draw(pair.c, pair.plain, &pair.dense.source, index, &choice,
                                                   &did, &error),
                             WANE_OK);
            int32_t token = choice.token;
            float logprob = choice.has_logprob ? choice.logprob : 0;
            int support = choice.candidate_count;
            wane__step_enter();
            int status = wane__correction_draw(pair.c, pair.sampler, wane__head_source(head, 0), index,
                                               &choice, &other, &error);
            wane__step_leave();
            if (status != WANE_OK) fail_msg("%s", error.text);
            assert_int_equal(choice.token, token);
            assert_int_equal(choice.candidate_count, support);
            assert_true(!choice.has_logprob || fabsf(choice.logprob - logprob) < 1e-5f);
            assert_int_equal(did.held, other.held);
            assert_int_equal(did.draws, other.draws);
            assert_memory_equal(did.changed, other.changed, sizeof did.changed);
            held += did.held;
        }
        pair_down(&pair);
    }
    assert_true(held > 10);
    wane__head_free(head);
    wane__rules_free(rules);
    rig_free(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_closed_form),
        cmocka_unit_test(test_winner),
        cmocka_unit_test(test_hold_on_shares),
        cmocka_unit_test(test_dialogue),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_legacy_is_wane_is_algebra),
        cmocka_unit_test(test_votes_over_votes),
        cmocka_unit_test(test_clamp_and_dialogue),
        cmocka_unit_test(test_all_parts),
        cmocka_unit_test(test_off),
        cmocka_unit_test(test_dialogue_to_nothing),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_from_the_certified_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
