/*
 * test_audit.c - the audit log: what its writer leaves behind whatever happens to disk, file and process, and what a check says of every kind of
 * tampering.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/file.h"
#include "core/memory.h"
#include "ops/audit.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/wane-audit-XXXXXX";
static char path[64], next_path[64], key_path[64];

static int set_up(void **state) {
    (void)state;
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(path, sizeof path, "%s/log", folder);
    snprintf(next_path, sizeof next_path, "%s/next", folder);
    snprintf(key_path, sizeof key_path, "%s/key", folder);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    char command[96];
    snprintf(command, sizeof command, "chmod -R u+w %s && rm -r %s", folder, folder);
    return system(command);
}

/* ------------------------------------------------------------------- the log and its records */

static struct wane__audit_write_options options(void) {
    return (struct wane__audit_write_options){.path = path, .gather_ms = 1, .retry_ms = 20, .busy_ms = 20};
}

static struct wane__audit *open_log(const struct wane__audit_write_options *o) {
    struct wane__audit *a = NULL;
    wane_error error = {0};
    if (wane__audit_open(o, &a, &error) != WANE_OK) fail_msg("%s", error.text);
    return a;
}

static struct wane__audit *open_plain(void) {
    struct wane__audit_write_options o = options();
    return open_log(&o);
}

static struct wane__audit_note *request(const char *id, const char *key) {
    struct wane__audit_note *note = wane__audit_note_new("request");
    wane__audit_note_text(note, WANE_AUDIT_REQUEST, id);
    wane__audit_note_text(note, WANE_AUDIT_KEY, key);
    wane__audit_note_number(note, WANE_AUDIT_REPLY_TOKENS, 7);
    return note;
}

static void serve(struct wane__audit *a, int count) {
    char id[32];
    for (int i = 0; i < count; i++) {
        snprintf(id, sizeof id, "req_%d", i);
        assert_true(wane__audit_admit(a, NULL));
        wane__audit_put(a, request(id, i % 2 == 0 ? "ada" : "bob"));
    }
}

/* A log of open, start, `count` requests, stop. */
static void write_log(int count) {
    struct wane__audit *a = open_plain();
    serve(a, count);
    wane__audit_close(a);
}

static wane_audit_verdict check_with(const char *const *paths, size_t count, const char *key,
                                     const char *head) {
    wane_audit_check check;
    wane_audit_verdict v;
    wane_error error = {0};
    wane_audit_check_init(&check);
    check.paths = paths;
    check.path_count = count;
    check.key_file = key;
    check.head = head;
    if (wane_audit_verify(&check, &v, &error) != WANE_OK) fail_msg("%s", error.text);
    assert_true((v.fault == WANE_AUDIT_WHOLE) == (v.what[0] == '\0'));
    return v;
}

static wane_audit_verdict check(void) {
    const char *paths[] = {path};
    return check_with(paths, 1, NULL, NULL);
}

static wane_audit_verdict assert_whole(uint64_t records) {
    wane_audit_verdict v = check();
    if (v.fault != WANE_AUDIT_WHOLE) fail_msg("%s", v.what);
    assert_int_equal(v.records, records);
    return v;
}

static int verify_code(const char *key) {
    const char *paths[] = {path};
    wane_audit_check c;
    wane_audit_verdict v;
    wane_error error = {0};
    wane_audit_check_init(&c);
    c.paths = paths;
    c.path_count = 1;
    c.key_file = key;
    int status = wane_audit_verify(&c, &v, &error);
    assert_true((status == WANE_OK) == (error.text[0] == '\0'));
    return status;
}

/* As somebody who has the file and SQLite. */
static void tamper(const char *sql) {
    sqlite3 *base;
    char *why = NULL;
    assert_int_equal(sqlite3_open(path, &base), SQLITE_OK);
    if (sqlite3_exec(base, sql, NULL, NULL, &why) != SQLITE_OK) fail_msg("%s: %s", sql, why);
    sqlite3_close(base);
}

static const char no_guards[] =
    "DROP TRIGGER audit_no_update; DROP TRIGGER audit_no_delete; DROP TRIGGER audit_in_order;";
static const char guards[] =
    "CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit BEGIN"
    " SELECT RAISE(ABORT, 'an audit log is append-only: a record is never changed'); END;"
    "CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit BEGIN"
    " SELECT RAISE(ABORT, 'an audit log is append-only: a record is never deleted'); END;"
    "CREATE TRIGGER audit_in_order BEFORE INSERT ON audit"
    " WHEN EXISTS(SELECT 1 FROM audit) AND NEW.seq IS NOT (SELECT max(seq) FROM audit) + 1 BEGIN"
    " SELECT RAISE(ABORT, 'an audit log is append-only: a record stands behind the last one'); END;";

