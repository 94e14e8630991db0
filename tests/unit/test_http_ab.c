/*
 * test_http_ab.c - live traffic with the governor and without it: whose request is on which side, and stays there; what is counted of both,
 * and with which intervals; ratings go to the side of their reply.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ab.h"
#include "core/fraction.h"
#include "http_rig.h"
#include "model.h"
#include "origin.h"
#include "server/http.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

static void near(double a, double b) {
    if (!(fabs(a - b) < 1e-6)) fail_msg("%.9g is not %.9g", a, b);
}

/* ------------------------------------------------------------------- figures */

static struct wane__ab_side side_of(const char *const *texts, int count) {
    struct wane__ab_side sum = {0};
    for (int i = 0; i < count; i++) {
        struct wane__ab_side one = {0};
        assert_true(wane__ab_reply(&one, texts[i], strlen(texts[i]), 5, i == 0));
        wane__ab_add(&sum, &one);
    }
    return sum;
}

static void test_figures(void **unused) {
    (void)unused;
    static const char *const off[] = {"no no no no", "a b c d", ""}, *const on[] = {"a b a b"};
    struct wane__ab_side sides[] = {side_of(off, 3), side_of(on, 1)}, many[WANE__AB_SIDES] = {0};
    wane_interval i = wane__ab_figure(&sides[0], WANE__AB_DISTINCT);
    near(i.value, (0.25 + 1) / 2); /* an empty reply has no words */
    near(i.high - i.value, 1.959963984540054 * sqrt(0.375 * 0.375 / 1));
    i = wane__ab_figure(&sides[1], WANE__AB_DISTINCT + 1);
    near(i.value, 2.0 / 3);
    assert_true(isnan(i.low)); /* of one reply */
    i = wane__ab_difference(sides, WANE__AB_DISTINCT);
    near(i.value, 0.5 - 0.625);
    assert_true(isnan(i.high));
    near(wane__ab_figure(&sides[0], WANE__AB_FUSED).value, 1.0 / 3);
    assert_int_equal(sides[0].tokens, 15);
    assert_true(isnan(wane__ab_figure(&sides[0], WANE__AB_RATING).value));
    /* Newcombe's own example (1998, table II, 56/70 and 48/80). */
    many[WANE__AB_ON].replies = 70;
    many[WANE__AB_ON].loops = 56;
    many[WANE__AB_OFF].replies = 80;
    many[WANE__AB_OFF].loops = 48;
    i = wane__ab_difference(many, WANE__AB_LOOPS);
    near(i.value, 0.2);
    assert_true(fabs(i.low - 0.0524) < 1e-4 && fabs(i.high - 0.3339) < 1e-4);
    for (int k = 0; k < 10; k++) wane__ab_rating(&many[0], k < 6 ? 1 : k < 9 ? -1 : 0);
    i = wane__ab_figure(&many[0], WANE__AB_RATING);
    near(i.value, 0.3);
    near(i.value - i.low, 1.959963984540054 * sqrt((0.9 - 0.09) / 9));
    assert_true(many[0].up == 6 && many[0].down == 3 && many[0].neutral == 1);
}

/* These never change: users would change sides. */
static void test_fraction(void **unused) {
    (void)unused;
    int below = 0;
    char name[600];
    near(wane__fraction("ab-governor", "", "user:", "ada"), 0.295978540019);
    for (int i = 0; i < 4000; i++) {
        snprintf(name, sizeof name, "user %d", i);
        below += wane__fraction("ab-governor", "", "user:", name) < 0.3;
    }
    assert_true(below > 1100 && below < 1300); /* three standard deviations are 87 */
    assert_true(wane__fraction("a", "", "user:", "x") != wane__fraction("b", "", "user:", "x"));
    assert_true(wane__fraction("a", "", "user:", "x") != wane__fraction("a", "", "key:", "x"));
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    double longer = wane__fraction("a", "", "user:", name);
    name[512] = '\0';
    assert_true(wane__fraction("a", "", "user:", name) == longer);
}

/* ------------------------------------------------------------------- a server */

static int32_t looping[90];
static const int32_t hello[] = {'h', 'e', 'l', 'l', 'o', ' ', 'y', 'o', 'u', 257};
static const struct wane__script_reply replies[] = {
    {.match = "loop", .tokens = looping, .count = 90, .fail_at = -1},
    {.match = "hi", .tokens = hello, .count = 10, .fail_at = -1},
};

struct rig {
    struct wane__log log;
    wane_model *model;
    wane_server *server;
    char pool[64], profile[64];
};

