/*
 * draft.c - proposals and their chances, and the pool of earlier replies; see draft.h.
 *
 * Owns what one reply knows of its own text. Refuses to allocate while the reply runs, and to carry anything from one
 * reply to the next but what the pool holds, which is the tenant's.
 */
#include "table/draft.h"

#include "core/memory.h"

#include <string.h>

/* A trial's weight falls by this with each later one of its kind: the last fifty count. */
#define FADE 0.98f
/* What is assumed at first counts as so many trials. */
#define FIRST_WEIGHT 4.0f
/* A reply is taken for one that copies little, until so many misses were expected that did not come. */
#define FIRST_MISSES  1.6f
#define MISSES_WEIGHT 1.6f
/* Of earlier replies so many trials of a kind and so many expected misses count at most; with each reply, older ones lose a fifth. */
#define BEFORE_TRIED    8.0f
#define BEFORE_EXPECTED 4.0f
#define HABIT_FADE      0.8f

enum {
    WORTH_OF = 12,  /* tokens by which proposals are compared  */
    WAY_LEAST = 4,  /* tokens copied before a break is one     */
    WAY_LONGEST = 8 /* tokens after which the copy is given up */
};

const char *const wane__draft_source_names[WANE__DRAFT_SOURCES] = {"text", "way", "pool", "table"};

/* By class: 0, 1, 2, 3, 4, 5 … 6, 7 … 10, 11 … 18, 19 … 40, longer; marked, swapped. */
static const float first_chance[WANE__CLASSES] = {0.2f,  0.45f, 0.5f,  0.62f, 0.8f, 0.8f,
                                                  0.92f, 0.95f, 0.97f, 0.99f, 0.2f, 0.5f};

int wane__match_class(int length) {
    static const int most[WANE__MATCH_CLASSES - 1] = {0, 1, 2, 3, 4, 6, 10, 18, 40};
    int class = 0;
    while (class < WANE__MATCH_CLASSES - 1 && length > most[class]) class ++;
    return class;
}

bool wane__drafter_init(struct wane__drafter *d, uint32_t tokens) {
    *d = (struct wane__drafter){0};
    return wane__ngrams_init(&d->text, tokens + 2);
}

void wane__drafter_free(struct wane__drafter *d) {
    wane__ngrams_free(&d->text);
    *d = (struct wane__drafter){0};
}

/* -------------------------------------------------------------------- chances */

/* `right` of `tried` in the same proportion, but no more than `most`. */
static void cap(float *tried, float *right, float most) {
    if (*tried <= most) return;
    *right *= most / *tried;
    *tried = most;
}

static void scale_down(struct wane__draft_habits *h) {
    for (int source = 0; source < WANE__DRAFT_SOURCES; source++)
        for (int class = 0; class < WANE__CLASSES; class ++)
            cap(&h->tried[source][class], &h->right[source][class], BEFORE_TRIED);
    cap(&h->expected, &h->missed, BEFORE_EXPECTED);
}

void wane__drafter_begin(struct wane__drafter *d, const int32_t *tokens, size_t count,
                         const struct wane__pool_tenant *tenant, const struct wane__draft_chain *chain) {
    struct wane__ngrams text = d->text;
    *d = (struct wane__drafter){.text = text, .chain = chain};
    if (tenant != NULL) {
        d->pool = &tenant->ngrams;
        d->before = tenant->habits;
        scale_down(&d->before);
    }
    wane__ngrams_clear(&d->text);
    for (size_t i = 0; i < count; i++) wane__ngrams_add(&d->text, tokens[i]);
}

static void add_habits(struct wane__draft_habits *all, const struct wane__draft_habits *h) {
    for (int source = 0; source < WANE__DRAFT_SOURCES; source++)
        for (int class = 0; class < WANE__CLASSES; class ++) {
            if (h->tried[source][class] <= 0) continue;
            all->tried[source][class] = all->tried[source][class] * HABIT_FADE + h->tried[source][class];
            all->right[source][class] = all->right[source][class] * HABIT_FADE + h->right[source][class];
        }
    if (h->expected <= 0) return;
    all->missed = all->missed * HABIT_FADE + h->missed;
    all->expected = all->expected * HABIT_FADE + h->expected;
}

