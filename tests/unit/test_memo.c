/*
 * test_memo.c - the memo by itself: what it finds, what it gives up and in which order, whom it answers, and its file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/rng.h"
#include "table/memo_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define ORIGIN "model 0123, engine script, batch 64"
enum { VOCAB = 384 };

static struct wane__memo *memo_of(uint64_t bytes) {
    struct wane__memo *memo;
    wane_error error = {0};
    assert_int_equal(wane__memo_new(bytes, &memo, &error), WANE_OK);
    return memo;
}

static struct wane__memo_key key(uint64_t n, uint32_t tenant) {
    return (struct wane__memo_key){{wane__mix64(n), wane__mix64(~n)}, (uint32_t)n, tenant};
}

static int32_t find(struct wane__memo *memo, uint64_t n, bool touch) {
    struct wane__memo_key k = key(n, 0);
    return wane__memo_find(memo, &k, touch);
}

static void add(struct wane__memo *memo, uint64_t n, int32_t token) {
    struct wane__memo_key k = key(n, 0);
    wane__memo_add(memo, &k, token);
}

static void test_bounds(void **unused) {
    (void)unused;
    struct wane__memo *memo;
    wane_error error = {0};
    assert_int_equal(wane__memo_new(WANE__MEMO_LEAST - 1, &memo, &error), WANE_EINVAL);
    assert_non_null(strstr(error.text, "4095"));
    assert_null(memo);
    assert_int_equal(wane__memo_new(WANE__MEMO_MOST + 1, &memo, &error), WANE_EINVAL);
    for (uint64_t bytes = WANE__MEMO_LEAST; bytes < 100000; bytes += 1777) {
        struct wane__memo_counts counts;
        memo = memo_of(bytes);
        for (uint64_t n = 0; n < 5000; n++) add(memo, n, (int32_t)(n % VOCAB));
        wane__memo_count(memo, &counts);
        assert_true(counts.bytes <= bytes && counts.bytes > bytes / 2);
        assert_int_equal(counts.entries + counts.evictions, 5000);
        assert_true(counts.entries <= counts.most);
        wane__memo_free(memo);
    }
}

/* A million contexts, and the last ones are there, each with its own token. */
static void test_a_million(void **unused) {
    (void)unused;
    struct wane__memo_counts counts;
    struct wane__memo *memo = memo_of(1 << 20);
    for (uint64_t n = 0; n < 1000000; n++) add(memo, n, (int32_t)(wane__mix64(n) % VOCAB));
    wane__memo_count(memo, &counts);
    assert_int_equal(counts.entries, counts.most);
    assert_int_equal(counts.evictions, 1000000 - counts.most);
    for (uint64_t n = 0; n < 1000000; n++) {
        int32_t expected = n < 1000000 - counts.most ? -1 : (int32_t)(wane__mix64(n) % VOCAB);
        if (find(memo, n, false) != expected) fail_msg("context %llu", (unsigned long long)n);
    }
    wane__memo_free(memo);
}

/* The order of giving up is that of last use, against a plain list; looking without touching changes nothing. */
static void test_order(void **unused) {
    (void)unused;
    struct wane__memo *memo = memo_of(WANE__MEMO_LEAST);
    uint64_t list[128];
    uint32_t count = 0, most = memo->most;
    assert_true(most < 128);
    for (uint64_t step = 0; step < 20000; step++) {
        uint64_t n = wane__mix64(step) % 150;
        uint32_t at = 0;
        while (at < count && list[at] != n) at++;
        bool there = at < count, touch = wane__mix64(step ^ 77) & 1;
        int32_t found = find(memo, n, touch);
        assert_int_equal(found, there ? (int32_t)n : -1);
        if (there && !touch) continue;
        if (!there) add(memo, n, (int32_t)n);
        if (!there && count == most)
            at = --count;
        else if (there)
            count--;
        else
            at = count;
        memmove(list + 1, list, at * sizeof *list);
        list[0] = n;
        count++;
    }
    wane__memo_free(memo);
}

