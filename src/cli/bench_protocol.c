/*
 * bench_protocol.c - `wane bench protocol`: the acceptance run. Looks at the machine first, sends the same long prompt again and again
 * with another seed each time, and keeps a line of each request, so that a run that was stopped goes on where it was.
 *
 * Neither prefix reuse nor memo help: each request costs what the first did. Every reply has the same number of tokens.
 */
#include "bench_clients.h"
#include "doctor.h"
#include "file_out.h"
#include "protocol.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STREAMS_MOST = 21, LONG_TOKENS = 16000, LONG_LAST = 1000, SAMPLE_MS = 500, PATH_ROOM = 4200 };

struct protocol {
    const struct settings *settings;
    struct bench_work work; /* one prompt */
    wane_scheduler *scheduler;
    wane_quality quality;
    struct protocol_run run;
    struct protocol_bar bar;
    json_t *head;          /* what the state is of */
    char state[PATH_ROOM]; /* its file; "": none */
    int state_fd, leg;
    double began, cpu_began, engine_began;
    struct checkup checkup;
    wane_machine machine;
    char kernel[32];
    int prompt_tokens;
    wane_table_state table; /* when the requests were done: counts of this leg */
};

/* ---- environment -------------------------------------------------------------------------------------------------------- */

static void look_at_machine(struct protocol *p, wane_model *model) {
    wane_machine now;
    wane_head_state head;
    wane_model_get_head_state(model, &head);
    struct doctor_wish wish = {.threads = wane_model_get_facts(model)->threads,
                               .lock = setting_on(p->settings, SET_MLOCK),
                               .model_bytes = wane_model_get_facts(model)->file_bytes,
                               .built_ms = doctor_built_ms()};
    snprintf(p->kernel, sizeof p->kernel, "%s", head.kernel);
    if (head.path[0] != '\0') wish.kernel = p->kernel;
    wane_machine_look(NULL, 0, &now);
    memcpy(p->machine.kernels, now.kernels, sizeof now.kernels);
    doctor_cpu(&p->checkup, &p->machine, &wish);
    doctor_threads(&p->checkup, &p->machine, &wish);
    doctor_memory(&p->checkup, &p->machine, &wish);
    doctor_clock(&p->checkup, &p->machine, &wish);
    doctor_load(&p->checkup, &p->machine);
    for (int i = 0; i < p->checkup.count; i++)
        if (p->checkup.list[i].level >= CHECK_WARNING)
            cli_say("%s: %s; %s", p->checkup.list[i].name, p->checkup.list[i].text, p->checkup.list[i].next);
}

/* ---- state ---------------------------------------------------------------------------------------------------------------- */

static json_t *make_head(const struct protocol *p, const char *digest) {
    const struct settings *s = p->settings;
    json_t *head =
        json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i}", "protocol",
                  PROTOCOL_VERSION, "wane", wane_version(), "engine", wane_engine_version(), "digest", digest,
                  "mode", setting_text(s, SET_MODE), "head", setting_text(s, SET_HEAD), "draft",
                  setting_text(s, SET_DRAFT), "threads", wane_model_get_facts(p->work.model)->threads,
                  "requests", p->run.count, "streams", p->run.streams, "prompt_tokens", p->prompt_tokens,
                  "tokens", p->work.steps);
    wane_table_state table;
    wane_model_get_table_state(p->work.model, &table);
    if (table.digest[0] == '\0') return head;
    json_object_set_new(head, "table", json_string(table.digest));
    json_object_set_new(head, "table_meaning", json_string(setting_text(s, SET_TABLE_MEANING)));
    return head;
}

