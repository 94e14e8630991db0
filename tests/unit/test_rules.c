/*
 * test_rules.c - files of rules: what is refused, in which words; what holds which token; and the set that ships, against sentences
 * that say the same and the contrary, with negations that a list of words would miss.
 */
#include "correct/rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* A tokenizer of a few words; everything else is bytes. Words of several tokens begin with their longest listed beginning. */
static const char *const pieces[] = {" may", "may", " allowed", "allow", "可以", " permit",
                                     "ted",  "不",  " ",        "p",     " can", "x"};
enum { BYTES = 256, PIECES = sizeof pieces / sizeof *pieces, VOCAB = BYTES + PIECES };

static int tokenize(void *user, const char *text, size_t size, wane_tokens *out, wane_error *error) {
    (void)user, (void)error;
    out->id = realloc(out->id, (out->count + size) * sizeof *out->id);
    while (size > 0) {
        size_t length = 1;
        int32_t token = (unsigned char)*text;
        for (int i = 0; i < PIECES; i++)
            if (strlen(pieces[i]) >= length && strlen(pieces[i]) <= size &&
                memcmp(text, pieces[i], strlen(pieces[i])) == 0) {
                length = strlen(pieces[i]);
                token = BYTES + i;
            }
        out->id[out->count++] = token;
        text += length;
        size -= length;
    }
    return WANE_OK;
}

static int token_bytes(void *user, int32_t token, char *buffer, size_t capacity) {
    (void)user;
    if (token < BYTES) {
        *buffer = (char)token;
        return 1;
    }
    size_t size = strlen(pieces[token - BYTES]);
    if (size > capacity) return WANE_EINVAL;
    memcpy(buffer, pieces[token - BYTES], size);
    return (int)size;
}

static const struct wane__rules_tokenizer tokenizer = {tokenize, token_bytes, NULL, VOCAB};

static int32_t piece(const char *text) {
    for (int i = 0; i < PIECES; i++)
        if (strcmp(pieces[i], text) == 0) return BYTES + i;
    fail_msg("no piece \"%s\"", text);
    return -1;
}

static struct wane__rules *parse(const char *text) {
    struct wane__rules *rules = NULL;
    wane_error error = {0};
    if (wane__rules_parse("test.json", text, strlen(text), &tokenizer, &rules, &error) != WANE_OK)
        fail_msg("%s", error.text);
    return rules;
}

static void write_text(struct wane__recent *recent, const char *prompt, const char *reply) {
    *recent = (struct wane__recent){0};
    wane__recent_add(recent, prompt, strlen(prompt), false);
    wane__recent_add(recent, reply, strlen(reply), true);
}

/* ---------------------------------------------------------------------- files */

