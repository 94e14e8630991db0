/*
 * cmd_session.c - `wane session`: a conversation into a file with all that the engine knows of it, and on from there.
 */
#include "talk.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- info --------------------------------------------------------------------------------------------------------- */

static const struct {
    uint64_t bit;
    const char *name;
} flags[] = {{WANE_SFCL_VOTED, "voted"},
             {WANE_SFCL_BREAKER, "breaker"},
             {WANE_SFCL_CHANGED, "changed"},
             {WANE_SFCL_LOADED, "loaded"}};
enum { FLAGS = sizeof flags / sizeof *flags };

static json_t *flags_json(uint64_t set) {
    json_t *all = json_array();
    for (int i = 0; i < FLAGS; i++)
        if ((set & flags[i].bit) != 0) json_array_append_new(all, json_string(flags[i].name));
    return all;
}

static json_t *messages_json(const wane_session_file *file) {
    json_t *all = json_array();
    for (size_t i = 0; i < file->message_count; i++)
        json_array_append_new(all, json_pack("{s:s, s:o}", "role", file->messages[i].role, "content",
                                             json_text(file->messages[i].content,
                                                       file->messages[i].content_size)));
    return all;
}

static void print_json(const wane_session_file *f, const char *date) {
    json_t *all = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:s}", "version", f->version, "model", f->model,
                            "engine", f->engine, "kv_type_k", f->kv_type_k, "kv_type_v", f->kv_type_v,
                            "settings", f->settings, "saved", date);
    json_t *rest =
        json_pack("{s:f, s:I, s:o, s:i, s:i, s:i, s:I, s:I, s:o}", "tau", f->tau, "sfcl_flags",
                  (json_int_t)f->sfcl_flags, "flags", flags_json(f->sfcl_flags), "vocab_size", f->vocab_size,
                  "tokens", f->tokens, "held", f->held, "state_bytes", (json_int_t)f->state_bytes, "bytes",
                  (json_int_t)f->bytes, "messages", messages_json(f));
    json_object_update(all, rest);
    json_decref(rest);
    out_json(all, false);
}

static void print_text(const wane_session_file *f, const char *date) {
    out_format("model         digest %s, %d tokens in its vocabulary\n", f->model, f->vocab_size);
    out_format("engine        %s\n", f->engine);
    out_format("saved         %s\n", date);
    out_format("messages      %zu", f->message_count);
    for (size_t i = 0; i < f->message_count && i < 8; i++)
        out_format("%s%s", i == 0 ? ": " : ", ", f->messages[i].role);
    out_format("%s\n", f->message_count > 8 ? ", ..." : "");
    out_format("tokens        %d, of which the engine holds %d\n", f->tokens, f->held);
    if (f->kv_type_k[0] != '\0') out_format("cache         keys %s, values %s\n", f->kv_type_k, f->kv_type_v);
    out_format("size          %.1f MB, of which the engine's state %.1f MB\n", (double)f->bytes / 1e6,
               (double)f->state_bytes / 1e6);
    out_format("tau           %g\nsfcl_flags    %llu", f->tau, (unsigned long long)f->sfcl_flags);
    for (int i = 0, shown = 0; i < FLAGS; i++)
        if ((f->sfcl_flags & flags[i].bit) != 0)
            out_format("%s%s", shown++ == 0 ? ": " : ", ", flags[i].name);
    out_format("\n");
}

static int show(const struct settings *settings, const char *path) {
    wane_session_file file;
    wane_error error = {0};
    char date[32] = "?";
    struct tm utc;
    if (settings->operand_count > 2)
        return cli_usage("session", "wane session info takes one file; got \"%.60s\" as well",
                         settings->operands[2]);
    if (wane_session_file_info(path, &file, &error) != WANE_OK)
        return cli_fail(EXIT_FAILED, "%s", error.text);
    time_t when = (time_t)file.saved_at;
    if (gmtime_r(&when, &utc) != NULL) strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    if (setting_on(settings, SET_JSON))
        print_json(&file, date);
    else
        print_text(&file, date);
    wane_session_file_free(&file);
    return EXIT_FINE;
}

/* ---- save, load --------------------------------------------------------------------------------------------------- */

/* The messages of a JSON file. Returns EXIT_FINE or an exit code after a complaint. */
static int read_conversation(struct talk *talk, const char *path) {
    json_error_t fault;
    json_t *all = json_load_file(path, 0, &fault);
    if (all == NULL) return cli_fail(EXIT_FAILED, "cannot read the conversation %s: %s", path, fault.text);
    size_t i;
    const json_t *one;
    bool fine = json_is_array(all);
    json_array_foreach(all, i, one) {
        const json_t *role = json_object_get(one, "role"), *content = json_object_get(one, "content");
        fine = fine && json_is_string(role) && json_is_string(content);
        if (fine)
            talk_add(talk, json_string_value(role), json_string_value(content), json_string_length(content));
    }
    json_decref(all);
    if (fine && i > 0) return EXIT_FINE;
    return cli_fail(EXIT_FAILED,
                    "the conversation %s is not a JSON array of objects with \"role\" and \"content\"", path);
}

