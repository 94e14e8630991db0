/* tokens.h - appending to the public token list. */
#ifndef WANE_CORE_TOKENS_H
#define WANE_CORE_TOKENS_H

#include "wane.h"

/* Room for `more` tokens at out->id + out->count; false when there is no memory. */
bool wane__tokens_reserve(wane_tokens *tokens, size_t more);
bool wane__tokens_add(wane_tokens *tokens, int32_t token);
/* Are all of a prompt's tokens in the vocabulary? WANE_EINVAL names the first that is not. */
int wane__tokens_check(const int32_t *tokens, size_t count, int vocab_size, wane_error *error);

#endif
