/*
 * vote.c - majority of three, its closed form, and the hold, on plain arrays. Owns nothing; refuses to know what a token is.
 *
 *     P(i) = p_i³ + 3 p_i² (1 - p_i) + 6 p_i Σ_{j<k, both behind i} p_j p_k
 *
 * Three agree; two agree, in three orders; all differ and i is the first of them, in six orders. The last sum is built from the
 * end, of products only: nothing cancels, and a probability of 1e-300 is as exact as one of a half.
 */
#include "correct/vote.h"

int wane__vote_winner(int first, int second, int third) {
    if (first == second || first == third) return first;
    if (second == third) return second;
    int best = first < second ? first : second;
    return best < third ? best : third;
}

void wane__vote_closed(const double *p, int count, double *out) {
    double behind = 0, pairs = 0; /* Σ p_j, Σ p_j p_k of those behind */
    for (int i = count - 1; i >= 0; i--) {
        double one = p[i];
        out[i] = one * (one * (3 - 2 * one) + 6 * pairs);
        pairs += one * behind;
        behind += one;
    }
}

int wane__vote_draw(const double *weight, int count, double u) {
    double mass = 0, sum = 0;
    for (int i = 0; i < count; i++) mass += weight[i];
    for (int i = 0; i < count; i++) {
        sum += weight[i];
        if (sum > u * mass) return i;
    }
    return 0; /* not reached: the same sum, and u < 1 */
}

bool wane__vote_hold(double *p, const bool *held, int count, double hold, int other, double *held_share) {
    double in = 0, out = 0;
    for (int i = 0; i < count; i++) *(held[i] ? &in : &out) += p[i];
    *held_share = in / (in + out);
    if (!(*held_share > hold) || (!(out > 0) && other < 0)) return false;
    for (int i = 0; i < count; i++) p[i] *= held[i] ? hold / in : out > 0 ? (1 - hold) / out : 0;
    if (!(out > 0)) p[other] = 1 - hold;
    return true;
}
