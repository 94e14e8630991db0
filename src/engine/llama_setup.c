/*
 * llama_setup.c - what belongs to the process and not to one model: the engine's plug-ins and its log; and a
 * look at a model file before the engine sees it.
 *
 * libllama has ONE log callback and ONE list of backends a process, so this file is the only place in
 * wane with state outside an object: two guards, the version text, and a thread's pointer to whoever listens
 * to the engine on that thread. The pointer is per thread because the engine logs on the thread that
 * called it; so two models never mix their lines, and nothing dangles when a model is freed.
 *
 * Refuses files that are not GGUF with a sentence of its own; the engine would only say "failed".
 */
#include "engine/llama_internal.h"

#include "core/error.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* -------------------------------------------------------------------- words */

static _Thread_local struct wane__llama_words *listener;

static int level_of(enum ggml_log_level level) {
    switch (level) {
    case GGML_LOG_LEVEL_ERROR: return WANE_LOG_ERROR;
    case GGML_LOG_LEVEL_WARN: return WANE_LOG_WARN;
    case GGML_LOG_LEVEL_INFO: return WANE_LOG_INFO;
    default: return WANE_LOG_DEBUG;
    }
}

static void end_line(struct wane__llama_words *words) {
    if (words->line_size == 0) return;
    words->line[words->line_size] = '\0';
    words->line_size = 0;
    /* The engine's info lines are a loader's diary: hundreds a model. People who want them ask for debug. */
    int level = words->level == WANE_LOG_INFO ? WANE_LOG_DEBUG : words->level;
    /* Said of the cells of all sequences together, which it takes for one; llama.c compares what one may hold. */
    if (strstr(words->line, "training context overflow") != NULL) level = WANE_LOG_DEBUG;
    wane__log(words->log, level, "engine: %s", words->line);
    if (words->level != WANE_LOG_ERROR) return;
    size_t used = strlen(words->errors);
    snprintf(words->errors + used, sizeof words->errors - used, "%s%s", used > 0 ? "; " : "", words->line);
}

/* The engine hands over pieces of lines; CONT means: more of the same. */
static void hear(enum ggml_log_level level, const char *text, void *user) {
    (void)user;
    struct wane__llama_words *words = listener;
    if (words == NULL) return;
    if (level != GGML_LOG_LEVEL_CONT) {
        end_line(words);
        words->level = level_of(level);
    }
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '\n') {
            end_line(words);
        } else if (words->line_size < sizeof words->line - 1) {
            words->line[words->line_size++] = *c;
        }
    }
}

void wane__llama_words_enter(struct wane__llama_words *words, struct wane__log *log) {
    words->log = log;
    words->outer = listener;
    words->line_size = 0;
    words->level = WANE_LOG_INFO;
    words->errors[0] = '\0';
    listener = words;
}

void wane__llama_words_leave(struct wane__llama_words *words) {
    end_line(words);
    listener = words->outer;
}

/* ----------------------------------------------------------------- plug-ins */

static pthread_once_t engine_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t backends_lock = PTHREAD_MUTEX_INITIALIZER;
static char version_text[96];

static void start_engine(void) {
    llama_log_set(hear, NULL);
    llama_backend_init();
    const char *commit = ggml_commit();
    bool known = commit != NULL && commit[0] != '\0' && strcmp(commit, "unknown") != 0;
    snprintf(version_text, sizeof version_text, known ? "%s (%s)" : "%s", llama_version(),
             known ? commit : "");
}

const char *wane__llama_version(void) {
    pthread_once(&engine_once, start_engine);
    return version_text;
}

static bool holds_plugins(const char *folder) {
    DIR *d = folder == NULL || folder[0] == '\0' ? NULL : opendir(folder);
    if (d == NULL) return false;
    bool found = false;
    for (struct dirent *e; !found && (e = readdir(d)) != NULL;) {
        found = strncmp(e->d_name, "libggml-cpu", 11) == 0 || strncmp(e->d_name, "ggml-cpu", 8) == 0;
    }
    closedir(d);
    return found;
}

static bool cpu_is_there(void) {
    return ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU) != NULL;
}

/* The folder in which the loaded engine itself lies, or `below` in it. */
static bool beside_engine(char *folder, size_t size, const char *below) {
    Dl_info info;
    void *address;
    const char *(*function)(void) = llama_version;
    memcpy(&address, &function, sizeof address); /* ISO C has no cast from a function's pointer */
    if (dladdr(address, &info) == 0 || info.dli_fname == NULL) return false;
    const char *slash = strrchr(info.dli_fname, '/');
    if (slash == NULL) return false;
    int n = snprintf(folder, size, "%.*s%s", (int)(slash - info.dli_fname), info.dli_fname, below);
    return n > 0 && (size_t)n < size;
}

