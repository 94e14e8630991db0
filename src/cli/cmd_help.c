/* cmd_help.c - `wane help`: every text about options is made from the settings table. */
#include "cli.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_overview(void) {
    out_format("usage: wane COMMAND [OPTION...]\n\nwane serves GGUF models through libllama.\n\n");
    for (int i = 0; i < cli_command_count; i++)
        out_format("  %-10s %s\n", cli_commands[i].name, cli_commands[i].summary);
    out_format(
        "\n\"wane help COMMAND\" or \"wane COMMAND --help\" explains one; \"man wane\" has all of it.\n"
        "Exit codes: 0 fine, 1 failed, 2 wrong usage, 3 no such model, 130 interrupted.\n");
}

/* "--mmap" is on already: its help shows the way to turn it off. */
static bool shows_negated(const struct setting *setting) {
    return setting->type == TYPE_SWITCH && setting->fallback != NULL && strcmp(setting->fallback, "on") == 0;
}

static void print_option(const struct setting *setting) {
    char left[80], range[200];
    int used = snprintf(left, sizeof left, setting->letter != 0 ? "-%c, " : "    ", setting->letter);
    snprintf(left + used, sizeof left - (size_t)used, "--%s%s%s%s", shows_negated(setting) ? "[no-]" : "",
             setting->option, setting->argument != NULL ? " " : "",
             setting->argument != NULL ? setting->argument : "");
    out_format("  %-32s %s", left, setting->help);
    settings_range(setting, range, sizeof range);
    bool numeric = setting->type == TYPE_INTEGER || setting->type == TYPE_REAL;
    if (setting->type == TYPE_CHOICE || numeric) out_format("; %s", range);
    if (setting->type != TYPE_SWITCH && setting->fallback != NULL) out_format(" (%s)", setting->fallback);
    out_format("\n");
}

static void print_options(unsigned mask) {
    const char *group = "";
    for (int id = 0; id < SETTING_COUNT; id++) {
        const struct setting *setting = &settings_table[id];
        if (!(setting->commands & mask)) continue;
        if (strcmp(group, setting->group) != 0) out_format("\n%s:\n", setting->group);
        group = setting->group;
        print_option(setting);
    }
}

void help_print(const struct command *command) {
    if (command == NULL) {
        print_overview();
        return;
    }
    out_format("usage: %s\n", command->usage);
    if (command->description != NULL) out_format("\n%s\n", command->description);
    print_options(command->mask);
    if (command->mask & FOR_CONFIG)
        out_format("\nWith --json: an object with file, file_read and settings.\n");
    if (command->mask & (FOR_CONFIG | FOR_RUN | FOR_SERVE | FOR_TOKENIZE | FOR_BENCH))
        out_format("\nDefaults stand in brackets. Most options are environment variables and keys of the "
                   "settings file, too:\n"
                   "\"wane help --table\" lists them.\n");
}

/* ---- for other programs --------------------------------------------------------------------------------------- */

static void print_commands(unsigned commands) {
    const char *link = "";
    for (int i = 0; i < cli_command_count; i++) {
        if (!(cli_commands[i].mask & commands)) continue;
        out_format("%s%s", link, cli_commands[i].name);
        link = ", ";
    }
}

static void print_table(void) {
    out_format("| option | variable | key | value | default | for | what |\n|---|---|---|---|---|---|---|\n");
    for (int id = 0; id < SETTING_COUNT; id++) {
        const struct setting *setting = &settings_table[id];
        char range[200];
        settings_range(setting, range, sizeof range);
        out_format("| `--%s%s`", shows_negated(setting) ? "no-" : "", setting->option);
        if (setting->letter != 0) out_format(", `-%c`", setting->letter);
        out_format(" | %s%s%s", setting->environment != NULL ? "`" : "",
                   setting->environment != NULL ? setting->environment : "",
                   setting->environment != NULL ? "`" : "");
        out_format(" | %s%s%s", setting->key != NULL ? "`" : "", setting->key != NULL ? setting->key : "",
                   setting->key != NULL ? "`" : "");
        out_format(" | %s | %s | ", range, setting->fallback != NULL ? setting->fallback : "not set");
        if (setting->commands == FOR_ALL)
            out_format("all");
        else
            print_commands(setting->commands);
        out_format(" | %s |\n", setting->help);
    }
}

/* A word a line: with a blank and a kind behind it where a value follows ("--model FILE"). */
static void print_words(const struct command *command) {
    if (command == NULL) {
        for (int i = 0; i < cli_command_count; i++) out_format("%s\n", cli_commands[i].name);
        return;
    }
    for (const char *at = command->words; at != NULL && *at != '\0';) {
        size_t length = strcspn(at, " ");
        out_format("%.*s\n", (int)length, at);
        at += length + (at[length] == ' ');
    }
    for (int id = 0; id < SETTING_COUNT; id++) {
        const struct setting *setting = &settings_table[id];
        if (!(setting->commands & command->mask)) continue;
        const char *kind = id == SET_MODEL                                             ? " MODEL"
                           : setting->type == TYPE_FILE || setting->type == TYPE_FILES ? " FILE"
                           : setting->argument != NULL                                 ? " VALUE"
                                                                                       : "";
        out_format("--%s%s%s%s\n", setting->option, kind, setting->choices != NULL ? " " : "",
                   setting->choices != NULL ? setting->choices : "");
        if (setting->type == TYPE_SWITCH && setting->key != NULL) out_format("--no-%s\n", setting->option);
    }
}

int command_help(struct settings *settings) {
    if (setting_on(settings, SET_TABLE)) {
        print_table();
        return EXIT_FINE;
    }
    if (settings->operand_count > 1) return cli_usage("help", "wane help explains one command at a time");
    const struct command *command = NULL;
    if (settings->operand_count == 1) {
        const char *name = settings->operands[0];
        struct nearest nearest = {.wanted = name};
        for (int i = 0; i < cli_command_count; i++) nearest_offer(&nearest, cli_commands[i].name);
        command = command_find(name);
        if (command == NULL && nearest.found != NULL)
            return cli_fail(EXIT_USAGE, "there is no command %.60s; did you mean %s?", name, nearest.found);
        if (command == NULL)
            return cli_fail(EXIT_USAGE, "there is no command %.60s; \"wane help\" lists them", name);
    }
    if (setting_on(settings, SET_WORDS))
        print_words(command);
    else
        help_print(command);
    return EXIT_FINE;
}
