/*
 * origin.c - model, tokenizer and vocabulary, as traces, tables and memos name them.
 */
#include "origin.h"

#include "core/error.h"
#include "model.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum { TOKEN_BYTES_MOST = 4096 };

/* XXH3-128 of all tokens in order, each as four bytes of length, little-endian, and its bytes; control tokens by name. */
static int tokenizer_digest(struct wane__engine *engine, char hex[33], wane_error *error) {
    XXH3_state_t *state = XXH3_createState();
    unsigned char bytes[4 + TOKEN_BYTES_MOST];
    if (state == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a digest.");
    XXH3_128bits_reset(state);
    for (int32_t token = 0; token < engine->facts.vocab_size; token++) {
        int size = engine->ops->token_bytes(engine, token, true, (char *)bytes + 4, TOKEN_BYTES_MOST);
        if (size < 0) size = 0; /* no text at all */
        for (int b = 0; b < 4; b++) bytes[b] = (unsigned char)((uint32_t)size >> 8 * b);
        XXH3_128bits_update(state, bytes, 4 + (size_t)size);
    }
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    snprintf(hex, 33, "%016llx%016llx", (unsigned long long)hash.high64, (unsigned long long)hash.low64);
    return WANE_OK;
}

/* Once a model: a vocabulary's texts are as many as there are tokens. */
int wane_model_tokenizer(wane_model *model, char hex[33], wane_error *error) {
    int status = WANE_OK;
    wane__clear(error);
    pthread_mutex_lock(&model->digest_lock);
    if (model->tokenizer[0] == '\0') status = tokenizer_digest(model->engine, model->tokenizer, error);
    memcpy(hex, model->tokenizer, sizeof model->tokenizer);
    pthread_mutex_unlock(&model->digest_lock);
    return status;
}

int wane__model_origin(wane_model *model, struct wane__trace_origin *origin, wane_error *error) {
    struct wane__engine *engine = model->engine;
    *origin =
        (struct wane__trace_origin){.version = WANE__TRACE_VERSION, .vocab_size = engine->facts.vocab_size};
    int status = wane_model_tokenizer(model, origin->tokenizer, error);
    if (status != WANE_OK) return status;
    if (engine->facts.path[0] != '\0') return wane_model_digest(model, origin->model, error);
    memcpy(origin->model, origin->tokenizer,
           sizeof origin->model); /* an engine without a file: a scripted one */
    return WANE_OK;
}
