/*
 * guard.cpp - the only frames between libllama's exceptions and our C code. Owns nothing; lets nothing through.
 */
#include "engine/guard.h"

#include <cstdio>
#include <exception>
#include <new>

namespace {

template <typename Result, typename Call>
Result guarded(Result failed, char *why, size_t why_size, Call call) noexcept {
    try {
        return call();
    } catch (const std::bad_alloc &) {
        std::snprintf(why, why_size, "no memory");
    } catch (const std::exception &e) {
        std::snprintf(why, why_size, "%s", e.what());
    } catch (...) {
        std::snprintf(why, why_size, "an exception without words");
    }
    return failed;
}

} // namespace

extern "C" int32_t wane__guard_decode(llama_context *context, llama_batch batch, char *why, size_t why_size) {
    return guarded<int32_t>(WANE__GUARD_THREW, why, why_size, [&] { return llama_decode(context, batch); });
}

extern "C" int32_t wane__guard_tokenize(const llama_vocab *vocab, const char *text, int32_t size,
                                        llama_token *out, int32_t room, bool special, bool control, char *why,
                                        size_t why_size) {
    return guarded<int32_t>(WANE__GUARD_THREW, why, why_size,
                            [&] { return llama_tokenize(vocab, text, size, out, room, special, control); });
}

extern "C" llama_model *wane__guard_load(const char *path, llama_model_params params, char *why,
                                         size_t why_size) {
    return guarded<llama_model *>(nullptr, why, why_size,
                                  [&] { return llama_model_load_from_file(path, params); });
}

extern "C" llama_context *wane__guard_context(llama_model *model, llama_context_params params, char *why,
                                              size_t why_size) {
    return guarded<llama_context *>(nullptr, why, why_size,
                                    [&] { return llama_init_from_model(model, params); });
}

extern "C" gguf_context *wane__guard_file(const char *path, gguf_init_params params, char *why,
                                          size_t why_size) {
    return guarded<gguf_context *>(nullptr, why, why_size, [&] { return gguf_init_from_file(path, params); });
}