static void test_refused(void **unused) {
    (void)unused;
    static const struct {
        const char *text, *words[3];
    } cases[] = {
        {"[", {"test.json", "line 1", "no JSON"}},
        {"{}", {"test.json", "list of at most 256 rules"}},
        {"[1]", {"rule 1", "must be an object"}},
        {"[{\"name\":\"\",\"pattern\":\"a\",\"tokens\":[1]}]", {"rule 1", "\"name\"", "1 to 100"}},
        {"[{\"pattern\":\"a\",\"tokens\":[1]}]", {"rule 1", "\"name\""}},
        {"[{\"name\":\"n\",\"tokens\":[1]}]", {"rule 1 \"n\"", "no \"pattern\""}},
        {"[{\"name\":\"n\",\"pattern\":\"\",\"tokens\":[1]}]", {"rule 1 \"n\"", "0 bytes"}},
        {"[{\"name\":\"n\",\"pattern\":\"a\"}]", {"rule 1 \"n\"", "holds nothing"}},
        {"[{\"name\":\"n\",\"pattern\":\"a\",\"tokens\":[]}]", {"\"tokens\"", "1 to 256"}},
        {"[{\"name\":\"n\",\"pattern\":\"a\",\"tokens\":[-1]}]", {"\"tokens\"", "0 to 267"}},
        {"[{\"name\":\"n\",\"pattern\":\"a\",\"tokens\":[268]}]", {"\"tokens\"", "0 to 267"}},
        {"[{\"name\":\"n\",\"pattern\":\"a\",\"tokens\":[1.5]}]", {"\"tokens\"", "whole numbers"}},
        {"[{\"name\":\"n\",\"pattern\":\"a\",\"words\":\"may\"}]", {"\"words\"", "list"}},
        {"[{\"name\":\"n\",\"pattern\":\"a\",\"words\":[\"  \"]}]", {"not only blanks"}},
        {"[{\"name\":\"n\",\"pattern\":\"a\",\"words\":[7]}]", {"must be strings"}},
        {"[{\"name\":\"n\",\"pattern\":\"a\",\"word\":[\"may\"]}]", {"a field \"word\"", "words, tokens"}},
        {"[{\"name\":\"n\",\"pattern\":\"a\",\"tokens\":[1],\"scope\":\"all\"}]", {"\"scope\"", "context"}},
        {"[{\"name\":\"n\",\"pattern\":\"a\",\"tokens\":[1],\"note\":1}]", {"\"note\""}},
        {"[{\"name\":\"n\",\"name\":\"n\",\"pattern\":\"a\",\"tokens\":[1]}]", {"no JSON", "duplicate"}},
        {"[{\"name\":\"n\",\"pattern\":\"a\",\"tokens\":[1]},{\"name\":\"n\",\"pattern\":\"b\",\"tokens\":[1]"
         "}]",
         {"rule 2 \"n\"", "rule 1 has the same name"}},
        {"[{\"name\":\"a\",\"pattern\":\"a\",\"tokens\":[1]},{\"name\":\"b\",\"pattern\":\"ab(c\",\"tokens\":"
         "[1]}]",
         {"test.json: rule 2 \"b\"", "line 1, character 4", "U_REGEX_MISMATCHED_PAREN"}},
        {"[{\"name\":\"b\",\"pattern\":\"x\\nab[c\",\"tokens\":[1]}]", {"line 2", "U_REGEX"}},
        {"[{\"name\":\"b\",\"pattern\":\"(?<=a*)b\",\"tokens\":[1]}]", {"U_REGEX_LOOK_BEHIND_LIMIT"}},
        {"[{\"name\":\"b\",\"pattern\":\"a{99999999999}\",\"tokens\":[1]}]", {"rule 1 \"b\"", "U_REGEX"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wane__rules *rules = NULL;
        wane_error error = {0};
        assert_int_equal(wane__rules_parse("test.json", cases[i].text, strlen(cases[i].text), &tokenizer,
                                           &rules, &error),
                         WANE_EFORMAT);
        assert_null(rules);
        for (int k = 0; k < 3 && cases[i].words[k] != NULL; k++)
            if (strstr(error.text, cases[i].words[k]) == NULL)
                fail_msg("\"%s\" is not in: %s", cases[i].words[k], error.text);
    }
}

static void test_files(void **unused) {
    (void)unused;
    char path[] = "/tmp/wane-rules-XXXXXX";
    struct wane__rules *rules = NULL;
    wane_error error = {0};
    int fd = mkstemp(path);
    assert_int_equal(write(fd, "[]", 2), 2);
    assert_int_equal(wane__rules_load(path, &tokenizer, &rules, &error), WANE_OK);
    assert_int_equal(wane__rules_count(rules), 0);
    wane__rules_free(rules);
    assert_int_equal(ftruncate(fd, (2 << 20)), 0);
    assert_int_equal(wane__rules_load(path, &tokenizer, &rules, &error), WANE_EFORMAT);
    assert_non_null(strstr(error.text, "larger"));
    close(fd);
    unlink(path);
    assert_int_equal(wane__rules_load(path, &tokenizer, &rules, &error), WANE_ENOENT);
    assert_null(rules);
}

/* Words are held by their first tokens, both ways; but not by one that begins half the language. */
static void test_words(void **unused) {
    (void)unused;
    struct wane__rules *rules = parse(
        "[{\"name\":\"a\",\"pattern\":\"a\",\"words\":[\"may\",\"permitted\",\"allowed\",\"可以\",\"x\"]},"
        "{\"name\":\"b\",\"pattern\":\"b\",\"words\":[\"禁止\",\"may\",\"plain\"],\"tokens\":[65]}]");
    static const char *const held[] = {" may", "may", " permit", " allowed", "allow", "可以", "x"},
                             *const not_held[] = {" ", "p", "ted", "不", " can"};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        assert_true(wane__rules_names(rules, piece(held[i])));
    for (size_t i = 0; i < sizeof not_held / sizeof *not_held; i++)
        assert_false(wane__rules_names(rules, piece(not_held[i])));
    assert_true(wane__rules_names(rules, 65));
    assert_false(wane__rules_names(rules, 0xe7)); /* the first byte of a character */
    assert_int_equal(wane__rules_pairs(rules), 7 + 3);
    const char *word = NULL, *rule = NULL;
    assert_int_equal(wane__rules_words_left(rules, &word, &rule), 2);
    assert_string_equal(word, "禁止");
    assert_string_equal(rule, "b");
    wane__rules_free(rules);
}

/* Each rule holds its own tokens, and only where it matches; a digest tells sets apart by what they do. */
static void test_hold(void **unused) {
    (void)unused;
    static const char text[] = "[{\"name\":\"a\",\"pattern\":\"not$\",\"tokens\":[65,66]},"
                               "{\"name\":\"b\",\"pattern\":\"must not$\",\"tokens\":[66,67],\"note\":\"x\"},"
                               "{\"name\":\"c\",\"pattern\":\"law\",\"tokens\":[68],\"scope\":\"context\"}]";
    struct wane__rules *rules = parse(text);
    struct wane__recent recent;
    const struct wane__candidate list[5] = {{66, 3}, {64, 2}, {65, 1}, {67, 0}, {68, -1}};
    static const struct {
        const char *prompt, *reply;
        bool held[5];
    } cases[] = {
        {"", "", {false, false, false, false, false}},
        {"", "you must not", {true, false, true, true, false}},
        {"", "you can not", {true, false, true, false, false}},
        {"must not", "", {false, false, false, false, false}},
        {"the law", " is", {false, false, false, false, true}},
        {"", "law must not", {true, false, true, true, true}},
    };
    assert_true(wane__rules_see_prompt(rules));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool held[5];
        int failures = 0;
        write_text(&recent, cases[i].prompt, cases[i].reply);
        wane__rules_hold(rules, &recent, list, 5, held, &failures);
        assert_memory_equal(held, cases[i].held, sizeof held);
        assert_int_equal(failures, 0);
    }
    uint64_t digest[2], other[2];
    wane__rules_digest(rules, digest);
    static const struct {
        const char *from, *to;
        bool same;
    } changes[] = {{"\"x\"", "\"y\"", true},
                   {"\"a\"", "\"z\"", true},
                   {"not$\",\"tokens\":[65", "no.$\",\"tokens\":[65", false},
                   {"68", "69", false},
                   {"context", "reply", false}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char changed[sizeof text + 20];
        const char *at = strstr(text, changes[i].from);
        assert_non_null(at);
        snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, changes[i].to,
                 at + strlen(changes[i].from));
        struct wane__rules *second = parse(changed);
        wane__rules_digest(second, other);
        assert_int_equal(memcmp(digest, other, sizeof digest) == 0, changes[i].same);
        wane__rules_free(second);
    }
    wane__rules_free(rules);
}

