/*
 * abi.c - checks of a libllama that somebody else loaded, and the table of versions that were compared with their headers.
 *
 * To add a version: compare what this file checks, and what src/preload/ reads (llama_context_params up to ctx_other,
 * llama_batch, llama_token_data_array, ggml_tensor, ggml_type_traits_cpu, the names result_norm and result_output), with the headers of
 * that release. If they are the same, a line in the table is all; if not, its layout has to be taken from offsets there.
 */
#include "engine/abi.h"

#include "core/error.h"

#include <stdio.h>
#include <string.h>

/* Releases whose structures are those of the headers that wane is compiled with. */
static const char *const known[] = {"0.4.0", "0.4.0-dev"};

const char *wane__abi_versions(void) {
    return "0.4.0, 0.4.0-dev";
}

/* ---------------------------------------------------------------- functions */

struct name {
    const char *name;
    size_t at; /* in struct wane__abi */
};

#define NAME(name) {#name, offsetof(struct wane__abi, name)},
static const struct name names[] = {WANE__ABI_FUNCTIONS(NAME)};
#undef NAME

static const char *find_all(wane__abi_find find, void *user, struct wane__abi *abi) {
    const char *missing = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *address = find(user, names[i].name);
        /* ISO C has no cast from an object's pointer to a function's. */
        memcpy((char *)abi + names[i].at, &address, sizeof address);
        if (address == NULL && missing == NULL) missing = names[i].name;
    }
    abi->ggml = (struct wane__ggml){.dev_by_type = abi->ggml_backend_dev_by_type,
                                    .dev_reg = abi->ggml_backend_dev_backend_reg,
                                    .reg_function = abi->ggml_backend_reg_get_proc_address,
                                    .type_traits = abi->ggml_get_type_traits,
                                    .type_size = abi->ggml_type_size,
                                    .row_size = abi->ggml_row_size,
                                    .buffer_is_host = abi->ggml_backend_buffer_is_host,
                                    .buffer_name = abi->ggml_backend_buffer_name};
    return missing;
}

/* ------------------------------------------------------------------- checks */

/*
 * Does the library write as many bytes of parameters as ours have? A function that returns a structure writes it to where
 * its caller says: here, in more room than any release needs.
 */
static bool size_fits(const struct wane__abi *abi) {
#if defined(__x86_64__) && defined(__unix__)
    void *(*defaults)(void *where); /* the same call, by the System V ABI */
    memcpy(&defaults, &abi->llama_context_default_params, sizeof defaults);
    size_t most = 0;
    for (int pattern = 0; pattern < 2; pattern++) {
        _Alignas(16) unsigned char room[2048];
        unsigned char fill = pattern == 0 ? 0xa5 : 0x5a;
        memset(room, fill, sizeof room);
        defaults(room);
        for (size_t i = most; i < sizeof room; i++)
            if (room[i] != fill) most = i + 1;
    }
    return most == sizeof(struct llama_context_params); /* it ends with a pointer: nothing is padding */
#else
    (void)abi;
    return true;
#endif
}

/* Values that the headers promise, at our offsets. */
static bool defaults_fit(const struct llama_context_params *p) {
    return p->n_ctx == 512 && p->n_batch == 2048 && p->n_ubatch == 512 && p->n_seq_max == 1 &&
           p->n_outputs_max == 0 && p->n_threads > 0 && p->n_threads <= 1024 &&
           p->n_threads_batch == p->n_threads &&
           p->rope_scaling_type == LLAMA_ROPE_SCALING_TYPE_UNSPECIFIED &&
           p->pooling_type == LLAMA_POOLING_TYPE_UNSPECIFIED &&
           p->attention_type == LLAMA_ATTENTION_TYPE_UNSPECIFIED &&
           p->flash_attn_type == LLAMA_FLASH_ATTN_TYPE_AUTO && p->yarn_ext_factor < 0 &&
           p->defrag_thold < 0 && p->cb_eval == NULL && p->cb_eval_user_data == NULL &&
           p->type_k == GGML_TYPE_F16 && p->type_v == GGML_TYPE_F16 && p->abort_callback == NULL &&
           p->abort_callback_data == NULL && !p->embeddings && p->offload_kqv && p->op_offload &&
           p->swa_full && !p->kv_unified && p->samplers == NULL && p->n_samplers == 0 && p->ctx_other == NULL;
}