/* … and who puts the guards back, to leave no trace. */
static void tamper_well(const char *sql) {
    char all[4096];
    snprintf(all, sizeof all, "%s%s%s", no_guards, sql, guards);
    tamper(all);
}

static void assert_fault(int fault, int64_t record) {
    wane_audit_verdict v = check();
    if (v.fault != fault || v.record != record)
        fail_msg("%s at %lld, not %s at %lld: %s", wane_audit_fault_name(v.fault), (long long)v.record,
                 wane_audit_fault_name(fault), (long long)record, v.what);
}

static void put_file(const char *name, const char *text, unsigned mode) {
    assert_int_equal(wane__file_write(name, "a file", text, strlen(text), mode, NULL), WANE_OK);
}

struct seen {
    int count;
    int64_t first, last, lost;
    char text[4096];
};

static bool see(void *user, const wane_audit_record *r) {
    struct seen *seen = user;
    size_t used = strlen(seen->text);
    seen->last = r->field[WANE_AUDIT_SEQ].number;
    if (seen->count++ == 0) seen->first = seen->last;
    seen->lost += r->field[WANE_AUDIT_LOST].number;
    if (used < sizeof seen->text - 64)
        snprintf(seen->text + used, sizeof seen->text - used, "%s ", r->field[WANE_AUDIT_EVENT].text);
    return true;
}

static struct seen read_all(void) {
    wane_audit_filter filter;
    struct seen seen = {0};
    wane_error error = {0};
    wane_audit_filter_init(&filter);
    if (wane_audit_read(path, &filter, see, &seen, &error) != WANE_OK) fail_msg("%s", error.text);
    return seen;
}

/* ------------------------------------------------------------------- a log */

static void test_a_log(void **state) {
    (void)state;
    write_log(3);
    wane_audit_verdict v = assert_whole(6), w;
    struct seen seen = read_all();
    struct stat facts;
    assert_string_equal(seen.text, "open start request request request stop ");
    assert_true(v.first == 1 && v.last == 6 && v.requests == 3 && v.gaps == 0 && v.ended && !v.keyed);
    assert_int_equal(strspn(v.before, "0"), 64);
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    write_log(1); /* it goes on where it ended */
    w = assert_whole(9);
    assert_string_not_equal(v.head, w.head);
    assert_string_equal(read_all().text, "open start request request request stop start request stop ");
    const char *paths[] = {path};
    assert_int_equal(check_with(paths, 1, NULL, v.head).fault,
                     WANE_AUDIT_WHOLE); /* an earlier head is in there */
    assert_int_equal(wane_audit_field_name(WANE_AUDIT_FIELDS) == NULL, 1);
}

/* The file itself forbids what SQL could do to it. */
static void test_append_only(void **state) {
    (void)state;
    static const char *const forbidden[] = {"UPDATE audit SET key = 'eve' WHERE seq = 3",
                                            "DELETE FROM audit WHERE seq = 3",
                                            "INSERT OR REPLACE INTO audit SELECT * FROM audit WHERE seq = 3",
                                            "INSERT INTO audit SELECT 99, at, event, request, reply, key, "
                                            "tenant, api, mode, policy, features, finish, status,"
                                            " prompt_tokens, reused_tokens, reply_tokens, ms, slmt_table, "
                                            "slmt_used, slmt_source, slmt_taken, origin, wakes,"
                                            " states, fuse, fallback, vote, shadow, divergences, lost, "
                                            "detail, prompt, text, before, hash FROM audit WHERE seq = 3"};
    sqlite3 *base;
    write_log(3);
    assert_int_equal(sqlite3_open(path, &base), SQLITE_OK);
    for (size_t i = 0; i < sizeof forbidden / sizeof forbidden[0]; i++) {
        char *why = NULL;
        assert_int_equal(sqlite3_exec(base, forbidden[i], NULL, NULL, &why), SQLITE_CONSTRAINT);
        assert_non_null(strstr(why, "append-only"));
        sqlite3_free(why);
    }
    sqlite3_close(base);
    assert_whole(6);
}

