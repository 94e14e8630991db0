/*
 * test_stream.c - characters and stop strings across tokens. Whatever the cuts, the joined text must equal
 * that of a decoder and a search that see the whole reply at once; both stand here in their plainest form.
 */
#include "core/memory.h"
#include "core/rng.h"
#include "stream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static uint64_t state;

static uint32_t below(uint32_t limit) {
    return (uint32_t)(wane__random_bits(99, state++) % limit);
}

/*
 * Does a well-formed character begin here? Its length, else 0, with `*part` the bytes that one U+FFFD stands
 * for.
 */
static size_t character_at(const unsigned char *s, size_t left, size_t *part) {
    uint32_t low[4] = {0, 0x80, 0x800, 0x10000}, code;
    size_t length;
    *part = 1;
    if (s[0] < 0x80) return 1;
    if (s[0] >= 0xC2 && s[0] <= 0xDF)
        length = 2, code = s[0] & 0x1Fu;
    else if (s[0] >= 0xE0 && s[0] <= 0xEF)
        length = 3, code = s[0] & 0x0Fu;
    else if (s[0] >= 0xF0 && s[0] <= 0xF4)
        length = 4, code = s[0] & 0x07u;
    else
        return 0;
    for (size_t i = 1; i < length; i++) {
        if (i == left || (s[i] & 0xC0) != 0x80) return 0;
        code = code << 6 | (s[i] & 0x3Fu);
        /* Can any completion of what was read be legal? */
        uint32_t least = code << 6 * (length - 1 - i), most = least | ((1u << 6 * (length - 1 - i)) - 1);
        if (most < low[length - 1] || least > 0x10FFFF || (least >= 0xD800 && most <= 0xDFFF)) return 0;
        *part = i + 1;
    }
    return length;
}

/* The whole reply decoded at once. */
static void decode(const char *bytes, size_t count, struct wane__buf *out) {
    for (size_t i = 0; i < count;) {
        size_t part, length = character_at((const unsigned char *)bytes + i, count - i, &part);
        if (length > 0)
            wane__buf_append(out, bytes + i, length);
        else
            wane__buf_text(out, "\xEF\xBF\xBD");
        i += length > 0 ? length : part;
    }
}

static bool is_text(const char *bytes, size_t count) {
    struct wane__buf copy = {0};
    wane__buf_text(&copy, "");
    decode(bytes, count, &copy);
    bool same = copy.size == count && memcmp(copy.data, bytes, count) == 0;
    wane__buf_free(&copy);
    return same;
}

/* First stop string on the whole: where it begins, and which. */
static const char *search(const struct wane__buf *text, const char *const *stops, size_t count, size_t *at) {
    for (*at = 0; *at < text->size; ++*at) {
        const char *best = NULL;
        for (size_t i = 0; i < count; i++) {
            size_t length = strlen(stops[i]);
            if (length <= text->size - *at && memcmp(text->data + *at, stops[i], length) == 0 &&
                (best == NULL || length > strlen(best)))
                best = stops[i];
        }
        if (best != NULL) return best;
    }
    return NULL;
}

/* Push in random cuts of at most `most` bytes; check every delta; compare with the whole. */
static void check(const char *bytes, size_t count, const char *const *stops, size_t stop_count,
                  uint32_t most) {
    struct wane__stream stream;
    struct wane__buf whole = {0}, joined = {0};
    const char *text;
    size_t size, at;
    wane__buf_text(&whole, "");
    wane__buf_text(&joined, "");
    decode(bytes, count, &whole);
    const char *stop = search(&whole, stops, stop_count, &at);
    if (stop == NULL) at = whole.size;
    assert_int_equal(wane__stream_init(&stream, stops, stop_count, NULL), WANE_OK);
    bool stopped = false;
    for (size_t i = 0; i < count && !stopped;) {
        size_t some = 1 + below(most);
        if (some > count - i) some = count - i;
        wane__step_enter();
        stopped = wane__stream_push(&stream, bytes + i, some, &text, &size);
        wane__step_leave();
        assert_true(is_text(text, size));
        wane__buf_append(&joined, text, size);
        /* Not a byte of the stop string, and not more held than it takes. */
        assert_true(joined.size <= at);
        assert_true(stream.pending.size < stream.longest_stop + 1);
        i += some;
    }
    if (!stopped)
        stopped = wane__stream_flush(&stream, &text, &size);
    else
        assert_true(wane__stream_push(&stream, "more", 4, &text, &size) && size == 0);
    if (stream.stopped_by == NULL || size > 0) {
        assert_true(is_text(text, size));
        wane__buf_append(&joined, text, size);
    }
    assert_int_equal(joined.size, at);
    assert_memory_equal(joined.data, whole.data, at);
    assert_int_equal(stopped, stop != NULL);
    if (stop == NULL)
        assert_null(stream.stopped_by);
    else
        assert_string_equal(stream.stopped_by, stop);
    wane__stream_free(&stream);
    wane__buf_free(&whole);
    wane__buf_free(&joined);
}

