/*
 * fuzz_rules.c - any bytes as a file of rules, and as the text that its patterns see: refused in words, or held without harm. What is
 * held is named.
 */
#include "core/tokens.h"
#include "correct/rules.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A byte a token. */
static int tokenize(void *user, const char *text, size_t size, wane_tokens *out, wane_error *error) {
    (void)user, (void)error;
    for (size_t i = 0; i < size; i++)
        if (!wane__tokens_add(out, (unsigned char)text[i])) abort();
    return WANE_OK;
}

static int token_bytes(void *user, int32_t token, char *buffer, size_t capacity) {
    (void)user;
    if (capacity < 1) return WANE_EINVAL;
    *buffer = (char)token;
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const struct wane__rules_tokenizer tokenizer = {tokenize, token_bytes, NULL, 256};
    const char *text = (const char *)data, *word = NULL, *name = NULL;
    struct wane__rules *rules = NULL;
    struct wane__recent recent = {0};
    wane_error error = {0};
    if (size > 4096) return 0;
    int status = wane__rules_parse("fuzz", text, size, &tokenizer, &rules, &error);
    if ((status == WANE_OK) != (rules != NULL) || (status == WANE_OK) != (error.text[0] == '\0')) abort();
    for (size_t at = 0; at < size; at += 7)
        wane__recent_add(&recent, text + at, size - at < 7 ? size - at : 7, at >= size / 2);
    if (rules == NULL) return 0;
    struct wane__candidate list[256];
    bool held[256];
    int failures = 0;
    for (int i = 0; i < 256; i++) list[i] = (struct wane__candidate){i, 0};
    wane__rules_hold(rules, &recent, list, 256, held, &failures);
    for (int i = 0; i < 256; i++)
        if (held[i] && !wane__rules_names(rules, i)) abort();
    if (wane__rules_words_left(rules, &word, &name) > 0 && (word == NULL || name == NULL)) abort();
    wane__rules_free(rules);
    return 0;
}
