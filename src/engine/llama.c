/*
 * llama.c - the engine on libllama: loads a model, makes its one context, collects the facts, frees it all.
 *
 * Owns the model, the context and every buffer that decode uses, sized here once. Refuses what libllama
 * would accept and then abort on or get wrong: models without a causal decoder, a quantised V cache without flash
 * attention, sizes beyond its limits. Must not move: the order in wane__llama_free (context before pools and
 * model).
 */
#include "engine/llama_internal.h"

#include "core/error.h"
#include "core/memory.h"
#include "core/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/*
 * How long the standing pool's threads spin for work between graphs, 0 to 100; -1 would be the engine's own
 * disposable threads. 0: they sleep at once, so that nothing of ours ever competes with a spinning thread.
 * Spinning (50, 100) won nothing, and lost half of the rounds. docs/engine.md has the measurement.
 */
#define POOL_POLL 0

/* ------------------------------------------------------------------ options */

static bool kv_type(const char *name, enum ggml_type *type) {
    static const enum ggml_type known[] = {GGML_TYPE_F16,  GGML_TYPE_F32,  GGML_TYPE_BF16,
                                           GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1,
                                           GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_IQ4_NL};
    *type = GGML_TYPE_F16;
    if (name == NULL || name[0] == '\0') return true;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcasecmp(name, ggml_type_name(known[i])) != 0) continue;
        *type = known[i];
        return true;
    }
    return false;
}

static int in_range(const char *name, int value, int low, int high, wane_error *error) {
    if (value >= low && value <= high) return WANE_OK;
    return wane__fail(error, WANE_EINVAL, "%s is %d; it must be %d to %d.", name, value, low, high);
}

static int check_kv(const wane_model_options *o, wane_error *error) {
    enum ggml_type k = GGML_TYPE_F16, v = GGML_TYPE_F16;
    const char *wrong = !kv_type(o->kv_type_k, &k)   ? o->kv_type_k
                        : !kv_type(o->kv_type_v, &v) ? o->kv_type_v
                                                     : NULL;
    if (wrong != NULL) {
        return wane__fail(error, WANE_EINVAL,
                          "KV type \"%s\" is unknown; the types are f16, f32, bf16, q8_0, q5_1, q5_0, "
                          "q4_1, q4_0, iq4_nl.",
                          wrong);
    }
    if (ggml_is_quantized(v) && o->flash_attention == 0) {
        return wane__fail(error, WANE_EINVAL,
                          "A quantised V cache (%s) needs flash attention, which is switched off.",
                          o->kv_type_v);
    }
    return WANE_OK;
}

static int check_options(const wane_model_options *o, wane_error *error) {
    int rc = in_range("threads", o->threads, 0, 512, error);
    if (rc == WANE_OK) rc = in_range("batch_threads", o->batch_threads, 0, 512, error);
    if (rc == WANE_OK) rc = in_range("context", o->context, 0, 1 << 24, error);
    if (rc == WANE_OK) rc = in_range("sequences", o->sequences, 1, WANE__MAX_SEQUENCES, error);
    if (rc == WANE_OK) rc = in_range("batch", o->batch, 32, 4096, error);
    if (rc == WANE_OK) rc = in_range("gpu_layers", o->gpu_layers, -1, 100000, error);
    if (rc == WANE_OK) rc = in_range("repack", o->repack, -1, 1, error);
    if (rc == WANE_OK) rc = in_range("flash_attention", o->flash_attention, -1, 1, error);
    return rc == WANE_OK ? check_kv(o, error) : rc;
}

/* -------------------------------------------------------------------- model */

struct progress {
    const wane_model_options *options;
    bool stopped;
};

static bool on_progress(float share, void *user) {
    struct progress *p = user;
    if (p->options->progress == NULL) return true;
    if (!p->options->progress(p->options->progress_user, "load", (double)share)) p->stopped = true;
    return !p->stopped;
}

/* The engine's reason in our words, with its own behind them. */
static int load_failed(const char *path, const char *words, wane_error *error) {
    if (strstr(words, "unknown model architecture") != NULL) {
        return wane__fail(error, WANE_EUNSUPPORTED,
                          "This engine (%s) does not know the architecture of \"%s\": %.300s",
                          wane__llama_version(), path, words);
    }
    if (strstr(words, "file bounds") != NULL) {
        return wane__fail(error, WANE_EFORMAT,
                          "\"%s\" is cut short: it holds fewer bytes than its header promises. "
                          "Fetch it again. (%.250s)",
                          path, words);
    }
    if (strstr(words, "llocate") != NULL) {
        return wane__fail(error, WANE_ENOMEM, "Not enough memory for \"%s\": %.300s", path, words);
    }
    return wane__fail(error, WANE_EFORMAT, "\"%s\" is damaged, cut short, or not a language model: %.300s",
                      path, words[0] != '\0' ? words : "the engine gave no reason");
}

