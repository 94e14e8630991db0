/*
 * wane/governor.h - sampling steered by the model's own attention: which signals say how sure it is, what thresholds they were
 * found to have on a model and domain (a profile), and the state that a token is drawn in.
 *
 * Without a profile for a model there is no governor: thresholds are fitted, never guessed. docs/governor.md has formulas and figures.
 */
#ifndef WANE_GOVERNOR_H
#define WANE_GOVERNOR_H

#include "../wane.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NORMAL changes nothing. LOCKED: the model knows; EXPLORE: it does not; PROTECT: it is turning. */
enum { WANE_STATE_NORMAL = 0, WANE_STATE_LOCKED, WANE_STATE_EXPLORE, WANE_STATE_PROTECT, WANE_STATES };
/* Which signal a profile steers by. NONE: labelled text showed none that can be told from chance. */
enum { WANE_SIGNAL_NONE = 0, WANE_SIGNAL_KURTOSIS, WANE_SIGNAL_ENTROPY, WANE_SIGNAL_MARGIN, WANE_SIGNALS };

/* What one row says of how sure the model is. NAN: not known. */
typedef struct wane_signals {
    float
        kurtosis; /* Pearson's, of cos(q, k) over the keys that a token looks at; mean over query heads; 3: as a normal distribution */
    float spread; /* standard deviation of those cosines; mean over query heads                           */
    float entropy; /* of the token's distribution at temperature 1, in nats                                 */
    float margin;  /* logit of the best token less that of the second                                       */
    float
        consistency; /* cosine of the outputs of two neighbouring blocks at this token; -1..1                 */
} wane_signals;

/* Thresholds of one model and domain, as `wane tune` finds them. Values of kurtosis are those of the chosen signal. */
typedef struct wane_profile {
    size_t size;
    char model[33];  /* the model's digest, 32 hex digits, as in table files */
    char domain[32]; /* "": any */
    int signal;      /* WANE_SIGNAL_…; NONE: there is none, and the governor stays off */
    int layer;       /* that is probed, from 0; -1: none is */
    int sign; /* 1: high values mean sure; -1: low ones do. Values are multiplied by it before they are compared. */
    float peak;   /* peak_kurtosis: LOCKED above it  */
    float low;    /* low_kurtosis: EXPLORE below it  */
    float spread; /* LOCKED only with a spread below it; 0: whatever it is */
    float jerk;   /* jerk_threshold: PROTECT where the third difference is beyond; 0: never */
    float locked_temperature, explore_temperature, protect_temperature;
    float temp_fallback; /* temperature where the signal is missing; 0: the request's own */
    int locked_tokens;   /* LOCKED holds for so many */
    float stability;     /* SST of the domain: 1 leaves the thresholds, more makes both states rarer */
    /* Evidence. */
    int samples;                  /* tokens that it was fitted on */
    float auc, auc_low, auc_high; /* of the signal, on text that was held out; 95 % interval */
} wane_profile;

#ifdef __cplusplus
}
#endif

#endif
