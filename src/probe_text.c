/*
 * probe_text.c - a text through a model with many layers probed, and the public face of what layers there are.
 *
 * Owns the run: it stands on the model, uses sequence 0, and leaves nothing there. The text's own tokens are fed whatever the model
 * would have said, and every row's dense logits are looked at, a few rows at a time, since an engine keeps V floats for each.
 */
#include "core/error.h"
#include "core/memory.h"
#include "core/tokens.h"
#include "model.h"
#include "model_probe.h"
#include "sample/exp.h"

#include <math.h>
#include <stdio.h>

/* Rows at once: 32 of the widest vocabulary are 32 MiB. */
enum { AT_ONCE = 32 };

/* ---------------------------------------------------------------------- layers */

int wane_model_layers(const wane_model *model) {
    const struct wane__engine *engine = model->engine;
    bool shows = engine->ops->set_probe != NULL && engine->ops->layer_facts != NULL;
    return shows && !engine->facts.recurrent ? engine->facts.layers : 0;
}

int wane_model_layer(const wane_model *model, int layer, wane_layer_facts *facts, wane_error *error) {
    struct wane__engine *engine = model->engine;
    *facts = (wane_layer_facts){0};
    wane__clear(error);
    if (layer < 0 || layer >= engine->facts.layers)
        return wane__fail(error, WANE_EINVAL, "There is no layer %d; the model has 0 to %d.", layer,
                          engine->facts.layers - 1);
    struct wane__layer_facts seen = {.reason = "the engine does not show its attention"};
    if (engine->ops->layer_facts != NULL) engine->ops->layer_facts(engine, layer, &seen);
    facts->probed = seen.reason == NULL;
    snprintf(facts->reason, sizeof facts->reason, "%s", seen.reason != NULL ? seen.reason : "");
    facts->heads = seen.heads;
    facts->key_heads = seen.key_heads;
    facts->head_size = seen.size;
    facts->window = seen.window < 0 ? -1 : seen.window;
    return WANE_OK;
}

/* ------------------------------------------------------------------------- run */

struct run {
    wane_model *model;
    struct wane__model_probe *probe;
    const int32_t *tokens;
    int count;
    int layers[WANE_PROBE_LAYERS], layer_count;
    wane_signals signals[WANE_PROBE_LAYERS];
    wane_probe_fn give;
    void *user;
};

/* Best token, its and the next one's share, entropy, margin. False: NaN among the logits. */
static bool read_logits(const float *logits, int vocab, wane_probe_token *t) {
    float best = -INFINITY, second = -INFINITY;
    double sum = 0, weighted = 0;
    t->best = 0;
    for (int i = 0; i < vocab; i++) {
        if (logits[i] > best) {
            second = best;
            best = logits[i];
            t->best = i;
        } else if (logits[i] > second) {
            second = logits[i];
        }
    }
    for (int i = 0; i < vocab; i++) {
        double x = (double)logits[i] - (double)best, w = wane__exp_weight(x);
        sum += w;
        weighted += w > 0 ? w * x : w;
    }
    if (!isfinite(sum)) return false;
    t->entropy = (float)(log(sum) - weighted / sum);
    t->margin = best - second;
    t->best_share = (float)(1 / sum);
    t->next_share =
        t->next < 0 ? NAN : (float)(wane__exp_weight((double)logits[t->next] - (double)best) / sum);
    return true;
}

static int give_row(struct run *r, int at, int row, wane_error *error) {
    struct wane__engine *engine = r->model->engine;
    wane_probe_token t = {.index = at,
                          .token = r->tokens[at],
                          .next = at + 1 < r->count ? r->tokens[at + 1] : -1,
                          .layer_count = r->layer_count,
                          .layers = r->layers,
                          .signals = r->signals};
    const float *logits = engine->ops->logits(engine, row);
    if (logits == NULL)
        return wane__fail(error, WANE_EINTERNAL, "The engine has no logits for token %d.", at);
    if (!read_logits(logits, engine->facts.vocab_size, &t))
        return wane__fail(error, WANE_EENGINE, "The logits behind token %d of the text are not numbers.", at);
    for (int l = 0; l < r->layer_count; l++) {
        r->signals[l] = (wane_signals){.entropy = t.entropy, .margin = t.margin};
        wane__probe_signals(r->probe, l, row, &r->signals[l]);
    }
    return r->give(r->user, &t) ? WANE_OK : wane__fail(error, WANE_ECANCELLED, "The text was stopped.");
}

