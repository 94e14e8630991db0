/*
 * http_call.h - one parsed request to generate, whichever API it came through.
 *
 * Parsers fill it from bytes alone: no server, no model, no socket. So tests and fuzzers call them as the server does.
 */
#ifndef WANE_SERVER_HTTP_CALL_H
#define WANE_SERVER_HTTP_CALL_H

#include "server/http_problem.h"

#include <jansson.h>

enum wane__api {                         /* bits, so that a field can name the APIs that have it */
                 WANE__API_MESSAGES = 1, /* POST /v1/messages              */
                 WANE__API_COUNT = 2,    /* POST /v1/messages/count_tokens */
                 WANE__API_CHAT = 4,     /* POST /v1/chat/completions      */
                 WANE__API_TEXT = 8      /* POST /v1/completions           */
};

#define WANE__MAX_STOPS  16
#define WANE__MAX_BIASES 1024

/* What a request gets where it does not say, and what bounds it. */
struct wane__call_defaults {
    wane_sampling sampling;
    int max_tokens;
    int vocab_size;
};

struct wane__call {
    enum wane__api api;
    json_t *root;           /* keeps the strings below alive, but for `owned` */
    const char *model;      /* as the request says; NULL: it does not         */
    wane_message *messages; /* all but WANE__API_TEXT                         */
    size_t message_count;
    char **owned; /* contents that were joined from blocks          */
    size_t owned_count;
    const char *prompt; /* WANE__API_TEXT: text, or `prompt_tokens`       */
    size_t prompt_size;
    wane_tokens prompt_tokens;
    bool stream;
    bool include_usage;
    bool wants_logprobs;
    int top_logprobs;                      /* -1: not given                                  */
    int max_tokens, max_completion_tokens; /* 0: not given                        */
    const char *stops[WANE__MAX_STOPS];
    size_t stop_count;
    wane_bias *bias;
    const char *mode, *domain, *hold; /* as the request says; NULL: it does not */
    const char *user, *line;          /* the same: whose request, of which line of business */
    unsigned without;                 /* 1 << WANE_FEATURE_… that it declines */
    wane_ssp ssp;                     /* taken from the system text             */
    bool says_prepare;
    unsigned prepare;           /* 1 << WANE_PREPARE_…, where `says_prepare` */
    bool trace;                 /* say of each token how it was decided           */
    int kind;                   /* WANE_KIND_…; -1: not given                     */
    int dropped_blocks;         /* client metadata that was not a prompt          */
    wane_generation generation; /* ready for the scheduler, but for tenant and deadline */
};

/*
 * Parse a body. False: `problem` says field, value and what is allowed. `call` need not be set up before; free it
 * in both cases.
 */
bool wane__call_parse(struct wane__call *call, enum wane__api api, const char *body, size_t size,
                      const struct wane__call_defaults *defaults, struct wane__problem *problem);
void wane__call_free(struct wane__call *call);
/* After the generation was submitted: forget what only the prompt needed, which may be megabytes. */
void wane__call_drop_prompt(struct wane__call *call);

/* Tokenise the prompt: append to `tokens`. Thread-safe. */
bool wane__call_tokenize(const struct wane__call *call, const wane_model *model, wane_tokens *tokens,
                         struct wane__problem *problem);

/*
 * Take the structured system instruction from the beginning of a system text, named `where` in messages. False: it is wrong, or the
 * second one.
 */
bool wane__call_take_ssp(struct wane__call *call, const char *where, const char **text, size_t *size,
                         struct wane__problem *problem);
/* Put a text that was allocated, and is now the call's, in the place of a message's. False without memory. */
bool wane__call_exchange_text(struct wane__call *call, size_t message, char *content, size_t size);

/* Add a message whose text is `content`; `own`: it was allocated and is now the call's. False without memory. */
bool wane__call_add_message(struct wane__call *call, const char *role, char *content, size_t size, bool own);

#endif
