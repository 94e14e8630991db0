/*
 * sample.h - from candidates to one token: processors (bias, penalties), filters, the draw, logprobs.
 *
 * Nothing here holds an array of the vocabulary's size. What a request asks for is fetched from a
 * `wane__source`: the dense head's row today, the certified head's candidates later. Order and meaning
 * are llama.cpp's: bias → penalties → top-k → top-p → min-p → temperature → draw. Ties go to the
 * smaller id, always. Top-p is taken at temperature 1 over what top-k left, as there.
 */
#ifndef WANE_SAMPLE_SAMPLE_H
#define WANE_SAMPLE_SAMPLE_H

#include "wane.h"

struct wane__candidate {
    int32_t token;
    float logit;
};

/*
 * Where candidates come from: one row's logits, behind questions that a certified head can answer too.
 * All return WANE_OK or an error code. `skip` is sorted ascending and holds `skips` tokens that the
 * question leaves out (processors take them apart and put them back with other logits). A source that
 * reads NaN in the course of an answer returns WANE_EENGINE.
 */
struct wane__source {
    int vocab_size;
    /* The `count` best tokens, best first (fewer if the vocabulary ends). */
    int (*best)(struct wane__source *source, int count, const int32_t *skip, int skips,
                struct wane__candidate *out, int *found);
    /* Logits of named tokens. */
    int (*fetch)(struct wane__source *source, const int32_t *tokens, int count, float *logits);
    /* log Σ exp(scale · logit) over all tokens but the skipped ones; -INFINITY when none is left. */
    int (*log_sum)(struct wane__source *source, float scale, const int32_t *skip, int skips, double *out);
    /*
     * The same, between two bounds, for much less: what it is in truth lies outside them with the source's
     * failure probability. `closely`: with more effort, nearer to each other. *low == *high when it is known. NULL: the
     * source has only the exact one.
     */
    int (*log_sum_bounds)(struct wane__source *source, float scale, const int32_t *skip, int skips,
                          bool closely, double *low, double *high);
    /* What it is likely to be, right on average, for as little; where there are bounds. Nothing that is promised may rest on it. */
    int (*log_sum_guess)(struct wane__source *source, float scale, const int32_t *skip, int skips,
                         double *out);
};

/* The dense head's row as a source: reads V floats, keeps none. `logits` must outlive the source. */
struct wane__row_kernels; /* head/row.h */
struct wane__dense_source {
    struct wane__source source; /* first */
    const float *logits;
    const struct wane__row_kernels *kernels;
};
void wane__dense_source_init(struct wane__dense_source *dense, const float *logits, int vocab_size);

/* What was decided for one token. */
struct wane__choice {
    int32_t token;
    float logprob; /* when asked for: whole vocabulary, temperature 1, before processors */
    bool has_logprob;
    int top_count;
    wane_logprob top[WANE_MAX_TOP_LOGPROBS];
    const struct wane__candidate *candidates; /* after processors and filters, best first */
    int candidate_count;                      /* owned by the sampler until the next call */
    /* They are all that the cuts left. Else the best of them: the others could not change the draw. */
    bool complete;
};

struct wane__sampler; /* one request's: settings, last tokens, scratch, seed */

/*
 * `settings` is copied, its bias list too. `vocab_size` bounds tokens. Allocates all it will need, but for
 * two rare cases, in which it leaves the step of its caller, allocates, and enters it again (steps do not
 * nest): a draw without top-k that needs more than 4,096 candidates, and a penalty window over the whole
 * context that has seen more different tokens than it has room for.
 */
int wane__sampler_new(const wane_sampling *settings, int vocab_size, struct wane__sampler **sampler,
                      wane_error *error);
void wane__sampler_free(struct wane__sampler *sampler);
/* Start a new request with new settings in the same scratch. */
int wane__sampler_reset(struct wane__sampler *sampler, const wane_sampling *settings, wane_error *error);
/*
 * A token of the context: penalties count prompt and reply alike, as llama.cpp does. Unknown ids are ignored.
 */
