/*
 * test_tune.c - tuning where the truth is known: ranks against every pair counted, intervals that hold the truth as often as they say, signals
 * found with their sign, noise called noise at the promised rate, thresholds where they were planted, and labelled text read or refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/memory.h"
#include "core/rng.h"
#include "governor/fit.h"
#include "model.h"
#include "tune.h"
#include "tune_text.h"

/* Sanitizers make everything twenty times slower: fewer rounds then, and only what no round may break. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define assert_near(a, b, most)                                                    \
    do {                                                                           \
        double a_ = (double)(a), b_ = (double)(b);                                 \
        if (!(fabs(a_ - b_) <= (most))) fail_msg(#a " is %.9g, not %.9g", a_, b_); \
    } while (0)

static double normal(uint64_t seed, uint64_t i) {
    double u = wane__random_unit(seed, 2 * i), v = wane__random_unit(seed, 2 * i + 1);
    return sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v);
}

/* ------------------------------------------------------------------- a made-up text */

struct made {
    struct wane__fit_text text;
    uint8_t *label, *first, *part;
    int32_t *block;
    float *value;
};

/* Tokens in blocks, parts by turns. */
static struct made make(size_t count, size_t in_block) {
    struct made m = {0};
    size_t blocks = (count + in_block - 1) / in_block;
    m.label = calloc(count, 1);
    m.first = calloc(count, 1);
    m.part = calloc(blocks, 1);
    m.block = calloc(count, sizeof *m.block);
    m.value = calloc(count, sizeof *m.value);
    for (size_t i = 0; i < count; i++) {
        m.block[i] = (int32_t)(i / in_block);
        m.first[i] = i % in_block == 0;
    }
    for (size_t b = 0; b < blocks; b++) m.part[b] = b % 2 == 0 ? WANE__FIT_LEARN : WANE__FIT_HELD;
    m.text = (struct wane__fit_text){count, m.label, m.first, m.block, m.part, (int)blocks};
    return m;
}

static void drop(struct made *m) {
    free(m->label);
    free(m->first);
    free(m->part);
    free(m->block);
    free(m->value);
}

/* --------------------------------------------------------------------------- ranks */

static double by_pairs(const struct made *m, int part) {
    double won = 0, pairs = 0;
    for (size_t i = 0; i < m->text.count; i++)
        for (size_t j = 0; j < m->text.count; j++) {
            bool here =
                part == WANE__FIT_ALL || (m->part[m->block[i]] == part && m->part[m->block[j]] == part);
            if (!here || m->label[i] != WANE__FIT_RIGHT || m->label[j] != WANE__FIT_WRONG) continue;
            if (!isfinite(m->value[i]) || !isfinite(m->value[j])) continue;
            won += m->value[i] > m->value[j] ? 1 : m->value[i] == m->value[j] ? 0.5 : 0;
            pairs++;
        }
    return won / pairs;
}

static void ranks_are_pairs_counted(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct made m = make(300, 20);
        size_t missing = 0, unlabelled = 0;
        for (size_t i = 0; i < 300; i++) {
            double u = wane__random_unit(seed, i);
            m.label[i] = u < 0.1 ? WANE__FIT_UNLABELLED : u < 0.6 ? WANE__FIT_RIGHT : WANE__FIT_WRONG;
            /* Few different values, so that most pairs are ties in half of the rounds. */
            double x = normal(seed + 100, i) + (m.label[i] == WANE__FIT_RIGHT);
            m.value[i] = (float)(seed % 2 == 0 ? x : floor(2 * x));
            if (i % 17 == 0) m.value[i] = i % 2 == 0 ? NAN : INFINITY;
            unlabelled += m.label[i] == WANE__FIT_UNLABELLED;
            missing += m.label[i] != WANE__FIT_UNLABELLED && i % 17 == 0;
        }
        for (int part = WANE__FIT_LEARN; part <= WANE__FIT_ALL; part++) {
            struct wane__fit_auc auc;
            assert_true(wane__fit_auc(&m.text, m.value, part, NULL, &auc));
            assert_near(auc.auc.value, by_pairs(&m, part), 1e-12);
            if (part != WANE__FIT_ALL) continue;
            assert_int_equal(auc.missing, missing);
            assert_int_equal(auc.right + auc.wrong + missing + unlabelled, 300);
        }
        drop(&m);
    }
}

