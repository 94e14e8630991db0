/* linear.c - a linear model's bytes and its sum; linear.h has the form. */
#include "governor/linear.h"

#include "core/bytes.h"
#include "core/error.h"
#include "core/file.h"
#include "core/memory.h"
#include "sample/exp.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

enum { HEAD = 64, CLASS = WANE__LINEAR_NAME + 8, TAIL = 8 };
static const char magic[8] = {'W', 'A', 'N', 'E', 'L', 'I', 'N', 'R'};
/* No number that training gives comes near it. */
static const float number_most = 1e6f;

void wane__linear_free(struct wane__linear *model) {
    if (model == NULL) return;
    wane__free(model->weight);
    wane__free(model);
}

void wane__linear_shares(const struct wane__linear *model, const double score[WANE__LINEAR_CLASSES],
                         double share[WANE__LINEAR_CLASSES]) {
    double best = model->classes > 0 ? score[0] : 0, sum = 0;
    if (model->classes == 1) {
        share[0] = wane__logistic(best);
        return;
    }
    for (int c = 1; c < model->classes; c++)
        if (score[c] > best) best = score[c];
    for (int c = 0; c < model->classes; c++) sum += share[c] = wane__exp_weight(score[c] - best);
    for (int c = 0; c < model->classes; c++) share[c] /= sum;
}

void wane__linear_score(const struct wane__linear *model, const struct wane__features *features,
                        double score[WANE__LINEAR_CLASSES]) {
    size_t classes = (size_t)model->classes;
    double sum[WANE__LINEAR_CLASSES] = {0};
    for (size_t i = 0; i < features->count; i++) {
        const int8_t *weight = model->weight + features->at[i].bucket * classes;
        double value = features->at[i].value;
        for (size_t c = 0; c < classes; c++) sum[c] += value * weight[c];
    }
    for (size_t c = 0; c < classes; c++) score[c] = (double)model->bias[c] + (double)model->scale[c] * sum[c];
}

int wane__linear_choose(const struct wane__linear *model, const struct wane__features *features,
                        double share[WANE__LINEAR_CLASSES]) {
    double score[WANE__LINEAR_CLASSES];
    int best = 0;
    wane__linear_score(model, features, score);
    wane__linear_shares(model, score, share);
    for (int c = 1; c < model->classes; c++)
        if (share[c] > share[best]) best = c;
    return share[best] >= (double)model->threshold && strcmp(model->name[best], "none") != 0 ? best : -1;
}

/* -------------------------------------------------------------------- writing */

static size_t weights_of(const struct wane__linear *model) {
    return (size_t)model->classes << model->bits;
}

size_t wane__linear_bytes(const struct wane__linear *model) {
    return HEAD + (size_t)model->classes * CLASS + weights_of(model) + TAIL;
}

int wane__linear_save(const struct wane__linear *m, uint8_t **bytes, size_t *size, wane_error *error) {
    size_t weights = weights_of(m), head = HEAD + (size_t)m->classes * CLASS;
    *size = wane__linear_bytes(m);
    uint8_t *all = *bytes = wane__alloc_zero(1, *size);
    if (all == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a linear model's file.");
    memcpy(all, magic, sizeof magic);
    wane__put(all + 8, WANE__LINEAR_VERSION, 4);
    wane__put(all + 12, (uint64_t)m->kind, 1);
    wane__put(all + 13, (uint64_t)m->classes, 1);
    wane__put(all + 14, m->bits, 1);
    wane__put_float(all + 16, m->threshold);
    wane__put(all + 20, m->examples, 4);
    wane__put(all + 24, m->held, 4);
    wane__put_double(all + 32, m->figure);
    wane__put_double(all + 40, m->low);
    wane__put_double(all + 48, m->high);
    wane__put(all + 56, m->seed, 8);
    for (int c = 0; c < m->classes; c++) {
        uint8_t *at = all + HEAD + (size_t)c * CLASS;
        memcpy(at, m->name[c], strlen(m->name[c]));
        wane__put_float(at + WANE__LINEAR_NAME, m->bias[c]);
        wane__put_float(at + WANE__LINEAR_NAME + 4, m->scale[c]);
    }
    memcpy(all + head, m->weight, weights);
    wane__put(all + head + weights, XXH3_64bits(all, head + weights), TAIL);
    return WANE_OK;
}

int wane__linear_write(const struct wane__linear *model, const char *path, wane_error *error) {
    uint8_t *bytes = NULL;
    size_t size;
    int status = wane__linear_save(model, &bytes, &size, error);
    if (status == WANE_OK) status = wane__file_write(path, "the model", bytes, size, 0644, error);
    wane__free(bytes);
    return status;
}

/* -------------------------------------------------------------------- reading */

struct input {
    const char *name;
    const uint8_t *bytes;
    size_t size;
    wane_error *error;
};

static int damaged(const struct input *in, const char *what) {
    return wane__fail(in->error, WANE_EFORMAT,
                      "The file %s cannot be used: %s. \"wane train\" makes such files.", in->name, what);
}

/* What must hold before anything else is looked at. */
static int check_form(const struct input *in, int kind) {
    const uint8_t *head = in->bytes;
    if (in->size < HEAD + CLASS + TAIL || memcmp(head, magic, sizeof magic) != 0)
        return damaged(in, "it is no linear model");
    if (wane__get(head + 8, 4) != WANE__LINEAR_VERSION)
        return wane__fail(in->error, WANE_EFORMAT, "The file %s has the form %u; this wane knows %d.",
                          in->name, (unsigned)wane__get(head + 8, 4), WANE__LINEAR_VERSION);
    if (XXH3_64bits(in->bytes, in->size - TAIL) != wane__get(in->bytes + in->size - TAIL, TAIL))
        return damaged(in, "its checksum is wrong");
    uint64_t classes = wane__get(head + 13, 1), bits = wane__get(head + 14, 1);
    if (wane__get(head + 12, 1) != (uint64_t)kind)
        return damaged(in, kind == WANE__LINEAR_REWARD ? "it is no reward model"
                                                       : "it is no classifier of domains");
    if (classes < 1 || classes > WANE__LINEAR_CLASSES || (kind == WANE__LINEAR_REWARD && classes != 1))
        return damaged(in, "it has no number of classes that can be");
    if (bits < WANE__LINEAR_BITS_LEAST || bits > WANE__FEATURES_BITS_MOST)
        return damaged(in, "it has no number of weights that can be");
    if (HEAD + classes * CLASS + (classes << bits) + TAIL != in->size)
        return damaged(in, "its parts do not fill it");
    return WANE_OK;
}

static bool is_number(float value) {
    return fabsf(value) <= number_most; /* false for NaN */
}

static bool read_name(const uint8_t *at, char *name) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789-_";
    memcpy(name, at, WANE__LINEAR_NAME);
    if (name[WANE__LINEAR_NAME - 1] != '\0') return false;
    size_t size = strlen(name);
    for (size_t i = size; i < WANE__LINEAR_NAME; i++)
        if (name[i] != '\0') return false;
    return size > 0 && strspn(name, allowed) == size;
}