static int run_text(struct run *r, wane_error *error) {
    struct wane__engine *engine = r->model->engine;
    struct wane__item items[AT_ONCE];
    int most = engine->batch < AT_ONCE ? engine->batch : AT_ONCE, result = WANE_OK;
    for (int at = 0; at < r->count && result == WANE_OK; at += most) {
        int some = r->count - at < most ? r->count - at : most;
        for (int i = 0; i < some; i++)
            items[i] = (struct wane__item){
                .token = r->tokens[at + i], .pos = at + i, .seq = 0, .wanted = true, .whole = true};
        result = engine->ops->decode(engine, items, some, error);
        for (int i = 0; i < some && result == WANE_OK; i++) result = give_row(r, at + i, i, error);
    }
    return result;
}

/* All that can be probed, where the caller named none. */
static int choose_layers(struct run *r, const int *layers, int count, wane_error *error) {
    struct wane__engine *engine = r->model->engine;
    if (layers != NULL && (count < 1 || count > WANE_PROBE_LAYERS))
        return wane__fail(error, WANE_EINVAL, "A probe looks at 1 to %d layers, not %d.", WANE_PROBE_LAYERS,
                          count);
    for (int l = 0; layers != NULL && l < count; l++) r->layers[r->layer_count++] = layers[l];
    const char *reason = "the engine does not show its attention";
    for (int l = 0; layers == NULL && engine->ops->layer_facts != NULL && l < engine->facts.layers; l++) {
        struct wane__layer_facts facts;
        engine->ops->layer_facts(engine, l, &facts);
        if (facts.reason != NULL)
            reason = facts.reason;
        else if (r->layer_count < WANE_PROBE_LAYERS)
            r->layers[r->layer_count++] = l;
    }
    return r->layer_count > 0
               ? WANE_OK
               : wane__fail(error, WANE_EUNSUPPORTED, "No layer of this model can be probed: %s.", reason);
}

static int run_held(struct run *r, wane_error *error) {
    struct wane__engine *engine = r->model->engine;
    struct wane__probe_options options = {.layers = r->layers,
                                          .layer_count = r->layer_count,
                                          .consistency = true,
                                          .positions = r->count,
                                          .sequences = 1};
    int result = wane__probe_open(engine, &options, &r->probe, error);
    if (result != WANE_OK) return result;
    engine->ops->set_hook(engine, NULL, NULL);
    engine->ops->truncate(engine, 0, 0);
    result = run_text(r, error);
    engine->ops->truncate(engine, 0, 0);
    wane__probe_close(r->probe);
    return result;
}

int wane_probe_text(wane_model *model, const int32_t *tokens, size_t count, const int *layers,
                    int layer_count, wane_probe_fn give, void *user, wane_error *error) {
    const wane_model_facts *facts = &model->engine->facts;
    struct run r = {.model = model, .tokens = tokens, .give = give, .user = user};
    wane__clear(error);
    int result = wane__tokens_check(tokens, count, facts->vocab_size, error);
    if (result != WANE_OK) return result;
    if (count == 0) return wane__fail(error, WANE_EINVAL, "The text is empty: give at least one token.");
    if (count > (size_t)facts->context)
        return wane__fail(
            error, WANE_ECONTEXT,
            "The text has %zu tokens; the context holds %d. Cut it up, or load the model with a "
            "larger context.",
            count, facts->context);
    r.count = (int)count;
    result = choose_layers(&r, layers, layer_count, error);
    if (result == WANE_OK) result = wane__model_take(model, error);
    if (result != WANE_OK) return result;
    result = run_held(&r, error);
    if (model->rows.probe != NULL) wane__probe_set(model->rows.probe, NULL);
    wane__model_give(model);
    return result;
}
