/*
 * tune_fit.c - from rows of signals to a profile and what can be said of it.
 *
 * Whole texts (windows, where there are few texts) go to one part or the other. Layer, sign, signal and thresholds come from the one, every
 * figure that the profile states from the other: comparing thirty layers there would find a good one by luck.
 */
#include "tune.h"

#include "core/error.h"
#include "core/memory.h"
#include "core/rng.h"
#include "governor/fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fewer texts than these are cut at windows. */
enum { TEXTS_LEAST = 8, BLOCKS_LEAST = 8, LABELS_LEAST = 30 };

/* What the original's governor has, whatever the model. */
static const double original_peak = 4.2, original_spread = 0.08, original_low = 2.1, original_jerk = 0.15;

struct fitting {
    const struct wane__tune_rows *rows;
    const wane_tune_options *options;
    wane_tune_report *report;
    struct wane__fit_text text;
    struct wane__fit_draws draws;
    uint8_t *label, *first, *part;
    int32_t *block;
    float *column, *spread; /* of one signal at a time */
    double *gain[2];
};

/* ------------------------------------------------------------------- parts */

struct unit {
    uint64_t key;
    int32_t number;
    size_t labelled;
    uint8_t part;
};

static int by_key(const void *a, const void *b) {
    const struct unit *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->number - y->number;
}

static int by_number(const void *a, const void *b) {
    return ((const struct unit *)a)->number - ((const struct unit *)b)->number;
}

/* In an order that the seed makes, each to the part that is short of its share. */
static void deal(struct unit *unit, size_t count, double share, uint64_t seed) {
    double all = 0, held = 0;
    for (size_t i = 0; i < count; i++) unit[i].key = wane__random_bits(seed, (uint64_t)i);
    qsort(unit, count, sizeof *unit, by_key);
    for (size_t i = 0; i < count; i++) {
        double n = (double)unit[i].labelled;
        unit[i].part = held + n / 2 <= share * (all + n) ? WANE__FIT_HELD : WANE__FIT_LEARN;
        all += n;
        if (unit[i].part == WANE__FIT_HELD) held += n;
    }
    qsort(unit, count, sizeof *unit, by_number);
}

/* Blocks of so many labelled tokens, none over a window's end. */
static void cut(struct fitting *f, const struct unit *unit, bool by_text) {
    const struct wane__tune_rows *rows = f->rows;
    int32_t block = -1;
    int in_block = 0;
    for (size_t i = 0; i < rows->count; i++) {
        const struct wane__tune_row *row = &rows->row[i];
        f->label[i] = row->label;
        f->first[i] = row->first;
        if (i == 0 || row->window != rows->row[i - 1].window || in_block == f->options->block) {
            f->part[++block] = unit[by_text ? row->text : row->window].part;
            in_block = 0;
        }
        in_block += row->label != WANE__FIT_UNLABELLED;
        f->block[i] = block;
    }
    f->text = (struct wane__fit_text){rows->count, f->label, f->first, f->block, f->part, block + 1};
}

/* Texts and windows count up from 0 along the rows. */
static int set_parts(struct fitting *f, wane_error *error) {
    const struct wane__tune_rows *rows = f->rows;
    size_t units = 0;
    int32_t texts = 0, before = -1; /* with labels in them */
    for (size_t i = 0; i < rows->count; i++) {
        if (rows->row[i].label == WANE__FIT_UNLABELLED || rows->row[i].text == before) continue;
        before = rows->row[i].text;
        texts++;
    }
    bool by_text = texts >= TEXTS_LEAST;
    for (size_t i = 0; i < rows->count; i++) {
        size_t number = (size_t)(by_text ? rows->row[i].text : rows->row[i].window);
        if (number + 1 > units) units = number + 1;
    }
    struct unit *unit = wane__alloc_zero(units + 1, sizeof *unit);
    if (unit == NULL) return wane__fail(error, WANE_ENOMEM, "No memory to tune.");
    for (size_t i = 0; i < units; i++) unit[i].number = (int32_t)i;
    for (size_t i = 0; i < rows->count; i++)
        unit[by_text ? rows->row[i].text : rows->row[i].window].labelled +=
            rows->row[i].label != WANE__FIT_UNLABELLED;
    deal(unit, units, f->options->held_out, f->options->seed);
    cut(f, unit, by_text);
    wane__free(unit);
    return WANE_OK;
}

