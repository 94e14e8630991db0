/*
 * under.c - a context with the head under it: which head a decode gets, the hidden rows, the checks.
 *
 * The way in is cb_eval, which libllama asks about every node of a graph. We want one, `result_norm`, and when the head is ours the
 * graph ends there. A program's own callback is asked before us and hears what it asked for; one that looks at nodes behind
 * the last norm keeps its graphs whole.
 *
 *     first decode of a width   LOOK: libllama's head runs; the graph is looked at, its logits are compared with single rows
 *     now and then              CHECK: libllama's head runs, ours finds what it would have handed out; compared, timed
 *     as the pace says          TIMED, PLAIN
 *     else                      OURS
 *
 * Widths: a decode of several rows may use other kernels than one of one, so each width from 1 to 8 is compared by itself. And
 * rows come in the graph's order, which is the batch's where every sequence stands in one piece, with rising numbers and
 * as many tokens as the others (or alone); everything else is libllama's.
 */
#include "preload/preload.h"

#include "core/clock.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/rng.h"

#include <dlfcn.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct wane__under *all;

/* --------------------------------------------------------------------- words */

void wane__under_turn_off(struct wane__under *u, const char *format, ...) {
    va_list arguments;
    if (u->off) return;
    u->off = true;
    va_start(arguments, format);
    vsnprintf(u->reason, sizeof u->reason, format, arguments);
    va_end(arguments);
    if (u->model == NULL) return;
    pthread_mutex_lock(&u->model->lock);
    bool told = u->model->told && u->certified == NULL; /* once a model, but each time that it was on */
    u->model->told = true;
    pthread_mutex_unlock(&u->model->lock);
    if (!told) wane__under_say("%s: dense head: %s", u->model->name, u->reason);
}

static void say_on(struct wane__under *u) {
    struct wane__sketch_facts f;
    wane__head_get_facts(u->certified, &f);
    pthread_mutex_lock(&u->model->lock);
    bool told = u->model->told;
    u->model->told = true;
    pthread_mutex_unlock(&u->model->lock);
    if (told) return;
    wane__under_say("%s: certified head, %s, sketch %.2g + %.2g bits (%.1f MB), %s; llama.cpp %s",
                    u->model->name, u->library->abi.ggml_type_name(u->head.weights->type), f.bits_level1,
                    f.bits_level2, (double)f.bytes / 1e6, wane__head_kernel(u->certified),
                    u->library->abi.version);
}

/* ------------------------------------------------------------------- weights */

static int weights_rows(void *user, int first, int count, float *out) {
    return wane__ggml_head_rows(user, first, count, out);
}

static int weights_rescore(void *user, const float *hidden, const int32_t *ids, int count, float *logits) {
    return wane__ggml_head_rescore(user, hidden, ids, count, logits);
}

static int weights_prepare(void *user, const float *hidden, void *prepared) {
    return wane__ggml_head_prepare(user, hidden, prepared);
}

static int weights_prepared(void *user, const void *prepared, const int32_t *ids, int count, float *logits) {
    return wane__ggml_head_prepared(user, prepared, ids, count, logits);
}

static int weights_seen(void *user, const float *hidden, const void *prepared, float *out) {
    (void)hidden;
    return wane__ggml_head_seen(user, prepared, out);
}

/* Can a prepared row be read back? The last decode's first row says. */
static bool can_be_seen(struct wane__under *u) {
    _Alignas(64) char prepared[WANE__GGML_MOST_PREPARED];
    float *out = wane__alloc((size_t)u->d * sizeof *out);
    bool can = out != NULL && wane__ggml_head_prepare(&u->head, u->hidden, prepared) == WANE_OK &&
               wane__ggml_head_seen(&u->head, prepared, out) == WANE_OK;
    wane__free(out);
    return can;
}

static void open_head(struct wane__under *u) {
    struct wane__head_weights weights = {.vocab_size = u->vocab,
                                         .d = u->d,
                                         .rows = weights_rows,
                                         .rescore = weights_rescore,
                                         .prepared_size = u->head.quantised_size,
                                         .prepare = weights_prepare,
                                         .rescore_prepared = weights_prepared,
                                         .seen = can_be_seen(u) ? weights_seen : NULL,
                                         .user = &u->head};
    wane_error error = {0};
    u->list = wane__alloc_zero(WANE__NEED_BEST + WANE__NEED_NAMED, sizeof *u->list);
    int result = WANE_ENOMEM;
    if (u->list == NULL)
        wane__fail(&error, result, "no memory");
    else
        result = wane__under_sketch_open(u->model, &weights, u->library->abi.llama_n_threads(u->context),
                                         u->rows_most, &u->certified, &error);
    if (result == WANE_OK)
        say_on(u);
    else
        wane__under_turn_off(u, "%s", error.text);
}

