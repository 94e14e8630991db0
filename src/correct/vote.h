/*
 * vote.h - the vote of three draws, and what it collapses to. Pure functions on probabilities; docs/correction.md has the proofs.
 *
 * Tokens stand in the one order of candidates: index 0 is the most probable, the smaller id first among equals.
 */
#ifndef WANE_CORRECT_VOTE_H
#define WANE_CORRECT_VOTE_H

#include <stdbool.h>

/* Of three draws: the one that two agree on; of three different ones the most probable. */
int wane__vote_winner(int first, int second, int third);
/*
 * The probability of each token to win such a vote, from its probability in one draw; `out` may not be `p`. The sum of `p` is 1,
 * and so is that of `out`, but for rounding.
 */
void wane__vote_closed(const double *p, int count, double *out);
/* The first index at which the running sum of `weight` exceeds u · their sum; u in [0, 1). As the sampler's draw. */
int wane__vote_draw(const double *weight, int count, double u);

/*
 * What a hold makes of a distribution: the tokens that are held keep `hold` of the probability together, at most, each in proportion;
 * the others get what that frees, in proportion. False, and nothing changed: the held ones have no more than that. Where the others
 * have no probability at all, everything that is freed goes to index `other`; -1: there is none, and nothing is changed either.
 * `held_share` is the probability of the held ones before.
 */
bool wane__vote_hold(double *p, const bool *held, int count, double hold, int other, double *held_share);

#endif
