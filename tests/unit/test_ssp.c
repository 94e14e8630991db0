/*
 * test_ssp.c - the structured system instruction: where it is read and what is left of the text, what each value does to the
 * settings, and that whatever is wrong is refused in words, by the parsers and by the server.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http_rig.h"
#include "model.h"
#include "server/http_call.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

/* ------------------------------------------------------------------ reading */

static void read_well(const char *text, const char *written, const char *rest) {
    wane_ssp ssp;
    wane_error error = {0};
    size_t at;
    char out[WANE_SSP_TEXT];
    if (wane_ssp_read(text, strlen(text), &ssp, &at, &error) != WANE_OK) fail_msg("%s: %s", text, error.text);
    assert_int_equal(ssp.given, written[0] != '\0');
    assert_string_equal(wane_ssp_write(&ssp, out), written);
    assert_string_equal(text + at, rest);
}

static void test_forms(void **state) {
    (void)state;
    const char *all = "SSP:domain=legal;confidence=high;tolerance=strict;fallback=conservative";
    read_well(all, all, "");
    read_well("SSP:domain=legal;confidence=high;tolerance=strict;fallback=conservative\nYou are a lawyer.",
              all, "You are a lawyer.");
    /* Order, case, blanks, a last ; and an end of line as Windows has it. */
    read_well("ssp: Fallback = NONE ; domain=Tech ;\r\nText", "SSP:domain=tech;fallback=none", "Text");
    read_well("\n \n\tSSP : confidence=low\n\n\n  Text\n", "SSP:confidence=low", "  Text\n");
    /* Full-width signs and blanks; what comes along unseen when text is pasted. */
    read_well("SSP：domain＝medical；　tolerance＝lenient；\n你好", "SSP:domain=medical;tolerance=lenient",
              "你好");
    read_well("\xef\xbb\xbfSSP:\xe2\x80\x8b"
              "domain=finance\nText",
              "SSP:domain=finance", "Text");
    /* Blank lines behind it go with it, the blanks of a line do not. */
    read_well("SSP:domain=creative\n   \n\t\n", "SSP:domain=creative", "");
    read_well("SSP:domain=creative\n\n    indented", "SSP:domain=creative", "    indented");
}

/* Texts need no zero at their end: a sanitizer sees whoever looks for one. Each beginning of a text is one. */
static void test_ends_of_texts(void **state) {
    (void)state;
    static const char *const texts[] = {"SSP:domain=legal;\n\r  \n\t",
                                        "\n \n SSP：domain＝legal；\r\n　\nText\n",
                                        "Text\n SSP : domain = legal", "[SSP:domain=legal]\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (size_t size = 0; size <= strlen(texts[i]); size++) {
            char *exact = malloc(size > 0 ? size : 1);
            wane_ssp ssp;
            size_t rest;
            assert_non_null(exact);
            memcpy(exact, texts[i], size);
            wane_ssp_read(exact, size, &ssp, &rest, NULL);
            assert_true(rest <= size);
            free(exact);
        }
}

static void test_no_instruction(void **state) {
    (void)state;
    static const char *const texts[] = {
        "",
        "You are helpful.",
        "\n\nSSPs are good.",
        "ssp",
        "The line SSP:domain=legal sets a policy.",
        "Write it thus:\n- SSP:domain=legal\n",
        "Sites:\nSSP: Service Support Provider\nSSP: another",
        "domain=legal;confidence=high",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) read_well(texts[i], "", texts[i]);
}

struct wrong {
    const char *text, *says[6];
};
static const struct wrong wrongs[] = {
#include "vectors/ssp_malformed.inc"
};
enum { WRONGS = sizeof wrongs / sizeof *wrongs };

static void check_says(const char *text, const struct wrong *wrong) {
    for (int i = 0; i < 6 && wrong->says[i] != NULL; i++)
        if (strstr(text, wrong->says[i]) == NULL)
            fail_msg("of %s: \"%s\" does not say \"%s\"", wrong->text, text, wrong->says[i]);
}