static int check_parts(struct fitting *f, wane_error *error) {
    size_t labelled[2] = {0}, right[2] = {0};
    int blocks[2] = {0};
    int32_t before = -1;
    for (size_t i = 0; i < f->text.count; i++) {
        if (f->label[i] == WANE__FIT_UNLABELLED) continue;
        int part = f->part[f->block[i]];
        labelled[part]++;
        right[part] += f->label[i] == WANE__FIT_RIGHT;
        blocks[part] += f->block[i] != before;
        before = f->block[i];
    }
    wane_tune_report *r = f->report;
    r->tokens = labelled[0] + labelled[1];
    r->right = right[0] + right[1];
    r->held_tokens = labelled[WANE__FIT_HELD];
    r->held_right = right[WANE__FIT_HELD];
    r->blocks = blocks[0] + blocks[1];
    r->held_blocks = blocks[WANE__FIT_HELD];
    for (int p = 0; p < 2; p++)
        if (blocks[p] < BLOCKS_LEAST || right[p] < LABELS_LEAST || labelled[p] - right[p] < LABELS_LEAST)
            return wane__fail(
                error, WANE_EINVAL,
                "Too little text to tune on: the part that %s has %zu labelled tokens, %zu of them right, in "
                "%d "
                "blocks of %d; it takes %d right ones, %d wrong ones and %d blocks. Give more text.",
                p == WANE__FIT_HELD ? "is held out" : "thresholds come from", labelled[p], right[p],
                blocks[p], f->options->block, LABELS_LEAST, LABELS_LEAST, BLOCKS_LEAST);
    return WANE_OK;
}

/* ------------------------------------------------------------------- signals */

static void load(const struct fitting *f, int column, float *out) {
    size_t columns = (size_t)wane__tune_columns(f->rows);
    for (size_t i = 0; i < f->rows->count; i++) out[i] = f->rows->value[i * columns + (size_t)column];
}

static void name_row(const struct fitting *f, int column, wane_tune_row *row) {
    int layers = f->rows->layers, at = column - WANE__TUNE_KURTOSIS;
    row->layer = at >= 0 ? f->rows->layer[at % layers] : -1;
    row->signal = column == WANE__TUNE_ENTROPY  ? "entropy"
                  : column == WANE__TUNE_MARGIN ? "margin"
                  : at < layers                 ? "kurtosis"
                                                : "spread";
}

static wane_tune_interval interval(struct wane__fit_share share, int sign) {
    return sign >= 0 ? (wane_tune_interval){share.value, share.low, share.high}
                     : (wane_tune_interval){1 - share.value, 1 - share.high, 1 - share.low};
}

static bool rate(struct fitting *f, int column, wane_tune_row *row) {
    struct wane__fit_auc all, learnt, held;
    name_row(f, column, row);
    load(f, column, f->column);
    if (!wane__fit_auc(&f->text, f->column, WANE__FIT_ALL, &f->draws, &all) ||
        !wane__fit_auc(&f->text, f->column, WANE__FIT_LEARN, NULL, &learnt) ||
        !wane__fit_auc(&f->text, f->column, WANE__FIT_HELD, &f->draws, &held))
        return false;
    row->sign = learnt.auc.value < 0.5 ? -1 : 1;
    row->tokens = all.right + all.wrong;
    row->missing = all.missing;
    row->auc = interval(all.auc, 1);
    row->learnt = row->sign > 0 ? learnt.auc.value : 1 - learnt.auc.value;
    row->held = interval(held.auc, row->sign);
    return true;
}

static int rate_all(struct fitting *f, wane_error *error) {
    wane_tune_report *r = f->report;
    int columns = wane__tune_columns(f->rows);
    r->layers = f->rows->layers;
    r->rows = wane__alloc_zero((size_t)columns, sizeof *r->rows);
    if (r->rows == NULL) return wane__fail(error, WANE_ENOMEM, "No memory to tune.");
    r->row_count = (size_t)columns;
    for (int c = 0; c < columns; c++) {
        if (f->options->progress != NULL &&
            !f->options->progress(f->options->progress_user, "fitting", (double)c / columns))
            return wane__fail(error, WANE_ECANCELLED, "Tuning was stopped.");
        if (!rate(f, c, &r->rows[c])) return wane__fail(error, WANE_ENOMEM, "No memory to tune.");
    }
    return WANE_OK;
}

/* By what the learning part says; NAN loses. */
static int better_of(const wane_tune_report *r, int a, int b) {
    if (a < 0) return b;
    return r->rows[b].learnt > r->rows[a].learnt || isnan(r->rows[a].learnt) ? b : a;
}

static int kind_of(const struct fitting *f, int row) {
    if (row == WANE__TUNE_ENTROPY) return WANE_SIGNAL_ENTROPY;
    if (row == WANE__TUNE_MARGIN) return WANE_SIGNAL_MARGIN;
    return row < WANE__TUNE_KURTOSIS + f->rows->layers ? WANE_SIGNAL_KURTOSIS : WANE_SIGNAL_NONE;
}

