/*
 * ticket.h - one request's hold on the scheduler, and the way its events take to the reader.
 *
 *     engine thread ── post ──► inbox │ swap under the lock │ outbox ── next ──► reader
 *
 * Two byte buffers change places whenever the reader has used up its own, so the text that the reader was
 * given stays where it is until its next call, and the two sides meet for a pointer swap only. Both keep
 * their memory: after a few events nothing allocates.
 *
 * Back-pressure: an inbox with WANE__TICKET_BACKLOG events is full. The scheduler leaves a full ticket's
 * sequence out of its calls until the reader has taken the inbox; nothing is lost, nobody else waits. A
 * ticket's memory is thus bounded by two such buffers. The end, or an error, always fits.
 *
 * A ticket has two holders, the reader and the scheduler, and goes with the last of them.
 */
#ifndef WANE_SERVER_TICKET_H
#define WANE_SERVER_TICKET_H

#include "core/buf.h"
#include "layer.h"
#include "vote.h"
#include "wane.h"

#include <pthread.h>
#include <stdatomic.h>

#define WANE__TICKET_BACKLOG 4096

/* What became of a request, for whoever asked to be told. */
struct wane__ended {
    int code; /* WANE_OK, or how it failed */
    wane_finish finish;
    int prompt_tokens, reused_tokens, reply_tokens;
    int fuse, fallback;  /* WANE_FINISH_FUSE: as in wane_event */
    int answers, chosen; /* the same of a vote */
    double ms;           /* from submission to the end */
    struct wane__account account;
};

/*
 * Called once for a request that was accepted, when both holders have let go of its ticket: nothing of it goes on any more. By the thread that was
 * last, which may be the engine's: be quick.
 */
struct wane__watch {
    void (*ended)(void *user, const struct wane__ended *ended); /* NULL: nobody watches */
    void *user;
};

struct wane_ticket {
    struct wane_scheduler *scheduler;
    atomic_int holders;
    atomic_bool cancelled; /* the reader gave up; the engine thread sees it between two calls */
    atomic_bool over;      /* the scheduler will not touch this ticket again */

    /* Under `lock`. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct wane__buf inbox;
    int inbox_events;
    bool paused; /* the scheduler found the inbox full and wants to hear when it was taken */
    int code;    /* how it ended, once `over` */
    wane_error error;

    /* The reader's. */
    struct wane__buf outbox;
    size_t cursor; /* into outbox */
    bool given;    /* the end was given */

    /* The scheduler's: under its lock while queued, the engine thread's afterwards. */
    struct wane_ticket *next;
    bool queued;
    uint64_t serial;                                /* in order of submission */
    double submitted, deadline, admitted, first_at; /* seconds; no deadline: INFINITY */
    char *tenant;
    struct wane__reply reply;
    bool started; /* START was posted */
    int reused;   /* prompt tokens that were not computed again */
    struct wane__watch watch;
    struct wane__ended ended; /* as far as it is known */

    /* A vote over answers (scheduler_vote.c); NULL: none. The first answer's ticket is the reader's, and owns it. */
    struct wane__vote *vote;
    struct wane_ticket *first; /* of another answer: the first one's; else NULL */
    int answer;
    struct wane_ticket *next_voting;
    bool parked; /* the first answer is whole, and waits for the others: no slot */
};

/* As wane_scheduler_submit, for somebody who watches (NULL: nobody); not told of what is refused here. */
int wane__scheduler_submit(struct wane_scheduler *scheduler, const int32_t *tokens, size_t count,
                           const wane_generation *generation, const struct wane__watch *watch,
                           wane_ticket **ticket, wane_error *error);
/* Copies tokens and settings; WANE_ECONTEXT, WANE_EINVAL or WANE_ENOMEM. Held by reader and scheduler. */
int wane__ticket_new(struct wane_scheduler *scheduler, struct wane__rows *rows, const int32_t *tokens,
                     size_t count, const wane_generation *generation, wane_ticket **ticket,
                     wane_error *error);
/* Another answer of a request: `reply` becomes its own. Held by the scheduler alone. */
int wane__ticket_branch(wane_ticket *first, int answer, const struct wane__reply *reply, wane_ticket **ticket,
                        wane_error *error);
/* Whose wish it is: the ticket that a reader holds. */
static inline wane_ticket *wane__ticket_asked(wane_ticket *ticket) {
    return ticket->first != NULL ? ticket->first : ticket;
}
/* Let go of it: frees it when the other holder has let go too. */
void wane__ticket_release(wane_ticket *ticket);

/* Engine thread: what END says of its waiting and its times, as of now. */
void wane__ticket_times(const wane_ticket *ticket, wane_event *end);
/* Engine thread: add an event; its text, logprobs and stop string are copied. False: no memory. */
bool wane__ticket_post(wane_ticket *ticket, const wane_event *event);
/* The same into a buffer that is to be posted later, and from it. */
bool wane__event_keep(struct wane__buf *buf, const wane_event *event);
bool wane__event_copy(struct wane__buf *to, const struct wane__buf *from, int events);
bool wane__ticket_post_kept(wane_ticket *ticket, const struct wane__buf *kept);
/* Engine thread: must this sequence wait for its reader? If so, the scheduler is woken when it may go on. */
bool wane__ticket_full(wane_ticket *ticket);
/*
 * The scheduler is done with it: `end` (WANE_OK) or an error is the last thing that the reader gets.
 * Frees the reply and lets go of the ticket.
 */
void wane__ticket_finish(wane_ticket *ticket, const wane_event *end, int code, const char *text);

#endif
