/*
 * calibrate.c - runs texts through the body and takes the moments of the rows that reach the head.
 *
 * All rows are kept until the mean is known: sums of squares of raw rows would lose the small directions beside the
 * few large ones that most models have. Each conversation's first rows are left out: models park attention on the first
 * tokens, whose rows are like no other's and are never asked for in a reply.
 */
#include "calibrate.h"

#include "core/error.h"
#include "core/memory.h"
#include "core/tokens.h"

#include <string.h>

enum {
    SKIPPED = 4, /* rows of each conversation's begin */
    MOST = 176,  /* tokens of each: a few thousand rows of many kinds do as well as more of fewer kinds */
    AT_ONCE = 64 /* rows in one decode: libllama keeps V floats for each, even where no head runs */
};

struct rows {
    struct wane__engine *engine;
    float *row; /* count × d */
    size_t count, capacity;
    int d;
};

static bool end_before_head(void *user, const float *hidden, int first, int rows, int d) {
    (void)user;
    (void)hidden;
    (void)first;
    (void)rows;
    (void)d;
    return false;
}

static int take_rows(struct rows *rows, int count, int skip, wane_error *error) {
    const struct wane__engine_ops *ops = rows->engine->ops;
    size_t d = (size_t)rows->d;
    for (int i = skip; i < count; i++) {
        const float *hidden = ops->hidden(rows->engine, i);
        if (hidden == NULL)
            return wane__fail(error, WANE_EUNSUPPORTED, "the engine does not show its hidden rows");
        memcpy(rows->row + rows->count * d, hidden, d * sizeof *hidden);
        rows->count++;
    }
    return WANE_OK;
}

static int run_tokens(struct rows *rows, const wane_tokens *tokens, int at_most, wane_error *error) {
    struct wane__engine *engine = rows->engine;
    struct wane__item items[AT_ONCE];
    int total = (int)tokens->count, most = engine->batch < AT_ONCE ? engine->batch : AT_ONCE;
    if (at_most > 0 && total > at_most) total = at_most;
    if (total > engine->facts.context) total = engine->facts.context;
    size_t need = rows->count + (size_t)total;
    if (need > rows->capacity) {
        size_t capacity = need + need / 2;
        float *grown = wane__resize(rows->row, capacity * (size_t)rows->d, sizeof *grown);
        if (grown == NULL) return wane__fail(error, WANE_ENOMEM, "no memory for hidden rows");
        rows->row = grown;
        rows->capacity = capacity;
    }
    engine->ops->truncate(engine, 0, 0);
    for (int at = 0; at < total;) {
        int count = total - at < most ? total - at : most;
        for (int i = 0; i < count; i++)
            items[i] = (struct wane__item){.token = tokens->id[at + i], .pos = at + i, .wanted = true};
        int result = engine->ops->decode(engine, items, count, error);
        if (result == WANE_OK) result = take_rows(rows, count, at == 0 ? SKIPPED : 0, error);
        if (result != WANE_OK) return result;
        at += count;
    }
    return WANE_OK;
}

/* As a conversation where the model's template allows it, else each message as plain text. */
static int run_text(struct rows *rows, const struct wane__calibration_text *text, wane_error *error) {
    const struct wane__engine_ops *ops = rows->engine->ops;
    wane_tokens tokens = {0};
    int result = ops->chat(rows->engine, text->messages, text->count, &tokens, NULL, NULL);
    if (result != WANE_OK) {
        result = WANE_OK;
        tokens.count = 0;
        for (size_t i = 0; i < text->count && result == WANE_OK; i++)
            result = ops->tokenize(rows->engine, text->messages[i].content, text->messages[i].content_size,
                                   i == 0 ? WANE_TOKENIZE_SPECIAL : 0, &tokens, error);
    }
    if (result == WANE_OK) result = run_tokens(rows, &tokens, text->most, error);
    wane_tokens_free(&tokens);
    return result;
}

/* ------------------------------------------------------------------ moments */

static void take_mean(struct rows *rows, float *mean) {
    size_t d = (size_t)rows->d;
    for (size_t j = 0; j < d; j++) {
        double sum = 0;
        for (size_t r = 0; r < rows->count; r++) sum += (double)rows->row[r * d + j];
        mean[j] = (float)(sum / (double)rows->count);
    }
    for (size_t r = 0; r < rows->count; r++)
        for (size_t j = 0; j < d; j++) rows->row[r * d + j] -= mean[j];
}

/* The upper half, four rows at a time, so that a sum is loaded and stored once for four products. */
static void add_products(const float *x, size_t d, float *sums) {
    const float *restrict a = x, *restrict b = x + d, *restrict c = x + 2 * d, *restrict e = x + 3 * d;
    for (size_t i = 0; i < d; i++) {
        float *restrict sum = sums + i * d;
        float ai = a[i], bi = b[i], ci = c[i], ei = e[i];
        for (size_t j = i; j < d; j++) sum[j] += (ai * a[j] + bi * b[j]) + (ci * c[j] + ei * e[j]);
    }
}