static void test_first_answer_stays(void **unused) {
    (void)unused;
    struct wane__memo *memo = memo_of(WANE__MEMO_LEAST);
    add(memo, 5, 7);
    add(memo, 5, 8);
    assert_int_equal(find(memo, 5, true), 7);
    assert_int_equal(memo->count, 1);
    wane__memo_free(memo);
}

/* Whatever else is equal: another tenant, another length, another half of the name is another entry. */
static void test_whose(void **unused) {
    (void)unused;
    struct wane__memo *memo = memo_of(WANE__MEMO_LEAST);
    int a = wane__memo_tenant(memo, "a"), b = wane__memo_tenant(memo, "b");
    assert_true(a >= 0 && b >= 0 && a != b);
    assert_int_equal(wane__memo_tenant(memo, "a"), a);
    struct wane__memo_key of_a = key(1, (uint32_t)a);
    wane__memo_add(memo, &of_a, 9);
    assert_int_equal(wane__memo_find(memo, &of_a, true), 9);
    for (int what = 0; what < 4; what++) {
        struct wane__memo_key other = of_a;
        if (what == 0) other.tenant = (uint32_t)b;
        if (what == 1) other.length++;
        if (what == 2) other.name.low ^= 1;
        if (what == 3) other.name.high ^= (uint64_t)1 << 63;
        assert_int_equal(wane__memo_find(memo, &other, true), -1);
    }
    char name[WANE__MEMO_TENANT_MOST + 2];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    assert_int_equal(wane__memo_tenant(memo, name), -1);
    name[sizeof name - 2] = '\0';
    assert_true(wane__memo_tenant(memo, name) >= 0);
    for (int i = 3; i < WANE__MEMO_TENANTS; i++) {
        snprintf(name, sizeof name, "tenant %d", i);
        assert_int_equal(wane__memo_tenant(memo, name), i);
    }
    assert_int_equal(wane__memo_tenant(memo, "one more"), -1);
    assert_int_equal(wane__memo_tenant(memo, "b"), b);
    wane__memo_free(memo);
}

/* ----------------------------------------------------------------------- file */

static char folder[] = "/tmp/wane-memo-XXXXXX", path[64];

static int make(void **unused) {
    (void)unused;
    if (mkdtemp(folder) == NULL) return 1;
    snprintf(path, sizeof path, "%s/m.memo", folder);
    return 0;
}

static int sweep(void **unused) {
    (void)unused;
    unlink(path);
    return rmdir(folder);
}

static void save(uint64_t entries) {
    struct wane__memo *memo = memo_of(1 << 16);
    wane_error error = {0};
    wane__memo_tenant(memo, "");
    int b = wane__memo_tenant(memo, "b");
    for (uint64_t n = 0; n < entries; n++) add(memo, n, (int32_t)(n % VOCAB));
    struct wane__memo_key of_b = key(1, (uint32_t)b);
    wane__memo_add(memo, &of_b, 300);
    assert_int_equal(wane__memo_save(memo, path, ORIGIN, VOCAB, &error), WANE_OK);
    wane__memo_free(memo);
}

static void test_file(void **unused) {
    (void)unused;
    wane_error error = {0};
    struct stat facts;
    save(500);
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    struct wane__memo *memo = memo_of(1 << 16);
    int b = wane__memo_tenant(memo, "b"); /* numbers are this memo's own */
    assert_int_equal(b, 0);
    assert_int_equal(wane__memo_load(memo, path, ORIGIN, VOCAB, &error), WANE_OK);
    struct wane__memo_key k = key(1, (uint32_t)b);
    assert_int_equal(wane__memo_find(memo, &k, true), 300);
    int a = wane__memo_tenant(memo, "");
    for (uint64_t n = 0; n < 500; n++) {
        k = key(n, (uint32_t)a);
        assert_int_equal(wane__memo_find(memo, &k, true), (int32_t)(n % VOCAB));
    }
    wane__memo_free(memo);
    /* A smaller memo keeps the latest. */
    memo = memo_of(WANE__MEMO_LEAST);
    assert_int_equal(wane__memo_load(memo, path, ORIGIN, VOCAB, &error), WANE_OK);
    assert_int_equal(memo->count, memo->most);
    assert_int_equal(memo->evictions, 0);
    assert_int_equal(find(memo, 499, false), 499 % VOCAB);
    assert_int_equal(find(memo, 0, false), -1);
    wane__memo_free(memo);
}