static size_t from_hex(const char *hex, char *out) {
    size_t count = strlen(hex) / 2;
    for (size_t i = 0; i < count; i++) {
        unsigned value = 0;
        for (int j = 0; j < 2; j++) {
            char c = hex[2 * i + (size_t)j];
            value = value * 16 + (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
        }
        out[i] = (char)(unsigned char)value;
    }
    return count;
}

static void test_replacement_vectors(void **unused) {
    static const struct {
        const char *bytes, *text;
    } vectors[] = {
#include "vectors/utf8_replace.inc"
    };
    (void)unused;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        char bytes[64], expected[256];
        size_t count = from_hex(vectors[i].bytes, bytes), size = from_hex(vectors[i].text, expected);
        struct wane__buf whole = {0};
        wane__buf_text(&whole, "");
        decode(bytes, count, &whole);
        assert_int_equal(whole.size, size);
        assert_memory_equal(whole.data, expected, size);
        wane__buf_free(&whole);
        for (uint32_t most = 1; most <= 4; most++) check(bytes, count, NULL, 0, most);
    }
}

static void push_all(struct wane__stream *stream, const char *const *tokens, const char *expected) {
    struct wane__buf joined = {0};
    const char *text;
    size_t size;
    wane__buf_text(&joined, "");
    for (size_t i = 0; tokens[i] != NULL; i++) {
        wane__stream_push(stream, tokens[i], strlen(tokens[i]), &text, &size);
        assert_true(is_text(text, size));
        wane__buf_append(&joined, text, size);
        wane__buf_text(&joined, "|");
    }
    wane__stream_flush(stream, &text, &size);
    wane__buf_append(&joined, text, size);
    assert_string_equal(joined.data, expected);
    wane__buf_free(&joined);
}

static void expect(const char *const *stops, size_t stop_count, const char *const *tokens,
                   const char *expected, const char *stopped_by) {
    struct wane__stream stream;
    assert_int_equal(wane__stream_init(&stream, stops, stop_count, NULL), WANE_OK);
    push_all(&stream, tokens, expected);
    if (stopped_by == NULL)
        assert_null(stream.stopped_by);
    else
        assert_string_equal(stream.stopped_by, stopped_by);
    wane__stream_free(&stream);
}

static void test_characters_over_tokens(void **unused) {
    (void)unused;
    expect(NULL, 0, (const char *[]){"\xF0", "\x9F\x98\x80", NULL}, "|\xF0\x9F\x98\x80|", NULL);
    expect(NULL, 0, (const char *[]){"\xF0\x9F", "\x98\x80", "!", NULL}, "|\xF0\x9F\x98\x80|!|", NULL);
    expect(NULL, 0, (const char *[]){"a\xF0\x9F\x98", NULL}, "a|\xEF\xBF\xBD", NULL);
    expect(NULL, 0, (const char *[]){"\xC3", "x", NULL}, "|\xEF\xBF\xBDx|", NULL);
}

static void test_stops_over_tokens(void **unused) {
    (void)unused;
    const char *const end[] = {"<END>"};
    expect(end, 1, (const char *[]){"hi <", "EN", "D", "> more", NULL}, "hi ||||", "<END>");
    expect(end, 1, (const char *[]){"hi <", "EN", "x", NULL}, "hi ||<ENx|", NULL);
    expect(end, 1, (const char *[]){"hi <EN", NULL}, "hi |<EN", NULL);
    expect(end, 1, (const char *[]){"<<END>", NULL}, "<|", "<END>");
    const char *const wide[] = {"\xE6\x97\xA5"};
    expect(wide, 1, (const char *[]){"a\xE6", "\x97", "\xA5\x62", NULL}, "a|||", "\xE6\x97\xA5");
    expect(wide, 1, (const char *[]){"\xE6\x97", "\xA6", NULL}, "|\xE6\x97\xA6|", NULL);
}

