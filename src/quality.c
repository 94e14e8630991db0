/* quality.c - what may change an answer: defaults and range checks of the public wane_quality. Refuses to apply any of it. */
#include "core/error.h"
#include "wane.h"

#include <string.h>

static const char *const mode_names[] = {"off", "legacy", "wane"};
static const char *const fuse_names[WANE_FUSES] = {"off", "loop", "plain"};
static const char *const fallback_names[WANE_FALLBACKS] = {"conservative", "transparent", "none"};

const char *wane_mode_name(int mode) {
    return mode >= WANE_MODE_OFF && mode <= WANE_MODE_WANE ? mode_names[mode] : "?";
}

static int find_name(const char *const *names, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) return i;
    return -1;
}

int wane_mode_from(const char *name) {
    return find_name(mode_names, WANE_MODE_WANE + 1, name);
}

const char *wane_fuse_name(int fuse) {
    return fuse >= 0 && fuse < WANE_FUSES ? fuse_names[fuse] : "?";
}

int wane_fuse_from(const char *name) {
    return find_name(fuse_names, WANE_FUSES, name);
}

const char *wane_fallback_name(int fallback) {
    return fallback >= 0 && fallback < WANE_FALLBACKS ? fallback_names[fallback] : "?";
}

int wane_fallback_from(const char *name) {
    return find_name(fallback_names, WANE_FALLBACKS, name);
}

void wane_quality_init(wane_quality *quality) {
    *quality = (wane_quality){
        .size = sizeof *quality,
        .clamp = 50,
        .dialogue_slope = 0.1f,
        .dialogue_scale = 1024,
        .dialogue_floor = 0.6f,
        .token_vote = true,
        .rules = true,
        .hold = 0.05f,
        .answers = 3,
        .odds_base = 0.62f,
        .odds_entropy = 0.18f,
        .odds_documents = 0.15f,
        .documents = 3,
        .doubt_budget = 8,
        .doubt_allowance = -1,
        .doubt_votes = 3,
        .revival_after = 1024,
        .revival_top = 0.35f,
        .forced_above = 1.3f,
        .forced_every = 5,
        .breaker_wakes = 50,
        .breaker_seconds = 300,
        .breaker_temperature = 1.2f,
        .governor = false,
        .stability = 1,
        .fuse = WANE_FUSE_LOOP,
        .fuse_window = 5,
        .fuse_limit = 0.03f,
        .fallback = WANE_FALLBACK_CONSERVATIVE,
    };
}

struct range {
    const char *name;
    double value, low, high;
};

int wane_quality_check(const wane_quality *q, wane_error *error) {
    if (q == NULL || q->size != sizeof *q)
        return wane__fail(error, WANE_EINVAL, "The quality options were not set up by wane_quality_init.");
    const struct range ranges[] = {
        {"mode", q->mode, WANE_MODE_OFF, WANE_MODE_WANE},
        {"clamp", q->clamp, 0, 256},
        {"dialogue_slope", q->dialogue_slope, 0, 1},
        {"dialogue_scale", q->dialogue_scale, 1, 1 << 24},
        {"dialogue_floor", q->dialogue_floor, 0, 1},
        {"hold", q->hold, 0, 1},
        {"answers", q->answers, 1, 3},
        {"odds_base", q->odds_base, -10, 10},
        {"odds_entropy", q->odds_entropy, 0, 10},
        {"odds_documents", q->odds_documents, 0, 10},
        {"documents", q->documents, 0, 1 << 20},
        {"doubt_budget", q->doubt_budget, 0, 1 << 24},
        {"doubt_allowance", q->doubt_allowance, -1, 1},
        {"doubt_votes", q->doubt_votes, 0, 8},
        {"revival_after", q->revival_after, 0, 1 << 24},
        {"revival_top", q->revival_top, 0, 1},
        {"forced_above", q->forced_above, 0, 100},
        {"forced_every", q->forced_every, 0, 1 << 24},
        {"breaker_wakes", q->breaker_wakes, 0, 1 << 24},
        {"breaker_seconds", q->breaker_seconds, 1, 86400},
        {"breaker_temperature", q->breaker_temperature, 0, 100},
        {"profile", q->profile, 0, WANE_PROFILES_MOST},
        {"stability", q->stability, 0.01f, 100},
        {"fuse", q->fuse, WANE_FUSE_OFF, WANE_FUSES - 1},
        {"fuse_window", q->fuse_window, 2, 64},
        {"fuse_limit", q->fuse_limit, 0, 10},
        {"fallback", q->fallback, WANE_FALLBACK_CONSERVATIVE, WANE_FALLBACKS - 1},
        {"consistency", q->consistency, 0, 1},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        const struct range *r = &ranges[i];
        if (!(r->value >= r->low && r->value <= r->high)) /* NaN is not */
            return wane__fail(error, WANE_EINVAL, "%s is %g; it must be between %g and %g.", r->name,
                              r->value, r->low, r->high);
    }
    if (q->answers == 2)
        return wane__fail(error, WANE_EINVAL,
                          "answers is 2; two cannot outvote each other: it must be 1 or 3.");
    return WANE_OK;
}
