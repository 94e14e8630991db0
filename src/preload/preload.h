/*
 * preload.h - what the files of libwane-preload share. Nothing outside src/preload includes it (its test does).
 *
 *     wraps.c      the functions of libllama that a program calls, and what each of them does here
 *     stubs.c      their names: a call to a libllama that wane does not know is handed on as it came
 *     library.c    which libllama a call was meant for; is it one that wane knows
 *     under.c      a context with the head under it: which head a decode gets, hidden rows, checks
 *     row.c        a row of logits as it is handed back: what it must hold, and how it is made
 *     samplers.c   which samplers live in the process, and what they can choose from
 *     sketch.c     models by their files; a model's sketch, made by a process of its own where there is none
 *     report.c     settings from the environment, lines on standard error, counters, WANE_STATS, forks
 *
 * The library is a guest. It never ends or stops its host, and says nothing on standard output; whatever goes wrong in it turns
 * the head off, and libllama's own runs. It holds no lock while libllama decodes.
 */
#ifndef WANE_PRELOAD_H
#define WANE_PRELOAD_H

#include "engine/abi.h"
#include "head/head.h"
#include "pace.h"

#include <pthread.h>
#include <stdatomic.h>

/* ------------------------------------------------------------------ report.c */

enum wane__under_head { WANE__UNDER_CERTIFIED, WANE__UNDER_ALWAYS, WANE__UNDER_DENSE };

struct wane__under_settings {
    bool quiet, build;
    bool share_always; /* a row holds the share's tokens even where samplers want less */
    enum wane__under_head head;
    double sigmas, share, shadow;
    char stats[1024];   /* WANE_STATS; "": none                     */
    char program[1024]; /* wane itself, which makes sketches; "": not known */
};
/* Read from the environment once; what is there in a wrong form is left at its default, and said. */
const struct wane__under_settings *wane__under_settings(void);

/* "wane: …" on standard error, unless quiet. */
void wane__under_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Why a row came from libllama's own head. */
enum wane__why {
    WANE__WHY_OFF,    /* this context has no certified head                         */
    WANE__WHY_LEARN,  /* to look at the graph, to compare, to take the time         */
    WANE__WHY_WHOLE,  /* a sampler that lives looks at the whole vocabulary         */
    WANE__WHY_AGAIN,  /* the row was read a second time: logprobs, a grammar        */
    WANE__WHY_MANY,   /* too many tokens can matter: all of them cost no more       */
    WANE__WHY_ROWS,   /* more rows in one decode than the head takes                */
    WANE__WHY_ORDER,  /* several rows whose order in the graph is not certain       */
    WANE__WHY_BATCH,  /* so many rows at once have other bits than single ones      */
    WANE__WHY_PACE,   /* libllama's head has been the faster one lately             */
    WANE__WHY_FAILED, /* the head failed at this row                                */
    WANE__WHYS
};

struct wane__under_counts {
    _Atomic uint64_t contexts, open;  /* made; not freed yet        */
    _Atomic uint64_t rows, certified; /* wanted; of them, certified */
    _Atomic uint64_t dense[WANE__WHYS];
    _Atomic uint64_t checked, divergent;
    /* Nanoseconds of checked single rows: up to the head, libllama's head, ours; and of the copy that libllama makes anyway. */
    _Atomic uint64_t body, head_dense, head_ours, copy, copies;
};
extern struct wane__under_counts wane__under_counts;
static inline void wane__count(_Atomic uint64_t *counter, uint64_t more) {
    atomic_fetch_add_explicit(counter, more, memory_order_relaxed);
}
/* Write WANE_STATS, if it is wanted. */
void wane__under_write_stats(void);
/* A fork's child: its contexts are dead, its counters new. Set up once, by the first context. */
void wane__under_watch_forks(void);

/* ----------------------------------------------------------------- library.c */

/* Functions of libllama that wraps.c stands before. */
#define WANE__WRAPPED(X)                        \
    X(llama_model_load_from_file)               \
    X(llama_load_model_from_file)               \
    X(llama_model_load_from_splits)             \
    X(llama_model_free)                         \
    X(llama_free_model)                         \
    X(llama_init_from_model)                    \
    X(llama_new_context_with_model)             \
    X(llama_free)                               \
    X(llama_decode)                             \
    X(llama_get_logits)                         \
    X(llama_get_logits_ith)                     \
    X(llama_set_embeddings)                     \
    X(llama_set_causal_attn)                    \
    X(llama_set_embeddings_nextn)               \
    X(llama_set_adapters_lora)                  \
    X(llama_set_sampler)                        \
    X(llama_attach_threadpool)                  \
    X(llama_detach_threadpool)                  \
    X(llama_opt_init)                           \
    X(llama_sampler_sample)                     \
    X(llama_sampler_init)                       \
    X(llama_sampler_apply)                      \
    X(llama_sampler_clone)                      \
    X(llama_sampler_free)                       \
    X(llama_sampler_chain_init)                 \
    X(llama_sampler_chain_add)                  \
    X(llama_sampler_chain_remove)               \
    X(llama_sampler_init_greedy)                \
    X(llama_sampler_init_dist)                  \
    X(llama_sampler_init_top_k)                 \
    X(llama_sampler_init_top_p)                 \
    X(llama_sampler_init_min_p)                 \
    X(llama_sampler_init_temp)                  \
    X(llama_sampler_init_temp_ext)              \
    X(llama_sampler_init_xtc)                   \
    X(llama_sampler_init_penalties)             \
    X(llama_sampler_init_dry)                   \
    X(llama_sampler_init_logit_bias)            \
    X(llama_sampler_init_typical)               \
    X(llama_sampler_init_top_n_sigma)           \
    X(llama_sampler_init_mirostat)              \
    X(llama_sampler_init_mirostat_v2)           \
    X(llama_sampler_init_grammar)               \
    X(llama_sampler_init_grammar_lazy_patterns) \
    X(llama_sampler_init_adaptive_p)            \
    X(llama_sampler_init_infill)