static float tried(const struct wane__drafter *d, enum wane__draft_source source, int class) {
    return d->before.tried[source][class] + d->now.tried[source][class];
}

static float right(const struct wane__drafter *d, enum wane__draft_source source, int class) {
    return d->before.right[source][class] + d->now.right[source][class];
}

static float chance_of(const struct wane__drafter *d, enum wane__draft_source source, int class) {
    float chance = (right(d, source, class) + FIRST_WEIGHT * first_chance[class]) /
                   (tried(d, source, class) + FIRST_WEIGHT);
    if (class >= WANE__MATCH_CLASSES) return chance;
    float missed = d->before.missed + d->now.missed, expected = d->before.expected + d->now.expected;
    float miss = (1 - chance) * (missed + FIRST_MISSES * MISSES_WEIGHT) / (expected + MISSES_WEIGHT);
    return miss < 0.95f ? 1 - miss : 0.05f;
}

static void judge(struct wane__drafter *d, enum wane__draft_source source, int class, bool was_right) {
    struct wane__draft_habits *now = &d->now;
    float *tries = &now->tried[source][class], *rights = &now->right[source][class];
    *tries = *tries * FADE + 1;
    *rights = *rights * FADE + (was_right ? 1 : 0);
    if (class < 3 || class >= WANE__MATCH_CLASSES) return; /* short matches say nothing of long ones */
    now->missed = now->missed * FADE + (was_right ? 0 : 1);
    now->expected = now->expected * FADE + 1 - first_chance[class];
}

static bool is_copy(const struct wane__draft *draft) {
    return draft->source == WANE__DRAFT_TEXT || draft->source == WANE__DRAFT_WAY;
}

/* Where the copy is, or would be. A place where a break was to be expected is no surprise. */
static void follow(struct wane__drafter *d, bool stood, bool right) {
    const struct wane__draft *draft = &d->draft;
    bool surprise = !stood || draft->class[d->at] < WANE__MATCH_CLASSES;
    if (stood && right && is_copy(draft)) {
        uint32_t position = draft->position + (uint32_t)d->at;
        bool goes_on = position == d->way || draft->source == WANE__DRAFT_WAY;
        d->copied = goes_on ? d->copied + 1 : draft->length + d->at + 1;
        d->run = goes_on ? d->run + 1 : d->copied;
        d->since = 0;
        d->way = position < d->text.count ? position + 1 : 0;
        return;
    }
    if (surprise) d->run = 0;
    if (d->way == 0 || d->copied < WAY_LEAST || d->since >= WAY_LONGEST) {
        d->way = 0, d->copied = 0, d->run = 0, d->since = 0;
        return;
    }
    d->way++;
    d->since++;
}

static void forget_swap(struct wane__drafter *d, int32_t from) {
    for (int i = 0; i < WANE__DRAFT_SWAPS; i++)
        if (d->swap[i].from == from) d->swap[i].to = from;
}

/* A token in another's place counts as swapped once the copy goes on right behind it. */
static void note_swap(struct wane__drafter *d, int32_t token, bool broke) {
    if (d->broke != 0 && wane__ngrams_at(&d->text, d->broke + 1) == token) {
        int32_t from = wane__ngrams_at(&d->text, d->broke);
        forget_swap(d, from);
        d->swap[d->swaps % WANE__DRAFT_SWAPS].from = from;
        d->swap[d->swaps++ % WANE__DRAFT_SWAPS].to = d->broke_to;
    }
    d->broke = 0;
    if (!broke) return;
    uint32_t position = d->draft.position + (uint32_t)d->at;
    int32_t from = wane__ngrams_at(&d->text, position);
    if (from < 0) return;
    if (from == token)
        forget_swap(d, from); /* not this time */
    else
        d->broke = position, d->broke_to = token;
}