static int load_model(struct wane__llama *e, const wane_model_options *o, wane_error *error) {
    struct progress progress = {.options = o};
    struct llama_model_params p = llama_model_default_params();
    struct llama_model_tensor_buft_override override[2] = {{0}}; /* the second one ends the list */
    p.n_gpu_layers = o->gpu_layers;
    p.vocab_only = o->vocab_only;
    wane__llama_layout(o, &p, override);
    if (o->mlock)
        p.load_mode = o->no_mmap ? LLAMA_LOAD_MODE_MLOCK : LLAMA_LOAD_MODE_MMAP_MLOCK;
    else if (o->no_mmap)
        p.load_mode = LLAMA_LOAD_MODE_NONE;
    p.progress_callback = on_progress;
    p.progress_callback_user_data = &progress;
    struct wane__llama_words words;
    wane__llama_words_enter(&words, e->base.log);
    e->model = wane__guard_load(o->path, p, words.errors, sizeof words.errors);
    wane__llama_words_leave(&words);
    if (progress.stopped) return wane__fail(error, WANE_ECANCELLED, "Loading \"%s\" was stopped.", o->path);
    if (e->model == NULL) return load_failed(o->path, words.errors, error);
    e->vocab = llama_model_get_vocab(e->model);
    if (llama_vocab_type(e->vocab) == LLAMA_VOCAB_TYPE_NONE) {
        return wane__fail(error, WANE_EUNSUPPORTED, "\"%s\" has no vocabulary: nothing can be tokenised.",
                          o->path);
    }
    return WANE_OK;
}

/* A value of the model's header, "" where there is none; `key` may start with "%s", the architecture. */
static void meta(const struct wane__llama *e, const char *key, char *value, size_t size) {
    char full[160];
    value[0] = '\0';
    if (strncmp(key, "%s", 2) == 0) {
        snprintf(full, sizeof full, "%s%s", e->base.facts.architecture, key + 2);
        key = full;
    }
    if (llama_model_meta_val_str(e->model, key, value, size) < 0) value[0] = '\0';
}

static int check_kind(const struct wane__llama *e, wane_error *error) {
    const wane_model_facts *f = &e->base.facts;
    char causal[16];
    meta(e, "%s.attention.causal", causal, sizeof causal);
    const char *what = NULL;
    if (!llama_model_has_decoder(e->model))
        what = "it has an encoder only (an embedding model?)";
    else if (llama_model_has_encoder(e->model))
        what = "it is an encoder-decoder model";
    else if (llama_model_is_diffusion(e->model))
        what = "it is a diffusion model";
    else if (strcmp(causal, "false") == 0)
        what = "its attention is not causal (an embedding model?)";
    if (what == NULL) return WANE_OK;
    return wane__fail(error, WANE_EUNSUPPORTED, "\"%s\" (%s) cannot be decoded token by token: %s.", f->path,
                      f->architecture, what);
}

/* -------------------------------------------------------------------- facts */

static const char *own(struct wane__llama *e, char *text) {
    if (text == NULL) return NULL;
    e->owned[e->owned_count++] = text;
    return text;
}

/* "models/smollm2-135m.gguf" → "smollm2-135m" */
static char *name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    char *name = wane__copy_string(slash != NULL ? slash + 1 : path);
    char *dot = name != NULL ? strrchr(name, '.') : NULL;
    if (dot != NULL && dot != name) *dot = '\0';
    return name;
}

static int fill_strings(struct wane__llama *e, const wane_model_options *o, wane_error *error) {
    wane_model_facts *f = &e->base.facts;
    char text[256];
    f->head_tensor = f->head_type = f->head_buffer = "";
    f->path = own(e, wane__copy_string(o->path));
    f->name = own(e, o->name != NULL && o->name[0] != '\0' ? wane__copy_string(o->name) : name_of(o->path));
    if (llama_model_meta_val_str(e->model, "general.architecture", text, sizeof text) < 0) text[0] = '\0';
    f->architecture = own(e, wane__copy_string(text));
    if (llama_model_desc(e->model, text, sizeof text) < 0) text[0] = '\0';
    f->description = own(e, wane__copy_string(text));
    snprintf(text, sizeof text, "llama.cpp %s", llama_version());
    f->engine = own(e, wane__copy_string(text));
    bool fine = f->path != NULL && f->name != NULL && f->architecture != NULL && f->description != NULL &&
                f->engine != NULL;
    return fine ? WANE_OK : wane__fail(error, WANE_ENOMEM, "No memory for the model's facts.");
}

