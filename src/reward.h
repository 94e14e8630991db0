/*
 * reward.h - how well an answer is likely to be liked: a model's reward model, seen from inside. docs/feedback.md.
 *
 * Only sums of the same request are to be compared: what the prompt adds is left out.
 */
#ifndef WANE_REWARD_H
#define WANE_REWARD_H

#include "wane.h"

struct wane__linear;

struct wane__reward {
    struct wane__linear *model; /* NULL: none */
    int choice;                 /* WANE_REWARD_… */
};

static inline bool wane__reward_on(const struct wane__reward *reward) {
    return reward != NULL && reward->model != NULL;
}
/* An answer's score. False: it cannot be told. From any thread; about a millisecond for a long answer. */
bool wane__reward_score(const struct wane__reward *reward, const char *text, size_t size, double *score);
void wane__reward_close(struct wane__reward *reward);

#endif
