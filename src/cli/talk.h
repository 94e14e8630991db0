/* talk.h - a conversation with a model: its messages, and one reply at a time. */
#ifndef WANE_CLI_TALK_H
#define WANE_CLI_TALK_H

#include "cli.h"

struct talk {
    const struct settings *settings;
    wane_model *model;
    wane_session *session;
    wane_message *messages; /* owns role and content; the system message, if any, is the first */
    size_t count;
};

/* One reply. Text and tokens are those that came, also when it was interrupted. */
struct reply {
    char *text;
    size_t size;
    wane_tokens tokens;
    wane_finish finish; /* NONE: interrupted or failed */
    char *stop;         /* the stop string that ended it; NULL: none */
    int prompt_tokens, reused_tokens, reply_tokens;
    double prompt_ms, reply_ms;
};

/* Called for each event; false stops the reply. */
typedef bool (*talk_sink)(void *user, const wane_event *event);

/*
 * Returns an exit code after a complaint. The talk is that of the session's file `session`, or empty where it is NULL or, unless it
 * `must` be there, is not; and has the system message of the settings.
 */
int talk_open(const struct settings *settings, const char *session, bool must, struct talk *talk);
void talk_close(struct talk *talk);
/* Keep it in a session's file. Returns EXIT_FINE or an exit code after a complaint. */
int talk_keep(struct talk *talk, const char *session);
void talk_add(struct talk *talk, const char *role, const char *content, size_t size);
void talk_drop_last(struct talk *talk);
/* Back to the system message. */
void talk_reset(struct talk *talk);
/* NULL or "": none. Goes before what was said so far. */
void talk_set_system(struct talk *talk, const char *text);
const char *talk_system(const struct talk *talk);
json_t *talk_as_json(const struct talk *talk);

/*
 * Let the model answer the messages. Returns a WANE code with `error` filled: WANE_ECANCELLED when Ctrl-C or the
 * sink stopped it. The reply is not added to the messages. Free it whatever was returned.
 */
int talk_answer(struct talk *talk, talk_sink sink, void *user, struct reply *reply, wane_error *error);
void reply_free(struct reply *reply);
/*
 * The messages as tokens, appended to `prompt`, and the request that the settings make of them: it points to `quality`, the settings and
 * the talk. An SSP of the system message sets the quality, and is no part of the prompt.
 */
int talk_prepare(struct talk *talk, wane_quality *quality, wane_generation *generation, wane_tokens *prompt,
                 wane_error *error);
/* Take the messages in, without a reply. */
int talk_prefill(struct talk *talk, wane_error *error);
/*
 * cmd_run.c. The prompt of -p or the words, and of standard input; NULL after a complaint with *code set. And one reply, printed as
 * the settings say, which joins the messages; an exit code.
 */
char *talk_prompt(const struct settings *settings, const char *command, size_t *size, int *code);
int talk_once(struct talk *talk);

const char *finish_name(wane_finish finish);
/* Tokens a second, the first one not counted: its time is the prompt's. 0 when there is nothing to measure. */
double reply_speed(const struct reply *reply);
void reply_say_stats(const struct reply *reply);

int chat(struct talk *talk, const char *first); /* cmd_chat.c; NULL: nothing said yet */

#endif
