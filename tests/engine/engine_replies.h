/* engine_replies.h - replies through the public interface, for programs that compare tokens on a real model. */
#ifndef WANE_TESTS_ENGINE_REPLIES_H
#define WANE_TESTS_ENGINE_REPLIES_H

#include "engine_check.h"
#include "wane.h"

#include <string.h>

static inline bool load_model(const wane_model_options *options, wane_model **model) {
    wane_error error = {0};
    int rc = wane_model_load(options, model, &error);
    CHECK(rc == WANE_OK, "%s", error.text);
    return rc == WANE_OK;
}

static inline void chat_tokens(wane_model *model, const char *text, wane_tokens *out) {
    wane_message message = {"user", text, strlen(text)};
    wane_error error = {0};
    out->count = 0;
    CHECK(wane_chat_tokenize(model, &message, 1, out, &error) == WANE_OK, "%s", error.text);
}

/* `count` tokens of one reply into `ids`, -1 where there are none. */
static inline void reply_alone(wane_model *model, const wane_tokens *prompt,
                               const wane_generation *generation, int32_t *ids, int count) {
    wane_session *session = NULL;
    wane_error error = {0};
    memset(ids, 0xff, (size_t)count * sizeof *ids);
    CHECK(wane_session_new(model, &session, &error) == WANE_OK, "%s", error.text);
    int rc = wane_session_start(session, prompt->id, prompt->count, generation, &error);
    for (int i = 0; i < count && rc == WANE_OK; i++) {
        wane_event event;
        rc = wane_session_next(session, &event, &error);
        if (rc == WANE_OK) ids[i] = event.token;
    }
    CHECK(rc == WANE_OK, "%s", error.text);
    wane_session_free(session);
}

/* `rows` replies through a scheduler, each `count` tokens at ids + row × count; rows at most 8. */
static inline void replies_together(wane_model *model, const wane_scheduler_options *options,
                                    const wane_tokens *prompts, const wane_generation *generations, int rows,
                                    int32_t *ids, int count) {
    wane_scheduler *scheduler = NULL;
    wane_ticket *ticket[8] = {0};
    wane_error error = {0};
    memset(ids, 0xff, (size_t)(rows * count) * sizeof *ids);
    CHECK(wane_scheduler_new(model, options, &scheduler, &error) == WANE_OK, "%s", error.text);
    for (int row = 0; row < rows; row++)
        CHECK(wane_scheduler_submit(scheduler, prompts[row].id, prompts[row].count, &generations[row],
                                    &ticket[row], &error) == WANE_OK,
              "%s", error.text);
    for (int row = 0; row < rows; row++) {
        for (int have = 0; have < count;) {
            wane_event event;
            bool ended = false;
            int rc = wane_ticket_next(ticket[row], 60000, &event, &ended, &error);
            CHECK(rc == WANE_OK, "%s", error.text);
            if (rc != WANE_OK || ended) break;
            if (event.kind == WANE_EVENT_TEXT) ids[row * count + have++] = event.token;
        }
        wane_ticket_free(ticket[row]);
    }
    wane_scheduler_free(scheduler);
}

#endif
