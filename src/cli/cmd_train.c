/* cmd_train.c - `wane train`: which training, and what all of them share. Refuses to know what is learned. */
#include "cli.h"

#include <string.h>

void train_begin(const struct settings *settings, const char **output, uint64_t *seed,
                 wane_progress_fn *progress) {
    const struct setting_value *given = &settings->value[SET_SEED];
    interrupt_catch();
    *output = setting_text(settings, SET_OUTPUT);
    *progress = progress_goes_on;
    if (given->seeded) *seed = given->seed;
}

int train_end(const struct settings *settings, int result, const wane_error *error, const void *report,
              json_t *(*json)(const void *report, const char *output),
              void (*print)(const void *report, const char *output)) {
    const char *output = setting_text(settings, SET_OUTPUT);
    progress_clear();
    if (result != WANE_OK) return cli_fail_wane(error);
    if (setting_on(settings, SET_JSON))
        out_json(json(report, output), false);
    else
        print(report, output);
    return EXIT_FINE;
}

int command_train(struct settings *settings) {
    const char *what = settings->operand_count == 1 ? settings->operands[0] : "";
    if (strcmp(what, "gate") == 0) return train_gate(settings);
    if (strcmp(what, "domains") == 0) return train_domains(settings);
    if (strcmp(what, "reward") == 0) return train_reward(settings);
    return cli_usage("train", "wane train needs one of the words gate, domains and reward, and nothing else");
}