static void test_malformed(void **state) {
    (void)state;
    assert_true(WRONGS >= 200);
    for (int i = 0; i < WRONGS; i++) {
        wane_ssp ssp;
        wane_error error = {0};
        size_t rest;
        if (wane_ssp_read(wrongs[i].text, strlen(wrongs[i].text), &ssp, &rest, &error) != WANE_EINVAL)
            fail_msg("taken: %s", wrongs[i].text);
        assert_false(ssp.given);
        check_says(error.text, &wrongs[i]);
    }
}

static void test_names(void **state) {
    (void)state;
    for (int key = 0; key < WANE_SSP_KEYS; key++)
        for (int value = 1; wane_ssp_value_name(key, value) != NULL; value++) {
            char text[100], out[WANE_SSP_TEXT];
            wane_ssp ssp;
            size_t rest;
            snprintf(text, sizeof text, "SSP:%s=%s", wane_ssp_key_name(key), wane_ssp_value_name(key, value));
            assert_int_equal(wane_ssp_read(text, strlen(text), &ssp, &rest, NULL), WANE_OK);
            assert_int_equal(ssp.value[key], value);
            assert_int_equal(wane_ssp_value_from(key, wane_ssp_value_name(key, value)), value);
            assert_string_equal(wane_ssp_write(&ssp, out), text);
        }
    assert_null(wane_ssp_key_name(-1));
    assert_null(wane_ssp_key_name(WANE_SSP_KEYS));
    assert_null(wane_ssp_value_name(WANE_SSP_CONFIDENCE, 4));
    assert_null(wane_ssp_value_name(WANE_SSP_DOMAIN, 0));
    assert_int_equal(wane_ssp_value_from(WANE_SSP_DOMAIN, "law"), 0);
    assert_int_equal(wane_ssp_value_from(WANE_SSP_KEYS, "legal"), 0);
}

/* ------------------------------------------------------------------ the table */

static wane_quality after(const wane_quality *base, const char *instruction) {
    wane_ssp ssp;
    wane_error error = {0};
    size_t rest;
    wane_quality q = *base;
    if (wane_ssp_read(instruction, strlen(instruction), &ssp, &rest, &error) != WANE_OK)
        fail_msg("%s: %s", instruction, error.text);
    wane_ssp_apply(&ssp, &q);
    assert_int_equal(wane_quality_check(&q, &error), WANE_OK);
    assert_int_equal(q.mode, WANE_MODE_WANE);
    return q;
}

static wane_quality defaults(void) {
    wane_quality q;
    wane_quality_init(&q);
    return q;
}

static void near(float a, double b) {
    assert_true(fabs((double)a - b) < 1e-5);
}

/* The odds that are asked for are multiplied by the domain's stability. */
static void check_stability(const char *instruction, double sst) {
    wane_quality base = defaults(), q = after(&base, instruction);
    near(q.odds_base, (double)base.odds_base + log10(sst));
    near(q.stability, sst);
    base.stability = 2;
    q = after(&base, instruction);
    near(q.stability, 2 * sst);
}

static void test_domains(void **state) {
    (void)state;
    wane_quality base = defaults(), q = after(&base, "SSP:domain=legal");
    check_stability("SSP:domain=legal", 1.3);
    near(q.hold, 0.2 * (double)base.hold);
    near(q.odds_documents, 2 * (double)base.odds_documents);
    assert_true(q.rules);

    q = after(&base, "SSP:domain=medical");
    check_stability("SSP:domain=medical", 1.4);
    near(q.hold, 0.1 * (double)base.hold);
    assert_int_equal(q.clamp, 40);

    q = after(&base, "SSP:domain=finance");
    check_stability("SSP:domain=finance", 1.25);
    near(q.hold, 0.5 * (double)base.hold);
    assert_int_equal(q.clamp, 20);

    q = after(&base, "SSP:domain=tech");
    check_stability("SSP:domain=tech", 1.1);
    assert_false(q.rules);
    assert_int_equal(q.clamp, base.clamp);

    q = after(&base, "SSP:domain=creative");
    check_stability("SSP:domain=creative", 0.7);
    assert_false(q.rules);
    assert_int_equal(q.clamp, 0);
    near(q.dialogue_slope, 0);
}

