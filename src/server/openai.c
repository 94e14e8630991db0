/*
 * openai.c - reads the bodies of /v1/chat/completions and /v1/completions.
 *
 * One choice, text only: what would ask for more (n, tools, images, audio, formats) is refused by name. Replies are
 * written in openai_reply.c.
 */
#include "core/memory.h"
#include "core/tokens.h"
#include "server/json.h"
#include "server/json_fields.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHAT WANE__API_CHAT
#define TEXT WANE__API_TEXT
#define BOTH (CHAT | TEXT)

static bool refuse(const char *field, const json_t *value, const char *allowed,
                   struct wane__problem *problem) {
    char shown[80];
    return wane__problem(problem, WANE__PROBLEM_INVALID, field, "%s: %s is not allowed; it must be %s", field,
                         wane__json_show(value, shown, sizeof shown), allowed);
}

static bool no_memory(struct wane__problem *problem) {
    return wane__problem(problem, WANE__PROBLEM_ENGINE, NULL, "no memory for the request");
}

/* ---------------------------------------------------------------- messages */

/* The text of an array of parts, joined by line ends as templates join them. Of a system's, the instruction is taken. */
static bool join_parts(struct wane__call *call, bool is_system, const json_t *parts, const char *where,
                       struct wane__buf *out, struct wane__problem *problem) {
    static const char *const allowed[] = {"type", "text", NULL};
    size_t index;
    const json_t *part;
    json_array_foreach(parts, index, part) {
        char name[96], shown[80];
        snprintf(name, sizeof name, "%s[%zu]", where, index);
        const json_t *type = json_object_get(part, "type");
        if (!json_is_string(type) || strcmp(json_string_value(type), "text") != 0) {
            return wane__problem(problem, WANE__PROBLEM_INVALID, name,
                                 "%s.type: %s is not supported; this model reads \"text\" parts only", name,
                                 wane__json_show(type, shown, sizeof shown));
        }
        const json_t *text = json_object_get(part, "text");
        if (!json_is_string(text)) return refuse(name, text, "an object with a string \"text\"", problem);
        if (!wane__fields_only(part, name, allowed, problem)) return false;
        const char *bytes = json_string_value(text);
        size_t size = json_string_length(text);
        bool had = call->ssp.given;
        if (is_system && !wane__call_take_ssp(call, name, &bytes, &size, problem)) return false;
        if (size == 0 && call->ssp.given && !had) continue;
        if (out->size > 0) wane__buf_text(out, "\n");
        wane__buf_append(out, bytes, size);
    }
    return true;
}

static bool add_content(struct wane__call *call, const char *role, const json_t *content, const char *where,
                        struct wane__problem *problem) {
    bool is_system = strcmp(role, "system") == 0, had = call->ssp.given;
    if (json_is_string(content)) {
        const char *text = json_string_value(content); /* lives in the body; never written to */
        size_t size = json_string_length(content);
        if (is_system && !wane__call_take_ssp(call, where, &text, &size, problem)) return false;
        if (size == 0 && call->ssp.given && !had) return true; /* nothing but the instruction */
        return wane__call_add_message(call, role, (char *)(uintptr_t)text, size, false) || no_memory(problem);
    }
    if (!json_is_array(content)) return refuse(where, content, "a string or an array of text parts", problem);
    struct wane__buf text = {0};
    bool fine = join_parts(call, is_system, content, where, &text, problem);
    if (fine && (text.size > 0 || !call->ssp.given || had)) {
        wane__buf_append(&text, "", 0);
        fine = !text.failed && wane__call_add_message(call, role, text.data, text.size, true);
        if (fine) text = (struct wane__buf){0};
        if (!fine) no_memory(problem);
    }
    wane__buf_free(&text);
    return fine;
}

/* The template's name for a role, or NULL. */
static const char *known_role(const json_t *role) {
    static const char *const names[][2] = {{"system", "system"},
                                           {"developer", "system"},
                                           {"user", "user"},
                                           {"assistant", "assistant"}};
    for (size_t i = 0; json_is_string(role) && i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(json_string_value(role), names[i][0]) == 0) return names[i][1];
    }
    return NULL;
}

static bool is_empty_array(const json_t *value) {
    return json_is_array(value) && json_array_size(value) == 0;
}

