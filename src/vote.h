/*
 * vote.h - one request's vote over answers: when it wakes, where the answers part, what each of them is, which one stands.
 *
 *     first answer   ──────●───────────────►        ● the first token that is in doubt (LEGACY: the first token)
 *     second               └───────────────►          the tokens before it are shared, in the engine too
 *     third                └───────────────►
 *
 * A further answer is a reply to the same prompt with a seed of its own, in which the shared tokens are repeated without a row
 * or a draw, as from a memo. It is stopped and cut as the first one is.
 *
 * Owns what the answers said. Refuses to schedule: who decodes answers, and when, is the scheduler's affair.
 */
#ifndef WANE_VOTE_H
#define WANE_VOTE_H

#include "core/buf.h"
#include "correct/answers.h"
#include "layer.h"
#include "reward.h"

struct wane__vote {
    wane_generation wish; /* of the request, a deep copy */
    wane_quality quality;
    struct wane__value_pattern *pattern;
    const struct wane__reward *reward; /* of the model; NULL: none */
    bool awake;                        /* the other answers were made */
    int forked_at;                     /* reply tokens that all answers share */
    int decoded;                       /* tokens, for all of them */
    char name[65];                     /* of the request in traces; "": it is not recorded */
    struct {
        enum wane__answer_state state;
        wane_tokens tokens;      /* of the reply */
        struct wane__buf text;   /* whole */
        struct wane__buf events; /* as the reader would have got them; WANE_HOLD_VOTE only */
        wane_event end;          /* its END; pointers into `text` and `stop` */
        struct wane__buf stop;
    } answer[WANE__ANSWERS];
    bool news; /* an answer ended since the last look */
    struct wane__vote_result result;
};

/* Does this request have a vote at all? */
bool wane__vote_possible(const wane_generation *generation);
/* Is the pattern of final values, where there is one, a pattern? */
int wane__vote_check(const wane_quality *quality, wane_error *error);
/* Copies what it needs. WANE_EINVAL for a wrong pattern. */
int wane__vote_new(const wane_generation *generation, struct wane__vote **vote, wane_error *error);
void wane__vote_free(struct wane__vote *vote);

/*
 * `first` writes the first answer. In LEGACY, where all answers are written from their first token on, a recorder notes them as
 * those of one vote, and at its end how it went: what gates are trained from.
 */
void wane__vote_begin(struct wane__vote *vote, struct wane__reply *first);
void wane__vote_record(const struct wane__vote *vote, struct wane_recorder *recorder);
/* Should the other answers be made now? `first` has just taken a token. Fills forked_at when it says so. */
bool wane__vote_wakes(struct wane__vote *vote, const struct wane__reply *first);
/* The seed of another answer, known from the first one's. */
uint64_t wane__vote_seed(uint64_t seed, int answer);
/* Make the reply that writes answer 1 or 2; its shared tokens are accepted, their text is taken. */
int wane__vote_fork(struct wane__vote *vote, int answer, const struct wane__reply *first,
                    struct wane__reply *reply, wane_error *error);
/* An answer went on by an event. False: no memory. */
bool wane__vote_take(struct wane__vote *vote, int answer, const wane_event *event);
/* It came to its end, or will not (`end` NULL). */
void wane__vote_end(struct wane__vote *vote, int answer, const wane_event *end);
/* With what is known now: -1, or the answer that stands. */
int wane__vote_decide(struct wane__vote *vote);
/* Fill what END says of the vote; pointers into the vote. `told`: the answer that the reader got. */
void wane__vote_note(const struct wane__vote *vote, int told, wane_event *end);

#endif
