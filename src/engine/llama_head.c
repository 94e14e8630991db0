/*
 * llama_head.c - what the model's graph does after `result_norm`, and single rows of the LM head exactly.
 *
 * A warm-up decode at load shows us the graph. The head is plain when `result_output` is nothing but the
 * product of one weight tensor with `result_norm`, multiplied by a positive number at most (Granite and others); a softcap
 * or a bias after it makes it not plain, and then nobody may rescore.
 *
 * Rescoring must give the very float of the dense head. So it runs the very code: the CPU backend's own
 * quantiser for the hidden row and its own dot product, on the rows where they lie. That backend is a
 * plug-in chosen at run time, so its symbols are not there at link time: we find the library that holds
 * one of its functions and ask that library for the table of types.
 *
 * What is refused: weights on another device, or repacked (several rows interleaved for wide kernels). And
 * nothing is believed: the self-check compares rows with dense logits bit for bit, once for a batch of one
 * and once for a batch of four, for which the engine may use another kernel.
 */
#include "engine/llama_internal.h"

#include <dlfcn.h>
#include <stdint.h>
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

void wane__llama_head_observe(struct wane__llama_head *head, const struct ggml_tensor *node) {
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

/*
 * Bytes of a hidden row in the form that the head's product takes: it lies on the stack of whoever rescores. Enough for
 * 8,192 floats, or 30,000 weights of 8 bits; a wider head is not rescored.
 */
#define MOST_PREPARED 32768

typedef const struct ggml_type_traits_cpu *(*traits_fn)(enum ggml_type);

/* The table of types of the CPU backend that was loaded; NULL where it cannot be found. */
static traits_fn find_traits(struct wane__llama_head *head) {
    ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    if (cpu == NULL) return NULL;
    void *known =
        ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(cpu), "ggml_backend_set_n_threads");
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

static bool rows_are_plain(const struct ggml_tensor *w) {
    if (w->buffer == NULL || w->data == NULL || !ggml_backend_buffer_is_host(w->buffer)) return false;
    if (strstr(ggml_backend_buffer_name(w->buffer), "REPACK") != NULL || w->extra != NULL) return false;
    return w->nb[0] == ggml_type_size(w->type) && w->nb[1] == ggml_row_size(w->type, w->ne[0]);
}

static void open_functions(struct wane__llama *e) {
    struct wane__llama_head *head = &e->head;
    const struct ggml_tensor *w = head->weights;
    if (w == NULL || !head->plain || !rows_are_plain(w)) return;
    if (w->ne[0] != e->base.facts.embedding_size || w->ne[1] != e->base.facts.vocab_size) return;
    traits_fn traits = find_traits(head);
    const struct ggml_type_traits_cpu *type = traits != NULL ? traits(w->type) : NULL;
    if (type == NULL || type->vec_dot == NULL) return;
    if (type->vec_dot_type != GGML_TYPE_F32) {
        const struct ggml_type_traits_cpu *row = traits(type->vec_dot_type);
        if (row == NULL || row->from_float == NULL) return;
        head->quantise = row->from_float;
    }
    head->row_type = type->vec_dot_type;
    head->quantised_size = ggml_row_size(type->vec_dot_type, w->ne[0]);
    if (head->quantised_size > MOST_PREPARED) return;
    head->dot = type->vec_dot;
    head->readable = true;
}

/* ---------------------------------------------------------------- rescoring */

size_t wane__llama_rescore_size(struct wane__engine *engine) {
    const struct wane__llama_head *head = &wane__llama_of(engine)->head;
    return head->readable ? head->quantised_size : 0;
}

int wane__llama_rescore_prepare(struct wane__engine *engine, const float *hidden, void *prepared) {
    const struct wane__llama_head *head = &wane__llama_of(engine)->head;
    if (!head->readable) return WANE_EUNSUPPORTED;
    if (head->quantise != NULL)
        head->quantise(hidden, prepared, head->weights->ne[0]);
    else
        memcpy(prepared, hidden, head->quantised_size);
    return WANE_OK;
}

int wane__llama_rescore_seen(struct wane__engine *engine, const void *prepared, float *out) {
    const struct wane__llama_head *head = &wane__llama_of(engine)->head;
    if (!head->readable) return WANE_EUNSUPPORTED;
    int64_t d = head->weights->ne[0];
    const struct ggml_type_traits *type = ggml_get_type_traits(head->row_type);
    if (head->row_type == GGML_TYPE_F32)
        memcpy(out, prepared, (size_t)d * sizeof *out);
    else if (type != NULL && type->to_float != NULL)
        type->to_float(prepared, out, d);
    else
        return WANE_EUNSUPPORTED;
    return WANE_OK;
}

int wane__llama_rescore_prepared(struct wane__engine *engine, const void *prepared, const int32_t *ids,
                                 int count, float *logits) {
    const struct wane__llama_head *head = &wane__llama_of(engine)->head;
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

int wane__llama_rescore(struct wane__engine *engine, const float *hidden, const int32_t *ids, int count,
                        float *logits) {
    _Alignas(64) char prepared[MOST_PREPARED];
    int rc = wane__llama_rescore_prepare(engine, hidden, prepared);
    return rc == WANE_OK ? wane__llama_rescore_prepared(engine, prepared, ids, count, logits) : rc;
}

int wane__llama_head_rows(struct wane__engine *engine, int first, int count, float *out) {
    const struct wane__llama_head *head = &wane__llama_of(engine)->head;
    if (!head->readable) return WANE_EUNSUPPORTED;
    const struct ggml_tensor *w = head->weights;
    const struct ggml_type_traits *type = ggml_get_type_traits(w->type);
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

/* ------------------------------------------------------------------ warm-up */

/* Rows that the self-check compares: all of a small head, a spread over a large one (about 0.1 s of work). */
#define CHECKED_WEIGHTS (256L << 20)

static bool rows_equal(struct wane__llama *e, int row) {
    const float *hidden = wane__llama_hidden(&e->base, row);
    const float *dense = wane__llama_logits(&e->base, row);
    if (hidden == NULL || dense == NULL) return false;
    int64_t vocab = e->base.facts.vocab_size, d = e->base.facts.embedding_size;
    int64_t rows = CHECKED_WEIGHTS / d;
    if (rows < 2048) rows = 2048;
    int64_t step = vocab > rows ? vocab / rows : 1;
    _Alignas(64) char prepared[MOST_PREPARED];
    if (wane__llama_rescore_prepare(&e->base, hidden, prepared) != WANE_OK) return false;
    for (int64_t i = 0; i < vocab; i += step) {
        int32_t id = (int32_t)i;
        float exact;
        uint32_t exact_bits, dense_bits; /* bit for bit: 0 and -0 are two results, NaN equals itself */
        if (wane__llama_rescore_prepared(&e->base, prepared, &id, 1, &exact) != WANE_OK) return false;
        memcpy(&exact_bits, &exact, sizeof exact_bits);
        memcpy(&dense_bits, &dense[i], sizeof dense_bits);
        if (exact_bits != dense_bits) return false;
    }
    return true;
}

static int warm_decode(struct wane__llama *e, int count, wane_error *error) {
    struct wane__item items[4];
    int32_t first = e->base.facts.bos >= 0 ? e->base.facts.bos : 0;
    for (int i = 0; i < count; i++) {
        int32_t token = i == 0 ? first : (first + 97 * i) % e->base.facts.vocab_size;
        items[i] = (struct wane__item){.token = token, .pos = i, .seq = 0, .wanted = true};
    }
    wane__llama_truncate(&e->base, 0, 0);
    wane__llama_probe_observe_graph(e);
    return wane__llama_decode(&e->base, items, count, error);
}

static void fill_facts(struct wane__llama *e) {
    const struct ggml_tensor *w = e->head.weights;
    wane_model_facts *f = &e->base.facts;
    f->head_plain = e->head.plain;
    if (w == NULL) return;
    f->head_tensor = ggml_get_name(w);
    f->head_type = ggml_type_name(w->type);
    f->head_buffer = w->buffer != NULL ? ggml_backend_buffer_name(w->buffer) : "";
    f->head_tied = strcmp(f->head_tensor, "token_embd.weight") == 0;
}

static int check_head(struct wane__llama *e, wane_error *error) {
    struct wane__llama_head *head = &e->head;
    int rc = warm_decode(e, 1, error);
    if (rc != WANE_OK) return rc;
    if (head->norm == NULL || !e->rows[0].has_hidden) e->hook_possible = false;
    fill_facts(e);
    open_functions(e);
    if (!head->readable) return WANE_OK;
    head->exact_one = rows_equal(e, 0);
    e->base.facts.rescoring_exact = head->exact_one;
    rc = warm_decode(e, 4, error);
    if (rc != WANE_OK) return rc;
    head->exact_many = true;
    for (int i = 0; i < 4; i++) head->exact_many = head->exact_many && rows_equal(e, i);
    e->base.facts.rescoring_exact_batch = head->exact_one && head->exact_many;
    return WANE_OK;
}

int wane__llama_head_open(struct wane__llama *e, wane_error *error) {
    e->observing = true;
    int rc = check_head(e, error);
    e->observing = false;
    e->head.norm = NULL; /* belongs to a graph that is gone */
    e->row_count = 0;
    llama_memory_clear(llama_get_memory(e->context), true);
    memset(e->length, 0, sizeof e->length);
    if (rc != WANE_OK) return rc;
    wane__log(e->base.log, WANE_LOG_DEBUG, "head %s (%s in %s): %s; rescoring %s for 1 row, %s for 4",
              e->base.facts.head_tensor, e->base.facts.head_type, e->base.facts.head_buffer,
              e->head.plain ? "plain" : "not plain",
              !e->head.readable   ? "not possible"
              : e->head.exact_one ? "exact"
                                  : "NOT exact",
              !e->head.readable    ? "not possible"
              : e->head.exact_many ? "exact"
                                   : "not exact");
    return WANE_OK;
}

void wane__llama_head_close(struct wane__llama_head *head) {
    if (head->library != NULL) dlclose(head->library);
    *head = (struct wane__llama_head){0};
}
