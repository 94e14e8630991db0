/*
 * test_diversity.c - words, loops, different n-grams and BLEU where they are known; the questions that ship, and that nothing but an answer
 * answers them; intervals against the same by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wane.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void near(double a, double b) {
    if (!(fabs(a - b) < 1e-9)) fail_msg("%.12g is not %.12g", a, b);
}

/* `before`, `piece` over and over, `after`: the period. */
static int loop_of(const char *before, const char *piece, int times, const char *after) {
    static char text[20000];
    int period = -1;
    size_t size = (size_t)snprintf(text, sizeof text, "%s", before);
    for (int i = 0; i < times; i++) size += (size_t)snprintf(text + size, sizeof text - size, "%s", piece);
    size += (size_t)snprintf(text + size, sizeof text - size, "%s", after);
    assert_true(size < sizeof text - 1);
    assert_int_equal(wane_text_loop(text, size, &period, NULL), WANE_OK);
    return period;
}

static void test_loops(void **unused) {
    (void)unused;
    static const char thirteen[] = "one two three four five six seven eight nine ten eleven twelve thirteen ";
    char list[2000] = "";
    assert_int_equal(loop_of("", "the sea is blue ", 8, ""), 4);
    assert_int_equal(loop_of("", "no ", 24, ""), 1);
    assert_int_equal(loop_of("", "no ", 23, ""), 0);
    assert_int_equal(loop_of("A story begins. ", "and then ", 12, "it was over."), 2);
    assert_int_equal(loop_of("", "the sea is blue ", 5, ""), 0); /* not long enough */
    assert_int_equal(loop_of("", thirteen, 2, ""), 0);           /* twice is no loop */
    assert_int_equal(loop_of("", thirteen, 3, ""), 13);
    assert_int_equal(loop_of("", "海是蓝色的。", 4, ""), 6); /* each character a word, and the sign */
    assert_int_equal(loop_of("", "No, NO, ", 12, ""), 2);    /* capitals do not count; signs do */
    assert_int_equal(loop_of("", "\xff\xfe ", 24, ""), 1);   /* wrong bytes are signs, and look alike */
    for (int i = 0; i < 60; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%d. Item number %d ", i, i);
    assert_int_equal(loop_of(list, "", 0, ""), 0); /* a list that counts */
    assert_int_equal(loop_of("", "", 0, ""), 0);
}

static wane_diversity diversity_of(const char *a, const char *b, const char *c) {
    const char *texts[] = {a, b, c};
    wane_diversity d;
    assert_int_equal(wane_diversity_of(texts, c != NULL ? 3 : b != NULL ? 2 : 1, &d, NULL), WANE_OK);
    return d;
}

static void test_diversity(void **unused) {
    (void)unused;
    static const char a[] = "The sea is blue and calm", b[] = "a dog ran over my red hat";
    wane_diversity same = diversity_of(a, "the sea IS blue  and calm", NULL),
                   other = diversity_of(a, b, NULL);
    near(same.distinct[0], 0.5);
    near(same.distinct[2], 0.5);
    near(same.self_bleu, 1);
    near(other.distinct[1], 1);
    assert_true(other.self_bleu < 0.2);
    assert_true(diversity_of(a, a, b).self_bleu < same.self_bleu);
    assert_true(isnan(diversity_of(a, NULL, NULL).self_bleu));
    assert_true(isnan(diversity_of("", "", NULL).distinct[0]));
    /* Nothing has 0; against nothing, half a match of 6, 5, 4 and 3. */
    near(diversity_of("", a, NULL).self_bleu, 0.5 / pow(360, 0.25) / 2);
    /* Four words of six: brevity costs exp(1 - 6 / 4) and all precisions are 1; the six have 4/6, 3/5, 2/4, 1/3 of theirs in the four. */
    double shorter = exp(1 - 6.0 / 4), longer = pow(4.0 / 6 * 3 / 5 * 2 / 4 * 1 / 3, 0.25);
    near(diversity_of("the sea is blue", a, NULL).self_bleu, (shorter + longer) / 2);
    /* An n-gram counts as often as in the text that has it most often. */
    near(diversity_of("no no no no", "no no no no no", NULL).self_bleu,
         (exp(1 - 5.0 / 4) + pow(4.0 / 5 * 3 / 4 * 2 / 3 * 1 / 2, 0.25)) / 2);
}

static bool finds(const char *pattern, const char *text, int characters) {
    bool found = false;
    assert_int_equal(wane_text_finds(pattern, text, strlen(text), characters, &found, NULL), WANE_OK);
    return found;
}

/* A pattern that the question itself, or nothing at all, satisfies would count every reply as right. */
static void test_questions(void **unused) {
    (void)unused;
    char line[2000], path[2000], *seen[500] = {0};
    int count = 0;
    assert_true(wane_shipped_file("governor/questions.tsv", path, sizeof path));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    for (; fgets(line, sizeof line, file) != NULL && line[0] != '\n'; count++) {
        char *pattern = strchr(line, '\t');
        line[strcspn(line, "\n")] = '\0';
        assert_non_null(pattern);
        *pattern++ = '\0';
        assert_null(strchr(pattern, '\t'));
        if (finds(pattern, "", 200) || finds(pattern, "I do not know.", 200) || finds(pattern, line, 2000))
            fail_msg("%s: its pattern %s says nothing", line, pattern);
        for (int i = 0; i < count; i++) assert_string_not_equal(seen[i], line);
        assert_true(count < 500);
        seen[count] = strdup(line);
    }
    assert_true(count >= 200);
    for (int i = 0; i < count; i++) free(seen[i]);
    fclose(file);
    wane_error error = {0};
    bool found;
    assert_true(finds("PARIS|par.s", "it is Paris.", 200));
    assert_true(finds("蓝色", "海是蓝色的", 4));
    assert_false(finds("蓝色", "海是蓝色的", 3));
    assert_int_equal(wane_text_finds("a(", "a", 1, 9, &found, &error), WANE_EINVAL);
    assert_non_null(strstr(error.text, "a("));
}

static void test_intervals(void **unused) {
    (void)unused;
    wane_interval i = wane_share_interval(8, 10), again;
    near(i.value, 0.8);
    assert_true(fabs(i.low - 0.4901625) < 1e-6 && fabs(i.high - 0.9433178) < 1e-6);
    assert_true(isnan(wane_share_interval(0, 0).value));
    double values[100], zero[40] = {0};
    for (int k = 0; k < 100; k++) values[k] = k % 10;
    assert_int_equal(wane_mean_interval(values, 100, 1, &i, NULL), WANE_OK);
    near(i.value, 4.5);
    /* The mean of so many has a deviation of sqrt(8.25 / 100). */
    assert_true(fabs(i.low - (4.5 - 1.96 * 0.2872)) < 0.03 && fabs(i.high - (4.5 + 1.96 * 0.2872)) < 0.03);
    assert_int_equal(wane_mean_interval(values, 100, 1, &again, NULL), WANE_OK);
    assert_memory_equal(&i, &again, sizeof i);
    assert_int_equal(wane_mean_interval(zero, 40, 1, &i, NULL),
                     WANE_OK); /* none of 40 differ: the rule of three, exactly */
    near(i.high, 1 - pow(0.025, 1.0 / 40));
    near(i.low, -i.high);
    assert_int_equal(wane_mean_interval(zero, 0, 1, &i, NULL), WANE_OK);
    assert_true(isnan(i.value) && isnan(i.low));
    near(wane_mcnemar(0, 0), 1);
    near(wane_mcnemar(5, 0), 2.0 / 32);
    near(wane_mcnemar(2, 7), 2 * (1 + 9 + 36) / 512.0);
    near(wane_mcnemar(3, 3), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loops),
        cmocka_unit_test(test_diversity),
        cmocka_unit_test(test_questions),
        cmocka_unit_test(test_intervals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
