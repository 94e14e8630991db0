/*
 * talk.c - a conversation with a model; see talk.h.
 *
 * Each reply renders all messages anew: the session keeps what the contexts share, so only what is new is computed.
 */
#include "talk.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the file held becomes the talk's messages. */
static int load_session(struct talk *talk, const char *path, bool must) {
    wane_session_file file;
    wane_error error = {0};
    int result = wane_session_load(talk->session, path, &file, &error);
    if (result == WANE_ENOENT && !must) return EXIT_FINE;                      /* it will be written */
    if (result == WANE_ENOENT) return cli_fail(EXIT_FAILED, "%s", error.text); /* no model is missing */
    if (result != WANE_OK) return cli_fail_wane(&error);
    for (size_t i = 0; i < file.message_count; i++)
        talk_add(talk, file.messages[i].role, file.messages[i].content, file.messages[i].content_size);
    if (!file.same_settings)
        cli_say("the session was saved with other settings, so that replies may be others than they would "
                "have been: %s",
                file.settings);
    wane_session_file_free(&file);
    return EXIT_FINE;
}

/* Modes that the talk may be in; an SSP of the system message asks for WANE. */
static unsigned talk_modes(const struct settings *settings) {
    const char *system = setting_text(settings, SET_SYSTEM);
    wane_ssp ssp = {0};
    size_t rest;
    if (system != NULL) wane_ssp_read(system, strlen(system), &ssp, &rest, NULL);
    return modes_used(settings) | (ssp.given ? 1u << WANE_MODE_WANE : 0);
}

static int open_model(struct talk *talk) {
    const struct settings *settings = talk->settings;
    unsigned modes = talk_modes(settings);
    wane_error error = {0};
    int code = model_open(settings, &(struct model_wish){.sequences = 1, .decodes = true, .drafts = true},
                          &talk->model);
    if (code == EXIT_FINE) code = table_attach(settings, talk->model);
    if (code == EXIT_FINE) code = rules_attach(settings, talk->model, modes);
    if (code == EXIT_FINE) code = governor_attach(settings, talk->model, modes, NULL, NULL);
    if (code == EXIT_FINE) code = memo_attach(settings, talk->model);
    if (code == EXIT_FINE && wane_session_new(talk->model, &talk->session, &error) != WANE_OK)
        code = cli_fail_wane(&error);
    return code;
}

int talk_open(const struct settings *settings, const char *session, bool must, struct talk *talk) {
    *talk = (struct talk){.settings = settings};
    int code = open_model(talk);
    if (code == EXIT_FINE && session != NULL) code = load_session(talk, session, must);
    if (code != EXIT_FINE) {
        wane_session_free(talk->session);
        wane_model_free(talk->model);
        talk->session = NULL;
        talk->model = NULL;
        return code;
    }
    const char *system = setting_text(settings, SET_SYSTEM);
    if (system != NULL) talk_set_system(talk, system);
    return EXIT_FINE;
}

int talk_keep(struct talk *talk, const char *session) {
    wane_error error = {0};
    int result = wane_session_save(talk->session, session, talk->messages, talk->count, &error);
    return result == WANE_OK ? EXIT_FINE : cli_fail_wane(&error);
}

void talk_close(struct talk *talk) {
    while (talk->count > 0) talk_drop_last(talk);
    free(talk->messages);
    wane_session_free(talk->session);
    if (talk->model != NULL) memo_save(talk->model);
    wane_model_free(talk->model);
    *talk = (struct talk){0};
}

void talk_add(struct talk *talk, const char *role, const char *content, size_t size) {
    talk->messages = text_grow(talk->messages, (talk->count + 1) * sizeof *talk->messages);
    talk->messages[talk->count++] = (wane_message){text_copy(role), text_copy_part(content, size), size};
}

static void free_message(wane_message *message) {
    free((char *)(uintptr_t)message->role);
    free((char *)(uintptr_t)message->content);
}

void talk_drop_last(struct talk *talk) {
    free_message(&talk->messages[--talk->count]);
}

const char *talk_system(const struct talk *talk) {
    return talk->count > 0 && strcmp(talk->messages[0].role, "system") == 0 ? talk->messages[0].content
                                                                            : NULL;
}

void talk_reset(struct talk *talk) {
    size_t keep = talk_system(talk) != NULL;
    while (talk->count > keep) talk_drop_last(talk);
}

void talk_set_system(struct talk *talk, const char *text) {
    if (talk_system(talk) != NULL) {
        free_message(&talk->messages[0]);
        talk->count--;
        memmove(talk->messages, talk->messages + 1, talk->count * sizeof *talk->messages);
    }
    if (text == NULL || text[0] == '\0') return;
    talk_add(talk, "system", text, strlen(text));
    wane_message system = talk->messages[talk->count - 1];
    memmove(talk->messages + 1, talk->messages, (talk->count - 1) * sizeof *talk->messages);
    talk->messages[0] = system;
}

json_t *talk_as_json(const struct talk *talk) {
    json_t *all = json_array();
    for (size_t i = 0; i < talk->count; i++)
        json_array_append_new(all, json_pack("{s:s, s:o}", "role", talk->messages[i].role, "content",
                                             json_text(talk->messages[i].content,
                                                       talk->messages[i].content_size)));
    return all;
}

/* One conversation has one answer: what may be voted on is the token. */
static void generation_from(const struct settings *settings, wane_quality *quality,
                            wane_generation *generation) {
    wane_generation_init(generation);
    quality_from(settings, quality);
    quality->answers = 1;
    generation->quality = quality->mode != WANE_MODE_OFF ? quality : NULL;
    sampling_from(settings, &generation->sampling);
    generation->max_tokens = setting_int(settings, SET_MAX_TOKENS);
    generation->view = setting_on(settings, SET_XRAY);
    generation->stops = (const char *const *)settings->value[SET_STOP].list;
    generation->stop_count = settings->value[SET_STOP].list_count;
}