static bool read_message(struct wane__call *call, const json_t *message, size_t index,
                         struct wane__problem *problem) {
    /* What a client echoes from a reply: no effect while empty. */
    static const char *const allowed[] = {"role",        "content",    "name", "refusal",
                                          "annotations", "tool_calls", NULL};
    char where[48];
    snprintf(where, sizeof where, "messages[%zu]", index);
    if (!json_is_object(message)) return refuse(where, message, "an object with role and content", problem);
    snprintf(where, sizeof where, "messages[%zu].role", index);
    const json_t *role = json_object_get(message, "role");
    const char *name = known_role(role);
    if (name == NULL) {
        return refuse(where, role,
                      "\"system\", \"developer\", \"user\" or \"assistant\" (tools are not supported)",
                      problem);
    }
    snprintf(where, sizeof where, "messages[%zu]", index);
    if (!wane__fields_only(message, where, allowed, problem)) return false;
    const json_t *calls = json_object_get(message, "tool_calls");
    if (calls != NULL && !json_is_null(calls) && !is_empty_array(calls)) {
        snprintf(where, sizeof where, "messages[%zu].tool_calls", index);
        return refuse(where, calls, "left out: tools are not supported", problem);
    }
    snprintf(where, sizeof where, "messages[%zu].content", index);
    return add_content(call, name, json_object_get(message, "content"), where, problem);
}

static bool read_messages(struct wane__call *call, const json_t *messages, struct wane__problem *problem) {
    if (!json_is_array(messages) || json_array_size(messages) == 0) {
        return refuse("messages", messages, "an array with at least one message", problem);
    }
    size_t index;
    const json_t *message;
    json_array_foreach(messages, index, message) {
        if (!read_message(call, message, index, problem)) return false;
    }
    return call->message_count > 0 ||
           wane__problem(problem, WANE__PROBLEM_INVALID, "messages",
                         "messages: there is nothing but an SSP; at least one message must have text");
}

/* ------------------------------------------------------------------ prompt */

static void set_prompt(struct wane__call *call, const json_t *text) {
    call->prompt = json_string_value(text);
    call->prompt_size = json_string_length(text);
}

/* Range is checked by the caller, who knows the vocabulary: here only that it is an id at all. */
static bool read_token_list(struct wane__call *call, const json_t *list, struct wane__problem *problem) {
    size_t index;
    const json_t *item;
    if (!wane__tokens_reserve(&call->prompt_tokens, json_array_size(list))) return no_memory(problem);
    json_array_foreach(list, index, item) {
        char where[48];
        snprintf(where, sizeof where, "prompt[%zu]", index);
        if (!json_is_integer(item) || json_integer_value(item) < 0 || json_integer_value(item) > INT32_MAX) {
            return refuse(where, item, "a token id of this model", problem);
        }
        call->prompt_tokens.id[call->prompt_tokens.count++] = (int32_t)json_integer_value(item);
    }
    return true;
}

static bool read_prompt(struct wane__call *call, const json_t *value, struct wane__problem *problem) {
    static const char allowed[] = "a string, an array of one string, or an array of token ids";
    if (json_is_string(value)) {
        set_prompt(call, value);
        return true;
    }
    const json_t *first = json_array_get(value, 0);
    if (first == NULL) return refuse("prompt", value, allowed, problem);
    if (json_is_integer(first)) return read_token_list(call, value, problem);
    if (!json_is_string(first) && !json_is_array(first)) return refuse("prompt[0]", first, allowed, problem);
    if (json_array_size(value) > 1) {
        return wane__problem(problem, WANE__PROBLEM_INVALID, "prompt",
                             "prompt: an array of %zu prompts is not supported; send one request for each",
                             json_array_size(value));
    }
    if (json_is_string(first)) {
        set_prompt(call, first);
        return true;
    }
    if (json_array_size(first) == 0) return refuse("prompt[0]", first, allowed, problem);
    return read_token_list(call, first, problem);
}

/* ------------------------------------------------------------------ others */

static bool read_stop(struct wane__call *call, const json_t *value, struct wane__problem *problem) {
    if (!json_is_string(value)) return wane__fields_stops(call, "stop", value, problem);
    json_t *list = json_pack("[O]", (json_t *)(uintptr_t)value);
    if (list == NULL) return no_memory(problem);
    bool fine = wane__fields_stops(call, "stop", list, problem);
    json_decref(list); /* the string itself stays: the body holds it */
    return fine;
}

