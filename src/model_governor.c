/*
 * model_governor.c - the governor's stages in a token's way, and a model's profile as the public functions have it.
 *
 * Owns the profile. Refuses to steer by thresholds that were not fitted for this very model, and to make a greedy request draw.
 */
#include "model_governor.h"

#include "core/clock.h"
#include "core/count.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/rng.h"
#include "layer.h"
#include "model.h"
#include "model_probe.h"
#include "origin.h"
#include "sample/entropy.h"
#include "shipped.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What the second draw's random numbers are mixed with. */
#define AGAIN UINT64_C(0x8cb92ba72f3d8dd7)

void wane__model_governor_init(struct wane__model_governor *governor, struct wane__log *log) {
    wane_profile_init(&governor->own[0].profile);
    governor->log = log;
    atomic_init(&governor->spread, NAN);
    atomic_init(&governor->last_consistency, NAN);
}

void wane__model_governor_close(struct wane__model_governor *governor) {
    for (int i = 0; i <= governor->added; i++) wane__free(governor->own[i].path);
    governor->own[0].path = NULL;
    governor->added = 0;
}

/* ------------------------------------------------------------------ a reply */

static void say_once(struct wane__model_governor *g, atomic_bool *said, const char *what) {
    if (!atomic_exchange(said, true) && g->log != NULL) wane__log(g->log, WANE_LOG_WARN, "%s", what);
}

/* Does a profile steer this reply? If it should and cannot, that is said once. */
static bool may_steer(struct wane__model_governor *g, const struct wane__own_profile *own,
                      const wane_generation *generation) {
    if (!generation->quality->governor) return false;
    if (own->path == NULL) {
        say_once(g, &g->said, "the governor is off: the model has no profile (wane tune makes one)");
        return false;
    }
    if (own->profile.signal == WANE_SIGNAL_NONE) {
        say_once(g, &g->said, "the governor is off: the model's profile says that it shows no signal");
        return false;
    }
    return generation->sampling.temperature > 0; /* who asks for the best token gets it */
}

static float limit_of(struct wane__model_governor *g, const wane_quality *quality) {
    if (quality->consistency > 0 && !g->consistency && g->look == NULL)
        say_once(
            g, &g->said_consistency,
            "consistency is not looked at: the model's probe was not told to (wane_model_set_consistency)");
    return g->consistency || g->look != NULL ? quality->consistency : 0;
}

void wane__model_governor_begin(struct wane__reply *reply, const wane_generation *generation) {
    struct wane__model_governor *g = reply->rows->governor;
    const struct wane__model_gate *gate = reply->rows->gate;
    const wane_quality *quality = generation->quality;
    struct wane__governor *own = &reply->governor;
    *own = (struct wane__governor){.hottest = INFINITY};
    if (g == NULL || quality == NULL || quality->mode != WANE_MODE_WANE) return;
    bool may = wane__reply_has(reply, WANE_FEATURE_GOVERNOR);
    bool added = quality->profile > 0 && quality->profile <= g->added;
    const struct wane__own_profile *p = &g->own[added ? quality->profile : 0];
    bool kurtosis = p->profile.signal == WANE_SIGNAL_KURTOSIS;
    wane__fuse_init(&own->fuse, quality);
    own->fallback = quality->fallback;
    own->steers = may && may_steer(g, p, generation);
    own->consistency = may ? limit_of(g, quality) : 0;
    if (own->steers) wane__machine_init(&own->machine, &p->profile, quality->stability);
    own->looks = own->consistency > 0 || (own->steers && kurtosis);
    own->look_at = kurtosis ? p->at : g->consistency_at;
    own->entropies = own->steers || quality->entropies || own->fuse.rule == WANE_FUSE_PLAIN;
    own->every = own->entropies || own->consistency > 0;
    own->on = own->every || own->fuse.rule != WANE_FUSE_OFF;
    if (gate != NULL && gate->breaker != NULL && wane__breaker_is_out(gate->breaker, wane__now()))
        own->hottest = gate->breaker_temperature;
}

/* ------------------------------------------------------------------ the stages */

