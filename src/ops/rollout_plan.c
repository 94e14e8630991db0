/*
 * rollout_plan.c - from texts and settings to plans and states: every field's name, type and range is checked.
 *
 * Owns the defaults. Refuses what it does not know, so that a bar whose name has a slip is not a rollout without that bar.
 */
#include "core/error.h"
#include "core/memory.h"
#include "ops/rollout.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MOST    ((size_t)1 << 20)
#define SECONDS_MOST 31536000.0
#define COUNT_MOST   9e15 /* whole numbers up to here are exact in JSON's readers */

/* Shortcuts that answer nearly always when they answer well; of the others a low rate is no fault. */
static const double hit_rates[WANE_FEATURES] = {0.85, 0.85, (double)NAN, (double)NAN, 0.85, (double)NAN};
#define DIVERGENCE 1e-5
#define DROP       0.1

struct reader {
    wane_error *error;
    char where[200];
};

static bool refuse(struct reader *r, const char *name, const char *allowed) {
    wane__fail(r->error, WANE_EFORMAT, "The rollout's plan or state: %s%s%s must be %s.", r->where,
               r->where[0] != '\0' && name[0] != '\0' ? "." : "", name, allowed);
    return false;
}

/* Only fields that are named here; `names` ends with NULL. */
static bool only(struct reader *r, const json_t *object, const char *what, const char *const *names) {
    const char *key;
    json_t *value;
    if (!json_is_object(object)) return refuse(r, "", what);
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        int i = 0;
        while (names[i] != NULL && strcmp(names[i], key) != 0) i++;
        if (names[i] != NULL) continue;
        wane__fail(r->error, WANE_EFORMAT, "The rollout's plan or state: %s%s%.60s: there is no such field.",
                   r->where, r->where[0] != '\0' ? "." : "", key);
        return false;
    }
    return true;
}

/* A number in its range; one that is not there stays as it is. `none`: null stands for NAN. */
static bool number(struct reader *r, const json_t *object, const char *name, double low, double high,
                   bool none, double *out) {
    const json_t *value = json_object_get(object, name);
    char allowed[100];
    if (value == NULL) return true;
    if (none && json_is_null(value)) {
        *out = (double)NAN;
        return true;
    }
    double given = json_is_number(value) ? json_number_value(value) : (double)NAN;
    if (given >= low && given <= high) {
        *out = given;
        return true;
    }
    snprintf(allowed, sizeof allowed, "a number from %g to %g%s", low, high, none ? ", or null" : "");
    return refuse(r, name, allowed);
}

static bool whole(struct reader *r, const json_t *object, const char *name, double high, uint64_t *out) {
    const json_t *value = json_object_get(object, name);
    char allowed[100];
    if (value == NULL) return true;
    if (json_is_integer(value) && json_integer_value(value) >= 0 &&
        (double)json_integer_value(value) <= high) {
        *out = (uint64_t)json_integer_value(value);
        return true;
    }
    snprintf(allowed, sizeof allowed, "a whole number from 0 to %.0f", high);
    return refuse(r, name, allowed);
}

static bool truth(struct reader *r, const json_t *object, const char *name, bool *out) {
    const json_t *value = json_object_get(object, name);
    if (value == NULL) return true;
    if (!json_is_boolean(value)) return refuse(r, name, "true or false");
    *out = json_is_true(value);
    return true;
}

/* Visible characters, blanks among them: what a header can carry, and UTF-8. */
static bool is_plain(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) return false;
    return true;
}

static bool word(struct reader *r, const json_t *value, const char *name, size_t room, bool empty,
                 char *out) {
    char allowed[100];
    size_t size = json_string_length(value);
    if (json_is_string(value) && size < room && (size > 0 || empty) &&
        is_plain(json_string_value(value), size)) {
        snprintf(out, room, "%s", json_string_value(value));
        return true;
    }
    snprintf(allowed, sizeof allowed, "a text of %s%zu bytes without control characters",
             empty ? "at most " : "1 to ", room - 1);
    return refuse(r, name, allowed);
}

/* ------------------------------------------------------------------ plan */

static bool read_lines(struct reader *r, const json_t *lines, struct wane__stage *stage) {
    size_t count = json_array_size(lines);
    if (!json_is_array(lines) || count == 0 || count > WANE__LINES_MOST)
        return refuse(r, "lines", "an array of 1 to 8 names of lines of business");
    stage->kind = WANE__STAGE_LINES;
    stage->line_count = (int)count;
    for (size_t i = 0; i < count; i++)
        if (!word(r, json_array_get(lines, i), "lines", WANE__LINE_BYTES, false, stage->line[i]))
            return false;
    return true;
}