/* Reads what is there, cuts what is not whole, and leaves the file open at its end. */
static int open_state(struct protocol *p) {
    char why[300];
    size_t size = 0, good = 0;
    char *text = NULL;
    if (p->state[0] == '\0') return EXIT_FINE;
    if (access(p->state, F_OK) == 0) {
        text = read_all_file(p->state, &size);
        if (text == NULL) return EXIT_FAILED;
        if (!protocol_read_state(&p->run, p->head, text, size, &good, why)) {
            free(text);
            return cli_fail(EXIT_FAILED, "the state %s: %s", p->state, why);
        }
        p->leg = protocol_legs(text, good);
        free(text);
    }
    p->leg++;
    p->state_fd = open(p->state, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (p->state_fd < 0 || ftruncate(p->state_fd, (off_t)good) != 0 || lseek(p->state_fd, 0, SEEK_END) < 0)
        return cli_fail(EXIT_FAILED, "cannot write the state %s: %s", p->state, strerror(errno));
    if (p->run.done > 0)
        cli_say("%s: %d of %d requests are done; going on", p->state, p->run.done, p->run.count);
    if (good > 0) return EXIT_FINE;
    char *head = json_dumps(p->head, JSON_COMPACT), *line = text_format("%s\n", head);
    bool wrote = write(p->state_fd, line, strlen(line)) == (ssize_t)strlen(line);
    free(line);
    free(head);
    return wrote ? EXIT_FINE
                 : cli_fail(EXIT_FAILED, "cannot write the state %s: %s", p->state, strerror(errno));
}

static double cpu_seconds(void) {
    struct rusage own;
    if (getrusage(RUSAGE_SELF, &own) != 0) return 0;
    return (double)(own.ru_utime.tv_sec + own.ru_stime.tv_sec) +
           1e-6 * (double)(own.ru_utime.tv_usec + own.ru_stime.tv_usec);
}

static double engine_seconds(struct protocol *p) {
    wane_scheduler_state state;
    wane_scheduler_get_state(p->scheduler, &state);
    return state.engine_seconds;
}

/* A request is over; called for one at a time. */
static void on_done(void *user, int number, struct client_request *request) {
    struct protocol *p = user;
    struct protocol_sample *s = &p->run.sample[number];
    *s = (struct protocol_sample){.ttft_ms = request->first_ms,
                                  .tpot_ms = client_tpot_ms(request),
                                  .whole_ms = request->whole_ms,
                                  .tokens = request->tokens,
                                  .done = true};
    p->run.done++;
    free(request->text); /* many of them; nobody reads them */
    request->text = NULL;
    request->text_size = 0;
    char what[80];
    snprintf(what, sizeof what, "request %d of %d", p->run.done, p->run.count);
    progress_show(what, (double)p->run.done / p->run.count);
    if (p->state_fd < 0) return;
    char *line = protocol_state_line(&p->run, number, p->leg, 1e-3 * (now_ms() - p->began),
                                     cpu_seconds() - p->cpu_began, engine_seconds(p) - p->engine_began);
    if (write(p->state_fd, line, strlen(line)) != (ssize_t)strlen(line)) {
        cli_say("cannot write the state %s: %s; the run goes on without it", p->state, strerror(errno));
        close(p->state_fd);
        p->state_fd = -1;
    }
    free(line);
}

/* ---- running --------------------------------------------------------------------------------------------------------------- */

/* For so many streams at once: where votes may be taken, each needs three sequences. */
static int open_model(const struct settings *settings, int streams, int context, wane_model **model) {
    unsigned modes = 1u << wane_mode_from(setting_text(settings, SET_MODE));
    struct model_wish wish = {.sequences = modes == 1u << WANE_MODE_OFF ? streams : 3 * streams,
                              .decodes = true,
                              .drafts = true,
                              .least_context = context};
    int code = model_open(settings, &wish, model);
    if (code == EXIT_FINE) code = table_attach(settings, *model);
    if (code == EXIT_FINE) code = rules_attach(settings, *model, modes);
    if (code == EXIT_FINE) code = gate_attach(settings, *model, modes, NULL, NULL);
    if (code == EXIT_FINE) code = governor_attach(settings, *model, modes, NULL, NULL);
    return code;
}

static int open_scheduler(struct protocol *p, wane_model *model, int prompt_tokens, int steps,
                          wane_error *error) {
    wane_scheduler_options options;
    struct bench_work words;
    wane_scheduler_options_init(&options);
    options.max_batch_requests = 64;
    options.no_prefix_reuse = true;
    options.drill = wane_mode_from(setting_text(p->settings, SET_MODE)) != WANE_MODE_OFF;
    int result = bench_work_open(&words, model, NULL, 0, bench_prompt_count, steps, error);
    if (result == WANE_OK) {
        p->work = words;
        p->work.count = 1;
        p->work.prompts = text_alloc(sizeof *p->work.prompts);
        bench_long_prompt(&words, prompt_tokens, &p->work.prompts[0]);
        bench_set_sampler(&p->work.sampling, "default");
        result = wane_scheduler_new(model, &options, &p->scheduler, error);
    }
    bench_work_close(&words);
    quality_from(p->settings, &p->quality);
    return result;
}

static void close_scheduler(struct protocol *p) {
    wane_scheduler_free(p->scheduler);
    p->scheduler = NULL;
    if (p->work.prompts != NULL) free(p->work.prompts[0].id);
    free(p->work.prompts);
    p->work = (struct bench_work){0};
}

static struct client_load load_of(struct protocol *p, int streams, int count) {
    return (struct client_load){.model = p->work.model,
                                .scheduler = p->scheduler,
                                .work = &p->work,
                                .quality = p->quality.mode == WANE_MODE_OFF ? NULL : &p->quality,
                                .streams = streams,
                                .count = count,
                                .ignore_end = true};
}

/* One request first that does not count: weights and caches. */
static int warm_up(struct protocol *p, wane_error *error) {
    struct client_cell cell = {.request = text_alloc(sizeof *cell.request)};
    struct client_load load = load_of(p, 1, 1);
    progress_show("warming up", 0);
    int result = clients_run(&load, &cell, error);
    client_cell_free(&cell, 1);
    return result;
}

static int run_requests(struct protocol *p, wane_error *error) {
    int count = p->run.count;
    struct client_cell cell = {.request = text_alloc((size_t)count * sizeof *cell.request)};
    bool *finished = text_alloc((size_t)count * sizeof *finished);
    struct client_load load = load_of(p, p->run.streams, count);
    for (int i = 0; i < count; i++) finished[i] = p->run.sample[i].done;
    load.finished = finished;
    load.on_done = on_done;
    load.user = p;
    int result = warm_up(p, error);
    p->began = now_ms();
    p->cpu_began = cpu_seconds();
    p->engine_began = engine_seconds(p);
    if (result == WANE_OK) result = clients_run(&load, &cell, error);
    p->run.seconds += 1e-3 * (now_ms() - p->began);
    p->run.cpu_seconds += cpu_seconds() - p->cpu_began;
    p->run.engine_seconds += engine_seconds(p) - p->engine_began;
    progress_clear();
    client_cell_free(&cell, count);
    free(finished);
    return result;
}

/* One reply of 16,000 tokens, or as many as the model was trained for; what its last 1,000 took. */
static int run_long(struct protocol *p) {
    wane_model *model = NULL;
    wane_error error = {0};
    struct protocol part = {.settings = p->settings, .state_fd = -1};
    struct client_cell cell = {.request = text_alloc(sizeof *cell.request)};
    int code = open_model(p->settings, 1, LONG_TOKENS + 128, &model), prompt = 64;
    if (code == EXIT_FINE) {
        const wane_model_facts *facts = wane_model_get_facts(model);
        bool shorter = facts->trained_context > 0 && facts->trained_context < facts->context;
        int room = (shorter ? facts->trained_context : facts->context) - prompt - 1;
        int steps = room < LONG_TOKENS ? room : LONG_TOKENS,
            result = open_scheduler(&part, model, prompt, steps, &error);
        struct client_load load = load_of(&part, 1, 1);
        progress_show("a long reply", -1);
        if (result == WANE_OK) result = clients_run(&load, &cell, &error);
        progress_clear();
        if (result == WANE_OK) {
            size_t last = cell.gap_ms.count < LONG_LAST ? cell.gap_ms.count : LONG_LAST;
            p->run.gap_ms = text_alloc((last + 1) * sizeof *p->run.gap_ms);
            if (last > 0)
                memcpy(p->run.gap_ms, cell.gap_ms.value + (cell.gap_ms.count - last),
                       last * sizeof *p->run.gap_ms);
            p->run.gaps = (int)last;
            p->run.long_tokens = steps;
        } else {
            code = cli_fail_wane(&error);
        }
        close_scheduler(&part);
    }
    client_cell_free(&cell, 1);
    wane_model_free(model);
    return code;
}

/* ---- results -------------------------------------------------------------------------------------------------------------------- */

static json_t *verdict_json(const struct protocol *p, const double *figure, bool *keeps) {
    json_t *list = json_array();
    *keeps = true;
    for (int i = 0; i < p->bar.count; i++) {
        const struct protocol_limit *l = &p->bar.list[i];
        bool good = protocol_keeps(l, figure);
        *keeps = *keeps && good;
        json_array_append_new(list, json_pack("{s:s, s:s, s:f, s:o, s:b}", "figure",
                                              protocol_figure_name(l->figure), "is",
                                              l->at_least ? "at_least" : "at_most", "limit", l->limit,
                                              "value", json_known(figure[l->figure]), "kept", good));
    }
    return list;
}

static json_t *samples_json(const struct protocol_run *run) {
    json_t *ttft = json_array(), *tpot = json_array();
    for (int i = 0; i < run->count; i++) {
        if (!run->sample[i].done) continue;
        json_array_append_new(ttft, json_ms(run->sample[i].ttft_ms));
        json_array_append_new(tpot, json_ms(run->sample[i].tpot_ms));
    }
    return json_pack("{s:o, s:o}", "ttft_ms", ttft, "tpot_ms", tpot);
}

static uint64_t looked_up(const wane_table_state *t) {
    return t->strict + t->rank + t->miss + t->absent;
}

static json_t *table_json(const wane_table_state *t) {
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "looked_up", (json_int_t)looked_up(t), "strict",
                     (json_int_t)t->strict, "rank", (json_int_t)t->rank, "miss", (json_int_t)t->miss,
                     "absent", (json_int_t)t->absent, "taken", (json_int_t)t->taken);
}

