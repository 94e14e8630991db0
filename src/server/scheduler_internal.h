/*
 * scheduler_internal.h - the scheduler from inside: what its lock guards, and what the engine thread owns.
 *
 *     submit ─► queue ─┐                  engine thread, over and over:
 *                      ▼   under lock
 *                   gather ─► begin ─► reap ─► plan ─► decode ─► step rows ─► deliver
 *                             (slots)                  no lock held
 *
 * One mutex guards the queue, the counters and the picture of the running engine call. It is never held
 * during engine work. Slots belong to the engine thread alone; others see only how many are busy.
 *
 * What is counted how: accepted = completed + cancelled + failed + timed_out + what still runs. A request
 * that was ended by a stop counts as failed. Prompt and reused tokens count when the prompt is in.
 */
#ifndef WANE_SERVER_SCHEDULER_INTERNAL_H
#define WANE_SERVER_SCHEDULER_INTERNAL_H

#include "model.h"
#include "ops/watchdog.h"
#include "server/ticket.h"

#define WANE__MAX_SLOTS 64

/* One sequence of the engine. Its tokens are the running reply's context, or the cache when it is free. */
struct wane__slot {
    int seq;
    wane_ticket *ticket; /* NULL: free */
    int held;            /* how many of its tokens the engine holds */
    wane_tokens cache;   /* of the last request, `held` of them valid */
    char *tenant;        /* whose they are */
    uint64_t used;       /* stamp of its last release; 0: empty */
    uint64_t kept_for; /* without prefix reuse: the request whose other answers may have the cache; 0: none */
    uint64_t served;   /* the last engine call that it was in */
    int suspect_until; /* a call with it failed: it goes alone until it holds so many */
    int planned;       /* tokens of it in the call being made */
    bool knows;        /* the memo has its next token: nothing to decode */
    int drafted;       /* of these, behind its context's last one: proposed, not drawn */
    uint64_t turn;     /* the last call in which it had something drafted */
    struct wane__ahead ahead;
};

/* The engine call under way, for those who may want to end it. */
struct wane__call {
    wane_ticket *member[WANE__MAX_SLOTS];
    int members;
    double started; /* 0: none is under way */
    bool interrupted;
};

struct wane_scheduler {
    wane_model *model;
    struct wane__engine *engine;
    wane_scheduler_options options;
    struct wane__log log;
    int slot_count;

    /* Under `lock`. */
    pthread_mutex_t lock;
    pthread_cond_t work, idle; /* for the engine thread; for those who stop it */
    wane_ticket *first, *last; /* the queue */
    int queued, reserved;      /* reserved: being checked, will join the queue */
    int busy;                  /* slots taken */
    uint64_t serial;
    bool poked; /* something changed since the engine thread last looked */
    bool stopping, gone;
    double cutoff; /* what still runs then, ends */
    struct wane__call call;
    struct wane__watchdog watchdog; /* of the call */
    wane_scheduler_state counts;

    /* The engine thread's. */
    pthread_t thread;
    struct wane__slot slot[WANE__MAX_SLOTS];
    struct wane__item *items;
    struct wane__slot *planned[WANE__MAX_SLOTS]; /* the call being made, in order of its items */
    int planned_count;
    bool runnable;  /* some slot had something to do when last looked */
    bool rehearsal; /* the call being made is one: nothing of it counts */
    uint64_t calls, stamp;
    wane_ticket *branches;      /* other answers that wait for a slot, by `next` */
    wane_ticket *voting;        /* first answers whose vote is awake, by `next_voting` */
    wane_scheduler_state tally; /* counted since the last settle */
};

/* From a ticket's reader: give up; or, room was made in a full inbox. */
void wane__scheduler_cancel(struct wane_scheduler *scheduler, wane_ticket *ticket);
void wane__scheduler_wake(struct wane_scheduler *scheduler);

/* Under the lock: take a ticket out of the queue. */
void wane__scheduler_unlink(struct wane_scheduler *scheduler, wane_ticket *ticket);
/* Under the lock: were all members of the running call cancelled? */
bool wane__scheduler_abandoned(const struct wane_scheduler *scheduler);

/* The engine thread's function. */
void *wane__scheduler_run(void *scheduler);

/* scheduler_slot.c: a request takes a slot, and leaves it. Engine thread only. */
void wane__slot_begin(struct wane_scheduler *scheduler, wane_ticket *ticket);
/* Bring the engine back to what the slot held before a call that failed. */
void wane__slot_rollback(struct wane_scheduler *scheduler, struct wane__slot *slot);
/* Forget tokens beyond the first `keep`: drafted ones that were not drawn. */
void wane__slot_truncate(struct wane_scheduler *scheduler, struct wane__slot *slot, int keep);
void wane__slot_forget(struct wane_scheduler *scheduler, struct wane__slot *slot);
/*
 * End a slot's request: with END, or with an error. Its tokens stay as a cache unless the engine failed on
 * them. State first, then the reader: who has seen the end sees it counted and the slot free.
 */
void wane__slot_finish(struct wane_scheduler *scheduler, struct wane__slot *slot, const wane_event *end,
                       int code, const char *text);
/* What was kept for a request's other answers is not needed any more. */
void wane__slots_unshare(struct wane_scheduler *scheduler, const wane_ticket *first);
/* Only give the slot back; the ticket is somebody's still. `code`: how the decoding ended. */
void wane__slot_release(struct wane_scheduler *scheduler, struct wane__slot *slot, int code);

/* scheduler_vote.c. A token of a ticket with a vote was drawn: keep it, tell the reader. False: no memory. */
bool wane__vote_tell(struct wane_scheduler *scheduler, wane_ticket *ticket, const wane_event *event);
/* In line for a slot: the next one whose turn it is (NULL: none), and whether any of a request's is. */
wane_ticket **wane__vote_next(struct wane_scheduler *scheduler);
bool wane__vote_in_line(const struct wane_scheduler *scheduler, const wane_ticket *first);
/* Its decoding is over. True: that was dealt with; else it goes on as for a request without a vote. */
bool wane__vote_over(struct wane_scheduler *scheduler, struct wane__slot *slot, const wane_event *end,
                     int code);
/* Before the first request: what a fork does to the engine, once. */
void wane__vote_drill(struct wane_scheduler *scheduler);
/* Between two calls: end what is decided. */
void wane__votes_settle(struct wane_scheduler *scheduler);
/* End what waits without a slot and must not any more; `why` gives the code, WANE_OK to go on. */
void wane__votes_reap(struct wane_scheduler *scheduler,
                      int (*why)(const wane_ticket *ticket, double now, double cutoff), double now,
                      double cutoff, const char *(*reason)(int code));
/* Count one more request that ended in this way. */
void wane__scheduler_count(wane_scheduler_state *counts, int code);
/* Under the lock: move what the engine thread counted to where others see it. */
void wane__scheduler_settle(struct wane_scheduler *scheduler);

/* Tokens that the engine must still take in before this slot's next row. */
static inline int wane__slot_pending(const struct wane__slot *slot) {
    return (int)slot->ticket->reply.context.count - slot->held;
}

#endif
