/*
 * scheduler_run.c - the engine thread: one turn is gather → begin → reap → recall → plan → decode → step rows → deliver.
 *
 * Owns the engine and the slots. Refuses to hold the lock during engine work, to wait for a reader, and to
 * let one request's failure reach another: when a call with several sequences fails, each of them goes
 * alone in the next turns until it has passed the place, and only the one that fails alone is ended.
 *
 * A slot's state is one number: how many of its tokens the engine holds. What is missing up to the end of its
 * context is pending; one token pending is a step of decoding, more is a prompt (or, after a roll-back that
 * could only clear, a context computed again). The row after the last pending token is the next token's.
 */
#include "server/scheduler_internal.h"

#include "core/clock.h"
#include "core/os.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --------------------------------------------------------------------- gather */

/* A list by `next`, in order. */
struct list {
    wane_ticket *first, **end;
};

static void list_add(struct list *list, wane_ticket *t) {
    *list->end = t;
    list->end = &t->next;
}

/* When something must be done though nothing happens: a deadline, or the end of a stop's grace. */
static double next_deadline(const wane_scheduler *s) {
    double soonest = s->cutoff;
    for (const wane_ticket *t = s->first; t != NULL; t = t->next) soonest = fmin(soonest, t->deadline);
    for (const wane_ticket *t = s->voting; t != NULL; t = t->next_voting)
        soonest = fmin(soonest, t->deadline);
    for (int i = 0; i < s->slot_count; i++) {
        if (s->slot[i].ticket != NULL) soonest = fmin(soonest, s->slot[i].ticket->deadline);
    }
    return soonest;
}

/* Under the lock: how long to sleep from here, as a point in time; 0 when there is something to do now. */
static double sleep_until(wane_scheduler *s, double now) {
    bool branch = wane__vote_next(s) != NULL;
    bool admissible = (s->first != NULL || branch) && s->busy < s->slot_count;
    if (s->stopping && s->busy == 0) return 0;
    if (admissible && s->busy == 0 && !branch) {
        /* The first request of an idle moment waits for company: one call for all beats one call each. */
        int company = s->slot_count;
        if (s->options.max_batch_requests < company) company = s->options.max_batch_requests;
        if (s->queued >= company) return 0;
        double until = fmin(s->first->submitted + 1e-3 * s->options.window_ms, next_deadline(s));
        return until > now ? until : 0;
    }
    if (admissible || s->runnable || s->poked) return 0;
    double until = fmin(next_deadline(s), wane__memo_saver_due(s->model->memo));
    return until > now ? until : 0;
}

static void wait_for_work(wane_scheduler *s) {
    double until;
    while ((until = sleep_until(s, wane__now())) > 0) {
        if (isinf(until)) {
            pthread_cond_wait(&s->work, &s->lock);
        } else {
            wane__os_cond_wait(&s->work, &s->lock, until);
        }
    }
    s->poked = false;
}

/* Under the lock: out of the queue goes what waited too long, or all of it when a stop's grace is over. */
static void sift_queue(wane_scheduler *s, double now, struct list *dead) {
    bool cut = now >= s->cutoff;
    for (wane_ticket *t = s->first, *next; t != NULL; t = next) {
        next = t->next;
        if (!cut && now < t->deadline) continue;
        wane__scheduler_unlink(s, t);
        t->code = now >= t->deadline ? WANE_ETIMEOUT : WANE_ESHUTDOWN;
        wane__scheduler_count(&s->counts, t->code);
        list_add(dead, t);
    }
}

static const char *reason(int code) {
    switch (code) {
    case WANE_ECANCELLED: return "The request was cancelled.";
    case WANE_ETIMEOUT: return "The request's deadline has passed.";
    default: return "The scheduler was stopped.";
    }
}

