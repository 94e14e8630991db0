/*
 * bench_reply.c - a whole reply as a bench times it: through a session, to its end, its tokens kept.
 */
#include "bench.h"

#include <string.h>

void bench_set_sampler(wane_sampling *sampling, const char *name) {
    bool full = strcmp(name, "full") == 0;
    if (strcmp(name, "greedy") == 0) return;
    sampling->temperature = 0.8f;
    sampling->top_p = 0.95f;
    sampling->top_k = full ? 0 : 40;
    sampling->min_p = full ? 0 : 0.05f;
}

int bench_reply(const struct bench_work *work, int prompt, bool no_memo, struct bench_reply *reply,
                wane_error *error) {
    const wane_tokens *tokens = &work->prompts[prompt];
    wane_session *session = NULL;
    wane_generation generation;
    wane_generation_init(&generation);
    generation.sampling = work->sampling;
    generation.sampling.seed += (uint64_t)prompt;
    generation.max_tokens = work->steps;
    generation.no_memo = no_memo;
    int result = wane_session_new(work->model, &session, error);
    if (result != WANE_OK) return result;
    interrupt_target(session);
    double begun = now_ms(), first = begun;
    result = wane_session_start(session, tokens->id, tokens->count, &generation, error);
    reply->count = 0;
    for (wane_event event = {.kind = WANE_EVENT_TEXT}; result == WANE_OK && event.kind != WANE_EVENT_END;) {
        result = wane_session_next(session, &event, error);
        if (result != WANE_OK || event.kind != WANE_EVENT_TEXT || event.token < 0) continue;
        if (reply->count == 0) first = now_ms();
        if (reply->count < work->steps) reply->ids[reply->count++] = event.token;
    }
    double over = now_ms();
    reply->ms = over - first;
    reply->whole_ms = over - begun;
    interrupt_target(NULL);
    wane_session_free(session);
    if (result == WANE_OK && interrupt_seen()) {
        *error = (wane_error){.code = WANE_ECANCELLED};
        result = WANE_ECANCELLED;
    }
    return result;
}

bool bench_same_reply(const struct bench_reply *a, const struct bench_reply *b) {
    return a->count == b->count && memcmp(a->ids, b->ids, (size_t)a->count * sizeof *a->ids) == 0;
}
