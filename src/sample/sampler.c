/*
 * sampler.c - one token from a source of candidates; owns the settings, the named tokens and the scratch
 * lists.
 *
 *     fetched: the best tokens that no processor touched ─┐
 *                                                         ├─► list: merged, best first ─► cut ─► draw
 *     named:   tokens with bias or penalty, processed ────┘
 *
 * Top-k, top-p and min-p each keep a prefix of the sorted list, and none looks at what another one cut off
 * behind it, so their common support is the shortest of three prefixes. It is found by walking the list from
 * the best down, and the list is fetched in growing rounds only as far as the walk goes: 4, 32, 256, 2,048,
 * 4,096, then everything. Before each round, cut.h is asked whether the rest can still change the draw. (One more reading of everything costs less than more rounds in between would, and
 * bounds the worst case: a flat row.) What lies beyond the list enters only through the normaliser, which the
 * source gives as a logarithm. Weights are exponentials against the best logit, in double, summed from the
 * best down.
 */
#include "core/error.h"
#include "core/memory.h"
#include "core/os.h"
#include "core/rng.h"
#include "sample/cut.h"
#include "sample/exp.h"
#include "sample/named.h"
#include "sample/order.h"

#include <math.h>
#include <string.h>

enum { FIRST_ROUND = 4, LAST_ROUND = 4096 };

/* Beyond this inverse temperature a normaliser's logarithm loses digits; few tokens have any weight there. */
#define COLDEST 1e3
/* Below this temperature its inverse leaves the range of float: greedy. */
#define FREEZING 1e-30f

struct wane__sampler {
    wane_sampling
        settings; /* without its bias list: `named` holds that; temperature and top-p as they are steered */
    float own_temperature, own_top_p; /* the request's */
    float min_p_distance;             /* ln min_p: how far below the best logit a token may lie */
    int vocab_size;
    bool forbids; /* some bias is -infinity */
    struct wane__named named;
    struct wane__candidate *named_sorted; /* after processors, best first */
    int named_capacity;
    struct wane__candidate *fetched, *list;
    int list_count;
    int capacity;    /* of fetched; list holds the named tokens too */
    int named_count; /* of named_sorted, for a sum asked for by itself */
};

/* ------------------------------------------------------------------ memory */

/* Room for `count` fetched candidates and as many in the list as named tokens can add. */
static bool resize_lists(struct wane__sampler *sampler, int count) {
    int named = sampler->named.capacity;
    if (count <= sampler->capacity && named <= sampler->named_capacity) return true;
    if (count < sampler->capacity) count = sampler->capacity;
    size_t size = sizeof(struct wane__candidate);
    void *block = wane__resize(sampler->named_sorted, (size_t)named, size);
    if (block == NULL) return false;
    sampler->named_sorted = block;
    if ((block = wane__resize(sampler->fetched, (size_t)count, size)) == NULL) return false;
    sampler->fetched = block;
    if ((block = wane__resize(sampler->list, (size_t)count + (size_t)named, size)) == NULL) return false;
    sampler->list = block;
    sampler->capacity = count;
    sampler->named_capacity = named;
    return true;
}

/* The rare growth inside a draw: the step, which promises not to allocate, is left for it. */
static int make_room(struct wane__sampler *sampler, int count, wane_error *error) {
    if (count <= sampler->capacity && sampler->named.capacity <= sampler->named_capacity) return WANE_OK;
    wane__step_leave();
    bool fine = resize_lists(sampler, count);
    wane__step_enter();
    return fine ? WANE_OK : wane__fail(error, WANE_ENOMEM, "No memory for %d candidates.", count);
}

static int draw_seed(wane_sampling *settings, wane_error *error) {
    if (settings->seeded) return WANE_OK;
    if (!wane__os_random(&settings->seed, sizeof settings->seed))
        return wane__fail(error, WANE_EIO, "The system gave no random seed; give one in the request.");
    return WANE_OK;
}

int wane__sampler_reset(struct wane__sampler *sampler, const wane_sampling *settings, wane_error *error) {
    int status = wane__sampling_check(settings, sampler->vocab_size, error);
    if (status == WANE_OK) status = wane__named_init(&sampler->named, settings, sampler->vocab_size, error);
    if (status != WANE_OK) return status;
    sampler->settings = *settings;
    sampler->settings.bias = NULL;
    sampler->own_temperature = settings->temperature;
    sampler->own_top_p = settings->top_p;
    sampler->min_p_distance = settings->min_p > 0 ? logf(settings->min_p) : 0;
    sampler->forbids = false;
    for (size_t i = 0; i < settings->bias_count; i++)
        if (isinf(settings->bias[i].bias)) sampler->forbids = true;
    int room = settings->top_k > LAST_ROUND ? settings->top_k : LAST_ROUND;
    if (room > sampler->vocab_size) room = sampler->vocab_size;
    if (!resize_lists(sampler, room))
        return wane__fail(error, WANE_ENOMEM, "No memory for %d candidates.", room);
    return draw_seed(&sampler->settings, error);
}

