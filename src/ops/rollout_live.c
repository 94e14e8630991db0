/*
 * rollout_live.c - a rollout in use; see rollout_live.h.
 *
 * Owns the moment at which a step is taken here, and what was seen but is not in the file yet. What is in force is `book`, the file's
 * content (or newer, while the file cannot be written), and on top of it what is pending. Refuses to let a disk decide whether a
 * feature is taken back.
 */
#include "ops/rollout_live.h"

#include "core/clock.h"
#include "core/error.h"
#include "core/memory.h"
#include "ops/rollout_file.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* Seconds from one write of what was seen to the next: this much of it a crash may lose. */
#define KEEP_SECONDS 10.0
#define LOCK_MS      200

/* A step back that must survive whatever the file says by then. */
struct breaking {
    bool due;
    int stage; /* that was left */
    char why[sizeof((struct wane__progress *)0)->why];
};

struct heard_step {
    int feature;
    bool forward;
    char why[sizeof((struct wane__progress *)0)->why];
};

struct wane__rollout {
    char *path;
    struct wane__log *log;
    wane__rollout_heard heard;
    void *heard_user;
    pthread_mutex_t turn; /* held for a whole tick or order: taken first */
    pthread_mutex_t lock; /* of all that follows */
    struct wane__rollout_book book;
    struct wane__rollout_book work; /* of a turn: too large for a stack */
    struct wane__evidence pending[WANE_FEATURES];
    struct wane__evidence recent[WANE_FEATURES][2]; /* of this window, of the one before */
    double window_at[WANE_FEATURES];
    struct wane__rollout_counts last[WANE_FEATURES];
    struct breaking breaking[WANE_FEATURES];
    unsigned compared;
    uint64_t print;  /* of the file, as it was last read or written */
    double kept_at;  /* wane__now of the last turn that was kept; 0: none */
    double write_at; /* when what was seen is to be written */
    bool unsaved;    /* the book is newer than the file */
    uint64_t breaks; /* times that a breaker changed the book */
    bool failing;    /* that was said */
    uint64_t failures;
    uint64_t requests[WANE_FEATURES][2];
};

/* ------------------------------------------------------------------ open */

static int first_book(struct wane__rollout *r, const wane_rollout_wish *wish, wane_error *error) {
    int status = wane__rollout_load(r->path, &r->book, error);
    if (status != WANE_ENOENT) return status;
    if (wish == NULL || wish->features == 0)
        return wane__fail(
            error, WANE_ENOENT,
            "There is no rollout's file %s; \"wane rollout plan\" makes one, or name the features that "
            "it is to bring.",
            r->path);
    status = wane_rollout_plan(r->path, NULL, 0, wish, false, NULL, error);
    return status == WANE_OK ? wane__rollout_load(r->path, &r->book, error) : status;
}