static int load_backends(const char *given, struct wane__log *log, wane_error *error) {
    if (cpu_is_there()) return WANE_OK; /* built into the engine, or loaded before */
    if (given != NULL && !holds_plugins(given)) {
        return wane__fail(error, WANE_ENOENT, "No engine plug-ins (libggml-cpu*) in \"%s\".", given);
    }
    const char *compiled = "";
#ifdef WANE_ENGINE_LIB_DIR
    compiled = WANE_ENGINE_LIB_DIR;
#endif
    char beside[4096] = "", below[4096] = "";
    beside_engine(beside, sizeof beside, "");
    beside_engine(below, sizeof below, "/wane");
    const char *places[] = {given, getenv("WANE_BACKENDS"), beside, below, compiled};
    for (size_t i = 0; i < sizeof places / sizeof *places && !cpu_is_there(); i++) {
        if (!holds_plugins(places[i])) continue;
        wane__log(log, WANE_LOG_DEBUG, "engine plug-ins: %s", places[i]);
        ggml_backend_load_all_from_path(places[i]);
    }
    if (cpu_is_there()) return WANE_OK;
    return wane__fail(
        error, WANE_ENOENT,
        "No engine plug-ins (libggml-cpu*) that this processor can run; looked in WANE_BACKENDS, \"%s\", "
        "\"%s\". Set WANE_BACKENDS to the folder that holds them.",
        compiled, beside);
}

int wane__llama_backends(const char *folder, struct wane__log *log, wane_error *error) {
    struct wane__llama_words words;
    pthread_once(&engine_once, start_engine);
    wane__llama_words_enter(&words, log);
    pthread_mutex_lock(&backends_lock); /* tried again after a failure, with another folder */
    int rc = load_backends(folder, log, error);
    pthread_mutex_unlock(&backends_lock);
    wane__llama_words_leave(&words);
    return rc;
}

/* --------------------------------------------------------------------- file */

static int check_open(int fd, const char *path, uint64_t *bytes, wane_error *error) {
    struct stat st;
    if (fstat(fd, &st) != 0)
        return wane__fail(error, WANE_EIO, "Cannot look at \"%s\": %s.", path, strerror(errno));
    if (S_ISDIR(st.st_mode)) {
        return wane__fail(error, WANE_EFORMAT, "\"%s\" is a folder; name the .gguf file in it.", path);
    }
    if (!S_ISREG(st.st_mode)) return wane__fail(error, WANE_EFORMAT, "\"%s\" is not a regular file.", path);
    if (st.st_size == 0) return wane__fail(error, WANE_EFORMAT, "\"%s\" is empty.", path);
    unsigned char head[24] = {0};
    ssize_t got = pread(fd, head, sizeof head, 0);
    if (got < 0) return wane__fail(error, WANE_EIO, "Cannot read \"%s\": %s.", path, strerror(errno));
    size_t compare = got < 4 ? (size_t)got : 4;
    if (memcmp(head, "GGUF", compare) != 0) {
        return wane__fail(error, WANE_EFORMAT, "\"%s\" is not a GGUF file: it does not start with \"GGUF\".",
                          path);
    }
    if ((size_t)got < sizeof head) {
        return wane__fail(error, WANE_EFORMAT, "\"%s\" is cut short: %zd bytes are less than a GGUF header.",
                          path, got);
    }
    uint32_t version =
        (uint32_t)head[4] | (uint32_t)head[5] << 8 | (uint32_t)head[6] << 16 | (uint32_t)head[7] << 24;
    if (version < 2 || version > 3) {
        return wane__fail(error, WANE_EFORMAT,
                          "\"%s\" is GGUF version %u; this engine reads versions 2 and 3%s.", path, version,
                          (version & 0xffffu) == 0 ? " (it looks big-endian)" : "");
    }
    *bytes = (uint64_t)st.st_size;
    return WANE_OK;
}

int wane__llama_check_file(const char *path, uint64_t *bytes, wane_error *error) {
    if (path == NULL || path[0] == '\0') return wane__fail(error, WANE_EINVAL, "No model file was named.");
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not make us wait */
    if (fd < 0) {
        int code = errno == ENOENT || errno == ENOTDIR ? WANE_ENOENT : WANE_EIO;
        return wane__fail(error, code, "Cannot open the model \"%s\": %s.", path, strerror(errno));
    }
    int rc = check_open(fd, path, bytes, error);
    close(fd);
    return rc;
}
