/*
 * cmd_diagnose.c - `wane diagnose`: run a prompt twice, say where the runs part and who had a hand in it.
 *
 * One side is loaded after the other, so that two models need no more memory than the larger one and never share the cores. Refuses
 * to guess a cause: it names what the layers themselves noted.
 */
#include "diagnose.h"
#include "talk.h"
#include "text.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TOKENS_UNLESS_SAID = 64,
    MISFITS_MOST = 20,
    MISFITS_SHOWN = 5,
    CONTEXT_SHOWN = 10,
    WORDS_MOST = 200,
    EXIT_TROUBLE = 2
};

struct diagnosis {
    const struct settings *settings;
    struct side a, b;
    struct parting parting;
    wane_model *words; /* a vocabulary, for texts; NULL: none */
};

/* ---- a side's settings ------------------------------------------------------------------------------------------------------ */

struct words {
    char *list[WORDS_MOST];
    int count;
};

/* Words between blanks; quotes of either kind hold blanks. False: a quote does not end, or there are too many. */
static bool split(const char *text, struct words *out) {
    char *word = text_alloc(strlen(text) + 1);
    bool good = true;
    for (const char *at = text + strspn(text, " \t"); *at != '\0' && good; at += strspn(at, " \t")) {
        size_t used = 0;
        char quote = '\0';
        for (; *at != '\0' && (quote != '\0' || !isspace((unsigned char)*at)); at++) {
            if (quote == '\0' && (*at == '"' || *at == '\''))
                quote = *at;
            else if (*at == quote)
                quote = '\0';
            else
                word[used++] = *at;
        }
        good = quote == '\0' && out->count < WORDS_MOST;
        if (good) out->list[out->count++] = text_copy_part(word, used);
    }
    free(word);
    return good;
}

static void add_word(struct words *words, const char *option, const char *value) {
    if (words->count < WORDS_MOST) words->list[words->count++] = text_format("--%s=%s", option, value);
}

/* The options that both sides share, as words again. */
static void add_shared(const struct settings *settings, struct words *out) {
    for (int id = 0; id < SETTING_COUNT; id++) {
        const struct setting *setting = &settings_table[id];
        const struct setting_value *value = &settings->value[id];
        if (value->source != FROM_OPTION || id == SET_SIDE_A || id == SET_SIDE_B || id == SET_JSON ||
            id == SET_PROMPT)
            continue;
        if (setting->type == TYPE_TEXTS || setting->type == TYPE_FILES)
            for (size_t i = 0; i < value->list_count; i++) add_word(out, setting->option, value->list[i]);
        else
            add_word(out, setting->option, value->text);
    }
}

static int side_settings(const struct settings *settings, const char *option, const char *own,
                         struct words *words, struct settings *out) {
    struct complaint complaint = {""}, ignored;
    settings_init(out);
    add_shared(settings, words);
    if (!split(own, words))
        return cli_usage("diagnose",
                         "--%s is \"%.200s\": a quote in it does not end, or it has too many words", option,
                         own);
    if (!settings_load(out, FOR_DIAGNOSE, "diagnose", words->count, words->list, &complaint))
        return cli_usage("diagnose", "in --%s: %s", option, complaint.text);
    if (out->operand_count > 0)
        return cli_usage("diagnose", "--%s takes options alone; got \"%.60s\"", option, out->operands[0]);
    if (out->value[SET_TEMPERATURE].source == FROM_DEFAULT)
        settings_set(out, SET_TEMPERATURE, "0", FROM_OPTION, 0, &ignored);
    if (!out->value[SET_SEED].seeded) settings_set(out, SET_SEED, "1", FROM_OPTION, 0, &ignored);
    if (setting_int(out, SET_MAX_TOKENS) == 0) {
        char most[12];
        snprintf(most, sizeof most, "%d", TOKENS_UNLESS_SAID);
        settings_set(out, SET_MAX_TOKENS, most, FROM_OPTION, 0, &ignored);
    }
    return EXIT_FINE;
}

