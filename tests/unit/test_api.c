/* test_api.c - bodies of both APIs as the parsers see them: what arrives in the request, what is refused and how. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/http_call.h"

#include <string.h>

static struct wane__call_defaults defaults(void) {
    wane_generation generation;
    wane_generation_init(&generation);
    generation.sampling.temperature = 0.25f;
    return (struct wane__call_defaults){.sampling = generation.sampling, .max_tokens = 77, .vocab_size = 384};
}

static void accept(struct wane__call *call, enum wane__api api, const char *body) {
    struct wane__call_defaults base = defaults();
    struct wane__problem problem = {0};
    if (!wane__call_parse(call, api, body, strlen(body), &base, &problem))
        fail_msg("%s: %s", body, problem.text);
}

static void refuse(enum wane__api api, const char *body, const char *param, const char *words) {
    struct wane__call_defaults base = defaults();
    struct wane__problem problem = {0};
    struct wane__call call;
    if (wane__call_parse(&call, api, body, strlen(body), &base, &problem)) fail_msg("accepted: %s", body);
    wane__call_free(&call);
    assert_int_equal(wane__problem_status(&problem), 400);
    assert_string_equal(problem.param, param);
    if (strstr(problem.text, words) == NULL) fail_msg("\"%s\" does not say \"%s\"", problem.text, words);
}

static void check_message(const struct wane__call *call, size_t i, const char *role, const char *content) {
    assert_true(i < call->message_count);
    assert_string_equal(call->messages[i].role, role);
    assert_int_equal(call->messages[i].content_size, strlen(content));
    assert_memory_equal(call->messages[i].content, content, strlen(content));
}

#define MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define CLAUDE   "\"model\":\"m\",\"max_tokens\":5,"

static void test_anthropic_all_fields(void **state) {
    (void)state;
    struct wane__call call;
    accept(
        &call, WANE__API_MESSAGES,
        "{\"model\":\"claude-x\",\"max_tokens\":9,\"temperature\":1.5,\"top_p\":0.5,\"top_k\":7,\"stream\":"
        "true,"
        "\"stop_sequences\":[\"a\",\"bb\"],\"system\":[{\"type\":\"text\",\"text\":\"s1\",\"cache_control\":"
        "{\"type\":\"ephemeral\"}},{\"type\":\"text\",\"text\":\"s2\"}],"
        "\"messages\":[{\"role\":\"user\",\"content\":\"one\"},{\"role\":\"user\",\"content\":[{\"type\":"
        "\"text\","
        "\"text\":\"two\"},{\"type\":\"text\",\"text\":\"three\"}]},{\"role\":\"assistant\",\"content\":"
        "\"pre \"}]}");
    assert_string_equal(call.model, "claude-x");
    assert_int_equal(call.message_count, 3);
    check_message(&call, 0, "system", "s1\ns2");
    check_message(&call, 1, "user", "one\ntwo\nthree");
    check_message(&call, 2, "assistant", "pre ");
    assert_true(call.stream);
    assert_int_equal(call.generation.max_tokens, 9);
    assert_true(call.generation.sampling.temperature == 1.5f && call.generation.sampling.top_p == 0.5f);
    assert_int_equal(call.generation.sampling.top_k, 7);
    assert_int_equal(call.generation.stop_count, 2);
    assert_string_equal(call.generation.stops[1], "bb");
    assert_int_equal(call.generation.sampling.top_logprobs, -1);
    wane__call_free(&call);
}

static void test_defaults(void **state) {
    (void)state;
    struct wane__call call;
    accept(&call, WANE__API_CHAT, "{" MESSAGES "}");
    assert_null(call.model);
    assert_int_equal(call.generation.max_tokens, 77);
    assert_true(call.generation.sampling.temperature == 0.25f);
    assert_false(call.stream || call.include_usage || call.wants_logprobs || call.generation.sampling.seeded);
    wane__call_free(&call);
    accept(&call, WANE__API_CHAT,
           "{" MESSAGES ",\"temperature\":null,\"stop\":null,\"n\":null,\"tools\":null}");
    assert_true(call.generation.sampling.temperature == 0.25f);
    wane__call_free(&call);
    accept(&call, WANE__API_COUNT, "{\"model\":\"m\"," MESSAGES "}");
    wane__call_free(&call);
}

static void test_client_metadata(void **state) {
    (void)state;
    struct wane__call call;
    accept(&call, WANE__API_MESSAGES,
           "{" CLAUDE "\"system\":[{\"type\":\"text\",\"text\":\"x-anthropic-billing-header: v=1; h=ab\"},"
           "{\"type\":\"text\",\"text\":\"real\"}]," MESSAGES "}");
    assert_int_equal(call.dropped_blocks, 1);
    check_message(&call, 0, "system", "real");
    wane__call_free(&call);
    accept(&call, WANE__API_MESSAGES,
           "{" CLAUDE
           "\"system\":[{\"type\":\"text\",\"text\":\"x-anthropic-billing-header: v=1\"}]," MESSAGES "}");
    assert_int_equal(call.message_count, 1);
    wane__call_free(&call);
    /* Anywhere else it is text like any other. */
    accept(&call, WANE__API_MESSAGES,
           "{" CLAUDE "\"system\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":"
           "\"x-anthropic-billing-header: v\"}]," MESSAGES "}");
    assert_int_equal(call.dropped_blocks, 0);
    check_message(&call, 0, "system", "a\nx-anthropic-billing-header: v");
    wane__call_free(&call);
}

