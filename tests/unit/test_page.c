/* test_page.c - the live page as a server gives it, the routes behind it, and what a stream says of each token. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http_rig.h"
#include "model.h"
#include "server/page.h"

#include <math.h>
#include <string.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

/* "hé\n!" a byte a token: é comes in two. */
static const int32_t said[] = {'h', 0xc3, 0xa9, '\n', '!', 257};
static const struct wane__script_reply replies[] = {
    {.match = "", .tokens = said, .count = 6, .fail_at = -1},
};

struct rig {
    struct wane__log log;
    wane_model *model;
    wane_server *server;
};

static void start(struct rig *rig) {
    struct wane__script script = {.replies = replies, .reply_count = 1, .sequences = 2};
    struct wane__engine *engine = NULL;
    wane_server_options options;
    wane_error error = {0};
    wane__log_init(&rig->log, NULL, NULL);
    assert_int_equal(wane__script_load(&script, &rig->log, &engine, &error), WANE_OK);
    assert_int_equal(wane__model_wrap(engine, NULL, NULL, &rig->model, &error), WANE_OK);
    wane_server_options_init(&options);
    options.port = 0;
    options.sampling.temperature = 0;
    options.scheduler.window_ms = 1;
    if (wane_server_start(rig->model, &options, &rig->server, &error) != WANE_OK) fail_msg("%s", error.text);
}

static void stop(struct rig *rig) {
    wane_server_free(rig->server);
    wane_model_free(rig->model);
    wane__log_close(&rig->log);
}

static int ask(const struct rig *rig, const char *method, const char *path, const char *headers,
               const char *body, char *reply, size_t capacity) {
    int fd = http_dial(rig->server);
    http_send(fd, method, path, headers, body);
    return http_receive(fd, reply, capacity);
}

static char reply[1 << 20];

static void test_tags_are_compared(void **state) {
    (void)state;
    assert_true(wane__page_unchanged("\"a\"", "\"a\""));
    assert_true(wane__page_unchanged("\"b\", W/\"a\" , \"c\"", "\"a\""));
    assert_true(wane__page_unchanged("*", "\"a\""));
    assert_false(wane__page_unchanged("\"ab\"", "\"a\""));
    assert_false(wane__page_unchanged("", "\"a\""));
    assert_false(wane__page_unchanged(",,  ,", "\"a\""));
    assert_false(wane__page_unchanged(NULL, "\"a\""));
}

/* Whatever the page names is there, and every file can be had with its type. */
static void test_every_file_is_served(void **state) {
    (void)state;
    struct rig rig;
    int count = 0;
    start(&rig);
    for (const struct wane__page_file *file = wane__page_files; file->name != NULL; file++, count++) {
        char path[80], line[80];
        snprintf(path, sizeof path, "/page/%s", file->name);
        assert_int_equal(ask(&rig, "GET", path, "", "", reply, sizeof reply), 200);
        snprintf(line, sizeof line, "content-type: %s", file->type);
        assert_non_null(strstr(reply, line));
        assert_non_null(strstr(reply, "content-security-policy: default-src 'none'; script-src 'self';"));
        const char *body = strstr(reply, "\r\n\r\n") + 4;
        assert_memory_equal(body, file->bytes, file->size);
        snprintf(line, sizeof line, "if-none-match: %s\r\n", file->etag);
        assert_int_equal(ask(&rig, "GET", path, line, "", reply, sizeof reply), 304);
        assert_null(strstr(reply, "content-type: "));
    }
    assert_true(count >= 10);
    assert_int_equal(ask(&rig, "GET", "/page/../etc/passwd", "", "", reply, sizeof reply), 404);
    assert_int_equal(ask(&rig, "GET", "/page/", "", "", reply, sizeof reply), 404);
    assert_int_equal(ask(&rig, "POST", "/page/app.js", "", "", reply, sizeof reply), 405);
    if (wane__page_find("uplot.js") == NULL) {
        assert_int_equal(ask(&rig, "GET", "/page/uplot.js", "", "", reply, sizeof reply), 404);
        assert_non_null(strstr(reply, "scripts/page"));
    }
    stop(&rig);
}

