/*
 * script_server.c - the real server on the scripted engine, for the API tests: `script_server FILE.json`.
 *
 * `script_server FILE.json OUT.slmt ENTRIES` writes a table for that engine instead: contexts of three tokens, numbered.
 * `script_server FILE.json OUT.slmt whole:N` one of the first reply's contexts, each recorded whole, in a conversation of one message that is
 * its match; the record of step N is wrong, and with it its entry.
 *
 * Prints "port N" when it answers; SIGTERM stops it with grace. The file's fields, all optional:
 *
 *     pieces        tokens 259 …: strings, or arrays of bytes (half characters)
 *     replies       objects: match, text (a token a byte) or tokens (ids, or strings for their bytes), end (default
 *                   true: the end-of-turn token is added), fail_at, delay_ms, flat (all logits alike),
 *                   logits (an object of token ids and logits; the rest are 0)
 *     context, sequences, batch, prompt_delay_ms, peak, recurrent
 *     queue, window_ms, max_ms, prompt_chunk, prompt_share, no_prefix_reuse
 *     memo (bytes), memo_file, memo_save (seconds), draft
 *     table, table_key, table_meaning ("argmax"), table_poll_ms
 *     record        an object: folder, plain, all_logits, redact_file, queue_bytes
 *     audit         an object: file, key_file, failure ("stop"), text
 *     quality       an object with fields of wane_quality; mode and final_value are strings
 *     domains       an object of such objects, by name
 *     request_modes names of modes
 *     rollout       the rollout's file
 *     feedback, feedback_text  the file of ratings; write down texts, too
 *     prepare, request_prepare  names of steps of text preparation, with commas between
 *     shadow        share of tokens that are computed both ways; divergence_limit
 *     alerts        an object: url, secret_file, command, breaker_command, attempts, timeout_ms, retry_ms, reload_failures
 *     watchdog_ms
 *     host, port, key_file, open, max_body, ping_ms, max_connections, max_tokens, temperature, grace_ms
 */
#include "core/tokens.h"
#include "model.h"
#include "model_table.h"

#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VOCAB    384
#define END_TURN 257

struct setup {
    json_t *file;
    struct wane__script script;
    struct wane__script_reply *replies;
    char **pieces;
    struct wane__log log;
    wane_quality quality, *domain_qualities;
    wane_domain *domains;
};

_Noreturn static void die(const char *what, const char *detail) {
    fprintf(stderr, "script_server: %s: %s\n", what, detail);
    exit(1);
}

static void *need(void *block) {
    if (block == NULL) die("memory", "none left");
    return block;
}

static void log_line(void *user, int level, const char *line) {
    (void)user;
    if (level <= WANE_LOG_INFO || getenv("WANE_TEST_DEBUG") != NULL) fprintf(stderr, "%s\n", line);
}

static int number(const json_t *object, const char *name, int fallback) {
    const json_t *value = json_object_get(object, name);
    return json_is_number(value) ? (int)json_number_value(value) : fallback;
}

static char *piece_bytes(const json_t *piece) {
    if (json_is_string(piece)) return need(strdup(json_string_value(piece)));
    size_t count = json_array_size(piece);
    char *bytes = need(calloc(count + 1, 1));
    for (size_t i = 0; i < count; i++) {
        bytes[i] = (char)(unsigned char)json_integer_value(json_array_get(piece, i));
    }
    return bytes;
}

static size_t add_text(int32_t *tokens, size_t count, const json_t *text) {
    for (size_t i = 0; i < json_string_length(text); i++) {
        tokens[count++] = (unsigned char)json_string_value(text)[i];
    }
    return count;
}

static void read_tokens(const json_t *from, struct wane__script_reply *reply) {
    const json_t *text = json_object_get(from, "text"), *list = json_object_get(from, "tokens"), *item;
    size_t index, room = json_string_length(text) + 1, count = 0;
    json_array_foreach(list, index, item) room += json_is_string(item) ? json_string_length(item) : 1;
    int32_t *tokens = need(calloc(room, sizeof *tokens));
    count = add_text(tokens, count, text);
    json_array_foreach(list, index, item) {
        if (json_is_string(item)) count = add_text(tokens, count, item);
        if (json_is_integer(item)) tokens[count++] = (int32_t)json_integer_value(item);
    }
    if (!json_is_false(json_object_get(from, "end"))) tokens[count++] = END_TURN;
    reply->tokens = tokens;
    reply->count = count;
}