static int fill_facts(struct wane__llama *e, const wane_model_options *o, wane_error *error) {
    wane_model_facts *f = &e->base.facts;
    int rc = fill_strings(e, o, error);
    if (rc != WANE_OK) return rc;
    f->parameters = o->vocab_only ? 0 : llama_model_n_params(e->model);
    f->vocab_size = llama_vocab_n_tokens(e->vocab);
    f->embedding_size = llama_model_n_embd(e->model);
    f->layers = llama_model_n_layer(e->model);
    f->trained_context = llama_model_n_ctx_train(e->model);
    f->recurrent = llama_model_is_recurrent(e->model) || llama_model_is_hybrid(e->model);
    f->bos = llama_vocab_bos(e->vocab);
    f->eos = llama_vocab_eos(e->vocab);
    f->eot = llama_vocab_eot(e->vocab);
    f->sequences = o->sequences;
    f->threads = o->threads > 0 ? o->threads : wane__os_cores();
    f->context = o->context;
    if (f->context == 0)
        f->context = f->trained_context > 0 && f->trained_context < 4096 ? f->trained_context : 4096;
    if (f->trained_context > 0 && f->context > f->trained_context) {
        wane__log(e->base.log, WANE_LOG_WARN,
                  "context %d is longer than the %d tokens the model was trained on", f->context,
                  f->trained_context);
    }
    return WANE_OK;
}

/* ------------------------------------------------------------------ context */

static int context_params(struct wane__llama *e, const wane_model_options *o, wane_error *error) {
    const wane_model_facts *f = &e->base.facts;
    uint64_t cells = (uint64_t)f->context * (uint64_t)f->sequences;
    if (cells > INT32_MAX / 2) {
        return wane__fail(error, WANE_EINVAL, "%d sequences of %d tokens are more than the engine can count.",
                          f->sequences, f->context);
    }
    struct llama_context_params *p = &e->params;
    *p = llama_context_default_params();
    p->n_ctx = (uint32_t)cells;
    p->n_seq_max = (uint32_t)f->sequences;
    /* The engine insists on a batch that can hold one row of every sequence. */
    p->n_batch = (uint32_t)(o->batch > f->sequences ? o->batch : f->sequences);
    p->n_ubatch = p->n_batch;
    p->n_threads = f->threads;
    p->n_threads_batch = o->batch_threads > 0 ? o->batch_threads : f->threads;
    p->flash_attn_type = (enum llama_flash_attn_type)o->flash_attention;
    kv_type(o->kv_type_k, &p->type_k);
    kv_type(o->kv_type_v, &p->type_v);
    p->kv_unified = true; /* copy shares cells, and rows keep the order of the items */
    p->swa_full = true;   /* a sliding window would forget cells that a reused prefix needs */
    p->no_perf = true;
    return WANE_OK;
}

static int make_context(struct wane__llama *e, wane_error *error) {
    struct llama_context_params p = e->params;
    p.cb_eval = wane__llama_eval;
    p.cb_eval_user_data = e;
    p.abort_callback = wane__llama_aborted;
    p.abort_callback_data = e;
    struct wane__llama_words words;
    wane__llama_words_enter(&words, e->base.log);
    e->context = wane__guard_context(e->model, p, words.errors, sizeof words.errors);
    wane__llama_words_leave(&words);
    if (e->context == NULL) {
        int code = strstr(words.errors, "llocate") != NULL ? WANE_ENOMEM : WANE_EENGINE;
        return wane__fail(error, code, "The engine made no context of %u tokens (%s K, %s V): %.300s",
                          p.n_ctx, ggml_type_name(p.type_k), ggml_type_name(p.type_v),
                          words.errors[0] != '\0' ? words.errors : "it gave no reason");
    }
    if (llama_get_memory(e->context) == NULL) {
        return wane__fail(error, WANE_EUNSUPPORTED,
                          "\"%s\" (%s) keeps no history: it cannot be decoded token by token.",
                          e->base.facts.path, e->base.facts.architecture);
    }
    e->base.batch = (int)llama_n_batch(e->context);
    return WANE_OK;
}

