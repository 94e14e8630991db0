/*
 * audit_chain.c - what a record is and how it is hashed; notes; the key. Knows no file but the key's. docs/audit.md has the formula, and a
 * program of twenty lines that checks a log without wane: what is hashed here may not change without another word in front.
 */
#include "core/bytes.h"
#include "core/error.h"
#include "core/file.h"
#include "core/memory.h"
#include "ops/audit.h"

#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char word[] = "wane-audit-1";

static const struct {
    const char *name;
    bool json;
} fields[WANE_AUDIT_FIELDS] = {
    [WANE_AUDIT_SEQ] = {"seq", false},
    [WANE_AUDIT_AT] = {"at", false},
    [WANE_AUDIT_EVENT] = {"event", false},
    [WANE_AUDIT_REQUEST] = {"request", false},
    [WANE_AUDIT_REPLY] = {"reply", false},
    [WANE_AUDIT_KEY] = {"key", false},
    [WANE_AUDIT_TENANT] = {"tenant", false},
    [WANE_AUDIT_API] = {"api", false},
    [WANE_AUDIT_MODE] = {"mode", false},
    [WANE_AUDIT_POLICY] = {"policy", true},
    [WANE_AUDIT_FEATURES] = {"features", true},
    [WANE_AUDIT_FINISH] = {"finish", false},
    [WANE_AUDIT_STATUS] = {"status", false},
    [WANE_AUDIT_PROMPT_TOKENS] = {"prompt_tokens", false},
    [WANE_AUDIT_REUSED_TOKENS] = {"reused_tokens", false},
    [WANE_AUDIT_REPLY_TOKENS] = {"reply_tokens", false},
    [WANE_AUDIT_MS] = {"ms", false},
    [WANE_AUDIT_TABLE] = {"slmt_table", false},
    [WANE_AUDIT_SLMT_USED] = {"slmt_used", false},
    [WANE_AUDIT_SLMT_SOURCE] = {"slmt_source", true},
    [WANE_AUDIT_SLMT_TAKEN] = {"slmt_taken", false},
    [WANE_AUDIT_ORIGIN] = {"origin", true},
    [WANE_AUDIT_WAKES] = {"wakes", true},
    [WANE_AUDIT_STATES] = {"states", true},
    [WANE_AUDIT_FUSE] = {"fuse", false},
    [WANE_AUDIT_FALLBACK] = {"fallback", false},
    [WANE_AUDIT_VOTE] = {"vote", true},
    [WANE_AUDIT_SHADOW] = {"shadow", false},
    [WANE_AUDIT_DIVERGENCES] = {"divergences", false},
    [WANE_AUDIT_LOST] = {"lost", false},
    [WANE_AUDIT_DETAIL] = {"detail", true},
    [WANE_AUDIT_PROMPT] = {"prompt", false},
    [WANE_AUDIT_TEXT] = {"text", false},
};

const char *wane_audit_field_name(int field) {
    return field >= 0 && field < WANE_AUDIT_FIELDS ? fields[field].name : NULL;
}

bool wane_audit_field_is_json(int field) {
    return field >= 0 && field < WANE_AUDIT_FIELDS && fields[field].json;
}

const char *wane_audit_fault_name(int fault) {
    static const char *const names[WANE_AUDIT_FAULTS] = {"whole",    "changed", "missing",   "reordered",
                                                         "replaced", "cut",     "unguarded", "damaged"};
    return fault >= 0 && fault < WANE_AUDIT_FAULTS ? names[fault] : "?";
}

void wane_audit_options_init(wane_audit_options *options) {
    *options = (wane_audit_options){.size = sizeof *options};
}

/* ------------------------------------------------------------------- notes */

struct wane__audit_note *wane__audit_note_new(const char *event) {
    struct wane__audit_note *note = wane__alloc_zero(1, sizeof *note);
    if (note != NULL) wane__audit_note_text(note, WANE_AUDIT_EVENT, event);
    return note;
}

void wane__audit_note_free(struct wane__audit_note *note) {
    if (note == NULL) return;
    wane__buf_free(&note->text);
    wane__free(note);
}

void wane__audit_note_bytes(struct wane__audit_note *note, int field, const char *text, size_t size) {
    note->field[field].type = WANE_AUDIT_STRING;
    note->field[field].at = note->text.size;
    note->field[field].size = size;
    wane__buf_append(&note->text, text, size);
    wane__buf_append(&note->text, "", 1);
}

void wane__audit_note_text(struct wane__audit_note *note, int field, const char *text) {
    if (text != NULL) wane__audit_note_bytes(note, field, text, strlen(text));
}

void wane__audit_note_format(struct wane__audit_note *note, int field, const char *format, ...) {
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    wane__audit_note_text(note, field, text);
}

