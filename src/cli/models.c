/*
 * models.c - from a name to a loaded model.
 *
 * A name is a path, or a file in the cache, or known to the helper `model`, which fetches it. This file knows no
 * list of models: the helper has it, with sizes and digests, and says how large a model is before it fetches.
 */
#include "cli.h"
#include "os.h"
#include "text.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

char *models_folder(void) {
    const char *cache = getenv("WANE_CACHE"), *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache != NULL && cache[0] != '\0') return text_format("%s/models", cache);
    if (base != NULL && base[0] != '\0') return text_format("%s/wane/models", base);
    return text_format("%s/.cache/wane/models", home != NULL ? home : "");
}

static bool is_file(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && !S_ISDIR(status.st_mode);
}

/* WANE_LIBEXEC, beside the program as installed, the folder of the installation, the source tree; NULL: nowhere. */
static char *find_helper(void) {
    const char *named = getenv("WANE_LIBEXEC");
    if (named != NULL && named[0] != '\0') {
        char *path = text_format("%s/model", named);
        if (is_file(path)) return path;
        free(path);
        return NULL; /* said outright: nothing else is tried */
    }
    char *folder = os_program_folder();
    char *tries[] = {folder != NULL ? text_format("%s/../libexec/wane/model", folder) : text_copy(""),
                     text_copy(WANE_LIBEXEC_DIR "/model"), text_copy(WANE_SCRIPT_DIR "/model")};
    free(folder);
    char *found = NULL;
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        if (found == NULL && is_file(tries[i]))
            found = tries[i];
        else
            free(tries[i]);
    }
    return found;
}

/* Everything that comes through the pipe; NULL when it breaks. */
static char *read_pipe(int fd) {
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size), *pipe_file = fdopen(fd, "r");
    if (memory == NULL || pipe_file == NULL) return NULL;
    for (int c; (c = getc(pipe_file)) != EOF;) putc(c, memory);
    fclose(pipe_file);
    fclose(memory);
    return text;
}

static int wait_for(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return -1;
    return WIFEXITED(status)            ? WEXITSTATUS(status)
           : WTERMSIG(status) == SIGINT ? EXIT_INTERRUPTED
                                        : EXIT_FAILED;
}

int model_helper(const char *const *arguments, char **output) {
    char *path = find_helper();
    if (path == NULL) {
        cli_say("the helper that fetches models is not there; set WANE_LIBEXEC to the folder that holds "
                "\"model\"");
        return -1;
    }
    char *argv[8] = {path};
    for (int i = 0; i < 6 && arguments[i] != NULL; i++) argv[i + 1] = text_copy(arguments[i]);
    int ends[2] = {-1, -1};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t pipe_only, none;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE); /* ignored here, not there */
    sigaddset(&pipe_only, SIGXFSZ);
    posix_spawnattr_setsigdefault(&attributes, &pipe_only);
    sigemptyset(&none); /* `serve` blocks Ctrl-C for itself */
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    if (output != NULL && os_pipe(ends)) posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    out_flush();
    setenv("WANE_MODEL_COMMAND", "wane model", 1); /* how the helper calls itself in its sentences */
    pid_t child;
    int failed = posix_spawn(&child, path, &actions, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (ends[1] >= 0) close(ends[1]);
    int code = -1;
    if (failed != 0) {
        cli_say("cannot run %s: %s", path, strerror(failed));
        if (ends[0] >= 0) close(ends[0]);
    } else {
        if (output != NULL) *output = read_pipe(ends[0]);
        code = wait_for(child);
    }
    for (int i = 0; argv[i] != NULL; i++) free(argv[i]);
    return code;
}

/* The model that the helper knows by this name: its download size in bytes, or -1; *hint: the nearest name. */
static long long known_size(const char *name, char **names, char **hint) {
    char *text = NULL;
    long long size = -1;
    *names = *hint = NULL;
    int code = model_helper((const char *const[]){"list", "--json", NULL}, &text);
    json_t *list = code == 0 && text != NULL ? json_loads(text, 0, NULL) : NULL;
    struct nearest nearest = {.wanted = name};
    size_t index;
    json_t *one;
    json_array_foreach(list, index, one) {
        const char *known = json_string_value(json_object_get(one, "name"));
        if (known == NULL) continue;
        if (strcmp(known, name) == 0) size = json_integer_value(json_object_get(one, "download_size"));
        nearest_offer(&nearest, known);
        char *longer = *names == NULL ? text_copy(known) : text_format("%s, %s", *names, known);
        free(*names);
        *names = longer;
    }
    if (nearest.found != NULL) *hint = text_copy(nearest.found);
    json_decref(list);
    free(text);
    return size;
}

