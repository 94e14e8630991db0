/*
 * gate_train.c - from traces with votes in them to a gate's file.
 *
 * Two passes over the traces: the first finds out which requests are answers to which, the second reads their tokens. A vote's three
 * answers are laid side by side by position. While all three say the same, the vote leaves the token alone; where they part for
 * the first time it does if the chosen answer has the first answer's token; behind that nothing can be said. Every request, with a
 * vote or without, shows patterns for the LUT. Requests are held out whole, by a hash of their names.
 */
#include "core/clock.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/rng.h"
#include "gate/dtg.h"
#include "gate/gate.h"
#include "gate/train.h"
#include "model.h"
#include "origin.h"
#include "table/trace_read.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { ANSWERS = WANE__TRACE_ANSWERS, NOBODY = -1 };
static const double held_share = 0.2, check_share = 0.15;

enum part { LEARN, CHECK, HELD, PARTS };

struct seat { /* one token of an answer */
    int32_t position, token;
    uint32_t pattern;
};

struct answer {
    char id[WANE__TRACE_ID_MOST + 1];
    int group, number;
    int times; /* that a request of this name began */
    bool greedy;
    float tau; /* of its prompt, with the default thresholds and no documents */
    struct seat *seat;
    size_t count, room;
};

struct group {
    int answer[ANSWERS]; /* NOBODY: not seen */
    int chosen, votes;
    bool bad; /* two requests claim to be the same answer */
};

struct counts {
    uint32_t seen, kept;
};

struct training {
    const wane_gate_train_options *options;
    struct wane__trace_origin origin;
    uint64_t records;
    struct answer *answer;
    int answers, answer_room;
    struct group *group;
    int groups, group_room;
    int32_t *slot; /* answers by the hash of their names; a power of two, half empty */
    size_t slots;
    struct counts *tally[PARTS]; /* by pattern */
    uint32_t *shown;             /* times that a pattern was seen in requests that were not held out … */
    uint32_t *asked;             /* … and in those that were */
    uint64_t votes, unusable, used[PARTS];
};

/* ------------------------------------------------------------------ who is who */

static uint64_t name_hash(const char *id) {
    return XXH3_64bits(id, strlen(id));
}

static int32_t *slot_of(const struct training *t, const char *id) {
    size_t at = (size_t)name_hash(id) & (t->slots - 1);
    while (t->slot[at] != NOBODY && strcmp(t->answer[t->slot[at]].id, id) != 0)
        at = (at + 1) & (t->slots - 1);
    return &t->slot[at];
}

static struct answer *find(const struct training *t, const char *id) {
    if (t->slots == 0) return NULL;
    int32_t at = *slot_of(t, id);
    return at != NOBODY ? &t->answer[at] : NULL;
}

static bool grow_slots(struct training *t) {
    size_t slots = t->slots > 0 ? 2 * t->slots : 1024;
    int32_t *fresh = wane__alloc(slots * sizeof *fresh);
    if (fresh == NULL) return false;
    for (size_t i = 0; i < slots; i++) fresh[i] = NOBODY;
    wane__free(t->slot);
    t->slot = fresh;
    t->slots = slots;
    for (int i = 0; i < t->answers; i++) *slot_of(t, t->answer[i].id) = i;
    return true;
}

/* A new name's place; its group is still to be set. NULL: no memory. */
static struct answer *add_answer(struct training *t, const char *id) {
    if (t->answer == NULL || t->answers == t->answer_room) {
        int room = t->answer_room > 0 ? 2 * t->answer_room : 256;
        struct answer *more = wane__resize(t->answer, (size_t)room, sizeof *more);
        if (more == NULL) return NULL;
        t->answer = more;
        t->answer_room = room;
    }
    if (2 * ((size_t)t->answers + 1) > t->slots && !grow_slots(t)) return NULL;
    struct answer *a = &t->answer[t->answers];
    *a = (struct answer){0};
    snprintf(a->id, sizeof a->id, "%s", id);
    *slot_of(t, id) = t->answers++;
    return a;
}