/* Tensors that its ggml makes, read as ours. */
static bool tensors_fit(const struct wane__abi *abi, struct ggml_context *scratch) {
    struct ggml_tensor *w = abi->ggml_new_tensor_2d(scratch, GGML_TYPE_F32, 5, 7);
    struct ggml_tensor *x = abi->ggml_new_tensor_2d(scratch, GGML_TYPE_F32, 5, 3);
    if (w == NULL || x == NULL) return false;
    abi->ggml_set_name(w, "wane");
    struct ggml_tensor *product = abi->ggml_mul_mat(scratch, w, x);
    if (product == NULL) return false;
    struct ggml_tensor *scaled = abi->ggml_scale(scratch, product, 0.5f);
    if (scaled == NULL) return false;
    float half;
    memcpy(&half, &scaled->op_params[0], sizeof half);
    return abi->ggml_get_name(w) == w->name && strcmp(w->name, "wane") == 0 &&
           abi->ggml_get_data(w) == w->data && w->type == GGML_TYPE_F32 && w->op == GGML_OP_NONE &&
           w->ne[0] == 5 && w->ne[1] == 7 && w->ne[2] == 1 && w->nb[0] == 4 && w->nb[1] == 20 &&
           w->buffer == NULL && w->extra == NULL && product->op == GGML_OP_MUL_MAT && product->src[0] == w &&
           product->src[1] == x && product->ne[0] == 7 && product->ne[1] == 3 &&
           scaled->op == GGML_OP_SCALE && scaled->src[0] == product && half == 0.5f;
}

/* Types by their numbers: names and sizes of some, old and new. */
static bool types_fit(const struct wane__abi *abi) {
    static const struct {
        enum ggml_type type;
        const char *name;
        size_t size;
    } types[] = {{GGML_TYPE_F32, "f32", 4},    {GGML_TYPE_F16, "f16", 2},     {GGML_TYPE_Q4_0, "q4_0", 18},
                 {GGML_TYPE_Q8_0, "q8_0", 34}, {GGML_TYPE_Q4_K, "q4_K", 144}, {GGML_TYPE_Q6_K, "q6_K", 210},
                 {GGML_TYPE_BF16, "bf16", 2}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const char *name = abi->ggml_type_name(types[i].type);
        if (name == NULL || strcmp(name, types[i].name) != 0) return false;
        if (abi->ggml_type_size(types[i].type) != types[i].size) return false;
    }
    return true;
}

static const char *misfit(const struct wane__abi *abi) {
    if (!size_fits(abi)) return "llama_context_params has another size";
    struct llama_context_params params = abi->llama_context_default_params();
    if (!defaults_fit(&params)) return "llama_context_params has other defaults";
    if (!types_fit(abi)) return "its ggml numbers types in another way";
    struct ggml_context *scratch = abi->ggml_init(
        (struct ggml_init_params){.mem_size = 16 * abi->ggml_tensor_overhead(), .no_alloc = true});
    bool fit = scratch != NULL && tensors_fit(abi, scratch);
    abi->ggml_free(scratch);
    return fit ? NULL : "its ggml lays tensors out in another way";
}

int wane__abi_open(wane__abi_find find, void *user, struct wane__abi *abi, wane_error *error) {
    memset(abi, 0, sizeof *abi);
    const char *missing = find_all(find, user, abi);
    if (abi->llama_version != NULL) snprintf(abi->version, sizeof abi->version, "%s", abi->llama_version());
    bool listed = false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        listed = listed || strcmp(abi->version, known[i]) == 0;
    if (!listed && abi->version[0] != '\0')
        return wane__fail(error, WANE_EUNSUPPORTED, "llama.cpp %s is not a version that wane knows (%s)",
                          abi->version, wane__abi_versions());
    if (!listed)
        return wane__fail(error, WANE_EUNSUPPORTED,
                          "this libllama does not say its version; wane knows llama.cpp %s",
                          wane__abi_versions());
    if (missing != NULL)
        return wane__fail(error, WANE_EUNSUPPORTED,
                          "llama.cpp %s without %s is not what wane knows by that version", abi->version,
                          missing);
    const char *why = misfit(abi);
    if (why == NULL) return WANE_OK;
    return wane__fail(error, WANE_EUNSUPPORTED, "llama.cpp %s is not what wane knows by that version: %s",
                      abi->version, why);
}
