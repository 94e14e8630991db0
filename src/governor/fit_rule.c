/*
 * fit_rule.c - thresholds of the states, and what the states are worth on text that had no say in them.
 *
 * peak and low are the two bends of the S-curve, kept inside the signal's own range: LOCKED is for a twentieth of the tokens at
 * least and for half of them at most, and so is EXPLORE. Spread and jerk must earn their place: a threshold is chosen on LEARN where it tells
 * most, and is dropped unless the interval on HELD agrees.
 */
#include "core/memory.h"
#include "governor/fit_internal.h"
#include "governor/state.h"

#include <math.h>

static const double extreme = 0.05, half = 0.5;
static const double tries[] = {0.5, 0.75, 0.9, 0.95}; /* quantiles at which a threshold may stand */
enum { TRIES = sizeof tries / sizeof *tries };

/* ------------------------------------------------------------------ means by block */

/* A mean as two sums of each block. */
struct mean {
    double *sum, *count;
};

static bool mean_new(const struct wane__fit_text *text, struct mean *mean) {
    mean->sum = wane__alloc_zero((size_t)text->blocks + 1, sizeof *mean->sum);
    mean->count = wane__alloc_zero((size_t)text->blocks + 1, sizeof *mean->count);
    return mean->sum != NULL && mean->count != NULL;
}

static void mean_free(struct mean *mean) {
    wane__free(mean->sum);
    wane__free(mean->count);
}

static void mean_add(struct mean *mean, int32_t block, double value) {
    mean->sum[block] += value;
    mean->count[block] += 1;
}

static double mean_of(const struct mean *mean, int blocks, const uint16_t *times) {
    double sum = 0, count = 0;
    for (int b = 0; b < blocks; b++) {
        double weight = times != NULL ? (double)times[b] : 1;
        sum += weight * mean->sum[b];
        count += weight * mean->count[b];
    }
    return count > 0 ? sum / count : (double)NAN;
}

/* a, or a - b. False: no memory. */
static bool mean_interval(const struct mean *a, const struct mean *b, const struct wane__fit_draws *draws,
                          struct wane__fit_share *out) {
    int n = draws->replicates, blocks = draws->blocks;
    double *replicate = wane__alloc_zero((size_t)n + 1, sizeof *replicate);
    if (replicate == NULL) return false;
    out->value = mean_of(a, blocks, NULL) - (b != NULL ? mean_of(b, blocks, NULL) : 0);
    for (int r = 0; r < n; r++) {
        const uint16_t *times = draws->times + (size_t)r * (size_t)blocks;
        replicate[r] = mean_of(a, blocks, times) - (b != NULL ? mean_of(b, blocks, times) : 0);
    }
    wane__fit_interval(replicate, (size_t)n, out);
    if (isnan(out->value)) out->low = out->high = (double)NAN;
    wane__free(replicate);
    return true;
}

bool wane__fit_difference(const struct wane__fit_text *text, const double *a, const double *b,
                          const struct wane__fit_draws *draws, struct wane__fit_share *out) {
    struct mean mean = {0};
    bool fine = mean_new(text, &mean);
    for (size_t i = 0; i < text->count && fine; i++)
        if (wane__fit_takes(text, i, WANE__FIT_HELD)) mean_add(&mean, text->block[i], a[i] - b[i]);
    fine = fine && mean_interval(&mean, NULL, draws, out);
    mean_free(&mean);
    return fine;
}

/* ----------------------------------------------------------------------- states */

double wane__fit_jerk(const struct wane__fit_text *text, const float *value, size_t at) {
    if (at < 3) return (double)NAN;
    for (size_t i = at - 2; i <= at; i++)
        if (text->first[i]) return (double)NAN;
    return wane__jerk((double)value[at],
                      (const double[3]){(double)value[at - 1], (double)value[at - 2], (double)value[at - 3]});
}