/* The group of the request named `of`; made where it is not known. NULL: no memory. */
static struct group *group_of(struct training *t, const char *of) {
    struct answer *first = find(t, of);
    if (first != NULL && t->group == NULL) return NULL; /* there is none without a group */
    if (first != NULL && first->number == 0) return &t->group[first->group];
    if (first != NULL) { /* an answer to another request has no answers of its own */
        t->group[first->group].bad = true;
        return &t->group[first->group];
    }
    if (t->groups == t->group_room) {
        int room = t->group_room > 0 ? 2 * t->group_room : 64;
        struct group *more = wane__resize(t->group, (size_t)room, sizeof *more);
        if (more == NULL) return NULL;
        t->group = more;
        t->group_room = room;
    }
    first = add_answer(t, of);
    if (first == NULL) return NULL;
    first->group = t->groups;
    t->group[t->groups] = (struct group){.answer = {t->answers - 1, NOBODY, NOBODY}, .chosen = NOBODY};
    return &t->group[t->groups++];
}

static bool note_request(struct training *t, const struct wane__trace_request *r) {
    if (r->vote_of[0] == '\0') return true;
    struct group *group = group_of(t, r->vote_of);
    if (group == NULL) return false;
    int index = (int)(group - t->group), number = r->vote_answer;
    struct answer *known = find(t, r->request);
    if (known != NULL) {
        if (known->group != index || known->number != number) group->bad = t->group[known->group].bad = true;
        return true;
    }
    if (group->answer[number] != NOBODY) { /* also answer 0 under another name than the request's */
        group->bad = true;
        return true;
    }
    known = add_answer(t, r->request);
    if (known == NULL) return false;
    known->group = index;
    known->number = number;
    group->answer[number] = t->answers - 1;
    return true;
}

static bool note_vote(struct training *t, const struct wane__trace_vote *vote) {
    struct group *group = group_of(t, vote->of);
    if (group == NULL) return false;
    if (group->votes++ > 0) group->bad = true;
    group->chosen = vote->chosen;
    return true;
}

/* ------------------------------------------------------------------ their tokens */

static enum part part_of(const struct training *t, const char *id) {
    double u = wane__random_unit(t->options->seed, name_hash(id));
    return u < held_share ? HELD : u < held_share + check_share ? CHECK : LEARN;
}

static bool add_seat(struct answer *a, const struct wane__trace_token *token, uint32_t pattern) {
    if (a->count == a->room) {
        size_t room = a->room > 0 ? 2 * a->room : 32;
        struct seat *more = wane__resize(a->seat, room, sizeof *more);
        if (more == NULL) return false;
        a->seat = more;
        a->room = room;
    }
    a->seat[a->count++] = (struct seat){token->position, token->token, pattern};
    return true;
}

static bool read_token(struct training *t, const struct wane__trace_token *token) {
    struct wane__gate_view view;
    struct answer *a = find(t, token->request);
    wane__gate_look(token->top, token->top_count, true, 1, &view);
    const char *whole = a != NULL ? t->answer[t->group[a->group].answer[0]].id : token->request;
    uint32_t *count = part_of(t, whole) == HELD ? t->asked : t->shown;
    count[view.pattern] += count[view.pattern] < UINT32_MAX;
    t->records++;
    return a == NULL || a->times != 1 || add_seat(a, token, view.pattern);
}

static bool read_request(struct training *t, const struct wane__trace_request *r) {
    struct answer *a = find(t, r->request);
    wane_quality quality;
    double entropy;
    if (a == NULL) return true;
    if (wane__gate_entropy(r->prompt, r->prompt_count, &entropy, NULL) != WANE_OK) return false;
    wane_quality_init(&quality);
    a->tau = wane__gate_tau(&quality, entropy, 0);
    a->times++;
    a->greedy = !(r->sampling.temperature > 0);
    return true;
}

/* ------------------------------------------------------------------ the traces */

static bool take(struct training *t, bool second, const struct wane__trace_record *record) {
    switch (record->type) {
    case WANE__TRACE_ORIGIN: t->origin = *record->origin; return true;
    case WANE__TRACE_REQUEST:
        if (!second) return note_request(t, record->request);
        return read_request(t, record->request);
    case WANE__TRACE_VOTE: return second || note_vote(t, record->vote);
    case WANE__TRACE_TOKEN: return !second || read_token(t, record->token);
    default: return true;
    }
}

static bool goes_on(const struct training *t, const char *what, double share) {
    return t->options->progress == NULL || t->options->progress(t->options->progress_user, what, share);
}

