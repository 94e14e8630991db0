/* cmd_version.c - `wane version`. */
#include "cli.h"

int command_version(struct settings *settings) {
    if (settings->operand_count > 0)
        return cli_usage("version", "wane version takes no words; got \"%.60s\"", settings->operands[0]);
    if (setting_on(settings, SET_JSON))
        out_json(json_pack("{s:s, s:s}", "wane", wane_version(), "engine", wane_engine_version()), false);
    else
        out_format("wane %s\nengine %s\n", wane_version(), wane_engine_version());
    return EXIT_FINE;
}
