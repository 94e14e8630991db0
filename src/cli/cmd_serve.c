/*
 * cmd_serve.c - `wane serve`: load, listen, wait for a signal, stop.
 *
 * Signals are blocked before the first thread exists, so that every thread inherits that, and are then waited for
 * in one place: no handler runs, whatever the engine is doing.
 */
#include "cli.h"
#include "file_out.h"
#include "serve_log.h"
#include "text.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void endings(sigset_t *set) {
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
}

/* SIGHUP is asked for only where it means something: without a table it ends the program, as it always did. */
static void waited_for(const struct settings *settings, sigset_t *set) {
    endings(set);
    if (setting_text(settings, SET_TABLE_FILE) != NULL) sigaddset(set, SIGHUP);
}

static bool stop_pending(void) {
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM);
}

/* The port, under the file's name only when it is whole and on the disk. */
static int write_ready_file(const char *path, int port) {
    struct file_out out;
    file_begin(&out, path);
    bool good = out.file != NULL && fprintf(out.file, "%d\n", port) > 0;
    return file_end(&out, good)
               ? EXIT_FINE
               : cli_fail(EXIT_FAILED, "cannot write the ready file %s: %s", path, strerror(errno));
}

/* What a client on this machine connects to. */
static char *server_url(const char *host, int port) {
    const char *name = strcmp(host, "0.0.0.0") == 0 || strcmp(host, "*") == 0 ? "127.0.0.1"
                       : strcmp(host, "::") == 0                              ? "::1"
                                                                              : host;
    bool brackets = strchr(name, ':') != NULL && name[0] != '[';
    return text_format("http://%s%s%s:%d", brackets ? "[" : "", name, brackets ? "]" : "", port);
}

static void say_ready(const struct settings *settings, struct serve_log *log, const char *model, int port) {
    char *url = server_url(setting_text(settings, SET_HOST), port);
    char *line = text_format("ready on %s", url);
    if (log->json) {
        json_t *extra =
            json_pack("{s:s, s:s, s:i, s:s}", "event", "ready", "url", url, "port", port, "model", model);
        serve_log_write(log, WANE_LOG_INFO, line, extra);
        json_decref(extra);
    } else {
        const char *key =
            setting_text(settings, SET_KEY_FILE) != NULL ? " -H \"Authorization: Bearer $WANE_KEY\"" : "";
        serve_log_write(log, WANE_LOG_INFO, line, NULL);
        char *hint =
            text_format("\n  %s in a browser shows how each token is decided\n"
                        "\n  curl %s/v1/chat/completions -H 'Content-Type: application/json'%s \\\n"
                        "    -d '{\"model\": \"%s\", \"messages\": [{\"role\": \"user\", \"content\": \"Say "
                        "hello.\"}]}'\n\n",
                        url, url, key, model);
        serve_log_text(log, hint);
        free(hint);
    }
    free(line);
    free(url);
}

static void server_options(const struct settings *settings, struct serve_log *log,
                           wane_server_options *options) {
    wane_server_options_init(options);
    options->host = setting_text(settings, SET_HOST);
    options->port = setting_int(settings, SET_PORT);
    options->key_file = setting_text(settings, SET_KEY_FILE);
    options->open = setting_on(settings, SET_OPEN);
    options->max_connections = setting_int(settings, SET_MAX_CONNECTIONS);
    options->max_body = (size_t)settings->value[SET_MAX_BODY].integer;
    options->ping_ms = setting_int(settings, SET_PING);
    options->max_tokens = setting_int(settings, SET_DEFAULT_MAX_TOKENS);
    options->ab_governor = settings->value[SET_AB_GOVERNOR].real;
    sampling_from(settings, &options->sampling);
    options->sampling.seeded = false; /* one seed for all requests would make their draws alike */
    options->log = options->scheduler.log = serve_log_line;
    options->log_user = options->scheduler.log_user = log;
    options->log_lost = serve_log_lost;
    options->scheduler.queue = setting_int(settings, SET_QUEUE);
    options->scheduler.window_ms = setting_int(settings, SET_WINDOW);
    options->scheduler.practice_ms = setting_int(settings, SET_DRAFT_PRACTICE);
    options->scheduler.max_batch_requests = setting_int(settings, SET_BATCH_REQUESTS);
    options->scheduler.prompt_chunk = setting_int(settings, SET_PROMPT_CHUNK);
    options->scheduler.prompt_share = setting_int(settings, SET_PROMPT_SHARE);
    options->scheduler.watchdog_ms = setting_int(settings, SET_WATCHDOG);
    options->scheduler.max_ms = (uint32_t)setting_int(settings, SET_DEADLINE);
    options->scheduler.no_prefix_reuse = !setting_on(settings, SET_PREFIX_REUSE);
}

/* What is written to while serving: where the disk is full, it is not. */
static size_t disks_from(const struct settings *settings, wane_disk disks[WANE_DISKS_MOST]) {
    size_t count = 0;
    for (int i = 0; i < WRITTEN; i++) {
        const char *path = setting_text(settings, settings_written[i].id);
        if (path != NULL) disks[count++] = (wane_disk){settings_written[i].what, path};
    }
    return count;
}

