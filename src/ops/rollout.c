/*
 * rollout.c - sides, bars and steps; see rollout.h.
 *
 * Owns the rules. Refuses to step back on what may be chance, and to step forward on what was not seen.
 */
#include "ops/rollout.h"

#include "core/error.h"
#include "core/figures.h"
#include "core/fraction.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const wane__bar_names[WANE__BARS] = {"hit_rate", "divergence", "consistency", "consistency_drop"};
const char *const wane__phase_names[WANE__PHASES] = {"planned", "running", "back", "done", "aborted"};

static const char *const action_names[WANE_ROLLOUT_ACTIONS] = {"start", "advance", "back", "abort"};

const char *wane_rollout_action_name(int action) {
    return action >= 0 && action < WANE_ROLLOUT_ACTIONS ? action_names[action] : "?";
}

int wane_rollout_action_from(const char *name) {
    for (int i = 0; i < WANE_ROLLOUT_ACTIONS; i++)
        if (name != NULL && strcmp(action_names[i], name) == 0) return i;
    return -1;
}

void wane__evidence_add(struct wane__evidence *sum, const struct wane__evidence *more) {
    for (int side = 0; side < 2; side++) {
        sum->requests[side] += more->requests[side];
        sum->repeats[side] += more->repeats[side];
        sum->score[side] += more->score[side];
        sum->square[side] += more->square[side];
    }
    sum->tries += more->tries;
    sum->hits += more->hits;
    sum->checks += more->checks;
    sum->divergences += more->divergences;
}

/* ------------------------------------------------------------------ whose request has it */

static bool given(const char *text) {
    return text != NULL && text[0] != '\0';
}

/* This never changes: users would change sides. docs/rollout.md spells it out, and a test holds its values. */
double wane__rollout_fraction(int feature, const char *salt, const struct wane__subject *subject,
                              bool request) {
    const char *kind = "request:", *name = subject->request;
    if (!request && given(subject->user)) {
        kind = "user:";
        name = subject->user;
    } else if (!request && given(subject->key)) {
        kind = "key:";
        name = subject->key;
    }
    return wane__fraction(wane_feature_name(feature), salt, kind, name != NULL ? name : "");
}

static bool has_line(const struct wane__stage *stage, const char *line) {
    for (int i = 0; i < stage->line_count; i++)
        if (strcmp(stage->line[i], line) == 0) return true;
    return false;
}

/* Who has it in one stage keeps it in those behind; but for a share of requests, which is of nobody in particular. */
bool wane__rollout_reaches(const struct wane__plan *plan, int feature, int stage,
                           const struct wane__subject *subject) {
    const struct wane__plan_feature *own = &plan->feature[feature];
    for (int i = 0; i <= stage && i < own->stage_count; i++) {
        const struct wane__stage *at = &own->stage[i];
        if (at->kind == WANE__STAGE_ALL) return true;
        if (at->kind == WANE__STAGE_LINES && given(subject->line) && has_line(at, subject->line)) return true;
        if (at->kind == WANE__STAGE_USERS &&
            wane__rollout_fraction(feature, plan->salt, subject, false) < at->share)
            return true;
        if (at->kind == WANE__STAGE_SHARE && i == stage &&
            wane__rollout_fraction(feature, plan->salt, subject, true) < at->share)
            return true;
    }
    return false;
}

unsigned wane__rollout_listed(const struct wane__plan *plan) {
    unsigned listed = 0;
    for (int i = 0; i < WANE_FEATURES; i++) listed |= plan->feature[i].stage_count > 0 ? 1u << i : 0;
    return listed;
}

unsigned wane__rollout_side(const struct wane__rollout_book *book, const struct wane__subject *subject) {
    unsigned on = 0;
    for (int i = 0; i < WANE_FEATURES; i++) {
        const struct wane__plan *plan = &book->plan;
        if (plan->feature[i].stage_count > 0 &&
            wane__rollout_reaches(plan, i, book->state.feature[i].stage, subject))
            on |= 1u << i;
    }
    return on;
}

/* ------------------------------------------------------------------ bars */

