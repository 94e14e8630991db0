/*
 * build_replies.c - walks over the samples reply by reply: what a window was followed by, what the table would have hit, and
 * what the phrase classifier learns from.
 *
 * A reply is what one request's records give in the order of their relative positions. Two walks: continuations are proposed
 * from the keys and held against the replies (build_chains); with those that are left, hits are counted as if the table
 * had been built without the request that asks (build_replies).
 */
#include "table/build_internal.h"

#include "core/error.h"
#include "core/memory.h"
#include "core/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    REPLY_MOST = 16384, /* records looked at together; a longer reply is cut */
    EXAMPLES_MOST = 1 << 17,
    FOLLOW_MOST = WANE__SLMT_CONTINUATION_MOST,
};
/* Requests whose hash falls into one of five parts are held back from training. */
#define HELD_PART 5
static const float strict_most = 1e-4f;

/* -------------------------------------------------------------------- bytes */

/* request 8, index 4, hash 8 (big-endian) │ kind 1 │ keyed 1 │ token 4 │ window 8, ten 4, place 8, carriers, counts 3, … */
size_t wane__reply_encode(const struct wane__sample *s, bool keyed, uint8_t bytes[WANE__REPLY_MOST]) {
    wane__put_big(bytes, s->request, 8);
    wane__put_big(bytes + 8, s->index, 4);
    wane__put_big(bytes + 12, s->hash, 8);
    bytes[20] = (uint8_t)s->kind;
    bytes[21] = keyed;
    wane__put(bytes + 22, (uint32_t)s->token, 4);
    if (!keyed) return 26;
    int top = s->top_count < WANE__SLMT_DEPTH ? s->top_count : WANE__SLMT_DEPTH;
    wane__put(bytes + 26, s->key.window, 8);
    wane__put(bytes + 34, s->key.ten, 4);
    wane__put(bytes + 38, s->place, 8);
    bytes[46] = (uint8_t)s->carriers;
    bytes[47] = (uint8_t)top;
    bytes[48] = (uint8_t)s->last_count;
    uint8_t *to = bytes + 49;
    for (int i = 0; i < top; i++, to += 8) {
        wane__put(to, (uint32_t)s->top[i].token, 4);
        wane__put_float(to + 4, s->top[i].logit);
    }
    for (int i = 0; i < s->last_count; i++, to += 4) wane__put(to, (uint32_t)s->last[i], 4);
    return (size_t)(to - bytes);
}

/* They come from our own sort, so that their shape is known. */
void wane__reply_decode(const uint8_t *bytes, struct wane__reply *reply) {
    reply->request = wane__get_big(bytes, 8);
    reply->index = (uint32_t)wane__get_big(bytes + 8, 4);
    reply->hash = wane__get_big(bytes + 12, 8);
    reply->kind = (enum wane__kind)bytes[20];
    reply->keyed = bytes[21];
    reply->token = (int32_t)(uint32_t)wane__get(bytes + 22, 4);
    if (!reply->keyed) return;
    reply->key = (struct wane__slmt_key){.window = wane__get(bytes + 26, 8),
                                         .ten = (uint32_t)wane__get(bytes + 34, 4)};
    reply->place = wane__get(bytes + 38, 8);
    reply->carriers = bytes[46];
    reply->top_count = bytes[47];
    reply->last_count = bytes[48];
    const uint8_t *from = bytes + 49;
    for (int i = 0; i < reply->top_count; i++, from += 8) {
        reply->top[i].token = (int32_t)(uint32_t)wane__get(from, 4);
        reply->top[i].logit = wane__get_float(from + 4);
    }
    for (int i = 0; i < reply->last_count; i++, from += 4)
        reply->last[i] = (int32_t)(uint32_t)wane__get(from, 4);
}

/* -------------------------------------------------------------------- walking */

struct walk {
    struct wane__build *build;
    struct wane__reply *reply;      /* of one request */
    const struct wane__pick **pick; /* of each, or NULL */
    uint32_t *order;
    size_t count;
    wane_error *error;
};

typedef int (*visit_fn)(struct walk *walk);