/* Waits for a second signal while the first is being obeyed, and ends the program there and then. */
static void *stop_at_once(void *ready_file) {
    sigset_t set;
    int signal_number;
    endings(&set);
    sigwait(&set, &signal_number);
    if (ready_file != NULL) unlink(ready_file);
    _exit(EXIT_FINE);
}

/* Until it is time to stop. The library's log says how a reload went. */
static void wait_for_the_end(const struct settings *settings, wane_model *model) {
    sigset_t set;
    int signal_number = 0;
    waited_for(settings, &set);
    for (;;) {
        if (sigwait(&set, &signal_number) != 0) continue;
        if (signal_number != SIGHUP) return;
        wane_model_reload_table(model, NULL);
    }
}

static void wait_and_stop(const struct settings *settings, struct serve_log *log, wane_model *model,
                          wane_server *server) {
    wait_for_the_end(settings, model);
    serve_log_info(log, "stopping: what is running may finish within %d ms; a second signal ends it at once",
                   setting_int(settings, SET_GRACE));
    pthread_t second;
    char *ready_file = settings->value[SET_READY_FILE].text;
    bool watching = pthread_create(&second, NULL, stop_at_once, ready_file) == 0;
    wane_server_stop(server, (uint32_t)setting_int(settings, SET_GRACE));
    if (watching) {
        pthread_cancel(second); /* sigwait is a cancellation point */
        pthread_join(second, NULL);
    }
}

/* What checks domains, what takes ratings, and what ranks answers. */
static int feedback_options(const struct settings *settings, wane_feedback_options *feedback,
                            wane_server_options *options, wane_classifier **classifier, wane_error *error) {
    static const char *const wishes[] = {"given", "check", "auto"};
    const char *file = setting_text(settings, SET_CLASSIFIER);
    for (int i = 0; i < 3; i++)
        if (strcmp(setting_text(settings, SET_SSP_DOMAIN), wishes[i]) == 0) options->ssp_domain = i;
    int status = WANE_OK;
    if (options->ssp_domain != WANE_SSP_DOMAIN_GIVEN) status = wane_classifier_open(file, classifier, error);
    /* Who did not ask for one can do without. */
    if (status == WANE_ENOENT && file == NULL && options->ssp_domain == WANE_SSP_DOMAIN_CHECK)
        status = WANE_OK;
    options->classifier = *classifier;
    wane_feedback_options_init(feedback);
    feedback->path = setting_text(settings, SET_FEEDBACK);
    feedback->text = setting_on(settings, SET_FEEDBACK_TEXT);
    feedback->bytes_most = (uint64_t)settings->value[SET_FEEDBACK_SIZE].integer;
    feedback->keep_seconds = setting_int(settings, SET_FEEDBACK_KEEP);
    if (feedback->path != NULL) options->feedback = feedback;
    return status;
}

/* What switches itself off, and who is told. */
static int alert_options(const struct settings *settings, wane_model *model, wane_alert_options *alerts,
                         wane_error *error) {
    wane_alert_options_init(alerts);
    alerts->url = setting_text(settings, SET_ALERT_URL);
    alerts->secret_file = setting_text(settings, SET_ALERT_SECRET);
    alerts->command = setting_text(settings, SET_ALERT_COMMAND);
    alerts->breaker_command = setting_text(settings, SET_BREAKER_COMMAND);
    alerts->attempts = setting_int(settings, SET_ALERT_ATTEMPTS);
    alerts->timeout_ms = setting_int(settings, SET_ALERT_TIMEOUT);
    alerts->retry_ms = setting_int(settings, SET_ALERT_RETRY);
    alerts->reload_failures = setting_int(settings, SET_BREAKER_RELOADS);
    return wane_model_set_divergence_limit(model, (unsigned)setting_int(settings, SET_BREAKER_DIVERGENCES),
                                           error);
}

/* Where and how the audit log is written, if it is. */
static void audit_options(const struct settings *settings, wane_audit_options *audit,
                          wane_server_options *options) {
    wane_audit_options_init(audit);
    audit->path = setting_text(settings, SET_AUDIT);
    audit->key_file = setting_text(settings, SET_AUDIT_KEY);
    audit->text = setting_on(settings, SET_AUDIT_TEXT);
    if (strcmp(setting_text(settings, SET_AUDIT_FAILURE), "stop") == 0) audit->failure = WANE_AUDIT_STOP;
    if (audit->path != NULL) options->audit = audit;
}

/* Lists of the settings, read at the start: a wrong one is said before a model is loaded. */
struct lists {
    unsigned request_modes, prepare, request_prepare;
};

static int read_lists(const struct settings *settings, struct lists *lists) {
    *lists = (struct lists){0};
    int code = modes_from(setting_text(settings, SET_REQUEST_MODES), &lists->request_modes);
    if (code == EXIT_FINE) code = prepare_from(settings, SET_PREPARE, &lists->prepare);
    if (code == EXIT_FINE) code = prepare_from(settings, SET_REQUEST_PREPARE, &lists->request_prepare);
    return code;
}

