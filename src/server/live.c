/*
 * live.c - owns the ring of samples and the rows that are made of it. Refuses to know where numbers come from; see live.h.
 */
#include "server/live.h"

#include "core/clock.h"
#include "core/memory.h"
#include "core/os.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static const char *const names[WANE__LIVE_FIELDS] = {
    [WANE__LIVE_SLOTS_BUSY] = "slots_busy",
    [WANE__LIVE_QUEUED] = "queued",
    [WANE__LIVE_KV_HELD] = "kv_held",
    [WANE__LIVE_KV_CELLS] = "kv_cells",
    [WANE__LIVE_VIEWERS] = "viewers",
    [WANE__LIVE_ROLLOUT + WANE_FEATURE_HEAD] = "rollout_head",
    [WANE__LIVE_ROLLOUT + WANE_FEATURE_TABLE] = "rollout_table",
    [WANE__LIVE_ROLLOUT + WANE_FEATURE_DRAFT] = "rollout_draft",
    [WANE__LIVE_ROLLOUT + WANE_FEATURE_MEMO] = "rollout_memo",
    [WANE__LIVE_ROLLOUT + WANE_FEATURE_GATE] = "rollout_gate",
    [WANE__LIVE_ROLLOUT + WANE_FEATURE_GOVERNOR] = "rollout_governor",
    [WANE__LIVE_ACCEPTED] = "accepted",
    [WANE__LIVE_REFUSED] = "refused",
    [WANE__LIVE_COMPLETED] = "completed",
    [WANE__LIVE_CANCELLED] = "cancelled",
    [WANE__LIVE_FAILED] = "failed",
    [WANE__LIVE_PROMPT_TOKENS] = "prompt_tokens",
    [WANE__LIVE_REUSED_TOKENS] = "reused_tokens",
    [WANE__LIVE_REPLY_TOKENS] = "reply_tokens",
    [WANE__LIVE_ENGINE_CALLS] = "engine_calls",
    [WANE__LIVE_ENGINE_ROWS] = "engine_rows",
    [WANE__LIVE_ENGINE_MS] = "engine_ms",
    [WANE__LIVE_HEAD_ROWS] = "head_rows",
    [WANE__LIVE_HEAD_SURVIVORS1] = "head_survivors1",
    [WANE__LIVE_HEAD_SURVIVORS2] = "head_survivors2",
    [WANE__LIVE_HEAD_COMPUTED] = "head_computed",
    [WANE__LIVE_HEAD_DENSE] = "head_dense",
    [WANE__LIVE_COMPARED] = "compared",
    [WANE__LIVE_DIVERGENCES] = "divergences",
    [WANE__LIVE_DRAFT_PROPOSED] = "draft_proposed",
    [WANE__LIVE_DRAFT_ACCEPTED] = "draft_accepted",
    [WANE__LIVE_TABLE_STRICT] = "table_strict",
    [WANE__LIVE_TABLE_RANK] = "table_rank",
    [WANE__LIVE_TABLE_MISS] = "table_miss",
    [WANE__LIVE_TABLE_ABSENT] = "table_absent",
    [WANE__LIVE_MEMO_HITS] = "memo_hits",
    [WANE__LIVE_GATE_JUDGED] = "gate_judged",
    [WANE__LIVE_GATE_REJECTED] = "gate_rejected",
    [WANE__LIVE_WAKE_DOUBT] = "wake_doubt",
    [WANE__LIVE_WAKE_REVIVAL] = "wake_revival",
    [WANE__LIVE_WAKE_FORCED] = "wake_forced",
    [WANE__LIVE_WAKE_ALWAYS] = "wake_always",
    [WANE__LIVE_VOTES_CHANGED] = "votes_changed",
    [WANE__LIVE_STATE_NORMAL] = "state_normal",
    [WANE__LIVE_STATE_LOCKED] = "state_locked",
    [WANE__LIVE_STATE_EXPLORE] = "state_explore",
    [WANE__LIVE_STATE_PROTECT] = "state_protect",
    [WANE__LIVE_FUSED] = "fused",
};

const char *wane__live_name(int field) {
    return names[field];
}

struct wane__live *wane__live_new(void) {
    struct wane__live *live = wane__alloc_zero(1, sizeof *live);
    if (live == NULL) return NULL;
    live->ring = wane__alloc_zero(WANE__LIVE_SAMPLES, sizeof *live->ring);
    if (live->ring == NULL) {
        wane__free(live);
        return NULL;
    }
    pthread_mutex_init(&live->lock, NULL);
    wane__os_cond_init(&live->changed);
    return live;
}

void wane__live_free(struct wane__live *live) {
    if (live == NULL) return;
    pthread_cond_destroy(&live->changed);
    pthread_mutex_destroy(&live->lock);
    wane__buf_free(&live->row);
    wane__free(live->ring);
    wane__free(live);
}

/* ------------------------------------------------------------------ filling */

int wane__live_bucket(double ms) {
    if (!(ms > WANE__LIVE_LEAST_MS)) return 0;
    double at = WANE__LIVE_PER_OCTAVE * log2(ms / WANE__LIVE_LEAST_MS);
    return at < WANE__LIVE_BUCKETS - 1 ? (int)at : WANE__LIVE_BUCKETS - 1;
}

static void count_time(uint16_t buckets[WANE__LIVE_BUCKETS], double ms) {
    if (!(ms >= 0)) return;
    uint16_t *bucket = &buckets[wane__live_bucket(ms)];
    if (*bucket < UINT16_MAX) ++*bucket;
}

void wane__live_reply(struct wane__live *live, double first_ms, double each_ms) {
    pthread_mutex_lock(&live->lock);
    count_time(live->open.first, first_ms);
    count_time(live->open.each, each_ms);
    pthread_mutex_unlock(&live->lock);
}

