/*
 * session_file.c - a session into its file and back; docs/session.md. Owns neither session nor engine. Refuses files of another
 * model, engine or type of cache: their state is no state here.
 */
#include "core/bytes.h"
#include "core/error.h"
#include "core/file.h"
#include "core/memory.h"
#include "origin.h"
#include "session_form.h"
#include "session_parts.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

/* States of the largest models with long contexts have some gigabytes. */
#define FILE_MOST ((size_t)1 << 40)

/* -------------------------------------------------------------------- saving */

static int messages_text(const wane_message *messages, size_t count, char **text, wane_error *error) {
    json_t *all = json_array();
    *text = NULL;
    for (size_t i = 0; i < count; i++) {
        json_t *role = json_string(messages[i].role);
        json_t *content = json_stringn(messages[i].content, messages[i].content_size);
        json_t *one = json_object();
        bool fine = role != NULL && content != NULL;
        json_object_set_new(one, "role", role);
        json_object_set_new(one, "content", content);
        json_array_append_new(all, one);
        if (fine) continue;
        json_decref(all);
        return wane__fail(error, WANE_EINVAL, "Message %zu is not UTF-8: it cannot be kept in a session.",
                          i + 1);
    }
    *text = json_dumps(all, JSON_COMPACT);
    json_decref(all);
    return *text != NULL ? WANE_OK : wane__fail(error, WANE_ENOMEM, "No memory for the conversation.");
}

/* What the file is of; strings are copied but for `settings`, which stays the model's. */
static int facts_of(wane_model *model, wane_session_file *file, wane_error *error) {
    struct wane__trace_origin origin;
    int status = wane__model_origin(model, &origin, error);
    if (status != WANE_OK) return status;
    memcpy(file->model, origin.model, sizeof file->model);
    const struct wane__engine *engine = model->engine;
    if (engine->facts.path[0] != '\0') /* with the commit: one version has many, and states are theirs */
        snprintf(file->engine, sizeof file->engine, "%s %s", engine->ops->name, wane_engine_version());
    else
        snprintf(file->engine, sizeof file->engine, "%s", engine->facts.engine);
    snprintf(file->kv_type_k, sizeof file->kv_type_k, "%s", model->kv_type_k);
    snprintf(file->kv_type_v, sizeof file->kv_type_v, "%s", model->kv_type_v);
    file->settings = model->settings;
    file->vocab_size = model->engine->facts.vocab_size;
    return WANE_OK;
}

static int write_file(const char *path, const wane_session_file *file, const char *talk, const void *tokens,
                      const struct wane__buf *state, wane_error *error) {
    unsigned char head[WANE__SESSION_HEAD], tail[WANE__SESSION_TAIL];
    XXH3_state_t *hash = XXH3_createState();
    if (hash == NULL) return wane__fail(error, WANE_ENOMEM, "No memory to write a session.");
    wane__session_put_head(file, strlen(talk), head);
    const struct wane__file_part parts[] = {{head, sizeof head},
                                            {file->settings, strlen(file->settings)},
                                            {talk, strlen(talk)},
                                            {tokens, 4 * (size_t)file->tokens},
                                            {state->data, state->size},
                                            {tail, sizeof tail}};
    XXH3_64bits_reset(hash);
    for (int i = 0; i < 5; i++)
        if (parts[i].size > 0) XXH3_64bits_update(hash, parts[i].bytes, parts[i].size);
    wane__put(tail, XXH3_64bits_digest(hash), 8);
    XXH3_freeState(hash);
    return wane__file_replace(path, "the session", parts, 6, 0600, error);
}

int wane_session_save(wane_session *session, const char *path, const wane_message *messages, size_t count,
                      wane_error *error) {
    struct wane__session_parts parts;
    wane_session_file file = {0};
    struct wane__buf state = {0};
    unsigned char *tokens = NULL;
    char *talk = NULL;
    wane__clear(error);
    wane__session_rest(session, &parts);
    struct wane__engine *engine = parts.model->engine;
    if (engine->ops->state_save == NULL)
        return wane__fail(error, WANE_EUNSUPPORTED, "The engine %s cannot give a sequence's state.",
                          engine->ops->name);
    int status = facts_of(parts.model, &file, error);
    if (status == WANE_OK) status = messages_text(messages, count, &talk, error);
    if (status == WANE_OK && parts.held > 0) status = engine->ops->state_save(engine, 0, &state, error);
    if (status != WANE_OK) goto end;
    file.saved_at = (int64_t)time(NULL);
    file.tau = wane_session_tau(session);
    file.sfcl_flags = wane_session_flags(session);
    file.tokens = (int)parts.tokens->count;
    file.held = parts.held;
    file.state_bytes = state.size;
    tokens = wane__alloc_zero(parts.tokens->count + 1, 4);
    if (tokens == NULL) {
        status = wane__fail(error, WANE_ENOMEM, "No memory to write a session.");
        goto end;
    }
    for (size_t i = 0; i < parts.tokens->count; i++)
        wane__put(tokens + 4 * i, (uint32_t)parts.tokens->id[i], 4);
    status = write_file(path, &file, talk, tokens, &state, error);
end:
    wane__buf_free(&state);
    wane__free(tokens);
    free(talk); /* jansson's */
    return status;
}

