/*
 * session_form.c - the bytes of a session's file; see session_form.h. Owns the order of its fields. Refuses, in words, files of another
 * version or layout, and whatever is not whole: what is inside goes into the engine.
 *
 *      0   8  "WANESESS"            48  32  model, hexadecimal       200   4  tokens that the engine holds
 *      8   4  version              80  80  engine                   204   4  bytes of the settings
 *     12   4  bytes of the head   160  16  type of the cache's keys  208   8  bytes of the conversation
 *     16   8  layout              176  16  … of its values           216   8  bytes of the engine's state
 *     24   8  time, s             192   4  vocabulary
 *     32   8  tau                 196   4  tokens
 *     40   8  sfcl_flags
 */
#include "session_form.h"

#include "core/bytes.h"
#include "core/error.h"
#include "core/memory.h"

#include <jansson.h>
#include <math.h>
#include <string.h>
#include <xxhash.h>

static const char magic[8] = {'W', 'A', 'N', 'E', 'S', 'E', 'S', 'S'};
/* Change a field, and this changes with it. */
static const char layout[] =
    "magic 8, version 4, head 4, layout 8, time 8, tau 8, sfcl_flags 8, model 32, engine 80, "
    "keys 16, values 16, vocabulary 4, tokens 4, held 4, settings 4, conversation 8, state 8; "
    "settings, conversation, tokens 4 each, state, xxh3-64 8; little-endian";
enum { ROLE_MOST = 64, MESSAGES_MOST = 1000000 };

uint64_t wane__session_layout(void) {
    return XXH3_64bits(layout, sizeof layout - 1);
}

/* Zeros behind a text; no zero when it fills its place. */
static void put_text(unsigned char *to, const char *text, size_t room) {
    memset(to, 0, room);
    memcpy(to, text, strnlen(text, room));
}

void wane__session_put_head(const wane_session_file *file, size_t talk, unsigned char *head) {
    memset(head, 0, WANE__SESSION_HEAD);
    memcpy(head, magic, sizeof magic);
    wane__put(head + 8, WANE__SESSION_VERSION, 4);
    wane__put(head + 12, WANE__SESSION_HEAD, 4);
    wane__put(head + 16, wane__session_layout(), 8);
    wane__put(head + 24, (uint64_t)file->saved_at, 8);
    wane__put_double(head + 32, file->tau);
    wane__put(head + 40, file->sfcl_flags, 8);
    put_text(head + 48, file->model, 32);
    put_text(head + 80, file->engine, 80);
    put_text(head + 160, file->kv_type_k, 16);
    put_text(head + 176, file->kv_type_v, 16);
    wane__put(head + 192, (uint32_t)file->vocab_size, 4);
    wane__put(head + 196, (uint32_t)file->tokens, 4);
    wane__put(head + 200, (uint32_t)file->held, 4);
    wane__put(head + 204, strlen(file->settings), 4);
    wane__put(head + 208, talk, 8);
    wane__put(head + 216, file->state_bytes, 8);
}

/* -------------------------------------------------------------------- reading */

static int damaged(const char *name, const char *what, wane_error *error) {
    return wane__fail(error, WANE_EFORMAT,
                      "The session %s is damaged: %s. Save it again, or begin anew without it.", name, what);
}

/* A text of visible characters and blanks with nothing but zeros behind it. */
static bool get_text(const unsigned char *from, size_t room, char *out) {
    size_t size = strnlen((const char *)from, room);
    for (size_t i = 0; i < room; i++)
        if (i < size ? from[i] < 0x20 || from[i] > 0x7e : from[i] != 0) return false;
    memcpy(out, from, size);
    out[size] = '\0';
    return true;
}

/* The head's fields and the parts' places; sizes are compared with what is there before they are used. */
static const char *read_head(const unsigned char *head, size_t size, wane_session_file *file,
                             uint64_t *settings, uint64_t *talk) {
    uint64_t left = size - WANE__SESSION_HEAD - WANE__SESSION_TAIL;
    uint64_t tokens = wane__get(head + 196, 4), held = wane__get(head + 200, 4);
    file->tau = wane__get_double(head + 32);
    file->version = WANE__SESSION_VERSION;
    file->saved_at = (int64_t)wane__get(head + 24, 8);
    file->sfcl_flags = wane__get(head + 40, 8);
    file->state_bytes = wane__get(head + 216, 8);
    file->bytes = size;
    *settings = wane__get(head + 204, 4);
    *talk = wane__get(head + 208, 8);
    if (!wane__is_digest(head + 48) || !get_text(head + 48, 32, file->model) ||
        !get_text(head + 80, 80, file->engine) || !get_text(head + 160, 16, file->kv_type_k) ||
        !get_text(head + 176, 16, file->kv_type_v))
        return "its model, engine or types of cache are no words";
    if (!isfinite(file->tau) || file->tau < 0) return "its threshold is no number from 0 on";
    if ((file->sfcl_flags & ~(uint64_t)WANE_SFCL_ALL) != 0) return "it has flags that there are not";
    if (wane__get(head + 192, 4) < 1 || wane__get(head + 192, 4) > INT32_MAX)
        return "its vocabulary is empty";
    file->vocab_size = (int)wane__get(head + 192, 4);
    if (tokens > WANE__SESSION_TOKENS_MOST || held > tokens) return "its numbers of tokens make no sense";
    file->tokens = (int)tokens;
    file->held = (int)held;
    if (*settings > WANE__SESSION_SETTINGS_MOST || *talk > WANE__SESSION_TALK_MOST ||
        file->state_bytes > left || *settings + *talk + 4 * tokens + file->state_bytes != left)
        return "its size is not that of its parts";
    return NULL;
}