static void test_filters(void **state) {
    (void)state;
    write_log(10);
    wane_audit_filter f;
    struct seen seen = {0};
    wane_audit_filter_init(&f);
    f.key = "ada";
    assert_int_equal(wane_audit_read(path, &f, see, &seen, NULL), WANE_OK);
    assert_int_equal(seen.count, 5);
    f.last = 2;
    seen = (struct seen){0};
    assert_int_equal(wane_audit_read(path, &f, see, &seen, NULL), WANE_OK);
    assert_true(seen.count == 2 && seen.first == 9 && seen.last == 11); /* the newest, in their order */
    wane_audit_filter_init(&f);
    f.request = "req_4";
    seen = (struct seen){0};
    assert_int_equal(wane_audit_read(path, &f, see, &seen, NULL), WANE_OK);
    assert_true(seen.count == 1 && seen.first == 7);
    wane_audit_filter_init(&f);
    f.after = 10;
    f.event = "request";
    seen = (struct seen){0};
    assert_int_equal(wane_audit_read(path, &f, see, &seen, NULL), WANE_OK);
    assert_true(seen.count == 2 && seen.first == 11);
    wane_audit_filter_init(&f);
    f.since = INT64_MAX;
    seen = (struct seen){0};
    assert_int_equal(wane_audit_read(path, &f, see, &seen, NULL), WANE_OK);
    assert_int_equal(seen.count, 0);
    f.table = "%"; /* a digest begins with it; it is no pattern */
    assert_int_equal(wane_audit_read(path, &f, see, &seen, NULL), WANE_OK);
    assert_int_equal(seen.count, 0);
}

/* ------------------------------------------------------------------- tampering */

/* Records: 1 open, 2 start, 3 to 7 requests, 8 stop. */
static void test_changed(void **state) {
    (void)state;
    static const char *const changes[] = {"UPDATE audit SET key = 'eve' WHERE seq = 5",
                                          "UPDATE audit SET reply_tokens = 8 WHERE seq = 5",
                                          "UPDATE audit SET at = at + 1 WHERE seq = 5",
                                          "UPDATE audit SET mode = 'off' WHERE seq = 5",
                                          "UPDATE audit SET key = NULL WHERE seq = 5",
                                          "UPDATE audit SET reply_tokens = '7x' WHERE seq = 5",
                                          "UPDATE audit SET key = CAST(key AS BLOB) WHERE seq = 5",
                                          "UPDATE audit SET ms = 0.5 WHERE seq = 5",
                                          "UPDATE audit SET hash = zeroblob(32) WHERE seq = 5",
                                          "UPDATE audit SET hash = 'x' WHERE seq = 5",
                                          "UPDATE audit SET before = zeroblob(32) WHERE seq = 5"};
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        unlink(path);
        write_log(5);
        char sql[256];
        snprintf(sql, sizeof sql, "%s;", changes[i]);
        tamper_well(sql);
        assert_fault(WANE_AUDIT_CHANGED, 5);
    }
}

static void test_deleted(void **state) {
    (void)state;
    write_log(5);
    tamper_well("DELETE FROM audit WHERE seq IN (5, 6);");
    assert_fault(WANE_AUDIT_MISSING, 5);
    unlink(path);
    write_log(5);
    tamper_well("DELETE FROM audit WHERE seq = 5; UPDATE audit SET seq = seq - 1 WHERE seq > 5;");
    assert_fault(WANE_AUDIT_REORDERED, 5); /* it was written as record 6 */
    unlink(path);
    write_log(5);
    tamper_well("DELETE FROM audit WHERE seq < 4;");
    assert_fault(WANE_AUDIT_MISSING, 4);
}

static void test_swapped(void **state) {
    (void)state;
    write_log(5);
    tamper_well("UPDATE audit SET seq = -1 WHERE seq = 4; UPDATE audit SET seq = 4 WHERE seq = 6;"
                "UPDATE audit SET seq = 6 WHERE seq = -1;");
    assert_fault(WANE_AUDIT_REORDERED, 4);
    assert_non_null(strstr(check().what, "as record 6"));
}