static int read_traces(struct training *t, bool second, wane_error *error) {
    const wane_gate_train_options *o = t->options;
    struct wane__trace_origin expected = {.version = WANE__TRACE_VERSION, .vocab_size = o->vocab_size};
    memcpy(expected.model, o->model, sizeof expected.model);
    memcpy(expected.tokenizer, o->tokenizer, sizeof expected.tokenizer);
    struct wane__trace_read_options how = {.expected = o->model[0] != '\0' ? &expected : NULL};
    struct wane__trace_reader *reader = NULL;
    struct wane__trace_record record;
    int status = wane__trace_read_open(o->traces, o->trace_count, &how, &reader, error);
    for (uint64_t n = 0; status == WANE_OK; n++) {
        status = wane__trace_read_next(reader, &record, error);
        if (status != WANE_OK || record.type == WANE__TRACE_DONE) break;
        if (!take(t, second, &record))
            status = wane__fail(error, WANE_ENOMEM, "No memory for what the traces hold.");
        else if (n % 20000 == 0 &&
                 !goes_on(t, second ? "reading answers" : "reading votes", wane__trace_read_share(reader)))
            status = wane__fail(error, WANE_ECANCELLED, "Training was stopped.");
    }
    wane__trace_read_close(reader);
    return status;
}

/* ------------------------------------------------------------------ what a vote says */

/* The token of an answer at a position, whose seats are in order and without a hole from its first one on; NULL: there is none. */
static const struct seat *at_position(const struct answer *a, int position) {
    if (a->count == 0 || position < a->seat[0].position) return NULL;
    size_t index = (size_t)(position - a->seat[0].position);
    return index < a->count && a->seat[index].position == position ? &a->seat[index] : NULL;
}

/* False: nothing can be said. */
static bool use_group(struct training *t, const struct group *g) {
    const struct answer *a[ANSWERS];
    int start = 0;
    if (g->votes == 0 || g->bad) return false;
    for (int n = 0; n < ANSWERS; n++) {
        if (g->answer[n] == NOBODY) return false;
        a[n] = &t->answer[g->answer[n]];
        if (a[n]->times != 1 || a[n]->greedy || a[n]->count == 0) return false;
        if (a[n]->seat[0].position > start) start = a[n]->seat[0].position;
    }
    enum part part = part_of(t, a[0]->id);
    bool used = false;
    for (int position = start;; position++) {
        const struct seat *seat[ANSWERS];
        for (int n = 0; n < ANSWERS; n++)
            if ((seat[n] = at_position(a[n], position)) == NULL) return used;
        bool agree = seat[0]->token == seat[1]->token && seat[0]->token == seat[2]->token;
        struct counts *count = &t->tally[part][seat[0]->pattern];
        count->seen++;
        count->kept += seat[0]->token == seat[g->chosen]->token;
        t->used[part] += !used;
        used = true;
        if (!agree) return true;
    }
}

static void use_votes(struct training *t) {
    for (int i = 0; i < t->groups; i++) {
        if (t->group[i].votes == 0) continue; /* answers without an outcome: it was not awaited */
        t->votes++;
        if (!use_group(t, &t->group[i])) t->unusable++;
    }
}

/* ------------------------------------------------------------------ the net */

struct lists {
    struct wane__gate_tally *tally[PARTS];
    size_t count[PARTS];
    uint32_t *pattern;
    size_t patterns;
};

static bool list_all(const struct training *t, struct lists *lists) {
    bool fine = (lists->pattern = wane__alloc_zero(WANE__GATE_PATTERNS, sizeof *lists->pattern)) != NULL;
    for (int part = 0; part < PARTS && fine; part++) {
        for (uint32_t p = 0; p < WANE__GATE_PATTERNS; p++) lists->count[part] += t->tally[part][p].seen > 0;
        lists->tally[part] = wane__alloc_zero(lists->count[part] + 1, sizeof **lists->tally);
        fine = lists->tally[part] != NULL;
        size_t n = 0;
        for (uint32_t p = 0; p < WANE__GATE_PATTERNS && fine; p++)
            if (t->tally[part][p].seen > 0)
                lists->tally[part][n++] =
                    (struct wane__gate_tally){p, t->tally[part][p].seen, t->tally[part][p].kept};
    }
    for (uint32_t p = 0; p < WANE__GATE_PATTERNS && fine; p++)
        if (t->shown[p] > 0) lists->pattern[lists->patterns++] = p;
    return fine;
}

