/*
 * draft_practice.c - blocks rehearsed and timed before the first reply; see draft_practice.h.
 *
 * Owns the order in which that is done, dearest knowledge last. Refuses to judge: what equal rows mean is ahead.c's affair, what times mean draft_pace.c's.
 */
#include "draft_practice.h"

#include "core/clock.h"

#include <string.h>

/* Single tokens that blocks are compared with; they stand at 1 … SINGLES, behind one that only is there. */
#define SINGLES WANE__AHEAD_PROOF
/* A row more of a block costs at most so much of a single one; only to foresee what the clock allows. */
#define SLOPE 0.6

/* A sentence like those that models know: what rows hold does not matter, but nothing odd should be in them. */
static const char text[] = "One morning a carpenter went to the market with her two children. They bought "
                           "three apples, a loaf of bread and some "
                           "cheese, and on the way home they counted the boats on the river: one, two, "
                           "three, four, five, six, seven, eight, nine, ten. ";

struct practice {
    struct wane__drafts *drafts;
    struct wane__engine *engine;
    int32_t token[1 + WANE__BLOCK_MOST];
    struct wane__item items[WANE__BLOCK_MOST];
    uint64_t single[1 + SINGLES];       /* prints; the first is of no use */
    double alone;                       /* seconds of a single token: the shortest so far */
    int equal[WANE__AHEAD_CLASSES + 1]; /* rows, of blocks of each class */
    bool differs[WANE__AHEAD_CLASSES + 1];
    double until;
};

static bool fill(struct practice *p) {
    wane_tokens tokens = {0};
    bool fine = p->engine->ops->tokenize(p->engine, text, sizeof text - 1, 0, &tokens, NULL) == WANE_OK &&
                tokens.count > 0;
    for (size_t i = 0; fine && i < sizeof p->token / sizeof *p->token; i++)
        p->token[i] = tokens.id[i % tokens.count];
    wane_tokens_free(&tokens);
    return fine;
}

/* Tokens from … from + count - 1, behind those that the engine holds; seconds, 0: it failed. */
static double decode(struct practice *p, int from, int count, uint64_t *prints) {
    wane_error ignored;
    for (int i = 0; i < count; i++)
        p->items[i] = (struct wane__item){.token = p->token[from + i], .pos = from + i, .wanted = true};
    double began = wane__now();
    int code = wane__rows_rehearse(p->drafts->rows, p->items, count, prints, &ignored);
    double took = wane__now() - began;
    return code == WANE_OK ? took : 0;
}

static bool forget(struct practice *p, int from) {
    return p->engine->ops->truncate(p->engine, 0, from) == from;
}

static bool allowed(const struct practice *p, int rows) {
    return wane__now() + p->alone * (1 + SLOPE * (rows - 1)) <= p->until;
}

/* A block of the class from `from` on, forgotten again; its prints wait for the single tokens. False: an error. */
static bool rehearse(struct practice *p, int width, int from, uint64_t *prints) {
    bool fine = decode(p, from, width, prints) > 0;
    return forget(p, from) && fine;
}

static bool singles(struct practice *p, int from, int to) {
    for (int i = from; i <= to; i++) {
        double took = decode(p, i, 1, &p->single[i]);
        if (!(took > 0)) return false;
        if (p->alone <= 0 || took < p->alone) p->alone = took;
    }
    return true;
}

static void compare(struct practice *p, int class, const uint64_t *prints, int from, int count) {
    for (int i = 0; i < count && from + i <= SINGLES; i++)
        if (prints[i] == p->single[from + i])
            p->equal[class]++;
        else
            p->differs[class] = true;
}

/* Class 1 twice, so that it has rows enough: once where the others begin, once behind four single tokens. */
static bool rehearse_all(struct practice *p) {
    uint64_t first[WANE__AHEAD_CLASSES + 1][WANE__BLOCK_MOST], second[WANE__BLOCK_MOST];
    bool tried[WANE__AHEAD_CLASSES + 1] = {false};
    int narrow = wane__ahead_rehearsed(1);
    /* The first call of a kind makes its graph; so the second one is timed. */
    if (!singles(p, 0, 1) || !forget(p, 1)) return false;
    for (int class = WANE__AHEAD_CLASSES; class > 0; class --) {
        int width = wane__ahead_rehearsed(class);
        if (1 + width > p->engine->batch || (class > 1 && !allowed(p, width + 2 * narrow + SINGLES)))
            continue;
        tried[class] = true;
        if (!rehearse(p, width, 1, first[class])) return false;
    }
    bool fine = tried[1] && singles(p, 1, narrow) && rehearse(p, narrow, 1 + narrow, second) &&
                singles(p, 1 + narrow, SINGLES) && forget(p, 1);
    for (int class = 1; fine && class <= WANE__AHEAD_CLASSES && tried[class]; class ++) {
        compare(p, class, first[class], 1, wane__ahead_rehearsed(class));
        if (class == 1) compare(p, class, second, 1 + narrow, narrow);
        wane__drafts_learn(p->drafts, class, p->equal[class], !p->differs[class]);
        if (p->differs[class]) break;
    }
    return fine;
}

/* Widths that tell most come first; narrow ones twice, and the shorter time counts. */
static void time_all(struct practice *p) {
    static const int widths[] = {4, 8, 16, 2, 12, 32, 24, 48};
    uint64_t prints[WANE__BLOCK_MOST];
    double seconds[WANE__BLOCK_MOST + 1] = {[1] = p->alone};
    int most = wane__drafts_widest(p->drafts);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        int width = widths[i];
        if (width > most || 1 + width > p->engine->batch || !allowed(p, 2 * width)) continue;
        for (int turn = 0; turn < (width < 16 ? 2 : 1); turn++) {
            double took = decode(p, 1, width, prints);
            if (!forget(p, 1) || !(took > 0)) return;
            if (turn == 0 || took < seconds[width]) seconds[width] = took;
        }
    }
    wane__draft_pace_expect(&p->drafts->pace, seconds);
}

void wane__drafts_practise(struct wane__drafts *drafts, double seconds) {
    struct practice p = {.drafts = drafts, .engine = drafts->rows->engine, .until = wane__now() + seconds};
    if (!wane__drafts_wanted(drafts) || !(seconds > 0)) return;
    if (p.engine->facts.context < 2 * WANE__BLOCK_MOST || !fill(&p)) return;
    if (rehearse_all(&p)) time_all(&p);
    p.engine->ops->truncate(p.engine, 0, 0);
    p.engine->ops->set_hook(p.engine, NULL, NULL);
}
