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
    bool whole;  /* all of that row's logits will be read: the dense head is the shorter way */
    bool dense;  /* that row must come from the engine's own head */
};

/*
 * The seam of the certified head. Called inside decode, on its thread, with the rows that are about to
 * enter the LM head: `hidden` is rows × d floats, row `first` … `first + rows - 1` of this decode.
 * Returns true to let the dense head run (its logits will be there), false to end without it.
 */
typedef bool (*wane__hidden_fn)(void *user, const float *hidden, int first, int rows, int d);

/* ------------------------------------------------------------------- probes */

/* Layers that a probe may choose, and the blocks whose outputs it may ask for. */
#define WANE__PROBE_LAYERS 64
#define WANE__PROBE_BLOCKS (2 * WANE__PROBE_LAYERS)

/* What a probe sees of one layer, of items first … first + count - 1 of the batch: a batch may come in parts. */
struct wane__probe_rows {
    int layer;
    int first, count;
    /* Queries and keys as the attention multiplies them, up to a positive factor: heads × size, key_heads × size. */
    const float *q, *k;
    size_t q_stride, k_stride; /* floats from one item to the next */
    /* Or, q and k NULL: the block's output, d floats a row. */
    const float *out;
    size_t out_stride;
    bool wanted; /* `out` has rows of wanted items alone: first and count are of these */
};

/* Called on the decoding thread; within a decode nothing may be asked of the engine. */
struct wane__probe_calls {
    /* A decode begins; `items` are good to its end. */
    void (*begin)(void *user, const struct wane__item *items, int count);
    /* Good during the call. What the engine cannot show does not come. */
    void (*rows)(void *user, const struct wane__probe_rows *rows);
    /*
     * Sequence `seq` holds the first `keep` tokens of `from` now: of its own (from = seq), another's, or, from = -1, of nobody knows
     * what (a state was loaded).
     */
    void (*moved)(void *user, int seq, int from, int keep);
};

struct wane__probe {
    int layer[WANE__PROBE_LAYERS]; /* ascending: their attention */
    int layer_count;
    int block[WANE__PROBE_BLOCKS]; /* ascending: their outputs */
    int block_count;
    const struct wane__probe_calls *calls; /* live as long as the probe is set */
    void *user;
};

/* What is known of one layer's attention. */
struct wane__layer_facts {
    const char *reason; /* why it cannot be probed; NULL: it can */
    int heads, key_heads, size;
    /*
     * Tokens that a query looks back, itself included; 0: to the start. Negative: not known yet, it is 0 or -window; a token from position -window on shows
     * which, in its own decode.
     */
    int window;
};

struct wane__engine;

struct wane__engine_ops {
    const char *name;

    void (*free)(struct wane__engine *engine);

