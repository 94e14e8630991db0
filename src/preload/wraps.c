/*
 * wraps.c - the functions of libllama that a program calls, and what each of them does here.
 *
 * Each finds the libllama that its call was meant for, and calls that one's function. Where there are stubs (stubs.c), it is reached
 * only where wane knows that library's version; elsewhere it hands on what it was given where it does not. So structures that
 * go by value are taken as more bytes than any version has: what lies behind the program's own is its stack, read and handed on
 * unseen. On macOS the loader is told of pairs, ours and theirs.
 */
#include "preload/preload.h"

#include "core/rng.h"

#include <string.h>

#ifdef __APPLE__
#pragma clang diagnostic ignored "-Wdeprecated-declarations"
#define WRAP(result, name, ...)                                                \
    static result wrap_##name(__VA_ARGS__);                                    \
    __attribute__((used, section("__DATA,__interpose"))) static const struct { \
        const void *ours, *theirs;                                             \
    } pair_##name = {(const void *)wrap_##name, (const void *)name};           \
    static result wrap_##name(__VA_ARGS__)
#elif WANE__STUBS
#define WRAP(result, name, ...)             \
    static result wrap_##name(__VA_ARGS__); \
    static result wrap_##name(__VA_ARGS__)
#else
#define WRAP(result, name, ...)                                                            \
    __attribute__((visibility("default"))) result wrap_##name(__VA_ARGS__) __asm__(#name); \
    result wrap_##name(__VA_ARGS__)
#endif

