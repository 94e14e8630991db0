/*
 * test_prepare.c - text preparation: what each step does to English, Chinese, emoji and right-to-left text and what it leaves alone,
 * that doing it again changes nothing, that code fences stay, and which steps a request gets from a server.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wane.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    INVISIBLE = 1u << WANE_PREPARE_INVISIBLE,
    NFC = 1u << WANE_PREPARE_NFC,
    TABLES = 1u << WANE_PREPARE_TABLES,
    NOUNS = 1u << WANE_PREPARE_NOUNS,
    SEGMENTS = 1u << WANE_PREPARE_SEGMENTS
};

static char *prepare(const char *text, size_t size, unsigned steps, size_t *out_size, wane_prepared *did) {
    char *out;
    wane_error error = {0};
    if (wane_text_prepare(text, size, steps, &out, out_size, did, &error) != WANE_OK)
        fail_msg("%s", error.text);
    assert_int_equal(strlen(out), *out_size);
    return out;
}

/* One step gives `wanted` with so many changes; once more, and nothing is changed. */
static void check(unsigned step, const char *text, const char *wanted, uint64_t changes) {
    wane_prepared did = {0}, again = {0};
    size_t size, again_size;
    char *out = prepare(text, strlen(text), step, &size, &did),
         *twice = prepare(out, size, step, &again_size, &again);
    assert_string_equal(out, wanted);
    assert_string_equal(twice, wanted);
    for (int i = 0; i < WANE_PREPARE_STEPS; i++) {
        assert_int_equal(did.changes[i], step == 1u << i ? changes : 0);
        assert_int_equal(again.changes[i], 0);
    }
    free(out);
    free(twice);
}

static void stays(unsigned steps, const char *text) {
    for (int i = 0; i < WANE_PREPARE_STEPS; i++)
        if ((steps & 1u << i) != 0) check(1u << i, text, text, 0);
}

/* ------------------------------------------------------------------ characters */

static void test_nfc(void **state) {
    (void)state;
    check(NFC, "Cafe\u0301 au lait, re\u0301sume\u0301", "Caf\u00e9 au lait, r\u00e9sum\u00e9", 3);
    check(NFC, "\u1112\u1161\u11ab\u1100\u1173\u11af", "\ud55c\uae00", 2); /* Korean, letter by letter */
    check(NFC, "\uf900\u8c48 \u8c48", "\u8c48\u8c48 \u8c48", 1);           /* a compatibility ideograph */
    check(NFC, "\u05e9\u05c1", "\u05e9\u05c1", 0);         /* Hebrew: not composed, on purpose */
    check(NFC, "\u0622 \u0627\u0653", "\u0622 \u0622", 1); /* Arabic alef with madda */
    check(NFC, "q\u0323\u0307 q\u0307\u0323", "q\u0323\u0307 q\u0323\u0307", 1); /* order of marks */
    stays(NFC, "plain, 中文、没有变化。 \U0001f468\u200d\U0001f469\u200d\U0001f467 ﬁ ① ｆ");
}

static void test_invisible(void **state) {
    (void)state;
    check(INVISIBLE, "\ufeffpass\u200bword\u00ad, in\u2060visi\u200cble\u200d", "password, invisible", 6);
    check(INVISIBLE, "中\u200b文\ufeff很\u2060好", "中文很好", 3);
    check(INVISIBLE,
          "a\x01\x1b[0mb\x7f\xc2\x85"
          "c\xc2\x86",
          "a[0mb\xc2\x85"
          "c",
          4);
    check(INVISIBLE, "fill\u3164er\uffa0", "filler", 2);
    check(INVISIBLE, "f\u2061(x)\u2062y", "f(x)y", 2);
    /* Words in tag letters, which no reader sees. */
    check(INVISIBLE, "Hi\U000e0001\U000e0069\U000e0067\U000e006e\U000e007f!", "Hi!", 5);
    /* The same in selectors. */
    check(INVISIBLE, "A\ufe00\ufe01\U000e0100\U000e0101B", "AB", 4);
    check(INVISIBLE, "\U0001f600\U000e0141\U000e0142", "\U0001f600", 2);
    /* White space is to be seen by what it parts. */
    stays(INVISIBLE, "a\tb\nc\r\nd\fe\u00a0f\u3000g\u2028h\u202fi");
}

