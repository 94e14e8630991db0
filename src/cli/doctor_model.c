/*
 * doctor_model.c - a model and the files that were made for it: sketch, table, signature, saved session. Owns the model while it
 * looks. Refuses to fetch, to build and to repair: what is missing is said, with the command that makes it.
 */
#include "cli.h"
#include "doctor.h"
#include "text.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tokens and characters, in words ------------------------------------------------------------------------------------- */

/* A list of which no more than `shown` of `count` are shown; `one` makes the text of number i. Free it. */
static char *list_text(const wane_tokenizer_parting *p, int count, int shown,
                       char *(*one)(const wane_tokenizer_parting *p, int i, const void *user),
                       const void *user) {
    char *all = text_copy("");
    if (shown > count) shown = count;
    for (int i = 0; i < shown; i++) {
        char *text = one(p, i, user), *longer = text_format("%s%s%s", all, i > 0 ? ", " : "", text);
        free(all);
        free(text);
        all = longer;
    }
    if (count <= shown) return all;
    char *longer = text_format("%s and %d more", all, count - shown);
    free(all);
    return longer;
}

static char *one_character(const wane_tokenizer_parting *p, int i, const void *unused) {
    (void)unused;
    return text_format("U+%04X", (unsigned)p->character[i]);
}

/* "U+0041, U+00C4 and 12 more" */
static char *characters_text(const wane_tokenizer_parting *p) {
    return list_text(p, p->characters, WANE_TOKENIZER_SHOWN, one_character, NULL);
}

struct both {
    const wane_model *here, *there;
};

static char *one_token(const wane_tokenizer_parting *p, int i, const void *user) {
    const struct both *models = user;
    char *a = token_quoted(models->there, p->token[i]), *b = token_quoted(models->here, p->token[i]);
    char *text = text_format("%d (%s, here %s)", (int)p->token[i], a, b);
    free(a);
    free(b);
    return text;
}

/* "17 (\"a\", here \"b\")" of the tokens whose bytes differ. */
static char *tokens_text(const wane_model *here, const wane_model *there, const wane_tokenizer_parting *p) {
    const struct both models = {here, there};
    return list_text(p, p->tokens, 4, one_token, &models);
}

/* ---- tokenizer ---------------------------------------------------------------------------------------------------------------- */

static wane_model *load_vocabulary(const struct settings *settings, const char *name) {
    wane_model *model = NULL;
    wane_error ignored;
    struct model_wish wish = {.name = name, .vocab_only = true};
    return model_load_here(settings, &wish, &model, &ignored) == WANE_OK ? model : NULL;
}

/* Is it the tokenizer that the table names? Frees it, and gives NULL, where it is not. */
static wane_model *if_of(wane_model *model, const char *tokenizer) {
    char hex[33] = "";
    if (model == NULL) return NULL;
    if (wane_model_tokenizer(model, hex, NULL) == WANE_OK && strcmp(hex, tokenizer) == 0) return model;
    wane_model_free(model);
    return NULL;
}

static int is_model(const struct dirent *entry) {
    size_t length = strlen(entry->d_name);
    return length > 5 && strcmp(entry->d_name + length - 5, ".gguf") == 0;
}

/* The model whose tokenizer a table names: --against, or one of those in the cache; NULL: it is not here. */
static wane_model *find_model(const struct settings *settings, const char *tokenizer) {
    const char *named = setting_text(settings, SET_AGAINST);
    wane_model *found = named != NULL ? if_of(load_vocabulary(settings, named), tokenizer) : NULL;
    if (named != NULL) return found;
    char *folder = models_folder();
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_model, alphasort);
    for (int i = 0; i < count; i++) {
        char *path = text_format("%s/%s", folder, entries[i]->d_name);
        if (found == NULL && !interrupt_seen()) found = if_of(load_vocabulary(settings, path), tokenizer);
        free(path);
        free(entries[i]);
    }
    free(entries);
    free(folder);
    return found;
}

static const char sync_name[] = "TOKENIZER_SYNC";

/* The table is of another tokenizer: where do they part? */
static void say_parting(struct checkup *checkup, const struct settings *settings, wane_model *model,
                        const wane_table_facts *table) {
    static const char next[] = "build the table anew from this model's traces: wane record, wane table build";
    int own = wane_model_get_facts(model)->vocab_size;
    wane_model *other = find_model(settings, table->tokenizer);
    wane_tokenizer_parting p;
    wane_error error = {0};
    if (other == NULL) {
        checkup_add(checkup, sync_name, CHECK_CRITICAL, next,
                    "the table is of another tokenizer, with %d tokens where the model has %d; its model is "
                    "not here, "
                    "--against MODEL names it and shows what differs",
                    table->vocab_size, own);
    } else if (wane_tokenizers_compare(model, other, &p, &error) != WANE_OK) {
        checkup_add(checkup, sync_name, CHECK_CRITICAL, next, "the table is of another tokenizer; %s",
                    error.text);
    } else {
        char *tokens = tokens_text(model, other, &p), *characters = characters_text(&p);
        checkup_add(checkup, sync_name, CHECK_CRITICAL, next,
                    "the table is of the tokenizer of %s: %d tokens have other bytes%s%s; of %d characters "
                    "tried, %d become "
                    "other tokens%s%s; the table has %d tokens, the model %d",
                    wane_model_get_facts(other)->name, p.tokens, p.tokens > 0 ? ": " : "", tokens, p.tried,
                    p.characters, p.characters > 0 ? ": " : "", characters, p.vocab_b, p.vocab_a);
        free(tokens);
        free(characters);
    }
    wane_model_free(other);
}

