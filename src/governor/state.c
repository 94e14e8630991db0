/*
 * state.c - the state machine. Owns the table of states and how thresholds are compared. Refuses to guess: a value that is not known
 * leads nowhere but to the fallback temperature.
 */
#include "governor/state.h"

#include <math.h>

/* What follows a state when the next row is seen. A lock holds for its tokens, and only a turn breaks it. */
static const unsigned char after[WANE_STATES][WANE__SIGHTS] = {
    /*                    NOTHING             MIDDLE             HIGH               LOW                TURN */
    [WANE_STATE_NORMAL] = {WANE_STATE_NORMAL, WANE_STATE_NORMAL, WANE_STATE_LOCKED, WANE_STATE_EXPLORE,
                           WANE_STATE_PROTECT},
    [WANE_STATE_LOCKED] = {WANE_STATE_LOCKED, WANE_STATE_LOCKED, WANE_STATE_LOCKED, WANE_STATE_LOCKED,
                           WANE_STATE_PROTECT},
    [WANE_STATE_EXPLORE] = {WANE_STATE_NORMAL, WANE_STATE_NORMAL, WANE_STATE_LOCKED, WANE_STATE_EXPLORE,
                            WANE_STATE_PROTECT},
    [WANE_STATE_PROTECT] = {WANE_STATE_NORMAL, WANE_STATE_NORMAL, WANE_STATE_LOCKED, WANE_STATE_EXPLORE,
                            WANE_STATE_PROTECT},
};

int wane__state_after(int state, enum wane__sight sight) {
    return after[state][sight];
}

static const bool top_p_off[WANE_STATES] = {[WANE_STATE_LOCKED] = true, [WANE_STATE_PROTECT] = true};

/* Both thresholds away from their middle; one alone away from 0. */
static void scale(struct wane__limits *m, double factor) {
    bool both = isfinite(m->peak) && isfinite(m->low);
    double middle = both ? 0.5 * (m->peak + m->low) : 0;
    if (both) {
        m->peak = middle + factor * (m->peak - middle);
        m->low = middle + factor * (m->low - middle);
    } else if (isfinite(m->peak)) {
        m->peak += (factor - 1) * fabs(m->peak);
    } else if (isfinite(m->low)) {
        m->low -= (factor - 1) * fabs(m->low);
    }
    m->jerk *= factor;
}

void wane__machine_init(struct wane__machine *machine, const wane_profile *p, float stability) {
    *machine = (struct wane__machine){
        .signal = p->signal,
        .sign = p->sign,
        .locked_tokens = p->locked_tokens,
        .limits = {(double)p->peak, (double)p->low, (double)p->spread, (double)p->jerk},
        .temperature = {[WANE_STATE_LOCKED] = p->locked_temperature,
                        [WANE_STATE_EXPLORE] = p->explore_temperature,
                        [WANE_STATE_PROTECT] = p->protect_temperature},
        .fallback = p->temp_fallback,
    };
    scale(&machine->limits, (double)p->stability * (double)stability);
}

double wane__machine_value(const struct wane__machine *machine, const wane_signals *signals) {
    double value = machine->signal == WANE_SIGNAL_KURTOSIS  ? (double)signals->kurtosis
                   : machine->signal == WANE_SIGNAL_ENTROPY ? (double)signals->entropy
                   : machine->signal == WANE_SIGNAL_MARGIN  ? (double)signals->margin
                                                            : (double)NAN;
    return machine->sign * value;
}

double wane__jerk(double now, const double last[3]) {
    return now - 3 * last[0] + 3 * last[1] - last[2];
}

enum wane__sight wane__sight_of(double value, double jerk, double spread, const struct wane__limits *limits) {
    if (limits->jerk > 0 && fabs(jerk) > limits->jerk) return WANE__SEES_TURN;
    bool narrow = !(limits->spread > 0) || spread < limits->spread;
    if (value > limits->peak && narrow) return WANE__SEES_HIGH;
    return value < limits->low ? WANE__SEES_LOW : WANE__SEES_MIDDLE;
}

static enum wane__sight see(struct wane__machine *m, const wane_signals *signals) {
    double value = wane__machine_value(m, signals);
    if (isnan(value)) {
        m->known = 0;
        return WANE__SEES_NOTHING;
    }
    double jerk = m->known == 3 ? wane__jerk(value, m->last) : 0;
    m->last[2] = m->last[1];
    m->last[1] = m->last[0];
    m->last[0] = value;
    m->known += m->known < 3;
    return wane__sight_of(value, jerk, (double)signals->spread, &m->limits);
}

struct wane__command wane__machine_step(struct wane__machine *m, int index, const wane_signals *signals) {
    struct wane__command command = {.from = index};
    enum wane__sight sight = see(m, signals);
    int before = m->state == WANE_STATE_LOCKED && m->left == 0 ? WANE_STATE_NORMAL : m->state;
    m->state = wane__state_after(before, sight);
    command.state = m->state;
    if (m->state == WANE_STATE_LOCKED && sight != WANE__SEES_HIGH) {
        m->left--; /* the command that locked holds on */
        return command;
    }
    m->left = 0;
    command.count = 1;
    command.temperature = m->temperature[m->state];
    command.top_p_off = top_p_off[m->state];
    if (m->state == WANE_STATE_LOCKED) {
        command.count = m->locked_tokens;
        m->left = m->locked_tokens - 1;
    } else if (m->state == WANE_STATE_NORMAL) {
        command.temperature = m->fallback;
        command.count = sight == WANE__SEES_NOTHING && m->fallback > 0;
    }
    return command;
}

void wane__machine_skip(struct wane__machine *m) {
    m->known = 0;
    m->left = 0;
    m->state = WANE_STATE_NORMAL;
}

bool wane__steering_take(struct wane__steering *steering, const struct wane__command *command, int next) {
    if (command->count == 0) return true;
    if (command->from + command->count <= next) return false;
    steering->command = *command;
    return true;
}

const struct wane__command *wane__steering_at(const struct wane__steering *steering, int index) {
    const struct wane__command *c = &steering->command;
    return index >= c->from && index - c->from < c->count ? c : NULL;
}