/* A pattern that would run for years is stopped, and does not match. */
static void test_a_slow_pattern(void **unused) {
    (void)unused;
    struct wane__rules *rules =
        parse("[{\"name\":\"a\",\"pattern\":\"(?:a|aa)+(?:a|aa)+(?:a|aa)+b\",\"tokens\":[1]},"
              "{\"name\":\"b\",\"pattern\":\"(.*)(.*)(.*)(.*)(.*)(.*)(.*)\\\\1x\",\"tokens\":[1]}]");
    struct wane__recent recent;
    const struct wane__candidate one = {1, 0};
    char text[300];
    bool held = true;
    int failures = 0;
    memset(text, 'a', sizeof text);
    text[299] = '\0';
    write_text(&recent, "", text);
    wane__rules_hold(rules, &recent, &one, 1, &held, &failures);
    assert_false(held);
    assert_int_equal(failures, 2);
    wane__rules_free(rules);
}

/* --------------------------------------------------------------------- recent */

static int window_of(const struct wane__recent *recent, bool reply_only, char *out) {
    uint16_t units[2 * WANE__RECENT_CHARACTERS];
    int count = wane__recent_window(recent, reply_only, units), at = 0;
    for (int i = 0; i < count; i++) at += sprintf(out + at, units[i] < 128 ? "%c" : "<%x>", units[i]);
    out[at] = '\0';
    return count;
}