/* ---- running a side --------------------------------------------------------------------------------------------------------- */

static bool keep_look(void *user, const wane_look *look) {
    struct side *side = user;
    side->seen = text_grow(side->seen, ((size_t)side->count + 1) * sizeof *side->seen);
    struct seen *seen = &side->seen[side->count++];
    seen->look = *look;
    seen->look.best = NULL; /* the list moves; its place is beside it */
    if (look->best_count > 0) memcpy(seen->best, look->best, (size_t)look->best_count * sizeof *seen->best);
    return !interrupt_seen();
}

static int look_at(struct talk *talk, struct side *side, wane_error *error) {
    wane_generation generation;
    wane_quality quality;
    int result = talk_prepare(talk, &quality, &generation, &side->prompt, error);
    interrupt_target(talk->session);
    if (result == WANE_OK)
        result = wane_session_look(talk->session, side->prompt.id, side->prompt.count, &generation, keep_look,
                                   side, &side->end, error);
    interrupt_target(NULL);
    if (result != WANE_OK) return result;
    snprintf(side->kv_type_k, sizeof side->kv_type_k, "%s", side->end.kv_type_k);
    snprintf(side->kv_type_v, sizeof side->kv_type_v, "%s", side->end.kv_type_v);
    snprintf(side->settings, sizeof side->settings, "%s", side->end.settings);
    side->end.kv_type_k = side->kv_type_k;
    side->end.kv_type_v = side->kv_type_v;
    side->end.settings = side->settings;
    return wane_model_digest(talk->model, side->digest, error);
}

static int run_side(const struct settings *settings, const char *prompt, size_t size, struct side *side) {
    struct talk talk;
    wane_error error = {0};
    int code = talk_open(settings, setting_text(settings, SET_SESSION), true, &talk);
    if (code != EXIT_FINE) return code;
    const wane_model_facts *facts = wane_model_get_facts(talk.model);
    const char *table = setting_text(settings, SET_TABLE_FILE);
    snprintf(side->model, sizeof side->model, "%.190s", facts->name);
    snprintf(side->name, sizeof side->name, "%s", setting_text(settings, SET_MODEL));
    snprintf(side->table, sizeof side->table, "%s", table != NULL ? table : "");
    side->argmax = strcmp(setting_text(settings, SET_TABLE_MEANING), "argmax") == 0;
    side->vocab_size = facts->vocab_size;
    talk_add(&talk, "user", prompt, size);
    if (look_at(&talk, side, &error) != WANE_OK) code = cli_fail_wane(&error);
    talk_close(&talk);
    return code;
}

static int open_side(const struct settings *settings, const char *option, int id, const char *prompt,
                     size_t size, struct side *side) {
    struct settings own;
    struct words words = {.count = 0};
    const char *text = setting_text(settings, id) != NULL ? setting_text(settings, id) : "";
    side->options = text_copy(text);
    int code = side_settings(settings, option, text, &words, &own);
    if (code == EXIT_FINE) code = run_side(&own, prompt, size, side);
    settings_free(&own);
    for (int i = 0; i < words.count; i++) free(words.list[i]);
    return code;
}

/* ---- who had a hand in it ------------------------------------------------------------------------------------------------------ */

/* Prompt and reply before token `at` of the reply. */
static wane_tokens context_at(const struct side *side, int at) {
    wane_tokens all = {0};
    all.capacity = side->prompt.count + (size_t)at + 1;
    all.id = text_alloc(all.capacity * sizeof *all.id);
    memcpy(all.id, side->prompt.id, side->prompt.count * sizeof *all.id);
    all.count = side->prompt.count;
    for (int i = 0; i < at; i++) all.id[all.count++] = side->seen[i].look.token;
    return all;
}