static void test_confidence(void **state) {
    (void)state;
    wane_quality base = defaults(), high = after(&base, "SSP:confidence=high"),
                 medium = after(&base, "SSP:confidence=medium"), low = after(&base, "SSP:confidence=low");
    near(high.odds_base, (double)base.odds_base + 0.5);
    near(low.odds_base, (double)base.odds_base - 0.5);
    assert_int_equal(high.doubt_budget, 2);
    assert_int_equal(low.doubt_budget, 35);
    near(high.revival_top, 1.5 * (double)base.revival_top);
    assert_int_equal(low.revival_after, 0);
    /* The middle is the server's own. */
    medium.mode = base.mode;
    assert_memory_equal(&medium, &base, sizeof base);
}

static void test_tolerance(void **state) {
    (void)state;
    wane_quality base = defaults(), strict = after(&base, "SSP:tolerance=strict"),
                 balanced = after(&base, "SSP:tolerance=balanced"),
                 lenient = after(&base, "SSP:tolerance=lenient");
    near(strict.hold, 0);
    assert_int_equal(strict.clamp, 20);
    near(lenient.hold, 4 * (double)base.hold);
    assert_int_equal(lenient.clamp, 0);
    assert_int_equal(strict.fuse, WANE_FUSE_LOOP);
    near(strict.fuse_limit, 3 * (double)base.fuse_limit);
    assert_int_equal(lenient.fuse, WANE_FUSE_OFF);
    /* The middle is the server's own, but for a fuse: there is one, and it asks for a loop. */
    balanced.mode = base.mode;
    assert_memory_equal(&balanced, &base, sizeof base);
    base.fuse = WANE_FUSE_OFF;
    assert_int_equal(after(&base, "SSP:tolerance=balanced").fuse, WANE_FUSE_LOOP);
    assert_int_equal(after(&base, "SSP:tolerance=strict").fuse, WANE_FUSE_LOOP);
    assert_int_equal(after(&base, "SSP:domain=tech").fuse, WANE_FUSE_OFF);
    base.fuse = WANE_FUSE_PLAIN;
    assert_int_equal(after(&base, "SSP:tolerance=balanced").fuse, WANE_FUSE_LOOP);
    assert_int_equal(after(&base, "SSP:tolerance=strict").fuse, WANE_FUSE_PLAIN);
}

static void test_fallback(void **state) {
    (void)state;
    wane_quality base = defaults();
    assert_int_equal(after(&base, "SSP:fallback=transparent").fallback, WANE_FALLBACK_TRANSPARENT);
    assert_int_equal(after(&base, "SSP:fallback=none").fallback, WANE_FALLBACK_NONE);
    base.fallback = WANE_FALLBACK_NONE;
    assert_int_equal(after(&base, "SSP:fallback=conservative").fallback, WANE_FALLBACK_CONSERVATIVE);
    assert_int_equal(after(&base, "SSP:domain=tech").fallback, WANE_FALLBACK_NONE);
}

/* Stricter never loosens, and nothing leaves its range, whatever the settings are that it starts from. */
static void test_any_settings(void **state) {
    (void)state;
    static const int clamps[] = {0, 1, 19, 20, 21, 256}, budgets[] = {0, 1, 8, 1 << 24};
    static const float odds[] = {-10, 0, 9.9f, 10}, shares[] = {0, 0.05f, 0.9f, 1};
    for (int i = 0; i < 6 * 4 * 4 * 4; i++) {
        wane_quality base = defaults();
        base.clamp = clamps[i % 6];
        base.doubt_budget = budgets[i / 6 % 4];
        base.odds_base = odds[i / 24 % 4];
        base.hold = base.revival_top = shares[i / 96 % 4];
        wane_quality strict = after(&base, "SSP:domain=medical;confidence=high;tolerance=strict"),
                     loose = after(&base, "SSP:domain=creative;confidence=low;tolerance=lenient");
        assert_true(strict.clamp > 0 && (base.clamp == 0 || strict.clamp <= base.clamp));
        assert_true(strict.hold <= base.hold && strict.odds_base >= base.odds_base);
        assert_true(strict.doubt_budget <= base.doubt_budget && strict.revival_top >= base.revival_top);
        assert_true(loose.odds_base <= base.odds_base && loose.doubt_budget >= base.doubt_budget);
    }
    wane_ssp none = {0};
    wane_quality base = defaults(), q = base;
    wane_ssp_apply(&none, &q);
    assert_memory_equal(&q, &base, sizeof q);
    /* With settings of its own for the domain, the table's row is left out, and the rest is not. */
    wane_ssp settled = {.given = true, .value = {WANE_SSP_LEGAL, WANE_SSP_HIGH}, .settled = true};
    wane_ssp_apply(&settled, &q);
    near(q.hold, (double)base.hold);
    near(q.odds_base, (double)base.odds_base + 0.5);
}