static void check_tokenizer(struct checkup *checkup, const struct settings *settings, wane_model *model,
                            const wane_table_facts *table) {
    wane_tokenizer_parting p;
    wane_error error = {0};
    char hex[33] = "";
    if (wane_model_tokenizer(model, hex, &error) != WANE_OK ||
        wane_tokenizer_check(model, &p, &error) != WANE_OK) {
        checkup_add(checkup, sync_name, CHECK_CRITICAL, "fetch the model anew: wane model get NAME", "%s",
                    error.text);
        return;
    }
    if (table != NULL && strcmp(table->tokenizer, hex) != 0) {
        say_parting(checkup, settings, model, table);
        return;
    }
    char *lost = characters_text(&p);
    if (p.characters > 0)
        checkup_add(
            checkup, sync_name, CHECK_PASSED, NULL,
            "%s; of %d characters tried, %d do not come back as they were, by this tokenizer's own rules: %s",
            table != NULL ? "the table is of the model's tokenizer" : "no table to compare with", p.tried,
            p.characters, lost);
    else
        checkup_add(checkup, sync_name, CHECK_PASSED, NULL,
                    "%s; %d characters tried, all come back as they were",
                    table != NULL ? "the table is of the model's tokenizer" : "no table to compare with",
                    p.tried);
    free(lost);
}

/* ---- table, signature ------------------------------------------------------------------------------------------------------------ */

/* Opens it, whosever it is; NULL after a line that says why not, or that there is none. */
static wane_table *check_table(struct checkup *checkup, const struct settings *settings) {
    const char *path = setting_text(settings, SET_TABLE_FILE);
    wane_table *table = NULL;
    wane_error error = {0};
    if (path == NULL)
        checkup_add(checkup, "TABLE", CHECK_SKIPPED, "--table FILE names one", "no table is given");
    else if (wane_table_open(path, NULL, NULL, &table, &error) != WANE_OK)
        checkup_add(checkup, "TABLE", CHECK_CRITICAL,
                    "build it anew: wane table build; serve without --table until then", "%s", error.text);
    return table;
}

/* Whole; now: of this model? `model` NULL: that cannot be told. */
static void check_fit(struct checkup *checkup, const struct settings *settings, wane_model *model,
                      const wane_table_facts *f) {
    const char *path = setting_text(settings, SET_TABLE_FILE);
    char digest[33] = "";
    bool same =
        model != NULL && wane_model_digest(model, digest, NULL) == WANE_OK && strcmp(digest, f->model) == 0;
    bool takes = strcmp(setting_text(settings, SET_TABLE_MEANING), "argmax") == 0;
    if (model != NULL && !same)
        checkup_add(checkup, "TABLE", CHECK_CRITICAL,
                    "build it from this model's traces: wane record, wane table build",
                    "%s is whole, but of another model (digest %s; this one's is %s)", path, f->model,
                    digest);
    else if (f->entries == 0)
        checkup_add(checkup, "TABLE", CHECK_WARNING,
                    "wane table build --report FILE says why no context was stable", "%s is whole, and empty",
                    path);
    else if (takes)
        checkup_add(checkup, "TABLE", CHECK_WARNING,
                    "wane table replay compares; --table-meaning exact changes no token",
                    "%s is whole: %u entries; --table-meaning argmax takes tokens from it", path,
                    (unsigned)f->entries);
    else
        checkup_add(checkup, "TABLE", CHECK_PASSED, NULL,
                    "%s is whole%s: %u entries, %u positions, window %d, digest %.16s...", path,
                    same ? ", and of this model" : "", (unsigned)f->entries, (unsigned)f->positions,
                    f->window, f->digest);
}

static void check_signature(struct checkup *checkup, const struct settings *settings, bool whole) {
    static const char name[] = "SIGNATURE";
    const char *path = setting_text(settings, SET_TABLE_FILE), *key = setting_text(settings, SET_TABLE_KEY);
    wane_table *table = NULL;
    wane_error error = {0};
    if (!whole)
        checkup_add(checkup, name, CHECK_SKIPPED, NULL, "there is no table that could be signed");
    else if (key == NULL)
        checkup_add(checkup, name, CHECK_WARNING, "wane key new, wane table sign, then --table-key FILE.pub",
                    "unsigned tables are taken: whoever can write %s chooses what is looked up", path);
    else if (wane_table_open(path, NULL, key, &table, &error) != WANE_OK)
        checkup_add(checkup, name, CHECK_CRITICAL,
                    "sign it: wane table sign --key FILE TABLE; or find out who wrote it", "%s", error.text);
    else
        checkup_add(checkup, name, CHECK_PASSED, NULL, "%s is signed by %s", path, key);
    wane_table_free(table);
}