static json_t *token_json(const struct diagnosis *d, int32_t token) {
    if (token < 0) return json_null();
    char *text = token_quoted(d->words, token);
    json_t *one = json_pack("{s:i}", "token", (int)token);
    json_t *shown = json_loads(text, JSON_DECODE_ANY, NULL);
    if (json_is_string(shown))
        json_object_set_new(one, "text", shown);
    else
        json_decref(shown);
    free(text);
    return one;
}

static json_t *candidates_json(const struct diagnosis *d, const wane_candidate *list, int count) {
    json_t *all = json_array();
    for (int i = 0; i < count; i++) {
        json_t *one = token_json(d, list[i].token);
        if (json_is_object(one)) json_object_set_new(one, "logit", json_real((double)list[i].logit));
        json_array_append_new(all, one);
    }
    return all;
}

/* What the side's table has for the context of token `at`, beside what the model said. */
static json_t *entry_json(const struct diagnosis *d, const struct side *side, int at) {
    const struct seen *seen = &side->seen[at];
    wane_tokens context = context_at(side, at);
    wane_table *table = NULL;
    wane_table_answer answer = {0};
    wane_table_facts facts = {.window = 0};
    if (wane_table_open(side->table, NULL, NULL, &table, NULL) == WANE_OK) {
        wane_table_get_facts(table, &facts);
        wane_table_lookup(table, NULL, context.id, context.count, seen->look.index, &answer);
    }
    json_t *last = json_array();
    size_t shown = context.count < CONTEXT_SHOWN ? context.count : CONTEXT_SHOWN;
    for (size_t i = context.count - shown; i < context.count; i++)
        json_array_append_new(last, token_json(d, context.id[i]));
    static const char *const grades[] = {"miss", "rank", "strict"};
    int grade = seen->look.table_grade;
    json_t *all =
        json_pack("{s:s, s:i, s:s, s:s, s:i, s:o, s:o, s:o, s:b}", "table", side->table, "position", at,
                  "record", wane_table_source(seen->look.table_source), "hit",
                  grades[grade >= 0 && grade < 3 ? grade : 0], "window", facts.window, "context", last,
                  "stored", candidates_json(d, answer.top, answer.top_count), "model",
                  candidates_json(d, seen->best, seen->look.best_count < 5 ? seen->look.best_count : 5),
                  "took", seen->look.table_took);
    wane_table_free(table);
    wane_tokens_free(&context);
    return all;
}

/* What a side's own notes say of token `at`; NULL: nothing. */
static json_t *hand_json(const struct diagnosis *d, const struct side *side, const char *name, int at) {
    if (at >= side->count) return NULL;
    const wane_look *look = &side->seen[at].look;
    const char *by = look->table_took                                    ? "table"
                     : look->changed                                     ? "correction"
                     : look->steered && look->state != WANE_STATE_NORMAL ? "governor"
                                                                         : NULL;
    if (by == NULL) return NULL;
    json_t *all = json_pack("{s:s, s:s, s:o}", "side", name, "by", by, "token", token_json(d, look->token));
    if (look->table_took) json_object_set_new(all, "entry", entry_json(d, side, at));
    if (look->steered) json_object_set_new(all, "state", json_string(wane_state_name(look->state)));
    return all;
}

/* Entries that were found and say something else than the model: wrong ones, whatever was done with them. */
static json_t *misfits_json(const struct diagnosis *d, const struct side *side, int *count) {
    json_t *all = json_array();
    *count = 0;
    for (int i = 0; i < side->count; i++) {
        const wane_look *look = &side->seen[i].look;
        bool wrong = look->table_source == WANE_TABLE_CONTEXT && look->table_grade == 0 &&
                     look->best_count > 0 && look->table_first != side->seen[i].best[0].token;
        if (!wrong) continue;
        if (++*count <= MISFITS_MOST) json_array_append_new(all, entry_json(d, side, i));
    }
    return all;
}

/* ---- printing ------------------------------------------------------------------------------------------------------------------- */