static json_t *result_json(const struct protocol *p, const char *model, bool *keeps) {
    double figure[PROTOCOL_FIGURES];
    protocol_figures(&p->run, figure);
    json_t *all =
        json_pack("{s:s, s:i, s:s}", "bench", "protocol", "version", PROTOCOL_VERSION, "model", model);
    json_object_update_missing(all, p->head);
    json_t *metrics = json_object();
    for (int i = 0; i < PROTOCOL_FIGURES; i++)
        json_object_set_new(metrics, protocol_figure_name(i), json_known(figure[i]));
    json_object_set_new(all, "done", json_integer(p->run.done));
    json_object_set_new(all, "seconds", json_ms(p->run.seconds));
    json_object_set_new(all, "legs", json_integer(p->leg > 0 ? p->leg : 1));
    json_object_set_new(all, "metrics", metrics);
    json_object_set_new(all, "long_reply",
                        p->run.gap_ms != NULL
                            ? json_pack("{s:i, s:i}", "tokens", p->run.long_tokens, "last", p->run.gaps)
                            : json_null());
    if (p->table.digest[0] != '\0') json_object_set_new(all, "table_of_last_leg", table_json(&p->table));
    json_object_set_new(all, "environment",
                        json_pack("{s:o, s:o, s:s}", "machine", machine_json(&p->machine), "checks",
                                  checkup_json(&p->checkup), "head_kernel", p->kernel));
    json_object_set_new(all, "verdict", verdict_json(p, figure, keeps));
    json_object_set_new(all, "kept", p->bar.count > 0 ? json_boolean(*keeps) : json_null());
    return all;
}

