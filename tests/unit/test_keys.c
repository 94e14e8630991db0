/* test_keys.c - the key file: what is read, what is refused by line, and that a key is found by its hash alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* BLAKE2b-256 of "ada-key-123456". */
static const char ada_hash[] = "e721f591d418ac6cc9034350416d99c3a8f80a82c21606ec4e8d6d1b3ac72531";

static struct wane__keys *parse(const char *text) {
    struct wane__keys *keys = NULL;
    wane_error error = {0};
    int code = wane__keys_parse(text, strlen(text), &keys, &error);
    if (code != WANE_OK) print_message("%s\n", error.text);
    assert_int_equal(code, WANE_OK);
    return keys;
}

static bool find(const struct wane__keys *keys, const char *key, struct wane__key *found) {
    return wane__keys_find(keys, key, strlen(key), found);
}

static void refused(const char *text, size_t size, const char *words) {
    struct wane__keys *keys = (void *)1;
    wane_error error = {0};
    assert_int_equal(wane__keys_parse(text, size, &keys, &error), WANE_EFORMAT);
    assert_null(keys);
    if (strstr(error.text, words) == NULL) fail_msg("\"%s\" does not say \"%s\"", error.text, words);
}

static void test_plain_keys(void **state) {
    (void)state;
    struct wane__keys *keys =
        parse("# who\n\n  ada\tphysics ada-key-123456 # hers\r\nbob law bob-key-123456");
    struct wane__key found;
    assert_int_equal(wane__keys_count(keys), 2);
    assert_true(find(keys, "ada-key-123456", &found));
    assert_string_equal(found.name, "ada");
    assert_string_equal(found.tenant, "physics");
    assert_true(find(keys, "bob-key-123456", &found));
    assert_string_equal(found.tenant, "law");
    assert_false(find(keys, "", &found));
    assert_false(find(keys, "ada-key-12345", &found));
    assert_false(find(keys, "ada-key-1234567", &found));
    assert_false(find(keys, "ada", &found));
    wane__keys_free(keys);
}

static void test_hashed_keys(void **state) {
    (void)state;
    char line[200], upper[200];
    struct wane__key found;
    snprintf(line, sizeof line, "ada physics blake2b:%s\n", ada_hash);
    struct wane__keys *keys = parse(line);
    assert_true(find(keys, "ada-key-123456", &found));
    assert_false(find(keys, ada_hash, &found)); /* the hash opens nothing */
    snprintf(upper, sizeof upper, "blake2b:%s", ada_hash);
    assert_false(find(keys, upper, &found));
    wane__keys_free(keys);
    snprintf(line, sizeof line, "ada a blake2b:%s\nbob b ada-key-123456\n", ada_hash);
    refused(line, strlen(line), "line 2");
    snprintf(line, sizeof line, "ada a blake2b:%.60s\n", ada_hash);
    refused(line, strlen(line), "64 hex digits");
    snprintf(line, sizeof line, "ada a blake2b:%.62s  \n", ada_hash);
    refused(line, strlen(line), "line 1");
}

static void test_rights(void **state) {
    (void)state;
    char text[300];
    snprintf(text, sizeof text, "ada a blake2b:%s\tadmin # the boss\nbob a bob-key-123456 # admin\n",
             ada_hash);
    struct wane__keys *keys = parse(text);
    struct wane__key found;
    assert_true(find(keys, "ada-key-123456", &found));
    assert_true(found.admin);
    assert_true(find(keys, "bob-key-123456", &found));
    assert_false(found.admin);
    wane__keys_free(keys);
}

static void test_refused(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"", "no key"},
        {"# nothing\n\n", "no key"},
        {"ada physics\n", "line 1"},
        {"\n\nada\n", "line 3"},
        {"ada physics key-12345678 more\n", "admin, mode=NAME and domain=NAME"},
        {"ada physics key-12345678 Admin\n", "admin, mode=NAME"},
        {"ada physics key-12345678 admins\n", "admin, mode=NAME"},
        {"ada physics key-12345678 admin mode=off domain=x admin\n", "more"},
        {"ada physics key-12345678 mode=fast\n", "off, legacy or wane"},
        {"ada physics key-12345678 mode=\n", "off, legacy or wane"},
        {"ada physics key-12345678 domain=\n", "domain=NAME"},
        {"ada physics key-12345678 domain=a/b\n", "domain=NAME"},
        {"ada physics admin\n", "8 to 512"},
        {"ada a key-12345678\nada b key-87654321\n", "\"ada\" occurs twice"},
        {"ada a key-12345678\nbob a key-12345678\n", "same key"},
        {"ada a short\n", "8 to 512"},
        {"ada a k\xc3\xa9y-12345678\n", "ASCII"},
        {"a/b a key-12345678\n", "name and a tenant"},
        {"a a\xff key-12345678\n", "name and a tenant"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refused(cases[i][0], strlen(cases[i][0]), cases[i][1]);
    refused("ada\0a key-12345678\n", 19, "line 1");
    char line[800] = "ada a ";
    memset(line + 6, 'x', 513);
    refused(line, strlen(line), "8 to 512");
    line[6 + 512] = '\0';
    wane__keys_free(parse(line));
}

static char last_line[1024];

static void keep_line(void *user, int level, const char *line) {
    (void)user;
    (void)level;
    snprintf(last_line, sizeof last_line, "%s", line);
}

static void test_files(void **state) {
    (void)state;
    char path[] = "/tmp/wane-keys-XXXXXX";
    struct wane__log log;
    struct wane__keys *keys;
    wane_error error = {0};
    wane__log_init(&log, keep_line, NULL);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    static const char text[] = "ada physics ada-key-123456\n";
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    close(fd);
    last_line[0] = '\0';
    assert_int_equal(wane__keys_load(path, &log, &keys, &error), WANE_OK);
    assert_string_equal(last_line, "");
    wane__keys_free(keys);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(wane__keys_load(path, &log, &keys, &error), WANE_OK);
    assert_non_null(strstr(last_line, "can be read by others"));
    wane__keys_free(keys);
    unlink(path);
    assert_int_equal(wane__keys_load(path, &log, &keys, &error), WANE_ENOENT);
    assert_null(keys);
    assert_non_null(strstr(error.text, path));
    assert_int_equal(wane__keys_load("/", &log, &keys, &error), WANE_EIO);
    wane__log_close(&log);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_keys), cmocka_unit_test(test_hashed_keys), cmocka_unit_test(test_rights),
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
