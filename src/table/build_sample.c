/*
 * build_sample.c - from a trace's record to bytes and back; see build_sample.h. Refuses tokens outside the vocabulary and
 * candidates out of order, wherever they come from.
 */
#include "table/build_sample.h"

#include "core/error.h"
#include "sample/exp.h"
#include "sample/order.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

/* Beyond this no engine's logits are meant: it keeps the sums within 64 bits. */
#define LOGIT_MOST 16384.0f

/*
 * log Σ exp of the candidates, added up in their order; or, as soon as it is certain that a recorded sum is above it, anything: `known`
 * says which. Candidates are best first, so that those to come weigh at most what the last one did.
 */
static double own_log_sum(const struct wane__sample *sample, double recorded, bool *known) {
    double best = (double)sample->top[0].logit, sum = 0;
    *known = false;
    for (int i = 0; i < sample->top_count; i++) {
        double weight = wane__exp_weight((double)sample->top[i].logit - best);
        sum += weight;
        if (i != 7 && i != 15 && i != 31) continue;
        double most = best + log(sum + weight * (sample->top_count - 1 - i));
        *known = recorded > most - 0.01 + 1e-6;
        if (*known) return most;
    }
    double own = best + log(sum);
    *known = recorded >= own - 0.01;
    return own;
}

/* The share of five tokens is taken of the whole vocabulary where its sum is known, else of the candidates. */
static void weigh(struct wane__sample *sample, float log_sum) {
    bool possible = isfinite(log_sum) && fabsf(log_sum) <= 2 * LOGIT_MOST, known;
    double own = own_log_sum(sample, possible ? (double)log_sum : -INFINITY, &known);
    sample->log_sum = known ? log_sum : (float)own;
    double carried = 0;
    sample->carriers = 0;
    for (int i = 0; i < sample->top_count && i < WANE__SLMT_DEPTH; i++) {
        double above = (double)sample->top[i].logit - (double)sample->log_sum;
        carried += wane__exp_weight(above < 0 ? above : 0);
        if (carried >= 0.95) {
            sample->carriers = i + 1;
            break;
        }
    }
}

/* What is wrong with a candidate, NULL if nothing is. */
static const char *fault_of(const struct wane__sample *sample, int i, int vocab_size) {
    const struct wane__candidate *top = sample->top;
    if (top[i].token < 0 || top[i].token >= vocab_size) return "a candidate is not in the vocabulary";
    if (!isfinite(top[i].logit) || fabsf(top[i].logit) > LOGIT_MOST)
        return "a candidate's logit is no number that an engine gives";
    if (i > 0 && !wane__better(top[i - 1], top[i])) return "its candidates are not best first";
    for (int j = 0; j < i && j < WANE__SLMT_DEPTH; j++)
        if (top[j].token == top[i].token) return "it has a candidate twice";
    return NULL;
}

/* The same of all, without a way out for each: hardly ever is anything wrong. Says less than fault_of, never more. */
static bool all_fine(const struct wane__sample *sample, int vocab_size) {
    const struct wane__candidate *top = sample->top;
    int count = sample->top_count, wrong = 0;
    for (int i = 0; i < count; i++) {
        wrong |= (uint32_t)top[i].token >= (uint32_t)vocab_size;
        wrong |= !(fabsf(top[i].logit) <= LOGIT_MOST);
    }
    for (int i = 1; i < count; i++)
        wrong |= !(top[i].logit < top[i - 1].logit) &
                 !((top[i].logit <= top[i - 1].logit) & (top[i].token > top[i - 1].token));
    for (int j = 0; j < WANE__SLMT_DEPTH && j < count; j++)
        for (int i = j + 1; i < count; i++) wrong |= top[i].token == top[j].token;
    return wrong == 0;
}

/* NULL, or what is wrong. */
static const char *check(const struct wane__sample *sample, int vocab_size) {
    if (sample->token < 0 || sample->token >= vocab_size) return "its token is not in the vocabulary";
    for (int i = 0; i < sample->last_count; i++)
        if (sample->last[i] < 0 || sample->last[i] >= vocab_size)
            return "a token of its context is not in the vocabulary";
    const char *wrong = NULL;
    if (all_fine(sample, vocab_size)) return NULL;
    for (int i = 0; i < sample->top_count && wrong == NULL; i++) wrong = fault_of(sample, i, vocab_size);
    return wrong;
}

