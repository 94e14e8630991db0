/*
 * named.c - bias and penalties; owns the list of the tokens that they touch.
 *
 * A window of a fixed size reserves all it can need when a request starts. A window over the whole context
 * cannot know how many different tokens will come: its list doubles when full, outside of the step (see
 * grow).
 */
#include "sample/named.h"

#include "core/error.h"
#include "core/memory.h"

#include <math.h>
#include <string.h>

static bool resize_list(struct wane__named *named, int capacity) {
    if (capacity <= named->capacity) return true;
    size_t count = (size_t)capacity;
    void *block;
    if ((block = wane__resize(named->token, count, sizeof *named->token)) == NULL) return false;
    named->token = block;
    if ((block = wane__resize(named->uses, count, sizeof *named->uses)) == NULL) return false;
    named->uses = block;
    if ((block = wane__resize(named->bias, count, sizeof *named->bias)) == NULL) return false;
    named->bias = block;
    if ((block = wane__resize(named->biased, count, sizeof *named->biased)) == NULL) return false;
    named->biased = block;
    if ((block = wane__resize(named->logit, count, sizeof *named->logit)) == NULL) return false;
    named->logit = block;
    named->capacity = capacity;
    return true;
}

/* A doubling list allocates rarely, so the step (which promises not to) is left for it. Steps do not nest. */
static bool grow(struct wane__named *named) {
    wane__step_leave();
    bool fine = resize_list(named, named->capacity < 64 ? 64 : 2 * named->capacity);
    wane__step_enter();
    return fine;
}

/* Index of `token`, or of the first larger one. */
static int find(const struct wane__named *named, int32_t token) {
    int low = 0, high = named->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (named->token[middle] < token)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void shift(struct wane__named *named, int to, int from) {
    size_t moved = (size_t)(named->count - from);
    memmove(named->token + to, named->token + from, moved * sizeof *named->token);
    memmove(named->uses + to, named->uses + from, moved * sizeof *named->uses);
    memmove(named->bias + to, named->bias + from, moved * sizeof *named->bias);
    memmove(named->biased + to, named->biased + from, moved * sizeof *named->biased);
    named->count += to - from;
}

/* Index of `token`, which is put in if need be; -1 when there is no memory. */
static int put(struct wane__named *named, int32_t token) {
    int at = find(named, token);
    if (at < named->count && named->token[at] == token) return at;
    if (named->count == named->capacity && !grow(named)) {
        named->failed = true;
        return -1;
    }
    shift(named, at + 1, at);
    named->token[at] = token;
    named->uses[at] = 0;
    named->bias[at] = 0;
    named->biased[at] = false;
    return at;
}

static void drop_use(struct wane__named *named, int32_t token) {
    int at = find(named, token);
    if (--named->uses[at] == 0 && !named->biased[at]) shift(named, at, at + 1);
}

int wane__named_init(struct wane__named *named, const wane_sampling *settings, int vocab_size,
                     wane_error *error) {
    named->count = named->window_count = named->window_next = 0;
    named->failed = false;
    named->repeat = settings->repeat_penalty;
    named->presence = settings->presence_penalty;
    named->frequency = settings->frequency_penalty;
    bool neutral = named->repeat >= 1 && named->repeat <= 1 &&
                   !(named->presence < 0 || named->presence > 0) &&
                   !(named->frequency < 0 || named->frequency > 0);
    named->penalised = settings->penalty_window != 0 && !neutral;
    wane__free(named->window);
    named->window = NULL;
    named->window_size = named->penalised && settings->penalty_window > 0 ? settings->penalty_window : 0;
    if (named->window_size > 0) {
        named->window = wane__alloc_zero((size_t)named->window_size, sizeof *named->window);
        if (named->window == NULL)
            return wane__fail(error, WANE_ENOMEM, "No memory for a window of %d tokens.", named->window_size);
    }
    /* One more than the window: a token comes in before the oldest goes. */
    size_t most = settings->bias_count + (size_t)named->window_size + (named->penalised ? 64 : 0) + 1;
    if (most > (size_t)vocab_size) most = (size_t)vocab_size;
    if (!resize_list(named, (int)most))
        return wane__fail(error, WANE_ENOMEM, "No memory for %zu processed tokens.", most);
    for (size_t i = 0; i < settings->bias_count; i++) {
        int at = put(named, settings->bias[i].token);
        if (at < 0) return wane__fail(error, WANE_ENOMEM, "No memory for the logit bias.");
        named->bias[at] += settings->bias[i].bias;
        named->biased[at] = true;
    }
    return WANE_OK;
}

void wane__named_free(struct wane__named *named) {
    wane__free(named->token);
    wane__free(named->uses);
    wane__free(named->bias);
    wane__free(named->biased);
    wane__free(named->logit);
    wane__free(named->window);
    *named = (struct wane__named){0};
}

void wane__named_accept(struct wane__named *named, int32_t token) {
    if (!named->penalised) return;
    int at = put(named, token);
    if (at < 0) return;
    named->uses[at]++;
    if (named->window == NULL) return;
    if (named->window_count == named->window_size)
        drop_use(named, named->window[named->window_next]);
    else
        named->window_count++;
    named->window[named->window_next] = token;
    named->window_next = (named->window_next + 1) % named->window_size;
}

int wane__named_process(struct wane__named *named, struct wane__source *source) {
    if (named->failed) return WANE_ENOMEM;
    if (named->count == 0) return WANE_OK;
    int status = source->fetch(source, named->token, named->count, named->logit);
    for (int i = 0; status == WANE_OK && i < named->count; i++) {
        float logit = named->logit[i];
        if (isnan(logit)) return WANE_EENGINE;
        if (named->biased[i]) logit += named->bias[i];
        if (named->uses[i] > 0) {
            if (logit <= 0)
                logit *= named->repeat;
            else
                logit /= named->repeat;
            logit -= (float)named->uses[i] * named->frequency + named->presence;
        }
        named->logit[i] =
            isnan(logit) ? -INFINITY : logit; /* +inf of the engine and -inf of a bias: forbidden */
    }
    return status;
}
