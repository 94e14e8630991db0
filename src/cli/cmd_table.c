/*
 * cmd_table.c - `wane table` and `wane key`: what a table holds, whether it is whole and whose, and signing it. Also how
 * the commands that decode give their model a table.
 */
#include "table_build.h"
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void table_use_from(const struct settings *settings, wane_table_use *use) {
    wane_table_use_init(use);
    use->path = setting_text(settings, SET_TABLE_FILE);
    use->key = setting_text(settings, SET_TABLE_KEY);
    use->meaning = strcmp(setting_text(settings, SET_TABLE_MEANING), "argmax") == 0 ? WANE_TABLE_ARGMAX
                                                                                    : WANE_TABLE_EXACT;
}

int table_attach(const struct settings *settings, wane_model *model) {
    wane_table_use use;
    wane_error error = {0};
    const char *path = setting_text(settings, SET_TABLE_FILE);
    if (path == NULL) {
        if (setting_text(settings, SET_TABLE_KEY) != NULL &&
            settings->value[SET_TABLE_KEY].source == FROM_OPTION)
            return cli_fail(EXIT_USAGE, "--table-key checks a table, and no --table was given");
        return EXIT_FINE;
    }
    table_use_from(settings, &use);
    return wane_model_set_table(model, &use, &error) == WANE_OK ? EXIT_FINE : cli_fail_wane(&error);
}

/* ---- info ---------------------------------------------------------------------------------------------------------- */

static const char *const kind_names[] = {"single", "multi", "code", "summary"};