    /* Append tokens; flags as wane_tokenize. */
    int (*tokenize)(struct wane__engine *engine, const char *text, size_t size, unsigned flags,
                    wane_tokens *out, wane_error *error);
    /* As wane_token_bytes. */
    int (*token_bytes)(struct wane__engine *engine, int32_t token, bool control, char *buffer,
                       size_t capacity);
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
    /* d floats of a row as they entered the head; NULL unless a hook was set. Rows lie one behind the other. */
    const float *(*hidden)(struct wane__engine *engine, int row);
    /*
     * The very floats that the dense head gives for tokens `ids` of a hidden row. NULL or
     * WANE_EUNSUPPORTED where the engine cannot; facts.rescoring_exact says what the self-check saw.
     * These six may be called from any thread, also several at once.
     */
    int (*rescore)(struct wane__engine *engine, const float *hidden, const int32_t *ids, int count,
                   float *logits);
    /*
     * The same in two steps, for many calls on one row: `prepare` brings the row into the form that the
     * head's product takes, in `rescore_size` bytes of the caller's, aligned to 64. Size 0: unsupported.
     */
    size_t (*rescore_size)(struct wane__engine *engine);
    int (*rescore_prepare)(struct wane__engine *engine, const float *hidden, void *prepared);
    int (*rescore_prepared)(struct wane__engine *engine, const void *prepared, const int32_t *ids, int count,
                            float *logits);
    /*
     * A prepared row as floats again, d of them: rounded as the product sees it. WANE_EUNSUPPORTED where that form cannot
     * be read back.
     */
    int (*rescore_seen)(struct wane__engine *engine, const void *prepared, float *out);
    /* Rows first … first + count - 1 of the head as floats, count × d. WANE_EUNSUPPORTED as above. */
    int (*head_rows)(struct wane__engine *engine, int first, int count, float *out);
    void (*set_hook)(struct wane__engine *engine, wane__hidden_fn hook, void *user);
    /*
     * Show these layers from now on, copied; NULL: none, and then decoding costs what it costs without. WANE_EUNSUPPORTED says which of
     * them cannot be shown, and why. NULL where an engine shows none.
     */
    int (*set_probe)(struct wane__engine *engine, const struct wane__probe *probe, wane_error *error);
    /* What is known of layer 0 … facts.layers - 1. */
    void (*layer_facts)(struct wane__engine *engine, int layer, struct wane__layer_facts *facts);
    /*
     * Cells of the cache that the last decode's attention looked at, rounded up as the engine does: kernels are chosen by it.
     * 0: not known. NULL where an engine has no such thing.
     */
    int (*attended)(struct wane__engine *engine);

    /*
     * Keep the first `keep` tokens of a sequence. Returns how many it kept: `keep`, or 0 when the engine
     * can only clear (recurrent state).
     */
    int (*truncate)(struct wane__engine *engine, int seq, int keep);
    /* Make `to` (cleared first) the first `keep` tokens of `from`; returns how many it has: keep or 0. */
    int (*copy)(struct wane__engine *engine, int from, int to, int keep);

