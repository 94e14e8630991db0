/*
 * look.c - a session's reply with the rows that it came from. Owns nothing: the session decodes, this looks at what it left. Refuses
 * to disturb it: a row is asked after its token was drawn, so that the tokens are those of a reply that nobody looks at.
 */
#include "core/error.h"
#include "layer.h"
#include "session_parts.h"

#include <xxhash.h>

struct looking {
    struct wane__candidate best[WANE_LOOK_BEST];
    wane_candidate shown[WANE_LOOK_BEST];
};

/* What the row says, before any processor; nothing of a token that was repeated. */
static int best_of(const struct wane__reply *reply, struct looking *l) {
    struct wane__dense_source dense = reply->row.dense; /* a copy: asking is no change */
    struct wane__source *source = reply->row.checked ? &dense.source : reply->row.source;
    int found = 0;
    if (reply->step.origin == WANE__ORIGIN_MEMO || source == NULL) return 0;
    if (source->best(source, WANE_LOOK_BEST, NULL, 0, l->best, &found) != WANE_OK) return 0;
    for (int i = 0; i < found; i++) l->shown[i] = (wane_candidate){l->best[i].token, l->best[i].logit};
    return found;
}

static void look_at(const struct wane__reply *reply, struct looking *l, wane_look *out) {
    const struct wane__step *step = &reply->step;
    *out = (wane_look){.index = step->index,
                       .token = step->choice.token,
                       .drafted = step->drafted,
                       .best_count = best_of(reply, l),
                       .best = l->shown,
                       .table_source = (int)step->slmt_source,
                       .table_grade = (int)step->slmt_grade,
                       .table_first = step->slmt_first,
                       .table_took = step->slmt_took,
                       .changed = step->changed,
                       .steered = step->steered,
                       .state = step->state,
                       .certified = step->origin == WANE__ORIGIN_CERTIFIED};
}

static int hold_up(wane_session *session, const wane_event *event, wane_look_end *end, wane_error *error) {
    struct wane__session_parts parts;
    struct wane__buf state = {0};
    wane__session_rest(session, &parts);
    struct wane__engine *engine = parts.model->engine;
    *end = (wane_look_end){.prompt_tokens = event->prompt_tokens,
                           .reused_tokens = event->reused_tokens,
                           .reply_tokens = event->reply_tokens,
                           .finish = event->finish,
                           .held = parts.held,
                           .kv_type_k = parts.model->kv_type_k,
                           .kv_type_v = parts.model->kv_type_v,
                           .settings = parts.model->settings};
    int status = WANE_OK;
    if (engine->ops->state_save != NULL && parts.held > 0) {
        status = engine->ops->state_save(engine, 0, &state, error);
        end->state_bytes = state.size;
        end->state_hash = XXH3_64bits(state.data, state.size);
    }
    wane__buf_free(&state);
    return status;
}

int wane_session_look(wane_session *session, const int32_t *tokens, size_t count,
                      const wane_generation *generation, wane_look_fn give, void *user, wane_look_end *end,
                      wane_error *error) {
    struct looking looking;
    wane_event event = {0};
    int status = wane_session_start(session, tokens, count, generation, error);
    while (status == WANE_OK && event.kind != WANE_EVENT_END) {
        status = wane_session_next(session, &event, error);
        if (status != WANE_OK) return status;
        const struct wane__reply *reply = wane__session_reply(session);
        /* The token that ends a turn comes with the end; every other one came before it. */
        if (event.kind == WANE_EVENT_END && event.finish != WANE_FINISH_END) break;
        wane_look look;
        look_at(reply, &looking, &look);
        if (!give(user, &look)) return wane__fail(error, WANE_ECANCELLED, "The reply was stopped.");
    }
    return status == WANE_OK ? hold_up(session, &event, end, error) : status;
}
