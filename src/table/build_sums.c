/*
 * build_sums.c - running sums of one context; see build_sums.h. Owns a table of tokens and the few samples that are kept for
 * the share; refuses nothing, since samples were checked when they were read.
 */
#include "table/build_sums.h"

#include "core/error.h"
#include "core/memory.h"
#include "core/rng.h"
#include "sample/exp.h"
#include "sample/order.h"

#include <math.h>
#include <string.h>

#define UNIT  0x1p32
#define LOGIT 0x1p24

struct kept {
    uint64_t hash;
    int count;
    int32_t token[WANE__TRACE_TOP];
    int64_t unit[WANE__TRACE_TOP];
};

struct wane__sums {
    uint32_t count;
    int64_t floor;         /* Σ of the last listed logits */
    struct wane__sum *sum; /* in the order in which tokens came */
    uint32_t *slot;        /* 1 + index of a sum; open addressing */
    size_t sums, slots;
    struct kept *kept; /* a heap by hash, the largest first */
    int kept_count;
};

/* To the nearest whole number; halves away from zero. */
static int64_t fixed(double x) {
    return (int64_t)(x < 0 ? x - 0.5 : x + 0.5);
}

int wane__sums_new(struct wane__sums **out, wane_error *error) {
    struct wane__sums *sums = wane__alloc_zero(1, sizeof *sums);
    *out = sums;
    if (sums != NULL) {
        sums->slots = 1024;
        sums->sum = wane__alloc_zero(sums->slots / 2, sizeof *sums->sum);
        sums->slot = wane__alloc_zero(sums->slots, sizeof *sums->slot);
        sums->kept = wane__alloc(WANE__SUMS_KEPT * sizeof *sums->kept);
        if (sums->sum != NULL && sums->slot != NULL && sums->kept != NULL) return WANE_OK;
    }
    wane__sums_free(sums);
    *out = NULL;
    return wane__fail(error, WANE_ENOMEM, "No memory for running sums.");
}

void wane__sums_free(struct wane__sums *sums) {
    if (sums == NULL) return;
    wane__free(sums->sum);
    wane__free(sums->slot);
    wane__free(sums->kept);
    wane__free(sums);
}

static size_t slot_of(const struct wane__sums *sums, int32_t token) {
    size_t at = (size_t)wane__mix64((uint32_t)token) & (sums->slots - 1);
    while (sums->slot[at] != 0 && sums->sum[sums->slot[at] - 1].token != token)
        at = (at + 1) & (sums->slots - 1);
    return at;
}

void wane__sums_clear(struct wane__sums *sums) {
    if (sums->sums > sums->slots / 8) {
        memset(sums->slot, 0, sums->slots * sizeof *sums->slot);
    } else { /* each with its chain still whole: find all, then empty them */
        for (size_t i = 0; i < sums->sums; i++)
            sums->sum[i].drawn = (uint32_t)slot_of(sums, sums->sum[i].token);
        for (size_t i = 0; i < sums->sums; i++) sums->slot[sums->sum[i].drawn] = 0;
    }
    sums->sums = 0;
    sums->count = 0;
    sums->floor = 0;
    sums->kept_count = 0;
}

static bool grow(struct wane__sums *sums) {
    size_t slots = 2 * sums->slots;
    struct wane__sum *sum = wane__resize(sums->sum, slots / 2, sizeof *sum);
    if (sum == NULL) return false;
    sums->sum = sum;
    uint32_t *slot = wane__alloc_zero(slots, sizeof *slot);
    if (slot == NULL) return false;
    wane__free(sums->slot);
    sums->slot = slot;
    sums->slots = slots;
    for (size_t i = 0; i < sums->sums; i++) slot[slot_of(sums, sum[i].token)] = (uint32_t)i + 1;
    return true;
}

static struct wane__sum *sum_of(struct wane__sums *sums, int32_t token) {
    size_t at = slot_of(sums, token);
    if (sums->slot[at] == 0) {
        sums->sum[sums->sums] = (struct wane__sum){.token = token};
        sums->slot[at] = (uint32_t)++sums->sums;
    }
    return &sums->sum[sums->slot[at] - 1];
}

/* -------------------------------------------------------------------- samples for the share */

static void keep_down(struct kept *heap, int count, int at) {
    for (;;) {
        int most = at;
        for (int child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++)
            if (heap[child].hash > heap[most].hash) most = child;
        if (most == at) return;
        struct kept moved = heap[at];
        heap[at] = heap[most];
        heap[most] = moved;
        at = most;
    }
}

/* Where this sample's units go; NULL: others have smaller hashes. */
static struct kept *keep(struct wane__sums *sums, uint64_t hash) {
    if (sums->kept_count < WANE__SUMS_KEPT) return &sums->kept[sums->kept_count++];
    return hash < sums->kept[0].hash ? &sums->kept[0] : NULL;
}

static void kept_settle(struct wane__sums *sums, const struct kept *kept) {
    if (sums->count == WANE__SUMS_KEPT) /* full for the first time */
        for (int i = WANE__SUMS_KEPT / 2 - 1; i >= 0; i--) keep_down(sums->kept, WANE__SUMS_KEPT, i);
    else if (sums->count > WANE__SUMS_KEPT && kept == &sums->kept[0])
        keep_down(sums->kept, WANE__SUMS_KEPT, 0);
}

