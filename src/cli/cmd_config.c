/* cmd_config.c - `wane config`: what each setting is, and which source said so. */
#include "cli.h"

#include <string.h>

static json_t *json_value(const struct setting *setting, const struct setting_value *value) {
    if (value->text == NULL) return json_null();
    if (setting->type == TYPE_SWITCH) return json_boolean(value->on);
    if (setting->type == TYPE_INTEGER || setting->type == TYPE_BYTES) return json_integer(value->integer);
    if (setting->type == TYPE_REAL) return json_real(value->real);
    if (setting->type != TYPE_TEXTS) return json_text(value->text, strlen(value->text));
    json_t *list = json_array();
    for (size_t i = 0; i < value->list_count; i++)
        json_array_append_new(list, json_text(value->list[i], strlen(value->list[i])));
    return list;
}

static json_t *json_domains(const struct settings *settings) {
    json_t *all = json_object();
    for (size_t i = 0; i < settings->domain_count; i++) {
        const struct settings_domain *domain = &settings->domains[i];
        json_t *own = json_object();
        for (int id = 0; id < SETTING_COUNT; id++)
            if (domain->own->value[id].source != FROM_DEFAULT && settings_table[id].key != NULL)
                json_object_set_new(own, settings_table[id].option,
                                    json_value(&settings_table[id], &domain->own->value[id]));
        json_object_set_new(all, domain->name, own);
    }
    return all;
}

static void print_json(const struct settings *settings) {
    json_t *all = json_object();
    for (int id = 0; id < SETTING_COUNT; id++) {
        const struct setting *setting = &settings_table[id];
        if (setting->key == NULL) continue;
        char where[300];
        settings_where(settings, id, where, sizeof where);
        json_object_set_new(all, setting->option,
                            json_pack("{s:o, s:s, s:o, s:s, s:s}", "value",
                                      json_value(setting, &settings->value[id]), "source",
                                      settings_source_name(settings->value[id].source), "where",
                                      json_text(where, strlen(where)), "key", setting->key, "environment",
                                      setting->environment));
    }
    json_t *file = settings->file != NULL ? json_text(settings->file, strlen(settings->file)) : json_null();
    out_json(json_pack("{s:o, s:b, s:o, s:o}", "file", file, "file_read", settings->file_read, "settings",
                       all, "domains", json_domains(settings)),
             false);
}

/* The value on one line: a text's line ends are shown as \n. */
static void print_value(const char *text) {
    for (; *text != '\0'; text++) {
        if (*text == '\n')
            out_format("\\n");
        else
            out_text(text, 1);
    }
}

/* What a domain has of its own. */
static void print_domain(const struct settings_domain *domain) {
    for (int id = 0; id < SETTING_COUNT; id++) {
        if (domain->own->value[id].source == FROM_DEFAULT || settings_table[id].key == NULL) continue;
        char where[300];
        settings_where(domain->own, id, where, sizeof where);
        out_format("domain.%s.%s = ", domain->name, strchr(settings_table[id].key, '.') + 1);
        print_value(domain->own->value[id].text);
        out_format("  (%s)\n", where);
    }
}

int command_config(struct settings *settings) {
    if (settings->operand_count > 0)
        return cli_usage("config", "wane config takes no words; got \"%.60s\"", settings->operands[0]);
    if (setting_on(settings, SET_JSON)) {
        print_json(settings);
        return EXIT_FINE;
    }
    out_format("file = %s%s\n", settings->file != NULL ? settings->file : "none",
               settings->file != NULL && !settings->file_read ? " (not there)" : "");
    for (int id = 0; id < SETTING_COUNT; id++) {
        const char *text = settings->value[id].text;
        if (settings_table[id].key == NULL) continue;
        char where[300];
        settings_where(settings, id, where, sizeof where);
        out_format("%s%s", settings_table[id].key, text != NULL ? " = " : "");
        print_value(text != NULL ? text : "");
        out_format("  (%s)\n", text == NULL ? "not set" : where);
    }
    for (size_t i = 0; i < settings->domain_count; i++) print_domain(&settings->domains[i]);
    return EXIT_FINE;
}