/*
 * How often the 95 % interval holds the true AUC of two normal distributions one apart, Φ(1/√2). With copies, a token stands `copies` times
 * in its block: only an interval that draws blocks knows that it has seen less than it seems.
 */
static double coverage(size_t blocks, size_t in_block, size_t copies, uint64_t from) {
    enum { TIMES = SANITIZED ? 4 : 200 };
    double truth = 0.5 * erfc(-0.5), held = 0;
    for (uint64_t seed = from; seed < from + TIMES; seed++) {
        struct made m = make(blocks * in_block, in_block);
        for (size_t i = 0; i < m.text.count; i++) {
            size_t original = i - i % copies;
            m.label[i] = wane__random_unit(seed, original) < 0.6 ? WANE__FIT_RIGHT : WANE__FIT_WRONG;
            m.value[i] = (float)(normal(seed + 5000, original) + (m.label[i] == WANE__FIT_RIGHT));
        }
        struct wane__fit_draws draws;
        struct wane__fit_auc auc;
        assert_true(wane__fit_draw(&m.text, 1000, seed, &draws));
        assert_true(wane__fit_auc(&m.text, m.value, WANE__FIT_ALL, &draws, &auc));
        assert_true(auc.auc.low < auc.auc.value && auc.auc.value < auc.auc.high);
        held += auc.auc.low <= truth && truth <= auc.auc.high;
        wane__fit_draws_free(&draws);
        drop(&m);
    }
    return held / TIMES;
}

static void intervals_hold_the_truth(void **state) {
    (void)state;
    double loose = coverage(40, 10, 1, 1), tied = coverage(60, 10, 10, 900);
    if (!SANITIZED && (loose < 0.90 || loose > 0.99 || tied < 0.89))
        fail_msg("the 95 %% interval held the truth in %.3f, and in blocks of copies in %.3f", loose, tied);
}

/* --------------------------------------------------------------------------- curve */

static void a_planted_curve_is_found(void **state) {
    (void)state;
    const struct wane__fit_curve truth = {.floor = 0.15, .ceiling = 0.95, .middle = 3, .width = 0.5};
    for (int sign = -1; sign <= 1; sign += 2) {
        struct made m = make(40000, 50);
        for (size_t i = 0; i < m.text.count; i++) {
            double x = 6 * wane__random_unit(7, i);
            m.value[i] = (float)(sign * x);
            m.label[i] =
                wane__random_unit(8, i) < wane__fit_accuracy(&truth, x) ? WANE__FIT_RIGHT : WANE__FIT_WRONG;
        }
        struct wane__fit_curve c;
        assert_true(wane__fit_curve(&m.text, m.value, sign, WANE__FIT_LEARN, &c));
        assert_near(c.floor, truth.floor, 0.03);
        assert_near(c.ceiling, truth.ceiling, 0.03);
        assert_near(c.middle, 3, 0.1);
        assert_near(c.width, 0.5, 0.1);
        /* The bends are where the second derivative is greatest: no point of the curve bends more. */
        for (double x = 0; x < 6; x += 0.01) {
            double h = 1e-3, here = fabs(wane__fit_accuracy(&c, x - h) - 2 * wane__fit_accuracy(&c, x) +
                                         wane__fit_accuracy(&c, x + h));
            double knee = fabs(wane__fit_accuracy(&c, c.knee - h) - 2 * wane__fit_accuracy(&c, c.knee) +
                               wane__fit_accuracy(&c, c.knee + h));
            assert_true(here <= knee * 1.001);
        }
        drop(&m);
    }
}

static void bins_keep_equals_together(void **state) {
    (void)state;
    struct made m = make(1000, 50);
    struct wane__fit_bin bin[20];
    for (size_t i = 0; i < 1000; i++) {
        m.value[i] = (float)(i % 3);
        m.label[i] = i % 3 > 0 ? WANE__FIT_RIGHT : WANE__FIT_WRONG;
    }
    assert_int_equal(wane__fit_bins(&m.text, m.value, 1, WANE__FIT_ALL, bin, 20), 3);
    assert_near(bin[0].accuracy, 0, 0);
    assert_near(bin[2].accuracy, 1, 0);
    assert_true(bin[0].high > 0 && bin[2].low < 1);
    for (size_t i = 0; i < 1000; i++) m.value[i] = (float)i;
    int n = wane__fit_bins(&m.text, m.value, -1, WANE__FIT_ALL, bin, 20);
    size_t all = 0;
    for (int b = 0; b < n; b++) {
        all += bin[b].count;
        assert_true(bin[b].count == 50 && bin[b].from <= bin[b].mean && bin[b].mean <= bin[b].to);
    }
    assert_int_equal(all, 1000);
    drop(&m);
}

