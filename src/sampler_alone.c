/*
 * sampler_alone.c - one reply's sampler over rows from elsewhere: governor, corrections, gate and fuse in the order of a token's way, and rules
 * without a model. Owns what a draw leaves open until its token is taken. Refuses to know what decodes the rows.
 *
 * A draw works on a copy of what the reply knows, and taking its token keeps the copy: a row whose token is not used has not been there.
 */
#include "core/error.h"
#include "core/memory.h"
#include "core/tokens.h"
#include "correct/correct.h"
#include "gate/dtg.h"
#include "gate_alone.h"
#include "governor_alone.h"
#include "sample/entropy.h"

#include <math.h>
#include <string.h>

enum { TOKEN_BYTES_MOST = 4096, WORD_TOKENS_MOST = 256, BEST_MOST = 64 };

struct wane_rules {
    struct wane__rules *rules;
    int (*tokenize)(void *user, const char *text, size_t size, int32_t *out, int capacity);
    int (*token_bytes)(void *user, int32_t token, char *buffer, size_t capacity);
    void *user;
    int vocab_size;
};

/* What changes from row to row. */
struct known {
    struct wane_governor governor;
    struct wane__doubt doubt;
};

struct wane_sampler {
    struct wane__sampler *sampler;
    struct wane__correction correction;
    const struct wane__gate *gate; /* NULL: none */
    wane_rules *rules;
    bool governs, entropies; /* mode WANE; of every row */
    int doubt_votes;
    struct known kept, next; /* of the tokens taken; with the drawn one */
    bool drawn;
    struct wane__dense_source row; /* that was drawn from last */
    int count, vocab_size;
};

static const wane_signals unknown = {NAN, NAN, NAN, NAN, NAN};

/* --------------------------------------------------------------------- rules */

static int tokenize_word(void *user, const char *text, size_t size, wane_tokens *out, wane_error *error) {
    const wane_rules *rules = user;
    int32_t id[WORD_TOKENS_MOST];
    int count = rules->tokenize(rules->user, text, size, id, WORD_TOKENS_MOST);
    if (count < 0 || count > WORD_TOKENS_MOST)
        return wane__fail(error, WANE_EFORMAT, "The tokenizer gave no tokens for a word of %zu bytes.", size);
    out->count = 0;
    for (int i = 0; i < count; i++) {
        if (id[i] < 0 || id[i] >= rules->vocab_size)
            return wane__fail(error, WANE_EFORMAT, "The tokenizer gave the token %d; there are %d.", id[i],
                              rules->vocab_size);
        if (!wane__tokens_add(out, id[i])) return wane__fail(error, WANE_ENOMEM, "No memory for a word.");
    }
    return WANE_OK;
}

static int bytes_of_token(void *user, int32_t token, char *buffer, size_t capacity) {
    const wane_rules *rules = user;
    int size = rules->token_bytes(rules->user, token, buffer, capacity);
    return size > (int)capacity ? -1 : size;
}

