/*
 * llama_reference.c - the yardstick: libllama's own loop on the same weights, with libllama's defaults.
 *
 * A context of its own, without our callback, hook, thread pool or checks in between: llama_decode, then
 * llama_sampler_sample with the greedy sampler, as in libllama's examples. What wane claims to be faster
 * than must be what people would otherwise run, so nothing is added here, and nothing left out. Only what
 * would change the arithmetic is the same as ours: threads, batch, KV types, flash attention, unified KV.
 */
#include "engine/llama_internal.h"

#include "core/clock.h"
#include "core/error.h"
#include "core/memory.h"

#include <string.h>

struct reference {
    struct wane__llama *engine;
    struct llama_context *context;
    struct llama_sampler *sampler;
    struct llama_batch batch;
    int streams;
    int32_t next[WANE__MAX_SEQUENCES]; /* drawn last, not decoded yet */
    int length[WANE__MAX_SEQUENCES];
};

void wane__llama_reference_free(void *reference) {
    struct reference *r = reference;
    if (r == NULL) return;
    if (r->sampler != NULL) llama_sampler_free(r->sampler);
    if (r->batch.token != NULL) llama_batch_free(r->batch);
    llama_free(r->context);
    wane__free(r);
}

static int open_reference(struct reference *r, wane_error *error) {
    struct wane__llama *e = r->engine;
    struct llama_context_params p = e->params; /* ours, before the callbacks were put in */
    p.n_seq_max = (uint32_t)r->streams;
    p.n_ctx = (uint32_t)(e->base.facts.context * r->streams);
    if (p.n_batch < p.n_seq_max) p.n_batch = p.n_ubatch = p.n_seq_max;
    struct wane__llama_words words;
    wane__llama_words_enter(&words, e->base.log);
    r->context = wane__guard_context(e->model, p, words.errors, sizeof words.errors);
    wane__llama_words_leave(&words);
    if (r->context == NULL) {
        return wane__fail(error, WANE_EENGINE, "The engine made no context for %d streams: %.300s",
                          r->streams, words.errors);
    }
    r->batch = llama_batch_init((int32_t)llama_n_batch(r->context), 0, 1);
    r->sampler = llama_sampler_chain_init(llama_sampler_chain_default_params());
    if (r->batch.token == NULL || r->sampler == NULL)
        return wane__fail(error, WANE_ENOMEM, "No memory for the reference.");
    llama_sampler_chain_add(r->sampler, llama_sampler_init_greedy());
    return WANE_OK;
}

int wane__llama_reference_new(struct wane__engine *engine, int streams, void **reference, wane_error *error) {
    struct wane__llama *e = wane__llama_of(engine);
    *reference = NULL;
    if (e->context == NULL)
        return wane__fail(error, WANE_EUNSUPPORTED, "Only the tokenizer of this model was loaded.");
    if (streams < 1 || streams > WANE__MAX_SEQUENCES) {
        return wane__fail(error, WANE_EINVAL, "%d streams; there must be 1 to %d.", streams,
                          WANE__MAX_SEQUENCES);
    }
    if ((int64_t)e->base.facts.context * streams > INT32_MAX / 2) {
        return wane__fail(error, WANE_EINVAL, "%d streams of %d tokens are too many.", streams,
                          e->base.facts.context);
    }
    struct reference *r = wane__alloc_zero(1, sizeof *r);
    if (r == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for the reference.");
    r->engine = e;
    r->streams = streams;
    int rc = open_reference(r, error);
    if (rc == WANE_OK)
        *reference = r;
    else
        wane__llama_reference_free(r);
    return rc;
}

static void add(struct reference *r, int32_t token, int seq, bool wanted) {
    struct llama_batch *b = &r->batch;
    int i = b->n_tokens++;
    b->token[i] = token;
    b->pos[i] = r->length[seq]++;
    b->n_seq_id[i] = 1;
    b->seq_id[i][0] = seq;
    b->logits[i] = wanted;
}

static int decode(struct reference *r, wane_error *error) {
    struct wane__llama_words words;
    wane__llama_words_enter(&words, r->engine->base.log);
    int code = llama_decode(r->context, r->batch);
    wane__llama_words_leave(&words);
    if (code == 0) return WANE_OK;
    return wane__fail(error, WANE_EENGINE, "The reference failed to decode (code %d): %s", code,
                      words.errors);
}

static int prefill(struct reference *r, int seq, const wane_tokens *prompt, wane_error *error) {
    size_t most = llama_n_batch(r->context);
    for (size_t done = 0; done < prompt->count;) {
        r->batch.n_tokens = 0;
        for (size_t n = 0; n < most && done < prompt->count; n++, done++) {
            add(r, prompt->id[done], seq, done + 1 == prompt->count);
        }
        int rc = decode(r, error);
        if (rc != WANE_OK) return rc;
    }
    r->next[seq] = llama_sampler_sample(r->sampler, r->context, -1);
    return WANE_OK;
}

static int check_prompts(const struct reference *r, const wane_tokens *prompts, int steps,
                         wane_error *error) {
    const wane_model_facts *f = &r->engine->base.facts;
    if (steps < 1) return wane__fail(error, WANE_EINVAL, "%d steps; there must be at least one.", steps);
    for (int s = 0; s < r->streams; s++) {
        if (prompts[s].count < 1 || prompts[s].count + (size_t)steps > (size_t)f->context) {
            return wane__fail(error, WANE_ECONTEXT,
                              "Stream %d: %zu prompt tokens and %d steps; the context holds %d.", s,
                              prompts[s].count, steps, f->context);
        }
        for (size_t i = 0; i < prompts[s].count; i++) {
            if (prompts[s].id[i] >= 0 && prompts[s].id[i] < f->vocab_size) continue;
            return wane__fail(error, WANE_EINVAL, "Stream %d: token %d does not exist.", s, prompts[s].id[i]);
        }
    }
    return WANE_OK;
}

int wane__llama_reference_run(void *reference, const wane_tokens *prompts, int steps, int32_t *out,
                              double *ms, wane_error *error) {
    struct reference *r = reference;
    int rc = check_prompts(r, prompts, steps, error);
    if (rc != WANE_OK) return rc;
    llama_memory_clear(llama_get_memory(r->context), true);
    memset(r->length, 0, sizeof r->length);
    for (int s = 0; s < r->streams && rc == WANE_OK; s++) rc = prefill(r, s, &prompts[s], error);
    double start = wane__now();
    /* A step is a decode and a draw for each stream: the last draw is made, like all, and not used. */
    for (int step = 0; step < steps && rc == WANE_OK; step++) {
        r->batch.n_tokens = 0;
        for (int s = 0; s < r->streams; s++) {
            out[(size_t)s * (size_t)steps + (size_t)step] = r->next[s];
            add(r, r->next[s], s, true);
        }
        rc = decode(r, error);
        for (int s = 0; s < r->streams && rc == WANE_OK; s++)
            r->next[s] = llama_sampler_sample(r->sampler, r->context, s);
    }
    if (ms != NULL) *ms = (wane__now() - start) * 1e3;
    return rc;
}