/* ---------------------------------------------------------------------- rows to report */

enum { LAYERS = 12, TEXTS = 24, TOKENS = 150 };

/* Values of one token: entropy, margin, kurtosis of 12 layers, spread of 12 layers. Everything noise, until a test sets some of it. */
typedef void (*fill_fn)(float *value, uint8_t *label, uint64_t seed, uint64_t i);

static void noise(float *value, uint8_t *label, uint64_t seed, uint64_t i) {
    for (int c = 0; c < 2 + 2 * LAYERS; c++) value[c] = (float)normal(seed, 64 * i + (uint64_t)c);
    *label = wane__random_unit(seed + 7777, i) < 0.5 ? WANE__FIT_RIGHT : WANE__FIT_WRONG;
}

static struct wane__tune_rows rows_of(fill_fn fill, uint64_t seed, int texts, int tokens) {
    struct wane__tune_rows rows = {.layers = LAYERS};
    for (int l = 0; l < LAYERS; l++) rows.layer[l] = 2 * l + 1; /* their numbers are not their places */
    for (int t = 0; t < texts; t++)
        for (int i = 0; i < tokens; i++) {
            struct wane__tune_row row = {.first = i == 0, .text = t, .window = t};
            float *value = wane__tune_add(&rows, &row);
            assert_non_null(value);
            fill(value, &rows.row[rows.count - 1].label, seed, (uint64_t)(t * tokens + i));
        }
    return rows;
}

static int fit(struct wane__tune_rows *rows, wane_tune_options *options, wane_tune_report *report,
               wane_error *error) {
    wane_tune_options own;
    wane_tune_options_init(&own);
    own.replicates = 1000;
    own.block = 30;
    *report = (wane_tune_report){0};
    return wane__tune_fit(rows, options != NULL ? options : &own, report, error);
}

static wane_tune_report fitted(fill_fn fill, uint64_t seed) {
    struct wane__tune_rows rows = rows_of(fill, seed, TEXTS, TOKENS);
    wane_tune_report report;
    wane_error error;
    assert_int_equal(fit(&rows, NULL, &report, &error), WANE_OK);
    wane__tune_rows_free(&rows);
    return report;
}

static void noise_is_no_signal(void **state) {
    (void)state;
    int none = 0;
    for (uint64_t seed = 1; seed <= (SANITIZED ? 2 : 100); seed++) {
        struct wane__tune_rows rows = rows_of(noise, seed, 16, 60);
        wane_tune_report report;
        wane_error error;
        assert_int_equal(fit(&rows, NULL, &report, &error), WANE_OK);
        none += report.profile.signal == WANE_SIGNAL_NONE;
        if (report.profile.signal == WANE_SIGNAL_NONE) {
            assert_int_equal(report.profile.layer, -1);
            assert_non_null(strstr(report.verdict, "no signal"));
        }
        wane_tune_report_free(&report);
        wane__tune_rows_free(&rows);
    }
    /* A sign that is given leaves one tail of 2.5 %; the best of 38 columns, had it been judged where it was chosen, would pass almost always. */
    if (!SANITIZED && none < 92) fail_msg("of 100 texts without a signal, %d were said to have none", none);
}

static void reversed(float *value, uint8_t *label, uint64_t seed, uint64_t i) {
    noise(value, label, seed, i);
    value[WANE__TUNE_KURTOSIS + 4] =
        (float)(6 + normal(seed, 64 * i + 60) - (*label == WANE__FIT_RIGHT ? 1.2 : 0));
}

