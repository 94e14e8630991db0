/*
 * view.c - owns what is said of a token to who watches. Refuses to have any part in what is drawn: it looks when the draw is over,
 * and asks the row for no more than a few of its best.
 *
 * Which level decided is taken from the head's own counters, before and after: nothing is added to a scan.
 */
#include "view.h"

#include "core/clock.h"

#include <math.h>
#include <string.h>

/* As many as the head computes at once instead of refining them first (FEW in src/head/certified.c). */
enum { VIEW_FEW = 48 };

const char *wane_by_name(int by) {
    static const char *const names[WANE_BYS] = {"none",   "memo",   "draft", "table",
                                                "level1", "level2", "exact", "dense"};
    return by >= 0 && by < WANE_BYS ? names[by] : "?";
}

char wane_by_letter(int by) {
    return by >= 0 && by < WANE_BYS ? "-MDT12XF"[by] : '?';
}

int wane_event_by(const wane_event *event) {
    const wane_view *view = event->view;
    if (view == NULL) return WANE_BY_NOTHING;
    if (view->head == WANE_BY_MEMO) return WANE_BY_MEMO;
    if (event->drafted) return WANE_BY_DRAFT;
    return view->table >= WANE_VIEW_TABLE_RANK ? WANE_BY_TABLE : view->head;
}

static struct wane__head_counts counts_of(const struct wane__reply *reply) {
    struct wane__head_counts counts = {0};
    if (reply->rows->head != NULL) wane__head_get_counts(reply->rows->head, &counts);
    return counts;
}

void wane__view_open(struct wane__reply *reply) {
    reply->sight.before = counts_of(reply);
}

static int head_of(const struct wane__step *step, const struct wane__head_counts *before,
                   const struct wane__head_counts *after, const wane_view *view) {
    if (step->origin == WANE__ORIGIN_NONE) return WANE_BY_NOTHING;
    bool all = after->dense_many > before->dense_many || after->dense_sum > before->dense_sum;
    if (all || step->origin == WANE__ORIGIN_DENSE) return WANE_BY_DENSE;
    if (view->survivors1 <= VIEW_FEW) return WANE_BY_LEVEL1;
    return view->survivors2 <= VIEW_FEW ? WANE_BY_LEVEL2 : WANE_BY_EXACT;
}

static void see_work(const struct wane__reply *reply, wane_view *view) {
    struct wane__head_counts now = counts_of(reply);
    const struct wane__head_counts *before = &reply->sight.before;
    view->survivors1 = (uint32_t)(now.survivors1 - before->survivors1);
    view->survivors2 = (uint32_t)(now.survivors2 - before->survivors2);
    view->rescored = (uint32_t)(now.rescored - before->rescored);
    view->head = head_of(&reply->step, before, &now, view);
    if (view->head != WANE_BY_DENSE || reply->row.checked) return;
    /* Not a matter of survivors. */
    view->survivors1 = view->survivors2 = view->rescored = (uint32_t)view->vocab_size;
}

/*
 * The row's normaliser, cheaply: what a certified row guesses, within its bounds. To look must not cost a dense product, or who watches
 * would see another server than there is without him.
 */
static double likely_sum(struct wane__reply *reply, struct wane__source *source) {
    double low = NAN, high = NAN, guess = NAN;
    if (wane__sampler_log_sum(reply->sampler, source, false, &low, &high, NULL) != WANE_OK) return NAN;
    if (low == high || source->log_sum_guess == NULL) return low;
    if (source->log_sum_guess(source, 1, NULL, 0, &guess) != WANE_OK) return NAN;
    return fmin(fmax(guess, low), high);
}

static void see_best(struct wane__reply *reply, wane_view *view) {
    struct wane__source *source = reply->row.checked ? &reply->row.dense.source : reply->row.source;
    struct wane__candidate top[WANE_VIEW_TOP];
    int found = 0;
    if (source == NULL) return;
    if (wane__sampler_best_drawn(reply->sampler, source, WANE_VIEW_TOP, top, &found, NULL) != WANE_OK) return;
    if (found == 0) return;
    double log_sum = likely_sum(reply, source);
    for (int i = 0; i < found; i++) {
        view->top[i].token = top[i].token;
        view->top[i].logit = top[i].logit;
        view->top[i].share = (float)fmin(1, exp((double)top[i].logit - log_sum));
    }
    view->top_count = found;
}

static void see_gate(const struct wane__verdict *verdict, wane_view *view) {
    if (!verdict->judged) return;
    view->judged = true;
    view->reject = verdict->reject;
    view->woke = verdict->woke;
    view->reason = (int)verdict->reason;
    view->odds = verdict->odds;
    view->tau = verdict->tau;
}

/* What is the same for a token that was drawn and one that was repeated. */
static wane_view *begin(struct wane__reply *reply) {
    wane_view *view = &reply->sight.view;
    double now = wane__now();
    *view = (wane_view){
        .index = reply->step.index,
        .vocab_size = reply->engine->facts.vocab_size,
        .odds = NAN,
        .tau = NAN,
        .state = -1,
        .entropy = NAN,
        .ms = reply->sight.last > 0 ? (float)(1e3 * (now - reply->sight.last)) : NAN,
    };
    reply->sight.last = now;
    return view;
}

void wane__view_token(struct wane__reply *reply, double seconds) {
    const struct wane__step *step = &reply->step;
    wane_view *view = begin(reply);
    see_work(reply, view);
    if (step->slmt_used)
        view->table = step->slmt_grade == WANE__GRADE_STRICT ? WANE_VIEW_TABLE_STRICT : WANE_VIEW_TABLE_RANK;
    else if (step->slmt_source != 0)
        view->table = WANE_VIEW_TABLE_MISS;
    view->checked = reply->row.checked;
    view->changed = step->changed;
    view->redrawn = step->redrawn;
    view->entropy = step->signals.entropy;
    view->layer_ms = (float)(1e3 * seconds);
    if (step->steered) view->state = step->state;
    see_gate(&step->verdict, view);
    see_best(reply, view);
}

void wane__view_repeat(struct wane__reply *reply) {
    begin(reply)->head = WANE_BY_MEMO;
}
