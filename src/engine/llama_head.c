/*
 * llama_head.c - the model's LM head at load: a warm-up decode shows the graph, the self-check compares.
 *
 * Rows are compared with dense logits once for a batch of one and once for a batch of four, for which the engine may
 * use another kernel. What is known of the head is ggml_head.c's business.
 */
#include "engine/llama_internal.h"

#include <string.h>

/* The ggml that wane itself is linked to. */
static const struct wane__ggml linked = {
    .dev_by_type = ggml_backend_dev_by_type,
    .dev_reg = ggml_backend_dev_backend_reg,
    .reg_function = ggml_backend_reg_get_proc_address,
    .type_traits = ggml_get_type_traits,
    .type_size = ggml_type_size,
    .row_size = ggml_row_size,
    .buffer_is_host = ggml_backend_buffer_is_host,
    .buffer_name = ggml_backend_buffer_name,
};

/* ---------------------------------------------------------------- rescoring */

static const struct wane__ggml_head *head_of(struct wane__engine *engine) {
    return &wane__llama_of(engine)->head;
}

size_t wane__llama_rescore_size(struct wane__engine *engine) {
    const struct wane__ggml_head *head = head_of(engine);
    return head->readable ? head->quantised_size : 0;
}

int wane__llama_rescore_prepare(struct wane__engine *engine, const float *hidden, void *prepared) {
    return wane__ggml_head_prepare(head_of(engine), hidden, prepared);
}

int wane__llama_rescore_seen(struct wane__engine *engine, const void *prepared, float *out) {
    return wane__ggml_head_seen(head_of(engine), prepared, out);
}

int wane__llama_rescore_prepared(struct wane__engine *engine, const void *prepared, const int32_t *ids,
                                 int count, float *logits) {
    return wane__ggml_head_prepared(head_of(engine), prepared, ids, count, logits);
}

int wane__llama_rescore(struct wane__engine *engine, const float *hidden, const int32_t *ids, int count,
                        float *logits) {
    return wane__ggml_head_rescore(head_of(engine), hidden, ids, count, logits);
}

int wane__llama_head_rows(struct wane__engine *engine, int first, int count, float *out) {
    return wane__ggml_head_rows(head_of(engine), first, count, out);
}

/* ------------------------------------------------------------------ warm-up */

static bool rows_equal(struct wane__llama *e, int row) {
    const float *hidden = wane__llama_hidden(&e->base, row);
    const float *dense = wane__llama_logits(&e->base, row);
    return hidden != NULL && dense != NULL && wane__ggml_head_equal(&e->head, hidden, dense);
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
    struct wane__ggml_head *head = &e->head;
    int rc = warm_decode(e, 1, error);
    if (rc != WANE_OK) return rc;
    if (head->norm == NULL || !e->rows[0].has_hidden) e->hook_possible = false;
    fill_facts(e);
    wane__ggml_head_open(head, e->base.facts.embedding_size, e->base.facts.vocab_size);
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
    e->head.ggml = &linked;
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