static int read_classes(const struct input *in, struct wane__linear *m) {
    for (int c = 0; c < m->classes; c++) {
        const uint8_t *at = in->bytes + HEAD + (size_t)c * CLASS;
        if (!read_name(at, m->name[c])) return damaged(in, "a class of it has no name that can be");
        for (int other = 0; other < c; other++)
            if (strcmp(m->name[other], m->name[c]) == 0) return damaged(in, "two classes have one name");
        m->bias[c] = wane__get_float(at + WANE__LINEAR_NAME);
        m->scale[c] = wane__get_float(at + WANE__LINEAR_NAME + 4);
        if (!is_number(m->bias[c]) || !is_number(m->scale[c]))
            return damaged(in, "a number in it is none that training gives");
    }
    m->threshold = wane__get_float(in->bytes + 16);
    if (!(m->threshold >= 0 && m->threshold <= 1)) return damaged(in, "its threshold is no share");
    return WANE_OK;
}

int wane__linear_parse(const char *name, int kind, const void *bytes, size_t size,
                       struct wane__linear **model, wane_error *error) {
    struct input in = {name, bytes, size, error};
    *model = NULL;
    int status = check_form(&in, kind);
    if (status != WANE_OK) return status;
    struct wane__linear *m = wane__alloc_zero(1, sizeof *m);
    if (m == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a linear model.");
    m->kind = kind;
    m->classes = (int)wane__get(in.bytes + 13, 1);
    m->bits = (unsigned)wane__get(in.bytes + 14, 1);
    m->examples = (uint32_t)wane__get(in.bytes + 20, 4);
    m->held = (uint32_t)wane__get(in.bytes + 24, 4);
    m->figure = wane__get_share(in.bytes + 32);
    m->low = wane__get_share(in.bytes + 40);
    m->high = wane__get_share(in.bytes + 48);
    m->seed = wane__get(in.bytes + 56, 8);
    status = read_classes(&in, m);
    if (status == WANE_OK) m->weight = wane__alloc(weights_of(m));
    if (status == WANE_OK && m->weight == NULL)
        status = wane__fail(error, WANE_ENOMEM, "No memory for a linear model.");
    if (status != WANE_OK || m->weight == NULL) {
        wane__linear_free(m);
        return status;
    }
    memcpy(m->weight, in.bytes + HEAD + (size_t)m->classes * CLASS, weights_of(m));
    *model = m;
    return WANE_OK;
}

int wane__linear_read(const char *path, int kind, struct wane__linear **model, wane_error *error) {
    char *bytes;
    size_t size;
    *model = NULL;
    int status = wane__file_read(path, "the model", WANE__LINEAR_FILE_MOST, &bytes, &size, error);
    if (status != WANE_OK) return status;
    status = wane__linear_parse(path, kind, bytes, size, model, error);
    wane__free(bytes);
    return status;
}