/* Under a name of its own first: a reader sees the old result or the new one. */
static int write_result(const char *path, json_t *result) {
    struct file_out out;
    file_begin(&out, path);
    bool good = out.file != NULL &&
                json_dumpf(result, out.file, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) == 0 &&
                fputc('\n', out.file) != EOF;
    return file_end(&out, good)
               ? EXIT_FINE
               : cli_fail(EXIT_FAILED, "cannot write the result %s: %s", path, strerror(errno));
}

static double share_of(uint64_t part, uint64_t all) {
    return all > 0 ? 100.0 * (double)part / (double)all : 0;
}

static void print_text(const struct protocol *p, const char *model) {
    double f[PROTOCOL_FIGURES];
    protocol_figures(&p->run, f);
    out_format("%s, mode %s: %d requests of %d + %d tokens, %d streams, %.1f s\n\n", model,
               setting_text(p->settings, SET_MODE), p->run.done, p->prompt_tokens, p->work.steps,
               p->run.streams, p->run.seconds);
    out_format("                    p50         p90         p99\n");
    out_format("ttft ms    %12.2f%12.2f%12.2f\n", f[TTFT_P50], f[TTFT_P90], f[TTFT_P99]);
    out_format("tpot ms    %12.3f%12.3f%12.3f\n", f[TPOT_P50], f[TPOT_P90], f[TPOT_P99]);
    if (p->run.gap_ms != NULL)
        out_format("long ms    %12.3f%12.3f%12.3f  the last %d of %d tokens\n", f[LONG_TPOT_P50],
                   f[LONG_TPOT_P90], f[LONG_TPOT_P99], p->run.gaps, p->run.long_tokens);
    out_format("\n%.2f tokens/s, %.3f requests/s; CPUs %.1f %% busy, slots %.1f %%, engine %.1f %%\n",
               f[TOKENS_PER_SECOND], f[REQUESTS_PER_SECOND], 100 * f[CPU_SHARE], 100 * f[SLOT_SHARE],
               100 * f[ENGINE_SHARE]);
    if (p->table.digest[0] != '\0')
        out_format("table: of %llu tokens looked up in the last leg %.2f %% strict hits, %.2f %% rank hits, "
                   "%llu taken\n",
                   (unsigned long long)looked_up(&p->table), share_of(p->table.strict, looked_up(&p->table)),
                   share_of(p->table.rank, looked_up(&p->table)), (unsigned long long)p->table.taken);
    for (int i = 0; i < p->bar.count; i++) {
        const struct protocol_limit *l = &p->bar.list[i];
        out_format("%s  %s %.6g, %s %.6g\n", protocol_keeps(l, f) ? "kept   " : "BROKEN ",
                   protocol_figure_name(l->figure), f[l->figure], l->at_least ? "at least" : "at most",
                   l->limit);
    }
}