static void look(struct wane__reply *reply, int row, wane_signals *signals) {
    const struct wane__model_governor *g = reply->rows->governor;
    const struct wane__governor *own = &reply->governor;
    struct wane__source *source = reply->row.checked ? &reply->row.dense.source : reply->row.source;
    bool wants = own->entropies || own->fuse.wants;
    struct wane__entropy entropy;
    if (own->looks && g->look != NULL)
        g->look(g->look_user, row, signals);
    else if (own->looks)
        wane__probe_signals(reply->rows->probe, own->look_at, row, signals);
    if (source == NULL || !wants || wane__source_entropy(source, &entropy) != WANE_OK) return;
    wane__count(&reply->rows->governor->entropies);
    signals->entropy = (float)entropy.value;
    signals->margin = (float)entropy.margin;
}

static void steer(struct wane__reply *reply, const struct wane__command *command) {
    float temperature = NAN, top_p = NAN;
    if (command != NULL) {
        float hottest = reply->governor.hottest;
        temperature = command->temperature < hottest ? command->temperature : hottest;
        if (command->top_p_off) top_p = 1;
    }
    wane__sampler_steer(reply->sampler, temperature, top_p);
    wane__correction_steer(&reply->correction, temperature);
}

void wane__model_governor_stage(struct wane__reply *reply, int row) {
    struct wane__model_governor *g = reply->rows->governor;
    struct wane__governor *own = &reply->governor;
    struct wane__step *step = &reply->step;
    look(reply, row, &step->signals);
    wane__fuse_see(&own->fuse, (double)step->signals.entropy);
    if (!isnan(own->fuse.spread))
        atomic_store_explicit(&g->spread, (float)own->fuse.spread, memory_order_relaxed);
    if (!own->steers) return;
    struct wane__command command = wane__machine_step(&own->machine, step->index, &step->signals);
    if (isnan(wane__machine_value(&own->machine, &step->signals))) wane__count(&g->missing);
    if (command.count > 0) wane__count(&g->commands);
    if (!wane__steering_take(&own->steering, &command, step->index)) wane__count(&g->dropped);
    step->state = own->machine.state;
    step->steered = true;
    steer(reply, wane__steering_at(&own->steering, step->index));
}

/* Of two tokens, is the second the more probable one? `choice` holds the candidates of its draw, best first. */
static bool outranks(const struct wane__choice *choice, int32_t first) {
    for (int i = 0; i < choice->candidate_count; i++) {
        if (choice->candidates[i].token == first) return false;
        if (choice->candidates[i].token == choice->token) return true;
    }
    return true; /* the first lies behind all that were fetched */
}

static bool disagrees(const struct wane__reply *reply) {
    const struct wane__governor *own = &reply->governor;
    return own->consistency > 0 && reply->step.signals.consistency < own->consistency; /* NaN is not */
}

int wane__model_governor_draw(struct wane__reply *reply, struct wane__source *source,
                              struct wane__choice *choice, struct wane__corrected *did, wane_error *error) {
    int status = wane__correct_stage(reply, source, choice, did, error);
    if (status != WANE_OK || !disagrees(reply)) return status;
    struct wane__choice second = {.token = -1};
    struct wane__corrected again = {0};
    uint64_t seed = wane__sampler_seed(reply->sampler), other = wane__mix64(seed ^ AGAIN);
    wane__sampler_reseed(reply->sampler, other);
    reply->correction.seed = other;
    status = wane__correct_stage(reply, source, &second, &again, error);
    wane__sampler_reseed(reply->sampler, seed);
    reply->correction.seed = seed;
    if (status != WANE_OK) return status;
    reply->step.redrawn = second.token != choice->token && outranks(&second, choice->token);
    if (reply->step.redrawn) {
        *choice = second;
        *did = again;
    } else { /* the list may have grown, and moved */
        choice->candidates = second.candidates;
        choice->candidate_count = second.candidate_count;
        choice->complete = second.complete;
    }
    return WANE_OK;
}

void wane__model_governor_count(struct wane__reply *reply) {
    struct wane__model_governor *g = reply->rows->governor;
    const struct wane__step *step = &reply->step;
    if (step->steered) wane__count(&g->tokens[step->state]);
    reply->step.changed = step->changed || step->redrawn;
    if (!(reply->governor.consistency > 0) || isnan(step->signals.consistency)) return;
    atomic_store_explicit(&g->last_consistency, step->signals.consistency, memory_order_relaxed);
    wane__count(&g->judged);
    if (disagrees(reply)) wane__count(&g->inconsistent);
    if (step->redrawn) wane__count(&g->changed);
}

