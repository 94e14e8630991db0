/*
 * anthropic.c - reads the body of /v1/messages and /v1/messages/count_tokens.
 *
 * Text in, text out: images, documents, tools and thinking are refused by name rather than ignored, since an answer
 * that silently left them out would look like one that had seen them. Replies are written in anthropic_reply.c.
 */
#include "core/memory.h"
#include "server/json.h"
#include "server/json_fields.h"

#include <stdio.h>
#include <string.h>

#define BOTH (WANE__API_MESSAGES | WANE__API_COUNT)

/*
 * Some clients put a line of their own accounting first into the system blocks; it differs for every request. It is not
 * a prompt, and as the first tokens of the prompt it would keep every later token from being reused.
 */
static const char client_line[] = "x-anthropic-billing-header:";

/* Between the text blocks of a message, and between messages of one role that are merged. */
static const char joint[] = "\n";

static bool check_type(const json_t *block, const char *where, struct wane__problem *problem) {
    static const char *const allowed[] = {"type", "text", "cache_control", "citations", NULL};
    char shown[80];
    const json_t *type = json_object_get(block, "type");
    if (!json_is_object(block) || !json_is_string(type)) {
        return wane__problem(problem, WANE__PROBLEM_INVALID, where,
                             "%s: %s is not allowed; it must be an object with \"type\": \"text\"", where,
                             wane__json_show(block, shown, sizeof shown));
    }
    if (strcmp(json_string_value(type), "text") != 0) {
        return wane__problem(problem, WANE__PROBLEM_INVALID, where,
                             "%s.type: %s is not supported; this model reads \"text\" blocks only", where,
                             wane__json_show(type, shown, sizeof shown));
    }
    if (!wane__fields_only(block, where, allowed, problem)) return false;
    const json_t *text = json_object_get(block, "text");
    if (!json_is_string(text) || json_string_length(text) == 0) {
        return wane__problem(problem, WANE__PROBLEM_INVALID, where,
                             "%s.text: %s is not allowed; it must be a string that is not empty", where,
                             wane__json_show(text, shown, sizeof shown));
    }
    return true;
}

/* Whose text it is: only a system's may hold an instruction, and only the field's a line of the client's. */
enum place { OF_USER, OF_SYSTEM, IN_SYSTEM_FIELD };

/* Append the text of a string or of an array of text blocks to `out`. `call` counts what was dropped. */
static bool gather(struct wane__call *call, const json_t *content, const char *where, enum place place,
                   struct wane__buf *out, struct wane__problem *problem) {
    char shown[80], name[96];
    if (json_is_string(content)) {
        const char *text = json_string_value(content);
        size_t size = json_string_length(content);
        if (place != OF_USER && !wane__call_take_ssp(call, where, &text, &size, problem)) return false;
        wane__buf_append(out, text, size);
        return true;
    }
    if (!json_is_array(content)) {
        return wane__problem(problem, WANE__PROBLEM_INVALID, where,
                             "%s: %s is not allowed; it must be a string or an array of text blocks", where,
                             wane__json_show(content, shown, sizeof shown));
    }
    size_t index, start = out->size;
    const json_t *block;
    json_array_foreach(content, index, block) {
        snprintf(name, sizeof name, "%s.%zu", where, index);
        if (!check_type(block, name, problem)) return false;
        const json_t *text = json_object_get(block, "text");
        const char *bytes = json_string_value(text);
        size_t size = json_string_length(text);
        if (place == IN_SYSTEM_FIELD && index == 0 &&
            strncmp(bytes, client_line, sizeof client_line - 1) == 0) {
            call->dropped_blocks++;
            continue;
        }
        if (place != OF_USER && !wane__call_take_ssp(call, name, &bytes, &size, problem)) return false;
        if (size == 0) continue;
        if (out->size > start) wane__buf_text(out, joint);
        wane__buf_append(out, bytes, size);
    }
    return true;
}

