/*
 * llama_decode.c - batches through libllama: rows, the hook before the LM head, truncate, copy, interrupt.
 *
 * libllama aborts the process on some wrong batches. So each item is checked here, against our own table
 * of sequence lengths, and a batch that is wrong in any item is refused whole before the engine sees it.
 *
 * The hook. libllama calls back for each node of the graph and asks whether we want its value. Without a
 * hook the answer is always no, and the graph runs in one piece. With a hook we ask for `result_norm`
 * only: the graph stops there, we copy its rows, and what the hook answers decides whether the rest of
 * the graph (the LM head) runs. A decode may reach `result_norm` several times, once for each part
 * ("ubatch") that the engine splits a batch into.
 *
 * decode allocates nothing of ours.
 */
#include "engine/llama_internal.h"

#include "core/error.h"

#include <string.h>

/* --------------------------------------------------------------------- hook */

static bool is_norm(const struct ggml_tensor *tensor) {
    const char *name = tensor->name;
    return name[0] == 'r' && name[7] == 'n' && strcmp(name, "result_norm") == 0;
}

/* The rows that are about to enter the head. Returns whether the dense head should run. */
static bool take_rows(struct wane__llama *e, struct ggml_tensor *norm) {
    int d = e->base.facts.embedding_size;
    int rows = (int)norm->ne[1], first = e->rows_seen;
    if (norm->ne[0] != d || norm->type != GGML_TYPE_F32 || !ggml_is_contiguous(norm)) {
        e->hook_possible = false;
        return true;
    }
    if (rows > e->row_count - first) rows = e->row_count - first;
    e->rows_seen += rows;
    if (rows <= 0) return e->observing; /* nothing wanted: no need for a head */
    float *copy = e->hidden + (size_t)first * (size_t)d;
    ggml_backend_tensor_get(norm, copy, 0, (size_t)rows * (size_t)d * sizeof *copy);
    bool dense = true;
    if (!e->observing) dense = e->hook(e->hook_user, copy, first, rows, d);
    for (int i = first; i < first + rows; i++) {
        e->rows[i].has_hidden = true;
        e->rows[i].has_logits = dense;
    }
    return dense;
}

/*
 * A recurrent model's batch may be cut up by sequence, so that rows come in another order than the items:
 * then several rows cannot be told apart, and the hook stays out.
 */
static bool hook_wanted(const struct wane__llama *e) {
    return e->hook != NULL && e->hook_possible && (e->order_kept || e->row_count <= 1);
}

/* Without a hook, or on the way to one. True: stop here; or, not asked, go on. */
static bool eval_head(struct wane__llama *e, struct ggml_tensor *tensor, bool ask) {
    if (e->observing) {
        if (ask) {
            wane__ggml_head_observe(&e->head, tensor);
            wane__llama_probe_observe(e, tensor);
        }
    } else if (e->hook == NULL) {
        return !ask;
    }
    if (!is_norm(tensor) || !(e->observing || hook_wanted(e))) return !ask;
    return ask ? true : take_rows(e, tensor);
}

bool wane__llama_eval(struct ggml_tensor *tensor, bool ask, void *user) {
    struct wane__llama *e = user;
    if (ask && tensor->op == GGML_OP_FLASH_ATTN_EXT && tensor->src[1]->ne[1] > e->attended)
        e->attended = (int)tensor->src[1]->ne[1];
    if (!e->probe.on) return eval_head(e, tensor, ask);
    if (!ask) {
        wane__llama_probe_show(e);
        return eval_head(e, tensor, false);
    }
    bool stop = wane__llama_probe_ask(e, tensor);
    return eval_head(e, tensor, true) || stop;
}

int wane__llama_attended(struct wane__engine *engine) {
    return wane__llama_of(engine)->attended;
}

void wane__llama_set_hook(struct wane__engine *engine, wane__hidden_fn hook, void *user) {
    struct wane__llama *e = wane__llama_of(engine);
    e->hook = hook;
    e->hook_user = user;
}

/* ------------------------------------------------------------------- decode */

