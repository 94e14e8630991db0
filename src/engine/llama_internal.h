/*
 * llama_internal.h - what the llama*.c files share. Nothing outside src/engine includes it (tests may).
 *
 *     llama.c             load, warm-up, free, facts, the table of functions
 *     llama_setup.c       once a process: plug-ins and log; file checks; counting cores
 *     llama_decode.c      batches, rows, the hook, truncate, copy, interrupt
 *     llama_probe.c       rows of Q, K and block outputs, shown while a graph runs
 *     llama_layout.c      where the engine would keep the head, and keeping it there readable
 *     llama_head.c        the head at load: warm-up, facts, self-check
 *     ggml_head.c         what the graph does after `result_norm`; exact rescoring
 *     llama_text.c        tokens and their bytes; tokenising text that holds untrusted spans
 *     llama_chat.c        conversations: render by the model's template, mark what is untrusted
 *     llama_reference.c   the yardstick
 *     template.cpp        the engine's Jinja interpreter behind a C interface
 */
#ifndef WANE_ENGINE_LLAMA_INTERNAL_H
#define WANE_ENGINE_LLAMA_INTERNAL_H

#include "engine/engine.h"
#include "engine/ggml_head.h"
#include "engine/guard.h"

#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>
#include <llama.h>
#include <stdatomic.h>

#define WANE__MAX_SEQUENCES 64
#define WANE__MAX_POOLS     4

struct wane__template;

/* A special token's text; see llama_text.c. */
struct wane__marker {
    const char *text; /* the vocabulary's own, lives as long as the model */
    uint32_t size;
    int32_t token;
    bool strip_left, strip_right; /* whitespace beside it belongs to it */
    bool user_defined;            /* matched by the engine even in plain text */
};

struct wane__markers {
    struct wane__marker *sorted; /* by text */
    size_t count;
    uint32_t longest;
    bool any_user_defined;
    bool first[256], last[256]; /* bytes that some marker begins, ends with */
};

/* A tensor that a probe wants, from the moment it is asked for until it is shown. */
struct wane__llama_want {
    const struct ggml_tensor *tensor; /* NULL: none                               */
    bool spoiled;                     /* a later node wrote over it, or may have  */
    const float *rows;                /* where they are, once the graph stopped    */
    size_t stride;
};

/* A layer as the warm-up saw it, and a probe's view of it. */
struct wane__llama_layer {
    /* Nodes of one graph by these names; the last one counts. */
    int q_nodes, k_nodes, out_nodes;
    int q_at, k_at; /* number of the last one in the graph */
    int heads, key_heads, size, key_size;
    bool q_fine, k_fine; /* floats, the heads of an item one behind the other */
    int window;          /* as in wane__layer_facts                           */
    bool odd;            /* what a query sees is neither all nor a window     */

    /* While it is probed. */
    bool probed, block_probed;
    bool stop_first, block_stop;  /* stop at the first of Q and K too; at the block's output */
    int q_seen, k_seen, out_seen; /* nodes by these names in this decode                     */
    struct wane__llama_want q, k, out;
    int items, block_items, block_rows; /* shown in this decode */
};

enum { WANE__LLAMA_OPEN_MOST = 8 };

struct wane__llama_probe {
    struct wane__llama_layer *layer; /* of the model; NULL: it has none to show */
    int nodes;                       /* of the observed graph so far            */
    bool on;
    struct wane__probe set;
    const struct wane__item *items; /* of the decode under way */
    int item_count, graph_items;    /* of the decode, of the graph under way */
    struct wane__llama_want *open[WANE__LLAMA_OPEN_MOST];
    int open_count;
    int window_layer; /* whose mask comes next and has to be looked at, in that row; -1: none's */
    int window_row, window_pos;
    float *scratch[2]; /* for rows that do not lie in host memory, or would not stay */
    size_t scratch_size[2];
};

/* A row of the last decode. */
struct wane__llama_row {
    int32_t item;    /* its index in the batch */
    bool has_hidden; /* was copied             */
    bool has_logits; /* the dense head ran     */
};