static void a_reversed_layer_is_found(void **state) {
    (void)state;
    wane_tune_report r = fitted(reversed, 3);
    assert_int_equal(r.profile.signal, WANE_SIGNAL_KURTOSIS);
    assert_int_equal(r.profile.layer, 9);
    assert_int_equal(r.profile.sign, -1);
    assert_int_equal(r.best, r.best_kurtosis);
    const wane_tune_row *row = &r.rows[r.best];
    /* Normal distributions 1.2 apart: 1 - Φ(1.2/√2). */
    double truth = 0.5 * erfc(0.6);
    assert_true(row->auc.low < truth && truth < row->auc.high);
    assert_near(row->held.value, 1 - truth, 0.05);
    assert_true(row->held.low > 0.5 && row->held.low < row->held.value && row->held.value < row->held.high);
    assert_true(r.profile.auc_low < r.profile.auc && r.profile.auc < r.profile.auc_high);
    /* Thresholds are of sign · value: low values are the sure ones. */
    assert_true(r.profile.low < r.profile.peak && r.profile.peak < 0);
    uint64_t locked = r.own.tokens[WANE_STATE_LOCKED], explore = r.own.tokens[WANE_STATE_EXPLORE];
    assert_true(20 * locked >= r.held_tokens / 2 && 20 * explore >= r.held_tokens / 2);
    assert_true(r.own.gap.low > 0 && r.own.bits.low > 0);
    /* The original's, at this layer, take the wrong side for the sure one. */
    assert_true(r.better.low > 0);
    wane_tune_report_free(&r);
}

static void entropy_wins(float *value, uint8_t *label, uint64_t seed, uint64_t i) {
    reversed(value, label, seed, i);
    value[WANE__TUNE_ENTROPY] = (float)exp(normal(seed, 64 * i + 62) - (*label == WANE__FIT_RIGHT ? 2 : 0));
}

static void the_better_signal_is_taken(void **state) {
    (void)state;
    struct wane__tune_rows rows = rows_of(entropy_wins, 5, TEXTS, TOKENS);
    wane_tune_options o;
    wane_tune_report r;
    wane_error error;
    assert_int_equal(fit(&rows, NULL, &r, &error), WANE_OK);
    assert_int_equal(r.profile.signal, WANE_SIGNAL_ENTROPY);
    assert_int_equal(r.profile.layer, -1);
    assert_int_equal(r.profile.sign, -1);
    assert_near(r.profile.spread, 0, 0);
    assert_int_equal(r.rows[r.best_kurtosis].layer, 9);
    wane_tune_report_free(&r);
    wane_tune_options_init(&o);
    o.signal = WANE_SIGNAL_KURTOSIS;
    o.replicates = 1000;
    assert_int_equal(fit(&rows, &o, &r, &error), WANE_OK);
    assert_int_equal(r.profile.signal, WANE_SIGNAL_KURTOSIS);
    assert_int_equal(r.profile.layer, 9);
    wane_tune_report_free(&r);
    o.signal = WANE_SIGNAL_MARGIN; /* noise */
    assert_int_equal(fit(&rows, &o, &r, &error), WANE_OK);
    assert_int_equal(r.profile.signal, WANE_SIGNAL_NONE);
    wane_tune_report_free(&r);
    wane__tune_rows_free(&rows);
}

static void weak(float *value, uint8_t *label, uint64_t seed, uint64_t i) {
    noise(value, label, seed, i);
    value[WANE__TUNE_ENTROPY] -= *label == WANE__FIT_RIGHT ? 0.12f : 0;
}

/* The best of twelve layers of noise is often above a weak signal on the part that is chosen on; that is no reason to probe it. */
static void luck_pays_for_no_probe(void **state) {
    (void)state;
    int kurtosis = 0;
    for (uint64_t seed = 1; seed <= (SANITIZED ? 1 : 40); seed++) {
        wane_tune_report r = fitted(weak, seed);
        kurtosis += r.best == r.best_kurtosis;
        wane_tune_report_free(&r);
    }
    if (kurtosis > 2) fail_msg("noise of a layer was preferred to a weak signal in %d of 40 texts", kurtosis);
}

static void steady(float *value, uint8_t *label, uint64_t seed, uint64_t i) {
    noise(value, label, seed, i);
    for (int c = 0; c < 2 + 2 * LAYERS; c++) value[c] = 3;
}

static void steps(float *value, uint8_t *label, uint64_t seed, uint64_t i) {
    steady(value, label, seed, i);
    value[WANE__TUNE_MARGIN] = *label == WANE__FIT_RIGHT && wane__random_unit(seed + 9, i) < 0.8 ? 1 : 0;
}

static void nothing(float *value, uint8_t *label, uint64_t seed, uint64_t i) {
    noise(value, label, seed, i);
    for (int c = 0; c < 2 + 2 * LAYERS; c++) value[c] = NAN;
}

