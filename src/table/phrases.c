/*
 * phrases.c - the phrase classifier; see phrases.h. Owns its weights; refuses sections with weights that are no numbers.
 *
 *     hidden = max(0, bias + Σ table[feature])        32
 *     score  = 1 / (1 + e^-(out_bias + out · hidden))
 *
 * Trained with the cross-entropy of the share that was followed, by AdaGrad, one example at a time in an order that depends on
 * the examples' hashes. Only additions, products and square roots take part, one after the other, so that the weights do not
 * depend on the machine.
 */
#include "table/phrases.h"

#include "core/error.h"
#include "core/figures.h"
#include "core/memory.h"
#include "core/rng.h"
#include "sample/exp.h"
#include "table/build_sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum {
    BUCKETS = WANE__PHRASES_BUCKETS,
    HIDDEN = WANE__PHRASES_HIDDEN,
    FEATURES = WANE__PHRASES_FEATURES,
    WEIGHTS = BUCKETS * HIDDEN + HIDDEN + HIDDEN + 1,
    EPOCHS = 6,
    VERSION = 1,
    HEAD = 32 /* bytes before the weights */
};
static const char magic[8] = {'W', 'A', 'N', 'E', 'P', 'H', 'R', 'S'};
static const float rate = 0.05f;
/* No weight that training gives comes near it; a sum of so many stays a number. */
static const float weight_most = 1e6f;

struct wane__phrases {
    float table[BUCKETS][HIDDEN];
    float bias[HIDDEN];
    float out[HIDDEN];
    float out_bias;
};
_Static_assert(sizeof(struct wane__phrases) == WEIGHTS * sizeof(float), "weights stand one behind the other");

/* -------------------------------------------------------------------- features */

static uint64_t fold(uint64_t hash, const int32_t *token, int count) {
    for (int i = 0; i < count; i++) hash = wane__mix64(hash ^ (uint32_t)token[i]);
    return hash;
}

void wane__phrases_features(const int32_t *last, int last_count, const int32_t *follow, int count,
                            uint16_t feature[WANE__PHRASES_FEATURES]) {
    static const int lengths[6] = {1, 2, 3, 4, 6, 8};
    uint64_t hash[FEATURES];
    const int32_t *end = last + last_count;
    for (int i = 0; i < 6; i++) {
        int length = lengths[i] < last_count ? lengths[i] : last_count;
        hash[i] = fold((uint64_t)i + 1, end - length, length);
    }
    hash[6] = fold(7, follow, count > 0 ? 1 : 0);
    hash[7] = wane__mix64(hash[0] ^ hash[6]);
    hash[8] = wane__mix64(hash[2] ^ hash[6]);
    hash[9] = fold(10, follow, count);
    hash[10] = wane__mix64(11 + (uint64_t)(count < 8 ? count : 8 + count / 8) * 64);
    hash[11] = wane__mix64(hash[1] ^ hash[9]);
    for (int i = 0; i < FEATURES; i++) feature[i] = (uint16_t)(wane__mix64(hash[i]) % BUCKETS);
}

/* -------------------------------------------------------------------- the network */

static float forward(const struct wane__phrases *p, const uint16_t *feature, float hidden[HIDDEN]) {
    memcpy(hidden, p->bias, sizeof p->bias);
    for (int f = 0; f < FEATURES; f++)
        for (int h = 0; h < HIDDEN; h++) hidden[h] += p->table[feature[f]][h];
    float x = p->out_bias;
    for (int h = 0; h < HIDDEN; h++) {
        if (!(hidden[h] > 0)) hidden[h] = 0;
        x += p->out[h] * hidden[h];
    }
    return (float)wane__logistic((double)x);
}

float wane__phrases_score(const struct wane__phrases *phrases,
                          const uint16_t feature[WANE__PHRASES_FEATURES]) {
    float hidden[HIDDEN];
    return forward(phrases, feature, hidden);
}

