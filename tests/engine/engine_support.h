/* engine_support.h - what the programs that need a real model share: checks, loading, a greedy loop. */
#ifndef WANE_TESTS_ENGINE_SUPPORT_H
#define WANE_TESTS_ENGINE_SUPPORT_H

#include "core/clock.h"
#include "core/memory.h"
#include "core/tokens.h"
#include "engine/llama_internal.h"
#include "engine_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fixture {
    struct wane__log log;
    struct wane__engine *engine;
    struct wane__llama *llama;
    const struct llama_vocab *vocab;
};

static inline void default_options(wane_model_options *o, const char *path) {
    memset(o, 0, sizeof *o);
    o->size = sizeof *o;
    o->path = path;
    o->sequences = 4;
    o->batch = 512;
    o->context = 1024;
    o->gpu_layers = -1;
    o->repack = -1;
    o->flash_attention = -1;
    /* On a machine with other work, 1 is far faster than 2: the engine's threads spin at every node. */
    const char *threads = getenv("WANE_TEST_THREADS");
    if (threads != NULL) o->threads = atoi(threads);
}

static inline bool load_fixture(struct fixture *f, const wane_model_options *o, wane_log_fn log) {
    wane_error error = {0};
    wane__log_init(&f->log, log, NULL);
    int rc = wane__llama_load(o, &f->log, &f->engine, &error);
    CHECK(rc == WANE_OK, "load %s: %s", o->path, error.text);
    if (rc != WANE_OK) return false;
    f->llama = wane__llama_of(f->engine);
    f->vocab = f->llama->vocab;
    return true;
}

static inline void free_fixture(struct fixture *f) {
    if (f->engine != NULL) f->engine->ops->free(f->engine);
    wane__log_close(&f->log);
}

static inline int32_t argmax(const float *logits, int count) {
    int32_t best = 0;
    for (int32_t i = 1; i < count; i++) {
        if (logits[i] > logits[best]) best = i;
    }
    return best;
}

/* The engine's own tokens for a text. */
static inline void engine_tokens(const struct fixture *f, const char *text, size_t size, bool special,
                                 bool control, wane_tokens *out) {
    out->count = 0;
    size_t room = size + 64;
    if (!wane__tokens_reserve(out, room)) abort();
    int32_t n = llama_tokenize(f->vocab, text, (int32_t)size, out->id, (int32_t)room, special, control);
    out->count = n > 0 ? (size_t)n : 0;
}

static inline bool same_tokens(const wane_tokens *a, const wane_tokens *b) {
    return a->count == b->count && (a->count == 0 || memcmp(a->id, b->id, a->count * sizeof *a->id) == 0);
}

/* Append tokens to a sequence in batches; the last one is wanted. */
static inline int prefill(struct fixture *f, int seq, const int32_t *id, size_t count, wane_error *error) {
    struct wane__item items[4096];
    for (size_t done = 0; done < count;) {
        int n = 0;
        for (; n < f->engine->batch && done < count; n++, done++) {
            int32_t pos = f->llama->length[seq] + n;
            items[n] =
                (struct wane__item){.token = id[done], .pos = pos, .seq = seq, .wanted = done + 1 == count};
        }
        int rc = f->engine->ops->decode(f->engine, items, n, error);
        if (rc != WANE_OK) return rc;
    }
    return WANE_OK;
}

/* Clear, prefill, then `steps` greedy tokens of the dense head. */
static inline int greedy(struct fixture *f, int seq, const wane_tokens *prompt, int steps, int32_t *out,
                         wane_error *error) {
    f->engine->ops->truncate(f->engine, seq, 0);
    int rc = prefill(f, seq, prompt->id, prompt->count, error);
    for (int i = 0; rc == WANE_OK && i < steps; i++) {
        const float *logits = f->engine->ops->logits(f->engine, 0);
        if (logits == NULL) return WANE_EINTERNAL;
        out[i] = argmax(logits, f->engine->facts.vocab_size);
        struct wane__item item = {.token = out[i], .pos = f->llama->length[seq], .seq = seq, .wanted = true};
        rc = f->engine->ops->decode(f->engine, &item, 1, error);
    }
    return rc;
}

static const char *const long_text =
    "The history of the lighthouse is the history of coastal trade. Ships that came in at night needed a "
    "mark that "
    "could be told from a fisherman's lamp, and so towers grew taller, their fires hotter, and at last their "
    "lamps "
    "turned behind lenses of cut glass. Keepers wrote down the weather four times a day.";

#endif
