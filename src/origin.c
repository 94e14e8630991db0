/*
 * origin.c - model, tokenizer and vocabulary, as traces, tables and memos name them.
 */
#include "origin.h"

#include "core/buf.h"
#include "core/error.h"
#include "model.h"

#include <string.h>

enum { TOKEN_BYTES_MOST = 4096 };

/* Of all tokens' texts in order, control tokens by name. */
static int tokenizer_digest(struct wane__engine *engine, char hex[33], wane_error *error) {
    struct wane__buf text = {0}, sizes = {0};
    char bytes[TOKEN_BYTES_MOST];
    int count = engine->facts.vocab_size, status = WANE_OK;
    for (int32_t token = 0; token < count; token++) {
        int32_t size = engine->ops->token_bytes(engine, token, true, bytes, TOKEN_BYTES_MOST);
        if (size < 0) size = 0; /* no text at all */
        wane__buf_append(&text, bytes, (size_t)size);
        wane__buf_append(&sizes, &size, sizeof size);
    }
    if (text.failed || sizes.failed)
        status = wane__fail(error, WANE_ENOMEM, "No memory for the texts of %d tokens.", count);
    else
        status =
            wane_tokenizer_digest(text.data, (const int32_t *)(const void *)sizes.data, count, hex, error);
    wane__buf_free(&text);
    wane__buf_free(&sizes);
    return status;
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