static void test_front_page(void **state) {
    (void)state;
    struct rig rig;
    start(&rig);
    assert_int_equal(ask(&rig, "GET", "/", "", "", reply, sizeof reply), 200);
    assert_non_null(strstr(reply, "text/plain"));
    assert_non_null(strstr(reply, "POST /v1/messages"));
    assert_int_equal(ask(&rig, "GET", "/", "accept: text/html,*/*;q=0.8\r\n", "", reply, sizeof reply), 200);
    assert_non_null(strstr(reply, "content-type: text/html"));
    assert_non_null(strstr(reply, "<!doctype html>"));
    stop(&rig);
}

/* Nothing of the page comes from elsewhere, and nothing in it is inline: its own policy would refuse that. */
static void test_the_page_names_only_itself(void **state) {
    (void)state;
    for (const struct wane__page_file *file = wane__page_files; file->name != NULL; file++) {
        if (strncmp(file->name, "uplot", 5) == 0) continue;
        char *text = test_malloc(file->size + 1);
        memcpy(text, file->bytes, file->size);
        text[file->size] = '\0';
        char *away = strstr(text, "http://www.w3.org/2000/svg"); /* a name, not an address */
        if (away != NULL) memset(away, ' ', 26);
        assert_null(strstr(text, "http:"));
        assert_null(strstr(text, "https:"));
        if (strstr(file->name, ".html") != NULL) {
            assert_null(strstr(text, "<style"));
            assert_null(strstr(text, " style="));
            assert_null(strstr(text, "<script>"));
            assert_null(strstr(text, " onclick"));
        }
        test_free(text);
    }
}

#define ASK "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]"

static void test_streams_say_how_tokens_were_decided(void **state) {
    (void)state;
    struct rig rig;
    const char *chat = "{\"stream\":true," ASK "}",
               *message = "{\"model\":\"default\",\"stream\":true,\"max_tokens\":9," ASK "}";
    start(&rig);
    assert_int_equal(ask(&rig, "POST", "/v1/chat/completions", "", chat, reply, sizeof reply), 200);
    assert_null(strstr(reply, "\"wane\"")); /* nobody asked */
    static const struct {
        const char *path;
        bool chat;
    } apis[] = {{"/v1/chat/completions", true}, {"/v1/messages", false}};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ask(&rig, "POST", apis[i].path, "wane-trace: 1\r\n", apis[i].chat ? chat : message,
                             reply, sizeof reply),
                         200);
        int count = 0;
        for (const char *at = reply; (at = strstr(at, "\"wane\":{\"token\":{")) != NULL; at++) {
            char index[32];
            snprintf(index, sizeof index, "\"index\":%d,", count++);
            assert_memory_equal(at + 17, index, strlen(index));
        }
        assert_int_equal(count, 5); /* half an é is a token too */
        assert_non_null(strstr(reply, "\"by\":\"dense\",\"head\":\"dense\",\"table\":null"));
        assert_non_null(strstr(reply, ",\"bytes\":[195],\"by\""));
        assert_non_null(strstr(reply, "\"top\":[{\"id\":104,\"text\":\"h\""));
    }
    assert_int_equal(ask(&rig, "POST", "/v1/chat/completions", "",
                         "{\"stream\":true,\"wane_trace\":true," ASK "}", reply, sizeof reply),
                     200);
    assert_non_null(strstr(reply, "\"wane\":{\"token\":{"));
    assert_int_equal(ask(&rig, "POST", "/v1/chat/completions", "wane-trace: 1\r\n", "{" ASK "}", reply,
                         sizeof reply),
                     200); /* a whole reply has no events */
    assert_null(strstr(reply, "\"wane\""));
    assert_int_equal(ask(&rig, "POST", "/v1/chat/completions", "wane-trace: yes\r\n", chat, reply,
                         sizeof reply),
                     400);
    assert_non_null(strstr(reply, "it must be 0 or 1"));
    stop(&rig);
}

static void test_state_and_events(void **state) {
    (void)state;
    struct rig rig;
    start(&rig);
    assert_int_equal(ask(&rig, "GET", "/v1/wane/state?samples=0", "", "", reply, sizeof reply), 200);
    assert_non_null(strstr(reply, "\"samples\":[]}"));
    assert_non_null(strstr(reply, "\"request_modes\":[\"off\"]"));
    assert_int_equal(ask(&rig, "POST", "/v1/wane/state", "", "", reply, sizeof reply), 405);
    int fd = http_dial(rig.server);
    http_send(fd, "GET", "/v1/wane/events", "", "");
    size_t size = 0;
    while (strstr(reply, "event: sample\ndata: {\"dropped\":0,\"row\":[") == NULL) {
        ssize_t got = recv(fd, reply + size, sizeof reply - size - 1, 0);
        assert_true(got > 0);
        size += (size_t)got;
        reply[size] = '\0';
    }
    assert_non_null(strstr(reply, "event: fields\ndata: {\"fields\":[\"at_ms\""));
    stop(&rig); /* one that watches holds nothing up */
    close(fd);
}

