/*
 * wane/quality.h - what may change an answer for the better: corrections of single tokens, the vote over answers, and the gate
 * that lets the vote sleep. docs/correction.md and docs/gate.md have the formulas, their proofs and what they measured.
 *
 * OFF: nothing of all this: the plain engine's output. LEGACY: everything, always, as it was once done: three draws a token, three
 * answers a request. WANE: the same distribution of tokens from one draw, and the vote only where the gate doubts.
 */
#ifndef WANE_QUALITY_H
#define WANE_QUALITY_H

#include "../wane.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { WANE_MODE_OFF = 0, WANE_MODE_LEGACY = 1, WANE_MODE_WANE = 2 };
/*
 * What a reader sees of a vote. NOTE: the first answer as it comes, and at the end a note of what was chosen. VOTE: the chosen
 * answer, when it is chosen.
 */
enum { WANE_HOLD_NOTE = 0, WANE_HOLD_VOTE = 1 };
/*
 * When the fuse ends a reply. PLAIN: the entropies of the last tokens hardly differ. LOOP: moreover the reply repeats itself, to the
 * token. And what the reader then gets behind what the reply has said: a sentence that refuses to go on; what happened, in numbers; nothing.
 */
enum { WANE_FUSE_OFF = 0, WANE_FUSE_LOOP, WANE_FUSE_PLAIN, WANE_FUSES };
enum { WANE_FALLBACK_CONSERVATIVE = 0, WANE_FALLBACK_TRANSPARENT, WANE_FALLBACK_NONE, WANE_FALLBACKS };

/* All that can be set, for a server or for one of its domains. A wane_generation points to one. */
struct wane_quality {
    size_t size;
    int mode; /* WANE_MODE_…; default OFF */

    /* Single tokens. */
    int clamp; /* tokens: only the best so many may be drawn; 1..256, default 50; 0: none of its own */
    float
        dialogue_slope; /* share of the temperature lost for each doubling of the dialogue; 0..1, default 0.1; 0: off */
    int dialogue_scale; /* tokens: the length of a dialogue that counts as one doubling; default 1024       */
    float
        dialogue_floor; /* share of the temperature that is left at least; 0..1, default 0.6                */
    bool token_vote;    /* three draws a token, the majority counts; default true                           */
    bool rules;         /* the model's rules (wane_model_set_rules) hold tokens down; default true          */
    float hold;         /* probability that a rule leaves to all its tokens together; 0..1, default 0.05    */

    /* Answers. */
    int answers; /* that are voted on; 1: no vote; default 3                                      */
    const char
        *final_value; /* pattern whose first group is an answer's value; NULL: the closest answer wins */

    /* The gate. Odds are decimal logarithms: 1 reads as ten to one that a vote would change nothing. */
    float odds_base;      /* 0.62: of a prompt without entropy                                            */
    float odds_entropy;   /* 0.18: more for each doubling of 1 + the entropy of its tokens, in bits       */
    float odds_documents; /* 0.15: more for a prompt with more than `documents` documents                 */
    int documents;        /* 3                                                                            */
    int doubt_budget; /* tokens in doubt, beyond what is usual, before the vote wakes; default 8; 0: the first one wakes it */
    float
        doubt_allowance; /* doubt a token that is usual, and forgiven; 0..1; default -1: what the gate's file says; 0: all counts */
    int doubt_votes; /* votes of three over votes that a token in doubt is drawn by, beside its own; 0..8; default 3 */

    /* Revival: where the cheap test is not trusted. */
    int revival_after;  /* tokens of a reply; default 1024; 0: off            */
    float revival_top;  /* with the best token's probability below; 0.35      */
    float forced_above; /* temperature; default 1.3                           */
    int forced_every;   /* tokens; default 5; 0: off                          */

    /* Breaker: too many wakes in too short a time. */
    int breaker_wakes;         /* default 50; 0: no breaker       */
    int breaker_seconds;       /* default 300                     */
    float breaker_temperature; /* the most, while it is out; 1.2  */

    /* The governor and what stands behind it (wane/governor.h); in mode WANE only. */
    bool governor;    /* the model's profile sets temperature and top-p, token by token; default false */
    int profile;      /* that steers: 0 (default): the model's own; else wane_model_add_profile's number */
    float stability;  /* SST: scale of the profile's thresholds; 0.01..100, default 1; more: rarer     */
    int fuse;         /* WANE_FUSE_…; default LOOP                                                     */
    int fuse_window;  /* tokens; 2..64, default 5                                                      */
    float fuse_limit; /* nats: the standard deviation of their entropies is below it; 0..10, default 0.03 */
    bool
        entropies; /* take the entropy of every row, not only where the fuse may come to need it; default false */
    int fallback; /* WANE_FALLBACK_…; default CONSERVATIVE                                         */
    float
        consistency; /* cosine of two neighbouring blocks' outputs below which a token is drawn again; 0..1; 0 (default): off */
};

WANE_API void wane_quality_init(wane_quality *quality);
/* Check the values' ranges; WANE_EINVAL names the field, its value and its range. */
WANE_API int wane_quality_check(const wane_quality *quality, wane_error *error);

/* "off", "legacy", "wane"; "?" for anything else. */
WANE_API const char *wane_mode_name(int mode);
/* WANE_MODE_…, or -1. */
WANE_API int wane_mode_from(const char *name);
/* "off", "loop", "plain"; "conservative", "transparent", "none"; "?" for anything else. */
WANE_API const char *wane_fuse_name(int fuse);
WANE_API const char *wane_fallback_name(int fallback);
/* WANE_FUSE_…, WANE_FALLBACK_…, or -1. */
WANE_API int wane_fuse_from(const char *name);
WANE_API int wane_fallback_from(const char *name);

#ifdef __cplusplus
}
#endif

#endif