static const float *read_logits(const json_t *from) {
    const json_t *given = json_object_get(from, "logits"), *value;
    if (given == NULL && !json_is_true(json_object_get(from, "flat"))) return NULL;
    float *logits = need(calloc(VOCAB, sizeof *logits));
    const char *key;
    json_object_foreach((json_t *)(uintptr_t)given, key, value) {
        int token = atoi(key);
        if (token >= 0 && token < VOCAB) logits[token] = (float)json_number_value(value);
    }
    return logits;
}

static void read_script(struct setup *setup) {
    const json_t *replies = json_object_get(setup->file, "replies"),
                 *pieces = json_object_get(setup->file, "pieces");
    const json_t *item;
    size_t index;
    setup->replies = need(calloc(json_array_size(replies) + 1, sizeof *setup->replies));
    setup->pieces = need(calloc(json_array_size(pieces) + 1, sizeof *setup->pieces));
    json_array_foreach(replies, index, item) {
        struct wane__script_reply *reply = &setup->replies[index];
        const char *match = json_string_value(json_object_get(item, "match"));
        reply->match = match ? match : "";
        reply->fail_at = number(item, "fail_at", -1);
        reply->delay_ms = number(item, "delay_ms", 0);
        reply->logits = read_logits(item);
        read_tokens(item, reply);
    }
    json_array_foreach(pieces, index, item) setup->pieces[index] = piece_bytes(item);
    setup->script = (struct wane__script){
        .replies = setup->replies,
        .reply_count = json_array_size(replies),
        .pieces = (const char *const *)setup->pieces,
        .piece_count = json_array_size(pieces),
        .peak = (float)number(setup->file, "peak", 0),
        .context = number(setup->file, "context", 0),
        .sequences = number(setup->file, "sequences", 0),
        .batch = number(setup->file, "batch", 0),
        .prompt_delay_ms = number(setup->file, "prompt_delay_ms", 0),
        .recurrent = json_is_true(json_object_get(setup->file, "recurrent")),
    };
}

static void free_setup(struct setup *setup) {
    for (size_t i = 0; i < setup->script.reply_count; i++) {
        free((void *)(uintptr_t)setup->replies[i].tokens);
        free((void *)(uintptr_t)setup->replies[i].logits);
    }
    for (size_t i = 0; i < setup->script.piece_count; i++) free(setup->pieces[i]);
    free(setup->replies);
    free(setup->domains);
    free(setup->domain_qualities);
    free(setup->pieces);
    json_decref(setup->file);
    wane__log_close(&setup->log);
}

/* What the tests change of it. Its strings are the file's. */
static void read_quality(const json_t *from, wane_quality *q) {
    wane_quality_init(q);
    const char *mode = json_string_value(json_object_get(from, "mode"));
    const json_t *token_vote = json_object_get(from, "token_vote"),
                 *slope = json_object_get(from, "dialogue_slope");
    if (mode != NULL) q->mode = wane_mode_from(mode);
    if (token_vote != NULL) q->token_vote = json_is_true(token_vote);
    if (slope != NULL) q->dialogue_slope = (float)json_number_value(slope);
    q->clamp = number(from, "clamp", q->clamp);
    q->answers = number(from, "answers", q->answers);
    q->doubt_budget = number(from, "doubt_budget", q->doubt_budget);
    const char *fuse = json_string_value(json_object_get(from, "fuse")),
               *fallback = json_string_value(json_object_get(from, "fallback"));
    const json_t *limit = json_object_get(from, "fuse_limit");
    q->fuse = fuse != NULL ? wane_fuse_from(fuse) : WANE_FUSE_OFF; /* replies of a script may loop */
    if (fallback != NULL) q->fallback = wane_fallback_from(fallback);
    if (limit != NULL) q->fuse_limit = (float)json_number_value(limit);
    q->final_value = json_string_value(json_object_get(from, "final_value"));
}

static void read_qualities(const json_t *file, struct setup *setup, wane_server_options *options) {
    const json_t *domains = json_object_get(file, "domains"), *value;
    const char *name;
    size_t index, count = 0;
    read_quality(json_object_get(file, "quality"), &setup->quality);
    options->quality = &setup->quality;
    setup->domains = need(calloc(json_object_size(domains) + 1, sizeof *setup->domains));
    setup->domain_qualities = need(calloc(json_object_size(domains) + 1, sizeof *setup->domain_qualities));
    json_object_foreach((json_t *)(uintptr_t)domains, name, value) {
        read_quality(value, &setup->domain_qualities[count]);
        setup->domains[count] = (wane_domain){name, &setup->domain_qualities[count]};
        count++;
    }
    options->domains = setup->domains;
    options->domain_count = count;
    json_array_foreach(json_object_get(file, "request_modes"), index, value) options->request_modes |=
        1u << wane_mode_from(json_string_value(value));
}

