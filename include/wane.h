/*
 * wane.h - the public interface of libwane, the decode layer that goes to zero.
 *
 * Objects. A `wane_model` is a loaded model with its engine; it outlives whatever was made from it.
 * On a model stands either ONE `wane_session` (one sequence, no threads, the caller's loop) or ONE
 * `wane_scheduler` (many sequences, an engine thread of its own); a `wane_server` puts HTTP in front
 * of a scheduler. What a function makes through an out-parameter is the caller's to free.
 *
 * The loop that a caller writes:
 *
 *     wane_model_options mo;  wane_model_options_init(&mo);  mo.path = "model.gguf";
 *     wane_model *m;          wane_model_load(&mo, &m, NULL);
 *     wane_tokens p = {0};    wane_chat_tokenize(m, messages, 2, &p, NULL);
 *     wane_generation g;      wane_generation_init(&g);
 *     wane_session *s;        wane_session_new(m, &s, NULL);
 *     wane_session_start(s, p.id, p.count, &g, NULL);
 *     for (wane_event e; wane_session_next(s, &e, NULL) == WANE_OK && e.kind == WANE_EVENT_TEXT;)
 *         fwrite(e.text, 1, e.text_size, stdout);
 *     wane_session_free(s);   wane_tokens_free(&p);   wane_model_free(m);
 *
 * Rules that hold everywhere. Functions that can fail return WANE_OK (0) or a negative WANE_E code and
 * put a sentence for people into `error` when it is not NULL. The library never exits, prints or
 * aborts, and has no mutable globals. Text is UTF-8. Strings passed in are copied unless said
 * otherwise. Free functions accept NULL. Structs with a `size` field are set up by their _init
 * function, so that later versions can add fields.
 */
#ifndef WANE_H
#define WANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WANE_VERSION_MAJOR 0
#define WANE_VERSION_MINOR 1
#define WANE_VERSION_PATCH 0
#define WANE_VERSION       "0.1.0"

#if defined(__GNUC__) && !defined(WANE_STATIC)
#define WANE_API __attribute__((visibility("default")))
#else
#define WANE_API
#endif

/* ------------------------------------------------------------------ errors */

enum {
    WANE_OK = 0,
    WANE_EINVAL = -1,        /* an argument is wrong; the text says which                       */
    WANE_ENOMEM = -2,        /* no memory                                                       */
    WANE_EIO = -3,           /* reading or writing failed                                       */
    WANE_ENOENT = -4,        /* there is no such file, model or object                          */
    WANE_EFORMAT = -5,       /* a file or message is not what it says it is                     */
    WANE_EENGINE = -6,       /* the engine failed; the request is lost, the process is not      */
    WANE_ECONTEXT = -7,      /* the prompt does not fit the context; the text names both sizes  */
    WANE_EBUSY = -8,         /* the queue is full: try again later                              */
    WANE_ECANCELLED = -9,    /* the caller, or the caller's client, gave up                     */
    WANE_ETIMEOUT = -10,     /* a deadline or a wait ran out                                    */
    WANE_EUNSUPPORTED = -11, /* asked for in good form, but this model or build cannot          */
    WANE_EAUTH = -12,        /* no key, or a wrong one                                          */
    WANE_ESHUTDOWN = -13,    /* the scheduler or server is stopping                             */
    WANE_EADDRESS = -14,     /* cannot listen on that address                                   */
    WANE_EINTERNAL = -15     /* a fault of wane itself; please report it                        */
};

typedef struct wane_error {
    int code;
    char text[500]; /* what is wrong, where, and what to do; always terminated */
} wane_error;

/* Name of a code, such as "WANE_EINVAL"; "WANE_E?" for an unknown one. Static storage. */
WANE_API const char *wane_strerror(int code);

/* "0.1.0", static storage. */
WANE_API const char *wane_version(void);
/* Version of the engine that was linked, such as "0.4.0 (commit)"; static storage. */
WANE_API const char *wane_engine_version(void);
/* The path of a file that ships with wane, such as "governor/questions.tsv"; false: it is nowhere, or the path is longer than `room`. */
WANE_API bool wane_shipped_file(const char *name, char *out, size_t room);

/* ------------------------------------------------------------------- model */

enum { WANE_LOG_ERROR = 0, WANE_LOG_WARN = 1, WANE_LOG_INFO = 2, WANE_LOG_DEBUG = 3 };

/* A log line without a line end. Called from any thread, never from two at once. */
typedef void (*wane_log_fn)(void *user, int level, const char *line);
/* Progress of something long: what, and a share in 0..1. Return false to stop it (WANE_ECANCELLED). */
typedef bool (*wane_progress_fn)(void *user, const char *what, double share);

