/*
 * cmd_record.c - `wane record`: the prompts of a file, answered one after the other and recorded.
 *
 * The whole file is read and checked before the model is loaded: a fault in its last line shows at once. What a line sets
 * for itself is laid over the settings; ranges are the library's to check.
 */
#include "cli.h"
#include "text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STOPS_MOST 16

struct work {
    const struct settings *settings;
    wane_model *model;
    wane_session *session;
    wane_recorder *recorder;
    json_t *prompts; /* objects; those of plain lines have a "prompt" */
    size_t prompt_tokens, reply_tokens, skipped;
    double began;
};

/* ---- the file ------------------------------------------------------------------------------------------------------ */

static const char *const fields[] = {
    "messages",       "prompt", "system",     "kind",           "tenant",           "temperature",
    "top_k",          "top_p",  "min_p",      "repeat_penalty", "presence_penalty", "frequency_penalty",
    "penalty_window", "seed",   "max_tokens", "stop",           "ignore_end",       NULL};

static bool is_known(const char *name) {
    size_t i = 0;
    while (fields[i] != NULL && strcmp(fields[i], name) != 0) i++;
    return fields[i] != NULL;
}

static bool are_messages(const json_t *list) {
    size_t index;
    const json_t *one;
    if (!json_is_array(list) || json_array_size(list) == 0) return false;
    json_array_foreach(list, index, one) {
        const char *role = json_string_value(json_object_get(one, "role"));
        if (role == NULL || !json_is_string(json_object_get(one, "content"))) return false;
        if (strcmp(role, "system") != 0 && strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0)
            return false;
    }
    return true;
}

static bool are_stops(const json_t *list) {
    size_t index;
    const json_t *one;
    if (list == NULL) return true;
    if (!json_is_array(list) || json_array_size(list) > STOPS_MOST) return false;
    json_array_foreach(list, index, one) if (!json_is_string(one)) return false;
    return true;
}

/* What is wrong with a line's object; NULL: nothing. */
static const char *fault_of(const json_t *object) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, name, value) {
        if (!is_known(name)) return "a field that is not known; \"wane help record\" lists them";
        bool text = strcmp(name, "prompt") == 0 || strcmp(name, "system") == 0 || strcmp(name, "tenant") == 0;
        if (text && !json_is_string(value)) return "prompt, system and tenant must be strings";
        bool list = strcmp(name, "messages") == 0 || strcmp(name, "stop") == 0;
        if (!text && !list && strcmp(name, "kind") != 0 && !json_is_number(value) &&
            !(strcmp(name, "ignore_end") == 0 && json_is_boolean(value)))
            return "a setting that is not a number";
    }
    const json_t *messages = json_object_get(object, "messages"), *prompt = json_object_get(object, "prompt");
    if ((messages == NULL) == (prompt == NULL)) return "it needs messages, or a prompt";
    if (messages != NULL && !are_messages(messages))
        return "messages must be objects with a role (system, user or assistant) and a content";
    if (!are_stops(json_object_get(object, "stop"))) return "stop must be at most 16 strings";
    const json_t *seed = json_object_get(object, "seed");
    if (seed != NULL && !json_is_integer(seed)) return "seed must be an integer";
    const json_t *kind = json_object_get(object, "kind");
    if (kind != NULL && (!json_is_string(kind) || wane_kind_from(json_string_value(kind)) < 0))
        return "kind must be single, multi, code or summary";
    return NULL;
}

/* A line that begins with a brace is JSON, any other a prompt. */
static json_t *read_line(const char *path, int number, const char *line, size_t size) {
    if (text_utf8_prefix(line, size) != size) {
        cli_say("%s:%d: not UTF-8", path, number);
        return NULL;
    }
    if (line[0] != '{') return json_pack("{s:o}", "prompt", json_stringn_nocheck(line, size));
    json_error_t why;
    json_t *object = json_loadb(line, size, JSON_REJECT_DUPLICATES, &why);
    const char *fault = object == NULL ? why.text : fault_of(object);
    if (fault == NULL) return object;
    cli_say("%s:%d: %s", path, number, fault);
    json_decref(object);
    return NULL;
}

static json_t *read_file(const char *path) {
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        cli_say("cannot read %s: %s", path, strerror(errno));
        return NULL;
    }
    json_t *list = json_array();
    char *line = NULL;
    size_t room = 0;
    int number = 0;
    for (ssize_t size; list != NULL && (size = getline(&line, &room, file)) >= 0;) {
        number++;
        while (size > 0 && (line[size - 1] == '\n' || line[size - 1] == '\r')) size--;
        if (size == 0) continue;
        json_t *one = read_line(path, number, line, (size_t)size);
        if (one != NULL) {
            json_array_append_new(list, one);
        } else {
            json_decref(list);
            list = NULL;
        }
    }
    free(line);
    fclose(file);
    if (list != NULL && json_array_size(list) == 0) {
        cli_say("%s has no prompts; it needs one a line", path);
        json_decref(list);
        list = NULL;
    }
    return list;
}

/* ---- one prompt ---------------------------------------------------------------------------------------------------- */