static int report(struct protocol *p, const char *model) {
    const char *path = setting_text(p->settings, SET_RESULT);
    bool keeps = true;
    int code = EXIT_FINE;
    json_t *result = result_json(p, model, &keeps);
    if (path != NULL) {
        json_t *whole = json_copy(result);
        json_object_set_new(whole, "samples", samples_json(&p->run));
        code = write_result(path, whole);
        json_decref(whole);
        if (code == EXIT_FINE && p->state[0] != '\0') unlink(p->state); /* it has done its work */
    }
    if (setting_on(p->settings, SET_JSON))
        out_json(json_incref(result), false);
    else
        print_text(p, model);
    json_decref(result);
    return code == EXIT_FINE && !keeps ? EXIT_FAILED : code;
}

/* ---- the command ---------------------------------------------------------------------------------------------------------------- */

static int read_bar(struct protocol *p) {
    const char *path = setting_text(p->settings, SET_BAR);
    char why[300];
    json_error_t fault;
    if (path == NULL) return EXIT_FINE;
    json_t *json = json_load_file(path, 0, &fault);
    if (json == NULL) return cli_fail(EXIT_USAGE, "the bar %s: %s", path, fault.text);
    bool good = protocol_read_bar(&p->bar, json, why);
    json_decref(json);
    return good ? EXIT_FINE : cli_fail(EXIT_USAGE, "the bar %s: %s", path, why);
}