/* ---- head, cache ------------------------------------------------------------------------------------------------------------------ */

static void check_head(struct checkup *checkup, const struct settings *settings, wane_model *model) {
    const wane_model_facts *f = wane_model_get_facts(model);
    bool dense = strcmp(setting_text(settings, SET_HEAD), "dense") == 0;
    wane_head_state h;
    wane_model_get_head_state(model, &h);
    if (h.path[0] != '\0')
        checkup_add(
            checkup, "HEAD", CHECK_PASSED, NULL,
            "certified: sketch %s, %.1f MB, %.2g + %.2g bits a weight, k %.3g; %s in %s, rescoring exact%s",
            h.path, (double)h.bytes / 1e6, h.bits_level1, h.bits_level2, h.sigmas, f->head_type,
            f->head_buffer, f->rescoring_exact_batch ? "" : " for one row");
    else if (dense)
        checkup_add(checkup, "HEAD", CHECK_PASSED, NULL, "dense, as chosen: %s in %s", f->head_type,
                    f->head_buffer);
    else
        checkup_add(checkup, "HEAD", CHECK_WARNING,
                    "wane head build makes the sketch; where the model allows none, the dense head gives the "
                    "same tokens",
                    "dense: %s", h.reason);
}

static void check_session(struct checkup *checkup, const struct settings *settings, wane_model *model) {
    static const char name[] = "KV_CACHE_LAYOUT";
    const char *path = setting_text(settings, SET_SESSION);
    wane_session_file file;
    wane_error error = {0};
    const char *k = setting_text(settings, SET_KV_TYPE_K), *v = setting_text(settings, SET_KV_TYPE_V);
    if (path == NULL)
        checkup_add(checkup, name, CHECK_SKIPPED, "--session FILE checks one",
                    "keys %s, values %s; no saved session is given", k, v);
    else if (model == NULL && wane_session_file_info(path, &file, &error) == WANE_OK) {
        checkup_add(checkup, name, CHECK_SKIPPED, NULL, "%s is whole; without its model no more can be told",
                    path);
        wane_session_file_free(&file);
    } else if (model == NULL || wane_session_file_check(path, model, &file, &error) != WANE_OK)
        checkup_add(checkup, name, CHECK_CRITICAL, "wane session info FILE shows what it is of; save it anew",
                    "%s", error.text);
    else {
        if (!file.same_settings)
            checkup_add(checkup, name, CHECK_WARNING, "load with those settings, or accept other floats",
                        "%s fits, but was saved with other settings: %s", path, file.settings);
        else
            checkup_add(checkup, name, CHECK_PASSED, NULL,
                        "%s fits: version %d, %d tokens, %d in the cache, keys %s, values %s", path,
                        file.version, file.tokens, file.held, file.kv_type_k, file.kv_type_v);
        wane_session_file_free(&file);
    }
}

/* ---- together ------------------------------------------------------------------------------------------------------------------------ */

static wane_model *open_model(struct checkup *checkup, const struct settings *settings,
                              struct doctor_wish *wish) {
    wane_model *model = NULL;
    wane_error error = {0};
    struct model_wish how = {.decodes = true, .found = true, .shadow = -1};
    const char *name = setting_text(settings, SET_MODEL);
    if (model_load_here(settings, &how, &model, &error) != WANE_OK) {
        checkup_add(checkup, "MODEL", CHECK_CRITICAL,
                    error.code == WANE_ENOENT
                        ? "wane model get NAME fetches a known one; wane model list names them"
                        : "wane model info NAME; wane model get NAME fetches a known one anew",
                    "%s", error.text);
        return NULL;
    }
    const wane_model_facts *f = wane_model_get_facts(model);
    wane_head_state head;
    wane_model_get_head_state(model, &head);
    wish->model_bytes = f->file_bytes;
    if (head.path[0] != '\0') wish->kernel = head.kernel;
    checkup_add(checkup, "MODEL", CHECK_PASSED, NULL,
                "%s: %s, %.0f MB, context %d of %d trained, template %s", name, f->description,
                (double)f->file_bytes / 1e6, f->context, f->trained_context, f->template_kind);
    return model;
}

void doctor_model(struct checkup *checkup, const struct settings *settings, struct doctor_wish *wish) {
    wane_model *model = open_model(checkup, settings, wish);
    wane_table *table = check_table(checkup, settings);
    wane_table_facts facts;
    if (table != NULL) {
        wane_table_get_facts(table, &facts);
        check_fit(checkup, settings, model, &facts);
    }
    check_signature(checkup, settings, table != NULL);
    if (model != NULL) {
        check_head(checkup, settings, model);
        check_tokenizer(checkup, settings, model, table != NULL ? &facts : NULL);
    } else {
        checkup_add(checkup, "HEAD", CHECK_SKIPPED, NULL, "there is no model");
        checkup_add(checkup, sync_name, CHECK_SKIPPED, NULL, "there is no model");
    }
    check_session(checkup, settings, model);
    wane_table_free(table);
    wane_model_free(model);
}