/* `right` of `all` against a bar that it must reach, or (`most`) must not pass. */
static struct wane__measure measure_share(double right, double all, double bar, bool most) {
    struct wane__measure m = {(double)NAN, (double)NAN, (double)NAN, WANE__BAR_UNKNOWN};
    if (!(all > 0)) return m;
    m.value = right / all;
    wane__share_bounds(right, all, WANE__ROLLOUT_SIGMAS, &m.low, &m.high);
    if (most)
        m.verdict = m.low > bar ? WANE__BAR_BROKEN : m.value <= bar ? WANE__BAR_HOLDS : WANE__BAR_SHORT;
    else
        m.verdict = m.high < bar ? WANE__BAR_BROKEN : m.value >= bar ? WANE__BAR_HOLDS : WANE__BAR_SHORT;
    return m;
}

/* Mean of a side's scores, and the square of its standard error; false when there are too few. */
static bool score_of(const struct wane__evidence *seen, int side, double *mean, double *error) {
    double n = (double)seen->repeats[side];
    if (seen->repeats[side] < WANE__REPEATS_LEAST) return false;
    *mean = seen->score[side] / n;
    double variance = (seen->square[side] - n * *mean * *mean) / (n - 1);
    *error = variance > 0 ? variance / n : 0;
    return true;
}

static struct wane__measure measure_score(const struct wane__evidence *seen, double bar, bool drop) {
    struct wane__measure m = {(double)NAN, (double)NAN, (double)NAN, WANE__BAR_UNKNOWN};
    double mean, error, other, other_error;
    if (!score_of(seen, 1, &mean, &error)) return m;
    m.value = mean;
    if (drop) {
        if (!score_of(seen, 0, &other, &other_error)) {
            m.value = (double)NAN;
            return m;
        }
        m.value = other - mean;
        error += other_error;
    }
    double half = WANE__ROLLOUT_SIGMAS * sqrt(error);
    m.low = m.value - half;
    m.high = m.value + half;
    if (drop)
        m.verdict = m.low > bar ? WANE__BAR_BROKEN : m.value <= bar ? WANE__BAR_HOLDS : WANE__BAR_SHORT;
    else
        m.verdict = m.high < bar ? WANE__BAR_BROKEN : m.value >= bar ? WANE__BAR_HOLDS : WANE__BAR_SHORT;
    return m;
}

struct wane__measure wane__rollout_measure(const struct wane__plan_feature *plan, enum wane__bar bar,
                                           const struct wane__evidence *seen, bool compared) {
    double limit = plan->bar[bar];
    struct wane__measure m;
    switch (bar) {
    case WANE__BAR_HIT_RATE: m = measure_share((double)seen->hits, (double)seen->tries, limit, false); break;
    case WANE__BAR_DIVERGENCE:
        m = measure_share((double)seen->divergences, (double)seen->checks, limit, true);
        if (!compared) m.verdict = WANE__BAR_NONE;
        break;
    case WANE__BAR_CONSISTENCY: m = measure_score(seen, limit, false); break;
    default: m = measure_score(seen, limit, true); break;
    }
    if (isnan(limit)) m.verdict = WANE__BAR_NONE;
    return m;
}