/* Sleep until there is work; fill free slots from the queue. False: stopped, and nothing is left. */
static bool gather(wane_scheduler *s, struct list *fresh) {
    struct list dead = {NULL, &dead.first};
    pthread_mutex_lock(&s->lock);
    wane__scheduler_settle(s);
    wait_for_work(s);
    sift_queue(s, wane__now(), &dead);
    for (wane_ticket **at; s->busy < s->slot_count && (at = wane__vote_next(s)) != NULL;) {
        wane_ticket *t = *at;
        *at = t->next;
        t->next = NULL;
        s->busy++;
        list_add(fresh, t);
    }
    while (s->first != NULL && s->busy < s->slot_count) {
        wane_ticket *t = s->first;
        wane__scheduler_unlink(s, t);
        s->busy++;
        list_add(fresh, t);
    }
    bool goes_on = !s->stopping || s->busy > 0 || s->first != NULL || s->voting != NULL;
    pthread_mutex_unlock(&s->lock);
    for (wane_ticket *t = dead.first, *next; t != NULL; t = next) {
        next = t->next;
        wane__ticket_finish(t, NULL, t->code, reason(t->code));
    }
    return goes_on;
}

/* ----------------------------------------------------------------------- reap */

static bool is_cancelled(const wane_ticket *t) {
    return atomic_load_explicit(&t->cancelled, memory_order_relaxed);
}

/* Why a request must end now; WANE_OK: it need not. */
static int why_end(const wane_ticket *t, double now, double cutoff) {
    if (is_cancelled(t)) return WANE_ECANCELLED;
    if (now >= t->deadline) return WANE_ETIMEOUT;
    return now >= cutoff ? WANE_ESHUTDOWN : WANE_OK;
}

static void reap(wane_scheduler *s) {
    pthread_mutex_lock(&s->lock);
    double cutoff = s->cutoff;
    pthread_mutex_unlock(&s->lock);
    double now = wane__now();
    for (int i = 0; i < s->slot_count; i++) {
        struct wane__slot *slot = &s->slot[i];
        if (slot->ticket == NULL || slot->ticket->first != NULL) continue; /* other answers end with theirs */
        int code = why_end(slot->ticket, now, cutoff);
        if (code != WANE_OK) wane__slot_finish(s, slot, NULL, code, reason(code));
    }
    wane__votes_reap(s, why_end, now, cutoff, reason);
}

/* ----------------------------------------------------------------------- plan */

static bool is_runnable(const struct wane__slot *slot) {
    return slot->ticket != NULL && !wane__ticket_full(slot->ticket);
}

/* Tokens that the engine holds, over all sequences. */
static int cells_of(const wane_scheduler *s) {
    int cells = 0;
    for (int i = 0; i < s->slot_count; i++) cells += s->slot[i].held;
    return cells;
}

static bool older(const struct wane__slot *a, const struct wane__slot *b) {
    const wane_ticket *x = a->ticket, *y = b->ticket;
    return x->serial != y->serial ? x->serial < y->serial : x->answer < y->answer;
}

static bool before(const struct wane__slot *a, const struct wane__slot *b) {
    return a->served != b->served ? a->served < b->served : older(a, b);
}

static bool waited_longer(const struct wane__slot *a, const struct wane__slot *b) {
    return a->turn < b->turn;
}

static void insert(struct wane__slot **list, int count, struct wane__slot *slot,
                   bool (*less)(const struct wane__slot *, const struct wane__slot *)) {
    int at = count;
    for (; at > 0 && less(slot, list[at - 1]); at--) list[at] = list[at - 1];
    list[at] = slot;
}

/*
 * Which of the seats has something drafted, and how much: one a call, and its block stands last. So what is not drawn of it lies
 * at the end of the cache, and is gone without a gap: in one, later tokens would lie before earlier ones, and attention
 * would add them in another order. The seat that has waited longest for its turn is asked first; all of them propose, to
 * learn from what is drawn.
 */
static struct wane__slot *choose_draft(wane_scheduler *s, struct wane__slot **seat, int seats, bool may,
                                       int *drafted) {
    struct wane__slot *turn[WANE__MAX_SLOTS], *chosen = NULL;
    int cells = cells_of(s) + seats, room = s->engine->batch - seats;
    for (int i = 0; i < seats; i++) insert(turn, i, seat[i], waited_longer);
    for (int i = 0; i < seats; i++) {
        bool rehearse, ask = may && chosen == NULL;
        int count = wane__ahead_plan(&turn[i]->ahead, &turn[i]->ticket->reply, seats - 1, ask ? room : 0,
                                     cells, &rehearse);
        s->model->rows.keep = s->model->rows.keep || wane__ahead_compares(&turn[i]->ahead);
        if (count == 0) continue;
        chosen = turn[i];
        chosen->turn = s->calls;
        s->rehearsal = rehearse;
        *drafted = count;
    }
    return chosen;
}

