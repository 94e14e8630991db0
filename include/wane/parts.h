/*
 * wane/parts.h - the parts of wane alone, for programs with an engine of their own: what a context is called, what a table knows of it,
 * what a gate and a governor make of a row of logits, and traces of what was decoded. Part of wane.h; the head alone stands there.
 *
 * All of this is also in libwane-parts, a library without an engine: the Python package stands on it. No object here belongs to a model; whose
 * something is, is said by digests. Unless said otherwise an object may be used by any threads, but by one at a time.
 *
 *     row of logits ─► wane_row_best ─► candidates ─┬─► wane_table_find, wane_table_grade        is it what was recorded?
 *                                                   ├─► wane_doubt_judge                         would a vote change it?
 *                                                   └─► wane_row_signals ─► wane_governor_see    how is it to be drawn?
 *     token that was drawn ─► wane_context_add, wane_governor_take, wane_tracer_token
 *
 * wane_sampler (wane/sampler.h) has gate, corrections and governor in one, as a model's own replies do.
 */
#ifndef WANE_PARTS_H
#define WANE_PARTS_H

#include "../wane.h"
#include "gate.h"
#include "governor.h"
#include "quality.h"
#include "sampler.h"
#include "table.h"
#include "trace.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- whose it is */

/* Which model and which tokenizer. Empty digests and a vocabulary of 0 tokens: not said, or any. */
typedef struct wane_origin {
    char model[33];     /* as wane_model_digest and wane_file_digest give it    */
    char tokenizer[33]; /* as wane_model_tokenizer and wane_tokenizer_digest do */
    int vocab_size;
} wane_origin;

/* Digest of a file as 32 hex digits: of a model's file it is the model's. Reads all of it. */
WANE_API int wane_file_digest(const char *path, char hex[33], wane_error *error);
/*
 * Digest of a vocabulary: token i is the `sizes[i]` bytes behind those of token i - 1, control tokens by their names, tokens
 * without a text with 0 bytes.
 */
WANE_API int wane_tokenizer_digest(const char *bytes, const int32_t *sizes, int count, char hex[33],
                                   wane_error *error);

/* ------------------------------------------------------------------ contexts */

/*
 * All tokens so far, by name, and the last ten of them. No pointers: copy it to go on in two ways. What was recorded for one tenant
 * is never found for another.
 */
typedef struct wane_context {
    uint64_t tenant;
    uint64_t low, high; /* the name of all tokens          */
    int64_t count;
    int32_t last[10]; /* the nearest one last; min(count, 10) of them */
} wane_context;

/* Of no tokens. `tenant` NULL: "". */
WANE_API void wane_context_begin(wane_context *context, const char *tenant);
WANE_API void wane_context_add(wane_context *context, const int32_t *tokens, size_t count);

/* ---------------------------------------------------------------------- rows */

/*
 * The `count` best of V logits, best first, the smaller token among equals; fewer if V is less. `log_sum` (may be NULL):
 * log Σ exp(logit). WANE_EENGINE: the row holds NaN, or nothing that can be drawn.
 */
WANE_API int wane_row_best(const float *logits, int vocab_size, int count, wane_candidate *out, int *found,
                           double *log_sum, wane_error *error);
/* Entropy and margin of V logits; the other signals are NAN. */
WANE_API int wane_row_signals(const float *logits, int vocab_size, wane_signals *signals, wane_error *error);
/*
 * The same where only the best `count` (2 at least, best first) and log Σ exp(logit) over all V are known. The entropy lies between `low` and `high`
 * (may be NULL); it is taken to be in their middle. WANE_EINVAL: the candidates are in no order, or weigh more than the sum.
 */
WANE_API int wane_best_signals(const wane_candidate *best, int count, int vocab_size, double log_sum,
                               wane_signals *signals, double *low, double *high, wane_error *error);
/* The same of a scanned row of a head; an estimate between bounds, without a whole product. */
WANE_API int wane_head_signals(wane_head *head, int row, wane_signals *signals, wane_error *error);

/*
 * What the vote of three draws makes of probabilities that sum to 1, best first: `out` (not `p`) gets each token's to be the majority's.
 * docs/correction.md has the proof. And the temperature of a dialogue of `context` tokens.
 */
WANE_API void wane_vote_closed(const double *p, int count, double *out);
WANE_API float wane_dialogue_temperature(const wane_quality *quality, float temperature, int context);

