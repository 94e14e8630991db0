/*
 * reward.c - the reward model: trained on a pool of ratings, given to a model, asked for scores.
 *
 * A reply's features and its prompt's are two parts with different seeds, so that what makes a prompt easy is learned apart from what
 * makes a reply good; when answers to one prompt are ranked, the prompt's part is the same for all, and is not even looked at. Owns no
 * pool. Refuses pools without texts, and with too few ratings of either kind.
 */
#include "reward.h"

#include "core/clock.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/rng.h"
#include "governor/linear.h"
#include "model.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

enum {
    BITS = 20, /* 1,048,576 weights */
    SEED_OF_REPLY = 2,
    SEED_OF_PROMPT = 3,
    HELD_OF = 5,  /* every fifth prompt */
    LEAST = 10,   /* ratings of either kind that are learned from */
    MOST = 20000, /* replies, the newest: their features take about 25 KB each */
    SEATS = 1 << 16
};

/* ------------------------------------------------------------------- asking */

bool wane__reward_score(const struct wane__reward *reward, const char *text, size_t size, double *score) {
    struct wane__features features = {0};
    double all[WANE__LINEAR_CLASSES];
    bool fine =
        wane__features_add(&features, text, size, SEED_OF_REPLY, reward->model->bits, NULL) == WANE_OK;
    if (fine) {
        wane__linear_score(reward->model, &features, all);
        *score = all[0];
    }
    wane__features_free(&features);
    return fine;
}

void wane__reward_close(struct wane__reward *reward) {
    wane__linear_free(reward->model);
    *reward = (struct wane__reward){0};
}

int wane_model_set_reward(wane_model *model, const char *path, int choice, wane_error *error) {
    struct wane__linear *read = NULL;
    wane__clear(error);
    if (choice != WANE_REWARD_TIE && choice != WANE_REWARD_BEST)
        return wane__fail(error, WANE_EINVAL, "A reward model chooses on ties (0) or always (1), not %d.",
                          choice);
    int status = wane__linear_read(path, WANE__LINEAR_REWARD, &read, error);
    if (status == WANE_OK) status = wane__model_take(model, error);
    if (status != WANE_OK) {
        wane__linear_free(read);
        return status;
    }
    wane__reward_close(&model->reward);
    model->reward = (struct wane__reward){read, choice};
    wane__model_give(model);
    return WANE_OK;
}

int wane_model_drop_reward(wane_model *model, wane_error *error) {
    int status = wane__model_take(model, error);
    if (status != WANE_OK) return status;
    wane__reward_close(&model->reward);
    wane__model_give(model);
    return WANE_OK;
}

/* ------------------------------------------------------------------- reading pools */

struct rated {
    uint64_t response, prompt; /* hashes */
    float rating;
    struct wane__features features;
};

/*
 * `seat`: where the reply of a hash is in the list, plus 1; the next seats are tried where one is taken. There are more than twice as many
 * seats as replies that stay, and all are laid anew when so many more have come that taken ones would be in the way.
 */
struct pool {
    struct rated *list;
    size_t count, room, added;
    uint32_t *seat;
    size_t taken;
    wane_reward_report *report;
    int status;
    wane_error *error;
};

static void free_pool(struct pool *pool) {
    for (size_t i = 0; i < pool->count; i++) wane__features_free(&pool->list[i].features);
    wane__free(pool->list);
    wane__free(pool->seat);
}

/* The entry of a reply that was rated before: its last rating counts. */
static struct rated *find(struct pool *pool, uint64_t response) {
    for (size_t at = (size_t)response % SEATS; pool->seat[at] != 0; at = (at + 1) % SEATS) {
        struct rated *r = &pool->list[pool->seat[at] - 1];
        if (r->response == response)
            return r; /* a seat of one that had to go leads to another, which has its own hash */
    }
    return NULL;
}

static void sit_down(struct pool *pool, const struct rated *r) {
    size_t at = (size_t)r->response % SEATS;
    while (pool->seat[at] != 0) at = (at + 1) % SEATS;
    pool->seat[at] = (uint32_t)(r - pool->list) + 1;
    pool->taken++;
}