static int make_buffers(struct wane__llama *e, wane_error *error) {
    size_t batch = (size_t)e->base.batch, d = (size_t)e->base.facts.embedding_size;
    e->llama_batch = llama_batch_init(e->base.batch, 0, 1);
    e->rows = wane__alloc_zero(batch, sizeof *e->rows);
    e->hidden = wane__alloc_zero(batch * d, sizeof *e->hidden);
    if (e->llama_batch.token == NULL || e->rows == NULL || e->hidden == NULL) {
        return wane__fail(error, WANE_ENOMEM, "No memory for a batch of %d tokens.", e->base.batch);
    }
    e->hook_possible = true;
    e->order_kept = !e->base.facts.recurrent;
    return WANE_OK;
}

/* ------------------------------------------------------------ load and free */

static void engine_free(struct wane__engine *engine) {
    struct wane__llama *e = engine == NULL ? NULL : wane__llama_of(engine);
    if (e == NULL) return;
    wane__llama_template_close(e);
    wane__llama_markers_close(&e->markers);
    wane__ggml_head_close(&e->head);
    wane__llama_probe_close(e);
    if (e->llama_batch.token != NULL) llama_batch_free(e->llama_batch);
    llama_free(e->context);
    wane__llama_free_pools(e);
    llama_model_free(e->model);
    wane__free(e->rows);
    wane__free(e->hidden);
    for (int i = 0; i < e->owned_count; i++) wane__free(e->owned[i]);
    wane__free(e);
}

static const struct wane__engine_ops llama_ops = {
    .name = "llama.cpp",
    .free = engine_free,
    .tokenize = wane__llama_tokenize,
    .token_bytes = wane__llama_token_bytes,
    .is_end = wane__llama_is_end,
    .chat = wane__llama_chat,
    .decode = wane__llama_decode,
    .logits = wane__llama_logits,
    .hidden = wane__llama_hidden,
    .rescore = wane__llama_rescore,
    .rescore_size = wane__llama_rescore_size,
    .rescore_prepare = wane__llama_rescore_prepare,
    .rescore_prepared = wane__llama_rescore_prepared,
    .rescore_seen = wane__llama_rescore_seen,
    .head_rows = wane__llama_head_rows,
    .set_hook = wane__llama_set_hook,
    .set_probe = wane__llama_set_probe,
    .layer_facts = wane__llama_layer_facts,
    .attended = wane__llama_attended,
    .truncate = wane__llama_truncate,
    .copy = wane__llama_copy,
    .state_save = wane__llama_state_save,
    .state_load = wane__llama_state_load,
    .interrupt = wane__llama_interrupt,
    .reference_new = wane__llama_reference_new,
    .reference_run = wane__llama_reference_run,
    .reference_free = wane__llama_reference_free,
};

static int open_decoding(struct wane__llama *e, const wane_model_options *o, wane_error *error) {
    int rc = check_kind(e, error);
    if (rc == WANE_OK) rc = context_params(e, o, error);
    if (rc == WANE_OK) rc = make_context(e, error);
    if (rc == WANE_OK) rc = make_buffers(e, error);
    if (rc == WANE_OK) rc = wane__llama_probe_open(e, error);
    if (rc == WANE_OK && wane__llama_attach_pool(e, POOL_POLL, error) != WANE_OK) {
        wane__clear(error); /* an engine without pools works as well, only a little slower */
    }
    return rc == WANE_OK ? wane__llama_head_open(e, error) : rc;
}

static int load(struct wane__llama *e, const wane_model_options *o, wane_error *error) {
    int rc = wane__llama_backends(o->backends, e->base.log, error);
    if (rc == WANE_OK) rc = load_model(e, o, error);
    if (rc == WANE_OK) rc = fill_facts(e, o, error);
    if (rc == WANE_OK) rc = wane__llama_markers_open(e, error);
    if (rc == WANE_OK) rc = wane__llama_template_open(e, error);
    if (rc == WANE_OK && !o->vocab_only) rc = open_decoding(e, o, error);
    return rc;
}

int wane__llama_load(const wane_model_options *options, struct wane__log *log, struct wane__engine **engine,
                     wane_error *error) {
    *engine = NULL;
    wane__clear(error);
    uint64_t bytes = 0;
    int rc = check_options(options, error);
    if (rc == WANE_OK) rc = wane__llama_check_file(options->path, &bytes, error);
    if (rc != WANE_OK) return rc;
    struct wane__llama *e = wane__alloc_zero(1, sizeof *e);
    if (e == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for an engine.");
    e->base.ops = &llama_ops;
    e->base.log = log;
    e->base.facts.file_bytes = bytes;
    atomic_init(&e->interrupted, false);
    rc = load(e, options, error);
    if (rc == WANE_OK)
        *engine = &e->base;
    else
        engine_free(&e->base);
    return rc;
}