static int visit_all(struct wane__build *build, const char *what, visit_fn visit, wane_error *error) {
    struct walk walk = {.build = build, .error = error};
    walk.reply = wane__alloc(REPLY_MOST * sizeof *walk.reply);
    walk.pick = wane__alloc(REPLY_MOST *
                            sizeof *walk.pick); /* NOLINT(bugprone-sizeof-expression): pointers, not picks */
    walk.order = wane__alloc(REPLY_MOST * sizeof *walk.order);
    int status = WANE_OK;
    if (walk.reply == NULL || walk.pick == NULL || walk.order == NULL) status = WANE_ENOMEM;
    if (status == WANE_OK) status = wane__sorter_rewind(build->replies, error);
    for (uint64_t done = 0; status == WANE_OK; done++) {
        const uint8_t *bytes;
        size_t size;
        status = wane__sorter_next(build->replies, &bytes, &size, error);
        if (status <= 0) break;
        struct wane__reply reply;
        wane__reply_decode(bytes, &reply);
        status = WANE_OK;
        if (done % 4096 == 0)
            status = wane__build_progress(build, what, (double)done / (double)build->kept, error);
        bool other = walk.count > 0 && walk.reply[0].request != reply.request;
        if (status == WANE_OK && (other || walk.count == REPLY_MOST)) {
            status = visit(&walk);
            walk.count = 0;
        }
        walk.pick[walk.count] = reply.keyed ? wane__build_find(build, reply.key) : NULL;
        walk.reply[walk.count++] = reply;
    }
    if (status == WANE_OK && walk.count > 0) status = visit(&walk);
    if (status == WANE_ENOMEM) wane__fail(error, status, "No memory to walk over replies.");
    wane__free(walk.reply);
    wane__free(walk.pick);
    wane__free(walk.order);
    return status;
}

static const struct wane__chain *chain_of(const struct walk *walk, size_t i) {
    return walk->pick[i] == NULL ? NULL : &walk->build->chain[walk->pick[i] - walk->build->pick];
}

/* How many tokens of a continuation the reply went along with, from record `at` on. */
static uint32_t matched(const struct walk *walk, size_t at, const struct wane__chain *chain) {
    const int32_t *follow = walk->build->follow + chain->first;
    uint32_t index = walk->reply[at].index, n = 0;
    for (size_t i = at; n < chain->count && i < walk->count; i++) {
        if (walk->reply[i].index < index + n) continue; /* the same request was recorded twice */
        if (walk->reply[i].index > index + n || walk->reply[i].token != follow[n]) break;
        n++;
    }
    return n;
}

/* -------------------------------------------------------------------- continuations */

/* The tokens that a key's most drawn one leads to, from key to key, as long as each leads on. */
static uint32_t propose(const struct wane__build *build, const struct wane__pick *pick, int32_t *out) {
    int32_t line[WANE__TEN + FOLLOW_MOST];
    int window = build->options.set.window, had = pick->last_count;
    memcpy(line, pick->last, (size_t)had * sizeof *line);
    uint32_t count = 0;
    bool is_long = pick->entry.key.ten != 0;
    for (const struct wane__pick *at = pick; at != NULL && count < FOLLOW_MOST;) {
        if ((double)at->next_drawn < (double)build->options.set.follow * at->entry.seen) break;
        out[count] = line[had + (int)count] = at->next;
        count++;
        const int32_t *end = line + had + count;
        struct wane__slmt_key key = {.window = wane__context_window(pick->tenant, end, window),
                                     .ten = is_long ? wane__context_ten(end) : 0};
        at = wane__build_find(build, key);
    }
    return count;
}

