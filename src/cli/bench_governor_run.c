/*
 * bench_governor_run.c - asks both sides, several at once, and judges what they say. Each finished reply is a line of JSON, so that a run that
 * was stopped goes on where it was; a first line says what kind of run it is, and another kind is not mixed in.
 */
#include "bench_governor.h"
#include "os.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Tokens of a reply, unless --tokens says; characters in which an answer must stand. */
static const int most_tokens[GOVERNOR_SETS] = {200, 40, 400};
enum { ANSWER_CHARACTERS = 200 };

struct run {
    struct governor_bench *bench;
    wane_model *model;
    wane_scheduler *scheduler;
    FILE *file; /* NULL: none */
    pthread_mutex_t lock;
    int next; /* unit: item × side */
    int done, code;
    wane_error error;
};

/* ---- the file ------------------------------------------------------------------------------------------------------ */

static json_t *side_json(const struct governor_side *side) {
    const wane_quality *q = &side->quality;
    return json_pack("{s:s, s:s, s:s, s:b, s:f, s:s, s:i, s:f, s:s, s:f, s:i}", "name", side->name, "profile",
                     side->profile != NULL ? side->profile : "the one that ships", "mode",
                     wane_mode_name(q->mode), "governor", q->governor, "stability", (double)q->stability,
                     "fuse", wane_fuse_name(q->fuse), "fuse_window", q->fuse_window, "fuse_limit",
                     (double)q->fuse_limit, "fallback", wane_fallback_name(q->fallback), "consistency",
                     (double)q->consistency, "clamp", q->clamp);
}

static int tokens_of(const struct governor_bench *bench, int set) {
    bool given = bench->settings->value[SET_TOKENS].source != FROM_DEFAULT;
    return given ? setting_int(bench->settings, SET_TOKENS) : most_tokens[set];
}

/* What a line of replies depends on, and no other run's may be. */
static json_t *head_json(const struct governor_bench *bench) {
    json_t *sides = json_array();
    for (int s = 0; s < GOVERNOR_SIDES; s++) json_array_append_new(sides, side_json(&bench->side[s]));
    return json_pack("{s:s, s:s, s:f, s:I, s:i, s:i, s:i, s:o}", "bench", "governor", "model", bench->model,
                     "temperature", bench->temperature, "seed", (json_int_t)bench->seed, "text_tokens",
                     tokens_of(bench, GOVERNOR_TEXT), "question_tokens", tokens_of(bench, GOVERNOR_QUESTIONS),
                     "task_tokens", tokens_of(bench, GOVERNOR_TASKS), "sides", sides);
}

static bool write_line(FILE *file, json_t *line) {
    char *text = json_dumps(line, JSON_COMPACT);
    bool fine = text != NULL && fprintf(file, "%s\n", text) > 0 && fflush(file) == 0;
    free(text);
    json_decref(line);
    return fine;
}