enum wane__wrapped {
#define WANE__WRAP_ID(name) WANE__WRAP_##name,
    WANE__WRAPPED(WANE__WRAP_ID)
#undef WANE__WRAP_ID
        WANE__WRAP_COUNT
};

/* Are there stubs that keep a call as it is until it is known whom it reaches (stubs.c)? */
#if defined(__ELF__) && (defined(__x86_64__) || defined(__aarch64__))
#define WANE__STUBS 1
#else
#define WANE__STUBS 0
#endif
/* Ours, by number. */
extern void (*const wane__wraps[])(void);

/* A libllama in this process. Lives as long as the process. */
struct wane__library {
    const char *base, *end; /* where it is mapped; end NULL: not known */
    struct wane__abi abi;
    bool known;
    char reason[500];                     /* why not        */
    void (*real[WANE__WRAP_COUNT])(void); /* NULL: it has none */
};
/* The one that a call from address `caller` was meant for; NULL: there is none. */
struct wane__library *wane__library_of(const void *caller);
/* Is this an address of that library itself? */
bool wane__library_holds(const struct wane__library *library, const void *address);
/* The one that was found last, for reports; NULL. */
struct wane__library *wane__library_seen(void);
/* After a fork, in the child: the lock is free. */
void wane__library_reset_lock(void);

/* ------------------------------------------------------------------ sketch.c */

/* Rows of one decode that the head takes, at most. */
enum { WANE__UNDER_PATH = 4096, WANE__UNDER_ROWS = 8 };

struct wane__under_model {
    struct llama_model *model;
    struct wane__under_model *next;
    char path[WANE__UNDER_PATH]; /* "": not known */
    char name[128];
    pthread_mutex_t lock;              /* of what follows */
    char digest[33];                   /* "": nobody asked yet */
    bool tried;                        /* its sketch was looked for, and made if need be */
    bool told;                         /* how its head is was said */
    char reason[500];                  /* why it has none */
    const struct ggml_tensor *weights; /* of its head, when they were compared */
    bool equal[WANE__UNDER_ROWS + 1];  /* by how many rows at once             */
};
/* A model was loaded from this file (NULL: from no single one), or is freed. */
void wane__under_model_add(struct llama_model *model, const char *path);
void wane__under_model_drop(struct llama_model *model);
/* After a fork, in the child: locks are free. */
void wane__under_models_reset_lock(void);
/* Never NULL but without memory: a model that nobody saw being loaded has no path. */
struct wane__under_model *wane__under_model_of(struct llama_model *model);
/* Open the model's sketch for these weights. On failure a reason in `error`. */
int wane__under_sketch_open(struct wane__under_model *model, const struct wane__head_weights *weights,
                            int threads, int rows, struct wane__head **head, wane_error *error);

/* ---------------------------------------------------------------- samplers.c */

enum { WANE__NEED_NAMED = 64, WANE__NEED_BEST = 4096 };

/* What a row must hold exactly. */
struct wane__need {
    bool whole;      /* all of it                                                                 */
    int best;        /* the best so many                                                          */
    double distance; /* above 0: every token whose logit is no further than this below the best   */
    int named_count;
    int32_t named[WANE__NEED_NAMED]; /* and these */
};

enum wane__sampler_kind {
    WANE__SAMPLER_NOTHING, /* changes nothing (switched off), or draws nothing in                */
    WANE__SAMPLER_BEST,    /* keeps the best `count`: top-k, greedy, temperature 0                */
    WANE__SAMPLER_SHARE,   /* keeps what has `value` of the best one's probability: min-p         */
    WANE__SAMPLER_DRAW,    /* looks at all that carry probability, and ends the choice: dist      */
    WANE__SAMPLER_LOOK,    /* the same, and goes on: top-p, xtc                                   */
    WANE__SAMPLER_HEAT,    /* divides logits by `value`                                           */
    WANE__SAMPLER_LOWER,   /* lowers logits of at most `count` tokens                             */
    WANE__SAMPLER_BIAS,    /* lowers `count`, raises the named ones                               */
    WANE__SAMPLER_WHOLE,   /* looks at everything, or nobody knows at what                        */
};

