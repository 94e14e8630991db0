/*
 * live.h - the last fifteen minutes as samples: a ring that one thread fills and any number of readers follow.
 *
 *     counters, a second apart ─► differences ─► ring of 900 ─► rows of JSON
 *
 * Knows numbers and their names, no server: tests fill it by hand. Bounded: one block of memory, taken at the start. A reader that is
 * too slow finds its samples gone, and is told how many.
 */
#ifndef WANE_SERVER_LIVE_H
#define WANE_SERVER_LIVE_H

#include "core/buf.h"
#include "wane.h"

#include <pthread.h>
#include <stdint.h>

enum {
    WANE__LIVE_SAMPLES = 900,
    WANE__LIVE_BUCKETS = 96, /* of times, a quarter of an octave each, from a quarter of a millisecond on */
    WANE__LIVE_PER_OCTAVE = 4,
    WANE__LIVE_VIEWERS_MOST = 64,
    WANE__LIVE_BEHIND_MOST = 30, /* samples that a reader may be behind: then it goes on with the newest */
};
#define WANE__LIVE_LEAST_MS 0.25

/* In the order of a row. */
enum wane__live_field {
    WANE__LIVE_SLOTS_BUSY,
    WANE__LIVE_QUEUED,
    WANE__LIVE_KV_HELD,
    WANE__LIVE_KV_CELLS,
    WANE__LIVE_VIEWERS,
    WANE__LIVE_ROLLOUT, /* a stage for each feature */
    WANE__LIVE_ROLLOUT_LAST = WANE__LIVE_ROLLOUT + WANE_FEATURES - 1,
    WANE__LIVE_GAUGES, /* those before are as of now; those behind count */
    WANE__LIVE_ACCEPTED = WANE__LIVE_GAUGES,
    WANE__LIVE_REFUSED,
    WANE__LIVE_COMPLETED,
    WANE__LIVE_CANCELLED,
    WANE__LIVE_FAILED,
    WANE__LIVE_PROMPT_TOKENS,
    WANE__LIVE_REUSED_TOKENS,
    WANE__LIVE_REPLY_TOKENS,
    WANE__LIVE_ENGINE_CALLS,
    WANE__LIVE_ENGINE_ROWS,
    WANE__LIVE_ENGINE_MS,
    WANE__LIVE_HEAD_ROWS,
    WANE__LIVE_HEAD_SURVIVORS1,
    WANE__LIVE_HEAD_SURVIVORS2,
    WANE__LIVE_HEAD_COMPUTED,
    WANE__LIVE_HEAD_DENSE,
    WANE__LIVE_COMPARED,
    WANE__LIVE_DIVERGENCES,
    WANE__LIVE_DRAFT_PROPOSED,
    WANE__LIVE_DRAFT_ACCEPTED,
    WANE__LIVE_TABLE_STRICT,
    WANE__LIVE_TABLE_RANK,
    WANE__LIVE_TABLE_MISS,
    WANE__LIVE_TABLE_ABSENT,
    WANE__LIVE_MEMO_HITS,
    WANE__LIVE_GATE_JUDGED,
    WANE__LIVE_GATE_REJECTED,
    WANE__LIVE_WAKE_DOUBT,
    WANE__LIVE_WAKE_REVIVAL,
    WANE__LIVE_WAKE_FORCED,
    WANE__LIVE_WAKE_ALWAYS,
    WANE__LIVE_VOTES_CHANGED,
    WANE__LIVE_STATE_NORMAL,
    WANE__LIVE_STATE_LOCKED,
    WANE__LIVE_STATE_EXPLORE,
    WANE__LIVE_STATE_PROTECT,
    WANE__LIVE_FUSED,
    WANE__LIVE_FIELDS
};

struct wane__live_sample {
    int64_t at_ms; /* since 1970 */
    float seconds; /* that it covers */
    float value[WANE__LIVE_FIELDS];
    uint16_t first[WANE__LIVE_BUCKETS]; /* replies that ended, by the time to their first token … */
    uint16_t each[WANE__LIVE_BUCKETS];  /* … and by the time of each further one */
};

struct wane__live {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a sample came, or it is over */
    struct wane__live_sample *ring;
    struct wane__live_sample open; /* times that came in since the last sample */
    double before[WANE__LIVE_FIELDS];
    bool begun;      /* `before` is set */
    uint64_t newest; /* number of the newest sample; the first is 1, 0: there is none */
    struct wane__buf row;
    uint64_t row_of; /* `row` is that sample's */
    int viewers;
    uint64_t dropped; /* samples that viewers were too slow for */
    bool over;
    pthread_t thread;
    bool running;
};

/* NULL without memory. */
struct wane__live *wane__live_new(void);
void wane__live_free(struct wane__live *live);

const char *wane__live_name(int field);
/* Which bucket a time falls into. */
int wane__live_bucket(double ms);
/* A reply ended; a time below 0 or NaN is none. */
void wane__live_reply(struct wane__live *live, double first_ms, double each_ms);
/* All numbers as of now: counters as they stand. The first call only remembers them. Wakes who waits. */
void wane__live_add(struct wane__live *live, int64_t at_ms, double seconds,
                    const double now[WANE__LIVE_FIELDS]);

/*
 * Append sample `number` as a row of JSON. False: it is not there yet, or is gone. The newest one is written once, however many read.
 */
bool wane__live_row(struct wane__live *live, uint64_t number, struct wane__buf *out);
/* Append all rows that are there, with commas between. Returns the newest one's number. */
uint64_t wane__live_rows(struct wane__live *live, struct wane__buf *out);
/* Append `"fields":[…],"buckets":{…}`. */
void wane__live_put_fields(struct wane__buf *out);

/* A reader comes; false: there are too many. `next`: what it has to wait for. */
bool wane__live_enter(struct wane__live *live, uint64_t *next);
void wane__live_leave(struct wane__live *live);
/*
 * Wait for sample *next, `seconds` at most. 1: it is there (*next moves on where the reader is too far behind, and *dropped says by how
 * much); 0: not yet; -1: it is over.
 */
int wane__live_wait(struct wane__live *live, double seconds, uint64_t *next, uint64_t *dropped);
/* No more samples: who waits goes. */
void wane__live_end(struct wane__live *live);

#endif