int wane__fit_state(const struct wane__fit_text *text, const struct wane__fit_rule *rule, size_t at) {
    double x = rule->sign * (double)rule->value[at];
    if (!isfinite(x)) return wane__state_after(WANE_STATE_NORMAL, WANE__SEES_NOTHING);
    const struct wane__limits limits = {rule->peak, rule->low, rule->spread_threshold, rule->jerk_threshold};
    double jerk = rule->jerk_threshold > 0 ? wane__fit_jerk(text, rule->value, at) : 0;
    double spread = rule->spread != NULL ? (double)rule->spread[at] : (double)NAN;
    return wane__state_after(WANE_STATE_NORMAL, wane__sight_of(x, jerk, spread, &limits));
}

/* ------------------------------------------------------------------- thresholds */

/* Which tokens a threshold is for, and the number that it is set against. NAN: not this token. */
typedef double (*measure_fn)(const struct wane__fit_text *text, const struct wane__fit_rule *rule, size_t at);

static double spread_of_sure(const struct wane__fit_text *text, const struct wane__fit_rule *rule,
                             size_t at) {
    (void)text;
    double x = rule->sign * (double)rule->value[at];
    return isfinite(x) && x > rule->peak ? (double)rule->spread[at] : (double)NAN;
}

static double jerk_of_all(const struct wane__fit_text *text, const struct wane__fit_rule *rule, size_t at) {
    return fabs(wane__fit_jerk(text, rule->value, at));
}

/* The measure of every token. NULL: no memory. */
static float *measured(const struct wane__fit_text *text, const struct wane__fit_rule *rule,
                       measure_fn measure) {
    float *list = wane__alloc_zero(text->count + 1, sizeof *list);
    for (size_t i = 0; i < text->count && list != NULL; i++) list[i] = (float)measure(text, rule, i);
    return list;
}

/* How much less often tokens beyond the threshold are right than the curve says: mean of (right - accuracy), less what it is on this side. */
static bool shortfall(const struct wane__fit_text *text, const struct wane__fit_curve *curve,
                      const struct wane__fit_rule *rule, const float *list, int part, double threshold,
                      const struct wane__fit_draws *draws, struct wane__fit_share *out) {
    struct mean beyond = {0}, within = {0};
    bool fine = mean_new(text, &beyond) && mean_new(text, &within);
    for (size_t i = 0; i < text->count && fine; i++) {
        if (!wane__fit_takes(text, i, part) || !isfinite(list[i])) continue;
        double promise = wane__fit_accuracy(curve, rule->sign * (double)rule->value[i]);
        mean_add((double)list[i] > threshold ? &beyond : &within, text->block[i],
                 (text->label[i] == WANE__FIT_RIGHT) - promise);
    }
    fine = fine && mean_interval(&beyond, &within, draws, out);
    mean_free(&beyond);
    mean_free(&within);
    return fine;
}

/*
 * The quantile on LEARN beyond which tokens fall short most surely (the interval's upper end is lowest), if HELD agrees. 0: none.
 */
static bool threshold_of(const struct wane__fit_text *text, const struct wane__fit_curve *curve,
                         const struct wane__fit_draws *draws, const struct wane__fit_rule *rule,
                         measure_fn measure, double *threshold) {
    float *list = measured(text, rule, measure);
    struct wane__fit_seat *seat = NULL;
    size_t count = 0;
    double best = 0, found = 0;
    *threshold = 0;
    bool fine = list != NULL && wane__fit_sort(text, list, 1, WANE__FIT_LEARN, &seat, &count, NULL);
    for (int t = 0; t < TRIES && fine && count >= 40; t++) {
        struct wane__fit_share share;
        double at = (double)seat[(size_t)(tries[t] * (double)(count - 1))].x;
        fine = shortfall(text, curve, rule, list, WANE__FIT_LEARN, at, draws, &share);
        if (!fine || !(share.high < best) || !(at > 0)) continue;
        best = share.high;
        found = at;
    }
    if (fine && found > 0) {
        struct wane__fit_share share;
        fine = shortfall(text, curve, rule, list, WANE__FIT_HELD, found, draws, &share);
        if (fine && share.high < 0) *threshold = found;
    }
    wane__free(seat);
    wane__free(list);
    return fine;
}

static double inside(double x, double least, double most) {
    return x < least ? least : x > most ? most : x;
}