/* ------------------------------------------------------------------ bodies */

static void take(struct wane__call *call, enum wane__api api, const char *body) {
    wane_generation generation;
    wane_generation_init(&generation);
    struct wane__call_defaults base = {.sampling = generation.sampling, .max_tokens = 77, .vocab_size = 384};
    struct wane__problem problem = {0};
    if (!wane__call_parse(call, api, body, strlen(body), &base, &problem))
        fail_msg("%s: %s", body, problem.text);
}

static void refuse(enum wane__api api, const char *body, const char *param, const char *words) {
    wane_generation generation;
    wane_generation_init(&generation);
    struct wane__call_defaults base = {.sampling = generation.sampling, .max_tokens = 77, .vocab_size = 384};
    struct wane__problem problem = {0};
    struct wane__call call;
    if (wane__call_parse(&call, api, body, strlen(body), &base, &problem)) fail_msg("accepted: %s", body);
    wane__call_free(&call);
    assert_string_equal(problem.param, param);
    if (strstr(problem.text, words) == NULL) fail_msg("\"%s\" does not say \"%s\"", problem.text, words);
}

/* The body with the instruction gives what the other one gives without it, and says the instruction. */
static void same_prompt(enum wane__api api, const char *with, const char *without) {
    struct wane__call a, b;
    char out[WANE_SSP_TEXT];
    take(&a, api, with);
    take(&b, api, without);
    assert_string_equal(wane_ssp_write(&a.ssp, out), "SSP:domain=legal");
    assert_false(b.ssp.given);
    assert_int_equal(a.message_count, b.message_count);
    for (size_t i = 0; i < a.message_count; i++) {
        assert_string_equal(a.messages[i].role, b.messages[i].role);
        assert_int_equal(a.messages[i].content_size, b.messages[i].content_size);
        assert_memory_equal(a.messages[i].content, b.messages[i].content, a.messages[i].content_size);
    }
    wane__call_free(&a);
    wane__call_free(&b);
}

#define HI          "{\"role\":\"user\",\"content\":\"hi\"}"
#define CLAUDE      "\"model\":\"m\",\"max_tokens\":5,"
#define BLOCK(text) "{\"type\":\"text\",\"text\":\"" text "\"}"