/* Hand `text` over to the call as a message; empties it. */
static bool add(struct wane__call *call, const char *role, struct wane__buf *text,
                struct wane__problem *problem) {
    if (!text->failed && wane__buf_append(text, "", 0) &&
        wane__call_add_message(call, role, text->data, text->size, true)) {
        *text = (struct wane__buf){0};
        return true;
    }
    return wane__problem(problem, WANE__PROBLEM_ENGINE, NULL, "no memory for the prompt");
}

static bool read_system(struct wane__call *call, const json_t *system, struct wane__problem *problem) {
    struct wane__buf text = {0};
    bool fine = gather(call, system, "system", IN_SYSTEM_FIELD, &text, problem);
    if (fine && text.size > 0) fine = add(call, "system", &text, problem);
    wane__buf_free(&text);
    return fine;
}

/* The role as static text, or NULL with the problem said. */
static const char *read_role(const json_t *message, size_t index, struct wane__problem *problem) {
    char where[48], shown[80];
    snprintf(where, sizeof where, "messages.%zu", index);
    if (!json_is_object(message)) {
        wane__problem(problem, WANE__PROBLEM_INVALID, where, "%s: %s is not allowed; it must be an object",
                      where, wane__json_show(message, shown, sizeof shown));
        return NULL;
    }
    static const char *const allowed[] = {"role", "content", NULL};
    if (!wane__fields_only(message, where, allowed, problem)) return NULL;
    const json_t *role = json_object_get(message, "role");
    const char *text = json_is_string(role) ? json_string_value(role) : "";
    if (strcmp(text, "user") == 0) return "user";
    if (strcmp(text, "assistant") == 0) return "assistant";
    if (strcmp(text, "system") == 0) return "system";
    wane__problem(problem, WANE__PROBLEM_INVALID, where,
                  "%s.role: %s is not allowed; it must be \"user\", \"assistant\" or \"system\"", where,
                  wane__json_show(role, shown, sizeof shown));
    return NULL;
}

/* One message's text into `piece`. `skip`: it was an instruction and nothing else, and so is no message. */
static bool read_piece(struct wane__call *call, const char *role, const json_t *message, size_t index,
                       bool last, struct wane__buf *piece, bool *skip, struct wane__problem *problem) {
    char where[48];
    bool is_system = strcmp(role, "system") == 0, had = call->ssp.given;
    snprintf(where, sizeof where, "messages.%zu.content", index);
    if (!gather(call, json_object_get(message, "content"), where, is_system ? OF_SYSTEM : OF_USER, piece,
                problem))
        return false;
    *skip = piece->size == 0 && call->ssp.given && !had;
    if (piece->size > 0 || *skip || (last && strcmp(role, "assistant") == 0)) return true;
    return wane__problem(problem, WANE__PROBLEM_INVALID, where,
                         "%s: it is empty; only a last message of the assistant may be", where);
}

/* Messages in order; consecutive ones of a role are one turn. */
static bool read_turns(struct wane__call *call, const json_t *messages, struct wane__buf *text,
                       struct wane__problem *problem) {
    const char *turn = NULL;
    size_t index, count = json_array_size(messages);
    const json_t *message;
    bool fine = true;
    struct wane__buf piece = {0};
    json_array_foreach(messages, index, message) {
        bool skip = false;
        const char *role = read_role(message, index, problem);
        wane__buf_clear(&piece);
        fine = role != NULL &&
               read_piece(call, role, message, index, index + 1 == count, &piece, &skip, problem);
        if (fine && !skip && turn != NULL && turn != role) fine = add(call, turn, text, problem);
        if (!fine) break;
        if (skip) continue;
        if (text->size > 0 && piece.size > 0) wane__buf_text(text, joint);
        wane__buf_append(text, piece.data, piece.size);
        text->failed = text->failed || piece.failed;
        turn = role;
    }
    wane__buf_free(&piece);
    if (!fine || turn != NULL) return fine && add(call, turn, text, problem);
    return call->message_count > 0 ||
           wane__problem(problem, WANE__PROBLEM_INVALID, "messages",
                         "messages: there is nothing but an SSP; at least one message must have text");
}

