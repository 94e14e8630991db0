/*
 * wane/tune.h - finding out which signal of a model tells right tokens from wrong ones, and with which thresholds: `wane tune` as a
 * function. docs/tune.md has the formulas, the data's form and figures. Part of wane.h.
 *
 * What is chosen (layer, sign, thresholds) is chosen on one part of the text, and what is said of it comes from the other part, which
 * had no say. Where that does not show a signal, the profile's signal is WANE_SIGNAL_NONE.
 */
#ifndef WANE_TUNE_H
#define WANE_TUNE_H

#include "../wane.h"
#include "diversity.h"
#include "governor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { WANE_TUNE_BINS = 20 };

typedef struct wane_tune_options {
    size_t size;
    const char *data;    /* a text file, or JSONL where its name ends in .jsonl                          */
    const char *domain;  /* goes into the profile, 31 bytes at most; NULL: any                            */
    const char *output;  /* the profile's file; NULL: only the report                                     */
    const char *command; /* that makes it, for the profile; 511 bytes at most; NULL: not said            */
    int tokens;          /* labelled tokens at most, from the beginning; 0: all                            */
    int window;          /* tokens that are run through the model at once, 32..4096; default 384           */
    int warm_up;         /* tokens of a window that are context only, where no span labels them; default 64 */
    int block;           /* labelled tokens that are drawn together for intervals, 1..4096; default 64      */
    int replicates;      /* draws for each interval, 1,000..100,000; default 2,000                         */
    double held_out;     /* share of the text that nothing is chosen on, 0.1..0.9; default 0.5             */
    int signal;    /* WANE_SIGNAL_…; NONE (default): the best                                        */
    uint64_t seed; /* of parts and draws; default 1                                                  */
    wane_progress_fn progress; /* NULL: none */
    void *progress_user;
} wane_tune_options;

typedef wane_interval wane_tune_interval;

/* One signal at one layer. */
typedef struct wane_tune_row {
    const char *signal;       /* "entropy", "margin", "kurtosis", "spread"; static                      */
    int layer;                /* -1: of no layer                                                        */
    int sign;                 /* as the part that was chosen on has it                                  */
    uint64_t tokens, missing; /* labelled tokens with a value, and without                              */
    wane_tune_interval auc;   /* all tokens: how often a right token has the higher value, ties half    */
    double learnt;            /* the same of sign · value, on the part that was chosen on               */
    wane_tune_interval held;  /* … and on the part that was held out                                    */
} wane_tune_row;

/* Held-out tokens with neighbouring values of sign · signal. */
typedef struct wane_tune_bin {
    double from, to, mean;
    double accuracy, low, high; /* Wilson's 95 % interval */
    uint64_t tokens;
} wane_tune_bin;

/* What thresholds say on the held-out part. */
typedef struct wane_tune_states {
    uint64_t tokens[WANE_STATES], right[WANE_STATES]; /* by WANE_STATE_…                        */
    wane_tune_interval bits; /* that the state saves in telling right from wrong, a token        */
    wane_tune_interval gap;  /* accuracy of LOCKED less that of EXPLORE; NAN: one of them is empty */
} wane_tune_states;

typedef struct wane_tune_report {
    wane_profile profile;
    uint64_t texts, windows;
    uint64_t left_out;      /* texts whose tokens do not spell them, so that spans cannot be placed */
    uint64_t tokens, right; /* labelled                                                  */
    uint64_t held_tokens, held_right; /* of them, held out                                         */
    int blocks, held_blocks;
    int layers;          /* that were probed                                         */
    wane_tune_row *rows; /* entropy and margin, then kurtosis of each layer, then spread */
    size_t row_count;
    int best;          /* index of the row that the profile would be of, whether it is a signal or not */
    int best_kurtosis; /* the same among the layers' kurtosis; -1: there is none                   */
    char verdict[200]; /* a sentence                                                               */
    /* accuracy(x) = floor + (ceiling - floor) / (1 + exp(-(x - middle) / width)) of x = sign · value */
    double floor, ceiling, middle, width;
    double knee, foot; /* where it bends most                                                      */
    double peak, low;  /* thresholds, also where there is no signal                                */
    wane_tune_bin bin[WANE_TUNE_BINS];
    int bins;
    wane_tune_states own,
        original; /* of these thresholds, and of 4.2 / 0.08 / 2.1 / 0.15 at the best kurtosis layer */
    wane_tune_interval better; /* bits of the own ones less those of the original ones; NAN: no layer */
    double seconds;
} wane_tune_report;

WANE_API void wane_tune_options_init(wane_tune_options *options);
/*
 * Tune on a model, which nothing may stand on (WANE_EBUSY). The same model, data and seed give the same profile. WANE_EFORMAT: the data is
 * not what it should be; says where and what. WANE_EINVAL: too little of it to say anything. The report holds memory: free it, also after
 * an error.
 */
WANE_API int wane_tune(wane_model *model, const wane_tune_options *options, wane_tune_report *report,
                       wane_error *error);
WANE_API void wane_tune_report_free(wane_tune_report *report);

#ifdef __cplusplus
}
#endif

#endif