void wane__model_governor_skip(struct wane__reply *reply) {
    struct wane__governor *own = &reply->governor;
    wane__fuse_see(&own->fuse, (double)NAN);
    if (!own->steers) return;
    if (wane__steering_at(&own->steering, reply->step.index) != NULL) {
        wane__count(&reply->rows->governor->dropped);
        own->steering.command.count = 0;
    }
    wane__machine_skip(&own->machine);
}

bool wane__model_governor_ends(struct wane__reply *reply) {
    const wane_tokens *context = &reply->context;
    struct wane__fuse *fuse = &reply->governor.fuse;
    int count_of = (int)context->count - reply->prompt_count;
    if (fuse->rule != WANE_FUSE_OFF) wane__count(&reply->rows->governor->fuse_tokens);
    return wane__fuse_take(fuse, context->id + reply->prompt_count, count_of);
}

/* ---------------------------------------------------------- a model's profile */

/* Put a layer among those that are probed, in ascending order, each once. */
static void add_layer(int *layers, int *count, int layer) {
    int at = 0;
    while (at < *count && layers[at] < layer) at++;
    if (at < *count && layers[at] == layer) return;
    memmove(layers + at + 1, layers + at, (size_t)(*count - at) * sizeof *layers);
    layers[at] = layer;
    (*count)++;
}

static int place_of(const int *layers, int count, int layer) {
    for (int i = 0; i < count; i++)
        if (layers[i] == layer) return i;
    return 0;
}

/* The probe that these profiles and the wish for consistency need together; notes where each one's layer is. */
static int set_probe(wane_model *model, struct wane__own_profile *own, int count, bool consistency,
                     wane_error *error) {
    int layers[2 + WANE_PROFILES_MOST], layer_count = 0, middle = model->engine->facts.layers / 2;
    if (own[0].profile.signal == WANE_SIGNAL_KURTOSIS) middle = own[0].profile.layer;
    if (consistency) add_layer(layers, &layer_count, middle);
    for (int i = 0; i < count; i++)
        if (own[i].profile.signal == WANE_SIGNAL_KURTOSIS)
            add_layer(layers, &layer_count, own[i].profile.layer);
    const struct wane__probe_options options = {.layers = layers,
                                                .layer_count = layer_count,
                                                .consistency = consistency};
    int status = wane__model_probe_set(model, &options, error);
    if (status != WANE_OK) return status;
    for (int i = 0; i < count; i++) own[i].at = place_of(layers, layer_count, own[i].profile.layer);
    model->governor.consistency_at = place_of(layers, layer_count, middle);
    return WANE_OK;
}

static int open_profile(wane_model *model, const char *path, wane_profile *profile, char **kept,
                        wane_error *error) {
    struct wane__trace_origin origin;
    char found[2048], file[64];
    const char *digest = origin.model;
    int status = wane__model_origin(model, &origin, error);
    if (status != WANE_OK) return status;
    if (path == NULL) {
        snprintf(file, sizeof file, "profiles/%s.json", digest);
        if (!wane__shipped(file, found, sizeof found))
            return wane__fail(
                error, WANE_ENOENT,
                "No profile ships for this model (%s). \"wane tune\" makes one from labelled text.", digest);
        path = found;
    }
    status = wane_profile_load(path, profile, error);
    if (status != WANE_OK) return status;
    if (strcmp(profile->model, digest) != 0)
        return wane__fail(
            error, WANE_EUNSUPPORTED,
            "The profile %.300s is of another model (%s; this one is %s): its thresholds would mean nothing.",
            path, profile->model, digest);
    *kept = wane__copy_string(path);
    return *kept != NULL ? WANE_OK : wane__fail(error, WANE_ENOMEM, "No memory for a profile.");
}