void wane__live_add(struct wane__live *live, int64_t at_ms, double seconds,
                    const double now[WANE__LIVE_FIELDS]) {
    pthread_mutex_lock(&live->lock);
    if (live->begun) {
        struct wane__live_sample *sample = &live->open;
        sample->at_ms = at_ms;
        sample->seconds = (float)seconds;
        for (int i = 0; i < WANE__LIVE_FIELDS; i++) {
            double value = i < WANE__LIVE_GAUGES ? now[i] : now[i] - live->before[i];
            sample->value[i] = (float)(value > 0 ? value : 0);
        }
        live->ring[++live->newest % WANE__LIVE_SAMPLES] = *sample;
        *sample = (struct wane__live_sample){0};
    }
    live->begun = true;
    memcpy(live->before, now, sizeof live->before);
    pthread_cond_broadcast(&live->changed);
    pthread_mutex_unlock(&live->lock);
}

void wane__live_end(struct wane__live *live) {
    pthread_mutex_lock(&live->lock);
    live->over = true;
    pthread_cond_broadcast(&live->changed);
    pthread_mutex_unlock(&live->lock);
}

/* --------------------------------------------------------------------- rows */

static void put_times(const uint16_t buckets[WANE__LIVE_BUCKETS], struct wane__buf *out) {
    int count = 0;
    wane__buf_text(out, ",[");
    for (int i = 0; i < WANE__LIVE_BUCKETS; i++)
        if (buckets[i] > 0) wane__buf_format(out, "%s[%d,%u]", count++ > 0 ? "," : "", i, buckets[i]);
    wane__buf_text(out, "]");
}

static void put_row(const struct wane__live_sample *sample, struct wane__buf *out) {
    wane__buf_format(out, "[%lld,%.3f", (long long)sample->at_ms, (double)sample->seconds);
    for (int i = 0; i < WANE__LIVE_FIELDS; i++) wane__buf_format(out, ",%.7g", (double)sample->value[i]);
    put_times(sample->first, out);
    put_times(sample->each, out);
    wane__buf_text(out, "]");
}

/* Under the lock: the oldest one that is there. */
static uint64_t oldest(const struct wane__live *live) {
    return live->newest > WANE__LIVE_SAMPLES ? live->newest - WANE__LIVE_SAMPLES + 1 : 1;
}

static bool row_locked(struct wane__live *live, uint64_t number, struct wane__buf *out) {
    if (number < oldest(live) || number > live->newest) return false;
    const struct wane__live_sample *sample = &live->ring[number % WANE__LIVE_SAMPLES];
    if (number != live->newest) {
        put_row(sample, out);
        return true;
    }
    if (live->row_of != number) {
        wane__buf_clear(&live->row);
        put_row(sample, &live->row);
        live->row_of = live->row.failed ? 0 : number;
    }
    wane__buf_append(out, live->row.data, live->row.size);
    return true;
}

bool wane__live_row(struct wane__live *live, uint64_t number, struct wane__buf *out) {
    pthread_mutex_lock(&live->lock);
    bool there = row_locked(live, number, out);
    pthread_mutex_unlock(&live->lock);
    return there;
}

/* The lock is taken for each one, so that a reply that ends never waits for all of them. */
uint64_t wane__live_rows(struct wane__live *live, struct wane__buf *out) {
    pthread_mutex_lock(&live->lock);
    uint64_t number = oldest(live), last = live->newest;
    pthread_mutex_unlock(&live->lock);
    for (int count = 0; number <= last; number++) {
        size_t before = out->size;
        if (count > 0) wane__buf_text(out, ",");
        if (wane__live_row(live, number, out))
            count++;
        else
            out->size = before; /* it went while we wrote */
    }
    return last;
}

void wane__live_put_fields(struct wane__buf *out) {
    wane__buf_text(out, "\"fields\":[\"at_ms\",\"seconds\"");
    for (int i = 0; i < WANE__LIVE_FIELDS; i++) wane__buf_format(out, ",\"%s\"", names[i]);
    wane__buf_format(out,
                     ",\"ttft\",\"tpot\"],\"gauges\":%d,\"buckets\":{\"least_ms\":%g,\"per_octave\":%d,"
                     "\"count\":%d}",
                     WANE__LIVE_GAUGES, WANE__LIVE_LEAST_MS, WANE__LIVE_PER_OCTAVE, WANE__LIVE_BUCKETS);
}

/* ------------------------------------------------------------------ readers */

bool wane__live_enter(struct wane__live *live, uint64_t *next) {
    pthread_mutex_lock(&live->lock);
    bool room = live->viewers < WANE__LIVE_VIEWERS_MOST && !live->over;
    if (room) {
        live->viewers++;
        *next = live->newest + 1;
    }
    pthread_mutex_unlock(&live->lock);
    return room;
}

void wane__live_leave(struct wane__live *live) {
    pthread_mutex_lock(&live->lock);
    live->viewers--;
    pthread_mutex_unlock(&live->lock);
}

int wane__live_wait(struct wane__live *live, double seconds, uint64_t *next, uint64_t *dropped) {
    double until = wane__now() + seconds;
    int result = 0;
    pthread_mutex_lock(&live->lock);
    while (!live->over && live->newest < *next)
        if (wane__os_cond_wait(&live->changed, &live->lock, until) == ETIMEDOUT) break;
    if (live->over) {
        result = -1;
    } else if (live->newest >= *next) {
        result = 1;
        if (live->newest - *next > WANE__LIVE_BEHIND_MOST) {
            uint64_t missed = live->newest - *next;
            *next = live->newest;
            *dropped += missed;
            live->dropped += missed;
        }
    }
    pthread_mutex_unlock(&live->lock);
    return result;
}
