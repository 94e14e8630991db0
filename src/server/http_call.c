/* http_call.c - owns a parsed request: from bytes to fields, from fields to tokens, and what both had to copy. */
#include "server/http_call.h"

#include "core/memory.h"
#include "core/tokens.h"
#include "server/json.h"
#include "server/json_fields.h"

#include <string.h>

bool wane__call_parse(struct wane__call *call, enum wane__api api, const char *body, size_t size,
                      const struct wane__call_defaults *defaults, struct wane__problem *problem) {
    *call = (struct wane__call){.api = api, .top_logprobs = -1, .kind = -1};
    wane_generation_init(&call->generation);
    call->generation.sampling = defaults->sampling;
    call->generation.sampling.top_logprobs = -1;
    call->root = wane__json_parse(body, size, problem);
    if (call->root == NULL) return false;
    bool messages = (api & (WANE__API_MESSAGES | WANE__API_COUNT)) != 0;
    if (!(messages ? wane__anthropic_parse(call, problem) : wane__openai_parse(call, defaults, problem))) {
        return false;
    }
    if (call->max_tokens == 0) call->max_tokens = defaults->max_tokens;
    call->generation.max_tokens = call->max_tokens;
    call->generation.stops = call->stops;
    call->generation.stop_count = call->stop_count;
    return true;
}

void wane__call_drop_prompt(struct wane__call *call) {
    for (size_t i = 0; i < call->owned_count; i++) wane__free(call->owned[i]);
    wane__free(call->owned);
    wane__free(call->messages);
    wane_tokens_free(&call->prompt_tokens);
    wane__free(call->bias);
    json_decref(call->root);
    call->owned = NULL;
    call->owned_count = 0;
    call->messages = NULL;
    call->message_count = 0;
    call->bias = NULL;
    call->root = NULL;
    /* These pointed into the body. */
    call->model = NULL;
    call->prompt = NULL;
    call->mode = call->domain = call->hold = NULL;
    call->user = call->line = NULL;
    call->stop_count = 0;
    call->generation.stops = NULL;
    call->generation.stop_count = 0;
    call->generation.sampling.bias = NULL;
    call->generation.sampling.bias_count = 0;
}

void wane__call_free(struct wane__call *call) {
    if (call != NULL) wane__call_drop_prompt(call);
}

bool wane__call_take_ssp(struct wane__call *call, const char *where, const char **text, size_t *size,
                         struct wane__problem *problem) {
    wane_ssp ssp;
    size_t rest = 0;
    wane_error error = {0};
    if (wane_ssp_read(*text, *size, &ssp, &rest, &error) != WANE_OK)
        return wane__problem(problem, WANE__PROBLEM_INVALID, where, "%s: %s", where, error.text);
    if (!ssp.given) return true;
    if (call->ssp.given)
        return wane__problem(problem, WANE__PROBLEM_INVALID, where,
                             "%s: SSP: this is the second one; a request has one", where);
    call->ssp = ssp;
    *text += rest;
    *size -= rest;
    return true;
}

static bool own_text(struct wane__call *call, char *content) {
    /* Grown by doubling: the count is a power of two when the room is used up. */
    if ((call->owned_count & (call->owned_count - 1)) == 0) {
        size_t room = call->owned_count ? call->owned_count * 2 : 1;
        char **more = wane__resize(call->owned, room, sizeof *more);
        if (more == NULL) return false;
        call->owned = more;
    }
    call->owned[call->owned_count++] = content;
    return true;
}

bool wane__call_exchange_text(struct wane__call *call, size_t message, char *content, size_t size) {
    if (!own_text(call, content)) return false;
    call->messages[message].content = content;
    call->messages[message].content_size = size;
    return true;
}

bool wane__call_add_message(struct wane__call *call, const char *role, char *content, size_t size, bool own) {
    size_t count = call->message_count;
    if ((count & (count - 1)) == 0) {
        wane_message *more = wane__resize(call->messages, count ? count * 2 : 1, sizeof *more);
        if (more == NULL) return false;
        call->messages = more;
    }
    if (own && !own_text(call, content)) return false;
    call->messages[call->message_count++] = (wane_message){role, content, size};
    return true;
}

bool wane__call_tokenize(const struct wane__call *call, const wane_model *model, wane_tokens *tokens,
                         struct wane__problem *problem) {
    wane_error error = {0};
    int code = WANE_OK;
    if (call->api != WANE__API_TEXT) {
        code = wane_chat_tokenize(model, call->messages, call->message_count, tokens, &error);
    } else if (call->prompt != NULL) {
        code = wane_tokenize(model, call->prompt, call->prompt_size, WANE_TOKENIZE_SPECIAL, tokens, &error);
    } else {
        size_t count = call->prompt_tokens.count;
        if (!wane__tokens_reserve(tokens, count)) {
            return wane__problem(problem, WANE__PROBLEM_ENGINE, NULL, "no memory for %zu tokens", count);
        }
        memcpy(tokens->id + tokens->count, call->prompt_tokens.id, count * sizeof *tokens->id);
        tokens->count += count;
    }
    if (code != WANE_OK) {
        error.code = code;
        wane__problem_from(problem, &error);
        return false;
    }
    if (tokens->count == 0) {
        return wane__problem(problem, WANE__PROBLEM_INVALID,
                             call->api == WANE__API_TEXT ? "prompt" : "messages",
                             "the prompt is empty: it has no token to continue");
    }
    return true;
}