/* Has just got its hash. */
static void seat_reply(struct pool *pool, const struct rated *r) {
    if (pool->taken < SEATS / 4 * 3) {
        sit_down(pool, r);
        return;
    }
    memset(pool->seat, 0, SEATS * sizeof *pool->seat);
    pool->taken = 0;
    for (size_t i = 0; i < pool->count; i++) sit_down(pool, &pool->list[i]);
}

/* The newest MOST stay. */
static struct rated *add(struct pool *pool) {
    if (pool->added++ >= MOST) {
        struct rated *oldest = &pool->list[(pool->added - 1) % MOST];
        wane__features_free(&oldest->features);
        *oldest = (struct rated){0};
        return oldest;
    }
    if (pool->count == pool->room) {
        size_t room = pool->room > 0 ? 2 * pool->room : 256;
        struct rated *more = wane__resize(pool->list, room, sizeof *more);
        if (more == NULL) return NULL;
        pool->list = more;
        pool->room = room;
    }
    struct rated *made = &pool->list[pool->count++];
    *made = (struct rated){0};
    return made;
}

static bool take(void *user, const wane_feedback_entry *e) {
    struct pool *pool = user;
    pool->report->entries++;
    if (e->reply == NULL || e->reply[0] == '\0') return true;
    const char *prompt = e->prompt != NULL ? e->prompt : "";
    size_t reply_size = strlen(e->reply), prompt_size = strlen(prompt);
    uint64_t response = XXH3_64bits(e->response, strlen(e->response));
    struct rated *r = find(pool, response);
    if (r == NULL) {
        r = add(pool);
        if (r == NULL) {
            pool->status = wane__fail(pool->error, WANE_ENOMEM, "No memory for the ratings.");
            return false;
        }
        r->response = response;
        seat_reply(pool, r);
        r->prompt = XXH3_64bits(prompt, prompt_size);
        pool->status =
            wane__features_add(&r->features, e->reply, reply_size, SEED_OF_REPLY, BITS, pool->error);
        if (pool->status == WANE_OK)
            pool->status =
                wane__features_add(&r->features, prompt, prompt_size, SEED_OF_PROMPT, BITS, pool->error);
    }
    r->rating = (float)e->rating;
    return pool->status == WANE_OK;
}

/* ------------------------------------------------------------------- training */

static bool is_held(const struct rated *r, uint64_t seed) {
    return wane__random_bits(seed, r->prompt) % HELD_OF == 0;
}

/* Lessons first, then what is held out; replies without an opinion are neither. */
static void split(struct pool *pool, uint64_t seed, struct wane__lesson *lesson, bool *skip, size_t *count) {
    *count = 0;
    for (size_t i = 0; i < pool->count; i++) {
        const struct rated *r = &pool->list[i];
        bool held = is_held(r, seed), up = r->rating > 0;
        if (!(r->rating < 0) && !up) continue;
        pool->report->usable++;
        pool->report->up += up;
        pool->report->down += !up;
        pool->report->learned += !held;
        pool->report->held += held;
        pool->report->held_up += held && up;
        skip[*count] = held;
        lesson[(*count)++] = (struct wane__lesson){.features = r->features, .target = (r->rating + 1) / 2};
    }
}

static int measure(struct wane__linear *model, const struct wane__lesson *lesson, const bool *skip,
                   size_t count, wane_reward_report *r, wane_error *error) {
    double *score = wane__alloc((count + 1) * sizeof *score);
    bool *up = wane__alloc((count + 1) * sizeof *up);
    size_t n = 0;
    bool fine = score != NULL && up != NULL;
    for (size_t i = 0; fine && i < count; i++) {
        double all[WANE__LINEAR_CLASSES];
        if (!skip[i]) continue;
        wane__linear_score(model, &lesson[i].features, all);
        score[n] = all[0];
        up[n++] = lesson[i].target > 0.5f;
    }
    fine = fine && wane__auc(score, up, n, model->seed, &r->auc, &r->low, &r->high);
    wane__free(score);
    wane__free(up);
    model->figure = r->auc;
    model->low = r->low;
    model->high = r->high;
    return fine ? WANE_OK : wane__fail(error, WANE_ENOMEM, "No memory to measure a reward model.");
}