static void test_anthropic(void **state) {
    (void)state;
    const enum wane__api api = WANE__API_MESSAGES;
    static const char plain[] = "{" CLAUDE "\"system\":\"Be brief.\",\"messages\":[" HI "]}",
                      bare[] = "{" CLAUDE "\"messages\":[" HI "]}",
                      two[] = "{" CLAUDE "\"system\":\"A\\nB\",\"messages\":[" HI "]}";
    same_prompt(api, "{" CLAUDE "\"system\":\"SSP:domain=legal\\n\\nBe brief.\",\"messages\":[" HI "]}",
                plain);
    same_prompt(api, "{" CLAUDE "\"system\":\"SSP:domain=legal\",\"messages\":[" HI "]}", bare);
    same_prompt(api,
                "{" CLAUDE
                "\"system\":[" BLOCK("SSP:domain=legal") "," BLOCK("Be brief.") "],\"messages\":[" HI "]}",
                plain);
    same_prompt(api,
                "{" CLAUDE "\"system\":[" BLOCK("A") "," BLOCK("SSP:domain=legal\\nB") "],\"messages\":[" HI
                                                                                       "]}",
                two);
    same_prompt(api,
                "{" CLAUDE
                "\"system\":[" BLOCK("A") "," BLOCK("SSP:domain=legal") "," BLOCK("B") "],\"messages\":[" HI
                                                                                       "]}",
                two);
    same_prompt(api,
                "{" CLAUDE "\"system\":[" BLOCK("x-anthropic-billing-header: v") "," BLOCK(
                    "SSP:domain=legal") "],\"messages\":[" HI "]}",
                bare);
    /* A system's message among the others; it leaves no trace between two of one role. */
    same_prompt(api,
                "{" CLAUDE "\"messages\":[{\"role\":\"system\",\"content\":\"SSP:domain=legal\"}," HI "]}",
                bare);
    same_prompt(api,
                "{" CLAUDE "\"messages\":[" HI ",{\"role\":\"system\",\"content\":\"SSP:domain=legal\"}," HI
                "]}",
                "{" CLAUDE "\"messages\":[" HI "," HI "]}");
    same_prompt(WANE__API_COUNT, "{" CLAUDE "\"system\":\"SSP:domain=legal\",\"messages\":[" HI "]}", bare);
    /* A user's text is text. */
    struct wane__call call;
    take(&call, api, "{" CLAUDE "\"messages\":[{\"role\":\"user\",\"content\":\"SSP:domain=legal\"}]}");
    assert_false(call.ssp.given);
    assert_string_equal(call.messages[0].content, "SSP:domain=legal");
    wane__call_free(&call);
    take(&call, api,
         "{" CLAUDE "\"messages\":[" HI ",{\"role\":\"assistant\",\"content\":\"SSP:domian=x\"}]}");
    assert_false(call.ssp.given);
    wane__call_free(&call);

    refuse(api, "{" CLAUDE "\"system\":\"SSP:domain=x\",\"messages\":[" HI "]}", "system",
           "system: SSP: domain: \"x\"");
    refuse(api, "{" CLAUDE "\"system\":[" BLOCK("A") "," BLOCK("SSP:domain=x") "],\"messages\":[" HI "]}",
           "system.1", "system.1: SSP: domain: \"x\"");
    refuse(api,
           "{" CLAUDE
           "\"system\":[" BLOCK("SSP:domain=legal") "," BLOCK("SSP:confidence=low") "],\"messages\":[" HI
                                                                                    "]}",
           "system.1", "second one");
    refuse(api, "{" CLAUDE "\"messages\":[{\"role\":\"system\",\"content\":\"SSP:domain=legal\"}]}",
           "messages", "nothing but an SSP");
}

static void test_openai(void **state) {
    (void)state;
    const enum wane__api api = WANE__API_CHAT;
    static const char plain[] = "{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"}," HI "]}",
                      bare[] = "{\"messages\":[" HI "]}";
    same_prompt(api,
                "{\"messages\":[{\"role\":\"system\",\"content\":\"SSP:domain=legal\\nBe brief.\"}," HI "]}",
                plain);
    same_prompt(api,
                "{\"messages\":[{\"role\":\"developer\",\"content\":\"SSP:domain=legal\\nBe brief.\"}," HI
                "]}",
                plain);
    same_prompt(api,
                "{\"messages\":[{\"role\":\"system\",\"content\":[" BLOCK("SSP:domain=legal") "," BLOCK(
                    "Be brief.") "]}," HI "]}",
                plain);
    same_prompt(api, "{\"messages\":[{\"role\":\"system\",\"content\":\"SSP:domain=legal\"}," HI "]}", bare);
    same_prompt(api,
                "{\"messages\":[{\"role\":\"system\",\"content\":[" BLOCK("SSP:domain=legal") "]}," HI "]}",
                bare);
    same_prompt(
        api,
        "{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"developer\",\"content\":"
        "\"SSP:domain=legal\"}," HI "]}",
        plain);
    struct wane__call call;
    take(&call, api, "{\"messages\":[{\"role\":\"user\",\"content\":\"SSP:domian=legal\"}]}");
    assert_false(call.ssp.given);
    wane__call_free(&call);
    take(&call, WANE__API_TEXT, "{\"prompt\":\"SSP:domian=legal\"}");
    assert_false(call.ssp.given);
    wane__call_free(&call);
    refuse(api, "{\"messages\":[{\"role\":\"system\",\"content\":\"SSP:tolerance=x\"}," HI "]}",
           "messages[0].content", "SSP: tolerance: \"x\"");
    refuse(api, "{\"messages\":[{\"role\":\"system\",\"content\":[" BLOCK("SSP:x=y") "]}," HI "]}",
           "messages[0].content[0]", "SSP: \"x\"");
    refuse(api, "{\"messages\":[{\"role\":\"system\",\"content\":\"SSP:domain=legal\"}]}", "messages",
           "nothing but an SSP");
}

