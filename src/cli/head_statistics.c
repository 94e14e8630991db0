/*
 * head_statistics.c - `wane head statistics`: what the body makes of a file of texts, for the head's sketch.
 */
#include "cli.h"
#include "text.h"

#include <string.h>

struct texts {
    char **line;
    int count;
    wane_conversation *conversation;
    wane_message *messages; /* of all of them, one array */
    json_t **parsed;        /* what the messages point into; NULL for a plain line */
};

static void close_texts(struct texts *t) {
    for (int i = 0; t->parsed != NULL && i < t->count; i++) json_decref(t->parsed[i]);
    lines_free(t->line, t->count);
    free(t->conversation);
    free(t->messages);
    free(t->parsed);
}

/* The messages of a JSON line; NULL when it is a plain text, `bad` when it is neither. */
static json_t *messages_of(const char *line, bool *bad) {
    *bad = false;
    if (line[0] != '{') return NULL;
    json_t *value = json_loads(line, 0, NULL);
    json_t *messages = value != NULL ? json_incref(json_object_get(value, "messages")) : NULL;
    json_decref(value);
    *bad = !json_is_array(messages) || json_array_size(messages) == 0;
    size_t i;
    json_t *message;
    json_array_foreach(messages, i, message) {
        if (!json_is_string(json_object_get(message, "role")) ||
            !json_is_string(json_object_get(message, "content")))
            *bad = true;
    }
    if (!*bad) return messages;
    json_decref(messages);
    return NULL;
}

static bool open_texts(struct texts *t, const char *path) {
    t->line = lines_read(path, &t->count);
    if (t->line == NULL) return false;
    t->parsed = text_alloc((size_t)t->count * sizeof(json_t *));
    t->conversation = text_alloc((size_t)t->count * sizeof *t->conversation);
    size_t total = 0;
    for (int i = 0; i < t->count; i++) {
        bool bad;
        t->parsed[i] = messages_of(t->line[i], &bad);
        if (bad) {
            cli_say(
                "%s: entry %d begins like JSON, but is no object with messages, each with role and content",
                path, i + 1);
            return false;
        }
        total += t->parsed[i] != NULL ? json_array_size(t->parsed[i]) : 1;
    }
    t->messages = text_alloc(total * sizeof *t->messages);
    wane_message *next = t->messages;
    for (int i = 0; i < t->count; i++) {
        t->conversation[i].messages = next;
        if (t->parsed[i] == NULL) *next++ = (wane_message){"user", t->line[i], strlen(t->line[i])};
        size_t at;
        json_t *message;
        json_array_foreach(t->parsed[i], at, message) {
            json_t *content = json_object_get(message, "content");
            *next++ = (wane_message){json_string_value(json_object_get(message, "role")),
                                     json_string_value(content), json_string_length(content)};
        }
        t->conversation[i].count = (size_t)(next - t->conversation[i].messages);
    }
    return true;
}

static bool on_progress(void *user, const char *what, double share) {
    (void)user;
    (void)what;
    progress_show("taking statistics", share);
    return !interrupt_seen();
}

int head_statistics(const struct settings *settings) {
    const char *from = setting_text(settings, SET_PROMPTS), *to = setting_text(settings, SET_STATISTICS);
    if (from == NULL || to == NULL)
        return cli_usage(
            "head",
            "wane head statistics needs --prompts FILE (texts to read) and --statistics FILE (to write)");
    struct texts texts = {0};
    if (!open_texts(&texts, from)) {
        close_texts(&texts);
        return EXIT_FAILED;
    }
    interrupt_catch();
    wane_model *model = NULL;
    struct model_wish wish = {0};
    int code = model_open(settings, &wish, &model);
    if (code == EXIT_FINE) {
        wane_error error = {0};
        int64_t rows = 0;
        int result = wane_model_write_statistics(model, texts.conversation, (size_t)texts.count, to,
                                                 on_progress, NULL, &rows, &error);
        progress_clear();
        if (result != WANE_OK)
            code = cli_fail_wane(&error);
        else if (setting_on(settings, SET_JSON))
            out_json(json_pack("{s:s, s:i, s:I}", "path", to, "texts", texts.count, "rows", (json_int_t)rows),
                     false);
        else
            out_format("%lld hidden rows of %d texts in %s; now: wane head build --statistics %s\n",
                       (long long)rows, texts.count, to, to);
    }
    wane_model_free(model);
    close_texts(&texts);
    return code;
}
