/*
 * test_http_audit.c - what a server's audit log says of a request that a table had a hand in, of a table that was exchanged, and of what others tell it;
 * and what is refused at the start. On the scripted engine, whose logits are known: the favoured token's, and one less for each step of distance in id.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http_rig.h"
#include "model.h"
#include "model_table.h"

#include <string.h>
#include <sys/stat.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

enum { STEPS = 8 };

static const int32_t answer[STEPS] = {'p', 'g', 'q', 'h', 'r', 'i', 's', 'j'};
static const struct wane__script_reply replies[] = {
    {.match = "abc", .tokens = answer, .count = STEPS, .fail_at = -1}};

struct rig {
    struct wane__log log;
    wane_model *model;
    wane_server *server;
    char folder[40], table[60], file[60];
};

static int compare_entries(const void *left, const void *right) {
    uint64_t a = ((const struct wane__slmt_entry *)left)->key.window,
             b = ((const struct wane__slmt_entry *)right)->key.window;
    return a < b ? -1 : a > b;
}

/* Of the answer's contexts behind "abc", the first `known`. */
static void write_table(struct rig *rig, uint32_t known) {
    static const int32_t away[5] = {0, -1, 1, -2, 2};
    int32_t token[3 + STEPS] = {'a', 'b', 'c'};
    struct wane__slmt_entry entry[STEPS];
    struct wane__slmt_content content = {.window = 3, .depth = 5, .entry = entry, .entry_count = known};
    wane_error error = {0};
    memcpy(token + 3, answer, sizeof answer);
    for (uint32_t i = 0; i < known; i++) {
        entry[i] = (struct wane__slmt_entry){
            .key = {wane__context_window(wane__context_tenant(""), token + 3 + i, 3), 0},
            .seen = 2,
            .top_count = 5};
        for (int k = 0; k < 5; k++)
            entry[i].top[k] = (struct wane__candidate){answer[i] + away[k], 10 - (float)abs(away[k])};
    }
    qsort(entry, known, sizeof *entry, compare_entries);
    assert_int_equal(wane__model_origin(rig->model, &content.origin, &error), WANE_OK);
    if (wane__slmt_write(rig->table, &content, &error) != WANE_OK) fail_msg("%s", error.text);
}

static void make_model(struct rig *rig) {
    struct wane__script script = {.replies = replies, .reply_count = 1, .sequences = 2};
    struct wane__engine *engine = NULL;
    wane_error error = {0};
    wane_table_use use;
    snprintf(rig->folder, sizeof rig->folder, "/tmp/wane-http-audit-XXXXXX");
    assert_non_null(mkdtemp(rig->folder));
    snprintf(rig->table, sizeof rig->table, "%s/t.slmt", rig->folder);
    snprintf(rig->file, sizeof rig->file, "%s/log", rig->folder);
    wane__log_init(&rig->log, NULL, NULL);
    assert_int_equal(wane__script_load(&script, &rig->log, &engine, &error), WANE_OK);
    assert_int_equal(wane__model_wrap(engine, NULL, NULL, &rig->model, &error), WANE_OK);
    write_table(rig, STEPS);
    wane_table_use_init(&use);
    use.path = rig->table;
    use.poll_ms = 0;
    if (wane_model_set_table(rig->model, &use, &error) != WANE_OK) fail_msg("%s", error.text);
}

static int start(struct rig *rig, const wane_audit_options *audit, wane_error *error) {
    wane_server_options o;
    wane_server_options_init(&o);
    o.port = 0;
    o.scheduler.window_ms = 1;
    o.audit = audit;
    return wane_server_start(rig->model, &o, &rig->server, error);
}

static void stop(struct rig *rig) {
    char command[80];
    wane_server_free(rig->server);
    wane_model_free(rig->model);
    wane__log_close(&rig->log);
    snprintf(command, sizeof command, "rm -r %s", rig->folder);
    assert_int_equal(system(command), 0);
}

static void ask(struct rig *rig) {
    static char reply[65536];
    int fd = http_dial(rig->server);
    http_send(fd, "POST", "/v1/completions", "",
              "{\"prompt\":[97,98,99],\"max_tokens\":8,\"temperature\":0}");
    assert_int_equal(http_receive(fd, reply, sizeof reply), 200);
}

/* The records of an event, as text: those fields that are asked for. */
struct seen {
    int count;
    char table[2][65], source[200], detail[400], features[200];
    int64_t used, taken, tokens;
};

