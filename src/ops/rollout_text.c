/*
 * rollout_text.c - a rollout as text: for its file, every field; for people and programs that look at it, what it means.
 *
 * Owns the names of fields, together with rollout_plan.c, which reads them. What one writes the other reads, bit for bit.
 */
#include "core/memory.h"
#include "ops/rollout.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static json_t *known(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *count(uint64_t value) {
    return json_integer((json_int_t)value);
}

/* jansson's text, in memory of ours. */
static char *text_of(json_t *root, size_t flags) {
    char *text = root != NULL ? json_dumps(root, flags) : NULL;
    char *own = wane__copy_string(text);
    free(text);
    json_decref(root);
    return own;
}

static json_t *stage_json(const struct wane__stage *stage, bool whole) {
    json_t *object = json_object();
    if (stage->kind == WANE__STAGE_SHARE) json_object_set_new(object, "share", json_real(stage->share));
    if (stage->kind == WANE__STAGE_USERS) json_object_set_new(object, "users", json_real(stage->share));
    if (stage->kind == WANE__STAGE_ALL) json_object_set_new(object, "all", json_true());
    if (stage->kind == WANE__STAGE_LINES) {
        json_t *lines = json_array();
        for (int i = 0; i < stage->line_count; i++) json_array_append_new(lines, json_string(stage->line[i]));
        json_object_set_new(object, "lines", lines);
    }
    if (!whole) return object;
    json_object_set_new(object, "hold", json_real(stage->hold));
    json_object_set_new(object, "requests", count(stage->requests));
    return object;
}

static json_t *plan_json(const struct wane__plan *plan) {
    json_t *features = json_object();
    for (int i = 0; i < WANE_FEATURES; i++) {
        const struct wane__plan_feature *f = &plan->feature[i];
        if (f->stage_count == 0) continue;
        json_t *stages = json_array(), *bars = json_object();
        for (int s = 0; s < f->stage_count; s++)
            json_array_append_new(stages, stage_json(&f->stage[s], true));
        for (int b = 0; b < WANE__BARS; b++) json_object_set_new(bars, wane__bar_names[b], known(f->bar[b]));
        json_object_set_new(features, wane_feature_name(i),
                            json_pack("{s:o, s:o}", "stages", stages, "bars", bars));
    }
    return json_pack("{s:b, s:f, s:f, s:i, s:s, s:o}", "auto", plan->automatic, "wait", plan->wait, "window",
                     plan->window, "backs", plan->backs, "salt", plan->salt, "features", features);
}

static json_t *evidence_json(const struct wane__evidence *e) {
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:f, s:f, s:f, s:f}", "requests_off",
                     count(e->requests[0]), "requests_on", count(e->requests[1]), "tries", count(e->tries),
                     "hits", count(e->hits), "checks", count(e->checks), "divergences", count(e->divergences),
                     "repeats_off", count(e->repeats[0]), "repeats_on", count(e->repeats[1]), "score_off",
                     e->score[0], "score_on", e->score[1], "square_off", e->square[0], "square_on",
                     e->square[1]);
}

static json_t *progress_json(const struct wane__progress *p) {
    return json_pack("{s:s, s:i, s:f, s:o, s:o, s:i, s:I, s:s, s:o}", "phase", wane__phase_names[p->phase],
                     "stage", p->stage + 1, "held", p->held, "forward", count(p->forward), "backward",
                     count(p->backward), "backs", p->backs, "at", (json_int_t)p->at, "why", p->why, "seen",
                     evidence_json(&p->seen));
}

char *wane__rollout_text(const struct wane__rollout_book *book) {
    json_t *features = json_object();
    for (int i = 0; i < WANE_FEATURES; i++)
        if (book->plan.feature[i].stage_count > 0)
            json_object_set_new(features, wane_feature_name(i), progress_json(&book->state.feature[i]));
    json_t *state = json_pack("{s:o, s:I, s:i, s:o}", "revision", count(book->state.revision), "seen",
                              (json_int_t)book->state.seen_at, "compared", (int)book->state.compared,
                              "features", features);
    return text_of(json_pack("{s:i, s:o, s:o}", "wane_rollout", 1, "plan", plan_json(&book->plan), "state",
                             state),
                   JSON_INDENT(1));
}

/* ------------------------------------------------------------------ shown */

static json_t *bars_json(const struct wane__rollout_book *book, int feature) {
    static const char *const verdicts[] = {"none", "unknown", "holds", "short", "broken"};
    const struct wane__plan_feature *plan = &book->plan.feature[feature];
    json_t *bars = json_object();
    for (int b = 0; b < WANE__BARS; b++) {
        struct wane__measure m =
            wane__rollout_measure(plan, (enum wane__bar)b, &book->state.feature[feature].seen,
                                  (book->state.compared & 1u << feature) != 0);
        json_object_set_new(bars, wane__bar_names[b],
                            json_pack("{s:o, s:o, s:o, s:o, s:s}", "value", known(m.value), "low",
                                      known(m.low), "high", known(m.high), "bar", known(plan->bar[b]),
                                      "verdict", verdicts[m.verdict]));
    }
    return bars;
}

static json_t *feature_json(const struct wane__rollout_book *book, int feature) {
    const struct wane__plan_feature *plan = &book->plan.feature[feature];
    const struct wane__progress *p = &book->state.feature[feature];
    const struct wane__stage *stage = p->stage >= 0 ? &plan->stage[p->stage] : NULL;
    json_t *stages = json_array();
    char waits[200];
    for (int s = 0; s < plan->stage_count; s++)
        json_array_append_new(stages, stage_json(&plan->stage[s], false));
    wane__rollout_waits(book, feature, waits, sizeof waits);
    return json_pack("{s:s, s:i, s:o, s:f, s:o, s:o, s:o, s:o, s:o, s:I, s:s, s:s, s:o}", "phase",
                     wane__phase_names[p->phase], "stage", p->stage + 1, "stages", stages, "held", p->held,
                     "hold", stage != NULL ? json_real(stage->hold) : json_null(), "requests_on",
                     count(p->seen.requests[1]), "requests",
                     stage != NULL ? count(stage->requests) : json_null(), "forward", count(p->forward),
                     "backward", count(p->backward), "at", (json_int_t)p->at, "why", p->why, "waits", waits,
                     "bars", bars_json(book, feature));
}

char *wane__rollout_shown(const struct wane__rollout_book *book) {
    json_t *features = json_object();
    for (int i = 0; i < WANE_FEATURES; i++)
        if (book->plan.feature[i].stage_count > 0)
            json_object_set_new(features, wane_feature_name(i), feature_json(book, i));
    return text_of(json_pack("{s:b, s:o, s:o}", "auto", book->plan.automatic, "revision",
                             count(book->state.revision), "features", features),
                   JSON_COMPACT);
}