static void test_recent(void **unused) {
    (void)unused;
    struct wane__recent recent = {0};
    char seen[4000];
    assert_int_equal(window_of(&recent, true, seen), 0);
    wane__recent_add(&recent, "prompt", 6, false);
    assert_int_equal(window_of(&recent, true, seen), 0);
    wane__recent_add(&recent, "re\xe4\xb8", 4, true);
    window_of(&recent, false, seen);
    assert_string_equal(seen, "promptre"); /* the rest of the character is to come */
    wane__recent_add(&recent, "\x8d\xf0\x9f\x98", 4, true);
    window_of(&recent, true, seen);
    assert_string_equal(seen, "re<4e0d>");
    wane__recent_add(&recent, "\x80!\xff\xe4", 4, true);
    window_of(&recent, true, seen);
    assert_string_equal(seen, "re<4e0d><d83d><de00>!<fffd>");
    wane__recent_add(&recent, "a", 1, true); /* what was to come did not */
    window_of(&recent, true, seen);
    assert_string_equal(seen, "re<4e0d><d83d><de00>!<fffd><fffd>a");
}

/* Whatever comes in, and however: the window is the end of all that came. */
static void test_recent_keeps_the_end(void **unused) {
    (void)unused;
    static char all[40000];
    struct wane__recent recent = {0};
    size_t size = 0, prompt = 0;
    for (int i = 0; i < 400; i++) {
        char token[2000];
        int length = i % 50 == 49 ? 1999 : (i * 7) % 40;
        for (int k = 0; k < length; k++) token[k] = (char)('a' + (i + k) % 26);
        if (size + (size_t)length > sizeof all) break;
        memcpy(all + size, token, (size_t)length);
        size += (size_t)length;
        if (i < 5) prompt = size;
        wane__recent_add(&recent, token, (size_t)length, i >= 5);
        for (int reply_only = 0; reply_only < 2; reply_only++) {
            char seen[500];
            size_t from = reply_only ? prompt : 0, most = size - from < 200 ? size - from : 200;
            assert_int_equal(window_of(&recent, reply_only, seen), most);
            assert_memory_equal(seen, all + size - most, most);
        }
    }
}

/* ------------------------------------------------------------ the set that ships */

struct sentence {
    const char *text;
    const char *rule;  /* that must match; NULL: see `other` */
    const char *other; /* that must not */
};

#define HELD(rule, text) \
    { text, rule, NULL }
#define NOT_HELD(rule, text) \
    { text, NULL, rule }