/* Is a layer's kurtosis better than what costs no probe, by more than luck? The best of many layers is always a little better. */
static bool worth_a_probe(struct fitting *f, int layer, int plain, bool *worth) {
    const wane_tune_row *rows = f->report->rows;
    struct wane__fit_share share;
    load(f, layer, f->column);
    load(f, plain, f->spread);
    bool fine = wane__fit_auc_difference(&f->text, f->column, rows[layer].sign, f->spread, rows[plain].sign,
                                         WANE__FIT_LEARN, &f->draws, &share);
    *worth = fine && (share.low > 0 || isnan(rows[plain].learnt));
    return fine;
}

static int choose(struct fitting *f, wane_error *error) {
    wane_tune_report *r = f->report;
    int wanted = f->options->signal, plain = -1;
    bool worth = wanted == WANE_SIGNAL_KURTOSIS;
    r->best_kurtosis = -1;
    for (int c = 0; c < (int)r->row_count; c++) {
        int kind = kind_of(f, c);
        if (kind == WANE_SIGNAL_KURTOSIS)
            r->best_kurtosis = better_of(r, r->best_kurtosis, c);
        else if (kind != WANE_SIGNAL_NONE && (wanted == WANE_SIGNAL_NONE || wanted == kind))
            plain = better_of(r, plain, c);
    }
    if (r->best_kurtosis < 0 && worth)
        return wane__fail(error, WANE_EUNSUPPORTED,
                          "No layer of this model can be probed, so that it has no kurtosis.");
    if (r->best_kurtosis >= 0 && wanted == WANE_SIGNAL_NONE &&
        !worth_a_probe(f, r->best_kurtosis, plain, &worth))
        return wane__fail(error, WANE_ENOMEM, "No memory to tune.");
    r->best = worth ? r->best_kurtosis : plain;
    return WANE_OK;
}

/* ------------------------------------------------------------------- thresholds */

static wane_tune_states states_of(const struct wane__fit_score *score) {
    wane_tune_states s = {.bits = interval(score->bits, 1), .gap = interval(score->gap, 1)};
    for (int i = 0; i < WANE_STATES; i++) {
        s.tokens[i] = score->tokens[i];
        s.right[i] = score->right[i];
    }
    return s;
}

static bool judge_original(struct fitting *f) {
    wane_tune_report *r = f->report;
    static const double none[WANE_STATES] = {0};
    struct wane__fit_score score;
    struct wane__fit_share better = {(double)NAN, (double)NAN, (double)NAN};
    struct wane__fit_rule rule = {f->column,       f->spread,    1, original_peak, original_low,
                                  original_spread, original_jerk};
    r->better = interval(better, 1);
    r->original.bits = r->original.gap = r->better;
    if (r->best_kurtosis < 0) return true;
    load(f, r->best_kurtosis, f->column);
    load(f, r->best_kurtosis + f->rows->layers, f->spread);
    if (!wane__fit_score(&f->text, &rule, &f->draws, none, &score, f->gain[1]) ||
        !wane__fit_difference(&f->text, f->gain[0], f->gain[1], &f->draws, &better))
        return false;
    r->original = states_of(&score);
    r->better = interval(better, 1);
    return true;
}

static void set_thresholds(wane_profile *p, const struct wane__fit_rule *rule, double temperature) {
    p->peak = (float)rule->peak;
    p->low = (float)rule->low;
    if (!(p->low < p->peak)) p->low = nextafterf(p->peak, -INFINITY); /* of two values, say */
    p->spread = (float)rule->spread_threshold;
    p->jerk = (float)rule->jerk_threshold;
    p->temp_fallback = isnan(temperature) ? 0 : (float)temperature;
}

static void set_profile(struct fitting *f, const struct wane__fit_rule *rule, double temperature) {
    wane_tune_report *r = f->report;
    const wane_tune_row *row = &r->rows[r->best];
    wane_profile *p = &r->profile;
    wane_profile_init(p);
    p->sign = row->sign;
    p->samples = (int)(r->tokens - r->held_tokens);
    p->auc = (float)row->held.value;
    p->auc_low = (float)row->held.low;
    p->auc_high = (float)row->held.high;
    if (f->options->domain != NULL) snprintf(p->domain, sizeof p->domain, "%s", f->options->domain);
    if (f->options->command != NULL) snprintf(p->command, sizeof p->command, "%s", f->options->command);
    char where[40] = "";
    if (row->layer >= 0) snprintf(where, sizeof where, " of layer %d", row->layer);
    bool signal = row->held.low > 0.5;
    snprintf(r->verdict, sizeof r->verdict,
             signal ? "signal: %s%s, AUC %.3f (95 %%: %.3f to %.3f) on held-out text"
                    : "no signal: the best, %s%s, has AUC %.3f (95 %%: %.3f to %.3f) on held-out text, which "
                      "holds 0.5",
             row->signal, where, row->held.value, row->held.low, row->held.high);
    if (!signal) return;
    p->signal = kind_of(f, r->best);
    p->layer = row->layer;
    set_thresholds(p, rule, temperature);
}