static bool take_covariance(const struct rows *rows, wane_progress_fn progress, void *user, double from,
                            double most, float *covariance) {
    size_t d = (size_t)rows->d, whole = rows->count / 4 * 4; /* up to three rows count in the mean only */
    for (size_t r = 0; r < whole; r += 4) {
        add_products(rows->row + r * d, d, covariance);
        if (progress != NULL && r % 256 == 0 &&
            !progress(user, "head", from + (most - from) * (double)r / (double)whole))
            return false;
    }
    float share = 1 / (float)(whole > 1 ? whole : 1);
    for (size_t i = 0; i < d; i++)
        for (size_t j = i; j < d; j++) covariance[j * d + i] = covariance[i * d + j] *= share;
    return true;
}

void wane__moments_free(struct wane__moments *moments) {
    wane__free(moments->mean);
    wane__free(moments->covariance);
    *moments = (struct wane__moments){0};
}

static int moments_new(size_t d, struct wane__moments *moments, wane_error *error) {
    *moments = (struct wane__moments){.mean = wane__alloc_zero(d, sizeof(float)),
                                      .covariance = wane__alloc_zero(d * d, sizeof(float))};
    if (moments->mean != NULL && moments->covariance != NULL) return WANE_OK;
    wane__moments_free(moments);
    return wane__fail(error, WANE_ENOMEM, "no memory for a covariance");
}

int wane__moments_of(const float *rows, size_t count, size_t d, struct wane__moments *moments,
                     wane_error *error) {
    struct rows own = {.row = wane__alloc(count * d * sizeof(float)), .count = count, .d = (int)d};
    *moments = (struct wane__moments){0};
    if (own.row == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for %zu hidden rows.", count);
    memcpy(own.row, rows, count * d * sizeof *rows);
    int result = moments_new(d, moments, error);
    if (result == WANE_OK) {
        take_mean(&own, moments->mean);
        moments->rows = (int64_t)count;
        take_covariance(&own, NULL, NULL, 0, 0, moments->covariance);
    }
    wane__free(own.row);
    return result;
}

static int run_all(struct rows *rows, const struct wane__calibration_text *texts, size_t count,
                   wane_progress_fn progress, void *user, double most, wane_error *error) {
    int result = WANE_OK;
    for (size_t i = 0; i < count && result == WANE_OK; i++) {
        if (progress != NULL && !progress(user, "head", most * (double)i / (double)count))
            return wane__fail(error, WANE_ECANCELLED, "Taking the head's statistics was stopped.");
        result = run_text(rows, &texts[i], error);
    }
    if (result == WANE_OK && rows->count < 4)
        result = wane__fail(error, WANE_EUNSUPPORTED, "the text gives too few hidden rows");
    return result;
}

int wane__calibrate_on(struct wane__engine *engine, const struct wane__calibration_text *texts, size_t count,
                       wane_progress_fn progress, void *user, double most, struct wane__moments *moments,
                       wane_error *error) {
    size_t d = (size_t)engine->facts.embedding_size;
    double body = 0.8 * most;
    struct rows rows = {.engine = engine, .d = (int)d};
    int result = moments_new(d, moments, error);
    engine->ops->set_hook(engine, end_before_head, NULL);
    if (result == WANE_OK) result = run_all(&rows, texts, count, progress, user, body, error);
    engine->ops->set_hook(engine, NULL, NULL);
    engine->ops->truncate(engine, 0, 0);
    if (result == WANE_OK) {
        take_mean(&rows, moments->mean);
        moments->rows = (int64_t)rows.count;
        if (!take_covariance(&rows, progress, user, body, most, moments->covariance))
            result = wane__fail(error, WANE_ECANCELLED, "Taking the head's statistics was stopped.");
    }
    wane__free(rows.row);
    if (result != WANE_OK) wane__moments_free(moments);
    return result;
}

int wane__calibrate(struct wane__engine *engine, wane_progress_fn progress, void *user, double most,
                    struct wane__moments *moments, wane_error *error) {
    size_t count = (size_t)wane__calibration_count;
    wane_message *messages = wane__alloc_zero(2 * count, sizeof *messages);
    struct wane__calibration_text *texts = wane__alloc_zero(count, sizeof *texts);
    int result = WANE_ENOMEM;
    *moments = (struct wane__moments){0};
    if (messages == NULL || texts == NULL) wane__fail(error, result, "No memory for the calibration text.");
    for (size_t i = 0; messages != NULL && texts != NULL && i < count; i++) {
        const struct wane__calibration_part *part = &wane__calibration[i];
        messages[2 * i] = (wane_message){"user", part->user, strlen(part->user)};
        messages[2 * i + 1] = (wane_message){"assistant", part->assistant, strlen(part->assistant)};
        texts[i] = (struct wane__calibration_text){.messages = messages + 2 * i, .count = 2, .most = MOST};
    }
    if (messages != NULL && texts != NULL)
        result = wane__calibrate_on(engine, texts, count, progress, user, most, moments, error);
    wane__free(texts);
    wane__free(messages);
    return result;
}