typedef struct wane_model_options {
    size_t size;
    const char *path;      /* the GGUF file                                                       */
    const char *name;      /* what the API calls it; NULL: the file's name without its ending      */
    const char *backends;  /* folder of the engine's plug-ins; NULL: as built or installed         */
    int threads;           /* for decoding; 0: one a physical core                                 */
    int batch_threads;     /* for prompts; 0: as threads                                           */
    int context;           /* tokens that one sequence may hold; 0: the trained size, at most 4096 */
    int sequences;         /* sequences at once, 1..64; default 1                                  */
    int batch;             /* tokens in one engine call, 32..4096; default 512                     */
    int gpu_layers;        /* layers on a GPU; -1 (default): as many as fit                        */
    const char *kv_type_k; /* "f16" (default), "f32", "bf16", "q8_0", "q4_0", …                    */
    const char *kv_type_v;
    int flash_attention;     /* -1 (default): the engine decides; 0 off; 1 on                        */
    bool no_mmap;            /* read the weights instead of mapping them                             */
    int repack;              /* -1 (default), 0, 1: interleave weights for wide kernels; docs/draft.md */
    bool mlock;              /* keep the weights in memory                                           */
    bool vocab_only;         /* load the tokenizer only: tokenise, render, no decoding               */
    int head;                /* WANE_HEAD_…; default WANE_HEAD_CERTIFIED                             */
    const char *head_folder; /* where sketches are kept; NULL: sketches/ in the user's cache folder  */
    bool head_rebuild;       /* build the sketch even where there is one                             */
    bool head_found;         /* take a sketch that is there; never build one                         */
    const char *
        head_statistics; /* what it is built from: a file of wane_model_write_statistics; NULL: a text that ships */
    float head_sigmas;       /* k: see wane_head_state; 3..12, default 6                             */
    bool head_always;        /* certified even where the dense head is the faster one                */
    const char *head_kernel; /* "plain", "avx2", "avx512-vnni", "neon"; NULL or "auto": the best   */
    double shadow;           /* share of tokens that are also computed densely; 0..1, default 0.001  */
    int draft;               /* WANE_DRAFT_…; default WANE_DRAFT_AUTO                                */
    int draft_most;          /* tokens in a draft, 1..47; default 47                                 */
    wane_log_fn log;         /* NULL: silent                                                         */
    void *log_user;
    wane_progress_fn progress; /* NULL: none                                                         */
    void *progress_user;
} wane_model_options;

WANE_API void wane_model_options_init(wane_model_options *options);

typedef struct wane_model wane_model;

/*
 * Load a model and make its engine ready; a warm-up decode has run when this returns. One model can
 * carry one session or one scheduler at a time (WANE_EBUSY otherwise).
 */
WANE_API int wane_model_load(const wane_model_options *options, wane_model **model, wane_error *error);
WANE_API void wane_model_free(wane_model *model);

/* Facts of a loaded model. Strings live as long as the model; "" where the file does not say. */
typedef struct wane_model_facts {
    const char *name;
    const char *path;
    const char *architecture;  /* "llama", "gemma3", "qwen2", …                                */
    const char *description;   /* as the engine words it: "llama 135M Q4_1"                    */
    const char *engine;        /* "llama.cpp 0.4.0", or "script"                               */
    const char *template_kind; /* "file" (from the model), "chatml" (none in the file)         */
    uint64_t file_bytes;
    uint64_t parameters;
    int vocab_size;     /* V                                                            */
    int embedding_size; /* d                                                            */
    int layers;
    int trained_context;
    int context; /* tokens that one sequence may hold                            */
    int sequences;
    int threads;
    const char *head_tensor;    /* name of the LM head's weights, "token_embd.weight" if tied   */
    const char *head_type;      /* "q8_0", "q6_K", …                                            */
    const char *head_buffer;    /* where the engine keeps it: "CPU", "CPU_REPACK", …            */
    bool head_tied;             /* shares its weights with the input embedding                  */
    bool head_plain;            /* the product with the head, and at most a scale, follows `result_norm` */
    bool rescoring_exact;       /* rescored logits equalled the dense head's in the self-check  */
    bool rescoring_exact_batch; /* the same where one batch gives several rows                */
    bool recurrent;             /* holds recurrent state: no partial prefix reuse               */
    int bos, eos, eot;          /* token ids, -1 where there is none                            */
} wane_model_facts;

WANE_API const wane_model_facts *wane_model_get_facts(const wane_model *model);

/* -------------------------------------------------------------------- head */

/*
 * Where candidates come from. CERTIFIED: from a sketch of the LM head, by a proof that no other token can belong to
 * the answer; the tokens are those of the dense head. Where the model does not allow it, or the sketch can neither be
 * read nor written, it is the dense head all the same, and wane_head_state says why. DENSE: the engine's head, V rows
 * for every token. NONE, for measuring only: no head at all, every token is the prompt's last one again; what is left is
 * the time of the body.
 */
