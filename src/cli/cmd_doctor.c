/*
 * cmd_doctor.c - `wane doctor`: all checks in one order, and how they are printed. A check of its own file each: doctor_machine.c,
 * doctor_model.c, doctor_place.c.
 */
#include "cli.h"
#include "doctor.h"

#include <stdlib.h>
#include <string.h>

/* Long enough to see a busy neighbour, short enough for a look. */
enum { SAMPLE_MS = 200 };

static void print_text(const struct checkup *checkup) {
    for (int i = 0; i < checkup->count; i++) {
        const struct check *c = &checkup->list[i];
        out_format("%-16s %-8s  %s%s%s\n", c->name, check_level_name(c->level), c->text,
                   c->next[0] != '\0' ? " | next: " : "", c->next);
    }
}

static void check_settings(struct checkup *checkup, const struct settings *settings) {
    if (settings->file_read)
        checkup_add(checkup, "CONFIG", CHECK_PASSED, NULL, "%s was read", settings->file);
    else
        checkup_add(checkup, "CONFIG", CHECK_PASSED, NULL,
                    "no settings file: defaults, variables and options");
}

int command_doctor(struct settings *settings) {
    if (settings->operand_count > 0)
        return cli_usage("doctor", "wane doctor takes no words; got \"%.60s\"", settings->operands[0]);
    interrupt_catch();
    struct checkup checkup = {0};
    wane_machine machine;
    struct doctor_wish wish = {.threads = setting_int(settings, SET_THREADS),
                               .connections = setting_int(settings, SET_MAX_CONNECTIONS),
                               .lock = setting_on(settings, SET_MLOCK),
                               .built_ms = doctor_built_ms()};
    progress_show("looking at the machine", -1);
    wane_machine_look(NULL, SAMPLE_MS, &machine); /* before this program makes it busy itself */
    progress_show("looking at the model", -1);
    checkup_add(&checkup, "ENGINE_VERSION", CHECK_PASSED, NULL, "wane %s, engine %s", wane_version(),
                wane_engine_version());
    check_settings(&checkup, settings);
    doctor_model(&checkup, settings, &wish);
    wane_machine now;
    wane_machine_look(NULL, 0, &now); /* the engine's plug-in is there once a model was */
    memcpy(machine.kernels, now.kernels, sizeof machine.kernels);
    doctor_cpu(&checkup, &machine, &wish);
    doctor_threads(&checkup, &machine, &wish);
    doctor_memory(&checkup, &machine, &wish);
    doctor_clock(&checkup, &machine, &wish);
    doctor_load(&checkup, &machine);
    doctor_ports(&checkup, settings);
    doctor_disk(&checkup, settings);
    doctor_server(&checkup, settings);
    progress_clear();
    if (interrupt_seen()) {
        checkup_free(&checkup);
        return EXIT_INTERRUPTED;
    }
    int code = checkup_code(&checkup);
    if (setting_on(settings, SET_JSON))
        out_json(json_pack("{s:s, s:s, s:i, s:s, s:o, s:o}", "wane", wane_version(), "engine",
                           wane_engine_version(), "code", code, "worst",
                           check_level_name(checkup_worst(&checkup)), "checks", checkup_json(&checkup),
                           "machine", machine_json(&machine)),
                 false);
    else
        print_text(&checkup);
    checkup_free(&checkup);
    return code;
}
