/*
 * settings_load.c - where values are looked for: the command's options, the file, the environment.
 *
 * Options are read first, because --config names the file; settings_set keeps the strongest source whatever the
 * order. Only variables of settings that the command takes are looked at.
 */
#include "settings_internal.h"
#include "text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    struct settings *settings;
    struct complaint *complaint;
    unsigned command;
    const char *command_name;
    int argc, at;
    char **argv;
};

static bool unknown_option(const struct options *options, const char *given) {
    struct nearest nearest = {.wanted = given};
    char negated[SETTING_COUNT][32];
    for (int id = 0; id < SETTING_COUNT; id++) {
        if (!(settings_table[id].commands & options->command)) continue;
        nearest_offer(&nearest, settings_table[id].option);
        snprintf(negated[id], sizeof negated[id], "no-%s", settings_table[id].option);
        if (settings_table[id].type == TYPE_SWITCH) nearest_offer(&nearest, negated[id]);
    }
    if (nearest.found != NULL)
        return settings_complain(options->complaint, "wane %s has no option --%.60s; did you mean --%s?",
                                 options->command_name, given, nearest.found);
    return settings_complain(options->complaint, "wane %s has no option --%.60s; \"wane help %s\" lists them",
                             options->command_name, given, options->command_name);
}

static bool give(struct options *options, int id, const char *value) {
    return settings_set(options->settings, id, value, FROM_OPTION, 0, options->complaint);
}

/* The value of an option: behind "=" (or its letter), or the next argument. */
static bool give_next(struct options *options, int id, const char *value) {
    if (settings_table[id].type == TYPE_SWITCH) return give(options, id, value != NULL ? value : "on");
    if (value == NULL && options->at >= options->argc)
        return settings_complain(options->complaint, "--%s needs a value: --%s %s", settings_table[id].option,
                                 settings_table[id].option, settings_table[id].argument);
    return give(options, id, value != NULL ? value : options->argv[options->at++]);
}

static bool long_option(struct options *options, const char *argument) {
    size_t length = strcspn(argument, "=");
    char *name = text_copy_part(argument, length);
    const char *value = argument[length] == '=' ? argument + length + 1 : NULL;
    int found = -1;
    bool negated = false;
    for (int id = 0; id < SETTING_COUNT && found < 0; id++) {
        const struct setting *setting = &settings_table[id];
        if (!(setting->commands & options->command)) continue;
        negated = setting->type == TYPE_SWITCH && value == NULL && strncmp(name, "no-", 3) == 0 &&
                  strcmp(name + 3, setting->option) == 0;
        if (negated || strcmp(name, setting->option) == 0) found = id;
    }
    bool good = found < 0 ? unknown_option(options, name)
                : negated ? give(options, found, "off")
                          : give_next(options, found, value);
    free(name);
    return good;
}

static bool short_options(struct options *options, const char *letters) {
    while (*letters != '\0') {
        int found = -1;
        for (int id = 0; id < SETTING_COUNT && found < 0; id++)
            if (settings_table[id].letter == *letters && settings_table[id].commands & options->command)
                found = id;
        if (found < 0)
            return settings_complain(options->complaint,
                                     "wane %s has no option -%c; \"wane help %s\" lists them",
                                     options->command_name, *letters, options->command_name);
        letters++;
        bool takes_rest = settings_table[found].type != TYPE_SWITCH && *letters != '\0';
        if (!give_next(options, found, takes_rest ? letters : NULL)) return false;
        if (takes_rest) break;
    }
    return true;
}

static bool read_options(struct options *options) {
    struct settings *settings = options->settings;
    settings->operands = text_alloc(((size_t)options->argc + 1) * sizeof *settings->operands);
    bool only_operands = false;
    while (options->at < options->argc) {
        char *argument = options->argv[options->at++];
        bool good = true;
        if (only_operands || argument[0] != '-' || argument[1] == '\0') {
            settings->operands[settings->operand_count++] = argument;
            /* What stands behind a program is its own. */
            only_operands = only_operands || options->command == FOR_EXEC;
        } else if (strcmp(argument, "--") == 0) {
            only_operands = true;
        } else {
            good = argument[1] == '-' ? long_option(options, argument + 2)
                                      : short_options(options, argument + 1);
        }
        if (!good) return false;
    }
    return true;
}

/* Where the file is looked for when nothing names one; NULL without a home. */
static char *usual_file(void) {
    const char *folder = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (folder != NULL && folder[0] == '/') return text_format("%s/wane/wane.conf", folder);
    return home != NULL && home[0] != '\0' ? text_format("%s/.config/wane/wane.conf", home) : NULL;
}

static bool read_file(struct settings *settings, bool must_exist, struct complaint *complaint) {
    FILE *file = fopen(settings->file, "rbe");
    if (file == NULL && errno == ENOENT && !must_exist) return true;
    if (file == NULL)
        return settings_complain(complaint, "cannot read the settings file %s: %s", settings->file,
                                 strerror(errno));
    enum { MOST = (1 << 20) + 1 }; /* one more than settings_read_text accepts */
    char *text = text_alloc(MOST);
    size_t size = fread(text, 1, MOST, file);
    bool good = !ferror(file);
    if (!good)
        settings_complain(complaint, "cannot read the settings file %s: %s", settings->file, strerror(errno));
    fclose(file);
    good = good && settings_read_text(settings, settings->file, text, size, complaint);
    settings->file_read = good;
    free(text);
    return good;
}

static bool read_environment(struct settings *settings, unsigned command, struct complaint *complaint) {
    for (int id = 0; id < SETTING_COUNT; id++) {
        const struct setting *setting = &settings_table[id];
        const char *value = setting->environment != NULL ? getenv(setting->environment) : NULL;
        /* An empty variable is how a shell says "not set". */
        if (value == NULL || value[0] == '\0' || !(setting->commands & command)) continue;
        if (!settings_set(settings, id, value, FROM_ENVIRONMENT, 0, complaint)) return false;
    }
    return true;
}

bool settings_load(struct settings *settings, unsigned command, const char *command_name, int argc,
                   char **argv, struct complaint *complaint) {
    struct options options = {settings, complaint, command, command_name, argc, 0, argv};
    if (!read_options(&options)) return false;
    if (setting_on(settings, SET_HELP)) return true;
    if (!(settings_table[SET_CONFIG].commands & command)) return true;
    if (!read_environment(settings, command, complaint)) return false;
    const char *named = setting_text(settings, SET_CONFIG);
    settings->file = named != NULL ? text_copy(named) : usual_file();
    return settings->file == NULL || read_file(settings, named != NULL, complaint);
}