static void built_at(int64_t when, char out[32]) {
    struct tm utc;
    time_t seconds = (time_t)when;
    snprintf(out, 32, "not said");
    if (when != 0 && gmtime_r(&seconds, &utc) != NULL) strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

static json_t *candidates_json(const wane_model *model, const wane_table_row *row) {
    json_t *list = json_array();
    for (int i = 0; i < row->top_count; i++) {
        json_t *one =
            json_pack("{s:i, s:f}", "token", (int)row->top[i].token, "logit", (double)row->top[i].logit);
        if (model != NULL) {
            char bytes[256];
            int size = wane_token_bytes(model, row->top[i].token, true, bytes, sizeof bytes);
            json_object_set_new(one, "text", json_text(bytes, size > 0 ? (size_t)size : 0));
        }
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *row_json(const wane_model *model, const wane_table_row *row) {
    json_t *kinds = json_array(), *next = json_array();
    char *window = text_format("%016" PRIx64, row->window), *ten = text_format("%08" PRIx32, row->ten);
    for (unsigned k = 0; k < 4; k++)
        if (row->kinds >> k & 1) json_array_append_new(kinds, json_string(kind_names[k]));
    for (int i = 0; i < row->continuation_count; i++)
        json_array_append_new(next, json_integer(row->continuation[i]));
    json_t *all =
        json_pack("{s:s, s:s, s:I, s:I, s:f, s:f, s:f, s:o, s:o, s:o, s:o}", "window", window, "ten", ten,
                  "seen", (json_int_t)row->seen, "positions", (json_int_t)row->positions, "stability",
                  row->stability, "agreement", row->agreement, "mass", row->mass, "kinds", kinds, "top",
                  candidates_json(model, row), "continuation", next, "acceptance",
                  isnan(row->acceptance) ? json_null() : json_real((double)row->acceptance));
    free(window);
    free(ten);
    return all;
}

static json_t *facts_json(const char *path, const wane_table_facts *f) {
    return json_pack("{s:s, s:s, s:b, s:I, s:i, s:s, s:s, s:i, s:I, s:i, s:i, s:f, s:f, s:I, s:I, s:I, s:I, "
                     "s:I, s:I, s:I}",
                     "file", path, "digest", f->digest, "verified", f->verified, "bytes",
                     (json_int_t)f->bytes, "version", f->version, "model", f->model, "tokenizer",
                     f->tokenizer, "vocab_size", f->vocab_size, "built_at", (json_int_t)f->built_at, "window",
                     f->window, "depth", f->depth, "min_stability", (double)f->min_stability, "min_share",
                     (double)f->min_share, "entries", (json_int_t)f->entries, "long_entries",
                     (json_int_t)f->long_entries, "positions", (json_int_t)f->positions, "continuations",
                     (json_int_t)f->continuations, "continuation_tokens", (json_int_t)f->continuation_tokens,
                     "phrases_bytes", (json_int_t)f->phrases_bytes, "seen", (json_int_t)f->seen);
}

static void print_facts(const char *path, const wane_table_facts *f) {
    char when[32];
    built_at(f->built_at, when);
    out_format("file           %s\ndigest         %s\n", path, f->digest);
    out_format("signature      %s\n", f->verified ? "verified" : "not checked: --table-key names the key");
    out_format("size           %.2f MB, version %d\n", (double)f->bytes / 1e6, f->version);
    out_format("model          %s\ntokenizer      %s, %d tokens\n", f->model, f->tokenizer, f->vocab_size);
    out_format("built          %s\n", when);
    out_format("parameters     window %d, depth %d, stability %g, share %g\n", f->window, f->depth,
               (double)f->min_stability, (double)f->min_share);
    out_format("entries        %" PRIu32 ", %" PRIu32 " of them of long contexts; seen %" PRIu64 " times\n",
               f->entries, f->long_entries, f->seen);
    out_format("positions      %" PRIu32 "\n", f->positions);
    out_format("continuations  %" PRIu32 ", %" PRIu32 " tokens\n", f->continuations, f->continuation_tokens);
    out_format("phrases        %" PRIu64 " bytes\n", f->phrases_bytes);
}

static void print_row(const wane_model *model, const wane_table_row *row) {
    out_format("%8" PRIu32 "  %9.3f  %9.6f ", row->seen, row->agreement, row->stability);
    for (int i = 0; i < row->top_count; i++) {
        char *text = token_quoted(model, row->top[i].token);
        out_format(" %s", text);
        free(text);
    }
    for (int i = 0; i < row->continuation_count; i++) {
        char *text = token_quoted(model, row->continuation[i]);
        out_format("%s%s", i == 0 ? "  then " : " ", text);
        free(text);
    }
    out_text("\n", 1);
}

static void show(const struct settings *settings, const char *path, const wane_model *model,
                 const wane_table *table) {
    wane_table_facts facts;
    int most = setting_int(settings, SET_HOTTEST);
    wane_table_row *rows = text_alloc(((size_t)most + 1) * sizeof *rows);
    int count = wane_table_hottest(table, most, rows);
    wane_table_get_facts(table, &facts);
    if (setting_on(settings, SET_JSON)) {
        json_t *all = facts_json(path, &facts), *list = json_array();
        for (int i = 0; i < count; i++) json_array_append_new(list, row_json(model, &rows[i]));
        json_object_set_new(all, "hottest", list);
        out_json(all, false);
    } else {
        print_facts(path, &facts);
        if (count > 0) out_format("\n    seen  agreement  stability  best first\n");
        for (int i = 0; i < count; i++) print_row(model, &rows[i]);
    }
    free(rows);
}

static int info(const struct settings *settings, const char *path) {
    wane_model *model = NULL;
    wane_table *table = NULL;
    wane_error error = {0};
    int code = EXIT_FINE;
    if (settings->value[SET_MODEL].source == FROM_OPTION) {
        struct model_wish wish = {.vocab_only = true};
        code = model_open(settings, &wish, &model);
    }
    if (code == EXIT_FINE) {
        if (wane_table_open(path, model, setting_text(settings, SET_TABLE_KEY), &table, &error) != WANE_OK)
            code = cli_fail_wane(&error);
        else
            show(settings, path, model, table);
    }
    wane_table_free(table);
    wane_model_free(model);
    return code;
}

/* ---- verify, sign -------------------------------------------------------------------------------------------------- */

static int verify(const struct settings *settings, const char *path) {
    wane_table *table;
    wane_table_facts facts;
    wane_error error = {0};
    if (wane_table_open(path, NULL, setting_text(settings, SET_TABLE_KEY), &table, &error) != WANE_OK)
        return cli_fail_wane(&error);
    wane_table_get_facts(table, &facts);
    wane_table_free(table);
    if (setting_on(settings, SET_JSON))
        out_json(json_pack("{s:s, s:b, s:s, s:b}", "file", path, "whole", true, "digest", facts.digest,
                           "verified", facts.verified),
                 false);
    else
        out_format("%s is whole%s\n", path,
                   facts.verified ? ", and signed by that key"
                                  : "; its signature was not checked (--table-key)");
    return EXIT_FINE;
}

static int sign(const struct settings *settings, const char *path) {
    const char *key = setting_text(settings, SET_SIGN_KEY);
    wane_error error = {0};
    if (key == NULL)
        return cli_usage("table", "wane table sign needs --key FILE, a secret key; wane key new makes one");
    if (wane_table_sign(key, path, &error) != WANE_OK) return cli_fail_wane(&error);
    if (setting_on(settings, SET_JSON)) {
        char *signature = text_format("%s.sig", path);
        out_json(json_pack("{s:s, s:s}", "file", path, "signature", signature), false);
        free(signature);
    } else {
        out_format("%s.sig\n", path);
    }
    return EXIT_FINE;
}

int command_table(struct settings *settings) {
    static const struct {
        const char *word;
        int (*run)(const struct settings *settings, const char *path);
    } parts[] = {{"info", info}, {"verify", verify}, {"sign", sign}};
    const char *what = settings->operand_count > 0 ? settings->operands[0] : NULL;
    if (what == NULL)
        return cli_usage("table", "wane table needs build, merge, replay, info, verify or sign");
    if (strcmp(what, "build") == 0) return table_build(settings, 1);
    if (strcmp(what, "merge") == 0) return table_merge(settings, 1);
    if (strcmp(what, "replay") == 0) return table_replay(settings, 1);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (strcmp(parts[i].word, what) != 0) continue;
        if (settings->operand_count != 2)
            return cli_usage("table", "wane table %s needs one table: a .slmt file", what);
        return parts[i].run(settings, settings->operands[1]);
    }
    return cli_usage("table", "wane table knows build, merge, replay, info, verify and sign; got \"%.60s\"",
                     what);
}

int command_key(struct settings *settings) {
    wane_error error = {0};
    if (settings->operand_count != 1 || strcmp(settings->operands[0], "new") != 0)
        return cli_usage("key", "wane key needs the word new, and nothing else");
    const char *path = setting_text(settings, SET_OUT);
    if (wane_table_key_new(path, &error) != WANE_OK) return cli_fail_wane(&error);
    if (setting_on(settings, SET_JSON)) {
        char *public_path = text_format("%s.pub", path);
        out_json(json_pack("{s:s, s:s}", "secret", path, "public", public_path), false);
        free(public_path);
    } else {
        out_format("%s      keep it to yourself: it signs tables\n%s.pub  give it to whoever checks them\n",
                   path, path);
    }
    return EXIT_FINE;
}