static int read_streams(struct protocol *p) {
    bool given = p->settings->value[SET_STREAMS].source != FROM_DEFAULT;
    const char *text = given ? setting_text(p->settings, SET_STREAMS) : "4";
    char *end;
    long streams = strtol(text, &end, 10);
    if (end == text || *end != '\0' || streams < 1 || streams > STREAMS_MOST)
        return cli_usage("bench", "--streams is \"%.60s\"; wane bench protocol takes one number from 1 to %d",
                         text, STREAMS_MOST);
    p->run.streams = (int)streams;
    return EXIT_FINE;
}

static void choose_state(struct protocol *p) {
    const char *state = setting_text(p->settings, SET_STATE), *result = setting_text(p->settings, SET_RESULT);
    if (state != NULL)
        snprintf(p->state, sizeof p->state, "%s", state);
    else if (result != NULL)
        snprintf(p->state, sizeof p->state, "%s.part", result);
}

static int run_short(struct protocol *p, wane_model *model) {
    char digest[33];
    wane_error error = {0};
    int result = open_scheduler(p, model, p->prompt_tokens, setting_int(p->settings, SET_TOKENS), &error);
    if (result == WANE_OK) result = wane_model_digest(model, digest, &error);
    if (result != WANE_OK) return cli_fail_wane(&error);
    p->head = make_head(p, digest);
    int code = open_state(p);
    if (code != EXIT_FINE) return code;
    look_at_machine(p, model);
    if (p->run.done < p->run.count) result = run_requests(p, &error);
    wane_model_get_table_state(model, &p->table);
    if (interrupt_seen() && p->state[0] != '\0')
        cli_say("stopped at %d of %d requests; the same command goes on", p->run.done, p->run.count);
    return result == WANE_OK ? EXIT_FINE : cli_fail_wane(&error);
}

int bench_protocol(const struct settings *settings) {
    struct protocol p = {.settings = settings,
                         .state_fd = -1,
                         .run = {.count = setting_int(settings, SET_PROTOCOL_REQUESTS)},
                         .prompt_tokens = setting_int(settings, SET_PROMPT_TOKENS)};
    wane_model *model = NULL;
    char name[200] = "";
    int code = read_streams(&p);
    if (code == EXIT_FINE) code = read_bar(&p);
    if (code != EXIT_FINE) return code;
    choose_state(&p);
    interrupt_catch();
    progress_show("looking at the machine", -1);
    wane_machine_look(NULL, SAMPLE_MS, &p.machine);
    p.run.cpus = p.machine.allowed > 0 ? p.machine.allowed : 1;
    p.run.sample = text_alloc((size_t)p.run.count * sizeof *p.run.sample);
    code =
        open_model(settings, p.run.streams, p.prompt_tokens + setting_int(settings, SET_TOKENS) + 64, &model);
    if (code == EXIT_FINE) {
        snprintf(name, sizeof name, "%.190s", wane_model_get_facts(model)->name);
        code = run_short(&p, model);
    }
    int steps = p.work.steps;
    close_scheduler(&p);
    wane_model_free(model);
    if (code == EXIT_FINE && setting_on(settings, SET_LONG)) code = run_long(&p);
    p.work.steps = steps;
    if (p.state_fd >= 0) close(p.state_fd);
    if (code == EXIT_FINE) code = report(&p, name);
    checkup_free(&p.checkup);
    json_decref(p.head);
    free(p.run.sample);
    free(p.run.gap_ms);
    return code;
}