static void test_prefill(void **state) {
    (void)state;
    struct wane__call call;
    accept(&call, WANE__API_MESSAGES,
           "{" CLAUDE "\"messages\":[{\"role\":\"user\",\"content\":\"a\"},"
           "{\"role\":\"assistant\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":\"\"}]}");
    check_message(&call, 1, "assistant", "x");
    wane__call_free(&call);
    refuse(WANE__API_MESSAGES,
           "{" CLAUDE "\"messages\":[{\"role\":\"assistant\",\"content\":\"\"},"
           "{\"role\":\"user\",\"content\":\"a\"}]}",
           "messages.0.content", "empty");
}

static void test_anthropic_refused(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"{\"max_tokens\":5," MESSAGES "}", "model", "required"},
        {"{\"model\":\"m\"," MESSAGES "}", "max_tokens", "required"},
        {"{" CLAUDE "\"system\":\"s\"}", "messages", "required"},
        {"{" CLAUDE "\"messages\":null}", "messages", "null"},
        {"{" CLAUDE MESSAGES ",\"stream\":\"true\"}", "stream",
         "\"true\" is not allowed; it must be true or false"},
        {"{" CLAUDE MESSAGES ",\"top_p\":-1}", "top_p", "-1 is not allowed; it must be a number from 0 to 1"},
        {"{" CLAUDE MESSAGES ",\"temperature\":1e6}", "temperature", "from 0 to 2"},
        {"{" CLAUDE MESSAGES ",\"frobnicate\":{}}", "frobnicate", "not permitted"},
        {"{" CLAUDE MESSAGES ",\"tools\":[{}]}", "tools", "not supported"},
        {"{" CLAUDE MESSAGES ",\"thinking\":{\"type\":\"enabled\"}}", "thinking",
         "\"enabled\" is not supported"},
        {"{" CLAUDE MESSAGES ",\"thinking\":5}", "thinking", "null is not supported"},
        {"{" CLAUDE MESSAGES ",\"stop_sequences\":[\"\"]}", "stop_sequences", "1 to 1024 bytes"},
        {"{" CLAUDE "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}]}",
         "messages.0.content.0", "\"image\" is not supported"},
        {"{" CLAUDE "\"messages\":[{\"role\":\"boss\",\"content\":\"x\"}]}", "messages.0", "\"boss\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        refuse(WANE__API_MESSAGES, cases[i][0], cases[i][1], cases[i][2]);
    }
}

static void test_chat_all_fields(void **state) {
    (void)state;
    struct wane__call call;
    accept(
        &call, WANE__API_CHAT,
        "{\"model\":\"m\",\"messages\":[{\"role\":\"developer\",\"content\":\"d\"},{\"role\":\"user\","
        "\"content\":"
        "[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]},{\"role\":\"assistant\","
        "\"content\":\"c\",\"refusal\":null,\"tool_calls\":[]}],\"max_completion_tokens\":3,\"stop\":\"x\","
        "\"stream\":true,\"stream_options\":{\"include_usage\":true},\"seed\":-1,\"logit_bias\":{\"12\":-100,"
        "\"3\":5.5},\"logprobs\":true,\"top_logprobs\":20,\"presence_penalty\":-2,\"frequency_penalty\":2,"
        "\"min_p\":0.1,\"repeat_penalty\":1.5,\"top_k\":0}");
    check_message(&call, 0, "system", "d");
    check_message(&call, 1, "user", "a\nb");
    check_message(&call, 2, "assistant", "c");
    const wane_sampling *s = &call.generation.sampling;
    assert_int_equal(call.generation.max_tokens, 3);
    assert_string_equal(call.generation.stops[0], "x");
    assert_true(call.include_usage && s->seeded && s->seed == UINT64_MAX);
    assert_int_equal(s->bias_count, 2);
    assert_true(s->bias[0].token == 12 && s->bias[0].bias == -100.0f && s->bias[1].bias == 5.5f);
    assert_int_equal(s->top_logprobs, 20);
    assert_true(s->presence_penalty == -2 && s->frequency_penalty == 2 && s->repeat_penalty == 1.5f &&
                s->top_k == 0);
    wane__call_free(&call);
}

