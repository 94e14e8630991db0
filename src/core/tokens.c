/* tokens.c - the growable token list of the public interface. */
#include "core/tokens.h"

#include "core/error.h"
#include "core/memory.h"

bool wane__tokens_reserve(wane_tokens *tokens, size_t more) {
    if (more <= tokens->capacity - tokens->count) return true;
    size_t capacity = tokens->capacity ? tokens->capacity : 64;
    while (capacity - tokens->count < more) {
        if (capacity > SIZE_MAX / 4) return false;
        capacity *= 2;
    }
    int32_t *id = wane__resize(tokens->id, capacity, sizeof *id);
    if (id == NULL) return false;
    tokens->id = id;
    tokens->capacity = capacity;
    return true;
}

bool wane__tokens_add(wane_tokens *tokens, int32_t token) {
    if (!wane__tokens_reserve(tokens, 1)) return false;
    tokens->id[tokens->count++] = token;
    return true;
}

int wane__tokens_check(const int32_t *tokens, size_t count, int vocab_size, wane_error *error) {
    for (size_t i = 0; i < count; i++) {
        if (tokens[i] >= 0 && tokens[i] < vocab_size) continue;
        return wane__fail(error, WANE_EINVAL, "Token %zu of the prompt is %d; the vocabulary has 0 to %d.", i,
                          tokens[i], vocab_size - 1);
    }
    return WANE_OK;
}

void wane_tokens_free(wane_tokens *tokens) {
    if (tokens == NULL) return;
    wane__free(tokens->id);
    *tokens = (wane_tokens){0};
}
