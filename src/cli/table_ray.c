/*
 * table_ray.c - `wane table build --ray ADDRESS`: becomes the Python package wane_ray, which builds parts on a cluster and ends with
 * `wane table merge`. Owns the way there: this program's path and the options as they were given. It reads no trace itself.
 */
#include "os.h"
#include "table_build.h"
#include "text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A package that is missing is said in our words, not in those of a traceback. */
static const char starts[] = "import importlib.util, sys\n"
                             "if importlib.util.find_spec('wane_ray') is None:\n"
                             "    sys.exit('wane: --ray needs the Python package wane_ray, which comes with "
                             "wane: pip install \"./python[ray]\" "
                             "in the folder of its sources')\n"
                             "from wane_ray.__main__ import main\n"
                             "sys.exit(main(sys.argv[1:]))\n";

struct words {
    char **list;
    size_t count;
};

static void add(struct words *words, char *word) {
    words->list = text_grow(words->list, (words->count + 2) * sizeof *words->list);
    words->list[words->count++] = word;
    words->list[words->count] = NULL;
}

static bool goes_along(int id) {
    const char *group = settings_table[id].group;
    if (id == SET_JSON || id == SET_CONFIG) return true;
    return strcmp(group, "Build") == 0 || strcmp(group, "Model") == 0;
}

static void add_setting(struct words *words, int id, const struct setting_value *value) {
    const char *option = settings_table[id].option;
    enum setting_type type = settings_table[id].type;
    if (type == TYPE_SWITCH) {
        if (value->on) add(words, text_format("--%s", option));
    } else if (type == TYPE_FILES) {
        for (size_t i = 0; i < value->list_count; i++)
            add(words, text_format("--%s=%s", option, value->list[i]));
    } else {
        add(words, text_format("--%s=%s", option, value->text));
    }
}

int table_build_ray(const struct settings *settings, size_t first) {
    char *folder = os_program_folder();
    if (folder == NULL)
        return cli_fail(EXIT_FAILED,
                        "the system does not say where this program lies, and the cluster's nodes must know");
    struct words words = {0};
    add(&words, text_copy("python3"));
    add(&words, text_copy("-c"));
    add(&words, text_copy(starts));
    add(&words, text_format("--wane=%s/wane", folder));
    free(folder);
    for (int id = 0; id < SETTING_COUNT; id++)
        if (goes_along(id) && settings->value[id].source == FROM_OPTION)
            add_setting(&words, id, &settings->value[id]);
    add(&words, text_copy("--"));
    for (size_t i = first; i < settings->operand_count; i++) add(&words, text_copy(settings->operands[i]));
    out_flush();
    execvp(words.list[0], words.list);
    int code = cli_fail(EXIT_FAILED, "--ray needs python3, which cannot be started: %s", strerror(errno));
    for (size_t i = 0; i < words.count; i++) free(words.list[i]);
    free(words.list);
    return code;
}