enum { WANE_HEAD_CERTIFIED = 0, WANE_HEAD_DENSE = 1, WANE_HEAD_NONE = 2 };

/* Choose the head from now on; WANE_EBUSY while a session or a scheduler stands on the model. */
WANE_API int wane_model_set_head(wane_model *model, int head, wane_error *error);

/* A moment's picture of the head. Strings live as long as the model. Counters never fall. */
typedef struct wane_head_state {
    bool certified;     /* the next token will be                                             */
    const char *reason; /* why it will not; "" otherwise                                      */
    /* The sketch; zeros and "" where there is none. */
    const char *path;
    const char *kernel;              /* "avx2", "avx512-vnni", "neon", "plain"                        */
    double bits_level1, bits_level2; /* a weight                                                      */
    uint64_t bytes;
    int64_t statistics_rows;    /* hidden rows that its basis was taken from                     */
    bool built;                 /* by this load; else it was there                               */
    double sigmas;              /* k                                                             */
    double failure_probability; /* that k misses a given token                                   */
    /* Counters. */
    uint64_t rows, questions;                  /* hidden rows scanned; questions of the sampler        */
    uint64_t survivors1, survivors2, rescored; /* after level 1, after level 2, computed exactly       */
    uint64_t dense_many, dense_sum; /* answered by computing all: too many survived; a sum was asked for */
    uint64_t dense_batch;           /* rows of batches in which rescoring is not exact                 */
    uint64_t dense_off;             /* rows while the head was dense                                   */
    uint64_t dense_pace;            /* rows for which the dense head was the faster one                */
    uint64_t dense_whole;           /* rows of which all logits were wanted (logprobs)                 */
    uint64_t dense_without;         /* rows of batches in which a request was without the certified head */
    uint64_t shadow_checks, divergences; /* tokens also computed densely; of these, other than certified */
} wane_head_state;

/* Thread-safe. */
WANE_API void wane_model_get_head_state(wane_model *model, wane_head_state *state);

/*
 * Digest of the model file as 32 hex digits (XXH3, 128 bits) in `hex` (33 bytes). Computed at the
 * first call by reading the whole file, kept afterwards. Not a defence against forgery.
 */
WANE_API int wane_model_digest(wane_model *model, char hex[33], wane_error *error);

/* --------------------------------------------------------- text and tokens */

typedef struct wane_tokens { /* start from {0} */
    int32_t *id;
    size_t count, capacity;
} wane_tokens;

WANE_API void wane_tokens_free(wane_tokens *tokens);

enum {
    WANE_TOKENIZE_SPECIAL = 1, /* add BOS where the model wants it                                  */
    WANE_TOKENIZE_CONTROL = 2  /* let "<|im_end|>" and the like become control tokens: trusted text */
};

/* Append the tokens of `text` (UTF-8, any bytes) to `out`. */
WANE_API int wane_tokenize(const wane_model *model, const char *text, size_t text_size, unsigned flags,
                           wane_tokens *out, wane_error *error);

/*
 * The bytes of one token, into `buffer` (not terminated); returns their number, or WANE_EINVAL if the
 * token does not exist or needs more than `capacity` bytes. Control tokens give their name when
 * `control` is set, else nothing. One token may be part of a character.
 */
WANE_API int wane_token_bytes(const wane_model *model, int32_t token, bool control, char *buffer,
                              size_t capacity);

typedef struct wane_message {
    const char *role;    /* "system", "user", "assistant" */
    const char *content; /* UTF-8                         */
    size_t content_size;
} wane_message;

/*
 * Render a conversation by the model's chat template, ready for the assistant's turn, and append its
 * tokens to `out`. Control markers inside `content` stay ordinary text: they never become control
 * tokens. If the last message is the assistant's, the turn is left open and the reply continues it.
 */
WANE_API int wane_chat_tokenize(const wane_model *model, const wane_message *messages, size_t count,
                                wane_tokens *out, wane_error *error);

/*
 * The head's statistics for texts of your own: mean and covariance of the hidden rows that these conversations give, into the
 * file `path`, for wane_model_options.head_statistics. A sketch that was made for the traffic that it serves leaves fewer
 * rows to compute; the tokens are the same with any. `rows` (may be NULL) receives how many were taken. WANE_EBUSY while a
 * session or a scheduler stands on the model.
 */
typedef struct wane_conversation {
    const wane_message *messages;
    size_t count;
} wane_conversation;
WANE_API int wane_model_write_statistics(wane_model *model, const wane_conversation *conversations,
                                         size_t count, const char *path, wane_progress_fn progress,
                                         void *progress_user, int64_t *rows, wane_error *error);

