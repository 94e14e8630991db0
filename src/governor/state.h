/*
 * state.h - the state machine: from what a row says of how sure the model is to the temperature that its token is drawn with.
 *
 *     signals of the row ─► value ─► sight ─► table[state][sight] ─► state ─► command: tokens from … on, temperature, top-p
 *
 *     sight      the value, times the profile's sign
 *     TURN       its third difference is beyond the jerk threshold
 *     HIGH       it is above the peak, and the spread is below the profile's
 *     LOW        it is below the low
 *     MIDDLE     none of these
 *     NOTHING    it is not known
 *
 * Pure: the same profile and the same signals give the same states, whatever else happens. No pointer into itself: may be copied.
 */
#ifndef WANE_GOVERNOR_STATE_H
#define WANE_GOVERNOR_STATE_H

#include "wane.h"

enum wane__sight {
    WANE__SEES_NOTHING,
    WANE__SEES_MIDDLE,
    WANE__SEES_HIGH,
    WANE__SEES_LOW,
    WANE__SEES_TURN,
    WANE__SIGHTS
};

/* For tokens from … from + count - 1 of a reply. count 0: it says nothing, and the request's own settings hold. */
struct wane__command {
    int from, count;
    int state;
    float temperature;
    bool top_p_off;
};

/* What a value, times its sign, is compared with. */
struct wane__limits {
    double peak, low;
    double spread; /* HIGH only below it; 0: whatever it is */
    double jerk;   /* 0: there are no turns */
};
/* A value that is known. `jerk`: its third difference, and `spread` may be NAN, which is beyond nothing and below nothing. */
enum wane__sight wane__sight_of(double value, double jerk, double spread, const struct wane__limits *limits);
/* The state that follows another when the next row is seen, but for a lock that is over. */
int wane__state_after(int state, enum wane__sight sight);
/* The third difference of a value and those before it, the newest first. */
double wane__jerk(double now, const double last[3]);

struct wane__machine {
    int signal, sign, locked_tokens;
    struct wane__limits limits; /* stability is in them */
    float temperature[WANE_STATES], fallback;
    int state;      /* of the token that was stepped last */
    int left;       /* tokens that LOCKED still holds for */
    double last[3]; /* values, the newest first */
    int known;      /* of them */
};

/*
 * `stability` widens what lies between the thresholds about its middle, and lifts the jerk's, so that all states but NORMAL become rarer
 * with more of it; the profile's own counts as well. Where one threshold is never reached, the other moves away by its distance
 * from 0.
 */
void wane__machine_init(struct wane__machine *machine, const wane_profile *profile, float stability);
/* The chosen signal's value, times the sign; NAN: not known. */
double wane__machine_value(const struct wane__machine *machine, const wane_signals *signals);
/* What the row of token `index` says; returns a command for it, and perhaps for some behind it. */
struct wane__command wane__machine_step(struct wane__machine *machine, int index,
                                        const wane_signals *signals);
/* The token `index` came without a row: what was known of the tokens before it tells nothing of those behind. */
void wane__machine_skip(struct wane__machine *machine);

/*
 * Where commands wait for their tokens. `next` is the first token that is not drawn yet. False: the command is for tokens that are
 * all drawn already: it came too late, and is dropped. A later command replaces an earlier one.
 */
struct wane__steering {
    struct wane__command command;
};
bool wane__steering_take(struct wane__steering *steering, const struct wane__command *command, int next);
/* What token `index` is to be drawn with; NULL: as the request says. */
const struct wane__command *wane__steering_at(const struct wane__steering *steering, int index);

#endif