int wane__rollout_open(const char *path, const wane_rollout_wish *wish, struct wane__log *log,
                       struct wane__rollout **rollout, wane_error *error) {
    *rollout = NULL;
    wane__clear(error);
    struct wane__rollout *r = wane__alloc_zero(1, sizeof *r);
    if (r == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a rollout.");
    pthread_mutex_init(&r->turn, NULL);
    pthread_mutex_init(&r->lock, NULL);
    r->log = log;
    r->path = wane__copy_string(path);
    int status = r->path != NULL ? first_book(r, wish, error)
                                 : wane__fail(error, WANE_ENOMEM, "No memory for a rollout.");
    if (status == WANE_OK) {
        r->print = wane__rollout_print(path);
        *rollout = r;
        return status;
    }
    pthread_mutex_destroy(&r->turn);
    pthread_mutex_destroy(&r->lock);
    wane__free(r->path);
    wane__free(r);
    return status;
}

void wane__rollout_listen(struct wane__rollout *r, wane__rollout_heard heard, void *user) {
    r->heard = heard;
    r->heard_user = user;
}

/* ------------------------------------------------------------------ sides */

static void write_header(const struct wane__rollout *r, unsigned off, struct wane__rollout_side *side) {
    size_t used = 0;
    for (int i = 0; i < WANE_FEATURES; i++) {
        const struct wane__progress *p = &r->book.state.feature[i];
        char stage[24];
        if ((side->listed & 1u << i) == 0 || used >= sizeof side->header) continue;
        snprintf(stage, sizeof stage, "%d", p->stage + 1);
        if (p->phase == WANE__PHASE_DONE || p->phase == WANE__PHASE_ABORTED)
            snprintf(stage, sizeof stage, "%s", wane__phase_names[p->phase]);
        int wrote =
            snprintf(side->header + used, sizeof side->header - used, "%s%s=%s;stage=%s%s",
                     used > 0 ? ", " : "", wane_feature_name(i), (side->on & 1u << i) != 0 ? "on" : "off",
                     stage, (off & 1u << i) != 0 ? ";breaker" : "");
        used += wrote > 0 ? (size_t)wrote : 0;
    }
}

void wane__rollout_take(struct wane__rollout *r, const struct wane__subject *subject, unsigned off,
                        struct wane__rollout_side *side) {
    *side = (struct wane__rollout_side){0};
    pthread_mutex_lock(&r->lock);
    side->listed = wane__rollout_listed(&r->book.plan);
    side->on = wane__rollout_side(&r->book, subject) & ~off;
    write_header(r, off, side);
    pthread_mutex_unlock(&r->lock);
}

void wane__rollout_count(struct wane__rollout *r, const struct wane__rollout_side *side, unsigned counted) {
    pthread_mutex_lock(&r->lock);
    for (int i = 0; i < WANE_FEATURES; i++) {
        int on = (side->on & 1u << i) != 0;
        if ((side->listed & counted & 1u << i) == 0) continue;
        r->pending[i].requests[on]++;
        r->recent[i][0].requests[on]++;
        r->requests[i][on]++;
    }
    pthread_mutex_unlock(&r->lock);
}

static void see(struct wane__rollout *r, int feature, const struct wane__evidence *more) {
    wane__evidence_add(&r->pending[feature], more);
    wane__evidence_add(&r->recent[feature][0], more);
}

void wane__rollout_repeat(struct wane__rollout *r, const struct wane__rollout_side *side, double score) {
    pthread_mutex_lock(&r->lock);
    for (int i = 0; i < WANE_FEATURES; i++) {
        struct wane__evidence one = {0};
        int on = (side->on & 1u << i) != 0;
        if ((side->listed & 1u << i) == 0) continue;
        one.repeats[on] = 1;
        one.score[on] = score;
        one.square[on] = score * score;
        see(r, i, &one);
    }
    pthread_mutex_unlock(&r->lock);
}

static uint64_t more_of(uint64_t now, uint64_t before) {
    return now > before ? now - before : 0;
}

void wane__rollout_feed(struct wane__rollout *r, const struct wane__rollout_counts *counts,
                        unsigned compared) {
    pthread_mutex_lock(&r->lock);
    r->compared = compared;
    for (int i = 0; i < WANE_FEATURES; i++) {
        const struct wane__rollout_counts *now = &counts[i], *last = &r->last[i];
        struct wane__evidence more = {.tries = more_of(now->tries, last->tries),
                                      .hits = more_of(now->hits, last->hits),
                                      .checks = more_of(now->checks, last->checks),
                                      .divergences = more_of(now->divergences, last->divergences)};
        /* Counters are read one after the other, while tokens are drawn: the rest comes next time. */
        if (more.hits > more.tries) more.hits = more.tries;
        if (more.divergences > more.checks) more.divergences = more.checks;
        r->last[i].tries += more.tries;
        r->last[i].hits += more.hits;
        r->last[i].checks += more.checks;
        r->last[i].divergences += more.divergences;
        see(r, i, &more);
    }
    pthread_mutex_unlock(&r->lock);
}

/* ------------------------------------------------------------------ the file */

/* Under the lock. What was seen of a stage that is left says nothing of the next. */
static void forget(struct wane__rollout *r, unsigned features) {
    for (int i = 0; i < WANE_FEATURES; i++) {
        if ((features & 1u << i) == 0) continue;
        r->pending[i] = (struct wane__evidence){0};
        r->recent[i][0] = r->recent[i][1] = (struct wane__evidence){0};
        r->window_at[i] = 0;
    }
}

/* Under the lock. Take over what another program wrote; breakers that fired here still count. */
static void adopt(struct wane__rollout *r, const struct wane__rollout_book *book, int64_t date) {
    unsigned other = 0;
    for (int i = 0; i < WANE_FEATURES; i++) {
        const struct wane__progress *a = &r->book.state.feature[i], *b = &book->state.feature[i];
        if (a->phase != b->phase || a->stage != b->stage || a->at != b->at) other |= 1u << i;
    }
    forget(r, other);
    r->book = *book;
    for (int i = 0; i < WANE_FEATURES; i++)
        if (r->breaking[i].due && r->book.state.feature[i].stage >= r->breaking[i].stage)
            wane__rollout_step_back(&r->book, i, date, r->breaking[i].why);
}

/* With the turn and the file's lock held. Anything but success leaves what is in force as it is. */
static int look_at_file(struct wane__rollout *r, int64_t date, wane_error *error) {
    uint64_t print = wane__rollout_print(r->path);
    if (print == r->print) return WANE_OK;
    int status = wane__rollout_load(r->path, &r->work, error);
    if (status == WANE_ENOENT) { /* it was taken away: it is written anew */
        pthread_mutex_lock(&r->lock);
        r->unsaved = true;
        r->print = 0;
        pthread_mutex_unlock(&r->lock);
        return WANE_OK;
    }
    if (status != WANE_OK) return status;
    pthread_mutex_lock(&r->lock);
    adopt(r, &r->work, date);
    r->unsaved = false;
    for (int i = 0; i < WANE_FEATURES; i++) r->unsaved = r->unsaved || r->breaking[i].due;
    r->print = print;
    pthread_mutex_unlock(&r->lock);
    return WANE_OK;
}

static void say_failure(struct wane__rollout *r, const wane_error *error) {
    pthread_mutex_lock(&r->lock);
    r->failures++;
    pthread_mutex_unlock(&r->lock);
    if (!r->failing)
        wane__log(r->log, WANE_LOG_ERROR,
                  "rollout: what is in force cannot be kept, and is in force all the same: %s", error->text);
    r->failing = true;
}

/* The same locks. A breaker may fire meanwhile: what it did is not in the file then. */
static int write_file(struct wane__rollout *r, wane_error *error) {
    pthread_mutex_lock(&r->lock);
    uint64_t breaks = r->breaks;
    r->work = r->book;
    pthread_mutex_unlock(&r->lock);
    int status = wane__rollout_store(r->path, &r->work, error);
    pthread_mutex_lock(&r->lock);
    r->unsaved = status != WANE_OK || r->breaks != breaks;
    if (status == WANE_OK) {
        r->book.state.revision = r->work.state.revision;
        for (int i = 0; i < WANE_FEATURES; i++) r->breaking[i].due = r->breaking[i].due && r->unsaved;
        r->print = wane__rollout_print(r->path);
    }
    pthread_mutex_unlock(&r->lock);
    if (status == WANE_OK && r->failing)
        wane__log(r->log, WANE_LOG_INFO, "rollout: %s is written again", r->path);
    if (status == WANE_OK) r->failing = false;
    return status;
}

/* ------------------------------------------------------------------ a turn */

static void tell(struct wane__rollout *r, const struct heard_step *steps, int count) {
    for (int i = 0; i < count; i++) {
        const char *name = wane_feature_name(steps[i].feature);
        wane__log(r->log, steps[i].forward ? WANE_LOG_INFO : WANE_LOG_WARN, "rollout: %s: %s: %s", name,
                  steps[i].forward ? "forward" : "back", steps[i].why);
        if (r->heard != NULL) r->heard(r->heard_user, steps[i].feature, steps[i].forward, steps[i].why);
    }
}

/* Under the lock: what the changed features came to, against what they were. */
static int note_steps(const struct wane__rollout *r, unsigned changed, const int *before,
                      struct heard_step *steps) {
    int count = 0;
    for (int i = 0; i < WANE_FEATURES; i++) {
        const struct wane__progress *p = &r->book.state.feature[i];
        if ((changed & 1u << i) == 0) continue;
        steps[count].feature = i;
        steps[count].forward =
            p->stage > before[i] || p->phase == WANE__PHASE_DONE || p->phase == WANE__PHASE_RUNNING;
        snprintf(steps[count].why, sizeof steps[count].why, "%s, stage %d: %.150s",
                 wane__phase_names[p->phase], p->stage + 1, p->why);
        count++;
    }
    return count;
}

static void stages_of(const struct wane__rollout *r, int *stage) {
    for (int i = 0; i < WANE_FEATURES; i++) stage[i] = r->book.state.feature[i].stage;
}

/* Under the lock. Windows go by this process's clock: they end with it. */
static void roll(struct wane__rollout *r, double now, struct wane__evidence *recent) {
    for (int i = 0; i < WANE_FEATURES; i++) {
        if (r->window_at[i] <= 0) r->window_at[i] = now;
        if (now - r->window_at[i] >= r->book.plan.window) {
            r->recent[i][1] = r->recent[i][0];
            r->recent[i][0] = (struct wane__evidence){0};
            r->window_at[i] = now;
        }
        recent[i] = r->recent[i][0];
        wane__evidence_add(&recent[i], &r->recent[i][1]);
    }
}

/*
 * Under the lock. Judge what is in force; what was seen becomes part of the book where it is to be written or a step was taken. True:
 * write it.
 */
static bool judge(struct wane__rollout *r, int64_t date, double now, bool write, unsigned *changed) {
    struct wane__evidence recent[WANE_FEATURES];
    struct wane__moment moment = {date, r->kept_at > 0 ? now - r->kept_at : 0};
    roll(r, now, recent);
    r->work = r->book;
    r->work.state.compared = r->compared;
    for (int i = 0; i < WANE_FEATURES; i++)
        wane__evidence_add(&r->work.state.feature[i].seen, &r->pending[i]);
    *changed = wane__rollout_turn(&r->work, recent, &moment);
    if (*changed == 0 && !write && !r->unsaved && r->kept_at > 0) return false;
    r->book = r->work;
    forget(r, *changed);
    for (int i = 0; i < WANE_FEATURES; i++) r->pending[i] = (struct wane__evidence){0};
    r->kept_at = now;
    r->write_at = now + KEEP_SECONDS;
    return true;
}

static void take_turn(struct wane__rollout *r, int64_t date, double now, bool write) {
    struct heard_step steps[WANE_FEATURES];
    int before[WANE_FEATURES], lock = -1;
    unsigned changed = 0;
    wane_error error = {0};
    pthread_mutex_lock(&r->turn);
    int status = wane__rollout_lock(r->path, LOCK_MS, &lock, &error);
    if (status == WANE_OK) status = look_at_file(r, date, &error);
    pthread_mutex_lock(&r->lock);
    stages_of(r, before);
    bool due = judge(r, date, now, write || now >= r->write_at, &changed);
    int count = note_steps(r, changed, before, steps);
    if (due && status != WANE_OK) r->unsaved = true;
    pthread_mutex_unlock(&r->lock);
    if (due && status == WANE_OK) status = write_file(r, &error);
    wane__rollout_unlock(lock);
    if (status != WANE_OK) say_failure(r, &error);
    pthread_mutex_unlock(&r->turn);
    tell(r, steps, count);
}

void wane__rollout_tick(struct wane__rollout *r, int64_t date, double now) {
    take_turn(r, date, now, false);
}

void wane__rollout_close(struct wane__rollout *r) {
    if (r == NULL) return;
    if (r->kept_at > 0) take_turn(r, wane__date_ms(), wane__now(), true);
    pthread_mutex_destroy(&r->turn);
    pthread_mutex_destroy(&r->lock);
    wane__free(r->path);
    wane__free(r);
}

/* ------------------------------------------------------------------ breakers and people */

bool wane__rollout_break(struct wane__rollout *r, int feature, const char *why) {
    struct heard_step step;
    int before[WANE_FEATURES];
    if (feature < 0 || feature >= WANE_FEATURES) return false;
    pthread_mutex_lock(&r->lock);
    stages_of(r, before);
    bool stepped = wane__rollout_step_back(&r->book, feature, wane__date_ms(), why);
    if (stepped) {
        r->breaking[feature] = (struct breaking){.due = true, .stage = before[feature]};
        snprintf(r->breaking[feature].why, sizeof r->breaking[feature].why, "%s", why);
        r->unsaved = true;
        r->breaks++;
        forget(r, 1u << feature);
        note_steps(r, 1u << feature, before, &step);
    }
    pthread_mutex_unlock(&r->lock);
    if (stepped) tell(r, &step, 1);
    return stepped;
}

int wane__rollout_order(struct wane__rollout *r, int action, int feature, bool *kept, wane_error *error) {
    struct heard_step steps[WANE_FEATURES];
    int before[WANE_FEATURES], lock = -1, count = 0;
    unsigned changed = 0;
    wane_error trouble = {0};
    int64_t date = wane__date_ms();
    pthread_mutex_lock(&r->turn);
    int status = wane__rollout_lock(r->path, LOCK_MS, &lock, &trouble);
    if (status == WANE_OK) status = look_at_file(r, date, &trouble);
    pthread_mutex_lock(&r->lock);
    stages_of(r, before);
    int done = wane__rollout_act(&r->book, action, feature, date, &changed, error);
    forget(r, changed);
    count = note_steps(r, changed, before, steps);
    r->unsaved = r->unsaved || changed != 0;
    pthread_mutex_unlock(&r->lock);
    if (done == WANE_OK && status == WANE_OK) status = write_file(r, &trouble);
    wane__rollout_unlock(lock);
    if (done == WANE_OK && status != WANE_OK) {
        say_failure(r, &trouble);
        wane__fail(error, status, "%s", trouble.text);
    }
    pthread_mutex_unlock(&r->turn);
    if (kept != NULL) *kept = status == WANE_OK;
    tell(r, steps, count);
    return done;
}

/* ------------------------------------------------------------------ looking */

/* Under the lock: the book, with what is pending and the time that has passed. */
static void picture(const struct wane__rollout *r, struct wane__rollout_book *book) {
    *book = r->book;
    book->state.compared = r->compared;
    double passed = r->kept_at > 0 ? wane__now() - r->kept_at : 0;
    int64_t date = wane__date_ms();
    for (int i = 0; i < WANE_FEATURES; i++) {
        struct wane__progress *p = &book->state.feature[i];
        wane__evidence_add(&p->seen, &r->pending[i]);
        if (p->phase == WANE__PHASE_RUNNING || p->phase == WANE__PHASE_BACK || p->phase == WANE__PHASE_DONE)
            p->held += fmax(0, p->at <= date ? fmin(passed, (double)(date - p->at) / 1000) : passed);
    }
}

char *wane__rollout_show(struct wane__rollout *r) {
    struct wane__rollout_book *book = wane__alloc_zero(1, sizeof *book);
    if (book == NULL) return NULL;
    pthread_mutex_lock(&r->lock);
    picture(r, book);
    pthread_mutex_unlock(&r->lock);
    char *text = wane__rollout_shown(book);
    wane__free(book);
    return text;
}

void wane__rollout_get_figures(struct wane__rollout *r, struct wane__rollout_figures *figures) {
    *figures = (struct wane__rollout_figures){0};
    struct wane__evidence seen;
    pthread_mutex_lock(&r->lock);
    figures->listed = wane__rollout_listed(&r->book.plan);
    figures->failures = r->failures;
    figures->kept = !r->unsaved;
    for (int i = 0; i < WANE_FEATURES; i++) {
        const struct wane__progress *p = &r->book.state.feature[i];
        const struct wane__plan_feature *plan = &r->book.plan.feature[i];
        figures->phase[i] = p->phase;
        figures->stage[i] = p->stage + 1;
        figures->stages[i] = plan->stage_count;
        if (p->stage >= 0) {
            figures->kind[i] = plan->stage[p->stage].kind;
            figures->share[i] = plan->stage[p->stage].share;
        }
        figures->forward[i] = p->forward;
        figures->backward[i] = p->backward;
        memcpy(figures->requests[i], r->requests[i], sizeof figures->requests[i]);
        seen = p->seen;
        wane__evidence_add(&seen, &r->pending[i]);
        for (int b = 0; b < WANE__BARS; b++) {
            struct wane__measure m =
                wane__rollout_measure(plan, (enum wane__bar)b, &seen, (r->compared & 1u << i) != 0);
            figures->value[i][b] = m.value;
            figures->bar[i][b] = plan->stage_count > 0 ? plan->bar[b] : (double)NAN;
        }
    }
    pthread_mutex_unlock(&r->lock);
}
