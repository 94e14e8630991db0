/*
 * guard.h - libllama's calls that can throw, behind C functions that cannot.
 *
 * libllama is C++ behind a C interface; most of its entry points catch nothing. An exception (no memory, a text that
 * its Unicode tables reject) would pass through C frames and end the process: one bad request would take the
 * daemon along. Each function here is the call of the same name, with a second way to fail.
 */
#ifndef WANE_ENGINE_GUARD_H
#define WANE_ENGINE_GUARD_H

#include <gguf.h>
#include <llama.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What WANE__GUARD_THREW means: the call threw; it gave no result of its own. */
enum { WANE__GUARD_THREW = -1000 };

/* `why` receives the exception's words (terminated) and is left alone otherwise. */
int32_t wane__guard_decode(struct llama_context *context, struct llama_batch batch, char *why,
                           size_t why_size);
int32_t wane__guard_tokenize(const struct llama_vocab *vocab, const char *text, int32_t size,
                             llama_token *out, int32_t room, bool special, bool control, char *why,
                             size_t why_size);
/* NULL when it failed, by throwing or otherwise. */
struct llama_model *wane__guard_load(const char *path, struct llama_model_params params, char *why,
                                     size_t why_size);
struct llama_context *wane__guard_context(struct llama_model *model, struct llama_context_params params,
                                          char *why, size_t why_size);
struct gguf_context *wane__guard_file(const char *path, struct gguf_init_params params, char *why,
                                      size_t why_size);

#ifdef __cplusplus
}
#endif
#endif
