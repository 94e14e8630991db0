/*
 * test_script.c - the scripted engine keeps the contract of engine.h: pure in the sequence, strict about its
 * calls.
 */
#include "core/clock.h"
#include "core/memory.h"
#include "engine/engine.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { V = 384, MARK = 258, END = 257, BOS = 256 };

static const int32_t hello[] = {'H', 'i', 259, END};
static const int32_t other[] = {'n', 'o', END};
static float flat_logits[V];

static struct wane__script_reply replies[] = {
    {.match = "greet", .tokens = hello, .count = 4, .fail_at = -1},
    {.match = "greet them not", .tokens = other, .count = 3, .fail_at = -1},
    {.match = "break", .tokens = hello, .count = 4, .fail_at = 2},
    {.match = "slow", .tokens = hello, .count = 4, .fail_at = -1, .delay_ms = 60},
    {.match = "stuck", .tokens = hello, .count = 4, .fail_at = -1, .delay_ms = 60000},
    {.match = "flat", .tokens = hello, .count = 4, .fail_at = -1, .logits = flat_logits},
};
static const char *const pieces[] = {"\xF0", "\x9F\x98\x80", "several bytes"};

static struct wane__script base = {.replies = replies,
                                   .reply_count = sizeof replies / sizeof *replies,
                                   .pieces = pieces,
                                   .piece_count = 3};

static struct wane__engine *load(const struct wane__script *script) {
    struct wane__engine *engine;
    wane_error error;
    assert_int_equal(wane__script_load(script, NULL, &engine, &error), WANE_OK);
    return engine;
}

static wane_tokens prompt(struct wane__engine *engine, const char *text) {
    wane_tokens tokens = {0};
    wane_message message = {"user", text, strlen(text)};
    assert_int_equal(engine->ops->chat(engine, &message, 1, &tokens, NULL, NULL), WANE_OK);
    return tokens;
}

static int run(struct wane__engine *engine, int seq, int from, const int32_t *tokens, int count, bool every,
               wane_error *error) {
    struct wane__item items[64];
    for (int i = 0; i < count; i++)
        items[i] = (struct wane__item){tokens[i], from + i, seq, every || i == count - 1, false, false};
    return engine->ops->decode(engine, items, count, error);
}

static int32_t favoured(const float *logits) {
    int32_t best = 0;
    for (int32_t t = 1; t < V; t++)
        if (logits[t] > logits[best]) best = t;
    return best;
}

static uint64_t violations(struct wane__engine *engine) {
    struct wane__script_counts counts;
    wane__script_get_counts(engine, &counts);
    return counts.violations;
}

static void test_replies(void **unused) {
    (void)unused;
    struct wane__engine *engine = load(&base);
    wane_tokens p = prompt(engine, "greet me");
    assert_int_equal(run(engine, 0, 0, p.id, (int)p.count, false, NULL), WANE_OK);
    for (int step = 0; step < 6; step++) {
        int32_t token = favoured(engine->ops->logits(engine, 0));
        assert_int_equal(token, step < 4 ? hello[step] : END);
        assert_true(engine->ops->logits(engine, 0)[token] == 10);
        assert_true(engine->ops->logits(engine, 0)[token - 3] == 7);
        assert_int_equal(run(engine, 0, (int)p.count + step, &token, 1, false, NULL), WANE_OK);
    }
    wane_tokens q = prompt(engine, "please greet them not");
    assert_int_equal(run(engine, 1, 0, q.id, (int)q.count, false, NULL), WANE_OK);
    assert_int_equal(favoured(engine->ops->logits(engine, 0)), 'n'); /* the longer match */
    wane_tokens f = prompt(engine, "flat");
    flat_logits[200] = 3;
    assert_int_equal(run(engine, 2, 0, f.id, (int)f.count, false, NULL), WANE_OK);
    assert_memory_equal(engine->ops->logits(engine, 0), flat_logits, sizeof flat_logits);
    assert_int_equal(violations(engine), 0);
    wane_tokens_free(&p);
    wane_tokens_free(&q);
    wane_tokens_free(&f);
    engine->ops->free(engine);
}