/* ------------------------------------------------------------------ callback */

static bool is_norm(const struct ggml_tensor *tensor) {
    return tensor->name[0] == 'r' && strcmp(tensor->name, "result_norm") == 0;
}

/* The rows that are about to enter the head. Does libllama's run? */
static bool take_rows(struct wane__under *u, const struct ggml_tensor *norm) {
    const struct wane__abi *abi = &u->library->abi;
    int64_t rows = norm->ne[1], left = u->wanted - u->seen;
    if (rows == 0) return true;
    if (norm->ne[0] != u->d || norm->ne[2] != 1 || norm->ne[3] != 1 || norm->type != GGML_TYPE_F32 ||
        !abi->ggml_is_contiguous(norm) || rows > left) {
        /* Rows that were taken in an earlier part of this decode keep their place: they are computed from `hidden`. */
        u->seen = u->wanted + 1;
        return true;
    }
    if (u->seen == 0) u->at_head = wane__now();
    size_t d = (size_t)u->d;
    abi->ggml_backend_tensor_get(norm, u->hidden + (size_t)u->seen * d, 0, (size_t)rows * d * sizeof(float));
    for (int i = u->seen; i < u->seen + (int)rows; i++)
        u->row[i].state = u->kind == WANE__DECODE_OURS ? WANE__ROW_RAW : WANE__ROW_WHOLE;
    u->seen += (int)rows;
    if (u->kind == WANE__DECODE_OURS || u->kind == WANE__DECODE_CHECK) wane__head_wake(u->certified);
    return u->kind != WANE__DECODE_OURS;
}

static bool on_node(struct ggml_tensor *tensor, bool ask, void *user) {
    struct wane__under *u = user;
    bool ours = u->decoding && u->kind != WANE__DECODE_PLAIN && u->seen <= u->wanted;
    if (!ours && u->program == NULL) return !ask;
    bool norm = ours && is_norm(tensor);
    if (ask) {
        if (ours && u->kind == WANE__DECODE_LOOK) wane__ggml_head_observe(&u->head, tensor);
        u->program_wants = u->program != NULL && u->program(tensor, true, u->program_user);
        if (u->program_wants && u->behind) u->looks_behind = true;
        if (u->behind && strcmp(tensor->name, "result_output") == 0) u->behind = false;
        return u->program_wants || norm;
    }
    bool on = !u->program_wants || u->program(tensor, false, u->program_user);
    if (!norm) return on;
    u->behind = take_rows(u, tensor);
    return u->behind && on;
}

/* ------------------------------------------------------------------ contexts */

static const char *obstacle(struct wane__library *library, struct llama_model *model,
                            const struct llama_context_params *p) {
    const struct wane__abi *abi = &library->abi;
    if (wane__under_settings()->head == WANE__UNDER_DENSE) return "chosen";
    if (model == NULL) return "there is no model";
    if (!abi->llama_model_has_decoder(model) || abi->llama_model_has_encoder(model))
        return "the model has an encoder";
    if (abi->llama_model_is_diffusion(model)) return "the model is a diffusion model";
    if (abi->llama_model_is_recurrent(model) || abi->llama_model_is_hybrid(model))
        return "the model is recurrent";
    if (p->pooling_type > LLAMA_POOLING_TYPE_NONE) return "the context pools embeddings";
    if (p->attention_type == LLAMA_ATTENTION_TYPE_NON_CAUSAL) return "attention is not causal";
    if (p->ctx_type != LLAMA_CONTEXT_TYPE_DEFAULT || p->ctx_other != NULL)
        return "the context is part of another one";
    if (p->n_samplers > 0) return "tokens are sampled in the graph";
    return NULL;
}

/* Rows in one scan: room for all sequences, or for a few drafted tokens of the only one. Each takes about 20 bytes a token of the vocabulary. */
static int rows_of(const struct llama_context_params *p) {
    if (p->n_seq_max <= 1) return WANE__UNDER_ROWS / 2;
    return p->n_seq_max < WANE__UNDER_ROWS ? (int)p->n_seq_max : WANE__UNDER_ROWS;
}