/* The library that was meant, and its function; without one, leave with `failed`. */
#define MEANT(name, failed)                                                                  \
    struct wane__library *library = wane__library_of(__builtin_return_address(0));           \
    __typeof__(&wrap_##name) real =                                                          \
        library != NULL ? (__typeof__(&wrap_##name))library->real[WANE__WRAP_##name] : NULL; \
    if (real == NULL) return failed
#define NOTHING

/* As many bytes of parameters as any version has, and more. */
struct wide {
    _Alignas(8) unsigned char byte[512];
};

/* -------------------------------------------------------------------- models */

WRAP(struct llama_model *, llama_model_load_from_file, const char *path, struct wide params) {
    MEANT(llama_model_load_from_file, NULL);
    struct llama_model *model = real(path, params);
    if (library->known) wane__under_model_add(model, path);
    return model;
}

WRAP(struct llama_model *, llama_load_model_from_file, const char *path, struct wide params) {
    MEANT(llama_load_model_from_file, NULL);
    struct llama_model *model = real(path, params);
    if (library->known) wane__under_model_add(model, path);
    return model;
}

WRAP(struct llama_model *, llama_model_load_from_splits, const char **paths, size_t count,
     struct wide params) {
    MEANT(llama_model_load_from_splits, NULL);
    struct llama_model *model = real(paths, count, params);
    if (library->known) wane__under_model_add(model, count == 1 ? paths[0] : NULL);
    return model;
}

WRAP(void, llama_model_free, struct llama_model *model) {
    MEANT(llama_model_free, NOTHING);
    wane__under_model_drop(model);
    real(model);
}

WRAP(void, llama_free_model, struct llama_model *model) {
    MEANT(llama_free_model, NOTHING);
    wane__under_model_drop(model);
    real(model);
}

/* ------------------------------------------------------------------ contexts */

typedef struct llama_context *(*init_fn)(struct llama_model *model, struct wide params);

static struct llama_context *init(struct wane__library *library, init_fn real, struct llama_model *model,
                                  struct wide *params) {
    struct llama_context_params ours;
    _Static_assert(sizeof ours <= sizeof *params, "the headers' structure fits");
    if (!library->known) return real(model, *params);
    memcpy(&ours, params, sizeof ours);
    struct wane__under *under = wane__under_prepare(library, model, &ours);
    memcpy(params, &ours, sizeof ours);
    struct llama_context *context = real(model, *params);
    if (under != NULL) wane__under_keep(under, context);
    return context;
}

WRAP(struct llama_context *, llama_init_from_model, struct llama_model *model, struct wide params) {
    MEANT(llama_init_from_model, NULL);
    return init(library, real, model, &params);
}

WRAP(struct llama_context *, llama_new_context_with_model, struct llama_model *model, struct wide params) {
    MEANT(llama_new_context_with_model, NULL);
    return init(library, real, model, &params);
}

WRAP(void, llama_free, struct llama_context *context) {
    MEANT(llama_free, NOTHING);
    /* Taken off the list before its address can be another context's, and freed when nothing can ask for it any more. */
    struct wane__under *under = wane__under_take(context);
    real(context);
    if (under == NULL) return;
    wane__under_free(under);
    wane__under_write_stats();
}

WRAP(void, llama_set_embeddings, struct llama_context *context, bool on) {
    MEANT(llama_set_embeddings, NOTHING);
    struct wane__under *under = wane__under_of(context);
    if (under != NULL) under->embeddings = on;
    real(context, on);
}

WRAP(void, llama_set_embeddings_nextn, struct llama_context *context, bool on, bool masked) {
    MEANT(llama_set_embeddings_nextn, NOTHING);
    struct wane__under *under = wane__under_of(context);
    if (under != NULL) under->nextn = on;
    real(context, on, masked);
}

WRAP(void, llama_set_causal_attn, struct llama_context *context, bool on) {
    MEANT(llama_set_causal_attn, NOTHING);
    struct wane__under *under = wane__under_of(context);
    if (under != NULL) under->acausal = !on;
    real(context, on);
}

WRAP(int32_t, llama_set_adapters_lora, struct llama_context *context, struct llama_adapter_lora **adapters,
     size_t count, float *scales) {
    MEANT(llama_set_adapters_lora, -1);
    struct wane__under *under = wane__under_of(context);
    uint64_t name = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t scale;
        if (scales[i] == 0) continue;
        memcpy(&scale, &scales[i], sizeof scale);
        name = wane__mix64(name ^ (uint64_t)(uintptr_t)adapters[i]) + scale;
    }
    if (under != NULL) wane__under_adapters(under, name);
    return real(context, adapters, count, scales);
}

WRAP(bool, llama_set_sampler, struct llama_context *context, llama_seq_id sequence,
     struct llama_sampler *sampler) {
    MEANT(llama_set_sampler, false);
    struct wane__under *under = sampler != NULL ? wane__under_of(context) : NULL;
    if (under != NULL) wane__under_turn_off(under, "tokens are sampled in the graph");
    return real(context, sequence, sampler);
}

WRAP(void, llama_attach_threadpool, struct llama_context *context, ggml_threadpool_t pool,
     ggml_threadpool_t batch) {
    MEANT(llama_attach_threadpool, NOTHING);
    struct wane__under *under = wane__under_of(context);
    if (under != NULL) {
        under->pool[0] = pool;
        under->pool[1] = batch != pool ? batch : NULL;
    }
    real(context, pool, batch);
}

WRAP(void, llama_detach_threadpool, struct llama_context *context) {
    MEANT(llama_detach_threadpool, NOTHING);
    struct wane__under *under = wane__under_of(context);
    if (under != NULL) under->pool[0] = under->pool[1] = NULL;
    real(context);
}

WRAP(void, llama_opt_init, struct llama_context *context, struct llama_model *model, struct wide params) {
    MEANT(llama_opt_init, NOTHING);
    struct wane__under *under = wane__under_of(context);
    if (under != NULL) wane__under_turn_off(under, "the model is being trained");
    real(context, model, params);
}

/* -------------------------------------------------------------------- decode */

WRAP(int32_t, llama_decode, struct llama_context *context, struct llama_batch batch) {
    MEANT(llama_decode, -1);
    struct wane__under *under = library->known ? wane__under_of(context) : NULL;
    if (under == NULL) return real(context, batch);
    wane__under_begin(under, &batch);
    int32_t status = real(context, batch);
    wane__under_end(under, status);
    return status;
}

/* The sampler that llama_sampler_sample is at work for, on this thread: what libllama reads then, it reads for that one. */
static _Thread_local const struct llama_sampler *sampling;

/* A row, found by where its logits lie. */
static void read_row(struct wane__under *under, float *logits, const struct wane__need *need, bool counts) {
    const float *base = under->library->abi.llama_get_logits(under->context);
    if (base == NULL || logits < base) return;
    size_t row = (size_t)(logits - base) / (size_t)under->vocab;
    if (row < (size_t)under->wanted && row < WANE__UNDER_ROWS)
        wane__row_read(under, (int)row, logits, need, counts);
}

WRAP(float *, llama_get_logits_ith, struct llama_context *context, int32_t at) {
    MEANT(llama_get_logits_ith, NULL);
    float *logits = real(context, at);
    struct wane__under *under = library->known && logits != NULL ? wane__under_of(context) : NULL;
    if (under == NULL) return logits;
    struct wane__need need;
    pthread_mutex_lock(&under->lock);
    if (under->kind == WANE__DECODE_OURS) {
        wane__sampler_need(sampling, under->vocab, &need);
        read_row(under, logits, &need, true);
    }
    pthread_mutex_unlock(&under->lock);
    return logits;
}

/* All rows at once; some programs only look whether there are any, so that this is no reading of one of them. */
WRAP(float *, llama_get_logits, struct llama_context *context) {
    MEANT(llama_get_logits, NULL);
    float *logits = real(context);
    struct wane__under *under = library->known && logits != NULL ? wane__under_of(context) : NULL;
    if (under == NULL) return logits;
    struct wane__need need;
    pthread_mutex_lock(&under->lock);
    if (under->kind == WANE__DECODE_OURS) {
        wane__sampler_need(sampling, under->vocab, &need);
        for (int row = 0; row < under->wanted && row < WANE__UNDER_ROWS; row++)
            wane__row_read(under, row, logits + (size_t)row * (size_t)under->vocab, &need, false);
    }
    pthread_mutex_unlock(&under->lock);
    return logits;
}

/* ------------------------------------------------------------------ samplers */

WRAP(llama_token, llama_sampler_sample, struct llama_sampler *sampler, struct llama_context *context,
     int32_t at) {
    MEANT(llama_sampler_sample, -1);
    if (!library->known) return real(sampler, context, at);
    const struct llama_sampler *outer = sampling;
    sampling = sampler;
    llama_token token = real(sampler, context, at);
    sampling = outer;
    return token;
}

WRAP(void, llama_sampler_apply, struct llama_sampler *sampler, llama_token_data_array *candidates) {
    const void *caller = __builtin_return_address(0);
    MEANT(llama_sampler_apply, NOTHING);
    if (library->known && sampler != sampling && !wane__library_holds(library, caller))
        wane__sampler_applied(sampler);
    real(sampler, candidates);
}

static struct llama_sampler *made(struct llama_sampler *sampler, enum wane__sampler_kind kind, int count,
                                  double value) {
    wane__sampler_made(sampler, &(struct wane__sampler_spec){.kind = kind, .count = count, .value = value});
    return sampler;
}

/* Of an interface of the program's own; libllama makes its own ones by this call too, and we name them behind it. */
WRAP(struct llama_sampler *, llama_sampler_init, struct llama_sampler_i *interface, void *user) {
    MEANT(llama_sampler_init, NULL);
    return made(real(interface, user), WANE__SAMPLER_WHOLE, 0, 0);
}

WRAP(struct llama_sampler *, llama_sampler_clone, const struct llama_sampler *sampler) {
    MEANT(llama_sampler_clone, NULL);
    struct llama_sampler *clone = real(sampler);
    wane__sampler_cloned(sampler, clone);
    return clone;
}

WRAP(void, llama_sampler_free, struct llama_sampler *sampler) {
    MEANT(llama_sampler_free, NOTHING);
    wane__sampler_freed(sampler);
    real(sampler);
}

WRAP(struct llama_sampler *, llama_sampler_chain_init, struct llama_sampler_chain_params params) {
    MEANT(llama_sampler_chain_init, NULL);
    struct llama_sampler *chain = real(params);
    wane__sampler_made_chain(chain);
    return chain;
}

WRAP(void, llama_sampler_chain_add, struct llama_sampler *chain, struct llama_sampler *sampler) {
    MEANT(llama_sampler_chain_add, NOTHING);
    wane__sampler_added(chain, sampler);
    real(chain, sampler);
}

WRAP(struct llama_sampler *, llama_sampler_chain_remove, struct llama_sampler *chain, int32_t at) {
    MEANT(llama_sampler_chain_remove, NULL);
    struct llama_sampler *sampler = real(chain, at);
    if (sampler != NULL) wane__sampler_removed(chain, at, sampler);
    return sampler;
}

WRAP(struct llama_sampler *, llama_sampler_init_greedy, void) {
    MEANT(llama_sampler_init_greedy, NULL);
    return made(real(), WANE__SAMPLER_BEST, 1, 0);
}

WRAP(struct llama_sampler *, llama_sampler_init_dist, uint32_t seed) {
    MEANT(llama_sampler_init_dist, NULL);
    return made(real(seed), WANE__SAMPLER_DRAW, 0, 0);
}

/* Exact up to 1,024; a longer list is looked at like any that carries probability. */
WRAP(struct llama_sampler *, llama_sampler_init_top_k, int32_t k) {
    MEANT(llama_sampler_init_top_k, NULL);
    enum wane__sampler_kind kind = k <= 0      ? WANE__SAMPLER_NOTHING
                                   : k <= 1024 ? WANE__SAMPLER_BEST
                                               : WANE__SAMPLER_LOOK;
    return made(real(k), kind, kind == WANE__SAMPLER_BEST ? k : 0, 0);
}

static int least(size_t keep) {
    return keep < WANE__NEED_BEST ? (int)keep : WANE__NEED_BEST + 1;
}

WRAP(struct llama_sampler *, llama_sampler_init_top_p, float p, size_t keep) {
    MEANT(llama_sampler_init_top_p, NULL);
    return made(real(p, keep), p >= 1 ? WANE__SAMPLER_NOTHING : WANE__SAMPLER_LOOK, least(keep), 0);
}

WRAP(struct llama_sampler *, llama_sampler_init_min_p, float p, size_t keep) {
    MEANT(llama_sampler_init_min_p, NULL);
    return made(real(p, keep), p <= 0 ? WANE__SAMPLER_NOTHING : WANE__SAMPLER_SHARE, least(keep), (double)p);
}

WRAP(struct llama_sampler *, llama_sampler_init_temp, float t) {
    MEANT(llama_sampler_init_temp, NULL);
    return made(real(t), t <= 0 ? WANE__SAMPLER_BEST : WANE__SAMPLER_HEAT, 1, (double)t);
}

WRAP(struct llama_sampler *, llama_sampler_init_temp_ext, float t, float delta, float exponent) {
    MEANT(llama_sampler_init_temp_ext, NULL);
    struct llama_sampler *sampler = real(t, delta, exponent);
    if (delta > 0) return made(sampler, WANE__SAMPLER_WHOLE, 0, 0); /* it measures the entropy of all */
    return made(sampler, t <= 0 ? WANE__SAMPLER_BEST : WANE__SAMPLER_HEAT, 1, (double)t);
}

WRAP(struct llama_sampler *, llama_sampler_init_xtc, float p, float t, size_t keep, uint32_t seed) {
    MEANT(llama_sampler_init_xtc, NULL);
    struct llama_sampler *sampler = real(p, t, keep, seed);
    bool off = p <= 0 || t > 0.5f;
    struct wane__sampler_spec spec = {.kind = off ? WANE__SAMPLER_NOTHING : WANE__SAMPLER_LOOK,
                                      .count = least(keep),
                                      .drops_best = !off};
    wane__sampler_made(sampler, &spec);
    return sampler;
}

/* Tokens that may lose: as many as the window holds. A penalty that raises tokens raises them out of nowhere. */
WRAP(struct llama_sampler *, llama_sampler_init_penalties, int32_t vocab, int32_t window, float repeat,
     float frequency, float presence) {
    MEANT(llama_sampler_init_penalties, NULL);
    bool off = window <= 0 || (repeat == 1 && frequency == 0 && presence == 0);
    bool raises = repeat < 1 || frequency < 0 || presence < 0;
    return made(real(vocab, window, repeat, frequency, presence),
                off      ? WANE__SAMPLER_NOTHING
                : raises ? WANE__SAMPLER_WHOLE
                         : WANE__SAMPLER_LOWER,
                window, 0);
}

WRAP(struct llama_sampler *, llama_sampler_init_dry, const struct llama_vocab *vocab, float multiplier,
     float base, int32_t allowed, int32_t window, const char **breakers, size_t count) {
    MEANT(llama_sampler_init_dry, NULL);
    bool off = multiplier == 0 || base < 1 || window <= 0, unknown = multiplier < 0;
    return made(real(vocab, multiplier, base, allowed, window, breakers, count),
                off       ? WANE__SAMPLER_NOTHING
                : unknown ? WANE__SAMPLER_WHOLE
                          : WANE__SAMPLER_LOWER,
                window, 0);
}

WRAP(struct llama_sampler *, llama_sampler_init_logit_bias, int32_t vocab, int32_t count,
     const llama_logit_bias *bias) {
    MEANT(llama_sampler_init_logit_bias, NULL);
    struct llama_sampler *sampler = real(vocab, count, bias);
    struct wane__sampler_spec spec = {.kind = count > 0 ? WANE__SAMPLER_BIAS : WANE__SAMPLER_NOTHING};
    for (int i = 0; library->known && i < count && spec.kind == WANE__SAMPLER_BIAS; i++) {
        if (!(bias[i].bias > 0))
            spec.count++;
        else if (spec.named_count < WANE__NEED_NAMED / 2)
            spec.named[spec.named_count++] = bias[i].token;
        else
            spec.kind = WANE__SAMPLER_WHOLE;
    }
    wane__sampler_made(sampler, &spec);
    return sampler;
}

WRAP(struct llama_sampler *, llama_sampler_init_typical, float p, size_t keep) {
    MEANT(llama_sampler_init_typical, NULL);
    return made(real(p, keep), p >= 1 ? WANE__SAMPLER_NOTHING : WANE__SAMPLER_WHOLE, 0, 0);
}

WRAP(struct llama_sampler *, llama_sampler_init_top_n_sigma, float n) {
    MEANT(llama_sampler_init_top_n_sigma, NULL);
    return made(real(n), n <= 0 ? WANE__SAMPLER_NOTHING : WANE__SAMPLER_WHOLE, 0, 0);
}

WRAP(struct llama_sampler *, llama_sampler_init_mirostat, int32_t vocab, uint32_t seed, float tau, float eta,
     int32_t m) {
    MEANT(llama_sampler_init_mirostat, NULL);
    return made(real(vocab, seed, tau, eta, m), WANE__SAMPLER_WHOLE, 0, 0);
}

WRAP(struct llama_sampler *, llama_sampler_init_mirostat_v2, uint32_t seed, float tau, float eta) {
    MEANT(llama_sampler_init_mirostat_v2, NULL);
    return made(real(seed, tau, eta), WANE__SAMPLER_WHOLE, 0, 0);
}

WRAP(struct llama_sampler *, llama_sampler_init_grammar, const struct llama_vocab *vocab, const char *text,
     const char *root) {
    MEANT(llama_sampler_init_grammar, NULL);
    return made(real(vocab, text, root), WANE__SAMPLER_WHOLE, 0, 0);
}

WRAP(struct llama_sampler *, llama_sampler_init_grammar_lazy_patterns, const struct llama_vocab *vocab,
     const char *text, const char *root, const char **patterns, size_t pattern_count,
     const llama_token *tokens, size_t token_count) {
    MEANT(llama_sampler_init_grammar_lazy_patterns, NULL);
    return made(real(vocab, text, root, patterns, pattern_count, tokens, token_count), WANE__SAMPLER_WHOLE, 0,
                0);
}

WRAP(struct llama_sampler *, llama_sampler_init_adaptive_p, float target, float decay, uint32_t seed) {
    MEANT(llama_sampler_init_adaptive_p, NULL);
    return made(real(target, decay, seed), WANE__SAMPLER_WHOLE, 0, 0);
}

WRAP(struct llama_sampler *, llama_sampler_init_infill, const struct llama_vocab *vocab) {
    MEANT(llama_sampler_init_infill, NULL);
    return made(real(vocab), WANE__SAMPLER_WHOLE, 0, 0);
}

#if WANE__STUBS
#define WRAP_OURS(name) (void (*)(void)) wrap_##name,
void (*const wane__wraps[WANE__WRAP_COUNT])(void) = {WANE__WRAPPED(WRAP_OURS)};
#endif
