/*
 * test_feedback.c - the pool of ratings (what is in it, who may be in the way, how it stays small), replies that are kept to be rated, and
 * the reward model: what it learns, and what it does to a vote.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/file.h"
#include "core/memory.h"
#include "correct/answers.h"
#include "governor/linear.h"
#include "model.h"
#include "reward.h"
#include "server/kept.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/wane-feedback-XXXXXX";
static char path[64], other_path[64];

static int set_up(void **state) {
    (void)state;
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(path, sizeof path, "%s/pool.db", folder);
    snprintf(other_path, sizeof other_path, "%s/other", folder);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    char name[80];
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%s%s", path, ends[i]);
        unlink(name);
    }
    unlink(other_path);
    return rmdir(folder);
}

static wane_feedback *open_pool(uint64_t bytes) {
    wane_feedback_options o;
    wane_feedback *pool;
    wane_error error = {0};
    wane_feedback_options_init(&o);
    o.path = path;
    if (bytes > 0) o.bytes_most = bytes;
    if (wane_feedback_open(&o, &pool, &error) != WANE_OK) fail_msg("%s", error.text);
    return pool;
}

static wane_feedback_entry entry(const char *response, double rating) {
    return (
        wane_feedback_entry){.response = response, .tenant = "t", .key = "k", .model = "m", .rating = rating};
}

static int add(wane_feedback *pool, wane_feedback_entry e) {
    wane_error error = {0};
    int status = wane_feedback_append(pool, &e, &error);
    assert_int_equal(status, error.code);
    return status;
}

struct seen {
    int count;
    int64_t first, last;
    char text[200];
};

static bool see(void *user, const wane_feedback_entry *e) {
    struct seen *seen = user;
    if (seen->count++ == 0) seen->first = e->id;
    seen->last = e->id;
    snprintf(seen->text, sizeof seen->text, "%s %s %.2f %s %s", e->response, e->tenant, e->rating,
             e->comment != NULL ? e->comment : "-", e->reply != NULL ? e->reply : "-");
    return true;
}

static void test_a_pool(void **state) {
    (void)state;
    wane_feedback *pool = open_pool(0);
    wane_feedback_stats s;
    struct seen seen = {0};
    struct stat facts;
    assert_int_equal(wane_feedback_get_stats(path, &s, NULL), WANE_OK);
    assert_true(s.entries == 0 && isnan(s.mean));
    assert_int_equal(add(pool, entry("msg_1", 1)), WANE_OK);
    assert_int_equal(add(pool, entry("msg_2", -1)), WANE_OK);
    wane_feedback_entry full = entry("msg_1", -0.5);
    full.comment = "it'); DROP TABLE feedback; --";
    full.prompt = "p";
    full.reply = "\xe4\xbd\xa0\xe5\xa5\xbd";
    assert_int_equal(add(pool, full), WANE_OK);
    assert_int_equal(wane_feedback_read(path, see, &seen, NULL), WANE_OK); /* while it is open */
    assert_int_equal(seen.count, 3);
    assert_string_equal(seen.text, "msg_1 t -0.50 it'); DROP TABLE feedback; -- \xe4\xbd\xa0\xe5\xa5\xbd");
    wane_feedback_close(pool);
    pool = open_pool(0); /* once more: what was there stays */
    assert_int_equal(add(pool, entry("msg_3", 0)), WANE_OK);
    assert_int_equal(wane_feedback_get_stats(path, &s, NULL), WANE_OK);
    assert_true(s.entries == 4 && s.responses == 3 && s.up == 0 && s.down == 2 && s.neutral == 1);
    assert_true(s.comments == 1 && s.texts == 1 && s.first > 0 && s.last >= s.first);
    assert_true(fabs(s.mean + 0.5) < 1e-9);
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    assert_int_equal(add(pool, entry("msg_4", 1.5)), WANE_EINVAL);
    assert_int_equal(add(pool, entry("msg_4", (double)NAN)), WANE_EINVAL);
    wane_feedback_close(pool);
}

