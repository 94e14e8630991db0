/* test_draft.c - proposals: matches, chances, the broken copy's way, the pool and its caps; and the draft's length. */
#include "core/memory.h"
#include "core/rng.h"
#include "draft_pace.h"
#include "table/draft.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --------------------------------------------------------------------- matches */

/* What the chains should find, by looking everywhere. */
static int longest(const int32_t *token, int count) {
    int best = 0;
    for (int end = 1; end < count; end++) {
        int length = 0;
        while (length < end && length < WANE__MATCH_MOST &&
               token[end - 1 - length] == token[count - 1 - length])
            length++;
        if (length > best) best = length;
    }
    return best;
}

static void test_finds_the_longest(void **unused) {
    (void)unused;
    struct wane__ngrams g;
    enum { COUNT = 600 };
    int32_t token[COUNT];
    assert_true(wane__ngrams_init(&g, COUNT));
    int found = 0;
    for (int i = 0; i < COUNT; i++) {
        /* Mostly new, now and then a piece of what was. */
        token[i] =
            i % 60 < 40 || i < 60 ? (int32_t)(wane__random_bits(3, (uint64_t)i) % 5000) : token[i - 47];
        wane__ngrams_add(&g, token[i]);
        struct wane__match m = wane__ngrams_find(&g, token + i + 1, i + 1);
        int expected = longest(token, i + 1);
        assert_int_equal(m.length, expected >= 2 ? expected : 0);
        if (m.length == 0) continue;
        found++;
        assert_true(m.position >= 2 && m.position <= (uint32_t)i + 1);
        for (int k = 0; k < m.length; k++)
            assert_int_equal(wane__ngrams_at(&g, m.position - 1 - (uint32_t)k), token[i - k]);
    }
    assert_true(found > 50);
    wane__ngrams_free(&g);
}

/* Of equal matches the newest; nothing across a border; nothing that the ring has lost. */
static void test_newest_borders_and_eviction(void **unused) {
    (void)unused;
    struct wane__ngrams g;
    static const int32_t text[] = {1, 2, 3, 10, 1, 2, 3, 11, 1, 2, 3};
    assert_true(wane__ngrams_init(&g, 64));
    for (int i = 0; i < 11; i++) wane__ngrams_add(&g, text[i]);
    struct wane__match m = wane__ngrams_find(&g, text + 11, 11);
    assert_int_equal(m.length, 3);
    assert_int_equal(wane__ngrams_at(&g, m.position), 11);
    wane__ngrams_clear(&g);
    const int32_t parts[] = {7, 8, WANE__NGRAMS_BORDER, 9, 5};
    for (int i = 0; i < 5; i++) wane__ngrams_add(&g, parts[i]);
    const int32_t across[] = {8, 9};
    assert_int_equal(wane__ngrams_find(&g, across + 2, 2).length, 0);
    wane__ngrams_clear(&g);
    for (int32_t i = 0; i < 1000; i++) wane__ngrams_add(&g, i);
    const int32_t old[] = {10, 11}, young[] = {990, 991};
    assert_int_equal(wane__ngrams_find(&g, old + 2, 2).length, 0);
    assert_int_equal(wane__ngrams_find(&g, young + 2, 2).length, 2);
    assert_true(g.evicted >= 1000 - g.capacity);
    wane__ngrams_free(&g);
}

/* -------------------------------------------------------------------- proposals */

static void feed(struct wane__drafter *d, int32_t *text, int *count, int32_t token) {
    text[(*count)++] = token;
    wane__drafter_add(d, token);
}

/* A list copied: near certain, and long. A text that repeats in itself runs on. */
static void test_copies(void **unused) {
    (void)unused;
    struct wane__drafter d;
    int32_t text[400];
    int count = 0;
    for (int32_t i = 0; i < 100; i++) text[count++] = 1000 + i;
    assert_true(wane__drafter_init(&d, 400));
    wane__drafter_begin(&d, text, (size_t)count, NULL, NULL);
    for (int32_t i = 0; i < 30; i++) {
        wane__drafter_propose(&d, text + count, count, WANE__DRAFT_MOST);
        feed(&d, text, &count, 1000 + i);
    }
    assert_int_equal(wane__drafter_propose(&d, text + count, count, WANE__DRAFT_MOST), WANE__DRAFT_MOST);
    for (int i = 0; i < WANE__DRAFT_MOST; i++) assert_int_equal(d.draft.token[i], 1030 + i);
    assert_true(d.draft.chance[0] > 0.9f && d.draft.chance[40] > 0.9f);
    const int32_t beat[] = {1, 2, 3};
    wane__drafter_begin(&d, text, 10, NULL, NULL);
    count = 10;
    for (int i = 0; i < 9; i++) {
        wane__drafter_propose(&d, text + count, count, WANE__DRAFT_MOST);
        feed(&d, text, &count, beat[i % 3]);
    }
    assert_int_equal(wane__drafter_propose(&d, text + count, count, 20), 20);
    for (int i = 0; i < 20; i++) assert_int_equal(d.draft.token[i], beat[i % 3]);
    wane__drafter_free(&d);
}

