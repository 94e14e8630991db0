/* vote.c - owns what a request's answers said and decides between them; refuses to schedule them. See vote.h. */
#include "vote.h"

#include "core/error.h"
#include "core/memory.h"
#include "core/tokens.h"
#include "record.h"

#include <stdio.h>
#include <string.h>

bool wane__vote_possible(const wane_generation *generation) {
    const wane_quality *quality = generation->quality;
    if (quality == NULL || quality->mode == WANE_MODE_OFF || quality->answers != WANE__ANSWERS) return false;
    /* Without chance, every answer is the first. */
    return quality->mode == WANE_MODE_LEGACY || generation->sampling.temperature != 0;
}

int wane__vote_check(const wane_quality *quality, wane_error *error) {
    struct wane__value_pattern *pattern = NULL;
    if (quality->final_value == NULL) return WANE_OK;
    int code = wane__value_pattern_new(quality->final_value, &pattern, error);
    wane__value_pattern_free(pattern);
    return code;
}

/* ------------------------------------------------------------ the request's wish */

static void free_wish(wane_generation *wish) {
    for (size_t i = 0; wish->stops != NULL && i < wish->stop_count; i++)
        wane__free((char *)(uintptr_t)wish->stops[i]);
    wane__free((char **)(uintptr_t)wish->stops);
    wane__free((wane_bias *)(uintptr_t)wish->sampling.bias);
    wane__free((char *)(uintptr_t)wish->tenant);
    wane__free((char *)(uintptr_t)wish->id);
}

static bool copy_lists(wane_generation *to, const wane_generation *from) {
    const wane_sampling *sampling = &from->sampling;
    if (sampling->bias_count > 0) {
        to->sampling.bias =
            (const wane_bias *)(const void *)wane__copy_bytes(sampling->bias,
                                                              sampling->bias_count * sizeof *sampling->bias);
        if (to->sampling.bias == NULL) return false;
    }
    if (from->stop_count == 0) return true;
    char **stops = wane__alloc_zero(from->stop_count, sizeof *stops);
    to->stops = (const char *const *)stops;
    bool fine = stops != NULL;
    for (size_t i = 0; fine && i < from->stop_count; i++)
        fine = (stops[i] = wane__copy_string(from->stops[i])) != NULL;
    return fine;
}

static int copy_wish(struct wane__vote *vote, const wane_generation *from, wane_error *error) {
    wane_generation *to = &vote->wish;
    *to = *from;
    to->stops = NULL;
    to->sampling.bias = NULL;
    to->tenant = wane__copy_string(from->tenant);
    to->id = wane__copy_string(from->id);
    to->quality = &vote->quality;
    to->no_memo = true; /* an answer that is repeated is not doubted again */
    bool fine = copy_lists(to, from) && (to->tenant != NULL || from->tenant == NULL) &&
                (to->id != NULL || from->id == NULL);
    return fine ? WANE_OK : wane__fail(error, WANE_ENOMEM, "No memory for a request.");
}