/* The first bar that is broken, in words. Bounds of what is recent are as good as those of all: a fault may have just begun. */
static bool broken(const struct wane__rollout_book *book, int feature, const struct wane__evidence *recent,
                   char *why, size_t size) {
    const struct wane__plan_feature *plan = &book->plan.feature[feature];
    const struct wane__evidence *all[] = {&book->state.feature[feature].seen, recent};
    bool compared = (book->state.compared & 1u << feature) != 0;
    for (int bar = 0; bar < WANE__BARS; bar++) {
        for (int i = 0; i < 2; i++) {
            struct wane__measure m = wane__rollout_measure(plan, (enum wane__bar)bar, all[i], compared);
            if (m.verdict != WANE__BAR_BROKEN) continue;
            snprintf(why, size, "%s is %.4g (%.4g to %.4g); the bar is %.4g", wane__bar_names[bar], m.value,
                     m.low, m.high, plan->bar[bar]);
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ steps */

static void enter(struct wane__progress *p, enum wane__phase phase, int stage, int64_t date,
                  const char *why) {
    p->phase = phase;
    p->stage = stage;
    p->held = 0;
    p->seen = (struct wane__evidence){0};
    p->at = date > 0 ? date : 0;
    snprintf(p->why, sizeof p->why, "%s", why);
    /* It goes into a header, a log and JSON. */
    for (char *at = p->why; *at != '\0'; at++)
        if (*at < 0x20 || *at > 0x7e) *at = *at < 0x20 && *at > 0 ? ' ' : '?';
}

static void step_forward(struct wane__rollout_book *book, int feature, int64_t date, const char *why) {
    struct wane__progress *p = &book->state.feature[feature];
    int last = book->plan.feature[feature].stage_count - 1;
    p->forward++;
    if (p->stage < last)
        enter(p, WANE__PHASE_RUNNING, p->stage + 1, date, why);
    else
        enter(p, WANE__PHASE_DONE, last, date, why);
}

static void fall_back(struct wane__rollout_book *book, int feature, int64_t date, const char *why) {
    struct wane__progress *p = &book->state.feature[feature];
    p->backward++;
    enter(p, WANE__PHASE_BACK, p->stage > 0 ? p->stage - 1 : -1, date, why);
}

bool wane__rollout_step_back(struct wane__rollout_book *book, int feature, int64_t date, const char *why) {
    struct wane__progress *p = &book->state.feature[feature];
    if (book->plan.feature[feature].stage_count == 0 || p->stage < 0) return false;
    p->backs++;
    fall_back(book, feature, date, why);
    if (book->plan.backs == 0 || p->backs < book->plan.backs) return true;
    char text[sizeof p->why];
    snprintf(text, sizeof text, "step back %d of %d: %.160s", p->backs, book->plan.backs, why);
    enter(p, WANE__PHASE_ABORTED, -1, date, text);
    return true;
}

void wane__rollout_waits(const struct wane__rollout_book *book, int feature, char *out, size_t size) {
    const struct wane__plan_feature *plan = &book->plan.feature[feature];
    const struct wane__progress *p = &book->state.feature[feature];
    bool compared = (book->state.compared & 1u << feature) != 0;
    out[0] = '\0';
    if (p->phase == WANE__PHASE_BACK && book->plan.automatic && p->held < book->plan.wait)
        snprintf(out, size, "%.0f of %.0f s of waiting are over", p->held, book->plan.wait);
    else if (p->phase == WANE__PHASE_BACK && !book->plan.automatic)
        snprintf(out, size, "steps forward are taken by hand");
    if (p->phase != WANE__PHASE_RUNNING) return;
    const struct wane__stage *stage = &plan->stage[p->stage];
    if (p->held < stage->hold) {
        snprintf(out, size, "%.0f of %.0f s have passed", p->held, stage->hold);
        return;
    }
    if (p->seen.requests[1] < stage->requests) {
        snprintf(out, size, "%llu of %llu requests were made with it",
                 (unsigned long long)p->seen.requests[1], (unsigned long long)stage->requests);
        return;
    }
    for (int bar = 0; bar < WANE__BARS; bar++) {
        struct wane__measure m = wane__rollout_measure(plan, (enum wane__bar)bar, &p->seen, compared);
        bool rare =
            bar == WANE__BAR_CONSISTENCY || bar == WANE__BAR_DROP; /* few dialogues repeat themselves */
        if (m.verdict == WANE__BAR_NONE || m.verdict == WANE__BAR_HOLDS ||
            (m.verdict == WANE__BAR_UNKNOWN && rare))
            continue;
        if (m.verdict == WANE__BAR_UNKNOWN)
            snprintf(out, size, "%s is not known yet: nothing of it was seen", wane__bar_names[bar]);
        else
            snprintf(out, size, "%s is %.4g; the bar is %.4g", wane__bar_names[bar], m.value, plan->bar[bar]);
        return;
    }
    if (!book->plan.automatic) snprintf(out, size, "steps forward are taken by hand");
}

/* Seconds to count: what the date says, but nothing negative, and no more than has really passed. */
static double time_between(int64_t before, const struct wane__moment *now) {
    double seconds = before > 0 ? (double)(now->date - before) / 1000 : 0;
    if (!(seconds > 0)) return 0;
    return seconds < now->passed ? seconds : now->passed;
}

/* Of these, the ones in the stage that it is in: somebody may have put it there since. */
static double time_within(const struct wane__progress *p, int64_t before, int64_t now, double passed) {
    if (p->at <= before || p->at > now) return passed;
    double seconds = (double)(now - p->at) / 1000;
    return seconds < passed ? seconds : passed;
}

/* One feature's turn. True: it took a step. */
static bool turn(struct wane__rollout_book *book, int feature, const struct wane__evidence *recent,
                 int64_t date) {
    struct wane__progress *p = &book->state.feature[feature];
    char why[sizeof p->why];
    if (p->stage >= 0 && broken(book, feature, recent, why, sizeof why))
        return wane__rollout_step_back(book, feature, date, why);
    if (p->phase != WANE__PHASE_RUNNING && p->phase != WANE__PHASE_BACK) return false;
    wane__rollout_waits(book, feature, why, sizeof why);
    if (why[0] != '\0') return false;
    if (p->phase == WANE__PHASE_RUNNING)
        step_forward(book, feature, date, "its time has passed, and its bars hold");
    else
        enter(p, WANE__PHASE_RUNNING, p->stage < 0 ? 0 : p->stage, date, "tried again after waiting");
    return true;
}

unsigned wane__rollout_turn(struct wane__rollout_book *book, const struct wane__evidence *recent,
                            const struct wane__moment *moment) {
    unsigned changed = 0;
    int64_t before = book->state.seen_at;
    double passed = time_between(before, moment);
    book->state.seen_at = moment->date > 0 ? moment->date : 0;
    for (int i = 0; i < WANE_FEATURES; i++) {
        struct wane__progress *p = &book->state.feature[i];
        if (book->plan.feature[i].stage_count == 0) continue;
        if (p->phase == WANE__PHASE_RUNNING || p->phase == WANE__PHASE_BACK || p->phase == WANE__PHASE_DONE)
            p->held += time_within(p, before, moment->date, passed);
        if (turn(book, i, &recent[i], moment->date)) changed |= 1u << i;
    }
    return changed;
}

/* ------------------------------------------------------------------ a person's */

/* Why it cannot be done; NULL: it was done. */
static const char *act(struct wane__rollout_book *book, int action, int feature, int64_t date) {
    static const char by_hand[] = "by hand";
    struct wane__progress *p = &book->state.feature[feature];
    switch (action) {
    case WANE_ROLLOUT_START:
        if (p->phase == WANE__PHASE_RUNNING || p->phase == WANE__PHASE_DONE)
            return "it was started already; abort it first to begin anew";
        p->forward++;
        p->backs = 0;
        enter(p, WANE__PHASE_RUNNING, 0, date, by_hand);
        return NULL;
    case WANE_ROLLOUT_ADVANCE:
        if (p->phase == WANE__PHASE_PLANNED) return "it was not started";
        if (p->phase == WANE__PHASE_ABORTED) return "it was aborted; start it anew";
        if (p->phase == WANE__PHASE_DONE) return "it is done";
        step_forward(book, feature, date, by_hand);
        return NULL;
    case WANE_ROLLOUT_BACK:
        if (p->stage < 0) return "nobody has it";
        fall_back(book, feature, date, by_hand);
        return NULL;
    default:
        if (p->phase == WANE__PHASE_ABORTED) return "it was aborted already";
        p->backward++;
        enter(p, WANE__PHASE_ABORTED, -1, date, by_hand);
        return NULL;
    }
}

int wane__rollout_act(struct wane__rollout_book *book, int action, int feature, int64_t date,
                      unsigned *changed, wane_error *error) {
    const char *why = "the plan names no feature";
    *changed = 0;
    if (action < 0 || action >= WANE_ROLLOUT_ACTIONS || feature < -1 || feature >= WANE_FEATURES)
        return wane__fail(error, WANE_EINVAL,
                          "There is no such thing to do to a rollout, or no such feature.");
    for (int i = 0; i < WANE_FEATURES; i++) {
        if ((feature >= 0 && feature != i) || book->plan.feature[i].stage_count == 0) continue;
        why = act(book, action, i, date);
        if (why == NULL) *changed |= 1u << i;
    }
    if (*changed != 0) return WANE_OK;
    if (feature >= 0 && book->plan.feature[feature].stage_count == 0) why = "the plan does not name it";
    static const char *const verbs[WANE_ROLLOUT_ACTIONS] = {"start", "advance", "step back", "be aborted"};
    return wane__fail(error, WANE_EINVAL, "The rollout of %s cannot %s: %s.",
                      feature >= 0 ? wane_feature_name(feature) : "any feature", verbs[action], why);
}