/* With a hash of its own that is right: the chain has no place for it. */
static void forge(int64_t seq, bool link) {
    struct wane__audit_key none = {0};
    sqlite3 *base;
    sqlite3_stmt *row, *change;
    wane_audit_value field[WANE_AUDIT_FIELDS];
    unsigned char before[WANE__AUDIT_HASH], hash[WANE__AUDIT_HASH];
    char sql[1024];
    snprintf(sql, sizeof sql, "%s WHERE seq = %lld", wane__audit_select, (long long)seq);
    assert_int_equal(sqlite3_open(path, &base), SQLITE_OK);
    sqlite3_exec(base, no_guards, NULL, NULL, NULL);
    assert_int_equal(sqlite3_prepare_v2(base, sql, -1, &row, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(row), SQLITE_ROW);
    assert_true(wane__audit_row(row, field, before, hash));
    field[WANE_AUDIT_KEY] = (wane_audit_value){.type = WANE_AUDIT_STRING, .text = "eve", .size = 3};
    if (!link) memset(before, 7, sizeof before);
    wane__audit_hash(&none, before, field, hash);
    assert_int_equal(sqlite3_prepare_v2(base,
                                        "UPDATE audit SET key = 'eve', before = ?, hash = ? WHERE seq = ?",
                                        -1, &change, NULL),
                     SQLITE_OK);
    sqlite3_bind_blob(change, 1, before, sizeof before, SQLITE_STATIC);
    sqlite3_bind_blob(change, 2, hash, sizeof hash, SQLITE_STATIC);
    sqlite3_bind_int64(change, 3, seq);
    sqlite3_finalize(row);
    assert_int_equal(sqlite3_step(change), SQLITE_DONE);
    sqlite3_finalize(change);
    assert_int_equal(sqlite3_exec(base, guards, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(base);
}

static void test_exchanged(void **state) {
    (void)state;
    write_log(5);
    forge(5, true);
    assert_fault(WANE_AUDIT_REPLACED, 6);
    unlink(path);
    write_log(5);
    forge(5, false);
    assert_fault(WANE_AUDIT_REPLACED, 5);
}

static void test_inserted(void **state) {
    (void)state;
    static const char copy[] =
        "CREATE TEMP TABLE t AS SELECT * FROM audit WHERE seq = 4; UPDATE t SET seq = 5, key = 'eve';"
        "UPDATE audit SET seq = -seq WHERE seq >= 5; INSERT INTO audit SELECT * FROM t;"
        "UPDATE audit SET seq = 1 - seq WHERE seq < 0; DROP TABLE t;";
    write_log(5);
    tamper_well(copy);
    assert_fault(WANE_AUDIT_CHANGED, 5);
}

/* Cut with SQL: the numbers that were given out say so. Cut by somebody who knows: only a head tells. */
static void test_cut(void **state) {
    (void)state;
    write_log(5);
    wane_audit_verdict v = assert_whole(8);
    tamper_well("DELETE FROM audit WHERE seq > 6;");
    assert_fault(WANE_AUDIT_CUT, 7);
    tamper("UPDATE sqlite_sequence SET seq = 6;");
    assert_whole(6);
    const char *paths[] = {path};
    wane_audit_verdict w = check_with(paths, 1, NULL, v.head);
    assert_true(w.fault == WANE_AUDIT_CUT && w.record == 7);
    tamper_well("DELETE FROM audit;");
    assert_fault(WANE_AUDIT_CUT, 1);
}

static void test_unguarded(void **state) {
    (void)state;
    struct wane__audit *a;
    wane_error error = {0};
    struct wane__audit_write_options o = options();
    write_log(2);
    tamper("DROP TRIGGER audit_no_update");
    assert_fault(WANE_AUDIT_UNGUARDED, 0);
    assert_int_equal(wane__audit_open(&o, &a, &error), WANE_EFORMAT); /* nor is it gone on with */
    assert_non_null(strstr(error.text, "audit_no_update"));
    tamper(
        "CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit BEGIN SELECT 1; END"); /* one that does nothing */
    assert_int_equal(verify_code(NULL), WANE_EFORMAT);
}

/* Pages of the file itself: found by SQLite or by the chain, and never more than a finding. */
static void test_damaged(void **state) {
    (void)state;
    write_log(400);
    char *bytes;
    size_t size;
    assert_int_equal(wane__file_read(path, "it", 1 << 24, &bytes, &size, NULL), WANE_OK);
    assert_true(size > 60000);
    for (size_t cut = 1; cut < size; cut += 4096 + 511) {
        assert_int_equal(wane__file_write(path, "it", bytes, cut, 0600, NULL), WANE_OK);
        const char *paths[] = {path};
        wane_audit_check c;
        wane_audit_verdict v;
        wane_error error = {0};
        wane_audit_check_init(&c);
        c.paths = paths;
        c.path_count = 1;
        int status = wane_audit_verify(&c, &v, &error);
        assert_true(status == WANE_OK ? v.fault != WANE_AUDIT_WHOLE && v.record <= 403
                                      : error.text[0] != '\0');
    }
    int flipped = 0;
    for (size_t at = 4096; at + 8 < size; at++) { /* a byte of a record */
        if (memcmp(bytes + at, "req_", 4) != 0 || (at & 31) != 0) continue;
        bytes[at] = (char)(bytes[at] ^ 0x55);
        assert_int_equal(wane__file_write(path, "it", bytes, size, 0600, NULL), WANE_OK);
        bytes[at] = (char)(bytes[at] ^ 0x55);
        assert_int_equal(check().fault, WANE_AUDIT_CHANGED);
        flipped++;
    }
    assert_true(flipped > 3);
    wane__free(bytes);
}

static void test_other_files(void **state) {
    (void)state;
    struct wane__audit *a;
    struct wane__audit_write_options o = options();
    wane_error error = {0};
    put_file(path,
             "this is a diary, and no data base; it has to be long enough to be looked at by SQLite, though: "
             "100 bytes.",
             0600);
    assert_int_equal(wane__audit_open(&o, &a, &error), WANE_EFORMAT);
    assert_int_equal(verify_code(NULL), WANE_EFORMAT);
    unlink(path);
    put_file(path, "", 0600);
    assert_int_equal(verify_code(NULL), WANE_EFORMAT);
    tamper("CREATE TABLE audit(x)");
    assert_int_equal(verify_code(NULL), WANE_EFORMAT);
    unlink(path);
    assert_int_equal(verify_code(NULL), WANE_ENOENT);
    write_log(1);
    tamper("CREATE VIEW v AS SELECT 1");
    assert_int_equal(verify_code(NULL), WANE_EFORMAT);
    o.path = "/nonexistent/log";
    assert_int_equal(wane__audit_open(&o, &a, &error), WANE_EIO);
    o.path = folder;
    assert_int_equal(wane__audit_open(&o, &a, &error), WANE_EFORMAT);
}

/* ------------------------------------------------------------------- the key */

static const char some_key[] =
    "# of the audit log\n00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF\n";
static const char other_key[] = "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n";

static void test_a_key(void **state) {
    (void)state;
    struct wane__audit_write_options o = options();
    struct wane__audit *a;
    wane_error error = {0};
    const char *paths[] = {path};
    put_file(key_path, some_key, 0644);
    o.key_file = key_path;
    assert_int_equal(wane__audit_open(&o, &a, &error), WANE_EAUTH); /* everybody can read it */
    chmod(key_path, 0600);
    a = open_log(&o);
    serve(a, 3);
    wane__audit_close(a);
    assert_int_equal(verify_code(NULL), WANE_EAUTH);
    wane_audit_verdict v = check_with(paths, 1, key_path, NULL);
    assert_true(v.fault == WANE_AUDIT_WHOLE && v.keyed && v.records == 6);
    forge(4, true); /* whoever lacks the key cannot make a hash that is right */
    v = check_with(paths, 1, key_path, NULL);
    assert_true(v.fault == WANE_AUDIT_CHANGED && v.record == 4);
    put_file(key_path, other_key, 0600);
    assert_int_equal(verify_code(key_path), WANE_EAUTH);
    assert_int_equal(wane__audit_open(&o, &a, &error), WANE_EAUTH);
    put_file(key_path, "00112233", 0600);
    assert_int_equal(verify_code(key_path), WANE_EFORMAT);
    unlink(path);
    write_log(1);
    put_file(key_path, some_key, 0600);
    assert_int_equal(verify_code(key_path), WANE_EAUTH); /* it is not that key's log */
}

/* The formula as docs/audit.md has it, on a record of one field each way. */
static void test_the_formula(void **state) {
    (void)state;
    struct wane__audit_key key = {0};
    wane_audit_value field[WANE_AUDIT_FIELDS] = {{0}};
    unsigned char before[WANE__AUDIT_HASH] = {0}, a[WANE__AUDIT_HASH], b[WANE__AUDIT_HASH];
    field[WANE_AUDIT_REQUEST] = (wane_audit_value){.type = WANE_AUDIT_STRING, .text = "ab", .size = 2};
    field[WANE_AUDIT_REPLY] = (wane_audit_value){.type = WANE_AUDIT_STRING, .text = "c", .size = 1};
    wane__audit_hash(&key, before, field, a);
    field[WANE_AUDIT_REQUEST].size = 1; /* where a text ends is hashed, too */
    field[WANE_AUDIT_REPLY] = (wane_audit_value){.type = WANE_AUDIT_STRING, .text = "bc", .size = 2};
    wane__audit_hash(&key, before, field, b);
    assert_memory_not_equal(a, b, sizeof a);
    field[WANE_AUDIT_REPLY] = (wane_audit_value){0}; /* and whether a field is empty or not there */
    wane__audit_hash(&key, before, field, a);
    field[WANE_AUDIT_REPLY] = (wane_audit_value){.type = WANE_AUDIT_STRING, .text = "", .size = 0};
    wane__audit_hash(&key, before, field, b);
    assert_memory_not_equal(a, b, sizeof a);
}

/* ------------------------------------------------------------------- when it cannot be written */

static struct wane__audit_state state_of(struct wane__audit *a) {
    struct wane__audit_state s;
    wane__audit_get_state(a, &s);
    return s;
}

static sqlite3 *lock_file(void) {
    sqlite3 *rude;
    assert_int_equal(sqlite3_open(path, &rude), SQLITE_OK);
    assert_int_equal(sqlite3_exec(rude, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    return rude;
}

static void unlock_file(sqlite3 *rude) {
    sqlite3_exec(rude, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_close(rude);
}

/* Somebody holds the file: records wait, and nothing is lost. */
static void test_locked(void **state) {
    (void)state;
    struct wane__audit *a = open_plain();
    sqlite3 *rude = lock_file();
    serve(a, 5);
    wane__audit_flush(a);
    struct wane__audit_state s = state_of(a);
    assert_true(!s.ok && s.failures > 0 && s.waiting == 5 && s.dropped == 0);
    assert_non_null(strstr(s.reason, "locked"));
    assert_true(wane__audit_admit(a, NULL)); /* serving goes on */
    wane__audit_put(a, request("req_x", "ada"));
    unlock_file(rude);
    while (state_of(a).waiting > 0) usleep(1000);
    s = state_of(a);
    assert_true(s.ok && s.dropped == 0 && s.records == 7);
    wane__audit_close(a);
    assert_whole(9);
}

/* More than the queue holds: a gap stands where the others would have stood. */
static void test_overflow(void **state) {
    (void)state;
    struct wane__audit_write_options o = options();
    o.notes_most = 8;
    struct wane__audit *a = open_log(&o);
    sqlite3 *rude = lock_file();
    serve(a, 3);
    wane__audit_flush(a);
    serve(a, 20);
    struct wane__audit_state s = state_of(a);
    assert_true(s.waiting == 8 && s.dropped == 15);
    unlock_file(rude);
    while (state_of(a).waiting > 0) usleep(1000);
    serve(a, 1);
    wane__audit_close(a);
    wane_audit_verdict v = assert_whole(2 + 8 + 1 + 1 + 1);
    assert_true(v.gaps == 1 && v.lost == 15 && v.requests == 9);
    assert_string_equal(
        read_all().text,
        "open start request request request request request request request request gap request stop ");
}

static void test_no_memory(void **state) {
    (void)state;
    struct wane__audit *a = open_plain();
    assert_true(wane__audit_admit(a, NULL));
    wane__audit_put(a, NULL);
    wane__audit_close(a);
    wane_audit_verdict v = assert_whole(4);
    assert_true(v.gaps == 1 && v.lost == 1);
}

/* Under STOP nothing begins that might not be recorded: not while it cannot be written, and no more at once than the queue holds. */
static void test_stop(void **state) {
    (void)state;
    struct wane__audit_write_options o = options();
    wane_error error = {0};
    o.failure = WANE_AUDIT_STOP;
    o.notes_most = 4;
    struct wane__audit *a = open_log(&o);
    for (int i = 0; i < 4; i++) assert_true(wane__audit_admit(a, &error));
    assert_false(wane__audit_admit(a, &error));
    assert_non_null(strstr(error.text, "no room"));
    sqlite3 *rude = lock_file();
    for (int i = 0; i < 4; i++) wane__audit_put(a, request("req", "ada")); /* those that had begun are kept */
    wane__audit_flush(a);
    assert_false(wane__audit_admit(a, &error));
    assert_non_null(strstr(error.text, "locked"));
    struct wane__audit_state s = state_of(a);
    assert_true(!s.ok && s.dropped == 0 && s.waiting == 4);
    unlock_file(rude);
    while (!state_of(a).ok) usleep(1000);
    assert_true(wane__audit_admit(a, &error));
    wane__audit_put(a, request("req", "ada"));
    wane__audit_close(a);
    assert_int_equal(assert_whole(8).gaps, 0);
    rude = lock_file(); /* and it does not even start */
    assert_int_not_equal(wane__audit_open(&o, &a, &error), WANE_OK);
    o.failure = WANE_AUDIT_SERVE;
    a = open_log(&o);
    assert_false(state_of(a).ok);
    unlock_file(rude);
    while (!state_of(a).ok) usleep(1000);
    wane__audit_close(a);
    assert_whole(10);
}

/* The disk takes no more; later it does. Half a transaction is never there. */
static void test_a_full_disk(void **state) {
    (void)state;
    struct rlimit before, tight;
    struct wane__audit_write_options o = options();
    o.notes_most = 300;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    tight = before;
    tight.rlim_cur = 100000;
    struct wane__audit *a = open_log(&o);
    serve(a, 50);
    wane__audit_flush(a);
    setrlimit(RLIMIT_FSIZE, &tight);
    for (int i = 0; i < 40 && state_of(a).ok; i++) {
        serve(a, 100);
        wane__audit_flush(a);
    }
    assert_false(state_of(a).ok);
    serve(a, 400);
    uint64_t dropped = state_of(a).dropped;
    assert_true(dropped > 0);
    assert_int_equal(check().fault, WANE_AUDIT_WHOLE); /* of what is there */
    setrlimit(RLIMIT_FSIZE, &before);
    while (state_of(a).waiting > 0) usleep(1000);
    assert_true(state_of(a).ok);
    wane__audit_close(a);
    wane_audit_verdict v = check();
    assert_int_equal(v.fault, WANE_AUDIT_WHOLE);
    assert_int_equal(v.lost, dropped);
}

/* A log that was moved away takes no more records; brought back, it goes on. */
static void test_moved(void **state) {
    (void)state;
    struct wane__audit *a = open_plain();
    serve(a, 2);
    wane__audit_flush(a);
    assert_int_equal(rename(path, next_path), 0);
    serve(a, 2);
    wane__audit_flush(a);
    assert_false(state_of(a).ok);
    assert_int_not_equal(access(path, F_OK), 0); /* nothing was made in its place */
    assert_int_equal(rename(next_path, path), 0);
    while (!state_of(a).ok) usleep(1000);
    wane__audit_close(a);
    assert_int_equal(assert_whole(7).requests, 4);
}

/* Only its WAL was left behind: that would become part of whatever is made there. */
static void test_a_wal_alone(void **state) {
    (void)state;
    struct wane__audit_write_options o = options();
    struct wane__audit *a;
    wane_error error = {0};
    char wal[80];
    snprintf(wal, sizeof wal, "%s-wal", path);
    put_file(wal, "something", 0600);
    assert_int_equal(wane__audit_open(&o, &a, &error), WANE_EFORMAT);
    assert_non_null(strstr(error.text, "-wal"));
}

static void test_one_writer(void **state) {
    (void)state;
    struct wane__audit_write_options o = options();
    struct wane__audit *a = open_plain(), *b;
    wane_error error = {0};
    assert_int_equal(wane__audit_open(&o, &b, &error), WANE_EBUSY);
    assert_non_null(strstr(error.text, "another server"));
    assert_int_equal(wane_audit_rotate(path, next_path, NULL, &error), WANE_EBUSY);
    wane__audit_close(a);
}

/* ------------------------------------------------------------------- an end without a stop */

static char program[4096];

/* In a process of its own, which ends as by kill -9: `written` records on the disk, `waiting` ones not, `under_way` that never ended. */
static int die(char **argument) {
    snprintf(path, sizeof path, "%s", argument[0]);
    int written = atoi(argument[1]), waiting = atoi(argument[2]), under_way = atoi(argument[3]);
    struct wane__audit *a = NULL;
    struct wane__audit_write_options o = options();
    sqlite3 *rude = NULL;
    if (wane__audit_open(&o, &a, NULL) != WANE_OK) return 1;
    serve(a, written);
    wane__audit_flush(a);
    if (waiting > 0 && (sqlite3_open(path, &rude) != SQLITE_OK ||
                        sqlite3_exec(rude, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK))
        return 1;
    serve(a, waiting);
    for (int i = 0; i < under_way; i++) wane__audit_admit(a, NULL);
    if (rude != NULL) wane__audit_flush(a);
    _exit(7);
}

static void die_with(int written, int waiting, int under_way) {
    char command[4400];
    snprintf(command, sizeof command, "'%s' die %s %d %d %d", program, path, written, waiting, under_way);
    int status = system(command);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static void test_killed(void **state) {
    (void)state;
    die_with(3, 0, 0); /* nothing was owed: nothing is missing */
    wane_audit_verdict v = assert_whole(5);
    assert_false(v.ended);
    write_log(1);
    v = assert_whole(8);
    assert_true(v.gaps == 0 && v.ended);
    die_with(2, 3, 2);
    v = assert_whole(11);
    write_log(0);
    v = assert_whole(14);
    assert_true(v.gaps == 1 && v.lost == 5 && v.gaps_unknown == 0);
    die_with(0, 0, 1); /* after a gap: what was counted once is not counted again */
    write_log(0);
    v = assert_whole(18);
    assert_true(v.gaps == 2 && v.lost == 6);
    char count[80];
    snprintf(count, sizeof count, "%s-count", path);
    die_with(1, 1, 0);
    unlink(count); /* how many, nobody knows */
    write_log(0);
    v = assert_whole(23);
    assert_true(v.gaps == 3 && v.lost == 6 && v.gaps_unknown == 1);
}

/* ------------------------------------------------------------------- rotation */

static void test_rotation(void **state) {
    (void)state;
    struct wane__audit_write_options o = options();
    struct wane__audit *a;
    wane_error error = {0};
    const char *both[] = {path, next_path}, *wrong[] = {next_path, path}, *second[] = {next_path};
    write_log(3);
    assert_int_equal(wane_audit_rotate(path, path, NULL, &error), WANE_EINVAL);
    assert_int_equal(wane_audit_rotate("/nonexistent/log", next_path, NULL, &error), WANE_ENOENT);
    if (wane_audit_rotate(path, next_path, NULL, &error) != WANE_OK) fail_msg("%s", error.text);
    assert_int_equal(wane__audit_open(&o, &a, &error), WANE_EINVAL); /* the old one is closed */
    assert_non_null(strstr(error.text, "closed"));
    o.path = next_path;
    a = open_log(&o);
    serve(a, 2);
    wane__audit_close(a);
    wane_audit_verdict v = check_with(both, 2, NULL, NULL), w = check_with(second, 1, NULL, NULL);
    assert_int_equal(v.fault, WANE_AUDIT_WHOLE);
    assert_true(v.records == 7 + 5 && v.first == 1 && v.last == 12 && v.requests == 5);
    assert_true(w.fault == WANE_AUDIT_WHOLE && w.first == 8);
    assert_string_equal(w.before, assert_whole(7).head);
    v = check_with(wrong, 2, NULL, NULL);
    assert_true(v.fault == WANE_AUDIT_MISSING && v.file == 1);
    /* The next one was lost before it had records: it is made again, from where the old one ends. */
    unlink(next_path);
    if (wane_audit_rotate(path, next_path, NULL, &error) != WANE_OK) fail_msg("%s", error.text);
    assert_int_equal(check_with(both, 2, NULL, NULL).records, 8);
    assert_int_equal(wane_audit_rotate(path, next_path, NULL, &error), WANE_EINVAL);
}

/* ------------------------------------------------------------------- threads, folders */

static void *serve_many(void *user) {
    for (int i = 0; i < 50; i++) {
        serve(user, 2);
        wane__audit_tell(user, wane__audit_note_new("rollout"));
        if (i % 10 == 0) check();
    }
    return NULL;
}

static void count_tick(void *user) {
    atomic_fetch_add((atomic_int *)user, 1);
}

static void test_many_at_once(void **state) {
    (void)state;
    struct wane__audit *a = open_plain();
    pthread_t thread[4];
    atomic_int ticks = 0;
    wane__audit_set_tick(a, count_tick, &ticks);
    for (int i = 0; i < 4; i++) pthread_create(&thread[i], NULL, serve_many, a);
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    while (atomic_load(&ticks) == 0) usleep(1000);
    wane__audit_close(a);
    wane_audit_verdict v = assert_whole(3 + 600);
    assert_int_equal(v.requests, 400);
}

/* Who may read, but not write: an auditor's copy on a medium of its own. */
static void test_a_folder_to_read(void **state) {
    (void)state;
    write_log(2);
    bool root = geteuid() == 0; /* who may write anywhere */
    char command[96];
    snprintf(command, sizeof command, "chown -R 65534 %s", folder);
    if (root) assert_int_equal(system(command) | seteuid(65534), 0);
    chmod(path, 0400);
    chmod(folder, 0500);
    assert_whole(5);
    struct wane__audit_write_options o = options();
    struct wane__audit *a = open_log(&o); /* serving goes on without it */
    assert_false(state_of(a).ok);
    chmod(folder, 0700);
    chmod(path, 0600);
    while (!state_of(a).ok) usleep(1000);
    wane__audit_close(a);
    assert_whole(7);
    if (root) assert_int_equal(seteuid(0), 0);
}

int main(int argc, char **argv) {
    if (argc == 6 && strcmp(argv[1], "die") == 0) return die(argv + 2);
    if (realpath(argv[0], program) == NULL) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_log, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_append_only, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_filters, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_changed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_deleted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_swapped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_exchanged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_inserted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unguarded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damaged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_key, set_up, tear_down),
        cmocka_unit_test(test_the_formula),
        cmocka_unit_test_setup_teardown(test_locked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_overflow, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stop, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_full_disk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_moved, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_wal_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_writer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_killed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rotation, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_folder_to_read, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
