/*
 * cmd_model.c - `wane model`: what is known, what is here, facts of one.
 *
 * The helper `model` owns names, sizes and digests of known models; files in the cache that it does not know are
 * listed after them.
 */
#include "cli.h"
#include "json_of.h"
#include "text.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The helper's list; NULL after a complaint. */
static json_t *known_models(void) {
    char *text = NULL;
    int code = model_helper((const char *const[]){"list", "--json", NULL}, &text);
    json_t *list = code == 0 && text != NULL ? json_loads(text, 0, NULL) : NULL;
    if (code == 0 && !json_is_array(list)) cli_say("the helper's list of models cannot be read");
    free(text);
    if (json_is_array(list)) return list;
    json_decref(list);
    return NULL;
}

static bool lists_name(json_t *list, const char *name) {
    size_t index;
    json_t *one;
    json_array_foreach(list, index, one) {
        const char *known = json_string_value(json_object_get(one, "name"));
        if (known != NULL && strcmp(known, name) == 0) return true;
    }
    return false;
}

static int is_gguf(const struct dirent *entry) {
    size_t length = strlen(entry->d_name);
    return entry->d_name[0] != '.' && length > 5 && strcmp(entry->d_name + length - 5, ".gguf") == 0;
}

/* Files in the cache that the helper does not know. */
static void add_strangers(json_t *list) {
    char *folder = models_folder();
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_gguf, alphasort);
    for (int i = 0; i < count; i++) {
        char *name = text_copy_part(entries[i]->d_name, strlen(entries[i]->d_name) - 5);
        char *path = text_format("%s/%s", folder, entries[i]->d_name);
        struct stat status;
        if (!lists_name(list, name) && stat(path, &status) == 0)
            json_array_append_new(list, json_pack("{s:o, s:s, s:s, s:b, s:I, s:n, s:n, s:s, s:o}", "name",
                                                  json_text(name, strlen(name)), "title", "", "licence", "",
                                                  "default", 0, "size", (json_int_t)status.st_size,
                                                  "download_size", "sha256", "state", "here", "path",
                                                  json_text(path, strlen(path))));
        free(name);
        free(path);
        free(entries[i]);
    }
    free(entries);
    free(folder);
}

static int list(const struct settings *settings) {
    json_t *models = known_models();
    if (models == NULL) return EXIT_FAILED;
    add_strangers(models);
    if (setting_on(settings, SET_JSON)) {
        out_json(models, false);
        return EXIT_FINE;
    }
    out_format("%-22s %10s  %-14s %-12s %s\n", "NAME", "SIZE", "LICENCE", "STATE", "TITLE");
    size_t index;
    json_t *one;
    json_array_foreach(models, index, one) {
        bool is_default = json_is_true(json_object_get(one, "default"));
        out_format("%-22s %7.1f MB  %-14s %-12s %s%s\n", json_text_of(one, "name"),
                   (double)json_integer_value(json_object_get(one, "size")) / 1e6,
                   json_text_of(one, "licence"), json_text_of(one, "state"), json_text_of(one, "title"),
                   is_default ? " (default)" : "");
    }
    json_decref(models);
    return EXIT_FINE;
}

/* ---- info ------------------------------------------------------------------------------------------------------ */

static void print_facts_json(const wane_model_facts *f, const char *digest) {
    json_t *head = json_pack("{s:s, s:s, s:s, s:b, s:b, s:b}", "tensor", f->head_tensor, "type", f->head_type,
                             "buffer", f->head_buffer, "tied", f->head_tied, "plain", f->head_plain,
                             "rescoring_exact", f->rescoring_exact);
    json_t *all = json_pack(
        "{s:o, s:o, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:i, s:i, s:i, s:i, s:i, s:b, s:i, s:i, s:i, s:o}",
        "name", json_text(f->name, strlen(f->name)), "path", json_text(f->path, strlen(f->path)), "digest",
        digest, "architecture", f->architecture, "description", f->description, "engine", f->engine,
        "template", f->template_kind, "bytes", (json_int_t)f->file_bytes, "parameters",
        (json_int_t)f->parameters, "vocabulary", f->vocab_size, "embedding", f->embedding_size, "layers",
        f->layers, "trained_context", f->trained_context, "context", f->context, "recurrent", f->recurrent,
        "bos", f->bos, "eos", f->eos, "eot", f->eot, "head", head);
    out_json(all, false);
}

