/*
 * audit_form.c - the form of an audit log as SQLite sees it: one table, three triggers that forbid to change it, and the two numbers in the
 * header by which a file says what it is.
 *
 * Refuses every other object in the file: a view, an index or a trigger that somebody added could make a reader see what is not there.
 */
#include "core/error.h"
#include "ops/audit.h"

#include <jansson.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

enum {
    APPLICATION = 0x77617564, /* "waud" */
    VERSION = 1,
    LENGTH_MOST = 4 << 20, /* bytes of a field: more than any that is written */
};

#define COLUMNS                                                                                        \
    "seq, at, event, request, reply, key, tenant, api, mode, policy, features, finish, status, "       \
    "prompt_tokens, "                                                                                  \
    "reused_tokens, reply_tokens, ms, slmt_table, slmt_used, slmt_source, slmt_taken, origin, wakes, " \
    "states, "                                                                                         \
    "fuse, fallback, vote, shadow, divergences, lost, detail, prompt, text, before, hash"

static const char table_sql[] =
    "CREATE TABLE audit(seq INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, event TEXT NOT NULL,"
    " request TEXT, reply TEXT, key TEXT, tenant TEXT, api TEXT, mode TEXT, policy TEXT, features TEXT,"
    " finish TEXT, status INTEGER, prompt_tokens INTEGER, reused_tokens INTEGER, reply_tokens INTEGER,"
    " ms INTEGER, slmt_table TEXT, slmt_used INTEGER, slmt_source TEXT, slmt_taken INTEGER, origin TEXT,"
    " wakes TEXT, states TEXT, fuse TEXT, fallback TEXT, vote TEXT, shadow INTEGER, divergences INTEGER,"
    " lost INTEGER, detail TEXT, prompt TEXT, text TEXT, before BLOB NOT NULL, hash BLOB NOT NULL)";

static const struct {
    const char *name, *sql;
} guards[] = {
    {"audit_no_update",
     "CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit BEGIN"
     " SELECT RAISE(ABORT, 'an audit log is append-only: a record is never changed'); END"},
    {"audit_no_delete",
     "CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit BEGIN"
     " SELECT RAISE(ABORT, 'an audit log is append-only: a record is never deleted'); END"},
    {"audit_in_order",
     "CREATE TRIGGER audit_in_order BEFORE INSERT ON audit"
     " WHEN EXISTS(SELECT 1 FROM audit) AND NEW.seq IS NOT (SELECT max(seq) FROM audit) + 1 BEGIN"
     " SELECT RAISE(ABORT, 'an audit log is append-only: a record stands behind the last one'); END"},
};
enum { GUARDS = sizeof guards / sizeof guards[0] };

const char wane__audit_select[] = "SELECT " COLUMNS " FROM audit";

/* ------------------------------------------------------------------- SQLite's words */

int wane__audit_form_failed(struct sqlite3 *base, const char *path, wane_error *error) {
    int code = base != NULL ? sqlite3_errcode(base) : SQLITE_NOMEM;
    const char *detail = base != NULL ? sqlite3_errmsg(base) : "";
    switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return wane__fail(error, WANE_EBUSY, "The audit log %s is locked by another program.", path);
    case SQLITE_FULL: return wane__fail(error, WANE_EIO, "The disk of the audit log %s is full.", path);
    case SQLITE_NOTADB: return wane__fail(error, WANE_EFORMAT, "The file %s is no audit log.", path);
    case SQLITE_CORRUPT:
        return wane__fail(error, WANE_EFORMAT, "The audit log %s is damaged: %s.", path, detail);
    case SQLITE_TOOBIG:
        return wane__fail(error, WANE_EFORMAT,
                          "The audit log %s holds a field of more than %d bytes, which no record has.", path,
                          LENGTH_MOST);
    case SQLITE_CANTOPEN:
        return wane__fail(error, WANE_EIO, "Cannot open the audit log %s: %s.", path, detail);
    case SQLITE_READONLY:
        return wane__fail(error, WANE_EIO, "The audit log %s may not be written here: %s.", path, detail);
    case SQLITE_NOMEM: return wane__fail(error, WANE_ENOMEM, "No memory for the audit log %s.", path);
    default: return wane__fail(error, WANE_EIO, "The audit log %s cannot be used: %s.", path, detail);
    }
}