bool wane__drafter_add(struct wane__drafter *d, int32_t token) {
    struct wane__draft *draft = &d->draft;
    bool stood = d->at < draft->count, right = stood && draft->token[d->at] == token;
    if (stood) judge(d, draft->source, draft->class[d->at], right);
    bool broke = stood && !right && is_copy(draft) && draft->length + d->at >= WAY_LEAST;
    note_swap(d, token, stood && !right && is_copy(draft));
    follow(d, stood, right);
    wane__ngrams_add(&d->text, token);
    if (broke) wane__ngrams_mark(&d->text, d->text.count);
    if (right)
        d->at++;
    else
        draft->count = d->at = 0;
    return right;
}

/* ------------------------------------------------------------------ proposals */

/* The token that comes in this one's place, and its class. */
static int swap(const struct wane__drafter *d, int32_t *token, int class) {
    for (int i = 0; i < WANE__DRAFT_SWAPS; i++) {
        if (d->swap[i].from != *token || d->swap[i].to == *token) continue;
        *token = d->swap[i].to;
        return WANE__CLASS_SWAPPED;
    }
    return class;
}

/* Tokens from a place on; in the running text a copy may run into what it writes itself. */
static void take(const struct wane__drafter *d, struct wane__draft *draft, const struct wane__ngrams *from,
                 int most) {
    draft->count = 0;
    for (int i = 0; i < most; i++) {
        uint32_t position = draft->position + (uint32_t)i;
        int32_t token = position <= from->count || draft->source == WANE__DRAFT_POOL
                            ? wane__ngrams_at(from, position)
                            : draft->token[position - from->count - 1];
        if (token < 0) break;
        int class = wane__match_class(draft->length + i);
        if (wane__ngrams_marked(from, position)) class = WANE__CLASS_MARKED;
        if (is_copy(draft)) class = swap(d, &token, class);
        draft->class[draft->count] = (uint8_t) class;
        draft->token[draft->count++] = token;
    }
}

static float worth_of(const struct wane__draft *draft) {
    float worth = 0, all = 1;
    for (int i = 0; i < draft->count && i < WORTH_OF; i++) worth += all *= draft->chance[i];
    return worth;
}

static void weigh(const struct wane__drafter *d, struct wane__draft *draft) {
    for (int i = 0; i < draft->count; i++) draft->chance[i] = chance_of(d, draft->source, draft->class[i]);
}

/* The better of the two stands. */
static void offer(struct wane__drafter *d, const struct wane__draft *draft) {
    if (draft->count > 0 && (d->draft.count == 0 || worth_of(draft) > worth_of(&d->draft))) d->draft = *draft;
}

static void offer_match(struct wane__drafter *d, enum wane__draft_source source, struct wane__match match,
                        int most) {
    const struct wane__ngrams *from = source == WANE__DRAFT_POOL ? d->pool : &d->text;
    struct wane__draft draft = {.source = source, .length = match.length, .position = match.position};
    take(d, &draft, from, most);
    weigh(d, &draft);
    offer(d, &draft);
}

/* Where a broken copy goes on: at the nearest place that fits the last token, else right where it is. */
static void offer_way(struct wane__drafter *d, const int32_t *end, int have, int most) {
    static const int shifts[] = {0, 1, -1, 2, -2, 3, -3, 4, -4, 5, 6, 7, 8};
    if (d->way == 0) return;
    struct wane__match match = {d->way, d->since == 0 ? d->run : 0};
    for (size_t i = 0; i < sizeof shifts / sizeof *shifts && match.length == 0; i++) {
        uint32_t position = d->way + (uint32_t)shifts[i];
        if (position < 2 || position > d->text.count) continue;
        int length = wane__ngrams_common(&d->text, position, end, have);
        if (length > 0) match = (struct wane__match){position, length};
    }
    if (match.position > d->text.count) return;
    offer_match(d, WANE__DRAFT_WAY, match, most);
}

