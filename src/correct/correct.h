/*
 * correct.h - the corrections of single tokens: clamp, temperature by the dialogue's length, vote of three, rules.
 *
 *     processors ─► clamp ─► top-k, top-p, min-p ─► temperature ─► vote ─► hold ─► token
 *
 * LEGACY does it as it was once done: three draws, a majority, and another draw where a rule takes the winner away. WANE makes one
 * change of the distribution of it, and draws once. Both give each token the same probability; docs/correction.md proves it.
 */
#ifndef WANE_CORRECT_CORRECT_H
#define WANE_CORRECT_CORRECT_H

#include "correct/recent.h"
#include "correct/rules.h"
#include "sample/sample.h"

/* In the order in which they work. */
enum wane__part { WANE__PART_CLAMP, WANE__PART_DIALOGUE, WANE__PART_VOTE, WANE__PART_RULES, WANE__PARTS };

/* Random numbers of one token. The first is the ordinary draw's. */
enum wane__draw { WANE__DRAW_FIRST, WANE__DRAW_SECOND, WANE__DRAW_THIRD, WANE__DRAW_KEEP, WANE__DRAW_AGAIN };

/* One reply's: what of its settings corrections need. No pointer into itself: it may be copied. */
struct wane__correction {
    int mode; /* WANE_MODE_…; OFF: no part has anything to do */
    bool part[WANE__PARTS];
    bool plain_greedy, greedy; /* without the dialogue's share of the temperature; with it */
    int most;                  /* candidates                                               */
    double plain_scale, scale; /* the temperature's inverse, likewise                      */
    double hold;
    int more_votes;                /* of three, each over the winner of the one before; 0; WANE only */
    struct wane__correction_heat { /* as the request has it; steering changes the fields above */
        bool plain_greedy, greedy, dialogue;
        double plain_scale, scale;
    } own;
    uint64_t seed;
    struct wane__rules *rules; /* NULL: none. The decoding thread's */
    struct wane__recent recent;
};

/* What was done for one token. */
struct wane__corrected {
    bool ran[WANE__PARTS]; /* the part was at work                                                          */
    bool changed
        [WANE__PARTS];   /* with it, the same random number gave another token than without it            */
    bool held;           /* a rule changed the distribution                                               */
    bool powerless;      /* it should have, but all of the best tokens are held                           */
    bool any;            /* some part changed the token                                                   */
    int draws, failures; /* random numbers that went into the token; patterns that ran out of their time */
};

/* `T · max(floor, 1 - slope · log2(1 + n / scale))`, n tokens of context. */
float wane__dialogue_temperature(const wane_quality *quality, float temperature, int context);
double wane__correction_unit(uint64_t seed, uint64_t index, enum wane__draw draw);

/*
 * For a reply with these settings that begins after `context` tokens. `quality` NULL: off. `rules` NULL: none; they outlive
 * the correction.
 */
void wane__correction_init(struct wane__correction *correction, const wane_quality *quality,
                           const wane_sampling *sampling, uint64_t seed, int context,
                           struct wane__rules *rules);
/* As wane__sampler_steer: the dialogue's length then has no say in the temperature. NAN: the request's own again. */
void wane__correction_steer(struct wane__correction *correction, float temperature);
/* Draw the reply's token `index`, in the place of wane__sampler_draw, whose contract holds; in mode OFF it is that. Allocates nothing. */
int wane__correction_draw(struct wane__correction *correction, struct wane__sampler *sampler,
                          struct wane__source *source, uint64_t index, struct wane__choice *choice,
                          struct wane__corrected *did, wane_error *error);
/* The same token once more, by the same random numbers, with so many more votes over votes. In mode WANE, where anything is corrected. */
int wane__correction_draw_again(struct wane__correction *correction, struct wane__sampler *sampler,
                                struct wane__source *source, uint64_t index, int votes,
                                struct wane__choice *choice, wane_error *error);

#endif
