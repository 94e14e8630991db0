/*
 * test_parts.c - the parts alone (wane/parts.h): they give what the rooms behind them give, word for word, and refuse in words what is wrong. A trace is
 * written, a table built of it and looked up, with public functions alone.
 */
#include "unit/gate_rig.h"
#include "unit/trace_rig.h"

#include "correct/vote.h"
#include "gate/arbiter.h"
#include "gate/dtg.h"
#include "governor/governor.h"
#include "sample/order.h"

#include <xxhash.h>

#define CHECK(call)                                      \
    do {                                                 \
        wane_error why = {0};                            \
        (void)why;                                       \
        if ((call) != WANE_OK) fail_msg("%s", why.text); \
    } while (0)

static void refused(int code, int expected, const wane_error *error, const char *word) {
    assert_int_equal(code, expected);
    if (strstr(error->text, word) == NULL) fail_msg("\"%s\" says nothing of \"%s\"", error->text, word);
}

/* -------------------------------------------------------------- whose, contexts */

static void test_digests(void **unused) {
    (void)unused;
    struct rig_folder folder;
    char path[100], hex[33], other[33], expected[33];
    wane_error error = {0};
    rig_folder_make(&folder);
    snprintf(path, sizeof path, "%s/file", folder.path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs("some bytes", file);
    fclose(file);
    CHECK(wane_file_digest(path, hex, &why));
    XXH128_hash_t hash = XXH3_128bits("some bytes", 10);
    snprintf(expected, sizeof expected, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
    assert_string_equal(hex, expected);
    unlink(path);
    refused(wane_file_digest(path, hex, &error), WANE_ENOENT, &error, path);
    assert_string_equal(hex, "");
    rmdir(folder.path);
    const int32_t a[] = {2, 1, 0}, b[] = {1, 2, 0}, bad[] = {1, -1};
    CHECK(wane_tokenizer_digest("xyz", a, 3, hex, &why));
    CHECK(wane_tokenizer_digest("xyz", b, 3, other, &why));
    assert_string_not_equal(hex, other); /* the same bytes, cut elsewhere */
    refused(wane_tokenizer_digest("xyz", bad, 2, hex, &error), WANE_EINVAL, &error, "Token 1");
}

static void test_contexts(void **unused) {
    (void)unused;
    int32_t token[40];
    for (int i = 0; i < 40; i++) token[i] = 7 * i % 31;
    struct wane__context_name name = wane__context_begin(wane__context_tenant("anna"));
    wane_context steps, pieces;
    wane_context_begin(&steps, "anna");
    for (int i = 0; i < 40; i++) {
        name = wane__context_add(name, token[i]);
        wane_context_add(&steps, token + i, 1);
        wane_context_begin(&pieces, "anna");
        wane_context_add(&pieces, token, (size_t)(i / 3));
        wane_context_add(&pieces, token + i / 3, (size_t)(i + 1 - i / 3));
        int known = i + 1 < 10 ? i + 1 : 10;
        assert_memory_equal(steps.last, token + i + 1 - known, (size_t)known * sizeof *token);
        assert_memory_equal(pieces.last, steps.last, (size_t)known * sizeof *token);
        assert_true(steps.low == name.low && steps.high == name.high && steps.count == i + 1);
        assert_true(pieces.low == name.low && pieces.high == name.high && pieces.count == i + 1);
    }
    wane_context_begin(&pieces, NULL);
    wane_context_add(&pieces, token, 40);
    assert_true(pieces.low != steps.low && pieces.tenant == wane__context_tenant(""));
}

/* ---------------------------------------------------------------------- rows */

enum { V = 3000 };
static float row[V];

static void make_row(uint64_t seed, double heat) {
    for (int i = 0; i < V; i++) {
        double u = wane__random_unit(seed, (uint64_t)i) + 1e-12;
        row[i] = (float)(heat * -log(-log(u)));
    }
}

static double entropy_of_row(double *log_sum) {
    double sum = 0, entropy = 0;
    for (int i = 0; i < V; i++) sum += exp((double)row[i]);
    *log_sum = log(sum);
    for (int i = 0; i < V; i++) entropy -= exp((double)row[i] - *log_sum) * ((double)row[i] - *log_sum);
    return entropy;
}

static void test_rows(void **unused) {
    (void)unused;
    wane_candidate best[100];
    wane_signals s, few;
    int found;
    double log_sum, expected, low, high;
    for (uint64_t seed = 0; seed < 40; seed++) {
        make_row(seed, 0.2 + 0.1 * (double)seed);
        double entropy = entropy_of_row(&expected);
        CHECK(wane_row_best(row, V, 100, best, &found, &log_sum, &why));
        assert_true(found == 100 && fabs(log_sum - expected) < 1e-6);
        for (int i = 1; i < found; i++)
            assert_true(wane__better((struct wane__candidate){best[i - 1].token, best[i - 1].logit},
                                     (struct wane__candidate){best[i].token, best[i].logit}));
        int better = 0;
        for (int i = 0; i < V; i++) better += row[i] > best[99].logit;
        assert_int_equal(better, 99);
        CHECK(wane_row_signals(row, V, &s, &why));
        assert_true(fabs((double)s.entropy - entropy) < 1e-4 && s.margin == best[0].logit - best[1].logit);
        for (int count = 2; count <= 100; count += 49) {
            CHECK(wane_best_signals(best, count, V, log_sum, &few, &low, &high, &why));
            assert_true(low <= entropy + 1e-6 && entropy <= high + 1e-6 && few.margin == s.margin);
            assert_true((double)few.entropy >= low - 1e-6 && (double)few.entropy <= high + 1e-6);
            assert_true(isnan(few.kurtosis));
        }
    }
    CHECK(wane_row_best(row, 3, 100, best, &found, NULL, &why));
    assert_int_equal(found, 3);
    CHECK(wane_best_signals(best, 3, 3, log(exp((double)row[0]) + exp((double)row[1]) + exp((double)row[2])),
                            &few, &low, &high, &why));
    CHECK(wane_row_signals(row, 3, &s, &why));
    assert_true(fabsf(few.entropy - s.entropy) < 1e-4f && low == high);
}

static void test_rows_refused(void **unused) {
    (void)unused;
    wane_candidate best[2] = {{1, 1}, {2, 2}};
    wane_signals s;
    wane_error error = {0};
    float bad[3] = {0, NAN, 1}, none[2] = {-INFINITY, -INFINITY};
    int found;
    refused(wane_row_best(bad, 3, 2, best, &found, NULL, &error), WANE_EENGINE, &error, "NaN");
    refused(wane_row_best(none, 2, 2, best, &found, NULL, &error), WANE_EENGINE, &error, "drawn");
    refused(wane_row_best(NULL, 3, 2, best, &found, NULL, &error), WANE_EINVAL, &error, "logits");
    refused(wane_row_signals(bad, 3, &s, &error), WANE_EENGINE, &error, "NaN");
    assert_true(isnan(s.entropy));
    best[0] = (wane_candidate){1, 1};
    best[1] = (wane_candidate){2, 2};
    refused(wane_best_signals(best, 2, 10, 3, &s, NULL, NULL, &error), WANE_EINVAL, &error, "best first");
    best[1].logit = NAN;
    refused(wane_best_signals(best, 2, 10, 3, &s, NULL, NULL, &error), WANE_EINVAL, &error, "place 1");
    best[1].logit = 0;
    refused(wane_best_signals(best, 2, 10, 0.5, &s, NULL, NULL, &error), WANE_EINVAL, &error, "weigh");
    refused(wane_best_signals(best, 1, 10, 3, &s, NULL, NULL, &error), WANE_EINVAL, &error, "2 candidates");
    refused(wane_best_signals(best, 2, 10, NAN, &s, NULL, NULL, &error), WANE_EINVAL, &error, "log-sum");
}

/* ---------------------------------------------------------------------- gate */

static wane_gate *make_gate(const struct rig_folder *folder, struct wane__gate **inner) {
    struct wane__gate_made made = gate_made(rig_origin.model, rig_origin.tokenizer);
    struct wane__gate_net net;
    uint32_t pattern[500];
    char path[100];
    gate_random(&net, 3);
    *inner = gate_of(&made, &net, pattern, gate_patterns(pattern, 500, 4));
    snprintf(path, sizeof path, "%s/x.gate", folder->path);
    CHECK(wane__gate_write(*inner, path, &why));
    wane_gate *gate = NULL;
    CHECK(wane_gate_open(path, &gate, &why));
    wane_gate_facts facts, again;
    wane_gate_describe(gate, &facts);
    CHECK(wane_gate_get_facts(path, &again, &why));
    assert_true(again.bytes > 0);
    again.bytes = 0;
    assert_string_equal(facts.model, again.model);
    assert_string_equal(facts.note, "made up");
    assert_true(facts.patterns == again.patterns && facts.votes == 10 && facts.auc == again.auc);
    unlink(path);
    wane_error error = {0};
    wane_gate *none = gate;
    refused(wane_gate_open(path, &none, &error), WANE_ENOENT, &error, path);
    assert_null(none);
    refused(wane_gate_open("", &none, &error), WANE_EINVAL, &error, "named");
    return gate;
}

static void test_gate(void **unused) {
    (void)unused;
    struct rig_folder folder;
    struct wane__gate *inner;
    rig_folder_make(&folder);
    wane_gate *gate = make_gate(&folder, &inner);
    rmdir(folder.path);
    wane_quality quality;
    wane_generation generation;
    wane_gate_prompt prompt;
    wane_doubt *doubt;
    wane_quality_init(&quality);
    quality.mode = WANE_MODE_WANE;
    quality.doubt_budget = 3;
    quality.revival_after = 20;
    wane_generation_init(&generation);
    generation.sampling.temperature = 1.5f; /* hot: every fifth is forced */
    const int32_t tokens[] = {1, 2, 2, 3, 3, 3, 3};
    const char *text = "Document 1: a\nDocument 2: b\nDocument 3: c\nDocument 4: d\n";
    CHECK(wane_gate_look_at_prompt(&quality, tokens, 7, text, strlen(text), &prompt, &why));
    assert_int_equal(prompt.documents, 4);
    assert_true(prompt.tau == wane__gate_tau(&quality, prompt.entropy, 4));
    CHECK(wane_doubt_new(&quality, &generation.sampling, &prompt, &doubt, &why));
    struct wane__doubt plain;
    wane__doubt_begin(&plain, &quality, &generation.sampling, prompt.entropy, prompt.documents);
    for (int i = 0; i < 60; i++) {
        wane_candidate best[50];
        wane_gate_token told;
        struct wane__gate_view view;
        struct wane__verdict verdict;
        int found;
        make_row((uint64_t)i, 3);
        CHECK(wane_row_best(row, V, 50, best, &found, NULL, &why));
        bool forced = wane__doubt_forced(&plain, i), in_table = i % 7 == 0;
        wane_doubt_judge(doubt, gate, best, found, false, in_table, i, &told);
        assert_true(told.table == (in_table && !forced) && told.judged == !told.table && told.index == i);
        if (told.table) continue;
        assert_true(wane__gate_look((struct wane__candidate *)(void *)best, found, false,
                                    forced ? plain.hot_scale : 1, &view));
        wane__doubt_judge(&plain, inner, &view, i, &verdict);
        assert_true(told.odds == verdict.odds && told.reject == verdict.reject && told.woke == verdict.woke);
        assert_true(told.forced == forced && told.revival == verdict.revival && told.tau == plain.tau);
        float odds;
        bool seen;
        assert_true(wane_gate_odds(gate, best, found, false, forced ? 1.5f : 1, &odds, &seen));
        assert_true(odds == told.odds);
        assert_false(wane_gate_odds(gate, best, 2, false, 1, &odds, NULL)); /* others could change it */
        assert_true(wane_gate_odds(gate, best, 2, true, 1, &odds, NULL));
        assert_false(wane_gate_odds(gate, best, found, false, 0, &odds, NULL));
    }
    int rejects, first, woke;
    wane_doubt_get(doubt, &rejects, &first, &woke);
    assert_true(rejects == plain.rejects && first == plain.first_reject && woke == plain.woke_at);
    assert_true(rejects > 3 && woke >= 0); /* or it shows nothing */
    wane_doubt_free(doubt);
    generation.sampling.temperature = 0;
    CHECK(wane_doubt_new(&quality, &generation.sampling, &prompt, &doubt, &why));
    wane_candidate one = {1, 1};
    wane_gate_token told;
    wane_doubt_judge(doubt, gate, &one, 1, true, false, 0, &told);
    assert_false(told.judged);
    wane_doubt_free(doubt);
    wane_error error = {0};
    quality.answers = 2;
    refused(wane_doubt_new(&quality, &generation.sampling, &prompt, &doubt, &error), WANE_EINVAL, &error,
            "answers");
    assert_null(doubt);
    wane_gate_free(gate);
    wane__gate_free(inner);
}

/* ------------------------------------------------------------------ governor */

static wane_profile a_profile(void) {
    wane_profile p;
    wane_profile_init(&p);
    memset(p.model, 'a', 32);
    p.signal = WANE_SIGNAL_ENTROPY;
    p.sign = -1;
    p.peak = -1;
    p.low = -3;
    p.jerk = 4;
    return p;
}

static void test_governor_steers(void **unused) {
    (void)unused;
    wane_quality quality;
    wane_profile profile = a_profile();
    wane_governor *governor;
    struct wane__machine machine;
    struct wane__steering steering = {0};
    int seen[WANE_STATES] = {0};
    wane_quality_init(&quality);
    quality.mode = WANE_MODE_WANE;
    quality.governor = true;
    CHECK(wane_governor_new(&profile, &quality, 0.8f, &governor, &why));
    wane__machine_init(&machine, &profile, quality.stability);
    for (int i = 0; i < 400; i++) {
        wane_signals s = {NAN, NAN, (float)(4 * wane__random_unit(1, (uint64_t)i)), 1, NAN};
        wane_steer steer;
        if (i % 50 == 49) { /* a token without a row */
            wane_governor_see(governor, NULL, &steer);
            if (wane__steering_at(&steering, i) != NULL) steering.command.count = 0;
            wane__machine_skip(&machine);
        } else {
            wane_governor_see(governor, &s, &steer);
            struct wane__command command = wane__machine_step(&machine, i, &s);
            wane__steering_take(&steering, &command, i);
        }
        const struct wane__command *c = wane__steering_at(&steering, i);
        assert_true(steer.steered && steer.state == machine.state);
        assert_true(c == NULL ? isnan(steer.temperature) : steer.temperature == c->temperature);
        assert_true(steer.top_p_off == (c != NULL && c->top_p_off) && steer.known == (i % 50 != 49));
        seen[steer.state]++;
        assert_false(wane_governor_take(governor, i));
    }
    for (int i = 0; i < WANE_STATES; i++) assert_true(seen[i] > 0);
    wane_governor_free(governor);
    wane_steer steer;
    wane_signals s = {NAN, NAN, 0.1f, 1, NAN};
    for (int off = 0; off < 3; off++) { /* greedy, off, no profile */
        quality.governor = off != 1;
        CHECK(
            wane_governor_new(off == 2 ? NULL : &profile, &quality, off == 0 ? 0.0f : 0.8f, &governor, &why));
        wane_governor_see(governor, &s, &steer);
        assert_true(!steer.steered && isnan(steer.temperature) && steer.state == WANE_STATE_NORMAL);
        wane_governor_free(governor);
    }
    wane_error error = {0};
    profile.low = 0;
    refused(wane_governor_new(&profile, &quality, 1, &governor, &error), WANE_EINVAL, &error, "low");
    quality.fuse_window = 1;
    refused(wane_governor_new(NULL, &quality, 1, &governor, &error), WANE_EINVAL, &error, "fuse_window");
    assert_null(governor);
}

/* A reply that falls into a loop: the fuse of a whole reply and the one that remembers its end alone agree, token by token. */
static void test_governor_fuses(void **unused) {
    (void)unused;
    static const int begins[] = {0, 100, 700}, periods[] = {1, 17, 128};
    static int32_t reply[1500];
    for (int b = 0; b < 3; b++)
        for (int p = 0; p < 3; p++) {
            wane_quality quality;
            wane_governor *governor;
            struct wane__fuse fuse;
            int ended = -1;
            char text[300];
            wane_quality_init(&quality);
            quality.mode = WANE_MODE_WANE;
            CHECK(wane_governor_new(NULL, &quality, 0.8f, &governor, &why));
            wane__fuse_init(&fuse, &quality);
            assert_true(wane_governor_fallback(governor, true, text) > 0);
            for (int i = 0; i < 1500 && ended < 0; i++) {
                reply[i] = i < begins[b] ? i + 1000 : (i - begins[b]) % periods[p];
                wane_signals s = {NAN, NAN, i < begins[b] ? (float)(i % 7) : 0.5f, 1, NAN};
                wane_steer steer;
                wane_governor_see(governor, &s, &steer);
                wane__fuse_see(&fuse, (double)s.entropy);
                assert_true(steer.wants_entropy == fuse.wants);
                bool expected = wane__fuse_take(&fuse, reply, i + 1);
                assert_true(wane_governor_take(governor, reply[i]) == expected);
                if (expected) ended = i;
            }
            assert_true(ended > begins[b]);
            wane_governor_free(governor);
        }
}

/* -------------------------------------------------------------------- traces */

static const wane_origin origin = {.model = "00112233445566778899aabbccddeeff",
                                   .tokenizer = "ffeeddccbbaa99887766554433221100",
                                   .vocab_size = RIG_VOCAB};

static wane_tracer *open_tracer(const char *folder) {
    wane_recorder_options options;
    wane_tracer *tracer;
    wane_recorder_options_init(&options);
    options.folder = folder;
    options.plain = true;
    CHECK(wane_tracer_open(&options, &origin, NULL, NULL, &tracer, &why));
    return tracer;
}

enum { REPLY = 30 };

/* Token i of every reply, and what was best there. */
static int32_t said(int i) {
    return 100 + i * 37 % 211;
}

static void candidates_at(int i, wane_candidate top[5]) {
    for (int k = 0; k < 5; k++) top[k] = (wane_candidate){k == 0 ? said(i) : 1000 + k, (float)(20 - 4 * k)};
}

static void record_reply(wane_tracer *tracer, const char *id, const char *tenant) {
    static const int32_t prompt[] = {5, 6, 7, 8, 9};
    wane_trace_request request;
    wane_trace_token token;
    wane_candidate top[6];
    wane_context context;
    wane_trace_request_init(&request);
    request.id = id;
    request.tenant = tenant;
    request.prompt = prompt;
    request.prompt_count = 5;
    CHECK(wane_tracer_request(tracer, &request, &why));
    wane_context_begin(&context, tenant);
    wane_context_add(&context, prompt, 5);
    wane_trace_token_init(&token);
    token.id = id;
    token.before = &context;
    token.top = top;
    token.top_count = 6;
    token.log_sum = 20.02;
    for (int i = 0; i < REPLY; i++) {
        candidates_at(i, top);
        top[5] = (wane_candidate){4000, -INFINITY}; /* cannot be drawn: left out */
        token.index = i;
        token.token = said(i);
        token.state = i % 5 - 1;
        CHECK(wane_tracer_token(tracer, &token, &why));
        wane_context_add(&context, &token.token, 1);
    }
    CHECK(wane_tracer_end(tracer, id, "end", REPLY, 12.5, &why));
}

static void check_trace(const char *folder) {
    struct wane__trace_read_options how = {0};
    struct wane__trace_reader *reader;
    int tokens = 0, requests = 0, ends = 0, votes = 0;
    CHECK(wane__trace_read_open(&folder, 1, &how, &reader, &why));
    for (;;) {
        struct wane__trace_record record;
        CHECK(wane__trace_read_next(reader, &record, &why));
        if (record.type == WANE__TRACE_DONE) break;
        if (record.type == WANE__TRACE_ORIGIN) assert_string_equal(record.origin->model, origin.model);
        requests += record.type == WANE__TRACE_REQUEST;
        votes += record.type == WANE__TRACE_VOTE;
        if (record.type == WANE__TRACE_END) {
            ends++;
            assert_string_equal(record.end->finish, "end");
        }
        if (record.type != WANE__TRACE_TOKEN) continue;
        const struct wane__trace_token *t = record.token;
        int i = tokens++ % REPLY;
        assert_true(t->index == i && t->position == 5 + i && t->token == said(i) && t->top_count == 5);
        assert_true(t->state == i % 5 && fabsf(t->log_sum - 20.02f) < 1e-6f &&
                    t->last_count == (i < 5 ? 5 + i : 10));
    }
    assert_true(tokens == 4 * REPLY && requests == 4 && ends == 4 && votes == 1);
    wane__trace_read_close(reader);
}

static void check_table(const char *path) {
    wane_table *table;
    wane_error error = {0};
    wane_origin other = origin;
    wane_context context;
    wane_table_answer answer, again;
    int32_t text[5 + REPLY] = {5, 6, 7, 8, 9}, draft[REPLY];
    float chance[REPLY];
    for (int i = 0; i < REPLY; i++) text[5 + i] = said(i);
    memset(other.model, 'c', 32);
    refused(wane_table_open_of(path, &other, NULL, &table, &error), WANE_EUNSUPPORTED, &error,
            "another model");
    assert_null(table);
    other = (wane_origin){.vocab_size = 3};
    refused(wane_table_open_of(path, &other, NULL, &table, &error), WANE_EUNSUPPORTED, &error, "3");
    other = (wane_origin){.vocab_size = RIG_VOCAB}; /* the rest: any */
    CHECK(wane_table_open_of(path, &other, NULL, &table, &why));
    wane_context_begin(&context, "anna");
    wane_context_add(&context, text, 5);
    for (int i = 0; i < REPLY; i++) {
        wane_candidate now[5];
        candidates_at(i, now);
        assert_true(wane_table_find(table, &context, i, &answer));
        assert_true(wane_table_lookup(table, "anna", text, (size_t)(5 + i), i, &again));
        assert_memory_equal(&answer, &again, sizeof answer);
        assert_true(answer.top[0].token == said(i));
        assert_int_equal(wane_table_grade(&answer, now, 5, 20.02, 20.02, 1e-4f, 0.95), WANE_GRADE_STRICT);
        for (int k = 0; k < 5; k++) now[k].logit += 1;
        assert_int_equal(wane_table_grade(&answer, now, 5, 21.02, 21.02, 1e-4f, 0.95), WANE_GRADE_RANK);
        now[0].token++;
        assert_int_equal(wane_table_grade(&answer, now, 5, 21.02, 21.02, 1e-4f, 0.95), WANE_GRADE_MISS);
        int count = wane_table_draft(table, &context, 4, draft, chance);
        assert_true(count <= 4 && (count > 0 || i == REPLY - 1 || i >= REPLY - 1));
        for (int k = 0; k < count; k++)
            assert_true(draft[k] == said(i + k) && chance[k] > 0 && chance[k] < 1);
        wane_context_add(&context, text + 5 + i, 1);
    }
    wane_context_begin(&context, "bert"); /* another's */
    wane_context_add(&context, text, 5);
    assert_false(wane_table_find(table, &context, 0, &answer));
    assert_int_equal(wane_table_draft(table, &context, 4, draft, chance), 0);
    wane_table_free(table);
}

static void test_trace_to_table(void **unused) {
    (void)unused;
    struct rig_folder folder;
    char file[400], table[100];
    rig_folder_make(&folder);
    wane_tracer *tracer = open_tracer(folder.path);
    for (int i = 0; i < 4; i++) {
        char id[16];
        snprintf(id, sizeof id, "r%d", i);
        record_reply(tracer, id, "anna");
    }
    CHECK(wane_tracer_vote(tracer, "r0", 0, &why));
    wane_tracer_flush(tracer);
    wane_recorder_state state;
    wane_tracer_get_state(tracer, &state);
    assert_true(state.requests == 4 && state.tokens == 4 * REPLY && state.ends == 4);
    wane_tracer_close(tracer);
    check_trace(folder.path);
    const char *logs[] = {folder.path};
    wane_table_build_options options;
    wane_table_build_options_init(&options);
    snprintf(table, sizeof table, "/tmp/wane-parts-%d.slmt", (int)getpid());
    options.logs = logs;
    options.log_count = 1;
    options.output = table;
    CHECK(wane_table_build(&options, NULL, &why));
    check_table(table);
    unlink(table);
    while (rig_file(&folder, 0, file)) unlink(file);
    rmdir(folder.path);
}

static void test_trace_refused(void **unused) {
    (void)unused;
    struct rig_folder folder;
    char file[400];
    wane_error error = {0};
    wane_recorder_options options;
    wane_tracer *tracer;
    wane_origin bad = origin;
    rig_folder_make(&folder);
    wane_recorder_options_init(&options);
    options.folder = folder.path;
    bad.model[0] = 'X';
    refused(wane_tracer_open(&options, &bad, NULL, NULL, &tracer, &error), WANE_EINVAL, &error, "X0112");
    bad = (wane_origin){.vocab_size = 5};
    refused(wane_tracer_open(&options, &bad, NULL, NULL, &tracer, &error), WANE_EINVAL, &error,
            "two digests");
    options.redact_file = "patterns";
    refused(wane_tracer_open(&options, &origin, NULL, NULL, &tracer, &error), WANE_EINVAL, &error, "texts");
    tracer = open_tracer(folder.path);
    wane_trace_request r;
    wane_trace_request_init(&r);
    const int32_t beyond[] = {RIG_VOCAB};
    refused(wane_tracer_request(tracer, &r, &error), WANE_EINVAL, &error, "name");
    r.id = "two words";
    refused(wane_tracer_request(tracer, &r, &error), WANE_EINVAL, &error, "blanks");
    r.id = "r";
    r.prompt = beyond;
    r.prompt_count = 1;
    refused(wane_tracer_request(tracer, &r, &error), WANE_EINVAL, &error, "50000");
    r.prompt_count = 0;
    r.kind = 4;
    refused(wane_tracer_request(tracer, &r, &error), WANE_EINVAL, &error, "kind");
    r.kind = 0;
    r.sampling.temperature = NAN;
    refused(wane_tracer_request(tracer, &r, &error), WANE_EINVAL, &error, "temperature");
    wane_context context;
    wane_context_begin(&context, NULL);
    wane_candidate top[2] = {{1, 1}, {2, 2}};
    wane_trace_token t;
    wane_trace_token_init(&t);
    t.id = "r";
    t.before = &context;
    refused(wane_tracer_token(tracer, &t, &error), WANE_EINVAL, &error, "candidates");
    t.top = top;
    t.top_count = 2;
    refused(wane_tracer_token(tracer, &t, &error), WANE_EINVAL, &error, "order");
    assert_int_equal(error.code, WANE_EINVAL);
    top[0].logit = NAN;
    refused(wane_tracer_token(tracer, &t, &error), WANE_EINVAL, &error, "nan");
    top[0] = (wane_candidate){RIG_VOCAB, 3};
    refused(wane_tracer_token(tracer, &t, &error), WANE_EINVAL, &error, "50000");
    top[0] = (wane_candidate){1, 3};
    t.index = 1;
    refused(wane_tracer_token(tracer, &t, &error), WANE_EINVAL, &error, "position");
    t.state = 9;
    refused(wane_tracer_token(tracer, &t, &error), WANE_EINVAL, &error, "state");
    refused(wane_tracer_end(tracer, "r", "bored", 1, 1, &error), WANE_EINVAL, &error, "bored");
    refused(wane_tracer_end(tracer, "r", "end", 1, -1, &error), WANE_EINVAL, &error, "ms");
    refused(wane_tracer_vote(tracer, "r", 3, &error), WANE_EINVAL, &error, "0 to 2");
    wane_tracer_close(tracer);
    while (rig_file(&folder, 0, file)) unlink(file);
    rmdir(folder.path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digests),        cmocka_unit_test(test_contexts),
        cmocka_unit_test(test_rows),           cmocka_unit_test(test_rows_refused),
        cmocka_unit_test(test_gate),           cmocka_unit_test(test_governor_steers),
        cmocka_unit_test(test_governor_fuses), cmocka_unit_test(test_trace_to_table),
        cmocka_unit_test(test_trace_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
