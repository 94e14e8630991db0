/*
 * ggml_head.c - what the model's graph does after `result_norm`, and single rows of the LM head exactly.
 *
 * A decode shows us the graph. The head is plain when `result_output` is nothing but the product of one weight tensor with
 * `result_norm`, multiplied by a positive number at most (Granite and others); a softcap or a bias after it makes it not
 * plain, and then nobody may rescore.
 *
 * Rescoring must give the very float of the dense head. So it runs the very code: the CPU backend's own
 * quantiser for the hidden row and its own dot product, on the rows where they lie. That backend is a
 * plug-in chosen at run time, so its symbols are not there at link time: we find the library that holds
 * one of its functions and ask that library for the table of types.
 *
 * What is refused: weights on another device, or repacked (several rows interleaved for wide kernels). And nothing is
 * believed: the self-check compares rows with dense logits bit for bit.
 */
#include "engine/ggml_head.h"

#include "wane.h"

#include <dlfcn.h>
#include <string.h>

/* ------------------------------------------------------------------ observe */

static const struct ggml_tensor *find_product(const struct ggml_tensor *output) {
    /* From the end of the graph back to the first matrix product; 16 steps are more than any model takes. */
    for (int i = 0; output != NULL && i < 16; i++, output = output->src[0]) {
        if (output->op == GGML_OP_MUL_MAT) return output;
    }
    return NULL;
}

/* A product with a positive number and nothing added to it. */
static bool scale_of(const struct ggml_tensor *node, float *scale) {
    float bias;
    memcpy(scale, &node->op_params[0], sizeof *scale);
    memcpy(&bias, &node->op_params[1], sizeof bias);
    return *scale > 0 && *scale < 1e6f && bias == 0;
}

void wane__ggml_head_observe(struct wane__ggml_head *head, const struct ggml_tensor *node) {
    if (strcmp(node->name, "result_norm") == 0) head->norm = node;
    if (strcmp(node->name, "result_output") != 0) return;
    const struct ggml_tensor *product = find_product(node);
    if (product == NULL) return;
    head->weights = product->src[0];
    head->scale = 1;
    bool scaled = node->op == GGML_OP_SCALE && node->src[0] == product && scale_of(node, &head->scale);
    head->plain = (product == node || scaled) && product->src[1] == head->norm;
}

/* ---------------------------------------------------------------- functions */

typedef const struct ggml_type_traits_cpu *(*traits_fn)(enum ggml_type);

/* The table of types of the CPU backend that was loaded; NULL where it cannot be found. */
static traits_fn find_traits(struct wane__ggml_head *head) {
    const struct wane__ggml *ggml = head->ggml;
    ggml_backend_dev_t cpu = ggml->dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    if (cpu == NULL) return NULL;
    void *known = ggml->reg_function(ggml->dev_reg(cpu), "ggml_backend_set_n_threads");
    Dl_info info;
    if (known == NULL || dladdr(known, &info) == 0 || info.dli_fname == NULL) return NULL;
    head->library = dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY | RTLD_LOCAL);
    void *symbol = head->library != NULL ? dlsym(head->library, "ggml_get_type_traits_cpu") : NULL;
    if (symbol == NULL)
        symbol = dlsym(RTLD_DEFAULT, "ggml_get_type_traits_cpu"); /* linked into the program */
    traits_fn function;
    memcpy(&function, &symbol, sizeof function);
    return function;
}

static bool rows_are_plain(const struct wane__ggml *ggml, const struct ggml_tensor *w) {
    if (w->buffer == NULL || w->data == NULL || !ggml->buffer_is_host(w->buffer)) return false;
    if (strstr(ggml->buffer_name(w->buffer), "REPACK") != NULL || w->extra != NULL) return false;
    return w->nb[0] == ggml->type_size(w->type) && w->nb[1] == ggml->row_size(w->type, w->ne[0]);
}

void wane__ggml_head_open(struct wane__ggml_head *head, int d, int vocab) {
    const struct ggml_tensor *w = head->weights;
    if (w == NULL || !head->plain || !rows_are_plain(head->ggml, w)) return;
    if (w->ne[0] != d || w->ne[1] != vocab) return;
    traits_fn traits = find_traits(head);
    const struct ggml_type_traits_cpu *type = traits != NULL ? traits(w->type) : NULL;
    if (type == NULL || type->vec_dot == NULL) return;
    if (type->vec_dot_type != GGML_TYPE_F32) {
        const struct ggml_type_traits_cpu *row = traits(type->vec_dot_type);
        if (row == NULL || row->from_float == NULL) return;
        head->quantise = row->from_float;
    }
    head->row_type = type->vec_dot_type;
    head->quantised_size = head->ggml->row_size(type->vec_dot_type, w->ne[0]);
    if (head->quantised_size > WANE__GGML_MOST_PREPARED) return;
    head->dot = type->vec_dot;
    head->readable = true;
}

