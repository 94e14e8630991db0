/* cmd_prepare.c - `wane prepare`: a text as the server would make it ready. Refuses to be silent about a change. */
#include "cli.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

int prepare_from(const struct settings *settings, int id, unsigned *steps) {
    wane_error error = {0};
    if (wane_prepare_from(setting_text(settings, id), steps, &error) == WANE_OK) return EXIT_FINE;
    return cli_fail(EXIT_USAGE, "%s: %s", settings_table[id].option, error.text);
}

static void print_json(unsigned steps, const wane_prepared *did, const char *text, size_t size) {
    json_t *changes = json_object();
    for (int i = 0; i < WANE_PREPARE_STEPS; i++)
        if ((steps & 1u << i) != 0)
            json_object_set_new(changes, wane_prepare_name(i), json_integer((json_int_t)did->changes[i]));
    out_json(json_pack("{s:o, s:o}", "text", json_text(text, size), "changes", changes), false);
}

/* "prepare: 3 invisible, 1 nfc"; nothing was changed: nothing. */
static void say_changes(const wane_prepared *did) {
    char *line = text_copy("");
    bool some = false;
    for (int i = 0; i < WANE_PREPARE_STEPS; i++) {
        if (did->changes[i] == 0) continue;
        char *longer = text_format("%s%s %llu %s", line, some ? "," : "", (unsigned long long)did->changes[i],
                                   wane_prepare_name(i));
        free(line);
        line = longer;
        some = true;
    }
    if (some) cli_say("changed:%s", line);
    free(line);
}

int command_prepare(struct settings *settings) {
    unsigned steps = WANE_PREPARE_ALL;
    bool says = settings->value[SET_PREPARE].source != FROM_DEFAULT;
    int code = says ? prepare_from(settings, SET_PREPARE, &steps) : EXIT_FINE;
    if (code != EXIT_FINE) return code;
    interrupt_catch();
    size_t size, made_size;
    char *text = settings->operand_count > 0 ? join_operands(settings, &size) : read_all_input(&size), *made;
    if (text == NULL) return interrupt_seen() ? EXIT_INTERRUPTED : EXIT_FAILED;
    wane_prepared did = {0};
    wane_error error = {0};
    if (wane_text_prepare(text, size, steps, &made, &made_size, &did, &error) != WANE_OK) {
        code = cli_fail_wane(&error);
    } else if (setting_on(settings, SET_JSON)) {
        print_json(steps, &did, made, made_size);
    } else {
        out_text(made, made_size);
        if (settings->operand_count > 0) out_text("\n", 1);
        say_changes(&did);
    }
    free(made);
    free(text);
    return code;
}
