/*
 * cmd_gate.c - `wane gate`: what the gate makes of a prompt and its reply, and what a gate's file says of itself; and `wane train gate`, which
 * makes one.
 */
#include "gate_page.h"
#include "text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A reply that nobody bounded ends here. */
enum { TOKENS_UNLESS_SAID = 256, PIECE_MOST = 4096 };

/* ---- explain ------------------------------------------------------------------------------------------------------- */

struct explaining {
    wane_model *model;
    struct gate_story *story;
    char *tail; /* the beginning of a character that is not whole yet */
    size_t tail_size;
    int most;
};

static struct gate_piece *next_piece(struct gate_story *story) {
    if (story->count == story->room) {
        story->room = story->room > 0 ? 2 * story->room : 64;
        story->piece = text_grow(story->piece, story->room * sizeof *story->piece);
    }
    struct gate_piece *piece = &story->piece[story->count++];
    *piece = (struct gate_piece){0};
    return piece;
}

/* A character spread over tokens stands with the last of them; bytes that never become one are replaced where they are printed. */
static bool take_token(void *user, const wane_gate_token *token) {
    struct explaining *e = user;
    struct gate_piece *piece = next_piece(e->story);
    char *bytes = text_alloc(e->tail_size + PIECE_MOST);
    int size = wane_token_bytes(e->model, token->token, false, bytes + e->tail_size, PIECE_MOST);
    memcpy(bytes, e->tail, e->tail_size);
    size_t all = e->tail_size + (size > 0 ? (size_t)size : 0), whole = text_utf8_prefix(bytes, all);
    if (all - whole >= 4) whole = all; /* no beginning of a character is so long */
    piece->verdict = *token;
    piece->text = text_copy_part(bytes, whole);
    piece->size = whole;
    e->tail_size = all - whole;
    memcpy(e->tail, bytes + whole, e->tail_size);
    free(bytes);
    progress_show("answering", (double)(token->index + 1) / e->most);
    return !interrupt_seen();
}

/* A tail that stays one. */
static void end_tail(struct explaining *e) {
    struct gate_story *s = e->story;
    if (e->tail_size == 0 || s->count == 0) return;
    struct gate_piece *last = &s->piece[s->count - 1];
    last->text = text_grow(last->text, last->size + e->tail_size + 1);
    memcpy(last->text + last->size, e->tail, e->tail_size);
    last->size += e->tail_size;
    last->text[last->size] = '\0';
}

static json_t *numbers(const double *value, int count) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++) json_array_append_new(list, json_real(value[i]));
    return list;
}

static json_t *piece_json(const struct gate_piece *p, const wane_gate_explanation *end) {
    const wane_gate_token *t = &p->verdict;
    json_t *bins = json_array();
    for (int i = 0; i < 4; i++) json_array_append_new(bins, json_integer(t->bin[i]));
    return json_pack("{s:i, s:i, s:o, s:s, s:o, s:s, s:b, s:b, s:b, s:o, s:o, s:o, s:b, s:b}", "index",
                     t->index, "token", (int)t->token, "text", json_text(p->text, p->size), "verdict",
                     gate_word(t), "odds", t->judged ? json_real((double)t->odds) : json_null(), "reason",
                     wane_wake_name(t->reason), "lut", t->lut, "revival", t->revival, "forced", t->forced,
                     "shares", numbers(t->share, 5), "gaps", numbers(t->gap, 4), "bins", bins, "fork",
                     t->index == end->first_reject, "wake", t->woke);
}

static json_t *or_null(int index) {
    return index >= 0 ? json_integer(index) : json_null();
}

