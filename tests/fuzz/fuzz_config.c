/* fuzz_config.c - the settings file's reader: any bytes give settings in range or one complaint, never a crash. */
#include "settings.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was accepted must be inside what the table promises. */
static void check_ranges(const struct settings *settings) {
    for (int id = 0; id < SETTING_COUNT; id++) {
        const struct setting *setting = &settings_table[id];
        const struct setting_value *value = &settings->value[id];
        if (value->text == NULL) continue;
        double number = setting->type == TYPE_REAL ? value->real : (double)value->integer;
        bool numeric =
            setting->type == TYPE_REAL || setting->type == TYPE_INTEGER || setting->type == TYPE_BYTES;
        if (numeric && !(number >= setting->least && number <= setting->most)) abort();
        if (setting->type == TYPE_TEXTS &&
            (value->list_count == 0 || (double)value->list_count > setting->most))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct settings settings;
    struct complaint complaint = {""};
    settings_init(&settings);
    bool good = settings_read_text(&settings, "fuzz.conf", (const char *)data, size, &complaint);
    if (good == (complaint.text[0] != '\0')) abort(); /* refused without a word, or accepted with one */
    check_ranges(&settings);
    settings_free(&settings);
    return 0;
}