/* `stage` has the plan's hold and requests already. */
static bool read_stage(struct reader *r, const json_t *from, struct wane__stage *stage) {
    static const char *const names[] = {"share", "users", "lines", "all", "hold", "requests", NULL};
    if (!only(r, from, "an object", names)) return false;
    const json_t *share = json_object_get(from, "share"), *users = json_object_get(from, "users"),
                 *lines = json_object_get(from, "lines"), *all = json_object_get(from, "all");
    if ((share != NULL) + (users != NULL) + (lines != NULL) + (all != NULL) != 1)
        return refuse(r, "", "an object with one of share, users, lines and all");
    if (!number(r, from, "hold", 0, SECONDS_MOST, false, &stage->hold) ||
        !whole(r, from, "requests", COUNT_MOST, &stage->requests))
        return false;
    if (lines != NULL) return read_lines(r, lines, stage);
    stage->kind = all != NULL ? WANE__STAGE_ALL : users != NULL ? WANE__STAGE_USERS : WANE__STAGE_SHARE;
    if (all != NULL) return json_is_true(all) || refuse(r, "all", "true");
    return number(r, from, share != NULL ? "share" : "users", 1e-6, 1, false, &stage->share);
}

/* Whoever has it keeps it: shares of requests come first, shares of users rise, and nothing comes behind all. */
static bool check_order(struct reader *r, const struct wane__plan_feature *f) {
    double users = 0, share = 0;
    bool others = false;
    for (int i = 0; i < f->stage_count; i++) {
        const struct wane__stage *at = &f->stage[i];
        if (i > 0 && f->stage[i - 1].kind == WANE__STAGE_ALL)
            return refuse(r, "stages", "such that all is the last");
        if (at->kind == WANE__STAGE_SHARE && (others || at->share < share))
            return refuse(r, "stages", "such that shares of requests come first, and rise");
        if (at->kind == WANE__STAGE_USERS && at->share < users)
            return refuse(r, "stages", "such that shares of users rise: a user who has it keeps it");
        others = others || at->kind != WANE__STAGE_SHARE;
        if (at->kind == WANE__STAGE_USERS) users = at->share;
        if (at->kind == WANE__STAGE_SHARE) share = at->share;
    }
    return true;
}

static void usual_stages(const struct wane__stage *usual, struct wane__plan_feature *f) {
    static const struct {
        enum wane__stage_kind kind;
        double share;
    } list[] = {{WANE__STAGE_SHARE, 0.01},
                {WANE__STAGE_USERS, 0.05},
                {WANE__STAGE_USERS, 0.25},
                {WANE__STAGE_ALL, 0}};
    f->stage_count = 4;
    for (int i = 0; i < 4; i++) {
        f->stage[i] = *usual;
        f->stage[i].kind = list[i].kind;
        f->stage[i].share = list[i].share;
    }
}

static void usual_bars(int feature, struct wane__plan_feature *f) {
    f->bar[WANE__BAR_HIT_RATE] = hit_rates[feature];
    f->bar[WANE__BAR_DIVERGENCE] = DIVERGENCE;
    f->bar[WANE__BAR_CONSISTENCY] = (double)NAN;
    f->bar[WANE__BAR_DROP] = DROP;
}

static bool read_bars(struct reader *r, const json_t *bars, struct wane__plan_feature *f) {
    static const char *const names[] = {"hit_rate", "divergence", "consistency", "consistency_drop", NULL};
    if (bars == NULL) return true;
    if (!only(r, bars, "an object of bars", names)) return false;
    for (int i = 0; i < WANE__BARS; i++)
        if (!number(r, bars, names[i], 0, 1, true, &f->bar[i])) return false;
    return true;
}

static bool read_feature(struct reader *r, const json_t *from, int feature, const struct wane__stage *usual,
                         struct wane__plan_feature *f) {
    static const char *const names[] = {"stages", "bars", NULL};
    char where[sizeof r->where];
    snprintf(r->where, sizeof r->where, "features.%s", wane_feature_name(feature));
    snprintf(where, sizeof where, "%s", r->where);
    if (!only(r, from, "an object", names)) return false;
    const json_t *stages = json_object_get(from, "stages");
    size_t count = json_array_size(stages);
    usual_bars(feature, f);
    if (stages == NULL)
        usual_stages(usual, f);
    else if (!json_is_array(stages) || count == 0 || count > WANE__STAGES_MOST)
        return refuse(r, "stages", "an array of 1 to 16 stages");
    for (size_t i = 0; i < count; i++) {
        struct wane__stage *stage = &f->stage[f->stage_count++];
        *stage = *usual;
        snprintf(r->where, sizeof r->where, "features.%s.stages[%zu]", wane_feature_name(feature), i);
        if (!read_stage(r, json_array_get(stages, i), stage)) return false;
    }
    snprintf(r->where, sizeof r->where, "%s", where);
    if (!check_order(r, f)) return false;
    snprintf(r->where, sizeof r->where, "features.%s.bars", wane_feature_name(feature));
    return read_bars(r, json_object_get(from, "bars"), f);
}