static void odd_values_are_harmless(void **state) {
    (void)state;
    wane_tune_report r = fitted(steady, 1);
    assert_int_equal(r.profile.signal, WANE_SIGNAL_NONE);
    assert_near(r.rows[r.best].held.value, 0.5, 0);
    assert_true(r.own.tokens[WANE_STATE_NORMAL] == r.held_tokens);
    wane_tune_report_free(&r);
    r = fitted(steps, 1); /* two values */
    assert_int_equal(r.profile.signal, WANE_SIGNAL_MARGIN);
    assert_int_equal(r.bins, 2);
    assert_true(isfinite(r.profile.peak) && isfinite(r.profile.low) && r.profile.low <= r.profile.peak);
    wane_tune_report_free(&r);
    r = fitted(nothing, 1);
    assert_int_equal(r.profile.signal, WANE_SIGNAL_NONE);
    for (size_t i = 0; i < r.row_count; i++) {
        assert_int_equal(r.rows[i].tokens, 0);
        assert_int_equal(r.rows[i].missing, r.tokens);
        assert_true(isnan(r.rows[i].auc.value) && isnan(r.rows[i].held.low));
    }
    wane_tune_report_free(&r);
}

static void gaps(float *value, uint8_t *label, uint64_t seed, uint64_t i) {
    reversed(value, label, seed, i);
    if (i % 10 == 0) value[WANE__TUNE_KURTOSIS + 4] = i % 20 == 0 ? NAN : INFINITY;
}

static void missing_values_are_counted(void **state) {
    (void)state;
    wane_tune_report r = fitted(gaps, 3);
    assert_int_equal(r.profile.layer, 9);
    assert_int_equal(r.rows[r.best].missing, TEXTS * TOKENS / 10);
    assert_int_equal(r.rows[r.best].tokens, TEXTS * TOKENS - TEXTS * TOKENS / 10);
    assert_int_equal(r.tokens, TEXTS * TOKENS);
    wane_tune_report_free(&r);
}

/* ---- jerk and spread ---- */

/* A slow signal that now and then leaps for one token: for four tokens from there on, right ones are few. */
static void jumping(float *value, uint8_t *label, uint64_t seed, uint64_t i) {
    noise(value, label, seed, i);
    bool jump = wane__random_unit(seed + 11, i / 8) < 0.4;
    double x = 2 * sin((double)i / 40) + 0.02 * normal(seed, 64 * i + 50);
    double promise = 1 / (1 + exp(-1.5 * x));
    if (jump && i % 8 == 0) x += x > 0 ? -1 : 1;
    if (jump && i % 8 < 4) promise *= 0.2;
    *label = wane__random_unit(seed + 13, i) < promise ? WANE__FIT_RIGHT : WANE__FIT_WRONG;
    value[WANE__TUNE_KURTOSIS + 2] = (float)(5 + x);
}

static void calm(float *value, uint8_t *label, uint64_t seed, uint64_t i) {
    noise(value, label, seed, i);
    double x = normal(seed, 64 * i + 50);
    *label = wane__random_unit(seed + 13, i) < 1 / (1 + exp(-1.5 * x)) ? WANE__FIT_RIGHT : WANE__FIT_WRONG;
    value[WANE__TUNE_KURTOSIS + 2] = (float)(5 + x);
}

static void wide(float *value, uint8_t *label, uint64_t seed, uint64_t i) {
    calm(value, label, seed, i);
    double spread = 0.05 + 0.1 * wane__random_unit(seed + 17, i);
    value[WANE__TUNE_KURTOSIS + LAYERS + 2] = (float)spread;
    if (spread > 0.1 && value[WANE__TUNE_KURTOSIS + 2] > 5.5f)
        *label = wane__random_unit(seed + 19, i) < 0.4 ? WANE__FIT_RIGHT : WANE__FIT_WRONG;
}

static void jerk_and_spread_earn_their_place(void **state) {
    (void)state;
    wane_tune_report r = fitted(jumping, 2);
    assert_int_equal(r.profile.layer, 5);
    assert_true(r.profile.jerk > 0);
    assert_true(r.own.tokens[WANE_STATE_PROTECT] > 0);
    double protected = (double)r.own.right[WANE_STATE_PROTECT] / (double)r.own.tokens[WANE_STATE_PROTECT];
    assert_true(protected < (double)r.own.right[WANE_STATE_NORMAL] / (double)r.own.tokens[WANE_STATE_NORMAL]);
    wane_tune_report_free(&r);
    r = fitted(wide, 2);
    assert_int_equal(r.profile.layer, 5);
    assert_true(r.profile.spread > 0.05f && r.profile.spread < 0.13f);
    wane_tune_report_free(&r);
    int kept = 0;
    for (uint64_t seed = 1; seed <= (SANITIZED ? 1 : 20); seed++) {
        r = fitted(calm, seed);
        kept += (r.profile.jerk > 0) + (r.profile.spread > 0);
        wane_tune_report_free(&r);
    }
    if (kept > 3) fail_msg("%d of 40 thresholds were kept where there is nothing to them", kept);
}

