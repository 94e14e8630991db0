/*
 * test_http_feedback.c - rating replies over HTTP: both APIs' ids, streamed or not; whose reply it was; what is written down; another
 * answer for who did not like the first; and the header that says that a text is of another domain than its SSP.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/memory.h"
#include "http_rig.h"
#include "model.h"
#include "server/http.h"

#include <sqlite3.h>
#include <string.h>
#include <sys/stat.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

enum { V = 384 };

static float even[V];
static const int32_t hello[] = {'h', 'e', 'l', 'l', 'o', 257};
static const struct wane__script_reply replies[] = {
    {.match = "hi", .tokens = hello, .count = 6, .fail_at = -1},
    {.match = "vote", .tokens = hello, .count = 0, .fail_at = -1, .logits = even},
};

struct rig {
    struct wane__log log;
    wane_model *model;
    wane_server *server;
    char folder[40], pool[60], keys[60];
};

static void start(struct rig *rig, bool text, bool keys) {
    struct wane__script script = {.replies = replies, .reply_count = 2, .sequences = 4};
    struct wane__engine *engine = NULL;
    wane_error error = {0};
    wane_server_options o;
    wane_feedback_options feedback;
    wane_quality quality;
    for (int i = 0; i < V; i++) even[i] = i >= 'a' && i <= 'd' ? 5 : -20;
    snprintf(rig->folder, sizeof rig->folder, "/tmp/wane-rate-XXXXXX");
    assert_non_null(mkdtemp(rig->folder));
    snprintf(rig->pool, sizeof rig->pool, "%s/pool", rig->folder);
    snprintf(rig->keys, sizeof rig->keys, "%s/keys", rig->folder);
    wane__log_init(&rig->log, NULL, NULL);
    assert_int_equal(wane__script_load(&script, &rig->log, &engine, &error), WANE_OK);
    assert_int_equal(wane__model_wrap(engine, NULL, NULL, &rig->model, &error), WANE_OK);
    wane_server_options_init(&o);
    wane_feedback_options_init(&feedback);
    wane_quality_init(&quality);
    quality.mode = WANE_MODE_LEGACY;
    quality.token_vote = quality.rules = false;
    quality.dialogue_slope = 0;
    quality.clamp = 0;
    o.port = 0;
    o.scheduler.window_ms = 1;
    o.quality = &quality;
    o.request_modes = 7;
    feedback.path = rig->pool;
    feedback.text = text;
    o.feedback = &feedback;
    if (keys) {
        FILE *file = fopen(rig->keys, "w");
        fputs("ada physics key-of-ada-1\nbob physics key-of-bob-1\neve staff key-of-eve-1\n", file);
        fclose(file);
        chmod(rig->keys, 0600);
        o.key_file = rig->keys;
    }
    if (wane_server_start(rig->model, &o, &rig->server, &error) != WANE_OK) fail_msg("%s", error.text);
}

static void stop(struct rig *rig) {
    char name[80];
    wane_server_free(rig->server);
    wane_model_free(rig->model);
    wane__log_close(&rig->log);
    static const char *const ends[] = {"", "-wal", "-shm"};
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s%s", rig->pool, ends[i]);
        unlink(name);
    }
    unlink(rig->keys);
    assert_int_equal(rmdir(rig->folder), 0);
}

static char reply[65536];

static int ask(const struct rig *rig, const char *key, const char *method, const char *route,
               const char *body) {
    char headers[200];
    int fd = http_dial(rig->server);
    snprintf(headers, sizeof headers, "x-api-key: %s\r\n", key);
    http_send(fd, method, route, headers, body);
    return http_receive(fd, reply, sizeof reply);
}

/* The id of what was just answered. */
static const char *id_of_reply(void) {
    static char id[64];
    const char *at = strstr(reply, "\"id\":\"");
    assert_non_null(at);
    snprintf(id, sizeof id, "%.*s", (int)strcspn(at + 6, "\""), at + 6);
    return id;
}

static int rate(const struct rig *rig, const char *key, const char *id, const char *rest) {
    char body[512];
    snprintf(body, sizeof body, "{\"response_id\":\"%s\",%s}", id, rest);
    return ask(rig, key, "POST", "/v1/wane/feedback", body);
}

