/*
 * correct.c - one token's corrections, over what the sampler would have drawn from. Owns the order of the parts, their random numbers
 * and what each of them changed. Refuses to look at more than 256 candidates.
 *
 * What a part changed is told by a chain, each link drawn with the same random number: the plain draw; with the clamp; and with the
 * dialogue's temperature; and with the vote; and with the rules. A link is compared with the one before it.
 */
#include "correct/correct.h"

#include "core/error.h"
#include "core/rng.h"
#include "correct/vote.h"
#include "sample/cut.h"

#include <math.h>
#include <string.h>

/* As the sampler: below this temperature its inverse leaves the range of float. */
#define FREEZING 1e-30f

enum { MOST = WANE__POOL_MOST };

float wane__dialogue_temperature(const wane_quality *quality, float temperature, int context) {
    double lengths = log2(1 + (double)context / quality->dialogue_scale);
    double share = 1 - (double)quality->dialogue_slope * lengths;
    if (!(share > (double)quality->dialogue_floor)) share = (double)quality->dialogue_floor;
    return (float)((double)temperature * share);
}

/* Seeds that people count up must not meet each other's second numbers: those have mixed seeds. */
double wane__correction_unit(uint64_t seed, uint64_t index, enum wane__draw draw) {
    if (draw == WANE__DRAW_FIRST) return wane__random_unit(seed, index);
    return wane__random_unit(wane__mix64(seed ^ (0xd1b54a32d192ed03u * (uint64_t)draw)), index);
}

void wane__correction_init(struct wane__correction *c, const wane_quality *q, const wane_sampling *s,
                           uint64_t seed, int context, struct wane__rules *rules) {
    *c = (struct wane__correction){.mode = WANE_MODE_OFF, .seed = seed};
    if (q == NULL || q->mode == WANE_MODE_OFF) return;
    float cooler = wane__dialogue_temperature(q, s->temperature, context);
    c->plain_greedy = !(s->temperature > FREEZING);
    c->greedy = !(cooler > FREEZING);
    c->plain_scale = c->plain_greedy ? 0 : (double)(1 / s->temperature);
    c->scale = c->greedy ? 0 : (double)(1 / cooler);
    c->most = q->clamp > 0 ? q->clamp : MOST;
    c->hold = (double)q->hold;
    c->part[WANE__PART_DIALOGUE] = !c->plain_greedy && cooler < s->temperature;
    c->part[WANE__PART_VOTE] = !c->plain_greedy && q->token_vote;
    c->part[WANE__PART_RULES] = q->rules && rules != NULL && wane__rules_pairs(rules) > 0;
    if (c->part[WANE__PART_RULES]) c->rules = rules;
    /* Without a clamp there still is that of the pool, but no correction for its sake alone. */
    bool others = c->part[WANE__PART_DIALOGUE] || c->part[WANE__PART_VOTE] || c->part[WANE__PART_RULES];
    if (!c->plain_greedy && (others || q->clamp > 0))
        c->part[WANE__PART_CLAMP] = s->top_k == 0 || s->top_k > c->most;
    if (others || c->part[WANE__PART_CLAMP]) c->mode = q->mode;
    c->own = (struct wane__correction_heat){.plain_greedy = c->plain_greedy,
                                            .greedy = c->greedy,
                                            .dialogue = c->part[WANE__PART_DIALOGUE],
                                            .plain_scale = c->plain_scale,
                                            .scale = c->scale};
}

void wane__correction_steer(struct wane__correction *c, float temperature) {
    bool steered = !isnan(temperature), greedy = steered && !(temperature > FREEZING);
    double scale = steered && !greedy ? (double)(1 / temperature) : 0;
    c->plain_greedy = steered ? greedy : c->own.plain_greedy;
    c->greedy = steered ? greedy : c->own.greedy;
    c->plain_scale = steered ? scale : c->own.plain_scale;
    c->scale = steered ? scale : c->own.scale;
    c->part[WANE__PART_DIALOGUE] = !steered && c->own.dialogue;
}

/* ------------------------------------------------------------------- one draw */

/* One token under way. */
struct draw {
    struct wane__correction *c;
    struct wane__sampler *sampler;
    struct wane__source *source;
    uint64_t index;
    struct wane__pool pool;
    const struct wane__candidate *list; /* the pool's, or `wide`                                       */
    struct wane__candidate wide[MOST];  /* with those behind it, where a hold has to look there        */
    double p[MOST], voted[MOST];        /* of one draw; of the vote                                   */
    int count;                          /* of them                                                    */
    bool held[MOST];
    struct wane__corrected *did;
};