/* ---- the whole ---- */

static void the_same_seed_gives_the_same_profile(void **state) {
    (void)state;
    wane_tune_report a = fitted(calm, 4), b = fitted(calm, 4);
    assert_memory_equal(&a.profile, &b.profile, sizeof a.profile);
    assert_memory_equal(&a.better, &b.better, sizeof a.better);
    assert_true(a.profile.temp_fallback > 0.3f && a.profile.temp_fallback < 0.85f);
    assert_int_equal(a.profile.samples + (int)a.held_tokens, (int)a.tokens);
    assert_true(a.held_tokens > a.tokens * 2 / 5 && a.held_tokens < a.tokens * 3 / 5);
    wane_tune_report_free(&a);
    wane_tune_report_free(&b);
}

static void too_little_is_refused(void **state) {
    (void)state;
    static const struct { int texts, tokens; } tiny[] = {{0, 0}, {1, 1}, {1, 200}, {2, 100}, {30, 3}};
    for (size_t i = 0; i < sizeof tiny / sizeof *tiny; i++) {
        struct wane__tune_rows rows = rows_of(calm, 1, tiny[i].texts, tiny[i].tokens);
        wane_tune_report r;
        wane_error error = {0};
        assert_int_equal(fit(&rows, NULL, &r, &error), WANE_EINVAL);
        assert_non_null(strstr(error.text, "Too little text"));
        wane_tune_report_free(&r);
        wane__tune_rows_free(&rows);
    }
    struct wane__tune_rows rows = rows_of(calm, 1, TEXTS, TOKENS);
    for (size_t i = 0; i < rows.count; i++) rows.row[i].label = WANE__FIT_RIGHT;
    wane_tune_report r;
    wane_error error = {0};
    assert_int_equal(fit(&rows, NULL, &r, &error),
                     WANE_EINVAL); /* nothing is wrong: no two kinds to tell apart */
    wane_tune_report_free(&r);
    wane__tune_rows_free(&rows);
}

/* ------------------------------------------------------------------- labelled text */