static const char *const state_words[] = {"same", "parted", "unknown"};

static json_t *side_json(const struct diagnosis *d, const struct side *side) {
    int wrong;
    json_t *misfits = misfits_json(d, side, &wrong);
    return json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:s, s:s, s:s, s:I, s:i, s:o}", "options", side->options,
                     "model", side->model, "digest", side->digest, "prompt_tokens", (int)side->prompt.count,
                     "reply_tokens", side->count, "held", side->end.held, "kv_type_k", side->kv_type_k,
                     "kv_type_v", side->kv_type_v, "settings", side->settings, "state_bytes",
                     (json_int_t)side->end.state_bytes, "wrong_entries", wrong, "entries", misfits);
}

static json_t *kv_json(const struct parting *p) {
    return json_pack("{s:s, s:b, s:b, s:b, s:b, s:b}", "state", state_words[p->state[LAYER_KV]], "length",
                     p->kv_length, "types", p->kv_types, "settings", p->kv_settings, "bytes", p->kv_bytes,
                     "content", p->kv_content);
}

static json_t *causes_json(const struct diagnosis *d) {
    const struct parting *p = &d->parting;
    json_t *all = json_array();
    if (p->state[LAYER_CHOICE] != LAYER_PARTED) return all;
    json_t *a = hand_json(d, &d->a, "a", p->choice_at), *b = hand_json(d, &d->b, "b", p->choice_at);
    if (a != NULL) json_array_append_new(all, a);
    if (b != NULL) json_array_append_new(all, b);
    return all;
}

static json_t *report_json(const struct diagnosis *d) {
    const struct parting *p = &d->parting;
    json_t *layers = json_object();
    json_object_set_new(layers, "tokens",
                        json_pack("{s:s, s:i, s:o, s:o}", "state", state_words[p->state[LAYER_TOKENS]],
                                  "position", p->token_at, "a", token_json(d, p->token_a), "b",
                                  token_json(d, p->token_b)));
    json_object_set_new(layers, "logits",
                        json_pack("{s:s, s:i, s:o, s:i, s:o, s:o, s:o, s:i}", "state",
                                  state_words[p->state[LAYER_LOGITS]], "positions", p->positions, "largest",
                                  json_known(isinf(p->difference) ? NAN : p->difference), "position",
                                  p->logit_at, "token", token_json(d, p->logit_at >= 0 ? p->logit_token : -1),
                                  "a", json_known((double)p->logit_a), "b", json_known((double)p->logit_b),
                                  "strangers", p->strangers));
    json_object_set_new(layers, "choice",
                        json_pack("{s:s, s:i, s:o, s:o}", "state", state_words[p->state[LAYER_CHOICE]],
                                  "position", p->choice_at, "a", token_json(d, p->choice_a), "b",
                                  token_json(d, p->choice_b)));
    json_object_set_new(layers, "kv", kv_json(p));
    return json_pack("{s:s, s:o, s:o, s:o, s:o}", "first", layer_id_name(p->first), "layers", layers,
                     "causes", causes_json(d), "a", side_json(d, &d->a), "b", side_json(d, &d->b));
}

static char *word(const struct diagnosis *d, int32_t token) {
    return token < 0 ? text_copy("the end") : token_quoted(d->words, token);
}

static void print_two(const struct diagnosis *d, const char *what, int at, int32_t a, int32_t b) {
    char *x = word(d, a), *y = word(d, b);
    out_format("%s %d: a %s, b %s", what, at, x, y);
    free(x);
    free(y);
}

static void print_logits(const struct diagnosis *d) {
    const struct parting *p = &d->parting;
    out_format("%d position%s, the best %d of each", p->positions, p->positions == 1 ? "" : "s",
               WANE_LOOK_BEST);
    if (p->logit_at >= 0) {
        char *text = word(d, p->logit_token);
        out_format(": furthest apart %.9g, at token %d of the reply, %s: a %.9g, b %.9g", p->difference,
                   p->logit_at, text, (double)p->logit_a, (double)p->logit_b);
        free(text);
    }
    if (p->strangers > 0) out_format("; %d candidates stand on one side alone", p->strangers);
}