/* After a changed word, the copy is found again at its first token, not after two. */
static void test_the_way_after_a_break(void **unused) {
    (void)unused;
    struct wane__drafter d;
    int32_t text[400];
    int count = 0;
    for (int32_t i = 0; i < 60; i++) text[count++] = 100 + i;
    assert_true(wane__drafter_init(&d, 400));
    wane__drafter_begin(&d, text, (size_t)count, NULL, NULL);
    for (int32_t i = 0; i < 20; i++) {
        wane__drafter_propose(&d, text + count, count, WANE__DRAFT_MOST);
        feed(&d, text, &count, i == 19 ? 9999 : 100 + i);
    }
    assert_true(wane__drafter_propose(&d, text + count, count, 16) > 0);
    assert_int_equal(d.draft.source, WANE__DRAFT_WAY);
    assert_int_equal(d.draft.token[0], 120);
    /* A word more than there was: still found, by the token that fits. */
    feed(&d, text, &count, 9998);
    wane__drafter_propose(&d, text + count, count, 16);
    feed(&d, text, &count, 120);
    assert_true(wane__drafter_propose(&d, text + count, count, 16) > 0);
    assert_int_equal(d.draft.token[0], 121);
    wane__drafter_free(&d);
}

/* Where proposals are wrong, chances fall without a single block, and rise again. */
static void test_learns_by_itself(void **unused) {
    (void)unused;
    struct wane__drafter d;
    int32_t text[3000];
    int count = 0;
    assert_true(wane__drafter_init(&d, 3000));
    text[count++] = 1;
    wane__drafter_begin(&d, text, 1, NULL, NULL);
    for (int i = 0; i < 300; i++) { /* pairs that repeat and are followed by something else each time */
        const int32_t part[] = {5, 6, 100 + i};
        for (int k = 0; k < 3; k++) {
            wane__drafter_propose(&d, text + count, count, 8);
            feed(&d, text, &count, part[k]);
        }
    }
    const int32_t pair[] = {5, 6};
    for (int k = 0; k < 2; k++) {
        wane__drafter_propose(&d, text + count, count, 8);
        feed(&d, text, &count, pair[k]);
    }
    assert_true(wane__drafter_propose(&d, text + count, count, 8) > 0);
    assert_true(d.draft.chance[0] < 0.1f);
    wane__drafter_begin(&d, text, 3, NULL, NULL); /* without a tenant, the next reply knows nothing of it */
    assert_int_equal(d.text.count, 3);
    for (int s = 0; s < WANE__DRAFT_SOURCES; s++)
        for (int c = 0; c < WANE__CLASSES; c++) assert_true(d.now.tried[s][c] + d.before.tried[s][c] == 0);
    wane__drafter_free(&d);
}

/* A reply of `count` new tokens after a text of 100: a copy of it, or tokens of its own behind pairs of the text. */
static void write_reply(struct wane__draft_pool *pool, const char *tenant, bool copies, int count,
                        float *first) {
    struct wane__pool_tenant *t = wane__draft_pool_enter(pool, tenant);
    struct wane__drafter d;
    int32_t text[1000];
    int length = 0;
    assert_true(wane__drafter_init(&d, 1000));
    for (; length < 100; length++) text[length] = 1000 + length;
    for (int i = 0; i < 5; i++) text[length++] = 1000 + i; /* a match of five, so far */
    wane__drafter_begin(&d, text, (size_t)length, t, NULL);
    assert_true(wane__drafter_propose(&d, text + length, length, 8) == 8);
    *first = d.draft.chance[0];
    for (int i = 0; i < count; i++) {
        wane__drafter_propose(&d, text + length, length, 8);
        feed(&d, text, &length, copies ? 1005 + i : i % 4 == 3 ? 5000 + i : 1000 + i);
    }
    wane__draft_pool_leave(pool, t, NULL, 0, &d.now);
    wane__drafter_free(&d);
}