static bool read_messages(struct wane__call *call, const json_t *messages, struct wane__problem *problem) {
    char shown[80];
    if (!json_is_array(messages) || json_array_size(messages) == 0) {
        return wane__problem(problem, WANE__PROBLEM_INVALID, "messages",
                             "messages: %s is not allowed; it must be an array with at least one message",
                             wane__json_show(messages, shown, sizeof shown));
    }
    struct wane__buf text = {0};
    bool fine = read_turns(call, messages, &text, problem);
    wane__buf_free(&text);
    return fine;
}

static bool read_stops(struct wane__call *call, const json_t *value, struct wane__problem *problem) {
    return wane__fields_stops(call, "stop_sequences", value, problem);
}

static bool read_thinking(struct wane__call *call, const json_t *value, struct wane__problem *problem) {
    (void)call;
    char shown[80];
    const json_t *type = json_object_get(value, "type");
    if (json_is_string(type) && strcmp(json_string_value(type), "disabled") == 0) return true;
    return wane__problem(
        problem, WANE__PROBLEM_INVALID, "thinking",
        "thinking.type: %s is not supported; leave thinking out or use {\"type\":\"disabled\"}",
        wane__json_show(type, shown, sizeof shown));
}

static bool read_later(struct wane__call *call, const json_t *value, struct wane__problem *problem) {
    (void)call;
    (void)value;
    (void)problem;
    return true; /* wane__anthropic_parse reads it, in the order of the prompt rather than of the body */
}

static const struct wane__field fields[] = {
    {"messages", BOTH, WANE__FIELD_READ, 0, 0, 0, read_later, NULL},
    {"system", BOTH, WANE__FIELD_READ, 0, 0, 0, read_later, NULL},
    {"stop_sequences", BOTH, WANE__FIELD_READ, 0, 0, 0, read_stops, NULL},
    {"thinking", BOTH, WANE__FIELD_READ, 0, 0, 0, read_thinking, NULL},
    {"cache_control", BOTH, WANE__FIELD_NOTHING, 0, 0, 0, NULL, NULL},
    {"inference_geo", BOTH, WANE__FIELD_NOTHING, 0, 0, 0, NULL, NULL},
    {"speed", BOTH, WANE__FIELD_NOTHING, 0, 0, 0, NULL, NULL},
    {"diagnostics", BOTH, WANE__FIELD_NOTHING, 0, 0, 0, NULL, NULL},
    {"user_profile_id", BOTH, WANE__FIELD_NOTHING, 0, 0, 0, NULL, NULL},
    {"tool_choice", BOTH, WANE__FIELD_ABSENT, 0, 0, 0, NULL, "tools are not supported"},
    {"mcp_servers", BOTH, WANE__FIELD_ABSENT, 0, 0, 0, NULL, "MCP servers are not supported"},
    {"container", BOTH, WANE__FIELD_ABSENT, 0, 0, 0, NULL, "containers are not supported"},
    {"context_management", BOTH, WANE__FIELD_ABSENT, 0, 0, 0, NULL, "context management is not supported"},
    {"output_config", BOTH, WANE__FIELD_ABSENT, 0, 0, 0, NULL, "output formats and effort are not supported"},
    {"output_format", BOTH, WANE__FIELD_ABSENT, 0, 0, 0, NULL, "output formats are not supported"},
    {NULL, 0, WANE__FIELD_NOTHING, 0, 0, 0, NULL, NULL},
};

bool wane__anthropic_parse(struct wane__call *call, struct wane__problem *problem) {
    if (!wane__fields_read(call, fields, problem)) return false;
    if (call->model == NULL) return wane__fields_missing("model", "the name of the loaded model", problem);
    if (call->max_tokens == 0 && call->api == WANE__API_MESSAGES) {
        return wane__fields_missing("max_tokens", "an integer of at least 1", problem);
    }
    const json_t *system = json_object_get(call->root, "system");
    if (system != NULL && !json_is_null(system) && !read_system(call, system, problem)) return false;
    const json_t *messages = json_object_get(call->root, "messages");
    if (messages == NULL)
        return wane__fields_missing("messages", "an array with at least one message", problem);
    return read_messages(call, messages, problem);
}