static void test_invisible_emoji(void **state) {
    (void)state;
    stays(INVISIBLE, "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"); /* a family */
    stays(
        INVISIBLE,
        "\U0001f3f3\ufe0f\u200d\U0001f308 \u2764\ufe0f\u200d\U0001f525 \U0001f9d1\U0001f3fd\u200d\U0001f4bb");
    stays(INVISIBLE, "1\ufe0f\u20e3 \u2600\ufe0e \u2600\ufe0f");
    stays(INVISIBLE, "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"); /* Scotland */
    check(INVISIBLE, "\U0001f468\u200d \u200d\U0001f467 \U0001f600\u200dx",
          "\U0001f468 \U0001f467 \U0001f600x", 3);
    check(INVISIBLE, "\U0001f468\u200d\u200b\U0001f467", "\U0001f468\u200d\U0001f467", 1);
    check(INVISIBLE, "\U0001f3f4\U000e0067\U000e0062", "\U0001f3f4", 2); /* a flag without its end */
    check(INVISIBLE, "\U0001f600\ufe0f\ufe0f", "\U0001f600\ufe0f", 1);
}

static void test_invisible_scripts(void **state) {
    (void)state;
    stays(INVISIBLE, "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645");  /* Persian: "I want" */
    stays(INVISIBLE, "\u0915\u094d\u200d\u0937 \u0915\u094d\u200c\u0937"); /* Hindi, half form and not */
    stays(INVISIBLE, "\u0d28\u0d4d\u200d");                                /* Malayalam chillu */
    stays(INVISIBLE, "\u0e2a\u0e27\u0e31\u0e2a\u200b\u0e14\u0e35");        /* Thai, by words */
    stays(
        INVISIBLE,
        "\u0633\u0639\u0631 \u200e(USD) 5\u200f\u061c \u2067abc\u2069"); /* Arabic with marks of direction */
    stays(INVISIBLE, "\u05e9\u05dc\u05d5\u05dd \u202bHello\u202c\u200f!");
    stays(INVISIBLE, "\u845b\U000e0100\u57ce \u2268\ufe00"); /* a variant of an ideograph, and of a sign */
    /* In a line that has no letter of the kind they are for, they say nothing, and may hide something. */
    check(INVISIBLE, "if (admin\u202e\u2066) {\u2069", "if (admin) {", 3);
    check(INVISIBLE, "price\u200e: 5\n\u05e9\u05dc\u05d5\u05dd\u200f!",
          "price: 5\n\u05e9\u05dc\u05d5\u05dd\u200f!", 1);
    check(INVISIBLE, "\u200c\u200cx \u06cc\u200c\u200c\u06cc", "x \u06cc\u200c\u06cc", 3);
    check(INVISIBLE, "\u0e2a\u200bA", "\u0e2aA", 1);
}

/* ------------------------------------------------------------------ tables */

static void test_tables(void **state) {
    (void)state;
    check(TABLES,
          "Prices:\n"
          "|  Name      |   Price |\n"
          "|:-----------|--------:|\n"
          "| Apple      |    1.20 |\n"
          "|Pear|2|\n"
          "Thanks.",
          "Prices:\n"
          "| Name | Price |\n"
          "| :--- | ---: |\n"
          "| Apple | 1.20 |\n"
          "| Pear | 2 |\n"
          "Thanks.",
          4);
    check(TABLES,
          "+------+-----+\n"
          "| City | Pop |\n"
          "+======+=====+\n"
          "| Rome | 2.8 |\n"
          "+------+-----+\n"
          "| Bonn | 0.3 |\n"
          "+------+-----+\n",
          "| City | Pop |\n"
          "| --- | --- |\n"
          "| Rome | 2.8 |\n"
          "| Bonn | 0.3 |\n",
          4);
    check(TABLES,
          "┌──────┬──────┐\n"
          "│ 姓名 │ 年龄 │\n"
          "├──────┼──────┤\n"
          "│ 张三 │ 20　│\n"
          "└──────┴──────┘",
          "| 姓名 | 年龄 |\n"
          "| --- | --- |\n"
          "| 张三 | 20 |\n",
          5);
    check(TABLES, "a | b\n--|--\n1 | 2\r\nx", "| a | b |\n| --- | --- |\n| 1 | 2 |\r\nx", 3);
    check(TABLES, "  | a \\| b |   |\n  |---|---|\n", "  | a \\| b | |\n  | --- | --- |\n", 2);
    check(TABLES, "｜שם｜מחיר｜\n|---|---|\n｜תפוח｜5｜\n", "| שם | מחיר |\n| --- | --- |\n| תפוח | 5 |\n",
          3);
    check(TABLES, "|\U0001f34e|\U0001f350|\n|-|-|\n", "| \U0001f34e | \U0001f350 |\n| --- | --- |\n", 2);
    /* A bar is no table, nor is a rule. */
    stays(TABLES, "ls | wc\ncat x | sort | uniq\n");
    stays(TABLES, "Title\n-----\n\n---\n\n+1 -1\n a || b\n");
    stays(TABLES, "| a | b |\n| --- | :---: |\n| 1 | 2 |");
    stays(TABLES, "+-----+\n\ntext\n");
}