/* Who copied is believed to copy again, another tenant is not, and a few replies of another sort undo it. */
static void test_habits(void **unused) {
    (void)unused;
    static struct wane__draft_pool pool;
    float fresh, later, other, undone;
    write_reply(&pool, "a", true, 80, &fresh);
    for (int i = 0; i < 5; i++) write_reply(&pool, "a", true, 80, &later);
    assert_true(1 - later < (1 - fresh) / 3);
    write_reply(&pool, "b", true, 80, &other);
    assert_true(other == fresh);
    for (int i = 0; i < 4; i++) write_reply(&pool, "a", false, 80, &undone);
    assert_true(undone < fresh);
    wane__draft_pool_free(&pool);
}

static int chain(void *user, const int32_t *end, int have, int32_t *out, int most, float *chance) {
    (void)user;
    if (have < 1 || end[-1] != 77) return 0;
    int count = most < 5 ? most : 5;
    for (int i = 0; i < count; i++) out[i] = 500 + i, chance[i] = 0.95f;
    return count;
}

static void test_a_table_proposes(void **unused) {
    (void)unused;
    struct wane__drafter d;
    const struct wane__draft_chain table = {chain, NULL};
    int32_t text[100] = {3, 4, 77};
    int count = 3;
    assert_true(wane__drafter_init(&d, 100));
    wane__drafter_begin(&d, text, 3, NULL, &table);
    assert_int_equal(wane__drafter_propose(&d, text + count, count, 63), 5);
    assert_int_equal(d.draft.source, WANE__DRAFT_TABLE);
    assert_int_equal(d.draft.token[4], 504);
    float before = d.draft.chance[0];
    assert_true(wane__drafter_add(&d, 500));
    assert_false(wane__drafter_add(&d, 1));
    (void)before;
    assert_int_equal(wane__drafter_propose(&d, text + count, count, 2), 2);
    wane__drafter_free(&d);
}

/* ---------------------------------------------------------------------- the pool */

static void test_pool(void **unused) {
    (void)unused;
    static struct wane__draft_pool pool;
    struct wane__pool_counts counts;
    struct wane__drafter d;
    int32_t reply[] = {11, 12, 13, 14, 15, 16}, prompt[] = {1, 12, 13};
    struct wane__pool_tenant *a = wane__draft_pool_enter(&pool, "a");
    assert_non_null(a);
    wane__draft_pool_leave(&pool, a, reply, 6, NULL);
    assert_true(wane__drafter_init(&d, 100));
    /* The same tenant's next reply is proposed what it said before; nobody else's is. */
    a = wane__draft_pool_enter(&pool, "a");
    wane__drafter_begin(&d, prompt, 3, a, NULL);
    assert_int_equal(wane__drafter_propose(&d, prompt + 3, 3, 63), 3);
    assert_int_equal(d.draft.source, WANE__DRAFT_POOL);
    assert_int_equal(d.draft.token[0], 14);
    wane__draft_pool_leave(&pool, a, NULL, 0, NULL);
    struct wane__pool_tenant *b = wane__draft_pool_enter(&pool, "b");
    wane__drafter_begin(&d, prompt, 3, b, NULL);
    assert_int_equal(wane__drafter_propose(&d, prompt + 3, 3, 63), 0);
    wane__draft_pool_leave(&pool, b, NULL, 0, NULL);
    wane__drafter_free(&d);
    /* A million tokens: memory stays where it was, and what was given up is counted. */
    wane__draft_pool_count(&pool, &counts);
    uint64_t bytes = counts.bytes, given = 0;
    for (int i = 0; i < 1000; i++) {
        static int32_t many[1000];
        for (int k = 0; k < 1000; k++)
            many[k] = (int32_t)(wane__random_bits(9, (uint64_t)(i * 1000 + k)) % 50000);
        a = wane__draft_pool_enter(&pool, "a");
        wane__draft_pool_leave(&pool, a, many, 1000, NULL);
        given += 1001;
    }
    wane__draft_pool_count(&pool, &counts);
    assert_int_equal(counts.bytes, bytes);
    assert_true(counts.tokens <= 2 * WANE__POOL_TOKENS);
    assert_true(counts.evicted + counts.tokens >= given);
    /* More tenants than there are places: the one unused for longest goes, one in use never. */
    a = wane__draft_pool_enter(&pool, "a");
    for (int i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        struct wane__pool_tenant *t = wane__draft_pool_enter(&pool, name);
        assert_non_null(t);
        assert_ptr_not_equal(t, a);
        wane__draft_pool_leave(&pool, t, reply, 6, NULL);
    }
    assert_string_equal(a->name, "a");
    struct wane__pool_tenant *held[WANE__POOL_TENANTS];
    for (int i = 0; i < WANE__POOL_TENANTS - 1; i++) {
        char name[16];
        snprintf(name, sizeof name, "h%d", i);
        held[i] = wane__draft_pool_enter(&pool, name);
        assert_non_null(held[i]);
    }
    assert_null(wane__draft_pool_enter(&pool, "one too many"));
    for (int i = 0; i < WANE__POOL_TENANTS - 1; i++) wane__draft_pool_leave(&pool, held[i], NULL, 0, NULL);
    wane__draft_pool_leave(&pool, a, NULL, 0, NULL);
    wane__draft_pool_free(&pool);
}