/* The same as text, for people to look at; free() it. */
WANE_API int wane_chat_render(const wane_model *model, const wane_message *messages, size_t count,
                              char **text, wane_error *error);

/* -------------------------------------------------------------- generation */

#define WANE_MAX_TOP_LOGPROBS 20

typedef struct wane_bias {
    int32_t token;
    float bias; /* added to the logit; -INFINITY forbids the token */
} wane_bias;

/* How tokens are drawn. Order and meaning are llama.cpp's: bias, penalties, top-k, top-p, min-p, temperature. */
typedef struct wane_sampling {
    float temperature;       /* 0: greedy; default 0.8                                            */
    int top_k;               /* 0: all; default 40                                                */
    float top_p;             /* 1: off; default 0.95; taken at temperature 1, as llama.cpp does   */
    float min_p;             /* 0: off; default 0.05                                              */
    float repeat_penalty;    /* 1: off (default)                                                  */
    float presence_penalty;  /* 0: off (default)                                                  */
    float frequency_penalty; /* 0: off (default)                                                  */
    int penalty_window;      /* last tokens the penalties look at; default 64; 0: off; -1: all    */
    uint64_t seed;           /* used when `seeded`; else drawn from the system                    */
    bool seeded;
    const wane_bias *bias; /* at most 1,024                                                     */
    size_t bias_count;
    int top_logprobs; /* -1: no logprobs (default); 0..20: the token's, and so many others */
} wane_sampling;

typedef struct wane_quality wane_quality;                   /* wane/quality.h */
typedef struct wane_classifier wane_classifier;             /* wane/domains.h */
typedef struct wane_feedback_options wane_feedback_options; /* wane/feedback.h */
typedef struct wane_alert_options wane_alert_options;       /* wane/alerts.h */
typedef struct wane_rollout_wish wane_rollout_wish;         /* wane/rollout.h */
typedef struct wane_audit_options wane_audit_options;       /* wane/audit.h */

typedef struct wane_generation {
    size_t size;
    wane_sampling sampling;
    int max_tokens;              /* 0 (default): until the context is full                            */
    const char *const *stops;    /* stop strings, not empty; matched on text, never part of the reply */
    size_t stop_count;           /* at most 16, each at most 1,024 bytes                              */
    bool ignore_end;             /* go on past the model's end-of-turn tokens                         */
    const char *tenant;          /* prefix reuse never crosses tenants; NULL: ""                      */
    uint32_t deadline_ms;        /* from submission to the last token; 0: none                        */
    bool no_draft;               /* verify nothing ahead: the same tokens, one by one                 */
    const char *id;              /* its name in traces, at most 64 characters; NULL: one is made up   */
    int kind;                    /* for traces: WANE_KIND_…; default WANE_KIND_SINGLE                 */
    bool no_memo;                /* neither repeat what was answered before, nor keep this            */
    const wane_quality *quality; /* what may change the answer; NULL: nothing                      */
    int hold;                    /* what a reader sees of a vote: WANE_HOLD_…; default WANE_HOLD_NOTE */
    unsigned without; /* 1 << WANE_FEATURE_… (wane/rollout.h) for each that it is decoded without */
    bool view;        /* say of each token how it was decided (wane/view.h); costs some microseconds each */
} wane_generation;

WANE_API void wane_generation_init(wane_generation *generation);
/* Check the values' ranges; WANE_EINVAL names the field, its value and its range. */
WANE_API int wane_generation_check(const wane_generation *generation, int vocab_size, wane_error *error);

typedef enum wane_event_kind {
    WANE_EVENT_START = 1, /* the prompt is in; `prompt_tokens`, `reused_tokens` are set           */
    WANE_EVENT_TEXT = 2,  /* one token was decoded; `text` may be empty while text is held back   */
    WANE_EVENT_END = 3    /* the reply is complete; `finish` says why; `text` is what was held    */
} wane_event_kind;

typedef enum wane_finish {
    WANE_FINISH_NONE = 0,
    WANE_FINISH_END,     /* the model ended its turn  */
    WANE_FINISH_STOP,    /* a stop string             */
    WANE_FINISH_LENGTH,  /* max_tokens                */
    WANE_FINISH_CONTEXT, /* the context is full       */
    WANE_FINISH_FUSE     /* the fuse (wane/quality.h) */
} wane_finish;

typedef struct wane_view wane_view; /* wane/view.h */

typedef struct wane_logprob {
    int32_t token;
    float logprob; /* natural log, the whole vocabulary's normaliser, temperature 1, before penalties */
} wane_logprob;

