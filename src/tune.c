/*
 * tune.c - from labelled text to a profile: texts into tokens, tokens through the model, a row of signals for each.
 *
 * A row is what the model made of the context that ends with token t; its label says whether what comes next is right: the text's next
 * token being the model's best one, or the span that the next token ends in. Windows of one text are run by themselves, each begun as the
 * model wants a text to begin.
 */
#include "tune.h"

#include "core/clock.h"
#include "core/error.h"
#include "core/memory.h"
#include "governor/fit.h"
#include "tune_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PIECE_MOST = 1024, TOKENS_ALL = 1 << 24 };

struct tuning {
    wane_model *model;
    const wane_tune_options *options;
    wane_tune_report *report;
    struct wane__tune_rows rows;
    wane_tokens tokens; /* of the text at hand */
    size_t *end;        /* of each of them: the byte of the text behind it */
    size_t end_room;
    wane_tokens begin; /* what the model wants in front of a text */
    const struct wane__tune_text *text;
    size_t at;        /* the window's first token */
    bool first, full; /* of the window's rows; no memory */
    uint64_t labelled;
};

/* ------------------------------------------------------------------- rows */

float *wane__tune_add(struct wane__tune_rows *rows, const struct wane__tune_row *row) {
    size_t columns = (size_t)wane__tune_columns(rows);
    if (rows->count == rows->room) {
        size_t room = rows->room > 0 ? 2 * rows->room : 1024;
        struct wane__tune_row *more = wane__resize(rows->row, room, sizeof *more);
        if (more == NULL) return NULL;
        rows->row = more;
        float *values = wane__resize(rows->value, room, columns * sizeof *values);
        if (values == NULL) return NULL;
        rows->value = values;
        rows->room = room;
    }
    rows->row[rows->count] = *row;
    return rows->value + columns * rows->count++;
}

void wane__tune_rows_free(struct wane__tune_rows *rows) {
    wane__free(rows->row);
    wane__free(rows->value);
    *rows = (struct wane__tune_rows){0};
}

/* ------------------------------------------------------------------- labels */

/* Of the text's token `next`, whose last byte says which span it belongs to: a blank before a word is part of the word's token. */
static uint8_t span_label(const struct tuning *t, size_t next) {
    size_t last = t->end[next];
    if (last == 0 || (next > 0 && t->end[next - 1] == last))
        return WANE__FIT_UNLABELLED; /* it has no bytes */
    last--;
    size_t low = 0, high = t->text->spans;
    while (low < high) { /* the first span that ends behind it */
        size_t middle = (low + high) / 2;
        if (t->text->span[middle].to > last)
            high = middle;
        else
            low = middle + 1;
    }
    if (low == t->text->spans || t->text->span[low].from > last) return WANE__FIT_UNLABELLED;
    return t->text->span[low].right ? WANE__FIT_RIGHT : WANE__FIT_WRONG;
}

static uint8_t label_of(const struct tuning *t, const wane_probe_token *token) {
    int own = token->index - (int)t->begin.count; /* in the window, without what was put in front */
    if (token->next < 0 || own + 1 < 0) return WANE__FIT_UNLABELLED;
    if (t->text->span != NULL) return span_label(t, t->at + (size_t)(own + 1));
    if (own < t->options->warm_up) return WANE__FIT_UNLABELLED;
    return token->best == token->next ? WANE__FIT_RIGHT : WANE__FIT_WRONG;
}

static bool take(void *user, const wane_probe_token *token) {
    struct tuning *t = user;
    struct wane__tune_rows *rows = &t->rows;
    if (rows->count == 0) {
        rows->layers = token->layer_count < WANE_PROBE_LAYERS ? token->layer_count : WANE_PROBE_LAYERS;
        for (int l = 0; l < rows->layers; l++) rows->layer[l] = token->layers[l];
    }
    struct wane__tune_row row = {.label = label_of(t, token),
                                 .first = t->first,
                                 .text = (int32_t)t->report->texts,
                                 .window = (int32_t)t->report->windows};
    float *value = wane__tune_add(rows, &row);
    if (value == NULL) {
        t->full = true;
        return false;
    }
    t->first = false;
    t->labelled += row.label != WANE__FIT_UNLABELLED;
    value[WANE__TUNE_ENTROPY] = token->entropy;
    value[WANE__TUNE_MARGIN] = token->margin;
    for (int l = 0; l < rows->layers; l++) {
        value[WANE__TUNE_KURTOSIS + l] = l < token->layer_count ? token->signals[l].kurtosis : NAN;
        value[WANE__TUNE_KURTOSIS + rows->layers + l] =
            l < token->layer_count ? token->signals[l].spread : NAN;
    }
    return true;
}