int talk_prepare(struct talk *talk, wane_quality *quality, wane_generation *generation, wane_tokens *prompt,
                 wane_error *error) {
    wane_ssp ssp = {0};
    size_t rest = 0, skip = 0;
    generation_from(talk->settings, quality, generation);
    if (talk_system(talk) == NULL)
        return wane_chat_tokenize(talk->model, talk->messages, talk->count, prompt, error);
    wane_message whole = talk->messages[0];
    int result = wane_ssp_read(whole.content, whole.content_size, &ssp, &rest, error);
    if (result != WANE_OK) return result;
    if (ssp.given) {
        wane_ssp_apply(&ssp, quality);
        generation->quality = quality;
        talk->messages[0].content += rest;
        talk->messages[0].content_size -= rest;
        skip = talk->messages[0].content_size == 0;
    }
    result = wane_chat_tokenize(talk->model, talk->messages + skip, talk->count - skip, prompt, error);
    talk->messages[0] = whole;
    return result;
}

static void add_token(wane_tokens *tokens, int32_t id) {
    if (tokens->count == tokens->capacity) {
        tokens->capacity = tokens->capacity > 0 ? 2 * tokens->capacity : 256;
        tokens->id = text_grow(tokens->id, tokens->capacity * sizeof *tokens->id);
    }
    tokens->id[tokens->count++] = id;
}

static void take_end(struct reply *reply, const wane_event *event) {
    reply->finish = event->finish;
    reply->stop = event->stop != NULL ? text_copy(event->stop) : NULL;
    reply->prompt_tokens = event->prompt_tokens;
    reply->reused_tokens = event->reused_tokens;
    reply->reply_tokens = event->reply_tokens;
    reply->prompt_ms = event->prompt_ms;
    reply->reply_ms = event->reply_ms;
}

/* Events until the end, an error, or a sink that has enough. */
static int read_events(struct talk *talk, FILE *text, talk_sink sink, void *user, struct reply *reply,
                       wane_error *error) {
    bool go_on = true;
    for (;;) {
        wane_event event;
        if (!go_on) wane_session_interrupt(talk->session);
        int result = wane_session_next(talk->session, &event, error);
        if (result != WANE_OK) return result;
        if (event.text_size > 0) fwrite(event.text, 1, event.text_size, text);
        if (event.kind == WANE_EVENT_TEXT && event.token >= 0) add_token(&reply->tokens, event.token);
        if (event.kind == WANE_EVENT_END) take_end(reply, &event);
        go_on = sink(user, &event) && go_on;
        if (event.kind == WANE_EVENT_END) return WANE_OK;
    }
}

int talk_prefill(struct talk *talk, wane_error *error) {
    wane_tokens prompt = {0};
    wane_generation generation;
    wane_quality quality;
    int result = talk_prepare(talk, &quality, &generation, &prompt, error);
    generation.no_memo = true; /* what the memo knows would not be taken in */
    interrupt_target(talk->session);
    if (result == WANE_OK)
        result = wane_session_start(talk->session, prompt.id, prompt.count, &generation, error);
    interrupt_target(NULL);
    wane_tokens_free(&prompt);
    return result;
}

int talk_answer(struct talk *talk, talk_sink sink, void *user, struct reply *reply, wane_error *error) {
    *reply = (struct reply){0};
    FILE *text = open_memstream(&reply->text, &reply->size);
    if (text == NULL) {
        *error = (wane_error){.code = WANE_ENOMEM, .text = "no memory for the reply"};
        return WANE_ENOMEM;
    }
    wane_tokens prompt = {0};
    wane_generation generation;
    wane_quality quality;
    int result = talk_prepare(talk, &quality, &generation, &prompt, error);
    interrupt_target(talk->session);
    if (result == WANE_OK && interrupt_seen()) {
        *error = (wane_error){.code = WANE_ECANCELLED};
        result = WANE_ECANCELLED;
    }
    if (result == WANE_OK)
        result = wane_session_start(talk->session, prompt.id, prompt.count, &generation, error);
    if (result == WANE_OK) result = read_events(talk, text, sink, user, reply, error);
    interrupt_target(NULL);
    wane_tokens_free(&prompt);
    fclose(text);
    return result;
}

void reply_free(struct reply *reply) {
    free(reply->text);
    free(reply->stop);
    free(reply->tokens.id);
    *reply = (struct reply){0};
}

const char *finish_name(wane_finish finish) {
    switch (finish) {
    case WANE_FINISH_NONE: return "interrupted";
    case WANE_FINISH_END: return "end";
    case WANE_FINISH_STOP: return "stop";
    case WANE_FINISH_LENGTH: return "length";
    case WANE_FINISH_CONTEXT: return "context";
    case WANE_FINISH_FUSE: return "fuse";
    }
    return "?";
}

double reply_speed(const struct reply *reply) {
    return reply->reply_tokens > 1 && reply->reply_ms > 0 ? 1e3 * (reply->reply_tokens - 1) / reply->reply_ms
                                                          : 0;
}

void reply_say_stats(const struct reply *reply) {
    cli_say("%d prompt tokens (%d kept) in %.0f ms; %d tokens in %.0f ms, %.1f tokens/s",
            reply->prompt_tokens, reply->reused_tokens, reply->prompt_ms, reply->reply_tokens,
            reply->reply_ms, reply_speed(reply));
}