static void test_foreign(void **unused) {
    (void)unused;
    wane_error error = {0};
    struct wane__memo *memo = memo_of(1 << 16);
    save(3);
    assert_int_equal(wane__memo_load(memo, path, "model 0123, engine script, batch 32", VOCAB, &error),
                     WANE_EUNSUPPORTED);
    assert_non_null(strstr(error.text, "(\"batch 64\", now \"batch 32\")"));
    assert_int_equal(wane__memo_load(memo, path, "model 4567", VOCAB, &error), WANE_EUNSUPPORTED);
    assert_non_null(strstr(error.text, "(\"model 0123\", now \"model 4567\")"));
    assert_int_equal(wane__memo_load(memo, path, ORIGIN, VOCAB + 1, &error), WANE_EUNSUPPORTED);
    assert_int_equal(wane__memo_load(memo, "/nowhere/memo", ORIGIN, VOCAB, &error), WANE_ENOENT);
    assert_int_equal(wane__memo_load(memo, folder, ORIGIN, VOCAB, &error), WANE_EFORMAT);
    assert_int_equal(memo->count, 0);
    wane__memo_free(memo);
}

static void refuse(const unsigned char *bytes, size_t size) {
    wane_error error = {0};
    struct wane__memo *memo = memo_of(WANE__MEMO_LEAST);
    unsigned char *exact = malloc(size + 1);
    memcpy(exact, bytes, size);
    int code = wane__memo_parse(memo, "m", exact, size, ORIGIN, VOCAB, &error);
    assert_true(code == WANE_EFORMAT || code == WANE_EUNSUPPORTED);
    assert_int_equal(error.code, code);
    assert_true(error.text[0] != '\0');
    assert_int_equal(memo->count, 0);
    free(exact);
    wane__memo_free(memo);
}

static void seal(unsigned char *bytes, size_t size) {
    uint64_t sum = XXH3_64bits(bytes, size - 8);
    for (int i = 0; i < 8; i++) bytes[size - 8 + (size_t)i] = (unsigned char)(sum >> 8 * i);
}

/* Cut at each byte, changed at each byte, with the right checksum too; longer than it says. */
static void test_damage(void **unused) {
    (void)unused;
    wane_error error = {0};
    char *bytes;
    size_t size;
    save(3);
    assert_int_equal(wane__file_read(path, "x", 1 << 20, &bytes, &size, &error), WANE_OK);
    unsigned char *copy = calloc(1, size + 8);
    for (size_t cut = 0; cut < size; cut++) {
        refuse((unsigned char *)bytes, cut);
        memcpy(copy, bytes, cut);
        if (cut >= 8) seal(copy, cut);
        refuse(copy, cut);
    }
    for (size_t at = 0; at < size; at++) {
        memcpy(copy, bytes, size);
        copy[at] ^= 0x10;
        refuse(copy, size);
    }
    size_t entries = size - 8 - 4 * 36;
    for (int what = 0; what < 5; what++) {
        memcpy(copy, bytes, size);
        if (what == 0) copy[entries + 20] = 2; /* a tenant */
        if (what == 1) copy[entries + 25] = 2; /* a token */
        if (what == 2) copy[entries + 35] = 1; /* must be zero */
        if (what == 3) copy[12] = 200;         /* tenants */
        if (what == 4) copy[16 + 7] = 0x80;    /* entries */
        seal(copy, size);
        refuse(copy, size);
    }
    memcpy(copy, bytes, size);
    seal(copy, size + 8);
    refuse(copy, size + 8);
    free(copy);
    free(bytes);
}

static struct wane__memo *read_back(const struct wane__buf *picture, uint64_t bytes) {
    struct wane__memo *memo = memo_of(bytes);
    wane_error error = {0};
    if (wane__memo_parse(memo, "m", picture->data, picture->size, ORIGIN, VOCAB, &error) != WANE_OK)
        fail_msg("%s", error.text);
    return memo;
}