static int start(struct rig *rig, int signal, double share, wane_error *error) {
    struct wane__script script = {.replies = replies, .reply_count = 2, .sequences = 2, .peak = 20};
    struct wane__engine *engine = NULL;
    struct wane__trace_origin origin;
    wane_server_options o;
    wane_feedback_options feedback;
    wane_quality quality;
    wane_profile p;
    for (int i = 0; i < 90; i++) looping[i] = "no "[i % 3];
    wane__log_init(&rig->log, NULL, NULL);
    assert_int_equal(wane__script_load(&script, &rig->log, &engine, NULL), WANE_OK);
    assert_int_equal(wane__model_wrap(engine, NULL, NULL, &rig->model, NULL), WANE_OK);
    assert_int_equal(wane__model_origin(rig->model, &origin, NULL), WANE_OK);
    snprintf(rig->profile, sizeof rig->profile, "/tmp/wane-ab-%d.json", (int)getpid());
    snprintf(rig->pool, sizeof rig->pool, "/tmp/wane-ab-%d.pool", (int)getpid());
    wane_profile_init(&p);
    memcpy(p.model, origin.model, sizeof p.model);
    p.signal = signal;
    p.sign = -1;
    p.peak = -1;
    p.low = -2;
    assert_int_equal(wane_profile_save(&p, rig->profile, NULL), WANE_OK);
    assert_int_equal(wane_model_set_profile(rig->model, rig->profile, NULL), WANE_OK);
    wane_server_options_init(&o);
    wane_feedback_options_init(&feedback);
    wane_quality_init(&quality);
    quality.mode = WANE_MODE_WANE;
    quality.answers = 1;
    o.port = 0;
    o.scheduler.window_ms = 1;
    o.quality = &quality;
    o.request_modes = 7;
    o.ab_governor = share;
    feedback.path = rig->pool;
    o.feedback = &feedback;
    return wane_server_start(rig->model, &o, &rig->server, error);
}

static void stop(struct rig *rig) {
    static const char *const ends[] = {"", "-wal", "-shm"};
    char name[80];
    wane_server_free(rig->server);
    wane_model_free(rig->model);
    wane__log_close(&rig->log);
    unlink(rig->profile);
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s%s", rig->pool, ends[i]);
        unlink(name);
    }
}

static char reply[65536];

static int ask(const struct rig *rig, const char *method, const char *route, const char *body) {
    int fd = http_dial(rig->server);
    http_send(fd, method, route, "anthropic-version: 2023-06-01\r\n", body);
    return http_receive(fd, reply, sizeof reply);
}

/* 1: on, 0: off, -1: no side. Header and body agree. */
static int side_of_reply(void) {
    const char *header = strstr(reply, "wane-governor-side: "),
               *body = strstr(reply, "\"ab\":{\"governor\":\"");
    assert_int_equal(header != NULL, body != NULL);
    if (header == NULL) return -1;
    int on = strncmp(header + 20, "on", 2) == 0;
    assert_int_equal(strncmp(body + 18, "on\"", 3) == 0, on);
    return on;
}

static int chat(const struct rig *rig, const char *text, const char *more) {
    char body[1000];
    snprintf(body, sizeof body,
             "{\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}],\"max_tokens\":90,\"temperature\":0.2,"
             "\"seed\":1%s}",
             text, more);
    if (ask(rig, "POST", "/v1/chat/completions", body) != 200) fail_msg("%s", reply);
    return side_of_reply();
}

static json_t *told(const struct rig *rig) {
    assert_int_equal(ask(rig, "GET", "/v1/wane/ab", ""), 200);
    json_t *all = json_loads(strstr(reply, "\r\n\r\n") + 4, 0, NULL);
    assert_non_null(all);
    return all;
}

static double at(const json_t *all, const char *side, const char *figure, const char *part) {
    const json_t *one = json_object_get(json_object_get(all, side), figure);
    return json_number_value(part != NULL ? json_object_get(one, part) : one);
}