/* ------------------------------------------------------------------ nouns */

static void test_nouns(void **state) {
    (void)state;
    check(NOUNS, "苹果、 香蕉 、橘子､葡萄　、、梨", "苹果、香蕉、橘子、葡萄、梨", 4);
    check(NOUNS, "甲、乙、。丙 、；丁、，", "甲、乙。丙；丁，", 3);
    check(NOUNS, "りんご ､ みかん", "りんご、みかん", 1);
    check(NOUNS, "\U0001f34e 、 \U0001f350", "\U0001f34e、\U0001f350", 1);
    check(NOUNS, "שלום ، 、 עולם", "שלום ،、עולם", 1);
    check(NOUNS, "列举：苹果、 ", "列举：苹果、", 1);
    /* A list that goes on, a name that begins with "and", another language's commas, an indentation. */
    stays(NOUNS, "请继续：苹果、香蕉、\n橘子、\n");
    stays(NOUNS, "自由、和平、民主");
    stays(NOUNS, "apples, pears , and plums");
    stays(NOUNS, "  、列表");
    stays(NOUNS, "مرحبا، كيف الحال");
}

/* ------------------------------------------------------------------ segments */

static void test_segments(void **state) {
    (void)state;
    check(SEGMENTS, "Mr. Smith went home. He slept! Did he?",
          "[SEGMENT 1] Mr. Smith went home. [SEGMENT 2] He slept! [SEGMENT 3] Did he?", 3);
    check(SEGMENTS, "今天下雨。我没带伞！怎么办？",
          "[SEGMENT 1] 今天下雨。[SEGMENT 2] 我没带伞！[SEGMENT 3] 怎么办？", 3);
    check(SEGMENTS, "שלום עולם. מה שלומך?", "[SEGMENT 1] שלום עולם. [SEGMENT 2] מה שלומך?", 2);
    check(SEGMENTS, "مرحبا بك. كيف حالك؟ جيد.",
          "[SEGMENT 1] مرحبا بك. [SEGMENT 2] كيف حالك؟ [SEGMENT 3] جيد.", 3);
    check(SEGMENTS, "Great \U0001f600! Really \U0001f468\u200d\U0001f469? Yes.",
          "[SEGMENT 1] Great \U0001f600! [SEGMENT 2] Really \U0001f468\u200d\U0001f469? [SEGMENT 3] Yes.", 3);
    check(SEGMENTS, "Title\n\n  First line\n***\nSecond",
          "[SEGMENT 1] Title\n\n  [SEGMENT 2] First line\n***\n[SEGMENT 3] Second", 3);
    check(SEGMENTS, "Look:\n| a | b |\n| --- | --- |\nDone.",
          "[SEGMENT 1] Look:\n| a | b |\n| --- | --- |\n[SEGMENT 2] Done.", 2);
    /* Wrong marks, and marks in marks, are put right. */
    check(SEGMENTS, "[SEGMENT 7] One. [SEG[SEGMENT 1] MENT 2] Two.", "[SEGMENT 1] One. [SEGMENT 2] Two.", 2);
    check(SEGMENTS, "[SEGMENT 1] Alone.", "Alone.", 1);
    stays(SEGMENTS, "Only one sentence here");
    stays(SEGMENTS, "");
    stays(SEGMENTS, "[SEGMENT x] and [SEGMENT 12345678] are none");
}

/* ------------------------------------------------------------------ all */

