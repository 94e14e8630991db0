/*
 * test_alerts.c - the board, hooks on a clock of the test's, what a POST and a command are, and the watchdog.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/clock.h"
#include "core/memory.h"
#include "ops/alert_send.h"
#include "ops/watchdog.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ----------------------------------------------------------------------- board */

static int64_t date_now = 1000;
static int64_t test_date(void *user) {
    (void)user;
    return date_now;
}

struct heard {
    int count;
    struct wane__alert_change last, all[16];
};

static void hear(void *user, const struct wane__alert_change *change) {
    struct heard *heard = user;
    heard->last = *change;
    if (heard->count < 16) heard->all[heard->count] = *change;
    heard->count++;
}

struct broke {
    struct wane__board *board;
    int count;
    char feature[20], reason[500];
};

/* It may call the board: a rollout that steps back raises an alert itself. */
static void step_back(void *user, const char *feature, const char *reason) {
    struct broke *broke = user;
    broke->count++;
    snprintf(broke->feature, sizeof broke->feature, "%s", feature);
    snprintf(broke->reason, sizeof broke->reason, "%s", reason);
    wane__board_raise(broke->board, WANE__ALERT_ROLLOUT, "the rollout of the %s stepped back", feature);
}

static struct wane__board *board_of(struct heard *heard) {
    struct wane__board *board;
    wane_error error = {0};
    *heard = (struct heard){0};
    assert_int_equal(wane__board_new(NULL, test_date, NULL, &board, &error), WANE_OK);
    assert_true(wane__board_listen(board, hear, heard));
    return board;
}

static struct wane__alert_view view_of(struct wane__board *board, enum wane__alert alert) {
    struct wane__alert_view view;
    wane__board_view(board, alert, &view);
    return view;
}

static void test_raise_and_clear(void **unused) {
    (void)unused;
    struct heard heard;
    struct wane__board *board = board_of(&heard);
    date_now = 5000;
    assert_false(wane__board_clear(board, WANE__ALERT_STUCK, "nothing was wrong"));
    assert_string_equal(view_of(board, WANE__ALERT_STUCK).reason, "");
    assert_true(wane__board_raise(board, WANE__ALERT_STUCK, "stuck for %d s", 3));
    date_now = 6000;
    assert_false(
        wane__board_raise(board, WANE__ALERT_STUCK, "stuck for %d s", 4)); /* told once; the reason goes on */
    struct wane__alert_view view = view_of(board, WANE__ALERT_STUCK);
    assert_true(view.raised && view.count == 1 && view.raised_at == 5000 && view.changed_at == 5000);
    assert_string_equal(view.reason, "stuck for 4 s");
    assert_int_equal(heard.count, 1);
    date_now = 7000;
    assert_true(wane__board_clear(board, WANE__ALERT_STUCK, "it moves"));
    view = view_of(board, WANE__ALERT_STUCK);
    assert_true(!view.raised && view.count == 1 && view.raised_at == 5000 && view.changed_at == 7000);
    assert_true(wane__board_raise(board, WANE__ALERT_STUCK, "again"));
    assert_true(wane__board_raise(board, WANE__ALERT_AUDIT, "full"));
    assert_int_equal(view_of(board, WANE__ALERT_STUCK).count, 2);
    assert_int_equal(heard.count, 4);
    for (int i = 0; i < 4; i++) assert_int_equal(heard.all[i].sequence, i + 1);
    assert_int_equal(heard.last.alert, WANE__ALERT_AUDIT);
    assert_false(wane__board_raise(NULL, WANE__ALERT_AUDIT, "no board, no harm"));
    wane__board_free(board);
}