static bool see(void *user, const wane_audit_record *r) {
    struct seen *s = user;
    const wane_audit_value *f = r->field;
    snprintf(s->table[s->count % 2], 65, "%s",
             f[WANE_AUDIT_TABLE].text != NULL ? f[WANE_AUDIT_TABLE].text : "");
    snprintf(s->source, sizeof s->source, "%s",
             f[WANE_AUDIT_SLMT_SOURCE].text != NULL ? f[WANE_AUDIT_SLMT_SOURCE].text : "");
    snprintf(s->detail, sizeof s->detail, "%s",
             f[WANE_AUDIT_DETAIL].text != NULL ? f[WANE_AUDIT_DETAIL].text : "");
    snprintf(s->features, sizeof s->features, "%s",
             f[WANE_AUDIT_FEATURES].text != NULL ? f[WANE_AUDIT_FEATURES].text : "");
    s->used = f[WANE_AUDIT_SLMT_USED].number;
    s->taken = f[WANE_AUDIT_SLMT_TAKEN].number;
    s->tokens = f[WANE_AUDIT_REPLY_TOKENS].number;
    s->count++;
    return true;
}

static struct seen read_events(struct rig *rig, const char *event) {
    wane_audit_filter filter;
    struct seen seen = {0};
    wane_error error = {0};
    wane_audit_filter_init(&filter);
    filter.event = event;
    if (wane_audit_read(rig->file, &filter, see, &seen, &error) != WANE_OK) fail_msg("%s", error.text);
    return seen;
}

static void test_a_table(void **state) {
    (void)state;
    struct rig rig = {0};
    wane_audit_options audit;
    wane_error error = {0};
    wane_table_state table;
    make_model(&rig);
    wane_audit_options_init(&audit);
    audit.path = rig.file;
    if (start(&rig, &audit, &error) != WANE_OK) fail_msg("%s", error.text);
    wane_model_get_table_state(rig.model, &table);
    ask(&rig);
    write_table(&rig, 3);
    assert_int_equal(wane_model_reload_table(rig.model, NULL), WANE_OK);
    while (read_events(&rig, "table").count == 0) usleep(10000); /* it looks twice a second */
    ask(&rig);
    wane_server_audit(rig.server, "rollout", "{\"feature\":\"table\",\"stage\":2}");
    wane_server_audit(NULL, "rollout", NULL);
    wane_server_free(rig.server);
    rig.server = NULL;
    struct seen requests = read_events(&rig, "request"), exchanged = read_events(&rig, "table"),
                told = read_events(&rig, "rollout");
    assert_int_equal(requests.count, 2);
    assert_string_equal(requests.table[0], table.digest);
    wane_model_get_table_state(rig.model, &table);
    assert_string_equal(requests.table[1], table.digest);
    assert_string_not_equal(requests.table[0], requests.table[1]);
    assert_true(requests.tokens == STEPS && requests.used == 3 &&
                requests.taken == 0); /* of the second one */
    assert_string_equal(requests.source, "{\"absent\":5,\"mean\":3}");
    assert_string_equal(requests.features, "{\"on\":[\"table\"]}");
    assert_string_equal(exchanged.table[0], table.digest);
    assert_non_null(strstr(exchanged.detail, "\"reloads\":1"));
    assert_true(told.count == 1 && strcmp(told.detail, "{\"feature\":\"table\",\"stage\":2}") == 0);
    stop(&rig);
}

static void test_options(void **state) {
    (void)state;
    struct rig rig = {0};
    wane_audit_options audit;
    wane_error error = {0};
    make_model(&rig);
    wane_audit_options_init(&audit);
    assert_int_equal(start(&rig, &audit, &error), WANE_EINVAL); /* no file */
    audit.path = rig.file;
    audit.failure = 2;
    assert_int_equal(start(&rig, &audit, &error), WANE_EINVAL);
    audit.failure = WANE_AUDIT_STOP;
    audit.size = 1;
    assert_int_equal(start(&rig, &audit, &error), WANE_EINVAL);
    wane_audit_options_init(&audit);
    audit.path = rig.file;
    audit.key_file = "/nonexistent/key";
    assert_int_equal(start(&rig, &audit, &error), WANE_ENOENT);
    stop(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_table),
        cmocka_unit_test(test_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