static int serve(const struct settings *settings, struct serve_log *log, wane_model *model,
                 const struct lists *lists) {
    wane_server_options options;
    wane_server *server = NULL;
    wane_error error = {0};
    wane_quality quality;
    struct domains domains;
    wane_disk disks[WANE_DISKS_MOST];
    server_options(settings, log, &options);
    options.disks = disks;
    options.disk_count = disks_from(settings, disks);
    options.request_modes = lists->request_modes;
    options.prepare = lists->prepare;
    options.request_prepare = lists->request_prepare;
    quality_from(settings, &quality);
    domains_from(settings, &domains);
    int dressed = profiles_attach(settings, model, &domains, serve_log_line, log);
    if (dressed != EXIT_FINE) {
        domains_free(&domains);
        return dressed;
    }
    options.quality = &quality;
    options.domains = domains.list;
    options.domain_count = domains.count;
    wane_classifier *classifier = NULL;
    wane_feedback_options feedback;
    wane_alert_options alerts;
    options.alerts = &alerts;
    struct rollout_plan rollout;
    rollout_from(settings, &rollout); /* it was checked at the start */
    options.rollout = setting_text(settings, SET_ROLLOUT);
    options.rollout_wish = &rollout.wish;
    wane_audit_options audit;
    audit_options(settings, &audit, &options);
    int started = feedback_options(settings, &feedback, &options, &classifier, &error);
    if (started == WANE_OK) started = alert_options(settings, model, &alerts, &error);
    if (started == WANE_OK) started = wane_server_start(model, &options, &server, &error);
    domains_free(&domains);
    free(rollout.text);
    if (started != WANE_OK) {
        if (log->json)
            serve_log_write(log, WANE_LOG_ERROR, error.text, NULL);
        else
            cli_say("%s", error.text);
        wane_classifier_free(classifier);
        return error.code == WANE_EINVAL ? EXIT_USAGE : EXIT_FAILED;
    }
    int port = wane_server_port(server);
    const char *ready_file = setting_text(settings, SET_READY_FILE);
    int code = ready_file != NULL ? write_ready_file(ready_file, port) : EXIT_FINE;
    if (code == EXIT_FINE) {
        say_ready(settings, log, wane_model_get_facts(model)->name, port);
        wait_and_stop(settings, log, model, server);
        if (ready_file != NULL) unlink(ready_file);
        serve_log_info(log, "stopped");
    }
    wane_server_free(server);
    wane_classifier_free(classifier);
    return code;
}

int command_serve(struct settings *settings) {
    if (settings->operand_count > 0)
        return cli_usage("serve", "wane serve takes no words; got \"%.60s\" (a model is given with --model)",
                         settings->operands[0]);
    struct lists lists;
    int wrong = read_lists(settings, &lists);
    if (wrong == EXIT_FINE) wrong = rollout_check(settings);
    if (wrong != EXIT_FINE) return wrong;
    struct serve_log log;
    serve_log_begin(&log, setting_text(settings, SET_LOG_LEVEL), setting_on(settings, SET_JSON));
    sigset_t set;
    waited_for(settings, &set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    wane_model *model = NULL;
    struct model_wish wish = {.sequences = setting_int(settings, SET_SLOTS),
                              .decodes = true,
                              .drafts = true,
                              .log = serve_log_line,
                              .log_user = &log,
                              .stop = stop_pending};
    serve_log_info(&log, "wane %s, engine %s: loading %s for %d conversations at once", wane_version(),
                   wane_engine_version(), setting_text(settings, SET_MODEL), wish.sequences);
    int code = model_open(settings, &wish, &model);
    if (code != EXIT_FINE) return code;
    const wane_model_facts *facts = wane_model_get_facts(model);
    serve_log_info(&log, "loaded %s: %s, %.0f MB, %d threads, context of %d tokens", facts->name,
                   facts->description, (double)facts->file_bytes / 1e6, facts->threads, facts->context);
    const char *folder = setting_text(settings, SET_RECORD);
    wane_recorder *recorder = NULL;
    unsigned modes = modes_used(settings);
    code = table_attach(settings, model);
    if (code == EXIT_FINE) code = rules_attach(settings, model, modes);
    if (code == EXIT_FINE) code = gate_attach(settings, model, modes, serve_log_line, &log);
    if (code == EXIT_FINE) code = governor_attach(settings, model, modes, serve_log_line, &log);
    if (code == EXIT_FINE) code = breaker_attach(settings, model, modes);
    if (code == EXIT_FINE) code = reward_attach(settings, model);
    if (code == EXIT_FINE) code = memo_attach(settings, model);
    if (code == EXIT_FINE && folder != NULL) code = recorder_open(settings, model, folder, &recorder);
    if (folder != NULL && code == EXIT_FINE)
        serve_log_info(&log, "recording what is decoded in %s%s", folder,
                       setting_text(settings, SET_REDACT) != NULL ? ", redacted" : "");
    if (code == EXIT_FINE) {
        code = serve(settings, &log, model, &lists);
        int saved = memo_save(model);
        if (code == EXIT_FINE) code = saved;
    }
    wane_recorder_close(recorder);
    wane_model_free(model);
    return code;
}
