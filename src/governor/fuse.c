/*
 * fuse.c - two tests and their evidence. Owns the window of entropies and, for each length of a piece, how long it has been repeated.
 * Refuses to end anything itself.
 */
#include "governor/governor.h"

#include <math.h>
#include <stdio.h>

/* What must have been repeated of a piece so long. */
static int stretch_needed(int period) {
    int needed = WANE__FUSE_TIMES * period;
    return needed < WANE__FUSE_STRETCH ? WANE__FUSE_STRETCH : needed;
}

/* Could the next `window` tokens bring it there? */
static bool comes_near(const struct wane__fuse *fuse, int period) {
    return fuse->same[period - 1] + fuse->window + period >= stretch_needed(period);
}

void wane__fuse_init(struct wane__fuse *fuse, const wane_quality *q) {
    *fuse = (struct wane__fuse){
        .rule = q->mode == WANE_MODE_WANE ? q->fuse : WANE_FUSE_OFF,
        .window = q->fuse_window,
        .limit = (double)q->fuse_limit,
        .spread = NAN,
    };
    fuse->wants = fuse->rule == WANE_FUSE_PLAIN;
    for (int p = 1; p <= WANE__FUSE_PERIOD && fuse->rule == WANE_FUSE_LOOP; p++)
        fuse->wants = fuse->wants || comes_near(fuse, p);
}

void wane__fuse_see(struct wane__fuse *fuse, double entropy) {
    double sum = 0, squares = 0;
    fuse->spread = NAN;
    if (isnan(entropy)) {
        fuse->seen = 0;
        return;
    }
    fuse->entropy[fuse->seen++ % fuse->window] = entropy;
    if (fuse->seen < fuse->window) return;
    if (fuse->seen == 2 * fuse->window) fuse->seen = fuse->window; /* the ring's place, without end */
    /* From the oldest on: the same entropies give the same bits, wherever the ring began. */
    for (int i = 0; i < fuse->window; i++) sum += fuse->entropy[(fuse->seen + i) % fuse->window];
    double mean = sum / fuse->window;
    for (int i = 0; i < fuse->window; i++) {
        double off = fuse->entropy[(fuse->seen + i) % fuse->window] - mean;
        squares += off * off;
    }
    fuse->spread = sqrt(squares / fuse->window);
}

/* The shortest piece that the reply's end repeats often enough; 0: none. */
static int find_loop(struct wane__fuse *fuse, const int32_t *reply, int count) {
    int found = 0;
    fuse->wants = false;
    for (int p = 1; p <= WANE__FUSE_PERIOD; p++) {
        uint16_t *same = &fuse->same[p - 1];
        bool equal = count > p && reply[count - 1] == reply[count - 1 - p];
        *same = (uint16_t)(equal ? *same + (*same < UINT16_MAX) : 0);
        if (found == 0 && *same + p >= stretch_needed(p)) found = p;
        fuse->wants = fuse->wants || comes_near(fuse, p);
    }
    return found;
}

bool wane__fuse_take(struct wane__fuse *fuse, const int32_t *reply, int count) {
    if (fuse->rule == WANE_FUSE_OFF) return false;
    if (fuse->rule == WANE_FUSE_LOOP) {
        fuse->period = find_loop(fuse, reply, count);
        if (fuse->period == 0) return false;
    }
    return fuse->spread < fuse->limit; /* NaN is not */
}

int wane__fallback_text(const struct wane__fuse *fuse, int fallback, bool begun,
                        char out[WANE__FALLBACK_BYTES]) {
    const char *gap = begun ? "\n\n" : "";
    int size = 0;
    if (fallback == WANE_FALLBACK_CONSERVATIVE)
        size = snprintf(out, WANE__FALLBACK_BYTES,
                        "%sI cannot go on with this answer reliably. Please ask again in other words.", gap);
    else if (fallback == WANE_FALLBACK_TRANSPARENT && fuse->period > 0)
        size =
            snprintf(out, WANE__FALLBACK_BYTES,
                     "%s[The reply was stopped here: it repeated the same %d token%s over and over (standard "
                     "deviation of the last "
                     "%d entropies: %.3g nats, limit %.3g).]",
                     gap, fuse->period, fuse->period > 1 ? "s" : "", fuse->window, fuse->spread, fuse->limit);
    else if (fallback == WANE_FALLBACK_TRANSPARENT)
        size = snprintf(out, WANE__FALLBACK_BYTES,
                        "%s[The reply was stopped here: the entropies of its last %d tokens hardly differed "
                        "(standard deviation "
                        "%.3g nats, limit %.3g).]",
                        gap, fuse->window, fuse->spread, fuse->limit);
    return size;
}