/* --------------------------------------------------------------------- the length */

static double machine(int rows) {
    return 1e-3 * (6 + 2.6 * rows);
}

static void test_length(void **unused) {
    (void)unused;
    struct wane__draft_pace pace = {0};
    float sure[WANE__DRAFT_MOST], never[WANE__DRAFT_MOST], half[WANE__DRAFT_MOST];
    for (int i = 0; i < WANE__DRAFT_MOST; i++) sure[i] = 0.999f, never[i] = 0.02f, half[i] = 0.5f;
    assert_int_equal(wane__draft_pace_choose(&pace, 0, WANE__DRAFT_MOST, sure), 0); /* nothing is known yet */
    for (int i = 0; i < 8; i++) wane__draft_pace_note(&pace, 1, machine(1));
    for (int i = 0; i < 20; i++) { /* as it runs, it learns what blocks cost */
        int count = wane__draft_pace_choose(&pace, 0, WANE__DRAFT_MOST, sure);
        assert_true(count >= 15);
        wane__draft_pace_note(&pace, count + 1, machine(count + 1));
    }
    assert_int_equal(wane__draft_pace_choose(&pace, 0, WANE__DRAFT_MOST, never), 0);
    assert_in_range(wane__draft_pace_choose(&pace, 0, WANE__DRAFT_MOST, half), 0, 3);
    assert_true(wane__draft_pace_choose(&pace, 0, 10, sure) <= 10);
    assert_true(wane__draft_pace_choose(&pace, 40, WANE__DRAFT_MOST, sure) <= WANE__BLOCK_MOST - 41);
    /* Where several tokens cost as much as each alone, none is drafted. */
    struct wane__draft_pace dear = {0};
    for (int rows = 1; rows <= WANE__BLOCK_MOST; rows++)
        for (int i = 0; i < 8; i++) wane__draft_pace_note(&dear, rows, 1e-3 * 6 * rows);
    assert_int_equal(wane__draft_pace_choose(&dear, 0, WANE__DRAFT_MOST, half), 0);
    wane__draft_pace_note(&dear, 0, 1);
    wane__draft_pace_note(&dear, 65, 1);
}

/* Before anything ran, widths are judged by practice; afterwards by what ran, and by practice between. */
static void test_length_from_practice(void **unused) {
    (void)unused;
    struct wane__draft_pace pace = {0};
    float sure[WANE__DRAFT_MOST];
    for (int i = 0; i < WANE__DRAFT_MOST; i++) sure[i] = 0.999f;
    double seconds[WANE__BLOCK_MOST + 1] = {[4] = 2};
    wane__draft_pace_expect(&pace, seconds); /* without the single token it says nothing */
    assert_true(wane__draft_pace_cost(&pace, 4) <= 0);
    seconds[1] = 1, seconds[8] = 9, seconds[16] = 5, seconds[32] = 9; /* eight rows were disturbed */
    wane__draft_pace_expect(&pace, seconds);
    assert_float_equal(wane__draft_pace_cost(&pace, 1), 1, 1e-9);
    assert_float_equal(wane__draft_pace_cost(&pace, 8), 5, 1e-9);
    assert_float_equal(wane__draft_pace_cost(&pace, 6), 3.5, 1e-9);
    assert_float_equal(wane__draft_pace_cost(&pace, 24), 7, 1e-9);
    assert_true(wane__draft_pace_cost(&pace, WANE__BLOCK_MOST) > 9);
    assert_true(wane__draft_pace_choose(&pace, 0, WANE__DRAFT_MOST, sure) >=
                15);                    /* from the first token on */
    wane__draft_pace_note(&pace, 1, 2); /* with head and draws it takes twice as long */
    assert_float_equal(wane__draft_pace_cost(&pace, 16), 10, 1e-9);
    wane__draft_pace_note(&pace, 16, 5); /* and blocks do not */
    assert_float_equal(wane__draft_pace_cost(&pace, 16), 5, 1e-2);
    assert_float_equal(wane__draft_pace_cost(&pace, 32), 9, 1e-2);
    assert_in_range(1000 * wane__draft_pace_cost(&pace, 4), 3000, 4000); /* between twice and once 2 */
}