static int check_items(const struct wane__llama *e, const struct wane__item *items, int count,
                       wane_error *error) {
    if (e->context == NULL) {
        return wane__fail(error, WANE_EUNSUPPORTED,
                          "Only the tokenizer of this model was loaded: it cannot decode.");
    }
    if (items == NULL || count < 1 || count > e->base.batch) {
        return wane__fail(error, WANE_EINVAL, "A batch must hold 1 to %d tokens, not %d.", e->base.batch,
                          count);
    }
    int next[WANE__MAX_SEQUENCES];
    memcpy(next, e->length, sizeof next);
    for (int i = 0; i < count; i++) {
        const struct wane__item *t = &items[i];
        if (t->token < 0 || t->token >= e->base.facts.vocab_size) {
            return wane__fail(error, WANE_EINVAL, "Item %d: token %d is outside 0 to %d.", i, t->token,
                              e->base.facts.vocab_size - 1);
        }
        if (t->seq < 0 || t->seq >= e->base.facts.sequences) {
            return wane__fail(error, WANE_EINVAL, "Item %d: sequence %d is outside 0 to %d.", i, t->seq,
                              e->base.facts.sequences - 1);
        }
        if (t->pos != next[t->seq]) {
            return wane__fail(error, WANE_EINVAL, "Item %d: position %d of sequence %d; the next one is %d.",
                              i, t->pos, t->seq, next[t->seq]);
        }
        if (t->pos >= e->base.facts.context) {
            return wane__fail(error, WANE_EINVAL, "Item %d: sequence %d is full (%d tokens).", i, t->seq,
                              e->base.facts.context);
        }
        next[t->seq]++;
    }
    return WANE_OK;
}

static void fill_batch(struct wane__llama *e, const struct wane__item *items, int count) {
    struct llama_batch *b = &e->llama_batch;
    e->row_count = e->rows_seen = 0;
    for (int i = 0; i < count; i++) {
        b->token[i] = items[i].token;
        b->pos[i] = items[i].pos;
        b->n_seq_id[i] = 1;
        b->seq_id[i][0] = items[i].seq;
        b->logits[i] = items[i].wanted;
        if (items[i].wanted)
            e->rows[e->row_count++] = (struct wane__llama_row){.item = i, .has_logits = true};
    }
    b->n_tokens = count;
}

/* The engine's own idea of a sequence's length, after something went wrong. */
static void resync(struct wane__llama *e, int seq) {
    llama_memory_t memory = llama_get_memory(e->context);
    if (e->base.facts.recurrent) { /* its state may be half a step ahead: only empty is certain */
        llama_memory_seq_rm(memory, seq, -1, -1);
    }
    e->length[seq] = (int)llama_memory_seq_pos_max(memory, seq) + 1;
}

static int decode_failed(struct wane__llama *e, int code, const struct wane__item *items, int count,
                         const char *words, wane_error *error) {
    e->row_count = 0;
    for (int i = 0; i < count; i++) {
        if (i == 0 || items[i].seq != items[i - 1].seq) resync(e, items[i].seq);
    }
    if (code == 2) return wane__fail(error, WANE_ECANCELLED, "The decoding was interrupted.");
    if (code == 1) {
        return wane__fail(error, WANE_EBUSY,
                          "The KV cache has no room for %d more tokens; end or shorten a sequence.", count);
    }
    return wane__fail(error, WANE_EENGINE, "The engine failed to decode %d tokens (code %d)%s%s.", count,
                      code, words[0] != '\0' ? ": " : "", words);
}

int wane__llama_decode(struct wane__engine *engine, const struct wane__item *items, int count,
                       wane_error *error) {
    struct wane__llama *e = wane__llama_of(engine);
    int rc = check_items(e, items, count, error);
    if (rc != WANE_OK) return rc;
    if (atomic_load(&e->interrupted)) {
        e->row_count = 0;
        return wane__fail(error, WANE_ECANCELLED, "The engine is interrupted.");
    }
    fill_batch(e, items, count);
    if (e->probe.on) wane__llama_probe_begin(e, items, count);
    e->attended = 0;
    struct wane__llama_words words;
    wane__llama_words_enter(&words, e->base.log);
    int code = wane__guard_decode(e->context, e->llama_batch, words.errors, sizeof words.errors);
    if (code == 0) llama_synchronize(e->context);
    wane__llama_words_leave(&words);
    if (code != 0) return decode_failed(e, code, items, count, words.errors, error);
    for (int i = 0; i < count; i++) e->length[items[i].seq] = items[i].pos + 1;
    return WANE_OK;
}

float *wane__llama_logits(struct wane__engine *engine, int row) {
    struct wane__llama *e = wane__llama_of(engine);
    if (row < 0 || row >= e->row_count || !e->rows[row].has_logits) return NULL;
    return llama_get_logits_ith(e->context, e->rows[row].item);
}

const float *wane__llama_hidden(struct wane__engine *engine, int row) {
    struct wane__llama *e = wane__llama_of(engine);
    if (row < 0 || row >= e->row_count || !e->rows[row].has_hidden) return NULL;
    return e->hidden + (size_t)row * (size_t)e->base.facts.embedding_size;
}

/* ---------------------------------------------------------------- sequences */

static bool known_sequence(const struct wane__llama *e, int seq) {
    return e->context != NULL && seq >= 0 && seq < e->base.facts.sequences;
}