/* -------------------------------------------------------------------- tables */

/* As wane_table_open, of this model and tokenizer; `of` NULL: any. WANE_EUNSUPPORTED: it is another's. */
WANE_API int wane_table_open_of(const char *path, const wane_origin *of, const char *key, wane_table **table,
                                wane_error *error);
/* As wane_table_lookup, for a context whose name is known. Thread-safe. */
WANE_API bool wane_table_find(const wane_table *table, const wane_context *context, int index,
                              wane_table_answer *answer);
/*
 * What the table expects behind a context: at most `most` tokens, and of each the chance that it is drawn when all before it were. Returns how many.
 * Thread-safe.
 */
WANE_API int wane_table_draft(const wane_table *table, const wane_context *context, int most, int32_t *tokens,
                              float *chances);

/*
 * How well an answer fits what the model says now. STRICT: its logits are the current ones, within `tolerance`. RANK: the tokens that carry `share` of
 * the probability, five at most, are the recorded ones in their order; log Σ exp(logit) lies between `low` and `high`.
 */
enum { WANE_GRADE_MISS = 0, WANE_GRADE_RANK, WANE_GRADE_STRICT };
WANE_API int wane_table_grade(const wane_table_answer *answer, const wane_candidate *current, int count,
                              double low, double high, float tolerance, double share);

/* ---------------------------------------------------------------------- gate */

/* A gate that was read from its file. Any number of threads may use one. */
typedef struct wane_gate wane_gate;

WANE_API int wane_gate_open(const char *path, wane_gate **gate, wane_error *error);
WANE_API void wane_gate_free(wane_gate *gate);
/* As wane_gate_get_facts, of a gate that is open; `bytes` is 0. */
WANE_API void wane_gate_describe(const wane_gate *gate, wane_gate_facts *facts);

/*
 * Log10 odds that a vote would leave a row's token alone, from its best candidates, best first; 50 count. `all`: there are no more. `temperature`:
 * of the shares; 1 for the ordinary look. False: fewer than 50, and the others could change the answer. `seen` (may be NULL): the look is one that
 * training saw.
 */
WANE_API bool wane_gate_odds(const wane_gate *gate, const wane_candidate *best, int count, bool all,
                             float temperature, float *odds, bool *seen);

/* What a prompt asks of the gate: the entropy of its tokens in bits, documents in its text (NULL: not looked at), and the threshold. */
typedef struct wane_gate_prompt {
    double entropy;
    int documents;
    float tau;
} wane_gate_prompt;
WANE_API int wane_gate_look_at_prompt(const wane_quality *quality, const int32_t *tokens, size_t count,
                                      const char *text, size_t text_size, wane_gate_prompt *prompt,
                                      wane_error *error);

/* One reply's doubt. */
typedef struct wane_doubt wane_doubt;

/*
 * For a request with these settings. With one answer, or at temperature 0, a vote cannot change anything, and nothing is judged. WANE_EINVAL: quality
 * or sampling are out of their ranges.
 */
WANE_API int wane_doubt_new(const wane_quality *quality, const wane_sampling *sampling,
                            const wane_gate_prompt *prompt, wane_doubt **doubt, wane_error *error);
WANE_API void wane_doubt_free(wane_doubt *doubt);
/*
 * Judge token `index` of the reply by its row's candidates, as wane_gate_odds takes them. `in_table`: a table knows its context: then it passes without
 * a look, unless a check is forced. `token` (may be NULL) receives what was made of it; its token is -1.
 */
WANE_API void wane_doubt_judge(wane_doubt *doubt, const wane_gate *gate, const wane_candidate *best,
                               int count, bool all, bool in_table, int index, wane_gate_token *token);
/* Rejections so far, the first one's index (-1: none), and the index of the token that woke the vote (-1: none did). */
WANE_API void wane_doubt_get(const wane_doubt *doubt, int *rejects, int *first_reject, int *woke_at);

/* ------------------------------------------------------------------ governor */

/* One reply's: state machine and fuse. */
typedef struct wane_governor wane_governor;

/*
 * `profile` NULL: nothing steers, and the fuse alone is at work. A profile steers where `quality->governor` is on, the profile has a signal and `temperature`,
 * the request's, is above 0. In another mode than WANE_MODE_WANE nothing is at work. Copies both. WANE_EINVAL: what the checks of profile and quality refuse.
 */