#define CHAT(text, more)                                                                                    \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"" text "\"}],\"max_tokens\":12,\"temperature\":0" more \
    "}"
#define VOTE(more)                                                                                        \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"vote\"}],\"max_tokens\":12,\"temperature\":1,\"top_" \
    "p\":1" more "}"

struct seen {
    int count;
    double rating;
    char comment[64], prompt[128], text[128], response[64], tenant[32], key[32];
};

static bool see(void *user, const wane_feedback_entry *e) {
    struct seen *s = user;
    s->count++;
    s->rating = e->rating;
    snprintf(s->comment, sizeof s->comment, "%s", e->comment != NULL ? e->comment : "-");
    snprintf(s->prompt, sizeof s->prompt, "%s", e->prompt != NULL ? e->prompt : "-");
    snprintf(s->text, sizeof s->text, "%s", e->reply != NULL ? e->reply : "-");
    snprintf(s->response, sizeof s->response, "%s", e->response);
    snprintf(s->tenant, sizeof s->tenant, "%s", e->tenant);
    snprintf(s->key, sizeof s->key, "%s", e->key);
    return true;
}

static struct seen read_pool(const struct rig *rig) {
    struct seen seen = {0};
    wane_error error = {0};
    if (wane_feedback_read(rig->pool, see, &seen, &error) != WANE_OK) fail_msg("%s", error.text);
    return seen;
}

static void test_each_api(void **state) {
    (void)state;
    static const struct {
        const char *route, *body, *prefix;
    } cases[] = {
        {"/v1/messages", CHAT("hi", ",\"model\":\"default\""), "msg_"},
        {"/v1/messages", CHAT("hi", ",\"model\":\"default\",\"stream\":true"), "msg_"},
        {"/v1/chat/completions", CHAT("hi", ""), "chatcmpl-"},
        {"/v1/chat/completions", CHAT("hi", ",\"stream\":true"), "chatcmpl-"},
        {"/v1/completions", "{\"prompt\":\"hi\",\"max_tokens\":12,\"temperature\":0}", "cmpl-"},
    };
    for (int text = 0; text < 2; text++) {
        struct rig rig;
        start(&rig, text == 1, false);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            if (ask(&rig, "-", "POST", cases[i].route, cases[i].body) != 200)
                fail_msg("%s: %s", cases[i].route, reply);
            const char *id = id_of_reply();
            assert_int_equal(strncmp(id, cases[i].prefix, strlen(cases[i].prefix)), 0);
            assert_int_equal(rate(&rig, "-", id, "\"rating\":\"up\",\"comment\":\"n\xc3\xa4ice\""), 200);
            assert_non_null(strstr(reply, "\"rating\":1"));
            struct seen seen = read_pool(&rig);
            assert_int_equal(seen.count, i + 1);
            assert_string_equal(seen.response, id);
            assert_string_equal(seen.comment, "n\xc3\xa4ice");
            assert_true(seen.rating >= 1);
            assert_string_equal(seen.text, text == 1 ? "hello" : "-"); /* nothing of it, unless asked for */
            assert_string_equal(seen.prompt, text == 0 ? "-" : i < 4 ? "user: hi\n" : "hi");
        }
        stop(&rig);
    }
}