static void print_kv(const struct diagnosis *d) {
    const struct parting *p = &d->parting;
    out_format("%d and %d tokens held", d->a.end.held, d->b.end.held);
    if (p->kv_types)
        out_format("; keys and values %s/%s and %s/%s", d->a.kv_type_k, d->a.kv_type_v, d->b.kv_type_k,
                   d->b.kv_type_v);
    if (p->kv_settings) out_format("; settings \"%s\" and \"%s\"", d->a.settings, d->b.settings);
    if (p->kv_bytes)
        out_format("; %llu and %llu bytes", (unsigned long long)d->a.end.state_bytes,
                   (unsigned long long)d->b.end.state_bytes);
    if (p->kv_content) out_format("; the same size, other bytes");
}

static void print_layer(const struct diagnosis *d, int layer) {
    const struct parting *p = &d->parting;
    static const char *const words[] = {"same", "PARTED", "unknown"};
    out_format("%-7s  %-7s  ", layer_id_name(layer), words[p->state[layer]]);
    if (p->state[layer] == LAYER_UNKNOWN)
        out_format("%s",
                   p->state[LAYER_TOKENS] == LAYER_PARTED ? "the prompts differ" : "no row of both was seen");
    else if (layer == LAYER_TOKENS && p->state[layer] == LAYER_PARTED)
        print_two(d, "token", p->token_at, p->token_a, p->token_b);
    else if (layer == LAYER_TOKENS)
        out_format("%d in the prompt", (int)d->a.prompt.count);
    else if (layer == LAYER_LOGITS)
        print_logits(d);
    else if (layer == LAYER_CHOICE && p->state[layer] == LAYER_PARTED)
        print_two(d, "token", p->choice_at, p->choice_a, p->choice_b);
    else if (layer == LAYER_CHOICE)
        out_format("%d in the reply", d->a.count);
    else
        print_kv(d);
    out_format("\n");
}

/* A list of {"text": …, "logit": …} in one line. */
static void print_list(const json_t *list, bool logits) {
    size_t i;
    const json_t *one;
    json_array_foreach(list, i, one) {
        const json_t *text = json_object_get(one, "text");
        char *shown = text != NULL
                          ? json_dumps(text, JSON_ENCODE_ANY)
                          : text_format("%d", (int)json_integer_value(json_object_get(one, "token")));
        out_format("%s%s", i > 0 ? " " : "", shown);
        if (logits)
            out_format(" %.5g%s", json_number_value(json_object_get(one, "logit")),
                       i + 1 < json_array_size(list) ? "," : "");
        free(shown);
    }
}

static void print_entry(const json_t *entry) {
    out_format("  %s, %s record for the context ", json_string_value(json_object_get(entry, "table")),
               json_string_value(json_object_get(entry, "record")));
    print_list(json_object_get(entry, "context"), false);
    out_format(" (its last %d name it): stored ", (int)json_integer_value(json_object_get(entry, "window")));
    print_list(json_object_get(entry, "stored"), true);
    out_format("; the model says ");
    print_list(json_object_get(entry, "model"), true);
    out_format("; graded %s, token %d of the reply\n", json_string_value(json_object_get(entry, "hit")),
               (int)json_integer_value(json_object_get(entry, "position")));
}

