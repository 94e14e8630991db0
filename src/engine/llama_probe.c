/*
 * llama_probe.c - the rows of Q and K, and block outputs, of chosen layers, shown while the graph runs.
 *
 * Several nodes are named Qcur-N: product, bias, reshape, RoPE. The last one of a graph is what attention multiplies, but for
 * factors that are the same for a whole head; how many there are is what the warm-up's graph says.
 *
 *     … l_out-(N-1) … Qcur-N … Vcur-N … Kcur-N │ attention-N … l_out-N │ …
 *            │           │                     stop                    stop, where it is asked for and layer N+1 is not probed
 *            └───────────┴── still there when the graph stops at K
 *
 * A stop costs: the engine's threads end one graph and begin another. So there is one for a layer, at the later of Q and K, and what
 * else is wanted is read there too. That it is still intact is proven for each graph: between the moment a wanted node is seen
 * and the stop, no node may write where it lies. One that is multiplied by a positive number in place stays as good as it was, for
 * all that is made of these rows is cosines. Where the proof fails nothing is shown for that decode, and from then on the graph stops there too.
 *
 * Which layers have a sliding window the engine does not say; its masks do. A mask is looked at in the first decode in which
 * it makes a difference, and then never again.
 *
 * Refuses recurrent models, layers without keys of their own, chunked attention.
 */
#include "engine/llama_internal.h"

#include "core/error.h"
#include "core/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --------------------------------------------------------------------- names */

enum kind { OTHER, QUERY, KEY, BLOCK };

/* "Kcur-12": KEY, *layer 12. */
static enum kind kind_of(const struct wane__llama *e, const char *name, int *layer) {
    enum kind kind = OTHER;
    const char *number = name + 5;
    if (name[0] == 'Q' && strncmp(name, "Qcur-", 5) == 0) kind = QUERY;
    if (name[0] == 'K' && strncmp(name, "Kcur-", 5) == 0) kind = KEY;
    if (name[0] == 'l' && strncmp(name, "l_out-", 6) == 0) {
        kind = BLOCK;
        number++;
    }
    if (kind == OTHER || *number < '0' || *number > '9') return OTHER;
    char *end;
    long n = strtol(number, &end, 10);
    if (*end != '\0' || n >= e->base.facts.layers) return OTHER;
    *layer = (int)n;
    return kind;
}

/* ------------------------------------------------------------------- observe */