int wane__sample_from(const struct wane__trace_token *record, int window, int vocab_size,
                      struct wane__sample *sample, enum wane__sample_fate *fate, wane_error *error) {
    int count = 0;
    while (count < record->top_count && count < WANE__TRACE_TOP && isfinite(record->top[count].logit))
        count++;
    *fate = record->changed                                                            ? WANE__SAMPLE_CHANGED
            : record->last_count < window || record->last_count > WANE__TEN            ? WANE__SAMPLE_SHORT
            : count == 0 || record->index < 0 || (unsigned)record->kind >= WANE__KINDS ? WANE__SAMPLE_EMPTY
                                                                                       : WANE__SAMPLE_GOOD;
    if (*fate != WANE__SAMPLE_GOOD) return WANE_OK;
    const int32_t *end = record->last + record->last_count;
    sample->key.window = wane__context_window(record->tenant, end, window);
    bool is_long = record->position >= WANE__LONG_CONTEXT && record->last_count == WANE__TEN;
    sample->key.ten = is_long ? wane__context_ten(end) : 0;
    sample->index = (uint32_t)record->index;
    sample->place = record->before.low;
    sample->request =
        XXH3_64bits_withSeed(record->request, strnlen(record->request, WANE__TRACE_ID_MOST), record->tenant);
    sample->tenant = record->tenant;
    sample->token = record->token;
    sample->kind = record->kind;
    sample->last_count = record->last_count;
    sample->top_count = count;
    memcpy(sample->last, record->last, sizeof sample->last);
    memcpy(sample->top, record->top, sizeof sample->top);
    const char *wrong = check(sample, vocab_size);
    if (wrong != NULL)
        return wane__fail(error, WANE_EFORMAT, "Token %d of request %.64s cannot be used: %s (%d tokens).",
                          record->index, record->request, wrong, vocab_size);
    weigh(sample, record->log_sum);
    return WANE_OK;
}

/* -------------------------------------------------------------------- bytes */

size_t wane__sample_encode(struct wane__sample *sample, uint8_t bytes[WANE__SAMPLE_MOST]) {
    wane__put_big(bytes, sample->key.window, 8);
    wane__put_big(bytes + 8, sample->key.ten, 4);
    wane__put_big(bytes + 12, sample->index, 4);
    wane__put_big(bytes + 16, sample->place, 8);
    memset(bytes + 24, 0, 8);
    wane__put(bytes + 32, sample->request, 8);
    wane__put(bytes + 40, sample->tenant, 8);
    wane__put(bytes + 48, (uint32_t)sample->token, 4);
    bytes[52] = (uint8_t)sample->kind;
    bytes[53] = (uint8_t)sample->last_count;
    bytes[54] = (uint8_t)sample->top_count;
    bytes[55] = (uint8_t)sample->carriers;
    wane__put_float(bytes + 56, sample->log_sum);
    uint8_t *to = bytes + 60;
    for (int i = 0; i < sample->last_count; i++, to += 4) wane__put(to, (uint32_t)sample->last[i], 4);
    for (int i = 0; i < sample->top_count; i++, to += 4) wane__put(to, (uint32_t)sample->top[i].token, 4);
    for (int i = 0; i < sample->top_count; i++, to += 4) wane__put_float(to, sample->top[i].logit);
    size_t size = (size_t)(to - bytes);
    sample->hash = XXH3_64bits_withSeed(bytes, size, UINT64_C(0x73616d706c65));
    wane__put_big(bytes + 24, sample->hash, 8);
    return size;
}

uint64_t wane__sample_hash(const uint8_t *bytes) {
    return wane__get_big(bytes + 24, 8);
}

enum wane__kind wane__sample_kind(const uint8_t *bytes) {
    return (enum wane__kind)bytes[52];
}

int wane__sample_decode(const uint8_t *bytes, size_t size, int vocab_size, const char *name,
                        struct wane__sample *sample, wane_error *error) {
    const char *wrong = NULL;
    if (size < 60 || bytes[52] >= WANE__KINDS || bytes[53] > WANE__TEN || bytes[54] < 1 ||
        bytes[54] > WANE__TRACE_TOP || bytes[55] > WANE__SLMT_DEPTH || bytes[55] > bytes[54] ||
        size != 60 + 4 * (size_t)bytes[53] + 8 * (size_t)bytes[54])
        wrong = "its size is not what it says";
    if (wrong == NULL) {
        sample->key.window = wane__get_big(bytes, 8);
        sample->key.ten = (uint32_t)wane__get_big(bytes + 8, 4);
        sample->index = (uint32_t)wane__get_big(bytes + 12, 4);
        sample->place = wane__get_big(bytes + 16, 8);
        sample->hash = wane__get_big(bytes + 24, 8);
        sample->request = wane__get(bytes + 32, 8);
        sample->tenant = wane__get(bytes + 40, 8);
        sample->token = (int32_t)(uint32_t)wane__get(bytes + 48, 4);
        sample->kind = (enum wane__kind)bytes[52];
        sample->last_count = bytes[53];
        sample->top_count = bytes[54];
        sample->carriers = bytes[55];
        sample->log_sum = wane__get_float(bytes + 56);
        const uint8_t *from = bytes + 60;
        for (int i = 0; i < sample->last_count; i++, from += 4)
            sample->last[i] = (int32_t)(uint32_t)wane__get(from, 4);
        for (int i = 0; i < sample->top_count; i++, from += 4)
            sample->top[i].token = (int32_t)(uint32_t)wane__get(from, 4);
        for (int i = 0; i < sample->top_count; i++, from += 4) sample->top[i].logit = wane__get_float(from);
        wrong = !isfinite(sample->log_sum) ? "its sum is no number" : check(sample, vocab_size);
    }
    if (wrong == NULL) return WANE_OK;
    return wane__fail(error, WANE_EFORMAT, "%s is damaged in a record: %s.", name, wrong);
}