struct wane__sampler_spec {
    enum wane__sampler_kind kind;
    int count;
    double value;
    bool drops_best; /* it may, as XTC does */
    int named_count;
    int32_t named[WANE__NEED_NAMED];
};

/* A sampler was made; made anew, where it was known as another. NULL is ignored. */
void wane__sampler_made(const void *sampler, const struct wane__sampler_spec *spec);
void wane__sampler_made_chain(const void *chain);
void wane__sampler_cloned(const void *from, const void *to);
void wane__sampler_freed(const void *sampler);
void wane__sampler_added(const void *chain, const void *sampler);
void wane__sampler_removed(const void *chain, int at, const void *sampler);
/* The program itself, not a chain, applies it. */
void wane__sampler_applied(const void *sampler);
/* What one sampler can choose from; NULL: any that lives. `vocab` bounds what makes sense. */
void wane__sampler_need(const void *sampler, int vocab, struct wane__need *need);
/* After a fork, in the child: the lock is free. */
void wane__samplers_reset_lock(void);

/* ------------------------------------------------------------------- under.c */

enum wane__under_kind {
    WANE__DECODE_PLAIN, /* nothing of ours in it                          */
    WANE__DECODE_LOOK,  /* libllama's head runs; the graph is looked at    */
    WANE__DECODE_TIMED, /* libllama's head runs, and is timed              */
    WANE__DECODE_CHECK, /* libllama's head runs, ours too: compared, timed */
    WANE__DECODE_OURS,  /* the graph ends before the head                  */
};

struct wane__under_row {
    enum { WANE__ROW_RAW, WANE__ROW_SOME, WANE__ROW_WHOLE } state; /* what its logits hold */
    int reads;
};

/* A context with the head under it. */
struct wane__under {
    struct llama_context *context;
    struct wane__library *library;
    struct wane__under_model *model;
    struct wane__under *next;
    pthread_mutex_t lock; /* rows and the head */
    bool dead;            /* made before a fork: nothing of it is touched any more */

    ggml_backend_sched_eval_callback program; /* the program's own callback; NULL */
    void *program_user;
    bool program_wants, behind; /* the node just asked for; behind the last norm */
    bool looks_behind;          /* the program wants nodes there                 */

    bool embeddings, acausal, nextn;
    bool off;
    char reason[500];
    struct wane__ggml_head head;
    struct wane__head *certified;
    int vocab, d, rows_most, ubatch;
    uint64_t adapters; /* as wane__under_adapters has it */
    int8_t width[WANE__UNDER_ROWS +
                 1]; /* bits of so many rows in a decode: 0 not known, 1 as single ones, -1 not */
    struct wane__pace pace;
    ggml_threadpool_t pool[2]; /* the program's, for its graphs; NULL: it has none */
    void (*pause)(ggml_threadpool_t pool);
    uint64_t decodes;             /* that could be checked */
    struct wane__candidate *list; /* WANE__NEED_BEST + 1 of them */

    /* The decode under way, or the last one. */
    enum wane__under_kind kind;
    bool decoding;
    int wanted, seen, scanned, scanned_end;
    float *hidden; /* WANE__UNDER_ROWS × d */
    struct wane__under_row row[WANE__UNDER_ROWS];
    double began, at_head, spent;
};

/* A new context, before and after it was made. `under` NULL: it stays alone. */
struct wane__under *wane__under_prepare(struct wane__library *library, struct llama_model *model,
                                        struct llama_context_params *params);
void wane__under_keep(struct wane__under *under, struct llama_context *context); /* NULL: it failed */
struct wane__under *wane__under_take(const struct llama_context *context);       /* off the list; NULL */
void wane__under_free(struct wane__under *under);
struct wane__under *wane__under_of(const struct llama_context *context);
void wane__under_begin(struct wane__under *under, const struct llama_batch *batch);
void wane__under_end(struct wane__under *under, int status);
/* Adapters by a hash of which they are and their scales, 0: none. Other ones than before: the graph may have another head now. */
void wane__under_adapters(struct wane__under *under, uint64_t name);
void wane__under_turn_off(struct wane__under *under, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A child of a fork: contexts of before are dead. */
void wane__under_forked(void);

/* --------------------------------------------------------------------- row.c */

/* Row `row` of the last decode, which libllama keeps at `logits`, as somebody reads it who needs `need`. */
void wane__row_read(struct wane__under *under, int row, float *logits, const struct wane__need *need,
                    bool counts);
/* Compare row `row` with libllama's own logits; false: they differ, and `token` says where. Takes the time of ours. */
bool wane__row_check(struct wane__under *under, int row, const float *dense, const struct wane__need *need,
                     int32_t *token, double *seconds);

#endif