int wane__sampler_new(const wane_sampling *settings, int vocab_size, struct wane__sampler **sampler,
                      wane_error *error) {
    *sampler = NULL;
    if (vocab_size < 1)
        return wane__fail(error, WANE_EINVAL, "A vocabulary of %d tokens cannot be sampled.", vocab_size);
    struct wane__sampler *made = wane__alloc_zero(1, sizeof *made);
    if (made == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a sampler.");
    made->vocab_size = vocab_size;
    int status = wane__sampler_reset(made, settings, error);
    if (status != WANE_OK) {
        wane__sampler_free(made);
        return status;
    }
    *sampler = made;
    return WANE_OK;
}

void wane__sampler_free(struct wane__sampler *sampler) {
    if (sampler == NULL) return;
    wane__named_free(&sampler->named);
    wane__free(sampler->named_sorted);
    wane__free(sampler->fetched);
    wane__free(sampler->list);
    wane__free(sampler);
}

void wane__sampler_accept(struct wane__sampler *sampler, int32_t token) {
    if (token >= 0 && token < sampler->vocab_size) wane__named_accept(&sampler->named, token);
}

bool wane__sampler_is_plain(const struct wane__sampler *sampler) {
    return sampler->named.count == 0;
}

uint64_t wane__sampler_seed(const struct wane__sampler *sampler) {
    return sampler->settings.seed;
}

void wane__sampler_steer(struct wane__sampler *sampler, float temperature, float top_p) {
    sampler->settings.temperature = isnan(temperature) ? sampler->own_temperature : temperature;
    sampler->settings.top_p = isnan(top_p) ? sampler->own_top_p : top_p;
}

void wane__sampler_reseed(struct wane__sampler *sampler, uint64_t seed) {
    sampler->settings.seed = seed;
}

/* -------------------------------------------------------------- candidates */

/* One draw under way. */
struct walk {
    int named_count;
    bool all;     /* the list is all there is */
    float lowest; /* logits below it are cut: min-p, or no weight at all */
    bool open;    /* nothing cuts: the tail takes part in the draw without having been fetched */
    int support;  /* length of the prefix that is kept; of what was fetched, in an open draw */
    int chosen;
    bool complete; /* the support is all that the cuts left */
};

static int source_failed(int status, wane_error *error) {
    if (status == WANE_EENGINE)
        return wane__fail(error, status, "The engine's logits hold NaN: this row cannot be sampled.");
    if (status == WANE_ENOMEM) return wane__fail(error, status, "No memory for the penalties' tokens.");
    return wane__fail(error, status, "The head gave no candidates (%s).", wane_strerror(status));
}

/* Fetch and process the named tokens, best first; forbidden ones fall out. */
static int prepare_named(struct wane__sampler *sampler, struct wane__source *source, int *count,
                         wane_error *error) {
    struct wane__named *named = &sampler->named;
    int status = make_room(sampler, 0, error);
    if (status != WANE_OK) return status;
    status = wane__named_process(named, source);
    if (status != WANE_OK) return source_failed(status, error);
    *count = 0;
    for (int i = 0; i < named->count; i++)
        if (named->logit[i] > -INFINITY)
            sampler->named_sorted[(*count)++] = (struct wane__candidate){named->token[i], named->logit[i]};
    wane__sort_candidates(sampler->named_sorted, *count);
    return WANE_OK;
}

/*
 * Fetch the `count` best unnamed tokens and merge. The list ends with the last one fetched: a named token
 * behind it cannot be placed yet, unless nothing is left to fetch. Tokens of logit -infinity are left out.
 */
static int fill_list(struct wane__sampler *sampler, struct wane__source *source, int count, struct walk *walk,
                     wane_error *error) {
    int unnamed = sampler->vocab_size - sampler->named.count, found = 0;
    if (count > unnamed) count = unnamed;
    int status = make_room(sampler, count, error);
    if (status != WANE_OK) return status;
    if (count > 0)
        status =
            source->best(source, count, sampler->named.token, sampler->named.count, sampler->fetched, &found);
    if (status != WANE_OK) return source_failed(status, error);
    walk->all = count == unnamed || found < count;
    while (found > 0 && !(sampler->fetched[found - 1].logit > -INFINITY)) {
        found--;
        walk->all = true;
    }
    int n = 0, f = 0, at = 0;
    const struct wane__candidate *named = sampler->named_sorted, *fetched = sampler->fetched;
    while (f < found || (walk->all && n < walk->named_count)) {
        bool take_named = n < walk->named_count && (f == found || wane__better(named[n], fetched[f]));
        sampler->list[at++] = take_named ? named[n++] : fetched[f++];
    }
    sampler->list_count = at;
    return WANE_OK;
}

static int check_best(const struct wane__sampler *sampler, wane_error *error) {
    if (sampler->list_count > 0) {
        if (sampler->list[0].logit < INFINITY) return WANE_OK;
        return wane__fail(error, WANE_EENGINE,
                          "The engine gave token %d a logit of +infinity: this row cannot be sampled.",
                          sampler->list[0].token);
    }
    if (sampler->forbids)
        return wane__fail(error, WANE_EINVAL, "The logit bias forbids every token that could follow.");
    return wane__fail(error, WANE_EENGINE,
                      "The engine gave every token a logit of -infinity: this row cannot be sampled.");
}

/* ------------------------------------------------------------------ the cut */

enum effort { BOUNDS, CLOSE_BOUNDS, EXACTLY };

/* Σ exp(scale · (logit - best)) over the whole vocabulary after processors. */
static int whole_mass(struct wane__sampler *sampler, struct wane__source *source, int named_count,
                      double scale, enum effort effort, struct wane__mass *mass, wane_error *error) {
    const struct wane__named *named = &sampler->named;
    double low, high, best = (double)sampler->list[0].logit;
    int status;
    if (effort == EXACTLY) {
        status = source->log_sum(source, (float)scale, named->token, named->count, &low);
        high = low;
    } else {
        status = source->log_sum_bounds(source, (float)scale, named->token, named->count,
                                        effort == CLOSE_BOUNDS, &low, &high);
    }
    if (status != WANE_OK) return source_failed(status, error);
    mass->low = exp(low - scale * best);
    mass->high = high > low ? exp(high - scale * best) : mass->low;
    for (int i = 0; i < named_count; i++) {
        double one = wane__exp_weight(((double)sampler->named_sorted[i].logit - best) * scale);
        mass->low += one;
        mass->high += one;
    }
    return WANE_OK;
}

/* How many to fetch after `count`: a draw without top-k rarely needs more than the first two rounds. */
static int next_round(const struct wane__sampler *sampler, int count) {
    if (count >= LAST_ROUND) return sampler->vocab_size;
    int round = FIRST_ROUND;
    while (round <= count) round *= 8;
    return round < LAST_ROUND ? round : LAST_ROUND;
}

/* Draw among the first `count` of the list. */
static int draw_within(const struct wane__sampler *sampler, int count, double scale, double u) {
    double mass = 0, sum = 0;
    for (int i = 0; i < count; i++) mass += wane__weigh(sampler->list, i, scale);
    for (int i = 0; i < count; i++) {
        sum += wane__weigh(sampler->list, i, scale);
        if (sum > u * mass) return i;
    }
    return 0; /* not reached: the same sum, and u < 1 */
}

/*
 * Walk the list in growing rounds until it is cut below `lowest`, or until the running sum reaches `target`:
 * top-p's share or, in an open draw, the draw's. INFINITY: no sum is taken.
 */
static int walk_rounds(struct wane__sampler *sampler, struct wane__source *source, struct walk *walk,
                       double scale, double target, wane_error *error) {
    double sum = 0;
    int at = 0;
    for (;;) {
        for (; at < sampler->list_count; at++) {
            walk->support = walk->chosen = at;
            if (at > 0 && sampler->list[at].logit < walk->lowest) return WANE_OK;
            if (isinf(target)) continue;
            sum += wane__weigh(sampler->list, at, scale);
            walk->support = walk->open ? sampler->list_count : at + 1;
            if (walk->open ? sum > target : sum >= target) return WANE_OK;
        }
        if (walk->all) break;
        int status = fill_list(sampler, source, next_round(sampler, sampler->list_count), walk, error);
        if (status != WANE_OK) return status;
    }
    walk->support = at;
    /*
     * The target was taken of a sum in another order: it may lie past this one by a last bit. In an open
     * draw the last token with any weight is meant.
     */
    while (walk->chosen > 0 && !(wane__weigh(sampler->list, walk->chosen, scale) > 0)) walk->chosen--;
    return WANE_OK;
}

/* So many of the list are all that counts: top-p is taken over them, min-p cuts them. */
static void cut_list(struct wane__sampler *sampler, int most, struct walk *walk) {
    const wane_sampling *s = &sampler->settings;
    int count = sampler->list_count < most ? sampler->list_count : most, kept = count;
    if (s->top_p < 1) {
        double mass = 0, sum = 0;
        for (int i = 0; i < count; i++) mass += wane__weigh(sampler->list, i, 1);
        for (kept = 0; kept < count;) {
            sum += wane__weigh(sampler->list, kept++, 1);
            if (sum >= (double)s->top_p * mass) break;
        }
    }
    while (kept > 1 && sampler->list[kept - 1].logit < walk->lowest) kept--;
    walk->support = kept;
}

/* More than sums of 256 doubles can be off. */
#define SLACK 1e-12

/*
 * The same of a list that is shorter than `most`, where that says as much: none of the others weighs more than the last one here, so that
 * they bound top-p's share, and min-p ends before them. False: more of them must be known.
 */
static bool cut_prefix(struct wane__sampler *sampler, int most, struct walk *walk) {
    const wane_sampling *s = &sampler->settings;
    int count = sampler->list_count, kept = count;
    if (walk->all || count >= most) {
        cut_list(sampler, most, walk);
        return true;
    }
    while (kept > 1 && sampler->list[kept - 1].logit < walk->lowest) kept--;
    bool ended = kept < count;
    walk->support = kept;
    if (!(s->top_p < 1)) return ended;
    double mass = 0, sum = 0;
    for (int i = 0; i < count; i++) mass += wane__weigh(sampler->list, i, 1);
    double more = (most - count) * wane__weigh(sampler->list, count - 1, 1);
    double low = (double)s->top_p * mass * (1 - SLACK), high = (double)s->top_p * (mass + more) * (1 + SLACK);
    for (int i = 0; i < kept; i++) {
        sum += wane__weigh(sampler->list, i, 1);
        walk->support = i + 1;
        if (sum >= high) return true;
        if (sum >= low) return false;
    }
    return ended;
}

/* Without top-k, and no prefix decided: take the sum exactly, and walk as far as it says. */
static int draw_exactly(struct wane__sampler *sampler, struct wane__source *source, struct walk *walk,
                        const struct wane__cut *cut, wane_error *error) {
    struct wane__mass mass = {0, INFINITY};
    double target = INFINITY;
    walk->lowest = cut->lowest;
    walk->open = cut->open;
    if (!cut->open && !walk->complete)
        walk->lowest = sampler->list[0].logit + (float)(WANE__EXP_LOW / cut->scale);
    if (cut->open || cut->top_p < 1) {
        int status =
            whole_mass(sampler, source, walk->named_count, cut->open ? cut->scale : 1, EXACTLY, &mass, error);
        if (status != WANE_OK) return status;
        target = mass.low * (cut->open ? cut->u : cut->top_p);
    }
    int status = walk_rounds(sampler, source, walk, cut->open ? cut->scale : 1, target, error);
    if (status == WANE_OK && !cut->open)
        walk->chosen = draw_within(sampler, walk->support, cut->scale, cut->u);
    return status;
}

/* Bounds of the vocabulary's mass, as far as the cut has a use for them. */
static int bound_masses(struct wane__sampler *sampler, struct wane__source *source, const struct walk *walk,
                        struct wane__cut *cut, enum effort effort, wane_error *error) {
    int status = WANE_OK;
    bool nucleus = cut->top_p < 1;
    if (!cut->open && (nucleus || cut->scale >= 1))
        status = whole_mass(sampler, source, walk->named_count, 1, effort, &cut->whole, error);
    if (status == WANE_OK && cut->scale <= COLDEST && (cut->open || cut->scale < 1))
        status = whole_mass(sampler, source, walk->named_count, cut->scale, effort, &cut->scaled, error);
    return status;
}

static int draw_token(struct wane__sampler *sampler, struct wane__source *source, struct walk *walk, double u,
                      wane_error *error) {
    const wane_sampling *s = &sampler->settings;
    /* A float, because the source's normaliser must be taken at the very same scale. */
    struct wane__cut cut = {.top_k = s->top_k,
                            .top_p = (double)s->top_p,
                            .lowest = -INFINITY,
                            .scale = (double)(1 / s->temperature),
                            .u = u,
                            .whole = {0, INFINITY},
                            .scaled = {0, INFINITY}};
    if (s->min_p > 0) cut.lowest = sampler->list[0].logit + sampler->min_p_distance;
    walk->complete = s->top_k > 0 || s->top_p < 1 || s->min_p > 0;
    cut.open = !walk->complete && cut.scale <= COLDEST;
    /* Without top-k: bounds, then more tokens, then closer bounds, and so on; a dense row has the sum for the asking. */
    bool bounds = s->top_k == 0;
    for (int step = 0;; step++) {
        int have = sampler->list_count, status = WANE_OK;
        if (walk->all || (s->top_k > 0 && have >= s->top_k)) break;
        if (wane__cut_decides(&cut, sampler->list, have, &walk->chosen, &walk->support)) {
            walk->complete = false;
            return WANE_OK;
        }
        if (bounds && (source->log_sum_bounds == NULL || have >= LAST_ROUND)) break;
        int more = next_round(sampler, have);
        if (bounds && step % 2 == 0)
            status = bound_masses(sampler, source, walk, &cut, step == 0 ? BOUNDS : CLOSE_BOUNDS, error);
        else
            status =
                fill_list(sampler, source, s->top_k > 0 && s->top_k < more ? s->top_k : more, walk, error);
        if (status != WANE_OK) return status;
    }
    if (s->top_k == 0) return draw_exactly(sampler, source, walk, &cut, error);
    walk->lowest = cut.lowest;
    cut_list(sampler, s->top_k, walk);
    walk->chosen = draw_within(sampler, walk->support, cut.scale, u);
    return WANE_OK;
}

/* ---------------------------------------------------------------- logprobs */

/* Of the raw row: no processor, no filter, no temperature. */
static int add_logprobs(struct wane__sampler *sampler, struct wane__source *source,
                        struct wane__choice *choice, wane_error *error) {
    struct wane__candidate best[WANE_MAX_TOP_LOGPROBS];
    int found = 0;
    double all;
    float logit;
    int status = source->log_sum(source, 1, NULL, 0, &all);
    if (status == WANE_OK) status = source->fetch(source, &choice->token, 1, &logit);
    if (status == WANE_OK && sampler->settings.top_logprobs > 0)
        status = source->best(source, sampler->settings.top_logprobs, NULL, 0, best, &found);
    if (status != WANE_OK) return source_failed(status, error);
    choice->has_logprob = true;
    choice->logprob = (float)((double)logit - all);
    choice->top_count = found;
    for (int i = 0; i < found; i++)
        choice->top[i] = (wane_logprob){best[i].token, (float)((double)best[i].logit - all)};
    return WANE_OK;
}

/* ------------------------------------------------------------------ public */

int wane__sampler_best(struct wane__sampler *sampler, struct wane__source *source, int count,
                       struct wane__candidate *out, int *found, wane_error *error) {
    enum { MOST = 64 };
    struct walk walk = {0};
    *found = 0;
    int status = prepare_named(sampler, source, &walk.named_count, error);
    if (status == WANE_OK) status = fill_list(sampler, source, count < MOST ? count : MOST, &walk, error);
    if (status != WANE_OK) return status;
    sampler->named_count = walk.named_count;
    *found = sampler->list_count < count ? sampler->list_count : count;
    memcpy(out, sampler->list, (size_t)*found * sizeof *out);
    return WANE_OK;
}

int wane__sampler_log_sum(struct wane__sampler *sampler, struct wane__source *source, bool closely,
                          double *low, double *high, wane_error *error) {
    struct wane__mass mass = {0, 0};
    if (sampler->list_count == 0) return wane__fail(error, WANE_EINVAL, "No candidates were asked for.");
    enum effort effort = source->log_sum_bounds == NULL ? EXACTLY : closely ? CLOSE_BOUNDS : BOUNDS;
    int status = whole_mass(sampler, source, sampler->named_count, 1, effort, &mass, error);
    *low = log(mass.low) + (double)sampler->list[0].logit;
    *high = log(mass.high) + (double)sampler->list[0].logit;
    return status;
}

int wane__sampler_best_drawn(struct wane__sampler *sampler, struct wane__source *source, int count,
                             struct wane__candidate *out, int *found, double *log_sum) {
    struct walk walk = {.support = 1};
    *found = 0;
    int status = prepare_named(sampler, source, &walk.named_count, NULL);
    /* The list grows at its end only: what the last draw chose from stays as it is. */
    if (status == WANE_OK && sampler->list_count < count)
        status = fill_list(sampler, source, count, &walk, NULL);
    if (status != WANE_OK) return status;
    *found = count < sampler->list_count ? count : sampler->list_count;
    memcpy(out, sampler->list, (size_t)*found * sizeof *out);
    if (log_sum == NULL || *found == 0) return WANE_OK;
    struct wane__mass mass = {0, INFINITY};
    if (source->log_sum_bounds != NULL)
        status = whole_mass(sampler, source, walk.named_count, 1, CLOSE_BOUNDS, &mass, NULL);
    /* Bounds are so close for three tokens in four; the others cost a reading of all. */
    if (status == WANE_OK && !(mass.high <= mass.low * 1.02))
        status = whole_mass(sampler, source, walk.named_count, 1, EXACTLY, &mass, NULL);
    *log_sum = (double)sampler->list[0].logit + log(0.5 * (mass.low + mass.high));
    return status;
}

static int check_size(const struct wane__sampler *sampler, const struct wane__source *source,
                      wane_error *error) {
    if (source->vocab_size == sampler->vocab_size) return WANE_OK;
    return wane__fail(error, WANE_EINVAL, "The head has %d tokens, the sampler was made for %d.",
                      source->vocab_size, sampler->vocab_size);
}

int wane__sampler_choose(struct wane__sampler *sampler, struct wane__source *source, uint64_t index,
                         struct wane__choice *choice, wane_error *error) {
    const wane_sampling *s = &sampler->settings;
    bool greedy = !(s->temperature > FREEZING);
    struct walk walk = {.support = 1, .complete = true};
    choice->has_logprob = false;
    choice->top_count = 0;
    int status = check_size(sampler, source, error);
    if (status == WANE_OK) status = prepare_named(sampler, source, &walk.named_count, error);
    int first = greedy ? 1 : s->top_k > 0 && s->top_k < FIRST_ROUND ? s->top_k : FIRST_ROUND;
    if (status == WANE_OK) status = fill_list(sampler, source, first, &walk, error);
    if (status == WANE_OK) status = check_best(sampler, error);
    if (status == WANE_OK && !greedy)
        status = draw_token(sampler, source, &walk, wane__random_unit(s->seed, index), error);
    if (status != WANE_OK) return status;
    choice->token = sampler->list[walk.chosen].token;
    choice->candidates = sampler->list;
    choice->candidate_count = walk.support;
    choice->complete = walk.complete;
    return WANE_OK;
}

int wane__sampler_finish(struct wane__sampler *sampler, struct wane__source *source,
                         struct wane__choice *choice, wane_error *error) {
    return sampler->settings.top_logprobs >= 0 ? add_logprobs(sampler, source, choice, error) : WANE_OK;
}

int wane__sampler_draw(struct wane__sampler *sampler, struct wane__source *source, uint64_t index,
                       struct wane__choice *choice, wane_error *error) {
    int status = wane__sampler_choose(sampler, source, index, choice, error);
    return status == WANE_OK ? wane__sampler_finish(sampler, source, choice, error) : status;
}

/* Lists for a pool: the first two mostly tell where the cuts end. */
static int pool_round(int count, int most) {
    int round = count < 8 ? 8 : count < 24 ? 24 : most;
    return round < most ? round : most;
}

int wane__sampler_pool(struct wane__sampler *sampler, struct wane__source *source, int most, bool again,
                       struct wane__pool *pool, wane_error *error) {
    const wane_sampling *s = &sampler->settings;
    struct walk walk = {.lowest = -INFINITY};
    bool prepared = false;
    int have = again ? sampler->list_count : 0, status = check_size(sampler, source, error);
    if (s->top_k > 0 && s->top_k < most) most = s->top_k;
    for (; status == WANE_OK; have = sampler->list_count) {
        if (have > 0 && s->min_p > 0) walk.lowest = sampler->list[0].logit + sampler->min_p_distance;
        if (have > 0 && cut_prefix(sampler, most, &walk)) break;
        if (!prepared) status = prepare_named(sampler, source, &walk.named_count, error);
        prepared = true;
        if (status == WANE_OK) status = fill_list(sampler, source, pool_round(have, most), &walk, error);
        if (status == WANE_OK) status = check_best(sampler, error);
    }
    if (status != WANE_OK) return status;
    pool->list = sampler->list;
    pool->count = sampler->list_count < most ? sampler->list_count : most;
    pool->support = walk.support;
    return WANE_OK;
}