/* Its tokens, behind the one that is already in the call. */
static int plan_draft(wane_scheduler *s, struct wane__slot *slot, int count, int drafted) {
    for (int i = 0; i < drafted; i++) {
        struct wane__item *item = &s->items[count + i];
        *item = item[-1];
        item->token = slot->ahead.token[i];
        item->pos++;
    }
    slot->planned += drafted;
    slot->drafted = drafted;
    return drafted;
}

/* Add up to `most` pending tokens of a slot to the call; returns how many. */
static int plan_slot(wane_scheduler *s, struct wane__slot *slot, int count, int most) {
    const wane_tokens *context = &slot->ticket->reply.context;
    int pending = wane__slot_pending(slot);
    int take = pending < most ? pending : most;
    for (int i = 0; i < take; i++) {
        s->items[count + i] = (struct wane__item){
            .token = context->id[slot->held + i],
            .pos = slot->held + i,
            .seq = slot->seq,
            .wanted = i + 1 == pending,
            .whole = slot->ticket->reply.whole,
            .dense = (slot->ticket->reply.without & 1u << WANE_FEATURE_HEAD) != 0,
        };
    }
    slot->planned = take;
    slot->drafted = 0;
    slot->served = s->calls;
    s->planned[s->planned_count++] = slot;
    return take;
}

/* All of `seat` but the prompt: a token each, and behind the last one what is drafted. */
static int plan_seats(wane_scheduler *s, struct wane__slot **seat, int seats,
                      const struct wane__slot *prompt) {
    struct wane__slot *decoding[WANE__MAX_SLOTS];
    int count = 0, some = 0, drafted = 0;
    for (int i = 0; i < seats; i++)
        if (seat[i] != prompt) decoding[some++] = seat[i];
    struct wane__slot *drafting = choose_draft(s, decoding, some, prompt == NULL, &drafted);
    /* A rehearsal goes alone, and is forgotten; the others go next time. */
    for (int i = 0; i < some && !s->rehearsal; i++)
        if (decoding[i] != drafting) count += plan_slot(s, decoding[i], count, 1);
    if (drafting == NULL) return count;
    count += plan_slot(s, drafting, count, 1);
    return count + plan_draft(s, drafting, count, drafted);
}

/*
 * Prompt tokens that may go with `rows` rows of others. On processors a prompt's token costs half a row or more, so that a part in proportion to the rows
 * makes every call longer by about the same factor. By numbers, not by the clock: the same requests get the same calls.
 */
static int prompt_part(const wane_scheduler *s, int rows) {
    enum { LEAST = 16 };
    int chunk = s->options.prompt_chunk, share = s->options.prompt_share;
    if (share == 0 || share >= chunk) return chunk;
    int part = share * rows > LEAST ? share * rows : LEAST;
    return part < chunk ? part : chunk;
}

/*
 * Who goes: all that decode, and prompts first come, first served. Where there are more sequences than one
 * call takes, those that waited longest go first; the oldest prompt competes with them, so that neither
 * prompts nor replies starve. Returns the number of items.
 */
static int plan(wane_scheduler *s) {
    struct wane__slot *seat[WANE__MAX_SLOTS], *prompt[WANE__MAX_SLOTS], *suspect = NULL;
    int seats = 0, prompts = 0, batch = s->engine->batch, count = 0;
    s->planned_count = 0;
    s->rehearsal = s->model->rows.keep = false;
    s->calls++;
    for (int i = 0; i < s->slot_count; i++) {
        struct wane__slot *slot = &s->slot[i];
        if (slot->knows || !is_runnable(slot)) continue;
        if (slot->held < slot->suspect_until && (suspect == NULL || older(slot, suspect))) suspect = slot;
        if (wane__slot_pending(slot) == 1)
            insert(seat, seats++, slot, before);
        else
            insert(prompt, prompts++, slot, older);
    }
    if (suspect != NULL) return plan_slot(s, suspect, 0, batch);

    if (prompts > 0) insert(seat, seats++, prompt[0], before);
    int limit = s->options.max_batch_requests < batch ? s->options.max_batch_requests : batch;
    bool prompt_goes = false;
    if (seats > limit) seats = limit;
    for (int i = 0; i < seats; i++) prompt_goes = prompt_goes || (prompts > 0 && seat[i] == prompt[0]);
    count = plan_seats(s, seat, seats, prompt_goes ? prompt[0] : NULL);
    if (!prompt_goes || s->rehearsal) return count;

    int budget = batch - count;
    int part = count > 0 ? prompt_part(s, count) : budget;
    if (part < budget) budget = part;
    for (int i = 0; i < prompts && budget > 0 && s->planned_count < limit; i++) {
        int taken = plan_slot(s, prompt[i], count, budget);
        count += taken;
        budget -= taken;
    }
    return count;
}