struct wane__under *wane__under_prepare(struct wane__library *library, struct llama_model *model,
                                        struct llama_context_params *params) {
    wane__under_watch_forks();
    const char *why = obstacle(library, model, params);
    struct wane__under *u = wane__alloc_zero(1, sizeof *u);
    if (u == NULL) return NULL;
    u->library = library;
    u->model = wane__under_model_of(model);
    pthread_mutex_init(&u->lock, NULL);
    u->head.ggml = &library->abi.ggml;
    u->rows_most = rows_of(params);
    u->embeddings = params->embeddings;
    wane__pace_init(&u->pace);
    u->pace.always = wane__under_settings()->head == WANE__UNDER_ALWAYS;
    u->program = params->cb_eval;
    u->program_user = params->cb_eval_user_data;
    if (why == NULL && u->model != NULL) {
        u->vocab = library->abi.llama_vocab_n_tokens(library->abi.llama_model_get_vocab(model));
        u->d = library->abi.llama_model_n_embd(model);
        bool fit = u->vocab > 0 && u->d > 0 && u->d <= WANE__HEAD_MOST_D;
        u->hidden = fit ? wane__alloc_zero((size_t)WANE__UNDER_ROWS * (size_t)u->d, sizeof *u->hidden) : NULL;
    }
    if (u->hidden == NULL) {
        wane__under_turn_off(u, "%s", why != NULL ? why : "the model has no head that wane knows");
        return u;
    }
    params->cb_eval = on_node;
    params->cb_eval_user_data = u;
    return u;
}

void wane__under_free(struct wane__under *u) {
    if (!u->dead) { /* else its threads are in another process */
        wane__head_free(u->certified);
        wane__ggml_head_close(&u->head);
        pthread_mutex_destroy(&u->lock);
    }
    wane__free(u->list);
    wane__free(u->hidden);
    wane__free(u);
}

void wane__under_keep(struct wane__under *u, struct llama_context *context) {
    if (context == NULL) {
        wane__under_free(u);
        return;
    }
    u->context = context;
    u->ubatch = (int)u->library->abi.llama_n_ubatch(context);
    wane__count(&wane__under_counts.contexts, 1);
    wane__count(&wane__under_counts.open, 1);
    pthread_mutex_lock(&lock);
    u->next = all;
    all = u;
    pthread_mutex_unlock(&lock);
}

struct wane__under *wane__under_of(const struct llama_context *context) {
    pthread_mutex_lock(&lock);
    struct wane__under *u = all;
    while (u != NULL && u->context != context) u = u->next;
    pthread_mutex_unlock(&lock);
    return u != NULL && !u->dead ? u : NULL;
}

struct wane__under *wane__under_take(const struct llama_context *context) {
    pthread_mutex_lock(&lock);
    struct wane__under **at = &all;
    while (*at != NULL && (*at)->context != context) at = &(*at)->next;
    struct wane__under *u = *at;
    if (u != NULL) *at = u->next;
    pthread_mutex_unlock(&lock);
    if (u != NULL && !u->dead) atomic_fetch_sub(&wane__under_counts.open, 1);
    return u;
}

/* Servers set their adapters before each decode, mostly the same ones, mostly none. */
void wane__under_adapters(struct wane__under *u, uint64_t name) {
    pthread_mutex_lock(&u->lock);
    if (u->adapters != name) memset(u->width, 0, sizeof u->width);
    u->adapters = name;
    pthread_mutex_unlock(&u->lock);
}

void wane__under_forked(void) {
    pthread_mutex_init(&lock, NULL);
    for (struct wane__under *u = all; u != NULL; u = u->next) {
        u->dead = true;
        u->decoding = false;
        u->kind = WANE__DECODE_PLAIN;
    }
    wane__under_models_reset_lock();
}

/* -------------------------------------------------------------------- decode */

static int count_wanted(const struct llama_batch *batch) {
    if (batch->logits == NULL) return batch->n_tokens > 0 ? 1 : 0;
    int wanted = 0;
    for (int i = 0; i < batch->n_tokens; i++) wanted += batch->logits[i] != 0;
    return wanted;
}

/* Is the graph's order the batch's? */
static bool order_is_kept(const struct wane__under *u, const struct llama_batch *batch) {
    int run = 0, each = 0, runs = 0;
    llama_seq_id last = -1;
    if (batch->seq_id == NULL || batch->n_seq_id == NULL) return false;
    for (int i = 0; i < batch->n_tokens; i++) {
        if (batch->n_seq_id[i] != 1 || batch->seq_id[i] == NULL) return false;
        llama_seq_id seq = batch->seq_id[i][0];
        if (i > 0 && seq == last) {
            run++;
            continue;
        }
        if (seq < last) return false;
        if (i > 0 && each > 0 && run != each) return false;
        if (i > 0) each = run;
        last = seq;
        run = 1;
        runs++;
    }
    return runs == 1 || ((each == 0 || run == each) && batch->n_tokens <= u->ubatch);
}