int wane__llama_probe_open(struct wane__llama *e, wane_error *error) {
    int window = llama_model_n_swa(e->model);
    if (e->base.facts.recurrent || e->base.facts.layers < 1) return WANE_OK;
    e->probe.layer = wane__alloc_zero((size_t)e->base.facts.layers, sizeof *e->probe.layer);
    if (e->probe.layer == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for an engine.");
    for (int i = 0; i < e->base.facts.layers; i++) e->probe.layer[i].window = window > 0 ? -window : 0;
    return WANE_OK;
}

void wane__llama_probe_close(struct wane__llama *e) {
    wane__free(e->probe.layer);
    for (int i = 0; i < 2; i++) wane__free(e->probe.scratch[i]);
    e->probe = (struct wane__llama_probe){0};
}

void wane__llama_probe_observe_graph(struct wane__llama *e) {
    e->probe.nodes = 0;
    for (int i = 0; e->probe.layer != NULL && i < e->base.facts.layers; i++)
        e->probe.layer[i] = (struct wane__llama_layer){.window = e->probe.layer[i].window};
}

/* Floats, and the heads of an item one behind the other. */
static bool heads_fine(const struct ggml_tensor *t) {
    size_t item = (size_t)t->ne[0] * (size_t)t->ne[1] * sizeof(float);
    return t->type == GGML_TYPE_F32 && t->ne[3] == 1 && t->nb[0] == sizeof(float) &&
           t->nb[1] == (size_t)t->ne[0] * sizeof(float) && t->nb[2] >= item && t->nb[2] % sizeof(float) == 0;
}

void wane__llama_probe_observe(struct wane__llama *e, const struct ggml_tensor *node) {
    int number;
    int at = e->probe.nodes++;
    if (e->probe.layer == NULL) return;
    enum kind kind = kind_of(e, node->name, &number);
    if (kind == OTHER) return;
    struct wane__llama_layer *l = &e->probe.layer[number];
    if (kind == QUERY) {
        l->q_nodes++;
        l->q_at = at;
        l->size = (int)node->ne[0];
        l->heads = (int)node->ne[1];
        l->q_fine = heads_fine(node);
    } else if (kind == KEY) {
        l->k_nodes++;
        l->k_at = at;
        l->key_size = (int)node->ne[0];
        l->key_heads = (int)node->ne[1];
        l->k_fine = heads_fine(node);
    } else {
        l->out_nodes++;
    }
}

static const char *reason_of(const struct wane__llama *e, int layer) {
    if (e->base.facts.recurrent)
        return "the model keeps a recurrent state: it has no key for each token that attention could look at";
    if (e->probe.layer == NULL) return "only the tokenizer of this model was loaded";
    const struct wane__llama_layer *l = &e->probe.layer[layer];
    if (strcmp(e->base.facts.architecture, "llama4") == 0 || l->odd)
        return "its attention sees neither all tokens nor a sliding window of them";
    if (l->q_nodes == 0) return "the engine's graph shows no queries (Qcur) for it";
    if (l->k_nodes == 0) return "the engine's graph shows no keys (Kcur) for it: it may use another layer's";
    /* A row that is not cut into heads would pass for one head. */
    bool cut = l->heads > 1 || llama_model_n_head(e->model) == 1;
    if (!l->q_fine || !l->k_fine || !cut || l->size != l->key_size || l->size < 1 || l->key_heads < 1 ||
        l->heads % l->key_heads != 0)
        return "its queries and keys have forms that do not fit each other";
    return NULL;
}

void wane__llama_layer_facts(struct wane__engine *engine, int layer, struct wane__layer_facts *facts) {
    struct wane__llama *e = wane__llama_of(engine);
    *facts = (struct wane__layer_facts){.reason = reason_of(e, layer)};
    if (facts->reason != NULL) return;
    const struct wane__llama_layer *l = &e->probe.layer[layer];
    facts->heads = l->heads;
    facts->key_heads = l->key_heads;
    facts->size = l->size;
    facts->window = l->window;
}

/* ----------------------------------------------------------------------- set */

static void switch_off(struct wane__llama *e) {
    e->probe.on = false;
    for (int i = 0; e->probe.layer != NULL && i < e->base.facts.layers; i++)
        e->probe.layer[i].probed = e->probe.layer[i].block_probed = false;
}

static int check_set(struct wane__llama *e, const struct wane__probe *probe, wane_error *error) {
    int layers = e->base.facts.layers;
    if (probe->layer_count < 1 || probe->layer_count > WANE__PROBE_LAYERS || probe->block_count < 0 ||
        probe->block_count > WANE__PROBE_BLOCKS)
        return wane__fail(error, WANE_EINVAL, "A probe looks at 1 to %d layers, not %d.", WANE__PROBE_LAYERS,
                          probe->layer_count);
    for (int i = 0; i < probe->layer_count; i++) {
        int layer = probe->layer[i];
        if (layer < 0 || layer >= layers)
            return wane__fail(error, WANE_EINVAL, "There is no layer %d; the model has 0 to %d.", layer,
                              layers - 1);
        const char *reason = reason_of(e, layer);
        if (reason != NULL)
            return wane__fail(error, WANE_EUNSUPPORTED, "Layer %d cannot be probed: %s.", layer, reason);
    }
    for (int i = 0; i < probe->block_count; i++) {
        int block = probe->block[i];
        if (block < 0 || block >= layers || e->probe.layer[block].out_nodes == 0)
            return wane__fail(error, WANE_EUNSUPPORTED,
                              "The engine's graph shows no output (l_out) of block %d.", block);
    }
    return WANE_OK;
}

/* Room for `floats` in one of the two. */
static int reserve(struct wane__llama *e, int which, size_t floats, wane_error *error) {
    struct wane__llama_probe *p = &e->probe;
    if (p->scratch_size[which] >= floats) return WANE_OK;
    wane__free(p->scratch[which]);
    p->scratch[which] = wane__alloc(floats * sizeof(float));
    p->scratch_size[which] = p->scratch[which] != NULL ? floats : 0;
    return p->scratch[which] != NULL ? WANE_OK
                                     : wane__fail(error, WANE_ENOMEM, "No memory for a probe's rows.");
}

int wane__llama_set_probe(struct wane__engine *engine, const struct wane__probe *probe, wane_error *error) {
    struct wane__llama *e = wane__llama_of(engine);
    struct wane__llama_probe *p = &e->probe;
    size_t batch = (size_t)e->base.batch, d = (size_t)e->base.facts.embedding_size;
    if (probe == NULL) {
        switch_off(e);
        return WANE_OK;
    }
    int rc = check_set(e, probe, error);
    for (int i = 0; i < probe->layer_count && rc == WANE_OK; i++) {
        const struct wane__llama_layer *l = &p->layer[probe->layer[i]];
        rc = reserve(e, 0, batch * (size_t)l->heads * (size_t)l->size, error);
        if (rc == WANE_OK) rc = reserve(e, 1, batch * (size_t)l->key_heads * (size_t)l->size, error);
    }
    if (rc == WANE_OK && probe->block_count > 0) rc = reserve(e, 1, batch * d, error);
    if (rc != WANE_OK) return rc;
    switch_off(e);
    for (int i = 0; i < probe->layer_count; i++) p->layer[probe->layer[i]].probed = true;
    for (int i = 0; i < probe->block_count; i++) {
        int block = probe->block[i];
        p->layer[block].block_probed = true;
        p->layer[block].block_stop = block + 1 >= e->base.facts.layers || !p->layer[block + 1].probed;
    }
    p->set = *probe;
    p->on = true;
    wane__llama_probe_begin(e, NULL, 0);
    return WANE_OK;
}

/* ----------------------------------------------------------------------- ask */

void wane__llama_probe_begin(struct wane__llama *e, const struct wane__item *items, int count) {
    struct wane__llama_probe *p = &e->probe;
    p->items = items;
    p->item_count = count;
    p->graph_items = p->open_count = 0;
    p->window_layer = -1;
    for (int i = 0; i < e->base.facts.layers; i++) {
        struct wane__llama_layer *l = &p->layer[i];
        l->q_seen = l->k_seen = l->out_seen = l->items = l->block_items = l->block_rows = 0;
        l->q = l->k = l->out = (struct wane__llama_want){0};
    }
    if (count > 0) p->set.calls->begin(p->set.user, items, count);
}

static bool writes(const struct ggml_tensor *node) {
    return node->op != GGML_OP_NONE && node->op != GGML_OP_RESHAPE && node->op != GGML_OP_VIEW &&
           node->op != GGML_OP_PERMUTE && node->op != GGML_OP_TRANSPOSE;
}

static ggml_backend_buffer_t buffer_of(const struct ggml_tensor *t) {
    return t->view_src != NULL ? t->view_src->buffer : t->buffer;
}

static bool overlap(const struct ggml_tensor *a, const struct ggml_tensor *b) {
    const char *at_a = a->data, *at_b = b->data;
    return buffer_of(a) == buffer_of(b) && at_a < at_b + ggml_nbytes(b) && at_b < at_a + ggml_nbytes(a);
}

/* In place, by a positive number, and nothing added. */
static bool only_scales(const struct ggml_tensor *node, const struct ggml_tensor *t) {
    float factor, bias;
    if (node->op != GGML_OP_SCALE || node->src[0] != t || node->data != t->data) return false;
    memcpy(&factor, &node->op_params[0], sizeof factor);
    memcpy(&bias, &node->op_params[1], sizeof bias);
    return factor > 0 && isfinite(factor) && bias == 0;
}

static void look_for_spoilt(struct wane__llama_probe *p, const struct ggml_tensor *node) {
    if (!writes(node)) return;
    for (int i = 0; i < p->open_count; i++) {
        struct wane__llama_want *w = p->open[i];
        if (overlap(w->tensor, node) && !only_scales(node, w->tensor)) w->spoiled = true;
    }
}

/* False: there is no room to watch it, so stop here. */
static bool open_want(struct wane__llama_probe *p, struct wane__llama_want *want,
                      const struct ggml_tensor *node) {
    *want = (struct wane__llama_want){.tensor = node};
    if (p->open_count == WANE__LLAMA_OPEN_MOST) return false;
    p->open[p->open_count++] = want;
    return true;
}

/* If there is an item of this graph for which the window makes a difference, the mask's row for it is to be looked at. */
static void ask_for_window(struct wane__llama_probe *p, int number) {
    const struct wane__llama_layer *l = &p->layer[number];
    if (l->window >= 0 || l->odd) return;
    for (int i = 0; i < p->graph_items && l->items + i < p->item_count; i++) {
        if (p->items[l->items + i].pos < -l->window) continue;
        p->window_layer = number;
        p->window_row = i;
        p->window_pos = p->items[l->items + i].pos;
        return;
    }
}

/* The number of cells that one row of a mask lets through. */
static int64_t visible(const struct ggml_tensor *mask, int row) {
    int64_t count = 0;
    uint32_t bits[256];
    size_t size = ggml_type_size(mask->type), at = (size_t)row * mask->nb[1];
    for (int64_t done = 0; done < mask->ne[0];) {
        int64_t some = mask->ne[0] - done;
        if (some > (int64_t)(sizeof bits / size)) some = (int64_t)(sizeof bits / size);
        ggml_backend_tensor_get(mask, bits, at + (size_t)done * size, (size_t)some * size);
        for (int64_t i = 0; i < some; i++) {
            uint16_t half;
            memcpy(&half, (const char *)bits + (size_t)i * size, sizeof half);
            count += size == 4 ? bits[i] != 0xff800000u : half != 0xfc00u; /* minus infinity */
        }
        done += some;
    }
    return count;
}

/* The attention of the layer whose window is not known: its mask knows. */
static void look_at_mask(struct wane__llama *e, const struct ggml_tensor *node) {
    struct wane__llama_probe *p = &e->probe;
    struct wane__llama_layer *l = &p->layer[p->window_layer];
    const struct ggml_tensor *mask = node->op == GGML_OP_FLASH_ATTN_EXT ? node->src[3] : node->src[1];
    int layer = p->window_layer;
    p->window_layer = -1;
    if (mask == NULL || p->window_row >= mask->ne[1] || mask->ne[2] != 1 || mask->ne[3] != 1 ||
        mask->nb[0] != ggml_type_size(mask->type) ||
        (mask->type != GGML_TYPE_F16 && mask->type != GGML_TYPE_F32))
        return;
    int64_t seen = visible(mask, p->window_row);
    if (seen == p->window_pos + 1)
        l->window = 0;
    else if (seen == -l->window)
        l->window = -l->window;
    else
        l->odd = true;
    wane__log(e->base.log, WANE_LOG_DEBUG, "probe: a query of layer %d looks at %lld keys: %s", layer,
              (long long)seen,
              l->odd          ? "neither all nor a window"
              : l->window > 0 ? "a window"
                              : "all");
}

static bool ask_attention(struct wane__llama_probe *p, int number, enum kind kind,
                          const struct ggml_tensor *node) {
    struct wane__llama_layer *l = &p->layer[number];
    bool query = kind == QUERY, later = query == (l->q_at > l->k_at);
    int seen = query ? ++l->q_seen : ++l->k_seen;
    if (seen % (query ? l->q_nodes : l->k_nodes) != 0) return false;
    if (!heads_fine(node) || node->ne[0] != l->size || node->ne[1] != (query ? l->heads : l->key_heads))
        return false;
    p->graph_items = (int)node->ne[2];
    bool room = open_want(p, query ? &l->q : &l->k, node);
    if (later) ask_for_window(p, number);
    return later || l->stop_first || !room;
}

static bool ask_block(struct wane__llama_probe *p, struct wane__llama_layer *l,
                      const struct ggml_tensor *node) {
    if (++l->out_seen % l->out_nodes != 0) return false;
    return !open_want(p, &l->out, node) || l->block_stop;
}

bool wane__llama_probe_ask(struct wane__llama *e, const struct ggml_tensor *node) {
    struct wane__llama_probe *p = &e->probe;
    int number;
    if (p->open_count > 0) look_for_spoilt(p, node);
    if (p->window_layer >= 0 && (node->op == GGML_OP_FLASH_ATTN_EXT || node->op == GGML_OP_SOFT_MAX))
        look_at_mask(e, node);
    enum kind kind = kind_of(e, node->name, &number);
    if (kind == OTHER) return false;
    struct wane__llama_layer *l = &p->layer[number];
    if (kind == BLOCK) return l->block_probed && ask_block(p, l, node);
    return l->probed && ask_attention(p, number, kind, node);
}

/* ---------------------------------------------------------------------- show */

/* Where an item's rows are: as they lie, or copied to scratch. `dims` of the tensor's are one item. */
static const float *fetch(struct wane__llama_probe *p, const struct ggml_tensor *t, int dims, int which,
                          bool copy, size_t *stride) {
    size_t between = t->nb[dims], count = (size_t)t->ne[dims];
    size_t item = (size_t)t->ne[0] * (dims == 2 ? (size_t)t->ne[1] : 1);
    ggml_backend_buffer_t buffer = buffer_of(t);
    *stride = between / sizeof(float);
    if (!copy && buffer != NULL && ggml_backend_buffer_is_host(buffer)) return t->data;
    *stride = item;
    if (count * item > p->scratch_size[which]) return NULL;
    for (size_t i = 0; i < count; i++)
        ggml_backend_tensor_get(t, p->scratch[which] + i * item, i * between, item * sizeof(float));
    return p->scratch[which];
}

static void take(struct wane__llama_probe *p, struct wane__llama_want *w, int which, bool copy) {
    if (w->tensor != NULL && w->rows == NULL && !w->spoiled)
        w->rows = fetch(p, w->tensor, 2, which, copy, &w->stride);
}

static void show_attention(struct wane__llama *e, int number) {
    struct wane__llama_probe *p = &e->probe;
    struct wane__llama_layer *l = &p->layer[number];
    bool both = l->q.tensor != NULL && l->k.tensor != NULL;
    if (both || l->stop_first) { /* the first of two may not be there any more when the second is */
        take(p, &l->q, 0, l->stop_first);
        take(p, &l->k, 1, l->stop_first);
    }
    if (!both) return;
    struct wane__probe_rows rows = {.layer = number,
                                    .first = l->items,
                                    .count = p->graph_items,
                                    .q = l->q.rows,
                                    .k = l->k.rows,
                                    .q_stride = l->q.stride,
                                    .k_stride = l->k.stride};
    if (rows.q != NULL && rows.k != NULL && rows.first + rows.count <= p->item_count) {
        p->set.calls->rows(p->set.user, &rows);
    } else if (!l->stop_first) {
        wane__log(e->base.log, WANE_LOG_DEBUG, "probe: layer %d needs two stops", number);
        l->stop_first = true;
    }
    l->items += p->graph_items;
    l->q = l->k = (struct wane__llama_want){0};
}

static int wanted_among(const struct wane__llama_probe *p, int first, int count) {
    int wanted = 0;
    for (int i = first; i < first + count && i < p->item_count; i++) wanted += p->items[i].wanted;
    return wanted;
}

static void show_block(struct wane__llama *e, int number) {
    struct wane__llama_probe *p = &e->probe;
    struct wane__llama_layer *l = &p->layer[number];
    const struct ggml_tensor *t = l->out.tensor;
    int wanted = wanted_among(p, l->block_items, p->graph_items), count = (int)t->ne[1];
    bool all = count == p->graph_items;
    struct wane__probe_rows rows = {.layer = number,
                                    .first = all ? l->block_items : l->block_rows,
                                    .count = count,
                                    .wanted = !all};
    bool fine = t->type == GGML_TYPE_F32 && t->ne[0] == e->base.facts.embedding_size &&
                t->nb[0] == sizeof(float) && (all || count == wanted) &&
                l->block_items + p->graph_items <= p->item_count;
    if (l->out.spoiled) l->block_stop = true;
    if (fine && !l->out.spoiled && count > 0) {
        rows.out = fetch(p, t, 1, 1, false, &rows.out_stride);
        if (rows.out != NULL) p->set.calls->rows(p->set.user, &rows);
    }
    l->block_items += p->graph_items;
    l->block_rows += wanted;
    l->out = (struct wane__llama_want){0};
}

void wane__llama_probe_show(struct wane__llama *e) {
    struct wane__llama_probe *p = &e->probe;
    if (p->open_count == 0) return;
    for (int i = 0; i < p->set.layer_count; i++) {
        struct wane__llama_layer *l = &p->layer[p->set.layer[i]];
        if (l->q.tensor != NULL || l->k.tensor != NULL) show_attention(e, p->set.layer[i]);
    }
    for (int i = 0; i < p->set.block_count; i++)
        if (p->layer[p->set.block[i]].out.tensor != NULL) show_block(e, p->set.block[i]);
    int left = 0; /* half a pair that lies where it lay */
    for (int i = 0; i < p->open_count; i++)
        if (p->open[i]->tensor != NULL && p->open[i]->rows == NULL) p->open[left++] = p->open[i];
    p->open_count = left;
}