static unsigned steps(const json_t *file, const char *name) {
    const char *list = json_string_value(json_object_get(file, name));
    unsigned bits = 0;
    wane_error error = {0};
    if (list != NULL && wane_prepare_from(list, &bits, &error) != WANE_OK) die(name, error.text);
    return bits;
}

static void read_options(const json_t *file, wane_server_options *options) {
    wane_server_options_init(options);
    options->prepare = steps(file, "prepare");
    options->request_prepare = steps(file, "request_prepare");
    const char *host = json_string_value(json_object_get(file, "host"));
    if (host != NULL) options->host = host;
    options->port = number(file, "port", 0);
    options->key_file = json_string_value(json_object_get(file, "key_file"));
    options->open = json_is_true(json_object_get(file, "open"));
    options->max_body = (size_t)number(file, "max_body", (int)options->max_body);
    options->ping_ms = number(file, "ping_ms", options->ping_ms);
    options->max_connections = number(file, "max_connections", options->max_connections);
    options->max_tokens = number(file, "max_tokens", options->max_tokens);
    const json_t *temperature = json_object_get(file, "temperature");
    options->sampling.temperature =
        (float)json_number_value(temperature); /* 0 without one: tests want greedy */
    options->scheduler.queue = number(file, "queue", options->scheduler.queue);
    options->scheduler.window_ms = number(file, "window_ms", options->scheduler.window_ms);
    options->scheduler.prompt_chunk = number(file, "prompt_chunk", options->scheduler.prompt_chunk);
    options->scheduler.prompt_share = number(file, "prompt_share", options->scheduler.prompt_share);
    options->scheduler.watchdog_ms = number(file, "watchdog_ms", options->scheduler.watchdog_ms);
    options->scheduler.max_ms = (uint32_t)number(file, "max_ms", 0);
    options->scheduler.no_prefix_reuse = json_is_true(json_object_get(file, "no_prefix_reuse"));
    options->rollout = json_string_value(json_object_get(file, "rollout"));
    options->log = log_line;
}

static void read_alerts(const json_t *from, wane_alert_options *alerts) {
    wane_alert_options_init(alerts);
    alerts->url = json_string_value(json_object_get(from, "url"));
    alerts->secret_file = json_string_value(json_object_get(from, "secret_file"));
    alerts->command = json_string_value(json_object_get(from, "command"));
    alerts->breaker_command = json_string_value(json_object_get(from, "breaker_command"));
    alerts->attempts = number(from, "attempts", alerts->attempts);
    alerts->timeout_ms = number(from, "timeout_ms", alerts->timeout_ms);
    alerts->retry_ms = number(from, "retry_ms", alerts->retry_ms);
    alerts->reload_failures = number(from, "reload_failures", alerts->reload_failures);
}

/* Ratings, where a file is named. `feedback` lives as long as the options. */
static void read_feedback(const json_t *file, wane_feedback_options *feedback, wane_server_options *options) {
    wane_feedback_options_init(feedback);
    feedback->path = json_string_value(json_object_get(file, "feedback"));
    feedback->text = json_is_true(json_object_get(file, "feedback_text"));
    if (feedback->path != NULL) options->feedback = feedback;
}

/* -------------------------------------------------------------------- tables */

static int compare_entries(const void *left, const void *right) {
    uint64_t a = ((const struct wane__slmt_entry *)left)->key.window,
             b = ((const struct wane__slmt_entry *)right)->key.window;
    return a < b ? -1 : a > b;
}

static int write_table(struct setup *setup, const char *path, uint32_t entries) {
    wane_error error = {0};
    struct wane__engine *engine = NULL;
    wane_model *model = NULL;
    struct wane__slmt_entry *entry = need(calloc(entries + 1, sizeof *entry));
    struct wane__slmt_content content = {.window = 3, .depth = 5, .entry = entry, .entry_count = entries};
    for (uint32_t i = 0; i < entries; i++) {
        int32_t window[3] = {(int32_t)(i % 256), (int32_t)(i / 256), 1};
        entry[i] =
            (struct wane__slmt_entry){.key = {wane__context_window(wane__context_tenant(""), window + 3, 3),
                                              0},
                                      .seen = 2,
                                      .top_count = 1};
        entry[i].top[0] = (struct wane__candidate){(int32_t)(i % 256), 1};
    }
    qsort(entry, entries, sizeof *entry, compare_entries);
    int code = wane__script_load(&setup->script, &setup->log, &engine, &error);
    if (code == WANE_OK) code = wane__model_wrap(engine, log_line, NULL, &model, &error);
    if (code == WANE_OK) code = wane__model_origin(model, &content.origin, &error);
    if (code == WANE_OK) code = wane__slmt_write(path, &content, &error);
    if (code != WANE_OK) fprintf(stderr, "script_server: %s: %s\n", wane_strerror(code), error.text);
    wane_model_free(model);
    free(entry);
    return code == WANE_OK ? 0 : 1;
}