typedef struct wane_event {
    wane_event_kind kind;
    /* TEXT and END: valid UTF-8, possibly empty, not terminated; valid until the next call. */
    const char *text;
    size_t text_size;
    int32_t token; /* TEXT: the token; -1 if this text came without one      */
    bool has_logprob;
    float logprob;           /* of the token                                           */
    const wane_logprob *top; /* best first                                             */
    int top_count;
    wane_finish finish;                   /* END                                                    */
    const char *stop;                     /* END by a stop string: which                            */
    int prompt_tokens;                    /* START and END                                          */
    int reused_tokens;                    /* of these, kept from an earlier request                 */
    int reply_tokens;                     /* decoded so far; the token that ended the turn included */
    bool drafted;                         /* TEXT: the token was drafted, and accepted              */
    double queue_ms, prompt_ms, reply_ms; /* END: waiting; until the first token; from there   */
    /* END of a reply whose answers were voted on (wane/quality.h). */
    int answers;      /* so many; 0: there was no vote                                             */
    int chosen;       /* which one stands; 0: the first                                            */
    int forked_at;    /* tokens of the reply that all answers share                                */
    int spare_tokens; /* decoded for other answers than the one that was given out                 */
    bool by_value;    /* two answers had the same final value                                      */
    /* The text that stands, whole, where the reader was given another one (WANE_HOLD_NOTE); else NULL. */
    const char *chosen_text;
    size_t chosen_size;
    /* END by the fuse (wane/quality.h); `text` ends with the fallback's. */
    int fuse;          /* WANE_FUSE_…, the rule; 0: it did not end the reply                       */
    int fallback;      /* WANE_FALLBACK_…                                                          */
    int fuse_period;   /* tokens of the piece that repeats; 0: the plain rule, which does not look */
    float fuse_spread; /* standard deviation of the last entropies, nats                           */
    /* Other whole answers, with other texts than the one that was given out; the one that stands first. */
    int other_count;
    const char *other[2];
    size_t other_size[2];
    const wane_view *view; /* TEXT, where wane_generation.view asked for it; else NULL. As long as `text`. */
} wane_event;

/* ----------------------------------------------- one sequence, no threads */

typedef struct wane_session wane_session;

WANE_API int wane_session_new(wane_model *model, wane_session **session, wane_error *error);
WANE_API void wane_session_free(wane_session *session);
/*
 * Begin a reply to `tokens` (the whole context, every time: what it shares with the context before is
 * kept and not computed again). WANE_ECONTEXT if it leaves no room for one token.
 */
WANE_API int wane_session_start(wane_session *session, const int32_t *tokens, size_t count,
                                const wane_generation *generation, wane_error *error);
/*
 * The next event: START is not given here, TEXT for each token, then END once. WANE_EINVAL when
 * nothing was started or the end was given already; WANE_ECANCELLED after wane_session_interrupt.
 */
WANE_API int wane_session_next(wane_session *session, wane_event *event, wane_error *error);
/* Ask a running start or next to stop soon. May be called from a signal handler or another thread. */
WANE_API void wane_session_interrupt(wane_session *session);

/* ------------------------------------------------- many sequences at once */

typedef struct wane_scheduler_options {
    size_t size;
    int queue;              /* requests that may wait; default 64; more get WANE_EBUSY             */
    int window_ms;          /* how long the first request of an idle moment waits for company; 5   */
    int max_batch_requests; /* sequences in one engine call; default 32                            */
    int prompt_chunk;       /* prompt tokens in one call while others decode; default 128          */
    int prompt_share;       /* and at most so many for each row of theirs, but 16 always may go: so a prompt
                               delays a call that carries few by less; default 4; 0: prompt_chunk alone */
    int watchdog_ms;        /* an engine call that takes longer counts as stuck, unless calls have been
                               seen to take long (docs/alerts.md); default 10000; 0: none ever does */
    uint32_t max_ms;        /* server limit on a request's deadline; 0: none                       */
    bool no_prefix_reuse;
    bool
        drill; /* wake a vote once before the first request, so that the first real one costs nothing extra */
    int practice_ms; /* rehearse and time drafts before the first request, for about so long at most; 0: none */
    wane_log_fn log;
    void *log_user;
} wane_scheduler_options;

WANE_API void wane_scheduler_options_init(wane_scheduler_options *options);

typedef struct wane_scheduler wane_scheduler;
typedef struct wane_ticket wane_ticket; /* one request's hold on the scheduler */

WANE_API int wane_scheduler_new(wane_model *model, const wane_scheduler_options *options,
                                wane_scheduler **scheduler, wane_error *error);
/*
 * Stop: no new requests (WANE_ESHUTDOWN); what was accepted may go on for `grace_ms`, then ends with
 * WANE_ESHUTDOWN. Returns when the engine thread is idle for good. Tickets stay valid.
 */