static int take_message(const json_t *from, wane_message *to) {
    json_t *role = json_object_get(from, "role"), *content = json_object_get(from, "content");
    if (!json_is_string(role) || !json_is_string(content) || json_object_size(from) != 2 ||
        json_string_length(role) < 1 || json_string_length(role) > ROLE_MOST ||
        strlen(json_string_value(role)) != json_string_length(role))
        return WANE_EFORMAT;
    char *name = wane__copy_string(json_string_value(role));
    char *text = wane__copy_bytes(json_string_value(content), json_string_length(content));
    *to = (wane_message){name, text, json_string_length(content)};
    return name != NULL && text != NULL ? WANE_OK : WANE_ENOMEM;
}

static int take_messages(const char *text, size_t size, wane_session_file *file) {
    json_t *all = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    int status = json_is_array(all) && json_array_size(all) <= MESSAGES_MOST ? WANE_OK : WANE_EFORMAT;
    size_t count = json_array_size(all);
    if (status == WANE_OK && count > 0) {
        file->messages = wane__alloc_zero(count, sizeof *file->messages);
        if (file->messages == NULL) status = WANE_ENOMEM;
    }
    while (status == WANE_OK && file->message_count < count) {
        size_t i = file->message_count++;
        status = take_message(json_array_get(all, i), &file->messages[i]);
    }
    json_decref(all);
    return status;
}

/* What must be known before anything else may be believed. */
static int check_form(const char *name, const unsigned char *bytes, size_t size, wane_error *error) {
    if (size < sizeof magic || memcmp(bytes, magic, sizeof magic) != 0)
        return wane__fail(error, WANE_EFORMAT, "%s is no session of wane's.", name);
    if (size < WANE__SESSION_HEAD + WANE__SESSION_TAIL) return damaged(name, "it is cut short", error);
    if (wane__get(bytes + 8, 4) != WANE__SESSION_VERSION)
        return wane__fail(
            error, WANE_EFORMAT,
            "The session %s has version %u; this wane knows version %d. It must be saved by this wane.", name,
            (unsigned)wane__get(bytes + 8, 4), WANE__SESSION_VERSION);
    if (wane__get(bytes + 12, 4) != WANE__SESSION_HEAD || wane__get(bytes + 16, 8) != wane__session_layout())
        return wane__fail(
            error, WANE_EFORMAT,
            "The session %s has another layout of its fields (%016llx; this wane's is %016llx): another "
            "build of wane wrote it. It must be saved by this one.",
            name, (unsigned long long)wane__get(bytes + 16, 8), (unsigned long long)wane__session_layout());
    if (XXH3_64bits(bytes, size - WANE__SESSION_TAIL) != wane__get(bytes + size - WANE__SESSION_TAIL, 8))
        return damaged(name, "its checksum is wrong", error);
    return WANE_OK;
}

int wane__session_parse(const char *name, const void *all, size_t size, struct wane__session_bytes *out,
                        wane_error *error) {
    const unsigned char *bytes = all;
    uint64_t settings = 0, talk = 0;
    wane_session_file *file = &out->file;
    *out = (struct wane__session_bytes){0};
    int status = check_form(name, bytes, size, error);
    if (status != WANE_OK) return status;
    const char *wrong = read_head(bytes, size, file, &settings, &talk);
    if (wrong != NULL) return damaged(name, wrong, error);
    const unsigned char *at = bytes + WANE__SESSION_HEAD;
    out->tokens = at + settings + talk;
    out->state = out->tokens + 4 * (size_t)file->tokens;
    for (int i = 0; i < file->tokens; i++)
        if (wane__get(out->tokens + 4 * (size_t)i, 4) >= (uint64_t)file->vocab_size)
            return damaged(name, "it has a token that there is not", error);
    file->settings = wane__alloc_zero(settings + 1, 1);
    if (file->settings == NULL) status = WANE_ENOMEM;
    if (status == WANE_OK && !get_text(at, (size_t)settings, file->settings)) status = WANE_EFORMAT;
    if (status == WANE_OK) status = take_messages((const char *)at + settings, (size_t)talk, file);
    if (status == WANE_OK) return WANE_OK;
    wane_session_file_free(file);
    return status == WANE_ENOMEM ? wane__fail(error, status, "No memory for the session %s.", name)
                                 : damaged(name, "its settings or its conversation cannot be read", error);
}

void wane_session_file_free(wane_session_file *file) {
    for (size_t i = 0; i < file->message_count; i++) {
        wane__free((char *)(uintptr_t)file->messages[i].role);
        wane__free((char *)(uintptr_t)file->messages[i].content);
    }
    wane__free(file->messages);
    wane__free(file->settings);
    *file = (wane_session_file){0};
}