struct wane__llama {
    struct wane__engine base; /* first: the two pointers are the same */
    struct llama_model *model;
    struct llama_context *context;
    const struct llama_vocab *vocab;
    struct llama_context_params params; /* as the context was made */

    /* decode */
    struct llama_batch llama_batch;
    int length[WANE__MAX_SEQUENCES]; /* tokens held, which is the next position */
    struct wane__llama_row *rows;    /* `batch` of them */
    int row_count, rows_seen;        /* wanted; passed through the graph so far */
    float *hidden;                   /* batch × d */
    int attended;                    /* cells, by the last graph */
    wane__hidden_fn hook;
    void *hook_user;
    bool hook_possible; /* `result_norm` is there, and is d floats a row */
    bool order_kept;    /* rows leave the graph in the order of the items */
    bool observing;     /* warm-up: look at the graph, copy hidden, run dense */
    atomic_bool interrupted;
    struct wane__llama_pool { /* standing thread pools made so far, by how long they spin */
        int poll;
        ggml_threadpool_t pool;
    } pools[WANE__MAX_POOLS];
    int pool_count;

    struct wane__ggml_head head;
    struct wane__llama_probe probe;
    struct wane__markers markers;
    struct wane__template *chat_template; /* parsed; NULL: by name */
    char *template_source;                /* of the file, or "chatml" */
    char *owned[8];                       /* strings of the facts */
    int owned_count;
};

static inline struct wane__llama *wane__llama_of(struct wane__engine *engine) {
    return (struct wane__llama *)(void *)engine;
}

/* ------------------------------------------------------------ llama_setup.c */

/*
 * The engine's messages of this thread go to `log` between enter and leave, and the errors among them
 * are kept, because the engine says in its log, and nowhere else, why it refused something.
 */
struct wane__llama_words {
    struct wane__log *log;
    struct wane__llama_words *outer;
    char line[512];
    size_t line_size;
    int level;
    char errors[400]; /* error lines, joined by "; "; the first ones win */
};
void wane__llama_words_enter(struct wane__llama_words *words, struct wane__log *log);
void wane__llama_words_leave(struct wane__llama_words *words);

/* Load the engine's plug-ins, once a process; later calls ignore `folder`. */
int wane__llama_backends(const char *folder, struct wane__log *log, wane_error *error);
/*
 * How the weights are laid out. Repacked, where that is left open, only if the CPU backend would interleave so many of the
 * blocks' bytes that it pays: its kernels for that form add in another order for four rows and more than for one, and gain
 * nothing for one where they hold few of the weights. And a head that is to be certified is kept from a form whose rows
 * cannot be read; `override`, the first of a list that a zeroed one ends, then says how and must live until the load.
 */
void wane__llama_layout(const wane_model_options *options, struct llama_model_params *params,
                        struct llama_model_tensor_buft_override *override);
/* Is this a file that can be handed to the engine? Says in words why not. */
int wane__llama_check_file(const char *path, uint64_t *bytes, wane_error *error);

/* ----------------------------------------------------------- llama_decode.c */

bool wane__llama_eval(struct ggml_tensor *tensor, bool ask, void *user);
bool wane__llama_aborted(void *user);
int wane__llama_decode(struct wane__engine *engine, const struct wane__item *items, int count,
                       wane_error *error);
float *wane__llama_logits(struct wane__engine *engine, int row);
const float *wane__llama_hidden(struct wane__engine *engine, int row);
int wane__llama_attended(struct wane__engine *engine);
void wane__llama_set_hook(struct wane__engine *engine, wane__hidden_fn hook, void *user);
int wane__llama_truncate(struct wane__engine *engine, int seq, int keep);
int wane__llama_copy(struct wane__engine *engine, int from, int to, int keep);
int wane__llama_state_save(struct wane__engine *engine, int seq, struct wane__buf *out, wane_error *error);
int wane__llama_state_load(struct wane__engine *engine, int seq, const void *bytes, size_t size, int length,
                           wane_error *error);