static void usual_plan(struct wane__plan *plan) {
    memset(plan, 0, sizeof *plan);
    plan->automatic = true;
    plan->wait = plan->window = 3600;
    plan->backs = 3;
}

static bool read_plan(struct reader *r, const json_t *from, struct wane__plan *plan) {
    static const char *const names[] = {"auto",     "wait", "window",   "backs", "salt",
                                        "features", "hold", "requests", NULL};
    struct wane__stage usual = {.hold = 3600, .requests = 1000};
    uint64_t backs = 3;
    usual_plan(plan);
    snprintf(r->where, sizeof r->where, "%s", "");
    if (!only(r, from, "an object", names) || !truth(r, from, "auto", &plan->automatic) ||
        !number(r, from, "wait", 0, SECONDS_MOST, false, &plan->wait) ||
        !number(r, from, "window", 1, SECONDS_MOST, false, &plan->window) ||
        !whole(r, from, "backs", 1000, &backs) ||
        !number(r, from, "hold", 0, SECONDS_MOST, false, &usual.hold) ||
        !whole(r, from, "requests", COUNT_MOST, &usual.requests))
        return false;
    plan->backs = (int)backs;
    const json_t *salt = json_object_get(from, "salt"), *features = json_object_get(from, "features");
    if (salt != NULL && !word(r, salt, "salt", sizeof plan->salt, true, plan->salt)) return false;
    if (!json_is_object(features) || json_object_size(features) == 0)
        return refuse(r, "features", "an object that names at least one feature");
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)features, key, value) {
        int feature = wane_feature_from(key);
        snprintf(r->where, sizeof r->where, "features.%.40s", key);
        if (feature < 0) return refuse(r, "", "one of head, table, draft, memo, gate and governor");
        if (!read_feature(r, value, feature, &usual, &plan->feature[feature])) return false;
    }
    return true;
}

/* ------------------------------------------------------------------ state */

static bool read_evidence(struct reader *r, const json_t *from, struct wane__evidence *seen) {
    static const char *const names[] = {"requests_off", "requests_on", "tries",      "hits",      "checks",
                                        "divergences",  "repeats_off", "repeats_on", "score_off", "score_on",
                                        "square_off",   "square_on",   NULL};
    uint64_t *counts[] = {&seen->requests[0], &seen->requests[1], &seen->tries,      &seen->hits,
                          &seen->checks,      &seen->divergences, &seen->repeats[0], &seen->repeats[1]};
    double *sums[] = {&seen->score[0], &seen->score[1], &seen->square[0], &seen->square[1]};
    if (from == NULL) return true;
    if (!only(r, from, "an object", names)) return false;
    for (int i = 0; i < 8; i++)
        if (!whole(r, from, names[i], COUNT_MOST, counts[i])) return false;
    for (int i = 0; i < 4; i++)
        if (!number(r, from, names[8 + i], 0, (double)seen->repeats[i % 2], false, sums[i])) return false;
    return (seen->hits <= seen->tries || refuse(r, "hits", "at most tries")) &&
           (seen->divergences <= seen->checks || refuse(r, "divergences", "at most checks"));
}

static bool read_phase(struct reader *r, const json_t *from, int stages, struct wane__progress *p) {
    const json_t *phase = json_object_get(from, "phase");
    uint64_t stage = 0;
    int found = 0;
    while (found < WANE__PHASES &&
           !(json_is_string(phase) && strcmp(json_string_value(phase), wane__phase_names[found]) == 0))
        found++;
    if (found == WANE__PHASES) return refuse(r, "phase", "planned, running, back, done or aborted");
    if (!whole(r, from, "stage", stages, &stage)) return false;
    p->phase = (enum wane__phase)found;
    p->stage = (int)stage - 1;
    bool fits = p->phase == WANE__PHASE_RUNNING ? p->stage >= 0
                : p->phase == WANE__PHASE_BACK  ? p->stage < stages - 1
                : p->phase == WANE__PHASE_DONE  ? p->stage == stages - 1
                                                : p->stage == -1;
    return fits || refuse(r, "stage", "one that goes with the phase");
}