WANE_API void wane_scheduler_stop(wane_scheduler *scheduler, uint32_t grace_ms);
/* Stops without grace if still running. Every ticket must have been freed. */
WANE_API void wane_scheduler_free(wane_scheduler *scheduler);

/* Queue a request. WANE_EBUSY, WANE_ECONTEXT, WANE_EINVAL or WANE_ESHUTDOWN at once; thread-safe. */
WANE_API int wane_scheduler_submit(wane_scheduler *scheduler, const int32_t *tokens, size_t count,
                                   const wane_generation *generation, wane_ticket **ticket,
                                   wane_error *error);
/*
 * The next event of a request, in order: START, TEXT…, END. Waits up to `timeout_ms`, then gives
 * WANE_ETIMEOUT with nothing lost. A failed request gives its error (WANE_EENGINE, WANE_ETIMEOUT with
 * `ended` true for a passed deadline, WANE_ECANCELLED, WANE_ESHUTDOWN). One thread reads a ticket.
 */
WANE_API int wane_ticket_next(wane_ticket *ticket, uint32_t timeout_ms, wane_event *event, bool *ended,
                              wane_error *error);
/* Give up: the sequence is free within one batch. Thread-safe, idempotent. */
WANE_API void wane_ticket_cancel(wane_ticket *ticket);
/* Cancels if it still runs. */
WANE_API void wane_ticket_free(wane_ticket *ticket);

/* A moment's picture of the scheduler. Counters never fall. */
typedef struct wane_scheduler_state {
    int slots, slots_busy, queued;
    bool stopping, stuck; /* stuck: the engine call under way takes longer than the watchdog allows */
    int call_sequences;   /* of the engine call under way; 0: none is */
    double call_seconds, call_bound; /* how long it was seen to run; what the watchdog allows it */
    uint64_t stuck_calls;            /* calls that were stuck, whether they came back or not */
    uint64_t accepted, refused, completed, cancelled, failed, timed_out;
    uint64_t prompt_tokens, reused_tokens, reply_tokens;
    uint64_t votes, votes_changed;      /* votes over answers; those in which another than the first stood */
    uint64_t votes_by_value;            /* decided by two equal final values */
    uint64_t votes_by_reward;           /* decided by a reward model         */
    uint64_t spare_tokens;              /* decoded for answers that were not given out */
    uint64_t engine_calls, engine_rows; /* rows: sampled rows, so rows ÷ calls is the batch size */
    double engine_seconds, busy_seconds;
    uint64_t kv_held, kv_cells; /* of sequences that hold something: tokens in them; room for so many */
} wane_scheduler_state;

/* It is by looking that the watchdog notices: look at least this often, in seconds. A server does. */
WANE_API double wane_scheduler_watch_seconds(const wane_scheduler *scheduler);
WANE_API void wane_scheduler_get_state(wane_scheduler *scheduler, wane_scheduler_state *state);

/* ------------------------------------------------------------------ server */

/* Quality settings under a name that requests and keys may choose. */
typedef struct wane_domain {
    const char *name; /* 1 to 64 of a-z A-Z 0-9 - _ . */
    const wane_quality *quality;
} wane_domain;

/* A place that the program writes to while it serves: a file, there or to come, or a folder. */
typedef struct wane_disk {
    const char *what; /* the metric's label: trace, memo, …; not empty */
    const char *path;
} wane_disk;
#define WANE_DISKS_MOST 16

typedef struct wane_server_options {
    size_t size;
    const char *host;            /* "127.0.0.1" (default); others need keys, or `open`               */
    int port;                    /* default 8080; 0: any free one                                    */
    const char *key_file;        /* docs/api.md has its form; NULL: no keys                          */
    const wane_disk *disks;      /* whose free bytes the metrics have; copied                        */
    size_t disk_count;           /* at most WANE_DISKS_MOST                                          */
    bool open;                   /* listen beyond loopback without keys                              */
    int max_connections;         /* default 256                                                      */
    size_t max_body;             /* bytes of a request; default 8 MiB                                */
    int ping_ms;                 /* silence on a stream after which a ping goes out; default 5000    */
    wane_sampling sampling;      /* what a request gets where it does not say                        */
    int max_tokens;              /* the same, for the APIs in which it is optional; default 1024     */
    const wane_quality *quality; /* what may change answers; copied; NULL: nothing              */
    const wane_domain *domains;  /* the same, by name; copied                                   */
    size_t domain_count;         /* at most 64                                                  */
    unsigned request_modes;      /* 1 << WANE_MODE_… for each that requests may ask for; default 0 */
    unsigned prepare;            /* 1 << WANE_PREPARE_… for each that users' texts get; default 0  */
    unsigned request_prepare;    /* the same, for each that requests may switch on or off; default 0 */
    const wane_classifier
        *classifier; /* of domains; must outlive the server; NULL: domains are not checked */
    int ssp_domain;  /* WANE_SSP_DOMAIN_… (wane/domains.h); default CHECK */
    const wane_feedback_options *feedback; /* copied; NULL: nobody can rate a reply */
    const wane_alert_options *alerts;      /* copied; NULL: nobody but the log is told */
    const char *rollout;                   /* its file (wane/rollout.h); NULL: there is none */
    const wane_rollout_wish *rollout_wish; /* makes the file where there is none; NULL: that is an error */
    const wane_audit_options *audit;       /* copied; NULL: no audit log is written  */
    double ab_governor; /* share of requests in mode WANE that the governor steers, the rest being compared
                                              with them; 0 (default): settings say who is steered, and nothing is compared */
    wane_scheduler_options scheduler;
    wane_log_fn log;
    void *log_user;
    uint64_t (*log_lost)(
        void *log_user); /* its lines that could not be written so far; NULL: not known; any thread */
} wane_server_options;