static void print_json(const struct gate_story *s) {
    const wane_gate_explanation *e = &s->end;
    json_t *list = json_array();
    for (size_t i = 0; i < s->count; i++) json_array_append_new(list, piece_json(&s->piece[i], e));
    out_json(json_pack("{s:s, s:s, s:i, s:f, s:i, s:f, s:i, s:f, s:i, s:i, s:o, s:o, s:s, s:o}", "model",
                       s->model, "gate", s->gate, "prompt_tokens", e->prompt_tokens, "entropy", e->entropy,
                       "documents", e->documents, "tau", (double)e->tau, "doubt_budget", e->budget,
                       "doubt_allowance", (double)e->allowance, "reply_tokens", e->reply_tokens, "rejects",
                       e->rejects, "first_reject", or_null(e->first_reject), "woke_at", or_null(e->woke_at),
                       "woke_by", wane_wake_name(e->woke_by), "tokens", list),
             false);
}

static void print_piece(const struct gate_piece *p, const wane_gate_explanation *end) {
    const wane_gate_token *t = &p->verdict;
    json_t *text = json_text(p->text, p->size);
    char *quoted = json_dumps(text, JSON_ENCODE_ANY);
    out_format("%6d  %-18s", t->index, quoted);
    if (t->judged) {
        out_format("  %6.2f  %-3s  %.3f", (double)t->odds, t->lut ? "lut" : "net", t->share[0]);
        for (int i = 0; i < 4; i++) out_format(" %.3f", t->gap[i]);
    }
    out_format("  %s", t->reject ? "REJECT" : gate_word(t));
    if (t->reject) out_format(" %s", wane_wake_name(t->reason));
    if (t->forced && !t->reject) out_format(" forced");
    if (t->index == end->first_reject) out_format("  <- a vote would fork here");
    if (t->woke) out_format("  <- the vote wakes");
    out_text("\n", 1);
    free(quoted);
    json_decref(text);
}

static void print_story(const struct gate_story *s) {
    const wane_gate_explanation *e = &s->end;
    out_format("gate       %s\nH          %.3f bits, of %d tokens\ndocuments  %d\n", s->gate, e->entropy,
               e->prompt_tokens, e->documents);
    out_format("tau        %.3f: a token passes at %.1f to 1 or better\n", (double)e->tau,
               pow(10, (double)e->tau));
    out_format("rejected   %d of %d tokens; the budget is %d beyond %.3f a token\n\n", e->rejects,
               e->reply_tokens, e->budget, (double)e->allowance);
    out_format(" index  token                 odds  by   best  gaps                     verdict\n");
    for (size_t i = 0; i < s->count; i++) print_piece(&s->piece[i], e);
}

static void print(const struct settings *settings, const struct gate_story *story) {
    if (setting_on(settings, SET_JSON))
        print_json(story);
    else if (setting_on(settings, SET_HTML))
        gate_page(story);
    else
        print_story(story);
}

static int tokens_of(const struct settings *settings, wane_model *model, const struct gate_story *story,
                     wane_tokens *tokens, wane_error *error) {
    const char *system = setting_text(settings, SET_SYSTEM);
    wane_message messages[2] = {{"system", system, system != NULL ? strlen(system) : 0},
                                {"user", story->prompt, story->prompt_size}};
    bool has_system = system != NULL && system[0] != '\0';
    return wane_chat_tokenize(model, messages + !has_system, has_system ? 2 : 1, tokens, error);
}

static int explain_with(const struct settings *settings, wane_model *model, struct gate_story *story) {
    char tail[4];
    wane_error error = {0};
    wane_tokens tokens = {0};
    wane_quality quality;
    wane_generation g;
    wane_gate_state state;
    struct explaining e = {.model = model, .story = story, .tail = tail};
    quality_from(settings, &quality);
    quality.mode = WANE_MODE_WANE;
    wane_generation_init(&g);
    sampling_from(settings, &g.sampling);
    g.quality = &quality;
    g.stops = (const char *const *)settings->value[SET_STOP].list;
    g.stop_count = settings->value[SET_STOP].list_count;
    g.max_tokens = e.most = setting_int(settings, SET_MAX_TOKENS);
    if (g.max_tokens == 0) g.max_tokens = e.most = TOKENS_UNLESS_SAID;
    int result = wane_model_set_gate(model, setting_text(settings, SET_GATE), &error);
    if (result == WANE_OK && setting_text(settings, SET_RULES) != NULL)
        result = wane_model_set_rules(model, setting_text(settings, SET_RULES), &error);
    if (result == WANE_OK) result = tokens_of(settings, model, story, &tokens, &error);
    if (result == WANE_OK)
        result = wane_gate_explain(model, tokens.id, tokens.count, &g, take_token, &e, &story->end, &error);
    progress_clear();
    if (result == WANE_OK) {
        end_tail(&e);
        wane_model_get_gate_state(model, &state);
        story->model = wane_model_get_facts(model)->name;
        story->gate = state.path;
        print(settings, story);
        story->gate = NULL;
    }
    wane_tokens_free(&tokens);
    return result == WANE_OK ? EXIT_FINE : cli_fail_wane(&error);
}