static bool read_stream_options(struct wane__call *call, const json_t *value, struct wane__problem *problem) {
    static const char *const allowed[] = {"include_usage", "include_obfuscation", NULL};
    if (!json_is_object(value)) return refuse("stream_options", value, "an object", problem);
    if (!wane__fields_only(value, "stream_options", allowed, problem)) return false;
    const json_t *usage = json_object_get(value, "include_usage");
    if (usage == NULL || json_is_null(usage)) return true;
    if (!json_is_boolean(usage))
        return refuse("stream_options.include_usage", usage, "true or false", problem);
    call->include_usage = json_is_true(usage);
    return true;
}

static bool read_bias(struct wane__call *call, const json_t *value, struct wane__problem *problem) {
    if (!json_is_object(value))
        return refuse("logit_bias", value, "an object of token ids and numbers", problem);
    if (json_object_size(value) > WANE__MAX_BIASES) {
        return wane__problem(problem, WANE__PROBLEM_INVALID, "logit_bias",
                             "logit_bias: %zu entries; at most %d", json_object_size(value),
                             WANE__MAX_BIASES);
    }
    wane__free(call->bias);
    call->bias = wane__alloc_zero(json_object_size(value), sizeof *call->bias);
    if (call->bias == NULL) return no_memory(problem);
    size_t count = 0;
    const char *key;
    const json_t *item;
    json_object_foreach((json_t *)(uintptr_t)value, key, item) {
        char *end = NULL, where[64];
        snprintf(where, sizeof where, "logit_bias[\"%.32s\"]", key);
        errno = 0;
        long token = strtol(key, &end, 10);
        if (key[0] < '0' || key[0] > '9' || *end != '\0' || errno != 0 || token > INT32_MAX) {
            return wane__problem(problem, WANE__PROBLEM_INVALID, "logit_bias",
                                 "%s: the key must be a token id", where);
        }
        double bias = json_is_number(item) ? json_number_value(item) : NAN;
        if (!(bias >= -100 && bias <= 100)) return refuse(where, item, "a number from -100 to 100", problem);
        call->bias[count++] = (wane_bias){(int32_t)token, (float)bias};
    }
    call->generation.sampling.bias = call->bias;
    call->generation.sampling.bias_count = count;
    return true;
}

static bool read_logprobs(struct wane__call *call, const json_t *value, struct wane__problem *problem) {
    if (call->api == CHAT) {
        if (!json_is_boolean(value)) return refuse("logprobs", value, "true or false", problem);
        call->wants_logprobs = json_is_true(value);
        return true;
    }
    if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > 5) {
        return refuse("logprobs", value, "an integer from 0 to 5", problem);
    }
    call->wants_logprobs = true;
    call->top_logprobs = (int)json_integer_value(value);
    return true;
}

static bool read_tool_choice(struct wane__call *call, const json_t *value, struct wane__problem *problem) {
    (void)call;
    const char *text = json_is_string(value) ? json_string_value(value) : "";
    if (strcmp(text, "none") == 0 || strcmp(text, "auto") == 0) return true; /* of no tools */
    return refuse("tool_choice", value, "\"none\" or left out: tools are not supported", problem);
}

#define READ(name, apis, function) \
    { name, apis, WANE__FIELD_READ, 0, 0, 0, function, NULL }
#define NOTHING(name, apis) \
    { name, apis, WANE__FIELD_NOTHING, 0, 0, 0, NULL, NULL }
#define ABSENT(name, apis, why) \
    { name, apis, WANE__FIELD_ABSENT, 0, 0, 0, NULL, why }
#define ONLY(name, apis, value) \
    { name, apis, WANE__FIELD_ONLY, 0, 0, 0, NULL, value }