float wane__phrases_expect(const struct wane__phrases *phrases, const int32_t *last, int last_count,
                           const int32_t *follow, int count) {
    uint16_t feature[FEATURES];
    wane__phrases_features(last, last_count, follow, count, feature);
    return wane__phrases_score(phrases, feature);
}

void wane__phrases_free(struct wane__phrases *phrases) {
    wane__free(phrases);
}

/* -------------------------------------------------------------------- training */

/* One weight and the squares of its slopes so far. */
static void step(float *weight, float *squares, float slope) {
    *squares += slope * slope;
    *weight -= rate * slope / (sqrtf(*squares) + 1e-6f);
}

static void learn(struct wane__phrases *p, struct wane__phrases *squares,
                  const struct wane__phrases_example *e) {
    float hidden[HIDDEN], slope[HIDDEN];
    float wrong = forward(p, e->feature, hidden) - e->share;
    for (int h = 0; h < HIDDEN; h++) {
        slope[h] = hidden[h] > 0 ? wrong * p->out[h] : 0;
        step(&p->out[h], &squares->out[h], wrong * hidden[h]);
        if (slope[h] != 0) step(&p->bias[h], &squares->bias[h], slope[h]);
    }
    step(&p->out_bias, &squares->out_bias, wrong);
    for (int f = 0; f < FEATURES; f++) {
        float *row = p->table[e->feature[f]], *row_squares = squares->table[e->feature[f]];
        for (int h = 0; h < HIDDEN; h++)
            if (slope[h] != 0) step(&row[h], &row_squares[h], slope[h]);
    }
}

static int by_hash(const void *a, const void *b) {
    const struct wane__phrases_example *x = a, *y = b;
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    return (x->owner > y->owner) - (x->owner < y->owner);
}

static void begin(struct wane__phrases *p) {
    for (int b = 0; b < BUCKETS; b++)
        for (int h = 0; h < HIDDEN; h++)
            p->table[b][h] = (float)((wane__random_unit(1, (uint64_t)b * HIDDEN + (uint64_t)h) - 0.5) * 0.1);
    for (int h = 0; h < HIDDEN; h++) {
        p->bias[h] = 0.1f; /* most units live at first */
        p->out[h] = h % 2 == 0 ? 0.1f : -0.1f;
    }
}

int wane__phrases_train(struct wane__phrases_example *example, size_t count, struct wane__phrases **out,
                        wane_progress_fn progress, void *progress_user, wane_error *error) {
    struct wane__phrases *p = wane__alloc_zero(1, sizeof *p), *squares = wane__alloc_zero(1, sizeof *squares);
    size_t *order = wane__alloc(count * sizeof *order);
    int status = WANE_OK;
    *out = NULL;
    if (p == NULL || squares == NULL || order == NULL) {
        status = wane__fail(error, WANE_ENOMEM, "No memory to train the phrase classifier.");
        goto end;
    }
    qsort(example, count, sizeof *example, by_hash);
    for (size_t i = 0; i < count; i++) order[i] = i;
    begin(p);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        if (progress != NULL && !progress(progress_user, "learning phrases", (double)epoch / EPOCHS)) {
            status = wane__fail(error, WANE_ECANCELLED, "The table's build was stopped.");
            goto end;
        }
        for (size_t i = count; i > 1; i--) {
            size_t j = (size_t)(wane__random_bits((uint64_t)epoch, i) % i), moved = order[i - 1];
            order[i - 1] = order[j];
            order[j] = moved;
        }
        for (size_t i = 0; i < count; i++)
            if (!example[order[i]].held) learn(p, squares, &example[order[i]]);
    }
    *out = p;
    p = NULL;
end:
    wane__free(p);
    wane__free(squares);
    wane__free(order);
    return status;
}

/* -------------------------------------------------------------------- how good it is */

struct scored {
    float score;
    bool whole;
};

static int by_score(const void *a, const void *b) {
    const struct scored *x = a, *y = b;
    return (x->score > y->score) - (x->score < y->score);
}

