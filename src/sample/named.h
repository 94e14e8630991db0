/*
 * named.h - the tokens that the processors change: those with a bias and those in the penalties' window.
 *
 * Everything else keeps the logit that the head gave it, so that a draw needs the exact logits of these few
 * and the best of the rest. Tokens are kept in ascending order: the list is the `skip` of a source's
 * questions.
 */
#ifndef WANE_SAMPLE_NAMED_H
#define WANE_SAMPLE_NAMED_H

#include "sample/sample.h"

struct wane__named {
    int32_t *token; /* ascending, `count` of them */
    int *uses;      /* in the penalties' window   */
    float *bias;    /* 0 for none                 */
    bool *biased;
    float *logit; /* scratch: after processors  */
    int count, capacity;
    int32_t *window; /* the last tokens, a ring; NULL when all count or none do */
    int window_size, window_count, window_next;
    float repeat, presence, frequency;
    bool penalised; /* any penalty is on          */
    bool failed;    /* a token could not be added: no memory */
};

/* Start from {0}, or from a used one, whose memory is kept. */
int wane__named_init(struct wane__named *named, const wane_sampling *settings, int vocab_size,
                     wane_error *error);
void wane__named_free(struct wane__named *named);
/* A token of the context enters the window, the oldest leaves it. */
void wane__named_accept(struct wane__named *named, int32_t token);
/* Fetch the named tokens' logits and apply bias and penalties: fills `logit`. */
int wane__named_process(struct wane__named *named, struct wane__source *source);

#endif