/* --------------------------------------------------------------------- decode */

/* Items that give no row: parts of prompts. */
static int prompt_items(const wane_scheduler *s, int count) {
    int items = 0;
    for (int i = 0; i < count; i++) items += !s->items[i].wanted;
    return items;
}

/* Let others see the call. False when it is not worth making any more. */
static bool announce(wane_scheduler *s, int count) {
    pthread_mutex_lock(&s->lock);
    s->call.interrupted = false;
    s->call.members = s->planned_count;
    for (int i = 0; i < s->planned_count; i++) s->call.member[i] = wane__ticket_asked(s->planned[i]->ticket);
    s->call.started = wane__now();
    bool worth = !wane__scheduler_abandoned(s) && s->call.started < s->cutoff;
    if (!worth) {
        s->call.members = 0;
        s->call.started = 0;
    } else {
        wane__watchdog_begin(&s->watchdog, s->call.started, prompt_items(s, count));
    }
    pthread_mutex_unlock(&s->lock);
    return worth;
}

/* The call is over; returns whether somebody cut it short. */
static bool withdraw(wane_scheduler *s, bool whole) {
    pthread_mutex_lock(&s->lock);
    bool interrupted = s->call.interrupted;
    wane__watchdog_end(&s->watchdog, wane__now(), whole && !interrupted);
    if (interrupted) s->engine->ops->interrupt(s->engine, false);
    s->tally.engine_calls++;
    s->tally.engine_seconds += wane__now() - s->call.started;
    s->call.members = 0;
    s->call.started = 0;
    pthread_mutex_unlock(&s->lock);
    return interrupted;
}

static void fail_slot(wane_scheduler *s, struct wane__slot *slot, int code, const wane_error *error) {
    wane_error text; /* its own copy: with a sentence around what the engine said */
    snprintf(text.text, sizeof text.text, "The reply failed after %d tokens: %.400s",
             slot->ticket->reply.reply_count, error->text);
    wane__log(&s->log, WANE_LOG_WARN, "request %llu: %s", (unsigned long long)slot->ticket->serial,
              text.text);
    wane__slot_finish(s, slot, NULL, code, text.text);
}

/* Room for tokens: what is kept for requests to come goes first. False when there was nothing to give. */
static bool drop_caches(wane_scheduler *s) {
    bool dropped = false;
    for (int i = 0; i < s->slot_count; i++) {
        struct wane__slot *slot = &s->slot[i];
        if (slot->ticket != NULL || slot->held == 0) continue;
        wane__slot_forget(s, slot);
        dropped = true;
    }
    return dropped;
}

/* Whom to give up for room: of the call's prompts the youngest; without prompts, of its replies. */
static struct wane__slot *youngest(const wane_scheduler *s) {
    struct wane__slot *found = NULL;
    for (int i = 0; i < s->planned_count; i++) {
        struct wane__slot *slot = s->planned[i];
        if (found == NULL) {
            found = slot;
            continue;
        }
        bool prompt = !slot->ticket->started, found_prompt = !found->ticket->started;
        if (prompt != found_prompt ? prompt : older(found, slot)) found = slot;
    }
    return found;
}

static void handle_failure(wane_scheduler *s, int code, const wane_error *error) {
    if (code == WANE_EBUSY) {
        if (!drop_caches(s)) fail_slot(s, youngest(s), WANE_EENGINE, error);
    } else if (s->planned_count == 1) {
        fail_slot(s, s->planned[0], WANE_EENGINE, error);
    } else {
        wane__log(&s->log, WANE_LOG_WARN, "a call with %d sequences failed, trying one by one: %s",
                  s->planned_count, error->text);
    }
}