/* ------------------------------------------------------------------ the server */

static const int32_t hello[] = {'h', 'e', 'l', 'l', 'o', 257};
static const struct wane__script_reply replies[] = {
    {.match = "", .tokens = hello, .count = 6, .fail_at = -1}};

struct rig {
    struct wane__log log;
    wane_model *model;
    wane_server *server;
};

static void start(struct rig *rig, unsigned request_modes, const wane_domain *domain) {
    struct wane__script script = {.replies = replies, .reply_count = 1, .sequences = 2};
    struct wane__engine *engine = NULL;
    wane_error error = {0};
    wane_server_options options;
    wane__log_init(&rig->log, NULL, NULL);
    assert_int_equal(wane__script_load(&script, &rig->log, &engine, &error), WANE_OK);
    assert_int_equal(wane__model_wrap(engine, NULL, NULL, &rig->model, &error), WANE_OK);
    wane_server_options_init(&options);
    options.port = 0;
    options.sampling.temperature = 0;
    options.scheduler.window_ms = 1;
    options.request_modes = request_modes;
    options.domains = domain;
    options.domain_count = domain != NULL;
    if (wane_server_start(rig->model, &options, &rig->server, &error) != WANE_OK) fail_msg("%s", error.text);
}

static void stop(struct rig *rig) {
    wane_server_free(rig->server);
    wane_model_free(rig->model);
    wane__log_close(&rig->log);
}

/* The status, and the body as JSON where it is. */
static int ask(const struct rig *rig, const char *path, const char *body, json_t **value) {
    static char reply[65536];
    int fd = http_dial(rig->server);
    http_send(fd, body[0] != '\0' ? "POST" : "GET", path, "", body);
    int status = http_receive(fd, reply, sizeof reply);
    const char *start_of_body = strstr(reply, "\r\n\r\n");
    assert_non_null(start_of_body);
    if (value != NULL) {
        *value = json_loads(start_of_body + 4, 0, NULL);
        if (*value == NULL) *value = json_string(start_of_body + 4);
    }
    return status;
}

static int ask_with(const struct rig *rig, bool chat, const char *system, json_t **value) {
    json_t *request = chat ? json_pack("{s:[{s:s, s:s}, {s:s, s:s}]}", "messages", "role", "system",
                                       "content", system, "role", "user", "content", "hi")
                           : json_pack("{s:s, s:i, s:s, s:[{s:s, s:s}]}", "model", "default", "max_tokens", 9,
                                       "system", system, "messages", "role", "user", "content", "hi");
    char *body = json_dumps(request, JSON_COMPACT);
    assert_non_null(body);
    int status = ask(rig, chat ? "/v1/chat/completions" : "/v1/messages", body, value);
    free(body);
    json_decref(request);
    return status;
}

/* Every one of them, by both APIs; and the server answers on. */
static void test_malformed_over_http(void **state) {
    (void)state;
    struct rig rig;
    start(&rig, 1u << WANE_MODE_WANE, NULL);
    for (int i = 0; i < WRONGS; i++)
        for (int chat = 0; chat < 2; chat++) {
            json_t *value;
            int status = ask_with(&rig, chat != 0, wrongs[i].text, &value);
            if (status != 400) fail_msg("status %d of %s", status, wrongs[i].text);
            const json_t *error = json_object_get(value, "error");
            const char *words = json_string_value(json_object_get(error, "message"));
            assert_non_null(words);
            check_says(words, &wrongs[i]);
            assert_string_equal(json_string_value(json_object_get(error, "type")), "invalid_request_error");
            json_decref(value);
        }
    assert_int_equal(ask_with(&rig, true, "SSP:domain=legal", NULL), 200);
    stop(&rig);
}