static void test_whose_reply_it_was(void **state) {
    (void)state;
    struct rig rig;
    start(&rig, false, true);
    assert_int_equal(ask(&rig, "key-of-ada-1", "POST", "/v1/chat/completions", CHAT("hi", "")), 200);
    char id[64];
    snprintf(id, sizeof id, "%s", id_of_reply());
    assert_int_equal(rate(&rig, "key-of-eve-1", id, "\"rating\":\"down\""), 404);
    char others[2048], nobodys[2048];
    snprintf(others, sizeof others, "%s", strstr(reply, "{\"error\""));
    assert_int_equal(rate(&rig, "key-of-eve-1", "chatcmpl-000000000000000000000000", "\"rating\":\"down\""),
                     404);
    snprintf(nobodys, sizeof nobodys, "%s", strstr(reply, "{\"error\""));
    assert_int_equal(strlen(others), strlen(nobodys)); /* the same words, but for the id */
    assert_int_equal(rate(&rig, "no-such-key", id, "\"rating\":\"down\""), 401);
    assert_int_equal(read_pool(&rig).count, 0);
    assert_int_equal(rate(&rig, "key-of-ada-1", id, "\"rating\":0.25"), 200);
    assert_int_equal(rate(&rig, "key-of-bob-1", id, "\"rating\":-0.25"), 200); /* of the same tenant */
    struct seen seen = read_pool(&rig);
    assert_int_equal(seen.count, 2);
    assert_string_equal(seen.tenant, "physics");
    assert_string_equal(seen.key, "bob");
    assert_null(strstr(reply, "alternative")); /* there was no vote */
    for (int i = 0; i < 6; i++) assert_int_equal(rate(&rig, "key-of-ada-1", id, "\"rating\":0"), 200);
    assert_int_equal(rate(&rig, "key-of-ada-1", id, "\"rating\":0"), 400); /* enough */
    stop(&rig);
}