void wane__audit_note_number(struct wane__audit_note *note, int field, int64_t number) {
    note->field[field].type = WANE_AUDIT_NUMBER;
    note->field[field].number = number;
}

void wane__audit_note_counts(struct wane__audit_note *note, int field, const char *(*name)(int),
                             const uint32_t *counts, int count) {
    char text[1024] = "{";
    size_t used = 1;
    for (int i = 0; i < count && used < sizeof text; i++)
        if (counts[i] > 0)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s\"%s\":%u", used > 1 ? "," : "",
                                     name(i), counts[i]);
    if (used == 1 || used >= sizeof text - 1) return;
    text[used] = '}';
    wane__audit_note_bytes(note, field, text, used + 1);
}

/* ------------------------------------------------------------------- the chain */

static void add_number(crypto_generichash_state *state, uint64_t number) {
    uint8_t bytes[8];
    wane__put(bytes, number, 8);
    crypto_generichash_update(state, bytes, sizeof bytes);
}

void wane__audit_hash(const struct wane__audit_key *key, const unsigned char before[WANE__AUDIT_HASH],
                      const wane_audit_value field[WANE_AUDIT_FIELDS], unsigned char out[WANE__AUDIT_HASH]) {
    static const unsigned char mark[] = {'-', '#', '"'}; /* by type */
    crypto_generichash_state state;
    crypto_generichash_init(&state, key->given ? key->bytes : NULL, key->given ? WANE__AUDIT_KEY : 0,
                            WANE__AUDIT_HASH);
    crypto_generichash_update(&state, (const unsigned char *)word, sizeof word - 1);
    crypto_generichash_update(&state, before, WANE__AUDIT_HASH);
    for (int i = 0; i < WANE_AUDIT_FIELDS; i++) {
        const wane_audit_value *v = &field[i];
        crypto_generichash_update(&state, &mark[v->type], 1);
        if (v->type == WANE_AUDIT_NUMBER) add_number(&state, (uint64_t)v->number);
        if (v->type != WANE_AUDIT_STRING) continue;
        add_number(&state, v->size);
        crypto_generichash_update(&state, (const unsigned char *)v->text, v->size);
    }
    crypto_generichash_final(&state, out, WANE__AUDIT_HASH);
}

/* ------------------------------------------------------------------- the key */

enum { KEY_FILE_MOST = 4096 };

static int digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Lines that begin with # are for people; then 64 hex digits, and nothing else but white space. */
static bool parse_key(const char *text, size_t size, unsigned char out[WANE__AUDIT_KEY]) {
    static const char blank[] = " \t\r\n";
    size_t at = 0;
    for (;;) {
        while (at < size && text[at] != '\0' && strchr(blank, text[at]) != NULL) at++;
        if (at >= size || text[at] != '#') break;
        while (at < size && text[at] != '\n') at++;
    }
    for (int i = 0; i < WANE__AUDIT_KEY; i++, at += 2) {
        int high = size - at < 2 ? -1 : digit(text[at]), low = size - at < 2 ? -1 : digit(text[at + 1]);
        if (high < 0 || low < 0) return false;
        out[i] = (unsigned char)(16 * high + low);
    }
    while (at < size && text[at] != '\0' && strchr(blank, text[at]) != NULL) at++;
    return at == size;
}

int wane__audit_key_read(const char *path, struct wane__audit_key *key, wane_error *error) {
    struct stat facts;
    char *text = NULL;
    size_t size = 0;
    *key = (struct wane__audit_key){.given = path != NULL};
    if (sodium_init() < 0) return wane__fail(error, WANE_EINTERNAL, "libsodium cannot start.");
    if (path == NULL) return WANE_OK;
    if (stat(path, &facts) == 0 && (facts.st_mode & 077) != 0)
        return wane__fail(error, WANE_EAUTH,
                          "The audit key %s can be read by others than its owner, so that anybody could make "
                          "a chain with it; "
                          "chmod 600 mends that.",
                          path);
    int status = wane__file_read(path, "the audit key", KEY_FILE_MOST, &text, &size, error);
    if (status != WANE_OK) return status;
    if (!parse_key(text, size, key->bytes))
        status = wane__fail(error, WANE_EFORMAT,
                            "%s is no audit key: it must hold 64 hexadecimal digits, as \"openssl rand -hex "
                            "32\" prints them.",
                            path);
    sodium_memzero(text, size);
    wane__free(text);
    if (status != WANE_OK) return status;
    unsigned char name[WANE__AUDIT_HASH];
    static const char of[] = "wane-audit-key";
    crypto_generichash(name, sizeof name, (const unsigned char *)of, sizeof of - 1, key->bytes,
                       sizeof key->bytes);
    sodium_bin2hex(key->name, sizeof key->name, name, 8);
    return WANE_OK;
}