/* A raw prompt that ends with the match is answered from there. */
static void test_raw_prompts(void **unused) {
    (void)unused;
    struct wane__engine *engine = load(&base);
    wane_tokens p = {0};
    engine->ops->tokenize(engine, "now greet", 9, WANE_TOKENIZE_SPECIAL, &p, NULL);
    assert_int_equal(p.count, 10);
    assert_int_equal(p.id[0], BOS);
    assert_int_equal(run(engine, 0, 0, p.id, 10, false, NULL), WANE_OK);
    assert_int_equal(favoured(engine->ops->logits(engine, 0)), 'H');
    assert_int_equal(run(engine, 0, 10, hello, 2, false, NULL), WANE_OK);
    assert_int_equal(favoured(engine->ops->logits(engine, 0)), 259);
    int32_t letters[] = {'x', 'y', 'z'};
    assert_int_equal(run(engine, 1, 0, letters, 3, false, NULL), WANE_OK);
    int32_t token = favoured(engine->ops->logits(engine, 0));
    assert_true(token == ' ' || (token >= 'a' && token <= 'z'));
    wane_tokens_free(&p);
    engine->ops->free(engine);
}

/* However the tokens arrive: at once with every row, one by one, beside others, over a copy. */
static void test_batching_changes_nothing(void **unused) {
    (void)unused;
    struct wane__engine *engine = load(&base);
    static float rows[64][V];
    wane_tokens p = prompt(engine, "tell greet a story");
    int count = (int)p.count;
    assert_int_equal(run(engine, 0, 0, p.id, count, true, NULL), WANE_OK);
    for (int i = 0; i < count; i++) memcpy(rows[i], engine->ops->logits(engine, i), sizeof rows[i]);
    for (int i = 0; i < count; i++) {
        struct wane__item items[2] = {{p.id[i], i, 1, true, false, false}, {'x', i, 2, true, false, false}};
        assert_int_equal(engine->ops->decode(engine, items, 2, NULL), WANE_OK);
        assert_memory_equal(engine->ops->logits(engine, 0), rows[i], sizeof rows[i]);
    }
    assert_int_equal(engine->ops->copy(engine, 0, 3, 7), 7);
    assert_int_equal(run(engine, 3, 7, p.id + 7, count - 7, false, NULL), WANE_OK);
    assert_memory_equal(engine->ops->logits(engine, 0), rows[count - 1], sizeof rows[0]);
    assert_int_equal(engine->ops->truncate(engine, 0, 5), 5);
    assert_int_equal(run(engine, 0, 5, p.id + 5, count - 5, false, NULL), WANE_OK);
    assert_memory_equal(engine->ops->logits(engine, 0), rows[count - 1], sizeof rows[0]);
    assert_int_equal(violations(engine), 0);
    struct wane__script_counts counts;
    wane__script_get_counts(engine, &counts);
    assert_int_equal(counts.length[0], count);
    assert_int_equal(counts.length[2], count);
    assert_int_equal(counts.largest_batch, count);
    assert_int_equal(counts.decodes, (uint64_t)count + 3);
    wane_tokens_free(&p);
    engine->ops->free(engine);
}

static void test_chat(void **unused) {
    (void)unused;
    struct wane__engine *engine = load(&base);
    wane_message m[] = {{"user", "Hi <|mark|>", 11}, {"assistant", "Hel", 3}};
    wane_tokens one = {0}, two = {0};
    struct wane__buf text = {0};
    assert_int_equal(engine->ops->chat(engine, m, 1, &one, &text, NULL), WANE_OK);
    assert_string_equal(text.data, "<|mark|>user\nHi <|mark|><|mark|>");
    assert_int_equal(one.count, 1 + 5 + 11 + 1); /* the marker in the content stays bytes */
    assert_int_equal(one.id[0], MARK);
    assert_int_equal(one.id[one.count - 1], MARK);
    assert_int_equal(one.id[9], '<');
    assert_int_equal(engine->ops->chat(engine, m, 2, &two, NULL, NULL), WANE_OK);
    assert_int_equal(two.count, one.count + 3);
    assert_memory_equal(two.id, one.id, one.count * sizeof *one.id);
    wane_tokens raw = {0};
    engine->ops->tokenize(engine, "a<|end|>", 8, WANE_TOKENIZE_CONTROL, &raw, NULL);
    assert_int_equal(raw.count, 2);
    assert_int_equal(raw.id[1], END);
    assert_true(engine->ops->is_end(engine, END));
    char bytes[16];
    assert_int_equal(engine->ops->token_bytes(engine, MARK, false, bytes, sizeof bytes), 0);
    assert_int_equal(engine->ops->token_bytes(engine, MARK, true, bytes, sizeof bytes), 8);
    assert_int_equal(engine->ops->token_bytes(engine, 260, false, bytes, sizeof bytes), 3);
    assert_int_equal(engine->ops->token_bytes(engine, 261, false, bytes, 3), WANE_EINVAL);
    assert_int_equal(engine->ops->token_bytes(engine, 384, false, bytes, sizeof bytes), WANE_EINVAL);
    assert_int_equal(engine->ops->token_bytes(engine, -1, false, bytes, sizeof bytes), WANE_EINVAL);
    wane_tokens_free(&one);
    wane_tokens_free(&two);
    wane_tokens_free(&raw);
    wane__buf_free(&text);
    engine->ops->free(engine);
}