int wane_rules_open(const char *path, int vocab_size,
                    int (*tokenize)(void *user, const char *text, size_t size, int32_t *out, int capacity),
                    int (*token_bytes)(void *user, int32_t token, char *buffer, size_t capacity), void *user,
                    wane_rules **rules, wane_error *error) {
    wane__clear(error);
    *rules = NULL;
    if (path == NULL || path[0] == '\0') return wane__fail(error, WANE_EINVAL, "No file of rules was named.");
    if (vocab_size < 1 || tokenize == NULL || token_bytes == NULL)
        return wane__fail(error, WANE_EINVAL, "Rules need a tokenizer.");
    wane_rules *made = wane__alloc_zero(1, sizeof *made);
    if (made == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for rules.");
    *made = (wane_rules){.tokenize = tokenize,
                         .token_bytes = token_bytes,
                         .user = user,
                         .vocab_size = vocab_size};
    const struct wane__rules_tokenizer tokenizer = {.tokenize = tokenize_word,
                                                    .token_bytes = bytes_of_token,
                                                    .user = made,
                                                    .vocab_size = vocab_size};
    int status = wane__rules_load(path, &tokenizer, &made->rules, error);
    if (status != WANE_OK) {
        wane__free(made);
        return status;
    }
    *rules = made;
    return WANE_OK;
}

void wane_rules_free(wane_rules *rules) {
    if (rules == NULL) return;
    wane__rules_free(rules->rules);
    wane__free(rules);
}

int wane_rules_get_count(const wane_rules *rules, int *words_left) {
    const char *word, *rule;
    if (words_left != NULL) *words_left = wane__rules_words_left(rules->rules, &word, &rule);
    return wane__rules_count(rules->rules);
}

/* --------------------------------------------------------------------- begin */

void wane_sampler_options_init(wane_sampler_options *options) {
    *options = (wane_sampler_options){.size = sizeof *options};
    wane__sampling_defaults(&options->sampling);
}

static int check(const wane_sampler_options *o, wane_error *error) {
    if (o == NULL || o->size != sizeof *o)
        return wane__fail(error, WANE_EINVAL,
                          "The sampler's options were not set up by wane_sampler_options_init.");
    if (o->vocab_size < 1)
        return wane__fail(error, WANE_EINVAL, "vocab_size is %d; it must be 1 or more.", o->vocab_size);
    if (o->prompt == NULL || o->prompt_count < 1)
        return wane__fail(error, WANE_EINVAL, "The prompt is empty: give at least one token.");
    for (size_t i = 0; i < o->prompt_count; i++)
        if (o->prompt[i] < 0 || o->prompt[i] >= o->vocab_size)
            return wane__fail(error, WANE_EINVAL, "Token %zu of the prompt is %d; there are %d.", i,
                              o->prompt[i], o->vocab_size);
    int status = o->quality != NULL ? wane_quality_check(o->quality, error) : WANE_OK;
    if (status == WANE_OK && o->profile != NULL) status = wane_profile_check(o->profile, error);
    return status == WANE_OK ? wane__sampling_check(&o->sampling, o->vocab_size, error) : status;
}

static void see_token(wane_sampler *s, int32_t token, bool of_reply) {
    char bytes[TOKEN_BYTES_MOST];
    if (s->correction.rules == NULL) return;
    int size = bytes_of_token(s->rules, token, bytes, sizeof bytes);
    if (size > 0) wane__recent_add(&s->correction.recent, bytes, (size_t)size, of_reply);
}

static int begin_gate(wane_sampler *s, const wane_sampler_options *o, wane_error *error) {
    struct wane__doubt *doubt = &s->kept.doubt;
    double entropy;
    *doubt = (struct wane__doubt){.first_reject = -1, .woke_at = -1};
    if (o->quality == NULL || o->quality->mode != WANE_MODE_WANE) return WANE_OK;
    int status = wane__gate_entropy(o->prompt, o->prompt_count, &entropy, error);
    if (status != WANE_OK) return status;
    int documents = o->text != NULL && o->text_size > 0 ? wane__gate_documents(o->text, o->text_size) : 0;
    wane__doubt_begin(doubt, o->quality, &o->sampling, entropy, documents);
    if (s->gate == NULL) doubt->on = false;
    return WANE_OK;
}

static void begin_governor(wane_sampler *s, const wane_sampler_options *o) {
    wane_quality plain;
    wane_quality_init(&plain);
    const wane_quality *q = o->quality != NULL ? o->quality : &plain;
    s->governs = q->mode == WANE_MODE_WANE;
    wane__governor_alone_begin(&s->kept.governor, o->profile, q, o->sampling.temperature);
    s->entropies = s->governs &&
                   (s->kept.governor.steers || q->entropies || s->kept.governor.fuse.rule == WANE_FUSE_PLAIN);
    s->doubt_votes = q->doubt_votes;
}

/* What patterns see of the prompt is its end; the window forgets what lies before. */
static void begin_rules(wane_sampler *s, const wane_sampler_options *o) {
    if (s->correction.rules == NULL || !wane__rules_see_prompt(s->correction.rules)) return;
    size_t from = o->prompt_count > WANE__RECENT_BYTES ? o->prompt_count - WANE__RECENT_BYTES : 0;
    for (; from < o->prompt_count; from++) see_token(s, o->prompt[from], false);
}

int wane_sampler_new(const wane_sampler_options *options, wane_sampler **sampler, wane_error *error) {
    wane__clear(error);
    *sampler = NULL;
    int status = check(options, error);
    if (status != WANE_OK) return status;
    wane_sampler *s = wane__alloc_zero(1, sizeof *s);
    if (s == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a sampler.");
    s->gate = options->gate != NULL ? options->gate->gate : NULL;
    s->rules = options->rules;
    s->vocab_size = options->vocab_size;
    status = wane__sampler_new(&options->sampling, options->vocab_size, &s->sampler, error);
    if (status == WANE_OK) {
        wane__correction_init(&s->correction, options->quality, &options->sampling,
                              wane__sampler_seed(s->sampler), (int)options->prompt_count,
                              s->rules != NULL ? s->rules->rules : NULL);
        begin_rules(s, options);
        begin_governor(s, options);
        status = begin_gate(s, options, error);
    }
    if (status != WANE_OK) {
        wane_sampler_free(s);
        return status;
    }
    for (size_t i = 0; i < options->prompt_count; i++) wane__sampler_accept(s->sampler, options->prompt[i]);
    *sampler = s;
    return WANE_OK;
}

void wane_sampler_free(wane_sampler *sampler) {
    if (sampler == NULL) return;
    wane__sampler_free(sampler->sampler);
    wane__free(sampler);
}

/* ---------------------------------------------------------------------- draw */

static void govern(wane_sampler *s, const wane_signals *known, wane_drawn *drawn) {
    struct wane_governor *g = &s->next.governor;
    struct wane__entropy entropy;
    drawn->signals = known != NULL ? *known : unknown;
    drawn->steer = (wane_steer){.temperature = NAN, .spread = NAN};
    if (!s->governs) return;
    if ((s->entropies || g->fuse.wants) && wane__source_entropy(&s->row.source, &entropy) == WANE_OK) {
        drawn->signals.entropy = (float)entropy.value;
        drawn->signals.margin = (float)entropy.margin;
    }
    wane_governor_see(g, &drawn->signals, &drawn->steer);
    if (!g->steers) return;
    wane__sampler_steer(s->sampler, drawn->steer.temperature, drawn->steer.top_p_off ? 1 : NAN);
    wane__correction_steer(&s->correction, drawn->steer.temperature);
}

/* Behind the draw: a token in doubt is drawn again, by the same random number, from what the votes make of its distribution. */
static int judge(wane_sampler *s, bool in_table, struct wane__choice *choice, wane_drawn *drawn,
                 wane_error *error) {
    struct wane__doubt *doubt = &s->next.doubt;
    struct wane__verdict verdict;
    struct wane__gate_view view;
    bool forced = wane__doubt_forced(doubt, s->count);
    drawn->gate = (wane_gate_token){.index = s->count, .token = choice->token, .tau = doubt->tau};
    if (!doubt->on) return WANE_OK;
    drawn->gate.table = in_table && !forced;
    if (drawn->gate.table) return WANE_OK;
    if (!wane__gate_look_at_row(s->sampler, &s->row.source, forced ? doubt->hot_scale : 1, &view))
        return WANE_OK;
    wane__doubt_judge(doubt, s->gate, &view, s->count, &verdict);
    wane__verdict_tell(&verdict, &drawn->gate);
    if (!verdict.reject || in_table || s->doubt_votes == 0 || s->correction.mode != WANE_MODE_WANE)
        return WANE_OK;
    int32_t first = choice->token;
    int status = wane__correction_draw_again(&s->correction, s->sampler, &s->row.source, (uint64_t)s->count,
                                             s->doubt_votes, choice, error);
    drawn->again = true;
    drawn->changed = drawn->changed || choice->token != first;
    return status;
}

int wane_sampler_draw(wane_sampler *s, const float *logits, bool in_table, const wane_signals *known,
                      wane_drawn *drawn, wane_error *error) {
    struct wane__choice choice = {.token = -1};
    struct wane__corrected did = {0};
    wane__clear(error);
    *drawn = (wane_drawn){.token = -1};
    if (logits == NULL) return wane__fail(error, WANE_EINVAL, "There is no row of logits.");
    s->next = s->kept;
    s->drawn = false;
    wane__dense_source_init(&s->row, logits, s->vocab_size);
    govern(s, known, drawn);
    int status = wane__correction_draw(&s->correction, s->sampler, &s->row.source, (uint64_t)s->count,
                                       &choice, &did, error);
    if (status != WANE_OK) return status;
    drawn->changed = did.any;
    drawn->held = did.held;
    status = judge(s, in_table, &choice, drawn, error);
    if (status != WANE_OK) return status;
    drawn->token = choice.token;
    s->drawn = true;
    return WANE_OK;
}

int wane_sampler_best(wane_sampler *s, int count, wane_candidate *out, int *found, double *log_sum,
                      wane_error *error) {
    wane__clear(error);
    *found = 0;
    if (!s->drawn || count < 1 || count > BEST_MOST)
        return wane__fail(error, WANE_EINVAL,
                          "%d candidates %s; 1 to %d are there once a row was drawn from.", count,
                          s->drawn ? "were asked for" : "of no row were asked for", BEST_MOST);
    int status = wane__sampler_best_drawn(s->sampler, &s->row.source, count,
                                          (struct wane__candidate *)(void *)out, found, log_sum);
    return status == WANE_OK ? status : wane__fail(error, status, "The row of logits holds NaN.");
}

/* ---------------------------------------------------------------------- take */

bool wane_sampler_take(wane_sampler *s, int32_t token) {
    if (s->drawn)
        s->kept = s->next;
    else if (s->governs)
        wane_governor_see(&s->kept.governor, NULL, NULL);
    s->drawn = false;
    s->count++;
    wane__sampler_accept(s->sampler, token);
    see_token(s, token, true);
    return s->governs && wane_governor_take(&s->kept.governor, token);
}

int wane_sampler_get_count(const wane_sampler *sampler) {
    return sampler->count;
}

uint64_t wane_sampler_get_seed(const wane_sampler *sampler) {
    return wane__sampler_seed(sampler->sampler);
}

void wane_sampler_get_doubt(const wane_sampler *sampler, int *rejects, int *first_reject, int *woke_at) {
    const struct wane__doubt *doubt = &sampler->kept.doubt;
    *rejects = doubt->rejects;
    *first_reject = doubt->first_reject;
    *woke_at = doubt->woke_at;
}

int wane_sampler_fallback(const wane_sampler *sampler, bool begun, char out[300]) {
    return wane_governor_fallback(&sampler->kept.governor, begun, out);
}
