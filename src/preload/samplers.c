/*
 * samplers.c - the samplers that live in the process, and what the row that they get must hold.
 *
 * Who reads a row of logits cannot be asked what for. But nearly all programs choose their tokens with libllama's samplers,
 * and those are made by functions that we stand before. So this list knows, of every sampler that lives, what it is, and of
 * every chain what is in it. A row must hold what any of them can choose from:
 *
 *     chain: penalties, top-k 40, top-p, temperature, dist          the best 40 and as many as the penalties can lower
 *     chain: greedy                                                 the best one
 *     chain: min-p 0.05, temperature, dist                          those with 0.05 of the best one's probability
 *     chain: top-p, temperature, dist                               those with the settable share, 1e-9
 *     grammar, typical, mirostat, …, made by the program itself     everything
 *     no sampler at all: the program chooses by itself              everything
 *
 * A sampler that stands alone counts from its first use on (some programs keep them for later); one that looks at everything, or
 * raises tokens, counts at once. Chains are never asked what is in them: another thread may be changing them.
 */
#include "preload/preload.h"

#include "core/memory.h"

#include <math.h>
#include <string.h>

enum { CHAIN_MOST = 24, NAMED_MOST = 32 };

struct entry {
    const void *sampler;
    bool chain, in_chain, applied, overfull;
    struct wane__sampler_spec spec;
    struct wane__sampler_spec *member; /* of a chain; CHAIN_MOST of them */
    int members;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entries;
static size_t count, capacity;
static bool lost;        /* no memory for one of them: nothing is certain any more */
static uint64_t changes; /* of the list */
static struct {
    uint64_t changes; /* when it was made */
    int vocab;
    struct wane__need need;
} known = {.changes = UINT64_MAX};

void wane__samplers_reset_lock(void) {
    pthread_mutex_init(&lock, NULL);
}

/* ----------------------------------------------------------------- the list */

static struct entry *find(const void *sampler) {
    for (size_t i = count; i > 0; i--) /* the newest are asked for most */
        if (entries[i - 1].sampler == sampler) return &entries[i - 1];
    return NULL;
}

/* The entry of that address, emptied. */
static struct entry *fresh(const void *sampler) {
    struct entry *e = find(sampler);
    if (e == NULL && count == capacity) {
        size_t more = capacity < 64 ? 64 : 2 * capacity;
        struct entry *grown = wane__resize(entries, more, sizeof *grown);
        if (grown == NULL) {
            lost = true;
            return NULL;
        }
        entries = grown;
        capacity = more;
    }
    if (e == NULL)
        e = &entries[count++];
    else
        wane__free(e->member);
    *e = (struct entry){.sampler = sampler};
    changes++;
    return e;
}

static void drop(struct entry *e) {
    wane__free(e->member);
    *e = entries[--count];
    changes++;
}

void wane__sampler_made(const void *sampler, const struct wane__sampler_spec *spec) {
    if (sampler == NULL) return;
    pthread_mutex_lock(&lock);
    struct entry *e = fresh(sampler);
    if (e != NULL) e->spec = *spec;
    pthread_mutex_unlock(&lock);
}

void wane__sampler_made_chain(const void *chain) {
    if (chain == NULL) return;
    pthread_mutex_lock(&lock);
    struct entry *e = fresh(chain);
    if (e != NULL) {
        e->chain = true;
        e->member = wane__alloc_zero(CHAIN_MOST, sizeof *e->member);
        e->overfull = e->member == NULL;
    }
    pthread_mutex_unlock(&lock);
}

static void add(struct entry *chain, const struct wane__sampler_spec *spec) {
    if (chain->members == CHAIN_MOST || chain->overfull)
        chain->overfull = true;
    else
        chain->member[chain->members++] = *spec;
}

void wane__sampler_added(const void *chain, const void *sampler) {
    static const struct wane__sampler_spec unknown = {.kind = WANE__SAMPLER_WHOLE};
    pthread_mutex_lock(&lock);
    struct entry *c = find(chain), *e = find(sampler);
    if (c != NULL && c->chain) add(c, e != NULL && !e->chain ? &e->spec : &unknown);
    if (e != NULL) e->in_chain = true;
    changes++;
    pthread_mutex_unlock(&lock);
}

void wane__sampler_removed(const void *chain, int at, const void *sampler) {
    pthread_mutex_lock(&lock);
    struct entry *c = find(chain), *e = find(sampler);
    if (c != NULL && c->chain && !c->overfull && at >= 0 && at < c->members) {
        memmove(c->member + at, c->member + at + 1, (size_t)(c->members - at - 1) * sizeof *c->member);
        c->members--;
    }
    if (e != NULL) e->in_chain = false;
    changes++;
    pthread_mutex_unlock(&lock);
}

/* libllama clones a chain by making one of clones, which was seen; if it was not, what is known of the old one is copied. */
void wane__sampler_cloned(const void *from, const void *to) {
    if (to == NULL) return;
    pthread_mutex_lock(&lock);
    const struct entry *f = find(from);
    struct entry old = f != NULL ? *f : (struct entry){.spec = {.kind = WANE__SAMPLER_WHOLE}};
    struct entry *t = find(to);
    bool seen = t != NULL && t->chain && t->members == old.members;
    if (!seen && (t = fresh(to)) != NULL) {
        t->spec = old.spec;
        t->chain = old.chain;
        t->overfull = old.overfull;
        if (old.chain) {
            t->member = wane__alloc_zero(CHAIN_MOST, sizeof *t->member);
            f = find(from); /* the list may have moved */
            t->overfull = t->overfull || t->member == NULL;
            for (int i = 0; i < old.members && f != NULL && !t->overfull; i++) add(t, &f->member[i]);
        }
    }
    pthread_mutex_unlock(&lock);
}

void wane__sampler_freed(const void *sampler) {
    pthread_mutex_lock(&lock);
    struct entry *e = find(sampler);
    if (e != NULL) drop(e);
    pthread_mutex_unlock(&lock);
}

void wane__sampler_applied(const void *sampler) {
    pthread_mutex_lock(&lock);
    struct entry *e = find(sampler);
    if (e != NULL && !e->applied) {
        e->applied = true;
        changes++;
    }
    pthread_mutex_unlock(&lock);
}

/* ----------------------------------------------------------------- the need */

static void name(struct wane__need *need, const struct wane__sampler_spec *spec) {
    for (int i = 0; i < spec->named_count; i++) {
        bool there = false;
        for (int j = 0; j < need->named_count; j++) there = there || need->named[j] == spec->named[i];
        if (there) continue;
        if (need->named_count == WANE__NEED_NAMED) {
            need->whole = true;
            return;
        }
        need->named[need->named_count++] = spec->named[i];
    }
}

/* A walk along a chain: what was passed so far. */
struct walk {
    struct wane__need *need;
    int lowered;  /* tokens that may have lost */
    double heat;  /* logits were divided by this, or less */
    double share; /* the settable one */
    bool ended;
};

static void want_share(struct walk *w, double share) {
    /* Lowered tokens may be the best ones: then the distance counts from those that are left. */
    double distance = -log(share) * w->heat;
    if (w->lowered > 0) w->need->whole = true;
    if (!(distance > 0)) distance = 1e-6;
    if (distance > w->need->distance) w->need->distance = distance;
}

static void want_best(struct walk *w, int best) {
    int all = best + w->lowered;
    if (best > WANE__NEED_BEST || all > WANE__NEED_BEST)
        w->need->whole = true;
    else if (all > w->need->best)
        w->need->best = all;
    w->ended = true;
}

static void step(struct walk *w, const struct wane__sampler_spec *spec) {
    switch (spec->kind) {
    case WANE__SAMPLER_NOTHING: break;
    case WANE__SAMPLER_BEST: want_best(w, spec->count); break;
    case WANE__SAMPLER_SHARE:
        want_share(w, spec->value);
        if (spec->count > w->need->best) w->need->best = spec->count;
        w->ended = true;
        break;
    case WANE__SAMPLER_DRAW:
        want_share(w, w->share);
        w->ended = true;
        break;
    case WANE__SAMPLER_LOOK:
        want_share(w, w->share);
        if (spec->count > w->need->best) w->need->best = spec->count;
        break;
    case WANE__SAMPLER_HEAT:
        if (spec->value > 1) w->heat *= spec->value;
        break;
    case WANE__SAMPLER_LOWER: w->lowered += spec->count; break;
    case WANE__SAMPLER_BIAS:
        w->lowered += spec->count;
        name(w->need, spec);
        break;
    default: w->need->whole = true;
    }
}

/*
 * Where a chain keeps the best one in the end (temperature 0 behind top-k, top-p and min-p, as llama-server has it): nothing before
 * that drops it, so nothing else matters. -1: it does not, or something before may drop it.
 */
static int only_one(const struct entry *chain) {
    for (int i = 0; i < chain->members; i++) {
        const struct wane__sampler_spec *m = &chain->member[i];
        if (m->kind == WANE__SAMPLER_BEST && m->count == 1) return i;
        if (m->kind == WANE__SAMPLER_DRAW || m->kind == WANE__SAMPLER_WHOLE || m->drops_best) return -1;
    }
    return -1;
}

static void need_of(const struct entry *e, struct wane__need *need) {
    struct walk w = {.need = need, .heat = 1, .share = wane__under_settings()->share};
    if (e->overfull) need->whole = true;
    if (!e->chain) step(&w, &e->spec);
    int one = e->chain && !e->overfull ? only_one(e) : -1;
    for (int i = 0; i <= one && !need->whole; i++)
        if (i == one || e->member[i].kind == WANE__SAMPLER_LOWER || e->member[i].kind == WANE__SAMPLER_BIAS)
            step(&w, &e->member[i]);
    for (int i = 0; i < e->members && !w.ended && !need->whole; i++) step(&w, &e->member[i]);
    /* A chain that leaves the choice to the program leaves it all tokens. */
    if (e->chain && !w.ended) need->whole = true;
}

/* Does a sampler that stands alone, and was never used so, count? */
static bool counts_unused(const struct entry *e) {
    return e->spec.kind == WANE__SAMPLER_WHOLE || e->spec.kind == WANE__SAMPLER_BIAS;
}

static void need_of_all(struct wane__need *need) {
    bool some = false;
    int lowered = 0;
    need->whole = lost;
    for (size_t i = 0; i < count; i++) {
        const struct entry *e = &entries[i];
        if (e->in_chain || (!e->chain && !e->applied && !counts_unused(e))) continue;
        bool nothing = e->chain ? e->members == 0 && !e->overfull : e->spec.kind == WANE__SAMPLER_NOTHING;
        if (nothing) continue;
        some = some || e->chain || e->spec.kind <= WANE__SAMPLER_DRAW;
        if (!e->chain && (e->spec.kind == WANE__SAMPLER_LOWER || e->spec.kind == WANE__SAMPLER_BIAS))
            lowered += e->spec.count;
        need_of(e, need);
    }
    need->whole = need->whole || !some;
    if (lowered > 0 && need->distance > 0) need->whole = true;
    if (need->best > 0) need->best += lowered;
}

static void finish(struct wane__need *need, int vocab) {
    const struct wane__under_settings *s = wane__under_settings();
    double least = -log(s->share);
    if (s->share_always && need->distance < least) need->distance = least;
    if (need->best < 1) need->best = 1;
    if (need->best > WANE__NEED_BEST || need->best > vocab / 4) need->whole = true;
    for (int i = 0; i < need->named_count; i++)
        if (need->named[i] < 0 || need->named[i] >= vocab)
            need->named[i--] = need->named[--need->named_count];
}

void wane__sampler_need(const void *sampler, int vocab, struct wane__need *need) {
    pthread_mutex_lock(&lock);
    if (sampler != NULL) {
        const struct entry *e = find(sampler);
        *need = (struct wane__need){.whole = e == NULL || lost};
        if (e != NULL) need_of(e, need);
        finish(need, vocab);
    } else {
        if (known.changes != changes || known.vocab != vocab) {
            known.need = (struct wane__need){0};
            need_of_all(&known.need);
            finish(&known.need, vocab);
            known.changes = changes;
            known.vocab = vocab;
        }
        *need = known.need;
    }
    pthread_mutex_unlock(&lock);
}