static bool fit_best(struct fitting *f) {
    wane_tune_report *r = f->report;
    wane_profile_init(&r->profile); /* its temperatures are those that states name */
    const wane_tune_row *row = &r->rows[r->best];
    struct wane__fit_curve curve;
    struct wane__fit_bin bin[WANE_TUNE_BINS];
    struct wane__fit_score score;
    const double temperature[WANE_STATES] = {0, (double)r->profile.locked_temperature,
                                             (double)r->profile.explore_temperature,
                                             (double)r->profile.protect_temperature};
    bool layered = kind_of(f, r->best) == WANE_SIGNAL_KURTOSIS;
    load(f, r->best, f->column);
    if (layered) load(f, r->best + f->rows->layers, f->spread);
    struct wane__fit_rule rule = {.value = f->column,
                                  .spread = layered ? f->spread : NULL,
                                  .sign = row->sign};
    /* One value for all: there is no curve, and nothing that a threshold could part. */
    if (wane__fit_curve(&f->text, f->column, row->sign, WANE__FIT_LEARN, &curve)) {
        if (!wane__fit_thresholds(&f->text, &curve, &f->draws, &rule)) return false;
    } else {
        curve = (struct wane__fit_curve){.width = 1};
        rule.peak = INFINITY;
        rule.low = -INFINITY;
    }
    int bins = wane__fit_bins(&f->text, f->column, row->sign, WANE__FIT_HELD, bin, WANE_TUNE_BINS);
    if (bins < 0 || !wane__fit_score(&f->text, &rule, &f->draws, temperature, &score, f->gain[0]))
        return false;
    for (int i = 0; i < bins; i++)
        r->bin[i] = (wane_tune_bin){bin[i].from, bin[i].to,   bin[i].mean, bin[i].accuracy,
                                    bin[i].low,  bin[i].high, bin[i].count};
    r->bins = bins;
    r->floor = curve.floor;
    r->ceiling = curve.ceiling;
    r->middle = curve.middle;
    r->width = curve.width;
    r->knee = curve.knee;
    r->foot = curve.foot;
    r->peak = rule.peak;
    r->low = rule.low;
    r->own = states_of(&score);
    set_profile(f, &rule, score.temperature);
    return true;
}

/* ------------------------------------------------------------------- all of it */

static bool make_room(struct fitting *f) {
    size_t n = f->rows->count + 1;
    f->label = wane__alloc_zero(n, sizeof *f->label);
    f->first = wane__alloc_zero(n, sizeof *f->first);
    f->part = wane__alloc_zero(n, sizeof *f->part);
    f->block = wane__alloc_zero(n, sizeof *f->block);
    f->column = wane__alloc_zero(n, sizeof *f->column);
    f->spread = wane__alloc_zero(n, sizeof *f->spread);
    f->gain[0] = wane__alloc_zero(n, sizeof **f->gain);
    f->gain[1] = wane__alloc_zero(n, sizeof **f->gain);
    return f->label != NULL && f->first != NULL && f->part != NULL && f->block != NULL && f->column != NULL &&
           f->spread != NULL && f->gain[0] != NULL && f->gain[1] != NULL;
}

static void release(struct fitting *f) {
    wane__free(f->label);
    wane__free(f->first);
    wane__free(f->part);
    wane__free(f->block);
    wane__free(f->column);
    wane__free(f->spread);
    wane__free(f->gain[0]);
    wane__free(f->gain[1]);
    wane__fit_draws_free(&f->draws);
}

int wane__tune_fit(const struct wane__tune_rows *rows, const wane_tune_options *options,
                   wane_tune_report *report, wane_error *error) {
    struct fitting f = {.rows = rows, .options = options, .report = report};
    int status = make_room(&f) ? set_parts(&f, error) : wane__fail(error, WANE_ENOMEM, "No memory to tune.");
    if (status == WANE_OK) status = check_parts(&f, error);
    if (status == WANE_OK && !wane__fit_draw(&f.text, options->replicates, options->seed, &f.draws))
        status = wane__fail(error, WANE_ENOMEM, "No memory for %d draws.", options->replicates);
    if (status == WANE_OK) status = rate_all(&f, error);
    if (status == WANE_OK) status = choose(&f, error);
    if (status == WANE_OK && (!fit_best(&f) || !judge_original(&f)))
        status = wane__fail(error, WANE_ENOMEM, "No memory to tune.");
    release(&f);
    return status;
}