/* ------------------------------------------------------------------- texts */

/*
 * Where each token ends in the text. False: the tokens do not spell it, which a tokenizer may do that rewrites text; one that puts a blank in front
 * is understood.
 */
static bool place(struct tuning *t) {
    char piece[PIECE_MOST];
    size_t at = 0;
    for (size_t i = 0; i < t->tokens.count; i++) {
        int size = wane_token_bytes(t->model, t->tokens.id[i], false, piece, sizeof piece);
        size_t n = size > 0 ? (size_t)size : 0,
               skip = i == 0 && n > 0 && piece[0] == ' ' && t->text->text[0] != ' ';
        n -= skip;
        if (size < 0 || n > t->text->size - at || memcmp(piece + skip, t->text->text + at, n) != 0)
            return false;
        at += n;
        t->end[i] = at;
    }
    return at == t->text->size;
}

static int tokenize(struct tuning *t, wane_error *error) {
    t->tokens.count = 0;
    int status = wane_tokenize(t->model, t->text->text, t->text->size, 0, &t->tokens, error);
    if (status != WANE_OK || t->text->span == NULL) return status;
    if (t->tokens.count > t->end_room) {
        size_t *more = wane__resize(t->end, t->tokens.count, sizeof *more);
        if (more == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a text's tokens.");
        t->end = more;
        t->end_room = t->tokens.count;
    }
    if (place(t)) return WANE_OK;
    t->report->left_out++;
    t->tokens.count = 0;
    return WANE_OK;
}

static int run_window(struct tuning *t, size_t count, wane_error *error) {
    wane_tokens all = {0};
    size_t front = t->begin.count;
    all.id = wane__alloc_zero(front + count, sizeof *all.id);
    if (all.id == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a window of text.");
    if (front > 0) memcpy(all.id, t->begin.id, front * sizeof *all.id);
    memcpy(all.id + front, t->tokens.id + t->at, count * sizeof *all.id);
    t->first = true;
    int status = wane_probe_text(t->model, all.id, front + count, NULL, 0, take, t, error);
    if (status == WANE_ECANCELLED && t->full)
        status = wane__fail(error, WANE_ENOMEM, "No memory for the signals of %zu tokens.", t->rows.count);
    wane__free(all.id);
    if (status == WANE_OK) t->report->windows++;
    return status;
}

static bool goes_on(const struct tuning *t, const char *what, double share) {
    return t->options->progress == NULL || t->options->progress(t->options->progress_user, what, share);
}

static bool enough(const struct tuning *t) {
    return t->options->tokens > 0 && t->labelled >= (uint64_t)t->options->tokens;
}

static int run_text(struct tuning *t, double done, double share, wane_error *error) {
    int status = tokenize(t, error);
    size_t window = (size_t)t->options->window, all = t->tokens.count;
    for (t->at = 0; status == WANE_OK && t->at < all && !enough(t); t->at += window) {
        size_t count = all - t->at < window ? all - t->at : window;
        if (!goes_on(t, "reading", done + share * (double)t->at / (double)all))
            return wane__fail(error, WANE_ECANCELLED, "Tuning was stopped.");
        if (count > 1) status = run_window(t, count, error);
    }
    return status;
}

static int run_texts(struct tuning *t, const struct wane__tune_texts *texts, wane_error *error) {
    double bytes = 0, done = 0;
    for (size_t i = 0; i < texts->count; i++) bytes += (double)texts->text[i].size;
    int status = wane_tokenize(t->model, "", 0, WANE_TOKENIZE_SPECIAL, &t->begin, error);
    for (size_t i = 0; i < texts->count && status == WANE_OK && !enough(t); i++) {
        t->text = &texts->text[i];
        double share = (double)t->text->size / bytes;
        status = run_text(t, done, share, error);
        done += share;
        t->report->texts++;
    }
    return status;
}

/* ------------------------------------------------------------------- public */

void wane_tune_options_init(wane_tune_options *options) {
    *options = (wane_tune_options){.size = sizeof *options,
                                   .window = 384,
                                   .warm_up = 64,
                                   .block = 64,
                                   .replicates = 2000,
                                   .held_out = 0.5,
                                   .seed = 1};
}

/* As a profile will have it: before minutes of work, not behind them. */
static int check_domain(const char *domain, wane_error *error) {
    wane_profile profile;
    if (domain == NULL) return WANE_OK;
    if (strlen(domain) >= sizeof profile.domain)
        return wane__fail(error, WANE_EINVAL, "The domain has %zu bytes; at most %zu fit.", strlen(domain),
                          sizeof profile.domain - 1);
    wane_profile_init(&profile);
    memset(profile.model, '0', sizeof profile.model - 1);
    memcpy(profile.domain, domain, strlen(domain) + 1);
    return wane_profile_check(&profile, error);
}

static int check(const wane_model *model, const wane_tune_options *o, const wane_tune_report *report,
                 wane_error *error) {
    if (model == NULL || o == NULL || report == NULL || o->size != sizeof *o)
        return wane__fail(error, WANE_EINVAL,
                          "Tuning wants a model, a report, and options set up by wane_tune_options_init.");
    if (o->data == NULL) return wane__fail(error, WANE_EINVAL, "A profile is tuned on text; none was named.");
    int status = check_domain(o->domain, error);
    if (status != WANE_OK) return status;
    if (o->command != NULL && strlen(o->command) >= sizeof report->profile.command)
        return wane__fail(error, WANE_EINVAL, "The command has %zu bytes; at most %zu fit.",
                          strlen(o->command), sizeof report->profile.command - 1);
    if (o->tokens < 0 || o->tokens > TOKENS_ALL || o->window < 32 || o->window > 4096 || o->warm_up < 0 ||
        o->warm_up >= o->window || o->block < 1 || o->block > 4096 || o->replicates < 1000 ||
        o->replicates > 100000 || !(o->held_out >= 0.1 && o->held_out <= 0.9) ||
        o->signal < WANE_SIGNAL_NONE || o->signal >= WANE_SIGNALS)
        return wane__fail(error, WANE_EINVAL,
                          "A number of the tuning's options is out of its range; wane/tune.h has them.");
    return WANE_OK;
}

static int save(const wane_tune_options *options, const wane_profile *profile, wane_error *error) {
    return options->output != NULL ? wane_profile_save(profile, options->output, error) : WANE_OK;
}

int wane_tune(wane_model *model, const wane_tune_options *options, wane_tune_report *report,
              wane_error *error) {
    struct tuning t = {.model = model, .options = options, .report = report};
    struct wane__tune_texts texts = {0};
    wane__clear(error);
    if (report != NULL) *report = (wane_tune_report){0};
    int status = check(model, options, report, error);
    if (status != WANE_OK) return status;
    double began = wane__now();
    status = wane__tune_read(options->data, &texts, error);
    if (status == WANE_OK) status = run_texts(&t, &texts, error);
    if (status == WANE_OK && !goes_on(&t, "fitting", -1))
        status = wane__fail(error, WANE_ECANCELLED, "Tuning was stopped.");
    if (status == WANE_OK) status = wane__tune_fit(&t.rows, options, report, error);
    if (status == WANE_OK) status = wane_model_digest(model, report->profile.model, error);
    if (status == WANE_OK) status = save(options, &report->profile, error);
    if (report != NULL) report->seconds = wane__now() - began;
    wane__tune_texts_free(&texts);
    wane__tune_rows_free(&t.rows);
    wane_tokens_free(&t.tokens);
    wane_tokens_free(&t.begin);
    wane__free(t.end);
    return status;
}

void wane_tune_report_free(wane_tune_report *report) {
    if (report == NULL) return;
    wane__free(report->rows);
    report->rows = NULL;
    report->row_count = 0;
}