static void set_real(const json_t *object, const char *name, float *out) {
    const json_t *value = json_object_get(object, name);
    if (value != NULL) *out = (float)json_number_value(value);
}

static void set_int(const json_t *object, const char *name, int *out) {
    const json_t *value = json_object_get(object, name);
    double number = json_number_value(value);
    /* Out of every range when it is no int: the library says so. */
    if (value != NULL)
        *out = number >= -2 && number <= 2147483647 && floor(number) == number ? (int)number : -2;
}

static void generation_of(const struct work *work, const json_t *object, const char *stops[STOPS_MOST],
                          wane_generation *g) {
    wane_generation_init(g);
    sampling_from(work->settings, &g->sampling);
    g->max_tokens = setting_int(work->settings, SET_MAX_TOKENS);
    g->stops = (const char *const *)work->settings->value[SET_STOP].list;
    g->stop_count = work->settings->value[SET_STOP].list_count;
    set_real(object, "temperature", &g->sampling.temperature);
    set_real(object, "top_p", &g->sampling.top_p);
    set_real(object, "min_p", &g->sampling.min_p);
    set_real(object, "repeat_penalty", &g->sampling.repeat_penalty);
    set_real(object, "presence_penalty", &g->sampling.presence_penalty);
    set_real(object, "frequency_penalty", &g->sampling.frequency_penalty);
    set_int(object, "top_k", &g->sampling.top_k);
    set_int(object, "penalty_window", &g->sampling.penalty_window);
    set_int(object, "max_tokens", &g->max_tokens);
    const json_t *seed = json_object_get(object, "seed"), *stop = json_object_get(object, "stop");
    if (seed != NULL) {
        g->sampling.seeded = true;
        g->sampling.seed = (uint64_t)json_integer_value(seed);
    }
    g->ignore_end = json_is_true(json_object_get(object, "ignore_end"));
    g->tenant = json_string_value(json_object_get(object, "tenant"));
    for (size_t i = 0; i < json_array_size(stop); i++) stops[i] = json_string_value(json_array_get(stop, i));
    if (stop != NULL) {
        g->stops = stops;
        g->stop_count = json_array_size(stop);
    }
}

/* Its messages in NFC, to be freed with free_messages. */
static int messages_of(const struct work *work, const json_t *object, wane_message **out, size_t *count,
                       wane_error *error) {
    const json_t *list = json_object_get(object, "messages"), *prompt = json_object_get(object, "prompt");
    const char *system = json_string_value(json_object_get(object, "system"));
    if (system == NULL) system = setting_text(work->settings, SET_SYSTEM);
    bool has_system = system != NULL && system[0] != '\0';
    *count = 0;
    wane_message *messages = *out = text_alloc((json_array_size(list) + 2) * sizeof *messages);
    wane_message given = {"system", system, has_system ? strlen(system) : 0};
    for (size_t i = has_system ? 0 : 1; i < 1 + (prompt != NULL ? 1 : json_array_size(list)); i++) {
        const json_t *one = prompt == NULL && i > 0 ? json_array_get(list, i - 1) : NULL;
        const json_t *content = one != NULL ? json_object_get(one, "content") : prompt;
        if (i > 0)
            given = (wane_message){one != NULL ? json_string_value(json_object_get(one, "role")) : "user",
                                   json_string_value(content), json_string_length(content)};
        char *nfc = NULL;
        size_t size = 0;
        int result = wane_text_nfc(given.content, given.content_size, &nfc, &size, error);
        if (result != WANE_OK) return result;
        messages[(*count)++] = (wane_message){given.role, nfc, size};
    }
    return WANE_OK;
}

static void free_messages(wane_message *messages, size_t count) {
    for (size_t i = 0; i < count; i++) free((char *)(uintptr_t)messages[i].content);
    free(messages);
}

static int kind_of(const struct work *work, const json_t *object, const wane_message *messages,
                   size_t count) {
    const char *said = json_string_value(json_object_get(object, "kind"));
    if (said == NULL) said = setting_text(work->settings, SET_KIND);
    return strcmp(said, "guess") == 0 ? wane_kind_guess(messages, count) : wane_kind_from(said);
}

/* Another session's cache is empty: what is computed then does not depend on the prompt before. */
static int fresh_session(struct work *work, wane_error *error) {
    interrupt_target(NULL);
    wane_session_free(work->session);
    work->session = NULL;
    int result = wane_session_new(work->model, &work->session, error);
    if (result == WANE_OK) interrupt_target(work->session);
    return result;
}

static int decode(struct work *work, const wane_tokens *prompt, const wane_generation *g, wane_error *error) {
    int result = WANE_OK;
    if (!setting_on(work->settings, SET_PREFIX_REUSE)) result = fresh_session(work, error);
    if (result == WANE_OK) result = wane_session_start(work->session, prompt->id, prompt->count, g, error);
    while (result == WANE_OK) {
        wane_event event;
        result = wane_session_next(work->session, &event, error);
        if (result != WANE_OK || event.kind != WANE_EVENT_END) continue;
        work->prompt_tokens += (size_t)event.prompt_tokens;
        work->reply_tokens += (size_t)event.reply_tokens;
        break;
    }
    return result;
}