static void test_fences(void **state) {
    (void)state;
    static const char text[] = "A\u200b.  B.\n"
                               "```c\n"
                               "char *s = \"e\u0301\u200b\"; // A. B.\n"
                               "|  a  |\n"
                               "|-----|\n"
                               "甲 、乙\n"
                               "```\n"
                               "C\u200b.\n"
                               "~~~~\nx\u200b\n```\ny\u200b\n~~~~\n"
                               "D\u200b.\n"
                               "   ``` `no fence` \u200b\n"
                               "```\nopen to the end\u200b 甲 、乙";
    static const char wanted[] = "[SEGMENT 1] A.  [SEGMENT 2] B.\n"
                                 "```c\n"
                                 "char *s = \"e\u0301\u200b\"; // A. B.\n"
                                 "|  a  |\n"
                                 "|-----|\n"
                                 "甲 、乙\n"
                                 "```\n"
                                 "[SEGMENT 3] C.\n"
                                 "~~~~\nx\u200b\n```\ny\u200b\n~~~~\n"
                                 "[SEGMENT 4] D.\n"
                                 "   [SEGMENT 5] ``` `no fence` \n"
                                 "```\nopen to the end\u200b 甲 、乙";
    wane_prepared did = {0};
    size_t size;
    char *out = prepare(text, strlen(text), WANE_PREPARE_ALL, &size, &did);
    assert_string_equal(out, wanted);
    assert_int_equal(did.changes[WANE_PREPARE_INVISIBLE], 4);
    assert_int_equal(did.changes[WANE_PREPARE_NFC], 0);
    assert_int_equal(did.changes[WANE_PREPARE_SEGMENTS], 5);
    free(out);
}

/* Ten thousand stretches: what a step sets up must not be set up for each of them, or this takes minutes. */
static void test_many_fences(void **state) {
    (void)state;
    static const char piece[] = "One. Two.\n```\nx\n```\n";
    enum { PIECES = 10000, SIZE = sizeof piece - 1 };
    char *text = malloc(PIECES * SIZE + 1);
    assert_non_null(text);
    for (int i = 0; i < PIECES; i++) memcpy(text + i * SIZE, piece, sizeof piece);
    wane_prepared did = {0};
    size_t size;
    char *out = prepare(text, PIECES * SIZE, WANE_PREPARE_ALL, &size, &did);
    assert_int_equal(did.changes[WANE_PREPARE_SEGMENTS], 2 * PIECES);
    assert_non_null(strstr(out, "[SEGMENT 20000] Two."));
    free(out);
    free(text);
}

/* What one step uncovers, the others see: all steps together change nothing twice either. */
static void test_together(void **state) {
    (void)state;
    static const char *const texts[] = {
        "e\u200b\u0301",
        "A、[SEG\u200bMENT 1] 、B。C",
        "`\u200b``\nA\u200bB\n```\nC\u200bD",
        "| [SEGMENT 1]   |\n|---|\n",
        "[SEGMENT 1] ```\nA. B.\n[SEGMENT 2] ```\nC. D.",
        "甲\u200b、\u200b 乙。丙",
        "\u200b|a|\n|\u200b-\u200b-|\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (unsigned steps = 0; steps <= WANE_PREPARE_ALL; steps++) {
            wane_prepared did = {0}, again = {0};
            size_t size, twice_size;
            char *out = prepare(texts[i], strlen(texts[i]), steps, &size, &did),
                 *twice = prepare(out, size, steps, &twice_size, &again);
            assert_string_equal(out, twice);
            free(out);
            free(twice);
        }
}

