/*
 * test_http.c - the server from C: options that are refused, start and stop, requests over a plain socket, clients
 * that leave, metrics. What the APIs say in detail is tested with their real clients in tests/api.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/clock.h"
#include "http_rig.h"
#include "model.h"
#include "server/metrics.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

/* A server that has gone is an error to report, not a signal: macOS wants that said once a socket. */
#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

struct rig {
    struct wane__log log;
    wane_model *model;
    wane_server *server;
};

/* "hello", and a long reply of slow steps. */
static const int32_t hello[] = {'h', 'e', 'l', 'l', 'o', 257};
static const int32_t slow[] = {'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 257};
static const struct wane__script_reply replies[] = {
    {.match = "hi", .tokens = hello, .count = 6, .fail_at = -1},
    {.match = "slow", .tokens = slow, .count = 11, .fail_at = -1, .delay_ms = 40},
    {.match = "fail", .tokens = hello, .count = 6, .fail_at = 3},
};

static void load(struct rig *rig) {
    struct wane__script script = {.replies = replies, .reply_count = 3, .sequences = 2};
    struct wane__engine *engine = NULL;
    wane_error error = {0};
    wane__log_init(&rig->log, NULL, NULL);
    assert_int_equal(wane__script_load(&script, &rig->log, &engine, &error), WANE_OK);
    assert_int_equal(wane__model_wrap(engine, NULL, NULL, &rig->model, &error), WANE_OK);
    rig->server = NULL;
}

static void unload(struct rig *rig) {
    wane_server_free(rig->server);
    wane_model_free(rig->model);
    wane__log_close(&rig->log);
}

static wane_server_options options(void) {
    wane_server_options made;
    wane_server_options_init(&made);
    made.port = 0;
    made.sampling.temperature = 0;
    made.scheduler.window_ms = 1;
    return made;
}

static void start(struct rig *rig) {
    wane_server_options chosen = options();
    wane_error error = {0};
    load(rig);
    if (wane_server_start(rig->model, &chosen, &rig->server, &error) != WANE_OK) fail_msg("%s", error.text);
    assert_true(wane_server_port(rig->server) > 0);
}

static int ask(const struct rig *rig, const char *method, const char *path, const char *body,
               char reply[16384]) {
    int fd = http_dial(rig->server);
    http_send(fd, method, path, "", body);
    return http_receive(fd, reply, 16384);
}

#define CHAT(text, more) "{\"messages\":[{\"role\":\"user\",\"content\":\"" text "\"}]" more "}"

static void test_options_are_checked(void **state) {
    (void)state;
    struct rig rig;
    wane_error error = {0};
    load(&rig);
    wane_server_options bad = options();
    bad.host = "0.0.0.0";
    assert_int_equal(wane_server_start(rig.model, &bad, &rig.server, &error), WANE_EINVAL);
    assert_non_null(strstr(error.text, "key file"));
    bad = options();
    bad.host = "no such host.invalid";
    assert_int_equal(wane_server_start(rig.model, &bad, &rig.server, &error), WANE_EADDRESS);
    bad = options();
    bad.port = 65536;
    assert_int_equal(wane_server_start(rig.model, &bad, &rig.server, &error), WANE_EINVAL);
    bad = options();
    bad.sampling.top_p = NAN;
    assert_int_equal(wane_server_start(rig.model, &bad, &rig.server, &error), WANE_EINVAL);
    bad = options();
    bad.key_file = "/nonexistent/keys";
    assert_int_equal(wane_server_start(rig.model, &bad, &rig.server, &error), WANE_ENOENT);
    bad = options();
    bad.max_body = 3;
    assert_int_equal(wane_server_start(rig.model, &bad, &rig.server, NULL), WANE_EINVAL);
    assert_null(rig.server);
    unload(&rig);
}

static void test_port_in_use(void **state) {
    (void)state;
    struct rig rig, other;
    wane_error error = {0};
    start(&rig);
    load(&other);
    wane_server_options same = options();
    same.port = wane_server_port(rig.server);
    assert_int_equal(wane_server_start(other.model, &same, &other.server, &error), WANE_EADDRESS);
    assert_non_null(strstr(error.text, "another program"));
    unload(&other);
    unload(&rig);
}

static void test_requests(void **state) {
    (void)state;
    struct rig rig;
    static char reply[16384];
    start(&rig);
    assert_int_equal(ask(&rig, "GET", "/health", "", reply), 200);
    assert_int_equal(ask(&rig, "GET", "/ready", "", reply), 200);
    assert_int_equal(ask(&rig, "GET", "/nothing", "", reply), 404);
    assert_int_equal(ask(&rig, "PUT", "/health", "", reply), 405);
    assert_int_equal(ask(&rig, "POST", "/v1/chat/completions", CHAT("hi", ""), reply), 200);
    assert_non_null(strstr(reply, "\"content\":\"hello\""));
    assert_non_null(strstr(reply, "request-id: req_"));
    assert_int_equal(ask(&rig, "POST", "/v1/chat/completions", CHAT("hi", ",\"stream\":true"), reply), 200);
    assert_non_null(strstr(reply, "data: [DONE]"));
    assert_int_equal(ask(&rig, "POST", "/v1/chat/completions", CHAT("fail", ""), reply), 500);
    assert_int_equal(ask(&rig, "POST", "/v1/chat/completions", CHAT("hi", ",\"top_p\":-1"), reply), 400);
    assert_int_equal(ask(&rig, "POST", "/v1/messages", "{", reply), 400);
    assert_non_null(strstr(reply, "\"type\":\"invalid_request_error\""));
    assert_int_equal(ask(&rig, "GET", "/metrics", "", reply), 200);
    assert_non_null(strstr(reply, "wane_requests_failed_total 1\n"));
    unload(&rig);
}

static double metric(const struct rig *rig, const char *name) {
    static char reply[32768];
    char line[128];
    int fd = http_dial(rig->server);
    http_send(fd, "GET", "/metrics", "", "");
    http_receive(fd, reply, sizeof reply);
    snprintf(line, sizeof line, "\n%s ", name);
    const char *at = strstr(reply, line);
    assert_non_null(at);
    return atof(at + strlen(line));
}

static void wait_for(const struct rig *rig, const char *name, double value) {
    double until = wane__now() + 10;
    while (metric(rig, name) != value) { /* counts: exact */
        assert_true(wane__now() < until);
        usleep(5000);
    }
}

static void test_client_leaves(void **state) {
    (void)state;
    struct rig rig;
    start(&rig);
    for (int streamed = 0; streamed < 2; streamed++) {
        int fd = http_dial(rig.server);
        http_send(fd, "POST", "/v1/chat/completions", "",
                  streamed ? CHAT("slow", ",\"stream\":true") : CHAT("slow", ""));
        wait_for(&rig, "wane_slots_busy", 1);
        close(fd);
        wait_for(&rig, "wane_requests_cancelled_total", streamed + 1);
        wait_for(&rig, "wane_slots_busy", 0);
    }
    unload(&rig);
}

struct asking {
    struct rig *rig;
    char reply[16384];
    int status;
};

static void *ask_slow(void *user) {
    struct asking *asking = user;
    asking->status =
        ask(asking->rig, "POST", "/v1/chat/completions", CHAT("slow", ",\"stream\":true"), asking->reply);
    return NULL;
}

/* With grace a running stream finishes; without, it ends in words. */
static void test_stop(void **state) {
    (void)state;
    for (int grace = 0; grace < 2; grace++) {
        struct rig rig;
        static struct asking asking;
        pthread_t thread;
        start(&rig);
        asking.rig = &rig;
        assert_int_equal(pthread_create(&thread, NULL, ask_slow, &asking), 0);
        wait_for(&rig, "wane_slots_busy", 1);
        wane_server_stop(rig.server, grace ? 5000 : 0);
        wane_server_stop(rig.server, 0); /* a second time: nothing */
        pthread_join(thread, NULL);
        assert_int_equal(asking.status, 200);
        assert_true((strstr(asking.reply, "[DONE]") != NULL) == (grace == 1));
        assert_true((strstr(asking.reply, "\"error\"") != NULL) == (grace == 0));
        unload(&rig);
    }
}

static void test_many_starts(void **state) {
    (void)state;
    for (int i = 0; i < 10; i++) {
        struct rig rig;
        static char reply[16384];
        start(&rig);
        if (i % 2 == 0) assert_int_equal(ask(&rig, "GET", "/health", "", reply), 200);
        unload(&rig);
    }
    wane_server_free(NULL);
    wane_server_stop(NULL, 0);
}

static void test_metrics(void **state) {
    (void)state;
    struct wane__metrics metrics;
    struct wane__buf out = {0};
    static const char *const routes[] = {"/a", "/b"};
    wane_model_facts facts = {.name = "a\"b\\c", .engine = "e"};
    wane_scheduler_state nothing = {0};
    wane_head_state no_head = {.reason = ""};
    wane_draft_state no_drafts = {.reason = ""};
    wane__metrics_init(&metrics);
    wane__metrics_write(&metrics, routes, 2, &facts, &nothing, &no_head, &no_drafts, &out);
    wane__metrics_write_trace(NULL, &out);
    assert_null(strstr(out.data, " nan"));
    assert_null(strstr(out.data, " inf"));
    assert_non_null(strstr(out.data, "model=\"a\\\"b\\\\c\""));
    assert_int_equal(wane__metrics_retry_after(&metrics, &nothing), 1);
    wane_event end = {
        .kind = WANE_EVENT_END, .reply_tokens = 11, .queue_ms = 30, .prompt_ms = 1000, .reply_ms = 20000};
    wane__metrics_reply(&metrics, &end);
    wane__metrics_request(&metrics, 1, 200);
    wane__metrics_request(&metrics, 1, 418);
    wane_scheduler_state busy = {.slots = 4};
    assert_int_equal(wane__metrics_retry_after(&metrics, &busy), 6); /* 21 s on 4 sequences */
    busy.stuck = true;
    assert_int_equal(wane__metrics_retry_after(&metrics, &busy), 60);
    wane_head_state head = {
        .certified = true, .rows = 7, .survivors1 = 70, .rescored = 21, .dense_sum = 2, .shadow_checks = 5};
    assert_non_null(strstr(out.data, "wane_trace_recording 0\n"));
    wane_recorder_state trace = {.tokens = 12, .dropped_tokens = 3};
    wane__buf_clear(&out);
    wane__metrics_write_trace(&trace, &out);
    wane_draft_state drafts = {.on = true, .proposed = {8, 4}, .accepted = {7}, .pool_evicted = 3};
    wane__metrics_write(&metrics, routes, 2, &facts, &busy, &head, &drafts, &out);
    assert_non_null(strstr(out.data, "wane_trace_records_total{type=\"token\"} 12\n"));
    assert_non_null(strstr(out.data, "wane_trace_dropped_total{type=\"token\"} 3\n"));
    assert_non_null(strstr(out.data, "wane_http_requests_total{route=\"/b\",code=\"200\"} 1\n"));
    assert_non_null(strstr(out.data, "wane_http_requests_total{route=\"/b\",code=\"other\"} 1\n"));
    assert_non_null(strstr(out.data, "wane_time_to_first_token_seconds_bucket{le=\"1\"} 0\n"));
    assert_non_null(strstr(out.data, "wane_time_to_first_token_seconds_bucket{le=\"2.5\"} 1\n"));
    assert_non_null(strstr(out.data, "wane_time_per_output_token_seconds_sum 2\n"));
    assert_non_null(strstr(out.data, "\nwane_head_certified 1\n"));
    assert_non_null(strstr(out.data, "\nwane_head_rows_total 7\n"));
    assert_non_null(strstr(out.data, "\nwane_head_survivors_total{level=\"1\"} 70\n"));
    assert_non_null(strstr(out.data, "\nwane_head_survivors_total{level=\"exact\"} 21\n"));
    assert_non_null(strstr(out.data, "\nwane_head_dense_total{reason=\"sum\"} 2\n"));
    assert_non_null(strstr(out.data, "\nwane_shadow_checks_total 5\n"));
    assert_non_null(strstr(out.data, "\noutput_divergence_count 0\n"));
    assert_non_null(strstr(out.data, "\nwane_draft_on 1\n"));
    assert_non_null(strstr(out.data, "\nwane_draft_proposed_total{source=\"text\"} 8\n"));
    assert_non_null(strstr(out.data, "\nwane_draft_proposed_total{source=\"way\"} 4\n"));
    assert_non_null(strstr(out.data, "\nwane_draft_accepted_total{source=\"text\"} 7\n"));
    assert_non_null(strstr(out.data, "\nwane_draft_pool_evicted_total 3\n"));
    wane__buf_free(&out);
    wane__metrics_close(&metrics);
}

/* A model's name comes from a file's: whatever bytes it has, a scraper can read the line. */
static void test_labels(void **state) {
    (void)state;
    static const struct {
        const char *text, *label;
    } cases[] = {
        {"", "\"\""},
        {"smollm2-135m", "\"smollm2-135m\""},
        {"a\"b\\c\nd", "\"a\\\"b\\\\c\\nd\""},
        {"tab\there", "\"tab\xef\xbf\xbdhere\""},
        {"\xe4\xb8\x96", "\"\xe4\xb8\x96\""},
        {"cut\xe4\xb8", "\"cut\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xff}", "\"\xef\xbf\xbd}\""},
        {"\x7f\r", "\"\xef\xbf\xbd\xef\xbf\xbd\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wane__buf out = {0};
        wane__metric_label(&out, cases[i].text);
        assert_int_equal(out.size, strlen(cases[i].label));
        assert_memory_equal(out.data, cases[i].label, out.size);
        wane__buf_free(&out);
    }
}

/* What alerts look at begins at 0; what the system does not say, or a disk that is not there, is left out. */
static void test_series_from_the_start(void **state) {
    (void)state;
    struct wane__metrics metrics;
    struct wane__buf out = {0};
    static const char *const routes[] = {"/a"};
    wane_model_facts facts = {.name = "m", .engine = "e"};
    wane_scheduler_state nothing = {0};
    wane_head_state head = {.reason = ""};
    wane_draft_state drafts = {.reason = ""};
    wane_table_state table = {.reason = ""};
    wane_disk disks[] = {{"memo", "/tmp/not/there/yet"}, {"trace", "nowhere-relative"}};
    wane__metrics_init(&metrics);
    wane__metrics_write(&metrics, routes, 1, &facts, &nothing, &head, &drafts, &out);
    wane__metrics_write_table(&table, "m", &out);
    wane__metrics_write_process(&metrics, disks, 2, &out);
    static const char *const there[] = {
        "wane_http_requests_total{route=\"/a\",code=\"500\"} 0\n",
        "wane_http_requests_total{route=\"/a\",code=\"429\"} 0\n",
        "slmt_fallback_latency_seconds{quantile=\"0.99\"} 0\n",
        "slmt_fallback_latency_seconds_count 0\n",
        "wane_disk_free_bytes{what=\"memo\"} ",
        "wane_disk_free_bytes{what=\"trace\"} ",
        "process_cpu_seconds_total ",
    };
    for (size_t i = 0; i < sizeof there / sizeof *there; i++) assert_non_null(strstr(out.data, there[i]));
    assert_null(strstr(out.data, "code=\"404\""));
    assert_null(strstr(out.data, "nan"));
    wane__buf_free(&out);
    wane__metrics_close(&metrics);
}

static void test_disks_are_checked(void **state) {
    (void)state;
    struct rig rig;
    load(&rig);
    wane_disk disks[WANE_DISKS_MOST + 1] = {{"memo", "/tmp"}, {"memo", "/"}};
    wane_server_options options;
    wane_server *server = NULL;
    wane_error error = {0};
    wane_server_options_init(&options);
    options.port = 0;
    options.disks = disks;
    options.disk_count = 2;
    assert_int_equal(wane_server_start(rig.model, &options, &server, &error), WANE_EINVAL);
    assert_non_null(strstr(error.text, "two of the name memo"));
    options.disk_count = WANE_DISKS_MOST + 1;
    assert_int_equal(wane_server_start(rig.model, &options, &server, &error), WANE_EINVAL);
    disks[0].what = "";
    options.disk_count = 1;
    assert_int_equal(wane_server_start(rig.model, &options, &server, &error), WANE_EINVAL);
    unload(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options_are_checked),
        cmocka_unit_test(test_port_in_use),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_client_leaves),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_many_starts),
        cmocka_unit_test(test_metrics),
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_series_from_the_start),
        cmocka_unit_test(test_disks_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