static const struct sentence sentences[] = {
    /* Prohibitions in force, and what would turn them around comes next. */
    HELD("en-legal-permitted", "The tenant must not sublet the flat, which is"),
    HELD("en-legal-permitted",
         "Under section 4, disclosure is prohibited; no wait. Smoking is prohibited and is"),
    HELD("en-legal-permitted", "The Buyer shall not assign this agreement and is"),
    HELD("en-legal-permitted", "Such use is strictly forbidden, however small, and it is"),
    HELD("en-legal-permitted", "The statute prohibits insider trading, so trading on it is"),
    HELD("en-legal-permitted", "Export is not permitted under the Act, so it is"),
    HELD("en-legal-permitted", "Selling it is not only prohibited but"),
    HELD("en-legal-permitted", "The dose is 2.5 mg. Resale is unlawful and is"),
    HELD("en-legal-permitted", "It is not hard. Entry is forbidden, and so it is"),
    HELD("en-legal-may", "The tenant must not sublet the flat, but he"),
    HELD("en-legal-may", "Employees shall not accept gifts, but the employee"),
    HELD("en-legal-may", "Entry is prohibited, although you "),
    HELD("en-legal-undone", "The tenant must not be"),
    HELD("en-legal-undone", "The buyer shall never be "),
    HELD("en-medical-safe", "Ibuprofen is contraindicated in late pregnancy and is"),
    HELD("en-medical-safe", "Do not take this medicine with alcohol, since that is"),
    HELD("en-medical-safe", "Don’t take both. Don't mix it with grapefruit juice, which is"),
    HELD("en-medical-safe", "It must not be taken by children and is considered"),
    HELD("en-medical-may", "Do not take it with warfarin, but you"),
    HELD("zh-legal", "承租人不得转租房屋，但承租人"),
    HELD("zh-legal", "根据第四条，严禁披露，所以披露"),
    HELD("zh-legal", "法律禁止内幕交易，因此"),
    HELD("zh-legal", "政府不得不禁止该行为，因此公民"),
    HELD("zh-legal", "未经许可不得转载，转载"),
    HELD("zh-medical", "孕妇禁用本品，因此孕妇"),
    HELD("zh-medical", "服药期间切勿饮酒，饮酒"),
    HELD("zh-double", "承租人不得"),
    HELD("en-legal-may", "The licensee shall not reverse engineer the software, but the licensee"),
    HELD("en-legal-may", "Minors are forbidden from entering the premises, although they"),
    HELD("en-medical-safe", "Aspirin is contraindicated in children with viral infections, so it is"),
    HELD("zh-legal", "未成年人严禁进入，但是他们"),
    HELD("zh-legal", "当事人不得以任何理由拒绝，当事人"),
    HELD("zh-medical", "患者不应自行停药，但是患者"),

    /* The same words, negated: at once, at a distance, or twice. */
    NOT_HELD("en-legal-permitted", "Subletting is not prohibited, so it is"),
    NOT_HELD("en-legal-permitted", "Subletting isn't forbidden here, so it is"),
    NOT_HELD("en-legal-permitted", "Nothing in this section prohibits a tenant from subletting, so it is"),
    NOT_HELD("en-legal-permitted", "No law prohibits it, so it is"),
    NOT_HELD("en-legal-permitted", "It is not the case that the tenant must not sublet, so it is"),
    NOT_HELD("en-legal-permitted", "It is no longer prohibited and is"),
    NOT_HELD("en-legal-permitted", "It used to be forbidden but is now"),
    NOT_HELD("en-legal-permitted", "It is a myth that this is prohibited; it is"),
    NOT_HELD("en-legal-permitted",
             "The rule, which for many years and in many courts was not read as if it prohibited this, is"),
    NOT_HELD("en-legal-permitted", "If smoking is prohibited, ask whether it is"),
    /* Exceptions open it. */
    NOT_HELD("en-legal-permitted", "The file must not be disclosed unless the court finds it is"),
    NOT_HELD("en-legal-permitted", "Use is prohibited except where it is"),
    NOT_HELD("en-legal-may", "The tenant must not sublet unless the owner agrees, in which case, he"),
    /* A prohibition that goes on. */
    NOT_HELD("en-legal-permitted", "Smoking is prohibited and is not"),
    NOT_HELD("en-legal-permitted", "Smoking is forbidden and will never be"),
    NOT_HELD("en-legal-may", "It must not be mixed with bleach, as this"),
    NOT_HELD("en-medical-safe", "Ibuprofen is not contraindicated here and is"),
    NOT_HELD("en-medical-safe", "Do not take it with alcohol; it is not"),
    NOT_HELD("en-medical-safe", "Do not take it until your doctor says it is"),
    /* Other sentences, and none. */
    NOT_HELD("en-legal-permitted", "Smoking is prohibited. Eating is"),
    NOT_HELD("en-legal-permitted", "You must note that it is"),
    NOT_HELD("en-legal-permitted", ""),
    NOT_HELD("en-legal-undone", "The tenant must be"),
    NOT_HELD("en-legal-may", "The tenant sublets the flat, but he"),
    NOT_HELD("en-medical-may", "Take it with water, and you"),
    NOT_HELD("zh-legal", "承租人并非不得转租，所以承租人"),
    NOT_HELD("zh-legal", "这不是不允许的，所以"),
    NOT_HELD("zh-legal", "法律并不禁止转租，因此"),
    NOT_HELD("zh-legal", "法律没有任何条款禁止转租，因此"),
    NOT_HELD("zh-legal", "他不得不离开，因此"),
    NOT_HELD("zh-legal", "不得转租，除非房东同意，此时"),
    NOT_HELD("zh-legal", "不得转租。房东"),
    NOT_HELD("zh-legal", "转租是严禁的，这不"),
    NOT_HELD("zh-legal", "如果禁止转租，是否"),
    NOT_HELD("zh-medical", "这种药并非禁用，因此"),
    NOT_HELD("zh-medical", "不是不可以，孕妇"),
    NOT_HELD("zh-medical", "孕妇不可避免地"),
    NOT_HELD("zh-double", "承租人可以"),
    NOT_HELD("en-legal-permitted", "There is no provision that forbids the assignment, so it is"),
    NOT_HELD("en-legal-permitted", "The court held that the ban was not unlawful, so the measure is"),
    NOT_HELD("en-legal-permitted", "It cannot be said that sale is prohibited, so it is"),
    NOT_HELD("en-legal-permitted", "This is a list of prohibited items that you"),
    NOT_HELD("en-legal-may", "Without consent the file must not be opened, but with consent it"),
    NOT_HELD("en-medical-safe", "It would be wrong to conclude that the drug is contraindicated; it is"),
    NOT_HELD("en-medical-safe", "The drug is hardly ever contraindicated and is"),
    NOT_HELD("zh-legal", "法院认为，该行为不属于法律所禁止的，因此"),
    NOT_HELD("zh-legal", "法律从未禁止这种做法，因此"),
    NOT_HELD("zh-legal", "合同不得不解除，双方"),
    NOT_HELD("zh-legal", "不存在不得转让的情形，股东"),
    NOT_HELD("en-legal-permitted", "They deny that export is prohibited, and it is"),
    NOT_HELD("zh-legal", "他不禁笑了，因此"),
    NOT_HELD("zh-medical", "该药不是孕妇禁用的，孕妇"),
};

