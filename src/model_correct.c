/*
 * model_correct.c - a model and its corrections: rules, counters, the stage in a token's way, the public functions.
 *
 * Owns the rules. Refuses to do anything in mode OFF: then a token is drawn as if this file were not there.
 */
#include "model_correct.h"

#include "core/count.h"
#include "core/error.h"
#include "core/memory.h"
#include "layer.h"
#include "model.h"
#include "shipped.h"

#include <stdio.h>
#include <string.h>

enum { TOKEN_BYTES_MAX = 4096 };

/* ---------------------------------------------------------------------- stage */

/* What patterns see of the prompt: its last tokens, from the one that fills the window on. */
static void see_prompt(struct wane__reply *reply) {
    const wane_tokens *context = &reply->context;
    struct wane__engine *engine = reply->engine;
    char bytes[TOKEN_BYTES_MAX];
    size_t from = context->count;
    for (int size = 0; from > 0 && size < WANE__RECENT_BYTES; from--) {
        int more = engine->ops->token_bytes(engine, context->id[from - 1], false, bytes, sizeof bytes);
        size += more > 0 ? more : 0;
    }
    for (; from < context->count; from++) {
        int size = engine->ops->token_bytes(engine, context->id[from], false, bytes, sizeof bytes);
        if (size > 0) wane__recent_add(&reply->correction.recent, bytes, (size_t)size, false);
    }
}

void wane__correct_begin(struct wane__reply *reply, const wane_quality *quality,
                         const wane_sampling *sampling) {
    struct wane__rules *rules = reply->rows->correct.rules;
    wane__correction_init(&reply->correction, quality, sampling, wane__sampler_seed(reply->sampler),
                          reply->prompt_count, rules);
    if (reply->correction.rules != NULL && wane__rules_see_prompt(rules)) see_prompt(reply);
}

int wane__correct_stage(struct wane__reply *reply, struct wane__source *source, struct wane__choice *choice,
                        struct wane__corrected *did, wane_error *error) {
    return wane__correction_draw(&reply->correction, reply->sampler, source, (uint64_t)reply->step.index,
                                 choice, did, error);
}

static void add(atomic_ullong *counter, unsigned more) {
    if (more > 0) wane__count_more(counter, more);
}

void wane__correct_count(struct wane__reply *reply, const struct wane__corrected *did) {
    struct wane__model_correct *correct = &reply->rows->correct;
    if (reply->correction.mode == WANE_MODE_OFF) return;
    reply->step.changed = did->any;
    add(&correct->tokens, 1);
    add(&correct->changed, did->any);
    add(&correct->draws, (unsigned)did->draws);
    add(&correct->held, did->held);
    add(&correct->powerless, did->powerless);
    add(&correct->failures, (unsigned)did->failures);
    for (int i = 0; i < WANE__PARTS; i++) {
        add(&correct->part_ran[i], did->ran[i]);
        add(&correct->part_changed[i], did->changed[i]);
    }
}

void wane__correct_see(struct wane__reply *reply, const char *bytes, size_t size) {
    if (reply->correction.rules != NULL) wane__recent_add(&reply->correction.recent, bytes, size, true);
}

/* ------------------------------------------------------------- a model's rules */

void wane__model_correct_free(struct wane__model_correct *correct) {
    wane__rules_free(correct->rules);
    correct->rules = NULL;
}

static int tokenize_word(void *user, const char *text, size_t size, wane_tokens *out, wane_error *error) {
    return wane_tokenize(user, text, size, 0, out, error);
}

static int bytes_of_token(void *user, int32_t token, char *buffer, size_t capacity) {
    return wane_token_bytes(user, token, false, buffer, capacity);
}

/* A set that ships, by its name. */
static bool find_set(const char *name, char *out, size_t room) {
    char file[300];
    int size = snprintf(file, sizeof file, "rules/%s.json", name);
    return size > 0 && (size_t)size < sizeof file && wane__shipped(file, out, room);
}

static int load_rules(wane_model *model, const char *path, struct wane__rules **rules, wane_error *error) {
    char found[2000];
    const struct wane__rules_tokenizer tokenizer = {.tokenize = tokenize_word,
                                                    .token_bytes = bytes_of_token,
                                                    .user = model,
                                                    .vocab_size = model->engine->facts.vocab_size};
    if (path[0] == '\0') return wane__fail(error, WANE_EINVAL, "The rules' path is empty.");
    if (strpbrk(path, "/.") == NULL) {
        if (!find_set(path, found, sizeof found))
            return wane__fail(error, WANE_ENOENT,
                              "No set of rules named %.100s ships with wane; give the path of a file, with a "
                              "slash or a dot in it.",
                              path);
        path = found;
    }
    return wane__rules_load(path, &tokenizer, rules, error);
}

int wane_model_set_rules(wane_model *model, const char *path, wane_error *error) {
    struct wane__rules *fresh = NULL;
    const char *word, *rule;
    int status = WANE_OK;
    wane__clear(error);
    if (wane__model_take(model, error) != WANE_OK) return WANE_EBUSY;
    if (path != NULL) status = load_rules(model, path, &fresh, error);
    if (status == WANE_OK) {
        wane__model_correct_free(&model->rows.correct);
        model->rows.correct.rules = fresh;
    }
    int left = fresh != NULL ? wane__rules_words_left(fresh, &word, &rule) : 0;
    if (left > 0)
        wane__log(&model->log, WANE_LOG_WARN,
                  "rules: %d words hold nothing with this tokenizer, the first of them \"%s\" of rule "
                  "\"%s\": their "
                  "first tokens begin too many others",
                  left, word, rule);
    wane__model_give(model);
    return status;
}

/* --------------------------------------------------------------------- counters */

static uint64_t read_count(atomic_ullong *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static wane_correction_part read_part(struct wane__model_correct *correct, enum wane__part part) {
    return (wane_correction_part){.ran = read_count(&correct->part_ran[part]),
                                  .changed = read_count(&correct->part_changed[part])};
}

void wane_model_get_correction_state(wane_model *model, wane_correction_state *state) {
    struct wane__model_correct *correct = &model->rows.correct;
    uint64_t digest[2];
    *state = (wane_correction_state){
        .tokens = read_count(&correct->tokens),
        .changed = read_count(&correct->changed),
        .draws = read_count(&correct->draws),
        .clamp = read_part(correct, WANE__PART_CLAMP),
        .dialogue = read_part(correct, WANE__PART_DIALOGUE),
        .vote = read_part(correct, WANE__PART_VOTE),
        .rules = read_part(correct, WANE__PART_RULES),
        .held = read_count(&correct->held),
        .powerless = read_count(&correct->powerless),
        .failures = read_count(&correct->failures),
    };
    if (correct->rules == NULL) return;
    state->rules_loaded = wane__rules_count(correct->rules);
    wane__rules_digest(correct->rules, digest);
    snprintf(state->rules_digest, sizeof state->rules_digest, "%016llx%016llx", (unsigned long long)digest[1],
             (unsigned long long)digest[0]);
}