/* The five best where the engine favours a token. */
static void peak(int32_t token, struct wane__candidate top[5]) {
    static const int32_t away[5] = {0, -1, 1, -2, 2};
    for (int i = 0; i < 5; i++)
        top[i] = (struct wane__candidate){token + away[i], (float)(10 - abs(away[i]))};
}

/* Windows must differ from step to step: entries are ordered by them. */
static int write_whole(struct setup *setup, const char *path, int wrong) {
    wane_error error = {0};
    struct wane__engine *engine = NULL;
    wane_model *model = NULL;
    wane_tokens context = {0};
    const struct wane__script_reply *reply = &setup->replies[0];
    const wane_message message = {.role = "user",
                                  .content = reply->match,
                                  .content_size = strlen(reply->match)};
    uint32_t steps = (uint32_t)reply->count;
    struct wane__slmt_entry *entry = need(calloc(steps + 1, sizeof *entry));
    struct wane__slmt_position *position = need(calloc(steps + 1, sizeof *position));
    struct wane__slmt_content content = {.window = 3, .depth = 5, .entry = entry, .position = position};
    int code = wane__script_load(&setup->script, &setup->log, &engine, &error);
    if (code == WANE_OK) code = wane__model_wrap(engine, log_line, NULL, &model, &error);
    if (code == WANE_OK) code = wane__model_origin(model, &content.origin, &error);
    if (code == WANE_OK) code = wane_chat_tokenize(model, &message, 1, &context, &error);
    size_t prompt = context.count;
    for (uint32_t i = 0; i < steps && code == WANE_OK; i++) wane__tokens_add(&context, reply->tokens[i]);
    for (uint32_t i = 0; i < steps && code == WANE_OK; i++) {
        int32_t token = reply->tokens[i] + ((int)i == wrong ? 20 : 0);
        if (token > 250) continue; /* the end of turn */
        uint64_t tenant = wane__context_tenant("");
        struct wane__slmt_entry *e = &entry[content.entry_count++];
        *e = (struct wane__slmt_entry){.key = {wane__context_window(tenant, context.id + prompt + i, 3), 0},
                                       .seen = i,
                                       .top_count = 5};
        peak(token, e->top);
    }
    qsort(entry, content.entry_count, sizeof *entry, compare_entries);
    content.position_count = content.entry_count;
    for (uint32_t e = 0; e < content.entry_count; e++) {
        struct wane__context_name name = wane__context_begin(wane__context_tenant(""));
        for (size_t i = 0; i < prompt + entry[e].seen; i++) name = wane__context_add(name, context.id[i]);
        position[e] = (struct wane__slmt_position){.entry = e,
                                                   .index = entry[e].seen,
                                                   .context = (uint32_t)name.low,
                                                   .top_count = 5};
        memcpy(position[e].top, entry[e].top, sizeof position[e].top);
        entry[e].seen++;
    }
    if (code == WANE_OK) code = wane__slmt_write(path, &content, &error);
    if (code != WANE_OK) fprintf(stderr, "script_server: %s: %s\n", wane_strerror(code), error.text);
    wane_tokens_free(&context);
    wane_model_free(model);
    free(entry);
    free(position);
    return code == WANE_OK ? 0 : 1;
}

static int use_table(const json_t *file, wane_model *model, wane_error *error) {
    wane_table_use use;
    wane_table_use_init(&use);
    use.path = json_string_value(json_object_get(file, "table"));
    use.key = json_string_value(json_object_get(file, "table_key"));
    use.poll_ms = number(file, "table_poll_ms", 0);
    const char *meaning = json_string_value(json_object_get(file, "table_meaning"));
    if (meaning != NULL && strcmp(meaning, "argmax") == 0) use.meaning = WANE_TABLE_ARGMAX;
    return wane_model_set_table(model, &use, error);
}