static int explain(const struct settings *settings) {
    if (setting_on(settings, SET_JSON) && setting_on(settings, SET_HTML))
        return cli_usage("gate", "--json and --html are two forms of output; choose one");
    if (!(setting_float(settings, SET_TEMPERATURE) > 0))
        return cli_usage("gate",
                         "at temperature 0 all answers are the same, and a gate has nothing to judge");
    struct settings words = *settings; /* what follows the word itself */
    words.operands++;
    words.operand_count--;
    struct gate_story story = {0};
    char *prompt = words.operand_count > 0 ? join_operands(&words, &story.prompt_size)
                                           : read_all_input(&story.prompt_size);
    if (prompt == NULL) return interrupt_seen() ? EXIT_INTERRUPTED : EXIT_FAILED;
    story.prompt = prompt;
    int code = EXIT_FINE;
    wane_model *model = NULL;
    if (story.prompt_size == 0)
        code = cli_usage("gate", "the prompt is empty; give it as words or on standard input");
    else if (text_utf8_prefix(prompt, story.prompt_size) != story.prompt_size)
        code = cli_fail(EXIT_FAILED, "the prompt is not UTF-8");
    if (code == EXIT_FINE) code = model_open(settings, &(struct model_wish){0}, &model);
    if (code == EXIT_FINE) code = explain_with(settings, model, &story);
    for (size_t i = 0; i < story.count; i++) free(story.piece[i].text);
    free(story.piece);
    free(prompt);
    wane_model_free(model);
    return code;
}

/* ---- info ---------------------------------------------------------------------------------------------------------- */

static int info(const struct settings *settings, const char *path) {
    wane_gate_facts f;
    wane_error error = {0};
    if (wane_gate_get_facts(path, &f, &error) != WANE_OK) return cli_fail_wane(&error);
    if (setting_on(settings, SET_JSON)) {
        out_json(json_pack("{s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:f, s:s}",
                           "file", path, "model", f.model, "tokenizer", f.tokenizer, "vocab_size",
                           f.vocab_size, "bytes", (json_int_t)f.bytes, "patterns", (json_int_t)f.patterns,
                           "seed", (json_int_t)f.seed, "votes", (json_int_t)f.votes, "positions",
                           (json_int_t)f.positions, "kept", (json_int_t)f.kept, "tokens",
                           (json_int_t)f.tokens, "auc", json_known(f.auc), "ece", json_known(f.ece),
                           "coverage", json_known(f.coverage), "allowance", (double)f.allowance, "note",
                           f.note),
                 false);
        return EXIT_FINE;
    }
    out_format("file       %s, %.1f KB\nmodel      %s\ntokenizer  %s, %d tokens\n", path,
               (double)f.bytes / 1e3, f.model, f.tokenizer, f.vocab_size);
    out_format("made of    %llu votes: %llu of %llu positions left alone; seed %llu\n",
               (unsigned long long)f.votes, (unsigned long long)f.kept, (unsigned long long)f.positions,
               (unsigned long long)f.seed);
    out_format("patterns   %lu, of %llu tokens\n", (unsigned long)f.patterns, (unsigned long long)f.tokens);
    out_format("held out   AUC %.3f, ECE %.3f, coverage %.1f %%\n", f.auc, f.ece, 100 * f.coverage);
    out_format("allowance  %.3f: rejections a token that cost no budget\n", (double)f.allowance);
    if (f.note[0] != '\0') out_format("note       %s\n", f.note);
    return EXIT_FINE;
}