static void test_several_stops(void **unused) {
    (void)unused;
    const char *const inner[] = {"bc", "abcd"};
    /* The earlier beginning wins, and the inner one waits for it. */
    expect(inner, 2, (const char *[]){"xabc", "d", NULL}, "x||", "abcd");
    expect(inner, 2, (const char *[]){"xabc", "e", NULL}, "x|a|", "bc");
    expect(inner, 2, (const char *[]){"xabc", NULL}, "x|a", "bc");
    const char *const nested[] = {"ab", "abc"};
    expect(nested, 2, (const char *[]){"xab", "c", NULL}, "x||", "abc");
    expect(nested, 2, (const char *[]){"xab", "d", NULL}, "x||", "ab");
    expect(nested, 2, (const char *[]){"xab", NULL}, "x|", "ab");
    expect(nested, 2, (const char *[]){"xabc", NULL}, "x|", "abc");
}

static void test_refusals(void **unused) {
    (void)unused;
    struct wane__stream stream;
    wane_error error;
    assert_int_equal(wane__stream_init(&stream, (const char *[]){"ok", ""}, 2, &error), WANE_EINVAL);
    assert_int_equal(wane__stream_init(&stream, (const char *[]){"\xC3"}, 1, &error), WANE_EINVAL);
    assert_non_null(strstr(error.text, "UTF-8"));
    assert_int_equal(wane__stream_init(&stream, (const char *[]){"\xED\xA0\x80"}, 1, &error), WANE_EINVAL);
    memset(&stream, 0, sizeof stream);
    wane__stream_free(&stream);
}

/* Random bytes from small alphabets, so that parts of characters and of stop strings meet often. */
static void test_random_cuts(void **unused) {
    static const char *const alphabets[] = {"ab", "abc", "a\xC3\xA9", "a\xE6\x97\xA5\xF0\x9F\x98\x80",
                                            "ab\xFF\xEF\xBF\xBD"};
    static const char *const stops[] = {"a",
                                        "ab",
                                        "ba",
                                        "aab",
                                        "abab",
                                        "aba",
                                        "b",
                                        "abc",
                                        "cab",
                                        "aaaa",
                                        "\xC3\xA9",
                                        "a\xC3\xA9",
                                        "\xEF\xBF\xBD",
                                        "\xEF\xBF\xBD\xEF\xBF\xBD",
                                        "\xE6\x97\xA5",
                                        "\xF0\x9F\x98\x80\x61"};
    (void)unused;
    for (int round = 0; round < 60000; round++) {
        const char *alphabet = alphabets[below(5)], *chosen[4];
        char bytes[24];
        size_t count = below(sizeof bytes), stop_count = below(4);
        for (size_t i = 0; i < count; i++) bytes[i] = alphabet[below((uint32_t)strlen(alphabet))];
        for (size_t i = 0; i < stop_count; i++) chosen[i] = stops[below(sizeof stops / sizeof *stops)];
        check(bytes, count, chosen, stop_count, 1 + below(6));
    }
    for (int round = 0; round < 5000; round++) {
        char bytes[40];
        size_t count = below(sizeof bytes);
        for (size_t i = 0; i < count; i++) bytes[i] = (char)(unsigned char)below(256);
        check(bytes, count, NULL, 0, 1 + below(6));
    }
}

/*
 * A text that is all prefix of a long stop string must not cost more for being so; nor may a long push
 * allocate.
 */
static void test_long_prefixes(void **unused) {
    static char stop[1025], push[WANE__STREAM_PUSH];
    const char *const stops[] = {stop};
    struct wane__stream stream;
    const char *text;
    size_t size, total = 0;
    (void)unused;
    memset(stop, 'a', 1024);
    stop[1023] = 'b';
    memset(push, 'a', sizeof push);
    assert_int_equal(wane__stream_init(&stream, stops, 1, NULL), WANE_OK);
    for (int i = 0; i < 500; i++) {
        wane__step_enter();
        assert_false(wane__stream_push(&stream, push, sizeof push, &text, &size));
        wane__step_leave();
        total += size;
        assert_true(stream.pending.size < 1024);
    }
    memset(push, 0xFF, sizeof push);
    wane__step_enter();
    assert_false(wane__stream_push(&stream, push, sizeof push, &text, &size));
    wane__step_leave();
    total += size;
    assert_int_equal(total, 503 * sizeof push);
    wane__stream_free(&stream);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replacement_vectors),
        cmocka_unit_test(test_characters_over_tokens),
        cmocka_unit_test(test_stops_over_tokens),
        cmocka_unit_test(test_several_stops),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_random_cuts),
        cmocka_unit_test(test_long_prefixes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