static void test_prompts(void **state) {
    (void)state;
    struct wane__call call;
    accept(&call, WANE__API_TEXT, "{\"prompt\":\"ab\"}");
    assert_string_equal(call.prompt, "ab");
    wane__call_free(&call);
    accept(&call, WANE__API_TEXT, "{\"prompt\":[\"ab\"],\"logprobs\":0}");
    assert_string_equal(call.prompt, "ab");
    assert_int_equal(call.generation.sampling.top_logprobs, 0);
    wane__call_free(&call);
    accept(&call, WANE__API_TEXT, "{\"prompt\":[0,383]}");
    assert_int_equal(call.prompt_tokens.count, 2);
    assert_int_equal(call.prompt_tokens.id[1], 383);
    wane__call_free(&call);
    accept(&call, WANE__API_TEXT, "{\"prompt\":[[5]]}");
    assert_int_equal(call.prompt_tokens.count, 1);
    wane__call_free(&call);
}

static void test_openai_refused(void **state) {
    (void)state;
    static const char *const chats[][3] = {
        {"{}", "messages", "required"},
        {"{" MESSAGES ",\"n\":2}", "n", "it must be 1"},
        {"{" MESSAGES ",\"n\":1.0}", "n", "it must be 1"},
        {"{" MESSAGES ",\"max_tokens\":1,\"max_completion_tokens\":2}", "max_tokens", "differs"},
        {"{" MESSAGES ",\"top_logprobs\":1}", "top_logprobs", "needs"},
        {"{" MESSAGES ",\"logprobs\":true,\"top_logprobs\":21}", "top_logprobs", "from 0 to 20"},
        {"{" MESSAGES ",\"stream_options\":{\"include_usage\":true}}", "stream_options", "stream"},
        {"{" MESSAGES ",\"stream_options\":{\"x\":true}}", "stream_options", "x"},
        {"{" MESSAGES ",\"logit_bias\":{\"384\":1}}", "logit_bias", "0 to 383"},
        {"{" MESSAGES ",\"logit_bias\":{\"5x\":1}}", "logit_bias", "token id"},
        {"{" MESSAGES ",\"logit_bias\":{\"5\":100.5}}", "logit_bias[\"5\"]", "-100 to 100"},
        {"{" MESSAGES ",\"response_format\":{\"type\":\"json_object\"}}", "response_format",
         "{\"type\":\"text\"}"},
        {"{\"messages\":[{\"role\":\"tool\",\"content\":\"x\"}]}", "messages[0].role",
         "tools are not supported"},
        {"{" MESSAGES ",\"messages2\":1}", "messages2", "not known"},
    };
    static const char *const texts[][3] = {
        {"{}", "prompt", "required"},
        {"{\"prompt\":[-1]}", "prompt[0]", "-1 is not allowed"},
        {"{\"prompt\":[1,384]}", "prompt", "0 to 383"},
        {"{\"prompt\":[\"a\",\"b\"]}", "prompt", "array of 2 prompts"},
        {"{\"prompt\":[]}", "prompt", "array of 0"},
        {"{\"prompt\":\"a\",\"echo\":true}", "echo", "must be false"},
        {"{\"prompt\":\"a\",\"suffix\":\"b\"}", "suffix", "not supported"},
        {"{\"prompt\":\"a\",\"logprobs\":6}", "logprobs", "0 to 5"},
        {"{\"prompt\":\"a\",\"top_logprobs\":1}", "top_logprobs", "not known"},
    };
    for (size_t i = 0; i < sizeof chats / sizeof chats[0]; i++) {
        refuse(WANE__API_CHAT, chats[i][0], chats[i][1], chats[i][2]);
    }
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        refuse(WANE__API_TEXT, texts[i][0], texts[i][1], texts[i][2]);
    }
}

static void test_drafts(void **state) {
    (void)state;
    struct wane__call call;
    accept(&call, WANE__API_CHAT, "{\"wane_draft\":false," MESSAGES "}");
    assert_true(call.generation.no_draft);
    wane__call_free(&call);
    accept(&call, WANE__API_MESSAGES, "{" CLAUDE "\"wane_draft\":true," MESSAGES "}");
    assert_false(call.generation.no_draft);
    wane__call_free(&call);
    accept(&call, WANE__API_MESSAGES, "{" CLAUDE MESSAGES "}");
    assert_false(call.generation.no_draft);
    wane__call_free(&call);
    refuse(WANE__API_TEXT, "{\"prompt\":\"x\",\"wane_memo\":1}", "wane_memo", "true or false");
    refuse(WANE__API_TEXT, "{\"prompt\":\"x\",\"wane_draft\":\"no\"}", "wane_draft", "true or false");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_anthropic_all_fields),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_client_metadata),
        cmocka_unit_test(test_prefill),
        cmocka_unit_test(test_anthropic_refused),
        cmocka_unit_test(test_chat_all_fields),
        cmocka_unit_test(test_prompts),
        cmocka_unit_test(test_openai_refused),
        cmocka_unit_test(test_drafts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
