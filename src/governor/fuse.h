/*
 * fuse.h - when a reply has ceased to say anything: the entropies of its last tokens hardly differ, and (unless the plain rule is asked
 * for) it goes round in a loop.
 *
 * PLAIN: the standard deviation of the last `window` entropies is below the limit. Fluent code, quotations and lists look like
 * that too. LOOP: moreover the reply's end repeats a piece of it, to the token, three times at least and over 96 tokens at least. The evidence
 * grows token by token, and one token that does not fit takes all of it away. docs/governor.md says what was measured.
 *
 * Entropies cost sums over the vocabulary, and LOOP looks at them only where there is a loop: `wants` says that the window's tokens could
 * bring the evidence to its limit, so that all entropies are there by then. Whoever gives those alone, and NAN for the others, sees it fire at
 * the same token as one who gives them all.
 */
#ifndef WANE_GOVERNOR_FUSE_H
#define WANE_GOVERNOR_FUSE_H

#include "wane.h"

/* The longest piece that counts as repeated, and what must repeat in all. */
enum { WANE__FUSE_PERIOD = 128, WANE__FUSE_STRETCH = 96, WANE__FUSE_TIMES = 3, WANE__FUSE_WINDOW = 64 };

/* One reply's. No pointer into itself. */
struct wane__fuse {
    int rule; /* WANE_FUSE_… */
    int window;
    double limit;
    double entropy[WANE__FUSE_WINDOW]; /* a ring of the last ones */
    int seen;                          /* in a row, known */
    double spread;                     /* of the window; NAN: not all of it is known */
    uint16_t same[WANE__FUSE_PERIOD];  /* [p - 1]: tokens in a row that equal the one p before them */
    int period;                        /* of the loop that it is in; 0: none */
    bool wants;                        /* the next token's entropy may come to matter */
};

void wane__fuse_init(struct wane__fuse *fuse, const wane_quality *quality);
/* The entropy of the row that the next token is drawn from; NAN: not known, or not wanted, which begins the window anew. */
void wane__fuse_see(struct wane__fuse *fuse, double entropy);
/* A token joined the reply, whose `count` tokens are at `reply`. True: it is to end here. */
bool wane__fuse_take(struct wane__fuse *fuse, const int32_t *reply, int count);

#endif