WANE_API int wane_governor_new(const wane_profile *profile, const wane_quality *quality, float temperature,
                               wane_governor **governor, wane_error *error);
WANE_API void wane_governor_free(wane_governor *governor);
/* The row that the next token is drawn from; NULL: it comes without one, from a memo or a table. Then take that token. `steer` may be NULL. */
WANE_API void wane_governor_see(wane_governor *governor, const wane_signals *signals, wane_steer *steer);
/* The token that was drawn joins the reply. True: the fuse ends it here. */
WANE_API bool wane_governor_take(wane_governor *governor, int32_t token);
/* What the reader gets where the fuse ended a reply, as `quality->fallback` says; `begun`: the reply has said something. Returns its bytes. */
WANE_API int wane_governor_fallback(const wane_governor *governor, bool begun, char out[300]);

/* -------------------------------------------------------------------- traces */

/*
 * Writes traces as a recorder does, in the same files, for whoever decodes without a wane_model. Nothing waits: what the queue cannot take is dropped,
 * and counted. Thread-safe; records of one request in their order.
 */
typedef struct wane_tracer wane_tracer;

/*
 * `options->folder` as for wane_recorder_open; `all_logits` does not count. All of `origin` must be given. `token_bytes`: needed with
 * `options->redact_file` only, called from a thread of the tracer's; writes at most `capacity` bytes of a token's text and returns how many
 * it has, or a negative code.
 */
WANE_API int wane_tracer_open(const wane_recorder_options *options, const wane_origin *origin,
                              int (*token_bytes)(void *user, int32_t token, char *buffer, size_t capacity),
                              void *user, wane_tracer **tracer, wane_error *error);
/* Writes and syncs what waits. */
WANE_API void wane_tracer_close(wane_tracer *tracer);
WANE_API void wane_tracer_flush(wane_tracer *tracer);
WANE_API void wane_tracer_get_state(wane_tracer *tracer, wane_recorder_state *state);

typedef struct wane_trace_request {
    size_t size;
    const char *id;     /* its name: 1 to 64 bytes, one of its own     */
    int kind;           /* WANE_KIND_…                                  */
    const char *tenant; /* NULL: ""                                     */
    int64_t time_ms;    /* since 1970; 0: now                           */
    const int32_t *prompt;
    size_t prompt_count;
    wane_sampling sampling; /* with the seed that is used */
    int max_tokens;
    bool ignore_end;
    const char *const *stops;
    size_t stop_count;   /* at most 16 */
    const char *vote_of; /* one of several answers: the request's name; NULL: it is not */
    int vote_answer;     /* … and which, from 0                                          */
} wane_trace_request;

WANE_API void wane_trace_request_init(wane_trace_request *request);
/* WANE_EINVAL: something is out of its range. WANE_EBUSY: dropped. */
WANE_API int wane_tracer_request(wane_tracer *tracer, const wane_trace_request *request, wane_error *error);

/* One drawn token. */
typedef struct wane_trace_token {
    size_t size;
    const char *id;             /* its request's                                              */
    int kind;                   /* as there                                                   */
    const wane_context *before; /* all tokens before it, the prompt's among them               */
    int index;                  /* in the reply, from 0                                       */
    int32_t token;              /* that was drawn                                             */
    bool changed;               /* a correction had a hand in it: no table learns from it      */
    int state;                  /* WANE_STATE_… that it was drawn in; -1 (default): none       */
    double log_sum;             /* over all tokens; NAN (default): not known                  */
    const wane_candidate *top;  /* after bias and penalties, best first; 64 at most are kept  */
    int top_count;
} wane_trace_token;

WANE_API void wane_trace_token_init(wane_trace_token *token);
WANE_API int wane_tracer_token(wane_tracer *tracer, const wane_trace_token *token, wane_error *error);
/* `finish`: "end", "stop", "length", "context", "fuse", "cancelled", "timeout", "failed", "shutdown" or "abandoned". */
WANE_API int wane_tracer_end(wane_tracer *tracer, const char *id, const char *finish, int tokens, double ms,
                             wane_error *error);
/* Which of the answers to a request was chosen, 0 to 2. */
WANE_API int wane_tracer_vote(wane_tracer *tracer, const char *of, int chosen, wane_error *error);

#ifdef __cplusplus
}
#endif

#endif
