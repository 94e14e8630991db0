/*
 * test_scheduler_rig.h - a scheduler on the scripted engine, and what a client does with it.
 *
 * Prompts are plain text, a token a byte. Without a matching reply the engine speaks its fixed language, which
 * never ends by itself, so max_tokens says how long a reply is.
 */
#ifndef WANE_TEST_SCHEDULER_RIG_H
#define WANE_TEST_SCHEDULER_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/clock.h"
#include "engine/engine.h"
#include "model.h"
#include "server/scheduler_internal.h"
#include "wane.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct rig {
    struct wane__engine *engine;
    wane_model *model;
    wane_scheduler *scheduler;
};

/* What a client got. */
struct outcome {
    int code; /* WANE_OK: END was given */
    char text[8192];
    size_t size;
    char stop[64];
    int starts, texts, prompt_tokens, reused, reply_tokens;
    wane_finish finish;
    double queue_ms, prompt_ms, reply_ms;
    int answers, chosen, forked_at, spare_tokens;
    bool by_value, has_chosen_text;
    char chosen_text[8192];
    wane_error error;
};

/* How much longer than on a machine of one's own something may take (WANE_TEST_SLOW). */
static inline double slack(void) {
    const char *text = getenv("WANE_TEST_SLOW");
    double value = text != NULL ? strtod(text, NULL) : 1;
    return value > 1 ? value : 1;
}

static inline wane_scheduler_options quick_options(void) {
    wane_scheduler_options options;
    wane_scheduler_options_init(&options);
    options.window_ms = 0;
    return options;
}

static inline struct rig rig_up(struct wane__script script, wane_scheduler_options options) {
    struct rig rig = {0};
    wane_error error = {0};
    assert_int_equal(wane__script_load(&script, NULL, &rig.engine, &error), WANE_OK);
    assert_int_equal(wane__model_wrap(rig.engine, NULL, NULL, &rig.model, &error), WANE_OK);
    assert_int_equal(wane_scheduler_new(rig.model, &options, &rig.scheduler, &error), WANE_OK);
    return rig;
}

static inline struct wane__script_counts rig_counts(const struct rig *rig) {
    struct wane__script_counts counts;
    wane__script_get_counts(rig->engine, &counts);
    return counts;
}

static inline wane_scheduler_state rig_state(const struct rig *rig) {
    wane_scheduler_state state;
    wane_scheduler_get_state(rig->scheduler, &state);
    return state;
}

/* The engine was never called in a wrong way, and everything adds up. */
static inline void rig_down(struct rig *rig) {
    wane_scheduler_stop(rig->scheduler, 0);
    wane_scheduler_state state = rig_state(rig);
    assert_int_equal(state.accepted, state.completed + state.cancelled + state.failed + state.timed_out);
    assert_int_equal(state.slots_busy, 0);
    assert_int_equal(state.queued, 0);
    assert_int_equal(rig_counts(rig).violations, 0);
    wane_scheduler_free(rig->scheduler);
    wane_model_free(rig->model);
}

static inline wane_generation greedy(int max_tokens) {
    wane_generation generation;
    wane_generation_init(&generation);
    generation.sampling.temperature = 0;
    generation.max_tokens = max_tokens;
    return generation;
}

static inline int try_send(const struct rig *rig, const char *prompt, const wane_generation *generation,
                           wane_ticket **ticket) {
    size_t count = strlen(prompt);
    int32_t *tokens = malloc(count * sizeof *tokens + 1);
    for (size_t i = 0; i < count; i++) tokens[i] = (unsigned char)prompt[i];
    wane_error error = {0};
    int code = wane_scheduler_submit(rig->scheduler, tokens, count, generation, ticket, &error);
    assert_int_equal(code, error.code);
    free(tokens);
    return code;
}

static inline wane_ticket *send(const struct rig *rig, const char *prompt,
                                const wane_generation *generation) {
    wane_ticket *ticket = NULL;
    assert_int_equal(try_send(rig, prompt, generation, &ticket), WANE_OK);
    return ticket;
}

static inline void take_event(struct outcome *out, const wane_event *event) {
    if (event->kind == WANE_EVENT_START) {
        out->starts++;
        out->prompt_tokens = event->prompt_tokens;
        out->reused = event->reused_tokens;
        return;
    }
    size_t room = sizeof out->text - 1 - out->size;
    size_t size = event->text_size < room ? event->text_size : room;
    memcpy(out->text + out->size, event->text, size);
    out->size += size;
    out->text[out->size] = '\0';
    if (event->kind == WANE_EVENT_TEXT) {
        out->texts++;
        return;
    }
    out->finish = event->finish;
    out->reply_tokens = event->reply_tokens;
    out->queue_ms = event->queue_ms;
    out->prompt_ms = event->prompt_ms;
    out->reply_ms = event->reply_ms;
    out->answers = event->answers;
    out->chosen = event->chosen;
    out->forked_at = event->forked_at;
    out->spare_tokens = event->spare_tokens;
    out->by_value = event->by_value;
    out->has_chosen_text = event->chosen_text != NULL;
    snprintf(out->chosen_text, sizeof out->chosen_text, "%.*s", (int)event->chosen_size,
             event->chosen_text != NULL ? event->chosen_text : "");
    if (event->stop != NULL) snprintf(out->stop, sizeof out->stop, "%s", event->stop);
}

/* Read to the end; the order START, TEXT…, END is checked. */
static inline void read_all(wane_ticket *ticket, struct outcome *out) {
    bool ended = false;
    memset(out, 0, sizeof *out);
    while (!ended) {
        wane_event event;
        out->code = wane_ticket_next(ticket, 20000, &event, &ended, &out->error);
        if (out->code != WANE_OK) {
            assert_true(ended); /* else the wait ran out: nothing here takes so long */
            break;
        }
        if (event.kind == WANE_EVENT_START) assert_int_equal(out->starts + out->texts, 0);
        assert_true((event.kind == WANE_EVENT_END) == ended);
        take_event(out, &event);
    }
}

static inline void finish(wane_ticket *ticket, struct outcome *out) {
    read_all(ticket, out);
    wane_ticket_free(ticket);
}

static inline void ask(const struct rig *rig, const char *prompt, const wane_generation *generation,
                       struct outcome *out) {
    finish(send(rig, prompt, generation), out);
}

static inline void sleep_ms(int ms) {
    struct timespec t = {ms / 1000, (ms % 1000) * 1000000L};
    nanosleep(&t, NULL);
}

/* Wait for a condition of `now`, the state of that moment; at most 10 s. */
#define WAIT_FOR(rig, condition)                                                     \
    do {                                                                             \
        wane_scheduler_state now;                                                    \
        double until_ = wane__now() + 10;                                            \
        for (;;) {                                                                   \
            now = rig_state(rig);                                                    \
            (void)now;                                                               \
            if (condition) break;                                                    \
            if (wane__now() > until_) fail_msg("waited in vain for %s", #condition); \
            sleep_ms(1);                                                             \
        }                                                                            \
    } while (0)

#endif
