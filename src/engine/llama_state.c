/*
 * llama_state.c - a sequence's state through libllama, as bytes and back. Owns nothing. Refuses states that do not leave the
 * sequence as long as they should: whatever they were, the sequence is then empty.
 */
#include "engine/llama_internal.h"

#include "core/error.h"

int wane__llama_state_save(struct wane__engine *engine, int seq, struct wane__buf *out, wane_error *error) {
    struct wane__llama *e = wane__llama_of(engine);
    if (e->context == NULL || seq < 0 || seq >= e->base.facts.sequences)
        return wane__fail(error, WANE_EINVAL, "There is no sequence %d.", seq);
    llama_synchronize(e->context);
    size_t size = llama_state_seq_get_size(e->context, seq);
    if (size == 0) return wane__fail(error, WANE_EENGINE, "The engine has no state of the sequence.");
    if (!wane__buf_reserve(out, size))
        return wane__fail(error, WANE_ENOMEM, "No memory for a state of %zu bytes.", size);
    size_t got = llama_state_seq_get_data(e->context, (uint8_t *)out->data + out->size, size, seq);
    if (got == 0 || got > size)
        return wane__fail(error, WANE_EENGINE, "The engine could not give its state.");
    out->size += got;
    out->data[out->size] = '\0';
    return WANE_OK;
}

int wane__llama_state_load(struct wane__engine *engine, int seq, const void *bytes, size_t size, int length,
                           wane_error *error) {
    struct wane__llama *e = wane__llama_of(engine);
    struct wane__llama_words words;
    if (e->context == NULL || seq < 0 || seq >= e->base.facts.sequences || length < 1 ||
        length > e->base.facts.context)
        return wane__fail(error, WANE_EINVAL, "A state of %d tokens has no place in sequence %d.", length,
                          seq);
    wane__llama_truncate(engine, seq, 0);
    wane__llama_words_enter(&words, e->base.log);
    size_t taken = llama_state_seq_set_data(e->context, bytes, size, seq);
    wane__llama_words_leave(&words);
    int held = (int)llama_memory_seq_pos_max(llama_get_memory(e->context), seq) + 1;
    if (taken == size && held == length) {
        e->length[seq] = length;
        wane__llama_probe_moved(e, seq, -1, length);
        return WANE_OK;
    }
    wane__llama_truncate(engine, seq, 0);
    return wane__fail(error, WANE_EFORMAT, "the engine does not take its state%s%s.",
                      words.errors[0] != '\0' ? ": " : "", words.errors);
}
