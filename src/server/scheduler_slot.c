/*
 * scheduler_slot.c - a request takes a slot and leaves it: prefix reuse, roll-back, and what stays behind.
 *
 * Keeps `held` equal to what the engine holds of a sequence, whatever happens; refuses to guess: where the
 * engine says that it kept less, less it is, and the rest is computed again.
 */
#include "server/scheduler_internal.h"

#include "core/clock.h"
#include "core/memory.h"
#include "server/prefix.h"

#include <string.h>

static int truncate_to(wane_scheduler *s, int seq, int keep) {
    int kept = s->engine->ops->truncate(s->engine, seq, keep);
    return kept > 0 ? kept : 0;
}

static void drop_cache(struct wane__slot *slot) {
    wane_tokens_free(&slot->cache);
    wane__free(slot->tenant);
    slot->tenant = NULL;
}

void wane__slot_forget(wane_scheduler *s, struct wane__slot *slot) {
    slot->held = truncate_to(s, slot->seq, 0);
    slot->used = slot->kept_for = 0;
    drop_cache(slot);
}

void wane__slots_unshare(wane_scheduler *s, const wane_ticket *first) {
    for (int i = 0; i < s->slot_count; i++)
        if (s->slot[i].ticket == NULL && s->slot[i].kept_for == first->serial)
            wane__slot_forget(s, &s->slot[i]);
}

void wane__slot_truncate(wane_scheduler *s, struct wane__slot *slot, int keep) {
    if (keep < slot->held) slot->held = truncate_to(s, slot->seq, keep);
}

void wane__slot_rollback(wane_scheduler *s, struct wane__slot *slot) {
    slot->held = truncate_to(s, slot->seq, slot->held);
}

/* ---------------------------------------------------------------------- begin */

/* Without prefix reuse, answers of one request still share what they have in common. */
static bool may_share(const wane_scheduler *s, const wane_ticket *t, const struct wane__slot *slot) {
    if (!s->options.no_prefix_reuse) return true;
    if (t->first == NULL) return false;
    return slot->ticket != NULL ? wane__ticket_asked(slot->ticket) == t->first
                                : slot->kept_for == t->first->serial;
}

static struct wane__prefix_choice choose(const wane_scheduler *s, const wane_ticket *t, bool may_copy) {
    struct wane__prefix_slot view[WANE__MAX_SLOTS];
    for (int i = 0; i < s->slot_count; i++) {
        const struct wane__slot *slot = &s->slot[i];
        const wane_tokens *tokens = slot->ticket ? &slot->ticket->reply.context : &slot->cache;
        view[i] = (struct wane__prefix_slot){
            .tokens = tokens->id,
            .count = may_share(s, t, slot) ? slot->held : 0,
            .tenant = slot->ticket ? slot->ticket->tenant : slot->tenant,
            .busy = slot->ticket != NULL,
            .used = slot->used,
        };
    }
    const wane_tokens *prompt = &t->reply.context;
    return wane__prefix_choose(view, s->slot_count, prompt->id, (int)prompt->count, t->tenant, may_copy);
}

/* Make the chosen slot hold what is kept; false when the engine could not copy. */
static bool prepare(wane_scheduler *s, struct wane__prefix_choice choice) {
    struct wane__slot *slot = &s->slot[choice.slot];
    if (choice.from == choice.slot) {
        slot->held = truncate_to(s, slot->seq, choice.keep);
        return true;
    }
    wane__slot_forget(s, slot);
    int kept = s->engine->ops->copy(s->engine, s->slot[choice.from].seq, slot->seq, choice.keep);
    slot->held = kept > 0 ? kept : truncate_to(s, slot->seq, 0);
    return kept > 0;
}

void wane__slot_begin(wane_scheduler *s, wane_ticket *t) {
    struct wane__prefix_choice choice = choose(s, t, true);
    if (!prepare(s, choice)) {
        choice = choose(s, t, false);
        prepare(s, choice);
    }
    struct wane__slot *slot = &s->slot[choice.slot];
    drop_cache(slot);
    slot->ticket = t;
    slot->kept_for = 0;
    slot->suspect_until = 0;
    slot->served = 0;
    wane__ahead_begin(&slot->ahead, &s->model->drafts, &t->reply, t->tenant != NULL ? t->tenant : "");
    wane__recall_begin(&t->reply, s->model->memo, t->tenant != NULL ? t->tenant : "");
    slot->knows = false;
    t->reused = slot->held;
    t->admitted = wane__now();
    if (t->first != NULL && !wane__vote_in_line(s, t->first)) wane__slots_unshare(s, t->first);
}