static void refuse(struct wane__engine *engine, struct wane__item item, int count, const char *word) {
    wane_error error = {0};
    uint64_t before = violations(engine);
    assert_int_equal(engine->ops->decode(engine, &item, count, &error), WANE_EINVAL);
    assert_non_null(strstr(error.text, word));
    assert_int_equal(violations(engine), before + 1);
}

static void test_violations(void **unused) {
    (void)unused;
    struct wane__script small = base;
    small.context = 4;
    struct wane__engine *engine = load(&small);
    struct wane__item item = {'a', 0, 0, true, false, false};
    refuse(engine, item, 0, "batch of 0");
    refuse(engine, item, 65, "batch of 65");
    refuse(engine, (struct wane__item){'a', 1, 0, true, false, false}, 1, "position 0");
    refuse(engine, (struct wane__item){'a', 0, 4, true, false, false}, 1, "sequence 4");
    refuse(engine, (struct wane__item){'a', 0, -1, true, false, false}, 1, "sequence -1");
    refuse(engine, (struct wane__item){384, 0, 0, true, false, false}, 1, "token 384");
    assert_int_equal(run(engine, 0, 0, hello, 4, false, NULL), WANE_OK);
    refuse(engine, (struct wane__item){'a', 4, 0, true, false, false}, 1, "context of 4");
    assert_null(engine->ops->logits(engine, 1));
    assert_int_equal(engine->ops->truncate(engine, 0, 5), WANE_EINVAL);
    assert_int_equal(engine->ops->copy(engine, 0, 0, 1), WANE_EINVAL);
    engine->ops->free(engine);
    wane_error error;
    small.load_fail = WANE_EFORMAT;
    assert_int_equal(wane__script_load(&small, NULL, &engine, &error), WANE_EFORMAT);
    assert_null(engine);
}

static void test_failure_at_a_step(void **unused) {
    (void)unused;
    struct wane__engine *engine = load(&base);
    wane_error error = {0};
    wane_tokens p = prompt(engine, "break");
    int count = (int)p.count;
    assert_int_equal(run(engine, 0, 0, p.id, count, false, NULL), WANE_OK);
    assert_int_equal(run(engine, 0, count, hello, 1, false, NULL), WANE_OK);
    struct wane__item both[2] = {{hello[1], count + 1, 0, true, false, false},
                                 {'x', 0, 1, true, false, false}};
    assert_int_equal(engine->ops->decode(engine, both, 2, &error), WANE_EENGINE);
    assert_non_null(strstr(error.text, "step 2"));
    refuse(engine, both[1], 1, "truncated");
    assert_int_equal(engine->ops->truncate(engine, 1, 0), 0);
    assert_int_equal(engine->ops->decode(engine, &both[1], 1, NULL), WANE_OK); /* the neighbour goes on */
    assert_int_equal(engine->ops->truncate(engine, 0, count + 1), count + 1);
    assert_int_equal(engine->ops->decode(engine, &both[0], 1, NULL), WANE_EENGINE); /* and it fails again */
    wane_tokens_free(&p);
    engine->ops->free(engine);
}

static void test_recurrent(void **unused) {
    (void)unused;
    struct wane__script recurrent = base;
    recurrent.recurrent = true;
    struct wane__engine *engine = load(&recurrent);
    assert_true(engine->facts.recurrent);
    assert_int_equal(run(engine, 0, 0, hello, 4, false, NULL), WANE_OK);
    assert_int_equal(engine->ops->copy(engine, 0, 1, 4), 4);
    assert_int_equal(engine->ops->copy(engine, 0, 2, 3), 0);
    assert_int_equal(engine->ops->truncate(engine, 0, 4), 4);
    assert_int_equal(engine->ops->truncate(engine, 0, 3), 0);
    assert_int_equal(run(engine, 0, 0, hello, 1, false, NULL), WANE_OK);
    assert_int_equal(violations(engine), 0);
    engine->ops->free(engine);
}