/* -------------------------------------------------------------------- loading */

static int read_file(const char *path, char **bytes, struct wane__session_bytes *parsed, wane_error *error) {
    size_t size;
    *parsed = (struct wane__session_bytes){0};
    int status = wane__file_read(path, "the session", FILE_MOST, bytes, &size, error);
    if (status == WANE_OK) status = wane__session_parse(path, *bytes, size, parsed, error);
    return status;
}

int wane_session_file_info(const char *path, wane_session_file *file, wane_error *error) {
    struct wane__session_bytes parsed;
    char *bytes = NULL;
    wane__clear(error);
    int status = read_file(path, &bytes, &parsed, error);
    *file = parsed.file;
    wane__free(bytes);
    return status;
}

/* Is its state one of this model's? */
static int check_same(wane_model *model, const char *path, const wane_session_file *file, wane_error *error) {
    wane_session_file now = {0};
    int status = facts_of(model, &now, error);
    if (status != WANE_OK) return status;
    if (strcmp(now.model, file->model) != 0 || now.vocab_size != file->vocab_size)
        return wane__fail(
            error, WANE_EUNSUPPORTED,
            "The session %s is of another model (digest %s; this one's is %s). Load that one, or save "
            "the session anew.",
            path, file->model, now.model);
    if (strcmp(now.engine, file->engine) != 0)
        return wane__fail(error, WANE_EUNSUPPORTED,
                          "The session %s is of the engine %s; this one is %s, whose state may be another.",
                          path, file->engine, now.engine);
    if (strcmp(now.kv_type_k, file->kv_type_k) != 0 || strcmp(now.kv_type_v, file->kv_type_v) != 0)
        return wane__fail(
            error, WANE_EUNSUPPORTED,
            "The session %s has a cache of %s keys and %s values; this model has %s and %s. Give it "
            "--kv-type-k and --kv-type-v.",
            path, file->kv_type_k, file->kv_type_v, now.kv_type_k, now.kv_type_v);
    if (file->held > model->engine->facts.context)
        return wane__fail(error, WANE_ECONTEXT,
                          "The session %s has %d tokens; the context holds %d. --context makes it larger.",
                          path, file->held, model->engine->facts.context);
    return WANE_OK;
}

int wane_session_file_check(const char *path, wane_model *model, wane_session_file *file, wane_error *error) {
    int status = wane_session_file_info(path, file, error);
    if (status != WANE_OK) return status;
    file->same_settings = strcmp(file->settings, model->settings) == 0;
    status = check_same(model, path, file, error);
    if (status == WANE_OK) return status;
    wane_session_file_free(file);
    *file = (wane_session_file){0};
    return status;
}

static int restore(wane_session *session, wane_model *model, const struct wane__session_bytes *parsed,
                   const char *path, wane_error *error) {
    struct wane__engine *engine = model->engine;
    const wane_session_file *file = &parsed->file;
    wane_error why = {0};
    int32_t *tokens = wane__alloc_zero((size_t)file->held + 1, sizeof *tokens);
    if (tokens == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for the session %s.", path);
    for (int i = 0; i < file->held; i++) tokens[i] = (int32_t)wane__get(parsed->tokens + 4 * (size_t)i, 4);
    engine->ops->truncate(engine, 0, 0);
    int status = wane__session_holds(session, NULL, 0, error);
    if (status == WANE_OK && file->held > 0) {
        status =
            engine->ops->state_load(engine, 0, parsed->state, (size_t)file->state_bytes, file->held, &why);
        if (status != WANE_OK) wane__fail(error, status, "The session %s cannot go on: %s", path, why.text);
    }
    if (status == WANE_OK) status = wane__session_holds(session, tokens, file->held, error);
    if (status != WANE_OK) engine->ops->truncate(engine, 0, 0);
    wane__free(tokens);
    return status;
}

int wane_session_load(wane_session *session, const char *path, wane_session_file *file, wane_error *error) {
    struct wane__session_parts parts;
    struct wane__session_bytes parsed;
    char *bytes = NULL;
    wane__clear(error);
    if (file != NULL) *file = (wane_session_file){0};
    wane__session_rest(session, &parts);
    struct wane__engine *engine = parts.model->engine;
    if (engine->ops->state_load == NULL)
        return wane__fail(error, WANE_EUNSUPPORTED, "The engine %s cannot take a sequence's state.",
                          engine->ops->name);
    int status = read_file(path, &bytes, &parsed, error);
    if (status == WANE_OK) status = check_same(parts.model, path, &parsed.file, error);
    if (status == WANE_OK) status = restore(session, parts.model, &parsed, path, error);
    if (status == WANE_OK) {
        wane_session_set_tau(session, parsed.file.tau, NULL);
        wane_session_set_flags(session, parsed.file.sfcl_flags | WANE_SFCL_LOADED, NULL);
        parsed.file.same_settings = strcmp(parsed.file.settings, parts.model->settings) == 0;
    }
    wane__free(bytes);
    if (status == WANE_OK && file != NULL)
        *file = parsed.file;
    else
        wane_session_file_free(&parsed.file);
    return status;
}
