/*
 * wane/governor.h - sampling steered by the model's own attention: which signals say how sure it is, what thresholds they were
 * found to have on a model and domain (a profile), and the state that a token is drawn in.
 *
 * Without a profile for a model there is no governor: thresholds are fitted, never guessed. docs/governor.md has formulas and figures.
 */
#ifndef WANE_GOVERNOR_H
#define WANE_GOVERNOR_H

#include "../wane.h"
#include "quality.h"

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
    int samples; /* tokens that it was fitted on */
    float auc, auc_low,
        auc_high;      /* of the signal, on text that was held out; 95 % interval; NAN: not known */
    char command[512]; /* that made it; "": not known */
} wane_profile;

/* "normal", "locked", "explore", "protect"; "?" for another number. Static storage. */
WANE_API const char *wane_state_name(int state);
/* "none", "kurtosis", "entropy", "margin"; "?" for another number. Static storage. */
WANE_API const char *wane_signal_name(int signal);
/* WANE_SIGNAL_…, or -1. */
WANE_API int wane_signal_from(const char *name);

/* --------------------------------------------------------- a profile's file */

/*
 * No signal, no model; the rest as if it were to be filled in: temperatures 0.3, 0.85, 0.5 and a lock of 3 tokens, thresholds that nothing
 * reaches (peak INFINITY, low -INFINITY, jerk 0), sign 1, layer -1, stability 1, evidence not known.
 */
WANE_API void wane_profile_init(wane_profile *profile);
/*
 * Check what belongs together: names, ranges, low below peak, a layer where the signal is kurtosis and none where it is not. WANE_EINVAL names
 * the field as it stands in the file.
 */
WANE_API int wane_profile_check(const wane_profile *profile, wane_error *error);
/*
 * A profile is a file of JSON (docs/governor.md). INFINITY and NAN are null there. Load refuses unknown fields and what check refuses:
 * WANE_EFORMAT with the place; WANE_ENOENT. Save writes what load gives back bit by bit, by a temporary name.
 */
WANE_API int wane_profile_load(const char *path, wane_profile *profile, wane_error *error);
WANE_API int wane_profile_save(const wane_profile *profile, const char *path, wane_error *error);

/* -------------------------------------------------------- a model's governor */

/*
 * Give the model a profile: a file, or NULL for the one that ships for this very model (profiles/<model digest>.json in wane's shared
 * files). WANE_ENOENT: there is none, and the governor stays off; the sentence says how to make one. WANE_EUNSUPPORTED: it is another
 * model's, or its layer cannot be probed. WANE_EFORMAT: the file is damaged. WANE_EBUSY while a session or a scheduler stands on the
 * model. On failure the profile before stays. A profile without a signal is taken, and steers nothing: wane_governor_state says so.
 */
WANE_API int wane_model_set_profile(wane_model *model, const char *path, wane_error *error);
/*
 * A further profile, that of a domain: replies whose wane_quality.profile is `number` (from 1 on) are steered by it instead. Refused as above,
 * and WANE_EINVAL beyond WANE_PROFILES_MOST. The same path again has the same number.
 */
enum { WANE_PROFILES_MOST = 64 };
WANE_API int wane_model_add_profile(wane_model *model, const char *path, int *number, wane_error *error);
/* No profile any more, nor any that was added; counters stay. WANE_EBUSY as above. */
WANE_API int wane_model_drop_profile(wane_model *model, wane_error *error);
/*
 * Look at two neighbouring blocks' outputs as well, for wane_quality.consistency: those of the profile's layer and the one before it, or in
 * the middle of the model. WANE_EUNSUPPORTED where the model cannot be probed; WANE_EBUSY as above.
 */
WANE_API int wane_model_set_consistency(wane_model *model, bool on, wane_error *error);

/* How the next token is to be drawn. */
typedef struct wane_steer {
    bool steered;      /* a profile steers; else the rest is as the request says            */
    int state;         /* WANE_STATE_…                                                      */
    float temperature; /* NAN: the request's own                                            */
    bool top_p_off;
    bool known;         /* the signal that the profile looks at was there                    */
    bool wants_entropy; /* the fuse may come to need the next row's                          */
    float spread;       /* standard deviation of the last entropies, nats; NAN: not known    */
} wane_steer;

/* A moment's picture. Counters never fall. */
typedef struct wane_governor_state {
    bool given;                   /* the model has a profile                                       */
    bool on;                      /* it, or one that was added, has a signal                       */
    int added;                    /* profiles that were added                                      */
    bool consistency;             /* blocks' outputs are looked at                                 */
    char path[1024];              /* of the profile; cut where it is longer                        */
    wane_profile profile;         /* all of it; as wane_profile_init leaves it where there is none */
    uint64_t tokens[WANE_STATES]; /* drawn under a profile, by their state                         */
    uint64_t missing;             /* of them: the signal was not known                             */
    uint64_t commands;            /* to samplers                                                   */
    uint64_t dropped;             /* of them: their tokens had been drawn, or came without a draw  */
    uint64_t fused[WANE_FUSES];   /* replies that the fuse ended, by its rule; OFF stays 0         */
    uint64_t fuse_tokens;         /* that the fuse looked at                                       */
    uint64_t entropies;           /* rows whose entropy was taken                                  */
    uint64_t judged;              /* tokens with a consistency                                     */
    uint64_t inconsistent;        /* of them: below the limit, and drawn twice                     */
    uint64_t changed;             /* of them: the second draw stood                                */
    float entropy_spread;   /* of the last entropies where they were last looked at, nats; NAN: not yet   */
    float last_consistency; /* of the newest token; NAN: not known                                 */
} wane_governor_state;

/* Thread-safe. */
WANE_API void wane_model_get_governor_state(wane_model *model, wane_governor_state *state);

#ifdef __cplusplus
}
#endif

#endif