/* --------------------------------------------------------------------- finish */

void wane__scheduler_count(wane_scheduler_state *counts, int code) {
    if (code == WANE_OK)
        counts->completed++;
    else if (code == WANE_ECANCELLED)
        counts->cancelled++;
    else if (code == WANE_ETIMEOUT)
        counts->timed_out++;
    else
        counts->failed++;
}

void wane__scheduler_settle(wane_scheduler *s) {
    wane_scheduler_state *to = &s->counts, *from = &s->tally;
    to->prompt_tokens += from->prompt_tokens;
    to->reused_tokens += from->reused_tokens;
    to->reply_tokens += from->reply_tokens;
    to->votes += from->votes;
    to->votes_changed += from->votes_changed;
    to->votes_by_value += from->votes_by_value;
    to->votes_by_reward += from->votes_by_reward;
    to->spare_tokens += from->spare_tokens;
    to->engine_calls += from->engine_calls;
    to->engine_rows += from->engine_rows;
    to->engine_seconds += from->engine_seconds;
    to->busy_seconds += from->busy_seconds;
    to->kv_held = to->kv_cells = 0;
    for (int i = 0; i < s->slot_count; i++) {
        if (s->slot[i].held == 0) continue;
        to->kv_held += (uint64_t)s->slot[i].held;
        to->kv_cells += (uint64_t)s->engine->facts.context;
    }
    *from = (wane_scheduler_state){0};
}

/* Prompt and reply stay behind, for the next turn of this conversation. */
static void leave_cache(wane_scheduler *s, struct wane__slot *slot, wane_ticket *t) {
    slot->cache = t->reply.context;
    slot->cache.count = (size_t)slot->held;
    t->reply.context = (wane_tokens){0};
    slot->tenant = t->tenant;
    t->tenant = NULL;
    slot->used = ++s->stamp;
}

/* The slot is free; what it held stays as a cache, unless the engine failed on it. */
static void vacate(wane_scheduler *s, struct wane__slot *slot, int code) {
    wane_ticket *t = slot->ticket;
    bool sound =
        code == WANE_OK || code == WANE_ECANCELLED || code == WANE_ETIMEOUT || code == WANE_ESHUTDOWN;
    const wane_ticket *asked = wane__ticket_asked(t);
    bool reuse = !s->options.no_prefix_reuse, others = !reuse && wane__vote_in_line(s, asked);
    slot->ticket = NULL;
    wane__ahead_end(&slot->ahead, sound ? &t->reply : NULL);
    if (sound && slot->held > 0 && (reuse || others))
        leave_cache(s, slot, t);
    else
        wane__slot_forget(s, slot);
    slot->kept_for = others ? asked->serial : 0;
}

void wane__slot_release(wane_scheduler *s, struct wane__slot *slot, int code) {
    vacate(s, slot, code);
    pthread_mutex_lock(&s->lock);
    wane__scheduler_settle(s);
    s->busy--;
    pthread_mutex_unlock(&s->lock);
}

void wane__slot_finish(wane_scheduler *s, struct wane__slot *slot, const wane_event *end, int code,
                       const char *text) {
    wane_ticket *t = slot->ticket;
    if (t->vote != NULL) {
        if (wane__vote_over(s, slot, end, code)) return;
        if (code == WANE_OK && !wane__ticket_post_kept(t, &t->vote->answer[0].events)) {
            code = WANE_ENOMEM;
            text = "No memory for the reply.";
            end = NULL;
        }
    }
    vacate(s, slot, code);
    pthread_mutex_lock(&s->lock);
    wane__scheduler_settle(s);
    wane__scheduler_count(&s->counts, code);
    s->busy--;
    pthread_mutex_unlock(&s->lock);
    wane__ticket_finish(t, end, code, text);
}
