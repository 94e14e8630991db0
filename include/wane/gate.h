/*
 * wane/gate.h - the gate that lets the vote over answers sleep: a model's gate, what it counted, how one is trained, and what it makes
 * of a prompt. docs/gate.md has the formulas and the file. Part of wane.h.
 *
 * In mode WANE each drawn token is judged: PASS, or REJECT when the odds that a vote would leave it alone are too low for this
 * prompt. Rejections spend the request's doubt budget (wane_quality); when it is spent, the vote wakes.
 */
#ifndef WANE_GATE_H
#define WANE_GATE_H

#include "../wane.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Why something was rejected, or why a vote woke. */
enum wane_wake {
    WANE_WAKE_NONE = 0,
    WANE_WAKE_DOUBT,   /* the odds were too low                                                */
    WANE_WAKE_REVIVAL, /* the same, far into a reply and with no token that stands out         */
    WANE_WAKE_FORCED,  /* the same, of the shares that a hot request draws from                */
    WANE_WAKE_ALWAYS,  /* nobody asked a gate: the mode is legacy, or there is no gate         */
    WANE_WAKE_WARM_UP, /* at the start, so that the first real wake costs nothing extra        */
    WANE_WAKES
};
/* "none", "doubt", "revival", "forced", "always", "warm_up"; "?" for another number. Static storage. */
WANE_API const char *wane_wake_name(int wake);

/* ----------------------------------------------------------- a model's gate */

/*
 * Give the model a gate: a file, or NULL for the one that ships for this very model (gates/<model digest>.gate in wane's shared
 * files). WANE_ENOENT: there is none; the sentence says how to make one. WANE_EUNSUPPORTED: it is another model's. WANE_EFORMAT:
 * the file is damaged. WANE_EBUSY while a session or a scheduler stands on the model. On failure the gate before stays.
 */
WANE_API int wane_model_set_gate(wane_model *model, const char *path, wane_error *error);
/* No gate any more; its counters stay. WANE_EBUSY as above. */
WANE_API int wane_model_drop_gate(wane_model *model, wane_error *error);

/*
 * The breaker went out, or is in again: `wakes` of them in the last `seconds`. Called once for each change, on whatever thread
 * noticed it; may ask for the gate's state, and must not take long.
 */
typedef void (*wane_breaker_fn)(void *user, bool out, int wakes, double seconds);
/*
 * Arm the breaker with breaker_wakes, breaker_seconds and breaker_temperature; without this call there is none. While it is out,
 * new requests in mode WANE or LEGACY get at most that temperature. WANE_EBUSY as above.
 */
WANE_API int wane_model_set_breaker(wane_model *model, const wane_quality *quality, wane_breaker_fn alert,
                                    void *user, wane_error *error);
/* Count a wake that no token asked for (ALWAYS, WARM_UP). Those of ALWAYS and WARM_UP do not count for the breaker. Thread-safe. */
WANE_API void wane_model_note_wake(wane_model *model, int wake);

/* A moment's picture. Counters never fall. */
typedef struct wane_gate_state {
    bool given;               /* the model has a gate                                          */
    char path[1024];          /* its file; cut where it is longer                              */
    uint32_t patterns;        /* in its LUT                                                    */
    uint64_t judged;          /* tokens                                                        */
    uint64_t lookups;         /* of them, looked up in the LUT                                 */
    uint64_t lut_hits;        /* … and found there; the net ran for the others                 */
    uint64_t table_passed;    /* tokens in contexts that the table knows: passed without a look */
    uint64_t revival, forced; /* judged tokens for which these rules were at work              */
    uint64_t rejects;
    uint64_t revoted, revoted_changed; /* of them, drawn by more votes; … which gave another token */
    uint64_t rejects_by[WANE_WAKES];   /* by WANE_WAKE_…                                           */
    uint64_t wakes[WANE_WAKES];        /* the same; NONE stays 0                                   */
    bool breaker_out;
    uint64_t breaker_trips;
    int breaker_recent; /* wakes in its window, up to one more than it allows           */
} wane_gate_state;

/* Thread-safe. */
WANE_API void wane_model_get_gate_state(wane_model *model, wane_gate_state *state);