static int open_recorder(const json_t *file, wane_model *model, wane_recorder **recorder, wane_error *error) {
    const json_t *record = json_object_get(file, "record");
    if (record == NULL) return WANE_OK;
    wane_recorder_options options;
    wane_recorder_options_init(&options);
    options.folder = json_string_value(json_object_get(record, "folder"));
    options.redact_file = json_string_value(json_object_get(record, "redact_file"));
    options.plain = json_is_true(json_object_get(record, "plain"));
    options.all_logits = json_is_true(json_object_get(record, "all_logits"));
    options.queue_bytes = (size_t)number(record, "queue_bytes", 0);
    return wane_recorder_open(model, &options, recorder, error);
}

static void read_audit(const json_t *file, wane_audit_options *audit, wane_server_options *options) {
    const json_t *from = json_object_get(file, "audit");
    wane_audit_options_init(audit);
    audit->path = json_string_value(json_object_get(from, "file"));
    audit->key_file = json_string_value(json_object_get(from, "key_file"));
    audit->text = json_is_true(json_object_get(from, "text"));
    const char *failure = json_string_value(json_object_get(from, "failure"));
    if (failure != NULL && strcmp(failure, "stop") == 0) audit->failure = WANE_AUDIT_STOP;
    if (from != NULL) options->audit = audit;
}

/* Signals are blocked in every thread and waited for here: nothing runs inside a handler. */
static int serve(struct setup *setup, const sigset_t *signals) {
    wane_error error = {0};
    struct wane__engine *engine = NULL;
    wane_model *model = NULL;
    wane_server *server = NULL;
    wane_recorder *recorder = NULL;
    wane_server_options options;
    wane_alert_options alerts;
    wane_audit_options audit;
    wane_feedback_options feedback;
    read_options(setup->file, &options);
    read_feedback(setup->file, &feedback, &options);
    read_alerts(json_object_get(setup->file, "alerts"), &alerts);
    options.alerts = &alerts;
    read_audit(setup->file, &audit, &options);
    read_qualities(setup->file, setup, &options);
    int code = wane__script_load(&setup->script, &setup->log, &engine, &error);
    if (code == WANE_OK) code = wane__model_wrap(engine, log_line, NULL, &model, &error);
    if (code == WANE_OK) code = use_table(setup->file, model, &error);
    if (code == WANE_OK)
        code = wane_model_set_divergence_limit(model, (unsigned)number(setup->file, "divergence_limit", 3),
                                               &error);
    if (code == WANE_OK)
        wane__rows_set_shadow(&model->rows, json_number_value(json_object_get(setup->file, "shadow")));
    if (code == WANE_OK && json_is_true(json_object_get(setup->file, "draft")))
        code = wane_model_set_draft(model, WANE_DRAFT_ALWAYS, &error);
    if (code == WANE_OK) code = open_recorder(setup->file, model, &recorder, &error);
    if (code == WANE_OK)
        code = wane_model_set_memo(model, (uint64_t)number(setup->file, "memo", 0),
                                   json_string_value(json_object_get(setup->file, "memo_file")), &error);
    if (code == WANE_OK)
        code = wane_model_set_memo_save(model, (unsigned)number(setup->file, "memo_save", 0), &error);
    if (code == WANE_OK) code = wane_server_start(model, &options, &server, &error);
    if (code == WANE_OK) {
        int signal_number = 0;
        printf("port %d\n", wane_server_port(server));
        fflush(stdout);
        while (sigwait(signals, &signal_number) != 0 || signal_number == SIGHUP)
            wane_model_reload_table(model, NULL);
        wane_server_stop(server, (uint32_t)number(setup->file, "grace_ms", 2000));
    } else {
        fprintf(stderr, "script_server: %s: %s\n", wane_strerror(code), error.text);
    }
    wane_server_free(server);
    wane_recorder_close(recorder);
    if (code == WANE_OK && (code = wane_model_save_memo(model, &error)) != WANE_OK)
        fprintf(stderr, "script_server: %s\n", error.text);
    wane_model_free(model);
    return code == WANE_OK ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc != 2 && argc != 4) die("usage", "script_server FILE.json [OUT.slmt ENTRIES]");
    json_error_t fault;
    struct setup setup = {.file = json_load_file(argv[1], 0, &fault)};
    if (setup.file == NULL) die(argv[1], fault.text);
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    wane__log_init(&setup.log, log_line, NULL);
    read_script(&setup);
    int code = argc != 4                            ? serve(&setup, &signals)
               : strncmp(argv[3], "whole:", 6) == 0 ? write_whole(&setup, argv[2], atoi(argv[3] + 6))
                                                    : write_table(&setup, argv[2], (uint32_t)atoi(argv[3]));
    free_setup(&setup);
    return code;
}
