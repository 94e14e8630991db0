/*
 * gate_explain.c - one reply, token by token, with what the gate made of each. Owns its sequence; refuses drafts and memo, because a token
 * that was not drawn from its own row has no verdict to explain.
 */
#include "core/error.h"
#include "core/memory.h"
#include "core/tokens.h"
#include "layer.h"
#include "model.h"

#include <string.h>

struct explaining {
    wane_model *model;
    struct wane__reply reply;
    struct wane__item *items;
    int fed; /* tokens that the engine's sequence holds */
    wane_gate_token_fn give;
    void *user;
};

/* What the engine does not have yet; the last token's row is wanted. */
static int feed(struct explaining *e, wane_error *error) {
    struct wane__engine *engine = e->model->engine;
    const wane_tokens *context = &e->reply.context;
    while (e->fed < (int)context->count) {
        int take = (int)context->count - e->fed;
        if (take > engine->batch) take = engine->batch;
        for (int i = 0; i < take; i++)
            e->items[i] = (struct wane__item){.token = context->id[e->fed + i],
                                              .pos = e->fed + i,
                                              .wanted = e->fed + i + 1 == (int)context->count,
                                              .whole = e->reply.whole};
        e->model->rows.keep = false;
        int status = wane__rows_decode(&e->model->rows, e->items, take, error);
        if (status != WANE_OK) return status;
        e->fed += take;
    }
    return WANE_OK;
}

static void describe(const struct wane__step *step, wane_gate_token *out) {
    const struct wane__verdict *v = &step->verdict;
    *out = (wane_gate_token){.index = step->index,
                             .token = step->choice.token,
                             .judged = v->judged,
                             .table = step->slmt_used && !v->judged,
                             .reject = v->reject,
                             .lut = v->lut,
                             .revival = v->revival,
                             .forced = v->forced,
                             .woke = v->woke,
                             .reason = (int)v->reason,
                             .odds = v->odds,
                             .tau = v->tau};
    for (int i = 0; i < WANE__GATE_BEST; i++) out->share[i] = v->view.share[i];
    for (int i = 0; i < WANE__GATE_GAPS; i++) {
        out->gap[i] = v->view.share[i] - v->view.share[i + 1];
        out->bin[i] = (int)wane__gate_bin_of(v->view.pattern, i);
    }
}

static int answer(struct explaining *e, wane_error *error) {
    for (;;) {
        wane_event event;
        wane_gate_token token;
        int status = feed(e, error);
        if (status == WANE_OK) status = wane__layer_step(&e->reply, 0, &event, error);
        if (status != WANE_OK) return status;
        describe(&e->reply.step, &token);
        if (e->give != NULL && !e->give(e->user, &token))
            return wane__fail(error, WANE_ECANCELLED, "The reply was stopped.");
        if (e->reply.step.finish != WANE_FINISH_NONE) return WANE_OK;
    }
}

static void sum_up(struct explaining *e, wane_gate_explanation *out) {
    const struct wane__doubt *d = &e->reply.gate;
    wane_event end;
    wane__reply_end(&e->reply, &end);
    *out = (wane_gate_explanation){.entropy = d->entropy,
                                   .documents = d->documents,
                                   .tau = d->tau,
                                   .budget = d->budget,
                                   .allowance = d->allowance,
                                   .prompt_tokens = end.prompt_tokens,
                                   .reply_tokens = end.reply_tokens,
                                   .finish = end.finish,
                                   .rejects = d->rejects,
                                   .first_reject = d->first_reject,
                                   .woke_at = d->woke_at,
                                   .woke_by = (int)d->woke_by};
}

static int run(struct explaining *e, const int32_t *tokens, size_t count, const wane_generation *generation,
               wane_gate_explanation *explanation, wane_error *error) {
    struct wane__engine *engine = e->model->engine;
    e->items = wane__alloc_zero((size_t)engine->batch, sizeof *e->items);
    if (e->items == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a batch.");
    int status = wane__reply_init(&e->reply, &e->model->rows, tokens, count, generation, error);
    if (status == WANE_OK) {
        engine->ops->truncate(engine, 0, 0);
        status = answer(e, error);
        if (status == WANE_OK) sum_up(e, explanation);
        engine->ops->truncate(engine, 0, 0);
        engine->ops->set_hook(engine, NULL, NULL);
        wane__reply_free(&e->reply);
    }
    wane__free(e->items);
    return status;
}

int wane_gate_explain(wane_model *model, const int32_t *tokens, size_t count,
                      const wane_generation *generation, wane_gate_token_fn give, void *user,
                      wane_gate_explanation *explanation, wane_error *error) {
    int vocab_size = model->engine->facts.vocab_size;
    wane__clear(error);
    *explanation = (wane_gate_explanation){.first_reject = -1, .woke_at = -1};
    int status = wane_generation_check(generation, vocab_size, error);
    if (status == WANE_OK) status = wane__tokens_check(tokens, count, vocab_size, error);
    if (status != WANE_OK) return status;
    if (model->gate.gate == NULL)
        return wane__fail(error, WANE_ENOENT, "The model has no gate: give it one with wane_model_set_gate.");
    if (generation->quality == NULL || generation->quality->mode != WANE_MODE_WANE)
        return wane__fail(error, WANE_EINVAL, "A gate judges in mode WANE alone; the request has another.");
    if (wane__model_take(model, error) != WANE_OK) return WANE_EBUSY;
    struct explaining e = {.model = model, .give = give, .user = user};
    status = run(&e, tokens, count, generation, explanation, error);
    wane__model_give(model);
    return status;
}
