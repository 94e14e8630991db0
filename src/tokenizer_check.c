/*
 * tokenizer_check.c - where two tokenizers part, and which characters one of them loses. Owns nothing; refuses to say which is right.
 *
 * Tried are all characters of the basic plane and the pictographs: whatever a table's phrases are made of. A character is tokenised
 * alone, so that the answer names it and not its company.
 */
#include "core/error.h"
#include "model.h"

#include <string.h>

enum { BYTES_MOST = 4096 };

/* The next character that is tried; 0: no more. Surrogates are none. */
static uint32_t next_character(uint32_t c) {
    c++;
    if (c == 0xd800) return 0xe000;
    if (c == 0xfffe) return 0x1f000;
    return c < 0x1fb00 ? c : 0;
}

static size_t utf8(uint32_t c, char out[4]) {
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t size = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = size - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)((size == 2 ? 0xc0 : size == 3 ? 0xe0 : 0xf0) | c);
    return size;
}

static void note_character(wane_tokenizer_parting *p, uint32_t c) {
    if (p->characters < WANE_TOKENIZER_SHOWN) p->character[p->characters] = c;
    p->characters++;
}

static int compare_characters(wane_model *a, wane_model *b, wane_tokenizer_parting *p, wane_error *error) {
    wane_tokens x = {0}, y = {0};
    int status = WANE_OK;
    for (uint32_t c = 1; c != 0 && status == WANE_OK; c = next_character(c)) {
        char text[4];
        size_t size = utf8(c, text);
        x.count = y.count = 0;
        status = wane_tokenize(a, text, size, 0, &x, error);
        if (status == WANE_OK) status = wane_tokenize(b, text, size, 0, &y, error);
        p->tried++;
        if (status == WANE_OK &&
            (x.count != y.count || (x.count > 0 && memcmp(x.id, y.id, x.count * sizeof *x.id) != 0)))
            note_character(p, c);
    }
    wane_tokens_free(&x);
    wane_tokens_free(&y);
    return status;
}

static void compare_tokens(wane_model *a, wane_model *b, wane_tokenizer_parting *p) {
    char left[BYTES_MOST], right[BYTES_MOST];
    int both = p->vocab_a < p->vocab_b ? p->vocab_a : p->vocab_b;
    for (int32_t id = 0; id < both; id++) {
        int x = wane_token_bytes(a, id, true, left, sizeof left);
        int y = wane_token_bytes(b, id, true, right, sizeof right);
        if (x == y && (x <= 0 || memcmp(left, right, (size_t)x) == 0)) continue;
        if (p->tokens < WANE_TOKENIZER_SHOWN) p->token[p->tokens] = id;
        p->tokens++;
    }
}

int wane_tokenizers_compare(wane_model *a, wane_model *b, wane_tokenizer_parting *parting,
                            wane_error *error) {
    wane__clear(error);
    *parting = (wane_tokenizer_parting){.vocab_a = a->engine->facts.vocab_size,
                                        .vocab_b = b->engine->facts.vocab_size};
    compare_tokens(a, b, parting);
    return compare_characters(a, b, parting, error);
}

/* The tokens' text, less what a tokenizer puts before a text's first word. */
static bool comes_back(wane_model *model, const wane_tokens *tokens, const char *text, size_t size) {
    char bytes[BYTES_MOST];
    size_t used = 0;
    for (size_t i = 0; i < tokens->count; i++) {
        int wrote = wane_token_bytes(model, tokens->id[i], false, bytes + used, sizeof bytes - used);
        if (wrote < 0) return false;
        used += (size_t)wrote;
    }
    const char *from = bytes;
    if (used == size + 1 && bytes[0] == ' ') {
        from++;
        used--;
    }
    return used == size && memcmp(from, text, size) == 0;
}

int wane_tokenizer_check(wane_model *model, wane_tokenizer_parting *parting, wane_error *error) {
    wane_tokens tokens = {0};
    int status = WANE_OK;
    wane__clear(error);
    *parting = (wane_tokenizer_parting){.vocab_a = model->engine->facts.vocab_size,
                                        .vocab_b = model->engine->facts.vocab_size};
    for (uint32_t c = 1; c != 0 && status == WANE_OK; c = next_character(c)) {
        char text[4];
        size_t size = utf8(c, text);
        tokens.count = 0;
        status = wane_tokenize(model, text, size, 0, &tokens, error);
        parting->tried++;
        if (status == WANE_OK && !comes_back(model, &tokens, text, size)) note_character(parting, c);
    }
    wane_tokens_free(&tokens);
    return status;
}
