/*
 * settings.c - defaults and range checks of wane_sampling; owns the sentences that name field, value and
 * range.
 */
#include "core/error.h"
#include "sample/sample.h"

#include <limits.h>
#include <math.h>

enum { MOST_BIASES = 1024, LONGEST_WINDOW = 1000000 };

#define MOST_BIAS 1e6f /* far beyond any logit, far from overflow */

void wane__sampling_defaults(wane_sampling *settings) {
    *settings = (wane_sampling){
        .temperature = 0.8f,
        .top_k = 40,
        .top_p = 0.95f,
        .min_p = 0.05f,
        .repeat_penalty = 1,
        .penalty_window = 64,
        .top_logprobs = -1,
    };
}

static int check_number(const char *name, float value, float low, float high, wane_error *error) {
    if (value >= low && value <= high) return WANE_OK; /* NaN is not */
    return wane__fail(error, WANE_EINVAL, "%s is %g; it must be between %g and %g.", name, (double)value,
                      (double)low, (double)high);
}

static int check_count(const char *name, int value, int low, int high, wane_error *error) {
    if (value >= low && value <= high) return WANE_OK;
    if (high == INT_MAX)
        return wane__fail(error, WANE_EINVAL, "%s is %d; it must be at least %d.", name, value, low);
    return wane__fail(error, WANE_EINVAL, "%s is %d; it must be between %d and %d.", name, value, low, high);
}

static int check_biases(const wane_sampling *settings, int vocab_size, wane_error *error) {
    if (settings->bias_count > MOST_BIASES)
        return wane__fail(error, WANE_EINVAL, "The logit bias names %zu tokens; at most %d are allowed.",
                          settings->bias_count, MOST_BIASES);
    if (settings->bias_count > 0 && settings->bias == NULL)
        return wane__fail(error, WANE_EINVAL, "The logit bias has %zu entries but no list.",
                          settings->bias_count);
    for (size_t i = 0; i < settings->bias_count; i++) {
        wane_bias one = settings->bias[i];
        if (one.token < 0 || (vocab_size > 0 && one.token >= vocab_size))
            return wane__fail(error, WANE_EINVAL,
                              "The logit bias names token %d; it must be between 0 and %d.", one.token,
                              vocab_size > 0 ? vocab_size - 1 : INT_MAX);
        bool forbids = isinf(one.bias) && one.bias < 0;
        if (!forbids && !(fabsf(one.bias) <= MOST_BIAS))
            return wane__fail(error, WANE_EINVAL,
                              "The logit bias of token %d is %g; it must be between %g and %g, or -infinity.",
                              one.token, (double)one.bias, (double)-MOST_BIAS, (double)MOST_BIAS);
    }
    return WANE_OK;
}

int wane__sampling_check(const wane_sampling *settings, int vocab_size, wane_error *error) {
    int status = check_number("temperature", settings->temperature, 0, 100, error);
    if (status == WANE_OK) status = check_count("top_k", settings->top_k, 0, INT_MAX, error);
    if (status == WANE_OK) status = check_number("top_p", settings->top_p, 0, 1, error);
    if (status == WANE_OK) status = check_number("min_p", settings->min_p, 0, 1, error);
    if (status == WANE_OK)
        status = check_number("repeat_penalty", settings->repeat_penalty, 0.01f, 100, error);
    if (status == WANE_OK)
        status = check_number("presence_penalty", settings->presence_penalty, -100, 100, error);
    if (status == WANE_OK)
        status = check_number("frequency_penalty", settings->frequency_penalty, -100, 100, error);
    if (status == WANE_OK)
        status = check_count("penalty_window", settings->penalty_window, -1, LONGEST_WINDOW, error);
    if (status == WANE_OK)
        status = check_count("top_logprobs", settings->top_logprobs, -1, WANE_MAX_TOP_LOGPROBS, error);
    return status == WANE_OK ? check_biases(settings, vocab_size, error) : status;
}