static void free_lists(struct lists *lists) {
    for (int part = 0; part < PARTS; part++) wane__free(lists->tally[part]);
    wane__free(lists->pattern);
}

static void sum_up(const struct lists *lists, int part, uint64_t *seen, uint64_t *kept) {
    for (size_t i = 0; i < lists->count[part]; i++) {
        *seen += lists->tally[part][i].seen;
        *kept += lists->tally[part][i].kept;
    }
}

static double coverage(const struct training *t) {
    double all = 0, known = 0;
    for (uint32_t p = 0; p < WANE__GATE_PATTERNS; p++) {
        all += t->asked[p];
        known += t->shown[p] > 0 ? t->asked[p] : 0;
    }
    return all > 0 ? known / all : (double)NAN;
}

static int by_share(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Shares of tokens that the gate rejects, of each recorded answer with at least so many. Returns how many. */
static size_t list_shares(const struct training *t, const struct wane__gate_net *net, size_t least,
                          float *share) {
    size_t count = 0;
    for (int i = 0; i < t->answers; i++) {
        const struct answer *a = &t->answer[i];
        size_t rejects = 0;
        if (a->times != 1 || a->greedy || a->count < least) continue;
        for (size_t n = 0; n < a->count; n++) rejects += !(wane__gate_run(net, a->seat[n].pattern) >= a->tau);
        share[count++] = (float)rejects / (float)a->count;
    }
    return count;
}

/*
 * The share of its tokens that the gate rejects, which three of four recorded answers stay below. Short ones say little: only those
 * with at least SHORT tokens count, or all where none has. In an answer that forked, the tokens before the fork are in the prompt.
 */
static double usual_doubt(const struct training *t, const struct wane__gate_net *net) {
    enum { SHORT = 16 };
    float *share = wane__alloc(((size_t)t->answers + 1) * sizeof *share);
    if (share == NULL) return 0;
    size_t count = list_shares(t, net, SHORT, share);
    if (count == 0) count = list_shares(t, net, 1, share);
    qsort(share, count, sizeof *share, by_share);
    double usual = count > 0 ? (double)share[count * 3 / 4] : 0;
    wane__free(share);
    return usual;
}

static int write_gate(const struct training *t, const struct lists *lists, const struct wane__gate_net *net,
                      wane_gate_report *report, wane_error *error) {
    struct wane__gate_made made = {.vocab_size = t->origin.vocab_size,
                                   .seed = t->options->seed,
                                   .votes = report->votes - report->unusable,
                                   .positions = report->positions,
                                   .kept = report->kept,
                                   .tokens = report->records,
                                   .auc = report->auc,
                                   .ece = report->ece,
                                   .coverage = report->coverage,
                                   .allowance = (float)report->allowance};
    memcpy(made.model, t->origin.model, sizeof made.model);
    memcpy(made.tokenizer, t->origin.tokenizer, sizeof made.tokenizer);
    if (t->options->note != NULL) snprintf(made.note, sizeof made.note, "%s", t->options->note);
    struct wane__gate *gate = NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;
    int status = wane__gate_new(&made, net, lists->pattern, lists->patterns, &gate, error);
    if (status == WANE_OK) status = wane__gate_save(gate, &bytes, &size, error);
    report->bytes = size;
    if (status == WANE_OK && t->options->output != NULL)
        status = wane__gate_write(gate, t->options->output, error);
    wane__free(bytes);
    wane__gate_free(gate);
    return status;
}

static int learn(struct training *t, wane_gate_report *report, wane_error *error) {
    struct lists lists = {0};
    struct wane__gate_net *net = wane__alloc_zero(1, sizeof *net);
    use_votes(t);
    report->records = t->records;
    report->votes = t->votes;
    report->unusable = t->unusable;
    report->held_votes = t->used[HELD];
    int status = WANE_OK;
    if (net == NULL || !list_all(t, &lists))
        status = wane__fail(error, WANE_ENOMEM, "No memory to train a gate.");
    if (status == WANE_OK) {
        sum_up(&lists, LEARN, &report->positions, &report->kept);
        sum_up(&lists, CHECK, &report->positions, &report->kept);
        sum_up(&lists, HELD, &report->held_positions, &report->held_kept);
        struct wane__gate_lesson lesson = {.learn = lists.tally[LEARN],
                                           .learn_count = lists.count[LEARN],
                                           .check = lists.tally[CHECK],
                                           .check_count = lists.count[CHECK],
                                           .seed = t->options->seed,
                                           .progress = t->options->progress,
                                           .progress_user = t->options->progress_user};
        status = wane__gate_train(&lesson, net, &report->epochs, error);
    }
    if (status == WANE_OK) {
        report->patterns = lists.patterns;
        report->auc = wane__gate_auc(net, lists.tally[HELD], lists.count[HELD]);
        report->ece = wane__gate_ece(net, lists.tally[HELD], lists.count[HELD]);
        report->coverage = coverage(t);
        report->allowance = usual_doubt(t, net);
        status = write_gate(t, &lists, net, report, error);
    }
    free_lists(&lists);
    wane__free(net);
    return status;
}

/* ------------------------------------------------------------------ public */

void wane_gate_train_options_init(wane_gate_train_options *options) {
    *options = (wane_gate_train_options){.size = sizeof *options, .seed = 1};
}

int wane_gate_train_options_of(wane_gate_train_options *options, wane_model *model, wane_error *error) {
    struct wane__trace_origin origin;
    int status = wane__model_origin(model, &origin, error);
    if (status != WANE_OK) return status;
    options->vocab_size = origin.vocab_size;
    memcpy(options->model, origin.model, sizeof options->model);
    memcpy(options->tokenizer, origin.tokenizer, sizeof options->tokenizer);
    return WANE_OK;
}

static int check(const wane_gate_train_options *o, wane_error *error) {
    if (o == NULL || o->size != sizeof *o)
        return wane__fail(error, WANE_EINVAL,
                          "The training's options were not set up by wane_gate_train_options_init.");
    if (o->trace_count == 0)
        return wane__fail(error, WANE_EINVAL, "A gate is trained from traces; none was named.");
    if (o->note != NULL && strlen(o->note) > WANE__GATE_NOTE_MOST)
        return wane__fail(error, WANE_EINVAL, "The note has %zu bytes; at most %d fit.", strlen(o->note),
                          WANE__GATE_NOTE_MOST);
    return WANE_OK;
}

static bool make_room(struct training *t) {
    bool fine = true;
    for (int part = 0; part < PARTS; part++)
        fine = (t->tally[part] = wane__alloc_zero(WANE__GATE_PATTERNS, sizeof **t->tally)) != NULL && fine;
    t->shown = wane__alloc_zero(WANE__GATE_PATTERNS, sizeof *t->shown);
    t->asked = wane__alloc_zero(WANE__GATE_PATTERNS, sizeof *t->asked);
    return fine && t->shown != NULL && t->asked != NULL;
}

static void release(struct training *t) {
    for (int i = 0; i < t->answers; i++) wane__free(t->answer[i].seat);
    for (int part = 0; part < PARTS; part++) wane__free(t->tally[part]);
    wane__free(t->answer);
    wane__free(t->group);
    wane__free(t->slot);
    wane__free(t->shown);
    wane__free(t->asked);
}

int wane_gate_train(const wane_gate_train_options *options, wane_gate_report *report, wane_error *error) {
    wane_gate_report own;
    struct training t = {.options = options};
    wane__clear(error);
    if (report == NULL) report = &own;
    *report = (wane_gate_report){0};
    int status = check(options, error);
    if (status != WANE_OK) return status;
    double began = wane__now();
    if (!make_room(&t)) status = wane__fail(error, WANE_ENOMEM, "No memory to train a gate.");
    if (status == WANE_OK) status = read_traces(&t, false, error);
    if (status == WANE_OK) status = read_traces(&t, true, error);
    if (status == WANE_OK) status = learn(&t, report, error);
    memcpy(report->model, t.origin.model, sizeof report->model);
    memcpy(report->tokenizer, t.origin.tokenizer, sizeof report->tokenizer);
    report->vocab_size = t.origin.vocab_size;
    report->seconds = wane__now() - began;
    release(&t);
    return status;
}