WANE_API void wane_server_options_init(wane_server_options *options);
/* The modes that keys of this file give to their requests, 1 << WANE_MODE_… for each: what a model should be made ready for. */
WANE_API int wane_key_file_modes(const char *path, unsigned *modes, wane_error *error);

typedef struct wane_server wane_server;

/* Make the scheduler and listen: when this returns, requests are answered. */
WANE_API int wane_server_start(wane_model *model, const wane_server_options *options, wane_server **server,
                               wane_error *error);
WANE_API int wane_server_port(const wane_server *server);
/*
 * Write something that is no request into the server's audit log, where it has one: `event` is a short word, `detail` JSON (NULL: none). Any
 * thread; waits for nothing.
 */
WANE_API void wane_server_audit(wane_server *server, const char *event, const char *detail);
/* Stop listening, let what was accepted finish for up to `grace_ms`, end the rest in words. */
WANE_API void wane_server_stop(wane_server *server, uint32_t grace_ms);
WANE_API void wane_server_free(wane_server *server);

/* ----------------------------------------------------------- the yardstick */

/*
 * The engine's own loop on the same loaded weights, without wane: decode and the engine's own greedy
 * sampler, `streams` sequences in one batch. What wane is measured against.
 */
typedef struct wane_reference wane_reference;

WANE_API int wane_reference_new(wane_model *model, int streams, wane_reference **reference,
                                wane_error *error);
WANE_API void wane_reference_free(wane_reference *reference);
/*
 * Prefill stream i with prompts[i], then decode `steps` greedy tokens in each (end tokens do not end
 * it). `out` receives streams × steps ids, stream-major. `ms` receives the time of the steps alone.
 */
WANE_API int wane_reference_run(wane_reference *reference, const wane_tokens *prompts, int steps,
                                int32_t *out, double *ms, wane_error *error);

/* ------------------------------------------------------------- the head alone */

/*
 * The certified head on plain arrays, for other engines: weights and a hidden row in, the best tokens out, without
 * multiplying all of them. No model and no engine is needed. See docs/head.md for the method.
 *
 *     weights (V × d) ─► wane_head_open: a sketch, from a file or built into it
 *     hidden (d)      ─► wane_head_scan ─► wane_head_best, wane_head_logits, wane_head_log_sum
 *
 * What comes out is what the whole product would give, bit for bit, but for the failure probability of `sigmas`. One
 * thread at a time may use a wane_head.
 */
typedef struct wane_head wane_head;

/* Types of packed weights, by the names that GGUF files give them. */
enum {
    WANE_WEIGHTS_F32 = 0,
    WANE_WEIGHTS_F16,
    WANE_WEIGHTS_BF16,
    WANE_WEIGHTS_Q8_0,
    WANE_WEIGHTS_Q4_0,
    WANE_WEIGHTS_Q4_1,
    WANE_WEIGHTS_Q5_0,
    WANE_WEIGHTS_Q5_1,
    WANE_WEIGHTS_Q4_K,
    WANE_WEIGHTS_Q5_K,
    WANE_WEIGHTS_Q6_K,
    WANE_WEIGHTS
};
/* Bytes of a row of `d` weights; 0: there is no such type, or they are not whole blocks of it. */
WANE_API size_t wane_weights_row_bytes(int type, int d);

typedef struct wane_head_matrix {
    size_t size;
    int vocab_size; /* V */
    int d;
    /* V × d, row by row; must outlive the head. A logit is the sum of products in double, rounded to float. */
    const float *weights;
    /* The same, packed: rows of a WANE_WEIGHTS_… type, each of whole blocks; `weights` is NULL then. A logit is as above, of the unpacked weights. */
    const void *packed;
    int type;
    /*
     * Where weights are neither, both are NULL and these are given; both may be called from any thread and return
     * WANE_OK or a WANE_E code. `rows`: rows first … first + count - 1 as floats, count × d. `rescore`: the logits of `ids`
     * for one hidden row, as exactly as the engine gives them: those of a hidden row that the engine rounds to 8 bits first are
     * fine, bounds allow for it.
     */
    int (*rows)(void *user, int first, int count, float *out);
    int (*rescore)(void *user, const float *hidden, const int32_t *ids, int count, float *logits);
    void *user;
} wane_head_matrix;

