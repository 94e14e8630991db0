/*
 * fuzz_rollout.c - any bytes as a rollout's plan or file: refused in words; or taken, and then the same text when it is written and read
 * again, and within its bounds whatever is done to it.
 *
 *     the last 16 bytes: what is done, a step a byte: bits 0 to 2 time, evidence, a person's action, a breaker; the rest how much
 */
#include "core/memory.h"
#include "ops/rollout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct wane__rollout_book book, again;

static void check(const struct wane__rollout_book *b) {
    for (int i = 0; i < WANE_FEATURES; i++) {
        const struct wane__progress *p = &b->state.feature[i];
        int stages = b->plan.feature[i].stage_count;
        if (p->stage < -1 || p->stage >= (stages > 0 ? stages : 1) || !(p->held >= 0)) abort();
        if (stages == 0 && p->stage != -1) abort();
    }
}

static void round_trip(void) {
    char *text = wane__rollout_text(&book), *shown = wane__rollout_shown(&book);
    wane_error error = {0};
    if (text == NULL || shown == NULL) abort();
    if (wane__rollout_parse(text, strlen(text), &again, &error) != WANE_OK) abort();
    char *other = wane__rollout_text(&again);
    if (other == NULL || strcmp(text, other) != 0) abort();
    wane__free(text);
    wane__free(other);
    wane__free(shown);
}

static void do_step(uint8_t what, int64_t *date) {
    struct wane__evidence recent[WANE_FEATURES] = {0};
    unsigned changed;
    int feature = what >> 3 & 7;
    switch (what & 7) {
    case 0: *date += (what >> 3) * 1000; break;
    case 1: *date -= (what >> 3) * 100000; break;
    case 2:
        if (feature < WANE_FEATURES) {
            struct wane__evidence *seen = &book.state.feature[feature].seen;
            seen->requests[1] += what;
            seen->tries += what;
            seen->hits += what > 128 && seen->hits + what <= seen->tries ? what : 0;
            seen->checks += 1;
        }
        break;
    case 3:
        wane__rollout_act(&book, what >> 6, feature < WANE_FEATURES ? feature : -1, *date, &changed, NULL);
        break;
    case 4:
        if (feature < WANE_FEATURES) wane__rollout_step_back(&book, feature, *date, "\x01 \xff fired");
        break;
    default: *date += 60000; break;
    }
    const struct wane__moment moment = {*date, what * 10.0};
    wane__rollout_turn(&book, recent, &moment);
    check(&book);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    wane_error error = {0};
    size_t steps = size > 16 ? 16 : 0;
    int status = wane__rollout_parse((const char *)data, size - steps, &book, &error);
    if (status != WANE_OK) {
        if (status != WANE_EFORMAT || error.text[0] == '\0') abort();
        return 0;
    }
    check(&book);
    round_trip();
    const struct wane__subject subject = {"u", "k", "line", "r"};
    (void)wane__rollout_side(&book, &subject);
    int64_t date = book.state.seen_at < INT64_C(4000000000000) ? book.state.seen_at : 0;
    for (size_t i = 0; i < steps; i++) do_step(data[size - steps + i], &date);
    round_trip();
    return 0;
}