static enum wane__under_kind plain(struct wane__under *u, enum wane__why why) {
    wane__count(&wane__under_counts.dense[why], (uint64_t)u->wanted);
    return WANE__DECODE_PLAIN;
}

/* Every so many-th decode by a hash of its number: no pattern in the traffic can hide from it. */
static bool check_is_due(struct wane__under *u) {
    double share = wane__under_settings()->shadow;
    return ldexp((double)(wane__mix64(u->decodes++) >> 11), -53) < share;
}

static enum wane__under_kind choose(struct wane__under *u, const struct llama_batch *batch) {
    struct wane__need need;
    if (u->wanted == 0) return WANE__DECODE_PLAIN;
    if (u->off || u->embeddings || u->acausal || u->nextn) return plain(u, WANE__WHY_OFF);
    if (u->wanted > WANE__UNDER_ROWS) return plain(u, WANE__WHY_ROWS);
    if (u->wanted > 1 && !order_is_kept(u, batch)) return plain(u, WANE__WHY_ORDER);
    if (u->width[u->wanted] == 0) {
        plain(u, WANE__WHY_LEARN);
        return WANE__DECODE_LOOK;
    }
    if (u->width[u->wanted] < 0) return plain(u, u->wanted == 1 ? WANE__WHY_OFF : WANE__WHY_BATCH);
    wane__sampler_need(NULL, u->vocab, &need);
    if (need.whole) return plain(u, WANE__WHY_WHOLE);
    enum wane__pace_choice pace = wane__pace_choose(&u->pace, u->wanted);
    if (pace == WANE__PACE_DENSE) return plain(u, WANE__WHY_PACE);
    if (pace == WANE__PACE_MEASURE || check_is_due(u)) {
        plain(u, WANE__WHY_LEARN);
        return pace == WANE__PACE_MEASURE && wane__under_settings()->shadow <= 0 ? WANE__DECODE_TIMED
                                                                                 : WANE__DECODE_CHECK;
    }
    return WANE__DECODE_OURS;
}

/* What the last decode's rows took, if they were ours. */
static void settle_pace(struct wane__under *u) {
    if (u->kind == WANE__DECODE_OURS && u->wanted > 0 && u->spent > 0)
        wane__pace_note_draws(&u->pace, true, u->wanted, u->spent);
    u->spent = 0;
}

void wane__under_begin(struct wane__under *u, const struct llama_batch *batch) {
    pthread_mutex_lock(&u->lock);
    settle_pace(u);
    u->wanted = count_wanted(batch);
    u->seen = u->scanned = u->scanned_end = 0;
    u->behind = false;
    memset(u->row, 0, sizeof u->row);
    for (int i = 0; i < WANE__UNDER_ROWS; i++) u->row[i].state = WANE__ROW_WHOLE;
    wane__count(&wane__under_counts.rows, (uint64_t)u->wanted);
    u->kind = choose(u, batch);
    u->head.norm = NULL;
    u->began = wane__now();
    u->decoding = true;
    pthread_mutex_unlock(&u->lock);
}

/* ------------------------------------------------------------- after a decode */

/* libllama's logits of the last decode, in the order of its rows. */
static float *logits_of(struct wane__under *u) {
    u->library->abi.llama_synchronize(u->context);
    return u->library->abi.llama_get_logits(u->context);
}

static const char *why_not(const struct wane__under *u) {
    if (u->looks_behind) return "the program looks at nodes behind the last norm";
    if (u->head.norm == NULL || u->seen != u->wanted)
        return "the model's graph does not show its hidden rows";
    if (u->head.weights == NULL || !u->head.plain) return "more than a product follows the model's last norm";
    if (!u->head.readable)
        return "the head's weights are not in host memory, or in an order in which rows cannot be read";
    return NULL;
}

/* Another context of this model has compared so many rows: kernels are the same for all of them. */
static bool is_known(struct wane__under *u) {
    pthread_mutex_lock(&u->model->lock);
    bool known = u->model->weights == u->head.weights && u->model->equal[u->wanted];
    pthread_mutex_unlock(&u->model->lock);
    return known;
}