bool wane__fit_thresholds(const struct wane__fit_text *text, const struct wane__fit_curve *curve,
                          const struct wane__fit_draws *draws, struct wane__fit_rule *rule) {
    struct wane__fit_seat *seat = NULL;
    size_t count = 0;
    rule->spread_threshold = rule->jerk_threshold = 0;
    if (!wane__fit_sort(text, rule->value, rule->sign, WANE__FIT_LEARN, &seat, &count, NULL)) return false;
    bool fine = count > 0;
    if (fine) {
        double last = (double)(count - 1), middle = (double)seat[(size_t)(half * last)].x;
        rule->peak = inside(curve->knee, middle, (double)seat[(size_t)((1 - extreme) * last)].x);
        rule->low = inside(curve->foot, (double)seat[(size_t)(extreme * last)].x, middle);
    }
    wane__free(seat);
    double threshold = 0;
    if (fine && rule->spread != NULL) {
        fine = threshold_of(text, curve, draws, rule, spread_of_sure, &threshold);
        rule->spread_threshold = threshold;
    }
    if (fine) fine = threshold_of(text, curve, draws, rule, jerk_of_all, &threshold);
    rule->jerk_threshold = fine ? threshold : 0;
    return fine;
}

/* ------------------------------------------------------------------------ score */

struct tally {
    double right[WANE_STATES + 1], count[WANE_STATES + 1]; /* the last one: all of them */
};

static void tally(const struct wane__fit_text *text, const struct wane__fit_rule *rule, int part,
                  struct tally *t) {
    *t = (struct tally){0};
    for (size_t i = 0; i < text->count; i++) {
        if (!wane__fit_takes(text, i, part)) continue;
        int state = wane__fit_state(text, rule, i);
        bool right = text->label[i] == WANE__FIT_RIGHT;
        t->count[state]++;
        t->right[state] += right;
        t->count[WANE_STATES]++;
        t->right[WANE_STATES] += right;
    }
}

static double bits_of(const struct tally *t, int state, bool right) {
    double promise = (t->right[state] + 1) / (t->count[state] + 2);
    return log2(right ? promise : 1 - promise);
}

static double mean_temperature(const struct tally *t, const double temperature[WANE_STATES]) {
    double sum = 0, count = 0;
    for (int s = 0; s < WANE_STATES; s++) {
        if (temperature == NULL || !(temperature[s] > 0)) continue;
        sum += t->count[s] * temperature[s];
        count += t->count[s];
    }
    return count > 0 ? sum / count : (double)NAN;
}

bool wane__fit_score(const struct wane__fit_text *text, const struct wane__fit_rule *rule,
                     const struct wane__fit_draws *draws, const double temperature[WANE_STATES],
                     struct wane__fit_score *out, double *gain) {
    struct mean bits = {0}, state[WANE_STATES] = {{0}};
    struct tally learnt, held;
    bool fine = mean_new(text, &bits);
    for (int s = 0; s < WANE_STATES; s++) fine = mean_new(text, &state[s]) && fine;
    *out = (struct wane__fit_score){0};
    tally(text, rule, WANE__FIT_LEARN, &learnt);
    tally(text, rule, WANE__FIT_HELD, &held);
    out->temperature = mean_temperature(&learnt, temperature);
    for (int s = 0; s < WANE_STATES; s++) {
        out->tokens[s] = (size_t)held.count[s];
        out->right[s] = (size_t)held.right[s];
    }
    for (size_t i = 0; i < text->count && fine; i++) {
        if (gain != NULL) gain[i] = 0;
        if (!wane__fit_takes(text, i, WANE__FIT_HELD)) continue;
        int s = wane__fit_state(text, rule, i);
        bool right = text->label[i] == WANE__FIT_RIGHT;
        double saved = bits_of(&learnt, s, right) - bits_of(&learnt, WANE_STATES, right);
        mean_add(&bits, text->block[i], saved);
        mean_add(&state[s], text->block[i], right);
        if (gain != NULL) gain[i] = saved;
    }
    fine = fine && mean_interval(&bits, NULL, draws, &out->bits) &&
           mean_interval(&state[WANE_STATE_LOCKED], &state[WANE_STATE_EXPLORE], draws, &out->gap);
    mean_free(&bits);
    for (int s = 0; s < WANE_STATES; s++) mean_free(&state[s]);
    return fine;
}