int wane__vote_new(const wane_generation *generation, struct wane__vote **made, wane_error *error) {
    *made = NULL;
    struct wane__vote *vote = wane__alloc_zero(1, sizeof *vote);
    if (vote == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a request.");
    vote->quality = *generation->quality;
    vote->quality.final_value = NULL; /* the caller's; compiled here */
    vote->result.chosen = -1;
    int code = copy_wish(vote, generation, error);
    if (code == WANE_OK && generation->quality->final_value != NULL)
        code = wane__value_pattern_new(generation->quality->final_value, &vote->pattern, error);
    if (code == WANE_OK)
        *made = vote;
    else
        wane__vote_free(vote);
    return code;
}

void wane__vote_free(struct wane__vote *vote) {
    if (vote == NULL) return;
    free_wish(&vote->wish);
    wane__value_pattern_free(vote->pattern);
    for (int i = 0; i < WANE__ANSWERS; i++) {
        wane_tokens_free(&vote->answer[i].tokens);
        wane__buf_free(&vote->answer[i].text);
        wane__buf_free(&vote->answer[i].events);
        wane__buf_free(&vote->answer[i].stop);
    }
    wane__free(vote);
}

void wane__vote_begin(struct wane__vote *vote, struct wane__reply *first) {
    snprintf(vote->name, sizeof vote->name, "%s", wane__tap_name(first->tap));
    vote->reward = first->rows->reward;
    if (vote->quality.mode == WANE_MODE_LEGACY) wane__tap_vote(first->tap, vote->name, 0);
}

void wane__vote_record(const struct wane__vote *vote, struct wane_recorder *recorder) {
    if (vote->name[0] == '\0' || vote->quality.mode != WANE_MODE_LEGACY || vote->result.by_default) return;
    wane__record_vote(recorder, vote->name, vote->result.chosen);
}

/* ------------------------------------------------------------------- waking */

bool wane__vote_wakes(struct wane__vote *vote, const struct wane__reply *first) {
    if (vote->awake) return false;
    if (vote->quality.mode == WANE_MODE_LEGACY) {
        vote->forked_at = 0;
        return true;
    }
    if (first->gate.wakes) vote->forked_at = first->gate.first_reject;
    /* Without a gate nobody can say which answers need no vote: all of them have one. */
    return first->gate.wakes || !first->gate.on;
}

/* Another stream of random numbers for each answer, known from the first one's. */
uint64_t wane__vote_seed(uint64_t seed, int answer) {
    uint64_t mixed = seed + (uint64_t)answer * 0x9e3779b97f4a7c15u; /* splitmix64 */
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    return mixed ^ mixed >> 31;
}

int wane__vote_fork(struct wane__vote *vote, int answer, const struct wane__reply *first,
                    struct wane__reply *reply, wane_error *error) {
    wane_generation wish = vote->wish;
    wish.sampling.seed = wane__vote_seed(wane__sampler_seed(first->sampler), answer);
    wish.sampling.seeded = true;
    char name[65 + 12];
    snprintf(name, sizeof name, "%.62s-%d", vote->name, answer + 1);
    if (vote->name[0] != '\0') wish.id = name;
    int code =
        wane__reply_init(reply, first->rows, first->context.id, (size_t)first->prompt_count, &wish, error);
    if (code != WANE_OK) return code;
    reply->gate.on = false; /* it is what doubt led to */
    if (vote->quality.mode == WANE_MODE_LEGACY) wane__tap_vote(reply->tap, vote->name, answer);
    for (int i = 0; i < vote->forked_at && code == WANE_OK; i++) {
        wane_event event;
        code = wane__layer_repeat(reply, first->context.id[first->prompt_count + i], &event, error);
        if (code == WANE_OK && !wane__vote_take(vote, answer, &event))
            code = wane__fail(error, WANE_ENOMEM, "No memory for an answer.");
    }
    if (code != WANE_OK) wane__reply_free(reply);
    return code;
}

/* ------------------------------------------------------------- what was said */

bool wane__vote_take(struct wane__vote *vote, int answer, const wane_event *event) {
    if (event->kind != WANE_EVENT_TEXT) return true;
    wane__buf_append(&vote->answer[answer].text, event->text, event->text_size);
    return !vote->answer[answer].text.failed && wane__tokens_add(&vote->answer[answer].tokens, event->token);
}

void wane__vote_end(struct wane__vote *vote, int answer, const wane_event *end) {
    vote->news = true;
    vote->answer[answer].state = end != NULL ? WANE__ANSWER_WHOLE : WANE__ANSWER_GONE;
    if (end == NULL) return;
    struct wane__buf *text = &vote->answer[answer].text, *stop = &vote->answer[answer].stop;
    size_t before = text->size;
    wane__buf_append(text, end->text, end->text_size);
    wane__buf_text(stop, end->stop != NULL ? end->stop : "");
    vote->answer[answer].end = *end;
    vote->answer[answer].end.text = end->text_size > 0 && !text->failed ? text->data + before : "";
    vote->answer[answer].end.text_size = text->size - before;
    vote->answer[answer].end.stop = end->stop != NULL ? stop->data : NULL;
    if (text->failed || stop->failed) vote->answer[answer].state = WANE__ANSWER_GONE;
}

/* Scores, once all three are whole; how they count. */
static enum wane__rewarded reward(const struct wane__vote *vote, struct wane__answer answers[WANE__ANSWERS]) {
    if (!wane__reward_on(vote->reward)) return WANE__REWARDED_NOT;
    for (int i = 0; i < WANE__ANSWERS; i++)
        if (answers[i].state != WANE__ANSWER_WHOLE ||
            !wane__reward_score(vote->reward, answers[i].text, answers[i].size, &answers[i].reward))
            return WANE__REWARDED_NOT;
    return vote->reward->choice == WANE_REWARD_BEST ? WANE__REWARDED_BEST : WANE__REWARDED_TIE;
}

int wane__vote_decide(struct wane__vote *vote) {
    struct wane__answer answers[WANE__ANSWERS];
    if (vote->result.chosen >= 0 || !vote->news) return vote->result.chosen;
    vote->news = false;
    size_t shared = (size_t)vote->forked_at;
    for (int i = 0; i < WANE__ANSWERS; i++) {
        const wane_tokens *tokens = &vote->answer[i].tokens;
        bool past = tokens->count > shared;
        answers[i] = (struct wane__answer){
            .state = vote->answer[i].state,
            .tokens = past ? tokens->id + shared : NULL,
            .count = past ? tokens->count - shared : 0,
            .text = vote->answer[i].text.size > 0 ? vote->answer[i].text.data : "",
            .size = vote->answer[i].text.size,
        };
    }
    vote->result = wane__answers_decide_by(answers, vote->pattern, reward(vote, answers));
    return vote->result.chosen;
}

static bool same_text(const struct wane__buf *a, const struct wane__buf *b) {
    return a->size == b->size && (a->size == 0 || memcmp(a->data, b->data, a->size) == 0);
}

/* What else was said to the end, each text once. */
static void note_other(const struct wane__vote *vote, int told, int answer, wane_event *end) {
    const struct wane__buf *text = &vote->answer[answer].text;
    if (vote->answer[answer].state != WANE__ANSWER_WHOLE || text->size == 0 || end->other_count == 2) return;
    if (same_text(text, &vote->answer[told].text)) return;
    if (end->other_count == 1 && end->other_size[0] == text->size &&
        memcmp(end->other[0], text->data, text->size) == 0)
        return;
    end->other[end->other_count] = text->data;
    end->other_size[end->other_count++] = text->size;
}

void wane__vote_note(const struct wane__vote *vote, int told, wane_event *end) {
    int chosen = vote->result.chosen >= 0 ? vote->result.chosen : told;
    const struct wane__buf *text = &vote->answer[chosen].text;
    bool same = chosen == told || same_text(text, &vote->answer[told].text);
    end->other_count = 0;
    note_other(vote, told, chosen, end);
    for (int i = 0; i < WANE__ANSWERS; i++) note_other(vote, told, i, end);
    end->answers = WANE__ANSWERS;
    end->chosen = chosen;
    end->forked_at = vote->forked_at;
    end->spare_tokens = vote->decoded > end->reply_tokens ? vote->decoded - end->reply_tokens : 0;
    end->by_value = vote->result.by_value;
    end->chosen_text = same ? NULL : text->size > 0 ? text->data : "";
    end->chosen_size = same ? 0 : text->size;
}