static bool drafts_stand(const wane_scheduler *s) {
    for (int i = 0; i < s->planned_count; i++)
        if (s->planned[i]->drafted > 0 && !wane__ahead_stands(&s->planned[i]->ahead)) return false;
    return true;
}

/* Whatever failed is tried once more without what was drafted: that was nobody's wish. */
static bool give_up_drafts(wane_scheduler *s, bool failed, bool misplaced) {
    bool any = false;
    for (int i = 0; i < s->planned_count; i++) {
        struct wane__slot *slot = s->planned[i];
        any = any || slot->drafted > 0;
        if (slot->drafted == 0 || s->rehearsal) continue;
        if (misplaced)
            wane__ahead_misplaced(&slot->ahead);
        else
            wane__ahead_drop(&slot->ahead, failed);
    }
    return any;
}

/* One engine call with the planned items. True: rows are there. */
static bool decode(wane_scheduler *s, int count) {
    if (!announce(s, count)) return false;
    wane_error error = {0};
    int code = s->rehearsal ? wane__ahead_rehearse(&s->planned[0]->ahead, s->items, count, &error)
                            : wane__rows_decode(&s->model->rows, s->items, count, &error);
    bool interrupted = withdraw(s, code == WANE_OK), failed = code != WANE_OK && !interrupted;
    bool misplaced = code == WANE_OK && !s->rehearsal && !drafts_stand(s);
    if (misplaced) code = WANE_EENGINE;
    bool again = code != WANE_OK && give_up_drafts(s, failed, misplaced);
    for (int i = 0; i < s->planned_count; i++) {
        struct wane__slot *slot = s->planned[i];
        if (code == WANE_OK && !s->rehearsal) {
            slot->held += slot->planned;
            continue;
        }
        bool alone = code != WANE_OK && !again && !interrupted && code != WANE_EBUSY && s->planned_count > 1;
        if (alone) slot->suspect_until = slot->held + slot->planned;
        wane__slot_rollback(s, slot);
    }
    if (code != WANE_OK && !interrupted && !again) handle_failure(s, code, &error);
    return code == WANE_OK && !s->rehearsal;
}

/* -------------------------------------------------------------------- deliver */

static bool post_start(wane_scheduler *s, wane_ticket *t) {
    wane_event event = {
        .kind = WANE_EVENT_START,
        .token = -1,
        .prompt_tokens = t->reply.prompt_count,
        .reused_tokens = t->reused,
    };
    t->started = true;
    t->first_at = wane__now();
    s->tally.prompt_tokens += (uint64_t)t->reply.prompt_count;
    s->tally.reused_tokens += (uint64_t)t->reused;
    return wane__ticket_post(t, &event);
}

static void finish_reply(wane_scheduler *s, struct wane__slot *slot) {
    wane_ticket *t = slot->ticket;
    wane_event end;
    wane__reply_end(&t->reply, &end);
    wane__ticket_times(t, &end);
    wane__slot_finish(s, slot, &end, WANE_OK, "");
}

/* A token's events, perhaps the end. False: that failed, and the request with it. */
static bool hand_out(wane_scheduler *s, struct wane__slot *slot, const wane_event *event) {
    wane_ticket *t = slot->ticket;
    bool fine = t->started || post_start(s, t);
    s->tally.reply_tokens++;
    if (fine && t->vote != NULL)
        fine = wane__vote_tell(s, t, event);
    else if (fine && event->kind == WANE_EVENT_TEXT)
        fine = wane__ticket_post(t, event);
    if (!fine) {
        wane_error error = {.text = "no memory for its events"};
        fail_slot(s, slot, WANE_ENOMEM, &error);
    } else if (t->reply.step.finish != WANE_FINISH_NONE) {
        finish_reply(s, slot);
    }
    return fine;
}

/*
 * One row: a token, its events, perhaps the end. `keep`: the tokens up to the one that this row stands behind. True: the next
 * row of this slot is good as well.
 */
