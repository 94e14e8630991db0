/* fuzz_api.h - what must hold of every parsed body, and of every refusal, whichever API it came through. */
#ifndef WANE_TESTS_FUZZ_API_H
#define WANE_TESTS_FUZZ_API_H

#include "server/http_call.h"
#include "server/json.h"

#include <stdlib.h>
#include <string.h>

#define MUST(condition)            \
    do {                           \
        if (!(condition)) abort(); \
    } while (0)

static void check_utf8(const char *text, size_t size) {
    for (size_t at = 0; at < size;) {
        int step = wane__json_utf8(text + at, size - at);
        MUST(step > 0);
        at += (size_t)step;
    }
}

static void check_call(const struct wane__call *call, int vocab_size) {
    for (size_t i = 0; i < call->message_count; i++) {
        check_utf8(call->messages[i].content, call->messages[i].content_size);
        MUST(call->messages[i].role[0] != '\0');
    }
    if (call->api != WANE__API_TEXT) MUST(call->message_count > 0);
    if (call->prompt != NULL) check_utf8(call->prompt, call->prompt_size);
    for (size_t i = 0; i < call->prompt_tokens.count; i++) {
        MUST(call->prompt_tokens.id[i] >= 0 && call->prompt_tokens.id[i] < vocab_size);
    }
    wane_error error = {0};
    MUST(wane_generation_check(&call->generation, vocab_size, &error) == WANE_OK);
}

/* A refusal has words, and both APIs' bodies for it are JSON. */
static void check_problem(const struct wane__problem *problem) {
    MUST(problem->kind != WANE__PROBLEM_NONE && problem->text[0] != '\0');
    MUST(wane__problem_status(problem) >= 400);
    for (int shape = 0; shape < 2; shape++) {
        struct wane__buf out = {0};
        wane__problem_body(problem, (enum wane__shape)shape, "req_1", &out);
        MUST(!out.failed);
        json_t *again = json_loadb(out.data, out.size, JSON_REJECT_DUPLICATES, NULL);
        MUST(json_is_object(again));
        json_decref(again);
        wane__buf_free(&out);
    }
}

static void try_body(enum wane__api api, const uint8_t *data, size_t size) {
    struct wane__call_defaults defaults = {.max_tokens = 16, .vocab_size = 384};
    wane_generation generation;
    wane_generation_init(&generation);
    defaults.sampling = generation.sampling;
    struct wane__call call;
    struct wane__problem problem = {0};
    if (wane__call_parse(&call, api, (const char *)data, size, &defaults, &problem)) {
        check_call(&call, defaults.vocab_size);
    } else {
        check_problem(&problem);
    }
    wane__call_free(&call);
}

#endif
