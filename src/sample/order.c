/*
 * order.c - sorts candidates; owns no memory, not even scratch.
 *
 * A most-significant-digit radix sort that swaps in place ("American flag sort", McIlroy, Bostic, McIlroy
 * 1993): a whole vocabulary sorts in a few passes, a comparison sort would take 18. Short runs are sorted by
 * insertion.
 */
#include "sample/order.h"

enum { SHORT_RUN = 40 };

/* Logit first, id second: the order of wane__better as one number. */
static uint64_t key_of(struct wane__candidate c) {
    return (uint64_t)wane__rank_key(c.logit) << 32 | (uint32_t)c.token;
}

static void sort_short(struct wane__candidate *c, int count) {
    for (int i = 1; i < count; i++) {
        struct wane__candidate moving = c[i];
        int j = i;
        for (; j > 0 && wane__better(moving, c[j - 1]); j--) c[j] = c[j - 1];
        c[j] = moving;
    }
}

static int digit(struct wane__candidate c, int shift) {
    return (int)(key_of(c) >> shift & 255);
}

/* Bring all into the order of one digit; end[d] is where digit d's run ends. False: they all share it. */
static bool split(struct wane__candidate *c, int count, int shift, int end[256]) {
    int next[256], have[256] = {0};
    for (int i = 0; i < count; i++) have[digit(c[i], shift)]++;
    if (have[digit(c[0], shift)] == count) return false;
    int at = 0;
    for (int d = 0; d < 256; d++) {
        next[d] = at;
        at += have[d];
        end[d] = at;
    }
    for (int d = 0; d < 256; d++) {
        while (next[d] < end[d]) {
            struct wane__candidate moving = c[next[d]];
            for (int to = digit(moving, shift); to != d; to = digit(moving, shift)) {
                struct wane__candidate other = c[next[to]];
                c[next[to]++] = moving;
                moving = other;
            }
            c[next[d]++] = moving;
        }
    }
    return true;
}

/* Recursion is at most eight deep, one a digit. */
static void sort_from(struct wane__candidate *c, int count, int shift) {
    int end[256];
    for (;; shift -= 8) {
        if (count <= SHORT_RUN) {
            sort_short(c, count);
            return;
        }
        if (split(c, count, shift, end)) break;
        if (shift == 0) return;
    }
    if (shift == 0) return;
    for (int d = 0, from = 0; d < 256; from = end[d++])
        if (end[d] - from > 1) sort_from(c + from, end[d] - from, shift - 8);
}

void wane__sort_candidates(struct wane__candidate *candidates, int count) {
    sort_from(candidates, count, 56);
}