void wane__llama_interrupt(struct wane__engine *engine, bool on);
/* Give decode a standing thread pool; poll 0 … 100 is how long its threads spin, below 0: none. */
int wane__llama_attach_pool(struct wane__llama *engine, int poll, wane_error *error);
/* Only after the context is gone. */
void wane__llama_free_pools(struct wane__llama *engine);

/* ------------------------------------------------------------ llama_probe.c */

/* Memory for what the warm-up sees of the layers; a model whose layers cannot be shown gets none. */
int wane__llama_probe_open(struct wane__llama *engine, wane_error *error);
void wane__llama_probe_close(struct wane__llama *engine);
/* An observed graph begins; a node of it. */
void wane__llama_probe_observe_graph(struct wane__llama *engine);
void wane__llama_probe_observe(struct wane__llama *engine, const struct ggml_tensor *node);
int wane__llama_set_probe(struct wane__engine *engine, const struct wane__probe *probe, wane_error *error);
void wane__llama_layer_facts(struct wane__engine *engine, int layer, struct wane__layer_facts *facts);
/* Only while a probe is on: a decode begins; a node is about to be computed (true: stop behind it); the graph stopped. */
void wane__llama_probe_begin(struct wane__llama *engine, const struct wane__item *items, int count);
bool wane__llama_probe_ask(struct wane__llama *engine, const struct ggml_tensor *node);
void wane__llama_probe_show(struct wane__llama *engine);
static inline void wane__llama_probe_moved(struct wane__llama *engine, int seq, int from, int keep) {
    if (engine->probe.on) engine->probe.set.calls->moved(engine->probe.set.user, seq, from, keep);
}

/* ------------------------------------------------------------- llama_head.c */

/* Warm-up decodes, facts of the head, self-check. Leaves the KV empty. */
int wane__llama_head_open(struct wane__llama *engine, wane_error *error);
int wane__llama_rescore(struct wane__engine *engine, const float *hidden, const int32_t *ids, int count,
                        float *logits);
size_t wane__llama_rescore_size(struct wane__engine *engine);
int wane__llama_rescore_seen(struct wane__engine *engine, const void *prepared, float *out);
int wane__llama_rescore_prepare(struct wane__engine *engine, const float *hidden, void *prepared);
int wane__llama_rescore_prepared(struct wane__engine *engine, const void *prepared, const int32_t *ids,
                                 int count, float *logits);
int wane__llama_head_rows(struct wane__engine *engine, int first, int count, float *out);

/* ------------------------------------------------------------- llama_text.c */

int wane__llama_markers_open(struct wane__llama *engine, wane_error *error);
void wane__llama_markers_close(struct wane__markers *markers);
/* Longest marker that `text` starts with, or NULL. */
const struct wane__marker *wane__llama_marker_at(const struct wane__markers *markers, const char *text,
                                                 size_t size);
int wane__llama_tokenize(struct wane__engine *engine, const char *text, size_t size, unsigned flags,
                         wane_tokens *out, wane_error *error);
int wane__llama_token_bytes(struct wane__engine *engine, int32_t token, bool control, char *buffer,
                            size_t capacity);
bool wane__llama_is_end(struct wane__engine *engine, int32_t token);
/*
 * Tokenise trusted text in which no control token may be found across the positions `cuts` (ascending):
 * an occurrence that starts before and ends after one of them is plain text.
 */
int wane__llama_tokenize_cut(struct wane__llama *engine, const char *text, size_t size, const size_t *cuts,
                             size_t cut_count, wane_tokens *out, wane_error *error);

/* ------------------------------------------------------------- llama_chat.c */

int wane__llama_template_open(struct wane__llama *engine, wane_error *error);
void wane__llama_template_close(struct wane__llama *engine);
int wane__llama_chat(struct wane__engine *engine, const wane_message *messages, size_t count,
                     wane_tokens *out, struct wane__buf *text, wane_error *error);

/* -------------------------------------------------------- llama_reference.c */

int wane__llama_reference_new(struct wane__engine *engine, int streams, void **reference, wane_error *error);
int wane__llama_reference_run(void *reference, const wane_tokens *prompts, int steps, int32_t *out,
                              double *ms, wane_error *error);
void wane__llama_reference_free(void *reference);

#endif