int command_gate(struct settings *settings) {
    const char *what = settings->operand_count > 0 ? settings->operands[0] : NULL;
    if (what == NULL) return cli_usage("gate", "wane gate needs explain or info");
    interrupt_catch();
    if (strcmp(what, "explain") == 0) return explain(settings);
    if (strcmp(what, "info") != 0)
        return cli_usage("gate", "wane gate knows explain and info; got \"%.60s\"", what);
    if (settings->operand_count != 2) return cli_usage("gate", "wane gate info needs one gate: a .gate file");
    return info(settings, settings->operands[1]);
}

/* ---- training ------------------------------------------------------------------------------------------------------ */

static json_t *report_json(const void *report, const char *output) {
    const wane_gate_report *r = report;
    return json_pack(
        "{s:s?, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:f, s:i, s:o}",
        "file", output, "model", r->model, "tokenizer", r->tokenizer, "records", (json_int_t)r->records,
        "votes", (json_int_t)r->votes, "unusable_votes", (json_int_t)r->unusable, "positions",
        (json_int_t)r->positions, "kept", (json_int_t)r->kept, "held_out_votes", (json_int_t)r->held_votes,
        "held_out_positions", (json_int_t)r->held_positions, "held_out_kept", (json_int_t)r->held_kept,
        "patterns", (json_int_t)r->patterns, "bytes", (json_int_t)r->bytes, "auc", json_known(r->auc), "ece",
        json_known(r->ece), "coverage", json_known(r->coverage), "allowance", r->allowance, "epochs",
        r->epochs, "seconds", json_ms(r->seconds));
}

static void print_report(const void *report, const char *output) {
    const wane_gate_report *r = report;
    out_format("model      %s\nrecords    %llu\n", r->model, (unsigned long long)r->records);
    out_format("votes      %llu, %llu of them unusable\n", (unsigned long long)r->votes,
               (unsigned long long)r->unusable);
    out_format("learned    from %llu positions; a vote left %llu alone\n", (unsigned long long)r->positions,
               (unsigned long long)r->kept);
    out_format("held out   %llu votes with %llu positions, of which %llu left alone\n",
               (unsigned long long)r->held_votes, (unsigned long long)r->held_positions,
               (unsigned long long)r->held_kept);
    out_format(
        "AUC        %.3f\nECE        %.3f\ncoverage   %.1f %% of the held-out tokens, by %llu patterns\n",
        r->auc, r->ece, 100 * r->coverage, (unsigned long long)r->patterns);
    out_format("allowance  %.3f: three of four answers have fewer rejections a token\n", r->allowance);
    if (output != NULL) out_format("gate       %s, %.1f KB\n", output, (double)r->bytes / 1e3);
}

static int train_with(const struct settings *settings, wane_model *model) {
    const struct setting_value *traces = &settings->value[SET_TRACES];
    wane_gate_train_options options;
    wane_gate_report report;
    wane_error error = {0};
    wane_gate_train_options_init(&options);
    options.traces = (const char *const *)traces->list;
    options.trace_count = traces->list_count;
    options.note = setting_text(settings, SET_NOTE);
    train_begin(settings, &options.output, &options.seed, &options.progress);
    int result = model != NULL ? wane_gate_train_options_of(&options, model, &error) : WANE_OK;
    if (result == WANE_OK) result = wane_gate_train(&options, &report, &error);
    return train_end(settings, result, &error, &report, report_json, print_report);
}

int train_gate(const struct settings *settings) {
    if (settings->value[SET_TRACES].list_count == 0)
        return cli_usage("train", "wane train gate needs --trace FILE, a trace with votes");
    interrupt_catch();
    wane_model *model = NULL;
    int code = EXIT_FINE;
    if (settings->value[SET_MODEL].source == FROM_OPTION)
        code = model_open(settings, &(struct model_wish){.vocab_only = true}, &model);
    if (code == EXIT_FINE) code = train_with(settings, model);
    wane_model_free(model);
    return code;
}