/* A text of few words in no order: much is proposed, little of it comes. It may cost next to nothing. */
static void test_nothing_to_draft(void **unused) {
    (void)unused;
    struct wane__draft_pace pace = {0};
    struct wane__drafter d;
    enum { COUNT = 3000 };
    static int32_t text[COUNT + 1];
    int count = 0;
    double with = 0, without = 0;
    assert_true(wane__drafter_init(&d, COUNT + 1));
    text[count++] = 1;
    wane__drafter_begin(&d, text, 1, NULL, NULL);
    while (count < COUNT) {
        int most = wane__drafter_propose(&d, text + count, count, WANE__DRAFT_MOST);
        int drafted = wane__draft_pace_choose(&pace, 0, most, d.draft.chance);
        with += machine(drafted + 1);
        wane__draft_pace_note(&pace, drafted + 1, machine(drafted + 1));
        for (bool goes_on = true; goes_on && count < COUNT;) {
            int32_t next = (int32_t)(wane__random_bits(5, (uint64_t)count) % 40);
            without += machine(1);
            goes_on = drafted-- > 0 && d.draft.count > 0 && d.draft.token[d.at] == next;
            feed(&d, text, &count, next);
        }
    }
    assert_true(with < 1.02 * without);
    wane__drafter_free(&d);
}

/* Time of `tokens` tokens where the proposal always looks sure and every `right`th block is drawn whole, others not at all. */
static double deceived(struct wane__draft_pace *pace, int tokens, int right, int *blocks) {
    float sure[WANE__DRAFT_MOST];
    for (int i = 0; i < WANE__DRAFT_MOST; i++) sure[i] = 0.95f;
    double time = 0;
    *blocks = 0;
    for (int done = 0; done < tokens;) {
        int drafted = wane__draft_pace_choose(pace, 0, WANE__DRAFT_MOST, sure);
        time += machine(drafted + 1);
        wane__draft_pace_note(pace, drafted + 1, machine(drafted + 1));
        *blocks += drafted > 0;
        int drawn = drafted > 0 && right > 0 && *blocks % right == 0 ? drafted : 0;
        if (drafted > 0) wane__draft_pace_settle(pace, 0, drafted, drawn);
        if (drafted == 0) wane__draft_pace_single(pace);
        done += drawn + 1;
    }
    return time;
}

/* Whatever estimates say, the account bounds what drafts may lose, and stands in the way of none that pay. */
static void test_account(void **unused) {
    (void)unused;
    enum { TOKENS = 4000 };
    int blocks;
    for (int credit = 0; credit < 2; credit++) {
        struct wane__draft_pace pace = {0};
        if (credit > 0) assert_true(deceived(&pace, TOKENS, 1, &blocks) < 0.6 * TOKENS * machine(1));
        /* Debt and credit at the start, one block, and one token in a hundred. */
        double most = machine(1) * (TOKENS * 1.01 + 8 + 32 * credit) + machine(WANE__BLOCK_MOST);
        assert_true(deceived(&pace, TOKENS, 0, &blocks) <= most);
        assert_true(blocks >= 1); /* and still it tries */
    }
    struct wane__draft_pace pace = {0};
    assert_true(deceived(&pace, TOKENS, 2, &blocks) <
                0.8 * TOKENS * machine(1)); /* every other one pays for both */
    /* Neighbours' tokens would have come anyway: they are nobody's credit. */
    double before = pace.debt;
    wane__draft_pace_settle(&pace, 3, 4, 0);
    assert_true(pace.debt > before);
    struct wane__draft_pace unknown = {0};
    wane__draft_pace_settle(&unknown, 0, 4, 4);
    assert_true(unknown.debt == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds_the_longest),
        cmocka_unit_test(test_newest_borders_and_eviction),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_the_way_after_a_break),
        cmocka_unit_test(test_learns_by_itself),
        cmocka_unit_test(test_habits),
        cmocka_unit_test(test_a_table_proposes),
        cmocka_unit_test(test_pool),
        cmocka_unit_test(test_length),
        cmocka_unit_test(test_length_from_practice),
        cmocka_unit_test(test_nothing_to_draft),
        cmocka_unit_test(test_account),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