static void make_known(struct wane__under *u) {
    pthread_mutex_lock(&u->model->lock);
    if (u->model->weights != u->head.weights) memset(u->model->equal, 0, sizeof u->model->equal);
    u->model->weights = u->head.weights;
    u->model->equal[u->wanted] = true;
    pthread_mutex_unlock(&u->model->lock);
}

static void look(struct wane__under *u) {
    if (!u->head.readable) wane__ggml_head_open(&u->head, u->d, u->vocab);
    void *pause = u->head.library != NULL ? dlsym(u->head.library, "ggml_threadpool_pause") : NULL;
    memcpy(&u->pause, &pause, sizeof pause); /* ISO C has no cast from an object's pointer to a function's */
    const char *why = why_not(u);
    const float *logits = why == NULL ? logits_of(u) : NULL;
    bool equal = logits != NULL, known = equal && is_known(u);
    for (int i = 0; i < u->wanted && equal && !known; i++)
        equal = wane__ggml_head_equal(&u->head, u->hidden + (size_t)i * (size_t)u->d,
                                      logits + (size_t)i * (size_t)u->vocab);
    if (equal && !known) make_known(u);
    u->width[u->wanted] = equal ? 1 : -1;
    u->head.norm = NULL; /* belongs to a graph that is gone */
    if (equal && u->certified == NULL) open_head(u);
    if (equal || u->wanted > 1 || u->certified != NULL)
        return; /* with an adapter it comes back when that is gone */
    wane__under_turn_off(u, "%s", why != NULL ? why : "single rows of the head are not what it computes");
}

static uint64_t nanoseconds(double seconds) {
    return seconds > 0 ? (uint64_t)(1e9 * seconds) : 0;
}

static void check(struct wane__under *u, double ended) {
    struct wane__need need;
    double ours = 0;
    const float *logits = logits_of(u);
    bool same = logits != NULL;
    int32_t token = -1;
    wane__sampler_need(NULL, u->vocab, &need);
    for (int i = 0; i < u->wanted && same; i++) {
        double seconds = 0;
        same = wane__row_check(u, i, logits + (size_t)i * (size_t)u->vocab, &need, &token, &seconds);
        ours += seconds;
    }
    wane__count(&wane__under_counts.checked, (uint64_t)u->wanted);
    if (!same) {
        wane__count(&wane__under_counts.divergent, 1);
        wane__under_turn_off(u, "it gave other logits than libllama's own head (token %d)", (int)token);
        return;
    }
    if (u->wanted > 1) return;
    wane__count(&wane__under_counts.body, nanoseconds(u->at_head - u->began));
    wane__count(&wane__under_counts.head_dense, nanoseconds(ended - u->at_head));
    wane__count(&wane__under_counts.head_ours, nanoseconds(ours));
}

/*
 * Threads of the program's pools look out for the next graph for a tenth of a second and more, and a processor that they hold is none
 * for the head. So they sleep while it works; the next graph wakes them, as their first one did.
 */
static void quiet(struct wane__under *u) {
    for (int i = 0; i < 2 && u->pause != NULL; i++)
        if (u->pool[i] != NULL) u->pause(u->pool[i]);
}

static void settle(struct wane__under *u) {
    u->library->abi.llama_synchronize(u->context);
    double ended = wane__now();
    if (u->kind == WANE__DECODE_LOOK) {
        look(u);
        return;
    }
    if (u->seen !=
        u->wanted) { /* the graph was not as before: rows not seen are libllama's, those seen are computed */
        wane__under_turn_off(u, "the model's graph has changed");
        return;
    }
    if (u->kind != WANE__DECODE_TIMED) quiet(u);
    if (u->kind == WANE__DECODE_OURS) {
        u->spent = ended - u->at_head;
        wane__count(&wane__under_counts.copy, nanoseconds(u->spent));
        wane__count(&wane__under_counts.copies, (uint64_t)u->wanted);
        return;
    }
    wane__pace_note_head(&u->pace, u->wanted, ended - u->at_head);
    if (u->kind == WANE__DECODE_CHECK) check(u, ended);
}

void wane__under_end(struct wane__under *u, int status) {
    pthread_mutex_lock(&u->lock);
    u->decoding = false;
    if (status != 0) {
        u->wanted = 0;
        u->kind = WANE__DECODE_PLAIN;
    } else if (u->kind != WANE__DECODE_PLAIN) {
        settle(u);
    }
    pthread_mutex_unlock(&u->lock);
}