static void print_facts(const wane_model_facts *f, const char *digest) {
    out_format("name          %s\npath          %s\ndigest        %s\n", f->name, f->path, digest);
    out_format("architecture  %s (%s)\nengine        %s\n", f->architecture, f->description, f->engine);
    out_format("size          %.1f MB, %.1f M parameters\n", (double)f->file_bytes / 1e6,
               (double)f->parameters / 1e6);
    out_format("shape         %d layers, %d wide, %d tokens\n", f->layers, f->embedding_size, f->vocab_size);
    out_format("context       %d of %d trained\n", f->context, f->trained_context);
    out_format("template      %s\n", f->template_kind);
    out_format("head          %s, %s in %s%s%s\n", f->head_tensor, f->head_type, f->head_buffer,
               f->head_tied ? ", tied" : "", f->head_plain ? "" : ", with more after it");
    out_format("rescoring     %s\n", f->rescoring_exact ? "exact" : "not exact");
    out_format("tokens        bos %d, eos %d, eot %d\n", f->bos, f->eos, f->eot);
    if (f->recurrent) out_format("recurrent     yes: prompts cannot share a part of their beginning\n");
}

static int info(const struct settings *settings, const char *name) {
    wane_model *model = NULL;
    interrupt_catch();
    int code = model_open(settings, &(struct model_wish){.name = name}, &model);
    if (code != EXIT_FINE) return code;
    char digest[33];
    wane_error error = {0};
    if (wane_model_digest(model, digest, &error) != WANE_OK)
        code = cli_fail_wane(&error);
    else if (setting_on(settings, SET_JSON))
        print_facts_json(wane_model_get_facts(model), digest);
    else
        print_facts(wane_model_get_facts(model), digest);
    wane_model_free(model);
    return code;
}

/* ---- get, path ------------------------------------------------------------------------------------------------- */

static int get(const struct settings *settings, const char *name) {
    /* For a name that it knows, the helper also checks what is in the cache. */
    json_t *known = setting_on(settings, SET_OFFLINE) ? NULL : known_models();
    bool helped = known != NULL && lists_name(known, name);
    int code = EXIT_FAILED;
    if (helped) {
        code = model_helper((const char *const[]){"get", name, NULL}, NULL);
    } else {
        char *path = model_locate(settings, name, &code);
        if (path != NULL) code = out_format("%s\n", path) ? EXIT_FINE : EXIT_FAILED;
        free(path);
    }
    json_decref(known);
    return code < 0 ? EXIT_FAILED : code;
}

static int path_of(const char *name) {
    char *folder = models_folder();
    char *path = text_format("%s/%s.gguf", folder, name);
    struct stat status;
    int code = EXIT_FINE;
    if (stat(path, &status) == 0)
        out_format("%s\n", path);
    else
        code = cli_fail(EXIT_NOT_FOUND, "%s is not in the cache; run: wane model get %s", name, name);
    free(path);
    free(folder);
    return code;
}

int command_model(struct settings *settings) {
    const char *what = settings->operand_count > 0 ? settings->operands[0] : NULL;
    if (what == NULL) return cli_usage("model", "wane model needs list, get, path or info");
    bool is_list = strcmp(what, "list") == 0, is_get = strcmp(what, "get") == 0;
    bool is_path = strcmp(what, "path") == 0, is_info = strcmp(what, "info") == 0;
    if (!is_list && !is_get && !is_path && !is_info) {
        struct nearest nearest = {.wanted = what};
        const char *const words[] = {"list", "get", "path", "info"};
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) nearest_offer(&nearest, words[i]);
        if (nearest.found != NULL)
            return cli_usage("model", "wane model has no \"%.60s\", but %s", what, nearest.found);
        return cli_usage("model", "wane model has no \"%.60s\", but list, get, path and info", what);
    }
    size_t wanted = is_list ? 1 : 2;
    if (settings->operand_count != wanted)
        return cli_usage("model", "wane model %s takes %s", what, is_list ? "no name" : "one name");
    if (is_list) return list(settings);
    const char *name = settings->operands[1];
    return is_get ? get(settings, name) : is_path ? path_of(name) : info(settings, name);
}