static char *fetch(const char *name, int *code) {
    char *path = NULL;
    *code = model_helper((const char *const[]){"get", name, NULL}, &path);
    if (*code < 0) *code = EXIT_FAILED;
    if (*code != 0 || path == NULL) {
        free(path);
        return NULL;
    }
    path[strcspn(path, "\n")] = '\0';
    return path;
}

static char *fetch_known(const struct settings *settings, const char *name, int *code) {
    char *names, *hint;
    long long size = known_size(name, &names, &hint);
    char *path = NULL;
    *code = EXIT_NOT_FOUND;
    if (size < 0 && names == NULL) /* the helper has said why */
        cli_say("there is no model \"%.100s\" in the cache", name);
    else if (size < 0)
        cli_say("there is no model \"%.100s\"%s%s; a path will do, or one of %s", name,
                hint != NULL ? ", but there is " : "", hint != NULL ? hint : "", names);
    else if (setting_on(settings, SET_OFFLINE))
        cli_say("%s is not in the cache, and --offline forbids to fetch it; run: wane model get %s (%.0f MB)",
                name, name, (double)size / 1e6);
    else
        path = fetch(name, code);
    free(names);
    free(hint);
    return path;
}

static bool is_path(const char *name) {
    return strchr(name, '/') != NULL || (strlen(name) > 5 && strcmp(name + strlen(name) - 5, ".gguf") == 0);
}

char *model_here(const char *name) {
    if (is_file(name)) return text_copy(name);
    if (is_path(name)) return NULL;
    char *folder = models_folder();
    char *path = text_format("%s/%s.gguf", folder, name);
    free(folder);
    if (is_file(path)) return path;
    free(path);
    return NULL;
}

char *model_locate(const struct settings *settings, const char *name, int *code) {
    char *path = model_here(name);
    if (path != NULL) return path;
    if (!is_path(name)) return fetch_known(settings, name, code);
    *code =
        cli_fail(EXIT_NOT_FOUND, access(name, F_OK) == 0 ? "%s is a folder" : "there is no file %s", name);
    return NULL;
}

static void print_log(void *user, int level, const char *line) {
    (void)user;
    (void)level;
    cli_say("%s", line);
}

struct loading {
    char *what;
    bool (*stop)(void);
};

static bool loading_progress(void *user, const char *what, double share) {
    struct loading *loading = user;
    progress_show(strcmp(what, "head") == 0 ? "making the head's sketch, once" : loading->what, share);
    return !loading->stop();
}

static void engine_options(const struct settings *settings, const struct model_wish *wish,
                           wane_model_options *options) {
    const char *flash = setting_text(settings, SET_FLASH_ATTENTION);
    options->backends = setting_text(settings, SET_BACKENDS);
    options->threads = setting_int(settings, SET_THREADS);
    options->batch_threads = setting_int(settings, SET_BATCH_THREADS);
    options->context = setting_int(settings, SET_CONTEXT);
    if (options->context == 0) options->context = wish->least_context;
    options->sequences = wish->sequences > 0 ? wish->sequences : 1;
    options->batch = setting_int(settings, SET_BATCH);
    options->gpu_layers = setting_int(settings, SET_GPU_LAYERS);
    options->kv_type_k = setting_text(settings, SET_KV_TYPE_K);
    options->kv_type_v = setting_text(settings, SET_KV_TYPE_V);
    options->flash_attention = strcmp(flash, "auto") == 0 ? -1 : strcmp(flash, "on") == 0;
    options->no_mmap = !setting_on(settings, SET_MMAP);
    options->mlock = setting_on(settings, SET_MLOCK);
    options->vocab_only = wish->vocab_only;
    const char *head = wish->decodes ? setting_text(settings, SET_HEAD) : "dense";
    options->head_always = wish->always || strcmp(head, "always") == 0;
    options->head = wish->certified || strcmp(head, "dense") != 0 ? WANE_HEAD_CERTIFIED : WANE_HEAD_DENSE;
    options->head_sigmas = setting_float(settings, SET_HEAD_SIGMAS);
    options->head_rebuild = wish->rebuild;
    options->head_found = wish->found;
    if (wish->rebuild) options->head_statistics = setting_text(settings, SET_STATISTICS);
    options->head_kernel = setting_text(settings, SET_HEAD_KERNEL);
    options->shadow = wish->shadow < 0   ? 0
                      : wish->shadow > 0 ? wish->shadow
                                         : settings->value[SET_SHADOW].real;
    const char *repack = setting_text(settings, SET_REPACK);
    options->repack = strcmp(repack, "auto") == 0 ? -1 : strcmp(repack, "on") == 0;
    const char *draft = wish->drafts ? setting_text(settings, SET_DRAFT) : "off";
    options->draft = strcmp(draft, "auto") == 0     ? WANE_DRAFT_AUTO
                     : strcmp(draft, "always") == 0 ? WANE_DRAFT_ALWAYS
                                                    : WANE_DRAFT_OFF;
    options->draft_most = setting_int(settings, SET_DRAFT_MAX);
    options->log = wish->log != NULL ? wish->log : setting_on(settings, SET_VERBOSE) ? print_log : NULL;
    options->log_user = wish->log_user;
}