static void test_other_files(void **state) {
    (void)state;
    wane_feedback_options o;
    wane_feedback *pool;
    wane_error error = {0};
    sqlite3 *file;
    wane_feedback_options_init(&o);
    o.path = other_path;
    FILE *text = fopen(other_path, "w");
    for (int i = 0; i < 200; i++) fputs("this is a diary, and no data base\n", text);
    fclose(text);
    assert_int_equal(wane_feedback_open(&o, &pool, &error), WANE_EFORMAT);
    assert_int_equal(wane_feedback_read(other_path, see, NULL, &error), WANE_EFORMAT);
    unlink(other_path);
    assert_int_equal(sqlite3_open(other_path, &file), SQLITE_OK);
    assert_int_equal(sqlite3_exec(file, "CREATE TABLE other(x)", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(file);
    assert_int_equal(wane_feedback_open(&o, &pool, &error), WANE_EFORMAT);
    assert_non_null(strstr(error.text, "no feedback pool"));
    assert_int_equal(wane_feedback_read("/nonexistent/pool", see, NULL, &error), WANE_ENOENT);
    o.path = folder;
    assert_int_equal(wane_feedback_open(&o, &pool, &error), WANE_EIO);
    o.path = "/nonexistent/pool";
    assert_int_equal(wane_feedback_open(&o, &pool, &error), WANE_EIO);
    o.path = path;
    o.bytes_most = 1000;
    assert_int_equal(wane_feedback_open(&o, &pool, &error), WANE_EINVAL);
}

/* Somebody holds the file: this rating fails in words, the next one does not. */
static void test_a_locked_file(void **state) {
    (void)state;
    wane_feedback *pool = open_pool(0);
    wane_error error = {0};
    sqlite3 *rude;
    wane_feedback_entry e = entry("msg_1", 1);
    assert_int_equal(sqlite3_open(path, &rude), SQLITE_OK);
    assert_int_equal(sqlite3_exec(rude, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(wane_feedback_append(pool, &e, &error), WANE_EBUSY);
    assert_non_null(strstr(error.text, "locked"));
    sqlite3_exec(rude, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_close(rude);
    assert_int_equal(wane_feedback_append(pool, &e, &error), WANE_OK);
    wane_feedback_close(pool);
}

/* The disk takes no more: the same. */
static void test_a_full_disk(void **state) {
    (void)state;
    static char text[32768];
    wane_feedback *pool = open_pool(0);
    wane_error error = {0};
    struct rlimit before, tight;
    memset(text, 'x', sizeof text - 1);
    wane_feedback_entry e = entry("msg_1", 1);
    e.reply = text;
    assert_int_equal(wane_feedback_append(pool, &e, &error), WANE_OK);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    tight = before;
    tight.rlim_cur = 65536;
    setrlimit(RLIMIT_FSIZE, &tight);
    int status = WANE_OK;
    for (int i = 0; i < 8 && status == WANE_OK; i++) status = wane_feedback_append(pool, &e, &error);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(status, WANE_EIO);
    assert_true(error.text[0] != '\0');
    assert_int_equal(wane_feedback_append(pool, &e, &error), WANE_OK);
    wane_feedback_close(pool);
}

/* Five times what it may hold: the oldest went, the newest are there, the file did not grow. */
static void test_a_pool_stays_small(void **state) {
    (void)state;
    static char text[16384];
    wane_feedback *pool = open_pool(1 << 20);
    struct seen seen = {0};
    struct stat facts;
    memset(text, 'x', sizeof text - 1);
    for (int i = 0; i < 320; i++) {
        wane_feedback_entry e = entry("msg", i % 2 == 0 ? 1 : -1);
        e.reply = text;
        assert_int_equal(add(pool, e), WANE_OK);
    }
    wane_feedback_close(pool);
    assert_int_equal(wane_feedback_read(path, see, &seen, NULL), WANE_OK);
    assert_int_equal(seen.last, 320);
    assert_true(seen.count > 30 && seen.count < 64);
    assert_int_equal(seen.first, 320 - seen.count + 1);
    assert_int_equal(stat(path, &facts), 0);
    assert_true(facts.st_size <= 1 << 20);
}

static void *rate_many(void *user) {
    int done = 0;
    for (int i = 0; i < 50; i++) {
        wane_feedback_entry e = entry("msg", 1);
        wane_error error = {0};
        int status;
        while ((status = wane_feedback_append(user, &e, &error)) == WANE_EBUSY) continue;
        done += status == WANE_OK;
    }
    return done == 50 ? user : NULL;
}

static void test_many_at_once(void **state) {
    (void)state;
    wane_feedback *pool = open_pool(0);
    wane_feedback_stats s;
    pthread_t thread[4];
    for (int i = 0; i < 4; i++) pthread_create(&thread[i], NULL, rate_many, pool);
    for (int i = 0; i < 4; i++) {
        void *fine;
        pthread_join(thread[i], &fine);
        assert_non_null(fine);
    }
    wane_feedback_close(pool);
    assert_int_equal(wane_feedback_get_stats(path, &s, NULL), WANE_OK);
    assert_int_equal(s.entries, 200);
}

/* ------------------------------------------------------------------- kept replies */

static void test_kept_replies(void **state) {
    (void)state;
    struct wane__kept *kept = wane__kept_new(3, 10000, 10);
    struct wane__kept_state s;
    char id[16];
    bool full;
    for (int i = 0; i < 5; i++) {
        snprintf(id, sizeof id, "r%d", i);
        struct wane__kept_reply r = {.id = id, .tenant = i == 4 ? "b" : "a", .other = {"x", NULL}};
        assert_true(wane__kept_add(kept, &r, i));
    }
    wane__kept_get_state(kept, &s);
    assert_true(s.replies == 3 && s.evicted == 2);
    assert_null(wane__kept_take(kept, "r1", "a", 2, 5, &full)); /* gave way */
    assert_null(wane__kept_take(kept, "r4", "a", 2, 5, &full)); /* another's */
    assert_false(full);
    for (int i = 0; i < 2; i++) {
        struct wane__kept_reply *r = wane__kept_take(kept, "r3", "a", 2, 5, &full);
        assert_non_null(r);
        assert_string_equal(r->other[0], "x");
        assert_null(r->other[1]);
        assert_int_equal(r->ratings, i);
        wane__free(r);
    }
    assert_null(wane__kept_take(kept, "r3", "a", 2, 5, &full));
    assert_true(full);
    assert_null(wane__kept_take(kept, "r3", "a", 9, 14, &full)); /* too old */
    static char large[10001];
    memset(large, 'x', sizeof large - 1);
    struct wane__kept_reply much = {.id = "much", .tenant = "a", .reply = large};
    assert_false(wane__kept_add(kept, &much, 14));
    large[4000] = '\0';
    for (int i = 0; i < 5; i++) assert_true(wane__kept_add(kept, &much, 14));
    wane__kept_get_state(kept, &s);
    assert_true(s.replies == 2 && s.bytes <= 10000);
    wane__kept_free(kept);
}

/* ------------------------------------------------------------------- the reward model */

/* Polite replies are liked, and long-winded ones are not, whatever the prompt was. */
static void fill(wane_feedback *pool, int count) {
    static const char *const liked[] = {"Gladly: %d is the number that you want.",
                                        "Of course. The answer is %d, gladly.", "Gladly, and in short: %d."};
    static const char *const not_liked[] = {"Well, as I said before, it depends, %d perhaps.",
                                            "It depends on %d things, as I said.",
                                            "As I said before: maybe %d, it depends."};
    for (int i = 0; i < count; i++) {
        char id[32], prompt[64], reply[128];
        bool up = i % 2 == 0;
        snprintf(id, sizeof id, "msg_%d", i);
        snprintf(prompt, sizeof prompt, "user: question %c%c of %d", 'a' + i % 26, 'a' + i / 26 % 26, i);
        snprintf(reply, sizeof reply, (up ? liked : not_liked)[i / 2 % 3], i);
        wane_feedback_entry e = entry(id, up ? 1 : -1);
        e.prompt = prompt;
        e.reply = reply;
        assert_int_equal(add(pool, e), WANE_OK);
    }
}

static int train(const char *output, wane_reward_report *report, wane_error *error) {
    static const char *pools[1] = {path};
    wane_reward_train_options o;
    wane_reward_train_options_init(&o);
    o.pools = pools;
    o.pool_count = 1;
    o.output = output;
    return wane_reward_train(&o, report, error);
}

static void test_a_reward_model(void **state) {
    (void)state;
    wane_feedback *pool = open_pool(0);
    wane_reward_report r;
    wane_error error = {0};
    struct wane__reward reward = {0};
    char *bytes[2];
    size_t size[2];
    fill(pool, 12);
    assert_int_equal(train(NULL, &r, &error), WANE_EINVAL); /* too few, and it says how many */
    assert_non_null(strstr(error.text, "at least 10"));
    fill(pool, 160); /* the first twelve again: the last rating counts */
    assert_int_equal(add(pool, entry("msg_no_text", 1)), WANE_OK);
    wane_feedback_close(pool);
    for (int i = 0; i < 2; i++) {
        if (train(other_path, &r, &error) != WANE_OK) fail_msg("%s", error.text);
        assert_int_equal(wane__file_read(other_path, "it", 4 << 20, &bytes[i], &size[i], NULL), WANE_OK);
    }
    assert_int_equal(r.entries, 173);
    assert_int_equal(r.usable, 160);
    assert_true(r.up == 80 && r.down == 80 && r.learned + r.held == 160 && r.held > 10);
    assert_true(r.auc > 0.95 && r.low > 0.9 && r.high <= 1);
    assert_int_equal(r.weights, 1 << 20);
    assert_true(size[0] == size[1] && size[0] == r.bytes && memcmp(bytes[0], bytes[1], size[0]) == 0);
    assert_int_equal(wane__linear_read(other_path, WANE__LINEAR_REWARD, &reward.model, &error), WANE_OK);
    static const char good[] = "Gladly: seven.", bad[] = "As I said before, it depends.";
    double up, down;
    assert_true(wane__reward_score(&reward, good, sizeof good - 1, &up));
    assert_true(wane__reward_score(&reward, bad, sizeof bad - 1, &down));
    assert_true(up > down + 1);
    wane__reward_close(&reward);
    wane__free(bytes[0]);
    wane__free(bytes[1]);
}

/* More replies than are learned from, the last of them rated again: each is found among all that came before, and the newest stay. */
static void test_many_ratings(void **state) {
    (void)state;
    static const char sql[] =
        "with recursive n(i) as (select 0 union all select i + 1 from n where i < 55099) "
        "insert into feedback(at, response, tenant, key, model, rating, prompt, reply) "
        "select 1, 'msg_' || (case when i < 55000 then i else i - 100 end), '', '', 'm', "
        "case when i >= 55000 or i % 2 = 0 then 1 else -1 end, 'p' || (i % 50), "
        "case when i % 2 = 0 then 'yes' else 'no' end from n;";
    wane_feedback_close(open_pool(0));
    sqlite3 *db = NULL;
    wane_reward_report r;
    wane_error error = {0};
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) fail_msg("%s", sqlite3_errmsg(db));
    sqlite3_close(db);
    if (train(NULL, &r, &error) != WANE_OK) fail_msg("%s", error.text);
    assert_int_equal(r.entries, 55100);
    assert_int_equal(r.usable, 20000);
    assert_int_equal(r.up, 10000 + 50);
}

static struct wane__vote_result decide(const char *a, const char *b, const char *c, const double reward[3],
                                       enum wane__rewarded rewarded) {
    const char *text[WANE__ANSWERS] = {a, b, c};
    static int32_t tokens[WANE__ANSWERS][16];
    struct wane__answer answers[WANE__ANSWERS];
    for (int i = 0; i < WANE__ANSWERS; i++) {
        size_t size = strlen(text[i]);
        for (size_t t = 0; t < size; t++) tokens[i][t] = text[i][t];
        answers[i] = (struct wane__answer){.state = WANE__ANSWER_WHOLE,
                                           .tokens = tokens[i],
                                           .count = size,
                                           .text = text[i],
                                           .size = size,
                                           .reward = reward[i]};
    }
    return wane__answers_decide_by(answers, NULL, rewarded);
}

static void test_rewards_in_a_vote(void **state) {
    (void)state;
    const double reward[3] = {0.1, 0.3, 0.9};
    /* All equally far apart: the best liked one, where rewards count at all. */
    assert_int_equal(decide("aaaa", "bbbb", "cccc", reward, WANE__REWARDED_NOT).chosen, 0);
    struct wane__vote_result v = decide("aaaa", "bbbb", "cccc", reward, WANE__REWARDED_TIE);
    assert_true(v.chosen == 2 && v.by_reward);
    /* The second is the closest alone: a tie has no say, BEST has. */
    v = decide("abcd", "abxx", "yyxx", reward, WANE__REWARDED_TIE);
    assert_true(v.chosen == 1 && !v.by_reward);
    v = decide("abcd", "abxx", "yyxx", reward, WANE__REWARDED_BEST);
    assert_true(v.chosen == 2 && v.by_reward);
    /* Two that agree need no rewards. */
    v = decide("same", "same", "else", reward, WANE__REWARDED_BEST);
    assert_true(v.chosen == 0 && !v.by_reward);
    /* Two of equal closeness: the better liked of them, not the best of all. */
    const double third_worst[3] = {0.1, 0.3, -5};
    v = decide("aaaa", "bbbb", "cccc", third_worst, WANE__REWARDED_TIE);
    assert_int_equal(v.chosen, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_pool, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_locked_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_full_disk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_pool_stays_small, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_at_once, set_up, tear_down),
        cmocka_unit_test(test_kept_replies),
        cmocka_unit_test_setup_teardown(test_a_reward_model, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_ratings, set_up, tear_down),
        cmocka_unit_test(test_rewards_in_a_vote),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
