/* main.c - dispatch: find the command, read its settings, run it. */
#include "cli.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

static int unknown_command(const char *name) {
    struct nearest nearest = {.wanted = name};
    for (int i = 0; i < cli_command_count; i++) nearest_offer(&nearest, cli_commands[i].name);
    if (nearest.found != NULL)
        return cli_fail(EXIT_USAGE, "there is no command %.60s; did you mean %s?", name, nearest.found);
    return cli_fail(EXIT_USAGE, "there is no command %.60s; \"wane help\" lists them", name);
}

/* Called as slmt_builder, the program is "wane table build". */
static bool is_builder(const char *program) {
    const char *name = strrchr(program, '/');
    return strcmp(name != NULL ? name + 1 : program, "slmt_builder") == 0;
}

/* "wane --help" and "wane --version" are commands in disguise. */
static const char *command_name(const char *given) {
    if (strcmp(given, "--help") == 0 || strcmp(given, "-h") == 0) return "help";
    if (strcmp(given, "--version") == 0 || strcmp(given, "-V") == 0) return "version";
    return given;
}

static int dispatch(int argc, char **argv);

static int dispatch_builder(int argc, char **argv) {
    char wane[] = "wane", table[] = "table", build[] = "build";
    char **words = text_alloc(((size_t)argc + 3) * sizeof *words);
    words[0] = wane;
    words[1] = table;
    words[2] = build;
    for (int i = 1; i < argc; i++) words[i + 2] = argv[i];
    int code = dispatch(argc + 2, words);
    free(words);
    return code;
}

static int dispatch(int argc, char **argv) {
    if (argc < 2) {
        help_print(NULL);
        return EXIT_USAGE;
    }
    const struct command *command = command_find(command_name(argv[1]));
    if (command == NULL) return unknown_command(argv[1]);
    struct settings settings;
    struct complaint complaint;
    settings_init(&settings);
    int code = EXIT_FINE;
    if (!settings_load(&settings, command->mask, command->name, argc - 2, argv + 2, &complaint))
        code = cli_fail(EXIT_USAGE, "%s", complaint.text);
    else if (setting_on(&settings, SET_HELP))
        help_print(command);
    else
        code = command->run(&settings);
    settings_free(&settings);
    return code;
}

int main(int argc, char **argv) {
    cli_start();
    return cli_end(argc > 0 && is_builder(argv[0]) ? dispatch_builder(argc, argv) : dispatch(argc, argv));
}
