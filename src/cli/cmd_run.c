/*
 * cmd_run.c - `wane run`: one reply, as text or JSON. The conversation on a terminal is in cmd_chat.c.
 */
#include "talk.h"
#include "text.h"
#include "xray.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool stdin_has_text(void) {
    struct stat status;
    if (fstat(STDIN_FILENO, &status) != 0) return false;
    return S_ISREG(status.st_mode) || S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode);
}

char *talk_prompt(const struct settings *settings, const char *command, size_t *size, int *code) {
    const char *given = setting_text(settings, SET_PROMPT);
    char *text = given != NULL ? text_copy(given) : join_operands(settings, size);
    *size = strlen(text);
    *code = EXIT_FAILED;
    if (given != NULL && settings->operand_count > 0) {
        *code =
            cli_usage(command, "the prompt is given twice: by -p and as \"%.60s\"", settings->operands[0]);
        free(text);
        return NULL;
    }
    if (stdin_has_text()) {
        size_t more_size;
        char *more = read_all_input(&more_size);
        if (more == NULL) {
            if (interrupt_seen()) *code = EXIT_INTERRUPTED;
            free(text);
            return NULL;
        }
        /* A blank line keeps the question apart from what it is about. */
        size_t gap = *size > 0 && more_size > 0 ? 2 : 0;
        text = text_grow(text, *size + gap + more_size + 1);
        memcpy(text + *size, "\n\n", gap);
        memcpy(text + *size + gap, more, more_size + 1);
        *size += gap + more_size;
        free(more);
    }
    size_t good = text_utf8_prefix(text, *size);
    if (*size > 0 && good == *size) return text;
    if (*size == 0)
        *code = cli_usage(command, "the prompt is empty; give it with -p, as words or on standard input");
    else
        *code = cli_fail(EXIT_FAILED, "the prompt is not UTF-8: see byte %zu", good);
    free(text);
    return NULL;
}

static bool print_text(void *user, const wane_event *event) {
    char *last = user;
    if (event->text_size == 0) return true;
    *last = event->text[event->text_size - 1];
    return out_text(event->text, event->text_size) && out_flush();
}

static bool print_event(void *user, const wane_event *event) {
    (void)user;
    if (event->kind == WANE_EVENT_TEXT)
        return out_json(json_pack("{s:s, s:i, s:o}", "event", "text", "token", event->token, "text",
                                  json_text(event->text, event->text_size)),
                        true);
    /* What was held back for a stop string that did not come. */
    if (event->text_size > 0)
        return out_json(json_pack("{s:s, s:n, s:o}", "event", "text", "token", "text",
                                  json_text(event->text, event->text_size)),
                        true);
    return true;
}

static bool print_nothing(void *user, const wane_event *event) {
    (void)user;
    (void)event;
    return true;
}

static json_t *result_json(const struct talk *talk, const struct reply *reply, bool with_text) {
    json_t *timings = json_pack("{s:o, s:o, s:o}", "prompt_ms", json_ms(reply->prompt_ms), "reply_ms",
                                json_ms(reply->reply_ms), "tokens_per_second", json_ms(reply_speed(reply)));
    json_t *all = json_object();
    json_object_set_new(all, "model", json_string(wane_model_get_facts(talk->model)->name));
    if (with_text) {
        json_t *ids = json_array();
        for (size_t i = 0; i < reply->tokens.count; i++)
            json_array_append_new(ids, json_integer(reply->tokens.id[i]));
        json_object_set_new(all, "text", json_text(reply->text, reply->size));
        json_object_set_new(all, "tokens", ids);
    } else {
        json_object_set_new(all, "event", json_string("end"));
    }
    json_object_set_new(all, "finish", json_string(finish_name(reply->finish)));
    json_object_set_new(all, "stop",
                        reply->stop != NULL ? json_text(reply->stop, strlen(reply->stop)) : json_null());
    json_object_set_new(all, "prompt_tokens", json_integer(reply->prompt_tokens));
    json_object_set_new(all, "reused_tokens", json_integer(reply->reused_tokens));
    json_object_set_new(all, "reply_tokens", json_integer(reply->reply_tokens));
    json_object_set_new(all, "timings", timings);
    return all;
}

int talk_once(struct talk *talk) {
    bool json = setting_on(talk->settings, SET_JSON), stream = setting_on(talk->settings, SET_JSON_STREAM);
    bool xray = setting_on(talk->settings, SET_XRAY) && !json && !stream;
    char last = '\n';
    struct xray seen;
    struct reply reply;
    wane_error error = {0};
    talk_sink sink = stream ? print_event : json ? print_nothing : xray ? xray_event : print_text;
    xray_begin(&seen);
    int result = talk_answer(talk, sink, xray ? (void *)&seen : &last, &reply, &error);
    if (xray) xray_end(&seen);
    if (json || stream) {
        if (result == WANE_OK || result == WANE_ECANCELLED)
            out_json(result_json(talk, &reply, !stream), stream);
    } else if (last != '\n') {
        out_text("\n", 1);
    }
    out_flush();
    int code = result == WANE_OK ? EXIT_FINE : cli_fail_wane(&error);
    if (result == WANE_ECANCELLED && !interrupt_seen()) code = EXIT_FINE; /* the reader left */
    if (result == WANE_OK && reply.finish == WANE_FINISH_CONTEXT)
        cli_say("the context is full; --context makes it larger");
    if (result == WANE_OK && reply.finish == WANE_FINISH_FUSE)
        cli_say("the fuse ended the reply; --fuse off lets it go on");
    if (result == WANE_OK && setting_on(talk->settings, SET_STATS)) reply_say_stats(&reply);
    if (reply.size > 0) talk_add(talk, "assistant", reply.text, reply.size);
    reply_free(&reply);
    return code;
}

/* On a terminal, without a prompt: a conversation; else one reply. */
static int talk_on(struct talk *talk, const char *prompt, size_t size, bool on_terminal) {
    if (on_terminal) return chat(talk, prompt);
    talk_add(talk, "user", prompt, size);
    return talk_once(talk);
}

int command_run(struct settings *settings) {
    bool json = setting_on(settings, SET_JSON) || setting_on(settings, SET_JSON_STREAM);
    if (setting_on(settings, SET_JSON) && setting_on(settings, SET_JSON_STREAM))
        return cli_usage("run", "--json and --json-stream are two forms of output; choose one");
    if (json && setting_on(settings, SET_XRAY))
        return cli_usage("run", "--xray is for people to look at; leave --json out");
    interrupt_catch();
    size_t size = 0;
    bool on_terminal =
        setting_text(settings, SET_PROMPT) == NULL && !json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    const char *session = setting_text(settings, SET_SESSION);
    char *prompt = NULL;
    int code = EXIT_FAILED;
    if (!on_terminal)
        prompt = talk_prompt(settings, "run", &size, &code);
    else if (settings->operand_count > 0)
        prompt = join_operands(settings, &size);
    if (prompt == NULL && !on_terminal) return code;
    struct talk talk;
    code = talk_open(settings, session, false, &talk);
    if (code == EXIT_FINE) {
        code = talk_on(&talk, prompt, size, on_terminal);
        bool kept = session != NULL && (code == EXIT_FINE || code == EXIT_INTERRUPTED);
        int saved = kept ? talk_keep(&talk, session) : EXIT_FINE;
        if (code == EXIT_FINE) code = saved;
        talk_close(&talk);
    }
    free(prompt);
    return code;
}
