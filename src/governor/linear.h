/*
 * linear.h - a linear model over hashed n-grams: which domain a text is of, or how well a reply will be liked. Its bytes, its sum, its
 * training.
 *
 *     score of a class = bias + scale · Σ value · weight        weights are whole numbers of one byte
 *     share of a class = e^score / Σ e^score of all classes; with one class 1 / (1 + e^-score)
 *
 *      0  "WANELINR"     20  examples learned from    64  classes × { name 16, bias float, scale float }
 *      8  version        24  examples held out         …  weights, 1 byte each: (1 << bits) × classes
 *     12  kind, classes, 28  reserved, 0               …  XXH3-64 of all before it
 *         bits, reserved 32  figure, low, high, doubles
 *     16  threshold      56  seed
 *
 * The same lessons give the same bytes on every machine: only additions, products, quotients and square roots take part, one after the
 * other. Owns its weights; refuses files that are not whole, and numbers that training does not give.
 */
#ifndef WANE_GOVERNOR_LINEAR_H
#define WANE_GOVERNOR_LINEAR_H

#include "governor/features.h"

enum {
    WANE__LINEAR_DOMAINS = 1, /* one class a domain; one may be called "none", and stands for all else */
    WANE__LINEAR_REWARD = 2,  /* one class: how well it is liked */
    WANE__LINEAR_VERSION = 1,
    WANE__LINEAR_CLASSES = 8,
    WANE__LINEAR_NAME = 16, /* with the zero */
    WANE__LINEAR_BITS_LEAST = 8,
    WANE__LINEAR_FILE_MOST = 64 + WANE__LINEAR_CLASSES * (24 + (1 << WANE__FEATURES_BITS_MOST)) + 8
};

struct wane__linear {
    int kind, classes;
    unsigned bits;
    char name[WANE__LINEAR_CLASSES][WANE__LINEAR_NAME]; /* small letters, digits, - and _ */
    float bias[WANE__LINEAR_CLASSES], scale[WANE__LINEAR_CLASSES];
    float threshold; /* a share below it says nothing */
    uint32_t examples, held;
    double figure, low,
        high; /* of what was held out: accuracy or AUC, with a 95 % interval; NaN: not known */
    uint64_t seed;
    int8_t *weight; /* classes of a bucket side by side */
};

void wane__linear_free(struct wane__linear *model);
void wane__linear_score(const struct wane__linear *model, const struct wane__features *features,
                        double score[WANE__LINEAR_CLASSES]);
/* One class: 1 / (1 + e^-score). Several: e^score of each, divided by the sum of all. */
void wane__linear_shares(const struct wane__linear *model, const double score[WANE__LINEAR_CLASSES],
                         double share[WANE__LINEAR_CLASSES]);

/* Of the file. */
size_t wane__linear_bytes(const struct wane__linear *model);
/* The bytes; wane__free them. */
int wane__linear_save(const struct wane__linear *model, uint8_t **bytes, size_t *size, wane_error *error);
int wane__linear_write(const struct wane__linear *model, const char *path, wane_error *error);
/* `name` is for complaints, WANE_EFORMAT; `kind`: what it must be. */
int wane__linear_parse(const char *name, int kind, const void *bytes, size_t size,
                       struct wane__linear **model, wane_error *error);
int wane__linear_read(const char *path, int kind, struct wane__linear **model, wane_error *error);

/* ---------------------------------------------------------------- training */

struct wane__lesson {
    struct wane__features features;
    int label;    /* class, -1: none of them, not even "none"      */
    float target; /* with one class: the share that it should have */
};

/*
 * Logistic regression by stochastic descent, one lesson at a time in an order that depends on `model->seed`; what stands in many
 * lessons is learned at a slower pace. `model` has kind, classes, bits and seed; biases, scales and weights are made. Lessons with `skip` of theirs set are left out (NULL:
 * none). WANE_ECANCELLED when `progress` says stop.
 */
int wane__linear_train(struct wane__linear *model, const struct wane__lesson *lesson, size_t count,
                       const bool *skip, wane_progress_fn progress, void *progress_user, wane_error *error);
/* Where domains stop being sure: the threshold under which most lessons that were left out of training, a fifth at a time, come out right. */
int wane__linear_find_threshold(struct wane__linear *model, const struct wane__lesson *lesson, size_t count,
                                wane_progress_fn progress, void *progress_user, wane_error *error);
/* The class with the best share, or -1 where that is below the threshold, or is "none". */
int wane__linear_choose(const struct wane__linear *model, const struct wane__features *features,
                        double share[WANE__LINEAR_CLASSES]);

/*
 * The area under the curve of scores against whether they should be high, ties counting half; and its 95 % interval by 1,000 samples
 * with replacement. NaN where one kind is missing. False: no memory.
 */
bool wane__auc(const double *score, const bool *high_one, size_t count, uint64_t seed, double *auc,
               double *low, double *high);

#endif
