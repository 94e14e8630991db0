/*
 * engine.h - what wane asks of an engine: one struct of functions, two implementations.
 *
 *     llama.c    libllama, unmodified: the only files that include llama.h or ggml*.h stand beside it
 *     script.c   fixed tokens, logits, delays and failures a step, for tests without a model
 *
 * An engine holds up to `sequences` token sequences (0 … sequences-1), each a KV history that starts at
 * position 0 and has no holes. Decoding and sequences (decode … copy) belong to one thread at a time. The
 * text side (tokenize, token_bytes, is_end, chat) and `interrupt` may be called from any thread at any
 * time, also while another decodes; `interrupt` from a signal handler too. Arguments are checked here: an
 * engine that would abort on a wrong call (libllama does) is never reached with one.
 *
 *     items:   [seq 0 prompt … wanted][seq 2 token, wanted][seq 1 token, wanted]
 *                                  │               │                    │
 *     rows:                        0               1                    2     in order of wanted items
 */
#ifndef WANE_ENGINE_ENGINE_H
#define WANE_ENGINE_ENGINE_H

#include "core/buf.h"
#include "core/log.h"
#include "wane.h"

/* One token of a batch. Positions of a sequence must follow on without a hole. */
struct wane__item {
    int32_t token;
    int32_t pos;
    int32_t seq;
    bool wanted; /* a row (hidden and logits) is needed after this token */
};

/*
 * The seam of the certified head. Called inside decode, on its thread, with the rows that are about to
 * enter the LM head: `hidden` is rows × d floats, row `first` … `first + rows - 1` of this decode.
 * Returns true to let the dense head run (its logits will be there), false to end without it.
 */
typedef bool (*wane__hidden_fn)(void *user, const float *hidden, int first, int rows, int d);

struct wane__engine;

struct wane__engine_ops {
    const char *name;

    void (*free)(struct wane__engine *engine);

    /* Append tokens; flags as wane_tokenize. */
    int (*tokenize)(struct wane__engine *engine, const char *text, size_t size, unsigned flags, wane_tokens *out,
                    wane_error *error);
    /* As wane_token_bytes. */
    int (*token_bytes)(struct wane__engine *engine, int32_t token, bool control, char *buffer, size_t capacity);
    /* Does this token end a turn or a text? */
    bool (*is_end)(struct wane__engine *engine, int32_t token);
    /* Render and tokenise a conversation: `text` and `out` may each be NULL. As wane_chat_tokenize. */
    int (*chat)(struct wane__engine *engine, const wane_message *messages, size_t count, wane_tokens *out,
                struct wane__buf *text, wane_error *error);

    /*
     * Run a batch of 1 … batch items. WANE_OK: rows are there until the next decode. WANE_ECANCELLED
     * after interrupt, WANE_EBUSY when the KV has no room, WANE_EENGINE otherwise; after any of these,
     * call truncate on the sequences of the batch before they are used again.
     */
    int (*decode)(struct wane__engine *engine, const struct wane__item *items, int count, wane_error *error);
    /* V logits of a row; writable scratch. NULL if the dense head did not run for it. */
    float *(*logits)(struct wane__engine *engine, int row);
    /* d floats of a row as they entered the head; NULL unless a hook was set. */
    const float *(*hidden)(struct wane__engine *engine, int row);
    /*
     * The very floats that the dense head gives for tokens `ids` of a hidden row. NULL or
     * WANE_EUNSUPPORTED where the engine cannot; facts.rescoring_exact says what the self-check saw.
     */
    int (*rescore)(struct wane__engine *engine, const float *hidden, const int32_t *ids, int count, float *logits);
    void (*set_hook)(struct wane__engine *engine, wane__hidden_fn hook, void *user);

    /*
     * Keep the first `keep` tokens of a sequence. Returns how many it kept: `keep`, or 0 when the engine
     * can only clear (recurrent state).
     */
    int (*truncate)(struct wane__engine *engine, int seq, int keep);
    /* Make `to` (cleared first) the first `keep` tokens of `from`; returns how many it has: keep or 0. */
    int (*copy)(struct wane__engine *engine, int from, int to, int keep);

    /* Make a running decode end soon with WANE_ECANCELLED, and those after it until set back. */
    void (*interrupt)(struct wane__engine *engine, bool on);

    /* The yardstick (wane_reference_*); NULL where there is none. */
    int (*reference_new)(struct wane__engine *engine, int streams, void **reference, wane_error *error);
    int (*reference_run)(void *reference, const wane_tokens *prompts, int steps, int32_t *out, double *ms,
                         wane_error *error);
    void (*reference_free)(void *reference);
};

/* What every implementation starts with. */
struct wane__engine {
    const struct wane__engine_ops *ops;
    wane_model_facts facts; /* filled at load, constant afterwards */
    int batch;              /* most items in a decode */
    struct wane__log *log;
};

/* Load through libllama. `log` outlives the engine. */
int wane__llama_load(const wane_model_options *options, struct wane__log *log, struct wane__engine **engine,
                     wane_error *error);
const char *wane__llama_version(void);

/* ------------------------------------------------------- the scripted engine */

/*
 * A scripted engine of V = 384 tokens: 0 … 255 are the bytes, 256 is BOS, 257 ends a turn, 258 is the
 * control marker "<|mark|>", 259 … are pieces that `pieces` gives (several bytes, half characters).
 *
 * What it answers is a pure function of the sequence, so that batching cannot change it: the scripted
 * reply is found by the prompt's text (the longest `match` that the prompt contains), and the token at
 * step n of the reply has logit `peak`; all others fall off from it by their distance in id. Without a
 * match, tokens are drawn from a hash of the last 3 tokens (a fixed "language").
 */
struct wane__script_reply {
    const char *match;        /* part of the prompt's text */
    const int32_t *tokens;    /* the reply, token by token; the end-of-turn token must be among them */
    size_t count;
    int fail_at;              /* decode fails at this step of the reply; -1: never */
    int delay_ms;             /* each decode that holds this sequence takes so long */
    const float *logits;      /* NULL, or V logits used at every step instead of the peak */
};

struct wane__script {
    const struct wane__script_reply *replies;
    size_t reply_count;
    const char *const *pieces; /* bytes of token 259 + i */
    size_t piece_count;
    float peak;               /* logit of the scripted token; 0: 10 */
    int context, sequences, batch; /* 0: 512, 4, 64 */
    int prompt_delay_ms;      /* each decode takes so long a prompt token, in microseconds when negative */
    bool recurrent;           /* truncate can only clear */
    int load_fail;            /* a WANE_E code to fail with at load */
};

int wane__script_load(const struct wane__script *script, struct wane__log *log, struct wane__engine **engine,
                      wane_error *error);

/* Tests read these: calls, items and the largest batch so far; sequences' lengths. */
struct wane__script_counts {
    uint64_t decodes, items;
    int largest_batch;
    int length[64];
};
void wane__script_get_counts(struct wane__engine *engine, struct wane__script_counts *counts);

#endif