static void test_sides(void **unused) {
    (void)unused;
    struct rig rig = {0};
    wane_error error = {0};
    char more[100];
    int count[2] = {0}, steered = 0, on_user = -1;
    if (start(&rig, WANE_SIGNAL_ENTROPY, 0.4, &error) != WANE_OK) fail_msg("%s", error.text);
    for (int i = 0; i < 24; i++) {
        snprintf(more, sizeof more, "user %d", i);
        bool on = wane__fraction("ab-governor", "", "user:", more) < 0.4;
        snprintf(more, sizeof more, ",\"user\":\"user %d\"%s", i, i % 3 == 0 ? ",\"stream\":true" : "");
        if (i % 3 == 0) { /* the end of a stream says it, too */
            assert_int_equal(chat(&rig, "hi", more), on);
        } else {
            assert_int_equal(chat(&rig, i % 3 == 1 ? "loop" : "hi", more), on);
        }
        count[on]++;
        if (on) on_user = i;
        wane_governor_state state;
        wane_model_get_governor_state(rig.model, &state);
        int now = (int)(state.tokens[0] + state.tokens[1] + state.tokens[2] + state.tokens[3]);
        assert_int_equal(now > steered, on); /* who is on the other side is not steered */
        steered = now;
    }
    assert_true(count[0] > 4 && count[1] > 4);
    /* The same user by the other API; who takes no part. */
    snprintf(
        more, sizeof more,
        "{\"model\":\"default\",\"max_tokens\":4,\"temperature\":0.2,\"metadata\":{\"user_id\":\"user %d\"},",
        on_user);
    char body[300];
    snprintf(body, sizeof body, "%s\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}", more);
    assert_int_equal(ask(&rig, "POST", "/v1/messages", body), 200);
    assert_int_equal(side_of_reply(), 1);
    assert_int_equal(chat(&rig, "hi", ",\"sfcl_mode\":\"off\""), -1);
    assert_int_equal(ask(&rig, "POST", "/v1/chat/completions",
                         "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"temperature\":0}"),
                     200);
    assert_int_equal(side_of_reply(), -1);
    json_t *all = told(&rig);
    near(json_number_value(json_object_get(all, "share")), 0.4);
    near(at(all, "on", "replies", NULL), count[1] + 1);
    near(at(all, "off", "replies", NULL), count[0]);
    assert_true(at(all, "on", "loops", "value") + at(all, "off", "loops", "value") > 0);
    assert_true(at(all, "on", "loops", "low") <= at(all, "on", "loops", "value"));
    near(at(all, "difference", "loops", "value"),
         at(all, "on", "loops", "value") - at(all, "off", "loops", "value"));
    json_decref(all);
    assert_int_equal(ask(&rig, "GET", "/metrics", ""), 200);
    snprintf(more, sizeof more, "wane_ab_replies_total{side=\"off\"} %d\n", count[0]);
    assert_non_null(strstr(reply, more));
    assert_non_null(strstr(reply, "wane_ab_share 0.4\n"));
    stop(&rig);
}

static void test_ratings(void **unused) {
    (void)unused;
    struct rig rig = {0};
    char id[64], body[200];
    int rated[2] = {0};
    wane_error error = {0};
    if (start(&rig, WANE_SIGNAL_ENTROPY, 0.5, &error) != WANE_OK) fail_msg("%s", error.text);
    for (int i = 0; i < 8; i++) { /* without a user each request stands for itself */
        int on = chat(&rig, "hi", "");
        const char *found = strstr(reply, "\"id\":\"");
        snprintf(id, sizeof id, "%.*s", (int)strcspn(found + 6, "\""), found + 6);
        for (int again = 0; again < 2; again++) { /* the first one counts */
            snprintf(body, sizeof body, "{\"response_id\":\"%s\",\"rating\":\"%s\"}", id,
                     again ? "up" : "down");
            assert_int_equal(ask(&rig, "POST", "/v1/wane/feedback", body), 200);
        }
        rated[on]++;
    }
    assert_int_equal(chat(&rig, "hi", ",\"sfcl_mode\":\"off\""), -1);
    json_t *all = told(&rig);
    near(at(all, "on", "ratings", NULL), rated[1]);
    near(at(all, "off", "ratings", NULL), rated[0]);
    for (int on = 0; on < 2; on++)
        if (rated[on] > 0) near(at(all, on ? "on" : "off", "rating", "value"), -1);
    json_decref(all);
    stop(&rig);
}

static void test_refused(void **unused) {
    (void)unused;
    struct rig rig = {0};
    wane_error error = {0};
    assert_int_equal(start(&rig, WANE_SIGNAL_NONE, 0.5, &error), WANE_EINVAL);
    assert_non_null(strstr(error.text, "wane tune"));
    stop(&rig);
    rig = (struct rig){0};
    assert_int_equal(start(&rig, WANE_SIGNAL_ENTROPY, 1, &error), WANE_EINVAL);
    stop(&rig);
    rig = (struct rig){0};
    assert_int_equal(start(&rig, WANE_SIGNAL_NONE, 0, &error), WANE_OK);
    assert_int_equal(ask(&rig, "GET", "/v1/wane/ab", ""), 404);
    assert_int_equal(chat(&rig, "hi", ",\"user\":\"ada\""), -1);
    stop(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figures), cmocka_unit_test(test_fraction), cmocka_unit_test(test_sides),
        cmocka_unit_test(test_ratings), cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