static double number(struct draw *d, enum wane__draw draw) {
    return wane__correction_unit(d->c->seed, d->index, draw);
}

/* Probabilities of one draw from the support; at temperature 0 the best token has all of it. */
static void spread(struct draw *d, bool greedy, double scale) {
    double mass = 0;
    d->count = greedy ? 1 : d->pool.support;
    for (int i = 0; i < d->count; i++) mass += d->p[i] = greedy ? 1 : wane__weigh(d->list, i, scale);
    for (int i = 0; i < d->count; i++) d->p[i] /= mass;
}

/* The draw before it is divided: the very comparison of the sampler's. */
static int draw_at(struct draw *d, bool greedy, double scale) {
    double weight[MOST];
    if (greedy) return 0;
    for (int i = 0; i < d->pool.support; i++) weight[i] = wane__weigh(d->list, i, scale);
    return wane__vote_draw(weight, d->pool.support, number(d, WANE__DRAW_FIRST));
}

/* Votes over votes: three of them, each over three winners, are one over nine draws, and so on. */
static void vote_again(struct draw *d) {
    double before[MOST];
    for (int i = 0; i < d->c->more_votes; i++) {
        memcpy(before, d->voted, (size_t)d->count * sizeof *before);
        wane__vote_closed(before, d->count, d->voted);
    }
}

/* `first` is the ordinary draw; leaves the distribution of the winner in `voted`. */
static int vote(struct draw *d, int first) {
    const struct wane__correction *c = d->c;
    spread(d, c->greedy, c->scale);
    if (c->part[WANE__PART_VOTE])
        wane__vote_closed(d->p, d->count, d->voted);
    else
        memcpy(d->voted, d->p, (size_t)d->count * sizeof *d->p);
    vote_again(d);
    if (!c->part[WANE__PART_VOTE] && c->more_votes == 0) return first;
    if (c->mode == WANE_MODE_WANE) return wane__vote_draw(d->voted, d->count, number(d, WANE__DRAW_FIRST));
    d->did->draws += 2;
    int second = wane__vote_draw(d->p, d->count, number(d, WANE__DRAW_SECOND));
    int third = wane__vote_draw(d->p, d->count, number(d, WANE__DRAW_THIRD));
    return wane__vote_winner(first, second, third);
}

/* ----------------------------------------------------------------------- hold */

/* Can any pattern matter? Not if all tokens that rules name have no more probability together than a hold leaves them. */
static bool may_matter(const struct draw *d) {
    double named = 0;
    for (int i = 0; i < d->count; i++)
        if (wane__rules_names(d->c->rules, d->list[i].token)) named += d->voted[i];
    return named > d->c->hold;
}

/*
 * The best token that is not held, where the held ones have all the probability: the cuts' end counts no longer, and neither does
 * top-k. -1: there is none among the best 256.
 */
static int find_other(struct draw *d, int *status) {
    int found = 0;
    *status = wane__sampler_best_drawn(d->sampler, d->source, MOST, d->wide, &found, NULL);
    if (*status != WANE_OK) return -1;
    d->list = d->wide;
    wane__rules_hold(d->c->rules, &d->c->recent, d->list, found, d->held, &d->did->failures);
    for (int i = 0; i < found; i++)
        if (!d->held[i]) return i;
    return -1;
}

/* As it was once done: the winner stays with the probability that leaves the held ones their share, or another one is drawn. */
static int hold_drawn(struct draw *d, int winner, double share, int other) {
    double weight[MOST], others = 0;
    if (!d->held[winner]) return winner;
    d->did->draws++;
    if (number(d, WANE__DRAW_KEEP) < d->c->hold / share) return winner;
    for (int i = 0; i < d->count; i++) others += weight[i] = d->held[i] ? 0 : d->voted[i];
    if (!(others > 0)) return other;
    d->did->draws++;
    return wane__vote_draw(weight, d->count, number(d, WANE__DRAW_AGAIN));
}

/* Room for the other one in the distribution: what lies between has no probability. */
static void make_room(struct draw *d, int other) {
    while (d->count <= other) d->voted[d->count++] = 0;
}