static bool deliver(wane_scheduler *s, struct wane__slot *slot, int row, int keep) {
    wane_ticket *t = slot->ticket;
    wane_event event;
    wane_error error = {0};
    s->tally.engine_rows++;
    if (is_cancelled(wane__ticket_asked(t))) { /* reaped in the next turn, which follows at once */
        wane__ahead_drop(&slot->ahead, false);
        wane__slot_truncate(s, slot, keep);
        return false;
    }
    int code = wane__layer_step(&t->reply, row, &event, &error);
    if (code != WANE_OK) {
        fail_slot(s, slot, code, &error);
        return false;
    }
    bool goes_on = wane__ahead_take(&slot->ahead, &t->reply, row);
    if (!goes_on) wane__slot_truncate(s, slot, keep);
    event.drafted = t->reply.step.drafted;
    t->reply.account.drafted += event.drafted;
    return hand_out(s, slot, &event) && goes_on;
}

/* Rows come in the order of the wanted items, which is the order of the planned slots. */
static void deliver_rows(wane_scheduler *s, int count) {
    int row = 0;
    for (int i = 0, at = 0; i < s->planned_count && at < count; i++) {
        struct wane__slot *slot = s->planned[i];
        at += slot->planned;
        if (!s->items[at - 1].wanted) continue;
        int rows = slot->drafted + 1, before = slot->held - rows;
        for (int r = 0; r < rows && deliver(s, slot, row + r, before + r + 1); r++) {}
        row += rows;
    }
}

/* What a call costs says how long drafts should be; one that holds parts of prompts says nothing. */
static void note_pace(wane_scheduler *s, int count, bool compared, double seconds) {
    for (int i = 0; i < count; i++)
        if (!s->items[i].wanted) return;
    if (!compared && !s->model->rows.unusual) wane__draft_pace_note(&s->model->drafts.pace, count, seconds);
}

/* --------------------------------------------------------------------- recall */

/* Tokens that the memo gives one slot in a turn: others wait no longer for them than for a row. */
#define RECALLED_MOST 32

/* What the memo knows of a reply's way goes out without the engine; `knows`: there is more of it. */
static void recall_slot(wane_scheduler *s, struct wane__slot *slot) {
    wane_error error = {0};
    wane_event event;
    for (int i = 0; i < RECALLED_MOST; i++) {
        wane_ticket *t = slot->ticket;
        if (t == NULL || is_cancelled(t) || !is_runnable(slot)) break;
        int32_t token = wane__recall_next(&t->reply, true);
        if (token < 0) break;
        int code = wane__layer_repeat(&t->reply, token, &event, &error);
        wane__ahead_see(&slot->ahead, token);
        if (code != WANE_OK)
            fail_slot(s, slot, code, &error);
        else
            hand_out(s, slot, &event);
    }
    slot->knows = slot->ticket != NULL && wane__recall_next(&slot->ticket->reply, false) >= 0;
}

/* All slots. True: there is more to do for one of them without waiting for anything. */
static bool recall(wane_scheduler *s) {
    bool more = false;
    for (int i = 0; i < s->slot_count; i++) {
        struct wane__slot *slot = &s->slot[i];
        slot->knows = false;
        if (slot->ticket == NULL) continue;
        recall_slot(s, slot);
        more = more || (slot->knows && is_runnable(slot));
    }
    return more;
}

/* --------------------------------------------------------------------- thread */

static bool turn(wane_scheduler *s) {
    struct list fresh = {NULL, &fresh.first};
    if (!gather(s, &fresh)) return false;
    double woke = wane__now();
    for (wane_ticket *t = fresh.first, *next; t != NULL; t = next) {
        next = t->next;
        t->next = NULL;
        wane__slot_begin(s, t);
    }
    reap(s);
    wane__votes_settle(s);
    bool more = recall(s);
    int count = plan(s);
    s->runnable = count > 0 || more;
    bool compared = s->model->rows.keep;
    double began = wane__now();
    if (count > 0 && decode(s, count)) {
        deliver_rows(s, count);
        note_pace(s, count, compared, wane__now() - began);
    }
    wane__votes_settle(s); /* before a slot is given to an answer that is not needed any more */
    s->tally.busy_seconds += wane__now() - woke;
    wane__memo_saver_tick(s->model->memo, WANE__MEMO_SAVER_TURN);
    return true;
}

void *wane__scheduler_run(void *scheduler) {
    wane_scheduler *s = scheduler;
    while (turn(s)) {}
    pthread_mutex_lock(&s->lock);
    wane__scheduler_settle(s);
    s->gone = true;
    pthread_cond_broadcast(&s->idle);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}