static int answer(struct work *work, size_t index, wane_error *error) {
    const json_t *object = json_array_get(work->prompts, index);
    wane_message *messages = NULL;
    size_t count = 0;
    wane_tokens prompt = {0};
    const char *stops[STOPS_MOST];
    wane_generation g;
    generation_of(work, object, stops, &g);
    int result = messages_of(work, object, &messages, &count, error);
    if (result == WANE_OK) result = wane_chat_tokenize(work->model, messages, count, &prompt, error);
    if (result == WANE_OK) {
        g.kind = kind_of(work, object, messages, count);
        result = decode(work, &prompt, &g, error);
    }
    wane_recorder_flush(work->recorder); /* a reply's records fit the queue: none is dropped */
    wane_tokens_free(&prompt);
    free_messages(messages, count);
    return result;
}

static int answer_all(struct work *work) {
    size_t count = json_array_size(work->prompts);
    for (size_t i = 0; i < count; i++) {
        wane_error error = {0};
        char *what = text_format("recording %zu of %zu", i + 1, count);
        progress_show(what, (double)i / (double)count);
        free(what);
        int result = answer(work, i, &error);
        if (result == WANE_ECONTEXT) {
            work->skipped++;
            cli_say("prompt %zu is left out: %s", i + 1, error.text);
        } else if (result != WANE_OK) {
            if (result != WANE_ECANCELLED) cli_say("prompt %zu:", i + 1);
            return cli_fail_wane(&error);
        }
    }
    progress_clear();
    return EXIT_FINE;
}

/* ---- the command --------------------------------------------------------------------------------------------------- */

static void print_summary(const struct work *work) {
    wane_recorder_state s;
    wane_recorder_get_state(work->recorder, &s);
    double seconds = (now_ms() - work->began) / 1e3;
    const char *folder = setting_text(work->settings, SET_RECORD_OUT);
    size_t count = json_array_size(work->prompts);
    if (setting_on(work->settings, SET_JSON)) {
        out_json(json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}",
                           "model", wane_model_get_facts(work->model)->name, "folder", folder, "prompts",
                           (json_int_t)count, "left_out", (json_int_t)work->skipped, "prompt_tokens",
                           (json_int_t)work->prompt_tokens, "reply_tokens", (json_int_t)work->reply_tokens,
                           "requests", (json_int_t)s.requests, "tokens", (json_int_t)s.tokens,
                           "dropped_requests", (json_int_t)s.dropped_requests, "dropped_tokens",
                           (json_int_t)s.dropped_tokens, "redacted_tokens", (json_int_t)s.redacted_tokens,
                           "withheld_tokens", (json_int_t)s.withheld_tokens, "files", (json_int_t)s.files,
                           "bytes", (json_int_t)s.bytes, "seconds", json_ms(seconds)),
                 false);
        return;
    }
    out_format("%llu requests with %llu tokens recorded in %s (%.1f MB)\n", (unsigned long long)s.requests,
               (unsigned long long)s.tokens, folder, (double)s.bytes / 1e6);
    if (s.redacted_tokens > 0)
        out_format("%llu tokens redacted, %llu token records withheld\n",
                   (unsigned long long)s.redacted_tokens, (unsigned long long)s.withheld_tokens);
}

static int record(struct work *work) {
    wane_error error = {0};
    int code = recorder_open(work->settings, work->model, setting_text(work->settings, SET_RECORD_OUT),
                             &work->recorder);
    if (code != EXIT_FINE) return code;
    if (wane_session_new(work->model, &work->session, &error) != WANE_OK) return cli_fail_wane(&error);
    interrupt_target(work->session);
    work->began = now_ms();
    code = answer_all(work);
    interrupt_target(NULL);
    wane_recorder_flush(work->recorder);
    wane_recorder_state s;
    wane_recorder_get_state(work->recorder, &s);
    if (code == EXIT_FINE || code == EXIT_INTERRUPTED) print_summary(work);
    if (code == EXIT_FINE && s.dropped_tokens + s.dropped_requests > 0)
        code = cli_fail(EXIT_FAILED, "%llu requests and %llu tokens could not be recorded",
                        (unsigned long long)s.dropped_requests, (unsigned long long)s.dropped_tokens);
    return code;
}

int command_record(struct settings *settings) {
    const char *path = setting_text(settings, SET_PROMPTS);
    if (settings->operand_count > 0)
        return cli_usage("record", "wane record takes no words; got \"%.60s\"", settings->operands[0]);
    if (path == NULL) return cli_usage("record", "wane record needs --prompts with a file of them");
    struct work work = {.settings = settings, .prompts = read_file(path)};
    if (work.prompts == NULL) return EXIT_FAILED;
    interrupt_catch();
    int code = model_open(settings, &(struct model_wish){.sequences = 1, .decodes = true}, &work.model);
    if (code == EXIT_FINE) code = record(&work);
    wane_session_free(work.session);
    wane_recorder_close(work.recorder);
    wane_model_free(work.model);
    json_decref(work.prompts);
    return code;
}
