/*
 * cmd_exec.c - `wane exec`: start a program with the certified head under its libllama. The program takes this process's place:
 * nothing of wane stays beside it, and signals and the exit code are its own.
 */
#include "cli.h"
#include "os.h"
#include "text.h"
#include "wane/exec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What shells say of a program that is not there, and of one that cannot be started. */
enum { EXIT_NO_PROGRAM = 127, EXIT_NOT_STARTED = 126 };

/* Variables of options that were given; others stay as they are. */
static void give_options(const struct settings *settings) {
    static const int passed[] = {SET_HEAD,      SET_HEAD_SIGMAS, SET_EXEC_STATS, SET_EXEC_SHARE,
                                 SET_EXEC_ROWS, SET_EXEC_SHADOW, SET_EXEC_BUILD, SET_EXEC_QUIET};
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
        const struct setting *setting = &settings_table[passed[i]];
        const struct setting_value *value = &settings->value[passed[i]];
        if (value->source != FROM_OPTION) continue;
        char *text = setting->type == TYPE_SWITCH ? text_copy(setting_on(settings, passed[i]) ? "1" : "0")
                     : setting->type == TYPE_REAL ? text_format("%.17g", value->real)
                                                  : text_copy(setting_text(settings, passed[i]));
        setenv(setting->environment, text, 1);
        free(text);
    }
}

static void give_library(const char *library) {
    const char *before = getenv(WANE_EXEC_PRELOAD);
    char *list =
        before != NULL && before[0] != '\0' ? text_format("%s:%s", before, library) : text_copy(library);
    setenv(WANE_EXEC_PRELOAD, list, 1);
    free(list);
    char *folder = os_program_folder(), *own = folder != NULL ? text_format("%s/wane", folder) : NULL;
    if (own != NULL) setenv("WANE_EXEC_PROGRAM", own, 1);
    free(own);
    free(folder);
}

static int start(const struct settings *settings, const char *path) {
    char **arguments = text_alloc(((size_t)settings->operand_count + 1) * sizeof *arguments);
    memcpy(arguments, settings->operands, (size_t)settings->operand_count * sizeof *arguments);
    arguments[settings->operand_count] = NULL;
    out_flush();
    execv(path, arguments);
    int code = errno == ENOENT ? EXIT_NO_PROGRAM : EXIT_NOT_STARTED;
    cli_say("%s cannot be started: %s", path, strerror(errno));
    free(arguments);
    return code;
}

int command_exec(struct settings *settings) {
    char library[4096];
    wane_error error = {0};
    static wane_exec_look look;
    if (settings->operand_count == 0)
        return cli_usage("exec", "wane exec needs a program: wane exec -- PROGRAM ARGUMENT...");
    bool quiet = setting_on(settings, SET_EXEC_QUIET);
    if (wane_exec_library(library, sizeof library, &error) != WANE_OK) return cli_fail_wane(&error);
    int result = wane_exec_look_at(settings->operands[0], library, &look, &error);
    if (result != WANE_OK)
        return cli_fail(result == WANE_ENOENT ? EXIT_NO_PROGRAM : EXIT_NOT_STARTED, "%s", error.text);
    if (look.verdict == WANE_EXEC_UNKNOWN && !quiet)
        cli_say("%s: %s; %s runs as it would without wane", look.library, look.reason, settings->operands[0]);
    if (look.verdict == WANE_EXEC_INSIDE && !quiet)
        cli_say(
            "llama.cpp is linked into %s, with no libllama to stand before; it runs as it would without wane",
            look.program);
    if (look.verdict == WANE_EXEC_KNOWN || look.verdict == WANE_EXEC_LATER) {
        give_options(settings);
        give_library(library);
    }
    return start(settings, look.program);
}
