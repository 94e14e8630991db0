/* tokens.c - the growable token list of the public interface. */
#include "core/tokens.h"

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

void wane_tokens_free(wane_tokens *tokens) {
    if (tokens == NULL) return;
    wane__free(tokens->id);
    *tokens = (wane_tokens){0};
}