/* The model of a file; a WANE code, and nothing said. */
static int load(const struct settings *settings, const struct model_wish *wish, const char *path,
                const char *name, wane_model **model, wane_error *error) {
    struct loading loading = {text_format("loading %s", name),
                              wish->stop != NULL ? wish->stop : interrupt_seen};
    wane_model_options options;
    wane_model_options_init(&options);
    engine_options(settings, wish, &options);
    options.path = path;
    options.progress = loading_progress;
    options.progress_user = &loading;
    int result = wane_model_load(&options, model, error);
    progress_clear();
    free(loading.what);
    return result;
}

int model_load_here(const struct settings *settings, const struct model_wish *wish, wane_model **model,
                    wane_error *error) {
    const char *name = wish->name != NULL ? wish->name : setting_text(settings, SET_MODEL);
    char *path = model_here(name);
    *model = NULL;
    if (path == NULL) {
        *error = (wane_error){.code = WANE_ENOENT};
        snprintf(error->text, sizeof error->text, "there is no model \"%.200s\" on this machine", name);
        return WANE_ENOENT;
    }
    int result = load(settings, wish, path, name, model, error);
    free(path);
    return result;
}

int model_open(const struct settings *settings, const struct model_wish *wish, wane_model **model) {
    const char *name = wish->name != NULL ? wish->name : setting_text(settings, SET_MODEL);
    int code = EXIT_FAILED;
    wane_error error = {0};
    char *path = model_locate(settings, name, &code);
    if (path == NULL) return code;
    code = load(settings, wish, path, name, model, &error) == WANE_OK ? EXIT_FINE : cli_fail_wane(&error);
    free(path);
    return code;
}

int recorder_open(const struct settings *settings, wane_model *model, const char *folder,
                  wane_recorder **recorder) {
    wane_recorder_options options;
    wane_error error = {0};
    wane_recorder_options_init(&options);
    options.folder = folder;
    options.plain = !setting_on(settings, SET_COMPRESS);
    options.all_logits = setting_on(settings, SET_ALL_LOGITS);
    options.queue_bytes = (size_t)settings->value[SET_TRACE_QUEUE].integer;
    options.file_bytes = (size_t)settings->value[SET_TRACE_FILE_SIZE].integer;
    options.file_seconds = setting_int(settings, SET_TRACE_FILE_AGE);
    options.files = setting_int(settings, SET_TRACE_FILES);
    options.redact_file = setting_text(settings, SET_REDACT);
    return wane_recorder_open(model, &options, recorder, &error) == WANE_OK ? EXIT_FINE
                                                                            : cli_fail_wane(&error);
}

int memo_attach(const struct settings *settings, wane_model *model) {
    const char *file = setting_text(settings, SET_MEMO_FILE);
    wane_error error = {0};
    int result = wane_model_set_memo(model, (uint64_t)settings->value[SET_MEMO].integer, file, &error);
    if (result == WANE_OK)
        result = wane_model_set_memo_save(model, (unsigned)setting_int(settings, SET_MEMO_SAVE), &error);
    return result == WANE_OK ? EXIT_FINE : cli_fail_wane(&error);
}

int memo_save(wane_model *model) {
    wane_error error = {0};
    return wane_model_save_memo(model, &error) == WANE_OK ? EXIT_FINE : cli_fail_wane(&error);
}

void sampling_from(const struct settings *settings, wane_sampling *sampling) {
    const struct setting_value *seed = &settings->value[SET_SEED];
    sampling->temperature = setting_float(settings, SET_TEMPERATURE);
    sampling->top_k = setting_int(settings, SET_TOP_K);
    sampling->top_p = setting_float(settings, SET_TOP_P);
    sampling->min_p = setting_float(settings, SET_MIN_P);
    sampling->repeat_penalty = setting_float(settings, SET_REPEAT_PENALTY);
    sampling->presence_penalty = setting_float(settings, SET_PRESENCE_PENALTY);
    sampling->frequency_penalty = setting_float(settings, SET_FREQUENCY_PENALTY);
    sampling->penalty_window = setting_int(settings, SET_PENALTY_WINDOW);
    sampling->seeded = seed->seeded;
    sampling->seed = seed->seed;
}
