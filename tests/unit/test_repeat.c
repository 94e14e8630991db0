/* test_repeat.c - questions that come again, and how alike their answers are, as docs/rollout.md defines both. */
#include "ops/repeat.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these before it */
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static wane_message user(const char *text) {
    return (wane_message){"user", text, strlen(text)};
}

static wane_message assistant(const char *text) {
    return (wane_message){"assistant", text, strlen(text)};
}

static void test_find(void **unused) {
    (void)unused;
    wane_message m[] = {{"system", "s", 1}, user("What is 2 + 2?"), assistant("4"),
                        user("And more?"),  assistant("5"),         user("what is 2+2"),
                        assistant("Four."), user("WHAT is... 2 2")};
    assert_ptr_equal(wane__repeat_find(m, 8), &m[6]); /* the latest answer */
    assert_ptr_equal(wane__repeat_find(m, 6), &m[2]);
    assert_null(wane__repeat_find(m, 7)); /* the last word is the assistant's */
    assert_null(wane__repeat_find(m, 4));
    assert_null(wane__repeat_find(m, 2));
    assert_null(wane__repeat_find(m, 0));
    assert_null(wane__repeat_find(NULL, 0));
    /* Nothing was asked. */
    wane_message empty[] = {user("?!"), assistant("a"), user("...")};
    assert_null(wane__repeat_find(empty, 3));
    /* A question that was never answered. */
    wane_message unanswered[] = {user("a"), user("a"), user("a")};
    assert_null(wane__repeat_find(unanswered, 3));
    /* What begins alike is another question. */
    wane_message longer[] = {user("a b"), assistant("x"), user("a b c")};
    assert_null(wane__repeat_find(longer, 3));
    longer[2] = user("a");
    assert_null(wane__repeat_find(longer, 3));
    wane_message others[] = {user("caf\xc3\xa9"), assistant("x"), user("cafe")};
    assert_null(wane__repeat_find(others, 3));
}

static double score(const char *a, const char *b) {
    double x = wane__repeat_score(a, strlen(a), b, strlen(b)),
           y = wane__repeat_score(b, strlen(b), a, strlen(a));
    assert_true(x == y);
    return x;
}

static void test_score(void **unused) {
    (void)unused;
    assert_true(score("", "") == 1);
    assert_true(score("...", "") == 1);
    assert_true(score("It is four.", "it is FOUR") == 1);
    assert_true(score("It is four.", "It is five.") == 1 - 1.0 / 3);
    assert_true(score("It is four.", "") == 0);
    assert_true(score("a b c d", "b c d") == 0.75);
    assert_true(score("a b c d", "w x y z") == 0);
    /* Characters beyond ASCII are units of their own. */
    assert_true(score("\xe5\x9b\x9b\xe5\x8d\x81", "\xe5\x9b\x9b\xe5\x8d\x83") == 0.5);
    /* A word as long as any, and bytes that are no text. */
    char word[1000];
    memset(word, 'w', sizeof word);
    word[999] = '\0';
    assert_true(score(word, word) == 1);
    assert_true(score(word, word + 1) == 0);
    assert_true(score("\x80\xbf\xff", "\x80\xbf\xff") == 1);
}

static void test_long_answers(void **unused) {
    (void)unused;
    static char a[40000], b[40000];
    size_t size = 0;
    for (int i = 0; i < 5000; i++) size += (size_t)snprintf(a + size, sizeof a - size, "w%d ", i);
    memcpy(b, a, size + 1);
    assert_true(wane__repeat_score(a, size, b, size) == 1);
    memcpy(b + size - 6, "other!", 6); /* behind what is looked at */
    assert_true(wane__repeat_score(a, size, b, size) == 1);
    b[0] = 'x';
    double x = wane__repeat_score(a, size, b, size);
    assert_true(fabs(x - (1 - 1.0 / WANE__REPEAT_UNITS)) < 1e-12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_score),
        cmocka_unit_test(test_long_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