/* Under the model's lock: `list` stands for the profiles from now on; the paths of those that go are freed. */
static int exchange(wane_model *model, struct wane__own_profile *list, int added, wane_error *error) {
    struct wane__model_governor *g = &model->governor;
    int status = set_probe(model, list, 1 + added, g->consistency, error);
    if (status != WANE_OK) return status;
    for (int i = 0; i <= g->added; i++) {
        bool stays = false;
        for (int k = 0; k <= added; k++) stays = stays || list[k].path == g->own[i].path;
        if (!stays) wane__free(g->own[i].path);
    }
    memcpy(g->own, list, (size_t)(1 + added) * sizeof *list);
    g->added = added;
    atomic_store(&g->said, false);
    return WANE_OK;
}

/* Open a profile and put it at `at` of the list. */
static int put_profile(wane_model *model, const char *path, int at, wane_error *error) {
    struct wane__model_governor *g = &model->governor;
    struct wane__own_profile list[1 + WANE_PROFILES_MOST];
    char *kept = NULL;
    memcpy(list, g->own, sizeof list);
    int status = open_profile(model, path, &list[at].profile, &kept, error);
    if (status != WANE_OK) return status;
    list[at].path = kept;
    status = exchange(model, list, at > g->added ? at : g->added, error);
    if (status != WANE_OK) wane__free(kept);
    return status;
}

int wane_model_set_profile(wane_model *model, const char *path, wane_error *error) {
    int status = wane__model_take(model, error);
    if (status != WANE_OK) return status;
    status = put_profile(model, path, 0, error);
    /* Whoever asked is told by what this returns. */
    if (status == WANE_ENOENT && path == NULL) atomic_store(&model->governor.said, true);
    wane__model_give(model);
    return status;
}

int wane_model_add_profile(wane_model *model, const char *path, int *number, wane_error *error) {
    int status = wane__model_take(model, error);
    if (status != WANE_OK) return status;
    const struct wane__model_governor *g = &model->governor;
    *number = 1;
    while (*number <= g->added && strcmp(g->own[*number].path, path) != 0) ++*number;
    if (*number > WANE_PROFILES_MOST)
        status = wane__fail(error, WANE_EINVAL, "A model has at most %d profiles besides its own.",
                            WANE_PROFILES_MOST);
    else if (*number > g->added)
        status = put_profile(model, path, *number, error);
    wane__model_give(model);
    return status;
}

int wane_model_drop_profile(wane_model *model, wane_error *error) {
    struct wane__own_profile none = {0};
    wane_profile_init(&none.profile);
    int status = wane__model_take(model, error);
    if (status != WANE_OK) return status;
    status = exchange(model, &none, 0, error);
    wane__model_give(model);
    return status;
}

int wane_model_set_consistency(wane_model *model, bool on, wane_error *error) {
    int status = wane__model_take(model, error);
    if (status != WANE_OK) return status;
    struct wane__model_governor *g = &model->governor;
    if (on != g->consistency) {
        status = set_probe(model, g->own, 1 + g->added, on, error);
        if (status == WANE_OK) g->consistency = on;
    }
    wane__model_give(model);
    return status;
}

static uint64_t read_count(atomic_ullong *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void wane_model_get_governor_state(wane_model *model, wane_governor_state *state) {
    struct wane__model_governor *g = &model->governor;
    *state = (wane_governor_state){.given = g->own[0].path != NULL,
                                   .added = g->added,
                                   .consistency = g->consistency,
                                   .profile = g->own[0].profile};
    for (int i = 0; i <= g->added; i++)
        state->on = state->on || (g->own[i].path != NULL && g->own[i].profile.signal != WANE_SIGNAL_NONE);
    if (g->own[0].path != NULL) snprintf(state->path, sizeof state->path, "%s", g->own[0].path);
    for (int i = 0; i < WANE_STATES; i++) state->tokens[i] = read_count(&g->tokens[i]);
    for (int i = 0; i < WANE_FUSES; i++) state->fused[i] = read_count(&g->fused[i]);
    state->missing = read_count(&g->missing);
    state->commands = read_count(&g->commands);
    state->dropped = read_count(&g->dropped);
    state->fuse_tokens = read_count(&g->fuse_tokens);
    state->entropies = read_count(&g->entropies);
    state->judged = read_count(&g->judged);
    state->inconsistent = read_count(&g->inconsistent);
    state->changed = read_count(&g->changed);
    state->entropy_spread = atomic_load_explicit(&g->spread, memory_order_relaxed);
    state->last_consistency = atomic_load_explicit(&g->last_consistency, memory_order_relaxed);
}