void wane__audit_form_defend(struct sqlite3 *base) {
    sqlite3_db_config(base, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(base, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_limit(base, SQLITE_LIMIT_LENGTH, LENGTH_MOST);
    sqlite3_limit(base, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_exec(base, "PRAGMA cell_size_check=ON; PRAGMA mmap_size=0", NULL, NULL, NULL);
}

/* ------------------------------------------------------------------- the form */

static bool ask_number(struct sqlite3 *base, const char *sql, int64_t *value) {
    sqlite3_stmt *statement = NULL;
    bool fine = sqlite3_prepare_v2(base, sql, -1, &statement, NULL) == SQLITE_OK &&
                sqlite3_step(statement) == SQLITE_ROW;
    if (fine) *value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return fine;
}

static bool is_text(sqlite3_stmt *row, int column, const char *wanted) {
    const char *text = (const char *)sqlite3_column_text(row, column);
    return text != NULL && strcmp(text, wanted) == 0;
}

/* Which guard this object is; -1: the table, or SQLite's own; -2: it has no business here. */
static int object_of(sqlite3_stmt *row) {
    if (is_text(row, 0, "table") && is_text(row, 1, "audit")) return is_text(row, 2, table_sql) ? -1 : -2;
    if (is_text(row, 0, "table") && is_text(row, 1, "sqlite_sequence")) return -1;
    for (int i = 0; i < GUARDS; i++)
        if (is_text(row, 0, "trigger") && is_text(row, 1, guards[i].name))
            return is_text(row, 2, guards[i].sql) ? i : -2;
    return -2;
}

static int check_objects(struct sqlite3 *base, const char *path, char guard[64], wane_error *error) {
    sqlite3_stmt *row = NULL;
    bool seen[GUARDS] = {false}, table = false;
    int status = WANE_OK;
    int step = sqlite3_prepare_v2(base, "SELECT type, name, sql FROM sqlite_master", -1, &row, NULL);
    if (step == SQLITE_OK) step = SQLITE_ROW;
    while (status == WANE_OK && step == SQLITE_ROW && (step = sqlite3_step(row)) == SQLITE_ROW) {
        int object = object_of(row);
        if (object >= 0) seen[object] = true;
        table = table || is_text(row, 1, "audit");
        if (object != -2) continue;
        const char *name = (const char *)sqlite3_column_text(row, 1);
        status = wane__fail(
            error, WANE_EFORMAT,
            "The audit log %s holds \"%.60s\", which is not as wane makes it: somebody changed its form.",
            path, name != NULL ? name : "");
    }
    if (status == WANE_OK && step != SQLITE_DONE) status = wane__audit_form_failed(base, path, error);
    sqlite3_finalize(row);
    if (status == WANE_OK && !table)
        status = wane__fail(error, WANE_EFORMAT, "The audit log %s has no records' table.", path);
    for (int i = 0; i < GUARDS && guard[0] == '\0'; i++)
        if (!seen[i]) snprintf(guard, 64, "%s", guards[i].name);
    return status;
}

int wane__audit_form_check(struct sqlite3 *base, const char *path, bool *fresh, char guard[64],
                           wane_error *error) {
    int64_t application = 0, version = 0, objects = 0;
    guard[0] = '\0';
    *fresh = false;
    if (!ask_number(base, "PRAGMA application_id", &application) ||
        !ask_number(base, "PRAGMA user_version", &version) ||
        !ask_number(base, "SELECT count(*) FROM sqlite_master", &objects))
        return wane__audit_form_failed(base, path, error);
    *fresh = application == 0 && version == 0 && objects == 0;
    if (*fresh) return WANE_OK;
    if (application != APPLICATION)
        return wane__fail(error, WANE_EFORMAT, "The file %s is a data base, but no audit log.", path);
    if (version != VERSION)
        return wane__fail(error, WANE_EFORMAT, "The audit log %s has the form %lld; this wane knows %d.",
                          path, (long long)version, VERSION);
    return check_objects(base, path, guard, error);
}

int wane__audit_form_make(struct sqlite3 *base, const char *path, wane_error *error) {
    char numbers[96];
    bool fine = sqlite3_exec(base, table_sql, NULL, NULL, NULL) == SQLITE_OK;
    for (int i = 0; i < GUARDS; i++)
        fine = fine && sqlite3_exec(base, guards[i].sql, NULL, NULL, NULL) == SQLITE_OK;
    snprintf(numbers, sizeof numbers, "PRAGMA application_id=%d; PRAGMA user_version=%d", APPLICATION,
             VERSION);
    fine = fine && sqlite3_exec(base, numbers, NULL, NULL, NULL) == SQLITE_OK;
    return fine ? WANE_OK : wane__audit_form_failed(base, path, error);
}

/* ------------------------------------------------------------------- the key */

/* The name of the key in the first record's detail; "" without one. False: it is no first record. */
static bool key_name(struct sqlite3 *base, char name[17]) {
    sqlite3_stmt *row = NULL;
    json_t *detail = NULL;
    name[0] = '\0';
    if (sqlite3_prepare_v2(base, "SELECT detail FROM audit ORDER BY seq LIMIT 1", -1, &row, NULL) ==
            SQLITE_OK &&
        sqlite3_step(row) == SQLITE_ROW && sqlite3_column_type(row, 0) == SQLITE_TEXT) {
        const char *text = (const char *)sqlite3_column_text(row, 0);
        detail = json_loadb(text, (size_t)sqlite3_column_bytes(row, 0), 0, NULL);
    }
    sqlite3_finalize(row);
    const json_t *key = json_object_get(detail, "key");
    if (json_is_string(key)) snprintf(name, 17, "%s", json_string_value(key));
    bool known = json_is_string(key) || json_is_null(key);
    json_decref(detail);
    return known;
}

int wane__audit_form_key(struct sqlite3 *base, const char *path, const struct wane__audit_key *key,
                         wane_error *error) {
    char name[17];
    if (!key_name(base, name)) return WANE_OK; /* whoever verifies finds that its first record is not one */
    if (strcmp(name, key->name) == 0) return WANE_OK;
    if (name[0] == '\0')
        return wane__fail(
            error, WANE_EAUTH,
            "The audit log %s was begun without a key, and a key was given: it is not the log of that key.",
            path);
    if (!key->given)
        return wane__fail(error, WANE_EAUTH,
                          "The audit log %s is chained with a key (%s): name its file with --audit-key.",
                          path, name);
    return wane__fail(error, WANE_EAUTH, "The audit log %s is chained with the key %s, and %s was given.",
                      path, name, key->name);
}

/* ------------------------------------------------------------------- a row */

static bool take_hash(sqlite3_stmt *row, int column, unsigned char out[WANE__AUDIT_HASH]) {
    memset(out, 0, WANE__AUDIT_HASH);
    if (sqlite3_column_type(row, column) != SQLITE_BLOB) return false;
    const void *bytes = sqlite3_column_blob(row, column);
    if (bytes == NULL || sqlite3_column_bytes(row, column) != WANE__AUDIT_HASH) return false;
    memcpy(out, bytes, WANE__AUDIT_HASH);
    return true;
}

static bool take_value(sqlite3_stmt *row, int column, wane_audit_value *v) {
    *v = (wane_audit_value){0};
    switch (sqlite3_column_type(row, column)) {
    case SQLITE_NULL: return true;
    case SQLITE_INTEGER:
        v->type = WANE_AUDIT_NUMBER;
        v->number = sqlite3_column_int64(row, column);
        return true;
    case SQLITE_TEXT:
        v->text = (const char *)sqlite3_column_text(row, column);
        v->size = (size_t)sqlite3_column_bytes(row, column);
        v->type = v->text != NULL ? WANE_AUDIT_STRING : WANE_AUDIT_NONE;
        return v->text != NULL;
    default: return false;
    }
}

bool wane__audit_row(struct sqlite3_stmt *row, wane_audit_value field[WANE_AUDIT_FIELDS],
                     unsigned char before[WANE__AUDIT_HASH], unsigned char hash[WANE__AUDIT_HASH]) {
    bool fine = true;
    for (int i = 0; i < WANE_AUDIT_FIELDS; i++) fine = take_value(row, i, &field[i]) && fine;
    bool chained = take_hash(row, WANE_AUDIT_FIELDS, before);
    return take_hash(row, WANE_AUDIT_FIELDS + 1, hash) && chained && fine;
}