/* A picture in pieces, with everything going on in between: what was there before it is in it, or was given up; all is true. */
static void test_picture_in_pieces(void **unused) {
    (void)unused;
    enum { FULL = 0, ROOMY = 1 };
    for (int kind = FULL; kind <= ROOMY; kind++) {
        for (uint64_t piece = 1; piece < 400; piece = piece * 3 + 1) {
            struct wane__memo *memo = memo_of(kind == FULL ? 20000 : 400000);
            struct wane__buf picture = {0};
            struct wane__memo_counts counts;
            wane_error error = {0};
            assert_int_equal(wane__memo_tenant(memo, "a"), 0);
            for (uint64_t n = 0; n < 454; n++) add(memo, n, (int32_t)(n % VOCAB));
            assert_int_equal(wane__memo_picture_begin(memo, ORIGIN, VOCAB, &picture, &error), WANE_OK);
            size_t room = picture.capacity;
            uint64_t turn = 0, next = 454;
            while (!wane__memo_picture_go_on(memo, &picture, piece)) {
                find(memo, turn * 7 % next, true); /* used: moves to the end, the cursor's entry too */
                find(memo, turn, true);
                if (turn++ % 2 == 0) {
                    add(memo, next, (int32_t)(next % VOCAB));
                    next++;
                }
                if (turn == 3) { /* of a tenant whom the head does not name */
                    assert_int_equal(wane__memo_tenant(memo, "late"), 1);
                    struct wane__memo_key late = key(77777, 1);
                    wane__memo_add(memo, &late, 5);
                }
            }
            wane__memo_picture_seal(&picture);
            assert_false(picture.failed);
            if (piece > 100) assert_int_equal(picture.capacity, room); /* nothing was taken on the way */
            struct wane__memo *back = read_back(&picture, 400000);
            for (uint64_t n = 0; n < next; n++) {
                int32_t token = find(back, n, false), now = find(memo, n, false);
                if (token >= 0) assert_int_equal(token, n % VOCAB);
                if (kind == ROOMY && n < 454 && piece > 1) assert_true(token >= 0);
                if (n < 454 && piece > 100) assert_true(token >= 0 || now < 0);
            }
            wane__memo_count(back, &counts);
            assert_true(counts.entries > 300);
            assert_int_equal(wane__memo_tenant(back, "late"), 1); /* it was not known */
            wane__memo_free(back);
            wane__memo_free(memo);
            wane__buf_free(&picture);
        }
    }
}

/* At rest it is the whole memo, in its order: the file. */
static void test_picture_at_rest(void **unused) {
    (void)unused;
    struct wane__memo *memo = memo_of(100000);
    struct wane__buf whole = {0}, pieces = {0};
    wane_error error = {0};
    assert_int_equal(wane__memo_tenant(memo, "a"), 0);
    for (uint64_t n = 0; n < 3000; n++) add(memo, n, (int32_t)(n % VOCAB));
    uint64_t before = wane__memo_changes(memo);
    assert_int_equal(before, 3000);
    assert_int_equal(wane__memo_picture_begin(memo, ORIGIN, VOCAB, &whole, &error), WANE_OK);
    assert_false(wane__memo_picture_go_on(memo, &whole, 10));
    wane__memo_picture_drop(memo, &whole); /* given up: the next begins at the beginning */
    assert_int_equal(wane__memo_picture_begin(memo, ORIGIN, VOCAB, &whole, &error), WANE_OK);
    assert_true(wane__memo_picture_go_on(memo, &whole, UINT64_MAX));
    assert_int_equal(wane__memo_picture_begin(memo, ORIGIN, VOCAB, &pieces, &error), WANE_OK);
    while (!wane__memo_picture_go_on(memo, &pieces, 17)) {}
    assert_int_equal(whole.size, pieces.size);
    assert_memory_equal(whole.data, pieces.data, whole.size);
    assert_int_equal(wane__memo_changes(memo), before); /* looking changes nothing */
    wane__buf_free(&whole);
    wane__buf_free(&pieces);
    wane__memo_free(memo);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_picture_in_pieces),
        cmocka_unit_test(test_picture_at_rest),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_a_million),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_first_answer_stays),
        cmocka_unit_test(test_whose),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, make, sweep);
}