/* Scraps of everything that a step looks at, put together at random. */
static void test_random(void **state) {
    (void)state;
    static const char *const scraps[] = {
        "a",          "B",          " ",          "  ",         "\n",           "\n\n",   "\r\n",
        ".",          ". ",         "! ",         "。",         "？",           "、",     "､",
        "，",         "|",          "| ",         "-",          "---",          "+",      "=",
        "│",          "─",          "┼",          ":",          "\\",           "`",      "```",
        "```\n",      "~~~\n",      "[SEGMENT ",  "1] ",        "[SEGMENT 2] ", "]",      "12",
        "中",         "文",         "e\u0301",    "\u0301",     "\u1100\u1161", "\u200b", "\u200c",
        "\u200d",     "\ufe0f",     "\U000e0100", "\u200f",     "\u202e",       "\ufeff", "\U0001f468",
        "\U0001f3fd", "\U0001f3f4", "\U000e0067", "\U000e007f", "\u05e9",       "\u0645", "\u0915\u094d",
        "\u0e2a",     "1",          "\u3000",     "\t",         "Mr. ",         "\u00ad", "\u0344",
        "\u2126",     "\u212a",
    };
    enum { SCRAPS = sizeof scraps / sizeof *scraps, ROUNDS = 4000 };
    uint64_t seed = 7;
    for (int round = 0; round < ROUNDS; round++) {
        char text[600] = "";
        size_t used = 0;
        for (int i = 0; i < 24; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            const char *scrap = scraps[(seed >> 33) % SCRAPS];
            memcpy(text + used, scrap, strlen(scrap) + 1);
            used += strlen(scrap);
        }
        unsigned steps = round % 3 == 0 ? WANE_PREPARE_ALL : (unsigned)(seed >> 40) & WANE_PREPARE_ALL;
        wane_prepared did = {0}, again = {0};
        size_t size, twice_size;
        char *out = prepare(text, used, steps, &size, &did),
             *twice = prepare(out, size, steps, &twice_size, &again);
        if (strcmp(out, twice) != 0)
            fail_msg("round %d, steps %u: <%s> <%s> <%s>", round, steps, text, out, twice);
        uint64_t changes = 0, after = 0;
        for (int i = 0; i < WANE_PREPARE_STEPS; i++) changes += did.changes[i], after += again.changes[i];
        assert_int_equal(after, 0);
        if (changes == 0) assert_string_equal(out, text); /* nothing silently */
        if ((steps & NFC) != 0 && strchr(text, '`') == NULL && strchr(text, '~') == NULL) {
            char *composed;
            size_t composed_size;
            assert_int_equal(wane_text_nfc(out, size, &composed, &composed_size, NULL), WANE_OK);
            assert_string_equal(composed, out);
            free(composed);
        }
        free(out);
        free(twice);
    }
}

static void test_names_and_faults(void **state) {
    (void)state;
    unsigned steps;
    wane_error error = {0};
    char *out;
    size_t size;
    assert_int_equal(wane_prepare_from("nfc, tables", &steps, &error), WANE_OK);
    assert_int_equal(steps, NFC | TABLES);
    assert_int_equal(wane_prepare_from("all", &steps, &error), WANE_OK);
    assert_int_equal(steps, WANE_PREPARE_ALL);
    assert_int_equal(wane_prepare_from("none", &steps, &error), WANE_OK);
    assert_int_equal(steps, 0);
    static const char *const bad[] = {"nfd", "nfc,", ",nfc", "nfc,,tables", "all,nfc", "NFC", "nfc tables"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(wane_prepare_from(bad[i], &steps, &error), WANE_EINVAL);
        assert_non_null(strstr(error.text, "nouns and segments"));
        assert_int_equal(steps, 0);
    }
    for (int i = 0; i < WANE_PREPARE_STEPS; i++) {
        assert_int_equal(wane_prepare_from(wane_prepare_name(i), &steps, &error), WANE_OK);
        assert_int_equal(steps, 1u << i);
    }
    assert_string_equal(wane_prepare_name(WANE_PREPARE_STEPS), "?");
    assert_int_equal(wane_text_prepare("a\xff", 2, NFC, &out, &size, NULL, &error), WANE_EFORMAT);
    assert_null(out);
    assert_int_equal(wane_text_prepare("a\xe4\xb8", 3, 0, &out, &size, NULL, &error), WANE_EFORMAT);
    assert_int_equal(wane_text_prepare("a", 1, 1u << WANE_PREPARE_STEPS, &out, &size, NULL, &error),
                     WANE_EINVAL);
    assert_int_equal(wane_text_prepare("", 0, WANE_PREPARE_ALL, &out, &size, NULL, &error), WANE_OK);
    assert_string_equal(out, "");
    free(out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nfc),
        cmocka_unit_test(test_invisible),
        cmocka_unit_test(test_invisible_emoji),
        cmocka_unit_test(test_invisible_scripts),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_nouns),
        cmocka_unit_test(test_segments),
        cmocka_unit_test(test_fences),
        cmocka_unit_test(test_many_fences),
        cmocka_unit_test(test_together),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_names_and_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