    /*
     * All that decoding left of a sequence, appended to `out`; and a sequence (cleared first) made from such bytes, `length`
     * tokens long. The next decode gives the same bits as it would have given then. WANE_EFORMAT: they are no such state; then
     * the sequence is empty. NULL where an engine cannot.
     */
    int (*state_save)(struct wane__engine *engine, int seq, struct wane__buf *out, wane_error *error);
    int (*state_load)(struct wane__engine *engine, int seq, const void *bytes, size_t size, int length,
                      wane_error *error);

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
 * A scripted engine of V = 384 tokens: 0 … 255 are the bytes, 256 is BOS ("<|bos|>"), 257 ends a turn
 * ("<|end|>"), 258 is the control marker "<|mark|>", 259 … are pieces that `pieces` gives (several bytes,
 * half characters); ids past the last piece exist and have no bytes. The tokenizer gives bytes only.
 *
 * chat() renders each message as "<|mark|>role\ncontent", but for the assistant's, which is
 * "<|mark|>content", and ends with "<|mark|>" when the last message is not the assistant's. So the reply
 * begins right after the last marker, and the next turn's prompt begins with this turn's prompt and reply.
 * There is no BOS.
 *
 *     user "Hi"                      <|mark|>user⏎Hi<|mark|>
 *     user "Hi", assistant "Hel"     <|mark|>user⏎Hi<|mark|>Hel              goes on at step 3
 *
 * What it answers is a pure function of the sequence, so that neither batching nor splitting nor prefix reuse
 * can change it. A sequence with a marker: the reply is the one whose `match` is the longest found in the
 * text before the last marker (control tokens have no text; of equally long ones the first in the list),
 * and the step is the number of tokens after that marker. A sequence without one (a raw prompt): the longest
 * `match` found in the text of the whole tokens; the step is the number of tokens after the one
 * that completed it for the first time, so end a raw prompt with the match. The empty `match` fits
 * every prompt; in a raw one its step counts from the start, which suits `logits`.
 *
 * At step n the reply's token n has logit `peak`, each other one `peak` less its distance in id; past the
 * last token it is the end of turn, again and again. Without a match, the token is a letter or a space chosen
 * by a hash of the last 3 tokens (a fixed "language") that never ends by itself; its logits fall off
 * likewise.
 *
 * Wrong calls (a position that does not follow on, a sequence or token out of range, a batch too large, more
 * than the context holds, a sequence used after a failed decode without truncate) are refused in words with
 * WANE_EINVAL and counted in `violations`. A failed or interrupted decode leaves the lengths as they were.
 * The hook is called for at most 8 rows at a time. hidden has d = 8 floats that determine the row's logits (64, `linear`).
 */
struct wane__script_reply {
    const char *match;     /* part of the prompt's text */
    const int32_t *tokens; /* the reply, token by token, with or without its end-of-turn token */
    size_t count;
    int fail_at;         /* a decode that wants the logits of this step fails; -1: never */
    int delay_ms;        /* each decode that holds one of its sequences takes so long; the longest counts */
    const float *logits; /* NULL, or V logits used at every step instead of the peak */
};

/*
 * What a scripted engine shows of attention: rows of Q and K, and block outputs, are numbers made from the layer, the token and its
 * position (wane__script_query …), so that a test can work everything out again.
 */
struct wane__script_attention {
    int layers;                 /* 0: one, and nothing to see of it */
    int heads, key_heads, size; /* 0: 4, 2, 8 */
    int window;                 /* of the layers whose bit is in `windowed` */
    unsigned windowed;
    int part;          /* items shown in one call; 0: the whole batch */
    int strides;       /* floats between one item's row and the next, beyond the row; not 0: a garbled rest */
    int32_t nan_token; /* whose key is not a number; 0: none */
    unsigned hidden;   /* layers, by bit, that cannot be probed */
};

struct wane__script {
    const struct wane__script_reply *replies;
    size_t reply_count;
    const char *const *pieces; /* bytes of token 259 + i, at most 125 of them */
    size_t piece_count;
    float peak;                    /* logit of the scripted token; 0: 10 */
    int context, sequences, batch; /* 0: 512, 4, 64; at most 64 sequences */
    int prompt_delay_ms; /* a decode takes so long for each item not wanted; in microseconds when negative */
    int row_delay_us;    /* a decode takes so long for each item wanted, on top of the longest reply's */
    bool linear; /* d = 64, and the logits are products with the rows of a head, as a model's are; replies'
                            own `logits` are not used */
    bool rescore_lies; /* rescored logits have the wrong sign */
    bool narrow;       /* rescoring is exact for one row only, by the facts */
    bool blurred;      /* several rows of one sequence in a batch have other hidden floats than one */
    bool recurrent;    /* truncate can only clear, copy only takes whole sequences */
    int load_fail;     /* a WANE_E code to fail with at load */
    struct wane__script_attention attention;
};

/* The struct is copied; what it points to must live until the engine is freed. */
int wane__script_load(const struct wane__script *script, struct wane__log *log, struct wane__engine **engine,
                      wane_error *error);

/* heads × size, key_heads × size floats; the output of block `layer`, `d` of them. */
void wane__script_query(const struct wane__script_attention *a, int layer, int32_t token, int pos,
                        float *out);
void wane__script_key(const struct wane__script_attention *a, int layer, int32_t token, int pos, float *out);
void wane__script_output(int layer, int32_t token, int pos, int d, float *out);

/* Tests read these, from any thread, also while a decode runs. */
struct wane__script_counts {
    uint64_t decodes, items; /* of decodes that came to their end */
    uint64_t rows;           /* wanted items among them */
    uint64_t failed, interrupted;
    uint64_t violations; /* wrong calls that were refused: a correct caller leaves this at 0 */
    int largest_batch;
    int length[64];
};
void wane__script_get_counts(struct wane__engine *engine, struct wane__script_counts *counts);

#endif