typedef struct wane_head_options {
    size_t size;
    const char *path;   /* of the sketch; built when it is missing, damaged or of another digest      */
    const char *digest; /* names the weights, up to 32 characters; a sketch of another one is rebuilt */
    bool rebuild;       /* in any case                                                                */
    bool found;         /* never built: what is wrong with the sketch is an error                     */
    const char *kernel; /* "plain", "avx2", "avx512-vnni", "neon"; NULL (default): the best           */
    /*
     * Hidden rows of ordinary use make the sketch several times sharper: sample_rows × d of them, a few thousand; or
     * their mean (d) and covariance (d × d) instead, with sample_rows saying how many they were (0: some thousands).
     * NULL: nothing is known. Only building reads them.
     */
    const float *sample;
    int sample_rows;
    const float *mean, *covariance;
    float sigmas;              /* k; 3..12, default 6: a given token is missed with probability 1e-9 */
    int threads;               /* default 1                                                           */
    int rows_most;             /* hidden rows in one scan, 1..64; default 1                           */
    wane_progress_fn progress; /* of building; NULL: none                                 */
    void *progress_user;
} wane_head_options;

typedef struct wane_candidate {
    int32_t token;
    float logit;
} wane_candidate;

WANE_API void wane_head_options_init(wane_head_options *options);
WANE_API void wane_head_matrix_init(wane_head_matrix *matrix);
WANE_API int wane_head_open(const wane_head_options *options, const wane_head_matrix *matrix,
                            wane_head **head, wane_error *error);
WANE_API void wane_head_free(wane_head *head);
/* Look at rows × d hidden floats, which must stay until the next scan. */
WANE_API int wane_head_scan(wane_head *head, const float *hidden, int rows, wane_error *error);
/* The `count` best tokens of row `row` of the last scan, best first, the smaller token among equals; fewer if V is less. */
WANE_API int wane_head_best(wane_head *head, int row, int count, wane_candidate *out, int *found,
                            wane_error *error);
/* Logits of named tokens. */
WANE_API int wane_head_logits(wane_head *head, int row, const int32_t *ids, int count, float *logits,
                              wane_error *error);
/*
 * log Σ exp(scale · logit) over all tokens: between two bounds, or exactly, *low == *high, which costs a whole product.
 */
WANE_API int wane_head_log_sum(wane_head *head, int row, float scale, bool exactly, double *low, double *high,
                               wane_error *error);

/* What a head is. Strings live as long as the head. */
typedef struct wane_head_facts {
    int vocab_size, d;
    const char *kernel;
    double bits_level1, bits_level2; /* of the sketch, a weight                    */
    uint64_t bytes;                  /* of the sketch                              */
    int64_t statistics_rows;         /* hidden rows that its basis was taken from  */
    bool built;                      /* by wane_head_open; else it was there       */
    char digest[33];
} wane_head_facts;
WANE_API void wane_head_get_facts(const wane_head *head, wane_head_facts *facts);
/* Write the sketch to another file, by a temporary name. */
WANE_API int wane_head_save(const wane_head *head, const char *path, wane_error *error);

/* What it took so far. Never falls. */
typedef struct wane_head_work {
    uint64_t rows, questions;
    uint64_t survivors1, survivors2,
        rescored;   /* rows of the weights after level 1, after level 2, computed exactly */
    uint64_t dense; /* answers for which all of them were computed                        */
} wane_head_work;
WANE_API void wane_head_get_work(const wane_head *head, wane_head_work *work);

#ifdef __cplusplus
}
#endif
#include "wane/alerts.h"
#include "wane/audit.h"
#include "wane/correction.h"
#include "wane/diagnose.h"
#include "wane/diversity.h"
#include "wane/doctor.h"
#include "wane/domains.h"
#include "wane/draft.h"
#include "wane/exec.h"
#include "wane/feedback.h"
#include "wane/gate.h"
#include "wane/governor.h"
#include "wane/memo.h"
#include "wane/parts.h"
#include "wane/prepare.h"
#include "wane/probe.h"
#include "wane/quality.h"
#include "wane/rollout.h"
#include "wane/session_file.h"
#include "wane/ssp.h"
#include "wane/table.h"
#include "wane/trace.h"
#include "wane/tune.h"
#include "wane/view.h"

#endif