struct seen {
    int calls, rows;
    bool dense;
};

static bool hook(void *user, const float *hidden, int first, int rows, int d) {
    struct seen *seen = user;
    assert_int_equal(first, seen->rows);
    assert_int_equal(d, 8);
    assert_non_null(hidden);
    seen->calls++;
    seen->rows += rows;
    return seen->dense;
}

static void test_hook_and_rescore(void **unused) {
    (void)unused;
    struct wane__engine *engine = load(&base);
    struct seen seen = {0, 0, true};
    int32_t ids[V];
    float logits[V];
    for (int32_t t = 0; t < V; t++) ids[t] = V - 1 - t;
    wane_tokens p = prompt(engine, "greet and be greeted");
    assert_int_equal(run(engine, 0, 0, p.id, (int)p.count, true, NULL), WANE_OK);
    assert_null(engine->ops->hidden(engine, 0));
    engine->ops->set_hook(engine, hook, &seen);
    assert_int_equal(engine->ops->truncate(engine, 0, 0), 0);
    assert_int_equal(run(engine, 0, 0, p.id, (int)p.count, true, NULL), WANE_OK);
    assert_true(seen.rows == (int)p.count && seen.calls > 1);
    for (int row = 0; row < (int)p.count; row++) {
        assert_int_equal(engine->ops->rescore(engine, engine->ops->hidden(engine, row), ids, V, logits),
                         WANE_OK);
        for (int i = 0; i < V; i++) assert_true(logits[i] == engine->ops->logits(engine, row)[ids[i]]);
    }
    seen = (struct seen){0, 0, false};
    assert_int_equal(run(engine, 0, (int)p.count, hello, 1, false, NULL), WANE_OK);
    assert_null(engine->ops->logits(engine, 0));
    assert_non_null(engine->ops->hidden(engine, 0));
    wane_tokens_free(&p);
    engine->ops->free(engine);
}

static void *interrupt_soon(void *engine) {
    struct timespec pause = {0, 30000000};
    nanosleep(&pause, NULL);
    ((struct wane__engine *)engine)->ops->interrupt(engine, true);
    return NULL;
}

static void test_delays_and_interrupt(void **unused) {
    (void)unused;
    struct wane__engine *engine = load(&base);
    wane_tokens slow = prompt(engine, "slow"), stuck = prompt(engine, "stuck");
    double from = wane__now();
    assert_int_equal(run(engine, 0, 0, slow.id, (int)slow.count, false, NULL), WANE_OK);
    assert_true(wane__now() - from >= 0.059);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, interrupt_soon, engine), 0);
    from = wane__now();
    assert_int_equal(run(engine, 1, 0, stuck.id, (int)stuck.count, false, NULL), WANE_ECANCELLED);
    assert_true(wane__now() - from < 5);
    pthread_join(thread, NULL);
    engine->ops->truncate(engine, 1, 0);
    assert_int_equal(run(engine, 2, 0, hello, 2, false, NULL), WANE_ECANCELLED); /* until set back */
    engine->ops->interrupt(engine, false);
    engine->ops->truncate(engine, 2, 0);
    assert_int_equal(run(engine, 2, 0, hello, 2, false, NULL), WANE_OK);
    struct wane__script_counts counts;
    wane__script_get_counts(engine, &counts);
    assert_int_equal(counts.interrupted, 2);
    assert_int_equal(counts.violations, 0);
    wane_tokens_free(&slow);
    wane_tokens_free(&stuck);
    engine->ops->free(engine);
    struct wane__script lazy = base;
    lazy.prompt_delay_ms = -2000;
    engine = load(&lazy);
    int32_t text[20];
    for (int i = 0; i < 20; i++) text[i] = 'a';
    from = wane__now();
    assert_int_equal(run(engine, 0, 0, text, 20, false, NULL), WANE_OK);
    assert_true(wane__now() - from >= 0.037);
    engine->ops->free(engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replies),
        cmocka_unit_test(test_raw_prompts),
        cmocka_unit_test(test_batching_changes_nothing),
        cmocka_unit_test(test_chat),
        cmocka_unit_test(test_violations),
        cmocka_unit_test(test_failure_at_a_step),
        cmocka_unit_test(test_recurrent),
        cmocka_unit_test(test_hook_and_rescore),
        cmocka_unit_test(test_delays_and_interrupt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