/* -------------------------------------------------------------------- adding */

int wane__sums_add(struct wane__sums *sums, const struct wane__sample *sample, wane_error *error) {
    if (sums->sums + WANE__TRACE_TOP + 1 > sums->slots / 2 && !grow(sums))
        return wane__fail(error, WANE_ENOMEM, "No memory for running sums of %zu tokens.", sums->slots);
    if (sums->count == UINT32_MAX)
        return wane__fail(error, WANE_EUNSUPPORTED, "A context was seen more than 4,294,967,295 times.");
    int count = sample->top_count;
    double length = 0;
    for (int i = 0; i < count; i++) length += (double)sample->top[i].logit * (double)sample->top[i].logit;
    double scale = length > 0 ? UNIT / sqrt(length) : 0;
    float floor = sample->top[count - 1].logit;
    struct kept *kept = keep(sums, sample->hash);
    for (int i = 0; i < count; i++) {
        struct wane__candidate c = sample->top[i];
        struct wane__sum *sum = sum_of(sums, c.token);
        int64_t unit = fixed((double)c.logit * scale);
        double under = (double)c.logit - (double)sample->log_sum;
        sum->unit += unit;
        sum->above += fixed(((double)c.logit - (double)floor) * LOGIT);
        sum->mass += fixed(wane__exp_weight(under < 0 ? under : 0) * UNIT);
        sum->listed = true;
        sum->first += i == 0;
        if (kept != NULL) {
            kept->token[i] = c.token;
            kept->unit[i] = unit;
        }
    }
    sum_of(sums, sample->token)->drawn++;
    sums->floor += fixed((double)floor * LOGIT);
    sums->count++;
    if (kept != NULL) {
        kept->hash = sample->hash;
        kept->count = count;
        kept_settle(sums, kept);
    }
    return WANE_OK;
}

uint32_t wane__sums_count(const struct wane__sums *sums) {
    return sums->count;
}

/* -------------------------------------------------------------------- results */

/* Samples kept whose mean cosine with the others is at least `least`, as a share. */
static double share_of(const struct wane__sums *sums, double least) {
    int agree = 0;
    for (int i = 0; i < sums->kept_count; i++) {
        const struct kept *kept = &sums->kept[i];
        double with_all = 0, own = 0;
        for (int j = 0; j < kept->count; j++) {
            double unit = (double)kept->unit[j] / UNIT;
            const struct wane__sum *sum = &sums->sum[sums->slot[slot_of(sums, kept->token[j])] - 1];
            with_all += unit * ((double)sum->unit / UNIT);
            own += unit * unit;
        }
        agree += (float)((with_all - own) / ((double)sums->count - 1)) >= (float)least;
    }
    return (double)agree / sums->kept_count;
}

/* |S|² as a whole number: the order of the tokens must not show. 2⁻³² of a unit is more than enough. */
static double square_of(const struct wane__sums *sums) {
    __extension__ __int128 total = 0;
    for (size_t i = 0; i < sums->sums; i++) {
        __extension__ __int128 unit = sums->sum[i].unit;
        total += unit * unit >> 16;
    }
    return (double)total / (UNIT * UNIT / 65536);
}

static void insert(struct wane__summary *summary, int depth, struct wane__candidate c, uint32_t drawn) {
    int at = summary->top_count;
    while (at > 0 && wane__better(c, summary->top[at - 1])) at--;
    if (at == depth) return;
    if (summary->top_count < depth) summary->top_count++;
    for (int i = summary->top_count - 1; i > at; i--) {
        summary->top[i] = summary->top[i - 1];
        summary->drawn[i] = summary->drawn[i - 1];
    }
    summary->top[at] = c;
    summary->drawn[at] = drawn;
}

void wane__sums_finish(struct wane__sums *sums, double least, int depth, struct wane__summary *summary) {
    double n = sums->count;
    *summary = (struct wane__summary){.seen = sums->count, .next = -1};
    if (sums->count == 0) return;
    for (size_t i = 0; i < sums->sums; i++) {
        const struct wane__sum *sum = &sums->sum[i];
        double logit = (double)(sums->floor + sum->above) / (n * LOGIT);
        if (sum->listed)
            insert(summary, depth, (struct wane__candidate){.token = sum->token, .logit = (float)logit},
                   sum->drawn);
        bool more = sum->drawn > summary->next_drawn ||
                    (sum->drawn > 0 && sum->drawn == summary->next_drawn && sum->token < summary->next);
        if (more) {
            summary->next = sum->token;
            summary->next_drawn = sum->drawn;
        }
    }
    int64_t mass = 0;
    for (int i = 0; i < summary->top_count; i++)
        mass += sums->sum[sums->slot[slot_of(sums, summary->top[i].token)] - 1].mass;
    summary->mass = (double)mass / (UNIT * n);
    if (summary->mass > 1) summary->mass = 1;
    summary->first = sums->sum[sums->slot[slot_of(sums, summary->top[0].token)] - 1].first;
    if (sums->count < 2) return;
    summary->stability = (square_of(sums) - n) / (n * (n - 1));
    if (summary->stability > 1) summary->stability = 1;
    summary->share = share_of(sums, least);
}