static void test_break(void **unused) {
    (void)unused;
    struct heard heard;
    struct wane__board *board = board_of(&heard);
    struct broke broke = {.board = board};
    wane__board_break(board, WANE__ALERT_TABLE, "table", "nobody steps back yet");
    wane__board_on_break(board, step_back, &broke);
    wane__board_raise(board, WANE__ALERT_TABLE, "one of three"); /* it is raised already */
    assert_int_equal(broke.count, 0);
    wane__board_break(board, WANE__ALERT_TABLE, "table", "three of three");
    assert_int_equal(broke.count, 1);
    assert_string_equal(broke.feature, "table");
    assert_string_equal(broke.reason, "three of three");
    assert_int_equal(view_of(board, WANE__ALERT_TABLE).count, 2); /* anew, though it was raised */
    assert_true(view_of(board, WANE__ALERT_ROLLOUT).raised);
    assert_int_equal(heard.count, 3);
    wane__board_on_break(board, NULL, NULL);
    wane__board_break(board, WANE__ALERT_TABLE, "table", "again");
    assert_int_equal(broke.count, 1);
    wane__board_free(board);
}

/* Whatever is in a reason, a line of UTF-8 comes out, and no character is cut in half. */
static void test_reasons_are_text(void **unused) {
    (void)unused;
    struct heard heard;
    struct wane__board *board = board_of(&heard);
    const struct {
        const char *in, *out;
    } cases[] = {{"caf\xc3\xa9", "caf\xc3\xa9"},
                 {"a\nb\tc\x7f", "a?b?c?"},
                 {"\xff\xfe", "??"},
                 {"\xc0\xaf", "??"},      /* overlong */
                 {"\xed\xa0\x80", "???"}, /* a surrogate */
                 {"\xe2\x82\xac!", "\xe2\x82\xac!"},
                 {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
                 {"\xf4\x90\x80\x80", "????"}, /* beyond Unicode */
                 {"\xe2\x82", "??"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        wane__board_raise(board, WANE__ALERT_RELOAD, "%s", cases[i].in);
        assert_string_equal(view_of(board, WANE__ALERT_RELOAD).reason, cases[i].out);
    }
    char longer[900];
    for (size_t i = 0; i + 2 < sizeof longer; i += 2) memcpy(longer + i, "\xc3\xa9", 3);
    for (int shift = 0; shift < 2; shift++) {
        wane__board_raise(board, WANE__ALERT_RELOAD, "%s%s", shift ? "x" : "", longer);
        struct wane__alert_view view = view_of(board, WANE__ALERT_RELOAD);
        json_t *text = json_string(view.reason);
        assert_non_null(text);
        json_decref(text);
        assert_true(strlen(view.reason) > 490);
    }
    wane__board_free(board);
}

static void test_body(void **unused) {
    (void)unused;
    struct heard heard;
    struct wane__board *board = board_of(&heard);
    struct wane__buf body = {0};
    const struct wane__alert_facts facts = {
        .host = "box\xff", .model = "m \"quoted\"", .version = "0.1.0", .instance = "abc", .port = 8080};
    date_now = INT64_C(1793786096789);
    wane__board_raise(board, WANE__ALERT_TABLE, "it \"said\" so");
    assert_true(wane__alert_body(&heard.last, &facts, &body));
    json_t *all = json_loads(body.data, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(all);
    const struct {
        const char *name, *text;
    } texts[] = {{"schema", "wane.alert/1"},
                 {"name", "table_divergence"},
                 {"state", "raised"},
                 {"reason", "it \"said\" so"},
                 {"at", "2026-11-04T09:54:56.789Z"},
                 {"raised_at", "2026-11-04T09:54:56.789Z"},
                 {"instance", "abc"},
                 {"host", "box?"},
                 {"model", "m \"quoted\""},
                 {"version", "0.1.0"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_string_equal(json_string_value(json_object_get(all, texts[i].name)), texts[i].text);
    assert_int_equal(json_integer_value(json_object_get(all, "sequence")), 1);
    assert_int_equal(json_integer_value(json_object_get(all, "count")), 1);
    assert_int_equal(json_integer_value(json_object_get(all, "port")), 8080);
    assert_int_equal(json_object_size(all), 13);
    json_decref(all);
    wane__buf_free(&body);
    wane__board_free(board);
}

/* ------------------------------------------------------------------------ hooks */

struct receiver {
    enum wane__hook_result answer[8]; /* the last one again and again */
    int answers, calls;
    uint64_t sequence[256];
    struct wane__hook *push_to; /* while a message is on its way, so many more come */
    int push;
};

static char *a_body(void) {
    return wane__copy_string("{}");
}

static struct wane__alert_change change_of(uint64_t sequence) {
    return (struct wane__alert_change){.alert = WANE__ALERT_TABLE, .sequence = sequence};
}

static void push_some(struct wane__hook *hook, uint64_t from, int count) {
    for (int i = 0; i < count; i++) {
        struct wane__alert_change change = change_of(from + (uint64_t)i);
        wane__hook_push(hook, &change, a_body(), 2);
    }
}

static enum wane__hook_result receive(void *user, const struct wane__hook *hook,
                                      const struct wane__hook_message *message, char why[200]) {
    struct receiver *r = user;
    (void)hook;
    snprintf(why, 200, "as the test says");
    assert_memory_equal(message->body, "{}", 2);
    if (r->calls < 256) r->sequence[r->calls] = message->change.sequence;
    if (r->push > 0) push_some(r->push_to, 1000, r->push);
    r->push = 0;
    int which = r->calls++ < r->answers ? r->calls - 1 : r->answers - 1;
    return r->answer[which];
}

static struct wane__hook *hook_of(struct receiver *receiver, int attempts) {
    struct wane__hook *hook;
    const struct wane__hook_options options = {.name = "url",
                                               .send = receive,
                                               .user = receiver,
                                               .attempts = attempts,
                                               .first = 1,
                                               .most = 60,
                                               .seed = 7,
                                               .no_thread = true};
    assert_int_equal(wane__hook_new(&options, &hook, NULL), WANE_OK);
    return hook;
}

static struct wane__hook_counts counts_of(struct wane__hook *hook) {
    struct wane__hook_counts counts;
    wane__hook_count(hook, &counts);
    return counts;
}

static void test_retries(void **unused) {
    (void)unused;
    struct receiver r = {.answer = {WANE__HOOK_LATER, WANE__HOOK_LATER, WANE__HOOK_DELIVERED}, .answers = 3};
    struct wane__hook *hook = hook_of(&r, 5);
    assert_true(isinf(wane__hook_step(hook, 0)));
    push_some(hook, 1, 2);
    double due = wane__hook_step(hook, 100);
    assert_true(due >= 100.5 && due <= 101); /* a second, half of it by chance */
    assert_true(wane__hook_step(hook, due - 0.01) == due && r.calls == 1);
    double again = wane__hook_step(hook, due);
    assert_true(again >= due + 1 && again <= due + 2);  /* then two */
    assert_true(wane__hook_step(hook, again) <= again); /* taken; the next message is due at once */
    assert_true(isinf(wane__hook_step(hook, again)));
    assert_int_equal(r.calls, 4);
    assert_int_equal(r.sequence[2], 1); /* in order: the second waited for the first */
    assert_int_equal(r.sequence[3], 2);
    struct wane__hook_counts c = counts_of(hook);
    assert_true(c.delivered == 2 && c.retried == 2 && c.failed == 0 && c.dropped == 0 && c.waiting == 0);
    wane__hook_free(hook, 0);
}

static void test_given_up(void **unused) {
    (void)unused;
    struct receiver r = {.answer = {WANE__HOOK_LATER}, .answers = 1};
    struct wane__hook *hook = hook_of(&r, 4);
    push_some(hook, 1, 1);
    double now = 0;
    for (int i = 0; i < 4; i++) now = wane__hook_step(hook, now);
    assert_true(isinf(now) && r.calls == 4);
    struct receiver never = {.answer = {WANE__HOOK_NEVER}, .answers = 1};
    struct wane__hook *other = hook_of(&never, 4);
    push_some(other, 1, 1);
    assert_true(isinf(wane__hook_step(other, 0)) && never.calls == 1);
    assert_int_equal(counts_of(hook).failed, 1);
    assert_int_equal(counts_of(hook).retried, 3);
    assert_int_equal(counts_of(other).failed, 1);
    assert_int_equal(counts_of(other).retried, 0);
    wane__hook_free(hook, 0);
    wane__hook_free(other, 0);
}

/* A full queue gives up its oldest; what is on its way stays, and is delivered once. */
static void test_full_queue(void **unused) {
    (void)unused;
    struct receiver r = {.answer = {WANE__HOOK_DELIVERED}, .answers = 1};
    struct wane__hook *hook = hook_of(&r, 4);
    push_some(hook, 1, WANE__HOOK_QUEUE + 10);
    assert_int_equal(counts_of(hook).dropped, 10);
    while (!isinf(wane__hook_step(hook, 0))) {}
    assert_int_equal(r.calls, WANE__HOOK_QUEUE);
    for (int i = 0; i < WANE__HOOK_QUEUE; i++) assert_int_equal(r.sequence[i], 11 + i);
    r.calls = 0;
    r.push_to = hook;
    r.push = 3 * WANE__HOOK_QUEUE;
    push_some(hook, 1, 1);
    while (!isinf(wane__hook_step(hook, 0))) {}
    assert_int_equal(r.calls, WANE__HOOK_QUEUE); /* the first, and all but one of the last */
    assert_int_equal(r.sequence[0], 1);
    assert_int_equal(r.sequence[WANE__HOOK_QUEUE - 1], 1000 + 3 * WANE__HOOK_QUEUE - 1);
    struct wane__alert_change change = change_of(1);
    wane__hook_push(hook, &change, NULL, 0); /* there was no memory for it */
    assert_int_equal(counts_of(hook).waiting, 0);
    wane__hook_free(hook, 0);
}

static void test_delays(void **unused) {
    (void)unused;
    for (int attempt = 1; attempt < 100; attempt++)
        for (int chance = 0; chance < 3; chance++) {
            double whole = attempt > 6 ? 60 : ldexp(1, attempt - 1);
            double delay = wane__hook_delay(1, 60, attempt, chance / 3.0);
            assert_true(delay >= 0.5 * whole && delay < whole);
        }
    assert_true(wane__hook_delay(100, 60, 1, 0) == 30); /* the bound holds for the first one, too */
}

/* Freed with a message that nobody takes: it comes back within the grace, and the thread is gone. */
static void test_ends(void **unused) {
    (void)unused;
    struct receiver r = {.answer = {WANE__HOOK_LATER}, .answers = 1};
    struct wane__hook *hook;
    const struct wane__hook_options options = {
        .name = "url", .send = receive, .user = &r, .attempts = 20, .first = 3600, .most = 3600};
    assert_int_equal(wane__hook_new(&options, &hook, NULL), WANE_OK);
    push_some(hook, 1, 3);
    while (counts_of(hook).retried == 0) usleep(1000);
    wane__hook_free(hook, 0.05);
    assert_int_equal(r.calls, 1);
    r = (struct receiver){.answer = {WANE__HOOK_DELIVERED}, .answers = 1};
    assert_int_equal(wane__hook_new(&options, &hook, NULL), WANE_OK);
    push_some(hook, 1, 30);
    wane__hook_free(hook, 60); /* what can go out does, and nobody waits for the rest of the grace */
    assert_int_equal(r.calls, 30);
}

/* ------------------------------------------------------------------------- POST */

static void test_verdicts(void **unused) {
    (void)unused;
    const struct {
        long status;
        enum wane__hook_result result;
    } cases[] = {{200, WANE__HOOK_DELIVERED}, {204, WANE__HOOK_DELIVERED}, {299, WANE__HOOK_DELIVERED},
                 {301, WANE__HOOK_NEVER},     {302, WANE__HOOK_NEVER},     {307, WANE__HOOK_NEVER},
                 {400, WANE__HOOK_NEVER},     {401, WANE__HOOK_NEVER},     {404, WANE__HOOK_NEVER},
                 {408, WANE__HOOK_LATER},     {425, WANE__HOOK_LATER},     {429, WANE__HOOK_LATER},
                 {500, WANE__HOOK_LATER},     {503, WANE__HOOK_LATER},     {599, WANE__HOOK_LATER},
                 {600, WANE__HOOK_NEVER},     {0, WANE__HOOK_NEVER},       {100, WANE__HOOK_NEVER}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(wane__post_verdict(cases[i].status), cases[i].result);
}

/* Python: hmac.new(b"0123456789abcdef", b'1700000000.{"a":1}', "sha256").hexdigest() */
static void test_signature(void **unused) {
    (void)unused;
    char out[112];
    wane__post_sign("0123456789abcdef", 16, 1700000000, "{\"a\":1}", 7, out);
    assert_string_equal(out,
                        "t=1700000000,v1=9eb18f493f8ec135d9eb2dad817c369bb4e9cbfa818657897a7437c1cd8c3a23");
}

static void test_urls(void **unused) {
    (void)unused;
    static const char *const refused[] = {"",
                                          "example.org/x y",
                                          "ftp://example.org/",
                                          "file:///etc/passwd",
                                          "gopher://example.org/",
                                          "http://",
                                          "https://",
                                          "http://exa mple.org/",
                                          "http://example.org/\n",
                                          "javascript:alert(1)",
                                          "http://[::1/"};
    struct wane__post *post;
    wane_error error;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        memset(&error, 0, sizeof error);
        if (wane__post_new(refused[i], NULL, 1000, &post, &error) != WANE_EINVAL)
            fail_msg("%s was not refused", refused[i]);
        assert_null(post);
        assert_true(strlen(refused[i]) < 9 || strstr(error.text, refused[i]) == NULL);
    }
    char longer[3000];
    memset(longer, 'a', sizeof longer);
    memcpy(longer, "http://x/", 9);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(wane__post_new(longer, NULL, 1000, &post, &error), WANE_EINVAL);
    const struct {
        const char *url, *target;
    } taken[] = {{"https://user:secret@hooks.example.org/services/T0/B0/token?key=1",
                  "https://hooks.example.org:443"},
                 {"http://127.0.0.1:9/x", "http://127.0.0.1:9"},
                 {"HTTP://[::1]:8080/", "http://[::1]:8080"}};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        if (wane__post_new(taken[i].url, NULL, 1000, &post, &error) != WANE_OK) fail_msg("%s", error.text);
        assert_string_equal(wane__post_target(post), taken[i].target);
        wane__post_free(post);
    }
}

static void test_secrets(void **unused) {
    (void)unused;
    char folder[] = "/tmp/wane-alerts-XXXXXX", path[64];
    struct wane__post *post;
    wane_error error = {0};
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/secret", folder);
    assert_int_equal(wane__post_new("http://x/", path, 1000, &post, &error), WANE_ENOENT);
    assert_int_equal(wane__post_new("http://x/", folder, 1000, &post, &error), WANE_EINVAL);
    const struct {
        int size, mode, code;
    } cases[] = {{0, 0600, WANE_EFORMAT}, {15, 0600, WANE_EFORMAT},   {16, 0600, WANE_OK},
                 {4096, 0400, WANE_OK},   {4097, 0600, WANE_EFORMAT}, {9000, 0600, WANE_EFORMAT},
                 {32, 0640, WANE_EAUTH},  {32, 0604, WANE_EAUTH}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unlink(path);
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        for (int k = 0; k < cases[i].size; k++) fputc('a' + k % 26, file);
        if (cases[i].size > 0) fputc('\n', file);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(chmod(path, (mode_t)cases[i].mode), 0);
        int code = wane__post_new("http://x/", path, 1000, &post, &error);
        if (code != cases[i].code) fail_msg("case %zu: %d, %s", i, code, error.text);
        if (code != WANE_OK) assert_null(strstr(error.text, "abcdef")); /* nothing of it is repeated */
        wane__post_free(post);
    }
    unlink(path);
    rmdir(folder);
}

/* ---------------------------------------------------------------------- command */

static char *read_file(const char *path) {
    static char text[4096];
    FILE *file = fopen(path, "rb");
    text[0] = '\0';
    if (file == NULL) return text;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void test_command(void **unused) {
    (void)unused;
    char folder[] = "/tmp/wane-alerts-XXXXXX", path[64], line[300], why[200];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/out", folder);
    snprintf(
        line, sizeof line,
        "echo "
        "\"$WANE_ALERT|$WANE_ALERT_STATE|$WANE_ALERT_REASON|$WANE_ALERT_COUNT|$WANE_ALERT_JSON|$WANE_BREAKER|"
        "$WANE_BREAKER_RECENT|$WANE_ALERT_URL\" >%s",
        path);
    struct receiver r = {.answer = {WANE__HOOK_DELIVERED}, .answers = 1};
    struct wane__hook *hook = hook_of(&r, 1);
    struct wane__alert_command command = {.command = line, .timeout_ms = 20000};
    char body[] = "{\"a\":\"$(rm x) `rm y`\"}";
    struct wane__hook_message message = {
        .change = {.alert = WANE__ALERT_GATE_BREAKER,
                   .view = {.raised = true, .count = 3, .reason = "it's; `so` $HOME"}},
        .body = body,
        .body_size = strlen(body)};
    setenv("WANE_ALERT_URL", "https://a-secret", 1);
    setenv("WANE_BREAKER", "of the caller's", 1);
    assert_int_equal(wane__command_send(&command, hook, &message, why), WANE__HOOK_DELIVERED);
    assert_string_equal(read_file(path),
                        "gate_breaker|raised|it's; `so` $HOME|3|{\"a\":\"$(rm x) `rm y`\"}|||\n");
    command.breaker = true;
    atomic_store(&command.wakes, 51);
    message.change.view.raised = false;
    assert_int_equal(wane__command_send(&command, hook, &message, why), WANE__HOOK_DELIVERED);
    assert_non_null(strstr(read_file(path), "|cleared|"));
    assert_non_null(strstr(read_file(path), "|in|51|\n"));
    unsetenv("WANE_ALERT_URL");
    unsetenv("WANE_BREAKER");
    command.command = "exit 7";
    assert_int_equal(wane__command_send(&command, hook, &message, why), WANE__HOOK_LATER);
    assert_non_null(strstr(why, "exited with 7"));
    command.command = "kill -TERM $$";
    assert_int_equal(wane__command_send(&command, hook, &message, why), WANE__HOOK_LATER);
    assert_non_null(strstr(why, "signal 15"));
    /* Its time is over: it is killed, and so is what it started, which would write after it. */
    snprintf(line, sizeof line, "(sleep 30; echo late >%s) & sleep 30", path);
    unlink(path);
    command.command = line;
    command.timeout_ms = 100;
    assert_int_equal(wane__command_send(&command, hook, &message, why), WANE__HOOK_LATER);
    assert_non_null(strstr(why, "longer than 100 ms"));
    wane__hook_free(hook, 0);
    unlink(path);
    rmdir(folder);
}

/* --------------------------------------------------------------------- watchdog */

static struct wane__watchdog dog_of(double floor, double call, double per_item) {
    struct wane__watchdog w;
    wane__watchdog_init(&w, floor);
    double now = 0;
    for (int i = 0; i < 40 && call > 0; i++) {
        wane__watchdog_begin(&w, now, 0);
        wane__watchdog_end(&w, now + call * (i % 7 == 0 ? 50 : 1),
                           true); /* a slow one now and then changes no median */
        if (per_item <= 0) continue;
        wane__watchdog_begin(&w, now, 100);
        wane__watchdog_end(&w, now + call + 100 * per_item, true);
    }
    return w;
}

/* Look at it every `step` from `from` on; how long until it is stuck. */
static double until_stuck(struct wane__watchdog *w, double from, double step, double most) {
    for (double t = step; t < most; t += step)
        if (wane__watchdog_look(w, from + t)) return t;
    return INFINITY;
}

static void test_bounds(void **unused) {
    (void)unused;
    struct wane__watchdog w = dog_of(10, 0, 0);
    wane__watchdog_begin(&w, 0, 0);
    assert_true(wane__watchdog_bound(&w) == 60); /* nothing is known: six times the floor */
    wane__watchdog_begin(&w, 0, 512);
    assert_true(wane__watchdog_bound(&w) == 60 + 256);
    w = dog_of(10, 0.02, 0.004);
    wane__watchdog_begin(&w, 0, 0);
    assert_true(wane__watchdog_bound(&w) == 10); /* the floor */
    wane__watchdog_begin(&w, 0, 512);
    assert_true(fabs(wane__watchdog_bound(&w) - 20 * (0.02 + 512 * 0.004)) <
                0.01); /* a long prompt may take longer */
    w = dog_of(10, 2, 0);
    wane__watchdog_begin(&w, 0, 0);
    assert_true(wane__watchdog_bound(&w) == 40); /* a slow machine, too */
    wane__watchdog_begin(&w, 0, 10);
    assert_true(wane__watchdog_bound(&w) ==
                20 * 22); /* no prompt is known: no item takes longer than a call */
}

static void test_stuck(void **unused) {
    (void)unused;
    struct wane__watchdog w = dog_of(10, 0.02, 0.004);
    assert_false(wane__watchdog_look(&w, 5)); /* nothing runs */
    wane__watchdog_begin(&w, 100, 0);
    double found = until_stuck(&w, 100, 0.25, 100);
    assert_true(found >= 10 && found < 10.6);
    assert_true(wane__watchdog_look(&w, 200) && w.trips == 1);
    wane__watchdog_end(&w, 200, false);
    assert_false(wane__watchdog_look(&w, 201)); /* it moves */
    wane__watchdog_begin(&w, 201, 0);
    assert_false(wane__watchdog_look(&w, 201.1));
    assert_true(wane__watchdog_bound(&w) == 10); /* a call that failed taught nothing */
    wane__watchdog_init(&w, 0);
    wane__watchdog_begin(&w, 0, 0);
    assert_true(isinf(until_stuck(&w, 0, 1, 100000))); /* off */
}

/* A process that stood still does not find its call old: not after one gap, and not after several. */
static void test_gaps(void **unused) {
    (void)unused;
    struct wane__watchdog w = dog_of(10, 0.02, 0.004);
    wane__watchdog_begin(&w, 0, 0);
    for (int i = 0; i < 8; i++) assert_false(wane__watchdog_look(&w, 0.25 + i * 3600.0));
    assert_false(wane__watchdog_look(&w, -50)); /* a clock that goes back counts for nothing */
    assert_true(w.age < 8.5);
    double found = until_stuck(&w, 7 * 3600 + 0.25, 0.25, 100); /* but a call that stays is found */
    assert_true(found < 4);
    /* However often it is looked at, it is never older than it is. */
    w = dog_of(10, 0.02, 0.004);
    wane__watchdog_begin(&w, 0, 0);
    for (double t = 0; t < 9.9; t += 0.001) assert_false(wane__watchdog_look(&w, t));
    /* Looks come several times within the floor, and what one gap may count for is less than the floor. */
    for (double floor = 0.05; floor < 100; floor *= 2) {
        wane__watchdog_init(&w, floor);
        assert_true(wane__watchdog_tick(&w) <= floor / 5 && w.tick_most <= 0.8 * floor);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_raise_and_clear),
        cmocka_unit_test(test_break),
        cmocka_unit_test(test_reasons_are_text),
        cmocka_unit_test(test_body),
        cmocka_unit_test(test_retries),
        cmocka_unit_test(test_given_up),
        cmocka_unit_test(test_full_queue),
        cmocka_unit_test(test_delays),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_verdicts),
        cmocka_unit_test(test_signature),
        cmocka_unit_test(test_urls),
        cmocka_unit_test(test_secrets),
        cmocka_unit_test(test_command),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_stuck),
        cmocka_unit_test(test_gaps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
