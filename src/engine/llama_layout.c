/*
 * llama_layout.c - where the engine would keep the LM head and the blocks' weights, asked before they are loaded.
 *
 * The certified head reads single rows of the head's weights where they lie. For some types (Q4_0, Q4_K, IQ4_NL, …) the
 * CPU backend has kernels that want several rows interleaved, and libllama then moves the weights into a buffer of
 * that kind, in which rows cannot be read. Here stands the question, the same that libllama asks, and the override that
 * keeps the head, and nothing else, as it is in the file. Refuses to guess: where the file or the device does not
 * answer, the engine does as it likes.
 */
#include "engine/llama_internal.h"

#include "core/memory.h"

#include <string.h>

/*
 * Above this share of the blocks' bytes the engine's own order is kept: below it, single tokens lose nothing without it,
 * and a block of several tokens then gives the bits of single ones (docs/draft.md).
 */
#define REPACK_PAYS 0.4

/* Would the CPU backend take a product with these weights out of a buffer of this kind? */
static bool takes_from(ggml_backend_dev_t cpu, ggml_backend_buffer_type_t kind, struct ggml_context *scratch,
                       const struct ggml_tensor *weights) {
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(kind, 0);
    if (buffer == NULL) return false;
    struct ggml_tensor *w = ggml_new_tensor_2d(scratch, weights->type, weights->ne[0], weights->ne[1]);
    struct ggml_tensor *x = ggml_new_tensor_2d(scratch, GGML_TYPE_F32, weights->ne[0], 512);
    w->buffer = buffer;
    bool takes = ggml_backend_dev_supports_op(cpu, ggml_mul_mat(scratch, w, x));
    ggml_backend_buffer_free(buffer);
    return takes;
}

static bool would_move(ggml_backend_dev_t cpu, const struct ggml_tensor *weights) {
    ggml_backend_dev_get_extra_bufts_t list_of;
    void *symbol = ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(cpu),
                                                     "ggml_backend_dev_get_extra_bufts");
    if (symbol == NULL) return false;
    memcpy(&list_of, &symbol, sizeof list_of);
    ggml_backend_buffer_type_t *kind = list_of(cpu);
    struct ggml_context *scratch =
        ggml_init((struct ggml_init_params){.mem_size = 64 * ggml_tensor_overhead(), .no_alloc = true});
    bool moves = false;
    for (int i = 0; scratch != NULL && kind != NULL && kind[i] != NULL && !moves && i < 16; i++)
        moves = takes_from(cpu, kind[i], scratch, weights);
    ggml_free(scratch);
    return moves;
}

/*
 * Host memory that is not the device's own kind: for that one libllama would look for a better layout again. Only its
 * type is wanted, and types live as long as the process.
 */
static ggml_backend_buffer_type_t plain_kind(void) {
    static const size_t page = 4096;
    void *memory = wane__alloc_aligned(page, page);
    ggml_backend_buffer_t buffer = memory != NULL ? ggml_backend_cpu_buffer_from_ptr(memory, page) : NULL;
    ggml_backend_buffer_type_t kind = buffer != NULL ? ggml_backend_buffer_get_type(buffer) : NULL;
    ggml_backend_buffer_free(buffer);
    wane__free(memory);
    return kind;
}

/* Do so many of the blocks' bytes lie in tensors that would move that it pays? */
static bool repack_pays(ggml_backend_dev_t cpu, struct ggml_context *tensors) {
    bool known[GGML_TYPE_COUNT] = {false}, moves[GGML_TYPE_COUNT] = {false};
    double moved = 0, all = 0;
    for (struct ggml_tensor *t = ggml_get_first_tensor(tensors); t != NULL;
         t = ggml_get_next_tensor(tensors, t)) {
        /* Embeddings are read row by row, whatever their type. */
        if (strncmp(t->name, "blk.", 4) != 0 || ggml_n_dims(t) != 2) continue;
        if (!known[t->type]) moves[t->type] = would_move(cpu, t);
        known[t->type] = true;
        all += (double)ggml_nbytes(t);
        if (moves[t->type]) moved += (double)ggml_nbytes(t);
    }
    return moved > REPACK_PAYS * all;
}

static bool head_moves(ggml_backend_dev_t cpu, struct ggml_context *tensors) {
    const struct ggml_tensor *weights = ggml_get_tensor(tensors, "output.weight");
    if (weights == NULL) weights = ggml_get_tensor(tensors, "token_embd.weight");
    return weights != NULL && would_move(cpu, weights);
}

/* A head that is wanted certified, in host memory. */
static bool head_is_ours(const wane_model_options *o) {
    bool gpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_GPU) != NULL ||
               ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_IGPU) != NULL;
    return o->head != WANE_HEAD_DENSE && !(gpu && o->gpu_layers != 0);
}

void wane__llama_layout(const wane_model_options *o, struct llama_model_params *params,
                        struct llama_model_tensor_buft_override *override) {
    ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    struct ggml_context *tensors = NULL;
    char why[64];
    params->use_extra_bufts =
        o->repack != 0; /* also where the file does not answer: the loader will say why */
    if (cpu == NULL || o->vocab_only || o->repack == 0) return;
    struct gguf_context *file =
        wane__guard_file(o->path, (struct gguf_init_params){.no_alloc = true, .ctx = &tensors}, why,
                         sizeof why);
    if (file == NULL) return;
    if (o->repack < 0) params->use_extra_bufts = repack_pays(cpu, tensors);
    bool keep = params->use_extra_bufts && head_is_ours(o) && head_moves(cpu, tensors);
    ggml_free(tensors);
    gguf_free(file);
    override->buft = keep ? plain_kind() : NULL;
    if (override->buft == NULL) return;
    override->pattern = "^(output|token_embd)\\.weight$";
    params->tensor_buft_overrides = override;
}
