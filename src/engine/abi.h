/*
 * abi.h - a libllama that somebody else loaded: its functions by name, and whether wane knows its version.
 *
 * For src/preload/, which stands between a program and its libllama, and for `wane exec`, which looks beforehand. wane is
 * compiled with the headers of one release; other releases lay out their structures in other ways. So a version is known
 * only when it stands in the table of abi.c, and even then the library must show that it is what the table says: all
 * functions are there, default parameters have the size and the values that the headers promise, and tensors made by its
 * own ggml lie in memory as ours would. Whatever does not fit is refused with a sentence, and nothing of it is touched.
 */
#ifndef WANE_ENGINE_ABI_H
#define WANE_ENGINE_ABI_H

#include "engine/ggml_head.h"
#include "wane.h"

#include <llama.h>

/* What is called. All of them must be there. */
#define WANE__ABI_FUNCTIONS(X)           \
    X(llama_version)                     \
    X(llama_context_default_params)      \
    X(llama_model_default_params)        \
    X(llama_init_from_model)             \
    X(llama_free)                        \
    X(llama_model_load_from_file)        \
    X(llama_model_free)                  \
    X(llama_decode)                      \
    X(llama_encode)                      \
    X(llama_synchronize)                 \
    X(llama_get_logits)                  \
    X(llama_get_logits_ith)              \
    X(llama_get_model)                   \
    X(llama_get_memory)                  \
    X(llama_n_threads)                   \
    X(llama_n_ubatch)                    \
    X(llama_n_seq_max)                   \
    X(llama_model_get_vocab)             \
    X(llama_model_n_embd)                \
    X(llama_model_has_encoder)           \
    X(llama_model_has_decoder)           \
    X(llama_model_is_recurrent)          \
    X(llama_model_is_hybrid)             \
    X(llama_model_is_diffusion)          \
    X(llama_vocab_n_tokens)              \
    X(llama_sampler_sample)              \
    X(ggml_init)                         \
    X(ggml_free)                         \
    X(ggml_new_tensor_2d)                \
    X(ggml_mul_mat)                      \
    X(ggml_scale)                        \
    X(ggml_set_name)                     \
    X(ggml_get_name)                     \
    X(ggml_get_data)                     \
    X(ggml_tensor_overhead)              \
    X(ggml_is_contiguous)                \
    X(ggml_type_name)                    \
    X(ggml_backend_dev_by_type)          \
    X(ggml_backend_dev_backend_reg)      \
    X(ggml_backend_reg_get_proc_address) \
    X(ggml_get_type_traits)              \
    X(ggml_type_size)                    \
    X(ggml_row_size)                     \
    X(ggml_backend_buffer_is_host)       \
    X(ggml_backend_buffer_name)          \
    X(ggml_backend_tensor_get)

struct wane__abi {
#define WANE__ABI_FIELD(name) __typeof__(&name) name; /* NOLINT(bugprone-macro-parentheses): it declares */
    WANE__ABI_FUNCTIONS(WANE__ABI_FIELD)
#undef WANE__ABI_FIELD
    struct wane__ggml ggml; /* the same, as the head wants them */
    char version[64];       /* as the library names itself; "" when it does not */
};

/*
 * Find the functions with `find` (dlsym on some handle) and check them. WANE_EUNSUPPORTED with a sentence for a library
 * that wane does not know; `abi` then holds what was found, the version where there is one.
 */
typedef void *(*wane__abi_find)(void *user, const char *name);
int wane__abi_open(wane__abi_find find, void *user, struct wane__abi *abi, wane_error *error);

/* The versions that wane knows, for people: "0.4.0, 0.4.0-dev". */
const char *wane__abi_versions(void);

#endif