static int by_name(const void *a, const void *b) {
    const struct governor_item *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static struct governor_item **sorted(const struct governor_bench *bench) {
    struct governor_item **list = text_alloc((size_t)bench->count * sizeof(struct governor_item *));
    for (int i = 0; i < bench->count; i++) list[i] = &bench->item[i];
    qsort(list, (size_t)bench->count, sizeof(struct governor_item *), by_name);
    return list;
}

/* A line of a run before. One that was cut, or that is about something else, says nothing. */
static void take_line(struct run *run, struct governor_item **list, const char *text) {
    struct governor_bench *bench = run->bench;
    json_t *line = json_loads(text, 0, NULL);
    const char *name = json_string_value(json_object_get(line, "item")),
               *side = json_string_value(json_object_get(line, "side")),
               *reply = json_string_value(json_object_get(line, "reply"));
    const json_t *loops = json_object_get(line, "loop"), *right = json_object_get(line, "right");
    struct governor_item key = {.name = (char *)(uintptr_t)name}, *wanted = &key;
    struct governor_item **found =
        name != NULL ? bsearch(&wanted, list, (size_t)bench->count, sizeof(struct governor_item *), by_name)
                     : NULL;
    for (int s = 0; s < GOVERNOR_SIDES && found != NULL && side != NULL && reply != NULL; s++) {
        struct governor_reply *r = &(*found)->reply[s];
        if (strcmp(side, bench->side[s].name) != 0 || r->done || !json_is_boolean(loops)) continue;
        *r =
            (struct governor_reply){.done = true, .loops = json_is_true(loops), .right = json_is_true(right)};
        if ((*found)->set == GOVERNOR_TEXT) r->text = text_copy(reply);
        run->done++;
    }
    json_decref(line);
}

/* What is there already; `whole`: its last line has an end. */
static int take_file(struct run *run, const char *path, bool *empty, bool *whole) {
    FILE *file = fopen(path, "re");
    *empty = *whole = true;
    if (file == NULL && errno == ENOENT) return EXIT_FINE;
    if (file == NULL) return cli_fail(EXIT_FAILED, "cannot read %s: %s", path, strerror(errno));
    struct governor_item **list = sorted(run->bench);
    char *line = NULL;
    size_t room = 0;
    int code = EXIT_FINE;
    json_t *own = head_json(run->bench);
    for (ssize_t size; code == EXIT_FINE && (size = getline(&line, &room, file)) > 0;) {
        *whole = line[size - 1] == '\n';
        if (*empty) {
            json_t *head = json_loads(line, 0, NULL);
            if (!json_equal(head, own))
                code = cli_fail(
                    EXIT_FAILED,
                    "%s holds something else than replies of this run (another model, temperature, seed, "
                    "length, profile or side); give it another --output",
                    path);
            json_decref(head);
        } else {
            take_line(run, list, line);
        }
        *empty = false;
    }
    json_decref(own);
    free(line);
    free(list);
    fclose(file);
    return code;
}

static int open_file(struct run *run, const char *path) {
    bool empty, whole;
    int code = take_file(run, path, &empty, &whole);
    if (code != EXIT_FINE) return code;
    run->file = fopen(path, "ae");
    if (run->file == NULL) return cli_fail(EXIT_FAILED, "cannot write %s: %s", path, strerror(errno));
    if (!whole) fputc('\n', run->file);
    if (empty && !write_line(run->file, head_json(run->bench)))
        return cli_fail(EXIT_FAILED, "cannot write %s: %s", path, strerror(errno));
    return EXIT_FINE;
}

/* ---- judging ------------------------------------------------------------------------------------------------------- */

static int bad_judge(const char *command, wane_error *error, const char *why) {
    error->code = WANE_EINVAL;
    snprintf(
        error->text, sizeof error->text,
        "The judge \"%.200s\" %s. It gets {\"reply\": …, \"task\": {…}} on standard input and ends with 0 "
        "(right) or 1 (wrong).",
        command, why);
    return WANE_EINVAL;
}

/* The command gets reply and task, and says by its exit code whether that is right. */
static int ask_judge(const char *command, const char *reply, const char *task, bool *right,
                     wane_error *error) {
    char *words[] = {(char *)(uintptr_t) "/bin/sh", (char *)(uintptr_t) "-c", (char *)(uintptr_t)command,
                     NULL};
    int ends[2], status = 0;
    pid_t child;
    posix_spawn_file_actions_t actions;
    json_t *object =
        json_pack("{s:o, s:o}", "reply", json_text(reply, strlen(reply)), "task", json_loads(task, 0, NULL));
    char *text = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    if (text == NULL || !os_pipe(ends)) {
        free(text);
        return bad_judge(command, error, "cannot be asked: there is no pipe");
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[0], 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    int failed = posix_spawn(&child, "/bin/sh", &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[0]);
    for (size_t at = 0, size = strlen(text); failed == 0 && at < size;) {
        ssize_t wrote = write(ends[1], text + at, size - at);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) break; /* it has read enough to judge */
        at += (size_t)wrote;
    }
    close(ends[1]);
    free(text);
    if (failed != 0) return bad_judge(command, error, "cannot be started");
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (!WIFEXITED(status) || WEXITSTATUS(status) > 1)
        return bad_judge(command, error, "said neither right nor wrong");
    *right = WEXITSTATUS(status) == 0;
    return WANE_OK;
}

static int judge(const struct governor_bench *bench, const struct governor_item *item,
                 struct governor_reply *reply, wane_error *error) {
    int period, code = wane_text_loop(reply->text, strlen(reply->text), &period, error);
    reply->loops = period > 0;
    if (code == WANE_OK && item->set == GOVERNOR_QUESTIONS)
        code = wane_text_finds(item->wanted, reply->text, strlen(reply->text), ANSWER_CHARACTERS,
                               &reply->right, error);
    if (code == WANE_OK && item->set == GOVERNOR_TASKS)
        code = ask_judge(bench->judge, reply->text, item->wanted, &reply->right, error);
    return code;
}

/* ---- asking -------------------------------------------------------------------------------------------------------- */

/* A reply to its end; its text is the caller's. */
static int read_reply(wane_ticket *ticket, char **text, wane_event *end, wane_error *error) {
    size_t size = 0;
    *text = text_copy("");
    for (bool ended = false; !ended;) {
        wane_event event;
        int code = wane_ticket_next(ticket, 1000, &event, &ended, error);
        if (interrupt_seen()) wane_ticket_cancel(ticket);
        if (code == WANE_ETIMEOUT && !ended) continue;
        if (code != WANE_OK) return code;
        *text = text_grow(*text, size + event.text_size + 1);
        if (event.text_size > 0) memcpy(*text + size, event.text, event.text_size);
        size += event.text_size;
        (*text)[size] = '\0';
        if (event.kind == WANE_EVENT_END) *end = event;
    }
    return WANE_OK;
}

static int ask(struct run *run, const struct governor_item *item, int side, char **text, wane_event *end,
               wane_error *error) {
    wane_message message = {"user", item->prompt, strlen(item->prompt)};
    wane_tokens tokens = {0};
    wane_generation g;
    wane_ticket *ticket = NULL;
    wane_generation_init(&g);
    g.sampling.temperature = (float)run->bench->temperature;
    g.sampling.seeded = true;
    g.sampling.seed = item->seed;
    g.max_tokens = tokens_of(run->bench, item->set);
    g.no_memo = true;
    g.quality = &run->bench->side[side].quality;
    int code = wane_chat_tokenize(run->model, &message, 1, &tokens, error);
    if (code == WANE_OK)
        code = wane_scheduler_submit(run->scheduler, tokens.id, tokens.count, &g, &ticket, error);
    if (code == WANE_OK) code = read_reply(ticket, text, end, error);
    wane_ticket_free(ticket);
    wane_tokens_free(&tokens);
    return code;
}

static const char *finish_name(const wane_event *end) {
    switch (end->finish) {
    case WANE_FINISH_END: return "end";
    case WANE_FINISH_LENGTH: return "length";
    case WANE_FINISH_CONTEXT: return "context";
    case WANE_FINISH_FUSE: return "fuse";
    default: return "other";
    }
}

/* With the lock. False: it cannot be written down. */
static bool keep(struct run *run, struct governor_item *item, int side, struct governor_reply *reply,
                 const wane_event *end) {
    bool fine = true;
    if (run->file != NULL)
        fine = write_line(run->file,
                          json_pack("{s:s, s:s, s:o, s:s, s:i, s:b, s:o}", "item", item->name, "side",
                                    run->bench->side[side].name, "reply",
                                    json_text(reply->text, strlen(reply->text)), "finish", finish_name(end),
                                    "tokens", end->reply_tokens, "loop", reply->loops, "right",
                                    item->wanted != NULL ? json_boolean(reply->right) : json_null()));
    reply->done = true;
    item->reply[side] = *reply;
    run->done++;
    if (item->set != GOVERNOR_TEXT) {
        free(reply->text);
        item->reply[side].text = NULL;
    }
    return fine;
}

static void one(struct run *run, struct governor_item *item, int side) {
    struct governor_reply reply = {0};
    wane_error error = {0};
    wane_event end = {0};
    int code = ask(run, item, side, &reply.text, &end, &error);
    if (code == WANE_OK) code = judge(run->bench, item, &reply, &error);
    pthread_mutex_lock(&run->lock);
    int all = run->bench->count * GOVERNOR_SIDES;
    if (code == WANE_OK && interrupt_seen())
        code = error.code = WANE_ECANCELLED; /* its judge may have been stopped */
    if (code == WANE_OK && !keep(run, item, side, &reply, &end)) {
        code = error.code = WANE_EIO;
        snprintf(error.text, sizeof error.text, "The replies cannot be written: %s.", strerror(errno));
    } else if (code != WANE_OK) {
        free(reply.text);
    }
    if (code != WANE_OK && run->code == WANE_OK) {
        run->code = code;
        run->error = error;
    }
    char what[60];
    snprintf(what, sizeof what, "%d of %d replies", run->done, all);
    progress_show(what, (double)run->done / all);
    pthread_mutex_unlock(&run->lock);
}

static void *client(void *user) {
    struct run *run = user;
    for (;;) {
        pthread_mutex_lock(&run->lock);
        int all = run->bench->count * GOVERNOR_SIDES, at = -1;
        while (run->next < all && at < 0 && run->code == WANE_OK && !interrupt_seen()) {
            at = run->next++;
            if (run->bench->item[at / GOVERNOR_SIDES].reply[at % GOVERNOR_SIDES].done) at = -1;
        }
        pthread_mutex_unlock(&run->lock);
        if (at < 0) return NULL;
        one(run, &run->bench->item[at / GOVERNOR_SIDES], at % GOVERNOR_SIDES);
    }
}

static int ask_all(struct run *run) {
    pthread_t *thread = text_alloc((size_t)run->bench->streams * sizeof *thread);
    wane_scheduler_options options;
    int started = 0, code = EXIT_FINE;
    wane_scheduler_options_init(&options);
    options.max_batch_requests = 64;
    if (wane_scheduler_new(run->model, &options, &run->scheduler, &run->error) != WANE_OK)
        code = cli_fail_wane(&run->error);
    while (code == EXIT_FINE && started < run->bench->streams &&
           pthread_create(&thread[started], NULL, client, run) == 0)
        started++;
    if (code == EXIT_FINE && started == 0) client(run);
    for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
    progress_clear();
    free(thread);
    wane_scheduler_free(run->scheduler);
    if (code != EXIT_FINE) return code;
    if (interrupt_seen()) {
        if (run->file != NULL) cli_say("stopped; the same command goes on from here");
        return EXIT_INTERRUPTED;
    }
    return run->code != WANE_OK ? cli_fail_wane(&run->error) : EXIT_FINE;
}

int governor_run(struct governor_bench *bench, wane_model *model, const char *path) {
    struct run run = {.bench = bench, .model = model, .lock = PTHREAD_MUTEX_INITIALIZER};
    int code = path != NULL ? open_file(&run, path) : EXIT_FINE;
    if (code == EXIT_FINE) code = ask_all(&run);
    if (run.file != NULL && fclose(run.file) != 0 && code == EXIT_FINE)
        code = cli_fail(EXIT_FAILED, "cannot write %s: %s", path, strerror(errno));
    return code;
}