static const char *wane_says(const json_t *value, const char *key) {
    const json_t *ssp = json_object_get(json_object_get(value, "wane"), "ssp");
    const char *text = json_string_value(json_object_get(ssp, key));
    return text != NULL ? text : "";
}

static void test_replies_say_it(void **state) {
    (void)state;
    struct rig rig;
    json_t *value;
    wane_quality legal = defaults();
    wane_domain domain = {"legal", &legal};
    start(&rig, 1u << WANE_MODE_WANE, &domain);
    for (int chat = 0; chat < 2; chat++) {
        assert_int_equal(ask_with(&rig, chat != 0, "SSP:domain=tech;fallback=none\nBe brief.", &value), 200);
        assert_string_equal(wane_says(value, "domain"), "tech");
        assert_string_equal(wane_says(value, "fallback"), "none");
        assert_string_equal(wane_says(value, "confidence"), "");
        assert_string_equal(wane_says(value, "settings"), "");
        json_decref(value);
        assert_int_equal(ask_with(&rig, chat != 0, "SSP:domain=legal", &value), 200);
        assert_string_equal(wane_says(value, "settings"), "server");
        json_decref(value);
        assert_int_equal(ask_with(&rig, chat != 0, "Be brief.", &value), 200);
        assert_null(json_object_get(value, "wane"));
        json_decref(value);
    }
    assert_int_equal(ask(&rig, "/metrics", "", &value), 200);
    const char *metrics = json_string_value(value);
    assert_non_null(strstr(metrics, "\nwane_ssp_requests_total 4\n"));
    assert_non_null(strstr(metrics, "\nwane_ssp_values_total{domain=\"tech\"} 2\n"));
    assert_non_null(strstr(metrics, "\nwane_ssp_values_total{fallback=\"none\"} 2\n"));
    json_decref(value);
    stop(&rig);
}

/* Where mode wane is not to be had, nothing may look as if the instruction were in force. */
static void test_modes(void **state) {
    (void)state;
    struct rig rig;
    json_t *value;
    start(&rig, 0, NULL);
    assert_int_equal(ask_with(&rig, false, "SSP:domain=legal", &value), 400);
    const char *words = json_string_value(json_object_get(json_object_get(value, "error"), "message"));
    assert_non_null(strstr(words, "--request-modes wane"));
    json_decref(value);
    assert_int_equal(ask_with(&rig, false, "Be brief.", NULL), 200);
    stop(&rig);
    start(&rig, 7, NULL);
    static const char body[] =
        "{\"messages\":[{\"role\":\"system\",\"content\":\"SSP:domain=legal\"}," HI "],\"sfcl_mode\":\"%s\"}";
    for (int mode = WANE_MODE_OFF; mode <= WANE_MODE_WANE; mode++) {
        char text[300];
        snprintf(text, sizeof text, body, wane_mode_name(mode));
        int status = ask(&rig, "/v1/chat/completions", text, &value);
        assert_int_equal(status, mode == WANE_MODE_WANE ? 200 : 400);
        words = json_string_value(json_object_get(json_object_get(value, "error"), "message"));
        if (status == 400) assert_non_null(strstr(words, "contradicts the SSP"));
        json_decref(value);
    }
    stop(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_ends_of_texts),
        cmocka_unit_test(test_no_instruction),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_domains),
        cmocka_unit_test(test_confidence),
        cmocka_unit_test(test_tolerance),
        cmocka_unit_test(test_fallback),
        cmocka_unit_test(test_any_settings),
        cmocka_unit_test(test_anthropic),
        cmocka_unit_test(test_openai),
        cmocka_unit_test(test_malformed_over_http),
        cmocka_unit_test(test_replies_say_it),
        cmocka_unit_test(test_modes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