static const struct wane__field fields[] = {
    READ("messages", CHAT, read_messages),
    READ("prompt", TEXT, read_prompt),
    READ("stop", BOTH, read_stop),
    READ("stream_options", BOTH, read_stream_options),
    READ("logit_bias", BOTH, read_bias),
    READ("logprobs", BOTH, read_logprobs),
    READ("tool_choice", CHAT, read_tool_choice),
    {"top_logprobs", CHAT, WANE__FIELD_INT, 0, WANE_MAX_TOP_LOGPROBS,
     offsetof(struct wane__call, top_logprobs), NULL, NULL},
    {"max_completion_tokens", CHAT, WANE__FIELD_INT, 1, INT_MAX,
     offsetof(struct wane__call, max_completion_tokens), NULL, NULL},
    ONLY("n", BOTH, "1"),
    ONLY("best_of", TEXT, "1"),
    ONLY("echo", TEXT, "false"),
    ONLY("response_format", CHAT, "{\"type\":\"text\"}"),
    ONLY("modalities", CHAT, "[\"text\"]"),
    ABSENT("suffix", TEXT, "a suffix is not supported"),
    ABSENT("functions", CHAT, "functions are not supported"),
    ABSENT("function_call", CHAT, "functions are not supported"),
    ABSENT("audio", CHAT, "audio is not supported"),
    ABSENT("prediction", CHAT, "a predicted output is not supported"),
    ABSENT("reasoning_effort", CHAT, "reasoning effort is not supported"),
    ABSENT("moderation", CHAT, "moderation is not supported"),
    ABSENT("verbosity", CHAT, "verbosity is not supported"),
    ABSENT("web_search_options", CHAT, "web search is not supported"),
    ABSENT("store", CHAT, "wane does not store completions"),
    NOTHING("safety_identifier", CHAT),
    NOTHING("prompt_cache_key", CHAT),
    NOTHING("prompt_cache_retention", CHAT),
    NOTHING("prompt_cache_options", CHAT),
    NOTHING("parallel_tool_calls", CHAT),
    {NULL, 0, WANE__FIELD_NOTHING, 0, 0, 0, NULL, NULL},
};

/* Two names for one limit, and a count that needs its switch. */
static bool settle(struct wane__call *call, struct wane__problem *problem) {
    if (call->max_completion_tokens != 0) {
        if (call->max_tokens != 0 && call->max_tokens != call->max_completion_tokens) {
            return wane__problem(problem, WANE__PROBLEM_INVALID, "max_tokens",
                                 "max_tokens: %d differs from max_completion_tokens, %d; send one of them",
                                 call->max_tokens, call->max_completion_tokens);
        }
        call->max_tokens = call->max_completion_tokens;
    }
    if (call->top_logprobs >= 0 && !call->wants_logprobs) {
        return wane__problem(problem, WANE__PROBLEM_INVALID, "top_logprobs",
                             "top_logprobs: it needs \"logprobs\": true");
    }
    if (call->include_usage && !call->stream) {
        return wane__problem(problem, WANE__PROBLEM_INVALID, "stream_options",
                             "stream_options: it is allowed only with \"stream\": true");
    }
    int top = call->top_logprobs > 0 ? call->top_logprobs : 0;
    call->generation.sampling.top_logprobs = call->wants_logprobs ? top : -1;
    return true;
}

static bool check_vocabulary(const struct wane__call *call, int vocab_size, struct wane__problem *problem) {
    for (size_t i = 0; i < call->prompt_tokens.count; i++) {
        if (call->prompt_tokens.id[i] < vocab_size) continue;
        return wane__problem(problem, WANE__PROBLEM_INVALID, "prompt",
                             "prompt[%zu]: %d is not a token of this model; ids go from 0 to %d", i,
                             (int)call->prompt_tokens.id[i], vocab_size - 1);
    }
    for (size_t i = 0; i < call->generation.sampling.bias_count; i++) {
        if (call->bias[i].token < vocab_size) continue;
        return wane__problem(problem, WANE__PROBLEM_INVALID, "logit_bias",
                             "logit_bias: %d is not a token of this model; ids go from 0 to %d",
                             (int)call->bias[i].token, vocab_size - 1);
    }
    return true;
}

bool wane__openai_parse(struct wane__call *call, const struct wane__call_defaults *defaults,
                        struct wane__problem *problem) {
    if (!wane__fields_read(call, fields, problem)) return false;
    if (call->api == CHAT && call->messages == NULL) {
        return wane__fields_missing("messages", "an array with at least one message", problem);
    }
    if (call->api == TEXT && call->prompt == NULL && call->prompt_tokens.count == 0) {
        return wane__fields_missing("prompt", "a string or an array of token ids", problem);
    }
    return settle(call, problem) && check_vocabulary(call, defaults->vocab_size, problem);
}