static bool read_progress(struct reader *r, const json_t *from, int stages, struct wane__progress *p) {
    static const char *const names[] = {"phase",    "stage", "held", "seen", "forward",
                                        "backward", "backs", "at",   "why",  NULL};
    uint64_t backs = 0, at = 0;
    if (!only(r, from, "an object", names)) return false;
    const json_t *why = json_object_get(from, "why");
    if (!read_phase(r, from, stages, p) || !number(r, from, "held", 0, COUNT_MOST, false, &p->held) ||
        !whole(r, from, "forward", COUNT_MOST, &p->forward) ||
        !whole(r, from, "backward", COUNT_MOST, &p->backward) || !whole(r, from, "backs", 1e6, &backs) ||
        !whole(r, from, "at", COUNT_MOST, &at) ||
        (why != NULL && !word(r, why, "why", sizeof p->why, true, p->why)))
        return false;
    p->backs = (int)backs;
    p->at = (int64_t)at;
    return read_evidence(r, json_object_get(from, "seen"), &p->seen);
}

static bool read_state(struct reader *r, const json_t *from, const struct wane__plan *plan,
                       struct wane__rollout_state *state) {
    static const char *const names[] = {"revision", "seen", "compared", "features", NULL};
    uint64_t seen = 0, compared = 0;
    snprintf(r->where, sizeof r->where, "state");
    if (from == NULL) return true;
    if (!only(r, from, "an object", names) || !whole(r, from, "revision", COUNT_MOST, &state->revision) ||
        !whole(r, from, "seen", COUNT_MOST, &seen) ||
        !whole(r, from, "compared", WANE_FEATURES_ALL, &compared))
        return false;
    state->seen_at = (int64_t)seen;
    state->compared = (unsigned)compared;
    const json_t *features = json_object_get(from, "features");
    const char *key;
    json_t *value;
    if (features != NULL && !json_is_object(features)) return refuse(r, "features", "an object");
    json_object_foreach((json_t *)(uintptr_t)features, key, value) {
        int feature = wane_feature_from(key);
        snprintf(r->where, sizeof r->where, "state.features.%.40s", key);
        if (feature < 0 || plan->feature[feature].stage_count == 0)
            return refuse(r, "", "a feature of the plan");
        if (!read_progress(r, value, plan->feature[feature].stage_count, &state->feature[feature]))
            return false;
    }
    return true;
}

static void nothing_begun(struct wane__rollout_state *state) {
    memset(state, 0, sizeof *state);
    for (int i = 0; i < WANE_FEATURES; i++) state->feature[i].stage = -1;
}

static bool read_book(struct reader *r, const json_t *root, struct wane__rollout_book *book) {
    static const char *const names[] = {"wane_rollout", "plan", "state", NULL};
    nothing_begun(&book->state);
    if (!json_is_object(root)) return refuse(r, "", "an object");
    const json_t *form = json_object_get(root, "wane_rollout");
    if (form == NULL) return read_plan(r, root, &book->plan);
    if (!json_is_integer(form) || json_integer_value(form) != 1)
        return refuse(r, "wane_rollout", "1, the form that this version knows");
    return only(r, root, "an object", names) && read_plan(r, json_object_get(root, "plan"), &book->plan) &&
           read_state(r, json_object_get(root, "state"), &book->plan, &book->state);
}

int wane__rollout_parse(const char *text, size_t size, struct wane__rollout_book *book, wane_error *error) {
    struct reader r = {.error = error};
    json_error_t fault;
    wane__clear(error);
    if (size > TEXT_MOST)
        return wane__fail(error, WANE_EFORMAT, "The rollout's plan or state is larger than %zu bytes.",
                          TEXT_MOST);
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &fault);
    if (root == NULL)
        return wane__fail(error, WANE_EFORMAT, "The rollout's plan or state is no JSON: line %d: %.200s.",
                          fault.line, fault.text);
    bool fine = read_book(&r, root, book);
    json_decref(root);
    return fine ? WANE_OK : WANE_EFORMAT;
}

static bool same_stage(const struct wane__stage *a, const struct wane__stage *b) {
    bool same = a->kind == b->kind && a->share == b->share && a->line_count == b->line_count &&
                a->hold == b->hold && a->requests == b->requests;
    for (int i = 0; same && i < a->line_count; i++) same = strcmp(a->line[i], b->line[i]) == 0;
    return same;
}

static bool same_feature(const struct wane__plan_feature *a, const struct wane__plan_feature *b) {
    bool same = a->stage_count == b->stage_count;
    for (int i = 0; same && i < a->stage_count; i++) same = same_stage(&a->stage[i], &b->stage[i]);
    for (int i = 0; same && i < WANE__BARS; i++)
        same = a->bar[i] == b->bar[i] || (isnan(a->bar[i]) && isnan(b->bar[i]));
    return same;
}