double wane__phrases_auc(const struct wane__phrases *phrases, const struct wane__phrases_example *example,
                         size_t count, bool held_only, size_t *scored) {
    struct scored *list = wane__alloc(count * sizeof *list);
    size_t n = 0;
    if (scored != NULL) *scored = 0;
    if (list == NULL) return NAN;
    for (size_t i = 0; i < count; i++)
        if (example[i].held || !held_only)
            list[n++] = (struct scored){wane__phrases_score(phrases, example[i].feature), example[i].whole};
    qsort(list, n, sizeof *list, by_score);
    struct wane__area area = {0};
    for (size_t i = 0; i < n; i++) {
        wane__area_add(&area, list[i].whole, !list[i].whole);
        if (i + 1 == n || list[i + 1].score > list[i].score) wane__area_part(&area);
    }
    wane__free(list);
    if (scored != NULL) *scored = n;
    return wane__area_of(&area);
}

/* -------------------------------------------------------------------- bytes */

/* magic 8 │ version 4 │ buckets 4 │ hidden 4 │ features 4 │ XXH3-64 of the weights 8 │ weights, 4 each */
int wane__phrases_save(const struct wane__phrases *phrases, uint8_t **bytes, size_t *size,
                       wane_error *error) {
    size_t all = HEAD + 4 * (size_t)WEIGHTS;
    uint8_t *made = wane__alloc(all);
    *bytes = made;
    *size = 0;
    if (made == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for the phrase classifier.");
    memcpy(made, magic, sizeof magic);
    wane__put(made + 8, VERSION, 4);
    wane__put(made + 12, BUCKETS, 4);
    wane__put(made + 16, HIDDEN, 4);
    wane__put(made + 20, FEATURES, 4);
    for (size_t i = 0; i < WEIGHTS; i++) {
        float weight;
        memcpy(&weight, (const char *)phrases + i * sizeof weight, sizeof weight);
        wane__put_float(made + HEAD + 4 * i, weight);
    }
    wane__put(made + 24, XXH3_64bits(made + HEAD, 4 * (size_t)WEIGHTS), 8);
    *size = all;
    return WANE_OK;
}

int wane__phrases_load(const void *from, size_t size, struct wane__phrases **phrases, wane_error *error) {
    const uint8_t *bytes = from;
    *phrases = NULL;
    const char *wrong = NULL;
    if (size < HEAD || memcmp(bytes, magic, sizeof magic) != 0)
        wrong = "it is none";
    else if (wane__get(bytes + 8, 4) != VERSION)
        wrong = "it is of another version";
    else if (wane__get(bytes + 12, 4) != BUCKETS || wane__get(bytes + 16, 4) != HIDDEN ||
             wane__get(bytes + 20, 4) != FEATURES || size != HEAD + 4 * (size_t)WEIGHTS)
        wrong = "its sizes are not those of this version";
    else if (wane__get(bytes + 24, 8) != XXH3_64bits(bytes + HEAD, 4 * (size_t)WEIGHTS))
        wrong = "its weights are damaged";
    if (wrong != NULL)
        return wane__fail(error, WANE_EFORMAT, "The table's phrase classifier cannot be used: %s.", wrong);
    struct wane__phrases *p = wane__alloc(sizeof *p);
    if (p == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for the phrase classifier.");
    for (size_t i = 0; i < WEIGHTS; i++) {
        float weight = wane__get_float(bytes + HEAD + 4 * i);
        if (!(fabsf(weight) <= weight_most)) wrong = "a weight is no number that training gives";
        memcpy((char *)p + i * sizeof weight, &weight, sizeof weight);
    }
    if (wrong == NULL) {
        *phrases = p;
        return WANE_OK;
    }
    wane__free(p);
    return wane__fail(error, WANE_EFORMAT, "The table's phrase classifier cannot be used: %s.", wrong);
}