static void test_what_decided_is_one_word(void **state) {
    (void)state;
    wane_view view = {.head = WANE_BY_LEVEL2};
    wane_event event = {.kind = WANE_EVENT_TEXT, .view = &view};
    assert_int_equal(wane_event_by(&event), WANE_BY_LEVEL2);
    view.table = WANE_VIEW_TABLE_MISS;
    assert_int_equal(wane_event_by(&event), WANE_BY_LEVEL2);
    view.table = WANE_VIEW_TABLE_RANK;
    assert_int_equal(wane_event_by(&event), WANE_BY_TABLE);
    event.drafted = true;
    assert_int_equal(wane_event_by(&event), WANE_BY_DRAFT);
    view.head = WANE_BY_MEMO;
    assert_int_equal(wane_event_by(&event), WANE_BY_MEMO);
    event.view = NULL;
    assert_int_equal(wane_event_by(&event), WANE_BY_NOTHING);
    for (int by = 0; by < WANE_BYS; by++)
        for (int other = 0; other < by; other++) {
            assert_string_not_equal(wane_by_name(by), wane_by_name(other));
            assert_int_not_equal(wane_by_letter(by), wane_by_letter(other));
        }
    assert_string_equal(wane_by_name(WANE_BYS), "?");
    assert_int_equal(wane_by_letter(-1), '?');
}

/* To look changes nothing of what is drawn, and a view is there for every token that was drawn or repeated. */
static void test_sessions_have_views(void **state) {
    (void)state;
    struct rig rig;
    wane_error error = {0};
    start(&rig);
    wane_server_free(rig.server);
    rig.server = NULL;
    assert_int_equal(wane_model_set_memo(rig.model, 1 << 20, NULL, &error), WANE_OK);
    wane_session *session;
    assert_int_equal(wane_session_new(rig.model, &session, &error), WANE_OK);
    wane_tokens prompt = {0};
    wane_message message = {"user", "x", 1};
    assert_int_equal(wane_chat_tokenize(rig.model, &message, 1, &prompt, &error), WANE_OK);
    for (int round = 0; round < 3; round++) {
        wane_generation generation;
        wane_generation_init(&generation);
        generation.sampling.temperature = 0;
        generation.view = round > 0;
        generation.no_memo = round < 1;
        assert_int_equal(wane_session_start(session, prompt.id, prompt.count, &generation, &error), WANE_OK);
        int count = 0;
        for (wane_event event;
             wane_session_next(session, &event, &error) == WANE_OK && event.kind == WANE_EVENT_TEXT;
             count++) {
            assert_int_equal(event.token, said[count]);
            assert_int_equal(event.view != NULL, round > 0);
            if (round == 0) continue;
            assert_int_equal(event.view->index, count);
            assert_int_equal(wane_event_by(&event), round == 1 ? WANE_BY_DENSE : WANE_BY_MEMO);
            assert_int_equal(isnan((double)event.view->ms), count == 0);
            if (round == 1) {
                assert_int_equal(event.view->top[0].token, event.token);
                double sum = 0;
                for (int i = 0; i < event.view->top_count; i++) sum += (double)event.view->top[i].share;
                assert_true(event.view->top[0].share > 0 && sum <= 1.0001);
            } else {
                assert_int_equal(event.view->top_count, 0);
            }
        }
        assert_int_equal(count, 5);
    }
    wane_session_free(session);
    wane_tokens_free(&prompt);
    stop(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tags_are_compared),
        cmocka_unit_test(test_every_file_is_served),
        cmocka_unit_test(test_front_page),
        cmocka_unit_test(test_the_page_names_only_itself),
        cmocka_unit_test(test_streams_say_how_tokens_were_decided),
        cmocka_unit_test(test_state_and_events),
        cmocka_unit_test(test_what_decided_is_one_word),
        cmocka_unit_test(test_sessions_have_views),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