static void offer_chain(struct wane__drafter *d, const int32_t *end, int have, int most) {
    struct wane__draft draft = {.source = WANE__DRAFT_TABLE};
    draft.count = d->chain->propose(d->chain->user, end, have, draft.token, most, draft.chance);
    if (draft.count <= 0) return;
    /* What the table says counts as what is assumed at first; what was seen since is in class 0. */
    float rights = right(d, WANE__DRAFT_TABLE, 0), tries = tried(d, WANE__DRAFT_TABLE, 0);
    for (int i = 0; i < draft.count; i++) {
        draft.chance[i] = (rights + 4 * FIRST_WEIGHT * draft.chance[i]) / (tries + 4 * FIRST_WEIGHT);
        draft.class[i] = 0; /* a table has no lengths */
    }
    offer(d, &draft);
}

int wane__drafter_propose(struct wane__drafter *d, const int32_t *end, int have, int most) {
    if (most > WANE__DRAFT_MOST) most = WANE__DRAFT_MOST;
    d->draft.count = d->at = 0;
    if (most < 1) return 0;
    struct wane__match match = wane__ngrams_find(&d->text, end, have);
    if (match.length > 0) offer_match(d, WANE__DRAFT_TEXT, match, most);
    offer_way(d, end, have, most);
    if (d->pool != NULL) {
        match = wane__ngrams_find(d->pool, end, have);
        if (match.length > 0) offer_match(d, WANE__DRAFT_POOL, match, most);
    }
    if (d->chain != NULL) offer_chain(d, end, have, most);
    return d->draft.count;
}

/* ------------------------------------------------------------------- the pool */

static void give_up(struct wane__draft_pool *pool, struct wane__pool_tenant *t) {
    uint32_t held = t->ngrams.count < t->ngrams.capacity ? t->ngrams.count : t->ngrams.capacity;
    pool->evicted += t->ngrams.evicted + held;
    wane__ngrams_free(&t->ngrams);
    wane__free(t->name);
    *t = (struct wane__pool_tenant){0};
}

void wane__draft_pool_free(struct wane__draft_pool *pool) {
    for (int i = 0; i < WANE__POOL_TENANTS; i++)
        if (pool->tenant[i].name != NULL) give_up(pool, &pool->tenant[i]);
}

struct wane__pool_tenant *wane__draft_pool_enter(struct wane__draft_pool *pool, const char *tenant) {
    struct wane__pool_tenant *place = NULL;
    for (int i = 0; i < WANE__POOL_TENANTS; i++) {
        struct wane__pool_tenant *t = &pool->tenant[i];
        if (t->name != NULL && strcmp(t->name, tenant) == 0) {
            t->users++;
            t->used = ++pool->stamp;
            return t;
        }
        if (t->users == 0 && (place == NULL || t->used < place->used)) place = t; /* free ones: used 0 */
    }
    if (place == NULL) return NULL;
    if (place->name != NULL) give_up(pool, place);
    char *name = wane__copy_string(tenant);
    if (name == NULL || !wane__ngrams_init(&place->ngrams, WANE__POOL_TOKENS)) {
        wane__free(name);
        return NULL;
    }
    place->name = name;
    place->users = 1;
    place->used = ++pool->stamp;
    return place;
}

void wane__draft_pool_leave(struct wane__draft_pool *pool, struct wane__pool_tenant *t, const int32_t *tokens,
                            size_t count, const struct wane__draft_habits *habits) {
    (void)pool;
    if (t == NULL) return;
    t->users--;
    if (habits != NULL) add_habits(&t->habits, habits);
    if (count == 0) return;
    wane__ngrams_add(&t->ngrams, WANE__NGRAMS_BORDER);
    for (size_t i = 0; i < count; i++) wane__ngrams_add(&t->ngrams, tokens[i]);
}

void wane__draft_pool_count(const struct wane__draft_pool *pool, struct wane__pool_counts *counts) {
    *counts = (struct wane__pool_counts){.evicted = pool->evicted};
    for (int i = 0; i < WANE__POOL_TENANTS; i++) {
        const struct wane__ngrams *g = &pool->tenant[i].ngrams;
        if (pool->tenant[i].name == NULL) continue;
        counts->tokens += g->count < g->capacity ? g->count : g->capacity;
        counts->evicted += g->evicted;
        counts->bytes += (3 * (uint64_t)g->capacity + 2 * (uint64_t)g->heads) * sizeof(uint32_t);
    }
}