static void test_refusals(void **state) {
    (void)state;
    struct rig rig;
    start(&rig, false, false);
    static const char *const bad[] = {"",
                                      "[]",
                                      "{",
                                      "{\"rating\":\"up\"}",
                                      "{\"response_id\":\"a\"}",
                                      "{\"response_id\":\"a\",\"rating\":\"great\"}",
                                      "{\"response_id\":\"a\",\"rating\":2}",
                                      "{\"response_id\":\"a\",\"rating\":1,\"stars\":1}",
                                      "{\"response_id\":\"a\",\"rating\":1,\"comment\":1}",
                                      "{\"response_id\":7,\"rating\":1}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(ask(&rig, "-", "POST", "/v1/wane/feedback", bad[i]), 400);
    assert_int_equal(ask(&rig, "-", "GET", "/v1/wane/feedback", ""), 405);
    assert_int_equal(ask(&rig, "-", "GET", "/metrics", ""), 200);
    assert_non_null(strstr(reply, "wane_feedback_on 1\n"));
    assert_non_null(strstr(reply, "wane_feedback_total{rating=\"up\"} 0\n"));
    stop(&rig);
}

/* The pool cannot be written: this request fails in words, replies go on, and so do ratings once it can. */
static void test_a_pool_that_fails(void **state) {
    (void)state;
    struct rig rig;
    sqlite3 *rude;
    start(&rig, false, false);
    assert_int_equal(ask(&rig, "-", "POST", "/v1/chat/completions", CHAT("hi", "")), 200);
    const char *id = id_of_reply();
    assert_int_equal(sqlite3_open(rig.pool, &rude), SQLITE_OK);
    assert_int_equal(sqlite3_exec(rude, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(rate(&rig, "-", id, "\"rating\":1"), 429);
    assert_non_null(strstr(reply, "locked"));
    assert_int_equal(ask(&rig, "-", "POST", "/v1/chat/completions", CHAT("hi", "")), 200);
    sqlite3_exec(rude, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_close(rude);
    assert_int_equal(rate(&rig, "-", id, "\"rating\":1"), 200);
    stop(&rig);
}

/* A reply that was voted on, and is not liked: another answer comes back, and is none that was given out. */
static void test_another_answer(void **state) {
    (void)state;
    struct rig rig;
    int found = 0;
    start(&rig, false, false);
    for (int i = 0; i < 4; i++) {
        char body[512], text[64], other[64];
        snprintf(body, sizeof body, VOTE(",\"seed\":%d"), i + 1);
        assert_int_equal(ask(&rig, "-", "POST", "/v1/chat/completions", body), 200);
        char id[64];
        snprintf(id, sizeof id, "%s", id_of_reply());
        const char *content = strstr(reply, "\"content\":\"");
        assert_non_null(content);
        snprintf(text, sizeof text, "%.12s", content + 11);
        assert_int_equal(rate(&rig, "-", id, "\"rating\":\"up\""), 200);
        assert_null(strstr(reply, "alternative"));
        assert_int_equal(rate(&rig, "-", id, "\"rating\":\"down\""), 200);
        const char *at = strstr(reply, "\"alternative\":{\"text\":\"");
        if (at == NULL) continue;
        snprintf(other, sizeof other, "%.12s", at + 23);
        assert_int_equal(strspn(other, "abcd"), 12);
        assert_string_not_equal(other, text);
        assert_non_null(strstr(reply, "\"ranked_by\":\"vote\""));
        found++;
    }
    assert_int_equal(found, 4);
    stop(&rig);
}

static void test_no_feedback(void **state) {
    (void)state;
    struct rig rig;
    start(&rig, false, false);
    wane_server_free(rig.server);
    wane_server_options o;
    wane_error error = {0};
    wane_server_options_init(&o);
    o.port = 0;
    assert_int_equal(wane_server_start(rig.model, &o, &rig.server, &error), WANE_OK);
    assert_int_equal(ask(&rig, "-", "POST", "/v1/wane/feedback", "{\"response_id\":\"a\",\"rating\":1}"),
                     404);
    assert_non_null(strstr(reply, "--feedback"));
    stop(&rig);
}

/* ------------------------------------------------------------------- domains */

static const char *domain_of(struct wane__exchange *x, int how, const char *given, const char *text) {
    wane_message *m = wane__alloc_zero(2, sizeof *m);
    m[0] = (wane_message){"system", "You write poems.", 16};
    m[1] = (wane_message){"user", text, strlen(text)};
    x->call.messages = m;
    x->call.message_count = 2;
    x->server->ssp_domain = how;
    const char *chosen = wane__http_domain(x, given);
    wane__free(m);
    return chosen;
}

static void test_domains_of_requests(void **state) {
    (void)state;
    static const char suit[] =
        "The plaintiff sued the tenant for breach of contract and the court awarded damages.";
    static struct wane_server server;
    static struct wane__exchange x = {.server = &server};
    wane_classifier *classifier;
    struct wane__buf out = {0};
    assert_int_equal(wane_classifier_open(WANE_RULES_SOURCE "/../domains/domains.linear", &classifier, NULL),
                     WANE_OK);
    server.classifier = classifier;
    assert_string_equal(domain_of(&x, WANE_SSP_DOMAIN_CHECK, "legal", suit), "legal");
    assert_string_equal(x.domain_note, "");
    assert_string_equal(domain_of(&x, WANE_SSP_DOMAIN_CHECK, "finance", suit), "finance");
    assert_string_equal(x.domain_note, "finance; looks like legal");
    assert_string_equal(domain_of(&x, WANE_SSP_DOMAIN_GIVEN, "finance", suit), "finance");
    assert_string_equal(x.domain_note, "");
    assert_string_equal(domain_of(&x, WANE_SSP_DOMAIN_AUTO, "finance", suit), "legal");
    assert_string_equal(x.domain_note, "finance; looks like legal, which is used");
    assert_string_equal(domain_of(&x, WANE_SSP_DOMAIN_AUTO, NULL, suit), "legal");
    assert_string_equal(x.domain_note, "");
    assert_null(domain_of(&x, WANE_SSP_DOMAIN_CHECK, NULL, suit));
    assert_string_equal(domain_of(&x, WANE_SSP_DOMAIN_AUTO, "finance", "hello"), "finance"); /* unsure */
    assert_string_equal(x.domain_note, "");
    wane__http_domain_metrics(&server, &out);
    assert_non_null(strstr(out.data, "wane_ssp_domain_mismatch_total{domain=\"legal\"} 2\n"));
    assert_non_null(strstr(out.data, "wane_ssp_domain_mismatch_total{domain=\"finance\"} 0\n"));
    assert_non_null(strstr(out.data, "wane_domain_seen_total{domain=\"none\"} 1\n"));
    assert_non_null(strstr(out.data, "wane_domain_seen_total{domain=\"legal\"} 4\n"));
    wane__buf_free(&out);
    wane_classifier_free(classifier);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_api),
        cmocka_unit_test(test_whose_reply_it_was),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_a_pool_that_fails),
        cmocka_unit_test(test_another_answer),
        cmocka_unit_test(test_no_feedback),
        cmocka_unit_test(test_domains_of_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