void wane__sampler_accept(struct wane__sampler *sampler, int32_t token);
/*
 * Draw the token with index `index` of this reply (0, 1, …): the random number depends on the seed and
 * this index alone. Does not accept it. NaN among the logits it reads gives WANE_EENGINE, and so does
 * +infinity as the best logit: both are an overflow somewhere in the engine. -infinity is never drawn; if
 * there is nothing else, WANE_EINVAL when a bias forbids tokens, WANE_EENGINE when the engine gave only that.
 *
 * The number u in [0, 1) picks the first token, from the best down, at which the running sum of probabilities
 * exceeds u: equal seeds and indices give equal u, whatever the settings, the neighbours or the order of
 * calls.
 */
int wane__sampler_draw(struct wane__sampler *sampler, struct wane__source *source, uint64_t index,
                       struct wane__choice *choice, wane_error *error);
/*
 * For who changes the distribution before a token is drawn from it: all that a draw chooses from. Of the `most` (1 … 256) best
 * candidates after the processors, fewer where top-k or the vocabulary says so, `support` are left by top-p and min-p,
 * which, as in every draw, do not depend on the temperature; the list holds at least these, and no more than it takes to know it. `again`: this row is the one that the sampler was asked about last.
 * The list is the sampler's, and good until it is asked about another row: it only grows behind these, also when
 * wane__sampler_best_drawn asks for up to as many. Errors as of a draw.
 */
struct wane__pool {
    const struct wane__candidate *list; /* best first */
    int count, support;
};
#define WANE__POOL_MOST 256
int wane__sampler_pool(struct wane__sampler *sampler, struct wane__source *source, int most, bool again,
                       struct wane__pool *pool, wane_error *error);
/* A draw in two: the token, then its logprobs, where they are wanted; choice->token may become another one in between. */
int wane__sampler_choose(struct wane__sampler *sampler, struct wane__source *source, uint64_t index,
                         struct wane__choice *choice, wane_error *error);
int wane__sampler_finish(struct wane__sampler *sampler, struct wane__source *source,
                         struct wane__choice *choice, wane_error *error);
/*
 * The best candidates after the processors, at most 64, as the draw of this row will see them; then bounds of log Σ exp(logit)
 * over the whole vocabulary after the processors, exactly where the source knows no bounds. Both change nothing; the sum
 * belongs to the candidates that were asked for last.
 */
int wane__sampler_best(struct wane__sampler *sampler, struct wane__source *source, int count,
                       struct wane__candidate *out, int *found, wane_error *error);
int wane__sampler_log_sum(struct wane__sampler *sampler, struct wane__source *source, bool closely,
                          double *low, double *high, wane_error *error);
/*
 * The `count` best candidates after bias and penalties, best first, before any filter: of the row that was drawn from last,
 * and before the drawn token is accepted. The choice's candidates stay where they are. `log_sum`, unless NULL: of all
 * exponentials; to a hundredth where the source can bound it so closely, else exactly.
 */
int wane__sampler_best_drawn(struct wane__sampler *sampler, struct wane__source *source, int count,
                             struct wane__candidate *out, int *found, double *log_sum);
/* Does no processor change a logit: no bias, no token in a penalty's window? */
bool wane__sampler_is_plain(const struct wane__sampler *sampler);
uint64_t wane__sampler_seed(const struct wane__sampler *sampler);
/*
 * From the next draw on: another temperature than the request's, and another top-p; NAN: the request's own. Costs nothing: both count only
 * where a token is drawn.
 */
void wane__sampler_steer(struct wane__sampler *sampler, float temperature, float top_p);
/* From the next draw on: other random numbers for the same indices. */
void wane__sampler_reseed(struct wane__sampler *sampler, uint64_t seed);

/* Range checks of the settings, in words that name field, value and range. */
int wane__sampling_check(const wane_sampling *settings, int vocab_size, wane_error *error);
void wane__sampling_defaults(wane_sampling *settings);

#endif
