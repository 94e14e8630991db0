/*
 * wane/sampler.h - one reply's sampler over rows of logits from an engine of one's own: everything that a wane_model does to a token behind
 * the head, in the same order and with the same random numbers. Part of wane/parts.h; needs no engine.
 *
 *     row of logits ─► governor ─► bias, penalties ─► corrections ─► token ─► gate ─► (in doubt: drawn again) ─► taken ─► fuse
 *
 * The same prompt, settings and logits give the token, verdict, state and fuse that a model's reply gets.
 */
#ifndef WANE_SAMPLER_H
#define WANE_SAMPLER_H

#include "../wane.h"
#include "gate.h"
#include "governor.h"
#include "quality.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------------------------- rules */

/* Rules that hold words down (docs/correction.md), compiled for one tokenizer. Of one thread at a time, with all samplers that use them. */
typedef struct wane_rules wane_rules;

/*
 * `tokenize`: the tokens of a word into `out`, at most `capacity`; how many there are, or a negative code. `token_bytes`: at most `capacity` bytes of a
 * token's text into `buffer`; how many it has, or a negative code. Both are called while the file is read, `token_bytes` also whenever a sampler with these
 * rules takes a token. WANE_EFORMAT names file, rule and place.
 */
WANE_API int wane_rules_open(const char *path, int vocab_size,
                             int (*tokenize)(void *user, const char *text, size_t size, int32_t *out,
                                             int capacity),
                             int (*token_bytes)(void *user, int32_t token, char *buffer, size_t capacity),
                             void *user, wane_rules **rules, wane_error *error);
WANE_API void wane_rules_free(wane_rules *rules);
/* How many there are, and the words among them that hold nothing with this tokenizer. */
WANE_API int wane_rules_get_count(const wane_rules *rules, int *words_left);

/* ------------------------------------------------------------------- sampler */

typedef struct wane_sampler wane_sampler;
struct wane_gate;

typedef struct wane_sampler_options {
    size_t size;
    int vocab_size;
    wane_sampling sampling;       /* top_logprobs does not count */
    const wane_quality *quality;  /* NULL: nothing is corrected, judged, steered or ended */
    const struct wane_gate *gate; /* NULL: nothing is judged; else it outlives the sampler */
    const wane_profile *profile;  /* NULL: nothing is steered; copied */
    wane_rules *rules;            /* NULL: none; else they outlive the sampler */
    const int32_t *prompt;        /* 1 token at least */
    size_t prompt_count;
    const char *text; /* the prompt's, for documents in it; NULL: none are counted */
    size_t text_size;
} wane_sampler_options;

/* One drawn token, before it is taken. */
typedef struct wane_drawn {
    int32_t token;
    bool changed;         /* a correction had a hand in it                          */
    bool held;            /* … and it was a rule                                    */
    bool again;           /* it was in doubt, and drawn by votes over votes         */
    wane_steer steer;     /* what the governor made of the row                      */
    wane_signals signals; /* NAN: nobody asked                                      */
    wane_gate_token gate; /* what the gate made of it                               */
} wane_drawn;

WANE_API void wane_sampler_options_init(wane_sampler_options *options);
/* WANE_EINVAL names what is out of its range. The strings and lists of `options` need not outlive the call. */
WANE_API int wane_sampler_new(const wane_sampler_options *options, wane_sampler **sampler, wane_error *error);
WANE_API void wane_sampler_free(wane_sampler *sampler);

/*
 * Draw the reply's next token from V logits, which are not changed. Nothing has happened until it is taken: drawing again from another row takes the first
 * draw back. `in_table`: a table knows the context, which the gate then passes. `known`: signals of the attention, from elsewhere; NULL: none. A row with
 * NaN, or without anything to draw: WANE_EENGINE.
 */
WANE_API int wane_sampler_draw(wane_sampler *sampler, const float *logits, bool in_table,
                               const wane_signals *known, wane_drawn *drawn, wane_error *error);
/* After bias and penalties, the best `count` (64 at most) of the row that was drawn from last and still is where it was; as wane_row_best. */
WANE_API int wane_sampler_best(wane_sampler *sampler, int count, wane_candidate *out, int *found,
                               double *log_sum, wane_error *error);
/*
 * A token joins the reply: the drawn one, or another that somebody else chose. True: the fuse ends the reply behind it. A token that ends the turn is not
 * taken: the reply is over.
 */
WANE_API bool wane_sampler_take(wane_sampler *sampler, int32_t token);
/* Tokens that were taken. */
WANE_API int wane_sampler_get_count(const wane_sampler *sampler);
/* The seed in use. */
WANE_API uint64_t wane_sampler_get_seed(const wane_sampler *sampler);
/* As wane_doubt_get and wane_governor_fallback. */
WANE_API void wane_sampler_get_doubt(const wane_sampler *sampler, int *rejects, int *first_reject,
                                     int *woke_at);
WANE_API int wane_sampler_fallback(const wane_sampler *sampler, bool begun, char out[300]);

#ifdef __cplusplus
}
#endif

#endif
