/* tokens.h - appending to the public token list. */
#ifndef WANE_CORE_TOKENS_H
#define WANE_CORE_TOKENS_H

#include "wane.h"

/* Room for `more` tokens at out->id + out->count; false when there is no memory. */
bool wane__tokens_reserve(wane_tokens *tokens, size_t more);
bool wane__tokens_add(wane_tokens *tokens, int32_t token);

#endif