/* What a gate's file says of itself. */
typedef struct wane_gate_facts {
    char model[33], tokenizer[33];
    int vocab_size;
    uint32_t patterns;
    uint64_t bytes;
    uint64_t seed;
    uint64_t votes, positions, kept, tokens;
    double auc, ece, coverage; /* on what was held out of training; NaN: nothing was */
    float allowance; /* doubt a token that is usual: wane_quality.doubt_allowance where it names none */
    char note[4097];
} wane_gate_facts;

WANE_API int wane_gate_get_facts(const char *path, wane_gate_facts *facts, wane_error *error);

/* ---------------------------------------------------------------- training */

typedef struct wane_gate_train_options {
    size_t size;
    const char *const *traces; /* files, or folders of them, with votes in them                */
    size_t trace_count;
    const char *output;            /* the gate's file; NULL: only the report                       */
    char model[33], tokenizer[33]; /* that the traces must have, 32 hex digits; "": any, but one   */
    int vocab_size;
    uint64_t seed;             /* of the net's first weights and of what is held out; default 1 */
    const char *note;          /* goes into the file, at most 4,096 bytes of UTF-8; NULL: none  */
    wane_progress_fn progress; /* NULL: none */
    void *progress_user;
} wane_gate_train_options;

typedef struct wane_gate_report {
    char model[33], tokenizer[33];
    int vocab_size;
    uint64_t records;         /* token records that were read                                          */
    uint64_t votes;           /* that the traces hold                                                  */
    uint64_t unusable;        /* of them: an answer is missing, cut short, or greedy                   */
    uint64_t positions, kept; /* that were learned from; of them, left alone by the vote          */
    uint64_t held_positions, held_kept, held_votes; /* the same, held out                         */
    uint64_t patterns; /* in the LUT                                                            */
    uint64_t bytes;    /* of the file                                                           */
    double auc;        /* of the held-out positions: a kept one has the higher odds; NaN: cannot be told */
    double ece;        /* mean distance of promised and seen share of kept ones, in 15 bins of equal size */
    double coverage;   /* share of held-out requests' tokens whose pattern is in the LUT        */
    double allowance;  /* rejections a token, which three of four recorded answers stay below   */
    int epochs;
    double seconds;
} wane_gate_report;

WANE_API void wane_gate_train_options_init(wane_gate_train_options *options);
/* The traces must be of this model. Reads the model's file the first time. */
WANE_API int wane_gate_train_options_of(wane_gate_train_options *options, wane_model *model,
                                        wane_error *error);
/*
 * Train a gate. The same traces and the same seed give the same bytes. WANE_EINVAL: traces of another model, or
 * too few votes to learn from; WANE_EFORMAT: a trace is damaged. `report` may be NULL.
 */
WANE_API int wane_gate_train(const wane_gate_train_options *options, wane_gate_report *report,
                             wane_error *error);

/* -------------------------------------------------------------- explaining */

/* What the gate made of one token. */
typedef struct wane_gate_token {
    int index; /* in the reply */
    int32_t token;
    bool judged; /* false: the row could not be looked at, or the table knew its context */
    bool table;  /* … the latter */
    bool reject, lut, revival, forced, woke;
    int reason; /* WANE_WAKE_… of a rejection */
    float odds, tau;
    double share[5]; /* probabilities of the best tokens among the best 50 */
    double gap[4];
    int bin[4];
} wane_gate_token;

typedef struct wane_gate_explanation {
    double entropy; /* of the prompt's tokens, bits */
    int documents;  /* in the prompt                */
    float tau;
    int budget;
    float allowance; /* doubt a token that is forgiven */
    int prompt_tokens, reply_tokens;
    wane_finish finish;
    int rejects;
    int first_reject; /* index: where a vote would fork; -1: no doubt is left     */
    int woke_at;      /* index of the token that spent the budget; -1: none       */
    int woke_by;      /* WANE_WAKE_…                                              */
} wane_gate_explanation;

/* Return false to stop (WANE_ECANCELLED). */
typedef bool (*wane_gate_token_fn)(void *user, const wane_gate_token *token);

/*
 * Answer `tokens` and say what the gate makes of each token; no vote runs. The model must have a gate (WANE_ENOENT), and
 * `generation` a quality in mode WANE. WANE_EBUSY while a session or a scheduler stands on the model.
 */
WANE_API int wane_gate_explain(wane_model *model, const int32_t *tokens, size_t count,
                               const wane_generation *generation, wane_gate_token_fn give, void *user,
                               wane_gate_explanation *explanation, wane_error *error);

#ifdef __cplusplus
}
#endif

#endif
