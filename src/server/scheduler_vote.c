/*
 * scheduler_vote.c - a request with several answers: who decodes them, where they wait, and how the request ends.
 *
 *     first answer ── token ── in doubt ──► two branches ──► wait for slots, before the queue ──► slots
 *          │ whole: gives its slot back,                                        │ whole, or gone
 *          ▼ its ticket is parked                                               ▼
 *     ─────●───────────────────── each turn: is the vote decided? ◄─────────────┘
 *                                   yes: the others end, the reader gets END
 *
 * A reader who follows the first answer (WANE_HOLD_NOTE) is not made to wait between its tokens for answers that are only noted
 * behind it: the others come after it, one after another, so that no call gets wider by a vote, and the third one is written only where the
 * second does not decide it. Who waits for the chosen answer has them all at once; so has LEGACY, which pays for three always.
 *
 * Owns branches and parked tickets; engine thread only. Refuses to end another slot while rows are handed out: votes are settled
 * between two calls.
 */
#include "server/scheduler_internal.h"

#include <stdio.h>

static void unlink_voting(wane_scheduler *s, wane_ticket *first) {
    wane_ticket **at = &s->voting;
    while (*at != NULL && *at != first) at = &(*at)->next_voting;
    if (*at == first) *at = first->next_voting;
    first->next_voting = NULL;
}

static void add_branch(wane_scheduler *s, wane_ticket *branch) {
    wane_ticket **end = &s->branches;
    while (*end != NULL) end = &(*end)->next;
    branch->next = NULL;
    *end = branch;
}

/* Is this one's turn still to come? */
static bool waits(const wane_ticket *branch) {
    const struct wane__vote *vote = branch->vote;
    if (vote->quality.mode == WANE_MODE_LEGACY || vote->wish.hold == WANE_HOLD_VOTE) return false;
    bool turn = branch->first->parked;
    for (int i = 1; i < branch->answer; i++) turn = turn && vote->answer[i].state != WANE__ANSWER_OPEN;
    return !turn;
}

wane_ticket **wane__vote_next(wane_scheduler *s) {
    for (wane_ticket **at = &s->branches; *at != NULL; at = &(*at)->next)
        if (!waits(*at)) return at;
    return NULL;
}

bool wane__vote_in_line(const wane_scheduler *s, const wane_ticket *first) {
    for (const wane_ticket *t = s->branches; t != NULL; t = t->next)
        if (t->first == first) return true;
    return false;
}

/* The other answers are not needed any more, or cannot be had: out of slots and line they go. */
static void drop_branches(wane_scheduler *s, wane_ticket *first) {
    for (wane_ticket **at = &s->branches; *at != NULL;) {
        wane_ticket *t = *at;
        if (t->first != first) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        wane__vote_end(t->vote, t->answer, NULL);
        wane__ticket_release(t);
    }
    for (int i = 0; i < s->slot_count; i++) {
        struct wane__slot *slot = &s->slot[i];
        if (slot->ticket != NULL && slot->ticket->first == first)
            wane__slot_finish(s, slot, NULL, WANE_ECANCELLED, "");
    }
    wane__slots_unshare(s, first);
}

/* ---------------------------------------------------------------------- waking */

static bool make_branch(wane_scheduler *s, wane_ticket *first, int answer, wane_error *error) {
    struct wane__vote *vote = first->vote;
    struct wane__reply reply;
    wane_ticket *branch = NULL;
    if (wane__vote_fork(vote, answer, &first->reply, &reply, error) != WANE_OK) return false;
    if (wane__ticket_branch(first, answer, &reply, &branch, error) != WANE_OK) {
        wane__reply_free(&reply);
        return false;
    }
    bool kept = vote->wish.hold != WANE_HOLD_VOTE ||
                wane__event_copy(&vote->answer[answer].events, &vote->answer[0].events, vote->forked_at);
    if (kept)
        add_branch(s, branch);
    else
        wane__ticket_release(branch);
    return kept;
}

static void consider(wane_scheduler *s, wane_ticket *first) {
    struct wane__vote *vote = first->vote;
    if (!wane__vote_wakes(vote, &first->reply)) return;
    vote->awake = true;
    if (!first->reply.gate.on) {
        wane_model_note_wake(s->model, WANE_WAKE_ALWAYS);
        first->reply.account.wakes[WANE_WAKE_ALWAYS]++;
    }
    first->next_voting = s->voting;
    s->voting = first;
    s->tally.votes++;
    for (int answer = 1; answer < WANE__ANSWERS; answer++) {
        wane_error error = {0};
        if (make_branch(s, first, answer, &error)) continue;
        wane__log(&s->log, WANE_LOG_WARN, "request %llu: answer %d of the vote cannot be made: %s",
                  (unsigned long long)first->serial, answer + 1, error.text);
        wane__vote_end(vote, answer, NULL);
    }
}