static int check(const wane_reward_report *r, wane_error *error) {
    uint64_t learned_up = r->up - r->held_up, learned_down = r->learned - learned_up;
    if (learned_up >= LEAST && learned_down >= LEAST) return WANE_OK;
    return wane__fail(
        error, WANE_EINVAL,
        "A reward model needs at least %d liked and %d disliked replies with their texts to learn from; "
        "there are %llu and %llu (of %llu ratings, %llu with a text and an opinion). A server keeps texts "
        "with "
        "--feedback-text.",
        LEAST, LEAST, (unsigned long long)learned_up, (unsigned long long)learned_down,
        (unsigned long long)r->entries, (unsigned long long)r->usable);
}

static int train(const wane_reward_train_options *o, struct pool *pool, struct wane__linear *model,
                 wane_error *error) {
    wane_reward_report *r = pool->report;
    struct wane__lesson *lesson = wane__alloc((pool->count + 1) * sizeof *lesson);
    bool *skip = wane__alloc_zero(pool->count + 1, sizeof *skip);
    size_t count = 0;
    int status = WANE_OK;
    if (lesson == NULL || skip == NULL)
        status = wane__fail(error, WANE_ENOMEM, "No memory to train a reward model.");
    if (lesson != NULL && skip != NULL) {
        split(pool, o->seed, lesson, skip, &count);
        status = check(r, error);
    }
    if (status == WANE_OK)
        status = wane__linear_train(model, lesson, count, skip, o->progress, o->progress_user, error);
    if (status == WANE_OK) status = measure(model, lesson, skip, count, r, error);
    model->examples = (uint32_t)r->learned;
    model->held = (uint32_t)r->held;
    r->weights = UINT64_C(1) << BITS;
    r->bytes = wane__linear_bytes(model);
    if (status == WANE_OK && o->output != NULL) status = wane__linear_write(model, o->output, error);
    wane__free(lesson);
    wane__free(skip);
    return status;
}

void wane_reward_train_options_init(wane_reward_train_options *options) {
    *options = (wane_reward_train_options){.size = sizeof *options, .seed = 1};
}

int wane_reward_train(const wane_reward_train_options *o, wane_reward_report *report, wane_error *error) {
    double start = wane__now();
    wane__clear(error);
    if (o->size != sizeof *o || o->pool_count == 0)
        return wane__fail(error, WANE_EINVAL, "There is no feedback pool to learn from.");
    wane_reward_report own = {.auc = (double)NAN, .low = (double)NAN, .high = (double)NAN};
    struct pool pool = {.report = &own, .error = error};
    struct wane__linear *model = wane__alloc_zero(1, sizeof *model);
    pool.seat = wane__alloc_zero(SEATS, sizeof *pool.seat);
    int status = model != NULL && pool.seat != NULL
                     ? WANE_OK
                     : wane__fail(error, WANE_ENOMEM, "No memory for a reward model.");
    if (model != NULL) {
        model->kind = WANE__LINEAR_REWARD;
        model->classes = 1;
        model->bits = BITS;
        model->seed = o->seed;
        memcpy(model->name[0], "reward", sizeof "reward");
    }
    for (size_t i = 0; i < o->pool_count && status == WANE_OK; i++) {
        wane_error detail = {0};
        status = wane_feedback_read(o->pools[i], take, &pool, &detail);
        if (pool.status != WANE_OK)
            status = pool.status;
        else if (status != WANE_OK)
            wane__fail(error, status, "%s", detail.text);
    }
    if (status == WANE_OK && model != NULL) status = train(o, &pool, model, error);
    own.seconds = wane__now() - start;
    if (report != NULL) *report = own;
    wane__linear_free(model);
    free_pool(&pool);
    return status;
}