static int propose_all(struct wane__build *build, wane_error *error) {
    size_t room = 0;
    build->chain = wane__alloc_zero(build->picks, sizeof *build->chain);
    if (build->chain == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for continuations.");
    for (uint32_t i = 0; i < build->picks; i++) {
        if (room - build->follows < FOLLOW_MOST) {
            room = 2 * room + 16 * FOLLOW_MOST;
            int32_t *more = wane__resize(build->follow, room, sizeof *more);
            if (more == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for continuations.");
            build->follow = more;
        }
        struct wane__chain *chain = &build->chain[i];
        chain->first = (uint32_t)build->follows;
        chain->count = propose(build, &build->pick[i], build->follow + build->follows);
        build->follows += chain->count;
    }
    build->followed = wane__alloc_zero(build->follows, sizeof *build->followed);
    return build->followed != NULL ? WANE_OK : wane__fail(error, WANE_ENOMEM, "No memory for continuations.");
}

static int visit_chains(struct walk *walk) {
    for (size_t i = 0; i < walk->count; i++) {
        const struct wane__chain *chain = chain_of(walk, i);
        if (chain == NULL) continue;
        walk->build->chain[chain - walk->build->chain].tried++;
        uint32_t n = matched(walk, i, chain);
        for (uint32_t k = 0; k < n; k++) walk->build->followed[chain->first + k]++;
    }
    return WANE_OK;
}

/* The longest beginning that enough replies followed. One token alone says no more than the entry does. */
static void trim(const struct wane__build *build, struct wane__chain *chain) {
    double least = (double)build->options.set.follow * chain->tried;
    while (chain->count > 0 && (double)build->followed[chain->first + chain->count - 1] < least)
        chain->count--;
    if (chain->count < 2 || chain->tried < (uint32_t)build->options.set.min_seen) chain->count = 0;
}

int wane__build_chains(struct wane__build *build, wane_error *error) {
    int status = propose_all(build, error);
    if (status == WANE_OK) status = visit_all(build, "following contexts", visit_chains, error);
    if (status != WANE_OK) return status;
    for (uint32_t i = 0; i < build->picks; i++) trim(build, &build->chain[i]);
    return WANE_OK;
}

/* -------------------------------------------------------------------- hits, without the request that asks */

static int compare_index(const struct wane__slmt_position *p, uint32_t entry, uint32_t index,
                         uint32_t context) {
    if (p->entry != entry) return p->entry < entry ? -1 : 1;
    if (p->index != index) return p->index < index ? -1 : 1;
    return (p->context > context) - (p->context < context);
}

static const struct wane__position_pick *find_position(const struct wane__build *build, uint32_t entry,
                                                       const struct wane__reply *reply) {
    uint32_t low = 0, high = build->positions;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order =
            compare_index(&build->position[middle].position, entry, reply->index, (uint32_t)reply->place);
        if (order == 0) return &build->position[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static bool same_logits(const struct wane__slmt_position *p, const struct wane__reply *reply) {
    if (p->top_count > reply->top_count) return false;
    for (int i = 0; i < p->top_count; i++)
        if (p->top[i].token != reply->top[i].token ||
            !(fabsf(p->top[i].logit - reply->top[i].logit) <= strict_most))
            return false;
    return true;
}

/* How often the request itself was at the place of its record `at`: its neighbours have the same index. */
static uint32_t own_at(const struct walk *walk, size_t at) {
    const struct wane__reply *own = &walk->reply[at];
    size_t from = at;
    while (from > 0 && walk->reply[from - 1].index == own->index) from--;
    uint32_t count = 0;
    for (size_t i = from; i < walk->count && walk->reply[i].index == own->index; i++)
        count += walk->reply[i].place == own->place;
    return count;
}

/* Records of the walk's request that fall on one entry: order[from … to). */
static void count_hits(struct walk *walk, size_t from, size_t to) {
    struct wane__build *build = walk->build;
    const struct wane__pick *pick = walk->pick[walk->order[from]];
    const struct wane__slmt_entry *entry = &pick->entry;
    uint32_t drawn[WANE__SLMT_DEPTH], best = 0, need = (uint32_t)build->options.set.min_seen;
    memcpy(drawn, pick->drawn, sizeof drawn);
    for (size_t i = from; i < to; i++)
        for (int k = 0; k < entry->top_count; k++)
            drawn[k] -= walk->reply[walk->order[i]].token == entry->top[k].token;
    for (uint32_t k = 1; k < entry->top_count; k++)
        if (drawn[k] > drawn[best]) best = k;
    bool known = entry->seen - (to - from) >= need;
    for (size_t i = from; i < to; i++) {
        const struct wane__reply *reply = &walk->reply[walk->order[i]];
        wane_table_hits *hits = &build->report.hits[reply->kind];
        if (known) {
            hits->window++;
            hits->right += drawn[best] > 0 && reply->token == entry->top[best].token;
            bool same = reply->carriers > 0 && reply->carriers <= entry->top_count;
            for (int k = 0; same && k < reply->carriers; k++)
                same = reply->top[k].token == entry->top[k].token;
            hits->rank += same;
        }
        const struct wane__position_pick *p = find_position(build, (uint32_t)(pick - build->pick), reply);
        if (p == NULL || p->place != reply->place) continue;
        uint32_t least = pick->stable ? 1 : need, own = own_at(walk, walk->order[i]);
        hits->strict += p->seen - own >= least && same_logits(&p->position, reply);
    }
}

/* -------------------------------------------------------------------- what the classifier learns from */

/* Room for the examples with the least hashes: when it is full, half of the hashes are given up. */
static void add_example(struct wane__build *build, const struct wane__phrases_example *example) {
    if (example->hash > build->example_bound) return;
    build->example[build->examples++] = *example;
    while (build->examples == build->example_room) {
        build->example_bound /= 2;
        size_t kept = 0;
        for (size_t i = 0; i < build->examples; i++)
            if (build->example[i].hash <= build->example_bound) build->example[kept++] = build->example[i];
        build->examples = kept;
    }
}

static void note_examples(struct walk *walk) {
    struct wane__build *build = walk->build;
    for (size_t i = 0; i < walk->count; i++) {
        const struct wane__chain *chain = chain_of(walk, i);
        if (chain == NULL || chain->count == 0) continue;
        const struct wane__reply *reply = &walk->reply[i];
        uint32_t n = matched(walk, i, chain);
        struct wane__phrases_example example = {.hash = wane__mix64(reply->hash),
                                                .owner = (uint32_t)(chain - build->chain),
                                                .share = (float)n / (float)chain->count,
                                                .whole = n == chain->count,
                                                .held = wane__mix64(reply->request) % HELD_PART == 0};
        wane__phrases_features(reply->last, reply->last_count, build->follow + chain->first,
                               (int)chain->count, example.feature);
        add_example(build, &example);
    }
}

/* By entry. Shell's sort: a reply is short, and qsort has no place for `walk`. */
static void sort_order(struct walk *walk, size_t count) {
    for (size_t gap = count / 2; gap > 0; gap /= 2)
        for (size_t i = gap; i < count; i++) {
            uint32_t moved = walk->order[i];
            size_t j = i;
            for (; j >= gap && walk->pick[walk->order[j - gap]] > walk->pick[moved]; j -= gap)
                walk->order[j] = walk->order[j - gap];
            walk->order[j] = moved;
        }
}

static int visit_hits(struct walk *walk) {
    size_t count = 0;
    for (size_t i = 0; i < walk->count; i++) {
        walk->build->report.hits[walk->reply[i].kind].records++;
        if (walk->pick[i] != NULL) walk->order[count++] = (uint32_t)i;
    }
    sort_order(walk, count);
    for (size_t from = 0, to; from < count; from = to) {
        for (to = from; to < count && walk->pick[walk->order[to]] == walk->pick[walk->order[from]]; to++)
            continue;
        count_hits(walk, from, to);
    }
    if (walk->build->example != NULL) note_examples(walk);
    return WANE_OK;
}

/* What the classifier expects, on average, where a continuation could have been proposed. */
static void expect_all(struct wane__build *build, const struct wane__phrases *phrases) {
    for (size_t i = 0; i < build->examples; i++) {
        struct wane__chain *chain = &build->chain[build->example[i].owner];
        chain->expected += (double)wane__phrases_score(phrases, build->example[i].feature);
        chain->examples++;
    }
    for (uint32_t i = 0; i < build->picks; i++) {
        struct wane__chain *chain = &build->chain[i];
        if (chain->count == 0 || chain->examples > 0) continue;
        const struct wane__pick *pick = &build->pick[i];
        chain->expected = (double)wane__phrases_expect(phrases, pick->last, pick->last_count,
                                                       build->follow + chain->first, (int)chain->count);
        chain->examples = 1;
    }
}

static int learn(struct wane__build *build, wane_error *error) {
    const wane_table_build_options *set = &build->options.set;
    struct wane__phrases *phrases = NULL;
    size_t held = 0;
    int status = wane__phrases_train(build->example, build->examples, &phrases, set->progress,
                                     set->progress_user, error);
    if (status != WANE_OK) return status;
    build->report.phrase_auc = wane__phrases_auc(phrases, build->example, build->examples, true, &held);
    build->report.phrase_held = held;
    build->report.phrase_examples = build->examples - held;
    expect_all(build, phrases);
    status = wane__phrases_save(phrases, &build->phrases, &build->phrases_size, error);
    wane__phrases_free(phrases);
    return status;
}

int wane__build_replies(struct wane__build *build, wane_error *error) {
    bool phrases = build->options.set.phrases;
    build->report.phrase_auc = NAN;
    if (phrases) {
        build->example_bound = UINT64_MAX;
        build->example_room = EXAMPLES_MOST;
        build->example = wane__alloc(EXAMPLES_MOST * sizeof *build->example);
        if (build->example == NULL)
            return wane__fail(error, WANE_ENOMEM, "No memory for the classifier's examples.");
    }
    int status = visit_all(build, "counting hits", visit_hits, error);
    if (status == WANE_OK && phrases && build->examples > 0) status = learn(build, error);
    return status;
}