static void print_causes(const struct diagnosis *d, const json_t *report) {
    const struct parting *p = &d->parting;
    size_t i;
    const json_t *cause;
    const json_t *causes = json_object_get(report, "causes");
    json_array_foreach(causes, i, cause) {
        const json_t *entry = json_object_get(cause, "entry");
        const char *by = json_string_value(json_object_get(cause, "by"));
        out_format("cause: in %s the %s had a hand in token %d%s\n",
                   json_string_value(json_object_get(cause, "side")), by, p->choice_at,
                   entry != NULL ? ", --table-meaning argmax takes the first stored one:" : "");
        if (entry != NULL) print_entry(entry);
    }
    if (p->first == LAYER_CHOICE && i == 0)
        out_format("cause: %s\n", p->best_part
                                      ? "the best tokens are another order of equal logits"
                                      : "the draw: the rows are the same, the settings of sampling are not");
    if (p->first == LAYER_LOGITS && p->state[LAYER_CHOICE] == LAYER_PARTED && i == 0)
        out_format("cause: the logits, before anything was chosen\n");
}

static void print_wrong(const char *name, const json_t *side) {
    int wrong = (int)json_integer_value(json_object_get(side, "wrong_entries"));
    size_t i;
    const json_t *entry;
    if (wrong == 0) return;
    out_format("in %s, %d table entr%s not what the model says:\n", name, wrong,
               wrong == 1 ? "y is" : "ies are");
    json_array_foreach(json_object_get(side, "entries"), i, entry) {
        if (i < MISFITS_SHOWN) print_entry(entry);
    }
}

static void print_text(const struct diagnosis *d, const json_t *report) {
    out_format("a: %s %s\nb: %s %s\n\n", d->a.model, d->a.options, d->b.model, d->b.options);
    for (int i = 0; i < LAYERS; i++) print_layer(d, i);
    out_format("\nfirst: %s\n", d->parting.first == LAYER_NONE ? "nowhere, the runs are the same"
                                                               : layer_id_name(d->parting.first));
    print_causes(d, report);
    print_wrong("a", json_object_get(report, "a"));
    print_wrong("b", json_object_get(report, "b"));
}

/* ---- the command ---------------------------------------------------------------------------------------------------------------- */

static int report(struct diagnosis *d) {
    if (d->a.vocab_size != d->b.vocab_size)
        return cli_fail(EXIT_TROUBLE,
                        "the models have %d and %d tokens: only models of one vocabulary can be compared",
                        d->a.vocab_size, d->b.vocab_size);
    struct model_wish wish = {.name = d->a.name, .vocab_only = true};
    wane_error ignored;
    if (model_load_here(d->settings, &wish, &d->words, &ignored) != WANE_OK ||
        wane_model_get_facts(d->words)->vocab_size != d->a.vocab_size) {
        wane_model_free(d->words);
        d->words = NULL; /* numbers will do */
    }
    diagnose_compare(&d->a, &d->b, d->settings->value[SET_TOLERANCE].real, &d->parting);
    json_t *all = report_json(d);
    if (setting_on(d->settings, SET_JSON)) {
        out_json(all, false);
    } else {
        print_text(d, all);
        json_decref(all);
    }
    wane_model_free(d->words);
    return d->parting.first == LAYER_NONE ? EXIT_FINE : EXIT_FAILED;
}

int command_diagnose(struct settings *settings) {
    struct diagnosis d = {.settings = settings};
    int code = EXIT_FAILED;
    size_t size = 0;
    if (setting_text(settings, SET_SIDE_A) == NULL && setting_text(settings, SET_SIDE_B) == NULL)
        return cli_usage("diagnose", "wane diagnose needs --a or --b: in what the two runs differ");
    char *prompt = talk_prompt(settings, "diagnose", &size, &code);
    if (prompt == NULL) return code == EXIT_FAILED ? EXIT_TROUBLE : code;
    interrupt_catch();
    code = open_side(settings, "a", SET_SIDE_A, prompt, size, &d.a);
    if (code == EXIT_FINE) code = open_side(settings, "b", SET_SIDE_B, prompt, size, &d.b);
    if (code == EXIT_FAILED) code = EXIT_TROUBLE; /* 1 says that they part */
    if (code == EXIT_FINE) code = report(&d);
    free(prompt);
    side_free(&d.a);
    side_free(&d.b);
    return code;
}