/* ---------------------------------------------------------------- rescoring */

int wane__ggml_head_prepare(const struct wane__ggml_head *head, const float *hidden, void *prepared) {
    if (!head->readable) return WANE_EUNSUPPORTED;
    if (head->quantise != NULL)
        head->quantise(hidden, prepared, head->weights->ne[0]);
    else
        memcpy(prepared, hidden, head->quantised_size);
    return WANE_OK;
}

int wane__ggml_head_seen(const struct wane__ggml_head *head, const void *prepared, float *out) {
    if (!head->readable) return WANE_EUNSUPPORTED;
    int64_t d = head->weights->ne[0];
    const struct ggml_type_traits *type = head->ggml->type_traits(head->row_type);
    if (head->row_type == GGML_TYPE_F32)
        memcpy(out, prepared, (size_t)d * sizeof *out);
    else if (type != NULL && type->to_float != NULL)
        type->to_float(prepared, out, d);
    else
        return WANE_EUNSUPPORTED;
    return WANE_OK;
}

int wane__ggml_head_prepared(const struct wane__ggml_head *head, const void *prepared, const int32_t *ids,
                             int count, float *logits) {
    if (!head->readable) return WANE_EUNSUPPORTED;
    const struct ggml_tensor *w = head->weights;
    int d = (int)w->ne[0];
    for (int i = 0; i < count; i++) {
        if (ids[i] < 0 || ids[i] >= w->ne[1]) return WANE_EINVAL;
        head->dot(d, &logits[i], 0, (const char *)w->data + (size_t)ids[i] * w->nb[1], 0, prepared, 0, 1);
        logits[i] *= head->scale; /* one rounding, as in the graph */
    }
    return WANE_OK;
}

int wane__ggml_head_rescore(const struct wane__ggml_head *head, const float *hidden, const int32_t *ids,
                            int count, float *logits) {
    _Alignas(64) char prepared[WANE__GGML_MOST_PREPARED];
    int rc = wane__ggml_head_prepare(head, hidden, prepared);
    return rc == WANE_OK ? wane__ggml_head_prepared(head, prepared, ids, count, logits) : rc;
}

int wane__ggml_head_rows(const struct wane__ggml_head *head, int first, int count, float *out) {
    if (!head->readable) return WANE_EUNSUPPORTED;
    const struct ggml_tensor *w = head->weights;
    const struct ggml_type_traits *type = head->ggml->type_traits(w->type);
    if (type == NULL || (type->to_float == NULL && w->type != GGML_TYPE_F32)) return WANE_EUNSUPPORTED;
    if (first < 0 || count < 0 || count > w->ne[1] - first) return WANE_EINVAL;
    for (int i = 0; i < count; i++, out += w->ne[0]) {
        const void *row = (const char *)w->data + (size_t)(first + i) * w->nb[1];
        if (w->type == GGML_TYPE_F32)
            memcpy(out, row, (size_t)w->ne[0] * sizeof *out);
        else
            type->to_float(row, out, w->ne[0]);
        for (int64_t j = 0; head->scale != 1 && j < w->ne[0]; j++) out[j] *= head->scale;
    }
    return WANE_OK;
}

/* ---------------------------------------------------------------- self-check */

#define CHECKED_WEIGHTS (256L << 20)

bool wane__ggml_head_equal(const struct wane__ggml_head *head, const float *hidden, const float *dense) {
    _Alignas(64) char prepared[WANE__GGML_MOST_PREPARED];
    if (wane__ggml_head_prepare(head, hidden, prepared) != WANE_OK) return false;
    int64_t vocab = head->weights->ne[1], rows = CHECKED_WEIGHTS / head->weights->ne[0];
    if (rows < 2048) rows = 2048;
    int64_t step = vocab > rows ? vocab / rows : 1;
    for (int64_t i = 0; i < vocab; i += step) {
        int32_t id = (int32_t)i;
        float exact;
        uint32_t exact_bits, dense_bits; /* bit for bit: 0 and -0 are two results, NaN equals itself */
        if (wane__ggml_head_prepared(head, prepared, &id, 1, &exact) != WANE_OK) return false;
        memcpy(&exact_bits, &exact, sizeof exact_bits);
        memcpy(&dense_bits, &dense[i], sizeof dense_bits);
        if (exact_bits != dense_bits) return false;
    }
    return true;
}

void wane__ggml_head_close(struct wane__ggml_head *head) {
    if (head->library != NULL) dlclose(head->library);
    *head = (struct wane__ggml_head){.ggml = head->ggml};
}