static int index_of(const struct wane__rules *rules, const char *name) {
    for (int i = 0; i < wane__rules_count(rules); i++)
        if (strcmp(wane__rules_name(rules, i), name) == 0) return i;
    fail_msg("no rule %s", name);
    return -1;
}

static struct wane__rules *shipped(void) {
    struct wane__rules *rules = NULL;
    wane_error error = {0};
    if (wane__rules_load(WANE_RULES_SOURCE "/prohibitions.json", &tokenizer, &rules, &error) != WANE_OK)
        fail_msg("%s", error.text);
    return rules;
}

static void test_the_set_that_ships(void **unused) {
    (void)unused;
    struct wane__rules *rules = shipped();
    int wrong = 0;
    for (size_t i = 0; i < sizeof sentences / sizeof *sentences; i++) {
        const struct sentence *s = &sentences[i];
        struct wane__recent recent;
        write_text(&recent, "", s->text);
        int rule = index_of(rules, s->rule != NULL ? s->rule : s->other);
        if (wane__rules_match(rules, rule, &recent) == (s->rule != NULL)) continue;
        print_message("%s: %s: %s\n", s->rule != NULL ? "not held" : "held", wane__rules_name(rules, rule),
                      s->text);
        wrong++;
    }
    assert_int_equal(wrong, 0);
    wane__rules_free(rules);
}

/* Each rule is tested both ways, and none of them runs out of its time on any text of full length. */
static void test_the_set_is_quick(void **unused) {
    (void)unused;
    struct wane__rules *rules = shipped();
    const int count = wane__rules_count(rules);
    bool good[256] = {false}, bad[256] = {false};
    for (size_t i = 0; i < sizeof sentences / sizeof *sentences; i++) {
        const struct sentence *s = &sentences[i];
        if (s->rule != NULL)
            good[index_of(rules, s->rule)] = true;
        else
            bad[index_of(rules, s->other)] = true;
    }
    for (int i = 0; i < count; i++) assert_true(good[i] && bad[i]);
    static const char *const fillers[] = {
        "must not ",    "is prohibited, but you ", "not ", "a",  ", ",          "不得", "禁止，",
        "do not take ", "n't is forbidden and ",   "未",   ". ", "并非不得转租"};
    for (size_t i = 0; i < sizeof fillers / sizeof *fillers; i++) {
        struct wane__recent recent = {0};
        struct wane__candidate list[PIECES];
        bool held[PIECES];
        int failures = 0;
        while (recent.size < WANE__RECENT_BYTES)
            wane__recent_add(&recent, fillers[i], strlen(fillers[i]), true);
        for (int k = 0; k < PIECES; k++) list[k] = (struct wane__candidate){BYTES + k, 0};
        wane__rules_hold(rules, &recent, list, PIECES, held, &failures);
        assert_int_equal(failures, 0);
    }
    wane__rules_free(rules);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_hold),
        cmocka_unit_test(test_a_slow_pattern),
        cmocka_unit_test(test_recent),
        cmocka_unit_test(test_recent_keeps_the_end),
        cmocka_unit_test(test_the_set_that_ships),
        cmocka_unit_test(test_the_set_is_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