bool wane__vote_tell(wane_scheduler *s, wane_ticket *t, const wane_event *event) {
    struct wane__vote *vote = t->vote;
    vote->decoded++;
    if (event->kind == WANE_EVENT_TEXT) {
        bool fine = wane__vote_take(vote, t->answer, event);
        if (fine && vote->wish.hold == WANE_HOLD_VOTE)
            fine = wane__event_keep(&vote->answer[t->answer].events, event);
        else if (fine && t->first == NULL)
            fine = wane__ticket_post(t, event);
        if (!fine) return false;
    }
    if (t->first == NULL) consider(s, t);
    return true;
}

/* ---------------------------------------------------------------------- ending */

/* A request without a slot ends. */
static void finish_parked(wane_scheduler *s, wane_ticket *first, const wane_event *end, int code,
                          const char *text) {
    pthread_mutex_lock(&s->lock);
    wane__scheduler_settle(s);
    wane__scheduler_count(&s->counts, code);
    pthread_mutex_unlock(&s->lock);
    wane__ticket_finish(first, end, code, text);
}

bool wane__vote_over(wane_scheduler *s, struct wane__slot *slot, const wane_event *end, int code) {
    wane_ticket *t = slot->ticket;
    if (t->first != NULL) {
        wane__vote_end(t->vote, t->answer, code == WANE_OK ? end : NULL);
        wane__slot_release(s, slot, code);
        wane__ticket_release(t);
        return true;
    }
    if (!t->vote->awake) return false;
    if (code != WANE_OK) {
        unlink_voting(s, t);
        drop_branches(s, t);
        return false;
    }
    wane__vote_end(t->vote, 0, end);
    wane__slot_release(s, slot, code);
    t->parked = true;
    return true;
}

/* The answer that stands is known, and the first one is whole or not wanted any more. */
static void conclude(wane_scheduler *s, wane_ticket *first) {
    struct wane__vote *vote = first->vote;
    bool held = vote->wish.hold == WANE_HOLD_VOTE;
    int told = held ? vote->result.chosen : 0;
    unlink_voting(s, first);
    for (int i = 0; i < s->slot_count; i++)
        if (s->slot[i].ticket == first) wane__slot_release(s, &s->slot[i], WANE_ECANCELLED);
    wane_event end = vote->answer[told].end;
    wane__ticket_times(first, &end);
    wane__vote_note(vote, told, &end);
    wane__vote_record(vote, s->model->rows.recorder);
    s->tally.votes_changed += vote->result.chosen != 0;
    s->tally.votes_by_value += vote->result.by_value;
    s->tally.votes_by_reward += vote->result.by_reward;
    s->tally.spare_tokens += (uint64_t)end.spare_tokens;
    bool fine = !held || wane__ticket_post_kept(first, &vote->answer[told].events);
    if (fine)
        finish_parked(s, first, &end, WANE_OK, "");
    else
        finish_parked(s, first, NULL, WANE_ENOMEM, "No memory for the chosen answer.");
}

void wane__votes_settle(wane_scheduler *s) {
    for (wane_ticket *first = s->voting, *next; first != NULL; first = next) {
        next = first->next_voting;
        struct wane__vote *vote = first->vote;
        if (wane__vote_decide(vote) < 0) continue;
        drop_branches(s, first);
        /* A reader who follows the first answer gets all of it. */
        bool follows = vote->wish.hold == WANE_HOLD_NOTE && !first->parked;
        if (!follows) conclude(s, first);
    }
}

void wane__votes_reap(wane_scheduler *s, int (*why)(const wane_ticket *ticket, double now, double cutoff),
                      double now, double cutoff, const char *(*reason)(int code)) {
    for (wane_ticket *first = s->voting, *next; first != NULL; first = next) {
        next = first->next_voting;
        int code = first->parked ? why(first, now, cutoff) : WANE_OK;
        if (code == WANE_OK) continue;
        drop_branches(s, first);
        if (code != WANE_ECANCELLED) continue; /* out of time: its own answer is whole, and stands */
        unlink_voting(s, first);
        finish_parked(s, first, NULL, code, reason(code));
    }
}

/* ---------------------------------------------------------------------- the drill */

/* A prompt, copies of it, one row of each, and forgotten: graphs and buffers of that shape are made now. Whatever fails costs nothing. */
void wane__vote_drill(wane_scheduler *s) {
    struct wane__engine *engine = s->engine;
    wane_error ignored = {0};
    int answers = s->slot_count < WANE__ANSWERS ? s->slot_count : WANE__ANSWERS;
    int32_t token = engine->facts.bos >= 0 ? engine->facts.bos : 0;
    struct wane__item first[2] = {{.token = token, .pos = 0}, {.token = token, .pos = 1, .wanted = true}};
    int code = wane__rows_decode(&s->model->rows, first, 2, &ignored);
    int made = 1;
    while (code == WANE_OK && made < answers && engine->ops->copy(engine, 0, made, 2) == 2) made++;
    for (int i = 0; code == WANE_OK && i < made; i++)
        s->items[i] = (struct wane__item){.token = token, .pos = 2, .seq = i, .wanted = true};
    if (code == WANE_OK && made <= engine->batch)
        wane__rows_decode(&s->model->rows, s->items, made, &ignored);
    for (int i = 0; i < made; i++) engine->ops->truncate(engine, i, 0);
    wane_model_note_wake(s->model, WANE_WAKE_WARM_UP);
}