static int keep(struct talk *talk, const char *path) {
    wane_session_file file;
    wane_error error = {0};
    int code = talk_keep(talk, path);
    if (code != EXIT_FINE) return code;
    if (wane_session_file_info(path, &file, &error) != WANE_OK) return cli_fail_wane(&error);
    cli_say("%s: %zu messages, %d tokens, %.1f MB", path, file.message_count, file.tokens,
            (double)file.bytes / 1e6);
    wane_session_file_free(&file);
    return EXIT_FINE;
}

static int take_in_and_keep(struct talk *talk, const char *path) {
    wane_error error = {0};
    int code = EXIT_FINE;
    if (!setting_on(talk->settings, SET_PREFILL))
        code = talk_once(talk);
    else if (talk_prefill(talk, &error) != WANE_OK)
        code = cli_fail_wane(&error);
    /* An interrupted reply is one as far as it went; an interrupted prefill is nothing. */
    bool worth = code == EXIT_FINE || (code == EXIT_INTERRUPTED && !setting_on(talk->settings, SET_PREFILL));
    int kept = worth ? keep(talk, path) : EXIT_FINE;
    return code == EXIT_FINE ? kept : code;
}

static int save(struct settings *settings, const char *path, const char *prompt, size_t size) {
    const char *conversation = setting_text(settings, SET_CONVERSATION);
    struct talk talk;
    int code = talk_open(settings, NULL, false, &talk);
    if (code != EXIT_FINE) return code;
    if (conversation != NULL) code = read_conversation(&talk, conversation);
    if (code == EXIT_FINE) {
        if (size > 0) talk_add(&talk, "user", prompt, size);
        code = take_in_and_keep(&talk, path);
    }
    talk_close(&talk);
    return code;
}

static int load(struct settings *settings, const char *path, const char *prompt, size_t size,
                bool converses) {
    struct talk talk;
    int code = talk_open(settings, path, true, &talk);
    if (code != EXIT_FINE) return code;
    if (converses) {
        code = chat(&talk, NULL);
    } else {
        talk_add(&talk, "user", prompt, size);
        code = talk_once(&talk);
    }
    talk_close(&talk);
    return code;
}

/* `settings` without its first two words: what is left of them is a prompt. */
static int with_prompt(struct settings *settings, bool is_save, const char *path) {
    bool given = setting_text(settings, SET_PROMPT) != NULL || settings->operand_count > 0;
    bool json = setting_on(settings, SET_JSON) || setting_on(settings, SET_JSON_STREAM);
    bool converses = !is_save && !given && !json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    bool conversed = is_save && setting_text(settings, SET_CONVERSATION) != NULL;
    int code = EXIT_FAILED;
    size_t size = 0;
    char *prompt =
        converses || (conversed && !given) ? text_copy("") : talk_prompt(settings, "session", &size, &code);
    if (prompt == NULL) return code;
    code = is_save ? save(settings, path, prompt, size) : load(settings, path, prompt, size, converses);
    free(prompt);
    return code;
}

int command_session(struct settings *settings) {
    const char *what = settings->operand_count > 0 ? settings->operands[0] : "";
    bool is_save = strcmp(what, "save") == 0, is_load = strcmp(what, "load") == 0;
    if (!is_save && !is_load && strcmp(what, "info") != 0)
        return cli_usage("session", "wane session needs save, load or info%s%.60s%s",
                         what[0] != '\0' ? "; got \"" : "", what, what[0] != '\0' ? "\"" : "");
    if (settings->operand_count < 2)
        return cli_usage("session", "wane session %s needs the name of a file", what);
    const char *path = settings->operands[1];
    if (!is_save && !is_load) return show(settings, path);
    if (setting_on(settings, SET_JSON) && setting_on(settings, SET_JSON_STREAM))
        return cli_usage("session", "--json and --json-stream are two forms of output; choose one");
    if (is_load && (setting_on(settings, SET_PREFILL) || setting_text(settings, SET_CONVERSATION) != NULL))
        return cli_usage("session", "--prefill and --conversation are for wane session save");
    interrupt_catch();
    settings->operands += 2; /* they are put back: the list is freed by its beginning */
    settings->operand_count -= 2;
    int code = with_prompt(settings, is_save, path);
    settings->operands -= 2;
    settings->operand_count += 2;
    return code;
}
