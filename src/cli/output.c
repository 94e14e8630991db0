/*
 * output.c - the two outputs, and how the program starts and ends.
 *
 * Owns the state of standard output: after the first failed write nothing more is tried. A closed pipe (the reader
 * has had enough) ends the program quietly; a full disk or a closed descriptor is an error.
 */
#include "cli.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int out_error; /* errno of the first write that failed; 0: none */

void cli_start(void) {
    /* A file opened while descriptor 1 is closed would become standard output and be written to. The wrong
     * direction makes later writes and reads fail with EBADF, as on a closed descriptor. */
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) < 0)
            _exit(1);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of its write, not the end */
    /* Line editing needs to know that bytes above 127 are UTF-8; numbers keep their point. */
    const char *set = setlocale(LC_CTYPE, "");
    if (set != NULL && strcmp(set, "C") != 0 && strcmp(set, "POSIX") != 0) return;
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL) setlocale(LC_CTYPE, "UTF-8"); /* as macOS calls it */
}

static bool note(bool good) {
    if (!good && out_error == 0) out_error = errno != 0 ? errno : EIO;
    return out_error == 0;
}

bool out_flush(void) {
    errno = 0;
    return out_error == 0 && note(fflush(stdout) == 0);
}

bool out_text(const char *text, size_t size) {
    errno = 0;
    return out_error == 0 && note(fwrite(text, 1, size, stdout) == size);
}

bool out_format(const char *format, ...) {
    if (out_error != 0) return false;
    va_list arguments;
    va_start(arguments, format);
    errno = 0;
    int wrote = vfprintf(stdout, format, arguments);
    va_end(arguments);
    return note(wrote >= 0);
}

static int write_json(const char *text, size_t size, void *unused) {
    (void)unused;
    return out_text(text, size) ? 0 : -1;
}

bool out_json(json_t *value, bool one_line) {
    size_t flags = JSON_REAL_PRECISION(9) | (one_line ? JSON_COMPACT : JSON_INDENT(2));
    json_dump_callback(value, write_json, NULL, flags);
    json_decref(value);
    out_text("\n", 1);
    return out_flush();
}

int cli_end(int code) {
    progress_clear();
    out_flush();
    if (out_error == 0) return code;
    if (out_error == EPIPE) return code == EXIT_FAILED ? EXIT_FINE : code;
    return cli_fail(EXIT_FAILED, "cannot write to standard output: %s", strerror(out_error));
}

static void say(const char *format, va_list arguments) {
    progress_clear();
    fputs("wane: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

void cli_say(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
}

int cli_fail(int code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
    return code;
}

int cli_usage(const char *command, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *sentence = NULL;
    if (vasprintf(&sentence, format, arguments) < 0) sentence = text_copy(format);
    va_end(arguments);
    cli_say("%s; see \"wane help %s\"", sentence, command);
    free(sentence);
    return EXIT_USAGE;
}

int cli_fail_wane(const wane_error *error) {
    if (error->code == WANE_ECANCELLED) return EXIT_INTERRUPTED;
    cli_say("%s", error->text[0] != '\0' ? error->text : wane_strerror(error->code));
    return error->code == WANE_ENOENT   ? EXIT_NOT_FOUND
           : error->code == WANE_EINVAL ? EXIT_USAGE
                                        : EXIT_FAILED;
}

double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* To the end of `fd`, which is called `what`. */
static char *read_to_end(int fd, const char *what, size_t *size) {
    size_t capacity = 65536, used = 0;
    char *text = text_alloc(capacity);
    for (;;) {
        ssize_t got = read(fd, text + used, capacity - used - 1);
        if (got < 0 && errno == EINTR && !interrupt_seen()) continue;
        if (got < 0) {
            if (errno != EINTR) cli_say("cannot read %s: %s", what, strerror(errno));
            free(text);
            return NULL;
        }
        if (got == 0) break;
        used += (size_t)got;
        if (capacity - used < 4096) text = text_grow(text, capacity *= 2);
    }
    text[used] = '\0';
    *size = used;
    return text;
}

char *read_all_input(size_t *size) {
    return read_to_end(STDIN_FILENO, "standard input", size);
}

char *read_all_file(const char *path, size_t *size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        cli_say("cannot read %s: %s", path, strerror(errno));
        return NULL;
    }
    char *text = read_to_end(fd, path, size);
    close(fd);
    return text;
}

char *join_operands(const struct settings *settings, size_t *size) {
    char *text = text_copy("");
    for (size_t i = 0; i < settings->operand_count; i++) {
        char *longer = text_format("%s%s%s", text, i > 0 ? " " : "", settings->operands[i]);
        free(text);
        text = longer;
    }
    *size = strlen(text);
    return text;
}

json_t *json_text(const char *text, size_t size) {
    size_t good = text_utf8_prefix(text, size);
    if (good == size) return json_stringn_nocheck(text, size);
    char *clean = text_alloc(3 * size + 1);
    size_t used = 0;
    for (size_t at = 0; at < size;) {
        good = text_utf8_prefix(text + at, size - at);
        memcpy(clean + used, text + at, good);
        used += good;
        at += good;
        if (at == size) break;
        static const char replacement[] = {'\xEF', '\xBF', '\xBD'}; /* U+FFFD */
        memcpy(clean + used, replacement, sizeof replacement);
        used += sizeof replacement;
        at++;
    }
    json_t *value = json_stringn_nocheck(clean, used);
    free(clean);
    return value;
}

char *token_quoted(const wane_model *model, int32_t token) {
    char bytes[256];
    if (model == NULL) return text_format("%d", token);
    int size = wane_token_bytes(model, token, true, bytes, sizeof bytes);
    json_t *text = json_text(bytes, size > 0 ? (size_t)size : 0);
    char *quoted = json_dumps(text, JSON_ENCODE_ANY);
    json_decref(text);
    return quoted;
}

json_t *json_ms(double value) {
    return json_real(round(value * 1e3) / 1e3);
}

json_t *json_known(double value) {
    return isnan(value) ? json_null() : json_real(value);
}