void wane__rollout_keep(const struct wane__rollout_book *before, struct wane__rollout_book *book) {
    bool salted = strcmp(before->plan.salt, book->plan.salt) != 0; /* others would be on its side */
    book->state.revision = before->state.revision;
    book->state.seen_at = before->state.seen_at;
    book->state.compared = before->state.compared;
    for (int i = 0; i < WANE_FEATURES; i++) {
        struct wane__progress *p = &book->state.feature[i];
        const struct wane__plan_feature *own = &book->plan.feature[i];
        if (own->stage_count > 0 && !salted && same_feature(&before->plan.feature[i], own))
            *p = before->state.feature[i];
        p->forward = before->state.feature[i].forward; /* counters never fall */
        p->backward = before->state.feature[i].backward;
    }
}

/* ------------------------------------------------------------------ settings */

void wane_rollout_wish_init(wane_rollout_wish *wish) {
    *wish = (wane_rollout_wish){.size = sizeof *wish,
                                .share = 0.01,
                                .hold = 3600,
                                .requests = 1000,
                                .hit_rate = -1,
                                .divergence = DIVERGENCE,
                                .consistency = (double)NAN,
                                .consistency_drop = DROP,
                                .wait = 3600};
}

static json_t *bar_json(double bar) {
    return isnan(bar) ? json_null() : json_real(bar);
}

/* A plan's text, so that settings are checked by what checks files. */
static json_t *stages_json(const wane_rollout_wish *w) {
    static const double usual[] = {0.05, 0.25};
    const double *users = w->users != NULL ? w->users : usual;
    size_t count = w->users != NULL ? w->user_count : 2;
    json_t *stages = json_array();
    if (w->share > 0) json_array_append_new(stages, json_pack("{s:f}", "share", w->share));
    for (size_t i = 0; i < count; i++) json_array_append_new(stages, json_pack("{s:f}", "users", users[i]));
    if (w->lines != NULL && w->line_count > 0) {
        json_t *lines = json_array();
        for (size_t i = 0; i < w->line_count; i++) json_array_append_new(lines, json_string(w->lines[i]));
        json_array_append_new(stages, json_pack("{s:o}", "lines", lines));
    }
    json_array_append_new(stages, json_pack("{s:b}", "all", 1));
    return stages;
}

static json_t *wish_json(const wane_rollout_wish *w) {
    json_t *features = json_object();
    for (int i = 0; i < WANE_FEATURES; i++) {
        if ((w->features & 1u << i) == 0) continue;
        json_t *bars = json_pack("{s:o, s:o, s:o}", "divergence", bar_json(w->divergence), "consistency",
                                 bar_json(w->consistency), "consistency_drop", bar_json(w->consistency_drop));
        if (!(w->hit_rate < 0)) json_object_set_new(bars, "hit_rate", bar_json(w->hit_rate));
        json_object_set_new(features, wane_feature_name(i),
                            json_pack("{s:o, s:o}", "stages", stages_json(w), "bars", bars));
    }
    return json_pack("{s:b, s:f, s:f, s:I, s:o}", "auto", !w->manual, "wait", w->wait, "hold", w->hold,
                     "requests", (json_int_t)w->requests, "features", features);
}

int wane__rollout_wish(const wane_rollout_wish *w, struct wane__plan *plan, wane_error *error) {
    wane__clear(error);
    if (w->size != sizeof *w)
        return wane__fail(error, WANE_EINVAL, "The rollout's wish was not set up by wane_rollout_wish_init.");
    if (w->features == 0 || (w->features & ~WANE_FEATURES_ALL) != 0)
        return wane__fail(error, WANE_EINVAL, "A rollout needs at least one feature.");
    if (w->user_count > 8 || w->line_count > WANE__LINES_MOST)
        return wane__fail(error, WANE_EINVAL,
                          "A rollout has at most 8 shares of users and 8 lines of business.");
    if (w->requests > (uint64_t)COUNT_MOST)
        return wane__fail(error, WANE_EINVAL, "A rollout's stage cannot wait for more than 9e15 requests.");
    json_t *root = wish_json(w);
    struct reader r = {.error = error};
    bool fine = root != NULL && read_plan(&r, root, plan);
    json_decref(root);
    if (fine) return WANE_OK;
    if (error != NULL && error->text[0] == '\0')
        wane__fail(error, WANE_ENOMEM, "No memory for a rollout's plan.");
    if (error != NULL) error->code = WANE_EINVAL;
    return WANE_EINVAL;
}