static int apply_rules(struct draw *d, int winner, int *status) {
    struct wane__correction *c = d->c;
    double held = 0, others = 0, share;
    if (!may_matter(d)) return winner;
    wane__rules_hold(c->rules, &c->recent, d->list, d->count, d->held, &d->did->failures);
    for (int i = 0; i < d->count; i++) *(d->held[i] ? &held : &others) += d->voted[i];
    share = held / (held + others);
    if (!(share > c->hold)) return winner;
    int other = others > 0 ? -1 : find_other(d, status);
    if (*status != WANE_OK) return winner;
    d->did->held = others > 0 || other >= 0;
    d->did->powerless = !d->did->held;
    if (!d->did->held) return winner;
    if (c->greedy) return other;
    if (other >= 0) make_room(d, other);
    if (c->mode == WANE_MODE_LEGACY) return hold_drawn(d, winner, share, other);
    wane__vote_hold(d->voted, d->held, d->count, c->hold, other, &share);
    return wane__vote_draw(d->voted, d->count, number(d, WANE__DRAW_FIRST));
}

/* ---------------------------------------------------------------------- chain */

static void note(struct wane__corrected *did, enum wane__part part, bool ran, bool changed) {
    did->ran[part] = ran;
    did->changed[part] = ran && changed;
    did->any = did->any || did->changed[part];
}

/* From the pool on; returns the index of the token in the list. */
static int correct(struct draw *d, int32_t plain, int *status) {
    struct wane__correction *c = d->c;
    struct wane__corrected *did = d->did;
    int clamped = draw_at(d, c->plain_greedy, c->plain_scale);
    int cooled = c->part[WANE__PART_DIALOGUE] ? draw_at(d, c->greedy, c->scale) : clamped;
    note(did, WANE__PART_CLAMP, c->part[WANE__PART_CLAMP], d->list[clamped].token != plain);
    note(did, WANE__PART_DIALOGUE, c->part[WANE__PART_DIALOGUE], cooled != clamped);
    int voted = vote(d, cooled);
    note(did, WANE__PART_VOTE, c->part[WANE__PART_VOTE], voted != cooled);
    if (!c->part[WANE__PART_RULES]) return voted;
    int ruled = apply_rules(d, voted, status);
    note(did, WANE__PART_RULES, true, ruled != voted);
    return ruled;
}

/* `again`: the row was drawn from; what is known of it is not asked for once more. */
static int draw_corrected(struct wane__correction *c, struct wane__sampler *sampler,
                          struct wane__source *source, uint64_t index, bool again,
                          struct wane__choice *choice, struct wane__corrected *did, wane_error *error) {
    struct draw d = {.c = c, .sampler = sampler, .source = source, .index = index, .did = did};
    bool clamps = c->part[WANE__PART_CLAMP] && !again;
    int status = WANE_OK;
    *did = (struct wane__corrected){.draws = !c->greedy};
    *choice = (struct wane__choice){.token = -1, .complete = true};
    if (clamps) status = wane__sampler_choose(sampler, source, index, choice, error);
    if (status == WANE_OK)
        status = wane__sampler_pool(sampler, source, c->plain_greedy ? 1 : c->most, clamps || again, &d.pool,
                                    error);
    if (status != WANE_OK) return status;
    d.list = d.pool.list;
    int at = correct(&d, choice->token, &status);
    if (status != WANE_OK)
        return wane__fail(error, status, "The head gave no more candidates (%s).", wane_strerror(status));
    choice->token = d.list[at].token;
    choice->candidates = d.pool.list;
    choice->candidate_count = d.pool.support;
    choice->complete = true;
    return wane__sampler_finish(sampler, source, choice, error);
}

int wane__correction_draw_again(struct wane__correction *c, struct wane__sampler *sampler,
                                struct wane__source *source, uint64_t index, int votes,
                                struct wane__choice *choice, wane_error *error) {
    struct wane__corrected
        did; /* not counted: the token was, and what it is now is said by whoever asks for this */
    c->more_votes = votes;
    int status = draw_corrected(c, sampler, source, index, true, choice, &did, error);
    c->more_votes = 0;
    return status;
}

int wane__correction_draw(struct wane__correction *c, struct wane__sampler *sampler,
                          struct wane__source *source, uint64_t index, struct wane__choice *choice,
                          struct wane__corrected *did, wane_error *error) {
    if (c->mode == WANE_MODE_OFF) {
        *did = (struct wane__corrected){0};
        return wane__sampler_draw(sampler, source, index, choice, error);
    }
    return draw_corrected(c, sampler, source, index, false, choice, did, error);
}