static void text_is_read_or_refused(void **state) {
    (void)state;
    static const struct {
        const char *line, *says; /* NULL: fine */
    } lines[] = {
        {"{\"text\": \"a b c\"}", NULL},
        {"{\"text\": \"a b c\", \"spans\": [{\"from\": 0, \"to\": 1, \"right\": true}, {\"from\": 1, \"to\": "
         "5, \"right\": false}]}",
         NULL},
        {"{\"text\": \"\xe4\xbd\xa0\", \"spans\": [{\"from\": 0, \"to\": 3, \"right\": true}]}", NULL},
        {"", "not JSON"},
        {"{\"text\": \"a\"", "not JSON"},
        {"{\"text\": \"a\", \"text\": \"b\"}", "not JSON"},
        {"[1]", "not an object"},
        {"{}", "\"text\""},
        {"{\"text\": \"\"}", "\"text\""},
        {"{\"text\": 3}", "\"text\""},
        {"{\"text\": \"a\", \"label\": true}", "something else"},
        {"{\"text\": \"a\", \"spans\": []}", "list of spans"},
        {"{\"text\": \"a\", \"spans\": {}}", "list of spans"},
        {"{\"text\": \"a\", \"spans\": [1]}", "Span 0"},
        {"{\"text\": \"a\", \"spans\": [{\"from\": 0, \"to\": 1}]}", "Span 0"},
        {"{\"text\": \"a\", \"spans\": [{\"from\": 0, \"to\": 1, \"right\": 1}]}", "Span 0"},
        {"{\"text\": \"a\", \"spans\": [{\"from\": 0, \"to\": 1, \"right\": true, \"why\": 2}]}", "Span 0"},
        {"{\"text\": \"a\", \"spans\": [{\"from\": 0, \"to\": 2, \"right\": true}]}", "has 1 bytes"},
        {"{\"text\": \"abc\", \"spans\": [{\"from\": 2, \"to\": 2, \"right\": true}]}", "from is before to"},
        {"{\"text\": \"abc\", \"spans\": [{\"from\": -1, \"to\": 2, \"right\": true}]}", "Span 0 is -1"},
        {"{\"text\": \"abc\", \"spans\": [{\"from\": 0, \"to\": 2, \"right\": true}, {\"from\": 1, \"to\": "
         "3, \"right\": true}]}",
         "Span 1 begins"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct wane__tune_text text;
        wane_error error = {0};
        int status = wane__tune_parse(lines[i].line, strlen(lines[i].line), &text, &error);
        if (lines[i].says == NULL) {
            assert_int_equal(status, WANE_OK);
            wane__free(text.text);
            wane__free(text.span);
            continue;
        }
        assert_int_equal(status, WANE_EFORMAT);
        if (strstr(error.text, lines[i].says) == NULL) fail_msg("%s: %s", lines[i].line, error.text);
        assert_null(text.text);
        assert_null(text.span);
    }
}

static void write_file(const char *path, const char *bytes) {
    FILE *file = fopen(path, "wbe");
    assert_non_null(file);
    fputs(bytes, file);
    fclose(file);
}

static void files_are_lines_by_their_name(void **state) {
    (void)state;
    char folder[] = "/tmp/wane-tune-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    struct wane__tune_texts texts = {0};
    wane_error error = {0};
    snprintf(path, sizeof path, "%s/a.txt", folder);
    write_file(path, "{\"text\": \"this is no line\"}\n\n");
    assert_int_equal(wane__tune_read(path, &texts, &error), WANE_OK);
    assert_int_equal(texts.count, 1);
    assert_int_equal(texts.text[0].size, 29);
    wane__tune_texts_free(&texts);
    write_file(path, "");
    assert_int_equal(wane__tune_read(path, &texts, &error), WANE_EFORMAT);
    wane__tune_texts_free(&texts);
    remove(path);
    assert_int_equal(wane__tune_read(path, &texts, &error), WANE_ENOENT);
    snprintf(path, sizeof path, "%s/a.jsonl", folder);
    write_file(path, "{\"text\": \"one\"}\r\n\n  \n{\"text\": \"two\"}");
    assert_int_equal(wane__tune_read(path, &texts, &error), WANE_OK);
    assert_int_equal(texts.count, 2);
    wane__tune_texts_free(&texts);
    write_file(path, "{\"text\": \"one\"}\n\n{\"text\": \"two\"\n");
    assert_int_equal(wane__tune_read(path, &texts, &error), WANE_EFORMAT);
    assert_non_null(strstr(error.text, "a.jsonl:3: "));
    wane__tune_texts_free(&texts);
    write_file(path, "\n\n");
    assert_int_equal(wane__tune_read(path, &texts, &error), WANE_EFORMAT);
    assert_non_null(strstr(error.text, "no text"));
    wane__tune_texts_free(&texts);
    remove(path);
    remove(folder);
}

/* ---------------------------------------------------------------- through a model */

/* Labels that a tuning on the scripted engine finds, a byte a token. */
static void count_labels(const char *lines, int window, int warm_up, uint64_t *tokens, uint64_t *right,
                         uint64_t *left_out) {
    static const struct wane__script script = {.context = 300, .attention = {.layers = 3}};
    char folder[] = "/tmp/wane-tune-XXXXXX", path[64];
    struct wane__engine *engine = NULL;
    wane_model *model = NULL;
    wane_error error = {0};
    wane_tune_options o;
    wane_tune_report r;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.jsonl", folder);
    write_file(path, lines);
    assert_int_equal(wane__script_load(&script, NULL, &engine, &error), WANE_OK);
    assert_int_equal(wane__model_wrap(engine, NULL, NULL, &model, &error), WANE_OK);
    wane_tune_options_init(&o);
    o.data = path;
    o.window = window;
    o.warm_up = warm_up;
    /* Too little to tune on; what was read is in the report. */
    assert_int_equal(wane_tune(model, &o, &r, &error), WANE_EINVAL);
    if (strstr(error.text, "Too little text") == NULL) fail_msg("%s", error.text);
    *tokens = r.tokens;
    *right = r.right;
    *left_out = r.left_out;
    wane_tune_report_free(&r);
    wane_model_free(model);
    remove(path);
    remove(folder);
}

static void labels_fall_on_their_tokens(void **state) {
    (void)state;
    static const struct {
        const char *lines;
        int window, warm_up;
        uint64_t tokens, right; /* right of those that spans label */
    } cases[] = {
        {"{\"text\": \"The sea is\", \"spans\": [{\"from\": 4, \"to\": 7, \"right\": true}]}", 64, 10, 3, 3},
        /* A text's first token is drawn from the row of what the model wants in front of it. */
        {"{\"text\": \"abc\", \"spans\": [{\"from\": 0, \"to\": 1, \"right\": true}]}", 64, 10, 1, 1},
        {"{\"text\": \"abc\", \"spans\": [{\"from\": 2, \"to\": 3, \"right\": true}]}", 64, 10, 1, 1},
        {"{\"text\": \"abcdef\", \"spans\": [{\"from\": 1, \"to\": 3, \"right\": true}, {\"from\": 5, "
         "\"to\": 6, \"right\": false}]}",
         64, 10, 3, 2},
        {"{\"text\": \"\\u4f60\", \"spans\": [{\"from\": 2, \"to\": 3, \"right\": true}]}", 64, 10, 1, 1},
        /* The next token as the label: none for the last one of a window, none for those that are context only. */
        {"{\"text\": \"abcdefghijklmnopqrstuvwxyzabcdefghijklmn\"}", 64, 10, 29, 0},
        {"{\"text\": \"abcdefghijklmnopqrstuvwxyzabcdefghijklmn\"}", 64, 0, 39, 0},
        {"{\"text\": \"abcdefghijklmnopqrstuvwxyzabcdefghijklmn\"}", 32, 4, 27 + 3, 0},
        {"{\"text\": \"a\"}\n{\"text\": \"ab\"}", 64, 0, 1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t tokens, right, left_out;
        count_labels(cases[i].lines, cases[i].window, cases[i].warm_up, &tokens, &right, &left_out);
        bool spans = strstr(cases[i].lines, "spans") != NULL;
        if (tokens != cases[i].tokens || (spans && right != cases[i].right) || left_out != 0)
            fail_msg("%s: %d labelled, %d right, %d left out", cases[i].lines, (int)tokens, (int)right,
                     (int)left_out);
    }
}

static void wrong_options_are_refused(void **state) {
    (void)state;
    static const struct wane__script script = {.attention = {.layers = 3}};
    struct wane__engine *engine = NULL;
    wane_model *model = NULL;
    wane_error error = {0};
    wane_tune_report r;
    assert_int_equal(wane__script_load(&script, NULL, &engine, &error), WANE_OK);
    assert_int_equal(wane__model_wrap(engine, NULL, NULL, &model, &error), WANE_OK);
    for (int i = 0; i < 12; i++) {
        wane_tune_options o;
        wane_tune_options_init(&o);
        o.data = i == 0 ? NULL : "/nowhere";
        if (i == 1) o.size--;
        if (i == 2) o.domain = "a domain with a name of more than thirty-one bytes";
        if (i == 3) o.tokens = -1;
        if (i == 4) o.window = 31;
        if (i == 5) o.warm_up = o.window;
        if (i == 6) o.block = 0;
        if (i == 7) o.replicates = 999;
        if (i == 8) o.held_out = (double)NAN;
        if (i == 9) o.signal = WANE_SIGNALS;
        if (i == 10) o.domain = "no <domain>";
        int status = wane_tune(model, &o, &r, &error);
        assert_int_equal(status,
                         i == 11 ? WANE_ENOENT : WANE_EINVAL); /* the last one is well but for the file */
        assert_true(error.text[0] != '\0');
        wane_tune_report_free(&r);
    }
    wane_tune_report_free(NULL);
    wane_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_pairs_counted),
        cmocka_unit_test(intervals_hold_the_truth),
        cmocka_unit_test(a_planted_curve_is_found),
        cmocka_unit_test(bins_keep_equals_together),
        cmocka_unit_test(noise_is_no_signal),
        cmocka_unit_test(a_reversed_layer_is_found),
        cmocka_unit_test(the_better_signal_is_taken),
        cmocka_unit_test(luck_pays_for_no_probe),
        cmocka_unit_test(odd_values_are_harmless),
        cmocka_unit_test(missing_values_are_counted),
        cmocka_unit_test(jerk_and_spread_earn_their_place),
        cmocka_unit_test(the_same_seed_gives_the_same_profile),
        cmocka_unit_test(too_little_is_refused),
        cmocka_unit_test(text_is_read_or_refused),
        cmocka_unit_test(files_are_lines_by_their_name),
        cmocka_unit_test(labels_fall_on_their_tokens),
        cmocka_unit_test(wrong_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