static int truncate_to(struct wane__llama *e, int seq, int keep) {
    llama_memory_t memory = llama_get_memory(e->context);
    int held = (int)llama_memory_seq_pos_max(memory, seq) + 1;
    if (keep < 0) keep = 0;
    if (keep >= held) return e->length[seq] = held;
    bool partial = keep > 0 && !e->base.facts.recurrent;
    if (partial && llama_memory_seq_rm(memory, seq, keep, -1)) return e->length[seq] = keep;
    llama_memory_seq_rm(memory, seq, -1, -1);
    return e->length[seq] = 0;
}

int wane__llama_truncate(struct wane__engine *engine, int seq, int keep) {
    struct wane__llama *e = wane__llama_of(engine);
    if (!known_sequence(e, seq)) return 0;
    int kept = truncate_to(e, seq, keep);
    wane__llama_probe_moved(e, seq, seq, kept);
    return kept;
}

static int copy_to(struct wane__llama *e, int from, int to, int keep) {
    llama_memory_t memory = llama_get_memory(e->context);
    llama_memory_seq_rm(memory, to, -1, -1);
    e->length[to] = 0;
    if (keep > e->length[from]) keep = e->length[from];
    if (keep <= 0 || e->base.facts.recurrent) return 0;
    llama_memory_seq_cp(memory, from, to, 0, keep); /* unified KV: the cells are shared, nothing moves */
    return e->length[to] = keep;
}

int wane__llama_copy(struct wane__engine *engine, int from, int to, int keep) {
    struct wane__llama *e = wane__llama_of(engine);
    if (!known_sequence(e, from) || !known_sequence(e, to)) return 0;
    if (from == to) return wane__llama_truncate(engine, to, keep);
    int kept = copy_to(e, from, to, keep);
    wane__llama_probe_moved(e, to, from, kept);
    return kept;
}

/* ---------------------------------------------------------------- interrupt */

void wane__llama_interrupt(struct wane__engine *engine, bool on) {
    atomic_store(&wane__llama_of(engine)->interrupted, on);
}

/* The engine's threads ask this between nodes of the graph. */
bool wane__llama_aborted(void *user) {
    const struct wane__llama *e = user;
    return atomic_load_explicit(&e->interrupted, memory_order_relaxed);
}

/* ------------------------------------------------------------------ threads */

static void *cpu_function(const char *name) {
    ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    return cpu == NULL ? NULL : ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(cpu), name);
}

/*
 * A backend holds on to the pool of its last graph until the next graph brings another, and then still
 * pauses the old one. So a pool once used may not be freed before the context is.
 */
static struct wane__llama_pool *find_pool(struct wane__llama *e, int poll) {
    for (int i = 0; i < e->pool_count; i++) {
        if (e->pools[i].poll == poll) return &e->pools[i];
    }
    return NULL;
}

static int make_pool(struct wane__llama *e, int poll, wane_error *error) {
    ggml_threadpool_t (*make)(struct ggml_threadpool_params *);
    void *address = cpu_function("ggml_threadpool_new");
    if (address == NULL || cpu_function("ggml_threadpool_free") == NULL || e->pool_count == WANE__MAX_POOLS) {
        return wane__fail(error, WANE_EUNSUPPORTED,
                          "This engine has no standing thread pools, or no more of them.");
    }
    memcpy(&make, &address, sizeof make);
    int threads =
        e->params.n_threads > e->params.n_threads_batch ? e->params.n_threads : e->params.n_threads_batch;
    struct ggml_threadpool_params p = ggml_threadpool_params_default(threads);
    p.poll = (uint32_t)poll;
    ggml_threadpool_t pool = make(&p);
    if (pool == NULL) return wane__fail(error, WANE_EENGINE, "The engine made no thread pool.");
    e->pools[e->pool_count++] = (struct wane__llama_pool){.poll = poll, .pool = pool};
    return WANE_OK;
}

int wane__llama_attach_pool(struct wane__llama *e, int poll, wane_error *error) {
    if (poll < 0) {
        llama_detach_threadpool(e->context);
        return WANE_OK;
    }
    int rc = find_pool(e, poll) != NULL ? WANE_OK : make_pool(e, poll, error);
    if (rc != WANE_OK) return rc;
    ggml_threadpool_t pool = find_pool(e, poll)->pool;
    llama_attach_threadpool(e->context, pool, pool);
    return WANE_OK;
}

void wane__llama_free_pools(struct wane__llama *e) {
    void (*drop)(ggml_threadpool_t);
    void *address = e->pool_count > 0 ? cpu_function("ggml_threadpool_free") : NULL;
    memcpy(&drop, &address, sizeof drop);
    for (int i = 0; i < e->pool_count; i++) drop(e->pools[i].pool);
    e->pool_count = 0;
}
